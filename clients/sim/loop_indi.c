/* The loop through incremental nonlinear dynamic inversion with effectiveness that is learned (adaptive INDI).
 *
 * What acts is taken from accelerations instead of a model: to what the actuators make at present, filtered as the
 * measurement is, comes what is missing of the wanted acceleration.
 *
 *     outer   a* = kp (p* - p) + kv (v* - v) + a of the reference
 *             f* = f + (a* - a)                     f: thrust now as a vector, a: accelerometer; both filtered alike
 *     tilt    w* = -ka e + turn,  w'* = kw (w* - w)        e: attitude error of f*'s direction, turn: by the
 * reference's jerk inner   u* = u + G^-1 ((f*, w'*) - (f, w'))   u: the rotors' thrusts now, by their speeds; w': the
 * gyroscope's slope
 *
 * G is known for the nominal vehicle and corrected by normalised least mean squares from what increments of u did.
 * On the level of thrust and rates the autopilot is the inner loop, G is the gain of thrust, and what the rotors make
 * is the command behind the nominal lag. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "sim/onboard.h"

enum { NU = 4 };

static const double most_pull = 15; /* m/s^2 that errors of position and velocity may ask for */
static const double most_rate = 6;  /* rad/s */

typedef struct indi_loop {
    hb_onboard on;
    hb_smooth force[3], acceleration[3], rate[3], rotor[NU], along;
    double slope[3];                      /* filtered angular acceleration */
    double before[NU + 4];                /* filtered rotors, specific thrust and angular acceleration, a moment ago */
    double nominal[4][NU], effect[4][NU]; /* of each rotor on specific thrust and angular accelerations */
    double thrust;                        /* of the multirotor: command behind the lag */
} indi_loop;

/* Columns: what a newton of each rotor does. */
static void nominal_effect(double g[4][NU])
{
    /* the mixer's inverse: unit thrust and torques, and what rotors they ask for, are dual */
    for (int k = 0; k < 4; k++) {
        double torque[3] = {0}, u[NU], squares = 0;
        if (k > 0)
            torque[k - 1] = 1;
        hb_airframe_mix(k == 0, torque, u);
        for (int i = 0; i < NU; i++)
            squares += u[i] * u[i];
        for (int i = 0; i < NU; i++)
            g[k][i] = u[i] / squares / (k == 0 ? hb_airframe_mass : hb_airframe_inertia[k - 1]);
    }
}

/* Solves g u = y by elimination; false when g is singular. */
static bool solve(double g[4][NU], const double *y, double *u)
{
    double a[4][NU + 1];

    for (int i = 0; i < 4; i++) {
        memcpy(a[i], g[i], sizeof g[i]);
        a[i][NU] = y[i];
        /* rows have different units */
        double scale = 0;
        for (int k = 0; k < NU; k++)
            scale = fmax(scale, fabs(a[i][k]));
        for (int k = 0; k <= NU; k++)
            a[i][k] /= fmax(scale, 1e-12);
    }
    for (int i = 0; i < 4; i++) {
        int best = i;
        for (int k = i + 1; k < 4; k++)
            if (fabs(a[k][i]) > fabs(a[best][i]))
                best = k;
        if (fabs(a[best][i]) < 1e-6)
            return false;
        for (int k = 0; k <= NU; k++) {
            double swap = a[i][k];
            a[i][k] = a[best][k];
            a[best][k] = swap;
        }
        for (int k = 0; k < 4; k++) {
            double factor = k == i ? 0 : a[k][i] / a[i][i];
            for (int j = i; j <= NU; j++)
                a[k][j] -= factor * a[i][j];
        }
    }
    for (int i = 0; i < 4; i++)
        u[i] = a[i][NU] / a[i][i];
    return true;
}

