#include "mavlink/timesync.h"

#include <stdlib.h>

void hb_timesync_answer(hb_timesync *t, int64_t asked_ns, int64_t theirs_ns, int64_t now_ns)
{
    int64_t trip = now_ns - asked_ns, offset = theirs_ns - (asked_ns + trip / 2);

    /* an answer to a question of long ago says nothing */
    if (trip < 0 || trip > 1000000000)
        return;
    /* further from the best than both trips explain: another clock (0.1 s for drift) */
    if (t->n && llabs(offset - t->offset_ns[t->best]) > (trip + t->trip_ns[t->best]) / 2 + 100000000) {
        t->n = t->next = 0;
        t->jumps++;
    }
    t->offset_ns[t->next] = offset;
    t->trip_ns[t->next] = trip;
    t->next = (t->next + 1) % HB_TIMESYNC_KEPT;
    t->n += t->n < HB_TIMESYNC_KEPT;
    t->answers++;
    t->best = 0;
    for (int i = 1; i < t->n; i++)
        if (t->trip_ns[i] < t->trip_ns[t->best])
            t->best = i;
}

int64_t hb_timesync_theirs_us(const hb_timesync *t, int64_t now_ns)
{
    return t->n ? (now_ns + t->offset_ns[t->best]) / 1000 : now_ns / 1000;
}

int64_t hb_timesync_trip_us(const hb_timesync *t)
{
    return t->n ? t->trip_ns[t->best] / 1000 : 0;
}
