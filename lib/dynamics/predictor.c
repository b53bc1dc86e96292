#include "dynamics/predictor.h"

#include <stdlib.h>
#include <string.h>

#include "dynamics/collapse.h"

struct hb_predictor {
    const hb_model *model;
    int nterms;
    hb_term *term;      /* nterms: shared: the collapsed network; independent: nb networks; then the average */
    bool *idle;         /* nterms: contributes nothing with the coefficients as they are */
    hb_real *scale;     /* nb x nx: the coefficients, one per state */
    hb_mlp collapsed;   /* shape of the shared network with nx outputs */
    hb_real *parameter; /* of the collapsed network, */
    hb_real *columns;   /* and by columns */
};

static bool separate(const hb_model *m)
{
    return m->integration == HB_SEPARATE;
}

static bool collapses(const hb_model *m)
{
    return m->architecture == HB_SHARED && m->basis.nlayers;
}

static hb_mlp collapsed_shape(const hb_model *m)
{
    return collapses(m) ? hb_collapsed_shape(m) : m->basis;
}

static void lay_out(hb_predictor *p, hb_arena *arena)
{
    const hb_model *m = p->model;

    hb_arena_take(arena, 1, sizeof *p);
    p->term = hb_arena_take(arena, (size_t)m->nb + 2, sizeof *p->term);
    p->idle = hb_arena_take(arena, (size_t)m->nb + 2, sizeof *p->idle);
    p->scale = hb_arena_take(arena, (size_t)(m->nb * m->nx), sizeof *p->scale);
    p->parameter = hb_arena_take(arena, m->architecture == HB_SHARED ? p->collapsed.nparameters : 0, sizeof(hb_real));
    p->columns = hb_arena_take(arena, m->architecture == HB_SHARED ? hb_network_columns_size(&p->collapsed) : 0,
                               sizeof(hb_real));
}

int hb_predictor_new(hb_predictor **ret, const hb_model *m, hb_error *err)
{
    hb_arena arena = {0};
    hb_predictor object = {.model = m, .collapsed = collapsed_shape(m)};

    lay_out(&object, &arena);
    const int code = hb_arena_allocate(&arena, err);
    if (code)
        return code;
    lay_out(&object, &arena);
    hb_predictor *p = memcpy(arena.base, &object, sizeof object);

    if (collapses(m)) {
        p->term[p->nterms++] = (hb_term){
            .shape = &p->collapsed,
            .parameter = p->parameter,
            .columns = p->columns,
            .belongs_to = HB_OF_BASIS | (m->average == HB_AVERAGE_HEAD ? (unsigned)HB_OF_AVERAGE : 0),
        };
    }
    for (int i = 0; m->architecture == HB_INDEPENDENT && i < m->nb; i++)
        p->term[p->nterms++] = (hb_term){
            .shape = &m->basis,
            .parameter = m->parameter + (size_t)i * m->basis.nparameters,
            .scale = p->scale + i * m->nx,
            .belongs_to = HB_OF_BASIS,
        };
    if (m->average == HB_AVERAGE_NETWORK)
        p->term[p->nterms++] = (hb_term){
            .shape = &m->average_network,
            .parameter = m->parameter + hb_model_average_at(m),
            .belongs_to = HB_OF_AVERAGE,
        };
    if (m->average == HB_AVERAGE_NOMINAL)
        p->term[p->nterms++] = (hb_term){.belongs_to = HB_OF_AVERAGE};
    hb_predictor_set(p, NULL);
    *ret = p;
    return 0;
}

void hb_predictor_free(hb_predictor *p)
{
    free(p); /* the first piece of its block */
}

void hb_predictor_for_batches(hb_predictor *p)
{
    if (collapses(p->model))
        p->term[0].columns = NULL;
}

