/* The monotonic clock, for programs. Nothing in lib/ calls this: the library is given its time. */
#ifndef HB_MONOTONIC_H
#define HB_MONOTONIC_H

#include <time.h>

/* Seconds of `clock`. */
static inline double hb_clock_seconds(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds since some moment in the past; never jumps. */
static inline double hb_now(void)
{
    return hb_clock_seconds(CLOCK_MONOTONIC);
}

#endif
