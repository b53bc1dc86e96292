/* Initial parameters: uniform within +-1 / sqrt(fan-in), as PyTorch's default. Then the last layer of the basis is
 * scaled so that diag A, the mean of G_i^2 over the data, is 1: what the regulariser asks for, and what makes the
 * ridge mean the same for every model. Without it Adam spends its first thousands of steps on growing weights by
 * 1 / dt. The last layer of the average starts at zero: what is not known yet does not move. */
#include "design.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fit.h"
#include "numeric.h"
#include "sampler.h"

enum { SCALING_FUNCTIONS = 16, SCALING_POINTS = HB_STRIDE, SCALING_ROUNDS = 4 };

/* random numbers of the parameters: a stream that no gradient step has */
static const uint64_t parameter_stream = UINT64_MAX;

static const char nominal_prefix[] = "nominal:";

/* what a kind stands for, where the settings do not say */
static const struct kind {
    hb_architecture architecture;
    hb_integration integration;
    hb_activation activation;
    const char *average;
    int nb;
    hb_widths hidden;
} kinds[] = {
    [HB_KIND_SHARED] = {HB_SHARED, HB_COMBINED, HB_SILU, "head", 8, {3, {64, 64, 64}}},
    [HB_KIND_FE_NODE] = {HB_INDEPENDENT, HB_SEPARATE, HB_RELU, "none", 100, {4, {51, 51, 51, 51}}},
    [HB_KIND_FE_NODE_RES] = {HB_INDEPENDENT, HB_SEPARATE, HB_RELU, "network", 100, {4, {51, 51, 51, 51}}},
    [HB_KIND_FE_RES] = {HB_INDEPENDENT, HB_DIRECT, HB_RELU, "network", 100, {4, {51, 51, 51, 51}}},
    [HB_KIND_NODE] = {HB_INDEPENDENT, HB_SEPARATE, HB_RELU, "network", 0, {4, {512, 512, 512, 512}}},
    [HB_KIND_ORACLE] = {HB_INDEPENDENT, HB_SEPARATE, HB_RELU, "network", 0, {4, {512, 512, 512, 512}}},
};

/* everything that is known before the model exists */
typedef struct plan {
    const hb_settings *settings;
    const hb_dataset *data;
    const struct kind *kind;
    hb_model shape;
    int *input;      /* nx of them at most */
    hb_model *given; /* the file that the average comes from, or NULL */
} plan;

static void set_hidden(hb_mlp *mlp, const hb_widths *w)
{
    mlp->nlayers = w->n + 1;
    for (int i = 0; i < w->n; i++)
        mlp->width[i + 1] = w->width[i];
}

/* --- input mask --- */

static int find_state(const hb_dataset *d, const char *name)
{
    for (int i = 0; i < d->header.nx; i++)
        if (strcmp(d->header.state_name[i], name) == 0)
            return i;
    return -1;
}

/* "a,b": these; "-a,-b": all but these */
static int choose_inputs(plan *p, hb_error *err)
{
    const hb_dataset *d = p->data;
    char copy[HB_PATH_SIZE], *save;
    int nx = d->header.nx;
    int keeps = -1;
    bool *named = calloc((size_t)nx, sizeof *named);

    if (!named)
        return hb_fail(err, ENOMEM, "out of memory");
    strcpy(copy, p->settings->inputs);
    for (char *item = strtok_r(copy, ", ", &save); item; item = strtok_r(NULL, ", ", &save)) {
        int keep = *item != '-', state = find_state(d, keep ? item : item + 1);
        if (state < 0 || (keeps >= 0 && keeps != keep)) {
            free(named);
            return state < 0 ? hb_fail(err, EINVAL, "inputs: the data have no state '%s'", keep ? item : item + 1)
                             : hb_fail(err, EINVAL,
                                       "inputs: '%s': either name the states to keep, or, with '-' before "
                                       "each, those to leave out",
                                       p->settings->inputs);
        }
        keeps = keep;
        named[state] = true;
    }
    p->shape.ninputs = 0;
    for (int i = 0; i < nx; i++)
        if (keeps < 0 || named[i] == (keeps == 1))
            p->input[p->shape.ninputs++] = i;
    free(named);
    return 0;
}

/* --- average --- */

