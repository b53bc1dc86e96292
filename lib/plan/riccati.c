#include "plan/riccati.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/gauss_newton.h"
#include "plan/products.h"

struct hb_riccati {
    const hb_products *products;
    int nx, nu, nv, nh;       /* of the problem taken */
    int ny, actuator, before; /* numbers in y, and where in it a and u_before begin; -1: not there */
    const double *q;          /* (nh + 1) x nx x nx: V's block of x, borrowed */
    const double *slew;       /* nh x nu, borrowed */
    double *y, *w;            /* nh x ny x ny and nh x ny x nv: Y and W */
    double *r, *c;            /* nh x nv x nv and nh x nv x ny: R and C */
    double *gain;             /* nh x nv x ny: K */
    double *inverse;          /* nh x nv x nv: G^-1 */
    double *forward;          /* nh x nv: G^-1 times what is left of the right-hand side */
    double *p, *moved;        /* ny x ny */
    double *closed;           /* ny x ny: Y - W K */
    double *pw, *g;           /* ny x nv and nv x nv */
    double *mixed;            /* nv x ny: G K */
    double *now, *next;       /* ny */
};

static hb_riccati *lay_out(hb_arena *arena, size_t nx, size_t nu, size_t nv, size_t nh)
{
    hb_riccati *r = hb_arena_take(arena, 1, sizeof *r), measured = {0};
    hb_riccati *to = r ? r : &measured;
    const size_t ny = nx + 2 * nu, number = sizeof(double);

    to->y = hb_arena_take(arena, nh * ny * ny, number);
    to->w = hb_arena_take(arena, nh * ny * nv, number);
    to->r = hb_arena_take(arena, nh * nv * nv, number);
    to->c = hb_arena_take(arena, nh * nv * ny, number);
    to->gain = hb_arena_take(arena, nh * nv * ny, number);
    to->inverse = hb_arena_take(arena, nh * nv * nv, number);
    to->forward = hb_arena_take(arena, nh * nv, number);
    to->p = hb_arena_take(arena, ny * ny, number);
    to->moved = hb_arena_take(arena, ny * ny, number);
    to->closed = hb_arena_take(arena, ny * ny, number);
    to->pw = hb_arena_take(arena, ny * nv, number);
    to->g = hb_arena_take(arena, nv * nv, number);
    to->mixed = hb_arena_take(arena, nv * ny, number);
    to->now = hb_arena_take(arena, ny, number);
    to->next = hb_arena_take(arena, ny, number);
    return r;
}

int hb_riccati_new(hb_riccati **ret, int nx, int nu, int nv, int max_nh, hb_error *err)
{
    hb_arena arena = {0};

    lay_out(&arena, (size_t)nx, (size_t)nu, (size_t)nv, (size_t)max_nh);
    int failed = hb_arena_allocate(&arena, err);
    if (failed)
        return failed;
    *ret = lay_out(&arena, (size_t)nx, (size_t)nu, (size_t)nv, (size_t)max_nh);
    (*ret)->products = hb_products_default();
    return 0;
}

void hb_riccati_free(hb_riccati *r)
{
    free(r);
}

/* ---- the problem ---- */

static double *y_at(const hb_riccati *r, int k)
{
    return r->y + (ptrdiff_t)k * r->ny * r->ny;
}

static double *w_at(const hb_riccati *r, int k)
{
    return r->w + (ptrdiff_t)k * r->ny * r->nv;
}

static double *gain_at(const hb_riccati *r, int k)
{
    return r->gain + (ptrdiff_t)k * r->nv * r->ny;
}

