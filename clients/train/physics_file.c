#include "train/physics_file.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/yaml_file.h"
#include "base/batch.h"

typedef struct reader {
    const char *path;
    const hb_dataset_header *header;
    yaml_document_t document;
    int nparameters;
    char parameter[HB_NOMINAL_PARAMETERS][HB_NAME_SIZE];
    double value[HB_NOMINAL_PARAMETERS];
    int nlines;
    const yaml_node_t *line[HB_PHYSICS_LINES]; /* where each line of the text came from */
    char text[HB_PHYSICS_TEXT];
    hb_error *err;
} reader;

static int complain(const reader *r, const yaml_node_t *node, int column, const char *key, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* column: characters from the first of the node's text */
static int complain(const reader *r, const yaml_node_t *node, int column, const char *key, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!node)
        return hb_fail(r->err, EINVAL, "%s: %s", r->path, text);
    /* only in a text of one line are its places those of the file */
    if (node->type != YAML_SCALAR_NODE || node->start_mark.line != node->end_mark.line)
        column = 0;
    else if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        column++; /* the quotation mark */
    return hb_fail(r->err, EINVAL, "%s:%zu:%zu: %s%s%s", r->path, node->start_mark.line + 1,
                   node->start_mark.column + (size_t)column + 1, key ? key : "", key ? ": " : "", text);
}

static const yaml_node_t *node_at(reader *r, int index)
{
    return yaml_document_get_node(&r->document, index);
}

/* A scalar's text, or NULL with a complaint. */
static const char *text_of(const reader *r, const yaml_node_t *node, const char *key)
{
    if (node->type != YAML_SCALAR_NODE) {
        complain(r, node, 0, key, "%s where text is expected",
                 node->type == YAML_MAPPING_NODE ? "a mapping" : "a list");
        return NULL;
    }
    if (strlen((const char *)node->data.scalar.value) != node->data.scalar.length) {
        complain(r, node, 0, key, "contains a zero byte");
        return NULL;
    }
    return (const char *)node->data.scalar.value;
}

static int find(int n, char (*names)[HB_NAME_SIZE], const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static char *list_of(int n, char (*names)[HB_NAME_SIZE], char *text, size_t size)
{
    *text = 0;
    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), size - strlen(text), "%s%s", i ? ", " : "", names[i]);
    return text;
}

/* states or controls: all of the data's, each once, with the same units where both have them */
static int read_names(reader *r, const yaml_node_t *node, const char *what, int n, char (*names)[HB_NAME_SIZE],
                      char (*units)[HB_NAME_SIZE])
{
    const bool mapping = node->type == YAML_MAPPING_NODE;
    bool *seen = calloc((size_t)n + 1, sizeof *seen);
    char known[300];
    int status = 0;

    if (!seen)
        return hb_fail(r->err, ENOMEM, "out of memory");
    if (!mapping && node->type != YAML_SEQUENCE_NODE)
        status = complain(r, node, 0, what, "one value where names are expected: {name: unit, ...} or [name, ...]");
    const ptrdiff_t count = status    ? 0
                            : mapping ? node->data.mapping.pairs.top - node->data.mapping.pairs.start
                                      : node->data.sequence.items.top - node->data.sequence.items.start;
    for (ptrdiff_t i = 0; i < count && !status; i++) {
        const yaml_node_t *key =
            node_at(r, mapping ? node->data.mapping.pairs.start[i].key : node->data.sequence.items.start[i]);
        const char *name = text_of(r, key, what);
        if (!name) {
            status = -EINVAL;
            break;
        }
        const int k = find(n, names, name);
        if (k < 0)
            status = complain(r, key, 0, what, "the data have no '%.60s', only: %s", name,
                              list_of(n, names, known, sizeof known));
        else if (seen[k])
            status = complain(r, key, 0, what, "'%s' is given twice", name);
        else if (mapping) {
            const yaml_node_t *value = node_at(r, node->data.mapping.pairs.start[i].value);
            const char *unit = text_of(r, value, what);
            if (!unit)
                status = -EINVAL;
            else if (*unit && *units[k] && strcmp(unit, units[k]) != 0)
                status =
                    complain(r, value, 0, what, "%s is in '%.40s' here and in '%s' in the data", name, unit, units[k]);
        }
        if (!status)
            seen[k] = true;
    }
    for (int k = 0; k < n && !status; k++)
        if (!seen[k])
            status = complain(r, node, 0, what, "'%s' of the data is missing", names[k]);
    free(seen);
    return status;
}

