/* Terms of the cost, each as value, gradient and Gauss-Newton curvature.
 *
 * Loops run over lanes innermost, on whole groups of HB_LANES, and hold nothing that keeps a compiler from
 * vectorising them: the arc tangent is a series of our own for that reason.
 *
 * Tilt. Of the rotation matrix of a quaternion q = (x, y, z, w), not necessarily of unit length, with N = |q|^2,
 *
 *     S = 2 (x z - w y),  Y = 2 (x w + y z),  X = x^2 + y^2 - z^2 - w^2,     S^2 + Y^2 + X^2 = N^2
 *
 * pitch is asin(S / N) = atan(S / C) with C = sqrt(X^2 + Y^2), and roll, folded to +-90 degrees, is atan(Y / X). */
#include "plan/cost.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>

const char *const hb_cost_kind_name[] = {
#define X(id, name, help) name,
    HB_COST_KINDS(X)
#undef X
        NULL,
};

const char *const hb_cost_kind_help[] = {
#define X(id, name, help) help,
    HB_COST_KINDS(X)
#undef X
        NULL,
};

/* distances below this have no direction worth following */
static const hb_real nowhere = (hb_real)1e-12;
/* radius, in the state's unit, within which a distance is modelled as a bowl instead of a cusp */
static const double distance_bowl = 0.005;

static bool is_control_kind(hb_cost_kind kind)
{
    return kind == HB_COST_IMBALANCE || kind == HB_COST_SLEW || kind == HB_COST_EFFORT;
}

static int check_term(const hb_cost_term *t, int number, int nx, int nu, hb_error *err)
{
    if ((unsigned)t->kind >= HB_COST_NKINDS)
        return hb_fail(err, EINVAL, "cost term %d: kind %d is none of the %d known", number, (int)t->kind,
                       HB_COST_NKINDS);

    const char *name = hb_cost_kind_name[t->kind];
    bool control = is_control_kind(t->kind);
    int size = control ? nu : nx;

    if (!(isfinite(t->weight) && t->weight >= 0))
        return hb_fail(err, EINVAL, "cost term %d (%s): weight %g, expected a finite number from 0", number, name,
                       t->weight);
    if (!(isfinite(t->terminal) && t->terminal >= 0))
        return hb_fail(err, EINVAL, "cost term %d (%s): terminal %g, expected a finite number from 0", number, name,
                       t->terminal);
    if (t->nindices < 1 || t->nindices > HB_COST_INDICES)
        return hb_fail(err, EINVAL, "cost term %d (%s): %d indices, expected 1 to %d", number, name, t->nindices,
                       HB_COST_INDICES);
    if (t->kind == HB_COST_TILT && t->nindices != 4)
        return hb_fail(err, EINVAL,
                       "cost term %d (tilt): %d indices, expected 4: where x, y, z, w of the quaternion are", number,
                       t->nindices);
    if (t->kind == HB_COST_IMBALANCE && t->nindices % 2)
        return hb_fail(err, EINVAL, "cost term %d (imbalance): %d indices, expected pairs", number, t->nindices);
    for (int i = 0; i < t->nindices; i++)
        if (t->index[i] < 0 || t->index[i] >= size)
            return hb_fail(err, EINVAL, "cost term %d (%s): index %d, but the model has %s 0 to %d", number, name,
                           t->index[i], control ? "controls" : "states", size - 1);
    if (t->kind == HB_COST_BOUND && !(t->min <= t->max))
        return hb_fail(err, EINVAL, "cost term %d (bound): min %g and max %g, expected min <= max", number, t->min,
                       t->max);
    return 0;
}

int hb_cost_check(const hb_cost *c, int nx, int nu, hb_error *err)
{
    if (c->nterms < 0 || c->nterms > HB_COST_TERMS)
        return hb_fail(err, EINVAL, "cost: %d terms, expected at most %d", c->nterms, HB_COST_TERMS);
    for (int i = 0; i < c->nterms; i++) {
        int failed = check_term(&c->term[i], i, nx, nu, err);
        if (failed)
            return failed;
    }
    return hb_limits_check(&c->limits, nx, nu, err);
}

/* weight of a term at stage k: terms are means over nh + 1 states or nh controls */
static double stage_weight(const hb_cost_term *t, int nh, int k)
{
    if (is_control_kind(t->kind))
        return t->weight / nh;
    return t->weight * (k == nh ? t->terminal : 1) / (nh + 1);
}

