/* Prepare and correct: how long an answer takes once everything is prepared, how long preparing takes, and what flights
 * cost that are flown so, beside the same flights with unlimited planning.
 *
 * Times are processor time of one thread. The flights go by a simulated clock that charges a fixed time for each piece
 * of work, so that they come out the same on a busy machine, and each time. How much processor time they really took
 * stands beside it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "base/statistics.h"
#include "bench_models.h"
#include "charged_clock.h"
#include "plan/planner.h"
#include "plant_quadrotor.h"
#include "quadrotor_model.h"

enum { SAMPLES = 100, FLIGHTS = 8, REPEATS = 60 };
static const double feedback_budget = 0.5e-3; /* seconds that an answer may take in a flight */
static const double share = 0.5;              /* of a period that preparing may take */

static quadrotor_pilot new_pilot(int width, int horizon, hb_planner_method method)
{
    hb_planner_settings s = hb_planner_defaults;
    hb_error err;
    quadrotor_pilot p;

    s.method = method;
    s.samples = SAMPLES;
    s.horizon = horizon;
    if (quadrotor_pilot_new(&p, quadrotor_model(width, &err), s, 1, &err))
        bench_fail("%s", err.text);
    return p;
}

/* ---- flights ---- */

typedef struct scenario {
    const char *name;
    double distance;    /* metres from the target at the start, */
    double tilt, spin;  /* radians and rad/s, in any direction */
    double noise;       /* of the state that the planner is told: metres; a third of it in radians */
    double least, most; /* seconds from request to request: random between these */
    double jump;        /* metres by which the target moves every second */
    double drop;        /* part of the mass that is lost after a second; coefficients follow within half a second */
    double seconds;     /* of a flight */
} scenario;

static const scenario scenarios[] = {
    {"start", 1, 0, 0, 0, 0.04, 0.04, 0, 0, 3},          {"noisy_hover", 0, 0, 0, 0.003, 0.01, 0.01, 0, 0, 3},
    {"random_period", 1, 0, 0, 0, 0.02, 0.06, 0, 0, 3},  {"target_jumps", 0, 0, 0, 0, 0.01, 0.01, 0.7, 0, 4},
    {"payload_drop", 0, 0, 0, 0, 0.01, 0.01, 0, 0.3, 3}, {"any_attitude", 0.5, 3.14, 6, 0, 0.02, 0.02, 0, 0, 3},
};

typedef struct flight {
    double cost; /* mean over time */
    int plans, corrected, converged, crashes;
    double feedback, prepare; /* seconds of processor time, all plans' */
    double charged, longest;  /* seconds that answers were charged: all of them, and the longest */
    int iterations;
} flight;

static double draw(uint64_t stream, uint64_t i)
{
    return hb_random_normal((hb_random_key){.seed = 3, .stream = stream}, i);
}

/* the paper's cost of one moment of a flight, written out */
static double stage_cost(const double *x, const double *u, const double *target)
{
    double pitch = asin(fmin(fmax(2 * (x[9] * x[7] - x[6] * x[8]), -1), 1));
    double roll = atan2(2 * (x[9] * x[6] + x[7] * x[8]), 1 - 2 * (x[6] * x[6] + x[7] * x[7]));
    double imbalance = pow(u[0] - u[2], 2) + pow(u[1] - u[3], 2), distance = 0;

    for (int i = 0; i < 3; i++)
        distance += pow(x[2 * i] - target[2 * i], 2);
    return 3 * sqrt(distance) + 5 * (roll * roll + pitch * pitch) + x[1] * x[1] + x[3] * x[3] + x[5] * x[5] +
           2000 * imbalance;
}

static void random_start(const scenario *s, uint64_t stream, double *x)
{
    double direction[3], axis[3], far = 0, length = 0;

    memset(x, 0, QUADROTOR_NX * sizeof *x);
    for (int i = 0; i < 3; i++) {
        direction[i] = draw(stream, (uint64_t)i);
        axis[i] = draw(stream, (uint64_t)(3 + i));
        far += direction[i] * direction[i];
        length += axis[i] * axis[i];
        x[10 + i] = s->spin * draw(stream, (uint64_t)(6 + i)) / sqrt(3);
    }
    const double angle = s->tilt * hb_random_uniform((hb_random_key){.seed = 4, .stream = stream}, 0);
    for (int i = 0; i < 3; i++) {
        x[2 * i] = quadrotor_hover_target[2 * i] + s->distance * direction[i] / sqrt(far);
        x[6 + i] = sin(angle / 2) * axis[i] / sqrt(length);
    }
    x[9] = cos(angle / 2);
}

