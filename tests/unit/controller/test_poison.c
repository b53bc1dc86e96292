/* One bad moment does not spoil the next: a number that is not finite, not in single precision or absurd comes once,
 * wherever numbers come in, and what is answered after it is what would have been answered without it. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "controller/controller.h"
#include "test_models.h"

enum { MAX_NX = 16, MAX_NU = 8, HORIZON = 6, BEFORE = 12, AFTER = 3, NVALUES = 5 };

typedef enum where { STATE, TARGET, REFERENCE, APPLIED, SAMPLE, REPORT, NWHERE } where;
static const char *const where_name[] = {"state", "target", "reference", "applied", "sample", "report"};

typedef struct poison {
    where to;
    int element;
    double value;
} poison;

/* what a vehicle and whoever asks for it know at a moment */
typedef struct moment {
    double now, x[MAX_NX], u[MAX_NU], target[MAX_NX];
    int64_t time_us;
    uint64_t tick;
} moment;

static double stand(void *context)
{
    return *(double *)context;
}

static hb_controller *new_controller(const hb_model *m, hb_pool *pool, hb_planner_method method, bool prepare,
                                     bool adapt)
{
    hb_controller_settings s = hb_controller_defaults();
    hb_controller *c;
    hb_error err;

    s.adapt = adapt;
    s.planner.method = method;
    s.planner.prepare = prepare;
    s.planner.samples = 4;
    s.planner.horizon = HORIZON;
    s.planner.iterations = 3;
    s.estimator.window = 100 * m->dt;
    s.estimator.warmup = 5 * m->dt;
    s.estimator.actuators.identify = false; /* commands act at once here, plans start where requests are */
    s.cost = (hb_cost){.nterms = 2,
                       .term = {{.kind = HB_COST_SQUARED, .weight = 1, .terminal = 5, .nindices = 1, .index = {0}},
                                {.kind = HB_COST_SLEW, .weight = 1e-3, .terminal = 1, .nindices = 1, .index = {0}}}};
    if (hb_controller_new(&c, m, &s, pool, NULL, NULL, &err))
        fail_msg("%s", err.text);
    return c;
}

static moment beginning(const hb_model *m)
{
    moment at = {.now = 1000, .time_us = 5000000};
    const int q = hb_model_quaternion(m);

    memcpy(at.x, m->state_mean, (size_t)m->nx * sizeof *at.x);
    for (int i = 0; q >= 0 && i < 4; i++)
        at.x[q + i] = i == 3;
    memcpy(at.target, at.x, sizeof at.x);
    at.target[0] += 0.5 * m->state_std[0];
    memcpy(at.u, m->control_trim, (size_t)m->nu * sizeof *at.u);
    return at;
}

/* A sample, a request and what is prepared behind its answer; p may be NULL. */
static hb_command turn(hb_controller *c, const hb_model *m, moment at, const poison *p)
{
    const int nx = m->nx, nu = m->nu;
    const hb_clock clock = {.now = stand, .context = &at.now};
    double x[MAX_NX], sample[MAX_NX], applied[MAX_NU], target[(HORIZON + 1) * MAX_NX];

    memcpy(x, at.x, sizeof x);
    memcpy(sample, at.x, sizeof sample);
    memcpy(applied, at.u, sizeof applied);
    for (int k = 0; k <= HORIZON; k++)
        memcpy(target + k * nx, at.target, (size_t)nx * sizeof *target);
    double *const to[] = {x, target, target + HORIZON / 2 * nx, applied, sample, at.u};
    if (p)
        to[p->to][p->element] = p->value;

    hb_controller_observe(c, &(hb_observation){.time_us = at.time_us, .x = sample, .nx = nx, .u = at.u, .nu = nu},
                          at.now);
    const hb_request r = {.time_us = at.time_us,
                          .x = x,
                          .nx = nx,
                          .applied = applied,
                          .napplied = nu,
                          .target = target,
                          .ntargets = p && p->to == REFERENCE ? HORIZON + 1 : 1,
                          .received = at.now,
                          .tick = at.tick};
    hb_controller_observe_request(c, &r, at.now);
    const hb_command reply = *hb_controller_command(c, &r, &clock);
    for (int j = 0; j < nu; j++)
        assert_true(reply.action[j] >= m->control_min[j] && reply.action[j] <= m->control_max[j]);
    hb_controller_prepare(c, &clock, NULL, UINT64_MAX);
    while (hb_controller_work(c))
        ;
    return reply;
}

