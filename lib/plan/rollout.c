/* The predictor works on normalised numbers, cost and callers on physical ones: this is where they meet.
 *
 *     u[k] --normalise--> step k --z[k+1]--> physical x[k+1] --> cost of stage k+1
 *
 * and backward, with l = dJ/dx in physical units: l[k] = dcost_k/dx + (dx[k+1]/dx[k])^T l[k+1].
 *
 * A quaternion is brought back to length one after every step: q = r / |r|, and backward dr = (dq - q (q . dq)) / |r|.
 * What its lengths before multiply up to tells a trajectory that no vehicle flies.
 *
 * With lag (lag.h) the step sees what the actuators make of u[k], and their state goes along: a[k], and backward
 * la = dJ/da. */
#include "plan/rollout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/lag.h"
#include "plan/numbers.h"

/* A quaternion that would have grown or shrunk by more than this over a trajectory means that the model was evaluated
 * far from its training data. */
static const hb_real most_stretch = (hb_real)(1 + HB_STRETCHED);

struct hb_rollout {
    const hb_model *m;
    hb_workspace *workspace;
    int horizon, n; /* of the rollout just made */
    size_t tape_size;
    char *tape;          /* max_horizon + 1 tapes */
    hb_real *z, *x;      /* (max_horizon + 1) x nx x HB_STRIDE, normalised and physical */
    hb_real *u;          /* (max_horizon + 1) x nu x HB_STRIDE, normalised */
    hb_real *dt;         /* HB_STRIDE */
    hb_real *dz, *du;    /* nx and nu x HB_STRIDE, normalised */
    hb_real *dx;         /* nx x HB_STRIDE, physical */
    hb_real *per_std;    /* nx, then nu: 1 / std */
    int attitude;        /* index of the first of a quaternion's four states; -1: there is none */
    hb_real *per_length; /* max_horizon x HB_STRIDE: 1 / its length after each step */
    hb_real *stretch;    /* HB_STRIDE: product of these lengths over the one at the start */
    hb_real *reach;      /* HB_STRIDE: how far the states go, relative to what is believed */
    bool *impossible;    /* HB_STRIDE */
    hb_lag lag;
    hb_real *actuator, *effective; /* nu x HB_STRIDE, physical: state, and mean over a step */
    hb_real *dactuator;            /* nu x HB_STRIDE */
};

static hb_rollout *lay_out(hb_arena *arena, const hb_model *m, int max_horizon, size_t tape_size)
{
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu, nh = (size_t)max_horizon;
    hb_rollout *r = hb_arena_take(arena, 1, sizeof *r);
    hb_rollout measured;
    hb_rollout *to = r ? r : &measured;

    to->tape = hb_arena_take(arena, nh + 1, tape_size);
    to->z = hb_arena_take(arena, (nh + 1) * nx * HB_STRIDE, sizeof(hb_real));
    to->x = hb_arena_take(arena, (nh + 1) * nx * HB_STRIDE, sizeof(hb_real));
    to->u = hb_arena_take(arena, (nh + 1) * nu * HB_STRIDE, sizeof(hb_real));
    to->dt = hb_arena_take(arena, HB_STRIDE, sizeof(hb_real));
    to->dz = hb_arena_take(arena, nx * HB_STRIDE, sizeof(hb_real));
    to->du = hb_arena_take(arena, nu * HB_STRIDE, sizeof(hb_real));
    to->dx = hb_arena_take(arena, nx * HB_STRIDE, sizeof(hb_real));
    to->per_std = hb_arena_take(arena, nx + nu, sizeof(hb_real));
    to->per_length = hb_arena_take(arena, nh * HB_STRIDE, sizeof(hb_real));
    to->impossible = hb_arena_take(arena, HB_STRIDE, sizeof(bool));
    to->reach = hb_arena_take(arena, HB_STRIDE, sizeof(hb_real));
    to->stretch = hb_arena_take(arena, HB_STRIDE, sizeof(hb_real));
    to->actuator = hb_arena_take(arena, nu * HB_STRIDE, sizeof(hb_real));
    to->effective = hb_arena_take(arena, nu * HB_STRIDE, sizeof(hb_real));
    to->dactuator = hb_arena_take(arena, nu * HB_STRIDE, sizeof(hb_real));
    return r;
}

