#include "train/untrained_model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/headings.h"
#include "data/vehicles.h"
#include "train/fit.h"
#include "train/initial.h"
#include "train/physics_file.h"

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
    [HB_KIND_SHARED] = {HB_SHARED, HB_COMBINED, HB_SILU, "head", 8, {3, {64, 64, 64}}}, /* or by the data, below */
    [HB_KIND_FE_NODE] = {HB_INDEPENDENT, HB_SEPARATE, HB_RELU, "none", 100, {4, {51, 51, 51, 51}}},
    [HB_KIND_FE_NODE_RES] = {HB_INDEPENDENT, HB_SEPARATE, HB_RELU, "network", 100, {4, {51, 51, 51, 51}}},
    [HB_KIND_FE_RES] = {HB_INDEPENDENT, HB_DIRECT, HB_RELU, "none", 100, {4, {51, 51, 51, 51}}},
    [HB_KIND_NODE] = {HB_INDEPENDENT, HB_SEPARATE, HB_RELU, "network", 0, {4, {512, 512, 512, 512}}},
    [HB_KIND_ORACLE] = {HB_INDEPENDENT, HB_SEPARATE, HB_RELU, "network", 0, {4, {512, 512, 512, 512}}},
};

/* everything that is known before the model exists */
typedef struct plan {
    const hb_settings *settings;
    const hb_dataset *data;
    const struct kind *kind;
    hb_model_sizes sizes; /* where the settings name none */
    hb_model shape;
    int *input;          /* nx of them at most */
    bool *output;        /* nx */
    hb_model *given;     /* the file that the average comes from, or NULL */
    hb_physics *physics; /* the same, of expressions */
    hb_actuators actuators;
} plan;

/* Twice as many basis functions as hidden parameters: what they do to the motion is not linear in them. With a prior,
 * more than needed cost time and no accuracy. */
hb_model_sizes hb_model_sizes_suggested(const hb_dataset *d)
{
    enum { FEWEST = 8, MOST = 32 };
    const struct kind *kind = &kinds[HB_KIND_SHARED];
    int nb = 2 * d->header.nhidden;

    return (hb_model_sizes){
        .nb = nb < FEWEST ? FEWEST
              : nb > MOST ? MOST
                          : nb,
        .hidden = d->header.nx > HB_SMALL_STATE ? (hb_widths){3, {192, 192, 192}} : kind->hidden,
    };
}

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

/* "a,b": these; "-a,-b": all but these; "": all. ret: nx */
static int choose_states(const plan *p, const char *setting, const char *text, bool *ret, hb_error *err)
{
    const hb_dataset *d = p->data;
    char copy[HB_PATH_SIZE], *save;
    int nx = d->header.nx;
    int keeps = -1;

    memset(ret, 0, (size_t)nx * sizeof *ret);
    strcpy(copy, text);
    for (char *item = strtok_r(copy, ", ", &save); item; item = strtok_r(NULL, ", ", &save)) {
        int keep = *item != '-', state = find_state(d, keep ? item : item + 1);
        if (state < 0)
            return hb_fail(err, EINVAL, "%s: the data have no state '%s'", setting, keep ? item : item + 1);
        if (keeps >= 0 && keeps != keep)
            return hb_fail(err, EINVAL,
                           "%s: '%s': either name the states to keep, or, with '-' before each, those to leave out",
                           setting, text);
        keeps = keep;
        ret[state] = true;
    }
    for (int i = 0; i < nx; i++)
        ret[i] = keeps < 0 || ret[i] == (keeps == 1);
    return 0;
}

static int choose_inputs(plan *p, hb_error *err)
{
    const char *text = p->settings->inputs;
    int status = choose_states(p, "inputs", strcmp(text, "all") == 0 ? "" : text, p->output, err);

    p->shape.ninputs = 0;
    for (int i = 0; !status && i < p->data->header.nx; i++)
        if (p->output[i])
            p->input[p->shape.ninputs++] = i;
    return status;
}