/* Time passes; the vehicle is what `plant` predicts. */
static void pass(hb_controller *plant, const hb_model *m, const double *action, moment *at)
{
    double states[2 * MAX_NX];

    memcpy(at->u, action, (size_t)m->nu * sizeof *at->u);
    assert_int_equal(hb_controller_predict(plant, at->x, at->u, 1, m->dt, states, NULL), 0);
    memcpy(at->x, states + m->nx, (size_t)m->nx * sizeof *at->x);
    at->now += m->dt;
    at->time_us += (int64_t)llround(m->dt * 1e6);
    at->tick++;
}

/* Of two controllers that see the same flight, one gets the poison. Costs may be `worst` times those of the other,
 * which starts from a better plan. */
static void check_poison(const hb_model *m, hb_pool *pool, hb_planner_method method, bool prepare, double worst,
                         poison p)
{
    hb_controller *plant = new_controller(m, pool, method, false, false),
                  *clean = new_controller(m, pool, method, prepare, true),
                  *spoilt = new_controller(m, pool, method, prepare, true);
    moment at = beginning(m);

    for (int k = 0; k < BEFORE + 1 + AFTER; k++) {
        const hb_command expected = turn(clean, m, at, NULL);
        const hb_command reply = turn(spoilt, m, at, k == BEFORE ? &p : NULL);
        if (k > BEFORE && (reply.status >= HB_STATUS_FALLBACK || !(reply.cost < worst * expected.cost)))
            fail_msg(
                "%s, method %d, %sprepared, %g as %s %d: reply %d after it is %s (%s), cost %g, without the poison %g",
                m->state_name[0], (int)method, prepare ? "" : "not ", p.value, where_name[p.to], p.element, k - BEFORE,
                hb_status_name[reply.status], hb_reason_name[reply.reason], reply.cost, expected.cost);
        pass(plant, m, expected.action, &at);
    }
    hb_controller_free(plant);
    hb_controller_free(clean);
    hb_controller_free(spoilt);
}

static void check_every_poison(const hb_model *m, hb_planner_method method, bool prepare, double worst, int every,
                               size_t nvalues)
{
    static const double value[NVALUES] = {NAN, 1e30, -1.7e308, -1e9, 1e3};
    hb_pool *pool;
    hb_error err;

    assert_int_equal(hb_pool_new(&pool, 1, NULL, NULL, &err), 0);
    for (where to = 0; to < NWHERE; to++)
        for (int i = 0; i < (to == APPLIED || to == REPORT ? m->nu : m->nx); i += every)
            for (size_t v = 0; v < nvalues; v++)
                check_poison(m, pool, method, prepare, worst, (poison){to, i, value[v]});
    hb_pool_free(pool);
}

static hb_model *cart(bool on_a_ring)
{
    hb_model *m;
    hb_error err;

    assert_int_equal(hb_test_cart(&m, &err), 0);
    m->actuator_lag[0] = 0.05;
    m->angle[0] = on_a_ring;
    strcpy(m->state_unit[0], on_a_ring ? "rad" : "m");
    hb_model_seal(m);
    return m;
}

static void test_a_cart_is_answered_as_before(void **state)
{
    (void)state;
    for (int ring = 0; ring <= 1; ring++) {
        hb_model *m = cart(ring);
        check_every_poison(m, HB_PLANNER_GAUSS_NEWTON, false, 1.2, 1, NVALUES);
        for (hb_planner_method method = 0; method < HB_PLANNER_NMETHODS; method++)
            if (method == HB_PLANNER_GAUSS_NEWTON || !ring)
                check_every_poison(m, method, true, method == HB_PLANNER_GAUSS_NEWTON ? 1.2 : 5, 1, NVALUES);
        hb_model_free(m);
    }
}

static void test_a_quadrotor_is_answered_as_before(void **state)
{
    hb_model *m;
    hb_error err;

    (void)state;
    assert_int_equal(hb_test_quadrotor(&m, 3, 8, &err), 0);
    check_every_poison(m, HB_PLANNER_GAUSS_NEWTON, true, INFINITY, 6, 2);
    hb_model_free(m);
}

/* A wheel that turns for hours: its angle stays small enough for single precision, and its plans true. */
static void test_turns_do_not_add_up(void **state)
{
    hb_model *m = cart(true);
    hb_pool *pool;
    hb_error err;
    moment at = beginning(m);

    (void)state;
    assert_int_equal(hb_pool_new(&pool, 1, NULL, NULL, &err), 0);
    hb_controller *c = new_controller(m, pool, HB_PLANNER_GAUSS_NEWTON, true, true);
    at.x[1] = 100;
    for (int k = 0; k < 2000; k++) {
        const hb_command reply = turn(c, m, at, NULL);
        assert_true(reply.status < HB_STATUS_FALLBACK);
        assert_true(fabs(reply.states[0]) < 410);
        assert_near(remainder(reply.states[0] - at.x[0], 2 * M_PI), 0, 1e-4);
        at.x[0] += at.x[1] * m->dt;
        at.target[0] = at.x[0] + 0.5;
        at.now += m->dt;
        at.time_us += (int64_t)llround(m->dt * 1e6);
        at.tick++;
    }
    hb_controller_free(c);
    hb_pool_free(pool);
    hb_model_free(m);
}

