/* Every kernel that this machine can run: matrix products against plain loops in double, activations against the C
 * library. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "dynamics/kernels.h"
#include "dynamics/network.h"
#include "models.h"
#include "base/numeric.h"

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
                    hb_real *a = random_rows(nout * nin / HB_STRIDE + 1, 1),
                            *bias = random_rows(nout / HB_STRIDE + 1, 2);
                    hb_real *x = random_rows(nin, 3), *y = new_rows(nout);

                    hb_kernels_at(k)->affine(nout, nin, a, row, column, transposed ? NULL : bias, x, HB_STRIDE, y,
                                             HB_STRIDE, n, NULL);
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

/* The gradient of a layer's weights and biases is added to what is there, and nothing beside it is touched. */
static void test_outer_equals_plain_loops(void **state)
{
    (void)state;
    const int sizes[][2] = {{1, 1}, {3, 2}, {13, 51}, {51, 17}, {51, 51}, {64, 64}, {7, 5}, {128, 33}};

    for (int k = 0; hb_kernels_at(k); k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int n = HB_LANES; n <= HB_STRIDE; n += HB_LANES) {
                const int nout = sizes[i][0], nin = sizes[i][1], rows = nout * (nin + 1) / HB_STRIDE + 2;
                hb_real *d = random_rows(nout, 1), *x = random_rows(nin, 2);
                hb_real *before = random_rows(rows, 3), *weight = random_rows(rows, 3), *bias = weight + nout * nin;

                hb_kernels_at(k)->outer(nout, nin, d, x, weight, bias, n);
                for (int r = 0; r < nout; r++)
                    for (int c = 0; c <= nin; c++) {
                        const int at = c < nin ? r * nin + c : nout * nin + r;
                        double expected = (double)before[at];
                        for (int s = 0; s < n; s++)
                            expected += (double)d[r * HB_STRIDE + s] * (c < nin ? (double)x[c * HB_STRIDE + s] : 1);
                        check_close((double)weight[at], expected, sqrt(n + 1.0), sizeof(hb_real) == 4 ? 2e-6 : 1e-14,
                                    "%s: %d x %d, row %d, column %d, %d lanes", hb_kernels_at(k)->name, nout, nin, r, c,
                                    n);
                    }
                const int end = nout * (nin + 1);
                assert_memory_equal(weight + end, before + end, (size_t)(rows * HB_STRIDE - end) * sizeof *weight);
                free(d);
                free(x);
                free(before);
                free(weight);
            }
}

/* A network of a few samples has the bits of the same samples in a batch. */
static void test_few_equal_a_batch(void **state)
{
    (void)state;
    const hb_mlp shapes[] = {{.nlayers = 4, .width = {17, 64, 64, 64, 13}},
                             {.nlayers = 3, .width = {3, 130, 51, 2}},
                             {.nlayers = 1, .width = {5, 33}}};

    for (int k = 0; hb_kernels_at(k); k++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int activation = 0; activation <= HB_SILU; activation++) {
                hb_mlp shape = shapes[i];
                for (int l = 0; l < shape.nlayers; l++)
                    shape.nparameters += (size_t)(shape.width[l + 1] * (shape.width[l] + 1));
                const int nin = shape.width[0], nout = shape.width[shape.nlayers];
                hb_real *parameter = random_rows((int)shape.nparameters / HB_STRIDE + 1, 7);
                hb_real *columns = new_rows((int)hb_network_columns_size(&shape) / HB_STRIDE + 1);
                hb_real *scratch = new_rows((int)hb_network_scratch_size(&shape) / HB_STRIDE + 1);
                hb_real *few = new_rows(HB_FEW * (hb_padded(nin) + hb_padded(nout)) / HB_STRIDE + 1);
                hb_real *x = random_rows(nin, 8), *batch = new_rows(nout), *y = new_rows(nout);

                hb_network_columns(&shape, 0, parameter, columns);
                const hb_network network = {hb_kernels_at(k), &shape, (hb_activation)activation, parameter};
                hb_network_forward(&network, x, batch, HB_STRIDE, NULL, scratch, NULL);
                for (int n = 1; n <= HB_FEW; n++) {
                    hb_network_forward_few(hb_kernels_at(k), &shape, (hb_activation)activation, columns, x, y, n, few,
                                           scratch);
                    for (int r = 0; r < nout; r++)
                        assert_memory_equal(y + r * HB_STRIDE, batch + r * HB_STRIDE, (size_t)n * sizeof *y);
                }
                free(parameter);
                free(columns);
                free(scratch);
                free(few);
                free(x);
                free(batch);
                free(y);
            }
}