/* Y and W of step k */
static void take_jacobians(hb_riccati *r, const hb_gauss_newton *n, int k)
{
    const int nx = r->nx, nu = r->nu, nv = r->nv, ny = r->ny;
    const double *a = n->a + (ptrdiff_t)k * nx * nx, *b = n->b + (ptrdiff_t)k * nx * nu;
    double *y = y_at(r, k), *w = w_at(r, k);

    memset(y, 0, (size_t)(ny * ny) * sizeof *y);
    memset(w, 0, (size_t)(ny * nv) * sizeof *w);
    for (int i = 0; i < nx; i++) {
        memcpy(y + i * ny, a + i * nx, (size_t)nx * sizeof *y);
        for (int j = 0; j < nu; j++) {
            const double share = r->actuator >= 0 ? n->share[j] : 0;
            if (r->actuator >= 0)
                y[i * ny + r->actuator + j] = b[i * nu + j] * share;
            for (int v = 0; v < nv; v++)
                w[i * nv + v] += b[i * nu + j] * (1 - share) * n->direction[j * nv + v];
        }
    }
    for (int j = 0; j < nu; j++)
        for (int v = 0; v < nv; v++) {
            if (r->actuator >= 0) {
                y[(r->actuator + j) * ny + r->actuator + j] = n->keep[j];
                w[(r->actuator + j) * nv + v] = (1 - n->keep[j]) * n->direction[j * nv + v];
            }
            if (r->before >= 0)
                w[(r->before + j) * nv + v] = n->direction[j * nv + v];
        }
}

/* R and C of step k */
static void take_controls(hb_riccati *r, const hb_gauss_newton *n, int k)
{
    const int nu = r->nu, nv = r->nv, ny = r->ny;
    const double *of_u = n->r + (ptrdiff_t)k * nu * nu, *slew = n->slew + k * nu;
    double *of_w = r->r + (ptrdiff_t)k * nv * nv, *c = r->c + (ptrdiff_t)k * nv * ny;

    memset(of_w, 0, (size_t)(nv * nv) * sizeof *of_w);
    memset(c, 0, (size_t)(nv * ny) * sizeof *c);
    for (int i = 0; i < nu; i++) {
        for (int j = 0; j < nu; j++) {
            const double curvature = of_u[i * nu + j] + (i == j ? slew[i] : 0);
            for (int v = 0; curvature != 0 && v < nv; v++)
                for (int z = 0; z < nv; z++)
                    of_w[v * nv + z] += curvature * n->direction[i * nv + v] * n->direction[j * nv + z];
        }
        for (int v = 0; r->before >= 0 && v < nv; v++)
            c[v * ny + r->before + i] = -slew[i] * n->direction[i * nv + v];
    }
}

void hb_riccati_take(hb_riccati *r, const hb_gauss_newton *n, const double *q)
{
    bool changes = false;

    r->nx = n->nx;
    r->nu = n->nu;
    r->nv = n->nv;
    r->nh = n->nh;
    r->q = q;
    r->slew = n->slew;
    for (int i = 0; i < n->nh * n->nu; i++)
        changes = changes || n->slew[i] != 0;
    r->actuator = n->lags ? n->nx : -1;
    r->before = changes ? n->nx + (n->lags ? n->nu : 0) : -1;
    r->ny = n->nx + (n->lags ? n->nu : 0) + (changes ? n->nu : 0);
    for (int k = 0; k < n->nh; k++) {
        take_jacobians(r, n, k);
        take_controls(r, n, k);
    }
}

/* ---- products ---- */

/* out (columns x width) += x^T z for x (rows x columns) and z (rows x width) */
static void add_transposed(const hb_riccati *r, int rows, int columns, int width, const double *x, const double *z,
                           double *out)
{
    r->products->add(columns, rows, width, x, 1, columns, z, width, out, width);
}

/* out (rows x width) += x z for x (rows x inner) and z (inner x width) */
static void add_product(const hb_riccati *r, int rows, int inner, int width, const double *x, const double *z,
                        double *out)
{
    r->products->add(rows, inner, width, x, inner, 1, z, width, out, width);
}

/* p += V of step k */
static void add_curvature(const hb_riccati *r, int k, double *p)
{
    const double *q = r->q + (ptrdiff_t)k * r->nx * r->nx;

    for (int i = 0; i < r->nx; i++)
        for (int j = 0; j < r->nx; j++)
            p[i * r->ny + j] += q[i * r->nx + j];
    for (int i = 0; r->before >= 0 && k < r->nh && i < r->nu; i++)
        p[(r->before + i) * (r->ny + 1)] += r->slew[k * r->nu + i];
}

/* p = V[nh] */
static void begin(hb_riccati *r)
{
    memset(r->p, 0, (size_t)(r->ny * r->ny) * sizeof *r->p);
    add_curvature(r, r->nh, r->p);
}

