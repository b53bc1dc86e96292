/* Plans: against the exact optimum of a linear system with quadratic costs, under clocks that the test turns, on any
 * number of threads, and with models that go wrong. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "models.h"
#include "base/numeric.h"
#include "plan/planner.h"
#include "plan/rollout.h"
#include "trap.h"
#include "test_models.h"
#include "usual_model.h"

enum { NX = 4, NU = 2, NH = 8 };

/* x' = A x + B u, two damped masses that push each other */
static const double rate_a[NX][NX] = {{0, 1, 0, 0}, {-2, -0.3, 1, 0}, {0, 0, 0, 1}, {1, 0, -1.5, -0.2}};
static const double rate_b[NX][NU] = {{0, 0}, {2, 0.5}, {0, 0}, {-0.3, 1.5}};
static const double target[NX] = {0.5, 0, -0.3, 0}, start[NX] = {1, 0, 0.2, -0.5};

/* the same as a model of one linear layer. `gain` stiffens it until floats overflow. */
static hb_model *linear_model(double bound, double gain)
{
    hb_model shape = {
        HB_USUAL_SHARED_MODEL,      .nx = NX,      .nu = NU,  .nb = 1,       .activation = HB_TANH,
        .average = HB_AVERAGE_HEAD, .ridge = 1e-3, .dt = 0.1, .ninputs = NX, .basis = {.nlayers = 1},
    };
    hb_model *m;
    hb_error err;

    if (hb_model_new(&m, &shape, NULL, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < NX; i++) {
        hb_real *row = m->parameter + (NX + i) * (NX + NU);
        for (int j = 0; j < NX; j++)
            row[j] = (hb_real)(gain * rate_a[i][j]);
        for (int j = 0; j < NU; j++)
            row[NX + j] = (hb_real)(gain * rate_b[i][j]);
    }
    for (int i = 0; i < NU; i++) {
        m->control_min[i] = -bound;
        m->control_max[i] = bound;
    }
    hb_model_seal(m);
    return m;
}

static const hb_cost quadratic_cost = {
    .nterms = 4,
    .term = {{.kind = HB_COST_SQUARED, .weight = 3, .terminal = 10, .nindices = 2, .index = {0, 2}},
             {.kind = HB_COST_VELOCITY, .weight = 0.2, .terminal = 1, .nindices = 2, .index = {1, 3}},
             {.kind = HB_COST_EFFORT, .weight = 0.05, .terminal = 1, .nindices = 2, .index = {0, 1}},
             {.kind = HB_COST_SLEW, .weight = 0.1, .terminal = 1, .nindices = 2, .index = {0, 1}}},
};

static const double nothing[NU] = {0};
static const hb_goal goal = {.target = target, .ntargets = 1, .last_control = nothing, .trim = nothing};

/* the same with actuators that lag, and are not where the last command would have them */
static const double lag[NU] = {0.15, 0}, actuator[NU] = {-0.8, 0.4};
static const hb_goal lagging = {
    .target = target, .ntargets = 1, .last_control = nothing, .trim = nothing, .lag = lag, .actuator_state = actuator};

/* the cost of a sequence, by simulation in double */
static double simulate(const hb_goal *g, const double *u)
{
    double x[NX], a[NU], effective[NU], dt = 0.1, total = 0;

    memcpy(x, start, sizeof x);
    memcpy(a, g->lag ? g->actuator_state : nothing, sizeof a);
    for (int k = 0; k <= NH; k++) {
        total += 3 * (pow(x[0] - target[0], 2) + pow(x[2] - target[2], 2)) * (k == NH ? 10 : 1) / (NH + 1);
        total += 0.2 * (x[1] * x[1] + x[3] * x[3]) / (NH + 1);
        if (k == NH)
            break;
        double s[4][NX], at[NX];
        for (int i = 0; i < NU; i++) {
            double before = k ? u[(k - 1) * NU + i] : 0;
            total += (0.05 * u[k * NU + i] * u[k * NU + i] + 0.1 * pow(u[k * NU + i] - before, 2)) / NH;
            effective[i] = u[k * NU + i];
            if (g->lag && g->lag[i] > 0) {
                double next = u[k * NU + i] + (a[i] - u[k * NU + i]) * exp(-dt / g->lag[i]);
                /* a' = (u - a) / lag: its mean is u less what it moved by in all, times lag over dt */
                effective[i] = u[k * NU + i] - (next - a[i]) * g->lag[i] / dt;
                a[i] = next;
            }
        }
        for (int stage = 0; stage < 4; stage++) {
            for (int i = 0; i < NX; i++)
                at[i] = x[i] + (stage ? (stage < 3 ? dt / 2 : dt) * s[stage - 1][i] : 0);
            for (int i = 0; i < NX; i++) {
                s[stage][i] = 0;
                for (int j = 0; j < NX; j++)
                    s[stage][i] += rate_a[i][j] * at[j];
                for (int j = 0; j < NU; j++)
                    s[stage][i] += rate_b[i][j] * effective[j];
            }
        }
        for (int i = 0; i < NX; i++)
            x[i] += dt / 6 * (s[0][i] + 2 * s[1][i] + 2 * s[2][i] + s[3][i]);
    }
    return total;
}

/* the least cost within bounds: coordinate by coordinate, exact for each, until nothing moves */
static double optimum(const hb_goal *g, double bound, double *u)
{
    memset(u, 0, NH * NU * sizeof *u);
    for (int sweep = 0; sweep < 5000; sweep++)
        for (int i = 0; i < NH * NU; i++) {
            double at = u[i], h = 0.5, middle = simulate(g, u);
            u[i] = at + h;
            double above = simulate(g, u);
            u[i] = at - h;
            double below = simulate(g, u);
            u[i] = fmin(fmax(at - h * (above - below) / 2 / (above - 2 * middle + below), -bound), bound);
        }
    return simulate(g, u);
}

typedef struct rig {
    hb_model *m;
    hb_pool *pool;
    hb_predictor *predictor;
    hb_planner *planner;
} rig;

static rig rig_new(hb_model *m, const hb_planner_settings *s, const hb_cost *c, int nthreads)
{
    rig r = {.m = m};
    hb_error err;

    if (hb_pool_new(&r.pool, nthreads, NULL, NULL, &err) || hb_predictor_new(&r.predictor, m, &err) ||
        hb_planner_new(&r.planner, m, s, c, r.pool, &err))
        fail_msg("%s", err.text);
    return r;
}

static void rig_free(rig *r)
{
    hb_planner_free(r->planner);
    hb_predictor_free(r->predictor);
    hb_pool_free(r->pool);
    hb_model_free(r->m);
}

static hb_planner_settings settings(hb_planner_method method)
{
    hb_planner_settings s = hb_planner_defaults;

    s.method = method;
    s.horizon = NH;
    s.seed = 11;
    return s;
}

static void test_second_order_finds_the_optimum(void **state)
{
    (void)state;
    static const double bounds[] = {50, 1.2};

    for (int i = 0; i < 4; i++) {
        const hb_goal *g = i / 2 ? &lagging : &goal;
        double u[NH * NU], bound = bounds[i % 2], least = optimum(g, bound, u);
        hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
        s.samples = 1;
        rig r = rig_new(linear_model(bound, 1), &s, &quadratic_cost, 1);
        const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, start, g, 0, NULL, 0);
        assert_true(plan->evaluated && plan->converged);
        assert_near(plan->cost, least, 1e-5 * least);
        assert_near(simulate(g, plan->action), least, 1e-5 * least);
        for (int j = 0; j < NH * NU; j++)
            assert_near(plan->action[j], u[j], 0.01);
        /* the problem is quadratic: one step gets there, one more sees that it has */
        assert_true(plan->iterations <= 3);
        rig_free(&r);
    }
}

