/* From a request to a plan: which requests and targets are taken, delay, preparing behind the answer, guests. */
#include "check.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "mass.h"
#include "base/numeric.h"

static void test_requests_that_make_no_sense_are_refused_with_the_safe_action(void **state)
{
    fixture *f = *state;
    double nan = NAN, number = 0, targets[7 * NX] = {0};
    const struct {
        hb_reason reason;
        hb_request r;
    } bad[] = {
        {HB_REASON_DIMENSION, {.x = f->x, .nx = 3}},
        {HB_REASON_DIMENSION, {.x = f->x, .nx = NX, .applied = &number, .napplied = 2}},
        {HB_REASON_NOT_FINITE, {.x = f->x, .nx = NX, .applied = &nan, .napplied = 1}},
        {HB_REASON_NOT_FINITE, {.x = (double[]){0, NAN}, .nx = NX}},
        {HB_REASON_NOT_FINITE, {.x = (double[]){INFINITY, 0}, .nx = NX}},
        {HB_REASON_NOT_FINITE, {.x = f->x, .nx = NX, .target = (double[]){0, NAN}, .ntargets = 1}},
        {HB_REASON_HORIZON, {.x = f->x, .nx = NX, .target = targets, .ntargets = 6}},
        {HB_REASON_BAD_TIME, {.x = f->x, .nx = NX, .time_us = -1}},
        {HB_REASON_BAD_TIME, {.x = f->x, .nx = NX, .time_us = INT64_MAX}},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hb_request r = bad[i].r;
        r.received = f->clock.time;
        const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
        assert_int_equal(reply->status, HB_STATUS_REFUSED);
        assert_int_equal(reply->reason, bad[i].reason);
        assert_near(reply->action[0], 0.1, 0); /* the trim */
        reply = hb_controller_fallback(f->c, &r, HB_REASON_BUSY, f->clock.time);
        assert_int_equal(reply->status, HB_STATUS_REFUSED);
        assert_int_equal(reply->reason, bad[i].reason);
    }
    /* a reference over the whole horizon fits */
    hb_request r = request(f);
    r.target = targets;
    r.ntargets = 7;
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_NONE);

    f->s.ntarget = 0;
    start(f);
    r = request(f);
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_NO_TARGET);
    /* which only matters to a cost that has a target */
    f->s.cost.term[0].kind = HB_COST_VELOCITY;
    start(f);
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_NONE);
}

static void test_targets_outside_the_limits_are_refused_or_clipped(void **state)
{
    fixture *f = *state;
    const hb_limit fence = {
        .kind = HB_LIMIT_BOX, .name = "fence", .nindices = 1, .index = {0}, .low = {-0.5}, .high = {0.5}};

    for (int clip = 0; clip < 2; clip++) {
        f->s.cost.limits = hb_limits_defaults;
        f->s.cost.limits.n = 1;
        f->s.cost.limits.limit[0] = fence;
        f->s.cost.limits.targets = clip ? HB_TARGETS_CLIP : HB_TARGETS_REFUSE;
        f->s.target[0] = 0.3;
        f->x[0] = f->x[1] = 0;
        start(f);
        hb_request r = request(f);
        r.target = (double[]){5, 0};
        r.ntargets = 1;
        const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
        assert_int_equal(reply->reason, clip ? HB_REASON_NONE : HB_REASON_OUTSIDE);
        for (int k = 0; clip && k <= reply->horizon; k++)
            assert_true(reply->states[k * NX] < 0.51);

        /* outside already: a plan that leads back says which limit it cannot keep yet */
        r = request(f);
        r.time_us += 1000;
        r.x = (double[]){2, 0};
        reply = hb_controller_command(f->c, &r, &f->clock.clock);
        assert_non_null(reply->limit);
        assert_string_equal(reply->limit, "fence");

        hb_error err;
        f->s.target[0] = 0.7;
        assert_int_equal(hb_controller_check(f->m, &f->s, &err), clip ? 0 : -EINVAL);
        if (!clip)
            assert_non_null(strstr(err.text, "target: outside"));
    }
}

