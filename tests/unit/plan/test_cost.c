/* Cost terms against a plain computation of the same formulas, one sample at a time in double; gradients against
 * finite differences of that computation. Built twice, with hb_real as float and as double. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "plan/cost.h"
#include "base/numeric.h"

enum { NX = 13, NU = 4, NH = 3, N = 21 };

#ifdef HB_DOUBLE
static const double tolerance = 1e-9, gradient_tolerance = 1e-7;
#else
static const double tolerance = 2e-6, gradient_tolerance = 2e-5;
#endif

/* a trajectory and its controls, sample-major, and what it is measured against */
typedef struct trajectory {
    double x[NH + 1][NX], u[NH][NU];
} trajectory;

typedef struct setting {
    hb_cost cost;
    hb_goal goal;
    double target[(NH + 1) * NX], last[NU], trim[NU];
} setting;

static double folded_roll(const double *q)
{
    double roll = atan2(2 * (q[0] * q[3] + q[1] * q[2]), 1 - 2 * (q[2] * q[2] + q[3] * q[3]));

    return roll > M_PI / 2 ? roll - M_PI : roll < -M_PI / 2 ? roll + M_PI : roll;
}

static double tilt_reference(const double *x, const int *index)
{
    double q[4], norm = 0;

    for (int i = 0; i < 4; i++)
        norm += x[index[i]] * x[index[i]];
    for (int i = 0; i < 4; i++)
        q[i] = x[index[i]] / sqrt(norm);
    double roll = folded_roll(q), pitch = asin(2 * (q[0] * q[2] - q[3] * q[1]));
    return roll * roll + pitch * pitch;
}

/* 4 |vector part of target^-1 q|^2, by the product of quaternions */
static double attitude_reference(const double *x, const double *target, const int *index)
{
    double t[4], q[4], length = 0;

    for (int i = 0; i < 4; i++)
        length += target[index[i]] * target[index[i]];
    for (int i = 0; i < 4; i++) {
        t[i] = target[index[i]] / sqrt(length);
        q[i] = x[index[i]];
    }
    double vx = t[3] * q[0] - t[0] * q[3] - t[1] * q[2] + t[2] * q[1];
    double vy = t[3] * q[1] - t[1] * q[3] - t[2] * q[0] + t[0] * q[2];
    double vz = t[3] * q[2] - t[2] * q[3] - t[0] * q[1] + t[1] * q[0];
    return 4 * (vx * vx + vy * vy + vz * vz);
}

/* where the body's x axis points to, seen from above */
static double heading(const double *x, const int *index)
{
    const double a = x[index[0]], b = x[index[1]], c = x[index[2]], w = x[index[3]];
    const double length = a * a + b * b + c * c + w * w;

    return atan2(2 * (w * c + a * b) / length, 1 - 2 * (b * b + c * c) / length);
}

static double term_reference(const hb_cost_term *t, const setting *s, const trajectory *of, int k)
{
    const double *x = of->x[k], *u = k < NH ? of->u[k] : NULL,
                 *target = s->target + (s->goal.ntargets > 1 ? k * NX : 0);
    double sum = 0;

    if (t->kind == HB_COST_TILT)
        return tilt_reference(x, t->index);
    if (t->kind == HB_COST_ATTITUDE)
        return attitude_reference(x, target, t->index);
    if (t->kind == HB_COST_YAW)
        return pow(2 * sin((heading(x, t->index) - heading(target, t->index)) / 2), 2);
    for (int i = 0; i < t->nindices; i++) {
        int at = t->index[i];
        double d = 0;
        switch (t->kind) {
        case HB_COST_DISTANCE:
        case HB_COST_SQUARED:
        case HB_COST_HUBER:
            d = x[at] - target[at];
            break;
        case HB_COST_VELOCITY:
            d = x[at];
            break;
        case HB_COST_BOUND:
            d = fmax(0, x[at] - t->max) - fmax(0, t->min - x[at]);
            break;
        case HB_COST_IMBALANCE:
            d = u && i % 2 == 0 ? u[at] - u[t->index[i + 1]] : 0;
            break;
        case HB_COST_SLEW:
            d = u ? u[at] - (k ? of->u[k - 1][at] : s->last[at]) : 0;
            break;
        case HB_COST_EFFORT:
            d = u ? u[at] - s->trim[at] : 0;
            break;
        default:
            fail_msg("there is no reference for kind %s", hb_cost_kind_name[t->kind]);
        }
        sum += d * d;
    }
    if (t->kind == HB_COST_HUBER)
        return 2 * t->radius * (sqrt(t->radius * t->radius + sum) - t->radius);
    return t->kind == HB_COST_DISTANCE ? sqrt(sum) : sum;
}

