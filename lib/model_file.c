/* Basis files: how a model lies in a safetensors file.
 *
 * Metadata (all strings, all required but `notes`; lists are joined by commas):
 *
 *     format              hilbert-basis-1
 *     architecture, activation, average, integration, method, shape      a name of model.h's enumerations
 *     substeps, ridge, volume, dt                                        numbers
 *     state_names, state_units, control_names, control_units             control_* only with controls
 *     inputs              names of the states that feed the networks
 *     nominal             with average = nominal: name of the nominal model,
 *     nominal_parameters  and all its parameters, as name=value
 *     notes               free text
 *
 * Tensors (F64 or F32; F16 and BF16 are read as well). Those without elements are left out.
 *
 *     state.mean, state.std                                   [nx]
 *     control.mean, .std, .min, .max, .trim                   [nu]
 *     independent   basis.{l}.weight, .bias                   [nb, out, in], [nb, out]
 *     shared        trunk.{l}.weight, .bias                   [out, in], [out]
 *                   head.weight, .bias                        [nb, nx, width], [nb, nx]
 *                   average.head.weight, .bias (average=head) [nx, width], [nx]
 *     average=network   average.{l}.weight, .bias             [out, in], [out]
 *
 * {l} counts layers from 0. Widths and depths are those of the tensors. */
#include "model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "safetensors.h"

static const char format_name[] = "hilbert-basis-1";

/* --- what goes where: read by load and save alike --- */

typedef enum { CHOICE, COUNT, NUMBER } key_kind;

static const struct {
    const char *key;
    key_kind kind;
    size_t field;
    const char *const *names; /* of a choice */
} scalars[] = {
    {"architecture", CHOICE, offsetof(hb_model, architecture), hb_architecture_name},
    {"activation", CHOICE, offsetof(hb_model, activation), hb_activation_name},
    {"average", CHOICE, offsetof(hb_model, average), hb_average_name},
    {"integration", CHOICE, offsetof(hb_model, integration), hb_integration_name},
    {"substeps", COUNT, offsetof(hb_model, substeps), NULL},
    {"method", CHOICE, offsetof(hb_model, method), hb_method_name},
    {"shape", CHOICE, offsetof(hb_model, shape), hb_shape_name},
    {"ridge", NUMBER, offsetof(hb_model, ridge), NULL},
    {"volume", NUMBER, offsetof(hb_model, volume), NULL},
    {"dt", NUMBER, offsetof(hb_model, dt), NULL},
};

enum { NSCALARS = sizeof scalars / sizeof *scalars };

/* choices are enumerations, which are as wide as int */
_Static_assert(sizeof(hb_architecture) == sizeof(int) && sizeof(hb_integration) == sizeof(int), "choices are ints");

static const struct {
    const char *key;
    size_t field; /* char (*)[HB_NAME_SIZE] */
    size_t count; /* int */
    bool may_be_empty;
} lists[] = {
    {"state_names", offsetof(hb_model, state_name), offsetof(hb_model, nx), false},
    {"state_units", offsetof(hb_model, state_unit), offsetof(hb_model, nx), true},
    {"control_names", offsetof(hb_model, control_name), offsetof(hb_model, nu), false},
    {"control_units", offsetof(hb_model, control_unit), offsetof(hb_model, nu), true},
};

enum { NLISTS = sizeof lists / sizeof *lists };

static const struct {
    const char *name;
    size_t field; /* double * */
    size_t count; /* int */
} vectors[] = {
    {"state.mean", offsetof(hb_model, state_mean), offsetof(hb_model, nx)},
    {"state.std", offsetof(hb_model, state_std), offsetof(hb_model, nx)},
    {"control.mean", offsetof(hb_model, control_mean), offsetof(hb_model, nu)},
    {"control.std", offsetof(hb_model, control_std), offsetof(hb_model, nu)},
    {"control.min", offsetof(hb_model, control_min), offsetof(hb_model, nu)},
    {"control.max", offsetof(hb_model, control_max), offsetof(hb_model, nu)},
    {"control.trim", offsetof(hb_model, control_trim), offsetof(hb_model, nu)},
};

