#include "model/model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"

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
    if (m->nb == 0 && m->average == HB_AVERAGE_NONE)
        return hb_fail(err, EINVAL, "there are neither basis functions nor an average");
    if (m->average == HB_AVERAGE_NOMINAL)
        r = check_nominal(m, err);
    if (r == 0)
        r = check_range("substeps", m->substeps, 1, HB_MAX_SUBSTEPS, err);
    if (r == 0)
        r = check_positive("dt", m->dt, err);
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
    if (r)
        return r;
    if (m->input)
        r = check_inputs(m, err);
    else
        m->ninputs = m->nx;
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

static int check_normalisation(const char *what, int n, char (*name)[HB_NAME_SIZE], const double *mean,
                               const double *std, hb_error *err)
{
    for (int i = 0; i < n; i++) {
        if (!isfinite(mean[i]))
            return hb_fail(err, EINVAL, "the mean of %s '%s' is not finite", what, name[i]);
        if (!(std[i] > 0) || isinf(std[i]))
            return hb_fail(err, EINVAL, "the standard deviation of %s '%s' is %g, expected a finite number above 0",
                           what, name[i], std[i]);
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

int hb_model_check(const hb_model *m, hb_error *err)
{
    hb_model copy = *m;
    int r = hb_model_size(&copy, err);

    if (r == 0)
        r = check_names("state", m->nx, m->state_name, m->state_unit, err);
    if (r == 0)
        r = check_names("control", m->nu, m->control_name, m->control_unit, err);
    if (r == 0)
        r = check_normalisation("state", m->nx, m->state_name, m->state_mean, m->state_std, err);
    if (r == 0)
        r = check_normalisation("control", m->nu, m->control_name, m->control_mean, m->control_std, err);
    if (r == 0)
        r = check_bounds(m, err);
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

/* Lays the model out on the arena; returns NULL while measuring. */
static hb_model *lay_out(const hb_model *shape_of, size_t notes_size, hb_arena *arena)
{
    size_t nx = (size_t)shape_of->nx, nu = (size_t)shape_of->nu;
    hb_model *m = hb_arena_take(arena, 1, sizeof *m), measured, *to = m ? m : &measured;

    *to = *shape_of;
    to->input = hb_arena_take(arena, (size_t)shape_of->ninputs, sizeof *to->input);
    to->state_name = hb_arena_take(arena, nx, sizeof *to->state_name);
    to->state_unit = hb_arena_take(arena, nx, sizeof *to->state_unit);
    to->control_name = hb_arena_take(arena, nu, sizeof *to->control_name);
    to->control_unit = hb_arena_take(arena, nu, sizeof *to->control_unit);
    to->state_mean = hb_arena_take(arena, nx, sizeof(double));
    to->state_std = hb_arena_take(arena, nx, sizeof(double));
    to->control_mean = hb_arena_take(arena, nu, sizeof(double));
    to->control_std = hb_arena_take(arena, nu, sizeof(double));
    to->control_min = hb_arena_take(arena, nu, sizeof(double));
    to->control_max = hb_arena_take(arena, nu, sizeof(double));
    to->control_trim = hb_arena_take(arena, nu, sizeof(double));
    to->parameter = hb_arena_take(arena, shape_of->nparameters, sizeof(hb_real));
    to->notes = hb_arena_take(arena, notes_size, 1);
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
    lay_out(&sized, notes_size, &arena);
    r = hb_arena_allocate(&arena, err);
    if (r)
        return r;
    hb_model *m = lay_out(&sized, notes_size, &arena);

    for (int i = 0; i < m->ninputs; i++)
        m->input[i] = sized.input ? sized.input[i] : i;
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
    if (m->average != HB_AVERAGE_NOMINAL)
        m->nominal = NULL;
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
    }
    hash = hash_texts(hash, m->nx, m->state_name);
    hash = hash_texts(hash, m->nx, m->state_unit);
    hash = hash_texts(hash, m->nu, m->control_name);
    hash = hash_texts(hash, m->nu, m->control_unit);
    hash = hash_doubles(hash_doubles(hash, m->nx, m->state_mean), m->nx, m->state_std);
    hash = hash_doubles(hash_doubles(hash, m->nu, m->control_mean), m->nu, m->control_std);
    hash = hash_doubles(hash_doubles(hash, m->nu, m->control_min), m->nu, m->control_max);
    hash = hash_doubles(hash, m->nu, m->control_trim);
    m->hash = hb_hash(hash, m->parameter, m->nparameters * sizeof *m->parameter);
}
