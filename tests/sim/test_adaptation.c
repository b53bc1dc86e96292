/* The estimator on flights of plant_quadrotor.h: how fast a change of mass is learned, and how often one is seen where
 * there is none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/check.h"
#include "estimate/estimator.h"
#include "base/numeric.h"
#include "pilot_quadrotor.h"
#include "plant_quadrotor.h"
#include "quadrotor_model.h"

static const double period = 0.04;

/* What the air and the sensors do to a flight. */
typedef struct weather {
    const char *name;
    double noise; /* of the sensors, in units of the ones below */
    double wind;  /* m/s, standard deviation of gusts that last half a second */
    double drag;  /* N s/m; the model has none */
    double reach; /* of the pilot */
} weather;

static const double sensor[QUADROTOR_NX] = {1e-3, 1e-2, 1e-3, 1e-2, 1e-3, 1e-2, 1e-3,
                                            1e-3, 1e-3, 1e-3, 2e-2, 2e-2, 2e-2};

static const weather calm = {"calm", 1, 0, 0, 0.8};
static const weather every[] = {
    {"calm", 1, 0, 0, 0.8},
    {"calm, hovering", 1, 0, 0, 0.05},
    {"calm, good sensors", 0.1, 0, 0, 0.8},
    {"calm, perfect sensors", 0, 0, 0, 0.8},
    {"drag, perfect sensors", 0, 0, 0.01, 0.8},
    {"gusts", 1, 1, 0.01, 0.8},
    {"gusts, good sensors", 0.1, 1, 0.01, 0.8},
    {"strong gusts, wide flight", 0.1, 2, 0.02, 1.5},
};

typedef struct flight {
    const weather *weather;
    plant_quadrotor plant;
    pilot_quadrotor pilot;
    hb_random_key key;
    uint64_t draws;
    double x[QUADROTOR_NX], seen[QUADROTOR_NX];
    hb_estimator *e;
    double error;      /* RMS of the normalised error of the last prediction */
    double late, mass; /* seconds after which the next step goes on with another mass; 0: it does not */
} flight;

static double draw(flight *f)
{
    return hb_random_normal(f->key, f->draws++);
}

static void look(flight *f)
{
    for (int i = 0; i < QUADROTOR_NX; i++)
        f->seen[i] = f->x[i] + f->weather->noise * sensor[i] * draw(f);
}

static void take_off(flight *f, const hb_model *m, const weather *w, double mass, uint64_t seed)
{
    hb_error err;

    *f = (flight){.weather = w, .plant = plant_quadrotor_crazyflie, .key = {seed, 1}};
    f->pilot = (pilot_quadrotor){.seed = seed, .reach = w->reach, .tremble = 5e-4};
    f->plant.mass = mass;
    f->plant.drag = w->drag;
    f->x[4] = f->x[9] = 1;
    if (hb_estimator_new(&f->e, m, &hb_estimator_defaults, NULL, NULL, &err))
        fail_msg("%s", err.text);
    look(f);
}

static void step(flight *f)
{
    double u[QUADROTOR_NU], before[QUADROTOR_NX], norm = 0;

    for (int i = 0; i < 3; i++)
        f->plant.wind[i] += -period / 0.5 * f->plant.wind[i] + f->weather->wind * sqrt(2 * period / 0.5) * draw(f);
    pilot_quadrotor_fly(&f->pilot, &f->plant, f->x, u);
    if (f->late > 0) {
        plant_quadrotor_step(&f->plant, f->x, u, f->late);
        f->plant.mass = f->mass;
    }
    plant_quadrotor_step(&f->plant, f->x, u, period - f->late);
    f->late = 0;
    for (int i = 6; i < 10; i++)
        norm += f->x[i] * f->x[i];
    for (int i = 6; i < 10; i++)
        f->x[i] /= sqrt(norm);
    if (!(f->x[4] > -3 && f->x[4] < 5))
        fail_msg("%s: the pilot lost the vehicle", f->weather->name);
    memcpy(before, f->seen, sizeof before);
    look(f);
    hb_estimator_push(f->e, &(hb_transition){.x = before, .u = u, .x_next = f->seen, .dt = period, .continues = true});
}

static hb_model *new_model(void)
{
    hb_error err;
    hb_model *m = quadrotor_model(QUADROTOR_MODEL_WIDTH, &err);

    if (!m)
        fail_msg("%s", err.text);
    return m;
}

static double rms_of_next(flight *f, int samples)
{
    double sum = 0;

    /* one_step_error is over ten samples; those of before have left it after as many */
    for (int k = 0; k < samples; k += 10) {
        for (int i = 0; i < 10; i++)
            step(f);
        sum += pow(hb_estimator_health(f->e)->one_step_error, 2) * 10 / samples;
    }
    return sqrt(sum);
}

/* 80 flights; the mass grows or shrinks by 40 %, after `earliest` samples or later. Within 25 samples the error of
 * predictions is back: that of samples 16 to 25 is at most 1.5 times what it was before. */
