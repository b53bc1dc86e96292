/* The failsafe ladder: what the bridge does, decided once per cycle from what it knows. No clock, no message, no limit
 * is in here: the caller says what it sees, and is told what to send.
 *
 *     standby ----> engaging ----> flying <----> holding ----> handing over ----> yielded ----> standby
 *                      asked        plan        a doubt:         1 s of that,      the autopilot
 *                                  is flown     position         or an obstacle    has left offboard
 *
 * standby       the autopilot flies; hold setpoints are streamed, so that it would accept offboard
 * engaging      offboard was asked for
 * flying        body rates and thrust of the plan
 * holding       a missed or untrusted reply, a limit, an estimator reset: the autopilot holds position, still offboard.
 *               Back to flying after some good cycles. Time spent here is forgotten half as fast as it adds up,
 *               so that flying in turns with holding ends, too
 * handing over  Hold mode is commanded until the autopilot leaves offboard; position setpoints go on until then
 * yielded       somebody else flies; nothing is sent. The bridge never comes back unasked: after a second the stream
 *               starts again if the pilot may engage, otherwise at the operator's word */
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

typedef struct hb_ladder_input {
    double now;           /* seconds */
    bool offboard;        /* the autopilot's mode */
    const char *obstacle; /* why flying is not allowed at all, or NULL */
    const char *doubt;    /* why this cycle's plan is not to be flown, or NULL */
    bool engage, release; /* the operator's word, since the last call */
} hb_ladder_input;

typedef enum { HB_SEND_NOTHING, HB_SEND_HOLD, HB_SEND_RATES } hb_setpoint;
typedef enum { HB_COMMAND_NONE, HB_COMMAND_OFFBOARD, HB_COMMAND_HOLD } hb_mode_command;

typedef struct hb_ladder {
    /* settings */
    double hold_for;    /* seconds of holding until Hold is commanded: 1 */
    int good_cycles;    /* in a row, until holding ends: 5 */
    bool pilot_engages; /* the pilot's switch to offboard engages; else only the operator's word */

    hb_rung rung;
    const char *reason; /* why it is there */
    double since;       /* when it came there */
    double held;        /* seconds of holding that are not forgotten */
    double last;        /* time of the last call */
    double commanded;   /* when a mode was commanded last */
    int good;           /* cycles in a row */
    bool started;
    bool other_mode; /* one that is not offboard was seen */
} hb_ladder;

typedef struct hb_ladder_output {
    hb_setpoint setpoint;
    hb_mode_command command;
    bool changed; /* another rung than before */
} hb_ladder_output;

hb_ladder_output hb_ladder_step(hb_ladder *l, const hb_ladder_input *in);

#endif
