/* Commands under way: which control is in force at a time, as far as the vehicle does what it was told. */
#ifndef HB_COMMAND_HISTORY_H
#define HB_COMMAND_HISTORY_H

#include "base/base.h"

enum { HB_COMMAND_HISTORY = 256 }; /* commands that are remembered */

typedef struct hb_command_history {
    int nu;
    uint64_t count;                   /* of commands since the last reset */
    int64_t from[HB_COMMAND_HISTORY]; /* time from which each is in force, in order */
    double *u;                        /* HB_COMMAND_HISTORY x nu */
} hb_command_history;

/* Takes the array from the arena; nu is given. */
void hb_command_history_lay_out(hb_command_history *w, hb_arena *arena);
void hb_command_history_reset(hb_command_history *w);

/* u (nu) will be in force from a time on that is not before the last one's. */
void hb_command_history_add(hb_command_history *w, int64_t from_us, const double *u);
/* The command in force at a time, NULL if none is known, and when the next one takes over. */
const double *hb_command_history_at(const hb_command_history *w, int64_t time_us, int64_t *ret_until);

#endif
