/* hilbertctl record: the flight recorder of a running daemon. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ctl/connection.h"
#include "ctl/show.h"

static void print(const Hilbert__V1__Recorder *r)
{
    printf("recorder     %s", r->on ? "on" : "off");
    if (*r->file)
        printf(": %s, %.1f MB", r->file, 1e-6 * (double)r->bytes);
    printf("\n  %" PRIu64 " messages in %" PRIu64 " file%s, %" PRIu64 " lost, %" PRIu64 " old file%s removed, %" PRIu64
           " error%s\n",
           r->messages, r->files, r->files == 1 ? "" : "s", r->lost, r->pruned, r->pruned == 1 ? "" : "s", r->errors,
           r->errors == 1 ? "" : "s");
    if (*r->error)
        printf("  %s\n", r->error);
}

/* Switches it, and waits until that is seen: a file is open, or none is. */
static int turn(ctl_connection *c, const ctl_command *self, bool on, bool json)
{
    Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
    Hilbert__V1__Record record = HILBERT__V1__RECORD__INIT;
    int result = CTL_FAILURE;

    record.on = on;
    request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_RECORD;
    request.record = &record;
    Hilbert__V1__ControlReply *reply = ctl_ask(c, self, &request);
    if (!reply)
        return CTL_FAILURE;
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    for (int i = 0; i < 20; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        Hilbert__V1__ControlReply *status = ctl_ask_status(c, self);
        const Hilbert__V1__Recorder *r = status ? status->status->recorder : NULL;
        const bool done = r && (on ? *r->file || *r->error : !*r->file), last = !r || done || i == 19;
        if (r && last && json)
            show_json(&r->base);
        else if (r && last)
            print(r);
        if (r && last && on && *r->error)
            result = ctl_failure(self, "nothing is recorded: %s", r->error);
        else if (r && last)
            result = CTL_OK;
        hilbert__v1__control_reply__free_unpacked(status, NULL);
        if (last)
            return result;
    }
    return result;
}

static int show(ctl_connection *c, const ctl_command *self, bool json)
{
    Hilbert__V1__ControlReply *status = ctl_ask_status(c, self);
    int result = CTL_FAILURE;

    if (status && !status->status->recorder) {
        result = ctl_failure(self, "this daemon has no recorder");
    } else if (status) {
        if (json)
            show_json(&status->status->recorder->base);
        else
            print(status->status->recorder);
        result = CTL_OK;
    }
    hilbert__v1__control_reply__free_unpacked(status, NULL);
    return result;
}

static int run(const ctl_command *self, int argc, char **argv)
{
    bool json = false;
    const ctl_option own[] = {{'j', "json", CTL_FLAG, &json, 0, 0}, {0}};
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, own, 1);
    const char *what = result || argc == optind ? "status" : argv[optind];

    if (result)
        return result;
    if (strcmp(what, "status") == 0)
        result = show(&c, self, json);
    else if (strcmp(what, "on") == 0 || strcmp(what, "off") == 0)
        result = turn(&c, self, strcmp(what, "on") == 0, json);
    else
        result = ctl_usage_error(self, "'%s' is none of on, off and status", what);
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_record = {
    .name = "record",
    .arguments = "[OPTIONS] on|off|status",
    .summary = "begin or end a recording, or say what is being recorded",
    .help =
        "Recordings are MCAP files in recorder.directory of the daemon's configuration. One that was begun while the\n"
        "daemon ran shows what happened, but only one from its start on can be replayed to the byte.\n"
        "\n"
        "  -j, --json             print the Recorder message of the contract as one line of JSON\n" CTL_CONNECTION_HELP,
    .run = run,
};
