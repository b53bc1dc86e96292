/* Tables of options: each type is read into its place, and what is wrong is said with the option's name. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/options.h"

typedef struct options {
    bool loud, adapt;
    const char *output;
    int count;
    uint64_t seed;
    double dt;
    char sum[32]; /* of --add */
} options;

static int add(void *context, const char *text, hb_error *err)
{
    options *o = context;

    if (strcmp(text, "bad") == 0)
        return hb_fail(err, EINVAL, "'%s' cannot be added", text);
    strncat(o->sum, text, sizeof o->sum - strlen(o->sum) - 1);
    return 0;
}

/* Reads words after the program's name; `n` of them. */
static hb_options_result read_words(options *o, int n, char **words, char why[600])
{
    const hb_option table[] = {
        {"loud", HB_OPTION_FLAG, &o->loud, 0, 0, 'l'},
        {"no-adapt", HB_OPTION_CLEAR, &o->adapt, 0, 0, 0},
        {"output", HB_OPTION_TEXT, &o->output, 0, 0, 'o'},
        {"count", HB_OPTION_WHOLE, &o->count, 1, 9, 'n'},
        {"seed", HB_OPTION_COUNT, &o->seed, 0, INT64_MAX, 0},
        {"dt", HB_OPTION_NUMBER, &(hb_option_number){&o->dt, 0.5, 2}, 0, 0, 0},
        {"add", HB_OPTION_CALL, &(hb_option_call){add, o}, 0, 0, 'a'},
    };
    char *argv[20] = {"program"};

    memcpy(argv + 1, words, (size_t)n * sizeof *words);
    optind = 0; /* makes getopt forget the case before */
    *o = (options){.adapt = true, .output = "none", .count = 5, .dt = 1};
    return hb_options_read(table, sizeof table / sizeof *table, n + 1, argv, why, 600);
}

static void test_values_go_where_they_belong(void **state)
{
    (void)state;
    char *words[] = {"--loud",           "file", "--no-adapt", "-o", "out", "--count=9", "--seed",
                     "9007199254740993", "--dt", "0.5",        "-a", "x",   "--add",     "y"};
    char why[600];
    options o;

    assert_int_equal(read_words(&o, 14, words, why), HB_OPTIONS_READ);
    assert_true(o.loud && !o.adapt);
    assert_string_equal(o.output, "out");
    assert_int_equal(o.count, 9);
    assert_true(o.seed == 9007199254740993); /* more than a double holds */
    assert_true(o.dt == 0.5);
    assert_string_equal(o.sum, "xy");
    assert_int_equal(optind, 14); /* the operand is moved behind the options */

    assert_int_equal(read_words(&o, 0, words, why), HB_OPTIONS_READ);
    assert_true(!o.loud && o.adapt && o.count == 5 && o.dt == 1 && !*o.sum);
    assert_string_equal(o.output, "none");
}

static void test_help_wins(void **state)
{
    (void)state;
    char *words[] = {"--loud", "-h", "--nonsense"};
    char why[600];
    options o;

    assert_int_equal(read_words(&o, 3, words, why), HB_OPTIONS_HELP);
    words[1] = "--help";
    assert_int_equal(read_words(&o, 3, words, why), HB_OPTIONS_HELP);
}

static void test_what_is_wrong_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *word, *value, *why;
    } wrong[] = {
        {"--colour", NULL, "unknown option '--colour'"},
        {"-x", NULL, "unknown option '-x'"},
        {"--output", NULL, "option '--output' needs a value"},
        {"-n", NULL, "option '-n' needs a value"},
        {"--count", "0", "--count: '0' is not a whole number in 1..9"},
        {"--count", "10", "--count: '10' is not a whole number in 1..9"},
        {"--count", "3.5", "--count: '3.5' is not a whole number in 1..9"},
        {"--count", "", "--count: '' is not a whole number in 1..9"},
        {"--count", "99999999999999999999", "--count: '99999999999999999999' is not a whole number in 1..9"},
        {"-n", "many", "--count: 'many' is not a whole number in 1..9"},
        {"--dt", "0.49", "--dt: '0.49' is not a number from 0.5 to 2"},
        {"--dt", "nan", "--dt: 'nan' is not a number from 0.5 to 2"},
        {"--dt", "1s", "--dt: '1s' is not a number from 0.5 to 2"},
        {"--add", "bad", "--add: 'bad' cannot be added"},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *words[] = {(char *)(uintptr_t)wrong[i].word, (char *)(uintptr_t)wrong[i].value};
        char why[600] = "";
        options o;
        assert_int_equal(read_words(&o, wrong[i].value ? 2 : 1, words, why), HB_OPTIONS_WRONG);
        assert_string_equal(why, wrong[i].why);
        assert_true(o.count == 5 && o.dt == 1); /* untouched */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_go_where_they_belong),
        cmocka_unit_test(test_help_wins),
        cmocka_unit_test(test_what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
