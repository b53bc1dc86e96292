/* Data sets in memory: access, statistics and description. Files are dataset_read.c, dataset_write.c and
 * dataset_csv.c. */
#include "data/dataset.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"

void hb_dataset_free(hb_dataset *d)
{
    if (d && d->nparts) {
        for (int k = 0; k < d->nparts; k++)
            hb_dataset_free(d->part[k]);
        free(d->part);
        free(d->function);
        free(d->episode);
    }
    if (d)
        hb_stream_free(d->stream);
    free(d); /* what is read from one file is one block, see dataset_read.c */
}

bool hb_dataset_control_character(const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s; s++)
        if ((*s < 0x20 && *s != '\t') || *s == 0x7f || (*s == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0))
            return true;
    return false;
}

int hb_dataset_state(const hb_dataset *d, const char *name)
{
    for (int i = 0; i < d->header.nx; i++)
        if (strcmp(d->header.state_name[i], name) == 0)
            return i;
    return -1;
}

bool hb_dataset_states(const hb_dataset *d, const char *const *name, int n, int *ret)
{
    bool all = true;

    for (int i = 0; i < n; i++)
        all = (ret[i] = hb_dataset_state(d, name[i])) >= 0 && all;
    return all;
}

void hb_dataset_transition(const hb_dataset *d, int function, size_t index, hb_transition *ret, int *remaining)
{
    const hb_function *f = &d->function[function];
    int nx = d->header.nx, nu = d->header.nu;

    /* the last episode that starts at or before index */
    int low = f->episode, high = f->episode + f->nepisodes - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (d->episode[middle].first <= index)
            low = middle;
        else
            high = middle - 1;
    }

    const hb_episode *e = &d->episode[low];
    int step = (int)(index - e->first);
    ret->x = e->x + (size_t)step * (size_t)nx;
    ret->x_next = ret->x + nx;
    ret->u = e->u ? e->u + (size_t)step * (size_t)nu : NULL;
    ret->dt = hb_episode_dt(d, e, step);
    if (remaining)
        *remaining = e->nsteps - step;
}

/* Statistics of one column. Two passes: a mean far from zero costs no digits. */
typedef struct column_stats {
    double min, max, mean, std;
} column_stats;

typedef struct column {
    bool control; /* of u instead of x */
    int index;
} column;

static const double *column_rows(const hb_dataset *d, const hb_episode *e, column c, int *nrows, int *stride)
{
    *nrows = c.control ? e->nsteps : e->nsteps + 1;
    *stride = c.control ? d->header.nu : d->header.nx;
    return (c.control ? e->u : e->x) + c.index;
}

static column_stats column_statistics(const hb_dataset *d, column c)
{
    column_stats s = {.min = DBL_MAX, .max = -DBL_MAX};
    double sum = 0, squares = 0, count = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < d->nepisodes; k++) {
            int nrows, stride;
            const double *value = column_rows(d, &d->episode[k], c, &nrows, &stride);
            for (int r = 0; r < nrows; r++) {
                double v = value[(size_t)r * (size_t)stride];
                if (pass == 0) {
                    sum += v;
                    count++;
                    s.min = fmin(s.min, v);
                    s.max = fmax(s.max, v);
                } else {
                    squares += (v - s.mean) * (v - s.mean);
                }
            }
            hb_stream_touch(d->episode[k].stream, (size_t)nrows * (size_t)stride * sizeof *value);
        }
        s.mean = sum / count;
    }
    s.std = sqrt(squares / count);
    return s;
}

/* Sums of one pass over all rows: of v, or of (v - mean)^2 where there is a mean. */
static double add_rows(const hb_dataset *d, bool control, const double *scale, const double *mean, double *sum)
{
    size_t n = (size_t)(control ? d->header.nu : d->header.nx);
    double count = 0;

    for (int k = 0; k < d->nepisodes; k++) {
        const hb_episode *e = &d->episode[k];
        const double *row = control ? e->u : e->x;
        int nrows = control ? e->nsteps : e->nsteps + 1;
        double factor = scale ? 1 / scale[e->function] : 1;
        for (int r = 0; r < nrows; r++, row += n) {
            for (size_t i = 0; i < n; i++) {
                double v = factor * row[i];
                sum[i] += mean ? (v - mean[i]) * (v - mean[i]) : v;
            }
            if (e->stream && r % 1024 == 1023)
                hb_stream_touch(e->stream, 1024 * n * sizeof *row);
        }
        hb_stream_touch(e->stream, 1024 * n * sizeof *row);
        count += nrows;
    }
    return count;
}

static void take_moments(const hb_dataset *d, bool control, const double *scale, double *ret_mean, double *ret_std)
{
    size_t n = (size_t)(control ? d->header.nu : d->header.nx);
    double *mean = calloc(2 * n + 1, sizeof *mean);

    if (!mean)
        return;
    double *squares = mean + n;
    double count = add_rows(d, control, scale, NULL, mean);
    for (size_t i = 0; i < n; i++)
        mean[i] /= count;
    add_rows(d, control, scale, mean, squares);
    for (size_t i = 0; i < n; i++) {
        double std = sqrt(squares[i] / count);
        /* what rounding leaves of a constant column is no deviation */
        bool constant = std <= 1e-12 * fmax(fabs(mean[i]), DBL_MIN);
        if (ret_mean)
            ret_mean[i] = mean[i];
        if (ret_std)
            ret_std[i] = constant ? 1 : std;
    }
    free(mean);
}

