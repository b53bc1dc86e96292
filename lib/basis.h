/* Increments of all basis functions: what coefficients are estimated from.
 *
 *     G_i(z, u, dt) = integral of g_i over one step        i = 0..nb-1, and F_avg as number nb
 *
 * `separate` integrates every g_i along its own trajectory; `combined` takes the RK4 stage points common to all,
 * along the average plus c . basis (method.md). */
#ifndef HB_BASIS_H
#define HB_BASIS_H

#include "workspace.h"
#include "batch.h"

/* g: (nb + 1) x nx x HB_STRIDE; the last nx rows are F_avg, zero without an average. coefficient (the model's shape)
 * gives the stage points of `combined`; NULL means the average alone. */
void hb_basis_increments(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient,
                         hb_real *g);

/* Gradient of the parameters, given dg, the gradient with respect to g (nb + 1 rows of nx; destroyed). Stage points
 * along the average alone. Adds to dparameter (the model's order). Recomputes the forward pass, one network at a
 * time, so memory stays that of one network. */
void hb_basis_gradient(const hb_model *m, hb_workspace *w, const hb_batch *in, hb_real *dg, hb_real *dparameter);

#endif
