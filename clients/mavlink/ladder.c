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
static const double arrives_in = 0.5; /* seconds from the pilot's switch until offboard is in force */
/* Seconds since somebody else was heard to fly: a heartbeat comes every second, CURRENT_MODE on a slow link every half.
 * While the stream goes on without a gap, all that the pilot can have changed is to switch to offboard. */
static const double invited_for = 1.5;
/* Seconds of silence in which no pilot answers to what he sees; five messages of CURRENT_MODE as it was asked for. */
static const double fresh = 0.1;

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

/* Somebody gave the word. */
static void ask(hb_ladder *l, const hb_ladder_input *in)
{
    go(l, HB_RUNG_ENGAGING, "engaged by the operator", in->now);
    l->mode_asked = in->mode;
    l->blind = in->now - in->mode_heard > fresh;
}

/* Whether the autopilot may be streamed to in standby: it would not go to offboard but by the pilot's choice of now. */
static bool invites(const hb_ladder *l, const hb_ladder_input *in)
{
    return in->now - l->invited <= invited_for &&
           (in->intent != HB_INTENT_OFFBOARD || in->now - l->meant <= arrives_in);
}

/* Whether the mode that was commanded may be commanded again: what is heard says that the autopilot is not there, and
 * that nobody chose another one since. */
static bool may_repeat(const hb_ladder *l, const hb_ladder_input *in)
{
    if (l->commanded < l->since)
        return true; /* it is the first time */
    return in->now - l->commanded >= repeat_after && in->now - in->mode_heard <= fresh &&
           !(l->rung == HB_RUNG_ENGAGING && l->blind);
}

/* The rung that what is seen leads to. */
static void climb(hb_ladder *l, const hb_ladder_input *in)
{
    double now = in->now;
    const char *doubt = doubt_of(l, in);

    switch (l->rung) {
    case HB_RUNG_STANDBY:
        /* the stream begins on news of now, and goes on with older ones */
        if (!in->offboard && in->intent == HB_INTENT_OTHER && (l->streaming || now - in->intent_heard <= fresh))
            l->invited = in->intent_heard;
        if (in->intent != HB_INTENT_OFFBOARD)
            l->meant = now;
        /* offboard that was there before us, or that we do not stream for, is somebody else's */
        if (in->offboard && !(l->pilot_engages && now - l->invited <= invited_for))
            l->reason = "offboard by somebody else: choose another mode first";
        else if (in->offboard)
            go(l, in->obstacle ? HB_RUNG_HANDING_OVER : HB_RUNG_HOLDING,
               in->obstacle ? in->obstacle : "engaged by the pilot", now);
        else if (in->engage && !in->obstacle)
            ask(l, in);
        else if (l->pilot_engages && in->intent == HB_INTENT_OFFBOARD && !invites(l, in))
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
        else if (!l->blind && in->mode != l->mode_asked)
            go(l, HB_RUNG_STANDBY, "another mode was chosen meanwhile", now);
        else if (now - l->since > engage_for)
            go(l, HB_RUNG_STANDBY,
               l->blind ? "the autopilot did not say that it went to offboard, and was not asked twice unheard"
                        : "the autopilot did not go to offboard",
               now);
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
            ask(l, in);
        else if (l->deserted && in->offboard && now - l->since > silent_for && now - in->mode_heard <= fresh)
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
    const double lost_after = in->lost_after > 0 && in->lost_after < held_up ? in->lost_after : held_up;
    const bool ours = l->rung != HB_RUNG_STANDBY && l->rung != HB_RUNG_YIELDED;
    if (l->rung == HB_RUNG_ENGAGING)
        l->blind = l->blind || in->now - in->mode_heard > fresh;
    /* neither what was heard nor the operator's word is younger than the pause */
    if (passed > lost_after && (l->rung != HB_RUNG_STANDBY || l->pilot_engages || in->engage)) {
        l->deserted = ours || (l->rung == HB_RUNG_YIELDED && l->deserted);
        go(l, HB_RUNG_YIELDED, "the bridge was held up: the autopilot may have left offboard", in->now);
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
    if (l->rung == HB_RUNG_STANDBY && (!l->pilot_engages || in->offboard || !invites(l, in)))
        out.setpoint = HB_SEND_NOTHING;
    l->streaming = out.setpoint != HB_SEND_NOTHING;
    if (!l->streaming)
        l->invited = in->now - 2 * invited_for;
    if ((l->rung == HB_RUNG_ENGAGING || l->rung == HB_RUNG_HANDING_OVER) && may_repeat(l, in)) {
        out.command = l->rung == HB_RUNG_ENGAGING ? HB_COMMAND_OFFBOARD : HB_COMMAND_HOLD;
        l->commanded = in->now;
    }
    return out;
}
