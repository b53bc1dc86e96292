/* Increments against golden vectors, and their gradients against finite differences (double build). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dynamics/basis.h"
#include "golden.h"
#include "models.h"
#include "base/numeric.h"

#ifdef HB_DOUBLE
static const double tolerance = 1e-12;
#else
static const double tolerance = 1e-5;
#endif

/* the golden transitions as one block */
typedef struct block {
    hb_real *z, *u, *dt, *g;
    hb_batch batch;
    hb_workspace *w;
} block;

static block golden_block(golden *g)
{
    const hb_model *m = g->model;
    block b = {.batch.n = golden_size(g, "in.z", 0)};

    b.z = rows_from(golden_get(g, "in.z"), b.batch.n, m->nx);
    b.u = m->nu ? rows_from(golden_get(g, "in.u"), b.batch.n, m->nu) : NULL;
    b.dt = constant_row(m->dt);
    b.g = new_rows((m->nb + 1) * m->nx);
    b.batch.z = b.z;
    b.batch.u = b.u;
    b.batch.dt = b.dt;
    assert_int_equal(hb_workspace_new(&b.w, m, false, NULL), 0);
    return b;
}

static void block_free(block *b)
{
    free(b->z);
    free(b->u);
    free(b->dt);
    free(b->g);
    hb_workspace_free(b->w);
}

static void test_increments_are_golden_with_every_kernel(void **state)
{
    (void)state;
    for (int f = 0; golden_names[f]; f++) {
        golden *g = golden_open(golden_names[f]);
        const hb_model *m = g->model;
        const double *expected = golden_get(g, "out.increments");
        const int nfunctions = golden_size(g, "out.increments", 1);
        const double scale = largest(expected, golden_size(g, "out.increments", 0) * nfunctions * m->nx);
        block b = golden_block(g);

        for (int k = 0; hb_kernels_at(k); k++) {
            b.w->kernels = hb_kernels_at(k);
            memset(b.g, 0, (size_t)((m->nb + 1) * m->nx * HB_STRIDE) * sizeof *b.g);
            hb_basis_increments(m, b.w, &b.batch, NULL, b.g);
            for (int s = 0; s < b.batch.n; s++)
                for (int i = 0; i < nfunctions; i++)
                    for (int r = 0; r < m->nx; r++)
                        check_close((double)b.g[(i * m->nx + r) * HB_STRIDE + s],
                                    expected[(s * nfunctions + i) * m->nx + r], scale, tolerance,
                                    "%s, %s: G[%d][%d] of %d", golden_names[f], hb_kernels_at(k)->name, i, r, s);
        }
        block_free(&b);
        golden_close(g);
    }
}

static void test_one_sample_equals_the_same_in_a_batch(void **state)
{
    (void)state;
    for (int f = 0; golden_names[f]; f++) {
        golden *g = golden_open(golden_names[f]);
        const hb_model *m = g->model;
        block b = golden_block(g);
        hb_real *one = new_rows((m->nb + 1) * m->nx), *coefficient = new_coefficients(m, 7);
        const hb_batch first = {.n = 1, .z = b.z, .u = b.u, .dt = b.dt};

        hb_basis_increments(m, b.w, &b.batch, coefficient, b.g);
        hb_basis_increments(m, b.w, &first, coefficient, one);
        for (int i = 0; i < (m->nb + 1) * m->nx; i++)
            check_close((double)one[i * HB_STRIDE], (double)b.g[i * HB_STRIDE], 0.1, tolerance, "%s: row %d",
                        golden_names[f], i);
        free(one);
        free(coefficient);
        block_free(&b);
        golden_close(g);
    }
}

static void test_what_is_not_finite_leaves_no_trace(void **state)
{
    (void)state;
    for (int f = 0; golden_names[f]; f++) {
        golden *g = golden_open(golden_names[f]);
        const hb_model *m = g->model;
        const int rows = (m->nb + 1) * m->nx;
        block b = golden_block(g);
        hb_real *before = new_rows(rows), *nowhere = new_rows(m->nx);
        const hb_batch lost = {.n = b.batch.n, .z = nowhere, .u = b.u, .dt = b.dt};

        for (int i = 0; i < m->nx * HB_STRIDE; i++)
            nowhere[i] = (hb_real)NAN;
        hb_basis_increments(m, b.w, &b.batch, NULL, before);
        hb_basis_increments(m, b.w, &lost, NULL, b.g);
        memset(b.g, 0, (size_t)rows * HB_STRIDE * sizeof *b.g);
        hb_basis_increments(m, b.w, &b.batch, NULL, b.g);
        assert_memory_equal(b.g, before, (size_t)rows * HB_STRIDE * sizeof *b.g);
        free(before);
        free(nowhere);
        block_free(&b);
        golden_close(g);
    }
}

