#include "process/journal.h"
#include "process/machine.h"

#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>

#include "keys.h"
#include "process/access.h"
#include "process/state.h"

typedef struct check {
    const hb_config *c;
    hb_config_errors *errors;
} check;

#define COMPLAIN(k, key, ...) hb_config_error((k)->errors, (k)->c, (k)->c->mark[hb_config_find(key)], key, __VA_ARGS__)

/* ---- endpoints ---- */

/* One endpoint to bind, and what it comes to. */
typedef struct place {
    const char *key, *endpoint;
    char host[HB_ENDPOINT_SIZE]; /* tcp: the address that libzmq makes of it; empty: ipc */
    int port;                    /* tcp; 0: any that is free */
    dev_t device;                /* ipc: the folder, and the name in it */
    ino_t folder;
    const char *name;
} place;

static bool is_tcp(const char *endpoint)
{
    return strncmp(endpoint, "tcp://", 6) == 0;
}

/* 1 to 65535; 0 for a port that the system chooses ("*" or 0), -1 for none. */
static int port_of(const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');
    char *end;

    if (!colon || !colon[1])
        return -1;
    if (strcmp(colon + 1, "*") == 0)
        return 0;
    long port = strtol(colon + 1, &end, 10);
    return strspn(colon + 1, "0123456789") != strlen(colon + 1) || port > 65535 ? -1 : (int)port;
}

static void *probe(void *context)
{
    void *socket = zmq_socket(context, ZMQ_DEALER);

    if (socket) {
        zmq_setsockopt(socket, ZMQ_IPV6, &(int){1}, sizeof(int));
        zmq_setsockopt(socket, ZMQ_LINGER, &(int){0}, sizeof(int));
    }
    return socket;
}

/* The host of a tcp endpoint as libzmq understands it, found by binding a free port of it. */
static int find_host(void *context, const char *endpoint, char *ret, size_t size)
{
    char any[HB_ENDPOINT_SIZE + 2], bound[HB_ENDPOINT_SIZE] = "";
    void *socket = probe(context);
    size_t n = sizeof bound;
    int why = socket ? 0 : errno;

    snprintf(any, sizeof any, "%.*s:*", (int)(strrchr(endpoint, ':') - endpoint), endpoint);
    if (!why && (zmq_bind(socket, any) || zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound, &n)))
        why = errno;
    if (!why) {
        *strrchr(bound, ':') = 0;
        snprintf(ret, size, "%s", bound + strlen("tcp://"));
    }
    if (socket)
        zmq_close(socket);
    return why;
}

/* Ports below 1024 mostly need a privilege. Nobody can connect to what is bound and does not listen. */
static bool may_bind(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool denied = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) && errno == EACCES;

    if (fd >= 0)
        close(fd);
    return !denied;
}

/* libzmq lists the interfaces of the machine to bind one of their addresses, and aborts where it may not. */
static bool may_list_interfaces(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    bool denied = fd < 0 && (errno == EAFNOSUPPORT || errno == EPERM || errno == EACCES);

    if (fd >= 0)
        close(fd);
    return !denied;
}

static bool check_tcp(check *k, void *context, place *p)
{
    p->port = port_of(p->endpoint);
    if (p->port < 0 || strlen(p->endpoint) < strlen("tcp://x:1")) {
        COMPLAIN(k, p->key, "%s: expected tcp://ADDRESS:PORT with a port from 1 to 65535", p->endpoint);
        return false;
    }
    if (!may_list_interfaces()) {
        COMPLAIN(
            k, p->key,
            "%s: tcp needs netlink sockets, which are denied here: allow AF_NETLINK in RestrictAddressFamilies= of "
            "the unit, or use ipc",
            p->endpoint);
        return false;
    }
    int why = find_host(context, p->endpoint, p->host, sizeof p->host);
    if (why)
        COMPLAIN(k, p->key, "%s: %s (to bind, name an address or an interface of this machine, or *)", p->endpoint,
                 zmq_strerror(why));
    else if (p->port && !may_bind(p->port))
        COMPLAIN(k, p->key, "%s: ports below 1024 need CAP_NET_BIND_SERVICE", p->endpoint);
    return !why;
}

static bool check_ipc(check *k, place *p)
{
    const char *path = p->endpoint + strlen("ipc://"), *slash = strrchr(path, '/');
    char folder[HB_ENDPOINT_SIZE];
    struct stat info;

    p->name = slash ? slash + 1 : path;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1, slash ? path : ".");
    if (!*p->name || strcmp(path, "*") == 0)
        COMPLAIN(k, p->key, "%s: expected ipc:// and the path of a socket", p->endpoint);
    else if (stat(folder, &info))
        COMPLAIN(k, p->key, "%s: %s: %s%s", p->endpoint, folder, strerror(errno),
                 k->c->mark[hb_config_find(p->key)].line
                     ? ""
                     : " (systemd makes it; without it, make it, or name another one in sockets or RUNTIME_DIRECTORY)");
    else if (!S_ISDIR(info.st_mode))
        COMPLAIN(k, p->key, "%s: %s is not a folder", p->endpoint, folder);
    else if (access(folder, W_OK | X_OK))
        COMPLAIN(k, p->key, "%s: %s: %s", p->endpoint, folder, strerror(errno));
    else if (p->device = info.st_dev, p->folder = info.st_ino, stat(path, &info) == 0 && !S_ISSOCK(info.st_mode))
        COMPLAIN(k, p->key, "%s: there is something else than a socket: choose another name, or remove it",
                 p->endpoint);
    else
        return true;
    return false;
}

