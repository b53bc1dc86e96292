#include "ctl/connection.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "keys.h"
#include "received.h"

enum { MOST_OPTIONS = 16 };      /* of a command with the common ones */
enum { USUAL_MESSAGE = 262144 }; /* a daemon's sockets.max_message unless it is configured */

/* ---- options ---- */

/* The three endpoints of a daemon from where its control socket is. */
void ctl_connection_place(ctl_connection *c, const char *where)
{
    if (strncmp(where, "tcp://", 6) == 0) {
        snprintf(c->control, sizeof c->control, "%s", where);
        *c->actions = *c->status = 0;
        return;
    }
    const char *folder = strncmp(where, "ipc://", 6) == 0 ? where + 6 : where;
    snprintf(c->control, sizeof c->control, "ipc://%s/control", folder);
    snprintf(c->actions, sizeof c->actions, "ipc://%s/actions", folder);
    snprintf(c->status, sizeof c->status, "ipc://%s/status", folder);
}

int ctl_connection_options(ctl_connection *c, const ctl_command *self, int argc, char **argv, const ctl_option *own,
                           int operands)
{
    const char *name = NULL, *socket = getenv("HILBERT_SOCKET");
    ctl_option all[MOST_OPTIONS] = {{0}}, *next = all;
    char folder[200];

    *c = (ctl_connection){
        .server_key = getenv("HILBERT_SERVER_KEY"), .client_key = getenv("HILBERT_CLIENT_KEY"), .timeout = 2};
    const ctl_option common[] = {{'n', "name", CTL_TEXT, &name, 0, 0},
                                 {'s', "socket", CTL_TEXT, &socket, 0, 0},
                                 {'K', "server-key", CTL_TEXT, &c->server_key, 0, 0},
                                 {'k', "client-key", CTL_TEXT, &c->client_key, 0, 0},
                                 {'t', "timeout", CTL_NUMBER, &c->timeout, 1e-3, 1e6}};
    for (; own && own->letter; own++)
        *next++ = *own;
    memcpy(next, common, sizeof common);
    int result = ctl_read_options(self, argc, argv, all, operands);
    snprintf(folder, sizeof folder, "/run/hilbertd/%s", name ? name : "");
    ctl_connection_place(c, name ? folder : socket && *socket ? socket : "/run/hilbertd");
    return result;
}

static int find_channel(const ctl_command *self, const char *name, size_t length, Hilbert__V1__Channel **channels,
                        int n)
{
    for (int i = 0; i < n; i++)
        if (strlen(channels[i]->name) == length && strncmp(channels[i]->name, name, length) == 0)
            return i;
    fprintf(stderr, "hilbertctl %s: there is no '%.*s' among", self->name, (int)length, name);
    for (int i = 0; i < n; i++)
        fprintf(stderr, " %s", channels[i]->name);
    fputc('\n', stderr);
    return -1;
}

int ctl_read_vector(const ctl_command *self, const char *text, Hilbert__V1__Channel **channels, int n, double *values)
{
    int place = 0;

    for (const char *p = text; *p; place++) {
        char piece[128];
        size_t length = strcspn(p, ",");
        if (length >= sizeof piece)
            return ctl_usage_error(self, "'%.40s...' is not a number", p);
        memcpy(piece, p, length);
        piece[length] = 0;
        const char *equals = strchr(piece, '=');
        int at = equals ? find_channel(self, piece, (size_t)(equals - piece), channels, n) : place;
        if (at < 0)
            return CTL_USAGE;
        if (at >= n)
            return ctl_usage_error(self, "more than %d numbers in '%s'", n, text);
        int r = ctl_read_number(self, equals ? equals + 1 : piece, -1e12, 1e12, &values[at]);
        if (r)
            return r;
        if (!equals && !p[length] && place + 1 != n)
            return ctl_usage_error(self, "%d numbers in '%s', expected %d (or name=number)", place + 1, text, n);
        p += length + (p[length] == ',');
    }
    return place ? CTL_OK : ctl_usage_error(self, "no numbers given");
}

/* ---- sockets ---- */

static int set_keys(const ctl_connection *c, const ctl_command *self, void *socket)
{
    char text[640];

    if (!c->server_key && !c->client_key)
        return CTL_OK;
    if (!c->server_key || !c->client_key)
        return ctl_usage_error(self, "--server-key and --client-key belong together");
    if (hb_keys_use(socket, c->server_key, c->client_key, text, sizeof text))
        return ctl_failure(self, "%s", text);
    return CTL_OK;
}

void *ctl_open(ctl_connection *c, const ctl_command *self, int type, const char *endpoint)
{
    int zero = 0;

    if (!*endpoint) {
        ctl_usage_error(self, "with tcp only the control socket is known: this command needs --socket FOLDER");
        return NULL;
    }
    if (!c->context)
        c->context = zmq_ctx_new();
    void *socket = c->context ? zmq_socket(c->context, type) : NULL;
    if (!socket) {
        ctl_failure(self, "ZeroMQ: %s", zmq_strerror(errno));
        return NULL;
    }
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    if (set_keys(c, self, socket) != CTL_OK) {
        zmq_close(socket);
        return NULL;
    }
    if (strncmp(endpoint, "tcp://", 6) == 0 && !c->watch)
        c->watch = hb_handshake_watch(c->context, socket);
    if (zmq_connect(socket, endpoint)) {
        ctl_failure(self, "%s: %s", endpoint, zmq_strerror(errno));
        zmq_close(socket);
        return NULL;
    }
    return socket;
}

