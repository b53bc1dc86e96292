/* Rows of many candidates, which differ in the controls that acted, from few evaluations of the model.
 *
 * Controls u_pj of parts p that lie near those of the present actuators, u0_pj, are told by two numbers for each
 * control: by how much it differed on average, and how much more at the beginning of the transition than at its end,
 *
 *     u_pj - u0_pj ~ s_j (a_j + b_j t_p)          t_p from 1 in the first part to -1 in the last
 *
 * which is what velocities and positions take from it. The model is evaluated at u0, at u0 + s_j and at u0 + s_j t_p,
 * where s_j is the largest difference among the candidates, and rows of a candidate are
 *
 *     R + sum_j a_j (R_aj - R0) + b_j (R_bj - R0)
 *
 * exact for the present actuators, whose rows R are given, and to first order in between. */
#ifndef HB_CANDIDATE_ROWS_H
#define HB_CANDIDATE_ROWS_H

#include "base/batch.h"
#include "dynamics/transition.h"
#include "estimate/identification.h"
#include "estimate/rows.h"

typedef struct hb_candidate_rows {
    const hb_arithmetic *arithmetic;
    int nu, size;          /* size: nx x ld, of rows */
    int parts, directions; /* of the transition; lanes besides the present one */
    double *present;       /* HB_TRANSITION_PARTS x nu */
    double *difference;    /* HB_GRID x HB_TRANSITION_PARTS x nu */
    double *scale;         /* nu: s */
    double *control;       /* HB_TRANSITION_PARTS x nu, scratch */
    double *base, *slope;  /* size, and HB_STRIDE x size: R0, differences to it */
    hb_sides *share;       /* HB_STRIDE: a and b of the candidates of a block */
    hb_sides *row;         /* HB_GRID_BLOCKS x size */
} hb_candidate_rows;

/* Takes the arrays from the arena; nu and size are given. */
void hb_candidate_rows_lay_out(hb_candidate_rows *c, hb_arena *arena);

/* A transition of so many parts, with the controls of the present actuators (parts x nu). */
void hb_candidate_rows_start(hb_candidate_rows *c, int parts, const double *present);
void hb_candidate_rows_set(hb_candidate_rows *c, int candidate, const double *control);
/* Loads what is to be evaluated besides the present controls, from `lane` on; how many lanes that is. */
int hb_candidate_rows_load(hb_candidate_rows *c, hb_rows *rows, int lane, const hb_window_entry *entry);
/* Those lanes, and the lane of the present controls, evaluated, of a transition that moved by dz and has the rows
 * `given`: c->row. False when the model is not finite there. */
bool hb_candidate_rows_combine(hb_candidate_rows *c, int candidates, hb_rows *rows, int present, int lane,
                               const double *dz, const double *given);

#endif
