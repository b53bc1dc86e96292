#include "model/nominal.h"

#include <math.h>
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

int hb_nominal_parameter(const hb_nominal *n, const char *name)
{
    for (int i = 0; i < n->nparameters; i++)
        if (strcmp(n->parameter_name[i], name) == 0)
            return i;
    return -1;
}

double hb_nominal_vehicle(const hb_nominal *n, const double *reference, const double *known, double *parameter)
{
    double scale = n->with_mass[0] && !isnan(known[0]) ? known[0] / reference[0] : 1;

    for (int i = 0; i < n->nparameters; i++)
        parameter[i] = !isnan(known[i]) ? known[i] : reference[i] * (n->with_mass[i] ? scale : 1);
    return scale;
}
