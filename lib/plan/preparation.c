/* Prepare behind the reply, correct on arrival.
 *
 *     verify       the plan in hand, if it was given by the model alone: its rollout
 *     predict      the state at the next request, if requests go on as they did and the first action is held until then
 *     evaluate     the current plan, moved on to that time, from there
 *     search       iterations of the methods that work on the whole population
 *     linearise    Jacobians and the quadratic model of the cost    \  on two lanes in turn, the plan in hand and the
 *     improve      a second-order step                              /  best other, until nothing is left to gain
 *     sample       where the other lane begins: the best of samples drawn widely around trim
 *
 * These are stages. One that is interrupted has changed nothing that is used later, and is begun again: the result of
 * a preparation depends on the number of its stages alone. Linearising goes into the one of two descents that
 * holds nothing of use, so that there is always something whole to correct with.
 *
 * The correction takes the prepared sequence, moved on by what the request is later than expected, and the Jacobians:
 * see hb_descent_correct. If that does not arrive, the descent goes on with Jacobians of its own. */
#include <math.h>
#include <string.h>

#include "dynamics/actuators.h"
#include "plan/planner_internal.h"

void hb_preparation_lay_out(hb_preparation *f, hb_arena *arena, int nx, int nu, int nv, int nh)
{
    f->x0 = hb_arena_take(arena, (size_t)nx, sizeof(double));
    f->last_control = hb_arena_take(arena, (size_t)nu, sizeof(double));
    f->actuator_state = hb_arena_take(arena, (size_t)nu, sizeof(double));
    f->top = hb_arena_take(arena, (size_t)HB_LANES * (size_t)nh * (size_t)nv, sizeof(hb_real));
    hb_candidate_lay_out(&f->at, arena, nx, nv, nh);
}

void hb_preparation_forget(hb_preparation *f)
{
    f->begun = f->evaluated = false;
    f->ready = -1;
    f->stages = f->record.calls = 0;
    f->ntop = 0;
}

static bool second_order(const hb_planner *p)
{
    return p->settings.method == HB_PLANNER_GAUSS_NEWTON;
}

/* at HB_IN_VAIN the other lane has a turn, for the counts after it none, and then it counts from HB_IN_VAIN again */
static void count_in_vain(hb_preparation *f)
{
    f->in_vain = f->in_vain + 1 < 2 * HB_IN_VAIN ? f->in_vain + 1 : HB_IN_VAIN;
}

static void begin(hb_planner *p, double seconds)
{
    hb_preparation *f = &p->preparation;

    hb_preparation_forget(f);
    hb_decisions_start(&f->record.decisions);
    f->begun = true;
    f->next = p->unverified ? HB_PREPARE_VERIFY : HB_PREPARE_PREDICT;
    f->seconds = seconds;
    f->ahead = seconds / hb_planner_step(p);
    f->iterations = f->steps[0] = f->steps[1] = f->lane = 0;
    f->open[0] = p->settings.iterations > 0;
    f->open[1] = f->moved = false;
    f->sampled = f->settled = p->population.ns <= 1 || f->in_vain > HB_IN_VAIN;
    if (f->in_vain > HB_IN_VAIN)
        count_in_vain(f);
    f->goal = p->made_for;
    f->goal.trim = p->trim;
    f->goal.last_control = f->last_control;
    f->goal.actuator_state = f->actuator_state;
}

/* ---- stages ---- */

static void pose(hb_planner *p, const hb_plan_problem *problem)
{
    hb_preparation *f = &p->preparation;

    p->problem = *problem;
    hb_candidate_evaluation_begin(p->evaluation, &p->problem, f->clock, f->deadline);
    hb_candidate_evaluation_heed(p->evaluation, f->interrupt);
}

