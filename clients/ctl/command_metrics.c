/* hilbertctl metrics: a daemon's counters and gauges in Prometheus' text format. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "ctl/connection.h"

static void head(const char *name, const char *type, const char *help)
{
    printf("# HELP hilbert_%s %s\n# TYPE hilbert_%s %s\n", name, help, name, type);
}

static void put(const char *name, const char *label, const char *key, double value)
{
    printf("hilbert_%s", name);
    if (label)
        printf("{%s=\"%s\"}", label, key);
    if (isnan(value))
        printf(" NaN\n");
    else if (isinf(value))
        printf(" %sInf\n", value > 0 ? "+" : "-");
    else
        printf(" %.17g\n", value);
}

static void gauge(const char *name, const char *help, double value)
{
    head(name, "gauge", help);
    put(name, NULL, NULL, value);
}

/* Every field of a message of counters, under a label. */
static void counts(const char *name, const char *help, const char *label, const ProtobufCMessage *m)
{
    head(name, "counter", help);
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        put(name, label, f->name, (double)*(const uint64_t *)(const void *)((const char *)m + f->offset));
    }
}

static void summary(const char *name, const char *help, const Hilbert__V1__Latency *l)
{
    head(name, "summary", help);
    put(name, "quantile", "0.5", 1e-6 * (double)l->p50_us);
    put(name, "quantile", "0.99", 1e-6 * (double)l->p99_us);
    put(name, "quantile", "0.999", 1e-6 * (double)l->p999_us);
    put(name, "quantile", "1", 1e-6 * (double)l->max_us);
    printf("hilbert_%s_sum %.17g\nhilbert_%s_count %" PRIu64 "\n", name, 1e-6 * l->mean_us * (double)l->count, name,
           l->count);
}

static void print(const Hilbert__V1__Status *s)
{
    const Hilbert__V1__Health *h = s->health;

    head("info", "gauge", "Version, instance and model of the daemon.");
    printf("hilbert_info{version=\"%s\",name=\"%s\",model=\"%016" PRIx64 "\"} 1\n", s->version, s->name, s->model_hash);
    gauge("uptime_seconds", "Seconds since the daemon was ready.", s->uptime);
    counts("replies_total", "Replies to action requests, by status.", "status", &s->replies->base);
    counts("unplanned_total", "Requests answered without a plan, by reason.", "reason", &s->refused->base);
    counts("set_aside_total", "Telemetry samples that completed no transition, by reason.", "reason",
           &s->set_aside->base);
    counts("events_total", "What else the daemon counts.", "event", &s->counters->base);
    summary("action_seconds", "From receipt of a request to its reply.", s->total);
    summary("queue_seconds", "From receipt of a request to the start of planning.", s->queue);
    summary("planning_seconds", "Planning.", s->planning);
    gauge("budget_seconds", "Configured budget of a reply.", 1e-6 * s->budget_us);
    gauge("clients", "Clients that asked within the last second.", s->clients);
    gauge("telemetry_age_seconds", "Seconds since the newest sample.", s->telemetry_age);
    gauge("estimate_status", "1 warming-up, 2 singular, 3 ok, 4 out-of-span.", (double)h->status);
    gauge("one_step_error", "Normalised one-step prediction error.", h->one_step_error);
    gauge("expected_error", "The same over the window, after the fit.", h->expected_error);
    gauge("out_of_span", "Part of the residual's energy that no coefficients explain.", h->out_of_span);
    gauge("condition", "Condition of the normal equations.", h->condition);
    gauge("window_samples", "Transitions in the window.", h->samples);
    head("coefficient", "gauge", "Coefficients of the basis functions.");
    for (size_t i = 0; i < s->n_coefficient; i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        put("coefficient", "index", index, s->coefficient[i]);
    }
    head("dynamics_changes_total", "counter", "Changes of the vehicle's dynamics that were detected.");
    put("dynamics_changes_total", NULL, NULL, (double)h->changes);
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
