#include "bench_models.h"

#include <math.h>
#include <stdlib.h>

#include "base/numeric.h"
#include "../models/usual_model.h"

static hb_model *finish(hb_model *shape)
{
    hb_model *m;
    hb_error err;

    if (hb_model_new(&m, shape, NULL, &err))
        bench_fail("%s", err.text);
    for (size_t p = 0; p < m->nparameters; p++)
        m->parameter[p] = (hb_real)(0.3 * hb_random_uniform((hb_random_key){.seed = 1}, p) - 0.15);
    hb_model_seal(m);
    return m;
}

hb_model *bench_paper_model(void)
{
    return finish(&(hb_model){
        .nx = 13,
        .nu = 4,
        .nb = 100,
        .architecture = HB_INDEPENDENT,
        .activation = HB_RELU,
        .average = HB_AVERAGE_NETWORK,
        .integration = HB_SEPARATE,
        .substeps = 1,
        .method = HB_INNER_PRODUCT,
        .shape = HB_PER_STATE,
        .volume = 1,
        .ridge = 1e-3,
        .dt = 0.05,
        .ninputs = 13,
        .basis = {.nlayers = 5, .width = {0, 51, 51, 51, 51}},
        .average_network = {.nlayers = 5, .width = {0, 51, 51, 51, 51}},
    });
}

hb_model *bench_shared_model(int nb, int width, hb_activation activation, hb_shape shape)
{
    return finish(&(hb_model){
        HB_USUAL_SHARED_MODEL,
        .nx = 13,
        .nu = 4,
        .nb = nb,
        .activation = activation,
        .average = HB_AVERAGE_HEAD,
        .shape = shape,
        .ridge = 1e-3,
        .dt = 0.05,
        .ninputs = 13,
        .basis = {.nlayers = 4, .width = {0, width, width, width}},
    });
}

hb_model *bench_model(int i)
{
    switch (i) {
    case 0:
        return bench_paper_model();
    case 1:
        return bench_shared_model(8, 64, HB_RELU, HB_VECTOR);
    case 2:
        return bench_shared_model(8, 64, HB_SILU, HB_VECTOR);
    case 3:
        return bench_shared_model(8, 128, HB_RELU, HB_VECTOR);
    case 4:
        return bench_shared_model(8, 128, HB_SILU, HB_VECTOR);
    default:
        return NULL;
    }
}

void bench_describe(bench *b, const hb_model *m)
{
    bench_set_text(b, "arch", hb_architecture_name[m->architecture]);
    bench_set_text(b, "activation", hb_activation_name[m->activation]);
    bench_set_int(b, "nb", m->nb);
    bench_set_int(b, "hidden", m->basis.width[1]);
    bench_set_int(b, "layers", m->basis.nlayers - 1);
}

double bench_step_flops(const hb_model *m)
{
    hb_mlp collapsed = m->basis;

    if (m->architecture == HB_INDEPENDENT)
        return 4 * (m->nb * bench_network_flops(&m->basis) + bench_network_flops(&m->average_network));
    collapsed.width[collapsed.nlayers] = m->nx;
    return 4 * bench_network_flops(&collapsed);
}

double bench_network_flops(const hb_mlp *shape)
{
    double flops = 0;
    for (int l = 0; l < shape->nlayers; l++)
        flops += 2.0 * shape->width[l] * shape->width[l + 1];
    return flops;
}

hb_real *bench_rows(int rows, uint64_t seed)
{
    hb_real *x = aligned_alloc(HB_ALIGNMENT, (size_t)rows * HB_STRIDE * sizeof *x);
    if (!x)
        bench_fail("out of memory");
    for (int i = 0; i < rows * HB_STRIDE; i++)
        x[i] = (hb_real)(0.3 * hb_random_normal((hb_random_key){.seed = seed}, (uint64_t)i));
    return x;
}

hb_real *bench_constant_row(double value)
{
    hb_real *x = bench_rows(1, 0);
    for (int s = 0; s < HB_STRIDE; s++)
        x[s] = (hb_real)value;
    return x;
}
