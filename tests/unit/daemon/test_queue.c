#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/queue.h"

static hb_envelope envelope_of(int client)
{
    hb_envelope e = {.nframes = 2, .size = {4, 0}};

    memcpy(e.data, &client, 4);
    return e;
}

static int client_of(const hb_envelope *e)
{
    int client;

    memcpy(&client, e->data, 4);
    return client;
}

/* Puts a request of a client in; returns the client, or NULL when there is no room. */
static hb_client *ask(hb_queue *q, int client, uint64_t id, double now)
{
    const double x[2] = {(double)id, 1}, target[4] = {2, 3, 4, (double)client}, applied[1] = {5};
    hb_envelope e = envelope_of(client);
    hb_client *c = hb_queue_client(q, &e, now);
    hb_action_request r = {
        .id = id,
        .want_plan = true,
        .request = {
            .x = x, .nx = 2, .target = target, .ntargets = 2, .applied = applied, .napplied = 1, .received = now}};

    if (c) {
        hb_queue_put(q, c, &e, &r, 0.005);
    }
    return c;
}

/* The id of the request whose turn it is, or 0. */
static uint64_t serve(hb_queue *q)
{
    hb_client *c = hb_queue_next(q);

    if (!c)
        return 0;
    hb_queue_take(q, c);
    hb_queue_done(q, c->seen);
    return hb_queue_in_hand(q)->id;
}

static void test_a_request_keeps_what_it_points_to(void **state)
{
    (void)state;
    hb_queue *q;

    assert_int_equal(hb_queue_new(&q, 2, 1, 4, &(hb_pilot){0}, NULL), 0);
    ask(q, 7, 99, 1.5);
    assert_int_equal(serve(q), 99);
    const hb_waiting *w = hb_queue_in_hand(q);
    assert_int_equal(client_of(&w->envelope), 7);
    assert_int_equal(w->envelope.nframes, 2);
    assert_true(w->want_plan && w->budget == 0.005 && w->request.received == 1.5);
    assert_true(w->request.x[0] == 99 && w->request.x[1] == 1);
    assert_true(w->request.target[0] == 2 && w->request.target[3] == 7);
    assert_true(w->request.applied[0] == 5);
    assert_null(hb_queue_next(q));
    hb_queue_free(q);
}

static void test_the_one_in_hand_stays_while_others_are_put(void **state)
{
    (void)state;
    hb_queue *q;

    assert_int_equal(hb_queue_new(&q, 2, 1, 4, &(hb_pilot){0}, NULL), 0);
    ask(q, 1, 100, 1);
    for (uint64_t turn = 1; turn <= 5; turn++) {
        const double now = 1 + 0.01 * (double)turn;
        const uint64_t expected = serve(q);
        assert_true(expected);
        const hb_request *r = &hb_queue_in_hand(q)->request;
        const int client = expected < 200 ? 1 : 2;
        for (int i = 0; i < 3; i++) {
            ask(q, 1, 100 + turn, now);
            ask(q, 2, 200 + turn, now);
        }
        assert_true(r->x[0] == (double)expected && r->x[1] == 1);
        assert_true(r->target[0] == 2 && r->target[3] == client && r->applied[0] == 5);
    }
    hb_queue_free(q);
}

static void test_a_client_has_one_place(void **state)
{
    (void)state;
    hb_queue *q;

    assert_int_equal(hb_queue_new(&q, 2, 1, 4, &(hb_pilot){0}, NULL), 0);
    hb_client *first = ask(q, 1, 10, 1);
    assert_ptr_equal(ask(q, 1, 11, 2), first);
    assert_int_equal(serve(q), 11);
    assert_int_equal(serve(q), 0);
    hb_queue_free(q);
}

static void test_a_flood_crowds_out_only_itself(void **state)
{
    (void)state;
    hb_queue *q;
    int quiet_served = 0, flood_served = 0;
    double now = 0;

    assert_int_equal(hb_queue_new(&q, 2, 1, 4, &(hb_pilot){0}, NULL), 0);
    /* client 1 asks ten times a turn, client 2 once */
    for (int turn = 0; turn < 1000; turn++) {
        for (int i = 0; i < 10; i++)
            ask(q, 1, 1000000 + (uint64_t)turn, now += 1e-6);
        ask(q, 2, 1 + (uint64_t)turn, now += 1e-6);
        for (int i = 0; i < 2; i++) {
            uint64_t id = serve(q);
            flood_served += id >= 1000000;
            quiet_served += id && id < 1000000;
        }
    }
    assert_int_equal(quiet_served, 1000);
    assert_int_equal(flood_served, 1000);
    /* and when there is time for one only, they alternate */
    quiet_served = 0;
    for (int turn = 0; turn < 1000; turn++) {
        ask(q, 1, 1000000, now += 1e-6);
        ask(q, 2, 1, now += 1e-6);
        quiet_served += serve(q) == 1;
    }
    assert_int_equal(quiet_served, 500);
    hb_queue_free(q);
}