/* Where physics is known there is nothing to learn: what a fit puts there is noise, and it pulls the rest. */
static int choose_outputs(plan *p, hb_error *err)
{
    const char *text = p->settings->outputs;
    const hb_nominal *n = p->shape.average == HB_AVERAGE_NOMINAL ? p->shape.nominal : NULL;
    int status = choose_states(p, "outputs", strcmp(text, "all") == 0 ? "" : text, p->output, err);

    for (int i = 0; !status && !*text && n && n->kinematic && i < p->data->header.nx && i < n->nx; i++)
        p->output[i] = !n->kinematic[i];
    p->shape.output = p->output;
    return status;
}

/* Angles go all the way round: their mean says nothing, and their deviation is that of all directions alike. */
static int choose_angles(plan *p, hb_model *m, hb_error *err)
{
    const char *text = p->settings->angles;
    int status = *text ? choose_states(p, "angles", text, m->angle, err) : 0;

    if (!*text && p->given)
        memcpy(m->angle, p->given->angle, (size_t)m->nx * sizeof *m->angle);
    for (int i = 0; !status && i < m->nx; i++)
        if (m->angle[i] && !p->given) {
            m->state_mean[i] = 0;
            m->state_std[i] = M_PI / sqrt(3);
        }
    return status;
}

/* --- average --- */

/* "nominal:NAME" or "nominal:NAME:parameter=value,..." */
static int parse_nominal(plan *p, const char *text, hb_error *err)
{
    char copy[HB_PATH_SIZE], *save = NULL, known[HB_NOMINAL_PARAMETERS * HB_NAME_SIZE] = "";
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
    hb_vehicles_reference(p->data, n, p->shape.nominal_parameter);

    known[0] = 0;
    for (int i = 0; i < n->nparameters; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", n->parameter_name[i]);
    for (char *item = values ? strtok_r(values, ", ", &save) : NULL; item; item = strtok_r(NULL, ", ", &save)) {
        char *equals = strchr(item, '='), *end = NULL;
        if (!equals)
            return hb_fail(err, EINVAL, "average: '%s' is not parameter=value; the parameters of %s are %s", item,
                           n->name, known);
        *equals = 0;
        int found = hb_nominal_parameter(n, item);
        if (found < 0)
            return hb_fail(err, EINVAL, "average: the nominal model '%s' has no parameter '%s', only: %s", n->name,
                           item, known);
        double value = strtod(equals + 1, &end);
        if (end == equals + 1 || *end)
            return hb_fail(err, EINVAL, "average: %s: '%s' is not a number", item, equals + 1);
        p->shape.nominal_parameter[found] = value;
    }
    return 0;
}

/* FILE.yaml or FILE.yaml:parameter=value,...: where the file's name ends, or NULL. */
static const char *physics_file(const char *text)
{
    static const char suffix[] = ".yaml";
    const char *found = strstr(text, suffix);

    if (!found || (found[sizeof suffix - 1] && found[sizeof suffix - 1] != ':'))
        return NULL;
    return found + sizeof suffix - 1;
}

static int read_physics(plan *p, const char *text, const char *end, hb_error *err)
{
    char path[HB_PATH_SIZE];

    snprintf(path, sizeof path, "%.*s", (int)(end - text), text);
    int status = hb_physics_file_read(&p->physics, path, *end ? end + 1 : NULL, p->data, err);
    if (status)
        return status;
    if (p->shape.nu != p->data->header.nu)
        return hb_fail(err, EINVAL, "average: %s: kind oracle has more controls than the expressions", path);
    p->shape.average = HB_AVERAGE_NOMINAL;
    p->shape.nominal = hb_physics_nominal(p->physics);
    memcpy(p->shape.nominal_parameter, p->shape.nominal->parameter_default, sizeof p->shape.nominal_parameter);
    hb_vehicles_reference(p->data, p->shape.nominal, p->shape.nominal_parameter);
    return 0;
}

static int check_same_names(const char *setting, const char *path, const char *what, int n, char (*name)[HB_NAME_SIZE],
                            int nfile, char (*of_file)[HB_NAME_SIZE], hb_error *err)
{
    if (n != nfile)
        return hb_fail(err, EINVAL, "%s: %s has %d %ss, the data have %d", setting, path, nfile, what, n);
    for (int i = 0; i < n; i++)
        if (strcmp(name[i], of_file[i]) != 0)
            return hb_fail(err, EINVAL, "%s: %s %d is '%s' in %s and '%s' in the data", setting, what, i, of_file[i],
                           path, name[i]);
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

    if ((status = check_same_names("average", s->average, "state", h->nx, h->state_name, g->nx, g->state_name, err)) ||
        (status =
             check_same_names("average", s->average, "control", h->nu, h->control_name, g->nu, g->control_name, err)))
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
    const hb_widths *w = s->average_hidden.n ? &s->average_hidden : s->hidden.n ? &s->hidden : &p->sizes.hidden;

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
    } else if (physics_file(text)) {
        return read_physics(p, text, physics_file(text), err);
    } else {
        return load_average(p, err);
    }
    return 0;
}

