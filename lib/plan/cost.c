/* Terms of the cost, and what follows from them: values, gradients and Gauss-Newton curvatures.
 *
 * A term is one of two things, and each kind says only which differences, or which residuals:
 *
 *     differences d_i of rows       weight * rho(sum of d_i^2), rho(s) = s, the root of s, or what lies between them
 *     residuals r_j of a quaternion weight * sum of r_j^2
 *
 * Loops run over lanes innermost, on whole groups of HB_LANES, and hold nothing that keeps a compiler from
 * vectorising them: the arc tangent is a series of our own for that reason. One sample alone is a stage of one lane.
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

#include "plan/numbers.h"

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
    hb_real r = above / (below > HB_TINY ? below : HB_TINY), r2 = r * r;
    hb_real sum = 0;

    for (int k = 11; k >= 0; k--)
        sum = 1 / (hb_real)(2 * k + 1) - r2 * sum;
    hb_real angle = r * sum + (far ? (hb_real)0.7853981633974483 : 0);
    angle = ay > ax ? (hb_real)1.5707963267948966 - angle : angle;
    return (y < 0) != (x < 0) ? -angle : angle;
}

/* ---- differences ---- */

/* One stage of n samples, as a term sees it. */
typedef struct stage {
    const hb_cost_term *t;
    const hb_goal *goal;
    const double *target; /* nx, of this stage */
    hb_real weight;
    int n;            /* lanes that are computed on */
    ptrdiff_t stride; /* from row to row */
    const int *row;   /* of each index of the term */
    const hb_real *x, *u, *u_before;
} stage;

/* Row a less row b, or less the constant `at` where b is NULL. */
typedef struct difference {
    const hb_real *a, *b;
    hb_real at;
} difference;

static int ndifferences(const hb_cost_term *t)
{
    return t->kind == HB_COST_IMBALANCE ? t->nindices / 2 : t->nindices;
}

static difference difference_of(const stage *s, int i)
{
    const int index = s->t->index[i];
    const ptrdiff_t at = s->row[i] * s->stride;

    switch (s->t->kind) {
    case HB_COST_DISTANCE:
    case HB_COST_SQUARED:
    case HB_COST_HUBER:
        return (difference){.a = s->x + at, .at = (hb_real)s->target[index]};
    case HB_COST_IMBALANCE:
        return (difference){.a = s->u + s->row[2 * i] * s->stride, .b = s->u + s->row[2 * i + 1] * s->stride};
    case HB_COST_SLEW:
        return s->u_before ? (difference){.a = s->u + at, .b = s->u_before + at}
                           : (difference){.a = s->u + at, .at = (hb_real)s->goal->last_control[index]};
    case HB_COST_EFFORT:
        return (difference){.a = s->u + at, .at = (hb_real)s->goal->trim[index]};
    default: /* HB_COST_VELOCITY, HB_COST_BOUND */
        return (difference){.a = s->x + at};
    }
}

/* of bounds: by how much, with its sign */
static void work_out(const stage *s, const difference *of, hb_real *restrict d)
{
    const hb_real min = (hb_real)s->t->min, max = (hb_real)s->t->max;

    if (s->t->kind == HB_COST_BOUND)
        for (int l = 0; l < s->n; l++)
            d[l] = of->a[l] > max ? of->a[l] - max : of->a[l] < min ? of->a[l] - min : 0;
    else if (of->b)
        for (int l = 0; l < s->n; l++)
            d[l] = of->a[l] - of->b[l];
    else
        for (int l = 0; l < s->n; l++)
            d[l] = of->a[l] - of->at;
}

static void sum_of_squares(const stage *s, hb_real *restrict sum)
{
    _Alignas(HB_ALIGNMENT) hb_real d[HB_STRIDE];

    for (int l = 0; l < s->n; l++)
        sum[l] = 0;
    for (int i = 0; i < ndifferences(s->t); i++) {
        const difference of = difference_of(s, i);
        work_out(s, &of, d);
        for (int l = 0; l < s->n; l++)
            sum[l] += d[l] * d[l];
    }
}

