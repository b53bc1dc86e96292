#include "model/model.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "model/physics.h"

/* beyond these single precision does not carry the arithmetic */
static const double least_std = 1e-15, largest_std = 1e15;
static const double shortest_dt = 1e-6, longest_dt = 1e4; /* seconds */

const char *const hb_architecture_name[] = {[HB_SHARED] = "shared", [HB_INDEPENDENT] = "independent", NULL};
const char *const hb_activation_name[] = {[HB_RELU] = "relu", [HB_TANH] = "tanh", [HB_SILU] = "silu", NULL};
const char *const hb_method_name[] = {[HB_LEAST_SQUARES] = "least_squares", [HB_INNER_PRODUCT] = "inner_product", NULL};
const char *const hb_shape_name[] = {[HB_VECTOR] = "vector", [HB_PER_STATE] = "per_state", NULL};
const char *const hb_average_name[] = {[HB_AVERAGE_NONE] = "none",
                                       [HB_AVERAGE_HEAD] = "head",
                                       [HB_AVERAGE_NETWORK] = "network",
                                       [HB_AVERAGE_NOMINAL] = "nominal",
                                       NULL};
const char *const hb_integration_name[] = {
    [HB_SEPARATE] = "separate", [HB_COMBINED] = "combined", [HB_DIRECT] = "direct", NULL};

const char *const hb_word_form_name[] = {[HB_WORD_LINEAR] = "linear", [HB_WORD_RECIPROCAL] = "reciprocal", NULL};

/* --- sizes --- */

static int check_range(const char *what, long long value, long long least, long long most, hb_error *err)
{
    if (value < least || value > most)
        return hb_fail(err, EINVAL, "%s is %lld, expected %lld to %lld", what, value, least, most);
    return 0;
}

static int check_positive(const char *what, double value, hb_error *err)
{
    if (!(value > 0) || isinf(value))
        return hb_fail(err, EINVAL, "%s is %g, expected a finite number above 0", what, value);
    return 0;
}

/* Sets the widths of inputs and outputs and counts parameters; without outputs there is no network. */
static int size_mlp(hb_mlp *mlp, const char *what, int ninputs, int noutputs, hb_error *err)
{
    char text[64];

    if (noutputs == 0) {
        *mlp = (hb_mlp){0};
        return 0;
    }
    snprintf(text, sizeof text, "the number of layers of %s", what);
    int r = check_range(text, mlp->nlayers, 1, HB_MAX_LAYERS, err);
    if (r)
        return r;
    if (ninputs == 0)
        return hb_fail(err, EINVAL, "%s has no inputs: neither states nor controls feed it", what);

    mlp->width[0] = ninputs;
    mlp->width[mlp->nlayers] = noutputs;
    memset(&mlp->width[mlp->nlayers + 1], 0, (size_t)(HB_MAX_LAYERS - mlp->nlayers) * sizeof *mlp->width);
    mlp->nparameters = 0;
    for (int i = 0; i < mlp->nlayers; i++) {
        if (i) {
            snprintf(text, sizeof text, "the width of hidden layer %d of %s", i - 1, what);
            r = check_range(text, mlp->width[i], 1, HB_MAX_WIDTH, err);
            if (r)
                return r;
        }
        mlp->nparameters += (size_t)mlp->width[i + 1] * ((size_t)mlp->width[i] + 1);
    }
    return 0;
}

static int check_inputs(const hb_model *m, hb_error *err)
{
    int r = check_range("the number of input states", m->ninputs, 0, m->nx, err);

    for (int i = 0; i < m->ninputs && r == 0; i++) {
        r = check_range("an input state's index", m->input[i], 0, m->nx - 1, err);
        if (r == 0 && i && m->input[i] <= m->input[i - 1])
            r = hb_fail(err, EINVAL, "input states are not in ascending order: %d comes after %d", m->input[i],
                        m->input[i - 1]);
    }
    return r;
}

static int check_outputs(const hb_model *m, hb_error *err)
{
    for (int i = 0; i < m->nx; i++)
        if (m->output[i])
            return 0;
    return m->nb == 0 ? 0 : hb_fail(err, EINVAL, "the output mask leaves no state that basis functions act on");
}

