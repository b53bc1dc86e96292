/* A plan in named steps:
 *
 *     start      evaluate the warm start and a few samples around it
 *     search     iterations of the chosen method on all samples
 *     descend    second-order steps, of the method `gauss_newton`, on two lanes: the warm start, and the best of others
 *     finish     the best candidate becomes the plan, and the next warm start
 *
 * Each asks before every piece of work whether there is time for it; whatever was evaluated in full by then counts. */
#include "plan/planner_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/numbers.h"

static hb_planner *lay_out(hb_arena *arena, const hb_model *m, const hb_planner_settings *s)
{
    const int nx = m->nx, nu = m->nu, nv = hb_planner_ndirections(s, m), nh = s->horizon;
    const size_t sequence = (size_t)nh * (size_t)nv, ns = (size_t)s->samples;
    hb_planner *p = hb_arena_take(arena, 1, sizeof *p), measured = {0};
    hb_planner *to = p ? p : &measured;

    to->map.nu = nu;
    to->map.trim = hb_arena_take(arena, (size_t)nu, sizeof(double));
    to->map.low = hb_arena_take(arena, (size_t)nu, sizeof(double));
    to->map.high = hb_arena_take(arena, (size_t)nu, sizeof(double));
    to->map.direction = hb_arena_take(arena, (size_t)(nu * nv), sizeof(double));
    hb_population_lay_out(&to->population, arena, &to->map, nv, s->samples, nh, true);
    to->warm = hb_arena_take(arena, sequence, sizeof(hb_real));
    hb_candidate_lay_out(&to->best, arena, nx, nv, nh);
    hb_candidate_lay_out(&to->other, arena, nx, nv, nh);
    to->mean = hb_arena_take(arena, sequence, sizeof(hb_real));
    to->deviation = hb_arena_take(arena, sequence, sizeof(hb_real));
    to->order = hb_arena_take(arena, ns, sizeof(int));
    to->action = hb_arena_take(arena, (size_t)(nh * nu), sizeof(double));
    to->states = hb_arena_take(arena, (size_t)((nh + 1) * nx), sizeof(double));
    to->made_at = hb_arena_take(arena, (size_t)nx, sizeof(double));
    to->made_for.target = hb_arena_take(arena, (size_t)((nh + 1) * nx), sizeof(double));
    to->made_for.actuator_state = hb_arena_take(arena, (size_t)nu, sizeof(double));
    to->made_for.trim = hb_arena_take(arena, (size_t)nu, sizeof(double));
    to->made_for.last_control = hb_arena_take(arena, (size_t)nu, sizeof(double));
    to->made_for.lag = hb_arena_take(arena, (size_t)nu, sizeof(double));
    hb_preparation_lay_out(&to->preparation, arena, nx, nu, nv, nh);
    return p;
}

/* the columns of M: each direction, as long as the narrowest control's range allows */
static void set_map(hb_control_map *map, const hb_planner_settings *s, const hb_model *m)
{
    map->diagonal = s->ndirections == 0;
    for (int i = 0; i < m->nu; i++) {
        map->trim[i] = m->control_trim[i];
        map->low[i] = m->control_min[i];
        map->high[i] = m->control_max[i];
    }
    memset(map->direction, 0, (size_t)(map->nu * map->nv) * sizeof *map->direction);
    for (int v = 0; v < map->nv; v++) {
        double length = INFINITY;
        for (int i = 0; i < m->nu; i++) {
            double element = map->diagonal ? i == v : s->direction[v * m->nu + i];
            map->direction[i * map->nv + v] = element;
            if (element != 0)
                length = fmin(length, (map->high[i] - map->low[i]) / fabs(element));
        }
        for (int i = 0; i < m->nu; i++)
            map->direction[i * map->nv + v] *= length;
    }
}

static void set(hb_planner *p, const hb_planner_settings *s, const hb_cost *c)
{
    p->settings = *s;
    p->cost = *c;
    p->map.nv = hb_planner_ndirections(s, p->m);
    set_map(&p->map, s, p->m);
    p->population.ns = s->samples;
    p->population.nh = s->horizon;
    p->inherited = false;
    hb_preparation_forget(&p->preparation);
}

