/* Every rung of the failsafe ladder, and what leads from one to the next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mavlink/autopilot.h"
#include "mavlink/ladder.h"

static const double period = 0.016;

typedef struct world {
    hb_ladder ladder;
    hb_ladder_input in;
    hb_ladder_output out;
    int commands[3]; /* counted by kind */
    bool deaf;       /* the autopilot's mode is not heard */
} world;

static world make(void)
{
    return (world){.ladder = {.hold_for = 1, .uneasy_for = 1, .good_cycles = 5, .pilot_engages = true},
                   .in = {.intent = HB_INTENT_OTHER}};
}

static void step(world *w)
{
    w->in.now += period;
    if (!w->deaf)
        w->in.mode_heard = w->in.intent_heard = w->in.now;
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

/* A pilot who chooses another mode is not asked over: neither when that is heard nor when nothing is. */
static void a_command_is_repeated_on_news_alone(void **state)
{
    (void)state;
    world w = make();
    steps(&w, 1);
    w.in.engage = true;
    step(&w);
    assert_int_equal(w.commands[HB_COMMAND_OFFBOARD], 1);
    w.deaf = true;
    steps(&w, 1);
    assert_int_equal(w.ladder.rung, HB_RUNG_ENGAGING);
    assert_int_equal(w.commands[HB_COMMAND_OFFBOARD], 1);
    w.deaf = false; /* who knows what was chosen in between */
    for (int i = 0; i < 100 && w.ladder.rung == HB_RUNG_ENGAGING; i++)
        step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_STANDBY);
    assert_non_null(strstr(w.ladder.reason, "not asked twice unheard"));
    assert_int_equal(w.commands[HB_COMMAND_OFFBOARD], 1);

    w = make();
    steps(&w, 1);
    w.in.engage = true;
    steps(&w, 0.3);
    assert_int_equal(w.commands[HB_COMMAND_OFFBOARD], 2);
    w.in.mode = 7;
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_STANDBY);
    assert_string_equal(w.ladder.reason, "another mode was chosen meanwhile");

    /* Hold likewise: again when the autopilot is heard to be in offboard after the command */
    w = flying();
    w.deaf = true;
    w.in.release = true;
    steps(&w, 1);
    assert_int_equal(w.ladder.rung, HB_RUNG_HANDING_OVER);
    assert_int_equal(w.commands[HB_COMMAND_HOLD], 1);
    w.deaf = false;
    step(&w);
    assert_int_equal(w.commands[HB_COMMAND_HOLD], 2);
}

/* What was heard before a gap of the stream invites nobody after it: the pilot may have chosen offboard before, PX4
 * have left it in the gap, and return. */
static void a_stream_begins_on_news_that_are_newer_than_its_gap(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        world w = make();
        steps(&w, 1);
        assert_int_equal(w.out.setpoint, HB_SEND_HOLD);
        w.deaf = true;
        steps(&w, 0.1);
        assert_int_equal(w.out.setpoint, HB_SEND_HOLD);
        /* longer than any autopilot waits, or than this one says that it does */
        w.in.lost_after = slow ? 0.1 : 0;
        w.in.now += slow ? 0.12 : 0.25;
        for (int i = 0; i < 200; i++) {
            step(&w);
            assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
        }
        w.deaf = false;
        step(&w);
        assert_int_equal(w.out.setpoint, HB_SEND_HOLD);
    }
    /* a slow link is no gap, silence is */
    world w = make();
    for (int i = 0; i < 20; i++) {
        w.deaf = false;
        step(&w);
        w.deaf = true;
        steps(&w, 0.9);
        assert_int_equal(w.out.setpoint, HB_SEND_HOLD);
    }
    steps(&w, 0.7);
    assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
    /* nor is it handed over to Hold by a bridge that has not heard since that it is in offboard */
    w = flying();
    w.deaf = true;
    w.in.now += 0.25;
    for (int i = 0; i < 300; i++) {
        step(&w);
        assert_int_equal(w.ladder.rung, HB_RUNG_YIELDED);
        assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
    }
    w.deaf = false;
    step(&w);
    assert_int_equal(w.ladder.rung, HB_RUNG_HANDING_OVER);
    /* PX4 in its failsafe, heard too late: not streamed to for long */
    w = make();
    steps(&w, 1);
    w.in.intent = HB_INTENT_OFFBOARD;
    steps(&w, 0.6);
    assert_int_equal(w.out.setpoint, HB_SEND_NOTHING);
}

