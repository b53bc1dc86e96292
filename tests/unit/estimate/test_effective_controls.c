/* Effective controls against a fine integration of the actuators' equation. */
#include "check.h"

#include <string.h>

#include "base/numeric.h"
#include "estimate/effective_controls.h"

enum { NU = 3, COUNT = 40 };

typedef struct flight {
    hb_window_entry entry[COUNT];
    double u[COUNT][NU];
    int first; /* that is remembered */
} flight;

static bool at(const hb_past *past, int back, hb_window_entry *ret)
{
    const flight *f = past->context;

    if ((int)past->sequence - back < f->first)
        return false;
    *ret = f->entry[past->sequence - (uint64_t)back];
    return true;
}

static void make(flight *f, uint64_t seed)
{
    hb_random_key key = {seed, 1};
    uint64_t draws = 0;

    for (int k = 0; k < COUNT; k++) {
        f->entry[k] =
            (hb_window_entry){.dt = 0.02 + 0.03 * hb_random_uniform(key, draws++), .continues = k > 0, .u = f->u[k]};
        for (int i = 0; i < NU; i++)
            f->u[k][i] = hb_random_normal(key, draws++);
    }
    f->first = 0;
}

/* the command at a time since the start */
static double command(const flight *f, int channel, double time)
{
    for (int k = 0; k < COUNT; k++) {
        if (time < f->entry[k].dt || k == COUNT - 1)
            return f->u[k][channel];
        time -= f->entry[k].dt;
    }
    return 0;
}

static void test_against_fine_integration(void **state)
{
    (void)state;
    const double step = 1e-5;

    for (uint64_t seed = 1; seed <= 6; seed++) {
        static flight f;
        hb_actuators a = {.nu = NU, .lag = {0, 0.01 * (double)seed, 0.06}, .delay = {0.013, 0, 0.005 * (double)seed}};
        make(&f, seed);
        for (int i = 0; i < NU; i++) {
            double time = 0, y = command(&f, i, 0);
            for (int k = 0; k < COUNT; k++) {
                double got[NU];
                hb_past past = {.context = &f, .sequence = (uint64_t)k, .at = at};
                hb_effective_controls(&past, &a, got);
                double h = f.entry[k].dt, sum = 0;
                int steps = (int)ceil(h / step);
                for (int s = 0; s < steps; s++) {
                    /* the midpoint's command, held over a step that is far shorter than any transition */
                    double u = command(&f, i, fmax(0, time + (s + 0.5) * h / steps - a.delay[i]));
                    double keep = a.lag[i] > 0 ? exp(-h / steps / a.lag[i]) : 0, before = y;
                    y = u + (y - u) * keep;
                    sum += a.lag[i] > 0 ? (before + y) / 2 : u;
                }
                time += h;
                /* what is older than the reach is left out: exp(-7) of it */
                assert_near(got[i], sum / steps, 5e-3);
                if (k < 4)
                    assert_near(got[i], sum / steps, 3e-3);
            }
        }
    }
}

/* Without a past, the first command is taken to have been in force before; with a break, too. */
static void test_the_past_ends_where_it_is_not_known(void **state)
{
    (void)state;
    static flight f;
    hb_actuators a = {.nu = NU, .lag = {0.03, 0.03, 0.03}, .delay = {0.01, 0.01, 0.01}};
    double whole[NU], cut[NU];

    make(&f, 9);
    hb_past past = {.context = &f, .sequence = 20, .at = at};
    assert_near(hb_effective_reach(&a), 0.22, 1e-9);
    assert_true(hb_effective_controls(&past, &a, whole) >= hb_effective_reach(&a));
    f.first = 20;
    assert_near(hb_effective_controls(&past, &a, cut), 0, 0);
    assert_near(cut[0], f.u[20][0], 1.5);
    f.first = 0;
    f.entry[20].continues = false;
    double broken[NU];
    assert_near(hb_effective_controls(&past, &a, broken), 0, 0);
    for (int i = 0; i < NU; i++)
        assert_near(broken[i], cut[i], 0);

    /* actuators that act at once need no past */
    a = (hb_actuators){.nu = NU};
    hb_effective_controls(&past, &a, broken);
    for (int i = 0; i < NU; i++)
        assert_near(broken[i], f.u[20][i], 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_fine_integration),
        cmocka_unit_test(test_the_past_ends_where_it_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
