#include "config/config_edit.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

typedef struct document {
    const char *text;
    size_t size;
    yaml_document_t yaml;
} document;

static int open_document(document *d, const char *text, hb_error *err)
{
    yaml_parser_t parser;

    *d = (document){.text = text, .size = strlen(text)};
    if (!yaml_parser_initialize(&parser))
        return hb_fail(err, ENOMEM, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, d->size);
    int good = yaml_parser_load(&parser, &d->yaml);
    int r = good ? 0
                 : hb_fail(err, EINVAL, "line %zu: not YAML: %s", parser.problem_mark.line + 1,
                           parser.problem ? parser.problem : "unreadable");
    yaml_parser_delete(&parser);
    return r;
}

/* libyaml counts characters, and a text is bytes. */
static size_t byte_at(const document *d, size_t character)
{
    size_t at = 0;

    for (; at < d->size && character > 0; character--)
        for (at++; at < d->size && ((unsigned char)d->text[at] & 0xc0) == 0x80;)
            at++;
    return at;
}

static yaml_node_t *node_of(document *d, int index)
{
    return yaml_document_get_node(&d->yaml, index);
}

static bool is_block(const yaml_node_t *n)
{
    return (n->type == YAML_MAPPING_NODE && n->data.mapping.style != YAML_FLOW_MAPPING_STYLE) ||
           (n->type == YAML_SEQUENCE_NODE && n->data.sequence.style != YAML_FLOW_SEQUENCE_STYLE);
}

/* Where a value really ends. libyaml's mark of a block is behind the comments that follow it, so it is taken from the
 * last value in the block. */
static size_t end_of(document *d, const yaml_node_t *n)
{
    size_t end = byte_at(d, n->start_mark.index);

    if (!is_block(n))
        return byte_at(d, n->end_mark.index);
    if (n->type == YAML_MAPPING_NODE) {
        for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
            size_t key = end_of(d, node_of(d, p->key)) + 1, value = end_of(d, node_of(d, p->value));
            end = key > end ? key : end;
            end = value > end ? value : end;
        }
    } else {
        for (yaml_node_item_t *i = n->data.sequence.items.start; i < n->data.sequence.items.top; i++) {
            size_t item = end_of(d, node_of(d, *i));
            end = item > end ? item : end;
        }
    }
    return end;
}

static bool is_empty(const yaml_node_t *n)
{
    return n->type == YAML_SCALAR_NODE && n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && n->data.scalar.length == 0;
}

static bool says(const yaml_node_t *n, const char *word, size_t length)
{
    return n && n->type == YAML_SCALAR_NODE && n->data.scalar.length == length &&
           memcmp(n->data.scalar.value, word, length) == 0;
}

/* The value of a key in a mapping, with the key itself; NULL: there is none. */
static yaml_node_t *member(document *d, yaml_node_t *mapping, const char *word, size_t length, yaml_node_t **key)
{
    if (!mapping || mapping->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < mapping->data.mapping.pairs.top; p++)
        if (says(node_of(d, p->key), word, length)) {
            if (key)
                *key = node_of(d, p->key);
            return node_of(d, p->value);
        }
    return NULL;
}

/* An entry of a list by number, name or kind. */
static int entry(document *d, yaml_node_t *list, const char *word, size_t length, yaml_node_t **ret, hb_error *err)
{
    yaml_node_item_t *start = list->data.sequence.items.start, *top = list->data.sequence.items.top;
    int found = 0;

    if (strspn(word, "0123456789") >= length) {
        long n = strtol(word, NULL, 10);
        if (n >= top - start)
            return hb_fail(err, EINVAL, "there is no entry %ld: the list has %ld, numbered from 0", n,
                           (long)(top - start));
        *ret = node_of(d, start[n]);
        return 0;
    }
    for (yaml_node_item_t *i = start; i < top; i++) {
        yaml_node_t *n = node_of(d, *i);
        if (says(member(d, n, "name", 4, NULL), word, length) || says(member(d, n, "kind", 4, NULL), word, length)) {
            *ret = n;
            found++;
        }
    }
    if (found == 1)
        return 0;
    return hb_fail(err, EINVAL,
                   found ? "%d entries are of kind '%.*s': name one by its number, from 0"
                         : "%d entries are of kind '%.*s', and none of that name",
                   found, (int)length, word);
}