void ctl_connection_end(ctl_connection *c)
{
    if (c->socket)
        zmq_close(c->socket);
    if (c->watch)
        zmq_close(c->watch);
    if (c->context)
        zmq_ctx_term(c->context);
    c->socket = c->watch = c->context = NULL;
}

/* ---- questions ---- */

/* The reply to request `id`, or NULL. */
static Hilbert__V1__ControlReply *receive(void *socket, uint64_t id)
{
    Hilbert__V1__ControlReply *reply = NULL;
    zmq_msg_t message;

    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, ZMQ_DONTWAIT) >= 0)
        reply = hilbert__v1__control_reply__unpack(NULL, zmq_msg_size(&message), zmq_msg_data(&message));
    zmq_msg_close(&message);
    if (reply)
        hb_message_clean(&reply->base);
    const bool whole =
        reply && (reply->result_case != HILBERT__V1__CONTROL_REPLY__RESULT_STATUS || hb_status_complete(reply->status));
    if (reply && (!whole || (reply->id != id && reply->id != 0))) {
        hilbert__v1__control_reply__free_unpacked(reply, NULL);
        reply = NULL;
    }
    return reply;
}

/* Why there may be no answer. */
static const char *advice(ctl_connection *c)
{
    if (strncmp(c->control, "ipc://", 6) == 0 && access(c->control + 6, F_OK) == 0 && access(c->control + 6, W_OK))
        return "we may not write to it: is this user in the daemon's group (hilbertd)?";
    hb_handshake_read(c->watch, &c->seen);
    return hb_handshake_advice(&c->seen, c->server_key || c->client_key);
}

Hilbert__V1__ControlReply *ctl_try(ctl_connection *c, const ctl_command *self, Hilbert__V1__ControlRequest *request,
                                   char *why, size_t size)
{
    Hilbert__V1__ControlReply *reply = NULL;

    snprintf(why, size, "%s", "");
    if (!c->socket)
        c->socket = ctl_open(c, self, ZMQ_DEALER, c->control);
    if (!c->socket)
        return NULL;
    request->id = ++c->id;
    size_t n = hilbert__v1__control_request__get_packed_size(request);
    uint8_t *frame = malloc(n ? n : 1);
    if (!frame)
        return NULL;
    hilbert__v1__control_request__pack(request, frame);
    zmq_send(c->socket, frame, n, 0);
    free(frame);

    zmq_pollitem_t item = {.socket = c->socket, .events = ZMQ_POLLIN};
    while (!reply && zmq_poll(&item, 1, (long)(1e3 * c->timeout)) > 0)
        reply = receive(c->socket, c->id);
    if (!reply && n > USUAL_MESSAGE)
        snprintf(why, size,
                 "no answer from %s within %g s: the question has %zu bytes, is that more than the daemon's "
                 "sockets.max_message?",
                 c->control, c->timeout, n);
    else if (!reply)
        snprintf(why, size, "no answer from %s within %g s: %s", c->control, c->timeout, advice(c));
    if (reply && !reply->ok) {
        snprintf(why, size, "%s", reply->error);
        hilbert__v1__control_reply__free_unpacked(reply, NULL);
        reply = NULL;
    }
    return reply;
}

/* what went wrong as a message */
static Hilbert__V1__ControlReply *or_say(const ctl_command *self, Hilbert__V1__ControlReply *reply, const char *why)
{
    if (!reply && *why)
        ctl_failure(self, "%s", why);
    return reply;
}

Hilbert__V1__ControlReply *ctl_ask(ctl_connection *c, const ctl_command *self, Hilbert__V1__ControlRequest *request)
{
    char why[640];
    Hilbert__V1__ControlReply *reply = ctl_try(c, self, request, why, sizeof why);

    return or_say(self, reply, why);
}

Hilbert__V1__ControlReply *ctl_try_for(ctl_connection *c, const ctl_command *self,
                                       Hilbert__V1__ControlRequest__CommandCase what,
                                       Hilbert__V1__ControlReply__ResultCase expected, char *why, size_t size)
{
    Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
    Hilbert__V1__Nothing nothing = HILBERT__V1__NOTHING__INIT;

    request.command_case = what;
    request.get_status = &nothing; /* all commands without arguments share this place of the union */
    Hilbert__V1__ControlReply *reply = ctl_try(c, self, &request, why, size);
    if (reply && expected != HILBERT__V1__CONTROL_REPLY__RESULT__NOT_SET && reply->result_case != expected) {
        snprintf(why, size, "the daemon answered something else: is it of another version?");
        hilbert__v1__control_reply__free_unpacked(reply, NULL);
        reply = NULL;
    }
    return reply;
}

Hilbert__V1__ControlReply *ctl_ask_for(ctl_connection *c, const ctl_command *self,
                                       Hilbert__V1__ControlRequest__CommandCase what,
                                       Hilbert__V1__ControlReply__ResultCase expected)
{
    char why[640];
    Hilbert__V1__ControlReply *reply = ctl_try_for(c, self, what, expected, why, sizeof why);

    return or_say(self, reply, why);
}

Hilbert__V1__ControlReply *ctl_ask_status(ctl_connection *c, const ctl_command *self)
{
    return ctl_ask_for(c, self, HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_STATUS,
                       HILBERT__V1__CONTROL_REPLY__RESULT_STATUS);
}

Hilbert__V1__ControlReply *ctl_ask_model(ctl_connection *c, const ctl_command *self)
{
    return ctl_ask_for(c, self, HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_MODEL,
                       HILBERT__V1__CONTROL_REPLY__RESULT_MODEL);
}
