/* Flights turned about the vertical, against rotation matrices: none of the module's own formulas are used here. */
#include "made_flights.h"

#include <errno.h>

#include "data/headings.h"
#include "data/sampler.h"
#include "train/recipe.h"
#include "train/untrained_model.h"

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/hilbert-test-headings-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    write_flights(in_folder("logs.h5"), true, 0, (unseen){.turning = 15});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(in_folder("logs.h5"));
    return rmdir(folder);
}

/* from body to world */
static void matrix_of(const double *q, double r[3][3])
{
    const double x = q[0], y = q[1], z = q[2], w = q[3];
    const double m[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)},
                            {2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)},
                            {2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)}};

    memcpy(r, m, sizeof m);
}

static void check_turned(const double *x, const double *turned, double angle, double within)
{
    const double about[3][3] = {{cos(angle), -sin(angle), 0}, {sin(angle), cos(angle), 0}, {0, 0, 1}};
    double before[3][3], after[3][3];

    matrix_of(x + 6, before);
    matrix_of(turned + 6, after);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            double sum = 0;
            for (int l = 0; l < 3; l++)
                sum += about[i][l] * before[l][k];
            assert_near(after[i][k], sum, within);
        }
    for (int derivative = 0; derivative < 2; derivative++)
        for (int i = 0; i < 3; i++) {
            double sum = 0;
            for (int k = 0; k < 3; k++)
                sum += about[i][k] * x[2 * k + derivative];
            assert_near(turned[2 * i + derivative], sum, within * (1 + fabs(sum)));
        }
    for (int i = 10; i < NX; i++)
        assert_near(turned[i], x[i], within * (1 + fabs(x[i])));
}

static void test_a_turned_flight_is_a_flight(void **state)
{
    (void)state;
    static const double angle[] = {0.3, M_PI / 2, -2.5, 3.1};
    const int only = 2;
    hb_dataset *d = read_flights("logs.h5"), turned;
    hb_error err = {0};

    for (size_t a = 0; a < sizeof angle / sizeof *angle; a++) {
        assert_int_equal(hb_headings_turned(&turned, d, &only, 1, angle[a], &err), 0);
        for (int f = 0; f < FLIGHTS; f++)
            assert_true((turned.episode[f].x == d->episode[f].x) == (f != only));
        const hb_episode *e = &d->episode[d->function[only].episode], *t = &turned.episode[e - d->episode];
        for (int row = 0; row <= STEPS; row++) {
            const double *x = e->x + row * NX, *y = t->x + row * NX;
            double there[NX], rates[NX], turned_rates[NX];
            check_turned(x, y, angle[a], 1e-9);
            assert_true(y[9] >= 0);
            /* and by the same physics: turned, it moves as it moved */
            rate(heavy, x, e->u + (row % STEPS) * NU, rates);
            rate(heavy, y, e->u + (row % STEPS) * NU, turned_rates);
            for (int i = 0; i < NX; i++)
                there[i] = x[i] + 1e-6 * rates[i];
            double moved[NX];
            for (int i = 0; i < NX; i++)
                moved[i] = y[i] + 1e-6 * turned_rates[i];
            check_turned(there, moved, angle[a], 1e-9);
        }
        hb_headings_free_turned(&turned);
    }
    hb_dataset_free(d);
}

static double heading(const double *x)
{
    double r[3][3];

    matrix_of(x + 6, r);
    return atan2(r[1][0], r[0][0]);
}

/* turned examples, normalised: each by one angle, with a quaternion that does not jump to its negative on the way */
static void test_examples_are_turned(void **state)
{
    (void)state;
    enum { POINTS = 5, LONG = 60 };
    hb_dataset *d = read_flights("logs.h5");
    hb_settings s;
    hb_error err = {0};
    hb_model *m = NULL;
    hb_sampler *sampler = NULL;
    hb_points points;
    hb_arena arena = {0};
    hb_random_key key = {.seed = 3, .stream = 9};
    bool given;
    int quarter[4] = {0};

    d->any_heading = true;
    hb_settings_default(&s);
    strcpy(s.average, "nominal:quadrotor");
    s.nb = 2;
    s.hidden = (hb_widths){1, {4}};
    assert_int_equal(hb_untrained_model_new(&m, &given, &s, d, NULL, "", &err), 0);
    assert_int_equal(hb_sampler_new(&sampler, d, m, LONG, &err), 0);
    hb_points_lay_out(&points, NX, NU, POINTS, LONG, &arena);
    assert_int_equal(hb_arena_allocate(&arena, &err), 0);
    hb_points_lay_out(&points, NX, NU, POINTS, LONG, &arena);
    for (uint64_t draw = 0; draw < 20; draw++) {
        hb_sampler_draw(sampler, 1, 0, hb_sampler_count(sampler, 1), key, draw << 32, &points);
        for (int p = 0; p < POINTS; p++) {
            size_t start = (size_t)(hb_random_bits(key, (draw << 32) + (uint64_t)p) % hb_sampler_count(sampler, 1));
            double last[NX] = {0}, angle = 0;
            for (int step = 0; step <= LONG; step++) {
                const double *x = d->episode[d->function[1].episode].x + (start + (size_t)step) * NX;
                double turned[NX], along = 0;
                for (int i = 0; i < NX; i++)
                    turned[i] = hb_physical_state(m, i, (double)hb_points_states(&points, 0, step)[i * HB_STRIDE + p]);
                if (step == 0)
                    angle = heading(turned) - heading(x);
                check_turned(x, turned, angle, 1e-5);
                for (int i = 6; i < 10; i++)
                    along += last[i] * turned[i];
                assert_true(step == 0 ? turned[9] >= 0 : along > 0);
                memcpy(last, turned, sizeof last);
            }
            quarter[(int)floor((remainder(angle, 2 * M_PI) + M_PI) / (M_PI / 2)) % 4]++;
        }
    }
    /* 100 angles all around: fewer than ten in a quarter happen once in 10,000 draws */
    for (int i = 0; i < 4; i++)
        assert_true(quarter[i] >= 10);
    hb_sampler_free(sampler);
    /* as they are: where that is asked for, and where the data do not stand for others */
    for (int kept = 0; kept < 2; kept++) {
        d->any_heading = kept;
        assert_int_equal(hb_sampler_new(&sampler, d, m, LONG, &err), 0);
        if (kept)
            hb_sampler_keep_headings(sampler);
        hb_sampler_draw(sampler, 1, 0, 1, key, 0, &points);
        for (int i = 0; i < NX; i++)
            assert_near(hb_physical_state(m, i, (double)hb_points_states(&points, 0, 0)[i * HB_STRIDE]),
                        d->episode[d->function[1].episode].x[i], 1e-5);
        hb_sampler_free(sampler);
    }
    free(arena.base);
    hb_model_free(m);
    hb_dataset_free(d);
}

