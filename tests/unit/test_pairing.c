#include "check.h"

#include <stdlib.h>

#include "estimate/pairing.h"

typedef struct fixture {
    hb_pairing p;
    hb_transition t;
    double x[2], u[1], before[1];
} fixture;

/* two states, one control, transitions of 10..100 ms */
static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    hb_arena arena = {0};

    f->p = (hb_pairing){.nx = 2, .nu = 1, .min_dt = 0.01, .max_dt = 0.1};
    hb_pairing_lay_out(&f->p, &arena);
    assert_int_equal(hb_arena_allocate(&arena, NULL), 0);
    hb_pairing_lay_out(&f->p, &arena);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    free(f->p.x); /* the arena's first piece */
    free(f);
    return 0;
}

/* state (time, -time) in seconds, at a time in milliseconds */
static hb_reason join(fixture *f, int64_t ms, double u, uint32_t resets)
{
    f->x[0] = (double)ms * 1e-3;
    f->x[1] = -f->x[0];
    f->u[0] = u;
    return hb_pairing_join(&f->p, &(hb_observation){ms * 1000, f->x, 2, f->u, 1, NULL, resets}, &f->t);
}

static void assert_transition(const fixture *f, double from, double to, double u)
{
    assert_near(f->t.x[0], from, 1e-15);
    assert_near(f->t.x[1], -from, 1e-15);
    assert_near(f->t.x_next[0], to, 1e-15);
    assert_near(f->t.x_next[1], -to, 1e-15);
    assert_near(f->t.u[0], u, 0);
    assert_near(f->t.dt, to - from, 1e-12);
}

static void test_two_samples_make_a_transition_under_the_control_of_the_first(void **state)
{
    fixture *f = *state;

    assert_int_equal(join(f, 0, 7, 0), HB_REASON_FIRST);
    assert_int_equal(join(f, 40, 8, 0), HB_REASON_NONE);
    assert_transition(f, 0, 0.04, 7);
    assert_int_equal(join(f, 140, 9, 0), HB_REASON_NONE);
    assert_transition(f, 0.04, 0.14, 8);
}

static void test_control_really_applied_goes_first(void **state)
{
    fixture *f = *state;
    double x[2] = {1, 2}, u[1] = {5}, before[1] = {3};

    join(f, 0, 7, 0);
    assert_int_equal(hb_pairing_join(&f->p, &(hb_observation){40000, x, 2, u, 1, before, 0}, &f->t), HB_REASON_NONE);
    assert_near(f->t.u[0], 3, 0);
}

static void test_gap_and_reset_start_afresh(void **state)
{
    fixture *f = *state;

    join(f, 0, 1, 0);
    assert_int_equal(join(f, 101, 2, 0), HB_REASON_GAP);
    assert_int_equal(join(f, 141, 3, 0), HB_REASON_NONE);
    assert_transition(f, 0.101, 0.141, 2);
    assert_int_equal(join(f, 181, 4, 1), HB_REASON_RESET);
    assert_int_equal(join(f, 221, 5, 1), HB_REASON_NONE);
    assert_transition(f, 0.181, 0.221, 4);
}

static void test_overtaken_sample_is_skipped_and_a_clock_set_back_starts_afresh(void **state)
{
    fixture *f = *state;

    join(f, 1000, 1, 0);
    assert_int_equal(join(f, 960, 2, 0), HB_REASON_OUT_OF_ORDER);
    assert_int_equal(join(f, 1000, 3, 0), HB_REASON_OUT_OF_ORDER);
    assert_int_equal(join(f, 1040, 4, 0), HB_REASON_NONE);
    assert_transition(f, 1, 1.04, 1);
    assert_int_equal(join(f, 10, 5, 0), HB_REASON_OUT_OF_ORDER);
    assert_int_equal(join(f, 50, 6, 0), HB_REASON_NONE);
    assert_transition(f, 0.01, 0.05, 5);
}

static void test_samples_too_close_wait_as_long_as_the_control_is_held(void **state)
{
    fixture *f = *state;

    join(f, 0, 1, 0);
    assert_int_equal(join(f, 5, 1, 0), HB_REASON_BAD_PERIOD);
    assert_int_equal(join(f, 12, 2, 0), HB_REASON_NONE);
    assert_transition(f, 0, 0.012, 1);
    assert_int_equal(join(f, 17, 3, 0), HB_REASON_BAD_PERIOD);
    assert_int_equal(join(f, 37, 3, 0), HB_REASON_NONE);
    assert_transition(f, 0.017, 0.037, 3);
}

static void test_nonsense_is_named_and_breaks_nothing(void **state)
{
    fixture *f = *state;
    double x[3] = {1, 2, 3}, u[1] = {1};

    join(f, 0, 1, 0);
    assert_int_equal(hb_pairing_join(&f->p, &(hb_observation){40000, x, 3, u, 1, NULL, 0}, &f->t), HB_REASON_DIMENSION);
    assert_int_equal(hb_pairing_join(&f->p, &(hb_observation){40000, x, 2, u, 0, NULL, 0}, &f->t), HB_REASON_DIMENSION);
    x[1] = NAN;
    assert_int_equal(hb_pairing_join(&f->p, &(hb_observation){40000, x, 2, u, 1, NULL, 0}, &f->t),
                     HB_REASON_NOT_FINITE);
    x[1] = 2;
    u[0] = INFINITY;
    assert_int_equal(hb_pairing_join(&f->p, &(hb_observation){40000, x, 2, u, 1, NULL, 0}, &f->t),
                     HB_REASON_NOT_FINITE);
    assert_int_equal(join(f, 80, 2, 0), HB_REASON_NONE);
    assert_transition(f, 0, 0.08, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_two_samples_make_a_transition_under_the_control_of_the_first),
        TEST(test_control_really_applied_goes_first),
        TEST(test_gap_and_reset_start_afresh),
        TEST(test_overtaken_sample_is_skipped_and_a_clock_set_back_starts_afresh),
        TEST(test_samples_too_close_wait_as_long_as_the_control_is_held),
        TEST(test_nonsense_is_named_and_breaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
