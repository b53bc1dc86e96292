#include "server/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <zmq.h>

#include "base/monotonic.h"
#include "base/turns.h"
#include "handshake.h"
#include "keys.h"
#include "process/process_limits.h"

/* A message up to so many times sockets.max_message is received, counted and refused; of one beyond that, libzmq ends
 * the connection without telling anyone. */
static const int oversize = 4;
enum { WAIT_FDS = 4 };            /* that may be waited for beside the sockets */
static const int linger_ms = 500; /* for replies on their way at the end */
/* seconds: after a pause this long in calls to libzmq the process was stopped, and clients have dropped their
 * connections; and how long clients may then connect again under the names of their old connections */
static const double longest_pause = 0.5, reconnecting = 2;

static void set_int(void *socket, int option, int value)
{
    zmq_setsockopt(socket, option, &value, sizeof value);
}

static bool is_tcp(const char *endpoint)
{
    return strncmp(endpoint, "tcp://", 6) == 0;
}

/* ---- guarding ---- */

/* The right that each socket requires. On the control socket, requests that change something require another one. */
static const struct {
    const char *name; /* of the socket, and of its domain in ZAP */
    unsigned right;
} guarded[HB_NCHANNELS] = {
    [HB_CHANNEL_TELEMETRY] = {"telemetry", HB_RIGHT_TELEMETRY},
    [HB_CHANNEL_ACTIONS] = {"actions", HB_RIGHT_ACT},
    [HB_CHANNEL_CONTROL] = {"control", HB_RIGHT_OBSERVE},
    [HB_CHANNEL_STATUS] = {"status", HB_RIGHT_OBSERVE},
};

static int read_keys(hb_sockets *s, const hb_config *c, char secret[HB_KEY_SIZE], hb_error *err)
{
    char text[HB_CONFIG_PATH_SIZE + 128];

    if (!*c->security.server_key)
        return 0;
    int r = hb_key_read(c->security.server_key, true, secret, text, sizeof text);
    if (r)
        return hb_fail(err, -r, "security.server_key: %s", text);
    s->access = calloc(1, sizeof *s->access);
    return s->access ? hb_access_read(s->access, c, err) : hb_fail(err, ENOMEM, "out of memory");
}

int hb_sockets_pilot_key(const hb_sockets *s)
{
    return s->access ? s->access->pilot : 0;
}

/* A secret prefix of the user ids that we assign. Without CURVE (ipc, or insecure) libzmq passes on a User-Id that the
 * client itself chose, which must not be taken for one of ours. */
