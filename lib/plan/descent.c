#include "plan/descent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/gauss_newton.h"
#include "plan/lag.h"
#include "plan/numbers.h"

/* What is tried: lengths of each step from the whole to the shortest, and dampings from the least to as much above one
 * as that is below. When nothing helps, the next level of damping is tried before giving up. */
enum { LENGTHS = 8, DAMPINGS = 2, LEVELS = 2, TRIALS = LENGTHS * DAMPINGS };
_Static_assert((int)TRIALS == (int)HB_LANES, "trials fill one vector");

struct hb_descent {
    int nx, nu;
    bool probes; /* are a few trials much faster than a vector of them? */
    const hb_control_map *map;
    hb_gauss_newton *newton;
    hb_population trial;
    double *u;         /* nh x nu: controls of the candidate */
    double *effective; /* nh x nu: what the actuators make of them */
    double *step;      /* nh x nv */
    hb_real *base;     /* nh x nv: what it starts from */
    hb_real *prepared; /* nh x nv: what a correction began with */
    hb_lag lag;

    /* where the Jacobians were taken */
    double *at_states;    /* (nh + 1) x nx */
    double *at_effective; /* nh x nu */
    bool at_possible;     /* the states there are */
    double *deviation;    /* 2 x nx: from there, of this step and the next */
    double *defect;       /* nh x nx: what steps of the model differ by from what the Jacobians predict */
    double *next;         /* nh x nx: those steps */

    double expected; /* of the step proposed last: what it should improve */
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
    to->base = hb_arena_take(arena, (size_t)max_horizon * (size_t)max_directions, sizeof(hb_real));
    to->prepared = hb_arena_take(arena, (size_t)max_horizon * (size_t)max_directions, sizeof(hb_real));
    to->at_states = hb_arena_take(arena, (size_t)(max_horizon + 1) * (size_t)m->nx, sizeof(double));
    to->at_effective = hb_arena_take(arena, (size_t)max_horizon * (size_t)m->nu, sizeof(double));
    to->deviation = hb_arena_take(arena, 2 * (size_t)m->nx, sizeof(double));
    to->defect = hb_arena_take(arena, (size_t)max_horizon * (size_t)m->nx, sizeof(double));
    to->next = hb_arena_take(arena, (size_t)max_horizon * (size_t)m->nx, sizeof(double));
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
    d->probes = m->architecture == HB_SHARED;
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

/* gradient and curvature of each stage's cost along given states, and how far the controls d->u may move; returns the
 * cost */
static double model_stages(hb_descent *d, const hb_plan_problem *of, const double *states)
{
    const int nx = d->nx, nu = d->nu, nh = of->nh;
    const size_t nstates = (size_t)((nh + 1) * nx), ncontrols = (size_t)(nh * nu);
    hb_gauss_newton *n = d->newton;
    double cost = 0;

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
        hb_cost_stage_model(of->cost, of->goal, nx, nu, nh, k, states + k * nx, u, before, &stage);
        cost += stage.cost;
    }
    for (int i = 0; i < nh * nu; i++) {
        n->low[i] = d->map->low[i % nu] - d->u[i];
        n->high[i] = d->map->high[i % nu] - d->u[i];
    }
    return cost;
}

static void put_trial(hb_descent *d, int lane, const hb_real *w)
{
    for (int at = 0; at < d->newton->nh * d->newton->nv; at++)
        d->trial.w[(ptrdiff_t)at * HB_STRIDE + lane] = w[at];
}

/* so much of the step that was solved for last, from d->base */
static void put_step(hb_descent *d, int lane, double of_it)
{
    for (int at = 0; at < d->newton->nh * d->newton->nv; at++)
        d->trial.w[(ptrdiff_t)at * HB_STRIDE + lane] = (hb_real)(d->base[at] + of_it * d->step[at]);
}

/* relative to the mean of the Hessian's diagonal: 1e-5, 3e-3, 1, 300 */
static double damping(int level, int i)
{
    return pow(HB_DAMPING, 1 - 0.5 * (level * DAMPINGS + i));
}

/* the step with one damping, from d->base, into `count` lanes: so many lengths of it */
static void propose(hb_descent *d, int level, int i, int lane, int count)
{
    hb_gauss_newton *n = d->newton;
    const int size = n->nh * n->nv;
    double gain;
    const bool failed = hb_gauss_newton_step(n, n->curvature * damping(level, i), d->step, &gain) != 0;

    if (failed)
        memset(d->step, 0, (size_t)size * sizeof *d->step);
    if (i == 0)
        d->expected = failed ? INFINITY : gain;
    for (int j = 0; j < count; j++)
        put_step(d, lane + j, pow(HB_SHORTEST, (double)j / (LENGTHS - 1)));
}

