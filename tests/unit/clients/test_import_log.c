/* Logs of other origin: what is computed of their columns, what is cut, and what is said about them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "check.h"
#include "folder.h"
#include "data/import_log.h"
#include "data/log_expression.h"
#include "data/log_table.h"

static int look_up(void *context, const char *name, double *value)
{
    (void)context;
    *value = 3;
    return strcmp(name, "a") == 0 ? 0 : strcmp(name, "vx[m/s]") == 0 ? 1 : strcmp(name, "k") == 0 ? -1 : -2;
}

static void expressions(void **state)
{
    (void)state;
    const double row[] = {2, 5};
    const struct {
        const char *text;
        double value;
    } good[] = {{"1 + 2 * 3", 7},
                {"-a^2", -4},
                {"2^3^2", 512},
                {"(1 + a) * vx[m/s]", 15},
                {"10 - 4 - 3", 3},
                {"k * sqrt(16) / 2", 6},
                {"a > 1 && vx[m/s] <= 5", 1},
                {"a == 3 || 0", 0},
                {"max(a, vx[m/s]) - min(1, 2)", 4},
                {"cos(pi)", -1},
                {"\"vx[m/s]\" * 1e-1", 0.5}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        hb_log_expression *e = NULL;
        hb_error err = {0};
        if (hb_log_expression_new(&e, good[i].text, look_up, NULL, &err))
            fail_msg("%s", err.text);
        if (fabs(hb_log_expression_value(e, row) - good[i].value) > 1e-12)
            fail_msg("%s is %g", good[i].text, hb_log_expression_value(e, row));
        hb_log_expression_free(e);
    }
    const char *bad[] = {"", "1 +", "b", "(a", "a b", "sqrt(a", "max(a)", "\"a", "3..4.5.", "a @ 2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hb_log_expression *e = NULL;
        hb_error err = {0};
        assert_int_equal(hb_log_expression_new(&e, bad[i], look_up, NULL, &err), -EINVAL);
        assert_non_null(strstr(err.text, bad[i]));
    }
    char deep[400];
    memset(deep, '(', sizeof deep);
    deep[sizeof deep - 1] = 0;
    hb_log_expression *e = NULL;
    assert_int_equal(hb_log_expression_new(&e, deep, look_up, NULL, NULL), -EINVAL);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* x = t^2, so that its slope is 2 t; a turn about z whose quaternion's sign flips; rates of the world. Rows every 10
 * ms, in milliseconds; empty cells, a spike, a stretch that hangs and one on the ground. */
static void write_log(const char *path)
{
    gzFile out = gzopen(path, "wb");

    assert_non_null(out);
    gzprintf(out, "# time[ms],pos x,height,qx,qy,qz,qw,wxw,wyw,wzw,duty\r\n");
    for (int i = 0; i < 1000; i++) {
        double t = 0.01 * (i > 600 && i < 650 ? 600 : i), angle = 0.3 * t,
               sign = i % 7 || (i > 600 && i < 650) ? 1 : -1;
        double x = i == 300 ? 1e3 : t * t;
        gzprintf(out, "%d,", 10 * i);
        if (i == 200)
            gzprintf(out, ",");
        else
            gzprintf(out, "%.9f,", x);
        gzprintf(out, "%d,0,0,%.9f,%.9f,%.9f,%.9f,0.3,\"%d\"\n", i >= 100, sign * sin(angle / 2), sign * cos(angle / 2),
                 cos(angle), sin(angle), i / 4 % 2);
    }
    gzclose(out);
}

static const char map_text[] = "time: time[ms] * 1e-3\n"
                               "dt: 0.04\n"
                               "where: height > 0.5\n"
                               "rates: world\n"
                               "states:\n"
                               "  x[m]: '\"pos x\"'\n"
                               "  vx[m/s]: derivative(x)\n"
                               "  qx: qx\n  qy: qy\n  qz: qz\n  qw: qw\n  wx: wxw\n  wy: wyw\n  wz: wzw\n"
                               "controls: {'f[N]': k * mass * duty}\n"
                               "constants: {k: 2}\n"
                               "bounds: {f: [0, 0.5]}\n"
                               "trim: {f: 0.1}\n"
                               "vehicles: {'': {mass: 1}, heavy: {mass: 10}}\n";

