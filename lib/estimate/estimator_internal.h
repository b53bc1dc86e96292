/* What the files of the estimator share: estimator.c (the interface and the walk of a transition), estimator_plain.c
 * (the window alone) and estimator_posterior.c (prior, memory, noise and judgement). */
#ifndef HB_ESTIMATOR_INTERNAL_H
#define HB_ESTIMATOR_INTERNAL_H

#include "dynamics/workspace.h"
#include "estimate/candidate_rows.h"
#include "estimate/change.h"
#include "estimate/effective_controls.h"
#include "estimate/estimator.h"
#include "estimate/posterior.h"
#include "estimate/regression.h"
#include "estimate/rows.h"
#include "estimate/window.h"

enum {
    HB_EARLY = 32,  /* transitions with which the belief still moves much */
    HB_RECENT = 10, /* prediction errors behind one_step_error */
    HB_JUDGED = 12, /* recent transitions that a judgement looks back on: half a second at 25 Hz */
};

/* What a transition leaves for later, in this order. */
typedef enum {
    HB_WORK_NONE,
    HB_WORK_EXPLAIN,  /* the next transition, as each candidate of the actuators has it */
    HB_WORK_IDENTIFY, /* what that says about them */
    HB_WORK_AGAIN,    /* old entries are evaluated again */
    HB_WORK_KEEP,     /* for a restart */
} hb_work;

/* What is remembered of a problem's last plain solve. */
typedef struct hb_problem {
    hb_regression_result result;
    double condition; /* when it was examined last */
    bool singular;
} hb_problem;

/* A recent transition, as it was judged. */
typedef struct hb_verdict {
    double distance; /* d^2 over nx, before any allowance */
    bool set_aside;
    bool continues;
} hb_verdict;

struct hb_estimator {
    const hb_model *m;
    hb_estimator_settings s;
    int nw, warmup; /* window and warm-up in transitions */
    bool bayesian;  /* posterior in use, else the plain regression */
    hb_workspace *workspace;
    hb_window window;
    hb_rows rows; /* the window, evaluated */
    hb_change change;
    hb_health health;
    hb_actuators actuators;

    hb_real *coefficient;
    double *variance;
    bool warm;  /* coefficients were estimated since the last reset */
    int credit; /* problems due, times solve_every */
    int turn;   /* the problem whose turn it is to be solved */

    hb_work work;          /* that is next; what follows it is due as well */
    uint64_t to_identify;  /* sequence of the next transition for candidates */
    bool kept;             /* nothing has changed since the belief was kept */
    int again;             /* entries to be evaluated again before the next transition */
    uint64_t relinearised; /* sequence of the entry that was re-evaluated last */
    hb_real *along;        /* coefficients along which the entries are evaluated, about */
    int behind;            /* entries that are to be evaluated again, since the coefficients have moved */
    hb_actuators shown;    /* what is said of the actuators since the last transition */
    hb_actuator_belief shown_belief;
    double recent[HB_RECENT]; /* squared errors of predictions, in turn */
    uint64_t predictions;
    double *mean_square; /* nx, of the errors of predictions, fading */

    /* plain */
    hb_regression regression;
    hb_problem *problem;
    int examined; /* the problem whose turn it is to be examined */
    int rest;     /* solves until one is examined again */

