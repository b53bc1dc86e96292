#include "data/vehicles.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"

bool hb_vehicles_known(const hb_dataset *d, const hb_nominal *n)
{
    for (int i = 0; d->header.parameters_known && n && i < d->header.nhidden; i++)
        if (hb_nominal_parameter(n, d->header.hidden_name[i]) >= 0)
            return true;
    return false;
}

void hb_vehicles_of(const hb_dataset *d, const hb_nominal *n, int function, double *known)
{
    for (int i = 0; i < n->nparameters; i++)
        known[i] = NAN;
    for (int i = 0; d->header.parameters_known && i < d->header.nhidden; i++) {
        int k = hb_nominal_parameter(n, d->header.hidden_name[i]);
        if (k >= 0)
            known[k] = d->function[function].hidden[i];
    }
}

void hb_vehicles_reference(const hb_dataset *d, const hb_nominal *n, double *reference)
{
    double known[HB_NOMINAL_PARAMETERS], median[HB_NOMINAL_PARAMETERS], before[HB_NOMINAL_PARAMETERS];
    double *value = calloc((size_t)d->nfunctions, sizeof *value);

    for (int i = 0; i < n->nparameters; i++) {
        int count = 0;
        median[i] = NAN;
        for (int f = 0; value && f < d->nfunctions; f++) {
            hb_vehicles_of(d, n, f, known);
            if (!isnan(known[i]))
                value[count++] = known[i];
        }
        if (count)
            median[i] = hb_quantile(value, count, 0.5);
    }
    memcpy(before, reference, (size_t)n->nparameters * sizeof *before);
    hb_nominal_vehicle(n, before, median, reference);
    free(value);
}

int hb_vehicles_new(hb_vehicles **ret, const hb_dataset *d, const hb_nominal *n, const double *reference, hb_error *err)
{
    hb_vehicles *v = calloc(1, sizeof *v);
    size_t np = (size_t)n->nparameters;
    double known[HB_NOMINAL_PARAMETERS];

    if (v) {
        v->nparameters = n->nparameters;
        v->parameter = calloc((size_t)d->nfunctions * np + 1, sizeof *v->parameter);
        v->scale = calloc((size_t)d->nfunctions, sizeof *v->scale);
    }
    if (!v || !v->parameter || !v->scale) {
        hb_vehicles_free(v);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    for (int f = 0; f < d->nfunctions; f++) {
        double *to = v->parameter + (size_t)f * np;
        hb_vehicles_of(d, n, f, known);
        v->scale[f] = hb_nominal_vehicle(n, reference, known, to);
        for (size_t i = 0; i < np; i++)
            to[i] /= n->with_mass[i] ? v->scale[f] : 1;
        if (!(v->scale[f] > 0) || !isfinite(v->scale[f])) {
            hb_vehicles_free(v);
            return hb_fail(err, EINVAL, "function %d: its mass is %g times the model's, expected a number above 0",
                           d->function[f].id, v->scale[f]);
        }
    }
    *ret = v;
    return 0;
}

void hb_vehicles_free(hb_vehicles *v)
{
    if (!v)
        return;
    free(v->parameter);
    free(v->scale);
    free(v);
}
