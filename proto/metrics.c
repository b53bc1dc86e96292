#include "metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

enum { MOST_FAMILIES = 96 };

/* All series of one name. */
typedef struct family {
    char name[64];
    FILE *out;
    char *text;
    size_t size;
} family;

struct hb_metrics {
    family family[MOST_FAMILIES];
    int n;
    family *open;     /* that series are put into */
    const char *name; /* label of the daemon at hand; NULL: none */
    bool failed;
};

hb_metrics *hb_metrics_new(void)
{
    return calloc(1, sizeof(hb_metrics));
}

bool hb_metrics_end(hb_metrics *m, FILE *out)
{
    bool good = !m->failed;

    for (int i = 0; i < m->n; i++) {
        good &= m->family[i].out && fclose(m->family[i].out) == 0;
        if (m->family[i].text)
            fwrite(m->family[i].text, 1, m->family[i].size, out);
        free(m->family[i].text);
    }
    free(m);
    return good;
}

/* From here on series are put into this family. */
static void head(hb_metrics *m, const char *name, const char *type, const char *help)
{
    m->open = NULL;
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->family[i].name, name) == 0)
            m->open = &m->family[i];
    if (m->open)
        return;
    if (m->n == MOST_FAMILIES) {
        m->failed = true;
        return;
    }
    family *f = &m->family[m->n];
    if (!(f->out = open_memstream(&f->text, &f->size))) {
        m->failed = true;
        return;
    }
    m->n++;
    m->open = f;
    snprintf(f->name, sizeof f->name, "%s", name);
    fprintf(f->out, "# HELP hilbert_%s %s\n# TYPE hilbert_%s %s\n", name, help, name, type);
}

/* A label's value: backslash, quote and end of line are escaped. */
static void put_label(FILE *out, char before, const char *label, const char *text)
{
    fprintf(out, "%c%s=\"", before, label);
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '\\' || *text == '"')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

static void put_value(FILE *out, double value)
{
    if (isnan(value))
        fputs(" NaN\n", out);
    else if (isinf(value))
        fprintf(out, " %sInf\n", value > 0 ? "+" : "-");
    else
        fprintf(out, " %.17g\n", value);
}

/* One series of the daemon at hand, with more labels: pairs of name and value up to a NULL. */
static void put(hb_metrics *m, const char *series, double value, ...)
{
    const char *label;
    va_list args;
    char before = '{';

    if (!m->open)
        return;
    fprintf(m->open->out, "hilbert_%s", series);
    if (m->name) {
        put_label(m->open->out, before, "name", m->name);
        before = ',';
    }
    va_start(args, value);
    while ((label = va_arg(args, const char *))) {
        put_label(m->open->out, before, label, va_arg(args, const char *));
        before = ',';
    }
    va_end(args);
    if (before == ',')
        fputc('}', m->open->out);
    put_value(m->open->out, value);
}

static void gauge(hb_metrics *m, const char *name, const char *help, double value)
{
    head(m, name, "gauge", help);
    put(m, name, value, NULL);
}

static void counter(hb_metrics *m, const char *name, const char *help, double value)
{
    head(m, name, "counter", help);
    put(m, name, value, NULL);
}

void hb_metrics_gauge(hb_metrics *m, const char *name, const char *metric, const char *help, double value)
{
    m->name = name;
    gauge(m, metric, help, value);
}

void hb_metrics_counter(hb_metrics *m, const char *metric, const char *help, double value)
{
    m->name = NULL;
    counter(m, metric, help, value);
}

/* Every field of a message of counters, under a label. */
static void counts(hb_metrics *m, const char *name, const char *help, const char *label,
                   const ProtobufCMessage *message)
{
    head(m, name, "counter", help);
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &message->descriptor->fields[i];
        put(m, name, (double)*(const uint64_t *)(const void *)((const char *)message + f->offset), label, f->name,
            NULL);
    }
}

