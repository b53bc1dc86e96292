/* One flight, seen at five rates of telemetry: the coefficients are the same, within what is said of their uncertainty.
 * And an estimator that flies for very long does not drift. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/check.h"
#include "base/numeric.h"
#include "controller/controller.h"
#include "pilot_quadrotor.h"
#include "plant_quadrotor.h"
#include "quadrotor_model.h"

enum { NX = QUADROTOR_NX, NU = QUADROTOR_NU, SECONDS = 8, RATES = 5 };

static const int rates[RATES] = {25, 50, 100, 250, 500};
/* 5 mm, 3 cm/s, half a degree, 0.05 rad/s */
static const double sensor[NX] = {5e-3, 3e-2, 5e-3, 3e-2, 5e-3, 3e-2, 4.4e-3, 4.4e-3, 4.4e-3, 4.4e-3, 5e-2, 5e-2, 5e-2};

static hb_model *m;
static hb_pool *pool;

static hb_controller *new_controller(void)
{
    hb_controller_settings s = hb_controller_defaults();
    hb_controller *c;
    hb_error err;

    s.cost = quadrotor_hover_cost;
    s.ntarget = NX;
    memcpy(s.target, quadrotor_hover_target, sizeof quadrotor_hover_target);
    if (hb_controller_new(&c, m, &s, pool, NULL, NULL, &err))
        fail_msg("%s", err.text);
    return c;
}

/* All controllers see the same flight of a vehicle of this mass, whose rotors lag by 20 ms; at times that they share,
 * they see the same sample. */
static void fly(hb_controller **c, double mass, double noise, uint64_t seed)
{
    const double step = 0.002, lag = 0.02, keep = exp(-step / lag);
    plant_quadrotor plant = plant_quadrotor_crazyflie;
    pilot_quadrotor pilot = {.seed = seed, .reach = 0.8, .tremble = 1e-3};
    double x[NX] = {[4] = 1, [9] = 1}, u[NU], made[NU], acts[NU], seen[NX];

    plant.mass = mass;
    for (int i = 0; i < NU; i++)
        made[i] = plant_quadrotor_hover_thrust(&plant);
    for (int k = 0; k < SECONDS * 500; k++) {
        if (k % 20 == 0)
            pilot_quadrotor_fly(&pilot, &plant, x, u);
        for (int i = 0; i < NX; i++)
            seen[i] = x[i] + noise * sensor[i] * hb_random_normal((hb_random_key){seed, 4}, (uint64_t)(k * NX + i));
        for (int r = 0; r < RATES; r++)
            if (k % (500 / rates[r]) == 0)
                hb_controller_observe(
                    c[r], &(hb_observation){.time_us = 1000000 + 2000 * k, .x = seen, .nx = NX, .u = u, .nu = NU},
                    step * k);
        for (int i = 0; i < NU; i++) {
            acts[i] = u[i] + (made[i] - u[i]) * (1 - keep) * lag / step;
            made[i] = u[i] + (made[i] - u[i]) * keep;
        }
        plant_quadrotor_step(&plant, x, acts, step);
    }
}

static void test_the_rate_does_not_matter(void **state)
{
    (void)state;
    static const double masses[] = {0.022, 0.027, 0.031};

    for (int noisy = 0; noisy < 2; noisy++)
        for (int i = 0; i < 3; i++) {
            hb_controller *c[RATES];
            double value[RATES], variance[RATES], truth = quadrotor_model_coefficient(masses[i]);
            for (int r = 0; r < RATES; r++)
                c[r] = new_controller();
            fly(c, masses[i], noisy, (uint64_t)(7 + i));
            printf("%s, mass %.3f, truth %7.4f:", noisy ? "real sensors" : "perfect sensors", masses[i], truth);
            for (int r = 0; r < RATES; r++) {
                const double *v;
                value[r] = hb_controller_coefficients(c[r], &v)[0];
                variance[r] = v[0];
                printf("  %d Hz %.4f +- %.4f", rates[r], value[r], sqrt(variance[r]));
                assert_int_equal(hb_controller_health(c[r])->status, HB_ESTIMATE_OK);
            }
            printf("\n");
            /* the model itself is good to 1 part in 1000, and the identified lag to a few milliseconds */
            for (int r = 0; r < RATES; r++) {
                assert_near(value[r], truth, 3 * sqrt(variance[r]) + 0.005);
                for (int other = 0; other < r; other++)
                    assert_near(value[r], value[other], 3 * sqrt(variance[r] + variance[other]) + 0.005);
            }
            for (int r = 0; r < RATES; r++)
                hb_controller_free(c[r]);
        }
}

