#include "dynamics/basis.h"

#include "dynamics/collapse.h"
#include "dynamics/field.h"

/* the average as a term of its own; false when there is none, or when it is part of the shared head */
static bool average_term(const hb_model *m, hb_term *term)
{
    *term = (hb_term){.belongs_to = HB_OF_AVERAGE};
    if (m->average == HB_AVERAGE_NETWORK) {
        term->shape = &m->average_network;
        term->parameter = m->parameter + hb_model_average_at(m);
        return true;
    }
    return m->average == HB_AVERAGE_NOMINAL;
}

static const hb_real *network_at(const hb_model *m, int i)
{
    return m->parameter + (size_t)i * m->basis.nparameters;
}

/* every function along its own trajectory; all but the average leave a record, each of the same size */
static void separate_increments(const hb_model *m, hb_workspace *w, const hb_batch *in, hb_real *g, char *tape)
{
    for (int i = 0; i <= m->nb; i++) {
        hb_term term = {.shape = &m->basis, .parameter = i < m->nb ? network_at(m, i) : NULL};
        const hb_field field = {.model = m, .nterms = 1, .term = &term};
        hb_real *mine = g + i * m->nx * HB_STRIDE;

        if (i == m->nb && !average_term(m, &term))
            hb_batch_clear(m->nx, in->n, mine);
        else if (i == m->nb || !tape)
            hb_field_integrate(&field, w, in, in->n == 1, mine, NULL, false);
        else
            hb_field_integrate(&field, w, in, false, mine, tape + (size_t)i * hb_field_tape_size(&field, true), true);
    }
}

/* the rates of all functions at one point: nb + 1 times nx rows, the average last */
static void all_rates(const hb_model *m, hb_workspace *w, int n, const hb_real *z, const hb_real *u, hb_real *all,
                      const hb_network_tape *shared_tape)
{
    const bool single = n == 1 && !shared_tape;
    hb_real *average = all + m->nb * m->nx * HB_STRIDE;
    hb_term term;

    hb_field_gather(m, n, z, u, w->input);
    if (m->architecture == HB_SHARED && m->basis.nlayers)
        hb_field_network(m, w, &m->basis, m->parameter, single, w->input, all, n, shared_tape);
    for (int i = 0; m->architecture == HB_INDEPENDENT && i < m->nb; i++)
        hb_field_network(m, w, &m->basis, network_at(m, i), single, w->input, all + i * m->nx * HB_STRIDE, n, NULL);

    if (m->average == HB_AVERAGE_HEAD)
        return;
    if (!average_term(m, &term))
        hb_batch_clear(m->nx, n, average);
    else if (term.shape)
        hb_field_network(m, w, term.shape, term.parameter, single, w->input, average, n, NULL);
    else
        hb_field_nominal(m, w, n, z, u, average);
}

/* rate of the model in use: the average, plus c . basis */
static void mix(const hb_model *m, hb_workspace *w, int n, const hb_real *all, const hb_real *coefficient,
                hb_real *rate)
{
    hb_batch_copy(m->nx, n, all + m->nb * m->nx * HB_STRIDE, rate);
    for (int i = 0; coefficient && i < m->nb; i++) {
        const hb_real *mine = all + i * m->nx * HB_STRIDE;
        if (m->shape == HB_PER_STATE)
            hb_batch_add_scaled(w->kernels, m->nx, n, coefficient + i * m->nx, mine, rate);
        else
            hb_batch_add_times(w->kernels, m->nx, n, coefficient[i], mine, rate);
    }
}

/* all functions along the trajectory of the model in use */
static void combined_increments(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient,
                                hb_real *g)
{
    const int n = in->n, rows = (m->nb + 1) * m->nx;

    hb_rk4_start(m, w, in);
    hb_batch_clear(rows, n, g);
    for (int sub = 0; sub < m->substeps; sub++) {
        for (int s = 0; s < 4; s++) {
            all_rates(m, w, n, hb_rk4_point(m, w, n, s), in->u, w->all, NULL);
            mix(m, w, n, w->all, coefficient, w->rate);
            hb_rk4_add(m, w, n, s);
            hb_batch_advance(w->kernels, rows, n, g, hb_rk4_weight[s] / 6, w->step, w->all, g);
        }
        hb_rk4_advance(m, w, n, w->base);
        hb_batch_clear(m->nx, n, w->sum);
    }
}

