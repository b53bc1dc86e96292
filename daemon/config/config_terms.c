/* Cost terms and limits of a configuration. */
#include "config/config_terms.h"

#include "config/config_reader.h"

/* ---- cost terms ---- */

/* Names of states or controls; returns how many. */
static int read_names(hb_config_reader *r, yaml_node_t *node, const char *key, int max, char (*to)[HB_NAME_SIZE])
{
    yaml_node_t *item[HB_COST_INDICES];
    int n = hb_read_list(r, node, key, max, item);

    for (int i = 0; i < n; i++)
        hb_read_text(r, item[i], key, to[i], HB_NAME_SIZE);
    return n < 0 ? 0 : n;
}

/* {kind: distance, weight: 3, states: [x, y, z], terminal: 10} */
static void read_term(hb_config_reader *r, yaml_node_t *node, const char *key, hb_config_term *t)
{
    const hb_setting kind_row = {.key = key, .choices = hb_cost_kind_name, .nchoices = HB_COST_NKINDS};
    const hb_setting weight_row = {.key = key, .min = 0, .max = 1e12};
    const hb_setting bound_row = {.key = key, .min = -1e12, .max = 1e12};
    const hb_setting radius_row = {.key = key, .min = 0, .max = 1e12, .ends = HB_ABOVE};
    bool seen[HB_TERM_NKEYS] = {false};

    *t = (hb_config_term){.cost = {.terminal = 1, .min = -1e12, .max = 1e12}, .mark = hb_mark_of(node)};
    if (node->type != YAML_MAPPING_NODE) {
        HB_COMPLAIN(r, node, key, "%s where a term like {kind: squared, states: [x], weight: 1} is expected",
                    hb_kind_of(node));
        return;
    }
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        yaml_node_t *name = yaml_document_get_node(r->document, p->key);
        yaml_node_t *value = yaml_document_get_node(r->document, p->value);
        const char *word = hb_read_scalar(r, name, key, "a key");
        if (!word)
            continue;
        int i = 0;
        while (i < HB_TERM_NKEYS && strcmp(word, hb_term_key_name[i]))
            i++;
        if (i == HB_TERM_NKEYS) {
            const char *near = hb_config_near(word, hb_term_key_name, HB_TERM_NKEYS);
            HB_COMPLAIN(r, name, key, "a term has no '%.60s'%s%s%s", word, near ? ": did you mean " : "",
                        near ? near : "", near ? "?" : "");
            continue;
        }
        if (seen[i])
            HB_COMPLAIN(r, name, key, "'%s' is given twice", word);
        seen[i] = true;
        switch ((hb_term_key)i) {
        case HB_TERM_KIND:
            hb_read_choice(r, value, &kind_row, &t->cost.kind);
            break;
        case HB_TERM_WEIGHT:
            hb_read_real(r, value, &weight_row, &t->cost.weight);
            break;
        case HB_TERM_TERMINAL:
            hb_read_real(r, value, &weight_row, &t->cost.terminal);
            break;
        case HB_TERM_STATES:
        case HB_TERM_CONTROLS:
            t->n = read_names(r, value, key, HB_COST_INDICES, t->name);
            break;
        case HB_TERM_MIN:
            hb_read_real(r, value, &bound_row, &t->cost.min);
            break;
        case HB_TERM_MAX:
            hb_read_real(r, value, &bound_row, &t->cost.max);
            break;
        case HB_TERM_RADIUS:
            hb_read_real(r, value, &radius_row, &t->cost.radius);
            break;
        case HB_TERM_NKEYS:
            break;
        }
    }
    hb_term_key over = hb_term_over(t->cost.kind), other = over == HB_TERM_STATES ? HB_TERM_CONTROLS : HB_TERM_STATES;
    if (!seen[HB_TERM_KIND])
        HB_COMPLAIN(r, node, key, "the term has no kind");
    else if (seen[other] || !seen[over])
        HB_COMPLAIN(r, node, key, "a term of kind %s needs %s%s", hb_cost_kind_name[t->cost.kind],
                    hb_term_key_name[over],
                    seen[other] ? over == HB_TERM_STATES ? ", not controls" : ", not states" : "");
    if (!seen[HB_TERM_WEIGHT])
        HB_COMPLAIN(r, node, key, "the term has no weight");
    if ((seen[HB_TERM_MIN] || seen[HB_TERM_MAX]) != (hb_cost_kind_table[t->cost.kind].numbers == HB_COST_BOUNDS))
        HB_COMPLAIN(r, node, key, "min and max belong to terms of kind bound, and only to these");
    else if (seen[HB_TERM_RADIUS] != (hb_cost_kind_table[t->cost.kind].numbers == HB_COST_RADIUS))
        HB_COMPLAIN(r, node, key, "radius belongs to terms of kind huber, and only to these");
    else if (t->cost.min > t->cost.max)
        HB_COMPLAIN(r, node, key, "min is above max");
}

void hb_read_terms(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    yaml_node_t *item[HB_COST_TERMS];
    hb_config_terms *terms = to;
    int n = hb_read_list(r, node, row->key, HB_COST_TERMS, item);

    if (n < 0)
        return;
    if (n == 0)
        HB_COMPLAIN(r, node, row->key, "no terms: there would be nothing to plan for");
    terms->n = n;
    for (int i = 0; i < n; i++)
        read_term(r, item[i], row->key, &terms->at[i]);
}

