#include "plant_vanderpol.h"

#include <math.h>

static void field(double mu, const double *x, double *xdot)
{
    xdot[0] = x[1];
    xdot[1] = mu * (1 - x[0] * x[0]) * x[1] - x[0];
}

void plant_vanderpol_step(double mu, double *x, double seconds)
{
    int steps = (int)ceil(seconds / 1e-3);
    double h = seconds / steps, k[4][VANDERPOL_NX], at[VANDERPOL_NX];

    for (int step = 0; step < steps; step++) {
        field(mu, x, k[0]);
        for (int stage = 1; stage < 4; stage++) {
            for (int i = 0; i < VANDERPOL_NX; i++)
                at[i] = x[i] + (stage < 3 ? 0.5 : 1) * h * k[stage - 1][i];
            field(mu, at, k[stage]);
        }
        for (int i = 0; i < VANDERPOL_NX; i++)
            x[i] += h / 6 * (k[0][i] + 2 * k[1][i] + 2 * k[2][i] + k[3][i]);
    }
}
