/* CSV logs -> a data set. A log is a header line of column names and rows of numbers, separated by commas, semicolons
 * or tabs. One file is one episode, cut where time jumps:
 *
 *     time  0.00 0.04 0.08        0.90 0.94 0.98
 *           |- episode 0 -|  gap  |- episode 1 -|
 */
#include "data/dataset.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"

enum { MAX_COLUMNS = 4096, MAX_TAKEN = 512 };

/* The columns that are wanted: states, then controls, then time. */
typedef struct wanted {
    int nx, nu, n;
    char name[MAX_TAKEN][HB_NAME_SIZE];   /* in the data set */
    char unit[MAX_TAKEN][HB_NAME_SIZE];   /* "" when not given */
    char column[MAX_TAKEN][HB_NAME_SIZE]; /* in the log */
} wanted;

/* One log: n numbers per row, in the order of `wanted`, time last (if there is one). */
typedef struct table {
    double *value;
    size_t rows, capacity;
} table;

/* A list of NAME, NAME[UNIT], NAME=COLUMN and NAME[UNIT]=COLUMN. */
static int want_list(wanted *w, const char *list, const char *what, hb_error *err)
{
    for (const char *item = list && list[0] ? list : NULL; item;) {
        size_t length = strcspn(item, ","), name = strcspn(item, "[=,"), unit = 0;
        const char *rest = item + name;
        bool bad = false;
        if (*rest == '[') {
            unit = strcspn(++rest, "],");
            bad = rest[unit] != ']' || unit >= HB_NAME_SIZE;
            rest += unit + (rest[unit] == ']');
        }
        bad = bad || (*rest != '=' && rest != item + length);
        const char *column = *rest == '=' ? rest + 1 : item;
        size_t column_length = *rest == '=' ? (size_t)(item + length - column) : name;
        if (w->n == MAX_TAKEN)
            return hb_fail(err, EINVAL, "more than %d columns are asked for", MAX_TAKEN);
        if (bad || name == 0 || name >= HB_NAME_SIZE || column_length == 0 || column_length >= HB_NAME_SIZE)
            return hb_fail(err, EINVAL,
                           "%s '%.*s': expected NAME, NAME[UNIT], NAME=COLUMN or NAME[UNIT]=COLUMN, each of 1 to %d "
                           "characters",
                           what, (int)length, item, HB_NAME_SIZE - 1);
        memcpy(w->name[w->n], item, name);
        memcpy(w->unit[w->n], item + name + 1, unit);
        memcpy(w->column[w->n], column, column_length);
        for (int i = 0; i < w->n; i++)
            if (strcmp(w->name[i], w->name[w->n]) == 0)
                return hb_fail(err, EINVAL, "%s '%s' is asked for twice", what, w->name[i]);
        w->n++;
        item = item[length] ? item + length + 1 : NULL;
    }
    return 0;
}

static int find_control(const wanted *w, const char *name, size_t length)
{
    for (int i = 0; i < w->nu; i++)
        if (strlen(w->name[w->nx + i]) == length && strncmp(w->name[w->nx + i], name, length) == 0)
            return i;
    return -1;
}

static bool read_number(const char *text, double *ret)
{
    char *end;
    *ret = strtod(text, &end);
    return end != text && !*end && isfinite(*ret);
}

/* "NUMBER" or, as a range, "MIN..MAX" */
static bool read_item(char *text, double *low, double *high)
{
    char *dots = strstr(text, "..");
    if (!high)
        return read_number(text, low);
    if (!dots)
        return false;
    *dots = 0;
    return read_number(text, low) && read_number(dots + 2, high) && *low < *high;
}

