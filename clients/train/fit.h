/* Coefficients of one function from its example points, and the way back: the gradient of anything that depends on
 * those coefficients with respect to the model's parameters.
 *
 *     r = z_next - z - F_avg            what the average does not explain
 *     A = mean G^T G,  b = mean G^T r   over the m example points; summed over states, or one system per state
 *     c = (A + ridge I)^-1 b            least squares
 *     c = volume b                      inner product
 *
 * Under the model's prior c ~ N(c0, P0), and with noise s_k of state k, least squares become the posterior mean:
 *
 *     A = mean G^T W G,  b = mean G^T W r,  W = diag(q / s_k^2),  1/q = mean of 1/s_k^2   (per state: W = 1, q = s_k^2)
 *     c = (A + q/m P0^-1)^-1 (b + q/m P0^-1 c0)
 *
 * Where the model takes common stage points, they lie along the average at first. A refinement evaluates the examples
 * again, with stage points along the model that the coefficients give, and solves for new ones: that is what the
 * estimator's window comes to as it re-evaluates its entries.
 *
 *     pass 0: along the average -> c_0      pass 1: along c_0 -> c_1      ...      the last pass's are the coefficients
 *
 * Adjoint of a pass, with S = A + ridge I and l = S^-1 dc:  db = l,  dA = -l c^T,  and from these
 *
 *     dG_i = 1/m sum_j (dA_ij + dA_ji) G_j + 1/m db_i r,      dF_avg = -1/m sum_i db_i G_i
 *
 * which go on to the parameters and, by way of the stage points, to dc of the pass before. */
#ifndef HB_FIT_H
#define HB_FIT_H

#include "data/points.h"
#include "dynamics/workspace.h"

/* One evaluation of all examples. */
typedef struct hb_fit_pass {
    hb_real *along; /* coefficients that the stage points follow (the model's shape); NULL: the average */
    hb_real *g;     /* nblocks x (nb + 1) x nx x HB_STRIDE, increments; the last of a block is F_avg */
    hb_real *r;     /* nblocks x nx x HB_STRIDE, residuals; padding lanes are zero */
    double *gram;   /* nsystems x nb x nb, A: lower triangle */
    double *moment; /* nsystems x nb, b */
    char *tape;     /* nrecords records of the evaluation, of the first blocks; the others are evaluated again */
    size_t nrecords;
} hb_fit_pass;

enum { HB_MAX_REFINEMENTS = 7 };

typedef struct hb_fit {
    const hb_model *model;
    int capacity; /* example points at most */
    int nsystems; /* linear systems: 1, or nx with a coefficient for each state */
    int npasses;
    hb_fit_pass pass[HB_MAX_REFINEMENTS + 1];
    const hb_fit_pass *first, *last;
    hb_real *dg;     /* (nb + 1) x nx x HB_STRIDE */
    hb_real *mix;    /* nb x nb, (dA + dA^T) / m of one system */
    double *dgram;   /* nsystems x nb x nb, dA of the pass that is differentiated: the last, until hb_fit_gradient */
    double *dmoment; /* nsystems x nb, db */
    double *factor;  /* nb x nb */
    bool has_prior;
    int nexamples;            /* m of the last evaluation */
    double *weight;           /* nx, W; 1 without a prior */
    double *information;      /* nsystems x nb x nb, q P0^-1; NULL: the model has no prior */
    double *information_mean; /* nsystems x nb, q P0^-1 c0 */
    double *c, *l;            /* nb each */
    double *row;              /* HB_STRIDE x nb: one state's increments, one row per sample */
    hb_real *dalong;          /* the model's shape */
    hb_real *daverage;        /* nx x HB_STRIDE */
    void *memory;
} hb_fit;

/* Refinements after which the coefficients stay where they are, for practical purposes; 0 without common stage points.
 */
int hb_fit_refinements(const hb_model *m);
/* Can refined fits of this model be differentiated? */
bool hb_fit_refines(const hb_model *m);

/* gradients: the workspaces that it is used with are some with gradients, and hb_fit_gradient will be asked for.
 * refinements: 0 .. HB_MAX_REFINEMENTS. */
int hb_fit_new(hb_fit **ret, const hb_model *m, int capacity, int refinements, bool gradients, hb_error *err);
void hb_fit_free(hb_fit *f);

/* Takes the model's prior as it is now into all fits that follow. -EINVAL: the model has none, or its coefficients are
 * inner products. */
int hb_fit_use_prior(hb_fit *f, hb_error *err);

/* Evaluates the basis on the examples (the first transition of each), pass by pass. dgram and dmoment become zero.
 * Returns 0, or -1 when a system is not positive definite: a number is not finite. */
int hb_fit_evaluate(hb_fit *f, hb_workspace *w, const hb_points *example);

/* Coefficients from the last pass that use the first n basis functions only (n = nb: all); the others' are zero. c has
 * the model's shape. Returns 0 or -1 as above. */
int hb_fit_coefficients(hb_fit *f, int n, hb_real *c);

/* Adds to dgram and dmoment what dc, the gradient with respect to those coefficients, brings. */
void hb_fit_adjoint(hb_fit *f, int n, const hb_real *dc);

/* What an average in the rows of the shared head learns from: scale times the mean over examples and states of
 * weight_k r_k^2, r as the first pass leaves it. The trunk learns from `share` of that. */
typedef struct hb_fit_average {
    const double *weight; /* nx */
    double scale, share;
} hb_fit_average;

/* Adds to dparameter what dgram and dmoment bring by way of the increments of the basis, through all passes, and the
 * gradient of the average's own loss unless that is NULL; destroys dgram and dmoment. */
void hb_fit_gradient(hb_fit *f, hb_workspace *w, const hb_points *example, const hb_fit_average *own,
                     hb_real *dparameter);

#endif
