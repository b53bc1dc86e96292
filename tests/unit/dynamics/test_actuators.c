/* Actuators against a fine integration of their differential equation. */
#include "check.h"

#include "dynamics/actuators.h"

enum { FINE = 200000 };

/* a' = (u - a) / lag by the midpoint rule; the mean by its sums */
static void integrate(double lag, double h, double u, double *state, double *mean)
{
    double a = *state, sum = 0, step = h / FINE;

    for (int i = 0; i < FINE; i++) {
        double middle = a + step / 2 * (u - a) / lag;
        sum += middle;
        a += step * (u - middle) / lag;
    }
    *state = a;
    *mean = sum / FINE;
}

/* by the formulas of actuators.h: u is held for h seconds */
static void hold(double lag, double h, double u, double *state, double *mean)
{
    double off = *state - u;

    *mean = u + off * hb_actuator_share(lag, h);
    *state = u + off * hb_actuator_keep(lag, h);
}

static void follows_its_equation(void **unused)
{
    (void)unused;
    const double lag[] = {0.005, 0.02, 0.06, 0.5}, h[] = {0.001, 0.01, 0.04, 0.1};

    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++) {
            double state = 0.3, expected = 0.3, u = -0.7, mean, expected_mean;
            hold(lag[i], h[j], u, &state, &mean);
            integrate(lag[i], h[j], u, &expected, &expected_mean);
            assert_true(fabs(state - expected) < 1e-8);
            assert_true(fabs(mean - expected_mean) < 1e-8);
        }
}

/* one long hold is two short ones */
static void holds_join(void **unused)
{
    (void)unused;
    const double lag[2] = {0.03, 0}, u[2] = {1, -1};
    double once[2] = {0, 0.5}, twice[2] = {0, 0.5}, mean[2], first[2], second[2];

    for (int i = 0; i < 2; i++) {
        hold(lag[i], 0.05, u[i], &once[i], &mean[i]);
        hold(lag[i], 0.02, u[i], &twice[i], &first[i]);
        hold(lag[i], 0.03, u[i], &twice[i], &second[i]);
        assert_true(fabs(once[i] - twice[i]) < 1e-12);
        assert_true(fabs(mean[i] - (0.4 * first[i] + 0.6 * second[i])) < 1e-12);
    }
    assert_true(once[1] == -1 && mean[1] == -1);
}

static void delays_have_bounds(void **unused)
{
    (void)unused;
    hb_actuators a = {.nu = 3, .delay = {0.02, 0.01, 0.03}}, none = {.nu = 0};

    assert_true(hb_actuators_longest_delay(&a) == 0.03 && hb_actuators_shortest_delay(&a) == 0.01);
    assert_true(hb_actuators_longest_delay(&none) == 0 && hb_actuators_shortest_delay(&none) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equation),
        cmocka_unit_test(holds_join),
        cmocka_unit_test(delays_have_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
