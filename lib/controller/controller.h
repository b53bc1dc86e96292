/* One vehicle's loop: observe, improve, command.
 *
 *     telemetry -> hb_controller_observe -> window -> coefficients --snapshot--> hb_controller_command -> action
 *
 * observe runs on one thread (the server's), command on another (the planner's): coefficients pass by an immutable
 * snapshot, never under a lock. Times are microseconds of the vehicle's clock where they come from the vehicle, and
 * seconds of the caller's monotonic clock where they say "now".
 *
 * A reply's status is the worst rung of the ladder that applies. Age of telemetry is measured on the caller's clock,
 * from the newest sample that continued one before it; before the first one there is no age, and nothing is stale. The
 * first request after a pause of both, or of a new episode, cannot have telemetry before it: telemetry then has
 * fallback_after from that request on to come in, during which plans are made and called stale. */
#ifndef HB_CONTROLLER_H
#define HB_CONTROLLER_H

#include "estimate/estimator.h"
#include "estimate/transitions.h"
#include "plan/planner.h"
#include "plan/reference.h"
#include "base/status.h"

enum { HB_MAX_VEHICLE_STATES = 64 }; /* of a vehicle that is configured and planned for */

typedef struct hb_controller_settings {
    hb_estimator_settings estimator;
    hb_planner_settings planner;
    hb_cost cost;
    int ntarget;                          /* 0 or nx */
    double target[HB_MAX_VEHICLE_STATES]; /* used when a request has none; physical */
    double safe_action[HB_MAX_CONTROLS];  /* nsafe_action = nu, or 0: the model's trim */
    int nsafe_action;
    double budget;                 /* seconds from receipt to reply, at most */
    double stale_after;            /* seconds without telemetry until replies say so: 0.1 */
    double fallback_after;         /* seconds without telemetry until the plan is no longer trusted: 0.2 */
    double safe_after;             /* seconds that the shifted last plan is flown before the safe action: 0.4 */
    double min_period, max_period; /* shortest transition and longest gap, of the model's period: 0.6, 3 */
    double delay;                  /* seconds from a request's state to the moment its action applies */
    bool adapt;                    /* false: the average model for ever, for comparison */
} hb_controller_settings;

/* Those of estimator and planner included; the cost is empty. */
hb_controller_settings hb_controller_defaults(void);
/* The rows of what is the controller's own: controller_settings.c. */
hb_setting_rows hb_controller_rows(void);
/* What hb_controller_new and hb_controller_retune ask, and whoever wants to know before: estimator, planner and cost
 * included. 0, or -EINVAL with "key: why", the key being that of the configuration. */
int hb_controller_check(const hb_model *m, const hb_controller_settings *s, hb_error *err);

typedef struct hb_request {
    int64_t time_us; /* vehicle's clock, of the state */
    const double *x; /* nx */
    int nx;
    const double *applied; /* nu: really applied since the last request; NULL: what was answered then */
    int napplied;
    const double *target; /* ntargets x nx; NULL: the configured one */
    int ntargets;         /* 0, 1 (a point) or horizon + 1 (a reference, a step of the plan apart from time_us on) */
    const double *target_time; /* ntargets, seconds after time_us, ascending: then any number of targets up to
                                  HB_REFERENCE_ROWS; NULL: none given */
    uint32_t reset_counter;    /* a change starts over: pairing of requests, warm start, commands under way */
    double received;           /* caller's clock when the request came in */
    double deadline;           /* the same clock when the command must be there; 0, or later than the configured budget
                                  after receipt: then */
    uint64_t tick;             /* keys the random draws; the caller counts requests */
    bool fresh;                /* the first one of another client than before: starts over, as reset_counter does */
    bool guest;                /* of someone who does not fly: planned from nothing, and answered without moving
                                  anything that later requests build on */
} hb_request;

