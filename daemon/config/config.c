/* YAML -> hb_config, driven by the table. The whole file is read even after an error, so that one run tells them all.
 */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config_reader.h"

enum { MAX_FILE = 1 << 20 };

/* ---- keys ---- */

static void read_value(hb_config_reader *r, yaml_node_t *node, int i)
{
    const hb_setting found = hb_config_row(i), *row = &found;
    void *to = (char *)r->c + row->offset;

    r->c->mark[i] = hb_mark_of(node);
    switch (row->type) {
    case HB_TYPE_TEXT:
    case HB_TYPE_PATH:
        hb_read_text(r, node, row->key, to, row->size);
        break;
    case HB_SETTING_INT:
        hb_read_int(r, node, row, to);
        break;
    case HB_TYPE_OCTAL:
        hb_read_octal(r, node, row, to);
        break;
    case HB_SETTING_SEED:
        hb_read_seed(r, node, row, to);
        break;
    case HB_SETTING_REAL:
        hb_read_real(r, node, row, to);
        break;
    case HB_SETTING_BOOL:
        hb_read_bool(r, node, row, to);
        break;
    case HB_SETTING_CHOICE:
        hb_read_choice(r, node, row, to);
        break;
    case HB_TYPE_ENDPOINTS:
        hb_read_endpoints(r, node, row, to);
        break;
    case HB_TYPE_PATHS:
        hb_read_paths(r, node, row, to);
        break;
    case HB_TYPE_CPUS:
        hb_read_cpus(r, node, row, to);
        break;
    case HB_TYPE_STATES:
    case HB_TYPE_CONTROLS:
        hb_read_values(r, node, row, to);
        break;
    case HB_TYPE_TERMS:
        hb_read_terms(r, node, row, to);
        break;
    case HB_TYPE_LIMITS:
        hb_read_limits(r, node, row, to);
        break;
    case HB_TYPE_MATRIX:
        hb_read_matrix(r, node, row, to);
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

static void unknown_section(hb_config_reader *r, const yaml_node_t *node, const char *name)
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
    HB_COMPLAIN(r, node, name, "there is no such section%s%s%s", near ? ": did you mean " : "", near ? near : "",
                near ? "?" : "");
}

static void unknown_key(hb_config_reader *r, const yaml_node_t *node, const char *key)
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
    HB_COMPLAIN(r, node, key, "there is no such key%s%s%s", near ? ": did you mean " : "", near ? near : "",
                near ? "?" : "");
}