/* with a limit in its way, a plan goes up to it, and says so where it is pulled beyond */
static void test_limits_hold_plans_back(void **state)
{
    (void)state;

    for (int method = 0; method < HB_PLANNER_NMETHODS; method++)
        for (int limited = 0; limited < 2; limited++) {
            hb_cost c = quadratic_cost;
            c.limits = (hb_limits){.n = limited, .weight = 1e4};
            c.limits.limit[0] = (hb_limit){
                .kind = HB_LIMIT_BOX, .name = "wall", .nindices = 1, .index = {0}, .low = {0.75}, .high = {10}};
            hb_planner_settings s = settings((hb_planner_method)method);
            rig r = rig_new(linear_model(3, 1), &s, &c, 2);
            const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, start, &goal, 0, NULL, 0);
            double least = 1;
            for (int k = 1; k <= NH; k++)
                least = fmin(least, hb_planner_states(r.planner)[k * NX]);
            if (limited)
                assert_near(least, 0.75, 0.005);
            else
                assert_true(least < 0.7);
            if (plan->limit)
                assert_string_equal(plan->limit, "wall");
            assert_int_equal(plan->limit != NULL, limited && least < 0.75 - 1e-3);

            /* from behind the wall there is no way around telling */
            plan = hb_planner_plan(r.planner, r.predictor, (double[NX]){0}, &goal, 1, NULL, 0);
            assert_int_equal(plan->limit != NULL, limited);
            rig_free(&r);
        }
}

/* steps of another length: the warm start means the same in time */
static void test_steps_follow_the_goal(void **state)
{
    (void)state;
    hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
    rig r = rig_new(linear_model(3, 1), &s, &quadratic_cost, 1);
    hb_goal twice = goal;
    double before[NH * NU];

    assert_near(hb_planner_step(r.planner), 0.1, 0);
    hb_planner_plan(r.planner, r.predictor, start, &goal, 0, NULL, 0);
    memcpy(before, hb_planner_current(r.planner), sizeof before);
    twice.step = 0.2;
    s.iterations = 0;
    assert_int_equal(hb_planner_retune(r.planner, &s, &quadratic_cost, NULL), 0);
    const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, start, &twice, 1, NULL, 0);
    assert_near(hb_planner_step(r.planner), 0.2, 0);
    for (int k = 0; k < NH; k++)
        for (int i = 0; i < NU; i++)
            assert_near(plan->action[k * NU + i], before[(2 * k + 1 < NH ? 2 * k + 1 : NH - 1) * NU + i], 1e-6);
    hb_planner_reset(r.planner);
    assert_near(hb_planner_step(r.planner), 0.1, 0);
    rig_free(&r);
}

static void test_every_method_comes_close_to_the_optimum(void **state)
{
    (void)state;
    static const double within[HB_PLANNER_NMETHODS] = {
        [HB_PLANNER_GRADIENT] = 0.02,
        [HB_PLANNER_MPPI] = 0.1,
        [HB_PLANNER_GAUSS_NEWTON] = 1e-4,
    };
    double u[NH * NU], least = optimum(&goal, 3, u), idle = simulate(&goal, (double[NH * NU]){0});

    assert_true(idle > 1.5 * least);
    for (int method = 0; method < HB_PLANNER_NMETHODS; method++) {
        hb_planner_settings s = settings((hb_planner_method)method);
        s.iterations = 200;
        rig r = rig_new(linear_model(3, 1), &s, &quadratic_cost, 2);
        const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, start, &goal, 0, NULL, 0);
        if (!(plan->cost <= least * (1 + within[method])))
            fail_msg("%s: %g, the optimum is %g", hb_planner_method_name[method], plan->cost, least);
        assert_near(simulate(&goal, plan->action), plan->cost, 1e-5);
        assert_true(plan->cost > least * (1 - 1e-5));
        assert_int_equal(plan->dropped, 0);
        rig_free(&r);
    }
}

static void test_cost_and_states_are_those_of_the_actions(void **state)
{
    (void)state;
    hb_real *u = new_rows(NH * NU), *cost = new_rows(1);

    for (int method = 0; method < HB_PLANNER_NMETHODS; method++) {
        hb_planner_settings s = settings((hb_planner_method)method);
        s.iterations = 3;
        s.learning_rate = 0.2;
        rig r = rig_new(linear_model(2, 1), &s, &quadratic_cost, 2);
        hb_rollout *rollout;
        assert_int_equal(hb_rollout_new(&rollout, r.m, NH, NULL), 0);
        for (uint64_t tick = 0; tick < 3; tick++) {
            const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, start, &goal, tick, NULL, 0);
            for (int i = 0; i < NH * NU; i++)
                u[i * HB_STRIDE] = (hb_real)plan->action[i];
            const hb_plan_problem of = {
                .model = r.predictor, .cost = &quadratic_cost, .goal = &goal, .x0 = start, .nh = NH, .dt = r.m->dt};
            assert_true(hb_rollout_cost(rollout, &of, 1, u, false, cost, NULL));
            assert_near(cost[0], plan->cost, 1e-5 * plan->cost);
            assert_near(simulate(&goal, plan->action), plan->cost, 1e-5 * plan->cost);
            for (int i = 0; i < (NH + 1) * NX; i++)
                assert_near(hb_planner_states(r.planner)[i], hb_rollout_states(rollout)[i * HB_STRIDE], 1e-5);
            assert_memory_equal(plan->action, hb_planner_current(r.planner), NH * NU * sizeof(double));
        }
        hb_rollout_free(rollout);
        rig_free(&r);
    }
    free(u);
    free(cost);
}

