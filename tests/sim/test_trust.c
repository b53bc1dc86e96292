/* The estimator on vehicles as they are: actuators with lag and delay, real sensors, lies, and dynamics that it was not
 * made for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/check.h"
#include "base/numeric.h"
#include "estimate/estimator.h"
#include "pilot_quadrotor.h"
#include "plant_quadrotor.h"
#include "quadrotor_model.h"

enum { NX = QUADROTOR_NX, NU = QUADROTOR_NU, STEPS = 20 /* of the plant in a period */, PAST = 64 };

static const double period = 0.04, step = 0.002;
/* 5 mm, 3 cm/s, half a degree, 0.05 rad/s */
static const double sensor[NX] = {5e-3, 3e-2, 5e-3, 3e-2, 5e-3, 3e-2, 4.4e-3, 4.4e-3, 4.4e-3, 4.4e-3, 5e-2, 5e-2, 5e-2};

typedef struct flight {
    plant_quadrotor plant;
    pilot_quadrotor pilot;
    double lag, delay, noise;
    int rate; /* samples of telemetry in a period; the ends are means over a quarter of one */
    hb_random_key key;
    uint64_t draws;
    double x[NX], seen[NX], u[NU], acting[NU], told[PAST][NU]; /* told: by steps, newest first */
    double efficiency[NU], own_lag[NU];                        /* own_lag: in place of lag where it is positive */
    hb_estimator *e;
    int k;
} flight;

static hb_model *m;

static void look(flight *f, int averaged)
{
    for (int i = 0; i < NX; i++)
        f->seen[i] = f->x[i] + f->noise / sqrt(averaged) * sensor[i] * hb_random_normal(f->key, f->draws++);
}

static void take_off(flight *f, double lag, double delay, double noise, double reach, uint64_t seed)
{
    hb_error err;

    *f = (flight){.plant = plant_quadrotor_crazyflie,
                  .lag = lag,
                  .delay = delay,
                  .noise = noise,
                  .rate = 1,
                  .key = {seed, 2},
                  .efficiency = {1, 1, 1, 1}};
    f->pilot = (pilot_quadrotor){.seed = seed, .reach = reach, .tremble = 1e-3};
    f->plant.mass = 0.03;
    f->x[4] = f->x[9] = 1;
    for (int i = 0; i < NU; i++)
        f->acting[i] = f->u[i] = plant_quadrotor_hover_thrust(&f->plant);
    for (int k = 0; k < PAST; k++)
        memcpy(f->told[k], f->u, sizeof f->u);
    if (hb_estimator_new(&f->e, m, &hb_estimator_defaults, NULL, NULL, &err))
        fail_msg("%s", err.text);
    look(f, 1);
}

/* One period: a command, what the actuators make of it, and what is seen of it. */
static void fly(flight *f, const double *lie_in_state, const double *lie_in_command)
{
    double before[NX], command[NU], acts[NU];
    int late = (int)lround(f->delay / step), averaged = f->rate > 4 ? f->rate / 4 : 1;

    pilot_quadrotor_fly(&f->pilot, &f->plant, f->x, f->u);
    for (int s = 0; s < STEPS; s++) {
        memmove(f->told[1], f->told[0], sizeof f->told - sizeof f->told[0]);
        memcpy(f->told[0], f->u, sizeof f->u);
        for (int i = 0; i < NU; i++) {
            double lag = f->own_lag[i] > 0 ? f->own_lag[i] : f->lag;
            double u = f->told[late][i], keep = lag > 0 ? exp(-step / lag) : 0, off = f->acting[i] - u;
            acts[i] = f->efficiency[i] * (u + off * (lag > 0 ? (1 - keep) * lag / step : 0));
            f->acting[i] = u + off * keep;
        }
        plant_quadrotor_step(&f->plant, f->x, acts, step);
    }
    memcpy(before, f->seen, sizeof before);
    look(f, averaged);
    for (int i = 0; i < NX && lie_in_state; i++)
        f->seen[i] += lie_in_state[i];
    memcpy(command, lie_in_command ? lie_in_command : f->u, sizeof f->u);
    hb_estimator_push(
        f->e, &(hb_transition){.x = before, .u = command, .x_next = f->seen, .dt = period, .continues = f->k++ > 0});
}

static bool in_the_air(const flight *f)
{
    return f->x[4] > -3 && f->x[4] < 5;
}

/* Lag and delay of a flight of five seconds: their sum, which moves a vehicle, within 3 ms with real sensors, and
 * within 1 ms with perfect ones; each, which are told apart by little, within 12 and 7 ms. */
