/* Transitions as rows of a regression: evaluated in lanes, kept in a ring.
 *
 *     load a lane ... load a lane -> evaluate all at once -> row of a lane -> keep        recall
 *        z, dt, u                     the model's increments     |              \         ^
 *                                                                v               ring, by sequence
 *                                                      [ G | D | r | dz ], regression.h and belief.h
 *
 * The ring keeps increments in single precision, as they were computed, and residuals in double. */
#ifndef HB_ROWS_H
#define HB_ROWS_H

#include <stdbool.h>

#include "estimate/window.h"
#include "dynamics/workspace.h"

typedef struct hb_rows {
    const hb_model *m;
    int nw, ld;
    int nfixed; /* columns D of unknowns that stay (belief.h); whoever has some fills them in */

    hb_real *increment; /* nw x nx x nb, by sequence modulo nw */
    double *residual;   /* nw x nx */

    /* a batch, batch.h */
    hb_real *z, *u, *dt;
    hb_real *g;             /* increments, (nb + 1) x nx */
    double *end;            /* nx: where a lane ends, with the coefficients that it was evaluated with */
    double *row, *recalled; /* nx x ld */
} hb_rows;

/* Takes the arrays from the arena; m, nw and ld are given. */
void hb_rows_lay_out(hb_rows *r, hb_arena *arena);

/* control: nu, what acted, in the mean. */
void hb_rows_load(hb_rows *r, int lane, const hb_window_entry *entry, const double *control);
/* Loads a lane as another one is. */
void hb_rows_copy(hb_rows *r, int from, int to);
/* Increments of the first `lanes` lanes along the model with these coefficients, and where they end. */
void hb_rows_evaluate(hb_rows *r, hb_workspace *w, int lanes, const hb_real *coefficient);
/* The rows of an evaluated lane, whose transition moved by dz, to r->row, D = 0; false when the model's increments are
 * not finite. */
bool hb_rows_of_lane(hb_rows *r, int lane, const double *dz);

/* r->row into the ring. */
void hb_rows_keep(hb_rows *r, uint64_t sequence);
/* What was kept, D = 0; valid until the next call. */
const double *hb_rows_recall(hb_rows *r, uint64_t sequence, const double *dz);

#endif
