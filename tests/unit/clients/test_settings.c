/* Settings of hilbert-train: one table, read from options and YAML, printed and read back. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "train/settings.h"

static hb_settings defaults(void)
{
    hb_settings s;
    hb_settings_default(&s);
    return s;
}

static void test_defaults_are_what_the_manual_recommends(void **state)
{
    (void)state;
    hb_settings s = defaults();
    assert_int_equal(s.kind, HB_KIND_SHARED);
    assert_int_equal(s.functions, 16);
    assert_int_equal(s.examples, 100);
    assert_int_equal(s.queries, 100);
    assert_true(s.learning_rate == 1e-2 && s.decay == HB_DECAY_COSINE && s.clip == 1);
    assert_int_equal(s.activation, -1);
    assert_int_equal(s.hidden.n, 0);
}

static void test_arguments(void **state)
{
    (void)state;
    hb_settings s = defaults();
    hb_error err = {0};
    int next = 0;
    char *argv[] = {(char *)"--data",
                    (char *)"a b.h5",
                    (char *)"--hidden=10,20,30",
                    (char *)"--inputs=-x,-y",
                    (char *)"--kind",
                    (char *)"fe-node",
                    (char *)"--steps",
                    (char *)"1e5",
                    (char *)"--seed",
                    (char *)"18446744073709551615",
                    (char *)"--ridge",
                    (char *)"1e-6",
                    (char *)"leftover"};

    assert_int_equal(hb_settings_arguments(&s, 13, argv, &next, &err), 0);
    assert_int_equal(next, 12);
    assert_string_equal(s.data, "a b.h5");
    assert_int_equal(s.hidden.n, 3);
    assert_int_equal(s.hidden.width[2], 30);
    assert_string_equal(s.inputs, "-x,-y");
    assert_int_equal(s.kind, HB_KIND_FE_NODE);
    assert_int_equal(s.steps, 100000);
    assert_true(s.seed == UINT64_MAX);
    assert_true(s.ridge == 1e-6);
}

static void test_yaml(void **state)
{
    (void)state;
    hb_settings s = defaults();
    hb_error err = {0};
    static const char text[] =
        "# a comment\ndata: quad.h5\nhidden: [8, 9]\naverage: 'nominal:quadrotor'\ninputs:\n  - vx\n"
        "  - vy\nlearning-rate: 0.01\n";

    assert_int_equal(hb_settings_parse(&s, text, "t.yaml", &err), 0);
    assert_string_equal(s.average, "nominal:quadrotor");
    assert_string_equal(s.inputs, "vx,vy");
    assert_int_equal(s.hidden.n, 2);
    assert_true(s.learning_rate == 0.01);
}

static void test_config_file_where_it_stands(void **state)
{
    (void)state;
    hb_settings s = defaults();
    hb_error err = {0};
    int next = 0;
    char path[] = "/tmp/hilbert-test-settings-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "nb: 5\nsteps: 7\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);

    char *argv[] = {(char *)"--nb", (char *)"3", (char *)"--config", path, (char *)"--steps", (char *)"9"};
    assert_int_equal(hb_settings_arguments(&s, 6, argv, &next, &err), 0);
    assert_int_equal(s.nb, 5);
    assert_int_equal(s.steps, 9);
    unlink(path);
}

static void test_bad_values(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *complaint;
    } bad[] = {
        {"nb: many", "t.yaml:1: nb: 'many' is not a whole number"},
        {"\n\nnb: 1.5", "t.yaml:3: nb: '1.5' is not a whole number"},
        {"nb: 100000", "is not in -1..4096"},
        {"colour: red", "t.yaml:1: there is no setting 'colour'"},
        {"kind: big", "'big' is not one of shared, fe-node"},
        {"hidden: [8, x]", "hidden: 'x'"},
        {"hidden: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "more than 15 layers"},
        {"ridge: nan", "ridge: 'nan' is not a number"},
        {"ridge: 1e999", "ridge: '1e999' is not a number"},
        {"steps: -1", "steps: -1 is not in"},
        {"seed: 99999999999999999999", "seed"},
        {"data: {a: b}", "t.yaml:1: expected 'setting: value'"},
        {"- a\n- b", "t.yaml:1: expected lines"},
        {"data: [", "t.yaml:"},
        {"data: \"a\\nb\"", "must be one line"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hb_settings s = defaults(), before = s;
        hb_error err = {0};
        assert_int_equal(hb_settings_parse(&s, bad[i].yaml, "t.yaml", &err), -EINVAL);
        if (!strstr(err.text, bad[i].complaint))
            fail_msg("'%s': '%s' does not say '%s'", bad[i].yaml, err.text, bad[i].complaint);
        /* outputs are untouched on failure */
        assert_memory_equal(&s, &before, sizeof s);
    }
}

/* what is printed reads back as the same, with awkward values too */
static void test_text_reads_back(void **state)
{
    (void)state;
    hb_settings s = defaults(), t = defaults();
    hb_error err = {0};

    assert_int_equal(hb_settings_set(&s, "data", "it's: a # name", &err), 0);
    assert_int_equal(hb_settings_set(&s, "hidden", "3,4", &err), 0);
    assert_int_equal(hb_settings_set(&s, "ridge", "0.1234567890123456789", &err), 0);
    assert_int_equal(hb_settings_set(&s, "seed", "18446744073709551615", &err), 0);
    assert_int_equal(hb_settings_set(&s, "activation", "tanh", &err), 0);
    char *text = hb_settings_text(&s, false);
    assert_non_null(text);
    if (hb_settings_parse(&t, text, "printed", &err))
        fail_msg("%s in %s", err.text, text);
    /* all that is in the text was given by it */
    assert_memory_equal(&s, &t, offsetof(hb_settings, given));
    assert_true(hb_settings_given(&s, "ridge") && !hb_settings_given(&s, "steps") && hb_settings_given(&t, "steps"));
    free(text);
}

static void test_command(void **state)
{
    (void)state;
    hb_settings s = defaults();
    hb_error err = {0};

    assert_int_equal(hb_settings_set(&s, "data", "a b.h5", &err), 0);
    assert_int_equal(hb_settings_set(&s, "hidden", "3,4", &err), 0);
    /* how the run is made is no part of what it makes */
    assert_int_equal(hb_settings_set(&s, "threads", "7", &err), 0);
    assert_int_equal(hb_settings_set(&s, "output", "x", &err), 0);
    char *command = hb_settings_command(&s);
    assert_string_equal(command, "hilbert-train --data 'a b.h5' --hidden 3,4");
    free(command);
}

static void test_same_result(void **state)
{
    (void)state;
    hb_settings a = defaults(), b = a;
    hb_error err = {0};

    a.decay = b.decay = HB_DECAY_NONE;
    b.threads = 3;
    b.steps = 5;
    assert_int_equal(hb_settings_same_result(&a, &b, &err), 0);
    a.decay = b.decay = HB_DECAY_COSINE;
    assert_int_equal(hb_settings_same_result(&a, &b, &err), -EINVAL);
    assert_non_null(strstr(err.text, "steps"));
    b.steps = a.steps;
    b.seed = 1;
    assert_int_equal(hb_settings_same_result(&a, &b, &err), -EINVAL);
    assert_non_null(strstr(err.text, "seed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_what_the_manual_recommends),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_yaml),
        cmocka_unit_test(test_config_file_where_it_stands),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_text_reads_back),
        cmocka_unit_test(test_command),
        cmocka_unit_test(test_same_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
