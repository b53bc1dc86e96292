#include "process/throttle.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <netinet/in.h>

/* The part of an address that identifies a machine's network; its size, or 0. */
static size_t identity(const struct sockaddr *from, const uint8_t **ret)
{
    const struct sockaddr_in6 *six = (const void *)from;

    if (from->sa_family == AF_INET) {
        *ret = (const uint8_t *)&((const struct sockaddr_in *)(const void *)from)->sin_addr;
        return 4;
    }
    if (from->sa_family != AF_INET6)
        return 0;
    bool mapped = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr);
    *ret = six->sin6_addr.s6_addr + (mapped ? 12 : 0);
    return mapped ? 4 : 8;
}

static double level(const hb_bucket *b, double rate, double now)
{
    return fmax(b->level - rate * fmax(now - b->since, 0), 0);
}

bool hb_throttle_admit(hb_throttle *t, const struct sockaddr *from, double now)
{
    const uint8_t *byte = NULL;
    size_t n = identity(from, &byte);
    uint32_t hash = 2166136261u;

    if (!n)
        return true;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * 16777619u;
    hb_bucket *own = &t->address[(hash ^ hash >> 16) % HB_THROTTLE_ADDRESSES];
    double mine = level(own, HB_THROTTLE_RATE, now), all = level(&t->all, HB_THROTTLE_ALL_RATE, now);
    /* a client over its own limit must not use up the limit of all */
    if (mine + 1 > HB_THROTTLE_BURST || all + 1 > HB_THROTTLE_ALL_BURST)
        return false;
    *own = (hb_bucket){mine + 1, now};
    t->all = (hb_bucket){all + 1, now};
    return true;
}