/* "nominal:NAME" or "nominal:NAME:parameter=value,..." */
static int parse_nominal(plan *p, const char *text, hb_error *err)
{
    char copy[HB_PATH_SIZE], *save = NULL, known[200] = "";
    strcpy(copy, text);
    char *values = strchr(copy, ':');
    if (values)
        *values++ = 0;

    const hb_nominal *n = hb_nominal_find(copy);
    if (!n) {
        for (int i = 0; hb_nominal_at(i); i++)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                     hb_nominal_at(i)->name);
        return hb_fail(err, EINVAL, "average: there is no nominal model '%s', only: %s", copy, known);
    }
    p->shape.average = HB_AVERAGE_NOMINAL;
    p->shape.nominal = n;
    memcpy(p->shape.nominal_parameter, n->parameter_default, sizeof n->parameter_default);

    for (char *item = values ? strtok_r(values, ", ", &save) : NULL; item; item = strtok_r(NULL, ", ", &save)) {
        char *equals = strchr(item, '='), *end = NULL;
        int found = -1;
        for (int i = 0; equals && i < n->nparameters; i++)
            if (strncmp(n->parameter_name[i], item, (size_t)(equals - item)) == 0 &&
                !n->parameter_name[i][equals - item])
                found = i;
        double value = equals ? strtod(equals + 1, &end) : 0;
        if (found < 0 || end == equals + 1 || *end)
            return hb_fail(err, EINVAL, "average: '%s' is not a parameter=value of the nominal model '%s'", item,
                           n->name);
        p->shape.nominal_parameter[found] = value;
    }
    return 0;
}

static int check_same_names(const char *path, const char *what, int n, char (*name)[HB_NAME_SIZE], int nfile,
                            char (*of_file)[HB_NAME_SIZE], hb_error *err)
{
    if (n != nfile)
        return hb_fail(err, EINVAL, "average: %s has %d %ss, the data have %d", path, nfile, what, n);
    for (int i = 0; i < n; i++)
        if (strcmp(name[i], of_file[i]) != 0)
            return hb_fail(err, EINVAL, "average: %s %d is '%s' in %s and '%s' in the data", what, i, of_file[i], path,
                           name[i]);
    return 0;
}

/* a basis file: its average is copied, with the normalisation and inputs that it was trained with */
static int load_average(plan *p, hb_error *err)
{
    const hb_settings *s = p->settings;
    const hb_dataset_header *h = &p->data->header;
    int status = hb_model_load(&p->given, s->average, err);
    if (status)
        return status;
    const hb_model *g = p->given;

    if ((status = check_same_names(s->average, "state", h->nx, h->state_name, g->nx, g->state_name, err)) ||
        (status = check_same_names(s->average, "control", h->nu, h->control_name, g->nu, g->control_name, err)))
        return status;
    if (g->average == HB_AVERAGE_NONE)
        return hb_fail(err, EINVAL, "average: %s has none itself", s->average);
    if ((g->integration == HB_DIRECT) != (p->shape.integration == HB_DIRECT))
        return hb_fail(err, EINVAL,
                       "average: %s integrates an ODE or gives increments directly, the other of the two "
                       "than kind %s",
                       s->average, hb_kind_name[s->kind]);
    if (s->activation >= 0 && (hb_activation)s->activation != g->activation && g->average != HB_AVERAGE_NOMINAL)
        return hb_fail(err, EINVAL,
                       "average: %s has activation %s, which holds for the whole model: leave activation "
                       "out",
                       s->average, hb_activation_name[g->activation]);
    if (*s->inputs)
        return hb_fail(err, EINVAL, "inputs: those of %s are taken: leave inputs out", s->average);

    p->shape.ninputs = g->ninputs;
    memcpy(p->input, g->input, (size_t)g->ninputs * sizeof *p->input);
    p->shape.average = g->average == HB_AVERAGE_NOMINAL ? HB_AVERAGE_NOMINAL : HB_AVERAGE_NETWORK;
    p->shape.nominal = g->nominal;
    memcpy(p->shape.nominal_parameter, g->nominal_parameter, sizeof g->nominal_parameter);
    if (g->average != HB_AVERAGE_NOMINAL) {
        p->shape.activation = g->activation;
        p->shape.average_network = g->average == HB_AVERAGE_HEAD ? g->basis : g->average_network;
    }
    return 0;
}

