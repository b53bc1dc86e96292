/* Every rung of the failsafe ladder, and what leads from one to the next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mavlink/ladder.h"

static const double period = 0.016;

typedef struct world {
    hb_ladder ladder;
    hb_ladder_input in;
    hb_ladder_output out;
    int commands[3]; /* counted by kind */
} world;

static world make(void)
{
    return (world){.ladder = {.hold_for = 1, .good_cycles = 5, .pilot_engages = true}};
}

static void step(world *w)
{
    w->in.now += period;
    w->out = hb_ladder_step(&w->ladder, &w->in);
    w->commands[w->out.command]++;
    w->in.engage = w->in.release = false;
}

static void steps(world *w, double seconds)
{
    for (int n = (int)(seconds / period + 0.5); n > 0; n--)
        step(w);
}

/* Until the plan is flown, by the pilot's switch. */
static world flying(void)
{
    world w = make();
    steps(&w, 0.5);
    w.in.offboard = true;
    steps(&w, 0.5);
    assert_int_equal(w.ladder.rung, HB_RUNG_FLYING);
    assert_int_equal(w.out.setpoint, HB_SEND_RATES);
    return w;
}

static void the_pilot_engages(void **state)
{
    (void)state;
    world w = make();
    steps(&w, 1);
    assert_int_equal(w.ladder.rung, HB_RUNG_STANDBY);
    assert_int_equal(w.out.setpoint, HB_SEND_HOLD); /* the stream that offboard needs */
    w.in.offboard = true;
    step(&w);
    /* position first; rates once plans have been good for some cycles */
    assert_int_equal(w.ladder.rung, HB_RUNG_HOLDING);
    steps(&w, 4 * period);
    assert_int_equal(w.out.setpoint, HB_SEND_HOLD);
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_FLYING);
    assert_int_equal(w.out.setpoint, HB_SEND_RATES);
    assert_int_equal(w.commands[HB_COMMAND_OFFBOARD] + w.commands[HB_COMMAND_HOLD], 0);
}

static void the_operator_engages(void **state)
{
    (void)state;
    world w = make();
    w.ladder.pilot_engages = false;
    steps(&w, 1);
    assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
    w.in.engage = true;
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_ENGAGING);
    assert_int_equal(w.out.command, HB_COMMAND_OFFBOARD);
    assert_int_equal(w.out.setpoint, HB_SEND_HOLD);
    steps(&w, 0.5);
    w.in.offboard = true;
    steps(&w, 0.2);
    assert_int_equal(w.ladder.rung, HB_RUNG_FLYING);

    /* an autopilot that refuses: given up, not asked for ever */
    w = make();
    step(&w);
    w.in.engage = true;
    steps(&w, 2.1);
    assert_int_equal(w.ladder.rung, HB_RUNG_STANDBY);
    int asked = w.commands[HB_COMMAND_OFFBOARD];
    assert_in_range(asked, 5, 15);
    steps(&w, 10);
    assert_int_equal(w.commands[HB_COMMAND_OFFBOARD], asked);
}

static void offboard_of_somebody_else_is_left_alone(void **state)
{
    (void)state;
    for (int pilot = 0; pilot < 2; pilot++) {
        world w = make();
        w.ladder.pilot_engages = pilot;
        w.in.offboard = true;
        steps(&w, 5);
        assert_int_equal(w.ladder.rung, HB_RUNG_STANDBY);
        assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
        assert_int_equal(w.commands[HB_COMMAND_OFFBOARD] + w.commands[HB_COMMAND_HOLD], 0);
    }
}

static void nothing_is_engaged_while_an_obstacle_stands(void **state)
{
    (void)state;
    world w = make();
    w.in.obstacle = "COM_OF_LOSS_T is 1";
    w.in.engage = true;
    steps(&w, 1);
    assert_int_equal(w.ladder.rung, HB_RUNG_STANDBY);
    assert_string_equal(w.ladder.reason, "COM_OF_LOSS_T is 1");
    /* the pilot switches all the same: handed back at once, without a single rate */
    w.in.offboard = true;
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_HANDING_OVER);
    assert_int_equal(w.out.command, HB_COMMAND_HOLD);
    assert_int_equal(w.out.setpoint, HB_SEND_HOLD);
}

static void a_doubt_means_position_in_the_same_cycle(void **state)
{
    (void)state;
    world w = flying();
    w.in.doubt = "hilbertd did not answer in time";
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_HOLDING);
    assert_int_equal(w.out.setpoint, HB_SEND_HOLD);
    assert_string_equal(w.ladder.reason, w.in.doubt);
    /* and back, after good cycles in a row: a doubt among them starts the count anew */
    w.in.doubt = NULL;
    steps(&w, 4 * period);
    w.in.doubt = "stale";
    step(&w);
    w.in.doubt = NULL;
    steps(&w, 4 * period);
    assert_int_equal(w.ladder.rung, HB_RUNG_HOLDING);
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_FLYING);
}

