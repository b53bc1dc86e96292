/* Rows that no vehicle flew, put into rows that it did: each is found, and nothing else. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "data/log_glitches.h"

enum { N = 2000, HEADING = 1, CONTROL, SIGNALS }; /* states: 0 and the heading */

static double value[N][SIGNALS], seconds[N];
static bool good[N], jump[N];
static hb_log_glitches found[SIGNALS];

/* Rows every 10 ms: a wave, a heading that wraps every 6 s, a control that goes up and down. */
static void make(void)
{
    for (int i = 0; i < N; i++) {
        seconds[i] = 0.01 * i;
        value[i][0] = sin(0.7 * seconds[i]) + 0.002 * (i * 7919 % 13 - 6);
        value[i][HEADING] = remainder(2 * M_PI * seconds[i] / 6 + 0.001 * (i % 5), 2 * M_PI);
        value[i][CONTROL] = 0.5 + 0.01 * (i * 31 % 7 - 3);
        good[i] = true;
        jump[i] = false;
    }
}

static void cut(void)
{
    const hb_log_rows r = {.n = N,
                           .nsignals = SIGNALS,
                           .nstates = CONTROL,
                           .period = 0.01,
                           .time = seconds,
                           .value = &value[0][0],
                           .good = good,
                           .jump = jump};
    assert_int_equal(hb_log_glitches_cut(&r, found, NULL), 0);
}

/* Rows [from, to) are not believed, all others are. */
static void expect_cut(int from, int to)
{
    for (int i = 0; i < N; i++)
        if (good[i] != (i < from || i >= to))
            fail_msg("row %d is %s", i, good[i] ? "believed" : "cut");
}

static int jumps(void)
{
    int n = 0;
    for (int i = 0; i < N; i++)
        n += jump[i];
    return n;
}

static void what_flew_is_kept(void **state)
{
    (void)state;
    make();
    cut();
    expect_cut(0, 0);
    assert_int_equal(jumps(), 0);
    for (int s = 0; s < SIGNALS; s++)
        assert_int_equal(found[s].rows + found[s].far + (size_t)found[s].jumps, 0);
}

static void a_glitch_of_rows_is_cut(void **state)
{
    (void)state;
    make();
    for (int i = 700; i < 706; i++)
        value[i][0] += 0.5 + 0.1 * (i - 700);
    cut();
    expect_cut(700, 706);
    assert_int_equal(found[0].rows, 6);
    assert_int_equal(found[0].glitches, 1);
    assert_int_equal(jumps(), 0);

    /* a row that is missing within it changes nothing */
    make();
    for (int i = 700; i < 706; i++)
        value[i][0] += 0.5;
    good[703] = false;
    cut();
    expect_cut(700, 706);
    assert_int_equal(found[0].rows, 5);
}

/* A control may go up and down: a row alone is a glitch, a pulse is not. */
static void a_pulse_of_a_control_is_kept(void **state)
{
    (void)state;
    make();
    value[900][CONTROL] = 0.95;
    cut();
    expect_cut(900, 901);
    make();
    for (int i = 900; i < 905; i++)
        value[i][CONTROL] = 0.95;
    cut();
    expect_cut(0, 0);
    assert_int_equal(jumps(), 0);
}

/* What does not come back is another place: both sides are good, the way there is none. */
static void a_jump_ends_an_episode(void **state)
{
    (void)state;
    make();
    for (int i = 1200; i < N; i++)
        value[i][0] += 1;
    cut();
    expect_cut(0, 0);
    assert_int_equal(jumps(), 1);
    assert_true(jump[1200]);
    assert_int_equal(found[0].jumps, 1);
}

/* While rows are missing a vehicle goes on. */
static void missing_rows_are_no_jump(void **state)
{
    (void)state;
    make();
    for (int i = 400; i < 420; i++)
        good[i] = false;
    cut();
    expect_cut(400, 420);
    assert_int_equal(jumps(), 0);
}

static void values_far_out_are_cut_however_long(void **state)
{
    (void)state;
    make();
    for (int i = 100; i < 108; i++)
        value[i][0] = 400; /* of 2000: fewer than one in two hundred, over 80 ms */
    value[108][CONTROL] = -23;
    cut();
    expect_cut(100, 109);
    assert_int_equal(found[0].far, 8);
    assert_near(found[0].furthest, 400, 0);
    assert_int_equal(found[CONTROL].far, 1);
    assert_near(found[CONTROL].furthest, -23, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_flew_is_kept),
        cmocka_unit_test(a_glitch_of_rows_is_cut),
        cmocka_unit_test(a_pulse_of_a_control_is_kept),
        cmocka_unit_test(a_jump_ends_an_episode),
        cmocka_unit_test(missing_rows_are_no_jump),
        cmocka_unit_test(values_far_out_are_cut_however_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