static int choose_average(plan *p, hb_error *err)
{
    const hb_settings *s = p->settings;
    const char *text = *s->average ? s->average : p->kind->average;
    hb_widths none = {0};
    const hb_widths *w = s->average_hidden.n ? &s->average_hidden : s->hidden.n ? &s->hidden : &p->kind->hidden;

    set_hidden(&p->shape.average_network, &none);
    if (strcmp(text, "none") == 0) {
        p->shape.average = HB_AVERAGE_NONE;
    } else if (strcmp(text, "head") == 0) {
        p->shape.average = HB_AVERAGE_HEAD;
    } else if (strcmp(text, "network") == 0) {
        p->shape.average = HB_AVERAGE_NETWORK;
        set_hidden(&p->shape.average_network, w);
    } else if (strncmp(text, nominal_prefix, sizeof nominal_prefix - 1) == 0) {
        return parse_nominal(p, text + sizeof nominal_prefix - 1, err);
    } else {
        return load_average(p, err);
    }
    return 0;
}

/* --- parameters --- */

/* layers of an MLP: uniform within +-1 / sqrt(fan-in) */
static size_t fill_mlp(const hb_mlp *mlp, hb_real *parameter, hb_random_key key, uint64_t index)
{
    hb_real *p = parameter;
    for (int layer = 0; layer < mlp->nlayers; layer++) {
        int nin = mlp->width[layer], nout = mlp->width[layer + 1];
        double bound = 1 / sqrt(nin);
        for (size_t i = 0; i < (size_t)nout * ((size_t)nin + 1); i++, p++)
            *p = (hb_real)(bound * (2 * hb_random_uniform(key, index++) - 1));
    }
    return (size_t)(p - parameter);
}

/* the last layer's weights and biases of output rows first .. first + count - 1, times a factor */
static void scale_rows(const hb_mlp *mlp, hb_real *parameter, size_t first, size_t count, double factor)
{
    size_t width = (size_t)mlp->width[mlp->nlayers - 1], rows = (size_t)mlp->width[mlp->nlayers];
    hb_real *weight = parameter + mlp->nparameters - rows * (width + 1), *bias = weight + rows * width;

    for (size_t i = first * width; i < (first + count) * width; i++)
        weight[i] = (hb_real)((double)weight[i] * factor);
    for (size_t i = first; i < first + count; i++)
        bias[i] = (hb_real)((double)bias[i] * factor);
}

/* copies the given average: a network of its own, or the trunk with the average's rows of the head */
static void copy_average(hb_model *m, const hb_model *g)
{
    hb_real *to = m->parameter + m->nparameters - m->average_network.nparameters;

    if (g->average == HB_AVERAGE_NETWORK) {
        memcpy(to, g->parameter + g->nparameters - g->average_network.nparameters,
               g->average_network.nparameters * sizeof *to);
    } else if (g->average == HB_AVERAGE_HEAD) {
        const hb_mlp *b = &g->basis;
        size_t width = (size_t)b->width[b->nlayers - 1], rows = (size_t)b->width[b->nlayers], nx = (size_t)g->nx;
        size_t trunk = b->nparameters - rows * (width + 1);
        memcpy(to, g->parameter, trunk * sizeof *to);
        memcpy(to + trunk, g->parameter + trunk + (rows - nx) * width, nx * width * sizeof *to);
        memcpy(to + trunk + nx * width, g->parameter + b->nparameters - nx, nx * sizeof *to);
    }
}

static hb_real *basis_parameters(const hb_model *m, size_t basis)
{
    return m->parameter + (m->architecture == HB_SHARED ? 0 : basis * m->basis.nparameters);
}

/* one round: scales every basis function so that its diag A becomes 1 */
static void scale_once(hb_model *m, hb_fit *f, hb_workspace *w, const hb_sampler *s, const hb_dataset *d,
                       hb_random_key key, hb_points *points, double *diagonal)
{
    size_t nb = (size_t)m->nb, nx = (size_t)m->nx, nsystems = (size_t)f->nsystems;
    int nfunctions = d->nfunctions < SCALING_FUNCTIONS ? d->nfunctions : SCALING_FUNCTIONS;

    memset(diagonal, 0, nsystems * nb * sizeof *diagonal);
    for (int k = 0; k < nfunctions; k++) {
        int function = (int)((int64_t)d->nfunctions * k / nfunctions);
        hb_sampler_draw(s, function, 0, hb_sampler_count(s, function), key, (uint64_t)(k + 1) << 40, points);
        hb_fit_evaluate(f, w, points);
        for (size_t i = 0; i < nsystems * nb; i++)
            diagonal[i] += f->gram[i / nb * nb * nb + i % nb * (nb + 1)] / nfunctions;
    }
    for (size_t i = 0; i < nb; i++)
        for (size_t system = 0; system < nsystems; system++) {
            double size = sqrt(diagonal[system * nb + i]);
            if (!(size > 1e-12) || !isfinite(size))
                continue;
            size_t first = (m->architecture == HB_SHARED ? i * nx : 0) + (nsystems > 1 ? system : 0);
            scale_rows(&m->basis, basis_parameters(m, i), first, nsystems > 1 ? 1 : nx, 1 / size);
        }
}

