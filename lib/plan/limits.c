/* Every limit on states is one residual e and its gradient over the limit's states, lane by lane; what is made of it
 * (penalty, gradient, curvature 2 w g g^T, a name) is written once for all kinds. */
#include "plan/limits.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "plan/cost.h"
#include "plan/numbers.h"

const char *const hb_limit_kind_name[] = {
#define X(id, name, help) name,
    HB_LIMIT_KINDS(X)
#undef X
        NULL,
};

const char *const hb_limit_kind_help[] = {
#define X(id, name, help) help,
    HB_LIMIT_KINDS(X)
#undef X
        NULL,
};

static const char *const targets_name[] = {[HB_TARGETS_REFUSE] = "refuse", [HB_TARGETS_CLIP] = "clip", NULL};

/* type, key, member, default, least, most, ends, live, help: base/setting_rows.h */
#define ROWS(X)                                                                                                        \
    X(REAL, "limits.weight", weight, 1e4, 0, 1e9, HB_CLOSED, HB_LIVE,                                                  \
      "Cost of breaking a limit: this times the square of the excess, which is in the unit of the states "             \
      "for places and relative to the limit for the others.")                                                          \
    X(REAL, "limits.trained_range", trained_range, 30, 0, 1e6, HB_CLOSED, HB_LIVE,                                     \
      "Standard deviations of the trained states beyond which a plan is not believed; 0: no such check.")

const hb_limits hb_limits_defaults = {ROWS(HB_SETTING_DEFAULT)};

#define STRUCT hb_limits
static const hb_setting row[] = {
    {.key = "limits.targets",
     .type = HB_SETTING_CHOICE,
     .offset = offsetof(hb_limits, targets),
     .size = sizeof(hb_limit_targets),
     .choices = targets_name,
     .nchoices = HB_TARGETS_NCHOICES,
     .live = HB_LIVE,
     .help = "What becomes of a target outside boxes and half-spaces or in a keep-out "
             "zone: refuse the request, or move the target to a place nearby that is allowed."},
    ROWS(HB_SETTING_ROW)};
#undef STRUCT

hb_setting_rows hb_limits_rows(void)
{
    return (hb_setting_rows){row, (int)(sizeof row / sizeof *row)};
}

/* ---- checks ---- */

static bool has_box(hb_limit_kind kind)
{
    return kind == HB_LIMIT_BOX || kind == HB_LIMIT_KEEP_OUT_BOX;
}

static bool is_place(hb_limit_kind kind)
{
    return has_box(kind) || kind == HB_LIMIT_HALF_SPACE || kind == HB_LIMIT_KEEP_OUT_CYLINDER;
}

static int check_numbers(const hb_limit *l, const char *name, hb_error *err)
{
    double length = 0;
    int nboxes = has_box(l->kind) ? l->nindices : l->kind == HB_LIMIT_KEEP_OUT_CYLINDER && l->nindices == 3;

    for (int i = 0; i < nboxes; i++)
        if (!(l->low[i] < l->high[i]))
            return hb_fail(err, EINVAL, "limits.rules: %s: min %g and max %g, expected min < max", name, l->low[i],
                           l->high[i]);
    for (int i = 0; i < l->nindices; i++)
        length += l->vector[i] * l->vector[i];
    if (l->kind == HB_LIMIT_HALF_SPACE && !(isfinite(length) && length > 0 && isfinite(l->max)))
        return hb_fail(err, EINVAL, "limits.rules: %s: expected a finite max, and a normal that is not zero", name);
    if (l->kind == HB_LIMIT_KEEP_OUT_CYLINDER && !(isfinite(length) && l->radius > 0 && isfinite(l->radius)))
        return hb_fail(err, EINVAL, "limits.rules: %s: expected a finite centre, and a radius above 0", name);
    if (!is_place(l->kind) && !(l->max > 0 && isfinite(l->max)))
        return hb_fail(err, EINVAL, "limits.rules: %s: max %g, expected a number above 0", name, l->max);
    if (l->kind == HB_LIMIT_TILT && l->max > M_PI)
        return hb_fail(err, EINVAL, "limits.rules: %s: max %g, expected radians, at most %.4f", name, l->max, M_PI);
    return 0;
}

