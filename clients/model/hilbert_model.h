/* libhilbert: basis files for notebooks and offline programs, without a daemon.
 *
 * A model predicts with coefficients (nb, or nb x nx row by row; NULL: zero, the average vehicle) and fits them to
 * transitions, with the arithmetic of hilbertd and hilbert-eval. Arrays are flat, row by row, in physical units.
 * Functions that can fail return 0 or -errno and say why in hilbert_model_error. A model belongs to one thread at a
 * time.
 *
 * The library's soname is its ABI: what is here does not change within libhilbert.so.0; hilbert_model_abi counts what
 * was added. */
#ifndef HILBERT_MODEL_H
#define HILBERT_MODEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HILBERT_MODEL_ABI 1
#define HILBERT_MODEL_API __attribute__((visibility("default")))

typedef struct hilbert_model hilbert_model;

HILBERT_MODEL_API int hilbert_model_abi(void);

/* *ret is a model also when it failed, for hilbert_model_error; free it in any case. NULL: out of memory. */
HILBERT_MODEL_API int hilbert_model_load(hilbert_model **ret, const char *path);
HILBERT_MODEL_API void hilbert_model_free(hilbert_model *m);
HILBERT_MODEL_API const char *hilbert_model_error(const hilbert_model *m);

HILBERT_MODEL_API int hilbert_model_nstates(const hilbert_model *m);
HILBERT_MODEL_API int hilbert_model_ncontrols(const hilbert_model *m);
HILBERT_MODEL_API int hilbert_model_nbasis(const hilbert_model *m);
HILBERT_MODEL_API int hilbert_model_ncoefficients(const hilbert_model *m);
HILBERT_MODEL_API double hilbert_model_dt(const hilbert_model *m); /* the control period, seconds */
HILBERT_MODEL_API uint64_t hilbert_model_hash(const hilbert_model *m);
HILBERT_MODEL_API int hilbert_model_has_prior(const hilbert_model *m);
HILBERT_MODEL_API const char *hilbert_model_notes(const hilbert_model *m);
/* of state i; NULL: there is none */
HILBERT_MODEL_API const char *hilbert_model_state_name(const hilbert_model *m, int i);
HILBERT_MODEL_API const char *hilbert_model_state_unit(const hilbert_model *m, int i);
HILBERT_MODEL_API const char *hilbert_model_control_name(const hilbert_model *m, int i);
HILBERT_MODEL_API const char *hilbert_model_control_unit(const hilbert_model *m, int i);
/* min, max and trim of control i */
HILBERT_MODEL_API int hilbert_model_control_bounds(const hilbert_model *m, int i, double bounds[3]);
/* the mean of the trained vehicles' coefficients (ncoefficients) */
HILBERT_MODEL_API int hilbert_model_prior_mean(hilbert_model *m, double *mean);

/* Trajectories: count states (count x nx), a sequence of controls for each (count x steps x nu), dt seconds a step (0:
 * the model's); states: count x (steps + 1) x nx. */
HILBERT_MODEL_API int hilbert_model_predict(hilbert_model *m, const double *coefficient, int count, int steps,
                                            double dt, const double *state, const double *control, double *states);
/* Coefficients of n transitions (state, control held for dt[i] seconds, next). Under the model's prior when it has one
 * and `prior` is not 0, as in flight; else plain least squares. */
HILBERT_MODEL_API int hilbert_model_fit(hilbert_model *m, int n, const double *state, const double *control,
                                        const double *next, const double *dt, int prior, double *coefficient);
/* Logarithm of the density of the n next states, independent normal with the model's noise (so it wants a prior). */
HILBERT_MODEL_API int hilbert_model_log_likelihood(hilbert_model *m, const double *coefficient, int n,
                                                   const double *state, const double *control, const double *next,
                                                   const double *dt, double *ret);

#ifdef __cplusplus
}
#endif

#endif