static int draw_token(hb_sockets *s, hb_error *err)
{
    uint8_t bytes[HB_TOKEN_DIGITS / 2];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return hb_fail(err, errno, "security: no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(s->token + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

/* The client that a message came from: 1 + its number; 0: none that was judged. */
static int client_of(const hb_sockets *s, const char *user)
{
    if (!s->access || !user || strncmp(user, s->token, HB_TOKEN_DIGITS))
        return 0;
    int number = atoi(user + HB_TOKEN_DIGITS);
    return number > 0 && number <= s->access->n ? number : 0;
}

/* The ZAP handler must be there before the first CURVE socket is bound. */
static int open_zap(hb_sockets *s, hb_error *err)
{
    s->zap = zmq_socket(s->context, ZMQ_REP);
    if (!s->zap || zmq_bind(s->zap, "inproc://zeromq.zap.01"))
        return hb_fail(err, errno, "security: cannot guard the sockets: %s", zmq_strerror(errno));
    set_int(s->zap, ZMQ_LINGER, 0);
    return draw_token(s, err);
}

/* A request of ZAP: version, request id, domain, address, routing id, mechanism, public key. */
enum { ZAP_ID = 1, ZAP_DOMAIN, ZAP_ADDRESS, ZAP_MECHANISM = 5, ZAP_KEY, ZAP_FRAMES };

typedef struct zap_request {
    uint8_t frame[ZAP_FRAMES][256];
    int size[ZAP_FRAMES];
} zap_request;

static bool receive_zap(void *socket, zap_request *r)
{
    int more = 1;
    size_t option = sizeof more;

    for (int i = 0; more; i++) {
        uint8_t rest[256];
        int n = zmq_recv(socket, i < ZAP_FRAMES ? r->frame[i] : rest, sizeof rest, ZMQ_DONTWAIT);
        if (n < 0)
            return false;
        if (i < ZAP_FRAMES)
            r->size[i] = n < (int)sizeof rest ? n : (int)sizeof rest;
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &option);
    }
    return true;
}

static bool zap_is(const zap_request *r, int i, const char *text)
{
    return r->size[i] == (int)strlen(text) && memcmp(r->frame[i], text, strlen(text)) == 0;
}

/* The socket that is asked for; its domain is ours. */
static int channel_of(const zap_request *r)
{
    int i = 0;

    while (i < HB_NCHANNELS && !zap_is(r, ZAP_DOMAIN, guarded[i].name))
        i++;
    return i;
}

static int verdict_of(const hb_sockets *s, const zap_request *r, int *ret_client, char why[HB_VERDICT_SIZE])
{
    bool curve = zap_is(r, ZAP_MECHANISM, "CURVE") && r->size[ZAP_KEY] == HB_KEY_BYTES;
    int address = r->size[ZAP_ADDRESS] < 64 ? r->size[ZAP_ADDRESS] : 64;
    char text[HB_KEY_SIZE] = "(none)", rights[HB_RIGHTS_SIZE];
    int channel = channel_of(r);

    *ret_client = curve && channel < HB_NCHANNELS ? hb_access_find(s->access, r->frame[ZAP_KEY]) : -1;
    if (*ret_client < 0) {
        if (curve)
            zmq_z85_encode(text, r->frame[ZAP_KEY], HB_KEY_BYTES);
        snprintf(why, HB_VERDICT_SIZE,
                 "a client at %.*s with the public key %s was refused: it is neither among security.client_keys nor in "
                 "security.authorized_keys",
                 address, (const char *)r->frame[ZAP_ADDRESS], text);
        return HB_STRANGER;
    }
    const hb_known_client *c = &s->access->client[*ret_client];
    if (c->rights & guarded[channel].right)
        return HB_ADMITTED;
    hb_access_print(c->rights, rights);
    snprintf(why, HB_VERDICT_SIZE, "%s at %.*s was refused at the %s socket: its rights are %s", c->name, address,
             (const char *)r->frame[ZAP_ADDRESS], guarded[channel].name, rights);
    return HB_WITHOUT_RIGHT;
}

static int judge(void *context, char why[HB_VERDICT_SIZE])
{
    hb_sockets *s = context;
    zap_request r = {0};
    char user[HB_TOKEN_DIGITS + 16] = ""; /* comes with each of the client's messages */
    int client;

    if (!receive_zap(s->zap, &r))
        return HB_NOBODY;
    int verdict = verdict_of(s, &r, &client, why);
    bool admitted = verdict == HB_ADMITTED;
    if (admitted)
        snprintf(user, sizeof user, "%s%d", s->token, 1 + client);
    zmq_send(s->zap, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(s->zap, r.frame[ZAP_ID], (size_t)r.size[ZAP_ID], ZMQ_SNDMORE);
    zmq_send(s->zap, admitted ? "200" : "400", 3, ZMQ_SNDMORE);
    zmq_send(s->zap, "", 0, ZMQ_SNDMORE);
    zmq_send(s->zap, user, strlen(user), ZMQ_SNDMORE);
    zmq_send(s->zap, "", 0, 0);
    return verdict;
}

static int tend(void *context)
{
    const hb_sockets *s = context;
    hb_handshakes seen = {0};

    for (int i = 0; i < HB_NCHANNELS; i++)
        hb_handshake_read(s->watch[i], &seen);
    return (s->zap && seen.failed ? HB_MISLED : 0) | (seen.turned_away && hb_limits_crowded() ? HB_CROWDED : 0) |
           (seen.turned_away && hb_limits_flooded() ? HB_FLOODED : 0);
}

/* Whether what is bound from here on is encrypted. */
static void set_curve(void *socket, const char *domain, const char *secret, bool on)
{
    set_int(socket, ZMQ_CURVE_SERVER, on);
    if (on) {
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, HB_KEY_SIZE);
        zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, domain, strlen(domain));
    } else {
        zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, "", 0);
    }
}