static const double *stage_target(const hb_goal *goal, int nx, int k)
{
    return goal->target + (goal->ntargets > 1 ? (ptrdiff_t)k * nx : 0);
}

/* arc tangent of y / x, in -pi/2 .. pi/2, to 1e-10: the ratio is brought to |r| <= tan(pi/8), where twelve terms of
 * r - r^3/3 + r^5/5 - ... do */
static inline hb_real arc_tangent(hb_real y, hb_real x)
{
    hb_real ay = y < 0 ? -y : y, ax = x < 0 ? -x : x;
    hb_real small = ay < ax ? ay : ax, big = ay < ax ? ax : ay;
    bool far = small > (hb_real)0.4142135623730951 * big;
    hb_real above = far ? small - big : small, below = far ? small + big : big;
    hb_real r = above / (below > nowhere ? below : nowhere), r2 = r * r;
    hb_real sum = 0;

    for (int k = 11; k >= 0; k--)
        sum = 1 / (hb_real)(2 * k + 1) - r2 * sum;
    hb_real angle = r * sum + (far ? (hb_real)0.7853981633974483 : 0);
    angle = ay > ax ? (hb_real)1.5707963267948966 - angle : angle;
    return (y < 0) != (x < 0) ? -angle : angle;
}

/* roll and pitch of a quaternion, and their derivatives by its elements */
typedef struct tilt {
    hb_real roll, pitch;
    hb_real droll[4], dpitch[4];
} tilt;

static inline tilt tilt_of(hb_real x, hb_real y, hb_real z, hb_real w)
{
    hb_real length2 = x * x + y * y + z * z + w * w;
    hb_real s = 2 * (x * z - w * y), rolled = 2 * (x * w + y * z), level = x * x + y * y - z * z - w * w;
    hb_real c2 = rolled * rolled + level * level, c = (hb_real)sqrt(c2);
    /* at +-90 degrees of pitch the roll is anyone's: its derivative is kept finite there */
    hb_real least = (hb_real)1e-5 * length2 + nowhere, least2 = least * least;
    hb_real per_c = 1 / (c > least ? c : least), per_c2 = 2 / (c2 > least2 ? c2 : least2);
    hb_real share = s / (length2 > nowhere ? length2 : nowhere);
    hb_real p = level * per_c2, q = rolled * per_c2;

    return (tilt){
        .roll = arc_tangent(rolled, level),
        .pitch = arc_tangent(s, c),
        .droll = {p * w - q * x, p * z - q * y, p * y + q * z, p * x + q * w},
        .dpitch = {2 * (z - share * x) * per_c, 2 * (-w - share * y) * per_c, 2 * (x - share * z) * per_c,
                   2 * (-y - share * w) * per_c},
    };
}

/* excess of a number beyond an interval, with its sign */
static inline hb_real excess(hb_real x, hb_real min, hb_real max)
{
    return x > max ? x - max : x < min ? x - min : 0;
}

/* sum = sum over the term's indices of (x - target)^2; target NULL: of x^2 */
static void squares(const hb_cost_term *t, const double *target, int n, const hb_real *x, hb_real *restrict sum)
{
    for (int s = 0; s < n; s++)
        sum[s] = 0;
    for (int i = 0; i < t->nindices; i++) {
        const hb_real *row = x + t->index[i] * HB_STRIDE;
        hb_real at = target ? (hb_real)target[t->index[i]] : 0;
        for (int s = 0; s < n; s++)
            sum[s] += (row[s] - at) * (row[s] - at);
    }
}

static void add_scaled(int n, hb_real scale, const hb_real *restrict value, hb_real *restrict cost)
{
    for (int s = 0; s < n; s++)
        cost[s] += scale * value[s];
}

/* sum of squared differences of two rows: `from` NULL means the constant `at` */
static void add_square(int n, hb_real scale, const hb_real *row, const hb_real *from, hb_real at,
                       hb_real *restrict cost)
{
    if (from)
        for (int s = 0; s < n; s++)
            cost[s] += scale * (row[s] - from[s]) * (row[s] - from[s]);
    else
        for (int s = 0; s < n; s++)
            cost[s] += scale * (row[s] - at) * (row[s] - at);
}

