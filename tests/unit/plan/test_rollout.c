/* Whole trajectories: costs and gradients against PyTorch's (golden files) and, in the double build, against finite
 * differences through RK4 and cost for every kind of model. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "golden.h"
#include "models.h"
#include "base/numeric.h"
#include "plan/rollout.h"

#ifdef HB_DOUBLE
static const double golden_tolerance = 1e-9;
#else
static const double golden_tolerance = 3e-5;
#endif

/* the paper's hover cost */
static const hb_cost hover = {
    .nterms = 4,
    .term = {{.kind = HB_COST_DISTANCE, .weight = 3, .terminal = 10, .nindices = 3, .index = {0, 2, 4}},
             {.kind = HB_COST_TILT, .weight = 5, .terminal = 10, .nindices = 4, .index = {6, 7, 8, 9}},
             {.kind = HB_COST_VELOCITY, .weight = 1, .terminal = 10, .nindices = 3, .index = {1, 3, 5}},
             {.kind = HB_COST_IMBALANCE, .weight = 2000, .terminal = 1, .nindices = 4, .index = {0, 2, 1, 3}}},
};

/* as variant_model, with a quaternion that is known as one where there are so many states */
static hb_model *test_model(int v)
{
    static const char *const name[4] = {"qx", "qy", "qz", "qw"};
    hb_model *m = variant_model(v);

    for (int i = 0; m->nx == 13 && i < 4; i++)
        strcpy(m->state_name[6 + i], name[i]);
    return m;
}

/* model, predictor and memory for a rollout of n sequences */
typedef struct bench {
    const hb_model *m;
    hb_predictor *p;
    hb_rollout *r;
    int nh, n;
    hb_real *u, *du, *cost;
    double target[16], control[8], lag[8], actuator[8], *x0;
    hb_goal goal;
} bench;

static bench bench_new(const hb_model *m, const hb_real *coefficient, int nh, int n)
{
    bench b = {.m = m, .nh = nh, .n = n};
    hb_error err;

    if (hb_predictor_new(&b.p, m, &err) || hb_rollout_new(&b.r, m, nh, &err))
        fail_msg("%s", err.text);
    hb_predictor_set(b.p, coefficient);
    b.u = new_rows(nh * m->nu);
    b.du = new_rows(nh * m->nu);
    b.cost = new_rows(1);
    b.x0 = calloc((size_t)m->nx, sizeof(double));
    return b;
}

static void bench_free(bench *b)
{
    hb_predictor_free(b->p);
    hb_rollout_free(b->r);
    free(b->u);
    free(b->du);
    free(b->cost);
    free(b->x0);
}

/* fills in the goal where the struct lies */
static void set_goal(bench *b)
{
    b->goal = (hb_goal){.target = b->target, .ntargets = 1, .last_control = b->control, .trim = b->control};
}

static hb_plan_problem problem(const bench *b, const hb_cost *c, int nh)
{
    return (hb_plan_problem){.model = b->p, .cost = c, .goal = &b->goal, .x0 = b->x0, .nh = nh, .dt = b->m->dt};
}

static void evaluate(bench *b, const hb_cost *c, bool gradient)
{
    const hb_plan_problem of = problem(b, c, b->nh);

    assert_true(hb_rollout_cost(b->r, &of, b->n, b->u, gradient, b->cost, NULL));
    if (gradient)
        assert_true(hb_rollout_gradient(b->r, &of, b->u, b->du, NULL));
}