static double reference(const setting *s, const trajectory *of)
{
    double total = 0;

    for (int i = 0; i < s->cost.nterms; i++) {
        const hb_cost_term *t = &s->cost.term[i];
        bool control = hb_cost_kind_table[t->kind].over == HB_COST_OVER_CONTROLS;
        double sum = 0;
        for (int k = 0; k <= NH; k++)
            sum += (k == NH && !control ? t->terminal : 1) * term_reference(t, s, of, k);
        total += t->weight * sum / (control ? NH : NH + 1);
    }
    return total;
}

static const hb_cost_term every_kind[] = {
    {.kind = HB_COST_DISTANCE, .weight = 3, .terminal = 10, .nindices = 3, .index = {0, 2, 4}},
    {.kind = HB_COST_SQUARED, .weight = 0.7, .terminal = 2, .nindices = 2, .index = {11, 4}},
    {.kind = HB_COST_VELOCITY, .weight = 1, .terminal = 10, .nindices = 3, .index = {1, 3, 5}},
    {.kind = HB_COST_TILT, .weight = 5, .terminal = 10, .nindices = 4, .index = {6, 7, 8, 9}},
    {.kind = HB_COST_TILT, .weight = 2, .terminal = 1, .nindices = 4, .index = {9, 6, 7, 8}},
    {.kind = HB_COST_ATTITUDE, .weight = 1.5, .terminal = 3, .nindices = 4, .index = {6, 7, 8, 9}},
    {.kind = HB_COST_YAW, .weight = 2.5, .terminal = 2, .nindices = 4, .index = {6, 7, 8, 9}},
    {.kind = HB_COST_IMBALANCE, .weight = 20, .terminal = 1, .nindices = 4, .index = {0, 2, 1, 3}},
    {.kind = HB_COST_SLEW, .weight = 4, .terminal = 1, .nindices = 2, .index = {3, 0}},
    {.kind = HB_COST_EFFORT, .weight = 3, .terminal = 1, .nindices = 4, .index = {0, 1, 2, 3}},
    {.kind = HB_COST_BOUND, .weight = 9, .terminal = 3, .nindices = 3, .index = {0, 10, 12}, .min = -0.3, .max = 0.2},
    {.kind = HB_COST_HUBER, .weight = 1.3, .terminal = 4, .nindices = 2, .index = {0, 2}, .radius = 0.4},
};
enum { KINDS = sizeof every_kind / sizeof *every_kind };

static void test_every_kind_is_tested(void **state)
{
    (void)state;
    for (int kind = 0; kind < HB_COST_NKINDS; kind++) {
        int found = 0;
        for (int i = 0; i < KINDS; i++)
            found += (int)every_kind[i].kind == kind;
        if (!found)
            fail_msg("kind %s has no term in every_kind", hb_cost_kind_name[kind]);
    }
}

static double draw(int stream, int index)
{
    return hb_random_normal((hb_random_key){7, (uint64_t)stream}, (uint64_t)index);
}

/* one term alone, or with term < 0 all of them */
static void make_setting(setting *s, int term, int ntargets)
{
    memset(s, 0, sizeof *s);
    s->cost.nterms = term < 0 ? KINDS : 1;
    for (int i = 0; i < s->cost.nterms; i++)
        s->cost.term[i] = every_kind[term < 0 ? i : term];
    for (int i = 0; i < (NH + 1) * NX; i++)
        s->target[i] = draw(1, i);
    for (int i = 0; i < NU; i++) {
        s->last[i] = draw(2, i);
        s->trim[i] = draw(3, i);
    }
    s->goal = (hb_goal){.target = s->target, .ntargets = ntargets, .last_control = s->last, .trim = s->trim};
}