/* the whole step with the least damping, in the first lane */
static void propose_whole(hb_descent *d, const hb_real *from)
{
    memcpy(d->base, from, (size_t)(d->newton->nh * d->newton->nv) * sizeof *d->base);
    propose(d, 0, 0, 0, 1);
}

/* all lengths of the step of each damping, from where the whole step was proposed */
static void propose_all(hb_descent *d, int level)
{
    for (int i = 0; i < DAMPINGS; i++)
        propose(d, level, i, i * LENGTHS, LENGTHS);
}

/* what is not worth a step */
static double negligible(const hb_plan_problem *problem, double cost)
{
    return HB_ROUNDING * fabs(cost) + problem->tolerance;
}

static bool arrived(const hb_descent *d, const hb_plan_problem *problem, double cost)
{
    return d->expected <= negligible(problem, cost);
}

double hb_descent_negligible(const hb_plan_problem *problem, double cost)
{
    return HB_ENOUGH * fabs(cost) + problem->tolerance;
}

/* What a request does not wait for. It does wait for a way out of states that are not possible. */
static double small(const hb_plan_problem *problem, const hb_candidate *best)
{
    return best->impossible ? problem->tolerance : hb_descent_negligible(problem, best->cost);
}

/* sizes, directions and lag of a problem */
static void take_problem(hb_descent *d, const hb_plan_problem *problem)
{
    hb_gauss_newton *n = d->newton;

    n->nh = d->trial.nh = problem->nh;
    n->nv = d->map->nv;
    memcpy(n->direction, d->map->direction, (size_t)(d->nu * d->map->nv) * sizeof *n->direction);
    hb_lag_set(&d->lag, problem->goal, d->nu, problem->dt);
    n->lags = d->lag.any;
    memcpy(n->keep, d->lag.keep, (size_t)d->nu * sizeof *n->keep);
    memcpy(n->share, d->lag.share, (size_t)d->nu * sizeof *n->share);
}

static void take_controls(hb_descent *d, const hb_plan_problem *problem, const hb_real *w)
{
    hb_control_map_apply(d->map, problem->nh, w, d->u);
    hb_lag_effective(&d->lag, problem->goal, d->nu, problem->nh, d->u, d->effective);
}

/* the quadratic model of the cost along states that are known, or expected */
static void model_cost(hb_descent *d, const hb_plan_problem *problem, const double *states)
{
    model_stages(d, problem, states);
    hb_gauss_newton_condense(d->newton);
}

bool hb_descent_linearise(hb_descent *d, hb_candidate_evaluation *e, const hb_plan_problem *problem,
                          const hb_candidate *at)
{
    take_problem(d, problem);
    take_controls(d, problem, at->w);
    if (!hb_candidate_evaluation_jacobians(e, at, d->effective, d->newton->a, d->newton->b))
        return false;
    memcpy(d->at_states, at->states, (size_t)((problem->nh + 1) * d->nx) * sizeof *d->at_states);
    memcpy(d->at_effective, d->effective, (size_t)(problem->nh * d->nu) * sizeof *d->at_effective);
    d->at_possible = !at->impossible;
    if (!hb_candidate_evaluation_ask(e, HB_PIECE_SOLVE))
        return false;
    model_cost(d, problem, at->states);
    hb_candidate_evaluation_rest(e);
    return true;
}

static hb_candidate_job trials(hb_descent *d, int count)
{
    return (hb_candidate_job){.population = &d->trial,
                              .ns = count,
                              .kind = count == 1        ? HB_PIECE_SINGLE
                                      : count <= HB_FEW ? HB_PIECE_FEW
                                                        : HB_PIECE_TRIAL,
                              .draw_from = TRIALS};
}

static bool run_trials(hb_descent *d, hb_candidate_evaluation *e, int count, hb_candidate *from)
{
    const hb_candidate_job job = trials(d, count);

    return hb_candidate_evaluation_run(e, &job, from);
}

/* The step from *from that was proposed last: the whole of it, and unless that is worth it, all dampings and lengths
 * side by side; with no time for all of them, the whole step must do. False: time ran out. */
static bool try_step(hb_descent *d, hb_candidate_evaluation *e, const hb_plan_problem *problem, hb_candidate *from)
{
    const double before = from->cost;
    const bool enough_time = hb_candidate_evaluation_fits(e, HB_PIECE_TRIAL, problem->nh);

    if (d->probes || !enough_time) {
        if (!run_trials(d, e, 1, from))
            return false;
        if (!enough_time || before - from->cost >= HB_WORTH * d->expected)
            return true;
    }
    for (int level = 0; level < LEVELS; level++) {
        if (!hb_candidate_evaluation_ask(e, HB_PIECE_SOLVE))
            return false;
        propose_all(d, level);
        hb_candidate_evaluation_rest(e);
        if (!run_trials(d, e, TRIALS, from))
            return false;
        if (from->cost < before)
            break;
    }
    return true;
}

