#include "vehicle.h"

#include "check.h"

#include <stdlib.h>

#include "dynamics/basis.h"
#include "models.h"

hb_estimator *new_estimator(const hb_model *m, const hb_estimator_settings *s)
{
    hb_estimator *e = NULL;
    hb_error err = {0};

    if (hb_estimator_new(&e, m, s, NULL, NULL, &err))
        fail_msg("%s", err.text);
    return e;
}

const hb_transition *from_normalised(transition *p, const hb_model *m, const double *z, const double *u,
                                     const double *z_next, double dt)
{
    for (int i = 0; i < m->nx; i++) {
        p->x[i] = z[i] * m->state_std[i] + m->state_mean[i];
        p->x_next[i] = z_next[i] * m->state_std[i] + m->state_mean[i];
    }
    for (int i = 0; i < m->nu; i++)
        p->u[i] = u[i] * m->control_std[i] + m->control_mean[i];
    p->t = (hb_transition){.x = p->x, .u = p->u, .x_next = p->x_next, .dt = dt};
    return &p->t;
}

double vehicle_draw(vehicle *v)
{
    return hb_random_normal(v->key, v->draws++);
}

void vehicle_start(vehicle *v, const hb_model *m, const hb_real *coefficient, double noise, uint64_t seed)
{
    *v = (vehicle){.m = m, .coefficient = coefficient, .noise = noise, .key = {seed, 0}};
    assert_int_equal(hb_workspace_new(&v->w, m, false, NULL), 0);
    v->z = new_rows(m->nx);
    v->u = new_rows(m->nu);
    v->dt = new_rows(1);
    v->g = new_rows((m->nb + 1) * m->nx);
}

void vehicle_end(vehicle *v)
{
    hb_workspace_free(v->w);
    free(v->z);
    free(v->u);
    free(v->dt);
    free(v->g);
}

double coefficient_at(const hb_model *m, const hb_real *c, int i, int d)
{
    return c[m->shape == HB_PER_STATE ? i * m->nx + d : i];
}

const hb_real *vehicle_increments(vehicle *v, const double *z, const double *u, double dt, const hb_real *along)
{
    for (int lane = 0; lane < HB_LANES; lane++) {
        for (int i = 0; i < v->m->nx; i++)
            v->z[i * HB_STRIDE + lane] = (hb_real)z[i];
        for (int i = 0; i < v->m->nu; i++)
            v->u[i * HB_STRIDE + lane] = (hb_real)u[i];
        v->dt[lane] = (hb_real)dt;
    }
    hb_basis_increments(v->m, v->w, &(hb_batch){.n = 1, .z = v->z, .u = v->u, .dt = v->dt}, along, v->g);
    return v->g;
}

const hb_transition *vehicle_step(vehicle *v)
{
    const hb_model *m = v->m;
    double dt = m->dt * (0.7 + 0.6 * hb_random_uniform(v->key, v->draws++));

    for (int i = 0; i < m->nx; i++)
        v->state[i] = vehicle_draw(v);
    if (m->nominal) /* a quaternion near upright */
        for (int i = 6; i < 10; i++)
            v->state[i] *= 0.2;
    for (int i = 0; i < m->nu; i++)
        v->control[i] = vehicle_draw(v);
    const hb_real *g = vehicle_increments(v, v->state, v->control, dt, v->coefficient);
    for (int d = 0; d < m->nx; d++) {
        v->next[d] = v->state[d] + v->noise * vehicle_draw(v) + g[(m->nb * m->nx + d) * HB_STRIDE];
        for (int i = 0; v->coefficient && i < m->nb; i++)
            v->next[d] += coefficient_at(m, v->coefficient, i, d) * (double)g[(i * m->nx + d) * HB_STRIDE];
    }
    return from_normalised(&v->t, m, v->state, v->control, v->next, dt);
}

void vehicle_fly(vehicle *v, hb_estimator *e, int samples)
{
    for (int k = 0; k < samples; k++)
        hb_estimator_push(e, vehicle_step(v));
}

void assert_coefficients(const hb_estimator *e, const hb_model *m, const double *c, double tolerance, const char *what)
{
    int n = hb_model_ncoefficients(m);
    double scale = largest(c, n);

    for (int i = 0; i < n; i++)
        check_close(hb_estimator_coefficients(e)[i], c[i], scale, tolerance, "%s: coefficient %d", what, i);
}