/* is rho(s) = s? */
static bool is_square(hb_cost_kind kind)
{
    return kind != HB_COST_DISTANCE && kind != HB_COST_HUBER;
}

/* what a quadratic is divided by so that it grows as a distance beyond the radius: sqrt(1 + d^2 / radius^2) */
static inline hb_real huber_slack(hb_real square, hb_real radius)
{
    return (hb_real)sqrt(1 + square / (radius * radius));
}

static void differences_value(const stage *s, hb_real *restrict cost)
{
    _Alignas(HB_ALIGNMENT) hb_real sum[HB_STRIDE];
    const hb_real weight = s->weight, radius = (hb_real)s->t->radius;

    sum_of_squares(s, sum);
    if (s->t->kind == HB_COST_DISTANCE)
        for (int l = 0; l < s->n; l++)
            cost[l] += weight * (hb_real)sqrt(sum[l]);
    else if (s->t->kind == HB_COST_HUBER) /* 2 radius^2 (slack - 1), without its difference of large numbers */
        for (int l = 0; l < s->n; l++)
            cost[l] += 2 * weight * sum[l] / (1 + huber_slack(sum[l], radius));
    else
        for (int l = 0; l < s->n; l++)
            cost[l] += weight * sum[l];
}

/* The slope of the cost by each difference is `pull` times the difference. So is that of the parabola that touches the
 * cost from above there, whose curvature is `pull`. A distance is divided by no less than `cusp`. */
static void work_out_pull(const stage *s, hb_real cusp, hb_real *restrict pull)
{
    const hb_real weight = s->weight, radius = (hb_real)s->t->radius;

    if (!is_square(s->t->kind))
        sum_of_squares(s, pull);
    if (s->t->kind == HB_COST_DISTANCE)
        for (int l = 0; l < s->n; l++) {
            const hb_real distance = (hb_real)sqrt(pull[l]);
            pull[l] = weight / (distance > cusp ? distance : cusp);
        }
    else if (s->t->kind == HB_COST_HUBER)
        for (int l = 0; l < s->n; l++)
            pull[l] = 2 * weight / huber_slack(pull[l], radius);
    else
        for (int l = 0; l < s->n; l++)
            pull[l] = 2 * weight;
}

static void differences_gradient(const stage *s, const hb_stage_gradient *to)
{
    _Alignas(HB_ALIGNMENT) hb_real pull[HB_STRIDE], d[HB_STRIDE];
    const bool control = is_control_kind(s->t->kind);

    work_out_pull(s, HB_TINY, pull);
    for (int i = 0; i < ndifferences(s->t); i++) {
        const difference of = difference_of(s, i);
        hb_real *restrict da = control ? to->du + (of.a - s->u) : to->dx + (of.a - s->x);

        work_out(s, &of, d);
        for (int l = 0; l < s->n; l++)
            da[l] += pull[l] * d[l];
        if (of.b) {
            hb_real *restrict db =
                s->t->kind == HB_COST_SLEW ? to->du_before + (of.b - s->u_before) : to->du + (of.b - s->u);
            for (int l = 0; l < s->n; l++)
                db[l] -= pull[l] * d[l];
        }
    }
}

/* ---- residuals of a quaternion ---- */

/* at most three, and their derivatives by its elements x, y, z, w */
typedef struct residuals {
    hb_real r[3], by[3][4];
} residuals;

