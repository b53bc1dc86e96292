#include "server/wire.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "json.h"
#include "server/wire_internal.h"

enum {
    UNPACKED = 4, /* an unpacked message takes at most so many times its packed size, and */
    UNPACKED_FIXED = 4096,
    NUMBER_TEXT = 20,     /* characters of a number in JSON, at most */
    STATUS_FIXED = 32768, /* bytes of a status beside its vectors */
};

/* lib's lists in the order of the contract; an entry that one has and the other has not does not compile */
static const Hilbert__V1__ActionStatus wire_status[] = {
#define X(id, name, help) HILBERT__V1__ACTION_STATUS__ACTION_STATUS_##id,
    HB_STATUSES(X)
#undef X
};
static const Hilbert__V1__Reason wire_reason[] = {
#define X(id, name, help) HILBERT__V1__REASON__REASON_##id,
    HB_REASONS(X)
#undef X
};
static const Hilbert__V1__EstimateStatus wire_estimate[] = {
#define X(id, name, help) HILBERT__V1__ESTIMATE_STATUS__ESTIMATE_STATUS_##id,
    HB_ESTIMATE_STATUSES(X)
#undef X
};

size_t hb_wire_packed_covariance(const hb_wire_sizes *s)
{
    size_t nb = (size_t)s->nb;

    return nb ? (size_t)s->ncoefficients / nb * (nb * (nb + 1) / 2) : 0;
}

static bool covariance_fits(const hb_wire_sizes *s)
{
    return (hb_wire_packed_covariance(s) + 2 * (size_t)s->ncoefficients) * sizeof(double) + UNPACKED_FIXED <=
           (size_t)s->max_message;
}

/* With the shadow in the place of the model in use. */
static hb_wire_sizes exchanged(const hb_wire_sizes *s)
{
    hb_wire_sizes e = *s;

    e.ncoefficients = s->nshadow;
    e.nb = s->shadow_nb;
    e.nshadow = s->ncoefficients;
    e.shadow_nb = s->nb;
    return e;
}

/* Bytes of the covariance in a message. */
static size_t covariance_bytes(const hb_wire_sizes *s)
{
    return covariance_fits(s) ? hb_wire_packed_covariance(s) * sizeof(double) : 0;
}

static hb_wire *lay_out(const hb_wire_sizes *s, hb_arena *arena)
{
    hb_wire *w = hb_arena_take(arena, 1, sizeof *w);
    size_t nx = (size_t)s->nx, nu = (size_t)s->nu, nh = (size_t)s->horizon;
    size_t nc = (size_t)s->ncoefficients + (size_t)s->nshadow;
    size_t message = (size_t)s->max_message;
    size_t vectors = 2 * nc + (nh + 4) * nx + 2 * nu;
    size_t largest = vectors * NUMBER_TEXT + STATUS_FIXED; /* a status as JSON */
    size_t plan = ((nh + 1) * nx + (nh + 1) * nu) * sizeof(double) + STATUS_FIXED;

    largest = plan > largest ? plan : largest;
    largest = message > largest ? message : largest;
    const hb_wire_sizes other = exchanged(s);
    size_t covariance = covariance_bytes(s), theirs = covariance_bytes(&other);
    size_t nin = message * UNPACKED + UNPACKED_FIXED;
    size_t nout = (nc + nx + nu) * 256 + STATUS_FIXED + (covariance > theirs ? covariance : theirs);
    void *in = hb_arena_take(arena, nin, 1);
    void *out = hb_arena_take(arena, nout, 1);
    uint8_t *frame = hb_arena_take(arena, largest, 1);
    if (w) {
        w->sizes = *s;
        w->frame = frame;
        w->nframe = largest;
        hb_bump_start(&w->in, in, nin);
        hb_bump_start(&w->out, out, nout);
    }
    return w;
}

int hb_wire_new(hb_wire **ret, const hb_wire_sizes *s, hb_error *err)
{
    hb_arena arena = {0};

    lay_out(s, &arena);
    int r = hb_arena_allocate(&arena, err);
    if (r)
        return r;
    *ret = lay_out(s, &arena);
    return 0;
}

void hb_wire_free(hb_wire *w)
{
    free(w);
}

void hb_wire_exchange(hb_wire *w)
{
    w->sizes = exchanged(&w->sizes);
}

/* ---- checks ---- */

