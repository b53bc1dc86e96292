#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "estimate/transitions.h"

enum { NX = 6, Q = 2 };
static const double rest[1] = {-1};

typedef struct fixture {
    hb_command_history told;
    hb_transitions t;
    hb_transition made;
    double close[1];
    double x[NX], u[1];
    void *memory;
} fixture;

static void lay_out(fixture *f, hb_arena *arena)
{
    hb_command_history_lay_out(&f->told, arena);
    hb_transitions_lay_out(&f->t, arena);
}

/* two plain states and a quaternion, one control, a period of 40 ms */
static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    hb_arena arena = {0};

    f->close[0] = 1e-3;
    f->told = (hb_command_history){.nu = 1, .close = f->close, .slack_us = 250000};
    f->t = (hb_transitions){.nx = NX,
                            .nu = 1,
                            .rotations = {.nx = NX, .quaternion = Q},
                            .period = 0.04,
                            .shortest = 0.024,
                            .max_gap = 0.12};
    lay_out(f, &arena);
    assert_int_equal(hb_arena_allocate(&arena, NULL), 0);
    lay_out(f, &arena);
    f->memory = f->told.u; /* the arena's first piece */
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    free(f->memory);
    free(f);
    return 0;
}

/* state (time, -time) in seconds and an attitude at rest; the control is reported unless it is NAN */
static hb_reason add(fixture *f, double ms, double u, uint32_t resets)
{
    int64_t time_us = (int64_t)llround(ms * 1000);
    double x[NX] = {ms * 1e-3, -ms * 1e-3, 0, 0, 0, 1};

    memcpy(f->x, x, sizeof x);
    if (!isnan(u))
        hb_command_history_report(&f->told, time_us, &u);
    return hb_transitions_add(&f->t, &(hb_observation){.time_us = time_us, .x = x, .nx = NX, .reset_counter = resets},
                              &f->told, rest, &f->made);
}

static void assert_made(const fixture *f, double from_ms, double to_ms)
{
    assert_near(f->made.x[0], from_ms * 1e-3, 1e-9);
    assert_near(f->made.x_next[1], -to_ms * 1e-3, 1e-9);
    assert_near(f->made.dt, (to_ms - from_ms) * 1e-3, 1e-6);
}

static void assert_command(const fixture *f, double mean)
{
    assert_near(f->made.u[0], mean, 1e-9);
}

static void test_samples_of_the_models_rate_make_transitions_at_once(void **state)
{
    fixture *f = *state;

    assert_int_equal(add(f, 0, 7, 0), HB_REASON_FIRST);
    assert_int_equal(add(f, 40, 8, 0), HB_REASON_NONE);
    assert_made(f, 0, 40);
    assert_command(f, 7);
    assert_false(f->made.continues);
    assert_int_equal(add(f, 83, 9, 0), HB_REASON_NONE);
    assert_made(f, 40, 83);
    assert_command(f, 8);
    assert_true(f->made.continues);
}

static void test_commands_are_dated_by_themselves(void **state)
{
    fixture *f = *state;
    double u = 2;

    add(f, 0, 1, 0);
    hb_command_history_tell(&f->told, 25000, &u);
    assert_int_equal(add(f, 40, NAN, 0), HB_REASON_NONE);
    assert_command(f, 1.375);
}

/* A vehicle was told something before its first sample came through: actuators that lag still feel it. */
static void test_the_command_before_is_known(void **state)
{
    fixture *f = *state;
    double before = 3, then = 5;

    add(f, 0, 1, 0);
    add(f, 40, NAN, 0);
    assert_null(f->made.before);
    hb_command_history_tell(&f->told, 60000, &before);
    hb_command_history_tell(&f->told, 200000, &then);
    assert_int_equal(add(f, 200, NAN, 1), HB_REASON_RESET);
    assert_int_equal(add(f, 240, NAN, 1), HB_REASON_NONE);
    assert_command(f, 5);
    assert_near(f->made.before[0], 3, 0);
}

/* at any rate: whole periods, ends averaged, every end used once */
static void test_faster_samples_are_joined_to_periods(void **state)
{
    fixture *f = *state;
    const double rates[] = {50, 100, 250, 500, 1000};

    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        double gap = 1000 / rates[i], last = -1;
        int made = 0;
        for (int k = 0; k * gap <= 2000; k++) {
            hb_reason reason = add(f, 1e5 * (double)(i + 1) + k * gap, 1, (uint32_t)i);
            if (reason != HB_REASON_NONE) {
                assert_true(reason == HB_REASON_GATHERED || (k == 0 && reason != HB_REASON_NONE));
                continue;
            }
            assert_near(f->made.dt, 0.04, 0.006);
            assert_near(f->made.x_next[0] - f->made.x[0], f->made.dt, 1e-6);
            assert_true(last < 0 || fabs(f->made.x[0] - last) < 1e-9);
            assert_true(made == 0 || f->made.continues);
            assert_true(f->t.start.count >= (int)(0.009 * rates[i]) || rates[i] < 101);
            last = f->made.x_next[0];
            made++;
        }
        assert_true(made >= 40 && made <= 56);
    }
}

