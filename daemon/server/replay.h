/* A recorded flight once more.
 *
 *     recording --> inputs, in the order in which they were taken in --> the same controller, on one thread
 *                   decisions that the clock made                    --> scripted
 *                   replies and coefficients                         --> compared, to the byte
 *
 * The two threads of the daemon met in two places: a command took the newest snapshot of the estimate, and a sample
 * heard the answers given so far. Both are recorded as counts; here a command is made as soon as its snapshot is there,
 * and a sample hears no more than it did.
 *
 * With another configuration or model the same inputs are decided on by that one, with time enough, and both are put
 * side by side. */
#ifndef HB_REPLAY_H
#define HB_REPLAY_H

#include "config/config.h"

typedef struct hb_replay_settings {
    const char *const *file; /* recordings of one run, in order */
    int nfiles;
    const char *config; /* another configuration, or NULL */
    const char *model;  /* another model, or NULL */
} hb_replay_settings;

/* Prints what came of it: 0 when all replies are the same (or there is another configuration or model), else 1. */
int hb_replay(const hb_replay_settings *s);

#endif
