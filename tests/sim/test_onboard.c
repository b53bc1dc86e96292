/* Controllers on board, and what acts on a vehicle from outside, where the answer is known on paper: INDI and L1 take
 * away what is constant, to the noise of arithmetic, on both levels; a PID does through its integrals; turbulence has
 * the deviations of its table, a load swings with a pendulum's period, a gust has its shape. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/check.h"
#include "sim/airframe.h"
#include "sim/flight.h"
#include "sim/gains.h"
#include "sim/surroundings.h"

static int pid(hb_loop **ret, const hb_plant_type *plant, const double *factor, hb_error *err)
{
    return hb_loop_pid(ret, plant, hb_gains_pid, factor, err);
}

typedef int make(hb_loop **ret, const hb_plant_type *plant, const double *factor, hb_error *err);

/* Hovers for so many seconds with a weather; returns the distance from the target over the last second. */
static double hover(make *controller, const hb_plant_type *type, const char *weather, double seconds, double *heading)
{
    double low[HB_PLANT_PARAMETERS], high[HB_PLANT_PARAMETERS];
    hb_link link = {0};
    hb_error err = {0};
    hb_plant *p;
    hb_loop *l;
    hb_flight_record record;
    hb_flight_summary sum;
    hb_flight_settings f = {.seconds = seconds, .has_target = true, .epoch_us = 1000000};

    assert_int_equal(hb_plant_new(&p, type, &err), 0);
    memcpy(low, p->parameter, sizeof low);
    memcpy(high, p->parameter, sizeof high);
    assert_int_equal(hb_weather_read(type, weather, low, high, &link, &err), 0);
    for (int i = 0; i < type->nparameters; i++)
        assert_int_equal(hb_plant_set(p, i, low[i], &err), 0);
    assert_int_equal(controller(&l, type, NULL, &err), 0);
    memcpy(f.target, type->target, (size_t)type->nx * sizeof *f.target);
    memcpy(f.start, f.target, sizeof f.start);
    f.dt = 1 / l->rate;
    assert_int_equal(hb_flight_run(p, l, &f, &record, &err), 0);
    assert_int_equal(hb_flight_summarise(type, &f, &record, &sum, &err), 0);
    assert_false(sum.crashed);
    double axis[3][3];
    hb_airframe_axes(record.x + (size_t)record.nsteps * (size_t)type->nx + HB_QX, axis);
    *heading = fabs(atan2(axis[0][1], axis[0][0]));
    hb_flight_record_free(&record);
    l->free(l);
    hb_plant_free(p);
    return sum.settled_m;
}

static void test_constant_things_are_cancelled(void **state)
{
    make *const all[] = {hb_loop_indi, hb_loop_l1, pid};
    static const struct {
        const hb_plant_type *type;
        const char *weather;
    } on[] = {{&hb_plant_quadrotor, "torque_x=0.4,torque_y=-0.2"},
              {&hb_plant_quadrotor, "force_x=0.1,force_z=-0.1"},
              {&hb_plant_quadrotor, "mass=0.035"},
              {&hb_plant_quadrotor, "rotor1=0.8"},
              {&hb_plant_multirotor, "force_x=0.1,force_z=-0.1"},
              {&hb_plant_multirotor, "load=1.3"}};
    (void)state;

    for (size_t c = 0; c < sizeof all / sizeof *all; c++)
        for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
            double heading, off = hover(all[c], on[i].type, on[i].weather, all[c] == pid ? 40 : 15, &heading);
            if (!(off < 1e-3))
                fail_msg("controller %zu, %s: %g m off", c, on[i].weather, off);
        }
}

static int l1_without_adaptation(hb_loop **ret, const hb_plant_type *plant, const double *factor, hb_error *err)
{
    double none[HB_NGAINS];
    (void)factor;

    for (int i = 0; i < HB_NGAINS; i++)
        none[i] = strncmp(hb_gains_name[i], "filter", 6) == 0 ? 0 : 1;
    return hb_loop_l1(ret, plant, none, err);
}

/* Without adaptation a force leaves what it takes to stretch the position loop by: force / position. With it, next to
 * nothing, and within a second. */
static void test_adaptation_takes_the_offset_away(void **state)
{
    double heading, plain = hover(l1_without_adaptation, &hb_plant_quadrotor, "force_x=0.1", 8, &heading);
    double expected = 0.1 * hb_airframe_gravity / hb_gains_l1[0].position;
    (void)state;

    assert_true(fabs(plain / expected - 1) < 0.02);
    assert_true(hover(hb_loop_l1, &hb_plant_quadrotor, "force_x=0.1", 2, &heading) < 0.2 * plain);
    assert_true(hover(hb_loop_indi, &hb_plant_quadrotor, "force_x=0.1", 2, &heading) < 0.2 * plain);
}

