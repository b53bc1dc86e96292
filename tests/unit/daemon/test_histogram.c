#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/histogram.h"

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* against sorting: never below the true quantile, and at most 1/32 above */
static void test_quantiles_are_within_a_bucket_of_the_sorted_ones(void **state)
{
    (void)state;
    enum { N = 20000 };
    static uint64_t value[N];
    static hb_histogram h;
    const double q[] = {0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
    uint64_t seed = 1;

    for (int i = 0; i < N; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        value[i] = (seed >> 33) >> (seed >> 59 & 31); /* all magnitudes */
        hb_histogram_add(&h, 1e-6 * (double)value[i]);
    }
    qsort(value, N, sizeof *value, by_value);
    for (size_t i = 0; i < sizeof q / sizeof *q; i++) {
        size_t rank = (size_t)(q[i] * N + 0.999999);
        uint64_t exact = value[rank > 0 ? rank - 1 : 0], got = hb_histogram_quantile(&h, q[i]);
        assert_true(got >= exact);
        assert_true((double)got <= (double)exact * (1 + 1.0 / 32) + 1e-9);
    }
    assert_int_equal(hb_histogram_quantile(&h, 1), value[N - 1]);
    hb_latency l = hb_histogram_summary(&h);
    for (int i = 0; i < HB_LATENCY_BOUNDS; i++) {
        uint64_t bound = hb_latency_bound[i], at_most = 0, surely = 0;
        for (int k = 0; k < N; k++) {
            at_most += value[k] <= bound;
            surely += (double)value[k] <= (double)bound * (1 - 1.0 / 32) - 1;
        }
        assert_true(surely <= l.within[i] && l.within[i] <= at_most && at_most > 0);
        assert_true(i == 0 || (bound > hb_latency_bound[i - 1] && l.within[i] >= l.within[i - 1]));
    }
    assert_int_equal(hb_histogram_summary(&h).count, N);
    assert_int_equal(hb_histogram_summary(&h).max, value[N - 1]);
}

static void test_odd_values_are_taken_without_harm(void **state)
{
    (void)state;
    static hb_histogram h;

    assert_int_equal(hb_histogram_quantile(&h, 0.5), 0);
    hb_histogram_add(&h, -1);
    hb_histogram_add(&h, 1e30);
    assert_int_equal(h.count, 2);
    assert_int_equal(hb_histogram_quantile(&h, 0), 0);
    assert_int_equal(hb_histogram_quantile(&h, 1), h.max);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles_are_within_a_bucket_of_the_sorted_ones),
        cmocka_unit_test(test_odd_values_are_taken_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
