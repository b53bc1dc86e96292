#include <float.h>
#include <string.h>

#include "check.h"
#include "base/numeric.h"

enum { N = 9, ROWS = 30 };

static const hb_random_key key = {.seed = 42, .stream = 7};

/* a = x^T x + I / 10, by plain loops; x is ROWS x N of normal numbers */
static void make_matrix(double *x, double *a)
{
    for (int i = 0; i < ROWS * N; i++)
        x[i] = hb_random_normal(key, (uint64_t)i);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i * N + j] = i == j ? 0.1 : 0;
            for (int k = 0; k < ROWS; k++)
                a[i * N + j] += x[k * N + i] * x[k * N + j];
        }
}

static double norm1(const double *a)
{
    double largest = 0;

    for (int j = 0; j < N; j++) {
        double sum = 0;
        for (int i = 0; i < N; i++)
            sum += fabs(a[i * N + j]);
        largest = fmax(largest, sum);
    }
    return largest;
}

static void test_cholesky_factor_multiplies_back(void **state)
{
    (void)state;
    double x[ROWS * N], a[N * N], l[N * N];

    make_matrix(x, a);
    memcpy(l, a, sizeof a);
    /* only the lower triangle may be read, and only it may be written */
    for (int i = 0; i < N; i++)
        for (int j = i + 1; j < N; j++)
            l[i * N + j] = NAN;
    assert_int_equal(hb_cholesky(N, l), 0);

    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int k = 0; k <= j; k++)
                sum += l[i * N + k] * l[j * N + k];
            assert_near(sum, a[i * N + j], 1e-12 * norm1(a));
        }
    for (int i = 0; i < N; i++)
        for (int j = i + 1; j < N; j++)
            assert_true(isnan(l[i * N + j]));
}

static void test_cholesky_refuses_what_is_not_positive_definite(void **state)
{
    (void)state;
    double indefinite[] = {1, 0, 2, 1}, singular[] = {1, 0, 1, 1}, not_finite[] = {1, 0, NAN, 1},
           infinite[] = {INFINITY, 0, 0, 1};

    assert_int_equal(hb_cholesky(2, indefinite), -1);
    assert_int_equal(hb_cholesky(2, singular), -1);
    assert_int_equal(hb_cholesky(2, not_finite), -1);
    assert_int_equal(hb_cholesky(2, infinite), -1);
    assert_int_equal(hb_cholesky(0, NULL), 0);
}

static void test_cholesky_solves_several_right_hand_sides(void **state)
{
    (void)state;
    enum { RHS = 3 };
    double x[ROWS * N], a[N * N], l[N * N], b[RHS * N], solution[RHS * N];

    make_matrix(x, a);
    memcpy(l, a, sizeof a);
    assert_int_equal(hb_cholesky(N, l), 0);
    for (int i = 0; i < RHS * N; i++)
        b[i] = solution[i] = hb_random_normal(key, 1000 + (uint64_t)i);
    hb_cholesky_solve(N, l, RHS, solution);

    for (int r = 0; r < RHS; r++)
        for (int i = 0; i < N; i++) {
            double residual = -b[r * N + i];
            for (int j = 0; j < N; j++)
                residual += a[i * N + j] * solution[r * N + j];
            assert_near(residual, 0, 1e-11);
        }
}

static void test_cholesky_inverse_and_norm(void **state)
{
    (void)state;
    double x[ROWS * N], a[N * N], l[N * N], inverse[N * N] = {0}, scratch[N];

    make_matrix(x, a);
    memcpy(l, a, sizeof a);
    assert_int_equal(hb_cholesky(N, l), 0);
    for (int i = 0; i < N; i++)
        inverse[i * N + i] = 1;
    hb_cholesky_solve(N, l, N, inverse);

    hb_cholesky_invert(N, l);
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++)
            assert_near(l[i * N + j], inverse[i * N + j], 1e-10);
    /* of the lower triangle alone */
    assert_near(hb_norm_one(N, l, scratch), norm1(inverse), 1e-9 * norm1(inverse));
}

static void test_eigenvectors_diagonalise(void **state)
{
    (void)state;
    double x[ROWS * N], a[N * N], v[N * N], value[N];

    make_matrix(x, a);
    memcpy(v, a, sizeof a);
    assert_int_equal(hb_symmetric_eigen(N, v, value, NULL), 0);
    for (int k = 0; k < N; k++) {
        assert_true(k == 0 || value[k] >= value[k - 1]);
        for (int i = 0; i < N; i++) {
            double av = 0;
            for (int j = 0; j < N; j++)
                av += a[i * N + j] * v[k * N + j];
            assert_near(av, value[k] * v[k * N + i], 1e-11);
        }
        for (int l = 0; l < N; l++) {
            double dot = 0;
            for (int j = 0; j < N; j++)
                dot += v[k * N + j] * v[l * N + j];
            assert_near(dot, k == l ? 1 : 0, 1e-13);
        }
    }
}

static void test_rank_update_adds_to_the_lower_triangle(void **state)
{
    (void)state;
    double x[ROWS * N], a[N * N], c[N * N];

    make_matrix(x, a);
    for (int i = 0; i < N * N; i++)
        c[i] = i;
    hb_rank_update(N, ROWS, -0.5, x, c);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double product = a[i * N + j] - (i == j ? 0.1 : 0);
            assert_near(c[i * N + j], i * N + j - (j <= i ? 0.5 * product : 0), 1e-11);
        }
}

