/* lib/estimate/belief.h against its own model, by independent code: the probabilities of all run lengths of a short
 * flight by enumeration, and the ranks of true coefficients among what is believed of vehicles drawn from the prior. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/belief.h"
#include "models.h"
#include "../models/usual_model.h"

enum { NB = 3, NX = 4, LD = 8 };

static const double period = 0.04, noise = 0.05, window = 10;
static const double prior_variance[NB] = {1, 1.5, 2};

typedef struct fixture {
    hb_model *m;
    void *memory;
    hb_belief b;
    double truth[NB], row[NX * LD];
    double excitation; /* deviation of what a coefficient of 1 moves a state by in a transition */
    hb_random_key key;
    uint64_t draws;
} fixture;

static double draw(fixture *f)
{
    return hb_random_normal(f->key, f->draws++);
}

/* The prior of a vehicle is twice as wide as the population. */
static void start(fixture *f, double change_interval, double outlier_share, double remembered, uint64_t seed)
{
    hb_model of = {HB_USUAL_SHARED_MODEL,
                   .nx = NX,
                   .nu = 1,
                   .nb = NB,
                   .activation = HB_TANH,
                   .shape = HB_VECTOR,
                   .dt = period,
                   .ridge = 1e-3,
                   .has_prior = true,
                   .basis = {.nlayers = 2, .width = {0, 4}}};
    hb_arena arena = {0};
    hb_error err;

    memset(f, 0, sizeof *f);
    f->excitation = 0.1;
    f->key = (hb_random_key){seed, 11};
    if (hb_model_new(&f->m, &of, NULL, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < NB; i++)
        f->m->prior_covariance[i * NB + i] = prior_variance[i] / 2;
    for (int d = 0; d < NX; d++)
        f->m->noise[d] = noise;
    f->b = (hb_belief){.m = f->m,
                       .ld = LD,
                       .s = {.window = remembered, .change_interval = change_interval, .outlier_share = outlier_share}};
    hb_belief_lay_out(&f->b, &arena);
    assert_int_equal(hb_arena_allocate(&arena, NULL), 0);
    f->memory = arena.base;
    hb_belief_lay_out(&f->b, &arena);
    hb_belief_start(&f->b);
}

static void finish(fixture *f)
{
    free(f->memory);
    hb_model_free(f->m);
}

static void learn(fixture *f)
{
    for (int d = 0; d < NX; d++) {
        double r = noise * draw(f);
        for (int i = 0; i < NB; i++) {
            f->row[d * LD + i] = f->excitation * draw(f);
            r += f->row[d * LD + i] * f->truth[i];
        }
        f->row[d * LD + NB] = f->row[d * LD + NB + 1] = r;
    }
    hb_belief_learn(&f->b, &(hb_evidence){.row = f->row, .dt = period, .continues = false});
}

/* ---- run lengths ---- */

enum { SHORT = 19, EVERY = 4 }; /* transitions; between births: 0.16 s. The fifth run is born at the sixteenth */

/* The noise is taken to be known, so that what follows from it can be enumerated. */
static void know_noise(hb_belief *b)
{
    for (int k = 0; k < HB_RUNS; k++)
        for (int d = 0; d < NX; d++) {
            b->run[k].noise[d] = noise * noise;
            b->run[k].slow[d] = noise * noise / 9;
        }
    memset(b->variance1, 0, NX * sizeof *b->variance1);
}

/* Solves a x = y for several right-hand sides (columns of y) by elimination; returns log |a|. */
static long double solve(int n, long double *a, int nrhs, long double *y)
{
    long double log_determinant = 0;

    for (int i = 0; i < n; i++) {
        log_determinant += logl(a[i * n + i]);
        for (int k = 0; k < n; k++) {
            if (k == i)
                continue;
            long double factor = a[k * n + i] / a[i * n + i];
            for (int j = i; j < n; j++)
                a[k * n + j] -= factor * a[i * n + j];
            for (int j = 0; j < nrhs; j++)
                y[k * nrhs + j] -= factor * y[i * nrhs + j];
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < nrhs; j++)
            y[i * nrhs + j] /= a[i * n + i];
    return log_determinant;
}

/* log of the Student-t density, but for constants, of transition t after transitions born .. t - 1, which fade. The
 * run's information is gathered from nothing, and S = G L^-1 G^T + V is solved as it stands. */
static double fit_of(double rows[SHORT][NX * LD], int born, int t)
{
    long double information[NB * NB] = {0}, y[NB * (1 + NX)] = {0}, s[NX * NX], left[NX], distance = 0;

    for (int i = 0; i < NB; i++)
        information[i * NB + i] = 1 / (long double)prior_variance[i];
    for (int past = born; past < t; past++) {
        long double weight = expl(-(long double)(t - past) * period / window) / (noise * noise);
        for (int d = 0; d < NX; d++)
            for (int i = 0; i < NB; i++) {
                const double *row = rows[past] + d * LD;
                y[i * (1 + NX)] += weight * row[i] * row[NB];
                for (int j = 0; j < NB; j++)
                    information[i * NB + j] += weight * row[i] * row[j];
            }
    }
    for (int d = 0; d < NX; d++)
        for (int i = 0; i < NB; i++)
            y[i * (1 + NX) + 1 + d] = rows[t][d * LD + i];
    solve(NB, information, 1 + NX, y);
    for (int d = 0; d < NX; d++) {
        left[d] = rows[t][d * LD + NB];
        for (int i = 0; i < NB; i++)
            left[d] -= rows[t][d * LD + i] * y[i * (1 + NX)];
        for (int e = 0; e < NX; e++) {
            s[d * NX + e] = d == e ? (long double)noise * noise : 0;
            for (int i = 0; i < NB; i++)
                s[d * NX + e] += rows[t][d * LD + i] * y[i * (1 + NX) + 1 + e];
        }
    }
    long double solved[NX];
    memcpy(solved, left, sizeof left);
    long double log_determinant = solve(NX, s, 1, solved);
    for (int d = 0; d < NX; d++)
        distance += left[d] * solved[d];
    /* five degrees of freedom */
    return (double)(-((5 + NX) * log1pl(distance / 5) + log_determinant) / 2);
}

/* After each transition: the probability that the run began with transition j, of all j at which one may: a chain in
 * which nothing changes, or a run is born, at each birth with the chance of a change; each transition counts for a
 * quarter, as there are four within the time for which errors last. */
static void test_run_lengths_are_those_of_enumeration(void **state)
{
    (void)state;
    const double change_interval = 20, chance = EVERY * period / change_interval, temper = period / 0.16;
    double farthest = 0, told = 0;

    for (uint64_t seed = 0; seed < 30; seed++) {
        double rows[SHORT][NX * LD], evidence[SHORT] = {0}, prior[SHORT] = {1};
        int births[SHORT] = {0}, nbirths = 1;
        fixture f;
        start(&f, change_interval, 1e-9, window, seed + 1);
        know_noise(&f.b);
        for (int i = 0; i < NB; i++)
            f.truth[i] = 0.5 * draw(&f);
        int change = 5 + (int)(seed % 8);
        for (int t = 0; t < SHORT; t++) {
            double expected[SHORT], sum = 0;
            for (int i = 0; i < NB && t == change; i++)
                f.truth[i] += 0.4 * draw(&f);
            learn(&f);
            know_noise(&f.b);
            memcpy(rows[t], f.row, sizeof f.row);
            if ((t + 1) % EVERY == 0) {
                double all = 0; /* that the newborn has its share of */
                for (int j = 0; j < nbirths; j++) {
                    all += prior[j] * exp(evidence[j]);
                    prior[j] *= 1 - chance;
                }
                prior[nbirths] = chance * all;
                births[nbirths++] = t;
            }
            for (int j = 0; j < nbirths; j++) {
                evidence[j] += temper * fit_of(rows, births[j], t);
                sum += expected[j] = prior[j] * exp(evidence[j]);
            }
            for (int j = 0; j < nbirths; j++) {
                double got = exp(f.b.log_weight[j]);
                farthest = fmax(farthest, fabs(got - expected[j] / sum));
                /* without a change it is 3e-5: at one, what also may be an outlier is not enumerated */
                if (!(fabs(got - expected[j] / sum) < (t < change ? 1e-3 : 0.02)))
                    fail_msg("flight %d, transition %d, the run that began with %d: %.5f, by enumeration %.5f",
                             (int)seed, t, births[j], got, expected[j] / sum);
            }
            told = fmax(told, nbirths > 2 ? 1 - exp(f.b.log_weight[0]) : 0);
        }
        finish(&f);
    }
    printf("run lengths differ from enumeration by %.2g at most; a change was believed with %.3f\n", farthest, told);
    assert_true(told > 0.5); /* else nothing but the oldest run was ever compared */
}

/* ---- ranks ---- */

/* Sum over bins of (counted - expected)^2 / expected */
static double chi_square(const int *count, int bins, int all)
{
    double sum = 0, expected = (double)all / bins;

    for (int i = 0; i < bins; i++)
        sum += (count[i] - expected) * (count[i] - expected) / expected;
    return sum;
}

/* Probability of a hypothesis where one run alone lives. */
static double weight(const hb_belief *b, int h)
{
    return h == 0 ? exp(b->log_worth[0]) : h >= HB_RUNS ? exp(b->log_worth[h - HB_RUNS + 1]) : 0;
}

/* A vehicle drawn from the prior: where its coefficient is within what its run says of it is uniform; noise is learned
 * meanwhile. In a direction that is drawn too, so that each vehicle counts once. */
static void test_ranks_of_true_coefficients_are_uniform(void **state)
{
    (void)state;
    enum { VEHICLES = 3000, BINS = 12 };
    static const int transitions[] = {3, 10, 40};
    /* seconds: what fades makes the belief wider than the errors of its mean, by as much as chance can hide here */
    const double long_window = 100 * window;
    /* of three transitions so little is seen that most of what is believed is the prior */
    static const double excitation[] = {0.008, 0.1, 0.1};

    for (int n = 0; n < 3; n++) {
        int count[BINS] = {0};
        for (uint64_t vehicle = 0; vehicle < VEHICLES; vehicle++) {
            double direction[NB], at = 0, variance = 0;
            fixture f;
            start(&f, 0, 0.01, long_window, 1000 + vehicle);
            f.excitation = excitation[n];
            for (int i = 0; i < NB; i++) {
                f.truth[i] = sqrt(prior_variance[i]) * draw(&f);
                direction[i] = draw(&f);
            }
            for (int t = 0; t < transitions[n]; t++)
                learn(&f);
            hb_belief_describe(&f.b);
            for (int i = 0; i < NB; i++) {
                at += direction[i] * (f.truth[i] - f.b.run[0].unknown[i]);
                for (int j = 0; j < NB; j++) {
                    double own = f.b.covariance[i * NB + j];
                    for (int h = 0; h < HB_HYPOTHESES; h++)
                        own -= weight(&f.b, h) * (f.b.run[h].unknown[i] - f.b.mean[i]) *
                               (f.b.run[h].unknown[j] - f.b.mean[j]);
                    variance += direction[i] * own * direction[j];
                }
            }
            double rank = 0.5 * erfc(-at / sqrt(2 * variance));
            count[(int)fmin(BINS - 1, floor(rank * BINS))]++;
            finish(&f);
        }
        double off = chi_square(count, BINS, VEHICLES);
        printf("%2d transitions: chi-square of ranks %.1f over %d bins:", transitions[n], off, BINS);
        for (int i = 0; i < BINS; i++)
            printf(" %d", count[i]);
        printf("\n");
        assert_true(off < 31.3); /* 11 degrees of freedom: one of a thousand is beyond */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_lengths_are_those_of_enumeration),
        cmocka_unit_test(test_ranks_of_true_coefficients_are_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
