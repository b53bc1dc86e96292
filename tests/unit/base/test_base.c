#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"

static void test_fail_fills_text_and_returns_code(void **state)
{
    (void)state;
    hb_error err = {0};

    assert_int_equal(hb_fail(&err, EINVAL, "%s: %d states, expected %d", "f", 3, 4), -EINVAL);
    assert_int_equal(err.code, EINVAL);
    assert_string_equal(err.text, "f: 3 states, expected 4");
    assert_int_equal(hb_fail(NULL, ENOENT, "nobody listens"), -ENOENT);
}

static void test_fail_in_names_the_place(void **state)
{
    (void)state;
    hb_error err = {.text = "untouched"};

    assert_int_equal(hb_fail_in(&err, "file", 0), 0);
    assert_string_equal(err.text, "untouched");
    assert_int_equal(hb_fail_in(&err, "file", hb_fail(&err, EDOM, "too %s", "large")), -EDOM);
    assert_int_equal(err.code, EDOM);
    assert_string_equal(err.text, "file: too large");
    assert_int_equal(hb_fail_in(NULL, "file", -EIO), -EIO);
}

static void test_arena_hands_out_disjoint_aligned_zeroed_pieces(void **state)
{
    (void)state;
    hb_arena arena = {0};

    for (int round = 0; round < 2; round++) {
        char *a = hb_arena_take(&arena, 3, 5);
        double *b = hb_arena_take(&arena, 7, sizeof *b);
        if (round == 0) {
            assert_null(a);
            assert_null(b);
            assert_int_equal(hb_arena_allocate(&arena, NULL), 0);
        } else {
            assert_int_equal((uintptr_t)a % HB_ALIGNMENT, 0);
            assert_int_equal((uintptr_t)b % HB_ALIGNMENT, 0);
            assert_true((char *)b >= a + 15);
            assert_true((char *)(b + 7) <= arena.base + arena.size);
            for (int i = 0; i < 7; i++)
                assert_true(b[i] == 0);
        }
    }
    free(arena.base);
}

typedef struct thing {
    double *x;
    int n;
} thing;

static thing *lay_out(int n, hb_arena *arena)
{
    thing none = {0}, *t = hb_arena_object(arena, &none, sizeof none);

    t->n = n;
    t->x = hb_arena_take(arena, (size_t)n, sizeof *t->x);
    return hb_arena_first(arena);
}

static void test_arena_lays_an_object_out_twice_by_the_same_lines(void **state)
{
    (void)state;
    hb_arena arena = {0};

    assert_null(lay_out(1000, &arena));
    assert_int_equal(hb_arena_allocate(&arena, NULL), 0);
    thing *t = lay_out(1000, &arena);
    assert_ptr_equal(t, arena.base);
    assert_int_equal(t->n, 1000);
    assert_true((char *)t->x >= (char *)(t + 1));
    assert_true((char *)(t->x + t->n) <= arena.base + arena.size);
    free(t);
}

static void test_arena_refuses_impossible_sizes(void **state)
{
    (void)state;
    hb_arena arena = {0};
    hb_error err = {0};

    hb_arena_take(&arena, SIZE_MAX / 2, 8);
    hb_arena_take(&arena, 1, 8);
    assert_int_equal(hb_arena_allocate(&arena, &err), -ENOMEM);
    assert_non_null(strstr(err.text, "out of memory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail_fills_text_and_returns_code),
        cmocka_unit_test(test_fail_in_names_the_place),
        cmocka_unit_test(test_arena_hands_out_disjoint_aligned_zeroed_pieces),
        cmocka_unit_test(test_arena_lays_an_object_out_twice_by_the_same_lines),
        cmocka_unit_test(test_arena_refuses_impossible_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