/* where every basis function runs along a trajectory of its own, its increment is not linear in the scale: so it takes
 * several rounds */
static int scale_basis(hb_model *m, const hb_dataset *d, hb_random_key key, hb_error *err)
{
    hb_fit *f = NULL;
    hb_workspace *w = NULL;
    hb_sampler *s = NULL;
    hb_points points;
    hb_arena arena = {0};
    double *diagonal = calloc((size_t)m->nb * (size_t)m->nx, sizeof *diagonal);
    int status = diagonal ? 0 : hb_fail(err, ENOMEM, "out of memory");

    hb_points_lay_out(&points, m->nx, m->nu, SCALING_POINTS, 1, &arena);
    if (!status && !(status = hb_arena_allocate(&arena, err)) && !(status = hb_fit_new(&f, m, SCALING_POINTS, err)) &&
        !(status = hb_workspace_new(&w, m, false, err)) && !(status = hb_sampler_new(&s, d, m, 1, err))) {
        hb_points_lay_out(&points, m->nx, m->nu, SCALING_POINTS, 1, &arena);
        for (int round = 0; round < (m->integration == HB_SEPARATE ? SCALING_ROUNDS : 1); round++)
            scale_once(m, f, w, s, d, key, &points, diagonal);
    }
    hb_sampler_free(s);
    hb_workspace_free(w);
    hb_fit_free(f);
    free(arena.base);
    free(diagonal);
    return status;
}

static int fill_parameters(plan *p, hb_model *m, hb_error *err)
{
    hb_random_key key = {.seed = p->settings->seed, .stream = parameter_stream};
    size_t networks = m->architecture == HB_SHARED ? (m->basis.nlayers > 0) : (size_t)m->nb, at = 0;

    for (size_t i = 0; i < networks; i++)
        at += fill_mlp(&m->basis, m->parameter + at, key, at);
    fill_mlp(&m->average_network, m->parameter + at, key, at);

    if (m->average == HB_AVERAGE_HEAD)
        scale_rows(&m->basis, m->parameter, (size_t)m->nb * (size_t)m->nx, (size_t)m->nx, 0);
    if (m->average == HB_AVERAGE_NETWORK)
        scale_rows(&m->average_network, m->parameter + at, 0, (size_t)m->nx, 0);
    if (p->given)
        copy_average(m, p->given);
    return m->nb > 0 ? scale_basis(m, p->data, key, err) : 0;
}

/* --- names and normalisation --- */

/* a deviation far below the mean's own rounding would turn noise into signal */
static double floored(double std, double mean)
{
    return fmax(std, 1e-6 * fabs(mean));
}

/* the oracle's further inputs: hidden parameters as controls that never change */
static void add_hidden(hb_model *m, const hb_dataset *d)
{
    for (int i = 0; i < d->header.nhidden; i++) {
        int k = d->header.nu + i;
        double sum = 0, square = 0, min = INFINITY, max = -INFINITY;
        for (int f = 0; f < d->nfunctions; f++) {
            double value = d->function[f].hidden[i];
            sum += value / d->nfunctions;
            min = fmin(min, value);
            max = fmax(max, value);
        }
        for (int f = 0; f < d->nfunctions; f++)
            square += (d->function[f].hidden[i] - sum) * (d->function[f].hidden[i] - sum) / d->nfunctions;
        snprintf(m->control_name[k], HB_NAME_SIZE, "hidden_%.24s", d->header.hidden_name[i]);
        m->control_mean[k] = sum;
        m->control_std[k] = square > 0 ? floored(sqrt(square), sum) : 1;
        m->control_min[k] = min;
        m->control_max[k] = max > min ? max : min + 1;
        m->control_trim[k] = sum;
    }
}

