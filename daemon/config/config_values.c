/* Values of a configuration: numbers, texts, choices, and lists of them. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "config/config_reader.h"

const char *hb_read_scalar(hb_config_reader *r, const yaml_node_t *node, const char *key, const char *expected)
{
    if (node->type != YAML_SCALAR_NODE) {
        HB_COMPLAIN(r, node, key, "%s where %s is expected", hb_kind_of(node), expected);
        return NULL;
    }
    if (strlen(hb_text_of(node)) != node->data.scalar.length) {
        HB_COMPLAIN(r, node, key, "contains a zero byte");
        return NULL;
    }
    return hb_text_of(node);
}

/* A number within the bounds of `row`. */
static bool number(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, bool whole, double *ret)
{
    const char *expected = whole ? "a whole number" : "a number";
    const char *text = hb_read_scalar(r, node, row->key, expected);
    char problem[64], *end;

    if (!text)
        return false;
    double v = strtod(text, &end);
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || !*text || *end || isspace((unsigned char)*text) ||
        strpbrk(text, "xXpP") || !isfinite(v) || (whole && v != floor(v))) {
        HB_COMPLAIN(r, node, row->key, "'%.60s' is not %s", text, expected);
        return false;
    }
    if (!hb_setting_within(row, v, problem)) {
        HB_COMPLAIN(r, node, row->key, "%.60s is %s", text, problem);
        return false;
    }
    *ret = v;
    return true;
}

void hb_read_int(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, void *to)
{
    double v;

    if (number(r, node, row, true, &v))
        *(int *)to = (int)v;
}

void hb_read_real(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, void *to)
{
    double v;

    if (number(r, node, row, false, &v))
        *(double *)to = v;
}

void hb_read_octal(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, void *to)
{
    const char *text = hb_read_scalar(r, node, row->key, "octal permissions");
    char *end;

    if (!text)
        return;
    long v = strtol(text, &end, 8);
    if (!isdigit((unsigned char)*text) || *end || v < (long)row->min || v > (long)row->max)
        HB_COMPLAIN(r, node, row->key, "'%.60s' is not octal permissions like 0660", text);
    else
        *(int *)to = (int)v;
}

void hb_read_seed(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, void *to)
{
    const char *text = hb_read_scalar(r, node, row->key, "a whole number");
    char *end;

    if (!text)
        return;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno)
        HB_COMPLAIN(r, node, row->key, "'%.60s' is not a whole number from 0 to 18446744073709551615", text);
    else
        *(uint64_t *)to = v;
}

void hb_read_bool(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, void *to)
{
    const char *text = hb_read_scalar(r, node, row->key, "true or false");

    if (!text)
        return;
    if (strcmp(text, "true") && strcmp(text, "false"))
        HB_COMPLAIN(r, node, row->key, "'%.60s' is neither true nor false", text);
    else
        *(bool *)to = *text == 't';
}

