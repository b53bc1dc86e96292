/* What is known of the vehicle behind each function of a data set (its mass was weighed), as parameters of its physics.
 *
 * Only where the data say that the parameters are known (hb_dataset_header.parameters_known): a simulator's hidden
 * parameters are what a model is to adapt to. Where controls are forces, those of all vehicles become the reference's:
 * a model sees forces per kilogram, so that small and large vehicles hover alike.
 *
 *     u_reference = u / scale,  inertia_reference = inertia / scale,  scale = mass / mass_reference */
#ifndef HB_VEHICLES_H
#define HB_VEHICLES_H

#include "data/dataset.h"

typedef struct hb_vehicles {
    int nparameters;
    double *parameter; /* nfunctions x nparameters, as the reference's controls need them */
    double *scale;     /* nfunctions */
} hb_vehicles;

/* Does the data set know parameters of this physics? */
bool hb_vehicles_known(const hb_dataset *d, const hb_nominal *n);
/* Of function f: nominal->nparameters values, NaN where they are not known. */
void hb_vehicles_of(const hb_dataset *d, const hb_nominal *n, int function, double *known);
/* The median over functions of what is known, in the place of the values in `reference`; what is not known grows with
 * the mass where it does. */
void hb_vehicles_reference(const hb_dataset *d, const hb_nominal *n, double *reference);

int hb_vehicles_new(hb_vehicles **ret, const hb_dataset *d, const hb_nominal *n, const double *reference,
                    hb_error *err);
void hb_vehicles_free(hb_vehicles *v);

#endif
