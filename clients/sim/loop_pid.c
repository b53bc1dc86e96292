/* The loop through a cascade of PID controllers, as flight stacks have it: what a planner must beat.
 *
 *     position  v* = kp (p* - p) + v of the target, limited
 *     velocity  a* = kv (v* - v) + integral of ki (v* - v) + g, tilt limited
 *     attitude  w* = -ka e          e: attitude error in the body frame
 *     rates     w' = kw (w* - w) + integral of kj (w* - w)
 *     mixer     roll and pitch before thrust, thrust before yaw
 *
 * It knows the nominal mass and inertia; the integrals find the rest. Those of the rates do not grow while rotors are
 * at their bounds. The gains are the best of some hundred draws over flights with lag, delay, noise, an offset centre
 * of mass, a circle, and the weather `real`. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/airframe.h"
#include "sim/loop.h"

const hb_pid_gains hb_pid_default = {
    .position = 3.8,
    .velocity = 7.9,
    .velocity_integral = 2,
    .attitude = 6.9,
    .yaw = 2,
    .rates = 28.8,
    .rates_integral = 88,
};

static const double most_speed = 1.5; /* m/s */
static const double most_slope = 0.7; /* tangent of the tilt: 35 degrees */
static const double most_rate = 6;    /* rad/s */
static const double most_push = 6,
                    most_spin[2] = {250, 25}; /* of the integrals: m/s^2, rad/s^2 (roll and pitch, yaw) */

typedef struct pid_loop {
    hb_loop loop;
    const hb_plant_type *plant;
    hb_pid_gains gains;
    bool running;
    int64_t time_us;
    uint32_t reset_counter;
    double push[3]; /* m/s^2, integral of the velocity's error */
    double spin[3]; /* rad/s^2, of the rates' */
    hb_loop_answer answer;
} pid_loop;

static double clamp(double v, double limit)
{
    return fmin(fmax(v, -limit), limit);
}

/* The force wanted, per kilogram, without the integral's part; *error is what that integrates. */
static void wanted_force(const pid_loop *s, const double *x, const double *target, double *force, double *error)
{
    double speed = 0, want[3];

    for (int i = 0; i < 3; i++) {
        want[i] = s->gains.position * (target[HB_X + 2 * i] - x[HB_X + 2 * i]);
        speed = hypot(speed, want[i]);
    }
    for (int i = 0; i < 3; i++) {
        want[i] = want[i] * fmin(1, most_speed / fmax(speed, 1e-9)) + target[HB_VX + 2 * i];
        error[i] = want[i] - x[HB_VX + 2 * i];
        force[i] = s->gains.velocity * error[i] + s->push[i];
    }
    force[2] = fmax(force[2] + hb_airframe_gravity, 0.3 * hb_airframe_gravity);
    double slope = hypot(force[0], force[1]) / force[2];
    for (int i = 0; i < 2 && slope > most_slope; i++)
        force[i] *= most_slope / slope;
}

/* Scales down what the rotors cannot give: yaw first, then thrust moves to make room. True when something was lost. */
static bool mix(const hb_plant_type *plant, double thrust, double *torque, double *u)
{
    double low = plant->control_min[0], high = plant->control_max[0], least, most;
    bool lost = false;

    for (int attempt = 0; attempt < 2; attempt++) {
        hb_airframe_mix(thrust, torque, u);
        least = fmin(fmin(u[0], u[1]), fmin(u[2], u[3]));
        most = fmax(fmax(u[0], u[1]), fmax(u[2], u[3]));
        if (least >= low && most <= high)
            return lost;
        lost = true;
        if (attempt == 0)
            torque[2] = 0;
    }
    double shift = most > high ? fmax(high - most, fmin(low - least, 0)) : fmin(low - least, fmax(high - most, 0));
    for (int i = 0; i < plant->nu; i++)
        u[i] = fmin(fmax(u[i] + shift, low), high);
    return true;
}

static int ask(hb_loop *l, const hb_loop_question *q, hb_error *err)
{
    pid_loop *s = (pid_loop *)l;
    const hb_pid_gains *g = &s->gains;
    const double *x = q->x, *target = q->target ? q->target : s->plant->target;
    double dt = 1e-6 * (double)(q->time_us - s->time_us), axis[3][3], force[3], drift[3], tilt[3], slip[3], torque[3];
    (void)err;

    if (!s->running || q->reset_counter != s->reset_counter || !(dt > 0 && dt < 1)) {
        memset(s->push, 0, sizeof s->push);
        memset(s->spin, 0, sizeof s->spin);
        dt = 0;
    }
    s->running = true;
    s->time_us = q->time_us;
    s->reset_counter = q->reset_counter;

    hb_airframe_axes(x + HB_QX, axis);
    wanted_force(s, x, target, force, drift);
    hb_airframe_attitude_error(axis, force, 0, tilt);
    for (int i = 0; i < 3; i++) {
        double rate = clamp(-(i == 2 ? g->yaw : g->attitude) * tilt[i], i == 2 ? 0.5 * most_rate : most_rate);
        slip[i] = rate - x[HB_WX + i];
        torque[i] = hb_airframe_inertia[i] * ((i == 2 ? 0.5 : 1) * g->rates * slip[i] + s->spin[i]);
    }
    double along = force[0] * axis[2][0] + force[1] * axis[2][1] + force[2] * axis[2][2];
    bool bounded = mix(s->plant, fmax(hb_airframe_mass * along, 0), torque, s->answer.action);
    for (int i = 0; i < 3; i++) {
        double turn = (i == 2 ? 0.25 : 1) * g->rates_integral * slip[i] * dt;
        s->push[i] = clamp(s->push[i] + g->velocity_integral * drift[i] * dt, most_push);
        if (!bounded || turn * s->spin[i] < 0)
            s->spin[i] = clamp(s->spin[i] + turn, most_spin[i == 2]);
    }
    return 0;
}

static int answer(hb_loop *l, double timeout, hb_loop_answer *ret, hb_error *err)
{
    (void)timeout;
    (void)err;
    *ret = ((pid_loop *)l)->answer;
    return 0;
}

static int publish(hb_loop *l, int64_t time_us, const double *x, const double *u, uint32_t reset_counter, hb_error *err)
{
    (void)l;
    (void)time_us;
    (void)x;
    (void)u;
    (void)reset_counter;
    (void)err;
    return 0;
}

static void free_loop(hb_loop *l)
{
    free(l);
}

int hb_loop_pid(hb_loop **ret, const hb_plant_type *plant, const hb_pid_gains *gains, hb_error *err)
{
    if (plant != &hb_plant_quadrotor)
        return hb_fail(err, EINVAL, "the PID cascade is one for the quadrotor, not for plant %s", plant->name);
    pid_loop *s = calloc(1, sizeof *s);
    if (!s)
        return hb_fail(err, ENOMEM, "out of memory");
    s->loop = (hb_loop){
        .nx = plant->nx, .nu = plant->nu, .publish = publish, .ask = ask, .answer = answer, .free = free_loop};
    s->plant = plant;
    s->gains = gains ? *gains : hb_pid_default;
    s->answer = (hb_loop_answer){.has_action = true, .status = HB_STATUS_CONVERGED, .cost = NAN};
    s->answer.one_step_error = s->answer.out_of_span = NAN;
    *ret = &s->loop;
    return 0;
}
