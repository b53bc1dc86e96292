#include "plan/trim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "plan/numbers.h"

struct hb_trim {
    const hb_model *m;
    hb_rollout *rollout;
    int quaternion;
    double *x, *a, *b;  /* nx, nx x nx, nx x nu */
    double *residual;   /* nx */
    double *directness; /* nx: how much a state reacts to the controls, squared, relative to the one that does most */
    double *start, *trial; /* nu */
    double *normal, *step; /* nu x nu, nu */
    double *near;          /* nx */
    double *moved[2];      /* nx x nu: what a control moved at the first step has moved by now, and a step later */
    hb_real *u, *cost;     /* nu x HB_STRIDE, HB_STRIDE */
};

static hb_trim *lay_out(hb_arena *arena, const hb_model *m)
{
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu, number = sizeof(double);
    hb_trim *taken = hb_arena_take(arena, 1, sizeof *taken), none = {0}, *t = taken ? taken : &none;

    t->x = hb_arena_take(arena, nx, number);
    t->a = hb_arena_take(arena, nx * nx, number);
    t->b = hb_arena_take(arena, nx * nu, number);
    t->directness = hb_arena_take(arena, nx, number);
    t->residual = hb_arena_take(arena, nx, number);
    t->start = hb_arena_take(arena, nu, number);
    t->trial = hb_arena_take(arena, nu, number);
    t->normal = hb_arena_take(arena, nu * nu, number);
    t->step = hb_arena_take(arena, nu, number);
    t->near = hb_arena_take(arena, nx, number);
    for (int i = 0; i < 2; i++)
        t->moved[i] = hb_arena_take(arena, nx * nu, number);
    t->u = hb_arena_take(arena, nu * HB_STRIDE, sizeof(hb_real));
    t->cost = hb_arena_take(arena, HB_STRIDE, sizeof(hb_real));
    return taken;
}

int hb_trim_new(hb_trim **ret, const hb_model *m, hb_error *err)
{
    hb_arena arena = {0};

    lay_out(&arena, m);
    int failed = hb_arena_allocate(&arena, err);
    if (failed)
        return failed;
    hb_trim *t = lay_out(&arena, m);
    t->m = m;
    t->quaternion = hb_model_quaternion(m);
    failed = hb_rollout_new(&t->rollout, m, 1, err);
    if (failed) {
        hb_trim_free(t);
        return failed;
    }
    *ret = t;
    return 0;
}

void hb_trim_free(hb_trim *t)
{
    if (!t)
        return;
    hb_rollout_free(t->rollout);
    free(t);
}

static void set_state(hb_trim *t, const double *x)
{
    const int q = t->quaternion;
    double length = 0;

    memcpy(t->x, x, (size_t)t->m->nx * sizeof *x);
    for (int i = q; q >= 0 && i < q + 4; i++)
        length += x[i] * x[i];
    for (int i = q; q >= 0 && i < q + 4; i++)
        t->x[i] = length > 0 ? x[i] / sqrt(length) : i == q + 3;
}

/* what one step of the model changes under u, in standard deviations; its cost: squares, and how far u is from the
 * start */
static double evaluate(hb_trim *t, const hb_predictor *p, double dt, const double *u)
{
    const hb_model *m = t->m;
    const hb_goal goal = {.target = t->x, .ntargets = 1, .last_control = u, .trim = u};
    double sum = 0;

    for (int i = 0; i < m->nu; i++)
        for (int s = 0; s < HB_LANES; s++)
            t->u[i * HB_STRIDE + s] = (hb_real)u[i];
    const hb_plan_problem of = {.model = p, .cost = &(hb_cost){0}, .goal = &goal, .x0 = t->x, .nh = 1, .dt = dt};
    hb_rollout_cost(t->rollout, &of, 1, t->u, false, t->cost, NULL);
    for (int i = 0; i < m->nx; i++) {
        t->residual[i] = (hb_rollout_states(t->rollout)[(m->nx + i) * HB_STRIDE] - t->x[i]) / m->state_std[i];
        sum += t->residual[i] * t->residual[i];
    }
    for (int i = 0; i < m->nu; i++) {
        double off = (u[i] - t->start[i]) / (m->control_max[i] - m->control_min[i]);
        sum += HB_DAMPING * off * off;
    }
    return sum;
}

/* how states react to the controls at u, in deviations by each control's range: t->b */
static bool linearise(hb_trim *t, const hb_predictor *p, double dt, const double *u)
{
    const hb_model *m = t->m;
    const int nx = m->nx, nu = m->nu;

    if (!hb_rollout_jacobians(t->rollout, p, dt, 1, t->x, u, t->a, t->b, NULL))
        return false;
    for (int j = 0; j < nu; j++) {
        double range = m->control_max[j] - m->control_min[j];
        for (int i = 0; i < nx; i++)
            t->b[i * nu + j] *= range / m->state_std[i];
    }
    return true;
}