int hb_planner_new(hb_planner **ret, const hb_model *m, const hb_planner_settings *s, const hb_cost *c, hb_pool *pool,
                   hb_error *err)
{
    hb_arena arena = {0};
    int failed = hb_planner_check(m, s, err);

    if (!failed)
        failed = hb_cost_check(c, m->nx, m->nu, err);
    if (!failed) {
        lay_out(&arena, m, s);
        failed = hb_arena_allocate(&arena, err);
    }
    if (failed)
        return failed;

    hb_planner *p = lay_out(&arena, m, s);
    p->m = m;
    p->max_samples = s->samples;
    p->max_horizon = s->horizon;
    p->max_directions = hb_planner_ndirections(s, m);
    /* a descent evaluates a vector of trials however few the samples are */
    failed = hb_candidate_evaluation_new(&p->evaluation, m, pool, s->samples > HB_LANES ? s->samples : HB_LANES,
                                         s->horizon, err);
    for (int i = 0; !failed && i < 2; i++)
        failed = hb_descent_new(&p->descent[i], m, &p->map, p->max_directions, s->horizon, err);
    if (failed) {
        hb_planner_free(p);
        return failed;
    }
    set(p, s, c);
    hb_planner_reset(p);
    *ret = p;
    return 0;
}

void hb_planner_free(hb_planner *p)
{
    if (!p)
        return;
    hb_candidate_evaluation_free(p->evaluation);
    hb_descent_free(p->descent[0]);
    hb_descent_free(p->descent[1]);
    free(p);
}

int hb_planner_retune(hb_planner *p, const hb_planner_settings *s, const hb_cost *c, hb_error *err)
{
    const hb_planner_settings *old = &p->settings;
    int nv = hb_planner_ndirections(s, p->m), failed = hb_planner_check(p->m, s, err);

    if (!failed)
        failed = hb_cost_check(c, p->m->nx, p->m->nu, err);
    if (failed)
        return failed;
    if (s->samples > p->max_samples || s->horizon > p->max_horizon || nv > p->max_directions)
        return hb_fail(
            err, EINVAL,
            "planner: %d samples, horizon %d and %d directions exceed the %d, %d and %d it was started with; "
            "restart to have more",
            s->samples, s->horizon, nv, p->max_samples, p->max_horizon, p->max_directions);

    /* sequences of another length, or in other directions, cannot be used any more */
    bool same = s->horizon == old->horizon && s->ndirections == old->ndirections &&
                !memcmp(s->direction, old->direction, (size_t)(s->ndirections * p->m->nu) * sizeof *s->direction);
    set(p, s, c);
    if (!same)
        hb_planner_reset(p);
    return 0;
}

/* ---- the current plan ---- */

void hb_planner_reset(hb_planner *p)
{
    memset(p->warm, 0, hb_planner_sequence_bytes(p));
    memset(p->states, 0, hb_planner_states_bytes(p));
    hb_control_map_apply(&p->map, p->settings.horizon, p->warm, p->action);
    p->cold = true;
    p->inherited = p->unverified = p->doubtful = false;
    p->preparation.in_vain = 0;
    p->step = 0;
    p->elapsed = 0;
    hb_preparation_forget(&p->preparation);
}

/* Copies what a plan was made for: the vectors of *to have room. */
static void copy_goal(const hb_planner *p, const hb_goal *goal, const double *actuator_state, hb_goal *to)
{
    const int nx = p->m->nx, nu = p->m->nu;
    double *target = (double *)to->target, *actuators = (double *)to->actuator_state, *lag = (double *)to->lag,
           *last = (double *)to->last_control, *trim = (double *)to->trim;

    *to = *goal;
    to->target = memcpy(target, goal->target, (size_t)(goal->ntargets * nx) * sizeof *target);
    to->actuator_state = memcpy(actuators, actuator_state, (size_t)nu * sizeof *actuators);
    for (int i = 0; i < nu; i++)
        lag[i] = goal->lag ? goal->lag[i] : 0;
    to->lag = lag;
    to->trim = memcpy(trim, goal->trim, (size_t)nu * sizeof *trim);
    to->last_control = memcpy(last, goal->last_control, (size_t)nu * sizeof *last);
    to->start = NULL; /* the caller's may be gone by then */
}

void hb_planner_take_over(hb_planner *p, const hb_planner *from)
{
    const int nh = p->settings.horizon, nx = p->m->nx;

    hb_planner_reset(p);
    if (from->cold)
        return;
    /* directions mean about the same for both models */
    if (!hb_control_map_follow(&p->map, nh, from->action, p->warm))
        memcpy(p->warm, from->warm, hb_planner_sequence_bytes(p));
    hb_control_map_apply(&p->map, nh, p->warm, p->action);
    memcpy(p->states, from->states, hb_planner_states_bytes(p));
    memcpy(p->made_at, from->made_at, (size_t)nx * sizeof *p->made_at);
    copy_goal(p, &from->made_for, from->made_for.actuator_state, &p->made_for);
    p->trim = p->m->control_trim;
    p->cold = false;
    p->step = hb_planner_step(from);
    p->elapsed = from->elapsed;
}

