#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/regression.h"

/* The brute force: every row of the past is kept, and a solve sums up from nothing in long double, solved by
 * elimination with pivoting. */
typedef struct brute {
    int nb, nx, nw;
    bool per_state;
    double ridge, forgetting;
    long count;  /* rows ever added */
    int window;  /* of these, in the window */
    double *row; /* nw x nx x (nb + 2), by number modulo nw */
} brute;

static double *brute_row(const brute *b, long number)
{
    return b->row + (size_t)(number % b->nw) * (size_t)(b->nx * (b->nb + 2));
}

/* means over the window of problem p: gram (nb + 2)^2 */
static void brute_gram(const brute *b, int p, long double *gram)
{
    int n = b->nb + 2;
    long double weights = 0;

    memset(gram, 0, (size_t)(n * n) * sizeof *gram);
    for (int age = 0; age < b->window; age++) {
        long double w = powl(b->forgetting, age);
        weights += w;
        for (int d = b->per_state ? p : 0; d < (b->per_state ? p + 1 : b->nx); d++) {
            const double *x = brute_row(b, b->count - 1 - age) + d * n;
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++)
                    gram[i * n + j] += w * x[i] * x[j];
        }
    }
    for (int i = 0; i < n * n; i++)
        gram[i] /= weights;
}

static void eliminate(int n, long double *a, long double *x)
{
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int i = k + 1; i < n; i++)
            if (fabsl(a[i * n + k]) > fabsl(a[best * n + k]))
                best = i;
        for (int j = 0; j < n; j++) {
            long double t = a[k * n + j];
            a[k * n + j] = a[best * n + j];
            a[best * n + j] = t;
        }
        long double t = x[k];
        x[k] = x[best];
        x[best] = t;
        for (int i = k + 1; i < n; i++) {
            long double f = a[i * n + k] / a[k * n + k];
            for (int j = k; j < n; j++)
                a[i * n + j] -= f * a[k * n + j];
            x[i] -= f * x[k];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++)
            x[i] -= a[i * n + j] * x[j];
        x[i] /= a[i * n + i];
    }
}

/* coefficients and unexplained energy of problem p */
static void brute_solve(const brute *b, int p, long double *c, long double *ret_unexplained)
{
    int nb = b->nb, n = nb + 2;
    long double *gram = malloc((size_t)(n * n) * sizeof *gram), *a = malloc((size_t)(nb * nb) * sizeof *a);

    brute_gram(b, p, gram);
    for (int i = 0; i < nb; i++) {
        for (int j = 0; j < nb; j++)
            a[i * nb + j] = gram[i * n + j] + (i == j ? (long double)b->ridge : 0);
        c[i] = gram[nb * n + i];
    }
    eliminate(nb, a, c);
    *ret_unexplained = gram[nb * n + nb];
    for (int i = 0; i < nb; i++) {
        *ret_unexplained -= 2 * c[i] * gram[nb * n + i];
        for (int j = 0; j < nb; j++)
            *ret_unexplained += c[i] * c[j] * gram[i * n + j];
    }
    free(gram);
    free(a);
}

typedef struct fixture {
    brute b;
    hb_regression r;
    void *memory;
    double *row;  /* nx x ld */
    double size;  /* of rows */
    double large; /* of rare rows, relative to that */
    uint64_t draws;
    hb_random_key key;
} fixture;

static void start(fixture *f, int nb, int nx, int nw, bool per_state, double forgetting, uint64_t seed)
{
    hb_arena arena = {0};

    *f = (fixture){.key = {seed, 0}, .size = 1, .large = 1e3};
    f->b = (brute){.nb = nb, .nx = nx, .nw = nw, .per_state = per_state, .ridge = 1e-3, .forgetting = forgetting};
    f->b.row = calloc((size_t)(nw * nx * (nb + 2)), sizeof(double));
    f->r = (hb_regression){.nb = nb,
                           .nproblems = per_state ? nx : 1,
                           .nrows = per_state ? 1 : nx,
                           .ridge = 1e-3,
                           .volume = 1,
                           .forgetting = forgetting};
    hb_regression_lay_out(&f->r, &arena);
    assert_int_equal(hb_arena_allocate(&arena, NULL), 0);
    f->memory = arena.base;
    hb_regression_lay_out(&f->r, &arena);
    f->row = calloc((size_t)(nx * f->r.ld), sizeof(double));
}

