/* Candidate sequences: bounds, noise, Adam, ranking and averages, each against a plain computation of the same. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "plan/population.h"

enum { NU = 4, NH = 6, NS = 250 };

typedef struct fixture {
    hb_control_map map;
    hb_population pop;
    hb_arena arena;
    double trim[NU], low[NU], high[NU], direction[NU * NU];
} fixture;

/* nv < NU: the paper's directions, thrust up and two tilts */
static void set_up(fixture *f, int nv)
{
    static const double paper[NU][3] = {{1, 1, 0}, {1, 0, 1}, {1, -1, 0}, {1, 0, -1}};

    memset(f, 0, sizeof *f);
    f->map = (hb_control_map){.nu = NU,
                              .nv = nv,
                              .diagonal = nv == NU,
                              .trim = f->trim,
                              .low = f->low,
                              .high = f->high,
                              .direction = f->direction};
    for (int i = 0; i < NU; i++) {
        f->trim[i] = 0.3 + 0.1 * i;
        f->low[i] = 0.1;
        f->high[i] = 1 + 0.2 * i;
        for (int v = 0; v < nv; v++)
            f->direction[i * nv + v] = nv == NU ? (i == v) * (0.5 + i) : paper[i][v];
    }
    for (int round = 0; round < 2; round++) {
        hb_population_lay_out(&f->pop, &f->arena, &f->map, nv, NS, NH, true);
        if (round == 0)
            assert_int_equal(hb_arena_allocate(&f->arena, NULL), 0);
    }
}

static void tear_down(fixture *f)
{
    free(f->arena.base);
}

/* calls do(lanes) on all samples, cut every `step` lanes */
#define FOR_LANES(lanes, step)                                                                                         \
    for (hb_lanes lanes = {0, 0, step}; lanes.block * HB_STRIDE < NS; next_lanes(&lanes, step))

static void next_lanes(hb_lanes *l, int step)
{
    l->first += step;
    if (l->first >= HB_STRIDE) {
        l->first = 0;
        l->block++;
    }
    int left = NS - l->block * HB_STRIDE - l->first, room = HB_STRIDE - l->first;
    l->n = step < room ? step : room;
    l->n = l->n < left ? l->n : left;
    if (l->n <= 0)
        l->block = NS;
}

static void draw_all(fixture *f, int step, double deviation, double correlation, uint64_t tick)
{
    hb_real mean[NH * NU] = {0}, spread[NH * NU];

    for (int i = 0; i < NH * NU; i++)
        spread[i] = (hb_real)deviation;
    FOR_LANES(l, step)
    hb_population_draw(&f->pop, l, 0, mean, spread, correlation, (hb_random_key){5, tick}, 0);
}

static void test_noise_has_the_variance_and_correlation_asked_for(void **state)
{
    (void)state;
    fixture f;
    hb_real w[NH * NU];
    double sum = 0, square = 0, product = 0;
    int n = 0, pairs = 0;

    set_up(&f, NU);
    for (uint64_t tick = 0; tick < 40; tick++) {
        draw_all(&f, HB_STRIDE, 2, 0.8, tick);
        for (int s = 0; s < NS; s++) {
            hb_population_get(&f.pop, s, w);
            for (int i = 0; i < NH * NU; i++, n++) {
                sum += w[i];
                square += w[i] * w[i];
                if (i + NU < NH * NU) {
                    product += w[i] * w[i + NU];
                    pairs++;
                }
            }
        }
    }
    assert_near(sum / n, 0, 0.03);
    assert_near(square / n, 4, 0.05);
    assert_near(product / pairs / (square / n), 0.8, 0.01);
    tear_down(&f);
}

static void test_draws_depend_on_tick_and_sample_alone(void **state)
{
    (void)state;
    fixture f;
    hb_real(*first)[NH * NU] = malloc(NS * sizeof *first), w[NH * NU];
    int equal = 0;

    set_up(&f, NU);
    draw_all(&f, HB_STRIDE, 1, 0.5, 3);
    for (int s = 0; s < NS; s++)
        hb_population_get(&f.pop, s, first[s]);
    /* cut otherwise, and with other numbers there before */
    draw_all(&f, 48, 1, 0.5, 4);
    for (int s = 0; s < NS; s++) {
        hb_population_get(&f.pop, s, w);
        equal += !memcmp(w, first[s], sizeof w);
    }
    assert_int_equal(equal, 0);
    draw_all(&f, 16, 1, 0.5, 3);
    for (int s = 0; s < NS; s++) {
        hb_population_get(&f.pop, s, w);
        assert_memory_equal(w, first[s], sizeof w);
    }
    free(first);
    tear_down(&f);
}