static void test_when_everyone_waits_a_newcomer_is_turned_away(void **state)
{
    (void)state;
    hb_queue *q;

    assert_int_equal(hb_queue_new(&q, 2, 1, 4, &(hb_pilot){0}, NULL), 0);
    for (int i = 0; i < HB_QUEUE_CLIENTS; i++)
        assert_non_null(ask(q, i, 1 + (uint64_t)i, i));
    assert_null(ask(q, 1000, 5, 100));
    /* a known client is not: it takes its own place */
    assert_non_null(ask(q, 3, 77, 100));
    assert_int_equal(hb_queue_active(q, 100, 50), HB_QUEUE_CLIENTS - 50 + 1);
    /* once one was served, its place is free */
    assert_true(serve(q) > 0);
    assert_non_null(ask(q, 1000, 5, 101));
    hb_queue_free(q);
}

static void test_the_longest_silent_makes_room(void **state)
{
    (void)state;
    hb_queue *q;

    assert_int_equal(hb_queue_new(&q, 2, 1, 4, &(hb_pilot){0}, NULL), 0);
    for (int i = 0; i < HB_QUEUE_CLIENTS; i++) {
        ask(q, i, 1, i == 5 ? 0 : 1 + i);
        serve(q);
    }
    ask(q, 1000, 2, 200);
    for (int i = 0; i < HB_QUEUE_CLIENTS; i++)
        assert_int_not_equal(client_of(&hb_queue_at(q, i)->waiting.envelope), 5);
    assert_null(hb_queue_at(q, HB_QUEUE_CLIENTS));
    hb_queue_free(q);
}

/* ---- who flies ---- */

static hb_queue *queue_with(const hb_pilot *pilot)
{
    hb_queue *q = NULL;

    assert_int_equal(hb_queue_new(&q, 2, 1, 4, pilot, NULL), 0);
    return q;
}

static void test_the_first_to_ask_flies_until_it_is_silent(void **state)
{
    (void)state;
    hb_queue *q = queue_with(&(hb_pilot){0});

    assert_true(hb_queue_flies(q, ask(q, 1, 11, 10)));
    assert_false(hb_queue_flies(q, ask(q, 2, 21, 10)));
    /* the pilot goes first, and says that it is new; the other is a guest */
    assert_int_equal(serve(q), 11);
    assert_true(hb_queue_in_hand(q)->request.fresh && !hb_queue_in_hand(q)->request.guest);
    assert_int_equal(serve(q), 21);
    assert_true(!hb_queue_in_hand(q)->request.fresh && hb_queue_in_hand(q)->request.guest);
    ask(q, 1, 12, 10.5);
    serve(q);
    assert_false(hb_queue_in_hand(q)->request.fresh);
    /* not silent for long enough */
    assert_false(hb_queue_flies(q, ask(q, 2, 22, 11.4)));
    assert_true(hb_queue_is_pilots(q, &(hb_envelope){.nframes = 1, .size = {4}, .data = {1}}, 11.4));
    assert_false(hb_queue_is_pilots(q, &(hb_envelope){.nframes = 1, .size = {4}, .data = {2}}, 11.4));
    serve(q);
    /* one that waits, or is being planned for, is not silent */
    hb_client *pilot = ask(q, 1, 13, 12);
    assert_false(hb_queue_flies(q, ask(q, 2, 23, 20)));
    hb_queue_take(q, pilot);
    assert_false(hb_queue_flies(q, ask(q, 2, 24, 30)));
    hb_queue_done(q, 31);
    assert_false(hb_queue_flies(q, ask(q, 2, 25, 32)));
    assert_true(hb_queue_flies(q, ask(q, 2, 26, 32.1)));
    assert_int_equal(serve(q), 26);
    assert_true(hb_queue_in_hand(q)->request.fresh && !hb_queue_in_hand(q)->request.guest);
    hb_queue_free(q);
}

/* Client 1 flies: twenty requests at 50 Hz. Returns the time of the next. */
static double fly_first(hb_queue *q)
{
    double now = 100;

    for (uint64_t id = 1; id <= 20; id++, now += 0.02) {
        assert_true(hb_queue_flies(q, ask(q, 1, id, now)));
        serve(q);
    }
    return now;
}

