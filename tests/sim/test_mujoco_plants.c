/* The plants of hilbert-sim against closed forms, and the MuJoCo quadrotor against the analytic one beside this file,
 * which shares no code with it. Tolerances are stated where they are used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/check.h"
#include "sim/mujoco.h"
#include "sim/plant.h"
#include "plant_quadrotor.h"
#include "plant_vanderpol.h"
#include "sim/policy.h"

enum { X, VX, Y, VY, Z, VZ, QX, QY, QZ, QW, WX, WY, WZ, NX };

static const double g = 9.81;
static const double level[NX] = {[Z] = 1, [QW] = 1};

static void set(hb_plant *p, const char *name, double value)
{
    hb_error err = {0};
    int index = hb_plant_parameter_find(p->type, name, &err);

    assert_true(index >= 0);
    assert_int_equal(hb_plant_set(p, index, value, &err), 0);
}

static hb_plant *plant(const hb_plant_type *type)
{
    hb_plant *p = NULL;
    hb_error err = {0};

    if (hb_plant_new(&p, type, &err))
        fail_msg("%s", err.text);
    return p;
}

static void start_at(hb_plant *p, const double *x)
{
    hb_error err = {0};

    if (hb_plant_reset(p, x, (hb_random_key){.seed = 1}, &err))
        fail_msg("%s", err.text);
}

static void fly(hb_plant *p, const double *u, int periods)
{
    for (int i = 0; i < periods; i++)
        hb_plant_step(p, u, 0.04);
}

static void weight_in_thrust_hovers(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    double x[NX], u[4];
    (void)state;

    for (int k = 0; k < 3; k++) {
        double mass = 0.02 + 0.006 * k;
        for (int i = 0; i < 4; i++)
            u[i] = mass * g / 4;
        set(p, "mass", mass);
        start_at(p, level);
        fly(p, u, 50);
        hb_plant_state(p, x);
        for (int i = 0; i < NX; i++)
            assert_near(x[i], level[i], 1e-9);
    }
    /* and the trim is the nominal vehicle's weight */
    assert_near(4 * hb_plant_quadrotor.control_trim[0], 0.027 * g, 1e-12);
    hb_plant_free(p);
}

static void without_thrust_it_falls(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    double x[NX], start[NX];
    (void)state;

    memcpy(start, level, sizeof start);
    start[VX] = 0.7;
    start[VZ] = 2;
    for (int i = 0; i < 4; i++)
        set(p, (const char *[]){"rotor0", "rotor1", "rotor2", "rotor3"}[i], 0);
    start_at(p, start);
    fly(p, hb_plant_quadrotor.control_trim, 25);
    hb_plant_state(p, x);
    assert_near(x[X], 0.7, 1e-9);
    assert_near(x[Z], 1 + 2 - g / 2, 1e-9);
    assert_near(x[VZ], 2 - g, 1e-9);
    hb_plant_free(p);
}

static void torques_turn_the_right_way(void **state)
{
    static const double inertia[3] = {1.4e-5, 1.4e-5, 2.17e-5}, delta = 0.002, t = 0.04;
    static const double sign[3][4] = {{1, 1, -1, -1}, {-1, 1, 1, -1}, {-1, 1, -1, 1}};
    const double lever[3] = {0.0397 / sqrt(2), 0.0397 / sqrt(2), 7.94e-12 / 3.16e-10};
    hb_plant *p = plant(&hb_plant_quadrotor);
    (void)state;

    for (int axis = 0; axis < 3; axis++) {
        double x[NX], u[4];
        for (int i = 0; i < 4; i++)
            u[i] = hb_plant_quadrotor.control_trim[i] + delta * sign[axis][i];
        start_at(p, level);
        fly(p, u, 1);
        hb_plant_state(p, x);
        double rate = 4 * delta * lever[axis] / inertia[axis] * t;
        for (int i = 0; i < 3; i++) {
            assert_near(x[WX + i], i == axis ? rate : 0, 1e-7 * rate);
            /* constant acceleration from rest about one axis: half the rate times t is the angle */
            assert_near(x[QX + i], i == axis ? sin(rate * t / 4) : 0, 1e-7);
        }
        assert_near(x[QW], cos(rate * t / 4), 1e-7);
    }
    hb_plant_free(p);
}

