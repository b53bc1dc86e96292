/* A configuration passes the check if and only if a controller can be made of it.
 *
 * Thousands of them are drawn: a few numbers, flags and choices each, at, beyond and between their bounds, written as
 * YAML. What is read from it, and the same values put into the settings behind the reader's back, must fare alike: both
 * are refused, or both make a controller that makes its first plan. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/numeric.h"
#include "config/config.h"
#include "process/selftest.h"
#include "test_models.h"

enum { DRAWS = 3000, MOST_CHANGES = 3, TEXT = 4096 };

static char folder[] = "/tmp/hilbert-check-XXXXXX", model_path[64], file[64];
static hb_config *config, *given;
static hb_config_errors *errors;
static hb_model *model;
static hb_pool *pool;

static int set_up(void **state)
{
    (void)state;
    config = calloc(1, sizeof *config);
    given = calloc(1, sizeof *given);
    errors = calloc(1, sizeof *errors);
    assert_non_null(mkdtemp(folder));
    snprintf(model_path, sizeof model_path, "%s/cart.safetensors", folder);
    assert_int_equal(hb_test_cart(&model, NULL), 0);
    assert_int_equal(hb_model_save(model, model_path, NULL), 0);
    assert_int_equal(hb_pool_new(&pool, 1, NULL, NULL, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(model_path);
    rmdir(folder);
    hb_pool_free(pool);
    hb_model_free(model);
    free(errors);
    free(given);
    free(config);
    return 0;
}

typedef struct dice {
    hb_random_key key;
    uint64_t index;
} dice;

static int pick(dice *d, int n)
{
    return (int)(hb_random_bits(d->key, d->index++) % (uint64_t)n);
}

/* At an end of the range, just beyond it, far beyond, or somewhere within. */
static double draw_number(dice *d, const hb_setting *row)
{
    bool whole = row->type == HB_SETTING_INT;
    double step = whole ? 1 : 1e-9 * fmax(1e-3, fabs(row->max)), range = row->max - row->min;
    double within = row->min + range * pow(hb_random_uniform(d->key, d->index++), 6); /* more of the small ones */
    const double value[] = {
        row->min,          row->max, row->min - step, row->max + step, row->min + step, row->max - step,
        -1 - row->max * 3, 0,        within,          within,          within,          within};
    double v = value[pick(d, sizeof value / sizeof *value)];

    return whole ? floor(v) : v;
}

static bool is_drawn(const hb_setting *row)
{
    const size_t start = offsetof(hb_config, controller), end = start + sizeof config->controller;

    return row->type < HB_SETTING_OTHER && row->offset >= start && row->offset < end;
}

/* A value for one key, into `given` and as text. */
static void draw_value(dice *d, const hb_setting *row, FILE *out)
{
    void *to = (char *)given + row->offset;

    if (row->type == HB_SETTING_INT)
        fprintf(out, "%d\n", *(int *)to = (int)draw_number(d, row));
    else if (row->type == HB_SETTING_REAL)
        fprintf(out, "%.17g\n", *(double *)to = draw_number(d, row));
    else if (row->type == HB_SETTING_BOOL)
        fputs((*(bool *)to = pick(d, 2)) ? "true\n" : "false\n", out);
    else if (row->type == HB_SETTING_CHOICE)
        fprintf(out, "%s\n", row->choices[*(int *)to = pick(d, row->nchoices)]);
    else
        fprintf(out, "%" PRIu64 "\n", *(uint64_t *)to = hb_random_bits(d->key, d->index++));
}

/* A configuration of a cart with a few keys changed: in `given` and as text. */
static void draw(dice *d, char text[TEXT])
{
    bool changed[HB_CONFIG_ROWS] = {false};
    const char *section = "";
    size_t length = 0;
    int n = 0, left = 1 + pick(d, MOST_CHANGES);

    snprintf(text, TEXT, "model: cart.safetensors\ncost: [{kind: squared, states: [0], weight: 1}]\ntarget: [1, 0]\n");
    assert_int_equal(hb_config_parse(given, file, text, strlen(text), errors), 0);
    assert_int_equal(hb_config_resolve(given, model, errors), 0);
    while (hb_config_row(n).key)
        n++;
    while (left > 0) {
        int i = pick(d, n);
        hb_setting row = hb_config_row(i);
        if (is_drawn(&row)) {
            changed[i] = true;
            left--;
        }
    }
    FILE *out = fmemopen(text + strlen(text), TEXT - strlen(text), "w");
    for (int i = 0; i < n; i++) {
        hb_setting row = hb_config_row(i);
        const char *dot = strchr(row.key, '.');
        if (!changed[i])
            continue;
        if (dot && (length != (size_t)(dot - row.key) || strncmp(section, row.key, length)))
            fprintf(out, "%.*s:\n", (int)(dot - row.key), row.key);
        section = row.key;
        length = dot ? (size_t)(dot - row.key) : 0;
        fprintf(out, "%s%s: ", dot ? "  " : "", dot ? dot + 1 : row.key);
        draw_value(d, &row, out);
    }
    fclose(out);
}

/* Whether a start with these settings comes through. */
static bool constructs(const hb_controller_settings *s, hb_error *err)
{
    const double work = (double)s->planner.samples * s->planner.horizon;
    hb_controller *c = NULL;
    double seconds;

    if (hb_controller_new(&c, model, s, pool, NULL, NULL, err))
        return false;
    hb_controller_free(c);
    if (work > 1e5) /* made, but a plan would take its time */
        return true;
    hb_controller_settings quick = *s;
    quick.budget = fmin(s->budget, 1e-3);
    return hb_selftest(model, &quick, pool, &seconds, err) == 0;
}

/* "planner.clip: ..." begins with a key that a person can look up. */
static void assert_names_a_key(const hb_error *err)
{
    char key[64];

    snprintf(key, sizeof key, "%.*s", (int)strcspn(err->text, ":"), err->text);
    if (hb_config_find(key) < 0)
        fail_msg("a start fails with '%s', which names no key", err->text);
}

static void test_the_check_passes_if_and_only_if_it_starts(void **state)
{
    (void)state;
    int passed = 0;

    snprintf(file, sizeof file, "%s/c.yaml", folder);
    for (uint64_t k = 0; k < DRAWS; k++) {
        dice d = {.key = {20261117, k}};
        char text[TEXT];
        hb_error err = {0};
        draw(&d, text);
        bool ok =
            !hb_config_parse(config, file, text, strlen(text), errors) && !hb_config_resolve(config, model, errors);
        bool starts = constructs(&given->controller, &err);
        if (ok != starts)
            fail_msg("draw %d: the check says %s, a start %s\n%s", (int)k, ok ? "ok" : errors->text[0],
                     starts ? "succeeds" : err.text, text);
        if (!starts)
            assert_names_a_key(&err);
        if (ok && memcmp(&config->controller.planner, &given->controller.planner, sizeof given->controller.planner))
            fail_msg("draw %d: what was read is not what was written\n%s", (int)k, text);
        if (!ok && strncmp(errors->text[0], folder, strlen(folder)))
            fail_msg("draw %d: no place in '%s'", (int)k, errors->text[0]);
        passed += ok;
    }
    /* both happen often, or this proves nothing */
    assert_in_range(passed, DRAWS / 5, 4 * DRAWS / 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_check_passes_if_and_only_if_it_starts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
