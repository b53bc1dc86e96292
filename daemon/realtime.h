/* Scheduling, memory and processors. What is not permitted is reported, never fatal by itself. */
#ifndef HB_REALTIME_H
#define HB_REALTIME_H

#include "config.h"

typedef enum { HB_ROLE_SERVER, HB_ROLE_PLANNER } hb_role;

/* Whether the configuration's wishes are permitted: 0, or -errno with what is refused and what would permit it. The
 * calling thread is left as it was. */
int hb_realtime_probe(const hb_config *c, hb_error *err);

/* Names and places the calling thread. */
int hb_realtime_thread(const hb_config *c, hb_role role, const char *name, hb_error *err);

/* Keeps present and future memory from being swapped out. */
int hb_realtime_lock_memory(const hb_config *c, hb_error *err);

/* Seconds of the monotonic clock: the daemon's only clock. */
double hb_now(void);

#endif
