/* What hilbert-sim does for a comparison: data and flights. Both are kept, so that an interrupted run goes on. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/statistics.h"
#include "common/child.h"
#include "eval/paper_run.h"

enum { MAX_ARGUMENTS = 40, NUMBER = 24 };

/* a command line that is put together */
typedef struct command {
    int n;
    char *argument[MAX_ARGUMENTS + 1];
    char number[MAX_ARGUMENTS][NUMBER];
} command;

static void add(command *c, const char *option, const char *value)
{
    c->argument[c->n++] = (char *)option;
    if (value)
        c->argument[c->n++] = (char *)value;
}

static void add_number(command *c, const char *option, double value)
{
    snprintf(c->number[c->n], NUMBER, "%.10g", value);
    add(c, option, c->number[c->n]);
}

static int processors(const hb_paper *p)
{
    return p->threads ? p->threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* the exit code of hilbert-sim; its output goes to a file */
static int run(const hb_paper *p, command *c, const char *output, int *code, hb_error *err)
{
    int out = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out < 0)
        return hb_fail(err, errno, "%s: %s", output, strerror(errno));
    *code = hb_child_run(&(hb_child){c->argument, -1, out, -1});
    close(out);
    if (*code < 0 || *code == 127)
        return hb_fail(err, ENOENT, "%s cannot be run, or was ended: it collects and flies (--sim PATH)", p->sim);
    return 0;
}

/* --- data --- */

int hb_paper_collect(const hb_paper *p, const char *name, int functions, int purpose, hb_dataset **ret, hb_error *err)
{
    const hb_paper_scale *s = p->scale;
    char path[HB_PATH_SIZE];
    uint64_t seed = 10 * p->seed + (uint64_t)purpose;
    int steps = s->episode_steps ? s->episode_steps : p->plant->episode_steps;
    int episodes = s->transitions / steps > 2 ? s->transitions / steps : 2, code = 0, status;

    /* two at least: examples come from the first half of the data, rollouts from the second */
    if (episodes * steps > s->transitions)
        steps = s->transitions / episodes;
    hb_paper_path(p, name, ".h5", path);
    if (access(path, F_OK)) {
        command c = {0};
        add(&c, p->sim, "collect");
        add(&c, p->plant->name, NULL);
        add(&c, "-o", path);
        add_number(&c, "-f", functions);
        add_number(&c, "-e", episodes);
        add_number(&c, "-n", steps);
        add_number(&c, "-s", (double)seed);
        add_number(&c, "-j", processors(p));
        if ((status = run(p, &c, "/dev/null", &code, err)))
            return status;
        if (code)
            return hb_fail(err, EIO, "%s: hilbert-sim collect failed, see above", path);
    }
    if ((status = hb_dataset_read(ret, path, NULL, err)))
        return status;
    if ((*ret)->header.seed != seed || (*ret)->nfunctions != functions || (*ret)->nepisodes != functions * episodes) {
        hb_dataset_free(*ret);
        *ret = NULL;
        return hb_fail(err, EEXIST, "%s: of another seed or size: remove it, or use another folder", path);
    }
    return 0;
}

/* --- flights --- */

/* in quotes: within them a quote stands twice */
static void write_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', out);
        fputc(*text, out);
    }
    fputc('\'', out);
}

/* One configuration for all rows: that of config/quadrotor.yaml, but that plans take as long as they take, with the
 * number of iterations that the scale has for the row. The model is the row's, so that no other needs to be there. */
static int write_config(const hb_paper *p, const hb_paper_result *r, const char *path, hb_error *err)
{
    int iterations = r->row->ours && p->scale->our_iterations ? p->scale->our_iterations : p->scale->iterations;
    char model[PATH_MAX];
    FILE *out = realpath(r->settings.output, model) ? fopen(path, "we") : NULL;
    if (!out)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    fprintf(out, "name: paper\nmodel: ");
    write_quoted(out, model);
    fprintf(out,
            "\n"
            "estimator: {window: %g}\n" /* of the 0.04 s of these models */
            "planner: {horizon: 10, samples: 100, iterations: %d}\n"
            "cost:\n"
            "  - {kind: distance, states: [x, y, z], weight: 3, terminal: 10}\n"
            "  - {kind: tilt, states: [qx, qy, qz, qw], weight: 5, terminal: 10}\n"
            "  - {kind: velocity, states: [vx, vy, vz], weight: 1, terminal: 10}\n"
            "  - {kind: velocity, states: [wx, wy, wz], weight: 0.02, terminal: 10}\n"
            "  - {kind: slew, controls: [f0, f1, f2, f3], weight: 200}\n"
            "target: {z: 1}\n"
            "latency: {budget: 60, stale_after: 600, fallback_after: 600}\n",
            0.04 * p->scale->flight_examples, iterations);
    return fclose(out) ? hb_fail(err, EIO, "%s: cannot be written: is the disk full?", path) : 0;
}

