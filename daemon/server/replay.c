#include "server/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcap/mcap_reader.h"
#include "base/monotonic.h"
#include "server/recorded.h"

enum { SHOWN = 10 }; /* differences that are printed */

/* What both the recording and another configuration come to. */
typedef struct tally {
    uint64_t status[HB_NSTATUSES];
    uint64_t replies, planned;
    double cost, error; /* sums over plans */
} tally;

typedef struct replay {
    const hb_replay_settings *s;
    hb_config *config, *next;
    hb_config_errors *errors;
    hb_model *model;
    hb_pool *pool;
    void *memory;
    hb_controller *controller;
    hb_wire *wire;
    hb_recorded_head head;
    bool exact;     /* what was decided then is decided again, to the byte */
    bool same;      /* the configuration that was given is the flight's own */
    uint64_t start; /* of the first message, ns */

    hb_recorded *event; /* all of them */
    double *time;       /* of each, seconds from the first */
    size_t n, room;
    size_t next_plan; /* the first event of the thread of planning that was not done yet */
    double now;       /* of the clock that the controller sees */

    uint64_t coefficients, differences;
    uint64_t identical;
    size_t first_gap; /* event; n: none */
    uint64_t lost;
    bool promoted;
    tally then, there; /* recorded; with the other configuration */
    double moved;      /* sum of squared differences of actions, in units of their ranges */
    uint64_t nmoved;
} replay;

static double clock_now(void *context)
{
    return ((const replay *)context)->now;
}

/* ---- reading ---- */

static int add(replay *r, const hb_recorded *e, double time, hb_error *err)
{
    if (r->n == r->room) {
        size_t room = r->room ? 2 * r->room : 4096;
        hb_recorded *events = realloc(r->event, room * sizeof *events);
        r->event = events ? events : r->event;
        double *times = events ? realloc(r->time, room * sizeof *times) : NULL;
        r->time = times ? times : r->time;
        if (!events || !times)
            return hb_fail(err, ENOMEM, "out of memory");
        r->room = room;
    }
    r->event[r->n] = *e;
    r->time[r->n++] = time;
    return 0;
}

/* Whether the configuration that was given decides as the flight's does: then so does its replay, and whoever compares
 * two configurations begins with one that is the flight's. */
static bool is_flights_own(replay *r)
{
    hb_config *own = r->next;

    return hb_config_parse(own, "recording", r->head.configuration, strlen(r->head.configuration), r->errors) == 0 &&
           hb_config_resolve(own, r->model, r->errors) == 0 && hb_config_resolve(r->config, r->model, r->errors) == 0 &&
           own->threads == r->config->threads && own->sockets.max_message == r->config->sockets.max_message &&
           memcmp(&own->controller, &r->config->controller, sizeof own->controller) == 0;
}

/* The configuration in force then, or another. */
static int understand(replay *r, hb_error *err)
{
    const hb_replay_settings *s = r->s;
    int wrong = s->config ? hb_config_load(r->config, s->config, r->errors)
                          : hb_config_parse(r->config, "recording", r->head.configuration,
                                            strlen(r->head.configuration), r->errors);

    if (wrong)
        return hb_fail(err, EINVAL, "%s", r->errors->text[0]);
    const char *model = s->model ? s->model : r->config->model;
    int failed = hb_model_load(&r->model, model, err);
    if (failed)
        return failed;
    const bool its_model = r->model->hash == r->head.model_hash;
    r->same = s->config && its_model && r->head.file == 0 && r->head.whole && is_flights_own(r);
    r->exact = its_model && (!s->config || r->same);
    if (!s->config && !s->model && !r->exact)
        return hb_fail(err, EINVAL,
                       "%s has the hash %016" PRIx64 ", the recording was made with %016" PRIx64
                       ": --model names the file that it was made with",
                       model, r->model->hash, r->head.model_hash);
    if (hb_config_resolve(r->config, r->model, r->errors))
        return hb_fail(err, EINVAL, "%s", r->errors->text[0]);
    return 0;
}

