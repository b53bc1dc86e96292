/* YAML -> hb_config, driven by the table. The whole file is read even after an error, so that one run tells them all.
 */
#include "config/config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yaml.h>

#include "config/config_terms.h"

enum { MAX_FILE = 1 << 20, MAX_LINE = 512 };

/* ---- errors ---- */

static void write_line(char text[512], const hb_config *c, hb_mark mark, const char *key, const char *format,
                       va_list args)
{
    size_t size = 512;
    int n = mark.line ? snprintf(text, size, "%s:%d:%d: ", c->file, mark.line, mark.column)
                      : snprintf(text, size, "%s: ", c->file);
    if (key && *key && n >= 0 && (size_t)n < size)
        n += snprintf(text + n, size - (size_t)n, mark.line ? "%s: " : "%s (default): ", key);
    if (n >= 0 && (size_t)n < size)
        vsnprintf(text + n, size - (size_t)n, format, args);
}

void hb_config_error(hb_config_errors *errors, const hb_config *c, hb_mark mark, const char *key, const char *format,
                     ...)
{
    va_list args;

    if (errors->n++ >= HB_CONFIG_ERRORS)
        return;
    va_start(args, format);
    write_line(errors->text[errors->n - 1], c, mark, key, format, args);
    va_end(args);
}

void hb_config_warn(hb_config *c, hb_mark mark, const char *key, const char *format, ...)
{
    hb_config_warnings *w = &c->warnings;
    va_list args;

    if (w->n == (int)(sizeof w->text / sizeof *w->text))
        return;
    va_start(args, format);
    write_line(w->text[w->n], c, mark, key, format, args);
    va_end(args);
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->text[i], w->text[w->n]) == 0)
            return;
    w->n++;
}

void hb_config_error_of(hb_config_errors *errors, const hb_config *c, const hb_error *err)
{
    size_t n = strspn(err->text, "abcdefghijklmnopqrstuvwxyz_.");
    char key[64];

    snprintf(key, sizeof key, "%.*s", (int)n, err->text);
    int i = hb_config_find(key);
    if (i < 0)
        hb_config_error(errors, c, (hb_mark){0}, NULL, "%s", err->text);
    else
        hb_config_error(errors, c, c->mark[i], key, "%s", err->text + n + strspn(err->text + n, ": "));
}

/* Edits (insertions, deletions, replacements, swaps of neighbours) from a to b. */
static int distance(const char *a, const char *b)
{
    int na = (int)strlen(a), nb = (int)strlen(b);
    int row[3][64] = {0}; /* the last three rows of the table of prefixes */

    if (na > 62 || nb > 62)
        return INT_MAX;
    for (int j = 0; j <= nb; j++)
        row[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = up[j - 1] + (a[i - 1] != b[j - 1]);
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            best = up[j] + 1 < best ? up[j] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[na % 3][nb];
}

const char *hb_config_near(const char *wrong, const char *const *names, int n)
{
    int best = 1 + (int)strlen(wrong) / 3; /* further away is another word */
    const char *found = NULL;

    for (int i = 0; i < n; i++) {
        int d = distance(wrong, names[i]);
        if (d <= best && (!found || d < best)) {
            best = d;
            found = names[i];
        }
    }
    return found;
}

/* ---- the reader ---- */

typedef struct reader {
    hb_config *c;
    hb_config_errors *errors;
    yaml_document_t *document;
    bool seen[HB_CONFIG_ROWS];
    hb_mark section[HB_CONFIG_ROWS]; /* where the section of each row began */
} reader;

static hb_mark mark_of(const yaml_node_t *node)
{
    return (hb_mark){(int)node->start_mark.line + 1, (int)node->start_mark.column + 1};
}

#define COMPLAIN(r, node, key, ...) hb_config_error((r)->errors, (r)->c, mark_of(node), key, __VA_ARGS__)

static const char *text_of(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

static const char *kind_of(const yaml_node_t *node)
{
    return node->type == YAML_MAPPING_NODE ? "a mapping" : node->type == YAML_SEQUENCE_NODE ? "a list" : "one value";
}

static bool is_empty(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*text_of(node) || !strcmp(text_of(node), "~") || !strcmp(text_of(node), "null"));
}

/* A scalar's text, or NULL with a complaint. */
static const char *scalar(reader *r, const yaml_node_t *node, const char *key, const char *expected)
{
    if (node->type != YAML_SCALAR_NODE) {
        COMPLAIN(r, node, key, "%s where %s is expected", kind_of(node), expected);
        return NULL;
    }
    if (strlen(text_of(node)) != node->data.scalar.length) {
        COMPLAIN(r, node, key, "contains a zero byte");
        return NULL;
    }
    return text_of(node);
}

/* A number within the bounds of `row`. */
static bool number(reader *r, const yaml_node_t *node, const hb_setting *row, bool whole, double *ret)
{
    const char *expected = whole ? "a whole number" : "a number";
    const char *text = scalar(r, node, row->key, expected);
    char problem[64], *end;

    if (!text)
        return false;
    double v = strtod(text, &end);
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || !*text || *end || isspace((unsigned char)*text) ||
        strpbrk(text, "xXpP") || !isfinite(v) || (whole && v != floor(v))) {
        COMPLAIN(r, node, row->key, "'%.60s' is not %s", text, expected);
        return false;
    }
    if (!hb_setting_within(row, v, problem)) {
        COMPLAIN(r, node, row->key, "%.60s is %s", text, problem);
        return false;
    }
    *ret = v;
    return true;
}

