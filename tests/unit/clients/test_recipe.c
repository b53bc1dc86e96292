/* From flights to settings: what is known of vehicles, what is identified, what is chosen. The flights are those of a
 * quadrotor integrated by formulas of the test's own. */
#include "made_flights.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/numeric.h"
#include "data/sampler.h"
#include "data/vehicles.h"
#include "train/identify.h"
#include "train/recipe.h"
#include "train/run.h"
#include "train/untrained_model.h"

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/hilbert-test-recipe-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    write_flights(in_folder("known.h5"), true, 0, (unseen){0});
    write_flights(in_folder("noisy.h5"), true, 2e-3, (unseen){0});
    write_flights(in_folder("turned.h5"), true, 2e-3, (unseen){.turning = 15});
    write_flights(in_folder("blown.h5"), true, 2e-3, (unseen){.air = 12});
    write_flights(in_folder("hidden.h5"), false, 0, (unseen){0});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (const char *const *name =
             (const char *const[]){"known.h5", "noisy.h5", "turned.h5", "blown.h5", "hidden.h5", NULL};
         *name; name++)
        unlink(in_folder(*name));

    return rmdir(folder);
}

static hb_model *untrained(const char *average, const hb_dataset *d, hb_error *err)
{
    hb_settings s;
    hb_model *m = NULL;
    bool given;

    hb_settings_default(&s);
    snprintf(s.average, sizeof s.average, "%s", average);
    s.nb = 2;
    s.hidden = (hb_widths){1, {4}};
    return hb_untrained_model_new(&m, &given, &s, d, NULL, "", err) ? NULL : m;
}

/* forces per kilogram: the same normalised controls and, with inertia in proportion, the same physics */
static void test_vehicles_of_two_sizes_look_alike(void **state)
{
    (void)state;
    hb_dataset *d = read_flights("known.h5");
    hb_error err = {0};
    hb_model *m = untrained("nominal:quadrotor", d, &err), *own = NULL;
    hb_sampler *s = NULL;
    hb_points points;
    hb_arena arena = {0};

    assert_non_null(m);
    assert_true(d->header.parameters_known);
    assert_near(m->nominal_parameter[0], 0.5 * (light + heavy),
                0.5 * (heavy - light) + 1e-9); /* the median is one of both */
    assert_int_equal(hb_sampler_new(&s, d, m, 1, &err), 0);
    hb_points_lay_out(&points, NX, NU, 1, 1, &arena);
    assert_int_equal(hb_arena_allocate(&arena, &err), 0);
    hb_points_lay_out(&points, NX, NU, 1, 1, &arena);
    for (int f = 0; f < 2; f++) {
        double known[HB_NOMINAL_PARAMETERS], scale = mass_of(f) / m->nominal_parameter[0];
        hb_transition t;
        hb_sampler_put(s, f, 5, &points, 0);
        hb_dataset_transition(d, f, 5, &t, NULL);
        hb_vehicles_of(d, m->nominal, f, known);
        assert_near(known[0], mass_of(f), 0);
        assert_true(isnan(known[1]));
        /* the model of this vehicle has the same normalised controls without any scaling of them */
        assert_int_equal(hb_model_copy(&own, m, false, NULL, &err), 0);
        assert_int_equal(hb_model_set_vehicle(own, known, &err), 0);
        /* in proportion to the mass, from the nominal vehicle's 27 g on */
        assert_near(own->nominal_parameter[1], 1.4e-5 * mass_of(f) / 0.027, 1e-12);
        assert_near(own->control_max[0], m->control_max[0] * scale, 1e-12);
        for (int i = 0; i < NU; i++)
            assert_near((double)points.u[i * HB_STRIDE], hb_normalised_control(own, i, t.u[i]), 1e-4);
        /* what the points say of its physics, with the reference's controls, is what the vehicle does with its own */
        hb_real x[NX * HB_STRIDE] = {0}, u[NU * HB_STRIDE] = {0}, a[NX * HB_STRIDE], b[NX * HB_STRIDE];
        for (int i = 0; i < NX; i++)
            for (int lane = 0; lane < HB_LANES; lane++)
                x[i * HB_STRIDE + lane] = (hb_real)t.x[i];
        for (int i = 0; i < NU; i++)
            for (int lane = 0; lane < HB_LANES; lane++)
                u[i * HB_STRIDE + lane] = (hb_real)t.u[i];
        m->nominal->field(m->nominal, own->nominal_parameter, 1, x, u, a, NULL);
        for (int i = 0; i < NU * HB_STRIDE; i++)
            u[i] = (hb_real)((double)u[i] / scale);
        m->nominal->field(m->nominal, points.nominal, 1, x, u, b, NULL);
        for (int i = 0; i < NX; i++)
            assert_near((double)a[i * HB_STRIDE], (double)b[i * HB_STRIDE],
                        1e-3 + 1e-4 * fabs((double)a[i * HB_STRIDE]));
        hb_model_free(own);
    }
    hb_sampler_free(s);
    free(arena.base);
    hb_model_free(m);
    hb_dataset_free(d);
    /* what is hidden on purpose is not known */
    d = read_flights("hidden.h5");
    assert_false(hb_vehicles_known(d, hb_nominal_find("quadrotor")));
    hb_dataset_free(d);
}