static int check_limit(const hb_limit *l, const char *name, int nx, int nu, hb_error *err)
{
    bool control = l->kind == HB_LIMIT_CONTROL_RATES;
    int size = control ? nu : nx;

    if (l->nindices < 1 || l->nindices > HB_LIMIT_INDICES)
        return hb_fail(err, EINVAL, "limits.rules: %s: %d indices, expected 1 to %d", name, l->nindices,
                       HB_LIMIT_INDICES);
    for (int i = 0; i < l->nindices; i++)
        if (l->index[i] < 0 || l->index[i] >= size)
            return hb_fail(err, EINVAL, "limits.rules: %s: index %d, but the model has %s 0 to %d", name, l->index[i],
                           control ? "controls" : "states", size - 1);
    if (l->kind == HB_LIMIT_TILT && l->nindices != 4)
        return hb_fail(err, EINVAL, "limits.rules: %s: %d states, expected 4: where x, y, z, w of the quaternion are",
                       name, l->nindices);
    if (l->kind == HB_LIMIT_KEEP_OUT_CYLINDER && l->nindices != 2 && l->nindices != 3)
        return hb_fail(err, EINVAL, "limits.rules: %s: %d states, expected 2, or 3 for a cylinder with ends", name,
                       l->nindices);
    return check_numbers(l, name, err);
}

int hb_limits_check(const hb_limits *l, int nx, int nu, hb_error *err)
{
    int failed = hb_setting_rows_check(hb_limits_rows(), l, err);

    if (!failed && (l->n < 0 || l->n > HB_LIMITS))
        failed = hb_fail(err, EINVAL, "limits.rules: %d limits, expected at most %d", l->n, HB_LIMITS);
    for (int i = 0; !failed && i < l->n; i++) {
        if ((unsigned)l->limit[i].kind >= HB_LIMIT_NKINDS)
            return hb_fail(err, EINVAL, "limits.rules: kind %d is none of the %d known", (int)l->limit[i].kind,
                           HB_LIMIT_NKINDS);
        failed = check_limit(&l->limit[i], hb_limits_name(l, i), nx, nu, err);
    }
    return failed;
}

const char *hb_limits_name(const hb_limits *l, int i)
{
    return *l->limit[i].name ? l->limit[i].name : hb_limit_kind_name[l->limit[i].kind];
}

/* ---- residuals ---- */

static inline hb_real positive(hb_real e)
{
    return e > 0 ? e : 0;
}

/* distance from the box */
static void box_excess(const hb_limit *l, int n, const hb_real *const *x, hb_real *e, hb_real (*g)[HB_STRIDE])
{
    for (int s = 0; s < n; s++)
        e[s] = 0;
    for (int i = 0; i < l->nindices; i++) {
        const hb_real low = (hb_real)l->low[i], high = (hb_real)l->high[i];
        for (int s = 0; s < n; s++) {
            g[i][s] = x[i][s] > high ? x[i][s] - high : x[i][s] < low ? x[i][s] - low : 0;
            e[s] += g[i][s] * g[i][s];
        }
    }
    for (int s = 0; s < n; s++)
        e[s] = (hb_real)sqrt(e[s]);
    for (int i = 0; i < l->nindices; i++)
        for (int s = 0; s < n; s++)
            g[i][s] /= e[s] > HB_TINY ? e[s] : HB_TINY;
}

/* distance beyond the plane */
static void half_space_excess(const hb_limit *l, int n, const hb_real *const *x, hb_real *e, hb_real (*g)[HB_STRIDE])
{
    double length = 0;

    for (int i = 0; i < l->nindices; i++)
        length += l->vector[i] * l->vector[i];
    length = sqrt(length);
    for (int s = 0; s < n; s++)
        e[s] = (hb_real)(-l->max / length);
    for (int i = 0; i < l->nindices; i++) {
        const hb_real share = (hb_real)(l->vector[i] / length);
        for (int s = 0; s < n; s++) {
            e[s] += share * x[i][s];
            g[i][s] = share;
        }
    }
}

