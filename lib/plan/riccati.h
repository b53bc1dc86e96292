/* The Hessian of a second-order step (gauss_newton.h) without ever writing it down: products with its inverse by the
 * Riccati recursion over the steps of the horizon. Work grows with the number of steps, not with its cube.
 *
 * What a step of the recursion moves is y = (x, a, u_before): the state, the actuators where they lag, and the control
 * of the step before where its change costs something. With Y, W the Jacobians of y[k+1] by y[k] and w[k],
 *
 *     cost of step k = (y.V y + 2 w.C y + w.R w) / 2,      P[nh] = V[nh]
 *     G = R + W^T P W,   K = G^-1 (C + W^T P Y),   P <- V + Y^T P Y - K^T G K */
#ifndef HB_RICCATI_H
#define HB_RICCATI_H

#include "base/base.h"

struct hb_gauss_newton;
typedef struct hb_riccati hb_riccati;

int hb_riccati_new(hb_riccati **ret, int nx, int nu, int nv, int max_nh, hb_error *err);
void hb_riccati_free(hb_riccati *r);

/* Takes over the Jacobians and curvatures of a problem; those of the states are q, which is looked at by what follows.
 */
void hb_riccati_take(hb_riccati *r, const struct hb_gauss_newton *n, const double *q);
/* Mean of the Hessian's diagonal. */
double hb_riccati_curvature(hb_riccati *r);
/* The gradient (nh x nv) with the derivatives lx and lu of a problem, whose Jacobians are those taken. */
void hb_riccati_gradient(hb_riccati *r, const struct hb_gauss_newton *n, double *gradient);
/* Prepares for hb_riccati_solve with H + damping I; -1 when that is not positive definite. */
int hb_riccati_factor(hb_riccati *r, double damping);
/* d = (H + damping I)^-1 d */
void hb_riccati_solve(hb_riccati *r, double *d);

#endif
