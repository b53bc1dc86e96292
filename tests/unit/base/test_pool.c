#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "base/pool.h"

enum { PARTS = 50 };

typedef struct tally {
    atomic_int done[PARTS];
    atomic_int in_use[8]; /* by thread index: never more than one at a time */
    atomic_int clashes;
    atomic_int next[8]; /* by thread index: behind the last part it had */
    atomic_int disorder;
} tally;

static void count(void *context, int part, int thread)
{
    tally *t = context;
    if (atomic_fetch_add(&t->in_use[thread], 1) != 0)
        atomic_fetch_add(&t->clashes, 1);
    if (atomic_exchange(&t->next[thread], part + 1) > part)
        atomic_fetch_add(&t->disorder, 1);
    atomic_fetch_add(&t->done[part], 1);
    atomic_fetch_sub(&t->in_use[thread], 1);
}

static void test_every_part_runs_once_in_order(void **state)
{
    (void)state;
    for (int nthreads = 1; nthreads <= 8; nthreads++) {
        hb_pool *p;
        assert_int_equal(hb_pool_new(&p, nthreads, NULL, NULL, NULL), 0);
        assert_int_equal(hb_pool_nthreads(p), nthreads);
        for (int run = 0; run < 500; run++) {
            tally t = {0};
            const int nparts = run % (PARTS + 1);
            hb_pool_run(p, nparts, count, &t);
            for (int i = 0; i < PARTS; i++)
                assert_int_equal(atomic_load(&t.done[i]), i < nparts);
            assert_int_equal(atomic_load(&t.clashes), 0);
            assert_int_equal(atomic_load(&t.disorder), 0);
        }
        hb_pool_free(p);
    }
}

static void note_start(void *context, int index)
{
    atomic_fetch_or((atomic_int *)context, 1 << index);
}

static void test_started_is_called_on_each_new_thread(void **state)
{
    (void)state;
    atomic_int seen = 0;
    hb_pool *p;
    assert_int_equal(hb_pool_new(&p, 4, note_start, &seen, NULL), 0);
    hb_pool_free(p);
    assert_int_equal(atomic_load(&seen), 2 + 4 + 8);
}

static void wait_for_leave(void *context, int index)
{
    (void)index;
    while (!atomic_load((atomic_bool *)context))
        sched_yield();
}

/* threads that come late, or never, hold nothing up */
static void test_a_late_thread_is_not_waited_for(void **state)
{
    (void)state;
    atomic_bool may_leave = false;
    hb_pool *p;

    assert_int_equal(hb_pool_new(&p, 3, wait_for_leave, &may_leave, NULL), 0);
    for (int run = 0; run < 3; run++) {
        tally t = {0};
        hb_pool_run(p, PARTS, count, &t);
        for (int i = 0; i < PARTS; i++)
            assert_int_equal(atomic_load(&t.done[i]), 1);
    }
    atomic_store(&may_leave, true);
    for (int run = 0; run < 1000; run++) {
        tally t = {0};
        hb_pool_run(p, 2 + run % 5, count, &t);
        for (int i = 0; i < PARTS; i++)
            assert_int_equal(atomic_load(&t.done[i]), i < 2 + run % 5);
        assert_int_equal(atomic_load(&t.clashes), 0);
    }
    hb_pool_free(p);
}

static void test_bad_sizes_are_refused(void **state)
{
    (void)state;
    hb_error err;
    hb_pool *p = NULL;
    assert_int_equal(hb_pool_new(&p, 0, NULL, NULL, &err), -EINVAL);
    assert_string_equal(err.text, "0 threads: expected 1 to 1024");
    assert_null(p);
    hb_pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_part_runs_once_in_order),
        cmocka_unit_test(test_started_is_called_on_each_new_thread),
        cmocka_unit_test(test_a_late_thread_is_not_waited_for),
        cmocka_unit_test(test_bad_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