static void test_warm_start_shifts(void **state)
{
    (void)state;
    hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
    rig r = rig_new(linear_model(2, 1), &s, &quadratic_cost, 1);
    double before[NH * NU];

    const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, start, &goal, 0, NULL, 0);
    memcpy(before, plan->action, sizeof before);
    hb_planner_shift(r.planner, 1.5);
    for (int k = 0; k < NH; k++)
        for (int i = 0; i < NU; i++) {
            int a = k + 1 < NH ? k + 1 : NH - 1, b = k + 2 < NH ? k + 2 : NH - 1;
            assert_near(hb_planner_current(r.planner)[k * NU + i], (before[a * NU + i] + before[b * NU + i]) / 2, 1e-6);
        }
    hb_planner_reset(r.planner);
    for (int i = 0; i < NH * NU; i++)
        assert_near(hb_planner_current(r.planner)[i], 0, 0);

    /* a good warm start is kept when there is no time to improve it: no iteration is allowed here */
    s.iterations = 0;
    for (int method = 0; method < HB_PLANNER_NMETHODS; method++) {
        s.method = (hb_planner_method)method;
        hb_planner_reset(r.planner);
        hb_planner_settings full = settings(HB_PLANNER_GAUSS_NEWTON);
        assert_int_equal(hb_planner_retune(r.planner, &full, &quadratic_cost, NULL), 0);
        double cost = hb_planner_plan(r.planner, r.predictor, start, &goal, 1, NULL, 0)->cost;
        assert_int_equal(hb_planner_retune(r.planner, &s, &quadratic_cost, NULL), 0);
        assert_near(hb_planner_plan(r.planner, r.predictor, start, &goal, 2, NULL, 0)->cost, cost, 1e-6);
    }
    rig_free(&r);
}

static void test_bytes_are_the_same_on_any_number_of_threads(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 3, 7};
    static const int samples[] = {5, 100, 230};

    for (int method = 0; method < HB_PLANNER_NMETHODS; method++)
        for (int ns = 0; ns < 3; ns++) {
            double action[4][3][NH * NU], states[4][3][(NH + 1) * NX], cost[4][3];
            uint64_t pieces[4][3];
            for (int t = 0; t < 4; t++) {
                hb_planner_settings s = settings((hb_planner_method)method);
                s.samples = samples[ns];
                s.iterations = 11;
                rig r = rig_new(linear_model(2, 1), &s, &quadratic_cost, threads[t]);
                for (uint64_t tick = 0; tick < 3; tick++) {
                    hb_planner_shift(r.planner, tick == 1 ? 1 : 0.3);
                    const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, start, &goal, tick, NULL, 0);
                    memcpy(action[t][tick], plan->action, sizeof action[t][tick]);
                    memcpy(states[t][tick], hb_planner_states(r.planner), sizeof states[t][tick]);
                    cost[t][tick] = plan->cost;
                    pieces[t][tick] = plan->pieces;
                }
                rig_free(&r);
            }
            for (int t = 1; t < 4; t++) {
                assert_memory_equal(action[t], action[0], sizeof action[0]);
                assert_memory_equal(states[t], states[0], sizeof states[0]);
                assert_memory_equal(cost[t], cost[0], sizeof cost[0]);
                assert_true(pieces[t][0] >= pieces[0][0]);
            }
        }
}

static void test_seed_and_tick_change_the_draws(void **state)
{
    (void)state;
    double cost[3];

    for (int i = 0; i < 3; i++) {
        hb_planner_settings s = settings(HB_PLANNER_MPPI);
        s.iterations = 3;
        s.seed = i == 1;
        rig r = rig_new(linear_model(2, 1), &s, &quadratic_cost, 1);
        cost[i] = hb_planner_plan(r.planner, r.predictor, start, &goal, i == 2, NULL, 0)->cost;
        rig_free(&r);
    }
    assert_true(cost[0] != cost[1] && cost[0] != cost[2] && cost[1] != cost[2]);
}

/* a clock that goes on by one second whenever it is looked at */
static double tick_on(void *context)
{
    return (double)atomic_fetch_add((atomic_long *)context, 1);
}

static void check_plan(const rig *r, const hb_plan *plan, int nh)
{
    for (int i = 0; i < nh * r->m->nu; i++) {
        assert_true(isfinite(plan->action[i]));
        assert_true(plan->action[i] >= r->m->control_min[i % r->m->nu]);
        assert_true(plan->action[i] <= r->m->control_max[i % r->m->nu]);
    }
    assert_int_equal(plan->evaluated, isfinite(plan->cost) != 0);
}

static void test_can_be_stopped_before_any_piece(void **state)
{
    (void)state;

    for (int method = 0; method < HB_PLANNER_NMETHODS; method++) {
        double last_cost = INFINITY;
        bool arrived = false;
        for (int seconds = 0; seconds < 250; seconds++) {
            hb_planner_settings s = settings((hb_planner_method)method);
            s.samples = 40;
            s.iterations = 6;
            rig r = rig_new(linear_model(2, 1), &s, &quadratic_cost, 1);
            atomic_long time = 1000;
            hb_clock clock = {.now = tick_on, .context = &time};
            const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, start, &goal, 0, &clock, 1000 + seconds);
            check_plan(&r, plan, NH);
            /* no piece begins at or after the deadline; looking at the clock takes its time too, here */
            assert_true(time <= 1000 + seconds + 3);
            assert_true((int)plan->pieces <= seconds);
            assert_false(plan->evaluated && seconds < NH);
            assert_true(plan->evaluated || seconds < 2 * NH);
            assert_true(!(plan->cost > last_cost));
            last_cost = plan->cost;
            arrived = arrived || plan->converged;
            if (plan->converged)
                assert_true(plan->iterations >= 1);
            rig_free(&r);
        }
        assert_true(arrived);
    }
}

static void test_late_requests_get_the_plan_in_hand(void **state)
{
    (void)state;
    hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
    rig r = rig_new(linear_model(2, 1), &s, &quadratic_cost, 2);
    double shifted[NH * NU];
    atomic_long time = 1000;
    hb_clock clock = {.now = tick_on, .context = &time};

    const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, start, &goal, 0, &clock, 500);
    assert_false(plan->evaluated);
    assert_false(plan->converged);
    for (int i = 0; i < NH * NU; i++)
        assert_near(plan->action[i], 0, 0);

    assert_true(hb_planner_plan(r.planner, r.predictor, start, &goal, 0, NULL, 0)->evaluated);
    hb_planner_shift(r.planner, 1);
    memcpy(shifted, hb_planner_current(r.planner), sizeof shifted);
    plan = hb_planner_plan(r.planner, r.predictor, start, &goal, 1, &clock, 500);
    assert_false(plan->evaluated);
    assert_memory_equal(plan->action, shifted, sizeof shifted);
    rig_free(&r);
}

