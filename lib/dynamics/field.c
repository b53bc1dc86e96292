/* One step of classical Runge-Kutta, `substeps` times over, and its adjoint. For a sub-step of h from z:
 *
 *     s1 = z             k1 = f(s1)           backward, with g the gradient of the result:
 *     s2 = z + h/2 k1    k2 = f(s2)           dk4 = h/6 g            ds4 = J4^T dk4
 *     s3 = z + h/2 k2    k3 = f(s3)           dk3 = h/3 g + h ds4    ds3 = J3^T dk3
 *     s4 = z + h k3      k4 = f(s4)           dk2 = h/3 g + h/2 ds3  ds2 = J2^T dk2
 *     z + h/6 (k1 + 2 k2 + 2 k3 + k4)         dk1 = h/6 g + h/2 ds2  ds1 = J1^T dk1
 *                                             dz = g + ds1 + ds2 + ds3 + ds4
 *
 * The tape of a step is the tapes of its stages; that of a stage:
 *
 *     the stage point (nominal models only) | for each network: slopes | with gradients: layer inputs, output */
#include "dynamics/field.h"

#include <math.h>
#include <string.h>

#ifdef HB_DOUBLE
#define rint_real rint
#else
#define rint_real rintf
#endif

static bool has_nominal(const hb_field *f)
{
    for (int t = 0; t < f->nterms; t++)
        if (!f->term[t].shape)
            return true;
    return false;
}

static size_t term_tape_size(const hb_model *m, const hb_term *t, bool gradients)
{
    size_t size = hb_network_slopes_size(t->shape, m->activation);
    if (gradients)
        size += (hb_network_layer_inputs_size(t->shape) + (size_t)m->nx * HB_STRIDE) * sizeof(hb_real);
    return size;
}

static size_t stage_tape_size(const hb_field *f, bool gradients)
{
    size_t size = has_nominal(f) ? (size_t)f->model->nx * HB_STRIDE * sizeof(hb_real) : 0;
    for (int t = 0; t < f->nterms; t++)
        if (f->term[t].shape)
            size += term_tape_size(f->model, &f->term[t], gradients);
    return (size + HB_ALIGNMENT - 1) / HB_ALIGNMENT * HB_ALIGNMENT;
}

size_t hb_field_tape_size(const hb_field *f, bool gradients)
{
    return stage_tape_size(f, gradients) * (size_t)hb_field_stages(f->model);
}

size_t hb_field_tape_bound(const hb_model *m, const hb_mlp *shape, int count, bool gradients)
{
    const hb_term network = {.shape = shape};
    const hb_term average = {.shape = m->average == HB_AVERAGE_NETWORK ? &m->average_network : NULL};
    const bool has_average = m->average == HB_AVERAGE_NETWORK || m->average == HB_AVERAGE_NOMINAL;
    const hb_field one = {.model = m, .nterms = shape->nlayers ? 1 : 0, .term = &network};
    const hb_field other = {.model = m, .nterms = has_average ? 1 : 0, .term = &average};

    return (size_t)count * hb_field_tape_size(&one, gradients) + hb_field_tape_size(&other, gradients);
}

/* An angle as networks know it, from -pi to pi: they have seen no whole turns. Its derivative is 1. */
static void wrap(double mean, double std, int n, const hb_real *z, hb_real *to)
{
    const hb_real turn = (hb_real)(2 * M_PI / std), middle = (hb_real)(-mean / std),
                  per_turn = (hb_real)(std / 2 / M_PI);

    for (int s = 0; s < hb_padded(n); s++)
        to[s] = z[s] - turn * rint_real((z[s] - middle) * per_turn);
}

void hb_field_gather(const hb_model *m, int n, const hb_real *z, const hb_real *u, hb_real *input)
{
    for (int i = 0; i < m->ninputs; i++) {
        const int state = m->input[i];
        const hb_real *from = z + state * HB_STRIDE;
        hb_real *to = input + i * HB_STRIDE;
        if (m->angle[state])
            wrap(m->state_mean[state], m->state_std[state], n, from, to);
        else
            hb_batch_copy(1, n, from, to);
    }
    if (m->nu)
        hb_batch_copy(m->nu, n, u, input + m->ninputs * HB_STRIDE);
}

void hb_field_scatter_add(const hb_model *m, hb_workspace *w, int n, hb_real *dz, hb_real *du)
{
    for (int i = 0; i < m->ninputs; i++)
        hb_batch_add(w->kernels, 1, n, w->dinput + i * HB_STRIDE, dz + m->input[i] * HB_STRIDE);
    if (du)
        hb_batch_add(w->kernels, m->nu, n, w->dinput + m->ninputs * HB_STRIDE, du);
}

void hb_field_network(const hb_model *m, hb_workspace *w, const hb_mlp *shape, const hb_real *parameter, bool single,
                      const hb_real *input, hb_real *output, int n, const hb_network_tape *tape)
{
    const hb_network network = {w->kernels, shape, m->activation, parameter};

    if (!single) {
        hb_network_forward(&network, input, output, n, tape, w->scratch, &w->ahead);
        return;
    }
    const int nin = shape->width[0], nout = shape->width[shape->nlayers];
    hb_real *x = w->single, *y = w->single + hb_padded(nin);
    for (int i = 0; i < nin; i++)
        x[i] = input[i * HB_STRIDE];
    hb_network_forward_single(&network, x, y, w->scratch);
    for (int i = 0; i < nout; i++)
        output[i * HB_STRIDE] = y[i];
}