static int make_controller(replay *r, hb_error *err)
{
    const hb_model *m = r->model;
    const hb_controller_settings *s = &r->config->controller;
    const hb_wire_sizes sizes = {.nx = m->nx,
                                 .nu = m->nu,
                                 .horizon = s->planner.horizon,
                                 .ncoefficients = hb_model_ncoefficients(m),
                                 .nb = m->nb,
                                 .max_message = r->config->sockets.max_message};
    size_t size = hb_estimator_memory_size(m, &s->estimator);
    hb_error resumed = {0};
    int failed = 0;

    /* what it had learned before, with another configuration too, if that has a window of the same size */
    if (r->head.nwindow && (r->exact || (r->head.nwindow == size && m->hash == r->head.model_hash))) {
        if (r->head.nwindow != size)
            return hb_fail(err, EINVAL, "the window that was taken over has %zu bytes, expected %zu", r->head.nwindow,
                           size);
        r->memory = aligned_alloc(64, (size + 63) / 64 * 64);
        if (!r->memory)
            return hb_fail(err, ENOMEM, "out of memory");
        memcpy(r->memory, r->head.window, size);
    }
    failed = hb_pool_new(&r->pool, r->config->threads, NULL, NULL, err);
    if (!failed)
        failed = hb_controller_new(&r->controller, m, s, r->pool, r->memory, &resumed, err);
    if (!failed && r->exact && r->memory && resumed.code)
        failed = hb_fail(err, resumed.code, "the window is not taken over: %s", resumed.text);
    if (!failed)
        failed = hb_wire_new(&r->wire, &sizes, err);
    return failed;
}

/* The head of the first file says what to replay with; those of the others must follow on it. */
static int take_head(replay *r, int number, const hb_mcap_message *m, hb_error *err)
{
    hb_recorded_head head = {0};
    int failed = hb_recorded_head_read(&head, m->data, m->size, err);

    if (failed)
        return failed;
    if (number > 0) {
        if (head.run != r->head.run || head.file != r->head.file + (uint32_t)number)
            failed = hb_fail(err, EINVAL, "it does not follow on the file before it");
        hb_recorded_head_free(&head);
        return failed;
    }
    r->head = head;
    failed = understand(r, err);
    if (!failed && r->exact && (head.file != 0 || !head.whole))
        failed =
            hb_fail(err, EINVAL,
                    "it begins in mid-flight (file %" PRIu32 " of its run%s): to the byte, only recordings from the "
                    "start of the daemon on can be replayed; give all files of the run in order",
                    head.file, head.whole ? "" : ", recorded later than from the start on");
    return failed ? failed : make_controller(r, err);
}

static int read_file(replay *r, int number, hb_error *err)
{
    const char *path = r->s->file[number];
    hb_mcap_reader *reader = NULL;
    hb_mcap_message m;
    bool headed = false;
    int got = hb_mcap_reader_open(&reader, path, err);

    if (got)
        return got;
    while ((got = hb_mcap_reader_next(reader, &m, err)) > 0) {
        hb_topic topic = hb_topic_find(m.channel->topic);
        hb_recorded e;
        int failed = 0;
        if (number == 0 && !headed)
            r->start = m.log_time;
        if (topic == HB_TOPIC_RECORDING) {
            failed = hb_fail_in(err, path, headed ? 0 : take_head(r, number, &m, err));
            headed = true;
        } else if (!headed) {
            failed = hb_fail(err, EINVAL, "%s: this is no recording of hilbertd", path);
        } else if (topic < HB_NTOPICS) {
            failed = hb_fail_in(err, path, hb_recorded_read(&e, topic, m.data, m.size, r->model, err));
            if (!failed && e.kind != HB_RECORDED_NOTHING)
                failed = add(r, &e, 1e-9 * (double)(int64_t)(m.log_time - r->start), err);
            else if (!failed)
                hb_recorded_free(&e);
        }
        if (failed) {
            hb_mcap_reader_free(reader);
            return failed;
        }
    }
    if (got == 0 && !headed)
        got = hb_fail(err, EINVAL, "%s: this is no recording of hilbertd", path);
    hb_mcap_reader_free(reader);
    return got;
}

/* ---- differences ---- */

static void differs(replay *r, size_t at, const char *text)
{
    if (r->differences++ < SHOWN)
        printf("%.6f s: %s\n", r->time[at], text);
}

/* ---- the thread of planning ---- */

static bool of_planning(hb_recorded_kind k)
{
    return k == HB_RECORDED_COMMAND || k == HB_RECORDED_TARGET || k == HB_RECORDED_RELOAD ||
           k == HB_RECORDED_PREDICTION || k == HB_RECORDED_PROMOTION;
}

