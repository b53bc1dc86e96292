/* Every kernel that this machine can run: matrix products against plain loops in double, activations against the C
 * library. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "kernels.h"
#include "models.h"
#include "numeric.h"

static void test_affine_equals_plain_loops(void **state)
{
    (void)state;
    const int sizes[][2] = {{1, 1}, {3, 2}, {13, 51}, {51, 17}, {51, 51}, {64, 64}, {7, 5}, {128, 33}};

    for (int k = 0; hb_kernels_at(k); k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int n = HB_LANES; n <= HB_STRIDE; n += HB_LANES)
                for (int transposed = 0; transposed < 2; transposed++) {
                    const int nout = sizes[i][0], nin = sizes[i][1];
                    const ptrdiff_t row = transposed ? 1 : nin, column = transposed ? nout : 1;
                    hb_real *a = random_rows(nout * nin / HB_STRIDE + 1, 1), *bias = random_rows(nout / HB_STRIDE + 1, 2);
                    hb_real *x = random_rows(nin, 3), *y = new_rows(nout);

                    hb_kernels_at(k)->affine(nout, nin, a, row, column, transposed ? NULL : bias, x, HB_STRIDE, y,
                                             HB_STRIDE, n);
                    for (int r = 0; r < nout; r++)
                        for (int s = 0; s < HB_STRIDE; s++) {
                            double expected = s < n && !transposed ? (double)bias[r] : 0;
                            for (int c = 0; s < n && c < nin; c++)
                                expected += (double)a[r * row + c * column] * (double)x[c * HB_STRIDE + s];
                            check_close((double)y[r * HB_STRIDE + s], expected, sqrt(nin + 1.0),
                                        sizeof(hb_real) == 4 ? 2e-6 : 1e-14, "%s: %d x %d, row %d, lane %d of %d",
                                        hb_kernels_at(k)->name, nout, nin, r, s, n);
                        }
                    free(a);
                    free(bias);
                    free(x);
                    free(y);
                }
}

static void test_affine_single_equals_affine(void **state)
{
    (void)state;
    const int sizes[][2] = {{1, 1}, {13, 51}, {51, 17}, {117, 64}, {6, 130}};

    for (int k = 0; hb_kernels_at(k); k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const int nout = sizes[i][0], nin = sizes[i][1];
            hb_real *a = random_rows(nout * nin / HB_STRIDE + 1, 4), *bias = random_rows(nout / HB_STRIDE + 1, 5);
            hb_real *x = random_rows(nin / HB_STRIDE + 1, 6), *y = new_rows(nout / HB_STRIDE + 1);

            hb_kernels_at(k)->affine_single(nout, nin, a, bias, x, y);
            for (int r = 0; r < nout; r++) {
                double expected = (double)bias[r];
                for (int c = 0; c < nin; c++)
                    expected += (double)a[r * nin + c] * (double)x[c];
                check_close((double)y[r], expected, sqrt(nin + 1.0), sizeof(hb_real) == 4 ? 2e-6 : 1e-14, "%s: row %d",
                            hb_kernels_at(k)->name, r);
            }
            free(a);
            free(bias);
            free(x);
            free(y);
        }
}

/* distance in units of the last place of a number of that size */
static double ulps(double found, double expected)
{
    const double place = sizeof(hb_real) == 4 ? (double)(nextafterf((float)fabs(expected), INFINITY) - (float)fabs(expected))
                                              : nextafter(fabs(expected), INFINITY) - fabs(expected);
    return fabs(found - expected) / place;
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* tanh and SiLU to 3 units in the last place, measured over the range in which they are not flat */
static void test_activations_are_accurate(void **state)
{
    (void)state;
    enum { POINTS = 400000 };

    for (int k = 0; hb_kernels_at(k); k++)
        for (int activation = HB_TANH; activation <= HB_SILU; activation++) {
            hb_real *y = new_rows(1);
            double worst = 0, worst_at = 0;
            for (int i = 0; i < POINTS; i += HB_STRIDE) {
                double x[HB_STRIDE];
                for (int s = 0; s < HB_STRIDE; s++) {
                    /* dense around zero, out to +-80 */
                    const double t = 2.0 * (i + s) / POINTS - 1;
                    y[s] = (hb_real)(80 * t * t * t);
                    x[s] = (double)y[s];
                }
                hb_kernels_at(k)->activate((hb_activation)activation, 1, y, NULL, HB_STRIDE);
                for (int s = 0; s < HB_STRIDE; s++) {
                    const double off = ulps((double)y[s], activation == HB_TANH ? tanh(x[s]) : silu(x[s]));
                    if (off > worst) {
                        worst = off;
                        worst_at = x[s];
                    }
                }
            }
            print_message("%s, %s: %.2f ulp at %g\n", hb_kernels_at(k)->name, hb_activation_name[activation], worst,
                          worst_at);
            assert_true(worst <= 3);
            free(y);
        }
}

static void test_activations_saturate_and_keep_nan(void **state)
{
    (void)state;
    for (int k = 0; hb_kernels_at(k); k++) {
        const double in[] = {0, 1000, -1000, INFINITY, NAN};
        const double expected[3][5] = {
            {0, 1000, 0, INFINITY, NAN}, {0, 1, -1, 1, NAN}, {0, 1000, 0, INFINITY, NAN}};
        for (int activation = HB_RELU; activation <= HB_SILU; activation++) {
            hb_real *y = new_rows(1);
            for (int i = 0; i < 5; i++)
                y[i] = (hb_real)in[i];
            hb_kernels_at(k)->activate((hb_activation)activation, 1, y, NULL, HB_LANES);
            for (int i = 0; i < 5; i++) {
                if (isnan(expected[activation][i]))
                    assert_true(isnan(y[i]));
                else if (isinf(expected[activation][i]))
                    assert_true(isinf(y[i]));
                else
                    assert_near((double)y[i], expected[activation][i], 1e-30);
            }
            free(y);
        }
    }
}

static void test_slopes_are_derivatives(void **state)
{
    (void)state;
    for (int k = 0; hb_kernels_at(k); k++)
        for (int activation = HB_RELU; activation <= HB_SILU; activation++) {
            enum { ROWS = 5 };
            hb_real *x = random_rows(ROWS, 9), *y = new_rows(ROWS), *d = new_rows(ROWS);
            void *slope = aligned_alloc(HB_ALIGNMENT, hb_kernels_slope_size((hb_activation)activation, ROWS));

            memcpy(y, x, ROWS * HB_STRIDE * sizeof *x);
            for (int i = 0; i < ROWS * HB_STRIDE; i++)
                d[i] = 2;
            hb_kernels_at(k)->activate((hb_activation)activation, ROWS, y, slope, HB_STRIDE);
            hb_kernels_at(k)->times_slope((hb_activation)activation, ROWS, d, slope, HB_STRIDE);
            for (int i = 0; i < ROWS * HB_STRIDE; i++) {
                const double at = (double)x[i], t = tanh(at), sigmoid = 1 / (1 + exp(-at));
                const double expected = activation == HB_RELU   ? at > 0
                                        : activation == HB_TANH ? 1 - t * t
                                                                : sigmoid * (1 + at * (1 - sigmoid));
                assert_near((double)d[i], 2 * expected, 2e-6);
            }
            free(slope);
            free(x);
            free(y);
            free(d);
        }
}

static void test_a_kernel_can_be_asked_for_by_name(void **state)
{
    (void)state;
    for (int k = 0; hb_kernels_at(k); k++) {
        assert_ptr_equal(hb_kernels_find(hb_kernels_at(k)->name), hb_kernels_at(k));
        setenv("HILBERT_KERNEL", hb_kernels_at(k)->name, 1);
        assert_ptr_equal(hb_kernels_default(), hb_kernels_at(k));
    }
    setenv("HILBERT_KERNEL", "abacus", 1);
    assert_ptr_equal(hb_kernels_default(), hb_kernels_at(0));
    unsetenv("HILBERT_KERNEL");
    assert_ptr_equal(hb_kernels_default(), hb_kernels_at(0));
    assert_null(hb_kernels_find("abacus"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_affine_equals_plain_loops),   cmocka_unit_test(test_affine_single_equals_affine),
        cmocka_unit_test(test_activations_are_accurate),    cmocka_unit_test(test_activations_saturate_and_keep_nan),
        cmocka_unit_test(test_slopes_are_derivatives),      cmocka_unit_test(test_a_kernel_can_be_asked_for_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
