/* What moves a robot while data are collected: noise on the controls, around their trim or around what holds the robot
 * near a reference: a PD controller on each joint, gains from states to controls, or a linear-quadratic regulator.
 *
 *     u = trim + noise + hold(reference - state)
 *
 * The noise of control i has a deviation of noise * half its range and forgets itself within `time` seconds; every
 * `wander` seconds the reference is drawn anew as starts are, at rest. The regulator knows the nominal robot alone:
 *
 *     min sum  |dq|^2 / far^2 + |dv|^2 / fast^2 + |du|^2 / (half the range)^2     with finite differences of one period
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/policy.h"
#include "sim/robot_parts.h"

static const double far = 0.3;    /* m, rad: as bad as a control at its end */
static const double fast = 2;     /* m/s, rad/s */
static const double nudge = 1e-5; /* of finite differences */

/* ---- the regulator ---- */

/* Differences of the state after one period from `base` (positions, velocities, activations). */
static void after_period(const robot *r, const mjModel *m, mjData *d, const mjtNum *qpos, const mjtNum *qvel,
                         const mjtNum *act, double *ret)
{
    const int n = (int)fmax(1, round(r->type.dt / r->step));

    for (int k = 0; k < n; k++)
        mj_step(m, d);
    mj_differentiatePos(m, ret, 1, qpos, d->qpos);
    for (int i = 0; i < m->nv; i++)
        ret[m->nv + i] = d->qvel[i] - qvel[i];
    for (int i = 0; i < m->na; i++)
        ret[2 * m->nv + i] = d->act[i] - act[i];
}

/* a (n x n), b (n x nu) by central differences around the pose */
static void linearise(const robot *r, mjModel *m, mjData *d, double *a, double *b, double *up, double *down)
{
    const int n = 2 * m->nv + m->na, nu = r->type.nu;
    const mjData *pose = r->nominal.data;

    m->opt.timestep = r->type.dt / fmax(1, round(r->type.dt / r->step));
    for (int k = 0; k < n + nu; k++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            mj_copyData(d, m, pose);
            for (int i = 0; i < nu; i++)
                d->ctrl[r->control[i].actuator] = r->control_trim[i];
            if (k < m->nv) {
                mjtNum *along = calloc((size_t)m->nv, sizeof *along);
                if (along)
                    along[k] = 1;
                if (along)
                    mj_integratePos(m, d->qpos, along, sign * nudge);
                free(along);
            } else if (k < 2 * m->nv) {
                d->qvel[k - m->nv] += sign * nudge;
            } else if (k < n) {
                d->act[k - 2 * m->nv] += sign * nudge;
            } else {
                d->ctrl[r->control[k - n].actuator] += sign * nudge;
            }
            after_period(r, m, d, pose->qpos, pose->qvel, pose->act, sign > 0 ? up : down);
        }
        for (int i = 0; i < n; i++) {
            const double slope = (up[i] - down[i]) / (2 * nudge);
            if (k < n)
                a[i * n + k] = slope;
            else
                b[i * nu + k - n] = slope;
        }
    }
}

/* c = a b, or a^T b */
static void product(int rows, int inner, int columns, const double *a, bool transposed, const double *b, double *c)
{
    memset(c, 0, (size_t)(rows * columns) * sizeof *c);
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < inner; k++) {
            const double factor = transposed ? a[k * rows + i] : a[i * inner + k];
            for (int j = 0; factor != 0 && j < columns; j++)
                c[i * columns + j] += factor * b[k * columns + j];
        }
}

