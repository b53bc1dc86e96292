/* The socket of telemetry: samples wait in a ring until the server's turn comes to learn from them. */
#include <string.h>

#include "server/server_internal.h"

/* Sequence numbers that decrease mean that the publisher restarted, or that there are two. Gaps count as losses only
 * after a few increasing ones. */
static void count_losses(hb_server *s, uint64_t sequence)
{
    enum { ASCENDING = 10, LARGEST = 10000 };

    if (!sequence || !s->telemetry.sequence || sequence <= s->telemetry.sequence ||
        sequence - s->telemetry.sequence > LARGEST)
        s->telemetry.ascending = 0;
    else if (s->telemetry.ascending < ASCENDING)
        s->telemetry.ascending++;
    else
        s->status.counters.telemetry_lost += sequence - s->telemetry.sequence - 1;
    s->telemetry.sequence = sequence;
}

static void note_newest(hb_server *s, const hb_observation *o, double arrived)
{
    s->telemetry.arrived = arrived;
    memcpy(s->telemetry.state, o->x, (size_t)s->model->nx * sizeof *o->x);
    if (s->model->nu)
        memcpy(s->telemetry.control, o->u, (size_t)s->model->nu * sizeof *o->u);
    s->telemetry.sampled = true;
}

/* In lock-step a sample that comes by itself could be learned from before or after a request, as it happens. */
static void set_aside(hb_server *s)
{
    unsigned held;

    s->status.counters.set_aside[HB_REASON_CLOCK]++;
    if (hb_log_due(&s->limit.clock, hb_server_now(s), &held))
        hb_log_line(s->log, HB_LOG_WARNING,
                    "telemetry: samples are set aside: with latency.clock: vehicle they come with the requests "
                    "(ActionRequest.telemetry; lockstep of the clients) (%u more before)",
                    held);
}

/* Empties the socket into the ring; what does not fit pushes the oldest out. */
void hb_server_receive_telemetry(hb_server *s)
{
    size_t nx = (size_t)s->model->nx, nu = (size_t)s->model->nu;
    hb_envelope envelope;

    for (int i = 0; i < HB_REQUESTS_A_TURN; i++) {
        hb_observation o;
        uint64_t sequence;
        int n = hb_server_receive(s, HB_CHANNEL_TELEMETRY, &envelope);
        if (n == HB_NOTHING)
            return;
        s->status.counters.telemetry++;
        if (s->vehicle.lockstep) {
            set_aside(s);
            continue;
        }
        hb_reason why = n == HB_OVERSIZED ? HB_REASON_TOO_LARGE
                        : n < 0 || envelope.nframes
                            ? HB_REASON_MALFORMED
                            : hb_wire_read_telemetry(s->wire, s->frame, (size_t)n, &o, &sequence);
        bool nonsense = why == HB_REASON_NOT_FINITE; /* the controller gets it too, and reports the fault */
        if (why != HB_REASON_NONE && !nonsense) {
            s->status.counters.set_aside[why]++;
            continue;
        }
        count_losses(s, sequence);
        if (s->telemetry.count == HB_RING) {
            s->telemetry.first = (s->telemetry.first + 1) % HB_RING;
            s->telemetry.count--;
            s->status.counters.telemetry_overrun++;
        }
        hb_sample *sample = &s->telemetry.ring[(s->telemetry.first + s->telemetry.count++) % HB_RING];
        sample->arrived = hb_server_flight_now(s);
        sample->sequence = sequence;
        sample->observation = o;
        sample->observation.x = memcpy(sample->x, o.x, nx * sizeof *sample->x);
        sample->observation.u = sample->u;
        if (nu)
            memcpy(sample->u, o.u, nu * sizeof *sample->u);
        if (!nonsense)
            note_newest(s, &o, sample->arrived);
    }
}

void hb_server_learn_carried(hb_server *s, int nsamples)
{
    for (int i = 0; i < nsamples; i++) {
        hb_sample sample = {.arrived = hb_server_flight_now(s)};
        hb_reason why = hb_wire_request_sample(s->wire, i, &sample.observation, &sample.sequence);

        s->status.counters.telemetry++;
        count_losses(s, sample.sequence);
        if (why == HB_REASON_NONE)
            note_newest(s, &sample.observation, sample.arrived);
        hb_controller_observe(s->controller, &sample.observation, sample.arrived);
        hb_shadow_observe(s->shadow.thread, &sample.observation, sample.arrived);
        hb_server_record_sample(s, &sample, false);
    }
    s->telemetry.work_left |= nsamples > 0;
}

/* Learns from the oldest sample of the ring, or, when they pile up, from several at once. */
void hb_server_learn(hb_server *s)
{
    int n = s->telemetry.count < HB_ESTIMATOR_TOGETHER ? s->telemetry.count > 0 : HB_ESTIMATOR_TOGETHER;

    s->telemetry.work_left |= n > 0;
    for (; n > 0; n--) {
        hb_sample *sample = &s->telemetry.ring[s->telemetry.first];
        (n > 1 ? hb_controller_observe_more : hb_controller_observe)(s->controller, &sample->observation,
                                                                     sample->arrived);
        hb_shadow_observe(s->shadow.thread, &sample->observation, sample->arrived);
        hb_server_record_sample(s, sample, n > 1);
        s->telemetry.first = (s->telemetry.first + 1) % HB_RING;
        s->telemetry.count--;
    }
}