/* pw = P W, g = R + W^T P W + damping I */
static void of_controls(hb_riccati *r, int k, double damping)
{
    const int nv = r->nv, ny = r->ny;

    memset(r->pw, 0, (size_t)(ny * nv) * sizeof *r->pw);
    add_product(r, ny, ny, nv, r->p, w_at(r, k), r->pw);
    memcpy(r->g, r->r + (ptrdiff_t)k * nv * nv, (size_t)(nv * nv) * sizeof *r->g);
    for (int v = 0; v < nv; v++)
        r->g[v * (nv + 1)] += damping;
    add_transposed(r, ny, nv, nv, w_at(r, k), r->pw, r->g);
}

/* P <- V + Z^T P Z, lower triangle; the rows of Z from `inner` on are zero */
static void move_back(hb_riccati *r, int k, const double *z, int inner)
{
    const int ny = r->ny;

    memset(r->moved, 0, (size_t)(ny * ny) * sizeof *r->moved);
    add_transposed(r, inner, ny, ny, z, r->p, r->moved);
    memset(r->p, 0, (size_t)(ny * ny) * sizeof *r->p);
    add_curvature(r, k, r->p);
    r->products->add_lower(ny, inner, r->moved, ny, 1, z, ny, r->p, ny);
}

static void mirror(hb_riccati *r)
{
    for (int i = 0; i < r->ny; i++)
        for (int j = 0; j < i; j++)
            r->p[j * r->ny + i] = r->p[i * r->ny + j];
}

double hb_riccati_curvature(hb_riccati *r)
{
    double sum = 0;

    begin(r);
    for (int k = r->nh - 1; k >= 0; k--) {
        of_controls(r, k, 0);
        for (int v = 0; v < r->nv; v++)
            sum += r->g[v * (r->nv + 1)];
        /* the rows of Y that belong to u_before are zero */
        move_back(r, k, y_at(r, k), r->before >= 0 ? r->before : r->ny);
        mirror(r);
    }
    return sum / (r->nh * r->nv);
}

/* ---- factor and solve ---- */

/* a <- a^-1 for a symmetric matrix of a few rows; -1 when it is not positive definite: its pivots tell */
static int invert(int n, double *a)
{
    for (int k = 0; k < n; k++) {
        const double pivot = a[k * n + k];
        if (!(pivot > 0) || isinf(pivot))
            return -1;
        a[k * n + k] = 1;
        for (int j = 0; j < n; j++)
            a[k * n + j] /= pivot;
        for (int i = 0; i < n; i++) {
            const double factor = a[i * n + k];
            if (i == k)
                continue;
            a[i * n + k] = 0;
            for (int j = 0; j < n; j++)
                a[i * n + j] -= factor * a[k * n + j];
        }
    }
    return 0;
}

/* P <- V + (Y - W K)^T P (Y - W K) + K^T (R + damping I) K - C^T K - K^T C. That is V + Y^T P Y - K^T G K, but errors
 * of rounding die out on the way back instead of growing as fast as the system is unstable. */
static void close_loop(hb_riccati *r, int k, double damping)
{
    const int nv = r->nv, ny = r->ny;
    const double *gain = gain_at(r, k), *c = r->c + (ptrdiff_t)k * nv * ny, *w = w_at(r, k);

    memcpy(r->closed, y_at(r, k), (size_t)(ny * ny) * sizeof *r->closed);
    for (int i = 0; i < nv * ny; i++)
        r->mixed[i] = -gain[i];
    add_product(r, ny, nv, ny, w, r->mixed, r->closed);
    move_back(r, k, r->closed, ny);
    /* with mixed = (R + damping I) K / 2 - C, K^T mixed + mixed^T K is what is missing */
    memcpy(r->g, r->r + (ptrdiff_t)k * nv * nv, (size_t)(nv * nv) * sizeof *r->g);
    for (int v = 0; v < nv; v++)
        r->g[v * (nv + 1)] += damping;
    for (int i = 0; i < nv * nv; i++)
        r->g[i] /= 2;
    for (int i = 0; i < nv * ny; i++)
        r->mixed[i] = -c[i];
    add_product(r, nv, nv, ny, r->g, gain, r->mixed);
    r->products->add_lower(ny, nv, gain, 1, ny, r->mixed, ny, r->p, ny);
    r->products->add_lower(ny, nv, r->mixed, 1, ny, gain, ny, r->p, ny);
    mirror(r);
}

