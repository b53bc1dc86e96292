/* Limits that plans are held to: geofence, keep-out zones, speed, tilt, body rates, rates of controls.
 *
 * Each is one number e(x), by how much it is broken (not positive: it holds), in the unit of its states for places, and
 * relative to the limit for the others. A plan pays weight * e^2 where e > 0, as a mean over its stages, so that it
 * is kept by every method that minimises costs. A reply names the limit that its plan breaks most. */
#ifndef HB_LIMITS_H
#define HB_LIMITS_H

#include <stdbool.h>

#include "base/batch.h"
#include "base/setting_rows.h"

#define HB_LIMIT_KINDS(X)                                                                                              \
    X(BOX, "box", "states [...] stay within min [...] and max [...]: a geofence")                                      \
    X(HALF_SPACE, "half_space", "the sum of normal [...] times states [...] stays at or below max")                    \
    X(KEEP_OUT_CYLINDER, "keep_out_cylinder",                                                                          \
      "states [x, y] stay out of a radius around centre [x, y]; with a third state only where that is in min..max")    \
    X(KEEP_OUT_BOX, "keep_out_box", "states [...] stay out of the box from min [...] to max [...]")                    \
    X(SPEED, "speed", "the length of the vector of states [...] stays at or below max")                                \
    X(TILT, "tilt", "the angle from upright of the quaternion at states [x, y, z, w] stays at or below max, radians")  \
    X(BODY_RATES, "body_rates", "as speed, for states [...] in radians per second")                                    \
    X(CONTROL_RATES, "control_rates", "controls [...] change by at most max per second")

typedef enum {
#define X(id, name, help) HB_LIMIT_##id,
    HB_LIMIT_KINDS(X)
#undef X
        HB_LIMIT_NKINDS
} hb_limit_kind;

extern const char *const hb_limit_kind_name[], *const hb_limit_kind_help[];

enum { HB_LIMITS = 16, HB_LIMIT_INDICES = 16, HB_LIMIT_NAME = 48 };

typedef struct hb_limit {
    hb_limit_kind kind;
    char name[HB_LIMIT_NAME]; /* that replies say; empty: its kind's */
    int nindices;
    int index[HB_LIMIT_INDICES];                          /* of states, or of controls */
    double low[HB_LIMIT_INDICES], high[HB_LIMIT_INDICES]; /* boxes: per state; a cylinder's third state: [0] */
    double vector[HB_LIMIT_INDICES];                      /* normal of a half-space, centre of a cylinder */
    double max;                                           /* half_space, speed, tilt, body_rates, control_rates */
    double radius;                                        /* of a cylinder */
} hb_limit;

typedef enum { HB_TARGETS_REFUSE, HB_TARGETS_CLIP, HB_TARGETS_NCHOICES } hb_limit_targets;

typedef struct hb_limits {
    int n;
    hb_limit limit[HB_LIMITS];
    double weight;            /* of squared excess */
    double trained_range;     /* standard deviations of the trained states that a plan may reach; 0: any */
    hb_limit_targets targets; /* what becomes of targets outside */
    double step;              /* seconds per step of the plan: the planner fills it in */
} hb_limits;

/* Those of weight, trained_range and targets; no limits. */
extern const hb_limits hb_limits_defaults;
hb_setting_rows hb_limits_rows(void);

/* -EINVAL with "limits.rules: ..." when a limit does not fit nx states and nu controls, or contradicts itself. */
int hb_limits_check(const hb_limits *l, int nx, int nu, hb_error *err);

/* The name that replies give to limit i. */
const char *hb_limits_name(const hb_limits *l, int i);

/* One stage of a plan, k of 0 .. nh, for n samples, in physical units. */
typedef struct hb_stage {
    int k, nh, n;
    const hb_real *x;        /* nx rows */
    const hb_real *u;        /* nu rows; NULL at the last stage */
    const hb_real *u_before; /* nu rows, of stage k - 1; NULL at stage 0 */
} hb_stage;

/* What a stage's gradient is added to: rows as in hb_stage, each NULL where its control is. */
typedef struct hb_stage_gradient {
    hb_real *dx, *du, *du_before;
} hb_stage_gradient;

/* Penalty of one stage, its gradient and its Gauss-Newton model: arguments as in cost.h, whose functions call these.
 * last_control: nu, before the first step. */
struct hb_stage_model;
void hb_limits_stage(const hb_limits *l, const double *last_control, const hb_stage *at, hb_real *cost);
void hb_limits_stage_gradient(const hb_limits *l, const double *last_control, const hb_stage *at,
                              const hb_stage_gradient *to);
void hb_limits_stage_model(const hb_limits *l, const double *last_control, int nx, int nh, int k, const double *x,
                           const double *u, const double *u_before, struct hb_stage_model *to);

/* The limit that a plan breaks most, by more than a trifle; -1: none. states: (nh + 1) x nx, of which the
 * first cannot be helped; controls: nh x nu. */
int hb_limits_broken(const hb_limits *l, const double *last_control, int nx, int nu, int nh, const double *states,
                     const double *controls);

/* Whether a target state (nx) is a place to be: within boxes and half-spaces, out of keep-out zones. */
bool hb_limits_allow(const hb_limits *l, const double *target);
/* Moves a target to such a place near by; false: none was found. */
bool hb_limits_clip(const hb_limits *l, double *target);

#endif
