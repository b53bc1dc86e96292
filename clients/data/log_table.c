#include "data/log_table.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "data/dataset.h"

enum { MAX_COLUMNS = 1024, LONGEST_LINE = 1 << 20 };

/* a log of a day at 1 kHz with a hundred columns is refused before it takes all memory */
static const size_t most_numbers = (size_t)1 << 30;
/* gzip makes up to 1032 bytes of one, and text of two bytes a number of eight: a few megabytes may fill any memory. A
 * log gains ten times, or thirty where most of its columns stand still. Beyond a hundred times, text and numbers
 * together, it is none; what stays below the first number is taken in any case. */
static const double plain = 256 << 20, densest = 100; /* bytes, of one stored */

/* Cuts a line at the separator, in place; within quotes and brackets it does not count, so that a quoted list is one
 * field. Blanks and quotes around a field are dropped. */
static int split(char *line, char separator, char **field)
{
    int n = 0, depth = 0;
    bool quoted = false;
    char *start = line;

    for (char *c = line;; c++) {
        if (*c == '"')
            quoted = !quoted;
        depth += !quoted && *c == '[' ? 1 : !quoted && *c == ']' && depth ? -1 : 0;
        if (*c && (*c != separator || quoted || depth))
            continue;
        bool last = !*c;
        *c = 0;
        start += strspn(start, " \t");
        size_t length = strlen(start);
        while (length && (start[length - 1] == ' ' || start[length - 1] == '\t'))
            start[--length] = 0;
        if (length >= 2 && start[0] == '"' && start[length - 1] == '"') {
            start[length - 1] = 0;
            start++;
        }
        if (n < MAX_COLUMNS)
            field[n] = start;
        n++;
        if (last)
            return n;
        start = c + 1;
    }
}

static double number(const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end != text && !*end)
        return isfinite(value) ? value : NAN;
    if (strcasecmp(text, "true") == 0)
        return 1;
    return strcasecmp(text, "false") == 0 ? 0 : NAN;
}

static int take_names(hb_log_table *t, const char *path, char *line, char *separator, hb_error *err)
{
    char *field[MAX_COLUMNS];

    if (strncmp(line, "\xef\xbb\xbf", 3) == 0) /* a byte-order mark is not part of the first name */
        line += 3;
    line += strspn(line, "#% \t");
    *separator = strchr(line, ',') ? ',' : strchr(line, ';') ? ';' : strchr(line, '\t') ? '\t' : ' ';
    t->names = strdup(line);
    if (!t->names)
        return hb_fail(err, ENOMEM, "out of memory");
    t->ncolumns = split(t->names, *separator, field);
    if (t->ncolumns > MAX_COLUMNS)
        return hb_fail(err, EINVAL, "%s:1: more than %d columns", path, MAX_COLUMNS);
    t->name = calloc((size_t)t->ncolumns, sizeof *t->name);
    if (!t->name)
        return hb_fail(err, ENOMEM, "out of memory");
    memcpy(t->name, field, (size_t)t->ncolumns * sizeof *t->name);
    for (int i = 0; i < t->ncolumns; i++)
        if (!isnan(number(t->name[i])))
            return hb_fail(err, EINVAL, "%s:1: column %d is the number %.20s: the first line must name the columns",
                           path, i + 1, t->name[i]);
    return 0;
}

static int take_row(hb_log_table *t, const char *path, size_t line_number, char *line, char separator, hb_error *err)
{
    char *field[MAX_COLUMNS];
    size_t n = (size_t)t->ncolumns;
    int found = split(line, separator, field);

    if (found != t->ncolumns)
        return hb_fail(err, EINVAL, "%s:%zu: %d fields, the first line has %d", path, line_number, found, t->ncolumns);
    if (t->rows == t->room) {
        size_t room = t->room ? 2 * t->room : 1024;
        if (room * n > most_numbers)
            return hb_fail(err, ENOMEM, "%s:%zu: more than %zu million numbers: cut it", path, line_number,
                           most_numbers / 1000000);
        double *more = realloc(t->value, room * n * sizeof *more);
        if (!more)
            return hb_fail(err, ENOMEM, "%s:%zu: out of memory", path, line_number);
        t->value = more;
        t->room = room;
    }
    for (size_t i = 0; i < n; i++)
        t->value[t->rows * n + i] = number(field[i]);
    t->rows++;
    return 0;
}

int hb_log_table_read(hb_log_table *ret, const char *path, hb_error *err)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), status = 0; /* a fifo must not hold us */
    if (fd < 0)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    gzFile in = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? gzdopen(fd, "rb") : NULL; /* plain text as well */
    if (!in) {
        close(fd);
        return hb_fail(err, EINVAL, "%s: is not a regular file", path);
    }
    char *line = malloc(LONGEST_LINE), separator = ',';
    hb_log_table t = {0};
    double text = 0; /* bytes so far */

    if (!line)
        status = hb_fail(err, ENOMEM, "out of memory");
    for (size_t number = 1; !status && gzgets(in, line, LONGEST_LINE); number++) {
        size_t length = strcspn(line, "\r\n");
        const double taken = text + (double)(t.rows * (size_t)t.ncolumns * sizeof *t.value);
        text += (double)length + 1;
        if (taken > plain && taken > densest * (double)info.st_size)
            status = hb_fail(err, EINVAL,
                             "%s:%zu: %.3g MB unpack to more than a hundred times as much: no log is that empty (if it "
                             "is one, gunzip it first)",
                             path, number, (double)info.st_size * 1e-6);
        else if (!line[length] && !gzeof(in))
            status = hb_fail(err, EINVAL, "%s:%zu: a line of more than a megabyte", path, number);
        line[length] = 0;
        if (!status && hb_dataset_control_character(line))
            status = hb_fail(err, EINVAL, "%s:%zu: contains a control character", path, number);
        else if (!status && !t.name)
            status = take_names(&t, path, line, &separator, err);
        else if (!status && line[strspn(line, " \t")])
            status = take_row(&t, path, number, line, separator, err);
    }
    int broken = Z_OK;
    const char *why = gzerror(in, &broken);
    if (!status && broken != Z_OK && broken != Z_STREAM_END)
        status = hb_fail(err, EIO, "%s: cannot be read: %s", path, why);
    if (!status && t.rows < 2)
        status = hb_fail(err, EINVAL, "%s: %zu rows of numbers, expected at least 2", path, t.rows);
    free(line);
    gzclose(in);
    if (status)
        hb_log_table_free(&t);
    else
        *ret = t;
    return status;
}

void hb_log_table_free(hb_log_table *t)
{
    free(t->name);
    free(t->names);
    free(t->value);
    *t = (hb_log_table){0};
}

int hb_log_table_find(const hb_log_table *t, const char *name)
{
    for (int i = 0; i < t->ncolumns; i++)
        if (strcmp(t->name[i], name) == 0)
            return i;
    return -1;
}
