/* A list of commands in order of time; the interface: command_history.h. */
#include "estimate/command_history.h"

#include <math.h>
#include <string.h>

#include "estimate/constants.h"

static const int64_t never = INT64_MAX;

void hb_command_history_lay_out(hb_command_history *h, hb_arena *arena)
{
    h->u = hb_arena_take(arena, (size_t)HB_COMMAND_HISTORY * (size_t)h->nu, sizeof *h->u);
}

void hb_command_history_reset(hb_command_history *h)
{
    h->count = 0;
    h->strangers = 0;
    h->ignored = false;
}

static double *command(const hb_command_history *h, int i)
{
    return h->u + (size_t)i * (size_t)h->nu;
}

/* Takes command i out. */
static void take_out(hb_command_history *h, int i)
{
    size_t after = (size_t)(h->count - i - 1);

    memmove(h->from + i, h->from + i + 1, after * sizeof *h->from);
    memmove(h->told + i, h->told + i + 1, after * sizeof *h->told);
    memmove(command(h, i), command(h, i + 1), after * (size_t)h->nu * sizeof *h->u);
    h->count--;
}

void hb_command_history_forget(hb_command_history *h, int64_t before_us)
{
    while (h->count > 0 && h->from[0] < before_us)
        take_out(h, 0);
    h->strangers = 0;
    h->ignored = false;
}

/* Puts a command where its time belongs. The oldest is forgotten when there is no room. */
static void insert(hb_command_history *h, int64_t from_us, bool told, const double *u)
{
    if (h->count == HB_COMMAND_HISTORY)
        take_out(h, 0);
    int at = h->count;
    while (at > 0 && h->from[at - 1] > from_us)
        at--;
    size_t after = (size_t)(h->count - at);
    memmove(h->from + at + 1, h->from + at, after * sizeof *h->from);
    memmove(h->told + at + 1, h->told + at, after * sizeof *h->told);
    memmove(command(h, at + 1), command(h, at), after * (size_t)h->nu * sizeof *h->u);
    h->from[at] = from_us;
    h->told[at] = told;
    memcpy(command(h, at), u, (size_t)h->nu * sizeof *u);
    h->count++;
}

static bool same(const hb_command_history *h, const double *a, const double *b)
{
    for (int i = 0; i < h->nu; i++)
        if (!(fabs(a[i] - b[i]) <= h->close[i]))
            return false;
    return true;
}

/* Index of the command in force at a time, -1: none is known. */
static int in_force(const hb_command_history *h, int64_t time_us, int64_t *ret_until)
{
    *ret_until = never;
    for (int i = h->count - 1; i >= 0; i--) {
        if (h->told[i] && h->ignored)
            continue;
        if (h->from[i] <= time_us)
            return i;
        *ret_until = h->from[i];
    }
    return -1;
}

const double *hb_command_history_at(const hb_command_history *h, int64_t time_us, int64_t *ret_until)
{
    int i = in_force(h, time_us, ret_until);

    return i < 0 ? NULL : command(h, i);
}

void hb_command_history_tell(hb_command_history *h, int64_t from_us, const double *u)
{
    if (h->nu > 0)
        insert(h, from_us, true, u);
}

void hb_command_history_replace(hb_command_history *h, int64_t from_us, const double *u)
{
    if (h->nu == 0)
        return;
    for (int i = h->count - 1; i >= 0; i--)
        if (h->told[i] && h->from[i] == from_us)
            take_out(h, i);
    insert(h, from_us, true, u);
}

/* Is it something told of around that time? */
static bool obeys(const hb_command_history *h, int64_t time_us, const double *u)
{
    for (int i = h->count - 1; i >= 0; i--) {
        /* the command of just before that span was in force at its beginning */
        if (h->told[i] && h->from[i] <= time_us + h->slack_us && same(h, command(h, i), u))
            return true;
        if (h->told[i] && h->from[i] < time_us - h->slack_us)
            return false;
    }
    return false;
}

void hb_command_history_report(hb_command_history *h, int64_t time_us, const double *u)
{
    int64_t until;

    if (h->nu == 0)
        return;
    bool obeyed = obeys(h, time_us, u);
    if (obeyed) {
        h->strangers = 0;
        h->ignored = false;
    } else {
        h->ignored |= ++h->strangers >= HB_STRANGERS;
    }
    int now = in_force(h, time_us, &until);
    /* a command is dated by itself, except one that took over from what was reported before it */
    if (obeyed && (now < 0 || h->told[now]))
        return;
    if (now < 0 || memcmp(command(h, now), u, (size_t)h->nu * sizeof *u) != 0)
        insert(h, time_us, false, u);
}

/* One channel: a(t) follows what was told `delay` before. */
static void drive_channel(const hb_command_history *h, const hb_actuators *a, int channel, double rest, int64_t from_us,
                          int64_t to_us, double *state, double *mean)
{
    int64_t delay = llround(a->delay[channel] * 1e6);
    double lag = a->lag[channel], sum = 0;

    for (int64_t time = from_us, next; time < to_us; time = next) {
        int64_t until;
        const double *u = hb_command_history_at(h, time - delay, &until);
        next = until < to_us - delay ? until + delay : to_us;

        double told = u ? u[channel] : rest, off = *state - told, held = (double)(next - time) * 1e-6;
        sum += held * (told + off * hb_actuator_share(lag, held));
        *state = told + off * hb_actuator_keep(lag, held);
    }
    if (mean)
        *mean = to_us > from_us ? sum / ((double)(to_us - from_us) * 1e-6) : *state;
}

void hb_command_history_drive(const hb_command_history *h, const hb_actuators *a, const double *rest, int64_t from_us,
                              int64_t to_us, double *state, double *mean)
{
    for (int i = 0; i < h->nu; i++)
        drive_channel(h, a, i, rest[i], from_us, to_us, &state[i], mean ? &mean[i] : NULL);
}

void hb_command_history_settle(const hb_command_history *h, const hb_actuators *a, const double *rest, int64_t time_us,
                               double *ret_state)
{
    for (int i = 0; i < h->nu; i++) {
        int64_t until, delay = llround(a->delay[i] * 1e6), begin = time_us - llround(HB_SETTLED_LAGS * a->lag[i] * 1e6);
        const double *u = hb_command_history_at(h, begin - delay, &until);
        ret_state[i] = u ? u[i] : rest[i];
        /* an actuator without lag is where its command is, also at the very moment that one comes into force */
        if (a->lag[i] > 0)
            drive_channel(h, a, i, rest[i], begin, time_us, &ret_state[i], NULL);
    }
}
