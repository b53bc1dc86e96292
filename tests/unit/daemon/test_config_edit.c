/* Edits of a configuration's text: one value changes, everything else stays byte for byte, and what comes of it reads
 * back as what was put in. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/config_edit.h"

static const char text[] = "# of a test: caf\xc3\xa9\n"
                           "name: \"left\"  # its name\n"
                           "planner:\n"
                           "  # how often\n"
                           "  iterations: 100 # at most\n"
                           "  clip: 1\n"
                           "\n"
                           "# behind the section\n"
                           "latency: {budget: 0.01, delay: 0}\n"
                           "telemetry: {}\n"
                           "status:\n"
                           "cost: # what counts\n"
                           "  - {kind: distance, states: [x, y], weight: 3, terminal: 10}\n"
                           "  - {kind: squared, states: [vx], weight: 1}\n"
                           "  - kind: squared\n"
                           "    states: [vy]\n"
                           "    weight: 2 # twice\n"
                           "  - {kind: slew, controls: [f0], weight: 200} # the last\n"
                           "# the end\n";

static char *edited(const char *from, const char *key, const char *value)
{
    char *ret = NULL, *back = NULL;
    hb_error err = {0};

    if (hb_config_edit(from, key, value, NULL, &ret, &err))
        fail_msg("%s = %s: %s", key, value, err.text);
    if (hb_config_lookup(ret, key, &back, &err))
        fail_msg("%s: %s", key, err.text);
    assert_non_null(back);
    assert_string_equal(back, value);
    free(back);
    return ret;
}

/* What `text` becomes when `before` becomes `after`. */
static char *replaced(const char *before, const char *after)
{
    const char *at = strstr(text, before);
    char *ret = NULL;

    assert_non_null(at);
    assert_true(asprintf(&ret, "%.*s%s%s", (int)(at - text), text, after, at + strlen(before)) > 0);
    return ret;
}

static void test_one_value_changes_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *before, *after;
    } row[] = {
        {"name", "right", "\"left\"", "right"},
        {"planner.iterations", "7", "100 # at", "7 # at"},
        {"latency.budget", "0.02", "0.01", "0.02"},
        {"cost.distance.weight", "4", "weight: 3,", "weight: 4,"},
        {"cost.0.states", "[x]", "[x, y]", "[x]"},
        {"cost.2.weight", "5", "2 # twice", "5 # twice"},
        {"cost.slew.weight", "1e2", "200}", "1e2}"},
        /* what was not there */
        {"planner.seed", "3", "  clip: 1\n", "  clip: 1\n  seed: 3\n"},
        {"latency.stale_after", "1", "delay: 0}", "delay: 0, stale_after: 1}"},
        {"telemetry.min_period", "0.5", "{}", "{min_period: 0.5}"},
        {"status.period", "1", "status:\n", "status:\n  period: 1\n"},
        {"cost.slew.terminal", "2", "weight: 200}", "weight: 200, terminal: 2}"},
        {"cost.2.terminal", "2", "    weight: 2 # twice\n", "    weight: 2 # twice\n    terminal: 2\n"},
        {"adapt", "false", "# the end\n", "# the end\nadapt: false\n"},
        {"limits.weight", "5", "# the end\n", "# the end\nlimits:\n  weight: 5\n"},
        /* a whole list */
        {"cost", "[{kind: velocity, states: [vx], weight: 1}]",
         " # what counts\n"
         "  - {kind: distance, states: [x, y], weight: 3, terminal: 10}\n"
         "  - {kind: squared, states: [vx], weight: 1}\n"
         "  - kind: squared\n"
         "    states: [vy]\n"
         "    weight: 2 # twice\n"
         "  - {kind: slew, controls: [f0], weight: 200}",
         " [{kind: velocity, states: [vx], weight: 1}]"},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char *found = edited(text, row[i].key, row[i].value), *expected = replaced(row[i].before, row[i].after);
        assert_string_equal(found, expected);
        free(found);
        free(expected);
    }
}

static void test_an_empty_text(void **state)
{
    (void)state;
    char *one = edited("", "adapt", "false"), *two = edited(one, "planner.seed", "3"),
         *three = edited("a: 1", "b", "2");

    assert_string_equal(one, "adapt: false\n");
    assert_string_equal(two, "adapt: false\nplanner:\n  seed: 3\n");
    assert_string_equal(three, "a: 1\nb: 2\n");
    free(one);
    free(two);
    free(three);
}

static void test_a_default_list_is_written_out(void **state)
{
    (void)state;
    char *ret = NULL;

    assert_int_equal(hb_config_edit("name: a\n", "cost.slew.weight", "9", text, &ret, NULL), 0);
    assert_non_null(strstr(ret, "name: a\ncost:\n  - {kind: distance, states: [x, y], weight: 3, terminal: 10}\n"));
    assert_non_null(strstr(ret, "  - {kind: slew, controls: [f0], weight: 9}"));
    free(ret);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    static const char *const row[][3] = {
        /* key, value, what the error says */
        {"cost.squared.weight", "1", "number"},
        {"cost.nothing.weight", "1", "none of that name"},
        {"cost.9.weight", "1", "no entry 9"},
        {"cost.0", "{kind: slew}", "a whole entry"},
        {"name.first", "1", "nothing in it"},
        {"planner..seed", "1", "no key"},
        {"name", "a\nmodel: b", "control character"},
        {"name", "a # b", "comment"},
        {"name", "", "empty"},
        {"latency.budget", "1, delay: 3", "not one value"},
        {"latency.budget", "1}", "not"},
        {"name", "[a", "not YAML"},
        {"name", "a: b", "not one value"},
        {"name", "*alias", "not"},
        {"name", "&a b", "not one value"},
    };
    hb_error err;
    char *ret;

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_int_equal(hb_config_edit(text, row[i][0], row[i][1], NULL, &ret, &err), -EINVAL);
        assert_null(ret);
        if (!strstr(err.text, row[i][2]))
            fail_msg("%s = %s: '%s' does not say '%s'", row[i][0], row[i][1], err.text, row[i][2]);
    }
    assert_int_equal(hb_config_edit("a: &x 1\nb: *x\n", "b", "2", NULL, &ret, &err), -EINVAL);
    assert_non_null(strstr(err.text, "alias"));
    assert_int_equal(hb_config_lookup("a: [1", "a", &ret, &err), -EINVAL);
    assert_int_equal(hb_config_lookup(text, "planner.nothing", &ret, &err), 0);
    assert_null(ret);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_value_changes_and_nothing_else),
        cmocka_unit_test(test_an_empty_text),
        cmocka_unit_test(test_a_default_list_is_written_out),
        cmocka_unit_test(test_what_is_refused),
    };

    return cmocka_run_group_tests_name("config edit", tests, NULL, NULL);
}