static void test_golden_costs_gradients_and_trajectories(void **state)
{
    (void)state;
    int with_cost = 0;

    for (int i = 0; golden_names[i]; i++) {
        golden *g = golden_open(golden_names[i]);
        const hb_model *m = g->model;
        const double *z0 = golden_get(g, "in.z0"), *actions = golden_get(g, "in.actions");
        const double *coefficient = golden_get(g, "out.coefficients"), *trajectory = golden_get(g, "out.trajectory");
        int ns = golden_size(g, "in.actions", 0), nh = golden_size(g, "in.actions", 1), nx = m->nx, nu = m->nu;
        hb_real *c = calloc((size_t)hb_model_ncoefficients(m), sizeof *c);
        for (int j = 0; j < hb_model_ncoefficients(m); j++)
            c[j] = (hb_real)coefficient[j];

        bench b = bench_new(m, c, nh, ns);
        set_goal(&b);
        for (int j = 0; j < nx; j++)
            b.x0[j] = z0[j] * m->state_std[j] + m->state_mean[j];
        b.target[4] = 1;
        for (int s = 0; s < ns; s++)
            for (int j = 0; j < nh * nu; j++)
                b.u[j * HB_STRIDE + s] = (hb_real)actions[s * nh * nu + j];
        bool has_cost = nx == 13 && nu == 4;
        with_cost += has_cost;
        evaluate(&b, has_cost ? &hover : &(hb_cost){0}, true);

        const hb_real *x = hb_rollout_states(b.r);
        for (int s = 0; s < ns; s++)
            for (int k = 0; k <= nh; k++)
                for (int j = 0; j < nx; j++) {
                    double expected = trajectory[(s * (nh + 1) + k) * nx + j] * m->state_std[j] + m->state_mean[j];
                    check_close(x[(k * nx + j) * HB_STRIDE + s], expected, fmax(1, fabs(expected)), golden_tolerance,
                                "%s: state %d at %d", g->name, j, k);
                }
        for (int s = 0; has_cost && s < ns; s++) {
            const double expected = golden_get(g, "out.cost")[s];
            const double *gradient = golden_get(g, "out.cost_gradient") + s * nh * nu;
            check_close(b.cost[s], expected, expected, golden_tolerance, "%s: cost of %d", g->name, s);
            for (int j = 0; j < nh * nu; j++)
                check_close(b.du[j * HB_STRIDE + s], gradient[j], fmax(1, fabs(gradient[j])), 10 * golden_tolerance,
                            "%s: gradient %d of %d", g->name, j, s);
        }
        bench_free(&b);
        free(c);
        golden_close(g);
    }
    assert_int_equal(with_cost, 5);
}

/* every kind of term that the model's sizes allow */
static hb_cost mixed_cost(const hb_model *m)
{
    hb_cost c = {.nterms = 4};

    c.term[0] = (hb_cost_term){.kind = HB_COST_DISTANCE, .weight = 3, .terminal = 10, .nindices = 2, .index = {0, 1}};
    c.term[1] =
        (hb_cost_term){.kind = HB_COST_VELOCITY, .weight = 1, .terminal = 2, .nindices = 1, .index = {m->nx - 1}};
    c.term[2] = (hb_cost_term){.kind = HB_COST_SQUARED, .weight = 2, .terminal = 1, .nindices = 1, .index = {1}};
    c.term[3] = (hb_cost_term){
        .kind = HB_COST_BOUND, .weight = 2, .terminal = 1, .nindices = 2, .index = {0, 1}, .min = -0.1, .max = 0.1};
    if (m->nu > 0) {
        c.term[c.nterms++] =
            (hb_cost_term){.kind = HB_COST_SLEW, .weight = 0.5, .terminal = 1, .nindices = 1, .index = {m->nu - 1}};
        c.term[c.nterms++] =
            (hb_cost_term){.kind = HB_COST_EFFORT, .weight = 0.3, .terminal = 1, .nindices = 1, .index = {0}};
    }
    if (m->nx == 13)
        c.term[c.nterms++] =
            (hb_cost_term){.kind = HB_COST_TILT, .weight = 5, .terminal = 10, .nindices = 4, .index = {6, 7, 8, 9}};
    return c;
}