static void test_draw_leaves_the_first_samples_alone(void **state)
{
    (void)state;
    fixture f;
    hb_real kept[NH * NU], w[NH * NU], mean[NH * NU] = {0}, one[NH * NU];

    set_up(&f, NU);
    for (int i = 0; i < NH * NU; i++) {
        kept[i] = (hb_real)(7 + i);
        one[i] = 1;
    }
    for (int s = 0; s < NS; s++)
        hb_population_put(&f.pop, s, kept);
    FOR_LANES(l, 32)
    hb_population_draw(&f.pop, l, 130, mean, one, 0, (hb_random_key){1, 1}, 0);
    for (int s = 0; s < NS; s++) {
        hb_population_get(&f.pop, s, w);
        assert_int_equal(!memcmp(w, kept, sizeof w), s < 130);
    }
    tear_down(&f);
}

static void test_bounds_hold_and_inner_points_stay(void **state)
{
    (void)state;

    for (int nv = 3; nv <= NU; nv++) {
        fixture f;
        int inner = 0, moved = 0;
        set_up(&f, nv);
        draw_all(&f, HB_STRIDE, 0.25, 0, 9);
        hb_real(*before)[NH * NU] = malloc(NS * sizeof *before), w[NH * NU];
        for (int s = 0; s < NS; s++)
            hb_population_get(&f.pop, s, before[s]);
        FOR_LANES(l, 64)
        hb_population_bound(&f.pop, l);
        for (int s = 0; s < NS; s++) {
            double u[NH * NU];
            const hb_real *lane = hb_population_u(&f.pop, (hb_lanes){s / HB_STRIDE, s % HB_STRIDE, 1});
            hb_population_get(&f.pop, s, w);
            hb_control_map_apply(&f.map, NH, w, u);
            for (int k = 0; k < NH; k++) {
                bool within = true;
                for (int i = 0; i < NU; i++) {
                    double free_u = f.trim[i];
                    for (int v = 0; v < nv; v++)
                        free_u += f.direction[i * nv + v] * before[s][k * nv + v];
                    within = within && free_u >= f.low[i] && free_u <= f.high[i];
                    /* u is that of w, and within bounds */
                    assert_near(lane[(k * NU + i) * HB_STRIDE], u[k * NU + i], 1e-6);
                    assert_true(u[k * NU + i] >= f.low[i] && u[k * NU + i] <= f.high[i]);
                    /* clamped alone when controls are free of each other */
                    if (nv == NU)
                        assert_near(u[k * NU + i], fmin(fmax(free_u, f.low[i]), f.high[i]), 1e-6);
                }
                inner += within;
                moved += !within;
                for (int v = 0; v < nv; v++) {
                    if (within)
                        assert_true(w[k * nv + v] == before[s][k * nv + v]);
                    /* else on the way back to trim, in the same direction */
                    else if (nv < NU)
                        assert_near(w[k * nv + v] * before[s][k * nv], before[s][k * nv + v] * w[k * nv], 1e-6);
                }
            }
        }
        assert_true(inner > 100 && moved > 100);
        free(before);
        tear_down(&f);
    }
}

/* Adam by the book, one number at a time */
static void test_adam_is_that_of_the_book(void **state)
{
    (void)state;

    for (int nv = 3; nv <= NU; nv++) {
        fixture f;
        hb_real warm[NH * NU] = {0}, got[NH * NU];
        double w[NH * NU] = {0}, m[NH * NU] = {0}, v2[NH * NU] = {0}, rate = 0.01, clip = 2;
        int sample = 137;
        set_up(&f, nv);
        for (int s = 0; s < NS; s++)
            hb_population_put(&f.pop, s, warm);
        for (int step = 1; step <= 20; step++) {
            hb_lanes lane = {sample / HB_STRIDE, sample % HB_STRIDE, 1};
            double du[NH * NU];
            for (int i = 0; i < NH * NU; i++) {
                du[i] = 3 * sin(i + step * 0.3) + cos(i * 7.0);
                hb_population_du(&f.pop, lane)[i * HB_STRIDE] = (hb_real)du[i];
            }
            FOR_LANES(l, 80)
            hb_population_adam(&f.pop, l, step, rate, clip, warm);
            for (int k = 0; k < NH; k++) {
                double g[NU] = {0}, norm = 0;
                for (int v = 0; v < nv; v++) {
                    for (int i = 0; i < NU; i++)
                        g[v] += f.direction[i * nv + v] * du[k * NU + i];
                    norm += g[v] * g[v];
                }
                for (int v = 0; v < nv; v++) {
                    int i = k * nv + v;
                    double clipped = g[v] * fmin(1, clip / sqrt(norm));
                    m[i] = 0.9 * m[i] + 0.1 * clipped;
                    v2[i] = 0.999 * v2[i] + 0.001 * clipped * clipped;
                    w[i] -= rate * (m[i] / (1 - pow(0.9, step))) / (sqrt(v2[i] / (1 - pow(0.999, step))) + 1e-8);
                }
            }
        }
        hb_population_get(&f.pop, sample, got);
        for (int i = 0; i < NH * nv; i++)
            assert_near(got[i], w[i], 2e-6);
        tear_down(&f);
    }
}

