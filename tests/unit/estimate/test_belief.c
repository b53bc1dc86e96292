/* lib/estimate/posterior.c against Bayesian regression by brute force: all rows of the past, summed up from nothing.
 * The prior's covariance is lifted by 1e-6 there, which is what tolerances allow for. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/posterior.h"
#include "models.h"
#include "../models/usual_model.h"

enum { NB = 4, NX = 3, LD = 8, MOST = 400 };

typedef struct fixture {
    hb_model *m;
    void *memory;
    hb_posterior p;
    double row[MOST][NX * LD], weight[MOST];
    int count; /* rows ever added; window: the newest of them that are in it */
    hb_random_key key;
    uint64_t draws;
} fixture;

static double draw(fixture *f)
{
    return hb_random_normal(f->key, f->draws++);
}

static void start(fixture *f, bool prior, hb_shape shape, int nw)
{
    hb_model of = {
        HB_USUAL_SHARED_MODEL, .nx = NX,      .nu = 1,    .nb = NB,           .activation = HB_TANH,
        .shape = shape,        .ridge = 1e-3, .dt = 0.04, .has_prior = prior, .basis = {.nlayers = 2, .width = {0, 4}}};
    hb_arena arena = {0};
    int nproblems = shape == HB_PER_STATE ? NX : 1;

    memset(f, 0, sizeof *f);
    f->key = (hb_random_key){3, 4};
    assert_int_equal(hb_model_new(&f->m, &of, "", NULL), 0);
    for (int k = 0; k < nproblems && prior; k++) {
        double a[NB][NB];
        for (int i = 0; i < NB; i++)
            for (int j = 0; j < NB; j++)
                a[i][j] = draw(f);
        for (int i = 0; i < NB; i++) {
            f->m->prior_mean[shape == HB_PER_STATE ? i * NX + k : i] = draw(f);
            for (int j = 0; j < NB; j++)
                for (int l = 0; l < NB; l++)
                    f->m->prior_covariance[(k * NB + i) * NB + j] += a[i][l] * a[j][l] + (i == j) * 0.1 / NB;
        }
    }
    for (int d = 0; d < NX && prior; d++)
        f->m->noise[d] = 1e-3;
    f->p = (hb_posterior){.m = f->m, .nw = nw, .ridge = 1e-3, .fade = 1e9, .spread = 1};
    hb_posterior_lay_out(&f->p, &arena);
    assert_int_equal(hb_arena_allocate(&arena, NULL), 0);
    hb_posterior_lay_out(&f->p, &arena);
    f->memory = arena.base;
    assert_int_equal(f->p.ld, LD);
    hb_posterior_start(&f->p);
    hb_posterior_guess(&f->p, (double[]){0.1, 0.4, 0.02});
}

static void end(fixture *f)
{
    free(f->memory);
    hb_model_free(f->m);
}

/* a new row, of a vehicle with coefficients 1, 2, 3, 4 */
static const double *next_row(fixture *f)
{
    double *row = f->row[f->count % MOST];

    for (int d = 0; d < NX; d++) {
        row[d * LD + NB] = 0.1 * draw(f);
        for (int i = 0; i < NB; i++) {
            row[d * LD + i] = draw(f);
            row[d * LD + NB] += (i + 1) * row[d * LD + i];
        }
        row[d * LD + NB + 1] = draw(f);
    }
    f->weight[f->count % MOST] = hb_random_uniform(f->key, f->draws++);
    f->count++;
    return row;
}

