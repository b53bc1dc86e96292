#include "sim/actuation.h"

#include <math.h>
#include <string.h>

void hb_actuation_reset(hb_actuation *a, int nu, const double *trim)
{
    a->nu = nu;
    a->ncommands = 0;
    memcpy(a->trim, trim, (size_t)nu * sizeof *trim);
    memcpy(a->acting, trim, (size_t)nu * sizeof *trim);
}

void hb_actuation_tell(hb_actuation *a, double time, const double *u)
{
    const int slot = a->ncommands++ % HB_ACTUATION_COMMANDS;

    a->told_at[slot] = time;
    memcpy(a->told[slot], u, (size_t)a->nu * sizeof *u);
}

const double *hb_actuation_told(const hb_actuation *a, double time)
{
    for (int k = a->ncommands - 1; k >= 0 && k >= a->ncommands - HB_ACTUATION_COMMANDS; k--)
        if (a->told_at[k % HB_ACTUATION_COMMANDS] <= time + 1e-9)
            return a->told[k % HB_ACTUATION_COMMANDS];
    return a->trim;
}

void hb_actuation_advance(hb_actuation *a, double time, double h, double delay, double lag, double *mean)
{
    const double *command = hb_actuation_told(a, time - delay);
    const double kept = lag > 0 ? exp(-h / lag) : 0, share = lag > 0 ? lag / h * (1 - kept) : 0;

    for (int i = 0; i < a->nu; i++) {
        mean[i] = command[i] + (a->acting[i] - command[i]) * share;
        a->acting[i] = command[i] + (a->acting[i] - command[i]) * kept;
    }
}