static void read_int(reader *r, const yaml_node_t *node, const hb_setting *row, void *to)
{
    double v;

    if (number(r, node, row, true, &v))
        *(int *)to = (int)v;
}

static void read_real(reader *r, const yaml_node_t *node, const hb_setting *row, void *to)
{
    double v;

    if (number(r, node, row, false, &v))
        *(double *)to = v;
}

static void read_octal(reader *r, const yaml_node_t *node, const hb_setting *row, void *to)
{
    const char *text = scalar(r, node, row->key, "octal permissions");
    char *end;

    if (!text)
        return;
    long v = strtol(text, &end, 8);
    if (!isdigit((unsigned char)*text) || *end || v < (long)row->min || v > (long)row->max)
        COMPLAIN(r, node, row->key, "'%.60s' is not octal permissions like 0660", text);
    else
        *(int *)to = (int)v;
}

static void read_seed(reader *r, const yaml_node_t *node, const hb_setting *row, void *to)
{
    const char *text = scalar(r, node, row->key, "a whole number");
    char *end;

    if (!text)
        return;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno)
        COMPLAIN(r, node, row->key, "'%.60s' is not a whole number from 0 to 18446744073709551615", text);
    else
        *(uint64_t *)to = v;
}

static void read_bool(reader *r, const yaml_node_t *node, const hb_setting *row, void *to)
{
    const char *text = scalar(r, node, row->key, "true or false");

    if (!text)
        return;
    if (strcmp(text, "true") && strcmp(text, "false"))
        COMPLAIN(r, node, row->key, "'%.60s' is neither true nor false", text);
    else
        *(bool *)to = *text == 't';
}

static void read_choice(reader *r, const yaml_node_t *node, const hb_setting *row, void *to)
{
    const char *text = scalar(r, node, row->key, "a word");
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
    for (const hb_alias *a = row->aliases; a && a->old; a++)
        for (int i = 0; i < row->nchoices; i++)
            if (strcmp(text, a->old) == 0 && strcmp(a->now, row->choices[i]) == 0) {
                hb_config_warn(r->c, mark_of(node), row->key, "'%s' is the old name of %s, which is in force", a->old,
                               a->now);
                *(int *)to = i;
                return;
            }
    const char *near = hb_config_near(text, row->choices, row->nchoices);
    if (near)
        COMPLAIN(r, node, row->key, "'%.60s' is none of %s: did you mean %s?", text, all, near);
    else
        COMPLAIN(r, node, row->key, "'%.60s' is none of %s", text, all);
}

/* Those of ASCII, and U+0080 to U+009F, which terminals obey as well. */
static bool has_control_character(const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s; s++)
        if (*s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0))
            return true;
    return false;
}

static void copy_text(reader *r, const yaml_node_t *node, const char *key, char *to, size_t size)
{
    const char *text = scalar(r, node, key, "text");

    if (!text)
        return;
    if (strlen(text) >= size)
        COMPLAIN(r, node, key, "%zu characters where at most %zu fit", strlen(text), size - 1);
    else if (has_control_character(text))
        COMPLAIN(r, node, key, "contains a control character");
    else
        strcpy(to, is_empty(node) ? "" : text);
}

/* The nodes of a list; a single scalar counts as a list of one, nothing as an empty list. Returns their number, at most
 * `max`, or -1 with a complaint. */