static bool all_finite(const double *v, size_t n)
{
    return hb_all_finite(v, (int)n); /* n is far below the frame's size in bytes */
}

/* Sums and differences of such times do not overflow. */
static bool possible(int64_t time_us)
{
    return time_us >= 0 && time_us < INT64_C(1) << 61;
}

/* ---- telemetry ---- */

static hb_reason take_sample(const hb_wire *w, const Hilbert__V1__Telemetry *m, hb_observation *ret,
                             uint64_t *ret_sequence)
{
    if (m->n_state != (size_t)w->sizes.nx || m->n_control != (size_t)w->sizes.nu)
        return HB_REASON_DIMENSION;
    if (!possible(m->time_us))
        return HB_REASON_BAD_TIME;
    *ret = (hb_observation){.time_us = m->time_us,
                            .x = m->state,
                            .nx = w->sizes.nx,
                            .u = m->control,
                            .nu = w->sizes.nu,
                            .reset_counter = m->reset_counter};
    *ret_sequence = m->sequence;
    if (!all_finite(m->state, m->n_state) || !all_finite(m->control, m->n_control))
        return HB_REASON_NOT_FINITE;
    return HB_REASON_NONE;
}

hb_reason hb_wire_read_telemetry(hb_wire *w, const void *data, size_t size, hb_observation *ret, uint64_t *ret_sequence)
{
    hb_bump_clear(&w->in);
    Hilbert__V1__Telemetry *m = hilbert__v1__telemetry__unpack(&w->in.allocator, size, data);

    return m ? take_sample(w, m, ret, ret_sequence) : HB_REASON_MALFORMED;
}

/* ---- actions ---- */

static hb_reason wrong_number(hb_action_request *ret, const char *what, size_t given, size_t expected)
{
    snprintf(ret->detail, sizeof ret->detail, "%s: %zu expected, %zu given", what, expected, given);
    return HB_REASON_DIMENSION;
}

/* Of all samples that a request carries, before any is used: the first that makes no sense. Numbers that are not finite
 * are the vehicle's fault, which the controller is to hear of. */
static hb_reason check_samples(const hb_wire *w, const Hilbert__V1__ActionRequest *m, hb_action_request *ret)
{
    for (size_t i = 0; i < m->n_telemetry; i++) {
        hb_observation o;
        uint64_t sequence;
        hb_reason why = take_sample(w, m->telemetry[i], &o, &sequence);
        if (why != HB_REASON_NONE && why != HB_REASON_NOT_FINITE) {
            snprintf(ret->detail, sizeof ret->detail,
                     "telemetry %zu: %zu states and %zu controls at %lld us, expected %d and %d", i + 1,
                     m->telemetry[i]->n_state, m->telemetry[i]->n_control, (long long)m->telemetry[i]->time_us,
                     w->sizes.nx, w->sizes.nu);
            return why;
        }
    }
    return HB_REASON_NONE;
}

hb_reason hb_wire_request_sample(hb_wire *w, int i, hb_observation *ret, uint64_t *ret_sequence)
{
    return take_sample(w, w->request->telemetry[i], ret, ret_sequence);
}

