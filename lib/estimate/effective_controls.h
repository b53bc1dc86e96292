/* What actuators made of commands while a transition lasted.
 *
 * Commands are steps: u_0 since ever (at rest, or the first command that is known), then u_k from time s_k on, seconds
 * from the transition's start. Behind a delay d and a lag tau, a unit step at s has, x = t - s - d seconds later, had
 * the integral
 *
 *     A(x) = x - tau (1 - exp(-x / tau))               0 where x < 0
 *
 * so that its mean over the transition of h seconds is F(s) = (A(h - s - d) - A(-s - d)) / h, and the control that acts
 *
 *     sum over k of u_k (F(s_k) - F(s_k+1))            F(s_0) = 1, since ever
 *
 * exactly. The steps are those of the transition itself and of the ones before it, as far back as they follow on one
 * another. */
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

/* Controls (nu, in the units of the entries) of the transition. Returns the seconds before its start for which
 * commands are known, at most as many as matter. */
double hb_effective_controls(const hb_past *past, const hb_actuators *a, double *ret);

/* Seconds of commands before a transition that matter to it. */
double hb_effective_reach(const hb_actuators *a);

#endif
