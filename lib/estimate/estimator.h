/* Sliding window -> coefficients and their health.
 *
 * The window keeps evaluated increments, so a sample costs one evaluation of the basis, one update, one downdate and
 * one solve. No clock: time is what the samples say. */
#ifndef HB_ESTIMATOR_H
#define HB_ESTIMATOR_H

#include <stdbool.h>

#include "base/setting_rows.h"
#include "dynamics/transition.h"
#include "model/model.h"

#define HB_ESTIMATE_STATUSES(X)                                                                                        \
    X(WARMING_UP, "warming-up", "too few samples yet: the average model is in use")                                    \
    X(SINGULAR, "singular", "the window does not determine the coefficients: the last good ones are kept")             \
    X(OK, "ok", "the coefficients fit the window")                                                                     \
    X(OUT_OF_SPAN, "out-of-span", "no coefficients explain what is seen: this vehicle is outside the trained space")

typedef enum {
#define X(id, name, help) HB_ESTIMATE_##id,
    HB_ESTIMATE_STATUSES(X)
#undef X
        HB_ESTIMATE_NSTATUSES
} hb_estimate_status;

extern const char *const hb_estimate_status_name[]; /* HB_ESTIMATE_NSTATUSES */

typedef struct hb_estimator_settings {
    int window;        /* nw, transitions kept: 1..100000 */
    int warmup;        /* transitions before coefficients are used */
    int solve_every;   /* samples in which everything is solved once, >= 1; per-state problems take turns */
    hb_method method;  /* must be allowed by the model */
    double ridge;      /* lambda; < 0: the model's */
    double forgetting; /* weight of a sample relative to the next newer one, 0 < f <= 1 */
    int relinearise;   /* old window entries re-evaluated per push along the current model (shared) */
    bool detect_changes;
    double change_threshold; /* of the change statistic; higher: fewer alarms */
    double span_threshold;   /* out-of-span fraction from which the status says so */
} hb_estimator_settings;

/* Defaults and rows: estimator_settings.c. */
extern const hb_estimator_settings hb_estimator_defaults;
hb_setting_rows hb_estimator_rows(void);
/* What hb_estimator_new asks, and whoever wants to know before: 0, or -EINVAL with "key: why". */
int hb_estimator_check(const hb_model *m, const hb_estimator_settings *s, hb_error *err);

typedef struct hb_health {
    hb_estimate_status status;
    double one_step_error; /* RMS of the normalised one-step prediction error, recent samples, before they are used */
    double expected_error; /* the same over the window after the fit */
    double out_of_span;    /* fraction of the residual's energy that no coefficients explain, 0..1 */
    double condition;      /* of A + lambda I */
    double excitation;     /* smallest over largest diagonal element of A */
    double span_seconds;   /* time that the window covers */
    int samples;           /* in the window */
    uint64_t version;      /* counts solves that changed c */
    uint64_t changes;      /* changes of dynamics detected */
    uint64_t rejected;     /* non-finite transitions */
} hb_health;

typedef struct hb_estimator hb_estimator;

/* Bytes that an estimator takes, about, the window's memory included. */
double hb_estimator_memory(const hb_model *m, const hb_estimator_settings *s);

/* `memory`, unless NULL, is a block of hb_estimator_memory_size bytes (64-byte aligned, e.g. a memfd mapping) in
 * which the window lives, so that it can outlive the process; a block that holds a window of the same model and
 * settings, complete by its checksum, is taken up again; `resumed` (may be NULL) says whether and if not, why. */
size_t hb_estimator_memory_size(const hb_model *m, const hb_estimator_settings *s);
int hb_estimator_new(hb_estimator **ret, const hb_model *m, const hb_estimator_settings *s, void *memory,
                     hb_error *resumed, hb_error *err);
void hb_estimator_free(hb_estimator *e);
void hb_estimator_reset(hb_estimator *e); /* forget the window and the coefficients */
/* Takes over detect_changes and the thresholds, whatever else differs; -EINVAL, and nothing changed, if they are bad.
 */
int hb_estimator_retune(hb_estimator *e, const hb_estimator_settings *s, hb_error *err);

enum { HB_ESTIMATOR_TOGETHER = 9 };

/* Slides the window by one transition and, every solve_every samples, solves. */
void hb_estimator_push(hb_estimator *e, const hb_transition *t);
/* The same in two halves, for when samples come faster than they can be used one by one: up to HB_ESTIMATOR_TOGETHER
 * are staged, and then evaluated together for hardly more than the price of one, and solved once. False: a number was
 * not finite, and the transition is counted as rejected. */
bool hb_estimator_stage(hb_estimator *e, const hb_transition *t);
void hb_estimator_settle(hb_estimator *e);

const hb_real *hb_estimator_coefficients(const hb_estimator *e); /* hb_model_ncoefficients; zero while warming up */
const double *hb_estimator_variance(const hb_estimator *e);      /* covariance diagonal, same shape */
const hb_health *hb_estimator_health(const hb_estimator *e);
/* Takes given coefficients (restored from a file), until the window is warm. */
void hb_estimator_seed(hb_estimator *e, const hb_real *coefficient);

#endif
