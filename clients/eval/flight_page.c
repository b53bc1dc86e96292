/* The page of a recorded flight, which is hilbert-view's with the flight inside, and its table as text. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/words.h"
#include "eval/flight.h"
#include "view/flight_json.h"

enum { MOST_ROWS = 16 };

/* Rows of the table, to a terminal or kept for the page. */
typedef struct table {
    FILE *out;
    const char *kept[MOST_ROWS][2];
    int nkept;
    bool failed;
} table;

static void row(table *t, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void row(table *t, const char *what, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (t->out) {
        fprintf(t->out, "%-12s %s\n", what, text);
        return;
    }
    char *copy = t->nkept < MOST_ROWS ? strdup(text) : NULL;
    if (!copy) {
        t->failed = true;
        return;
    }
    t->kept[t->nkept][0] = what;
    t->kept[t->nkept++][1] = copy;
}

static void print_statuses(table *t, const hb_recorded_flight *f, const hb_flight_summary *s)
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

/* What was learned by the end, in the model's words, and what it was at the beginning where that differs. */
static void print_learned(table *t, const hb_recorded_flight *f)
{
    char text[600] = "";

    for (int i = 0; i < f->nwords; i++) {
        const hb_recorded_status *first = NULL, *last = NULL;
        char word[HB_WORD_TEXT], before[HB_WORD_TEXT];
        size_t used = strlen(text);
        for (size_t k = 0; k < f->nstatuses; k++)
            if (isfinite(f->status[k].word[i])) {
                /* known as well as it will be, about: the first ones say what is usual */
                if (!first && f->status[k].word_deviation[i] < 4 * f->status[f->nstatuses - 1].word_deviation[i])
                    first = &f->status[k];
                last = &f->status[k];
            }
        if (!last)
            continue;
        bool changed = first && fabs(first->word[i] - last->word[i]) >
                                    3 * hypot(first->word_deviation[i], last->word_deviation[i]);
        if (changed)
            hb_word_text((hb_word){first->word[i], first->word_deviation[i]}, before);
        if (changed)
            *strchrnul(before, ' ') = 0;
        snprintf(text + used, sizeof text - used, "%s%s %s%s%s%s%s%s", used ? ", " : "", f->word[i].name,
                 hb_word_text((hb_word){last->word[i], last->word_deviation[i]}, word), *f->word[i].unit ? " " : "",
                 f->word[i].unit, changed ? " (was " : "", changed ? before : "", changed ? ")" : "");
    }
    if (*text)
        row(t, "learned", "%s", text);
}

static void print_rows(table *t, const hb_recorded_flight *f, const hb_flight_summary *s)
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
    print_learned(t, f);
    if (f->nu && f->nreplies)
        row(t, "controls", "at a bound in %.3g %% of the replies", 100 * s->saturated);
    if (f->lost || f->cut)
        row(t, "recording", "%" PRIu64 " messages missing%s", f->lost, f->cut ? ", cut off at its end" : "");
}

/* Medians of predictions' errors, by state; what had moved is beside them where something had. */
static void print_predictions(const hb_recorded_flight *f, const hb_flight_prediction *p, FILE *out)
{
    fprintf(out, "prediction   median error after so many steps of %g s (and if nothing had moved)\n", f->dt);
    for (int d = 0; d < f->nx; d++) {
        fprintf(out, "  %-10s %-6s", f->state[d].name, f->state[d].unit);
        for (int k = 0; k < HB_FLIGHT_AHEAD; k++)
            fprintf(out, "  %2d: %-9.3g", p->ahead[k], p->error[k * f->nx + d]);
        if (p->still[d] > 0)
            fprintf(out, "  (%.3g)\n", p->still[d]);
        else
            fprintf(out, "  (it did not move)\n");
    }
}

void hb_flight_print(const hb_recorded_flight *f, const hb_flight_summary *s, const hb_flight_prediction *p, FILE *out)
{
    table t = {.out = out};

    print_rows(&t, f, s);
    if (p && p->n) {
        fputc('\n', out);
        print_predictions(f, p, out);
    }
}

int hb_flight_write_page(const hb_recorded_flight *f, const hb_flight_summary *s, const hb_flight_prediction *p,
                         const char *why, const char *path, hb_error *err)
{
    table t = {0};
    char *text = NULL;
    size_t n = 0;
    FILE *words = open_memstream(&text, &n), *out = fopen(path, "we");

    if (!out) {
        int code = errno;
        if (words)
            fclose(words);
        free(text);
        return hb_fail(err, code, "%s: %s", path, strerror(code));
    }
    print_rows(&t, f, s);
    if (words && why)
        fprintf(words, "%s\n", why);
    if (words && p->n)
        print_predictions(f, p, words);
    bool failed = !words || fclose(words) || t.failed;
    const hb_view_report report = {.row = t.kept,
                                   .nrows = t.nkept,
                                   .npoints = p->npoints,
                                   .time = p->time,
                                   .predicted = p->predicted,
                                   .text = text && *text ? text : NULL};
    if (!failed)
        hb_view_write_page(f, &report, out);
    for (int i = 0; i < t.nkept; i++)
        free((char *)(uintptr_t)t.kept[i][1]);
    free(text);
    failed |= ferror(out) != 0;
    if (fclose(out) || failed)
        return hb_fail(err, EIO, "%s: cannot be written", path);
    return 0;
}