static int list(reader *r, yaml_node_t *node, const char *key, int max, yaml_node_t **items)
{
    if (is_empty(node))
        return 0;
    if (node->type == YAML_SCALAR_NODE) {
        items[0] = node;
        return 1;
    }
    if (node->type != YAML_SEQUENCE_NODE) {
        COMPLAIN(r, node, key, "%s where a list is expected", kind_of(node));
        return -1;
    }
    ptrdiff_t n = node->data.sequence.items.top - node->data.sequence.items.start;
    if (n > max) {
        COMPLAIN(r, node, key, "a list of %td where at most %d are possible", n, max);
        return -1;
    }
    for (ptrdiff_t i = 0; i < n; i++)
        items[i] = yaml_document_get_node(r->document, node->data.sequence.items.start[i]);
    return (int)n;
}

static void read_endpoints(reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    hb_endpoints *e = to;
    yaml_node_t *item[HB_MAX_ENDPOINTS];
    int n = list(r, node, row->key, HB_MAX_ENDPOINTS, item);

    if (n < 0)
        return;
    if (n < (int)row->min)
        COMPLAIN(r, node, row->key, "at least one endpoint is needed");
    e->n = n;
    for (int i = 0; i < n; i++) {
        *e->at[i] = 0;
        copy_text(r, item[i], row->key, e->at[i], sizeof e->at[i]);
        if (*e->at[i] && strncmp(e->at[i], "ipc://", 6) && strncmp(e->at[i], "tcp://", 6))
            COMPLAIN(r, item[i], row->key,
                     "'%s' is not an endpoint like ipc:///run/hilbertd/actions or tcp://127.0.0.1:7000", e->at[i]);
        /* sun_path has room for 107 characters */
        if (!strncmp(e->at[i], "ipc://", 6) && strlen(e->at[i]) - 6 > 107)
            COMPLAIN(r, item[i], row->key, "a socket's path has at most 107 characters, this one has %zu",
                     strlen(e->at[i]) - 6);
    }
}

static void read_paths(reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    hb_paths *p = to;
    yaml_node_t *item[HB_MAX_KEYS];
    int n = list(r, node, row->key, HB_MAX_KEYS, item);

    if (n < 0)
        return;
    p->n = n;
    for (int i = 0; i < n; i++)
        copy_text(r, item[i], row->key, p->at[i], sizeof p->at[i]);
}

static void read_cpus(reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    hb_cpus *p = to;
    yaml_node_t *item[HB_MAX_CPUS];
    int n = list(r, node, row->key, HB_MAX_CPUS, item);

    if (n < 0)
        return;
    p->n = n;
    for (int i = 0; i < n; i++)
        read_int(r, item[i], row, &p->at[i]);
}

/* [1, 2, 3], or {name: 1, ...} */
static void read_values(reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    const hb_setting each = {.key = row->key, .min = -1e12, .max = 1e12};
    yaml_node_t *item[HB_MAX_VEHICLE_STATES];
    hb_values *v = to;

    if (node->type != YAML_MAPPING_NODE) {
        int n = list(r, node, row->key, (int)row->max, item);
        if (n < 0)
            return;
        *v = (hb_values){.n = n};
        for (int i = 0; i < n; i++)
            read_real(r, item[i], &each, &v->value[i]);
        return;
    }
    *v = (hb_values){0};
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        yaml_node_t *name = yaml_document_get_node(r->document, p->key);
        yaml_node_t *value = yaml_document_get_node(r->document, p->value);
        if (v->n == (int)row->max) {
            COMPLAIN(r, name, row->key, "more than %d names", (int)row->max);
            return;
        }
        copy_text(r, name, row->key, v->name[v->n], HB_NAME_SIZE);
        read_real(r, value, &each, &v->value[v->n]);
        for (int i = 0; i < v->n; i++)
            if (strcmp(v->name[i], v->name[v->n]) == 0)
                COMPLAIN(r, name, row->key, "'%s' is given twice", v->name[i]);
        v->n++;
    }
}

/* planner.directions: rows of one length, which must be the model's number of controls. */
static void read_matrix(reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    const hb_setting each = {.key = row->key, .min = -1e12, .max = 1e12};
    yaml_node_t *line[HB_MAX_CONTROLS], *item[HB_MAX_CONTROLS];
    hb_planner_settings *p = &r->c->controller.planner;
    double *m = to;
    int width = 0;
    int n = list(r, node, row->key, HB_MAX_CONTROLS, line);

    if (n < 0)
        return;
    for (int i = 0; i < n; i++) {
        int w = list(r, line[i], row->key, HB_MAX_CONTROLS, item);
        if (w < 0)
            return;
        if (i && w != width) {
            COMPLAIN(r, line[i], row->key, "a direction of %d controls after one of %d", w, width);
            return;
        }
        width = w;
        for (int j = 0; j < w; j++)
            read_real(r, item[j], &each, &m[i * w + j]);
    }
    p->ndirections = n;
    r->c->direction_width = width;
}

