/* Pieces of work against a deadline, on a clock that the test turns. */
#include "check.h"
#include "plan/time_budget.h"

static double read_time(void *context)
{
    return *(double *)context;
}

/* pieces of a given length until there is no time for another; returns how many */
static int work(hb_time_budget *p, double *time, double piece)
{
    int done = 0;

    while (hb_time_budget_ask(p)) {
        *time += piece;
        done++;
    }
    return done;
}

static void test_stops_before_the_deadline_once_it_knows_its_pieces(void **state)
{
    (void)state;
    double time = 100;
    hb_clock clock = {.now = read_time, .context = &time};
    atomic_bool stop = false;
    hb_time_budget p = {0};

    /* the first piece is an unknown; from then on none is begun that would not fit */
    hb_time_budget_begin(&p, &clock, 110, &stop);
    assert_int_equal(work(&p, &time, 3), 3);
    assert_near(time, 109, 1e-12);
    assert_true(stop);
    assert_int_equal(p.pieces, 3);

    /* what was learned is kept: a plan with no time for a piece does none */
    stop = false;
    hb_time_budget_begin(&p, &clock, time + 2, &stop);
    assert_int_equal(work(&p, &time, 3), 0);
    assert_near(time, 109, 1e-12);
}

static void test_overshoot_is_one_piece_at_most(void **state)
{
    (void)state;
    double time = 0;
    hb_clock clock = {.now = read_time, .context = &time};
    hb_time_budget p = {0};

    /* pieces whose length keeps changing, up to 1 */
    for (int plan = 0; plan < 200; plan++) {
        atomic_bool stop = false;
        double deadline = time + 5;
        hb_time_budget_begin(&p, &clock, deadline, &stop);
        for (int i = 0; hb_time_budget_ask(&p); i++)
            time += 0.2 + 0.8 * ((plan * 7 + i * 3) % 5) / 4;
        hb_time_budget_rest(&p);
        assert_true(time <= deadline + 1);
        time = deadline + 1;
    }
}

static void test_steady_pieces_never_overshoot(void **state)
{
    (void)state;
    double time = 0;
    hb_clock clock = {.now = read_time, .context = &time};
    hb_time_budget p = {0};

    /* there is always time for a part of one more */
    for (int plan = 0; plan < 200; plan++) {
        atomic_bool stop = false;
        double deadline = time + 5.5;
        hb_time_budget_begin(&p, &clock, deadline, &stop);
        assert_int_equal(work(&p, &time, 1), 5);
        assert_true(time <= deadline);
        time = deadline;
    }
}

static void test_kinds_are_kept_apart_and_waiting_is_not_work(void **state)
{
    (void)state;
    double time = 0;
    hb_clock clock = {.now = read_time, .context = &time};
    atomic_bool stop = false;
    hb_time_budget p = {0};

    hb_time_budget_begin(&p, &clock, 100, &stop);
    p.kind = HB_PIECE_FORWARD;
    assert_true(hb_time_budget_ask(&p));
    time += 1;
    hb_time_budget_rest(&p);
    time += 50; /* waits for others */
    p.kind = HB_PIECE_BACKWARD;
    assert_true(hb_time_budget_ask(&p));
    time += 20;
    p.kind = HB_PIECE_FORWARD;
    assert_true(hb_time_budget_ask(&p));
    time += 1;
    hb_time_budget_rest(&p);
    assert_near(p.past[HB_PIECE_FORWARD].max, 1, 1e-12);
    assert_near(p.past[HB_PIECE_BACKWARD].last, 20, 1e-12);

    /* at 72 there is room for 28 seconds: 20 fit, then only the short ones */
    p.kind = HB_PIECE_BACKWARD;
    assert_true(hb_time_budget_ask(&p));
    time += 20;
    p.kind = HB_PIECE_FORWARD;
    assert_int_equal(work(&p, &time, 1), 8);
}

static void test_a_hiccup_does_not_stop_work_for_good(void **state)
{
    (void)state;
    double time = 0;
    hb_clock clock = {.now = read_time, .context = &time};
    hb_time_budget p = {0};

    for (int plan = 0; plan < 60; plan++) {
        atomic_bool stop = false;
        double begun = time;
        hb_time_budget_begin(&p, &clock, time + 10, &stop);
        /* the very first piece, and later another, is interrupted for 1000 s */
        if (plan == 0 || plan == 30) {
            assert_true(hb_time_budget_ask(&p));
            time += 1000;
        }
        int done = work(&p, &time, 1);
        if (plan == 29 || plan == 59)
            assert_true(done >= 8);
        if (plan == 31)
            assert_true(done >= 1);
        assert_true(plan == 0 || plan == 30 || time <= begun + 10);
        time = begun + 2000;
    }
    /* without anything learned but a huge first time, it takes until that is doubted away */
    hb_time_budget q = {0};
    int plans = 0;
    for (bool worked = false; !worked && plans < 1000; plans++) {
        atomic_bool stop = false;
        hb_time_budget_begin(&q, &clock, time + 10, &stop);
        if (plans == 0) {
            assert_true(hb_time_budget_ask(&q));
            time += 1000;
            hb_time_budget_rest(&q);
        } else {
            worked = work(&q, &time, 1) > 0;
        }
        time += 20;
    }
    assert_true(plans < 20);
}

