/* Batched multilayer perceptrons, forward and backward. */
#ifndef HB_NETWORK_H
#define HB_NETWORK_H

#include "dynamics/kernels.h"

/* What a forward pass leaves for a backward pass: the slopes of every activation and, for the gradient of the
 * parameters, the input of every layer. Both are blocks of the sizes below. */
typedef struct hb_network_tape {
    char *slopes;
    hb_real *layer_inputs; /* NULL: no gradients of parameters */
} hb_network_tape;

/* A network as its functions see it. */
typedef struct hb_network {
    const hb_kernels *kernels;
    const hb_mlp *shape;
    hb_activation activation;
    const hb_real *parameter;
} hb_network;

size_t hb_network_slopes_size(const hb_mlp *shape, hb_activation activation); /* bytes */
size_t hb_network_layer_inputs_size(const hb_mlp *shape);                     /* numbers */
/* Scratch for any of the functions below, in numbers. */
size_t hb_network_scratch_size(const hb_mlp *shape);

/* out = network(in) for n samples; tape and ahead may be NULL. */
void hb_network_forward(const hb_network *of, const hb_real *in, hb_real *out, int n, const hb_network_tape *tape,
                        hb_real *scratch, hb_ahead *ahead);

/* The same for one sample, in and out contiguous: much faster than a batch of one. */
void hb_network_forward_single(const hb_network *of, const hb_real *in, hb_real *out, hb_real *scratch);

/* All layers but the last: where their outputs lie, rows of a batch, or contiguous for one sample. tape and ahead as
 * above. */
const hb_real *hb_network_trunk(const hb_network *of, const hb_real *in, int n, const hb_network_tape *tape,
                                hb_real *scratch, hb_ahead *ahead);
const hb_real *hb_network_trunk_single(const hb_network *of, const hb_real *in, hb_real *scratch);

/* Where a tape with layer inputs has them. */
const hb_real *hb_network_trunk_outputs(const hb_mlp *shape, const hb_network_tape *tape);

/* A network's parameters with the columns of each layer contiguous, and its biases behind them, each padded: what
 * hb_kernels.few takes. Numbers that they need, and making them of the layers from `first` on. */
size_t hb_network_columns_size(const hb_mlp *shape);
void hb_network_columns(const hb_mlp *shape, int first, const hb_real *parameter, hb_real *columns);

/* out = network(in) for n <= HB_FEW samples, rows of HB_STRIDE as in a batch: of each lane the same bits as
 * hb_network_forward. `few`: HB_FEW times the padded numbers of inputs and outputs. */
void hb_network_forward_few(const hb_kernels *k, const hb_mlp *shape, hb_activation activation, const hb_real *columns,
                            const hb_real *in, hb_real *out, int n, hb_real *few, hb_real *scratch);

/* din = (d out / d in)^T dout, unless din is NULL; adds the gradient of the parameters to dparameter unless that is
 * NULL (then the tape needs the layers' inputs, and the padding lanes of dout are set to zero). */
void hb_network_backward(const hb_network *of, hb_real *dout, hb_real *din, int n, const hb_network_tape *tape,
                         hb_real *dparameter, hb_real *scratch, hb_ahead *ahead);

/* Some rows of the last layer. */
typedef struct hb_head_rows {
    int first, rows;
    int learning; /* so many of them, from the first on, whose weights have a gradient */
} hb_head_rows;

/* The same through these rows alone, which are what dout has. */
void hb_network_backward_rows(const hb_network *of, hb_head_rows which, hb_real *dout, hb_real *din, int n,
                              const hb_network_tape *tape, hb_real *dparameter, hb_real *scratch, hb_ahead *ahead);
/* The same from dtrunk, the gradient of what the trunk puts out, which it destroys. */
void hb_network_trunk_backward(const hb_network *of, hb_real *dtrunk, hb_real *din, int n, const hb_network_tape *tape,
                               hb_real *dparameter, hb_real *scratch);
/* Of hb_network_backward_rows only the gradient of those rows' weights, all of them. */
void hb_network_rows_gradient(const hb_kernels *k, const hb_mlp *shape, int first, int rows, hb_real *dout, int n,
                              const hb_network_tape *tape, hb_real *dparameter);

/* Slopes of n samples copied out of those of fewer, see hb_kernels_spread. */
void hb_network_spread_slopes(const hb_mlp *shape, hb_activation activation, const char *from, int first, int repeat,
                              int n, char *to);

#endif
