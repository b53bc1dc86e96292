#include "check.h"

#include <stdlib.h>

#include "estimate/command_history.h"

enum { NU = 2 };
static const double rest[NU] = {0.5, 0.5};

typedef struct fixture {
    hb_command_history h;
    double close[NU];
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    hb_arena arena = {0};

    f->close[0] = f->close[1] = 1e-3;
    f->h = (hb_command_history){.nu = NU, .close = f->close, .slack_us = 100000};
    hb_command_history_lay_out(&f->h, &arena);
    assert_int_equal(hb_arena_allocate(&arena, NULL), 0);
    hb_command_history_lay_out(&f->h, &arena);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    free(f->h.u);
    free(f);
    return 0;
}

static void tell(fixture *f, int ms, double u)
{
    hb_command_history_tell(&f->h, ms * 1000, (double[NU]){u, -u});
}

static void report(fixture *f, int ms, double u)
{
    hb_command_history_report(&f->h, ms * 1000, (double[NU]){u, -u});
}

/* the first control in force; NAN: none is known */
static double at(const fixture *f, int ms)
{
    int64_t until;
    const double *u = hb_command_history_at(&f->h, ms * 1000, &until);

    return u ? u[0] : NAN;
}

static void test_commands_are_in_force_from_their_time_on(void **state)
{
    fixture *f = *state;
    int64_t until;

    assert_true(isnan(at(f, 0)));
    tell(f, 10, 1);
    tell(f, 50, 2);
    assert_true(isnan(at(f, 9)));
    assert_near(at(f, 10), 1, 0);
    assert_near(at(f, 49), 1, 0);
    assert_near(at(f, 50), 2, 0);
    hb_command_history_at(&f->h, 20000, &until);
    assert_int_equal(until, 50000);
    hb_command_history_at(&f->h, 60000, &until);
    assert_true(until == INT64_MAX);
}

static void test_a_report_of_what_was_told_moves_nothing(void **state)
{
    fixture *f = *state;

    tell(f, 0, 1);
    tell(f, 40, 2);
    tell(f, 80, 3);
    report(f, 70, 3);        /* the command, before it is in force */
    report(f, 75, 2 + 5e-4); /* the control in force, rounded */
    report(f, 100, 2);       /* late */
    assert_near(at(f, 79), 2, 0);
    assert_near(at(f, 81), 3, 0);
    assert_int_equal(f->h.count, 3);
}

static void test_another_control_is_in_force_until_the_next_command(void **state)
{
    fixture *f = *state;

    tell(f, 0, 1);
    report(f, 20, 7);
    tell(f, 40, 2);
    assert_near(at(f, 10), 1, 0);
    assert_near(at(f, 20), 7, 0);
    assert_near(at(f, 40), 2, 0);
    assert_false(f->h.ignored);
}

/* An answer takes its time: the vehicle reports what it does at the moment of its request, then that it obeys. */
static void test_a_first_command_takes_over_from_what_was_reported(void **state)
{
    fixture *f = *state;

    tell(f, 0, 1);
    report(f, 0, 0.5);
    report(f, 6, 1);
    tell(f, 40, 2);
    report(f, 40, 1); /* and the next moves nothing */
    report(f, 46, 2);
    assert_near(at(f, 5), 0.5, 0);
    assert_near(at(f, 6), 1, 0);
    assert_near(at(f, 39), 1, 0);
    assert_near(at(f, 40), 2, 0);
}

static void test_when_somebody_else_flies_commands_count_for_nothing(void **state)
{
    fixture *f = *state;

    for (int k = 0; k < 10; k++) {
        tell(f, 40 * k, 1 + k);
        report(f, 40 * k + 20, -k);
    }
    assert_true(f->h.ignored);
    assert_near(at(f, 390), -9, 0);
    assert_near(at(f, 375), -8, 0);
    /* until reports agree again */
    tell(f, 400, 11);
    report(f, 420, 11);
    assert_false(f->h.ignored);
    assert_near(at(f, 420), 11, 0);
}

static void test_the_oldest_are_forgotten(void **state)
{
    fixture *f = *state;

    for (int k = 0; k < 3 * HB_COMMAND_HISTORY; k++)
        tell(f, 10 * k, k);
    assert_true(isnan(at(f, 10)));
    assert_near(at(f, 10 * (3 * HB_COMMAND_HISTORY - 1)), 3 * HB_COMMAND_HISTORY - 1, 0);
    assert_near(at(f, 10 * (2 * HB_COMMAND_HISTORY) + 5), 2 * HB_COMMAND_HISTORY, 0);
}

/* delay and lag by plain steps of a microsecond */
static void brute_force(const fixture *f, const hb_actuators *a, int channel, int from_us, int to_us, double *state,
                        double *mean)
{
    double sum = 0, keep = exp(-1e-6 / a->lag[channel]);

    for (int time = from_us; time < to_us; time++) {
        int64_t until;
        const double *u = hb_command_history_at(&f->h, time - llround(a->delay[channel] * 1e6), &until);
        double told = u ? u[channel] : rest[channel], next = told + (*state - told) * keep;
        sum += (*state + next) / 2;
        *state = next;
    }
    *mean = sum / (to_us - from_us);
}

static void test_actuators_follow_commands(void **state)
{
    fixture *f = *state;
    const hb_actuators a = {.nu = NU, .delay = {0.013, 0.037}, .lag = {0.02, 0.05}};
    double now[NU], mean[NU];

    for (int k = 0; k < 20; k++)
        tell(f, 35 * k + k % 3, sin(k));
    hb_command_history_settle(&f->h, &a, rest, 333000, now);
    for (int i = 0; i < NU; i++) {
        double expected = rest[i], ignored;
        brute_force(f, &a, i, -500000, 333000, &expected, &ignored);
        assert_near(now[i], expected, 2e-3);
    }
    double before[NU] = {now[0], now[1]};
    hb_command_history_drive(&f->h, &a, rest, 333000, 411000, now, mean);
    for (int i = 0; i < NU; i++) {
        double expected_mean;
        brute_force(f, &a, i, 333000, 411000, &before[i], &expected_mean);
        assert_near(now[i], before[i], 1e-6);
        assert_near(mean[i], expected_mean, 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_commands_are_in_force_from_their_time_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_report_of_what_was_told_moves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_control_is_in_force_until_the_next_command, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_first_command_takes_over_from_what_was_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_when_somebody_else_flies_commands_count_for_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_oldest_are_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_actuators_follow_commands, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