void hb_planner_shift(hb_planner *p, double steps)
{
    if (!(steps > 0))
        return;
    hb_sequence_shift(p->settings.horizon, p->map.nv, steps, p->warm);
    hb_control_map_apply(&p->map, p->settings.horizon, p->warm, p->action);
    p->elapsed += steps;
}

double hb_planner_step(const hb_planner *p)
{
    return p->step > 0 ? p->step : p->settings.dt > 0 ? p->settings.dt : p->m->dt;
}

const double *hb_planner_current(const hb_planner *p)
{
    return p->action;
}

const double *hb_planner_states(const hb_planner *p)
{
    return p->states;
}

/* ---- making a plan ---- */

/* a job on the first ns samples that draws those from draw_from on */
static hb_candidate_job job_on(hb_planner *p, int ns, hb_piece kind, int draw_from)
{
    return (hb_candidate_job){
        .population = &p->population,
        .ns = ns,
        .kind = kind,
        .draw_from = draw_from,
        .mean = p->mean,
        .deviation = p->deviation,
        .correlation = p->settings.noise_correlation,
        .key = p->key,
        .round = p->round,
        .rate = p->settings.learning_rate,
        .clip = p->settings.clip,
        .fallback = p->from,
    };
}

static bool uses_gradients(const hb_planner *p)
{
    return p->settings.method == HB_PLANNER_GRADIENT;
}

/* The first sample is where the plan starts, the second trim, the others lie around the first. Of the plan before,
 * methods with gradients keep all samples. */
void hb_planner_begin_search(hb_planner *p, const hb_real *from, double ahead)
{
    hb_population *pop = &p->population;

    if (p->inherited && ahead > p->population_ahead)
        hb_population_shift(pop, ahead - p->population_ahead);
    p->population_ahead = ahead;
    p->from = from;
    p->adam = 0;
    if (!p->inherited || !uses_gradients(p))
        p->draw_from = 2;
    memcpy(p->mean, from, hb_planner_sequence_bytes(p));
    for (int i = 0; i < pop->nh * p->map.nv; i++)
        p->deviation[i] = (hb_real)p->settings.noise;
    hb_control_map_hold(&p->map, p->settings.horizon, p->problem.goal->trim, p->other.w);
    if (pop->ns > 1 && p->draw_from == 2)
        hb_population_put(pop, 1, p->other.w);
    hb_population_put(pop, 0, from);
}

bool hb_planner_evaluate_start(hb_planner *p, hb_candidate *best)
{
    const hb_candidate_job one = job_on(p, 1, HB_PIECE_SINGLE, p->population.ns);

    return hb_candidate_evaluation_run(p->evaluation, &one, best);
}

/* the start that the goal gives, followed by trim */
static bool try_given_start(hb_planner *p)
{
    const hb_goal *goal = p->problem.goal;
    const int n = goal->nstart < p->settings.horizon ? goal->nstart : p->settings.horizon;
    hb_population *pop = &p->population;

    if (!goal->start || pop->ns == 1)
        return true;
    hb_control_map_hold(&p->map, p->settings.horizon, goal->trim, p->other.w);
    if (!hb_control_map_follow(&p->map, n, goal->start, p->other.w))
        return true;
    hb_population_put(pop, 0, p->other.w);
    bool done = hb_planner_evaluate_start(p, &p->best);
    hb_population_put(pop, 0, p->from);
    return done;
}

/* So that there is soon something to return, the warm start is evaluated before all others; and the first few, trim
 * among them, when there is none or it leads to states that are not possible. */
static bool start(hb_planner *p)
{
    const int ns = p->population.ns;

    hb_planner_begin_search(p, p->warm, p->elapsed);
    if ((!p->cold || ns == 1) && !hb_planner_evaluate_start(p, &p->best))
        return false;
    if (!try_given_start(p))
        return false;
    if (ns == 1 || (isfinite(p->best.cost) && !p->best.impossible))
        return true;
    const hb_candidate_job few = job_on(p, ns < HB_LANES ? ns : HB_LANES, HB_PIECE_TRIAL, 2);
    return hb_candidate_evaluation_run(p->evaluation, &few, &p->best);
}

/* the first sample becomes the weighted mean; the others are to be drawn around it, closer each time */
static int average(hb_planner *p)
{
    hb_population *pop = &p->population;
    int finite = hb_population_rank(pop, pop->ns, p->order);

    if (finite < 1)
        return 0;
    hb_population_average(pop, p->order, finite, p->settings.temperature, p->mean);
    hb_population_put(pop, 0, p->mean);
    for (int i = 0; i < pop->nh * p->map.nv; i++)
        p->deviation[i] = (hb_real)(p->settings.noise / sqrt((double)p->round + 2));
    return 1;
}

