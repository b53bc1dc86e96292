/* What preparing between requests brings to each method: flights of the analytic quadrotor with a millisecond for each
 * answer. Time is simulated: every piece of work is charged for, so that results do not depend on the machine. */
#include <math.h>
#include <string.h>

#include "../unit/check.h"
#include "charged_clock.h"
#include "plant_quadrotor.h"
#include "quadrotor_model.h"

enum { NX = QUADROTOR_NX, NU = QUADROTOR_NU, REQUESTS = 75, STARTS = 2 };

static const double budget = 1e-3, period = 0.02, share = 0.5;

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

typedef struct flown {
    double cost; /* mean over time and flights */
    int corrected, converged;
    double longest; /* seconds that an answer was charged, but for the first */
} flown;

static flown fly(hb_planner_method method, bool prepared)
{
    hb_planner_settings s = hb_planner_defaults;
    quadrotor_pilot p;
    hb_error err;
    flown f = {0};

    s.method = method;
    if (quadrotor_pilot_new(&p, quadrotor_model(QUADROTOR_MODEL_WIDTH, &err), s, 1, &err))
        fail_msg("%s", err.text);
    for (int start = 0; start < STARTS; start++) {
        plant_quadrotor plant = plant_quadrotor_crazyflie;
        double x[NX], u[NU], work = 0;
        const hb_clock clock = {.now = charged, .context = &work, .begins = charge};
        const hb_goal goal = {
            .target = quadrotor_hover_target, .ntargets = 1, .last_control = u, .trim = p.m->control_trim};
        const hb_real c = (hb_real)quadrotor_model_coefficient(plant.mass = 0.030);

        hb_predictor_set(p.predictor, &c);
        hb_planner_reset(p.planner);
        memcpy(x, quadrotor_hover_target, sizeof x);
        memcpy(u, p.m->control_trim, sizeof u);
        x[0] += start ? 0.2 : 0.4;
        x[4] += start ? 0.4 : -0.2;
        for (int k = 0; k < REQUESTS; k++) {
            const double asked = work;
            const hb_plan *plan = (prepared ? hb_planner_feedback : hb_planner_plan)(
                p.planner, p.predictor, x, &goal, (uint64_t)k, &clock, asked + (k ? budget : 1));
            f.longest = k ? fmax(f.longest, work - asked) : f.longest;
            f.corrected += plan->corrected;
            f.converged += k > 0 && plan->converged;
            if (plan->evaluated)
                memcpy(u, plan->action, sizeof u);
            if (prepared)
                hb_planner_prepare(p.planner, p.predictor, period, &clock, work + share * period, NULL, UINT64_MAX);
            for (int ms = 0; ms < 20; ms++) {
                plant_quadrotor_step(&plant, x, u, 1e-3);
                f.cost += stage_cost(x, u) / (20 * REQUESTS * STARTS);
            }
            hb_planner_shift(p.planner, period / p.m->dt);
        }
    }
    quadrotor_pilot_free(&p);
    return f;
}

static void test_every_method_gains_by_preparing(void **state)
{
    (void)state;
    for (int method = 0; method < HB_PLANNER_NMETHODS; method++) {
        const flown without = fly((hb_planner_method)method, false), with = fly((hb_planner_method)method, true);
        print_message("%-12s cost %.4f prepared, %.4f not\n", hb_planner_method_name[method], with.cost, without.cost);
        assert_true(with.cost <= without.cost);
        assert_true(with.corrected >= STARTS * (REQUESTS - 1) * 9 / 10);
        assert_true(with.longest <= budget + 1e-6 * charge_us[HB_PIECE_FORWARD]);
        /* nobody has improved on what was prepared at the very state of the request: they do not say that they have */
        if (method != HB_PLANNER_GAUSS_NEWTON)
            assert_int_equal(with.converged, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_method_gains_by_preparing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