static void finish(fixture *f)
{
    free(f->b.row);
    free(f->row);
    free(f->memory);
}

static double draw(fixture *f)
{
    return hb_random_normal(f->key, f->draws++);
}

static const double *padded(const fixture *f, const double *row)
{
    for (int d = 0; d < f->b.nx; d++)
        memcpy(f->row + d * f->r.ld, row + d * (f->b.nb + 2), (size_t)(f->b.nb + 2) * sizeof *row);
    return f->row;
}

/* rows with rare large ones, so that rounding shows when they leave */
static void fill(fixture *f, double *row)
{
    double scale = f->size * (draw(f) > 2.5 ? f->large : 1);

    for (int i = 0; i < f->b.nx * (f->b.nb + 2); i++)
        row[i] = scale * draw(f);
}

static void push(fixture *f)
{
    double *row = brute_row(&f->b, f->b.count);
    size_t size = (size_t)(f->b.nx * f->r.ld) * sizeof *row;

    if (f->b.window == f->b.nw) {
        double *oldest = malloc(size);
        memcpy(oldest, padded(f, row), size);
        fill(f, row);
        hb_regression_slide(&f->r, oldest, padded(f, row));
        free(oldest);
    } else {
        fill(f, row);
        hb_regression_add(&f->r, padded(f, row));
        f->b.window++;
    }
    f->b.count++;
}

static void assert_same(fixture *f, double tolerance)
{
    int nb = f->b.nb, n = nb + 2;
    long double c[32], unexplained, gram[34 * 34];

    for (int p = 0; p < f->r.nproblems; p++) {
        hb_regression_result result;
        assert_true(hb_regression_solve(&f->r, p, true, &result));
        brute_solve(&f->b, p, c, &unexplained);
        long double size = 0;
        for (int i = 0; i < nb; i++)
            size = fmaxl(size, fabsl(c[i]));
        for (int i = 0; i < nb; i++)
            assert_near(result.coefficient[i], (double)c[i], tolerance * (double)size);
        brute_gram(&f->b, p, gram);
        assert_near(result.residual, (double)gram[nb * n + nb], tolerance * (double)gram[nb * n + nb]);
        assert_near(result.motion, (double)gram[(n - 1) * n + n - 1], tolerance * (double)gram[(n - 1) * n + n - 1]);
        assert_near(result.unexplained, (double)unexplained, tolerance * (double)gram[nb * n + nb]);
    }
}

static void test_sums_stay_those_of_a_fresh_computation(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        fixture f;
        start(&f, 3 + 5 * (variant / 2), 4, 37, variant % 2, variant == 3 ? 0.97 : 1, (uint64_t)variant);
        for (int i = 0; i < 5000; i++) {
            push(&f);
            if (f.b.window > 10 && i % 3 == 0)
                if (i > 100 && i % 113 == 0)
                    assert_same(&f, 1e-9);
        }
        finish(&f);
    }
}

/* The spare sums must be what keeps the error small: without them, large rows that come and go leave their rounding
 * behind. */
static void test_rounding_is_forgotten_once_a_revolution(void **state)
{
    (void)state;
    fixture f;

    start(&f, 4, 3, 50, false, 1, 9);
    f.large = 1;
    for (int i = 0; i < 50; i++)
        push(&f);

    /* one enormous row passes through */
    f.size = 1e9;
    push(&f);
    f.size = 1;
    for (int i = 0; i < 50; i++)
        push(&f);
    hb_regression_result result;
    long double c[4], unexplained;
    brute_solve(&f.b, 0, c, &unexplained);
    bool solved = hb_regression_solve(&f.r, 0, false, &result);
    assert_true(!solved || fabs(result.coefficient[0] - (double)c[0]) > 1e-9);
    /* until the spare has just taken over */
    for (int i = 0; i < 49; i++)
        push(&f);
    assert_int_equal(f.r.spare_count, 0);
    assert_same(&f, 1e-12);
    finish(&f);
}