    /* posterior */
    bool identifying; /* actuators are looked for */
    hb_identification identification;
    hb_candidate_rows candidates;     /* rows of the transition `explained`, by the actuators looked for */
    uint64_t explained;               /* UINT64_MAX: none */
    double *grid_control;             /* HB_GRID x HB_TRANSITION_PARTS x nu */
    double *bank_prior, *bank_vector; /* P0^-1 and P0^-1 c0 of the bank, where the model has no prior */
    int catching_up;                  /* entries that were evaluated with other actuators */
    int hesitating;                   /* transitions in a row that are hard to believe */
    bool knows_actuators;             /* the identification was confident when it was last asked */
    hb_posterior posterior;
    double *solved_noise; /* nx: the noise with which coefficients were solved for last */
    bool guessed;         /* the noise has been guessed since the last reset */
    double *weight;       /* nw, of entries in the sums, by sequence modulo nw */
    double *belief;       /* nw, likewise: the weight without what actuators leave open */
    double *unsure;     /* nw x nx: squared motion of the prediction with the actuators, per second squared of theirs */
    double *unsure_now; /* nx, of the transition being judged, and how much that is now */
    double actuator_variance; /* of lag and delay together, seconds squared; 0: they are known */
    bool *usable;             /* nw, likewise: the controls are known and possible */
    hb_verdict verdict[HB_JUDGED];
    uint64_t judged;
    int unsettled;                                  /* newest transitions without a known past */
    double *innovation, *residual, *motion, *doubt; /* HB_JUDGED x nx each, in the order of verdicts */
    double *rest_control;         /* nu, normalised: in force before the first transition; trim if nothing is known */
    double *first_row;            /* nx x ld: of a transition that is seen in another light */
    bool refined;                 /* one was, and the lanes used for it */
    double *expected, *tolerance; /* nx, of the transition being judged */
    double *spread;               /* nx, likewise: variance over the trained population */
    double *sorted, *distance;    /* nw, when a window is taken up */
    double *joined_control;       /* HB_TRANSITION_PARTS x nu, of two transitions that are seen as one */
    double *joined_motion;        /* nx, likewise */

    /* scratch */
    hb_real *trial;         /* coefficients */
    double *trial_solution; /* the same, by problems */
    double *error;          /* nx */
    double *control;        /* HB_TRANSITION_PARTS x nu */
    double *scratch;        /* 4 nb */
    int *iscratch;          /* nb */

    /* transitions that wait to be used, in lanes 0 and on */
    hb_window_entry staged[HB_ESTIMATOR_TOGETHER]; /* pointing into staged_value */
    bool lie[HB_ESTIMATOR_TOGETHER];               /* a command is beyond what can be */
    double known[HB_ESTIMATOR_TOGETHER];           /* seconds of commands known before */
    double *staged_value;                          /* HB_ESTIMATOR_TOGETHER x (z, u of parts, dz) */
    int nstaged;
    uint64_t origin; /* sequence of the first transition since nothing was known; UINT64_MAX: it is not known */
    bool broken;     /* a transition was left out: the next one continues nothing that is known */
};

/* index of coefficient i of a problem (or state) */
static inline int hb_estimator_index(const hb_estimator *e, int p, int i)
{
    return e->m->shape == HB_PER_STATE ? i * e->m->nx + p : i;
}

/* ---- estimator.c ---- */

const double *hb_estimator_recall(hb_estimator *e, uint64_t sequence);
/* of the newest: 0; context: the estimator */
const double *hb_estimator_recall_by_age(void *context, int age);
/* What the coefficients leave unexplained of a transition in one state. */
double hb_estimator_error(const hb_estimator *e, const double *row, const hb_real *coefficient, int state);
/* The entry `sequence` of the window, or the staged one that will be it, and the controls that actuators `a` made act,
 * to e->control; the seconds before it for which commands are known. */
double hb_estimator_controls(hb_estimator *e, const hb_actuators *a, uint64_t sequence, hb_window_entry *ret_entry);
/* The same for all actuators that are looked for, to e->grid_control. */
double hb_estimator_controls_of_grid(hb_estimator *e, uint64_t sequence);
/* The same with the present actuators, and loads it. */
double hb_estimator_load(hb_estimator *e, int lane, uint64_t sequence);
/* What the present coefficients make of the transition in rows.row, to e->error. */
void hb_estimator_predict(hb_estimator *e);
/* The staged transition of a lane, its rows evaluated. False: they are not finite; it is left out, and the next one
 * does not continue it. */
bool hb_estimator_take_staged(hb_estimator *e, int lane, hb_window_entry *ret);
void hb_estimator_count_span(hb_estimator *e);
/* How many problems to solve now that `used` transitions have come in. */
int hb_estimator_due(hb_estimator *e, int used, int nproblems);

/* ---- the two ways ---- */

/* What is staged and evaluated slides into the window; entries `old` (nold of them, in the lanes after) are replaced;
 * then coefficients and health. Returns the number of transitions that were used. */
