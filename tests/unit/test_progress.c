#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/progress.h"

static const char *const note = "loss 1.23e-02, 1-step 1.2e-03, 10-step 2.3e-02, 33.3/s";

static void the_line_of_a_training_fits_80_columns(void **state)
{
    char text[256];
    (void)state;

    assert_true(hb_progress_line(text, sizeof text, "train", 0.34, 100, note, 0) < 80);
    assert_string_equal(text, "train 34 %, 3:14 left, loss 1.23e-02, 1-step 1.2e-03, 10-step 2.3e-02, 33.3/s");
}

static void a_line_is_cut_to_the_terminal(void **state)
{
    char text[256];
    (void)state;

    for (int columns = 1; columns < 120; columns++) {
        int whole = hb_progress_line(text, sizeof text, "train", 0.5, 7200, note, columns);
        assert_true(strlen(text) < (size_t)columns);
        if (columns > whole)
            assert_int_equal(strlen(text), whole);
    }
    hb_progress_line(text, sizeof text, "train", 0.5, 7200, note, 80);
    assert_non_null(strstr(text, "train [#####     ] 50 %, 2:00:00 left, loss 1.23e-02, 1-step 1.2e-03"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_of_a_training_fits_80_columns),
        cmocka_unit_test(a_line_is_cut_to_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
