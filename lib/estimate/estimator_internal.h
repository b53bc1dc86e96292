/* What the files of the estimator share: estimator.c (the interface and the walk of a transition), estimator_plain.c
 * (the window alone), estimator_belief.c (belief.h, and what a restart must not lose of it) and estimator_actuators.c.
 */
#ifndef HB_ESTIMATOR_INTERNAL_H
#define HB_ESTIMATOR_INTERNAL_H

#include "dynamics/workspace.h"
#include "estimate/belief.h"
#include "estimate/constants.h"
#include "estimate/effective_controls.h"
#include "estimate/estimator.h"
#include "estimate/regression.h"
#include "estimate/rows.h"
#include "estimate/sensitivity.h"
#include "estimate/window.h"

/* What a transition leaves for later, in this order. */
typedef enum {
    HB_WORK_NONE,
    HB_WORK_RELEARN, /* a young flight, in the light of what is known by now */
    HB_WORK_KEEP,    /* for a restart */
} hb_work;

/* What is remembered of a problem's last plain solve. */
typedef struct hb_plain_problem {
    hb_regression_result result;
    double condition; /* when it was examined last */
    bool singular;
} hb_plain_problem;

/* What is not known of the actuators: the lag of all of them, or the delay. seconds = start + spread f, where f is an
 * unknown of the belief that stays. */
typedef struct hb_unknown_actuator {
    bool is_lag;
    double start, spread, most; /* seconds: expected, its deviation, and the longest that can be */
} hb_unknown_actuator;

struct hb_estimator {
    const hb_model *m;
    hb_estimator_settings s;
    int nw, warmup; /* window and warm-up in transitions */
    bool bayesian;  /* the belief, else the plain regression */
    hb_workspace *workspace;
    hb_window window;
    hb_rows rows; /* the window, evaluated */
    hb_sensitivity sensitivity;
    hb_health health;
    hb_actuators actuators; /* that transitions are explained with */
    hb_actuator_belief actuator_belief;

    hb_real *coefficient;
    hb_real *along; /* that transitions are explained with: what is believed, whether it is used yet or not */
    double *variance;
    bool warm;      /* coefficients were estimated since the last reset */
    double seconds; /* of transitions since then */

    hb_work work;             /* that is next; what follows it is due as well */
    double recent[HB_RECENT]; /* squared errors of predictions, in turn */
    uint64_t predictions;
    double *mean_square; /* nx, of the errors of predictions, fading */

    /* plain */
    hb_regression regression;
    hb_plain_problem *problem;
    int examined; /* the problem whose turn it is to be examined */
    int rest;     /* solves until one is examined again */
    int credit;   /* problems due, times solve_every */
    int turn;     /* the problem whose turn it is to be solved */

    /* belief */
    hb_belief belief;
    int nunknown; /* of the actuators; 0: all is given */
    hb_unknown_actuator unknown[HB_MOST_FIXED];
    double at[HB_MOST_FIXED];         /* f that transitions are explained with, as e->actuators has it */
    double deviation[HB_MOST_FIXED];  /* of f */
    double step[HB_MOST_FIXED];       /* of f, from there to a variant */
    double learned_at[HB_MOST_FIXED]; /* f when the belief last learned from all, */
    int learned_from;                 /* and from how many transitions */
    bool *usable;                     /* nw, by sequence modulo nw: controls are known and possible */
    uint64_t told_before;             /* changes, before the belief began anew */
    double unsettled;                 /* seconds of newest transitions without a known past */
    double *rest_control; /* nu, normalised: in force before the first transition; trim if nothing is known */

    /* scratch */
    double *error;   /* nx */
    double *control; /* nu */

    /* transitions that wait to be used, in lanes 0 and on */
    hb_window_entry staged[HB_ESTIMATOR_TOGETHER]; /* pointing into staged_value */
    bool impossible[HB_ESTIMATOR_TOGETHER];        /* a command is beyond what can be */
    double known[HB_ESTIMATOR_TOGETHER];           /* seconds of commands known before */
    double *staged_value;                          /* HB_ESTIMATOR_TOGETHER x (z, u, dz) */
    int nstaged;
    uint64_t origin; /* sequence of the first transition since nothing was known; UINT64_MAX: it is not known */
    bool broken;     /* a transition was left out: the next one continues nothing that is known */
};

/* of [ G | D | r | dz ], in whole groups of four */
static inline int hb_estimator_row_length(const hb_model *m, int nfixed)
{
    return (m->nb + nfixed + 2 + 3) / 4 * 4;
}

/* index of coefficient i of a problem (or state) */
static inline int hb_estimator_index(const hb_estimator *e, int p, int i)
{
    return e->m->shape == HB_PER_STATE ? i * e->m->nx + p : i;
}