static int check_nominal(const hb_model *m, hb_error *err)
{
    if (!m->nominal)
        return hb_fail(err, EINVAL, "the average is nominal, but no nominal model is named");
    if (m->nx != m->nominal->nx || m->nu != m->nominal->nu)
        return hb_fail(err, EINVAL, "%d states and %d controls, but the nominal model '%s' has %d and %d", m->nx, m->nu,
                       m->nominal->name, m->nominal->nx, m->nominal->nu);
    for (int i = 0; i < m->nominal->nparameters; i++)
        if (!isfinite(m->nominal_parameter[i]))
            return hb_fail(err, EINVAL, "nominal parameter '%s' is not finite", m->nominal->parameter_name[i]);
        /* a mass, a length or an inertia, which must be above 0; parameters that may be 0 are 0 by default */
        else if (m->nominal->either_sign[i] && m->nominal_parameter[i] == 0)
            return hb_fail(err, EINVAL, "nominal parameter '%s' is 0, expected a number above or below it",
                           m->nominal->parameter_name[i]);
        else if (m->nominal->parameter_default[i] > 0 && !m->nominal->either_sign[i] && !(m->nominal_parameter[i] > 0))
            return hb_fail(err, EINVAL, "nominal parameter '%s' is %g, expected a number above 0",
                           m->nominal->parameter_name[i], m->nominal_parameter[i]);
    return 0;
}

/* Choices that exclude each other, and the plain numbers. */
static int check_choices(const hb_model *m, hb_error *err)
{
    int r = 0;

    if (m->architecture == HB_SHARED && m->integration == HB_SEPARATE)
        return hb_fail(err, EINVAL,
                       "a shared model has common stage points: integration is combined or direct, not "
                       "separate");
    if (m->architecture == HB_INDEPENDENT && m->average == HB_AVERAGE_HEAD)
        return hb_fail(err, EINVAL, "an independent model has no shared head: its average is none, network or nominal");
    if (m->average == HB_AVERAGE_NOMINAL && m->integration == HB_DIRECT)
        return hb_fail(err, EINVAL,
                       "a nominal model gives rates of change: integration is separate or combined, not "
                       "direct");
    if (m->nb == 0 && m->has_prior)
        return hb_fail(err, EINVAL, "there is a prior, but no basis functions whose coefficients it could describe");
    if (m->nb == 0 && m->average == HB_AVERAGE_NONE)
        return hb_fail(err, EINVAL, "there are neither basis functions nor an average");
    if (m->average == HB_AVERAGE_NOMINAL)
        r = check_nominal(m, err);
    if (r == 0)
        r = check_range("substeps", m->substeps, 1, HB_MAX_SUBSTEPS, err);
    if (r == 0)
        r = check_positive("dt", m->dt, err);
    if (r == 0 && !(m->dt >= shortest_dt && m->dt <= longest_dt))
        r = hb_fail(err, EINVAL, "dt is %g seconds, expected %g to %g", m->dt, shortest_dt, longest_dt);
    if (r == 0)
        r = check_positive("volume", m->volume, err);
    if (r == 0 && (!(m->ridge >= 0) || isinf(m->ridge)))
        r = hb_fail(err, EINVAL, "ridge is %g, expected a finite number, 0 or above", m->ridge);
    return r;
}

int hb_model_size(hb_model *m, hb_error *err)
{
    int r = check_range("the number of states", m->nx, 1, HB_MAX_STATES, err);

    if (r == 0)
        r = check_range("the number of controls", m->nu, 0, HB_MAX_STATES, err);
    if (r == 0)
        r = check_range("the number of basis functions", m->nb, 0, HB_MAX_BASIS, err);
    if (r == 0)
        r = check_range("the number of words", m->nwords, 0, m->nb ? HB_MAX_WORDS : 0, err);
    if (r)
        return r;
    if (m->input)
        r = check_inputs(m, err);
    else
        m->ninputs = m->nx;
    if (r == 0 && m->output)
        r = check_outputs(m, err);
    if (r == 0)
        r = check_choices(m, err);
    if (r)
        return r;

    int ninputs = m->ninputs + m->nu;
    bool shared = m->architecture == HB_SHARED;
    int basis_rows = shared ? (m->nb + (m->average == HB_AVERAGE_HEAD)) * m->nx : m->nb ? m->nx : 0;
    r = size_mlp(&m->basis, shared ? "the shared network" : "a basis function", ninputs, basis_rows, err);
    if (r == 0)
        r = size_mlp(&m->average_network, "the average network", ninputs, m->average == HB_AVERAGE_NETWORK ? m->nx : 0,
                     err);
    if (r)
        return r;
    m->nparameters = m->basis.nparameters * (shared ? 1 : (size_t)m->nb) + m->average_network.nparameters;
    return 0;
}

