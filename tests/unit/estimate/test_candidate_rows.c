/* Rows of candidates against the model at each one's own controls. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/candidate_rows.h"
#include "models.h"

static double normal(uint64_t stream, uint64_t index)
{
    return hb_random_normal((hb_random_key){.seed = 5, .stream = stream}, index);
}

enum { CANDIDATES = 21 };

typedef struct setting {
    hb_model *m;
    hb_workspace *workspace;
    hb_rows rows;
    hb_candidate_rows candidates;
    hb_arena arena;
    double z[HB_MAX_CONTROLS], dz[HB_MAX_CONTROLS], present[HB_TRANSITION_PARTS * HB_MAX_CONTROLS];
    hb_window_entry entry;
} setting;

static void lay_out(setting *b, hb_arena *arena)
{
    b->rows = (hb_rows){.m = b->m, .nw = 1, .ld = b->m->nb + 2};
    hb_rows_lay_out(&b->rows, arena);
    b->candidates = (hb_candidate_rows){.nu = b->m->nu, .size = b->m->nx * b->rows.ld};
    hb_candidate_rows_lay_out(&b->candidates, arena);
}

static void set_up(setting *b, int variant, int parts)
{
    hb_error err;

    *b = (setting){.m = variant_model(variant)};
    lay_out(b, &b->arena);
    assert_int_equal(hb_arena_allocate(&b->arena, &err), 0);
    lay_out(b, &b->arena);
    assert_int_equal(hb_workspace_new(&b->workspace, b->m, false, &err), 0);
    for (int i = 0; i < b->m->nx; i++) {
        b->z[i] = 0.5 * normal(11, (uint64_t)i);
        b->dz[i] = 0.1 * normal(12, (uint64_t)i);
    }
    for (int i = 0; i < parts * b->m->nu; i++)
        b->present[i] = 0.5 * normal(13, (uint64_t)i);
    b->entry = (hb_window_entry){.z = b->z, .dz = b->dz, .dt = 0.05, .parts = parts};
}

static void tear_down(setting *b)
{
    hb_workspace_free(b->workspace);
    hb_model_free(b->m);
    free(b->arena.base);
}

/* Controls of candidate k: the last one is the present; others differ by `by`, on average and from beginning to end. */
static void controls_of(const setting *b, int k, double by, double *ret)
{
    int parts = b->entry.parts, nu = b->m->nu;

    for (int p = 0; p < parts; p++)
        for (int j = 0; j < nu; j++) {
            double average = normal(21, (uint64_t)(k * nu + j)), slope = normal(22, (uint64_t)(k * nu + j));
            double t = parts > 1 ? 1 - 2.0 * p / (parts - 1) : 0;
            ret[p * nu + j] = b->present[p * nu + j] + (k == CANDIDATES - 1 ? 0 : by * (average + slope * t));
        }
}

/* The rows of the present controls, which are evaluated in lane 0. */
static const double *rows_of(setting *b)
{
    static double given[64 * 16];

    assert_true(b->candidates.size <= (int)(sizeof given / sizeof *given));
    assert_true(hb_rows_of_lane(&b->rows, 0, b->dz));
    return memcpy(given, b->rows.row, (size_t)b->candidates.size * sizeof *given);
}

/* The largest error of a candidate's rows, when candidates differ by `by`; and the largest that the rows move. */
static double largest_error(setting *b, double by, double *ret_moved)
{
    double control[HB_TRANSITION_PARTS * HB_MAX_CONTROLS], worst = 0;
    int size = b->candidates.size;

    hb_candidate_rows_start(&b->candidates, b->entry.parts, b->present);
    for (int k = 0; k < CANDIDATES; k++) {
        controls_of(b, k, by, control);
        hb_candidate_rows_set(&b->candidates, k, control);
    }
    hb_rows_load(&b->rows, 0, &b->entry, b->present);
    int lanes = hb_candidate_rows_load(&b->candidates, &b->rows, 1, &b->entry);
    assert_int_equal(lanes, b->m->nu * (b->entry.parts > 1 ? 2 : 1));
    hb_rows_evaluate(&b->rows, b->workspace, 1 + lanes, NULL);
    assert_true(hb_candidate_rows_combine(&b->candidates, CANDIDATES, &b->rows, 0, 1, b->dz, rows_of(b)));

    *ret_moved = 0;
    for (int k = 0; k < CANDIDATES; k++) {
        const hb_sides *found = b->candidates.row + k / HB_SIDES * size;
        controls_of(b, k, by, control);
        hb_rows_load(&b->rows, 0, &b->entry, control);
        hb_rows_evaluate(&b->rows, b->workspace, 1, NULL);
        assert_true(hb_rows_of_lane(&b->rows, 0, b->dz));
        for (int at = 0; at < size; at++) {
            double error = fabs(found[at][k % HB_SIDES] - b->rows.row[at]);
            worst = fmax(worst, error);
            *ret_moved = fmax(*ret_moved, fabs(b->candidates.base[at] - b->rows.row[at]));
            if (k == CANDIDATES - 1)
                assert_near(error, 0, 1e-14);
        }
    }
    return worst;
}

/* To first order: with half the difference, a quarter of the error. The present controls are exact. */
static void test_rows_are_those_of_the_model(void **state)
{
    (void)state;

    for (int variant = 0; variant < 2; variant++)
        for (int parts = 1; parts <= HB_TRANSITION_PARTS; parts++) {
            setting b;
            double moved, less;
            set_up(&b, variant, parts);
            double error = largest_error(&b, 0.1, &moved), smaller = largest_error(&b, 0.05, &less);
            assert_true(error < 0.2 * moved);
            assert_true(smaller > 0.15 * error && smaller < 0.35 * error);
            tear_down(&b);
        }
}

/* A difference in one part only is no straight line over the parts, but moves the vehicle all the
 * same: to a quarter, since the slope of this model differs from part to part. */
static void test_one_part_moves_the_rows(void **state)
{
    double control[HB_TRANSITION_PARTS * HB_MAX_CONTROLS];
    setting b;
    (void)state;

    set_up(&b, 0, HB_TRANSITION_PARTS);
    for (int part = 0; part < HB_TRANSITION_PARTS; part++) {
        memcpy(control, b.present, sizeof control);
        control[part * b.m->nu] += 0.1;
        hb_candidate_rows_start(&b.candidates, b.entry.parts, b.present);
        hb_candidate_rows_set(&b.candidates, 0, control);
        hb_rows_load(&b.rows, 0, &b.entry, b.present);
        int lanes = hb_candidate_rows_load(&b.candidates, &b.rows, 1, &b.entry);
        hb_rows_evaluate(&b.rows, b.workspace, 1 + lanes, NULL);
        assert_true(hb_candidate_rows_combine(&b.candidates, 1, &b.rows, 0, 1, b.dz, rows_of(&b)));
        hb_rows_load(&b.rows, 0, &b.entry, control);
        hb_rows_evaluate(&b.rows, b.workspace, 1, NULL);
        assert_true(hb_rows_of_lane(&b.rows, 0, b.dz));
        double error = 0, moved = 0;
        for (int at = 0; at < b.candidates.size; at++) {
            error = fmax(error, fabs(b.candidates.row[at][0] - b.rows.row[at]));
            moved = fmax(moved, fabs(b.candidates.base[at] - b.rows.row[at]));
        }
        assert_true(error < 0.25 * moved);
    }
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_those_of_the_model),
        cmocka_unit_test(test_one_part_moves_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