/* the plan that was given without a rollout, for the very problem that it answered */
static bool verify(hb_planner *p)
{
    hb_preparation *f = &p->preparation;
    hb_plan_problem answered = f->problem;

    answered.x0 = p->made_at;
    answered.goal = &p->made_for;
    hb_descent_offer(p->descent[0], &answered, 0, p->warm);
    pose(p, &answered);
    p->other.cost = INFINITY;
    if (!hb_descent_choose(p->descent[0], p->evaluation, 1, &p->other))
        return false;
    p->unverified = false;
    p->doubtful = !hb_descent_confirms(&answered, p->plan.cost, &p->other);
    p->disagreed += p->doubtful;
    return true;
}

/* the first action, held, in steps no longer than the model's */
static bool predict(hb_planner *p)
{
    hb_preparation *f = &p->preparation;
    const int nx = p->m->nx, nu = p->m->nu, nv = p->map.nv, nh = p->settings.horizon;
    const int n = (int)fmin(fmax(ceil(f->seconds / p->m->dt - 1e-9), 1), nh);
    hb_plan_problem held = f->problem;

    held.x0 = p->made_at;
    held.goal = &p->made_for;
    held.nh = n;
    held.dt = f->seconds / n;
    for (int k = 0; k < nh; k++)
        memcpy(p->other.w + k * nv, p->warm, (size_t)nv * sizeof *p->other.w);
    hb_descent_offer(p->descent[0], &held, 0, p->other.w);
    pose(p, &held);
    p->other.cost = INFINITY;
    if (!hb_descent_choose(p->descent[0], p->evaluation, 1, &p->other))
        return false;
    const double *end = isfinite(p->other.cost) ? p->other.states + n * nx : p->made_at;
    memcpy(f->x0, end, (size_t)nx * sizeof *f->x0);
    for (int i = 0; i < nu; i++) {
        const double u = p->action[i];
        f->last_control[i] = u;
        f->actuator_state[i] =
            u + (p->made_for.actuator_state[i] - u) * hb_actuator_keep(p->made_for.lag[i], f->seconds);
    }
    return true;
}

static bool evaluate(hb_planner *p)
{
    hb_preparation *f = &p->preparation;

    pose(p, &f->problem);
    memcpy(f->at.w, p->warm, hb_planner_sequence_bytes(p));
    hb_sequence_shift(p->settings.horizon, p->map.nv, f->ahead, f->at.w);
    hb_planner_begin_search(p, f->at.w, f->ahead);
    f->at.cost = INFINITY;
    if (!hb_planner_evaluate_start(p, &f->at))
        return false;
    f->evaluated = isfinite(f->at.cost);
    return true;
}

/* the best samples, for trials from the true state */
static void keep_top(hb_planner *p)
{
    hb_preparation *f = &p->preparation;
    const int finite = hb_population_rank(&p->population, p->population.ns, p->order), most = HB_LANES - 2;

    f->ntop = finite < most ? finite : most;
    for (int i = 0; i < f->ntop; i++)
        hb_population_get(&p->population, p->order[i], f->top + (ptrdiff_t)i * p->settings.horizon * p->map.nv);
}

static bool search(hb_planner *p)
{
    hb_preparation *f = &p->preparation;

    /* an interrupted iteration may have found a better sequence already: here only complete ones count */
    p->other.cost = f->at.cost;
    if (!hb_planner_iterate(p, &p->other))
        return false;
    if (p->other.cost < f->at.cost)
        hb_candidate_copy(&f->at, &p->other, p->m->nx, p->map.nv, p->settings.horizon);
    keep_top(p);
    f->iterations++;
    return true;
}

/* Which stage follows one on a lane: the other lane has its turn, if a step there may help. When both are at their
 * ends, the better one is linearised, if it is not. */
static hb_prepare_stage next_turn(hb_planner *p)
{
    hb_preparation *f = &p->preparation;

    if (!f->sampled)
        return HB_PREPARE_SAMPLE;
    if (f->open[!f->lane])
        f->lane = !f->lane;
    if (f->open[f->lane])
        return HB_PREPARE_LINEARISE;
    f->lane = 0;
    if (!f->settled) {
        const double gain = hb_planner_settle(p, &f->at);
        f->settled = true;
        f->moved |= gain > 0;
        count_in_vain(f);
        if (gain > hb_descent_negligible(&p->problem, f->at.cost))
            f->in_vain = 0;
    }
    return f->moved ? HB_PREPARE_LINEARISE : HB_PREPARE_DONE;
}