void hb_dataset_moments(const hb_dataset *d, double *state_mean, double *state_std, double *control_mean,
                        double *control_std, const double *scale)
{
    if (state_mean || state_std)
        take_moments(d, false, NULL, state_mean, state_std);
    if (d->header.nu > 0 && (control_mean || control_std))
        take_moments(d, true, scale, control_mean, control_std);
}

enum { BINS = 32 };

static void histogram_line(const hb_dataset *d, column c, const column_stats *s, FILE *out)
{
    static const char *const level[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    size_t bin[BINS] = {0}, most = 1;
    double width = s->max > s->min ? (s->max - s->min) / BINS : 1;

    for (int k = 0; k < d->nepisodes; k++) {
        int nrows, stride;
        const double *value = column_rows(d, &d->episode[k], c, &nrows, &stride);
        for (int r = 0; r < nrows; r++) {
            int b = (int)((value[(size_t)r * (size_t)stride] - s->min) / width);
            bin[b < BINS ? b : BINS - 1]++;
        }
    }
    for (int b = 0; b < BINS; b++)
        most = bin[b] > most ? bin[b] : most;

    /* whatever was seen at all shows at least as the lowest mark */
    for (int b = 0; b < BINS; b++)
        fputs(level[(bin[b] * 8 + most - 1) / most], out);
}

static void describe_hidden(const hb_dataset *d, FILE *out)
{
    double *value = calloc((size_t)d->nfunctions, sizeof *value);

    if (!value)
        return;
    for (int i = 0; i < d->header.nhidden; i++) {
        int n = 0;
        for (int f = 0; f < d->nfunctions; f++)
            if (!isnan(d->function[f].hidden[i]))
                value[n++] = d->function[f].hidden[i];
        double median = hb_quantile(value, n, 0.5); /* sorts */
        if (n > 0)
            fprintf(out, "  %-16s %11.5g .. %-11.5g median %.5g%s\n", d->header.hidden_name[i], value[0], value[n - 1],
                    median, n < d->nfunctions ? " (not given for all functions)" : "");
    }
    free(value);
}

/* The longest of n names, at least `least`. */
static int longest(const char (*name)[HB_NAME_SIZE], int n, int least)
{
    for (int i = 0; i < n; i++)
        least = (int)strlen(name[i]) > least ? (int)strlen(name[i]) : least;
    return least;
}

static void describe_column(const hb_dataset *d, column c, int names, int units, FILE *out)
{
    const hb_dataset_header *h = &d->header;
    column_stats s = column_statistics(d, c);

    fprintf(out, "  %-*s %-*s %11.4g %11.4g %11.4g %11.4g  |", names,
            c.control ? h->control_name[c.index] : h->state_name[c.index], units,
            c.control ? h->control_unit[c.index] : h->state_unit[c.index], s.min, s.max, s.mean, s.std);
    histogram_line(d, c, &s, out);
    fputs("|\n", out);
}

void hb_dataset_describe(const hb_dataset *d, FILE *out)
{
    const hb_dataset_header *h = &d->header;
    double seconds = 0, dt_min = DBL_MAX, dt_max = 0;
    int fewest = d->episode[0].nsteps, most = fewest;

    for (int k = 0; k < d->nepisodes; k++) {
        const hb_episode *e = &d->episode[k];
        fewest = e->nsteps < fewest ? e->nsteps : fewest;
        most = e->nsteps > most ? e->nsteps : most;
        for (int i = 0; i < e->nsteps; i++) {
            double dt = hb_episode_dt(d, e, i);
            seconds += dt;
            dt_min = fmin(dt_min, dt);
            dt_max = fmax(dt_max, dt);
        }
    }
    fprintf(out, "plant        %s, seed %llu\n", h->plant[0] ? h->plant : "(not named)", (unsigned long long)h->seed);
    fprintf(out, "functions    %d\n", d->nfunctions);
    fprintf(out, "episodes     %d, of %d to %d steps\n", d->nepisodes, fewest, most);
    fprintf(out, "transitions  %zu, %.5g s in all\n", d->ntransitions, seconds);
    fprintf(out, "dt           %.6g s nominal, %.6g to %.6g s in the data\n", h->dt, dt_min, dt_max);
    fprintf(out, "hash         %016llx\n", (unsigned long long)d->hash);
    if (h->nhidden > 0) {
        fputs(h->parameters_known ? "known parameters\n" : "hidden parameters\n", out);
        describe_hidden(d, out);
    }

    int names = longest(h->control_name, h->nu, longest(h->state_name, h->nx, 11));
    int units = longest(h->control_unit, h->nu, longest(h->state_unit, h->nx, 4));
    for (int control = 0; control < 2; control++) {
        int n = control ? h->nu : h->nx;
        if (n > 0)
            fprintf(out, "%-*s   %-*s %11s %11s %11s %11s  histogram\n", names, control ? "controls" : "states", units,
                    "unit", "min", "max", "mean", "std");
        for (int i = 0; i < n; i++)
            describe_column(d, (column){.control = control, .index = i}, names, units, out);
    }
    if (h->nu > 0)
        fprintf(out, "%-*s   %-*s %11s %11s %11s\n", names, "limits", units, "unit", "min", "max", "trim");
    for (int i = 0; i < h->nu; i++)
        fprintf(out, "  %-*s %-*s %11.4g %11.4g %11.4g\n", names, h->control_name[i], units, h->control_unit[i],
                h->control_min[i], h->control_max[i], h->control_trim[i]);
}
