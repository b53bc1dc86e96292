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
    for (int j = 0; j < r->nx; j++)
        row[j] = from[j] + share * (to[j] - from[j]);

    /* both signs of a quaternion are the same attitude */
    const int q = r->quaternion;
    double along = 0, length = 0;
    for (int j = q; q >= 0 && j < q + 4; j++)
        along += from[j] * to[j];
    for (int j = q; q >= 0 && j < q + 4; j++) {
        row[j] = from[j] + share * ((along < 0 ? -to[j] : to[j]) - from[j]);
        length += row[j] * row[j];
    }
    for (int j = q; length > 0 && j < q + 4; j++)
        row[j] /= sqrt(length);
}
