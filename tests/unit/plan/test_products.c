/* Products of every instruction set of this machine, against the formula written out. */
#include "check.h"

#include <string.h>

#include "base/numeric.h"
#include "dynamics/kernels.h"
#include "plan/products.h"

enum { MOST = 21, STRIDE = 24 };

static const int sizes[] = {1, 2, 3, 4, 5, 8, 13, 17, 21};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* a third of the numbers are zero, as in Jacobians */
static void fill(uint64_t stream, double *x, int n)
{
    const hb_random_key key = {.seed = 7, .stream = stream};

    for (int i = 0; i < n; i++)
        x[i] = hb_random_uniform(key, (uint64_t)(2 * i)) < 1.0 / 3 ? 0 : hb_random_normal(key, (uint64_t)(2 * i + 1));
}

static void check_size(const hb_products *p, int rows, int inner, int width, bool transposed)
{
    double x[MOST * MOST], z[MOST * STRIDE], out[MOST * STRIDE], lower[MOST * STRIDE], before[MOST * STRIDE];
    const ptrdiff_t row = transposed ? 1 : inner, column = transposed ? rows : 1;

    fill(1, x, rows * inner);
    fill(2, z, inner * STRIDE);
    fill(3, before, MOST * STRIDE);
    memcpy(out, before, sizeof out);
    memcpy(lower, before, sizeof lower);
    p->add(rows, inner, width, x, row, column, z, STRIDE, out, STRIDE);
    if (rows == width)
        p->add_lower(rows, inner, x, row, column, z, STRIDE, lower, STRIDE);
    for (int i = 0; i < MOST; i++)
        for (int j = 0; j < STRIDE; j++) {
            double sum = before[i * STRIDE + j];
            for (int k = 0; i < rows && j < width && k < inner; k++)
                sum += x[i * row + k * column] * z[k * STRIDE + j];
            assert_near(out[i * STRIDE + j], sum, 1e-12);
            if (rows == width && j <= i)
                assert_near(lower[i * STRIDE + j], sum, 1e-12);
            /* nothing beyond the matrix is touched */
            if (i >= rows || j >= width)
                assert_true(lower[i * STRIDE + j] == before[i * STRIDE + j] &&
                            out[i * STRIDE + j] == before[i * STRIDE + j]);
        }
}

static void test_products_are_those_of_the_formula(void **state)
{
    (void)state;
    for (int k = 0; hb_kernels_at(k); k++) {
        const hb_products *p = hb_products_find(hb_kernels_at(k)->name);
        assert_string_equal(p->name, hb_kernels_at(k)->name);
        for (int a = 0; a < SIZES; a++)
            for (int b = 0; b < SIZES; b++)
                for (int c = 0; c < SIZES; c++)
                    for (int transposed = 0; transposed < 2; transposed++)
                        check_size(p, sizes[a], sizes[b], sizes[c], transposed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_are_those_of_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