static void copy_header(hb_model *m, const hb_dataset *d, const hb_model *given)
{
    const hb_dataset_header *h = &d->header;
    size_t nx = (size_t)h->nx, nu = (size_t)h->nu;

    memcpy(m->state_name, h->state_name, nx * sizeof *m->state_name);
    memcpy(m->state_unit, h->state_unit, nx * sizeof *m->state_unit);
    if (nu) {
        memcpy(m->control_name, h->control_name, nu * sizeof *m->control_name);
        memcpy(m->control_unit, h->control_unit, nu * sizeof *m->control_unit);
        memcpy(m->control_min, h->control_min, nu * sizeof *m->control_min);
        memcpy(m->control_max, h->control_max, nu * sizeof *m->control_max);
        memcpy(m->control_trim, h->control_trim, nu * sizeof *m->control_trim);
    }
    hb_dataset_moments(d, m->state_mean, m->state_std, m->control_mean, m->control_std);
    for (size_t i = 0; i < nx; i++) {
        m->state_mean[i] = given ? given->state_mean[i] : m->state_mean[i];
        m->state_std[i] = given ? given->state_std[i] : floored(m->state_std[i], m->state_mean[i]);
    }
    for (size_t i = 0; i < nu; i++) {
        m->control_mean[i] = given ? given->control_mean[i] : m->control_mean[i];
        m->control_std[i] = given ? given->control_std[i] : floored(m->control_std[i], m->control_mean[i]);
        /* data that never move a control say nothing about its bounds */
        if (!(m->control_min[i] < m->control_max[i]))
            m->control_max[i] = m->control_min[i] + 1;
    }
}

/* --- all of it --- */

static int make(plan *p, hb_design *ret, const char *notes, hb_error *err)
{
    const hb_settings *s = p->settings;
    const hb_dataset *d = p->data;
    bool oracle = s->kind == HB_KIND_ORACLE;
    hb_model *m = NULL;
    int status;

    if (oracle && d->header.nhidden == 0)
        return hb_fail(err, EINVAL, "kind oracle: the data have no hidden parameters");
    for (int i = 0; oracle && i < d->header.nhidden; i++)
        if (strlen(d->header.hidden_name[i]) > HB_NAME_SIZE - sizeof "hidden_")
            return hb_fail(err, EINVAL, "kind oracle: the name of hidden parameter '%s' is too long",
                           d->header.hidden_name[i]);
    p->shape = (hb_model){.nx = d->header.nx,
                          .nu = d->header.nu + (oracle ? d->header.nhidden : 0),
                          .nb = s->nb >= 0 ? s->nb : p->kind->nb,
                          .architecture = p->kind->architecture,
                          .activation = s->activation >= 0 ? (hb_activation)s->activation : p->kind->activation,
                          .integration = p->kind->integration,
                          .substeps = s->substeps,
                          .method = (hb_method)s->method,
                          .shape = (hb_shape)s->shape,
                          .ridge = s->ridge,
                          .volume = s->volume,
                          .dt = d->header.dt};
    set_hidden(&p->shape.basis, s->hidden.n ? &s->hidden : &p->kind->hidden);
    if ((status = choose_inputs(p, err)) || (status = choose_average(p, err)))
        return status;
    p->shape.input = p->input;
    if (p->kind->nb > 0 && p->shape.nb == 0)
        return hb_fail(err, EINVAL, "nb: kind %s needs a basis function at least", hb_kind_name[s->kind]);
    if (p->kind->nb == 0 && (p->shape.nb > 0 || p->shape.average != HB_AVERAGE_NETWORK || p->given))
        return hb_fail(err, EINVAL, "kind %s is one network that learns: leave nb and average out",
                       hb_kind_name[s->kind]);

    if ((status = hb_model_new(&m, &p->shape, notes, err)))
        return status;
    copy_header(m, d, p->given);
    if (oracle)
        add_hidden(m, d);
    if ((status = fill_parameters(p, m, err)) || (status = hb_model_check(m, err))) {
        hb_model_free(m);
        return status;
    }
    hb_model_seal(m);
    *ret = (hb_design){.model = m, .average_is_given = p->given && m->average == HB_AVERAGE_NETWORK};
    return 0;
}

int hb_design_model(hb_design *ret, const hb_settings *s, const hb_dataset *d, const char *notes, hb_error *err)
{
    plan p = {.settings = s, .data = d, .kind = &kinds[s->kind]};

    p.input = calloc((size_t)d->header.nx, sizeof *p.input);
    if (!p.input)
        return hb_fail(err, ENOMEM, "out of memory");
    int status = make(&p, ret, notes, err);
    hb_model_free(p.given);
    free(p.input);
    return status;
}
