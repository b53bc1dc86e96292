#include "fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/numeric.h"
#include "dynamics/predictor.h"
#include "../models/usual_model.h"

enum { NX = FLEET_NX, NU = FLEET_NU, NB = FLEET_NB, FUNCTIONS = FLEET_FUNCTIONS, STEPS = 400 };

static double normal(uint64_t stream, uint64_t index)
{
    return hb_random_normal((hb_random_key){.seed = 11, .stream = stream}, index);
}

hb_model *fleet_model(hb_architecture architecture, hb_integration integration, hb_average average, hb_shape shape,
                      double dt)
{
    hb_model *m = NULL, of = {HB_USUAL_MODEL,
                              .nx = NX,
                              .nu = NU,
                              .nb = NB,
                              .architecture = architecture,
                              .activation = HB_TANH,
                              .average = average,
                              .integration = integration,
                              .shape = shape,
                              .ridge = 1e-9,
                              .dt = dt,
                              .basis = {.nlayers = 3, .width = {0, 8, 7}},
                              .average_network = {.nlayers = 2, .width = {0, 6}}};
    assert_int_equal(hb_model_new(&m, &of, "notes of old", NULL), 0);
    for (size_t i = 0; i < m->nparameters; i++)
        m->parameter[i] = (hb_real)(0.7 * normal(1, i));
    hb_model_seal(m);
    return m;
}

void fleet_coefficients(const hb_model *m, int function, hb_real *c)
{
    int nc = hb_model_ncoefficients(m);
    for (int i = 0; i < nc; i++)
        c[i] = (hb_real)(0.5 * (normal(2, (uint64_t)(2 * function)) * normal(3, (uint64_t)i) +
                                normal(2, (uint64_t)(2 * function + 1)) * normal(4, (uint64_t)i)));
}

hb_dataset fleet_data(const hb_model *m)
{
    hb_dataset d = {
        .header = {.nx = NX, .nu = NU, .dt = m->dt}, .nfunctions = FUNCTIONS, .nepisodes = FUNCTIONS * STEPS};
    double *x = calloc((size_t)FUNCTIONS * STEPS * 2 * NX, sizeof *x),
           *u = calloc((size_t)FUNCTIONS * STEPS * NU, sizeof *u);
    hb_predictor *p = NULL;
    hb_workspace *w = NULL;

    d.header.state_name = m->state_name;
    d.header.control_name = m->control_name;
    d.function = calloc(FUNCTIONS, sizeof *d.function);
    d.episode = calloc((size_t)FUNCTIONS * STEPS, sizeof *d.episode);
    assert_int_equal(hb_predictor_new(&p, m, NULL), 0);
    assert_int_equal(hb_workspace_new(&w, m, false, NULL), 0);
    for (int f = 0; f < FUNCTIONS; f++) {
        hb_real c[NB * NX];
        fleet_coefficients(m, f, c);
        hb_predictor_set(p, c);
        d.function[f] = (hb_function){.id = f, .episode = f * STEPS, .nepisodes = STEPS, .ntransitions = STEPS};
        for (int s = 0; s < STEPS; s++) {
            size_t e = (size_t)(f * STEPS + s);
            hb_real z[NX * HB_STRIDE] = {0}, v[NU * HB_STRIDE] = {0}, dt[HB_STRIDE] = {(hb_real)m->dt};
            hb_batch in = {.n = 1, .z = z, .u = v, .dt = dt};
            for (int i = 0; i < NX; i++)
                z[i * HB_STRIDE] = (hb_real)(x[e * 2 * NX + (size_t)i] = (double)(hb_real)normal(5, e * 8 + (size_t)i));
            v[0] = (hb_real)(u[e] = (double)(hb_real)normal(5, e * 8 + 7));
            hb_predictor_step(p, w, &in, z, NULL);
            for (int i = 0; i < NX; i++)
                x[e * 2 * NX + NX + (size_t)i] = (double)z[i * HB_STRIDE];
            d.episode[e] = (hb_episode){
                .id = (int)e, .function = f, .nsteps = 1, .x = x + e * 2 * NX, .u = u + e, .first = (size_t)s};
        }
    }
    hb_workspace_free(w);
    hb_predictor_free(p);
    return d;
}

void fleet_data_free(hb_dataset *d)
{
    free((double *)d->episode[0].x);
    free((double *)d->episode[0].u);
    free(d->function);
    free(d->episode);
}