/* ---- messages ---- */

/* Without ROUTER_HANDOVER a connection that comes with a name in use is never heard: its client waits for ever. With
 * it, whoever has the name is thrown out. libzmq decides on this when it is next called, so we look before each call.
 */
static void settle_names(hb_sockets *s)
{
    double now = hb_now();

    if (now - s->called > longest_pause)
        s->returning_until = now + reconnecting;
    s->called = now;
    bool stay = now >= s->returning_until;
    const struct {
        hb_channel at;
        bool keep;
    } names[] = {{HB_CHANNEL_ACTIONS, stay && s->keep_names}, {HB_CHANNEL_CONTROL, stay}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].keep != s->names_kept[names[i].at]) {
            set_int(s->channel[names[i].at], ZMQ_ROUTER_HANDOVER, !names[i].keep);
            s->names_kept[names[i].at] = names[i].keep;
        }
}

static const char *name_of(void *context, int key)
{
    const hb_sockets *s = context;

    return s->access && key > 0 && key <= s->access->n ? s->access->client[key - 1].name : NULL;
}

static void keep_names(void *context, bool on)
{
    hb_sockets *s = context;

    s->keep_names = on;
    settle_names(s);
}

static int receive(void *context, hb_channel from, hb_envelope *e, int most, const uint8_t **ret_frame)
{
    hb_sockets *s = context;
    zmq_msg_t *m = s->message;
    size_t used = 0, n;
    bool fits = true;

    e->nframes = e->key = 0;
    e->observer = false;
    settle_names(s);
    for (;;) {
        if (zmq_msg_recv(m, s->channel[from], ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(m); /* what came before is done with */
            zmq_msg_init(m);
            return HB_NOTHING;
        }
        e->key = client_of(s, zmq_msg_gets(m, "User-Id"));
        n = zmq_msg_size(m);
        if (!zmq_msg_more(m))
            break;
        if (e->nframes == HB_ENVELOPE_FRAMES || used + n > HB_ENVELOPE_SIZE || n > (size_t)most) {
            fits = false;
            continue;
        }
        memcpy(e->data + used, zmq_msg_data(m), n);
        e->size[e->nframes++] = n;
        used += n;
    }
    e->observer = e->key > 0 && !(s->access->client[e->key - 1].rights & HB_RIGHT_OPERATE);
    *ret_frame = zmq_msg_data(m);
    return !fits ? HB_UNANSWERABLE : n > (size_t)most ? HB_OVERSIZED : (int)n;
}

static bool send_frames(void *context, hb_channel to, const hb_frame *frame, int n)
{
    hb_sockets *s = context;
    void *socket = s->channel[to];

    settle_names(s);
    for (int i = 0; i < n; i++)
        if (zmq_send(socket, frame[i].data, frame[i].size, ZMQ_DONTWAIT | (i + 1 < n ? ZMQ_SNDMORE : 0)) < 0)
            return false;
    return true;
}

/* zmq_poll would call libzmq as soon as it wakes, before we can look how long that took. */
static void wait_for(void *context, const int *fd, int nfds, double seconds)
{
    hb_sockets *s = context;
    zmq_pollitem_t item[HB_NCHANNELS + 1];
    struct pollfd wait[HB_NCHANNELS + 1 + WAIT_FDS];
    int n = 0;

    for (int i = 0; i < HB_NCHANNELS; i++)
        if (i != HB_CHANNEL_STATUS)
            item[n++] = (zmq_pollitem_t){.socket = s->channel[i], .events = ZMQ_POLLIN};
    if (s->zap)
        item[n++] = (zmq_pollitem_t){.socket = s->zap, .events = ZMQ_POLLIN};
    settle_names(s);
    if (zmq_poll(item, n, 0) > 0)
        return;
    for (int i = 0; i < n; i++) {
        size_t size = sizeof wait[i].fd;
        wait[i].events = POLLIN;
        zmq_getsockopt(item[i].socket, ZMQ_FD, &wait[i].fd, &size);
    }
    for (int i = 0; i < nfds && i < WAIT_FDS; i++)
        wait[n++] = (struct pollfd){.fd = fd[i], .events = POLLIN};
    poll(wait, (nfds_t)n, (int)ceil(seconds * 1e3));
}

hb_transport hb_sockets_transport(hb_sockets *s)
{
    return (hb_transport){.context = s,
                          .receive = receive,
                          .send = send_frames,
                          .name_of = name_of,
                          .keep_names = keep_names,
                          .wait = wait_for,
                          .judge = s->zap ? judge : NULL,
                          .tend = tend};
}

/* ---- opening ---- */

/* Whether someone listens at an ipc endpoint: libzmq would replace it without an error. */
static bool is_taken(const char *endpoint)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = endpoint + strlen("ipc://");

    if (strncmp(endpoint, "ipc://", 6) || strlen(path) >= sizeof address.sun_path)
        return false;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool taken = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return taken;
}

