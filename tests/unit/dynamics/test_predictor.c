/* Steps against golden vectors; adjoints and gradients against finite differences (double build). */
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
#include "base/pool.h"
#include "dynamics/predictor.h"

#ifdef HB_DOUBLE
static const double tolerance = 1e-12;
#else
static const double tolerance = 1e-5;
#endif

static hb_predictor *golden_predictor(golden *g)
{
    const int n = hb_model_ncoefficients(g->model);
    const double *expected = golden_get(g, "out.coefficients");
    hb_real *c = calloc((size_t)n, sizeof *c);
    hb_predictor *p;

    for (int i = 0; i < n; i++)
        c[i] = (hb_real)expected[i];
    assert_int_equal(hb_predictor_new(&p, g->model, NULL), 0);
    hb_predictor_set(p, c);
    free(c);
    return p;
}

static void test_one_step_is_golden(void **state)
{
    (void)state;
    for (int f = 0; golden_names[f]; f++) {
        golden *g = golden_open(golden_names[f]);
        const hb_model *m = g->model;
        const double *expected = golden_get(g, "out.one_step");
        const int n = golden_size(g, "in.z", 0);
        hb_real *z = rows_from(golden_get(g, "in.z"), n, m->nx), *dt = constant_row(m->dt);
        hb_real *u = m->nu ? rows_from(golden_get(g, "in.u"), n, m->nu) : NULL;
        const hb_batch in = {.n = n, .z = z, .u = u, .dt = dt};
        hb_predictor *p = golden_predictor(g);
        hb_workspace *w;
        assert_int_equal(hb_workspace_new(&w, m, false, NULL), 0);

        hb_predictor_step(p, w, &in, z, NULL);
        for (int s = 0; s < n; s++)
            for (int r = 0; r < m->nx; r++)
                check_close((double)z[r * HB_STRIDE + s], expected[s * m->nx + r], largest(expected, n * m->nx),
                            tolerance, "%s: state %d of sample %d", golden_names[f], r, s);
        hb_workspace_free(w);
        hb_predictor_free(p);
        free(z);
        free(u);
        free(dt);
        golden_close(g);
    }
}

static void test_ten_steps_are_golden(void **state)
{
    (void)state;
    for (int f = 0; golden_names[f]; f++) {
        golden *g = golden_open(golden_names[f]);
        const hb_model *m = g->model;
        const double *z0 = golden_get(g, "in.z0"), *expected = golden_get(g, "out.trajectory");
        const double *actions = m->nu ? golden_get(g, "in.actions") : NULL;
        const int n = golden_size(g, "in.actions", 0), nh = golden_size(g, "in.actions", 1);
        const double scale = largest(expected, n * (nh + 1) * m->nx);
        hb_real *z = new_rows(m->nx), *u = new_rows(m->nu), *dt = constant_row(m->dt);
        hb_predictor *p = golden_predictor(g);
        hb_workspace *w;
        assert_int_equal(hb_workspace_new(&w, m, false, NULL), 0);

        for (int s = 0; s < n; s++)
            for (int r = 0; r < m->nx; r++)
                z[r * HB_STRIDE + s] = (hb_real)z0[r];
        for (int k = 0; k < nh; k++) {
            for (int s = 0; s < n; s++)
                for (int r = 0; r < m->nu; r++)
                    u[r * HB_STRIDE + s] = (hb_real)actions[(s * nh + k) * m->nu + r];
            const hb_batch in = {.n = n, .z = z, .u = u, .dt = dt};
            hb_predictor_step(p, w, &in, z, NULL);
            for (int s = 0; s < n; s++)
                for (int r = 0; r < m->nx; r++)
                    check_close((double)z[r * HB_STRIDE + s], expected[(s * (nh + 1) + k + 1) * m->nx + r], scale,
                                tolerance, "%s: state %d of sample %d after %d steps", golden_names[f], r, s, k + 1);
        }
        hb_workspace_free(w);
        hb_predictor_free(p);
        free(z);
        free(u);
        free(dt);
        golden_close(g);
    }
}