/* ---- cost terms ---- */

/* Names of states or controls; returns how many. */
static int read_names(reader *r, yaml_node_t *node, const char *key, int max, char (*to)[HB_NAME_SIZE])
{
    yaml_node_t *item[HB_COST_INDICES];
    int n = list(r, node, key, max, item);

    for (int i = 0; i < n; i++)
        copy_text(r, item[i], key, to[i], HB_NAME_SIZE);
    return n < 0 ? 0 : n;
}

/* {kind: distance, weight: 3, states: [x, y, z], terminal: 10} */
static void read_term(reader *r, yaml_node_t *node, const char *key, hb_config_term *t)
{
    const hb_setting kind_row = {.key = key, .choices = hb_cost_kind_name, .nchoices = HB_COST_NKINDS};
    const hb_setting weight_row = {.key = key, .min = 0, .max = 1e12};
    const hb_setting bound_row = {.key = key, .min = -1e12, .max = 1e12};
    bool seen[HB_TERM_NKEYS] = {false};

    *t = (hb_config_term){.cost = {.terminal = 1, .min = -1e12, .max = 1e12}, .mark = mark_of(node)};
    if (node->type != YAML_MAPPING_NODE) {
        COMPLAIN(r, node, key, "%s where a term like {kind: squared, states: [x], weight: 1} is expected",
                 kind_of(node));
        return;
    }
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        yaml_node_t *name = yaml_document_get_node(r->document, p->key);
        yaml_node_t *value = yaml_document_get_node(r->document, p->value);
        const char *word = scalar(r, name, key, "a key");
        if (!word)
            continue;
        int i = 0;
        while (i < HB_TERM_NKEYS && strcmp(word, hb_term_key_name[i]))
            i++;
        if (i == HB_TERM_NKEYS) {
            const char *near = hb_config_near(word, hb_term_key_name, HB_TERM_NKEYS);
            COMPLAIN(r, name, key, "a term has no '%.60s'%s%s%s", word, near ? ": did you mean " : "", near ? near : "",
                     near ? "?" : "");
            continue;
        }
        if (seen[i])
            COMPLAIN(r, name, key, "'%s' is given twice", word);
        seen[i] = true;
        switch ((hb_term_key)i) {
        case HB_TERM_KIND:
            read_choice(r, value, &kind_row, &t->cost.kind);
            break;
        case HB_TERM_WEIGHT:
            read_real(r, value, &weight_row, &t->cost.weight);
            break;
        case HB_TERM_TERMINAL:
            read_real(r, value, &weight_row, &t->cost.terminal);
            break;
        case HB_TERM_STATES:
        case HB_TERM_CONTROLS:
            t->n = read_names(r, value, key, HB_COST_INDICES, t->name);
            break;
        case HB_TERM_MIN:
            read_real(r, value, &bound_row, &t->cost.min);
            break;
        case HB_TERM_MAX:
            read_real(r, value, &bound_row, &t->cost.max);
            break;
        case HB_TERM_NKEYS:
            break;
        }
    }
    hb_term_key over = hb_term_over(t->cost.kind), other = over == HB_TERM_STATES ? HB_TERM_CONTROLS : HB_TERM_STATES;
    if (!seen[HB_TERM_KIND])
        COMPLAIN(r, node, key, "the term has no kind");
    else if (seen[other] || !seen[over])
        COMPLAIN(r, node, key, "a term of kind %s needs %s%s", hb_cost_kind_name[t->cost.kind], hb_term_key_name[over],
                 seen[other] ? over == HB_TERM_STATES ? ", not controls" : ", not states" : "");
    if (!seen[HB_TERM_WEIGHT])
        COMPLAIN(r, node, key, "the term has no weight");
    if ((seen[HB_TERM_MIN] || seen[HB_TERM_MAX]) != hb_cost_kind_table[t->cost.kind].has_bounds)
        COMPLAIN(r, node, key, "min and max belong to terms of kind bound, and only to these");
    else if (t->cost.min > t->cost.max)
        COMPLAIN(r, node, key, "min is above max");
}

