/* What a sample of telemetry costs: basis, window, sums and solve; and what is left of rounding after many of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/statistics.h"
#include "bench.h"
#include "bench_models.h"
#include "estimate/estimator.h"
#include "base/numeric.h"
#include "controller/controller.h"
#include "estimate/regression.h"
#include "pilot_quadrotor.h"
#include "plant_quadrotor.h"
#include "quadrotor_model.h"

enum { NX = 13, NU = 4, WINDOW = 2000, PUSHES = 4000 };

/* transitions to push, over and over */
typedef struct pushing {
    hb_estimator *e;
    double dt;
    int next;
    double x[WINDOW][NX], u[WINDOW][NU], x_next[WINDOW][NX];
} pushing;

static void push(void *context)
{
    pushing *p = context;
    int i = p->next++ % WINDOW;

    hb_estimator_push(p->e, &(hb_transition){.x = p->x[i], .u = p->u[i], .x_next = p->x_next[i], .dt = p->dt});
}

static void fill(pushing *p, const hb_model *m)
{
    hb_random_key key = {7, 0};
    uint64_t draws = 0;

    p->dt = m->dt;
    for (int k = 0; k < WINDOW; k++) {
        for (int i = 0; i < NX; i++) {
            p->x[k][i] = m->state_mean[i] + m->state_std[i] * hb_random_normal(key, draws++);
            p->x_next[k][i] = p->x[k][i] + 0.05 * m->state_std[i] * hb_random_normal(key, draws++);
        }
        for (int i = 0; i < NU; i++)
            p->u[k][i] = m->control_mean[i] + m->control_std[i] * hb_random_normal(key, draws++);
    }
}

/* one push with a full window, solve included */
static void measure_push(bench *b, const char *name, hb_model *m, int solve_every)
{
    hb_estimator_settings s = hb_estimator_defaults;
    pushing *p = calloc(1, sizeof *p);
    double *seconds = malloc(PUSHES * sizeof *seconds);
    hb_error err;

    s.window = WINDOW * m->dt;
    s.method = m->method;
    s.solve_every = solve_every;
    if (!p || !seconds)
        bench_fail("out of memory");
    if (hb_estimator_new(&p->e, m, &s, NULL, NULL, &err))
        bench_fail("%s", err.text);
    fill(p, m);
    for (int k = 0; k < WINDOW + 100; k++)
        push(p);

    bench_set_text(b, "model", name);
    bench_set_int(b, "nb", m->nb);
    bench_set_int(b, "nw", WINDOW);
    bench_set_text(b, "shape", hb_shape_name[m->shape]);
    bench_set_text(b, "method", hb_method_name[m->method]);
    bench_set_int(b, "solve_every", solve_every);
    bench_time(b, push, p, 1, 0);
    for (int k = 0; k < PUSHES; k++) {
        double before = hb_now();
        push(p);
        seconds[k] = hb_now() - before;
    }
    bench_set_number(b, "seconds_p99", hb_quantile(seconds, PUSHES, 0.99));
    for (int k = 0; k < PUSHES; k++) {
        double before = bench_cpu();
        push(p);
        seconds[k] = bench_cpu() - before;
    }
    bench_set_number(b, "cpu_seconds", hb_quantile(seconds, PUSHES, 0.5));
    bench_emit(b);
    hb_estimator_free(p->e);
    hb_model_free(m);
    free(seconds);
    free(p);
}

/* the paper's networks, with coefficients of another kind */
static hb_model *paper_model(hb_shape shape, hb_method method)
{
    hb_model *m = bench_paper_model();

    m->shape = shape;
    m->method = method;
    m->ridge = 1e-3;
    hb_model_seal(m);
    return m;
}

static void run_push(bench *b)
{
    measure_push(b, "shared 64x3", bench_shared_model(8, 64, HB_RELU, HB_VECTOR), 1);
    measure_push(b, "shared 64x3", bench_shared_model(8, 64, HB_RELU, HB_PER_STATE), 1);
    measure_push(b, "paper", paper_model(HB_PER_STATE, HB_INNER_PRODUCT), 1);
    measure_push(b, "paper", paper_model(HB_VECTOR, HB_INNER_PRODUCT), 1);
    measure_push(b, "paper", paper_model(HB_VECTOR, HB_LEAST_SQUARES), 1);
    measure_push(b, "paper", paper_model(HB_PER_STATE, HB_LEAST_SQUARES), 1);
    measure_push(b, "paper", paper_model(HB_PER_STATE, HB_LEAST_SQUARES), 5);
}

