#include "train/muon.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/numeric.h"

enum { ITERATIONS = 5 };

static const hb_real inertia = (hb_real)0.95;
static const hb_real a = (hb_real)3.4445, b = (hb_real)-4.775, c = (hb_real)2.0315;

static size_t shorter(const hb_muon_matrix *x)
{
    return (size_t)(x->rows < x->columns ? x->rows : x->columns);
}

/* X and the next one, and two products of the shorter side */
static size_t scratch_size(const hb_muon_matrix *x)
{
    return 2 * (size_t)x->rows * (size_t)x->columns + 2 * shorter(x) * shorter(x);
}

/* all layers but the last of `count` networks that lie one behind the other; to: NULL counts only */
static int list_layers(const hb_mlp *mlp, int count, size_t at, hb_muon_matrix *to)
{
    int n = 0;

    for (int network = 0; network < count; network++) {
        size_t layer = at + (size_t)network * mlp->nparameters;
        for (int l = 0; l + 1 < mlp->nlayers; l++) {
            int columns = mlp->width[l], rows = mlp->width[l + 1];
            if (to)
                to[n] = (hb_muon_matrix){.at = layer, .rows = rows, .columns = columns};
            n++;
            layer += (size_t)rows * ((size_t)columns + 1);
        }
    }
    return n;
}

static int list_matrices(const hb_model *m, hb_muon_matrix *to)
{
    int n = list_layers(&m->basis, m->architecture == HB_SHARED ? 1 : m->nb, 0, to);

    return n + list_layers(&m->average_network, 1, hb_model_average_at(m), to ? to + n : NULL);
}

int hb_muon_new(hb_muon **ret, const hb_model *m, hb_error *err)
{
    hb_muon *o = calloc(1, sizeof *o);
    size_t size = 0;

    if (!o)
        return hb_fail(err, ENOMEM, "out of memory");
    o->nmatrices = list_matrices(m, NULL);
    o->matrix = calloc((size_t)o->nmatrices + 1, sizeof *o->matrix);
    if (o->matrix) {
        list_matrices(m, o->matrix);
        for (int i = 0; i < o->nmatrices; i++) {
            o->matrix[i].scratch = size;
            size += scratch_size(&o->matrix[i]);
        }
        o->scratch = calloc(size + 1, sizeof *o->scratch);
    }
    if (!o->matrix || !o->scratch) {
        hb_muon_free(o);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    *ret = o;
    return 0;
}

void hb_muon_free(hb_muon *o)
{
    if (!o)
        return;
    free(o->matrix);
    free(o->scratch);
    free(o);
}

/* x becomes the next iterate; A = X X^T or X^T X, whichever is smaller, and B = b A + c A A */
static void iterate(const hb_muon_matrix *m, hb_real *x, hb_real *next, hb_real *square, hb_real *polynomial)
{
    int rows = m->rows, columns = m->columns, side = (int)shorter(m);
    size_t n = (size_t)rows * (size_t)columns, area = (size_t)side * (size_t)side;
    bool flat = rows <= columns;

    if (flat)
        hb_multiply(side, side, columns, x, columns, false, x, columns, true, square);
    else
        hb_multiply(side, side, rows, x, columns, true, x, columns, false, square);
    hb_multiply(side, side, side, square, side, false, square, side, false, polynomial);
    for (size_t i = 0; i < area; i++)
        polynomial[i] = b * square[i] + c * polynomial[i];
    if (flat)
        hb_multiply(rows, columns, side, polynomial, side, false, x, columns, false, next);
    else
        hb_multiply(rows, columns, side, x, columns, false, polynomial, side, false, next);
    for (size_t i = 0; i < n; i++)
        x[i] = a * x[i] + next[i];
}

void hb_muon_step(hb_muon *o, int matrix, const hb_real *gradient, hb_real clipped, double rate, hb_real *momentum,
                  hb_real *parameter)
{
    const hb_muon_matrix *m = &o->matrix[matrix];
    size_t n = (size_t)m->rows * (size_t)m->columns, side = shorter(m);
    hb_real *x = o->scratch + m->scratch, *next = x + n, *square = next + n, *polynomial = square + side * side;
    double norm = 0;

    gradient += m->at;
    momentum += m->at;
    parameter += m->at;
    for (size_t i = 0; i < n; i++) {
        hb_real g = clipped * gradient[i];
        momentum[i] = inertia * momentum[i] + g;
        x[i] = g + inertia * momentum[i];
        norm += (double)x[i] * (double)x[i];
    }
    if (!(norm > 0))
        return;
    hb_real scale = (hb_real)(1 / sqrt(norm));
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
    for (int k = 0; k < ITERATIONS; k++)
        iterate(m, x, next, square, polynomial);
    hb_real size = (hb_real)(rate * 0.2 * sqrt(m->rows > m->columns ? m->rows : m->columns));
    for (size_t i = 0; i < n; i++)
        parameter[i] -= size * x[i];
}