static void read_terms(reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    yaml_node_t *item[HB_COST_TERMS];
    hb_config_terms *terms = to;
    int n = list(r, node, row->key, HB_COST_TERMS, item);

    if (n < 0)
        return;
    if (n == 0)
        COMPLAIN(r, node, row->key, "no terms: there would be nothing to plan for");
    terms->n = n;
    for (int i = 0; i < n; i++)
        read_term(r, item[i], row->key, &terms->at[i]);
}

/* ---- limits ---- */

/* Which key of a limit a node names; -1 with a complaint when there is none such or it was seen before. */
static int rule_key(reader *r, const yaml_node_t *name, const char *key, bool *seen)
{
    const char *word = scalar(r, name, key, "a key");
    int i = 0;

    if (!word)
        return -1;
    while (i < HB_RULE_NKEYS && strcmp(word, hb_rule_key_name[i]))
        i++;
    if (i == HB_RULE_NKEYS) {
        const char *near = hb_config_near(word, hb_rule_key_name, HB_RULE_NKEYS);
        COMPLAIN(r, name, key, "a limit has no '%.60s'%s%s%s", word, near ? ": did you mean " : "", near ? near : "",
                 near ? "?" : "");
        return -1;
    }
    if (seen[i])
        COMPLAIN(r, name, key, "'%s' is given twice", word);
    seen[i] = true;
    return i;
}

static int read_numbers(reader *r, yaml_node_t *node, const char *key, double *to)
{
    const hb_setting each = {.key = key, .min = -1e12, .max = 1e12};
    yaml_node_t *item[HB_LIMIT_INDICES];
    int n = list(r, node, key, HB_LIMIT_INDICES, item);

    for (int i = 0; i < n; i++)
        read_real(r, item[i], &each, &to[i]);
    return n < 0 ? 0 : n;
}

static void check_rule(reader *r, const yaml_node_t *node, const char *key, const hb_config_limit *l, const bool *seen)
{
    const hb_limit_kind kind = l->limit.kind;
    const int given[HB_RULE_NKEYS] = {[HB_RULE_MIN] = l->nlow,
                                      [HB_RULE_MAX] = l->nhigh,
                                      [HB_RULE_NORMAL] = seen[HB_RULE_NORMAL] ? l->nvector : 0,
                                      [HB_RULE_CENTRE] = seen[HB_RULE_CENTRE] ? l->nvector : 0,
                                      [HB_RULE_RADIUS] = seen[HB_RULE_RADIUS]};

    if (!seen[HB_RULE_KIND]) {
        COMPLAIN(r, node, key, "the limit has no kind");
        return;
    }
    if (!seen[hb_rule_over(kind)] || (seen[HB_RULE_STATES] && seen[HB_RULE_CONTROLS])) {
        COMPLAIN(r, node, key, "a limit of kind %s needs %s, and only these", hb_limit_kind_name[kind],
                 hb_rule_key_name[hb_rule_over(kind)]);
        return;
    }
    for (int i = HB_RULE_MIN; i <= HB_RULE_RADIUS; i++) {
        int expected = hb_rule_numbers(kind, (hb_rule_key)i, l->n);
        if (given[i] != expected && expected == 0)
            COMPLAIN(r, node, key, "a limit of kind %s has no %s", hb_limit_kind_name[kind], hb_rule_key_name[i]);
        else if (given[i] != expected)
            COMPLAIN(r, node, key, "a limit of kind %s on %d %s needs %d number%s for %s, not %d",
                     hb_limit_kind_name[kind], l->n, hb_rule_key_name[hb_rule_over(kind)], expected,
                     expected > 1 ? "s" : "", hb_rule_key_name[i], given[i]);
    }
}