/* L and c of rows `from` on, with the noise at hand */
static void brute(fixture *f, int from, int problem, double *l, double *c)
{
    bool per_state = f->m->shape == HB_PER_STATE;
    double a[NB * (NB + 1)] = {0}, weights = 0, noise = 0;

    for (int k = from; k < f->count; k++) {
        weights += f->weight[k];
        for (int d = per_state ? problem : 0; d < (per_state ? problem + 1 : NX); d++)
            for (int i = 0; i < NB; i++)
                for (int j = 0; j <= NB; j++)
                    a[i * (NB + 1) + j] += f->weight[k] * f->row[k][d * LD + i] * f->row[k][d * LD + j] / f->p.noise[d];
    }
    for (int d = per_state ? problem : 0; d < (per_state ? problem + 1 : NX); d++)
        noise += f->p.noise[d] / (per_state ? 1 : NX);
    if (f->m->has_prior) {
        for (int j = 0; j < NB; j++) { /* column j of P0^-1 */
            double column[NB * (NB + 1)] = {0};
            for (int i = 0; i < NB; i++)
                for (int n = 0; n < NB; n++)
                    column[i * (NB + 1) + n] = f->m->prior_covariance[(problem * NB + i) * NB + n];
            column[j * (NB + 1) + NB] = 1;
            eliminate(NB, NB + 1, column);
            for (int i = 0; i < NB; i++) {
                double precision = column[i * (NB + 1) + NB];
                a[i * (NB + 1) + j] += precision;
                a[i * (NB + 1) + NB] += precision * f->m->prior_mean[per_state ? j * NX + problem : j];
            }
        }
    } else {
        for (int i = 0; i < NB; i++)
            a[i * (NB + 1) + i] += 1e-3 * weights / noise;
    }
    for (int i = 0; i < NB; i++)
        for (int j = 0; j < NB; j++)
            l[i * NB + j] = a[i * (NB + 1) + j];
    eliminate(NB, NB + 1, a);
    for (int i = 0; i < NB; i++)
        c[i] = a[i * (NB + 1) + NB];
}

static void compare(fixture *f, int from, double tolerance)
{
    for (int k = 0; k < f->p.nproblems; k++) {
        double l[NB * NB], c[NB];
        assert_true(hb_posterior_solve(&f->p, k));
        brute(f, from, k, l, c);
        for (int i = 0; i < NB; i++) {
            assert_near(f->p.coefficient[k * NB + i], c[i], tolerance);
            for (int j = 0; j < NB; j++) { /* L times the covariance is one */
                double product = 0;
                for (int n = 0; n < NB; n++)
                    product += l[i * NB + n] * f->p.covariance[(k * NB + n) * NB + j];
                assert_near(product, i == j, 1e3 * tolerance);
            }
        }
    }
}

static void test_against_bayesian_regression(void **state)
{
    (void)state;
    for (int option = 0; option < 4; option++) {
        static fixture f;
        start(&f, option % 2, option / 2 ? HB_PER_STATE : HB_VECTOR, 320);
        for (int k = 0; k < 60; k++) {
            const double *row = next_row(&f);
            hb_posterior_add(&f.p, row, f.weight[f.count - 1]);
            if (k > 10)
                compare(&f, 0, 1e-4);
        }
        /* what has left the window still counts in full, as long as memory has not given way */
        for (int k = 0; k < 15; k++)
            hb_posterior_depart(&f.p, f.row[k], f.weight[k], 0.04);
        if (f.m->has_prior)
            compare(&f, 0, 1e-4);
        /* a row seen in a new light, with another weight */
        double before[NX * LD];
        memcpy(before, f.row[50], sizeof before);
        for (int i = 0; i < NX * LD; i++)
            f.row[50][i] *= 1.1;
        hb_posterior_replace(&f.p, f.count - 1 - 50, before, f.weight[50], f.row[50], 0.5);
        f.weight[50] = 0.5;
        if (f.m->has_prior)
            compare(&f, 0, 1e-4);
        end(&f);
    }
}

static void test_distance_is_mahalanobis(void **state)
{
    (void)state;
    static fixture f;
    double s[NX * (NX + 1)], nu[NX] = {0.3, -0.2, 0.1}, variance[NX];
    const double extra[NX] = {0.01, 0.02, 0.03};

    start(&f, true, HB_VECTOR, 100);
    for (int k = 0; k < 5; k++)
        hb_posterior_add(&f.p, next_row(&f), 1);
    assert_true(hb_posterior_solve(&f.p, 0));
    const double *row = next_row(&f);
    for (int d = 0; d < NX; d++) {
        for (int other = 0; other < NX; other++) {
            double sum = d == other ? f.p.noise[d] + extra[d] : 0;
            for (int i = 0; i < NB; i++)
                for (int j = 0; j < NB; j++)
                    sum += row[d * LD + i] * f.p.covariance[i * NB + j] * row[other * LD + j];
            s[d * (NX + 1) + other] = sum;
        }
        s[d * (NX + 1) + NX] = nu[d];
    }
    double diagonal[NX] = {s[0], s[NX + 2], s[2 * NX + 4]}, expected = 0;
    eliminate(NX, NX + 1, s);
    for (int d = 0; d < NX; d++)
        expected += nu[d] * s[d * (NX + 1) + NX];
    assert_near(hb_posterior_distance(&f.p, row, nu, extra, variance), expected, 1e-9);
    for (int d = 0; d < NX; d++)
        assert_near(variance[d], diagonal[d], 1e-12);
    end(&f);
}

