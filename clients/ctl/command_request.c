/* hilbertctl request: ask for an action by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/connection.h"
#include "hilbert_client.h"
#include "ctl/show.h"

typedef struct question {
    const char *state, *target; /* as given, or NULL */
    double budget, time_us;
    bool plan;
} question;

static void print_rows(const char *title, const double *v, int n, Hilbert__V1__Channel **channel, int width)
{
    if (!n || width < 1)
        return;
    printf("%s\n  step", title);
    for (int i = 0; i < width; i++)
        printf(" %11.11s", channel[i]->name);
    for (int i = 0; i < n; i++) {
        if (i % width == 0)
            printf("\n  %4d", i / width);
        printf(" %11.5g", v[i]);
    }
    putchar('\n');
}

static void print_reply(const hilbert_action_reply *r, const Hilbert__V1__ModelInfo *m)
{
    printf("%s%s%s  (queue %s, planning %s, total %s; cost %.6g after %d iterations)\n", hilbert_status_name(r->status),
           r->status >= HILBERT_FALLBACK ? ": " : "", r->status >= HILBERT_FALLBACK ? r->detail : "",
           show_us((uint64_t)(1e6 * r->queue), 0).text, show_us((uint64_t)(1e6 * r->planning), 0).text,
           show_us((uint64_t)(1e6 * r->total), 0).text, r->cost, r->iterations);
    if (*r->limit)
        printf("  the plan breaks the limit %s\n", r->limit);
    for (int i = 0; i < r->naction && i < (int)m->n_control; i++)
        printf("  %s %.9g %s\n", m->control[i]->name, r->action[i], m->control[i]->unit);
    print_rows("plan", r->plan, r->nplan, m->control, (int)m->n_control);
    print_rows("predicted", r->predicted, r->npredicted, m->state, (int)m->n_state);
}

static int ask(ctl_connection *c, const ctl_command *self, const question *q, const Hilbert__V1__ModelInfo *m,
               const Hilbert__V1__Status *s)
{
    int nx = (int)m->n_state, result = CTL_OK;
    double *x = calloc((size_t)nx, sizeof *x), *target = calloc((size_t)nx, sizeof *target);
    hilbert_client *h = NULL;
    hilbert_action_reply reply;
    char why[256] = "";

    if (!x || !target)
        result = ctl_failure(self, "out of memory");
    if (!result && s->n_state == m->n_state)
        memcpy(x, s->state, (size_t)nx * sizeof *x);
    if (!result && s->n_target == m->n_state)
        memcpy(target, s->target, (size_t)nx * sizeof *target);
    if (!result && q->state)
        result = ctl_read_vector(self, q->state, m->state, nx, x);
    if (!result && q->target)
        result = ctl_read_vector(self, q->target, m->state, nx, target);
    const hilbert_options options = {
        .actions = c->actions, .telemetry = "", .server_key = c->server_key, .client_key = c->client_key};
    if (!result && hilbert_connect(&h, &options, why, sizeof why))
        result = ctl_failure(self, "%s", why);
    const hilbert_action_request request = {.time_us = (int64_t)q->time_us,
                                            .state = x,
                                            .nstate = nx,
                                            .target = q->target ? target : NULL,
                                            .ntarget = q->target ? nx : 0,
                                            .budget = q->budget,
                                            .want_plan = q->plan};
    if (!result && hilbert_request(h, &request, c->timeout, &reply))
        result = ctl_failure(self, "%s", hilbert_error(h));
    if (!result) {
        print_reply(&reply, m);
        result = reply.status == HILBERT_REFUSED ? CTL_FAILURE : CTL_OK;
    }
    hilbert_close(h);
    free(target);
    free(x);
    return result;
}

static int run(const ctl_command *self, int argc, char **argv)
{
    const char *actions = NULL;
    question q = {0};
    const ctl_option own[] = {{'x', "state", CTL_TEXT, &q.state, 0, 0},
                              {'g', "target", CTL_TEXT, &q.target, 0, 0},
                              {'b', "budget", CTL_NUMBER, &q.budget, 1e-6, 60},
                              {'T', "time", CTL_NUMBER, &q.time_us, 0, 1e18},
                              {'p', "plan", CTL_FLAG, &q.plan, 0, 0},
                              {'A', "actions", CTL_TEXT, &actions, 0, 0},
                              {0}};
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, own, 0);

    if (result)
        return result;
    if (actions)
        snprintf(c.actions, sizeof c.actions, "%s", actions);
    if (!*c.actions)
        return ctl_usage_error(self, "with tcp the actions socket is needed: --actions ENDPOINT");
    Hilbert__V1__ControlReply *model = ctl_ask_model(&c, self), *status = model ? ctl_ask_status(&c, self) : NULL;
    result = status ? ask(&c, self, &q, model->model, status->status) : CTL_FAILURE;
    hilbert__v1__control_reply__free_unpacked(status, NULL);
    hilbert__v1__control_reply__free_unpacked(model, NULL);
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_request = {
    .name = "request",
    .arguments = "[OPTIONS]",
    .summary = "ask for an action by hand",
    .help = "Prints the action for a state, as a flight stack would get it. Meant for the bench: on a flying vehicle "
            "it takes\n"
            "planning time from the flight stack and moves the plan that the next request starts from.\n"
            "\n"
            "  -x, --state LIST       1,2,3 or name=1,name=2; what is not named is as in the newest telemetry\n"
            "  -g, --target LIST      the same for the target; what is not named is as configured\n"
            "  -b, --budget SECONDS   reply within this time\n"
            "  -T, --time US          of the state, vehicle's clock: 0\n"
            "  -p, --plan             print the whole plan and the states it leads to\n"
            "  -A, --actions ENDPOINT the daemon's actions socket, for tcp\n" CTL_CONNECTION_HELP "\n"
            "exit status: 1 also when the request was refused\n",
    .run = run,
};
