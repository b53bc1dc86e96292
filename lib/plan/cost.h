/* Cost of a trajectory and its gradient: a list of weighted terms on physical states and controls.
 *
 *     J = sum over terms of weight * mean over stages of (v_k * term_k),   v = 1, and `terminal` at the last state
 *
 * State terms run over nh + 1 states (the initial one included), control terms over nh controls. */
#ifndef HB_COST_H
#define HB_COST_H

#include <stdbool.h>

#include "base/batch.h"
#include "plan/limits.h"

/* The kinds of terms: identifier, name, what a term runs over, whether it needs a target, which numbers it has beside
 * its weights, help. A new kind is a row here and what it squares in cost.c. */
#define HB_COST_KINDS(X)                                                                                               \
    X(DISTANCE, distance, STATES, true, NONE, "Euclidean distance of states [index...] to the target")                 \
    X(SQUARED, squared, STATES, true, NONE, "squared distance of states [index...] to the target")                     \
    X(HUBER, huber, STATES, true, RADIUS,                                                                              \
      "squared distance of states [index...] to the target within about a radius, twice the radius times the "         \
      "distance far beyond: what is far away pulls no harder than what is a radius away")                              \
    X(VELOCITY, velocity, STATES, false, NONE, "sum of squares of states [index...]")                                  \
    X(TILT, tilt, STATES, false, NONE,                                                                                 \
      "roll^2 + pitch^2 of the quaternion at states [index...], given in the order x, y, z, w")                        \
    X(ATTITUDE, attitude, STATES, true, NONE,                                                                          \
      "squared angle between the quaternion at states [index...] (x, y, z, w) and the target's; 4 sin^2 of half of "   \
      "it")                                                                                                            \
    X(YAW, yaw, STATES, true, NONE,                                                                                    \
      "squared angle between the headings of the same two; 4 sin^2 of half of it. A target of zeros is "               \
      "upright")                                                                                                       \
    X(IMBALANCE, imbalance, CONTROLS, false, NONE, "squared difference of controls, in pairs [i, j, k, l ...]")        \
    X(SLEW, slew, CONTROLS, false, NONE,                                                                               \
      "squared change of controls [index...] from step to step, the last applied one included")                        \
    X(EFFORT, effort, CONTROLS, false, NONE, "squared deviation of controls [index...] from trim")                     \
    X(BOUND, bound, STATES, false, BOUNDS, "squared excess of states [index...] beyond [min, max]")

typedef enum {
#define X(id, ...) HB_COST_##id,
    HB_COST_KINDS(X)
#undef X
        HB_COST_NKINDS
} hb_cost_kind;

typedef struct hb_cost_kind_row {
    enum { HB_COST_OVER_STATES, HB_COST_OVER_CONTROLS } over;
    bool needs_target;
    enum { HB_COST_NONE, HB_COST_BOUNDS, HB_COST_RADIUS } numbers; /* min and max, or radius */
} hb_cost_kind_row;

extern const hb_cost_kind_row hb_cost_kind_table[];                       /* HB_COST_NKINDS */
extern const char *const hb_cost_kind_name[], *const hb_cost_kind_help[]; /* the same, then NULL */

enum { HB_COST_TERMS = 32, HB_COST_INDICES = 32 };

typedef struct hb_cost_term {
    hb_cost_kind kind;
    double weight;
    double terminal; /* weight of the last state relative to the others; 1 unless given */
    int nindices;
    int index[HB_COST_INDICES];
    double min, max; /* of kinds that have bounds */
    double radius;   /* of kinds that have one, in the unit of the states */
} hb_cost_term;

typedef struct hb_cost {
    int nterms;
    hb_cost_term term[HB_COST_TERMS];
    hb_limits limits; /* whose penalties are part of the cost */
} hb_cost;

/* -EINVAL when an index does not fit nx states and nu controls, or a term's list has the wrong length. */
int hb_cost_check(const hb_cost *c, int nx, int nu, hb_error *err);
/* Whether a request, or the configuration, must name a target. */
bool hb_cost_needs_target(const hb_cost *c);

/* What a request asks for. */
typedef struct hb_goal {
    const double *target; /* nx if ntargets is 1 (a point), else (nh + 1) x nx (a reference trajectory) */
    int ntargets;
    const double *last_control;   /* nu, physical: commanded until now */
    const double *trim;           /* nu: what holds the target state, or the model's; a plan may start from it */
    const double *lag;            /* nu, seconds: time constants of the actuators; NULL: they act at once */
    const double *actuator_state; /* nu, physical: what they give at the start; NULL: last_control */
    const double *start;          /* nstart x nu, physical: commands to begin a plan with, then trim; NULL: none */
    int nstart;
    double step; /* seconds of a step of the plan; 0: as the planner is set */
} hb_goal;

/* Cost of one stage (limits.h): adds to cost (HB_STRIDE). */
void hb_cost_stage(const hb_cost *c, const hb_goal *goal, int nx, const hb_stage *at, hb_real *cost);
/* The gradient of the same, added to what `to` names. */
void hb_cost_stage_gradient(const hb_cost *c, const hb_goal *goal, int nx, const hb_stage *at,
                            const hb_stage_gradient *to);

/* The cost of one stage of one sample, and a quadratic function of its states and controls: gradient and curvature,
 * positive semidefinite (Gauss-Newton; distance and huber are bounded from above by a parabola). All are added to. */
typedef struct hb_stage_model {
    double cost;
    double *lx, *q;             /* nx, nx x nx */
    double *lu, *lu_before, *r; /* nu, nu, nu x nu */
    double *slew;               /* nu: curvature of u - u_before */
} hb_stage_model;

/* u and its outputs are not used at the last stage, u_before and lu_before not at the first. */
void hb_cost_stage_model(const hb_cost *c, const hb_goal *goal, int nx, int nu, int nh, int k, const double *x,
                         const double *u, const double *u_before, hb_stage_model *to);

/* What each term, and then all limits together, add to the cost of one trajectory: ret, nterms + 1; their sum is its
 * cost where nothing is impossible. x: (nh + 1) x nx, u: nh x nu, physical. scratch: (nx + 2 nu) x HB_STRIDE. */
void hb_cost_by_term(const hb_cost *c, const hb_goal *goal, int nx, int nu, int nh, const double *x, const double *u,
                     hb_real *scratch, double *ret);

#endif
