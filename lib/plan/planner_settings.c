/* The planner's settings: rows, defaults and checks. */
#include <errno.h>
#include <math.h>

#include "plan/planner.h"
#include "plan/gauss_newton.h"

const char *const hb_planner_method_name[] = {
#define X(id, name, help) name,
    HB_PLANNER_METHODS(X)
#undef X
        NULL,
};

const char *const hb_planner_method_help[] = {
#define X(id, name, help) help,
    HB_PLANNER_METHODS(X)
#undef X
        NULL,
};

/* type, key, member, default, least, most, ends, live, help: base/setting_rows.h */
#define ROWS(X)                                                                                                        \
    X(INT, "planner.samples", samples, 100, 1, 100000, HB_CLOSED, HB_FIXED,                                            \
      "Number of action sequences that are tried in parallel.")                                                        \
    X(INT, "planner.horizon", horizon, 10, 1, 1000, HB_CLOSED, HB_FIXED, "Steps of a plan.")                           \
    X(INT, "planner.iterations", iterations, 100, 0, 1000000, HB_CLOSED, HB_LIVE,                                      \
      "Largest number of iterations for one plan.")                                                                    \
    X(REAL, "planner.dt", dt, 0, 0, 10, HB_CLOSED, HB_FIXED, "Seconds a step of a plan; 0: the model's.")              \
    X(REAL, "planner.learning_rate", learning_rate, 0.01, 0, 1, HB_CLOSED, HB_LIVE,                                    \
      "Learning rate of Adam, in units of each control's range.")                                                      \
    X(REAL, "planner.clip", clip, 1, 0, 1e9, HB_ABOVE, HB_LIVE,                                                        \
      "Largest norm of the gradient with respect to one step's controls.")                                             \
    X(REAL, "planner.noise", noise, 0.15, 0, 10, HB_CLOSED, HB_LIVE,                                                   \
      "Standard deviation of samples, in units of each control's range.")                                              \
    X(REAL, "planner.noise_correlation", noise_correlation, 0.5, 0, 1, HB_CLOSED, HB_LIVE,                             \
      "Correlation of the samples' noise from one step to the next.")                                                  \
    X(REAL, "planner.temperature", temperature, 0.1, 0, 1e6, HB_CLOSED, HB_LIVE,                                       \
      "Temperature of mppi, relative to the spread of the costs.")                                                     \
    X(REAL, "planner.tolerance", tolerance, 1e-5, 0, 1e9, HB_CLOSED, HB_LIVE,                                          \
      "Second-order steps end when the next one would lower the cost by less than this.")                              \
    X(BOOL, "planner.prepare", prepare, true, 0, 1, HB_CLOSED, HB_LIVE,                                                \
      "Prepare for the next request while none is waiting; a reply then takes a fraction of its budget.")              \
    X(REAL, "planner.prepare_share", prepare_share, 0.5, 0, 1, HB_CLOSED, HB_LIVE,                                     \
      "Fraction of a processor's time that preparing may take, on average over a fifth of a second.")                  \
    X(SEED, "planner.seed", seed, 0, 0, 0, HB_CLOSED, HB_FIXED, "Same seed, same plans.")

const hb_planner_settings hb_planner_defaults = {.method = HB_PLANNER_GAUSS_NEWTON, ROWS(HB_SETTING_DEFAULT)};

#define STRUCT hb_planner_settings
static const hb_setting row[] = {{.key = "planner.method",
                                  .type = HB_SETTING_CHOICE,
                                  .offset = offsetof(hb_planner_settings, method),
                                  .size = sizeof(hb_planner_method),
                                  .choices = hb_planner_method_name,
                                  .nchoices = HB_PLANNER_NMETHODS,
                                  .live = HB_FIXED,
                                  .help = "How plans are found."},
                                 ROWS(HB_SETTING_ROW)};
#undef STRUCT

hb_setting_rows hb_planner_rows(void)
{
    return (hb_setting_rows){row, (int)(sizeof row / sizeof *row)};
}

static int check_directions(const hb_planner_settings *s, const hb_model *m, hb_error *err)
{
    if (s->ndirections < 0 || s->ndirections > m->nu)
        return hb_fail(err, EINVAL,
                       "planner.directions: %d directions for %d controls, expected 0 (each control) to %d",
                       s->ndirections, m->nu, m->nu);
    for (int v = 0; v < s->ndirections; v++) {
        double largest = 0;
        for (int i = 0; i < m->nu; i++)
            largest = fmax(largest, fabs(s->direction[v * m->nu + i]));
        if (!(largest > 0 && isfinite(largest)))
            return hb_fail(err, EINVAL, "planner.directions: direction %d has no finite element other than 0", v);
    }
    for (int i = 0; s->ndirections && i < m->nu; i++)
        if (!(m->control_min[i] < m->control_trim[i] && m->control_trim[i] < m->control_max[i]))
            return hb_fail(err, EINVAL,
                           "planner.directions: the trim %g of control %d must lie between its bounds %g and %g, since "
                           "plans are drawn back towards it; leave directions out to plan for each control",
                           m->control_trim[i], i, m->control_min[i], m->control_max[i]);
    return 0;
}

static int check_controls(const hb_model *m, hb_error *err)
{
    if (m->nu < 1 || m->nu > HB_MAX_CONTROLS)
        return hb_fail(err, EINVAL, "planner: the model has %d controls, expected 1 to %d", m->nu, HB_MAX_CONTROLS);
    for (int i = 0; i < m->nu; i++) {
        double low = m->control_min[i], high = m->control_max[i], trim = m->control_trim[i];
        if (!(isfinite(high - low) && low < high && low <= trim && trim <= high))
            return hb_fail(err, EINVAL,
                           "model: control %d has bounds %g and %g and trim %g, expected finite ones, min < max, with "
                           "the trim between them",
                           i, low, high, trim);
    }
    return 0;
}

double hb_planner_memory(const hb_model *m, const hb_planner_settings *s, int nthreads)
{
    const double nh = s->horizon, nv = hb_planner_ndirections(s, m), sequences = s->samples * nh;
    /* population; the best of every group of lanes; a thread's rollout; matrices of second-order steps */
    double population = sequences * (3 * nv + 2 * m->nu) * sizeof(hb_real);
    double groups = sequences / HB_LANES * (m->nu * (double)sizeof(hb_real) + m->nx * (double)sizeof(double));
    double rollout = nh * ((double)hb_predictor_tape_size(m) + (2.0 * m->nx + m->nu) * HB_STRIDE * sizeof(hb_real));
    double second = 2 * hb_gauss_newton_memory(m->nx, m->nu, (int)nv, s->horizon);

    return population + groups + nthreads * rollout + second;
}

int hb_planner_check(const hb_model *m, const hb_planner_settings *s, hb_error *err)
{
    int failed = hb_setting_rows_check(hb_planner_rows(), s, err);

    if (!failed)
        failed = check_controls(m, err);
    if (!failed)
        failed = check_directions(s, m, err);
    if (!failed && hb_planner_memory(m, s, 1) > HB_PLANNER_BYTES)
        failed =
            hb_fail(err, EINVAL, "planner.samples: %d samples of %d steps take about %.0f MB, at most %d are possible",
                    s->samples, s->horizon, hb_planner_memory(m, s, 1) / 1e6, HB_PLANNER_BYTES / 1000000);
    return failed;
}
