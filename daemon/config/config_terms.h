/* The keys of a cost term, and of a limit. */
#ifndef HB_CONFIG_TERMS_H
#define HB_CONFIG_TERMS_H

#include "plan/cost.h"

typedef enum {
    HB_TERM_KIND,
    HB_TERM_WEIGHT,
    HB_TERM_TERMINAL,
    HB_TERM_STATES,
    HB_TERM_CONTROLS,
    HB_TERM_MIN,
    HB_TERM_MAX,
    HB_TERM_RADIUS,
    HB_TERM_NKEYS
} hb_term_key;

static const char *const hb_term_key_name[] = {"kind",     "weight", "terminal", "states",
                                               "controls", "min",    "max",      "radius"};

/* What a kind of term is about: HB_TERM_STATES or HB_TERM_CONTROLS. */
static inline hb_term_key hb_term_over(hb_cost_kind kind)
{
    return hb_cost_kind_table[kind].over == HB_COST_OVER_CONTROLS ? HB_TERM_CONTROLS : HB_TERM_STATES;
}

typedef enum {
    HB_RULE_KIND,
    HB_RULE_NAME,
    HB_RULE_STATES,
    HB_RULE_CONTROLS,
    HB_RULE_MIN,
    HB_RULE_MAX,
    HB_RULE_NORMAL,
    HB_RULE_CENTRE,
    HB_RULE_RADIUS,
    HB_RULE_NKEYS
} hb_rule_key;

static const char *const hb_rule_key_name[] = {"kind", "name",   "states", "controls", "min",
                                               "max",  "normal", "centre", "radius"};

static inline hb_rule_key hb_rule_over(hb_limit_kind kind)
{
    return kind == HB_LIMIT_CONTROL_RATES ? HB_RULE_CONTROLS : HB_RULE_STATES;
}

/* How many numbers a limit of n states takes for min, max, normal, centre or radius; 0: it has no such key. */
static inline int hb_rule_numbers(hb_limit_kind kind, hb_rule_key key, int n)
{
    const bool box = kind == HB_LIMIT_BOX || kind == HB_LIMIT_KEEP_OUT_BOX;
    const bool cylinder = kind == HB_LIMIT_KEEP_OUT_CYLINDER;

    switch (key) {
    case HB_RULE_MIN:
        return box ? n : cylinder && n == 3;
    case HB_RULE_MAX:
        return box ? n : cylinder ? n == 3 : 1;
    case HB_RULE_NORMAL:
        return kind == HB_LIMIT_HALF_SPACE ? n : 0;
    case HB_RULE_CENTRE:
        return cylinder ? 2 : 0;
    default:
        return key == HB_RULE_RADIUS && cylinder;
    }
}

#endif
