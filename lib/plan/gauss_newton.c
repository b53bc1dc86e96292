/* Bounds are met by the dual: with F = H + damping I and rows c_i of the constraints, d = -F^-1 (g + sum_i p_i c_i)
 * with multipliers p_i, found one at a time in turn (Hildreth's method). Only rows that were once violated take part,
 * so a step that stays within bounds costs one factorisation and no more. */
#include "plan/gauss_newton.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "plan/numbers.h"
#include "plan/riccati.h"

enum { MOST_ROWS = 400 }; /* of the constraints that take part, at most: memory grows with their square */

struct hb_gauss_newton_scratch {
    hb_riccati *riccati;
    double *condensed; /* (nh + 1) x nx x nx: q that the Hessian was made of */
    double damping;    /* of the factor in hand; negative: there is none */
    double *free_step; /* nh nv: the step without bounds */
    int max_rows;
    int *row;           /* rows that take part, as k * nu + i */
    double *solved;     /* rows x (nh nv): F^-1 c of each */
    double *coupling;   /* rows x rows: c_i F^-1 c_j */
    double *multiplier; /* rows */
    double *pull;       /* rows: coupling times multipliers */
    double *free_value; /* rows: of each constraint, at the step without bounds */
    bool *taken;        /* nh nu: is it in `row`? */
};

static hb_gauss_newton *lay_out(hb_arena *arena, size_t nx, size_t nu, size_t nv, size_t nh)
{
    hb_gauss_newton *n = hb_arena_take(arena, 1, sizeof *n), measured = {0};
    struct hb_gauss_newton_scratch *s = hb_arena_take(arena, 1, sizeof *s), scratch = {0};
    hb_gauss_newton *to = n ? n : &measured;
    const size_t number = sizeof(double), size = nh * nv, rows = nh * nu;
    const size_t taking_part = rows < MOST_ROWS ? rows : MOST_ROWS;

    to->scratch = s ? s : &scratch;
    to->direction = hb_arena_take(arena, nu * nv, number);
    to->a = hb_arena_take(arena, nh * nx * nx, number);
    to->b = hb_arena_take(arena, nh * nx * nu, number);
    to->keep = hb_arena_take(arena, nu, number);
    to->share = hb_arena_take(arena, nu, number);
    to->lx = hb_arena_take(arena, (nh + 1) * nx, number);
    to->lu = hb_arena_take(arena, nh * nu, number);
    to->q = hb_arena_take(arena, (nh + 1) * nx * nx, number);
    to->r = hb_arena_take(arena, nh * nu * nu, number);
    to->slew = hb_arena_take(arena, nh * nu, number);
    to->low = hb_arena_take(arena, nh * nu, number);
    to->high = hb_arena_take(arena, nh * nu, number);
    to->gradient = hb_arena_take(arena, size, number);
    to->scratch->condensed = hb_arena_take(arena, (nh + 1) * nx * nx, number);
    to->scratch->free_step = hb_arena_take(arena, size, number);
    to->scratch->max_rows = (int)taking_part;
    to->scratch->row = hb_arena_take(arena, taking_part, sizeof(int));
    to->scratch->solved = hb_arena_take(arena, taking_part * size, number);
    to->scratch->coupling = hb_arena_take(arena, taking_part * taking_part, number);
    to->scratch->multiplier = hb_arena_take(arena, taking_part, number);
    to->scratch->pull = hb_arena_take(arena, taking_part, number);
    to->scratch->free_value = hb_arena_take(arena, taking_part, number);
    to->scratch->taken = hb_arena_take(arena, rows, sizeof(bool));
    return n;
}