/* {kind: box, name: fence, states: [x, y], min: [-2, -2], max: [2, 2]} */
static void read_rule(reader *r, yaml_node_t *node, const char *key, hb_config_limit *l)
{
    const hb_setting kind_row = {.key = key, .choices = hb_limit_kind_name, .nchoices = HB_LIMIT_NKINDS};
    const hb_setting radius_row = {.key = key, .min = 0, .max = 1e12, .ends = HB_ABOVE};
    bool seen[HB_RULE_NKEYS] = {false};

    *l = (hb_config_limit){.mark = mark_of(node)};
    if (node->type != YAML_MAPPING_NODE) {
        COMPLAIN(r, node, key, "%s where a limit like {kind: speed, states: [vx, vy, vz], max: 3} is expected",
                 kind_of(node));
        return;
    }
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        yaml_node_t *value = yaml_document_get_node(r->document, p->value);

        switch (rule_key(r, yaml_document_get_node(r->document, p->key), key, seen)) {
        case HB_RULE_KIND:
            read_choice(r, value, &kind_row, &l->limit.kind);
            break;
        case HB_RULE_NAME:
            copy_text(r, value, key, l->limit.name, sizeof l->limit.name);
            break;
        case HB_RULE_STATES:
        case HB_RULE_CONTROLS:
            l->n = read_names(r, value, key, HB_LIMIT_INDICES, l->name);
            break;
        case HB_RULE_MIN:
            l->nlow = read_numbers(r, value, key, l->limit.low);
            break;
        case HB_RULE_MAX:
            l->nhigh = read_numbers(r, value, key, l->limit.high);
            l->limit.max = l->limit.high[0];
            break;
        case HB_RULE_NORMAL:
        case HB_RULE_CENTRE:
            l->nvector = read_numbers(r, value, key, l->limit.vector);
            break;
        case HB_RULE_RADIUS:
            read_real(r, value, &radius_row, &l->limit.radius);
            break;
        default:
            break;
        }
    }
    check_rule(r, node, key, l, seen);
}

static void read_limits(reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    yaml_node_t *item[HB_LIMITS];
    hb_config_limits *limits = to;
    int n = list(r, node, row->key, HB_LIMITS, item);

    if (n < 0)
        return;
    limits->n = n;
    for (int i = 0; i < n; i++)
        read_rule(r, item[i], row->key, &limits->at[i]);
}

/* ---- keys ---- */

static void read_value(reader *r, yaml_node_t *node, int i)
{
    const hb_setting found = hb_config_row(i), *row = &found;
    void *to = (char *)r->c + row->offset;

    r->c->mark[i] = mark_of(node);
    switch (row->type) {
    case HB_TYPE_TEXT:
    case HB_TYPE_PATH:
        copy_text(r, node, row->key, to, row->size);
        break;
    case HB_SETTING_INT:
        read_int(r, node, row, to);
        break;
    case HB_TYPE_OCTAL:
        read_octal(r, node, row, to);
        break;
    case HB_SETTING_SEED:
        read_seed(r, node, row, to);
        break;
    case HB_SETTING_REAL:
        read_real(r, node, row, to);
        break;
    case HB_SETTING_BOOL:
        read_bool(r, node, row, to);
        break;
    case HB_SETTING_CHOICE:
        read_choice(r, node, row, to);
        break;
    case HB_TYPE_ENDPOINTS:
        read_endpoints(r, node, row, to);
        break;
    case HB_TYPE_PATHS:
        read_paths(r, node, row, to);
        break;
    case HB_TYPE_CPUS:
        read_cpus(r, node, row, to);
        break;
    case HB_TYPE_STATES:
    case HB_TYPE_CONTROLS:
        read_values(r, node, row, to);
        break;
    case HB_TYPE_TERMS:
        read_terms(r, node, row, to);
        break;
    case HB_TYPE_LIMITS:
        read_limits(r, node, row, to);
        break;
    case HB_TYPE_MATRIX:
        read_matrix(r, node, row, to);
        break;
    }
}

/* The first row of a section, or -1 when there is none of that name. */
static int find_section(const char *name)
{
    size_t n = strlen(name);
    hb_setting row;

    for (int i = 0; (row = hb_config_row(i)).key; i++)
        if (strncmp(row.key, name, n) == 0 && row.key[n] == '.')
            return i;
    return -1;
}

static void unknown_section(reader *r, const yaml_node_t *node, const char *name)
{
    char section[HB_CONFIG_ROWS][32];
    const char *names[HB_CONFIG_ROWS];
    hb_setting row;
    int n = 0;

    for (int i = 0; (row = hb_config_row(i)).key; i++) {
        const char *dot = strchr(row.key, '.');
        if (!dot || (n && strncmp(section[n - 1], row.key, (size_t)(dot - row.key)) == 0))
            continue;
        snprintf(section[n], sizeof section[n], "%.*s", (int)(dot - row.key), row.key);
        names[n] = section[n];
        n++;
    }
    const char *near = hb_config_near(name, names, n);
    COMPLAIN(r, node, name, "there is no such section%s%s%s", near ? ": did you mean " : "", near ? near : "",
             near ? "?" : "");
}