/* the answers that the authors of Philox publish for all-zero, all-one and "digits of pi" inputs */
static void test_random_bits_are_philox(void **state)
{
    (void)state;
    const uint64_t ones = UINT64_MAX;

    assert_int_equal(hb_random_bits((hb_random_key){0, 0}, 0), 0xe169c58d6627e8d5u);
    assert_int_equal(hb_random_bits((hb_random_key){ones, ones}, ones), 0x41c83b0e408f276du);
    assert_int_equal(hb_random_bits((hb_random_key){0x299f31d0a4093822u, 0x0370734413198a2eu}, 0x85a308d3243f6a88u),
                     0x94fdccebd16cfe09u);
}

static void test_uniform_fills_the_unit_interval_evenly(void **state)
{
    (void)state;
    enum { DRAWS = 100000, BINS = 20 };
    int count[BINS] = {0};

    for (int i = 0; i < DRAWS; i++) {
        double u = hb_random_uniform(key, (uint64_t)i);
        assert_true(u >= 0 && u < 1);
        count[(int)(u * BINS)]++;
    }
    /* chi-square with 19 degrees of freedom stays below 43.8 in all but 0.1 % of seeds */
    double chi2 = 0;
    for (int i = 0; i < BINS; i++)
        chi2 += pow(count[i] - DRAWS / (double)BINS, 2) / (DRAWS / (double)BINS);
    assert_true(chi2 < 43.8);
}

static void test_normal_follows_the_distribution(void **state)
{
    (void)state;
    enum { DRAWS = 100000 };
    double sum = 0, squares = 0, lagged = 0, previous = 0;
    int below[5] = {0};

    for (int i = 0; i < DRAWS; i++) {
        double v = hb_random_normal(key, (uint64_t)i);
        sum += v;
        squares += v * v;
        lagged += v * previous;
        previous = v;
        for (int k = 0; k < 5; k++)
            below[k] += v < k - 2;
    }
    /* all bounds are five standard deviations of the statistic or more */
    assert_near(sum / DRAWS, 0, 0.016);
    assert_near(squares / DRAWS, 1, 0.023);
    assert_near(lagged / DRAWS, 0, 0.016);
    for (int k = 0; k < 5; k++)
        assert_near(below[k] / (double)DRAWS, 0.5 * erfc(-(k - 2) / M_SQRT2), 0.008);
}

static void test_random_depends_on_the_key_alone(void **state)
{
    (void)state;
    hb_random_key other_seed = {43, 7}, other_stream = {42, 8};

    assert_true(hb_random_normal(key, 5) == hb_random_normal(key, 5));
    assert_true(hb_random_bits(key, 5) != hb_random_bits(key, 6));
    assert_true(hb_random_bits(key, 5) != hb_random_bits(other_seed, 5));
    assert_true(hb_random_bits(key, 5) != hb_random_bits(other_stream, 5));
}

/* the published FNV-1a values of these strings */
static void test_hash_is_fnv1a(void **state)
{
    (void)state;

    assert_int_equal(hb_hash(HB_HASH_START, "", 0), 0xcbf29ce484222325u);
    assert_int_equal(hb_hash(HB_HASH_START, "a", 1), 0xaf63dc4c8601ec8cu);
    assert_int_equal(hb_hash(hb_hash(HB_HASH_START, "foo", 3), "bar", 3), 0x85944171f73967e8u);
}

static void test_zero_of_finite_numbers(void **state)
{
    (void)state;
    const double finite[] = {0, -0.0, 1, -3e300, 5e-324, DBL_MAX}, other[] = {NAN, INFINITY, -INFINITY};

    for (size_t i = 0; i < sizeof finite / sizeof *finite; i++)
        assert_true(hb_zero_if_finite(finite[i]) == 0);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        assert_false(hb_zero_if_finite(other[i]) == 0);
        assert_false(hb_zero_if_finite_real(other[i]) == 0);
        /* one among many, and two that would cancel */
        assert_false(hb_zero_if_finite(1) + hb_zero_if_finite(other[i]) + hb_zero_if_finite(-other[i]) == 0);
    }
    assert_true(hb_zero_if_finite_real(1e30) == 0);
    assert_int_equal(hb_zero_if_finite_real(1e60) == 0, sizeof(hb_real) == sizeof(double));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zero_of_finite_numbers),
        cmocka_unit_test(test_cholesky_factor_multiplies_back),
        cmocka_unit_test(test_cholesky_refuses_what_is_not_positive_definite),
        cmocka_unit_test(test_cholesky_solves_several_right_hand_sides),
        cmocka_unit_test(test_cholesky_inverse_and_norm),
        cmocka_unit_test(test_eigenvectors_diagonalise),
        cmocka_unit_test(test_rank_update_adds_to_the_lower_triangle),
        cmocka_unit_test(test_random_bits_are_philox),
        cmocka_unit_test(test_uniform_fills_the_unit_interval_evenly),
        cmocka_unit_test(test_normal_follows_the_distribution),
        cmocka_unit_test(test_random_depends_on_the_key_alone),
        cmocka_unit_test(test_hash_is_fnv1a),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