/* Numbers for all controls from "VALUE" or "CONTROL=VALUE,...": ranges when there is a `high`. */
static int read_for_controls(const wanted *w, const char *list, const char *what, double *low, double *high,
                             hb_error *err)
{
    for (int i = 0; i < w->nu; i++)
        low[i] = NAN;
    for (const char *item = list; item;) {
        size_t length = strcspn(item, ","), name = strcspn(item, "=,");
        bool named = name < length;
        int control = named ? find_control(w, item, name) : -1;
        char text[100];
        double a = 0, b = 0;
        if (named && control < 0)
            return hb_fail(err, EINVAL, "%s: there is no control '%.*s'", what, (int)name, item);
        snprintf(text, sizeof text, "%.*s", (int)(named ? length - name - 1 : length), named ? item + name + 1 : item);
        if (!read_item(text, &a, high ? &b : NULL))
            return hb_fail(err, EINVAL, "%s '%.*s': expected [CONTROL=]%s", what, (int)length, item,
                           high ? "MIN..MAX" : "NUMBER");
        for (int i = 0; i < w->nu; i++) {
            if (named && i != control)
                continue;
            low[i] = a;
            if (high)
                high[i] = b;
        }
        item = item[length] ? item + length + 1 : NULL;
    }
    for (int i = 0; i < w->nu; i++)
        if (isnan(low[i]))
            return hb_fail(err, EINVAL, "%s: nothing is given for control '%s'", what, w->name[w->nx + i]);
    return 0;
}

/* Cuts a line into fields in place; quotes around a field are dropped. Returns their number. */
static int split(char *line, char separator, char **field)
{
    int n = 0;

    line[strcspn(line, "\r\n")] = 0;
    for (char *start = line; start && n < MAX_COLUMNS;) {
        char *end = strchr(start, separator);
        if (end)
            *end = 0;
        start += strspn(start, " ");
        size_t length = strlen(start);
        while (length > 0 && start[length - 1] == ' ')
            start[--length] = 0;
        if (length >= 2 && start[0] == '"' && start[length - 1] == '"') {
            start[length - 1] = 0;
            start++;
        }
        field[n++] = start;
        start = end ? end + 1 : NULL;
    }
    return n;
}

/* Names all columns that there are, as far as a message holds them. */
static int no_such_column(const char *path, const char *name, char **field, int n, hb_error *err)
{
    char known[400] = "";
    size_t used = 0;

    for (int j = 0; j < n; j++) {
        size_t length = strlen(field[j]);
        if (used + length + 30 > sizeof known) {
            snprintf(known + used, sizeof known - used, " and %d more", n - j);
            break;
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", j ? ", " : "", field[j]);
    }
    return hb_fail(err, EINVAL, "%s:1: there is no column '%s'; the columns are: %s", path, name, known);
}

static int read_header_line(const char *path, char *line, char *separator, const wanted *w, char **field, int *column,
                            int *ncolumns, hb_error *err)
{
    /* a byte-order mark is not part of the first name */
    if (strncmp(line, "\xef\xbb\xbf", 3) == 0)
        line += 3;
    *separator = strchr(line, ',') ? ',' : strchr(line, ';') ? ';' : strchr(line, '\t') ? '\t' : ',';
    *ncolumns = split(line, *separator, field);
    for (int i = 0; i < w->n; i++) {
        column[i] = -1;
        for (int j = 0; j < *ncolumns; j++)
            if (strcmp(field[j], w->column[i]) == 0)
                column[i] = j;
        if (column[i] < 0)
            return no_such_column(path, w->column[i], field, *ncolumns, err);
    }
    return 0;
}

static int add_row(const char *path, size_t number, char **field, int nfields, int ncolumns, const wanted *w,
                   const int *column, table *t, hb_error *err)
{
    if (nfields != ncolumns)
        return hb_fail(err, EINVAL, "%s:%zu: %d fields, the header has %d", path, number, nfields, ncolumns);
    if (t->rows == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 1024;
        double *grown = realloc(t->value, capacity * (size_t)w->n * sizeof *grown);
        if (!grown)
            return hb_fail(err, ENOMEM, "%s: out of memory", path);
        t->value = grown;
        t->capacity = capacity;
    }
    for (int i = 0; i < w->n; i++) {
        char *text = field[column[i]], *end;
        double value = strtod(text, &end);
        if (end == text || *end || !isfinite(value))
            return hb_fail(err, EINVAL, "%s:%zu: column '%s': '%.40s' is not a finite number", path, number,
                           w->column[i], text);
        t->value[t->rows * (size_t)w->n + (size_t)i] = value;
    }
    t->rows++;
    return 0;
}

static int read_table(const char *path, const wanted *w, table *t, hb_error *err)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a fifo must not hold us */
    if (fd < 0)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    FILE *file = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? fdopen(fd, "r") : NULL;
    if (!file) {
        close(fd);
        return hb_fail(err, EINVAL, "%s: is not a regular file", path);
    }
    char *line = NULL, *field[MAX_COLUMNS], separator = ',';
    size_t size = 0;
    int column[MAX_TAKEN], ncolumns = 0, status = 0;

    t->rows = 0;
    for (size_t number = 1; !status && getline(&line, &size, file) >= 0; number++) {
        line[strcspn(line, "\r\n")] = 0;
        if (hb_dataset_control_character(line)) /* names and fields are shown in messages */
            status = hb_fail(err, EINVAL, "%s:%zu: contains a control character", path, number);
        else if (number == 1)
            status = read_header_line(path, line, &separator, w, field, column, &ncolumns, err);
        else if (line[strspn(line, " \t\r\n")])
            status = add_row(path, number, field, split(line, separator, field), ncolumns, w, column, t, err);
    }
    if (!status && ferror(file))
        status = hb_fail(err, EIO, "%s: cannot be read", path);
    if (!status && t->rows < 2)
        status = hb_fail(err, EINVAL, "%s: %zu rows of numbers, expected at least 2", path, t->rows);
    free(line);
    fclose(file);
    return status;
}