static void collapse(hb_predictor *p)
{
    const hb_model *m = p->model;
    const size_t trunk = hb_mlp_head(&m->basis).weight;
    const hb_head h = hb_mlp_head(&p->collapsed);
    /* training changes the trunk; in flight it stays as it was */
    const bool same_trunk = memcmp(p->parameter, m->parameter, trunk * sizeof(hb_real)) == 0;

    if (!same_trunk)
        memcpy(p->parameter, m->parameter, trunk * sizeof(hb_real));
    hb_collapse(m, HB_PER_STATE, p->scale, p->parameter + h.weight, p->parameter + h.bias);
    if (p->term[0].columns)
        hb_network_columns(&p->collapsed, same_trunk ? p->collapsed.nlayers - 1 : 0, p->parameter, p->columns);
}

void hb_predictor_set(hb_predictor *p, const hb_real *coefficient)
{
    const hb_model *m = p->model;
    bool any = false;

    for (int i = 0; i < m->nb; i++) {
        bool mine = false;
        for (int r = 0; r < m->nx; r++) {
            const hb_real c = !coefficient ? 0 : coefficient[m->shape == HB_PER_STATE ? i * m->nx + r : i];
            p->scale[i * m->nx + r] = c;
            mine |= c != 0;
        }
        if (m->architecture == HB_INDEPENDENT)
            p->idle[i] = !mine;
        any |= mine;
    }
    if (collapses(m)) {
        p->idle[0] = !any && m->average != HB_AVERAGE_HEAD;
        collapse(p);
    }
}

/* one term integrated by itself: its coefficient is applied to the increment, not to the rate */
static hb_term without_scale(const hb_term *t)
{
    hb_term copy = *t;
    copy.scale = NULL;
    return copy;
}

size_t hb_predictor_tape_size(const hb_model *m)
{
    const hb_mlp shape = collapsed_shape(m);
    return hb_field_tape_bound(m, &shape, m->architecture == HB_SHARED ? 1 : m->nb, false);
}

/* the terms that are not idle, gathered in the workspace */
static hb_field working_terms(const hb_predictor *p, hb_workspace *w)
{
    hb_field f = {.model = p->model, .term = w->term};
    for (int t = 0; t < p->nterms; t++)
        if (!p->idle[t])
            w->term[f.nterms++] = p->term[t];
    return f;
}

/* Networks are many and small: while one is evaluated, the next one's parameters and tape are fetched into the caches.
 * After the last comes the first, for the next step. */
static void look_ahead(const hb_predictor *p, hb_workspace *w, int t, const char *tape)
{
    const hb_model *m = p->model;
    const hb_field one = {.model = m, .nterms = 1, .term = &p->term[t]};

    w->ahead = (hb_ahead){0};
    for (int i = 1; i < p->nterms; i++) {
        const hb_term *next = &p->term[(t + i) % p->nterms];
        if (p->idle[next - p->term] || !next->shape)
            continue;
        w->ahead.at = (const char *)next->parameter;
        w->ahead.end = (const char *)(next->parameter + next->shape->nparameters);
        if (tape) {
            w->ahead.at_next = tape + hb_field_tape_size(&one, false);
            w->ahead.end_next = w->ahead.at_next + hb_field_tape_size(&one, false);
        }
        return;
    }
}

void hb_predictor_step(const hb_predictor *p, hb_workspace *w, const hb_batch *in, hb_real *z_next, void *tape)
{
    const hb_model *m = p->model;
    const bool single = in->n == 1 && !tape;
    char *at = tape;

    if (!separate(m)) {
        const hb_field field = working_terms(p, w);
        hb_field_integrate(&field, w, in, single, w->increment, at, false);
        hb_batch_copy(m->nx, in->n, in->z, z_next);
        hb_batch_add(w->kernels, m->nx, in->n, w->increment, z_next);
        return;
    }
    hb_batch_clear(m->nx, in->n, w->gradient_z);
    for (int t = 0; t < p->nterms; t++) {
        if (p->idle[t])
            continue;
        const hb_term term = without_scale(&p->term[t]);
        const hb_field field = {.model = m, .nterms = 1, .term = &term};
        look_ahead(p, w, t, at);
        hb_field_integrate(&field, w, in, single, w->increment, at, false);
        hb_batch_add_scaled(w->kernels, m->nx, in->n, p->term[t].scale, w->increment, w->gradient_z);
        at = at ? at + hb_field_tape_size(&field, false) : NULL;
    }
    hb_batch_copy(m->nx, in->n, in->z, z_next);
    hb_batch_add(w->kernels, m->nx, in->n, w->gradient_z, z_next);
}

