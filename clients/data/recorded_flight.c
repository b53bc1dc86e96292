#include "data/recorded_flight.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hilbert.pb-c.h"
#include "json.h"
#include "mcap/mcap_reader.h"
#include "recording.h"

enum { ASKED = 256 }; /* requests that may wait for their replies */

static const double set_back = 0.5;         /* seconds by which a clock must go back to count as set back */
static const double silence = 5;            /* seconds without anything that are left out */
static const double between_segments = 0.1; /* seconds */

/* A request that has no reply yet. */
typedef struct asked {
    bool waits;
    uint64_t id;
    double received, time;
    double *target; /* nx, NaN: none */
} asked;

typedef struct reader {
    hb_recorded_flight *f;
    hb_error *err;
    bool begun;        /* the first time of the vehicle was seen */
    int64_t offset_us; /* that is taken off its times in this segment */
    int64_t newest_us; /* in this segment */
    int segment;
    bool gap;    /* since the last sample */
    bool counts; /* a number of changes was heard: */
    uint64_t changes;
    asked asked[ASKED];
    unsigned next_asked;
    double *configured; /* nx: target in force when a request names none */
    bool has_configured;
    bool telemetry;           /* there is some */
    bool pending;             /* the newest sample is of a request: its control is what the next one says was applied */
    double was[HB_MAX_WORDS]; /* of words that changed, as told last */
    size_t room[5];           /* of samples, replies, estimates, statuses, events */
} reader;

/* ---- memory ---- */

static int grow(reader *r, size_t *room, size_t n, void **array, size_t size)
{
    if (n < *room)
        return 0;
    size_t more = *room ? 2 * *room : 1024;
    void *p = realloc(*array, more * size);
    if (!p)
        return hb_fail(r->err, ENOMEM, "out of memory");
    *array = p;
    *room = more;
    return 0;
}

/* Room for one more row of an array and of up to two that go with it. */
static int reserve(reader *r, int which, size_t n, void **array, size_t size, double **a, int na, double **b, int nb)
{
    size_t room = r->room[which], ra = room, rb = room;
    int bad = grow(r, &r->room[which], n, array, size);

    if (!bad && a)
        bad = grow(r, &ra, n, (void **)a, (size_t)(na ? na : 1) * sizeof **a);
    if (!bad && b)
        bad = grow(r, &rb, n, (void **)b, (size_t)(nb ? nb : 1) * sizeof **b);
    return bad;
}

static void copy_or_nan(double *to, const double *from, size_t given, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = given == (size_t)n ? from[i] : NAN;
}

/* ---- times ---- */

/* Seconds since the first time that was seen. */
static double place(reader *r, int64_t time_us)
{
    double step = (double)(time_us - r->newest_us) * 1e-6;

    if (!r->begun) {
        r->begun = true;
        r->offset_us = time_us;
        r->newest_us = time_us;
    } else if (step < -set_back || step > silence) {
        r->offset_us = time_us - (r->newest_us - r->offset_us) - llround(1e6 * between_segments);
        r->newest_us = time_us;
        r->segment++;
    }
    if (time_us > r->newest_us)
        r->newest_us = time_us;
    double t = (double)(time_us - r->offset_us) * 1e-6;
    r->f->seconds = fmax(r->f->seconds, t);
    return t;
}

static double now(const reader *r)
{
    return r->begun ? (double)(r->newest_us - r->offset_us) * 1e-6 : 0;
}

/* ---- messages ---- */