/* What increments of the rotors did, against what was expected of them. */
static void learn(indi_loop *s, const double *rotor, const double *effect, double dt)
{
    double step[NU], squares = 1e-6; /* (1 mN)^2: less is noise */

    for (int i = 0; i < NU; i++) {
        step[i] = rotor[i] - s->before[i];
        squares += step[i] * step[i];
    }
    for (int k = 0; k < 4; k++) {
        double missed = effect[k] - s->before[NU + k];
        for (int i = 0; i < NU; i++)
            missed -= s->effect[k][i] * step[i];
        for (int i = 0; i < NU; i++) {
            double low = fmin(0.5 * s->nominal[k][i], 2 * s->nominal[k][i]);
            double high = fmax(0.5 * s->nominal[k][i], 2 * s->nominal[k][i]);
            double g = s->effect[k][i] + fmin(s->on.gains.adaptation * dt, 1) * missed * step[i] / squares;
            s->effect[k][i] = fmin(fmax(g, low), high);
        }
    }
}

/* Rotors for missing specific thrust and angular accelerations: yaw gives way first, then thrust. */
static void invert(const indi_loop *s, const double *rotor, double *missing, double *u)
{
    double low = s->on.plant->control_min[0], high = s->on.plant->control_max[0], more[NU], least = 0, most = 0;

    for (int attempt = 0; attempt < 2; attempt++) {
        double nominal[4][NU], effect[4][NU];
        memcpy(nominal, s->nominal, sizeof nominal);
        memcpy(effect, s->effect, sizeof effect);
        if (!solve(effect, missing, more))
            solve(nominal, missing, more);
        least = INFINITY, most = -INFINITY;
        for (int i = 0; i < NU; i++) {
            u[i] = rotor[i] + more[i];
            least = fmin(least, u[i]);
            most = fmax(most, u[i]);
        }
        if (least >= low && most <= high)
            return;
        missing[3] = 0;
    }
    double shift = most > high ? fmax(high - most, fmin(low - least, 0)) : fmin(low - least, fmax(high - most, 0));
    for (int i = 0; i < NU; i++)
        u[i] = fmin(fmax(u[i] + shift, low), high);
}

static void command_rotors(indi_loop *s, const double *x, const double *made, const double *axis, const double *force,
                           const double *tilt, const double *lead, double dt)
{
    const hb_gains *g = &s->on.gains;
    double rotor[NU], effect[4], missing[4], thrust = 0;

    for (int i = 0; i < NU; i++)
        rotor[i] = hb_smooth_step(&s->rotor[i], made[i], g->filter, dt);
    for (int i = 0; i < 3; i++) {
        double before = s->rate[i].twice;
        effect[1 + i] = dt > 0 ? (hb_smooth_step(&s->rate[i], x[HB_WX + i], g->filter, dt) - before) / dt : 0;
    }
    for (int i = 0; i < 3; i++)
        thrust += (s->acceleration[i].twice + (i == 2 ? hb_airframe_gravity : 0)) * axis[i];
    effect[0] = thrust;
    if (dt > 0)
        learn(s, rotor, effect, dt);
    memcpy(s->before, rotor, sizeof rotor);
    memcpy(s->before + NU, effect, sizeof effect);

    double now = 0;
    for (int i = 0; i < NU; i++)
        now += s->effect[0][i] * rotor[i];
    missing[0] = force[0] * axis[0] + force[1] * axis[1] + force[2] * axis[2] - now;
    for (int i = 0; i < 3; i++) {
        double rate =
            hb_clamp(lead[i] - (i == 2 ? g->yaw : g->attitude) * tilt[i], i == 2 ? 0.5 * most_rate : most_rate);
        missing[1 + i] = (i == 2 ? 0.5 : 1) * g->rates * (rate - x[HB_WX + i]) - effect[1 + i];
    }
    invert(s, rotor, missing, s->on.answer.action);
}

/* What thrust is made of the rotors at present, per kilogram. */
static double thrust_now(const indi_loop *s, const double *made)
{
    double sum = 0;

    if (s->on.plant == &hb_plant_multirotor)
        return s->thrust * HB_MULTIROTOR_FULL * s->effect[0][0];
    for (int i = 0; i < NU; i++)
        sum += s->effect[0][i] * made[i];
    return sum;
}