/* Rolled, pitched or turned by 0.5 rad, thrust points where the rotation says; rates are the body's. */
static void frames_and_quaternion_order(void **state)
{
    static const double angle = 0.5;
    hb_plant *p = plant(&hb_plant_quadrotor);
    const double thrust = 0.4, a = thrust / 0.027;
    const double u[4] = {thrust / 4, thrust / 4, thrust / 4, thrust / 4};
    const double expected[3][3] = {{0, -sin(angle), cos(angle)}, {sin(angle), 0, cos(angle)}, {0, 0, 1}};
    (void)state;

    for (int axis = 0; axis < 3; axis++) {
        double x[NX], start[NX];
        memcpy(start, level, sizeof start);
        start[QX + axis] = sin(angle / 2);
        start[QW] = cos(angle / 2);
        start_at(p, start);
        fly(p, u, 1);
        hb_plant_state(p, x);
        for (int i = 0; i < 3; i++)
            assert_near(x[VX + 2 * i], (a * expected[axis][i] - (i == 2 ? g : 0)) * 0.04, 1e-9);
    }

    /* heading north (yaw 90 degrees), a rate about the body's x axis tips the thrust along the world's x axis:
     * body x is world y, so z tips toward world +x */
    double x[NX], start[NX] = {[Z] = 1, [QZ] = sin(M_PI / 4), [QW] = cos(M_PI / 4), [WX] = 1};
    start_at(p, start);
    fly(p, u, 1);
    hb_plant_state(p, x);
    double rolled[4] = {cos(M_PI / 4) * sin(0.02), sin(M_PI / 4) * sin(0.02), sin(M_PI / 4) * cos(0.02),
                        cos(M_PI / 4) * cos(0.02)};
    for (int i = 0; i < 4; i++)
        assert_near(x[QX + i], rolled[i], 1e-9);
    assert_true(x[VX] > 0);
    assert_near(x[VY], 0, 1e-9);
    hb_plant_free(p);
}

/* Torque-free tumbling about an axis that is none of the principal ones: energy and angular momentum stay. */
static void tumbling_keeps_energy_and_momentum(void **state)
{
    static const double inertia[3] = {1.4e-5, 1.4e-5, 2.17e-5};
    hb_plant *p = plant(&hb_plant_quadrotor);
    double x[NX] = {[Z] = 5, [VX] = 1, [VZ] = 3, [QW] = 1, [WX] = 4, [WY] = -2, [WZ] = 7}, first[5];
    (void)state;

    for (int i = 0; i < 4; i++)
        set(p, (const char *[]){"rotor0", "rotor1", "rotor2", "rotor3"}[i], 0);
    start_at(p, x);
    for (int k = 0; k <= 50; k++) {
        hb_plant_state(p, x);
        double q[4] = {x[QX], x[QY], x[QZ], x[QW]}, now[5] = {0};
        double l[3] = {inertia[0] * x[WX], inertia[1] * x[WY], inertia[2] * x[WZ]};
        /* to the world: l + 2 q x (q x l + qw l) */
        double t[3] = {q[1] * l[2] - q[2] * l[1] + q[3] * l[0], q[2] * l[0] - q[0] * l[2] + q[3] * l[1],
                       q[0] * l[1] - q[1] * l[0] + q[3] * l[2]};
        now[0] = l[0] + 2 * (q[1] * t[2] - q[2] * t[1]);
        now[1] = l[1] + 2 * (q[2] * t[0] - q[0] * t[2]);
        now[2] = l[2] + 2 * (q[0] * t[1] - q[1] * t[0]);
        for (int i = 0; i < 3; i++) {
            now[3] += 0.5 * inertia[i] * x[WX + i] * x[WX + i];
            now[4] += 0.5 * 0.027 * x[VX + 2 * i] * x[VX + 2 * i];
        }
        now[4] += 0.027 * g * x[Z];
        if (k == 0)
            memcpy(first, now, sizeof first);
        /* 2 s. MuJoCo's Runge-Kutta turns the attitude by the mean of the stages' rates, without the commutator of
         * rotations: an error of h^3 |w x w'| / 12 a step, |w x w'| about 100, so 2e-5 in 2000 steps. Rates and
         * velocities do not depend on attitude here: their energies stay to 1e-9 */
        for (int i = 0; i < 5; i++)
            assert_near(now[i], first[i], i < 3 ? 2e-5 * 1.7e-4 : 1e-9 * first[i]);
        fly(p, hb_plant_quadrotor.control_trim, 1);
    }
    hb_plant_free(p);
}

static void mass_and_payload_change_in_flight(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    const double *u = hb_plant_quadrotor.control_trim;
    double x[NX];
    (void)state;

    start_at(p, level);
    fly(p, u, 5);
    set(p, "mass", 0.022);
    fly(p, u, 5);
    hb_plant_state(p, x);
    double a = 0.027 * g / 0.022 - g;
    assert_near(x[VZ], a * 0.2, 1e-9);
    assert_near(x[Z], 1 + a * 0.02, 1e-9);
    /* picked up, the payload makes up for it; dropped, it does no longer */
    set(p, "payload", 0.005);
    fly(p, u, 5);
    hb_plant_state(p, x);
    assert_near(x[VZ], a * 0.2, 1e-9);
    set(p, "payload", 0);
    fly(p, u, 5);
    hb_plant_state(p, x);
    assert_near(x[VZ], a * 0.4, 1e-9);
    hb_plant_free(p);
}

static void wind_carries_it_along(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    const double drag = 0.02, wind = 3, t = 2;
    double x[NX];
    (void)state;

    set(p, "drag", drag);
    set(p, "wind_y", wind);
    start_at(p, level);
    fly(p, hb_plant_quadrotor.control_trim, 50);
    hb_plant_state(p, x);
    /* the force is held over each millisecond: right to 1e-3 of the wind */
    assert_near(x[VY], wind * (1 - exp(-drag * t / 0.027)), 1e-3 * wind);
    assert_near(x[VX], 0, 1e-9);
    hb_plant_free(p);
}