/* Begins the other lane. */
static bool sample(hb_planner *p)
{
    hb_preparation *f = &p->preparation;

    if (!hb_planner_sample(p, p->population.ns))
        return false;
    f->sampled = true;
    f->open[1] = isfinite(p->other.cost) && p->settings.iterations > 0;
    return true;
}

static bool linearise(hb_planner *p)
{
    hb_preparation *f = &p->preparation;
    const int spare = f->ready == 0;

    if (!hb_descent_linearise(p->descent[spare], p->evaluation, &p->problem, f->lane ? &p->other : &f->at))
        return false;
    if (f->lane == 0) {
        f->ready = spare;
        f->moved = false;
    }
    return true;
}

static bool improve(hb_planner *p)
{
    hb_preparation *f = &p->preparation;
    const int nx = p->m->nx, nv = p->map.nv, nh = p->settings.horizon;
    hb_candidate *from = f->lane ? &p->other : &f->at;
    const double before = from->cost;

    /* on a copy: an interrupted step leaves it as it was */
    hb_candidate_copy(&p->best, from, nx, nv, nh);
    const hb_descent_end end =
        hb_descent_improve(p->descent[f->lane ? f->ready == 0 : f->ready], p->evaluation, &p->problem, &p->best);
    if (end == HB_DESCENT_STOPPED)
        return false;
    hb_candidate_copy(from, &p->best, nx, nv, nh);
    f->open[f->lane] = end == HB_DESCENT_UNDER_WAY && ++f->steps[f->lane] < p->settings.iterations &&
                       (f->lane == 0 || hb_planner_promises(p, before, f->at.cost));
    f->moved = f->moved || (f->lane == 0 && end == HB_DESCENT_UNDER_WAY);
    return true;
}

/* One stage, and which comes next. Returns false when it was interrupted. */
static bool advance(hb_planner *p)
{
    hb_preparation *f = &p->preparation;
    bool done = false;

    switch (f->next) {
    case HB_PREPARE_VERIFY:
        if ((done = verify(p)))
            f->next = HB_PREPARE_PREDICT;
        break;
    case HB_PREPARE_PREDICT:
        if ((done = predict(p)))
            f->next = HB_PREPARE_EVALUATE;
        break;
    case HB_PREPARE_EVALUATE:
        if ((done = evaluate(p)))
            f->next = !f->evaluated ? HB_PREPARE_DONE : second_order(p) ? HB_PREPARE_LINEARISE : HB_PREPARE_SEARCH;
        break;
    case HB_PREPARE_SEARCH:
        if ((done = f->iterations >= p->settings.iterations || search(p)) && f->iterations >= p->settings.iterations)
            f->next = HB_PREPARE_DONE;
        break;
    case HB_PREPARE_LINEARISE:
        if ((done = linearise(p)))
            f->next = f->open[f->lane] ? HB_PREPARE_IMPROVE : next_turn(p);
        break;
    case HB_PREPARE_IMPROVE:
        if ((done = improve(p)))
            f->next = next_turn(p);
        break;
    case HB_PREPARE_SAMPLE:
        if ((done = sample(p)))
            f->next = next_turn(p);
        break;
    case HB_PREPARE_DONE:
        break;
    }
    return done;
}

/* ---- what others call ---- */

uint64_t hb_planner_prepare(hb_planner *p, const hb_predictor *model, double seconds, const hb_clock *clock,
                            double deadline, const atomic_bool *interrupt, uint64_t most)
{
    hb_preparation *f = &p->preparation;

    /* the current plan must be fresh, and reach beyond the next request */
    if (p->cold || p->elapsed > 0 || !(seconds > 0) || !(seconds < p->settings.horizon * hb_planner_step(p)))
        return f->stages;
    if (!f->begun)
        begin(p, seconds);
    f->clock = clock;
    f->deadline = deadline;
    f->interrupt = interrupt;
    f->record.calls++;
    hb_candidate_evaluation_follow(p->evaluation, &f->record.decisions);
    f->problem = hb_planner_problem(p, model, f->x0, &f->goal);
    pose(p, &f->problem);
    while (f->next != HB_PREPARE_DONE && f->stages < most && advance(p))
        f->stages++;
    return f->stages;
}