/* a start and controls of the size that the model was made for */
static void random_problem(bench *b, uint64_t seed)
{
    const hb_random_key key = {.seed = seed};

    set_goal(b);
    for (int i = 0; i < b->m->nx; i++) {
        b->x0[i] = b->m->state_mean[i] + 0.3 * b->m->state_std[i] * hb_random_normal(key, (uint64_t)i);
        b->target[i] = hb_random_normal(key, (uint64_t)(100 + i));
    }
    for (int i = 0; i < b->m->nu; i++)
        b->control[i] = b->m->control_mean[i];
    for (int i = 0; i < b->nh * b->m->nu; i++)
        for (int s = 0; s < b->n; s++)
            b->u[i * HB_STRIDE + s] =
                (hb_real)(b->m->control_mean[i % b->m->nu] +
                          b->m->control_std[i % b->m->nu] * hb_random_normal(key, (uint64_t)(1000 + i * b->n + s)));
}

/* actuators that lag by different times, one of them not, and start elsewhere than at the last control */
static void set_lag(bench *b)
{
    for (int i = 0; i < b->m->nu; i++) {
        b->lag[i] = (i + 1) % 4 * 0.6 * b->m->dt;
        b->actuator[i] = b->control[i] + 0.5 * b->m->control_std[i];
    }
    b->goal.lag = b->lag;
    b->goal.actuator_state = b->actuator;
}

/* states of the first sequence after all its steps */
static void end_of_rollout(bench *b, double *x)
{
    evaluate(b, &(hb_cost){0}, false);
    for (int i = 0; i < b->m->nx; i++)
        x[i] = hb_rollout_states(b->r)[(b->nh * b->m->nx + i) * HB_STRIDE];
}

static void normalise_quaternion(double *q)
{
    double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);

    for (int i = 0; i < 4; i++)
        q[i] /= length;
}

/* against the model stepped finely under actuators that are integrated finely, where the model is a vehicle */
static void test_lag_is_that_of_fine_integration(void **state)
{
    (void)state;
    enum { NH = 6, FINE = 100 };
    int tried = 0;

    for (int v = 0; v < nvariants; v++) {
        hb_model *m = test_model(v);
        if (m->average != HB_AVERAGE_NOMINAL || m->integration != HB_COMBINED) {
            hb_model_free(m);
            continue;
        }
        hb_real *c = new_coefficients(m, 3);
        bench b = bench_new(m, c, NH, 1);
        double x[13], found[13], without[13], a[4], mean, error = 0, ignored = 0;

        random_problem(&b, (uint64_t)v);
        normalise_quaternion(b.x0 + 6);
        end_of_rollout(&b, without);
        set_lag(&b);
        end_of_rollout(&b, found);
        memcpy(x, b.x0, (size_t)m->nx * sizeof *x);
        memcpy(a, b.actuator, (size_t)m->nu * sizeof *a);
        for (int k = 0; k < NH * FINE; k++) {
            double h = m->dt / FINE;
            hb_batch in = {.n = 1, .z = new_rows(m->nx), .u = new_rows(m->nu + 1), .dt = constant_row(h)};
            hb_workspace *w;
            hb_error err;
            if (hb_workspace_new(&w, m, false, &err))
                fail_msg("%s", err.text);
            for (int i = 0; i < m->nx; i++)
                ((hb_real *)in.z)[i * HB_STRIDE] = (hb_real)((x[i] - m->state_mean[i]) / m->state_std[i]);
            for (int i = 0; i < m->nu; i++) {
                /* trapezoidal rule */
                double u = b.u[(k / FINE * m->nu + i) * HB_STRIDE], before = a[i];
                a[i] = b.lag[i] > 0 ? (a[i] * (b.lag[i] - h / 2) + u * h) / (b.lag[i] + h / 2) : u;
                mean = b.lag[i] > 0 ? (before + a[i]) / 2 : u;
                ((hb_real *)in.u)[i * HB_STRIDE] = (hb_real)((mean - m->control_mean[i]) / m->control_std[i]);
            }
            hb_predictor_step(b.p, w, &in, (hb_real *)in.z, NULL);
            for (int i = 0; i < m->nx; i++)
                x[i] = in.z[i * HB_STRIDE] * m->state_std[i] + m->state_mean[i];
            normalise_quaternion(x + 6);
            free((void *)in.z);
            free((void *)in.u);
            free((void *)in.dt);
            hb_workspace_free(w);
        }
        for (int i = 0; i < m->nx; i++) {
            error = fmax(error, fabs(found[i] - x[i]) / m->state_std[i]);
            ignored = fmax(ignored, fabs(without[i] - x[i]) / m->state_std[i]);
        }
        /* what is left comes from the shape of a control over a step, of which the model sees the mean */
        assert_true(ignored > 0.5);
        assert_true(error < 0.02 * ignored);
        tried++;
        bench_free(&b);
        free(c);
        hb_model_free(m);
    }
    assert_int_equal(tried, 3);
}

