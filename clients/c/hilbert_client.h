/* libhilbert-client: give hilbertd telemetry, ask it for actions.
 *
 *     hilbert_client *h;
 *     hilbert_connect(&h, NULL, NULL, 0);                         the daemon's default sockets
 *     for (;;) {
 *         hilbert_publish(h, &telemetry);                         as often as the vehicle samples
 *         if (hilbert_request(h, &request, 0.01, &reply) == 0)    as often as it wants an action
 *             apply(reply.action);
 *     }
 *     hilbert_close(h);
 *
 * Names, units and bounds: hilbert_get_model. How the daemon is: hilbert_get_status, hilbert_next_status. Where to go:
 * hilbert_set_target. What would happen: hilbert_predict. hilbert_client(3) has it all on a page.
 *
 * Every call returns 0 or a negative errno value; hilbert_error says the rest in words. No call blocks longer than its
 * time-out or allocates memory of ours. The connection comes back by itself when the daemon does: after an error, call
 * again. A client belongs to one thread at a time. Vectors are in physical units and the model's order; their memory
 * is the caller's on the way in, and the client's, until the next call, on the way out. */
#ifndef HILBERT_CLIENT_H
#define HILBERT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct hilbert_client hilbert_client;

/* How good an action is, from best to worst. */
typedef enum {
    HILBERT_CONVERGED = 1, /* by the model, less than 1.5 % of the cost is left to gain */
    HILBERT_TRUNCATED,     /* the best plan so far: the reason says what ended it */
    HILBERT_WARMING_UP,    /* too few samples: the average model was used */
    HILBERT_OUT_OF_SPAN,   /* the vehicle behaves as no trained dynamics do */
    HILBERT_STALE,         /* telemetry is old */
    HILBERT_FALLBACK,      /* no plan was made: the last plan shifted, then the safe action */
    HILBERT_REFUSED,       /* the request could not be answered: see the reason */
    HILBERT_LIMITED,       /* the best plan breaks a limit, or bounds allow no trim; better than warming-up */
} hilbert_status;

/* All may be left zero. */
typedef struct hilbert_options {
    const char *telemetry;  /* endpoints; NULL: ipc:///run/hilbertd/telemetry; "": none will be sent */
    const char *actions;    /* NULL: ipc:///run/hilbertd/actions */
    const char *control;    /* of hilbert_get_model and the like; NULL: ipc:///run/hilbertd/control */
    const char *server_key; /* file with the daemon's public key, and */
    const char *client_key; /* file with our secret key, for CURVE; both NULL: none */
    int max_message;        /* bytes of the largest message; 0: 262144 */
    double
        connect_timeout; /* how long hilbert_connect waits for the daemon, seconds; 0: 1 second; below 0: not at all */
    const char *name;    /* of this client, by which security.pilot tells it; NULL: none */
    /* For simulators, with a daemon whose latency.clock is vehicle: time is the vehicle's, and stands still until a
     * request is answered. What is published goes with the next request, which is answered once it was learned from.
     * The same flight then gives the same replies to the byte, whatever this machine and its load. */
    bool lockstep;
    const char *status; /* of hilbert_next_status; NULL: ipc:///run/hilbertd/status */
} hilbert_options;

/* The state at a moment, and the control in force from that moment on. */
typedef struct hilbert_telemetry {
    int64_t time_us; /* vehicle's clock */
    const double *state;
    int nstate;
    const double *control;
    int ncontrol;
    uint32_t reset_counter; /* change it when the state jumped */
} hilbert_telemetry;

typedef struct hilbert_action_request {
    int64_t time_us; /* of the state, vehicle's clock */
    const double *state;
    int nstate;
    const double *target; /* a state, or one for each step of the horizon and the end; NULL: the configured one */
    int ntarget;
    const double *applied; /* the control really applied since the last request; NULL: what was answered then */
    int napplied;
    double budget; /* seconds; 0: the configured one. The smaller holds */
    bool want_plan;
    uint32_t reset_counter;    /* as in telemetry */
    const double *target_time; /* one for each of the target's states: seconds after time_us, ascending; NULL: none */
    int ntarget_time;
} hilbert_action_request;