hb_reason hb_wire_read_request(hb_wire *w, const void *data, size_t size, hb_action_request *ret)
{
    size_t nx = (size_t)w->sizes.nx, nu = (size_t)w->sizes.nu, nreference = ((size_t)w->sizes.horizon + 1) * nx;

    *ret = (hb_action_request){0};
    hb_bump_clear(&w->in);
    Hilbert__V1__ActionRequest *m = hilbert__v1__action_request__unpack(&w->in.allocator, size, data);
    if (!m)
        return HB_REASON_MALFORMED;
    ret->id = m->id;
    ret->want_plan = m->want_plan;
    if (m->n_state != nx)
        return wrong_number(ret, "states", m->n_state, nx);
    if (m->n_applied && m->n_applied != nu)
        return wrong_number(ret, "applied controls", m->n_applied, nu);
    if (m->n_target % nx)
        return wrong_number(ret, "states of the target", m->n_target, nx);
    if (m->n_target_time && m->n_target_time * nx != m->n_target)
        return wrong_number(ret, "times of the targets", m->n_target_time, m->n_target / nx);
    if (m->n_target_time > HB_REFERENCE_ROWS) {
        snprintf(ret->detail, sizeof ret->detail, "targets with times: at most %d expected, %zu given",
                 HB_REFERENCE_ROWS, m->n_target_time);
        return HB_REASON_HORIZON;
    }
    if (m->n_target && !m->n_target_time && m->n_target != nx && m->n_target != nreference) {
        snprintf(ret->detail, sizeof ret->detail, "states along the target: 1 or %d expected, %zu given",
                 w->sizes.horizon + 1, m->n_target / nx);
        return HB_REASON_HORIZON;
    }
    if (!all_finite(m->state, m->n_state) || !all_finite(m->target, m->n_target) ||
        !all_finite(m->applied, m->n_applied) || !all_finite(m->target_time, m->n_target_time))
        return HB_REASON_NOT_FINITE;
    if (!possible(m->time_us))
        return HB_REASON_BAD_TIME;
    ret->request = (hb_request){.time_us = m->time_us,
                                .x = m->state,
                                .nx = w->sizes.nx,
                                .applied = m->n_applied ? m->applied : NULL,
                                .napplied = (int)m->n_applied,
                                .target = m->n_target ? m->target : NULL,
                                .ntargets = (int)(m->n_target / nx),
                                .target_time = m->n_target_time ? m->target_time : NULL,
                                .reset_counter = m->reset_counter};
    ret->budget = 1e-6 * m->budget_us;
    ret->lockstep = m->lockstep;
    ret->nsamples = (int)m->n_telemetry;
    w->request = m;
    return check_samples(w, m, ret);
}

/* protobuf-c never writes to what it packs */
static double *vector(const double *v, size_t n, size_t *ret_n)
{
    *ret_n = v ? n : 0;
    return (double *)(uintptr_t)v;
}

static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

static uint32_t microseconds(double seconds)
{
    return (uint32_t)fmin(fmax(seconds * 1e6 + 0.5, 0), UINT32_MAX);
}

static void fill_health(Hilbert__V1__Health *m, const hb_health *h)
{
    hilbert__v1__health__init(m);
    m->status = wire_estimate[h->status];
    m->one_step_error = h->one_step_error;
    m->expected_error = h->expected_error;
    m->out_of_span = h->out_of_span;
    m->condition = h->condition;
    m->excitation = h->excitation;
    m->span_seconds = h->span_seconds;
    m->samples = (uint32_t)h->samples;
    m->version = h->version;
    m->changes = h->changes;
    m->rejected = h->rejected;
    m->plausibility = h->plausibility;
    m->implausible = h->implausible;
    m->adapted = h->adapted;
    m->outlier = h->outlier;
    m->actuator_lag = h->actuators.lag;
    m->actuator_lag_deviation = h->actuators.lag_deviation;
    m->actuator_delay = h->actuators.delay;
    m->actuator_delay_deviation = h->actuators.delay_deviation;
    m->fault = wire_reason[h->fault];
}

size_t hb_wire_pack(hb_wire *w, const ProtobufCMessage *m, const void **ret)
{
    *ret = w->frame;
    return protobuf_c_message_get_packed_size(m) <= w->nframe ? protobuf_c_message_pack(m, w->frame) : 0;
}

size_t hb_wire_write_reply(hb_wire *w, const hb_action_reply *r, const void **ret)
{
    Hilbert__V1__ActionReply m = HILBERT__V1__ACTION_REPLY__INIT;
    Hilbert__V1__Health health;
    size_t nx = (size_t)w->sizes.nx, nu = (size_t)w->sizes.nu;

    m.id = r->id;
    m.status = wire_status[r->status];
    m.reason = wire_reason[r->reason];
    m.action = vector(r->action, nu, &m.n_action);
    m.queue_us = microseconds(r->queue);
    m.planning_us = microseconds(r->planning);
    m.preparing_us = microseconds(r->preparing);
    m.total_us = microseconds(r->total);
    if (r->status == HB_STATUS_REFUSED || r->status == HB_STATUS_FALLBACK)
        m.detail = text(r->detail && *r->detail ? r->detail : hb_reason_help[r->reason]);
    if (r->command) {
        const hb_command *c = r->command;
        m.cost = c->cost;
        m.cost_term = vector(c->nterms ? c->terms : NULL, (size_t)c->nterms, &m.n_cost_term);
        m.iterations = (uint32_t)c->iterations;
        if (c->limit)
            m.limit = text(c->limit);
        m.prepare_stages = (uint32_t)c->stages;
        m.corrected = c->corrected;
        m.guest = c->guest;
        m.coefficient_version = c->version;
        m.coefficient_age = c->age;
        fill_health(&health, &c->health);
        m.health = &health;
        if (r->want_plan && c->horizon > 0 && c->horizon <= w->sizes.horizon) {
            m.plan = vector(c->plan, (size_t)c->horizon * nu, &m.n_plan);
            m.predicted = vector(c->states, (size_t)(c->horizon + 1) * nx, &m.n_predicted);
        }
    }
    return hb_wire_pack(w, &m.base, ret);
}

