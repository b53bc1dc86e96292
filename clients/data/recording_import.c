#include "data/recording_import.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "data/recorded_flight.h"

static const double same_step = 0.01; /* periods by which steps may differ and count as regular */

/* Rows of one episode. */
typedef struct episode {
    double *x, *u, *time;
    int n;    /* states */
    int room; /* of states */
    bool regular;
} episode;

typedef struct work {
    const hb_recording_import *in;
    hb_dataset_writer *writer;
    hb_dataset_header header;
    int quaternion;
    double dt;
    int function;     /* id of the present one */
    bool begun;       /* there is one */
    uint64_t run;     /* of the file before, */
    uint64_t changes; /* and how it ended */
    uint32_t reset;
    episode e;
} work;

static int reserve(work *w, hb_error *err)
{
    episode *e = &w->e;
    size_t nx = (size_t)w->header.nx, nu = (size_t)w->header.nu;

    if (e->n < e->room)
        return 0;
    size_t room = e->room ? 2 * (size_t)e->room : 1024;
    double *x = realloc(e->x, room * nx * sizeof *x), *u = realloc(e->u, (room * nu + 1) * sizeof *u),
           *time = realloc(e->time, room * sizeof *time);
    e->x = x ? x : e->x;
    e->u = u ? u : e->u;
    e->time = time ? time : e->time;
    if (!x || !u || !time)
        return hb_fail(err, ENOMEM, "out of memory");
    e->room = (int)room;
    return 0;
}

static int find_quaternion(const hb_recorded_flight *f)
{
    static const char *const name[] = {"qx", "qy", "qz", "qw"};

    for (int i = 0; i + 4 <= f->nx; i++) {
        int same = 0;
        for (int k = 0; k < 4; k++)
            same += strcmp(f->state[i + k].name, name[k]) == 0;
        if (same == 4)
            return i;
    }
    return -1;
}

/* A state; its quaternion with the sign of the one before. */
static int add_state(work *w, double time, const double *state, hb_error *err)
{
    episode *e = &w->e;
    size_t nx = (size_t)w->header.nx;
    int q = w->quaternion, r = reserve(w, err);

    if (r)
        return r;
    double *x = e->x + (size_t)e->n * nx, along = 0;
    memcpy(x, state, nx * sizeof *x);
    for (int k = 0; q >= 0 && k < 4; k++)
        along += e->n ? x[q + k] * x[q + k - (int)nx] : k == 3 ? x[q + 3] : 0;
    for (int k = 0; q >= 0 && along < 0 && k < 4; k++)
        x[q + k] = -x[q + k];
    e->time[e->n++] = time;
    return 0;
}

/* Writes the episode, if it is long enough, and begins another. */
static int end_episode(work *w, hb_recording_result *result, hb_error *err)
{
    episode *e = &w->e;
    double least = w->in->min_length > 0 ? w->in->min_length : 1, length = e->n ? e->time[e->n - 1] - e->time[0] : 0;
    int r = 0;

    if (e->n >= 2 && length >= least - 1e-9) {
        double start = e->time[0];
        for (int i = 0; i < e->n; i++)
            e->time[i] -= start;
        r = hb_dataset_writer_append(w->writer, w->function, e->n - 1, e->x, w->header.nu ? e->u : NULL,
                                     e->regular ? NULL : e->time, NULL, err);
        result->episodes++;
        result->seconds += length;
    }
    e->n = 0;
    e->regular = true;
    return r;
}

/* Mean of the controls from sample i to sample j. */
static bool mean_control(const hb_recorded_flight *f, size_t i, size_t j, double *u)
{
    double length = f->sample[j].time - f->sample[i].time;

    memset(u, 0, (size_t)f->nu * sizeof *u);
    for (; i < j; i++)
        for (int k = 0; k < f->nu; k++)
            u[k] += f->u[i * (size_t)f->nu + (size_t)k] * (f->sample[i + 1].time - f->sample[i].time) / length;
    for (int k = 0; k < f->nu; k++)
        if (!isfinite(u[k]))
            return false;
    return true;
}

/* Whether sample i is the one nearest to a period after `row`. */
static bool is_nearest(const hb_recorded_flight *f, size_t row, size_t i, double dt)
{
    double after = f->sample[i].time - f->sample[row].time,
           next = i + 1 < f->nsamples ? f->sample[i + 1].time - f->sample[row].time : after;

    /* what comes much later is no choice */
    return after + (next > after && next - after < dt ? next : after) >= (2 - 1e-6) * dt;
}

/* Whether a change of dynamics was detected soon after sample i: what it says may be of either vehicle. */
static bool unsettled(const work *w, const hb_recorded_flight *f, size_t i)
{
    double settle = w->in->settle < 0 ? 1 : w->in->settle, until = f->sample[i].time + settle;
    uint64_t changes = f->sample[i].changes;

    for (; i < f->nsamples && f->sample[i].time <= until; i++)
        if (f->sample[i].changes != changes)
            return f->sample[i].segment == f->sample[i - 1].segment;
    return false;
}

/* What is between sample i and the next; false when they belong together. */
static bool breaks(work *w, const hb_recorded_flight *f, size_t i, hb_recording_result *result, bool *new_function)
{
    const hb_recorded_sample *a = &f->sample[i], *b = a + 1;
    double gap = w->in->gap > 0 ? w->in->gap : 3 * w->dt;
    bool reset = a->reset != b->reset, change = a->changes != b->changes, pause = a->segment != b->segment;
    bool hole = !pause && (b->after_gap || b->time - a->time > gap || b->time <= a->time);

    result->resets += reset;
    result->changes += change;
    result->gaps += pause || hole;
    *new_function = reset || change || pause;
    return *new_function || hole;
}