typedef struct hilbert_action_reply {
    hilbert_status status;
    const char *reason;   /* of refused and fallback: "late", "not-finite", ...; else "none" */
    const char *detail;   /* a refusal in words, or empty */
    const double *action; /* within bounds; naction is 0 when the request never reached the planner */
    int naction;
    double cost;
    int iterations;
    double queue, planning, total; /* seconds in the daemon: waiting, planning, receipt to reply */
    double preparing;              /* seconds spent on it before the request came */
    bool corrected;                /* the plan began with what was prepared then */
    uint64_t coefficient_version;
    double coefficient_age; /* seconds since the newest sample behind the coefficients; may be infinite */
    const char *estimate;   /* "warming-up", "singular", "ok", "out-of-span" or "implausible" */
    double one_step_error;  /* of the adapted model, normalised RMS */
    double out_of_span;     /* 0..1 */
    const double *plan;     /* with want_plan: steps x controls */
    int nplan;
    const double *predicted; /* with want_plan: (steps + 1) x states */
    int npredicted;
    const char *limit; /* the configured limit that the plan breaks most, "trim: CONTROL below BOUND", or empty */
    bool guest;        /* another client flies: this was planned from nothing, and moved nothing */
    /* what is wrong with telemetry just now: "none", or "not-finite", "frozen", "behind", "implausible", ... */
    const char *fault;
} hilbert_action_reply;

/* options may be NULL. Waits for the daemon as long as connect_timeout says, so that the first request finds it; 0 is
 * returned also when there is none yet: the connection is made in the background once there is. -EINVAL for an endpoint
 * or a key that cannot be used; the text goes to error_text (error_size bytes) unless it is NULL. The thread that
 * carries the messages starts here, with the caller's real-time scheduling if it has one: set that before. */
int hilbert_connect(hilbert_client **ret, const hilbert_options *options, char *error_text, int error_size);
void hilbert_close(hilbert_client *h); /* NULL is fine */

/* Never waits: while the daemon is away samples are lost, as they would be on a wire. Sequence numbers are added. In
 * lock-step none is lost: it is kept for the next request (-EMSGSIZE: more than a message holds). */
int hilbert_publish(hilbert_client *h, const hilbert_telemetry *t);

/* Asks, and waits at most `timeout` seconds for the answer.
 *     -ETIMEDOUT     no answer came (it is ignored should it still come)
 *     -ENOTCONN      there was no daemon to ask within the time-out
 *     -EMSGSIZE      the request is larger than max_message
 *     -EPROTO        the answer could not be understood
 * 0 means that there is a reply; look at its status. */
int hilbert_request(hilbert_client *h, const hilbert_action_request *r, double timeout, hilbert_action_reply *ret);

/* The same in two halves, for a caller with something to do in between. Asking again gives the earlier question up. */
int hilbert_ask(hilbert_client *h, const hilbert_action_request *r, double timeout);
int hilbert_answer(hilbert_client *h, double timeout, hilbert_action_reply *ret); /* timeout 0: look and return */

/* For a caller's own poll, epoll or select: a descriptor that becomes readable when something may have changed. It
 * tells so once, like an edge: after each hilbert_ask, and whenever it is readable, call hilbert_answer with a time-out
 * of 0 until it returns -ETIMEDOUT. Never read from it. The client owns it. */
int hilbert_descriptor(hilbert_client *h);
/* The same for hilbert_next_status, which it subscribes for; negative: it failed. */
int hilbert_status_descriptor(hilbert_client *h);

/* A state or a control of the model. */
typedef struct hilbert_channel {
    const char *name, *unit;
    double min, max, trim; /* of controls; 0 for states */
} hilbert_channel;