/* z + F_avg + sum c_i G_i with G from hb_basis_increments: the collapsed head against the plain sum */
static void test_step_equals_the_sum_of_increments(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++) {
        hb_model *m = variant_model(v);
        sample_block in = random_block(m, 20, 5);
        hb_real *c = new_coefficients(m, 6), *g = new_rows((m->nb + 1) * m->nx), *next = new_rows(m->nx);
        hb_predictor *p;
        hb_workspace *w;
        assert_int_equal(hb_predictor_new(&p, m, NULL), 0);
        assert_int_equal(hb_workspace_new(&w, m, false, NULL), 0);

        for (int zero = 0; zero < 2; zero++) {
            hb_predictor_set(p, zero ? NULL : c);
            hb_predictor_step(p, w, &in.batch, next, NULL);
            hb_basis_increments(m, w, &in.batch, zero ? NULL : c, g);
            for (int r = 0; r < m->nx; r++)
                for (int s = 0; s < in.batch.n; s++) {
                    double expected = (double)(in.z[r * HB_STRIDE + s] + g[(m->nb * m->nx + r) * HB_STRIDE + s]);
                    for (int i = 0; !zero && i < m->nb; i++)
                        expected += (double)(c[m->shape == HB_PER_STATE ? i * m->nx + r : i] *
                                             g[(i * m->nx + r) * HB_STRIDE + s]);
                    check_close((double)next[r * HB_STRIDE + s], expected, 10, tolerance, "%s: state %d of sample %d",
                                variant_name(v), r, s);
                }
        }
        hb_workspace_free(w);
        hb_predictor_free(p);
        free(c);
        free(g);
        free(next);
        sample_block_free(&in);
        hb_model_free(m);
    }
}

/* --- the same bytes for any number of threads --- */

typedef struct shared_work {
    const hb_predictor *p;
    hb_workspace *w[8];
    char *tape[HB_STRIDE / HB_LANES];
    const sample_block *in;
    hb_real *next, *dz, *du;
    const hb_real *dnext;
} shared_work;

static void step_range(void *context, int part, int thread)
{
    const shared_work *work = context;
    const int from = part * HB_LANES;
    const hb_batch in = {.n = HB_LANES, .z = work->in->z + from, .u = work->in->u + from, .dt = work->in->dt + from};

    hb_predictor_step(work->p, work->w[thread], &in, work->next + from, work->tape[part]);
    hb_predictor_adjoint(work->p, work->w[thread], &in, work->tape[part], work->dnext + from, work->dz + from,
                         work->du + from);
}

static void test_threads_give_the_same_bytes(void **state)
{
    (void)state;
    const int counts[] = {1, 2, 3, 7};

    for (int v = 0; v < nvariants; v++) {
        hb_model *m = variant_model(v);
        sample_block in = random_block(m, HB_STRIDE, 5);
        hb_real *c = new_coefficients(m, 6), *dnext = random_rows(m->nx, 8);
        hb_real *first = NULL;
        const size_t size = (size_t)((2 * m->nx + m->nu) * HB_STRIDE) * sizeof(hb_real);

        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            hb_real *result = new_rows(2 * m->nx + m->nu);
            shared_work work = {
                .in = &in,
                .next = result,
                .dz = result + m->nx * HB_STRIDE,
                .du = result + 2 * m->nx * HB_STRIDE,
                .dnext = dnext,
            };
            hb_predictor *p;
            hb_pool *pool;
            assert_int_equal(hb_predictor_new(&p, m, NULL), 0);
            assert_int_equal(hb_pool_new(&pool, counts[k], NULL, NULL, NULL), 0);
            hb_predictor_set(p, c);
            work.p = p;
            for (int t = 0; t < counts[k]; t++)
                assert_int_equal(hb_workspace_new(&work.w[t], m, false, NULL), 0);
            for (int part = 0; part < HB_STRIDE / HB_LANES; part++)
                work.tape[part] = aligned_alloc(HB_ALIGNMENT, hb_predictor_tape_size(m) + HB_ALIGNMENT);

            hb_pool_run(pool, HB_STRIDE / HB_LANES, step_range, &work);
            if (!first) {
                first = result;
            } else {
                assert_memory_equal(first, result, size);
                free(result);
            }
            for (int t = 0; t < counts[k]; t++)
                hb_workspace_free(work.w[t]);
            for (int part = 0; part < HB_STRIDE / HB_LANES; part++)
                free(work.tape[part]);
            hb_pool_free(pool);
            hb_predictor_free(p);
        }
        free(first);
        free(c);
        free(dnext);
        sample_block_free(&in);
        hb_model_free(m);
    }
}