/* random trajectories: states and controls that a float holds exactly, so that both builds see the same input */
static void make_trajectory(trajectory *t, int sample)
{
    for (int k = 0; k <= NH; k++)
        for (int i = 0; i < NX; i++)
            t->x[k][i] = (float)draw(10 + sample, k * NX + i);
    for (int k = 0; k < NH; k++)
        for (int i = 0; i < NU; i++)
            t->u[k][i] = (float)draw(10 + sample, 1000 + k * NU + i);
}

typedef struct lanes {
    hb_real x[NH + 1][NX * HB_STRIDE], u[NH][NU * HB_STRIDE];
    hb_real dx[NH + 1][NX * HB_STRIDE], du[NH][NU * HB_STRIDE], cost[HB_STRIDE];
} lanes;

static void fill_lane(lanes *l, const trajectory *t, int s)
{
    for (int k = 0; k <= NH; k++)
        for (int i = 0; i < NX; i++)
            l->x[k][i * HB_STRIDE + s] = (hb_real)t->x[k][i];
    for (int k = 0; k < NH; k++)
        for (int i = 0; i < NU; i++)
            l->u[k][i * HB_STRIDE + s] = (hb_real)t->u[k][i];
}

static void evaluate(lanes *l, const setting *s)
{
    for (int k = 0; k <= NH; k++) {
        const hb_real *u = k < NH ? l->u[k] : NULL, *before = u && k ? l->u[k - 1] : NULL;
        const hb_stage at = {.k = k, .nh = NH, .n = N, .x = l->x[k], .u = u, .u_before = before};
        const hb_stage_gradient to = {
            .dx = l->dx[k], .du = u ? l->du[k] : NULL, .du_before = before ? l->du[k - 1] : NULL};
        hb_cost_stage(&s->cost, &s->goal, NX, &at, l->cost);
        hb_cost_stage_gradient(&s->cost, &s->goal, NX, &at, &to);
    }
}

static double central_difference(const setting *s, trajectory *t, double *at)
{
    double middle = *at, h = 1e-5;

    *at = middle + h;
    double above = reference(s, t);
    *at = middle - h;
    double below = reference(s, t);
    *at = middle;
    return (above - below) / (2 * h);
}

static void compare_with_reference(const setting *s)
{
    static lanes l;
    memset(&l, 0, sizeof l);
    trajectory t;

    for (int sample = 0; sample < N; sample++) {
        make_trajectory(&t, sample);
        fill_lane(&l, &t, sample);
    }
    evaluate(&l, s);
    for (int sample = 0; sample < N; sample++) {
        make_trajectory(&t, sample);
        double cost = reference(s, &t);
        assert_near(l.cost[sample], cost, tolerance * (1 + fabs(cost)));
        for (int k = 0; k <= NH; k++)
            for (int i = 0; i < NX; i++) {
                double d = central_difference(s, &t, &t.x[k][i]);
                assert_near(l.dx[k][i * HB_STRIDE + sample], d, gradient_tolerance * (1 + fabs(d)));
            }
        for (int k = 0; k < NH; k++)
            for (int i = 0; i < NU; i++) {
                double d = central_difference(s, &t, &t.u[k][i]);
                assert_near(l.du[k][i * HB_STRIDE + sample], d, gradient_tolerance * (1 + fabs(d)));
            }
    }
}

static void test_each_term_matches_its_formula(void **state)
{
    (void)state;
    setting s;

    for (int term = 0; term < KINDS; term++) {
        make_setting(&s, term, 1);
        compare_with_reference(&s);
    }
}

static void test_all_terms_add_up(void **state)
{
    (void)state;
    setting s;

    make_setting(&s, -1, 1);
    compare_with_reference(&s);
}

static void test_reference_trajectory_gives_each_stage_its_target(void **state)
{
    (void)state;
    setting s;

    make_setting(&s, -1, NH + 1);
    compare_with_reference(&s);
}

