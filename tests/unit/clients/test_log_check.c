/* What is wrong in a description, told from flights that were integrated here, so that the answer is known. */
#include "made_flights.h"

#include <stdio.h>
#include <errno.h>
#include <unistd.h>

#include "data/log_check.h"
#include "data/log_frames.h"
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
    for (int i = 0; i < NU; i++)
        snprintf(map->signal[NX + i].name, sizeof map->signal[0].name, "f%d", i);
    for (int i = 0; i < NU; i++)
        strcpy(map->signal[NX + i].unit, "N");
    assert_string_equal(warnings(map, NAN, &n), "");
    assert_int_equal(n, 0);
    rename_controls(to);
    const char *text = warnings(map, NAN, &n);
    assert_int_equal(n, 1);
    assert_non_null(strstr(text, "f0, f1, f2, f3 act as its rotors 1, 2, 0, 3"));
    assert_non_null(strstr(text, "    'f0[N]': k * motor2\n    'f1[N]': k * motor0\n    'f2[N]': k * motor1\n"));
    assert_null(strstr(text, "'f3[N]'")); /* it is right */
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

/* --- frames --- */

enum { X, VX, Y, VY, Z, VZ, QX, QY, QZ, QW, WX, WY, WZ };

/* v of the body as the world sees it: columns of the rotation matrix, written out */
static void to_world(const double *q, const double *v, double *ret)
{
    const double a = q[0], b = q[1], c = q[2], s = q[3];
    ret[0] = (1 - 2 * (b * b + c * c)) * v[0] + 2 * (a * b - s * c) * v[1] + 2 * (a * c + s * b) * v[2];
    ret[1] = 2 * (a * b + s * c) * v[0] + (1 - 2 * (a * a + c * c)) * v[1] + 2 * (b * c - s * a) * v[2];
    ret[2] = 2 * (a * c - s * b) * v[0] + 2 * (b * c + s * a) * v[1] + (1 - 2 * (a * a + b * b)) * v[2];
}

static void to_body(const double *q, const double *v, double *ret)
{
    const double back[4] = {-q[0], -q[1], -q[2], q[3]};
    to_world(back, v, ret);
}

/* How logs are otherwise: what becomes of each state, as its index from 1 on, negative where it is reversed. */
static const struct otherwise {
    const char *name;
    int from[NX];
    enum { AS_IT_IS, WORLD_RATES, TURNED_RATES, BODY_VELOCITY, DEGREES, MILLIMETRES } more;
    bool attitude_wrong, motion_wrong, push_wrong;
    const char *told;
} otherwise[] = {
    {"as it is", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, AS_IT_IS, false, false, false, NULL},
    {"north east down, forward right down",
     {1, 2, -3, -4, -5, -6, 7, -8, -9, 10, 11, -12, -13},
     AS_IT_IS,
     false,
     false,
     true,
     "(NED, FRD)"},
    {"inverse quaternion",
     {1, 2, 3, 4, 5, 6, -7, -8, -9, 10, 11, 12, 13},
     AS_IT_IS,
     true,
     false,
     false,
     "the other sense"},
    {"real part first",
     {1, 2, 3, 4, 5, 6, 10, 7, 8, 9, 11, 12, 13},
     AS_IT_IS,
     true,
     false,
     false,
     "its real part first"},
    {"rates forward right down",
     {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -12, -13},
     AS_IT_IS,
     true,
     false,
     false,
     "axes of its rates"},
    {"pitch rate reversed",
     {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -12, 13},
     AS_IT_IS,
     true,
     false,
     false,
     "axes of its rates"},
    {"height down", {1, 2, 3, 4, -5, -6, 7, 8, 9, 10, 11, 12, 13}, AS_IT_IS, false, false, true, "other axes"},
    {"velocity north east down",
     {1, 2, 3, -4, 5, -6, 7, 8, 9, 10, 11, 12, 13},
     AS_IT_IS,
     false,
     true,
     false,
     "its velocities are"},
    {"positions a quarter turn aside",
     {-3, -4, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13},
     AS_IT_IS,
     false,
     false,
     true,
     "other axes than the attitude's"},
    {"the body's z down",
     {1, 2, 3, 4, 5, 6, 10, 9, -8, -7, 11, -12, -13},
     AS_IT_IS,
     false,
     false,
     true,
     "the body's z points down (FRD)"},
    {"rates of the world",
     {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13},
     WORLD_RATES,
     true,
     false,
     false,
     "in the world's frame"},
    {"rates turned once too often",
     {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13},
     TURNED_RATES,
     true,
     false,
     false,
     "before 'rates: world' turned them"},
    {"velocities of the body",
     {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13},
     BODY_VELOCITY,
     false,
     true,
     false,
     "as the body sees them"},
    {"degrees", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, DEGREES, true, false, false, "degrees per second"},
    {"mm/s", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, MILLIMETRES, false, true, false, "in another unit"},
};

static void change(const struct otherwise *o, const double *x, double *to)
{
    for (int i = 0; i < NX; i++)
        to[i] = (o->from[i] < 0 ? -1 : 1) * x[abs(o->from[i]) - 1];
    const double v[3] = {x[VX], x[VY], x[VZ]};
    double turned[3];
    to_body(x + QX, v, turned);
    for (int i = 0; i < 3; i++) {
        to[VX + 2 * i] = o->more == BODY_VELOCITY ? turned[i] : to[VX + 2 * i];
        to[VX + 2 * i] *= o->more == MILLIMETRES ? 1000 : 1;
    }
    if (o->more == WORLD_RATES)
        to_world(x + QX, x + WX, to + WX);
    if (o->more == TURNED_RATES)
        to_body(x + QX, x + WX, to + WX);
    for (int i = 0; i < 3; i++)
        to[WX + i] *= o->more == DEGREES ? 180 / M_PI : 1;
}