/* The gain of the regulator by Riccati's recursion: p <- q + a^T p (a - b k), k = (r + b^T p b)^-1 b^T p a. */
static int riccati(int n, int nu, const double *a, const double *b, const double *q, const double *weight, double *gain,
                   double *work, hb_error *err)
{
    enum { MOST = 400 };
    double *p = work, *pa = p + n * n, *pb = pa + n * n, *closed = pb + n * nu, *next = closed + n * n;
    double *m = next + n * n, *rhs = m + nu * nu; /* rhs: n rows of nu, b^T p a transposed */

    memset(p, 0, (size_t)(n * n) * sizeof *p);
    for (int i = 0; i < n; i++)
        p[i * n + i] = q[i];
    for (int turn = 0; turn < MOST; turn++) {
        double change = 0, size = 0;
        product(n, n, n, p, false, a, pa);
        product(n, n, nu, p, false, b, pb);
        product(nu, n, nu, b, true, pb, m);
        for (int i = 0; i < nu; i++)
            m[i * nu + i] += weight[i];
        product(n, n, nu, pa, true, b, rhs);
        if (hb_cholesky(nu, m))
            return hb_fail(err, EINVAL, "excitation: no regulator is found for this pose: use hold: pd or none");
        hb_cholesky_solve(nu, m, n, rhs);
        for (int i = 0; i < nu; i++)
            for (int j = 0; j < n; j++)
                gain[i * n + j] = rhs[j * nu + i];
        product(n, nu, n, b, false, gain, closed);
        for (int i = 0; i < n * n; i++)
            closed[i] = a[i] - closed[i];
        product(n, n, n, pa, true, closed, next);
        for (int i = 0; i < n; i++)
            next[i * n + i] += q[i];
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                const double mean = (next[i * n + j] + next[j * n + i]) / 2;
                change = fmax(change, fabs(mean - p[i * n + j]));
                size = fmax(size, fabs(mean));
                closed[i * n + j] = mean;
            }
        memcpy(p, closed, (size_t)(n * n) * sizeof *p);
        if (!isfinite(size) || size > 1e12)
            return hb_fail(err, EINVAL, "excitation: the controls do not hold this pose: use hold: pd or none");
        if (change < 1e-6 * size)
            break;
    }
    return 0;
}

int robot_lqr(robot *r, hb_error *err)
{
    const mjModel *nominal = r->nominal.model;
    const int n = 2 * nominal->nv + nominal->na, nu = r->type.nu;
    const size_t all = (size_t)(6 * n * n + 5 * n * nu + nu * nu + 4 * n + nu);
    double *work = calloc(all + 1, sizeof *work);
    mjModel *m = mj_copyModel(NULL, nominal);
    mjData *d = m ? mj_makeData(m) : NULL;
    int status = 0;

    if (n > 3 * HB_PLANT_STATES)
        status = hb_fail(err, EINVAL, "excitation: the model is too large for a regulator: use hold: pd or none");
    r->excitation.gain = calloc((size_t)(n * nu) + 1, sizeof *r->excitation.gain);
    if (!status && (!work || !d || !r->excitation.gain))
        status = hb_fail(err, ENOMEM, "out of memory");
    if (!status) {
        double *a = work, *b = a + n * n, *up = b + n * nu, *down = up + n, *q = down + n, *weight = q + n;
        linearise(r, m, d, a, b, up, down);
        for (int i = 0; i < n; i++)
            q[i] = i < nominal->nv ? 1 / (far * far) : i < 2 * nominal->nv ? 1 / (fast * fast) : 0;
        for (int i = 0; i < nu; i++)
            weight[i] = 4 / pow(r->control_max[i] - r->control_min[i], 2);
        status = riccati(n, nu, a, b, q, weight, r->excitation.gain, weight + nu, err);
    }
    if (d)
        mj_deleteData(d);
    if (m)
        mj_deleteModel(m);
    free(work);
    return status;
}

/* ---- the policy ---- */

/* Its numbers: the noise of each control, then the reference's states. */

static void take_reference(hb_policy_memory *m, const hb_plant *p, bool draw)
{
    const robot *r = robot_of(p->type);
    robot_body *b = p->own;
    double *x = m->number + HB_PLANT_CONTROLS, drawn[HB_PLANT_STATES];
    const int at = r->root >= 0 ? r->nominal.model->jnt_qposadr[r->root] + 3 : -1;

    memcpy(x, r->rest, (size_t)p->type->nx * sizeof *x);
    if (draw) {
        robot_draw(r, &m->draws, drawn);
        for (int i = 0; i < p->type->nx; i++) {
            const robot_state *s = &r->state[i];
            const bool attitude = at >= 0 && s->index >= at && s->index < at + 4;
            if (s->source == ROBOT_POSITION && !attitude)
                x[i] = drawn[i];
        }
    }
    memcpy(b->scratch->qpos, r->nominal.data->qpos, (size_t)r->nominal.model->nq * sizeof *b->reference);
    robot_put(r, x, b->scratch);
    memcpy(b->reference, b->scratch->qpos, (size_t)r->nominal.model->nq * sizeof *b->reference);
    m->until += r->excitation.wander;
}

static void start(hb_policy_memory *m, const hb_plant *p)
{
    const robot *r = robot_of(p->type);

    for (int i = 0; i < p->type->nu; i++)
        m->number[i] = hb_draw_normal(&m->draws);
    m->until = 0;
    take_reference(m, p, r->excitation.wander > 0);
}

/* The regulator knows one heading of what flies: differences are turned into that, and headings are left as they are.
 * off: positions, velocities, activations from the reference. */
