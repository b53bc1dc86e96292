/* A plan in named steps:
 *
 *     start      evaluate the warm start and a few samples around it
 *     search     iterations of the chosen method on all samples
 *     descend    second-order steps on the best candidates: all of the method `ilqr`, the polish of the others
 *     finish     the best candidate becomes the plan, and the next warm start
 *
 * Each asks before every piece of work whether there is time for it; whatever was evaluated in full by then counts. */
#include "plan/planner.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/descent.h"
#include "plan/candidate_evaluation.h"
#include "plan/population.h"

enum { STARTS = 1, SHORT = 5 };         /* samples that are descended from after the warm start, in so many steps */
enum { REFIT_EVERY = 5 };               /* gradient steps between refits of gradient_cem */
static const double keep_fit = 0.1;     /* of the last mean and deviation when they are refitted */
static const double least_noise = 1e-3; /* that refits leave, in units of each control's range */
static const double narrow = 0.85;      /* what MPPI's noise is multiplied by from iteration to iteration */
static const double wide = 2;           /* noise of the samples that are insurance, relative to that of the others */
static const double polish_share = 0.4; /* of the time, when other methods end with second-order steps */

struct hb_planner {
    const hb_model *m;
    hb_planner_settings settings;
    hb_cost cost;
    int max_samples, max_horizon, max_directions;
    hb_control_map map;
    hb_population population;
    hb_candidate_evaluation *evaluation;
    hb_descent *descent; /* NULL: too large for second-order steps */

    hb_real *warm;             /* nh x nv: the plan in hand */
    bool cold;                 /* there is none: `warm` is trim */
    bool inherited;            /* the population holds sequences of the plan before */
    hb_candidate best, other;  /* of the plan being made, and one being descended from */
    hb_real *mean, *deviation; /* nh x nv: what is drawn from */
    hb_real *kept;             /* ns x nh x nv: elites while they change places */
    int *order;                /* ns, by cost */
    double *action, *states;   /* nh x nu and (nh + 1) x nx: the plan */
    hb_plan plan;

    /* of the request being served */
    hb_problem problem;
    hb_random_key key;
    uint64_t round; /* counts draws */
    double step;    /* seconds a step of the plan in hand; 0: the settings' */
};

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
    to->kept = hb_arena_take(arena, ns * sequence, sizeof(hb_real));
    to->order = hb_arena_take(arena, ns, sizeof(int));
    to->action = hb_arena_take(arena, (size_t)(nh * nu), sizeof(double));
    to->states = hb_arena_take(arena, (size_t)((nh + 1) * nx), sizeof(double));
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
    if (!failed && p->max_horizon * p->max_directions <= HB_PLANNER_UNKNOWNS)
        failed = hb_descent_new(&p->descent, m, &p->map, p->max_directions, s->horizon, err);
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
    hb_descent_free(p->descent);
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
    if ((s->method == HB_PLANNER_ILQR || s->polish) && !p->descent)
        return hb_fail(err, EINVAL,
                       "planner.method: started without room for second-order steps; restart to have them");
    if (s->samples > p->max_samples || s->horizon > p->max_horizon || nv > p->max_directions)
        return hb_fail(
            err, EINVAL,
            "planner: %d samples, horizon %d and %d directions exceed the %d, %d and %d it was started with; "
            "restart to have more",
            s->samples, s->horizon, nv, p->max_samples, p->max_horizon, p->max_directions);

    /* sequences of another length, or in other directions, mean something else now */
    bool same = s->horizon == old->horizon && s->ndirections == old->ndirections &&
                !memcmp(s->direction, old->direction, (size_t)(s->ndirections * p->m->nu) * sizeof *s->direction);
    set(p, s, c);
    if (!same)
        hb_planner_reset(p);
    return 0;
}

/* ---- the plan in hand ---- */

static size_t sequence_bytes(const hb_planner *p)
{
    return (size_t)(p->settings.horizon * p->map.nv) * sizeof(hb_real);
}

static size_t states_bytes(const hb_planner *p)
{
    return (size_t)((p->settings.horizon + 1) * p->m->nx) * sizeof(double);
}

void hb_planner_reset(hb_planner *p)
{
    memset(p->warm, 0, sequence_bytes(p));
    memset(p->states, 0, states_bytes(p));
    hb_control_map_apply(&p->map, p->settings.horizon, p->warm, p->action);
    p->cold = true;
    p->inherited = false;
    p->step = 0;
}

