/* Scratch memory for evaluating one model on one block of samples: everything that field.c, basis.c and predictor.c
 * need beside the model. Use one per thread; nothing in it carries over from call to call, but for gradients that are
 * gathered. */
#ifndef HB_WORKSPACE_H
#define HB_WORKSPACE_H

#include "dynamics/kernels.h"
#include "model/model.h"

/* Rows are of HB_STRIDE lanes. */
typedef struct hb_workspace {
    const hb_kernels *kernels;
    hb_ahead ahead;                  /* memory to prefetch; set by the caller, who knows what is read next */
    hb_real *input, *dinput;         /* ninputs + nu rows: what the networks see */
    hb_real *output;                 /* nx rows: what one network says */
    hb_real *base, *stage, *sum;     /* nx rows each: of the integrator */
    hb_real *rate, *drate;           /* nx rows each: k of a stage, and its gradient */
    hb_real *step;                   /* one row: seconds per sub-step */
    hb_real *x, *dx;                 /* nx rows, physical, for the nominal model */
    hb_real *u, *du;                 /* nu rows, physical */
    hb_real *nominal;                /* rows that the nominal model needs */
    hb_real *increment;              /* nx rows: of one function */
    hb_real *gradient_z;             /* nx rows */
    hb_real *all;                    /* (nb + 1) * nx rows: every function's rate */
    hb_real *all_gradient;           /* the same size; with gradients */
    hb_real *scratch;                /* of the networks */
    hb_real *trunk;                  /* rows of a shared trunk's outputs, integrated, and how long that was */
    hb_real *dtrunk;                 /* gradient of the outputs at one stage; with gradients */
    hb_real *head, *head_bias;       /* nx x those, and nx: the collapsed head */
    hb_real *single;                 /* inputs and outputs of HB_FEW samples, each contiguous */
    hb_real *collapsed_gradient;     /* of a collapsed network's parameters; with gradients */
    const double *nominal_parameter; /* of the vehicle in hand; NULL: the model's */
    bool gathers;                    /* the collapsed gradients of several calls are added up, see predictor.h */
    struct hb_term *term;            /* nb + 2: for a field that is put together for one call */
    char *tape;                      /* of one step with gradients */
} hb_workspace;

/* gradients: also provide for the gradients of parameters (training). */
int hb_workspace_new(hb_workspace **ret, const hb_model *m, bool gradients, hb_error *err);
void hb_workspace_free(hb_workspace *w);

#endif
