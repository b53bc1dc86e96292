/* One step of the model with its coefficients fixed, and the adjoint of that step: what plans are made with.
 *
 *     z_next = z + F_avg(z, u, dt) + sum_i c_i G_i(z, u, dt)
 *
 * For a shared model the head collapses when the coefficients are set: its rows combine into nx rows
 * W_avg + sum c_i W_i, and a step costs one small network whatever nb is. */
#ifndef HB_PREDICTOR_H
#define HB_PREDICTOR_H

#include "base/batch.h"
#include "dynamics/field.h"
#include "dynamics/workspace.h"

typedef struct hb_predictor hb_predictor;

int hb_predictor_new(hb_predictor **ret, const hb_model *m, hb_error *err);
void hb_predictor_free(hb_predictor *p);

/* coefficient: hb_model_ncoefficients numbers (nb, or nb x nx row-major); NULL sets all to zero: the average. */
void hb_predictor_set(hb_predictor *p, const hb_real *coefficient);
/* Coefficients are set faster from now on, and steps of a few samples are slower. The results are the same. */
void hb_predictor_for_batches(hb_predictor *p);

/* Bytes that one step leaves behind for hb_predictor_adjoint, for any n up to HB_STRIDE; a multiple of 64. The tape
 * of samples that start at a lane offset (threads sharing a block) needs a region of its own. */
size_t hb_predictor_tape_size(const hb_model *m);

/* tape may be NULL. z_next may be in->z. One sample alone without a tape goes a faster way, with other rounding. */
void hb_predictor_step(const hb_predictor *p, hb_workspace *w, const hb_batch *in, hb_real *z_next, void *tape);

/* dz = (dz_next/dz)^T dz_next, du in the same way; `in` and `tape` are those of the step. dz may be dz_next; du may be
 * NULL.
 */
void hb_predictor_adjoint(const hb_predictor *p, hb_workspace *w, const hb_batch *in, const void *tape,
                          const hb_real *dz_next, hb_real *dz, hb_real *du);

/* Many adjoints of a few steps: the tape that a step of some samples left, copied out for n samples of which sample s
 * is sample (first + s) / repeat of those. An adjoint then takes it with an input that is copied out in the same way,
 * of which u and dt are used. */
void hb_predictor_spread(const hb_predictor *p, hb_workspace *w, const void *tape, int first, int repeat, int n,
                         void *spread);

/* The adjoint with gradients, both added to: dparameter (the model's order) and dcoefficient (its shape; may be NULL).
 * Recomputes the step; the workspace must be one with gradients. Which parameters: HB_OF_BASIS, all but F_avg's own
 * (a shared trunk belongs to both), or HB_OF_AVERAGE, those of F_avg alone: it learns from its own loss, of the
 * prediction with coefficients zero. dz may be dz_next; du may be NULL. */
void hb_predictor_gradient(const hb_predictor *p, hb_workspace *w, const hb_batch *in, const hb_real *dz_next,
                           hb_real *dz, hb_real *du, hb_gradient_of of, hb_real *dparameter, hb_real *dcoefficient);

/* The same in two halves, so that nothing is computed twice: the step, leaving a record on the tape (of
 * hb_predictor_record_size bytes, aligned to HB_ALIGNMENT), and the gradient from it, with the same p, in and of. */
size_t hb_predictor_record_size(const hb_model *m);
void hb_predictor_record(const hb_predictor *p, hb_workspace *w, const hb_batch *in, hb_gradient_of of, hb_real *z_next,
                         char *tape);
void hb_predictor_gradient_of_record(const hb_predictor *p, hb_workspace *w, const hb_batch *in, char *tape,
                                     const hb_real *dz_next, hb_real *dz, hb_real *du, hb_gradient_of of,
                                     hb_real *dparameter, hb_real *dcoefficient);

/* Between these two, gradients of a collapsed network are added up in the workspace; the second hands the sum on to the
 * parameters and coefficients that it was made of. That takes as long as it does for one: use it for many steps. */
void hb_predictor_gather(const hb_predictor *p, hb_workspace *w);
void hb_predictor_hand_on(const hb_predictor *p, hb_workspace *w, hb_gradient_of of, hb_real *dparameter,
                          hb_real *dcoefficient);

#endif