/* ---- control ---- */

/* In the states' units. Beyond it the cost overflows in single precision, and no plan can be made. */
static const double farthest_target = 1e9;

static const double longest_setting = 1e6; /* seconds that a setting may be for */

static int read_predict(const hb_wire *w, const Hilbert__V1__Predict *m, hb_control_request *ret, hb_error *err)
{
    size_t nx = (size_t)w->sizes.nx, nu = (size_t)w->sizes.nu;
    size_t count = m->count, steps = m->steps, room = (size_t)w->sizes.max_message / sizeof(double);

    if (count < 1 || steps < 1)
        return hb_fail(err, EINVAL, "predict: %zu trajectories of %zu steps: both must be at least 1", count, steps);
    /* each factor is below 2^32, so no product of two overflows */
    if (count * (steps + 1) > room / nx)
        return hb_fail(err, EMSGSIZE,
                       "predict: %zu trajectories of %zu steps would not fit sockets.max_message (%d bytes)", count,
                       steps, w->sizes.max_message);
    if (m->n_state != count * nx || m->n_control != count * steps * nu)
        return hb_fail(err, EINVAL, "predict: %zu states and %zu controls, expected %zu x %zu and %zu x %zu x %zu",
                       m->n_state, m->n_control, count, nx, count, steps, nu);
    if (!all_finite(m->state, m->n_state) || !all_finite(m->control, m->n_control) || !isfinite(m->dt) || m->dt < 0)
        return hb_fail(err, EINVAL, "predict: a number is not finite, or dt is negative");
    ret->predict =
        (hb_predict){.count = (int)count, .steps = (int)steps, .dt = m->dt, .state = m->state, .control = m->control};
    return 0;
}

static int read_coefficients(hb_wire *w, const Hilbert__V1__Coefficients *m, hb_control_request *ret, hb_error *err)
{
    size_t n = (size_t)w->sizes.ncoefficients;

    if (m->n_value != n)
        return hb_fail(err, EINVAL, "coefficients: %zu expected, %zu given", n, m->n_value);
    if (!all_finite(m->value, n))
        return hb_fail(err, EINVAL, "coefficients: a number is not finite");
    hb_real *c = hb_bump_take(&w->in, n * sizeof *c);
    if (!c)
        return hb_fail(err, EMSGSIZE, "coefficients: the message is too large");
    for (size_t i = 0; i < n; i++)
        c[i] = (hb_real)m->value[i];
    ret->coefficient = c;
    ret->model_hash = m->model_hash;
    return 0;
}