/* At 50 Hz a client that flies the next flight need not wait for a second, and one that stumbles loses nothing. */
static void test_the_seat_falls_free_after_a_few_periods(void **state)
{
    (void)state;
    hb_queue *q = queue_with(&(hb_pilot){0});
    double now = fly_first(q);

    now -= 0.02; /* of its last request */
    assert_false(hb_queue_flies(q, ask(q, 2, 21, now + 0.09)));
    serve(q);
    assert_true(hb_queue_flies(q, ask(q, 2, 22, now + 0.11)));
    serve(q);
    /* it was a pause: the seat is the old pilot's again, and stays */
    assert_true(hb_queue_flies(q, ask(q, 1, 23, now + 0.13)));
    serve(q);
    assert_true(hb_queue_in_hand(q)->request.fresh);
    assert_false(hb_queue_flies(q, ask(q, 2, 24, now + 0.14)));
    serve(q);
    assert_true(hb_queue_flies(q, ask(q, 1, 25, now + 0.15)));
    serve(q);
    /* for good: who comes back after that is a guest */
    for (uint64_t id = 26; id <= 1100; id++)
        if (ask(q, 2, id, now + 0.15 + 0.02 * (double)(id - 20)))
            serve(q);
    assert_false(hb_queue_flies(q, ask(q, 1, 1101, now + 21.8)));
    hb_queue_free(q);
}

/* A simulator resets the window and opens a client for the next flight, without a pause. */
static void test_after_a_reset_a_new_client_flies_at_once(void **state)
{
    (void)state;
    hb_queue *q = queue_with(&(hb_pilot){0});

    assert_true(hb_queue_flies(q, ask(q, 1, 1, 100)));
    serve(q);
    assert_false(hb_queue_flies(q, ask(q, 2, 2, 100.001)));
    serve(q);
    hb_queue_vacate(q, 100.002);
    /* not who was a guest before, but who comes now */
    assert_false(hb_queue_flies(q, ask(q, 2, 3, 100.003)));
    serve(q);
    assert_true(hb_queue_flies(q, ask(q, 3, 4, 100.004)));
    serve(q);
    assert_true(hb_queue_in_hand(q)->request.fresh);
    assert_false(hb_queue_flies(q, ask(q, 4, 5, 100.005)));
    serve(q);
    /* the reset was in mid-flight: the seat is the old pilot's again */
    assert_true(hb_queue_flies(q, ask(q, 1, 6, 100.02)));
    serve(q);
    hb_queue_vacate(q, 100.021);
    assert_true(hb_queue_flies(q, ask(q, 1, 7, 100.04)));
    serve(q);
    assert_false(hb_queue_flies(q, ask(q, 5, 8, 100.041)));
    serve(q);
    /* nor is it free while the pilot waits for an answer */
    ask(q, 1, 9, 100.06);
    hb_queue_vacate(q, 100.061);
    assert_false(hb_queue_flies(q, ask(q, 6, 10, 100.062)));
    hb_queue_free(q);
}

static void test_a_pilot_by_name_or_key_goes_first_and_has_a_place(void **state)
{
    (void)state;
    hb_queue *q = queue_with(&(hb_pilot){.name = "p\1\1\1"});
    const int pilot = 0x01010170;

    /* all places that guests can have are taken by such as came long ago, and new ones get a part of them only */
    for (int i = 0; i < HB_QUEUE_CLIENTS - 1; i++)
        assert_non_null(ask(q, i, 100 + (uint64_t)i, 10 * i));
    assert_null(ask(q, 1000, 5, 1000));
    assert_int_equal(hb_queue_guests(q, 1000, 1e9), HB_QUEUE_CLIENTS - 1);
    assert_true(hb_queue_flies(q, ask(q, pilot, 7, 1000)));
    assert_int_equal(serve(q), 7);
    /* again and again, however late the others are */
    for (uint64_t id = 8; id < 20; id++) {
        ask(q, pilot, id, 1000);
        assert_int_equal(serve(q), id);
    }
    assert_int_equal(serve(q), 100);
    hb_queue_free(q);

    q = queue_with(&(hb_pilot){.key = 2});
    hb_envelope e = envelope_of(1);
    assert_false(hb_queue_flies(q, hb_queue_client(q, &e, 0)));
    e = envelope_of(2);
    e.key = 1;
    assert_false(hb_queue_flies(q, hb_queue_client(q, &e, 0)));
    e = envelope_of(3);
    e.key = 2;
    assert_true(hb_queue_flies(q, hb_queue_client(q, &e, 0)));
    hb_queue_free(q);
}

