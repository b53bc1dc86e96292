/* A ring of commands in order of time; the interface: underway.h. */
#include "underway.h"

#include <string.h>

void hb_underway_lay_out(hb_underway *w, hb_arena *arena)
{
    w->u = hb_arena_take(arena, (size_t)HB_UNDERWAY * (size_t)w->nu, sizeof *w->u);
}

void hb_underway_reset(hb_underway *w)
{
    w->count = 0;
}

void hb_underway_add(hb_underway *w, int64_t from_us, const double *u)
{
    size_t at = w->count++ % HB_UNDERWAY;

    w->from[at] = from_us;
    if (w->nu > 0)
        memcpy(w->u + at * (size_t)w->nu, u, (size_t)w->nu * sizeof *u);
}

const double *hb_underway_at(const hb_underway *w, int64_t time_us, int64_t *ret_until)
{
    uint64_t oldest = w->count > HB_UNDERWAY ? w->count - HB_UNDERWAY : 0;

    *ret_until = INT64_MAX;
    for (uint64_t i = w->count; i > oldest; i--) {
        size_t at = (i - 1) % HB_UNDERWAY;
        if (w->from[at] <= time_us)
            return w->u + at * (size_t)w->nu;
        *ret_until = w->from[at];
    }
    return NULL;
}
