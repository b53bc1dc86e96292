/* lib/estimate/belief.c against Bayesian regression by brute force in long double, and against what it is for: lies,
 * changes, noise that the file does not know, and vehicles of which nothing is to be learned. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/belief.h"
#include "models.h"
#include "../models/usual_model.h"

enum { NB = 3, NX = 4, LD = 8, NF = 2, N = NB + NF };

static const double period = 0.04;

typedef struct fixture {
    hb_model *m;
    void *memory;
    hb_belief b;
    double truth[NX * NB], noise, row[NX * LD];
    double fixed[NF], at[NF]; /* the truth, and what rows are evaluated at */
    double parallel;          /* of D's columns: 1 if they are the same */
    bool still;               /* D = 0 */
    hb_random_key key;
    uint64_t draws;
} fixture;

static double draw(fixture *f)
{
    return hb_random_normal(f->key, f->draws++);
}

/* Of nfixed unknowns that stay, within -least and 10. */
static void start_with(fixture *f, hb_shape shape, double change_interval, int nfixed, double least)
{
    hb_model of = {HB_USUAL_SHARED_MODEL,
                   .nx = NX,
                   .nu = 1,
                   .nb = NB,
                   .activation = HB_TANH,
                   .shape = shape,
                   .dt = period,
                   .ridge = 1e-3,
                   .has_prior = true,
                   .basis = {.nlayers = 2, .width = {0, 4}}};
    hb_arena arena = {0};
    hb_error err;
    int blocks = shape == HB_PER_STATE ? NX : 1;

    memset(f, 0, sizeof *f);
    f->key = (hb_random_key){3, 4};
    f->noise = 0.05;
    if (hb_model_new(&f->m, &of, NULL, &err))
        fail_msg("%s", err.text);
    for (int k = 0; k < blocks; k++)
        for (int i = 0; i < NB; i++)
            f->m->prior_covariance[(k * NB + i) * NB + i] = 1 + 0.5 * i;
    for (int d = 0; d < NX; d++)
        f->m->noise[d] = f->noise;
    f->b = (hb_belief){.m = f->m,
                       .ld = LD,
                       .nfixed = nfixed,
                       .least = {-least, -10},
                       .most = {10, 10},
                       .s = {.window = 10, .change_interval = change_interval, .outlier_share = 0.01}};
    hb_belief_lay_out(&f->b, &arena);
    assert_int_equal(hb_arena_allocate(&arena, NULL), 0);
    f->memory = arena.base;
    hb_belief_lay_out(&f->b, &arena);
    hb_belief_start(&f->b);
    for (int i = 0; i < NX * NB; i++)
        f->truth[i] = 0.8 * draw(f);
}

static void start(fixture *f, hb_shape shape, double change_interval)
{
    start_with(f, shape, change_interval, 0, 0);
}

static void finish(fixture *f)
{
    free(f->memory);
    hb_model_free(f->m);
}

static const double *truth_of(const fixture *f, int d)
{
    return f->truth + (f->m->shape == HB_PER_STATE ? d * NB : 0);
}

/* A transition of the vehicle, with white noise and, in state 0, an error. */
static void learn(fixture *f, double error)
{
    for (int d = 0; d < NX; d++) {
        double r = f->noise * draw(f) + (d == 0 ? error : 0);
        for (int i = 0; i < NB; i++) {
            f->row[d * LD + i] = 0.1 * draw(f);
            r += f->row[d * LD + i] * truth_of(f, d)[i];
        }
        double common = draw(f);
        for (int i = 0; i < f->b.nfixed; i++) {
            double slope = f->still ? 0 : 0.1 * (f->parallel * common + sqrt(1 - f->parallel * f->parallel) * draw(f));
            f->row[d * LD + NB + i] = slope;
            r += slope * (f->fixed[i] - f->at[i]);
        }
        /* the average vehicle stays where it is */
        f->row[d * LD + f->b.n] = f->row[d * LD + f->b.n + 1] = r;
    }
    hb_belief_learn(&f->b, &(hb_evidence){.row = f->row, .at = f->at, .dt = period, .continues = false});
}

static double off(const fixture *f)
{
    double most = 0;

    for (int i = 0; i < f->b.nproblems * NB; i++)
        most = fmax(most, fabs(f->b.mean[i] - f->truth[i]));
    return most;
}

static void solve_exactly(long double a[NB][NB + 1])
{
    for (int i = 0; i < NB; i++)
        for (int k = 0; k < NB; k++) {
            if (k == i)
                continue;
            long double factor = a[k][i] / a[i][i];
            for (int j = i; j <= NB; j++)
                a[k][j] -= factor * a[i][j];
        }
}