static inline size_t hb_estimator_slot(const hb_estimator *e, uint64_t sequence)
{
    return (size_t)(sequence % (uint64_t)e->nw);
}

/* ---- estimator.c ---- */

const double *hb_estimator_recall(hb_estimator *e, uint64_t sequence);
/* What the coefficients leave unexplained of a transition in one state. */
double hb_estimator_error(const hb_estimator *e, const double *row, const hb_real *coefficient, int state);
/* The entry `sequence` of the window, or the staged one that will be it, and the controls that actuators `a` made act,
 * to e->control; the seconds before it for which commands are known. */
double hb_estimator_controls(hb_estimator *e, const hb_actuators *a, uint64_t sequence, hb_window_entry *ret_entry);
/* The same with the present actuators, and loads it. */
double hb_estimator_load(hb_estimator *e, int lane, uint64_t sequence);
/* The rows of an evaluated lane and its variants (from that lane on), completed, to rows.row; false: they are not
 * finite. */
bool hb_estimator_row(hb_estimator *e, int lane, int variants, const double *dz);
/* What the present coefficients make of the transition in rows.row, to e->error. */
void hb_estimator_predict(hb_estimator *e);
/* The transition of rows.row into the window. */
void hb_estimator_slide(hb_estimator *e, const hb_window_entry *entry);
/* The staged transition of a lane, its rows evaluated. False: they are not finite; it is left out, and the next one
 * does not continue it. */
bool hb_estimator_take_staged(hb_estimator *e, int lane, hb_window_entry *ret);
void hb_estimator_count_span(hb_estimator *e);
/* Evaluates the window anew from entry `from` on, by the present actuators and coefficients; `use` is called for each
 * in turn, with its rows in rows.row unless they are not finite. What has no known past is no longer usable. */
void hb_estimator_evaluate(hb_estimator *e, uint64_t from,
                           void (*use)(hb_estimator *e, uint64_t sequence, bool finite));
/* Seconds of commands that must be known before a transition, so that the control in it is. */
double hb_estimator_past(const hb_estimator *e);

/* ---- estimator_plain.c ---- */

/* What is staged and evaluated slides into the window; then coefficients and health. Returns the number of transitions
 * that were used. */
int hb_plain_learn(hb_estimator *e);
void hb_plain_reset(hb_estimator *e);
void hb_plain_report(hb_estimator *e);
/* The window was taken up from memory and is evaluated: sums and coefficients. */
void hb_plain_resume(hb_estimator *e);

/* ---- estimator_belief.c ---- */

int hb_belief_learn_staged(hb_estimator *e);
void hb_belief_forget(hb_estimator *e);
void hb_belief_report(hb_estimator *e);
/* What is believed now is what can be asked of the estimator: coefficients, their variances, health. */
void hb_belief_show(hb_estimator *e);
/* Learns again from the newest transitions of the window, as they are with the present actuators and coefficients;
 * shown with the next transition. */
void hb_belief_relearn(hb_estimator *e, int most);
/* Whether that would tell more than was learned from them when they came. */
bool hb_belief_is_outdated(const hb_estimator *e);
void hb_belief_take_seed(hb_estimator *e);

int hb_belief_kept(const hb_model *m, const hb_estimator_settings *s);
/* All that is believed, for a restart. */
void hb_belief_keep(hb_estimator *e);
/* What was kept: 0, or why it is not taken. The window is then to be evaluated by it. */
int hb_belief_take_up(hb_estimator *e, hb_error *why);
/* Nothing is taken on trust: 0, or why what was kept cannot be. Then what came after it was kept is learned. */
int hb_belief_examine(hb_estimator *e, hb_error *why);

/* ---- estimator_actuators.c ---- */

/* What is to be found in flight, to ret; how many. */
int hb_estimator_unknown_actuators(const hb_model *m, const hb_estimator_settings *s, hb_unknown_actuator *ret);
/* The bounds of the belief's f. */
void hb_estimator_bound_actuators(const hb_unknown_actuator *unknown, int count, double *least, double *most);
/* What is given, else the model's, else a cautious start; nothing was found yet. */
void hb_estimator_start_actuators(hb_estimator *e);
/* Transitions are explained with what the belief says of the actuators, from now on, and so says the estimator. */
void hb_estimator_take_actuators(hb_estimator *e);
/* How far the actuators of variants, one for each unknown, are from those. */
void hb_estimator_choose_variants(hb_estimator *e);
/* Loads the variants of a transition, in lanes from `first` on. */
void hb_estimator_load_variants(hb_estimator *e, uint64_t sequence, int first);
/* D of a lane to rows.row, by the slopes towards its variants. */
void hb_estimator_take_slopes(hb_estimator *e, int lane, int first);
/* Whether what is believed of the actuators is farther than a deviation from what transitions were explained with. */
bool hb_estimator_actuators_moved(const hb_estimator *e);

#endif
