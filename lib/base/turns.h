/* Short turns on a processor, for programs. Nothing in lib/ calls this.
 *
 * Linux's fair scheduler (EEVDF) gives ordinary threads the same share of a processor, in turns; from Linux 6.12 on a
 * thread may ask for turns of its own length, without any permission. With short ones it is let in soon after it wakes,
 * also beside busy threads, and makes way as soon for others that wake; its share stays what it was. On older kernels
 * nothing changes. */
#ifndef HB_TURNS_H
#define HB_TURNS_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HB_SHORT_TURN_NS = 100000 }; /* the shortest that the kernel gives */

/* sched_attr of the kernel, in its first version; C libraries before glibc 2.41 don't have it. */
typedef struct hb_turns {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; /* nanoseconds of a turn; as read: 0 where the kernel does not tell */
    uint64_t deadline, period;
} hb_turns;

_Static_assert(sizeof(hb_turns) == 48, "SCHED_ATTR_SIZE_VER0");

/* Makes a thread (0: the calling one) an ordinary one with short turns, as nice as it was. Returns 0 or -errno. */
static inline int hb_turns_shorten(pid_t thread)
{
    const hb_turns t = {.size = sizeof t,
                        .policy = SCHED_OTHER,
                        .nice = getpriority(PRIO_PROCESS, (id_t)thread),
                        .runtime = HB_SHORT_TURN_NS};

    return syscall(SYS_sched_setattr, thread, &t, 0) ? -errno : 0;
}

/* Threads that are started between the two have short turns, where the calling thread is an ordinary one, which has its
 * own again after it; else, and where it cannot be had, they are scheduled as the calling one is. */
static inline void hb_turns_begin_short(hb_turns *ret_own)
{
    const bool ordinary =
        syscall(SYS_sched_getattr, 0, ret_own, sizeof *ret_own, 0) == 0 && ret_own->policy == SCHED_OTHER;

    if (!ordinary || hb_turns_shorten(0))
        ret_own->size = 0;
}

static inline void hb_turns_end_short(const hb_turns *own)
{
    if (own->size)
        syscall(SYS_sched_setattr, 0, own, 0);
}

#endif
