/* What the vehicle was told, and when each command came into force. All questions about controls are asked here.
 *
 *     told      what was answered, dated by the moment at which it reaches the vehicle
 *     reported  what the vehicle says of its control (telemetry, `applied` of a request)
 *
 * A report that equals a command of around its time confirms the vehicle's obedience, and moves nothing: the command's
 * own date is better than that of a sample, which may be late, jitter or be lost, and may state the command or the
 * control in force. A report that equals none is in force from its time on, until the next command or the next report:
 * a vehicle says what it does before its first command arrives. After a few of those in a row somebody else is flying,
 * and what is told counts for nothing until reports agree with it again.
 *
 * hb_command_history_drive passes the commands through the actuators: pairing, propagation and planning all ask it. */
#ifndef HB_COMMAND_HISTORY_H
#define HB_COMMAND_HISTORY_H

#include <stdbool.h>

#include "dynamics/actuators.h"

enum { HB_COMMAND_HISTORY = 256 }; /* commands that are remembered */

typedef struct hb_command_history {
    int nu;
    const double *close; /* nu: controls that differ by no more are the same */
    int64_t slack_us;    /* a report may be of a command that came or comes into force within this time */

    int count;                        /* at most HB_COMMAND_HISTORY, oldest first */
    int64_t from[HB_COMMAND_HISTORY]; /* when each comes into force, ascending */
    bool told[HB_COMMAND_HISTORY];    /* told; false: reported */
    double *u;                        /* HB_COMMAND_HISTORY x nu */
    int strangers;                    /* reports in a row that equal nothing told */
    bool ignored;                     /* somebody else is flying */
} hb_command_history;

/* Takes the array from the arena; nu, close and slack_us are given. */
void hb_command_history_lay_out(hb_command_history *h, hb_arena *arena);
void hb_command_history_reset(hb_command_history *h);
/* What comes into force before a time is over and done with: it is forgotten, and who was flying with it. */
void hb_command_history_forget(hb_command_history *h, int64_t before_us);
/* Of what was told to come into force at a time, only u (nu) was sent. */
void hb_command_history_replace(hb_command_history *h, int64_t from_us, const double *u);

/* u (nu) was answered, and will be in force from a time on. */
void hb_command_history_tell(hb_command_history *h, int64_t from_us, const double *u);
/* The vehicle reports u (nu) at a time. */
void hb_command_history_report(hb_command_history *h, int64_t time_us, const double *u);

/* The command in force at a time, NULL if none is known; and when the next one takes over (INT64_MAX: none is known).
 */
const double *hb_command_history_at(const hb_command_history *h, int64_t time_us, int64_t *ret_until);

/* What the actuators make of the commands from one time to another: their state (nu) moves on, mean (nu; may be NULL)
 * is their mean on the way. `rest` (nu) was in force before the first known command. */
void hb_command_history_drive(const hb_command_history *h, const hb_actuators *a, const double *rest, int64_t from_us,
                              int64_t to_us, double *state, double *mean);
/* The state of the actuators (nu) at a time. */
void hb_command_history_settle(const hb_command_history *h, const hb_actuators *a, const double *rest, int64_t time_us,
                               double *ret_state);

#endif