static int bind_one(void *socket, const char *name, const char *endpoint, int mode, hb_error *err)
{
    if (is_taken(endpoint))
        return hb_fail(err, EADDRINUSE, "sockets.%s: %s: another process listens there", name, endpoint);
    mode_t before = umask((mode_t)(~mode & 0777));
    int r = zmq_bind(socket, endpoint);
    int why = errno;
    umask(before);
    if (r)
        return hb_fail(err, why, "sockets.%s: %s: %s%s", name, endpoint, zmq_strerror(why),
                       why == ENOENT || why == EACCES ? " (is there such a folder, and may we write there?)" : "");
    return 0;
}

/* The address that an inherited socket listens at, as an endpoint. */
static int endpoint_of(int fd, char *endpoint, size_t size)
{
    union {
        struct sockaddr any;
        struct sockaddr_un un;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } a = {0};
    socklen_t n = sizeof a;
    char host[INET6_ADDRSTRLEN];

    if (getsockname(fd, &a.any, &n))
        return -errno;
    if (a.any.sa_family == AF_UNIX && a.un.sun_path[0])
        snprintf(endpoint, size, "ipc://%s", a.un.sun_path);
    else if (a.any.sa_family == AF_INET && inet_ntop(AF_INET, &a.in.sin_addr, host, sizeof host))
        snprintf(endpoint, size, "tcp://%s:%d", host, ntohs(a.in.sin_port));
    else if (a.any.sa_family == AF_INET6 && inet_ntop(AF_INET6, &a.in6.sin6_addr, host, sizeof host))
        snprintf(endpoint, size, "tcp://[%s]:%d", host, ntohs(a.in6.sin6_port));
    else
        return -EAFNOSUPPORT;
    return 0;
}

typedef struct opening {
    hb_sockets *s;
    const hb_config *c;
    const hb_inherited *inherited;
    const char *secret; /* empty: no CURVE */
    hb_log *log;
} opening;

/* Encrypts what is opened next, if that is tcp and there is a key. Without a key tcp is refused, or with
 * security.insecure opened with a warning. domain: whose rights are asked of its clients. */
