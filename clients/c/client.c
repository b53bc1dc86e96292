/* The client is four sockets, two fixed buffers and a counter of requests.
 *
 * Actions go over a DEALER rather than a REQ socket: after a time-out the next question can be asked at once, and an
 * answer to an old question is told by its id and dropped. ZMQ_IMMEDIATE keeps questions from piling up for a daemon
 * that is not there. */
#include "hilbert_client.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "base/monotonic.h"
#include "base/turns.h"
#include "bump.h"
#include "handshake.h"
#include "hilbert.pb-c.h"
#include "json.h"
#include "keys.h"

enum {
    DEFAULT_MAX_MESSAGE = 262144,
    UNPACKED = 4, /* an unpacked message takes at most so many times its packed size, and */
    UNPACKED_FIXED = 4096,
};

static const double CONNECT_TIMEOUT = 1; /* seconds, unless options say */

_Static_assert((int)HILBERT_REFUSED == (int)HILBERT__V1__ACTION_STATUS__ACTION_STATUS_REFUSED, "hilbert.proto");

struct hilbert_client {
    void *context, *telemetry, *actions, *control, *status; /* the last two: NULL until they are needed */
    char *control_endpoint, *status_endpoint, *server_key, *client_key;
    void *watch; /* of the handshakes of actions, over tcp */
    hb_handshakes seen;
    uint64_t sequence, id; /* of the newest sample and question */
    size_t max_message;
    uint8_t *out, *in; /* max_message each */
    bool lockstep;
    uint8_t *carried; /* max_message: samples for the next request, as its field */
    size_t ncarried;
    void *unpacked;
    hb_bump bump;
    char reason[32], estimate[32], fault[32]; /* of the newest reply */
    char error[256];
};

/* A call begins: what the last one complained of is over. */
static void begin(hilbert_client *h)
{
    *h->error = 0;
}

static int fail(hilbert_client *h, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int fail(hilbert_client *h, int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(h->error, sizeof h->error, format, args);
    va_end(args);
    return -code;
}

/* ---- connecting ---- */

static int set_keys(hilbert_client *h, const hilbert_options *o, void *socket)
{
    if (!o->server_key && !o->client_key)
        return 0;
    if (!o->server_key || !o->client_key)
        return fail(h, EINVAL, "CURVE needs both server_key and client_key");
    return hb_keys_use(socket, o->server_key, o->client_key, h->error, sizeof h->error);
}

static int open_socket(hilbert_client *h, const hilbert_options *o, int type, const char *endpoint, void **ret)
{
    int64_t max = (int64_t)h->max_message;
    const struct {
        int option, value;
    } settings[] = {
        {ZMQ_LINGER, 0},           {ZMQ_IMMEDIATE, type != ZMQ_SUB}, /* a subscription waits for the daemon, and goes
                                                                        out by itself */
        {ZMQ_SNDHWM, 100},         {ZMQ_RECONNECT_IVL, 10},          {ZMQ_RECONNECT_IVL_MAX, 50},
        {ZMQ_HEARTBEAT_IVL, 1000}, {ZMQ_HEARTBEAT_TIMEOUT, 3000},
    };

    void *socket = *ret = zmq_socket(h->context, type);
    if (!socket)
        return fail(h, errno, "%s: %s", endpoint, zmq_strerror(errno));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        zmq_setsockopt(socket, settings[i].option, &settings[i].value, sizeof(int));
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max, sizeof max);
    if (o->name && *o->name && type == ZMQ_DEALER && zmq_setsockopt(socket, ZMQ_ROUTING_ID, o->name, strlen(o->name)))
        return fail(h, EINVAL, "%s: a client's name has 1 to 255 bytes", o->name);
    int r = set_keys(h, o, socket);
    if (r)
        return r;
    if (type == ZMQ_DEALER && strncmp(endpoint, "tcp://", 6) == 0 && !h->watch)
        h->watch = hb_handshake_watch(h->context, socket);
    if (zmq_connect(socket, endpoint))
        return fail(h, errno, "%s: %s", endpoint, zmq_strerror(errno));
    return 0;
}