/* Noise that is drawn is noise that is found, in each state, and the plausibility is that of the prior. */
/* The coefficients that would hold with one more transition are those that hold with it, and where rows do not depend
 * on coefficients, the distance along them is that of the innovation. */
static void test_a_transition_is_tried(void **state)
{
    (void)state;
    for (int per_state = 0; per_state < 2; per_state++) {
        fixture f;
        double nu[NX], variance[NX], trial[NX * NB], extra[NX] = {0.03, 0.2, 0.1}, none[NX] = {0};
        start(&f, true, per_state ? HB_PER_STATE : HB_VECTOR, MOST);
        for (int k = 0; k < 3; k++)
            hb_posterior_add(&f.p, next_row(&f), 1);
        for (int k = 0; k < f.p.nproblems; k++)
            assert_true(hb_posterior_solve(&f.p, k));
        const double *row = next_row(&f);
        for (int d = 0; d < NX; d++) {
            nu[d] = row[d * LD + NB] + 0.5;
            f.row[3][d * LD + NB] += 0.5; /* a surprise */
            for (int i = 0; i < NB; i++)
                nu[d] -= row[d * LD + i] * f.p.coefficient[(per_state ? d : 0) * NB + i];
        }
        hb_posterior_try_add(&f.p, row, extra, trial);
        double expected = hb_posterior_distance(&f.p, row, nu, extra, variance);
        assert_near(hb_posterior_distance_along(&f.p, row, extra, trial), expected, 1e-9 * expected);
        hb_posterior_try_add(&f.p, row, none, trial);
        hb_posterior_add(&f.p, row, 1);
        for (int k = 0; k < f.p.nproblems; k++) {
            assert_true(hb_posterior_solve(&f.p, k));
            for (int i = 0; i < NB; i++)
                assert_near(trial[k * NB + i], f.p.coefficient[k * NB + i], 1e-9);
        }
        end(&f);
    }
}

static void test_noise_is_found(void **state)
{
    (void)state;
    static fixture f;
    const double deviation[NX] = {0.3, 0.2, 0.5};

    start(&f, true, HB_VECTOR, MOST);
    for (int k = 0; k < 300; k++) {
        double *row = (double *)next_row(&f);
        for (int d = 0; d < NX; d++) {
            row[d * LD + NB] = deviation[d] * draw(&f);
            for (int i = 0; i < NB; i++)
                row[d * LD + NB] += (i + 1) * row[d * LD + i];
        }
        hb_posterior_add(&f.p, row, 1);
        hb_posterior_solve(&f.p, 0);
        hb_posterior_learn_noise(&f.p);
    }
    for (int d = 0; d < NX; d++)
        assert_near(sqrt(f.p.noise[d]) / deviation[d], 1, 0.15);
    for (int i = 0; i < NB; i++)
        assert_near(f.p.coefficient[i], i + 1, 4 * sqrt(f.p.covariance[i * NB + i]));
    assert_near(hb_posterior_plausibility(&f.p, f.p.c0), 0, 1e-12);
    end(&f);
}

/* Calm flight: rows that excite one direction alone. The others are forgotten by nothing, that one is renewed. */
static void test_calm_flight_forgets_nothing(void **state)
{
    (void)state;
    static fixture f;
    enum { NW = 64 };
    double ring[NW][NX * LD], before[NB], precision[NB];

    start(&f, true, HB_VECTOR, NW);
    for (int k = 0; k < 2000; k++) {
        double *slot = ring[k % NW];
        if (k >= NW)
            hb_posterior_depart(&f.p, slot, 1, 0.04);
        memset(slot, 0, sizeof *ring);
        for (int d = 0; d < NX; d++) {
            for (int i = 0; i < (k < 2 * NW ? NB : 1); i++) {
                slot[d * LD + i] = draw(&f);
                /* the direction that is excited drifts */
                slot[d * LD + NB] += (i + 1 + (i == 0 ? 1e-4 * k : 0)) * slot[d * LD + i];
            }
            slot[d * LD + NB] += sqrt(f.p.noise[d]) * draw(&f);
        }
        hb_posterior_add(&f.p, slot, 1);
        hb_posterior_solve(&f.p, 0);
        if (k == 3 * NW)
            for (int i = 0; i < NB; i++) {
                before[i] = f.p.coefficient[i];
                precision[i] = 1 / f.p.covariance[i * NB + i];
            }
    }
    for (int i = 1; i < NB; i++) {
        assert_near(f.p.coefficient[i], before[i], 0.05);
        assert_true(1 / f.p.covariance[i * NB + i] > 0.9 * precision[i]);
    }
    assert_near(f.p.coefficient[0], 1 + 1e-4 * (2000 - NW / 2), 0.1);
    assert_true(f.p.memory_weight < 3 * NW);
    end(&f);
}