/* The step and the gradient of a recorded step have the bits of those that record nothing. */
static void test_a_record_changes_nothing(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++)
        for (int of = HB_OF_BASIS; of <= HB_OF_AVERAGE; of++) {
            hb_model *m = variant_model(v);
            const size_t nx = (size_t)m->nx, np = m->nparameters, nc = (size_t)hb_model_ncoefficients(m);
            sample_block in = random_block(m, 100, 5);
            hb_real *c = new_coefficients(m, 6), *end = random_rows(m->nx, 7);
            hb_real *z[2] = {new_rows(m->nx), new_rows(m->nx)}, *dz[2] = {new_rows(m->nx), new_rows(m->nx)};
            hb_real *dparameter[2] = {calloc(np + 1, sizeof **dparameter), calloc(np + 1, sizeof **dparameter)};
            hb_real *dc[2] = {calloc(nc + 1, sizeof **dc), calloc(nc + 1, sizeof **dc)};
            char *tape = aligned_alloc(HB_ALIGNMENT, hb_predictor_record_size(m));
            hb_predictor *p;
            hb_workspace *w;
            assert_int_equal(hb_predictor_new(&p, m, NULL), 0);
            assert_int_equal(hb_workspace_new(&w, m, true, NULL), 0);
            hb_predictor_set(p, of == HB_OF_BASIS ? c : NULL);

            hb_predictor_step(p, w, &in.batch, z[0], NULL);
            hb_predictor_gradient(p, w, &in.batch, end, dz[0], NULL, (hb_gradient_of)of, dparameter[0], dc[0]);
            hb_predictor_record(p, w, &in.batch, (hb_gradient_of)of, z[1], tape);
            hb_predictor_gradient_of_record(p, w, &in.batch, tape, end, dz[1], NULL, (hb_gradient_of)of, dparameter[1],
                                            dc[1]);
            assert_memory_equal(z[0], z[1], nx * HB_STRIDE * sizeof **z);
            assert_memory_equal(dz[0], dz[1], nx * HB_STRIDE * sizeof **dz);
            assert_memory_equal(dparameter[0], dparameter[1], np * sizeof **dparameter);
            assert_memory_equal(dc[0], dc[1], nc * sizeof **dc);
            for (int k = 0; k < 2; k++) {
                free(z[k]);
                free(dz[k]);
                free(dparameter[k]);
                free(dc[k]);
            }
            free(tape);
            free(c);
            free(end);
            hb_workspace_free(w);
            hb_predictor_free(p);
            sample_block_free(&in);
            hb_model_free(m);
        }
}

#ifdef HB_DOUBLE

/* a scalar of the step, sum of weight * z_next, to differentiate */
typedef struct probe {
    hb_model *m;
    hb_predictor *p;
    hb_workspace *w;
    sample_block in;
    hb_real *c, *weight;
    int v;
} probe;

static probe new_probe(int v)
{
    probe q = {.m = variant_model(v), .v = v};

    q.in = random_block(q.m, 5, 21);
    q.c = new_coefficients(q.m, 22);
    q.weight = random_rows(q.m->nx, 23);
    assert_int_equal(hb_predictor_new(&q.p, q.m, NULL), 0);
    assert_int_equal(hb_workspace_new(&q.w, q.m, true, NULL), 0);
    hb_predictor_set(q.p, q.c);
    return q;
}

static void probe_free(probe *q)
{
    hb_workspace_free(q->w);
    hb_predictor_free(q->p);
    free(q->c);
    free(q->weight);
    sample_block_free(&q->in);
    hb_model_free(q->m);
}

static double value(const probe *q)
{
    hb_real *next = new_rows(q->m->nx);
    double sum = 0;

    hb_predictor_step(q->p, q->w, &q->in.batch, next, NULL);
    for (int r = 0; r < q->m->nx; r++)
        for (int s = 0; s < q->in.batch.n; s++)
            sum += q->weight[r * HB_STRIDE + s] * next[r * HB_STRIDE + s];
    free(next);
    return sum;
}

/* derivative of value() by *x; `set` puts coefficients and parameters into force again */
static double difference(const probe *q, hb_real *x, const hb_real *set)
{
    const double step = 1e-5, kept = *x;
    double at[2];

    for (int side = 0; side < 2; side++) {
        *x = kept + (side ? step : -step);
        hb_predictor_set(q->p, set);
        at[side] = value(q);
    }
    *x = kept;
    hb_predictor_set(q->p, set);
    return (at[1] - at[0]) / (2 * step);
}

