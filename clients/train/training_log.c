#include "train/training_log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/statistics.h"
#include "common/json.h"
#include "common/plot.h"

/* copies the lines of earlier steps */
static void copy_lines(FILE *from, FILE *to, uint64_t step)
{
    char *line = NULL;
    size_t size = 0;

    while (getline(&line, &size, from) > 0) {
        uint64_t found;
        if (sscanf(line, "{\"step\": %" SCNu64, &found) == 1 && found < step && strchr(line, '\n'))
            fputs(line, to);
    }
    free(line);
}

int hb_training_log_open(FILE **ret, const char *path, uint64_t step, hb_error *err)
{
    char *temporary = NULL;
    if (asprintf(&temporary, "%s.tmp", path) < 0)
        return hb_fail(err, ENOMEM, "out of memory");

    FILE *from = step ? fopen(path, "r") : NULL, *to = NULL;
    unlink(temporary); /* left behind by a crash; never through a link that somebody else put there */
    to = fopen(temporary, "wxe");
    if (from && to)
        copy_lines(from, to, step);
    if (from)
        fclose(from);
    bool failed = !to || fflush(to) || rename(temporary, path);
    int status = failed ? hb_fail(err, errno, "%s: %s", path, strerror(errno)) : 0;
    free(temporary);
    if (failed && to)
        fclose(to);
    if (!status)
        *ret = to;
    return status;
}

static void set_number(json_t *line, const char *name, double value)
{
    json_object_set_new(line, name, hb_json_number(value));
}

/* Ends a line with the times so far. */
static void write_line(FILE *log, json_t *line, double seconds, double cpu_seconds)
{
    set_number(line, "seconds", seconds);
    set_number(line, "cpu_seconds", cpu_seconds);
    json_dumpf(line, log, JSON_REAL_PRECISION(9));
    fputc('\n', log);
    fflush(log);
    json_decref(line);
}

void hb_training_log_write(FILE *log, const hb_trainer_report *r, double seconds, double cpu_seconds,
                           const hb_validation *v)
{
    json_t *line = json_object();

    json_object_set_new(line, "step", json_integer((json_int_t)r->step)); /* first: hb_training_log_open looks for it */
    set_number(line, "loss", r->skipped ? NAN : hb_trainer_loss(r));
    set_number(line, "query", r->terms.query);
    set_number(line, "average", r->terms.average);
    set_number(line, "regulariser", r->terms.regulariser);
    set_number(line, "matryoshka", r->terms.matryoshka);
    set_number(line, "gradient_norm", r->gradient_norm);
    set_number(line, "learning_rate", r->learning_rate);
    if (v) {
        set_number(line, "one_step", v->one_step);
        set_number(line, "ten_step", v->ten_step);
    }
    write_line(log, line, seconds, cpu_seconds);
}

void hb_training_log_write_prior(FILE *log, uint64_t steps, double seconds, double cpu_seconds)
{
    json_t *line = json_pack("{s:I, s:b}", "step", (json_int_t)steps, "prior", 1);

    write_line(log, line, seconds, cpu_seconds);
}

/* one curve as a data block of gnuplot */
static void print_curve(FILE *out, const char *block, const json_t *lines, const char *field)
{
    size_t i;
    const json_t *line;

    fprintf(out, "$%s << EOD\n", block);
    json_array_foreach((json_t *)lines, i, line)
    {
        const json_t *value = json_object_get(line, field);
        if (json_is_number(value))
            fprintf(out, "%" JSON_INTEGER_FORMAT " %g\n", json_integer_value(json_object_get(line, "step")),
                    json_number_value(value));
    }
    /* gnuplot refuses an empty block */
    fprintf(out, "NaN NaN\nEOD\n");
}

static json_t *read_lines(const char *path, hb_error *err)
{
    FILE *in = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;

    if (!in) {
        hb_fail(err, errno, "%s: %s", path, strerror(errno));
        return NULL;
    }
    json_t *lines = json_array();
    while (getline(&text, &size, in) > 0)
        json_array_append_new(lines, json_loads(text, 0, NULL));
    free(text);
    fclose(in);
    return lines;
}

/* the sum over runs: within each of them the field grows from line to line */
static double last_of_each_run(const json_t *lines, const char *field)
{
    double sum = 0, last = 0;
    size_t i;
    const json_t *line;

    json_array_foreach((json_t *)lines, i, line)
    {
        double value = json_number_value(json_object_get(line, field));
        if (value < last)
            sum += last;
        last = value;
    }
    return sum + last;
}

int hb_training_log_times(const char *path, double *seconds, double *cpu_seconds, hb_error *err)
{
    json_t *lines = read_lines(path, err);
    if (!lines)
        return err ? -err->code : -EIO;

    *seconds = last_of_each_run(lines, "seconds");
    *cpu_seconds = last_of_each_run(lines, "cpu_seconds");
    json_decref(lines);
    return 0;
}

/* from one line to the next */
static double seconds_of(const json_t *lines, size_t line)
{
    return json_number_value(json_object_get(json_array_get(lines, line), "cpu_seconds")) -
           json_number_value(json_object_get(json_array_get(lines, line - 1), "cpu_seconds"));
}

int hb_training_log_step_seconds(const char *path, hb_training_log_seconds *ret, hb_error *err)
{
    json_t *lines = read_lines(path, err);
    if (!lines)
        return err ? -err->code : -EIO;

    size_t n = json_array_size(lines);
    bool ended = n > 1 && json_is_true(json_object_get(json_array_get(lines, n - 1), "prior"));
    double *step = calloc(n + 1, sizeof *step), end = ended ? seconds_of(lines, n - 1) : 0;
    n -= ended;
    for (size_t i = 1; step && i < n; i++)
        step[i - 1] = seconds_of(lines, i);
    json_decref(lines);
    if (step && n > 1)
        *ret = (hb_training_log_seconds){hb_quantile(step, (int)n - 1, 0.5), hb_quantile(step, (int)n - 1, 1), end};
    int status = !step   ? hb_fail(err, ENOMEM, "out of memory")
                 : n < 2 ? hb_fail(err, EINVAL, "%s: has fewer than two steps", path)
                         : 0;
    free(step);
    return status;
}

int hb_training_log_plot(const char *path, const char *name, hb_error *err)
{
    hb_plot *p = NULL;
    json_t *lines = read_lines(path, err);
    if (!lines)
        return err ? -err->code : -EIO;

    int status = hb_plot_new(&p, name, 900, 500, err);
    if (!status) {
        FILE *out = hb_plot_script(p);
        print_curve(out, "loss", lines, "query");
        print_curve(out, "average", lines, "average");
        print_curve(out, "one", lines, "one_step");
        print_curve(out, "ten", lines, "ten_step");
        fprintf(out, "set logscale y\nset format y '10^{%%T}'\nset grid\nset xlabel 'gradient step'\n"
                     "set ylabel 'mean squared error, normalised'\nset key outside right\n"
                     "plot $loss using 1:2 with lines lc rgb '#9ecae1' title 'loss, query points', "
                     "$average using 1:($2>0?$2:NaN) with lines lc rgb '#d9d9d9' title 'average alone', "
                     "$one using 1:2 with linespoints pt 7 ps 0.4 lc rgb '#08519c' title '1 step, validation', "
                     "$ten using 1:2 with linespoints pt 7 ps 0.4 lc rgb '#a50f15' title '10 steps, validation'\n");
        status = hb_plot_finish(p, err);
    }
    json_decref(lines);
    return status;
}