static const double *row_by_age(void *context, int age)
{
    fixture *f = context;

    return f->row[f->count - 1 - age];
}

/* After a cut the newest decide where they speak. */
static void test_a_cut_gives_way(void **state)
{
    (void)state;
    static fixture f;

    start(&f, true, HB_VECTOR, 300);
    for (int k = 0; k < 100; k++) {
        hb_posterior_add(&f.p, next_row(&f), 1);
        f.weight[f.count - 1] = 1;
    }
    for (int k = 0; k < 8; k++) { /* another vehicle: 4, 2, 3, 4 */
        double *row = (double *)next_row(&f);
        for (int d = 0; d < NX; d++)
            row[d * LD + NB] += 3 * row[d * LD];
        hb_posterior_add(&f.p, row, 0);
    }
    hb_posterior_solve(&f.p, 0);
    assert_near(f.p.coefficient[0], 1, 0.1);
    const double *trial = hb_posterior_try_cut(&f.p, 0, 8, hb_posterior_worth, row_by_age, &f);
    assert_non_null(trial);
    assert_near(trial[0], 4, 0.5);
    hb_posterior_cut(&f.p, 8, row_by_age, &f);
    hb_posterior_solve(&f.p, 0);
    assert_near(f.p.coefficient[0], 4, 0.3);
    assert_int_equal(f.p.count, 8);
    end(&f);
}

/* Ten million transitions leave no rounding behind: the window's sums are those of its own rows. */
static void test_rounding_does_not_accumulate(void **state)
{
    (void)state;
    static fixture f;
    enum { NW = 399, PUSHES = 10000000 };

    start(&f, true, HB_VECTOR, 100 * NW); /* memory gives way rarely, which is not what is tested */
    for (int k = 0; k < MOST; k++) {
        double *row = (double *)next_row(&f);
        for (int i = 0; i < NX * LD && k % 50 == 0; i++)
            row[i] *= 1e3;
    }
    for (long k = 0; k < PUSHES; k++) {
        if (k >= NW)
            hb_posterior_depart(&f.p, f.row[(k - NW) % MOST], 1, 1);
        hb_posterior_add(&f.p, f.row[k % MOST], 1);
    }
    long double sum[NX][NB + 2][NB + 2] = {0}, worst = 0;
    for (long k = PUSHES - NW; k < PUSHES; k++)
        for (int d = 0; d < NX; d++)
            for (int i = 0; i < NB + 2; i++)
                for (int j = 0; j <= i; j++)
                    sum[d][i][j] += (long double)f.row[k % MOST][d * LD + i] * f.row[k % MOST][d * LD + j];
    for (int d = 0; d < NX; d++)
        for (int i = 0; i < NB + 2; i++)
            for (int j = 0; j <= i; j++)
                worst = fmaxl(worst, fabsl(f.p.sum[d * (NB + 2) * LD + i * LD + j] - sum[d][i][j]) / sum[d][i][i]);
    printf("%d transitions: sums are off by %.1Le, relative to their diagonal\n", (int)PUSHES, worst);
    assert_true(worst < 1e-10L);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_bayesian_regression),  cmocka_unit_test(test_distance_is_mahalanobis),
        cmocka_unit_test(test_a_transition_is_tried),        cmocka_unit_test(test_noise_is_found),
        cmocka_unit_test(test_calm_flight_forgets_nothing),  cmocka_unit_test(test_a_cut_gives_way),
        cmocka_unit_test(test_rounding_does_not_accumulate),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