int hb_rollout_new(hb_rollout **ret, const hb_model *m, int max_horizon, hb_error *err)
{
    size_t tape_size = hb_predictor_tape_size(m);
    hb_arena arena = {0};

    lay_out(&arena, m, max_horizon, tape_size);
    int failed = hb_arena_allocate(&arena, err);
    if (failed)
        return failed;
    hb_rollout *r = lay_out(&arena, m, max_horizon, tape_size);
    r->m = m;
    r->tape_size = tape_size;
    r->attitude = hb_model_quaternion(m);
    for (int i = 0; i < m->nx; i++)
        r->per_std[i] = (hb_real)(1 / m->state_std[i]);
    for (int i = 0; i < m->nu; i++)
        r->per_std[m->nx + i] = (hb_real)(1 / m->control_std[i]);

    failed = hb_workspace_new(&r->workspace, m, false, err);
    if (failed) {
        hb_rollout_free(r);
        return failed;
    }
    *ret = r;
    return 0;
}

void hb_rollout_free(hb_rollout *r)
{
    if (!r)
        return;
    hb_workspace_free(r->workspace);
    free(r);
}

const bool *hb_rollout_impossible(const hb_rollout *r)
{
    return r->impossible;
}

const hb_real *hb_rollout_states(const hb_rollout *r)
{
    return r->x;
}

static bool may_proceed(const hb_proceed *proceed)
{
    return !proceed || proceed->ask(proceed->context);
}

static void fill(hb_real *row, int n, double value)
{
    for (int s = 0; s < n; s++)
        row[s] = (hb_real)value;
}

/* to = (from - mean) / std */
static void to_normalised(int rows, const double *mean, const hb_real *per_std, int n, const hb_real *restrict from,
                          hb_real *restrict to)
{
    for (int i = 0; i < rows; i++) {
        hb_real scale = per_std[i], offset = (hb_real)mean[i];
        for (int s = 0; s < n; s++)
            to[i * HB_STRIDE + s] = (from[i * HB_STRIDE + s] - offset) * scale;
    }
}

static hb_batch step_input(const hb_rollout *r, int k)
{
    return (hb_batch){
        .n = r->n,
        .z = r->z + (ptrdiff_t)k * r->m->nx * HB_STRIDE,
        .u = r->m->nu ? r->u + (ptrdiff_t)k * r->m->nu * HB_STRIDE : NULL,
        .dt = r->dt,
    };
}

/* the controls of stage k in u, NULL outside 0..horizon-1 */
static const hb_real *controls_at(const hb_rollout *r, const hb_real *u, int k)
{
    return r->m->nu && k >= 0 && k < r->horizon ? u + (ptrdiff_t)k * r->m->nu * HB_STRIDE : NULL;
}

/* stage k of the rollout, for the cost */
static hb_stage stage_at(const hb_rollout *r, const hb_real *u, int k)
{
    const hb_real *u_k = controls_at(r, u, k);

    return (hb_stage){.k = k,
                      .nh = r->horizon,
                      .n = r->n,
                      .x = r->x + (ptrdiff_t)k * r->m->nx * HB_STRIDE,
                      .u = u_k,
                      .u_before = u_k ? controls_at(r, u, k - 1) : NULL};
}

/* of the quaternion at the start */
static double start_length(const hb_rollout *r, const double *x0)
{
    double sum = 0;

    for (int i = 0; r->attitude >= 0 && i < 4; i++)
        sum += x0[r->attitude + i] * x0[r->attitude + i];
    return r->attitude >= 0 ? sqrt(sum) : 1;
}