/* --- runs of poison --- */

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 9007199254740992.0;
}

static int below(uint64_t *seed, int n)
{
    return (int)(uniform(seed) * n);
}

/* A number that nobody means. */
static double absurd(uint64_t *seed)
{
    static const double value[] = {NAN,  INFINITY, -INFINITY, 1.7e308, -1.7e308, 1e300,  3.5e38, -3.4e38,
                                   1e30, -1e19,    1e9,       1e5,     -1e3,     5e-324, 1e-40,  0};
    return value[below(seed, sizeof value / sizeof *value)];
}

/* Requests and samples of which several have numbers that nobody means, at odd times. */
static void turn_badly(hb_controller *c, const hb_model *m, moment *at, uint64_t *seed)
{
    const int nx = m->nx, nu = m->nu, rows = 1 + below(seed, HORIZON + 1);
    const hb_clock clock = {.now = stand, .context = &at->now};
    double x[MAX_NX], sample[MAX_NX], applied[MAX_NU], u[MAX_NU], target[(HORIZON + 1) * MAX_NX], time[HORIZON + 1];
    const bool timed = below(seed, 2), spoil_request = below(seed, 2), spoil_sample = below(seed, 2);

    memcpy(x, at->x, sizeof x);
    memcpy(sample, at->x, sizeof sample);
    memcpy(applied, at->u, sizeof applied);
    memcpy(u, at->u, sizeof u);
    for (int k = 0; k <= HORIZON; k++) {
        memcpy(target + k * nx, at->target, (size_t)nx * sizeof *target);
        time[k] = 0.05 * k;
    }
    for (int k = below(seed, 4); spoil_request && k >= 0; k--) {
        x[below(seed, nx)] = below(seed, 3) ? at->x[0] : absurd(seed);
        target[below(seed, rows * nx)] = absurd(seed);
        applied[below(seed, nu)] = below(seed, 2) ? m->control_max[0] : absurd(seed);
        time[below(seed, rows)] = below(seed, 2) ? absurd(seed) : 10 * uniform(seed);
    }
    for (int k = below(seed, 3); spoil_sample && k >= 0; k--) {
        sample[below(seed, nx)] = absurd(seed);
        u[below(seed, nu)] = below(seed, 2) ? m->control_min[0] : absurd(seed);
    }
    hb_controller_observe(c,
                          &(hb_observation){.time_us = at->time_us,
                                            .x = sample,
                                            .nx = nx,
                                            .u = below(seed, 4) ? u : NULL,
                                            .nu = nu,
                                            .reset_counter = (uint32_t)(below(seed, 8) == 0)},
                          at->now);
    const hb_request r = {.time_us = at->time_us,
                          .x = x,
                          .nx = nx,
                          .applied = below(seed, 2) ? applied : NULL,
                          .napplied = nu,
                          .target = target,
                          .ntargets = timed            ? rows
                                      : below(seed, 2) ? 1
                                                       : HORIZON + 1,
                          .target_time = timed ? time : NULL,
                          .reset_counter = (uint32_t)(below(seed, 8) == 0),
                          .received = at->now,
                          .tick = at->tick};
    hb_controller_observe_request(c, &r, at->now);
    const hb_command reply = *hb_controller_command(c, &r, &clock);
    for (int j = 0; j < nu; j++)
        assert_true(reply.action[j] >= m->control_min[j] && reply.action[j] <= m->control_max[j]);
    if (below(seed, 4))
        hb_controller_prepare(c, &clock, NULL, UINT64_MAX);
    while (below(seed, 2) && hb_controller_work(c))
        ;
    /* the next one comes soon, late, or much later */
    static const double passes[] = {1, 1, 1, 0.01, 3, 20, 1000, 1e6};
    const double dt = m->dt * passes[below(seed, sizeof passes / sizeof *passes)];
    at->now += dt;
    at->time_us += (int64_t)llround(dt * 1e6);
    at->tick++;
}

