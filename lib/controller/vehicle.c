#include "controller/vehicle.h"

#include <math.h>
#include <string.h>

#include "plan/numbers.h"

void hb_vehicle_lay_out(hb_vehicle *v, const hb_model *m, hb_arena *arena)
{
    v->safe = hb_arena_take(arena, (size_t)m->nu, sizeof *v->safe);
}

void hb_vehicle_init(hb_vehicle *v, const hb_model *m, const hb_controller_settings *s)
{
    v->m = m;
    v->nx = m->nx;
    v->nu = m->nu;
    v->rotations = hb_rotations_of(m);
    for (int i = 0; i < m->nu; i++)
        v->close[i] = HB_MEASURED * (m->control_max[i] - m->control_min[i]);
    hb_vehicle_configure(v, s);
}

void hb_vehicle_configure(hb_vehicle *v, const hb_controller_settings *s)
{
    const hb_model *m = v->m;

    v->s = *s;
    for (int i = 0; i < v->nu; i++)
        v->safe[i] =
            s->nsafe_action ? s->safe_action[i] : fmin(fmax(m->control_trim[i], m->control_min[i]), m->control_max[i]);
}

hb_command_history hb_vehicle_history(const hb_vehicle *v, const hb_model *m)
{
    return (hb_command_history){.nu = m->nu, .close = v->close, .slack_us = llround(HB_REPORT_SLACK * 1e6)};
}

void hb_vehicle_copy_history(hb_command_history *to, const hb_command_history *from)
{
    hb_command_history copy = *from;

    copy.close = to->close;
    copy.u = to->u;
    if (from->nu > 0)
        memcpy(copy.u, from->u, (size_t)from->count * (size_t)from->nu * sizeof *from->u);
    *to = copy;
}

bool hb_vehicle_take_state(const hb_vehicle *v, const double *x, double *ret)
{
    int q = v->rotations.quaternion;
    double square = 0;

    memcpy(ret, x, (size_t)v->nx * sizeof *ret);
    for (int i = 0; q >= 0 && i < 4; i++)
        square += x[q + i] * x[q + i];
    if (q >= 0 && !(fabs(sqrt(square) - 1) <= HB_OFF_LENGTH))
        return false;
    for (int i = 0; q >= 0 && i < 4; i++)
        ret[q + i] /= sqrt(square);
    return true;
}

bool hb_vehicle_within_bounds(const hb_vehicle *v, const double *u)
{
    for (int i = 0; i < v->nu; i++) {
        double over = HB_OVER_BOUNDS * (v->m->control_max[i] - v->m->control_min[i]);
        if (!(u[i] >= v->m->control_min[i] - over && u[i] <= v->m->control_max[i] + over))
            return false;
    }
    return true;
}

int64_t hb_vehicle_applies_us(const hb_vehicle *v, int64_t time_us)
{
    return time_us + llround(v->s.delay * 1e6);
}
