/* The Van der Pol oscillator, x'' = mu (1 - x^2) x' - x, with RK4 in steps of 1 ms or a little less. */
#ifndef HB_VANDERPOL_H
#define HB_VANDERPOL_H

#include <math.h>

enum { HB_VANDERPOL_STATES = 2 }; /* x, v */

static inline void hb_vanderpol_rate(double mu, const double *x, double *rate)
{
    rate[0] = x[1];
    rate[1] = mu * (1 - x[0] * x[0]) * x[1] - x[0];
}

/* Moves x on by dt seconds. */
static inline void hb_vanderpol_flow(double mu, double *x, double dt)
{
    static const double reach[4] = {0, 0.5, 0.5, 1};
    int n = (int)fmax(1, ceil(dt / 1e-3));
    double h = dt / n, k[4][HB_VANDERPOL_STATES], at[HB_VANDERPOL_STATES];

    for (int i = 0; i < n; i++) {
        for (int s = 0; s < 4; s++) {
            for (int j = 0; j < HB_VANDERPOL_STATES; j++)
                at[j] = x[j] + (s ? reach[s] * h * k[s - 1][j] : 0);
            hb_vanderpol_rate(mu, at, k[s]);
        }
        for (int j = 0; j < HB_VANDERPOL_STATES; j++)
            x[j] += h / 6 * (k[0][j] + 2 * k[1][j] + 2 * k[2][j] + k[3][j]);
    }
}

#endif