/* Whatever came before: from the third good request on, answers are plans with a finite cost. */
static void check_runs(const hb_model *m, const hb_cost *cost, bool identify, int runs)
{
    hb_pool *pool;
    hb_error err;

    assert_int_equal(hb_pool_new(&pool, 1, NULL, NULL, &err), 0);
    for (int run = 0; run < runs; run++) {
        uint64_t seed = 77 + (uint64_t)run;
        hb_controller_settings s = hb_controller_defaults();
        hb_controller *c;
        const double settle = 1.5 * m->dt;
        moment at = beginning(m);

        s.planner.prepare = run % 3;
        s.planner.samples = 4;
        s.planner.horizon = HORIZON;
        s.planner.iterations = 3;
        s.estimator.window = 100 * m->dt;
        s.estimator.warmup = 5 * m->dt;
        s.estimator.actuators.identify = identify;
        s.cost = *cost;
        if (hb_controller_new(&c, m, &s, pool, NULL, NULL, &err))
            fail_msg("%s", err.text);
        for (int bout = 0; bout < 3; bout++) {
            for (int k = below(&seed, 20); k >= 0; k--)
                turn_badly(c, m, &at, &seed);
            const double begun = at.now;
            const int q = hb_model_quaternion(m);
            for (int k = 0; at.now < begun + settle + 10 * m->dt; k++) {
                const moment good = beginning(m);
                memcpy(at.x, good.x, sizeof at.x);
                memcpy(at.u, good.u, sizeof at.u);
                memcpy(at.target, good.target, sizeof at.target);
                for (int i = 0; i < m->nx; i++) /* it trembles: what stands still is taken for a sensor that hangs */
                    at.x[i] += q >= 0 && i >= q && i < q + 4 ? 0 : 0.01 * m->state_std[i] * sin(k + i);
                const hb_command reply = turn(c, m, at, NULL);
                if (at.now > begun + settle && (reply.status >= HB_STATUS_FALLBACK || !isfinite(reply.cost)))
                    fail_msg("%s, run %d, bout %d: %g s after it, reply is %s (%s), cost %g", m->state_name[0], run,
                             bout, at.now - begun, hb_status_name[reply.status], hb_reason_name[reply.reason],
                             reply.cost);
                at.now += m->dt;
                at.time_us += (int64_t)llround(m->dt * 1e6);
                at.tick++;
            }
        }
        hb_controller_free(c);
    }
    hb_pool_free(pool);
}

static void test_any_run_of_poison_is_over_when_it_is(void **state)
{
    static const hb_cost costs[] = {
        {.nterms = 2,
         .term = {{.kind = HB_COST_DISTANCE, .weight = 1, .terminal = 5, .nindices = 1, .index = {0}},
                  {.kind = HB_COST_SLEW, .weight = 1e-3, .terminal = 1, .nindices = 1, .index = {0}}}},
        {.nterms = 2,
         .term = {{.kind = HB_COST_SQUARED, .weight = 1, .terminal = 5, .nindices = 2, .index = {0, 1}},
                  {.kind = HB_COST_EFFORT, .weight = 1e-3, .terminal = 1, .nindices = 1, .index = {0}}}},
        {.nterms = 1,
         .term = {{.kind = HB_COST_HUBER, .weight = 1, .terminal = 5, .nindices = 2, .index = {0, 1}, .radius = 0.5}}},
    };
    hb_model *m;
    hb_error err;
    const char *runs = getenv("HILBERT_POISON_RUNS"); /* 300 take a minute */
    const int n = runs ? atoi(runs) : 20;

    (void)state;
    for (int ring = 0; ring <= 1; ring++) {
        m = cart(ring);
        for (int i = 0; i < 3; i++)
            check_runs(m, &costs[i], i == 1, n);
        hb_model_free(m);
    }
    assert_int_equal(hb_test_quadrotor(&m, 3, 8, &err), 0);
    for (int i = 0; i < 3; i++)
        check_runs(m, &costs[i], i == 1, n / 10);
    hb_model_free(m);
    static const char *const shipped[] = {"px4", "quadrotor"};
    for (size_t k = 0; k < sizeof shipped / sizeof *shipped; k++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/models/%s.safetensors", getenv("HILBERT_CONFIG_FOLDER"), shipped[k]);
        if (hb_model_load(&m, path, &err))
            fail_msg("%s", err.text);
        for (int i = 0; i < 3; i++)
            check_runs(m, &costs[i], i == 1, n / 10);
        hb_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cart_is_answered_as_before),
        cmocka_unit_test(test_a_quadrotor_is_answered_as_before),
        cmocka_unit_test(test_turns_do_not_add_up),
        cmocka_unit_test(test_any_run_of_poison_is_over_when_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
