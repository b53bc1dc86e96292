#include "process/process_limits.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "process/throttle.h"

enum {
    DESCRIPTORS = 128,     /* a daemon with a few clients takes less than half of them */
    OTHER_THREADS = 4,     /* server, planner, and two of libzmq */
    MOST_THREADS = 64 + 4, /* planner.threads, and the others */
    ADDRESSES_MB = 384,    /* below, OpenBLAS may look for memory without end */
};

/* Runs before the constructors of shared libraries, because OpenBLAS's would loop without end. Only system calls work
 * this early. */
static void look_at_addresses(void)
{
    static const char text[] = "hilbertd: the address space is limited to less than 384 MB (RLIMIT_AS; ulimit -v, "
                               "LimitAS= of the unit): too little to start\n";
    struct rlimit limit;

    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < (rlim_t)ADDRESSES_MB << 20) {
        ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
        (void)n;
        _exit(1);
    }
}

__attribute__((section(".preinit_array"), used)) static void (*const first_of_all)(void) = look_at_addresses;

/* That this process may have. */
static int most_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > INT_MAX)
        return INT_MAX;
    return (int)limit.rlim_cur;
}

/* ---- descriptors for connections ---- */

/* libzmq accepts connections through these two functions, and aborts when no descriptor is left for one. So the last
 * descriptors are kept for other uses, and connections that would need them are closed at once. */
enum { KEPT_BACK = 64 };

/* libzmq has no place for a context of ours in them: these belong to the process, as its descriptors do. */
static struct {
    pthread_mutex_t lock;
    hb_throttle throttle;
    _Atomic bool crowded, flooded;
} connections = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_admitted(const struct sockaddr *from)
{
    pthread_mutex_lock(&connections.lock);
    bool admitted = hb_throttle_admit(&connections.throttle, from, hb_now());
    pthread_mutex_unlock(&connections.lock);
    return admitted;
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    int accepted = (int)syscall(SYS_accept4, fd, address, size, flags);

    if (accepted < 0)
        return accepted;
    bool crowded = accepted >= most_descriptors() - KEPT_BACK;
    if (!crowded && (!address || is_admitted(address)))
        return accepted;
    atomic_store(crowded ? &connections.crowded : &connections.flooded, true);
    close(accepted);
    errno = ECONNABORTED;
    return -1;
}

bool hb_limits_crowded(void)
{
    return atomic_exchange(&connections.crowded, false);
}

bool hb_limits_flooded(void)
{
    return atomic_exchange(&connections.flooded, false);
}

int accept(int fd, struct sockaddr *address, socklen_t *size)
{
    return accept4(fd, address, size, 0);
}

/* ---- at the start ---- */

static void *stay(void *context)
{
    sem_wait(context);
    return NULL;
}

/* Starts so many threads, and ends them. Returns how many there were. */
static int try_threads(int n)
{
    pthread_t thread[MOST_THREADS];
    sem_t end;
    int started = 0;

    if (sem_init(&end, 0, 0))
        return n;
    while (started < n && pthread_create(&thread[started], NULL, stay, &end) == 0)
        started++;
    for (int i = 0; i < started; i++)
        sem_post(&end);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    sem_destroy(&end);
    return started;
}

int hb_limits_raise(int planner_threads, hb_error *err)
{
    struct rlimit limit;
    int wanted = planner_threads - 1 + OTHER_THREADS;

    /* where the sandbox forbids it, the unit has set it */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (most_descriptors() < DESCRIPTORS)
        return hb_fail(
            err, EMFILE,
            "this process may have %d file descriptors, and needs %d (RLIMIT_NOFILE; ulimit -n, LimitNOFILE= "
            "of the unit)",
            most_descriptors(), DESCRIPTORS);
    int started = try_threads(wanted);
    if (started < wanted)
        return hb_fail(
            err, EAGAIN,
            "this process may start %d threads, and needs %d (RLIMIT_NPROC; ulimit -u, TasksMax= of the unit, "
            "or planner.threads)",
            started, wanted);
    return 0;
}