static int note(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int note(reader *r, const char *format, ...)
{
    hb_recorded_flight *f = r->f;
    va_list args;
    int bad = reserve(r, 4, f->nevents, (void **)&f->event, sizeof *f->event, NULL, 0, NULL, 0);

    if (bad)
        return bad;
    hb_recorded_event *e = &f->event[f->nevents++];
    e->time = now(r);
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    return 0;
}

static hb_recorded_channel *copy_channels(Hilbert__V1__Channel *const *from, size_t n)
{
    hb_recorded_channel *c = calloc(n ? n : 1, sizeof *c);

    for (size_t i = 0; c && i < n; i++) {
        snprintf(c[i].name, sizeof c[i].name, "%s", from[i]->name);
        snprintf(c[i].unit, sizeof c[i].unit, "%s", from[i]->unit);
        c[i].min = from[i]->min;
        c[i].max = from[i]->max;
        c[i].trim = from[i]->trim;
    }
    return c;
}

static bool same_channels(const hb_recorded_channel *c, int n, Hilbert__V1__Channel *const *other, size_t nother)
{
    bool same = (size_t)n == nother;

    for (int i = 0; same && i < n; i++)
        same = strcmp(c[i].name, other[i]->name) == 0;
    return same;
}

/* The place of a name among those seen so far, which it joins; -1: there are too many. */
static int place_of(hb_recorded_channel *list, int *n, int most, const char *name, const char *unit)
{
    int i = 0;

    while (i < *n && strcmp(list[i].name, name))
        i++;
    if (i == most || strlen(name) >= HB_NAME_SIZE || strlen(unit) >= HB_NAME_SIZE)
        return -1;
    if (i == *n) {
        strcpy(list[i].name, name);
        strcpy(list[i].unit, unit);
        ++*n;
    }
    return i;
}

static int take_recording(reader *r, const Hilbert__V1__Recording *m)
{
    hb_recorded_flight *f = r->f;

    if (f->state) {
        if (!same_channels(f->state, f->nx, m->state, m->n_state) ||
            !same_channels(f->control, f->nu, m->control, m->n_control))
            return hb_fail(r->err, EINVAL,
                           "a recording of another vehicle than the files before it: their states and "
                           "controls differ");
        return 0;
    }
    snprintf(f->version, sizeof f->version, "%s", m->version);
    snprintf(f->name, sizeof f->name, "%s", m->name);
    f->model = strdup(m->model);
    f->configuration = strdup(m->configuration);
    f->model_hash = m->model_hash;
    f->run = m->run;
    f->dt = m->dt;
    f->nx = (int)m->n_state;
    f->nu = (int)m->n_control;
    f->state = copy_channels(m->state, m->n_state);
    f->control = copy_channels(m->control, m->n_control);
    for (size_t k = 0; k < m->n_word; k++)
        place_of(f->word, &f->nwords, HB_MAX_WORDS, m->word[k]->name, m->word[k]->unit);
    r->configured = calloc(m->n_state ? m->n_state : 1, sizeof *r->configured);
    double *targets = calloc(ASKED * m->n_state + 1, sizeof *targets);
    r->asked[0].target = targets;
    for (int i = 1; targets && i < ASKED; i++)
        r->asked[i].target = targets + (size_t)i * m->n_state;
    if (!f->model || !f->state || !f->control || !r->configured || !targets)
        return hb_fail(r->err, ENOMEM, "out of memory");
    if (f->nx == 0 || !(f->dt > 0))
        return hb_fail(r->err, EINVAL, "the recording names no states, or no period");
    return 0;
}

static int add_sample(reader *r, int64_t time_us, uint32_t reset, const double *x, const double *u, bool of_request)
{
    hb_recorded_flight *f = r->f;
    double t = place(r, time_us);
    int bad = reserve(r, 0, f->nsamples, (void **)&f->sample, sizeof *f->sample, &f->x, f->nx, &f->u, f->nu);

    if (bad)
        return bad;
    size_t i = f->nsamples++;
    f->sample[i] = (hb_recorded_sample){.time = t,
                                        .segment = r->segment,
                                        .reset = reset,
                                        .changes = r->changes,
                                        .after_gap = r->gap,
                                        .of_request = of_request};
    r->gap = false;
    copy_or_nan(f->x + i * (size_t)f->nx, x, (size_t)f->nx, f->nx);
    copy_or_nan(f->u + i * (size_t)f->nu, u, u ? (size_t)f->nu : 0, f->nu);
    return 0;
}

static int take_sample(reader *r, const Hilbert__V1__RecordedSample *m)
{
    const Hilbert__V1__Telemetry *t = m->telemetry;

    if (!t || t->n_state != (size_t)r->f->nx || t->n_control != (size_t)r->f->nu)
        return 0;
    if (!r->telemetry) {
        r->telemetry = true;
        r->pending = false;
        r->f->nsamples = 0; /* those of requests before it would be there twice */
    }
    return add_sample(r, t->time_us, t->reset_counter, t->state, t->control, false);
}

/* Where there is no telemetry, the states of requests are samples. */
static int sample_of_request(reader *r, const Hilbert__V1__ActionRequest *q)
{
    hb_recorded_flight *f = r->f;

    if (r->pending && q->n_applied == (size_t)f->nu && f->nsamples > 0 && f->nu > 0)
        memcpy(f->u + (f->nsamples - 1) * (size_t)f->nu, q->applied, (size_t)f->nu * sizeof *f->u);
    r->pending = true;
    return add_sample(r, q->time_us, q->reset_counter, q->state, NULL, true);
}

/* A target that names no attitude has zeros there, which are none. */
static void forget_attitude(const hb_recorded_flight *f, double *target)
{
    static const char *const name[] = {"qx", "qy", "qz", "qw"};

    for (int i = 0; i + 4 <= f->nx; i++) {
        int same = 0;
        double square = 0;
        for (int k = 0; k < 4; k++) {
            same += strcmp(f->state[i + k].name, name[k]) == 0;
            square += target[i + k] * target[i + k];
        }
        for (int k = 0; k < 4 && same == 4 && square < 0.25; k++)
            target[i + k] = NAN;
    }
}

static int take_request(reader *r, const Hilbert__V1__RecordedRequest *m)
{
    const Hilbert__V1__ActionRequest *q = m->request;
    int nx = r->f->nx;

    if (!q || q->n_state != (size_t)nx)
        return 0;
    int bad = r->telemetry ? 0 : sample_of_request(r, q);
    asked *a = &r->asked[r->next_asked++ % ASKED];
    *a =
        (asked){.waits = true, .id = q->id, .received = m->received, .time = place(r, q->time_us), .target = a->target};
    if (q->n_target >= (size_t)nx)
        copy_or_nan(a->target, q->target, (size_t)nx, nx);
    else
        copy_or_nan(a->target, r->configured, r->has_configured ? (size_t)nx : 0, nx);
    forget_attitude(r->f, a->target);
    return bad;
}

/* The first number that is heard may be of long ago. */
static int count_changes(reader *r, uint64_t changes)
{
    bool more = changes > r->changes, first = !r->counts;

    r->counts = true;
    r->changes = more ? changes : r->changes;
    if (!more)
        return 0;
    for (size_t i = 0; first && i < r->f->nsamples; i++)
        r->f->sample[i].changes = changes;
    return first ? 0 : note(r, "a change of dynamics was detected");
}

static int take_reply(reader *r, const Hilbert__V1__RecordedReply *m)
{
    const Hilbert__V1__ActionReply *y = m->reply;
    hb_recorded_flight *f = r->f;
    const asked *a = NULL;

    for (int i = 0; i < ASKED; i++)
        if (r->asked[i].waits && r->asked[i].id == (y ? y->id : 0) && r->asked[i].received == m->received) {
            a = &r->asked[i];
            r->asked[i].waits = false;
        }
    if (!y || m->unsent || !a)
        return 0;
    int bad = reserve(r, 1, f->nreplies, (void **)&f->reply, sizeof *f->reply, &f->target, f->nx, &f->action, f->nu);
    if (bad)
        return bad;
    size_t i = f->nreplies++;
    const Hilbert__V1__Health *h = y->health;
    f->reply[i] = (hb_recorded_reply){.time = a->time,
                                      .status = (int)y->status,
                                      .reason = (int)y->reason,
                                      .total = 1e-6 * y->total_us,
                                      .planning = 1e-6 * y->planning_us,
                                      .queue = 1e-6 * y->queue_us,
                                      .preparing = 1e-6 * y->preparing_us,
                                      .cost = y->cost,
                                      .one_step_error = h ? h->one_step_error : NAN,
                                      .expected_error = h ? h->expected_error : NAN,
                                      .out_of_span = h ? h->out_of_span : NAN,
                                      .lag = h ? h->actuator_lag : NAN,
                                      .delay = h ? h->actuator_delay : NAN,
                                      .guest = y->guest};
    memcpy(f->target + i * (size_t)f->nx, a->target, (size_t)f->nx * sizeof *f->target);
    copy_or_nan(f->action + i * (size_t)f->nu, y->action, y->n_action, f->nu);
    /* without telemetry nor `applied`, what was answered is what was flown */
    if (r->pending && !y->guest && y->n_action == (size_t)f->nu && f->nu > 0)
        memcpy(f->u + (f->nsamples - 1) * (size_t)f->nu, y->action, (size_t)f->nu * sizeof *f->u);
    return h ? count_changes(r, h->changes) : 0;
}

/* The time of an estimate; before the first sample there is none. */
static double estimated(const reader *r, int64_t time_us)
{
    double back = (double)(r->newest_us - time_us) * 1e-6;

    return r->begun && back >= 0 && back < set_back ? (double)(time_us - r->offset_us) * 1e-6 : now(r);
}

static int take_coefficients(reader *r, const Hilbert__V1__RecordedCoefficients *m)
{
    hb_recorded_flight *f = r->f;

    if (!f->nc)
        f->nc = (int)m->n_value;
    if (m->n_value != (size_t)f->nc || m->n_value == 0) {
        f->foreign++;
        return 0;
    }
    size_t room = r->room[2], other = room, n = f->nestimates;
    int bad = grow(r, &r->room[2], n, (void **)&f->estimate, sizeof *f->estimate);
    if (!bad)
        bad = grow(r, &room, n, (void **)&f->coefficient, (size_t)f->nc * sizeof *f->coefficient);
    if (!bad)
        bad = grow(r, &other, n, (void **)&f->deviation, (size_t)f->nc * sizeof *f->deviation);
    if (bad)
        return bad;
    f->estimate[n] = (hb_recorded_estimate){
        .time = estimated(r, m->time_us), .status = (int)m->status, .one_step_error = m->one_step_error};
    for (int i = 0; i < f->nc; i++) {
        f->coefficient[n * (size_t)f->nc + (size_t)i] = m->value[i];
        /* deviations come now and then, and hold until the next */
        f->deviation[n * (size_t)f->nc + (size_t)i] = m->n_deviation == m->n_value ? m->deviation[i]
                                                      : n > 0 ? f->deviation[(n - 1) * (size_t)f->nc + (size_t)i]
                                                              : NAN;
    }
    f->nestimates++;
    return 0;
}

/* What was learned, in words, and what drives the plan. */
static int take_words(reader *r, const Hilbert__V1__Status *m, hb_recorded_status *to)
{
    hb_recorded_flight *f = r->f;
    int bad = 0;

    for (int i = 0; i < HB_MAX_WORDS; i++)
        to->word[i] = to->word_deviation[i] = NAN;
    for (int i = 0; i < HB_RECORDED_TERMS; i++)
        to->term[i] = NAN;
    for (size_t k = 0; k < m->n_word && !bad; k++) {
        const Hilbert__V1__Word *w = m->word[k];
        int i = place_of(f->word, &f->nwords, HB_MAX_WORDS, w->name, w->unit);
        if (i < 0)
            continue;
        to->word[i] = w->value;
        to->word_deviation[i] = w->deviation;
        if (w->changed && w->was != r->was[i])
            bad = note(r, "%s was %.3g, is %.3g +- %.1g %s", w->name, w->was, w->value, w->deviation, w->unit);
        r->was[i] = w->changed ? w->was : NAN;
    }
    for (size_t k = 0; k < m->n_cost_term; k++) {
        int i = place_of(f->term, &f->nterms, HB_RECORDED_TERMS, m->cost_term[k]->name, "");
        if (i >= 0)
            to->term[i] = m->cost_term[k]->value;
    }
    return bad;
}

static int take_status(reader *r, const Hilbert__V1__Status *m)
{
    hb_recorded_flight *f = r->f;
    int bad = reserve(r, 3, f->nstatuses, (void **)&f->status, sizeof *f->status, NULL, 0, NULL, 0);

    if (bad)
        return bad;
    if (!m->target_of_request && (r->has_configured = m->n_target == (size_t)f->nx))
        memcpy(r->configured, m->target, (size_t)f->nx * sizeof *m->target);
    if (m->model_hash != (f->nstatuses ? f->status[f->nstatuses - 1].model_hash : f->model_hash))
        bad = note(r, "another model was promoted: %016" PRIx64, m->model_hash);
    f->status[f->nstatuses++] = (hb_recorded_status){.time = now(r),
                                                     .budget = 1e-6 * m->budget_us,
                                                     .shadow_error = m->shadow ? m->shadow->error : NAN,
                                                     .shadow_error_in_use = m->shadow ? m->shadow->error_in_use : NAN,
                                                     .model_hash = m->model_hash};
    if (!bad)
        bad = take_words(r, m, &f->status[f->nstatuses - 1]);
    return bad || !m->health ? bad : count_changes(r, m->health->changes);
}

static int take_control(reader *r, const Hilbert__V1__RecordedControl *m)
{
    const char *what = NULL;

    switch (m->request ? m->request->command_case : HILBERT__V1__CONTROL_REQUEST__COMMAND__NOT_SET) {
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_RESET_WINDOW:
        what = "the window was reset";
        break;
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_SET_COEFFICIENTS:
        what = "coefficients were loaded";
        break;
    case HILBERT__V1__CONTROL_REQUEST__COMMAND_PROMOTE:
        what = "a promotion was asked for";
        break;
    default:
        break;
    }
    return what ? note(r, "%s%s", what, m->error && *m->error ? ", in vain" : "") : 0;
}

static int take_change(reader *r, const Hilbert__V1__RecordedChange *m)
{
    hb_recorded_flight *f = r->f;

    if (m->change_case == HILBERT__V1__RECORDED_CHANGE__CHANGE_CONFIGURATION)
        return note(r, "the configuration was read again");
    if (m->change_case != HILBERT__V1__RECORDED_CHANGE__CHANGE_TARGET || m->target->n_state != (size_t)f->nx)
        return 0;
    memcpy(r->configured, m->target->state, (size_t)f->nx * sizeof *m->target->state);
    r->has_configured = true;
    return note(r, "the target was set");
}

static int take_gap(reader *r, const Hilbert__V1__RecordingGap *m)
{
    r->f->lost += m->lost;
    r->gap = true;
    return note(r, "%" PRIu64 " messages are missing in the recording", m->lost);
}

static int take(reader *r, hb_topic topic, const void *m)
{
    if (topic == HB_TOPIC_RECORDING)
        return take_recording(r, m);
    if (!r->f->state)
        return hb_fail(r->err, EINVAL,
                       "no message 'recording' comes before the others: this is no recording of "
                       "hilbertd, or the first of its files is missing");
    switch (topic) {
    case HB_TOPIC_TELEMETRY:
        return take_sample(r, m);
    case HB_TOPIC_REQUESTS:
        return take_request(r, m);
    case HB_TOPIC_REPLIES:
        return take_reply(r, m);
    case HB_TOPIC_COEFFICIENTS:
        return take_coefficients(r, m);
    case HB_TOPIC_CONTROL:
        return take_control(r, m);
    case HB_TOPIC_CHANGES:
        return take_change(r, m);
    case HB_TOPIC_STATUS:
        return take_status(r, m);
    case HB_TOPIC_GAPS:
        return take_gap(r, m);
    default:
        return 0;
    }
}

static int take_message(reader *r, const hb_mcap_message *m)
{
    hb_topic topic = hb_topic_find(m->channel->topic);
    const ProtobufCMessageDescriptor *d = topic < HB_NTOPICS ? hb_topic_descriptor[topic] : NULL;
    hb_recorded_flight *f = r->f;

    if (!d)
        return 0;
    if (!f->start)
        f->start = m->log_time;
    f->end = m->log_time > f->end ? m->log_time : f->end;
    ProtobufCMessage *message = protobuf_c_message_unpack(d, NULL, m->size, m->data);
    if (!message)
        return hb_fail(r->err, EBADMSG, "a message of topic %s cannot be understood", m->channel->topic);
    int bad = take(r, topic, message);
    protobuf_c_message_free_unpacked(message, NULL);
    return bad;
}

/* ---- files ---- */

static int read_file(reader *r, const char *path)
{
    hb_mcap_reader *file = NULL;
    hb_mcap_message m;
    int got = hb_mcap_reader_open(&file, path, r->err);

    if (got)
        return got;
    while ((got = hb_mcap_reader_next(file, &m, r->err)) > 0) {
        int bad = take_message(r, &m);
        if (bad) {
            hb_mcap_reader_free(file);
            return hb_fail_in(r->err, path, bad);
        }
    }
    r->f->cut |= got == 0 && hb_mcap_reader_cut(file, NULL);
    hb_mcap_reader_free(file);
    return got;
}

bool hb_recorded_flight_is(const char *path)
{
    static const unsigned char magic[] = {0x89, 'M', 'C', 'A', 'P'};
    unsigned char start[sizeof magic] = {0};
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a fifo must not hold us */
    bool is = file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
              read(file, start, sizeof start) == (ssize_t)sizeof start && !memcmp(start, magic, sizeof magic);

    if (file >= 0)
        close(file);
    return is;
}

int hb_recorded_flight_read(hb_recorded_flight **ret, const char *const *path, int n, hb_error *err)
{
    hb_recorded_flight *f = calloc(1, sizeof *f);
    reader *r = calloc(1, sizeof *r);
    int bad = 0;

    if (!f || !r) {
        free(f);
        free(r);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    r->f = f;
    r->err = err;
    for (int i = 0; i < n && !bad; i++)
        bad = read_file(r, path[i]);
    if (!bad && !f->state)
        bad = hb_fail(err, EINVAL, "%s: there is no recording of hilbertd in it", path[0]);
    /* the last state of a request has no control after it */
    if (!bad && r->pending && f->nsamples > 0 && f->nu > 0 && isnan(f->u[(f->nsamples - 1) * (size_t)f->nu]))
        f->nsamples--;
    free(r->asked[0].target);
    free(r->configured);
    free(r);
    if (bad) {
        hb_recorded_flight_free(f);
        return bad;
    }
    *ret = f;
    return 0;
}

void hb_recorded_flight_free(hb_recorded_flight *f)
{
    if (!f)
        return;
    free(f->model);
    free(f->configuration);
    free(f->state);
    free(f->control);
    free(f->sample);
    free(f->x);
    free(f->u);
    free(f->reply);
    free(f->target);
    free(f->action);
    free(f->estimate);
    free(f->coefficient);
    free(f->deviation);
    free(f->status);
    free(f->event);
    free(f);
}

const char *hb_recorded_status_word(int status, char word[HB_NAME_SIZE])
{
    return hb_json_word(&hilbert__v1__action_status__descriptor, status, word, HB_NAME_SIZE);
}