#ifdef HB_DOUBLE

static void test_gradient_is_that_of_finite_differences(void **state)
{
    (void)state;
    enum { NH = 5, N = 3 };

    for (int trial = 0; trial < 2 * nvariants; trial++) {
        int v = trial / 2;
        hb_model *m = test_model(v);
        hb_real *c = new_coefficients(m, 3);
        bench b = bench_new(m, c, NH, N);
        hb_cost cost = mixed_cost(m);
        random_problem(&b, (uint64_t)v);
        if (trial % 2)
            set_lag(&b);
        evaluate(&b, &cost, true);

        /* all sequences at once, since lanes do not mix */
        double *gradient = calloc((size_t)(NH * m->nu * N + 1), sizeof *gradient);
        for (int i = 0; i < NH * m->nu; i++)
            for (int s = 0; s < N; s++)
                gradient[i * N + s] = b.du[i * HB_STRIDE + s];
        for (int i = 0; i < NH * m->nu; i++) {
            double h = 1e-5 * m->control_std[i % m->nu], difference[N] = {0};
            for (int side = 0; side < 2; side++) {
                for (int s = 0; s < N; s++)
                    b.u[i * HB_STRIDE + s] += side ? -2 * h : h;
                evaluate(&b, &cost, false);
                for (int s = 0; s < N; s++)
                    difference[s] += (side ? -1 : 1) * b.cost[s] / (2 * h);
            }
            for (int s = 0; s < N; s++) {
                b.u[i * HB_STRIDE + s] += h;
                double scale = m->control_std[i % m->nu], expected = difference[s] * scale;
                check_close(gradient[i * N + s] * scale, expected, fmax(1, fabs(expected)), 1e-7,
                            "%s: gradient %d of %d", variant_name(v), i, s);
            }
        }
        free(gradient);
        bench_free(&b);
        free(c);
        hb_model_free(m);
    }
}

/* where one step leads from given states and controls, physical */
static void step_once(bench *b, const double *x, const double *u, double *x_next)
{
    memcpy(b->x0, x, (size_t)b->m->nx * sizeof *x);
    for (int i = 0; i < b->m->nu; i++)
        b->u[i * HB_STRIDE] = (hb_real)u[i];
    const hb_plan_problem of = problem(b, &(hb_cost){0}, 1);
    assert_true(hb_rollout_cost(b->r, &of, 1, b->u, false, b->cost, NULL));
    for (int i = 0; i < b->m->nx; i++)
        x_next[i] = hb_rollout_states(b->r)[(b->m->nx + i) * HB_STRIDE];
}

/* n states around the trained mean, and the first controls of the problem */
static void random_steps(const bench *b, uint64_t seed, int n, double *x, double *u)
{
    const hb_model *m = b->m;

    for (int i = 0; i < n * m->nx; i++)
        x[i] = m->state_mean[i % m->nx] +
               0.3 * m->state_std[i % m->nx] * hb_random_normal((hb_random_key){seed, 0}, (uint64_t)i);
    for (int i = 0; i < n * m->nu; i++)
        u[i] = b->u[i * HB_STRIDE];
}

