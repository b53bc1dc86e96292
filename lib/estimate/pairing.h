/* Joins samples of telemetry into transitions. A gap, a reset, a clock that goes back or a period out of range starts
 * afresh: no transition is made across them. */
#ifndef HB_PAIRING_H
#define HB_PAIRING_H

#include "estimate/estimator.h"
#include "base/status.h"

/* A telemetry sample: state x at `time`, and the control in force from then on. */
typedef struct hb_observation {
    int64_t time_us; /* vehicle's clock */
    const double *x; /* nx */
    int nx;
    const double *u; /* nu; NULL: not known yet, the next sample says it in u_before */
    int nu;
    const double *u_before; /* nu: really in force until now, instead of what the sample before said; NULL: that */
    uint32_t reset_counter; /* a change starts afresh */
} hb_observation;

typedef struct hb_pairing {
    int nx, nu;
    double min_dt, max_dt; /* seconds, of a transition */

    /* the sample that waits for the next one */
    bool waiting;
    int64_t time_us;
    uint32_t reset_counter;
    double *x, *u;               /* nx, nu */
    double *x_before, *u_before; /* of the transition handed out last */
} hb_pairing;

/* Takes the arrays from the arena; sizes and limits are given. */
void hb_pairing_lay_out(hb_pairing *p, hb_arena *arena);

/* HB_REASON_NONE, and *ret is a transition (valid until the next call); else why the sample makes none. */
hb_reason hb_pairing_join(hb_pairing *p, const hb_observation *o, hb_transition *ret);
/* Lets a sample wait, whatever came before it. */
void hb_pairing_wait(hb_pairing *p, const hb_observation *o);

#endif