static void vector(hb_metrics *m, const char *name, const char *help, const double *value, size_t n)
{
    head(m, name, "gauge", help);
    for (size_t i = 0; i < n; i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        put(m, name, value[i], "index", index, NULL);
    }
}

/* One series for each kind of fault, of which at most one is 1. */
static void faults(hb_metrics *m, const Hilbert__V1__Status *s)
{
    static const Hilbert__V1__Reason kind[] = {
        HILBERT__V1__REASON__REASON_DIMENSION,  HILBERT__V1__REASON__REASON_NOT_FINITE,
        HILBERT__V1__REASON__REASON_QUATERNION, HILBERT__V1__REASON__REASON_BAD_CONTROL,
        HILBERT__V1__REASON__REASON_FROZEN,     HILBERT__V1__REASON__REASON_IMPLAUSIBLE,
        HILBERT__V1__REASON__REASON_BEHIND,     HILBERT__V1__REASON__REASON_MIXED,
    };
    char word[32];

    head(m, "telemetry_fault", "gauge", "1: what is wrong with telemetry just now.");
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
        put(m, "telemetry_fault", s->health->fault == kind[i], "reason",
            hb_json_word(&hilbert__v1__reason__descriptor, (int)kind[i], word, sizeof word), NULL);
}

/* Buckets are cumulative, as Prometheus wants them. Rates and quantiles over time and over a fleet follow from them. */
static void histogram(hb_metrics *m, const char *name, const char *help, const Hilbert__V1__Latency *l)
{
    char series[64], bound[32];

    head(m, name, "histogram", help);
    snprintf(series, sizeof series, "%s_bucket", name);
    for (size_t i = 0; i < l->n_bound_us && i < l->n_within; i++) {
        snprintf(bound, sizeof bound, "%.9g", 1e-6 * (double)l->bound_us[i]);
        put(m, series, (double)l->within[i], "le", bound, NULL);
    }
    put(m, series, (double)l->count, "le", "+Inf", NULL);
    snprintf(series, sizeof series, "%s_sum", name);
    put(m, series, 1e-6 * l->mean_us * (double)l->count, NULL);
    snprintf(series, sizeof series, "%s_count", name);
    put(m, series, (double)l->count, NULL);
}

static void add_shadow(hb_metrics *m, const Hilbert__V1__Shadow *shadow)
{
    char hash[24];

    head(m, "shadow_info", "gauge", "Model of the shadow.");
    snprintf(hash, sizeof hash, "%016" PRIx64, shadow->model_hash);
    put(m, "shadow_info", 1, "model", hash, NULL);
    gauge(m, "shadow_estimate_status", "Of the shadow: see estimate_status.", (double)shadow->health->status);
    gauge(m, "shadow_error", "One-step prediction error of the shadow, normalised by the model in use.", shadow->error);
    gauge(m, "shadow_error_in_use", "The same of the model in use.", shadow->error_in_use);
    gauge(m, "shadow_out_of_span", "Part of the residual's energy that no coefficients of the shadow explain.",
          shadow->health->out_of_span);
    gauge(m, "shadow_plausibility", "Squared distance of the shadow from its trained population, per coefficient.",
          shadow->health->plausibility);
    vector(m, "shadow_coefficient", "Coefficients of the shadow's basis functions.", shadow->coefficient,
           shadow->n_coefficient);
    counter(m, "shadow_lost_total", "Samples, requests and answers that the shadow could not keep up with.",
            (double)shadow->lost);
}

