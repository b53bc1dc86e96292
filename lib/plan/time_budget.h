/* Time for another piece of work? Asked before each; the answer is predicted from how long such pieces took so far,
 * so that a deadline is overshot by one piece at most, and hardly ever by that. Each thread has one. */
#ifndef HB_TIME_BUDGET_H
#define HB_TIME_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/* Kinds of pieces: times are kept apart for each. */
typedef enum {
    HB_PIECE_FORWARD,   /* one step of a block of samples */
    HB_PIECE_BACKWARD,  /* the adjoint of one */
    HB_PIECE_SINGLE,    /* one step of one sample */
    HB_PIECE_FEW,       /* one step of at most HB_FEW samples */
    HB_PIECE_TRIAL,     /* one step of a vector of samples */
    HB_PIECE_JACOBIANS, /* of some steps of one trajectory */
    HB_PIECE_SOLVE,     /* the algebra of a second-order step */
    HB_PIECE_DEFECTS,   /* one step from each state of a trajectory, side by side */
    HB_NPIECES
} hb_piece;

/* Time comes in from outside. Both may be called on any thread of the pool. */
typedef struct hb_clock {
    double (*now)(void *context); /* seconds, monotonic */
    void *context;
    /* NULL, or told of each piece of work before it begins: a simulated clock can charge for it */
    void (*begins)(void *context, hb_piece kind);
} hb_clock;

typedef struct hb_piece_times {
    double last, mean, max; /* seconds; the max fades towards the mean, so that one slow piece is forgotten */
    uint64_t count;
    bool measured; /* since a piece was last refused */
} hb_piece_times;

typedef struct hb_time_budget {
    const hb_clock *clock;        /* NULL: there is no deadline */
    double deadline;              /* a value of clock->now */
    atomic_bool *stop;            /* shared by all threads: whoever runs out of time stops them all */
    const atomic_bool *interrupt; /* somebody else's wish to stop; NULL: none */
    hb_piece kind;                /* of the pieces asked for from now on */
    uint64_t pieces;              /* begun since hb_time_budget_begin */

    bool running;        /* a piece is under way */
    hb_piece running_as; /* of this kind */
    double since;        /* from this time on */
    hb_piece_times past[HB_NPIECES];
} hb_time_budget;

/* A new plan: what was learned about times is kept. */
void hb_time_budget_begin(hb_time_budget *p, const hb_clock *clock, double deadline, atomic_bool *stop);
/* May the next piece start? Ends the one before it. context is the hb_time_budget. */
bool hb_time_budget_ask(void *context);
/* Is there likely time for so many pieces of a kind from now on? Yes, if there is no deadline. */
bool hb_time_budget_fits(const hb_time_budget *p, hb_piece kind, int count);
/* Ends the piece under way, so that time spent waiting does not count. */
void hb_time_budget_rest(hb_time_budget *p);

#endif
