#include "plan/uncertainty.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "dynamics/basis.h"

struct hb_uncertainty {
    const hb_model *m;
    hb_rollout *rollout;
    hb_workspace *workspace;
    int nproblems;
    double *states;      /* (nh + 1) x nx */
    double *a, *b;       /* nh x nx x nx and nh x nx x nu */
    double *gain;        /* nx x nu: K^T of a step */
    double *closed;      /* nh x nx x nx: A - B K */
    double *value;       /* nx x nx: the regulator's cost to go, physical */
    double *pb, *weight; /* nx x nu: value B, and nu x nu */
    double *g;           /* nh x nb x nx: increments of the basis functions, physical */
    double *by;          /* nproblems x nx x nb: J */
    double *moved;       /* scratch: nx x nb, or nx x nx */
    double *spread;      /* nx x nb: J S */
    double *covariance;  /* (nh + 1) x nx x nx: P */
    hb_real *z, *u, *dt; /* rows of HB_STRIDE: nx, nu and 1 */
    hb_real *increment;  /* (nb + 1) x nx x HB_STRIDE */
};

static hb_uncertainty *lay_out(hb_arena *arena, const hb_model *m, int max_horizon)
{
    const size_t nx = (size_t)m->nx, nu = (size_t)m->nu, nb = (size_t)m->nb, nh = (size_t)max_horizon;
    const size_t number = sizeof(double), problems = (size_t)hb_model_nproblems(m);
    hb_uncertainty *c = hb_arena_take(arena, 1, sizeof *c), measured = {0}, *to = c ? c : &measured;

    to->states = hb_arena_take(arena, (nh + 1) * nx, number);
    to->a = hb_arena_take(arena, nh * nx * nx, number);
    to->b = hb_arena_take(arena, nh * nx * nu, number);
    to->gain = hb_arena_take(arena, nu * nx, number);
    to->closed = hb_arena_take(arena, nh * nx * nx, number);
    to->value = hb_arena_take(arena, nx * nx, number);
    to->pb = hb_arena_take(arena, nx * nu, number);
    to->weight = hb_arena_take(arena, nu * nu, number);
    to->g = hb_arena_take(arena, nh * nb * nx, number);
    to->by = hb_arena_take(arena, problems * nx * nb, number);
    to->moved = hb_arena_take(arena, nx * (nx > nb ? nx : nb), number);
    to->spread = hb_arena_take(arena, nx * nb, number);
    to->covariance = hb_arena_take(arena, (nh + 1) * nx * nx, number);
    to->z = hb_arena_take(arena, nx * HB_STRIDE, sizeof(hb_real));
    to->u = hb_arena_take(arena, nu * HB_STRIDE, sizeof(hb_real));
    to->dt = hb_arena_take(arena, HB_STRIDE, sizeof(hb_real));
    to->increment = hb_arena_take(arena, (nb + 1) * nx * HB_STRIDE, sizeof(hb_real));
    return c;
}