void hb_metrics_add(hb_metrics *m, const char *name, const Hilbert__V1__Status *s)
{
    const Hilbert__V1__Health *h = s->health;
    char hash[24];

    m->name = name;
    head(m, "info", "gauge", "Version, instance and model of the daemon.");
    snprintf(hash, sizeof hash, "%016" PRIx64, s->model_hash);
    put(m, "info", 1, "version", s->version, "model", hash, NULL);
    gauge(m, "uptime_seconds", "Seconds since the daemon was ready.", s->uptime);
    counts(m, "replies_total", "Replies to action requests, by status.", "status", &s->replies->base);
    counts(m, "unplanned_total", "Requests answered without a plan, by reason.", "reason", &s->refused->base);
    counts(m, "set_aside_total", "Telemetry samples that completed no transition, by reason.", "reason",
           &s->set_aside->base);
    counts(m, "events_total", "What else the daemon counts.", "event", &s->counters->base);
    histogram(m, "action_seconds", "From receipt of a request to its reply.", s->total);
    histogram(m, "queue_seconds", "From receipt of a request to the start of planning.", s->queue);
    histogram(m, "planning_seconds", "Planning, from the request on.", s->planning);
    if (s->preparing)
        histogram(m, "preparing_seconds", "Preparing between requests.", s->preparing);
    gauge(m, "action_seconds_max", "The longest from receipt to reply since the start.",
          1e-6 * (double)s->total->max_us);
    gauge(m, "budget_seconds", "Configured budget of a reply.", 1e-6 * s->budget_us);
    gauge(m, "clients", "Clients that asked within the last second.", s->clients);
    gauge(m, "telemetry_age_seconds", "Seconds since the newest sample.", s->telemetry_age);
    gauge(m, "estimate_status", "1 warming-up, 2 singular, 3 ok, 4 out-of-span, 5 implausible.", (double)h->status);
    faults(m, s);
    gauge(m, "one_step_error", "Normalised one-step prediction error.", h->one_step_error);
    gauge(m, "expected_error", "The same over the window, after the fit.", h->expected_error);
    gauge(m, "out_of_span", "Probability that no trained vehicle behaves so.", h->out_of_span);
    gauge(m, "plausibility", "Squared distance from the trained population, per coefficient.", h->plausibility);
    gauge(m, "adapted", "Probability that adapting is of use.", h->adapted);
    gauge(m, "outlier", "Probability that the newest transition is nothing that this vehicle does.", h->outlier);
    gauge(m, "actuator_lag_seconds", "Time constant of the actuators.", h->actuator_lag);
    gauge(m, "actuator_delay_seconds", "Delay of the actuators.", h->actuator_delay);
    if (s->n_word)
        head(m, "learned", "gauge", "Hidden parameters of the vehicle, as the coefficients tell them.");
    for (size_t i = 0; i < s->n_word; i++)
        put(m, "learned", s->word[i]->value, "word", s->word[i]->name, "unit", s->word[i]->unit, NULL);
    if (s->n_word)
        head(m, "learned_deviation", "gauge", "Their standard deviations.");
    for (size_t i = 0; i < s->n_word; i++)
        put(m, "learned_deviation", s->word[i]->deviation, "word", s->word[i]->name, "unit", s->word[i]->unit, NULL);
    if (s->n_cost_term)
        head(m, "cost", "gauge", "Cost of the newest plan, by term.");
    for (size_t i = 0; i < s->n_cost_term; i++)
        put(m, "cost", s->cost_term[i]->value, "term", s->cost_term[i]->name, NULL);
    gauge(m, "condition", "Condition of the normal equations.", h->condition);
    gauge(m, "window_samples", "Transitions in the window.", h->samples);
    if (s->recorder) {
        gauge(m, "recorder_on", "Whether flights are recorded.", s->recorder->on);
        gauge(m, "recorder_file_bytes", "Of the recording being written.", (double)s->recorder->bytes);
        counter(m, "recorder_messages_total", "Messages recorded.", (double)s->recorder->messages);
        counter(m, "recorder_lost_total", "Messages that could not be recorded.", (double)s->recorder->lost);
        counter(m, "recorder_errors_total", "Errors of the disk.", (double)s->recorder->errors);
    }
    vector(m, "coefficient", "Coefficients of the basis functions.", s->coefficient, s->n_coefficient);
    counter(m, "dynamics_changes_total", "Changes of the vehicle's dynamics that were detected.", (double)h->changes);
    if (s->shadow)
        add_shadow(m, s->shadow);
}
