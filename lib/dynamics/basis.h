/* Increments of all basis functions: what coefficients are estimated from.
 *
 *     G_i(z, u, dt) = integral of g_i over one step        i = 0..nb-1, and F_avg as number nb
 *
 * `separate` integrates every g_i along its own trajectory; `combined` takes the RK4 stage points common to all,
 * along the average plus c . basis (lib/README.md). */
#ifndef HB_BASIS_H
#define HB_BASIS_H

#include "base/batch.h"
#include "dynamics/workspace.h"

/* g: (nb + 1) x nx x HB_STRIDE; the last nx rows are F_avg, zero without an average. coefficient (the model's shape)
 * gives the stage points of `combined`; NULL means the average alone. A batch of one sample is much faster than the
 * same sample in a larger batch, and its rounding differs. */
void hb_basis_increments(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient,
                         hb_real *g);

/* A model is differentiated in two halves, so that nothing is computed twice: the increments, leaving a record on the
 * tape (of hb_basis_tape_size bytes, aligned to HB_ALIGNMENT; 0: this model cannot be recorded), and from that record
 * the gradient of the parameters, given dg, that of G_0..G_nb-1 and F_avg. Added to dparameter (the model's order) and,
 * unless coefficient is NULL, dcoefficient (its shape): the stage points of `combined` move with the trunk and the
 * coefficients, and that is accounted for. F_avg's own parameters get nothing of it (see predictor.h).
 *
 * daverage, unless NULL: the gradient of another loss by F_avg, an average in the head's rows, along itself
 * (coefficient is NULL then). Those rows learn from it alone, and the trunk from `share` of it. */
size_t hb_basis_tape_size(const hb_model *m);
void hb_basis_record(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient, hb_real *g,
                     char *tape);
void hb_basis_gradient_of_record(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *coefficient,
                                 char *tape, const hb_real *dg, const hb_real *daverage, hb_real share,
                                 hb_real *dparameter, hb_real *dcoefficient);

/* The same for networks of their own without a record: `separate`, or with stage points along the average, on which
 * F_avg depends alone; its rows of dg are not read. Recomputes the forward pass, one network at a time, so memory stays
 * that of one network. */
void hb_basis_gradient(const hb_model *m, hb_workspace *w, const hb_batch *in, const hb_real *dg, hb_real *dparameter);

#endif
