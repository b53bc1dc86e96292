/* hilbertctl reset, target, reload, promote: what changes a running daemon. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/connection.h"

/* Asks for something without arguments. */
static int simple(const ctl_command *self, int argc, char **argv, Hilbert__V1__ControlRequest__CommandCase what,
                  Hilbert__V1__ControlReply **ret)
{
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, NULL, 0);

    *ret = NULL;
    if (result)
        return result;
    *ret = ctl_ask_for(&c, self, what, HILBERT__V1__CONTROL_REPLY__RESULT__NOT_SET);
    ctl_connection_end(&c);
    return *ret ? CTL_OK : CTL_FAILURE;
}

static int run_reset(const ctl_command *self, int argc, char **argv)
{
    Hilbert__V1__ControlReply *reply;
    int result = simple(self, argc, argv, HILBERT__V1__CONTROL_REQUEST__COMMAND_RESET_WINDOW, &reply);

    if (reply)
        puts("the window and the coefficients were reset");
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    return result;
}

static int run_reload(const ctl_command *self, int argc, char **argv)
{
    Hilbert__V1__ControlReply *reply;
    int result = simple(self, argc, argv, HILBERT__V1__CONTROL_REQUEST__COMMAND_RELOAD, &reply);

    if (reply) {
        puts("the configuration is in force");
        for (size_t i = 0; i < reply->n_needs_restart; i++)
            printf("%s changed, which holds only after a restart\n", reply->needs_restart[i]);
        if (*reply->restart_error)
            printf("a restart would fail: %s\n", reply->restart_error);
    }
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    return result;
}

/* Says what the two made of the last samples, so that the operator sees what was exchanged for what. */
static int run_promote(const ctl_command *self, int argc, char **argv)
{
    Hilbert__V1__ControlReply *before, *model = NULL, *reply = NULL;
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, NULL, 0);

    if (result)
        return result;
    before = ctl_ask_status(&c, self);
    if (before)
        model = ctl_ask_model(&c, self);
    if (model)
        reply = ctl_ask_for(&c, self, HILBERT__V1__CONTROL_REQUEST__COMMAND_PROMOTE,
                            HILBERT__V1__CONTROL_REPLY__RESULT__NOT_SET);
    if (reply && before->status->shadow) {
        const Hilbert__V1__Shadow *s = before->status->shadow;
        printf("%s is in use now: its one-step error was %.3g as the shadow\n", s->path, s->error);
        printf("%s is its shadow now: its one-step error was %.3g in use\n", model->model->path, s->error_in_use);
        puts("a restart goes back to the configuration: exchange model and shadow.model there to keep it so");
    }
    result = reply ? CTL_OK : CTL_FAILURE;
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    hilbert__v1__control_reply__free_unpacked(model, NULL);
    hilbert__v1__control_reply__free_unpacked(before, NULL);
    ctl_connection_end(&c);
    return result;
}

/* Over the target in force, or zero. */
static int set_target(ctl_connection *c, const ctl_command *self, int argc, char **argv)
{
    Hilbert__V1__ControlReply *model = ctl_ask_model(c, self), *status = model ? ctl_ask_status(c, self) : NULL;
    Hilbert__V1__ControlReply *reply = NULL;
    int result = CTL_FAILURE;

    if (status) {
        int nx = (int)model->model->n_state;
        double *target = calloc((size_t)nx, sizeof *target);
        if (target && status->status->n_target == (size_t)nx)
            memcpy(target, status->status->target, (size_t)nx * sizeof *target);
        result = target ? CTL_OK : ctl_failure(self, "out of memory");
        for (int i = 0; i < argc && !result; i++)
            result = ctl_read_vector(self, argv[i], model->model->state, nx, target);
        if (!result) {
            Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
            Hilbert__V1__Target message = HILBERT__V1__TARGET__INIT;
            message.n_state = (size_t)nx;
            message.state = target;
            request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_SET_TARGET;
            request.set_target = &message;
            reply = ctl_ask(c, self, &request);
            result = reply ? CTL_OK : CTL_FAILURE;
        }
        for (int i = 0; i < nx && !result; i++)
            printf("%s %s %g", i ? "," : "target", model->model->state[i]->name, target[i]);
        if (!result)
            putchar('\n');
        free(target);
    }
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    hilbert__v1__control_reply__free_unpacked(status, NULL);
    hilbert__v1__control_reply__free_unpacked(model, NULL);
    return result;
}

static int run_target(const ctl_command *self, int argc, char **argv)
{
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, NULL, INT_MAX);

    if (result)
        return result;
    if (argc == optind)
        return ctl_usage_error(self, "no target given");
    result = set_target(&c, self, argc - optind, argv + optind);
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_reset = {
    .name = "reset",
    .arguments = "[OPTIONS]",
    .summary = "forget the window and the coefficients",
    .help = "The daemon starts to learn the vehicle again, from the average model.\n"
            "\n" CTL_CONNECTION_HELP,
    .run = run_reset,
};

const ctl_command ctl_command_reload = {
    .name = "reload",
    .arguments = "[OPTIONS]",
    .summary = "read the configuration again",
    .help = "As systemctl reload does. Prints the errors of the file, or the keys that need a restart.\n"
            "\n" CTL_CONNECTION_HELP,
    .run = run_reload,
};

const ctl_command ctl_command_promote = {
    .name = "promote",
    .arguments = "[OPTIONS]",
    .summary = "have the shadow's model fly, and the present one become the shadow",
    .help = "The shadow (shadow.model) plans once from the present state with its present coefficients; if that is "
            "sound, the\nmodels change places between two requests, and the current plan is kept. Again: back.\n"
            "\n" CTL_CONNECTION_HELP,
    .run = run_promote,
};

const ctl_command ctl_command_target = {
    .name = "target",
    .arguments = "[OPTIONS] NAME=VALUE... | VALUE,VALUE,...",
    .summary = "set the target",
    .help =
        "Sets the target of requests that name none: some states by name, the others as they are, or all in order.\n"
        "It holds until the file has another target than before, also after a reload or a restart.\n"
        "\n"
        "  hilbertctl target z=1.5 x=0\n"
        "\n" CTL_CONNECTION_HELP,
    .run = run_target,
};