/* roll and pitch */
static inline residuals tilt_residuals(const hb_real q[4], const hb_real target[4])
{
    const hb_real x = q[0], y = q[1], z = q[2], w = q[3];
    hb_real length2 = x * x + y * y + z * z + w * w;
    hb_real s = 2 * (x * z - w * y), rolled = 2 * (x * w + y * z), level = x * x + y * y - z * z - w * w;
    hb_real c2 = rolled * rolled + level * level, c = (hb_real)sqrt(c2);
    /* at +-90 degrees of pitch roll is undefined: its derivative is kept finite there */
    hb_real least = (hb_real)1e-5 * length2 + HB_TINY, least2 = least * least;
    hb_real per_c = 1 / (c > least ? c : least), per_c2 = 2 / (c2 > least2 ? c2 : least2);
    hb_real share = s / (length2 > HB_TINY ? length2 : HB_TINY);
    hb_real e = level * per_c2, f = rolled * per_c2;

    (void)target;
    return (residuals){
        .r = {arc_tangent(rolled, level), arc_tangent(s, c)},
        .by = {{e * w - f * x, e * z - f * y, e * y + f * z, e * x + f * w},
               {2 * (z - share * x) * per_c, 2 * (-w - share * y) * per_c, 2 * (x - share * z) * per_c,
                2 * (-y - share * w) * per_c}},
    };
}

/* twice the vector of the rotation from the target (of length one): 2 sin of half of its angle */
static inline residuals attitude_residuals(const hb_real q[4], const hb_real t[4])
{
    const hb_real by[3][4] = {{2 * t[3], 2 * t[2], -2 * t[1], -2 * t[0]},
                              {-2 * t[2], 2 * t[3], 2 * t[0], -2 * t[1]},
                              {2 * t[1], -2 * t[0], 2 * t[3], -2 * t[2]}};
    residuals of;

    for (int j = 0; j < 3; j++) {
        of.r[j] = 0;
        for (int i = 0; i < 4; i++) {
            of.r[j] += by[j][i] * q[i];
            of.by[j][i] = by[j][i];
        }
    }
    return of;
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
    hb_real least = (hb_real)1e-6 * length2 * length2 + HB_TINY, per = 1 / (square > least ? square : least);
    hb_real per_root = (hb_real)sqrt(per), c = 2 * cosine * per, n = 2 * sine * per;

    return (heading){
        .sine = sine * per_root,
        .cosine = cosine * per_root,
        .d = {c * y - n * x, c * x + n * y, c * w + n * z, c * z - n * w},
    };
}

/* with the angle a between both headings, sin a and 1 - cos a: the sum of their squares is 4 sin^2 of half of a */
static inline residuals yaw_residuals(const hb_real q[4], const hb_real t[4])
{
    const heading to = heading_of(t[0], t[1], t[2], t[3]), a = heading_of(q[0], q[1], q[2], q[3]);
    const hb_real sine = a.sine * to.cosine - a.cosine * to.sine, cosine = a.cosine * to.cosine + a.sine * to.sine;

    return (residuals){
        .r = {sine, 1 - cosine},
        .by = {{cosine * a.d[0], cosine * a.d[1], cosine * a.d[2], cosine * a.d[3]},
               {sine * a.d[0], sine * a.d[1], sine * a.d[2], sine * a.d[3]}},
    };
}

static bool is_of_quaternion(hb_cost_kind kind)
{
    return kind == HB_COST_TILT || kind == HB_COST_ATTITUDE || kind == HB_COST_YAW;
}

/* of length one; upright where the target has none */
static void target_quaternion(const stage *s, hb_real q[4])
{
    double length = 0;

    for (int i = 0; s->target && i < 4; i++)
        length += s->target[s->t->index[i]] * s->target[s->t->index[i]];
    for (int i = 0; i < 4; i++)
        q[i] = (hb_real)(length > 0 ? s->target[s->t->index[i]] / sqrt(length) : i == 3);
}

/* for every lane l, `residuals of` a kind, and then what is done with it */
#define OVER_LANES(NAME, ...)                                                                                          \
    for (int l = 0; l < s->n; l++) {                                                                                   \
        const residuals of = NAME##_residuals((const hb_real[4]){q[0][l], q[1][l], q[2][l], q[3][l]}, target);         \
        __VA_ARGS__                                                                                                    \
    }
#define OVER_LANES_OF_KIND(...)                                                                                        \
    if (s->t->kind == HB_COST_TILT)                                                                                    \
        OVER_LANES(tilt, __VA_ARGS__)                                                                                  \
    else if (s->t->kind == HB_COST_ATTITUDE)                                                                           \
        OVER_LANES(attitude, __VA_ARGS__)                                                                              \
    else                                                                                                               \
        OVER_LANES(yaw, __VA_ARGS__)

