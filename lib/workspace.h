/* Scratch memory for evaluating one model on one block of samples: everything basis.c and predictor.c need that is
 * not the model. One a thread; nothing in it carries over from call to call. */
#ifndef HB_WORKSPACE_H
#define HB_WORKSPACE_H

#include "model.h"

typedef struct hb_workspace hb_workspace;

/* gradients: also provide for the gradients of parameters (training). */
int hb_workspace_new(hb_workspace **ret, const hb_model *m, bool gradients, hb_error *err);
void hb_workspace_free(hb_workspace *w);

#endif