static void unknown_key(reader *r, const yaml_node_t *node, const char *key)
{
    const char *names[HB_CONFIG_ROWS], *last = strrchr(key, '.'), *near = NULL;
    hb_setting row;
    int n = 0;

    for (; (row = hb_config_row(n)).key; n++)
        names[n] = row.key;
    near = hb_config_near(key, names, n);
    /* the right name in the wrong section */
    for (int i = 0; i < n && !near; i++) {
        const char *tail = strrchr(names[i], '.');
        if (strcmp(tail ? tail + 1 : names[i], last ? last + 1 : key) == 0)
            near = names[i];
    }
    COMPLAIN(r, node, key, "there is no such key%s%s%s", near ? ": did you mean " : "", near ? near : "",
             near ? "?" : "");
}

/* A mapping of keys; section is NULL at the top. */
static void read_mapping(reader *r, yaml_node_t *node, const char *section)
{
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        yaml_node_t *name = yaml_document_get_node(r->document, p->key);
        yaml_node_t *value = yaml_document_get_node(r->document, p->value);
        const char *word = scalar(r, name, section, "a key");
        char key[128];

        if (!word)
            continue;
        snprintf(key, sizeof key, "%s%s%.60s", section ? section : "", section ? "." : "", word);
        int i = hb_config_find(key);
        if (i >= 0 && r->seen[i]) {
            COMPLAIN(r, name, key, "is given twice, first in line %d", r->c->mark[i].line);
        } else if (i >= 0) {
            r->seen[i] = true;
            read_value(r, value, i);
        } else if (strcmp(word, "<<") == 0) {
            COMPLAIN(r, name, section, "merge keys (<<) are not taken: write the keys out");
        } else if (!section && (i = find_section(word)) >= 0) {
            if (r->section[i].line)
                COMPLAIN(r, name, word, "this section is given twice, first in line %d: put its keys together",
                         r->section[i].line);
            else if (value->type == YAML_MAPPING_NODE)
                read_mapping(r, value, word);
            else if (!is_empty(value))
                COMPLAIN(r, value, word, "%s where a mapping of keys is expected", kind_of(value));
            r->section[i] = mark_of(name);
        } else if (!section && value->type == YAML_MAPPING_NODE) {
            unknown_section(r, name, key);
        } else {
            unknown_key(r, name, key);
        }
    }
}

/* ---- checks of a complete configuration ---- */

static hb_mark mark_at(const hb_config *c, const char *key)
{
    return c->mark[hb_config_find(key)];
}

/* Makes a path relative to the folder of the configuration. A model that is not there is looked for in the folder
 * `models` beside the configuration, then among the installed ones. */
static void place(const hb_config *c, char *path, const char *installed)
{
    char joined[2 * HB_CONFIG_PATH_SIZE];
    const char *slash = strrchr(c->file, '/');
    int folder = slash ? (int)(slash - c->file) + 1 : 0;

    if (!*path || *path == '/')
        return;
    snprintf(joined, sizeof joined, "%.*s%s", folder, c->file, path);
    if (installed && access(joined, F_OK))
        snprintf(joined, sizeof joined, "%.*smodels/%s", folder, c->file, path);
    if (installed && access(joined, F_OK))
        snprintf(joined, sizeof joined, "%s/%s", installed, path);
    if (strlen(joined) < HB_CONFIG_PATH_SIZE)
        strcpy(path, joined);
}

static void must_be_file(const hb_config *c, hb_config_errors *errors, const char *key, const char *path)
{
    struct stat info;

    if (access(path, R_OK) || stat(path, &info))
        hb_config_error(errors, c, mark_at(c, key), key, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        hb_config_error(errors, c, mark_at(c, key), key, "%s is not a regular file", path);
}

static void check_sockets(const hb_config *c, hb_config_errors *errors)
{
    const struct {
        const char *key;
        const hb_endpoints *e;
    } all[] = {{"sockets.telemetry", &c->sockets.telemetry},
               {"sockets.telemetry_connect", &c->sockets.telemetry_connect},
               {"sockets.actions", &c->sockets.actions},
               {"sockets.control", &c->sockets.control},
               {"sockets.status", &c->sockets.status}};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int j = 0; j < all[i].e->n; j++)
            if (!strncmp(all[i].e->at[j], "tcp://", 6) && !*c->security.server_key && !c->security.insecure)
                hb_config_error(errors, c, mark_at(c, all[i].key), all[i].key,
                                "%s is open to the network: set security.server_key and security.client_keys or "
                                "security.authorized_keys (hilbertctl keygen), or security.insecure: true",
                                all[i].e->at[j]);
    if (*c->security.server_key && !c->security.client_keys.n && !*c->security.authorized_keys)
        hb_config_error(errors, c, mark_at(c, "security.server_key"), "security.client_keys",
                        "no client could connect: name the public key of each (hilbertctl keygen)");
}

