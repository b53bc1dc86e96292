/* Workers wait on a generation counter: for a short while by looking, then by sleeping. Parts are handed out by an
 * atomic counter, which balances load; since a part's result does not depend on who computes it, order is free. */
#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKS_BEFORE_SLEEP = 2000 };

typedef struct worker {
    hb_pool *pool;
    int index;
    pthread_t thread;
} worker;

struct hb_pool {
    int nthreads;
    int nworkers; /* started */
    worker *workers;
    void (*started)(void *context, int index);
    void *started_context;

    pthread_mutex_t lock;
    pthread_cond_t work_here, work_done;
    atomic_uint generation; /* counts runs; a change wakes the workers */
    atomic_int busy;        /* workers that have not finished this run */
    atomic_int next;        /* part to hand out */
    atomic_bool stop;

    int nparts;
    void (*work)(void *context, int part, int thread);
    void *context;
};

static inline void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void take_parts(hb_pool *p, int thread)
{
    for (int part; (part = atomic_fetch_add(&p->next, 1)) < p->nparts;)
        p->work(p->context, part, thread);
}

static void *run_worker(void *argument)
{
    worker *me = argument;
    hb_pool *p = me->pool;
    unsigned seen = 0;

    if (p->started)
        p->started(p->started_context, me->index);
    for (;;) {
        for (int i = 0; i < LOOKS_BEFORE_SLEEP && atomic_load(&p->generation) == seen; i++)
            relax();
        if (atomic_load(&p->generation) == seen) {
            pthread_mutex_lock(&p->lock);
            while (atomic_load(&p->generation) == seen)
                pthread_cond_wait(&p->work_here, &p->lock);
            pthread_mutex_unlock(&p->lock);
        }
        seen = atomic_load(&p->generation);
        if (atomic_load(&p->stop))
            return NULL;
        take_parts(p, me->index);
        if (atomic_fetch_sub(&p->busy, 1) == 1) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->work_done);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static void wake_workers(hb_pool *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->generation, 1);
    pthread_cond_broadcast(&p->work_here);
    pthread_mutex_unlock(&p->lock);
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
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work_here, NULL);
    pthread_cond_init(&p->work_done, NULL);

    for (int i = 0; i < nthreads - 1; i++) {
        worker *w = &p->workers[i];
        *w = (worker){.pool = p, .index = i + 1};
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
    wake_workers(p);
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
    p->nparts = nparts;
    p->work = work;
    p->context = context;
    atomic_store(&p->next, 0);

    /* one part, or nobody to share with: no need to wake anyone */
    if (nparts <= 1 || p->nworkers == 0) {
        take_parts(p, 0);
        return;
    }
    atomic_store(&p->busy, p->nworkers);
    wake_workers(p);
    take_parts(p, 0);
    for (int i = 0; i < LOOKS_BEFORE_SLEEP && atomic_load(&p->busy); i++)
        relax();
    if (atomic_load(&p->busy)) {
        pthread_mutex_lock(&p->lock);
        while (atomic_load(&p->busy))
            pthread_cond_wait(&p->work_done, &p->lock);
        pthread_mutex_unlock(&p->lock);
    }
}