/* --- values --- */

/* Names are joined by commas in files and shown in terminals. */
static int check_name(const char *what, int index, const char *name, bool may_be_empty, hb_error *err)
{
    if (!*name && !may_be_empty)
        return hb_fail(err, EINVAL, "%s %d is empty", what, index);
    for (const char *c = name; *c; c++)
        if (*c == ',' || (unsigned char)*c < ' ' || *c == 127)
            return hb_fail(err, EINVAL, "%s %d has a comma or a control character", what, index);
    return 0;
}

static int check_names(const char *what, int n, char (*name)[HB_NAME_SIZE], char (*unit)[HB_NAME_SIZE], hb_error *err)
{
    char name_of[32], unit_of[32];

    snprintf(name_of, sizeof name_of, "the name of %s", what);
    snprintf(unit_of, sizeof unit_of, "the unit of %s", what);
    for (int i = 0; i < n; i++) {
        int r = check_name(name_of, i, name[i], false, err);
        if (r == 0)
            r = check_name(unit_of, i, unit[i], true, err);
        if (r)
            return r;
        for (int k = 0; k < i; k++)
            if (!strcmp(name[i], name[k]))
                return hb_fail(err, EINVAL, "%ss %d and %d are both named '%s'", what, k, i, name[i]);
    }
    return 0;
}

/* Turns are counted in radians. */
static int check_angles(const hb_model *m, hb_error *err)
{
    const int q = hb_model_quaternion(m);

    for (int i = 0; i < m->nx; i++) {
        if (m->angle[i] && *m->state_unit[i] && strcmp(m->state_unit[i], "rad") != 0 &&
            strcmp(m->state_unit[i], "1") != 0)
            return hb_fail(err, EINVAL, "state '%s' is an angle, but its unit is '%s': expected rad", m->state_name[i],
                           m->state_unit[i]);
        if (m->angle[i] && q >= 0 && i >= q && i < q + 4)
            return hb_fail(err, EINVAL, "state '%s' is part of a quaternion, and no angle", m->state_name[i]);
    }
    return 0;
}

static int check_normalisation(const char *what, int n, char (*name)[HB_NAME_SIZE], const double *mean,
                               const double *std, hb_error *err)
{
    for (int i = 0; i < n; i++) {
        if (!isfinite(mean[i]))
            return hb_fail(err, EINVAL, "the mean of %s '%s' is not finite", what, name[i]);
        if (!(std[i] > 0) || isinf(std[i]))
            return hb_fail(err, EINVAL, "the standard deviation of %s '%s' is %g, expected a finite number above 0",
                           what, name[i], std[i]);
        if (!(std[i] >= least_std && std[i] <= largest_std))
            return hb_fail(err, EINVAL,
                           "the standard deviation of %s '%s' is %g, expected %g to %g: choose other units", what,
                           name[i], std[i], least_std, largest_std);
    }
    return 0;
}

static int check_bounds(const hb_model *m, hb_error *err)
{
    for (int i = 0; i < m->nu; i++) {
        double min = m->control_min[i], max = m->control_max[i], trim = m->control_trim[i];
        if (!isfinite(min) || !isfinite(max) || min >= max)
            return hb_fail(err, EINVAL, "the bounds of control '%s' are %g and %g, expected min < max",
                           m->control_name[i], min, max);
        if (!(trim >= min && trim <= max))
            return hb_fail(err, EINVAL, "the trim of control '%s' is %g, outside its bounds %g and %g",
                           m->control_name[i], trim, min, max);
    }
    return 0;
}