/* brings the quaternion of state k + 1 to length one, in x and z */
static void normalise(hb_rollout *r, int k, int n)
{
    hb_real *restrict per_length = r->per_length + (ptrdiff_t)k * HB_STRIDE;

    if (r->attitude < 0)
        return;
    memset(per_length, 0, (size_t)n * sizeof *per_length);
    for (int i = 0; i < 4; i++) {
        const hb_real *x = r->x + ((ptrdiff_t)(k + 1) * r->m->nx + r->attitude + i) * HB_STRIDE;
        for (int s = 0; s < n; s++)
            per_length[s] += x[s] * x[s];
    }
    for (int s = 0; s < n; s++) {
        hb_real length = (hb_real)sqrt(per_length[s]);
        r->stretch[s] *= length;
        per_length[s] = 1 / length;
    }
    for (int i = 0; i < 4; i++) {
        const int at = r->attitude + i;
        const hb_real mean = (hb_real)r->m->state_mean[at], per_std = r->per_std[at];
        hb_real *restrict x = r->x + ((ptrdiff_t)(k + 1) * r->m->nx + at) * HB_STRIDE;
        hb_real *restrict z = r->z + ((ptrdiff_t)(k + 1) * r->m->nx + at) * HB_STRIDE;
        for (int s = 0; s < n; s++) {
            x[s] *= per_length[s];
            z[s] = (x[s] - mean) * per_std;
        }
    }
}

/* backward: r->dx of the state k + 1 becomes that of the state before it was normalised */
static void normalise_backward(hb_rollout *r, int k, int n)
{
    _Alignas(HB_ALIGNMENT) hb_real along[HB_STRIDE] = {0};
    const hb_real *per_length = r->per_length + (ptrdiff_t)k * HB_STRIDE;

    if (r->attitude < 0)
        return;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 4; i++) {
            const hb_real *x = r->x + ((ptrdiff_t)(k + 1) * r->m->nx + r->attitude + i) * HB_STRIDE;
            hb_real *restrict dx = r->dx + (r->attitude + i) * HB_STRIDE;
            if (pass == 0)
                for (int s = 0; s < n; s++)
                    along[s] += x[s] * dx[s];
            else
                for (int s = 0; s < n; s++)
                    dx[s] = (dx[s] - x[s] * along[s]) * per_length[s];
        }
}

/* notes how far the states k + 1 that feed the model are beyond the trained range, attitude and angles aside: relative
 * to `range` standard deviations, or so many times what the start has */
static void note_reach(hb_rollout *r, int k, double range, int n)
{
    for (int j = 0; range > 0 && j < r->m->ninputs; j++) {
        const int i = r->m->input[j];
        const hb_real *z = r->z + ((ptrdiff_t)(k + 1) * r->m->nx + i) * HB_STRIDE;
        const hb_real per_range = (hb_real)(1 / (range * fmax(1, fabs((double)r->z[i * HB_STRIDE]))));

        if (r->m->angle[i] || (r->attitude >= 0 && i >= r->attitude && i < r->attitude + 4))
            continue;
        for (int s = 0; s < n; s++) {
            hb_real reach = (z[s] < 0 ? -z[s] : z[s]) * per_range;
            r->reach[s] = reach > r->reach[s] ? reach : r->reach[s];
        }
    }
}

/* Trajectories that no vehicle flies cost far more than any other. They still compare with each other, so that a
 * descent finds its way out from one. */
static void rule_out(hb_rollout *r, int n, hb_real *cost)
{
    for (int s = 0; s < n; s++) {
        hb_real stretch = r->stretch[s] > 1 ? r->stretch[s] : 1 / r->stretch[s], excess = r->reach[s] - 1;

        excess = stretch / most_stretch - 1 > excess ? stretch / most_stretch - 1 : excess;
        r->impossible[s] = excess > 0;
        if (excess > 0)
            cost[s] = (hb_real)HB_IMPOSSIBLE * (1 + cost[s]) * (1 + excess);
    }
}

