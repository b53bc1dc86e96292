/* The keys of a cost term. */
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
    HB_TERM_NKEYS
} hb_term_key;

static const char *const hb_term_key_name[] = {"kind", "weight", "terminal", "states", "controls", "min", "max"};

/* What a kind of term is about: HB_TERM_STATES or HB_TERM_CONTROLS. */
static inline hb_term_key hb_term_over(hb_cost_kind kind)
{
    return kind == HB_COST_IMBALANCE || kind == HB_COST_SLEW || kind == HB_COST_EFFORT ? HB_TERM_CONTROLS
                                                                                       : HB_TERM_STATES;
}

#endif