static void logs_become_a_data_set(void **state)
{
    (void)state;
    const char *log = in_folder("heavy.csv.gz"), *map_path = in_folder("log.yaml"), *output = in_folder("log.h5");
    hb_log_map *map = calloc(1, sizeof *map);
    hb_log_result r = {0};
    hb_dataset *d = NULL;
    hb_error err = {0};

    write_log(log);
    write_text(map_path, map_text);
    if (hb_log_map_read(map, map_path, &err) || hb_log_import(map, 1, &log, output, &r, &err) ||
        hb_dataset_read(&d, output, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(r.rows, 1000);
    assert_near(r.period, 0.01, 1e-9);
    assert_int_equal(r.not_numbers, 1);
    assert_int_equal(r.glitches, 1);
    assert_int_equal(r.repeated, 49);
    assert_true(r.flips > 100);
    assert_int_equal(d->header.nx, 9);
    assert_near(d->header.dt, 0.04, 0);
    assert_string_equal(d->header.state_unit[1], "m/s");
    assert_near(d->function[0].hidden[0], 10, 0);
    assert_near(d->header.control_trim[0], 0.1, 0);
    double seconds = 0;
    for (int k = 0; k < d->nepisodes; k++) {
        const hb_episode *e = &d->episode[k];
        for (int i = 0; i <= e->nsteps; i++) {
            const double *x = e->x + 9 * i;
            double t = sqrt(x[0]), angle = 0.3 * t;
            assert_true(t >= 1 - 1e-9);
            assert_near(x[1], 2 * t, 2e-3);
            assert_near(x[4], sin(angle / 2), 1e-3);
            assert_near(x[5], cos(angle / 2), 1e-3);
            /* (cos a, sin a) of the world is x of the body */
            assert_near(x[6], 1, 1e-6);
            assert_near(x[7], 0, 1e-6);
            assert_near(x[8], 0.3, 1e-6);
            if (i < e->nsteps)
                assert_in_range((int)(e->u[i] + 0.5), 0, 20);
        }
        seconds += e->nsteps * 0.04;
    }
    /* what is left in pieces of a second: from 3 to 6 s and from 6.5 s on */
    assert_near(seconds, 6.4, 0.2);
    /* what is odd is said: controls of 20 beyond 0.5 */
    bool said = false;
    for (int i = 0; i < r.nfindings; i++)
        said = said || strstr(r.finding[i], "f is beyond its bounds 0 to 0.5");
    assert_true(said);
    hb_dataset_free(d);

    /* seconds taken for what are milliseconds */
    strcpy(map->time, "time[ms]");
    map->dt = 40;
    map->gap = 0;
    memset(&r, 0, sizeof r);
    if (hb_log_import(map, 1, &log, in_folder("slow.h5"), &r, &err))
        fail_msg("%s", err.text);
    map->dt = 0;
    assert_near(r.period, 10, 1e-9);
    free(map);
}

/* A control in force for half of each period of 80 ms has a mean of one half. */
static void controls_are_means(void **state)
{
    (void)state;
    const char *log = in_folder("mean.csv"), *map_path = in_folder("mean.yaml"), *output = in_folder("mean.h5");
    hb_log_map *map = calloc(1, sizeof *map);
    hb_log_result r = {0};
    hb_dataset *d = NULL;
    hb_error err = {0};
    FILE *out = fopen(log, "w");

    fprintf(out, "t;x;u\n");
    for (int i = 0; i < 400; i++)
        fprintf(out, "%.2f;%d;%d\n", 0.01 * i, i, i / 4 % 2);
    fclose(out);
    write_text(map_path, "time: t\ndt: 0.08\nstates: {x: x}\ncontrols: {u: u}\n");
    if (hb_log_map_read(map, map_path, &err) || hb_log_import(map, 1, &log, output, &r, &err) ||
        hb_dataset_read(&d, output, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(d->nepisodes, 1);
    for (int i = 0; i < d->episode[0].nsteps; i++) {
        assert_near(d->episode[0].u[i], 0.5, 1e-9);
        assert_near(d->episode[0].x[i + 1] - d->episode[0].x[i], 8, 1e-9);
    }
    hb_dataset_free(d);
    free(map);
}

/* A position that is found elsewhere, from one row to the next, is no motion: no step of an episode has it. */
static void jumps_end_episodes(void **state)
{
    (void)state;
    const char *log = in_folder("jump.csv"), *map_path = in_folder("jump.yaml"), *output = in_folder("jump.h5");
    hb_log_map *map = calloc(1, sizeof *map);
    hb_log_result r = {0};
    hb_dataset *d = NULL;
    hb_error err = {0};
    FILE *out = fopen(log, "w");

    fprintf(out, "t,x\n");
    for (int i = 0; i < 600; i++)
        fprintf(out, "%.2f,%.4f\n", 0.01 * i, sin(0.01 * i) + (i >= 300 ? 5 : 0));
    fclose(out);
    write_text(map_path, "time: t\ndt: 0.04\nstates: {x: x, v: derivative(x)}\n");
    if (hb_log_map_read(map, map_path, &err) || hb_log_import(map, 1, &log, output, &r, &err) ||
        hb_dataset_read(&d, output, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(r.jumps, 1);
    assert_int_equal(r.gaps, 0);
    assert_int_equal(d->nepisodes, 2);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < d->episode[k].nsteps; i++) {
            assert_near(d->episode[k].x[2 * (i + 1)] - d->episode[k].x[2 * i], 0, 0.05);
            assert_near(d->episode[k].x[2 * i + 1], 0, 1.01);
        }
    hb_dataset_free(d);
    free(map);
}

/* What is said of a position in millimetres and a velocity that is `times` its slope and `late`. */
static const char *said_of_velocity(double times, double late)
{
    static char said[2 * HB_LOG_FINDING];
    const char *log = in_folder("slope.csv"), *map_path = in_folder("slope.yaml");
    hb_log_map *map = calloc(1, sizeof *map);
    hb_log_result r = {0};
    hb_error err = {0};
    FILE *out = fopen(log, "w");

    fprintf(out, "t,x,v\n");
    for (int i = 0; i < 1000; i++)
        fprintf(out, "%.2f,%.3f,%.3f\n", 0.01 * i, 0.04 * sin(0.06 * i), times * 0.24 * cos(0.06 * i - 6 * late));
    fclose(out);
    write_text(map_path, "time: t\ndt: 0.04\nstates: {x: x, vx: v}\n");
    if (hb_log_map_read(map, map_path, &err) || hb_log_import(map, 1, &log, in_folder("slope.h5"), &r, &err))
        fail_msg("%s", err.text);
    free(map);
    said[0] = 0;
    for (int i = 0; i < r.nfindings; i++)
        strcat(strcat(said, r.finding[i]), "\n");
    return said;
}

static void velocities_are_held_against_positions(void **state)
{
    (void)state;
    assert_string_equal(said_of_velocity(1, 0), ""); /* over two rows the rounding is half of it */
    const char *said = said_of_velocity(1.5, 0);
    double differ = 0; /* half of the slope, 0.24 / sqrt 2 */
    if (sscanf(said, "vx is not the slope of x: they differ by %lf", &differ) != 1 || fabs(differ - 0.085) > 0.004)
        fail_msg("%s", said);
    assert_non_null(strstr(said, "no delay explains it"));
    said = said_of_velocity(1, 0.05);
    assert_non_null(strstr(said, "vx fits x better when it is taken 50 ms later"));
    assert_null(strstr(said, "no delay explains it"));
}

static void bad_descriptions_are_refused(void **state)
{
    (void)state;
    const char *log = in_folder("bad.csv"), *path = in_folder("bad.yaml");
    const struct {
        const char *text, *expected;
    } bad[] = {
        {"time: t\nstates: {x: x}\ncolour: red\n", "bad.yaml:3: 'colour': unknown key"},
        {"states: {x: x}\n", "'states' and 'time' are needed"},
        {"time: t\ndt: -1\nstates: {x: x}\n", "bad.yaml:2: '-1': expected seconds above 0"},
        {"time: t\nstates: {x: x, 'x[m]': x}\n", "bad.yaml:2: 'x[m]': the name is given twice"},
        {"time: t\nstates: {x: x}\nbounds: {x: [0, 1]}\n", "bad.yaml:3: 'x': there is no such control"},
        {"time: t\nstates: {x: x}\nlimits: {x: [1, 0]}\n", "bad.yaml:3: LOW must be below HIGH"},
        {"time: [t\n", "bad.yaml:"},
        {"time: t\nstates: {x: 'y + 1'}\n", "bad.yaml:2: x: 'y + 1': the log has no such column at 'y + 1' (in "},
        {"states: {x: x}\ntime: tt\n", "bad.yaml:2: time: 'tt': the log has no such column"},
        {"time: t\nstates: {x: x}\nwhere: z > 0\n", "bad.yaml:3: where: "},
        {"time: t\nstates:\n  x: x\n  v: derivative(z)\n",
         "bad.yaml:4: derivative(z): there is no such state above it"},
        {"time: t\nstates: {'x[m': x}\n", "bad.yaml:2: 'x[m': expected NAME or NAME[UNIT]: its ] is missing"},
        {"time: t\nfunctions: fils\nstates: {x: x}\n", "bad.yaml:2: 'fils': expected one of file, folder, one"},
        {"time: t\nwhere: x > 1e9\nstates: {x: x}\n", "no stretch of 1 s is left"}};

    write_text(log, "t,x\n0,1\n0.01,2\n0.02,3\n0.03,5\n");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hb_log_map *map = calloc(1, sizeof *map);
        hb_log_result r = {0};
        hb_error err = {0};
        write_text(path, bad[i].text);
        int status = hb_log_map_read(map, path, &err);
        if (!status)
            status = hb_log_import(map, 1, &log, in_folder("bad.h5"), &r, &err);
        if (!status || !strstr(err.text, bad[i].expected))
            fail_msg("%zu: %d '%s', expected '%s'", i, status, err.text, bad[i].expected);
        assert_int_not_equal(access(in_folder("bad.h5"), F_OK), 0);
        free(map);
    }
}

/* What is guessed of a log is a description that imports it. */
static void guesses_can_be_used(void **state)
{
    (void)state;
    const char *log = in_folder("guess.csv"), *path = in_folder("guess.yaml");
    hb_log_map *map = calloc(1, sizeof *map);
    hb_log_result r = {0};
    hb_error err = {0};
    FILE *out = fopen(log, "w");

    fprintf(out, "timestamp,px,py,vy,motor1,motor2\n");
    for (int i = 0; i < 500; i++)
        fprintf(out, "%d,%g,%g,%g,%d,%d\n", 10000 * i, 0.01 * i, sin(0.01 * i), cos(0.01 * i), i, 2 * i);
    fclose(out);
    out = fopen(path, "w");
    assert_int_equal(hb_log_describe(1, &log, NAN, out, &err), 0);
    fclose(out);
    if (hb_log_map_read(map, path, &err) || hb_log_import(map, 1, &log, in_folder("guess.h5"), &r, &err))
        fail_msg("%s", err.text);
    assert_near(r.period, 0.01, 1e-9);
    assert_int_equal(map->nstates, 4); /* x, its slope, y, vy */
    assert_int_equal(map->ncontrols, 2);
    assert_string_equal(map->signal[1].text, "derivative(x)");
    free(map);
}

/* A log of three columns, then 10 MB of one line over and over, so many times: packed once, and put there as often. */
static const char *packed(const char *name, const char *line, int times)
{
    const char *path = in_folder(name), *part = in_folder("part.gz");
    gzFile out = gzopen(part, "wb9");
    const size_t length = strlen(line);

    assert_non_null(out);
    for (size_t n = 0; n < 10000000; n += length)
        gzwrite(out, line, (unsigned)length);
    gzclose(out);
    char bytes[65536];
    FILE *in = fopen(part, "rb");
    const size_t size = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    unlink(part);
    assert_in_range(size, 1, sizeof bytes - 1);
    out = gzopen(path, "wb");
    gzprintf(out, "a,b,c\n1,2,3\n4,5,6\n");
    gzclose(out);
    FILE *to = fopen(path, "ab");
    while (times-- > 0)
        fwrite(bytes, 1, size, to);
    fclose(to);
    return path;
}

static void a_few_packed_bytes_do_not_fill_the_memory(void **state)
{
    (void)state;
    char blank[1001], row[1001] = "";
    hb_log_table t = {0};
    hb_error err = {0};

    memset(blank, ' ', sizeof blank - 1);
    blank[sizeof blank - 2] = '\n';
    blank[sizeof blank - 1] = 0;
    while (strlen(row) < 990)
        strcat(row, "0,0,0\n");
    const char *const line[] = {blank, row};
    for (int i = 0; i < 2; i++) {
        const char *path = packed("bomb.csv.gz", line[i], 40);
        assert_int_equal(hb_log_table_read(&t, path, &err), -EINVAL);
        if (!strstr(err.text, " MB unpack to more than a hundred times as much"))
            fail_msg("%s", err.text);
        unlink(path);
    }
    /* what fits is taken */
    const char *path = packed("log.csv.gz", blank, 2);
    if (hb_log_table_read(&t, path, &err))
        fail_msg("%s", err.text);
    assert_int_equal(t.rows, 2);
    hb_log_table_free(&t);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expressions),
        cmocka_unit_test(logs_become_a_data_set),
        cmocka_unit_test(controls_are_means),
        cmocka_unit_test(jumps_end_episodes),
        cmocka_unit_test(velocities_are_held_against_positions),
        cmocka_unit_test(bad_descriptions_are_refused),
        cmocka_unit_test(guesses_can_be_used),
        cmocka_unit_test(a_few_packed_bytes_do_not_fill_the_memory),
    };
    snprintf(folder, sizeof folder, "/tmp/test_import_log.XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) || failed;
}
