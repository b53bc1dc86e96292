/* An exploring pilot of the multirotor: accelerations that change all the time, held within a box by a slow position
 * loop, and noise on every control.
 *
 *     wanted  a* drawn anew every moment, plus kp (centre - p) - kd v beyond the middle of the box
 *     thrust  |a* + g| along the body's z axis, through the true gain, plus noise
 *     rates   towards the wanted direction of thrust, plus noise; yaw rates drawn */
#include <math.h>
#include <string.h>

#include "sim/policy.h"

enum { X, VX, Y, VY, Z, VZ, QX, QY, QZ, QW, WX, WY, WZ };
enum { LOAD = 1 };

static const double gravity = 9.81, full_thrust = 19.9, centre[3] = {0, 0, 6};

typedef struct explorer {
    double wild;      /* m/s^2, this episode */
    double noise;     /* of controls, relative to their range */
    double stiff;     /* 1/s, of the attitude */
    double wanted[3]; /* m/s^2 */
    double yaw_rate;
    double drift[4];
} explorer;

_Static_assert(sizeof(explorer) <= sizeof(((hb_policy_memory *)0)->number), "explorer fits a policy's memory");

static void start(hb_policy_memory *m, const hb_plant *p)
{
    explorer e = {.wild = hb_draw_uniform(&m->draws, 0.3, 4),
                  .noise = 0.02 * exp(hb_draw_uniform(&m->draws, 0, log(10))),
                  .stiff = hb_draw_uniform(&m->draws, 2.5, 6)};
    (void)p;
    m->until = 0;
    memcpy(m->number, &e, sizeof e);
}

static double clamp(double v, double low, double high)
{
    return fmin(fmax(v, low), high);
}

/* A vector of the world in the body's frame. */
static void into_body(const double *q, const double *v, double *to)
{
    double t[3] = {2 * (q[1] * v[2] - q[2] * v[1]), 2 * (q[2] * v[0] - q[0] * v[2]), 2 * (q[0] * v[1] - q[1] * v[0])};

    to[0] = v[0] - q[3] * t[0] + q[1] * t[2] - q[2] * t[1];
    to[1] = v[1] - q[3] * t[1] + q[2] * t[0] - q[0] * t[2];
    to[2] = v[2] - q[3] * t[2] + q[0] * t[1] - q[1] * t[0];
}

static void act(hb_policy_memory *m, const hb_plant *p, const double *x, double *u)
{
    const double gain = full_thrust / p->parameter[LOAD];
    explorer e;
    double force[3], body[3];

    memcpy(&e, m->number, sizeof e);
    if (p->time >= m->until) {
        for (int i = 0; i < 3; i++)
            e.wanted[i] = e.wild * hb_draw_uniform(&m->draws, -1, 1);
        e.yaw_rate = hb_draw_uniform(&m->draws, -0.8, 0.8);
        m->until = p->time + hb_draw_uniform(&m->draws, 0.2, 1.2);
    }
    for (int i = 0; i < 3; i++)
        force[i] = clamp(e.wanted[i] + 0.35 * (centre[i] - x[X + 2 * i]) - 0.8 * x[VX + 2 * i], -6, 6);
    force[2] = clamp(force[2] + gravity, 4, 0.95 * gain);
    into_body(x + QX, force, body);
    double norm = sqrt(body[0] * body[0] + body[1] * body[1] + body[2] * body[2]);
    const double wanted[4] = {fmax(body[2], 0.3 * norm) / gain, -e.stiff * body[1] / norm, e.stiff * body[0] / norm,
                              e.yaw_rate};
    for (int i = 0; i < 4; i++) {
        double range = p->type->control_max[i] - p->type->control_min[i];
        double kick = hb_draw_normal(&m->draws), drift = hb_draw_normal(&m->draws);
        e.drift[i] = 0.9 * e.drift[i] + 0.4 * drift;
        u[i] = clamp(wanted[i] + (i == 0 ? 0.5 : 1) * e.noise * range * (kick + e.drift[i]), p->type->control_min[i],
                     p->type->control_max[i]);
    }
    memcpy(m->number, &e, sizeof e);
}

static bool keep(const hb_plant *p, const double *x)
{
    (void)p;
    return 1 - 2 * (x[QX] * x[QX] + x[QY] * x[QY]) > cos(65 * M_PI / 180) && hypot(hypot(x[VX], x[VY]), x[VZ]) < 8 &&
           x[Z] > 0.3;
}

const hb_policy hb_policy_explore_rates = {
    .name = "explore-rates",
    .help = "accelerations that change all the time, kept within a box, with noise on thrust and rates",
    .plant = &hb_plant_multirotor,
    .start = start,
    .act = act,
    .keep = keep,
};