/* Waits for an event until the monotonic time `until`; false when it does not come. */
static bool wait_for(void *socket, short events, double until)
{
    for (;;) {
        zmq_pollitem_t item = {.socket = socket, .events = events};
        double left = until - hb_now();
        int n = zmq_poll(&item, 1, left > 0 ? (long)ceil(fmin(left, 1e6) * 1e3) : 0);
        if (n > 0)
            return true;
        if (left <= 0 || (n < 0 && errno != EINTR))
            return false;
    }
}

/* Opened by the first question that needs it: a flight stack that only flies has no third connection. */
static int open_control(hilbert_client *h)
{
    const hilbert_options o = {.server_key = h->server_key, .client_key = h->client_key};

    if (h->control)
        return 0;
    int r = open_socket(h, &o, ZMQ_DEALER, h->control_endpoint, &h->control);
    if (r && h->control) {
        zmq_close(h->control);
        h->control = NULL;
    }
    return r;
}

/* Opens the sockets. With the first of them ZeroMQ starts the thread that carries our messages, which is scheduled as
 * the caller is: of an ordinary caller it has short turns, so that a reply does not wait behind busy threads. */
static int open_sockets(hilbert_client *h, const hilbert_options *o)
{
    const char *telemetry = o->telemetry ? o->telemetry : "ipc:///run/hilbertd/telemetry";
    hb_turns callers;

    hb_turns_begin_short(&callers);
    int r = *telemetry && !h->lockstep ? open_socket(h, o, ZMQ_PUB, telemetry, &h->telemetry) : 0;

    if (r == 0)
        r = open_socket(h, o, ZMQ_DEALER, o->actions ? o->actions : "ipc:///run/hilbertd/actions", &h->actions);
    hb_turns_end_short(&callers);
    return r;
}

int hilbert_connect(hilbert_client **ret, const hilbert_options *options, char *error_text, int error_size)
{
    hilbert_options o = options ? *options : (hilbert_options){0};
    size_t max = o.max_message > 0 ? (size_t)o.max_message : DEFAULT_MAX_MESSAGE;
    hilbert_client *h = calloc(1, sizeof *h);
    int r = -ENOMEM;

    if (!h)
        return r;
    h->max_message = max;
    h->lockstep = o.lockstep;
    h->carried = malloc(o.lockstep ? max : 1);
    h->out = malloc(max);
    h->in = malloc(max);
    h->unpacked = malloc(max * UNPACKED + UNPACKED_FIXED);
    h->context = zmq_ctx_new();
    h->control_endpoint = strdup(o.control ? o.control : "ipc:///run/hilbertd/control");
    h->status_endpoint = strdup(o.status ? o.status : "ipc:///run/hilbertd/status");
    h->server_key = o.server_key ? strdup(o.server_key) : NULL;
    h->client_key = o.client_key ? strdup(o.client_key) : NULL;
    if (h->out && h->in && h->carried && h->unpacked && h->context && h->control_endpoint && h->status_endpoint &&
        !o.server_key == !h->server_key && !o.client_key == !h->client_key) {
        hb_bump_start(&h->bump, h->unpacked, max * UNPACKED + UNPACKED_FIXED);
        r = open_sockets(h, &o);
    }
    if (r) {
        if (error_text && error_size > 0)
            snprintf(error_text, (size_t)error_size, "%s", *h->error ? h->error : strerror(-r));
        hilbert_close(h);
        return r;
    }
    if (o.connect_timeout >= 0)
        wait_for(h->actions, ZMQ_POLLOUT, hb_now() + (o.connect_timeout > 0 ? o.connect_timeout : CONNECT_TIMEOUT));
    *ret = h;
    return 0;
}

void hilbert_close(hilbert_client *h)
{
    if (!h)
        return;
    if (h->telemetry)
        zmq_close(h->telemetry);
    if (h->actions)
        zmq_close(h->actions);
    if (h->control)
        zmq_close(h->control);
    if (h->status)
        zmq_close(h->status);
    if (h->watch)
        zmq_close(h->watch);
    if (h->context)
        zmq_ctx_term(h->context);
    free(h->control_endpoint);
    free(h->status_endpoint);
    free(h->server_key);
    free(h->client_key);
    free(h->unpacked);
    free(h->in);
    free(h->out);
    free(h->carried);
    free(h);
}