int hb_wire_read_control(hb_wire *w, const void *data, size_t size, hb_control_request *ret, hb_error *err)
{
    *ret = (hb_control_request){0};
    hb_bump_clear(&w->in);
    Hilbert__V1__ControlRequest *m = hilbert__v1__control_request__unpack(&w->in.allocator, size, data);
    if (!m)
        return hb_fail(err, EBADMSG, "not a ControlRequest (%zu bytes)", size);
    ret->id = m->id;
    switch (m->command_case) {
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_STATUS:
        ret->kind = HB_CONTROL_GET_STATUS;
        return 0;
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_MODEL:
        ret->kind = HB_CONTROL_GET_MODEL;
        return 0;
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_RESET_WINDOW:
        ret->kind = HB_CONTROL_RESET_WINDOW;
        return 0;
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_SET_TARGET:
        if (m->set_target->n_state != (size_t)w->sizes.nx)
            return hb_fail(err, EINVAL, "states of the target: %d expected, %zu given", w->sizes.nx,
                           m->set_target->n_state);
        if (!all_finite(m->set_target->state, m->set_target->n_state))
            return hb_fail(err, EINVAL, "target: a number is not finite");
        for (size_t i = 0; i < m->set_target->n_state; i++)
            if (fabs(m->set_target->state[i]) > farthest_target)
                return hb_fail(err, EINVAL, "target: state %zu is %g, expected at most %g in size", i,
                               m->set_target->state[i], farthest_target);
        ret->kind = HB_CONTROL_SET_TARGET;
        ret->target = m->set_target->state;
        return 0;
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_RELOAD:
        ret->kind = HB_CONTROL_RELOAD;
        return 0;
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_COEFFICIENTS:
        ret->kind = HB_CONTROL_GET_COEFFICIENTS;
        return 0;
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_SET_COEFFICIENTS:
        ret->kind = HB_CONTROL_SET_COEFFICIENTS;
        return read_coefficients(w, m->set_coefficients, ret, err);
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_RECORD:
        ret->kind = HB_CONTROL_RECORD;
        ret->on = m->record->on;
        return 0;
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_PREDICT:
        ret->kind = HB_CONTROL_PREDICT;
        return read_predict(w, m->predict, ret, err);
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_PROMOTE:
        ret->kind = HB_CONTROL_PROMOTE;
        return 0;
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_SET:
        ret->kind = HB_CONTROL_SET;
        ret->key = m->set->key;
        ret->value = m->set->value;
        ret->seconds = m->set->seconds;
        if (strlen(ret->key) >= HB_EDIT_KEY || strlen(ret->value) >= HB_EDIT_VALUE)
            return hb_fail(err, EINVAL, "set: a key has at most %d bytes, and a value %d", HB_EDIT_KEY - 1,
                           HB_EDIT_VALUE - 1);
        if (!(ret->seconds >= 0 && ret->seconds <= longest_setting))
            return hb_fail(err, EINVAL, "set: for %g seconds, expected 0 (no end) to %g", ret->seconds,
                           longest_setting);
        return 0;
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_SETTINGS:
        ret->kind = HB_CONTROL_GET_SETTINGS;
        return 0;
    default:
        return hb_fail(err, ENOSYS, "the request names no command that this version knows");
    }
}

/* ---- status ---- */

typedef struct status_messages {
    Hilbert__V1__Status status;
    Hilbert__V1__Health health;
    Hilbert__V1__Shadow shadow;
    Hilbert__V1__Health shadow_health;
    Hilbert__V1__Latency queue, planning, preparing, total;
    Hilbert__V1__ReplyCounts replies;
    Hilbert__V1__ReasonCounts refused, set_aside;
    Hilbert__V1__Counters counters;
    Hilbert__V1__Recorder recorder;
    Hilbert__V1__CostTerm term[HB_COST_TERMS + 1], *terms[HB_COST_TERMS + 1];
    Hilbert__V1__Word word[HB_MAX_WORDS], *words[HB_MAX_WORDS];
} status_messages;

static void fill_latency(Hilbert__V1__Latency *m, const hb_latency *l)
{
    hilbert__v1__latency__init(m);
    m->count = l->count;
    m->p50_us = l->p50;
    m->p99_us = l->p99;
    m->p999_us = l->p999;
    m->max_us = l->max;
    m->mean_us = l->mean;
    m->n_bound_us = m->n_within = HB_LATENCY_BOUNDS;
    m->bound_us = (uint64_t *)(uintptr_t)hb_latency_bound;
    m->within = (uint64_t *)(uintptr_t)l->within;
}

/* Counters by their names in lib's lists. */
static void fill_counts(ProtobufCMessage *m, const char *const *names, int n, const uint64_t *a, const uint64_t *b)
{
    for (int i = 0; i < n; i++) {
        uint64_t *field = hb_json_field(m, names[i]);
        if (field)
            *field = a[i] + b[i];
    }
}

static void fill_counters(Hilbert__V1__Counters *m, const hb_counters *c, const hb_server_counters *s)
{
    hilbert__v1__counters__init(m);
    m->telemetry = s->telemetry;
    m->transitions = c->transitions;
    m->telemetry_lost = s->telemetry_lost;
    m->telemetry_overrun = s->telemetry_overrun;
    m->requests = s->requests;
    m->replies_late = s->replies_late;
    m->replies_undelivered = s->replies_undelivered;
    m->control_requests = s->control_requests;
    m->control_errors = s->control_errors;
    m->dropped_candidates = c->dropped_candidates;
    m->corrected = c->corrected;
    m->prepare_stages = c->prepare_stages;
    m->prepare_us = c->prepare_us;
    m->predicted = c->predicted;
    m->disagreed = c->disagreed;
    m->reloads = s->reloads;
    m->reload_errors = s->reload_errors;
    m->promotions = s->promotions;
    m->handshakes_refused = s->handshakes_refused;
    m->guest_requests = s->guest_requests;
}

