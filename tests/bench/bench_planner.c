/* Planning: how fast an iteration is, how good a plan is for its time, and how well the deadline is kept.
 *
 * The flights are those of tests/sim: the analytic quadrotor, flown to the paper's hover point with a shared model of
 * 64x3, SiLU, whose coefficient is that of the true mass. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"
#include "bench_models.h"
#include "plan/descent.h"
#include "plan/candidate_evaluation.h"
#include "base/numeric.h"
#include "plant_quadrotor.h"
#include "plan/planner.h"
#include "quadrotor_model.h"

enum { SAMPLES = 100, HORIZON = 10, MOST_THREADS = 2, STEPS = 75, FLIGHTS = 4 };
static const double period = 0.04;

/* ---- one iteration ---- */

/* the parts of a planner, to run one iteration of it over and over */
typedef struct machine {
    hb_model *m;
    hb_pool *pool;
    hb_predictor *predictor;
    hb_candidate_evaluation *evaluation;
    hb_descent *descent;
    hb_control_map map;
    hb_arena arena;
    hb_population population;
    hb_candidate best, from;
    hb_real *zero, *spread; /* HORIZON x nu */
    hb_plan_problem problem;
    hb_goal goal;
    int iteration;
} machine;

static void lay_out(machine *t)
{
    const int nu = t->m->nu;

    t->map.trim = hb_arena_take(&t->arena, (size_t)nu, sizeof(double));
    t->map.low = hb_arena_take(&t->arena, (size_t)nu, sizeof(double));
    t->map.high = hb_arena_take(&t->arena, (size_t)nu, sizeof(double));
    t->map.direction = hb_arena_take(&t->arena, (size_t)(nu * nu), sizeof(double));
    hb_population_lay_out(&t->population, &t->arena, &t->map, nu, SAMPLES, HORIZON, true);
    hb_candidate_lay_out(&t->best, &t->arena, t->m->nx, nu, HORIZON);
    hb_candidate_lay_out(&t->from, &t->arena, t->m->nx, nu, HORIZON);
    t->zero = hb_arena_take(&t->arena, (size_t)(HORIZON * nu), sizeof(hb_real));
    t->spread = hb_arena_take(&t->arena, (size_t)(HORIZON * nu), sizeof(hb_real));
}

static const double start[13] = {0.3, 0, -0.2, 0, 0.8, 0, 0, 0, 0, 1, 0, 0, 0};

static void new_machine(machine *t, hb_model *m, int nthreads)
{
    const int nu = m->nu;
    hb_error err;

    *t = (machine){.m = m, .map = {.nu = nu, .nv = nu, .diagonal = true}};
    lay_out(t);
    if (hb_arena_allocate(&t->arena, &err) || hb_pool_new(&t->pool, nthreads, NULL, NULL, &err) ||
        hb_predictor_new(&t->predictor, m, &err) ||
        hb_candidate_evaluation_new(&t->evaluation, m, t->pool, SAMPLES, HORIZON, &err) ||
        hb_descent_new(&t->descent, m, &t->map, nu, HORIZON, &err))
        bench_fail("%s", err.text);
    lay_out(t);
    hb_real *c = bench_rows(m->nb * m->nx / HB_STRIDE + 1, 8);
    hb_predictor_set(t->predictor, c);
    free(c);
    for (int i = 0; i < nu; i++) {
        t->map.trim[i] = m->control_trim[i];
        t->map.low[i] = m->control_min[i];
        t->map.high[i] = m->control_max[i];
        t->map.direction[i * nu + i] = m->control_max[i] - m->control_min[i];
    }
    for (int i = 0; i < HORIZON * nu; i++)
        t->spread[i] = (hb_real)0.1;
    t->goal =
        (hb_goal){.target = quadrotor_hover_target, .ntargets = 1, .last_control = t->map.trim, .trim = t->map.trim};
    t->problem = (hb_plan_problem){.model = t->predictor,
                              .cost = &quadrotor_hover_cost,
                              .goal = &t->goal,
                              .x0 = start,
                              .nh = HORIZON,
                              .dt = m->dt};
    hb_candidate_evaluation_begin(t->evaluation, &t->problem, NULL, 0);
    hb_candidate_job draw = {.population = &t->population, .ns = SAMPLES, .mean = t->zero, .deviation = t->spread};
    if (!hb_candidate_evaluation_run(t->evaluation, &draw, &t->best) || !isfinite(t->best.cost))
        bench_fail("no sample of the model could be evaluated");
}

static void free_machine(machine *t)
{
    hb_descent_free(t->descent);
    hb_candidate_evaluation_free(t->evaluation);
    hb_predictor_free(t->predictor);
    hb_pool_free(t->pool);
    hb_model_free(t->m);
    free(t->arena.base);
}

