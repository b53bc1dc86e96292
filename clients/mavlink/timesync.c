#include "mavlink/timesync.h"

#include <math.h>

static const int64_t longest_trip_ns = 1000000000;       /* what was asked longer ago says nothing */
static const int64_t longest_time_ns = INT64_C(1) << 62; /* 146 years */
static const double unexplained_ns = 1e7;                /* beyond what the trips explain: scheduling, uneven drift */
static const double least_doubt_ns = 5e4;                /* of an answer, however short its trip */
static const double usual_drift = 0.1;                   /* until answers tell; simulations may run at half of time */
static const double any_drift = 1, uneven_drift = 0.02;  /* that is explained, before it is known and afterwards */

static double ahead_at(const hb_timesync *t, int64_t ours_ns)
{
    return t->ahead_ns + t->drift * (double)(ours_ns - t->at_ns);
}

/* Weighted least squares, with the drift drawn towards zero by what is usual: two answers shortly after each other do
 * not tell it. Times are taken from the newest answer on, so that doubles hold them exactly. */
static void fit(hb_timesync *t, int newest)
{
    double sum = 0, mean_time = 0, mean_ahead = 0, square = 1 / (usual_drift * usual_drift), product = 0;
    double weight[HB_TIMESYNC_KEPT], time[HB_TIMESYNC_KEPT], ahead[HB_TIMESYNC_KEPT];

    t->at_ns = t->time_ns[newest];
    t->base_ns = t->offset_ns[newest];
    t->best_trip_ns = t->trip_ns[newest];
    for (int i = 0; i < t->n; i++) {
        double doubt = (double)t->trip_ns[i] / 2 + least_doubt_ns;
        weight[i] = 1 / (doubt * doubt);
        time[i] = (double)(t->time_ns[i] - t->at_ns);
        ahead[i] = (double)(t->offset_ns[i] - t->base_ns);
        sum += weight[i];
        mean_time += weight[i] * time[i];
        mean_ahead += weight[i] * ahead[i];
        if (t->trip_ns[i] < t->best_trip_ns)
            t->best_trip_ns = t->trip_ns[i];
    }
    mean_time /= sum;
    mean_ahead /= sum;
    for (int i = 0; i < t->n; i++) {
        square += weight[i] * (time[i] - mean_time) * (time[i] - mean_time);
        product += weight[i] * (time[i] - mean_time) * (ahead[i] - mean_ahead);
    }
    t->drift = product / square;
    t->ahead_ns = mean_ahead - t->drift * mean_time;
}

void hb_timesync_answer(hb_timesync *t, int64_t asked_ns, int64_t theirs_ns, int64_t now_ns)
{
    /* both come from outside: nothing is computed with them before they are known to be times */
    if (asked_ns < 0 || asked_ns > now_ns || now_ns - asked_ns > longest_trip_ns || theirs_ns < 0 ||
        theirs_ns > longest_time_ns)
        return;
    int64_t trip = now_ns - asked_ns, middle = asked_ns + trip / 2, offset = theirs_ns - middle;
    double drift = t->n < 4 ? any_drift : uneven_drift;
    double explained =
        (double)(trip + t->best_trip_ns) / 2 + unexplained_ns + drift * fabs((double)(middle - t->at_ns));

    if (t->n && fabs((double)(offset - t->base_ns) - ahead_at(t, middle)) > explained) {
        t->n = t->next = 0;
        t->jumps++;
    }
    int newest = t->next;
    t->time_ns[newest] = middle;
    t->offset_ns[newest] = offset;
    t->trip_ns[newest] = trip;
    t->next = (newest + 1) % HB_TIMESYNC_KEPT;
    t->n += t->n < HB_TIMESYNC_KEPT;
    t->answers++;
    fit(t, newest);
}

int64_t hb_timesync_theirs_us(const hb_timesync *t, int64_t now_ns)
{
    return t->n ? (now_ns + t->base_ns + (int64_t)ahead_at(t, now_ns)) / 1000 : now_ns / 1000;
}

int64_t hb_timesync_trip_us(const hb_timesync *t)
{
    return t->n ? t->best_trip_ns / 1000 : 0;
}