/* so stiff that anything but trim overflows */
static void test_candidates_that_are_not_finite_are_dropped(void **state)
{
    (void)state;
    static const double rest[NX] = {0};
    const hb_goal to_rest = {.target = rest, .ntargets = 1, .last_control = nothing, .trim = nothing};

    for (int method = 0; method < HB_PLANNER_NMETHODS; method++) {
        hb_planner_settings s = settings((hb_planner_method)method);
        s.iterations = 10;
        rig r = rig_new(linear_model(2, 1e4), &s, &quadratic_cost, 2);
        for (uint64_t tick = 0; tick < 3; tick++) {
            const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, rest, &to_rest, tick, NULL, 0);
            check_plan(&r, plan, NH);
            assert_true(plan->evaluated);
            /* from the second on, what the first has dropped may be gone from the samples */
            assert_true(plan->dropped > 10 || tick > 0);
            assert_true(plan->cost < 1e-6);
        }
        /* and a start that is no number leaves nothing to evaluate */
        double nowhere[NX] = {0, NAN, 0, 0};
        const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, nowhere, &to_rest, 9, NULL, 0);
        check_plan(&r, plan, NH);
        assert_false(plan->evaluated);
        assert_false(plan->converged);
        rig_free(&r);
    }
}

/* A model whose every rollout explodes has no converged plan: neither when all numbers are too large to be compared,
 * nor when they are only far beyond what the model was trained on. */
static void test_plans_that_explode_are_not_converged(void **state)
{
    (void)state;
    static const struct {
        double gain;
        bool finite;
    } stiff[] = {{1e4, false}, {25, true}};

    for (int method = 0; method < HB_PLANNER_NMETHODS; method++)
        for (int i = 0; i < 2; i++) {
            hb_planner_settings s = settings((hb_planner_method)method);
            hb_cost c = quadratic_cost;
            c.limits = hb_limits_defaults;
            rig r = rig_new(linear_model(0.01, stiff[i].gain), &s, &c, 2);
            for (uint64_t tick = 0; tick < 4; tick++) {
                const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, start, &goal, tick, NULL, 0);
                check_plan(&r, plan, NH);
                assert_false(plan->converged);
                assert_int_equal(plan->evaluated, stiff[i].finite);
                if (stiff[i].finite)
                    assert_string_equal(plan->limit, "trained range");
                hb_planner_prepare(r.planner, r.predictor, 0.1, NULL, 0, NULL, UINT64_MAX);
                hb_planner_shift(r.planner, 1);
                plan = hb_planner_feedback(r.planner, r.predictor, start, &goal, tick, NULL, 0);
                assert_false(plan->converged);
            }
            rig_free(&r);
        }
}

static void test_directions_are_kept_to(void **state)
{
    (void)state;

    for (int method = 0; method < HB_PLANNER_NMETHODS; method++) {
        hb_planner_settings s = settings((hb_planner_method)method);
        s.ndirections = 1;
        s.direction[0] = 1;
        s.direction[1] = -2;
        s.iterations = 30;
        rig r = rig_new(linear_model(0.8, 1), &s, &quadratic_cost, 2);
        const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, start, &goal, 0, NULL, 0);
        double largest = 0;
        check_plan(&r, plan, NH);
        for (int k = 0; k < NH; k++) {
            assert_near(plan->action[k * NU + 1], -2 * plan->action[k * NU], 1e-6);
            largest = fmax(largest, fabs(plan->action[k * NU + 1]));
        }
        assert_true(largest > 0.7);
        rig_free(&r);
    }
}

static void test_nothing_is_allocated_once_made(void **state)
{
    (void)state;

    for (int method = 0; method < HB_PLANNER_NMETHODS; method++) {
        hb_planner_settings s = settings((hb_planner_method)method);
        s.iterations = 3;
        s.samples = 20;
        rig r = rig_new(linear_model(2, 1), &s, &quadratic_cost, 2);
        long before = trap_allocations();
        assert_true(before > 0);
        hb_planner_plan(r.planner, r.predictor, start, &goal, 9, NULL, 0);
        hb_planner_prepare(r.planner, r.predictor, 0.1, NULL, 0, NULL, UINT64_MAX);
        hb_planner_shift(r.planner, 1);
        assert_true(hb_planner_feedback(r.planner, r.predictor, start, &goal, 10, NULL, 0)->corrected);
        for (uint64_t tick = 0; tick < 300; tick++) {
            hb_planner_shift(r.planner, 1);
            assert_true(hb_planner_plan(r.planner, r.predictor, start, &goal, tick, NULL, 0)->evaluated);
        }
        assert_int_equal(hb_planner_retune(r.planner, &s, &quadratic_cost, NULL), 0);
        assert_int_equal(trap_allocations(), before);
        rig_free(&r);
    }
}

/* what a loop of requests answers when each is prepared for by so many stages */
typedef struct answers {
    double action[6][NH * NU], cost[6];
    uint64_t stages[6];
    bool corrected[6];
} answers;

static const double next_start[NX] = {0.95, -0.6, 0.17, -0.4}, other_target[NX] = {-0.4, 0, 0.5, 0};

static void answer(hb_planner_method method, int nthreads, uint64_t most, answers *a)
{
    hb_planner_settings s = settings(method);
    s.samples = 40;
    s.iterations = 4;
    rig r = rig_new(linear_model(2, 1), &s, &quadratic_cost, nthreads);
    for (int i = 0; i < 6; i++) {
        hb_goal to = goal;
        to.target = i == 3 ? other_target : target;
        if (i > 0)
            hb_planner_shift(r.planner, i == 4 ? 0.35 : 0.5);
        const hb_plan *plan =
            hb_planner_feedback(r.planner, r.predictor, i % 2 ? next_start : start, &to, (uint64_t)i, NULL, 0);
        assert_true(plan->evaluated);
        memcpy(a->action[i], plan->action, sizeof a->action[i]);
        a->cost[i] = plan->cost;
        a->stages[i] = plan->prepared;
        a->corrected[i] = plan->corrected;
        hb_planner_prepare(r.planner, r.predictor, 0.05, NULL, 0, NULL, most);
    }
    rig_free(&r);
}

