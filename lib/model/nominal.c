#include "model/nominal.h"

#include <string.h>

extern const hb_nominal hb_nominal_quadrotor, hb_nominal_multirotor_rates;

static const hb_nominal *const registry[] = {
    &hb_nominal_quadrotor,
    &hb_nominal_multirotor_rates,
};

const hb_nominal *hb_nominal_at(int index)
{
    return index >= 0 && (size_t)index < sizeof registry / sizeof *registry ? registry[index] : NULL;
}

const hb_nominal *hb_nominal_find(const char *name)
{
    const hb_nominal *n;

    for (int i = 0; (n = hb_nominal_at(i)); i++)
        if (strcmp(n->name, name) == 0)
            return n;
    return NULL;
}