int hb_riccati_factor(hb_riccati *r, double damping)
{
    const int nv = r->nv, ny = r->ny;

    begin(r);
    for (int k = r->nh - 1; k >= 0; k--) {
        double *gain = gain_at(r, k), *inverse = r->inverse + (ptrdiff_t)k * nv * nv;

        of_controls(r, k, damping);
        memcpy(inverse, r->g, (size_t)(nv * nv) * sizeof *inverse);
        if (invert(nv, inverse))
            return -1;
        /* G K = C + W^T P Y */
        memcpy(r->mixed, r->c + (ptrdiff_t)k * nv * ny, (size_t)(nv * ny) * sizeof *r->mixed);
        add_transposed(r, ny, nv, ny, r->pw, y_at(r, k), r->mixed);
        memset(gain, 0, (size_t)(nv * ny) * sizeof *gain);
        add_product(r, nv, nv, ny, inverse, r->mixed, gain);
        close_loop(r, k, damping);
    }
    return 0;
}

/* out (columns) += x^T v for v of `rows` numbers: v is a row, so that whole rows of x are added up */
static void add_times(const hb_riccati *r, int rows, int columns, const double *v, const double *x, double *out)
{
    r->products->add(1, rows, columns, v, 0, 1, x, columns, out, 0);
}

/* zeros */
static double *clear(double *x, int n)
{
    return memset(x, 0, (size_t)n * sizeof *x);
}

static void swap(hb_riccati *r)
{
    double *now = r->now;

    r->now = r->next;
    r->next = now;
}

/* by the adjoint: l[k] = ly[k] + Y^T l[k+1], g[k] = M^T lu[k] + W^T l[k+1] */
void hb_riccati_gradient(hb_riccati *r, const hb_gauss_newton *n, double *gradient)
{
    const int nx = r->nx, nu = r->nu, nv = r->nv, ny = r->ny;

    memcpy(clear(r->now, ny), n->lx + r->nh * nx, (size_t)nx * sizeof *r->now);
    for (int k = r->nh - 1; k >= 0; k--) {
        double *g = clear(gradient + k * nv, nv);
        add_times(r, nu, nv, n->lu + k * nu, n->direction, g);
        add_times(r, ny, nv, r->now, w_at(r, k), g);
        memcpy(clear(r->next, ny), n->lx + k * nx, (size_t)nx * sizeof *r->next);
        add_times(r, ny, ny, r->now, y_at(r, k), r->next);
        swap(r);
    }
}

/* What later steps make of the right-hand side is l <- Y^T l - K^T (W^T l - d); and on from there,
 * w = -K y - G^-1 (W^T l - d). */
void hb_riccati_solve(hb_riccati *r, double *d)
{
    const int nv = r->nv, ny = r->ny;

    clear(r->now, ny);
    for (int k = r->nh - 1; k >= 0; k--) {
        double *left = d + k * nv, *forward = clear(r->forward + k * nv, nv);

        for (int v = 0; v < nv; v++)
            left[v] = -left[v];
        add_times(r, ny, nv, r->now, w_at(r, k), left);
        for (int v = 0; v < nv; v++)
            left[v] = -left[v];
        add_times(r, nv, nv, left, r->inverse + (ptrdiff_t)k * nv * nv, forward);
        add_times(r, ny, ny, r->now, y_at(r, k), clear(r->next, ny));
        add_times(r, nv, ny, left, gain_at(r, k), r->next);
        swap(r);
    }
    clear(r->now, ny);
    for (int k = 0; k < r->nh; k++) {
        double *w = d + k * nv;

        memcpy(w, r->forward + k * nv, (size_t)nv * sizeof *w);
        for (int v = 0; v < nv; v++)
            for (int i = 0; i < ny; i++)
                w[v] -= gain_at(r, k)[v * ny + i] * r->now[i];
        add_product(r, ny, ny, 1, y_at(r, k), r->now, clear(r->next, ny));
        add_product(r, ny, nv, 1, w_at(r, k), w, r->next);
        swap(r);
    }
}
