#include "hilbert_model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "dynamics/stepper.h"
#include "model/rotations.h"
#include "train/fit.h"

struct hilbert_model {
    hb_model *model;
    hb_stepper *stepper;
    hb_workspace *workspace;
    hb_real *coefficient;
    hb_error err;
};

int hilbert_model_abi(void)
{
    return HILBERT_MODEL_ABI;
}

int hilbert_model_load(hilbert_model **ret, const char *path)
{
    hilbert_model *m = *ret = calloc(1, sizeof *m);
    int status;

    if (!m)
        return -ENOMEM;
    hb_numeric_single_thread();
    if ((status = hb_model_load(&m->model, path, &m->err)) ||
        (status = hb_stepper_new(&m->stepper, m->model, &m->err)) ||
        (status = hb_workspace_new(&m->workspace, m->model, false, &m->err)))
        return status;
    m->coefficient = calloc((size_t)hb_model_ncoefficients(m->model) + 1, sizeof *m->coefficient);
    return m->coefficient ? 0 : hb_fail(&m->err, ENOMEM, "out of memory");
}

void hilbert_model_free(hilbert_model *m)
{
    if (!m)
        return;
    hb_workspace_free(m->workspace);
    hb_stepper_free(m->stepper);
    hb_model_free(m->model);
    free(m->coefficient);
    free(m);
}

const char *hilbert_model_error(const hilbert_model *m)
{
    return m ? m->err.text : "out of memory";
}

/* ---- what it is ---- */

int hilbert_model_nstates(const hilbert_model *m)
{
    return m->model->nx;
}
int hilbert_model_ncontrols(const hilbert_model *m)
{
    return m->model->nu;
}
int hilbert_model_nbasis(const hilbert_model *m)
{
    return m->model->nb;
}
int hilbert_model_ncoefficients(const hilbert_model *m)
{
    return hb_model_ncoefficients(m->model);
}
double hilbert_model_dt(const hilbert_model *m)
{
    return m->model->dt;
}
uint64_t hilbert_model_hash(const hilbert_model *m)
{
    return m->model->hash;
}
int hilbert_model_has_prior(const hilbert_model *m)
{
    return m->model->has_prior;
}
const char *hilbert_model_notes(const hilbert_model *m)
{
    return m->model->notes;
}
const char *hilbert_model_state_name(const hilbert_model *m, int i)
{
    return i >= 0 && i < m->model->nx ? m->model->state_name[i] : NULL;
}
const char *hilbert_model_state_unit(const hilbert_model *m, int i)
{
    return i >= 0 && i < m->model->nx ? m->model->state_unit[i] : NULL;
}
const char *hilbert_model_control_name(const hilbert_model *m, int i)
{
    return i >= 0 && i < m->model->nu ? m->model->control_name[i] : NULL;
}
const char *hilbert_model_control_unit(const hilbert_model *m, int i)
{
    return i >= 0 && i < m->model->nu ? m->model->control_unit[i] : NULL;
}

int hilbert_model_control_bounds(const hilbert_model *m, int i, double bounds[3])
{
    if (i < 0 || i >= m->model->nu)
        return -EINVAL;
    bounds[0] = m->model->control_min[i];
    bounds[1] = m->model->control_max[i];
    bounds[2] = m->model->control_trim[i];
    return 0;
}

int hilbert_model_prior_mean(hilbert_model *m, double *mean)
{
    if (!m->model->has_prior)
        return hb_fail(&m->err, EINVAL, "the model has no prior: hilbert-train prior adds one");
    memcpy(mean, m->model->prior_mean, (size_t)hb_model_ncoefficients(m->model) * sizeof *mean);
    return 0;
}

/* ---- what it does ---- */

static int check_finite(hilbert_model *m, const char *what, const double *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(value[i]))
            return hb_fail(&m->err, EINVAL, "%s: number %zu is not finite", what, i);
    return 0;
}

static int take_coefficients(hilbert_model *m, const double *coefficient)
{
    const size_t n = (size_t)hb_model_ncoefficients(m->model);
    int status = coefficient ? check_finite(m, "coefficients", coefficient, n) : 0;

    if (status)
        return status;
    for (size_t i = 0; i < n; i++)
        m->coefficient[i] = coefficient ? (hb_real)coefficient[i] : 0;
    hb_predictor_set(hb_stepper_predictor(m->stepper), m->coefficient);
    return 0;
}

int hilbert_model_predict(hilbert_model *m, const double *coefficient, int count, int steps, double dt,
                          const double *state, const double *control, double *states)
{
    const size_t nx = (size_t)m->model->nx, nu = (size_t)m->model->nu, n = (size_t)count, h = (size_t)steps;
    int status;

    if (count < 0 || steps < 0 || dt < 0 || !isfinite(dt))
        return hb_fail(&m->err, EINVAL, "%d trajectories of %d steps of %g s: none may be negative", count, steps, dt);
    if ((status = check_finite(m, "states", state, n * nx)) ||
        (status = check_finite(m, "controls", control, n * h * nu)) || (status = take_coefficients(m, coefficient)))
        return status;
    for (size_t i = 0; i < n; i++) {
        double *at = states + i * (h + 1) * nx;
        memcpy(at, state + i * nx, nx * sizeof *at);
        for (size_t k = 0; k < h; k++, at += nx) {
            memcpy(at + nx, at, nx * sizeof *at);
            hb_stepper_step(m->stepper, at + nx, control + (i * h + k) * nu, dt > 0 ? dt : m->model->dt);
        }
    }
    return 0;
}

