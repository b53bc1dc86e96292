#include "train/loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dynamics/basis.h"

struct hb_loss {
    const hb_model *model;
    hb_loss_settings settings;
    double *weight; /* nx */
    hb_workspace *workspace;
    hb_predictor *predictor;
    hb_fit *fit;
    bool average_learns;
    hb_real *c, *dc; /* the model's shape */
    hb_real *z;      /* (query_steps + 1) x nx x HB_STRIDE, a rollout */
    hb_real *dz;     /* nx x HB_STRIDE */
    int nrecords;    /* steps at the end of a rollout that are recorded for the gradient; the others are made again */
    size_t record_size;
    char *record; /* nrecords x record_size */
    void *memory;
};

enum {
    RECORD_BYTES = 16 << 20,    /* for all of them, unless one takes more, */
    LARGEST_RECORD = 128 << 20, /* but never more than this: such steps are made again */
};

/* fills *l with pointers into the arena; returns where *l itself is to be kept */
static hb_loss *lay_out(hb_loss *l, const hb_model *m, int query_steps, hb_arena *arena)
{
    hb_loss *place = hb_arena_take(arena, 1, sizeof *l);
    size_t nx = (size_t)m->nx, nc = (size_t)hb_model_ncoefficients(m);
    l->weight = hb_arena_take(arena, nx, sizeof *l->weight);
    l->c = hb_arena_take(arena, nc, sizeof *l->c);
    l->dc = hb_arena_take(arena, nc, sizeof *l->dc);
    l->z = hb_arena_take(arena, ((size_t)query_steps + 1) * nx * HB_STRIDE, sizeof *l->z);
    l->dz = hb_arena_take(arena, nx * HB_STRIDE, sizeof *l->dz);
    l->record = hb_arena_take(arena, (size_t)l->nrecords * l->record_size, 1);
    l->memory = arena->base;
    return place;
}

static int count_records(size_t record_size, int query_steps)
{
    size_t fit = record_size ? RECORD_BYTES / record_size : 0, most = (size_t)query_steps;

    if (!record_size || record_size > LARGEST_RECORD)
        return 0;
    return fit < 1 ? 1 : (int)(fit < most ? fit : most);
}

int hb_loss_new(hb_loss **ret, const hb_model *m, const hb_loss_settings *s, int max_examples, int query_steps,
                hb_error *err)
{
    hb_loss laid = {.record_size = s->errors_only ? 0 : hb_predictor_record_size(m)};
    laid.nrecords = count_records(laid.record_size, query_steps);
    hb_arena arena = {0};
    lay_out(&laid, m, query_steps, &arena);
    int status = hb_arena_allocate(&arena, err);
    if (status)
        return status;

    hb_loss *l = lay_out(&laid, m, query_steps, &arena);
    *l = laid;
    l->model = m;
    l->settings = *s;
    for (int k = 0; k < m->nx; k++)
        l->weight[k] = s->weight ? s->weight[k] : 1;
    l->average_learns = (m->average == HB_AVERAGE_HEAD || m->average == HB_AVERAGE_NETWORK) && !s->freeze_average;

    if ((status = hb_workspace_new(&l->workspace, m, !s->errors_only, err)) ||
        (status = hb_predictor_new(&l->predictor, m, err)) ||
        (status = hb_fit_new(&l->fit, m, max_examples, s->refinements, !s->errors_only, err)) ||
        (s->prior && (status = hb_fit_use_prior(l->fit, err)))) {
        hb_loss_free(l);
        return status;
    }
    hb_predictor_for_batches(l->predictor);
    *ret = l;
    return 0;
}

void hb_loss_free(hb_loss *l)
{
    if (!l)
        return;
    hb_fit_free(l->fit);
    hb_predictor_free(l->predictor);
    hb_workspace_free(l->workspace);
    free(l->memory);
}

/* sum over samples of weight (a - b)^2; adds 2 scale weight (a - b) to da. b, weight and da may be NULL: zero, one and
 * not wanted. Padding lanes are left alone. */
static double squared_error(int nx, int n, const hb_real *a, const hb_real *b, const double *weight, double scale,
                            hb_real *da)
{
    double total = 0;

    for (int k = 0; k < nx; k++) {
        size_t row = (size_t)k * HB_STRIDE;
        double sum = 0, w = weight ? weight[k] : 1;
        hb_real factor = (hb_real)(2 * scale * w);

        for (int p = 0; p < n; p++) {
            hb_real e = a[row + (size_t)p] - (b ? b[row + (size_t)p] : 0);
            sum += (double)e * (double)e;
            if (da)
                da[row + (size_t)p] += factor * e;
        }
        total += w * sum;
    }
    return total;
}

/* where a step of a rollout is recorded; NULL: it is not */
static char *record_of(const hb_loss *l, const hb_points *query, int step)
{
    if (step < query->nsteps - l->nrecords)
        return NULL;
    return l->record + (size_t)(step % l->nrecords) * l->record_size;
}

