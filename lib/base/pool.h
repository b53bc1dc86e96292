/* Fork-join over fixed parts of a piece of work. Which thread runs a part never matters to its result. */
#ifndef HB_POOL_H
#define HB_POOL_H

#include "base/base.h"

typedef struct hb_pool hb_pool;

/* nthreads >= 1 counts the caller: nthreads - 1 threads are started. `started`, unless NULL, is called on each new
 * thread (index from 1), for names, affinity and scheduling. */
int hb_pool_new(hb_pool **ret, int nthreads, void (*started)(void *context, int index), void *context, hb_error *err);
void hb_pool_free(hb_pool *p);
int hb_pool_nthreads(const hb_pool *p);

/* Calls work(context, part, thread) for every part in 0..nparts-1, on all threads, and returns when all are done. Parts
 * are begun in this order: with the largest first, threads end together.
 * thread is in 0..nthreads-1 and unique among concurrent calls, so it can index per-thread scratch. */
void hb_pool_run(hb_pool *p, int nparts, void (*work)(void *context, int part, int thread), void *context);

#endif