/* What was prepared by then. */
static void prepare(replay *r, size_t at)
{
    const hb_recorded *e = &r->event[at];
    const hb_clock clock = {.now = clock_now, .context = r};

    if (!r->exact)
        return;
    if (e->prepared.decisions.lost || e->decisions.lost)
        differs(r, at, "more decisions were made by the clock than could be recorded");
    hb_controller_script(r->controller, &e->prepared.decisions, &e->decisions);
    const hb_prepared *done = hb_controller_prepared(r->controller);
    while (done && done->calls < e->prepared.calls) {
        uint64_t before = done->calls;
        hb_controller_prepare(r->controller, &clock, NULL, UINT64_MAX);
        done = hb_controller_prepared(r->controller);
        if (!done || done->calls == before) {
            differs(r, at, "what was prepared then is not prepared now");
            return;
        }
    }
}

/* The request that a reply answers: shortly before it, with the same time of receipt. */
static const hb_recorded *request_of(const replay *r, size_t at)
{
    for (size_t i = at; i-- > 0;)
        if (r->event[i].kind == HB_RECORDED_REQUEST && r->event[i].moment == r->event[at].moment)
            return &r->event[i];
    return NULL;
}

static void count(tally *t, hb_status status, double cost, double error)
{
    t->replies++;
    t->status[status]++;
    if (status == HB_STATUS_REFUSED || status == HB_STATUS_FALLBACK || !isfinite(cost))
        return;
    t->planned++;
    t->cost += cost;
    t->error += error;
}

static void compare_actions(replay *r, const double *then, const double *there)
{
    const hb_model *m = r->model;

    for (int i = 0; then && there && i < m->nu; i++) {
        double d = (there[i] - then[i]) / (m->control_max[i] - m->control_min[i]);
        r->moved += d * d;
        r->nmoved++;
    }
}

static void command(replay *r, size_t at)
{
    const hb_recorded *e = &r->event[at], *asked = request_of(r, at);
    const hb_clock clock = {.now = clock_now, .context = r};
    hb_action_request request;
    char what[256], text[300];

    if (!asked || hb_recorded_request(asked, r->wire, &request) != HB_REASON_NONE) {
        differs(r, at, "the request of this reply is not in the recording");
        return;
    }
    r->now = e->decision.begun;
    prepare(r, at);
    request.request.tick = e->decision.tick;
    request.request.deadline = request.request.received + e->decision.budget;
    request.request.fresh = e->decision.fresh;
    request.request.guest = e->decision.guest;
    const hb_command *c = e->decision.fallback ? hb_controller_fallback(r->controller, &request.request, HB_REASON_LATE,
                                                                        e->decision.begun)
                                               : hb_controller_command(r->controller, &request.request, &clock);
    count(&r->then, e->status, e->cost, e->error);
    count(&r->there, c->status, c->cost, c->health.one_step_error);
    compare_actions(r, e->action, c->action);
    if (!r->exact) {
        /* what this controller would have done was not flown: both learn from the same vehicle under the same actions
         */
        if (e->action && !e->unsent && e->status != HB_STATUS_REFUSED)
            hb_controller_flown(r->controller, &request.request, e->action);
        return;
    }
    if (c->snapshot != e->decision.snapshot)
        differs(r, at, "the estimate behind this reply is another");
    else if (hb_recorded_same(e, r->wire, c, request.want_plan, what))
        r->identical++;
    else {
        snprintf(text, sizeof text, "reply: %s", what);
        differs(r, at, text);
    }
}

static void retune(replay *r, size_t at)
{
    const hb_recorded *e = &r->event[at];
    hb_controller_settings *s = &r->config->controller;
    hb_error err;

    prepare(r, at);
    if (e->kind == HB_RECORDED_TARGET) {
        s->ntarget = r->model->nx;
        memcpy(s->target, e->target, (size_t)r->model->nx * sizeof *s->target);
    } else if (r->s->config && !r->same) {
        return; /* another configuration stays what it is */
    } else if (hb_config_parse(r->next, "recording", e->configuration, strlen(e->configuration), r->errors) ||
               hb_config_resolve(r->next, r->model, r->errors)) {
        differs(r, at, r->errors->text[0]);
        return;
    } else {
        *r->config = *r->next;
        if (e->target) {
            s->ntarget = r->model->nx;
            memcpy(s->target, e->target, (size_t)r->model->nx * sizeof *s->target);
        }
    }
    if (hb_controller_retune(r->controller, s, &err))
        differs(r, at, err.text);
}

