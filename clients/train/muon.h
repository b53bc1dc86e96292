/* Orthogonal steps for the hidden layers (Muon: Jordan et al., 2024). A layer's momentum M = U S V^T is replaced by
 * U V^T, so that all of its directions learn alike, also those of which the gradient has little:
 *
 *     M = 0.95 M + g,   X = (g + 0.95 M) / norm,   five times  X <- a X + b X X^T X + c (X X^T)^2 X,   W -= rate s X
 *
 * The polynomial drives singular values towards 1 (0.7..1.2 is near enough), and s = 0.2 sqrt(larger side) makes a step
 * as large as one of Adam's with the same learning rate. First layers and hidden ones of all networks have such steps;
 * biases and last layers, whose rows are basis functions of very different size, are left to Adam. */
#ifndef HB_MUON_H
#define HB_MUON_H

#include "model/model.h"

typedef struct hb_muon_matrix {
    size_t at; /* of the parameters */
    int rows, columns;
    size_t scratch;
} hb_muon_matrix;

typedef struct hb_muon {
    int nmatrices;
    hb_muon_matrix *matrix;
    hb_real *scratch;
} hb_muon;

int hb_muon_new(hb_muon **ret, const hb_model *m, hb_error *err);
void hb_muon_free(hb_muon *o);

/* One step of a matrix: its gradient times `clipped` goes into the momentum, and the parameters move. Matrices may be
 * stepped by several threads at once. All three point to the first of all parameters. */
void hb_muon_step(hb_muon *o, int matrix, const hb_real *gradient, hb_real clipped, double rate, hb_real *momentum,
                  hb_real *parameter);

#endif
