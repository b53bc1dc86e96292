/* Processes on one or many machines that train one model together. Every rank has the same parameters; the functions of
 * a step are shared among them, and gradients are added up by a fixed binary tree over parts of the step (trainer.h).
 *
 * What moves the messages is behind this interface, so that the trainer knows nothing of MPI; a run without ranks has
 * none. Each operation returns 0 or a negative errno, with the rank that did not answer in err. */
#ifndef HB_RANKS_H
#define HB_RANKS_H

#include <stdbool.h>

#include "base/base.h"

typedef struct hb_ranks {
    int rank, size;
    void *context;
    int (*send)(void *context, int to, const void *data, size_t size, hb_error *err);
    int (*receive)(void *context, int from, void *data, size_t size, hb_error *err);
    /* from rank 0 to all */
    int (*broadcast)(void *context, void *data, size_t size, hb_error *err);
    /* sums over ranks; every number is zero on all ranks but one, so that the order does not matter */
    int (*add)(void *context, double *number, int n, hb_error *err);
} hb_ranks;

/* ranks may be NULL: there is one. */
static inline int hb_ranks_size(const hb_ranks *ranks)
{
    return ranks ? ranks->size : 1;
}

static inline bool hb_ranks_first(const hb_ranks *ranks)
{
    return !ranks || ranks->rank == 0;
}

#endif
