/* Plans once before the start, to prove that model, settings and machine work together. */
#ifndef HB_SELFTEST_H
#define HB_SELFTEST_H

#include "controller/controller.h"

/* Plans once from the model's mean state with a controller of its own, so that the real one starts untouched. The
 * action must be finite and within bounds, whatever the time allowed. *ret_seconds: how long it took. */
int hb_selftest(const hb_model *m, const hb_controller_settings *s, hb_pool *pool, double *ret_seconds, hb_error *err);
/* The same with a controller that is there, and what it knows, from a state (nx; NULL: the model's mean). On its thread
 * of planning; allocates nothing. */
int hb_selftest_of(hb_controller *c, const hb_model *m, const double *x, double *ret_seconds, hb_error *err);

#endif
