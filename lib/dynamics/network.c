/* Layer l computes y = W x + b, and all but the last are followed by the activation:
 *
 *     forward    x_0 --W_0--> act --x_1--> ... --x_L-1--> W_L-1 --> out
 *     backward   din <--W_0^T-- *slope_1 <-- ... <--W_L-1^T-- dout        dW_l = d_l x_l^T
 *
 * Intermediate values alternate between two halves of the scratch. */
#include "dynamics/network.h"

#include <string.h>

static int widest(const hb_mlp *shape)
{
    int most = 0;
    for (int l = 0; l <= shape->nlayers; l++)
        if (shape->width[l] > most)
            most = shape->width[l];
    return most;
}

size_t hb_network_slopes_size(const hb_mlp *shape, hb_activation activation)
{
    size_t size = 0;
    for (int l = 1; l < shape->nlayers; l++)
        size += hb_kernels_slope_size(activation, shape->width[l]);
    return size;
}

size_t hb_network_layer_inputs_size(const hb_mlp *shape)
{
    size_t rows = 0;
    for (int l = 0; l < shape->nlayers; l++)
        rows += (size_t)shape->width[l];
    return rows * HB_STRIDE;
}

size_t hb_network_scratch_size(const hb_mlp *shape)
{
    return 2 * (size_t)widest(shape) * HB_STRIDE;
}

const hb_real *hb_network_trunk(const hb_network *of, const hb_real *in, int n, const hb_network_tape *tape,
                                hb_real *scratch, hb_ahead *ahead)
{
    const hb_mlp *shape = of->shape;
    const hb_real *parameter = of->parameter;
    const size_t half = (size_t)widest(shape) * HB_STRIDE;
    hb_real *keep = tape ? tape->layer_inputs : NULL;
    char *slope = tape ? tape->slopes : NULL;
    const hb_real *x = in;

    if (keep) {
        memcpy(keep, in, (size_t)shape->width[0] * HB_STRIDE * sizeof *keep);
        keep += shape->width[0] * HB_STRIDE;
    }
    for (int l = 0; l < shape->nlayers - 1; l++) {
        const int nin = shape->width[l], nout = shape->width[l + 1];
        hb_real *y = keep ? keep : scratch + (l % 2 ? half : 0);

        of->kernels->layer(of->activation, nout, nin, parameter, parameter + nout * nin, x, y, slope, hb_padded(n),
                           ahead);
        slope = slope ? slope + hb_kernels_slope_size(of->activation, nout) : NULL;
        keep = keep ? keep + nout * HB_STRIDE : NULL;
        parameter += nout * nin + nout;
        x = y;
    }
    return x;
}

void hb_network_forward(const hb_network *of, const hb_real *in, hb_real *out, int n, const hb_network_tape *tape,
                        hb_real *scratch, hb_ahead *ahead)
{
    const hb_head h = hb_mlp_head(of->shape);
    const hb_real *x = hb_network_trunk(of, in, n, tape, scratch, ahead);

    of->kernels->affine((int)h.rows, (int)h.width, of->parameter + h.weight, (ptrdiff_t)h.width, 1,
                        of->parameter + h.bias, x, HB_STRIDE, out, HB_STRIDE, hb_padded(n), ahead);
}

const hb_real *hb_network_trunk_single(const hb_network *of, const hb_real *in, hb_real *scratch)
{
    const hb_kernels *k = of->kernels;
    const hb_mlp *shape = of->shape;
    const hb_real *parameter = of->parameter, *x = in;
    const int half = hb_padded(widest(shape));

    for (int l = 0; l < shape->nlayers - 1; l++) {
        const int nin = shape->width[l], nout = shape->width[l + 1];
        hb_real *y = scratch + (l % 2 ? half : 0);

        k->affine_single(nout, nin, parameter, parameter + nout * nin, x, y);
        k->activate(of->activation, 1, y, NULL, hb_padded(nout));
        parameter += nout * nin + nout;
        x = y;
    }
    return x;
}

void hb_network_forward_single(const hb_network *of, const hb_real *in, hb_real *out, hb_real *scratch)
{
    const hb_head h = hb_mlp_head(of->shape);
    const hb_real *x = hb_network_trunk_single(of, in, scratch);

    of->kernels->affine_single((int)h.rows, (int)h.width, of->parameter + h.weight, of->parameter + h.bias, x, out);
}

size_t hb_network_columns_size(const hb_mlp *shape)
{
    size_t size = 0;
    for (int l = 0; l < shape->nlayers; l++)
        size += (size_t)(shape->width[l] + 1) * (size_t)hb_padded(shape->width[l + 1]);
    return size;
}