static void commands_wait_for_the_delay(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    const double more[4] = {0.08, 0.08, 0.08, 0.08};
    double x[NX];
    (void)state;

    set(p, "delay", 0.053);
    start_at(p, level);
    fly(p, hb_plant_quadrotor.control_trim, 2);
    fly(p, more, 3);
    hb_plant_state(p, x);
    assert_near(x[VZ], (4 * 0.08 / 0.027 - g) * (0.12 - 0.053), 1e-9);
    hb_plant_free(p);
}

/* v = a (t - lag (1 - e^(-t / lag))) after a step of thrust; the lag is advanced before each millisecond's force */
static void rotors_follow_with_their_lag(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    const double more[4] = {0.08, 0.08, 0.08, 0.08}, lag = 0.05, t = 0.12, a = 4 * 0.08 / 0.027 - g;
    double x[NX], made[4];
    (void)state;

    set(p, "lag", lag);
    start_at(p, level);
    fly(p, more, 3);
    hb_plant_state(p, x);
    assert_near(x[VZ], a * (t - lag * (1 - exp(-t / lag))), 5e-4 * a);
    hb_plant_control(p, HB_REPORT_MADE, more, made);
    assert_near(made[2], 0.08 + (hb_plant_quadrotor.control_trim[2] - 0.08) * exp(-t / lag), 1e-12);
    hb_plant_free(p);
}

static void the_control_in_force_is_the_delayed_one(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    const double old[4] = {0.07, 0.07, 0.07, 0.07}, new[4] = {0.08, 0.08, 0.08, 0.08};
    double u[4];
    (void)state;

    start_at(p, level);
    hb_plant_control(p, HB_REPORT_IN_FORCE, new, u);
    assert_near(u[0], 0.08, 0);
    set(p, "delay", 0.05);
    fly(p, old, 2);
    hb_plant_step(p, new, 0.049);
    hb_plant_control(p, HB_REPORT_IN_FORCE, new, u);
    assert_near(u[0], 0.07, 0);
    hb_plant_step(p, new, 0.001);
    hb_plant_control(p, HB_REPORT_IN_FORCE, new, u);
    assert_near(u[0], 0.08, 0);
    hb_plant_control(p, HB_REPORT_COMMAND, old, u);
    assert_near(u[0], 0.07, 0);
    hb_plant_free(p);
}

/* thrust F through a point d beside the centre of mass turns the body with F d / I */
static void an_offset_centre_of_mass_turns_it(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    const double force = 0.027 * g;
    double x[NX];
    (void)state;

    set(p, "com_x", 10);
    set(p, "com_y", -4);
    start_at(p, level);
    hb_plant_step(p, hb_plant_quadrotor.control_trim, 0.004);
    hb_plant_state(p, x);
    /* torque = -com x F e_z = F (-com_y, com_x, 0) */
    assert_near(x[WX], force * 0.004 / 1.4e-5 * 0.004, 1e-3);
    assert_near(x[WY], force * 0.010 / 1.4e-5 * 0.004, 1e-3);
    assert_near(x[WZ], 0, 1e-3);
    hb_plant_free(p);
}

static void batteries_sag_and_the_ground_lifts(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    double x[NX], low[NX] = {[Z] = 0.05, [QW] = 1}, ratio = 0.023 / 4 / 0.05;
    (void)state;

    set(p, "sag", 0.2);
    set(p, "sag_time", 4);
    start_at(p, level);
    fly(p, hb_plant_quadrotor.control_trim, 50);
    hb_plant_state(p, x);
    /* v' = -g 0.2 t / 4 for two seconds, with the charge of each period's start */
    assert_near(x[VZ], -g * 0.2 / 4 * 2 * (2 - 0.04) / 2, 1e-9);
    set(p, "sag", 0);
    set(p, "ground", 1);
    start_at(p, low);
    hb_plant_step(p, hb_plant_quadrotor.control_trim, 0.001);
    hb_plant_state(p, x);
    assert_near(x[VZ], 0.001 * g * (1 / (1 - ratio * ratio) - 1), 1e-9);
    hb_plant_free(p);
}

static void each_sensor_has_its_own_error(void **state)
{
    enum { N = 4000 };
    static const char *const kind[4] = {"position", "velocity", "attitude", "rates"};
    static const double size[4] = {0.005, 0.03, 0.5, 0.05}, scale[4] = {1, 1, M_PI / 360, 1};
    static const int index[4] = {Y, VZ, QX, WZ};
    (void)state;

    for (int i = 0; i < 4; i++) {
        hb_plant *p = plant(&hb_plant_quadrotor);
        char name[40];
        double x[NX], sum = 0, square = 0;
        snprintf(name, sizeof name, "noise_%s", kind[i]);
        set(p, name, size[i]);
        snprintf(name, sizeof name, "bias_%s", kind[i]);
        set(p, name, 4 * size[i]);
        start_at(p, level);
        for (int k = 0; k < N; k++) {
            hb_plant_observe(p, x);
            sum += x[index[i]] / N;
            square += pow(x[index[i]], 2) / N;
        }
        assert_near(sqrt(square - sum * sum), size[i] * scale[i], 0.05 * size[i] * scale[i]);
        /* one draw of the constant error: not zero, and the same for the whole flight */
        assert_true(fabs(sum) > 0.1 * size[i] * scale[i] && fabs(sum) < 16 * size[i] * scale[i]);
        hb_plant_free(p);
    }
}