/* the normal equations where t->b is linearised, in units of each control's range */
static void add_up_reactions(hb_trim *t)
{
    const int nx = t->m->nx, nu = t->m->nu;

    for (int j = 0; j < nu; j++) {
        t->step[j] = 0;
        for (int i = 0; i < nx; i++)
            t->step[j] -= t->b[i * nu + j] * t->residual[i];
        for (int k = 0; k < nu; k++) {
            t->normal[j * nu + k] = j == k ? HB_DAMPING : 0;
            for (int i = 0; i < nx; i++)
                t->normal[j * nu + k] += t->b[i * nu + j] * t->b[i * nu + k];
        }
    }
}

/* the step from u, from the start not far; controls at a bound that they are pushed beyond stay */
static bool solve(hb_trim *t, const hb_predictor *p, double dt, const double *u)
{
    const hb_model *m = t->m;
    const int nu = m->nu;

    if (!linearise(t, p, dt, u))
        return false;
    add_up_reactions(t);
    for (int j = 0; j < nu; j++)
        t->step[j] -= HB_DAMPING * (u[j] - t->start[j]) / (m->control_max[j] - m->control_min[j]);
    for (int j = 0; j < nu; j++)
        if ((u[j] <= m->control_min[j] && t->step[j] < 0) || (u[j] >= m->control_max[j] && t->step[j] > 0)) {
            for (int k = 0; k < nu; k++)
                t->normal[j * nu + k] = t->normal[k * nu + j] = j == k;
            t->step[j] = 0;
        }
    if (hb_cholesky(nu, t->normal))
        return false;
    hb_cholesky_solve(nu, t->normal, 1, t->step);
    return true;
}

double hb_trim_solve(hb_trim *t, const hb_predictor *p, const double *x, double dt, double *u)
{
    const hb_model *m = t->m;

    set_state(t, x);
    for (int i = 0; i < m->nu; i++)
        u[i] = t->start[i] =
            fmin(fmax(isfinite(u[i]) ? u[i] : m->control_trim[i], m->control_min[i]), m->control_max[i]);
    double before = evaluate(t, p, dt, u);
    for (int step = 0; step < HB_ROUNDS && isfinite(before) && solve(t, p, dt, u); step++) {
        double now = INFINITY;
        /* half as far until it helps */
        for (double length = 1; length >= HB_SHORTEST && !(now < before); length /= 2) {
            for (int i = 0; i < m->nu; i++) {
                double range = m->control_max[i] - m->control_min[i];
                t->trial[i] = fmin(fmax(u[i] + length * t->step[i] * range, m->control_min[i]), m->control_max[i]);
            }
            now = evaluate(t, p, dt, t->trial);
        }
        bool arrived = !(now < before * (1 - HB_ENOUGH));
        if (now < before)
            memcpy(u, t->trial, (size_t)m->nu * sizeof *u);
        before = now < before ? now : before;
        if (arrived)
            break;
        evaluate(t, p, dt, u);
    }
    return sqrt(before / m->nx);
}

int hb_trim_lacks(hb_trim *t, const hb_predictor *p, double dt, const double *u, double *beyond)
{
    const hb_model *m = t->m;
    const int nx = m->nx, nu = m->nu;
    double left = 0;
    int worst = -1;

    /* the step from u that bounds do not hold back, and what is left of the residual after it */
    if (!isfinite(evaluate(t, p, dt, u)) || !linearise(t, p, dt, u))
        return -1;
    add_up_reactions(t);
    if (hb_cholesky(nu, t->normal))
        return -1;
    hb_cholesky_solve(nu, t->normal, 1, t->step);
    for (int i = 0; i < nx; i++) {
        double residual = t->residual[i];
        for (int j = 0; j < nu; j++)
            residual += t->b[i * nu + j] * t->step[j];
        left += residual * residual;
    }
    if (!(sqrt(left / nx) < HB_REST))
        return -1;
    *beyond = 0;
    for (int j = 0; j < nu; j++) {
        const double range = m->control_max[j] - m->control_min[j], needed = u[j] + t->step[j] * range;
        const double over =
            (needed > m->control_max[j] ? needed - m->control_max[j] : fmin(0, needed - m->control_min[j])) / range;
        if (fabs(over) > fmax(HB_MEASURED, fabs(*beyond))) {
            *beyond = over;
            worst = j;
        }
    }
    return worst;
}

