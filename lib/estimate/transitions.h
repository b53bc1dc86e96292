/* Samples of telemetry into transitions that span about one period of the model, whatever the rate.
 *
 *     samples    |  | |  |  |  | |  |  |  | |  |  |  |
 *     ends       [----]           [----]           [----]      means over a quarter of a period
 *     transition    |----------------|----------------|        from end to end
 *
 * Noise of a transition then does not grow with the rate, and its signal does not shrink. Where samples come less often
 * than that, each is an end. A gap, a reset, a clock that goes back, or lost samples around a change of control start
 * over: no transition is made across them. What was commanded comes from the command history. */
#ifndef HB_TRANSITIONS_H
#define HB_TRANSITIONS_H

#include "base/status.h"
#include "dynamics/transition.h"
#include "estimate/command_history.h"
#include "model/rotations.h"

/* A telemetry sample: state x at `time`, and the control in force from then on. */
typedef struct hb_observation {
    int64_t time_us; /* vehicle's clock */
    const double *x; /* nx */
    int nx;
    const double *u; /* nu; NULL: not known */
    int nu;
    const double *u_before; /* nu: really applied since the sample before; NULL: not known */
    uint32_t reset_counter; /* a change starts over */
} hb_observation;

/* The mean of a few samples. */
typedef struct hb_sample_mean {
    int count;
    int64_t first_us, time_us; /* of the first sample, and the mean */
    double *x;                 /* nx */
} hb_sample_mean;

typedef struct hb_transitions {
    int nx, nu;
    hb_rotations rotations;
    double period;   /* seconds, the model's */
    double shortest; /* seconds, of a transition */
    double max_gap;  /* seconds between two samples */

    bool waiting;      /* a sample came before */
    int64_t newest_us; /* its time */
    double gap;        /* seconds between the last two */
    uint32_t reset_counter;
    bool started;              /* there is a start */
    bool continues;            /* it is the end of the last transition */
    hb_sample_mean start, end; /* end: being gathered; count 0: nothing yet */
    double *x, *u, *x_next;    /* nx, nu, nx: of the transition handed out last */
    double *scratch;           /* nx + nu */
} hb_transitions;

/* Takes the arrays from the arena; nx to max_gap are given. */
void hb_transitions_lay_out(hb_transitions *t, hb_arena *arena);

/* HB_REASON_NONE, and *ret is a transition (valid until the next call); HB_REASON_GATHERED: the sample is part of one
 * to come; else why it is not used, or what it starts over for. The sample must be finite, and its quaternion of
 * length one. `rest` (nu) was in force before the first known command. */
hb_reason hb_transitions_add(hb_transitions *t, const hb_observation *o, const hb_command_history *told,
                             const double *rest, hb_transition *ret);

#endif