static int guard(const opening *o, void *socket, const char *name, const char *domain, const char *endpoint,
                 hb_error *err)
{
    const bool tcp = is_tcp(endpoint), keyed = *o->secret;

    if (tcp && !keyed && !o->c->security.insecure)
        return hb_fail(err, EPERM,
                       "sockets.%s: %s is open to the network: set security.server_key, or security.insecure", name,
                       endpoint);
    if (tcp && !keyed)
        hb_log_line(o->log, HB_LOG_WARNING, "sockets.%s: %s is open to anyone who reaches it: security.insecure is set",
                    name, endpoint);
    set_curve(socket, domain, o->secret, tcp && keyed);
    return 0;
}

/* One endpoint, bound or (telemetry from publishers) connected to, guarded as its kind wants it. */
static int open_endpoint(const opening *o, void *socket, const char *name, const char *endpoint, bool connect,
                         hb_error *err)
{
    int r = guard(o, socket, name, connect ? "telemetry" : name, endpoint, err);

    if (r)
        return r;
    if (!connect) {
        r = bind_one(socket, name, endpoint, o->c->sockets.mode, err);
        if (!r && !is_tcp(endpoint))
            strcpy(o->s->path[o->s->npaths++], endpoint + strlen("ipc://"));
        return r;
    }
    if (zmq_connect(socket, endpoint))
        return hb_fail(err, errno, "sockets.%s: %s: %s", name, endpoint, zmq_strerror(errno));
    return 0;
}

static int open_inherited(const opening *o, void *socket, const char *name, int fd, hb_error *err)
{
    char endpoint[HB_ENDPOINT_SIZE];
    int r = endpoint_of(fd, endpoint, sizeof endpoint);

    if (r)
        return hb_fail(err, -r, "sockets.%s: the socket handed over is neither unix nor tcp", name);
    if ((r = guard(o, socket, name, name, endpoint, err)))
        return r;
    set_int(socket, ZMQ_USE_FD, fd);
    r = zmq_bind(socket, endpoint);
    set_int(socket, ZMQ_USE_FD, -1);
    if (r)
        return hb_fail(err, errno, "sockets.%s: %s (handed over): %s", name, endpoint, zmq_strerror(errno));
    hb_log_line(o->log, HB_LOG_INFO, "sockets.%s: %s, handed over by the service manager", name, endpoint);
    return 0;
}

static int open_socket(const opening *o, int type, const char *name, const hb_endpoints *binds,
                       const hb_endpoints *connects, void **ret, hb_error *err)
{
    int64_t max = (int64_t)oversize * o->c->sockets.max_message;
    void *socket = *ret = zmq_socket(o->s->context, type);
    int fd = hb_inherited_find(o->inherited, name), r = 0;

    if (!socket)
        return hb_fail(err, errno, "sockets.%s: %s", name, zmq_strerror(errno));
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max, sizeof max);
    set_int(socket, ZMQ_LINGER, linger_ms);
    set_int(socket, ZMQ_IPV6, 1);
    set_int(socket, ZMQ_TCP_KEEPALIVE, 1);
    set_int(socket, ZMQ_HEARTBEAT_IVL, 1000);
    set_int(socket, ZMQ_HEARTBEAT_TIMEOUT, 3000);
    set_int(socket, ZMQ_HANDSHAKE_IVL, 3000);
    if (type == ZMQ_ROUTER)
        /* a reply to a client that is gone is an error, and can be counted */
        set_int(socket, ZMQ_ROUTER_MANDATORY, 1);
    if (type == ZMQ_ROUTER)
        set_int(socket, ZMQ_ROUTER_HANDOVER, 1); /* see settle_names */
    if (type == ZMQ_PUB)
        set_int(socket, ZMQ_SNDHWM, 20); /* a slow reader misses states, and costs no more memory than these */
    if (type == ZMQ_SUB) {
        set_int(socket, ZMQ_RCVHWM, 10000);
        zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0);
    }
    if (ret == &o->s->channel[HB_CHANNEL_CONTROL])
        set_int(socket, ZMQ_RCVHWM, 16); /* messages may be large, and nobody needs to have many under way */
    o->s->watch[ret - o->s->channel] = hb_handshake_watch(o->s->context, socket);
    if (fd >= 0)
        r = open_inherited(o, socket, name, fd, err);
    for (int i = 0; i < binds->n && fd < 0 && !r; i++)
        r = open_endpoint(o, socket, name, binds->at[i], false, err);
    for (int i = 0; connects && i < connects->n && !r; i++)
        r = open_endpoint(o, socket, "telemetry_connect", connects->at[i], true, err);
    return r;
}