static void state_term(const hb_cost_term *t, const double *target, hb_real weight, int n, const hb_real *x,
                       hb_real *restrict cost)
{
    _Alignas(HB_ALIGNMENT) hb_real value[HB_STRIDE];

    switch (t->kind) {
    case HB_COST_DISTANCE:
        squares(t, target, n, x, value);
        for (int s = 0; s < n; s++)
            cost[s] += weight * (hb_real)sqrt(value[s]);
        break;
    case HB_COST_SQUARED:
        squares(t, target, n, x, value);
        add_scaled(n, weight, value, cost);
        break;
    case HB_COST_VELOCITY:
        squares(t, NULL, n, x, value);
        add_scaled(n, weight, value, cost);
        break;
    case HB_COST_TILT: {
        const hb_real *q0 = x + t->index[0] * HB_STRIDE, *q1 = x + t->index[1] * HB_STRIDE;
        const hb_real *q2 = x + t->index[2] * HB_STRIDE, *q3 = x + t->index[3] * HB_STRIDE;
        for (int s = 0; s < n; s++) {
            tilt a = tilt_of(q0[s], q1[s], q2[s], q3[s]);
            cost[s] += weight * (a.roll * a.roll + a.pitch * a.pitch);
        }
        break;
    }
    default: /* HB_COST_BOUND */
        for (int i = 0; i < t->nindices; i++) {
            const hb_real *row = x + t->index[i] * HB_STRIDE;
            hb_real min = (hb_real)t->min, max = (hb_real)t->max;
            for (int s = 0; s < n; s++) {
                hb_real e = excess(row[s], min, max);
                cost[s] += weight * e * e;
            }
        }
    }
}

static void control_term(const hb_cost_term *t, const hb_goal *goal, hb_real weight, int n, const hb_real *u,
                         const hb_real *u_before, hb_real *restrict cost)
{
    for (int i = 0; i < t->nindices; i++) {
        int at = t->index[i];
        const hb_real *row = u + at * HB_STRIDE;

        if (t->kind == HB_COST_EFFORT)
            add_square(n, weight, row, NULL, (hb_real)goal->trim[at], cost);
        else if (t->kind == HB_COST_SLEW && u_before)
            add_square(n, weight, row, u_before + at * HB_STRIDE, 0, cost);
        else if (t->kind == HB_COST_SLEW)
            add_square(n, weight, row, NULL, (hb_real)goal->last_control[at], cost);
        else if (i % 2 == 0) /* HB_COST_IMBALANCE, the first of a pair */
            add_square(n, weight, row, u + t->index[i + 1] * HB_STRIDE, 0, cost);
    }
}

void hb_cost_stage(const hb_cost *c, const hb_goal *goal, int nx, int nu, int nh, int k, int n, const hb_real *x,
                   const hb_real *u, const hb_real *u_before, hb_real *cost)
{
    (void)nu;
    n = hb_padded(n);
    for (int i = 0; i < c->nterms; i++) {
        const hb_cost_term *t = &c->term[i];
        hb_real weight = (hb_real)stage_weight(t, nh, k);

        if (!is_control_kind(t->kind))
            state_term(t, stage_target(goal, nx, k), weight, n, x, cost);
        else if (u)
            control_term(t, goal, weight, n, u, u_before, cost);
    }
    hb_limits_stage(&c->limits, goal->last_control, nh, k, n, x, u, u_before, cost);
}

