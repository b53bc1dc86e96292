/* Sampling-plus-gradient planning that can be stopped at any moment.
 *
 * The current plan is always the best candidate that was evaluated in full: valid, finite and clamped. Draws are
 * keyed by (seed, tick, sample): the same seed gives the same bytes for any number of threads. */
#ifndef HB_PLANNER_H
#define HB_PLANNER_H

#include <stdbool.h>

#include "plan/cost.h"
#include "plan/decisions.h"
#include "plan/time_budget.h"
#include "base/pool.h"
#include "base/setting_rows.h"
#include "dynamics/predictor.h"

#define HB_PLANNER_METHODS(X)                                                                                          \
    X(GRADIENT, "gradient", "Adam on all samples in parallel, best wins (the paper's)")                                \
    X(MPPI, "mppi", "model predictive path integral: exponentially weighted mean")                                     \
    X(GAUSS_NEWTON, "gauss_newton", "second-order descent from the warm start and the best samples")

typedef enum {
#define X(id, name, help) HB_PLANNER_##id,
    HB_PLANNER_METHODS(X)
#undef X
        HB_PLANNER_NMETHODS
} hb_planner_method;

extern const char *const hb_planner_method_name[], *const hb_planner_method_help[];

typedef struct hb_planner_settings {
    hb_planner_method method;
    int samples, horizon, iterations; /* ns, nh, and the most iterations per plan */
    double dt;                        /* seconds per step; 0: the model's */
    double learning_rate;             /* of Adam, in units of each control's range */
    double clip;                      /* norm of the gradient of one step's controls, at most */
    double noise;                     /* standard deviation of samples, in units of each control's range */
    double noise_correlation;         /* of successive steps, 0 (white) .. 1 */
    double temperature;               /* of MPPI, relative to the spread of costs */
    double tolerance;                 /* a gain in cost that is not worth a second-order step */
    bool prepare;                     /* hb_controller_prepare may do something */
    double prepare_share;             /* of a processor's time, that it may take */
    uint64_t seed;
    /* u = trim + B v: ndirections columns of B, each nu; 0: identity */
    int ndirections;
    double direction[HB_MAX_CONTROLS * HB_MAX_CONTROLS]; /* ndirections x nu */
} hb_planner_settings;

enum { HB_PLANNER_BYTES = 1 << 30 };

/* Defaults and rows: planner_settings.c. */
extern const hb_planner_settings hb_planner_defaults;
hb_setting_rows hb_planner_rows(void);
/* The check that hb_planner_new and hb_planner_retune make, for callers that want the answer first: 0, or -EINVAL with
 * "key: why". */
int hb_planner_check(const hb_model *m, const hb_planner_settings *s, hb_error *err);
/* Bytes that a planner takes, about; what the check holds against HB_PLANNER_BYTES. */
double hb_planner_memory(const hb_model *m, const hb_planner_settings *s, int nthreads);
/* Of planner.directions, or one for each control. */
static inline int hb_planner_ndirections(const hb_planner_settings *s, const hb_model *m)
{
    return s->ndirections ? s->ndirections : m->nu;
}

typedef struct hb_plan {
    const double *action; /* horizon x nu, physical, within bounds; row 0 is to be applied first */
    double cost;
    int iterations;   /* complete ones */
    uint64_t pieces;  /* of work done */
    uint64_t dropped; /* candidates that were not finite */
    /* Second-order steps would gain nothing worth while; the other methods: all iterations were made. Tested at
     * the state given and with the model given, not at what was expected. Of one that is not verified: it minimises the
     * model of the cost. */
    bool converged;
    bool out_of_time;              /* there was work that the deadline left no time for */
    uint64_t prepared;             /* stages of hb_planner_prepare that came before it */
    bool corrected;                /* it began with what was prepared; false: planned in full */
    bool verified;                 /* cost and states are a rollout's; false: predicted, see hb_planner_disagreed */
    bool evaluated;                /* false: no candidate could be evaluated; action is the shifted last plan or trim */
    const hb_decisions *decisions; /* what it took from the clock */
    const char *
        limit; /* name of the limit that it breaks most, "trained range" when its states are not possible; NULL: none */
} hb_plan;

