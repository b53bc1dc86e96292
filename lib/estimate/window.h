/* The transitions that coefficients are estimated from: a ring that survives the process.
 *
 * It lives in one block of memory which the caller may keep over a restart (a memfd). Transitions are raw, normalised
 * data. Beside them the estimator may keep all that it believes, in two slots by turns (estimator_belief.c).
 *
 *     header | coefficients, two slots | belief, two slots | nw entries: sequence, checksum, times, z, u, z_next - z
 *
 * A process may be killed between any two instructions. An entry counts only if its checksum fits; the one being
 * overwritten at that moment is the oldest, so what is lost is at most one transition at the old end. The start of
 * the window and the choice of slot follow from single words. */
#ifndef HB_WINDOW_H
#define HB_WINDOW_H

#include <stdbool.h>

#include "dynamics/transition.h"
#include "model/model.h"

typedef struct hb_window {
    int nx, nu, nw;
    int ncoefficients;
    int nbelief;          /* numbers of what the estimator believes; 0: none are kept */
    uint64_t beliefs;     /* saved so far */
    uint64_t model;       /* its hash */
    uint64_t first, next; /* sequence numbers of the oldest transition and of the one to come */
    char *block;
} hb_window;

/* One transition in normalised units. */
typedef struct hb_window_entry {
    double dt;        /* seconds */
    bool continues;   /* it starts where the one before it ended */
    const double *z;  /* nx */
    const double *u;  /* nu, command */
    const double *dz; /* nx, z_next - z */
} hb_window_entry;

size_t hb_window_size(const hb_model *m, int nw, int nbelief);

/* Whether a block begins as a window of any model, size and format does. */
bool hb_window_is(const void *block, size_t size);
/* Whether it is one of another version of this program; if so, says which. */
bool hb_window_is_foreign(const void *block, size_t size, hb_error *which);

/* Takes the window in `memory` up, or starts an empty one there when it holds none of this model and size. Returns
 * whether it was taken up; `why` (may be NULL) says in words what was found, with code 0 if it was. */
bool hb_window_open(hb_window *w, const hb_model *m, int nw, int nbelief, void *memory, hb_error *why);

static inline int hb_window_count(const hb_window *w)
{
    return (int)(w->next - w->first);
}

/* first <= sequence < next */
hb_window_entry hb_window_at(const hb_window *w, uint64_t sequence);
/* Appends; the oldest transition leaves when the window is full. */
void hb_window_append(hb_window *w, const hb_window_entry *e);
/* Forgets what is older than `sequence`. */
void hb_window_drop_before(hb_window *w, uint64_t sequence);

/* Coefficients with their version and whether they were estimated (and not seeded or zero). */
void hb_window_save_coefficients(hb_window *w, uint64_t version, bool estimated, const hb_real *coefficient);
/* False, and outputs untouched, when there are none. */
bool hb_window_load_coefficients(const hb_window *w, uint64_t *ret_version, bool *ret_estimated, hb_real *ret);

/* Where to write what is believed; until it is ended, what was written before counts. NULL: none is kept. */
double *hb_window_begin_belief(hb_window *w);
void hb_window_end_belief(hb_window *w);
/* NULL: there is none, or it is not whole. */
const double *hb_window_belief(const hb_window *w);

#endif