/* coefficients by the formulas of lib/README.md, in a plain loop and Gaussian elimination */
static void test_coefficients_are_golden(void **state)
{
    (void)state;
    for (int f = 0; golden_names[f]; f++) {
        golden *g = golden_open(golden_names[f]);
        const hb_model *m = g->model;
        const double *z = golden_get(g, "in.z"), *next = golden_get(g, "in.z_next"),
                     *expected = golden_get(g, "out.coefficients");
        const int nproblems = m->shape == HB_PER_STATE ? m->nx : 1, nb = m->nb;
        block b = golden_block(g);

        hb_basis_increments(m, b.w, &b.batch, NULL, b.g);
        for (int problem = 0; problem < nproblems; problem++) {
            const int from = m->shape == HB_PER_STATE ? problem : 0,
                      to = m->shape == HB_PER_STATE ? problem + 1 : m->nx;
            double a[16][17] = {{0}};
            for (int s = 0; s < b.batch.n; s++)
                for (int r = from; r < to; r++) {
                    const double residual =
                        next[s * m->nx + r] - z[s * m->nx + r] - (double)b.g[(nb * m->nx + r) * HB_STRIDE + s];
                    for (int i = 0; i < nb; i++) {
                        const double gi = (double)b.g[(i * m->nx + r) * HB_STRIDE + s] / b.batch.n;
                        a[i][nb] += gi * residual;
                        for (int j = 0; j < nb; j++)
                            a[i][j] += gi * (double)b.g[(j * m->nx + r) * HB_STRIDE + s];
                    }
                }
            for (int i = 0; i < nb; i++)
                a[i][i] += m->ridge;
            if (m->method == HB_LEAST_SQUARES)
                eliminate(nb, 17, &a[0][0]);
            for (int i = 0; i < nb; i++)
                check_close(a[i][nb], expected[m->shape == HB_PER_STATE ? i * m->nx + problem : i],
                            largest(expected, hb_model_ncoefficients(m)), tolerance, "%s: c[%d]", golden_names[f], i);
        }
        block_free(&b);
        golden_close(g);
    }
}

#ifdef HB_DOUBLE
/* sum of weight * G over all rows and samples: a scalar whose gradient is known by finite differences */
/* a number that depends on all increments, F_avg's too */
static double weighted_sum(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient,
                           const hb_real *weight)
{
    hb_real *g = new_rows((m->nb + 1) * m->nx);
    double sum = 0;

    hb_basis_increments(m, w, in, coefficient, g);
    for (int i = 0; i < (m->nb + 1) * m->nx; i++)
        for (int s = 0; s < in->n; s++)
            sum += weight[i * HB_STRIDE + s] * g[i * HB_STRIDE + s];
    free(g);
    return sum;
}

/* derivative of weighted_sum by *x */
static double difference(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient,
                         const hb_real *weight, hb_real *x)
{
    const double step = 1e-5, kept = *x;

    *x = kept + step;
    const double above = weighted_sum(m, w, in, coefficient, weight);
    *x = kept - step;
    const double below = weighted_sum(m, w, in, coefficient, weight);
    *x = kept;
    return (above - below) / (2 * step);
}

