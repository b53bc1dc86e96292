/* The failsafe ladder: what the bridge does, decided once per cycle from what it knows. No clock, no message, no limit
 * is in here: the caller says what it sees, and is told what to send.
 *
 *     standby ----> engaging ----> flying <----> holding ----> handing over ----> yielded ----> standby
 *                      asked        plan        a doubt:         1 s of that,      the autopilot
 *                                  is flown     position         or an obstacle    has left offboard
 *
 * standby       the autopilot flies; hold setpoints are streamed, so that it would accept offboard. Not while offboard
 *               is what it was asked for last: PX4 would return there as soon as setpoints come, unasked. After a pause
 *               the stream begins on news that are newer than the pause, since the pilot chose who knows what in it
 * engaging      offboard was asked for. It is asked for again while every word of the autopilot's is of the mode that
 * it was in before: another mode is somebody's choice, and so may silence be flying        body rates and thrust of the
 * plan holding       a missed or untrusted reply, a limit, an estimator reset: the autopilot holds position, still
 * offboard. Back to flying after some good cycles. Time spent here is forgotten half as fast as it adds up, so that
 * flying in turns with holding ends, too. With unease, such as a plan that breaks a limit, is flown for a while: a gust
 * may ask for it. Time of that adds up and is forgotten likewise handing over  Hold mode is commanded, and again
 * whenever the autopilot is heard to be in offboard still; position setpoints go on until it is not yielded somebody
 * else flies; nothing is sent. The bridge never comes back unasked: after a second it stands by if the pilot may
 * engage, otherwise it waits for the operator's word. Here it also finds itself when it was held up for longer than the
 * autopilot waits for a setpoint: who flies must be heard first */
#ifndef HB_MAVLINK_LADDER_H
#define HB_MAVLINK_LADDER_H

#include <stdbool.h>

#define HB_RUNGS(X)                                                                                                    \
    X(STANDBY, "standby")                                                                                              \
    X(ENGAGING, "engaging")                                                                                            \
    X(FLYING, "flying")                                                                                                \
    X(HOLDING, "holding")                                                                                              \
    X(HANDING_OVER, "handing-over")                                                                                    \
    X(YIELDED, "yielded")

typedef enum {
#define X(id, name) HB_RUNG_##id,
    HB_RUNGS(X)
#undef X
        HB_NRUNGS
} hb_rung;

extern const char *const hb_rung_name[];

/* What the autopilot was asked for last, by whoever it was. It differs from its mode after a failsafe. */
typedef enum { HB_INTENT_UNKNOWN, HB_INTENT_OTHER, HB_INTENT_OFFBOARD } hb_intent;

typedef struct hb_ladder_input {
    double now;           /* seconds */
    bool offboard;        /* the autopilot's mode, */
    unsigned mode;        /* as it numbers them, */
    double mode_heard;    /* and when it said so; */
    hb_intent intent;     /* what it was asked for, */
    double intent_heard;  /* likewise */
    double lost_after;    /* seconds until it takes the stream for lost; 0: not known */
    const char *obstacle; /* why flying is not allowed at all, or NULL */
    const char *doubt;    /* why this cycle's plan is not to be flown, or NULL */
    const char *unease;   /* why it is to be flown for a while only, or NULL */
    bool engage, release; /* the operator's word, since the last call */
} hb_ladder_input;

typedef enum { HB_SEND_NOTHING, HB_SEND_HOLD, HB_SEND_RATES } hb_setpoint;
typedef enum { HB_COMMAND_NONE, HB_COMMAND_OFFBOARD, HB_COMMAND_HOLD } hb_mode_command;

typedef struct hb_ladder {
    /* settings */
    double hold_for;    /* seconds of holding until Hold is commanded: 1 */
    double uneasy_for;  /* seconds of flying with unease until position is held: 2 */
    int good_cycles;    /* in a row, until holding ends: 5 */
    bool pilot_engages; /* the pilot's switch to offboard engages; else only the operator's word */

    hb_rung rung;
    const char *reason; /* why it is there */
    double since;       /* when it came there */
    double held;        /* seconds of holding that are not forgotten, */
    double uneasy;      /* and of unease */
    double last;        /* time of the last call */
    double commanded;   /* when a mode was commanded last */
    int good;           /* cycles in a row */
    bool started;
    bool deserted;       /* yielded without having heard that the autopilot left offboard */
    bool streaming;      /* the last call said to send setpoints */
    double invited;      /* news of an autopilot that neither was in offboard nor meant to be, none of the stream's gaps
                            being younger */
    double meant;        /* when it was heard first that it means to be */
    unsigned mode_asked; /* the autopilot's mode when offboard was asked for */
    bool blind;          /* since then something may have happened that was not heard */
} hb_ladder;

typedef struct hb_ladder_output {
    hb_setpoint setpoint;
    hb_mode_command command;
    bool changed; /* another rung than before */
} hb_ladder_output;

hb_ladder_output hb_ladder_step(hb_ladder *l, const hb_ladder_input *in);

#endif
