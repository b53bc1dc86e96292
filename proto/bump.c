#include "bump.h"

#include <stdalign.h>
#include <string.h>

static void *take(void *context, size_t n)
{
    hb_bump *b = context;
    size_t start = (b->used + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);

    if (start > b->size || n > b->size - start)
        return NULL;
    b->used = start + n;
    return b->base + start;
}

static void give_back(void *context, void *pointer)
{
    (void)context, (void)pointer;
}

void hb_bump_start(hb_bump *b, void *block, size_t size)
{
    *b = (hb_bump){.base = block, .size = size, .allocator = {.alloc = take, .free = give_back, .allocator_data = b}};
}

void hb_bump_clear(hb_bump *b)
{
    b->used = 0;
}

void *hb_bump_take(hb_bump *b, size_t n)
{
    void *p = take(b, n);

    if (p)
        memset(p, 0, n);
    return p;
}
