/* How the end of a transition depends on the coefficients, all of it.
 *
 * Rows hold G_i, the integral of g_i along the path of the model in use. A coefficient also moves the path itself:
 * more thrust is more speed, and through it another position at the end, although no basis function has an output
 * there. With Phi = d z_end / d z_start, what g_i adds at the middle of a transition is carried on by half of it:
 *
 *     d z_end / d c_i  ~  (I + Phi) / 2  G_i              to second order in the transition's length
 *
 * and r = z_end - step(c) + (d z_end / dc) c, so that r - G c is what the model with these coefficients leaves, as
 * before. Without it, what the kinematics show pulls coefficients the wrong way: on real flights more data made
 * predictions worse.
 *
 * Phi comes from differences: copies of a lane, each with one state moved a little, are evaluated in the same batch. */
#ifndef HB_SENSITIVITY_H
#define HB_SENSITIVITY_H

#include "estimate/rows.h"

typedef struct hb_sensitivity {
    const hb_model *m;
    int lanes;      /* that a transition needs beside its own; 0: its increments do not depend on the path */
    double *phi;    /* nx x nx: (I + Phi) / 2 */
    double *column; /* nx x nb, scratch */
} hb_sensitivity;

/* Takes the arrays from the arena; m is given. */
void hb_sensitivity_lay_out(hb_sensitivity *s, hb_arena *arena);
/* Loads the copies of a loaded lane into s->lanes lanes from `first` on. */
void hb_sensitivity_load(const hb_sensitivity *s, hb_rows *r, int lane, int first);
/* Phi of a lane, from its copies; all are evaluated. */
void hb_sensitivity_find(hb_sensitivity *s, const hb_rows *r, int lane, int first);
/* Completes r->row with Phi; the coefficients are those that it was evaluated with. */
void hb_sensitivity_complete(hb_sensitivity *s, hb_rows *r, const hb_real *coefficient);

#endif
