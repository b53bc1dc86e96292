/* Small symmetric systems, eight side by side: entry (i, j) of eight matrices is one vector of eight numbers, so that
 * the same arithmetic serves all of them. LAPACK is slower here by its calls alone.
 *
 * Matrices are n x n by rows, of which the lower triangle counts; vectors are n. */
#ifndef HB_SIDE_BY_SIDE_H
#define HB_SIDE_BY_SIDE_H

#include <stdbool.h>

enum { HB_SIDES = 8 };

typedef double hb_sides[HB_SIDES] __attribute__((aligned(64)));

/* a = L L^T, where the diagonal of l holds reciprocals. False when one of the eight is not positive definite, and l is
 * of no use then. l may be a. */
bool hb_sides_cholesky(int n, const hb_sides *a, hb_sides *l);
/* b <- L^-1 b, and b <- L^-T b */
void hb_sides_forward(int n, const hb_sides *l, hb_sides *b);
void hb_sides_backward(int n, const hb_sides *l, hb_sides *b);
/* a += w g g^T, v += w g y, with a weight w of each side */
void hb_sides_add(int n, const double *w, const hb_sides *g, const double *y, hb_sides *a, hb_sides *v);

#endif
