#include "plan/descent.h"

#include <stdlib.h>
#include <string.h>

#include "plan/gauss_newton.h"
#include "plan/lag.h"

/* what is tried: lengths of each step, and dampings relative to the mean of the Hessian's diagonal. When nothing
 * helps, the next level of damping is tried before giving up. */
static const double length[] = {1, 0.7, 0.5, 0.35, 0.2, 0.1, 0.05, 0.02};
static const double damping[][2] = {{1e-5, 1e-2}, {1, 100}};
enum { LENGTHS = 8, DAMPINGS = 2, LEVELS = 2, TRIALS = LENGTHS * DAMPINGS };
_Static_assert((int)TRIALS == (int)HB_LANES, "trials fill one vector");

/* relative improvement below which a descent has arrived */
static const double enough = 1e-4;

struct hb_descent {
    int nx, nu;
    const hb_control_map *map;
    hb_gauss_newton *newton;
    hb_population trial;
    double *u;         /* nh x nu: controls of the candidate */
    double *effective; /* nh x nu: what the actuators make of them */
    double *step;      /* nh x nv */
    hb_lag lag;
};

static hb_descent *lay_out(hb_arena *arena, const hb_model *m, const hb_control_map *map, int max_directions,
                           int max_horizon)
{
    hb_descent *d = hb_arena_take(arena, 1, sizeof *d), measured = {0};
    hb_descent *to = d ? d : &measured;

    hb_population_lay_out(&to->trial, arena, map, max_directions, TRIALS, max_horizon, false);
    to->u = hb_arena_take(arena, (size_t)max_horizon * (size_t)m->nu, sizeof(double));
    to->effective = hb_arena_take(arena, (size_t)max_horizon * (size_t)m->nu, sizeof(double));
    to->step = hb_arena_take(arena, (size_t)max_horizon * (size_t)max_directions, sizeof(double));
    return d;
}

int hb_descent_new(hb_descent **ret, const hb_model *m, const hb_control_map *map, int max_directions, int max_horizon,
                   hb_error *err)
{
    hb_arena arena = {0};

    lay_out(&arena, m, map, max_directions, max_horizon);
    int failed = hb_arena_allocate(&arena, err);
    if (failed)
        return failed;
    hb_descent *d = lay_out(&arena, m, map, max_directions, max_horizon);
    d->nx = m->nx;
    d->nu = m->nu;
    d->map = map;
    failed = hb_gauss_newton_new(&d->newton, m->nx, m->nu, max_directions, max_horizon, err);
    if (failed) {
        hb_descent_free(d);
        return failed;
    }
    *ret = d;
    return 0;
}

void hb_descent_free(hb_descent *d)
{
    if (!d)
        return;
    hb_gauss_newton_free(d->newton);
    free(d);
}

/* gradient and curvature of each stage's cost along the candidate, and how far its controls may move */
static void model_stages(hb_descent *d, const hb_problem *of, const hb_candidate *at)
{
    const int nx = d->nx, nu = d->nu, nh = of->nh;
    const size_t nstates = (size_t)((nh + 1) * nx), ncontrols = (size_t)(nh * nu);
    hb_gauss_newton *n = d->newton;

    memset(n->lx, 0, nstates * sizeof *n->lx);
    memset(n->lu, 0, ncontrols * sizeof *n->lu);
    memset(n->q, 0, nstates * (size_t)nx * sizeof *n->q);
    memset(n->r, 0, ncontrols * (size_t)nu * sizeof *n->r);
    memset(n->slew, 0, ncontrols * sizeof *n->slew);
    for (int k = 0; k <= nh; k++) {
        const double *u = k < nh ? d->u + k * nu : NULL, *before = u && k > 0 ? u - nu : NULL;
        hb_stage_model stage = {
            .lx = n->lx + k * nx,
            .q = n->q + (ptrdiff_t)k * nx * nx,
            .lu = u ? n->lu + k * nu : NULL,
            .lu_before = before ? n->lu + (k - 1) * nu : NULL,
            .r = u ? n->r + (ptrdiff_t)k * nu * nu : NULL,
            .slew = u ? n->slew + k * nu : NULL,
        };
        hb_cost_stage_model(of->cost, of->goal, nx, nu, nh, k, at->states + k * nx, u, before, &stage);
    }
    for (int i = 0; i < nh * nu; i++) {
        n->low[i] = d->map->low[i % nu] - d->u[i];
        n->high[i] = d->map->high[i % nu] - d->u[i];
    }
}