/* Median step of a time column. */
static int median_step(const table *t, int stride, int column, double scale, double *ret, hb_error *err)
{
    size_t n = t->rows - 1;
    double *step = malloc(n * sizeof *step);
    if (!step)
        return hb_fail(err, ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const double *row = t->value + i * (size_t)stride;
        step[i] = scale * (row[stride + column] - row[column]);
    }
    *ret = hb_quantile(step, (int)n, 0.5);
    free(step);
    return 0;
}

typedef struct import_run {
    const hb_csv_import *import;
    const wanted *wanted;
    double dt, scale;
    hb_dataset_writer *writer;
    double *x, *u, *time; /* one episode */
    size_t capacity;
} import_run;

/* Rows first..last of a table as an episode. */
static int write_piece(import_run *run, const table *t, size_t first, size_t last, int function, hb_error *err)
{
    const wanted *w = run->wanted;
    size_t nx = (size_t)w->nx, nu = (size_t)w->nu, n = last - first;

    for (size_t i = 0; i <= n; i++) {
        const double *row = t->value + (first + i) * (size_t)w->n;
        memcpy(run->x + i * nx, row, nx * sizeof *row);
        if (nu > 0 && i < n)
            memcpy(run->u + i * nu, row + nx, nu * sizeof *row);
        if (run->import->time)
            run->time[i] = run->scale * (row[w->n - 1] - t->value[first * (size_t)w->n + (size_t)w->n - 1]);
    }
    return hb_dataset_writer_append(run->writer, function, (int)n, run->x, run->u, run->import->time ? run->time : NULL,
                                    NULL, err);
}

static int write_table(import_run *run, const char *path, const table *t, int function, hb_error *err)
{
    const wanted *w = run->wanted;
    double gap = (run->import->gap > 0 ? run->import->gap : 3) * run->dt;
    size_t first = 0, written = 0;
    int status = 0;

    if (t->rows > run->capacity) {
        free(run->x);
        free(run->u);
        free(run->time);
        run->capacity = t->rows;
        run->x = malloc(t->rows * (size_t)w->nx * sizeof *run->x);
        run->u = malloc((t->rows * (size_t)w->nu + 1) * sizeof *run->u);
        run->time = malloc(t->rows * sizeof *run->time);
        if (!run->x || !run->u || !run->time)
            return hb_fail(err, ENOMEM, "%s: out of memory", path);
    }
    for (size_t i = 1; !status && i <= t->rows; i++) {
        bool end = i == t->rows;
        if (!end && run->import->time) {
            const double *row = t->value + i * (size_t)w->n + w->n - 1;
            double step = run->scale * (row[0] - row[-w->n]);
            if (!(step > 0))
                return hb_fail(err, EINVAL, "%s: row %zu: time %.9g does not come after %.9g", path, i + 1, row[0],
                               row[-w->n]);
            end = step > gap;
        }
        /* a row on its own between two gaps shows no transition */
        if (end && i - first >= 2) {
            status = write_piece(run, t, first, i - 1, function, err);
            written++;
        }
        if (end)
            first = i;
    }
    if (!status && written == 0)
        status = hb_fail(err, EINVAL, "%s: every step is a gap (longer than %g s): is dt right?", path, gap);
    return status;
}