void hb_network_columns(const hb_mlp *shape, int first, const hb_real *parameter, hb_real *columns)
{
    for (int l = 0; l < shape->nlayers; l++) {
        const int nin = shape->width[l], nout = shape->width[l + 1], lanes = hb_padded(nout);
        for (int o = 0; l >= first && o < nout; o++) {
            for (int i = 0; i < nin; i++)
                columns[i * lanes + o] = parameter[o * nin + i];
            columns[nin * lanes + o] = parameter[nout * nin + o];
        }
        parameter += nout * nin + nout;
        columns += (nin + 1) * lanes;
    }
}

void hb_network_forward_few(const hb_kernels *k, const hb_mlp *shape, hb_activation activation, const hb_real *columns,
                            const hb_real *in, hb_real *out, int n, hb_real *few, hb_real *scratch)
{
    const int nin = shape->width[0], nout = shape->width[shape->nlayers], stride = hb_padded(widest(shape));
    const hb_real *x = few;
    hb_real *result = few + HB_FEW * hb_padded(nin);
    int x_stride = hb_padded(nin);

    for (int i = 0; i < nin; i++)
        for (int s = 0; s < n; s++)
            few[s * x_stride + i] = in[i * HB_STRIDE + s];
    for (int l = 0; l < shape->nlayers; l++) {
        const bool last = l == shape->nlayers - 1;
        const int inner = shape->width[l], outer = shape->width[l + 1];
        const int y_stride = last ? hb_padded(nout) : stride;
        hb_real *y = last ? result : scratch + (l % 2 ? HB_FEW * stride : 0);

        k->few(!last, activation, outer, inner, columns, n, x, x_stride, y, y_stride);
        columns += (inner + 1) * hb_padded(outer);
        x = y;
        x_stride = y_stride;
    }
    for (int i = 0; i < nout; i++)
        for (int s = 0; s < n; s++)
            out[i * HB_STRIDE + s] = result[s * hb_padded(nout) + i];
}

/* padding lanes hold no samples: their gradient is zero */
static void clear_padding(int rows, int n, hb_real *d)
{
    for (int r = 0; r < rows; r++)
        for (int s = n; s < hb_padded(n); s++)
            d[r * HB_STRIDE + s] = 0;
}

const hb_real *hb_network_trunk_outputs(const hb_mlp *shape, const hb_network_tape *tape)
{
    return tape->layer_inputs + hb_network_layer_inputs_size(shape) -
           (size_t)shape->width[shape->nlayers - 1] * HB_STRIDE;
}

/* the slopes of the activation before the last layer */
static const char *last_slopes(const hb_mlp *shape, hb_activation activation, const hb_network_tape *tape)
{
    return tape->slopes + hb_network_slopes_size(shape, activation) -
           hb_kernels_slope_size(activation, shape->width[shape->nlayers - 1]);
}

/* the records that layer l - 1 will need, given those of layer l: its inputs, then the slopes below them */
static hb_ahead below_on_tape(const hb_mlp *shape, hb_activation activation, int l, const hb_real *x, const char *slope)
{
    const int width = shape->width[l - 1];

    if (!x)
        return (hb_ahead){0};
    return (hb_ahead){.at = (const char *)(x - width * HB_STRIDE),
                      .end = (const char *)x,
                      .at_next = l > 1 ? slope - hb_kernels_slope_size(activation, width) : NULL,
                      .end_next = slope};
}

/* The way back through the trunk, from d, the gradient of what its last layer puts out before the activation. */
static void trunk_back(const hb_network *of, const hb_real *d, hb_real *din, int n, const hb_network_tape *tape,
                       hb_real *dparameter, hb_real *scratch, hb_ahead *ahead)
{
    const hb_mlp *shape = of->shape;
    const int lanes = hb_padded(n);
    const size_t half = (size_t)widest(shape) * HB_STRIDE;
    const char *slope = last_slopes(shape, of->activation, tape);
    const hb_real *x = dparameter ? hb_network_trunk_outputs(shape, tape) : NULL;
    size_t offset = hb_mlp_head(shape).weight;

    for (int l = shape->nlayers - 2; l >= 0; l--) {
        const int nin = shape->width[l], nout = shape->width[l + 1];
        hb_real *below = l == 0 ? din : scratch + (l % 2 ? half : 0);

        offset -= (size_t)(nout * nin + nout);
        if (dparameter) {
            x -= nin * HB_STRIDE;
            of->kernels->outer(nout, nin, d, x, dparameter + offset, dparameter + offset + nout * nin, lanes);
        }
        if (!below)
            break;
        if (l > 0) {
            slope -= hb_kernels_slope_size(of->activation, nin);
            /* what the layer below reads next lies far back on the tape */
            hb_ahead next = below_on_tape(shape, of->activation, l, x, slope);
            of->kernels->layer_back(of->activation, nout, nin, of->parameter + offset, d, below, slope, lanes,
                                    dparameter ? &next : ahead);
        } else {
            of->kernels->affine(nin, nout, of->parameter + offset, 1, nin, NULL, d, HB_STRIDE, below, HB_STRIDE, lanes,
                                ahead);
        }
        d = below;
    }
}

