/* What this process may have: descriptors, threads, address space. Looked at before libraries end the process for want
 * of them. With this file linked in, connections are closed that would take one of the last descriptors, and those that
 * come over the network faster than process/throttle.h allows. */
#ifndef HB_PROCESS_LIMITS_H
#define HB_PROCESS_LIMITS_H

#include <stdbool.h>

#include "base/base.h"

/* Raises the number of descriptors to what is allowed. 0, or -errno with what is missing and who grants it, when that,
 * or the number of threads, does not suffice for a daemon that plans with so many. */
int hb_limits_raise(int planner_threads, hb_error *err);
/* Whether connections were closed for want of descriptors, or because they came too fast, since this was last asked. */
bool hb_limits_crowded(void);
bool hb_limits_flooded(void);

#endif