/* Where a key leads: as far as the text goes. */
typedef struct place {
    yaml_node_t *parent; /* the mapping that has it, or would; NULL: the root, which is empty */
    yaml_node_t *key;    /* of the value, in parent */
    yaml_node_t *value;  /* NULL: it is not there, */
    const char *missing; /* but this, the rest of the key, would be in parent */
} place;

static int find(document *d, const char *key, place *ret, hb_error *err)
{
    yaml_node_t *at = yaml_document_get_root_node(&d->yaml);

    *ret = (place){.parent = at, .value = at};
    for (const char *word = key; word; word = strchr(word, '.') ? strchr(word, '.') + 1 : NULL) {
        size_t length = strcspn(word, ".");
        if (length == 0)
            return hb_fail(err, EINVAL, "'%s' is no key: expected names with a point between them", key);
        if (at && at->type == YAML_SEQUENCE_NODE) {
            int r = entry(d, at, word, length, &at, err);
            if (r)
                return r;
            ret->key = NULL;
            ret->value = at;
            continue;
        }
        if (at && at->type != YAML_MAPPING_NODE && !is_empty(at))
            return hb_fail(err, EINVAL, "'%.*s' has nothing in it", (int)(word - key - (word > key)), key);
        yaml_node_t *name = NULL, *next = member(d, at, word, length, &name);
        ret->parent = at;
        if (!next) {
            ret->value = NULL;
            ret->missing = word;
            return 0;
        }
        if (next->start_mark.index < name->end_mark.index)
            return hb_fail(err, EINVAL, "'%.*s' is an alias (*) of another value: write it out in the file",
                           (int)(word + length - key), key);
        ret->key = name;
        ret->value = at = next;
    }
    return 0;
}

int hb_config_lookup(const char *text, const char *key, char **ret, hb_error *err)
{
    document d;
    place p = {0};
    int r = open_document(&d, text, err);

    *ret = NULL;
    if (r)
        return r;
    r = find(&d, key, &p, err);
    if (!r && p.value) {
        size_t start = byte_at(&d, p.value->start_mark.index), end = end_of(&d, p.value);
        while (end > start && isspace((unsigned char)text[end - 1]))
            end--;
        *ret = strndup(text + start, end - start);
        if (!*ret)
            r = hb_fail(err, ENOMEM, "out of memory");
    }
    yaml_document_delete(&d.yaml);
    return r;
}

/* One scalar, list or mapping, which stays one wherever it is put. */
static int check_value(const char *value, hb_error *err)
{
    document d;

    if (strlen(value) >= HB_EDIT_VALUE)
        return hb_fail(err, EINVAL, "the value is longer than %d bytes", HB_EDIT_VALUE - 1);
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127 || (*c == '#' && (c == value || c[-1] == ' ')))
            return hb_fail(err, EINVAL, "the value has a control character or a comment in it");
    int r = open_document(&d, value, err);
    if (r)
        return r;
    yaml_node_t *n = yaml_document_get_root_node(&d.yaml);
    if (!n || is_empty(n))
        r = hb_fail(err, EINVAL, "the value is empty");
    else if (is_block(n) || *value == '&' || *value == '*' || *value == '!' ||
             (n->type == YAML_SCALAR_NODE && n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
              strpbrk(value, ",[]{}")) ||
             (n->type == YAML_SCALAR_NODE && n->data.scalar.style != YAML_PLAIN_SCALAR_STYLE && *value != '"' &&
              *value != '\''))
        r = hb_fail(err, EINVAL, "'%.60s' is not one value: expected a number, a word, [a, list] or {a: mapping}",
                    value);
    yaml_document_delete(&d.yaml);
    return r;
}

/* text[0..from) + what + text[to..] */
static char *splice(const char *text, size_t from, size_t to, const char *what)
{
    char *ret = NULL;

    return asprintf(&ret, "%.*s%s%s", (int)from, text, what, text + to) < 0 ? NULL : ret;
}

/* The end of the line that a place is in, behind its newline. */
static size_t next_line(const char *text, size_t at)
{
    const char *newline = strchr(text + at, '\n');

    return newline ? (size_t)(newline - text) + 1 : strlen(text);
}