/* Attitude as a quaternion and as axes are the same. */
static void test_attitude_of_force(void **state)
{
    const double force[3] = {2, -3, 9};
    double q[4], axis[3][3], error[3];
    (void)state;

    hb_airframe_attitude(force, 0.4, q);
    hb_airframe_axes(q, axis);
    assert_true(fabs(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3] - 1) < 1e-12);
    hb_airframe_attitude_error(axis, force, 0.4, error);
    for (int i = 0; i < 3; i++) {
        assert_true(fabs(error[i]) < 1e-12);
        assert_true(fabs(axis[2][i] - force[i] / sqrt(94)) < 1e-12);
    }
}

static void test_turbulence_has_its_deviations(void **state)
{
    enum { N = 400000 };
    double a[HB_NSURROUNDINGS] = {[HB_DRYDEN] = 10, [HB_PULSE_LENGTH] = 1, [HB_SWING_LENGTH] = 1};
    const double still[3] = {0};
    double sum[3] = {0}, squares[3] = {0}, air[3], push[3];
    hb_draws d = {.key = {.seed = 3}};
    hb_surroundings s;
    (void)state;

    hb_surroundings_start(&s, a, still, still, &d);
    for (int k = 0; k < N; k++) {
        air[0] = 5, air[1] = air[2] = 0;
        hb_surroundings_step(&s, a, 0.1 * k, 0.1, still, still, &d, air, push);
        air[0] -= 5;
        for (int i = 0; i < 3; i++) {
            sum[i] += air[i] / N;
            squares[i] += air[i] * air[i] / N;
        }
    }
    /* of a wind of 10 m/s at 6 m: 1.96, 1.96 and 1 m/s; scales of 4.5 s: 40000 s are 8800 of them */
    const double expected[3] = {1.96, 1.96, 1};
    for (int i = 0; i < 3; i++) {
        assert_true(fabs(sum[i]) < 0.1);
        assert_true(fabs(sqrt(squares[i]) / expected[i] - 1) < 0.05);
        assert_true(push[i] == 0);
    }
}

static void test_gust_and_swell(void **state)
{
    double a[HB_NSURROUNDINGS] = {[HB_PULSE_X] = 6, [HB_PULSE_TIME] = 3,   [HB_PULSE_LENGTH] = 1,
                                  [HB_SWELL] = 0.5, [HB_SWING_LENGTH] = 1, [HB_FORCE_Z] = -0.1};
    const double still[3] = {0};
    double air[3] = {0, 2, 0}, push[3];
    hb_draws d = {.key = {.seed = 3}};
    hb_surroundings s;
    (void)state;

    hb_surroundings_start(&s, a, still, still, &d);
    hb_surroundings_step(&s, a, 3.25, 0.001, still, still, &d, air, push);
    assert_true(fabs(air[0] - 3) < 1e-9);
    assert_true(fabs(air[1] - 2 * (1 + 0.5 * sin(3.25))) < 1e-9);
    assert_true(fabs(push[2] + 0.981) < 1e-9);
    air[0] = 0;
    hb_surroundings_step(&s, a, 4.001, 0.001, still, still, &d, air, push);
    assert_true(air[0] == 0);
}

/* A load below a vehicle that stands still: its weight at rest, and a pendulum's period of 2 pi sqrt(l / g). */
static void test_load_swings(void **state)
{
    double a[HB_NSURROUNDINGS] = {[HB_PULSE_LENGTH] = 1, [HB_SWING] = 0.15, [HB_SWING_LENGTH] = 0.4};
    const double still[3] = {0}, h = 0.001;
    double air[3] = {0}, push[3], crossed[2] = {0};
    hb_draws d = {.key = {.seed = 3}};
    hb_surroundings s;
    int crossings = 0;
    (void)state;

    hb_surroundings_start(&s, a, still, still, &d);
    hb_surroundings_step(&s, a, 0, h, still, still, &d, air, push);
    assert_true(fabs(push[2] + 0.15 * 9.81) < 1e-6);
    s.load_velocity[0] = 0.1;
    for (int k = 0; k < 4000 && crossings < 2; k++) {
        double before = s.load[0];
        hb_surroundings_step(&s, a, h * k, h, still, still, &d, air, push);
        if (before < 0 && s.load[0] >= 0)
            crossed[crossings++] = h * k;
    }
    assert_int_equal(crossings, 2);
    assert_true(fabs(crossed[1] - crossed[0] - 2 * M_PI * sqrt(0.4 / 9.81)) < 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant_things_are_cancelled),
        cmocka_unit_test(test_adaptation_takes_the_offset_away),
        cmocka_unit_test(test_attitude_of_force),
        cmocka_unit_test(test_turbulence_has_its_deviations),
        cmocka_unit_test(test_gust_and_swell),
        cmocka_unit_test(test_load_swings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
