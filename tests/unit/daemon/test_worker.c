/* The planner's thread and its priority: however threads are scheduled, who waits for it finds it raised. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/monotonic.h"
#include "process/realtime.h"
#include "server/worker.h"
#include "test_models.h"

static hb_model *model;
static hb_pool *pool;
static hb_controller *controller;

/* A scheduler that takes the processor away from whoever changes the priority of a thread, at the worst moments: just
 * before the change holds, or just after, and until a job is posted. The thread that posts is the only one that it
 * leaves alone. */
typedef struct scheduler {
    pthread_t server;
    _Atomic bool raised;
    _Atomic int lowered;  /* times */
    _Atomic bool posted;  /* the job that is waited for */
    _Atomic bool checked; /* and the test has looked at the priority */
    bool before;          /* the processor is gone before the change, else after it */
} scheduler;

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void hurry(void *context, pid_t thread, bool on)
{
    scheduler *s = context;
    const bool other = !pthread_equal(pthread_self(), s->server);

    assert_true(thread > 0);
    for (; other && s->before && !s->posted; nap())
        ;
    s->raised = on;
    s->lowered += !on;
    for (; other && !s->checked; nap())
        ;
}

static void started(void *context)
{
    (void)context;
}

static int set_up(void **state)
{
    hb_controller_settings s = hb_controller_defaults();
    hb_error err;

    (void)state;
    s.planner.horizon = 6;
    s.planner.samples = 16;
    s.planner.iterations = 10;
    s.estimator.window = 2;
    s.cost.nterms = 1;
    s.cost.term[0] =
        (hb_cost_term){.kind = HB_COST_SQUARED, .weight = 1, .terminal = 1, .nindices = 2, .index = {0, 1}};
    s.ntarget = 2;
    if (hb_test_cart(&model, &err) || hb_pool_new(&pool, 1, NULL, NULL, &err) ||
        hb_controller_new(&controller, model, &s, pool, NULL, NULL, &err))
        fail_msg("%s", err.text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hb_controller_free(controller);
    hb_pool_free(pool);
    hb_model_free(model);
    return 0;
}

static void wait_for_job(hb_worker *w)
{
    while (!hb_worker_collect(w))
        nap();
}

static void fly(bool before)
{
    scheduler s = {.server = pthread_self(), .raised = true, .before = before};
    const hb_worker_settings settings = {.controller = controller,
                                         .model = model,
                                         .clock = {.now = hb_clock_monotonic},
                                         .processor = {.now = hb_clock_monotonic},
                                         .started = started,
                                         .hurry = hurry,
                                         .context = &s};
    const double x[2] = {1, 0};
    hb_request r = {.x = x, .nx = 2, .tick = 1};
    const hb_plan_order job = {.kind = HB_JOB_COMMAND, .request = &r};
    hb_worker *w;
    hb_error err;

    if (hb_worker_new(&w, &settings, &err))
        fail_msg("%s", err.text);
    for (int k = 0; k < 50; k++) {
        s.posted = s.checked = false;
        r.time_us = 20000 * k;
        r.received = hb_now();
        r.deadline = r.received + 0.005;
        hb_worker_post(w, &job);
        wait_for_job(w);
        /* it prepares now, as an ordinary thread; and is wanted at any moment */
        for (int i = 0; i < k % 7; i++)
            nap();
        hb_worker_post(w, &job);
        s.posted = true;
        for (int i = 0; i < 5; i++, nap())
            assert_true(s.raised);
        s.checked = true;
        wait_for_job(w);
    }
    assert_true(s.lowered >= 50); /* that it is raised says something */
    s.posted = s.checked = true;
    hb_worker_free(w);
}

static void test_whoever_is_stopped_before_a_change(void **state)
{
    (void)state;
    fly(true);
}

static void test_whoever_is_stopped_after_a_change(void **state)
{
    (void)state;
    fly(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whoever_is_stopped_before_a_change),
        cmocka_unit_test(test_whoever_is_stopped_after_a_change),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