/* --- against an invented PX4 --- */

enum { PX4_HOLD = 4 | 3 << 8, PX4_POSITION = 3, PX4_LAND = 4 | 6 << 8, PX4_IN_OFFBOARD = 6 };

/* Seconds: a choice that soon after the operator's word does not answer it, and the word may lie as long in a bridge
 * that is held up and does not know. */
static const double reaction = 0.2;

/* Mode and intention as PX4 keeps them: after 0.2 s without setpoints Hold, and back as soon as they come again. */
typedef struct px4 {
    uint32_t mode, intended;
    double setpoint;      /* when the last one came */
    double chosen;        /* when somebody chose a mode that is not offboard, */
    double word;          /* and when the operator gave the word */
    bool asked;           /* offboard is in force because somebody wants it */
    int returned, forced; /* unasked: by itself, by a repeated command over the pilot's choice */
} px4;

static uint64_t random_bits(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static double uniform(uint64_t *seed, double low, double high)
{
    return low + (high - low) * (double)random_bits(seed) / (double)(UINT64_C(1) << 31);
}

static void px4_live(px4 *p, double now)
{
    const bool stream = now - p->setpoint <= 0.2;

    if (p->mode == PX4_IN_OFFBOARD && !stream) {
        p->mode = PX4_HOLD;
        p->asked = false;
    } else if (p->mode != PX4_IN_OFFBOARD && p->intended == PX4_IN_OFFBOARD && stream) {
        p->mode = PX4_IN_OFFBOARD;
        p->asked = p->word > p->chosen - reaction && now - p->word < 2.1;
        p->returned += !p->asked;
    }
}

static void px4_choose(px4 *p, uint32_t mode, double now)
{
    if (mode == p->mode && mode == p->intended)
        return; /* nothing changes, so that nothing could be heard of it */
    if (mode != PX4_IN_OFFBOARD) {
        p->mode = p->intended = mode;
        p->chosen = now;
        p->asked = false;
    } else if (now - p->setpoint <= 0.2) {
        p->mode = p->intended = mode;
        p->asked = true;
    }
}

static void px4_command(px4 *p, hb_mode_command command, bool repeated, double now)
{
    const bool over = p->mode != PX4_IN_OFFBOARD && p->chosen > p->word + reaction;

    if (command == HB_COMMAND_OFFBOARD) {
        px4_choose(p, PX4_IN_OFFBOARD, now);
        p->asked = p->asked && !over;
        p->forced += over;
    } else {
        p->forced += repeated && p->mode != PX4_IN_OFFBOARD && p->mode != PX4_HOLD && now - p->chosen > reaction;
        p->mode = p->intended = PX4_HOLD;
    }
}

/* What a link keeps for a bridge that is stopped: the oldest messages. */
typedef struct backlog {
    int n;
    uint32_t mode, intended;
} backlog;

static void px4_says(const px4 *p, hb_autopilot *a, bool heartbeat, double now)
{
    if (!heartbeat) {
        a->intended_mode = p->intended << 16;
        a->mode = p->mode << 16;
        a->mode_heard = a->current_mode_heard = now;
    } else if (now - a->current_mode_heard > 0.5) {
        a->mode = p->mode << 16;
        a->mode_heard = now;
    }
    a->heartbeat = now;
}

static void the_bridge_never_flies_unasked(void **state)
{
    (void)state;
    const double tick = 0.004, cycle = 0.016;
    uint64_t seed = 1;
    long cycles = 0, unasked = 0, flown = 0, engaged = 0, commanded = 0;
    int returned = 0, forced = 0;

    for (int flight = 0; flight < 4000; flight++) {
        const bool slow = flight % 8 == 7;
        px4 p = {.mode = PX4_HOLD, .intended = PX4_HOLD, .setpoint = -1e9, .chosen = -1e9, .word = -1e9};
        hb_autopilot a;
        world w = make();
        backlog kept = {0};
        bool word = false, restarts = false;
        double away = 0, next_stop = 1, next_choice = 0, next_word = 0, next_silence = 0, silent = 0, doubted = 0;
        double told = 0, beat = uniform(&seed, 0, 1), turn = 0;

        w.ladder.pilot_engages = flight % 4 != 3;
        hb_autopilot_start(&a, 0);
        a.kind = HB_AUTOPILOT_PX4;
        for (double now = 0; now < 40; now += tick) {
            px4_live(&p, now);
            /* people */
            if (now >= next_choice) {
                static const uint32_t modes[] = {PX4_HOLD, PX4_POSITION, PX4_LAND, PX4_IN_OFFBOARD, PX4_IN_OFFBOARD};
                if (next_choice > 0)
                    px4_choose(&p, modes[random_bits(&seed) % 5], now);
                /* often soon after the last one */
                next_choice = now + uniform(&seed, 0.02, random_bits(&seed) % 2 ? 1 : 4);
            }
            if (now >= next_word) {
                if (next_word > 0 && (now >= away || !restarts)) { /* nobody hears it else */
                    word = true;
                    p.word = now;
                }
                next_word = now + uniform(&seed, 1, 8);
            }
            /* CURRENT_MODE is lost for a while, heartbeats are not */
            if (now >= next_silence) {
                silent = now + uniform(&seed, 0, 3);
                next_silence = now + uniform(&seed, 1, 6);
            }
            const bool tells = now - told >= (slow ? 0.5 : 0.02) && now > silent, beats = now - beat >= 1;
            told = tells ? now : told;
            beat = beats ? now : beat;
            /* the bridge: there, stopped, or ended and started again */
            if (now >= next_stop) {
                restarts = random_bits(&seed) % 4 == 0;
                away = now + (random_bits(&seed) % 2 ? uniform(&seed, 0.1, 0.4) : uniform(&seed, 0.1, 5));
                next_stop = away + uniform(&seed, 0.1, 8);
                kept.n = 0;
                if (restarts) {
                    const bool pilot = w.ladder.pilot_engages;
                    w = make();
                    w.ladder.pilot_engages = pilot;
                    hb_autopilot_start(&a, 0);
                    a.kind = HB_AUTOPILOT_PX4;
                    word = false;
                }
            }
            if (now < away) {
                if (tells && !restarts && kept.n++ < 40) {
                    kept.mode = p.mode;
                    kept.intended = p.intended;
                }
                continue;
            }
            if (kept.n > 0) {
                px4_says(&(px4){.mode = kept.mode, .intended = kept.intended}, &a, false, now);
                kept.n = 0;
            }
            if (tells || beats)
                px4_says(&p, &a, !tells, now);
            if (now - turn < cycle)
                continue;
            turn = now;
            if (random_bits(&seed) % 512 == 0)
                doubted = now + uniform(&seed, 0, 3);
            w.in = (hb_ladder_input){.now = now,
                                     .offboard = hb_autopilot_offboard(&a),
                                     .mode = a.mode,
                                     .mode_heard = a.mode_heard,
                                     .intent = hb_autopilot_intent(&a, now),
                                     .intent_heard = hb_autopilot_intent_heard(&a),
                                     .doubt = now < doubted ? "a doubt" : NULL,
                                     .engage = word};
            word = false;
            const hb_ladder_output out = hb_ladder_step(&w.ladder, &w.in);
            w.commands[0] = out.changed ? 0 : w.commands[0]; /* commands on this rung */
            if (out.setpoint != HB_SEND_NOTHING)
                p.setpoint = now;
            if (out.command != HB_COMMAND_NONE) {
                px4_command(&p, out.command, w.commands[0]++ > 0, now);
                commanded++;
            }
            cycles++;
            flown += p.mode == PX4_IN_OFFBOARD && out.setpoint == HB_SEND_RATES;
            unasked += p.mode == PX4_IN_OFFBOARD && !p.asked && out.setpoint != HB_SEND_NOTHING;
            engaged += out.changed && w.ladder.rung == HB_RUNG_HOLDING;
        }
        returned += p.returned;
        forced += p.forced;
    }
    /* it was about something */
    assert_true(cycles > 500000 && flown > cycles / 50 && engaged > 500 && commanded > 500);
    if (unasked || returned || forced)
        fail_msg("%ld cycles unasked of %ld (%ld flown); returned %d times, %d commands over the pilot's choice",
                 unasked, cycles, flown, returned, forced);
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
        cmocka_unit_test(a_command_is_repeated_on_news_alone),
        cmocka_unit_test(a_stream_begins_on_news_that_are_newer_than_its_gap),
        cmocka_unit_test(the_bridge_never_flies_unasked),
        cmocka_unit_test(unease_is_not_flown_with_for_ever),
        cmocka_unit_test(an_obstacle_in_flight_hands_over_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