/* What one stage leaves on the tape of a shared network:
 *
 *     the stage point | the network's slopes | its layers' inputs
 *
 * Behind all stages: what the trunk puts out, integrated, and the seconds that it was integrated for. */
typedef struct stage_record {
    hb_real *point; /* nx rows */
    hb_network_tape network;
} stage_record;

static size_t rows_size(int rows)
{
    return (size_t)rows * HB_STRIDE * sizeof(hb_real);
}

static size_t record_size(const hb_model *m)
{
    return rows_size(m->nx) + hb_network_slopes_size(&m->basis, m->activation) +
           hb_network_layer_inputs_size(&m->basis) * sizeof(hb_real);
}

static stage_record stage_of(const hb_model *m, char *tape, int stage)
{
    char *at = tape + (size_t)stage * record_size(m), *slopes = at + rows_size(m->nx);
    return (stage_record){
        .point = (hb_real *)at,
        .network.slopes = slopes,
        .network.layer_inputs = (hb_real *)(slopes + hb_network_slopes_size(&m->basis, m->activation)),
    };
}

/* the trunk's rows, and behind them one of seconds */
static hb_real *integral_of(const hb_model *m, char *tape)
{
    return (hb_real *)(tape + (size_t)hb_field_stages(m) * record_size(m));
}

size_t hb_basis_tape_size(const hb_model *m)
{
    const hb_field one = {.model = m, .nterms = 1, .term = &(hb_term){.shape = &m->basis}};

    if (m->integration == HB_SEPARATE)
        return (size_t)m->nb * hb_field_tape_size(&one, true);
    if (m->architecture != HB_SHARED || !m->nb)
        return 0;
    return (size_t)hb_field_stages(m) * record_size(m) + rows_size((int)hb_mlp_head(&m->basis).width + 1);
}

/* ---- a shared network that is integrated with its head left for the end ----
 *
 * g_i = W_i h + b_i is linear in what the trunk puts out. So h is integrated along the way, and the head, which has
 * most of the weights, is applied once to the integral; the way itself needs no more than the collapsed head. */

/* Into the workspace; false when the collapsed head is zero. */
static bool collapse_head(const hb_model *m, hb_workspace *w, const hb_real *coefficient)
{
    hb_collapse(m, m->shape, coefficient, w->head, w->head_bias);
    return coefficient || m->average == HB_AVERAGE_HEAD;
}

static hb_network basis_network(const hb_model *m, const hb_workspace *w)
{
    return (hb_network){w->kernels, &m->basis, m->activation, m->parameter};
}

/* The rate of the model in use at one stage, to w->rate. What the trunk puts out there is added to its integral, and
 * the rate of an average outside the network to `average`, with this weight, as w->rate is to w->sum. It leaves a
 * record unless that is NULL. */
static void stage_of_trunk(const hb_model *m, hb_workspace *w, int n, const hb_real *z, const hb_real *u, bool headed,
                           hb_real weight, hb_real *average, const stage_record *record)
{
    const hb_kernels *k = w->kernels;
    const hb_network basis = basis_network(m, w);
    const int width = (int)hb_mlp_head(&m->basis).width, nin = m->basis.width[0];
    hb_term term;

    if (record)
        hb_batch_copy(m->nx, n, z, record->point);
    hb_field_gather(m, n, z, u, w->input);
    if (n == 1 && !record) {
        hb_real *x = w->single, *y = x + hb_padded(nin);
        for (int i = 0; i < nin; i++)
            x[i] = w->input[i * HB_STRIDE];
        const hb_real *h = hb_network_trunk_single(&basis, x, w->scratch);
        for (int i = 0; i < width && weight != 0; i++)
            w->trunk[i] += weight * w->step[0] * h[i];
        if (headed)
            k->affine_single(m->nx, width, w->head, w->head_bias, h, y);
        for (int i = 0; i < m->nx; i++)
            w->rate[i * HB_STRIDE] = headed ? y[i] : 0;
    } else {
        const hb_real *h = hb_network_trunk(&basis, w->input, n, record ? &record->network : NULL, w->scratch, NULL);
        if (weight != 0)
            hb_batch_advance(k, width, n, w->trunk, weight, w->step, h, w->trunk);
        if (headed)
            k->affine(m->nx, width, w->head, width, 1, w->head_bias, h, HB_STRIDE, w->rate, HB_STRIDE, hb_padded(n),
                      NULL);
        else
            hb_batch_clear(m->nx, n, w->rate);
    }
    if (average_term(m, &term)) {
        if (term.shape)
            hb_field_network(m, w, term.shape, term.parameter, n == 1, w->input, w->output, n, NULL);
        else
            hb_field_nominal(m, w, n, z, u, w->output);
        hb_batch_advance(k, m->nx, n, average, weight, w->step, w->output, average);
        hb_batch_add(k, m->nx, n, w->output, w->rate);
    }
    hb_batch_add_times(k, m->nx, n, weight, w->rate, w->sum);
}

