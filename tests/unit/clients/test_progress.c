#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* What `seconds` of work would have printed with standard error in a file. */
static void without_a_terminal(hb_progress *p, double seconds, double fraction, char text[256])
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);

    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    p->terminal = false;
    p->started -= seconds;
    p->shown -= seconds;
    hb_progress_update(p, fraction, note);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    text[fread(text, 1, 255, file)] = 0;
    fclose(file);
}

static void without_a_terminal_lines_appear_from_two_seconds_on(void **state)
{
    hb_progress p;
    char text[256];
    (void)state;

    hb_progress_start(&p, "train");
    without_a_terminal(&p, 1, 0.1, text);
    assert_string_equal(text, "");
    without_a_terminal(&p, 1.5, 0.25, text);
    assert_non_null(strstr(text, "train 25 %, 0:0"));
    assert_true(text[strlen(text) - 1] == '\n' && !strchr(text, '\r') && !strchr(text, '\033'));
    /* then every 5 to 60 seconds */
    without_a_terminal(&p, 4, 0.3, text);
    assert_string_equal(text, "");
    without_a_terminal(&p, 1.5, 0.35, text);
    assert_non_null(strstr(text, "train 35 %"));
    without_a_terminal(&p, 61, 0.4, text);
    assert_non_null(strstr(text, "train 40 %"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_of_a_training_fits_80_columns),
        cmocka_unit_test(a_line_is_cut_to_the_terminal),
        cmocka_unit_test(without_a_terminal_lines_appear_from_two_seconds_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