/* what the planner is told of the state */
static void measure(const scenario *s, uint64_t stream, int request, const double *x, double *told)
{
    double length = 0;

    memcpy(told, x, QUADROTOR_NX * sizeof *x);
    for (int i = 0; s->noise > 0 && i < QUADROTOR_NX; i++)
        told[i] += s->noise * (i < 6 ? 1 : 1.0 / 3) * draw(stream + 1000, (uint64_t)(request * QUADROTOR_NX + i));
    for (int i = 6; i < 10; i++)
        length += told[i] * told[i];
    for (int i = 6; i < 10; i++)
        told[i] /= sqrt(length);
}

/* unlimited: full planning without a deadline; else prepared and corrected */
static void fly(quadrotor_pilot *p, const scenario *s, uint64_t stream, bool unlimited, flight *f)
{
    const double mass = 0.020 + 0.012 * (double)(stream % 4) / 3;
    plant_quadrotor plant = plant_quadrotor_crazyflie;
    double x[QUADROTOR_NX], told[QUADROTOR_NX], u[QUADROTOR_NU], target[QUADROTOR_NX];
    double believed = mass, usual = (s->least + s->most) / 2, time = 0, cost = 0, work = 0;
    const hb_clock clock = {.now = charged, .context = &work, .begins = charge};
    const hb_goal goal = {.target = target, .ntargets = 1, .last_control = u, .trim = p->m->control_trim};

    plant.mass = mass;
    random_start(s, stream, x);
    memcpy(u, p->m->control_trim, sizeof u);
    memcpy(target, quadrotor_hover_target, sizeof target);
    hb_planner_reset(p->planner);
    for (int k = 0; time < s->seconds; k++) {
        const double random = hb_random_uniform((hb_random_key){.seed = 5, .stream = stream}, (uint64_t)k);
        const double period = 1e-3 * floor(1e3 * (s->least + (s->most - s->least) * random) + 0.5);

        if (s->drop > 0 && time >= 1)
            plant.mass = mass * (1 - s->drop);
        believed += (plant.mass - believed) * (1 - exp(-period / 0.15));
        if (s->jump > 0)
            target[0] = (int)time % 2 ? s->jump : 0;
        const hb_real c = (hb_real)quadrotor_model_coefficient(believed);
        hb_predictor_set(p->predictor, &c);
        measure(s, stream, k, x, told);

        const double asked = work;
        double begun = bench_cpu();
        const hb_plan *plan = unlimited ? hb_planner_plan(p->planner, p->predictor, told, &goal, (uint64_t)k, NULL, 0)
                                        : hb_planner_feedback(p->planner, p->predictor, told, &goal, (uint64_t)k,
                                                              &clock, asked + (k ? feedback_budget : 1));
        f->feedback += k ? bench_cpu() - begun : 0;
        f->charged += k ? work - asked : 0;
        f->longest = k ? fmax(f->longest, work - asked) : f->longest;
        f->plans++;
        f->corrected += plan->corrected;
        f->converged += plan->converged;
        f->iterations += plan->iterations;
        if (plan->evaluated)
            memcpy(u, plan->action, sizeof u);
        if (!unlimited) {
            begun = bench_cpu();
            hb_planner_prepare(p->planner, p->predictor, usual, &clock, work + share * usual, NULL, UINT64_MAX);
            f->prepare += bench_cpu() - begun;
        }
        for (int ms = 0; ms < (int)(1e3 * period + 0.5); ms++) {
            plant_quadrotor_step(&plant, x, u, 1e-3);
            cost += 1e-3 * stage_cost(x, u, target);
        }
        time += period;
        hb_planner_shift(p->planner, period / p->m->dt);
        if (!(fabs(x[0]) + fabs(x[2]) + fabs(x[4]) < 20)) {
            f->crashes++;
            break;
        }
    }
    f->cost += cost / time / FLIGHTS;
}

