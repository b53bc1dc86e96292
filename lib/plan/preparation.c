/* Prepare behind the reply, correct on arrival.
 *
 *     verify       the plan in hand, if it was given by the model alone: its rollout
 *     predict      the state at the next request, if requests go on as they did and the first action is held until then
 *     evaluate     the current plan, moved on to that time, from there
 *     search       iterations of the methods that work on the whole population
 *     linearise    Jacobians and the quadratic model of the cost        \  up to STEPS times, until nothing is left to
 *     improve      a second-order step                                  /  gain
 *     sample       restart: wide samples, the best of them picked, and second-order steps from it
 *     linearise, improve ...   go on from the better of the two, to the end if the restart found something
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

enum { STEPS = 3 }; /* second-order steps before the restart, at most */
/* A restart takes longer than all the rest, and finds nothing in ordinary flight. After this many in a row that found
 * nothing, only one of as many preparations has a restart, until a plan has to be made in full again. */
enum { IN_VAIN = 8 };
static const double most_late = 1; /* steps that a request may be earlier or later than expected, */
static const double stretch = 0.1; /* and steps may be longer or shorter, relatively */
/* Without second-order steps: a prepared plan that costs this much more than expected, relatively, is no good. */
static const double surprise = 0.05;

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

/* at IN_VAIN there is a restart, for the counts after it none, and then it counts from IN_VAIN again */
static void count_in_vain(hb_preparation *f)
{
    f->in_vain = f->in_vain + 1 < 2 * IN_VAIN ? f->in_vain + 1 : IN_VAIN;
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
    f->steps = f->iterations = f->restart_steps = 0;
    const bool restarts = p->settings.method == HB_PLANNER_GAUSS_NEWTON && p->population.ns > 1;
    f->sampled = !restarts || f->in_vain > IN_VAIN;
    f->most_steps = restarts ? STEPS : p->settings.iterations;
    if (restarts && f->sampled)
        count_in_vain(f);
    f->arrived = false;
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

static hb_prepare_stage after_descent(const hb_preparation *f)
{
    return f->sampled ? HB_PREPARE_DONE : HB_PREPARE_SAMPLE;
}

/* The restart is over: the descent goes on from what it found, if that is better, or from where it was. */
static hb_prepare_stage settle(hb_planner *p)
{
    hb_preparation *f = &p->preparation;

    f->sampled = true;
    f->most_steps = STEPS + HB_SHORT;
    const double best = fmin(p->other.cost, f->at.cost);
    if (f->before_restart - best > hb_descent_negligible(&p->problem, best)) {
        f->in_vain = 0;
        f->most_steps = p->settings.iterations;
    } else {
        count_in_vain(f);
    }
    if (p->other.cost < f->at.cost) {
        hb_candidate_copy(&f->at, &p->other, p->m->nx, p->map.nv, p->settings.horizon);
        f->moved = true;
    }
    return f->moved || !f->arrived ? HB_PREPARE_LINEARISE : HB_PREPARE_DONE;
}

/* A second-order step from *from, made on a copy: an interrupted one leaves it as it was. */
static hb_descent_end improve(hb_planner *p, hb_descent *d, hb_candidate *from)
{
    const int nx = p->m->nx, nv = p->map.nv, nh = p->settings.horizon;

    hb_candidate_copy(&p->best, from, nx, nv, nh);
    const hb_descent_end end = hb_descent_improve(d, p->evaluation, &p->problem, &p->best);
    if (end != HB_DESCENT_STOPPED)
        hb_candidate_copy(from, &p->best, nx, nv, nh);
    return end;
}

/* One stage, and which comes next. Returns false when it was interrupted. */
static bool advance(hb_planner *p)
{
    hb_preparation *f = &p->preparation;
    hb_candidate_evaluation *e = p->evaluation;
    const int spare = f->ready == 0;
    const double before = f->at.cost;
    hb_descent_end end;

    switch (f->next) {
    case HB_PREPARE_VERIFY:
        if (!verify(p))
            return false;
        f->next = HB_PREPARE_PREDICT;
        return true;
    case HB_PREPARE_PREDICT:
        if (!predict(p))
            return false;
        f->next = HB_PREPARE_EVALUATE;
        return true;
    case HB_PREPARE_EVALUATE:
        if (!evaluate(p))
            return false;
        f->next = !f->evaluated                                   ? HB_PREPARE_DONE
                  : p->settings.method != HB_PLANNER_GAUSS_NEWTON ? HB_PREPARE_SEARCH
                                                                  : HB_PREPARE_LINEARISE;
        return true;
    case HB_PREPARE_SEARCH:
        if (f->iterations < p->settings.iterations && !search(p))
            return false;
        if (f->iterations >= p->settings.iterations)
            f->next = second_order(p) ? HB_PREPARE_LINEARISE : HB_PREPARE_DONE;
        return true;
    case HB_PREPARE_LINEARISE:
        if (!hb_descent_linearise(p->descent[spare], e, &p->problem, &f->at))
            return false;
        f->ready = spare;
        f->moved = false;
        f->next = f->steps < f->most_steps ? HB_PREPARE_IMPROVE : after_descent(f);
        return true;
    case HB_PREPARE_IMPROVE:
        end = improve(p, p->descent[f->ready], &f->at);
        if (end == HB_DESCENT_STOPPED)
            return false;
        f->steps++;
        f->arrived = end == HB_DESCENT_ARRIVED;
        f->next = f->arrived ? after_descent(f) : HB_PREPARE_LINEARISE;
        return true;
    case HB_PREPARE_SAMPLE:
        if (!hb_planner_sample_widely(p, p->population.ns, &f->at))
            return false;
        f->before_restart = before;
        f->moved = f->at.cost < before;
        f->next = HB_PREPARE_PICK;
        return true;
    case HB_PREPARE_PICK:
        if (!hb_planner_pick_sample(p, &p->other))
            return false;
        f->next = isfinite(p->other.cost) ? HB_PREPARE_LINEARISE_OTHER : settle(p);
        return true;
    case HB_PREPARE_LINEARISE_OTHER:
        if (!hb_descent_linearise(p->descent[spare], e, &p->problem, &p->other))
            return false;
        f->next = HB_PREPARE_IMPROVE_OTHER;
        return true;
    case HB_PREPARE_IMPROVE_OTHER:
        end = improve(p, p->descent[spare], &p->other);
        if (end == HB_DESCENT_STOPPED)
            return false;
        f->next = end == HB_DESCENT_UNDER_WAY && ++f->restart_steps < HB_SHORT ? HB_PREPARE_LINEARISE_OTHER : settle(p);
        return true;
    case HB_PREPARE_DONE:
        break;
    }
    return false;
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
    if (complete && p->best.cost <= expected + surprise * fabs(expected))
        return false;
    hb_planner_begin_search(p, p->best.w, p->elapsed);
    return hb_planner_search(p);
}

bool hb_planner_ready(const hb_planner *p, double step)
{
    const hb_preparation *f = &p->preparation;

    return f->evaluated && (!second_order(p) || f->ready >= 0) && fabs(p->elapsed - f->ahead) <= most_late &&
           fabs(step / f->problem.dt - 1) <= stretch;
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