/* ---- sending ---- */

/* A vector of ours as protobuf-c wants it: it never writes to what it packs. */
static double *vector(const double *v, int n, size_t *ret_n)
{
    *ret_n = v && n > 0 ? (size_t)n : 0;
    return (double *)(uintptr_t)v;
}

/* With what is carried behind it: to protobuf, fields may come in any order. */
static int send_message(hilbert_client *h, void *socket, const ProtobufCMessage *message, size_t ncarried)
{
    size_t packed = protobuf_c_message_get_packed_size(message), size = packed + ncarried;

    if (size > h->max_message)
        return fail(h, EMSGSIZE, "the message has %zu bytes, at most %zu are allowed (max_message)", size,
                    h->max_message);
    protobuf_c_message_pack(message, h->out);
    memcpy(h->out + packed, h->carried, ncarried);
    if (zmq_send(socket, h->out, size, ZMQ_DONTWAIT) < 0)
        return fail(h, errno, "cannot send: %s", zmq_strerror(errno));
    return 0;
}

/* Keeps a sample for the next request: as another element of its field. */
static int carry(hilbert_client *h, const Hilbert__V1__Telemetry *t)
{
    Hilbert__V1__Telemetry *sample = (Hilbert__V1__Telemetry *)(uintptr_t)t;
    Hilbert__V1__ActionRequest m = HILBERT__V1__ACTION_REQUEST__INIT;

    m.n_telemetry = 1;
    m.telemetry = &sample;
    size_t size = protobuf_c_message_get_packed_size(&m.base);
    if (h->ncarried + size > h->max_message)
        return fail(h, EMSGSIZE,
                    "the samples since the last request have %zu bytes, at most %zu are allowed "
                    "(max_message)",
                    h->ncarried + size, h->max_message);
    h->ncarried += protobuf_c_message_pack(&m.base, h->carried + h->ncarried);
    return 0;
}

int hilbert_publish(hilbert_client *h, const hilbert_telemetry *t)
{
    Hilbert__V1__Telemetry m = HILBERT__V1__TELEMETRY__INIT;

    begin(h);
    if (!h->telemetry && !h->lockstep)
        return fail(h, ENOTCONN, "this client was made without telemetry");
    m.time_us = t->time_us;
    m.state = vector(t->state, t->nstate, &m.n_state);
    m.control = vector(t->control, t->ncontrol, &m.n_control);
    m.sequence = ++h->sequence;
    m.reset_counter = t->reset_counter;
    return h->lockstep ? carry(h, &m) : send_message(h, h->telemetry, &m.base, 0);
}

static int not_connected(hilbert_client *h, const char *name)
{
    hb_handshake_read(h->watch, &h->seen);
    if (h->seen.connected && !h->seen.succeeded)
        return fail(h, ENOTCONN, "no daemon to ask: %s", hb_handshake_advice(&h->seen, h->server_key));
    return fail(h, ENOTCONN, "no daemon to ask: is hilbertd running, and is this its %s socket?", name);
}

/* Sends as soon as there is a daemon to send to. */
static int send_question(hilbert_client *h, void *socket, const char *name, const ProtobufCMessage *message,
                         size_t ncarried, double until)
{
    int result = send_message(h, socket, message, ncarried);

    if (result == -EAGAIN && wait_for(socket, ZMQ_POLLOUT, until))
        result = send_message(h, socket, message, ncarried);
    if (result == -EAGAIN)
        return not_connected(h, name);
    return result;
}

int hilbert_ask(hilbert_client *h, const hilbert_action_request *r, double timeout)
{
    double until = hb_now() + timeout;
    Hilbert__V1__ActionRequest m = HILBERT__V1__ACTION_REQUEST__INIT;

    begin(h);
    m.id = ++h->id;
    m.time_us = r->time_us;
    m.state = vector(r->state, r->nstate, &m.n_state);
    m.target = vector(r->target, r->ntarget, &m.n_target);
    m.target_time = vector(r->target_time, r->ntarget_time, &m.n_target_time);
    m.applied = vector(r->applied, r->napplied, &m.n_applied);
    m.budget_us = r->budget > 0 ? (uint32_t)fmin(ceil(r->budget * 1e6), UINT32_MAX) : 0;
    m.want_plan = r->want_plan;
    m.reset_counter = r->reset_counter;
    m.lockstep = h->lockstep;
    int result = send_question(h, h->actions, "actions", &m.base, h->ncarried, until);
    if (!result)
        h->ncarried = 0;
    return result;
}