/* Each term by itself against its formula, and the limits against their stages; together they are the cost. */
static void test_cost_by_term_is_that_of_each(void **state)
{
    (void)state;
    static hb_real scratch[(NX + 2 * NU) * HB_STRIDE];
    double term[KINDS + 1];
    setting all, one;
    trajectory t;

    for (int ntargets = 1; ntargets <= NH + 1; ntargets += NH) {
        make_setting(&all, -1, ntargets);
        all.cost.limits =
            (hb_limits){.n = 1,
                        .weight = 50,
                        .limit = {{.kind = HB_LIMIT_BOX, .nindices = 1, .index = {2}, .low = {-0.1}, .high = {0.1}}}};
        make_trajectory(&t, 0);
        hb_cost_by_term(&all.cost, &all.goal, NX, NU, NH, &t.x[0][0], &t.u[0][0], scratch, term);
        for (int i = 0; i < KINDS; i++) {
            make_setting(&one, i, ntargets);
            double expected = reference(&one, &t);
            if (!(fabs(term[i] - expected) <= 10 * tolerance * (1 + fabs(expected))))
                fail_msg("term %d (%s): %.9g, expected %.9g", i, hb_cost_kind_name[every_kind[i].kind], term[i],
                         expected);
        }
        double excess = 0;
        for (int k = 1; k <= NH; k++)
            excess += pow(fmax(fabs(t.x[k][2]) - 0.1, 0), 2);
        assert_true(excess > 0 && term[KINDS] > 0);
        /* the weight of a stage is the same for all: the ratio of two trajectories is that of their excesses */
        double before = term[KINDS], was = excess;
        t.x[1][2] += 1;
        excess = 0;
        for (int k = 1; k <= NH; k++)
            excess += pow(fmax(fabs(t.x[k][2]) - 0.1, 0), 2);
        hb_cost_by_term(&all.cost, &all.goal, NX, NU, NH, &t.x[0][0], &t.u[0][0], scratch, term);
        assert_true(fabs(term[KINDS] / before - excess / was) < 1e-5 * excess / was);
    }
}

static void test_gradient_is_finite_where_the_formula_is_not(void **state)
{
    (void)state;
    static lanes l;
    memset(&l, 0, sizeof l);
    setting s;
    trajectory t;

    /* on the target itself, at +-90 degrees of pitch, upside down, and with a vanished quaternion */
    static const double quaternion[][4] = {
        {0, 0, 0, 1}, {0, 0.70710678118654752, 0, 0.70710678118654752}, {0, -1, 0, 1}, {1, 0, 0, 0}, {0, 0, 0, 0}};
    make_setting(&s, -1, 1);
    for (int sample = 0; sample < 5; sample++) {
        make_trajectory(&t, sample);
        for (int k = 0; k <= NH; k++) {
            for (int i = 0; i < NX; i++)
                t.x[k][i] = s.target[i];
            memcpy(t.x[k] + 6, quaternion[sample], sizeof quaternion[sample]);
        }
        fill_lane(&l, &t, sample);
    }
    evaluate(&l, &s);
    for (int sample = 0; sample < 5; sample++) {
        assert_true(isfinite(l.cost[sample]));
        for (int k = 0; k <= NH; k++)
            for (int i = 0; i < NX; i++)
                assert_true(isfinite(l.dx[k][i * HB_STRIDE + sample]));
    }
    /* at pitch 90 degrees the tilt is (pi/2)^2 whatever the roll */
    make_setting(&s, 3, 1);
    memset(l.cost, 0, sizeof l.cost);
    for (int k = 0; k <= NH; k++)
        hb_cost_stage(&s.cost, &s.goal, NX, &(hb_stage){.k = k, .nh = NH, .n = 5, .x = l.x[k]}, l.cost);
    assert_true(l.cost[1] >= (hb_real)(5 * (NH + 10) / (NH + 1.) * (M_PI * M_PI / 4 - 1e-4)));
}

/* the quadratic model of one stage, all of it */
typedef struct quadratic {
    double cost, lx[NX], q[NX * NX], lu[NU], lu_before[NU], r[NU * NU], slew[NU];
} quadratic;

static quadratic model_of(const setting *s, const trajectory *t, int k)
{
    quadratic m = {0};
    hb_stage_model to = {.lx = m.lx, .q = m.q, .lu = m.lu, .lu_before = m.lu_before, .r = m.r, .slew = m.slew};

    hb_cost_stage_model(&s->cost, &s->goal, NX, NU, NH, k, t->x[k], k < NH ? t->u[k] : NULL,
                        k > 0 && k < NH ? t->u[k - 1] : NULL, &to);
    m.cost = to.cost;
    return m;
}

