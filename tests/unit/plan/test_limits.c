/* Limits: penalties against formulas written for one state at a time, gradients against differences of these, and
 * targets that are moved. */
#include <errno.h>
#include <string.h>

#include "base/numeric.h"
#include "check.h"
#include "plan/cost.h"

enum { NX = 13, NU = 4, NH = 6, N = 40 };

#ifdef HB_DOUBLE
static const double close_enough = 1e-9, gradient_close_enough = 1e-5;
#else
static const double close_enough = 2e-4, gradient_close_enough = 2e-3;
#endif

static const hb_limit every_kind[] = {
    {.kind = HB_LIMIT_BOX, .nindices = 3, .index = {0, 2, 4}, .low = {-1, -0.5, 0}, .high = {1, 0.5, 0.8}},
    {.kind = HB_LIMIT_HALF_SPACE, .nindices = 2, .index = {0, 4}, .vector = {3, -4}, .max = 0.7},
    {.kind = HB_LIMIT_KEEP_OUT_CYLINDER, .nindices = 2, .index = {0, 2}, .vector = {0.2, 0.1}, .radius = 1.3},
    {.kind = HB_LIMIT_KEEP_OUT_CYLINDER,
     .nindices = 3,
     .index = {0, 2, 4},
     .vector = {0.2, 0.1},
     .radius = 1.3,
     .low = {-0.6},
     .high = {0.9}},
    {.kind = HB_LIMIT_KEEP_OUT_BOX, .nindices = 3, .index = {0, 2, 4}, .low = {-1, -1.5, -1}, .high = {1, 0.5, 2}},
    {.kind = HB_LIMIT_SPEED, .nindices = 3, .index = {1, 3, 5}, .max = 1.2},
    {.kind = HB_LIMIT_TILT, .nindices = 4, .index = {6, 7, 8, 9}, .max = 0.6},
    {.kind = HB_LIMIT_BODY_RATES, .nindices = 3, .index = {10, 11, 12}, .max = 0.9},
    {.kind = HB_LIMIT_CONTROL_RATES, .nindices = 3, .index = {0, 1, 3}, .max = 12},
};
enum { KINDS = sizeof every_kind / sizeof *every_kind };

typedef struct trajectory {
    double x[NH + 1][NX], u[NH][NU];
} trajectory;

static const double last[NU] = {0.1, -0.2, 0.3, 0};
static const double step = 0.05, weight = 70;

static double draw(int stream, int index)
{
    return hb_random_normal((hb_random_key){31, (uint64_t)stream}, (uint64_t)index);
}

static void make_trajectory(trajectory *t, int sample)
{
    for (int k = 0; k <= NH; k++)
        for (int i = 0; i < NX; i++)
            t->x[k][i] = (float)draw(sample, k * NX + i);
    for (int k = 0; k < NH; k++)
        for (int i = 0; i < NU; i++)
            t->u[k][i] = (float)draw(sample, 1000 + k * NU + i);
}

/* by how much one state breaks one limit */
static double excess(const hb_limit *l, const double *x)
{
    const double px = x[0], py = x[2], pz = x[4];
    double e = 0, radial;

    switch (l->kind) {
    case HB_LIMIT_BOX:
        return hypot(hypot(fmax(fmax(px - 1, -1 - px), 0), fmax(fmax(py - 0.5, -0.5 - py), 0)),
                     fmax(fmax(pz - 0.8, -pz), 0));
    case HB_LIMIT_HALF_SPACE:
        return fmax(0, (3 * px - 4 * pz - 0.7) / 5);
    case HB_LIMIT_KEEP_OUT_CYLINDER:
        radial = 1.3 - hypot(px - 0.2, py - 0.1);
        e = l->nindices == 2 ? radial : fmin(radial, fmin(pz + 0.6, 0.9 - pz));
        return fmax(0, e);
    case HB_LIMIT_KEEP_OUT_BOX:
        e = fmin(fmin(px + 1, 1 - px), fmin(fmin(py + 1.5, 0.5 - py), fmin(pz + 1, 2 - pz)));
        return fmax(0, e);
    case HB_LIMIT_SPEED:
        return fmax(0, sqrt(x[1] * x[1] + x[3] * x[3] + x[5] * x[5]) / 1.2 - 1);
    case HB_LIMIT_BODY_RATES:
        return fmax(0, sqrt(x[10] * x[10] + x[11] * x[11] + x[12] * x[12]) / 0.9 - 1);
    case HB_LIMIT_TILT: {
        /* by the rotation matrix: its element zz is the cosine of the angle from upright */
        double length2 = x[6] * x[6] + x[7] * x[7] + x[8] * x[8] + x[9] * x[9];
        double zz = 1 - 2 * (x[6] * x[6] + x[7] * x[7]) / length2;
        return fmax(0, (cos(0.6) - zz) / (1 - cos(0.6)));
    }
    default:
        return 0;
    }
}