/* ZeroMQ's own threads carry the messages: they have the server's priority and processors, and with `other` scheduling
 * its short turns (base/turns.h). */
static void place_threads(void *context, const hb_config *c)
{
    if (c->realtime.scheduling == HB_SCHEDULING_FIFO) {
        zmq_ctx_set(context, ZMQ_THREAD_SCHED_POLICY, SCHED_FIFO);
        zmq_ctx_set(context, ZMQ_THREAD_PRIORITY, c->realtime.server_priority);
    }
    for (int i = 0; i < c->realtime.server_cpus.n; i++)
        zmq_ctx_set(context, ZMQ_THREAD_AFFINITY_CPU_ADD, c->realtime.server_cpus.at[i]);
}

int hb_sockets_open(hb_sockets *ret, const hb_config *c, const hb_inherited *inherited, hb_log *log, hb_error *err)
{
    hb_sockets s = {.context = zmq_ctx_new(), .called = hb_now()};
    char secret[HB_KEY_SIZE] = "";
    const opening o = {.s = &s, .c = c, .inherited = inherited, .secret = secret, .log = log};
    hb_turns own;

    if (!s.context)
        return hb_fail(err, errno, "ZeroMQ: %s", zmq_strerror(errno));
    if (!(s.message = malloc(sizeof(zmq_msg_t)))) {
        hb_sockets_close(&s);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    zmq_msg_init(s.message);
    place_threads(s.context, c);
    hb_turns_begin_short(&own); /* ZeroMQ's threads start with the first socket */
    int r = read_keys(&s, c, secret, err);
    if (!r && *secret)
        r = open_zap(&s, err);
    if (!r)
        r = open_socket(&o, ZMQ_SUB, "telemetry", &c->sockets.telemetry, &c->sockets.telemetry_connect,
                        &s.channel[HB_CHANNEL_TELEMETRY], err);
    if (!r)
        r = open_socket(&o, ZMQ_ROUTER, "actions", &c->sockets.actions, NULL, &s.channel[HB_CHANNEL_ACTIONS], err);
    if (!r)
        r = open_socket(&o, ZMQ_ROUTER, "control", &c->sockets.control, NULL, &s.channel[HB_CHANNEL_CONTROL], err);
    if (!r)
        r = open_socket(&o, ZMQ_PUB, "status", &c->sockets.status, NULL, &s.channel[HB_CHANNEL_STATUS], err);
    hb_turns_end_short(&own);
    explicit_bzero(secret, sizeof secret);
    if (r) {
        hb_sockets_close(&s);
        return r;
    }
    *ret = s;
    return 0;
}

void hb_sockets_close(hb_sockets *s)
{
    if (s->message)
        zmq_msg_close(s->message);
    free(s->message);
    for (int i = 0; i < HB_NCHANNELS; i++) {
        if (s->channel[i])
            zmq_close(s->channel[i]);
        if (s->watch[i])
            zmq_close(s->watch[i]);
    }
    if (s->zap)
        zmq_close(s->zap);
    free(s->access);
    for (int i = 0; i < s->npaths; i++)
        unlink(s->path[i]);
    if (s->context)
        zmq_ctx_term(s->context);
    *s = (hb_sockets){0};
}