static int check_actuators(const hb_model *m, hb_error *err)
{
    const struct {
        const char *what;
        const double *value;
    } row[] = {{"delay", m->actuator_delay}, {"lag", m->actuator_lag}, {"rate", m->actuator_rate}};

    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        for (int i = 0; i < m->nu; i++)
            if (!(row[k].value[i] >= 0) || isinf(row[k].value[i]))
                return hb_fail(err, EINVAL,
                               "the actuator %s of control '%s' is %g, expected a finite number, 0 or above",
                               row[k].what, m->control_name[i], row[k].value[i]);
    return 0;
}

/* One covariance: symmetric and positive semidefinite, both up to the rounding of a file in single precision. */
static int check_covariance(int block, size_t n, const double *p, double *scratch, hb_error *err)
{
    double most = 0;

    for (size_t i = 0; i < n * n; i++)
        if (!isfinite(p[i]))
            return hb_fail(err, EINVAL, "the prior's covariance %d is not finite in row %zu, column %zu", block, i / n,
                           i % n);
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(p[i * n + i]));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (fabs(p[i * n + k] - p[k * n + i]) > 1e-6 * most)
                return hb_fail(err, EINVAL,
                               "the prior's covariance %d is not symmetric: %g in row %zu, column %zu, but "
                               "%g across",
                               block, p[i * n + k], i, k, p[k * n + i]);
    memcpy(scratch, p, n * n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        scratch[i * n + i] += 1e-6 * most + DBL_MIN;
    if (hb_cholesky((int)n, scratch))
        return hb_fail(err, EINVAL, "the prior's covariance %d is not positive semidefinite", block);
    return 0;
}

static int check_prior(const hb_model *m, hb_error *err)
{
    size_t nb = (size_t)m->nb;
    int r = 0;

    if (!m->has_prior)
        return 0;
    for (int i = 0; i < hb_model_ncoefficients(m); i++)
        if (!isfinite(m->prior_mean[i]))
            return hb_fail(err, EINVAL, "the prior's mean %d is not finite", i);
    for (int i = 0; i < m->nx; i++)
        if (!(m->noise[i] > 0) || isinf(m->noise[i]))
            return hb_fail(err, EINVAL, "the noise of state '%s' is %g, expected a finite number above 0",
                           m->state_name[i], m->noise[i]);
    double *scratch = malloc(nb * nb * sizeof *scratch);
    if (!scratch)
        return hb_fail(err, ENOMEM, "out of memory for a prior over %d coefficients", m->nb);
    for (int p = 0; p < hb_model_nproblems(m) && r == 0; p++)
        r = check_covariance(p, nb, m->prior_covariance + (size_t)p * nb * nb, scratch, err);
    free(scratch);
    return r;
}

static int check_words(const hb_model *m, hb_error *err)
{
    int nc = hb_model_ncoefficients(m), r = check_names("word", m->nwords, m->word_name, m->word_unit, err);

    for (int i = 0; i < m->nwords && r == 0; i++) {
        if (!isfinite(m->word_offset[i]) || !hb_all_finite(m->word_slope + (size_t)i * (size_t)nc, nc))
            r = hb_fail(err, EINVAL, "the map of word '%s' is not finite", m->word_name[i]);
        else if (!(m->word_error[i] >= 0) || isinf(m->word_error[i]))
            r = hb_fail(err, EINVAL, "the error of word '%s' is %g, expected a finite number, 0 or above",
                        m->word_name[i], m->word_error[i]);
    }
    return r;
}

/* Calls `row` with the head's weights and bias of each row of the basis that the output mask leaves out; its sum. */
static int for_masked_rows(const hb_model *m, hb_real *vector, int (*row)(hb_real *weight, size_t width, hb_real *bias))
{
    const hb_head h = hb_mlp_head(&m->basis);
    bool shared = m->architecture == HB_SHARED;
    size_t nx = (size_t)m->nx;
    int sum = 0;

    for (size_t i = 0; i < (size_t)m->nb * nx; i++) {
        hb_real *network = vector + (shared ? 0 : i / nx * m->basis.nparameters);
        size_t at = shared ? i : i % nx;
        if (!m->output[i % nx])
            sum += row(network + h.weight + at * h.width, h.width, network + h.bias + at);
    }
    return sum;
}