static void state_gradient(const hb_cost_term *t, const double *target, hb_real weight, int n, const hb_real *x,
                           hb_real *dx)
{
    _Alignas(HB_ALIGNMENT) hb_real value[HB_STRIDE];

    switch (t->kind) {
    case HB_COST_DISTANCE:
        squares(t, target, n, x, value);
        for (int s = 0; s < n; s++) {
            hb_real distance = (hb_real)sqrt(value[s]);
            value[s] = weight / (distance > nowhere ? distance : nowhere);
        }
        for (int i = 0; i < t->nindices; i++) {
            const hb_real *row = x + t->index[i] * HB_STRIDE;
            hb_real *restrict drow = dx + t->index[i] * HB_STRIDE, at = (hb_real)target[t->index[i]];
            for (int s = 0; s < n; s++)
                drow[s] += value[s] * (row[s] - at);
        }
        break;
    case HB_COST_SQUARED:
    case HB_COST_VELOCITY:
        for (int i = 0; i < t->nindices; i++) {
            const hb_real *row = x + t->index[i] * HB_STRIDE;
            hb_real *restrict drow = dx + t->index[i] * HB_STRIDE;
            hb_real at = t->kind == HB_COST_SQUARED ? (hb_real)target[t->index[i]] : 0;
            for (int s = 0; s < n; s++)
                drow[s] += 2 * weight * (row[s] - at);
        }
        break;
    case HB_COST_TILT: {
        const hb_real *q0 = x + t->index[0] * HB_STRIDE, *q1 = x + t->index[1] * HB_STRIDE;
        const hb_real *q2 = x + t->index[2] * HB_STRIDE, *q3 = x + t->index[3] * HB_STRIDE;
        _Alignas(HB_ALIGNMENT) hb_real dq[4][HB_STRIDE];
        for (int s = 0; s < n; s++) {
            tilt a = tilt_of(q0[s], q1[s], q2[s], q3[s]);
            hb_real r = 2 * weight * a.roll, p = 2 * weight * a.pitch;
            dq[0][s] = r * a.droll[0] + p * a.dpitch[0];
            dq[1][s] = r * a.droll[1] + p * a.dpitch[1];
            dq[2][s] = r * a.droll[2] + p * a.dpitch[2];
            dq[3][s] = r * a.droll[3] + p * a.dpitch[3];
        }
        for (int i = 0; i < 4; i++)
            add_scaled(n, 1, dq[i], dx + t->index[i] * HB_STRIDE);
        break;
    }
    default: /* HB_COST_BOUND */
        for (int i = 0; i < t->nindices; i++) {
            const hb_real *row = x + t->index[i] * HB_STRIDE;
            hb_real *restrict drow = dx + t->index[i] * HB_STRIDE;
            hb_real min = (hb_real)t->min, max = (hb_real)t->max;
            for (int s = 0; s < n; s++)
                drow[s] += 2 * weight * excess(row[s], min, max);
        }
    }
}

/* gradient of scale (a - b)^2 for two rows; db NULL: b is the constant `at` */
static void add_difference(int n, hb_real scale, const hb_real *a, const hb_real *b, hb_real at, hb_real *restrict da,
                           hb_real *restrict db)
{
    if (b)
        for (int s = 0; s < n; s++) {
            hb_real d = 2 * scale * (a[s] - b[s]);
            da[s] += d;
            db[s] -= d;
        }
    else
        for (int s = 0; s < n; s++)
            da[s] += 2 * scale * (a[s] - at);
}

static void control_gradient(const hb_cost_term *t, const hb_goal *goal, hb_real weight, int n, const hb_real *u,
                             const hb_real *u_before, hb_real *du, hb_real *du_before)
{
    for (int i = 0; i < t->nindices; i++) {
        int at = t->index[i] * HB_STRIDE;

        if (t->kind == HB_COST_EFFORT)
            add_difference(n, weight, u + at, NULL, (hb_real)goal->trim[t->index[i]], du + at, NULL);
        else if (t->kind == HB_COST_SLEW && u_before)
            add_difference(n, weight, u + at, u_before + at, 0, du + at, du_before + at);
        else if (t->kind == HB_COST_SLEW)
            add_difference(n, weight, u + at, NULL, (hb_real)goal->last_control[t->index[i]], du + at, NULL);
        else if (i % 2 == 0 && t->index[i + 1] != t->index[i]) { /* HB_COST_IMBALANCE, the first of a pair */
            int other = t->index[i + 1] * HB_STRIDE;
            add_difference(n, weight, u + at, u + other, 0, du + at, du + other);
        }
    }
}

void hb_cost_stage_gradient(const hb_cost *c, const hb_goal *goal, int nx, int nu, int nh, int k, int n,
                            const hb_real *x, const hb_real *u, const hb_real *u_before, hb_real *dx, hb_real *du,
                            hb_real *du_before)
{
    (void)nu;
    n = hb_padded(n);
    for (int i = 0; i < c->nterms; i++) {
        const hb_cost_term *t = &c->term[i];
        hb_real weight = (hb_real)stage_weight(t, nh, k);

        if (!is_control_kind(t->kind))
            state_gradient(t, stage_target(goal, nx, k), weight, n, x, dx);
        else if (u)
            control_gradient(t, goal, weight, n, u, u_before, du, du_before);
    }
    hb_limits_stage_gradient(&c->limits, goal->last_control, nh, k, n, x, u, u_before, dx, du, du_before);
}

/* weight * residual^2, the residual being a - b: adds to the gradients of a and b (NULL: b is a constant) and returns
 * the curvature */
