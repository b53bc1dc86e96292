/* Recordings: messages in which what came in or went out is wrapped as it is, with what a replay needs beside it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/wire_internal.h"

/* protobuf-c never writes to what it packs */
static double *vector(const double *v)
{
    return (double *)(uintptr_t)v;
}

static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

size_t hb_wire_field(uint8_t to[16], int field, size_t n)
{
    size_t at = 0;

    to[at++] = (uint8_t)(field << 3 | 2);
    for (; n > 127; n >>= 7)
        to[at++] = (uint8_t)(n | 128);
    to[at++] = (uint8_t)n;
    return at;
}

/* ---- the beginning ---- */

static void fill_channels(int n, Hilbert__V1__Channel *channel, Hilbert__V1__Channel **list, char (*name)[HB_NAME_SIZE],
                          char (*unit)[HB_NAME_SIZE])
{
    for (int i = 0; i < n; i++) {
        hilbert__v1__channel__init(list[i] = &channel[i]);
        channel[i].name = name[i];
        channel[i].unit = unit[i];
    }
}

int hb_wire_recording(const hb_recording *r, uint8_t **ret, size_t *ret_size, hb_error *err)
{
    const hb_model *model = r->model;
    size_t n = (size_t)(model->nx + model->nu + model->nwords);
    Hilbert__V1__Recording m = HILBERT__V1__RECORDING__INIT;
    Hilbert__V1__Channel *channel = calloc(n, sizeof *channel), **list = calloc(n, sizeof *list);

    if (!channel || !list) {
        free(channel);
        free(list);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    fill_channels(model->nx, channel, list, model->state_name, model->state_unit);
    fill_channels(model->nu, channel + model->nx, list + model->nx, model->control_name, model->control_unit);
    for (int i = 0; i < model->nu; i++) {
        channel[model->nx + i].min = model->control_min[i];
        channel[model->nx + i].max = model->control_max[i];
        channel[model->nx + i].trim = model->control_trim[i];
    }
    fill_channels(model->nwords, channel + model->nx + model->nu, list + model->nx + model->nu, model->word_name,
                  model->word_unit);
    m.word = list + model->nx + model->nu;
    m.n_word = (size_t)model->nwords;
    m.version = text(HB_VERSION);
    m.name = text(r->name);
    m.model = text(r->model_path);
    m.model_hash = model->hash;
    m.configuration = text(r->configuration);
    m.run = r->run;
    m.dt = model->dt;
    m.state = list;
    m.n_state = (size_t)model->nx;
    m.control = list + model->nx;
    m.n_control = (size_t)model->nu;
    *ret_size = hilbert__v1__recording__get_packed_size(&m);
    *ret = malloc(*ret_size);
    if (*ret)
        hilbert__v1__recording__pack(&m, *ret);
    free(channel);
    free(list);
    return *ret ? 0 : hb_fail(err, ENOMEM, "out of memory");
}

/* ---- what comes in ---- */

size_t hb_wire_record_sample(hb_wire *w, const hb_observation *o, uint64_t sequence, double arrived, uint64_t heard,
                             bool more, const void **ret)
{
    Hilbert__V1__RecordedSample m = HILBERT__V1__RECORDED_SAMPLE__INIT;
    Hilbert__V1__Telemetry telemetry = HILBERT__V1__TELEMETRY__INIT;

    telemetry.time_us = o->time_us;
    telemetry.state = vector(o->x);
    telemetry.n_state = (size_t)o->nx;
    telemetry.control = vector(o->u);
    telemetry.n_control = o->u ? (size_t)o->nu : 0;
    telemetry.sequence = sequence;
    telemetry.reset_counter = o->reset_counter;
    m.telemetry = &telemetry;
    m.arrived = arrived;
    m.heard = heard;
    m.more = more;
    return hb_wire_pack(w, &m.base, ret);
}

/* A message whose field 1, of n bytes, is to follow; 0: no room. */
static size_t pack_head(const ProtobufCMessage *m, size_t n, uint8_t to[HB_RECORD_HEAD])
{
    size_t size = protobuf_c_message_get_packed_size(m);

    if (size + 16 > HB_RECORD_HEAD)
        return 0;
    protobuf_c_message_pack(m, to);
    return n ? size + hb_wire_field(to + size, 1, n) : size;
}

size_t hb_wire_record_request(hb_wire *w, const hb_request *r, uint64_t heard, bool guest, size_t n,
                              uint8_t to[HB_RECORD_HEAD])
{
    Hilbert__V1__RecordedRequest m = HILBERT__V1__RECORDED_REQUEST__INIT;

    (void)w;
    m.received = r->received;
    m.heard = heard;
    m.fresh = r->fresh;
    m.guest = guest;
    return pack_head(&m.base, n, to);
}

size_t hb_wire_record_control(hb_wire *w, double received, const char *error, size_t n, uint8_t to[HB_RECORD_HEAD])
{
    Hilbert__V1__RecordedControl m = HILBERT__V1__RECORDED_CONTROL__INIT;

    (void)w;
    m.received = received;
    m.error = text(error ? error : "");
    return pack_head(&m.base, n, to);
}

/* ---- what is decided ---- */

static void fill_prepared(Hilbert__V1__Prepared *m, const hb_prepared *p)
{
    hilbert__v1__prepared__init(m);
    m->calls = p->calls;
    m->refused = (uint32_t *)(uintptr_t)p->decisions.refused;
    m->n_refused = p->calls ? (size_t)p->decisions.nrefused : 0;
    m->lost = p->calls && p->decisions.lost;
}

size_t hb_wire_record_reply(hb_wire *w, double received, const hb_decision *d, bool unsent, size_t n,
                            uint8_t to[HB_RECORD_HEAD])
{
    Hilbert__V1__RecordedReply m = HILBERT__V1__RECORDED_REPLY__INIT;
    Hilbert__V1__Decision decision = HILBERT__V1__DECISION__INIT;
    Hilbert__V1__Prepared prepared;

    (void)w;
    m.received = received;
    m.unsent = unsent;
    if (d) {
        decision.tick = d->tick;
        decision.begun = d->begun;
        decision.budget = d->budget;
        decision.snapshot = d->snapshot;
        decision.fallback = d->fallback;
        decision.fresh = d->fresh;
        decision.guest = d->guest;
        if (d->prepared)
            fill_prepared(decision.prepared = &prepared, d->prepared);
        if (d->decisions) {
            decision.refused = (uint32_t *)(uintptr_t)d->decisions->refused;
            decision.n_refused = (size_t)d->decisions->nrefused;
            decision.lost = d->decisions->lost;
        }
        m.decision = &decision;
    }
    return pack_head(&m.base, n, to);
}

size_t hb_wire_record_change(hb_wire *w, const hb_recorded_change *c, const void **ret)
{
    Hilbert__V1__RecordedChange m = HILBERT__V1__RECORDED_CHANGE__INIT;
    Hilbert__V1__Target target = HILBERT__V1__TARGET__INIT;
    Hilbert__V1__Nothing nothing = HILBERT__V1__NOTHING__INIT;
    Hilbert__V1__Prepared prepared;

    if (c->target) {
        target.state = vector(c->target);
        target.n_state = (size_t)w->sizes.nx;
        m.change_case = HILBERT__V1__RECORDED_CHANGE__CHANGE_TARGET;
        m.target = &target;
    } else if (c->prediction) {
        m.change_case = HILBERT__V1__RECORDED_CHANGE__CHANGE_PREDICTION;
        m.prediction = &nothing;
        m.snapshot = c->snapshot;
    } else if (c->promotion) {
        m.change_case = HILBERT__V1__RECORDED_CHANGE__CHANGE_PROMOTION;
        m.promotion = &nothing;
    }
    if (c->stays) {
        target.state = vector(c->stays);
        target.n_state = (size_t)w->sizes.nx;
        m.stays = &target;
    }
    if (c->prepared)
        fill_prepared(m.prepared = &prepared, c->prepared);
    return hb_wire_pack(w, &m.base, ret);
}

/* Rounded to eight binary digits: enough for a deviation, and it compresses better. */
static float rounded(double value)
{
    int exponent;
    double fraction = frexp(value, &exponent);

    return (float)ldexp(round(fraction * 256) / 256, exponent);
}

/* Lower triangles, as floats. */
static float *narrow_covariance(hb_wire *w, const double *covariance, size_t *ret_n)
{
    size_t n = hb_wire_packed_covariance(&w->sizes), nb = (size_t)w->sizes.nb, at = 0;
    float *v = covariance ? hb_bump_take(&w->out, n * sizeof *v) : NULL;

    for (size_t row = 0; v && at < n; row++)
        for (size_t j = 0; j <= row % nb; j++)
            v[at++] = rounded(covariance[row * nb + j]);
    *ret_n = at;
    return v;
}

size_t hb_wire_record_coefficients(hb_wire *w, const hb_recorded_coefficients *c, const void **ret)
{
    static const Hilbert__V1__EstimateStatus status[] = {
#define X(id, name, help) HILBERT__V1__ESTIMATE_STATUS__ESTIMATE_STATUS_##id,
        HB_ESTIMATE_STATUSES(X)
#undef X
    };
    size_t n = (size_t)w->sizes.ncoefficients;
    Hilbert__V1__RecordedCoefficients m = HILBERT__V1__RECORDED_COEFFICIENTS__INIT;

    hb_bump_clear(&w->out);
    float *deviation = c->variance ? hb_bump_take(&w->out, n * sizeof *deviation) : NULL;
    for (size_t i = 0; deviation && i < n; i++)
        deviation[i] = rounded(sqrt(fmax(c->variance[i], 0)));
    m.version = c->health->version;
    m.time_us = c->time_us;
    m.value = (float *)(uintptr_t)c->value;
    m.n_value = n;
    m.deviation = deviation;
    m.n_deviation = deviation ? n : 0;
    m.covariance = narrow_covariance(w, c->covariance, &m.n_covariance);
    m.status = status[c->health->status];
    m.one_step_error = c->health->one_step_error;
    return hb_wire_pack(w, &m.base, ret);
}
