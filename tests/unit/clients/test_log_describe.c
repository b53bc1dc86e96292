/* Logs of flights that were integrated here, written as nobody's physics has them: what is described of them imports as
 * the flights that they were. */
#include "made_flights.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "data/import_log.h"
#include "data/log_check.h"

enum { LOGS = FLIGHTS / 2 };

static const double law = 2.5; /* m/s^2 for the square of duty times volts */
static const char *logs[LOGS];

static double volts(int row)
{
    return 4.2 - 0.6 * row / STEPS;
}

/* North-east-down, front-right-down; time in milliseconds, duties of motors that count from the front right on,
 * clockwise: right of, behind, left of, and before what the physics has. */
static void write_log(const hb_dataset *d, int flight, const char *path)
{
    static const int motor_of[NU] = {3, 2, 1, 0};
    FILE *out = fopen(path, "w");

    assert_non_null(out);
    fprintf(out, "time,px,py,pz,vx,vy,vz,qx,qy,qz,qw,gyro_x,gyro_y,gyro_z,m1,m2,m3,m4,vbat\n");
    for (int k = 0; k < STEPS; k++) {
        const double *x = d->episode[flight].x + k * NX, *u = d->episode[flight].u + k * NU;
        double duty[NU];
        for (int i = 0; i < NU; i++)
            duty[motor_of[i]] = sqrt(u[i] / (law * mass_of(flight))) / volts(k);
        fprintf(out, "%.0f,%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%.7f,%.7f,%.7f,%.7f,%.5f,%.5f,%.5f", 1000 * k * dt, x[0],
                -x[2], -x[4], x[1], -x[3], -x[5], x[6], -x[7], -x[8], x[9], x[10], -x[11], -x[12]);
        fprintf(out, ",%.6f,%.6f,%.6f,%.6f,%.3f\n", duty[0], duty[1], duty[2], duty[3], volts(k));
    }
    fclose(out);
}

static void describe(double mass, const char *path)
{
    hb_error err = {0};
    FILE *out = fopen(path, "w");

    assert_non_null(out);
    if (hb_log_describe(LOGS, logs, mass, out, &err))
        fail_msg("%s", err.text);
    fclose(out);
}

static void a_description_needs_the_mass_alone(void **state)
{
    (void)state;
    const char *path = in_folder("log.yaml"), *output = in_folder("log.h5");
    hb_log_map *map = calloc(1, sizeof *map);
    hb_log_result result[LOGS];
    hb_dataset *d = NULL, *right = read_flights("quiet.h5");
    hb_error err = {0};

    describe(light, path);
    if (hb_log_map_read(map, path, &err) || hb_log_import(map, LOGS, logs, output, result, &err) ||
        hb_dataset_read(&d, output, NULL, &err))
        fail_msg("%s", err.text);
    assert_string_equal(map->plant, "quadrotor");
    assert_near(map->dt, 0.04, 0);
    assert_near(map->constant[0].value, law, 0.03 * law);
    assert_string_equal(map->signal[map->nstates].text, "mass * k * (m4 * vbat)^2");
    assert_string_equal(map->signal[map->nstates + 3].text, "mass * k * (m1 * vbat)^2");
    assert_int_equal(hb_log_check(d, map, NAN, stderr), 0);

    /* what was flown: a state is that at 45 ms, where the first step of 40 ms from 5 ms on ends */
    for (int f = 0; f < LOGS; f++) {
        const double *x = right->episode[2 * f].x, *u = right->episode[2 * f].u;
        for (int i = 0; i < NX; i++)
            assert_near(d->episode[f].x[NX + i], 0.75 * x[2 * NX + i] + 0.25 * x[3 * NX + i], 0.01);
        for (int i = 0; i < NU; i++)
            assert_near(d->episode[f].u[i], (15 * u[i] + 20 * u[NU + i] + 5 * u[2 * NU + i]) / 40,
                        0.03 * light * gravity / 4);
    }
    hb_dataset_free(d);
    hb_dataset_free(right);
    free(map);
}

/* Without it the description says where it goes, and is refused until it is there. */
static void a_missing_mass_is_asked_for(void **state)
{
    (void)state;
    const char *path = in_folder("log.yaml");
    hb_log_map *map = calloc(1, sizeof *map);
    hb_error err = {0};

    describe(NAN, path);
    assert_int_equal(hb_log_map_read(map, path, &err), -EINVAL);
    assert_non_null(strstr(err.text, "'KILOGRAMS': expected a number"));
    free(map);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/hilbert-test-describe-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    write_flights(in_folder("quiet.h5"), true, 2e-4, (unseen){0});
    hb_dataset *d = read_flights("quiet.h5");
    for (int f = 0; f < LOGS; f++) { /* those of the light vehicle */
        char name[32];
        snprintf(name, sizeof name, "flight%d.csv", f);
        logs[f] = strdup(in_folder(name));
        write_log(d, 2 * f, logs[f]);
    }
    hb_dataset_free(d);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[100];

    for (int f = 0; f < LOGS; f++)
        free((char *)(uintptr_t)logs[f]);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_description_needs_the_mass_alone),
        cmocka_unit_test(a_missing_mass_is_asked_for),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
