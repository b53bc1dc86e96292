/* hilbertctl status: a screenful about a running daemon. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ctl/connection.h"
#include "json.h"
#include "ctl/show.h"

static void print_latency(const char *name, const Hilbert__V1__Latency *l)
{
    printf("  %-11s p50 %s  p99 %s  p99.9 %s  max %s\n", name, show_us(l->p50_us, 9).text, show_us(l->p99_us, 9).text,
           show_us(l->p999_us, 9).text, show_us(l->max_us, 9).text);
}

/* Those counters that are not zero, by their names. */
static void print_counts(const char *title, const ProtobufCMessage *m)
{
    bool any = false;

    printf("%-12s", title);
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        uint64_t n = *(const uint64_t *)(const void *)((const char *)m + f->offset);
        if (n)
            printf(" %s %" PRIu64, f->name, n);
        any |= n > 0;
    }
    printf("%s\n", any ? "" : " none");
}

static void print_vector(const char *title, size_t n, const double *v, Hilbert__V1__Channel **channels,
                         size_t nchannels)
{
    int column = 12;

    if (!n)
        return;
    printf("%-12s", title);
    for (size_t i = 0; i < n; i++) {
        char text[80];
        int width = n == nchannels ? snprintf(text, sizeof text, " %s %.4g", channels[i]->name, v[i])
                                   : snprintf(text, sizeof text, " %.4g", v[i]);
        if (column + width > 80) {
            printf("\n%-12s", "");
            column = 12;
        }
        column += width;
        fputs(text, stdout);
    }
    putchar('\n');
}

/* The terms of the newest plan's cost that matter, the largest first. */
static void print_terms(const Hilbert__V1__Status *s)
{
    show_line text = show_terms(s, 3);

    if (*text.text)
        printf("  driven by %s\n", text.text);
}

static void print_actions(const Hilbert__V1__Status *s)
{
    char status[32], reason[32];

    hb_json_word(&hilbert__v1__action_status__descriptor, (int)s->last_status, status, sizeof status);
    hb_json_word(&hilbert__v1__reason__descriptor, (int)s->last_reason, reason, sizeof reason);
    printf("actions      %s", s->last_status ? status : "none asked for yet");
    if (s->last_status >= HILBERT__V1__ACTION_STATUS__ACTION_STATUS_FALLBACK)
        printf(" (%s)", reason);
    printf("; %.1f requests/s from %" PRIu32 " client%s; budget %s\n", s->request_rate, s->clients,
           s->clients == 1 ? "" : "s", show_us(s->budget_us, 0).text);
    print_latency("total", s->total);
    print_latency("queue", s->queue);
    print_latency("planning", s->planning);
    if (s->preparing && s->preparing->count)
        print_latency("preparing", s->preparing);
    print_counts("replies", &s->replies->base);
    print_counts("no plan", &s->refused->base);
    printf("  %" PRIu64 " of %" PRIu64 " late, %" PRIu64 " undelivered; newest plan: cost %.4g in %" PRIu32
           " iterations\n",
           s->counters->replies_late, s->counters->requests, s->counters->replies_undelivered, s->cost, s->iterations);
    print_terms(s);
}

static void print_estimate(const Hilbert__V1__Status *s)
{
    const Hilbert__V1__Health *h = s->health;
    char status[32];

    printf("telemetry    %.1f samples/s, newest %s; %" PRIu64 " lost, %" PRIu64 " overrun\n", s->telemetry_rate,
           isfinite(s->telemetry_age) ? show_ago(s->telemetry_age).text : "never", s->counters->telemetry_lost,
           s->counters->telemetry_overrun);
    if (h->fault > HILBERT__V1__REASON__REASON_NONE)
        printf("  at fault: %s\n",
               hb_json_word(&hilbert__v1__reason__descriptor, (int)h->fault, status, sizeof status));
    print_counts("set aside", &s->set_aside->base);
    printf("estimate     %s%s: %" PRIu32 " samples over %.1f s%s\n", s->adapting ? "" : "not used (adapt is false), ",
           hb_json_word(&hilbert__v1__estimate_status__descriptor, (int)h->status, status, sizeof status), h->samples,
           h->span_seconds, s->resumed ? ", taken over from before a restart" : "");
    printf("  one-step error %.3g (expected %.3g), condition %.2g\n", h->one_step_error, h->expected_error,
           h->condition);
    printf("  probably: adapting pays %.0f %%, out of span %.0f %%, the newest sample is an outlier %.0f %%\n",
           100 * h->adapted, 100 * h->out_of_span, 100 * h->outlier);
    printf("  version %" PRIu64 ", %" PRIu64 " change%s of dynamics, %" PRIu64 " rejected, %" PRIu64 " not believed\n",
           h->version, h->changes, h->changes == 1 ? "" : "s", h->rejected, h->implausible);
    printf("  plausibility %.2g (about 1: a trained vehicle), actuators: lag %.0f +- %.0f ms, delay %.0f +- %.0f ms\n",
           h->plausibility, 1e3 * h->actuator_lag, 1e3 * h->actuator_lag_deviation, 1e3 * h->actuator_delay,
           1e3 * h->actuator_delay_deviation);
}

