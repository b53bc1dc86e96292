#include "plan/lag.h"

#include <string.h>

#include "dynamics/actuators.h"

void hb_lag_set(hb_lag *lag, const hb_goal *goal, int nu, double dt)
{
    lag->any = false;
    for (int i = 0; i < nu; i++) {
        double seconds = goal->lag ? goal->lag[i] : 0;
        lag->keep[i] = hb_actuator_keep(seconds, dt);
        lag->share[i] = hb_actuator_share(seconds, dt);
        lag->any = lag->any || lag->share[i] > 0;
    }
}

const double *hb_lag_start(const hb_goal *goal)
{
    return goal->actuator_state ? goal->actuator_state : goal->last_control;
}

void hb_lag_effective(const hb_lag *lag, const hb_goal *goal, int nu, int nh, const double *u, double *effective)
{
    if (!lag->any) {
        memmove(effective, u, (size_t)(nh * nu) * sizeof *u);
        return;
    }
    for (int i = 0; i < nu; i++) {
        double a = hb_lag_start(goal)[i];
        for (int k = 0; k < nh; k++) {
            double command = u[k * nu + i], off = a - command;
            effective[k * nu + i] = command + off * lag->share[i];
            a = command + off * lag->keep[i];
        }
    }
}
