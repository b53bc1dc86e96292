/* A network by plain loops in double precision, and its derivatives by finite differences (double build). */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "base/numeric.h"
#include "dynamics/network.h"
#include "models.h"

#ifdef HB_DOUBLE
static const double tolerance = 1e-12;
#else
static const double tolerance = 2e-6;
#endif

enum { SAMPLES = 19 }; /* not a multiple of HB_LANES */

static const hb_mlp shapes[] = {
    {.nlayers = 1, .width = {3, 5}, .nparameters = 5 * 4},
    {.nlayers = 2, .width = {4, 17, 2}, .nparameters = 17 * 5 + 2 * 18},
    {.nlayers = 4, .width = {2, 9, 33, 6, 7}, .nparameters = 9 * 3 + 33 * 10 + 6 * 34 + 7 * 7},
};
enum { NSHAPES = sizeof shapes / sizeof *shapes, WIDEST = 33 };

static double activated(hb_activation activation, double x)
{
    return activation == HB_RELU ? fmax(x, 0) : activation == HB_TANH ? tanh(x) : x / (1 + exp(-x));
}

static void by_hand(const hb_mlp *shape, hb_activation activation, const hb_real *parameter, const double *in,
                    double *out)
{
    double x[WIDEST], y[WIDEST];

    memcpy(x, in, (size_t)shape->width[0] * sizeof *x);
    for (int l = 0; l < shape->nlayers; l++) {
        const int nin = shape->width[l], nout = shape->width[l + 1];
        for (int o = 0; o < nout; o++) {
            y[o] = (double)parameter[nout * nin + o];
            for (int i = 0; i < nin; i++)
                y[o] += (double)parameter[o * nin + i] * x[i];
            if (l + 1 < shape->nlayers)
                y[o] = activated(activation, y[o]);
        }
        memcpy(x, y, (size_t)nout * sizeof *x);
        parameter += nout * (nin + 1);
    }
    memcpy(out, x, (size_t)shape->width[shape->nlayers] * sizeof *out);
}

typedef struct fixture {
    hb_network of;
    const hb_mlp *shape;
    hb_real *parameter, *in, *out, *scratch;
    int nin, nout;
} fixture;

static fixture new_fixture(int k, hb_activation activation)
{
    const hb_mlp *shape = &shapes[k];
    fixture f = {.shape = shape, .nin = shape->width[0], .nout = shape->width[shape->nlayers]};

    f.parameter = calloc(shape->nparameters, sizeof *f.parameter);
    for (size_t p = 0; p < shape->nparameters; p++)
        f.parameter[p] = (hb_real)(hb_random_uniform((hb_random_key){7, (uint64_t)k}, p) - 0.5);
    f.in = random_rows(f.nin, 8);
    f.out = new_rows(f.nout);
    f.scratch = aligned_alloc(HB_ALIGNMENT, hb_network_scratch_size(shape) * sizeof *f.scratch);
    f.of = (hb_network){hb_kernels_default(), shape, activation, f.parameter};
    return f;
}

static void free_fixture(fixture *f)
{
    free(f->parameter);
    free(f->in);
    free(f->out);
    free(f->scratch);
}

static void sample_of(const fixture *f, int s, double *x)
{
    for (int i = 0; i < f->nin; i++)
        x[i] = (double)f->in[i * HB_STRIDE + s];
}

static void check_outputs(const fixture *f, int n, const char *way)
{
    double x[WIDEST], y[WIDEST];

    for (int s = 0; s < n; s++) {
        sample_of(f, s, x);
        by_hand(f->shape, f->of.activation, f->parameter, x, y);
        for (int o = 0; o < f->nout; o++)
            check_close((double)f->out[o * HB_STRIDE + s], y[o], 10, tolerance, "%s: output %d of sample %d", way, o,
                        s);
    }
}

static void test_every_way_forward_equals_plain_loops(void **state)
{
    (void)state;
    for (int k = 0; k < NSHAPES; k++)
        for (int a = HB_RELU; a <= HB_SILU; a++) {
            fixture f = new_fixture(k, (hb_activation)a);
            hb_real *columns = aligned_alloc(HB_ALIGNMENT, hb_network_columns_size(f.shape) * sizeof *columns);
            hb_real *few =
                aligned_alloc(HB_ALIGNMENT, HB_FEW * (size_t)(hb_padded(f.nin) + hb_padded(f.nout)) * sizeof *few);

            hb_network_forward(&f.of, f.in, f.out, SAMPLES, NULL, f.scratch, NULL);
            check_outputs(&f, SAMPLES, "a batch");

            for (int i = 0; i < f.nin; i++)
                few[i] = f.in[i * HB_STRIDE];
            memset(f.out, 0, (size_t)f.nout * HB_STRIDE * sizeof *f.out);
            hb_network_forward_single(&f.of, few, few + hb_padded(f.nin), f.scratch);
            for (int o = 0; o < f.nout; o++)
                f.out[o * HB_STRIDE] = few[hb_padded(f.nin) + o];
            check_outputs(&f, 1, "one sample");

            memset(f.out, 0, (size_t)f.nout * HB_STRIDE * sizeof *f.out);
            memset(columns, 0, hb_network_columns_size(f.shape) * sizeof *columns);
            hb_network_columns(f.shape, 0, f.parameter, columns);
            hb_network_forward_few(f.of.kernels, f.shape, f.of.activation, columns, f.in, f.out, HB_FEW, few,
                                   f.scratch);
            check_outputs(&f, HB_FEW, "a few");
            free(few);
            free(columns);
            free_fixture(&f);
        }
}