/* rolls a block out: l->z holds the states from the start on. With `of` its last steps are recorded for the gradient */
static void roll_out(hb_loss *l, const hb_points *query, int block, hb_gradient_of of)
{
    size_t size = (size_t)l->model->nx * HB_STRIDE;

    l->workspace->nominal_parameter = query->nominal;
    memcpy(l->z, hb_points_states(query, block, 0), size * sizeof *l->z);
    for (int step = 0; step < query->nsteps; step++) {
        hb_batch in = hb_points_batch(query, block, step);
        hb_real *z_next = l->z + ((size_t)step + 1) * size;
        in.z = l->z + (size_t)step * size;
        char *record = of ? record_of(l, query, step) : NULL;
        if (record)
            hb_predictor_record(l->predictor, l->workspace, &in, of, z_next, record);
        else
            hb_predictor_step(l->predictor, l->workspace, &in, z_next, NULL);
    }
}

/* weight times the loss of the query points with the coefficients l->c; gradients go to dparameter and l->dc */
static double query_loss(hb_loss *l, const hb_points *query, double weight, double scale, hb_real *dparameter)
{
    int nx = l->model->nx;
    size_t size = (size_t)nx * HB_STRIDE;
    /* a model without basis functions learns its average here */
    hb_gradient_of of = l->model->nb > 0 ? HB_OF_BASIS : HB_OF_AVERAGE;
    double mean = weight / ((double)query->n * query->nsteps * nx), sum = 0;

    hb_predictor_set(l->predictor, l->c);
    if (dparameter)
        hb_predictor_gather(l->predictor, l->workspace);
    for (int block = 0; block < hb_points_nblocks(query); block++) {
        roll_out(l, query, block, dparameter ? of : HB_OF_NONE);
        memset(l->dz, 0, size * sizeof *l->dz);
        for (int step = query->nsteps; step > 0; step--) {
            hb_real *z_next = l->z + (size_t)step * size;
            hb_batch in = hb_points_batch(query, block, step - 1);
            in.z = z_next - size;
            sum +=
                squared_error(nx, in.n, z_next, hb_points_states(query, block, step), l->weight, scale * mean, l->dz);
            char *record = dparameter ? record_of(l, query, step - 1) : NULL;
            if (record)
                hb_predictor_gradient_of_record(l->predictor, l->workspace, &in, record, l->dz, l->dz, NULL, of,
                                                dparameter, l->dc);
            else if (dparameter)
                hb_predictor_gradient(l->predictor, l->workspace, &in, l->dz, l->dz, NULL, of, dparameter, l->dc);
        }
    }
    if (dparameter)
        hb_predictor_hand_on(l->predictor, l->workspace, of, dparameter, l->dc);
    return mean * sum;
}

/* one query term: coefficients of the first n basis functions, loss, and the way back through the coefficients */
static int query_term(hb_loss *l, const hb_points *query, int n, double weight, double scale, hb_real *dparameter,
                      double *ret)
{
    memset(l->dc, 0, (size_t)hb_model_ncoefficients(l->model) * sizeof *l->dc);
    if (hb_fit_coefficients(l->fit, n, l->c))
        return -1;
    *ret = query_loss(l, query, weight, scale, dparameter);
    if (dparameter)
        hb_fit_adjoint(l->fit, n, l->dc);
    return 0;
}

/* regulariser * mean((diag A - 1)^2), its gradient added to the fit's dgram */
static double regularise(hb_loss *l, double scale)
{
    hb_fit *f = l->fit;
    size_t nb = (size_t)l->model->nb, count = (size_t)f->nsystems * nb, asked = 0;
    double sum = 0;

    /* with a system for each state, those without outputs are asked for nothing */
    for (size_t s = 0; s < (size_t)f->nsystems; s++)
        asked += f->nsystems == 1 || l->model->output[s] ? nb : 0;
    double weight = l->settings.regulariser / (double)asked;
    for (size_t d = 0; d < count; d++) {
        if (f->nsystems > 1 && !l->model->output[d / nb])
            continue;
        size_t at = d / nb * nb * nb + d % nb * (nb + 1);
        double excess = f->last->gram[at] - 1;
        sum += excess * excess;
        f->dgram[at] += scale * weight * 2 * excess;
    }
    return weight * sum;
}

/* a block's part of L_avg; its gradient goes to l->dz. The average's error is minus the residual. */
static double average_error(hb_loss *l, const hb_points *example, int block, double scale)
{
    int nx = l->model->nx, n = hb_points_batch(example, block, 0).n;
    size_t size = (size_t)nx * HB_STRIDE;
    double mean = 1 / ((double)example->n * nx);

    memset(l->dz, 0, size * sizeof *l->dz);
    return mean * squared_error(nx, n, l->fit->first->r + (size_t)block * size, NULL, l->weight, -scale * mean, l->dz);
}

/* L_avg of an average in the shared head, of which the basis leaves `query`; gradients run back over the record that
 * the fit left, together with those of the basis */
