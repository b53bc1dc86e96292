/* The collapsed head against the whole head applied to a vector, and its gradient against finite differences, which are
 * exact but for rounding: the head is linear in its weights, and linear in the coefficients. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "base/numeric.h"
#include "dynamics/collapse.h"
#include "models.h"

#ifdef HB_DOUBLE
static const double tolerance = 1e-13, step = 0.5, slope_tolerance = 1e-12;
#else
static const double tolerance = 1e-5, step = 0.5, slope_tolerance = 1e-4;
#endif

static bool is_shared(const hb_model *m)
{
    return m->architecture == HB_SHARED && m->basis.nlayers;
}

static double coefficient_of(const hb_model *m, const hb_real *c, int i, int r)
{
    return i == m->nb ? 1 : !c ? 0 : (double)c[m->shape == HB_PER_STATE ? i * m->nx + r : i];
}

/* The rate of state r when the trunk puts out x: sum over the blocks of the head. */
static double rate_of(const hb_model *m, const hb_real *c, int r, const double *x)
{
    const int width = m->basis.width[m->basis.nlayers - 1], blocks = m->basis.width[m->basis.nlayers] / m->nx;
    const hb_real *bias = m->parameter + m->basis.nparameters - blocks * m->nx, *weight = bias - blocks * m->nx * width;
    double sum = 0;

    for (int i = 0; i < blocks; i++) {
        double row = (double)bias[i * m->nx + r];
        for (int k = 0; k < width; k++)
            row += (double)weight[(i * m->nx + r) * width + k] * x[k];
        sum += coefficient_of(m, c, i, r) * row;
    }
    return sum;
}

static void test_collapsed_head_equals_the_sum(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++) {
        hb_model *m = variant_model(v);
        const int width = is_shared(m) ? m->basis.width[m->basis.nlayers - 1] : 0;
        hb_real *c = new_coefficients(m, 3), *weight = calloc((size_t)(m->nx * (width + 1)), sizeof *weight);
        double x[64];

        for (int k = 0; k < width; k++)
            x[k] = hb_random_normal((hb_random_key){5, 5}, (uint64_t)k);
        for (int zero = 0; zero < 2 && width; zero++) {
            hb_real *bias = weight + m->nx * width;
            hb_collapse(m, m->shape, zero ? NULL : c, weight, bias);
            for (int r = 0; r < m->nx; r++) {
                double found = (double)bias[r];
                for (int k = 0; k < width; k++)
                    found += (double)weight[r * width + k] * x[k];
                check_close(found, rate_of(m, zero ? NULL : c, r, x), 10, tolerance, "%s: state %d", variant_name(v),
                            r);
            }
        }
        free(weight);
        free(c);
        hb_model_free(m);
    }
}

static void test_the_same_shape_as_a_network(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++) {
        hb_model *m = variant_model(v);
        if (is_shared(m)) {
            const hb_mlp shape = hb_collapsed_shape(m);
            size_t parameters = 0;
            for (int l = 0; l < shape.nlayers; l++)
                parameters += (size_t)shape.width[l + 1] * (size_t)(shape.width[l] + 1);
            assert_int_equal(shape.nlayers, m->basis.nlayers);
            assert_int_equal(shape.width[shape.nlayers], m->nx);
            assert_int_equal(shape.nparameters, parameters);
            assert_int_equal(hb_mlp_head(&shape).weight, hb_mlp_head(&m->basis).weight);
        }
        hb_model_free(m);
    }
}

/* L = <d, (W, b)> */
static double loss(const hb_model *m, const hb_real *c, const hb_real *d, hb_real *scratch)
{
    const int width = m->basis.width[m->basis.nlayers - 1], n = m->nx * (width + 1);
    double sum = 0;

    hb_collapse(m, m->shape, c, scratch, scratch + m->nx * width);
    for (int i = 0; i < n; i++)
        sum += (double)d[i] * (double)scratch[i];
    return sum;
}

static void check_gradient(hb_model *m, const char *name)
{
    const hb_head h = hb_mlp_head(&m->basis);
    const int nc = hb_model_ncoefficients(m), width = (int)h.width, n = m->nx * (width + 1);
    hb_real *c = new_coefficients(m, 3), *d = calloc((size_t)n, sizeof *d), *scratch = calloc((size_t)n, sizeof *d);
    hb_real *basis = calloc(m->nparameters, sizeof *basis), *average = calloc(m->nparameters, sizeof *average);
    hb_real *dc = calloc((size_t)nc + 1, sizeof *dc);

    for (int i = 0; i < n; i++)
        d[i] = (hb_real)hb_random_normal((hb_random_key){6, 6}, (uint64_t)i);
    hb_uncollapse(m, m->shape, c, HB_BLOCKS_OF_BASIS, d, d + m->nx * width, basis, dc);
    hb_uncollapse(m, m->shape, c, HB_BLOCK_OF_AVERAGE, d, d + m->nx * width, average, NULL);
    for (size_t p = 0; p < m->basis.nparameters; p++) {
        const hb_real before = m->parameter[p];
        double slope = 0;
        for (int sign = -1; sign <= 1; sign += 2) {
            m->parameter[p] = before + (hb_real)(sign * step);
            slope += sign * loss(m, c, d, scratch) / (2 * step);
        }
        m->parameter[p] = before;
        check_close((double)(basis[p] + average[p]), slope, 10, slope_tolerance, "%s: parameter %zu", name, p);
        /* each learns its own rows alone */
        const size_t row = p < h.weight ? 0 : p < h.bias ? (p - h.weight) / h.width : p - h.bias;
        const bool of_average = row >= (size_t)(m->nb * m->nx);
        assert_true((of_average ? basis : average)[p] == 0);
    }
    for (int i = 0; i < nc; i++) {
        const hb_real before = c[i];
        double slope = 0;
        for (int sign = -1; sign <= 1; sign += 2) {
            c[i] = before + (hb_real)(sign * step);
            slope += sign * loss(m, c, d, scratch) / (2 * step);
        }
        c[i] = before;
        check_close((double)dc[i], slope, 10, slope_tolerance, "%s: coefficient %d", name, i);
    }
    free(dc);
    free(average);
    free(basis);
    free(scratch);
    free(d);
    free(c);
}

static void test_gradient_equals_finite_differences(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++) {
        hb_model *m = variant_model(v);
        if (is_shared(m))
            check_gradient(m, variant_name(v));
        hb_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collapsed_head_equals_the_sum),
        cmocka_unit_test(test_the_same_shape_as_a_network),
        cmocka_unit_test(test_gradient_equals_finite_differences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
