#include "models.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/numeric.h"

typedef struct variant {
    const char *name;
    int nx, nu;
    hb_architecture architecture;
    hb_integration integration;
    hb_average average;
    hb_activation activation;
    hb_shape shape;
    int substeps;
    int ninputs; /* 0: all; else the last ninputs states */
    int nb;
} variant;

static const variant variants[] = {
    {"shared, head, silu", 3, 2, HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_SILU, HB_VECTOR, 1, 0, 3},
    {"shared, head, tanh, per state, 2 sub-steps", 3, 2, HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_TANH, HB_PER_STATE,
     2, 0, 3},
    {"shared, head, masked", 4, 1, HB_SHARED, HB_COMBINED, HB_AVERAGE_HEAD, HB_SILU, HB_VECTOR, 1, 2, 3},
    {"shared, average network, no controls", 3, 0, HB_SHARED, HB_COMBINED, HB_AVERAGE_NETWORK, HB_TANH, HB_VECTOR, 1, 0,
     3},
    {"shared, no average, relu", 3, 2, HB_SHARED, HB_COMBINED, HB_AVERAGE_NONE, HB_RELU, HB_VECTOR, 1, 0, 3},
    {"shared, nominal quadrotor, masked", 13, 4, HB_SHARED, HB_COMBINED, HB_AVERAGE_NOMINAL, HB_SILU, HB_VECTOR, 1, 7,
     3},
    {"shared, nominal quadrotor, per state, 3 sub-steps", 13, 4, HB_SHARED, HB_COMBINED, HB_AVERAGE_NOMINAL, HB_TANH,
     HB_PER_STATE, 3, 0, 2},
    {"shared, direct", 3, 2, HB_SHARED, HB_DIRECT, HB_AVERAGE_HEAD, HB_SILU, HB_VECTOR, 1, 0, 3},
    {"independent, separate, network", 3, 2, HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NETWORK, HB_SILU, HB_VECTOR, 1, 0,
     3},
    {"independent, separate, relu, per state, 2 sub-steps", 3, 2, HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NETWORK,
     HB_RELU, HB_PER_STATE, 2, 0, 3},
    {"independent, separate, no average", 2, 0, HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NONE, HB_TANH, HB_VECTOR, 1, 0,
     4},
    {"independent, separate, nominal", 13, 4, HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NOMINAL, HB_TANH, HB_VECTOR, 1, 7,
     2},
    {"independent, combined, network", 3, 2, HB_INDEPENDENT, HB_COMBINED, HB_AVERAGE_NETWORK, HB_TANH, HB_PER_STATE, 1,
     0, 3},
    {"independent, combined, nominal", 13, 4, HB_INDEPENDENT, HB_COMBINED, HB_AVERAGE_NOMINAL, HB_SILU, HB_VECTOR, 2, 7,
     2},
    {"independent, direct", 3, 2, HB_INDEPENDENT, HB_DIRECT, HB_AVERAGE_NETWORK, HB_TANH, HB_VECTOR, 1, 0, 3},
    {"a plain neural ODE", 3, 2, HB_INDEPENDENT, HB_SEPARATE, HB_AVERAGE_NETWORK, HB_TANH, HB_VECTOR, 1, 0, 0},
};

const int nvariants = sizeof variants / sizeof *variants;

const char *variant_name(int v)
{
    return variants[v].name;
}

hb_model *variant_model(int v)
{
    return variant_model_sized(v, variants[v].nb, 5);
}

hb_model *variant_model_sized(int v, int nb, int width)
{
    const variant *want = &variants[v];
    int input[16];
    hb_model shape = {
        .nx = want->nx,
        .nu = want->nu,
        .nb = nb,
        .architecture = want->architecture,
        .activation = want->activation,
        .average = want->average,
        .integration = want->integration,
        .substeps = want->substeps,
        .method = HB_LEAST_SQUARES,
        .shape = want->shape,
        .ridge = 1e-3,
        .volume = 1,
        .dt = 0.05,
        .basis = {.nlayers = 3, .width = {0, width, width + 1}},
        .ninputs = want->nx,
    };
    if (want->ninputs) {
        shape.ninputs = want->ninputs;
        for (int i = 0; i < want->ninputs; i++)
            input[i] = want->nx - want->ninputs + i;
        shape.input = input;
    }
    if (want->average == HB_AVERAGE_NETWORK)
        shape.average_network = (hb_mlp){.nlayers = 2, .width = {0, width - 1}};
    if (want->average == HB_AVERAGE_NOMINAL) {
        shape.nominal = hb_nominal_find("quadrotor");
        assert_non_null(shape.nominal);
        memcpy(shape.nominal_parameter, shape.nominal->parameter_default, sizeof shape.nominal_parameter);
    }

    hb_model *m;
    hb_error err;
    if (hb_model_new(&m, &shape, want->name, &err))
        fail_msg("%s: %s", want->name, err.text);
    const hb_random_key key = {.seed = 99, .stream = (uint64_t)v};
    for (size_t p = 0; p < m->nparameters; p++)
        m->parameter[p] = (hb_real)(1.2 * hb_random_uniform(key, p) - 0.6);
    /* a normalisation that is not the identity; thrusts of the quadrotor's size */
    for (int i = 0; i < m->nx; i++) {
        m->state_mean[i] = 0.1 * i;
        m->state_std[i] = 0.5 + 0.1 * i;
    }
    if (want->average == HB_AVERAGE_NOMINAL)
        for (int i = 6; i < 10; i++) {
            m->state_mean[i] = i == 9;
            m->state_std[i] = 0.3;
        }
    for (int i = 0; i < m->nu; i++) {
        m->control_mean[i] = want->average == HB_AVERAGE_NOMINAL ? 0.066 : 0.2;
        m->control_std[i] = want->average == HB_AVERAGE_NOMINAL ? 0.01 : 0.7;
    }
    hb_model_seal(m);
    return m;
}