typedef struct hb_command {
    const double *action; /* nu, physical: always finite and within bounds */
    hb_status status;
    hb_reason reason;
    const char *limit; /* with HB_STATUS_LIMITED or worse: the limit that the plan breaks, or the bound that allows no
                          trim; else NULL */
    double cost;
    const double *terms; /* what each term of the cost, then all limits together, add to it */
    int nterms;          /* those of the cost and one; 0: nothing was planned */
    int iterations;
    double planning;   /* seconds, from the request on */
    double preparing;  /* seconds spent before it, between requests */
    uint64_t stages;   /* of hb_controller_prepare that the plan began with */
    bool guest;        /* the request was one's */
    bool corrected;    /* it began with what they had prepared; false: it was made from nothing but the last plan */
    uint64_t version;  /* of the coefficients */
    uint64_t snapshot; /* number of the telemetry thread's snapshot that it was made with */
    double begun;      /* caller's clock when it was begun */
    bool immediate;    /* by hb_controller_fallback: nobody tried to plan */
    const hb_prepared *prepared;   /* what was prepared before it; NULL: there is no planner */
    const hb_decisions *decisions; /* what planning took from the clock; NULL: nothing was planned */
    double age; /* seconds since the newest sample behind the coefficients; infinite before the first */
    hb_health health;
    const double *plan;   /* horizon x nu */
    const double *states; /* (horizon + 1) x nx */
    int horizon;          /* 0: there is no planner */
    double step;          /* seconds of each of the plan's */
} hb_command;

typedef struct hb_counters {
    uint64_t observations; /* samples taken in */
    uint64_t transitions;  /* of these, joined into transitions */
    uint64_t commands;
    uint64_t status[HB_NSTATUSES];   /* of commands */
    uint64_t set_aside[HB_NREASONS]; /* samples, by reason */
    uint64_t refused[HB_NREASONS];   /* requests answered without a plan (fallback, refused), by reason */
    uint64_t dropped_candidates;
    uint64_t corrected;      /* plans that began with what was prepared */
    uint64_t prepare_stages; /* of all preparations */
    uint64_t prepare_us;     /* microseconds that they took */
    uint64_t predicted;      /* plans that the prepared model gave alone, to be verified behind the reply, */
    uint64_t disagreed;      /* and of these, those whose rollout did not cost what was predicted */
} hb_counters;

typedef struct hb_controller hb_controller;

/* `memory` is hb_estimator_new's. For a model without controls there is nothing to plan: it learns and predicts, and
 * refuses to command. */
int hb_controller_new(hb_controller **ret, const hb_model *m, const hb_controller_settings *s, hb_pool *pool,
                      void *memory, hb_error *resumed, hb_error *err);
void hb_controller_free(hb_controller *c);

/* Thread of telemetry. Returns HB_REASON_NONE when the sample completed a transition, else why not. `now` is the
 * caller's clock. */
hb_reason hb_controller_observe(hb_controller *c, const hb_observation *o, double now);
/* The same for a backlog, all of it except its last sample: what they cost is shared, and the estimate follows with
 * hb_controller_observe. A sample that the model cannot evaluate is then counted for one of those it came with. */
hb_reason hb_controller_observe_more(hb_controller *c, const hb_observation *o, double now);
/* Thread of telemetry: one piece of the work that samples have left for later, see hb_estimator_work; false: there was
 * none. The next sample does what is left then, so it is for moments in which nothing else waits, and at the end. */
bool hb_controller_work(hb_controller *c);
/* Thread of telemetry, for every request before it is handed to the thread of planning: a bridge that sends no
 * telemetry adapts through its requests. The state of the request before, `applied` and this state make a transition.
 * Telemetry, as long as it is not stale, goes first: then, and without `applied`, the request is set aside uncounted
 * (HB_REASON_FIRST). Where samples repeat the states of the requests before them, a request is taken as the sample that
 * will follow it, which is then counted but not used again. */
hb_reason hb_controller_observe_request(hb_controller *c, const hb_request *r, double now);
/* Thread of telemetry. What another controller of the same vehicle answered, and from when on it is in force. */
void hb_controller_hear(hb_controller *c, int64_t from_us, const double *action);
/* Thread of telemetry. A request was answered with this action (nu) without the thread of planning, which did not come
 * back: what that one answers later was never sent, and counts for nothing. */
void hb_controller_answered(hb_controller *c, const hb_request *r, const double *action);
/* The same of an answer that was given, where both threads are one: of a flight that is decided on once more, where the
 * vehicle went on under what was answered then. */