/* The coefficients as the doubles of the contract. */
static double *widen(hb_wire *w, const hb_real *c, size_t n)
{
    double *v = c ? hb_bump_take(&w->out, n * sizeof *v) : NULL;

    for (size_t i = 0; v && i < n; i++)
        v[i] = (double)c[i];
    return v;
}

/* The lower triangles of a covariance, nb x nb or one for each state; NULL when there is no room for them. */
static double *pack_covariance(hb_wire *w, const double *covariance)
{
    size_t n = hb_wire_packed_covariance(&w->sizes), nb = (size_t)w->sizes.nb, at = 0;
    double *v = covariance && covariance_fits(&w->sizes) ? hb_bump_take(&w->out, n * sizeof *v) : NULL;

    for (size_t row = 0; v && at < n; row++)
        for (size_t j = 0; j <= row % nb; j++)
            v[at++] = covariance[row * nb + j];
    return v;
}

static void fill_shadow(hb_wire *w, status_messages *m, const hb_shadow_report *r)
{
    Hilbert__V1__Shadow *s = &m->shadow;
    size_t n = (size_t)r->ncoefficients;

    if (!r->view)
        return;
    hilbert__v1__shadow__init(s);
    s->path = text(r->path);
    s->model_hash = r->model_hash;
    fill_health(s->health = &m->shadow_health, &r->view->health);
    s->coefficient = vector(widen(w, r->view->coefficient, n), n, &s->n_coefficient);
    s->variance = vector(r->view->variance, n, &s->n_variance);
    s->error = r->view->error;
    s->error_in_use = r->error_in_use;
    s->lost = r->view->lost;
    m->status.shadow = s;
}

static void fill_terms(status_messages *m, const hb_report *r)
{
    for (int i = 0; i < r->nterms; i++) {
        hilbert__v1__cost_term__init(m->terms[i] = &m->term[i]);
        m->term[i].name = r->term_name[i];
        m->term[i].weight = i + 1 < r->nterms ? r->terms[i].weight : r->limits_weight;
        m->term[i].value = r->term[i];
    }
    m->status.cost_term = m->terms;
    m->status.n_cost_term = (size_t)r->nterms;
}

/* Words that are not known just now are left out. */
static void fill_words(status_messages *m, const hb_report *r)
{
    size_t n = 0;

    for (int i = 0; r->model && i < r->model->nwords; i++) {
        Hilbert__V1__Word *word = &m->word[n];
        if (!isfinite(r->word[i].value) || !isfinite(r->word[i].deviation))
            continue;
        hilbert__v1__word__init(m->words[n++] = word);
        word->name = r->model->word_name[i];
        word->unit = r->model->word_unit[i];
        word->value = r->word[i].value;
        word->deviation = r->word[i].deviation;
        if (r->word_changed[i]) {
            word->changed = true;
            word->was = r->was[i].value;
            word->was_deviation = r->was[i].deviation;
        }
    }
    m->status.word = m->words;
    m->status.n_word = n;
}

