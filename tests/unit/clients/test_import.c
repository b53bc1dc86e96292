/* Flight logs into data sets: logs of an independent writer (tests/data/logs/make_logs.py), whose every number is
 * known; and damaged ones. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "data/flight_log.h"

enum { X, VX, Y, VY, Z, VZ, QX, QY, QZ, QW, WX, WY, WZ };

static char folder[512], output[600];

static int set_up(void **state)
{
    (void)state;
    char template[] = "/tmp/hilbert-import-XXXXXX";
    snprintf(folder, sizeof folder, "%s", getenv("HILBERT_LOGS"));
    assert_non_null(mkdtemp(template));
    snprintf(output, sizeof output, "%s/flights.h5", template);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(output);
    *strrchr(output, '/') = 0;
    rmdir(output);
    return 0;
}

static int import(const char *name, const hb_flight_import *how, hb_flight_result *result, hb_error *err)
{
    static char path[600];
    const char *file[] = {path};
    hb_flight_import in = *how;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    in.nfiles = 1;
    in.file = file;
    unlink(output);
    return hb_flight_import_files(&in, output, result, err);
}

/* The flight as make_logs.py flies it, in the model's frame. x does not jump in ArduPilot's. */
static void expect(double t, bool jumps, const double *x)
{
    double yaw = 0.3 * t, roll = 0.2;
    const double expected[13] = {
        [X] = 3 * sin(0.5 * t) + (jumps && t >= 110),
        [VX] = 1.5 * cos(0.5 * t),
        [Y] = -2 * cos(0.4 * t),
        [VY] = 0.8 * sin(0.4 * t),
        [Z] = 5 + sin(0.3 * t),
        [VZ] = 0.3 * cos(0.3 * t),
        [QX] = cos(yaw / 2) * sin(roll / 2),
        [QY] = -sin(yaw / 2) * sin(roll / 2),
        [QZ] = -sin(yaw / 2) * cos(roll / 2),
        [QW] = cos(yaw / 2) * cos(roll / 2),
        [WX] = 0.1 * sin(t),
        [WY] = -0.2 * cos(t),
        [WZ] = -0.3,
    };
    double sign =
        expected[QX] * x[QX] + expected[QY] * x[QY] + expected[QZ] * x[QZ] + expected[QW] * x[QW] < 0 ? -1 : 1;
    for (int i = 0; i < 13; i++)
        if (fabs(x[i] - (i >= QX && i <= QW ? sign : 1) * expected[i]) > 1e-3)
            fail_msg("t = %g: state %d is %g, expected %g", t, i, x[i], expected[i]);
}

/* Mean of a function over a step, by Simpson's rule. */
static double mean(double (*f)(double), double t, double dt)
{
    return (f(t) + 4 * f(t + dt / 2) + f(t + dt)) / 6;
}

static double thrust(double t)
{
    return 0.5 + 0.1 * sin(t);
}

static double roll(double t)
{
    return 0.4 * sin(t);
}

static double pitch(double t)
{
    return -0.3 * cos(t);
}

