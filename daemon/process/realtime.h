/* Scheduling, memory and processors. What is not permitted is reported, never fatal by itself. */
#ifndef HB_REALTIME_H
#define HB_REALTIME_H

#include <stdbool.h>
#include <sys/types.h>

#include "config/config.h"
#include "process/log.h"

typedef enum { HB_ROLE_SERVER, HB_ROLE_PLANNER } hb_role;

/* Tries what the configuration asks for. What is not permitted is logged, with what would permit it, and removed from
 * the configuration; it is an error when it is required. Memory is locked from here on. Returns 0 or -errno. */
int hb_realtime_start(hb_config *c, hb_log *log, hb_error *err);

/* Names and places the calling thread, as far as hb_realtime_start found it permitted. Whenever it has no priority, it
 * has short turns (base/turns.h): a client that wakes need not wait for it. */
void hb_realtime_thread(const hb_config *c, hb_role role, const char *name);

/* With fifo: gives a thread its priority while somebody waits for it, and takes it away while nobody does. */
void hb_realtime_hurry(const hb_config *c, hb_role role, pid_t thread, bool on);

/* Names the calling thread and makes it nice: nothing waits for it. */
void hb_realtime_aside(const char *name);

/* The readings of an hb_clock: seconds of the monotonic clock, of the calling thread on a processor, and of the time of
 * day. */
double hb_clock_monotonic(void *context);
double hb_clock_processor(void *context);
double hb_clock_wall(void *context);

#endif