static void test_wrong_parameters_are_answered(void **state)
{
    (void)state;
    static const struct {
        const char *average, *complaint;
    } bad[] = {
        {"nominal:quadrotor:weight=1", "no parameter 'weight', only: mass, ixx, iyy, izz, arm, torque_ratio, gravity"},
        {"nominal:quadrotor:mass", "the parameters of quadrotor are mass"},
        {"nominal:quadrotor:mass=much", "'much' is not a number"},
        {"nominal:quadrotor:torque_ratio=0", "torque_ratio"},
        {"nominal:quadrotor:mass=-1", "'mass' is -1"},
    };
    hb_dataset *d = read_flights("hidden.h5");
    hb_error err = {0};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hb_model *m = untrained(bad[i].average, d, &err);
        if (m || !strstr(err.text, bad[i].complaint))
            fail_msg("%s: '%s' does not say '%s'", bad[i].average, m ? "taken" : err.text, bad[i].complaint);
    }
    hb_model *m = untrained("nominal:quadrotor:torque_ratio=-0.02", d, &err);
    assert_non_null(m);
    assert_near(m->nominal_parameter[5], -0.02, 0);
    hb_model_free(m);
    hb_dataset_free(d);
}

/* delay, lag, a mass that nobody gave and the sense of the rotors, within their own deviations */
static void test_identification(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        bool mass_known;
    } how[] = {{"known.h5", true}, {"noisy.h5", true}};
    const hb_nominal *n = hb_nominal_find("quadrotor");

    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        hb_dataset *d = read_flights(how[i].data);
        double start[HB_NOMINAL_PARAMETERS];
        bool given[HB_NOMINAL_PARAMETERS] = {true};
        hb_identified found;
        hb_error err = {0};
        memcpy(start, n->parameter_default, sizeof start);
        start[0] = light;
        if (hb_identify(&found, d,
                        &(hb_identify_settings){.nominal = n, .start = start, .given = given, .actuators = {.nu = NU}},
                        NULL, &err))
            fail_msg("%s", err.text);
        for (int c = 0; c < NU; c++) {
            double sum = found.actuators.delay[c] + found.actuators.lag[c];
            if (!(fabs(sum - delay - lag) < 0.006) || !(fabs(found.actuators.delay[c] - delay) < 0.008) ||
                !(found.delay_deviation[c] < 0.01) || found.own[c]) {
                hb_identified_print(&found, d, stderr);
                fail_msg("%s, control %d", how[i].data, c);
            }
        }
        assert_true(found.parameter[5] < 0); /* the other way round */
        assert_near(found.parameter[0], light, 0);
        assert_near(found.factor[1], 1, 0.15);
        assert_near(found.parameter[2] / start[2], found.factor[1], 1e-9); /* one factor for all inertias */
        assert_true(found.after < 0.7 * found.before);
        hb_dataset_free(d);
    }
}

/* a mass that is wrong by a third is found, where the data do not know it */
static void test_identification_of_mass(void **state)
{
    (void)state;
    hb_dataset *d = read_flights("hidden.h5");
    const hb_nominal *n = hb_nominal_find("quadrotor");
    double start[HB_NOMINAL_PARAMETERS];
    bool given[HB_NOMINAL_PARAMETERS] = {0};
    int even[] = {0, 2, 4};
    hb_identified found;
    hb_error err = {0};

    memcpy(start, n->parameter_default, sizeof start);
    start[0] = 0.04;
    hb_identify_settings s = {.nominal = n,
                              .start = start,
                              .given = given,
                              .actuators = {.nu = NU, .delay = {0}},
                              .function = even,
                              .nfunctions = 3};
    if (hb_identify(&found, d, &s, NULL, &err))
        fail_msg("%s", err.text);
    /* one rotor of four has 3 % less: on average the vehicle seems so much heavier */
    assert_near(found.parameter[0], light / 0.9925, 0.0012);
    hb_dataset_free(d);
}

/* torques that cancel what nobody measured do not pass for torques that do nothing; and where controls are not what
 * acted inertia stays what a vehicle can have, and one is told */
