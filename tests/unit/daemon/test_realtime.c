/* How threads are scheduled, as the kernel tells. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/realtime.h"

static const long short_turn = 100000; /* nanoseconds, the shortest of the kernel */

/* Nanoseconds of the calling thread's turns on a processor; 0: the kernel does not tell. */
static long turn(void)
{
    char line[256];
    long ns = 0;
    FILE *file = fopen("/proc/thread-self/sched", "r");

    while (file && fgets(line, sizeof line, file))
        sscanf(line, "se.slice : %ld", &ns);
    if (file)
        fclose(file);
    return ns;
}

typedef struct seen {
    int policy, nice;
    long turn;
} seen;

static seen look(void)
{
    return (seen){sched_getscheduler(0), getpriority(PRIO_PROCESS, (id_t)gettid()), turn()};
}

/* What threads of the daemon do, on one of their own. */
typedef struct run {
    hb_config config;
    int nice;                             /* as it begins */
    seen start, placed, slow[2], fast[2]; /* fifo: while it only prepares, and while somebody waits for it */
} run;

static void *be_planner(void *context)
{
    run *r = context;

    setpriority(PRIO_PROCESS, (id_t)gettid(), r->nice);
    r->start = look();
    hb_realtime_thread(&r->config, HB_ROLE_PLANNER, "planner");
    r->placed = look();
    for (int i = 0; i < 2; i++) {
        hb_realtime_hurry(&r->config, HB_ROLE_PLANNER, gettid(), false);
        r->slow[i] = look();
        hb_realtime_hurry(&r->config, HB_ROLE_PLANNER, gettid(), true);
        r->fast[i] = look();
    }
    return NULL;
}

static run planner(hb_scheduling scheduling, int nice)
{
    run r = {.nice = nice};
    pthread_t thread;

    r.config.realtime.scheduling = scheduling;
    r.config.realtime.server_priority = r.config.realtime.planner_priority = 1;
    assert_int_equal(pthread_create(&thread, NULL, be_planner, &r), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (!r.start.turn)
        print_message("this kernel does not tell how long turns are: only policy and niceness are tested\n");
    return r;
}

static void test_ordinary_threads_have_short_turns(void **state)
{
    const run r = planner(HB_SCHEDULING_OTHER, 0);

    (void)state;
    assert_int_equal(r.placed.policy, SCHED_OTHER);
    assert_int_equal(r.placed.turn, r.start.turn ? short_turn : 0);
}

static void test_a_thread_that_only_prepares_has_short_turns(void **state)
{
    const run r = planner(HB_SCHEDULING_FIFO, 0);

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r.slow[i].policy, SCHED_OTHER);
        assert_int_equal(r.slow[i].turn, r.start.turn ? short_turn : 0);
        assert_int_equal(r.fast[i].policy, r.placed.policy); /* fifo, where that is permitted */
    }
}

static void test_threads_stay_as_nice_as_they_were(void **state)
{
    const run other = planner(HB_SCHEDULING_OTHER, 7), fifo = planner(HB_SCHEDULING_FIFO, 7);

    (void)state;
    assert_int_equal(other.start.nice, 7);
    assert_int_equal(other.placed.nice, 7);
    assert_int_equal(fifo.slow[1].nice, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ordinary_threads_have_short_turns),
        cmocka_unit_test(test_threads_stay_as_nice_as_they_were),
        cmocka_unit_test(test_a_thread_that_only_prepares_has_short_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