typedef struct hilbert_model_info {
    const char *path;
    uint64_t hash;
    const hilbert_channel *state, *control;
    int nstates, ncontrols, basis_functions;
    double dt;      /* nominal control period, seconds */
    int horizon;    /* steps of a plan, */
    double plan_dt; /* seconds each */
} hilbert_model_info;

typedef struct hilbert_daemon_status {
    const char *name, *version;
    double uptime;                       /* seconds */
    double telemetry_rate, request_rate; /* per second */
    double telemetry_age;                /* seconds since the newest sample; infinite before the first */
    hilbert_status last_status;          /* of the newest reply; 0 before the first */
    const char *estimate;                /* "warming-up", "singular", "ok" or "out-of-span" */
    double one_step_error, out_of_span;
    const double *coefficient;
    int ncoefficients;
    const double *target; /* in force: the newest request's, else the configured one; ntarget is 0 when there is none */
    int ntarget;
    bool adapting;          /* plans are made with the coefficients; else with the average model */
    const double *variance; /* of the coefficients; nvariance is 0 or ncoefficients */
    int nvariance;
    const char *fault; /* as in a reply */
} hilbert_daemon_status;

/* What the daemon believes of its vehicle: mean and covariance of the coefficients. */
typedef struct hilbert_coefficients {
    uint64_t model_hash, version;
    const double *value, *variance; /* n */
    int n;
    const double *covariance; /* lower triangle row by row, with per-state coefficients one for each state; */
    int ncovariance;          /* 0: there is none, or it is too large for a message */
} hilbert_coefficients;

/* Questions over the control socket, which is opened by the first of them. They return as hilbert_request does, and
 * -EINVAL when the daemon refuses: hilbert_error says why. */
int hilbert_get_model(hilbert_client *h, double timeout, hilbert_model_info *ret);
int hilbert_get_status(hilbert_client *h, double timeout, hilbert_daemon_status *ret);
int hilbert_get_coefficients(hilbert_client *h, double timeout, hilbert_coefficients *ret);
/* The target of requests that name none: all states, in the model's order. Until the next reload or restart. */
int hilbert_set_target(hilbert_client *h, const double *target, int ntarget, double timeout);
/* Has the daemon forget its window and the coefficients. */
int hilbert_reset_window(hilbert_client *h, double timeout);
/* Has it read its configuration again. needs_restart (may be NULL): keys that hold only after a restart, with NULL at
 * the end; a file that is wrong changes nothing and is -EINVAL. */
int hilbert_reload(hilbert_client *h, double timeout, const char *const **needs_restart);
/* Has the shadow's model fly from the next request on; the one in use becomes the shadow. */
int hilbert_promote(hilbert_client *h, double timeout);

/* Trajectories of given controls with the coefficients of now. */
typedef struct hilbert_prediction_request {
    int count, steps;      /* trajectories, and steps of each */
    double dt;             /* seconds a step; 0: the model's */
    const double *state;   /* count x nx: where each starts */
    int nstate;            /* numbers in it */
    const double *control; /* count x steps x nu */
    int ncontrol;
} hilbert_prediction_request;

typedef struct hilbert_prediction {
    int count, steps;
    const double *state; /* count x (steps + 1) x nx; the first of each is its start */
    int nstate;
    uint64_t coefficient_version;
} hilbert_prediction;

int hilbert_predict(hilbert_client *h, const hilbert_prediction_request *r, double timeout, hilbert_prediction *ret);

/* The next state that the daemon publishes by itself, a few times a second; the first call subscribes. -ETIMEDOUT: none
 * came. Those that are not taken in time are lost, the oldest last. */
int hilbert_next_status(hilbert_client *h, double timeout, hilbert_daemon_status *ret);

/* Of the last call on this client, if it failed; empty after one that did not. */
const char *hilbert_error(const hilbert_client *h);
const char *hilbert_status_name(hilbert_status status);
/* Whether a plan from the given state stands behind the action: every status but fallback and refused. */
bool hilbert_is_planned(hilbert_status status);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