/* Does a text of name=value,... behind a colon name this parameter? */
static bool names(const char *average, const char *parameter)
{
    size_t n = strlen(parameter);

    for (const char *at = average; (at = strstr(at, parameter)); at += n)
        if (at > average && strchr(":, ", at[-1]) && at[n] == '=')
            return true;
    return false;
}

int hb_untrained_model_physics(const char *average, const hb_dataset *d, const hb_nominal **ret,
                               struct hb_physics **ret_own, double *parameter, bool *given, hb_error *err)
{
    hb_settings s = {0};
    plan p = {.data = d, .settings = &s};
    int status = 0;
    double known[HB_NOMINAL_PARAMETERS];

    *ret = NULL;
    *ret_own = NULL;
    snprintf(s.average, sizeof s.average, "%s", average);
    p.shape.nu = d->header.nu;
    if (strncmp(average, nominal_prefix, sizeof nominal_prefix - 1) == 0)
        status = parse_nominal(&p, average + sizeof nominal_prefix - 1, err);
    else if (physics_file(average))
        status = read_physics(&p, average, physics_file(average), err);
    if (status || !p.shape.nominal)
        return status;
    *ret = p.shape.nominal;
    *ret_own = p.physics;
    memcpy(parameter, p.shape.nominal_parameter, sizeof p.shape.nominal_parameter);
    hb_vehicles_of(d, *ret, 0, known);
    for (int i = 0; i < (*ret)->nparameters; i++)
        given[i] = names(average, (*ret)->parameter_name[i]) || !isnan(known[i]);
    return 0;
}

/* --- names and normalisation --- */

/* a deviation far below the mean's own rounding would turn noise into signal */
static double floored(double std, double mean)
{
    return fmax(std, 1e-6 * fabs(mean));
}

/* A state that hardly moved in the data will move in service: near hover qw has a hundredth of qx's deviation, and a
 * turn would be an input of 30. So no state counts for less than a quarter of the largest of the same unit. */
