/* A shared network with its coefficients fixed: the nb + 1 blocks of nx rows of its head become one,
 *
 *     W = W_avg + sum_i c_i W_i        and biases in the same way,
 *
 * so that a step costs one small network whatever nb is. W_avg is 0 where the average is no head. The trunk is common
 * to both networks. */
#ifndef HB_COLLAPSE_H
#define HB_COLLAPSE_H

#include "model/model.h"

/* The shape of the collapsed network: that of the basis with nx outputs. */
hb_mlp hb_collapsed_shape(const hb_model *m);

/* Which of the head's blocks learn from a gradient. */
typedef enum { HB_BLOCKS_OF_BASIS, HB_BLOCK_OF_AVERAGE } hb_blocks;

/* coefficient: nb x nx with HB_PER_STATE, else nb; NULL: zero. weight: nx x width of the head, bias: nx. */
void hb_collapse(const hb_model *m, hb_shape shape, const hb_real *coefficient, hb_real *weight, hb_real *bias);

/* The gradient of the collapsed head handed on to what it was made of, and added there:
 *
 *     dW_i = c_i dW,    dc_i = <W_i, dW>          with HB_BLOCK_OF_AVERAGE: dW_avg = dW
 *
 * dparameter is of the model's; dcoefficient has the coefficients' shape, and is not looked at for the average. */
void hb_uncollapse(const hb_model *m, hb_shape shape, const hb_real *coefficient, hb_blocks blocks,
                   const hb_real *dweight, const hb_real *dbias, hb_real *dparameter, hb_real *dcoefficient);

#endif