static void test_inertia_is_that_of_a_vehicle(void **state)
{
    (void)state;
    /* what goes with the velocity is taken out for all it does, a turn that is ever different as far as it lasts */
    static const char *const name[] = {"blown.h5", "turned.h5"};
    static const double within[] = {0.03, 0.1};
    hb_dataset *d = NULL;
    const hb_nominal *n = hb_nominal_find("quadrotor");
    double start[HB_NOMINAL_PARAMETERS];
    bool given[HB_NOMINAL_PARAMETERS] = {true};
    hb_identified found;
    hb_error err = {0};
    char *text = NULL;
    size_t size;

    memcpy(start, n->parameter_default, sizeof start);
    start[0] = light;
    hb_identify_settings s = {.nominal = n, .start = start, .given = given, .actuators = {.nu = NU}};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        hb_dataset_free(d);
        d = read_flights(name[i]);
        if (hb_identify(&found, d, &s, NULL, &err))
            fail_msg("%s", err.text);
        if (!(fabs(found.factor[1] - 1) < within[i]))
            fail_msg("%s: inertia %g times the true one", name[i], found.factor[1]);
    }
    /* commands of another flight */
    hb_random_key key = {.seed = 8};
    for (int e = 0; e < d->nepisodes; e++)
        for (int i = 0; i < d->episode[e].nsteps * NU; i++)
            ((double *)(uintptr_t)d->episode[e].u)[i] +=
                0.3 * d->episode[e].u[i] * hb_random_normal(key, (uint64_t)(e * STEPS * NU + i));
    if (hb_identify(&found, d, &s, NULL, &err))
        fail_msg("%s", err.text);
    assert_near(found.factor[1], 3, 0.01);
    FILE *out = open_memstream(&text, &size);
    hb_identified_print(&found, d, out);
    fclose(out);
    if (!strstr(text, "as far as a vehicle can be") || !strstr(text, "warning: "))
        fail_msg("%s", text);
    free(text);
    hb_dataset_free(d);
}

/* what identify keeps in a file is what is read from it, and what the recipe takes */
static void test_actuators_are_kept(void **state)
{
    (void)state;
    const double d4[] = {0.01, 0.02, 0.03, 0.04}, l4[] = {0.05, 0.05, 0.05, 0.06};
    hb_error err = {0};
    hb_settings s;
    hb_dataset *d = read_flights("hidden.h5");

    assert_true(isnan(d->header.control_delay[0]));
    hb_dataset_free(d);
    for (int again = 0; again < 2; again++)
        assert_int_equal(hb_dataset_put_actuators(in_folder("hidden.h5"), NU, d4, l4, &err), 0);
    d = read_flights("hidden.h5");
    for (int i = 0; i < NU; i++) {
        assert_near(d->header.control_delay[i], d4[i], 0);
        assert_near(d->header.control_lag[i], l4[i], 0);
    }
    hb_settings_default(&s);
    strcpy(s.average, "nominal:quadrotor");
    assert_int_equal(hb_recipe_choose(&s, d, NULL, NULL, &err), 0);
    assert_string_equal(s.delay, "0.01,0.02,0.03,0.04");
    assert_string_equal(s.lag, "0.05,0.05,0.05,0.06");
    hb_dataset_free(d);
    assert_true(hb_dataset_put_actuators("/nowhere.h5", NU, d4, l4, &err) < 0);
}

