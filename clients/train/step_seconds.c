#include "train/step_seconds.h"

#include <errno.h>
#include <math.h>
#include <unistd.h>

int hb_step_seconds_measure(const hb_settings *s, int functions, uint64_t steps, const volatile sig_atomic_t *stop,
                            double *ret_step_seconds, double *ret_prior_seconds, hb_error *err)
{
    hb_settings probe = *s;
    hb_run_result result = {0};
    char path[HB_PATH_SIZE];
    hb_training_log_seconds took = {0};

    snprintf(probe.output, sizeof probe.output, "%.1000s.probe", s->output);
    *probe.checkpoint = *probe.log = *probe.plot = 0;
    probe.functions = functions;
    probe.steps = steps;
    probe.log_every = 1;
    /* one prior is made on the way, in the longest of the steps */
    bool priors = s->fit == HB_FIT_BY_PRIOR && steps >= 4;
    probe.prior_every = priors ? (steps + 1) / 2 : s->prior_every;
    /* the end is not measured without the prior */
    probe.join = ret_prior_seconds ? s->join : 0;
    /* a validation would count as a step's time */
    probe.hold_out = 0;
    *probe.validation = 0;
    hb_run_log_path(&probe, path);
    int status =
        hb_run(&probe, &(hb_run_options){.stop = stop, .quiet = true, .no_prior = !ret_prior_seconds}, &result, err);
    if (!status && !result.stopped)
        status = hb_training_log_step_seconds(path, &took, err);
    unlink(path);
    hb_run_checkpoint_path(&probe, path);
    unlink(path);
    unlink(probe.output);
    if (!status && result.stopped)
        return hb_fail(err, EINTR, "stopped; the same command continues from here");
    *ret_step_seconds = fmax(took.usual, 1e-6) * s->functions / functions;
    if (priors)
        *ret_step_seconds += (took.longest - took.usual) / (double)s->prior_every;
    if (ret_prior_seconds)
        *ret_prior_seconds = took.end;
    return status;
}

int hb_step_seconds_fit(hb_settings *s, double cpu_seconds, const volatile sig_atomic_t *stop, hb_error *err)
{
    enum { FEW = 5, MANY = 200 };
    double step = 0, prior = 0;
    int status = hb_step_seconds_measure(s, s->functions, FEW, stop, &step, NULL, err);

    /* then for a twentieth of the time: the first steps are slower */
    if (!status)
        status = hb_step_seconds_measure(s, s->functions, (uint64_t)fmin(MANY, fmax(FEW, 0.05 * cpu_seconds / step)),
                                         stop, &step, &prior, err);
    /* half at least is left for the steps, however long the prior takes */
    if (!status)
        s->steps = (uint64_t)fmax(1, round(fmax(cpu_seconds - prior, 0.5 * cpu_seconds) / step));
    return status;
}
