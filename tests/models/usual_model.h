/* Members of a hb_model that most models of the tests share. */
#ifndef HB_USUAL_MODEL_H
#define HB_USUAL_MODEL_H

#include "model/model.h"

/* Coefficients by least squares, and one RK4 step per period. */
#define HB_USUAL_MODEL .substeps = 1, .method = HB_LEAST_SQUARES, .volume = 1
/* The same with one trunk for all basis functions. */
#define HB_USUAL_SHARED_MODEL HB_USUAL_MODEL, .architecture = HB_SHARED, .integration = HB_COMBINED

#endif
