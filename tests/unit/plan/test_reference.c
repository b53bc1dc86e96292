/* A reference at a plan's moments, against the line through its rows written down by itself. */
#include "check.h"

#include <string.h>

#include "base/numeric.h"
#include "plan/reference.h"

enum { NX = 3, ROWS = 6 };

static double uniform(uint64_t index)
{
    return hb_random_uniform((hb_random_key){.seed = 3}, index);
}

/* By Lagrange's form of the line through the two rows around it; outside by what the header says. */
static double expected(const double *time, const double *target, int n, int channel, double t)
{
    const double last = time[n - 1], end = last + (last - time[n - 2]);
    int i = 0;

    if (t < time[0])
        t = time[0];
    if (t > end)
        t = end;
    while (i < n - 2 && t > time[i + 1])
        i++;
    const double a = target[i * NX + channel], b = target[(i + 1) * NX + channel];
    return a * (t - time[i + 1]) / (time[i] - time[i + 1]) + b * (t - time[i]) / (time[i + 1] - time[i]);
}

static void test_rows_are_joined_by_lines(void **state)
{
    (void)state;
    uint64_t draw = 0;

    for (int trial = 0; trial < 200; trial++) {
        const int n = 2 + trial % (ROWS - 1);
        const bool timed = trial % 2;
        double time[ROWS], target[ROWS * NX], row[NX];
        for (int i = 0; i < n; i++)
            time[i] = !timed ? 0.1 * i : i ? time[i - 1] + 0.01 + uniform(draw++) : uniform(draw++);
        for (int i = 0; i < n * NX; i++)
            target[i] = 10 * uniform(draw++) - 5;
        const hb_reference r = {.nx = NX,
                                .n = n,
                                .rotations = {.nx = NX, .quaternion = -1, .angle = (bool[NX]){0}},
                                .target = target,
                                .time = timed ? time : NULL,
                                .step = 0.1};
        for (int k = 0; k < 50; k++) {
            const double t = (2 * uniform(draw++) - 0.3) * (time[n - 1] + 1);
            hb_reference_at(&r, t, row);
            for (int j = 0; j < NX; j++)
                assert_near(row[j], expected(time, target, n, j, t), 1e-9);
        }
    }
}

static void test_a_point_is_the_same_at_all_times(void **state)
{
    (void)state;
    const double target[NX] = {1, 2, 3};
    const hb_reference r = {.nx = NX,
                            .n = 1,
                            .rotations = {.nx = NX, .quaternion = -1, .angle = (bool[NX]){0}},
                            .target = target,
                            .step = 0.1};

    for (int k = -1; k < 3; k++) {
        double row[NX];
        hb_reference_at(&r, k, row);
        assert_memory_equal(row, target, sizeof row);
    }
}

static void test_angles_turn_the_shorter_way(void **state)
{
    (void)state;
    const bool angle[] = {true};
    const double target[] = {3, -3};
    const hb_reference r = {
        .nx = 1, .n = 2, .rotations = {.nx = 1, .quaternion = -1, .angle = angle}, .target = target, .step = 1};
    double row;

    hb_reference_at(&r, 0.5, &row);
    assert_near(row, M_PI, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_joined_by_lines),
        cmocka_unit_test(test_a_point_is_the_same_at_all_times),
        cmocka_unit_test(test_angles_turn_the_shorter_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
