/* Nominal models: analytic fields, chosen by name in a basis file, that stand in for F_avg where physics is known.
 *
 * Each is written once, on batches, with its transposed Jacobian product. The registry is a table: a new vehicle is
 * one file's worth of field and adjoint, and one row. */
#ifndef HB_NOMINAL_H
#define HB_NOMINAL_H

#include <stdbool.h>

#include "base/batch.h"

enum { HB_NAME_SIZE = 32, HB_NOMINAL_PARAMETERS = 64 };

/* The name of those that a file brings along as expressions (physics.h); it is not in the registry. */
#define HB_NOMINAL_EXPRESSIONS "expressions"

typedef struct hb_nominal {
    const char *name;
    int nx, nu;
    int nparameters;
    const char *parameter_name[HB_NOMINAL_PARAMETERS];
    const char *parameter_help[HB_NOMINAL_PARAMETERS]; /* unit and meaning; NULL: not known */
    double parameter_default[HB_NOMINAL_PARAMETERS];
    bool either_sign[HB_NOMINAL_PARAMETERS]; /* not 0, but of any sign: a sense of rotation */
    /* Parameters that grow with the mass; [0]: the first one is the mass, and controls are forces. When they all grow
     * by the same factor, and the controls too, the motion stays the same. */
    bool with_mass[HB_NOMINAL_PARAMETERS];
    const bool *kinematic; /* nx: states whose rate of change is exact whatever the vehicle is like (a position's is its
                              velocity): nothing is left to learn there. NULL: none is known to be */

    /* xdot = f(x, u) in physical units, n samples (batch.h); scratch: `rows` rows, overwritten */
    void (*field)(const struct hb_nominal *self, const double *parameter, int n, const hb_real *x, const hb_real *u,
                  hb_real *xdot, hb_real *scratch);
    /* dx = (df/dx)^T dxdot, du = (df/du)^T dxdot; no row of the results is one of the others */
    void (*adjoint)(const struct hb_nominal *self, const double *parameter, int n, const hb_real *x, const hb_real *u,
                    const hb_real *dxdot, hb_real *dx, hb_real *du, hb_real *scratch);
    int rows;                         /* of HB_STRIDE lanes that an evaluation needs */
    const struct hb_physics *physics; /* of expressions, else NULL */
} hb_nominal;

/* Parameters of a vehicle of which some are known (NaN: unknown), where `reference` describes another one: what is not
 * known is as there, and grows with the mass where it does. Returns how many times the reference's its controls are. */
double hb_nominal_vehicle(const hb_nominal *n, const double *reference, const double *known, double *parameter);
/* Index of a parameter, or -1. */
int hb_nominal_parameter(const hb_nominal *n, const char *name);

/* NULL when there is none of that name. */
const hb_nominal *hb_nominal_find(const char *name);
/* All of them, for error messages and help: index from 0, NULL at the end. */
const hb_nominal *hb_nominal_at(int index);

#endif