/* The run's coefficients are those of all rows ever, fading, with the noise in force and the prior, solved at once. */
static void test_a_run_is_regression_with_a_prior(void **state)
{
    (void)state;
    for (int shape = 0; shape < 2; shape++) {
        fixture f;
        long double a[NX][NB][NB + 1] = {{{0}}};
        start(&f, shape ? HB_PER_STATE : HB_VECTOR, 0);
        for (int n = 0; n < 300; n++) {
            double probability[NX];
            learn(&f, 0);
            const hb_prediction *p = &f.b.prediction[0];
            long double fading = expl(-(long double)period / 10);
            for (int d = 0; d < NX; d++)
                probability[d] = p->believed;
            for (int d = 0; d < NX; d++)
                for (int i = 0; i < NB; i++)
                    for (int j = 0; j <= NB; j++)
                        a[d][i][j] =
                            fading * a[d][i][j] + (long double)probability[d] * f.row[d * LD + i] * f.row[d * LD + j];
            if (n % 50 != 49)
                continue;
            const double *c = hb_belief_possible(&f.b);
            assert_non_null(c);
            for (int k = 0; k < f.b.nproblems; k++) {
                long double sum[NB][NB + 1] = {{0}};
                for (int d = 0; d < NX; d++)
                    for (int i = 0; i < NB && (f.b.nproblems == 1 || d == k); i++)
                        for (int j = 0; j <= NB; j++)
                            sum[i][j] += a[d][i][j] / f.b.noise[d];
                for (int i = 0; i < NB; i++)
                    sum[i][i] += 1 / (2 * (1 + 0.5L * i));
                solve_exactly(sum);
                for (int i = 0; i < NB; i++)
                    assert_near(c[k * NB + i], (double)(sum[i][NB] / sum[i][i]),
                                1e-5); /* the prior is lifted by 1e-6 */
            }
        }
        assert_true(off(&f) < 0.1);
        finish(&f);
    }
}

static void solve_all(long double a[N][N + 1])
{
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            if (k == i)
                continue;
            long double factor = a[k][i] / a[i][i];
            for (int j = i; j <= N; j++)
                a[k][j] -= factor * a[i][j];
        }
}

/* Without forgetting, coefficients and unknowns that stay are those of all rows solved at once, wherever these were
 * evaluated. */
static void test_unknowns_that_stay_are_regression_too(void **state)
{
    (void)state;
    fixture f;
    long double a[N][N + 1] = {{0}};

    start_with(&f, HB_VECTOR, 0, NF, 10);
    f.b.s.window = 1e9;
    f.fixed[0] = 0.7;
    f.fixed[1] = -1.3;
    f.parallel = 0.6;
    for (int i = 0; i < N; i++)
        a[i][i] = i < NB ? 1 / (2 * (1 + 0.5L * i)) : 1;
    for (int n = 0; n < 200; n++) {
        f.at[0] = 0.5 * draw(&f);
        f.at[1] = 0.5 * draw(&f);
        f.noise = 0.01; /* less than the file's, so that this holds throughout */
        learn(&f, 0);
        const hb_prediction *p = &f.b.prediction[0];
        for (int d = 0; d < NX; d++) {
            const double *row = f.row + d * LD;
            long double right = row[N];
            for (int i = 0; i < NF; i++)
                right += (long double)row[NB + i] * f.at[i];
            for (int i = 0; i < N; i++) {
                for (int j = 0; j < N; j++)
                    a[i][j] += (long double)p->believed / p->variance[d] * row[i] * row[j];
                a[i][N] += (long double)p->believed / p->variance[d] * row[i] * right;
            }
        }
        if (n % 40 != 39)
            continue;
        long double exact[N][N + 1];
        memcpy(exact, a, sizeof exact);
        solve_all(exact);
        for (int i = 0; i < N; i++)
            /* noise is learned meanwhile: what is known of those that stay was weighed by that of then */
            assert_near(f.b.run[0].unknown[i], (double)(exact[i][N] / exact[i][i]), 2e-4);
    }
    assert_near(f.b.mean[NB], f.fixed[0], 0.1);
    assert_near(f.b.mean[NB + 1], f.fixed[1], 0.1);
    finish(&f);
}