static void test_same_stages_same_bytes(void **state)
{
    (void)state;

    for (int method = 0; method < HB_PLANNER_NMETHODS; method++)
        for (uint64_t most = 0; most < 12; most++) {
            answers a, b;
            memset(&a, 0, sizeof a);
            memset(&b, 0, sizeof b);
            answer((hb_planner_method)method, 1, most, &a);
            answer((hb_planner_method)method, 3, most, &b);
            assert_memory_equal(&a, &b, sizeof a);
            assert_false(a.corrected[0]);
            for (int i = 1; i < 6; i++) {
                assert_true(a.stages[i] <= most);
                if (most >= 10)
                    assert_true(a.corrected[i]);
            }
        }
}

/* looks that a preparation takes at its interrupt before it stands */
typedef struct patience {
    atomic_bool enough;
    int looks;
} patience;

static double lose_patience(void *context)
{
    patience *p = context;

    if (--p->looks <= 0)
        atomic_store(&p->enough, true);
    return 0;
}

/* wherever it was interrupted: the answer is that of a preparation that ended after as many stages */
static void test_interruptions_leave_no_trace(void **state)
{
    (void)state;

    for (int method = 0; method < HB_PLANNER_NMETHODS; method++) {
        uint64_t most_seen = 0;
        for (int looks = 1; looks < 300; looks += 3) {
            hb_planner_settings s = settings((hb_planner_method)method);
            double action[2][NH * NU];
            uint64_t stages = UINT64_MAX;
            s.samples = 40;
            s.iterations = 7;
            for (int again = 0; again < 2; again++) {
                patience p = {.looks = looks};
                const hb_clock clock = {.now = lose_patience, .context = &p};
                rig r = rig_new(linear_model(2, 1), &s, &quadratic_cost, 1);
                hb_planner_plan(r.planner, r.predictor, start, &goal, 0, NULL, 0);
                if (!again)
                    hb_planner_prepare(r.planner, r.predictor, 0.1, &clock, 1, &p.enough, UINT64_MAX);
                else
                    hb_planner_prepare(r.planner, r.predictor, 0.1, NULL, 0, NULL, stages);
                hb_planner_shift(r.planner, 1);
                const hb_plan *plan = hb_planner_feedback(r.planner, r.predictor, next_start, &goal, 1, NULL, 0);
                memcpy(action[again], plan->action, sizeof action[again]);
                stages = plan->prepared;
                /* and the one after: whatever the population holds */
                hb_planner_prepare(r.planner, r.predictor, 0.1, NULL, 0, NULL, 4);
                hb_planner_shift(r.planner, 1);
                plan = hb_planner_feedback(r.planner, r.predictor, start, &goal, 2, NULL, 0);
                for (int i = 0; i < NH * NU; i++)
                    action[again][i] += 10 * plan->action[i];
                rig_free(&r);
            }
            assert_memory_equal(action[0], action[1], sizeof action[0]);
            most_seen = stages > most_seen ? stages : most_seen;
        }
        assert_true(most_seen >= 3);
    }
}

/* a quadratic cost, a linear system: one correction is exact, from any state and for any target */
static void test_one_correction_finds_the_optimum(void **state)
{
    (void)state;
    static const double bounds[] = {50, 1.2};

    for (int b = 0; b < 2; b++) {
        hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
        rig r = rig_new(linear_model(bounds[b], 1), &s, &quadratic_cost, 1);
        double best[NH * NU];
        hb_goal elsewhere = goal;
        elsewhere.target = other_target;
        hb_planner_plan(r.planner, r.predictor, next_start, &elsewhere, 0, NULL, 0);
        hb_planner_prepare(r.planner, r.predictor, 0.1, NULL, 0, NULL, UINT64_MAX);
        assert_true(hb_planner_prepared(r.planner));
        hb_planner_shift(r.planner, 1);
        const hb_plan *plan = hb_planner_feedback(r.planner, r.predictor, start, &goal, 1, NULL, 0);
        const double least = optimum(&goal, bounds[b], best);
        assert_true(plan->corrected);
        assert_true(plan->converged);
        assert_true(plan->iterations <= 2);
        assert_near(simulate(&goal, plan->action), least, 2e-4 * least);
        rig_free(&r);
    }
}

/* An answer by the model alone is verified by the preparation behind it; when the vehicle is another by then, that is
 * counted, and the answer after it is verified before it is given. */
static void test_answers_are_verified_behind_the_reply(void **state)
{
    (void)state;

    for (int other = 0; other < 2; other++) {
        hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
        rig r = rig_new(linear_model(50, 1), &s, &quadratic_cost, 1),
            heavier = rig_new(linear_model(50, 0.5), &s, &quadratic_cost, 1);
        double last[NU] = {0};
        hb_goal slewing = goal; /* the last control counts in what is verified, too */
        slewing.last_control = last;

        assert_true(hb_planner_plan(r.planner, r.predictor, next_start, &slewing, 0, NULL, 0)->verified);
        hb_planner_prepare(r.planner, r.predictor, 0.1, NULL, 0, NULL, UINT64_MAX);
        hb_planner_shift(r.planner, 1);
        const hb_plan *plan = hb_planner_feedback(r.planner, r.predictor, start, &slewing, 1, NULL, 0);
        assert_true(plan->corrected && !plan->verified);
        assert_near(plan->cost, simulate(&slewing, plan->action), 1e-3 * plan->cost);
        last[0] = 1e3; /* the caller's: gone by now */
        hb_planner_prepare(r.planner, other ? heavier.predictor : r.predictor, 0.1, NULL, 0, NULL, UINT64_MAX);
        assert_int_equal(hb_planner_disagreed(r.planner), other);
        last[0] = 0;
        hb_planner_shift(r.planner, 1);
        plan = hb_planner_feedback(r.planner, r.predictor, start, &slewing, 2, NULL, 0);
        assert_int_equal(plan->verified, other);
        hb_planner_prepare(r.planner, r.predictor, 0.1, NULL, 0, NULL, UINT64_MAX);
        assert_int_equal(hb_planner_disagreed(r.planner), other);
        rig_free(&r);
        rig_free(&heavier);
    }
}

/* A target that nears and leaves: a distance of a millimetre has a thousand times the curvature of one of a metre. What
 * the model alone answers is about as good as a plan from nothing all the same, or it is no answer. (The parabola that
 * stands for a distance hopes for half of what there is to gain: answers with trials come as near, and no nearer.) */