/* The head, applied to the integral of the trunk's outputs. */
static void apply_head(const hb_model *m, hb_workspace *w, int n, bool single, const hb_real *seconds, hb_real *g)
{
    const hb_head h = hb_mlp_head(&m->basis);
    const hb_real *weight = m->parameter + h.weight, *bias = m->parameter + h.bias;

    if (single) {
        hb_real *y = w->single;
        for (size_t r = 0; r < h.rows; r++)
            w->all[r] = seconds[0] * bias[r];
        w->kernels->affine_single((int)h.rows, (int)h.width, weight, w->all, w->trunk, y);
        for (size_t r = 0; r < h.rows; r++)
            g[r * HB_STRIDE] = y[r];
        return;
    }
    w->kernels->affine((int)h.rows, (int)h.width, weight, (ptrdiff_t)h.width, 1, NULL, w->trunk, HB_STRIDE, g,
                       HB_STRIDE, hb_padded(n), NULL);
    for (size_t r = 0; r < h.rows; r++)
        for (int s = 0; s < hb_padded(n); s++)
            g[r * HB_STRIDE + (size_t)s] += bias[r] * seconds[s];
}

/* of the rates at the stages of Runge and Kutta's method */
static const hb_real stage_weight[4] = {(hb_real)(1.0 / 6), (hb_real)(1.0 / 3), (hb_real)(1.0 / 3), (hb_real)(1.0 / 6)};

/* tape: what is recorded of it; NULL: nothing is */
static void trunk_increments(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient,
                             hb_real *g, char *tape)
{
    const int n = in->n, width = (int)hb_mlp_head(&m->basis).width;
    const bool headed = collapse_head(m, w, coefficient);
    hb_real *average = g + m->nb * m->nx * HB_STRIDE, *seconds = w->trunk + width * HB_STRIDE;

    hb_batch_copy(m->nx, n, in->z, w->base);
    hb_batch_clear(width + 1, n, w->trunk);
    for (int i = 0; i < width && n == 1; i++)
        w->trunk[i] = 0;
    if (m->average != HB_AVERAGE_HEAD)
        hb_batch_clear(m->nx, n, average);
    for (int s = 0; s < hb_padded(n); s++) {
        w->step[s] = in->dt[s] / (hb_real)m->substeps;
        seconds[s] = in->dt[s];
    }
    for (int sub = 0; sub < m->substeps; sub++) {
        hb_batch_clear(m->nx, n, w->sum);
        for (int s = 0; s < 4; s++) {
            const stage_record record = tape ? stage_of(m, tape, 4 * sub + s) : (stage_record){0};
            stage_of_trunk(m, w, n, hb_rk4_point(m, w, n, s), in->u, headed, stage_weight[s], average,
                           tape ? &record : NULL);
        }
        hb_batch_advance(w->kernels, m->nx, n, w->base, 1, w->step, w->sum, w->base);
    }
    apply_head(m, w, n, n == 1 && !tape, seconds, g);
    if (tape)
        hb_batch_copy(width + 1, n, w->trunk, integral_of(m, tape));
}

/* Whether a hidden layer is common to all functions, along one path. */
static bool has_trunk(const hb_model *m)
{
    return m->integration == HB_COMBINED && m->architecture == HB_SHARED && m->basis.nlayers > 0;
}

void hb_basis_increments(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient, hb_real *g)
{
    if (has_trunk(m))
        trunk_increments(m, w, in, coefficient, g, NULL);
    else if (m->integration == HB_SEPARATE)
        separate_increments(m, w, in, g, NULL);
    else if (m->integration == HB_DIRECT)
        all_rates(m, w, in->n, in->z, in->u, g, NULL);
    else
        combined_increments(m, w, in, coefficient, g);
}

void hb_basis_record(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient, hb_real *g,
                     char *tape)
{
    if (m->integration == HB_SEPARATE) {
        separate_increments(m, w, in, g, tape);
    } else if (m->integration == HB_DIRECT) {
        const stage_record record = stage_of(m, tape, 0);
        all_rates(m, w, in->n, in->z, in->u, g, &record.network);
    } else {
        trunk_increments(m, w, in, coefficient, g, tape);
    }
}

