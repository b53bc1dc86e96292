/* The daemon in a simulated world: its server, queue, worker and controller as they are, under a simulated clock, with
 * messages in memory and one seed that decides everything else.
 *
 *     vehicle (pilot)  ---- telemetry, requests ---->  network: delays, losses,  ---->  server  <-- stalls, reloads,
 *     guests, operator ---- requests, control ------>  duplicates, reordering           worker      SIGTERM, kill
 *          ^                                                  |                           |
 *          +------------------ replies -----------------------+<--------------------------+
 *
 * Time goes from event to event. The clock stands still while the server has a turn; while the worker plans, every look
 * at the clock costs a piece of time, so that deadlines come as they do on a machine. */
#ifndef HB_WORLD_H
#define HB_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "promises.h"

typedef enum { CALM, ROUGH, WILD, NWEATHERS } weather;

extern const char *const weather_name[];

typedef struct world_result {
    weather weather;
    long events, requests, replies, lives, crashes;
    uint64_t hash; /* of every message sent, and when */
    bool broken[NPROMISES];
    char first[256]; /* the first promise broken, when and how; empty: none */
} world_result;

/* Lives through `seconds` of the seed's world; trace (may be NULL) receives a line for each event. */
world_result world_run(uint64_t seed, double seconds, FILE *trace);

#endif