/* What is known of them is not forgotten with the window, and a vehicle that changes has them still. */
static void test_unknowns_that_stay_do(void **state)
{
    (void)state;
    fixture f;
    double mean[NF], covariance[NF * NF], later[NF], later_covariance[NF * NF];

    start_with(&f, HB_VECTOR, 600, NF, 10);
    f.b.s.window = 0.4;
    f.fixed[0] = 0.7;
    f.fixed[1] = -1.3;
    for (int n = 0; n < 100; n++)
        learn(&f, 0);
    hb_belief_fixed(&f.b, mean, covariance);
    f.still = true;
    for (int n = 0; n < 500; n++) {
        for (int i = 0; i < NB && n == 250; i++)
            f.truth[i] += i % 2 ? -2 : 2;
        learn(&f, 0);
    }
    assert_near(*f.b.changes, 1, 0);
    hb_belief_fixed(&f.b, later, later_covariance);
    for (int i = 0; i < NF; i++) {
        assert_near(mean[i], f.fixed[i], 4 * sqrt(covariance[i * NF + i]));
        assert_near(later[i], mean[i], 0.02);
        assert_true(covariance[i * NF + i] < 0.01);
        /* once between changes of 600 s it is, however */
        assert_true(later_covariance[i * NF + i] > covariance[i * NF + i] && later_covariance[i * NF + i] < 0.04);
    }
    finish(&f);
}

/* Where one of two that are hard to tell apart is beyond its bound, the other one is what fits best then: of columns with
 * a correlation of rho^2 it moves by that much of what the first one cannot. */
static void test_a_bound_moves_the_other_unknown(void **state)
{
    (void)state;
    fixture f;

    start_with(&f, HB_VECTOR, 600, NF, 0.4);
    f.fixed[0] = -1;
    f.fixed[1] = 0.3;
    f.parallel = 0.98;
    for (int n = 0; n < 2000; n++)
        learn(&f, 0);
    assert_near(f.b.mean[NB], -0.4, 1e-6);
    assert_near(f.b.mean[NB + 1], f.fixed[1] + f.parallel * f.parallel * (f.fixed[0] + 0.4), 0.03);
    finish(&f);
}

/* Bands of 90 % hold the truth in 84 to 97 % of vehicles drawn from the prior itself. */
static void test_bands_hold(void **state)
{
    (void)state;
    int inside = 0, all = 0;

    for (uint64_t vehicle = 0; vehicle < 150; vehicle++) {
        fixture f;
        start(&f, HB_VECTOR, 600);
        f.key.stream = 100 + vehicle;
        for (int i = 0; i < NB; i++)
            f.truth[i] = sqrt(2 * (1 + 0.5 * i)) * draw(&f);
        for (int n = 0; n < 60; n++)
            learn(&f, 0);
        hb_belief_describe(&f.b);
        for (int i = 0; i < NB; i++, all++)
            inside += fabs(f.b.mean[i] - f.truth[i]) < 1.645 * sqrt(f.b.covariance[i * NB + i]);
        finish(&f);
    }
    printf("90 %% bands hold %.1f %% of %d coefficients\n", 100.0 * inside / all, all);
    assert_true(inside > 0.84 * all && inside < 0.97 * all);
}

static void test_a_lie_is_not_believed(void **state)
{
    (void)state;
    const double size[] = {3, 30, 1e6};

    for (int kind = 0; kind < 3; kind++) {
        fixture f;
        start(&f, HB_VECTOR, 600);
        for (int n = 0; n < 100; n++)
            learn(&f, 0);
        double before[NB];
        memcpy(before, f.b.mean, sizeof before);
        learn(&f, size[kind]);
        assert_true(*f.b.outlier > 0.99);
        learn(&f, -size[kind]);
        for (int i = 0; i < NB; i++)
            assert_near(f.b.mean[i], before[i], 0.02);
        for (int n = 0; n < 50; n++)
            learn(&f, 0);
        assert_true(off(&f) < 0.1);
        assert_near(*f.b.changes, 0, 0);
        finish(&f);
    }
}

/* Other coefficients are in use within half a second, and told after a second more. */
static void test_a_change_is_used_and_told(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        fixture f;
        start(&f, HB_VECTOR, 600);
        f.key.stream = 40 + seed;
        for (int n = 0; n < 250; n++)
            learn(&f, 0);
        assert_near(*f.b.changes, 0, 0);
        for (int i = 0; i < NB; i++)
            f.truth[i] += i % 2 ? -2 : 2;
        for (int n = 0; n < 25; n++)
            learn(&f, 0);
        assert_true(off(&f) < 0.7);
        for (int n = 0; n < 50; n++)
            learn(&f, 0);
        assert_true(off(&f) < 0.2);
        assert_near(*f.b.changes, 1, 0);
        finish(&f);
    }
}

/* The file believes too little noise: known within a second, and the coefficients are as good as they can be. */
static void test_noise_is_learned(void **state)
{
    (void)state;
    fixture f;

    start(&f, HB_VECTOR, 600);
    f.noise = 0.5; /* ten times the file's */
    for (int n = 0; n < 25; n++)
        learn(&f, 0);
    for (int d = 0; d < NX; d++)
        assert_true(f.b.noise[d] > 0.1 * f.noise * f.noise);
    for (int n = 0; n < 250; n++)
        learn(&f, 0);
    for (int d = 0; d < NX; d++)
        assert_near(sqrt(f.b.noise[d]), f.noise, 0.3 * f.noise);
    finish(&f);
}

