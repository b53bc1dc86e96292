#include "data/log_map.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/yaml_file.h"

typedef struct reading {
    const char *path;
    yaml_document_t *document;
    hb_log_map *map;
    hb_error *err;
} reading;

static int wrong(const reading *r, const yaml_node_t *n, const char *what)
{
    /* what was found, as far as it is one printable word or line */
    const bool told = n->type == YAML_SCALAR_NODE && n->data.scalar.length > 0 && n->data.scalar.length < 40;
    bool plain = told;

    for (size_t i = 0; told && i < n->data.scalar.length; i++)
        plain = plain && n->data.scalar.value[i] >= 0x20 && n->data.scalar.value[i] != 0x7f;
    return hb_fail(r->err, EINVAL, "%s:%zu: %s%s%s%s", r->path, n->start_mark.line + 1, plain ? "'" : "",
                   plain ? (const char *)n->data.scalar.value : "", plain ? "': " : "", what);
}

static const yaml_node_t *node(const reading *r, int index)
{
    return yaml_document_get_node(r->document, index);
}

static int take_text(const reading *r, const yaml_node_t *n, char *ret, size_t size)
{
    if (n->type != YAML_SCALAR_NODE || n->data.scalar.length >= size)
        return wrong(r, n, "expected a text of one line, not as long");
    for (size_t i = 0; i < n->data.scalar.length; i++)
        if (n->data.scalar.value[i] < 0x20 || n->data.scalar.value[i] == 0x7f)
            return wrong(r, n, "a text has a control character");
    memcpy(ret, n->data.scalar.value, n->data.scalar.length);
    ret[n->data.scalar.length] = 0;
    return 0;
}

static int take_number(const reading *r, const yaml_node_t *n, double *ret)
{
    char text[64], *end;
    int status = take_text(r, n, text, sizeof text);

    if (status)
        return status;
    *ret = strtod(text, &end);
    return end == text || *end || !isfinite(*ret) ? wrong(r, n, "expected a number") : 0;
}

static int take_range(const reading *r, const yaml_node_t *n, double *low, double *high)
{
    const yaml_node_item_t *item = n->type == YAML_SEQUENCE_NODE ? n->data.sequence.items.start : NULL;
    int status;

    if (!item || n->data.sequence.items.top - item != 2)
        return wrong(r, n, "expected [LOW, HIGH]");
    if ((status = take_number(r, node(r, item[0]), low)) || (status = take_number(r, node(r, item[1]), high)))
        return status;
    return *low < *high ? 0 : wrong(r, n, "LOW must be below HIGH");
}

/* Calls `each` with every key and value of a mapping. */
static int for_pairs(reading *r, const yaml_node_t *n, void *context,
                     int (*each)(reading *r, void *context, const yaml_node_t *key, const yaml_node_t *value))
{
    int status = 0;

    if (n->type != YAML_MAPPING_NODE)
        return wrong(r, n, "expected {NAME: ..., ...}");
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; !status && p < n->data.mapping.pairs.top; p++)
        status = each(r, context, node(r, p->key), node(r, p->value));
    return status;
}

/* "NAME" or "NAME[UNIT]" */
static int add_signal(reading *r, void *context, const yaml_node_t *key, const yaml_node_t *value)
{
    int *count = context, n = r->map->nstates + r->map->ncontrols, status;
    hb_log_signal *s = &r->map->signal[n];
    char text[2 * HB_NAME_SIZE];

    if (n == HB_LOG_SIGNALS)
        return wrong(r, key, "too many states and controls");
    *s = (hb_log_signal){.low = -INFINITY, .high = INFINITY, .min = NAN, .max = NAN, .trim = NAN};
    if ((status = take_text(r, key, text, sizeof text)) || (status = take_text(r, value, s->text, sizeof s->text)))
        return status;
    size_t name = strcspn(text, "["), unit = text[name] ? strcspn(text + name + 1, "]") : 0;
    if (name == 0 || name >= HB_NAME_SIZE || unit >= HB_NAME_SIZE || strchr(text, ','))
        return wrong(r, key, "expected NAME or NAME[UNIT], of up to 31 characters each");
    if (text[name] && strcmp(text + name + 1 + unit, "]") != 0)
        return wrong(r, key, "expected NAME or NAME[UNIT]: its ] is missing, or not the last");
    s->line = (int)key->start_mark.line + 1;
    memcpy(s->name, text, name);
    memcpy(s->unit, text + name + 1, unit);
    for (int i = 0; i < n; i++)
        if (strcmp(r->map->signal[i].name, s->name) == 0)
            return wrong(r, key, "the name is given twice");
    (*count)++;
    return 0;
}