static void check_inputs(const probe *q, const hb_real *dz, const hb_real *du)
{
    for (int r = 0; r < q->m->nx; r++)
        for (int s = 0; s < q->in.batch.n; s++)
            check_close(dz[r * HB_STRIDE + s], difference(q, &q->in.z[r * HB_STRIDE + s], q->c), 1, 1e-7,
                        "%s: state %d of sample %d", variant_name(q->v), r, s);
    for (int r = 0; r < q->m->nu; r++)
        for (int s = 0; s < q->in.batch.n; s++)
            check_close(du[r * HB_STRIDE + s], difference(q, &q->in.u[r * HB_STRIDE + s], q->c), 1, 1e-7,
                        "%s: control %d of sample %d", variant_name(q->v), r, s);
}

static void test_adjoint_equals_finite_differences(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++) {
        probe q = new_probe(v);
        hb_real *next = new_rows(q.m->nx), *dz = new_rows(q.m->nx), *du = new_rows(q.m->nu);
        char *tape = aligned_alloc(HB_ALIGNMENT, hb_predictor_tape_size(q.m) + HB_ALIGNMENT);

        for (int k = 0; hb_kernels_at(k); k++) {
            q.w->kernels = hb_kernels_at(k);
            hb_predictor_step(q.p, q.w, &q.in.batch, next, tape);
            hb_predictor_adjoint(q.p, q.w, &q.in.batch, tape, q.weight, dz, du);
            check_inputs(&q, dz, du);
        }
        free(tape);
        free(next);
        free(dz);
        free(du);
        probe_free(&q);
    }
}

static void test_gradient_equals_finite_differences(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++) {
        probe q = new_probe(v);
        const int nc = hb_model_ncoefficients(q.m);
        hb_real *dz = new_rows(q.m->nx), *du = new_rows(q.m->nu);
        hb_real *dparameter = calloc(q.m->nparameters, sizeof *dparameter), *dc = calloc((size_t)nc + 1, sizeof *dc);

        hb_predictor_gradient(q.p, q.w, &q.in.batch, q.weight, dz, du, HB_OF_BASIS, dparameter, dc);
        check_inputs(&q, dz, du);
        for (int i = 0; i < nc; i++)
            check_close(dc[i], difference(&q, &q.c[i], q.c), 1, 1e-7, "%s: coefficient %d", variant_name(v), i);
        for (size_t i = 0; i < q.m->nparameters; i++) {
            const double expected = belongs_to_average(q.m, i) ? 0 : difference(&q, &q.m->parameter[i], q.c);
            check_close(dparameter[i], expected, 1, 1e-7, "%s: parameter %zu", variant_name(v), i);
        }
        free(dparameter);
        free(dc);
        free(dz);
        free(du);
        probe_free(&q);
    }
}

static void test_gradient_of_the_average_equals_finite_differences(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++) {
        probe q = new_probe(v);
        hb_real *dz = new_rows(q.m->nx), *dparameter = calloc(q.m->nparameters, sizeof *dparameter);

        hb_predictor_set(q.p, NULL);
        hb_predictor_gradient(q.p, q.w, &q.in.batch, q.weight, dz, NULL, HB_OF_AVERAGE, dparameter, NULL);
        for (size_t i = 0; i < q.m->nparameters; i++)
            check_close(dparameter[i], difference(&q, &q.m->parameter[i], NULL), 1, 1e-7, "%s: parameter %zu",
                        variant_name(v), i);
        free(dparameter);
        free(dz);
        probe_free(&q);
    }
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_step_is_golden),
        cmocka_unit_test(test_ten_steps_are_golden),
        cmocka_unit_test(test_step_equals_the_sum_of_increments),
        cmocka_unit_test(test_threads_give_the_same_bytes),
        cmocka_unit_test(test_a_record_changes_nothing),
#ifdef HB_DOUBLE
        cmocka_unit_test(test_adjoint_equals_finite_differences),
        cmocka_unit_test(test_gradient_equals_finite_differences),
        cmocka_unit_test(test_gradient_of_the_average_equals_finite_differences),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
