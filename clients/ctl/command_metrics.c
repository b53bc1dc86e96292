/* hilbertctl metrics: a daemon's counters and gauges in Prometheus' text format. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "ctl/connection.h"
#include "json.h"

/* A label's value: backslash, quote and end of line are escaped. */
static void put_escaped(const char *text)
{
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", stdout);
        else if (*text == '\\' || *text == '"')
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void head(const char *name, const char *type, const char *help)
{
    printf("# HELP hilbert_%s %s\n# TYPE hilbert_%s %s\n", name, help, name, type);
}

/* One series: of the instance s->name, with one more label where there is one. */
static void put(const Hilbert__V1__Status *s, const char *name, const char *label, const char *key, double value)
{
    printf("hilbert_%s{name=\"", name);
    put_escaped(s->name);
    if (label) {
        printf("\",%s=\"", label);
        put_escaped(key);
    }
    if (isnan(value))
        printf("\"} NaN\n");
    else if (isinf(value))
        printf("\"} %sInf\n", value > 0 ? "+" : "-");
    else
        printf("\"} %.17g\n", value);
}

static void gauge(const Hilbert__V1__Status *s, const char *name, const char *help, double value)
{
    head(name, "gauge", help);
    put(s, name, NULL, NULL, value);
}

/* Every field of a message of counters, under a label. */
static void counts(const Hilbert__V1__Status *s, const char *name, const char *help, const char *label,
                   const ProtobufCMessage *m)
{
    head(name, "counter", help);
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        put(s, name, label, f->name, (double)*(const uint64_t *)(const void *)((const char *)m + f->offset));
    }
}

/* One series for each kind of fault, of which at most one is 1. */
static void faults(const Hilbert__V1__Status *s)
{
    static const Hilbert__V1__Reason kind[] = {
        HILBERT__V1__REASON__REASON_DIMENSION,  HILBERT__V1__REASON__REASON_NOT_FINITE,
        HILBERT__V1__REASON__REASON_QUATERNION, HILBERT__V1__REASON__REASON_BAD_CONTROL,
        HILBERT__V1__REASON__REASON_FROZEN,     HILBERT__V1__REASON__REASON_IMPLAUSIBLE,
        HILBERT__V1__REASON__REASON_BEHIND,
    };
    char word[32];

    head("telemetry_fault", "gauge", "1: what is wrong with telemetry just now.");
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
        put(s, "telemetry_fault", "reason",
            hb_json_word(&hilbert__v1__reason__descriptor, (int)kind[i], word, sizeof word),
            s->health->fault == kind[i]);
}

/* Buckets are cumulative, as Prometheus wants them. Rates and quantiles over time and over a fleet follow from them. */
static void histogram(const Hilbert__V1__Status *s, const char *name, const char *help, const Hilbert__V1__Latency *l)
{
    char series[64], bound[32];

    head(name, "histogram", help);
    snprintf(series, sizeof series, "%s_bucket", name);
    for (size_t i = 0; i < l->n_bound_us && i < l->n_within; i++) {
        snprintf(bound, sizeof bound, "%.9g", 1e-6 * (double)l->bound_us[i]);
        put(s, series, "le", bound, (double)l->within[i]);
    }
    put(s, series, "le", "+Inf", (double)l->count);
    snprintf(series, sizeof series, "%s_sum", name);
    put(s, series, NULL, NULL, 1e-6 * l->mean_us * (double)l->count);
    snprintf(series, sizeof series, "%s_count", name);
    put(s, series, NULL, NULL, (double)l->count);
}

static void print_shadow(const Hilbert__V1__Status *s)
{
    const Hilbert__V1__Shadow *shadow = s->shadow;

    head("shadow_info", "gauge", "Model of the shadow.");
    printf("hilbert_shadow_info{name=\"");
    put_escaped(s->name);
    printf("\",model=\"%016" PRIx64 "\"} 1\n", shadow->model_hash);
    gauge(s, "shadow_estimate_status", "Of the shadow: see estimate_status.", (double)shadow->health->status);
    gauge(s, "shadow_error", "One-step prediction error of the shadow, normalised by the model in use.", shadow->error);
    gauge(s, "shadow_error_in_use", "The same of the model in use.", shadow->error_in_use);
    gauge(s, "shadow_out_of_span", "Part of the residual's energy that no coefficients of the shadow explain.",
          shadow->health->out_of_span);
    gauge(s, "shadow_plausibility", "Squared distance of the shadow from its trained population, per coefficient.",
          shadow->health->plausibility);
    head("shadow_coefficient", "gauge", "Coefficients of the shadow's basis functions.");
    for (size_t i = 0; i < shadow->n_coefficient; i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        put(s, "shadow_coefficient", "index", index, shadow->coefficient[i]);
    }
    head("shadow_lost_total", "counter", "Samples, requests and answers that the shadow could not keep up with.");
    put(s, "shadow_lost_total", NULL, NULL, (double)shadow->lost);
}