void hb_planner_shift(hb_planner *p, double steps)
{
    if (!(steps > 0))
        return;
    hb_sequence_shift(p->settings.horizon, p->map.nv, steps, p->warm);
    hb_control_map_apply(&p->map, p->settings.horizon, p->warm, p->action);
    if (p->inherited)
        hb_population_shift(&p->population, steps);
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
        .fallback = p->warm,
    };
}

/* The first sample is the warm start, the second trim, the others lie around the warm start, or are those of the plan
 * before. So that there is soon something to return, the warm start is evaluated before all others; and the first few
 * with it, when it is not worth much. */
static bool start(hb_planner *p)
{
    hb_population *pop = &p->population;

    memcpy(p->mean, p->warm, sequence_bytes(p));
    for (int i = 0; i < pop->nh * p->map.nv; i++)
        p->deviation[i] = (hb_real)p->settings.noise;
    memset(p->other.w, 0, sequence_bytes(p));
    if (pop->ns > 1 && !p->inherited)
        hb_population_put(pop, 1, p->other.w);
    hb_population_put(pop, 0, p->warm);

    hb_candidate_job j = job_on(p, 1, HB_PIECE_SINGLE, pop->ns);
    if (p->cold && pop->ns > 1)
        j = job_on(p, pop->ns < HB_LANES ? pop->ns : HB_LANES, HB_PIECE_TRIAL, 2);
    return hb_candidate_evaluation_run(p->evaluation, &j, &p->best);
}

/* keeps the elites as the first samples; the others are to be drawn from what they were refitted to. Returns the first
 * of these. */
static int refit(hb_planner *p)
{
    hb_population *pop = &p->population;
    const ptrdiff_t size = pop->nh * p->map.nv;
    int finite = hb_population_rank(pop, p->order), elites = (int)ceil(p->settings.elites * pop->ns);

    elites = elites > finite ? finite : elites;
    if (elites < 1)
        return 0;
    hb_population_refit(pop, p->order, elites, keep_fit, least_noise, p->mean, p->deviation);
    for (int i = 0; i < elites; i++)
        hb_population_get(pop, p->order[i], p->kept + i * size);
    for (int i = 0; i < elites; i++)
        hb_population_put(pop, i, p->kept + i * size);
    return elites;
}

/* the first sample becomes the weighted mean; the others are to be drawn around it, closer each time */
static int average(hb_planner *p)
{
    hb_population *pop = &p->population;
    int finite = hb_population_rank(pop, p->order);

    if (finite < 1)
        return 0;
    hb_population_average(pop, p->order, finite, p->settings.temperature, p->mean);
    hb_population_put(pop, 0, p->mean);
    for (int i = 0; i < pop->nh * p->map.nv; i++)
        p->deviation[i] = (hb_real)fmax(narrow * p->deviation[i], least_noise);
    return 1;
}

/* all iterations of the methods that work on the whole population */
static bool search(hb_planner *p)
{
    const hb_planner_method method = p->settings.method;
    const bool gradient = method == HB_PLANNER_GRADIENT || method == HB_PLANNER_GRADIENT_CEM;
    const int ns = p->population.ns;
    int draw_from = p->inherited ? ns : 2, adam = 0;

    p->inherited = gradient;
    for (int i = 0; i < p->settings.iterations; i++) {
        hb_candidate_job j = job_on(p, ns, HB_PIECE_FORWARD, draw_from);
        j.adam = gradient ? ++adam : 0;
        if (!hb_candidate_evaluation_run(p->evaluation, &j, &p->best))
            return false;
        p->plan.iterations++;

        /* what the next iteration works on */
        draw_from = ns;
        if (method == HB_PLANNER_CEM)
            draw_from = refit(p);
        else if (method == HB_PLANNER_MPPI)
            draw_from = average(p);
        else if (method == HB_PLANNER_GRADIENT_CEM && adam == REFIT_EVERY) {
            draw_from = refit(p);
            adam = 0;
        }
        p->round++;
    }
    return true;
}

/* second-order steps from *from; the best candidate becomes what they lead to, if that is better */
static bool descend(hb_planner *p, hb_candidate *from, int most)
{
    bool done = hb_descent_run(p->descent, p->evaluation, &p->problem, most, from, &p->plan.iterations);

    if (from != &p->best && from->cost < p->best.cost)
        hb_candidate_copy(&p->best, from, p->m->nx, p->map.nv, p->settings.horizon);
    return done;
}

/* Lest the warm start be in the wrong valley: second-order steps from the best of samples drawn widely around trim,
 * with what time is left. */
