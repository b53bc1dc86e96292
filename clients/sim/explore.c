/* An exploring PD for the quadrotor: nearby targets and attitudes that change all the time, gains that differ from
 * episode to episode, and noise on every rotor, so that data cover what a planner will ask about.
 *
 *     manoeuvre      position  p* near p, from which   a = kp (p* - p) - kd v, thrust direction a + g
 *                    attitude  a tilt of up to 45 degrees, a yaw rate and a thrust, for a moment
 *     attitude loop  w' = -k_r e_r - k_w (w - w*)      e_r: rotation error in the body frame
 *     rotors         thrust and torques mixed, plus noise, within bounds
 *
 * It knows the vehicle: mass, inertia, centre of mass and efficiencies, so that vehicles far off the nominal one fly.
 */
#include "sim/policy.h"

#include <math.h>
#include <string.h>

#include "sim/airframe.h"

#define DEGREE (M_PI / 180)

enum { X, VX, Y, VY, Z, VZ, QX, QY, QZ, QW, WX, WY, WZ };

static const double box_min[3] = {-1.2, -1.2, 0.7}, box_max[3] = {1.2, 1.2, 1.8};

typedef struct explorer {
    double gain;      /* scale of kp and kd, this episode */
    double attitude;  /* scale of k_r and k_w */
    double noise;     /* newton, of each rotor */
    bool by_attitude; /* the manoeuvre is an attitude */
    double target[3]; /* metres */
    double yaw;       /* radians */
    double yaw_rate;  /* rad/s, by attitude */
    double lean[2];   /* x and y of the thrust's direction, by attitude */
    double thrust;    /* relative to weight, by attitude */
    double rotor[4];  /* newton, the slow part of the noise */
    /* the vehicle */
    double inertia;       /* relative to the nominal one */
    double com[2];        /* metres from the middle of the rotors */
    double efficiency[4]; /* of each rotor; a dead one is not asked for the impossible */
} explorer;

_Static_assert(sizeof(explorer) <= sizeof(((hb_policy_memory *)0)->number), "explorer fits a policy's memory");

static double parameter(const hb_plant *p, const char *name)
{
    return p->parameter[hb_plant_parameter_find(p->type, name, NULL)];
}

static void start(hb_policy_memory *m, const hb_plant *p)
{
    explorer e = {
        .gain = hb_draw_uniform(&m->draws, 0.5, 1.2),
        .attitude = hb_draw_uniform(&m->draws, 0.8, 1.3),
        .noise = 0.0005 * exp(hb_draw_uniform(&m->draws, 0, log(12))),
        .inertia = parameter(p, "inertia"),
        .com = {1e-3 * parameter(p, "com_x"), 1e-3 * parameter(p, "com_y")},
        .efficiency = {parameter(p, "rotor0"), parameter(p, "rotor1"), parameter(p, "rotor2"), parameter(p, "rotor3")},
    };
    for (int i = 0; i < 4; i++)
        e.efficiency[i] = fmax(e.efficiency[i], 0.3);

    m->until = 0;
    memcpy(m->number, &e, sizeof e);
}

static double clamp(double v, double low, double high)
{
    return fmin(fmax(v, low), high);
}

static void next_manoeuvre(explorer *e, hb_policy_memory *m, const hb_plant *p, const double *x)
{
    hb_draws *d = &m->draws;

    /* no stunts where a recovery might end on the ground */
    bool safe = x[Z] + 0.4 * x[VZ] > 0.7 && hypot(hypot(x[VX], x[VY]), x[VZ]) < 1.8;
    e->by_attitude = hb_draw_uniform(d, 0, 1) < 0.5 && safe;
    if (e->by_attitude) {
        double tilt = 45 * DEGREE * sqrt(hb_draw_uniform(d, 0, 1)), heading = hb_draw_uniform(d, -M_PI, M_PI);
        e->lean[0] = sin(tilt) * cos(heading);
        e->lean[1] = sin(tilt) * sin(heading);
        e->thrust = hb_draw_uniform(d, 0.7, 1.3) / sqrt(cos(tilt));
        e->yaw_rate = hb_draw_uniform(d, -2, 2);
        /* as long as it takes to gain about a metre per second */
        m->until = p->time + hb_draw_uniform(d, 0.6, 1.2) / (1.5 + hb_airframe_gravity * e->thrust * sin(tilt));
    } else {
        for (int i = 0; i < 3; i++)
            e->target[i] = clamp(x[X + 2 * i] + hb_draw_uniform(d, -0.9, 0.9), box_min[i], box_max[i]);
        e->yaw = hb_draw_uniform(d, -60, 60) * DEGREE;
        e->yaw_rate = 0;
        m->until = p->time + hb_draw_uniform(d, 0.3, 1.5);
    }
}

