/* What preparing between requests brings to each method: flights of the analytic quadrotor with a millisecond for each
 * answer. Time is simulated: every piece of work is charged for, so that results do not depend on the machine. */
#include <math.h>
#include <string.h>

#include "../unit/check.h"
#include "charged_clock.h"
#include "plant_quadrotor.h"
#include "quadrotor_model.h"

enum { NX = QUADROTOR_NX, NU = QUADROTOR_NU };

static const double share = 0.5; /* of the time between requests, for preparing */

/* the paper's cost of one moment, written out */
static double stage_cost(const double *x, const double *u)
{
    const double *target = quadrotor_hover_target;
    const double pitch = asin(fmin(fmax(2 * (x[9] * x[7] - x[6] * x[8]), -1), 1));
    const double roll = atan2(2 * (x[9] * x[6] + x[7] * x[8]), 1 - 2 * (x[6] * x[6] + x[7] * x[7]));
    const double imbalance = pow(u[0] - u[2], 2) + pow(u[1] - u[3], 2);
    double distance = 0;

    for (int i = 0; i < 3; i++)
        distance += pow(x[2 * i] - target[2 * i], 2);
    return 3 * sqrt(distance) + 5 * (roll * roll + pitch * pitch) + x[1] * x[1] + x[3] * x[3] + x[5] * x[5] +
           2000 * imbalance;
}

typedef struct flight {
    double x, y, z;        /* from the target, at its beginning */
    double budget, period; /* seconds */
    int requests;
} flight;

typedef struct flown {
    double cost; /* mean over time */
    int corrected, converged;
    double longest; /* seconds that an answer was charged, but for the first */
} flown;

static flown fly(hb_planner_method method, bool prepared, const flight *f)
{
    plant_quadrotor plant = plant_quadrotor_crazyflie;
    hb_planner_settings s = hb_planner_defaults;
    quadrotor_pilot p;
    hb_error err;
    flown r = {0};
    double x[NX], u[NU], work = 0;
    const int ms = (int)lround(1e3 * f->period);

    s.method = method;
    if (quadrotor_pilot_new(&p, quadrotor_model(QUADROTOR_MODEL_WIDTH, &err), s, 1, &err))
        fail_msg("%s", err.text);
    const hb_clock clock = {.now = charged, .context = &work, .begins = charge};
    const hb_goal goal = {
        .target = quadrotor_hover_target, .ntargets = 1, .last_control = u, .trim = p.m->control_trim};
    const hb_real c = (hb_real)quadrotor_model_coefficient(plant.mass = 0.030);

    hb_predictor_set(p.predictor, &c);
    memcpy(x, quadrotor_hover_target, sizeof x);
    memcpy(u, p.m->control_trim, sizeof u);
    x[0] += f->x;
    x[2] += f->y;
    x[4] += f->z;
    for (int k = 0; k < f->requests; k++) {
        const double asked = work;
        const hb_plan *plan = (prepared ? hb_planner_feedback : hb_planner_plan)(
            p.planner, p.predictor, x, &goal, (uint64_t)k, &clock, asked + (k ? f->budget : 1));
        r.longest = k ? fmax(r.longest, work - asked) : r.longest;
        r.corrected += plan->corrected;
        r.converged += k > 0 && plan->converged;
        if (plan->evaluated)
            memcpy(u, plan->action, sizeof u);
        if (prepared)
            hb_planner_prepare(p.planner, p.predictor, f->period, &clock, work + share * f->period, NULL, UINT64_MAX);
        for (int i = 0; i < ms; i++) {
            plant_quadrotor_step(&plant, x, u, 1e-3);
            r.cost += stage_cost(x, u) / (ms * f->requests);
        }
        hb_planner_shift(p.planner, f->period / p.m->dt);
    }
    quadrotor_pilot_free(&p);
    return r;
}

static void test_every_method_gains_by_preparing(void **state)
{
    static const flight flights[] = {{0.4, 0, -0.2, 1e-3, 0.02, 75}, {0.2, 0, 0.4, 1e-3, 0.02, 75}};

    (void)state;
    for (int method = 0; method < HB_PLANNER_NMETHODS; method++) {
        double cost[2] = {0};
        for (int i = 0; i < 2; i++) {
            const flight *f = &flights[i];
            const flown without = fly((hb_planner_method)method, false, f),
                        with = fly((hb_planner_method)method, true, f);
            cost[0] += without.cost;
            cost[1] += with.cost;
            assert_true(with.corrected >= (f->requests - 1) * 9 / 10);
            assert_true(with.longest <= f->budget + 1e-6 * charge_us[HB_PIECE_FORWARD]);
            /* nobody has improved on what was prepared at the very state of the request: they do not say that they have
             */
            if (method != HB_PLANNER_GAUSS_NEWTON)
                assert_int_equal(with.converged, 0);
        }
        print_message("%-12s cost %.4f prepared, %.4f not\n", hb_planner_method_name[method], cost[1] / 2, cost[0] / 2);
        assert_true(cost[1] <= cost[0]);
    }
}

/* Where the way ends the distance to the target has a kink: the model of the cost hopes there for gains that no step
 * brings, and answers do not spend their budget on looking for them. */
static void test_answers_come_at_once_also_at_the_target(void **state)
{
    static const flight flights[] = {{0.5, 0, 0, 5e-3, 0.01, 400},
                                     {0, 0.3, 0.4, 5e-3, 0.01, 400},
                                     {0.5, 0, 0, 5e-3, 0.02, 200},
                                     {0.4, 0, -0.2, 5e-3, 0.02, 200}};

    (void)state;
    for (size_t i = 0; i < sizeof flights / sizeof *flights; i++) {
        const flown f = fly(HB_PLANNER_GAUSS_NEWTON, true, &flights[i]);
        assert_int_equal(f.corrected, flights[i].requests - 1);
        assert_true(f.longest < 1e-3);
        assert_true(f.converged >= f.corrected * 19 / 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_method_gains_by_preparing),
        cmocka_unit_test(test_answers_come_at_once_also_at_the_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