static int clear_row(hb_real *weight, size_t width, hb_real *bias)
{
    memset(weight, 0, width * sizeof *weight);
    *bias = 0;
    return 0;
}

static int is_not_zero(hb_real *weight, size_t width, hb_real *bias)
{
    for (size_t i = 0; i < width; i++)
        if (weight[i] != 0)
            return 1;
    return *bias != 0;
}

void hb_model_mask(const hb_model *m, hb_real *vector)
{
    for_masked_rows(m, vector, clear_row);
}

static int check_mask(const hb_model *m, hb_error *err)
{
    if (for_masked_rows(m, m->parameter, is_not_zero))
        return hb_fail(err, EINVAL,
                       "basis functions act on states that the output mask leaves out: their rows must be 0");
    for (int i = 0; i < m->nx; i++)
        if (!(m->reference_noise[i] >= 0) || isinf(m->reference_noise[i]))
            return hb_fail(err, EINVAL, "the reference noise of state '%s' is %g, expected a finite number, 0 or above",
                           m->state_name[i], m->reference_noise[i]);
    return 0;
}

int hb_model_check(const hb_model *m, hb_error *err)
{
    hb_model copy = *m;
    int r = hb_model_size(&copy, err);

    if (r == 0)
        r = check_names("state", m->nx, m->state_name, m->state_unit, err);
    if (r == 0)
        r = check_angles(m, err);
    if (r == 0)
        r = check_names("control", m->nu, m->control_name, m->control_unit, err);
    if (r == 0)
        r = check_normalisation("state", m->nx, m->state_name, m->state_mean, m->state_std, err);
    if (r == 0)
        r = check_normalisation("control", m->nu, m->control_name, m->control_mean, m->control_std, err);
    if (r == 0)
        r = check_bounds(m, err);
    if (r == 0)
        r = check_actuators(m, err);
    if (r == 0)
        r = check_prior(m, err);
    if (r == 0)
        r = check_words(m, err);
    if (r == 0)
        r = check_mask(m, err);
    for (size_t i = 0; i < m->nparameters && r == 0; i++)
        if (!isfinite(m->parameter[i]))
            r = hb_fail(err, EINVAL, "parameter %zu is not finite", i);
    return r;
}

int hb_model_allows(const hb_model *m, hb_method method, hb_error *err)
{
    if (method == HB_INNER_PRODUCT && m->method == HB_LEAST_SQUARES)
        return hb_fail(err, EINVAL,
                       "the basis was trained with least_squares, so it is not orthonormal, and "
                       "coefficients by inner_product would be wrong: use least_squares");
    return 0;
}

/* --- life --- */

/* Numbers in the prior's covariance. */
static size_t prior_size(const hb_model *m)
{
    return (size_t)hb_model_nproblems(m) * (size_t)m->nb * (size_t)m->nb;
}