void bench_scenarios(bench *b)
{
    const char *only = getenv("HILBERT_BENCH_SCENARIO");

    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        const scenario *s = &scenarios[i];
        if (only && strcmp(only, s->name) != 0)
            continue;
        quadrotor_pilot p = new_pilot(64, 10, hb_planner_defaults.method);
        flight unlimited = {0}, corrected = {0};
        for (int k = 0; k < FLIGHTS; k++) {
            fly(&p, s, (uint64_t)k, true, &unlimited);
            fly(&p, s, (uint64_t)k, false, &corrected);
        }
        quadrotor_pilot_free(&p);
        bench_set_text(b, "scenario", s->name);
        bench_set_text(b, "method", hb_planner_method_name[hb_planner_defaults.method]);
        bench_set_number(b, "feedback_budget_ms", 1e3 * feedback_budget);
        bench_set_number(b, "cost_ratio", corrected.cost / unlimited.cost);
        bench_set_number(b, "cost", corrected.cost);
        bench_set_number(b, "unlimited_cost", unlimited.cost);
        bench_set_int(b, "plans", corrected.plans);
        bench_set_number(b, "corrected", (double)corrected.corrected / corrected.plans);
        bench_set_number(b, "converged", (double)corrected.converged / corrected.plans);
        bench_set_number(b, "iterations", (double)corrected.iterations / corrected.plans);
        bench_set_number(b, "feedback_cpu_ms", 1e3 * corrected.feedback / (corrected.plans - FLIGHTS));
        bench_set_number(b, "feedback_charged_ms", 1e3 * corrected.charged / (corrected.plans - FLIGHTS));
        bench_set_number(b, "feedback_charged_max_ms", 1e3 * corrected.longest);
        bench_set_number(b, "prepare_cpu_ms", 1e3 * corrected.prepare / corrected.plans);
        bench_set_int(b, "crashes", corrected.crashes);
        bench_set_int(b, "unlimited_crashes", unlimited.crashes);
        bench_emit(b);
    }
}

/* ---- pieces ---- */

enum { MOST_PIECES = 20000 };

/* a clock that also notes how long each piece of work took */
typedef struct stopwatch {
    bool running;
    hb_piece kind;
    double since;
    double took[HB_NPIECES][MOST_PIECES];
    int n[HB_NPIECES];
} stopwatch;

static double stopwatch_now(void *context)
{
    stopwatch *w = context;
    const double now = bench_cpu();

    if (w->running && w->n[w->kind] < MOST_PIECES)
        w->took[w->kind][w->n[w->kind]++] = now - w->since;
    w->running = false;
    return now;
}

static void stopwatch_begins(void *context, hb_piece kind)
{
    stopwatch *w = context;

    w->running = true;
    w->kind = kind;
    w->since = bench_cpu();
}

/* What charge_us should say: pieces of full plans, corrections and preparations, upside down and in hover. */
static void run_pieces(bench *b)
{
    static const char *const name[HB_NPIECES] = {"forward", "backward",  "single", "few",
                                                 "trial",   "jacobians", "solve",  "defects"};
    static stopwatch w;
    const hb_clock clock = {.now = stopwatch_now, .context = &w, .begins = stopwatch_begins};
    const scenario *s = &scenarios[5];

    for (int method = 0; method < 2; method++) {
        quadrotor_pilot p = new_pilot(64, 10, method ? HB_PLANNER_GRADIENT : hb_planner_defaults.method);
        double x[QUADROTOR_NX], u[QUADROTOR_NU];
        const hb_goal goal = {
            .target = quadrotor_hover_target, .ntargets = 1, .last_control = u, .trim = p.m->control_trim};
        const hb_real c = (hb_real)quadrotor_model_coefficient(0.030);

        hb_predictor_set(p.predictor, &c);
        memcpy(u, p.m->control_trim, sizeof u);
        for (int k = 0; k < REPEATS; k++) {
            random_start(s, (uint64_t)(k / 2), x);
            hb_planner_feedback(p.planner, p.predictor, x, &goal, (uint64_t)k, &clock, INFINITY);
            hb_planner_prepare(p.planner, p.predictor, s->least, &clock, INFINITY, NULL, UINT64_MAX);
            hb_planner_shift(p.planner, s->least / p.m->dt);
        }
        quadrotor_pilot_free(&p);
    }
    for (int kind = 0; kind < HB_NPIECES; kind++) {
        double sum = 0;
        const int n = w.n[kind];
        hb_sort(w.took[kind], n);
        /* without the longest tenth: those were interrupted */
        for (int i = 0; i < n - n / 10; i++)
            sum += w.took[kind][i];
        bench_set_text(b, "piece", name[kind]);
        bench_set_int(b, "count", n);
        bench_set_number(b, "cpu_mean_us", 1e6 * sum / (n - n / 10));
        bench_set_number(b, "cpu_p50_us", 1e6 * hb_quantile(w.took[kind], n, 0.5));
        bench_set_number(b, "charged_us", charge_us[kind]);
        bench_emit(b);
    }
}