/* ---- receiving ---- */

/* Of a message that may be without health; h->estimate and h->fault become its words, or empty and "none". */
static void take_health(hilbert_client *h, const Hilbert__V1__Health *from, double *one_step_error, double *out_of_span)
{
    *h->estimate = 0;
    snprintf(h->fault, sizeof h->fault, "none");
    if (!from)
        return;
    if (from->fault != HILBERT__V1__REASON__REASON_UNSPECIFIED)
        hb_json_word(&hilbert__v1__reason__descriptor, (int)from->fault, h->fault, sizeof h->fault);
    hb_json_word(&hilbert__v1__estimate_status__descriptor, (int)from->status, h->estimate, sizeof h->estimate);
    *one_step_error = from->one_step_error;
    *out_of_span = from->out_of_span;
}

/* Unpacks `size` bytes of h->in. */
static int read_reply(hilbert_client *h, size_t size, hilbert_action_reply *ret, uint64_t *ret_id)
{
    hb_bump_clear(&h->bump);
    Hilbert__V1__ActionReply *m = hilbert__v1__action_reply__unpack(&h->bump.allocator, size, h->in);
    if (!m)
        return fail(h, EPROTO, "the answer (%zu bytes) is not an ActionReply", size);
    *ret_id = m->id;
    hb_json_word(&hilbert__v1__reason__descriptor, (int)m->reason, h->reason, sizeof h->reason);
    *ret = (hilbert_action_reply){
        .status = (hilbert_status)m->status,
        .reason = h->reason,
        .detail = m->detail,
        .action = m->action,
        .naction = (int)m->n_action,
        .cost = m->cost,
        .iterations = (int)m->iterations,
        .queue = 1e-6 * m->queue_us,
        .planning = 1e-6 * m->planning_us,
        .total = 1e-6 * m->total_us,
        .preparing = 1e-6 * m->preparing_us,
        .corrected = m->corrected,
        .guest = m->guest,
        .coefficient_version = m->coefficient_version,
        .coefficient_age = m->coefficient_age,
        .estimate = h->estimate,
        .plan = m->plan,
        .nplan = (int)m->n_plan,
        .predicted = m->predicted,
        .npredicted = (int)m->n_predicted,
        .limit = m->limit,
        .fault = h->fault,
    };
    take_health(h, m->health, &ret->one_step_error, &ret->out_of_span);
    return 0;
}

int hilbert_answer(hilbert_client *h, double timeout, hilbert_action_reply *ret)
{
    double until = hb_now() + timeout;

    begin(h);
    while (wait_for(h->actions, ZMQ_POLLIN, until)) {
        int n = zmq_recv(h->actions, h->in, h->max_message, ZMQ_DONTWAIT);
        if (n < 0)
            continue;
        /* a reply without id answers a request that could not be read: it is ours all the same */
        uint64_t id = 0;
        int r = (size_t)n <= h->max_message
                    ? read_reply(h, (size_t)n, ret, &id)
                    : fail(h, EPROTO, "the answer has %d bytes, at most %zu are expected", n, h->max_message);
        if (r || id == h->id || id == 0)
            return r;
    }
    return fail(h, ETIMEDOUT, "no answer within %g s", timeout);
}

int hilbert_request(hilbert_client *h, const hilbert_action_request *r, double timeout, hilbert_action_reply *ret)
{
    double until = hb_now() + timeout;
    int result = hilbert_ask(h, r, timeout);

    return result ? result : hilbert_answer(h, fmax(0, until - hb_now()), ret);
}

/* ---- control ---- */

