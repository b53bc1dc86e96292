#include "data/rotor_order.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "base/statistics.h"
#include "data/blocks.h"
#include "data/vehicles.h"

enum { AXES = 3, ORDERS = 24, ACTUATORS = 9, FEWEST = 10 * HB_BLOCKS, COLUMNS = HB_ROTORS + AXES };

static const double apart = 0.04; /* seconds between rates that are subtracted: beyond sensors' noise */
static const double clip = 5;     /* times the median change: a glitch counts no more than that */
/* signs of nominal:quadrotor: its rotors are front left, back left, back right, front right */
static const double sign[AXES][HB_ROTORS] = {{1, 1, -1, -1}, {-1, 1, 1, -1}, {-1, 1, -1, 1}};

/* sums over one block of the products of [four forces, three accelerations], all as differences */
typedef struct sums {
    double s[COLUMNS][COLUMNS];
} sums;

typedef struct tally {
    sums block[HB_BLOCKS], all;
} tally;

typedef struct rows {
    size_t n;
    double *row; /* n x COLUMNS */
} rows;

/* Angular acceleration between two rows, without what turning itself does to the nominal shape of a body. */
static void acceleration(const double *from, const double *to, const int *w, double seconds, double *ret)
{
    const hb_nominal *n = hb_nominal_find("quadrotor");
    double inertia[AXES];

    for (int k = 0; k < AXES; k++)
        inertia[k] = n->parameter_default[1 + k];
    for (int k = 0; k < AXES; k++) {
        int a = (k + 1) % AXES, b = (k + 2) % AXES;
        double wa = (from[w[a]] + to[w[a]]) / 2, wb = (from[w[b]] + to[w[b]]) / 2;
        ret[k] = (to[w[k]] - from[w[k]]) / seconds - (inertia[a] - inertia[b]) / inertia[k] * wa * wb;
    }
}

/* Rows of one episode whose controls act as in `acting`. */
static void add_rows(rows *to, const hb_dataset *d, const hb_episode *e, const int *w, const double *acting,
                     double scale)
{
    size_t nx = (size_t)d->header.nx, stride = (size_t)fmax(1, round(apart / d->header.dt));

    for (size_t k = stride; k + stride <= (size_t)e->nsteps; k++) {
        double before[AXES], after[AXES], *row = to->row + to->n * COLUMNS;
        const double *x = e->x + k * nx;
        double t0 = 0, t1 = 0;
        for (size_t i = 0; i < stride; i++) {
            t0 += hb_episode_dt(d, e, (int)(k - stride + i));
            t1 += hb_episode_dt(d, e, (int)(k + i));
        }
        acceleration(x - stride * nx, x, w, t0, before);
        acceleration(x, x + stride * nx, w, t1, after);
        for (size_t c = 0; c < HB_ROTORS; c++) {
            row[c] = 0;
            for (size_t i = 0; i < stride; i++)
                row[c] += (acting[(k + i) * HB_ROTORS + c] - acting[(k - stride + i) * HB_ROTORS + c]) /
                          (scale * (double)stride);
        }
        for (int a = 0; a < AXES; a++)
            row[HB_ROTORS + a] = after[a] - before[a];
        to->n++;
    }
}

static int collect(rows *ret, const hb_dataset *d, const int *w, const hb_vehicles *v, double delay, double lag,
                   double *acting)
{
    hb_actuators a = {.nu = HB_ROTORS};

    for (int c = 0; c < HB_ROTORS; c++) {
        a.delay[c] = delay;
        a.lag[c] = lag;
    }
    ret->n = 0;
    for (int f = 0; f < d->nfunctions; f++)
        for (int k = d->function[f].episode; k < d->function[f].episode + d->function[f].nepisodes; k++) {
            const hb_episode *e = &d->episode[k];
            memcpy(acting, e->u, (size_t)e->nsteps * HB_ROTORS * sizeof *acting);
            hb_episode_actuate(d, e, &a, acting);
            add_rows(ret, d, e, w, acting, v->scale[f]);
        }
    return ret->n < FEWEST ? -ENODATA : 0;
}

/* No block counts more than the one in the middle: a flight that ended in a tumble, or whose gyroscope was broken. */
static void level(tally *t)
{
    double energy[HB_BLOCKS], sorted[HB_BLOCKS];

    for (int b = 0; b < HB_BLOCKS; b++)
        energy[b] = sorted[b] = t->block[b].s[HB_ROTORS][HB_ROTORS] + t->block[b].s[HB_ROTORS + 1][HB_ROTORS + 1];
    double most = hb_quantile(sorted, HB_BLOCKS, 0.5);
    for (int b = 0; b < HB_BLOCKS; b++)
        for (int p = 0; p < COLUMNS && energy[b] > most; p++)
            for (int q = 0; q < COLUMNS; q++)
                t->block[b].s[p][q] *= most / energy[b];
}