static void fill_status(hb_wire *w, status_messages *m, const hb_report *r)
{
    Hilbert__V1__Status *s = &m->status;
    size_t nx = (size_t)w->sizes.nx, nu = (size_t)w->sizes.nu, nc = (size_t)w->sizes.ncoefficients;

    hilbert__v1__status__init(s);
    s->protocol = 1;
    s->version = text(r->version);
    s->name = text(r->name);
    s->model_hash = r->model_hash;
    s->uptime = r->uptime;
    s->telemetry_rate = r->telemetry_rate;
    s->request_rate = r->request_rate;
    if (r->answered) {
        s->last_status = wire_status[r->last_status];
        s->last_reason = wire_reason[r->last_reason];
    }
    s->telemetry_age = r->telemetry_age;
    fill_health(s->health = &m->health, &r->health);
    s->coefficient = vector(widen(w, r->coefficient, nc), nc, &s->n_coefficient);
    s->variance = vector(r->variance, nc, &s->n_variance);
    s->state = vector(r->state, nx, &s->n_state);
    s->control = vector(r->control, nu, &s->n_control);
    s->target = vector(r->target, nx, &s->n_target);
    s->target_of_request = r->target_of_request;
    s->target_since = r->target_since;
    s->target_by = text(r->target_by);
    s->action = vector(r->action, nu, &s->n_action);
    s->predicted = vector(r->npredicted ? r->predicted : NULL, (size_t)r->npredicted * nx, &s->n_predicted);
    s->cost = r->cost;
    s->iterations = (uint32_t)r->iterations;
    fill_terms(m, r);
    fill_words(m, r);
    fill_latency(s->queue = &m->queue, &r->queue);
    fill_latency(s->planning = &m->planning, &r->planning);
    fill_latency(s->preparing = &m->preparing, &r->preparing);
    fill_latency(s->total = &m->total, &r->total);
    s->budget_us = microseconds(r->budget);
    s->clients = (uint32_t)r->clients;
    s->adapting = r->adapting;
    s->resumed = r->resumed;

    if (r->recorder) {
        hilbert__v1__recorder__init(s->recorder = &m->recorder);
        s->recorder->on = r->recorder->on;
        s->recorder->file = text(r->recorder->file);
        s->recorder->bytes = r->recorder->bytes;
        s->recorder->messages = r->recorder->messages;
        s->recorder->lost = r->recorder->lost;
        s->recorder->files = r->recorder->files;
        s->recorder->pruned = r->recorder->pruned;
        s->recorder->errors = r->recorder->errors;
        s->recorder->error = text(r->recorder->error);
    }
    s->replies = &m->replies;
    s->refused = &m->refused;
    s->set_aside = &m->set_aside;
    hilbert__v1__reply_counts__init(s->replies);
    hilbert__v1__reason_counts__init(s->refused);
    hilbert__v1__reason_counts__init(s->set_aside);
    fill_counts(&s->replies->base, hb_status_name, HB_NSTATUSES, r->controller.status, r->server.status);
    fill_counts(&s->refused->base, hb_reason_name, HB_NREASONS, r->controller.refused, r->server.refused);
    fill_counts(&s->set_aside->base, hb_reason_name, HB_NREASONS, r->controller.set_aside, r->server.set_aside);
    fill_counters(s->counters = &m->counters, &r->controller, &r->server);
    fill_shadow(w, m, &r->shadow);
}

size_t hb_wire_write_status(hb_wire *w, const hb_report *r, const void **ret)
{
    status_messages m;

    hb_bump_clear(&w->out);
    fill_status(w, &m, r);
    return hb_wire_pack(w, &m.status.base, ret);
}

size_t hb_wire_write_status_json(hb_wire *w, const hb_report *r, const void **ret)
{
    status_messages m;

    hb_bump_clear(&w->out);
    fill_status(w, &m, r);
    *ret = w->frame;
    size_t n = hb_json_write(&m.status.base, (char *)w->frame, w->nframe);
    return n < w->nframe ? n : 0;
}

/* ---- replies to control ---- */

static Hilbert__V1__Channel **fill_channels(hb_wire *w, int n, char (*name)[HB_NAME_SIZE], char (*unit)[HB_NAME_SIZE],
                                            const hb_model *bounds)
{
    Hilbert__V1__Channel **list = hb_bump_take(&w->out, (size_t)n * sizeof *list);

    for (int i = 0; list && i < n; i++) {
        list[i] = hb_bump_take(&w->out, sizeof **list);
        if (!list[i])
            return NULL;
        hilbert__v1__channel__init(list[i]);
        list[i]->name = name[i];
        list[i]->unit = unit[i];
        if (bounds) {
            list[i]->min = bounds->control_min[i];
            list[i]->max = bounds->control_max[i];
            list[i]->trim = bounds->control_trim[i];
        }
    }
    return list;
}

static void fill_model(hb_wire *w, Hilbert__V1__ModelInfo *m, const hb_model_card *card)
{
    const hb_model *model = card->model;

    hilbert__v1__model_info__init(m);
    m->path = text(card->path);
    m->hash = model->hash;
    m->state = fill_channels(w, model->nx, model->state_name, model->state_unit, NULL);
    m->n_state = m->state ? (size_t)model->nx : 0;
    m->control = fill_channels(w, model->nu, model->control_name, model->control_unit, model);
    m->n_control = m->control ? (size_t)model->nu : 0;
    m->basis_functions = (uint32_t)model->nb;
    m->coefficients = (uint32_t)hb_model_ncoefficients(model);
    m->dt = model->dt;
    m->horizon = (uint32_t)card->horizon;
    m->plan_dt = card->plan_dt;
    m->notes = text(model->notes ? model->notes : "");
}