/* tape: the record; NULL: each function's is made here */
static void separate_gradient(const hb_model *m, hb_workspace *w, const hb_batch *in, const char *tape,
                              const hb_real *dg, hb_real *dparameter)
{
    for (int i = 0; i < m->nb; i++) {
        const hb_term term = {
            .shape = &m->basis,
            .parameter = network_at(m, i),
            .belongs_to = HB_OF_BASIS,
            .gradient = dparameter + (size_t)i * m->basis.nparameters,
        };
        const hb_field field = {.model = m, .nterms = 1, .term = &term};

        const char *record = tape ? tape + (size_t)i * hb_field_tape_size(&field, true) : w->tape;

        hb_batch_clear(m->nx, in->n, w->gradient_z);
        if (!tape)
            hb_field_integrate(&field, w, in, false, w->increment, w->tape, true);
        hb_field_adjoint(&field, w, in, record, dg + i * m->nx * HB_STRIDE, w->gradient_z, NULL, HB_OF_BASIS);
    }
}

/* adds to ds, the gradient of a stage point, what an average outside the shared network brings; destroys daverage */
static void average_back(const hb_model *m, hb_workspace *w, int n, const hb_real *point, const hb_real *u,
                         hb_real *daverage, hb_real *ds)
{
    const hb_network_tape tape = {.slopes = w->tape};
    hb_term average;

    if (!average_term(m, &average))
        return;
    if (!average.shape) {
        hb_field_nominal_adjoint(m, w, n, point, u, daverage, ds, NULL);
        return;
    }
    hb_field_gather(m, n, point, u, w->input);
    hb_field_network(m, w, average.shape, average.parameter, false, w->input, w->output, n, &tape);
    const hb_network network = {w->kernels, average.shape, m->activation, average.parameter};
    hb_network_backward(&network, daverage, w->dinput, n, &tape, NULL, w->scratch, NULL);
    hb_field_scatter_add(m, w, n, ds, NULL);
}

/* The way back of F_avg's own loss, for its rows of the head. It runs beside that of the rest, over the same record. */
typedef struct own_way {
    const hb_real *daverage;    /* gradient of F_avg */
    hb_real *g, *ds, *dk, *sum; /* nx rows each, as in combined_gradient */
} own_way;

static own_way start_own_way(const hb_model *m, hb_workspace *w, int n, const hb_real *daverage)
{
    own_way own = {.daverage = daverage, .g = w->rate, .ds = w->output, .dk = w->increment, .sum = w->gradient_z};

    if (daverage) {
        hb_batch_clear(m->nx, n, own.g);
        hb_batch_clear(m->nx, n, own.sum);
    }
    return own;
}

static void own_stage(const hb_model *m, hb_workspace *w, const own_way *own, int n, int i, const stage_record *record,
                      hb_real *dparameter)
{
    const bool direct = m->integration == HB_DIRECT;
    const int s = i % 4, first = m->nb * m->nx;
    const hb_real weight = direct ? 1 : hb_rk4_weight[s] / 6;

    hb_batch_advance(w->kernels, m->nx, n, NULL, weight, w->step, own->daverage, own->dk);
    if (!direct)
        hb_batch_advance(w->kernels, m->nx, n, own->dk, weight, w->step, own->g, own->dk);
    if (!direct && s < 3)
        hb_batch_advance(w->kernels, m->nx, n, own->dk, hb_rk4_stage_at[s + 1], w->step, own->ds, own->dk);
    hb_network_rows_gradient(w->kernels, &m->basis, first, m->nx, own->dk, n, &record->network, dparameter);
    if (i == 0)
        return;
    const hb_network basis = basis_network(m, w);
    hb_network_backward_rows(&basis, (hb_head_rows){.first = first, .rows = m->nx}, own->dk, w->dinput, n,
                             &record->network, NULL, w->scratch, NULL);
    hb_batch_clear(m->nx, n, own->ds);
    hb_field_scatter_add(m, w, n, own->ds, NULL);
    hb_batch_add(w->kernels, m->nx, n, own->ds, own->sum);
    if (s == 0) {
        hb_batch_add(w->kernels, m->nx, n, own->sum, own->g);
        hb_batch_clear(m->nx, n, own->sum);
    }
}

