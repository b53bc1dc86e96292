#include "view/flight_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "view/files.h"

enum { MOST_ROWS = 20000, MOST_ESTIMATES = 5000, MOST_COEFFICIENTS = 64, MOST_EVENTS = 2000 };

/* '<' too: the text may stand in a page. */
static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s; s++)
        if (*s < 0x20 || *s == '"' || *s == '\\' || *s == '<' || *s == 0x7f)
            fprintf(out, "\\u%04x", *s);
        else
            fputc(*s, out);
    fputc('"', out);
}

static void put_number(FILE *out, double v, int digits)
{
    if (isfinite(v))
        fprintf(out, "%.*g", digits, v);
    else
        fputs("null", out);
}

/* Rows of a table, some of them left out. */
typedef struct rows {
    FILE *out;
    size_t n, every;
} rows;

static rows rows_of(FILE *out, size_t n, size_t most)
{
    return (rows){out, n, n > most ? (n + most - 1) / most : 1};
}

typedef double value(const hb_recorded_flight *f, size_t row, int column);

/* One column: its first of every k, or (largest) the largest of them. */
static void put_column(const rows *r, const hb_recorded_flight *f, value *get, int column, bool largest, int digits)
{
    fputc('[', r->out);
    for (size_t i = 0; i < r->n; i += r->every) {
        double v = get(f, i, column);
        for (size_t k = i + 1; largest && k < i + r->every && k < r->n; k++)
            v = fmax(v, get(f, k, column));
        if (i)
            fputc(',', r->out);
        put_number(r->out, v, digits);
    }
    fputc(']', r->out);
}

static void put_columns(const rows *r, const char *name, const hb_recorded_flight *f, value *get, int n)
{
    fprintf(r->out, ",\"%s\":[", name);
    for (int k = 0; k < n; k++) {
        if (k)
            fputc(',', r->out);
        put_column(r, f, get, k, false, 6);
    }
    fputc(']', r->out);
}

static void put_one(const rows *r, const char *name, const hb_recorded_flight *f, value *get, bool largest)
{
    fprintf(r->out, ",\"%s\":", name);
    put_column(r, f, get, 0, largest, 6);
}

#define VALUE(name, expression)                                                                                        \
    static double name(const hb_recorded_flight *f, size_t i, int k)                                                   \
    {                                                                                                                  \
        (void)k;                                                                                                       \
        return expression;                                                                                             \
    }
VALUE(sample_time, f->sample[i].time)
VALUE(sample_state, f->x[i * (size_t)f->nx + (size_t)k])
VALUE(reply_time, f->reply[i].time)
VALUE(reply_status, f->reply[i].status)
VALUE(reply_total, 1e3 * f->reply[i].total)
VALUE(reply_cost, f->reply[i].cost)
VALUE(reply_error, f->reply[i].one_step_error)
VALUE(reply_expected, f->reply[i].expected_error)
VALUE(reply_span, f->reply[i].out_of_span)
VALUE(reply_target, f->target[i * (size_t)f->nx + (size_t)k])
VALUE(reply_action, f->action[i * (size_t)f->nu + (size_t)k])
VALUE(status_time, f->status[i].time)
VALUE(status_word, f->status[i].word[k])
VALUE(status_word_deviation, f->status[i].word_deviation[k])
VALUE(status_term, f->status[i].term[k])
VALUE(estimate_time, f->estimate[i].time)
VALUE(estimate_status, f->estimate[i].status)
VALUE(estimate_value, (double)f->coefficient[i * (size_t)f->nc + (size_t)k])
VALUE(estimate_deviation, (double)f->deviation[i * (size_t)f->nc + (size_t)k])
#undef VALUE

static void put_channels(FILE *out, const char *name, const hb_recorded_channel *c, int n, bool bounds)
{
    fprintf(out, ",\"%s\":[", name);
    for (int i = 0; i < n; i++) {
        fputs(i ? ",{\"name\":" : "{\"name\":", out);
        put_text(out, c[i].name);
        fputs(",\"unit\":", out);
        put_text(out, c[i].unit);
        if (bounds) {
            fputs(",\"min\":", out);
            put_number(out, c[i].min, 9);
            fputs(",\"max\":", out);
            put_number(out, c[i].max, 9);
        }
        fputc('}', out);
    }
    fputc(']', out);
}

/* A table's times, before its columns. */
static rows begin_table(FILE *out, const char *name, const hb_recorded_flight *f, value *time, size_t n, size_t most)
{
    rows r = rows_of(out, n, most);

    fprintf(out, ",\"%s\":{\"every\":%zu,\"t\":", name, r.every);
    put_column(&r, f, time, 0, false, 12);
    return r;
}

static void put_events(FILE *out, const hb_recorded_flight *f)
{
    fputs(",\"events\":[", out);
    for (size_t i = 0; i < f->nevents && i < MOST_EVENTS; i++) {
        fprintf(out, "%s{\"t\":%.6g,\"text\":", i ? "," : "", f->event[i].time);
        put_text(out, f->event[i].text);
        fputc('}', out);
    }
    fputc(']', out);
}

static void put_report(FILE *out, const hb_recorded_flight *f, const hb_view_report *p)
{
    fputs(",\"rows\":[", out);
    for (int i = 0; i < p->nrows; i++) {
        fputs(i ? ",[" : "[", out);
        put_text(out, p->row[i][0]);
        fputc(',', out);
        put_text(out, p->row[i][1]);
        fputc(']', out);
    }
    fputc(']', out);
    if (p->text) {
        fputs(",\"text\":", out);
        put_text(out, p->text);
    }
    if (!p->npoints)
        return;
    fputs(",\"predicted\":{\"t\":[", out);
    for (size_t i = 0; i < p->npoints; i++)
        fprintf(out, "%s%.12g", i ? "," : "", p->time[i]);
    fputs("],\"x\":[", out);
    for (int k = 0; k < f->nx; k++) {
        fputs(k ? ",[" : "[", out);
        for (size_t i = 0; i < p->npoints; i++) {
            if (i)
                fputc(',', out);
            put_number(out, p->predicted[i * (size_t)f->nx + (size_t)k], 6);
        }
        fputc(']', out);
    }
    fputs("]}", out);
}