static void test_slow_samples_are_joined_as_they_are(void **state)
{
    fixture *f = *state;

    add(f, 0, 1, 0);
    assert_int_equal(add(f, 100, 2, 0), HB_REASON_NONE);
    assert_made(f, 0, 100);
    assert_int_equal(add(f, 200, 2, 0), HB_REASON_NONE);
}

static void test_gap_reset_and_clock_start_afresh(void **state)
{
    fixture *f = *state;

    add(f, 0, 1, 0);
    assert_int_equal(add(f, 121, 1, 0), HB_REASON_GAP);
    assert_int_equal(add(f, 161, 1, 0), HB_REASON_NONE);
    assert_made(f, 121, 161);
    assert_false(f->made.continues);
    assert_int_equal(add(f, 201, 1, 1), HB_REASON_RESET);
    assert_int_equal(add(f, 241, 1, 1), HB_REASON_NONE);
    assert_made(f, 201, 241);
    /* overtaken on the way: what came before it stays */
    assert_int_equal(add(f, 230, 1, 1), HB_REASON_OUT_OF_ORDER);
    assert_int_equal(add(f, 281, 1, 1), HB_REASON_NONE);
    assert_made(f, 241, 281);
    /* a clock that was set back */
    assert_int_equal(add(f, 10, 1, 1), HB_REASON_OUT_OF_ORDER);
    assert_int_equal(add(f, 50, 1, 1), HB_REASON_NONE);
    assert_made(f, 10, 50);
    assert_false(f->made.continues);
}

static void test_a_lost_change_of_control_is_not_joined(void **state)
{
    fixture *f = *state;
    double u = 5;

    for (int ms = 0; ms <= 400; ms += 40)
        add(f, ms, 1, 0);
    assert_int_equal(add(f, 480, 2, 0), HB_REASON_LOST_CONTROL);
    assert_int_equal(add(f, 520, 2, 0), HB_REASON_NONE);
    assert_made(f, 480, 520);
    /* the same loss where the control stayed, or where the command is known by itself, costs nothing */
    assert_int_equal(add(f, 600, 2, 0), HB_REASON_NONE);
    assert_int_equal(add(f, 640, 2, 0), HB_REASON_NONE);
    hb_command_history_tell(&f->told, 660000, &u);
    assert_int_equal(add(f, 720, 5, 0), HB_REASON_NONE);
    assert_command(f, 4.25);
}

static void test_an_attitude_has_one_sign(void **state)
{
    fixture *f = *state;
    double first[NX] = {[Q] = -0.6, [Q + 3] = -0.8}, second[NX] = {[Q] = 0.8, [Q + 3] = 0.6};
    hb_observation o = {.time_us = 0, .x = first, .nx = NX};
    double u = 1;

    hb_command_history_report(&f->told, 0, &u);
    hb_transitions_add(&f->t, &o, &f->told, rest, &f->made);
    o.time_us = 40000;
    o.x = second;
    assert_int_equal(hb_transitions_add(&f->t, &o, &f->told, rest, &f->made), HB_REASON_NONE);
    assert_near(f->made.x[Q], 0.6, 1e-12);
    assert_near(f->made.x[Q + 3], 0.8, 1e-12);
    assert_near(f->made.x_next[Q], 0.8, 1e-12);
    /* signs that alternate within an end do not cancel */
    for (int k = 0; k < 200; k++) {
        double x[NX] = {[Q + 3] = k % 2 ? 1 : -1};
        o = (hb_observation){.time_us = 1000000 + k * 1000, .x = x, .nx = NX};
        if (hb_transitions_add(&f->t, &o, &f->told, rest, &f->made) == HB_REASON_NONE)
            assert_near(f->made.x_next[Q + 3], 1, 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_samples_of_the_models_rate_make_transitions_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_commands_are_dated_by_themselves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_command_before_is_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_faster_samples_are_joined_to_periods, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slow_samples_are_joined_as_they_are, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gap_reset_and_clock_start_afresh, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_lost_change_of_control_is_not_joined, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_attitude_has_one_sign, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
