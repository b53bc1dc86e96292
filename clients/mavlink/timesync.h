/* The autopilot's clock against ours, from TIMESYNC's questions and answers.
 *
 * An answer brings the autopilot's time at some moment between question and answer. Its middle is the best guess, wrong
 * by half the round trip at most: so the answer with the shortest trip of the last few counts. */
#ifndef HB_MAVLINK_TIMESYNC_H
#define HB_MAVLINK_TIMESYNC_H

#include <stdbool.h>
#include <stdint.h>

enum { HB_TIMESYNC_KEPT = 16 };

typedef struct hb_timesync {
    int64_t offset_ns[HB_TIMESYNC_KEPT]; /* autopilot's clock - ours */
    int64_t trip_ns[HB_TIMESYNC_KEPT];
    int n, next;
    int best; /* index of the one that counts */
    uint64_t answers;
    uint64_t jumps; /* of the autopilot's clock: it was restarted */
} hb_timesync;

/* An answer: we asked at `asked_ns`, the autopilot's clock said `theirs_ns`, and it is `now_ns`. */
void hb_timesync_answer(hb_timesync *t, int64_t asked_ns, int64_t theirs_ns, int64_t now_ns);
static inline bool hb_timesync_known(const hb_timesync *t)
{
    return t->n > 0;
}
/* The autopilot's time, microseconds, when ours is now_ns. */
int64_t hb_timesync_theirs_us(const hb_timesync *t, int64_t now_ns);
int64_t hb_timesync_trip_us(const hb_timesync *t);

#endif
