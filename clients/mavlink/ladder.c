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
static const double silent_for = 1; /* seconds after yielding: longer than an autopilot takes an old setpoint for new */
static const double held_up = 0.2;  /* seconds between two calls: then PX4 takes the stream for lost */
static const double invited_for = 0.5; /* seconds from the pilot's switch until offboard is in force */

static void go(hb_ladder *l, hb_rung rung, const char *reason, double now)
{
    l->rung = rung;
    l->reason = reason;
    l->since = now;
    l->commanded = now - 1; /* the first command goes out at once */
    l->good = 0;
    if (rung == HB_RUNG_STANDBY || rung == HB_RUNG_ENGAGING)
        l->held = l->uneasy = 0;
}

/* Adds time that passed to an account of doubts, or forgets of it. */
static void account(double *sum, bool adds, double passed)
{
    *sum = adds ? *sum + passed : *sum > forget * passed ? *sum - forget * passed : 0;
}

/* Why this cycle's plan is not to be flown, with what is known from the cycles before. */
static const char *doubt_of(const hb_ladder *l, const hb_ladder_input *in)
{
    return in->doubt ? in->doubt : l->uneasy > l->uneasy_for ? in->unease : NULL;
}

/* The rung that what is seen leads to. */
static void climb(hb_ladder *l, const hb_ladder_input *in)
{
    double now = in->now;
    const char *doubt = doubt_of(l, in);

    switch (l->rung) {
    case HB_RUNG_STANDBY:
        if (!in->offboard && in->intent == HB_INTENT_OTHER)
            l->invited = now;
        /* offboard that was there before us, or that we do not stream for, is somebody else's */
        if (in->offboard && !(l->pilot_engages && now - l->invited <= invited_for))
            l->reason = "offboard by somebody else: choose another mode first";
        else if (in->offboard)
            go(l, in->obstacle ? HB_RUNG_HANDING_OVER : HB_RUNG_HOLDING,
               in->obstacle ? in->obstacle : "engaged by the pilot", now);
        else if (in->engage && !in->obstacle)
            go(l, HB_RUNG_ENGAGING, "engaged by the operator", now);
        else if (l->pilot_engages && in->intent == HB_INTENT_OFFBOARD && now - l->invited > invited_for)
            l->reason = "the autopilot would return to offboard by itself: choose another mode first";
        else if (l->pilot_engages && in->intent == HB_INTENT_UNKNOWN && !in->obstacle)
            l->reason = "the autopilot does not say what it means to do (CURRENT_MODE): engage by SIGUSR1";
        else
            l->reason = in->obstacle ? in->obstacle : doubt ? doubt : "ready";
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
        else if (doubt && l->rung == HB_RUNG_FLYING)
            go(l, HB_RUNG_HOLDING, doubt, now);
        else if (l->rung == HB_RUNG_HOLDING && l->held > l->hold_for)
            go(l, HB_RUNG_HANDING_OVER, l->reason, now);
        else if (doubt) {
            l->good = 0;
            l->reason = doubt;
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
        else if (l->deserted && in->offboard && now - l->since > silent_for)
            go(l, HB_RUNG_HANDING_OVER, l->reason, now); /* ArduCopter has levelled, and waits */
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

    if (!l->started) {
        go(l, HB_RUNG_STANDBY, "started", in->now);
        l->invited = in->now - 2 * invited_for;
    }
    l->last = in->now;
    if (l->rung == HB_RUNG_HOLDING || l->rung == HB_RUNG_FLYING) {
        account(&l->held, l->rung == HB_RUNG_HOLDING, passed);
        account(&l->uneasy, in->unease, passed);
    }
    bool ours = l->rung != HB_RUNG_STANDBY && l->rung != HB_RUNG_YIELDED;
    if (ours && passed > held_up) {
        go(l, HB_RUNG_YIELDED, "the bridge was held up: the autopilot may have left offboard", in->now);
        l->deserted = true;
    } else {
        climb(l, in);
    }
    l->deserted = l->deserted && l->rung == HB_RUNG_YIELDED;
    out.changed = !l->started || l->rung != before;
    l->started = true;

    static const hb_setpoint setpoint[HB_NRUNGS] = {HB_SEND_HOLD, HB_SEND_HOLD, HB_SEND_RATES,
                                                    HB_SEND_HOLD, HB_SEND_HOLD, HB_SEND_NOTHING};
    out.setpoint = setpoint[l->rung];
    /* without the pilot's switch there is nothing to keep a stream for, and never for a switch of the past */
    if (l->rung == HB_RUNG_STANDBY && (!l->pilot_engages || in->offboard || in->now - l->invited > invited_for))
        out.setpoint = HB_SEND_NOTHING;
    if ((l->rung == HB_RUNG_ENGAGING || l->rung == HB_RUNG_HANDING_OVER) && in->now - l->commanded >= repeat_after) {
        out.command = l->rung == HB_RUNG_ENGAGING ? HB_COMMAND_OFFBOARD : HB_COMMAND_HOLD;
        l->commanded = in->now;
    }
    return out;
}