/* Does what the thread of planning did by now: up to the next event that waits for a newer estimate, or that stands
 * behind `at` in the order of the server. */
static void plan(replay *r, size_t at)
{
    for (; r->next_plan < r->n && !r->promoted; r->next_plan++) {
        size_t i = r->next_plan;
        const hb_recorded *e = &r->event[i];
        if (!of_planning(e->kind))
            continue;
        const bool waits_for_estimate = e->kind == HB_RECORDED_COMMAND || e->kind == HB_RECORDED_PREDICTION;
        if (waits_for_estimate ? r->exact ? e->decision.snapshot > hb_controller_snapshots(r->controller) : i > at
                               : i > at)
            return;
        if (e->kind == HB_RECORDED_COMMAND) {
            command(r, i);
        } else if (e->kind == HB_RECORDED_PREDICTION) {
            double x[HB_MAX_VEHICLE_STATES] = {0}, states[HB_MAX_VEHICLE_STATES];
            hb_error err;
            prepare(r, i);
            hb_controller_predict(r->controller, x, x, 0, r->model->dt, states, &err);
        } else if (e->kind == HB_RECORDED_PROMOTION) {
            r->promoted = true;
            printf("%.6f s: the shadow was promoted: the flight goes on with another model, and is not replayed\n",
                   r->time[i]);
        } else {
            retune(r, i);
        }
    }
}

/* ---- the thread of telemetry ---- */

static void compare_coefficients(replay *r, size_t at)
{
    const hb_recorded *e = &r->event[at];
    const hb_real *now = hb_controller_coefficients(r->controller, NULL);
    uint64_t version = hb_controller_health(r->controller)->version;
    char text[200];

    if (!r->exact)
        return;
    r->coefficients++;
    if (version != e->version) {
        snprintf(text, sizeof text, "coefficients: version is %" PRIu64 ", recorded %" PRIu64, version, e->version);
        differs(r, at, text);
        return;
    }
    for (size_t i = 0; i < e->nvalue && i < (size_t)hb_model_ncoefficients(r->model); i++) {
        float value = (float)now[i];
        if (memcmp(&value, &e->value[i], sizeof value) != 0) {
            snprintf(text, sizeof text, "coefficients[%zu] is %.9g, recorded %.9g", i, (double)value,
                     (double)e->value[i]);
            differs(r, at, text);
            return;
        }
    }
}

static void hear(replay *r, size_t at)
{
    if (r->exact && hb_controller_heard(r->controller) != r->event[at].heard)
        differs(r, at, "answers that were heard then are not heard now");
}

static void seed(replay *r, size_t at)
{
    const hb_recorded *e = &r->event[at];
    hb_real *value = calloc(e->nvalue + 1, sizeof *value);
    hb_error err;

    for (size_t i = 0; value && i < e->nvalue; i++)
        value[i] = (hb_real)e->seed[i];
    if (!value || e->nvalue != (size_t)hb_model_ncoefficients(r->model) ||
        hb_controller_seed(r->controller, value, &err))
        differs(r, at, "coefficients that were loaded then cannot be loaded now");
    free(value);
}

static void observe(replay *r, size_t at)
{
    const hb_recorded *e = &r->event[at], *asked;
    hb_action_request request;

    if (r->exact && e->kind != HB_RECORDED_STALLED)
        hb_controller_hear_until(r->controller, e->heard);
    switch (e->kind) {
    case HB_RECORDED_SAMPLE:
        (e->more ? hb_controller_observe_more : hb_controller_observe)(r->controller, &e->observation, e->moment);
        hear(r, at);
        break;
    case HB_RECORDED_REQUEST:
        if (e->guest || hb_recorded_request(e, r->wire, &request) != HB_REASON_NONE)
            break;
        hb_controller_observe_request(r->controller, &request.request, e->moment);
        hear(r, at);
        break;
    case HB_RECORDED_STALLED:
        asked = request_of(r, at);
        if (asked && !asked->guest && hb_recorded_request(asked, r->wire, &request) == HB_REASON_NONE)
            hb_controller_answered(r->controller, &request.request, e->action);
        break;
    case HB_RECORDED_COEFFICIENTS:
        compare_coefficients(r, at);
        break;
    case HB_RECORDED_RESET:
        hb_controller_forget(r->controller);
        break;
    case HB_RECORDED_SEED:
        seed(r, at);
        break;
    case HB_RECORDED_GAP:
        r->lost += e->lost;
        r->first_gap = at < r->first_gap ? at : r->first_gap;
        break;
    default:
        break;
    }
}