static void check(hb_config *c, hb_config_errors *errors)
{
    if (!*c->model)
        hb_config_error(errors, c, mark_at(c, "model"), "model", "a basis file is needed");
    else
        must_be_file(c, errors, "model", c->model);
    if (*c->shadow.model)
        must_be_file(c, errors, "shadow.model", c->shadow.model);
    check_sockets(c, errors);
}

/* ---- files ---- */

/* Whether the place of a problem is indented by a tab, or is one. */
static bool is_tab(const char *text, size_t size, size_t at)
{
    size_t start = at < size ? at : size;

    while (start > 0 && text[start - 1] != '\n')
        start--;
    for (; start < size && (text[start] == ' ' || text[start] == '\t'); start++)
        if (text[start] == '\t')
            return true;
    return false;
}

static void not_yaml(reader *r, const yaml_parser_t *parser, const char *text, size_t size)
{
    hb_mark mark = {(int)parser->problem_mark.line + 1, (int)parser->problem_mark.column + 1};

    if (is_tab(text, size, parser->problem_mark.index))
        hb_config_error(r->errors, r->c, mark, NULL, "a tab: YAML is indented by spaces");
    else
        hb_config_error(r->errors, r->c, mark, NULL, "not YAML: %s", parser->problem ? parser->problem : "unreadable");
}

static void read_document(reader *r, yaml_parser_t *parser, const char *text, size_t size)
{
    yaml_document_t document;

    if (!yaml_parser_load(parser, &document)) {
        not_yaml(r, parser, text, size);
        return;
    }
    r->document = &document;
    yaml_node_t *root = yaml_document_get_root_node(&document);
    if (root && root->type == YAML_MAPPING_NODE)
        read_mapping(r, root, NULL);
    else if (root && !is_empty(root))
        COMPLAIN(r, root, NULL, "%s where a mapping of keys is expected", kind_of(root));
    yaml_document_delete(&document);
    r->document = NULL;
    /* else what follows would be ignored silently */
    if (!yaml_parser_load(parser, &document)) {
        not_yaml(r, parser, text, size);
        return;
    }
    if ((root = yaml_document_get_root_node(&document)))
        COMPLAIN(r, root, NULL, "a second document begins here (after ---): a configuration is one");
    yaml_document_delete(&document);
}

int hb_config_parse(hb_config *ret, const char *name, const char *text, size_t size, hb_config_errors *errors)
{
    hb_config *c = malloc(sizeof *c);
    yaml_parser_t parser;

    *errors = (hb_config_errors){0};
    if (!c || !yaml_parser_initialize(&parser)) {
        free(c);
        snprintf(errors->text[0], sizeof errors->text[0], "%s: out of memory", name);
        return errors->n = 1;
    }
    hb_config_default(c);
    snprintf(c->file, sizeof c->file, "%s", name);
    reader r = {.c = c, .errors = errors};
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    read_document(&r, &parser, text, size);
    yaml_parser_delete(&parser);

    const char *models = getenv("HILBERT_MODELS");
    place(c, c->model, models ? models : HB_MODEL_FOLDER);
    place(c, c->shadow.model, models ? models : HB_MODEL_FOLDER);
    place(c, c->security.server_key, NULL);
    place(c, c->security.authorized_keys, NULL);
    place(c, c->security.pilot_key, NULL);
    place(c, c->state_file, NULL);
    place(c, c->recorder.directory, NULL);
    for (int i = 0; i < c->security.client_keys.n; i++)
        place(c, c->security.client_keys.at[i], NULL);
    if (errors->n == 0)
        check(c, errors);
    if (errors->n == 0)
        *ret = *c;
    free(c);
    return errors->n;
}

int hb_config_load(hb_config *ret, const char *path, hb_config_errors *errors)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = fopen(path, "re");

    *errors = (hb_config_errors){0};
    if (file && (text = malloc(MAX_FILE + 1)))
        n = fread(text, 1, MAX_FILE + 1, file);
    if (!text || ferror(file) || n > MAX_FILE) {
        snprintf(errors->text[0], sizeof errors->text[0], "%s: %s", path,
                 n > MAX_FILE ? "larger than 1 MiB: this is no configuration" : strerror(errno));
        errors->n = 1;
    } else {
        hb_config_parse(ret, path, text, n, errors);
    }
    if (file)
        fclose(file);
    free(text);
    return errors->n;
}
