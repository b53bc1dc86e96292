/* Orthogonal steps: of the momentum's singular value decomposition they keep the vectors, and all values become nearly
 * one; what is not a hidden layer's matrix is left alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/numeric.h"
#include "train/muon.h"
#include "fleet.h"

static const double inertia = 0.95, rate = 0.01, clipped = 0.5;

static double draw(uint64_t stream, size_t index)
{
    return hb_random_normal((hb_random_key){.seed = 5, .stream = stream}, index);
}

/* x and what it is made of, by their definitions: x^T x has eigenvalues near one, and m^T x is symmetric and positive:
 * then x has the singular vectors of m */
static void check_orthogonal(int rows, int columns, const double *m, const double *x)
{
    int side = rows < columns ? rows : columns;
    bool flat = rows <= columns;
    double *square = calloc((size_t)(side * side), sizeof *square),
           *mixed = calloc((size_t)(side * side), sizeof *mixed);
    double value[64], largest = 0;

    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++)
            for (int k = 0; k < rows * columns / side; k++) {
                int a = flat ? i * columns + k : k * columns + i, b = flat ? j * columns + k : k * columns + j;
                square[i * side + j] += x[a] * x[b];
                mixed[i * side + j] += m[a] * x[b];
            }
    for (int i = 0; i < side * side; i++)
        largest = fmax(largest, fabs(mixed[i]));
    for (int i = 0; i < side; i++)
        for (int j = 0; j < i; j++)
            assert_true(fabs(mixed[i * side + j] - mixed[j * side + i]) < 1e-3 * largest);
    assert_int_equal(hb_symmetric_eigen(side, square, value, NULL), 0);
    for (int i = 0; i < side; i++)
        if (!(value[i] > 0.4 && value[i] < 1.6))
            fail_msg("%d x %d: squared singular value %g", rows, columns, value[i]);
    assert_int_equal(hb_symmetric_eigen(side, mixed, value, NULL), 0);
    assert_true(value[0] > 0);
    free(square);
    free(mixed);
}

static void check(hb_architecture architecture, hb_average average, int nmatrices)
{
    hb_integration integration = architecture == HB_SHARED ? HB_COMBINED : HB_SEPARATE;
    hb_model *m = fleet_model(architecture, integration, average, HB_VECTOR, 0.1);
    size_t n = m->nparameters;
    hb_real *g = calloc(n, sizeof *g), *momentum = calloc(n, sizeof *momentum), *before = calloc(n, sizeof *before);
    bool *stepped = calloc(n, sizeof *stepped);
    hb_muon *o = NULL;

    for (size_t i = 0; i < n; i++) {
        g[i] = (hb_real)draw(1, i);
        momentum[i] = (hb_real)draw(2, i);
    }
    memcpy(before, m->parameter, n * sizeof *before);
    assert_int_equal(hb_muon_new(&o, m, NULL), 0);
    assert_int_equal(o->nmatrices, nmatrices);
    for (int k = 0; k < o->nmatrices; k++) {
        size_t at = o->matrix[k].at, count = (size_t)(o->matrix[k].rows * o->matrix[k].columns);
        double size = rate * 0.2 * sqrt(fmax(o->matrix[k].rows, o->matrix[k].columns));
        double *of = calloc(count, sizeof *of), *step = calloc(count, sizeof *step);
        hb_muon_step(o, k, g, (hb_real)clipped, rate, momentum, m->parameter);
        for (size_t i = 0; i < count; i++) {
            double gi = clipped * (double)g[at + i], now = inertia * draw(2, at + i) + gi;
            assert_true(fabs((double)momentum[at + i] - now) < 1e-5);
            of[i] = gi + inertia * now;
            step[i] = ((double)before[at + i] - (double)m->parameter[at + i]) / size;
            assert_false(stepped[at + i]);
            stepped[at + i] = true;
        }
        check_orthogonal(o->matrix[k].rows, o->matrix[k].columns, of, step);
        free(of);
        free(step);
    }
    for (size_t i = 0; i < n; i++)
        if (!stepped[i])
            assert_true(m->parameter[i] == before[i] && (double)momentum[i] == (double)(hb_real)draw(2, i));

    /* without a gradient and a momentum there is no step */
    memset(g, 0, n * sizeof *g);
    memset(momentum, 0, n * sizeof *momentum);
    memcpy(before, m->parameter, n * sizeof *before);
    for (int k = 0; k < o->nmatrices; k++)
        hb_muon_step(o, k, g, 1, rate, momentum, m->parameter);
    assert_memory_equal(before, m->parameter, n * sizeof *before);

    hb_muon_free(o);
    free(stepped);
    free(before);
    free(momentum);
    free(g);
    hb_model_free(m);
}

/* two layers before the head, or before the last one of each network; the average's network has one */
static void test_shared(void **state)
{
    (void)state;
    check(HB_SHARED, HB_AVERAGE_HEAD, 2);
}

static void test_independent(void **state)
{
    (void)state;
    check(HB_INDEPENDENT, HB_AVERAGE_NETWORK, 2 * FLEET_NB + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
