/* Policies: what moves a plant while data are collected. They may look at the plant's hidden parameters. */
#ifndef HB_POLICY_H
#define HB_POLICY_H

#include "sim/plant.h"

typedef struct hb_policy_memory {
    hb_draws draws;
    double dt;         /* control period */
    double until;      /* when the present manoeuvre ends */
    double number[2 * HB_PLANT_CONTROLS + HB_PLANT_STATES]; /* the policy's own */
} hb_policy_memory;

typedef struct hb_policy {
    const char *name, *help;
    const hb_plant_type *plant; /* NULL: any */
    void (*start)(hb_policy_memory *m, const hb_plant *p);
    void (*act)(hb_policy_memory *m, const hb_plant *p, const double *x, double *u);
    /* whether a state is still worth keeping; NULL: all are */
    bool (*keep)(const hb_plant *p, const double *x);
} hb_policy;

/* index from 0, NULL at the end. */
const hb_policy *hb_policy_at(int index);
/* The policy of that name, or, for NULL, the one that suits the plant best. */
const hb_policy *hb_policy_find(const char *name, const hb_plant_type *plant, hb_error *err);

extern const hb_policy hb_policy_random, hb_policy_explore, hb_policy_explore_rates;

#endif