static double reference(const hb_limits *l, const trajectory *t)
{
    double total = 0;

    for (int i = 0; i < l->n; i++) {
        /* the first state is given, and costs nothing */
        for (int k = 1; k <= NH; k++)
            total += weight * pow(excess(&l->limit[i], t->x[k]), 2) / (NH + 1);
        for (int k = 0; l->limit[i].kind == HB_LIMIT_CONTROL_RATES && k < NH; k++)
            for (int j = 0; j < NU; j++) {
                double rate = fabs(t->u[k][j] - (k ? t->u[k - 1][j] : last[j])) / step;
                if (j != 2)
                    total += weight * pow(fmax(0, rate / 12 - 1), 2) / NH;
            }
    }
    return total;
}

static double difference(const hb_limits *l, trajectory *t, double *at)
{
    double middle = *at, h = 1e-6;

    *at = middle + h;
    double above = reference(l, t);
    *at = middle - h;
    double below = reference(l, t);
    *at = middle;
    return (above - below) / (2 * h);
}

/* one limit alone, or with kind < 0 all of them */
static hb_cost make_cost(int kind)
{
    hb_cost c = {.limits = {.n = kind < 0 ? KINDS : 1, .weight = weight, .step = step}};

    for (int i = 0; i < c.limits.n; i++)
        c.limits.limit[i] = every_kind[kind < 0 ? i : kind];
    return c;
}

typedef struct lanes {
    hb_real x[NH + 1][NX * HB_STRIDE], u[NH][NU * HB_STRIDE];
    hb_real dx[NH + 1][NX * HB_STRIDE], du[NH][NU * HB_STRIDE], cost[HB_STRIDE];
} lanes;

static const hb_goal goal = {.last_control = last};

static void evaluate(lanes *l, const hb_cost *c)
{
    memset(l, 0, sizeof *l);
    for (int s = 0; s < N; s++) {
        trajectory t;
        make_trajectory(&t, s);
        for (int k = 0; k <= NH; k++)
            for (int i = 0; i < NX; i++)
                l->x[k][i * HB_STRIDE + s] = (hb_real)t.x[k][i];
        for (int k = 0; k < NH; k++)
            for (int i = 0; i < NU; i++)
                l->u[k][i * HB_STRIDE + s] = (hb_real)t.u[k][i];
    }
    for (int k = 0; k <= NH; k++) {
        const hb_real *u = k < NH ? l->u[k] : NULL, *before = u && k ? l->u[k - 1] : NULL;
        const hb_stage at = {.k = k, .nh = NH, .n = N, .x = l->x[k], .u = u, .u_before = before};
        const hb_stage_gradient to = {
            .dx = l->dx[k], .du = u ? l->du[k] : NULL, .du_before = before ? l->du[k - 1] : NULL};
        hb_cost_stage(c, &goal, NX, &at, l->cost);
        hb_cost_stage_gradient(c, &goal, NX, &at, &to);
    }
}

static void test_penalties_and_gradients_are_those_of_the_formulas(void **state)
{
    (void)state;
    static lanes l;

    for (int kind = -1; kind < KINDS; kind++) {
        hb_cost c = make_cost(kind);
        int broken = 0;
        evaluate(&l, &c);
        for (int s = 0; s < N; s++) {
            trajectory t;
            make_trajectory(&t, s);
            double cost = reference(&c.limits, &t);
            broken += cost > 0;
            assert_near(l.cost[s], cost, close_enough * (1 + cost));
            for (int k = 0; k <= NH; k++)
                for (int i = 0; i < NX; i++) {
                    double d = difference(&c.limits, &t, &t.x[k][i]);
                    assert_near(l.dx[k][i * HB_STRIDE + s], d, gradient_close_enough * (1 + fabs(d)));
                }
            for (int k = 0; k < NH; k++)
                for (int i = 0; i < NU; i++) {
                    double d = difference(&c.limits, &t, &t.u[k][i]);
                    assert_near(l.du[k][i * HB_STRIDE + s], d, gradient_close_enough * (1 + fabs(d)));
                }
        }
        /* random trajectories break every kind of limit */
        assert_true(broken > N / 4);
    }
}