static double head_loss(hb_loss *l, const hb_points *example, double scale, double query, hb_real *dparameter)
{
    double sum = 0;

    for (int block = 0; block < hb_points_nblocks(example); block++)
        sum += average_error(l, example, block, scale);
    const hb_fit_average own = {l->weight, scale, pow(fmin(1, query / sum), 2)};
    if (dparameter)
        hb_fit_gradient(l->fit, l->workspace, example, &own, dparameter);
    return sum;
}

/* L_avg of an average that is a network of its own */
static double network_loss(hb_loss *l, const hb_points *example, double scale, hb_real *dparameter)
{
    double sum = 0;

    hb_predictor_set(l->predictor, NULL);
    for (int block = 0; block < hb_points_nblocks(example); block++) {
        hb_batch in = hb_points_batch(example, block, 0);
        sum += average_error(l, example, block, scale);
        if (dparameter)
            hb_predictor_gradient(l->predictor, l->workspace, &in, l->dz, l->dz, NULL, HB_OF_AVERAGE, dparameter, NULL);
    }
    return sum;
}

int hb_loss_use_prior(hb_loss *l, hb_error *err)
{
    return hb_fit_use_prior(l->fit, err);
}

int hb_loss_evaluate(hb_loss *l, const hb_points *example, const hb_points *query, int prefix, double scale,
                     hb_real *dparameter, hb_loss_terms *ret)
{
    const hb_model *m = l->model;
    hb_loss_terms t = {0};

    if (hb_fit_evaluate(l->fit, l->workspace, example))
        return -1;
    if (query_term(l, query, m->nb, 1, scale, dparameter, &t.query))
        return -1;
    if (prefix > 0 && query_term(l, query, prefix, l->settings.matryoshka, scale, dparameter, &t.matryoshka))
        return -1;
    if (m->nb > 0 && m->method == HB_LEAST_SQUARES)
        t.regulariser = regularise(l, scale);

    if (l->average_learns && m->average == HB_AVERAGE_HEAD && m->nb > 0) {
        t.average = head_loss(l, example, scale, t.query, dparameter);
    } else {
        if (dparameter && m->nb > 0)
            hb_fit_gradient(l->fit, l->workspace, example, NULL, dparameter);
        if (l->average_learns)
            t.average = network_loss(l, example, scale, dparameter);
    }

    if (!isfinite(t.query + t.matryoshka + t.regulariser + t.average))
        return -1;
    *ret = t;
    return 0;
}

/* l->c and the predictor from the examples */
static int fit_examples(hb_loss *l, const hb_points *example, bool adapt)
{
    const hb_model *m = l->model;
    size_t nc = (size_t)hb_model_ncoefficients(m);

    memset(l->c, 0, nc * sizeof *l->c);
    if (adapt && m->nb > 0) {
        if (hb_fit_evaluate(l->fit, l->workspace, example) || hb_fit_coefficients(l->fit, m->nb, l->c))
            return -1;
    }
    hb_predictor_set(l->predictor, l->c);
    return 0;
}

int hb_loss_errors(hb_loss *l, const hb_points *example, const hb_points *query, bool adapt, double *error, hb_real *c)
{
    const hb_model *m = l->model;
    size_t size = (size_t)m->nx * HB_STRIDE;

    if (fit_examples(l, example, adapt))
        return -1;
    if (c)
        memcpy(c, l->c, (size_t)hb_model_ncoefficients(m) * sizeof *c);
    memset(error, 0, (size_t)query->nsteps * sizeof *error);
    for (int block = 0; block < hb_points_nblocks(query); block++) {
        int n = hb_points_batch(query, block, 0).n;
        roll_out(l, query, block, HB_OF_NONE);
        for (int step = 1; step <= query->nsteps; step++)
            error[step - 1] += squared_error(m->nx, n, l->z + (size_t)step * size, hb_points_states(query, block, step),
                                             l->settings.unit, 0, NULL) /
                               ((double)query->n * m->nx);
    }
    return 0;
}

int hb_loss_trajectories(hb_loss *l, const hb_points *example, const hb_points *query, bool adapt, double *error)
{
    const hb_model *m = l->model;
    size_t size = (size_t)m->nx * HB_STRIDE, nsteps = (size_t)query->nsteps;

    if (fit_examples(l, example, adapt))
        return -1;
    memset(error, 0, (size_t)query->n * nsteps * sizeof *error);
    for (int block = 0; block < hb_points_nblocks(query); block++) {
        int n = hb_points_batch(query, block, 0).n;
        roll_out(l, query, block, HB_OF_NONE);
        for (size_t step = 1; step <= nsteps; step++) {
            const hb_real *z = l->z + step * size, *truth = hb_points_states(query, block, (int)step);
            for (size_t k = 0; k < (size_t)m->nx; k++)
                for (size_t p = 0; p < (size_t)n; p++) {
                    double off = (double)z[k * HB_STRIDE + p] - (double)truth[k * HB_STRIDE + p];
                    error[((size_t)block * HB_STRIDE + p) * nsteps + step - 1] +=
                        (l->settings.unit ? l->settings.unit[k] : 1) * off * off / m->nx;
                }
        }
    }
    return 0;
}