/* y *= factor[r], or y /= factor[r] */
static void scale_rows(int rows, int n, const double *factor, bool divide, const hb_real *x, hb_real *y)
{
    for (int r = 0; r < rows; r++) {
        const hb_real f = (hb_real)(divide ? 1 / factor[r] : factor[r]);
        for (int s = 0; s < hb_padded(n); s++)
            y[r * HB_STRIDE + s] = f * x[r * HB_STRIDE + s];
    }
}

static const double *parameters(const hb_model *m, const hb_workspace *w)
{
    return w->nominal_parameter ? w->nominal_parameter : m->nominal_parameter;
}

void hb_field_nominal(const hb_model *m, hb_workspace *w, int n, const hb_real *z, const hb_real *u, hb_real *rate)
{
    hb_batch_to_physical(m->nx, n, m->state_mean, m->state_std, z, w->x);
    hb_batch_to_physical(m->nu, n, m->control_mean, m->control_std, u, w->u);
    m->nominal->field(m->nominal, parameters(m, w), n, w->x, w->u, w->dx, w->nominal);
    scale_rows(m->nx, n, m->state_std, true, w->dx, rate);
}

void hb_field_nominal_adjoint(const hb_model *m, hb_workspace *w, int n, const hb_real *z, const hb_real *u,
                              const hb_real *drate, hb_real *dz, hb_real *du)
{
    hb_batch_to_physical(m->nx, n, m->state_mean, m->state_std, z, w->x);
    hb_batch_to_physical(m->nu, n, m->control_mean, m->control_std, u, w->u);
    scale_rows(m->nx, n, m->state_std, true, drate, w->output);
    m->nominal->adjoint(m->nominal, parameters(m, w), n, w->x, w->u, w->output, w->dx, w->du, w->nominal);
    scale_rows(m->nx, n, m->state_std, false, w->dx, w->dx);
    hb_batch_add(w->kernels, m->nx, n, w->dx, dz);
    if (du) {
        scale_rows(m->nu, n, m->control_std, false, w->du, w->du);
        hb_batch_add(w->kernels, m->nu, n, w->du, du);
    }
}

/* where a term's records lie in the tape of a stage */
static hb_network_tape term_tape(const hb_model *m, const hb_term *t, char *at, bool gradients, hb_real **output)
{
    hb_network_tape tape = {.slopes = at};
    if (gradients) {
        tape.layer_inputs = (hb_real *)(at + hb_network_slopes_size(t->shape, m->activation));
        *output = tape.layer_inputs + hb_network_layer_inputs_size(t->shape);
    }
    return tape;
}

/* k = f(z, u) */
static void rate(const hb_field *f, hb_workspace *w, int n, const hb_real *z, const hb_real *u, bool single, hb_real *k,
                 char *tape, bool gradients)
{
    const hb_model *m = f->model;

    if (tape && has_nominal(f)) {
        hb_batch_copy(m->nx, n, z, (hb_real *)tape);
        tape += (size_t)m->nx * HB_STRIDE * sizeof(hb_real);
    }
    hb_field_gather(m, n, z, u, w->input);
    if (f->nterms == 0)
        hb_batch_clear(m->nx, n, k);
    for (int i = 0; i < f->nterms; i++) {
        const hb_term *t = &f->term[i];
        hb_real *output = w->output;
        if (!t->shape) {
            hb_field_nominal(m, w, n, z, u, output);
        } else if (tape) {
            const hb_network_tape mine = term_tape(m, t, tape, gradients, &output);
            hb_field_network(m, w, t->shape, t->parameter, single, w->input, output, n, &mine);
            tape += term_tape_size(m, t, gradients);
        } else if (t->columns && n <= HB_FEW) {
            hb_network_forward_few(w->kernels, t->shape, m->activation, t->columns, w->input, output, n, w->single,
                                   w->scratch);
        } else {
            hb_field_network(m, w, t->shape, t->parameter, single, w->input, output, n, NULL);
        }
        w->kernels->combine(m->nx, hb_padded(n), i > 0 ? k : NULL, 1, t->scale, NULL, output, k);
    }
}