/* ---- all of it ---- */

static void run(replay *r)
{
    const bool visible = isatty(STDERR_FILENO);
    double shown = hb_now() + 2;

    r->first_gap = r->n;
    plan(r, 0);
    for (size_t i = 0; i < r->n && !r->promoted; i++) {
        observe(r, i);
        plan(r, i);
        if (i % 64 == 0 && visible && hb_now() > shown) {
            shown = hb_now() + 0.5;
            fprintf(stderr, "\r%.0f %%", 100 * (double)i / (double)r->n);
        }
    }
    if (!r->promoted)
        plan(r, r->n);
    if (visible)
        fputs("\r     \r", stderr);
}

static void row(const char *name, double then, double there)
{
    printf("%-22s %12.6g %12.6g\n", name, then, there);
}

static void print_table(const replay *r)
{
    const tally *a = &r->then, *b = &r->there;

    printf("%-22s %12s %12s\n", "", "recorded", r->same ? "the same" : r->s->config ? "other" : "other model");
    row("replies", (double)a->replies, (double)b->replies);
    for (int i = 0; i < HB_NSTATUSES; i++)
        if (a->status[i] || b->status[i])
            row(hb_status_name[i], (double)a->status[i], (double)b->status[i]);
    row("mean cost of a plan", a->planned ? a->cost / (double)a->planned : NAN,
        b->planned ? b->cost / (double)b->planned : NAN);
    row("mean one-step error", a->planned ? a->error / (double)a->planned : NAN,
        b->planned ? b->error / (double)b->planned : NAN);
    printf("actions differ by %.3g of their range (RMS)\n", r->nmoved ? sqrt(r->moved / (double)r->nmoved) : 0);
}

static int report(const replay *r, double seconds)
{
    const double flight = r->n ? r->time[r->n - 1] : 0;

    if (r->differences > SHOWN)
        printf("and %" PRIu64 " more differences\n", r->differences - SHOWN);
    if (r->first_gap < r->n)
        printf("%.6f s: %" PRIu64 " messages are missing from the recording: what follows cannot be the same\n",
               r->time[r->first_gap], r->lost);
    if (!r->exact || r->same)
        print_table(r);
    printf("%.1f s of flight in %.2f s, %.0f times as fast", flight, seconds, seconds > 0 ? flight / seconds : 0);
    if (r->exact)
        printf("; %" PRIu64 " changes of coefficients compared", r->coefficients);
    putchar('\n');
    if (!r->exact)
        return 0;
    printf("%" PRIu64 " replies, %" PRIu64 " identical\n", r->then.replies, r->identical);
    return r->differences > 0 || r->identical != r->then.replies;
}

static void end(replay *r)
{
    for (size_t i = 0; i < r->n; i++)
        hb_recorded_free(&r->event[i]);
    free(r->event);
    free(r->time);
    hb_wire_free(r->wire);
    hb_controller_free(r->controller);
    free(r->memory);
    hb_pool_free(r->pool);
    hb_model_free(r->model);
    hb_recorded_head_free(&r->head);
    free(r->errors);
    free(r->next);
    free(r->config);
}

int hb_replay(const hb_replay_settings *s)
{
    replay r = {.s = s,
                .config = calloc(1, sizeof *r.config),
                .next = calloc(1, sizeof *r.next),
                .errors = calloc(1, sizeof *r.errors)};
    hb_error err;
    int failed = r.config && r.next && r.errors ? 0 : hb_fail(&err, ENOMEM, "out of memory");

    for (int i = 0; i < s->nfiles && !failed; i++)
        failed = read_file(&r, i, &err);
    if (failed) {
        fprintf(stderr, "hilbertd: %s\n", err.text);
        end(&r);
        return 1;
    }
    double begun = hb_now();
    run(&r);
    int result = report(&r, hb_now() - begun);
    end(&r);
    return result;
}
