/* The page of a recorded flight: a table on top, then the pictures. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "eval/flight.h"

/* A row of the table: what, and its value; to the page or to a terminal. */
typedef struct table {
    FILE *out;
    bool html;
} table;

static void escape(FILE *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
}

static void row(const table *t, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void row(const table *t, const char *what, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!t->html) {
        fprintf(t->out, "%-12s %s\n", what, text);
        return;
    }
    fprintf(t->out, "<tr><th>%s</th><td>", what);
    escape(t->out, text);
    fprintf(t->out, "</td></tr>\n");
}

static void print_statuses(const table *t, const hb_recorded_flight *f, const hb_flight_summary *s)
{
    char text[400] = "", word[HB_NAME_SIZE];

    for (int i = 0; i < HB_FLIGHT_NSTATUSES - 1; i++) {
        size_t n = s->count[hb_flight_ladder[i]], used = strlen(text);
        if (n)
            snprintf(text + used, sizeof text - used, "%s%s %.3g %%", used ? ", " : "",
                     hb_recorded_status_word(hb_flight_ladder[i], word), 100 * (double)n / (double)f->nreplies);
    }
    row(t, "replies", "%zu, %.1f a second: %s%s", f->nreplies, s->reply_rate, *text ? text : "none",
        s->guests ? " (guests' included)" : "");
}

static void print_rows(const table *t, const hb_recorded_flight *f, const hb_flight_summary *s)
{
    time_t began = (time_t)(f->start / 1000000000);
    struct tm utc;
    char date[64] = "";

    if (gmtime_r(&began, &utc))
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &utc);
    row(t, "vehicle", "%s, recorded by hilbertd %s from %s on", f->name, f->version, date);
    row(t, "model", "%s (%016" PRIx64 ")", f->model, f->model_hash);
    row(t, "flight", "%.1f s, %zu samples, %.1f a second", s->seconds, f->nsamples, s->sample_rate);
    print_statuses(t, f, s);
    if (f->nreplies && s->budget > 0)
        row(t, "latency", "p50 %.2f ms, p99 %.2f ms, longest %.2f ms; budget %.2f ms, %zu late", 1e3 * s->p50,
            1e3 * s->p99, 1e3 * s->longest, 1e3 * s->budget, s->late);
    else if (f->nreplies)
        row(t, "latency", "p50 %.2f ms, p99 %.2f ms, longest %.2f ms", 1e3 * s->p50, 1e3 * s->p99, 1e3 * s->longest);
    if (isfinite(s->off_target))
        row(t, "off target", "%.3g m, root mean square over the second half", s->off_target);
    if (isfinite(s->error_median))
        row(t, "estimate", "one-step error %.3g (median), %.3g (95 %%), normalised; out of span %.3g %% of the time",
            s->error_median, s->error_p95, 100 * s->span);
    if (f->nu && f->nreplies)
        row(t, "controls", "at a bound in %.3g %% of the replies", 100 * s->saturated);
    if (f->lost || f->cut)
        row(t, "recording", "%" PRIu64 " messages missing%s", f->lost, f->cut ? ", cut off at its end" : "");
}

void hb_flight_print(const hb_recorded_flight *f, const hb_flight_summary *s, const hb_flight_prediction *p, FILE *out)
{
    const table t = {.out = out};

    print_rows(&t, f, s);
    if (!p || !p->n)
        return;
    fprintf(out, "\nprediction   median error after so many steps of %g s (and if nothing had moved)\n", f->dt);
    for (int d = 0; d < f->nx; d++) {
        fprintf(out, "  %-10s %-6s", f->state[d].name, f->state[d].unit);
        for (int k = 0; k < HB_FLIGHT_AHEAD; k++)
            fprintf(out, "  %2d: %-9.3g", p->ahead[k], p->error[k * f->nx + d]);
        fprintf(out, "  (%.3g)\n", p->still[d]);
    }
}