static void test_answers_by_the_model_follow_what_moves(void **state)
{
    (void)state;
    static const hb_cost distance_cost = {
        .nterms = 2,
        .term = {{.kind = HB_COST_DISTANCE, .weight = 3, .terminal = 10, .nindices = 2, .index = {0, 2}},
                 {.kind = HB_COST_EFFORT, .weight = 0.05, .terminal = 1, .nindices = 2, .index = {0, 1}}}};
    enum { REQUESTS = 60 };
    hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
    rig r = rig_new(linear_model(50, 1), &s, &distance_cost, 1),
        fresh = rig_new(linear_model(50, 1), &s, &distance_cost, 1);
    double x[NX] = {0.5, 0, -0.3, 0}, away[NX] = {0};
    const hb_goal to = {.target = away, .ntargets = 1, .last_control = nothing, .trim = nothing};
    int predicted = 0;

    for (int k = 0; k < REQUESTS; k++) {
        /* from on the state to half a metre off it, and back */
        const double off = 0.25 * (1 - cos(k * 0.3));
        away[0] = x[0] + off;
        away[2] = x[2] - 0.5 * off;
        const hb_plan *plan = hb_planner_feedback(r.planner, r.predictor, x, &to, (uint64_t)k, NULL, 0);
        hb_planner_reset(fresh.planner);
        const double least = hb_planner_plan(fresh.planner, fresh.predictor, x, &to, (uint64_t)k, NULL, 0)->cost;
        if (!plan->verified) {
            predicted++;
            assert_true(plan->cost <= 1.1 * least + 1e-3);
        }
        memcpy(x, hb_planner_states(r.planner) + NX, sizeof x);
        hb_planner_prepare(r.planner, r.predictor, 0.1, NULL, 0, NULL, UINT64_MAX);
        hb_planner_shift(r.planner, 1);
    }
    assert_true(predicted > REQUESTS / 2);
    rig_free(&r);
    rig_free(&fresh);
}

/* A plan that turns a quadrotor over is a minimum of its own, and is found again from where it led to. It is left for
 * the better one by the next request. */
static void test_a_poor_minimum_is_left(void **state)
{
    enum { STATES = 13, CONTROLS = 4, STEPS = 10 };
    /* too high, and rising: turning over would stop it, too */
    static const double rising[STATES] = {-0.21,  0.74,   0.26,  -0.55, 1.36, 1.23, -0.025,
                                          -0.049, -0.243, 0.968, 0,     0,    -0.5};
    static const double upright[STATES] = {[4] = 1, [9] = 1},
                        over[STATES] = {[4] = 1, [6] = -0.285, [7] = -0.945, [8] = -0.048, [9] = 0.155};
    static const hb_cost turning = {
        .nterms = 2,
        .term = {{.kind = HB_COST_ATTITUDE, .weight = 5, .terminal = 20, .nindices = 4, .index = {6, 7, 8, 9}},
                 {.kind = HB_COST_SLEW, .weight = 200, .nindices = 4, .index = {0, 1, 2, 3}}}};
    static const hb_cost shipped = {
        .nterms = 5,
        .term = {{.kind = HB_COST_DISTANCE, .weight = 3, .terminal = 10, .nindices = 3, .index = {0, 2, 4}},
                 {.kind = HB_COST_TILT, .weight = 5, .terminal = 10, .nindices = 4, .index = {6, 7, 8, 9}},
                 {.kind = HB_COST_SQUARED, .weight = 1, .terminal = 10, .nindices = 3, .index = {1, 3, 5}},
                 {.kind = HB_COST_VELOCITY, .weight = 0.05, .terminal = 10, .nindices = 3, .index = {10, 11, 12}},
                 {.kind = HB_COST_SLEW, .weight = 200, .nindices = 4, .index = {0, 1, 2, 3}}}};
    hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
    char path[4096];
    hb_model *m[3];
    hb_error err;
    (void)state;

    s.horizon = STEPS;
    snprintf(path, sizeof path, "%s/models/quadrotor.safetensors", getenv("HILBERT_CONFIG_FOLDER"));
    for (int i = 0; i < 3; i++)
        if (hb_model_load(&m[i], path, &err))
            fail_msg("%s", err.text);
    hb_goal g = {.target = over, .ntargets = 1, .last_control = m[0]->control_trim, .trim = m[0]->control_trim};
    rig turned = rig_new(m[0], &s, &turning, 1), taken = rig_new(m[1], &s, &shipped, 1),
        fresh = rig_new(m[2], &s, &shipped, 1);
    hb_predictor_set(turned.predictor, NULL);
    hb_predictor_set(taken.predictor, NULL);
    hb_predictor_set(fresh.predictor, NULL);
    hb_planner_plan(turned.planner, turned.predictor, rising, &g, 0, NULL, 0);
    const double *end = hb_planner_states(turned.planner) + STEPS * STATES;
    assert_true(1 - 2 * (end[6] * end[6] + end[7] * end[7]) < 0); /* upside down */

    g.target = upright;
    const double better = hb_planner_plan(fresh.planner, fresh.predictor, rising, &g, 0, NULL, 0)->cost;
    hb_planner_take_over(taken.planner, turned.planner);
    double cost = INFINITY;
    for (int request = 0; request < 2; request++) {
        hb_planner_prepare(taken.planner, taken.predictor, m[1]->dt, NULL, 0, NULL, UINT64_MAX);
        hb_planner_shift(taken.planner, 1);
        cost = hb_planner_feedback(taken.planner, taken.predictor, rising, &g, 1, NULL, 0)->cost;
    }
    assert_near(cost, better, 0.01 * better);

    /* not prepared: at once, when a better start is given */
    for (int given = 0; given < 2; given++) {
        hb_planner_take_over(taken.planner, turned.planner);
        g.start = given ? hb_planner_current(fresh.planner) : NULL;
        g.nstart = STEPS;
        const hb_plan *plan = hb_planner_plan(taken.planner, taken.predictor, rising, &g, 1, NULL, 0);
        if (given)
            assert_near(plan->cost, better, 0.01 * better);
        else
            assert_true(plan->cost > 1.5 * better);
    }
    rig_free(&turned);
    rig_free(&taken);
    rig_free(&fresh);
}

