/* A window that was kept over a restart, with bytes of it changed: three bytes of input say where and to what. Whatever
 * is taken up must be finite, and the estimator must go on with it. */
#include <math.h>

#include "estimate/estimator.h"
#include "fuzz.h"

enum { NX = 2, NU = 1, NB = 2 };

static hb_model *new_model(void)
{
    hb_model shape = {.nx = NX,
                      .nu = NU,
                      .nb = NB,
                      .architecture = HB_SHARED,
                      .average = HB_AVERAGE_HEAD,
                      .integration = HB_COMBINED,
                      .substeps = 1,
                      .volume = 1,
                      .dt = 0.05,
                      .basis = {.nlayers = 1}};
    hb_model *m = NULL;

    if (hb_model_new(&m, &shape, NULL, NULL))
        abort();
    for (int i = 0; i < NX; i++)
        m->state_std[i] = 1;
    m->control_std[0] = 1;
    m->control_min[0] = -1;
    m->control_max[0] = 1;
    /* rows: the basis functions, then the average; columns: states and control */
    for (int i = 0; i < (NB + 1) * NX * (NX + NU); i++)
        m->parameter[i] = (hb_real)(0.1 * (i % 7 - 3));
    hb_model_seal(m);
    return m;
}

static void learn(hb_estimator *e, int n)
{
    for (int k = 0; k < n; k++) {
        double x[NX] = {0.1 * k, sin(k)}, u[NU] = {cos(k)}, next[NX] = {0.1 * k + 0.05, sin(k) + 0.02};
        hb_transition t = {.x = x, .u = u, .x_next = next, .dt = 0.05};
        hb_estimator_stage(e, &t);
        hb_estimator_settle(e);
    }
}

/* The memory of an estimator that has learned. */
static void *kept(const hb_model *m, const hb_estimator_settings *s, size_t bytes)
{
    void *block = aligned_alloc(64, bytes);
    hb_estimator *e = NULL;

    FUZZ_EXPECT(block);
    memset(block, 0, bytes);
    FUZZ_EXPECT(hb_estimator_new(&e, m, s, block, NULL, NULL) == 0);
    learn(e, 25);
    hb_estimator_free(e);
    return block;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static hb_model *m;
    static void *before;
    hb_estimator_settings s = hb_estimator_defaults;
    hb_estimator *e = NULL;

    s.window = 1;
    s.warmup = 0.2;
    if (!m)
        m = new_model();
    size_t used = hb_estimator_memory_size(m, &s), bytes = (used + 63) / 64 * 64;
    if (!before)
        before = kept(m, &s, bytes);
    void *block = aligned_alloc(64, bytes);
    FUZZ_EXPECT(block);
    memcpy(block, before, bytes);
    for (size_t i = 0; i + 3 <= size; i += 3)
        ((uint8_t *)block)[(data[i] | (size_t)data[i + 1] << 8) % used] = data[i + 2];
    FUZZ_EXPECT(hb_estimator_new(&e, m, &s, block, NULL, NULL) == 0);
    learn(e, 3);
    for (int i = 0; i < hb_model_ncoefficients(m); i++)
        FUZZ_EXPECT(isfinite((double)hb_estimator_coefficients(e)[i]));
    hb_estimator_free(e);
    free(block);
    return 0;
}
