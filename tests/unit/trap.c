#include "trap.h"

#include <stdatomic.h>
#include <stddef.h>

static atomic_long allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_aligned_alloc(alignment, size);
}

long trap_allocations(void)
{
    return atomic_load(&allocations);
}