/* A name is not a key: who comes with the pilot's is a guest, and has no part in what the pilot waits for. */
static void test_a_name_is_no_key(void **state)
{
    (void)state;
    hb_queue *q = queue_with(&(hb_pilot){.key = 2});
    hb_envelope own = envelope_of(3), stolen = envelope_of(3);
    const double x[2] = {0};
    const hb_action_request r = {.id = 5, .request = {.x = x, .nx = 2}};

    own.key = 2;
    stolen.key = 1;
    assert_true(hb_queue_flies(q, hb_queue_client(q, &own, 0)));
    hb_client *thief = hb_queue_client(q, &stolen, 0.3);
    assert_false(hb_queue_flies(q, thief));
    assert_false(hb_queue_flown(q, 0.3));
    hb_queue_put(q, thief, &stolen, &r, 0.1);
    hb_queue_take(q, thief);
    assert_true(hb_queue_in_hand(q)->request.guest);
    /* its answer would reach the pilot, which has the name again: it goes nowhere */
    hb_client *pilot = hb_queue_client(q, &own, 0.4);
    assert_true(hb_queue_flies(q, pilot) && hb_queue_flown(q, 0.4));
    assert_int_equal(hb_queue_in_hand(q)->envelope.nframes, 0);
    assert_null(hb_queue_next(q));
    hb_queue_free(q);
}

static void test_the_seat_is_kept_whoever_takes_it_meanwhile(void **state)
{
    (void)state;
    hb_queue *q = queue_with(&(hb_pilot){0});
    double now = fly_first(q);

    now += 0.5;
    for (int i = 0; i < 2 * HB_QUEUE_CLIENTS; i++, now += 0.01) {
        assert_non_null(ask(q, 100 + i, 1, now));
        serve(q);
    }
    /* one after the other had the seat, for a second each, and its first pilot has it again */
    now += 1;
    for (int i = 0; i < 5; i++, now += 1.2) {
        assert_true(hb_queue_flies(q, ask(q, 300 + i, 1, now)));
        serve(q);
    }
    assert_true(hb_queue_flies(q, ask(q, 1, 21, now)));
    serve(q);
    assert_false(hb_queue_flies(q, ask(q, 304, 2, now + 0.01)));
    hb_queue_free(q);
}

static void test_newcomers_have_a_part_of_the_places(void **state)
{
    (void)state;
    hb_queue *q = queue_with(&(hb_pilot){0});

    ask(q, 1, 1, 100);
    for (int i = 0; i < HB_QUEUE_NEWCOMERS; i++)
        assert_non_null(ask(q, 100 + i, 1, 100));
    assert_null(ask(q, 200, 1, 100));
    assert_non_null(ask(q, 1, 2, 100));   /* the pilot's place is its own */
    assert_non_null(ask(q, 201, 1, 102)); /* who has waited is no newcomer any more */
    hb_queue_free(q);
}

static void test_guests_go_by_deadline_and_the_first_to_come_takes_turns(void **state)
{
    (void)state;
    hb_queue *q = queue_with(&(hb_pilot){0});

    ask(q, 1, 1, 1);
    ask(q, 2, 2, 3);
    ask(q, 3, 3, 2);
    assert_int_equal(serve(q), 1);
    ask(q, 1, 4, 4);
    assert_int_equal(serve(q), 3);
    assert_int_equal(serve(q), 4);
    assert_int_equal(serve(q), 2);
    hb_queue_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_keeps_what_it_points_to),
        cmocka_unit_test(test_the_one_in_hand_stays_while_others_are_put),
        cmocka_unit_test(test_a_client_has_one_place),
        cmocka_unit_test(test_a_flood_crowds_out_only_itself),
        cmocka_unit_test(test_when_everyone_waits_a_newcomer_is_turned_away),
        cmocka_unit_test(test_the_longest_silent_makes_room),
        cmocka_unit_test(test_the_first_to_ask_flies_until_it_is_silent),
        cmocka_unit_test(test_the_seat_falls_free_after_a_few_periods),
        cmocka_unit_test(test_after_a_reset_a_new_client_flies_at_once),
        cmocka_unit_test(test_a_pilot_by_name_or_key_goes_first_and_has_a_place),
        cmocka_unit_test(test_a_name_is_no_key),
        cmocka_unit_test(test_the_seat_is_kept_whoever_takes_it_meanwhile),
        cmocka_unit_test(test_newcomers_have_a_part_of_the_places),
        cmocka_unit_test(test_guests_go_by_deadline_and_the_first_to_come_takes_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