static double mean_curvature(const hb_gauss_newton *n)
{
    const int size = n->nh * n->nv;
    double sum = 0;

    for (int i = 0; i < size; i++)
        sum += n->hessian[(ptrdiff_t)i * size + i];
    return sum / size;
}

/* fills the lanes of the trial population: all lengths of the step of each damping */
static void propose(hb_descent *d, const hb_candidate *from, int level)
{
    hb_gauss_newton *n = d->newton;
    const int size = n->nh * n->nv;
    const double scale = mean_curvature(n);

    for (int i = 0; i < DAMPINGS; i++) {
        if (hb_gauss_newton_step(n, scale * damping[level][i], d->step))
            memset(d->step, 0, (size_t)size * sizeof *d->step);
        for (int at = 0; at < size; at++)
            for (int j = 0; j < LENGTHS; j++)
                d->trial.w[(ptrdiff_t)at * HB_STRIDE + i * LENGTHS + j] =
                    (hb_real)(from->w[at] + length[j] * d->step[at]);
    }
}

/* one step, at the lowest level of damping that helps; *helped tells whether any did */
static bool step(hb_descent *d, hb_candidate_evaluation *e, const hb_problem *problem, hb_candidate *from, bool *helped)
{
    const hb_candidate_job all = {.population = &d->trial, .ns = TRIALS, .kind = HB_PIECE_TRIAL, .draw_from = TRIALS};
    const hb_candidate_job first = {.population = &d->trial, .ns = 1, .kind = HB_PIECE_SINGLE, .draw_from = TRIALS};
    const double before = from->cost;

    hb_control_map_apply(d->map, problem->nh, from->w, d->u);
    hb_lag_effective(&d->lag, problem->goal, d->nu, problem->nh, d->u, d->effective);
    if (!hb_candidate_evaluation_jacobians(e, from, d->effective, d->newton->a, d->newton->b))
        return false;
    for (int level = 0; level < LEVELS; level++) {
        if (!hb_candidate_evaluation_ask(e, HB_PIECE_SOLVE))
            return false;
        if (level == 0) {
            model_stages(d, problem, from);
            hb_gauss_newton_condense(d->newton);
        }
        propose(d, from, level);
        hb_candidate_evaluation_rest(e);
        /* with no time for all of them: the whole step with the least damping, alone, which is faster */
        const hb_candidate_job *job = hb_candidate_evaluation_fits(e, HB_PIECE_TRIAL, problem->nh) ? &all : &first;
        if (!hb_candidate_evaluation_run(e, job, from))
            return false;
        *helped = from->cost < before - enough * (before < 0 ? -before : before);
        if (from->cost < before)
            break;
    }
    return true;
}

bool hb_descent_run(hb_descent *d, hb_candidate_evaluation *e, const hb_problem *problem, int most, hb_candidate *from,
                    int *steps)
{
    hb_gauss_newton *n = d->newton;

    n->nh = d->trial.nh = problem->nh;
    n->nv = d->map->nv;
    memcpy(n->direction, d->map->direction, (size_t)(d->nu * d->map->nv) * sizeof *n->direction);
    hb_lag_set(&d->lag, problem->goal, d->nu, problem->dt);
    n->lags = d->lag.any;
    memcpy(n->keep, d->lag.keep, (size_t)d->nu * sizeof *n->keep);
    memcpy(n->share, d->lag.share, (size_t)d->nu * sizeof *n->share);
    for (bool helped = true; helped && most > 0; most--) {
        if (!step(d, e, problem, from, &helped))
            return false;
        ++*steps;
    }
    return true;
}
