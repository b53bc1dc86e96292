/* What actuators made of commands while a transition lasted.
 *
 * Commands are steps: u_0 since ever (at rest, or the first command that is known), then u_k from time s_k on. Through
 * a lag tau the actuator's state, and its integral, are
 *
 *     a(t) = u_k + (a(s_k) - u_k) exp(-x / tau)        x = t - s_k, s_k <= t < s_k+1
 *     A(t) = A(s_k) + u_k x + (a(s_k) - u_k) tau (1 - exp(-x / tau))
 *
 * and a delay d is the same, later. The control that acts, averaged over a part [t0, t1] of h seconds, is
 *
 *     (A(t1 - d) - A(t0 - d)) / h
 *
 * exactly, whatever the lengths of parts. The steps are those of the transition itself and of the ones before it, as
 * far back as they follow on one another. */
#ifndef HB_EFFECTIVE_CONTROLS_H
#define HB_EFFECTIVE_CONTROLS_H

#include "dynamics/actuators.h"
#include "estimate/window.h"

/* The transitions up to the one in question: entry `back` before it, 0 for itself. False: not known. */
typedef struct hb_past {
    const void *context;
    uint64_t sequence;
    bool (*at)(const struct hb_past *past, int back, hb_window_entry *ret);
    const double *rest; /* nu: in force before the first known command; NULL: that one was, since ever */
} hb_past;

/* Controls (parts x nu, in the units of the entries) of the transition. Returns the seconds before its start for which
 * commands are known, at most as many as matter. */
double hb_effective_controls(const hb_past *past, const hb_actuators *a, double *ret);

/* Seconds of commands before a transition that matter to it. */
double hb_effective_reach(const hb_actuators *a);

#endif