/* too late, reset, retuned, or never prepared: planned in full */
static void test_what_does_not_fit_is_planned_in_full(void **state)
{
    (void)state;

    for (int why = 0; why < 5; why++) {
        hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
        rig r = rig_new(linear_model(2, 1), &s, &quadratic_cost, 1);
        hb_planner_plan(r.planner, r.predictor, start, &goal, 0, NULL, 0);
        if (why > 0)
            assert_true(hb_planner_prepare(r.planner, r.predictor, 0.1, NULL, 0, NULL, UINT64_MAX) > 0);
        if (why == 1)
            hb_planner_reset(r.planner);
        if (why == 2)
            assert_int_equal(hb_planner_retune(r.planner, &s, &quadratic_cost, NULL), 0);
        hb_planner_shift(r.planner, why == 3 ? 3 : 1);
        const hb_plan *plan = hb_planner_feedback(r.planner, r.predictor, start, &goal, 1, NULL, 0);
        assert_true(plan->evaluated);
        assert_int_equal(plan->corrected, why == 4);
        rig_free(&r);
    }
}

/* The other lane is left to what comes behind the reply but for a few samples, unless that is never done, or there is
 * no plan yet. */
static void test_few_samples_go_before_the_reply(void **state)
{
    (void)state;
    enum { BLOCKS = 8, PLANS = 4 };
    uint64_t pieces[2][PLANS];

    for (int prepares = 0; prepares < 2; prepares++) {
        hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
        s.samples = BLOCKS * HB_STRIDE;
        s.prepare = prepares;
        rig r = rig_new(linear_model(2, 1), &s, &quadratic_cost, 1);
        for (uint64_t k = 0; k < PLANS; k++)
            pieces[prepares][k] = hb_planner_plan(r.planner, r.predictor, start, &goal, k, NULL, 0)->pieces;
        rig_free(&r);
    }
    assert_int_equal(pieces[0][0], pieces[1][0]);
    /* a block of samples takes a piece for each step */
    for (int k = 1; k < PLANS; k++)
        assert_true(pieces[1][k] + BLOCKS / 2 * NH < pieces[0][k] && pieces[1][k] > NH);
}

/* Slopes of the cart vanish at rest, where the positive and the negative part of each input meet: a guess from there
 * that no step improves is not taken for the best. */
static void test_a_kink_is_left_at_once(void **state)
{
    static const double rest[2] = {0}, there[2] = {1, 0}, back[2] = {-1, 0};
    static const hb_cost cost = {
        .nterms = 2,
        .term = {{.kind = HB_COST_SQUARED, .weight = 5, .terminal = 5, .nindices = 1, .index = {0}},
                 {.kind = HB_COST_EFFORT, .weight = 0.05, .nindices = 1, .index = {0}}}};
    hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
    hb_goal g = {.target = back, .ntargets = 1, .last_control = rest, .trim = rest};
    hb_model *m[2];
    hb_error err;
    (void)state;

    for (int i = 0; i < 2; i++)
        if (hb_test_cart(&m[i], &err))
            fail_msg("%s", err.text);
    rig r = rig_new(m[0], &s, &cost, 1), fresh = rig_new(m[1], &s, &cost, 1);
    hb_predictor_set(r.predictor, NULL);
    hb_predictor_set(fresh.predictor, NULL);
    const double best = hb_planner_plan(fresh.planner, fresh.predictor, rest, &g, 0, NULL, 0)->cost;
    g.target = there;
    hb_planner_plan(r.planner, r.predictor, rest, &g, 0, NULL, 0);
    g.target = back;
    g.start = rest;
    g.nstart = 1;
    assert_near(hb_planner_plan(r.planner, r.predictor, rest, &g, 1, NULL, 0)->cost, best, 1e-4 * best);
    rig_free(&r);
    rig_free(&fresh);
}

static double no_time(void *context)
{
    (void)context;
    return 1;
}

/* a request with no time for anything: the plan in hand is followed, and the next request is prepared for from there */
static void test_a_plan_that_ran_out_of_time_is_prepared_from(void **state)
{
    (void)state;

    for (int prepared = 0; prepared < 2; prepared++) {
        hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
        rig r = rig_new(linear_model(2, 1), &s, &quadratic_cost, 1);
        const hb_clock clock = {.now = no_time};
        hb_planner_plan(r.planner, r.predictor, start, &goal, 0, NULL, 0);
        if (prepared)
            hb_planner_prepare(r.planner, r.predictor, 0.1, NULL, 0, NULL, UINT64_MAX);
        hb_planner_shift(r.planner, 1);
        assert_false(hb_planner_feedback(r.planner, r.predictor, next_start, &goal, 1, &clock, 0)->evaluated);
        assert_true(hb_planner_prepare(r.planner, r.predictor, 0.1, NULL, 0, NULL, UINT64_MAX) > 3);
        hb_planner_shift(r.planner, 1);
        const hb_plan *plan = hb_planner_feedback(r.planner, r.predictor, start, &goal, 2, NULL, 0);
        double best[NH * NU], least = optimum(&goal, 2, best);
        assert_true(plan->corrected && plan->converged);
        assert_near(simulate(&goal, plan->action), least, 2e-4 * least);
        rig_free(&r);
    }
}

/* any settings, any model with controls: what comes back can be flown */
static void test_random_settings_give_valid_plans(void **state)
{
    (void)state;

    for (int trial = 0; trial < 60; trial++) {
        const hb_random_key key = {.seed = 31, .stream = (uint64_t)trial};
        hb_model *m = variant_model(trial % nvariants);
        if (m->nu == 0) {
            hb_model_free(m);
            continue;
        }
        for (int i = 0; i < m->nu; i++) {
            m->control_trim[i] = m->control_mean[i];
            m->control_min[i] = m->control_mean[i] - m->control_std[i] * (0.2 + hb_random_uniform(key, 90));
            m->control_max[i] = m->control_mean[i] + m->control_std[i] * (0.2 + hb_random_uniform(key, 91));
        }
        hb_planner_settings s = hb_planner_defaults;
        s.method = (hb_planner_method)(hb_random_bits(key, 0) % HB_PLANNER_NMETHODS);
        s.samples = 1 + (int)(hb_random_bits(key, 1) % 150);
        s.horizon = 1 + (int)(hb_random_bits(key, 2) % 12);
        s.iterations = (int)(hb_random_bits(key, 3) % 8);
        s.noise = hb_random_uniform(key, 4);
        s.noise_correlation = hb_random_uniform(key, 5);
        s.temperature = hb_random_uniform(key, 7);
        s.learning_rate = hb_random_uniform(key, 8);
        s.ndirections = (int)(hb_random_bits(key, 10) % (uint64_t)(m->nu + 1));
        for (int i = 0; i < s.ndirections * m->nu; i++)
            s.direction[i] = hb_random_normal(key, (uint64_t)(200 + i));
        const hb_cost c = {
            .nterms = 3,
            .term =
                {{.kind = HB_COST_DISTANCE, .weight = 1, .terminal = 5, .nindices = 2, .index = {0, 1}},
                 {.kind = HB_COST_BOUND, .weight = 1, .terminal = 1, .nindices = 1, .index = {1}, .min = -1, .max = 1},
                 {.kind = HB_COST_SLEW, .weight = 1, .terminal = 1, .nindices = 1, .index = {0}}},
        };
        rig r = rig_new(m, &s, &c, 1 + trial % 3);
        double x[16], to[16];
        for (int i = 0; i < m->nx; i++) {
            x[i] = m->state_mean[i] + 0.3 * m->state_std[i] * hb_random_normal(key, (uint64_t)(300 + i));
            to[i] = m->state_mean[i];
        }
        const hb_goal g = {.target = to, .ntargets = 1, .last_control = m->control_trim, .trim = m->control_trim};
        double first_cost = 0;
        for (uint64_t tick = 0; tick < 2; tick++) {
            const hb_plan *plan = hb_planner_plan(r.planner, r.predictor, x, &g, tick, NULL, 0);
            check_plan(&r, plan, s.horizon);
            assert_true(plan->evaluated);
            /* the plan before is among the samples: planning again from there cannot be worse */
            if (tick)
                assert_true(plan->cost <= first_cost * (1 + 1e-5));
            first_cost = plan->cost;
        }
        rig_free(&r);
    }
}