enum { FRESH = 20000 }; /* transitions after which nothing is left of what came before them */

static hb_estimator *new_estimator(void)
{
    hb_estimator_settings s = hb_estimator_defaults;
    hb_estimator *e;
    hb_error err;

    s.actuators.identify = false;
    if (hb_estimator_new(&e, m, &s, NULL, NULL, &err))
        fail_msg("%s", err.text);
    return e;
}

/* As many transitions as HILBERT_SAMPLES says (10^7 takes some minutes): what was added to and subtracted from all the
 * time gives at the end what it gave in the beginning, and what an estimator gives that saw the last of them alone. */
static void test_no_drift(void **state)
{
    (void)state;
    const char *asked = getenv("HILBERT_SAMPLES");
    long long samples = asked ? atoll(asked) : 200000; /* two hours of flight */
    hb_estimator *e = new_estimator(), *fresh = new_estimator();
    plant_quadrotor plant = plant_quadrotor_crazyflie;
    double x[NX] = {[4] = 1, [9] = 1}, next[NX], u[NU], worst = 0;
    pilot_quadrotor pilot = {.seed = 5, .reach = 0.8, .tremble = 1e-3};

    plant.mass = 0.03;
    double truth = quadrotor_model_coefficient(plant.mass), first = 0;
    for (long long k = 0; k < samples; k++) {
        pilot_quadrotor_fly(&pilot, &plant, x, u);
        memcpy(next, x, sizeof next);
        plant_quadrotor_step(&plant, next, u, 0.04);
        hb_transition t = {.x = x, .u = u, .x_next = next, .dt = 0.04, .continues = k > 0};
        hb_estimator_push(e, &t);
        if (k >= samples - FRESH)
            hb_estimator_push(fresh, &t);
        memcpy(x, next, sizeof x);
        double off = fabs(hb_estimator_coefficients(e)[0] - truth);
        if (k >= 1000 && k < samples / 10)
            first = fmax(first, off);
        if (k >= samples - samples / 10)
            worst = fmax(worst, off);
        assert_true(isfinite(off) && (k < 1000 || hb_estimator_variance(e)[0] > 0));
    }
    printf("%lld samples: off by %.5f at most in the first tenth, %.5f in the last\n", samples, first, worst);
    double c = hb_estimator_coefficients(fresh)[0], v = hb_estimator_variance(fresh)[0];
    double drift = fabs(hb_estimator_coefficients(e)[0] - c) / sqrt(v), spread = hb_estimator_variance(e)[0] / v - 1;
    printf("against one that saw the last %d: off by %.1e of a deviation of %.1e, which differs by %.1e of it\n",
           (int)FRESH, drift, sqrt(v), spread / 2);
    assert_true(worst < 1.5 * first + 1e-4);
    /* not to the last bit: old rows were evaluated along coefficients of another moment */
    assert_true(drift < 1 && fabs(spread) < 0.2);
    assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_OK);
    hb_estimator_free(e);
    hb_estimator_free(fresh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_rate_does_not_matter),
        cmocka_unit_test(test_no_drift),
    };
    hb_error err;

    hb_numeric_single_thread();
    m = quadrotor_model(QUADROTOR_MODEL_WIDTH, &err);
    if (!m || hb_pool_new(&pool, 1, NULL, NULL, &err))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hb_pool_free(pool);
    hb_model_free(m);
    return failed;
}
