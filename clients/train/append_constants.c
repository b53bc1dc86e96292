#include "train/append_constants.h"

#include <errno.h>
#include <string.h>

/* States that get one. */
static int choose(const hb_model *m, int *state)
{
    int n = 0;

    for (int i = 0; i < m->nx; i++)
        if (m->output[i] && !(m->nominal && m->nominal->kinematic && m->nominal->kinematic[i])) {
            if (state)
                state[n] = i;
            n++;
        }
    return n;
}

static void copy_names(hb_model *to, const hb_model *m)
{
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu;
    const struct {
        void *to;
        const void *from;
        size_t size;
    } part[] = {{to->state_name, m->state_name, nx * sizeof *m->state_name},
                {to->state_unit, m->state_unit, nx * sizeof *m->state_unit},
                {to->angle, m->angle, nx * sizeof *m->angle},
                {to->state_mean, m->state_mean, nx * sizeof(double)},
                {to->state_std, m->state_std, nx * sizeof(double)},
                {to->control_name, m->control_name, nu * sizeof *m->control_name},
                {to->control_unit, m->control_unit, nu * sizeof *m->control_unit},
                {to->control_mean, m->control_mean, nu * sizeof(double)},
                {to->control_std, m->control_std, nu * sizeof(double)},
                {to->control_min, m->control_min, nu * sizeof(double)},
                {to->control_max, m->control_max, nu * sizeof(double)},
                {to->control_trim, m->control_trim, nu * sizeof(double)},
                {to->actuator_delay, m->actuator_delay, nu * sizeof(double)},
                {to->actuator_lag, m->actuator_lag, nu * sizeof(double)},
                {to->actuator_rate, m->actuator_rate, nu * sizeof(double)}};

    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (part[i].size)
            memcpy(part[i].to, part[i].from, part[i].size);
}

int hb_append_constants(hb_model **ret, const hb_model *m, hb_error *err)
{
    int state[HB_MAX_STATES], n = choose(m, NULL);
    hb_model shape = *m, *to = NULL;

    if (m->architecture != HB_SHARED || m->shape != HB_VECTOR || m->nb == 0)
        return hb_fail(err, EINVAL,
                       "constants: go with a shared model that has one coefficient for all states of a basis function");
    if (n == 0)
        return hb_fail(err, EINVAL, "constants: basis functions act on no state that has one");
    choose(m, state);
    shape.nb = m->nb + n;
    shape.has_prior = false; /* of fewer coefficients */
    int status = hb_model_new(&to, &shape, m->notes, err);
    if (status)
        return status;
    copy_names(to, m);

    /* trunk, the rows of the learned functions, those of the constants, those of the average */
    const hb_head old = hb_mlp_head(&m->basis), new = hb_mlp_head(&to->basis);
    size_t learned = (size_t)m->nb * (size_t)m->nx, average = old.rows - learned, nx = (size_t)m->nx;
    size_t after = learned + (size_t)n * nx;
    memcpy(to->parameter, m->parameter, (old.weight + learned * old.width) * sizeof *m->parameter);
    memcpy(to->parameter + new.weight + after *new.width, m->parameter + old.weight + learned * old.width,
           average * old.width * sizeof *m->parameter);
    memcpy(to->parameter + new.bias, m->parameter + old.bias, learned * sizeof *m->parameter);
    memcpy(to->parameter + new.bias + after, m->parameter + old.bias + learned, average * sizeof *m->parameter);
    for (int k = 0; k < n; k++)
        to->parameter[new.bias + learned + (size_t)k *nx + (size_t)state[k]] = 1;
    memcpy(to->parameter + hb_model_average_at(to), m->parameter + hb_model_average_at(m),
           m->average_network.nparameters * sizeof *m->parameter);
    hb_model_seal(to);
    *ret = to;
    return 0;
}
