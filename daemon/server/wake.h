/* An eventfd by which one thread wakes another. */
#ifndef HB_WAKE_H
#define HB_WAKE_H

#include <stdint.h>
#include <unistd.h>

static inline void hb_wake(int fd)
{
    ssize_t n = write(fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)n;
}

/* Clears all wakes so far. */
static inline void hb_wake_drain(int fd)
{
    uint64_t count;
    ssize_t n = read(fd, &count, sizeof count);
    (void)n;
}

#endif
