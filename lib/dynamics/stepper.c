/* A batch of one; the interface: stepper.h. */
#include "dynamics/stepper.h"

#include <stdlib.h>
#include <string.h>

struct hb_stepper {
    const hb_model *m;
    hb_predictor *predictor;
    hb_workspace *workspace;
    double *x;           /* nx */
    hb_real *z, *u, *dt; /* a batch, batch.h */
};

static hb_stepper *lay_out(const hb_model *m, hb_arena *arena)
{
    hb_stepper none = {0}, *s = hb_arena_object(arena, &none, sizeof none);

    s->m = m;
    s->x = hb_arena_take(arena, (size_t)m->nx, sizeof *s->x);
    s->z = hb_arena_take(arena, (size_t)m->nx * HB_STRIDE, sizeof *s->z);
    s->u = hb_arena_take(arena, (size_t)m->nu * HB_STRIDE, sizeof *s->u);
    s->dt = hb_arena_take(arena, HB_STRIDE, sizeof *s->dt);
    return hb_arena_first(arena);
}

int hb_stepper_new(hb_stepper **ret, const hb_model *m, hb_error *err)
{
    hb_arena arena = {0};
    int r;

    lay_out(m, &arena);
    if ((r = hb_arena_allocate(&arena, err)))
        return r;
    hb_stepper *s = lay_out(m, &arena);
    if ((r = hb_predictor_new(&s->predictor, m, err)) || (r = hb_workspace_new(&s->workspace, m, false, err))) {
        hb_stepper_free(s);
        return r;
    }
    hb_predictor_set(s->predictor, NULL);
    *ret = s;
    return 0;
}

void hb_stepper_free(hb_stepper *s)
{
    if (!s)
        return;
    hb_workspace_free(s->workspace);
    hb_predictor_free(s->predictor);
    free(s);
}

hb_predictor *hb_stepper_predictor(hb_stepper *s)
{
    return s->predictor;
}

void hb_stepper_step(hb_stepper *s, double *x, const double *u, double dt)
{
    const hb_model *m = s->m;

    for (int lane = 0; lane < HB_LANES; lane++) {
        for (int i = 0; i < m->nx; i++)
            s->z[i * HB_STRIDE + lane] = (hb_real)hb_normalised_state(m, i, x[i]);
        for (int i = 0; i < m->nu; i++)
            s->u[i * HB_STRIDE + lane] = (hb_real)hb_normalised_control(m, i, u[i]);
        s->dt[lane] = (hb_real)dt;
    }
    hb_predictor_step(s->predictor, s->workspace, &(hb_batch){.n = 1, .z = s->z, .u = s->u, .dt = s->dt}, s->z, NULL);
    for (int i = 0; i < m->nx; i++)
        x[i] = hb_physical_state(m, i, s->z[i * HB_STRIDE]);
}

double hb_stepper_error(hb_stepper *s, const hb_transition *t)
{
    const hb_model *m = s->m;
    double sum = 0;

    memcpy(s->x, t->x, (size_t)m->nx * sizeof *s->x);
    hb_stepper_step(s, s->x, t->u, t->dt);
    for (int i = 0; i < m->nx; i++) {
        double error = (t->x_next[i] - s->x[i]) / m->state_std[i];
        sum += error * error;
    }
    return sum / m->nx;
}