static void insure(hb_planner *p)
{
    hb_population *pop = &p->population;
    const ptrdiff_t size = pop->nh * p->map.nv;

    p->round++;
    memset(p->mean, 0, sequence_bytes(p));
    for (int i = 0; i < size; i++)
        p->deviation[i] = (hb_real)(wide * p->settings.noise);
    hb_candidate_job all = job_on(p, pop->ns, HB_PIECE_FORWARD, 1);
    if (!hb_candidate_evaluation_run(p->evaluation, &all, &p->best))
        return;

    int finite = hb_population_rank(pop, p->order), starts = finite < STARTS ? finite : STARTS;
    for (int i = 0; i < starts; i++)
        hb_population_get(pop, p->order[i], p->kept + i * size);
    for (int i = 0; i < starts; i++) {
        /* its states are worked out again: those of samples are not kept */
        hb_candidate_job one = job_on(p, 1, HB_PIECE_SINGLE, pop->ns);
        hb_population_put(pop, 0, p->kept + i * size);
        p->other.cost = INFINITY;
        int left = p->settings.iterations - p->plan.iterations;
        if (!hb_candidate_evaluation_run(p->evaluation, &one, &p->other) ||
            !descend(p, &p->other, left < SHORT ? left : SHORT))
            return;
    }
}

static bool search_second_order(hb_planner *p)
{
    bool arrived = descend(p, &p->best, p->settings.iterations);

    if (arrived && p->population.ns > 1)
        insure(p);
    return arrived;
}

static void finish(hb_planner *p, bool converged)
{
    p->plan.pieces = hb_candidate_evaluation_pieces(p->evaluation);
    p->plan.dropped = hb_candidate_evaluation_dropped(p->evaluation);
    p->plan.evaluated = isfinite(p->best.cost);
    p->plan.converged = converged && p->plan.evaluated;
    p->plan.cost = p->best.cost;
    if (!p->plan.evaluated)
        return;
    p->cold = false;
    p->step = p->problem.dt;
    memcpy(p->warm, p->best.w, sequence_bytes(p));
    memcpy(p->states, p->best.states, states_bytes(p));
    hb_control_map_apply(&p->map, p->settings.horizon, p->warm, p->action);

    int broken = hb_limits_broken(&p->cost.limits, p->problem.goal->last_control, p->m->nx, p->m->nu,
                                  p->settings.horizon, p->states, p->action);
    p->plan.limit = broken < 0 ? NULL : hb_limits_name(&p->cost.limits, broken);
}

/* the warm start, when steps become longer or shorter */
static void change_step(hb_planner *p, double step)
{
    if (step == hb_planner_step(p))
        return;
    hb_sequence_stretch(p->settings.horizon, p->map.nv, step / hb_planner_step(p), p->warm);
    hb_control_map_apply(&p->map, p->settings.horizon, p->warm, p->action);
    p->inherited = false;
    p->step = step;
}

const hb_plan *hb_planner_plan(hb_planner *p, const hb_predictor *model, const double *x0, const hb_goal *goal,
                               uint64_t tick, const hb_clock *clock, double deadline)
{
    const hb_planner_settings *s = &p->settings;
    const bool polish = s->polish && s->method != HB_PLANNER_ILQR;
    const double begun = polish && clock ? clock->now(clock->context) : 0;

    p->problem = (hb_problem){.model = model,
                              .cost = &p->cost,
                              .goal = goal,
                              .x0 = x0,
                              .nh = s->horizon,
                              .dt = goal->step > 0 ? goal->step
                                    : s->dt > 0    ? s->dt
                                                   : p->m->dt};
    p->cost.limits.step = p->problem.dt;
    change_step(p, p->problem.dt);
    p->key = (hb_random_key){.seed = s->seed, .stream = tick};
    p->round = 0;
    p->plan = (hb_plan){.action = p->action};
    p->best.cost = p->other.cost = INFINITY;
    hb_candidate_evaluation_begin(p->evaluation, &p->problem, clock,
                                  polish ? deadline - polish_share * (deadline - begun) : deadline);

    bool converged = start(p);
    if (converged)
        converged = s->method == HB_PLANNER_ILQR ? search_second_order(p) : search(p);
    if (polish) {
        hb_candidate_evaluation_extend(p->evaluation, deadline);
        converged = isfinite(p->best.cost) && descend(p, &p->best, p->settings.iterations);
    }
    finish(p, converged);
    return &p->plan;
}