void hb_read_choice(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, void *to)
{
    const char *text = hb_read_scalar(r, node, row->key, "a word");
    char all[200] = "";

    if (!text)
        return;
    for (int i = 0; i < row->nchoices; i++) {
        if (strcmp(text, row->choices[i]) == 0) {
            *(int *)to = i;
            return;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", row->choices[i]);
    }
    const char *near = hb_config_near(text, row->choices, row->nchoices);
    if (near)
        HB_COMPLAIN(r, node, row->key, "'%.60s' is none of %s: did you mean %s?", text, all, near);
    else
        HB_COMPLAIN(r, node, row->key, "'%.60s' is none of %s", text, all);
}

static bool has_control_character(const char *text)
{
    for (const char *s = text; *s; s++)
        if (hb_config_control_character(s))
            return true;
    return false;
}

void hb_read_text(hb_config_reader *r, const yaml_node_t *node, const char *key, char *to, size_t size)
{
    const char *text = hb_read_scalar(r, node, key, "text");

    if (!text)
        return;
    if (strlen(text) >= size)
        HB_COMPLAIN(r, node, key, "%zu characters where at most %zu fit", strlen(text), size - 1);
    else if (has_control_character(text))
        HB_COMPLAIN(r, node, key, "contains a control character");
    else
        strcpy(to, hb_is_empty(node) ? "" : text);
}

int hb_read_list(hb_config_reader *r, yaml_node_t *node, const char *key, int max, yaml_node_t **items)
{
    if (hb_is_empty(node))
        return 0;
    if (node->type == YAML_SCALAR_NODE) {
        items[0] = node;
        return 1;
    }
    if (node->type != YAML_SEQUENCE_NODE) {
        HB_COMPLAIN(r, node, key, "%s where a list is expected", hb_kind_of(node));
        return -1;
    }
    ptrdiff_t n = node->data.sequence.items.top - node->data.sequence.items.start;
    if (n > max) {
        HB_COMPLAIN(r, node, key, "a list of %td where at most %d are possible", n, max);
        return -1;
    }
    for (ptrdiff_t i = 0; i < n; i++)
        items[i] = yaml_document_get_node(r->document, node->data.sequence.items.start[i]);
    return (int)n;
}

void hb_read_endpoints(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    hb_endpoints *e = to;
    yaml_node_t *item[HB_MAX_ENDPOINTS];
    int n = hb_read_list(r, node, row->key, HB_MAX_ENDPOINTS, item);

    if (n < 0)
        return;
    if (n < (int)row->min)
        HB_COMPLAIN(r, node, row->key, "at least one endpoint is needed");
    e->n = n;
    for (int i = 0; i < n; i++) {
        *e->at[i] = 0;
        hb_read_text(r, item[i], row->key, e->at[i], sizeof e->at[i]);
        if (*e->at[i] && strncmp(e->at[i], "ipc://", 6) && strncmp(e->at[i], "tcp://", 6))
            HB_COMPLAIN(r, item[i], row->key,
                        "'%s' is not an endpoint like ipc:///run/hilbertd/actions or tcp://127.0.0.1:7000", e->at[i]);
        if (!strncmp(e->at[i], "ipc://@", 7))
            HB_COMPLAIN(r, item[i], row->key,
                        "'%s' is an abstract socket, which has no permissions: any user could come in; name a path",
                        e->at[i]);
        /* sun_path has room for 107 characters */
        if (!strncmp(e->at[i], "ipc://", 6) && strlen(e->at[i]) - 6 > 107)
            HB_COMPLAIN(r, item[i], row->key, "a socket's path has at most 107 characters, this one has %zu",
                        strlen(e->at[i]) - 6);
    }
}

void hb_read_paths(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    hb_paths *p = to;
    yaml_node_t *item[HB_MAX_KEYS];
    int n = hb_read_list(r, node, row->key, HB_MAX_KEYS, item);

    if (n < 0)
        return;
    p->n = n;
    for (int i = 0; i < n; i++)
        hb_read_text(r, item[i], row->key, p->at[i], sizeof p->at[i]);
}

void hb_read_cpus(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    hb_cpus *p = to;
    yaml_node_t *item[HB_MAX_CPUS];
    int n = hb_read_list(r, node, row->key, HB_MAX_CPUS, item);

    if (n < 0)
        return;
    p->n = n;
    for (int i = 0; i < n; i++)
        hb_read_int(r, item[i], row, &p->at[i]);
}

/* [1, 2, 3], or {name: 1, ...} */
void hb_read_values(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    const hb_setting each = {.key = row->key, .min = -1e12, .max = 1e12};
    yaml_node_t *item[HB_MAX_VEHICLE_STATES];
    hb_values *v = to;

    if (node->type != YAML_MAPPING_NODE) {
        int n = hb_read_list(r, node, row->key, (int)row->max, item);
        if (n < 0)
            return;
        *v = (hb_values){.n = n};
        for (int i = 0; i < n; i++)
            hb_read_real(r, item[i], &each, &v->value[i]);
        return;
    }
    *v = (hb_values){0};
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        yaml_node_t *name = yaml_document_get_node(r->document, p->key);
        yaml_node_t *value = yaml_document_get_node(r->document, p->value);
        if (v->n == (int)row->max) {
            HB_COMPLAIN(r, name, row->key, "more than %d names", (int)row->max);
            return;
        }
        hb_read_text(r, name, row->key, v->name[v->n], HB_NAME_SIZE);
        hb_read_real(r, value, &each, &v->value[v->n]);
        for (int i = 0; i < v->n; i++)
            if (strcmp(v->name[i], v->name[v->n]) == 0)
                HB_COMPLAIN(r, name, row->key, "'%s' is given twice", v->name[i]);
        v->n++;
    }
}

/* planner.directions: rows of one length, which must be the model's number of controls. */
void hb_read_matrix(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    const hb_setting each = {.key = row->key, .min = -1e12, .max = 1e12};
    yaml_node_t *line[HB_MAX_CONTROLS], *item[HB_MAX_CONTROLS];
    hb_planner_settings *p = &r->c->controller.planner;
    double *m = to;
    int width = 0;
    int n = hb_read_list(r, node, row->key, HB_MAX_CONTROLS, line);

    if (n < 0)
        return;
    for (int i = 0; i < n; i++) {
        int w = hb_read_list(r, line[i], row->key, HB_MAX_CONTROLS, item);
        if (w < 0)
            return;
        if (i && w != width) {
            HB_COMPLAIN(r, line[i], row->key, "a direction of %d controls after one of %d", w, width);
            return;
        }
        width = w;
        for (int j = 0; j < w; j++)
            hb_read_real(r, item[j], &each, &m[i * w + j]);
    }
    p->ndirections = n;
    r->c->direction_width = width;
}