static void test_model_has_the_gradient_of_the_cost(void **state)
{
    (void)state;
    setting s;
    trajectory t;

    make_setting(&s, -1, NH + 1);
    for (int sample = 0; sample < N; sample++) {
        make_trajectory(&t, sample);
        double du[NH][NU] = {{0}}, total = 0;
        for (int k = 0; k <= NH; k++) {
            quadratic m = model_of(&s, &t, k);
            total += m.cost;
            for (int i = 0; i < NX; i++) {
                double d = central_difference(&s, &t, &t.x[k][i]);
                assert_near(m.lx[i], d, gradient_tolerance * (1 + fabs(d)));
            }
            for (int i = 0; k < NH && i < NU; i++) {
                du[k][i] += m.lu[i];
                if (k > 0)
                    du[k - 1][i] += m.lu_before[i];
            }
        }
        assert_near(total, reference(&s, &t), 1e-5 * (1 + fabs(total)));
        for (int k = 0; k < NH; k++)
            for (int i = 0; i < NU; i++) {
                double d = central_difference(&s, &t, &t.u[k][i]);
                assert_near(du[k][i], d, gradient_tolerance * (1 + fabs(d)));
            }
    }
}

/* second derivative of the reference by two numbers of a trajectory */
static double second_difference(const setting *s, trajectory *t, double *a, double *b)
{
    double h = 1e-3, d[2][2], at_a = *a, at_b = *b;

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            *a += i ? h : -h;
            *b += j ? h : -h;
            d[i][j] = reference(s, t);
            *a = at_a;
            *b = at_b;
        }
    return (d[1][1] - d[1][0] - d[0][1] + d[0][0]) / (4 * h * h);
}

/* all terms but distance, huber, tilt and yaw are quadratic: there the model's curvature is the Hessian */
static void test_model_of_quadratic_terms_is_exact(void **state)
{
    (void)state;
    static const int quadratics[] = {1, 2, 5, 7, 8, 9, 10};
    setting s;
    trajectory t;

    for (size_t term = 0; term < sizeof quadratics / sizeof *quadratics; term++) {
        make_setting(&s, quadratics[term], 1);
        make_trajectory(&t, 0);
        for (int k = 0; k <= NH; k++) {
            quadratic m = model_of(&s, &t, k), after;
            memset(&after, 0, sizeof after);
            if (k + 1 < NH)
                after = model_of(&s, &t, k + 1);
            for (int a = 0; a < NX; a++)
                for (int b = 0; b < NX; b++)
                    assert_near(m.q[a * NX + b], second_difference(&s, &t, &t.x[k][a], &t.x[k][b]), 1e-5);
            for (int a = 0; k < NH && a < NU; a++)
                for (int b = 0; b < NU; b++) {
                    double slew = a == b ? m.slew[a] + after.slew[a] : 0;
                    assert_near(m.r[a * NU + b] + slew, second_difference(&s, &t, &t.u[k][a], &t.u[k][b]), 1e-5);
                    if (k > 0)
                        assert_near(a == b ? -m.slew[a] : 0, second_difference(&s, &t, &t.u[k][a], &t.u[k - 1][b]),
                                    1e-5);
                }
        }
    }
}

/* what a step of the planner counts on: the model of a distance, and of huber, lies above it everywhere */
static void test_model_of_distance_bounds_it_from_above(void **state)
{
    (void)state;
    setting s;
    trajectory t, moved;

    for (int trial = 0; trial < 400; trial++) {
        make_setting(&s, trial % 2 ? 0 : KINDS - 1, 1);
        make_trajectory(&t, trial);
        moved = t;
        quadratic m = model_of(&s, &t, NH);
        double model = reference(&s, &t);
        for (int i = 0; i < NX; i++)
            moved.x[NH][i] += draw(5000 + trial, i);
        for (int i = 0; i < NX; i++) {
            double d = moved.x[NH][i] - t.x[NH][i];
            model += m.lx[i] * d;
            for (int j = 0; j < NX; j++)
                model += 0.5 * m.q[i * NX + j] * d * (moved.x[NH][j] - t.x[NH][j]);
        }
        assert_true(reference(&s, &moved) <= model + 1e-9);
    }
    make_setting(&s, 0, 1);
    /* at the target it is a bowl whose bottom is there */
    make_trajectory(&t, 0);
    memcpy(t.x[NH], s.target, sizeof t.x[NH]);
    quadratic m = model_of(&s, &t, NH);
    for (int i = 0; i < NX; i++)
        assert_near(m.lx[i], 0, 0);
    assert_true(m.q[0] > 100 && isfinite(m.q[0]));
}