int hb_uncertainty_new(hb_uncertainty **ret, const hb_model *m, int max_horizon, hb_error *err)
{
    hb_arena arena = {0};
    int r;

    lay_out(&arena, m, max_horizon);
    if ((r = hb_arena_allocate(&arena, err)))
        return r;
    hb_uncertainty *c = lay_out(&arena, m, max_horizon);
    c->m = m;
    c->nproblems = hb_model_nproblems(m);
    if ((r = hb_rollout_new(&c->rollout, m, 1, err)) || (r = hb_workspace_new(&c->workspace, m, false, err))) {
        hb_uncertainty_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

void hb_uncertainty_free(hb_uncertainty *c)
{
    if (!c)
        return;
    hb_workspace_free(c->workspace);
    hb_rollout_free(c->rollout);
    free(c);
}

/* out (rows x columns) = x^T y for x (inner x rows) and y (inner x columns) */
static void transposed_times(int rows, int inner, int columns, const double *x, const double *y, double *out)
{
    memset(out, 0, (size_t)(rows * columns) * sizeof *out);
    for (int l = 0; l < inner; l++)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++)
                out[i * columns + j] += x[l * rows + i] * y[l * columns + j];
}

/* One step back of the regulator: its gain, c->closed of step k, and its cost to go from there. */
static bool regulate(hb_uncertainty *c, int k)
{
    const hb_model *m = c->m;
    const int nx = m->nx, nu = m->nu;
    const double *a = c->a + (ptrdiff_t)k * nx * nx, *b = c->b + (ptrdiff_t)k * nx * nu;
    double *closed = c->closed + (ptrdiff_t)k * nx * nx;

    transposed_times(nx, nx, nu, c->value, b, c->pb); /* it is symmetric */
    transposed_times(nu, nx, nu, b, c->pb, c->weight);
    for (int i = 0; i < nu; i++)
        c->weight[i * (nu + 1)] +=
            1 / ((m->control_max[i] - m->control_min[i]) * (m->control_max[i] - m->control_min[i]));
    transposed_times(nx, nx, nu, a, c->pb, c->gain);
    if (hb_cholesky(nu, c->weight))
        return false;
    hb_cholesky_solve(nu, c->weight, nx, c->gain);
    for (int i = 0; i < nx; i++)
        for (int j = 0; j < nx; j++) {
            closed[i * nx + j] = a[i * nx + j];
            for (int l = 0; l < nu; l++)
                closed[i * nx + j] -= b[i * nu + l] * c->gain[j * nu + l];
        }
    /* value <- Q + A^T value (A - B K), through c->moved */
    double *moved = c->moved;
    transposed_times(nx, nx, nx, c->value, closed, moved);
    transposed_times(nx, nx, nx, a, moved, c->value);
    for (int i = 0; i < nx; i++) {
        for (int j = 0; j < i; j++)
            c->value[i * nx + j] = c->value[j * nx + i] = (c->value[i * nx + j] + c->value[j * nx + i]) / 2;
        c->value[i * (nx + 1)] += 1 / (m->state_std[i] * m->state_std[i]);
    }
    return true;
}

/* increments of the basis functions in n steps from `first` on, side by side: c->g */
static void take_increments(hb_uncertainty *c, const hb_real *coefficient, const double *u, double dt, int first, int n)
{
    const hb_model *m = c->m;
    const int nx = m->nx, nu = m->nu;

    for (int s = 0; s < hb_padded(n); s++) {
        const int k = first + (s < n ? s : n - 1); /* padding lanes repeat the last one */
        c->dt[s] = (hb_real)dt;
        for (int i = 0; i < nx; i++)
            c->z[i * HB_STRIDE + s] = (hb_real)hb_normalised_state(m, i, c->states[k * nx + i]);
        for (int i = 0; i < nu; i++)
            c->u[i * HB_STRIDE + s] = (hb_real)hb_normalised_control(m, i, u[k * nu + i]);
    }
    const hb_batch in = {.n = n, .z = c->z, .u = nu ? c->u : NULL, .dt = c->dt};
    hb_basis_increments(m, c->workspace, &in, coefficient, c->increment);
    for (int s = 0; s < n; s++)
        for (int i = 0; i < m->nb * nx; i++)
            c->g[(ptrdiff_t)(first + s) * m->nb * nx + i] =
                (double)c->increment[(ptrdiff_t)i * HB_STRIDE + s] * m->state_std[i % nx];
}

/* J of one problem, nx x nb, goes on by step k. Its coefficients act on all states, or on `state` alone. */
static void move_on(hb_uncertainty *c, int k, int state, double *by)
{
    const int nx = c->m->nx, nb = c->m->nb;
    const double *a = c->a + (ptrdiff_t)k * nx * nx, *closed = c->closed + (ptrdiff_t)k * nx * nx,
                 *g = c->g + (ptrdiff_t)k * nb * nx;

    for (int i = 0; i < nx; i++)
        for (int j = 0; j < nb; j++) {
            double sum = 0;
            for (int l = 0; l < nx; l++) {
                const double increment = state < 0 || state == l ? g[j * nx + l] : 0;
                sum += closed[i * nx + l] * by[l * nb + j] + (a[i * nx + l] + (i == l)) * increment / 2;
            }
            c->moved[i * nb + j] = sum;
        }
    memcpy(by, c->moved, (size_t)(nx * nb) * sizeof *by);
}

/* p += J S J^T */
static void add_covariance(hb_uncertainty *c, const double *by, const double *covariance, double *p)
{
    const int nx = c->m->nx, nb = c->m->nb;

    memset(c->spread, 0, (size_t)(nx * nb) * sizeof *c->spread);
    for (int i = 0; i < nx; i++)
        for (int l = 0; l < nb; l++)
            for (int j = 0; j < nb; j++)
                c->spread[i * nb + j] += by[i * nb + l] * covariance[l * nb + j];
    for (int i = 0; i < nx; i++)
        for (int j = 0; j < nx; j++)
            for (int l = 0; l < nb; l++)
                p[i * nx + j] += c->spread[i * nb + l] * by[j * nb + l];
}

const double *hb_uncertainty_propagate(hb_uncertainty *c, const hb_predictor *p, const hb_real *coefficient,
                                       const double *covariance, const double *x0, const double *u, double dt, int nh,
                                       const double **states)
{
    const int nx = c->m->nx, nu = c->m->nu, nb = c->m->nb;
    const size_t problem = (size_t)(nx * nb);

    memcpy(c->states, x0, (size_t)nx * sizeof *x0);
    for (int k = 0; k < nh; k++)
        hb_rollout_steps(c->rollout, p, dt, 0, 1, c->states + k * nx, u + k * nu, c->states + (k + 1) * nx);
    if (!hb_all_finite(c->states, (nh + 1) * nx) ||
        !hb_rollout_jacobians(c->rollout, p, dt, nh, c->states, u, c->a, c->b, NULL))
        return NULL;
    for (int first = 0; first < nh; first += HB_STRIDE)
        take_increments(c, coefficient, u, dt, first, nh - first < HB_STRIDE ? nh - first : HB_STRIDE);
    memset(c->value, 0, (size_t)(nx * nx) * sizeof *c->value);
    for (int i = 0; i < nx; i++)
        c->value[i * (nx + 1)] = 1 / (c->m->state_std[i] * c->m->state_std[i]);
    for (int k = nh - 1; k >= 0; k--)
        if (!regulate(c, k))
            return NULL;
    memset(c->by, 0, (size_t)c->nproblems * problem * sizeof *c->by);
    memset(c->covariance, 0, (size_t)((nh + 1) * nx * nx) * sizeof *c->covariance);
    for (int k = 0; k < nh; k++)
        for (int i = 0; i < c->nproblems; i++) {
            double *by = c->by + (size_t)i * problem;
            move_on(c, k, c->nproblems > 1 ? i : -1, by);
            add_covariance(c, by, covariance + (ptrdiff_t)i * nb * nb, c->covariance + (ptrdiff_t)(k + 1) * nx * nx);
        }
    *states = c->states;
    return hb_all_finite(c->covariance, (nh + 1) * nx * nx) ? c->covariance : NULL;
}