static void check_flight(const char *name, bool ulog)
{
    hb_flight_result result;
    hb_dataset *d = NULL;
    hb_error err = {0};

    if (import(name, &(hb_flight_import){0}, &result, &err) || hb_dataset_read(&d, output, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(d->header.nx, 13);
    assert_int_equal(d->header.nu, 4);
    assert_string_equal(d->header.state_name[QX], "qx");
    assert_string_equal(d->header.control_name[0], "thrust");
    assert_int_equal(d->nfunctions, 1);
    /* landed, flight, reset (ULog), gap, flight, landed */
    assert_int_equal(d->nepisodes, ulog ? 3 : 2);
    assert_int_equal(result.gaps, 1);
    assert_int_equal(result.resets, ulog ? 1 : 0);
    assert_float_equal(result.landed, 4, 0.1);
    assert_float_equal(result.seconds, 25, 0.3);

    /* the grid begins with the first sample, at 100 s */
    double begin = 102, dt = 0.04;
    for (int e = 0; e < d->nepisodes; e++) {
        const hb_episode *episode = &d->episode[e];
        if (ulog && e == 1)
            begin = 110;
        else if (e > 0)
            begin = 119;
        /* the first grid point from there on */
        begin = 100 + ceil((begin - 100) / dt - 1e-6) * dt;
        assert_true(episode->x[QW] >= 0);
        for (int k = 0; k <= episode->nsteps; k++) {
            double t = begin + k * dt;
            const double *x = episode->x + 13 * k, *u = episode->u + 4 * k;
            expect(t, ulog, x);
            if (k > 0) {
                double along = 0;
                for (int i = QX; i <= QW; i++)
                    along += x[i] * x[i - 13];
                assert_true(along > 0.99); /* no sign changes within an episode */
            }
            if (k == episode->nsteps)
                break;
            /* commands are held for 5 ms: half of that late on average */
            assert_float_equal(u[0], mean(thrust, t - 0.0025, dt), 1e-4);
            assert_float_equal(u[1], mean(roll, t - 0.0025, dt), 1e-4);
            assert_float_equal(u[2], mean(pitch, t - 0.0025, dt), 1e-4);
            assert_float_equal(u[3], -0.2, 1e-6);
        }
        double end = begin + episode->nsteps * dt, expected = ulog && e == 0 ? 110 : e < d->nepisodes - 1 ? 118 : 128;
        assert_true(end <= expected + 1e-6 && end > expected - 2 * dt);
    }
    /* parameters of the flight, and no others */
    assert_int_equal(d->header.nhidden, ulog ? 2 : 1);
    assert_string_equal(d->header.hidden_name[0], ulog ? "BAT1_N_CELLS" : "MOT_THST_EXPO");
    assert_true(fabs(d->function[0].hidden[0] - (ulog ? 4 : 0.65)) < 1e-6);
    if (ulog)
        assert_float_equal(d->function[0].hidden[1], 0.25, 1e-6);
    hb_dataset_free(d);
}

static void a_ulog_becomes_what_was_flown(void **state)
{
    (void)state;
    check_flight("flight.ulg", true);
}

static void an_ardupilot_log_too(void **state)
{
    (void)state;
    check_flight("flight.bin", false);
}

/* a parameter that matters changes in flight: another function from there on; others do not count */
static void changes_of_parameters_begin_functions(void **state)
{
    (void)state;
    for (int one = 0; one < 2; one++) {
        hb_flight_result result;
        hb_dataset *d = NULL;
        hb_error err = {0};
        if (import("changed.ulg", &(hb_flight_import){.one_function = one}, &result, &err) ||
            hb_dataset_read(&d, output, NULL, &err))
            fail_msg("%s", err.text);
        assert_int_equal(result.changes, 1);
        assert_int_equal(d->nepisodes, 4);
        assert_int_equal(d->nfunctions, 2);
        assert_int_equal(d->function[1].nepisodes, 1);
        assert_float_equal(d->function[0].hidden[1], 0.25, 1e-6);
        assert_float_equal(d->function[1].hidden[1], 0.5, 1e-6);
        /* the last before it ends at 122 s at most, the next begins there or a step later */
        const hb_episode *before = &d->episode[2], *after = &d->episode[3];
        assert_int_equal(before->function, 0);
        double end = 119 + before->nsteps * 0.04;
        assert_true(end <= 122.01 && end > 121.9);
        expect(100 + ceil((122 - 100) / 0.04 + 1 - 1e-6) * 0.04, true, after->x);
        hb_dataset_free(d);
    }
}

static void slow_logs_are_refused_with_the_cure(void **state)
{
    (void)state;
    hb_flight_result result;
    hb_error err = {0};

    assert_int_equal(import("slow.ulg", &(hb_flight_import){0}, &result, &err), -EINVAL);
    assert_non_null(strstr(err.text, "vehicle_local_position was logged at 10.0 Hz"));
    assert_non_null(strstr(err.text, "etc/logging/logger_topics.txt"));
    assert_non_null(strstr(err.text, "\nvehicle_local_position 0\n"));
    assert_int_equal(access(output, F_OK), -1); /* nothing is left behind */
    /* asked for all the same */
    if (import("slow.ulg", &(hb_flight_import){.min_rate = -1}, &result, &err))
        fail_msg("%s", err.text);
    assert_int_equal(result.episodes, 3);
}

static uint8_t *read_file(const char *name, size_t *n)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*n);
    assert_int_equal(fread(data, 1, *n, file), *n);
    fclose(file);
    return data;
}

/* A file that ends anywhere is a shorter flight, not a failure; but for what lies within its head. */
static void logs_may_end_anywhere(void **state)
{
    (void)state;
    static const char *const names[] = {"flight.ulg", "flight.bin"};
    for (int which = 0; which < 2; which++) {
        size_t n;
        uint8_t *data = read_file(names[which], &n);
        int (*read)(hb_flight_log *, const char *, const uint8_t *, size_t, hb_error *) =
            which ? hb_ardupilot_read : hb_ulog_read;
        for (size_t end = 16; end < n; end = end < 4000 ? end + 1 : end + 4999) {
            hb_flight_log log = {0};
            hb_error err = {0};
            /* a copy of that size, so that reading beyond it is seen by the sanitizer and valgrind */
            uint8_t *piece = malloc(end);
            memcpy(piece, data, end);
            if (read(&log, "piece", piece, end, &err))
                fail_msg("%s of %zu bytes: %s", names[which], end, err.text);
            hb_flight_log_free(&log);
            free(piece);
        }
        free(data);
    }
}