/* The way back through the head, once for all stages: the gradient of the integral of what the trunk puts out goes to
 * w->trunk, and that of the weights of the basis to dparameter. The average's rows learn from its own loss alone. */
static void head_back(const hb_model *m, hb_workspace *w, int n, const hb_real *integral, const hb_real *drates,
                      hb_real *dparameter)
{
    const hb_head h = hb_mlp_head(&m->basis);
    const int width = (int)h.width, learning = m->nb * m->nx, lanes = hb_padded(n);
    const hb_real *seconds = integral + width * HB_STRIDE;
    hb_real *unused = w->all; /* the sums of drates, which are not weighted with seconds */

    w->kernels->outer(learning, width, drates, integral, dparameter + h.weight, unused, lanes);
    for (int r = 0; r < learning; r++)
        dparameter[h.bias + (size_t)r] += hb_dot(lanes, drates + r * HB_STRIDE, seconds);
    w->kernels->affine(width, (int)h.rows, m->parameter + h.weight, 1, width, NULL, drates, HB_STRIDE, w->trunk,
                       HB_STRIDE, lanes, NULL);
}

/* The way back over the recorded stages of a shared network. Where the network moves the stage points, as the average's
 * head or by the coefficients, the gradient runs back through the stages; otherwise each stage's stands by itself. */
static void combined_gradient(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient,
                              char *tape, const own_way *own, const hb_real *drates, hb_real *dparameter,
                              hb_real *dcoefficient)
{
    const hb_kernels *k = w->kernels;
    const int n = in->n, width = (int)hb_mlp_head(&m->basis).width;
    const bool moves = collapse_head(m, w, coefficient);
    hb_real *dhead = w->collapsed_gradient, *dhead_bias = dhead + m->nx * width;

    head_back(m, w, n, integral_of(m, tape), drates, dparameter);
    for (int i = 0; coefficient && i < m->nx * (width + 1); i++)
        dhead[i] = 0;

    const hb_network basis = basis_network(m, w);
    /* g is the gradient of the state at the end of a sub-step, ds that of a stage point, dk that of the rate there */
    hb_real *g = w->base, *ds = w->stage, *dk = w->drate;
    hb_batch_clear(m->nx, n, g);
    hb_batch_clear(m->nx, n, w->sum);
    for (int i = hb_field_stages(m) - 1; i >= 0; i--) {
        const stage_record record = stage_of(m, tape, i);
        const int s = i % 4;
        const hb_real weight = hb_rk4_weight[s] / 6;

        if (moves) {
            hb_batch_advance(k, m->nx, n, NULL, weight, w->step, g, dk);
            if (s < 3)
                hb_batch_advance(k, m->nx, n, dk, hb_rk4_stage_at[s + 1], w->step, ds, dk);
            k->affine(width, m->nx, w->head, 1, width, NULL, dk, HB_STRIDE, w->dtrunk, HB_STRIDE, hb_padded(n), NULL);
        }
        if (coefficient)
            k->outer(m->nx, width, dk, hb_network_trunk_outputs(&m->basis, &record.network), dhead, dhead_bias,
                     hb_padded(n));
        if (own->daverage)
            own_stage(m, w, own, n, i, &record, dparameter);
        hb_batch_advance(k, width, n, moves ? w->dtrunk : NULL, weight, w->step, w->trunk, w->dtrunk);
        hb_network_trunk_backward(&basis, w->dtrunk, moves ? w->dinput : NULL, n, &record.network, dparameter,
                                  w->scratch);
        if (!moves)
            continue;
        hb_batch_clear(m->nx, n, ds);
        hb_field_scatter_add(m, w, n, ds, NULL);
        /* an average outside the network has two gradients: dk, of its rate, and that of its increment */
        hb_batch_advance(k, m->nx, n, dk, weight, w->step, drates + m->nb * m->nx * HB_STRIDE, dk);
        average_back(m, w, n, record.point, in->u, dk, ds);
        hb_batch_add(k, m->nx, n, ds, w->sum);
        if (s == 0) {
            hb_batch_add(k, m->nx, n, w->sum, g);
            hb_batch_clear(m->nx, n, w->sum);
        }
    }
    if (coefficient)
        hb_uncollapse(m, m->shape, coefficient, HB_BLOCKS_OF_BASIS, dhead, dhead_bias, dparameter, dcoefficient);
}