static void gradient_iteration(void *context)
{
    machine *t = context;
    const hb_candidate_job job = {.population = &t->population,
                                  .ns = SAMPLES,
                                  .draw_from = SAMPLES,
                                  .adam = ++t->iteration,
                                  .rate = 1e-4,
                                  .clip = 1,
                                  .fallback = t->zero};

    hb_candidate_evaluation_run(t->evaluation, &job, &t->best);
}

static void second_order_step(void *context)
{
    machine *t = context;
    int steps = 0;

    hb_candidate_copy(&t->from, &t->best, t->m->nx, t->m->nu, HORIZON);
    hb_descent_run(t->descent, t->evaluation, &t->problem, 1, &t->from, &steps);
}

static void run_iterations(bench *b, void (*work)(void *context), bool count_flops)
{
    for (int i = 0; bench_model(i); i++)
        for (int nthreads = 1; nthreads <= MOST_THREADS; nthreads++) {
            machine t;
            new_machine(&t, bench_model(i), nthreads);
            bench_describe(b, t.m);
            bench_set_int(b, "ns", SAMPLES);
            bench_set_int(b, "nh", HORIZON);
            /* of the networks alone, forward and backward; cost and Adam are not counted */
            bench_time(b, work, &t, nthreads, count_flops ? 2 * HORIZON * SAMPLES * bench_step_flops(t.m) : 0);
            bench_emit(b);
            free_machine(&t);
        }
}

static void run_planner_iteration(bench *b)
{
    run_iterations(b, gradient_iteration, true);
}

static void run_planner_descent(bench *b)
{
    run_iterations(b, second_order_step, false);
}

/* ---- flights ---- */

static double now(void *context)
{
    (void)context;
    return hb_now();
}

static quadrotor_pilot new_pilot(hb_planner_method method, int nthreads)
{
    hb_planner_settings s = hb_planner_defaults;
    hb_error err;
    quadrotor_pilot p;

    s.method = method;
    s.samples = SAMPLES;
    s.horizon = HORIZON;
    s.iterations = 100;
    if (quadrotor_pilot_new(&p, quadrotor_model(64, &err), s, nthreads, &err))
        bench_fail("%s", err.text);
    return p;
}

/* the paper's cost of one moment of a flight, written out */
static double stage_cost(const double *x, const double *u)
{
    double pitch = asin(fmin(fmax(2 * (x[9] * x[7] - x[6] * x[8]), -1), 1));
    double roll = atan2(2 * (x[9] * x[6] + x[7] * x[8]), 1 - 2 * (x[6] * x[6] + x[7] * x[7]));
    double imbalance = pow(u[0] - u[2], 2) + pow(u[1] - u[3], 2);

    return 3 * sqrt(x[0] * x[0] + x[2] * x[2] + (x[4] - 1) * (x[4] - 1)) + 5 * (roll * roll + pitch * pitch) +
           x[1] * x[1] + x[3] * x[3] + x[5] * x[5] + 2000 * imbalance;
}

/* what is noted of every plan of a flight */
typedef struct log_book {
    double *overshoot; /* seconds past the deadline, 0 when before */
    int n;
    double iterations;
} log_book;

/* Mean cost of a flight of STEPS periods from one of the starts; budget 0: no deadline. */
static double fly(quadrotor_pilot *p, double mass, uint64_t start_number, double budget, log_book *log)
{
    const hb_clock clock = {.now = now, .context = NULL};
    const hb_random_key key = {.seed = 3, .stream = start_number};
    const hb_real c = (hb_real)quadrotor_model_coefficient(mass);
    plant_quadrotor plant = plant_quadrotor_crazyflie;
    double x[QUADROTOR_NX] = {[9] = 1}, u[QUADROTOR_NU], norm = 0, total = 0;

    plant.mass = mass;
    hb_predictor_set(p->predictor, &c);
    hb_planner_reset(p->planner);
    /* 0.8 m away */
    for (int i = 0; i < 3; i++) {
        x[2 * i] = hb_random_normal(key, (uint64_t)i);
        norm += x[2 * i] * x[2 * i];
    }
    for (int i = 0; i < 3; i++)
        x[2 * i] = quadrotor_hover_target[2 * i] + 0.8 * x[2 * i] / sqrt(norm);
    memcpy(u, p->m->control_trim, sizeof u);
    const hb_goal goal = {
        .target = quadrotor_hover_target, .ntargets = 1, .last_control = u, .trim = p->m->control_trim};

    for (int step = 0; step < STEPS; step++) {
        const double deadline = hb_now() + budget;
        const hb_plan *plan =
            hb_planner_plan(p->planner, p->predictor, x, &goal, (uint64_t)step, budget > 0 ? &clock : NULL, deadline);
        const double over = hb_now() - deadline;
        log->iterations += plan->iterations;
        if (log->overshoot)
            log->overshoot[log->n] = over > 0 ? over : 0;
        log->n++;
        memcpy(u, plan->action, sizeof u);
        plant_quadrotor_step(&plant, x, u, period);
        hb_planner_shift(p->planner, 1);
        total += stage_cost(x, u) / STEPS;
    }
    return total;
}