bool hb_planner_prepared(const hb_planner *p)
{
    return p->preparation.begun && p->preparation.next == HB_PREPARE_DONE;
}

uint64_t hb_planner_disagreed(const hb_planner *p)
{
    return p->disagreed;
}

uint64_t hb_planner_stages(const hb_planner *p)
{
    return p->preparation.stages;
}

/* corrects the sequence in p->best.w; without an answer that has arrived, goes on from there */
static bool correct(hb_planner *p)
{
    hb_preparation *f = &p->preparation;
    hb_descent_end end = hb_descent_correct(p->descent[f->ready], p->evaluation, &p->problem, !p->doubtful, p->warm,
                                            &p->best, &p->plan.iterations, &p->plan.verified);

    if (end == HB_DESCENT_UNDER_WAY && isfinite(p->best.cost))
        end = hb_descent_run(p->descent[!f->ready], p->evaluation, &p->problem,
                             p->settings.iterations - p->plan.iterations, &p->best, &p->plan.iterations);
    return end == HB_DESCENT_ARRIVED;
}

/* The prepared sequence, the current plan and the best samples from the true state. If the best of them costs what was
 * expected after all iterations, it is the answer, without any improvement at this state; else they are improved
 * here. */
static bool choose(hb_planner *p)
{
    hb_preparation *f = &p->preparation;
    hb_descent *d = p->descent[0];
    const ptrdiff_t size = p->settings.horizon * p->map.nv;
    const double expected = f->at.cost;
    const bool complete = f->next == HB_PREPARE_DONE;

    hb_descent_offer(d, &p->problem, 0, p->best.w);
    hb_descent_offer(d, &p->problem, 1, p->warm);
    for (int i = 0; i < f->ntop; i++)
        hb_descent_offer(d, &p->problem, 2 + i, f->top + i * size);
    if (!hb_descent_choose(d, p->evaluation, 2 + f->ntop, &p->best))
        return false;
    if (complete && p->best.cost <= expected + hb_descent_negligible(&p->problem, expected))
        return false;
    hb_planner_begin_search(p, p->best.w, p->elapsed);
    return hb_planner_search(p);
}

bool hb_planner_ready(const hb_planner *p, double step)
{
    const hb_preparation *f = &p->preparation;

    /* a request may come a step earlier or later than expected */
    return f->evaluated && (!second_order(p) || f->ready >= 0) && fabs(p->elapsed - f->ahead) <= 1 &&
           hb_planner_same_step(step, f->problem.dt);
}

const hb_plan *hb_planner_feedback(hb_planner *p, const hb_predictor *model, const double *x0, const hb_goal *goal,
                                   uint64_t tick, const hb_clock *clock, double deadline)
{
    hb_preparation *f = &p->preparation;
    const hb_plan_problem problem = hb_planner_problem(p, model, x0, goal);
    const uint64_t stages = f->stages;

    if (!hb_planner_ready(p, problem.dt)) {
        hb_planner_plan(p, model, x0, goal, tick, clock, deadline);
        p->plan.prepared = stages;
        return &p->plan;
    }
    hb_planner_begin(p, &problem, tick, clock, deadline);
    memcpy(p->best.w, f->at.w, hb_planner_sequence_bytes(p));
    hb_sequence_shift(p->settings.horizon, p->map.nv, p->elapsed - f->ahead, p->best.w);
    if (problem.dt != f->problem.dt)
        hb_sequence_stretch(p->settings.horizon, p->map.nv, problem.dt / f->problem.dt, p->best.w);
    const bool converged = second_order(p) ? correct(p) : choose(p);
    hb_planner_finish(p, converged);
    if (!p->plan.converged)
        f->in_vain = 0;
    p->plan.prepared = stages;
    p->plan.corrected = true;
    return &p->plan;
}
