/* A histogram of durations with fixed memory and bounded relative error.
 *
 * Microseconds are counted in buckets whose width doubles with every octave, 32 buckets an octave:
 *
 *     value     0 .. 63        64 .. 127       128 .. 255    ...   up to 2^32 us (71 minutes)
 *     width     1              2               4
 *
 * so a quantile, given as the upper edge of its bucket, is at most 1/32 too large. */
#ifndef HB_HISTOGRAM_H
#define HB_HISTOGRAM_H

#include <stdint.h>

enum {
    HB_HISTOGRAM_SUB = 32,
    HB_HISTOGRAM_OCTAVES = 28,
    HB_HISTOGRAM_BUCKETS = HB_HISTOGRAM_SUB * HB_HISTOGRAM_OCTAVES,
    HB_LATENCY_BOUNDS = 16
};

typedef struct hb_histogram {
    uint64_t count, max;
    double sum;
    uint64_t bucket[HB_HISTOGRAM_BUCKETS];
} hb_histogram;

/* What is published of one. Microseconds. */
typedef struct hb_latency {
    uint64_t count, p50, p99, p999, max;
    double mean;
    uint64_t within[HB_LATENCY_BOUNDS]; /* how many took no longer than hb_latency_bound; of the bucket
                                         * that has the bound in it none are counted */
} hb_latency;

extern const uint64_t hb_latency_bound[HB_LATENCY_BOUNDS]; /* microseconds, rising */

void hb_histogram_add(hb_histogram *h, double seconds);
/* Smallest upper edge below or at which a fraction q (0..1) of the values lies; never above the largest value. */
uint64_t hb_histogram_quantile(const hb_histogram *h, double q);
hb_latency hb_histogram_summary(const hb_histogram *h);

#endif