static void begin_function(work *w, hb_recording_result *result)
{
    w->function += w->begun && !w->in->one_function;
    result->functions += !w->begun || !w->in->one_function;
    w->begun = true;
}

static int cut(work *w, const hb_recorded_flight *f, hb_recording_result *result, hb_error *err)
{
    size_t nx = (size_t)f->nx, nu = (size_t)f->nu, row = 0; /* sample of the newest row */
    bool go_on = w->begun && f->run == w->run && f->sample[0].changes == w->changes && f->sample[0].reset == w->reset;
    int r = 0;

    if (!go_on)
        begin_function(w, result);
    for (size_t i = 0; i < f->nsamples && !r; i++) {
        const hb_recorded_sample *s = &f->sample[i];
        bool other = false, last = i + 1 == f->nsamples;
        if (unsettled(w, f, i)) {
            r = end_episode(w, result, err);
        } else if (w->e.n == 0) {
            r = add_state(w, s->time, f->x + i * nx, err);
            row = i;
        } else if (is_nearest(f, row, i, w->dt)) {
            if (mean_control(f, row, i, w->e.u + (size_t)(w->e.n - 1) * nu)) {
                w->e.regular &= fabs(s->time - f->sample[row].time - w->dt) <= same_step * w->dt;
                r = add_state(w, s->time, f->x + i * nx, err);
            } else {
                r = end_episode(w, result, err);
            }
            row = i;
        }
        if (!r && !last && breaks(w, f, i, result, &other)) {
            r = end_episode(w, result, err);
            if (other)
                begin_function(w, result);
        }
    }
    if (!r)
        r = end_episode(w, result, err);
    w->run = f->run;
    w->changes = f->sample[f->nsamples - 1].changes;
    w->reset = f->sample[f->nsamples - 1].reset;
    return r;
}

/* ---- the set ---- */

static bool same_vehicle(const work *w, const hb_recorded_flight *f)
{
    const hb_dataset_header *h = &w->header;
    bool same = h->nx == f->nx && h->nu == f->nu;

    for (int i = 0; same && i < f->nx; i++)
        same = strcmp(h->state_name[i], f->state[i].name) == 0;
    for (int i = 0; same && i < f->nu; i++)
        same = strcmp(h->control_name[i], f->control[i].name) == 0;
    return same;
}

static int open_writer(work *w, const hb_recorded_flight *f, const char *output, hb_error *err)
{
    hb_dataset_header *h = &w->header;
    size_t nx = (size_t)f->nx, nu = (size_t)f->nu;
    char(*names)[HB_NAME_SIZE] = calloc(2 * (nx + nu), sizeof *names);
    double *bounds = calloc(3 * nu + 1, sizeof *bounds);

    h->state_name = names;
    h->control_min = bounds;
    if (!names || !bounds)
        return hb_fail(err, ENOMEM, "out of memory");
    h->nx = f->nx;
    h->nu = f->nu;
    h->dt = w->dt = w->in->dt > 0 ? w->in->dt : f->dt;
    memcpy(h->plant, f->name, sizeof h->plant);
    h->state_unit = names + nx;
    h->control_name = names + 2 * nx;
    h->control_unit = names + 2 * nx + nu;
    h->control_max = bounds + nu;
    h->control_trim = bounds + 2 * nu;
    for (size_t i = 0; i < nx; i++) {
        memcpy(h->state_name[i], f->state[i].name, HB_NAME_SIZE);
        memcpy(h->state_unit[i], f->state[i].unit, HB_NAME_SIZE);
    }
    for (size_t i = 0; i < nu; i++) {
        memcpy(h->control_name[i], f->control[i].name, HB_NAME_SIZE);
        memcpy(h->control_unit[i], f->control[i].unit, HB_NAME_SIZE);
        h->control_min[i] = f->control[i].min;
        h->control_max[i] = f->control[i].max;
        h->control_trim[i] = f->control[i].trim;
    }
    w->quaternion = find_quaternion(f);
    return hb_dataset_writer_new(&w->writer, output, h, err);
}

static int import_file(work *w, const char *path, const char *output, hb_recording_result *result, hb_error *err)
{
    hb_recorded_flight *f = NULL;
    int r = hb_recorded_flight_read(&f, &path, 1, err);

    if (r)
        return r;
    *result = (hb_recording_result){.lost = f->lost, .cut = f->cut};
    if (!w->writer)
        r = open_writer(w, f, output, err);
    else if (!same_vehicle(w, f))
        r = hb_fail(err, EINVAL, "%s: its states or controls are not those of the files before it", path);
    if (!r && f->nsamples > 0)
        r = cut(w, f, result, err);
    hb_recorded_flight_free(f);
    return r;
}

int hb_recording_import_files(const hb_recording_import *import, const char *output, hb_recording_result *result,
                              hb_error *err)
{
    work w = {.in = import, .e = {.regular = true}};
    int r = 0, episodes = 0;

    for (int i = 0; i < import->nfiles && !r; i++) {
        r = import_file(&w, import->file[i], output, &result[i], err);
        episodes += result[i].episodes;
    }
    if (!r && !episodes)
        r = hb_fail(err, EINVAL, "%s: no flight of %g s without a gap, a reset or a change in it", import->file[0],
                    import->min_length > 0 ? import->min_length : 1);
    if (!r) {
        r = hb_dataset_writer_close(w.writer, err);
        w.writer = NULL;
    }
    hb_dataset_writer_free(w.writer);
    free(w.header.state_name);
    free(w.header.control_min);
    free(w.e.x);
    free(w.e.u);
    free(w.e.time);
    return r;
}