/* how deep inside, towards the nearest face */
static void keep_out_box_excess(const hb_limit *l, int n, const hb_real *const *x, hb_real *e, hb_real (*g)[HB_STRIDE])
{
    for (int s = 0; s < n; s++) {
        hb_real depth = INFINITY;
        for (int i = 0; i < l->nindices; i++) {
            hb_real below = x[i][s] - (hb_real)l->low[i], above = (hb_real)l->high[i] - x[i][s];
            depth = below < depth ? below : depth;
            depth = above < depth ? above : depth;
        }
        bool found = false;
        for (int i = 0; i < l->nindices; i++) {
            hb_real below = x[i][s] - (hb_real)l->low[i], above = (hb_real)l->high[i] - x[i][s];
            bool here = !found && (below == depth || above == depth);
            g[i][s] = (hb_real)(here ? (below == depth ? 1 : -1) : 0);
            found = found || here;
        }
        e[s] = depth;
    }
}

static void cylinder_excess(const hb_limit *l, int n, const hb_real *const *x, hb_real *e, hb_real (*g)[HB_STRIDE])
{
    for (int s = 0; s < n; s++) {
        hb_real dx = x[0][s] - (hb_real)l->vector[0], dy = x[1][s] - (hb_real)l->vector[1];
        hb_real distance = (hb_real)sqrt(dx * dx + dy * dy);

        e[s] = (hb_real)l->radius - distance;
        /* at the centre all directions out are equally short: take one */
        g[0][s] = distance > HB_TINY ? -dx / distance : -1;
        g[1][s] = distance > HB_TINY ? -dy / distance : 0;
        if (l->nindices == 3) {
            hb_real below = x[2][s] - (hb_real)l->low[0], above = (hb_real)l->high[0] - x[2][s];
            hb_real end = below < above ? below : above;
            g[2][s] = 0;
            if (end < e[s]) {
                e[s] = end;
                g[0][s] = g[1][s] = 0;
                g[2][s] = (hb_real)(below < above ? 1 : -1);
            }
        }
    }
}

/* |v| / max - 1 */
static void length_excess(const hb_limit *l, int n, const hb_real *const *x, hb_real *e, hb_real (*g)[HB_STRIDE])
{
    const hb_real per_max = (hb_real)(1 / l->max);

    for (int s = 0; s < n; s++)
        e[s] = 0;
    for (int i = 0; i < l->nindices; i++)
        for (int s = 0; s < n; s++)
            e[s] += x[i][s] * x[i][s];
    for (int s = 0; s < n; s++)
        e[s] = (hb_real)sqrt(e[s]);
    for (int i = 0; i < l->nindices; i++)
        for (int s = 0; s < n; s++)
            g[i][s] = x[i][s] / (e[s] > HB_TINY ? e[s] : HB_TINY) * per_max;
    for (int s = 0; s < n; s++)
        e[s] = e[s] * per_max - 1;
}

/* With c the cosine of the angle from upright: (cos(max) - c) / (1 - cos(max)), which grows all the way to upside down
 * and has no singular point at the limit. */
static void tilt_excess(const hb_limit *l, int n, const hb_real *const *x, hb_real *e, hb_real (*g)[HB_STRIDE])
{
    const hb_real least = (hb_real)cos(l->max), scale = 1 / (1 - least);

    for (int s = 0; s < n; s++) {
        hb_real qx = x[0][s], qy = x[1][s], qz = x[2][s], qw = x[3][s];
        hb_real square = qx * qx + qy * qy + qz * qz + qw * qw, per = 1 / (square > HB_TINY ? square : HB_TINY);
        hb_real c = (qw * qw + qz * qz - qx * qx - qy * qy) * per, twice = 2 * per * scale;

        e[s] = (least - c) * scale;
        g[0][s] = twice * (qx + qx * c);
        g[1][s] = twice * (qy + qy * c);
        g[2][s] = twice * (-qz + qz * c);
        g[3][s] = twice * (-qw + qw * c);
    }
}

/* e (HB_STRIDE, not negative) and its gradient over the limit's states (a row each) for n lanes of x (nx rows, `stride`
 * apart) */
