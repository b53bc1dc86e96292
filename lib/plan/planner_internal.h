/* Shared by planner.c and preparation.c, and private to them. */
#ifndef HB_PLANNER_INTERNAL_H
#define HB_PLANNER_INTERNAL_H

#include "plan/planner.h"

#include <math.h>

#include "plan/candidate_evaluation.h"
#include "plan/descent.h"
#include "plan/lag.h"
#include "plan/numbers.h"
#include "plan/population.h"

/* Stages of a preparation, see preparation.c. */
typedef enum {
    HB_PREPARE_VERIFY,
    HB_PREPARE_PREDICT,
    HB_PREPARE_EVALUATE,
    HB_PREPARE_SEARCH,
    HB_PREPARE_LINEARISE,
    HB_PREPARE_IMPROVE,
    HB_PREPARE_SAMPLE,
    HB_PREPARE_DONE,
} hb_prepare_stage;

typedef struct hb_preparation {
    bool begun;
    hb_prepare_stage next;
    uint64_t stages; /* done */
    hb_prepared record;
    int iterations; /* of the search */
    int steps[2];   /* on each lane */
    int lane;       /* whose turn it is: 0, the plan in hand, in `at`; 1, the best other, in the planner's `other` */
    bool open[2];   /* another step on that lane may help */
    bool sampled;   /* the other lane has begun, */
    bool settled;   /* and is at its end */
    int in_vain;    /* preparations in a row, over requests, whose other lane found nothing, or that had none */
    bool moved;     /* the best sequence is no longer the one that was linearised */
    double ahead;   /* steps of the plan from the last request to the next */
    double seconds; /* the same */

    /* the problem that the next request is expected to pose */
    double *x0, *last_control, *actuator_state; /* nx, nu, nu */
    hb_goal goal;
    hb_plan_problem problem;
    const hb_clock *clock;
    double deadline;
    const atomic_bool *interrupt;

    hb_candidate at; /* the best sequence for it so far */
    bool evaluated;  /* there is one */
    hb_real *top;    /* HB_LANES x nh x nv: the best samples of a search, */
    int ntop;        /* so many */
    int ready;       /* which descent holds Jacobians for it, or for one nearby; -1: none */
} hb_preparation;

void hb_preparation_lay_out(hb_preparation *f, hb_arena *arena, int nx, int nu, int nv, int nh);
void hb_preparation_forget(hb_preparation *f);

struct hb_planner {
    const hb_model *m;
    hb_planner_settings settings;
    hb_cost cost;
    int max_samples, max_horizon, max_directions;
    hb_control_map map;
    hb_population population;
    hb_candidate_evaluation *evaluation;
    hb_descent *descent[2];

    hb_real *warm;             /* nh x nv: the current plan */
    bool cold;                 /* there is none: `warm` is trim */
    double elapsed;            /* steps that it was moved on by since it was made */
    double *made_at;           /* nx: the state that it was made for */
    hb_goal made_for;          /* vectors are copies */
    const double *trim;        /* nu: the caller's; it may have changed since */
    bool unverified;           /* its cost is predicted, and no rollout has confirmed it yet */
    bool doubtful;             /* one that was predicted was not confirmed: the next is verified before it is given */
    uint64_t disagreed;        /* predicted plans that were not confirmed */
    bool inherited;            /* the population holds sequences of the plan before, */
    double population_ahead;   /* moved on by so many steps since that was made */
    hb_candidate best, other;  /* of the plan being made, and the other lane */
    hb_real *mean, *deviation; /* nh x nv: what is drawn from */
    int *order;                /* ns, by cost */
    double *action, *states;   /* nh x nu and (nh + 1) x nx: the plan */
    hb_plan plan;

    /* of the request being served, or prepared for */
    hb_plan_problem problem;
    hb_random_key key;
    uint64_t round;      /* counts draws */
    double step;         /* seconds per step of the current plan; 0: the settings' */
    const hb_real *from; /* nh x nv: where the search began */
    int draw_from;       /* samples from this one on are to be drawn */
    int adam;            /* gradient steps so far */

    hb_preparation preparation;
    hb_decisions decisions; /* of the current plan */
};

static inline size_t hb_planner_sequence_bytes(const hb_planner *p)
{
    return (size_t)(p->settings.horizon * p->map.nv) * sizeof(hb_real);
}

static inline size_t hb_planner_states_bytes(const hb_planner *p)
{
    return (size_t)((p->settings.horizon + 1) * p->m->nx) * sizeof(double);
}

/* Are steps so long nearly what others are? What was found for the one is then of use for the other. */
static inline bool hb_planner_same_step(double step, double other)
{
    return fabs(step / other - 1) <= HB_STALE;
}

hb_plan_problem hb_planner_problem(const hb_planner *p, const hb_predictor *model, const double *x0,
                                   const hb_goal *goal);
void hb_planner_begin(hb_planner *p, const hb_plan_problem *problem, uint64_t tick, const hb_clock *clock,
                      double deadline);
/* The best candidate becomes the plan. */
void hb_planner_finish(hb_planner *p, bool converged);

/* Pieces of plans. Each returns false when time ran out, and may then be begun again. */
void hb_planner_begin_search(hb_planner *p, const hb_real *from, double ahead); /* ahead: of the current plan */
bool hb_planner_evaluate_start(hb_planner *p, hb_candidate *best);
bool hb_planner_iterate(hb_planner *p, hb_candidate *best);
bool hb_planner_search(hb_planner *p); /* all iterations */
/* Begins the other lane, p->other: the best of `n` sequences, trim among them. */
bool hb_planner_sample(hb_planner *p, int n);
/* Is another step on the other lane worth while, after one from `before`, where the best costs so much? */
bool hb_planner_promises(const hb_planner *p, double before, double best);
/* The end of the other lane: the better of both becomes *best. Returns by how much that costs less than it did. */
double hb_planner_settle(hb_planner *p, hb_candidate *best);

#endif