/* a reference with times of its own leads to the same plan as the same one at the plan's steps */
static void test_references_may_have_times(void **state)
{
    fixture *f = *state;
    enum { NH = 6, DENSE = 25 };
    double at_steps[(NH + 1) * NX], dense[DENSE * NX], time[DENSE], action[2];

    for (int k = 0; k <= NH; k++) {
        at_steps[k * NX] = 0.1 + 0.4 * k * period;
        at_steps[k * NX + 1] = 0.4;
    }
    for (int k = 0; k < DENSE; k++) {
        time[k] = -0.05 + 0.02 * k + (k % 2 ? 0.003 : 0);
        dense[k * NX] = 0.1 + 0.4 * time[k];
        dense[k * NX + 1] = 0.4;
    }
    for (int timed = 0; timed < 2; timed++) {
        start(f);
        hb_request r = request(f);
        r.target = timed ? dense : at_steps;
        r.ntargets = timed ? DENSE : NH + 1;
        r.target_time = timed ? time : NULL;
        const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
        assert_int_equal(reply->reason, HB_REASON_NONE);
        action[timed] = reply->action[0];
    }
    assert_near(action[0], action[1], 1e-4);

    hb_request r = request(f);
    r.target = dense;
    r.target_time = time;
    r.ntargets = HB_REFERENCE_ROWS + 1;
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_HORIZON);
    r.ntargets = DENSE;
    time[4] = time[5];
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_BAD_TIME);
    time[4] = NAN;
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->reason, HB_REASON_NOT_FINITE);
}

static void test_state_is_propagated_under_the_controls_on_their_way(void **state)
{
    fixture *f = *state;
    double sent[20], x[NX];

    f->s.delay = 0.12; /* two periods and a half: three controls are under way */
    start(f);
    for (int k = 0; k < 20; k++) {
        const hb_command *reply = command(f);
        memcpy(x, f->x, sizeof x);
        /* from the state's time on: control k-3 for 0.02 s, then k-2 and k-1 */
        move(x, 0, k >= 3 ? sent[k - 3] : 0.1, 0.02);
        move(x, 0, k >= 2 ? sent[k - 2] : 0.1, 0.05);
        move(x, 0, k >= 1 ? sent[k - 1] : 0.1, 0.05);
        for (int i = 0; i < NX; i++)
            assert_near(reply->states[i], x[i], 1e-5);
        sent[k] = reply->action[0];

        /* the vehicle: what it gets is old */
        move(f->x, 0, k >= 3 ? sent[k - 3] : 0.1, 0.02);
        move(f->x, 0, k >= 2 ? sent[k - 2] : 0.1, 0.03);
        pass(f, period);
    }

    /* a new episode: nothing is under way */
    hb_request r = request(f);
    r.reset_counter = 1;
    const hb_command *reply = hb_controller_command(f->c, &r, &f->clock.clock);
    memcpy(x, f->x, sizeof x);
    move(x, 0, 0.1, 0.12);
    for (int i = 0; i < NX; i++)
        assert_near(reply->states[i], x[i], 1e-5);

    /* what was really applied goes first, until the next command takes over */
    double applied = -1.5, action = reply->action[0];
    pass(f, period);
    r = request(f);
    r.reset_counter = 1;
    r.applied = &applied;
    r.napplied = NU;
    reply = hb_controller_command(f->c, &r, &f->clock.clock);
    memcpy(x, f->x, sizeof x);
    move(x, 0, -1.5, 0.07);
    move(x, 0, action, 0.05);
    for (int i = 0; i < NX; i++)
        assert_near(reply->states[i], x[i], 1e-5);

    /* but it says nothing about a command that has only just taken over */
    double second = reply->action[0];
    pass(f, 2 * period);
    r = request(f);
    r.reset_counter = 1;
    r.applied = &applied;
    r.napplied = NU;
    reply = hb_controller_command(f->c, &r, &f->clock.clock);
    memcpy(x, f->x, sizeof x);
    move(x, 0, action, 0.02);
    move(x, 0, second, 0.1);
    for (int i = 0; i < NX; i++)
        assert_near(reply->states[i], x[i], 1e-5);
}