/* mean cost over masses and starts */
static double fly_all(hb_planner_method method, double budget, log_book *log)
{
    quadrotor_pilot p = new_pilot(method, MOST_THREADS);
    double total = 0;

    for (int i = 0; i < FLIGHTS; i++)
        total += fly(&p, 0.020 + 0.012 * i / (FLIGHTS - 1), (uint64_t)i, budget, log) / FLIGHTS;
    quadrotor_pilot_free(&p);
    return total;
}

static void quality_of(bench *b, hb_planner_method method, hb_planner_method reference, double unlimited)
{
    static const double budget[] = {1, 2, 5, 10, 20};

    for (int i = 0; i < 5; i++) {
        log_book log = {0};
        const double cost = fly_all(method, budget[i] * 1e-3, &log);
        bench_set_text(b, "method", hb_planner_method_name[method]);
        bench_set_number(b, "budget_ms", budget[i]);
        bench_set_number(b, "cost_ratio", cost / unlimited);
        bench_set_number(b, "cost", cost);
        bench_set_number(b, "unlimited_cost", unlimited);
        bench_set_text(b, "unlimited_method", hb_planner_method_name[reference]);
        bench_set_number(b, "iterations", log.iterations / log.n);
        bench_set_int(b, "threads", MOST_THREADS);
        bench_emit(b);
    }
}

/* What plans are held against: 100 samples and 100 iterations without a deadline, by the paper's method or by the
 * default one, whichever flies better. */
static double unlimited_cost(hb_planner_method *reference)
{
    log_book log = {0};
    const double paper = fly_all(HB_PLANNER_GRADIENT, 0, &log), ours = fly_all(hb_planner_defaults.method, 0, &log);

    *reference = ours < paper ? hb_planner_defaults.method : HB_PLANNER_GRADIENT;
    return fmin(ours, paper);
}

static void run_plan_quality(bench *b)
{
    hb_planner_method reference;

    if (!getenv("HILBERT_BENCH_SCENARIO")) {
        const double unlimited = unlimited_cost(&reference);
        quality_of(b, hb_planner_defaults.method, reference, unlimited);
    }
    bench_scenarios(b);
}

static void run_plan_quality_methods(bench *b)
{
    hb_planner_method reference;

    /* long: only when asked for by name */
    if (!bench_asked_for(b, "plan_quality_methods"))
        return;
    const double unlimited = unlimited_cost(&reference);
    for (int method = 0; method < HB_PLANNER_NMETHODS; method++)
        quality_of(b, (hb_planner_method)method, reference, unlimited);
}

/* ---- the deadline ---- */

static void run_deadline(bench *b)
{
    static const hb_planner_method method[] = {HB_PLANNER_GAUSS_NEWTON, HB_PLANNER_GRADIENT};
    enum { PLANS = 10000 };
    static double overshoot[PLANS];

    for (int i = 0; i < 2; i++) {
        quadrotor_pilot p = new_pilot(method[i], MOST_THREADS);
        log_book log = {.overshoot = overshoot};
        while (log.n < PLANS)
            fly(&p, 0.02 + 0.012 * log.n / PLANS, (uint64_t)log.n, 5e-3, &log);
        quadrotor_pilot_free(&p);
        bench_set_text(b, "method", hb_planner_method_name[method[i]]);
        bench_set_number(b, "budget_ms", 5);
        bench_set_int(b, "plans", PLANS);
        bench_set_int(b, "threads", MOST_THREADS);
        bench_set_number(b, "iterations", log.iterations / log.n);
        bench_set_number(b, "overshoot_p50_ms", 1e3 * hb_quantile(overshoot, PLANS, 0.5));
        bench_set_number(b, "overshoot_p99_ms", 1e3 * hb_quantile(overshoot, PLANS, 0.99));
        bench_set_number(b, "overshoot_p999_ms", 1e3 * hb_quantile(overshoot, PLANS, 0.999));
        bench_set_number(b, "overshoot_max_ms", 1e3 * hb_quantile(overshoot, PLANS, 1));
        bench_emit(b);
    }
}

const bench_case bench_planner_cases[] = {
    {"planner_iteration", "100 samples, 10 steps: costs, gradients and a step of Adam", run_planner_iteration},
    {"planner_descent", "one second-order step: Jacobians, algebra, 16 trials", run_planner_descent},
    {"plan_quality", "cost of flights against unlimited planning, by time budget: the default method",
     run_plan_quality},
    {"plan_quality_methods", "the same for every method; only when named", run_plan_quality_methods},
    {"deadline", "overshoot over 10,000 plans at 5 ms", run_deadline},
    {0},
};
