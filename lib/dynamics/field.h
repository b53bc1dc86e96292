/* Right-hand sides: sums of networks and a nominal model, integrated over one step, and the adjoint of that.
 *
 *     z' = sum over terms of scale * term(z, u)
 *
 * All in normalised coordinates. This is the common ground of basis.c and predictor.c and private to them. */
#ifndef HB_FIELD_H
#define HB_FIELD_H

#include "dynamics/network.h"
#include "dynamics/workspace.h"

/* Which parameters a gradient is wanted of: F_avg learns from its own loss, the basis from the other. */
typedef enum { HB_OF_NONE = 0, HB_OF_BASIS = 1, HB_OF_AVERAGE = 2 } hb_gradient_of;

typedef struct hb_term {
    const hb_mlp *shape; /* NULL: the model's nominal field */
    const hb_real *parameter;
    const hb_real *columns;  /* the same as hb_network_columns; NULL: there are none */
    const hb_real *scale;    /* nx; NULL: 1 */
    unsigned belongs_to;     /* HB_OF_BASIS, HB_OF_AVERAGE, or both for a collapsed shared network */
    hb_real *gradient;       /* where the parameters' gradient is added; set by the caller of an adjoint */
    hb_real *scale_gradient; /* nx, likewise; NULL: not wanted */
} hb_term;

typedef struct hb_field {
    const hb_model *model;
    int nterms;
    const hb_term *term;
} hb_field;

/* Evaluations of the right-hand side in one step. */
static inline int hb_field_stages(const hb_model *m)
{
    return m->integration == HB_DIRECT ? 1 : 4 * m->substeps;
}

/* Bytes that one integration leaves for its adjoint; a multiple of HB_ALIGNMENT. */
size_t hb_field_tape_size(const hb_field *f, bool gradients);

/* Enough for `count` networks of one shape and the average, whether integrated together or one by one. */
size_t hb_field_tape_bound(const hb_model *m, const hb_mlp *shape, int count, bool gradients);

/* increment (nx rows) of one step from in->z; tape may be NULL. A few samples without a tape are
 * faster where a term has columns, with the same result. `single`: only the first sample, which is faster too where a
 * term has none, with other rounding. */
void hb_field_integrate(const hb_field *f, hb_workspace *w, const hb_batch *in, bool single, hb_real *increment,
                        char *tape, bool gradients);

/* Given the gradient of the increment: adds to dz (nx rows) and, unless NULL, du (nu rows), and with `of` to the
 * gradients of the terms that belong to it. The tape must be one with gradients then. */
void hb_field_adjoint(const hb_field *f, hb_workspace *w, const hb_batch *in, const char *tape,
                      const hb_real *dincrement, hb_real *dz, hb_real *du, hb_gradient_of of);

/* The tape (without gradients) of n samples copied out of that of fewer, see hb_kernels_spread. */
void hb_field_spread_tape(const hb_field *f, const char *from, int first, int repeat, int n, char *to);

/* Parts that basis.c needs by themselves. */
void hb_field_gather(const hb_model *m, int n, const hb_real *z, const hb_real *u, hb_real *input);
void hb_field_scatter_add(const hb_model *m, hb_workspace *w, int n, hb_real *dz, hb_real *du); /* of w->dinput */
void hb_field_network(const hb_model *m, hb_workspace *w, const hb_mlp *shape, const hb_real *parameter, bool single,
                      const hb_real *input, hb_real *output, int n, const hb_network_tape *tape);
void hb_field_nominal(const hb_model *m, hb_workspace *w, int n, const hb_real *z, const hb_real *u, hb_real *rate);
/* Adds to dz and, unless NULL, du; destroys w->x, w->u, w->dx, w->du and w->output. */
void hb_field_nominal_adjoint(const hb_model *m, hb_workspace *w, int n, const hb_real *z, const hb_real *u,
                              const hb_real *drate, hb_real *dz, hb_real *du);

/* Row arithmetic on n samples. */
static inline void hb_batch_clear(int rows, int n, hb_real *y)
{
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < hb_padded(n); s++)
            y[r * HB_STRIDE + s] = 0;
}