void hb_field_integrate(const hb_field *f, hb_workspace *w, const hb_batch *in, bool single, hb_real *increment,
                        char *tape, bool gradients)
{
    const hb_model *m = f->model;
    const size_t stage_size = tape ? stage_tape_size(f, gradients) : 0;
    const int n = in->n;

    if (m->integration == HB_DIRECT) {
        rate(f, w, n, in->z, in->u, single, increment, tape, gradients);
        return;
    }
    hb_rk4_start(m, w, in);
    hb_batch_clear(m->nx, n, increment);
    for (int sub = 0; sub < m->substeps; sub++) {
        for (int s = 0; s < 4; s++) {
            /* the next record, of this network or of the one after it, lies where no cache has been */
            if (gradients)
                w->ahead = (hb_ahead){.at = tape + stage_size, .end = tape + 2 * stage_size};
            rate(f, w, n, hb_rk4_point(m, w, n, s), in->u, single, w->rate, tape, gradients);
            hb_rk4_add(m, w, n, s);
            tape = tape ? tape + stage_size : NULL;
        }
        hb_rk4_advance(m, w, n, increment);
        if (sub + 1 == m->substeps)
            break;
        hb_rk4_advance(m, w, n, w->base);
        hb_batch_clear(m->nx, n, w->sum);
    }
}

/* ds = J^T dk of one stage; adds to du and to the gradients of the terms that belong to `of` */
static void rate_adjoint(const hb_field *f, hb_workspace *w, int n, const hb_real *u, const char *tape,
                         const hb_real *dk, hb_real *ds, hb_real *du, hb_gradient_of of)
{
    const hb_model *m = f->model;
    const hb_real *z = NULL;

    if (has_nominal(f)) {
        z = (const hb_real *)tape;
        tape += (size_t)m->nx * HB_STRIDE * sizeof(hb_real);
    }
    hb_batch_clear(m->nx, n, ds);
    for (int i = 0; i < f->nterms; i++) {
        const hb_term *t = &f->term[i];
        if (!t->shape) {
            hb_field_nominal_adjoint(m, w, n, z, u, dk, ds, du);
            continue;
        }
        hb_real *output = NULL;
        const hb_network_tape mine = term_tape(m, t, (char *)tape, of != HB_OF_NONE, &output);
        hb_real *gradient = t->belongs_to & of ? t->gradient : NULL;

        if (of && t->scale_gradient)
            for (int r = 0; r < m->nx; r++)
                for (int s = 0; s < n; s++)
                    t->scale_gradient[r] += output[r * HB_STRIDE + s] * dk[r * HB_STRIDE + s];
        hb_batch_scale(w->kernels, m->nx, n, t->scale, dk, w->output);
        const hb_network network = {w->kernels, t->shape, m->activation, t->parameter};
        hb_network_backward(&network, w->output, w->dinput, n, &mine, gradient, w->scratch, &w->ahead);
        hb_field_scatter_add(m, w, n, ds, du);
        tape += term_tape_size(m, t, of != HB_OF_NONE);
    }
}

void hb_field_adjoint(const hb_field *f, hb_workspace *w, const hb_batch *in, const char *tape,
                      const hb_real *dincrement, hb_real *dz, hb_real *du, hb_gradient_of of)
{
    const hb_model *m = f->model;
    const size_t stage_size = stage_tape_size(f, of != HB_OF_NONE);
    const int n = in->n;
    hb_real *g = w->base, *ds = w->stage, *dk = w->drate;

    if (m->integration == HB_DIRECT) {
        rate_adjoint(f, w, n, in->u, tape, dincrement, ds, du, of);
        hb_batch_add(w->kernels, m->nx, n, ds, dz);
        return;
    }
    for (int s = 0; s < hb_padded(n); s++)
        w->step[s] = in->dt[s] / (hb_real)m->substeps;

    /* g starts as the gradient of the state at the end; what it gains on the way down is that of the start */
    hb_batch_copy(m->nx, n, dincrement, g);
    tape += stage_size * (size_t)hb_field_stages(m);
    for (int sub = m->substeps - 1; sub >= 0; sub--) {
        hb_batch_clear(m->nx, n, w->sum);
        for (int s = 3; s >= 0; s--) {
            tape -= stage_size;
            hb_batch_advance(w->kernels, m->nx, n, NULL, hb_rk4_weight[s] / 6, w->step, g, dk);
            if (s < 3)
                hb_batch_advance(w->kernels, m->nx, n, dk, hb_rk4_stage_at[s + 1], w->step, ds, dk);
            rate_adjoint(f, w, n, in->u, tape, dk, ds, du, of);
            hb_batch_add(w->kernels, m->nx, n, ds, w->sum);
        }
        hb_batch_add(w->kernels, m->nx, n, w->sum, g);
        hb_batch_add(w->kernels, m->nx, n, w->sum, dz);
    }
}

void hb_field_spread_tape(const hb_field *f, const char *from, int first, int repeat, int n, char *to)
{
    const hb_model *m = f->model;
    const size_t point = has_nominal(f) ? (size_t)m->nx * HB_STRIDE * sizeof(hb_real) : 0;
    const size_t stage_size = stage_tape_size(f, false);

    for (int s = 0; s < hb_field_stages(m); s++) {
        size_t at = (size_t)s * stage_size;
        if (point)
            hb_kernels_spread(m->nx, (const hb_real *)(from + at), first, repeat, n, (hb_real *)(to + at));
        at += point;
        for (int t = 0; t < f->nterms; t++)
            if (f->term[t].shape) {
                hb_network_spread_slopes(f->term[t].shape, m->activation, from + at, first, repeat, n, to + at);
                at += term_tape_size(m, &f->term[t], false);
            }
    }
}