/* Asks over the control socket; the reply lives in h->bump. */
static int ask_control(hilbert_client *h, Hilbert__V1__ControlRequest *request, double timeout,
                       Hilbert__V1__ControlReply **ret)
{
    double until = hb_now() + timeout;
    begin(h);
    int r = open_control(h);

    request->id = ++h->id;
    if (r == 0)
        r = send_question(h, h->control, "control", &request->base, 0, until);
    while (r == 0 && wait_for(h->control, ZMQ_POLLIN, until)) {
        int n = zmq_recv(h->control, h->in, h->max_message, ZMQ_DONTWAIT);
        if (n < 0)
            continue;
        if ((size_t)n > h->max_message)
            return fail(h, EPROTO, "the answer has %d bytes, at most %zu are expected", n, h->max_message);
        hb_bump_clear(&h->bump);
        Hilbert__V1__ControlReply *m = hilbert__v1__control_reply__unpack(&h->bump.allocator, (size_t)n, h->in);
        if (!m)
            return fail(h, EPROTO, "the answer (%d bytes) is not a ControlReply", n);
        if (m->id != request->id && m->id != 0)
            continue; /* to an earlier question */
        *ret = m;
        return m->ok ? 0 : fail(h, EINVAL, "%s", m->error);
    }
    return r ? r : fail(h, ETIMEDOUT, "no answer within %g s", timeout);
}

/* A question without arguments, whose answer must be of the expected kind. */
static int ask_for(hilbert_client *h, Hilbert__V1__ControlRequest__CommandCase what,
                   Hilbert__V1__ControlReply__ResultCase expected, const char *name, double timeout,
                   Hilbert__V1__ControlReply **ret)
{
    Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
    Hilbert__V1__Nothing nothing = HILBERT__V1__NOTHING__INIT;

    request.command_case = what;
    request.get_status = &nothing; /* all questions without arguments share this place of the union */
    int r = ask_control(h, &request, timeout, ret);
    if (r == 0 && (*ret)->result_case != expected)
        return fail(h, EPROTO, "the answer is not %s", name);
    return r;
}

static const hilbert_channel *copy_channels(hilbert_client *h, Hilbert__V1__Channel **from, size_t n)
{
    hilbert_channel *to = hb_bump_take(&h->bump, (n + 1) * sizeof *to);

    for (size_t i = 0; to && i < n; i++)
        to[i] = (hilbert_channel){from[i]->name, from[i]->unit, from[i]->min, from[i]->max, from[i]->trim};
    return to;
}

int hilbert_get_model(hilbert_client *h, double timeout, hilbert_model_info *ret)
{
    Hilbert__V1__ControlReply *reply;
    int r = ask_for(h, HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_MODEL, HILBERT__V1__CONTROL_REPLY__RESULT_MODEL,
                    "a model", timeout, &reply);

    if (r)
        return r;
    const Hilbert__V1__ModelInfo *m = reply->model;
    const hilbert_channel *state = copy_channels(h, m->state, m->n_state);
    const hilbert_channel *control = copy_channels(h, m->control, m->n_control);
    if (!state || !control)
        return fail(h, EMSGSIZE, "the answer does not fit into max_message");
    *ret = (hilbert_model_info){
        .path = m->path,
        .hash = m->hash,
        .state = state,
        .control = control,
        .nstates = (int)m->n_state,
        .ncontrols = (int)m->n_control,
        .basis_functions = (int)m->basis_functions,
        .dt = m->dt,
        .horizon = (int)m->horizon,
        .plan_dt = m->plan_dt,
    };
    return 0;
}

static void take_status(hilbert_client *h, const Hilbert__V1__Status *m, hilbert_daemon_status *ret)
{
    *ret = (hilbert_daemon_status){
        .name = m->name,
        .version = m->version,
        .uptime = m->uptime,
        .telemetry_rate = m->telemetry_rate,
        .request_rate = m->request_rate,
        .telemetry_age = m->telemetry_age,
        .last_status = (hilbert_status)m->last_status,
        .estimate = h->estimate,
        .coefficient = m->coefficient,
        .ncoefficients = (int)m->n_coefficient,
        .target = m->target,
        .ntarget = (int)m->n_target,
        .adapting = m->adapting,
        .variance = m->variance,
        .nvariance = (int)m->n_variance,
        .fault = h->fault,
    };
    take_health(h, m->health, &ret->one_step_error, &ret->out_of_span);
}

