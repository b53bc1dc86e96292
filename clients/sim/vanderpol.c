/* The Van der Pol oscillator, x'' = mu (1 - x^2) x' - x, the smallest plant. */
#include "sim/plant.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/vanderpol.h"

enum { NX = 2, MU = 0 };

static const hb_plant_parameter parameters[] = {
    [MU] = {"mu", "1", "strength of the nonlinear damping", 1, 0.1, 3.0, 0, 10, true},
};

static const char *const state_name[NX] = {"x", "v"};
static const char *const state_unit[NX] = {"1", "1/s"};

static int create(hb_plant *p, hb_error *err)
{
    p->own = calloc(NX, sizeof(double));
    return p->own ? 0 : hb_fail(err, ENOMEM, "out of memory");
}

static void destroy(hb_plant *p)
{
    free(p->own);
}

static int reset(hb_plant *p, const double *x, hb_error *err)
{
    double *own = p->own;
    (void)err;

    own[0] = x[0];
    own[1] = x[1];
    return 0;
}

/* Half of them near rest, from where they grow into the limit cycle; half anywhere around it. */
static int start(hb_plant *p, hb_draws *d, double *x, hb_error *err)
{
    bool at_rest = hb_draw_uniform(d, 0, 1) < 0.5;
    double reach = at_rest ? 0.2 : 2.5, speed = at_rest ? 0.2 : 2.5 + p->parameter[MU];
    (void)err;

    x[0] = hb_draw_uniform(d, -reach, reach);
    x[1] = hb_draw_uniform(d, -speed, speed);
    return 0;
}

static void step(hb_plant *p, const double *u, double dt)
{
    (void)u;
    hb_vanderpol_flow(p->parameter[MU], p->own, dt);
}

static void state(const hb_plant *p, double *x)
{
    const double *own = p->own;

    x[0] = own[0];
    x[1] = own[1];
}

static const char *failure(const hb_plant *p)
{
    const double *x = p->own;

    return fabs(x[0]) < 100 && fabs(x[1]) < 1000 ? NULL : "left the neighbourhood of its limit cycle";
}

const hb_plant_type hb_plant_vanderpol = {
    .name = "vanderpol",
    .help = "Van der Pol oscillator, no controls, irregular steps",
    .nx = NX,
    .nparameters = 1,
    .state_name = state_name,
    .state_unit = state_unit,
    .parameter = parameters,
    .dt = 0.1,
    .irregular = true,
    HB_PLANT_FUNCTIONS,
};