/* ---- limits ---- */

void hb_view_write_limits(const char *configuration, FILE *out)
{
    static const char section[] = "limits:\n", rules[] = "  rules:", entry[] = "    - ";
    bool in_section = false, in_rules = false, any = false;

    fputc('[', out);
    for (const char *line = configuration, *end; line && *line; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        if (*line != ' ')
            in_section = strncmp(line, section, strlen(section)) == 0;
        if (in_rules && strncmp(line, entry, strlen(entry)) == 0) {
            char *text = strndup(line + strlen(entry), (size_t)(end - line) - strlen(entry));
            fputs(any ? "," : "", out);
            put_text(out, text ? text : "");
            free(text);
            any = true;
        } else
            in_rules = in_section && strncmp(line, rules, strlen(rules)) == 0;
    }
    fputc(']', out);
}

void hb_view_write_flight(const hb_recorded_flight *f, const hb_view_report *report, FILE *out)
{
    int nc = f->nc < MOST_COEFFICIENTS ? f->nc : MOST_COEFFICIENTS;

    fputs("{\"name\":", out);
    put_text(out, f->name);
    fputs(",\"version\":", out);
    put_text(out, f->version);
    fputs(",\"model\":", out);
    put_text(out, f->model);
    fprintf(out,
            ",\"start\":%.3f,\"seconds\":%.6g,\"dt\":%.9g,\"lost\":%" PRIu64
            ",\"cut\":%s,\"samples\":%zu,\"coefficients\":%d,\"budget\":",
            1e-9 * (double)f->start, f->seconds, f->dt, f->lost, f->cut ? "true" : "false", f->nsamples, f->nc);
    put_number(out, f->nstatuses ? 1e3 * f->status[f->nstatuses - 1].budget : NAN, 6);
    put_channels(out, "state", f->state, f->nx, false);
    put_channels(out, "control", f->control, f->nu, true);
    fputs(",\"limits\":", out);
    hb_view_write_limits(f->configuration, out);

    rows r = begin_table(out, "sample", f, sample_time, f->nsamples, MOST_ROWS);
    put_columns(&r, "x", f, sample_state, f->nx);
    fputc('}', out);

    r = begin_table(out, "reply", f, reply_time, f->nreplies, MOST_ROWS);
    put_one(&r, "status", f, reply_status, false);
    put_one(&r, "latency", f, reply_total, true);
    put_one(&r, "cost", f, reply_cost, false);
    put_one(&r, "error", f, reply_error, true);
    put_one(&r, "expected", f, reply_expected, true);
    put_one(&r, "span", f, reply_span, true);
    put_columns(&r, "target", f, reply_target, f->nx);
    put_columns(&r, "u", f, reply_action, f->nu);
    fputc('}', out);

    r = begin_table(out, "estimate", f, estimate_time, f->nestimates, MOST_ESTIMATES);
    put_one(&r, "status", f, estimate_status, false);
    put_columns(&r, "c", f, estimate_value, nc);
    put_columns(&r, "d", f, estimate_deviation, nc);
    fputc('}', out);

    put_channels(out, "words", f->word, f->nwords, false);
    put_channels(out, "terms", f->term, f->nterms, false);
    r = begin_table(out, "told", f, status_time, f->nstatuses, MOST_ESTIMATES);
    put_columns(&r, "value", f, status_word, f->nwords);
    put_columns(&r, "deviation", f, status_word_deviation, f->nwords);
    put_columns(&r, "cost", f, status_term, f->nterms);
    fputc('}', out);

    put_events(out, f);
    if (report)
        put_report(out, f, report);
    fputc('}', out);
}

/* ---- one page ---- */

static const hb_view_file *find_file(const char *path, size_t length)
{
    for (const hb_view_file *f = hb_view_files; f->path; f++)
        if (strlen(f->path) == length && strncmp(f->path, path, length) == 0)
            return f;
    return NULL;
}

/* Where a line of the page names one of its files: that file; *ret is the path's attribute. */
static const hb_view_file *named(const char *line, size_t n, const char *attribute)
{
    const char *at = memmem(line, n, attribute, strlen(attribute));

    if (!at)
        return NULL;
    at += strlen(attribute);
    const char *end = memchr(at, '"', n - (size_t)(at - line));
    return end ? find_file(at, (size_t)(end - at)) : NULL;
}

void hb_view_write_page(const hb_recorded_flight *f, const hb_view_report *report, FILE *out)
{
    const char *at = (const char *)hb_view_html, *end = at + hb_view_html_size;
    bool told = false;

    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((line_end ? line_end + 1 : end) - at);
        const hb_view_file *style = named(at, n, "<link rel=\"stylesheet\" href=\""),
                           *script = named(at, n, "<script src=\"");
        if (script && !told) {
            fputs("<script type=\"application/json\" id=\"flight\">", out);
            hb_view_write_flight(f, report, out);
            fputs("</script>\n", out);
            told = true;
        }
        if (style || script) {
            const hb_view_file *file = style ? style : script;
            fprintf(out, "<%s>\n", style ? "style" : "script");
            fwrite(file->data, 1, *file->size, out);
            fprintf(out, "</%s>\n", style ? "style" : "script");
        } else
            fwrite(at, 1, n, out);
        at += n;
    }
}
