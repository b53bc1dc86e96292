/* Coefficients of one function from its example points, and the way back: the gradient of anything that depends on
 * those coefficients with respect to the model's parameters.
 *
 *     r = z_next - z - F_avg            what the average does not explain
 *     A = mean G^T G,  b = mean G^T r   over the m example points; summed over states, or one system a state
 *     c = (A + ridge I)^-1 b            least squares
 *     c = volume b                      inner product
 *
 * Adjoint, with S = A + ridge I and l = S^-1 dc:  db = l,  dA = -l c^T,  and from these
 *
 *     dG_i = 1/m sum_j (dA_ij + dA_ji) G_j + 1/m db_i r,      dF_avg = -1/m sum_i db_i G_i */
#ifndef HB_FIT_H
#define HB_FIT_H

#include "points.h"
#include "workspace.h"

typedef struct hb_fit {
    const hb_model *model;
    int capacity;    /* example points at most */
    int nsystems;    /* linear systems: 1, or nx with a coefficient for each state */
    hb_real *g;      /* nblocks x (nb + 1) x nx x HB_STRIDE, increments; the last of a block is F_avg */
    hb_real *r;      /* nblocks x nx x HB_STRIDE, residuals; padding lanes are zero */
    hb_real *dg;     /* (nb + 1) x nx x HB_STRIDE */
    hb_real *mix;    /* nb x nb, (dA + dA^T) / m of one system */
    double *gram;    /* nsystems x nb x nb, A: lower triangle */
    double *moment;  /* nsystems x nb, b */
    double *dgram;   /* nsystems x nb x nb, dA */
    double *dmoment; /* nsystems x nb, db */
    double *factor;  /* nb x nb */
    double *c, *l;   /* nb each */
    double *row;     /* HB_STRIDE x nb: one state's increments, a sample a row */
    char *tape;      /* nblocks records of the evaluation; NULL: without gradients, or the model cannot be recorded */
    void *memory;
} hb_fit;

/* gradients: the workspaces that it is used with are some with gradients, and hb_fit_gradient will be asked for. */
int hb_fit_new(hb_fit **ret, const hb_model *m, int capacity, bool gradients, hb_error *err);
void hb_fit_free(hb_fit *f);

/* Evaluates the basis on the examples (the first transition of each): g, r, gram and moment. dgram and dmoment become
 * zero. Stage points of `combined` models are taken along the average. */
void hb_fit_evaluate(hb_fit *f, hb_workspace *w, const hb_points *example);

/* Coefficients that use the first n basis functions only (n = nb: all); the others' are zero. c has the model's shape.
 * Returns 0, or -1 when the system is not positive definite: a number is not finite. */
int hb_fit_coefficients(hb_fit *f, int n, hb_real *c);

/* Coefficients once more, with stage points along the model that the present ones give: what the estimator's window
 * comes to as it re-evaluates its entries. Only `combined` models have such points. */
int hb_fit_refine(hb_fit *f, hb_workspace *w, const hb_points *example, hb_real *c);

/* Adds to dgram and dmoment what dc, the gradient with respect to those coefficients, brings. */
void hb_fit_adjoint(hb_fit *f, int n, const hb_real *dc);

/* Adds to dparameter what dgram and dmoment bring by way of the increments of the basis. */
void hb_fit_gradient(hb_fit *f, hb_workspace *w, const hb_points *example, hb_real *dparameter);
/* The gradient with respect to the increments of one block: fills dg, F_avg included; padding lanes are zero. */
void hb_fit_increments_adjoint(hb_fit *f, const hb_points *example, int block);

#endif