/* A key that is not there yet, into its mapping: behind the last one. */
static char *insert(document *d, const place *p, const char *value)
{
    char line[HB_EDIT_KEY + HB_EDIT_VALUE + 64];
    const char *dot = strchr(p->missing, '.');
    const yaml_node_t *m = p->parent;
    const bool top = !m || m == yaml_document_get_root_node(&d->yaml);
    size_t end = m ? end_of(d, m) : 0;

    if (m && m->type == YAML_MAPPING_NODE && !is_block(m)) {
        size_t close = end - 1, before = close;
        while (before > 0 && isspace((unsigned char)d->text[before - 1]))
            before--;
        bool comma = d->text[before - 1] != '{' && d->text[before - 1] != ',';
        snprintf(line, sizeof line, "%s%s: %s", comma ? ", " : "", p->missing, value);
        return splice(d->text, before, close, line);
    }
    /* an empty section's own line, the last line of a mapping, or the end of the file */
    bool section = !top && is_empty(m);
    int indent = top ? 0 : section ? 2 : (int)m->start_mark.column;
    size_t at = top ? d->size : next_line(d->text, section ? byte_at(d, p->key->end_mark.index) : end);
    bool newline = at > 0 && d->text[at - 1] != '\n';
    if (dot && top)
        snprintf(line, sizeof line, "%s%.*s:\n  %s: %s\n", newline ? "\n" : "", (int)(dot - p->missing), p->missing,
                 dot + 1, value);
    else
        snprintf(line, sizeof line, "%s%*s%s: %s\n", newline ? "\n" : "", indent, "", p->missing, value);
    return splice(d->text, at, at, line);
}

static char *replace(document *d, const place *p, const char *value)
{
    size_t start = byte_at(d, p->value->start_mark.index), end = end_of(d, p->value);
    char *spaced = NULL;

    if (!is_block(p->value) && !is_empty(p->value))
        return splice(d->text, start, end, value);
    /* in the line of its key */
    start = byte_at(d, p->key->end_mark.index);
    start += strcspn(d->text + start, ":") + 1;
    if (asprintf(&spaced, " %s", value) < 0)
        return NULL;
    char *ret = splice(d->text, start, end > start ? end : start, spaced);
    free(spaced);
    return ret;
}

/* A list that the text leaves to its default, written out at its end; NULL: it has no need of that, or no memory. */
static char *write_out(document *d, const char *key, const char *defaults)
{
    yaml_node_t *root = yaml_document_get_root_node(&d->yaml);
    char name[HB_EDIT_KEY], *list = NULL, *ret = NULL;
    const char *dot = strchr(key, '.');

    if (!dot || !defaults || (root && member(d, root, key, (size_t)(dot - key), NULL)))
        return NULL;
    snprintf(name, sizeof name, "%.*s", (int)(dot - key), key);
    if (hb_config_lookup(defaults, name, &list, NULL) == 0 && list && *list == '-' &&
        asprintf(&ret, "%s%s%s:\n  %s\n", d->text, d->size && d->text[d->size - 1] != '\n' ? "\n" : "", name, list) < 0)
        ret = NULL;
    free(list);
    return ret;
}

int hb_config_edit(const char *text, const char *key, const char *value, const char *defaults, char **ret,
                   hb_error *err)
{
    document d;
    place p = {0};

    *ret = NULL;
    if (strlen(key) >= HB_EDIT_KEY)
        return hb_fail(err, EINVAL, "the key is longer than %d bytes", HB_EDIT_KEY - 1);
    int r = check_value(value, err);
    if (!r)
        r = open_document(&d, text, err);
    if (r)
        return r;
    char *whole = write_out(&d, key, defaults);
    if (whole) {
        yaml_document_delete(&d.yaml);
        r = hb_config_edit(whole, key, value, NULL, ret, err);
        free(whole);
        return r;
    }
    r = find(&d, key, &p, err);
    if (!r && p.value && !p.key)
        r = hb_fail(err, EINVAL, "'%s' is a whole entry: name what in it is to change", key);
    if (!r) {
        *ret = p.value ? replace(&d, &p, value) : insert(&d, &p, value);
        if (!*ret)
            r = hb_fail(err, ENOMEM, "out of memory");
    }
    yaml_document_delete(&d.yaml);
    return r;
}