/* ---- telemetry of the shipped quadrotor ---- */

enum { FLIGHT = 20000, REPEATS = 3 }; /* milliseconds; flights, of which the least of each sample counts */

/* A flight at 1 kHz: rotors that lag by 20 ms and sensors with noise. */
typedef struct flight {
    double x[FLIGHT][NX], u[FLIGHT][NU];
} flight;

static void fly(flight *f)
{
    static const double sensor[NX] = {2e-3, 1e-2, 2e-3, 1e-2, 2e-3, 1e-2, 2e-3, 2e-3, 2e-3, 2e-3, 2e-2, 2e-2, 2e-2};
    const double step = 1e-3, lag = 0.02, keep = exp(-step / lag);
    plant_quadrotor plant = plant_quadrotor_crazyflie;
    pilot_quadrotor pilot = {.seed = 4, .reach = 0.8, .tremble = 1e-3};
    double x[NX] = {[4] = 1, [9] = 1}, u[NU], made[NU];
    uint64_t draws = 0;

    plant.mass = 0.03;
    for (int i = 0; i < NU; i++)
        made[i] = plant_quadrotor_hover_thrust(&plant);
    for (int k = 0; k < FLIGHT; k++) {
        if (k % 20 == 0)
            pilot_quadrotor_fly(&pilot, &plant, x, u);
        memcpy(f->u[k], u, sizeof u);
        for (int i = 0; i < NX; i++)
            f->x[k][i] = x[i] + sensor[i] * hb_random_normal((hb_random_key){9, 0}, draws++);
        for (int i = 0; i < NU; i++)
            made[i] = u[i] + (made[i] - u[i]) * keep;
        plant_quadrotor_step(&plant, x, made, step);
    }
}

/* What matters of config/quadrotor.yaml. */
static hb_controller_settings flight_settings(void)
{
    hb_controller_settings s = hb_controller_defaults();

    s.estimator.window = 2;
    s.cost = quadrotor_hover_cost;
    s.ntarget = NX;
    memcpy(s.target, quadrotor_hover_target, sizeof quadrotor_hover_target);
    return s;
}

/* Processor time of each sample, until the estimate is there, and of all that it leaves for later; the least of several
 * flights: what others do on the machine is left out. Of single pieces of the latter, the longest. */
static int learn_flight(const hb_model *m, hb_pool *pool, const flight *f, int rate, void *memory, size_t size,
                        double *seconds, double *later, double *piece)
{
    hb_controller_settings s = flight_settings();
    int n = 0;

    for (int repeat = 0; repeat < REPEATS; repeat++) {
        hb_controller *c;
        hb_error err;
        memset(memory, 0, size);
        if (hb_controller_new(&c, m, &s, pool, memory, NULL, &err))
            bench_fail("%s", err.text);
        n = 0;
        for (int k = 0; k < FLIGHT; k += 1000 / rate, n++) {
            hb_observation o = {.time_us = 1000000 + 1000 * k, .x = f->x[k], .nx = NX, .u = f->u[k], .nu = NU};
            double before = bench_cpu();
            hb_controller_observe(c, &o, 1e-3 * k);
            double took = bench_cpu() - before, rest = 0, longest = 0;
            for (bool more = true; more;) {
                before = bench_cpu();
                more = hb_controller_work(c);
                double one = bench_cpu() - before;
                rest += more ? one : 0;
                longest = fmax(longest, one);
            }
            seconds[n] = repeat > 0 ? fmin(seconds[n], took) : took;
            later[n] = repeat > 0 ? fmin(later[n], rest) : rest;
            piece[n] = repeat > 0 ? fmin(piece[n], longest) : longest;
        }
        hb_controller_free(c);
    }
    return n;
}