/* stage points along the average, or along these coefficients unless they are NULL; by way of a record or without */
static void check_gradient(hb_model *m, hb_real *coefficient, bool recorded, const char *name)
{
    const int nc = hb_model_ncoefficients(m);
    sample_block in = random_block(m, 5, 11);
    hb_real *weight = random_rows((m->nb + 1) * m->nx, 12), *g = new_rows((m->nb + 1) * m->nx);
    hb_real *gradient = calloc(m->nparameters, sizeof *gradient), *dc = calloc((size_t)nc, sizeof *dc);
    hb_workspace *w;

    assert_int_equal(hb_workspace_new(&w, m, true, NULL), 0);
    if (recorded) {
        char *tape = aligned_alloc(HB_ALIGNMENT, hb_basis_tape_size(m));
        hb_basis_record(m, w, &in.batch, coefficient, g, tape);
        hb_basis_gradient_of_record(m, w, &in.batch, coefficient, tape, weight, NULL, 0, gradient, dc);
        free(tape);
    } else {
        hb_basis_gradient(m, w, &in.batch, weight, gradient);
    }
    for (size_t p = 0; p < m->nparameters; p++) {
        const double expected =
            belongs_to_average(m, p) ? 0 : difference(m, w, &in.batch, coefficient, weight, &m->parameter[p]);
        check_close(gradient[p], expected, 1, 1e-7, "%s%s: parameter %zu", name, coefficient ? " along c" : "", p);
    }
    for (int i = 0; coefficient && i < nc; i++)
        check_close(dc[i], difference(m, w, &in.batch, coefficient, weight, &coefficient[i]), 1, 1e-7,
                    "%s: coefficient %d", name, i);
    hb_workspace_free(w);
    free(gradient);
    free(dc);
    free(weight);
    free(g);
    sample_block_free(&in);
}

static void test_gradient_equals_finite_differences(void **state)
{
    (void)state;
    int moved = 0;
    for (int v = 0; v < nvariants; v++) {
        hb_model *m = variant_model(v);
        if (hb_basis_tape_size(m))
            check_gradient(m, NULL, true, variant_name(v));
        if (m->nb > 0 && m->architecture == HB_INDEPENDENT)
            check_gradient(m, NULL, false, variant_name(v));
        if (m->integration == HB_COMBINED && hb_basis_tape_size(m)) {
            hb_real *c = random_rows((hb_model_ncoefficients(m) + HB_STRIDE - 1) / HB_STRIDE, 13);
            check_gradient(m, c, true, variant_name(v));
            free(c);
            moved++;
        }
        hb_model_free(m);
    }
    assert_true(moved >= 4);
}
#endif

/* The way that leaves a record, against the one that does not, of one sample and of several. */
static void test_a_record_changes_nothing(void **state)
{
    (void)state;
    enum { LANES = 5 };
    int recorded = 0;

    for (int v = 0; v < nvariants; v++) {
        hb_model *m = variant_model(v);
        int rows = (m->nb + 1) * m->nx;
        hb_real *z = random_rows(m->nx, 3), *u = random_rows(m->nu + 1, 4), *dt = new_rows(1);
        hb_real *c = random_rows((hb_model_ncoefficients(m) + HB_STRIDE - 1) / HB_STRIDE, 13);
        hb_real *g = new_rows(rows), *one = new_rows(rows), *with = new_rows(rows);
        char *tape = aligned_alloc(HB_ALIGNMENT, hb_basis_tape_size(m) + HB_ALIGNMENT);
        hb_workspace *w;

        if (hb_basis_tape_size(m)) {
            recorded++;
            assert_int_equal(hb_workspace_new(&w, m, false, NULL), 0);
            for (int s = 0; s < HB_STRIDE; s++)
                dt[s] = (hb_real)(m->dt * 0.3);
            const hb_batch in = {.n = LANES, .z = z, .u = u, .dt = dt};
            hb_basis_increments(m, w, &in, c, g);
            hb_basis_increments(m, w, &(hb_batch){.n = 1, .z = z, .u = u, .dt = dt}, c, one);
            hb_basis_record(m, w, &in, c, with, tape);
            for (int r = 0; r < rows; r++) {
                check_close((double)one[r * HB_STRIDE], (double)with[r * HB_STRIDE], 0.1, tolerance, "%s: row %d alone",
                            variant_name(v), r);
                for (int s = 0; s < LANES; s++)
                    check_close((double)g[r * HB_STRIDE + s], (double)with[r * HB_STRIDE + s], 0.1, tolerance,
                                "%s: row %d of %d", variant_name(v), r, s);
            }
            hb_workspace_free(w);
        }
        hb_real *mine[] = {z, u, dt, c, g, one, with};
        for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
            free(mine[i]);
        free(tape);
        hb_model_free(m);
    }
    assert_true(recorded >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_increments_are_golden_with_every_kernel),
        cmocka_unit_test(test_one_sample_equals_the_same_in_a_batch),
        cmocka_unit_test(test_a_record_changes_nothing),
        cmocka_unit_test(test_what_is_not_finite_leaves_no_trace),
        cmocka_unit_test(test_coefficients_are_golden),
#ifdef HB_DOUBLE
        cmocka_unit_test(test_gradient_equals_finite_differences),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
