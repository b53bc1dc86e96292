/* hilbertctl metrics: a daemon's counters and gauges in Prometheus' text format. */
#include <stdio.h>

#include "ctl/connection.h"
#include "metrics.h"

static int run(const ctl_command *self, int argc, char **argv)
{
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, NULL, 0);

    if (result)
        return result;
    Hilbert__V1__ControlReply *reply = ctl_ask_status(&c, self);
    hb_metrics *metrics = reply ? hb_metrics_new() : NULL;
    if (metrics)
        hb_metrics_add(metrics, reply->status->name, reply->status);
    if (!reply)
        result = CTL_FAILURE;
    else if (!metrics || !hb_metrics_end(metrics, stdout))
        result = ctl_failure(self, "out of memory");
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
