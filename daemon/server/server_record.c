/* Hands to the journal what the server takes in and decides, after it has been dealt with: no reply waits for it. */
#include <math.h>
#include <string.h>

#include "server/server_internal.h"
#include "server/signals.h"

/* Of a moment of the flight's clock, the time of day in nanoseconds; in lock-step, in which seconds pass as fast as the
 * simulator is, that of its start and what has passed since for the vehicle. */
static uint64_t day_time(const hb_server *s, double moment)
{
    return (uint64_t)llround(moment * 1e9) + s->record.day_offset;
}

static void put(hb_server *s, hb_topic topic, double moment, const void *a, size_t na, const void *b, size_t nb)
{
    uint64_t time = day_time(s, moment);

    if (na + nb > 0)
        hb_journal_put(s->record.journal, topic, time, time, a, na, b, nb);
}

size_t hb_server_largest_record(const hb_config *c, const hb_model *m)
{
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu, nh = (size_t)c->controller.planner.horizon,
           nc = (size_t)hb_model_ncoefficients(m);
    size_t plan = (nh + 1) * (nx + nu) * sizeof(double), status = (2 * nc + 3 * nx + 2 * nu) * sizeof(double),
           covariance = (nc * (size_t)(m->nb + 1) / 2 + 2 * nc) * sizeof(float), text = 1 << 17;

    return (size_t)c->sockets.max_message + plan + status + covariance + text;
}

void hb_server_record_start(hb_server *s)
{
    s->record.day_offset =
        (uint64_t)llround(s->wall.now(s->wall.context) * 1e9) - (uint64_t)llround(hb_server_flight_now(s) * 1e9);
}

/* seconds: how sure they are changes slowly, and takes room */
static const double deviation_period = 1, covariance_period = 5;

/* When they have changed. */
static void record_coefficients(hb_server *s, double now, int64_t time_us)
{
    const hb_health *h = hb_controller_health(s->controller);
    const bool due = now >= s->record.next_covariance;
    const double *variance;
    hb_recorded_coefficients c = {.health = h, .time_us = time_us};
    const void *data;

    if (h->version == s->record.version)
        return;
    s->record.version = h->version;
    c.value = hb_controller_coefficients(s->controller, &variance);
    if (now >= s->record.next_deviation) {
        c.variance = variance;
        s->record.next_deviation = now + deviation_period;
    }
    c.covariance = due ? hb_controller_covariance(s->controller) : NULL;
    if (due)
        s->record.next_covariance = now + covariance_period;
    size_t n = hb_wire_record_coefficients(s->wire, &c, &data);
    put(s, HB_TOPIC_COEFFICIENTS, now, data, n, NULL, 0);
}

void hb_server_record_sample(hb_server *s, const hb_sample *sample, bool more)
{
    const hb_observation *o = &sample->observation;
    const void *data;

    if (!hb_journal_on(s->record.journal))
        return;
    size_t n = hb_wire_record_sample(s->wire, o, sample->sequence, sample->arrived, hb_controller_heard(s->controller),
                                     more, &data);
    put(s, HB_TOPIC_TELEMETRY, sample->arrived, data, n, NULL, 0);
    n = hb_signals_write(o->nx, o->x, o->nu, o->u, s->record.signals);
    put(s, (hb_topic)HB_TOPIC_NAMED, sample->arrived, s->record.signals, n, NULL, 0);
    record_coefficients(s, sample->arrived, o->time_us);
}

void hb_server_record_request(hb_server *s, const hb_request *r, bool guest, size_t size)
{
    uint8_t head[HB_RECORD_HEAD];

    if (!hb_journal_on(s->record.journal))
        return;
    size_t n = hb_wire_record_request(s->wire, r, hb_controller_heard(s->controller), guest, size, head);
    put(s, HB_TOPIC_REQUESTS, r->received, head, n, s->frame, size);
    record_coefficients(s, r->received, r->time_us);
}

void hb_server_record_reply(hb_server *s, const hb_request *r, const hb_command *c, bool unsent, const void *reply,
                            size_t size)
{
    uint8_t head[HB_RECORD_HEAD];
    double now = hb_server_flight_now(s);

    if (!hb_journal_on(s->record.journal))
        return;
    const hb_decision d = {
        .tick = r->tick,
        .budget = round((r->deadline - r->received) / HB_DEADLINE_STEP) * HB_DEADLINE_STEP,
        .snapshot = c ? c->snapshot : 0,
        .begun = c ? c->begun : 0,
        .fallback = c && c->immediate,
        .fresh = r->fresh,
        .guest = r->guest,
        .prepared = c ? c->prepared : NULL,
        .decisions = c ? c->decisions : NULL,
    };
    size_t n = hb_wire_record_reply(s->wire, r->received, c ? &d : NULL, unsent, size, head);
    put(s, HB_TOPIC_REPLIES, now, head, n, reply, size);
}

void hb_server_record_control(hb_server *s, double received, const char *error, size_t size)
{
    uint8_t head[HB_RECORD_HEAD];

    if (!hb_journal_on(s->record.journal))
        return;
    size_t n = hb_wire_record_control(s->wire, received, error, size, head);
    put(s, HB_TOPIC_CONTROL, received, head, n, s->frame, size);
    record_coefficients(s, received, 0);
}

void hb_server_record_change(hb_server *s, const hb_recorded_change *c, const char *configuration)
{
    uint8_t field[16];
    const void *data;
    double now = hb_server_flight_now(s);
    uint64_t time = day_time(s, now);

    if (!hb_journal_on(s->record.journal))
        return;
    size_t n = hb_wire_record_change(s->wire, c, &data);
    if (!configuration) {
        put(s, HB_TOPIC_CHANGES, now, data, n, NULL, 0);
        return;
    }
    /* the text follows what is before it, with the head of its field at the end of that */
    uint8_t before[HB_RECORD_HEAD];
    size_t length = strlen(configuration), nfield = hb_wire_field(field, HB_CHANGE_CONFIGURATION, length);
    if (n + nfield > sizeof before)
        return;
    memcpy(before, data, n);
    memcpy(before + n, field, nfield);
    hb_journal_put(s->record.journal, HB_TOPIC_CHANGES, time, time, before, n + nfield, configuration, length);
}

void hb_server_record_status(hb_server *s)
{
    hb_report report;
    const void *data;

    if (!hb_journal_on(s->record.journal))
        return;
    hb_server_report(s, &report);
    size_t n = hb_wire_write_status(s->wire, &report, &data);
    put(s, HB_TOPIC_STATUS, hb_server_flight_now(s), data, n, NULL, 0);
}