int hb_plain_learn(hb_estimator *e, const uint64_t *old, int nold);
void hb_plain_reset(hb_estimator *e);
void hb_plain_report(hb_estimator *e);
/* The window was taken up from memory and is evaluated: sums and coefficients. */
void hb_plain_resume(hb_estimator *e);

double hb_bayes_spread(void);
int hb_bayes_learn(hb_estimator *e, const uint64_t *old, int nold);
/* Puts entries that were evaluated again, in lanes from `lane` on, in the place of what they were. */
void hb_bayes_replace(hb_estimator *e, const uint64_t *sequence, int count, int lane);
/* Whether coefficients are so far from those that the entries were evaluated along, that it matters. */
bool hb_bayes_moved(hb_estimator *e);
void hb_bayes_reset(hb_estimator *e);
void hb_bayes_report(hb_estimator *e);
void hb_bayes_resume(hb_estimator *e);
/* The same with what was kept of the belief, which hb_kept_take has taken: 0, or why it is not to be believed. */
int hb_bayes_resume_belief(hb_estimator *e, hb_error *why);
void hb_bayes_seed(hb_estimator *e);
/* What is excused as inexactness of the model in the transition `row`, to e->tolerance; of which actuators leave
 * `unsure` open (nx, NULL: nothing). */
void hb_bayes_tolerate(hb_estimator *e, const double *row, const double *unsure);
/* The coefficients that the newest `count` transitions would give on their own, where all else is worth so many
 * transitions, to e->trial and e->trial_solution; false: none that can be. */
bool hb_bayes_try_cut(hb_estimator *e, int count, double worth);

/* ---- estimator_foreign.c ---- */

/* Whether the newest transitions show dynamics that no trained vehicle has. */
bool hb_bayes_foreign(hb_estimator *e);

/* ---- estimator_kept.c ---- */

hb_window_extras hb_kept_extras(const hb_model *m);
/* An entry of the window or its weight is another one. */
void hb_kept_save_entry(hb_estimator *e, uint64_t sequence);
/* All that is believed; call it when it has changed. */
void hb_kept_save(hb_estimator *e);
/* What was kept about an entry, to rows and weights; false: nothing. */
bool hb_kept_take_entry(hb_estimator *e, uint64_t sequence);
/* What was kept of the belief: memory, noise and actuators. 0, or why it is not taken: then nothing has changed. */
int hb_kept_take(hb_estimator *e, hb_error *why);
/* And at the end, what learning from the window would have changed. */
void hb_kept_take_rest(hb_estimator *e);
/* Why what was taken, and solved, cannot be; 0: it can. farthest: from the population, as hb_health.plausibility. */
int hb_kept_doubt(const hb_estimator *e, double farthest, hb_error *why);

/* ---- estimator_actuators.c ---- */

/* What is given, else the model's, else a cautious start; nothing was found yet. */
void hb_estimator_start_actuators(hb_estimator *e);
/* Whether the candidates are to hear of a transition: of all of them as long as there is doubt. */
bool hb_estimator_asks_bank(const hb_estimator *e, uint64_t sequence);
/* The transition `sequence` of the window as each candidate has it. */
void hb_estimator_explain(hb_estimator *e, uint64_t sequence);
/* It tells the candidates apart; what they say is taken over. */
void hb_estimator_identify(hb_estimator *e, uint64_t sequence);
/* The same without taking anything over; false: it says nothing. */
bool hb_estimator_teach_bank(hb_estimator *e, uint64_t sequence);
/* In the beginning: loads the staged transition, when there is but one, as it would be with actuators a deviation
 * slower, into lanes from `lane` on; returns how many. Then, evaluated: how much the prediction depends on it, to
 * e->unsure_now. */
int hb_estimator_load_variants(hb_estimator *e, int lane);
void hb_estimator_compare_variants(hb_estimator *e, int lane, int count);
void hb_estimator_actuators_changed(hb_estimator *e); /* call it at a change of dynamics */
/* What is known of the actuators now is what is said of them until the next call. */
void hb_estimator_show_actuators(hb_estimator *e);

#endif