static void run_telemetry(bench *b)
{
    static const int rates[] = {25, 50, 250, 1000};
    flight *f = calloc(1, sizeof *f);
    double *seconds = calloc(3 * FLIGHT, sizeof *seconds), *later = seconds + FLIGHT, *piece = later + FLIGHT;
    hb_controller_settings s = flight_settings();
    hb_model *m;
    hb_pool *pool;
    hb_error err;

    if (hb_pool_new(&pool, 1, NULL, NULL, &err) || hb_model_load(&m, HB_SOURCE_MODELS "/quadrotor.safetensors", &err))
        bench_fail("%s", err.text);
    size_t size = (hb_estimator_memory_size(m, &s.estimator) + HB_ALIGNMENT - 1) / HB_ALIGNMENT * HB_ALIGNMENT;
    void *memory = aligned_alloc(HB_ALIGNMENT, size);
    if (!f || !seconds || !memory)
        bench_fail("out of memory");
    fly(f);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        int n = learn_flight(m, pool, f, rates[i], memory, size, seconds, later, piece);
        double sum = 0, sum_later = 0;
        for (int k = 0; k < n; k++) {
            sum += seconds[k] / n;
            sum_later += later[k] / n;
        }
        bench_set_text(b, "model", "quadrotor.safetensors");
        bench_set_int(b, "hertz", rates[i]);
        /* after the first two seconds, in which everything is done at once */
        double settled = hb_quantile(seconds + n / 10, n - n / 10, 1);
        bench_set_number(b, "cpu_seconds", sum + sum_later);
        bench_set_number(b, "before_the_answer", sum);
        bench_set_number(b, "before_the_answer_settled_worst", settled);
        bench_set_number(b, "before_the_answer_worst", hb_quantile(seconds, n, 1));
        bench_set_number(b, "longest_piece", hb_quantile(piece, n, 1));
        bench_emit(b);
    }
    hb_pool_free(pool);
    hb_model_free(m);
    free(memory);
    free(seconds);
    free(f);
}

/* ---- drift ---- */

enum { NB = 8, LD = 12 };

static void *new_regression(hb_regression *r)
{
    hb_arena arena = {0};
    hb_error err;

    *r = (hb_regression){.nb = NB, .nproblems = 1, .nrows = NX, .ridge = 1e-3, .volume = 1, .forgetting = 1};
    hb_regression_lay_out(r, &arena);
    if (hb_arena_allocate(&arena, &err))
        bench_fail("%s", err.text);
    hb_regression_lay_out(r, &arena);
    return arena.base;
}

/* Slides for a long time, then compares with sums that are made of the last window alone. */
static void run_drift(bench *b)
{
    long pushes = bench_asked_for(b, "estimator_drift") ? 10000000 : 200000;
    /* end amid a revolution, not just when the sums are fresh */
    pushes += WINDOW / 2;
    hb_regression sliding, fresh;
    void *memory[2] = {new_regression(&sliding), new_regression(&fresh)};
    double(*row)[NX][LD] = calloc(WINDOW, sizeof *row), oldest[NX][LD];
    hb_random_key key = {3, 0};
    uint64_t draws = 0;

    if (!row)
        bench_fail("out of memory");
    for (long k = 0; k < pushes; k++) {
        double(*slot)[LD] = row[k % WINDOW];
        /* once in a while a large one, whose rounding is large */
        double size = hb_random_bits(key, draws++) % 500 == 0 ? 1e3 : 1;
        memcpy(oldest, slot, sizeof oldest);
        for (int d = 0; d < NX; d++)
            for (int i = 0; i < NB + 2; i++)
                slot[d][i] = size * (2 * hb_random_uniform(key, draws++) - 1);
        if (k < WINDOW)
            hb_regression_add(&sliding, slot[0]);
        else
            hb_regression_slide(&sliding, oldest[0], slot[0]);
    }
    for (long k = pushes; k < pushes + WINDOW; k++)
        hb_regression_add(&fresh, row[k % WINDOW][0]);

    hb_regression_result a, c;
    double largest = 0, difference = 0;
    if (!hb_regression_solve(&sliding, 0, false, &a) || !hb_regression_solve(&fresh, 0, false, &c))
        bench_fail("the window of estimator_drift is singular");
    for (int i = 0; i < NB; i++) {
        largest = fmax(largest, fabs(c.coefficient[i]));
        difference = fmax(difference, fabs(a.coefficient[i] - c.coefficient[i]));
    }
    bench_set_int(b, "pushes", pushes);
    bench_set_int(b, "nb", NB);
    bench_set_int(b, "nw", WINDOW);
    bench_set_number(b, "relative_difference", difference / largest);
    bench_emit(b);
    free(memory[0]);
    free(memory[1]);
    free(row);
}

const bench_case bench_estimator_cases[] = {
    {"estimator_push", "one sample of telemetry: basis, window, sums and solve", run_push},
    {"estimator_telemetry", "processor time of a sample of telemetry, shipped quadrotor, actuators identified",
     run_telemetry},
    {"estimator_drift", "coefficients after 10 million samples against a fresh computation", run_drift},
    {NULL, NULL, NULL},
};