/* one iteration of the methods that work on the whole population */
bool hb_planner_iterate(hb_planner *p, hb_candidate *best)
{
    const hb_planner_method method = p->settings.method;
    const int ns = p->population.ns;
    hb_candidate_job j = job_on(p, ns, HB_PIECE_FORWARD, p->draw_from);

    j.adam = uses_gradients(p) ? p->adam + 1 : 0;
    if (!hb_candidate_evaluation_run(p->evaluation, &j, best))
        return false;
    p->inherited = true;
    p->adam = j.adam;

    /* what the next iteration works on */
    p->draw_from = ns;
    if (method == HB_PLANNER_MPPI)
        p->draw_from = average(p);
    p->round++;
    return true;
}

bool hb_planner_search(hb_planner *p)
{
    for (int i = 0; i < p->settings.iterations; i++) {
        if (!hb_planner_iterate(p, &p->best))
            return false;
        p->plan.iterations++;
    }
    return true;
}

bool hb_planner_sample(hb_planner *p, int n)
{
    hb_population *pop = &p->population;

    hb_control_map_hold(&p->map, p->settings.horizon, p->problem.goal->trim, p->mean);
    hb_population_put(pop, 0, p->mean);
    for (int i = 0; i < pop->nh * p->map.nv; i++)
        p->deviation[i] = (hb_real)sqrt(1.0 / 12); /* of numbers anywhere in a range of one */
    p->round++;
    p->other.cost = INFINITY;
    const hb_candidate_job job = job_on(p, n, n <= HB_LANES ? HB_PIECE_TRIAL : HB_PIECE_FORWARD, 1);
    if (hb_candidate_evaluation_run(p->evaluation, &job, &p->other))
        return true;
    p->round--;
    return false;
}

bool hb_planner_promises(const hb_planner *p, double before, double best)
{
    const double gain = before - p->other.cost;

    /* one more like it would find what is worth waiting for */
    return p->other.cost - gain < best - hb_descent_negligible(&p->problem, best);
}

double hb_planner_settle(hb_planner *p, hb_candidate *best)
{
    const double before = best->cost;

    if (!(p->other.cost < before))
        return 0;
    hb_candidate_copy(best, &p->other, p->m->nx, p->map.nv, p->settings.horizon);
    return before - best->cost;
}

/* Where plans are prepared, a vector of samples is evaluated before the reply and all of them behind it, unless there
 * is no usable plan without them. */
static int samples_before_reply(const hb_planner *p)
{
    const int all = p->population.ns;

    return !p->settings.prepare || p->cold || p->best.impossible || all < HB_LANES ? all : HB_LANES;
}

/* Second-order steps on the best candidate, then on the other lane, with what time is left. */
static bool descend(hb_planner *p)
{
    const int all = p->settings.iterations;

    /* the warm start cannot be evaluated: take anything that can */
    if (!isfinite(p->best.cost)) {
        if (!hb_planner_sample(p, p->population.ns) || !isfinite(p->other.cost))
            return false;
        hb_candidate_copy(&p->best, &p->other, p->m->nx, p->map.nv, p->settings.horizon);
    }
    const hb_descent_end end =
        hb_descent_run(p->descent[0], p->evaluation, &p->problem, all, &p->best, &p->plan.iterations);

    /* the other lane also follows when all steps are used up, but not when time is */
    if (end == HB_DESCENT_STOPPED || p->population.ns <= 1)
        return end == HB_DESCENT_ARRIVED;
    if (!hb_planner_sample(p, samples_before_reply(p)))
        return end == HB_DESCENT_ARRIVED;
    hb_descent_end other = HB_DESCENT_UNDER_WAY;
    for (bool goes_on = true; goes_on && other == HB_DESCENT_UNDER_WAY && p->plan.iterations < all;) {
        const double before = p->other.cost;
        other = hb_descent_run(p->descent[0], p->evaluation, &p->problem, 1, &p->other, &p->plan.iterations);
        goes_on = hb_planner_promises(p, before, p->best.cost);
    }
    /* better by less than a tolerance is where the first lane arrived */
    const double gain = hb_planner_settle(p, &p->best);
    if (end == HB_DESCENT_ARRIVED && gain <= hb_descent_negligible(&p->problem, p->best.cost))
        return true;
    return gain > 0 && other == HB_DESCENT_ARRIVED;
}

