#include "sim/onboard.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static int answer(hb_loop *l, double timeout, hb_loop_answer *ret, hb_error *err)
{
    (void)timeout;
    (void)err;
    *ret = ((hb_onboard *)l)->answer;
    return 0;
}

static void free_loop(hb_loop *l)
{
    free(l);
}

int hb_onboard_new(hb_onboard **ret, size_t size, const hb_plant_type *plant, double rate, const hb_gains table[2],
                   const double *factor, hb_error *err)
{
    if (plant != &hb_plant_quadrotor && plant != &hb_plant_multirotor)
        return hb_fail(err, EINVAL,
                       "controllers on board are those of the quadrotor and the multirotor, not of plant %s",
                       plant->name);
    hb_onboard *o = calloc(1, size);
    if (!o)
        return hb_fail(err, ENOMEM, "out of memory");
    o->loop = (hb_loop){.nx = plant->nx,
                        .nu = plant->nu,
                        .horizon = 2,
                        .step = HB_ONBOARD_AHEAD,
                        .rate = rate,
                        .virtual_time = true,
                        .publish = publish,
                        .answer = answer,
                        .free = free_loop};
    o->plant = plant;
    o->gains = hb_gains_of(table, plant, factor);
    o->answer = (hb_loop_answer){.has_action = true, .status = HB_STATUS_CONVERGED, .cost = NAN};
    o->answer.one_step_error = o->answer.out_of_span = NAN;
    *ret = o;
    return 0;
}

double hb_onboard_elapsed(hb_onboard *o, const hb_loop_question *q)
{
    double dt = 1e-6 * (double)(q->time_us - o->time_us);
    bool first = !o->running || q->reset_counter != o->reset_counter || !(dt > 0 && dt < 1);

    o->running = true;
    o->time_us = q->time_us;
    o->reset_counter = q->reset_counter;
    return first ? 0 : dt;
}

hb_onboard_reference hb_onboard_follow(const hb_plant_type *plant, const hb_loop_question *q)
{
    const double *now = q->target ? q->target : plant->target, *then = now + plant->nx, *last = then + plant->nx;
    hb_onboard_reference r = {0};

    for (int i = 0; i < 3; i++) {
        r.p[i] = now[HB_X + 2 * i];
        r.v[i] = now[HB_VX + 2 * i];
        if (q->target && q->ntargets > 2) {
            r.a[i] = (then[HB_VX + 2 * i] - now[HB_VX + 2 * i]) / HB_ONBOARD_AHEAD;
            r.j[i] = ((last[HB_VX + 2 * i] - then[HB_VX + 2 * i]) / HB_ONBOARD_AHEAD - r.a[i]) / HB_ONBOARD_AHEAD;
        }
    }
    return r;
}

void hb_onboard_turn(double axis[3][3], double force, const double *jerk, double rate[2])
{
    double across[2] = {0};

    /* thrust R e_z changes by what its rates turn it */
    for (int i = 0; i < 3; i++) {
        across[0] += jerk[i] * axis[0][i];
        across[1] += jerk[i] * axis[1][i];
    }
    rate[0] = -across[1] / fmax(force, 0.3 * hb_airframe_gravity);
    rate[1] = across[0] / fmax(force, 0.3 * hb_airframe_gravity);
}

void hb_onboard_limit_force(double *force)
{
    const double most_slope = 1; /* tangent of the tilt: 45 degrees */

    force[2] = fmax(force[2], 0.3 * hb_airframe_gravity);
    double slope = hypot(force[0], force[1]) / force[2];
    for (int i = 0; i < 2 && slope > most_slope; i++)
        force[i] *= most_slope / slope;
}

double hb_clamp(double value, double limit)
{
    return fmin(fmax(value, -limit), limit);
}

bool hb_onboard_mix(const hb_plant_type *plant, double thrust, double *torque, double *u)
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

void hb_onboard_command_rates(const hb_plant_type *plant, double force, const double *rate, double *u)
{
    u[0] = force / HB_MULTIROTOR_FULL;
    memcpy(u + 1, rate, 3 * sizeof *u);
    for (int i = 0; i < 4; i++)
        u[i] = fmin(fmax(u[i], plant->control_min[i]), plant->control_max[i]);
}

double hb_smooth_step(hb_smooth *s, double value, double bandwidth, double dt)
{
    double share = -expm1(-bandwidth * dt);

    s->once += share * (value - s->once);
    s->twice += share * (s->once - s->twice);
    return s->twice;
}