/* With the delay compensated, a delayed vehicle arrives; without, it overshoots more. */
static void test_compensation_pays(void **state)
{
    fixture *f = *state;
    double overshoot[2] = {0};

    for (int compensated = 0; compensated < 2; compensated++) {
        double sent[80];
        f->s.delay = compensated ? 2 * period : 0;
        f->x[0] = f->x[1] = 0;
        start(f);
        for (int k = 0; k < 80; k++) {
            sent[k] = command(f)->action[0];
            move(f->x, 0, k >= 2 ? sent[k - 2] : 0.1, period);
            pass(f, period);
            overshoot[compensated] = fmax(overshoot[compensated], f->x[0] - f->s.target[0]);
        }
        if (compensated)
            assert_near(f->x[0], 1, 0.05);
    }
    assert_true(overshoot[1] < 0.5 * overshoot[0]);
}

/* Behind an answer: within its share, without touching the answer, and for the next one to begin with. */
static void test_prepares_behind_the_answer(void **state)
{
    fixture *f = *state;
    static const double shares[] = {0.5, 0.0004, 0};

    for (int i = 0; i < 3; i++) {
        f->s.planner.prepare_share = shares[i];
        f->clock.tick = 0;
        start(f);
        fly(f, 30, 0);
        /* how often requests come is not known yet */
        command(f);
        assert_false(hb_controller_prepare(f->c, &f->clock.clock, NULL, UINT64_MAX));
        assert_int_equal(counters(f).prepare_stages, 0);
        pass(f, period);
        observe(f);
        const hb_command *reply = command(f);
        assert_false(reply->corrected);
        const double action = reply->action[0], plan = reply->plan[3], cost = reply->cost;
        f->clock.tick = 1e-4;
        const double before = f->clock.time;
        hb_controller_prepare(f->c, &f->clock.clock, NULL, UINT64_MAX);
        assert_true(f->clock.time - before <= shares[i] * 0.2 + 4 * f->clock.tick);
        f->clock.tick = 0;
        assert_true(reply->action[0] == action && reply->plan[3] == plan && reply->cost == cost);
        const uint64_t stages = counters(f).prepare_stages;
        pass(f, period);
        observe(f);
        reply = command(f);
        assert_int_equal(reply->stages, stages);
        assert_int_equal(reply->corrected, shares[i] == 0.5);
        assert_int_equal(counters(f).corrected, shares[i] == 0.5);
        assert_int_equal(reply->preparing > 0, shares[i] > 0);
    }

    /* slower than its share allows: what it did not use before does not last for long */
    f->s.planner.prepare_share = 0.1;
    f->clock.tick = 0;
    start(f);
    fly(f, 30, 0);
    const double flown = 100 * period;
    for (int i = 0; i < 100; i++) {
        command(f);
        f->clock.tick = 0.02 * period;
        const double before = f->clock.time;
        hb_controller_prepare(f->c, &f->clock.clock, NULL, UINT64_MAX);
        f->clock.tick = 0;
        f->clock.time = before;
        pass(f, period);
        observe(f);
    }
    const double spent = 1e-6 * (double)counters(f).prepare_us;
    assert_true(spent > 0.08 * flown && spent < 0.1 * (flown + 0.2) + 0.1 * period);

    /* a vehicle of which little is known: whatever is prepared, the plan is made from nothing once more is known; else
     * it is corrected, however far preparing came */
    f->s.planner.prepare_share = 0.5;
    for (int i = 0; i < 4; i++) {
        const bool learns = i % 2, whole = i < 2;
        start(f);
        fly(f, 9, 0);
        for (int k = 0; k < 2; k++) {
            command(f);
            hb_controller_prepare(f->c, &f->clock.clock, NULL, whole ? UINT64_MAX : 4);
            if (k == 1 && learns)
                fly(f, 1, 0);
            else
                pass(f, period);
        }
        assert_true(counters(f).prepare_stages > 0);
        assert_int_equal(command(f)->corrected, !learns);
    }

    /* an interrupted one says that it would go on; switched off it does nothing */
    atomic_bool interrupt = true;
    f->s.planner.prepare_share = 1;
    start(f);
    command(f);
    pass(f, period);
    command(f);
    assert_true(hb_controller_prepare(f->c, &f->clock.clock, &interrupt, UINT64_MAX));
    assert_int_equal(counters(f).prepare_stages, 0);
    f->s.planner.prepare = false;
    assert_int_equal(hb_controller_retune(f->c, &f->s, NULL), 0);
    assert_false(hb_controller_prepare(f->c, &f->clock.clock, NULL, UINT64_MAX));
    pass(f, period);
    assert_false(command(f)->corrected);
    assert_int_equal(counters(f).prepare_stages, 0);
}