static void quaternion_value(const stage *s, hb_real *restrict cost)
{
    const hb_real *q[4], weight = s->weight;
    hb_real target[4];

    for (int i = 0; i < 4; i++)
        q[i] = s->x + s->row[i] * s->stride;
    target_quaternion(s, target);
    OVER_LANES_OF_KIND(cost[l] += weight * (of.r[0] * of.r[0] + of.r[1] * of.r[1] + of.r[2] * of.r[2]);)
}

static void quaternion_gradient(const stage *s, hb_real *dx)
{
    _Alignas(HB_ALIGNMENT) hb_real d[4][HB_STRIDE];
    const hb_real *q[4], twice = 2 * s->weight;
    hb_real target[4];

    for (int i = 0; i < 4; i++)
        q[i] = s->x + s->row[i] * s->stride;
    target_quaternion(s, target);
    OVER_LANES_OF_KIND({
        d[0][l] = twice * (of.r[0] * of.by[0][0] + of.r[1] * of.by[1][0] + of.r[2] * of.by[2][0]);
        d[1][l] = twice * (of.r[0] * of.by[0][1] + of.r[1] * of.by[1][1] + of.r[2] * of.by[2][1]);
        d[2][l] = twice * (of.r[0] * of.by[0][2] + of.r[1] * of.by[1][2] + of.r[2] * of.by[2][2]);
        d[3][l] = twice * (of.r[0] * of.by[0][3] + of.r[1] * of.by[1][3] + of.r[2] * of.by[2][3]);
    })
    for (int i = 0; i < 4; i++) {
        hb_real *restrict row = dx + s->row[i] * s->stride;
        for (int l = 0; l < s->n; l++)
            row[l] += d[i][l];
    }
}

/* ---- stages ---- */

static stage stage_of_term(const hb_cost_term *t, const hb_goal *goal, int nx, const hb_stage *at)
{
    return (stage){.t = t,
                   .goal = goal,
                   .target = stage_target(goal, nx, at->k),
                   .weight = (hb_real)stage_weight(t, at->nh, at->k),
                   .n = hb_padded(at->n),
                   .stride = HB_STRIDE,
                   .row = t->index,
                   .x = at->x,
                   .u = at->u,
                   .u_before = at->u_before};
}

/* at the last stage there are no controls */
static bool counts_at(const hb_cost_term *t, const void *u)
{
    return u || !is_control_kind(t->kind);
}

static void add_term(const hb_cost_term *t, const hb_goal *goal, int nx, const hb_stage *at, hb_real *cost)
{
    if (!counts_at(t, at->u))
        return;
    const stage s = stage_of_term(t, goal, nx, at);
    if (is_of_quaternion(t->kind))
        quaternion_value(&s, cost);
    else
        differences_value(&s, cost);
}

void hb_cost_stage(const hb_cost *c, const hb_goal *goal, int nx, const hb_stage *at, hb_real *cost)
{
    for (int i = 0; i < c->nterms; i++)
        add_term(&c->term[i], goal, nx, at, cost);
    hb_limits_stage(&c->limits, goal->last_control, at, cost);
}