static void test_adam_starts_over_where_numbers_are_not_finite(void **state)
{
    (void)state;
    fixture f;
    hb_real warm[NH * NU], w[NH * NU];

    set_up(&f, NU);
    for (int i = 0; i < NH * NU; i++)
        warm[i] = (hb_real)0.01 * (hb_real)i;
    hb_lanes l = {0, 0, 32};
    hb_population_du(&f.pop, l)[3] = (hb_real)NAN;
    hb_population_du(&f.pop, l)[5 + NU * HB_STRIDE] = (hb_real)INFINITY;
    hb_population_adam(&f.pop, l, 1, 0.1, 1, warm);
    for (int s = 0; s < 32; s++) {
        hb_population_get(&f.pop, s, w);
        for (int i = 0; i < NH * NU; i++) {
            assert_true(isfinite(w[i]));
            if ((s == 3 && i < NU) || (s == 5 && i >= NU && i < 2 * NU))
                assert_true(w[i] == warm[i]);
        }
    }
    tear_down(&f);
}

static void test_shift_moves_steps_on(void **state)
{
    (void)state;
    hb_real w[4 * 2] = {0, 100, 1, 101, 2, 102, 4, 104};
    static const struct {
        double steps;
        hb_real becomes[8];
    } is[] = {
        {0.5, {0.5f, 100.5f, 1.5f, 101.5f, 3, 103, 4, 104}},
        {1, {1, 101, 2, 102, 4, 104, 4, 104}},
        {2.25, {2.5f, 102.5f, 4, 104, 4, 104, 4, 104}},
        {99, {4, 104, 4, 104, 4, 104, 4, 104}},
    };

    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        hb_real copy[8];
        memcpy(copy, w, sizeof copy);
        hb_sequence_shift(4, 2, is[i].steps, copy);
        for (int j = 0; j < 8; j++)
            assert_near(copy[j], is[i].becomes[j], 1e-6);
    }

    fixture f;
    hb_real one[NH * NU], two[NH * NU];
    set_up(&f, NU);
    draw_all(&f, HB_STRIDE, 1, 0, 1);
    hb_population_get(&f.pop, 200, one);
    hb_sequence_shift(NH, NU, 1.5, one);
    hb_population_shift(&f.pop, 1.5);
    hb_population_get(&f.pop, 200, two);
    assert_memory_equal(one, two, sizeof one);
    tear_down(&f);
}

static void test_rank_and_average(void **state)
{
    (void)state;
    fixture f;
    int order[NS];
    hb_real average[NH * NU] = {0}, w[NH * NU];

    set_up(&f, NU);
    draw_all(&f, HB_STRIDE, 1, 0, 1);
    for (int s = 0; s < NS; s++)
        f.pop.cost[s] = (hb_real)fabs(sin(s * 1.7));
    f.pop.cost[10] = (hb_real)NAN;
    f.pop.cost[240] = (hb_real)INFINITY;
    f.pop.cost[77] = f.pop.cost[33] = (hb_real)1e-4;

    assert_int_equal(hb_population_rank(&f.pop, NS, order), NS - 2);
    for (int i = 1; i < NS - 2; i++) {
        hb_real a = f.pop.cost[order[i - 1]], b = f.pop.cost[order[i]];
        assert_true(a < b || (a == b && order[i - 1] < order[i]));
    }
    assert_int_equal(order[NS - 2] + order[NS - 1], 250);

    hb_population_average(&f.pop, order, NS - 2, 0.3, average);
    for (int i = 0; i < NH * NU; i++) {
        double half = (NS - 1) / 2, level = 0, spread = 0, total = 0, weighted = 0;
        for (int j = 0; j < half; j++)
            level += f.pop.cost[order[j]] / half;
        for (int j = 0; j < half; j++)
            spread += pow(f.pop.cost[order[j]] - level, 2) / half;
        for (int j = 0; j < NS - 2; j++) {
            double weight = exp(-(f.pop.cost[order[j]] - f.pop.cost[order[0]]) / (0.3 * sqrt(spread)));
            hb_population_get(&f.pop, order[j], w);
            total += weight;
            weighted += weight * w[i];
        }
        assert_near(average[i], weighted / total, 1e-4);
    }
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise_has_the_variance_and_correlation_asked_for),
        cmocka_unit_test(test_draws_depend_on_tick_and_sample_alone),
        cmocka_unit_test(test_draw_leaves_the_first_samples_alone),
        cmocka_unit_test(test_bounds_hold_and_inner_points_stay),
        cmocka_unit_test(test_adam_is_that_of_the_book),
        cmocka_unit_test(test_adam_starts_over_where_numbers_are_not_finite),
        cmocka_unit_test(test_shift_moves_steps_on),
        cmocka_unit_test(test_rank_and_average),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