/* Sums of the products, block by block; falls and glitches are clipped. */
static void add_up(tally *t, const rows *r, double *sorted)
{
    double most[COLUMNS];

    memset(t, 0, sizeof *t);
    for (size_t c = 0; c < COLUMNS; c++) {
        for (size_t i = 0; i < r->n; i++)
            sorted[i] = fabs(r->row[i * COLUMNS + c]);
        most[c] = clip * hb_quantile(sorted, (int)r->n, 0.5);
    }
    for (size_t i = 0; i < r->n; i++) {
        sums *to = &t->block[i * HB_BLOCKS / r->n];
        double row[COLUMNS];
        memcpy(row, r->row + i * COLUMNS, sizeof row);
        for (int c = 0; c < COLUMNS; c++)
            row[c] = fmax(-most[c], fmin(most[c], row[c]));
        for (int p = 0; p < COLUMNS; p++)
            for (int q = 0; q < COLUMNS; q++)
                to->s[p][q] += row[p] * row[q];
    }
    level(t);
    for (int b = 0; b < HB_BLOCKS; b++)
        for (int p = 0; p < COLUMNS; p++)
            for (int q = 0; q < COLUMNS; q++)
                t->all.s[p][q] += t->block[b].s[p][q];
}

/* What four free coefficients leave of an axis. */
static double left_by_any(const sums *s, int axis)
{
    double a[HB_ROTORS * HB_ROTORS], b[HB_ROTORS], left = s->s[HB_ROTORS + axis][HB_ROTORS + axis];

    for (int p = 0; p < HB_ROTORS; p++) {
        for (int q = 0; q < HB_ROTORS; q++)
            a[p * HB_ROTORS + q] = s->s[p][q] + (p == q ? 1e-9 * s->s[p][p] + 1e-30 : 0);
        b[p] = s->s[p][HB_ROTORS + axis];
    }
    if (hb_cholesky(HB_ROTORS, a))
        return left;
    hb_cholesky_solve(HB_ROTORS, a, 1, b);
    for (int p = 0; p < HB_ROTORS; p++)
        left -= b[p] * s->s[p][HB_ROTORS + axis];
    return left;
}

/* Of an axis, with the pattern of an order: sum of (pattern . f)^2 and of its product with the acceleration. */
static void along(const sums *s, int axis, const int *rotor, double *ret_ff, double *ret_fa)
{
    *ret_ff = *ret_fa = 0;
    for (int p = 0; p < HB_ROTORS; p++) {
        *ret_fa += sign[axis][rotor[p]] * s->s[p][HB_ROTORS + axis];
        for (int q = 0; q < HB_ROTORS; q++)
            *ret_ff += sign[axis][rotor[p]] * sign[axis][rotor[q]] * s->s[p][q];
    }
}

/* The gain with which an order explains an axis best. */
static double gain(const tally *t, int axis, const int *rotor)
{
    double ff, fa;

    along(&t->all, axis, rotor, &ff, &fa);
    double g = ff > 0 ? fa / ff : 0;
    return axis == AXES - 1 ? g : fmax(0, g);
}

/* What an order with a gain leaves of an axis, in a block. */
static double left(const sums *s, int axis, const int *rotor, double g)
{
    double ff, fa;

    along(s, axis, rotor, &ff, &fa);
    return s->s[HB_ROTORS + axis][HB_ROTORS + axis] - 2 * g * fa + g * g * ff;
}

/* All permutations, 0 1 2 3 first. */
static void permutation(int index, int *ret)
{
    int rest[HB_ROTORS] = {0, 1, 2, 3}, n = HB_ROTORS;
    static const int below[HB_ROTORS] = {6, 2, 1, 1};

    for (int i = 0; i < HB_ROTORS; i++) {
        int k = index / below[i] % n;
        ret[i] = rest[k];
        memmove(rest + k, rest + k + 1, (size_t)(n - k - 1) * sizeof *rest);
        n--;
    }
}

static double explained(const tally *t, const int *rotor)
{
    double share = 0;

    for (int a = 0; a < AXES - 1; a++)
        share += (1 - left(&t->all, a, rotor, gain(t, a, rotor)) / t->all.s[HB_ROTORS + a][HB_ROTORS + a]) / 2;
    return share;
}

/* What an order leaves of all axes, in units of what four free coefficients leave; in a block, or with -1 in all. */
static double left_by(const tally *t, const double *unit, const int *rotor, int block)
{
    double error = 0;

    for (int a = 0; a < AXES; a++)
        error += left(block < 0 ? &t->all : &t->block[block], a, rotor, gain(t, a, rotor)) / unit[a];
    return error;
}