void hb_predictor_adjoint(const hb_predictor *p, hb_workspace *w, const hb_batch *in, const void *tape,
                          const hb_real *dz_next, hb_real *dz, hb_real *du)
{
    const hb_model *m = p->model;
    const char *at = tape;

    hb_batch_copy(m->nx, in->n, dz_next, w->gradient_z);
    hb_batch_copy(m->nx, in->n, dz_next, dz);
    if (du)
        hb_batch_clear(m->nu, in->n, du);
    if (!separate(m)) {
        const hb_field field = working_terms(p, w);
        hb_field_adjoint(&field, w, in, at, w->gradient_z, dz, du, HB_OF_NONE);
        return;
    }
    for (int t = 0; t < p->nterms; t++) {
        if (p->idle[t])
            continue;
        const hb_term term = without_scale(&p->term[t]);
        const hb_field field = {.model = m, .nterms = 1, .term = &term};
        hb_batch_scale(w->kernels, m->nx, in->n, p->term[t].scale, w->gradient_z, w->increment);
        look_ahead(p, w, t, at);
        hb_field_adjoint(&field, w, in, at, w->increment, dz, du, HB_OF_NONE);
        at += hb_field_tape_size(&field, false);
    }
}

void hb_predictor_spread(const hb_predictor *p, hb_workspace *w, const void *tape, int first, int repeat, int n,
                         void *spread)
{
    const char *from = tape;
    char *to = spread;

    if (!separate(p->model)) {
        const hb_field field = working_terms(p, w);
        hb_field_spread_tape(&field, from, first, repeat, n, to);
        return;
    }
    for (int t = 0; t < p->nterms; t++) {
        const hb_field field = {.model = p->model, .nterms = 1, .term = &p->term[t]};
        if (p->idle[t])
            continue;
        hb_field_spread_tape(&field, from, first, repeat, n, to);
        from += hb_field_tape_size(&field, false);
        to += hb_field_tape_size(&field, false);
    }
}

/* The gradient of the collapsed network, handed on to what it was made of. */
static void uncollapse(const hb_predictor *p, hb_workspace *w, hb_gradient_of of, hb_real *dparameter, hb_real *dscale)
{
    const hb_head h = hb_mlp_head(&p->collapsed);
    const hb_real *gradient = w->collapsed_gradient;

    for (size_t k = 0; k < h.weight; k++)
        dparameter[k] += gradient[k]; /* of the common trunk */
    hb_uncollapse(p->model, HB_PER_STATE, p->scale, of == HB_OF_AVERAGE ? HB_BLOCK_OF_AVERAGE : HB_BLOCKS_OF_BASIS,
                  gradient + h.weight, gradient + h.bias, dparameter, dscale);
}

/* where the gradient of a term's parameters goes */
static hb_real *gradient_of(const hb_predictor *p, hb_workspace *w, const hb_term *t, hb_real *dparameter)
{
    return !t->shape                   ? NULL
           : t->shape == &p->collapsed ? w->collapsed_gradient
                                       : dparameter + (t->parameter - p->model->parameter);
}

/* the terms that a gradient runs through, gathered in the workspace */
static hb_field gradient_terms(const hb_predictor *p, hb_workspace *w, hb_gradient_of of)
{
    hb_field f = {.model = p->model, .term = w->term};
    for (int t = 0; t < p->nterms; t++)
        /* an idle network contributes nothing but still has a gradient by its coefficient */
        if (!p->idle[t] || of != HB_OF_AVERAGE)
            w->term[f.nterms++] = p->term[t];
    return f;
}

