/* Every number that plans and the controller decide by, with its unit and its reason.
 *
 * What a user may want to choose is a setting instead (planner_settings.c, limits.c, controller_settings.c). Sizes of
 * arrays stand with their arrays, and what belongs to a published formula or to arithmetic stands with that. */
#ifndef HB_NUMBERS_H
#define HB_NUMBERS_H

#include <float.h>

#include "base/base.h"

/* ---- how good a plan is good enough ---- */

/* Share of a plan's cost that is not worth keeping a request waiting for: what is left is gained behind the reply. A
 * prediction of a cost that is off by no more is confirmed. A flight loses about as much in all. */
#define HB_ENOUGH 0.015
/* Share of what the quadratic model expects that a whole step must bring so that no shorter one is tried: the usual
 * ratio from which on a trust region is made larger. */
#define HB_WORTH 0.75
/* Share of a step: the shortest that is tried. Below it only rounding is left of most steps. */
#define HB_SHORTEST 0.02
/* What is added to a Hessian's diagonal, relative to its mean (a trim's: to a reaction of one deviation to a whole
 * range), so that it can be solved with where the cost says nothing: ten times what rounding leaves, and too little to
 * be seen in the step. */
#define HB_DAMPING 1e-5
/* Rounds of what ends by itself when it has arrived: multipliers of bounds, a trim, a target's way out of zones. Some
 * are in vain, as between two limits that contradict each other. */
#define HB_ROUNDS 50
/* A difference that does not count: by which a limit is broken, in its own unit, and of an angle, in radians. A plan
 * that a limit holds back breaks it by more. */
#define HB_TRIFLE 0.001
/* What nobody measures better: a distance in the unit of the states, mostly metres, and a share of a control's range,
 * of which eight bits of a motor's command round off as much. Within less, noise would be flown after. */
#define HB_MEASURED 0.005

/* ---- what was prepared ---- */

/* Share by which a step's length or the cost's curvature may have changed since: the plan is then off by as much in
 * its last steps, which weigh least, and the factor in its gains. One request that is lost does not move the usual
 * period by more. */
#define HB_STALE 0.1
/* Preparations in a row whose other lane found nothing, until only one of as many has one: it takes longer than all the
 * rest, and finds nothing in ordinary flight. At 50 requests a second, six of these still have one. */
#define HB_IN_VAIN 8
/* Seconds: what preparing left of its share in so long may be taken at once, twenty requests at 100 a second. */
#define HB_SHARE_OVER 0.2

/* ---- what is possible ---- */

/* A plan whose states are impossible costs so many times more: more than any possible one, and still comparable with
 * others like it, so that a descent finds its way out. */
#define HB_IMPOSSIBLE 1000
/* Share by which a quaternion's length may differ from one: of a plan's states, which a long step stretches, and of a
 * message, where rounding leaves far less and another order of states far more. */
#define HB_STRETCHED  (1.0 / 3)
#define HB_OFF_LENGTH 0.2
/* Share of a control's range by which a report may exceed its bounds: calibration is off by less, units by more. */
#define HB_OVER_BOUNDS 0.05
/* Standard deviations of the states by which a step may differ from what is assumed of it: under trim, from standing
 * still; as one long step, from two short ones. A model's own error is of this size. */
#define HB_REST 0.05
/* Transitions, up to which a plan may be one for quite another vehicle, and is made in full: about as many as a model
 * has basis functions. Up to the second number the newest is worth keeping a request waiting for. */
#define HB_HARDLY_KNOWN 12
#define HB_LITTLE_KNOWN 32
/* Steps of the start that brings rates to rest: what bounds do not allow in as many takes another plan. */
#define HB_ARREST 3

/* ---- work and time ---- */

/* Multiplications below which another thread does not pay: waking it and waiting for it takes about a millisecond's. */
#define HB_THREAD_WORK 1e7
/* Pieces of work over which their duration is averaged, and in which a long one is forgotten. */
#define HB_PIECES 100
/* A piece that takes so many times the mean was interrupted, and says nothing about the next. What is expected lies
 * this share of the way from the mean to the longest: a rare long piece may overshoot, but counting on it every time
 * would leave the end of every budget unused. */
#define HB_SLOW_PIECE 4
/* Seconds of good samples after which a fault of telemetry is over: a few periods of most vehicles. An autopilot's
 * bridge holds for longer than that before it hands over, so that a glitch costs no flight. */
#define HB_FAULT_OVER 0.2
/* Seconds by which a report may lead or trail the command that it states: a radio link's delay and its jitter. */
#define HB_REPORT_SLACK 0.25
/* Returns to a former reset_counter, each within so many seconds of the one before, that no restarted program makes:
 * two programs publish for one vehicle. */
#define HB_RETURNS        3
#define HB_RETURNS_WITHIN 2

/* ---- what follows from the type of numbers, and is no choice ---- */

/* what rounding leaves of a sum of a few numbers, relatively */
#define HB_ROUNDING (8 * FLT_EPSILON)
/* radians: further from zero, rounding is no trifle (into normalised numbers, in a step and back), and angles are
 * counted from zero again */
#define HB_MOST_TURNED (HB_TRIFLE / (3 * HB_ROUNDING))
/* keeps divisions finite: a length below it has no direction */
#define HB_TINY ((hb_real)(FLT_EPSILON * FLT_EPSILON))

#endif