/* The thrust vector wanted, in newton per kilogram. */
static void wanted_force(const explorer *e, const double *x, double *force)
{
    if (e->by_attitude) {
        double up = sqrt(1 - e->lean[0] * e->lean[0] - e->lean[1] * e->lean[1]);
        for (int i = 0; i < 2; i++)
            force[i] = hb_airframe_gravity * e->thrust * e->lean[i];
        force[2] = hb_airframe_gravity * e->thrust * up;
        return;
    }
    for (int i = 0; i < 3; i++)
        force[i] = e->gain * (6 * clamp(e->target[i] - x[X + 2 * i], -1, 1) - 3.6 * x[VX + 2 * i]);
    force[2] = fmax(force[2] + hb_airframe_gravity, 3);
    /* at most 45 degrees off the vertical */
    double side = hypot(force[0], force[1]);
    if (side > force[2])
        for (int i = 0; i < 2; i++)
            force[i] *= force[2] / side;
}

static void act(hb_policy_memory *m, const hb_plant *p, const double *x, double *u)
{
    explorer e;
    memcpy(&e, m->number, sizeof e);
    if (p->time >= m->until)
        next_manoeuvre(&e, m, p, x);
    e.yaw += e.yaw_rate * m->dt;

    double body[3][3], force[3], rate[3] = {0, 0, e.yaw_rate}, error[3], torque[3];
    hb_airframe_axes(x + QX, body);
    wanted_force(&e, x, force);
    hb_airframe_attitude_error(body, force, e.yaw, error);
    double along = force[0] * body[2][0] + force[1] * body[2][1] + force[2] * body[2][2];
    for (int i = 0; i < 3; i++) {
        double stiff = i == 2 ? 20 : 90, damp = i == 2 ? 6 : 13;
        torque[i] =
            e.inertia * hb_airframe_inertia[i] * e.attitude * (-stiff * error[i] - damp * (x[WX + i] - rate[i]));
    }

    /* thrust acts beside the centre of mass */
    double total = fmax(p->parameter[0] * along, 0);
    torque[0] += e.com[1] * total;
    torque[1] -= e.com[0] * total;

    hb_airframe_mix(total, torque, u);
    for (int i = 0; i < 4; i++) {
        double kick = hb_draw_normal(&m->draws), drift = hb_draw_normal(&m->draws);
        e.rotor[i] = 0.9 * e.rotor[i] + 0.4 * e.noise * drift;
        u[i] += e.noise * kick + e.rotor[i];
        u[i] = clamp(u[i] / e.efficiency[i], p->type->control_min[i], p->type->control_max[i]);
    }
    memcpy(m->number, &e, sizeof e);
}

/* what lies beyond is on its way to a crash */
static bool keep(const hb_plant *p, const double *x)
{
    double upright = 1 - 2 * (x[QX] * x[QX] + x[QY] * x[QY]);
    (void)p;

    return upright > cos(70 * DEGREE) && hypot(hypot(x[VX], x[VY]), x[VZ]) < 4 &&
           hypot(hypot(x[WX], x[WY]), x[WZ]) < 20;
}

const hb_policy hb_policy_explore = {
    .name = "explore",
    .help = "a PD that chases nearby targets and attitudes with noise on every rotor; crashes are cut off",
    .plant = &hb_plant_quadrotor,
    .start = start,
    .act = act,
    .keep = keep,
};
