#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "base/numeric.h"
#include "base/statistics.h"

enum { N = 101 };

static void draw(double *value, int n)
{
    for (int i = 0; i < n; i++)
        value[i] = hb_random_normal((hb_random_key){.seed = 7}, (uint64_t)i);
}

static void test_sorting_keeps_every_number_and_puts_the_smallest_first(void **state)
{
    (void)state;
    double value[N], sorted[N];

    draw(value, N);
    draw(sorted, N);
    hb_sort(sorted, N);
    for (int i = 0; i < N; i++) {
        int below = 0;
        for (int k = 0; k < N; k++)
            below += value[k] < value[i];
        assert_true(sorted[below] == value[i]); /* the draws differ from each other */
    }
}

static void test_a_quantile_has_its_share_of_numbers_below_it(void **state)
{
    (void)state;
    double value[N];

    draw(value, N);
    for (int percent = 0; percent <= 100; percent++) {
        double q = hb_quantile(value, N, percent / 100.0), below = 0;
        for (int i = 0; i < N; i++)
            below += value[i] < q - 1e-12;
        assert_true(fabs(below - percent) <= 1);
    }
}

static void test_quantiles_lie_between_neighbours(void **state)
{
    (void)state;
    double value[] = {4, 1, 3, 2};

    assert_true(hb_quantile(value, 4, 0) == 1);
    assert_true(fabs(hb_quantile(value, 4, 0.5) - 2.5) < 1e-15);
    assert_true(fabs(hb_quantile(value, 4, 0.9) - 3.7) < 1e-12);
    assert_true(hb_quantile(value, 4, 1) == 4);
    assert_true(hb_quantile(value, 1, 0.3) == 1);
    assert_true(isnan(hb_quantile(value, 0, 0.5)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorting_keeps_every_number_and_puts_the_smallest_first),
        cmocka_unit_test(test_a_quantile_has_its_share_of_numbers_below_it),
        cmocka_unit_test(test_quantiles_lie_between_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
