/* Nominal models: analytic fields, chosen by name in a basis file, that stand in for F_avg where physics is known.
 *
 * Each is written once, on batches, with its transposed Jacobian product. The registry is a table: a new vehicle is
 * one file's worth of field and adjoint, and one row. */
#ifndef HB_NOMINAL_H
#define HB_NOMINAL_H

#include "base/batch.h"

enum { HB_NOMINAL_PARAMETERS = 16 };

typedef struct hb_nominal {
    const char *name;
    int nx, nu;
    int nparameters;
    const char *parameter_name[HB_NOMINAL_PARAMETERS];
    double parameter_default[HB_NOMINAL_PARAMETERS];

    /* xdot = f(x, u) in physical units, n samples (batch.h) */
    void (*field)(const double *parameter, int n, const hb_real *x, const hb_real *u, hb_real *xdot);
    /* dx = (df/dx)^T dxdot, du = (df/du)^T dxdot */
    void (*adjoint)(const double *parameter, int n, const hb_real *x, const hb_real *u, const hb_real *dxdot,
                    hb_real *dx, hb_real *du);
} hb_nominal;

/* NULL when there is none of that name. */
const hb_nominal *hb_nominal_find(const char *name);
/* All of them, for error messages and help: index from 0, NULL at the end. */
const hb_nominal *hb_nominal_at(int index);

#endif
