/* The words that replies and counters speak in: how good an answer is, and why something was not used. */
#ifndef HB_STATUS_H
#define HB_STATUS_H

#include <stdbool.h>

/* The ladder: every reply carries one, from best to worst, and each is counted. */
#define HB_STATUSES(X)                                                                                                 \
    X(CONVERGED, "converged", "by the model, less than 1.5 % of the cost is left to gain")                             \
    X(TRUNCATED, "truncated", "the best plan so far: the reason says what ended it")                                   \
    X(LIMITED, "limited", "the best plan breaks a limit, or bounds allow no trim at the target: the reply names it")   \
    X(WARMING_UP, "warming-up", "too few samples: the average model was used")                                         \
    X(OUT_OF_SPAN, "out-of-span", "the vehicle behaves as no trained dynamics do")                                     \
    X(STALE, "stale", "telemetry is old")                                                                              \
    X(FALLBACK, "fallback", "no plan was made: the last plan shifted, then the safe action")                           \
    X(REFUSED, "refused", "the request could not be answered: see the reason")

typedef enum {
#define X(id, name, help) HB_STATUS_##id,
    HB_STATUSES(X)
#undef X
        HB_NSTATUSES
} hb_status;

extern const char *const hb_status_name[], *const hb_status_help[];

/* Why a request was refused or a sample set aside; each is counted. */
#define HB_REASONS(X)                                                                                                  \
    X(NONE, "none", "")                                                                                                \
    X(DIMENSION, "dimension", "the number of states or controls is not the model's")                                   \
    X(NOT_FINITE, "not-finite", "a number is NaN or infinite")                                                         \
    X(FIRST, "first", "the first sample: there is nothing to join it with")                                            \
    X(GAP, "gap", "too long after the sample before it")                                                               \
    X(OUT_OF_ORDER, "out-of-order", "not later than the sample before it")                                             \
    X(RESET, "reset", "the vehicle was reset")                                                                         \
    X(GATHERED, "gathered", "part of a transition to come, which spans the model's period")                            \
    X(NO_TARGET, "no-target", "neither the request nor the configuration names a target")                              \
    X(LATE, "late", "the request had waited longer than its budget")                                                   \
    X(MALFORMED, "malformed", "the message could not be understood")                                                   \
    X(HORIZON, "horizon", "the reference trajectory does not fit the horizon")                                         \
    X(BAD_TIME, "bad-time", "the time is negative or impossibly large")                                                \
    X(SUPERSEDED, "superseded", "a newer request of the same client replaced it")                                      \
    X(BUSY, "busy", "more clients wait than the daemon serves at once")                                                \
    X(STALLED, "stalled", "the planner did not come back in time: the last plan goes on")                              \
    X(STOPPING, "stopping", "the daemon is shutting down")                                                             \
    X(STALE, "stale", "no telemetry for too long: the plan is not trusted")                                            \
    X(TOO_LARGE, "too-large", "the message is larger than the daemon takes")                                           \
    X(NO_CONTROLS, "no-controls", "the model has no controls: there is nothing to plan")                               \
    X(IMPLAUSIBLE, "implausible", "the vehicle cannot have moved like that, or channels contradict each other")        \
    X(QUATERNION, "quaternion", "the attitude is not a quaternion of length one")                                      \
    X(FROZEN, "frozen", "the time advances, and the state or a channel of it does not")                                \
    X(BAD_CONTROL, "bad-control", "a reported control is outside the model's bounds")                                  \
    X(OUTSIDE, "outside", "the target is outside the configured limits")                                               \
    X(LOST_CONTROL, "lost-control", "samples were lost while the control changed")                                     \
    X(BEHIND, "behind", "telemetry is older than the requests, by the vehicle's clock")                                \
    X(CLOCK, "clock", "in lock-step, but latency.clock is machine; or not, but it is vehicle")                         \
    X(DEADLINE, "deadline", "a plan was ended by its deadline: more could be gained")                                  \
    X(ITERATIONS, "iterations", "a plan made all its iterations, or none gained anything: more may be left")           \
    X(MIXED, "mixed", "more than one publisher: reset_counter goes to and fro between theirs")

typedef enum {
#define X(id, name, help) HB_REASON_##id,
    HB_REASONS(X)
#undef X
        HB_NREASONS
} hb_reason;

extern const char *const hb_reason_name[], *const hb_reason_help[];

/* Whether a sample that was set aside for this reason says that something is wrong with telemetry. */
bool hb_reason_is_fault(hb_reason reason);

#endif