static void start(indi_loop *s, const double *x, const double *made)
{
    memset(s->force, 0, sizeof s->force);
    memset(s->acceleration, 0, sizeof s->acceleration);
    s->force[2] = (hb_smooth){hb_airframe_gravity, hb_airframe_gravity};
    for (int i = 0; i < 3; i++)
        s->rate[i] = (hb_smooth){x[HB_WX + i], x[HB_WX + i]};
    for (int i = 0; i < NU; i++)
        s->rotor[i] = (hb_smooth){made[i], made[i]};
    s->thrust = s->on.plant->control_trim[0];
    if (s->on.plant == &hb_plant_multirotor)
        s->nominal[0][0] = 1;
    else
        nominal_effect(s->nominal);
    memcpy(s->effect, s->nominal, sizeof s->effect);
}

/* Of the multirotor: the gain of thrust by what its increments did along the body's axis. */
static void learn_gain(indi_loop *s, double measured, double dt)
{
    double thrust = hb_smooth_step(&s->along, s->thrust, s->on.gains.filter, dt), step = thrust - s->before[0];
    double missed = measured - s->before[1] - s->effect[0][0] * HB_MULTIROTOR_FULL * step;

    if (dt > 0)
        s->effect[0][0] +=
            fmin(s->on.gains.adaptation * dt, 1) * missed / HB_MULTIROTOR_FULL * step / (1e-6 + step * step);
    s->effect[0][0] = fmin(fmax(s->effect[0][0], 0.5), 2);
    s->before[0] = thrust;
    s->before[1] = measured;
}

static int ask(hb_loop *l, const hb_loop_question *q, hb_error *err)
{
    indi_loop *s = (indi_loop *)l;
    const hb_gains *g = &s->on.gains;
    const double *x = q->x;
    double dt = hb_onboard_elapsed(&s->on, q), axis[3][3], force[3], tilt[3], lead[3] = {0}, along = 0, measured = 0;
    hb_onboard_reference r = hb_onboard_follow(s->on.plant, q);

    if (!q->acceleration || !q->made)
        return hb_fail(err, EINVAL, "INDI needs an accelerometer, which plant %s has not", s->on.plant->name);
    if (dt == 0)
        start(s, x, q->made);
    hb_airframe_axes(x + HB_QX, axis);
    double thrust = thrust_now(s, q->made);
    for (int i = 0; i < 3; i++) {
        double wanted = g->position * (r.p[i] - x[HB_X + 2 * i]) + g->velocity * (r.v[i] - x[HB_VX + 2 * i]);
        double now = hb_smooth_step(&s->force[i], thrust * axis[2][i], g->filter, dt);
        double a = hb_smooth_step(&s->acceleration[i], q->acceleration[i], g->filter, dt);
        force[i] = now + hb_clamp(wanted, most_pull) + r.a[i] - a;
        measured += (a + (i == 2 ? hb_airframe_gravity : 0)) * axis[2][i];
    }
    hb_onboard_limit_force(force);
    hb_airframe_attitude_error(axis, force, 0, tilt);
    hb_onboard_turn(axis, thrust, r.j, lead);
    if (s->on.plant == &hb_plant_quadrotor) {
        command_rotors(s, x, q->made, axis[2], force, tilt, lead, dt);
        return 0;
    }
    const double rate[3] = {lead[0] - g->attitude * tilt[0], lead[1] - g->attitude * tilt[1], -g->yaw * tilt[2]};
    learn_gain(s, measured, dt);
    for (int i = 0; i < 3; i++)
        along += force[i] * axis[2][i];
    hb_onboard_command_rates(s->on.plant, along / s->effect[0][0], rate, s->on.answer.action);
    s->thrust += -expm1(-dt / HB_MULTIROTOR_LAG) * (s->on.answer.action[0] - s->thrust);
    return 0;
}

int hb_loop_indi(hb_loop **ret, const hb_plant_type *plant, const double *factor, hb_error *err)
{
    hb_onboard *on = NULL;
    int status = hb_onboard_new(&on, sizeof(indi_loop), plant, 500, hb_gains_indi, factor, err);

    if (status)
        return status;
    on->loop.ask = ask;
    on->loop.senses = true;
    *ret = &on->loop;
    return 0;
}