static int check_transitions(hilbert_model *m, int n, const double *state, const double *control, const double *next,
                             const double *dt)
{
    const size_t nx = (size_t)m->model->nx, nu = (size_t)m->model->nu, rows = (size_t)n;
    int status;

    if (n < 1)
        return hb_fail(&m->err, EINVAL, "%d transitions: expected at least one", n);
    if ((status = check_finite(m, "states", state, rows * nx)) ||
        (status = check_finite(m, "controls", control, rows * nu)) ||
        (status = check_finite(m, "next", next, rows * nx)) || (status = check_finite(m, "dt", dt, rows)))
        return status;
    for (int i = 0; i < n; i++)
        if (dt[i] <= 0)
            return hb_fail(&m->err, EINVAL, "dt: number %d is %g: expected more than 0", i, dt[i]);
    return 0;
}

/* Normalised, angles and attitudes without jumps between a state and the next; unused lanes are harmless. */
static void fill_points(const hb_model *m, hb_points *p, const double *state, const double *control, const double *next,
                        const double *dt)
{
    const hb_rotations rotations = hb_rotations_of(m);
    double x[2][HB_MAX_STATES];

    for (int s = 0; s < hb_points_nblocks(p) * HB_STRIDE; s++) {
        const int block = s / HB_STRIDE, lane = s % HB_STRIDE, row = s;
        const bool used = s < p->n;
        if (used) {
            memcpy(x[0], state + (size_t)row * (size_t)m->nx, (size_t)m->nx * sizeof *state);
            memcpy(x[1], next + (size_t)row * (size_t)m->nx, (size_t)m->nx * sizeof *next);
            hb_rotations_canonical(&rotations, x[0]);
            hb_rotations_align(&rotations, x[1], x[0]);
        }
        for (int step = 0; step < 2; step++)
            for (int i = 0; i < m->nx; i++)
                hb_points_states(p, block, step)[i * HB_STRIDE + lane] =
                    used ? (hb_real)hb_normalised_state(m, i, x[step][i]) : 0;
        for (int i = 0; i < m->nu; i++)
            hb_points_controls(p, block, 0)[i * HB_STRIDE + lane] =
                used ? (hb_real)hb_normalised_control(m, i, control[(size_t)row * (size_t)m->nu + (size_t)i]) : 0;
        hb_points_dt(p, block, 0)[lane] = (hb_real)(used ? dt[row] : m->dt);
    }
}

int hilbert_model_fit(hilbert_model *m, int n, const double *state, const double *control, const double *next,
                      const double *dt, int prior, double *coefficient)
{
    hb_points points;
    hb_arena arena = {0};
    hb_fit *fit = NULL;
    int status = check_transitions(m, n, state, control, next, dt);

    if (status)
        return status;
    hb_points_lay_out(&points, m->model->nx, m->model->nu, n, 1, &arena);
    if ((status = hb_arena_allocate(&arena, &m->err)))
        return status;
    hb_points_lay_out(&points, m->model->nx, m->model->nu, n, 1, &arena);
    fill_points(m->model, &points, state, control, next, dt);
    status = hb_fit_new(&fit, m->model, n, hb_fit_refinements(m->model), false, &m->err);
    if (!status && prior && m->model->has_prior)
        status = hb_fit_use_prior(fit, &m->err);
    if (!status &&
        (hb_fit_evaluate(fit, m->workspace, &points) || hb_fit_coefficients(fit, m->model->nb, m->coefficient)))
        status = hb_fail(&m->err, EDOM, "the transitions do not determine the coefficients: a number is not finite");
    for (int i = 0; !status && i < hb_model_ncoefficients(m->model); i++)
        coefficient[i] = (double)m->coefficient[i];
    hb_fit_free(fit);
    free(arena.base);
    return status;
}

int hilbert_model_log_likelihood(hilbert_model *m, const double *coefficient, int n, const double *state,
                                 const double *control, const double *next, const double *dt, double *ret)
{
    const hb_model *model = m->model;
    const hb_rotations rotations = hb_rotations_of(model);
    double x[HB_MAX_STATES], seen[HB_MAX_STATES], sum = 0;
    int status = check_transitions(m, n, state, control, next, dt);

    if (!status && !model->has_prior)
        status = hb_fail(&m->err, EINVAL, "the model knows no noise: hilbert-train prior adds it");
    if (!status)
        status = take_coefficients(m, coefficient);
    for (int i = 0; !status && i < n; i++) {
        const size_t row = (size_t)i;
        memcpy(x, state + row * (size_t)model->nx, (size_t)model->nx * sizeof *x);
        memcpy(seen, next + row * (size_t)model->nx, (size_t)model->nx * sizeof *seen);
        hb_stepper_step(m->stepper, x, control + row * (size_t)model->nu, dt[i]);
        hb_rotations_align(&rotations, seen, x);
        for (int k = 0; k < model->nx; k++) {
            const double deviation = model->noise[k] * model->state_std[k], off = (seen[k] - x[k]) / deviation;
            sum -= 0.5 * off * off + log(deviation * sqrt(2 * M_PI));
        }
    }
    if (!status)
        *ret = sum;
    return status;
}