/* the model of a stage: its gradient, and for one residual r the curvature 2 r'^T r' = gradient^T gradient / (2 cost)
 */
static void test_models_are_gauss_newton(void **state)
{
    (void)state;
    static lanes l;

    for (int kind = 0; kind < KINDS; kind++) {
        hb_cost c = make_cost(kind);
        evaluate(&l, &c);
        for (int s = 0; s < N; s++) {
            trajectory t;
            double lx[NH + 1][NX] = {{0}}, q[NH + 1][NX * NX] = {{0}}, lu[NH][NU] = {{0}}, r[NH][NU * NU] = {{0}},
                           slew[NH][NU] = {{0}}, total = 0;
            make_trajectory(&t, s);
            for (int k = 0; k <= NH; k++) {
                bool last_one = k == NH;
                hb_stage_model to = {.lx = lx[k],
                                     .q = q[k],
                                     .lu = last_one ? NULL : lu[k],
                                     .lu_before = last_one || !k ? NULL : lu[k - 1],
                                     .r = last_one ? NULL : r[k],
                                     .slew = last_one ? NULL : slew[k]};
                hb_cost_stage_model(&c, &goal, NX, NU, NH, k, t.x[k], last_one ? NULL : t.u[k],
                                    last_one || !k ? NULL : t.u[k - 1], &to);
                total += to.cost;
            }
            assert_near(total, l.cost[s], 10 * close_enough * (1 + fabs(total)));
            for (int k = 0; k <= NH; k++) {
                double e = k ? excess(&c.limits.limit[0], t.x[k]) : 0, cost = weight * e * e / (NH + 1);
                for (int i = 0; i < NX; i++) {
                    assert_near(lx[k][i], l.dx[k][i * HB_STRIDE + s], 10 * close_enough * (1 + fabs(lx[k][i])));
                    for (int j = 0; j < NX; j++) {
                        double expected = cost > 1e-6 ? lx[k][i] * lx[k][j] / (2 * cost) : q[k][i * NX + j];
                        assert_near(q[k][i * NX + j], expected, gradient_close_enough * (1 + fabs(expected)) * 10);
                    }
                }
            }
            for (int k = 0; k < NH; k++)
                for (int i = 0; i < NU; i++) {
                    assert_near(lu[k][i], l.du[k][i * HB_STRIDE + s], 10 * close_enough * (1 + fabs(lu[k][i])));
                    double rate = fabs(t.u[k][i] - (k ? t.u[k - 1][i] : last[i])) / step;
                    bool over = c.limits.limit[0].kind == HB_LIMIT_CONTROL_RATES && i != 2 && rate > 12;
                    assert_near(slew[k][i], over ? 2 * weight / NH / pow(12 * step, 2) : 0, 1e-6);
                }
        }
    }
}

static void test_the_limit_that_is_broken_most_is_named(void **state)
{
    (void)state;
    hb_cost c = make_cost(-1);
    double x[NH + 1][NX] = {{0}}, u[NH][NU];

    for (int k = 0; k <= NH; k++) {
        x[k][9] = 1;
        x[k][0] = -0.99;
        x[k][2] = -0.49;
        x[k][4] = 0.5;
    }
    for (int k = 0; k < NH; k++)
        memcpy(u[k], last, sizeof last);
    c.limits.n = 1;
    assert_int_equal(hb_limits_broken(&c.limits, last, NX, NU, NH, x[0], u[0]), -1);
    x[0][0] = 5; /* the start cannot be helped */
    assert_int_equal(hb_limits_broken(&c.limits, last, NX, NU, NH, x[0], u[0]), -1);
    x[NH][0] = 1.0005; /* within the tolerance */
    assert_int_equal(hb_limits_broken(&c.limits, last, NX, NU, NH, x[0], u[0]), -1);
    x[NH][0] = 1.01;
    assert_int_equal(hb_limits_broken(&c.limits, last, NX, NU, NH, x[0], u[0]), 0);
    assert_string_equal(hb_limits_name(&c.limits, 0), "box");
    strcpy(c.limits.limit[0].name, "fence");
    assert_string_equal(hb_limits_name(&c.limits, 0), "fence");

    c.limits.limit[1] = every_kind[8];
    c.limits.n = 2;
    u[2][1] += 1; /* 20 a second where 12 are allowed */
    assert_int_equal(hb_limits_broken(&c.limits, last, NX, NU, NH, x[0], u[0]), 1);
}

