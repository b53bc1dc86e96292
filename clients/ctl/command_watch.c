/* hilbertctl watch: the published states, one line of JSON each. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "ctl/connection.h"
#include "received.h"

static const char topic[] = "hilbert.status";

/* Receives topic / JSON / seconds and prints the second. False when nothing came in time. */
static bool print_one(void *socket)
{
    int more = 1;
    size_t size = sizeof more;

    for (int i = 0; more; i++) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, socket, 0) < 0) {
            zmq_msg_close(&frame);
            return false;
        }
        if (i == 1) {
            hb_text_clean(zmq_msg_data(&frame), zmq_msg_size(&frame));
            fwrite(zmq_msg_data(&frame), 1, zmq_msg_size(&frame), stdout);
            putchar('\n');
        }
        zmq_msg_close(&frame);
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
    }
    return fflush(stdout) == 0;
}

static int run(const ctl_command *self, int argc, char **argv)
{
    const char *status = NULL;
    double count = 0;
    const ctl_option own[] = {
        {'c', "count", CTL_NUMBER, &count, 1, 1e9}, {'S', "status", CTL_TEXT, &status, 0, 0}, {0}};
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, own, 0);

    if (result)
        return result;
    if (status)
        snprintf(c.status, sizeof c.status, "%s", status);
    void *socket = ctl_open(&c, self, ZMQ_SUB, c.status);
    if (!socket) {
        ctl_connection_end(&c);
        return CTL_FAILURE;
    }
    int wait = (int)(1e3 * c.timeout);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait, sizeof wait);
    zmq_setsockopt(socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
    for (long i = 0; (count == 0 || i < (long)count) && !result; i++)
        if (!print_one(socket))
            result = ctl_failure(
                self, "%s: no state was published within %g s: is hilbertd running, and status.period not 0?", c.status,
                c.timeout);
    zmq_close(socket);
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_watch = {
    .name = "watch",
    .arguments = "[OPTIONS]",
    .summary = "the published states as lines of JSON",
    .help = "Prints every published state until interrupted.\n"
            "\n"
            "  -c, --count N          stop after N states\n"
            "  -S, --status ENDPOINT  the daemon's status socket, for tcp\n" CTL_CONNECTION_HELP,
    .run = run,
};