static bool any_host(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "[::]") == 0;
}

/* Whether two endpoints cannot be bound at once. */
static bool collide(const place *a, const place *b)
{
    if (is_tcp(a->endpoint) != is_tcp(b->endpoint))
        return false;
    if (is_tcp(a->endpoint))
        return a->port && a->port == b->port &&
               (strcmp(a->host, b->host) == 0 || any_host(a->host) || any_host(b->host));
    return a->device == b->device && a->folder == b->folder && strcmp(a->name, b->name) == 0;
}

static void check_binds(check *k, void *context, const hb_inherited *inherited)
{
    const hb_config *c = k->c;
    const struct {
        const char *key;
        const hb_endpoints *e;
    } all[] = {{"sockets.telemetry", &c->sockets.telemetry},
               {"sockets.actions", &c->sockets.actions},
               {"sockets.control", &c->sockets.control},
               {"sockets.status", &c->sockets.status}};
    place at[4 * HB_MAX_ENDPOINTS];
    int n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        /* a socket that was handed over takes the place of those configured */
        if (hb_inherited_find(inherited, all[i].key + strlen("sockets.")) >= 0)
            continue;
        for (int j = 0; j < all[i].e->n; j++) {
            place *p = &at[n];
            *p = (place){.key = all[i].key, .endpoint = all[i].e->at[j]};
            if (!(is_tcp(p->endpoint) ? check_tcp(k, context, p) : check_ipc(k, p)))
                continue;
            for (int before = 0; before < n; before++)
                if (collide(&at[before], p)) {
                    COMPLAIN(k, p->key, "%s: %s has %s already", p->endpoint, at[before].key, at[before].endpoint);
                    break;
                }
            n++;
        }
    }
}

static void check_connects(check *k, void *context)
{
    const hb_endpoints *e = &k->c->sockets.telemetry_connect;

    for (int i = 0; i < e->n; i++) {
        void *socket = probe(context);
        if (is_tcp(e->at[i]) && port_of(e->at[i]) < 1)
            COMPLAIN(k, "sockets.telemetry_connect", "%s: expected tcp://HOST:PORT with a port from 1 to 65535",
                     e->at[i]);
        else if (socket && zmq_connect(socket, e->at[i]))
            COMPLAIN(k, "sockets.telemetry_connect", "%s: %s", e->at[i], zmq_strerror(errno));
        if (socket)
            zmq_close(socket);
    }
}

static void check_sockets(check *k, const hb_inherited *inherited)
{
    void *context = zmq_ctx_new();

    if (!context) {
        hb_config_error(k->errors, k->c, (hb_mark){0}, NULL, "ZeroMQ: %s", zmq_strerror(errno));
        return;
    }
    check_binds(k, context, inherited);
    check_connects(k, context);
    zmq_ctx_term(context);
}

/* ---- files ---- */

static void check_secret_key(check *k, const char *key, const char *path)
{
    char value[HB_KEY_SIZE], text[HB_CONFIG_PATH_SIZE + 128];

    if (hb_key_read(path, true, value, text, sizeof text))
        COMPLAIN(k, key, "%s", text);
    explicit_bzero(value, sizeof value);
}

static void check_files(check *k, const hb_model *m)
{
    const hb_config *c = k->c;
    hb_error err;

    if (*c->security.server_key)
        check_secret_key(k, "security.server_key", c->security.server_key);
    if (*c->security.pilot_key && !*c->security.server_key)
        COMPLAIN(k, "security.pilot_key", "without security.server_key nobody is told by a key");
    if (*c->security.authorized_keys && !*c->security.server_key)
        COMPLAIN(k, "security.authorized_keys", "without security.server_key nobody is told by a key");
    hb_access *access = malloc(sizeof *access);
    if (*c->security.server_key && access && hb_access_read(access, c, &err))
        hb_config_error_of(k->errors, c, &err);
    free(access);
    if (hb_journal_check(c, &err))
        hb_config_error_of(k->errors, c, &err);
    if (*c->state_file && hb_state_check(c->state_file, hb_estimator_memory_size(m, &c->controller.estimator), &err))
        hb_config_error_of(k->errors, c, &err);
}

/* ---- memory ---- */

static void check_memory(check *k, const hb_model *m)
{
    const hb_controller_settings *s = &k->c->controller;
    const int limits[] = {RLIMIT_AS, RLIMIT_DATA};
    double planner = 2 * hb_planner_memory(m, &s->planner, k->c->threads); /* the pilot's and the guests' */
    double estimator = hb_estimator_memory(m, &s->estimator);
    double all = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    struct rlimit limit;

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (getrlimit((__rlimit_resource_t)limits[i], &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
            (double)limit.rlim_cur < all)
            all = (double)limit.rlim_cur;
    if (planner + estimator <= all / 2)
        return;
    if (planner > estimator)
        COMPLAIN(k, "planner.samples",
                 "%d samples of %d steps with %d threads take about %.0f MB, more than half of this machine's %.0f MB",
                 s->planner.samples, s->planner.horizon, k->c->threads, planner / 1e6, all / 1e6);
    else
        COMPLAIN(k, "estimator.window",
                 "a window of %g s takes about %.0f MB, more than half of this machine's %.0f MB", s->estimator.window,
                 estimator / 1e6, all / 1e6);
}

int hb_machine_check(const hb_config *c, const hb_model *m, const hb_inherited *inherited, hb_config_errors *errors)
{
    check k = {c, errors};

    check_sockets(&k, inherited);
    check_files(&k, m);
    check_memory(&k, m);
    return errors->n;
}
