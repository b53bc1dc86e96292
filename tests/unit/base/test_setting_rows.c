/* Rows of settings: bounds with open and closed ends, and the rows of lib against its defaults. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "controller/controller.h"

static void test_ends_belong_to_the_range_or_not(void **state)
{
    (void)state;
    static const struct {
        hb_ends ends;
        bool low, high; /* whether 1 and 2 are within */
    } table[] = {
        {HB_CLOSED, true, true}, {HB_ABOVE, false, true}, {HB_BELOW, true, false}, {HB_OPEN_ENDS, false, false}};
    char problem[64];

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const hb_setting row = {.min = 1, .max = 2, .ends = table[i].ends};
        assert_int_equal(hb_setting_within(&row, 1, problem), table[i].low);
        assert_int_equal(hb_setting_within(&row, 2, problem), table[i].high);
        assert_true(hb_setting_within(&row, 1 + DBL_EPSILON, problem));
        assert_string_equal(problem, "");
        assert_true(hb_setting_within(&row, 2 - DBL_EPSILON, problem));
        assert_false(hb_setting_within(&row, 1 - DBL_EPSILON, problem));
        assert_string_equal(problem, table[i].low ? "below 1" : "not above 1");
        assert_false(hb_setting_within(&row, 2 + 2 * DBL_EPSILON, problem));
        assert_string_equal(problem, table[i].high ? "above 2" : "not below 2");
        assert_false(hb_setting_within(&row, NAN, problem));
        assert_false(hb_setting_within(&row, INFINITY, problem));
        assert_string_equal(problem, "not finite");
    }
}

/* every row of lib: the default passes, a value outside is refused by name, and a member is named by one row only */
static void check_rows(hb_setting_rows rows, const void *defaults, size_t size)
{
    static char changed[sizeof(hb_controller_settings)];
    hb_error err;

    assert_int_equal(hb_setting_rows_check(rows, defaults, &err), 0);
    for (int i = 0; i < rows.n; i++) {
        const hb_setting *row = &rows.row[i];
        const double outside[] = {row->min - 1, row->max + 1};
        assert_true(row->offset + row->size <= size);
        assert_true(*row->help && strchr(row->help, '\n') == NULL);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(rows.row[j].key, row->key);
            assert_true(rows.row[j].offset + rows.row[j].size <= row->offset ||
                        row->offset + row->size <= rows.row[j].offset);
        }
        memcpy(changed, defaults, size);
        for (int k = 0; k < 2; k++) {
            if (row->type == HB_SETTING_INT)
                memcpy(changed + row->offset, &(int){(int)outside[k]}, sizeof(int));
            else if (row->type == HB_SETTING_REAL)
                memcpy(changed + row->offset, &outside[k], sizeof(double));
            else if (row->type == HB_SETTING_CHOICE)
                memcpy(changed + row->offset, &(int){k ? row->nchoices : -1}, sizeof(int));
            else
                continue;
            assert_int_equal(hb_setting_rows_check(rows, changed, &err), -22);
            assert_memory_equal(err.text, row->key, strlen(row->key));
        }
        /* a fixed row tells two structs apart, a live one does not */
        memcpy(changed, defaults, size);
        changed[row->offset] ^= 1;
        assert_int_equal(hb_setting_rows_same_fixed(rows, changed, defaults), row->live);
    }
}

static void test_rows_of_lib_fit_their_defaults(void **state)
{
    (void)state;
    static hb_controller_settings defaults;

    defaults = hb_controller_defaults();
    check_rows(hb_estimator_rows(), &hb_estimator_defaults, sizeof hb_estimator_defaults);
    check_rows(hb_planner_rows(), &hb_planner_defaults, sizeof hb_planner_defaults);
    check_rows(hb_controller_rows(), &defaults, sizeof defaults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_belong_to_the_range_or_not),
        cmocka_unit_test(test_rows_of_lib_fit_their_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