/* ---- limits ---- */

/* Which key of a limit a node names; -1 with a complaint when there is none such or it was seen before. */
static int rule_key(hb_config_reader *r, const yaml_node_t *name, const char *key, bool *seen)
{
    const char *word = hb_read_scalar(r, name, key, "a key");
    int i = 0;

    if (!word)
        return -1;
    while (i < HB_RULE_NKEYS && strcmp(word, hb_rule_key_name[i]))
        i++;
    if (i == HB_RULE_NKEYS) {
        const char *near = hb_config_near(word, hb_rule_key_name, HB_RULE_NKEYS);
        HB_COMPLAIN(r, name, key, "a limit has no '%.60s'%s%s%s", word, near ? ": did you mean " : "", near ? near : "",
                    near ? "?" : "");
        return -1;
    }
    if (seen[i])
        HB_COMPLAIN(r, name, key, "'%s' is given twice", word);
    seen[i] = true;
    return i;
}

static int read_numbers(hb_config_reader *r, yaml_node_t *node, const char *key, double *to)
{
    const hb_setting each = {.key = key, .min = -1e12, .max = 1e12};
    yaml_node_t *item[HB_LIMIT_INDICES];
    int n = hb_read_list(r, node, key, HB_LIMIT_INDICES, item);

    for (int i = 0; i < n; i++)
        hb_read_real(r, item[i], &each, &to[i]);
    return n < 0 ? 0 : n;
}

static void check_rule(hb_config_reader *r, const yaml_node_t *node, const char *key, const hb_config_limit *l,
                       const bool *seen)
{
    const hb_limit_kind kind = l->limit.kind;
    const int given[HB_RULE_NKEYS] = {[HB_RULE_MIN] = l->nlow,
                                      [HB_RULE_MAX] = l->nhigh,
                                      [HB_RULE_NORMAL] = seen[HB_RULE_NORMAL] ? l->nvector : 0,
                                      [HB_RULE_CENTRE] = seen[HB_RULE_CENTRE] ? l->nvector : 0,
                                      [HB_RULE_RADIUS] = seen[HB_RULE_RADIUS]};

    if (!seen[HB_RULE_KIND]) {
        HB_COMPLAIN(r, node, key, "the limit has no kind");
        return;
    }
    if (!seen[hb_rule_over(kind)] || (seen[HB_RULE_STATES] && seen[HB_RULE_CONTROLS])) {
        HB_COMPLAIN(r, node, key, "a limit of kind %s needs %s, and only these", hb_limit_kind_name[kind],
                    hb_rule_key_name[hb_rule_over(kind)]);
        return;
    }
    for (int i = HB_RULE_MIN; i <= HB_RULE_RADIUS; i++) {
        int expected = hb_rule_numbers(kind, (hb_rule_key)i, l->n);
        if (given[i] != expected && expected == 0)
            HB_COMPLAIN(r, node, key, "a limit of kind %s has no %s", hb_limit_kind_name[kind], hb_rule_key_name[i]);
        else if (given[i] != expected)
            HB_COMPLAIN(r, node, key, "a limit of kind %s on %d %s needs %d number%s for %s, not %d",
                        hb_limit_kind_name[kind], l->n, hb_rule_key_name[hb_rule_over(kind)], expected,
                        expected > 1 ? "s" : "", hb_rule_key_name[i], given[i]);
    }
}

/* {kind: box, name: fence, states: [x, y], min: [-2, -2], max: [2, 2]} */
static void read_rule(hb_config_reader *r, yaml_node_t *node, const char *key, hb_config_limit *l)
{
    const hb_setting kind_row = {.key = key, .choices = hb_limit_kind_name, .nchoices = HB_LIMIT_NKINDS};
    const hb_setting radius_row = {.key = key, .min = 0, .max = 1e12, .ends = HB_ABOVE};
    bool seen[HB_RULE_NKEYS] = {false};

    *l = (hb_config_limit){.mark = hb_mark_of(node)};
    if (node->type != YAML_MAPPING_NODE) {
        HB_COMPLAIN(r, node, key, "%s where a limit like {kind: speed, states: [vx, vy, vz], max: 3} is expected",
                    hb_kind_of(node));
        return;
    }
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        yaml_node_t *value = yaml_document_get_node(r->document, p->value);

        switch (rule_key(r, yaml_document_get_node(r->document, p->key), key, seen)) {
        case HB_RULE_KIND:
            hb_read_choice(r, value, &kind_row, &l->limit.kind);
            break;
        case HB_RULE_NAME:
            hb_read_text(r, value, key, l->limit.name, sizeof l->limit.name);
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
            hb_read_real(r, value, &radius_row, &l->limit.radius);
            break;
        default:
            break;
        }
    }
    check_rule(r, node, key, l, seen);
}

void hb_read_limits(hb_config_reader *r, yaml_node_t *node, const hb_setting *row, void *to)
{
    yaml_node_t *item[HB_LIMITS];
    hb_config_limits *limits = to;
    int n = hb_read_list(r, node, row->key, HB_LIMITS, item);

    if (n < 0)
        return;
    limits->n = n;
    for (int i = 0; i < n; i++)
        read_rule(r, item[i], row->key, &limits->at[i]);
}