static void write_predictions(FILE *out, const hb_recorded_flight *f, const hb_flight_prediction *p)
{
    fprintf(out, "<table class=\"numbers\"><tr><th>state</th>");
    for (int k = 0; k < HB_FLIGHT_AHEAD; k++)
        fprintf(out, "<th>%d step%s</th>", p->ahead[k], p->ahead[k] == 1 ? "" : "s");
    fprintf(out, "<th>if nothing had moved</th></tr>\n");
    for (int d = 0; d < f->nx; d++) {
        fprintf(out, "<tr><td>");
        escape(out, f->state[d].name);
        if (*f->state[d].unit) {
            fprintf(out, " [");
            escape(out, f->state[d].unit);
            fprintf(out, "]");
        }
        fprintf(out, "</td>");
        for (int k = 0; k < HB_FLIGHT_AHEAD; k++)
            fprintf(out, "<td>%.3g</td>", p->error[k * f->nx + d]);
        fprintf(out, "<td>%.3g</td></tr>\n", p->still[d]);
    }
    fprintf(out, "</table>\n<p>Medians of the absolute errors of %zu predictions; a step is %g s.</p>\n", p->n, f->dt);
}

static void write_events(FILE *out, const hb_recorded_flight *f)
{
    enum { MOST = 200 };

    if (!f->nevents)
        return;
    fprintf(out, "<h2>Events</h2>\n<table class=\"numbers\">\n");
    for (size_t i = 0; i < f->nevents && i < MOST; i++) {
        fprintf(out, "<tr><td>%.2f s</td><td>", f->event[i].time);
        escape(out, f->event[i].text);
        fprintf(out, "</td></tr>\n");
    }
    fprintf(out, "</table>\n");
    if (f->nevents > MOST)
        fprintf(out, "<p>and %zu more</p>\n", f->nevents - MOST);
}

static const char style[] = "body{font-family:sans-serif;max-width:1160px;margin:2em auto;padding:0 1em;color:#222}"
                            "h1{font-size:1.5em}h2{font-size:1.15em;margin:1.8em 0 .2em}"
                            "p{margin:.3em 0 .6em;color:#555}img{width:100%;height:auto}"
                            "table{border-collapse:collapse;margin:.6em 0}th{text-align:left;font-weight:600}"
                            "th,td{padding:.25em .9em .25em 0;border-bottom:1px solid #e5e5e5;vertical-align:top}"
                            ".numbers td+td,.numbers th+th{text-align:right}";

static void write_page(FILE *out, const hb_recorded_flight *f, const hb_flight_summary *s,
                       const hb_flight_prediction *p, const char *why)
{
    const table t = {.out = out, .html = true};

    fprintf(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                 "content=\"width=device-width\"><title>Flight of ");
    escape(out, f->name);
    fprintf(out, "</title><style>%s</style></head><body>\n<h1>Flight of ", style);
    escape(out, f->name);
    fprintf(out, "</h1>\n<table>\n");
    print_rows(&t, f, s);
    fprintf(out, "</table>\n");
    for (int i = 0; hb_flight_picture_list[i].name; i++) {
        const hb_flight_picture *picture = &hb_flight_picture_list[i];
        bool predicts = strcmp(picture->name, "prediction") == 0;
        if (!hb_flight_has(f, p, i) && !(predicts && why))
            continue;
        fprintf(out, "<h2>%s</h2>\n<p>", picture->title);
        escape(out, hb_flight_has(f, p, i) ? picture->text : why);
        fprintf(out, "</p>\n");
        if (hb_flight_has(f, p, i))
            fprintf(out, "<img src=\"%s.svg\" alt=\"%s\">\n", picture->name, picture->title);
        if (predicts && hb_flight_has(f, p, i))
            write_predictions(out, f, p);
    }
    write_events(out, f);
    fprintf(out, "</body></html>\n");
}

int hb_flight_write_page(const hb_recorded_flight *f, const hb_flight_summary *s, const hb_flight_prediction *p,
                         const char *why, const char *folder, hb_error *err)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/index.html", folder);
    FILE *out = fopen(path, "we");
    if (!out)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    write_page(out, f, s, p, why);
    bool failed = ferror(out) != 0;
    if (fclose(out) || failed)
        return hb_fail(err, EIO, "%s: cannot be written", path);
    return 0;
}
