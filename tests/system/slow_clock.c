/* Preloaded into daemon, bridge and peer: time passes SLOW_CLOCK times slower for all of them alike, so that a flight
 * in their time does not depend on how busy the machine is.
 *
 * CLOCK_MONOTONIC is divided; waiting times of poll and nanosleep are multiplied. The time of day stays as it is. */
#include <dlfcn.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static int slower(void)
{
    static int factor;

    if (factor == 0) {
        const char *text = getenv("SLOW_CLOCK");
        factor = text && atoi(text) > 0 ? atoi(text) : 1;
    }
    return factor;
}

static struct timespec of_ns(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

static int64_t to_ns(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int r = real(clock, t);
    if (r == 0 && clock == CLOCK_MONOTONIC)
        *t = of_ns(to_ns(t) / slower());
    return r;
}

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
    static int (*real)(struct pollfd *, nfds_t, int);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "poll");
    return real(fds, n, timeout > 0 ? timeout * slower() : timeout);
}

/* the same, as programs built with _FORTIFY_SOURCE call it */
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size);
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size)
{
    (void)size;
    return poll(fds, n, timeout);
}

int nanosleep(const struct timespec *wish, struct timespec *left)
{
    static int (*real)(const struct timespec *, struct timespec *);
    struct timespec longer = of_ns(to_ns(wish) * slower());

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "nanosleep");
    return real(&longer, left);
}