static void excess(const hb_limit *l, int n, int stride, const hb_real *x, hb_real *e, hb_real (*g)[HB_STRIDE])
{
    const hb_real *at[HB_LIMIT_INDICES];

    for (int i = 0; i < l->nindices; i++)
        at[i] = x + (ptrdiff_t)l->index[i] * stride;
    switch (l->kind) {
    case HB_LIMIT_BOX:
        box_excess(l, n, at, e, g);
        break;
    case HB_LIMIT_HALF_SPACE:
        half_space_excess(l, n, at, e, g);
        break;
    case HB_LIMIT_KEEP_OUT_CYLINDER:
        cylinder_excess(l, n, at, e, g);
        break;
    case HB_LIMIT_KEEP_OUT_BOX:
        keep_out_box_excess(l, n, at, e, g);
        break;
    case HB_LIMIT_TILT:
        tilt_excess(l, n, at, e, g);
        break;
    default: /* HB_LIMIT_SPEED, HB_LIMIT_BODY_RATES */
        length_excess(l, n, at, e, g);
    }
    for (int s = 0; s < n; s++)
        e[s] = positive(e[s]);
}

/* of one state (nx) in double; gradient: over the limit's states */
static double excess_at(const hb_limit *l, const double *x, double *gradient)
{
    _Alignas(HB_ALIGNMENT) hb_real e[HB_STRIDE], g[HB_LIMIT_INDICES][HB_STRIDE];
    hb_real own[HB_LIMIT_INDICES] = {0};
    hb_limit here = *l;

    for (int i = 0; i < l->nindices; i++) {
        own[i] = (hb_real)x[l->index[i]];
        here.index[i] = i;
    }
    excess(&here, 1, 1, own, e, g);
    for (int i = 0; gradient && i < l->nindices; i++)
        gradient[i] = g[i][0];
    return e[0];
}

/* excess of a change of control beyond what a step allows, with its sign, relative to that */
static inline double rate_excess(double change, double most)
{
    return (change > most ? change - most : change < -most ? change + most : 0) / most;
}

/* ---- penalties ---- */

static double stage_weight(const hb_limits *l, int nh, bool control)
{
    return l->weight / (control ? nh : nh + 1);
}

void hb_limits_stage(const hb_limits *l, const double *last_control, const hb_stage *at, hb_real *cost)
{
    const int n = hb_padded(at->n);
    const hb_real *u = at->u, *u_before = at->u_before;
    _Alignas(HB_ALIGNMENT) hb_real e[HB_STRIDE], g[HB_LIMIT_INDICES][HB_STRIDE];

    for (int i = 0; i < l->n; i++) {
        const hb_limit *it = &l->limit[i];
        const bool control = it->kind == HB_LIMIT_CONTROL_RATES;
        const hb_real weight = (hb_real)stage_weight(l, at->nh, control);

        if (!control && at->k > 0) {
            excess(it, n, HB_STRIDE, at->x, e, g);
            for (int s = 0; s < n; s++)
                cost[s] += weight * e[s] * e[s];
        }
        for (int j = 0; control && u && j < it->nindices; j++) {
            const int which = it->index[j];
            for (int s = 0; s < n; s++) {
                double before = u_before ? u_before[which * HB_STRIDE + s] : last_control[which];
                hb_real d = (hb_real)rate_excess(u[which * HB_STRIDE + s] - before, it->max * l->step);
                cost[s] += weight * d * d;
            }
        }
    }
}