static void widen_small(hb_model *m)
{
    static const double least = 0.25;

    for (int i = 0; i < m->nx; i++) {
        double largest = 0;
        for (int k = 0; k < m->nx; k++)
            if (m->state_unit[i][0] && strcmp(m->state_unit[i], m->state_unit[k]) == 0)
                largest = fmax(largest, m->state_std[k]);
        /* in order: what was raised already is not larger than a quarter of the largest, which stays */
        m->state_std[i] = fmax(m->state_std[i], least * largest);
    }
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

static int copy_header(hb_model *m, const hb_dataset *d, const hb_model *given, hb_error *err)
{
    hb_vehicles *vehicles = NULL;
    int status =
        hb_vehicles_known(d, m->nominal) ? hb_vehicles_new(&vehicles, d, m->nominal, m->nominal_parameter, err) : 0;
    if (status)
        return status;

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
    hb_dataset_moments(d, m->state_mean, m->state_std, m->control_mean, m->control_std,
                       vehicles ? vehicles->scale : NULL);
    hb_vehicles_free(vehicles);
    if (d->any_heading) {
        hb_headings headings;
        if ((status = hb_headings_of(&headings, h->nx, h->state_name, err)))
            return status;
        hb_headings_spread(&headings, m->state_mean, m->state_std);
    }
    for (size_t i = 0; i < nx; i++) {
        m->state_mean[i] = given ? given->state_mean[i] : m->state_mean[i];
        m->state_std[i] = given ? given->state_std[i] : floored(m->state_std[i], m->state_mean[i]);
    }
    if (!given)
        widen_small(m);
    for (size_t i = 0; i < nu; i++) {
        m->control_mean[i] = given ? given->control_mean[i] : m->control_mean[i];
        m->control_std[i] = given ? given->control_std[i] : floored(m->control_std[i], m->control_mean[i]);
        /* data that never move a control say nothing about its bounds */
        if (!(m->control_min[i] < m->control_max[i]))
            m->control_max[i] = m->control_min[i] + 1;
    }
    return 0;
}

static void copy_actuators(hb_model *m, const hb_actuators *a)
{
    for (int i = 0; i < a->nu; i++) {
        m->actuator_delay[i] = a->delay[i];
        m->actuator_lag[i] = a->lag[i];
    }
}

/* --- all of it --- */

static int make(plan *p, hb_model **ret, const char *notes, hb_error *err)
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
                          .nb = s->nb >= 0 ? s->nb : p->sizes.nb,
                          .architecture = p->kind->architecture,
                          .activation = s->activation >= 0 ? (hb_activation)s->activation : p->kind->activation,
                          .integration = s->integration >= 0 ? (hb_integration)s->integration : p->kind->integration,
                          .substeps = s->substeps,
                          .method = (hb_method)s->method,
                          .shape = (hb_shape)s->shape,
                          .ridge = s->ridge,
                          .volume = s->volume,
                          .dt = d->header.dt};
    set_hidden(&p->shape.basis, s->hidden.n ? &s->hidden : &p->sizes.hidden);
    if ((status = choose_inputs(p, err)) || (status = choose_average(p, err)) || (status = choose_outputs(p, err)))
        return status;
    p->shape.input = p->input;
    if (p->kind->nb > 0 && p->shape.nb == 0)
        return hb_fail(err, EINVAL, "nb: kind %s needs a basis function at least", hb_kind_name[s->kind]);
    if (p->kind->nb == 0 && (p->shape.nb > 0 || p->shape.average != HB_AVERAGE_NETWORK || p->given))
        return hb_fail(err, EINVAL, "kind %s is one network that learns: leave nb and average out",
                       hb_kind_name[s->kind]);

    if ((status = hb_model_new(&m, &p->shape, notes, err)))
        return status;
    if (s->refinements > 0 && !hb_fit_refines(m)) {
        hb_model_free(m);
        return hb_fail(err, EINVAL,
                       "refinements: only shared models with combined integration are trained with refined fits: leave "
                       "it out, or set 0");
    }
    if ((status = copy_header(m, d, p->given, err))) {
        hb_model_free(m);
        return status;
    }
    copy_actuators(m, &p->actuators);
    if (oracle)
        add_hidden(m, d);
    if ((status = choose_angles(p, m, err)) || (status = hb_initial_parameters(m, d, s->seed, p->given, err)) ||
        (status = hb_model_check(m, err))) {
        hb_model_free(m);
        return status;
    }
    hb_model_seal(m);
    *ret = m;
    return 0;
}

/* --- a model to continue from --- */