static void test_lag_and_delay_are_found(void **state)
{
    (void)state;
    for (int noise = 0; noise < 2; noise++) {
        double worst = 0, worst_sum = 0;
        for (int lag = 0; lag <= 60; lag += 20)
            for (int delay = 0; delay <= 40; delay += 20) {
                flight f;
                take_off(&f, 1e-3 * lag, 1e-3 * delay, noise, 0.8, (uint64_t)(1 + lag + delay));
                for (int k = 0; k < 125 && in_the_air(&f); k++)
                    fly(&f, NULL, NULL);
                const hb_actuators *a = hb_estimator_actuators(f.e);
                worst = fmax(worst, fmax(fabs(1e3 * a->lag[0] - lag), fabs(1e3 * a->delay[0] - delay)));
                worst_sum = fmax(worst_sum, fabs(1e3 * (a->lag[0] + a->delay[0]) - lag - delay));
                hb_estimator_free(f.e);
            }
        printf("%s sensors: after 5 s lag and delay are off by %.1f ms at most, their sum by %.1f ms\n",
               noise ? "real" : "perfect", worst, worst_sum);
        assert_true(worst < (noise ? 12 : 7));
        assert_true(worst_sum < (noise ? 3 : 1));
    }
}

/* A rotor with a lag of its own: told so, the model errs far less than with one lag for all, and the delay is found. */
static void test_each_actuator_has_its_lag(void **state)
{
    (void)state;
    double error[2];

    for (int told = 0; told < 2; told++) {
        hb_estimator_settings s = hb_estimator_defaults;
        hb_error err;
        flight f;
        take_off(&f, 0.02, 0.02, 0, 0.8, 4);
        f.own_lag[0] = 0.06;
        s.actuators.lag = 0.02;
        s.actuators.nlags = told ? NU : 0;
        for (int i = 0; i < NU; i++)
            s.actuators.lags[i] = i == 0 ? 0.06 : -1;
        hb_estimator_free(f.e);
        if (hb_estimator_new(&f.e, m, &s, NULL, NULL, &err))
            fail_msg("%s", err.text);
        for (int k = 0; k < 125; k++)
            fly(&f, NULL, NULL);
        error[told] = hb_estimator_health(f.e)->one_step_error;
        const hb_actuators *a = hb_estimator_actuators(f.e);
        assert_near(a->lag[0], told ? 0.06 : 0.02, 0);
        assert_near(a->lag[3], 0.02, 0);
        if (told)
            for (int i = 0; i < NU; i++)
                assert_near(a->delay[i], 0.02, 0.003);
        hb_estimator_free(f.e);
    }
    printf("one rotor lags by 60 ms, the others by 20: one-step error %.4f when told, %.4f with 20 ms for all\n",
           error[1], error[0]);
    assert_true(error[1] < error[0] / 3);
}

/* One lie about the state or the command changes nothing, is counted, and health does not say ok meanwhile. */
static void test_a_lie_changes_nothing(void **state)
{
    (void)state;
    const double size[] = {50, 300, 1000};

    for (int kind = 0; kind < 4; kind++)
        for (int noise = 0; noise < 2; noise++) {
            flight f, g;
            double lie[NX] = {0}, command[NU] = {1, 1, 1, 1};
            take_off(&f, 0.02, 0, noise, 0.8, 5);
            take_off(&g, 0.02, 0, noise, 0.8, 5);
            lie[5] = kind < 3 ? size[kind] : 0;
            for (int k = 0; k < 200; k++) {
                bool now = k == 100;
                fly(&f, now && kind < 3 ? lie : NULL, now && kind == 3 ? command : NULL);
                fly(&g, NULL, NULL);
                if (now) {
                    assert_int_equal(hb_estimator_health(f.e)->status, HB_ESTIMATE_IMPLAUSIBLE);
                    assert_int_equal(hb_estimator_health(f.e)->implausible, 1);
                }
                double spread = sqrt(hb_estimator_variance(g.e)[0]);
                assert_near(hb_estimator_coefficients(f.e)[0], hb_estimator_coefficients(g.e)[0], 2 * spread + 2e-3);
            }
            assert_int_equal(hb_estimator_health(f.e)->changes, 0);
            assert_int_equal(hb_estimator_health(f.e)->status, HB_ESTIMATE_OK);
            hb_estimator_free(f.e);
            hb_estimator_free(g.e);
        }
}

/* Sensors that speak nonsense for two seconds: within one second of good data all is well again. */
static void test_recovers_within_a_second(void **state)
{
    (void)state;
    flight f;
    double lie[NX];

    take_off(&f, 0.02, 0, 1, 0.8, 6);
    for (int k = 0; k < 100; k++)
        fly(&f, NULL, NULL);
    for (int k = 0; k < 50; k++) {
        for (int i = 0; i < NX; i++)
            lie[i] = 100 * hb_random_normal(f.key, f.draws++);
        fly(&f, lie, NULL);
        assert_int_not_equal(hb_estimator_health(f.e)->status, HB_ESTIMATE_OK);
    }
    for (int k = 0; k < 25; k++)
        fly(&f, NULL, NULL);
    assert_near(hb_estimator_coefficients(f.e)[0], quadrotor_model_coefficient(0.03), 0.15);
    for (int k = 0; k < 100; k++)
        fly(&f, NULL, NULL);
    assert_near(hb_estimator_coefficients(f.e)[0], quadrotor_model_coefficient(0.03), 0.1);
    assert_int_equal(hb_estimator_health(f.e)->status, HB_ESTIMATE_OK);
    hb_estimator_free(f.e);
}