/* means and deviations of flights at all headings, by turning them to each of many */
static void test_moments(void **state)
{
    (void)state;
    enum { TURNS = 360 };
    hb_dataset *d = read_flights("logs.h5"), turned;
    hb_headings h;
    hb_error err = {0};
    double mean[NX], std[NX], sum[NX] = {0}, square[NX] = {0}, count = 0;

    hb_dataset_moments(d, mean, std, NULL, NULL, NULL);
    assert_int_equal(hb_headings_of(&h, NX, d->header.state_name, &err), 0);
    hb_headings_spread(&h, mean, std);
    for (int turn = 0; turn < TURNS; turn++) {
        assert_int_equal(hb_headings_turned(&turned, d, NULL, 0, (turn + 0.5) * 2 * M_PI / TURNS, &err), 0);
        for (int e = 0; e < turned.nepisodes; e++)
            for (int row = 0; row <= STEPS; row += 10, count++)
                for (int i = 0; i < NX; i++) {
                    const double v = turned.episode[e].x[row * NX + i];
                    sum[i] += v;
                    square[i] += v * v;
                }
        hb_headings_free_turned(&turned);
    }
    for (int i = 0; i < NX; i++) {
        const double there = sum[i] / count, deviation = sqrt(square[i] / count - there * there);
        if (!(fabs(mean[i] - there) < 0.2 * deviation) || !(fabs(std[i] / deviation - 1) < 0.05))
            fail_msg("state %d: %g +- %g, not %g +- %g", i, mean[i], std[i], there, deviation);
    }
    hb_dataset_free(d);
}

static void test_how_much_headings_are_one(void **state)
{
    (void)state;
    hb_dataset *d = read_flights("logs.h5"), turned;
    hb_headings h;
    hb_error err = {0};
    double along = 0, across = 0, count = 0;

    for (int e = 0; e < d->nepisodes; e++)
        for (int row = 0; row <= STEPS; row++, count++) {
            double angle = heading(d->episode[e].x + row * NX);
            along += cos(angle);
            across += sin(angle);
        }
    assert_int_equal(hb_headings_of(&h, NX, d->header.state_name, &err), 0);
    const double alike = hb_headings_alike(&h, d);
    assert_near(alike, sqrt(along * along + across * across) / count, 1e-9);
    assert_true(alike > 0.05 && alike < 0.95);
    /* wherever it is */
    assert_int_equal(hb_headings_turned(&turned, d, NULL, 0, 2.5, &err), 0);
    assert_near(hb_headings_alike(&h, &turned), alike, 1e-9);
    hb_headings_free_turned(&turned);
    hb_dataset_free(d);
}

static void test_what_cannot_be_turned(void **state)
{
    (void)state;
    static const char *const lost[] = {"qw", "vy", "x"};
    hb_headings h;

    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        char name[NX][HB_NAME_SIZE] = {"x", "vx", "y", "vy", "z", "vz", "qx", "qy", "qz", "qw", "wx", "wy", "wz"};
        hb_error err = {0};
        for (int k = 0; k < NX; k++)
            if (strcmp(name[k], lost[i]) == 0)
                strcpy(name[k], "other");
        assert_int_equal(hb_headings_of(&h, NX, name, &err), -EINVAL);
        assert_non_null(strstr(err.text, lost[i]));
        strcpy(err.text, "");
    }
    char name[NX - 2][HB_NAME_SIZE] = {"vx", "vy", "z", "vz", "qx", "qy", "qz", "qw", "wx", "wy", "wz"};
    assert_int_equal(hb_headings_of(&h, NX - 2, name, NULL), 0);
    assert_true(h.pair[0][0] < 0 && h.pair[1][1] == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_turned_flight_is_a_flight),
        cmocka_unit_test(test_examples_are_turned),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_how_much_headings_are_one),
        cmocka_unit_test(test_what_cannot_be_turned),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