/* Steps side by side are those one by one. */
static void test_steps_side_by_side(void **state)
{
    (void)state;
    enum { NH = 11 };

    for (int v = 0; v < nvariants; v++) {
        hb_model *m = test_model(v);
        hb_real *c = new_coefficients(m, 3);
        bench b = bench_new(m, c, NH, 1);
        int nx = m->nx, nu = m->nu;
        double x[NH * 13], u[NH * 4], next[NH * 13], one[13];
        random_problem(&b, (uint64_t)v);
        random_steps(&b, 9, NH, x, u);
        assert_true(hb_rollout_steps(b.r, b.p, m->dt, 30, NH, x, u, next));
        assert_int_equal(hb_rollout_steps(b.r, b.p, m->dt, 1e-3, NH, x, u, next), m->ninputs == 0);
        for (int k = 0; k < NH; k++) {
            step_once(&b, x + k * nx, u + k * nu, one);
            for (int i = 0; i < nx; i++)
                check_close(next[k * nx + i], one[i], m->state_std[i], 1e-9, "%s: step %d, state %d", variant_name(v),
                            k, i);
        }
        bench_free(&b);
        free(c);
        hb_model_free(m);
    }
}

static void test_jacobians_are_those_of_finite_differences(void **state)
{
    (void)state;
    enum { NH = 11 };

    for (int v = 0; v < nvariants; v++) {
        hb_model *m = test_model(v);
        hb_real *c = new_coefficients(m, 3);
        bench b = bench_new(m, c, NH, 1);
        int nx = m->nx, nu = m->nu;
        double x[NH * 13], u[NH * 4], a[NH * 13 * 13], bu[NH * 13 * 4], at[17], side[2][13];
        random_problem(&b, (uint64_t)v);
        random_steps(&b, 8, NH, x, u);
        assert_true(hb_rollout_jacobians(b.r, b.p, m->dt, NH, x, u, a, bu, NULL));
        for (int k = 0; k < NH; k++)
            for (int j = 0; j < nx + nu; j++) {
                double scale = j < nx ? m->state_std[j] : m->control_std[j - nx], h = 1e-5 * scale;
                for (int i = 0; i < 2; i++) {
                    memcpy(at, x + k * nx, (size_t)nx * sizeof *x);
                    memcpy(at + nx, u + k * nu, (size_t)nu * sizeof *u);
                    at[j] += i ? -h : h;
                    step_once(&b, at, at + nx, side[i]);
                }
                for (int i = 0; i < nx; i++) {
                    double found = j < nx ? a[(k * nx + i) * nx + j] : bu[(k * nx + i) * nu + j - nx];
                    double expected = (side[0][i] - side[1][i]) / (2 * h) * scale;
                    check_close(found * scale, expected, fmax(1, fabs(expected)), 1e-7,
                                "%s: step %d, row %d, column %d", variant_name(v), k, i, j);
                }
            }
        bench_free(&b);
        free(c);
        hb_model_free(m);
    }
}

#endif

/* a vehicle's quaternion stays of length one; a model that blows it up is found out, whatever its cost */
static void test_quaternions_have_length_one_and_impossible_trajectories_no_chance(void **state)
{
    (void)state;
    enum { NH = 8, N = 20 };
    int tried = 0;

    for (int v = 0; v < nvariants; v++) {
        hb_model *m = test_model(v);
        int at = hb_model_quaternion(m);
        if (at < 0 || m->average != HB_AVERAGE_NOMINAL) {
            hb_model_free(m);
            continue;
        }
        hb_real *c = new_coefficients(m, 3);
        for (int blown = 0; blown < 2; blown++) {
            for (int i = 0; blown && i < hb_model_ncoefficients(m); i++)
                c[i] *= 1000;
            bench b = bench_new(m, c, NH, N);
            hb_cost cost = mixed_cost(m);
            random_problem(&b, (uint64_t)v);
            normalise_quaternion(b.x0 + 6);
            evaluate(&b, &cost, false);
            for (int s = 0; s < N; s++) {
                assert_int_equal(isfinite(b.cost[s]) && !hb_rollout_impossible(b.r)[s], !blown);
                for (int k = 0; !blown && k <= NH; k++) {
                    double q[4], sum = 0;
                    for (int i = 0; i < 4; i++) {
                        q[i] = hb_rollout_states(b.r)[(k * m->nx + at + i) * HB_STRIDE + s];
                        sum += q[i] * q[i];
                    }
                    assert_near(sum, 1, 1e-6);
                }
            }
            hb_real before[N];
            memcpy(before, b.cost, sizeof before);
            /* so small a range is left by any motion */
            cost.limits.trained_range = 1e-4;
            evaluate(&b, &cost, false);
            for (int s = 0; s < N; s++) {
                assert_true(hb_rollout_impossible(b.r)[s]);
                assert_true(blown || b.cost[s] > 1000 * before[s]);
            }
            bench_free(&b);
            tried++;
        }
        free(c);
        hb_model_free(m);
    }
    assert_true(tried >= 6);
}