static void test_settings_are_checked(void **state)
{
    (void)state;
    hb_model *m = linear_model(2, 1);
    hb_pool *pool;
    hb_planner *p = NULL;
    hb_error err;
    static const struct {
        const char *says;
        size_t offset;
        double value;
        bool integer;
    } wrong[] = {
        {"planner.samples", offsetof(hb_planner_settings, samples), 0, true},
        {"planner.horizon", offsetof(hb_planner_settings, horizon), 0, true},
        {"planner.iterations", offsetof(hb_planner_settings, iterations), -1, true},
        {"planner.directions", offsetof(hb_planner_settings, ndirections), NU + 1, true},
        {"planner.directions", offsetof(hb_planner_settings, ndirections), 1, true},
        {"planner.method", offsetof(hb_planner_settings, method), HB_PLANNER_NMETHODS, true},
        {"planner.dt", offsetof(hb_planner_settings, dt), -1, false},
        {"planner.noise", offsetof(hb_planner_settings, noise), NAN, false},
        {"planner.noise_correlation", offsetof(hb_planner_settings, noise_correlation), 1.5, false},
        {"planner.temperature", offsetof(hb_planner_settings, temperature), -1, false},
    };

    assert_int_equal(hb_pool_new(&pool, 1, NULL, NULL, NULL), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
        char *field = (char *)&s + wrong[i].offset;
        if (wrong[i].integer)
            *(int *)field = (int)wrong[i].value;
        else
            *(double *)field = wrong[i].value;
        assert_int_equal(hb_planner_new(&p, m, &s, &quadratic_cost, pool, &err), -EINVAL);
        assert_null(p);
        if (!strstr(err.text, wrong[i].says))
            fail_msg("'%s' does not name %s", err.text, wrong[i].says);
    }
    hb_planner_settings s = settings(HB_PLANNER_GAUSS_NEWTON);
    m->control_trim[1] = 5;
    assert_int_equal(hb_planner_new(&p, m, &s, &quadratic_cost, pool, &err), -EINVAL);
    assert_non_null(strstr(err.text, "control 1"));
    m->control_trim[1] = 0;
    hb_cost c = quadratic_cost;
    c.term[0].index[0] = 99;
    assert_int_equal(hb_planner_new(&p, m, &s, &c, pool, &err), -EINVAL);
    assert_non_null(strstr(err.text, "index 99"));

    /* a long horizon, too */
    s = settings(HB_PLANNER_GAUSS_NEWTON);
    s.horizon = 1000;
    assert_int_equal(hb_planner_new(&p, m, &s, &quadratic_cost, pool, &err), 0);
    hb_planner_free(p);
    p = NULL;
    s = settings(HB_PLANNER_GAUSS_NEWTON);

    /* retuning: no more than there was room for, and no change when refused */
    assert_int_equal(hb_planner_new(&p, m, &s, &quadratic_cost, pool, &err), 0);
    s.samples++;
    assert_int_equal(hb_planner_retune(p, &s, &quadratic_cost, &err), -EINVAL);
    assert_non_null(strstr(err.text, "restart"));
    s.samples = 3;
    s.horizon = 2;
    assert_int_equal(hb_planner_retune(p, &s, &c, &err), -EINVAL);
    assert_int_equal(hb_planner_retune(p, &s, &quadratic_cost, &err), 0);
    hb_planner_free(p);
    hb_planner_free(NULL);
    hb_pool_free(pool);
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_order_finds_the_optimum),
        cmocka_unit_test(test_limits_hold_plans_back),
        cmocka_unit_test(test_steps_follow_the_goal),
        cmocka_unit_test(test_every_method_comes_close_to_the_optimum),
        cmocka_unit_test(test_cost_and_states_are_those_of_the_actions),
        cmocka_unit_test(test_warm_start_shifts),
        cmocka_unit_test(test_bytes_are_the_same_on_any_number_of_threads),
        cmocka_unit_test(test_seed_and_tick_change_the_draws),
        cmocka_unit_test(test_can_be_stopped_before_any_piece),
        cmocka_unit_test(test_late_requests_get_the_plan_in_hand),
        cmocka_unit_test(test_candidates_that_are_not_finite_are_dropped),
        cmocka_unit_test(test_plans_that_explode_are_not_converged),
        cmocka_unit_test(test_directions_are_kept_to),
        cmocka_unit_test(test_nothing_is_allocated_once_made),
        cmocka_unit_test(test_same_stages_same_bytes),
        cmocka_unit_test(test_interruptions_leave_no_trace),
        cmocka_unit_test(test_one_correction_finds_the_optimum),
        cmocka_unit_test(test_answers_are_verified_behind_the_reply),
        cmocka_unit_test(test_answers_by_the_model_follow_what_moves),
        cmocka_unit_test(test_a_poor_minimum_is_left),
        cmocka_unit_test(test_what_does_not_fit_is_planned_in_full),
        cmocka_unit_test(test_few_samples_go_before_the_reply),
        cmocka_unit_test(test_a_kink_is_left_at_once),
        cmocka_unit_test(test_a_plan_that_ran_out_of_time_is_prepared_from),
        cmocka_unit_test(test_random_settings_give_valid_plans),
        cmocka_unit_test(test_settings_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
