/* The loop through a cascade of PID controllers, as flight stacks have it: what a planner must beat.
 *
 *     position  v* = kp (p* - p) + v of the target, limited
 *     velocity  a* = kv (v* - v) + integral of ki (v* - v) + a of the target + g, tilt limited
 *     attitude  w* = -ka e          e: attitude error in the body frame
 *     rates     w' = kw (w* - w) + integral of kj (w* - w)
 *     mixer     roll and pitch before thrust, thrust before yaw
 *
 * It knows the nominal mass and inertia; the integrals find the rest. Those of the rates do not grow while rotors are
 * at their bounds. On the level of thrust and rates the autopilot does what follows w*. */
#include <math.h>
#include <string.h>

#include "sim/onboard.h"

static const double most_speed = 1.5; /* m/s */
static const double most_rate = 6;    /* rad/s */
static const double most_push = 6,
                    most_spin[2] = {250, 25}; /* of the integrals: m/s^2, rad/s^2 (roll and pitch, yaw) */

typedef struct pid_loop {
    hb_onboard on;
    double push[3]; /* m/s^2, integral of the velocity's error */
    double spin[3]; /* rad/s^2, of the rates' */
} pid_loop;

/* The force wanted, per kilogram; *error is what its integral takes. */
static void wanted_force(const pid_loop *s, const double *x, const hb_onboard_reference *r, double *force,
                         double *error)
{
    double speed = 0, want[3];

    for (int i = 0; i < 3; i++) {
        want[i] = s->on.gains.position * (r->p[i] - x[HB_X + 2 * i]);
        speed = hypot(speed, want[i]);
    }
    for (int i = 0; i < 3; i++) {
        want[i] = want[i] * fmin(1, most_speed / fmax(speed, 1e-9)) + r->v[i];
        error[i] = want[i] - x[HB_VX + 2 * i];
        force[i] = s->on.gains.velocity * error[i] + s->push[i] + r->a[i] + (i == 2 ? hb_airframe_gravity : 0);
    }
    hb_onboard_limit_force(force);
}

static int ask(hb_loop *l, const hb_loop_question *q, hb_error *err)
{
    pid_loop *s = (pid_loop *)l;
    const hb_gains *g = &s->on.gains;
    const double *x = q->x;
    double dt = hb_onboard_elapsed(&s->on, q), axis[3][3], force[3], drift[3], tilt[3], slip[3], torque[3], rate[3];
    hb_onboard_reference r = hb_onboard_follow(s->on.plant, q);
    bool bounded = false;
    (void)err;

    if (dt == 0) {
        memset(s->push, 0, sizeof s->push);
        memset(s->spin, 0, sizeof s->spin);
    }
    hb_airframe_axes(x + HB_QX, axis);
    wanted_force(s, x, &r, force, drift);
    hb_airframe_attitude_error(axis, force, 0, tilt);
    for (int i = 0; i < 3; i++) {
        rate[i] = hb_clamp(-(i == 2 ? g->yaw : g->attitude) * tilt[i], i == 2 ? 0.5 * most_rate : most_rate);
        slip[i] = rate[i] - x[HB_WX + i];
        torque[i] = hb_airframe_inertia[i] * ((i == 2 ? 0.5 : 1) * g->rates * slip[i] + s->spin[i]);
    }
    double along = force[0] * axis[2][0] + force[1] * axis[2][1] + force[2] * axis[2][2];
    if (s->on.plant == &hb_plant_quadrotor)
        bounded = hb_onboard_mix(s->on.plant, fmax(hb_airframe_mass * along, 0), torque, s->on.answer.action);
    else
        hb_onboard_command_rates(s->on.plant, along, rate, s->on.answer.action);
    for (int i = 0; i < 3; i++) {
        double turn = (i == 2 ? 0.25 : 1) * g->spin * slip[i] * dt;
        s->push[i] = hb_clamp(s->push[i] + g->integral * drift[i] * dt, most_push);
        if (!bounded || turn * s->spin[i] < 0)
            s->spin[i] = hb_clamp(s->spin[i] + turn, most_spin[i == 2]);
    }
    return 0;
}

int hb_loop_pid(hb_loop **ret, const hb_plant_type *plant, const hb_gains *table, const double *factor, hb_error *err)
{
    hb_onboard *on = NULL;
    int status = hb_onboard_new(&on, sizeof(pid_loop), plant, HB_PID_RATE, table, factor, err);

    if (status)
        return status;
    on->loop.ask = ask;
    *ret = &on->loop;
    return 0;
}