static void shared_gradient(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient,
                            char *tape, const hb_real *dg, const hb_real *daverage, hb_real share, hb_real *dparameter,
                            hb_real *dcoefficient)
{
    const int n = in->n, rows = (m->nb + 1) * m->nx;
    const own_way own = start_own_way(m, w, n, daverage);
    const bool direct = m->integration == HB_DIRECT;
    hb_real *drates = w->all_gradient;

    for (int s = 0; s < hb_padded(n); s++)
        w->step[s] = direct ? 1 : in->dt[s] / (hb_real)m->substeps;
    hb_batch_copy(rows, n, dg, drates);
    if (daverage)
        hb_batch_add_times(w->kernels, m->nx, n, share, daverage, drates + m->nb * m->nx * HB_STRIDE);
    for (int r = 0; r < rows; r++)
        for (int s = n; s < hb_padded(n); s++)
            drates[r * HB_STRIDE + s] = 0;

    if (!direct) {
        combined_gradient(m, w, in, coefficient, tape, &own, drates, dparameter, dcoefficient);
        return;
    }
    const stage_record record = stage_of(m, tape, 0);
    if (daverage)
        own_stage(m, w, &own, n, 0, &record, dparameter);
    const hb_network basis = basis_network(m, w);
    const hb_head_rows all = {.rows = m->basis.width[m->basis.nlayers], .learning = m->nb * m->nx};
    hb_network_backward_rows(&basis, all, drates, NULL, n, &record.network, dparameter, w->scratch, NULL);
}

void hb_basis_gradient_of_record(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient,
                                 char *tape, const hb_real *dg, const hb_real *daverage, hb_real share,
                                 hb_real *dparameter, hb_real *dcoefficient)
{
    if (m->integration == HB_SEPARATE)
        separate_gradient(m, w, in, tape, dg, dparameter);
    else
        shared_gradient(m, w, in, coefficient, tape, dg, daverage, share, dparameter, dcoefficient);
}

/* Networks of their own on stage points along the average, which do not depend on them: each stage's gradient stands by
 * itself. */
static void fixed_stage_gradient(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *dg,
                                 hb_real *dparameter)
{
    const int n = in->n, rows = m->nx;
    const bool direct = m->integration == HB_DIRECT;
    const hb_network_tape tape = {
        .slopes = w->tape,
        .layer_inputs = (hb_real *)(w->tape + hb_network_slopes_size(&m->basis, m->activation)),
    };
    hb_term average;
    const bool has_average = average_term(m, &average);

    for (int s = 0; s < hb_padded(n); s++)
        w->step[s] = direct ? 1 : in->dt[s] / (hb_real)m->substeps;
    hb_batch_copy(m->nx, n, in->z, w->base);
    hb_batch_clear(m->nx, n, w->sum);
    hb_batch_clear(m->nx, n, w->rate);
    for (int i = 0; i < hb_field_stages(m); i++) {
        const int s = i % 4;
        if (i && s == 0) {
            hb_rk4_advance(m, w, n, w->base);
            hb_batch_clear(m->nx, n, w->sum);
        }
        hb_batch_advance(w->kernels, m->nx, n, w->base, hb_rk4_stage_at[s], w->step, w->rate, w->stage);
        hb_field_gather(m, n, w->stage, in->u, w->input);
        for (int k = 0; k < m->nb; k++) {
            const hb_real *parameter = network_at(m, k);
            hb_field_network(m, w, &m->basis, parameter, false, w->input, w->all, n, &tape);
            hb_batch_advance(w->kernels, rows, n, NULL, direct ? 1 : hb_rk4_weight[s] / 6, w->step,
                             dg + k * rows * HB_STRIDE, w->all_gradient);
            const hb_network network = {w->kernels, &m->basis, m->activation, parameter};
            hb_network_backward(&network, w->all_gradient, NULL, n, &tape,
                                dparameter + (size_t)k * m->basis.nparameters, w->scratch, NULL);
        }
        /* to the next stage point, along the average */
        hb_batch_clear(m->nx, n, w->rate);
        if (has_average && average.shape)
            hb_field_network(m, w, average.shape, average.parameter, false, w->input, w->rate, n, NULL);
        else if (has_average)
            hb_field_nominal(m, w, n, w->stage, in->u, w->rate);
        hb_rk4_add(m, w, n, s);
    }
}

void hb_basis_gradient(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *dg, hb_real *dparameter)
{
    if (m->integration == HB_SEPARATE)
        separate_gradient(m, w, in, NULL, dg, dparameter);
    else
        fixed_stage_gradient(m, w, in, dg, dparameter);
}