enum { NVECTORS = sizeof vectors / sizeof *vectors };

static void *field_of(const hb_model *m, size_t offset)
{
    return (char *)(uintptr_t)m + offset;
}

static int count_of(const hb_model *m, size_t offset)
{
    return *(int *)field_of(m, offset);
}

/* One parameter tensor: `blocks` pieces of `length` numbers, `stride` apart in the flat parameter vector. */
typedef struct part {
    char name[48];
    int rank;
    size_t shape[3];
    size_t offset, blocks, length, stride;
} part;

enum { MAX_PARTS = 4 * HB_MAX_LAYERS + 4 };

/* `rows` is what the tensor has of the layer's rows; leading 0: no such dimension. */
static part *add_part(part *p, const char *name, const char *suffix, size_t blocks, size_t rows, size_t columns,
                      size_t offset, size_t stride)
{
    size_t shape[3], rank = 0;

    if (blocks)
        shape[rank++] = blocks;
    shape[rank++] = rows;
    if (columns)
        shape[rank++] = columns;

    *p = (part){.rank = (int)rank,
                .offset = offset,
                .blocks = blocks ? blocks : 1,
                .stride = stride,
                .length = rows * (columns ? columns : 1)};
    memcpy(p->shape, shape, rank * sizeof *shape);
    snprintf(p->name, sizeof p->name, "%s.%s", name, suffix);
    return p + 1;
}

/* Layers 0..nlayers-1 of a network at *offset of the parameters, which moves past them; blocks > 0: that many
 * networks of this shape one behind the other. */
static part *add_layers(part *p, const char *name, const hb_mlp *mlp, int nlayers, size_t blocks, size_t *offset)
{
    for (int l = 0; l < nlayers; l++) {
        size_t nin = (size_t)mlp->width[l], nout = (size_t)mlp->width[l + 1];
        char layer[32];

        snprintf(layer, sizeof layer, "%s.%d", name, l);
        p = add_part(p, layer, "weight", blocks, nout, nin, *offset, mlp->nparameters);
        p = add_part(p, layer, "bias", blocks, nout, 0, *offset + nout * nin, mlp->nparameters);
        *offset += nout * (nin + 1);
    }
    return p;
}

/* The head: nb blocks of nx rows, then those of the average; all weights, then all biases. */
static part *add_head(part *p, const hb_model *m, size_t offset)
{
    size_t nb = (size_t)m->nb, nx = (size_t)m->nx, nin = (size_t)m->basis.width[m->basis.nlayers - 1];
    size_t rows = (size_t)m->basis.width[m->basis.nlayers], bias = offset + rows * nin;

    if (nb) {
        p = add_part(p, "head", "weight", nb, nx, nin, offset, nx * nin);
        p = add_part(p, "head", "bias", nb, nx, 0, bias, nx);
    }
    if (m->average == HB_AVERAGE_HEAD) {
        p = add_part(p, "average.head", "weight", 0, nx, nin, offset + nb * nx * nin, 0);
        p = add_part(p, "average.head", "bias", 0, nx, 0, bias + nb * nx, 0);
    }
    return p;
}

/* The parameter tensors of a model whose sizes are set; returns their number. */
static int list_parts(const hb_model *m, part parts[MAX_PARTS])
{
    size_t offset = 0;
    part *p = parts;

    if (m->architecture == HB_INDEPENDENT)
        p = add_layers(p, "basis", &m->basis, m->basis.nlayers, (size_t)m->nb, &offset);
    else if (m->basis.nlayers) {
        p = add_layers(p, "trunk", &m->basis, m->basis.nlayers - 1, 0, &offset);
        p = add_head(p, m, offset);
    }
    offset = m->nparameters - m->average_network.nparameters;
    p = add_layers(p, "average", &m->average_network, m->average_network.nlayers, 0, &offset);
    return (int)(p - parts);
}

