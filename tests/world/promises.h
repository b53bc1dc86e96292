/* What the daemon promises whatever happens, written down once; the world checks it after every event. */
#ifndef HB_PROMISES_H
#define HB_PROMISES_H

#define PROMISES(X)                                                                                                    \
    X(ANSWERED_ONCE, "answered-once", "each request that is received gets exactly one reply, under its own id")        \
    X(ANSWERED_IN_TIME, "answered-in-time", "no request waits for more than two budgets after receipt")                \
    X(LATE_IS_TOLD, "late-is-told", "a reply tells how long it took, and one beyond its budget is counted")            \
    X(ACTION_IN_BOUNDS, "action-in-bounds", "actions are finite and within the model's bounds")                        \
    X(STATUS_IS_TRUE, "status-is-true", "a reply's status is never better than what is true")                          \
    X(COUNTERS_ADD_UP, "counters-add-up", "counters agree with what was received and sent")                            \
    X(GUESTS_ARE_TOLD, "guests-are-told", "replies tell guests from the pilot")                                        \
    X(CONTROL_ANSWERED, "control-answered", "each request of the control socket gets exactly one reply")               \
    X(WINDOW_KEPT, "window-kept", "after a restart window and coefficients are those before it")                       \
    X(STOPS, "stops", "asked to stop, the daemon answers what it has and ends within a second")                        \
    X(RECORDED, "recorded",                                                                                            \
      "a recording holds what was sent, in order; what is missing is counted and marked as a gap")                     \
    X(CALM_FLIES, "calm-flies", "in calm weather a vehicle of the trained kind does not crash")

typedef enum {
#define X(id, name, meaning) PROMISE_##id,
    PROMISES(X)
#undef X
        NPROMISES
} promise;

extern const char *const promise_name[], *const promise_meaning[];

#endif
