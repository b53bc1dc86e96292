/* Samples into transitions; the rules: pairing.h. */
#include "estimate/pairing.h"

#include <math.h>
#include <string.h>

void hb_pairing_lay_out(hb_pairing *p, hb_arena *arena)
{
    p->x = hb_arena_take(arena, (size_t)p->nx, sizeof *p->x);
    p->u = hb_arena_take(arena, (size_t)p->nu, sizeof *p->u);
    p->x_before = hb_arena_take(arena, (size_t)p->nx, sizeof *p->x_before);
    p->u_before = hb_arena_take(arena, (size_t)p->nu, sizeof *p->u_before);
}

static bool all_finite(const double *x, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static void copy(double *to, const double *from, int n)
{
    if (n > 0)
        memcpy(to, from, (size_t)n * sizeof *to);
}

void hb_pairing_wait(hb_pairing *p, const hb_observation *o)
{
    p->waiting = true;
    p->time_us = o->time_us;
    p->reset_counter = o->reset_counter;
    copy(p->x, o->x, p->nx);
    if (o->u)
        copy(p->u, o->u, p->nu);
}

/* What keeps a sample from making a transition with the one that waits, and whether it takes that one's place. */
static hb_reason examine(const hb_pairing *p, const hb_observation *o, double dt, bool *ret_replaces)
{
    *ret_replaces = true;
    if (!p->waiting)
        return HB_REASON_FIRST;
    if (o->reset_counter != p->reset_counter)
        return HB_REASON_RESET;
    if (dt <= 0) {
        /* overtaken on the way, unless the clock was set back */
        *ret_replaces = dt < -p->max_dt;
        return HB_REASON_OUT_OF_ORDER;
    }
    if (dt > p->max_dt)
        return HB_REASON_GAP;
    if (dt < p->min_dt) {
        /* as long as the control is the same, the interval may grow */
        *ret_replaces = p->nu > 0 && (!o->u || memcmp(o->u, p->u, (size_t)p->nu * sizeof *p->u) != 0);
        return HB_REASON_BAD_PERIOD;
    }
    return HB_REASON_NONE;
}

hb_reason hb_pairing_join(hb_pairing *p, const hb_observation *o, hb_transition *ret)
{
    if (o->nx != p->nx || o->nu != p->nu)
        return HB_REASON_DIMENSION;
    if (!all_finite(o->x, p->nx) || (o->u && !all_finite(o->u, p->nu)) ||
        (o->u_before && !all_finite(o->u_before, p->nu)))
        return HB_REASON_NOT_FINITE;

    double dt = (double)(o->time_us - p->time_us) * 1e-6;
    bool replaces;
    hb_reason reason = examine(p, o, dt, &replaces);

    if (reason == HB_REASON_NONE) {
        copy(p->x_before, p->x, p->nx);
        copy(p->u_before, o->u_before ? o->u_before : p->u, p->nu);
    }
    if (replaces)
        hb_pairing_wait(p, o);
    if (reason == HB_REASON_NONE)
        *ret = (hb_transition){.x = p->x_before, .u = p->u_before, .x_next = p->x, .dt = dt};
    return reason;
}