static int open_writer(import_run *run, const char *path, hb_error *err)
{
    const hb_csv_import *in = run->import;
    const wanted *w = run->wanted;
    char unit[MAX_TAKEN][HB_NAME_SIZE], name[MAX_TAKEN][HB_NAME_SIZE];
    double low[MAX_TAKEN], high[MAX_TAKEN], trim[MAX_TAKEN];
    hb_dataset_header h = {.nx = w->nx, .nu = w->nu, .dt = run->dt};
    int status = 0;

    memcpy(name, w->name, sizeof name);
    memcpy(unit, w->unit, sizeof unit);
    h.state_name = name;
    h.control_name = name + w->nx;
    h.state_unit = unit;
    h.control_unit = unit + w->nx;
    if (in->plant)
        snprintf(h.plant, sizeof h.plant, "%s", in->plant);
    if (in->bounds) {
        status = read_for_controls(w, in->bounds, "bounds", low, high, err);
        h.control_min = low;
        h.control_max = high;
    }
    if (!status && in->trim) {
        status = read_for_controls(w, in->trim, "trim", trim, NULL, err);
        h.control_trim = trim;
        for (int i = 0; !status && in->bounds && i < w->nu; i++)
            if (trim[i] < low[i] || trim[i] > high[i])
                status = hb_fail(err, EINVAL, "trim: %g of control '%s' is not within its bounds %g..%g", trim[i],
                                 w->name[w->nx + i], low[i], high[i]);
    }
    return status ? status : hb_dataset_writer_new(&run->writer, path, &h, err);
}

static int import_files(import_run *run, const char *path, hb_error *err)
{
    const hb_csv_import *in = run->import;
    table t = {0};
    int status = 0;

    for (int f = 0; !status && f < in->nfiles; f++) {
        status = read_table(in->file[f], run->wanted, &t, err);
        if (!status && f == 0) {
            run->dt = in->dt;
            if (run->dt == 0 && !in->time)
                status = hb_fail(err, EINVAL, "neither a time column nor dt is given");
            else if (run->dt == 0)
                status = median_step(&t, run->wanted->n, run->wanted->n - 1, run->scale, &run->dt, err);
            if (!status && !(run->dt > 0 && isfinite(run->dt)))
                status = hb_fail(err, EINVAL, "%s: a period of %g s: expected more than 0", in->file[f], run->dt);
            if (!status)
                status = open_writer(run, path, err);
        }
        if (!status)
            status = write_table(run, in->file[f], &t, in->function ? in->function[f] : f, err);
    }
    free(t.value);
    return status;
}

int hb_dataset_import_csv(const hb_csv_import *in, const char *path, hb_error *err)
{
    wanted *w = calloc(1, sizeof *w);
    import_run run = {.import = in, .wanted = w, .scale = in->time_scale > 0 ? in->time_scale : 1};
    int status = 0;

    if (!w)
        return hb_fail(err, ENOMEM, "out of memory");
    if (in->nfiles < 1)
        status = hb_fail(err, EINVAL, "no CSV file is given");
    if (!status && !(status = want_list(w, in->states, "state", err))) {
        w->nx = w->n;
        if (w->nx == 0)
            status = hb_fail(err, EINVAL, "no state is given: name at least one column");
    }
    if (!status && !(status = want_list(w, in->controls, "control", err)))
        w->nu = w->n - w->nx;
    if (!status && in->time) {
        if (w->n == MAX_TAKEN || strlen(in->time) >= HB_NAME_SIZE) {
            status = hb_fail(err, EINVAL, "time column '%.40s': name too long, or too many columns", in->time);
        } else {
            strcpy(w->column[w->n], in->time);
            w->n++;
        }
    }
    if (!status)
        status = import_files(&run, path, err);
    if (!status) {
        status = hb_dataset_writer_close(run.writer, err);
        run.writer = NULL;
    }
    hb_dataset_writer_free(run.writer);
    free(run.x);
    free(run.u);
    free(run.time);
    free(w);
    return status;
}
