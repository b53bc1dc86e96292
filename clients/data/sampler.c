#include "data/sampler.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/headings.h"
#include "data/vehicles.h"

/* of random numbers: those of the angles that points are turned by */
static const uint64_t of_headings = (uint64_t)1 << 63;

/* where a model's control is found: a column of the data's controls, or a hidden parameter */
typedef struct source {
    bool hidden;
    int column;
} source;

struct hb_sampler {
    const hb_dataset *data;
    const hb_model *model;
    int nsteps;
    int *state;            /* nx, columns of the data */
    source *control;       /* nu */
    hb_vehicles *vehicles; /* what is known of each; NULL: nothing is */
    bool turns;            /* points are drawn at all headings: */
    hb_headings headings;
    size_t *first; /* nepisodes + 1: stretches in the episodes before, over the whole data set */
};

static int find_name(char (*name)[HB_NAME_SIZE], int n, const char *wanted)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name[i], wanted) == 0)
            return i;
    return -1;
}

/* "a, b, c" for messages */
static const char *list_names(char (*name)[HB_NAME_SIZE], int n, char *text, size_t size)
{
    size_t used = 0;

    text[0] = 0;
    for (int i = 0; i < n && used + 1 < size; i++) {
        int written = snprintf(text + used, size - used, "%s%s", i ? ", " : "", name[i]);
        used += written > 0 ? (size_t)written : 0;
    }
    return text;
}

static int find_columns(hb_sampler *s, hb_error *err)
{
    const hb_dataset_header *h = &s->data->header;
    const hb_model *m = s->model;
    static const char prefix[] = "hidden_";
    char names[300];

    for (int i = 0; i < m->nx; i++) {
        s->state[i] = find_name(h->state_name, h->nx, m->state_name[i]);
        if (s->state[i] < 0)
            return hb_fail(err, EINVAL, "the model's state '%s' is not in the data, whose states are %s",
                           m->state_name[i], list_names(h->state_name, h->nx, names, sizeof names));
    }
    for (int i = 0; i < m->nu; i++) {
        const char *name = m->control_name[i];
        source *c = &s->control[i];
        *c = (source){.column = find_name(h->control_name, h->nu, name)};
        if (c->column < 0 && strncmp(name, prefix, sizeof prefix - 1) == 0)
            *c = (source){.hidden = true, .column = find_name(h->hidden_name, h->nhidden, name + sizeof prefix - 1)};
        if (c->column < 0)
            return hb_fail(err, EINVAL, "the model's control '%s' is not in the data, whose controls are %s", name,
                           list_names(h->control_name, h->nu, names, sizeof names));
    }
    return 0;
}

/* counts the stretches; every function must have one, and every hidden parameter that is used must be known */
static int count_stretches(hb_sampler *s, hb_error *err)
{
    const hb_dataset *d = s->data;

    for (int e = 0; e < d->nepisodes; e++) {
        int stretches = d->episode[e].nsteps - s->nsteps + 1;
        s->first[e + 1] = s->first[e] + (size_t)(stretches > 0 ? stretches : 0);
    }
    for (int f = 0; f < d->nfunctions; f++) {
        if (hb_sampler_count(s, f) == 0)
            return hb_fail(err, EINVAL, "function %d has no episode of %d steps: use fewer steps, or longer episodes",
                           d->function[f].id, s->nsteps);
        for (int i = 0; i < s->model->nu; i++)
            if (s->control[i].hidden && !isfinite(d->function[f].hidden[s->control[i].column]))
                return hb_fail(err, EINVAL, "function %d: its hidden parameter '%s' is not in the data",
                               d->function[f].id, d->header.hidden_name[s->control[i].column]);
    }
    return 0;
}

int hb_sampler_new(hb_sampler **ret, const hb_dataset *d, const hb_model *m, int nsteps, hb_error *err)
{
    hb_sampler *s = calloc(1, sizeof *s);
    int status = s ? 0 : hb_fail(err, ENOMEM, "out of memory");

    if (!status) {
        *s = (hb_sampler){.data = d, .model = m, .nsteps = nsteps};
        s->state = calloc((size_t)m->nx + 1, sizeof *s->state);
        s->control = calloc((size_t)m->nu + 1, sizeof *s->control);
        s->first = calloc((size_t)d->nepisodes + 1, sizeof *s->first);
        if (!s->state || !s->control || !s->first)
            status = hb_fail(err, ENOMEM, "out of memory");
    }
    if (!status)
        status = find_columns(s, err);
    if (!status)
        status = count_stretches(s, err);
    if (!status && (s->turns = d->any_heading))
        status = hb_headings_of(&s->headings, d->header.nx, d->header.state_name, err);
    if (!status && hb_vehicles_known(d, m->nominal))
        status = hb_vehicles_new(&s->vehicles, d, m->nominal, m->nominal_parameter, err);
    if (status) {
        hb_sampler_free(s);
        return status;
    }
    *ret = s;
    return 0;
}

void hb_sampler_free(hb_sampler *s)
{
    if (!s)
        return;
    free(s->state);
    free(s->control);
    free(s->first);
    hb_vehicles_free(s->vehicles);
    free(s);
}

