/* Basis file -> model. All sizes and shapes are checked before memory is allocated or a number is read. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/model_layout.h"
#include "model/physics.h"
#include "model/safetensors.h"

static int require_text(const hb_safetensors *f, const char *key, const char **ret, hb_error *err)
{
    *ret = hb_safetensors_text(f, key);
    if (!*ret)
        return hb_fail(err, EINVAL, "%s: metadata '%s' is missing", f->path, key);
    return 0;
}

static int parse_choice(const hb_safetensors *f, const char *key, const char *text, const char *const *names, int *ret,
                        hb_error *err)
{
    char allowed[128] = "";

    for (int i = 0; names[i]; i++) {
        if (!strcmp(text, names[i])) {
            *ret = i;
            return 0;
        }
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i == 0 ? "" : names[i + 1] ? ", " : " or ", names[i]);
    }
    return hb_fail(err, EINVAL, "%s: metadata '%s' is '%.60s', expected %s", f->path, key, text, allowed);
}

/* A whole text that is one finite number. */
static bool parse_number(const char *text, double *ret)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !isfinite(value))
        return false;
    *ret = value;
    return true;
}

static int load_key(const hb_safetensors *f, const hb_key *key, hb_model *shape, hb_error *err)
{
    void *place = hb_layout_place(shape, key->place);
    const char *text;
    double number;
    int r = require_text(f, key->name, &text, err);

    if (r)
        return r;
    if (key->kind == HB_KEY_CHOICE)
        return parse_choice(f, key->name, text, key->choices, place, err);
    if (!parse_number(text, &number))
        return hb_fail(err, EINVAL, "%s: metadata '%s' is '%.60s', expected a number", f->path, key->name, text);
    if (key->kind == HB_KEY_NUMBER)
        *(double *)place = number;
    else if (number != floor(number) || fabs(number) > 1e6)
        return hb_fail(err, EINVAL, "%s: metadata '%s' is '%.60s', expected a whole number", f->path, key->name, text);
    else
        *(int *)place = (int)number;
    return 0;
}

/* The next item of a list joined by commas; returns where the one after it begins, NULL after the last. */
static const char *next_item(const char *list, size_t *ret_length)
{
    *ret_length = strcspn(list, ",");
    return list[*ret_length] ? list + *ret_length + 1 : NULL;
}

static int count_items(const char *list)
{
    int n = 0;
    size_t length;

    if (!*list)
        return 0;
    for (; list; list = next_item(list, &length))
        n++;
    return n;
}

static int load_list(const hb_safetensors *f, const char *key, int n, bool may_be_empty, char (*ret)[HB_NAME_SIZE],
                     hb_error *err)
{
    const char *list;
    int r = require_text(f, key, &list, err);

    if (r)
        return r;
    /* one empty item looks like none */
    int found = n == 1 && may_be_empty && !*list ? 1 : count_items(list);
    if (found != n)
        return hb_fail(err, EINVAL, "%s: metadata '%s' has %d items, expected %d, joined by commas", f->path, key,
                       found, n);
    for (int i = 0; i < n; i++) {
        size_t length;
        const char *next = next_item(list, &length);
        if (length >= HB_NAME_SIZE)
            return hb_fail(err, EINVAL, "%s: metadata '%s': item %d is %zu bytes long, expected at most %d", f->path,
                           key, i, length, HB_NAME_SIZE - 1);
        memcpy(ret[i], list, length);
        ret[i][length] = 0;
        list = next;
    }
    return 0;
}

