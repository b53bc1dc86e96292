/* Two that publish in turns are told from one that is restarted. */
#include "check.h"

#include "controller/publishers.h"

/* Samples with these reset counters, so many seconds apart: which of them, from 1, is the first that is mixed; 0: none.
 */
static int first_mixed(const uint32_t *counter, int n, double apart)
{
    hb_publishers p = {0};

    for (int i = 0; i < n; i++)
        if (hb_publishers_mixed(&p, counter[i], 10 + i * apart))
            return i + 1;
    return 0;
}

static void test_turns_are_told_and_restarts_are_not(void **state)
{
    (void)state;
    const uint32_t turns[] = {7, 9, 7, 9, 7, 9, 7, 9}, pairs[] = {7, 7, 9, 9, 7, 7, 9, 9, 7, 7},
                   three[] = {1, 2, 3, 1, 2, 3, 1, 2, 3}, episodes[] = {1, 1, 2, 3, 3, 4, 5, 6, 7, 8},
                   back[] = {1, 2, 1, 1, 1, 1, 1, 2, 2, 2};

    /* the third return to one of before */
    assert_int_equal(first_mixed(turns, 8, 0.01), 5);
    assert_int_equal(first_mixed(pairs, 10, 0.01), 9);
    assert_int_equal(first_mixed(three, 9, 0.01), 6);
    assert_int_equal(first_mixed(episodes, 10, 0.01), 0);
    assert_int_equal(first_mixed(back, 10, 0.01), 0);
    /* so slowly that each may be a program that was started again */
    assert_int_equal(first_mixed(turns, 8, 3), 0);
}

static void test_it_is_over_when_one_is_left(void **state)
{
    (void)state;
    hb_publishers p = {0};
    double now = 10;

    for (int i = 0; i < 8; i++)
        hb_publishers_mixed(&p, 7 + (uint32_t)(i % 2), now += 0.01);
    assert_true(hb_publishers_mixed(&p, 8, now += 0.01));
    while (hb_publishers_mixed(&p, 8, now += 0.01) && now < 20)
        ;
    assert_near(now, 12.1, 0.2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns_are_told_and_restarts_are_not),
        cmocka_unit_test(test_it_is_over_when_one_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