void hb_network_trunk_backward(const hb_network *of, hb_real *dtrunk, hb_real *din, int n, const hb_network_tape *tape,
                               hb_real *dparameter, hb_real *scratch)
{
    const hb_mlp *shape = of->shape;
    const int width = shape->width[shape->nlayers - 1];

    if (dparameter)
        clear_padding(width, n, dtrunk);
    if (shape->nlayers == 1) {
        if (din)
            memcpy(din, dtrunk, (size_t)width * HB_STRIDE * sizeof *din);
        return;
    }
    of->kernels->times_slope(of->activation, width, dtrunk, last_slopes(shape, of->activation, tape), hb_padded(n));
    trunk_back(of, dtrunk, din, n, tape, dparameter, scratch, NULL);
}

void hb_network_backward_rows(const hb_network *of, hb_head_rows which, hb_real *dout, hb_real *din, int n,
                              const hb_network_tape *tape, hb_real *dparameter, hb_real *scratch, hb_ahead *ahead)
{
    const hb_kernels *k = of->kernels;
    const hb_mlp *shape = of->shape;
    const hb_head h = hb_mlp_head(shape);
    const int last = shape->nlayers - 1, width = (int)h.width, lanes = hb_padded(n);
    const hb_real *weight = of->parameter + h.weight + (size_t)which.first * h.width;
    hb_real *below = last == 0 ? din : scratch + (last % 2 ? (size_t)widest(shape) * HB_STRIDE : 0);

    if (dparameter) {
        clear_padding(which.rows, n, dout);
        k->outer(which.learning, width, dout, hb_network_trunk_outputs(shape, tape),
                 dparameter + h.weight + (size_t)which.first * h.width, dparameter + h.bias + which.first, lanes);
    }
    if (last == 0 && din)
        k->affine(width, which.rows, weight, 1, width, NULL, dout, HB_STRIDE, below, HB_STRIDE, lanes, ahead);
    if (last == 0)
        return;
    const char *slope = last_slopes(shape, of->activation, tape);
    hb_ahead next =
        below_on_tape(shape, of->activation, last, dparameter ? hb_network_trunk_outputs(shape, tape) : NULL, slope);
    k->layer_back(of->activation, which.rows, width, weight, dout, below, slope, lanes, dparameter ? &next : ahead);
    trunk_back(of, below, din, n, tape, dparameter, scratch, ahead);
}

void hb_network_backward(const hb_network *of, hb_real *dout, hb_real *din, int n, const hb_network_tape *tape,
                         hb_real *dparameter, hb_real *scratch, hb_ahead *ahead)
{
    const int rows = of->shape->width[of->shape->nlayers];

    hb_network_backward_rows(of, (hb_head_rows){.rows = rows, .learning = rows}, dout, din, n, tape, dparameter,
                             scratch, ahead);
}

void hb_network_rows_gradient(const hb_kernels *k, const hb_mlp *shape, int first, int rows, hb_real *dout, int n,
                              const hb_network_tape *tape, hb_real *dparameter)
{
    const hb_head h = hb_mlp_head(shape);

    clear_padding(rows, n, dout);
    k->outer(rows, (int)h.width, dout, hb_network_trunk_outputs(shape, tape),
             dparameter + h.weight + (size_t)first * h.width, dparameter + h.bias + first, hb_padded(n));
}

void hb_network_spread_slopes(const hb_mlp *shape, hb_activation activation, const char *from, int first, int repeat,
                              int n, char *to)
{
    for (int l = 1; l < shape->nlayers; l++) {
        hb_kernels_spread_slopes(activation, shape->width[l], from, first, repeat, n, to);
        from += hb_kernels_slope_size(activation, shape->width[l]);
        to += hb_kernels_slope_size(activation, shape->width[l]);
    }
}