/* States that a list names, in their order: their indices, and how many. */
static int load_states(const hb_safetensors *f, const char *key, const char *list, int nx,
                       char (*state_name)[HB_NAME_SIZE], int *ret_index, int *ret_n, hb_error *err)
{
    int n = 0;

    for (const char *item = *list ? list : NULL, *next; item; item = next) {
        size_t length;
        int index = 0;

        next = next_item(item, &length);
        while (index < nx && (strlen(state_name[index]) != length || memcmp(state_name[index], item, length) != 0))
            index++;
        if (index == nx)
            return hb_fail(err, EINVAL, "%s: metadata '%s' names '%.*s', which is not one of the state_names", f->path,
                           key, length > 60 ? 60 : (int)length, item);
        if (n && index <= ret_index[n - 1])
            return hb_fail(err, EINVAL, "%s: metadata '%s' are not in the order of state_names at '%s'", f->path, key,
                           state_name[index]);
        ret_index[n++] = index;
    }
    *ret_n = n;
    return 0;
}

/* Which states feed the networks, and which their outputs act on; shape->input and shape->output are new arrays. */
static int load_masks(const hb_safetensors *f, hb_model *shape, char (*state_name)[HB_NAME_SIZE], hb_error *err)
{
    const char *inputs, *outputs = hb_safetensors_text(f, "outputs");
    int r = require_text(f, "inputs", &inputs, err), n = 0;
    size_t nx = (size_t)shape->nx;

    if (r)
        return r;
    int *index = calloc(nx + 1, sizeof *index);
    shape->input = calloc(nx + 1, sizeof *shape->input);
    shape->output = calloc(nx + 1, sizeof *shape->output);
    if (!index || !shape->input || !shape->output)
        r = hb_fail(err, ENOMEM, "%s: out of memory", f->path);
    if (r == 0)
        r = load_states(f, "inputs", inputs, shape->nx, state_name, shape->input, &shape->ninputs, err);
    if (r == 0 && outputs)
        r = load_states(f, "outputs", outputs, shape->nx, state_name, index, &n, err);
    for (int i = 0; i < shape->nx && r == 0 && !outputs; i++)
        index[n++] = i;
    for (int i = 0; i < n && r == 0; i++)
        shape->output[index[i]] = true;
    free(index);
    return r;
}

/* The next name=value of a list, which moves past it; what is not a number is NaN. */
static void next_assignment(const char **list, const char **ret_name, size_t *ret_length, double *ret)
{
    const char *item = *list;
    size_t length, name_length = strcspn(item, "=,");
    char number[HB_NUMBER_TEXT + 1] = "";

    *list = next_item(item, &length);
    if (name_length < length && length - name_length - 1 < sizeof number)
        memcpy(number, item + name_length + 1, length - name_length - 1);
    if (!parse_number(number, ret))
        *ret = NAN;
    *ret_name = item;
    *ret_length = name_length;
}

static int check_assigned(const hb_safetensors *f, const char *name, size_t length, double value, hb_error *err)
{
    if (isnan(value))
        return hb_fail(err, EINVAL, "%s: metadata 'nominal_parameters': '%.*s' is not followed by = and a number",
                       f->path, length > 60 ? 60 : (int)length, name);
    return 0;
}

/* nominal_parameters: name=value,... each of the model's once. */
static int load_nominal_parameters(const hb_safetensors *f, hb_model *shape, hb_error *err)
{
    const hb_nominal *nominal = shape->nominal;
    bool given[HB_NOMINAL_PARAMETERS] = {false};
    const char *list;
    int r = require_text(f, "nominal_parameters", &list, err);

    if (r)
        return r;
    for (const char *next = *list ? list : NULL; next;) {
        const char *name;
        size_t length;
        double value;
        int k = 0;

        next_assignment(&next, &name, &length, &value);
        while (k < nominal->nparameters &&
               (strlen(nominal->parameter_name[k]) != length || memcmp(nominal->parameter_name[k], name, length) != 0))
            k++;
        if (k == nominal->nparameters)
            return hb_fail(err, EINVAL,
                           "%s: metadata 'nominal_parameters': the nominal model '%s' has no parameter '%.*s'", f->path,
                           nominal->name, length > 60 ? 60 : (int)length, name);
        if (given[k])
            return hb_fail(err, EINVAL, "%s: metadata 'nominal_parameters': '%s' is given twice", f->path,
                           nominal->parameter_name[k]);
        if ((r = check_assigned(f, name, length, value, err)))
            return r;
        shape->nominal_parameter[k] = value;
        given[k] = true;
    }
    for (int k = 0; k < nominal->nparameters; k++)
        if (!given[k])
            return hb_fail(err, EINVAL, "%s: metadata 'nominal_parameters': '%s' is missing", f->path,
                           nominal->parameter_name[k]);
    return 0;
}

