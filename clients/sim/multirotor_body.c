#include "sim/multirotor_body.h"

#include <math.h>
#include <string.h>

enum { X, VX, Y, VY, Z, VZ, QX, QY, QZ, QW, WX, WY, WZ };

static const double gravity = 9.81;

void hb_multirotor_reset(hb_multirotor *m, const double *x)
{
    double norm = sqrt(x[QX] * x[QX] + x[QY] * x[QY] + x[QZ] * x[QZ] + x[QW] * x[QW]);

    memcpy(m->x, x, sizeof m->x);
    for (int i = QX; i <= QW; i++)
        m->x[i] /= norm;
    m->thrust = gravity;
    m->acceleration[0] = m->acceleration[1] = 0;
    /* it flew before, with these commands */
    for (int i = 0; i < HB_MULTIROTOR_QUEUE; i++) {
        m->queue[i][0] = gravity / m->full_thrust;
        for (int k = 0; k < 3; k++)
            m->queue[i][1 + k] = x[WX + k];
    }
}

const double *hb_multirotor_in_force(const hb_multirotor *m)
{
    unsigned late = (unsigned)fmin(round(m->delay / HB_MULTIROTOR_STEP), HB_MULTIROTOR_QUEUE - 1);
    return m->queue[(m->newest + HB_MULTIROTOR_QUEUE - late) % HB_MULTIROTOR_QUEUE];
}

/* Turns q by angular velocity w (body) for h seconds. */
static void turn(double *q, const double *w, double h)
{
    double rate = sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]), half = rate * h / 2;
    double s = rate > 1e-12 ? sin(half) / rate : h / 2, c = cos(half);
    double x = q[0], y = q[1], z = q[2], v = q[3], a = s * w[0], b = s * w[1], d = s * w[2];

    q[0] = c * x + v * a + y * d - z * b;
    q[1] = c * y + v * b + z * a - x * d;
    q[2] = c * z + v * d + x * b - y * a;
    q[3] = c * v - x * a - y * b - z * d;
}

void hb_multirotor_step(hb_multirotor *m, const double *u)
{
    const double h = HB_MULTIROTOR_STEP;
    double *x = m->x, *q = x + QX;

    m->newest = (m->newest + 1) % HB_MULTIROTOR_QUEUE;
    memcpy(m->queue[m->newest], u, sizeof m->queue[0]);
    const double *in_force = hb_multirotor_in_force(m);
    const double command[4] = {in_force[0], in_force[1] + m->offset[0], in_force[2] + m->offset[1],
                               in_force[3] + m->offset[2]};
    /* Cheeseman and Bennett's, which grows without bound only below where a rotor can be */
    double ratio = 0.12 / (4 * fmax(x[Z], 0.12 / 2)), lift = 1 + m->ground * (1 / (1 - ratio * ratio) - 1);

    m->thrust += -expm1(-h / m->thrust_lag) * (m->full_thrust * command[0] - m->thrust);
    for (int i = 0; i < 2; i++) {
        if (m->bandwidth > 0) {
            x[WX + i] += -expm1(-h * m->bandwidth) * (command[1 + i] - x[WX + i]);
            continue;
        }
        m->acceleration[i] += h * (m->frequency * m->frequency * (command[1 + i] - x[WX + i]) -
                                   2 * m->damping * m->frequency * m->acceleration[i]);
        x[WX + i] += h * m->acceleration[i];
    }
    x[WZ] += -expm1(-h * m->yaw_bandwidth) * (command[3] - x[WZ]);
    turn(q, x + WX, h);

    const double up[3] = {2 * (q[0] * q[2] + q[3] * q[1]), 2 * (q[1] * q[2] - q[3] * q[0]),
                          1 - 2 * (q[0] * q[0] + q[1] * q[1])};
    for (int i = 0; i < 3; i++) {
        double a =
            lift * m->thrust * up[i] - m->drag * (x[VX + 2 * i] - m->wind[i]) + m->push[i] - (i == 2 ? gravity : 0);
        m->v_dot[i] = a;
        x[X + 2 * i] += h * x[VX + 2 * i] + h * h / 2 * a;
        x[VX + 2 * i] += h * a;
    }
}

/* --- the estimate --- */

void hb_estimator_errors_start(hb_estimator_errors *e, double level, double (*normal)(void *), void *draws)
{
    *e = (hb_estimator_errors){.position = 0.03 * level,
                               .velocity = 0.1 * level, /* each axis: 0.17 m/s altogether */
                               .attitude = 0.75 * M_PI / 180 * level,
                               .rates = {0.085 * level, 0.053 * level, 0.017 * level}};
    for (int i = 0; i < 9; i++)
        e->now[i] = normal(draws);
}

void hb_estimator_errors_add(hb_estimator_errors *e, double dt, double *x, double (*normal)(void *), void *draws)
{
    const double keep = exp(-dt / 1.0), fresh = sqrt(1 - keep * keep);
    double lean[3];

    for (int i = 0; i < 9; i++)
        e->now[i] = keep * e->now[i] + fresh * normal(draws);
    for (int i = 0; i < 3; i++) {
        x[X + 2 * i] += e->position * e->now[i];
        x[VX + 2 * i] += e->velocity * e->now[3 + i];
        lean[i] = e->attitude * e->now[6 + i];
        x[WX + i] += e->rates[i] * normal(draws);
    }
    turn(x + QX, lean, 1);
}