/* Out of span is silent with real sensors, at every rate: in less than 2 % of 2000 samples of ten flights; and speaks
 * within half a second when a rotor breaks or its sign turns. */
static void test_out_of_span_means_it(void **state)
{
    (void)state;
    const int rate[] = {1, 2, 4, 10, 20};

    for (int r = 0; r < 5; r++) {
        int said = 0, all = 0;
        for (int run = 0; run < 10; run++) {
            flight f;
            take_off(&f, 0.02, 0.01, 1, 0.8, (uint64_t)(50 + run));
            f.rate = rate[r];
            for (int k = 0; k < 200; k++, all++) {
                fly(&f, NULL, NULL);
                said += hb_estimator_health(f.e)->status == HB_ESTIMATE_OUT_OF_SPAN;
            }
            assert_near(hb_estimator_coefficients(f.e)[0], quadrotor_model_coefficient(0.03),
                        4 * sqrt(hb_estimator_variance(f.e)[0]) + 0.01);
            hb_estimator_free(f.e);
        }
        printf("%3d Hz: out of span in %d of %d samples of a familiar vehicle\n", 25 * rate[r], said, all);
        assert_true(said * 50 < all);
    }
    for (int kind = 0; kind < 2; kind++) {
        int latest = 0;
        for (int run = 0; run < 10; run++) {
            flight f;
            take_off(&f, 0.02, 0.01, 1, 0.8, (uint64_t)(90 + run));
            for (int k = 0; k < 125; k++)
                fly(&f, NULL, NULL);
            f.efficiency[run % 4] = kind ? -1 : 0.3;
            int after = 0;
            while (after < 50 && hb_estimator_health(f.e)->status != HB_ESTIMATE_OUT_OF_SPAN) {
                fly(&f, NULL, NULL);
                after++;
            }
            latest = after > latest ? after : latest;
            hb_estimator_free(f.e);
        }
        printf("%s: out of span after %.2f s at the latest\n", kind ? "a rotor turns the wrong way" : "a rotor at 30 %",
               period * latest);
        assert_true(period * latest <= 0.52);
    }
}

/* One sample that is wrong, in any state and by any size, is no foreign vehicle, nor is another mass in flight. */
static void test_neither_a_lie_nor_a_payload_is_out_of_span(void **state)
{
    (void)state;
    const double size[] = {2, 6, 20, 100}; /* deviations of sensors times ten */
    int lies = 0, set_aside = 0;

    for (int noise = 0; noise < 2; noise++)
        for (int k = 0; k < NX * 4; k++) {
            double lie[NX] = {0};
            flight f;
            take_off(&f, 0.02, 0.01, noise, 0.8, (uint64_t)(200 + k));
            lie[k % NX] = (k & 1 ? -10 : 10) * size[k / NX] * sensor[k % NX];
            for (int i = 0; i < 115; i++) {
                fly(&f, i == 100 ? lie : NULL, NULL);
                assert_int_not_equal(hb_estimator_health(f.e)->status, HB_ESTIMATE_OUT_OF_SPAN);
            }
            lies++;
            set_aside += hb_estimator_health(f.e)->implausible > 0;
            hb_estimator_free(f.e);
        }
    printf("one wrong sample: %d of %d were set aside, none called out of span\n", set_aside, lies);
    for (int run = 0; run < 10; run++) {
        flight f;
        take_off(&f, 0.02, 0.01, 0, 0.8, (uint64_t)(300 + run));
        for (int k = 0; k < 200; k++) {
            f.plant.mass = k < 100 ? 0.03 : 0.022;
            fly(&f, NULL, NULL);
            assert_int_not_equal(hb_estimator_health(f.e)->status, HB_ESTIMATE_OUT_OF_SPAN);
        }
        assert_true(hb_estimator_health(f.e)->changes > 0);
        hb_estimator_free(f.e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lag_and_delay_are_found),
        cmocka_unit_test(test_each_actuator_has_its_lag),
        cmocka_unit_test(test_a_lie_changes_nothing),
        cmocka_unit_test(test_recovers_within_a_second),
        cmocka_unit_test(test_out_of_span_means_it),
        cmocka_unit_test(test_neither_a_lie_nor_a_payload_is_out_of_span),
    };
    hb_error err;

    hb_numeric_single_thread();
    m = quadrotor_model(QUADROTOR_MODEL_WIDTH, &err);
    if (!m)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hb_model_free(m);
    return failed;
}