typedef struct allowance {
    int left, asked;
} allowance;

static bool spend(void *context)
{
    allowance *a = context;

    a->asked++;
    return a->left-- > 0;
}

static void test_asks_before_every_piece_and_stops_when_told(void **state)
{
    (void)state;
    enum { NH = 6, N = 5 };
    hb_model *m = variant_model(0);
    bench b = bench_new(m, NULL, NH, N);
    hb_cost c = mixed_cost(m);
    random_problem(&b, 1);
    const hb_plan_problem of = problem(&b, &c, NH);

    for (int pieces = 0; pieces <= 2 * NH; pieces++) {
        allowance a = {.left = pieces};
        hb_proceed proceed = {spend, &a};
        bool cost = hb_rollout_cost(b.r, &of, N, b.u, true, b.cost, &proceed);
        assert_int_equal(cost, pieces >= NH);
        bool gradient = cost && hb_rollout_gradient(b.r, &of, b.u, b.du, &proceed);
        assert_int_equal(gradient, pieces >= 2 * NH);
        assert_int_equal(a.asked, pieces + !gradient);
    }
    bench_free(&b);
    hb_model_free(m);
}

/* a thread that takes a range of lanes gets the same bytes as one that takes them all */
static void test_ranges_of_lanes_give_the_same_bytes(void **state)
{
    (void)state;
    enum { NH = 4, N = 100 };

    for (int v = 0; v < nvariants; v++) {
        hb_model *m = test_model(v);
        hb_real *c = new_coefficients(m, 3);
        bench b = bench_new(m, c, NH, N);
        hb_cost cost = mixed_cost(m);
        random_problem(&b, 5);
        evaluate(&b, &cost, true);

        hb_real *du = new_rows(NH * m->nu), *costs = new_rows(1);
        for (int first = 0; first < N; first += 48) {
            int n = N - first < 48 ? N - first : 48;
            const hb_plan_problem of = problem(&b, &cost, NH);
            assert_true(hb_rollout_cost(b.r, &of, n, b.u + first, true, costs + first, NULL));
            assert_true(hb_rollout_gradient(b.r, &of, b.u + first, du + first, NULL));
        }
        assert_memory_equal(costs, b.cost, N * sizeof *costs);
        for (int i = 0; i < NH * m->nu; i++)
            assert_memory_equal(du + i * HB_STRIDE, b.du + i * HB_STRIDE, N * sizeof *du);
        free(du);
        free(costs);
        bench_free(&b);
        free(c);
        hb_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_costs_gradients_and_trajectories),
        cmocka_unit_test(test_lag_is_that_of_fine_integration),
#ifdef HB_DOUBLE
        cmocka_unit_test(test_gradient_is_that_of_finite_differences),
        cmocka_unit_test(test_steps_side_by_side),
        cmocka_unit_test(test_jacobians_are_those_of_finite_differences),
#endif
        cmocka_unit_test(test_quaternions_have_length_one_and_impossible_trajectories_no_chance),
        cmocka_unit_test(test_asks_before_every_piece_and_stops_when_told),
        cmocka_unit_test(test_ranges_of_lanes_give_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