hb_descent_end hb_descent_improve(hb_descent *d, hb_candidate_evaluation *e, const hb_plan_problem *problem,
                                  hb_candidate *from)
{
    const double before = from->cost;

    if (!hb_candidate_evaluation_ask(e, HB_PIECE_SOLVE))
        return HB_DESCENT_STOPPED;
    propose_whole(d, from->w);
    hb_candidate_evaluation_rest(e);
    if (arrived(d, problem, before))
        return HB_DESCENT_ARRIVED;
    if (!try_step(d, e, problem, from))
        return HB_DESCENT_STOPPED;
    return from->cost < before - negligible(problem, before) ? HB_DESCENT_UNDER_WAY : HB_DESCENT_ARRIVED;
}

hb_descent_end hb_descent_run(hb_descent *d, hb_candidate_evaluation *e, const hb_plan_problem *problem, int most,
                              hb_candidate *from, int *steps)
{
    hb_descent_end end = HB_DESCENT_UNDER_WAY;

    for (; end == HB_DESCENT_UNDER_WAY && most > 0; most--) {
        if (!hb_descent_linearise(d, e, problem, from))
            return HB_DESCENT_STOPPED;
        end = hb_descent_improve(d, e, problem, from);
        *steps += end != HB_DESCENT_STOPPED;
    }
    return end;
}

/* ---- corrections ---- */

/* States along d->u from problem->x0, as the Jacobians in hand predict them: dx[k+1] = A dx[k] + B de[k] + defect[k].
 */
static void predict_states(hb_descent *d, const hb_plan_problem *problem, double *states)
{
    const int nx = d->nx, nu = d->nu;
    const hb_gauss_newton *n = d->newton;
    double *now = d->deviation, *next = d->deviation + nx;

    for (int i = 0; i < nx; i++)
        now[i] = problem->x0[i] - d->at_states[i];
    for (int k = 0;; k++) {
        for (int i = 0; i < nx; i++)
            states[k * nx + i] = d->at_states[k * nx + i] + now[i];
        if (k == problem->nh)
            return;
        const double *a = n->a + (ptrdiff_t)k * nx * nx, *b = n->b + (ptrdiff_t)k * nx * nu;
        for (int i = 0; i < nx; i++) {
            next[i] = d->defect[k * nx + i];
            for (int j = 0; j < nx; j++)
                next[i] += a[i * nx + j] * now[j];
            for (int j = 0; j < nu; j++)
                next[i] += b[i * nu + j] * (d->effective[k * nu + j] - d->at_effective[k * nu + j]);
        }
        double *swap = now;
        now = next;
        next = swap;
    }
}

/* cost and states of the sequence c->w as they are predicted, and the model of the cost there */
static void predict(hb_descent *d, const hb_plan_problem *problem, hb_candidate *c)
{
    take_controls(d, problem, c->w);
    predict_states(d, problem, c->states);
    c->cost = model_stages(d, problem, c->states);
}

/* The step solved for last, or half of it, half of that and so on, whichever is first predicted to cost less than
 * `before`. False: none does, and *from stays where it was. */
static bool take_step(hb_descent *d, const hb_plan_problem *problem, double before, hb_candidate *from)
{
    for (double part = 1;; part = part > HB_SHORTEST ? part / 2 : 0) {
        for (int at = 0; at < d->newton->nh * d->newton->nv; at++)
            from->w[at] = (hb_real)(d->base[at] + part * d->step[at]);
        predict(d, problem, from);
        if (from->cost < before || part == 0)
            return from->cost < before;
    }
}

/* Takes the defects of the prediction in from->states in: one true step from each state of it. */
static bool take_defects(hb_descent *d, hb_candidate_evaluation *e, const hb_plan_problem *problem, hb_candidate *from)
{
    if (!hb_candidate_evaluation_steps(e, from->states, d->effective, d->next))
        return false;
    for (int i = 0; i < problem->nh * d->nx; i++)
        d->defect[i] += d->next[i] - from->states[d->nx + i];
    predict(d, problem, from);
    return isfinite(from->cost);
}

/* Steps of the model alone from a sequence whose defects are taken in: one, and another where the first was too long
 * for the model of the cost; false: they do not settle it, and trials from the true state must. The curvature is that
 * of the cost at the predicted states, with a reference that has moved on. It is settled when less is left to gain than
 * an answer may lose: the step promises no more, or brings nothing though it does, as at a kink of the cost, or brings
 * what the quadratic model of the cost promised, and its defects change nothing about that. */