/* Lays the model out on the arena; returns NULL while measuring. */
static hb_model *lay_out(const hb_model *shape_of, size_t notes_size, hb_arena *arena)
{
    size_t nx = (size_t)shape_of->nx, nu = (size_t)shape_of->nu;
    hb_model *m = hb_arena_take(arena, 1, sizeof *m), measured, *to = m ? m : &measured;

    *to = *shape_of;
    to->input = hb_arena_take(arena, (size_t)shape_of->ninputs, sizeof *to->input);
    to->output = hb_arena_take(arena, nx, sizeof *to->output);
    to->reference_noise = hb_arena_take(arena, nx, sizeof(double));
    to->state_name = hb_arena_take(arena, nx, sizeof *to->state_name);
    to->state_unit = hb_arena_take(arena, nx, sizeof *to->state_unit);
    to->control_name = hb_arena_take(arena, nu, sizeof *to->control_name);
    to->control_unit = hb_arena_take(arena, nu, sizeof *to->control_unit);
    to->angle = hb_arena_take(arena, nx, sizeof *to->angle);
    to->state_mean = hb_arena_take(arena, nx, sizeof(double));
    to->state_std = hb_arena_take(arena, nx, sizeof(double));
    to->control_mean = hb_arena_take(arena, nu, sizeof(double));
    to->control_std = hb_arena_take(arena, nu, sizeof(double));
    to->control_min = hb_arena_take(arena, nu, sizeof(double));
    to->control_max = hb_arena_take(arena, nu, sizeof(double));
    to->control_trim = hb_arena_take(arena, nu, sizeof(double));
    to->actuator_delay = hb_arena_take(arena, nu, sizeof(double));
    to->actuator_lag = hb_arena_take(arena, nu, sizeof(double));
    to->actuator_rate = hb_arena_take(arena, nu, sizeof(double));
    to->prior_mean = to->prior_covariance = to->noise = NULL;
    if (shape_of->has_prior) {
        to->prior_mean = hb_arena_take(arena, (size_t)hb_model_ncoefficients(shape_of), sizeof(double));
        to->prior_covariance = hb_arena_take(arena, prior_size(shape_of), sizeof(double));
        to->noise = hb_arena_take(arena, nx, sizeof(double));
    }
    size_t nw = (size_t)shape_of->nwords;
    to->word_name = hb_arena_take(arena, nw, sizeof *to->word_name);
    to->word_unit = hb_arena_take(arena, nw, sizeof *to->word_unit);
    to->word_form = hb_arena_take(arena, nw, sizeof *to->word_form);
    to->word_offset = hb_arena_take(arena, nw, sizeof(double));
    to->word_slope = hb_arena_take(arena, nw * (size_t)hb_model_ncoefficients(shape_of), sizeof(double));
    to->word_error = hb_arena_take(arena, nw, sizeof(double));
    to->parameter = hb_arena_take(arena, shape_of->nparameters, sizeof(hb_real));
    to->notes = hb_arena_take(arena, notes_size, 1);
    if (shape_of->nominal && shape_of->nominal->physics) {
        void *place = hb_arena_take(arena, 1, hb_physics_size(shape_of->nominal->physics));
        if (place)
            to->nominal = hb_physics_nominal(hb_physics_copy(shape_of->nominal->physics, place));
    }
    return m;
}

int hb_model_new(hb_model **ret, const hb_model *shape_of, const char *notes, hb_error *err)
{
    hb_model sized = *shape_of;
    hb_arena arena = {0};
    size_t notes_size = strlen(notes ? notes : "") + 1;
    int r = hb_model_size(&sized, err);

    if (r)
        return r;
    if (sized.average != HB_AVERAGE_NOMINAL)
        sized.nominal = NULL;
    lay_out(&sized, notes_size, &arena);
    r = hb_arena_allocate(&arena, err);
    if (r)
        return r;
    hb_model *m = lay_out(&sized, notes_size, &arena);

    for (int i = 0; i < m->ninputs; i++)
        m->input[i] = sized.input ? sized.input[i] : i;
    for (int i = 0; i < m->nx; i++)
        m->output[i] = sized.output ? sized.output[i] : true;
    for (int i = 0; i < m->nx; i++) {
        snprintf(m->state_name[i], HB_NAME_SIZE, "x%d", i);
        m->state_std[i] = 1;
    }
    for (int i = 0; i < m->nu; i++) {
        snprintf(m->control_name[i], HB_NAME_SIZE, "u%d", i);
        m->control_std[i] = 1;
        m->control_min[i] = -1;
        m->control_max[i] = 1;
    }
    for (int i = 0; m->has_prior && i < m->nx; i++)
        m->noise[i] = 1;
    for (int i = 0; i < m->nwords; i++)
        snprintf(m->word_name[i], HB_NAME_SIZE, "w%d", i);
    if (notes)
        memcpy(m->notes, notes, notes_size);
    hb_model_seal(m);
    *ret = m;
    return 0;
}

void hb_model_free(hb_model *m)
{
    free(m);
}

static void copy_doubles(double *to, const double *from, size_t n)
{
    if (n)
        memcpy(to, from, n * sizeof *to);
}