static double square_model(double weight, double residual, double *da, double *db)
{
    *da += 2 * weight * residual;
    if (db)
        *db -= 2 * weight * residual;
    return 2 * weight;
}

/* |r|, as the quadratic r^2 / (2 d) + d / 2 that touches it from above at the present distance d. Close to the target,
 * where the true one has a cusp that no quadratic follows, d is held at the radius of the bowl. */
static void distance_model(const hb_cost_term *t, const double *target, double weight, int nx, const double *x,
                           double *lx, double *q)
{
    double sum = 0;

    for (int i = 0; i < t->nindices; i++) {
        double r = x[t->index[i]] - target[t->index[i]];
        sum += r * r;
    }
    double radius = fmax(sqrt(sum), distance_bowl);
    for (int i = 0; i < t->nindices; i++) {
        int at = t->index[i];
        lx[at] += weight / radius * (x[at] - target[at]);
        q[at * nx + at] += weight / radius;
    }
}

static void tilt_model(const hb_cost_term *t, double weight, int nx, const double *x, double *lx, double *q)
{
    const int *at = t->index;
    tilt a = tilt_of((hb_real)x[at[0]], (hb_real)x[at[1]], (hb_real)x[at[2]], (hb_real)x[at[3]]);

    for (int i = 0; i < 4; i++) {
        lx[at[i]] += 2 * weight * (a.roll * a.droll[i] + a.pitch * a.dpitch[i]);
        for (int j = 0; j < 4; j++)
            q[at[i] * nx + at[j]] += 2 * weight * (a.droll[i] * a.droll[j] + a.dpitch[i] * a.dpitch[j]);
    }
}

static void state_model(const hb_cost_term *t, const double *target, double weight, int nx, const double *x, double *lx,
                        double *q)
{
    if (t->kind == HB_COST_DISTANCE) {
        distance_model(t, target, weight, nx, x, lx, q);
        return;
    }
    if (t->kind == HB_COST_TILT) {
        tilt_model(t, weight, nx, x, lx, q);
        return;
    }
    for (int i = 0; i < t->nindices; i++) {
        int at = t->index[i];
        double residual = x[at];
        if (t->kind == HB_COST_SQUARED)
            residual = x[at] - target[at];
        else if (t->kind == HB_COST_BOUND)
            residual = x[at] > t->max ? x[at] - t->max : x[at] < t->min ? x[at] - t->min : 0;
        double curvature = square_model(weight, residual, &lx[at], NULL);
        if (t->kind != HB_COST_BOUND || residual != 0)
            q[at * nx + at] += curvature;
    }
}

static void control_model(const hb_cost_term *t, const hb_goal *goal, double weight, int nu, const double *u,
                          const double *u_before, hb_stage_model *to)
{
    for (int i = 0; i < t->nindices; i++) {
        int at = t->index[i];

        if (t->kind == HB_COST_EFFORT) {
            to->r[at * nu + at] += square_model(weight, u[at] - goal->trim[at], &to->lu[at], NULL);
        } else if (t->kind == HB_COST_SLEW) {
            double from = u_before ? u_before[at] : goal->last_control[at];
            to->slew[at] += square_model(weight, u[at] - from, &to->lu[at], u_before ? &to->lu_before[at] : NULL);
        } else if (i % 2 == 0) { /* HB_COST_IMBALANCE, the first of a pair */
            int other = t->index[i + 1];
            double curvature = square_model(weight, u[at] - u[other], &to->lu[at], &to->lu[other]);
            to->r[at * nu + at] += curvature;
            to->r[other * nu + other] += curvature;
            to->r[at * nu + other] -= curvature;
            to->r[other * nu + at] -= curvature;
        }
    }
}

void hb_cost_stage_model(const hb_cost *c, const hb_goal *goal, int nx, int nu, int nh, int k, const double *x,
                         const double *u, const double *u_before, hb_stage_model *to)
{
    for (int i = 0; i < c->nterms; i++) {
        const hb_cost_term *t = &c->term[i];
        double weight = stage_weight(t, nh, k);

        if (!is_control_kind(t->kind))
            state_model(t, stage_target(goal, nx, k), weight, nx, x, to->lx, to->q);
        else if (u)
            control_model(t, goal, weight, nu, u, u_before, to);
    }
    hb_limits_stage_model(&c->limits, goal->last_control, nx, nh, k, x, u, u_before, to);
}