/* the state and the goal that the current plan was made for */
static void note_problem(hb_planner *p)
{
    const hb_goal *goal = p->problem.goal;

    memcpy(p->made_at, p->problem.x0, (size_t)p->m->nx * sizeof *p->made_at);
    copy_goal(p, goal, hb_lag_start(goal), &p->made_for);
    p->trim = goal->trim;
}

/* the warm start, when steps become longer or shorter */
static void change_step(hb_planner *p, double step)
{
    if (step == hb_planner_step(p))
        return;
    hb_sequence_stretch(p->settings.horizon, p->map.nv, step / hb_planner_step(p), p->warm);
    hb_control_map_apply(&p->map, p->settings.horizon, p->warm, p->action);
    p->inherited = p->inherited && hb_planner_same_step(step, hb_planner_step(p));
    p->step = step;
}

void hb_planner_begin(hb_planner *p, const hb_plan_problem *problem, uint64_t tick, const hb_clock *clock,
                      double deadline)
{
    p->problem = *problem;
    p->cost.limits.step = p->problem.dt;
    change_step(p, p->problem.dt);
    p->key = (hb_random_key){.seed = p->settings.seed, .stream = tick};
    p->round = 0;
    p->plan = (hb_plan){.action = p->action, .decisions = &p->decisions, .verified = true};
    hb_decisions_start(&p->decisions);
    hb_candidate_evaluation_follow(p->evaluation, &p->decisions);
    p->best.cost = p->other.cost = INFINITY;
    hb_candidate_evaluation_begin(p->evaluation, &p->problem, clock, deadline);
}

void hb_planner_finish(hb_planner *p, bool converged)
{
    p->plan.pieces = hb_candidate_evaluation_pieces(p->evaluation);
    p->plan.dropped = hb_candidate_evaluation_dropped(p->evaluation);
    p->plan.evaluated = isfinite(p->best.cost);
    p->plan.converged = converged && p->plan.evaluated && !p->best.impossible;
    p->plan.out_of_time = p->decisions.nrefused > 0;
    p->plan.cost = p->best.cost;
    hb_preparation_forget(&p->preparation);
    p->unverified = p->doubtful = false;
    /* with nothing better, the current plan is what will be applied, moved on to this request */
    if (!p->plan.evaluated && p->cold)
        return;
    p->population_ahead -= p->elapsed;
    p->elapsed = 0;
    p->step = p->problem.dt;
    note_problem(p);
    if (!p->plan.evaluated)
        return;
    p->cold = false;
    p->unverified = !p->plan.verified;
    memcpy(p->warm, p->best.w, hb_planner_sequence_bytes(p));
    memcpy(p->states, p->best.states, hb_planner_states_bytes(p));
    hb_control_map_apply(&p->map, p->settings.horizon, p->warm, p->action);

    int broken = hb_limits_broken(&p->cost.limits, p->problem.goal->last_control, p->m->nx, p->m->nu,
                                  p->settings.horizon, p->states, p->action);
    p->plan.limit = broken < 0 ? NULL : hb_limits_name(&p->cost.limits, broken);
    if (p->best.impossible)
        p->plan.limit = "trained range";
}

const hb_prepared *hb_planner_preparing(const hb_planner *p)
{
    return &p->preparation.record;
}

void hb_planner_script(hb_planner *p, const hb_decisions *preparing, const hb_decisions *planning)
{
    hb_decisions_script(&p->preparation.record.decisions, preparing);
    hb_decisions_script(&p->decisions, planning);
}

hb_plan_problem hb_planner_problem(const hb_planner *p, const hb_predictor *model, const double *x0,
                                   const hb_goal *goal)
{
    const hb_planner_settings *s = &p->settings;

    return (hb_plan_problem){.model = model,
                             .cost = &p->cost,
                             .goal = goal,
                             .x0 = x0,
                             .nh = s->horizon,
                             .tolerance = s->tolerance,
                             .dt = goal->step > 0 ? goal->step
                                   : s->dt > 0    ? s->dt
                                                  : p->m->dt};
}

const hb_plan *hb_planner_plan(hb_planner *p, const hb_predictor *model, const double *x0, const hb_goal *goal,
                               uint64_t tick, const hb_clock *clock, double deadline)
{
    const hb_planner_settings *s = &p->settings;
    const hb_plan_problem problem = hb_planner_problem(p, model, x0, goal);

    hb_planner_begin(p, &problem, tick, clock, deadline);
    bool converged = start(p);
    if (converged)
        converged = s->method == HB_PLANNER_GAUSS_NEWTON ? descend(p) : hb_planner_search(p);
    hb_planner_finish(p, converged);
    p->preparation.in_vain = 0;
    return &p->plan;
}
