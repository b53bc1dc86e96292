/* Commands become the controls that act: the mean, over each transition, of what delay and lag make of them. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"

/* One control of an episode. Before the episode its first command is taken to have been in force for long. */
static void act(const hb_dataset *d, const hb_episode *e, int channel, double delay, double lag, const double *command,
                double *acting)
{
    size_t nu = (size_t)d->header.nu, i = (size_t)channel;
    double a = command[i], start = 0;
    int now = 0; /* the command that acts */
    double next_time = hb_episode_dt(d, e, 0) + delay;

    for (int k = 0; k < e->nsteps; k++) {
        double h = hb_episode_dt(d, e, k), end = start + h, t = start, sum = 0;
        while (t < end) {
            bool changes = now + 1 < e->nsteps && next_time < end;
            double until = changes ? fmax(next_time, t) : end, held = until - t, u = command[(size_t)now * nu + i];
            if (held > 0) {
                sum += held * (u + (a - u) * hb_actuator_share(lag, held));
                a = u + (a - u) * hb_actuator_keep(lag, held);
            }
            t = until;
            if (changes) {
                now++;
                next_time += hb_episode_dt(d, e, now);
            }
        }
        acting[(size_t)k * nu + i] = sum / h;
        start = end;
    }
}

void hb_episode_actuate(const hb_dataset *d, const hb_episode *e, const hb_actuators *a, double *acting)
{
    for (int i = 0; i < a->nu; i++)
        if (a->delay[i] > 0 || a->lag[i] > 0)
            act(d, e, i, a->delay[i], a->lag[i], e->u, acting);
}

int hb_dataset_actuate(hb_dataset *d, const hb_actuators *a, hb_error *err)
{
    size_t nu = (size_t)d->header.nu, most = 0;
    bool none = true;

    for (int i = 0; i < a->nu; i++)
        none &= !(a->delay[i] > 0 || a->lag[i] > 0);
    if (none)
        return 0;
    for (int k = 0; k < d->nepisodes; k++)
        if (d->episode[k].stream)
            return hb_fail(err, EINVAL, "delay and lag change the controls, which stay in the file with --stream");
    for (int k = 0; k < d->nepisodes; k++)
        most = (size_t)d->episode[k].nsteps > most ? (size_t)d->episode[k].nsteps : most;
    double *command = calloc(most * nu + 1, sizeof *command);
    if (!command)
        return hb_fail(err, ENOMEM, "out of memory");
    for (int k = 0; k < d->nepisodes && nu; k++) {
        const hb_episode *e = &d->episode[k];
        /* the data set owns its rows */
        double *acting = (double *)(uintptr_t)e->u;
        memcpy(command, e->u, (size_t)e->nsteps * nu * sizeof *command);
        for (int i = 0; i < a->nu; i++)
            if (a->delay[i] > 0 || a->lag[i] > 0)
                act(d, e, i, a->delay[i], a->lag[i], command, acting);
    }
    free(command);
    return 0;
}