static void test_targets_are_allowed_or_moved(void **state)
{
    (void)state;
    hb_limits l = {.n = 4};
    l.limit[0] = every_kind[0];
    l.limit[1] = every_kind[1];
    l.limit[2] = (hb_limit){
        .kind = HB_LIMIT_KEEP_OUT_CYLINDER, .nindices = 2, .index = {0, 2}, .vector = {0.6, 0.3}, .radius = 0.3};
    l.limit[3] = (hb_limit){
        .kind = HB_LIMIT_KEEP_OUT_BOX, .nindices = 2, .index = {0, 4}, .low = {-0.9, 0.2}, .high = {-0.4, 0.5}};
    int moved = 0;

    for (int trial = 0; trial < 500; trial++) {
        double target[NX], before[NX];
        for (int i = 0; i < NX; i++)
            before[i] = target[i] = draw(trial, 5000 + i);
        bool allowed = hb_limits_allow(&l, target);
        assert_true(hb_limits_clip(&l, target));
        assert_true(hb_limits_allow(&l, target));
        if (allowed)
            assert_memory_equal(target, before, sizeof target);
        moved += !allowed;
        for (int i = 0; i < NX; i++)
            if (i != 0 && i != 2 && i != 4)
                assert_true(target[i] == before[i]);
    }
    assert_true(moved > 300);

    /* two zones that leave nothing between them */
    l.n = 2;
    l.limit[1] = (hb_limit){.kind = HB_LIMIT_KEEP_OUT_BOX, .nindices = 1, .index = {0}, .low = {-2}, .high = {2}};
    assert_false(hb_limits_clip(&l, (double[NX]){0}));
}

static void test_nonsense_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        hb_limit limit;
    } wrong[] = {
        {"index 13", {.kind = HB_LIMIT_SPEED, .nindices = 1, .index = {13}, .max = 1}},
        {"controls 0 to 3", {.kind = HB_LIMIT_CONTROL_RATES, .nindices = 1, .index = {4}, .max = 1}},
        {"0 indices", {.kind = HB_LIMIT_SPEED, .max = 1}},
        {"min < max", {.kind = HB_LIMIT_BOX, .nindices = 1, .low = {1}, .high = {1}}},
        {"normal", {.kind = HB_LIMIT_HALF_SPACE, .nindices = 1, .max = 1}},
        {"radius", {.kind = HB_LIMIT_KEEP_OUT_CYLINDER, .nindices = 2, .index = {0, 2}}},
        {"expected 2", {.kind = HB_LIMIT_KEEP_OUT_CYLINDER, .nindices = 1, .radius = 1}},
        {"above 0", {.kind = HB_LIMIT_SPEED, .nindices = 1, .max = 0}},
        {"radians", {.kind = HB_LIMIT_TILT, .nindices = 4, .index = {6, 7, 8, 9}, .max = 45}},
        {"expected 4", {.kind = HB_LIMIT_TILT, .nindices = 3, .index = {6, 7, 8}, .max = 1}},
        {"none of the", {.kind = HB_LIMIT_NKINDS, .nindices = 1, .max = 1}},
    };
    hb_error err;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hb_limits l = {.n = 1, .limit = {wrong[i].limit}};
        assert_int_equal(hb_limits_check(&l, NX, NU, &err), -EINVAL);
        assert_non_null(strstr(err.text, "limits.rules: "));
        if (!strstr(err.text, wrong[i].says))
            fail_msg("'%s' does not say '%s'", err.text, wrong[i].says);
    }
    hb_cost all = make_cost(-1);
    assert_int_equal(hb_cost_check(&all, NX, NU, &err), 0);
    assert_int_equal(hb_limits_check(&hb_limits_defaults, NX, NU, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_penalties_and_gradients_are_those_of_the_formulas),
        cmocka_unit_test(test_models_are_gauss_newton),
        cmocka_unit_test(test_the_limit_that_is_broken_most_is_named),
        cmocka_unit_test(test_targets_are_allowed_or_moved),
        cmocka_unit_test(test_nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