#ifdef HB_DOUBLE
/* sum over samples of <d, network(in)> */
static double loss(const fixture *f, const hb_real *d)
{
    double x[WIDEST], y[WIDEST], sum = 0;

    for (int s = 0; s < SAMPLES; s++) {
        sample_of(f, s, x);
        by_hand(f->shape, f->of.activation, f->parameter, x, y);
        for (int o = 0; o < f->nout; o++)
            sum += d[o * HB_STRIDE + s] * y[o];
    }
    return sum;
}

static double slope_of(const fixture *f, const hb_real *d, hb_real *at)
{
    const double step = 1e-5, before = *at;

    *at = before + step;
    double slope = loss(f, d);
    *at = before - step;
    slope -= loss(f, d);
    *at = before;
    return slope / (2 * step);
}

static void test_backward_equals_finite_differences(void **state)
{
    (void)state;
    for (int k = 0; k < NSHAPES; k++)
        for (int a = HB_TANH; a <= HB_SILU; a++) {
            fixture f = new_fixture(k, (hb_activation)a);
            hb_network_tape tape = {
                .slopes = aligned_alloc(HB_ALIGNMENT, hb_network_slopes_size(f.shape, f.of.activation) + HB_ALIGNMENT),
                .layer_inputs = aligned_alloc(HB_ALIGNMENT, hb_network_layer_inputs_size(f.shape) * sizeof(hb_real)),
            };
            hb_real *d = random_rows(f.nout, 9), *din = new_rows(f.nin), *backward = new_rows(f.nout);
            hb_real *gradient = calloc(f.shape->nparameters, sizeof *gradient);

            hb_network_forward(&f.of, f.in, f.out, SAMPLES, &tape, f.scratch, NULL);
            check_outputs(&f, SAMPLES, "with a tape");
            memcpy(backward, d, (size_t)f.nout * HB_STRIDE * sizeof *d); /* it is cut off behind the samples */
            hb_network_backward(&f.of, backward, din, SAMPLES, &tape, gradient, f.scratch, NULL);
            for (size_t p = 0; p < f.shape->nparameters; p++)
                check_close(gradient[p], slope_of(&f, d, &f.parameter[p]), 10, 1e-9, "shape %d: parameter %zu", k, p);
            for (int i = 0; i < f.nin; i++)
                for (int s = 0; s < SAMPLES; s++)
                    check_close(din[i * HB_STRIDE + s], slope_of(&f, d, &f.in[i * HB_STRIDE + s]), 10, 1e-9,
                                "shape %d: input %d of sample %d", k, i, s);

            /* through some rows of the last layer, of which all but the last learn */
            const hb_head h = hb_mlp_head(f.shape);
            const hb_head_rows some = {.first = 0, .rows = f.nout, .learning = f.nout - 1};
            hb_real *part = calloc(f.shape->nparameters, sizeof *part);
            memcpy(backward, d, (size_t)f.nout * HB_STRIDE * sizeof *d);
            hb_network_forward(&f.of, f.in, f.out, SAMPLES, &tape, f.scratch, NULL);
            hb_network_backward_rows(&f.of, some, backward, NULL, SAMPLES, &tape, part, f.scratch, NULL);
            for (size_t p = 0; p < f.shape->nparameters; p++) {
                const bool head = p >= h.weight;
                const size_t row = p < h.bias ? (p - h.weight) / h.width : p - h.bias;
                const bool learns = !head || row < (size_t)some.learning;
                assert_near(part[p], learns ? gradient[p] : 0, 1e-12);
            }
            free(part);
            free(gradient);
            free(backward);
            free(din);
            free(d);
            free(tape.slopes);
            free(tape.layer_inputs);
            free_fixture(&f);
        }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_forward_equals_plain_loops),
#ifdef HB_DOUBLE
        cmocka_unit_test(test_backward_equals_finite_differences),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