/* distance in units of the last place of a number of that size */
static double ulps(double found, double expected)
{
    const double place = sizeof(hb_real) == 4
                             ? (double)(nextafterf((float)fabs(expected), INFINITY) - (float)fabs(expected))
                             : nextafter(fabs(expected), INFINITY) - fabs(expected);
    return fabs(found - expected) / place;
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* tanh and SiLU to 2 units in the last place, measured over the range in which they are not flat; doubles, which are
 * held against doubles, to 3 */
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
            assert_true(worst <= (sizeof(hb_real) == 4 ? 2 : 3));
            free(y);
        }
}

static void test_activations_saturate_and_keep_nan(void **state)
{
    (void)state;
    for (int k = 0; hb_kernels_at(k); k++) {
        const double in[] = {0, 1000, -1000, INFINITY, NAN};
        const double expected[3][5] = {{0, 1000, 0, INFINITY, NAN}, {0, 1, -1, 1, NAN}, {0, 1000, 0, INFINITY, NAN}};
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

/* through the identity, so that what comes out is the activation of x alone, and on the way back its slope times d */
static void test_slopes_are_derivatives(void **state)
{
    (void)state;
    for (int k = 0; hb_kernels_at(k); k++)
        for (int activation = HB_RELU; activation <= HB_SILU; activation++)
            for (int n = HB_LANES; n <= HB_STRIDE; n += HB_LANES) {
                enum { ROWS = 15 };
                const hb_kernels *kernels = hb_kernels_at(k);
                hb_real *x = random_rows(ROWS, 9), *y = new_rows(ROWS), *d = new_rows(ROWS), *below = new_rows(ROWS);
                hb_real *kept = new_rows(ROWS), identity[ROWS * ROWS] = {0}, bias[ROWS] = {0};
                void *slope = aligned_alloc(HB_ALIGNMENT, hb_kernels_slope_size((hb_activation)activation, ROWS));

                for (int r = 0; r < ROWS; r++)
                    identity[r * ROWS + r] = 1;
                for (int i = 0; i < ROWS * HB_STRIDE; i++)
                    d[i] = 2;
                kernels->layer((hb_activation)activation, ROWS, ROWS, identity, bias, x, y, NULL, n, NULL);
                kernels->layer((hb_activation)activation, ROWS, ROWS, identity, bias, x, kept, slope, n, NULL);
                kernels->layer_back((hb_activation)activation, ROWS, ROWS, identity, d, below, slope, n, NULL);
                kernels->times_slope((hb_activation)activation, ROWS, d, slope, n);
                assert_memory_equal(y, kept, ROWS * HB_STRIDE * sizeof *y);
                for (int i = 0; i < ROWS * HB_STRIDE; i++) {
                    const double at = (double)x[i], t = tanh(at), sigmoid = 1 / (1 + exp(-at));
                    const double value = activation == HB_RELU ? fmax(at, 0) : activation == HB_TANH ? t : at * sigmoid;
                    const double derivative = activation == HB_RELU   ? at > 0
                                              : activation == HB_TANH ? 1 - t * t
                                                                      : sigmoid * (1 + at * (1 - sigmoid));
                    const bool computed = i % HB_STRIDE < n;
                    assert_near((double)y[i], computed ? value : 0, 2e-6);
                    assert_near((double)below[i], computed ? 2 * derivative : 0, 2e-6);
                    assert_near((double)d[i], computed ? 2 * derivative : 2, 2e-6);
                }
                free(slope);
                free(x);
                free(y);
                free(kept);
                free(d);
                free(below);
            }
}

static void test_combine_equals_plain_loops(void **state)
{
    (void)state;
    enum { ROWS = 5 };

    for (int k = 0; hb_kernels_at(k); k++)
        for (int what = 0; what < 8; what++)
            for (int n = HB_LANES; n <= HB_STRIDE; n += HB_LANES) {
                hb_real *x = random_rows(ROWS, 1), *base = random_rows(ROWS, 2), *of_row = random_rows(1, 3);
                hb_real *of_lane = random_rows(1, 4), *y = new_rows(ROWS);

                hb_kernels_at(k)->combine(ROWS, n, what & 1 ? base : NULL, (hb_real)0.5, what & 2 ? of_row : NULL,
                                          what & 4 ? of_lane : NULL, x, y);
                for (int i = 0; i < ROWS * HB_STRIDE; i++) {
                    const int r = i / HB_STRIDE, s = i % HB_STRIDE;
                    double expected = 0.5 * (double)x[i];
                    expected *= what & 2 ? (double)of_row[r] : 1;
                    expected *= what & 4 ? (double)of_lane[s] : 1;
                    expected += what & 1 ? (double)base[i] : 0;
                    assert_near((double)y[i], s < n ? expected : 0, 1e-6);
                }
                free(x);
                free(base);
                free(of_row);
                free(of_lane);
                free(y);
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

/* lanes copied out are those of their source, for numbers and for bits, whatever the cut */
static void test_spread_copies_lanes(void **state)
{
    (void)state;
    enum { ROWS = 3 };
    const hb_kernels *k = hb_kernels_at(0);

    for (int activation = 0; activation < 2; activation++) {
        const hb_activation kind = activation ? HB_RELU : HB_SILU;
        hb_real *x = new_rows(ROWS), *d = new_rows(ROWS), *e = new_rows(ROWS);
        char *slope = aligned_alloc(HB_ALIGNMENT, hb_kernels_slope_size(kind, ROWS));
        char *spread = aligned_alloc(HB_ALIGNMENT, hb_kernels_slope_size(kind, ROWS));
        /* the identity, so that layer_back leaves slope * d */
        const hb_real identity[ROWS * ROWS] = {[0] = 1, [4] = 1, [8] = 1};

        for (int i = 0; i < ROWS * HB_STRIDE; i++)
            x[i] = (hb_real)sin(1.7 * i), d[i] = 1;
        memset(slope, 0, hb_kernels_slope_size(kind, ROWS));
        memset(spread, 0, hb_kernels_slope_size(kind, ROWS));
        k->activate(kind, ROWS, x, slope, HB_STRIDE);
        k->layer_back(kind, ROWS, ROWS, identity, d, e, slope, HB_STRIDE, NULL);
        for (int repeat = 1; repeat <= 40; repeat += 3)
            for (int first = 0; first < 60; first += 7)
                for (int n = 1; n <= HB_STRIDE && (first + n - 1) / repeat < HB_STRIDE; n += 5) {
                    hb_kernels_spread_slopes(kind, ROWS, slope, first, repeat, n, spread);
                    hb_real back[ROWS * HB_STRIDE] __attribute__((aligned(HB_ALIGNMENT))) = {0};
                    k->layer_back(kind, ROWS, ROWS, identity, d, back, spread, hb_padded(n), NULL);
                    for (int r = 0; r < ROWS; r++)
                        for (int s = 0; s < hb_padded(n); s++) {
                            const int from = (first + (s < n ? s : n - 1)) / repeat;
                            assert_true(back[r * HB_STRIDE + s] == e[r * HB_STRIDE + from]);
                        }
                }
        free(x);
        free(d);
        free(e);
        free(slope);
        free(spread);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread_copies_lanes),
        cmocka_unit_test(test_affine_equals_plain_loops),
        cmocka_unit_test(test_affine_single_equals_affine),
        cmocka_unit_test(test_outer_equals_plain_loops),
        cmocka_unit_test(test_few_equal_a_batch),
        cmocka_unit_test(test_activations_are_accurate),
        cmocka_unit_test(test_activations_saturate_and_keep_nan),
        cmocka_unit_test(test_slopes_are_derivatives),
        cmocka_unit_test(test_combine_equals_plain_loops),
        cmocka_unit_test(test_a_kernel_can_be_asked_for_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