void hb_controller_flown(hb_controller *c, const hb_request *r, const double *action);
void hb_controller_forget(hb_controller *c); /* reset the window */
/* The estimator's, except one_step_error, which is that of the model in use: the average without adapt. */
const hb_health *hb_controller_health(const hb_controller *c);
const hb_real *hb_controller_coefficients(const hb_controller *c, const double **variance);
const double *hb_controller_covariance(const hb_controller *c); /* hb_estimator_covariance */
/* RMS one-step prediction error of recent transitions, before they are used and with the coefficients then known, in
 * units of std (nx): so that those of two models can be compared. */
double hb_controller_error(const hb_controller *c, const double *std);
/* Takes given coefficients (restored from a file), until the window is warm. -EBUSY when it is, and -EINVAL for
 * coefficients that no vehicle of the trained population has: then nothing is taken. */
int hb_controller_seed(hb_controller *c, const hb_real *coefficient, hb_error *err);

/* Thread of planning. The command stays valid until the next call of command or fallback. */
const hb_command *hb_controller_command(hb_controller *c, const hb_request *r, const hb_clock *clock);
/* Thread of planning, behind an answer: prepares for the next request, expected after the usual time, until there is
 * nothing left to do, planner.prepare_share is used up, *interrupt (may be NULL) becomes true, or `most` stages are
 * done in all. Answers given before stay as they are. Returns whether it is worth calling again after an interruption.
 * The same number of stages leads to the same bytes: a command tells how many there were. */
bool hb_controller_prepare(hb_controller *c, const hb_clock *clock, const atomic_bool *interrupt, uint64_t most);
/* Thread of planning. Whether the next command will, as far as one can tell, be a quick correction: all is prepared for
 * it, and the last one was. */
bool hb_controller_will_correct(hb_controller *c);
/* Thread of planning. An answer without planning, at once: the last plan shifted to the request's time, then the safe
 * action. */
const hb_command *hb_controller_fallback(hb_controller *c, const hb_request *r, hb_reason why, double now);
/* Thread of planning. Plans once from x (nx) to the configured target, or to x where there is none, as a command would;
 * the thread of telemetry is not told of it. */
const hb_command *hb_controller_dry_run(hb_controller *c, const double *x, double budget, const hb_clock *clock);
/* Thread of planning. Trajectory of a given control sequence (steps x nu) with the newest coefficients: states
 * (steps + 1) x nx, the first one x. */
int hb_controller_predict(hb_controller *c, const double *x, const double *controls, int steps, double dt,
                          double *states, hb_error *err);
/* While neither thread is in another call. Changes everything but the window, how it is solved (of the estimator only
 * detect_changes and thresholds change) and the limits of a transition's period: a different value there is -EINVAL, as
 * is what hb_planner_retune refuses; then nothing changes. */
int hb_controller_retune(hb_controller *c, const hb_controller_settings *s, hb_error *err);

/* While neither thread of either is in another call. `to`, of another model of the same vehicle with the same sizes and
 * horizon, goes on where `from` is: with its plan, its commands under way, what it knows of requests, and its counters,
 * which it exchanges for its own. Coefficients and windows stay with their models. */
void hb_controller_take_over(hb_controller *to, hb_controller *from);

/* ---- for recorders, and for replays of what the two threads did on one thread ---- */

/* Thread of telemetry: snapshots handed to the other thread so far, and answers heard from it. */
uint64_t hb_controller_snapshots(const hb_controller *c);
uint64_t hb_controller_heard(const hb_controller *c);
/* Thread of telemetry: from here on no answers beyond the first so many are heard, though there may be more. */
void hb_controller_hear_until(hb_controller *c, uint64_t answers);
/* Thread of planning: number of the snapshot taken last. */
uint64_t hb_controller_snapshot_taken(const hb_controller *c);
/* Thread of planning: what was prepared since the last command; NULL: there is no planner. */
const hb_prepared *hb_controller_prepared(hb_controller *c);
/* Thread of planning: from here on decisions of preparations and plans are these, and no clock makes them. */
void hb_controller_script(hb_controller *c, const hb_decisions *preparing, const hb_decisions *planning);

/* Sum of both threads' counters, each read once; safe from any thread. */
void hb_controller_counters(const hb_controller *c, hb_counters *ret);

#endif