/* Requests and preparations of a flight; what a guest asks in between may not change a byte of the answers. */
static void fly_with_guests(fixture *f, bool guests, double *action)
{
    static const double applied = 2.9, elsewhere[NX] = {-40, 3};

    start(f);
    f->x[0] = f->x[1] = 0;
    f->clock.time = 1000;
    f->time_us = 5000000;
    f->tick = 0;
    for (int k = 0; k < 60; k++) {
        if (k < 40)
            observe(f); /* and then telemetry stops */
        hb_request theirs = {.time_us = k % 2 ? (int64_t)1 << 60 : 0,
                             .x = elsewhere,
                             .nx = NX,
                             .applied = &applied,
                             .napplied = 1,
                             .target = elsewhere,
                             .ntargets = 1,
                             .reset_counter = (uint32_t)k,
                             .received = f->clock.time,
                             .tick = 1000000 + (uint64_t)k,
                             .guest = true};
        if (guests && k % 5 == 4)
            assert_int_equal(hb_controller_fallback(f->c, &theirs, HB_REASON_LATE, f->clock.time)->status,
                             HB_STATUS_FALLBACK);
        else if (guests)
            assert_true(hb_controller_command(f->c, &theirs, &f->clock.clock)->guest);
        const hb_command *reply = command(f);
        assert_false(reply->guest);
        action[3 * k] = f->u[0] = reply->action[0];
        action[3 * k + 1] = (double)reply->status;
        action[3 * k + 2] = reply->cost;
        if (guests)
            hb_controller_command(f->c, &theirs, &f->clock.clock);
        hb_controller_prepare(f->c, &f->clock.clock, NULL, UINT64_MAX);
        move(f->x, 0.4, f->u[0], period);
        pass(f, period);
    }
}

static void test_guests_change_nothing_for_the_pilot(void **state)
{
    fixture *f = *state;
    static double alone[180], among_guests[180];

    fly_with_guests(f, false, alone);
    fly_with_guests(f, true, among_guests);
    assert_memory_equal(alone, among_guests, sizeof alone);
    assert_int_equal((int)alone[3 * 59 + 1], HB_STATUS_FALLBACK);
    /* and when telemetry is old, a guest is not told otherwise */
    hb_request r = request(f);
    r.guest = true;
    assert_int_equal(hb_controller_command(f->c, &r, &f->clock.clock)->status, HB_STATUS_FALLBACK);
}

static void test_another_pilot_starts_afresh(void **state)
{
    fixture *f = *state;

    fly(f, 30, 0);
    command(f);
    assert_int_equal(command(f)->status, HB_STATUS_CONVERGED);
    /* one whose clock is far ahead: nothing of the plan of the one before is flown on */
    hb_request r = request(f);
    r.time_us += (int64_t)1 << 50;
    r.fresh = true;
    assert_near(hb_controller_fallback(f->c, &r, HB_REASON_LATE, f->clock.time)->action[0], f->m->control_trim[0], 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, mass_set_up, mass_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_requests_that_make_no_sense_are_refused_with_the_safe_action),
        TEST(test_targets_outside_the_limits_are_refused_or_clipped),
        TEST(test_references_may_have_times),
        TEST(test_state_is_propagated_under_the_controls_on_their_way),
        TEST(test_compensation_pays),
        TEST(test_prepares_behind_the_answer),
        TEST(test_guests_change_nothing_for_the_pilot),
        TEST(test_another_pilot_starts_afresh),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
