/* A second-order step on one control sequence: the Gauss-Newton model of its cost, minimised within bounds.
 *
 * Along a trajectory x[k+1] = f(x[k], u[k]) with Jacobians A[k], B[k], and u[k] = const + M w[k], the states are
 * eliminated: with S[k] = dx[k]/dw (all steps' w stacked into one vector of nh * nv),
 *
 *     H = sum_k S[k]^T Q[k] S[k] + curvature of the controls,      g = the cost's gradient
 *
 * Where actuators lag, f sees e[k] = u[k] + (a[k] - u[k]) share and a[k+1] = u[k] + (a[k] - u[k]) keep: B is the
 * Jacobian by e, and da/dw goes along with S.
 *
 * H is never written down: see riccati.h.
 *
 * A step d minimises g.d + d.(H + damping I) d / 2 subject to low <= M d[k] <= high for every k. */
#ifndef HB_GAUSS_NEWTON_H
#define HB_GAUSS_NEWTON_H

#include <stdbool.h>

#include "base/base.h"

typedef struct hb_gauss_newton {
    int nx, nu, nv, nh; /* nh may be lowered from call to call */

    /* filled in by the caller */
    double *direction;  /* nu x nv: M */
    double *a, *b;      /* nh x nx x nx and nh x nx x nu: Jacobians of each step */
    bool lags;          /* do actuators lag? false: keep and share are not used */
    double *keep;       /* nu: what stays of an actuator's state after a step, */
    double *share;      /* nu: and its share in the control that the step sees */
    double *lx, *lu;    /* (nh + 1) x nx and nh x nu: gradient of each stage's own cost */
    double *q;          /* (nh + 1) x nx x nx: curvature of each stage's cost */
    double *r, *slew;   /* nh x nu x nu and nh x nu: of its controls, and of their change since the stage before */
    double *low, *high; /* nh x nu: how far the controls may move */

    /* worked out by hb_gauss_newton_condense, and not to be changed */
    double *gradient; /* nh x nv */
    double curvature; /* mean of the Hessian's diagonal */

    struct hb_gauss_newton_scratch *scratch;
} hb_gauss_newton;

int hb_gauss_newton_new(hb_gauss_newton **ret, int nx, int nu, int nv, int max_nh, hb_error *err);
/* Bytes that it takes, about. */
double hb_gauss_newton_memory(int nx, int nu, int nv, int max_nh);
void hb_gauss_newton_free(hb_gauss_newton *n);

/* Gradient and Hessian with respect to w. */
void hb_gauss_newton_condense(hb_gauss_newton *n);
/* The same with the Jacobians of the last time: also with its Hessian, and the factor of that, where the curvatures of
 * the stages are nearly those that it was made of. The mean of the diagonal, a scale of damping, grows as they do. */
void hb_gauss_newton_condense_again(hb_gauss_newton *n);
/* The step d (nh x nv), and by how much the model without damping falls with it; -1 when the damped Hessian is not
 * positive definite or something is not finite. */
int hb_gauss_newton_step(hb_gauss_newton *n, double damping, double *d, double *gain);

#endif