/* A mapping of keys; section is NULL at the top. */
static void read_mapping(hb_config_reader *r, yaml_node_t *node, const char *section)
{
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        yaml_node_t *name = yaml_document_get_node(r->document, p->key);
        yaml_node_t *value = yaml_document_get_node(r->document, p->value);
        const char *word = hb_read_scalar(r, name, section, "a key");
        char key[128];

        if (!word)
            continue;
        snprintf(key, sizeof key, "%s%s%.60s", section ? section : "", section ? "." : "", word);
        int i = hb_config_find(key);
        if (i >= 0 && r->seen[i]) {
            HB_COMPLAIN(r, name, key, "is given twice, first in line %d", r->c->mark[i].line);
        } else if (i >= 0) {
            r->seen[i] = true;
            read_value(r, value, i);
        } else if (strcmp(word, "<<") == 0) {
            HB_COMPLAIN(r, name, section, "merge keys (<<) are not taken: write the keys out");
        } else if (!section && (i = find_section(word)) >= 0) {
            if (r->section[i].line)
                HB_COMPLAIN(r, name, word, "this section is given twice, first in line %d: put its keys together",
                            r->section[i].line);
            else if (value->type == YAML_MAPPING_NODE)
                read_mapping(r, value, word);
            else if (!hb_is_empty(value))
                HB_COMPLAIN(r, value, word, "%s where a mapping of keys is expected", hb_kind_of(value));
            r->section[i] = hb_mark_of(name);
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

static void not_yaml(hb_config_reader *r, const yaml_parser_t *parser, const char *text, size_t size)
{
    hb_mark mark = {(int)parser->problem_mark.line + 1, (int)parser->problem_mark.column + 1};

    if (is_tab(text, size, parser->problem_mark.index))
        hb_config_error(r->errors, r->c, mark, NULL, "a tab: YAML is indented by spaces");
    else
        hb_config_error(r->errors, r->c, mark, NULL, "not YAML: %s", parser->problem ? parser->problem : "unreadable");
}

static void read_document(hb_config_reader *r, yaml_parser_t *parser, const char *text, size_t size)
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
    else if (root && !hb_is_empty(root))
        HB_COMPLAIN(r, root, NULL, "%s where a mapping of keys is expected", hb_kind_of(root));
    yaml_document_delete(&document);
    r->document = NULL;
    /* else what follows would be ignored silently */
    if (!yaml_parser_load(parser, &document)) {
        not_yaml(r, parser, text, size);
        return;
    }
    if ((root = yaml_document_get_root_node(&document)))
        HB_COMPLAIN(r, root, NULL, "a second document begins here (after ---): a configuration is one");
    yaml_document_delete(&document);
}

/* Whether something is nested deeper than any configuration is. libyaml takes time by the square of the depth, so it is
 * not asked for what a file of nothing but brackets means. */
static bool is_too_deep(hb_config_reader *r, const char *text, size_t size)
{
    enum { DEEPEST = 32 };
    yaml_parser_t parser;
    int depth = 0;
    bool ended = false;

    if (!yaml_parser_initialize(&parser))
        return false;
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    while (!ended && depth <= DEEPEST) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event))
            break; /* it is not YAML: read_document says where */
        depth += event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
        depth -= event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        ended = event.type == YAML_STREAM_END_EVENT;
        if (depth > DEEPEST)
            hb_config_error(r->errors, r->c,
                            (hb_mark){(int)event.start_mark.line + 1, (int)event.start_mark.column + 1}, NULL,
                            "nested more than %d levels deep: no configuration is", (int)DEEPEST);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return depth > DEEPEST;
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
    hb_config_reader r = {.c = c, .errors = errors};
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    if (!is_too_deep(&r, text, size))
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

/* The whole file, ended by a 0 that is not counted; NULL with the reason. */
static char *read_file(const char *path, size_t *ret_size, hb_error *err)
{
    char *text = NULL;
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* nobody may ever write to a fifo */
    struct stat info;

    if (fd >= 0 && fstat(fd, &info) == 0 && !S_ISREG(info.st_mode)) {
        hb_fail(err, EINVAL, "%s: not a regular file: a reload reads it again", path);
        close(fd);
        return NULL;
    }
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (file && (text = malloc(MAX_FILE + 2)))
        n = fread(text, 1, MAX_FILE + 1, file);
    if (!text || ferror(file) || n > MAX_FILE) {
        hb_fail(err, EINVAL, "%s: %s", path,
                n > MAX_FILE ? "larger than 1 MiB: this is no configuration" : strerror(errno));
        free(text);
        text = NULL;
    } else
        text[n] = 0;
    if (file)
        fclose(file);
    *ret_size = n;
    return text;
}

char *hb_config_read_text(const char *path, hb_error *err)
{
    size_t size;
    char *text = read_file(path, &size, err);

    if (text && strlen(text) != size) {
        hb_fail(err, EINVAL, "%s: has a zero byte in it: this is no configuration", path);
        free(text);
        return NULL;
    }
    return text;
}

int hb_config_load(hb_config *ret, const char *path, hb_config_errors *errors)
{
    hb_error err;
    size_t size;
    char *text = read_file(path, &size, &err);

    *errors = (hb_config_errors){0};
    if (text) {
        hb_config_parse(ret, path, text, size, errors);
    } else {
        snprintf(errors->text[0], sizeof errors->text[0], "%s", err.text);
        errors->n = 1;
    }
    free(text);
    return errors->n;
}
