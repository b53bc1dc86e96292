#include "data/log_thrust.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"

enum { DELAYS = 4, FEWEST = 100 };

static const double apart = 0.04; /* seconds between the rows that an acceleration is of, and between delays */
static const double gravity = 9.81;
static const double counted = 0.9; /* of rows: the others may be falls and collisions */

typedef struct row {
    double carried, law;
    int group;
} row;

typedef struct columns {
    int v[3], q[4], first, nmotors, battery;
} columns;

/* The body's z in the world. */
static void upward(const double *x, const int *at, double *ret)
{
    double a = x[at[0]], b = x[at[1]], c = x[at[2]], s = x[at[3]];

    ret[0] = 2 * (a * c + s * b);
    ret[1] = 2 * (b * c - s * a);
    ret[2] = s * s + c * c - a * a - b * b;
}

/* What carries between two rows, per kilogram. */
static double carried(const double *x, const double *next, const columns *c, double seconds)
{
    double z[3], z_next[3], sum = 0;

    upward(x, c->q, z);
    upward(next, c->q, z_next);
    for (int i = 0; i < 3; i++)
        sum += (z[i] + z_next[i]) / 2 * ((next[c->v[i]] - x[c->v[i]]) / seconds + (i == 2 ? gravity : 0));
    return sum;
}

static double law_of(hb_thrust_law law, const double *u, const columns *c)
{
    double sum = 0, volts = c->battery >= 0 ? u[c->battery] : 1;

    for (int i = 0; i < c->nmotors; i++) {
        double command = fmax(0, u[c->first + i]);
        if (law == HB_THRUST_VOLTAGE || law == HB_THRUST_BOTH_SQUARED)
            command *= volts;
        sum += law == HB_THRUST_SQUARE || law == HB_THRUST_BOTH_SQUARED ? command * command : command;
    }
    return sum;
}

/* Rows of one law and delay: what carries, what the law has. Returns how many. */
static size_t collect(const hb_dataset *d, const columns *c, hb_thrust_law law, int delay, const int *group, row *to)
{
    size_t nx = (size_t)d->header.nx, nu = (size_t)d->header.nu, n = 0;
    size_t stride = (size_t)fmax(1, round(apart / d->header.dt)), late = (size_t)delay * stride;

    for (int f = 0; f < d->nfunctions; f++)
        for (int e = d->function[f].episode; e < d->function[f].episode + d->function[f].nepisodes; e++) {
            const hb_episode *of = &d->episode[e];
            for (size_t k = late; k + stride <= (size_t)of->nsteps; k++) {
                double seconds = 0, mean = 0;
                for (size_t i = 0; i < stride; i++) {
                    seconds += hb_episode_dt(d, of, (int)(k + i));
                    mean += law_of(law, of->u + (k - late + i) * nu, c) / (double)stride;
                }
                to[n].carried = carried(of->x + k * nx, of->x + (k + stride) * nx, c, seconds);
                to[n].law = mean;
                to[n++].group = group[f];
            }
        }
    return n;
}

/* Medians and quantiles, since flights end in falls. Returns what is left; the gain of each group. */
static double fit(const row *r, size_t n, double *memory, double *gain)
{
    for (int g = 0; g < HB_THRUST_GROUPS; g++) {
        int count = 0;
        for (size_t i = 0; i < n; i++)
            if (r[i].group == g && r[i].law > 0)
                memory[count++] = r[i].carried / r[i].law;
        gain[g] = count ? hb_quantile(memory, count, 0.5) : 0;
    }
    for (size_t i = 0; i < n; i++)
        memory[i] = fabs(r[i].carried - gain[r[i].group] * r[i].law) / gravity;
    return hb_quantile(memory, (int)n, counted);
}

int hb_thrust_find(hb_thrust *ret, const hb_dataset *d, int first, int nmotors, int battery, const int *group,
                   hb_error *err)
{
    columns c = {.first = first, .nmotors = nmotors, .battery = battery};
    hb_thrust best = {.left = 1}, now;
    row *r = malloc((d->ntransitions + 1) * sizeof *r);
    double *memory = malloc((d->ntransitions + 1) * sizeof *memory);
    bool known = hb_dataset_states(d, (const char *const[]){"vx", "vy", "vz"}, 3, c.v) &&
                 hb_dataset_states(d, (const char *const[]){"qx", "qy", "qz", "qw"}, 4, c.q);

    for (int law = 0; law < HB_THRUST_LAWS && known && r && memory; law++) {
        if (battery < 0 && (law == HB_THRUST_VOLTAGE || law == HB_THRUST_BOTH_SQUARED))
            continue;
        for (int delay = 0; delay < DELAYS; delay++) {
            size_t n = collect(d, &c, (hb_thrust_law)law, delay, group, r);
            if (n < FEWEST)
                break;
            now.law = (hb_thrust_law)law;
            now.left = fit(r, n, memory, now.gain);
            if (now.left < best.left)
                best = now;
        }
    }
    bool enough = r && memory;
    free(r);
    free(memory);
    if (!enough)
        return hb_fail(err, ENOMEM, "out of memory");
    if (!(best.left < 1))
        return hb_fail(err, ENODATA, "no motor's command carries the vehicle");
    *ret = best;
    return 0;
}
