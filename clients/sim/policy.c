#include "sim/policy.h"

#include <errno.h>
#include <string.h>

/* the first that fits a plant is its default */
static const hb_policy *const policies[] = {&hb_policy_explore, &hb_policy_explore_rates, &hb_policy_random, NULL};

const hb_policy *hb_policy_at(int index)
{
    return policies[index];
}

const hb_policy *hb_policy_find(const char *name, const hb_plant_type *plant, hb_error *err)
{
    if (plant->policy && (!name || strcmp(plant->policy->name, name) == 0))
        return plant->policy;
    for (int i = 0; policies[i]; i++) {
        bool fits = !policies[i]->plant || policies[i]->plant == plant;
        if (name && strcmp(policies[i]->name, name) == 0 && !fits) {
            hb_fail(err, EINVAL, "policy %s is for plant %s, not for %s", name, policies[i]->plant->name, plant->name);
            return NULL;
        }
        if (fits && (!name || strcmp(policies[i]->name, name) == 0))
            return policies[i];
    }
    hb_fail(err, EINVAL, "there is no policy '%s': see hilbert-sim list", name);
    return NULL;
}

static void random_start(hb_policy_memory *m, const hb_plant *p)
{
    (void)m;
    (void)p;
}

static void random_act(hb_policy_memory *m, const hb_plant *p, const double *x, double *u)
{
    (void)x;
    for (int i = 0; i < p->type->nu; i++)
        u[i] = hb_draw_uniform(&m->draws, p->type->control_min[i], p->type->control_max[i]);
}

const hb_policy hb_policy_random = {
    .name = "random",
    .help = "every control drawn anew in every period, uniformly within its bounds",
    .start = random_start,
    .act = random_act,
};
