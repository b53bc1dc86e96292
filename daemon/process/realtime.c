#include "process/realtime.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "base/turns.h"

static int set_scheduling(const hb_config *c, hb_role role, hb_error *err)
{
    struct sched_param p = {.sched_priority =
                                role == HB_ROLE_SERVER ? c->realtime.server_priority : c->realtime.planner_priority};

    if (c->realtime.scheduling != HB_SCHEDULING_FIFO)
        return 0;
    int why = pthread_setschedparam(pthread_self(), SCHED_FIFO, &p);
    if (why)
        return hb_fail(err, why, "realtime.scheduling: fifo with priority %d: %s (give CAP_SYS_NICE or LimitRTPRIO=%d)",
                       p.sched_priority, strerror(why), p.sched_priority);
    return 0;
}

void hb_realtime_hurry(const hb_config *c, hb_role role, pid_t thread, bool on)
{
    const int wanted = role == HB_ROLE_SERVER ? c->realtime.server_priority : c->realtime.planner_priority;
    const struct sched_param p = {.sched_priority = on ? wanted : 0};

    /* Where this is not permitted, the thread never had a priority, so failing changes nothing. Not
     * pthread_setschedparam, which holds a lock: a thread that lowers its own priority may be preempted while it holds
     * it, and whoever wants to raise the priority again would wait for that lock. */
    if (c->realtime.scheduling == HB_SCHEDULING_FIFO)
        sched_setscheduler(thread, on ? SCHED_FIFO : SCHED_OTHER, &p);
}

static int set_cpus(const hb_config *c, hb_role role, hb_error *err)
{
    const hb_cpus *cpus = role == HB_ROLE_SERVER ? &c->realtime.server_cpus : &c->realtime.planner_cpus;
    cpu_set_t set;

    if (!cpus->n)
        return 0;
    CPU_ZERO(&set);
    for (int i = 0; i < cpus->n; i++)
        CPU_SET((size_t)cpus->at[i], &set);
    int why = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    if (why)
        return hb_fail(err, why, "realtime.%s_cpus: %s (are there such processors?)",
                       role == HB_ROLE_SERVER ? "server" : "planner", strerror(why));
    return 0;
}

void hb_realtime_thread(const hb_config *c, hb_role role, const char *name)
{
    pthread_setname_np(pthread_self(), name);
    hb_turns_shorten(0); /* for as long as it is an ordinary thread; a priority is not affected */
    set_scheduling(c, role, NULL);
    set_cpus(c, role, NULL);
}

void hb_realtime_aside(const char *name)
{
    enum { NICE = 10 };

    pthread_setname_np(pthread_self(), name);
    /* on Linux a thread has a niceness of its own; without it the thread is like any other */
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
}

static int lock_memory(const hb_config *c, hb_error *err)
{
    /* on fault: what is used is touched before READY, and the unused parts of stacks and libraries stay out */
    if (c->realtime.lock_memory && mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
        return hb_fail(err, errno, "realtime.lock_memory: %s (give CAP_IPC_LOCK or LimitMEMLOCK=infinity)",
                       strerror(errno));
    return 0;
}

static int keep_awake(const hb_config *c, hb_error *err)
{
    static const char device[] = "/dev/cpu_dma_latency";
    const int32_t longest = 0; /* microseconds that a processor may take to wake */

    if (!c->realtime.keep_awake)
        return 0;
    int fd = open(device, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return hb_fail(err, errno,
                       "realtime.keep_awake: %s: %s (make it this user's; the drop-in keep-awake.conf does)", device,
                       strerror(errno));
    if (write(fd, &longest, sizeof longest) != sizeof longest) {
        int why = errno;
        close(fd);
        return hb_fail(err, why, "realtime.keep_awake: %s: %s", device, strerror(why));
    }
    /* stays open: the setting holds as long as the file is, and closes with the process */
    return 0;
}

/* 0 unless the configuration requires it. */
static int give_up(const hb_config *c, hb_log *log, const hb_error *err)
{
    if (c->realtime.required)
        return -err->code;
    hb_log_line(log, HB_LOG_WARNING, "%s: going on without", err->text);
    return 0;
}

int hb_realtime_start(hb_config *c, hb_log *log, hb_error *err)
{
    cpu_set_t cpus;
    struct sched_param param;
    int policy, r = 0;

    /* on this thread, which is then left as it was */
    pthread_getschedparam(pthread_self(), &policy, &param);
    pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus);
    for (int role = HB_ROLE_SERVER; role <= HB_ROLE_PLANNER && !r; role++) {
        if (set_scheduling(c, (hb_role)role, err)) {
            r = give_up(c, log, err);
            c->realtime.scheduling = HB_SCHEDULING_OTHER;
        }
        if (!r && set_cpus(c, (hb_role)role, err)) {
            r = give_up(c, log, err);
            *(role == HB_ROLE_SERVER ? &c->realtime.server_cpus : &c->realtime.planner_cpus) = (hb_cpus){0};
        }
    }
    pthread_setschedparam(pthread_self(), policy, &param);
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    if (!r && lock_memory(c, err))
        r = give_up(c, log, err);
    if (!r && keep_awake(c, err))
        r = give_up(c, log, err);
    return r;
}

double hb_clock_monotonic(void *context)
{
    (void)context;
    return hb_now();
}

double hb_clock_processor(void *context)
{
    (void)context;
    return hb_clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

double hb_clock_wall(void *context)
{
    (void)context;
    return hb_clock_seconds(CLOCK_REALTIME);
}
