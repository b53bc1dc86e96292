/* Gradient steps: Algorithms 1 and 2 of the paper.
 *
 *     step k:  draw F functions,
 *              and example and query points of each                         keyed by (seed, k)
 *              loss and gradient of every function                          in parallel
 *              mean gradient, clipped by its norm                           summed in a fixed order
 *              Adam, or Muon (muon.h)
 *
 * Functions are dealt to a fixed number of parts, each with a gradient of its own; threads take parts as they come, and
 * ranks (ranks.h) share them out in order. The gradients of parts are added up by a binary tree:
 *
 *     0   1   2   3   4        g0 += g1    g2 += g3
 *      \ /     \ /    |        g0 += g2
 *       0-------2     |        g0 += g4
 *        \            |
 *         0-----------+        a sum lives with the rank that has its leftmost part
 *
 * Where functions are many, slot s of a step draws from the s-th of F equal shares of them, and a rank has the same
 * slots in every step: its steps read its own share of the data and nothing else.
 *
 * So the same seed gives the same bytes for any number of threads and ranks, and memory does not grow with F. */
#ifndef HB_TRAINER_H
#define HB_TRAINER_H

#include "data/dataset.h"
#include "train/loss.h"
#include "train/ranks.h"
#include "train/settings.h"
#include "base/pool.h"

typedef struct hb_trainer_settings {
    int functions; /* F, a step */
    int examples, queries;
    int query_steps;        /* transitions that a query point is rolled out for */
    uint64_t growth_steps;  /* rollouts grow to that length from one transition until then; 0: they have it at once */
    double learning_rate;   /* of Adam */
    double clip;            /* norm of the gradient at most; 0: no limit */
    uint64_t decay_steps;   /* the learning rate falls to zero along half a cosine by then; 0: it stays */
    hb_optimiser optimiser;
    uint64_t last_step;     /* of the run */
    uint64_t average_steps; /* before the last one whose mean hb_trainer_average takes; 0: none */
    bool matryoshka;        /* draw a prefix of the basis for each function */
    uint64_t seed;
    hb_loss_settings loss;
    const hb_ranks *ranks; /* that train together; NULL: this process alone */
} hb_trainer_settings;

/* What a step did. */
typedef struct hb_trainer_report {
    uint64_t step;
    hb_loss_terms terms;  /* means over functions */
    double gradient_norm; /* before clipping */
    double learning_rate;
    bool skipped; /* a number was not finite: nothing was changed */
} hb_trainer_report;

static inline double hb_trainer_loss(const hb_trainer_report *r)
{
    return r->terms.query + r->terms.matryoshka + r->terms.regulariser + r->terms.average;
}

/* What must be kept to go on later: with the model's parameters, all of it. */
typedef struct hb_trainer_state {
    uint64_t step; /* steps done */
    size_t nparameters;
    hb_real *mean, *square; /* nparameters each: Adam's moments */
    hb_real *averaged;      /* nparameters, mean over the last steps so far; NULL: not wanted */
} hb_trainer_state;

typedef struct hb_trainer hb_trainer;

/* Trains the model in place, on the given functions of the data set. Borrows all but the settings. */
int hb_trainer_new(hb_trainer **ret, hb_model *m, const hb_dataset *d, const int *function, int nfunctions,
                   const hb_trainer_settings *s, hb_pool *pool, hb_error *err);
void hb_trainer_free(hb_trainer *t);

/* One gradient step. Fails when too many steps in succession were not finite, or when a rank does not answer: then
 * nothing was changed. */
int hb_trainer_step(hb_trainer *t, hb_trainer_report *ret, hb_error *err);

/* Takes the model's prior as it is now into the fits of all steps that follow. */
int hb_trainer_use_prior(hb_trainer *t, hb_error *err);

/* Gives the model the mean of its parameters over the last steps, where that is wanted and they have begun. */
void hb_trainer_average(hb_trainer *t);

/* To be saved, or to be filled in before going on. */
hb_trainer_state *hb_trainer_access(hb_trainer *t);

#endif