static void differences(const robot *r, const robot_body *b, mjtNum *off)
{
    const mjModel *m = b->sim.model;
    const mjData *d = b->sim.data;
    mjtNum *reference = b->scratch->qpos;
    double c = 1, s = 0;
    const int at = r->root >= 0 ? m->jnt_qposadr[r->root] + 3 : -1, v = r->root >= 0 ? m->jnt_dofadr[r->root] : -1;

    memcpy(reference, b->reference, (size_t)m->nq * sizeof *reference);
    if (at >= 0) {
        mjtNum back[4], relative[4], turn[4], turned[4];
        mju_negQuat(back, reference + at);
        mju_mulQuat(relative, d->qpos + at, back);
        const double heading = 2 * atan2(relative[3], relative[0]);
        const mjtNum up[3] = {0, 0, 1};
        mju_axisAngle2Quat(turn, up, heading);
        mju_mulQuat(turned, turn, reference + at);
        memcpy(reference + at, turned, sizeof turned);
        c = cos(heading);
        s = sin(heading);
    }
    mj_differentiatePos(m, off, 1, reference, d->qpos);
    for (int i = 0; i < m->nv; i++) {
        off[i] = fmin(fmax(off[i], -far), far); /* so that it does not rush */
        off[m->nv + i] = d->qvel[i] - r->nominal.data->qvel[i];
    }
    for (int i = 0; i < m->na; i++)
        off[2 * m->nv + i] = d->act[i] - r->nominal.data->act[i];
    for (mjtNum *xy = off + v; v >= 0 && xy <= off + m->nv + v; xy += m->nv) {
        const double x = xy[0], y = xy[1];
        xy[0] = c * x + s * y;
        xy[1] = c * y - s * x;
    }
}

static void regulate(const robot *r, const robot_body *b, double *u)
{
    const int n = 2 * b->sim.model->nv + b->sim.model->na;
    mjtNum off[3 * HB_PLANT_STATES];

    differences(r, b, off);
    for (int i = 0; i < r->type.nu; i++)
        for (int j = 0; j < n; j++)
            u[i] -= r->excitation.gain[i * n + j] * off[j];
}

/* Each joint by its own motor. */
static void hold_joints(const robot *r, const robot_body *b, double *u)
{
    const mjModel *m = b->sim.model;

    for (int i = 0; i < r->type.nu; i++) {
        const int k = r->control[i].actuator, joint = m->actuator_trnid[2 * k];
        if (m->actuator_trntype[k] != mjTRN_JOINT || m->jnt_type[joint] < mjJNT_SLIDE)
            continue;
        const double by = m->actuator_gear[6 * k] * m->actuator_gainprm[mjNGAIN * k];
        const int q = m->jnt_qposadr[joint], v = m->jnt_dofadr[joint];
        if (by != 0)
            u[i] += (r->excitation.kp * (b->reference[q] - b->sim.data->qpos[q]) -
                     r->excitation.kd * b->sim.data->qvel[v]) /
                    by;
    }
}

static void act(hb_policy_memory *m, const hb_plant *p, const double *x, double *u)
{
    const robot *r = robot_of(p->type);
    const robot_excitation *e = &r->excitation;
    const double *reference = m->number + HB_PLANT_CONTROLS;
    const double kept = e->time > 0 ? exp(-m->dt / e->time) : 0;

    if (e->wander > 0 && p->time >= m->until - 1e-9)
        take_reference(m, p, true);
    for (int i = 0; i < p->type->nu; i++) {
        m->number[i] = kept * m->number[i] + sqrt(1 - kept * kept) * hb_draw_normal(&m->draws);
        u[i] = r->control_trim[i] + e->noise * (r->control_max[i] - r->control_min[i]) / 2 * m->number[i];
        for (int j = 0; e->hold == ROBOT_HOLD_GAINS && j < p->type->nx; j++)
            u[i] += e->gain[i * p->type->nx + j] * (reference[j] - x[j]);
    }
    if (e->hold == ROBOT_HOLD_LQR)
        regulate(r, p->own, u);
    else if (e->hold == ROBOT_HOLD_PD)
        hold_joints(r, p->own, u);
    for (int i = 0; i < p->type->nu; i++)
        u[i] = fmin(fmax(u[i], r->control_min[i]), r->control_max[i]);
}

const hb_policy hb_policy_excite = {
    .name = "excite",
    .help = "as the robot's file says: noise around a trim, or around what holds it",
    .start = start,
    .act = act,
};
