#include "mavlink/ladder.h"

#include <stddef.h>

const char *const hb_rung_name[] = {
#define X(id, name) name,
    HB_RUNGS(X)
#undef X
};

static const double forget = 0.5;       /* seconds of holding forgotten per second of flying */
static const double repeat_after = 0.2; /* seconds until a mode is commanded again */
static const double engage_for = 2;     /* seconds until asking for offboard is given up */
static const double silent_for =
    1; /* seconds after yielding: longer than the autopilot takes an old setpoint for new */

static void go(hb_ladder *l, hb_rung rung, const char *reason, double now)
{
    l->rung = rung;
    l->reason = reason;
    l->since = now;
    l->commanded = now - 1; /* the first command goes out at once */
    l->good = 0;
    if (rung == HB_RUNG_STANDBY || rung == HB_RUNG_ENGAGING)
        l->held = 0;
}

/* The rung that what is seen leads to. */
static void climb(hb_ladder *l, const hb_ladder_input *in)
{
    double now = in->now;

    switch (l->rung) {
    case HB_RUNG_STANDBY:
        /* offboard that was there before us, or that we do not stream for, is somebody else's */
        l->other_mode = l->other_mode || !in->offboard;
        if (in->offboard && !(l->pilot_engages && l->other_mode))
            l->reason = "offboard by somebody else: choose another mode first";
        else if (in->offboard)
            go(l, in->obstacle ? HB_RUNG_HANDING_OVER : HB_RUNG_HOLDING,
               in->obstacle ? in->obstacle : "engaged by the pilot", now);
        else if (in->engage && !in->obstacle)
            go(l, HB_RUNG_ENGAGING, "engaged by the operator", now);
        else
            l->reason = in->obstacle ? in->obstacle : "ready";
        break;
    case HB_RUNG_ENGAGING:
        if (in->offboard)
            go(l, HB_RUNG_HOLDING, "offboard is in force", now);
        else if (in->obstacle || in->release)
            go(l, HB_RUNG_STANDBY, in->obstacle ? in->obstacle : "released by the operator", now);
        else if (now - l->since > engage_for)
            go(l, HB_RUNG_STANDBY, "the autopilot did not go to offboard", now);
        break;
    case HB_RUNG_FLYING:
    case HB_RUNG_HOLDING:
        if (!in->offboard)
            go(l, HB_RUNG_YIELDED, "the autopilot left offboard", now);
        else if (in->obstacle || in->release)
            go(l, HB_RUNG_HANDING_OVER, in->obstacle ? in->obstacle : "released by the operator", now);
        else if (in->doubt && l->rung == HB_RUNG_FLYING)
            go(l, HB_RUNG_HOLDING, in->doubt, now);
        else if (l->rung == HB_RUNG_HOLDING && l->held > l->hold_for)
            go(l, HB_RUNG_HANDING_OVER, l->reason, now);
        else if (in->doubt) {
            l->good = 0;
            l->reason = in->doubt;
        } else if (l->rung == HB_RUNG_HOLDING && ++l->good >= l->good_cycles)
            go(l, HB_RUNG_FLYING, "plans are good", now);
        break;
    case HB_RUNG_HANDING_OVER:
        if (!in->offboard)
            go(l, HB_RUNG_YIELDED, l->reason, now);
        break;
    case HB_RUNG_YIELDED:
        if (in->engage && !in->obstacle)
            go(l, HB_RUNG_ENGAGING, "engaged by the operator", now);
        else if (l->pilot_engages && !in->offboard && now - l->since > silent_for)
            go(l, HB_RUNG_STANDBY, "waits for the pilot", now);
        break;
    case HB_NRUNGS:
        break;
    }
}

hb_ladder_output hb_ladder_step(hb_ladder *l, const hb_ladder_input *in)
{
    hb_ladder_output out = {0};
    hb_rung before = l->rung;
    double passed = l->started ? in->now - l->last : 0;

    if (!l->started)
        go(l, HB_RUNG_STANDBY, "started", in->now);
    l->last = in->now;
    if (l->rung == HB_RUNG_HOLDING)
        l->held += passed;
    else if (l->rung == HB_RUNG_FLYING)
        l->held = l->held > forget * passed ? l->held - forget * passed : 0;
    climb(l, in);
    out.changed = !l->started || l->rung != before;
    l->started = true;

    static const hb_setpoint setpoint[HB_NRUNGS] = {HB_SEND_HOLD, HB_SEND_HOLD, HB_SEND_RATES,
                                                    HB_SEND_HOLD, HB_SEND_HOLD, HB_SEND_NOTHING};
    out.setpoint = setpoint[l->rung];
    /* without the pilot's switch there is nothing to keep a stream for */
    if (l->rung == HB_RUNG_STANDBY && (!l->pilot_engages || in->offboard))
        out.setpoint = HB_SEND_NOTHING;
    if ((l->rung == HB_RUNG_ENGAGING || l->rung == HB_RUNG_HANDING_OVER) && in->now - l->commanded >= repeat_after) {
        out.command = l->rung == HB_RUNG_ENGAGING ? HB_COMMAND_OFFBOARD : HB_COMMAND_HOLD;
        l->commanded = in->now;
    }
    return out;
}
