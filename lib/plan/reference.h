/* A reference trajectory, given at moments of its own, at the moments of a plan's states. */
#ifndef HB_REFERENCE_H
#define HB_REFERENCE_H

#include <stddef.h>

#include "model/rotations.h"

enum { HB_REFERENCE_ROWS = 256 }; /* of a reference with times, at most */

typedef struct hb_reference {
    int nx, n;
    hb_rotations rotations;
    const double *target; /* n x nx */
    const double *time;   /* n, seconds, ascending; NULL: `step` apart, from 0 */
    double step;
} hb_reference;

/* The row (nx) at a time: interpolated; before the first one it is the first, and beyond the last one the reference
 * goes on as it came for as long as its last interval was, and stops there. */
void hb_reference_at(const hb_reference *r, double time, double *row);

#endif
