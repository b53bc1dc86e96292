/* The target in memory that outlives the process: whole, or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "process/kept_target.h"
#include "test_models.h"

static hb_model *cart, *quadrotor;

static int set_up(void **state)
{
    hb_error err;

    (void)state;
    if (hb_test_cart(&cart, &err) || hb_test_quadrotor(&quadrotor, 2, 8, &err))
        fail_msg("%s", err.text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hb_model_free(cart);
    hb_model_free(quadrotor);
    return 0;
}

static hb_kept_target some(double x)
{
    return (hb_kept_target){.n = 2, .target = {x, -x}, .nfile = 2, .file = {1, 0}, .since = 1e9 + x, .by = "ground"};
}

static void test_the_newest_is_kept(void **state)
{
    (void)state;
    char *memory = calloc(1, hb_kept_target_size());
    hb_kept_target got;

    assert_false(hb_kept_target_load(memory, cart, &got));
    for (int k = 1; k <= 5; k++) {
        const hb_kept_target t = some(k);
        hb_kept_target_save(memory, cart, &t);
        assert_true(hb_kept_target_load(memory, cart, &got));
        assert_true(got.n == 2 && got.target[0] == k && got.target[1] == -k && got.nfile == 2 && got.file[0] == 1 &&
                    got.since == 1e9 + k);
        assert_string_equal(got.by, "ground");
    }
    assert_false(hb_kept_target_load(memory, quadrotor, &got)); /* another vehicle's */
    const hb_kept_target none = {0};
    hb_kept_target_save(memory, cart, &none);
    assert_false(hb_kept_target_load(memory, cart, &got));
    free(memory);
}

/* Killed after any number of bytes of a write, it has the target from before or the new one. Any byte that is damaged
 * costs that target alone. */
static void test_a_write_that_was_not_ended(void **state)
{
    (void)state;
    const size_t size = hb_kept_target_size();
    char *before = calloc(1, size), *after = calloc(1, size), *memory = calloc(1, size);
    const hb_kept_target one = some(1), two = some(2), three = some(3);
    int old = 0, lost = 0;
    hb_kept_target got;

    hb_kept_target_save(before, cart, &one);
    hb_kept_target_save(before, cart, &two);
    memcpy(after, before, size);
    hb_kept_target_save(after, cart, &three);
    for (size_t k = 0; k <= size; k++) {
        memcpy(memory, before, size);
        memcpy(memory, after, k);
        assert_true(hb_kept_target_load(memory, cart, &got));
        assert_true(got.target[0] == 2 || got.target[0] == 3);
        old += got.target[0] == 2;
    }
    assert_true(old > 0 && old < (int)size);
    for (size_t k = 0; k < size; k++) {
        memcpy(memory, after, size);
        memory[k] ^= 0x10;
        const bool found = hb_kept_target_load(memory, cart, &got);
        assert_true(!found || got.target[0] == 2 || got.target[0] == 3);
        lost += !found || got.target[0] == 2;
    }
    assert_true(lost > 0);
    free(before);
    free(after);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_newest_is_kept),
        cmocka_unit_test(test_a_write_that_was_not_ended),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
