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
#define X(id, name, over, target, numbers, help) #name,
    HB_COST_KINDS(X)
#undef X
        NULL,
};

const char *const hb_cost_kind_help[] = {
#define X(id, name, over, target, numbers, help) help,
    HB_COST_KINDS(X)
#undef X
        NULL,
};

const hb_cost_kind_row hb_cost_kind_table[] = {
#define X(id, name, over, target, numbers, help) {HB_COST_OVER_##over, target, HB_COST_##numbers},
    HB_COST_KINDS(X)
#undef X
};

/* keeps divisions finite: a distance below this has no direction worth following */
static const hb_real tiny = (hb_real)1e-12;
/* radius, in the state's unit, within which a distance is modelled as a bowl instead of a cusp */
static const double distance_bowl = 0.005;

static bool is_control_kind(hb_cost_kind kind)
{
    return hb_cost_kind_table[kind].over == HB_COST_OVER_CONTROLS;
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
    if ((t->kind == HB_COST_TILT || t->kind == HB_COST_ATTITUDE || t->kind == HB_COST_YAW) && t->nindices != 4)
        return hb_fail(err, EINVAL, "cost term %d (%s): %d indices, expected 4: where x, y, z, w of the quaternion are",
                       number, name, t->nindices);
    if (t->kind == HB_COST_IMBALANCE && t->nindices % 2)
        return hb_fail(err, EINVAL, "cost term %d (imbalance): %d indices, expected pairs", number, t->nindices);
    for (int i = 0; i < t->nindices; i++)
        if (t->index[i] < 0 || t->index[i] >= size)
            return hb_fail(err, EINVAL, "cost term %d (%s): index %d, but the model has %s 0 to %d", number, name,
                           t->index[i], control ? "controls" : "states", size - 1);
    if (hb_cost_kind_table[t->kind].numbers == HB_COST_BOUNDS && !(t->min <= t->max))
        return hb_fail(err, EINVAL, "cost term %d (%s): min %g and max %g, expected min <= max", number, name, t->min,
                       t->max);
    if (hb_cost_kind_table[t->kind].numbers == HB_COST_RADIUS && !(t->radius > 0 && isfinite(t->radius)))
        return hb_fail(err, EINVAL, "cost term %d (%s): radius %g, expected a number above 0", number, name, t->radius);
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

bool hb_cost_needs_target(const hb_cost *c)
{
    for (int i = 0; i < c->nterms; i++)
        if (hb_cost_kind_table[c->term[i].kind].needs_target)
            return true;
    return false;
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
    hb_real r = above / (below > tiny ? below : tiny), r2 = r * r;
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
    /* at +-90 degrees of pitch roll is undefined: its derivative is kept finite there */
    hb_real least = (hb_real)1e-5 * length2 + tiny, least2 = least * least;
    hb_real per_c = 1 / (c > least ? c : least), per_c2 = 2 / (c2 > least2 ? c2 : least2);
    hb_real share = s / (length2 > tiny ? length2 : tiny);
    hb_real p = level * per_c2, q = rolled * per_c2;

    return (tilt){
        .roll = arc_tangent(rolled, level),
        .pitch = arc_tangent(s, c),
        .droll = {p * w - q * x, p * z - q * y, p * y + q * z, p * x + q * w},
        .dpitch = {2 * (z - share * x) * per_c, 2 * (-w - share * y) * per_c, 2 * (x - share * z) * per_c,
                   2 * (-y - share * w) * per_c},
    };
}

/* of length one; upright where the target has none */
static void attitude_target(const hb_cost_term *t, const double *target, hb_real q[4])
{
    double length = 0;

    for (int i = 0; i < 4; i++)
        length += target[t->index[i]] * target[t->index[i]];
    for (int i = 0; i < 4; i++)
        q[i] = (hb_real)(length > 0 ? target[t->index[i]] / sqrt(length) : i == 3);
}

/* sine and cosine of the heading of a quaternion of any length, and the derivative of the heading by its elements */
typedef struct heading {
    hb_real sine, cosine, d[4];
} heading;

static inline heading heading_of(hb_real x, hb_real y, hb_real z, hb_real w)
{
    hb_real sine = 2 * (w * z + x * y), cosine = w * w + x * x - y * y - z * z;
    hb_real square = sine * sine + cosine * cosine, length2 = x * x + y * y + z * z + w * w;
    /* with the nose straight up the heading is undefined: its derivative is kept finite there */
    hb_real least = (hb_real)1e-6 * length2 * length2 + tiny, per = 1 / (square > least ? square : least);
    hb_real per_root = (hb_real)sqrt(per), c = 2 * cosine * per, n = 2 * sine * per;

    return (heading){
        .sine = sine * per_root,
        .cosine = cosine * per_root,
        .d = {c * y - n * x, c * x + n * y, c * w + n * z, c * z - n * w},
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

/* One stage of n samples, all lanes that are computed on, as a term sees it; of the outputs, cost or the gradients. */
typedef struct stage {
    const hb_cost_term *t;
    const hb_goal *goal;
    const double *target; /* nx, of this stage */
    hb_real weight;
    int n;
    const hb_real *x, *u, *u_before;
    hb_real *cost;
    hb_real *dx, *du, *du_before;
} stage;

static const hb_real *state_row(const stage *s, int i)
{
    return s->x + s->t->index[i] * HB_STRIDE;
}

static const hb_real *control_row(const stage *s, int i)
{
    return s->u + s->t->index[i] * HB_STRIDE;
}

static void distance_value(const stage *s)
{
    _Alignas(HB_ALIGNMENT) hb_real value[HB_STRIDE];
    hb_real *restrict cost = s->cost, weight = s->weight;

    squares(s->t, s->target, s->n, s->x, value);
    for (int l = 0; l < s->n; l++)
        cost[l] += weight * (hb_real)sqrt(value[l]);
}

static void squared_value(const stage *s)
{
    _Alignas(HB_ALIGNMENT) hb_real value[HB_STRIDE];

    squares(s->t, s->target, s->n, s->x, value);
    add_scaled(s->n, s->weight, value, s->cost);
}

/* what a quadratic is divided by so that it grows as a distance beyond the radius: sqrt(1 + d^2 / radius^2) */
static inline hb_real huber_slack(hb_real square, hb_real radius)
{
    return (hb_real)sqrt(1 + square / (radius * radius));
}

/* 2 radius^2 (slack - 1), without its difference of large numbers */
static void huber_value(const stage *s)
{
    _Alignas(HB_ALIGNMENT) hb_real value[HB_STRIDE];
    hb_real *restrict cost = s->cost, weight = s->weight, radius = (hb_real)s->t->radius;

    squares(s->t, s->target, s->n, s->x, value);
    for (int l = 0; l < s->n; l++)
        cost[l] += 2 * weight * value[l] / (1 + huber_slack(value[l], radius));
}

static void velocity_value(const stage *s)
{
    _Alignas(HB_ALIGNMENT) hb_real value[HB_STRIDE];

    squares(s->t, NULL, s->n, s->x, value);
    add_scaled(s->n, s->weight, value, s->cost);
}

static void tilt_value(const stage *s)
{
    const hb_real *q0 = state_row(s, 0), *q1 = state_row(s, 1), *q2 = state_row(s, 2), *q3 = state_row(s, 3);
    hb_real *restrict cost = s->cost, weight = s->weight;

    for (int l = 0; l < s->n; l++) {
        tilt a = tilt_of(q0[l], q1[l], q2[l], q3[l]);
        cost[l] += weight * (a.roll * a.roll + a.pitch * a.pitch);
    }
}

static void attitude_value(const stage *s)
{
    const hb_real *q[4] = {state_row(s, 0), state_row(s, 1), state_row(s, 2), state_row(s, 3)};
    hb_real t[4], *restrict cost = s->cost, weight = 4 * s->weight;

    attitude_target(s->t, s->target, t);
    for (int l = 0; l < s->n; l++) {
        hb_real along = q[0][l] * t[0] + q[1][l] * t[1] + q[2][l] * t[2] + q[3][l] * t[3];
        hb_real square = q[0][l] * q[0][l] + q[1][l] * q[1][l] + q[2][l] * q[2][l] + q[3][l] * q[3][l];
        cost[l] += weight * (square - along * along);
    }
}

static void yaw_value(const stage *s)
{
    const hb_real *q0 = state_row(s, 0), *q1 = state_row(s, 1), *q2 = state_row(s, 2), *q3 = state_row(s, 3);
    hb_real t[4], *restrict cost = s->cost, weight = 2 * s->weight;

    attitude_target(s->t, s->target, t);
    heading to = heading_of(t[0], t[1], t[2], t[3]);
    for (int l = 0; l < s->n; l++) {
        heading a = heading_of(q0[l], q1[l], q2[l], q3[l]);
        cost[l] += weight * (1 - a.cosine * to.cosine - a.sine * to.sine);
    }
}

static void bound_value(const stage *s)
{
    hb_real min = (hb_real)s->t->min, max = (hb_real)s->t->max, weight = s->weight, *restrict cost = s->cost;

    for (int i = 0; i < s->t->nindices; i++) {
        const hb_real *row = state_row(s, i);
        for (int l = 0; l < s->n; l++) {
            hb_real e = excess(row[l], min, max);
            cost[l] += weight * e * e;
        }
    }
}

static void imbalance_value(const stage *s)
{
    for (int i = 0; i < s->t->nindices; i += 2)
        add_square(s->n, s->weight, control_row(s, i), control_row(s, i + 1), 0, s->cost);
}

static void slew_value(const stage *s)
{
    for (int i = 0; i < s->t->nindices; i++) {
        int at = s->t->index[i];
        const hb_real *from = s->u_before ? s->u_before + at * HB_STRIDE : NULL;
        add_square(s->n, s->weight, control_row(s, i), from, (hb_real)s->goal->last_control[at], s->cost);
    }
}

static void effort_value(const stage *s)
{
    for (int i = 0; i < s->t->nindices; i++)
        add_square(s->n, s->weight, control_row(s, i), NULL, (hb_real)s->goal->trim[s->t->index[i]], s->cost);
}

static void (*const value_of[])(const stage *s) = {
#define X(id, name, ...) name##_value,
    HB_COST_KINDS(X)
#undef X
};

static stage stage_of_term(const hb_cost_term *t, const hb_goal *goal, int nx, const hb_stage *at)
{
    return (stage){.t = t,
                   .goal = goal,
                   .target = stage_target(goal, nx, at->k),
                   .weight = (hb_real)stage_weight(t, at->nh, at->k),
                   .n = hb_padded(at->n),
                   .x = at->x,
                   .u = at->u,
                   .u_before = at->u_before};
}

/* at the last stage there are no controls */
static bool counts_at(const hb_cost_term *t, const hb_stage *at)
{
    return at->u || !is_control_kind(t->kind);
}

static void add_term(const hb_cost_term *t, const hb_goal *goal, int nx, const hb_stage *at, hb_real *cost)
{
    if (!counts_at(t, at))
        return;
    stage s = stage_of_term(t, goal, nx, at);
    s.cost = cost;
    value_of[t->kind](&s);
}

void hb_cost_stage(const hb_cost *c, const hb_goal *goal, int nx, const hb_stage *at, hb_real *cost)
{
    for (int i = 0; i < c->nterms; i++)
        add_term(&c->term[i], goal, nx, at, cost);
    hb_limits_stage(&c->limits, goal->last_control, at, cost);
}

/* one sample's rows, in all lanes that are computed on */
static const hb_real *spread_rows(const double *from, int rows, hb_real *to)
{
    for (int i = 0; i < rows; i++)
        for (int s = 0; s < HB_LANES; s++)
            to[i * HB_STRIDE + s] = (hb_real)from[i];
    return to;
}

void hb_cost_by_term(const hb_cost *c, const hb_goal *goal, int nx, int nu, int nh, const double *x, const double *u,
                     hb_real *scratch, double *ret)
{
    hb_real *controls[2] = {scratch + nx * HB_STRIDE, scratch + (nx + nu) * HB_STRIDE};
    hb_limits limits = c->limits;

    if (goal->step > 0)
        limits.step = goal->step;
    for (int i = 0; i <= c->nterms; i++)
        ret[i] = 0;
    for (int k = 0; k <= nh; k++) {
        _Alignas(HB_ALIGNMENT) hb_real cost[HB_LANES] = {0};
        const hb_real *xk = spread_rows(x + (ptrdiff_t)k * nx, nx, scratch);
        const hb_real *uk = k < nh ? spread_rows(u + (ptrdiff_t)k * nu, nu, controls[k % 2]) : NULL;
        const hb_real *before = k > 0 ? controls[(k + 1) % 2] : NULL;
        const hb_stage at = {.k = k, .nh = nh, .n = 1, .x = xk, .u = uk, .u_before = before};
        for (int i = 0; i < c->nterms; i++) {
            for (int s = 0; s < HB_LANES; s++)
                cost[s] = 0;
            add_term(&c->term[i], goal, nx, &at, cost);
            ret[i] += (double)cost[0];
        }
        for (int s = 0; s < HB_LANES; s++)
            cost[s] = 0;
        hb_limits_stage(&limits, goal->last_control, &at, cost);
        ret[c->nterms] += (double)cost[0];
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

/* pull (per lane) times the difference to the target */
static void add_pull(const stage *s, const hb_real *pull)
{
    for (int i = 0; i < s->t->nindices; i++) {
        int at = s->t->index[i];
        const hb_real *row = state_row(s, i);
        hb_real *restrict drow = s->dx + at * HB_STRIDE, to = (hb_real)s->target[at];
        for (int l = 0; l < s->n; l++)
            drow[l] += pull[l] * (row[l] - to);
    }
}

static void distance_gradient(const stage *s)
{
    _Alignas(HB_ALIGNMENT) hb_real value[HB_STRIDE];
    hb_real weight = s->weight;

    squares(s->t, s->target, s->n, s->x, value);
    for (int l = 0; l < s->n; l++) {
        hb_real distance = (hb_real)sqrt(value[l]);
        value[l] = weight / (distance > tiny ? distance : tiny);
    }
    add_pull(s, value);
}

static void huber_gradient(const stage *s)
{
    _Alignas(HB_ALIGNMENT) hb_real value[HB_STRIDE];
    hb_real weight = s->weight, radius = (hb_real)s->t->radius;

    squares(s->t, s->target, s->n, s->x, value);
    for (int l = 0; l < s->n; l++)
        value[l] = 2 * weight / huber_slack(value[l], radius);
    add_pull(s, value);
}

static void squared_gradient(const stage *s)
{
    for (int i = 0; i < s->t->nindices; i++) {
        int at = s->t->index[i];
        add_difference(s->n, s->weight, state_row(s, i), NULL, (hb_real)s->target[at], s->dx + at * HB_STRIDE, NULL);
    }
}

static void velocity_gradient(const stage *s)
{
    for (int i = 0; i < s->t->nindices; i++)
        add_difference(s->n, s->weight, state_row(s, i), NULL, 0, s->dx + s->t->index[i] * HB_STRIDE, NULL);
}

static void tilt_gradient(const stage *s)
{
    const hb_real *q0 = state_row(s, 0), *q1 = state_row(s, 1), *q2 = state_row(s, 2), *q3 = state_row(s, 3);
    _Alignas(HB_ALIGNMENT) hb_real dq[4][HB_STRIDE];
    hb_real weight = s->weight;

    for (int l = 0; l < s->n; l++) {
        tilt a = tilt_of(q0[l], q1[l], q2[l], q3[l]);
        hb_real r = 2 * weight * a.roll, p = 2 * weight * a.pitch;
        dq[0][l] = r * a.droll[0] + p * a.dpitch[0];
        dq[1][l] = r * a.droll[1] + p * a.dpitch[1];
        dq[2][l] = r * a.droll[2] + p * a.dpitch[2];
        dq[3][l] = r * a.droll[3] + p * a.dpitch[3];
    }
    for (int i = 0; i < 4; i++)
        add_scaled(s->n, 1, dq[i], s->dx + s->t->index[i] * HB_STRIDE);
}

static void attitude_gradient(const stage *s)
{
    const hb_real *q[4] = {state_row(s, 0), state_row(s, 1), state_row(s, 2), state_row(s, 3)};
    hb_real t[4], weight = 8 * s->weight;

    attitude_target(s->t, s->target, t);
    for (int i = 0; i < 4; i++) {
        hb_real *restrict d = s->dx + s->t->index[i] * HB_STRIDE;
        for (int l = 0; l < s->n; l++) {
            hb_real along = q[0][l] * t[0] + q[1][l] * t[1] + q[2][l] * t[2] + q[3][l] * t[3];
            d[l] += weight * (q[i][l] - along * t[i]);
        }
    }
}

static void yaw_gradient(const stage *s)
{
    const hb_real *q0 = state_row(s, 0), *q1 = state_row(s, 1), *q2 = state_row(s, 2), *q3 = state_row(s, 3);
    _Alignas(HB_ALIGNMENT) hb_real dq[4][HB_STRIDE];
    hb_real t[4], weight = 2 * s->weight;

    attitude_target(s->t, s->target, t);
    heading to = heading_of(t[0], t[1], t[2], t[3]);
    for (int l = 0; l < s->n; l++) {
        heading a = heading_of(q0[l], q1[l], q2[l], q3[l]);
        hb_real sine = weight * (a.sine * to.cosine - a.cosine * to.sine);
        dq[0][l] = sine * a.d[0];
        dq[1][l] = sine * a.d[1];
        dq[2][l] = sine * a.d[2];
        dq[3][l] = sine * a.d[3];
    }
    for (int i = 0; i < 4; i++)
        add_scaled(s->n, 1, dq[i], s->dx + s->t->index[i] * HB_STRIDE);
}

static void bound_gradient(const stage *s)
{
    hb_real min = (hb_real)s->t->min, max = (hb_real)s->t->max, weight = s->weight;

    for (int i = 0; i < s->t->nindices; i++) {
        const hb_real *row = state_row(s, i);
        hb_real *restrict drow = s->dx + s->t->index[i] * HB_STRIDE;
        for (int l = 0; l < s->n; l++)
            drow[l] += 2 * weight * excess(row[l], min, max);
    }
}

static void imbalance_gradient(const stage *s)
{
    for (int i = 0; i < s->t->nindices; i += 2) {
        int a = s->t->index[i] * HB_STRIDE, b = s->t->index[i + 1] * HB_STRIDE;
        if (a != b)
            add_difference(s->n, s->weight, s->u + a, s->u + b, 0, s->du + a, s->du + b);
    }
}

static void slew_gradient(const stage *s)
{
    for (int i = 0; i < s->t->nindices; i++) {
        int index = s->t->index[i], at = index * HB_STRIDE;
        const hb_real *from = s->u_before ? s->u_before + at : NULL;
        add_difference(s->n, s->weight, s->u + at, from, (hb_real)s->goal->last_control[index], s->du + at,
                       s->u_before ? s->du_before + at : NULL);
    }
}

static void effort_gradient(const stage *s)
{
    for (int i = 0; i < s->t->nindices; i++) {
        int index = s->t->index[i], at = index * HB_STRIDE;
        add_difference(s->n, s->weight, s->u + at, NULL, (hb_real)s->goal->trim[index], s->du + at, NULL);
    }
}

static void (*const gradient_of[])(const stage *s) = {
#define X(id, name, ...) name##_gradient,
    HB_COST_KINDS(X)
#undef X
};

void hb_cost_stage_gradient(const hb_cost *c, const hb_goal *goal, int nx, const hb_stage *at,
                            const hb_stage_gradient *to)
{
    for (int i = 0; i < c->nterms; i++) {
        const hb_cost_term *t = &c->term[i];
        if (!counts_at(t, at))
            continue;
        stage s = stage_of_term(t, goal, nx, at);
        s.dx = to->dx;
        s.du = to->du;
        s.du_before = to->du_before;
        gradient_of[t->kind](&s);
    }
    hb_limits_stage_gradient(&c->limits, goal->last_control, at, to);
}

/* One stage of one sample, as a term sees it. */
typedef struct point {
    const hb_cost_term *t;
    const hb_goal *goal;
    const double *target; /* nx, of this stage */
    double weight;
    int nx, nu;
    const double *x, *u, *u_before;
    hb_stage_model *to;
} point;

/* weight * residual^2, the residual being a - b: adds to the cost and to the gradients of a and b (NULL: b is a
 * constant) and returns the curvature */
static double square_model(const point *p, double residual, double *da, double *db)
{
    p->to->cost += p->weight * residual * residual;
    *da += 2 * p->weight * residual;
    if (db)
        *db -= 2 * p->weight * residual;
    return 2 * p->weight;
}

static double square_distance(const point *p)
{
    double sum = 0;

    for (int i = 0; i < p->t->nindices; i++) {
        double r = p->x[p->t->index[i]] - p->target[p->t->index[i]];
        sum += r * r;
    }
    return sum;
}

/* a quadratic around the target, of this curvature */
static void bowl_model(const point *p, double curvature)
{
    for (int i = 0; i < p->t->nindices; i++) {
        int at = p->t->index[i];
        p->to->lx[at] += curvature * (p->x[at] - p->target[at]);
        p->to->q[at * p->nx + at] += curvature;
    }
}

/* |r|, as the quadratic r^2 / (2 d) + d / 2 that touches it from above at the present distance d. Close to the target,
 * where the true one has a cusp that no quadratic follows, d is held at the radius of the bowl. */
static void distance_model(const point *p)
{
    const double distance = sqrt(square_distance(p));

    p->to->cost += p->weight * distance;
    bowl_model(p, p->weight / fmax(distance, distance_bowl));
}

/* the quadratic that touches it from above in the same way; there is no cusp */
static void huber_model(const point *p)
{
    const double square = square_distance(p), slack = sqrt(1 + square / (p->t->radius * p->t->radius));

    p->to->cost += 2 * p->weight * square / (1 + slack);
    bowl_model(p, 2 * p->weight / slack);
}

static void squared_model(const point *p)
{
    for (int i = 0; i < p->t->nindices; i++) {
        int at = p->t->index[i];
        p->to->q[at * p->nx + at] += square_model(p, p->x[at] - p->target[at], &p->to->lx[at], NULL);
    }
}

static void velocity_model(const point *p)
{
    for (int i = 0; i < p->t->nindices; i++) {
        int at = p->t->index[i];
        p->to->q[at * p->nx + at] += square_model(p, p->x[at], &p->to->lx[at], NULL);
    }
}

static void tilt_model(const point *p)
{
    const int *at = p->t->index;
    const double *x = p->x;
    tilt a = tilt_of((hb_real)x[at[0]], (hb_real)x[at[1]], (hb_real)x[at[2]], (hb_real)x[at[3]]);

    p->to->cost += p->weight * (a.roll * a.roll + a.pitch * a.pitch);
    for (int i = 0; i < 4; i++) {
        p->to->lx[at[i]] += 2 * p->weight * (a.roll * a.droll[i] + a.pitch * a.dpitch[i]);
        for (int j = 0; j < 4; j++)
            p->to->q[at[i] * p->nx + at[j]] += 2 * p->weight * (a.droll[i] * a.droll[j] + a.dpitch[i] * a.dpitch[j]);
    }
}

static void attitude_model(const point *p)
{
    const int *at = p->t->index;
    hb_real t[4];
    double along = 0, square = 0;

    attitude_target(p->t, p->target, t);
    for (int i = 0; i < 4; i++) {
        along += p->x[at[i]] * t[i];
        square += p->x[at[i]] * p->x[at[i]];
    }
    p->to->cost += 4 * p->weight * (square - along * along);
    for (int i = 0; i < 4; i++) {
        p->to->lx[at[i]] += 8 * p->weight * (p->x[at[i]] - along * t[i]);
        for (int j = 0; j < 4; j++)
            p->to->q[at[i] * p->nx + at[j]] += 8 * p->weight * ((i == j) - (double)t[i] * t[j]);
    }
}

static void yaw_model(const point *p)
{
    const int *at = p->t->index;
    const double *x = p->x;
    hb_real t[4];

    attitude_target(p->t, p->target, t);
    heading to = heading_of(t[0], t[1], t[2], t[3]);
    heading a = heading_of((hb_real)x[at[0]], (hb_real)x[at[1]], (hb_real)x[at[2]], (hb_real)x[at[3]]);
    double sine = a.sine * to.cosine - a.cosine * to.sine;

    p->to->cost += 2 * p->weight * (1 - a.cosine * to.cosine - a.sine * to.sine);
    for (int i = 0; i < 4; i++) {
        p->to->lx[at[i]] += 2 * p->weight * sine * a.d[i];
        for (int j = 0; j < 4; j++)
            p->to->q[at[i] * p->nx + at[j]] += 2 * p->weight * a.d[i] * a.d[j];
    }
}

static void bound_model(const point *p)
{
    for (int i = 0; i < p->t->nindices; i++) {
        int at = p->t->index[i];
        double over = p->x[at] > p->t->max ? p->x[at] - p->t->max : p->x[at] < p->t->min ? p->x[at] - p->t->min : 0;
        if (over != 0)
            p->to->q[at * p->nx + at] += square_model(p, over, &p->to->lx[at], NULL);
    }
}

static void imbalance_model(const point *p)
{
    for (int i = 0; i < p->t->nindices; i += 2) {
        int a = p->t->index[i], b = p->t->index[i + 1];
        double curvature = square_model(p, p->u[a] - p->u[b], &p->to->lu[a], &p->to->lu[b]);
        p->to->r[a * p->nu + a] += curvature;
        p->to->r[b * p->nu + b] += curvature;
        p->to->r[a * p->nu + b] -= curvature;
        p->to->r[b * p->nu + a] -= curvature;
    }
}

static void slew_model(const point *p)
{
    for (int i = 0; i < p->t->nindices; i++) {
        int at = p->t->index[i];
        double from = p->u_before ? p->u_before[at] : p->goal->last_control[at];
        p->to->slew[at] += square_model(p, p->u[at] - from, &p->to->lu[at], p->u_before ? &p->to->lu_before[at] : NULL);
    }
}

static void effort_model(const point *p)
{
    for (int i = 0; i < p->t->nindices; i++) {
        int at = p->t->index[i];
        p->to->r[at * p->nu + at] += square_model(p, p->u[at] - p->goal->trim[at], &p->to->lu[at], NULL);
    }
}

static void (*const model_of[])(const point *p) = {
#define X(id, name, ...) name##_model,
    HB_COST_KINDS(X)
#undef X
};

void hb_cost_stage_model(const hb_cost *c, const hb_goal *goal, int nx, int nu, int nh, int k, const double *x,
                         const double *u, const double *u_before, hb_stage_model *to)
{
    for (int i = 0; i < c->nterms; i++) {
        const hb_cost_term *t = &c->term[i];

        if (u || !is_control_kind(t->kind))
            model_of[t->kind](&(point){.t = t,
                                       .goal = goal,
                                       .target = stage_target(goal, nx, k),
                                       .weight = stage_weight(t, nh, k),
                                       .nx = nx,
                                       .nu = nu,
                                       .x = x,
                                       .u = u,
                                       .u_before = u_before,
                                       .to = to});
    }
    hb_limits_stage_model(&c->limits, goal->last_control, nx, nh, k, x, u, u_before, to);
}
