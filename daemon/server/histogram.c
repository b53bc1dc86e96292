#include "server/histogram.h"

#include <math.h>

/* values up to 2 * SUB - 1 have a bucket of their own; above, the SUB leading values of each octave do */
static unsigned bucket_of(uint64_t v)
{
    if (v < 2 * HB_HISTOGRAM_SUB)
        return (unsigned)v;
    unsigned shift = 63 - (unsigned)__builtin_clzll(v) - 5; /* leaves SUB .. 2 SUB - 1 */
    unsigned b = shift * HB_HISTOGRAM_SUB + (unsigned)(v >> shift);
    return b < HB_HISTOGRAM_BUCKETS ? b : HB_HISTOGRAM_BUCKETS - 1;
}

static uint64_t upper_edge(unsigned b)
{
    if (b < 2 * HB_HISTOGRAM_SUB)
        return b;
    unsigned shift = b / HB_HISTOGRAM_SUB - 1;
    return ((uint64_t)(b % HB_HISTOGRAM_SUB + HB_HISTOGRAM_SUB + 1) << shift) - 1;
}

void hb_histogram_add(hb_histogram *h, double seconds)
{
    double us = fmin(fmax(seconds * 1e6, 0), 1e15);
    uint64_t v = (uint64_t)(us + 0.5);

    h->bucket[bucket_of(v)]++;
    h->count++;
    h->sum += us;
    if (v > h->max)
        h->max = v;
}

uint64_t hb_histogram_quantile(const hb_histogram *h, double q)
{
    uint64_t wanted = (uint64_t)ceil(q * (double)h->count), seen = 0;

    if (h->count == 0)
        return 0;
    if (wanted < 1)
        wanted = 1;
    for (unsigned b = 0; b < HB_HISTOGRAM_BUCKETS; b++) {
        seen += h->bucket[b];
        if (seen >= wanted) {
            uint64_t edge = upper_edge(b);
            return edge < h->max && b < HB_HISTOGRAM_BUCKETS - 1 ? edge : h->max;
        }
    }
    return h->max;
}

const uint64_t hb_latency_bound[HB_LATENCY_BOUNDS] = {
    100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000};

static uint64_t count_within(const hb_histogram *h, uint64_t bound)
{
    uint64_t n = 0;

    for (unsigned b = 0; b < HB_HISTOGRAM_BUCKETS && upper_edge(b) <= bound; b++)
        n += h->bucket[b];
    return n;
}

hb_latency hb_histogram_summary(const hb_histogram *h)
{
    hb_latency l = {
        .count = h->count,
        .p50 = hb_histogram_quantile(h, 0.5),
        .p99 = hb_histogram_quantile(h, 0.99),
        .p999 = hb_histogram_quantile(h, 0.999),
        .max = h->max,
        .mean = h->count ? h->sum / (double)h->count : 0,
    };

    for (int i = 0; i < HB_LATENCY_BOUNDS; i++)
        l.within[i] = count_within(h, hb_latency_bound[i]);
    return l;
}