static bool answer_by_model(hb_descent *d, hb_candidate_evaluation *e, const hb_plan_problem *problem,
                            hb_candidate *from, int *steps)
{
    if (!take_defects(d, e, problem, from))
        return false;
    for (int i = 0; i < 2; i++) {
        const double before = from->cost;
        hb_gauss_newton_condense_again(d->newton);
        propose_whole(d, from->w);
        if (!isfinite(d->expected))
            return false;
        if (i > 0 && d->expected <= small(problem, from))
            return true;
        const bool gains = take_step(d, problem, before, from);
        const double promised = from->cost, loss = small(problem, from);
        ++*steps;
        if (!gains || d->expected <= loss)
            return true;
        if (!take_defects(d, e, problem, from))
            return false;
        if (fabs(before - promised - d->expected) <= loss && fabs(from->cost - promised) <= loss)
            return true;
    }
    return false;
}

/* Trials of the step from d->base: its dampings and lengths, the sequence itself and `also`; a few of them, or the
 * sequence alone, where there is no time for all. Arrived when the whole step is as good as any and brought what was
 * expected, or that was too little to wait for. */
static hb_descent_end answer_by_trials(hb_descent *d, hb_candidate_evaluation *e, const hb_plan_problem *problem,
                                       const hb_real *also, hb_candidate *from)
{
    const bool all = hb_candidate_evaluation_fits(e, HB_PIECE_TRIAL, problem->nh),
               few = all || hb_candidate_evaluation_fits(e, HB_PIECE_FEW, problem->nh);
    const int count = all ? TRIALS : few ? HB_FEW : 1, given = count - 2, unchanged = count - 1;

    from->cost = INFINITY;
    if (all)
        propose_all(d, 0);
    else if (few)
        put_step(d, 1, 0.5);
    if (few)
        put_trial(d, given, also);
    put_trial(d, unchanged, d->base);
    if (!run_trials(d, e, count, from) || !few)
        return HB_DESCENT_STOPPED;
    const double whole = d->trial.cost[0], before = d->trial.cost[unchanged], slack = small(problem, from);
    /* another sequence is better: the quadratic model was made around the wrong one */
    if (!isfinite(from->cost) || d->trial.cost[given] < fmin(whole, before) - slack)
        return HB_DESCENT_UNDER_WAY;
    return d->expected <= slack || (whole <= from->cost + slack && fabs(before - whole - d->expected) <= slack)
               ? HB_DESCENT_ARRIVED
               : HB_DESCENT_UNDER_WAY;
}

hb_descent_end hb_descent_correct(hb_descent *d, hb_candidate_evaluation *e, const hb_plan_problem *problem, bool trust,
                                  const hb_real *also, hb_candidate *from, int *steps, bool *verified)
{
    const size_t sequence = (size_t)(problem->nh * d->map->nv) * sizeof *from->w;

    *verified = true;
    from->impossible = false;
    if (!hb_candidate_evaluation_ask(e, HB_PIECE_SOLVE))
        return HB_DESCENT_STOPPED;
    take_problem(d, problem);
    memset(d->defect, 0, (size_t)(problem->nh * d->nx) * sizeof *d->defect);
    memcpy(d->prepared, from->w, sequence);
    predict(d, problem, from);
    *verified = !(trust && d->at_possible && answer_by_model(d, e, problem, from, steps));
    hb_candidate_evaluation_rest(e);
    if (!*verified)
        return HB_DESCENT_ARRIVED;
    if (!hb_candidate_evaluation_ask(e, HB_PIECE_SOLVE))
        return HB_DESCENT_STOPPED;
    if (!isfinite(from->cost)) {
        memset(d->defect, 0, (size_t)(problem->nh * d->nx) * sizeof *d->defect);
        memcpy(from->w, d->prepared, sequence);
        predict(d, problem, from);
    }
    hb_gauss_newton_condense_again(d->newton);
    propose_whole(d, from->w);
    hb_candidate_evaluation_rest(e);
    const hb_descent_end end = answer_by_trials(d, e, problem, also, from);
    *steps += end != HB_DESCENT_STOPPED;
    return end;
}

bool hb_descent_confirms(const hb_plan_problem *problem, double predicted, const hb_candidate *rolled_out)
{
    return isfinite(rolled_out->cost) && !rolled_out->impossible &&
           fabs(rolled_out->cost - predicted) <= small(problem, rolled_out);
}

void hb_descent_offer(hb_descent *d, const hb_plan_problem *problem, int lane, const hb_real *w)
{
    take_problem(d, problem);
    put_trial(d, lane, w);
}

bool hb_descent_choose(hb_descent *d, hb_candidate_evaluation *e, int count, hb_candidate *from)
{
    const hb_candidate_job job = trials(d, count);

    return hb_candidate_evaluation_run(e, &job, from);
}
