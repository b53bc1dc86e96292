/* A ring of commands in order of time; the interface: command_history.h. */
#include "estimate/command_history.h"

#include <string.h>

void hb_command_history_lay_out(hb_command_history *w, hb_arena *arena)
{
    w->u = hb_arena_take(arena, (size_t)HB_COMMAND_HISTORY * (size_t)w->nu, sizeof *w->u);
}

void hb_command_history_reset(hb_command_history *w)
{
    w->count = 0;
}

void hb_command_history_add(hb_command_history *w, int64_t from_us, const double *u)
{
    size_t at = w->count++ % HB_COMMAND_HISTORY;

    w->from[at] = from_us;
    if (w->nu > 0)
        memcpy(w->u + at * (size_t)w->nu, u, (size_t)w->nu * sizeof *u);
}

const double *hb_command_history_at(const hb_command_history *w, int64_t time_us, int64_t *ret_until)
{
    uint64_t oldest = w->count > HB_COMMAND_HISTORY ? w->count - HB_COMMAND_HISTORY : 0;

    *ret_until = INT64_MAX;
    for (uint64_t i = w->count; i > oldest; i--) {
        size_t at = (i - 1) % HB_COMMAND_HISTORY;
        if (w->from[at] <= time_us)
            return w->u + at * (size_t)w->nu;
        *ret_until = w->from[at];
    }
    return NULL;
}