static void copy_words(hb_model *to, const hb_model *m)
{
    size_t n = (size_t)m->nwords;

    if (n == 0)
        return;
    memcpy(to->word_name, m->word_name, n * sizeof *m->word_name);
    memcpy(to->word_unit, m->word_unit, n * sizeof *m->word_unit);
    memcpy(to->word_form, m->word_form, n * sizeof *m->word_form);
    copy_doubles(to->word_offset, m->word_offset, n);
    copy_doubles(to->word_slope, m->word_slope, n * (size_t)hb_model_ncoefficients(m));
    copy_doubles(to->word_error, m->word_error, n);
}

/* With room for nwords words, without their content. */
static int copy_but_words(hb_model **ret, const hb_model *m, bool with_prior, int nwords, const char *notes,
                          hb_error *err)
{
    hb_model shape = *m, *to;
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu;

    shape.has_prior = with_prior;
    shape.nwords = nwords;
    int r = hb_model_new(&to, &shape, notes ? notes : m->notes, err);
    if (r)
        return r;
    memcpy(to->state_name, m->state_name, nx * sizeof *m->state_name);
    memcpy(to->state_unit, m->state_unit, nx * sizeof *m->state_unit);
    memcpy(to->angle, m->angle, nx * sizeof *m->angle);
    if (nu) {
        memcpy(to->control_name, m->control_name, nu * sizeof *m->control_name);
        memcpy(to->control_unit, m->control_unit, nu * sizeof *m->control_unit);
    }
    copy_doubles(to->state_mean, m->state_mean, nx);
    copy_doubles(to->state_std, m->state_std, nx);
    copy_doubles(to->control_mean, m->control_mean, nu);
    copy_doubles(to->control_std, m->control_std, nu);
    copy_doubles(to->control_min, m->control_min, nu);
    copy_doubles(to->control_max, m->control_max, nu);
    copy_doubles(to->control_trim, m->control_trim, nu);
    copy_doubles(to->actuator_delay, m->actuator_delay, nu);
    copy_doubles(to->actuator_lag, m->actuator_lag, nu);
    copy_doubles(to->actuator_rate, m->actuator_rate, nu);
    if (with_prior && m->has_prior) {
        copy_doubles(to->reference_noise, m->reference_noise, nx);
        copy_doubles(to->prior_mean, m->prior_mean, (size_t)hb_model_ncoefficients(m));
        copy_doubles(to->prior_covariance, m->prior_covariance, prior_size(m));
        copy_doubles(to->noise, m->noise, nx);
    }
    if (m->nparameters)
        memcpy(to->parameter, m->parameter, m->nparameters * sizeof *m->parameter);
    hb_model_seal(to);
    *ret = to;
    return 0;
}

int hb_model_copy(hb_model **ret, const hb_model *m, bool with_prior, const char *notes, hb_error *err)
{
    int r = copy_but_words(ret, m, with_prior, with_prior ? m->nwords : 0, notes, err);

    if (r == 0 && with_prior)
        copy_words(*ret, m);
    return r;
}

int hb_model_copy_with_words(hb_model **ret, const hb_model *m, int nwords, const char *notes, hb_error *err)
{
    return copy_but_words(ret, m, m->has_prior, nwords, notes, err);
}

/* --- hash --- */

static uint64_t hash_texts(uint64_t hash, int n, char (*text)[HB_NAME_SIZE])
{
    for (int i = 0; i < n; i++)
        hash = hb_hash(hash, text[i], strlen(text[i]) + 1);
    return hash;
}

static uint64_t hash_doubles(uint64_t hash, int n, const double *value)
{
    return hb_hash(hash, value, (size_t)n * sizeof *value);
}

static uint64_t hash_mlp(uint64_t hash, const hb_mlp *mlp)
{
    hash = hb_hash(hash, &mlp->nlayers, sizeof mlp->nlayers);
    return hb_hash(hash, mlp->width, (size_t)(mlp->nlayers + 1) * sizeof *mlp->width);
}

static uint64_t hash_optional(uint64_t hash, int which, int n, const double *value)
{
    for (int i = 0; i < n; i++)
        if (value[i] != 0)
            return hash_doubles(hb_hash(hash, &which, sizeof which), n, value);
    return hash;
}