/* tape: of the step's record; NULL: it is made here */
static void combined_gradient(const hb_predictor *p, hb_workspace *w, const hb_batch *in, char *tape, hb_real *dz,
                              hb_real *du, hb_gradient_of of, hb_real *dparameter, hb_real *dscale)
{
    const hb_field field = gradient_terms(p, w, of);
    bool collapsed = false;

    for (int t = 0; t < field.nterms; t++) {
        hb_term *term = &w->term[t];
        term->gradient = gradient_of(p, w, term, dparameter);
        term->scale_gradient = term->scale && of == HB_OF_BASIS ? dscale + (term->scale - p->scale) : NULL;
        collapsed |= term->shape == &p->collapsed && (term->belongs_to & of);
    }
    if (collapsed && !w->gathers)
        memset(w->collapsed_gradient, 0, p->collapsed.nparameters * sizeof(hb_real));
    if (!tape)
        hb_field_integrate(&field, w, in, false, w->increment, w->tape, true);
    hb_field_adjoint(&field, w, in, tape ? tape : w->tape, w->gradient_z, dz, du, of);
    if (collapsed && !w->gathers)
        uncollapse(p, w, of, dparameter, dscale);
}

/* What a step of terms that are integrated one by one leaves: for each of them
 *
 *     its increment | the tape of its integration, with gradients */
static size_t increment_size(const hb_model *m)
{
    return (size_t)m->nx * HB_STRIDE * sizeof(hb_real);
}

static void record_separately(const hb_predictor *p, hb_workspace *w, const hb_batch *in, hb_gradient_of of,
                              hb_real *z_next, char *tape)
{
    const hb_model *m = p->model;

    hb_batch_clear(m->nx, in->n, w->gradient_z);
    for (int t = 0; t < p->nterms; t++) {
        if (p->idle[t] && of == HB_OF_AVERAGE)
            continue;
        const hb_term term = without_scale(&p->term[t]);
        const hb_field field = {.model = m, .nterms = 1, .term = &term};
        hb_real *increment = (hb_real *)tape;

        tape += increment_size(m);
        hb_field_integrate(&field, w, in, false, increment, tape, true);
        hb_batch_add_scaled(w->kernels, m->nx, in->n, p->term[t].scale, increment, w->gradient_z);
        tape += hb_field_tape_size(&field, true);
    }
    hb_batch_copy(m->nx, in->n, in->z, z_next);
    hb_batch_add(w->kernels, m->nx, in->n, w->gradient_z, z_next);
}

/* tape: of the step's record; NULL: each term's is made here */
static void separate_gradient(const hb_predictor *p, hb_workspace *w, const hb_batch *in, const char *tape, hb_real *dz,
                              hb_real *du, hb_gradient_of of, hb_real *dparameter, hb_real *dscale)
{
    const hb_model *m = p->model;

    for (int t = 0; t < p->nterms; t++) {
        if (p->idle[t] && of == HB_OF_AVERAGE)
            continue;
        hb_term term = without_scale(&p->term[t]);
        const hb_field field = {.model = m, .nterms = 1, .term = &term};
        const hb_real *scale = p->term[t].scale, *increment = w->increment;
        const char *at = w->tape;

        term.gradient = gradient_of(p, w, &term, dparameter);
        if (tape) {
            increment = (const hb_real *)tape;
            at = tape + increment_size(m);
            tape = at + hb_field_tape_size(&field, true);
        } else {
            hb_field_integrate(&field, w, in, false, w->increment, w->tape, true);
        }
        for (int r = 0; scale && of == HB_OF_BASIS && r < m->nx; r++)
            dscale[t * m->nx + r] += hb_dot(in->n, increment + r * HB_STRIDE, w->gradient_z + r * HB_STRIDE);
        hb_batch_scale(w->kernels, m->nx, in->n, scale, w->gradient_z, w->increment);
        hb_field_adjoint(&field, w, in, at, w->increment, dz, du, of);
    }
}