/* Expressions, with the parameters that the file names; *ret is for the caller to free. */
static int load_expressions(const hb_safetensors *f, hb_model *shape, char (*state)[HB_NAME_SIZE], hb_physics **ret,
                            hb_error *err)
{
    char parameter[HB_NOMINAL_PARAMETERS][HB_NAME_SIZE] = {""};
    char(*control)[HB_NAME_SIZE] = calloc((size_t)shape->nu + 1, sizeof *control);
    hb_physics_source source = {.nx = shape->nx,
                                .nu = shape->nu,
                                .state = state,
                                .control = control,
                                .parameter = parameter,
                                .value = shape->nominal_parameter};
    hb_physics_place place = {.line = -1};
    const char *list;
    int r = control ? 0 : hb_fail(err, ENOMEM, "%s: out of memory", f->path);

    if (r == 0 && shape->nu)
        r = load_list(f, "control_names", shape->nu, false, control, err);
    if (r == 0)
        r = require_text(f, "nominal_expressions", &source.text, err);
    if (r == 0)
        r = require_text(f, "nominal_parameters", &list, err);
    for (const char *next = r == 0 && *list ? list : NULL; next && r == 0;) {
        const char *name;
        size_t length;
        double value;

        next_assignment(&next, &name, &length, &value);
        if (source.nparameters == HB_NOMINAL_PARAMETERS)
            r = hb_fail(err, EINVAL, "%s: metadata 'nominal_parameters' has more than %d", f->path,
                        HB_NOMINAL_PARAMETERS);
        else if (length >= HB_NAME_SIZE)
            r = hb_fail(err, EINVAL, "%s: metadata 'nominal_parameters': a name is %zu bytes long, expected at most %d",
                        f->path, length, HB_NAME_SIZE - 1);
        else if ((r = check_assigned(f, name, length, value, err)) == 0) {
            memcpy(parameter[source.nparameters], name, length);
            shape->nominal_parameter[source.nparameters++] = value;
        }
    }
    if (r == 0 && (r = hb_physics_new(ret, &source, &place, err))) {
        char where[200];
        if (place.line >= 0)
            snprintf(where, sizeof where, "%.100s: metadata 'nominal_expressions': '%s%s', column %d", f->path,
                     place.name, place.is_rate ? "'" : "", place.column + 1);
        else
            snprintf(where, sizeof where, "%.100s: metadata 'nominal_expressions'", f->path);
        hb_fail_in(err, where, r);
    }
    if (r == 0)
        shape->nominal = hb_physics_nominal(*ret);
    free(control);
    return r;
}

/* *ret: of a nominal model that the file brings along, to be freed after the model has its copy. */
static int load_nominal(const hb_safetensors *f, hb_model *shape, char (*state)[HB_NAME_SIZE], hb_physics **ret,
                        hb_error *err)
{
    const char *name;

    if (shape->average != HB_AVERAGE_NOMINAL)
        return 0;
    int r = require_text(f, "nominal", &name, err);
    if (r)
        return r;
    if (strcmp(name, HB_NOMINAL_EXPRESSIONS) == 0)
        return load_expressions(f, shape, state, ret, err);
    shape->nominal = hb_nominal_find(name);
    if (!shape->nominal) {
        char allowed[200] = HB_NOMINAL_EXPRESSIONS;
        for (int i = 0; hb_nominal_at(i); i++) {
            size_t used = strlen(allowed);
            snprintf(allowed + used, sizeof allowed - used, ", %s", hb_nominal_at(i)->name);
        }
        return hb_fail(err, EINVAL, "%s: metadata 'nominal' is '%.60s', expected one of: %s", f->path, name, allowed);
    }
    return load_nominal_parameters(f, shape, err);
}