static void learn_steps_of_mass(int earliest, int spread)
{
    hb_model *m = new_model();
    int flights = 0, seen = 0, back = 0, latest = 0;
    double worst = 0;

    for (int run = 0; run < 40; run++)
        for (int direction = -1; direction <= 1; direction += 2, flights++) {
            flight f;
            double coefficient;
            take_off(&f, m, &calm, 0.0216 + 0.0108 * run / 39, (uint64_t)(1000 + run));
            for (int k = 0; k < earliest - 20 + run * spread; k++)
                step(&f);
            double old = rms_of_next(&f, 20);
            uint64_t changes = hb_estimator_health(f.e)->changes;
            assert_int_equal(changes, 0);

            f.plant.mass *= 1 + 0.4 * direction;
            int detected = 0;
            for (int k = 1; k <= 25; k++) {
                step(&f);
                if (!detected && hb_estimator_health(f.e)->changes > changes)
                    detected = k;
            }
            double ratio = hb_estimator_health(f.e)->one_step_error / old;
            back += ratio <= 1.5;
            worst = fmax(worst, ratio);
            /* it is used at once, and told when it is certain */
            for (int k = 26; k <= 50; k++) {
                step(&f);
                if (!detected && hb_estimator_health(f.e)->changes > changes)
                    detected = k;
            }
            seen += detected > 0;
            latest = detected > latest ? detected : latest;

            /* and what is learned is the mass */
            for (int k = 0; k < 100; k++)
                step(&f);
            coefficient = quadrotor_model_coefficient(f.plant.mass);
            assert_near(hb_estimator_coefficients(f.e)[0], coefficient, 0.03 * (1 + fabs(coefficient)));
            hb_estimator_free(f.e);
        }
    printf(
        "step of mass by 40 %%: %d of %d seen, at the latest after %d samples; error back within 1.5x after 25 samples "
        "in %d, worst %.2fx\n",
        seen, flights, latest, back, worst);
    assert_int_equal(seen, flights);
    assert_int_equal(back, flights);
    hb_model_free(m);
}

static void test_step_of_mass_is_learned_within_a_second(void **state)
{
    (void)state;
    learn_steps_of_mass(350, 13);
}

/* Two seconds after the first sample, too, and one after the first coefficients. */
static void test_early_step_of_mass_is_learned_within_a_second(void **state)
{
    (void)state;
    learn_steps_of_mass(50, 1);
}

/* A payload drops amid a transition, which is neither of the old mass nor of the new one: it leaves no trace in what is
 * learned, neither after a second nor when it leaves the window. */
static void test_a_change_amid_a_transition_leaves_no_trace(void **state)
{
    (void)state;
    hb_model *m = new_model();
    double off = 0, jump = 0;

    for (uint64_t seed = 1; seed <= 3; seed++)
        for (int late = 5; late <= 30; late += 5) {
            flight f;
            take_off(&f, m, &every[3], 0.034, seed);
            for (int k = 0; k < 300; k++)
                step(&f);
            f.late = 1e-3 * late;
            f.mass = 0.024;
            double truth = quadrotor_model_coefficient(f.mass), before = 0;
            for (int k = 0; k < 300; k++) { /* the window is 250 */
                step(&f);
                double c = hb_estimator_coefficients(f.e)[0];
                if (k >= 25)
                    off = fmax(off, fabs(c - truth));
                if (k > 25)
                    jump = fmax(jump, fabs(c - before));
                before = c;
            }
            assert_int_equal(hb_estimator_health(f.e)->changes, 1);
            hb_estimator_free(f.e);
        }
    printf("change amid a transition: off by %.4f at most, steps of %.4f at most\n", off, jump);
    assert_true(off < 0.02);
    hb_model_free(m);
}

/* The same without the detector is not learned in a second: the step is one that matters. */
static void test_step_of_mass_is_not_learned_by_sliding_alone(void **state)
{
    (void)state;
    hb_model *m = new_model();
    flight f;
    hb_estimator_settings s = hb_estimator_defaults;
    hb_error err;

    take_off(&f, m, &calm, 0.027, 5);
    hb_estimator_free(f.e);
    s.detect_changes = false;
    if (hb_estimator_new(&f.e, m, &s, NULL, NULL, &err))
        fail_msg("%s", err.text);
    for (int k = 0; k < 500; k++)
        step(&f);
    double old = rms_of_next(&f, 50);
    f.plant.mass *= 1.4;
    for (int k = 0; k < 25; k++)
        step(&f);
    assert_true(hb_estimator_health(f.e)->one_step_error > 2 * old);
    hb_estimator_free(f.e);
    hb_model_free(m);
}

/* No change, 20,000 samples in each weather: at most one alarm in 10,000. */
static void test_no_change_is_seen_where_there_is_none(void **state)
{
    (void)state;
    hb_model *m = new_model();

    for (size_t w = 0; w < sizeof every / sizeof *every; w++) {
        uint64_t alarms = 0;
        int samples = 0;
        for (int run = 0; run < 10; run++) {
            flight f;
            take_off(&f, m, &every[w], 0.020 + 0.012 * run / 9, (uint64_t)(100 + run));
            for (int k = 0; k < 2000; k++, samples++)
                step(&f);
            alarms += hb_estimator_health(f.e)->changes;
            hb_estimator_free(f.e);
        }
        printf("%-26s %llu false alarms in %d samples\n", every[w].name, (unsigned long long)alarms, samples);
        assert_true(alarms * 10000 <= (uint64_t)samples);
    }
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_of_mass_is_learned_within_a_second),
        cmocka_unit_test(test_early_step_of_mass_is_learned_within_a_second),
        cmocka_unit_test(test_a_change_amid_a_transition_leaves_no_trace),
        cmocka_unit_test(test_step_of_mass_is_not_learned_by_sliding_alone),
        cmocka_unit_test(test_no_change_is_seen_where_there_is_none),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