/* The remedy that is told, carried out. */
static void put_right(const hb_frames *f, const double *x, double *to)
{
    double w[3];

    for (int i = 0; i < 3; i++) {
        to[X + 2 * i] = f->position.sign[i] * x[X + 2 * f->position.axis[i]];
        to[VX + 2 * i] = f->velocity.sign[i] * x[VX + 2 * f->velocity.axis[i]] / f->velocity_unit;
        w[i] = f->rates.sign[i] * x[WX + f->rates.axis[i]] / f->rate_unit;
    }
    for (int i = 0; i < 4; i++)
        to[QX + i] = f->quaternion_sign[i] * x[QX + f->quaternion[i]];
    memcpy(to + WX, w, sizeof w);
    if (f->world_rates)
        to_body(to + QX, w, to + WX);
    if (f->turned_rates)
        to_world(to + QX, w, to + WX);
    if (f->body_velocity) {
        const double v[3] = {to[VX], to[VY], to[VZ]};
        double turned[3];
        to_world(to + QX, v, turned);
        for (int i = 0; i < 3; i++)
            to[VX + 2 * i] = turned[i];
    }
}

static void frames_are_put_right(void **state)
{
    (void)state;
    hb_dataset *right = read_flights("quiet.h5");

    hb_dataset_free(flights);
    flights = read_flights("quiet.h5");

    for (size_t k = 0; k < sizeof otherwise / sizeof *otherwise; k++) {
        const struct otherwise *o = &otherwise[k];
        hb_frames f;
        hb_error err = {0};
        int n;
        for (int e = 0; e < right->nepisodes; e++)
            for (int row = 0; row <= right->episode[e].nsteps; row++)
                change(o, right->episode[e].x + row * NX, (double *)(uintptr_t)flights->episode[e].x + row * NX);
        if (hb_frames_find(&f, flights, &err))
            fail_msg("%s: %s", o->name, err.text);
        if (f.attitude_wrong != o->attitude_wrong || f.motion_wrong != o->motion_wrong || f.push_wrong != o->push_wrong)
            fail_msg("%s: found wrong: attitude %d, motion %d, push %d", o->name, f.attitude_wrong, f.motion_wrong,
                     f.push_wrong);
        const char *text = warnings(NULL, NAN, &n);
        if (n != (o->told != NULL) || (o->told && !strstr(text, o->told)))
            fail_msg("%s: said '%s', expected '%s'", o->name, text, o->told ? o->told : "nothing");
        for (int row = 0; row < 100; row++) {
            double to[NX], sign;
            put_right(&f, flights->episode[1].x + row * NX, to);
            sign = to[QW] < 0 ? -1 : 1;
            for (int i = 0; i < NX; i++)
                if (fabs((i >= QX && i <= QW ? sign : 1) * to[i] - right->episode[1].x[row * NX + i]) > 0.02)
                    fail_msg("%s: state %d of row %d is %g, expected %g", o->name, i, row, to[i],
                             right->episode[1].x[row * NX + i]);
        }
    }
    hb_dataset_free(flights);
    flights = read_flights("any.h5");
    hb_dataset_free(right);
}

/* The lines that are told are those of the description, put right. */
static void lines_are_put_right(void **state)
{
    (void)state;
    static const char *const name[] = {"x", "vx", "y", "vy", "z", "vz", "qx", "qy", "qz", "qw", "wx", "wy", "wz"};
    hb_log_map *map = calloc(1, sizeof *map);
    int n;

    hb_dataset_free(flights);
    flights = read_flights("quiet.h5");
    map->nstates = NX;
    map->ncontrols = NU;
    for (int i = 0; i < NX; i++) {
        strcpy(map->signal[i].name, name[i]);
        strcpy(map->signal[i].unit, "u");
        snprintf(map->signal[i].text, sizeof map->signal[i].text, i == VY ? "derivative(y)" : "column%d", i);
    }
    for (int e = 0; e < flights->nepisodes; e++)
        for (int row = 0; row <= flights->episode[e].nsteps; row++) {
            double *x = (double *)(uintptr_t)flights->episode[e].x + row * NX, was[NX];
            memcpy(was, x, sizeof was);
            change(&otherwise[1], was, x);
        }
    const char *text = warnings(map, NAN, &n);
    if (!strstr(text, "    'y[u]': -column2\n    'z[u]': -column4\n    'vz[u]': -column5\n"
                      "    'qy[u]': -column7\n    'qz[u]': -column8\n    'wy[u]': -column11\n"
                      "    'wz[u]': -column12\n"))
        fail_msg("%s", text);
    free(map);
    hb_dataset_free(flights);
    flights = read_flights("any.h5");
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/hilbert-test-log-check-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    write_flights(in_folder("any.h5"), true, 2e-3, (unseen){.turning = 15, .air = 12});
    /* the thrust tells what is up where the vertical acceleration is not noise */
    write_flights(in_folder("quiet.h5"), true, 2e-4, (unseen){0});
    flights = read_flights("any.h5");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hb_dataset_free(flights);
    unlink(in_folder("any.h5"));
    unlink(in_folder("quiet.h5"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_is_found),    cmocka_unit_test(the_remedy_is_told),
        cmocka_unit_test(a_wrong_sense_is_told), cmocka_unit_test(nothing_is_made_of_nothing),
        cmocka_unit_test(frames_are_put_right),  cmocka_unit_test(lines_are_put_right),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
