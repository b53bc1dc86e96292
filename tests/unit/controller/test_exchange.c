/* What passes between the threads is whole, in turn, and never waits: snapshots one way, answers the other. */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "controller/exchange.h"

enum { NC = 500, NU = 2, SEEN = 500 };

typedef struct fixture {
    hb_arena arena;
    hb_exchange *e;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    const hb_model m = {.nx = 3, .nu = NU, .nb = NC};
    hb_exchange none = {0};

    f = (fixture){0};
    hb_arena_object(&f.arena, &none, sizeof none);
    hb_exchange_lay_out(&none, &m, &f.arena);
    assert_int_equal(hb_arena_allocate(&f.arena, NULL), 0);
    f.e = hb_arena_object(&f.arena, &none, sizeof none);
    hb_exchange_lay_out(f.e, &m, &f.arena);
    hb_exchange_init(f.e);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    free(((fixture *)*state)->arena.base);
    return 0;
}

static void publish(hb_exchange *e)
{
    hb_snapshot *s = hb_exchange_fill(e);

    s->nsent = s->number;
    for (int i = 0; i < NC; i++)
        s->coefficient[i] = (hb_real)(s->number % 1000);
    for (int i = 0; i < NU; i++)
        s->report[i] = (double)s->number;
    hb_exchange_publish(e);
}

static void check_whole(const hb_snapshot *s)
{
    if (s->nsent != s->number)
        fail_msg("snapshot %u has a part of snapshot %u", (unsigned)s->number, (unsigned)s->nsent);
    for (int i = 0; i < NU; i++)
        assert_true(s->report[i] == (double)s->number);
    for (int i = 0; i < NC; i++)
        if (s->coefficient[i] != (hb_real)(s->number % 1000))
            fail_msg("coefficient %d of snapshot %u", i, (unsigned)s->number);
}

static void test_the_newest_snapshot_is_taken(void **state)
{
    hb_exchange *e = ((fixture *)*state)->e;

    assert_int_equal(hb_exchange_newest(e)->number, 0);
    for (int i = 0; i < 3; i++)
        publish(e);
    assert_int_equal(hb_exchange_newest(e)->number, 3);
    check_whole(hb_exchange_newest(e));
    /* and stays while nothing comes, and while newer ones are filled */
    const hb_snapshot *held = hb_exchange_newest(e);
    for (int i = 0; i < 10; i++) {
        publish(e);
        check_whole(held);
        assert_int_equal(held->number, 3);
    }
    assert_int_equal(hb_exchange_newest(e)->number, 13);
}

typedef struct writer {
    hb_exchange *e;
    atomic_bool stop;
} writer;

static void *publish_for_ever(void *context)
{
    writer *w = context;

    while (!atomic_load(&w->stop))
        publish(w->e);
    return NULL;
}

static void test_snapshots_are_whole_and_in_turn_across_threads(void **state)
{
    hb_exchange *e = ((fixture *)*state)->e;
    writer w = {.e = e};
    pthread_t thread;
    uint64_t last = 0;
    int seen = 0;

    publish(e);
    assert_int_equal(pthread_create(&thread, NULL, publish_for_ever, &w), 0);
    /* however long the other thread takes to be let run: with nothing new, this one makes room for it */
    while (seen < SEEN) {
        const hb_snapshot *s = hb_exchange_newest(e);
        if (s->number == last) {
            sched_yield();
            continue;
        }
        assert_true(s->number > last);
        check_whole(s);
        last = s->number;
        seen++;
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(hb_exchange_newest(e)->number, e->snapshots);
}

static void test_answers_are_heard_in_turn_and_the_last_are_dropped(void **state)
{
    hb_exchange *e = ((fixture *)*state)->e;
    int64_t in = 0, out = 0;

    assert_null(hb_exchange_first_answer(e));
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 7; i++, in++)
            hb_exchange_answer(e, in, (double[]){(double)in, -(double)in}, NU);
        for (int i = 0; i < 7; i++, out++) {
            const hb_answered *a = hb_exchange_first_answer(e);
            assert_non_null(a);
            assert_true(a->from_us == out && a->u[0] == (double)out && a->u[1] == -(double)out);
            hb_exchange_answer_heard(e);
        }
    }
    for (int64_t i = 0; i < HB_ANSWERS + 5; i++)
        hb_exchange_answer(e, i, (double[]){0, 0}, NU);
    for (int64_t i = 0; i < HB_ANSWERS; i++) {
        assert_non_null(hb_exchange_first_answer(e));
        assert_int_equal(hb_exchange_first_answer(e)->from_us, i);
        hb_exchange_answer_heard(e);
    }
    assert_null(hb_exchange_first_answer(e));
}

static void test_a_replay_hears_as_many_as_were_heard(void **state)
{
    hb_exchange *e = ((fixture *)*state)->e;

    for (int64_t i = 0; i < 3; i++)
        hb_exchange_answer(e, i, (double[]){0, 0}, NU);
    e->hear_until = 1;
    assert_non_null(hb_exchange_first_answer(e));
    hb_exchange_answer_heard(e);
    assert_null(hb_exchange_first_answer(e));
    e->hear_until = 3;
    assert_int_equal(hb_exchange_first_answer(e)->from_us, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_newest_snapshot_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_snapshots_are_whole_and_in_turn_across_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_answers_are_heard_in_turn_and_the_last_are_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_replay_hears_as_many_as_were_heard, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