/* "mass 0.0221 +- 0.0003 kg (was 0.0340)", a line each */
static void print_words(const Hilbert__V1__Status *s)
{
    for (size_t i = 0; i < s->n_word; i++)
        printf("%-12s %s\n", i ? "" : "learned", show_learned(s->word[i]).text);
}

static void print_shadow(const Hilbert__V1__Shadow *s)
{
    char status[32];

    printf("shadow       %s: %s, %" PRIu32 " samples\n", s->path,
           hb_json_word(&hilbert__v1__estimate_status__descriptor, (int)s->health->status, status, sizeof status),
           s->health->samples);
    printf("  one-step error %.3g, that of the model in use %.3g; out of span %.0f %%, plausibility %.2g, %" PRIu64
           " lost\n",
           s->error, s->error_in_use, 100 * s->health->out_of_span, s->health->plausibility, s->lost);
}

static void print_text(const Hilbert__V1__Status *s, const Hilbert__V1__ModelInfo *m)
{
    printf("%s           hilbertd %s, up %s\n", s->name, s->version, show_span(s->uptime).text);
    printf("model        %s (%zu states, %zu controls, %" PRIu32 " functions)\n", m->path, m->n_state, m->n_control,
           m->basis_functions);
    print_actions(s);
    print_estimate(s);
    print_words(s);
    if (s->shadow)
        print_shadow(s->shadow);
    if (s->recorder && (s->recorder->on || s->recorder->errors))
        printf("recorder     %s%s%s; %" PRIu64 " messages lost%s%s\n", s->recorder->on ? "on" : "off",
               *s->recorder->file ? ": " : "", s->recorder->file, s->recorder->lost, *s->recorder->error ? "; " : "",
               s->recorder->error);
    print_vector("state", s->n_state, s->state, m->state, m->n_state);
    print_vector("target", s->n_target, s->target, m->state, m->n_state);
    if (s->target_since > 0) {
        time_t since = (time_t)fmin(s->target_since, 1e11);
        char day[32] = "";
        struct tm parts;
        if (localtime_r(&since, &parts))
            strftime(day, sizeof day, "%F %T", &parts);
        printf("  set by %s at %s\n", s->target_by, day);
    }
    print_vector("action", s->n_action, s->action, m->control, m->n_control);
    print_vector("coefficients", s->n_coefficient > 32 ? 32 : s->n_coefficient, s->coefficient, NULL, 0);
}

static int run(const ctl_command *self, int argc, char **argv)
{
    bool json = false, all = false;
    const ctl_option own[] = {{'j', "json", CTL_FLAG, &json, 0, 0}, {'a', "all", CTL_FLAG, &all, 0, 0}, {0}};
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, own, 0);

    if (result)
        return result;
    if (all) {
        result = ctl_list(&c, self, json);
        ctl_connection_end(&c);
        return result;
    }
    Hilbert__V1__ControlReply *status = ctl_ask_status(&c, self);
    Hilbert__V1__ControlReply *model = status ? ctl_ask_model(&c, self) : NULL;
    if (!status || !model)
        result = CTL_FAILURE;
    else if (json)
        result = show_json(&status->status->base) ? CTL_OK : ctl_failure(self, "out of memory");
    else
        print_text(status->status, model->model);
    hilbert__v1__control_reply__free_unpacked(model, NULL);
    hilbert__v1__control_reply__free_unpacked(status, NULL);
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_status = {
    .name = "status",
    .arguments = "[OPTIONS]",
    .summary = "a screenful about a running daemon",
    .help =
        "Prints rates, latency, the ladder of replies, the health of the estimate, and the newest state and action.\n"
        "\n"
        "  -a, --all              of all daemons of this machine, a row each; exit status 1 when one is in trouble\n"
        "  -j, --json             print the Status message of the contract as one line of JSON\n" CTL_CONNECTION_HELP,
    .run = run,
};