typedef struct hb_planner hb_planner;

/* The pool is borrowed. */
int hb_planner_new(hb_planner **ret, const hb_model *m, const hb_planner_settings *s, const hb_cost *c, hb_pool *pool,
                   hb_error *err);
void hb_planner_free(hb_planner *p);
/* Changes what may change between two plans: cost weights and the numbers of the settings, sizes within those given
 * at first. -EINVAL and no change otherwise. */
int hb_planner_retune(hb_planner *p, const hb_planner_settings *s, const hb_cost *c, hb_error *err);

/* Forgets the warm start. */
void hb_planner_reset(hb_planner *p);
/* Goes on with the current plan of another planner with as many controls, steps and directions: that of another model
 * of the same vehicle. */
void hb_planner_take_over(hb_planner *p, const hb_planner *from);
/* Seconds per step of the current plan: hb_goal.step of the last plan, or the settings'. */
double hb_planner_step(const hb_planner *p);
/* Moves the warm start on by a number of steps (a fraction is interpolated between steps). */
void hb_planner_shift(hb_planner *p, double steps);
/* Plans from x0 (nx, physical) until it converges, has done its iterations, or `deadline` (a value of clock->now)
 * is near. tick keys the random draws. The result stays valid until the next call. */
const hb_plan *hb_planner_plan(hb_planner *p, const hb_predictor *model, const double *x0, const hb_goal *goal,
                               uint64_t tick, const hb_clock *clock, double deadline);
/* The same, beginning with what hb_planner_prepare has made ready, if that fits: the model and the goal may have
 * changed since, and the time of the request may be off by a step. */
const hb_plan *hb_planner_feedback(hb_planner *p, const hb_predictor *model, const double *x0, const hb_goal *goal,
                                   uint64_t tick, const hb_clock *clock, double deadline);
/* Between plans: makes ready for a request that comes `seconds` after the last one, the first action having been held
 * until then. Goes on where an earlier call for the same request left off. Stops when there is nothing left to do, at
 * the deadline, when *interrupt (may be NULL) becomes true, or when `most` stages are done; returns how many are. The
 * same number of stages leads to the same bytes. The current plan stays as it is. */
uint64_t hb_planner_prepare(hb_planner *p, const hb_predictor *model, double seconds, const hb_clock *clock,
                            double deadline, const atomic_bool *interrupt, uint64_t most);
bool hb_planner_prepared(const hb_planner *p); /* nothing is left to do */
/* Plans so far whose cost was predicted, and not confirmed by the rollout that preparing begins with. The plan after
 * one is verified before it is given. */
uint64_t hb_planner_disagreed(const hb_planner *p);
/* Would hb_planner_feedback begin with what was prepared, now and with steps of so many seconds? */
bool hb_planner_ready(const hb_planner *p, double step);
uint64_t hb_planner_stages(const hb_planner *p); /* done for the next request by now */
/* What was prepared since the last plan: calls of hb_planner_prepare, and what they took from the clock. As many calls
 * with these decisions lead to the same bytes. */
typedef struct hb_prepared {
    uint64_t calls;
    hb_decisions decisions;
} hb_prepared;
const hb_prepared *hb_planner_preparing(const hb_planner *p);
/* From here on, the clock is not asked: questions are answered as they were answered before, for preparations and for
 * plans. */
void hb_planner_script(hb_planner *p, const hb_decisions *preparing, const hb_decisions *planning);
/* The current plan as it stands: after a shift, what to apply when there is no time to plan. */
const double *hb_planner_current(const hb_planner *p);
/* Predicted states of the last plan: (horizon + 1) x nx, physical. */
const double *hb_planner_states(const hb_planner *p);

#endif