/* Dimension `index` of a tensor that must have `rank` of them, as an int of at most `most`. */
static int dimension(const hb_safetensors *f, const hb_tensor *t, int rank, int index, int most, int *ret,
                     hb_error *err)
{
    char text[HB_SHAPE_TEXT];

    if (t->rank != rank)
        return hb_fail(err, EINVAL, "%s: tensor '%s': shape %s, expected %d dimension%s", f->path, t->name,
                       hb_tensor_shape_text(t->rank, t->shape, text), rank, rank == 1 ? "" : "s");
    if (t->shape[index] < 1 || t->shape[index] > (size_t)most)
        return hb_fail(err, EINVAL, "%s: tensor '%s': shape %s, expected 1 to %d in place %d", f->path, t->name,
                       hb_tensor_shape_text(t->rank, t->shape, text), most, index);
    *ret = (int)t->shape[index];
    return 0;
}

/* Number of states or controls, from the vector of means; 0 without it. */
static int load_count(const hb_safetensors *f, const char *name, int *ret, hb_error *err)
{
    const hb_tensor *t = hb_safetensors_find(f, name);

    return t ? dimension(f, t, 1, 0, HB_MAX_STATES, ret, err) : 0;
}

/* Depth and hidden widths of a network from its tensors {name}.0.weight, {name}.1.weight, ... of the given rank.
 * Widths and nlayers count what is there; the first missing layer ends the network. */
static int load_widths(const hb_safetensors *f, const char *name, int rank, hb_mlp *mlp, hb_error *err)
{
    for (int l = 0;; l++) {
        char tensor[48];
        snprintf(tensor, sizeof tensor, "%s.%d.weight", name, l);
        const hb_tensor *t = hb_safetensors_find(f, tensor);
        if (!t)
            return 0;
        if (l == HB_MAX_LAYERS)
            return hb_fail(err, EINVAL, "%s: tensor '%s': at most %d layers are expected", f->path, tensor,
                           HB_MAX_LAYERS);
        int r = dimension(f, t, rank, rank - 2, HB_MAX_WIDTH, &mlp->width[l + 1], err);
        if (r)
            return r;
        mlp->nlayers = l + 1;
    }
}

/* Everything that sizes follow from: nb and the shapes of the networks. */
static int load_networks(const hb_safetensors *f, hb_model *shape, hb_error *err)
{
    bool shared = shape->architecture == HB_SHARED;
    const hb_tensor *first = hb_safetensors_find(f, shared ? "head.weight" : "basis.0.weight");
    int r = first ? dimension(f, first, 3, 0, HB_MAX_BASIS, &shape->nb, err) : 0;

    if (r == 0)
        r = load_widths(f, shared ? "trunk" : "basis", shared ? 2 : 3, &shape->basis, err);
    if (r == 0 && shape->average == HB_AVERAGE_NETWORK)
        r = load_widths(f, "average", 2, &shape->average_network, err);
    /* the head is a layer of the shared network */
    if (r == 0 && shared && ++shape->basis.nlayers > HB_MAX_LAYERS)
        r = hb_fail(err, EINVAL, "%s: at most %d layers are expected in trunk and head", f->path, HB_MAX_LAYERS);
    return r;
}