static void test_rank_deficiency_is_reported(void **state)
{
    (void)state;
    fixture f;
    hb_regression_result result = {.condition = 42};

    start(&f, 4, 3, 50, false, 1, 3);
    f.r.ridge = 0;
    for (int i = 0; i < 50; i++) {
        double *row = brute_row(&f.b, f.b.count);
        fill(&f, row);
        /* the last two basis functions are the same to single precision */
        for (int d = 0; d < 3; d++)
            row[d * 6 + 3] = row[d * 6 + 2] * (1 + 1e-8 * draw(&f));
        hb_regression_add(&f.r, padded(&f, row));
        f.b.count++;
        f.b.window++;
    }
    assert_false(hb_regression_solve(&f.r, 0, true, &result));
    assert_near(result.condition, 42, 0);
    f.r.ridge = 1e-2;
    f.b.ridge = 1e-2;
    assert_true(hb_regression_solve(&f.r, 0, true, &result));
    assert_same(&f, 1e-9);
    finish(&f);
}

/* Repeated experiments with known noise: the scatter of the coefficients is what the variance says. */
static void test_variance_is_the_scatter_of_repeated_experiments(void **state)
{
    (void)state;
    for (int method = 0; method < 2; method++) {
        enum { EXPERIMENTS = 400, NB = 3, NX = 2, NW = 60 };
        double sum[NB] = {0}, squares[NB] = {0}, said[NB] = {0};
        fixture f;
        double g[NW][NX][NB];

        start(&f, NB, NX, NW, false, 1, 77);
        f.r.method = method ? HB_INNER_PRODUCT : HB_LEAST_SQUARES;
        f.r.ridge = 0;
        for (int j = 0; j < NW * NX * NB; j++)
            (&g[0][0][0])[j] = draw(&f);
        for (int k = 0; k < EXPERIMENTS; k++) {
            hb_regression_clear(&f.r);
            for (int j = 0; j < NW; j++) {
                double row[NX * (NB + 2)] = {0};
                for (int d = 0; d < NX; d++) {
                    memcpy(row + d * (NB + 2), g[j][d], sizeof g[j][d]);
                    row[d * (NB + 2) + NB] = 0.2 * draw(&f);
                }
                hb_regression_add(&f.r, padded(&f, row));
            }
            hb_regression_result result;
            assert_true(hb_regression_solve(&f.r, 0, true, &result));
            for (int i = 0; i < NB; i++) {
                sum[i] += result.coefficient[i];
                squares[i] += result.coefficient[i] * result.coefficient[i];
                said[i] += result.variance[i] / EXPERIMENTS;
            }
        }
        for (int i = 0; i < NB; i++) {
            double seen = squares[i] / EXPERIMENTS - sum[i] * sum[i] / EXPERIMENTS / EXPERIMENTS;
            assert_near(said[i] / seen, 1, 0.25);
        }
        finish(&f);
    }
}

static void test_condition_is_that_of_the_matrix(void **state)
{
    (void)state;
    fixture f;
    hb_regression_result result;

    /* orthogonal rows of unlike size: A is diagonal, its condition the ratio of the extremes */
    start(&f, 3, 3, 10, false, 1, 1);
    f.r.ridge = 0.5;
    double row[3 * 5] = {0};
    row[0 * 5 + 0] = 1;
    row[1 * 5 + 1] = 10;
    row[2 * 5 + 2] = 2;
    hb_regression_add(&f.r, padded(&f, row));
    assert_true(hb_regression_solve(&f.r, 0, true, &result));
    assert_near(result.condition, 100.5 / 1.5, 1e-9);
    assert_near(result.least, 1, 0);
    assert_near(result.most, 100, 0);
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_stay_those_of_a_fresh_computation),
        cmocka_unit_test(test_rounding_is_forgotten_once_a_revolution),
        cmocka_unit_test(test_rank_deficiency_is_reported),
        cmocka_unit_test(test_variance_is_the_scatter_of_repeated_experiments),
        cmocka_unit_test(test_condition_is_that_of_the_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
