/* Transitions -> coefficients and their health.
 *
 * With least squares the coefficients follow from one probabilistic model of what a transition can be (belief.h). With
 * the inner product, or without `posterior`, they are those of the window alone, as in the paper (regression.h).
 * Controls are what the actuators made of the commands (effective_controls.h).
 *
 * A window is so many seconds of the model's periods. It keeps evaluated increments, so a transition costs one
 * evaluation of the basis, one update, one downdate and one solve. No clock: time is what the transitions say. */
#ifndef HB_ESTIMATOR_H
#define HB_ESTIMATOR_H

#include <stdbool.h>

#include "base/setting_rows.h"
#include "base/status.h"
#include "dynamics/actuators.h"
#include "dynamics/transition.h"
#include "model/model.h"

#define HB_ESTIMATE_STATUSES(X)                                                                                        \
    X(WARMING_UP, "warming-up", "too few samples yet: the average model is in use")                                    \
    X(SINGULAR, "singular", "the window does not determine the coefficients: the last good ones are kept")             \
    X(OK, "ok", "the coefficients fit the window")                                                                     \
    X(OUT_OF_SPAN, "out-of-span", "no coefficients explain what is seen: this vehicle is outside the trained space")   \
    X(IMPLAUSIBLE, "implausible", "what is reported cannot be believed just now: the coefficients are kept")

typedef enum {
#define X(id, name, help) HB_ESTIMATE_##id,
    HB_ESTIMATE_STATUSES(X)
#undef X
        HB_ESTIMATE_NSTATUSES
} hb_estimate_status;

extern const char *const hb_estimate_status_name[]; /* HB_ESTIMATE_NSTATUSES */

/* What stands between commands and controls. */
typedef struct hb_actuator_settings {
    double delay, lag;  /* of all, in seconds; < 0: not given, but the model's, or found in flight */
    int ndelays, nlags; /* of the following, each 0 or nu: where there are some, none is found in flight */
    double delays[HB_MAX_CONTROLS], lags[HB_MAX_CONTROLS]; /* of single controls; < 0: as of all */
    bool identify;                                         /* find what is not given in flight */
    double max_delay, max_lag;                             /* seconds, that are looked for */
} hb_actuator_settings;

typedef struct hb_estimator_settings {
    double window;     /* seconds kept, in the model's periods */
    double warmup;     /* seconds before coefficients are used; < 0: 1 without a prior in the model, none with one */
    int solve_every;   /* transitions in which everything is solved once, >= 1; per-state problems take turns */
    hb_method method;  /* must be allowed by the model */
    bool posterior;    /* with least squares: prior, noise, memory and judgement; false: the window alone */
    double ridge;      /* lambda; < 0: the model's. A prior in the model takes its place */
    double forgetting; /* weight of a transition relative to the next newer one, 0 < f <= 1; without posterior */
    bool detect_changes;
    double change_interval; /* seconds between changes, in the mean */
    double outlier_share;   /* of transitions that nothing explains */
    double span_threshold;  /* probability of being out of span from which the status says so */
    double plausible;       /* distance^2 from the trained population, per coefficient, from which it does too */
    hb_actuator_settings actuators;
} hb_estimator_settings;

enum {
    HB_ESTIMATOR_LARGEST = 100000, /* window, in transitions */
    HB_ESTIMATOR_ERRORS = 50,      /* transitions behind hb_estimator_mean_square, about */
};

/* Defaults and rows: estimator_settings.c. */
extern const hb_estimator_settings hb_estimator_defaults;
hb_setting_rows hb_estimator_rows(void);
hb_setting_rows hb_actuator_rows(void); /* of hb_actuator_settings */
/* The check that hb_estimator_new makes, for callers that want the answer first: 0, or -EINVAL with "key: why". */
int hb_estimator_check(const hb_model *m, const hb_estimator_settings *s, hb_error *err);

/* What is known of lag and delay, in seconds. */
typedef struct hb_actuator_belief {
    double lag, lag_deviation;
    double delay, delay_deviation;
    bool confident; /* both are known to a few milliseconds */
} hb_actuator_belief;

typedef struct hb_health {
    hb_estimate_status status;
    double one_step_error; /* RMS of the normalised one-step prediction error, recent samples, before they are used */
    double expected_error; /* the same over the window after the fit */
    double out_of_span;    /* probability that no trained vehicle behaves so; plain: fraction of the residual's energy
                              that no coefficients explain, 0..1, noise left out */
    double plausibility;   /* squared distance of the coefficients from the trained population, per coefficient: about 1
                              for a vehicle of it; 0 when the model has no prior */
    double adapted;        /* probability that adapting is of use: that the vehicle is neither the average one nor the
                              population's mean */
    double outlier;        /* probability that the newest transition is nothing that this vehicle does */
    double condition;      /* of the matrix that was solved with */
    double excitation;     /* smallest over largest diagonal element of A */
    double span_seconds;   /* time that the window covers */
    int samples;           /* in the window */
    uint64_t version;      /* counts solves that changed c */
    uint64_t changes;      /* changes of dynamics detected */
    uint64_t rejected;     /* non-finite transitions */
    uint64_t implausible;  /* transitions that were not believed */
    /* filled in by the controller */
    hb_actuator_belief actuators; /* what is known of lag and delay */
    hb_reason fault;              /* what is wrong with telemetry just now; HB_REASON_NONE: nothing */
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

/* Slides the window by one transition and, every solve_every transitions, solves. What the answer to the next request
 * does not need is left for later. */
void hb_estimator_push(hb_estimator *e, const hb_transition *t);
/* One piece of what was left: a young flight is explained again, the belief is kept. False: there was none. It changes
 * nothing that can be asked of the estimator; what comes of it is seen after the next transition, which does what is
 * still left then. So results do not depend on when, nor on whether, it is called. */
bool hb_estimator_work(hb_estimator *e);
/* The same in two halves, for when samples come faster than they can be used one by one: up to HB_ESTIMATOR_TOGETHER
 * are staged, then evaluated together, which takes little longer than one, and solved once. False: a number was
 * not finite, and the transition is counted as rejected. */
bool hb_estimator_stage(hb_estimator *e, const hb_transition *t);
void hb_estimator_settle(hb_estimator *e);

/* hb_model_ncoefficients; while warming up the mean of the prior, zero without one */
const hb_real *hb_estimator_coefficients(const hb_estimator *e);
const double *hb_estimator_variance(const hb_estimator *e); /* covariance diagonal, same shape */
/* The whole covariance: nb x nb, or nx of them with per-state coefficients. NULL without posterior. */
const double *hb_estimator_covariance(const hb_estimator *e);
/* Variance of a transition's noise, nx, normalised. NULL without posterior. */
const double *hb_estimator_noise(const hb_estimator *e);
/* The actuators that transitions are explained with: what is given, else the model's, else what was found in flight. */
const hb_actuators *hb_estimator_actuators(const hb_estimator *e);
/* What was found, and how certain it is; deviations are 0 for what is given. */
hb_actuator_belief hb_estimator_actuator_belief(const hb_estimator *e);
/* Of the one-step prediction errors of recent transitions before they are used: the mean square of each state, nx,
 * normalised. Old ones fade. */
const double *hb_estimator_mean_square(const hb_estimator *e);
const hb_health *hb_estimator_health(const hb_estimator *e);
/* Takes given coefficients (restored from a file), until the window is warm. */
void hb_estimator_seed(hb_estimator *e, const hb_real *coefficient);

#endif