static int add_constant(reading *r, void *context, const yaml_node_t *key, const yaml_node_t *value)
{
    hb_log_map *m = r->map;
    hb_log_value *c = &m->constant[m->nconstants];
    int status;
    (void)context;

    if (m->nconstants == HB_LOG_PARAMETERS)
        return wrong(r, key, "too many constants");
    if ((status = take_text(r, key, c->name, sizeof c->name)) || (status = take_number(r, value, &c->value)))
        return status;
    m->nconstants++;
    return 0;
}

static int add_parameter(reading *r, void *context, const yaml_node_t *key, const yaml_node_t *value)
{
    hb_log_vehicle *v = context;
    int status;

    if (v->n == HB_LOG_PARAMETERS)
        return wrong(r, key, "too many parameters");
    if ((status = take_text(r, key, v->parameter[v->n].name, sizeof v->parameter[v->n].name)) ||
        (status = take_number(r, value, &v->parameter[v->n].value)))
        return status;
    v->n++;
    return 0;
}

static int add_vehicle(reading *r, void *context, const yaml_node_t *key, const yaml_node_t *value)
{
    hb_log_map *m = r->map;
    hb_log_vehicle *v = &m->vehicle[m->nvehicles];
    int status;
    (void)context;

    if (m->nvehicles == HB_LOG_VEHICLES)
        return wrong(r, key, "too many vehicles");
    if ((status = take_text(r, key, v->text, sizeof v->text)) || (status = for_pairs(r, value, v, add_parameter)))
        return status;
    m->nvehicles++;
    return 0;
}

static hb_log_signal *find_signal(reading *r, const yaml_node_t *key, bool control)
{
    hb_log_map *m = r->map;
    char name[HB_NAME_SIZE];

    if (take_text(r, key, name, sizeof name))
        return NULL;
    for (int i = control ? m->nstates : 0; i < m->nstates + m->ncontrols; i++)
        if (strcmp(m->signal[i].name, name) == 0)
            return &m->signal[i];
    wrong(r, key, control ? "there is no such control" : "there is no such state or control");
    return NULL;
}

static int set_limit(reading *r, void *context, const yaml_node_t *key, const yaml_node_t *value)
{
    hb_log_signal *s = find_signal(r, key, false);
    (void)context;
    return s ? take_range(r, value, &s->low, &s->high) : -EINVAL;
}

static int set_bound(reading *r, void *context, const yaml_node_t *key, const yaml_node_t *value)
{
    hb_log_signal *s = find_signal(r, key, true);
    (void)context;
    return s ? take_range(r, value, &s->min, &s->max) : -EINVAL;
}

static int set_trim(reading *r, void *context, const yaml_node_t *key, const yaml_node_t *value)
{
    hb_log_signal *s = find_signal(r, key, true);
    (void)context;
    return s ? take_number(r, value, &s->trim) : -EINVAL;
}

static int take_choice(const reading *r, const yaml_node_t *n, const char *const *name, int *ret)
{
    char text[32];
    int status = take_text(r, n, text, sizeof text);

    for (int i = 0; !status && name[i]; i++)
        if (strcmp(name[i], text) == 0) {
            *ret = i;
            return 0;
        }
    if (status)
        return status;
    char what[80] = "expected one of";
    for (int i = 0; name[i]; i++)
        snprintf(what + strlen(what), sizeof what - strlen(what), "%s %s", i ? "," : "", name[i]);
    return wrong(r, n, what);
}

