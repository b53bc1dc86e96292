#include "process/message_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int hb_message_ring_new(hb_message_ring *r, size_t largest)
{
    *r = (hb_message_ring){.bytes = calloc(1, HB_MESSAGE_RING), .largest = largest};
    return r->bytes ? 0 : -ENOMEM;
}

void hb_message_ring_free(hb_message_ring *r)
{
    free(r->bytes);
}

static void copy_in(hb_message_ring *r, uint64_t at, const void *data, size_t size)
{
    size_t from = at % HB_MESSAGE_RING, part = size < HB_MESSAGE_RING - from ? size : HB_MESSAGE_RING - from;

    if (part)
        memcpy(r->bytes + from, data, part);
    if (size > part)
        memcpy(r->bytes, (const uint8_t *)data + part, size - part);
}

static void copy_out(const hb_message_ring *r, uint64_t at, void *to, size_t size)
{
    size_t from = at % HB_MESSAGE_RING, part = size < HB_MESSAGE_RING - from ? size : HB_MESSAGE_RING - from;

    memcpy(to, r->bytes + from, part);
    if (size > part)
        memcpy((uint8_t *)to + part, r->bytes, size - part);
}

static uint64_t padded(uint64_t size)
{
    return (size + 7) & ~UINT64_C(7);
}

bool hb_message_ring_put(hb_message_ring *r, const hb_ring_message *m, const void *a, size_t na, const void *b)
{
    uint64_t in = atomic_load_explicit(&r->in, memory_order_relaxed),
             out = atomic_load_explicit(&r->out, memory_order_acquire), needed = sizeof *m + padded(m->size);

    if (m->size > r->largest || needed > HB_MESSAGE_RING - (in - out))
        return false;
    copy_in(r, in, m, sizeof *m);
    copy_in(r, in + sizeof *m, a, na);
    copy_in(r, in + sizeof *m + na, b, m->size - na);
    atomic_store_explicit(&r->in, in + needed, memory_order_release);
    return true;
}

bool hb_message_ring_take(hb_message_ring *r, hb_ring_message *ret, void *data)
{
    uint64_t out = atomic_load_explicit(&r->out, memory_order_relaxed);

    if (out == atomic_load_explicit(&r->in, memory_order_acquire))
        return false;
    copy_out(r, out, ret, sizeof *ret);
    copy_out(r, out + sizeof *ret, data, ret->size);
    atomic_store_explicit(&r->out, out + sizeof *ret + padded(ret->size), memory_order_release);
    return true;
}
