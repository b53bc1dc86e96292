/* One atomic number holds the number of the present run and how many of its parts nobody has taken yet. A thread takes
 * a part by decrementing it, the first one first. The result of a part does not depend on the thread that computes it.
 * Workers wait for the next run by spinning for a short while and then sleeping. A run ends with its last part: a
 * worker that wakes up too late, on a busy machine, finds no part left, and no other thread has waited for it. Who
 * waits for a thread on the same processor, where others are taken, sleeps at once: spinning would hold it up. */
#include "base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKS_BEFORE_SLEEP = 2000 };

typedef struct worker {
    hb_pool *pool;
    int index;
    pthread_t thread;
    atomic_int cpu; /* where it took its last part; -1: none yet */
} worker;

struct hb_pool {
    int nthreads;
    int nworkers; /* started */
    worker *workers;
    void (*started)(void *context, int index);
    void *started_context;

    pthread_mutex_t lock;
    pthread_cond_t work_here, work_done;
    atomic_uint_least64_t ticket; /* number of the run << 32 | parts that nobody has taken yet */
    atomic_int unfinished;        /* parts of it */
    atomic_bool stop;
    atomic_int caller_cpu; /* where the present run was begun */

    /* of the run; only a thread that holds a part of it may read them */
    void (*work)(void *context, int part, int thread);
    void *context;
    int nparts;
};

static inline void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint32_t run_number(uint64_t ticket)
{
    return (uint32_t)(ticket >> 32);
}

/* takes parts of the present run and computes them until none is left */
static void take_parts(hb_pool *p, int thread)
{
    uint64_t ticket = atomic_load(&p->ticket);

    while ((uint32_t)ticket > 0) {
        if (!atomic_compare_exchange_weak(&p->ticket, &ticket, ticket - 1))
            continue;
        if (thread > 0)
            atomic_store(&p->workers[thread - 1].cpu, sched_getcpu());
        p->work(p->context, p->nparts - (int)(uint32_t)ticket, thread);
        if (atomic_fetch_sub(&p->unfinished, 1) == 1 && thread > 0) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->work_done);
            pthread_mutex_unlock(&p->lock);
        }
        ticket = atomic_load(&p->ticket);
    }
}

static void *run_worker(void *argument)
{
    worker *me = argument;
    hb_pool *p = me->pool;
    uint32_t seen = 0;

    if (p->started)
        p->started(p->started_context, me->index);
    for (;;) {
        const int looks = atomic_load(&p->caller_cpu) == sched_getcpu() ? 0 : LOOKS_BEFORE_SLEEP;
        for (int i = 0; i < looks && run_number(atomic_load(&p->ticket)) == seen; i++)
            relax();
        if (run_number(atomic_load(&p->ticket)) == seen) {
            pthread_mutex_lock(&p->lock);
            while (run_number(atomic_load(&p->ticket)) == seen)
                pthread_cond_wait(&p->work_here, &p->lock);
            pthread_mutex_unlock(&p->lock);
        }
        seen = run_number(atomic_load(&p->ticket));
        if (atomic_load(&p->stop))
            return NULL;
        take_parts(p, me->index);
    }
}

/* begins a run, and wakes the workers that sleep */
static void begin_run(hb_pool *p, int nparts)
{
    uint64_t run = (uint64_t)run_number(atomic_load(&p->ticket)) + 1;

    atomic_store(&p->caller_cpu, sched_getcpu());
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->unfinished, nparts);
    atomic_store(&p->ticket, run << 32 | (uint32_t)nparts);
    pthread_cond_broadcast(&p->work_here);
    pthread_mutex_unlock(&p->lock);
}

/* how often to look whether the workers are done */
static int looks_for_workers(const hb_pool *p)
{
    const int here = sched_getcpu();

    for (int i = 0; i < p->nworkers; i++)
        if (atomic_load(&p->workers[i].cpu) == here)
            return 0;
    return LOOKS_BEFORE_SLEEP;
}

int hb_pool_new(hb_pool **ret, int nthreads, void (*started)(void *context, int index), void *context, hb_error *err)
{
    if (nthreads < 1 || nthreads > 1024)
        return hb_fail(err, EINVAL, "%d threads: expected 1 to 1024", nthreads);

    hb_pool *p = calloc(1, sizeof *p + (size_t)nthreads * sizeof(worker));
    if (!p)
        return hb_fail(err, ENOMEM, "out of memory for %d threads", nthreads);
    p->nthreads = nthreads;
    p->workers = (worker *)(p + 1);
    p->started = started;
    p->started_context = context;
    atomic_store(&p->caller_cpu, -1);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work_here, NULL);
    pthread_cond_init(&p->work_done, NULL);

    for (int i = 0; i < nthreads - 1; i++) {
        worker *w = &p->workers[i];
        *w = (worker){.pool = p, .index = i + 1, .cpu = -1};
        const int code = pthread_create(&w->thread, NULL, run_worker, w);
        if (code) {
            hb_pool_free(p);
            return hb_fail(err, code, "cannot start thread %d of %d: %s", i + 2, nthreads, strerror(code));
        }
        p->nworkers++;
    }
    *ret = p;
    return 0;
}

void hb_pool_free(hb_pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    begin_run(p, 0);
    for (int i = 0; i < p->nworkers; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->work_done);
    pthread_cond_destroy(&p->work_here);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

int hb_pool_nthreads(const hb_pool *p)
{
    return p->nthreads;
}

void hb_pool_run(hb_pool *p, int nparts, void (*work)(void *context, int part, int thread), void *context)
{
    /* one part, or nobody to share with: no need to wake anyone */
    if (nparts <= 1 || p->nworkers == 0) {
        for (int part = 0; part < nparts; part++)
            work(context, part, 0);
        return;
    }
    p->work = work;
    p->context = context;
    p->nparts = nparts;
    begin_run(p, nparts);
    take_parts(p, 0);
    for (int i = 0, looks = looks_for_workers(p); i < looks && atomic_load(&p->unfinished); i++)
        relax();
    if (atomic_load(&p->unfinished)) {
        pthread_mutex_lock(&p->lock);
        while (atomic_load(&p->unfinished))
            pthread_cond_wait(&p->work_done, &p->lock);
        pthread_mutex_unlock(&p->lock);
    }
}
