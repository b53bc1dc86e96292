/* What is wrong in a description, told from flights that were integrated here, so that the answer is known. */
#include "made_flights.h"

#include <stdio.h>
#include <errno.h>
#include <unistd.h>

#include "data/log_check.h"
#include "data/rotor_order.h"

static hb_dataset *flights;

/* Names control `to[i]` what is control i. The data set owns its rows. */
static void rename_controls(const int *to)
{
    for (int k = 0; k < flights->nepisodes; k++) {
        double *u = (double *)(uintptr_t)flights->episode[k].u;
        for (int row = 0; row < flights->episode[k].nsteps; row++) {
            double before[NU];
            memcpy(before, u + row * NU, sizeof before);
            for (int i = 0; i < NU; i++)
                u[row * NU + to[i]] = before[i];
        }
    }
}

/* The text of all warnings. */
static const char *warnings(const hb_log_map *map, double ratio_given, int *ret_n)
{
    static char text[4000];
    FILE *out = tmpfile();

    assert_non_null(out);
    *ret_n = hb_log_check(flights, map, ratio_given, out);
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = 0;
    fclose(out);
    return text;
}

static void any_order_is_found(void **state)
{
    (void)state;
    int to[NU], n = 0;

    for (int code = 0; code < 256; code++) {
        int seen = 0;
        for (int i = 0; i < NU; i++)
            seen |= 1 << (to[i] = code >> 2 * i & 3);
        if (seen != 15)
            continue;
        int back[NU];
        for (int i = 0; i < NU; i++)
            back[to[i]] = i;
        rename_controls(to);
        hb_rotor_order o;
        hb_error err = {0};
        if (hb_rotor_order_find(&o, flights, &err))
            fail_msg("%s", err.text);
        bool right = true;
        for (int i = 0; i < NU; i++) {
            assert_int_equal(o.rotor[i], back[i]);
            right = right && to[i] == i;
        }
        assert_int_equal(o.wrong, !right);
        assert_true(o.reversed && o.sense_told); /* whatever the order is, they turn the other way round */
        assert_true(right ? o.explained <= o.as_given : o.explained > 1.3 * o.as_given);
        rename_controls(back);
        n++;
    }
    assert_int_equal(n, 24);
}

/* The remedy is the description's own lines, in the right order. */
static void the_remedy_is_told(void **state)
{
    (void)state;
    const int to[NU] = {2, 0, 1, 3}, back[NU] = {1, 2, 0, 3};
    hb_log_map *map = calloc(1, sizeof *map);
    int n;

    map->nstates = NX;
    map->ncontrols = NU;
    for (int i = 0; i < NU; i++)
        snprintf(map->signal[NX + i].text, sizeof map->signal[0].text, "k * motor%d", i);
    assert_string_equal(warnings(map, NAN, &n), "");
    assert_int_equal(n, 0);
    rename_controls(to);
    const char *text = warnings(map, NAN, &n);
    assert_int_equal(n, 1);
    assert_non_null(strstr(text, "f0, f1, f2, f3 act as its rotors 1, 2, 0, 3"));
    assert_non_null(strstr(text, "    'f0[N]': k * motor2\n    'f1[N]': k * motor0\n    'f2[N]': k * motor1\n"
                                 "    'f3[N]': k * motor3\n"));
    rename_controls(back);
    free(map);
}

static void a_wrong_sense_is_told(void **state)
{
    (void)state;
    int n;

    assert_string_equal(warnings(NULL, -0.006, &n), "");
    const char *text = warnings(NULL, 0.006, &n);
    assert_int_equal(n, 1);
    assert_non_null(strstr(text, "the other way round than torque_ratio 0.006"));
    assert_non_null(strstr(text, "give -0.006"));
}

/* Of noise, and of a vehicle that stands still, no order is told. */
static void nothing_is_made_of_nothing(void **state)
{
    (void)state;
    hb_rotor_order o;

    hb_dataset *noise = read_flights("any.h5");
    for (int k = 0; k < noise->nepisodes; k++)
        for (int i = 0; i < noise->episode[k].nsteps * NU; i++)
            ((double *)(uintptr_t)noise->episode[k].u)[i] =
                hb_random_normal((hb_random_key){.seed = 3, .stream = (uint64_t)k}, (uint64_t)i);
    assert_int_equal(hb_rotor_order_find(&o, noise, NULL), 0);
    assert_false(o.wrong || o.sense_told);
    for (int k = 0; k < noise->nepisodes; k++)
        memset((double *)(uintptr_t)noise->episode[k].x, 0,
               (size_t)(noise->episode[k].nsteps + 1) * NX * sizeof(double));
    assert_int_equal(hb_rotor_order_find(&o, noise, NULL), -ENODATA);
    hb_dataset_free(noise);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/hilbert-test-log-check-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    write_flights(in_folder("any.h5"), true, 2e-3, (unseen){.turning = 15, .air = 12});
    flights = read_flights("any.h5");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hb_dataset_free(flights);
    unlink(in_folder("any.h5"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_is_found),
        cmocka_unit_test(the_remedy_is_told),
        cmocka_unit_test(a_wrong_sense_is_told),
        cmocka_unit_test(nothing_is_made_of_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