/* Refuses tensors and keys that nothing reads: they are mistakes that would otherwise go unnoticed. */
static int check_nothing_else(const hb_safetensors *f, const hb_model *shape, const hb_part *parts, int nparts,
                              hb_error *err)
{
    hb_prior_part prior[HB_PRIOR_PARTS], words[HB_WORD_PARTS];

    hb_layout_prior(shape, prior);
    hb_layout_words(shape, words);
    for (int i = 0; i < f->ntensors; i++) {
        const char *name = f->tensor[i].name;
        bool known = false;
        for (int k = 0; k < nparts && !known; k++)
            known = !strcmp(name, parts[k].name);
        for (int k = 0; k < HB_NVECTORS && !known; k++)
            known = !strcmp(name, hb_layout_vector[k].name) && hb_layout_count(shape, hb_layout_vector[k].count);
        for (int k = 0; k < HB_PRIOR_PARTS && shape->has_prior && !known; k++)
            known = !strcmp(name, prior[k].name);
        for (int k = 0; k < HB_WORD_PARTS && shape->nwords && !known; k++)
            known = !strcmp(name, words[k].name);
        if (!known)
            return hb_fail(err, EINVAL,
                           "%s: tensor '%s' has no place in this model (architecture %s, average %s, %d "
                           "states, %d controls, %d basis functions of %d layers)",
                           f->path, name, hb_architecture_name[shape->architecture], hb_average_name[shape->average],
                           shape->nx, shape->nu, shape->nb, shape->basis.nlayers);
    }
    for (int i = 0; i < f->ntexts; i++) {
        const char *key = f->text[i].key;
        bool known = !strcmp(key, "format") || !strcmp(key, "inputs") || !strcmp(key, "outputs") ||
                     !strcmp(key, "angles") || !strcmp(key, "notes");
        for (int k = 0; k < HB_NKEYS && !known; k++)
            known = !strcmp(key, hb_layout_key[k].name);
        for (int k = 0; k < HB_NLISTS && !known; k++)
            known = !strcmp(key, hb_layout_list[k].name) && hb_layout_count(shape, hb_layout_list[k].count);
        for (int k = 0; k < HB_WORD_TEXTS && shape->nwords && !known; k++)
            known = !strcmp(key, hb_layout_word_key[k]);
        if (!known && shape->nominal)
            known = !strcmp(key, "nominal") || !strcmp(key, "nominal_parameters") ||
                    (shape->nominal->physics && !strcmp(key, "nominal_expressions"));
        if (!known)
            return hb_fail(err, EINVAL, "%s: metadata '%s' is not known here; free text goes into 'notes'", f->path,
                           key);
    }
    return 0;
}

/* There must be a tensor of that name and that shape. */
static int check_shape(const hb_safetensors *f, const char *name, int rank, const size_t *shape, hb_error *err)
{
    const hb_tensor *t = hb_safetensors_find(f, name);
    char found[HB_SHAPE_TEXT], expected[HB_SHAPE_TEXT];

    hb_tensor_shape_text(rank, shape, expected);
    if (!t)
        return hb_fail(err, EINVAL, "%s: tensor '%s' is missing, expected with shape %s", f->path, name, expected);
    if (t->rank != rank || memcmp(t->shape, shape, (size_t)rank * sizeof *shape) != 0)
        return hb_fail(err, EINVAL, "%s: tensor '%s': shape %s, expected %s", f->path, name,
                       hb_tensor_shape_text(t->rank, t->shape, found), expected);
    return 0;
}

static bool is_left_out(const hb_safetensors *f, const hb_vector *v)
{
    return v->optional && !hb_safetensors_find(f, v->name);
}

static int check_shapes(const hb_safetensors *f, const hb_model *shape, const hb_part *parts, int nparts, hb_error *err)
{
    hb_prior_part prior[HB_PRIOR_PARTS], words[HB_WORD_PARTS];
    int r = 0;

    for (int i = 0; i < HB_NVECTORS && r == 0; i++) {
        size_t count = (size_t)hb_layout_count(shape, hb_layout_vector[i].count);
        if (count && !is_left_out(f, &hb_layout_vector[i]))
            r = check_shape(f, hb_layout_vector[i].name, 1, &count, err);
    }
    hb_layout_prior(shape, prior);
    for (int i = 0; i < HB_PRIOR_PARTS && shape->has_prior && r == 0; i++)
        r = check_shape(f, prior[i].name, prior[i].rank, prior[i].shape, err);
    hb_layout_words(shape, words);
    for (int i = 0; i < HB_WORD_PARTS && shape->nwords && r == 0; i++)
        r = check_shape(f, words[i].name, words[i].rank, words[i].shape, err);
    for (int i = 0; i < nparts && r == 0; i++)
        r = check_shape(f, parts[i].name, parts[i].rank, parts[i].shape, err);
    return r;
}