size_t hb_sampler_count(const hb_sampler *s, int function)
{
    const hb_function *f = &s->data->function[function];
    return s->first[f->episode + f->nepisodes] - s->first[f->episode];
}

/* the episode that holds a stretch, numbered over the whole data set: first[e] <= start < first[e + 1] */
static int find_episode(const hb_sampler *s, const hb_function *f, size_t start)
{
    int low = f->episode, high = f->episode + f->nepisodes;

    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (s->first[middle] <= start)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static const double *turn(const hb_sampler *s, const double *x, double angle, const double *last, double *to)
{
    memcpy(to, x, (size_t)s->data->header.nx * sizeof *to);
    hb_headings_turn(&s->headings, angle, to);
    hb_headings_take_sign(&s->headings, last, to);
    return to;
}

void hb_sampler_keep_headings(hb_sampler *s)
{
    s->turns = false;
}

/* angle: radians that the world is turned by about its vertical axis */
static void put(const hb_sampler *s, int function, size_t start, double angle, hb_points *points, int sample)
{
    const hb_dataset *d = s->data;
    const hb_model *m = s->model;
    const hb_function *f = &d->function[function];
    const hb_vehicles *v = s->vehicles;
    const int block = sample / HB_STRIDE, lane = sample % HB_STRIDE;
    const double scale = v ? v->scale[function] : 1;

    points->nominal = v ? v->parameter + (size_t)function * (size_t)v->nparameters : NULL;

    start += s->first[f->episode];
    int at = find_episode(s, f, start);
    const hb_episode *e = &d->episode[at];
    int row = (int)(start - s->first[at]);

    double turned[2][HB_HEADINGS_STATES]; /* of this step and the one before */
    for (int step = 0; step <= points->nsteps; step++) {
        const double *x = e->x + (size_t)(row + step) * (size_t)d->header.nx;
        hb_real *z = hb_points_states(points, block, step) + lane;
        if (angle != 0)
            x = turn(s, x, angle, step ? turned[(step - 1) % 2] : NULL, turned[step % 2]);
        for (int i = 0; i < m->nx; i++) {
            double value = x[s->state[i]];
            /* angles: from -pi to pi at the start, and without jumps from there on */
            if (m->angle[i]) {
                const hb_real *last = step ? hb_points_states(points, block, step - 1) + lane : NULL;
                const double before = last ? hb_physical_state(m, i, (double)last[(size_t)i * HB_STRIDE]) : 0;
                value += 2 * M_PI * rint((before - value) / (2 * M_PI));
            }
            z[(size_t)i * HB_STRIDE] = (hb_real)hb_normalised_state(m, i, value);
        }
    }
    for (int step = 0; step < points->nsteps; step++) {
        const double *u = e->u ? e->u + (size_t)(row + step) * (size_t)d->header.nu : NULL;
        hb_real *to = hb_points_controls(points, block, step) + lane;
        for (int i = 0; i < m->nu; i++) {
            double value = s->control[i].hidden ? f->hidden[s->control[i].column] : u[s->control[i].column] / scale;
            to[(size_t)i * HB_STRIDE] = (hb_real)hb_normalised_control(m, i, value);
        }
        hb_points_dt(points, block, step)[lane] = (hb_real)hb_episode_dt(d, e, row + step);
    }
    hb_stream_touch(e->stream, (size_t)(points->nsteps + 1) * (size_t)(d->header.nx + d->header.nu) * sizeof(double));
}

void hb_sampler_put(const hb_sampler *s, int function, size_t start, hb_points *points, int sample)
{
    put(s, function, start, 0, points, sample);
}

void hb_sampler_pad(const hb_sampler *s, hb_points *points)
{
    int block = hb_points_nblocks(points) - 1, used = points->n - block * HB_STRIDE;
    size_t left = (size_t)(HB_STRIDE - used);

    if (block < 0)
        return;
    for (int step = 0; step <= points->nsteps; step++) {
        for (size_t i = 0; i < (size_t)points->nx; i++)
            memset(hb_points_states(points, block, step) + i * HB_STRIDE + used, 0, left * sizeof *points->z);
        if (step == points->nsteps)
            break;
        for (size_t i = 0; i < (size_t)points->nu; i++)
            memset(hb_points_controls(points, block, step) + i * HB_STRIDE + used, 0, left * sizeof *points->u);
        for (int p = used; p < HB_STRIDE; p++)
            hb_points_dt(points, block, step)[p] = (hb_real)s->model->dt;
    }
}

void hb_sampler_draw(const hb_sampler *s, int function, size_t first, size_t count, hb_random_key key, uint64_t index,
                     hb_points *points)
{
    for (int p = 0; p < points->n; p++) {
        uint64_t at = index + (uint64_t)p;
        double angle = s->turns ? M_PI * (2 * hb_random_uniform(key, at | of_headings) - 1) : 0;
        put(s, function, first + hb_random_bits(key, at) % count, angle, points, p);
    }
    hb_sampler_pad(s, points);
}
