/* Ranks by MPI: those that mpirun or srun started. */
#ifndef HB_RANKS_MPI_H
#define HB_RANKS_MPI_H

#include <signal.h>

#include "train/ranks.h"

/* Joins the other ranks, when this process was started as one of several: *ret is NULL when it was not. -ENOSYS: it
 * was, but this build has no MPI. stop: set by a signal; a rank that waits for another then waits no longer. */
int hb_ranks_mpi_start(hb_ranks **ret, const volatile sig_atomic_t *stop, hb_error *err);
/* Takes leave. A failure (exit_code not 0) ends the other ranks as well, and does not return. NULL does nothing. */
void hb_ranks_mpi_end(hb_ranks *ranks, int exit_code);
/* Bytes that this rank has sent and received. */
double hb_ranks_mpi_bytes(const hb_ranks *ranks);

#endif
