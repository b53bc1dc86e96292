/* Waiting is by polling, so that a rank whose peer has died can leave: mpirun then sends SIGTERM to those that are
 * left, and what does not arrive within a moment of that will not arrive any more. */
#include "train/ranks_mpi.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* as mpirun of Open MPI, of MPICH, and srun tell a process that it is one of several */
static bool is_one_of_several(void)
{
    static const char *const size[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"};

    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        if (getenv(size[i]) && atoi(getenv(size[i])) > 1)
            return true;
    return getenv("PMIX_RANK") && getenv("SLURM_STEP_NUM_TASKS") && atoi(getenv("SLURM_STEP_NUM_TASKS")) > 1;
}

#ifdef HB_WITH_MPI

#include <mpi.h>

#include "base/monotonic.h"

typedef struct mpi_ranks {
    hb_ranks ranks;
    const volatile sig_atomic_t *stop;
    double bytes;
} mpi_ranks;

static const double patience = 0.5; /* seconds after a signal */
enum { LARGEST = 1 << 30 };         /* bytes of one message */

static int wait_for(mpi_ranks *r, MPI_Request *request, int code, const char *what, int other, hb_error *err)
{
    double asked = 0;
    int done = 0;

    for (long polls = 0; code == MPI_SUCCESS && !done; polls++) {
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done || code != MPI_SUCCESS)
            break;
        if (r->stop && *r->stop) {
            asked = asked > 0 ? asked : hb_now();
            if (hb_now() - asked > patience)
                break;
        }
        if (polls > 200)
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    if (done)
        return 0;
    return other < 0 ? hb_fail(err, EPIPE, "rank %d: %s: a rank has died, or its machine cannot be reached",
                               r->ranks.rank, what)
                     : hb_fail(err, EPIPE, "rank %d: %s rank %d: it has died, or its machine cannot be reached",
                               r->ranks.rank, what, other);
}

/* in messages of at most LARGEST bytes: MPI counts with int */
static int move(mpi_ranks *r, bool receives, int other, char *data, size_t size, hb_error *err)
{
    int status = 0;

    for (size_t at = 0; at < size && !status; at += LARGEST) {
        int n = (int)(size - at < LARGEST ? size - at : LARGEST);
        MPI_Request request;
        int code = receives ? MPI_Irecv(data + at, n, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request)
                            : MPI_Isend(data + at, n, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request);
        status = wait_for(r, &request, code, receives ? "nothing comes from" : "nothing goes to", other, err);
    }
    r->bytes += (double)size;
    return status;
}

static int send_to(void *context, int to, const void *data, size_t size, hb_error *err)
{
    return move(context, false, to, (char *)(uintptr_t)data, size, err);
}

static int receive_from(void *context, int from, void *data, size_t size, hb_error *err)
{
    return move(context, true, from, data, size, err);
}

static int broadcast(void *context, void *data, size_t size, hb_error *err)
{
    mpi_ranks *r = context;
    int status = 0;

    for (size_t at = 0; at < size && !status; at += LARGEST) {
        int n = (int)(size - at < LARGEST ? size - at : LARGEST);
        MPI_Request request;
        int code = MPI_Ibcast((char *)data + at, n, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
        status = wait_for(r, &request, code, "the sum of gradients does not get round", -1, err);
    }
    r->bytes += (double)size;
    return status;
}

static int add(void *context, double *number, int n, hb_error *err)
{
    mpi_ranks *r = context;
    MPI_Request request;
    int code = MPI_Iallreduce(MPI_IN_PLACE, number, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);

    r->bytes += (double)n * sizeof *number;
    return wait_for(r, &request, code, "losses do not get round", -1, err);
}

int hb_ranks_mpi_start(hb_ranks **ret, const volatile sig_atomic_t *stop, hb_error *err)
{
    int given = 0;

    *ret = NULL;
    if (!is_one_of_several())
        return 0;
    mpi_ranks *r = calloc(1, sizeof *r);
    if (!r)
        return hb_fail(err, ENOMEM, "out of memory");
    /* threads of ours never call MPI */
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS) {
        free(r);
        return hb_fail(err, EPIPE, "MPI does not start");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    r->stop = stop;
    r->ranks = (hb_ranks){.context = r, .send = send_to, .receive = receive_from, .broadcast = broadcast, .add = add};
    MPI_Comm_rank(MPI_COMM_WORLD, &r->ranks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r->ranks.size);
    *ret = &r->ranks;
    return 0;
}

void hb_ranks_mpi_end(hb_ranks *ranks, int exit_code)
{
    if (!ranks)
        return;
    /* after a signal the others are ending too, and MPI may wait for a dead one */
    const volatile sig_atomic_t *stop = ((const mpi_ranks *)ranks->context)->stop;
    if (exit_code != 0 && stop && *stop)
        _exit(exit_code);
    if (exit_code != 0)
        MPI_Abort(MPI_COMM_WORLD, exit_code);
    MPI_Finalize();
    free(ranks->context);
}

double hb_ranks_mpi_bytes(const hb_ranks *ranks)
{
    return ranks ? ((const mpi_ranks *)ranks->context)->bytes : 0;
}

#else

int hb_ranks_mpi_start(hb_ranks **ret, const volatile sig_atomic_t *stop, hb_error *err)
{
    (void)stop;
    *ret = NULL;
    return is_one_of_several() ? hb_fail(err, ENOSYS,
                                         "started as one of several ranks, but built without MPI: install "
                                         "libopenmpi-dev and build again, or start it by itself")
                               : 0;
}

void hb_ranks_mpi_end(hb_ranks *ranks, int exit_code)
{
    (void)ranks;
    (void)exit_code;
}

double hb_ranks_mpi_bytes(const hb_ranks *ranks)
{
    (void)ranks;
    return 0;
}

#endif