/* "1.5" or "1.5 kg" */
static int read_parameters(reader *r, const yaml_node_t *node)
{
    if (node->type != YAML_MAPPING_NODE)
        return complain(r, node, 0, "parameters", "values by name are expected: {mass: 1.5 kg, ...}");
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = node_at(r, p->key), *value = node_at(r, p->value);
        const char *name = text_of(r, key, "parameters"), *text = name ? text_of(r, value, name) : NULL;
        char *end;

        if (!text)
            return -EINVAL;
        if (r->nparameters == HB_NOMINAL_PARAMETERS)
            return complain(r, key, 0, "parameters", "more than %d", HB_NOMINAL_PARAMETERS);
        if (strlen(name) >= HB_NAME_SIZE)
            return complain(r, key, 0, "parameters", "a name of %zu characters: at most %d fit", strlen(name),
                            HB_NAME_SIZE - 1);
        if (find(r->nparameters, r->parameter, name) >= 0)
            return complain(r, key, 0, "parameters", "'%s' is given twice", name);
        const double number = strtod(text, &end);
        if (end == text || strpbrk(text, "xX") == text + 1 || !isfinite(number) ||
            (*end && !isspace((unsigned char)*end)))
            return complain(r, value, 0, name, "'%.60s' is not a number, with or without a unit: 1.5 kg", text);
        strcpy(r->parameter[r->nparameters], name);
        r->value[r->nparameters++] = number;
    }
    return 0;
}

/* Appends "name = text" or "name' = text" to the text that is compiled. */
static int read_expressions(reader *r, const yaml_node_t *node)
{
    if (node->type != YAML_MAPPING_NODE)
        return complain(r, node, 0, "expressions", "expressions by name are expected: {v: force / mass, ...}");
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = node_at(r, p->key), *value = node_at(r, p->value);
        const char *name = text_of(r, key, "expressions"), *text = name ? text_of(r, value, name) : NULL;
        const size_t used = strlen(r->text);

        if (!text)
            return -EINVAL;
        if (r->nlines == HB_PHYSICS_LINES)
            return complain(r, key, 0, "expressions", "more than %d", HB_PHYSICS_LINES);
        if (strpbrk(name, "\n='") || !*name || strlen(name) >= HB_NAME_SIZE)
            return complain(r, key, 0, "expressions", "'%.60s' is not a name of at most %d letters, digits and '_'",
                            name, HB_NAME_SIZE - 1);
        const char *prime = find(r->header->nx, r->header->state_name, name) >= 0 ? "'" : "";
        if (used + strlen(name) + strlen(text) + sizeof "' = \n" > sizeof r->text)
            return complain(r, key, 0, "expressions", "more than %zu bytes together", sizeof r->text);
        snprintf(r->text + used, sizeof r->text - used, "%s%s = %s", name, prime, text);
        for (char *c = r->text + used; *c; c++)
            if (*c == '\n' || *c == '\r')
                *c = ' ';
        strcat(r->text, "\n");
        r->line[r->nlines++] = value;
    }
    return 0;
}