/* from coefficients for each state to those of the model's shape */
static void add_scale(const hb_model *m, const hb_real *dscale, hb_real *dcoefficient)
{
    for (int i = 0; i < m->nb; i++)
        for (int r = 0; r < m->nx; r++)
            dcoefficient[m->shape == HB_PER_STATE ? i * m->nx + r : i] += dscale[i * m->nx + r];
}

static void gradient(const hb_predictor *p, hb_workspace *w, const hb_batch *in, char *tape, const hb_real *dz_next,
                     hb_real *dz, hb_real *du, hb_gradient_of of, hb_real *dparameter, hb_real *dcoefficient)
{
    const hb_model *m = p->model;
    hb_real *dscale = w->all; /* nb x nx */

    memset(dscale, 0, (size_t)(m->nb * m->nx) * sizeof *dscale);
    hb_batch_copy(m->nx, in->n, dz_next, w->gradient_z);
    hb_batch_copy(m->nx, in->n, dz_next, dz);
    if (du)
        hb_batch_clear(m->nu, in->n, du);
    if (separate(m))
        separate_gradient(p, w, in, tape, dz, du, of, dparameter, dscale);
    else
        combined_gradient(p, w, in, tape, dz, du, of, dparameter, dscale);
    if (dcoefficient && of == HB_OF_BASIS)
        add_scale(m, dscale, dcoefficient);
}

void hb_predictor_gradient(const hb_predictor *p, hb_workspace *w, const hb_batch *in, const hb_real *dz_next,
                           hb_real *dz, hb_real *du, hb_gradient_of of, hb_real *dparameter, hb_real *dcoefficient)
{
    gradient(p, w, in, NULL, dz_next, dz, du, of, dparameter, dcoefficient);
}

size_t hb_predictor_record_size(const hb_model *m)
{
    const hb_mlp shape = collapsed_shape(m);
    const int networks = m->architecture == HB_SHARED ? 1 : m->nb;
    return hb_field_tape_bound(m, &shape, networks, true) +
           (separate(m) ? (size_t)(networks + 1) * increment_size(m) : 0);
}

void hb_predictor_record(const hb_predictor *p, hb_workspace *w, const hb_batch *in, hb_gradient_of of, hb_real *z_next,
                         char *tape)
{
    const hb_model *m = p->model;

    if (separate(m)) {
        record_separately(p, w, in, of, z_next, tape);
        return;
    }
    const hb_field field = gradient_terms(p, w, of);
    hb_field_integrate(&field, w, in, false, w->increment, tape, true);
    hb_batch_copy(m->nx, in->n, in->z, z_next);
    hb_batch_add(w->kernels, m->nx, in->n, w->increment, z_next);
}

void hb_predictor_gradient_of_record(const hb_predictor *p, hb_workspace *w, const hb_batch *in, char *tape,
                                     const hb_real *dz_next, hb_real *dz, hb_real *du, hb_gradient_of of,
                                     hb_real *dparameter, hb_real *dcoefficient)
{
    gradient(p, w, in, tape, dz_next, dz, du, of, dparameter, dcoefficient);
}

void hb_predictor_gather(const hb_predictor *p, hb_workspace *w)
{
    w->gathers = collapses(p->model);
    if (w->gathers)
        memset(w->collapsed_gradient, 0, p->collapsed.nparameters * sizeof(hb_real));
}

void hb_predictor_hand_on(const hb_predictor *p, hb_workspace *w, hb_gradient_of of, hb_real *dparameter,
                          hb_real *dcoefficient)
{
    const hb_model *m = p->model;
    hb_real *dscale = w->all; /* nb x nx */

    if (!w->gathers)
        return;
    w->gathers = false;
    memset(dscale, 0, (size_t)(m->nb * m->nx) * sizeof *dscale);
    uncollapse(p, w, of, dparameter, dscale);
    if (dcoefficient && of == HB_OF_BASIS)
        add_scale(m, dscale, dcoefficient);
}