/* Reads the numbers; shapes are known to be right. */
static int load_tensors(const hb_safetensors *f, hb_model *m, const hb_part *parts, int nparts, hb_error *err)
{
    hb_prior_part prior[HB_PRIOR_PARTS], words[HB_WORD_PARTS];
    hb_real *flat = malloc((m->nparameters + 1) * sizeof *flat);
    int r = flat ? 0 : hb_fail(err, ENOMEM, "%s: out of memory", f->path);

    for (int i = 0; i < HB_NVECTORS && r == 0; i++) {
        if (hb_layout_count(m, hb_layout_vector[i].count) && !is_left_out(f, &hb_layout_vector[i])) {
            double **vector = hb_layout_place(m, hb_layout_vector[i].place);
            r = hb_safetensors_doubles(f, hb_safetensors_find(f, hb_layout_vector[i].name), *vector, err);
        }
    }
    hb_layout_prior(m, prior);
    for (int i = 0; i < HB_PRIOR_PARTS && m->has_prior && r == 0; i++) {
        double **numbers = hb_layout_place(m, prior[i].place);
        r = hb_safetensors_doubles(f, hb_safetensors_find(f, prior[i].name), *numbers, err);
    }
    hb_layout_words(m, words);
    for (int i = 0; i < HB_WORD_PARTS && m->nwords && r == 0; i++) {
        double **numbers = hb_layout_place(m, words[i].place);
        r = hb_safetensors_doubles(f, hb_safetensors_find(f, words[i].name), *numbers, err);
    }
    for (int i = 0; i < nparts && r == 0; i++) {
        const hb_part *p = &parts[i];
        r = hb_safetensors_reals(f, hb_safetensors_find(f, p->name), flat, err);
        for (size_t k = 0; k < p->blocks && r == 0; k++)
            memcpy(m->parameter + p->offset + k * p->stride, flat + k * p->length, p->length * sizeof *flat);
    }
    free(flat);
    return r;
}

/* One tensor of the prior asks for all of them. */
static void find_prior(const hb_safetensors *f, hb_model *shape)
{
    hb_prior_part prior[HB_PRIOR_PARTS];

    hb_layout_prior(shape, prior);
    for (int i = 0; i < HB_PRIOR_PARTS; i++)
        if (hb_safetensors_find(f, prior[i].name))
            shape->has_prior = true;
}

/* Sizes and choices of the model in the file; shape->input, shape->output, *names and *physics are allocated. */
static int load_shape(const hb_safetensors *f, hb_model *shape, char (**names)[HB_NAME_SIZE], hb_physics **physics,
                      hb_error *err)
{
    const char *format;
    int r = require_text(f, "format", &format, err);

    if (r == 0 && strcmp(format, HB_BASIS_FORMAT) != 0)
        r = hb_fail(err, EINVAL, "%s: metadata 'format' is '%.60s', expected '%s'", f->path, format, HB_BASIS_FORMAT);
    for (int i = 0; i < HB_NKEYS && r == 0; i++)
        r = load_key(f, &hb_layout_key[i], shape, err);
    if (r == 0 && !hb_safetensors_find(f, "state.mean"))
        r = hb_fail(err, EINVAL, "%s: tensor 'state.mean' is missing", f->path);
    if (r == 0)
        r = load_count(f, "state.mean", &shape->nx, err);
    if (r == 0)
        r = load_count(f, "control.mean", &shape->nu, err);
    if (r)
        return r;

    *names = calloc((size_t)shape->nx, sizeof **names);
    if (!*names)
        return hb_fail(err, ENOMEM, "%s: out of memory", f->path);
    r = load_list(f, "state_names", shape->nx, false, *names, err);
    if (r == 0)
        r = load_masks(f, shape, *names, err);
    if (r == 0)
        r = load_nominal(f, shape, *names, physics, err);
    if (r == 0)
        r = load_networks(f, shape, err);
    if (r == 0)
        find_prior(f, shape);
    const char *words = hb_safetensors_text(f, hb_layout_word_key[0]);
    shape->nwords = words ? count_items(words) : 0;
    return r ? r : hb_fail_in(err, f->path, hb_model_size(shape, err));
}

