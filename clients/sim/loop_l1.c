/* The loop through a geometric controller with L1 adaptation: a predictor of velocities beside the vehicle, whose error
 * says, piece by piece of time, what force and torque nobody ordered; filtered, they are taken off the command.
 *
 *     outer      f* = kp (p* - p) + kv (v* - v) + a of the reference + g - d      d: filtered disturbance, per kilogram
 *     attitude   w'* = kw (turn - ka e - w) - s                                   s: the same of the torque
 *     predictor  v^' = f - g + d^ - A (v^ - v),  w^' = torque / J + s^ - A (w^ - w)
 *     each time  d^ = -A e / (exp(A T) - 1),     e = v^ - v                       (T: the period)
 *                d and s follow d^ - A e and s^ - A e
 *
 * The matched part (along the body's axis, and torques) and what tilts it takes both are cancelled. On the level of
 * thrust and rates the autopilot takes care of torques, and rates are -ka e. */
#include <math.h>

#include "sim/onboard.h"

static const double most_pull = 15;                 /* m/s^2 that errors of position and velocity may ask for */
static const double most_rate = 6;                  /* rad/s */
static const double most_push = 8, most_spin = 250; /* m/s^2, rad/s^2 that are cancelled */

typedef struct l1_loop {
    hb_onboard on;
    double v[3], w[3];        /* predicted */
    double push[3], spin[3];  /* cancelled: m/s^2, rad/s^2 */
    double force[3], turn[3]; /* ordered a period ago: m/s^2 without gravity, rad/s^2 */
    double thrust;            /* of the multirotor: command behind the lag */
} l1_loop;

/* Moves a predictor on, reads the disturbance from its error, and filters that. */
static void adapt(double *predicted, double measured, double ordered, double speed, double bandwidth, double dt,
                  double most, double *cancelled)
{
    double error = *predicted - measured, found = -speed * error / expm1(speed * dt);

    /* all that corrects the predictor: what is found alone falls short of a constant by exp(-A T) */
    found -= speed * error;
    *predicted += dt * (ordered + found);
    *cancelled = hb_clamp(*cancelled - expm1(-bandwidth * dt) * (found - *cancelled), most);
}

static void predict(l1_loop *s, const double *x, double dt)
{
    const hb_gains *g = &s->on.gains;

    for (int i = 0; i < 3; i++) {
        adapt(&s->v[i], x[HB_VX + 2 * i], s->force[i], g->adaptation, g->filter, dt, most_push, &s->push[i]);
        if (s->on.plant == &hb_plant_quadrotor)
            adapt(&s->w[i], x[HB_WX + i], s->turn[i], g->adaptation, g->filter2, dt, most_spin, &s->spin[i]);
    }
}

static void start(l1_loop *s, const double *x)
{
    for (int i = 0; i < 3; i++) {
        s->v[i] = x[HB_VX + 2 * i];
        s->w[i] = x[HB_WX + i];
        s->push[i] = s->spin[i] = s->force[i] = s->turn[i] = 0;
    }
    s->thrust = s->on.plant->control_trim[0];
}

/* Rotor thrusts; what they amount to is what the predictor will expect. */
static void command_rotors(l1_loop *s, const double *x, double thrust, const double *tilt, const double *lead,
                           double *made)
{
    const hb_gains *g = &s->on.gains;
    double torque[3], rotors = 0;

    for (int i = 0; i < 3; i++) {
        double rate =
            hb_clamp(lead[i] - (i == 2 ? g->yaw : g->attitude) * tilt[i], i == 2 ? 0.5 * most_rate : most_rate);
        s->turn[i] = (i == 2 ? 0.5 : 1) * g->rates * (rate - x[HB_WX + i]) - s->spin[i];
        torque[i] = hb_airframe_inertia[i] * s->turn[i];
    }
    hb_onboard_mix(s->on.plant, fmax(hb_airframe_mass * thrust, 0), torque, s->on.answer.action);
    for (int i = 0; i < 4; i++)
        rotors += s->on.answer.action[i];
    s->turn[2] = torque[2] / hb_airframe_inertia[2];
    *made = rotors / hb_airframe_mass;
}

static int ask(hb_loop *l, const hb_loop_question *q, hb_error *err)
{
    l1_loop *s = (l1_loop *)l;
    const hb_gains *g = &s->on.gains;
    const double *x = q->x;
    double dt = hb_onboard_elapsed(&s->on, q), axis[3][3], force[3], tilt[3], lead[3] = {0}, along = 0, made;
    hb_onboard_reference r = hb_onboard_follow(s->on.plant, q);
    (void)err;

    if (dt == 0)
        start(s, x);
    if (dt > 0)
        predict(s, x, dt);

    hb_airframe_axes(x + HB_QX, axis);
    for (int i = 0; i < 3; i++) {
        double wanted = g->position * (r.p[i] - x[HB_X + 2 * i]) + g->velocity * (r.v[i] - x[HB_VX + 2 * i]);
        force[i] = hb_clamp(wanted, most_pull) + r.a[i] - s->push[i] + (i == 2 ? hb_airframe_gravity : 0);
    }
    hb_onboard_limit_force(force);
    hb_airframe_attitude_error(axis, force, 0, tilt);
    for (int i = 0; i < 3; i++)
        along += force[i] * axis[2][i];
    hb_onboard_turn(axis, along, r.j, lead);
    if (s->on.plant == &hb_plant_quadrotor) {
        command_rotors(s, x, along, tilt, lead, &made);
    } else {
        const double rate[3] = {lead[0] - g->attitude * tilt[0], lead[1] - g->attitude * tilt[1], -g->yaw * tilt[2]};
        hb_onboard_command_rates(s->on.plant, along, rate, s->on.answer.action);
        s->thrust += -expm1(-dt / HB_MULTIROTOR_LAG) * (s->on.answer.action[0] - s->thrust);
        made = HB_MULTIROTOR_FULL * s->thrust;
    }
    for (int i = 0; i < 3; i++)
        s->force[i] = made * axis[2][i] - (i == 2 ? hb_airframe_gravity : 0);
    return 0;
}

int hb_loop_l1(hb_loop **ret, const hb_plant_type *plant, const double *factor, hb_error *err)
{
    hb_onboard *on = NULL;
    int status = hb_onboard_new(&on, sizeof(l1_loop), plant, 500, hb_gains_l1, factor, err);

    if (status)
        return status;
    on->loop.ask = ask;
    *ret = &on->loop;
    return 0;
}