int hb_gauss_newton_new(hb_gauss_newton **ret, int nx, int nu, int nv, int max_nh, hb_error *err)
{
    hb_arena arena = {0};

    lay_out(&arena, (size_t)nx, (size_t)nu, (size_t)nv, (size_t)max_nh);
    int failed = hb_arena_allocate(&arena, err);
    if (failed)
        return failed;
    hb_gauss_newton *n = lay_out(&arena, (size_t)nx, (size_t)nu, (size_t)nv, (size_t)max_nh);
    n->nx = nx;
    n->nu = nu;
    n->nv = nv;
    n->nh = max_nh;
    n->scratch->damping = -1;
    failed = hb_riccati_new(&n->scratch->riccati, nx, nu, nv, max_nh, err);
    if (failed) {
        hb_gauss_newton_free(n);
        return failed;
    }
    *ret = n;
    return 0;
}

double hb_gauss_newton_memory(int nx, int nu, int nv, int max_nh)
{
    const double size = (double)max_nh * nv, rows = fmin((double)max_nh * nu, MOST_ROWS), ny = nx + 2.0 * nu;
    const double recursion = max_nh * ny * (ny + 3.0 * nv);

    return (recursion + rows * (rows + size) + max_nh * (2.0 * nx * nx + 3.0 * nx * nu)) * sizeof(double);
}

void hb_gauss_newton_free(hb_gauss_newton *n)
{
    if (!n)
        return;
    hb_riccati_free(n->scratch->riccati);
    free(n);
}

static void take_curvatures(hb_gauss_newton *n)
{
    struct hb_gauss_newton_scratch *t = n->scratch;

    memcpy(t->condensed, n->q, (size_t)((n->nh + 1) * n->nx * n->nx) * sizeof *n->q);
    t->damping = -1;
    hb_riccati_take(t->riccati, n, t->condensed);
}

void hb_gauss_newton_condense(hb_gauss_newton *n)
{
    take_curvatures(n);
    n->curvature = hb_riccati_curvature(n->scratch->riccati);
    hb_riccati_gradient(n->scratch->riccati, n, n->gradient);
}

void hb_gauss_newton_condense_again(hb_gauss_newton *n)
{
    const double *old = n->scratch->condensed;
    double before = 0, now = 0, change = 0;

    for (int i = 0; i < (n->nh + 1) * n->nx * n->nx; i++) {
        before += old[i] * old[i];
        now += n->q[i] * n->q[i];
        change += (n->q[i] - old[i]) * (n->q[i] - old[i]);
    }
    if (!(change <= HB_STALE * HB_STALE * before)) {
        take_curvatures(n);
        n->curvature *= before > 0 ? sqrt(now / before) : 1;
    }
    hb_riccati_gradient(n->scratch->riccati, n, n->gradient);
}

/* F = H + damping I, ready for hb_riccati_solve */
static int factor(hb_gauss_newton *n, double damping)
{
    struct hb_gauss_newton_scratch *t = n->scratch;

    if (t->damping == damping)
        return 0;
    t->damping = -1;
    if (hb_riccati_factor(t->riccati, damping))
        return -1;
    t->damping = damping;
    return 0;
}

/* row i of M d[k] for constraint row k * nu + i */
static double constraint(const hb_gauss_newton *n, int row, const double *d)
{
    int k = row / n->nu, i = row % n->nu;
    double sum = 0;

    for (int v = 0; v < n->nv; v++)
        sum += n->direction[i * n->nv + v] * d[k * n->nv + v];
    return sum;
}

/* lets a violated row take part: F^-1 c of it, and its coupling with those that do already */
static void take_row(hb_gauss_newton *n, int row, int count)
{
    struct hb_gauss_newton_scratch *t = n->scratch;
    const int nu = n->nu, nv = n->nv, size = n->nh * nv, rows = t->max_rows;
    double *solved = t->solved + (ptrdiff_t)count * size;

    memset(solved, 0, (size_t)size * sizeof *solved);
    memcpy(solved + row / nu * nv, n->direction + row % nu * nv, (size_t)nv * sizeof *solved);
    hb_riccati_solve(t->riccati, solved);
    t->row[count] = row;
    t->taken[row] = true;
    t->multiplier[count] = 0;
    for (int j = 0; j <= count; j++)
        t->coupling[(ptrdiff_t)count * rows + j] = t->coupling[(ptrdiff_t)j * rows + count] =
            constraint(n, t->row[j], solved);
}

