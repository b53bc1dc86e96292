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
    return (world){.ladder = {.hold_for = 1, .uneasy_for = 1, .good_cycles = 5, .pilot_engages = true},
                   .in = {.intent = HB_INTENT_OTHER}};
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

/* Somebody asks for a mode, and it is in force. */
static void choose(world *w, bool offboard)
{
    w->in.offboard = offboard;
    w->in.intent = offboard ? HB_INTENT_OFFBOARD : HB_INTENT_OTHER;
}

/* Until the plan is flown, by the pilot's switch. */
static world flying(void)
{
    world w = make();
    steps(&w, 0.5);
    choose(&w, true);
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
    assert_int_equal(w.out.setpoint, HB_SEND_HOLD); /* the stream that offboard needs, */
    w.in.intent = HB_INTENT_OFFBOARD;               /* also while the autopilot is on its way there */
    step(&w);
    assert_int_equal(w.out.setpoint, HB_SEND_HOLD);
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

static void ready_is_said_of_plans_that_would_be_flown(void **state)
{
    (void)state;
    world w = make();
    steps(&w, 1);
    assert_string_equal(w.ladder.reason, "ready");
    w.in.doubt = "the samples are old";
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_STANDBY);
    assert_string_equal(w.ladder.reason, w.in.doubt);
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
        choose(&w, false);
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
        choose(&w, true);
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

/* PX4 after a failsafe: in Hold, and back in offboard as soon as setpoints come */
static void nothing_invites_an_autopilot_that_would_return_by_itself(void **state)
{
    (void)state;
    for (int anew = 0; anew < 2; anew++) {
        /* a bridge that went through it, or one that was started afterwards */
        world w = anew ? make() : flying();
        w.in.offboard = false;
        w.in.intent = HB_INTENT_OFFBOARD;
        for (int i = 0; i < 1000; i++) {
            step(&w);
            assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
            assert_int_equal(w.out.command, HB_COMMAND_NONE);
        }
        assert_non_null(strstr(w.ladder.reason, "choose another mode first"));
        /* somebody else's setpoints bring it there: not ours to fly */
        w.in.offboard = true;
        steps(&w, 1);
        assert_int_equal(w.ladder.rung, HB_RUNG_STANDBY);
        assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
        /* another mode, and offboard again: that was meant */
        choose(&w, false);
        steps(&w, 0.2);
        assert_int_equal(w.out.setpoint, HB_SEND_HOLD);
        choose(&w, true);
        steps(&w, 0.2);
        assert_int_equal(w.ladder.rung, HB_RUNG_FLYING);
    }
    /* so does the operator's word */
    world w = flying();
    w.in.offboard = false;
    steps(&w, 3);
    w.in.engage = true;
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_ENGAGING);
    assert_int_equal(w.out.setpoint, HB_SEND_HOLD);
    /* what is not known is not risked */
    w = make();
    w.in.intent = HB_INTENT_UNKNOWN;
    steps(&w, 2);
    assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
    assert_non_null(strstr(w.ladder.reason, "CURRENT_MODE"));
}

static void a_bridge_that_was_held_up_sends_nothing(void **state)
{
    (void)state;
    static const double pause[] = {0.21, 5};
    for (size_t i = 0; i < 2; i++) {
        world w = flying();
        /* its last news say that it is in offboard */
        w.in.now += pause[i];
        step(&w);
        assert_int_equal(w.ladder.rung, HB_RUNG_YIELDED);
        assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
        steps(&w, 0.3);
        w.in.offboard = false; /* PX4: a failsafe that returns */
        steps(&w, 5);
        assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
        assert_int_equal(w.commands[HB_COMMAND_HOLD] + w.commands[HB_COMMAND_OFFBOARD], 0);
    }
    /* ArduCopter levels and stays in GUIDED: it is handed over */
    world w = flying();
    w.in.now += 5;
    steps(&w, 1.2);
    assert_int_equal(w.ladder.rung, HB_RUNG_HANDING_OVER);
    assert_true(w.commands[HB_COMMAND_HOLD] > 0);
    /* a pause below that is no reason */
    w = flying();
    w.in.now += 0.17;
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_FLYING);
}

static void unease_is_not_flown_with_for_ever(void **state)
{
    (void)state;
    world w = flying();
    w.in.unease = "plans break a limit";
    steps(&w, 0.95);
    assert_int_equal(w.ladder.rung, HB_RUNG_FLYING);
    steps(&w, 0.1);
    assert_int_equal(w.ladder.rung, HB_RUNG_HOLDING);
    assert_string_equal(w.ladder.reason, w.in.unease);
    /* the autopilot's turn does not help: handed over */
    steps(&w, 1.1);
    assert_int_equal(w.ladder.rung, HB_RUNG_HANDING_OVER);
    assert_string_equal(w.ladder.reason, w.in.unease);

    /* nor does it keep from flying, where it was never flown with for long */
    w = make();
    w.in.unease = "plans break a limit";
    steps(&w, 0.5);
    choose(&w, true);
    steps(&w, 0.5);
    assert_int_equal(w.ladder.rung, HB_RUNG_FLYING);

    /* half of the time beyond it is no better, a gust now and then is nothing */
    for (int gusts = 0; gusts < 2; gusts++) {
        w = flying();
        for (int i = 0; i < 20 && w.ladder.rung == HB_RUNG_FLYING; i++) {
            w.in.unease = "plans break a limit";
            steps(&w, gusts ? 0.3 : 0.5);
            w.in.unease = NULL;
            steps(&w, gusts ? 0.9 : 0.5);
        }
        assert_int_equal(w.ladder.rung, gusts ? HB_RUNG_FLYING : HB_RUNG_HANDING_OVER);
    }
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
        cmocka_unit_test(ready_is_said_of_plans_that_would_be_flown),
        cmocka_unit_test(offboard_of_somebody_else_is_left_alone),
        cmocka_unit_test(nothing_is_engaged_while_an_obstacle_stands),
        cmocka_unit_test(a_doubt_means_position_in_the_same_cycle),
        cmocka_unit_test(a_second_of_doubt_means_hold_mode),
        cmocka_unit_test(doubts_that_come_back_add_up),
        cmocka_unit_test(who_takes_over_is_not_disturbed),
        cmocka_unit_test(nothing_invites_an_autopilot_that_would_return_by_itself),
        cmocka_unit_test(a_bridge_that_was_held_up_sends_nothing),
        cmocka_unit_test(unease_is_not_flown_with_for_ever),
        cmocka_unit_test(an_obstacle_in_flight_hands_over_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