static void test_model_of_tilt_is_exact_when_level(void **state)
{
    (void)state;
    setting s;
    trajectory t;

    make_setting(&s, 3, 1);
    make_trajectory(&t, 0);
    memcpy(t.x[1] + 6, (double[]){0, 0, 0.6, 0.8}, 4 * sizeof(double));
    quadratic m = model_of(&s, &t, 1);
    for (int a = 6; a < 10; a++)
        for (int b = 6; b < 10; b++)
            assert_near(m.q[a * NX + b], second_difference(&s, &t, &t.x[1][a], &t.x[1][b]), 1e-3);
}

static void test_check_names_what_is_wrong(void **state)
{
    (void)state;
    hb_error err;
    setting s;

    make_setting(&s, -1, 1);
    assert_int_equal(hb_cost_check(&s.cost, NX, NU, &err), 0);

    static const struct {
        hb_cost_term term;
        const char *says;
    } wrong[] = {
        {{.kind = HB_COST_DISTANCE, .weight = 1, .terminal = 1, .nindices = 1, .index = {NX}}, "index 13"},
        {{.kind = HB_COST_SLEW, .weight = 1, .terminal = 1, .nindices = 1, .index = {NU}}, "controls 0 to 3"},
        {{.kind = HB_COST_DISTANCE, .weight = 1, .terminal = 1, .nindices = 1, .index = {-1}}, "index -1"},
        {{.kind = HB_COST_TILT, .weight = 1, .terminal = 1, .nindices = 3, .index = {6, 7, 8}}, "expected 4"},
        {{.kind = HB_COST_YAW, .weight = 1, .terminal = 1, .nindices = 3, .index = {6, 7, 8}}, "expected 4"},
        {{.kind = HB_COST_IMBALANCE, .weight = 1, .terminal = 1, .nindices = 3, .index = {0, 1, 2}}, "pairs"},
        {{.kind = HB_COST_HUBER, .weight = 1, .terminal = 1, .nindices = 1}, "radius"},
        {{.kind = HB_COST_SQUARED, .weight = NAN, .terminal = 1, .nindices = 1}, "weight"},
        {{.kind = HB_COST_SQUARED, .weight = 1, .terminal = -1, .nindices = 1}, "terminal"},
        {{.kind = HB_COST_SQUARED, .weight = 1, .terminal = 1, .nindices = 0}, "0 indices"},
        {{.kind = HB_COST_BOUND, .weight = 1, .terminal = 1, .nindices = 1, .min = 2, .max = 1}, "min <= max"},
        {{.kind = HB_COST_NKINDS, .weight = 1, .terminal = 1, .nindices = 1}, "kind"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hb_cost c = {.nterms = 2, .term = {every_kind[0], wrong[i].term}};
        assert_int_equal(hb_cost_check(&c, NX, NU, &err), -EINVAL);
        assert_non_null(strstr(err.text, "term 1"));
        if (!strstr(err.text, wrong[i].says))
            fail_msg("'%s' does not say '%s'", err.text, wrong[i].says);
    }
    assert_int_equal(hb_cost_check(&(hb_cost){.nterms = HB_COST_TERMS + 1}, NX, NU, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_is_tested),
        cmocka_unit_test(test_each_term_matches_its_formula),
        cmocka_unit_test(test_all_terms_add_up),
        cmocka_unit_test(test_reference_trajectory_gives_each_stage_its_target),
        cmocka_unit_test(test_cost_by_term_is_that_of_each),
        cmocka_unit_test(test_gradient_is_finite_where_the_formula_is_not),
        cmocka_unit_test(test_model_has_the_gradient_of_the_cost),
        cmocka_unit_test(test_model_of_quadratic_terms_is_exact),
        cmocka_unit_test(test_model_of_distance_bounds_it_from_above),
        cmocka_unit_test(test_model_of_tilt_is_exact_when_level),
        cmocka_unit_test(test_check_names_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
