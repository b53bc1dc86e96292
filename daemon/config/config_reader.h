/* What reads the values of a configuration: a place in the file, a node of it, and where its value goes. Private to the
 * files of this folder: config.c walks the keys, config_values.c reads values and lists of them, config_terms.c cost
 * terms and limits. */
#ifndef HB_CONFIG_READER_H
#define HB_CONFIG_READER_H

#include <string.h>

#include <yaml.h>

#include "config/config.h"

typedef struct hb_config_reader {
    hb_config *c;
    hb_config_errors *errors;
    yaml_document_t *document;
    bool seen[HB_CONFIG_ROWS];
    hb_mark section[HB_CONFIG_ROWS]; /* where the section of each row began */
} hb_config_reader;

static inline hb_mark hb_mark_of(const yaml_node_t *node)
{
    return (hb_mark){(int)node->start_mark.line + 1, (int)node->start_mark.column + 1};
}

#define HB_COMPLAIN(r, node, key, ...) hb_config_error((r)->errors, (r)->c, hb_mark_of(node), key, __VA_ARGS__)

static inline const char *hb_text_of(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

static inline const char *hb_kind_of(const yaml_node_t *node)
{
    return node->type == YAML_MAPPING_NODE ? "a mapping" : node->type == YAML_SEQUENCE_NODE ? "a list" : "one value";
}

static inline bool hb_is_empty(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*hb_text_of(node) || !strcmp(hb_text_of(node), "~") || !strcmp(hb_text_of(node), "null"));
}

/* A scalar's text, or NULL with a complaint. */
const char *hb_read_scalar(hb_config_reader *r, const yaml_node_t *node, const char *key, const char *expected);
/* Copies a scalar's text; empty with a complaint when it does not fit. */
void hb_read_text(hb_config_reader *r, const yaml_node_t *node, const char *key, char *to, size_t size);
/* The nodes of a list; a single scalar counts as a list of one, nothing as an empty list. Returns their number, at most
 * `max`, or -1 with a complaint. */
int hb_read_list(hb_config_reader *r, yaml_node_t *node, const char *key, int max, yaml_node_t **items);

/* One for each type of the table's rows. */
void hb_read_int(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, void *to);
void hb_read_real(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, void *to);
void hb_read_octal(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, void *to);
void hb_read_seed(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, void *to);
void hb_read_bool(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, void *to);
void hb_read_choice(hb_config_reader *r, const yaml_node_t *node, const hb_setting *row, void *to);
void hb_read_endpoints(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to);
void hb_read_paths(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to);
void hb_read_cpus(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to);
void hb_read_values(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to);
void hb_read_matrix(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to);
void hb_read_terms(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to);
void hb_read_limits(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to);

#endif