static void quartiles(double *value, int n, double *ret)
{
    for (int i = 0; i < HB_PAPER_QUARTILES; i++)
        ret[i] = hb_quantile(value, n, 0.25 * (i + 1));
}

static double number_of(const json_t *o, const char *key)
{
    const json_t *value = json_object_get(o, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* n: how many there are, or with `fewer` at most are; a last line may summarise them */
static int read_flights(const char *path, int n, bool fewer, hb_paper_flights *ret, hb_error *err)
{
    double *distance = calloc(3 * (size_t)n, sizeof *distance);
    double *slew = distance ? distance + n : NULL, *planning = distance ? distance + 2 * (size_t)n : NULL;
    FILE *in = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    int flown = 0, whole = 0;
    hb_paper_flights f = {0};

    while (distance && in && f.n < n && getline(&line, &size, in) > 0) {
        json_t *o = json_loads(line, 0, NULL);
        if (json_object_get(o, "flights")) {
            json_decref(o);
            break;
        }
        planning[f.n++] = 1e-3 * number_of(json_object_get(o, "planning_ms"), "p50");
        if (json_is_true(json_object_get(o, "crashed"))) {
            f.crashes++;
        } else {
            distance[flown] = number_of(o, "settled_m");
            slew[flown++] = number_of(o, "slew");
        }
        whole += json_is_object(o) && json_object_get(o, "settled_m") != NULL;
        json_decref(o);
    }
    int status = !distance ? hb_fail(err, ENOMEM, "out of memory")
                 : !in     ? hb_fail(err, errno, "%s: %s", path, strerror(errno))
                 : whole != f.n || (fewer ? !whole : whole != n)
                     ? hb_fail(err, EIO, "%s: %d flights instead of %d: remove it and fly again", path, whole, n)
                     : 0;
    if (!status) {
        quartiles(distance, flown, f.distance);
        quartiles(slew, flown, f.slew);
        f.planning = hb_quantile(planning, f.n, 0.5);
        *ret = f;
    }
    free(line);
    if (in)
        fclose(in);
    free(distance);
    return status;
}

/* the file takes its place when it is known to be whole */
static int fly(const hb_paper *p, hb_paper_result *r, int masses, int starts, const char *path, hb_error *err)
{
    const hb_paper_scale *s = p->scale;
    char config[HB_PATH_SIZE], temporary[HB_PATH_SIZE + 8];
    command c = {0};
    int code = 0, status;

    hb_paper_path(p, r->row->file, "-flights.yaml", config);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    add(&c, p->sim, "fly");
    add(&c, p->plant->name, "--in-process");
    add(&c, "--config", config);
    add(&c, "--model", r->settings.output);
    add_number(&c, "--functions", masses);
    add_number(&c, "--episodes", starts);
    add_number(&c, "--seconds", s->flight_steps * r->model->dt);
    add_number(&c, "--seed", (double)(10 * p->seed + 3));
    add_number(&c, "--examples", s->flight_examples);
    add_number(&c, "--threads", processors(p));
    add(&c, "--json", NULL);
    if ((status = write_config(p, r, config, err)) || (status = run(p, &c, temporary, &code, err)))
        return status;
    /* 1 is a crash, which is a result, or a failure, which leaves flights out */
    if (code > 1)
        return hb_fail(err, EIO, "%s: hilbert-sim fly failed, see above", path);
    if ((status = read_flights(temporary, masses * starts, false, &r->flights, err)))
        return status;
    return rename(temporary, path) ? hb_fail(err, errno, "%s: %s", path, strerror(errno)) : 0;
}

/* of processor time, of all that has ended */
static double children_seconds(void)
{
    struct rusage used = {0};

    getrusage(RUSAGE_CHILDREN, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* fewer starts first, then fewer masses; the flights that are left are the same ones */
static void fit_flights(double flights, int *masses, int *starts)
{
    *starts = (int)fmin(*starts, fmax(1, flights / *masses));
    *masses = (int)fmin(*masses, fmax(1, flights / *starts));
}

int hb_paper_fly(const hb_paper *p, hb_paper_result *r, hb_error *err)
{
    int masses = p->scale->masses, starts = p->scale->starts;
    char path[HB_PATH_SIZE];

    if (!p->flight_seconds)
        return 0;
    hb_paper_path(p, r->row->file, "-flights.jsonl", path);
    if (access(path, F_OK) == 0)
        return read_flights(path, masses * starts, p->flight_seconds > 0, &r->flights, err);
    if (p->flight_seconds > 0) {
        char probe[HB_PATH_SIZE];
        double before = children_seconds();
        hb_paper_path(p, r->row->file, "-flight.jsonl", probe);
        int status = fly(p, r, 1, 1, probe, err);
        if (status)
            return status;
        fit_flights(p->flight_seconds / (children_seconds() - before), &masses, &starts);
        if (masses * starts == 1)
            return rename(probe, path) ? hb_fail(err, errno, "%s: %s", path, strerror(errno)) : 0;
        unlink(probe);
    }
    return fly(p, r, masses, starts, path, err);
}
