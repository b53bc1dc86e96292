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

static void check_mix(const hb_arithmetic *arithmetic)
{
    enum { SIZE = 11, DIRECTIONS = 3 };
    double base[SIZE], slope[DIRECTIONS * SIZE];
    hb_sides share[DIRECTIONS], to[SIZE];

    for (int i = 0; i < SIZE; i++)
        base[i] = normal(6, (uint64_t)i);
    for (int i = 0; i < DIRECTIONS * SIZE; i++)
        slope[i] = normal(7, (uint64_t)i);
    for (int i = 0; i < DIRECTIONS * HB_SIDES; i++)
        share[i / HB_SIDES][i % HB_SIDES] = normal(8, (uint64_t)i);
    arithmetic->sides_mix(SIZE, DIRECTIONS, base, slope, share, to);
    for (int s = 0; s < HB_SIDES; s++)
        for (int i = 0; i < SIZE; i++) {
            double sum = base[i];
            for (int k = 0; k < DIRECTIONS; k++)
                sum += share[k][s] * slope[k * SIZE + i];
            assert_near(to[i][s], sum, 1e-13);
        }
}

/* ---- sums ---- */

static void check_sums(const hb_arithmetic *arithmetic, int n)
{
    double s[MOST * LD] = {0}, x[LD], y[LD], c[MOST], a[MOST * MOST], scaled[MOST * MOST] = {0};
    double g[ROWS * LD], product[ROWS * MOST];

    for (int i = 0; i < LD; i++) {
        x[i] = normal(11, (uint64_t)i);
        y[i] = normal(12, (uint64_t)i);
    }
    for (int i = 0; i < n; i++)
        c[i] = normal(13, (uint64_t)i);
    for (int i = 0; i < n * n; i++)
        a[i] = normal(14, (uint64_t)i);
    for (int i = 0; i < ROWS * LD; i++)
        g[i] = normal(15, (uint64_t)i);
    arithmetic->add_products(n, LD, x, 0.7, s);
    arithmetic->exchange_products(n, LD, x, 0.3, y, 0.6, s);
    double inner = 0, form = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double element = 0.4 * x[i] * x[j] + 0.6 * y[i] * y[j], of_a = a[i > j ? i * n + j : j * n + i];
            if (j <= i)
                assert_near(s[i * LD + j], element, 1e-13);
            inner += element * of_a;
            form += c[i] * element * c[j];
        }
    assert_near(arithmetic->inner_product(n, LD, s, n, a), inner, 1e-12);
    assert_near(arithmetic->quadratic(n, LD, s, c), form, 1e-12);
    arithmetic->add_scaled(n, LD, 2.5, s, scaled);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            assert_near(scaled[i * n + j], j <= i ? 2.5 * s[i * LD + j] : 0, 1e-13);
    arithmetic->times(ROWS, n, LD, g, a, product);
    for (int d = 0; d < ROWS; d++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int i = 0; i < n; i++)
                sum += g[d * LD + i] * a[i * n + j];
            assert_near(product[d * n + j], sum, 1e-12);
        }
}

static void check_congruence(const hb_arithmetic *arithmetic, int n)
{
    double s[MOST * LD] = {0}, x[MOST * MOST] = {0}, transposed[MOST * MOST] = {0}, scratch[2 * MOST * MOST];
    double full[MOST][MOST], t[MOST][MOST];

    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            x[i * n + j] = transposed[j * n + i] = 0.3 * normal(21, (uint64_t)(i * n + j));
            t[i][j] = (i == j) - x[i * n + j];
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            s[i * LD + j] = full[i][j] = full[j][i] = normal(22, (uint64_t)(i * n + j));
    arithmetic->congruence(n, LD, x, transposed, s, scratch);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                for (int l = 0; l < n; l++)
                    sum += t[i][k] * full[k][l] * t[j][l];
            if (j <= i)
                assert_near(s[i * LD + j], sum, 1e-12);
            assert_near(scratch[i * n + j], full[i][j], 0);
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
            check_congruence(arithmetic, sizes[i]);
        }
        check_mix(arithmetic);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_instruction_set)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