/* pull += by * row i of the coupling, whose first `count` elements count */
static void pull_by(struct hb_gauss_newton_scratch *t, int count, int i, double by)
{
    const double *coupling = t->coupling + (ptrdiff_t)i * t->max_rows;

    for (int j = 0; j < count; j++)
        t->pull[j] += by * coupling[j];
}

/* multipliers of the rows that take part; a row's constraint value is its free one minus what all of them take off */
static void settle_multipliers(hb_gauss_newton *n, int count)
{
    struct hb_gauss_newton_scratch *t = n->scratch;

    memset(t->pull, 0, (size_t)count * sizeof *t->pull);
    for (int i = 0; i < count; i++) {
        t->free_value[i] = constraint(n, t->row[i], t->free_step);
        if (t->multiplier[i] != 0)
            pull_by(t, count, i, t->multiplier[i]);
    }
    for (int sweep = 0; sweep < HB_ROUNDS; sweep++) {
        double largest = 0, change = 0;
        for (int i = 0; i < count; i++) {
            const double own = t->coupling[(ptrdiff_t)i * t->max_rows + i];
            const double value = t->free_value[i] - (t->pull[i] - own * t->multiplier[i]);
            const double low = n->low[t->row[i]], high = n->high[t->row[i]];
            const double excess = value > high ? value - high : value < low ? value - low : 0;
            const double p = own > 0 ? excess / own : 0, by = p - t->multiplier[i];
            change = fmax(change, fabs(by));
            largest = fmax(largest, fabs(p));
            t->multiplier[i] = p;
            if (by != 0)
                pull_by(t, count, i, by);
        }
        if (change <= HB_ROUNDING * largest)
            break;
    }
}

/* With F d = -g - sum_i p_i c_i, d . H d = -g . d - sum_i p_i c_i . d - damping d . d. */
static double decrease(const hb_gauss_newton *n, double damping, int count, const double *d)
{
    const struct hb_gauss_newton_scratch *t = n->scratch;
    double sum = 0;

    for (int i = 0; i < n->nh * n->nv; i++)
        sum += (damping * d[i] - n->gradient[i]) * d[i];
    for (int i = 0; i < count; i++)
        sum += t->multiplier[i] * constraint(n, t->row[i], d);
    return sum / 2;
}

int hb_gauss_newton_step(hb_gauss_newton *n, double damping, double *d, double *gain)
{
    struct hb_gauss_newton_scratch *t = n->scratch;
    const int size = n->nh * n->nv, rows = n->nh * n->nu;
    int count = 0;

    if (factor(n, damping))
        return -1;
    for (int i = 0; i < size; i++)
        t->free_step[i] = -n->gradient[i];
    hb_riccati_solve(t->riccati, t->free_step);
    memcpy(d, t->free_step, (size_t)size * sizeof *d);

    memset(t->taken, 0, (size_t)rows * sizeof *t->taken);
    for (int round = 0; round < HB_ROUNDS; round++) {
        int before = count;
        for (int row = 0; row < rows && count < t->max_rows; row++) {
            double value = constraint(n, row, d), slack = 1e-9 * (n->high[row] - n->low[row]);
            if (!t->taken[row] && (value > n->high[row] + slack || value < n->low[row] - slack))
                take_row(n, row, count++);
        }
        if (count == before)
            break;
        settle_multipliers(n, count);
        memcpy(d, t->free_step, (size_t)size * sizeof *d);
        for (int i = 0; i < count; i++)
            for (int j = 0; j < size; j++)
                d[j] -= t->multiplier[i] * t->solved[(ptrdiff_t)i * size + j];
    }
    *gain = decrease(n, damping, count, d);
    return hb_all_finite(d, size) ? 0 : -1;
}