bool belongs_to_average(const hb_model *m, size_t p)
{
    if (m->average == HB_AVERAGE_NETWORK)
        return p >= m->nparameters - m->average_network.nparameters;
    if (m->average != HB_AVERAGE_HEAD)
        return false;
    const size_t nin = (size_t)m->basis.width[m->basis.nlayers - 1], nout = (size_t)m->basis.width[m->basis.nlayers];
    const size_t bias = m->basis.nparameters - nout, nx = (size_t)m->nx;
    return (p >= bias - nx * nin && p < bias) || p >= m->basis.nparameters - nx;
}

hb_real *new_rows(int rows)
{
    const size_t size =
        ((size_t)(rows > 0 ? rows : 1) * HB_STRIDE * sizeof(hb_real) + HB_ALIGNMENT - 1) / HB_ALIGNMENT * HB_ALIGNMENT;
    hb_real *x = aligned_alloc(HB_ALIGNMENT, size);
    assert_non_null(x);
    memset(x, 0, size);
    return x;
}

hb_real *random_rows(int rows, uint64_t seed)
{
    hb_real *x = new_rows(rows);
    for (int i = 0; i < rows * HB_STRIDE; i++)
        x[i] = (hb_real)hb_random_normal((hb_random_key){.seed = seed}, (uint64_t)i);
    return x;
}

hb_real *constant_row(double value)
{
    hb_real *x = new_rows(1);
    for (int s = 0; s < HB_STRIDE; s++)
        x[s] = (hb_real)value;
    return x;
}

hb_real *rows_from(const double *samples, int n, int rows)
{
    hb_real *x = new_rows(rows);
    for (int s = 0; s < n; s++)
        for (int r = 0; r < rows; r++)
            x[r * HB_STRIDE + s] = (hb_real)samples[s * rows + r];
    return x;
}

hb_real *new_coefficients(const hb_model *m, uint64_t seed)
{
    const int n = hb_model_ncoefficients(m);
    hb_real *c = calloc((size_t)n + 1, sizeof *c);
    assert_non_null(c);
    for (int i = 0; i < n; i++)
        c[i] = (hb_real)hb_random_normal((hb_random_key){.seed = seed, .stream = 1}, (uint64_t)i);
    return c;
}

sample_block random_block(const hb_model *m, int n, uint64_t seed)
{
    sample_block b = {.z = random_rows(m->nx, seed), .u = random_rows(m->nu, seed + 1), .dt = constant_row(m->dt)};

    for (int s = 0; s < n; s++)
        b.dt[s] = (hb_real)(m->dt * (0.5 + 0.3 * s / n));
    b.batch = (hb_batch){.n = n, .z = b.z, .u = b.u, .dt = b.dt};
    return b;
}

void sample_block_free(sample_block *b)
{
    free(b->z);
    free(b->u);
    free(b->dt);
}

double largest(const double *x, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

void check_close(double found, double expected, double scale, double tolerance, const char *format, ...)
{
    if (fabs(found - expected) <= tolerance * scale)
        return;
    char what[200];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    fail_msg("%s: %.12g, expected %.12g (relative difference %.2g, allowed %.2g)", what, found, expected,
             fabs(found - expected) / scale, tolerance);
}

void eliminate(int n, int stride, double *a)
{
    for (int k = 0; k < n; k++) {
        int pivot = k;
        for (int i = k + 1; i < n; i++)
            if (fabs(a[i * stride + k]) > fabs(a[pivot * stride + k]))
                pivot = i;
        for (int j = 0; j <= n; j++) {
            const double swap = a[k * stride + j];
            a[k * stride + j] = a[pivot * stride + j];
            a[pivot * stride + j] = swap;
        }
        for (int i = 0; i < n; i++) {
            if (i == k)
                continue;
            const double factor = a[i * stride + k] / a[k * stride + k];
            for (int j = k; j <= n; j++)
                a[i * stride + j] -= factor * a[k * stride + j];
        }
    }
    for (int i = 0; i < n; i++)
        a[i * stride + n] /= a[i * stride + i];
}