static void test_choices(void **state)
{
    (void)state;
    hb_dataset *logs = read_flights("known.h5"), *simulated = read_flights("hidden.h5");
    hb_error err = {0};
    hb_settings s;

    /* logs with physics: rollouts, no positions, actuators; explicit values stay, also where they are the defaults */
    hb_settings_default(&s);
    strcpy(s.average, "nominal:quadrotor");
    assert_int_equal(hb_settings_set(&s, "functions", "16", &err), 0);
    if (hb_recipe_choose(&s, logs, NULL, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(s.functions, 16);
    assert_string_equal(s.inputs, "-x,-y,-z");
    assert_int_equal(s.rollout, 12);
    assert_int_equal(s.weighting, HB_WEIGHT_CHANGE);
    assert_int_equal(s.nb, 8);
    assert_int_equal(s.fit, HB_FIT_BY_PRIOR);
    assert_int_equal(s.prior_every, 250);
    assert_int_equal(s.headings, -1); /* they turn as they fly */
    assert_true(*s.delay || *s.lag);
    assert_non_null(strstr(s.average, "torque_ratio=-"));
    /* twice gives the same: nothing is identified again */
    hb_settings again = s;
    assert_int_equal(hb_recipe_choose(&again, logs, NULL, NULL, &err), 0);
    assert_string_equal(again.delay, s.delay);

    /* the same with the nose held north */
    for (int e = 0; e < logs->nepisodes; e++)
        for (int row = 0; row <= logs->episode[e].nsteps; row++) {
            double *q = (double *)(uintptr_t)logs->episode[e].x + row * NX + 6;
            q[2] = 0;
            q[3] = sqrt(1 - q[0] * q[0] - q[1] * q[1]);
        }
    assert_int_equal(hb_recipe_choose(&again, logs, NULL, NULL, &err), 0);
    assert_int_equal(again.headings, HB_HEADINGS_ANY);
    assert_int_equal(hb_settings_set(&again, "headings", "logged", &err), 0);
    assert_int_equal(hb_recipe_choose(&again, logs, NULL, NULL, &err), 0);
    assert_int_equal(again.headings, HB_HEADINGS_LOGGED);

    /* a simulator's: single steps, nothing identified */
    hb_settings_default(&s);
    strcpy(s.average, "nominal:quadrotor");
    strcpy(s.delay, "");
    assert_int_equal(hb_settings_set(&s, "delay", "0", &err), 0);
    assert_int_equal(hb_recipe_choose(&s, simulated, NULL, NULL, &err), 0);
    assert_int_equal(s.rollout, 1);
    assert_int_equal(s.headings, -1);
    assert_string_equal(s.average, "nominal:quadrotor");
    assert_true(s.learning_rate == 0.015);

    /* no physics: horizontal positions are left out, height is not */
    hb_settings_default(&s);
    assert_int_equal(hb_recipe_choose(&s, simulated, NULL, NULL, &err), 0);
    assert_string_equal(s.inputs, "-x,-y");
    assert_int_equal(s.weighting, HB_WEIGHT_EACH);
    assert_int_equal(s.refinements, 1);

    /* the paper's kinds are left alone */
    hb_settings paper;
    hb_settings_default(&paper);
    paper.kind = HB_KIND_FE_NODE;
    hb_settings before = paper;
    assert_int_equal(hb_recipe_choose(&paper, logs, NULL, NULL, &err), 0);
    assert_memory_equal(&paper, &before, sizeof paper);
    hb_dataset_free(logs);
    hb_dataset_free(simulated);
}

/* many states, each a sine that changes by so much of its deviation in a period */
static void write_waves(const char *path, double change)
{
    enum { MANY = HB_SMALL_STATE + 1, SAMPLES = 300 };
    char name[MANY][HB_NAME_SIZE], unit[MANY][HB_NAME_SIZE] = {0}, hidden[1][HB_NAME_SIZE] = {"phase"};
    hb_dataset_header h = {.nx = MANY,
                           .dt = 0.05,
                           .plant = "waves",
                           .state_name = name,
                           .state_unit = unit,
                           .nhidden = 1,
                           .hidden_name = hidden};
    hb_dataset_writer *w = NULL;
    hb_error err = {0};
    static double x[(SAMPLES + 1) * MANY];

    for (int i = 0; i < MANY; i++)
        snprintf(name[i], sizeof name[i], "s%d", i);
    if (hb_dataset_writer_new(&w, path, &h, &err))
        fail_msg("%s", err.text);
    for (int f = 0; f < 4; f++) {
        double phase = f;
        for (int k = 0; k <= SAMPLES; k++)
            for (int i = 0; i < MANY; i++)
                x[k * MANY + i] = sin(2 * asin(change / 2) * k + i + phase);
        if (hb_dataset_writer_append(w, f, SAMPLES, x, NULL, NULL, &phase, &err))
            fail_msg("%s", err.text);
    }
    assert_int_equal(hb_dataset_writer_close(w, &err), 0);
}

/* increments are learned directly where states settle within a period, as an ant's joints do, and not of slower ones */
static void test_settling_states(void **state)
{
    (void)state;
    static const double change[] = {0.42, 0.1};
    static const char name[] = "waves.h5";

    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        hb_settings s;
        hb_error err = {0};
        write_waves(in_folder(name), change[i]);
        hb_dataset *d = read_flights(name);
        hb_settings_default(&s);
        if (hb_recipe_choose(&s, d, NULL, NULL, &err))
            fail_msg("%s", err.text);
        assert_int_equal(s.integration == HB_DIRECT, i == 0);
        hb_dataset_free(d);
        unlink(in_folder(name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vehicles_of_two_sizes_look_alike),
        cmocka_unit_test(test_wrong_parameters_are_answered),
        cmocka_unit_test(test_identification),
        cmocka_unit_test(test_identification_of_mass),
        cmocka_unit_test(test_inertia_is_that_of_a_vehicle),
        cmocka_unit_test(test_actuators_are_kept),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_settling_states),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