/* reach[i] of t->a and t->b goes on by `steps` steps, or until all that count (`wanted`) are 1 */
static void move_on(hb_trim *t, int steps, const bool *wanted, double *reach)
{
    const int nx = t->m->nx, nu = t->m->nu;
    double *now = t->moved[0], *next = t->moved[1];

    memcpy(now, t->b, (size_t)(nx * nu) * sizeof *now);
    for (int i = 0; i < nx; i++)
        reach[i] = 0;
    for (int k = 0; k < steps; k++) {
        bool all = true;
        for (int i = 0; i < nx; i++)
            for (int j = 0; j < nu; j++) {
                reach[i] += fabs(now[i * nu + j]);
                next[i * nu + j] = 0;
                for (int l = 0; l < nx; l++)
                    next[i * nu + j] += t->a[i * nx + l] * t->m->state_std[l] / t->m->state_std[i] * now[l * nu + j];
            }
        for (int i = 0; i < nx; i++)
            all = all && (!wanted[i] || reach[i] >= 1);
        if (all)
            return;
        double *swap = now;
        now = next;
        next = swap;
    }
}

void hb_trim_reach(hb_trim *t, const hb_predictor *p, double dt, int steps, const bool *wanted, double *reach)
{
    const hb_model *m = t->m;

    for (int i = 0; i < m->nx; i++)
        reach[i] = 0;
    /* the mean state and those one deviation off it, each under trim and under controls halfway to their ends */
    for (int point = 0; point < 2 * (2 * m->nx + 1); point++) {
        const int at = point / 2;
        memcpy(t->near, m->state_mean, (size_t)m->nx * sizeof *t->near);
        if (at > 0)
            t->near[(at - 1) / 2] += (at % 2 ? 1 : -1) * m->state_std[(at - 1) / 2];
        set_state(t, t->near);
        for (int i = 0; i < m->nu; i++)
            t->trial[i] = m->control_trim[i] + (point % 2 ? (m->control_max[i] - m->control_trim[i]) / 2 : 0);
        if (!linearise(t, p, dt, t->trial))
            continue;
        move_on(t, steps, wanted, t->residual);
        for (int i = 0; i < m->nx; i++)
            reach[i] = fmax(reach[i], t->residual[i]);
    }
}

/* Works out t->directness. */
static void weigh_reactions(hb_trim *t)
{
    const int nx = t->m->nx, nu = t->m->nu;
    double most = 0;

    for (int i = 0; i < nx; i++) {
        t->directness[i] = 0;
        for (int j = 0; j < nu; j++)
            t->directness[i] += t->b[i * nu + j] * t->b[i * nu + j];
        most = fmax(most, t->directness[i]);
    }
    for (int i = 0; i < nx; i++)
        t->directness[i] = most > 0 ? t->directness[i] / most : 0;
}

/* one step of it: t->x moves on. Linearised once: the second pass corrects for what is not linear. */
static void arrest(hb_trim *t, const hb_predictor *p, const double *target, double dt, double *u)
{
    const hb_model *m = t->m;
    const int nx = m->nx, nu = m->nu;

    if (!linearise(t, p, dt, u))
        return;
    weigh_reactions(t);
    for (int pass = 0; pass < 2; pass++) {
        evaluate(t, p, dt, u);
        for (int j = 0; j < nu; j++) {
            t->step[j] = 0;
            for (int k = 0; k < nu; k++)
                t->normal[j * nu + k] = j == k ? HB_DAMPING : 0;
            for (int i = 0; i < nx; i++) {
                double off = t->residual[i] + (t->x[i] - target[i]) / m->state_std[i];
                t->step[j] -= t->directness[i] * t->b[i * nu + j] * off;
                for (int k = 0; k < nu; k++)
                    t->normal[j * nu + k] += t->directness[i] * t->b[i * nu + j] * t->b[i * nu + k];
            }
        }
        if (hb_cholesky(nu, t->normal))
            return;
        hb_cholesky_solve(nu, t->normal, 1, t->step);
        for (int i = 0; i < nu; i++) {
            double moved = u[i] + t->step[i] * (m->control_max[i] - m->control_min[i]);
            if (isfinite(moved))
                u[i] = fmin(fmax(moved, m->control_min[i]), m->control_max[i]);
        }
    }
    evaluate(t, p, dt, u);
    for (int i = 0; i < nx; i++)
        t->x[i] += t->residual[i] * m->state_std[i];
}

void hb_trim_arrest(hb_trim *t, const hb_predictor *p, const double *x, const double *target, const double *trim,
                    double dt, int n, double *u)
{
    const size_t size = (size_t)t->m->nu * sizeof *u;

    memcpy(t->x, x, (size_t)t->m->nx * sizeof *x);
    memcpy(t->start, trim, size);
    for (int k = 0; k < n; k++) {
        double *at = u + (ptrdiff_t)k * t->m->nu;
        memcpy(at, trim, size);
        arrest(t, p, target, dt, at);
    }
}
