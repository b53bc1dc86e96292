/* The estimator's inner loops, of every instruction set of this machine, against the formulas written out. */
#include "check.h"

#include <string.h>

#include "base/numeric.h"
#include "dynamics/kernels.h"
#include "estimate/arithmetic.h"
#include "models.h"

enum { MOST = 27, ROWS = 6, LD = 32 };

static const int sizes[] = {1, 2, 4, 7, 8, 13, 24, 27};
enum { SIZES = sizeof sizes / sizeof *sizes };

static double normal(uint64_t stream, uint64_t index)
{
    return hb_random_normal((hb_random_key){.seed = 5, .stream = stream}, index);
}

/* ---- side by side ---- */

/* Rows of eight systems, with their weights, and what they add up to from sums that were there before. */
typedef struct systems {
    int n;
    double w[ROWS], keep, prior[MOST * MOST];
    hb_sides g[ROWS * LD], before[MOST * MOST], vector_before[MOST], a[MOST * MOST], v[MOST];
} systems;

static void make_systems(systems *m, const hb_arithmetic *arithmetic, int n)
{
    uint64_t draws = 0;

    m->n = n;
    m->keep = 0.9;
    for (int i = 0; i < ROWS; i++)
        m->w[i] = 0.5 + hb_random_uniform((hb_random_key){.seed = 5, .stream = 2}, (uint64_t)i);
    for (int s = 0; s < HB_SIDES; s++) {
        for (int i = 0; i < ROWS * LD; i++)
            m->g[i][s] = normal(1, draws++);
        for (int i = 0; i < n; i++) {
            m->vector_before[i][s] = normal(3, draws++);
            for (int j = 0; j <= i; j++)
                m->before[i * n + j][s] = 0.1 * normal(3, draws++) + (i == j ? 4 : 0);
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            m->prior[i * n + j] = i == j ? 2 : 0.1;
    memcpy(m->a, m->before, sizeof m->a);
    memcpy(m->v, m->vector_before, sizeof m->v);
    arithmetic->sides_add(n, m->keep, ROWS, LD, m->w, m->g, m->a, m->v);
}

/* Element (i, j) and number i of what they should be. */
static double sum_of(const systems *m, int i, int j, int s)
{
    int row = i > j ? i : j, column = i > j ? j : i;
    double sum = m->keep * m->before[row * m->n + column][s];

    for (int d = 0; d < ROWS; d++)
        sum += m->w[d] * m->g[d * LD + i][s] * m->g[d * LD + j][s];
    return sum;
}

static double vector_of(const systems *m, int i, int s)
{
    double sum = m->keep * m->vector_before[i][s];

    for (int d = 0; d < ROWS; d++)
        sum += m->w[d] * m->g[d * LD + i][s] * m->g[d * LD + m->n][s];
    return sum;
}

/* (a + prior)^-1 b, by elimination; b in and out */
static void solve(const systems *m, int s, double *b)
{
    double dense[MOST * (MOST + 1)];
    int n = m->n;

    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            dense[i * (n + 1) + j] = sum_of(m, i, j, s) + m->prior[i * n + j];
        dense[i * (n + 1) + n] = b[i];
    }
    eliminate(n, n + 1, dense);
    for (int i = 0; i < n; i++)
        b[i] = dense[i * (n + 1) + n];
}

static void check_systems(const hb_arithmetic *arithmetic, int n)
{
    static systems m;
    static hb_sides l[MOST * MOST], x[MOST], scratch[4 * MOST], doubt[ROWS], error[ROWS];
    double b[MOST];

    make_systems(&m, arithmetic, n);
    for (int s = 0; s < HB_SIDES; s++)
        for (int i = 0; i < n; i++) {
            assert_near(m.v[i][s], vector_of(&m, i, s), 1e-12);
            for (int j = 0; j <= i; j++)
                assert_near(m.a[i * n + j][s], sum_of(&m, i, j, s), 1e-12);
        }
    memcpy(x, m.v, sizeof x);
    assert_true(arithmetic->sides_cholesky(n, m.a, m.prior, l));
    arithmetic->sides_solve(n, l, x);
    arithmetic->sides_doubt(n, l, ROWS, LD, m.g, scratch, doubt);
    arithmetic->sides_error(n, x, ROWS, LD, m.g, error);
    for (int s = 0; s < HB_SIDES; s++) {
        for (int i = 0; i < n; i++)
            b[i] = vector_of(&m, i, s);
        solve(&m, s, b);
        for (int i = 0; i < n; i++)
            assert_near(x[i][s], b[i], 1e-10);
        for (int d = 0; d < ROWS; d++) {
            double left = m.g[d * LD + n][s], square = 0;
            for (int i = 0; i < n; i++) {
                left -= b[i] * m.g[d * LD + i][s];
            }
            assert_near(error[d][s], left, 1e-10);
            double c[MOST];
            for (int i = 0; i < n; i++)
                c[i] = m.g[d * LD + i][s];
            solve(&m, s, c);
            for (int i = 0; i < n; i++)
                square += c[i] * m.g[d * LD + i][s];
            assert_near(doubt[d][s], square, 1e-10);
        }
    }

    /* in place too; and one of the eight that is not positive is enough */
    memcpy(l, m.a, sizeof l);
    assert_true(arithmetic->sides_cholesky(n, l, m.prior, l));
    const double bad[] = {-3, NAN, INFINITY};
    for (int k = 0; k < 3; k++) {
        memcpy(l, m.a, sizeof l);
        l[n * n - 1][5] = bad[k];
        assert_false(arithmetic->sides_cholesky(n, l, m.prior, l));
    }
}

/* ---- sums ---- */

static void check_sums(const hb_arithmetic *arithmetic, int n)
{
    double s[MOST * (MOST + 1) / 2] = {0}, x[MOST], y[MOST], w[ROWS], g[ROWS * MOST], sum[MOST];

    for (int i = 0; i < n; i++) {
        x[i] = normal(11, (uint64_t)i);
        y[i] = normal(12, (uint64_t)i);
    }
    for (int i = 0; i < ROWS * n; i++)
        g[i] = normal(15, (uint64_t)i);
    for (int k = 0; k < ROWS; k++)
        w[k] = normal(16, (uint64_t)k);
    arithmetic->triangle_add(n, x, 0.7, s);
    arithmetic->triangle_add(n, y, -0.3, s);
    for (int i = 0, at = 0; i < n; i++)
        for (int j = 0; j <= i; j++, at++)
            assert_near(s[at], 0.7 * x[i] * x[j] - 0.3 * y[i] * y[j], 1e-13);
    for (int count = 0; count <= ROWS; count++) {
        arithmetic->weighted_sum(n, count, w, g, sum);
        for (int i = 0; i < n; i++) {
            double expected = 0;
            for (int k = 0; k < count; k++)
                expected += w[k] * g[k * n + i];
            assert_near(sum[i], expected, 1e-13);
        }
    }
}

static void test_every_instruction_set(void **state)
{
    (void)state;
    for (int k = 0; hb_kernels_at(k); k++) {
        const hb_arithmetic *arithmetic = hb_arithmetic_find(hb_kernels_at(k)->name);
        /* that of the machine, not one that serves everywhere in its place */
        if (strcmp(hb_kernels_at(k)->name, "neon") != 0)
            assert_string_equal(arithmetic->name, hb_kernels_at(k)->name);
        for (int i = 0; i < SIZES; i++) {
            check_systems(arithmetic, sizes[i]);
            check_sums(arithmetic, sizes[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_instruction_set)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