/* how often it is looked at does not change the wind */
static void gusts_do_not_depend_on_sensors(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    double x[2][NX], seen[NX];
    (void)state;

    set(p, "drag", 0.01);
    set(p, "gust", 1);
    set(p, "noise", 1);
    for (int k = 0; k < 2; k++) {
        start_at(p, level);
        for (int i = 0; i < 20; i++) {
            fly(p, hb_plant_quadrotor.control_trim, 1);
            for (int j = 0; j < 5 * k; j++)
                hb_plant_observe(p, seen);
        }
        hb_plant_state(p, x[k]);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    hb_plant_free(p);
}

static void sensor_noise_is_what_it_says(void **state)
{
    enum { N = 4000 };
    hb_plant *p = plant(&hb_plant_quadrotor);
    double sum[4] = {0}, x[NX];
    (void)state;

    set(p, "noise", 2);
    start_at(p, level);
    for (int k = 0; k < N; k++) {
        hb_plant_observe(p, x);
        sum[0] += pow(x[Y], 2);
        sum[1] += pow(x[VZ], 2);
        sum[2] += pow(2 * x[QX], 2); /* the angle about x, where small */
        sum[3] += pow(x[WZ], 2);
        assert_near(x[QX] * x[QX] + x[QY] * x[QY] + x[QZ] * x[QZ] + x[QW] * x[QW], 1, 1e-12);
    }
    const double expected[4] = {0.004, 0.04, 0.6 * M_PI / 180, 0.06};
    /* a deviation from N draws is known to about 1 / sqrt(2 N) = 1.1 %; 5 % is four of those */
    for (int i = 0; i < 4; i++)
        assert_near(sqrt(sum[i] / N), expected[i], 0.05 * expected[i]);
    /* the plant itself does not move */
    hb_plant_state(p, x);
    assert_near(x[Y], 0, 0);
    hb_plant_free(p);
}

static void gusts_have_their_size(void **state)
{
    enum { N = 5000 };
    hb_plant *p = plant(&hb_plant_quadrotor);
    const double drag = 0.2, gust = 1.5, duration = 0.5, rate = drag / 0.1; /* at a mass of 0.1 kg: 1/s */
    double x[NX], sum = 0, u[4] = {0.1 * g / 4, 0.1 * g / 4, 0.1 * g / 4, 0.1 * g / 4};
    (void)state;

    for (int i = 0; i < 4; i++)
        u[i] = fmin(u[i], 0.15); /* it sinks; sideways is what counts */
    set(p, "mass", 0.1);
    set(p, "drag", drag);
    set(p, "gust", gust);
    set(p, "gust_time", duration);
    start_at(p, level);
    for (int k = 0; k < N; k++) {
        hb_plant_step(p, u, 0.1);
        hb_plant_state(p, x);
        sum += (x[VX] * x[VX] + x[VY] * x[VY]) / 2;
    }
    /* v' = rate (gust - v) filters the gusts: variance gust^2 rate / (rate + 1 / duration). 500 s hold about 500
     * independent gusts on each of two axes: 4.5 % on the variance; 20 % is four of those */
    double expected = gust * gust * rate / (rate + 1 / duration);
    assert_near(sum / N, expected, 0.2 * expected);
    hb_plant_free(p);
}

/* a period around hover, of the plant and of the equations */
static void step_both(hb_plant *p, plant_quadrotor *body, double *x, hb_draws *d)
{
    double u[4];

    for (int i = 0; i < 4; i++)
        u[i] = body->mass * g / 4 + hb_draw_uniform(d, -0.01, 0.01);
    hb_plant_step(p, u, 0.04);
    plant_quadrotor_step(body, x, u, 0.04);
}

/* Random vehicles on random controls: one period and one second. */
static void mujoco_agrees_with_the_analytic_body(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    hb_draws d = {.key = {.seed = 5}};
    double one_step = 0, one_second = 0;
    (void)state;

    for (int k = 0; k < 30; k++) {
        plant_quadrotor body = plant_quadrotor_crazyflie;
        double scale = hb_draw_uniform(&d, 0.7, 1.4), x[NX], y[NX];
        hb_error err = {0};
        body.mass = hb_draw_uniform(&d, 0.02, 0.032);
        body.drag = hb_draw_uniform(&d, 0, 0.01);
        set(p, "mass", body.mass);
        set(p, "inertia", scale);
        set(p, "drag", body.drag);
        for (int i = 0; i < 3; i++) {
            body.inertia[i] *= scale;
            body.wind[i] = hb_draw_uniform(&d, -2, 2);
            set(p, (const char *[]){"wind_x", "wind_y", "wind_z"}[i], body.wind[i]);
        }
        for (int i = 0; i < 4; i++) {
            body.efficiency[i] = hb_draw_uniform(&d, 0.85, 1);
            set(p, (const char *[]){"rotor0", "rotor1", "rotor2", "rotor3"}[i], body.efficiency[i]);
        }
        assert_int_equal(hb_plant_quadrotor.start(p, &d, x, &err), 0);
        start_at(p, x);
        for (int step = 0; step < 25; step++) {
            step_both(p, &body, x, &d);
            hb_plant_state(p, y);
            double worst = 0;
            for (int i = 0; i < NX; i++)
                worst = fmax(worst, fabs(y[i] - x[i]));
            one_step = fmax(one_step, step == 0 ? worst : 0);
            one_second = fmax(one_second, worst);
        }
    }
    print_message("largest difference (SI units): %.2g after 40 ms, %.2g after 1 s\n", one_step, one_second);
    /* drag is held over each millisecond in MuJoCo, and tumbling vehicles magnify what little that makes */
    assert_true(one_step < 1e-4);
    assert_true(one_second < 2e-2);
    hb_plant_free(p);
}

/* The same without drag, whose treatment is the only real difference. */
static void mujoco_agrees_without_drag_to_rounding(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    hb_draws d = {.key = {.seed = 6}};
    double worst = 0;
    (void)state;

    for (int k = 0; k < 30; k++) {
        plant_quadrotor body = plant_quadrotor_crazyflie;
        double x[NX], y[NX];
        hb_error err = {0};
        assert_int_equal(hb_plant_quadrotor.start(p, &d, x, &err), 0);
        start_at(p, x);
        for (int step = 0; step < 25; step++) {
            step_both(p, &body, x, &d);
        }
        hb_plant_state(p, y);
        for (int i = 0; i < NX; i++)
            worst = fmax(worst, fabs(y[i] - x[i]));
    }
    print_message("largest difference (SI units): %.2g after 1 s\n", worst);
    assert_true(worst < 1e-4);
    hb_plant_free(p);
}

static void exploration_reaches_far(void **state)
{
    hb_plant *p = plant(&hb_plant_quadrotor);
    double tilt = 0, speed = 0, rate = 0;
    long n = 0;
    (void)state;

    for (int k = 0; k < 40; k++) {
        hb_draws d = {.key = {.seed = 7, .stream = (uint64_t)k}};
        hb_policy_memory m = {.draws.key = {.seed = 8, .stream = (uint64_t)k}, .dt = 0.04};
        double x[NX], u[4];
        hb_error err = {0};
        hb_plant_quadrotor.start(p, &d, x, &err);
        start_at(p, x);
        hb_policy_explore.start(&m, p);
        for (int i = 0; i < 125 && !hb_plant_failure(p); i++, n++) {
            hb_policy_explore.act(&m, p, x, u);
            hb_plant_step(p, u, 0.04);
            hb_plant_state(p, x);
            if (!hb_policy_explore.keep(p, x))
                break;
            tilt = fmax(tilt, acos(1 - 2 * (x[QX] * x[QX] + x[QY] * x[QY])) * 180 / M_PI);
            speed = fmax(speed, hypot(hypot(x[VX], x[VY]), x[VZ]));
            rate = fmax(rate, hypot(hypot(x[WX], x[WY]), x[WZ]));
        }
    }
    assert_true(tilt > 45);
    assert_true(speed > 2);
    assert_true(rate > 4);
    assert_true(n > 40 * 125 * 3 / 4);
    hb_plant_free(p);
}

static void vanderpol_agrees(void **state)
{
    hb_plant *p = plant(&hb_plant_vanderpol);
    double x[2] = {0.3, -1}, y[2];
    (void)state;

    set(p, "mu", 2.3);
    start_at(p, x);
    for (int k = 0; k < 100; k++) {
        double dt = 0.05 + 0.001 * k;
        hb_plant_step(p, NULL, dt);
        plant_vanderpol_step(2.3, x, dt);
        hb_plant_state(p, y);
        assert_near(y[0], x[0], 1e-8);
        assert_near(y[1], x[1], 1e-8);
    }
    hb_plant_free(p);
}

static void cheetah_stands_on_legs_of_the_given_length(void **state)
{
    hb_plant *p = plant(&hb_plant_half_cheetah_standing);
    (void)state;

    for (int k = 0; k < 4; k++) {
        double length[6], x[18] = {0};
        hb_draws d = {.key = {.seed = 3, .stream = (uint64_t)k}};
        static const char *const name[6] = {"back_thigh",  "back_shin",  "back_foot",
                                            "front_thigh", "front_shin", "front_foot"};
        for (int i = 0; i < 6; i++) {
            length[i] = hb_draw_uniform(&d, 0.5, 1.5);
            set(p, name[i], length[i]);
        }
        /* joints at zero: both legs hang down as drawn, the longer one touches */
        double back = 0.25 * length[0] + 0.15 * length[1] + 0.19 * length[2];
        double front = 0.24 * length[3] + 0.18 * length[4] + 0.14 * length[5];
        hb_error err = {0};
        double start[18];
        assert_int_equal(hb_plant_half_cheetah_standing.start(p, &d, start, &err), 0);
        x[1] = fmax(back, front) + 0.046;
        start_at(p, x);
        /* just touching: in a few milliseconds of rest nothing much happens */
        hb_plant_step(p, hb_plant_half_cheetah_standing.control_trim, 0.01);
        double y[18];
        hb_plant_state(p, y);
        assert_near(y[1], x[1], 2e-3);
        /* a metre higher it falls freely; Euler at 10 ms is late by g h t / 2 = 5 mm after 0.1 s */
        x[1] += 1;
        start_at(p, x);
        hb_plant_step(p, hb_plant_half_cheetah_standing.control_trim, 0.1);
        hb_plant_state(p, y);
        assert_near(y[1], x[1] - g * 0.01 / 2, 6e-3);
        for (int i = 3; i < 9; i++)
            assert_near(y[i], 0, 1e-6);
    }
    hb_plant_free(p);
}

static void walkers_feel_their_parameters(void **state)
{
    static const char *const gear[6] = {"gear_back_thigh",  "gear_back_shin",  "gear_back_foot",
                                        "gear_front_thigh", "gear_front_shin", "gear_front_foot"};
    const double push[6] = {1, -1, 1, -1, 1, -1}, none[6] = {0};
    hb_plant *p = plant(&hb_plant_half_cheetah_standing);
    double x[18], a[18], b[18];
    (void)state;

    /* motors without gears do nothing */
    for (int i = 0; i < 6; i++)
        set(p, gear[i], 0);
    hb_draws d = {.key = {.seed = 4}};
    hb_error err = {0};
    assert_int_equal(hb_plant_half_cheetah_standing.start(p, &d, x, &err), 0);
    start_at(p, x);
    hb_plant_step(p, push, 0.05);
    hb_plant_state(p, a);
    start_at(p, x);
    hb_plant_step(p, none, 0.05);
    hb_plant_state(p, b);
    assert_memory_equal(a, b, sizeof a);
    /* one of them does move its own joint, in the direction of its sign */
    set(p, gear[1], 1);
    start_at(p, x);
    hb_plant_step(p, push, 0.05);
    hb_plant_state(p, b);
    assert_true(b[4] < a[4] - 0.05);
    /* sliding at 3 m/s, friction 1 slows it down, none does not */
    double speed[2];
    for (int k = 0; k < 2; k++) {
        set(p, "friction", k);
        x[9] = 3;
        start_at(p, x);
        for (int i = 0; i < 10; i++)
            hb_plant_step(p, none, 0.05);
        hb_plant_state(p, a);
        speed[k] = a[9];
    }
    assert_true(speed[0] > 2.5);
    assert_true(speed[1] < 2);
    hb_plant_free(p);

    /* the ant falls freely too (Runge-Kutta: to rounding), its quaternion is x, y, z, w, and stays one */
    p = plant(&hb_plant_ant);
    double ant[29] = {[2] = 5, [6] = 1, [17] = 1, [20] = 2}, y[29];
    for (int i = 8; i < 15; i += 2)
        ant[i] = 0.9;
    start_at(p, ant);
    hb_plant_step(p, hb_plant_ant.control_trim, 0.05);
    hb_plant_state(p, y);
    assert_near(y[17], 1 - g * 0.05, 2e-2);
    assert_near(y[5], sin(0.05), 2e-3); /* turned about z by 2 rad/s * 0.05 s = 0.1 rad */
    assert_near(y[3], 0, 1e-3);
    assert_near(y[3] * y[3] + y[4] * y[4] + y[5] * y[5] + y[6] * y[6], 1, 1e-12);
    hb_plant_free(p);
}

/* means and deviations of many starts are those of gym's reset: uniform within 0.1 of rest, rates normal with 0.1 */
static void check_starts(const hb_plant_type *type, int first_rate, int quaternion, const double *rest)
{
    enum { N = 2000 };
    hb_plant *p = plant(type);
    hb_error err = {0};
    double x[HB_PLANT_STATES], sum[HB_PLANT_STATES] = {0}, square[HB_PLANT_STATES] = {0};

    for (int k = 0; k < N; k++) {
        hb_draws d = {.key = {.seed = 8, .stream = (uint64_t)k}};
        assert_int_equal(type->start(p, &d, x, &err), 0);
        for (int i = 0; i < type->nx; i++) {
            sum[i] += (x[i] - rest[i]) / N;
            square[i] += pow(x[i] - rest[i], 2) / N;
            if (i < first_rate && i != quaternion + 3)
                assert_near(x[i], rest[i], 0.1 + (quaternion >= 0 && i >= quaternion && i < quaternion + 3 ? 0.02 : 0));
        }
        if (quaternion >= 0)
            assert_near(x[quaternion] * x[quaternion] + x[quaternion + 1] * x[quaternion + 1] +
                            x[quaternion + 2] * x[quaternion + 2] + x[quaternion + 3] * x[quaternion + 3],
                        1, 1e-12);
    }
    for (int i = 0; i < type->nx; i++) {
        if (quaternion >= 0 && i >= quaternion && i < quaternion + 4)
            continue;
        assert_near(sum[i], 0, 0.01);
        assert_near(sqrt(square[i]), i < first_rate ? 0.1 / sqrt(3) : 0.1, 0.006);
    }
    hb_plant_free(p);
}

/* gym's half_cheetah.xml in figures, with the paper's lengths and gears */
static void cheetah_is_gyms(void **state)
{
    static const char *const limb[6] = {"back_thigh",  "back_shin",  "back_foot",
                                        "front_thigh", "front_shin", "front_foot"};
    static const double half_length[6] = {0.145, 0.15, 0.094, 0.133, 0.106, 0.07}, gear[6] = {120, 90, 60, 120, 60, 30};
    static const double centre[6][2] = {{0.1, -0.13},   {-0.14, -0.07}, {0.03, -0.097},
                                        {-0.07, -0.12}, {0.065, -0.09}, {0.045, -0.07}};
    static const double place[6][2] = {{-0.5, 0}, {0.16, -0.25},  {-0.28, -0.14},
                                       {0.5, 0},  {-0.14, -0.24}, {0.13, -0.18}};
    static const double range[6][2] = {{-0.52, 1.05}, {-0.785, 0.785}, {-0.4, 0.785},
                                       {-1, 0.7},     {-1.2, 0.87},    {-0.5, 0.5}};
    static const double stiffness[6] = {240, 180, 120, 180, 120, 60}, damping[6] = {6, 4.5, 3, 4.5, 3, 1.5};
    const double rest[18] = {[1] = 0.7};
    hb_plant *p = plant(&hb_plant_half_cheetah);
    (void)state;

    for (int k = 0; k < 4; k++) {
        hb_draws d = {.key = {.seed = 9, .stream = (uint64_t)k}};
        double length[6], strength[6], torso = k ? hb_draw_uniform(&d, 0.5, 1.5) : 1, mass = 0;
        set(p, "torso", torso);
        for (int i = 0; i < 6; i++) {
            char name[40];
            length[i] = k ? hb_draw_uniform(&d, 0.5, 1.5) : 1;
            strength[i] = k ? hb_draw_uniform(&d, 0, 1.5) : 1;
            set(p, limb[i], length[i]);
            snprintf(name, sizeof name, "gear_%s", limb[i]);
            set(p, name, strength[i]);
        }
        start_at(p, rest);
        const mjModel *m = p->type->mujoco(p)->model;
        for (int i = 0; i < m->nbody; i++)
            mass += m->body_mass[i];
        assert_near(mass, 14, 1e-9);
        assert_near(m->opt.gravity[2], -9.81, 0);
        for (int i = 0; i < 6; i++) {
            int body = mj_name2id(m, mjOBJ_BODY, limb[i]), joint = m->body_jntadr[body], geom = m->body_geomadr[body];
            /* where a limb hangs scales with what it hangs on */
            double above = i == 0 || i == 3 ? torso : length[i - 1];
            assert_near(m->body_pos[3 * body], place[i][0] * above, 1e-8);
            assert_near(m->body_pos[3 * body + 2], place[i][1] * above, 1e-8);
            assert_near(m->geom_pos[3 * geom], centre[i][0] * length[i], 1e-8);
            assert_near(m->geom_pos[3 * geom + 2], centre[i][1] * length[i], 1e-8);
            assert_near(m->geom_size[3 * geom], 0.046, 0);
            assert_near(m->geom_size[3 * geom + 1], half_length[i] * length[i], 1e-8);
            assert_near(m->jnt_range[2 * joint], range[i][0], 0);
            assert_near(m->jnt_range[2 * joint + 1], range[i][1], 0);
            assert_near(m->jnt_stiffness[joint], stiffness[i], 0);
            assert_near(m->dof_damping[m->jnt_dofadr[joint]], damping[i], 0);
            assert_near(m->dof_armature[m->jnt_dofadr[joint]], 0.1, 0);
            assert_near(m->actuator_gear[6 * i], gear[i] * strength[i], 1e-6);
        }
        hb_plant_step(p, hb_plant_half_cheetah.control_trim, hb_plant_half_cheetah.dt);
        assert_near(m->opt.timestep, 0.01, 1e-15);
    }
    hb_plant_free(p);
    assert_near(hb_plant_half_cheetah.dt, 0.05, 0);
    assert_int_equal(hb_plant_half_cheetah.episode_steps, 1000);
    check_starts(&hb_plant_half_cheetah, 9, -1, rest);
}

static double capsule(double length)
{
    return M_PI * 0.08 * 0.08 * length + 4 * M_PI / 3 * pow(0.08, 3);
}

/* gym's ant.xml with the paper's gears; a stub is as long as its leg */
static void ant_is_the_papers(void **state)
{
    const double rest[29] = {[2] = 0.75, [6] = 1}, density = 5;
    hb_plant *p = plant(&hb_plant_ant);
    (void)state;

    for (int i = 0; i < hb_plant_ant.nparameters; i++) {
        assert_near(hb_plant_ant.parameter[i].low, i < 4 ? 1 : 0.5, 0);
        assert_near(hb_plant_ant.parameter[i].high, 1.5, 0);
    }
    for (int k = 0; k < 3; k++) {
        hb_draws d = {.key = {.seed = 10, .stream = (uint64_t)k}};
        double leg[4], foot[4], torso = density * 4 * M_PI / 3 * pow(0.25, 3);
        char name[16];
        for (int i = 0; i < 4; i++) {
            leg[i] = k ? hb_draw_uniform(&d, 1, 1.5) : 1;
            foot[i] = k ? hb_draw_uniform(&d, 0.5, 1.5) : 1;
            snprintf(name, sizeof name, "leg%d", i + 1);
            set(p, name, leg[i]);
            snprintf(name, sizeof name, "foot%d", i + 1);
            set(p, name, foot[i]);
            torso += density * capsule(0.2 * sqrt(2) * leg[i]);
        }
        start_at(p, rest);
        const mjModel *m = p->type->mujoco(p)->model;
        assert_int_equal(m->opt.integrator, mjINT_RK4);
        assert_near(m->opt.gravity[2], -9.8, 0);
        assert_near(m->body_mass[mj_name2id(m, mjOBJ_BODY, "torso")], torso, 1e-6);
        for (int i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "leg%d", i + 1);
            int body = mj_name2id(m, mjOBJ_BODY, name), joint = m->body_jntadr[body];
            assert_near(fabs(m->body_pos[3 * body]), 0.2 * leg[i], 1e-8);
            assert_near(m->body_mass[body], density * capsule(0.2 * sqrt(2) * leg[i]), 1e-6);
            assert_near(m->jnt_range[2 * joint + 1], M_PI / 6, 1e-9);
            snprintf(name, sizeof name, "foot%d", i + 1);
            body = mj_name2id(m, mjOBJ_BODY, name);
            joint = m->body_jntadr[body];
            assert_near(fabs(m->body_pos[3 * body]), 0.2 * leg[i], 1e-8);
            assert_near(m->body_mass[body], density * capsule(0.4 * sqrt(2) * foot[i]), 1e-6);
            assert_near(m->jnt_range[2 * joint], M_PI / 6, 1e-9);
            assert_near(m->jnt_range[2 * joint + 1], 7 * M_PI / 18, 1e-9);
        }
        for (int i = 0; i < 8; i++)
            assert_near(m->actuator_gear[6 * i], 60, 0);
    }
    hb_plant_free(p);
    assert_int_equal(hb_plant_ant.episode_steps, 1000);
    check_starts(&hb_plant_ant, 15, 3, rest);
}

