#include "plan/reference.h"

#include <math.h>
#include <string.h>

static double time_of(const hb_reference *r, int i)
{
    return r->time ? r->time[i] : i * r->step;
}

void hb_reference_at(const hb_reference *r, double time, double *row)
{
    int i = 0;

    if (r->n == 1 || time <= time_of(r, 0)) {
        memcpy(row, r->target, (size_t)r->nx * sizeof *row);
        return;
    }
    while (i < r->n - 2 && time > time_of(r, i + 1))
        i++;

    const double *from = r->target + (ptrdiff_t)i * r->nx, *to = from + r->nx;
    double share = fmin((time - time_of(r, i)) / (time_of(r, i + 1) - time_of(r, i)), 2);
    /* the shorter way from one to the other */
    memcpy(row, to, (size_t)r->nx * sizeof *row);
    hb_rotations_align(&r->rotations, row, from);
    for (int j = 0; j < r->nx; j++)
        row[j] = from[j] + share * (row[j] - from[j]);
    hb_rotations_normalise(&r->rotations, row);
}
