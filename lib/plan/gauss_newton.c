/* Bounds are met by the dual: with F = H + damping I and rows c_i of the constraints, d = -F^-1 (g + sum_i p_i c_i)
 * with multipliers p_i, found one at a time in turn (Hildreth's method). Only rows that were once violated take part,
 * so a step that stays within bounds costs one factorisation and no more. */
#include "plan/gauss_newton.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "plan/products.h"
#include "plan/riccati.h"

enum { SWEEPS = 50, ROUNDS = 8 };
enum { MOST_DENSE = 64 };         /* unknowns, beyond which the recursion is faster */
enum { MOST_ROWS = 400 };         /* of the constraints that take part, at most, without a dense Hessian */
static const double nearly = 0.1; /* relative: what a Hessian is not made again for */

struct hb_gauss_newton_scratch {
    const hb_products *products;
    double *sensitivity[2]; /* nx x (nh nv): S of this step and the next */
    double *weighted;       /* nx x (nh nv): Q S */
    double *moved;          /* nx x nv: B M */
    double *actuator;       /* nu x (nh nv): da/dw */
    double *effective;      /* nu x (nh nv): de/dw */
    double *dactuator;      /* nu: dJ/da */
    double *adjoint[2];     /* nx */
    double *condensed;      /* (nh + 1) x nx x nx: q that the Hessian was made of */
    double *factor;         /* (nh nv)^2: of the Hessian with */
    double damping;         /* so much damping; negative: of none */
    double *free_step;      /* nh nv: the step without bounds */
    int max_rows;
    int *row;           /* rows that take part, as k * nu + i */
    double *solved;     /* rows x (nh nv): F^-1 c of each */
    double *coupling;   /* rows x rows: c_i F^-1 c_j */
    double *multiplier; /* rows */
    double *pull;       /* rows: coupling times multipliers */
    double *free_value; /* rows: of each constraint, at the step without bounds */
    bool *taken;        /* nh nu: is it in `row`? */
};