static void fill_settings(hb_wire *w, Hilbert__V1__Settings *m, const hb_settings_told *t)
{
    Hilbert__V1__Setting **list = hb_bump_take(&w->out, (size_t)t->nchanged * sizeof *list + 1);

    hilbert__v1__settings__init(m);
    m->file = text(t->file);
    m->line = t->line;
    m->n_line = (size_t)t->nlines;
    m->changed = list;
    for (int i = 0; list && i < t->nchanged; i++) {
        Hilbert__V1__Setting *s = hb_bump_take(&w->out, sizeof *s);
        if (!s)
            return;
        hilbert__v1__setting__init(list[m->n_changed++] = s);
        s->key = text(t->changed[i].key);
        s->value = text(t->changed[i].value);
        s->file_value = text(t->changed[i].file_value);
        s->by = text(t->changed[i].by);
        s->seconds = t->changed[i].until > 0 ? fmax(t->changed[i].until - t->now, 0) : 0;
    }
}

size_t hb_wire_write_control(hb_wire *w, const hb_control_reply *r, const void **ret)
{
    Hilbert__V1__ControlReply m = HILBERT__V1__CONTROL_REPLY__INIT;
    Hilbert__V1__ModelInfo model;
    Hilbert__V1__Coefficients coefficients = HILBERT__V1__COEFFICIENTS__INIT;
    Hilbert__V1__Prediction prediction = HILBERT__V1__PREDICTION__INIT;
    Hilbert__V1__Settings settings;
    status_messages status;

    hb_bump_clear(&w->out);
    m.id = r->id;
    m.ok = !r->error;
    m.error = text(r->error ? r->error : "");
    m.needs_restart = (char **)(uintptr_t)r->needs_restart;
    m.n_needs_restart = (size_t)r->nneeds_restart;
    m.restart_error = (char *)(uintptr_t)(r->restart_error ? r->restart_error : "");
    if (r->report) {
        fill_status(w, &status, r->report);
        m.result_case = HILBERT__V1__CONTROL_REPLY__RESULT_STATUS;
        m.status = &status.status;
    } else if (r->card) {
        fill_model(w, &model, r->card);
        m.result_case = HILBERT__V1__CONTROL_REPLY__RESULT_MODEL;
        m.model = &model;
    } else if (r->coefficient) {
        coefficients.model_hash = r->model_hash;
        coefficients.version = r->version;
        size_t nc = (size_t)w->sizes.ncoefficients;
        coefficients.value = vector(widen(w, r->coefficient, nc), nc, &coefficients.n_value);
        coefficients.variance = vector(r->variance, (size_t)w->sizes.ncoefficients, &coefficients.n_variance);
        coefficients.covariance =
            vector(pack_covariance(w, r->covariance), hb_wire_packed_covariance(&w->sizes), &coefficients.n_covariance);
        m.result_case = HILBERT__V1__CONTROL_REPLY__RESULT_COEFFICIENTS;
        m.coefficients = &coefficients;
    } else if (r->predicted) {
        prediction.count = (uint32_t)r->count;
        prediction.steps = (uint32_t)r->steps;
        prediction.coefficient_version = r->version;
        prediction.state =
            vector(r->predicted, (size_t)r->count * (size_t)(r->steps + 1) * (size_t)w->sizes.nx, &prediction.n_state);
        m.result_case = HILBERT__V1__CONTROL_REPLY__RESULT_PREDICTION;
        m.prediction = &prediction;
    } else if (r->settings) {
        fill_settings(w, &settings, r->settings);
        m.result_case = HILBERT__V1__CONTROL_REPLY__RESULT_SETTINGS;
        m.settings = &settings;
    }
    size_t n = hb_wire_pack(w, &m.base, ret);
    if (n == 0 && !r->error)
        return hb_wire_write_control(
            w, &(hb_control_reply){.id = r->id, .error = "the answer would not fit sockets.max_message"}, ret);
    return n;
}