/* what the actuators make of the commands u of one step; their state moves on */
static const hb_real *actuate(hb_rollout *r, int n, const hb_real *u)
{
    if (!r->lag.any)
        return u;
    for (int i = 0; i < r->m->nu; i++) {
        const hb_real share = (hb_real)r->lag.share[i], keep = (hb_real)r->lag.keep[i];
        const hb_real *restrict command = u + i * HB_STRIDE;
        hb_real *restrict a = r->actuator + i * HB_STRIDE, *restrict effective = r->effective + i * HB_STRIDE;
        for (int s = 0; s < n; s++) {
            hb_real off = a[s] - command[s];
            effective[s] = command[s] + off * share;
            a[s] = command[s] + off * keep;
        }
    }
    return r->effective;
}

/* backward: adds to du of the commands what comes from r->du, normalised, of the effective controls, and from
 * r->dactuator, of the state after the step, which becomes that before it */
static void actuate_backward(hb_rollout *r, int n, hb_real *du)
{
    for (int i = 0; i < r->m->nu; i++) {
        const hb_real per_std = r->per_std[r->m->nx + i];
        const hb_real share = (hb_real)r->lag.share[i], keep = (hb_real)r->lag.keep[i];
        const hb_real *restrict dz = r->du + i * HB_STRIDE;
        hb_real *restrict da = r->dactuator + i * HB_STRIDE, *restrict d = du + i * HB_STRIDE;

        if (!r->lag.any)
            for (int s = 0; s < n; s++)
                d[s] += dz[s] * per_std;
        else
            for (int s = 0; s < n; s++) {
                hb_real deffective = dz[s] * per_std;
                d[s] += deffective * (1 - share) + da[s] * (1 - keep);
                da[s] = deffective * share + da[s] * keep;
            }
    }
}

bool hb_rollout_cost(hb_rollout *r, const hb_plan_problem *of, int n, const hb_real *u, bool keep, hb_real *cost,
                     const hb_proceed *proceed)
{
    const hb_model *m = r->m;
    const int nx = m->nx, nu = m->nu, nh = of->nh, lanes = hb_padded(n);

    r->horizon = nh;
    r->n = n;
    fill(r->dt, lanes, of->dt);
    fill(cost, lanes, 0);
    fill(r->reach, lanes, 0);
    fill(r->stretch, lanes, 1 / start_length(r, of->x0));
    for (int i = 0; i < nx; i++) {
        fill(r->x + i * HB_STRIDE, lanes, of->x0[i]);
        fill(r->z + i * HB_STRIDE, lanes, hb_normalised_state(m, i, of->x0[i]));
    }
    hb_lag_set(&r->lag, of->goal, nu, of->dt);
    for (int i = 0; r->lag.any && i < nu; i++)
        fill(r->actuator + i * HB_STRIDE, lanes, hb_lag_start(of->goal)[i]);
    for (int k = 0; k <= nh; k++) {
        const hb_stage stage = stage_at(r, u, k);

        hb_cost_stage(of->cost, of->goal, nx, &stage, cost);
        if (k == nh)
            break;
        if (!may_proceed(proceed))
            return false;
        if (nu)
            to_normalised(nu, m->control_mean, r->per_std + nx, lanes, actuate(r, lanes, stage.u),
                          r->u + (ptrdiff_t)k * nu * HB_STRIDE);
        hb_batch in = step_input(r, k), next = step_input(r, k + 1);
        hb_predictor_step(of->model, r->workspace, &in, (hb_real *)next.z,
                          keep ? r->tape + (size_t)k * r->tape_size : NULL);
        hb_batch_to_physical(nx, lanes, m->state_mean, m->state_std, next.z,
                             r->x + (ptrdiff_t)(k + 1) * nx * HB_STRIDE);
        normalise(r, k, lanes);
        note_reach(r, k, of->cost->limits.trained_range, lanes);
    }
    rule_out(r, lanes, cost);
    return true;
}

static void scale_rows(int rows, const hb_real *scale, int n, const hb_real *from, hb_real *to)
{
    for (int i = 0; i < rows; i++)
        for (int s = 0; s < n; s++)
            to[i * HB_STRIDE + s] = from[i * HB_STRIDE + s] * scale[i];
}