/* The actuators with which an order leaves least. An oscillation looks like its opposite when a delay is taken wrongly:
 * each order has its own. */
static const tally *best_for(const tally *t, const double *unit, const int *rotor)
{
    const tally *best = t;

    for (int i = 1; i < ACTUATORS; i++)
        if (left_by(&t[i], unit, rotor, -1) < left_by(best, unit, rotor, -1))
            best = &t[i];
    return best;
}

static void judge(const tally *t, hb_rotor_order *ret)
{
    int given[HB_ROTORS], rotor[HB_ROTORS];
    double unit[AXES], least = INFINITY, better[HB_BLOCKS];

    permutation(0, given);
    for (int a = 0; a < AXES; a++) {
        unit[a] = left_by_any(&t[0].all, a);
        for (int i = 1; i < ACTUATORS; i++)
            unit[a] = fmin(unit[a], left_by_any(&t[i].all, a));
    }
    for (int i = 0; i < ORDERS; i++) {
        permutation(i, rotor);
        double error = left_by(best_for(t, unit, rotor), unit, rotor, -1);
        if (error < least) {
            least = error;
            memcpy(ret->rotor, rotor, sizeof rotor);
        }
    }
    const tally *one = best_for(t, unit, ret->rotor), *other = best_for(t, unit, given);
    for (int b = 0; b < HB_BLOCKS; b++)
        better[b] = left_by(other, unit, given, b) - left_by(one, unit, ret->rotor, b);
    ret->deviations = hb_blocks_deviations(better);
    ret->wrong = ret->deviations > hb_beyond_doubt;
    ret->explained = explained(one, ret->rotor);
    ret->as_given = explained(other, given);
    double g = gain(one, AXES - 1, ret->rotor);
    ret->reversed = g < 0;
    for (int b = 0; b < HB_BLOCKS; b++)
        better[b] = left(&one->block[b], AXES - 1, ret->rotor, -g) - left(&one->block[b], AXES - 1, ret->rotor, g);
    ret->reversed_deviations = hb_blocks_deviations(better);
    ret->sense_told = ret->reversed_deviations > hb_beyond_doubt;
}

static int search(hb_rotor_order *ret, const hb_dataset *d, const int *w, const hb_vehicles *v, rows *r, double *acting,
                  double *sorted)
{
    static const double delays[] = {0, 0.02, 0.04}, lags[] = {0, 0.03, 0.08};
    tally *t = calloc(ACTUATORS, sizeof *t);
    int status = t ? 0 : -ENOMEM;

    for (size_t i = 0; i < ACTUATORS && !status; i++)
        if (!(status = collect(r, d, w, v, delays[i / 3], lags[i % 3], acting)))
            add_up(&t[i], r, sorted);
    for (int a = 0; a < AXES && !status; a++)
        status = t[0].all.s[HB_ROTORS + a][HB_ROTORS + a] > 0 ? 0 : -ENODATA; /* else nothing turned */
    if (!status)
        judge(t, ret);
    free(t);
    return status;
}

int hb_rotor_order_find(hb_rotor_order *ret, const hb_dataset *d, hb_error *err)
{
    const hb_nominal *n = hb_nominal_find("quadrotor");
    int w[AXES];
    double reference[HB_NOMINAL_PARAMETERS];
    hb_vehicles *v = NULL;
    size_t most = 1;

    bool turns = hb_dataset_states(d, (const char *const[]){"wx", "wy", "wz"}, AXES, w);
    bool alike = d->header.nu == HB_ROTORS;
    for (int i = 1; i < HB_ROTORS && alike; i++)
        alike = strcmp(d->header.control_unit[i], d->header.control_unit[0]) == 0;
    if (!alike || !turns || d->stream)
        return hb_fail(err, ENODATA, "no forces of four rotors, or no rates");
    for (int k = 0; k < d->nepisodes; k++)
        most = (size_t)d->episode[k].nsteps > most ? (size_t)d->episode[k].nsteps : most;
    memcpy(reference, n->parameter_default, sizeof reference);
    int status = hb_vehicles_new(&v, d, n, reference, err);
    if (status)
        return status;
    rows r = {.row = malloc(d->ntransitions * COLUMNS * sizeof *r.row)};
    double *acting = malloc(most * HB_ROTORS * sizeof *acting), *sorted = malloc(d->ntransitions * sizeof *sorted);
    hb_rotor_order found = {0};
    status = r.row && acting && sorted ? search(&found, d, w, v, &r, acting, sorted) : -ENOMEM;
    if (!status)
        *ret = found;
    free(r.row);
    free(acting);
    free(sorted);
    hb_vehicles_free(v);
    return status ? hb_fail(err, -status, "%s", status == -ENODATA ? "too few rows that turn" : "out of memory") : 0;
}