static void a_second_of_doubt_means_hold_mode(void **state)
{
    (void)state;
    world w = flying();
    w.in.doubt = "hilbertd did not answer in time";
    steps(&w, 0.95);
    assert_int_equal(w.ladder.rung, HB_RUNG_HOLDING);
    assert_int_equal(w.commands[HB_COMMAND_HOLD], 0);
    steps(&w, 0.15);
    assert_int_equal(w.ladder.rung, HB_RUNG_HANDING_OVER);
    assert_int_equal(w.commands[HB_COMMAND_HOLD], 1);
    assert_int_equal(w.out.setpoint, HB_SEND_HOLD); /* until the autopilot has left offboard */
    /* the command is lost: it is given again, and good replies change nothing any more */
    w.in.doubt = NULL;
    steps(&w, 1);
    assert_int_equal(w.ladder.rung, HB_RUNG_HANDING_OVER);
    assert_true(w.commands[HB_COMMAND_HOLD] >= 4);
    w.in.offboard = false;
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_YIELDED);
    assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
}

/* flying in turns with holding does not go on for ever */
static void doubts_that_come_back_add_up(void **state)
{
    (void)state;
    world w = flying();
    int i = 0;
    for (; i < 100 && w.ladder.rung != HB_RUNG_HANDING_OVER; i++) {
        w.in.doubt = "hilbertd did not answer in time";
        steps(&w, 0.2);
        w.in.doubt = NULL;
        steps(&w, 0.3);
    }
    assert_int_equal(w.ladder.rung, HB_RUNG_HANDING_OVER);
    /* one late reply every five seconds does */
    w = flying();
    for (i = 0; i < 200; i++) {
        w.in.doubt = "hilbertd did not answer in time";
        step(&w);
        w.in.doubt = NULL;
        steps(&w, 5);
        assert_int_equal(w.ladder.rung, HB_RUNG_FLYING);
    }
}

static void who_takes_over_is_not_disturbed(void **state)
{
    (void)state;
    for (int holding = 0; holding < 2; holding++) {
        world w = flying();
        w.in.doubt = holding ? "stale" : NULL;
        step(&w);
        w.in.offboard = false;
        step(&w);
        assert_int_equal(w.ladder.rung, HB_RUNG_YIELDED);
        assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
        int commands = w.commands[HB_COMMAND_OFFBOARD] + w.commands[HB_COMMAND_HOLD];
        w.in.doubt = NULL;
        for (int i = 0; i < 1000; i++) {
            step(&w);
            assert_int_not_equal(w.out.setpoint, HB_SEND_RATES);
        }
        assert_int_equal(w.commands[HB_COMMAND_OFFBOARD] + w.commands[HB_COMMAND_HOLD], commands);
        /* the stream is there again for the pilot's next switch */
        assert_int_equal(w.ladder.rung, HB_RUNG_STANDBY);
        assert_int_equal(w.out.setpoint, HB_SEND_HOLD);
        w.in.offboard = true;
        steps(&w, 0.2);
        assert_int_equal(w.ladder.rung, HB_RUNG_FLYING);
    }
    /* where only the operator engages, not even that */
    world w = make();
    w.ladder.pilot_engages = false;
    step(&w);
    w.in.engage = true;
    step(&w);
    w.in.offboard = true;
    steps(&w, 1);
    assert_int_equal(w.ladder.rung, HB_RUNG_FLYING);
    w.in.offboard = false;
    steps(&w, 10);
    assert_int_equal(w.ladder.rung, HB_RUNG_YIELDED);
    assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
    w.in.engage = true;
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_ENGAGING);
}

static void an_obstacle_in_flight_hands_over_at_once(void **state)
{
    (void)state;
    world w = flying();
    w.in.obstacle = "the battery is low";
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_HANDING_OVER);
    assert_int_equal(w.out.command, HB_COMMAND_HOLD);
    assert_string_equal(w.ladder.reason, "the battery is low");

    w = flying();
    w.in.release = true;
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_HANDING_OVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pilot_engages),
        cmocka_unit_test(the_operator_engages),
        cmocka_unit_test(offboard_of_somebody_else_is_left_alone),
        cmocka_unit_test(nothing_is_engaged_while_an_obstacle_stands),
        cmocka_unit_test(a_doubt_means_position_in_the_same_cycle),
        cmocka_unit_test(a_second_of_doubt_means_hold_mode),
        cmocka_unit_test(doubts_that_come_back_add_up),
        cmocka_unit_test(who_takes_over_is_not_disturbed),
        cmocka_unit_test(an_obstacle_in_flight_hands_over_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