static void every_plant_describes_itself(void **state)
{
    (void)state;
    for (int i = 0; hb_plant_type_at(i); i++) {
        const hb_plant_type *t = hb_plant_type_at(i);
        assert_true(t->nx <= HB_PLANT_STATES && t->nu <= HB_PLANT_CONTROLS && t->nparameters <= HB_PLANT_PARAMETERS);
        for (int k = 0; k < t->nx; k++)
            assert_true(t->state_name[k] && t->state_unit[k]);
        for (int k = 0; k < t->nu; k++) {
            assert_true(t->control_name[k] && t->control_unit[k]);
            assert_true(t->control_min[k] <= t->control_trim[k] && t->control_trim[k] <= t->control_max[k]);
        }
        for (int k = 0; k < t->nparameters; k++) {
            const hb_plant_parameter *q = &t->parameter[k];
            assert_true(q->min <= q->low && q->low <= q->high && q->high <= q->max);
            assert_true(q->min <= q->nominal && q->nominal <= q->max);
        }
        hb_error err = {0};
        assert_ptr_equal(hb_plant_type_find(t->name, &err), t);
        assert_non_null(hb_policy_find(NULL, t, &err));
    }
    hb_error err = {0};
    assert_null(hb_plant_type_find("bicycle", &err));
    assert_non_null(strstr(err.text, "quadrotor, "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weight_in_thrust_hovers),
        cmocka_unit_test(without_thrust_it_falls),
        cmocka_unit_test(torques_turn_the_right_way),
        cmocka_unit_test(frames_and_quaternion_order),
        cmocka_unit_test(tumbling_keeps_energy_and_momentum),
        cmocka_unit_test(mass_and_payload_change_in_flight),
        cmocka_unit_test(wind_carries_it_along),
        cmocka_unit_test(commands_wait_for_the_delay),
        cmocka_unit_test(rotors_follow_with_their_lag),
        cmocka_unit_test(the_control_in_force_is_the_delayed_one),
        cmocka_unit_test(an_offset_centre_of_mass_turns_it),
        cmocka_unit_test(batteries_sag_and_the_ground_lifts),
        cmocka_unit_test(each_sensor_has_its_own_error),
        cmocka_unit_test(gusts_do_not_depend_on_sensors),
        cmocka_unit_test(sensor_noise_is_what_it_says),
        cmocka_unit_test(gusts_have_their_size),
        cmocka_unit_test(mujoco_agrees_with_the_analytic_body),
        cmocka_unit_test(mujoco_agrees_without_drag_to_rounding),
        cmocka_unit_test(exploration_reaches_far),
        cmocka_unit_test(vanderpol_agrees),
        cmocka_unit_test(cheetah_stands_on_legs_of_the_given_length),
        cmocka_unit_test(walkers_feel_their_parameters),
        cmocka_unit_test(cheetah_is_gyms),
        cmocka_unit_test(ant_is_the_papers),
        cmocka_unit_test(every_plant_describes_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
