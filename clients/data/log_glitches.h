/* Rows of a log that no vehicle flew: glitches, jumps, and values far out.
 *
 * By what a signal changes in 99 of 100 steps between rows (`usual`):
 *   a glitch is a value that leaves by more than ten times that (and as much for each row that is missing), and is back
 * within 0.1 s: its rows are not believed. Of controls, which may go up and down as they like, it is a single row; a
 * jump of a state does not come back: a motion capture that found its markers elsewhere. Rows before and after it are
 * good, but no transition leads from one to the other. A heading that wraps does not jump; far out is a value beyond
 * ten times the width of what 99 of 100 rows are in, however long it stays there. */
#ifndef HB_LOG_GLITCHES_H
#define HB_LOG_GLITCHES_H

#include "base/base.h"

#include <stdbool.h>

typedef struct hb_log_rows {
    size_t n;
    size_t nsignals, nstates; /* states come first */
    double period;            /* seconds between rows */
    const double *time;       /* n, seconds, growing where good */
    const double *value;      /* n x nsignals */
    bool *good;               /* n: to be believed */
    bool *jump;               /* n: no transition leads to this row */
} hb_log_rows;

/* Of one signal. */
typedef struct hb_log_glitches {
    size_t rows;  /* in glitches */
    int glitches; /* stretches of them */
    int jumps;
    size_t far;       /* rows far out */
    double usual;     /* change from row to row, in 99 of 100 */
    double low, high; /* beyond them a row is far out */
    double furthest;  /* the value of all these that is furthest from what is usual */
} hb_log_glitches;

/* Clears `good`, sets `jump`. ret: nsignals. */
int hb_log_glitches_cut(const hb_log_rows *r, hb_log_glitches *ret, hb_error *err);

#endif