/* A vehicle that is the population's mean, and noise that says nothing: its coefficients are used as they are. */
static void test_what_is_not_earned_is_not_used(void **state)
{
    (void)state;
    double adapted = 0, mean = 0;

    for (uint64_t seed = 0; seed < 20; seed++) {
        fixture f;
        start(&f, HB_VECTOR, 600);
        f.key.stream = 70 + seed;
        f.noise = 1;
        memset(f.truth, 0, sizeof f.truth);
        for (int n = 0; n < 100; n++)
            learn(&f, 0);
        const hb_run *run = &f.b.run[(int)*f.b.main_run];
        for (int i = 0; i < NB; i++) {
            adapted += pow(run->unknown[i], 2);
            mean += pow(f.b.mean[i], 2);
        }
        finish(&f);
    }
    printf("energy of errors: %.3f by the run alone, %.3f as used\n", adapted, mean);
    assert_true(mean < adapted);
}

/* A physical model's c = 0 may be nothing that any vehicle is: then it is no rival, whatever it would explain. */
static void test_the_average_is_a_rival_only_if_it_is_of_the_population(void **state)
{
    (void)state;
    const double mean[] = {0.5, 2, 6};
    fixture f;

    for (int k = 0; k < 3; k++) {
        start(&f, HB_VECTOR, 600);
        double square = 0; /* deviations of c = 0 from the population, which is independent in each direction */
        for (int i = 0; i < NB; i++) {
            f.m->prior_mean[i] = mean[k];
            square += mean[k] * mean[k] / (1 + 0.5 * i);
        }
        hb_belief_start(&f.b);
        memset(f.truth, 0, sizeof f.truth);
        assert_near(f.b.average_share, 0.1 * fmin(1, exp((NB - square) / 2)), 1e-6);
        for (int i = 0; i < 25; i++)
            learn(&f, 0);
        /* that is what the vehicle is: it is believed at once, or learned as any other */
        assert_true(k == 0 ? hb_belief_adapted(&f.b) < 0.5 : hb_belief_adapted(&f.b) > (k == 1 ? 0.5 : 0.99));
        assert_true(off(&f) < 0.25);
        finish(&f);
    }
}

/* States 0 and 1 are velocities, 2 and 3 what they add up to. A jump of a velocity that the position goes along with is
 * of the dynamics, one that it knows nothing of is of a sensor; the first transition tells. */
static void test_kinematics_tell_dynamics_from_sensors(void **state)
{
    static const double carry[NX * NX] = {1, 0, 0, 0, 0, 1, 0, 0, 0.25, 0, 1, 0, 0, 0.25, 0, 1};

    (void)state;
    for (int moves = 0; moves < 2; moves++) {
        fixture f;
        start(&f, HB_VECTOR, 600);
        f.m->output[2] = f.m->output[3] = false;
        for (int t = 0; t <= 200; t++) {
            double left[NX];
            for (int d = 0; d < NX; d++)
                left[d] = f.noise * draw(&f);
            if (t == 200) {
                left[0] += 10;
                left[2] += moves ? 0.25 * 10 : 0;
            }
            for (int d = 0; d < NX; d++) {
                double r = left[d];
                for (int i = 0; i < NB; i++) {
                    f.row[d * LD + i] = d < 2 ? 0.1 * draw(&f) : 0.25 * f.row[(d - 2) * LD + i];
                    r += f.row[d * LD + i] * truth_of(&f, d)[i];
                }
                f.row[d * LD + NB] = f.row[d * LD + NB + 1] = r;
            }
            hb_belief_learn(&f.b, &(hb_evidence){.row = f.row, .carry = carry, .dt = period});
            assert_true(t < 20 || t == 200 || *f.b.foreign < 0.01);
        }
        assert_true(*f.b.outlier > 0.99);
        assert_true(moves ? *f.b.foreign > 0.9 : *f.b.foreign < 0.1);
        finish(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_is_regression_with_a_prior),
        cmocka_unit_test(test_unknowns_that_stay_are_regression_too),
        cmocka_unit_test(test_unknowns_that_stay_do),
        cmocka_unit_test(test_a_bound_moves_the_other_unknown),
        cmocka_unit_test(test_bands_hold),
        cmocka_unit_test(test_a_lie_is_not_believed),
        cmocka_unit_test(test_a_change_is_used_and_told),
        cmocka_unit_test(test_noise_is_learned),
        cmocka_unit_test(test_what_is_not_earned_is_not_used),
        cmocka_unit_test(test_the_average_is_a_rival_only_if_it_is_of_the_population),
        cmocka_unit_test(test_kinematics_tell_dynamics_from_sensors),
    };

    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