int hilbert_get_status(hilbert_client *h, double timeout, hilbert_daemon_status *ret)
{
    Hilbert__V1__ControlReply *reply;
    int r = ask_for(h, HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_STATUS, HILBERT__V1__CONTROL_REPLY__RESULT_STATUS,
                    "a status", timeout, &reply);

    if (r)
        return r;
    take_status(h, reply->status, ret);
    return 0;
}

int hilbert_get_coefficients(hilbert_client *h, double timeout, hilbert_coefficients *ret)
{
    Hilbert__V1__ControlReply *reply;
    int r = ask_for(h, HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_COEFFICIENTS,
                    HILBERT__V1__CONTROL_REPLY__RESULT_COEFFICIENTS, "coefficients", timeout, &reply);

    if (r)
        return r;
    const Hilbert__V1__Coefficients *m = reply->coefficients;
    if (m->n_variance != m->n_value)
        return fail(h, EPROTO, "%zu coefficients with %zu variances", m->n_value, m->n_variance);
    *ret = (hilbert_coefficients){
        .model_hash = m->model_hash,
        .version = m->version,
        .value = m->value,
        .variance = m->variance,
        .n = (int)m->n_value,
        .covariance = m->covariance,
        .ncovariance = (int)m->n_covariance,
    };
    return 0;
}

int hilbert_set_target(hilbert_client *h, const double *target, int ntarget, double timeout)
{
    Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
    Hilbert__V1__Target m = HILBERT__V1__TARGET__INIT;
    Hilbert__V1__ControlReply *reply;

    m.state = vector(target, ntarget, &m.n_state);
    request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_SET_TARGET;
    request.set_target = &m;
    return ask_control(h, &request, timeout, &reply);
}

/* A command that is answered with nothing but yes or no. */
static int command(hilbert_client *h, Hilbert__V1__ControlRequest__CommandCase what, double timeout,
                   Hilbert__V1__ControlReply **ret)
{
    return ask_for(h, what, HILBERT__V1__CONTROL_REPLY__RESULT__NOT_SET, "one to this", timeout, ret);
}

int hilbert_reset_window(hilbert_client *h, double timeout)
{
    Hilbert__V1__ControlReply *reply;

    return command(h, HILBERT__V1__CONTROL_REQUEST__COMMAND_RESET_WINDOW, timeout, &reply);
}

int hilbert_promote(hilbert_client *h, double timeout)
{
    Hilbert__V1__ControlReply *reply;

    return command(h, HILBERT__V1__CONTROL_REQUEST__COMMAND_PROMOTE, timeout, &reply);
}

int hilbert_reload(hilbert_client *h, double timeout, const char *const **needs_restart)
{
    Hilbert__V1__ControlReply *reply;
    int r = command(h, HILBERT__V1__CONTROL_REQUEST__COMMAND_RELOAD, timeout, &reply);

    if (r || !needs_restart)
        return r;
    const char **key = hb_bump_take(&h->bump, (reply->n_needs_restart + 1) * sizeof *key);
    if (!key)
        return fail(h, EMSGSIZE, "the answer does not fit into max_message");
    for (size_t i = 0; i < reply->n_needs_restart; i++)
        key[i] = reply->needs_restart[i];
    key[reply->n_needs_restart] = NULL;
    *needs_restart = key;
    return 0;
}