/* --- loading --- */

/* Puts the file's name before a message that does not have it. */
static int in_file(const char *path, int r, hb_error *err)
{
    if (r && err) {
        hb_error cause = *err;
        hb_fail(err, cause.code, "%s: %.400s", path, cause.text);
    }
    return r;
}

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

static int load_scalars(const hb_safetensors *f, hb_model *shape, hb_error *err)
{
    for (int i = 0; i < NSCALARS; i++) {
        const char *key = scalars[i].key, *text;
        void *field = field_of(shape, scalars[i].field);
        double number = 0;
        int choice = 0, r = require_text(f, key, &text, err);

        if (r == 0 && scalars[i].kind == CHOICE)
            r = parse_choice(f, key, text, scalars[i].names, &choice, err);
        else if (r == 0 && !parse_number(text, &number))
            r = hb_fail(err, EINVAL, "%s: metadata '%s' is '%.60s', expected a number", f->path, key, text);
        else if (r == 0 && scalars[i].kind == COUNT && (number != floor(number) || fabs(number) > 1e6))
            r = hb_fail(err, EINVAL, "%s: metadata '%s' is '%.60s', expected a whole number", f->path, key, text);
        if (r)
            return r;

        if (scalars[i].kind == NUMBER)
            memcpy(field, &number, sizeof number);
        else {
            int whole = scalars[i].kind == CHOICE ? choice : (int)number;
            memcpy(field, &whole, sizeof whole);
        }
    }
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

/* Input states are given by name; *ret gets their indices in a new array. */
static int load_inputs(const hb_safetensors *f, hb_model *shape, char (*state_name)[HB_NAME_SIZE], hb_error *err)
{
    const char *list;
    int r = require_text(f, "inputs", &list, err);

    if (r)
        return r;
    shape->input = calloc((size_t)shape->nx + 1, sizeof *shape->input);
    if (!shape->input)
        return hb_fail(err, ENOMEM, "%s: out of memory", f->path);
    for (const char *item = *list ? list : NULL, *next; item; item = next) {
        size_t length;
        int index = 0;

        next = next_item(item, &length);
        while (index < shape->nx &&
               (strlen(state_name[index]) != length || memcmp(state_name[index], item, length) != 0))
            index++;
        if (index == shape->nx)
            return hb_fail(err, EINVAL, "%s: metadata 'inputs' names '%.*s', which is not one of the state_names",
                           f->path, length > 60 ? 60 : (int)length, item);
        if (shape->ninputs && index <= shape->input[shape->ninputs - 1])
            return hb_fail(err, EINVAL, "%s: metadata 'inputs' are not in the order of state_names at '%s'", f->path,
                           state_name[index]);
        shape->input[shape->ninputs++] = index;
    }
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
    for (const char *item = *list ? list : NULL, *next; item; item = next) {
        size_t length, name_length = strcspn(item, "=,");
        char number[HB_NUMBER_TEXT + 1] = "";
        int k = 0;

        next = next_item(item, &length);
        while (k < nominal->nparameters && (strlen(nominal->parameter_name[k]) != name_length ||
                                            memcmp(nominal->parameter_name[k], item, name_length) != 0))
            k++;
        if (k == nominal->nparameters)
            return hb_fail(err, EINVAL,
                           "%s: metadata 'nominal_parameters': the nominal model '%s' has no parameter '%.*s'", f->path,
                           nominal->name, name_length > 60 ? 60 : (int)name_length, item);
        if (given[k])
            return hb_fail(err, EINVAL, "%s: metadata 'nominal_parameters': '%s' is given twice", f->path,
                           nominal->parameter_name[k]);
        if (name_length < length && length - name_length - 1 < sizeof number)
            memcpy(number, item + name_length + 1, length - name_length - 1);
        if (!parse_number(number, &shape->nominal_parameter[k]))
            return hb_fail(err, EINVAL, "%s: metadata 'nominal_parameters': '%s' is not followed by = and a number",
                           f->path, nominal->parameter_name[k]);
        given[k] = true;
    }
    for (int k = 0; k < nominal->nparameters; k++)
        if (!given[k])
            return hb_fail(err, EINVAL, "%s: metadata 'nominal_parameters': '%s' is missing", f->path,
                           nominal->parameter_name[k]);
    return 0;
}

static int load_nominal(const hb_safetensors *f, hb_model *shape, hb_error *err)
{
    const char *name;

    if (shape->average != HB_AVERAGE_NOMINAL)
        return 0;
    int r = require_text(f, "nominal", &name, err);
    if (r)
        return r;
    shape->nominal = hb_nominal_find(name);
    if (!shape->nominal) {
        char allowed[200] = "";
        for (int i = 0; hb_nominal_at(i); i++) {
            size_t used = strlen(allowed);
            snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "", hb_nominal_at(i)->name);
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

/* A tensor or key that nothing asks for is a mistake that would otherwise pass unseen. */
static int check_nothing_else(const hb_safetensors *f, const hb_model *shape, const part *parts, int nparts,
                              hb_error *err)
{
    for (int i = 0; i < f->ntensors; i++) {
        const char *name = f->tensor[i].name;
        bool known = false;
        for (int k = 0; k < nparts && !known; k++)
            known = !strcmp(name, parts[k].name);
        for (int k = 0; k < NVECTORS && !known; k++)
            known = !strcmp(name, vectors[k].name) && count_of(shape, vectors[k].count);
        if (!known)
            return hb_fail(err, EINVAL,
                           "%s: tensor '%s' has no place in this model (architecture %s, average %s, %d "
                           "states, %d controls, %d basis functions of %d layers)",
                           f->path, name, hb_architecture_name[shape->architecture], hb_average_name[shape->average],
                           shape->nx, shape->nu, shape->nb, shape->basis.nlayers);
    }
    for (int i = 0; i < f->ntexts; i++) {
        const char *key = f->text[i].key;
        bool known = !strcmp(key, "format") || !strcmp(key, "inputs") || !strcmp(key, "notes");
        for (int k = 0; k < NSCALARS && !known; k++)
            known = !strcmp(key, scalars[k].key);
        for (int k = 0; k < NLISTS && !known; k++)
            known = !strcmp(key, lists[k].key) && count_of(shape, lists[k].count);
        if (!known && shape->nominal)
            known = !strcmp(key, "nominal") || !strcmp(key, "nominal_parameters");
        if (!known)
            return hb_fail(err, EINVAL, "%s: metadata '%s' is not known here; free text goes into 'notes'", f->path,
                           key);
    }
    return 0;
}

/* The tensor of that name, which must be there with that shape. */
static int require_tensor(const hb_safetensors *f, const char *name, int rank, const size_t *shape,
                          const hb_tensor **ret, hb_error *err)
{
    const hb_tensor *t = hb_safetensors_find(f, name);
    char found[HB_SHAPE_TEXT], expected[HB_SHAPE_TEXT];

    hb_tensor_shape_text(rank, shape, expected);
    if (!t)
        return hb_fail(err, EINVAL, "%s: tensor '%s' is missing, expected with shape %s", f->path, name, expected);
    if (t->rank != rank || memcmp(t->shape, shape, (size_t)rank * sizeof *shape) != 0)
        return hb_fail(err, EINVAL, "%s: tensor '%s': shape %s, expected %s", f->path, name,
                       hb_tensor_shape_text(t->rank, t->shape, found), expected);
    *ret = t;
    return 0;
}

static int check_shapes(const hb_safetensors *f, const hb_model *shape, const part *parts, int nparts, hb_error *err)
{
    const hb_tensor *t;
    int r = 0;

    for (int i = 0; i < NVECTORS && r == 0; i++) {
        size_t count = (size_t)count_of(shape, vectors[i].count);
        if (count)
            r = require_tensor(f, vectors[i].name, 1, &count, &t, err);
    }
    for (int i = 0; i < nparts && r == 0; i++)
        r = require_tensor(f, parts[i].name, parts[i].rank, parts[i].shape, &t, err);
    return r;
}

/* Reads the numbers; shapes are known to be right. */
static int load_tensors(const hb_safetensors *f, hb_model *m, const part *parts, int nparts, hb_error *err)
{
    hb_real *flat = malloc((m->nparameters + 1) * sizeof *flat);
    int r = flat ? 0 : hb_fail(err, ENOMEM, "%s: out of memory", f->path);

    for (int i = 0; i < NVECTORS && r == 0; i++)
        if (count_of(m, vectors[i].count))
            r = hb_safetensors_doubles(f, hb_safetensors_find(f, vectors[i].name),
                                       *(double **)field_of(m, vectors[i].field), err);
    for (int i = 0; i < nparts && r == 0; i++) {
        const part *p = &parts[i];
        r = hb_safetensors_reals(f, hb_safetensors_find(f, p->name), flat, err);
        for (size_t k = 0; k < p->blocks && r == 0; k++)
            memcpy(m->parameter + p->offset + k * p->stride, flat + k * p->length, p->length * sizeof *flat);
    }
    free(flat);
    return r;
}

/* Sizes and choices of the model in the file; shape->input and *names are allocated. */
static int load_shape(const hb_safetensors *f, hb_model *shape, char (**names)[HB_NAME_SIZE], hb_error *err)
{
    const char *format;
    int r = require_text(f, "format", &format, err);

    if (r == 0 && strcmp(format, format_name) != 0)
        r = hb_fail(err, EINVAL, "%s: metadata 'format' is '%.60s', expected '%s'", f->path, format, format_name);
    if (r == 0)
        r = load_scalars(f, shape, err);
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
        r = load_inputs(f, shape, *names, err);
    if (r == 0)
        r = load_nominal(f, shape, err);
    if (r == 0)
        r = load_networks(f, shape, err);
    return r ? r : in_file(f->path, hb_model_size(shape, err), err);
}

/* A new model of that shape with everything that the file says. */
static int load_model(hb_model **ret, const hb_safetensors *f, const hb_model *shape, hb_error *err)
{
    part parts[MAX_PARTS];
    int nparts = list_parts(shape, parts);
    hb_model *m = NULL;
    int r = check_nothing_else(f, shape, parts, nparts, err);

    if (r == 0)
        r = check_shapes(f, shape, parts, nparts, err);
    if (r == 0)
        r = in_file(f->path, hb_model_new(&m, shape, hb_safetensors_text(f, "notes"), err), err);
    for (int i = 0; i < NLISTS && r == 0; i++) {
        int n = count_of(m, lists[i].count);
        if (n)
            r = load_list(f, lists[i].key, n, lists[i].may_be_empty,
                          *(char(**)[HB_NAME_SIZE])field_of(m, lists[i].field), err);
    }
    if (r == 0)
        r = load_tensors(f, m, parts, nparts, err);
    if (r == 0)
        r = in_file(f->path, hb_model_check(m, err), err);
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
    int r = hb_safetensors_load(&f, path, err);

    if (r == 0)
        r = load_shape(f, &shape, &names, err);
    if (r == 0)
        r = load_model(ret, f, &shape, err);
    free(names);
    free(shape.input);
    hb_safetensors_free(f);
    return r;
}

/* --- saving --- */

/* Metadata in the making; values are allocated, a failed one is NULL. */
typedef struct texts {
    int n;
    hb_text item[NSCALARS + NLISTS + 5];
} texts;

static void add_text(texts *t, const char *key, char *value)
{
    t->item[t->n++] = (hb_text){key, value};
}

/* Items `index[0..n-1]` (NULL: 0..n-1) joined by commas. */
static char *join(int n, char (*name)[HB_NAME_SIZE], const int *index)
{
    char *text = calloc((size_t)n + 1, HB_NAME_SIZE + 1), *end = text;

    for (int i = 0; text && i < n; i++)
        end += sprintf(end, "%s%.*s", i ? "," : "", HB_NAME_SIZE - 1, name[index ? index[i] : i]);
    return text;
}

static char *nominal_parameters(const hb_model *m)
{
    char *text = NULL, number[HB_NUMBER_TEXT];
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    for (int i = 0; i < m->nominal->nparameters; i++)
        fprintf(out, "%s%s=%s", i ? "," : "", m->nominal->parameter_name[i],
                hb_number_text(m->nominal_parameter[i], number));
    return fclose(out) == 0 ? text : NULL;
}

static void describe(const hb_model *m, texts *t)
{
    char number[HB_NUMBER_TEXT];

    add_text(t, "format", strdup(format_name));
    for (int i = 0; i < NSCALARS; i++) {
        const void *field = field_of(m, scalars[i].field);
        if (scalars[i].kind == CHOICE)
            add_text(t, scalars[i].key, strdup(scalars[i].names[*(const int *)field]));
        else
            add_text(t, scalars[i].key,
                     strdup(hb_number_text(scalars[i].kind == COUNT ? *(const int *)field : *(const double *)field,
                                           number)));
    }
    for (int i = 0; i < NLISTS; i++) {
        int n = count_of(m, lists[i].count);
        if (n)
            add_text(t, lists[i].key, join(n, *(char(**)[HB_NAME_SIZE])field_of(m, lists[i].field), NULL));
    }
    add_text(t, "inputs", join(m->ninputs, m->state_name, m->input));
    if (m->nominal) {
        add_text(t, "nominal", strdup(m->nominal->name));
        add_text(t, "nominal_parameters", nominal_parameters(m));
    }
    add_text(t, "notes", strdup(m->notes));
}

/* Vectors as they are, parameters gathered into `flat`, in the order of the file; returns the number of tensors. */
static int list_tensors(const hb_model *m, const part *parts, int nparts, hb_real *flat, hb_tensor *tensor)
{
    int n = 0;

    for (int i = 0; i < NVECTORS; i++) {
        size_t count = (size_t)count_of(m, vectors[i].count);
        if (count)
            tensor[n++] = (hb_tensor){.name = vectors[i].name,
                                      .dtype = HB_F64,
                                      .rank = 1,
                                      .shape = {count},
                                      .data = *(double **)field_of(m, vectors[i].field)};
    }
    for (int i = 0; i < nparts; i++) {
        const part *p = &parts[i];
        hb_tensor *t = &tensor[n++];
        *t = (hb_tensor){.name = p->name, .dtype = HB_REAL_DTYPE, .rank = p->rank, .data = flat};
        memcpy(t->shape, p->shape, sizeof p->shape);
        for (size_t k = 0; k < p->blocks; k++, flat += p->length)
            memcpy(flat, m->parameter + p->offset + k * p->stride, p->length * sizeof *flat);
    }
    return n;
}

int hb_model_save(const hb_model *m, const char *path, hb_error *err)
{
    part parts[MAX_PARTS];
    hb_tensor tensor[MAX_PARTS + NVECTORS];
    texts t = {0};
    int r = in_file(path, hb_model_check(m, err), err);

    if (r)
        return r;
    hb_real *flat = malloc((m->nparameters + 1) * sizeof *flat);
    describe(m, &t);
    bool complete = flat;
    for (int i = 0; i < t.n; i++)
        complete = complete && t.item[i].value;

    if (!complete)
        r = hb_fail(err, ENOMEM, "%s: out of memory", path);
    else {
        int ntensors = list_tensors(m, parts, list_parts(m, parts), flat, tensor);
        hb_safetensors file = {.path = path, .ntensors = ntensors, .tensor = tensor, .ntexts = t.n, .text = t.item};
        r = hb_safetensors_save(&file, err);
    }
    for (int i = 0; i < t.n; i++)
        free((char *)(uintptr_t)t.item[i].value);
    free(flat);
    return r;
}