int hb_model_set_vehicle(hb_model *m, const double *known, hb_error *err)
{
    double before[HB_NOMINAL_PARAMETERS];

    if (m->average != HB_AVERAGE_NOMINAL)
        return hb_fail(err, EINVAL, "its average is %s: a vehicle's parameters go with a nominal one",
                       hb_average_name[m->average]);
    memcpy(before, m->nominal_parameter, sizeof before);
    double scale = hb_nominal_vehicle(m->nominal, before, known, m->nominal_parameter);
    int status = check_nominal(m, err);
    if (status) {
        memcpy(m->nominal_parameter, before, sizeof before);
        return status;
    }
    for (int i = 0; i < m->nu; i++) {
        double *of[] = {m->control_mean + i, m->control_std + i,  m->control_min + i,
                        m->control_max + i,  m->control_trim + i, m->actuator_rate + i};
        for (size_t k = 0; k < sizeof of / sizeof *of; k++)
            *of[k] *= scale;
    }
    hb_model_seal(m);
    return 0;
}

void hb_model_seal(hb_model *m)
{
    int numbers[] = {m->nx,
                     m->nu,
                     m->nb,
                     (int)m->architecture,
                     (int)m->activation,
                     (int)m->average,
                     (int)m->integration,
                     m->substeps,
                     (int)m->method,
                     (int)m->shape,
                     m->ninputs};
    double constants[] = {m->ridge, m->volume, m->dt};
    uint64_t hash = hb_hash(HB_HASH_START, numbers, sizeof numbers);

    hash = hb_hash(hash, constants, sizeof constants);
    hash = hb_hash(hash, m->input, (size_t)m->ninputs * sizeof *m->input);
    hash = hash_mlp(hash_mlp(hash, &m->basis), &m->average_network);
    if (m->nominal) {
        hash = hb_hash(hash, m->nominal->name, strlen(m->nominal->name) + 1);
        hash = hash_doubles(hash, m->nominal->nparameters, m->nominal_parameter);
        if (m->nominal->physics)
            hash = hb_hash(hash, hb_physics_text(m->nominal->physics), strlen(hb_physics_text(m->nominal->physics)));
    }
    hash = hash_texts(hash, m->nx, m->state_name);
    hash = hash_texts(hash, m->nx, m->state_unit);
    hash = hash_texts(hash, m->nu, m->control_name);
    hash = hash_texts(hash, m->nu, m->control_unit);
    hash = hash_doubles(hash_doubles(hash, m->nx, m->state_mean), m->nx, m->state_std);
    hash = hash_doubles(hash_doubles(hash, m->nu, m->control_mean), m->nu, m->control_std);
    hash = hash_doubles(hash_doubles(hash, m->nu, m->control_min), m->nu, m->control_max);
    hash = hash_doubles(hash, m->nu, m->control_trim);
    for (int i = 0; i < m->nx; i++)
        if (m->angle[i])
            hash = hb_hash(hash, &i, sizeof i);
    /* what is left out of files is left out here, so that an older file keeps its hash */
    hash = hash_optional(hash, 1, m->nu, m->actuator_delay);
    hash = hash_optional(hash, 2, m->nu, m->actuator_lag);
    hash = hash_optional(hash, 3, m->nu, m->actuator_rate);
    hash = hash_optional(hash, 4, m->nx, m->reference_noise);
    for (int i = 0; i < m->nx; i++)
        if (!m->output[i])
            hash = hb_hash(hash, &i, sizeof i);
    if (m->has_prior) {
        hash = hash_doubles(hash, hb_model_ncoefficients(m), m->prior_mean);
        hash = hb_hash(hash, m->prior_covariance, prior_size(m) * sizeof(double));
        hash = hash_doubles(hash, m->nx, m->noise);
    }
    m->hash = hb_hash(hash, m->parameter, m->nparameters * sizeof *m->parameter);
}

int hb_model_quaternion(const hb_model *m)
{
    static const char *const name[] = {"qx", "qy", "qz", "qw"};
    int found = 0;

    for (int i = 0; i < m->nx; i++) {
        found = strcmp(m->state_name[i], name[found]) == 0 ? found + 1 : strcmp(m->state_name[i], name[0]) == 0;
        if (found == 4)
            return i - 3;
    }
    return -1;
}