bool hb_rollout_gradient(hb_rollout *r, const hb_plan_problem *of, const hb_real *u, hb_real *du,
                         const hb_proceed *proceed)
{
    const hb_model *m = r->m;
    const int nx = m->nx, nu = m->nu, horizon = r->horizon, lanes = hb_padded(r->n);

    for (int i = 0; i < horizon * nu; i++)
        fill(du + (ptrdiff_t)i * HB_STRIDE, lanes, 0);
    for (int i = 0; i < nx; i++)
        fill(r->dx + i * HB_STRIDE, lanes, 0);
    for (int i = 0; i < nu; i++)
        fill(r->dactuator + i * HB_STRIDE, lanes, 0);
    for (int k = horizon; k >= 0; k--) {
        const hb_stage stage = stage_at(r, u, k);
        const hb_stage_gradient to = {.dx = r->dx,
                                      .du = stage.u ? du + (stage.u - u) : NULL,
                                      .du_before = stage.u_before ? du + (stage.u_before - u) : NULL};

        if (k < horizon) {
            if (!may_proceed(proceed))
                return false;
            hb_batch in = step_input(r, k);
            normalise_backward(r, k, lanes);
            /* through the step: dx, of the state after it, becomes that of the state before it */
            for (int i = 0; i < nx; i++)
                for (int s = 0; s < lanes; s++)
                    r->dz[i * HB_STRIDE + s] = r->dx[i * HB_STRIDE + s] * (hb_real)m->state_std[i];
            hb_predictor_adjoint(of->model, r->workspace, &in, r->tape + (size_t)k * r->tape_size, r->dz, r->dz,
                                 nu ? r->du : NULL);
            scale_rows(nx, r->per_std, lanes, r->dz, r->dx);
            actuate_backward(r, lanes, to.du);
        }
        hb_cost_stage_gradient(of->cost, of->goal, nx, &stage, &to);
    }
    return true;
}

/* lanes of a piece of Jacobians: few enough for a short piece, enough to be as fast a lane as a full block */
enum { JACOBIAN_LANES = 3 * HB_LANES };

/* Steps side by side, a lane each. */
static void load_steps(hb_rollout *r, double dt, int nsteps, const double *x, const double *u)
{
    const hb_model *m = r->m;
    const int nx = m->nx, nu = m->nu;

    r->horizon = 0;
    r->n = nsteps;
    fill(r->dt, HB_STRIDE, dt);
    for (int s = 0; s < hb_padded(nsteps); s++) {
        /* padding lanes repeat the last one */
        const int step = s < nsteps ? s : nsteps - 1;
        for (int i = 0; i < nx; i++)
            r->z[i * HB_STRIDE + s] = (hb_real)hb_normalised_state(m, i, x[step * nx + i]);
        for (int i = 0; i < nu; i++)
            r->u[i * HB_STRIDE + s] = (hb_real)hb_normalised_control(m, i, u[step * nu + i]);
    }
}

bool hb_rollout_steps(hb_rollout *r, const hb_predictor *p, double dt, double trained_range, int nsteps,
                      const double *x, const double *u, double *next)
{
    const int nx = r->m->nx, lanes = hb_padded(nsteps);
    hb_real stretch = 1, reach = 0;

    load_steps(r, dt, nsteps, x, u);
    const hb_batch in = step_input(r, 0);
    hb_real *after = r->z + (ptrdiff_t)nx * HB_STRIDE;
    hb_predictor_step(p, r->workspace, &in, after, NULL);
    hb_batch_to_physical(nx, lanes, r->m->state_mean, r->m->state_std, after, r->x + (ptrdiff_t)nx * HB_STRIDE);
    fill(r->reach, lanes, 0);
    for (int s = 0; s < lanes; s++)
        r->stretch[s] = (hb_real)(1 / start_length(r, x + (s < nsteps ? s : nsteps - 1) * nx));
    normalise(r, 0, lanes);
    note_reach(r, 0, trained_range, lanes);
    for (int s = 0; s < nsteps; s++) {
        stretch *= r->stretch[s];
        reach = r->reach[s] > reach ? r->reach[s] : reach;
        for (int i = 0; i < nx; i++)
            next[s * nx + i] = r->x[(ptrdiff_t)(nx + i) * HB_STRIDE + s];
    }
    return stretch <= most_stretch && 1 / stretch <= most_stretch && reach <= 1;
}

