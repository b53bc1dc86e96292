#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int hb_fail(hb_error *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->code = code;
    }
    return -code;
}

int hb_fail_in(hb_error *err, const char *place, int r)
{
    if (r && err) {
        hb_error cause = *err;
        hb_fail(err, cause.code, "%s: %.400s", place, cause.text);
    }
    return r;
}

static size_t round_up(size_t n)
{
    return (n + HB_ALIGNMENT - 1) / HB_ALIGNMENT * HB_ALIGNMENT;
}

void *hb_arena_take(hb_arena *arena, size_t count, size_t size)
{
    size_t bytes;

    /* an impossible size is remembered as SIZE_MAX and refused by hb_arena_allocate */
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4 || arena->used > SIZE_MAX / 4) {
        arena->used = SIZE_MAX;
        return NULL;
    }
    void *taken = arena->base ? arena->base + arena->used : NULL;
    arena->used += round_up(bytes);
    return taken;
}

/* Asks for huge pages where the system has them: a large block then has fewer addresses to translate. */
static void prefer_large_pages(char *base, size_t size)
{
    enum { PAGE = 4096, LARGE_BLOCK = 32 << 20 };

#ifdef MADV_HUGEPAGE
    if (size >= LARGE_BLOCK) {
        const size_t before = (PAGE - (uintptr_t)base % PAGE) % PAGE;
        madvise(base + before, size - before, MADV_HUGEPAGE);
    }
#endif
}

void *hb_arena_object(hb_arena *arena, void *scratch, size_t size)
{
    void *taken = hb_arena_take(arena, 1, size);

    return taken ? taken : scratch;
}

void *hb_arena_first(const hb_arena *arena)
{
    return arena->base;
}

int hb_arena_allocate(hb_arena *arena, hb_error *err)
{
    size_t size = arena->used ? arena->used : HB_ALIGNMENT;
    char *base = size == SIZE_MAX ? NULL : aligned_alloc(HB_ALIGNMENT, size);

    if (!base)
        return hb_fail(err, ENOMEM, "out of memory (%zu bytes wanted)", size);
    prefer_large_pages(base, size);
    memset(base, 0, size);
    *arena = (hb_arena){.base = base, .size = size};
    return 0;
}
