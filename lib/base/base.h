/* Errors, memory and the number type: what every other module stands on. */
#ifndef HB_BASE_H
#define HB_BASE_H

#include <stddef.h>
#include <stdint.h>

/* The number type of networks and batches. The product is built with float; the tests build the library a second
 * time with double, so that the same source can be held against finite differences to 1e-7. */
#ifdef HB_DOUBLE
typedef double hb_real;
#else
typedef float hb_real;
#endif

/* Set-up errors: text for a person, code is an errno value. Functions that can fail return 0 or -code and leave
 * their outputs untouched on failure: `return hb_fail(err, EINVAL, "%s: %d states, expected %d", ...)`. */
typedef struct hb_error {
    int code;
    char text[512];
} hb_error;

/* Fills *err (which may be NULL) and returns -code. */
int hb_fail(hb_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "place: " before the text of a failure r that a callee has reported, and returns r; 0 stays 0:
 * `return hb_fail_in(err, path, check(..., err))`. */
int hb_fail_in(hb_error *err, const char *place, int r);

/* One block of memory per object. A constructor lays its object out twice with the same function: once with an
 * empty arena, which only measures, and once on the block that hb_arena_allocate then provides (zeroed, aligned).
 *
 *     hb_arena arena = {0};
 *     lay_out(&sizes, &arena);
 *     if (hb_arena_allocate(&arena, err)) ...
 *     object = lay_out(&sizes, &arena);
 */
typedef struct hb_arena {
    char *base;  /* NULL while measuring */
    size_t used; /* bytes taken so far */
    size_t size; /* bytes in the block */
} hb_arena;

enum { HB_ALIGNMENT = 64 };

/* The next `count` elements of `size` bytes, aligned to HB_ALIGNMENT; NULL while measuring. */
void *hb_arena_take(hb_arena *arena, size_t count, size_t size);

/* The object itself, with which a lay-out begins; while measuring, a scratch one in its place, so that the same lines
 * serve both times. The lay-out returns hb_arena_first:
 *
 *     hb_thing none = {0}, *t = hb_arena_object(arena, &none, sizeof none);
 *     t->x = hb_arena_take(arena, nx, sizeof *t->x);
 *     return hb_arena_first(arena);
 */
void *hb_arena_object(hb_arena *arena, void *scratch, size_t size);
/* What was taken first; NULL while measuring. */
void *hb_arena_first(const hb_arena *arena);

/* Allocates what was measured and starts over. Free the block with free(arena->base). */
int hb_arena_allocate(hb_arena *arena, hb_error *err);

#endif
