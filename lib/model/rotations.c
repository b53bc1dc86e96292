#include "model/rotations.h"

#include <math.h>

hb_rotations hb_rotations_of(const hb_model *m)
{
    return (hb_rotations){.nx = m->nx, .quaternion = hb_model_quaternion(m), .angle = m->angle};
}

void hb_rotations_unwind(const hb_rotations *r, double *x, const double *like)
{
    for (int i = 0; r->angle && i < r->nx; i++)
        if (r->angle[i] && fabs(x[i] - like[i]) > M_PI)
            x[i] = like[i] + remainder(x[i] - like[i], 2 * M_PI);
}

void hb_rotations_align(const hb_rotations *r, double *x, const double *like)
{
    double *q = x + r->quaternion, dot = 0;

    hb_rotations_unwind(r, x, like);
    if (r->quaternion < 0)
        return;
    for (int i = 0; i < 4; i++)
        dot += q[i] * like[r->quaternion + i];
    for (int i = 0; i < 4 && dot < 0; i++)
        q[i] = -q[i];
}

void hb_rotations_canonical(const hb_rotations *r, double *x)
{
    for (int i = 0; r->angle && i < r->nx; i++)
        if (r->angle[i] && fabs(x[i]) > M_PI)
            x[i] = remainder(x[i], 2 * M_PI);
    for (int i = 0; r->quaternion >= 0 && x[r->quaternion + 3] < 0 && i < 4; i++)
        x[r->quaternion + i] *= i < 3 ? -1 : 1;
    if (r->quaternion >= 0)
        x[r->quaternion + 3] = fabs(x[r->quaternion + 3]);
}

void hb_rotations_normalise(const hb_rotations *r, double *x)
{
    double *q = x + r->quaternion, square = 0;

    if (r->quaternion < 0)
        return;
    for (int i = 0; i < 4; i++)
        square += q[i] * q[i];
    for (int i = 0; i < 4 && square > 0; i++)
        q[i] /= sqrt(square);
}