/* ---- times ---- */

/* A flight from 0.3 m at 100 Hz: of each answer and each preparation, the processor time. */
static void time_loop(int width, int horizon, double *feedback, double *prepare, double *stages)
{
    quadrotor_pilot p = new_pilot(width, horizon, hb_planner_defaults.method);
    const scenario calm = {"calm", 0.3, 0, 0, 0, 0.01, 0.01, 0, 0, 1};
    plant_quadrotor plant = plant_quadrotor_crazyflie;
    double x[QUADROTOR_NX], u[QUADROTOR_NU];
    const hb_goal goal = {
        .target = quadrotor_hover_target, .ntargets = 1, .last_control = u, .trim = p.m->control_trim};
    /* not the nominal mass: its coefficient is zero, and then there is no network to evaluate */
    plant.mass = 0.030;
    const hb_real c = (hb_real)quadrotor_model_coefficient(plant.mass);

    hb_predictor_set(p.predictor, &c);
    random_start(&calm, 1, x);
    memcpy(u, p.m->control_trim, sizeof u);
    *stages = 0;
    for (int k = -1; k < REPEATS; k++) {
        const double begun = bench_cpu();
        const hb_plan *plan = hb_planner_feedback(p.planner, p.predictor, x, &goal, (uint64_t)(k + 1), NULL, 0);
        const double answered = bench_cpu();
        memcpy(u, plan->action, sizeof u);
        const uint64_t done = hb_planner_prepare(p.planner, p.predictor, calm.least, NULL, 0, NULL, UINT64_MAX);
        if (k >= 0) {
            feedback[k] = answered - begun;
            prepare[k] = bench_cpu() - answered;
            *stages += (double)done / REPEATS;
        }
        plant_quadrotor_step(&plant, x, u, calm.least);
        hb_planner_shift(p.planner, calm.least / p.m->dt);
    }
    quadrotor_pilot_free(&p);
}

static void run_times(bench *b, bool preparing)
{
    static const int width[] = {64, 128, 256}, horizon[] = {10, 20, 50};

    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double feedback[REPEATS], prepare[REPEATS], stages, *times = preparing ? prepare : feedback;
            time_loop(width[i], horizon[j], feedback, prepare, &stages);
            bench_set_int(b, "width", width[i]);
            bench_set_int(b, "horizon", horizon[j]);
            bench_set_number(b, "cpu_p50_ms", 1e3 * hb_quantile(times, REPEATS, 0.5));
            bench_set_number(b, "cpu_p90_ms", 1e3 * hb_quantile(times, REPEATS, 0.9));
            bench_set_number(b, "cpu_max_ms", 1e3 * hb_quantile(times, REPEATS, 1));
            if (preparing)
                bench_set_number(b, "stages", stages);
            bench_emit(b);
        }
}

static void run_feedback(bench *b)
{
    run_times(b, false);
}

static void run_prepare(bench *b)
{
    run_times(b, true);
}

const bench_case bench_feedback_cases[] = {
    {"planner_pieces", "the pieces of work that planning is cut into, in processor time, 3 x 64, horizon 10",
     run_pieces},
    {"planner_feedback", "an answer from what was prepared, in processor time, by horizon and width", run_feedback},
    {"planner_prepare", "preparing it: steps on both lanes, Jacobians", run_prepare},
    {0},
};