void hb_limits_stage_gradient(const hb_limits *l, const double *last_control, const hb_stage *at,
                              const hb_stage_gradient *to)
{
    const int n = hb_padded(at->n);
    const hb_real *u = at->u, *u_before = at->u_before;
    hb_real *du = to->du, *du_before = to->du_before;
    _Alignas(HB_ALIGNMENT) hb_real e[HB_STRIDE], g[HB_LIMIT_INDICES][HB_STRIDE];

    for (int i = 0; i < l->n; i++) {
        const hb_limit *it = &l->limit[i];
        const bool control = it->kind == HB_LIMIT_CONTROL_RATES;
        const hb_real twice = (hb_real)(2 * stage_weight(l, at->nh, control));

        if (!control && at->k > 0) {
            excess(it, n, HB_STRIDE, at->x, e, g);
            for (int j = 0; j < it->nindices; j++) {
                hb_real *restrict d = to->dx + it->index[j] * HB_STRIDE;
                for (int s = 0; s < n; s++)
                    d[s] += twice * e[s] * g[j][s];
            }
        }
        for (int j = 0; control && u && j < it->nindices; j++) {
            const int which = it->index[j];
            const double most = it->max * l->step;
            for (int s = 0; s < n; s++) {
                double before = u_before ? u_before[which * HB_STRIDE + s] : last_control[which];
                hb_real d = twice * (hb_real)(rate_excess(u[which * HB_STRIDE + s] - before, most) / most);
                du[which * HB_STRIDE + s] += d;
                if (du_before)
                    du_before[which * HB_STRIDE + s] -= d;
            }
        }
    }
}

void hb_limits_stage_model(const hb_limits *l, const double *last_control, int nx, int nh, int k, const double *x,
                           const double *u, const double *u_before, struct hb_stage_model *to)
{
    double g[HB_LIMIT_INDICES];

    for (int i = 0; i < l->n; i++) {
        const hb_limit *it = &l->limit[i];
        const bool control = it->kind == HB_LIMIT_CONTROL_RATES;
        const double twice = 2 * stage_weight(l, nh, control);
        const double e = control || k == 0 ? 0 : excess_at(it, x, g);

        to->cost += twice / 2 * e * e;
        for (int a = 0; e > 0 && a < it->nindices; a++) {
            to->lx[it->index[a]] += twice * e * g[a];
            for (int b = 0; b < it->nindices; b++)
                to->q[it->index[a] * nx + it->index[b]] += twice * g[a] * g[b];
        }
        for (int j = 0; control && u && j < it->nindices; j++) {
            const int at = it->index[j];
            const double most = it->max * l->step;
            const double d = rate_excess(u[at] - (u_before ? u_before[at] : last_control[at]), most) / most;

            if (d == 0)
                continue;
            to->cost += twice / 2 * d * d * most * most;
            to->lu[at] += twice * d;
            if (u_before)
                to->lu_before[at] -= twice * d;
            to->slew[at] += twice / (most * most);
        }
    }
}

/* ---- plans and targets ---- */

int hb_limits_broken(const hb_limits *l, const double *last_control, int nx, int nu, int nh, const double *states,
                     const double *controls)
{
    double worst = HB_TRIFLE;
    int found = -1;

    for (int i = 0; i < l->n; i++) {
        const hb_limit *it = &l->limit[i];
        double most = 0;

        for (int k = 1; it->kind != HB_LIMIT_CONTROL_RATES && k <= nh; k++)
            most = fmax(most, excess_at(it, states + (ptrdiff_t)k * nx, NULL));
        for (int k = 0; it->kind == HB_LIMIT_CONTROL_RATES && k < nh; k++)
            for (int j = 0; j < it->nindices; j++) {
                const int at = it->index[j];
                double before = k > 0 ? controls[(k - 1) * nu + at] : last_control[at];
                most = fmax(most, fabs(rate_excess(controls[k * nu + at] - before, it->max * l->step)));
            }
        if (most > worst) {
            worst = most;
            found = i;
        }
    }
    return found;
}

bool hb_limits_allow(const hb_limits *l, const double *target)
{
    for (int i = 0; i < l->n; i++)
        if (is_place(l->limit[i].kind) && excess_at(&l->limit[i], target, NULL) > HB_TRIFLE)
            return false;
    return true;
}

bool hb_limits_clip(const hb_limits *l, double *target)
{
    double g[HB_LIMIT_INDICES];

    /* each limit moves it the shortest way out of itself, which may be into another one */
    for (int round = 0; round < HB_ROUNDS && !hb_limits_allow(l, target); round++)
        for (int i = 0; i < l->n; i++) {
            const hb_limit *it = &l->limit[i];
            double e = is_place(it->kind) ? excess_at(it, target, g) : 0;
            for (int j = 0; e > 0 && j < it->nindices; j++)
                target[it->index[j]] -= e * g[j];
        }
    return hb_limits_allow(l, target);
}