static void test_tells_what_would_fit(void **state)
{
    (void)state;
    double time = 0;
    hb_clock clock = {.now = read_time, .context = &time};
    atomic_bool stop = false;
    hb_time_budget p = {0};

    hb_time_budget_begin(&p, &clock, 10, &stop);
    assert_true(hb_time_budget_fits(&p, HB_PIECE_TRIAL, 1000));
    p.kind = HB_PIECE_TRIAL;
    assert_true(hb_time_budget_ask(&p));
    time += 2;
    hb_time_budget_rest(&p);
    assert_true(hb_time_budget_fits(&p, HB_PIECE_TRIAL, 4));
    assert_false(hb_time_budget_fits(&p, HB_PIECE_TRIAL, 5));
    assert_true(hb_time_budget_fits(&p, HB_PIECE_SOLVE, 5));
    hb_time_budget_begin(&p, NULL, 0, &stop);
    assert_true(hb_time_budget_fits(&p, HB_PIECE_TRIAL, 1000000));
}

/* a simulated clock: it moves on with each piece, by what that kind takes */
typedef struct simulated {
    double time, takes[HB_NPIECES];
    int begun[HB_NPIECES];
} simulated;

static double simulated_now(void *context)
{
    return ((simulated *)context)->time;
}

static void charge(void *context, hb_piece kind)
{
    simulated *s = context;

    s->time += s->takes[kind];
    s->begun[kind]++;
}

static void test_a_simulated_clock_is_told_of_every_piece_that_begins(void **state)
{
    (void)state;
    simulated s = {.takes = {[HB_PIECE_SINGLE] = 1, [HB_PIECE_TRIAL] = 3}};
    const hb_clock clock = {.now = simulated_now, .context = &s, .begins = charge};
    atomic_bool stop = false;
    hb_time_budget p = {0};

    hb_time_budget_begin(&p, &clock, 10.5, &stop);
    p.kind = HB_PIECE_SINGLE;
    assert_true(hb_time_budget_ask(&p));
    p.kind = HB_PIECE_TRIAL;
    assert_int_equal(work(&p, &(double){0}, 0), 3);
    hb_time_budget_rest(&p);
    assert_near(s.time, 10, 1e-12);
    /* one that was refused did not begin */
    assert_int_equal(s.begun[HB_PIECE_SINGLE], 1);
    assert_int_equal(s.begun[HB_PIECE_TRIAL], 3);
    assert_near(p.past[HB_PIECE_TRIAL].mean, 3, 1e-12);
}

static void test_one_thread_stops_all(void **state)
{
    (void)state;
    double time = 0;
    hb_clock clock = {.now = read_time, .context = &time};
    atomic_bool stop = false;
    hb_time_budget a = {0}, b = {0};

    hb_time_budget_begin(&a, &clock, 10, &stop);
    hb_time_budget_begin(&b, &clock, 10, &stop);
    assert_true(hb_time_budget_ask(&b));
    assert_int_equal(work(&a, &time, 5), 2);
    assert_false(hb_time_budget_ask(&b));
}

static void test_no_clock_is_no_deadline(void **state)
{
    (void)state;
    atomic_bool stop = false;
    hb_time_budget p = {0};

    hb_time_budget_begin(&p, NULL, 0, &stop);
    for (int i = 0; i < 1000; i++)
        assert_true(hb_time_budget_ask(&p));
    hb_time_budget_rest(&p);
    assert_int_equal(p.pieces, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stops_before_the_deadline_once_it_knows_its_pieces),
        cmocka_unit_test(test_overshoot_is_one_piece_at_most),
        cmocka_unit_test(test_steady_pieces_never_overshoot),
        cmocka_unit_test(test_kinds_are_kept_apart_and_waiting_is_not_work),
        cmocka_unit_test(test_a_hiccup_does_not_stop_work_for_good),
        cmocka_unit_test(test_tells_what_would_fit),
        cmocka_unit_test(test_a_simulated_clock_is_told_of_every_piece_that_begins),
        cmocka_unit_test(test_one_thread_stops_all),
        cmocka_unit_test(test_no_clock_is_no_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