/* For a row of the Jacobians that belongs to the quaternion, in lane s: what it takes of the elements before they were
 * brought to length one; r->x holds the model's states after each step, a lane each. */
static void seed_quaternion(hb_rollout *r, int step, int row, int s)
{
    const hb_model *m = r->m;
    const int element = row - r->attitude;
    double q[4], sum = 0;

    if (r->attitude < 0 || element < 0 || element > 3)
        return;
    for (int i = 0; i < 4; i++) {
        int at = r->attitude + i;
        q[i] = hb_physical_state(m, at, r->x[at * HB_STRIDE + step]);
        sum += q[i] * q[i];
    }
    for (int i = 0; i < 4; i++) {
        int at = r->attitude + i;
        double share = ((i == element) - q[i] * q[element] / sum) / sqrt(sum);
        r->dz[at * HB_STRIDE + s] = (hb_real)(share * m->state_std[at] / m->state_std[row]);
    }
}

/* Rows first to first + n - 1 of the Jacobians of the steps just made, all steps' rows one after the other. */
static void adjoint_rows(hb_rollout *r, const hb_predictor *p, int first, int n, double *a, double *b)
{
    const hb_model *m = r->m;
    const int nx = m->nx, nu = m->nu;
    char *spread = r->tape + r->tape_size;
    hb_real *u = r->u + (ptrdiff_t)nu * HB_STRIDE;
    const hb_batch in = {.n = n, .z = r->z, .u = nu ? u : NULL, .dt = r->dt};

    hb_predictor_spread(p, r->workspace, r->tape, first, nx, n, spread);
    hb_kernels_spread(nu, r->u, first, nx, n, u);
    memset(r->dz, 0, (size_t)nx * HB_STRIDE * sizeof *r->dz);
    for (int s = 0; s < n; s++) {
        r->dz[(first + s) % nx * HB_STRIDE + s] = 1;
        seed_quaternion(r, (first + s) / nx, (first + s) % nx, s);
    }
    hb_predictor_adjoint(p, r->workspace, &in, spread, r->dz, r->dz, nu ? r->du : NULL);
    for (int s = 0; s < n; s++) {
        double row_std = m->state_std[(first + s) % nx];
        for (int j = 0; j < nx; j++)
            a[(ptrdiff_t)(first + s) * nx + j] = r->dz[j * HB_STRIDE + s] * row_std / m->state_std[j];
        for (int j = 0; j < nu; j++)
            b[(ptrdiff_t)(first + s) * nu + j] = r->du[j * HB_STRIDE + s] * row_std / m->control_std[j];
    }
}

/* The steps are made once, a lane each. Row i of the Jacobians of step k is the adjoint of the i-th unit vector: lane
 * k * nx + i of the adjoints, cut into pieces. */
bool hb_rollout_jacobians(hb_rollout *r, const hb_predictor *p, double dt, int nsteps, const double *x, const double *u,
                          double *a, double *b, const hb_proceed *proceed)
{
    const ptrdiff_t nx = r->m->nx, nu = r->m->nu;

    for (int done = 0; done < nsteps; done += r->n) {
        const int steps = nsteps - done < HB_STRIDE ? nsteps - done : HB_STRIDE, total = steps * (int)nx;
        if (!may_proceed(proceed))
            return false;
        load_steps(r, dt, steps, x + done * nx, u + done * nu);
        const hb_batch in = step_input(r, 0);
        hb_predictor_step(p, r->workspace, &in, r->x, r->tape);
        for (int first = 0; first < total; first += JACOBIAN_LANES) {
            if (!may_proceed(proceed))
                return false;
            adjoint_rows(r, p, first, total - first < JACOBIAN_LANES ? total - first : JACOBIAN_LANES,
                         a + done * nx * nx, b + done * nx * nu);
        }
    }
    return true;
}