static int read_sections(reader *r)
{
    const yaml_node_t *root = yaml_document_get_root_node(&r->document);
    const hb_dataset_header *h = r->header;
    int status = 0;

    if (!root || root->type != YAML_MAPPING_NODE)
        return complain(r, root, 0, NULL, "expected states, controls, parameters and expressions");
    for (const yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top && !status; p++) {
        const yaml_node_t *key = node_at(r, p->key), *value = node_at(r, p->value);
        const char *name = text_of(r, key, NULL);

        if (!name)
            status = -EINVAL;
        else if (strcmp(name, "states") == 0)
            status = read_names(r, value, name, h->nx, h->state_name, h->state_unit);
        else if (strcmp(name, "controls") == 0)
            status = read_names(r, value, name, h->nu, h->control_name, h->control_unit);
        else if (strcmp(name, "parameters") == 0)
            status = read_parameters(r, value);
        else if (strcmp(name, "expressions") == 0)
            status = read_expressions(r, value);
        else
            status = complain(r, key, 0, NULL, "'%.60s' is none of states, controls, parameters and expressions", name);
    }
    if (!status && r->nlines == 0)
        return complain(r, root, 0, NULL, "there are no expressions");
    return status;
}

/* name=value,... in the place of the file's */
static int change_parameters(reader *r, const char *list)
{
    char copy[1024], *save = NULL;

    if (strlen(list) >= sizeof copy)
        return hb_fail(r->err, EINVAL, "average: parameters of %zu characters: at most %zu fit", strlen(list),
                       sizeof copy - 1);
    strcpy(copy, list);
    for (char *item = strtok_r(copy, ", ", &save); item; item = strtok_r(NULL, ", ", &save)) {
        char *equals = strchr(item, '='), *end = NULL;
        if (equals)
            *equals = 0;
        const int k = equals ? find(r->nparameters, r->parameter, item) : -1;
        const double value = equals ? strtod(equals + 1, &end) : 0;
        if (k < 0 || end == equals + 1 || *end || !isfinite(value))
            return hb_fail(r->err, EINVAL, "average: '%s%s%s' is not a parameter=value of %s", item, equals ? "=" : "",
                           equals ? equals + 1 : "", r->path);
        r->value[k] = value;
    }
    return 0;
}

/* --- the data --- */

/* Which line is the rate of a state. */
static const yaml_node_t *line_of(const reader *r, const char *state)
{
    const char *at = r->text;
    const size_t n = strlen(state);

    for (int i = 0; i < r->nlines; i++, at = strchr(at, '\n') + 1)
        if (strncmp(at, state, n) == 0 && strncmp(at + n, "' =", 3) == 0)
            return r->line[i];
    return NULL;
}

static int not_finite(const reader *r, int state, bool derivative, const double *x, const double *u)
{
    const hb_dataset_header *h = r->header;
    char at[300] = "";

    for (int i = 0; i < h->nx + h->nu; i++)
        snprintf(at + strlen(at), sizeof at - strlen(at), "%s%s %g", i ? ", " : "",
                 i < h->nx ? h->state_name[i] : h->control_name[i - h->nx], i < h->nx ? x[i] : u[i - h->nx]);
    return complain(r, line_of(r, h->state_name[state]), 0, h->state_name[state],
                    "%s not finite at a sample of the data: %s", derivative ? "its derivatives are" : "it is", at);
}

/* n samples as rows; the padding repeats the last */
static void gather(int n, int rows, const double *const *sample, hb_real *to)
{
    for (int i = 0; i < rows; i++)
        for (int s = 0; s < hb_padded(n); s++)
            to[i * HB_STRIDE + s] = (hb_real)sample[s < n ? s : n - 1][i];
}

typedef struct block {
    int n;
    const double *x[HB_STRIDE], *u[HB_STRIDE];
    hb_real *state, *control, *rate, *given, *dx, *du, *scratch;
} block;

static int check_block(const reader *r, const hb_nominal *m, block *b)
{
    gather(b->n, m->nx, b->x, b->state);
    gather(b->n, m->nu, b->u, b->control);
    m->field(m, r->value, b->n, b->state, b->control, b->rate, b->scratch);
    for (int i = 0; i < m->nx; i++)
        for (int s = 0; s < b->n; s++)
            if (!isfinite(b->rate[i * HB_STRIDE + s]))
                return not_finite(r, i, false, b->x[s], b->u[s]);
    /* one rate at a time: who is to blame */
    for (int k = 0; k < m->nx; k++) {
        memset(b->given, 0, (size_t)m->nx * HB_STRIDE * sizeof *b->given);
        for (int s = 0; s < HB_STRIDE; s++)
            b->given[k * HB_STRIDE + s] = 1;
        m->adjoint(m, r->value, b->n, b->state, b->control, b->given, b->dx, b->du, b->scratch);
        for (int i = 0; i < m->nx + m->nu; i++)
            for (int s = 0; s < b->n; s++)
                if (!isfinite(i < m->nx ? b->dx[i * HB_STRIDE + s] : b->du[(i - m->nx) * HB_STRIDE + s]))
                    return not_finite(r, k, true, b->x[s], b->u[s]);
    }
    b->n = 0;
    return 0;
}