static void damage_is_named_with_its_offset(void **state)
{
    (void)state;
    size_t n;
    uint8_t *data = read_file("flight.ulg", &n);
    hb_flight_log log;
    hb_error err = {0};

    /* an incompat bit that nobody knows yet: flags are the first message, at 16 */
    data[16 + 3 + 8] = 2;
    assert_int_equal(hb_ulog_read(&log, "a.ulg", data, n, &err), -EINVAL);
    assert_string_equal(err.text, "a.ulg: offset 16: incompatible flags: this log needs a newer reader");
    hb_flight_log_free(&log);
    data[16 + 3 + 8] = 0;
    /* a message of no known type, in the middle */
    size_t at = 16;
    for (int i = 0; i < 1000; i++)
        at += 3 + (size_t)(data[at] | data[at + 1] << 8);
    uint8_t kept = data[at + 2];
    data[at + 2] = '!';
    assert_int_equal(hb_ulog_read(&log, "a.ulg", data, n, &err), -EINVAL);
    char expected[64];
    snprintf(expected, sizeof expected, "a.ulg: offset %zu: a message of a type", at);
    assert_memory_equal(err.text, expected, strlen(expected));
    hb_flight_log_free(&log);
    data[at + 2] = kept;
    /* formats that lead round in circles */
    uint8_t *name = memmem(data, n, "inner_s b", 9);
    assert_non_null(name);
    memcpy(name, "extra_s b", 9);
    assert_int_equal(hb_ulog_read(&log, "a.ulg", data, n, &err), -EINVAL);
    assert_non_null(strstr(err.text, "format of vehicle_local_position"));
    hb_flight_log_free(&log);
    free(data);

    data = read_file("flight.bin", &n);
    data[89 * 3 + 1] = 0;
    assert_int_equal(hb_ardupilot_read(&log, "a.bin", data, n, &err), -EINVAL);
    assert_string_equal(err.text,
                        "a.bin: offset 267: expected a message (A3 95), found A3 00: the log is damaged here");
    hb_flight_log_free(&log);
    data[89 * 3 + 1] = 0x95;
    data[89 + 9] = '?';
    assert_int_equal(hb_ardupilot_read(&log, "a.bin", data, n, &err), -EINVAL);
    assert_non_null(strstr(err.text, "offset 89: format of message 10 has a field of unknown type 0x3f"));
    hb_flight_log_free(&log);
    free(data);

    hb_flight_result result;
    assert_int_equal(import("make_logs.py", &(hb_flight_import){0}, &result, &err), -ENOENT);
}

/* any byte changed to anything: read, or refused with an offset, and nothing else happens */
static void random_damage_does_no_harm(void **state)
{
    (void)state;
    static const char *const names[] = {"flight.ulg", "flight.bin"};
    unsigned draw = 3;
    for (int which = 0; which < 2; which++) {
        size_t n;
        uint8_t *data = read_file(names[which], &n);
        size_t head = n < 20000 ? n : 20000; /* definitions, and some hundred samples */
        for (int i = 0; i < 3000; i++) {
            hb_flight_log log = {0};
            hb_error err = {0};
            draw = draw * 1664525u + 1013904223u;
            size_t at = (draw >> 8) % (i % 2 ? head : 3000);
            uint8_t kept = data[at];
            draw = draw * 1664525u + 1013904223u;
            data[at] = (uint8_t)(draw >> 16);
            if ((which ? hb_ardupilot_read : hb_ulog_read)(&log, "damaged", data, head, &err) &&
                !strstr(err.text, "damaged: offset "))
                fail_msg("byte %zu: %s", at, err.text);
            hb_flight_log_free(&log);
            data[at] = kept;
        }
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ulog_becomes_what_was_flown),
        cmocka_unit_test(an_ardupilot_log_too),
        cmocka_unit_test(changes_of_parameters_begin_functions),
        cmocka_unit_test(slow_logs_are_refused_with_the_cure),
        cmocka_unit_test(logs_may_end_anywhere),
        cmocka_unit_test(damage_is_named_with_its_offset),
        cmocka_unit_test(random_damage_does_no_harm),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