static inline void hb_batch_copy(int rows, int n, const hb_real *x, hb_real *y)
{
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < hb_padded(n); s++)
            y[r * HB_STRIDE + s] = x[r * HB_STRIDE + s];
}

/* y = base + factor * step * x; base NULL: 0 */
static inline void hb_batch_advance(const hb_kernels *k, int rows, int n, const hb_real *base, hb_real factor,
                                    const hb_real *step, const hb_real *x, hb_real *y)
{
    k->combine(rows, hb_padded(n), base, factor, NULL, step, x, y);
}

static inline void hb_batch_add_times(const hb_kernels *k, int rows, int n, hb_real factor, const hb_real *x,
                                      hb_real *y)
{
    k->combine(rows, hb_padded(n), y, factor, NULL, NULL, x, y);
}

static inline void hb_batch_add(const hb_kernels *k, int rows, int n, const hb_real *x, hb_real *y)
{
    hb_batch_add_times(k, rows, n, 1, x, y);
}

/* y += c[r] * x, or y += x without c */
static inline void hb_batch_add_scaled(const hb_kernels *k, int rows, int n, const hb_real *c, const hb_real *x,
                                       hb_real *y)
{
    k->combine(rows, hb_padded(n), y, 1, c, NULL, x, y);
}

/* y = c[r] * x, or y = x without c */
static inline void hb_batch_scale(const hb_kernels *k, int rows, int n, const hb_real *c, const hb_real *x, hb_real *y)
{
    k->combine(rows, hb_padded(n), NULL, 1, c, NULL, x, y);
}

/* x . y in HB_LANES partial sums, which a compiler can keep in vectors. */
static inline hb_real hb_dot(int n, const hb_real *x, const hb_real *y)
{
    hb_real part[HB_LANES] = {0}, sum = 0;
    int s = 0;

    for (; s + HB_LANES <= n; s += HB_LANES)
        for (int l = 0; l < HB_LANES; l++)
            part[l] += x[s + l] * y[s + l];
    for (; s < n; s++)
        sum += x[s] * y[s];
    for (int l = 0; l < HB_LANES; l++)
        sum += part[l];
    return sum;
}

/* Classical Runge-Kutta: stage s starts at base + stage_at[s] h k_{s-1}; the increment is h/6 sum weight[s] k_s. */
static const hb_real hb_rk4_stage_at[4] = {0, (hb_real)0.5, (hb_real)0.5, 1};
static const hb_real hb_rk4_weight[4] = {1, 2, 2, 1};

/* Starts at in->z: w->base is the state at the start of a sub-step, w->step the length of each sample's sub-steps. */
static inline void hb_rk4_start(const hb_model *m, hb_workspace *w, const hb_batch *in)
{
    for (int s = 0; s < hb_padded(in->n); s++)
        w->step[s] = in->dt[s] / (hb_real)m->substeps;
    hb_batch_copy(m->nx, in->n, in->z, w->base);
    hb_batch_clear(m->nx, in->n, w->sum);
}

/* The point of stage s, from the rate of the stage before it in w->rate. */
static inline const hb_real *hb_rk4_point(const hb_model *m, hb_workspace *w, int n, int s)
{
    if (s == 0)
        return w->base;
    hb_batch_advance(w->kernels, m->nx, n, w->base, hb_rk4_stage_at[s], w->step, w->rate, w->stage);
    return w->stage;
}

/* Takes the rate of stage s, in w->rate; w->sum is that of the sub-step so far. */
static inline void hb_rk4_add(const hb_model *m, hb_workspace *w, int n, int s)
{
    hb_batch_add_times(w->kernels, m->nx, n, hb_rk4_weight[s], w->rate, w->sum);
}

/* After the last stage: y (w->base, or an increment) moves over the sub-step. */
static inline void hb_rk4_advance(const hb_model *m, hb_workspace *w, int n, hb_real *y)
{
    hb_batch_advance(w->kernels, m->nx, n, y, (hb_real)(1.0 / 6), w->step, w->sum, y);
}

#endif