static int check_data(const reader *r, const hb_nominal *m, const hb_dataset *d)
{
    enum { SAMPLES = 20000 }; /* more of a data set would take longer than they tell */
    const size_t nx = (size_t)m->nx, nu = (size_t)m->nu, every = d->ntransitions / SAMPLES + 1;
    const size_t rows = 4 * nx + 2 * nu + (size_t)m->rows + 1;
    hb_arena arena = {0};
    int status;

    hb_arena_take(&arena, rows * HB_STRIDE, sizeof(hb_real));
    if ((status = hb_arena_allocate(&arena, r->err)))
        return status;
    block b = {.state = hb_arena_take(&arena, rows * HB_STRIDE, sizeof(hb_real))};
    b.rate = b.state + nx * HB_STRIDE;
    b.given = b.rate + nx * HB_STRIDE;
    b.dx = b.given + nx * HB_STRIDE;
    b.control = b.dx + nx * HB_STRIDE;
    b.du = b.control + nu * HB_STRIDE;
    b.scratch = b.du + nu * HB_STRIDE;
    size_t count = 0;
    for (int f = 0; f < d->nfunctions && !status; f++)
        for (size_t i = 0; i < d->function[f].ntransitions && !status; i++, count++) {
            hb_transition t;
            if (count % every)
                continue;
            hb_dataset_transition(d, f, i, &t, NULL);
            b.x[b.n] = t.x;
            b.u[b.n] = t.u;
            if (++b.n == HB_STRIDE)
                status = check_block(r, m, &b);
        }
    if (!status && b.n)
        status = check_block(r, m, &b);
    free(arena.base);
    return status;
}

/* --- all of it --- */

static int compile(reader *r, hb_physics **ret)
{
    const hb_physics_source source = {.nx = r->header->nx,
                                      .nu = r->header->nu,
                                      .state = r->header->state_name,
                                      .control = r->header->control_name,
                                      .nparameters = r->nparameters,
                                      .parameter = r->parameter,
                                      .value = r->value,
                                      .text = r->text};
    hb_physics_place place;
    hb_error err = {0};

    if (hb_physics_new(ret, &source, &place, &err) == 0)
        return 0;
    if (place.line < 0 || place.line >= r->nlines)
        return complain(r, yaml_document_get_root_node(&r->document), 0, NULL, "%s", err.text);
    return complain(r, r->line[place.line], place.column, place.name, "%s", err.text);
}

static int read_file(reader *r, const char *parameters, const hb_dataset *d, hb_physics **ret)
{
    hb_physics *physics = NULL;
    int status = hb_yaml_file_load(&r->document, r->path, r->err);

    if (!status) {
        status = read_sections(r);
        if (!status && parameters)
            status = change_parameters(r, parameters);
        if (!status)
            status = compile(r, &physics);
        if (!status)
            status = check_data(r, hb_physics_nominal(physics), d);
        yaml_document_delete(&r->document);
    }
    if (status)
        hb_physics_free(physics);
    else
        *ret = physics;
    return status;
}

int hb_physics_file_read(hb_physics **ret, const char *path, const char *parameters, const hb_dataset *d, hb_error *err)
{
    reader *r = calloc(1, sizeof *r);
    int status;

    if (!r)
        return hb_fail(err, ENOMEM, "out of memory");
    *r = (reader){.path = path, .header = &d->header, .err = err};
    status = read_file(r, parameters, d, ret);
    free(r);
    return status;
}