static int continue_from(plan *p, hb_model **ret, const hb_model *initial, const char *notes, hb_error *err)
{
    const hb_settings *s = p->settings;
    const hb_dataset_header *h = &p->data->header;
    const char *settled = hb_settings_settled_by_model(s);
    hb_model *m = NULL;
    int status;

    if (settled)
        return hb_fail(err, EINVAL, "%s: that of %s is taken: leave it out", settled, s->initial);
    if ((status = check_same_names("initial", s->initial, "state", h->nx, h->state_name, initial->nx,
                                   initial->state_name, err)) ||
        (status = check_same_names("initial", s->initial, "control", h->nu, h->control_name, initial->nu,
                                   initial->control_name, err)))
        return status;
    if (initial->integration == HB_DIRECT && fabs(h->dt / initial->dt - 1) > 0.01)
        return hb_fail(err, EINVAL, "initial: %s knows steps of %g s alone, the data have %g s", s->initial,
                       initial->dt, h->dt);
    if (s->refinements > 0 && !hb_fit_refines(initial))
        return hb_fail(err, EINVAL, "refinements: %s cannot be trained with refined fits: leave it out", s->initial);
    if ((status = hb_model_copy(&m, initial, false, notes, err)))
        return status;
    copy_actuators(m, &p->actuators);
    hb_model_seal(m);
    *ret = m;
    return 0;
}

static int parse_seconds(const char *name, const char *text, int nu, double *to, hb_error *err)
{
    char copy[HB_PATH_SIZE], *save = NULL, *end;
    int n = 0;

    strcpy(copy, text);
    for (char *item = strtok_r(copy, ", ", &save); item; item = strtok_r(NULL, ", ", &save)) {
        double value = strtod(item, &end);
        if (end == item || *end || !(value >= 0) || !isfinite(value))
            return hb_fail(err, EINVAL, "%s: '%s' is not a number of seconds", name, item);
        if (n < nu)
            to[n] = value;
        n++;
    }
    for (int i = 1; n == 1 && i < nu; i++)
        to[i] = to[0];
    if (n > 1 && n != nu)
        return hb_fail(err, EINVAL, "%s: %d numbers for %d controls: give one, or one for each", name, n, nu);
    return 0;
}

int hb_untrained_model_actuators(const hb_settings *s, int nu, const hb_model *initial, hb_actuators *ret,
                                 hb_error *err)
{
    hb_actuators a = {.nu = nu};
    int status;

    if (nu > HB_MAX_CONTROLS) {
        *ret = (hb_actuators){0};
        return *s->delay || *s->lag
                   ? hb_fail(err, EINVAL, "delay, lag: for %d controls at most, the data have %d", HB_MAX_CONTROLS, nu)
                   : 0;
    }
    for (int i = 0; initial && i < nu && i < initial->nu; i++) {
        a.delay[i] = initial->actuator_delay[i];
        a.lag[i] = initial->actuator_lag[i];
    }
    if ((status = parse_seconds("delay", s->delay, nu, a.delay, err)) ||
        (status = parse_seconds("lag", s->lag, nu, a.lag, err)))
        return status;
    *ret = a;
    return 0;
}

int hb_untrained_model_new(hb_model **ret, bool *ret_average_is_given, const hb_settings *s, const hb_dataset *d,
                           const hb_model *initial, const char *notes, hb_error *err)
{
    plan p = {.settings = s, .data = d, .kind = &kinds[s->kind]};
    int wrong = hb_untrained_model_actuators(s, d->header.nu, initial, &p.actuators, err);

    *ret_average_is_given = false;
    if (wrong || initial)
        return wrong ? wrong : continue_from(&p, ret, initial, notes, err);
    p.sizes = s->kind == HB_KIND_SHARED ? hb_model_sizes_suggested(d) : (hb_model_sizes){p.kind->nb, p.kind->hidden};
    p.input = calloc((size_t)d->header.nx, sizeof *p.input);
    p.output = calloc((size_t)d->header.nx, sizeof *p.output);
    int status = p.input && p.output ? make(&p, ret, notes, err) : hb_fail(err, ENOMEM, "out of memory");
    if (!status)
        *ret_average_is_given = p.given && (*ret)->average == HB_AVERAGE_NETWORK;
    hb_model_free(p.given);
    hb_physics_free(p.physics);
    free(p.input);
    free(p.output);
    return status;
}