void hb_cost_stage_gradient(const hb_cost *c, const hb_goal *goal, int nx, const hb_stage *at,
                            const hb_stage_gradient *to)
{
    for (int i = 0; i < c->nterms; i++) {
        const hb_cost_term *t = &c->term[i];
        if (!counts_at(t, at->u))
            continue;
        const stage s = stage_of_term(t, goal, nx, at);
        if (is_of_quaternion(t->kind))
            quaternion_gradient(&s, to->dx);
        else
            differences_gradient(&s, to);
    }
    hb_limits_stage_gradient(&c->limits, goal->last_control, at, to);
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

/* ---- the quadratic model, of one sample ---- */

/* gradient and curvature of the difference d, whose parabola has the curvature `pull` */
static void add_difference(const hb_cost_term *t, int i, int nx, int nu, double pull, double d, bool is_first,
                           hb_stage_model *to)
{
    const int a = t->index[t->kind == HB_COST_IMBALANCE ? 2 * i : i];

    if (!is_control_kind(t->kind)) {
        to->lx[a] += pull * d;
        to->q[a * nx + a] += t->kind == HB_COST_BOUND && d == 0 ? 0 : pull;
        return;
    }
    to->lu[a] += pull * d;
    if (t->kind == HB_COST_SLEW) {
        to->slew[a] += pull;
        if (!is_first)
            to->lu_before[a] -= pull * d;
        return;
    }
    to->r[a * nu + a] += pull;
    if (t->kind == HB_COST_IMBALANCE) {
        const int b = t->index[2 * i + 1];
        to->lu[b] -= pull * d;
        to->r[b * nu + b] += pull;
        to->r[a * nu + b] -= pull;
        to->r[b * nu + a] -= pull;
    }
}

static void add_differences(const stage *s, int nx, int nu, hb_stage_model *to)
{
    hb_real cost = 0, pull, d;

    /* Close to a target the true distance has a cusp that no parabola follows: a bowl instead. */
    work_out_pull(s, (hb_real)HB_MEASURED, &pull);
    if (!is_square(s->t->kind))
        differences_value(s, &cost);
    for (int i = 0; i < ndifferences(s->t); i++) {
        const difference of = difference_of(s, i);
        work_out(s, &of, &d);
        if (is_square(s->t->kind))
            cost += pull * d * d / 2;
        add_difference(s->t, i, nx, nu, (double)pull, (double)d, !s->u_before, to);
    }
    to->cost += (double)cost;
}

static void add_residuals(const stage *s, int nx, hb_stage_model *to)
{
    const int *at = s->t->index;
    const double twice = 2 * (double)s->weight;
    const hb_real *q[4] = {s->x, s->x + 1, s->x + 2, s->x + 3};
    hb_real target[4];

    target_quaternion(s, target);
    OVER_LANES_OF_KIND({
        for (int r = 0; r < 3; r++) {
            to->cost += twice / 2 * (double)of.r[r] * (double)of.r[r];
            for (int i = 0; i < 4; i++) {
                to->lx[at[i]] += twice * (double)of.r[r] * (double)of.by[r][i];
                for (int j = 0; j < 4; j++)
                    to->q[at[i] * nx + at[j]] += twice * (double)of.by[r][i] * (double)of.by[r][j];
            }
        }
    })
}

/* the numbers of a term's indices, one after the other */
static const hb_real *gather(const hb_cost_term *t, const double *from, hb_real *to)
{
    for (int i = 0; from && i < t->nindices; i++)
        to[i] = (hb_real)from[t->index[i]];
    return from ? to : NULL;
}

void hb_cost_stage_model(const hb_cost *c, const hb_goal *goal, int nx, int nu, int nh, int k, const double *x,
                         const double *u, const double *u_before, hb_stage_model *to)
{
    static const int row[HB_COST_INDICES] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                             16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    hb_real own[3][HB_COST_INDICES];

    for (int i = 0; i < c->nterms; i++) {
        const hb_cost_term *t = &c->term[i];
        const bool control = is_control_kind(t->kind);
        if (!counts_at(t, u))
            continue;
        const stage s = {.t = t,
                         .goal = goal,
                         .target = stage_target(goal, nx, k),
                         .weight = (hb_real)stage_weight(t, nh, k),
                         .n = 1,
                         .stride = 1,
                         .row = row,
                         .x = gather(t, control ? NULL : x, own[0]),
                         .u = gather(t, control ? u : NULL, own[1]),
                         .u_before = gather(t, control ? u_before : NULL, own[2])};
        if (is_of_quaternion(t->kind))
            add_residuals(&s, nx, to);
        else
            add_differences(&s, nx, nu, to);
    }
    hb_limits_stage_model(&c->limits, goal->last_control, nx, nh, k, x, u, u_before, to);
}
