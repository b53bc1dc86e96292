/* The transitions that coefficients are estimated from: a ring that survives the process.
 *
 * It lives in one block of memory which the caller may keep over a restart (a memfd). What is kept is raw, normalised
 * data: increments and sums are worked out again when the window is taken up, so a block is small and never
 * contradicts itself.
 *
 *     header | coefficients, two slots by turns | nw entries: sequence, checksum, times, z, u, z_next - z
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
    uint64_t model;       /* its hash */
    uint64_t first, next; /* sequence numbers of the oldest transition and of the one to come */
    char *block;
} hb_window;

/* One transition in normalised units. */
typedef struct hb_window_entry {
    double dt;        /* seconds */
    int parts;        /* 1..HB_TRANSITION_PARTS, of equal length */
    bool continues;   /* it starts where the one before it ended */
    int averaged;     /* samples of telemetry behind each end */
    const double *z;  /* nx */
    const double *u;  /* parts x nu, commands */
    const double *dz; /* nx, z_next - z */
} hb_window_entry;

size_t hb_window_size(const hb_model *m, int nw);

/* Whether a block begins as a window of any model, size and format does. */
bool hb_window_is(const void *block, size_t size);

/* Takes the window in `memory` up, or starts an empty one there when it holds none of this model and size. Returns
 * whether it was taken up; `why` (may be NULL) says in words what was found, with code 0 if it was. */
bool hb_window_open(hb_window *w, const hb_model *m, int nw, void *memory, hb_error *why);

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

#endif