int hilbert_predict(hilbert_client *h, const hilbert_prediction_request *p, double timeout, hilbert_prediction *ret)
{
    Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
    Hilbert__V1__Predict m = HILBERT__V1__PREDICT__INIT;
    Hilbert__V1__ControlReply *reply;

    if (p->count < 0 || p->steps < 0)
        return fail(h, EINVAL, "%d trajectories of %d steps: neither may be negative", p->count, p->steps);
    m.count = (uint32_t)p->count;
    m.steps = (uint32_t)p->steps;
    m.dt = p->dt;
    m.state = vector(p->state, p->nstate, &m.n_state);
    m.control = vector(p->control, p->ncontrol, &m.n_control);
    request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_PREDICT;
    request.predict = &m;
    int r = ask_control(h, &request, timeout, &reply);
    if (r)
        return r;
    if (reply->result_case != HILBERT__V1__CONTROL_REPLY__RESULT_PREDICTION)
        return fail(h, EPROTO, "the answer is not a prediction");
    *ret = (hilbert_prediction){
        .count = (int)reply->prediction->count,
        .steps = (int)reply->prediction->steps,
        .state = reply->prediction->state,
        .nstate = (int)reply->prediction->n_state,
        .coefficient_version = reply->prediction->coefficient_version,
    };
    return 0;
}

/* ---- what is published, and descriptors ---- */

static int descriptor_of(hilbert_client *h, void *socket)
{
    int fd = -1;
    size_t size = sizeof fd;

    return zmq_getsockopt(socket, ZMQ_FD, &fd, &size) ? fail(h, errno, "%s", zmq_strerror(errno)) : fd;
}

int hilbert_descriptor(hilbert_client *h)
{
    begin(h);
    return descriptor_of(h, h->actions);
}

static int subscribe(hilbert_client *h)
{
    static const char topic[] = "hilbert.v1.Status";
    const hilbert_options o = {.server_key = h->server_key, .client_key = h->client_key};

    if (h->status)
        return 0;
    int r = open_socket(h, &o, ZMQ_SUB, h->status_endpoint, &h->status);
    if (r == 0 && zmq_setsockopt(h->status, ZMQ_SUBSCRIBE, topic, sizeof topic - 1))
        r = fail(h, errno, "%s: %s", h->status_endpoint, zmq_strerror(errno));
    if (r && h->status) {
        zmq_close(h->status);
        h->status = NULL;
    }
    return r;
}

int hilbert_status_descriptor(hilbert_client *h)
{
    begin(h);
    int r = subscribe(h);

    return r ? r : descriptor_of(h, h->status);
}

/* The second frame of a message; its size, or -EAGAIN: there is no message, or -EPROTO: it has one frame alone. */
static int receive_second(void *socket, uint8_t *to, size_t size)
{
    int more = 1, length = -EPROTO, n;
    size_t room = sizeof more;

    for (int frame = 0; more; frame++) {
        uint8_t rest[1];
        n = frame == 1 ? zmq_recv(socket, to, size, ZMQ_DONTWAIT) : zmq_recv(socket, rest, sizeof rest, ZMQ_DONTWAIT);
        if (n < 0)
            return -EAGAIN;
        length = frame == 1 ? n : length;
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &room);
    }
    return length;
}

int hilbert_next_status(hilbert_client *h, double timeout, hilbert_daemon_status *ret)
{
    double until = hb_now() + timeout;
    begin(h);
    int r = subscribe(h);

    while (r == 0 && wait_for(h->status, ZMQ_POLLIN, until)) {
        int n = receive_second(h->status, h->in, h->max_message);
        if (n == -EAGAIN)
            continue;
        hb_bump_clear(&h->bump);
        Hilbert__V1__Status *m = n < 0 || (size_t)n > h->max_message
                                     ? NULL
                                     : hilbert__v1__status__unpack(&h->bump.allocator, (size_t)n, h->in);
        if (!m)
            return fail(h, EPROTO, "%s: what was published is not a Status: is it hilbertd's status socket?",
                        h->status_endpoint);
        take_status(h, m, ret);
        return 0;
    }
    return r ? r : fail(h, ETIMEDOUT, "no state was published within %g s", timeout);
}

const char *hilbert_error(const hilbert_client *h)
{
    return h->error;
}

const char *hilbert_status_name(hilbert_status status)
{
    static const char *const name[] = {"unspecified", "converged", "truncated", "warming-up", "out-of-span",
                                       "stale",       "fallback",  "refused",   "limited"};

    return (unsigned)status < sizeof name / sizeof *name ? name[status] : "unknown";
}

bool hilbert_is_planned(hilbert_status status)
{
    return (status >= HILBERT_CONVERGED && status <= HILBERT_STALE) || status == HILBERT_LIMITED;
}