static hb_gauss_newton *lay_out(hb_arena *arena, size_t nx, size_t nu, size_t nv, size_t nh, bool dense)
{
    hb_gauss_newton *n = hb_arena_take(arena, 1, sizeof *n), measured = {0};
    struct hb_gauss_newton_scratch *s = hb_arena_take(arena, 1, sizeof *s), scratch = {0};
    hb_gauss_newton *to = n ? n : &measured;
    size_t number = sizeof(double), size = nh * nv, rows = nh * nu;
    const size_t matrix = dense ? size * size : 0, wide = dense ? nx * size : 0;
    const size_t taking_part = dense || rows < MOST_ROWS ? rows : MOST_ROWS;

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
    to->hessian = hb_arena_take(arena, matrix, number);
    for (int i = 0; i < 2; i++) {
        to->scratch->sensitivity[i] = hb_arena_take(arena, wide, number);
        to->scratch->adjoint[i] = hb_arena_take(arena, nx, number);
    }
    to->scratch->weighted = hb_arena_take(arena, wide, number);
    to->scratch->moved = hb_arena_take(arena, nx * nv, number);
    to->scratch->actuator = hb_arena_take(arena, nu * size, number);
    to->scratch->effective = hb_arena_take(arena, nu * size, number);
    to->scratch->dactuator = hb_arena_take(arena, nu, number);
    to->scratch->condensed = hb_arena_take(arena, (nh + 1) * nx * nx, number);
    to->scratch->factor = hb_arena_take(arena, matrix, number);
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

int hb_gauss_newton_new(hb_gauss_newton **ret, int nx, int nu, int nv, int max_nh, hb_gauss_newton_way way,
                        hb_error *err)
{
    const bool dense = way == HB_DENSE || (way == HB_BY_SIZE && max_nh * nv <= MOST_DENSE);
    hb_arena arena = {0};

    lay_out(&arena, (size_t)nx, (size_t)nu, (size_t)nv, (size_t)max_nh, dense);
    int failed = hb_arena_allocate(&arena, err);
    if (failed)
        return failed;
    hb_gauss_newton *n = lay_out(&arena, (size_t)nx, (size_t)nu, (size_t)nv, (size_t)max_nh, dense);
    n->nx = nx;
    n->nu = nu;
    n->nv = nv;
    n->nh = max_nh;
    n->scratch->products = hb_products_default();
    n->scratch->damping = -1;
    failed = dense ? 0 : hb_riccati_new(&n->riccati, nx, nu, nv, max_nh, err);
    if (failed) {
        hb_gauss_newton_free(n);
        return failed;
    }
    *ret = n;
    return 0;
}

double hb_gauss_newton_memory(int nx, int nu, int nv, int max_nh)
{
    const double size = (double)max_nh * nv, rows = (double)max_nh * nu, ny = nx + 2.0 * nu;
    const double taking_part = size <= MOST_DENSE || rows < MOST_ROWS ? rows : MOST_ROWS;
    const double matrices = size <= MOST_DENSE ? 2 * size * size + 3 * nx * size : max_nh * ny * (ny + 3.0 * nv);

    return (matrices + taking_part * (taking_part + size) + max_nh * (2.0 * nx * nx + 3.0 * nx * nu)) * sizeof(double);
}

void hb_gauss_newton_free(hb_gauss_newton *n)
{
    if (!n)
        return;
    hb_riccati_free(n->riccati);
    free(n);
}

/* y += A x for the first `columns` columns of x (`inner` rows) and y (`rows` rows), both `stride` apart */
static void multiply_add(const hb_gauss_newton *n, int rows, int inner, const double *a, int columns, int stride,
                         const double *x, double *y)
{
    n->scratch->products->add(rows, inner, columns, a, inner, 1, x, stride, y, stride);
}

/* dJ/du of control i from dJ/de and the state after the step; dJ/da becomes that of the state before it */
static double through_actuator(const hb_gauss_newton *n, int i, double deffective)
{
    double *da = &n->scratch->dactuator[i];
    double du = (1 - n->share[i]) * deffective + (1 - n->keep[i]) * *da;

    *da = n->share[i] * deffective + n->keep[i] * *da;
    return du;
}

/* gradient by the adjoint: l[k] = lx[k] + A[k]^T l[k+1], g[k] = M^T (lu[k] + B[k]^T l[k+1]) */
static void condense_gradient(hb_gauss_newton *n)
{
    const int nx = n->nx, nu = n->nu, nv = n->nv;
    double *after = n->scratch->adjoint[0], *before = n->scratch->adjoint[1];

    memcpy(after, n->lx + n->nh * nx, (size_t)nx * sizeof *after);
    memset(n->scratch->dactuator, 0, (size_t)nu * sizeof *n->scratch->dactuator);
    for (int k = n->nh - 1; k >= 0; k--) {
        const double *a = n->a + (ptrdiff_t)k * nx * nx, *b = n->b + (ptrdiff_t)k * nx * nu;

        for (int v = 0; v < nv; v++)
            n->gradient[k * nv + v] = 0;
        for (int i = 0; i < nu; i++) {
            double sum = n->lags ? 0 : n->lu[k * nu + i];
            for (int j = 0; j < nx; j++)
                sum += b[j * nu + i] * after[j];
            if (n->lags)
                sum = n->lu[k * nu + i] + through_actuator(n, i, sum);
            for (int v = 0; v < nv; v++)
                n->gradient[k * nv + v] += n->direction[i * nv + v] * sum;
        }
        for (int i = 0; i < nx; i++)
            before[i] = n->lx[k * nx + i];
        for (int j = 0; j < nx; j++)
            for (int i = 0; i < nx; i++)
                before[i] += a[j * nx + i] * after[j];
        double *swap = after;
        after = before;
        before = swap;
    }
}

/* adds scale * M^T diag(weight) M to the nv x nv block of h at (row, column) */
static void add_diagonal(const hb_gauss_newton *n, double scale, const double *weight, int row, int column)
{
    const int nv = n->nv, size = n->nh * nv;

    for (int i = 0; i < n->nu; i++)
        for (int v = 0; v < nv; v++)
            for (int w = 0; w < nv; w++)
                n->hessian[(ptrdiff_t)(row * nv + v) * size + column * nv + w] +=
                    scale * weight[i] * n->direction[i * nv + v] * n->direction[i * nv + w];
}

static void condense_controls(hb_gauss_newton *n)
{
    const int nu = n->nu, nv = n->nv, size = n->nh * nv;

    for (int k = 0; k < n->nh; k++) {
        const double *r = n->r + (ptrdiff_t)k * nu * nu, *slew = n->slew + k * nu;
        for (int i = 0; i < nu; i++)
            for (int j = 0; j < nu; j++)
                for (int v = 0; r[i * nu + j] != 0 && v < nv; v++)
                    for (int w = 0; w < nv; w++)
                        n->hessian[(ptrdiff_t)(k * nv + v) * size + k * nv + w] +=
                            r[i * nu + j] * n->direction[i * nv + v] * n->direction[j * nv + w];
        add_diagonal(n, 1, slew, k, k);
        if (k > 0) {
            add_diagonal(n, 1, slew, k - 1, k - 1);
            add_diagonal(n, -1, slew, k, k - 1);
        }
    }
}

/* S[k+1] = A[k] S[k], and B[k] M in the columns of w[k]; with lag, B[k] times de/dw in all columns up to them */
static void move_sensitivity(hb_gauss_newton *n, int k, const double *s, double *next)
{
    const int nx = n->nx, nu = n->nu, nv = n->nv, size = n->nh * nv, before = k * nv, after = before + nv;
    const double *b = n->b + (ptrdiff_t)k * nx * nu;
    struct hb_gauss_newton_scratch *t = n->scratch;

    memset(next, 0, (size_t)nx * (size_t)size * sizeof *next);
    multiply_add(n, nx, nx, n->a + (ptrdiff_t)k * nx * nx, before, size, s, next);
    if (!n->lags) {
        memset(t->moved, 0, (size_t)(nx * nv) * sizeof *t->moved);
        multiply_add(n, nx, nu, b, nv, nv, n->direction, t->moved);
        for (int i = 0; i < nx; i++)
            memcpy(next + (ptrdiff_t)i * size + before, t->moved + i * nv, (size_t)nv * sizeof *next);
        return;
    }
    for (int i = 0; i < nu; i++) {
        double *a = t->actuator + (ptrdiff_t)i * size, *e = t->effective + (ptrdiff_t)i * size;
        for (int c = 0; c < before; c++) {
            e[c] = n->share[i] * a[c];
            a[c] *= n->keep[i];
        }
        for (int v = 0; v < nv; v++) {
            e[before + v] = (1 - n->share[i]) * n->direction[i * nv + v];
            a[before + v] = (1 - n->keep[i]) * n->direction[i * nv + v];
        }
    }
    multiply_add(n, nx, nu, b, after, size, t->effective, next);
}

/* mean of the diagonal of a dense Hessian */
static double mean_diagonal(const hb_gauss_newton *n)
{
    const int size = n->nh * n->nv;
    double sum = 0;

    for (int i = 0; i < size; i++)
        sum += n->hessian[(ptrdiff_t)i * size + i];
    return sum / size;
}

void hb_gauss_newton_condense(hb_gauss_newton *n)
{
    const int nx = n->nx, nv = n->nv, size = n->nh * nv;
    struct hb_gauss_newton_scratch *t = n->scratch;
    double *s = t->sensitivity[0], *next = t->sensitivity[1];

    condense_gradient(n);
    memcpy(t->condensed, n->q, (size_t)((n->nh + 1) * nx * nx) * sizeof *n->q);
    t->damping = -1;
    if (n->riccati) {
        hb_riccati_take(n->riccati, n, t->condensed);
        n->curvature = hb_riccati_curvature(n->riccati);
        return;
    }
    memset(n->hessian, 0, (size_t)size * (size_t)size * sizeof *n->hessian);
    condense_controls(n);
    for (int k = 0; k < n->nh; k++) {
        const int after = (k + 1) * nv;

        move_sensitivity(n, k, s, next);

        /* H += S^T Q S */
        memset(t->weighted, 0, (size_t)nx * (size_t)size * sizeof *t->weighted);
        multiply_add(n, nx, nx, n->q + (ptrdiff_t)(k + 1) * nx * nx, after, size, next, t->weighted);
        t->products->add_lower(after, nx, next, 1, size, t->weighted, size, n->hessian, size);

        double *swap = s;
        s = next;
        next = swap;
    }
    n->curvature = mean_diagonal(n);
}

static bool nearly_condensed(const hb_gauss_newton *n)
{
    const double *old = n->scratch->condensed;
    double size = 0, change = 0;

    for (int i = 0; i < (n->nh + 1) * n->nx * n->nx; i++) {
        size += old[i] * old[i];
        change += (n->q[i] - old[i]) * (n->q[i] - old[i]);
    }
    return change <= nearly * nearly * size;
}

void hb_gauss_newton_condense_again(hb_gauss_newton *n)
{
    if (!nearly_condensed(n))
        hb_gauss_newton_condense(n);
    else
        condense_gradient(n);
}

/* d . H d */
static double form(const hb_gauss_newton *n, const double *d)
{
    const int size = n->nh * n->nv;
    double sum = 0;

    if (n->riccati)
        return hb_riccati_form(n->riccati, d);
    for (int i = 0; i < size; i++) {
        const double *row = n->hessian + (ptrdiff_t)i * size;
        double curved = row[i] * d[i];
        for (int j = 0; j < i; j++)
            curved += 2 * row[j] * d[j];
        sum += d[i] * curved;
    }
    return sum;
}

double hb_gauss_newton_decrease(const hb_gauss_newton *n, const double *d)
{
    double along = 0;

    for (int i = 0; i < n->nh * n->nv; i++)
        along += n->gradient[i] * d[i];
    return -along - form(n, d) / 2;
}

/* F = H + damping I, ready for solve() */
static int factor(hb_gauss_newton *n, double damping)
{
    const int size = n->nh * n->nv;
    double *f = n->scratch->factor;

    if (n->scratch->damping == damping)
        return 0;
    n->scratch->damping = -1;
    if (n->riccati) {
        if (hb_riccati_factor(n->riccati, damping))
            return -1;
        n->scratch->damping = damping;
        return 0;
    }
    memcpy(f, n->hessian, (size_t)size * (size_t)size * sizeof *f);
    for (int i = 0; i < size; i++)
        f[(ptrdiff_t)i * size + i] += damping;
    if (hb_cholesky(size, f))
        return -1;
    n->scratch->damping = damping;
    return 0;
}

/* d = F^-1 d */
static void solve(hb_gauss_newton *n, double *d)
{
    if (n->riccati)
        hb_riccati_solve(n->riccati, d);
    else
        hb_cholesky_solve(n->nh * n->nv, n->scratch->factor, 1, d);
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
    solve(n, solved);
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
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
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
        if (change <= 1e-6 * largest)
            break;
    }
}

int hb_gauss_newton_step(hb_gauss_newton *n, double damping, double *d)
{
    struct hb_gauss_newton_scratch *t = n->scratch;
    const int size = n->nh * n->nv, rows = n->nh * n->nu;

    if (factor(n, damping))
        return -1;
    for (int i = 0; i < size; i++)
        t->free_step[i] = -n->gradient[i];
    solve(n, t->free_step);
    memcpy(d, t->free_step, (size_t)size * sizeof *d);

    memset(t->taken, 0, (size_t)rows * sizeof *t->taken);
    for (int round = 0, count = 0; round < ROUNDS; round++) {
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
    return hb_all_finite(d, size) ? 0 : -1;
}
