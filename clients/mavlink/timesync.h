/* The autopilot's clock against ours, from TIMESYNC's questions and answers.
 *
 * An answer brings the autopilot's time at some moment between question and answer. Its middle is the best guess, wrong
 * by half the round trip at most. Neither clock is exact, and a simulation's may run at any rate: so offset and rate
 * are a line through the last answers, in which each weighs as much as its trip is short. An answer that the line does
 * not explain is one of another clock, or of one that stood still: the line begins anew. */
#ifndef HB_MAVLINK_TIMESYNC_H
#define HB_MAVLINK_TIMESYNC_H

#include <stdbool.h>
#include <stdint.h>

enum { HB_TIMESYNC_KEPT = 24 };

typedef struct hb_timesync {
    int64_t time_ns[HB_TIMESYNC_KEPT];   /* middle of the trip, our clock */
    int64_t offset_ns[HB_TIMESYNC_KEPT]; /* autopilot's clock - ours, then */
    int64_t trip_ns[HB_TIMESYNC_KEPT];
    int n, next;
    /* the line: their clock is ahead of ours by base_ns + ahead_ns + drift * (ours - at_ns) */
    int64_t base_ns, at_ns;
    double ahead_ns, drift;
    int64_t best_trip_ns;
    uint64_t answers;
    uint64_t jumps; /* of the autopilot's clock: it was restarted, or stood still */
} hb_timesync;

/* An answer: we asked at `asked_ns`, the autopilot's clock said `theirs_ns`, and it is `now_ns`. Numbers that no clock
 * can have are left out. */
void hb_timesync_answer(hb_timesync *t, int64_t asked_ns, int64_t theirs_ns, int64_t now_ns);
static inline bool hb_timesync_known(const hb_timesync *t)
{
    return t->n > 0;
}
/* Whether it has as many answers as it keeps. */
static inline bool hb_timesync_settled(const hb_timesync *t)
{
    return t->n == HB_TIMESYNC_KEPT;
}
/* The autopilot's time, microseconds, when ours is now_ns. */
int64_t hb_timesync_theirs_us(const hb_timesync *t, int64_t now_ns);
int64_t hb_timesync_trip_us(const hb_timesync *t);

#endif