static int load_angles(const hb_safetensors *f, hb_model *m, hb_error *err)
{
    const char *list = hb_safetensors_text(f, "angles");
    int *index = calloc((size_t)m->nx, sizeof *index), n = 0;
    int r = index ? 0 : hb_fail(err, ENOMEM, "%s: out of memory", f->path);

    if (r == 0 && list)
        r = load_states(f, "angles", list, m->nx, m->state_name, index, &n, err);
    for (int i = 0; r == 0 && i < n; i++)
        m->angle[index[i]] = true;
    free(index);
    return r;
}

static int load_words(const hb_safetensors *f, hb_model *m, hb_error *err)
{
    char form[HB_MAX_WORDS][HB_NAME_SIZE];
    int r = load_list(f, hb_layout_word_key[0], m->nwords, false, m->word_name, err);

    if (r == 0)
        r = load_list(f, hb_layout_word_key[1], m->nwords, true, m->word_unit, err);
    if (r == 0)
        r = load_list(f, hb_layout_word_key[2], m->nwords, false, form, err);
    for (int i = 0; i < m->nwords && r == 0; i++)
        r = parse_choice(f, hb_layout_word_key[2], form[i], hb_word_form_name, &m->word_form[i], err);
    return r;
}

/* A new model of that shape with everything that the file says. */
static int load_model(hb_model **ret, const hb_safetensors *f, const hb_model *shape, hb_error *err)
{
    hb_part parts[HB_MAX_PARTS];
    int nparts = hb_layout_parts(shape, parts);
    hb_model *m = NULL;
    int r = check_nothing_else(f, shape, parts, nparts, err);

    if (r == 0)
        r = check_shapes(f, shape, parts, nparts, err);
    if (r == 0)
        r = hb_fail_in(err, f->path, hb_model_new(&m, shape, hb_safetensors_text(f, "notes"), err));
    for (int i = 0; i < HB_NLISTS && r == 0; i++) {
        const hb_list *list = &hb_layout_list[i];
        char(**names)[HB_NAME_SIZE] = hb_layout_place(m, list->place);
        int n = hb_layout_count(m, list->count);
        if (n)
            r = load_list(f, list->name, n, list->may_be_empty, *names, err);
    }
    if (r == 0)
        r = load_angles(f, m, err);
    if (r == 0 && m->nwords)
        r = load_words(f, m, err);
    if (r == 0)
        r = load_tensors(f, m, parts, nparts, err);
    if (r == 0)
        r = hb_fail_in(err, f->path, hb_model_check(m, err));
    if (r) {
        hb_model_free(m);
        return r;
    }
    hb_model_seal(m);
    *ret = m;
    return 0;
}

int hb_model_load(hb_model **ret, const char *path, hb_error *err)
{
    hb_safetensors *f = NULL;
    hb_model shape = {0};
    char(*names)[HB_NAME_SIZE] = NULL;
    hb_physics *physics = NULL;
    int r = hb_safetensors_load(&f, path, err);

    if (r == 0)
        r = load_shape(f, &shape, &names, &physics, err);
    if (r == 0)
        r = load_model(ret, f, &shape, err);
    hb_physics_free(physics);
    free(names);
    free(shape.input);
    free(shape.output);
    hb_safetensors_free(f);
    return r;
}
