/* Samples into transitions; the rules: transitions.h. */
#include "estimate/transitions.h"

#include <math.h>
#include <string.h>

#include "estimate/constants.h"

void hb_transitions_lay_out(hb_transitions *t, hb_arena *arena)
{
    size_t nx = (size_t)t->nx, nu = (size_t)t->nu;

    t->start.x = hb_arena_take(arena, nx, sizeof(double));
    t->end.x = hb_arena_take(arena, nx, sizeof(double));
    t->x = hb_arena_take(arena, nx, sizeof(double));
    t->u = hb_arena_take(arena, nu, sizeof(double));
    t->x_next = hb_arena_take(arena, nx, sizeof(double));
    t->scratch = hb_arena_take(arena, nx + nu, sizeof(double));
}

/* Adds a sample to the end that is being gathered. */
static void gather(hb_transitions *t, const hb_observation *o)
{
    hb_sample_mean *e = &t->end;

    if (e->count == 0) {
        *e = (hb_sample_mean){.count = 1, .first_us = o->time_us, .time_us = o->time_us, .x = e->x};
        memcpy(e->x, o->x, (size_t)t->nx * sizeof *e->x);
        return;
    }
    memcpy(t->scratch, o->x, (size_t)t->nx * sizeof *t->scratch);
    hb_rotations_align(&t->rotations, t->scratch, e->x);
    e->count++;
    for (int i = 0; i < t->nx; i++)
        e->x[i] += (t->scratch[i] - e->x[i]) / e->count;
    e->time_us += (o->time_us - e->time_us) / e->count;
    hb_rotations_normalise(&t->rotations, e->x);
}

/* What was commanded between two times, in the mean; false: it is not known. */
static bool commands_between(hb_transitions *t, const hb_command_history *told, const double *rest, int64_t from,
                             int64_t to)
{
    const hb_actuators at_once = {.nu = t->nu};
    int64_t ignored;

    if (t->nu > 0 && !hb_command_history_at(told, from, &ignored))
        return false;
    if (t->nu > 0)
        hb_command_history_drive(told, &at_once, rest, from, to, t->scratch, t->u);
    return true;
}

static void hand_out(hb_transitions *t, const hb_command_history *told, double dt, hb_transition *ret)
{
    int64_t ignored;

    memcpy(t->x, t->start.x, (size_t)t->nx * sizeof *t->x);
    memcpy(t->x_next, t->end.x, (size_t)t->nx * sizeof *t->x_next);
    hb_rotations_canonical(&t->rotations, t->x);
    hb_rotations_align(&t->rotations, t->x_next, t->x);
    *ret = (hb_transition){.x = t->x,
                           .u = t->u,
                           .x_next = t->x_next,
                           .dt = dt,
                           .continues = t->continues,
                           .before = hb_command_history_at(told, t->start.time_us - 1, &ignored)};
}

/* The end that was gathered is complete: it makes a transition with the start if that is about a period ago, and takes
 * its place. */
static hb_reason close_end(hb_transitions *t, const hb_command_history *told, const double *rest, hb_transition *ret)
{
    double dt = (double)(t->end.time_us - t->start.time_us) * 1e-6;
    /* ends come a quarter of a period apart, or a gap: of these the one nearest to a whole period is taken */
    double enough = fmax(t->shortest, t->period - fmax(t->gap, HB_END_WIDTH * t->period) / 2);
    bool known = false;

    if (t->started && dt < enough) {
        t->end.count = 0;
        return HB_REASON_GATHERED;
    }
    if (t->started && (known = commands_between(t, told, rest, t->start.time_us, t->end.time_us)))
        hand_out(t, told, dt, ret);

    hb_sample_mean was = t->start;
    t->start = t->end;
    t->end = was;
    t->end.count = 0;
    t->continues = known;
    t->started = true;
    return known ? HB_REASON_NONE : HB_REASON_FIRST;
}

/* Were samples lost while the control, which nobody but them tells of, changed? */
static bool lost_a_change(const hb_transitions *t, const hb_observation *o, const hb_command_history *told, double gap)
{
    int64_t ignored;

    if (t->nu == 0 || !(t->gap > 0) || gap < HB_LOST_SAMPLE * t->gap)
        return false;
    for (int i = told->count - 1; i >= 0 && told->from[i] >= o->time_us; i--)
        if (told->from[i] == o->time_us && !told->told[i])
            return hb_command_history_at(told, t->newest_us, &ignored) != NULL;
    return false;
}

/* Why a sample does not continue the one before it; HB_REASON_NONE: it does. */
static hb_reason examine(const hb_transitions *t, const hb_observation *o, const hb_command_history *told, double gap,
                         bool *ret_start_over)
{
    *ret_start_over = true;
    if (!t->waiting)
        return HB_REASON_FIRST;
    if (o->reset_counter != t->reset_counter)
        return HB_REASON_RESET;
    if (gap <= 0) {
        /* overtaken on the way, unless the clock was set back */
        *ret_start_over = gap < -t->max_gap;
        return HB_REASON_OUT_OF_ORDER;
    }
    if (gap > t->max_gap)
        return HB_REASON_GAP;
    if (lost_a_change(t, o, told, gap))
        return HB_REASON_LOST_CONTROL;
    return HB_REASON_NONE;
}

hb_reason hb_transitions_add(hb_transitions *t, const hb_observation *o, const hb_command_history *told,
                             const double *rest, hb_transition *ret)
{
    double gap = (double)(o->time_us - t->newest_us) * 1e-6;
    bool start_over;
    hb_reason reason = examine(t, o, told, gap, &start_over), closed = HB_REASON_GATHERED;

    if (reason != HB_REASON_NONE) {
        if (!start_over)
            return reason;
        t->started = t->continues = false;
        t->end.count = 0;
        t->gap = 0;
    } else {
        t->gap = gap;
        /* the end that was open is complete when this sample is too late for it */
        if (t->end.count > 0 && (double)(o->time_us - t->end.first_us) * 1e-6 > HB_END_WIDTH * t->period)
            closed = close_end(t, told, rest, ret);
    }
    t->waiting = true;
    t->newest_us = o->time_us;
    t->reset_counter = o->reset_counter;
    gather(t, o);
    /* where samples are rare, one is an end by itself: nothing is waited for */
    if (reason == HB_REASON_NONE && closed != HB_REASON_NONE && gap > HB_END_WIDTH * t->period)
        closed = close_end(t, told, rest, ret);
    if (reason == HB_REASON_NONE)
        return closed == HB_REASON_FIRST ? HB_REASON_GATHERED : closed;
    return reason;
}