static void counter(const Hilbert__V1__Status *s, const char *name, const char *help, uint64_t value)
{
    head(name, "counter", help);
    put(s, name, NULL, NULL, (double)value);
}

static void print(const Hilbert__V1__Status *s)
{
    const Hilbert__V1__Health *h = s->health;

    head("info", "gauge", "Version, instance and model of the daemon.");
    printf("hilbert_info{name=\"");
    put_escaped(s->name);
    printf("\",version=\"");
    put_escaped(s->version);
    printf("\",model=\"%016" PRIx64 "\"} 1\n", s->model_hash);
    gauge(s, "uptime_seconds", "Seconds since the daemon was ready.", s->uptime);
    counts(s, "replies_total", "Replies to action requests, by status.", "status", &s->replies->base);
    counts(s, "unplanned_total", "Requests answered without a plan, by reason.", "reason", &s->refused->base);
    counts(s, "set_aside_total", "Telemetry samples that completed no transition, by reason.", "reason",
           &s->set_aside->base);
    counts(s, "events_total", "What else the daemon counts.", "event", &s->counters->base);
    histogram(s, "action_seconds", "From receipt of a request to its reply.", s->total);
    histogram(s, "queue_seconds", "From receipt of a request to the start of planning.", s->queue);
    histogram(s, "planning_seconds", "Planning, from the request on.", s->planning);
    if (s->preparing)
        histogram(s, "preparing_seconds", "Preparing between requests.", s->preparing);
    gauge(s, "action_seconds_max", "The longest from receipt to reply since the start.",
          1e-6 * (double)s->total->max_us);
    gauge(s, "budget_seconds", "Configured budget of a reply.", 1e-6 * s->budget_us);
    gauge(s, "clients", "Clients that asked within the last second.", s->clients);
    gauge(s, "telemetry_age_seconds", "Seconds since the newest sample.", s->telemetry_age);
    gauge(s, "estimate_status", "1 warming-up, 2 singular, 3 ok, 4 out-of-span, 5 implausible.", (double)h->status);
    faults(s);
    gauge(s, "one_step_error", "Normalised one-step prediction error.", h->one_step_error);
    gauge(s, "expected_error", "The same over the window, after the fit.", h->expected_error);
    gauge(s, "out_of_span", "Part of the residual's energy that no coefficients explain.", h->out_of_span);
    gauge(s, "plausibility", "Squared distance from the trained population, per coefficient.", h->plausibility);
    gauge(s, "actuator_lag_seconds", "Time constant of the actuators.", h->actuator_lag);
    gauge(s, "actuator_delay_seconds", "Delay of the actuators.", h->actuator_delay);
    gauge(s, "condition", "Condition of the normal equations.", h->condition);
    gauge(s, "window_samples", "Transitions in the window.", h->samples);
    if (s->recorder) {
        gauge(s, "recorder_on", "Whether flights are recorded.", s->recorder->on);
        gauge(s, "recorder_file_bytes", "Of the recording being written.", (double)s->recorder->bytes);
        counter(s, "recorder_messages_total", "Messages recorded.", s->recorder->messages);
        counter(s, "recorder_lost_total", "Messages that could not be recorded.", s->recorder->lost);
        counter(s, "recorder_errors_total", "Errors of the disk.", s->recorder->errors);
    }
    head("coefficient", "gauge", "Coefficients of the basis functions.");
    for (size_t i = 0; i < s->n_coefficient; i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        put(s, "coefficient", "index", index, s->coefficient[i]);
    }
    counter(s, "dynamics_changes_total", "Changes of the vehicle's dynamics that were detected.", h->changes);
    if (s->shadow)
        print_shadow(s);
}

static int run(const ctl_command *self, int argc, char **argv)
{
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, NULL, 0);

    if (result)
        return result;
    Hilbert__V1__ControlReply *reply = ctl_ask_status(&c, self);
    if (reply)
        print(reply->status);
    result = reply ? CTL_OK : CTL_FAILURE;
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_metrics = {
    .name = "metrics",
    .arguments = "[OPTIONS]",
    .summary = "counters and gauges for Prometheus",
    .help = "Prints Prometheus' text format once, for a textfile collector or a scrape by exec.\n"
            "\n" CTL_CONNECTION_HELP,
    .run = run,
};