static int take_time(const reading *r, const yaml_node_t *n, double *ret)
{
    int status = take_number(r, n, ret);
    return status ? status : *ret > 0 ? 0 : wrong(r, n, "expected seconds above 0");
}

static int take_key(reading *r, void *context, const yaml_node_t *key, const yaml_node_t *value)
{
    static const char *const functions[] = {"file", "folder", "one", NULL}, *const frames[] = {"body", "world", NULL},
                             *const yes[] = {"no", "yes", NULL};
    hb_log_map *m = r->map;
    char name[32];
    int status = take_text(r, key, name, sizeof name), choice = 0;
    (void)context;

    if (status)
        return status;
    if (!strcmp(name, "plant"))
        return take_text(r, value, m->plant, sizeof m->plant);
    if (!strcmp(name, "time"))
        m->time_line = (int)value->start_mark.line + 1;
    if (!strcmp(name, "where"))
        m->where_line = (int)value->start_mark.line + 1;
    if (!strcmp(name, "time"))
        return take_text(r, value, m->time, sizeof m->time);
    if (!strcmp(name, "where"))
        return take_text(r, value, m->where, sizeof m->where);
    if (!strcmp(name, "dt"))
        return take_time(r, value, &m->dt);
    if (!strcmp(name, "gap"))
        return take_time(r, value, &m->gap);
    if (!strcmp(name, "min_length"))
        return take_time(r, value, &m->min_length);
    if (!strcmp(name, "states"))
        return for_pairs(r, value, &m->nstates, add_signal);
    if (!strcmp(name, "controls"))
        return m->nstates ? for_pairs(r, value, &m->ncontrols, add_signal)
                          : wrong(r, key, "states come before controls");
    if (!strcmp(name, "constants"))
        return for_pairs(r, value, NULL, add_constant);
    if (!strcmp(name, "limits"))
        return for_pairs(r, value, NULL, set_limit);
    if (!strcmp(name, "bounds"))
        return for_pairs(r, value, NULL, set_bound);
    if (!strcmp(name, "trim"))
        return for_pairs(r, value, NULL, set_trim);
    if (!strcmp(name, "vehicles"))
        return for_pairs(r, value, NULL, add_vehicle);
    if (!strcmp(name, "functions")) {
        status = take_choice(r, value, functions, &choice);
        m->functions = (hb_log_functions)choice;
        return status;
    }
    if (!strcmp(name, "rates") || !strcmp(name, "causal")) {
        bool rates = !strcmp(name, "rates");
        status = take_choice(r, value, rates ? frames : yes, &choice);
        *(rates ? &m->world_rates : &m->causal) = choice == 1;
        return status;
    }
    return wrong(r, key,
                 "unknown key: expected plant, time, dt, gap, min_length, where, functions, rates, causal, states, "
                 "controls, constants, limits, bounds, trim or vehicles");
}

static int check(const reading *r)
{
    const hb_log_map *m = r->map;

    if (m->nstates == 0 || !m->time[0])
        return hb_fail(r->err, EINVAL, "%s: 'states' and 'time' are needed", r->path);
    return 0;
}

int hb_log_map_read(hb_log_map *ret, const char *path, hb_error *err)
{
    yaml_document_t document;
    hb_log_map map = {0};
    reading r = {.path = path, .document = &document, .map = &map, .err = err};
    int status = hb_yaml_file_load(&document, path, err);

    if (!status) {
        const yaml_node_t *root = yaml_document_get_root_node(&document);
        status = root ? for_pairs(&r, root, NULL, take_key) : hb_fail(err, EINVAL, "%s: is empty", path);
        if (!status)
            status = check(&r);
        yaml_document_delete(&document);
    }
    if (!status) {
        snprintf(map.path, sizeof map.path, "%s", path);
        *ret = map;
    }
    return status;
}
