#include "view/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>
#include <libwebsockets.h>

#include "view/files.h"
#include "view/foxglove.h"

enum {
    QUEUE = 1024,          /* messages that may wait for a client, */
    QUEUE_BYTES = 8 << 20, /* and their bytes: a minute of the past is one of them */
    QUESTION = 4096,       /* bytes of the largest message that a client may send */
    SUBSCRIBE = 65536,     /* and a Foxglove client, which names many channels */
    SUBSCRIPTIONS = 1024,  /* of a Foxglove client */
    CLIENTS = 64,          /* at once */
    MOST_STATES = 64,      /* of a target that a page sets */
    PIECE = 16384,         /* of a file, at a time */
    TICK_US = 20 * 1000,   /* between two looks at the vehicles */
};

static const double fleet_every = 0.5; /* seconds */

/* A message that several clients may wait for. */
typedef struct message {
    int refs;
    bool binary;
    size_t size;
    uint8_t *data; /* behind LWS_PRE bytes */
} message;

typedef struct subscription {
    uint32_t id;
    int channel;
} subscription;

typedef struct client {
    struct lws *wsi;
    uint64_t number;            /* tells clients apart, also those that are gone */
    bool own_page;              /* it is the page that we serve, and no other's, nor a program */
    bool foxglove;              /* speaks that protocol, not the page's */
    subscription *subscription; /* of a Foxglove client */
    int nsubscriptions;
    char *question; /* of a Foxglove client, as far as it has come */
    size_t nquestion;
    int watching; /* a vehicle; -1: none */
    message *queue[QUEUE];
    int first, n;
    size_t bytes;
    bool late; /* to be dropped */
    struct client *next;
} client;

/* A page or file under way. */
typedef struct download {
    const uint8_t *data;
    uint8_t *own; /* to be freed, or NULL */
    size_t size, sent;
} download;

struct hb_view_web {
    const hb_view_settings *settings;
    hb_view_fleet *fleet;
    const hb_view_recording *recording;
    int nrecordings;
    struct lws_context *context;
    struct lws_vhost *host;
    lws_sorted_usec_list_t timer;
    client *clients;
    int nclients;
    uint64_t came; /* clients, ever */
    uint64_t dropped;
    double fleet_sent;
    message *fleet_message; /* the newest */
};

static double now_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- messages to clients ---- */

static void release(message *m)
{
    if (m && --m->refs == 0) {
        free(m->data);
        free(m);
    }
}

/* A text that is written like a file, with room in front of it for the protocol. */
typedef struct draft {
    char *text;
    size_t size;
    FILE *out;
} draft;

static FILE *draft_begin(draft *d)
{
    static const char room[LWS_PRE];

    *d = (draft){0};
    d->out = open_memstream(&d->text, &d->size);
    if (d->out)
        fwrite(room, 1, sizeof room, d->out);
    return d->out;
}

/* The caller's reference; NULL: memory was short. */
static message *draft_end(draft *d)
{
    message *m = d->out && fclose(d->out) == 0 ? malloc(sizeof *m) : NULL;

    if (m)
        *m = (message){.refs = 1, .size = d->size - LWS_PRE, .data = (uint8_t *)d->text};
    else
        free(d->text);
    return m;
}

static void enqueue(client *c, message *m)
{
    if (!m || c->late)
        return;
    if (c->n == QUEUE || c->bytes + m->size > QUEUE_BYTES) {
        c->late = true;
    } else {
        c->queue[(c->first + c->n++) % QUEUE] = m;
        c->bytes += m->size;
        m->refs++;
    }
    lws_callback_on_writable(c->wsi);
}

static void empty(client *c)
{
    for (; c->n; c->n--, c->first = (c->first + 1) % QUEUE)
        release(c->queue[c->first]);
}

/* Sends the next; -1: the connection is to be closed. */
static int send_next(hb_view_web *w, client *c)
{
    if (c->late) {
        w->dropped++;
        return -1;
    }
    if (!c->n)
        return 0;
    message *m = c->queue[c->first];
    int sent = lws_write(c->wsi, m->data + LWS_PRE, m->size, m->binary ? LWS_WRITE_BINARY : LWS_WRITE_TEXT);
    c->first = (c->first + 1) % QUEUE;
    c->n--;
    c->bytes -= m->size;
    bool whole = sent >= (int)m->size;
    release(m);
    if (c->n)
        lws_callback_on_writable(c->wsi);
    return whole ? 0 : -1;
}

/* ---- news of vehicles ---- */

typedef void writer(const hb_view_vehicle *v, FILE *out);

/* To one client, or to all that watch the vehicle. */
static void tell(hb_view_web *w, client *only, const hb_view_vehicle *v, writer *write)
{
    draft d;
    bool anyone = only != NULL;

    for (const client *c = w->clients; c && !anyone; c = c->next)
        anyone = c->watching == v->id;
    if (!anyone || !draft_begin(&d))
        return;
    write(v, d.out);
    message *m = draft_end(&d);
    for (client *c = w->clients; c; c = c->next)
        if (only ? c == only : c->watching == v->id)
            enqueue(c, m);
    release(m);
}

static void tell_fleet(hb_view_web *w, double now)
{
    draft d;

    if (now - w->fleet_sent < fleet_every)
        return;
    w->fleet_sent = now;
    if (!w->clients || !draft_begin(&d))
        return;
    hb_view_fleet_write(w->fleet, now, d.out);
    message *m = draft_end(&d);
    for (client *c = w->clients; c; c = c->next)
        if (!c->foxglove)
            enqueue(c, m);
    release(m);
}

/* ---- news for Foxglove ---- */

static void put_little_endian(FILE *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        fputc((int)(value >> (8 * i) & 255), out);
}

/* A message of a subscribed channel: its kind, the client's number of the subscription, the time, the content. */
static void tell_subscription(client *c, const subscription *s, const hb_view_vehicle *v)
{
    draft d;

    if (!draft_begin(&d))
        return;
    fputc(1, d.out);
    put_little_endian(d.out, s->id, 4);
    put_little_endian(d.out, (uint64_t)(1e9 * v->time), 8);
    bool any = hb_foxglove_write(v, s->channel, d.out);
    message *m = draft_end(&d);
    if (m)
        m->binary = true;
    if (any)
        enqueue(c, m);
    release(m);
}

static void tell_foxglove(hb_view_web *w, const hb_view_vehicle *v)
{
    for (client *c = w->clients; c; c = c->next)
        for (int i = 0; i < c->nsubscriptions; i++)
            if ((c->subscription[i].channel - 1) / HB_FOXGLOVE_CHANNELS == v->id)
                tell_subscription(c, &c->subscription[i], v);
}

static void tell_channels(client *c, const hb_view_vehicle *v, void (*write)(const hb_view_vehicle *v, FILE *out))
{
    draft d;

    if (!draft_begin(&d))
        return;
    write(v, d.out);
    message *m = draft_end(&d);
    enqueue(c, m);
    release(m);
}

/* A model became known, or another: signals have other names then. */
static void announce(hb_view_web *w, const hb_view_vehicle *v)
{
    for (client *c = w->clients; c; c = c->next)
        if (c->foxglove) {
            tell_channels(c, v, hb_foxglove_unadvertise);
            tell_channels(c, v, hb_foxglove_advertise);
        }
}

/* What became of something that a page asked for. */
static void tell_answer(hb_view_web *w, uint64_t who, int vehicle, bool ok, const char *error)
{
    json_t *answer =
        json_pack("{s:{s:i, s:b, s:s%}}", "answer", "vehicle", vehicle, "ok", ok, "error", error, strlen(error));
    draft d;

    if (answer && draft_begin(&d)) {
        json_dumpf(answer, d.out, JSON_COMPACT);
        message *m = draft_end(&d);
        for (client *c = w->clients; c; c = c->next)
            if (c->number == who)
                enqueue(c, m);
        release(m);
    }
    json_decref(answer);
}

static void look_after_vehicles(hb_view_web *w)
{
    double now = now_seconds();

    hb_view_fleet_search(w->fleet, now);
    for (int i = 0; i < w->fleet->n; i++) {
        hb_view_vehicle *v = w->fleet->vehicle[i];
        hb_view_news news;
        /* a daemon that publishes faster than we read must not keep us here */
        for (int k = 0; k < 32 && (news = hb_view_vehicle_poll(v, now)) != HB_VIEW_NOTHING; k++) {
            if (news == HB_VIEW_ANSWER) {
                tell_answer(w, v->answer.who, v->id, v->answer.ok, v->answer.error);
                continue;
            }
            tell(w, NULL, v,
                 news == HB_VIEW_STATUS  ? hb_view_write_status
                 : news == HB_VIEW_MODEL ? hb_view_write_model
                                         : hb_view_write_settings);
            if (news == HB_VIEW_STATUS)
                tell_foxglove(w, v);
            else if (news == HB_VIEW_MODEL)
                announce(w, v);
        }
    }
    tell_fleet(w, now);
}

static void tick(lws_sorted_usec_list_t *timer)
{
    hb_view_web *w = lws_container_of(timer, hb_view_web, timer);

    look_after_vehicles(w);
    lws_sul_schedule(w->context, 0, &w->timer, tick, TICK_US);
}

/* ---- questions of pages ---- */

/* {"watch": ID}: from now on that vehicle's news, and first what is known of it. {"watch": null}: none. */
static void watch(hb_view_web *w, client *c, const json_t *id)
{
    json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;

    c->watching = i >= 0 && i < w->fleet->n ? (int)i : -1;
    if (c->watching < 0)
        return;
    const hb_view_vehicle *v = w->fleet->vehicle[c->watching];
    if (v->model)
        tell(w, c, v, hb_view_write_model);
    if (v->settings)
        tell(w, c, v, hb_view_write_settings);
    if (v->npast)
        tell(w, c, v, hb_view_write_past);
}

/* {"change": {"vehicle": ID, "target": [...]}}, or with "key" and "value" (and "seconds"), "reset": true or "reload":
 * true. The daemon has the last word, and logs it with our key. */
static void change(hb_view_web *w, client *c, const json_t *what)
{
    Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
    Hilbert__V1__Nothing nothing = HILBERT__V1__NOTHING__INIT;
    Hilbert__V1__Target target = HILBERT__V1__TARGET__INIT;
    Hilbert__V1__Setting setting = HILBERT__V1__SETTING__INIT;
    const json_t *id = json_object_get(what, "vehicle"), *state = json_object_get(what, "target");
    const char *key = json_string_value(json_object_get(what, "key")),
               *value = json_string_value(json_object_get(what, "value"));
    json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    double number[MOST_STATES];
    const char *why = NULL;

    if (i < 0 || i >= w->fleet->n)
        return;
    if (!w->settings->control)
        why = "hilbert-view only looks on: it was started without --control";
    else if (!c->own_page)
        why = "only the page that hilbert-view serves may change something";
    else if (json_is_array(state) && json_array_size(state) <= MOST_STATES) {
        for (size_t k = 0; k < json_array_size(state); k++) {
            if (!json_is_number(json_array_get(state, k)))
                why = "a target is a list of numbers";
            number[k] = json_number_value(json_array_get(state, k));
        }
        target.state = number;
        target.n_state = json_array_size(state);
        request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_SET_TARGET;
        request.set_target = &target;
    } else if (key && value) {
        setting.key = (char *)(uintptr_t)key;
        setting.value = (char *)(uintptr_t)value;
        setting.seconds = json_number_value(json_object_get(what, "seconds"));
        request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_SET;
        request.set = &setting;
    } else if (json_is_true(json_object_get(what, "reset"))) {
        request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_RESET_WINDOW;
        request.reset_window = &nothing;
    } else if (json_is_true(json_object_get(what, "reload"))) {
        request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_RELOAD;
        request.reload = &nothing;
    } else
        why = "nothing that can be changed is named";
    if (!why)
        why = hb_view_vehicle_ask(w->fleet->vehicle[i], &request, c->number, now_seconds());
    if (why)
        tell_answer(w, c->number, (int)i, false, why);
}

/* False: it is none of ours. */
static bool hear(hb_view_web *w, client *c, const char *text, size_t size)
{
    json_t *question = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    const json_t *what = json_object_get(question, "watch"), *changed = json_object_get(question, "change");

    if (what)
        watch(w, c, what);
    if (changed)
        change(w, c, changed);
    json_decref(question);
    return what || changed;
}

static void subscribe(client *c, const json_t *list)
{
    size_t i;
    json_t *one;

    json_array_foreach(list, i, one)
    {
        const json_t *id = json_object_get(one, "id"), *channel = json_object_get(one, "channelId");
        json_int_t n = json_integer_value(channel), most = HB_VIEW_VEHICLES * HB_FOXGLOVE_CHANNELS;
        if (!json_is_integer(id) || n < 1 || n > most || c->nsubscriptions == SUBSCRIPTIONS)
            continue;
        c->subscription[c->nsubscriptions++] = (subscription){(uint32_t)json_integer_value(id), (int)n};
    }
}

static void unsubscribe(client *c, const json_t *ids)
{
    size_t i;
    json_t *id;

    json_array_foreach(ids, i, id)
    {
        for (int k = 0; k < c->nsubscriptions; k++)
            if (c->subscription[k].id == (uint32_t)json_integer_value(id))
                c->subscription[k--] = c->subscription[--c->nsubscriptions];
    }
}

/* What else a Foxglove client may ask for is not offered, and ignored. False: it is no JSON. */
static bool hear_foxglove(hb_view_web *w, client *c)
{
    json_t *question = json_loadb(c->question, c->nquestion, 0, NULL);
    const char *op = json_string_value(json_object_get(question, "op"));
    bool good = op != NULL;

    c->nquestion = 0;
    if (op && strcmp(op, "subscribe") == 0) {
        int before = c->nsubscriptions;
        subscribe(c, json_object_get(question, "subscriptions"));
        /* what is known at once: the next status may be long in coming */
        for (int i = before; i < c->nsubscriptions; i++) {
            int vehicle = (c->subscription[i].channel - 1) / HB_FOXGLOVE_CHANNELS;
            if (vehicle < w->fleet->n && w->fleet->vehicle[vehicle]->newest)
                tell_subscription(c, &c->subscription[i], w->fleet->vehicle[vehicle]);
        }
    } else if (op && strcmp(op, "unsubscribe") == 0)
        unsubscribe(c, json_object_get(question, "subscriptionIds"));
    json_decref(question);
    return good;
}

static void greet_foxglove(hb_view_web *w, client *c)
{
    draft d;

    if (!draft_begin(&d))
        return;
    hb_foxglove_write_info(d.out, HB_VERSION);
    message *m = draft_end(&d);
    enqueue(c, m);
    release(m);
    for (int i = 0; i < w->fleet->n; i++)
        if (w->fleet->vehicle[i]->model)
            tell_channels(c, w->fleet->vehicle[i], hb_foxglove_advertise);
}

static void greet(hb_view_web *w, client *c)
{
    draft d;
    json_t *recordings = json_array();

    for (int i = 0; i < w->nrecordings; i++)
        json_array_append_new(recordings, json_string(w->recording[i].name));
    json_t *hello = json_pack("{s:{s:s, s:o, s:b}}", "hello", "version", HB_VERSION, "recordings", recordings,
                              "control", w->settings->control);
    if (hello && draft_begin(&d)) {
        json_dumpf(hello, d.out, JSON_COMPACT);
        message *m = draft_end(&d);
        enqueue(c, m);
        release(m);
    }
    json_decref(hello);
    w->fleet_sent = 0; /* at once, to all */
}

/* ---- who may connect ---- */

static bool header(struct lws *wsi, enum lws_token_indexes which, char *text, int size)
{
    *text = 0;
    return lws_hdr_total_length(wsi, which) > 0 && lws_hdr_copy(wsi, text, size, which) > 0;
}

/* The name by which we were asked for must be ours: else a page of somebody else had its own name resolve to us. */
static bool own_host(const hb_view_web *w, const char *host)
{
    const char *const name[] = {"127.0.0.1", "localhost", "[::1]", w->settings->address};
    char expected[300];

    if (strcmp(w->settings->address, "0.0.0.0") == 0 || strcmp(w->settings->address, "::") == 0)
        return true; /* all of this machine's names, which we do not know */
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        snprintf(expected, sizeof expected, "%s:%d", name[i], hb_view_web_port(w));
        if (strcmp(host, expected) == 0 || (strcmp(host, name[i]) == 0 && w->settings->port == 80))
            return true;
    }
    return false;
}

static bool may_ask(const hb_view_web *w, struct lws *wsi)
{
    char host[256];

    return header(wsi, WSI_TOKEN_HOST, host, sizeof host) && own_host(w, host);
}

/* Whether it is our own page that connects, by what its browser says. */
static bool is_own_page(const hb_view_web *w, struct lws *wsi)
{
    char host[256], origin[256], own[300];

    if (!header(wsi, WSI_TOKEN_HOST, host, sizeof host) || !header(wsi, WSI_TOKEN_ORIGIN, origin, sizeof origin))
        return false;
    snprintf(own, sizeof own, "%s://%s", w->settings->certificate ? "https" : "http", host);
    return strcmp(origin, own) == 0;
}

/* A browser names the page that connects: ours, or one that was allowed. Programs name none. */
static bool may_connect(const hb_view_web *w, struct lws *wsi)
{
    char host[256], origin[256];

    if (!header(wsi, WSI_TOKEN_HOST, host, sizeof host) || !own_host(w, host))
        return false;
    if (lws_hdr_total_length(wsi, WSI_TOKEN_ORIGIN) == 0 || is_own_page(w, wsi))
        return true;
    if (!header(wsi, WSI_TOKEN_ORIGIN, origin, sizeof origin))
        return false;
    for (int i = 0; i < w->settings->norigins; i++)
        if (strcmp(origin, w->settings->origin[i]) == 0)
            return true;
    return false;
}

/* ---- WebSockets ---- */

static void join(hb_view_web *w, client *c, struct lws *wsi)
{
    *c = (client){.wsi = wsi, .number = ++w->came, .own_page = is_own_page(w, wsi), .watching = -1, .next = w->clients};
    w->clients = c;
    w->nclients++;
}

static void leave(hb_view_web *w, client *c)
{
    client **link = &w->clients;

    while (*link && *link != c)
        link = &(*link)->next;
    if (*link) {
        *link = c->next;
        w->nclients--;
    }
    empty(c);
    free(c->subscription);
    free(c->question);
    c->subscription = NULL;
    c->question = NULL;
}

static bool whole_message(struct lws *wsi, size_t size, size_t most)
{
    return lws_is_first_fragment(wsi) && lws_is_final_fragment(wsi) && size <= most;
}

static int on_page(struct lws *wsi, enum lws_callback_reasons reason, void *session, void *in, size_t size)
{
    hb_view_web *w = lws_context_user(lws_get_context(wsi));
    client *c = session;

    switch (reason) {
    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
        return may_connect(w, wsi) && w->nclients < CLIENTS ? 0 : -1;
    case LWS_CALLBACK_ESTABLISHED:
        join(w, c, wsi);
        greet(w, c);
        return 0;
    case LWS_CALLBACK_CLOSED:
        leave(w, c);
        return 0;
    case LWS_CALLBACK_RECEIVE:
        return whole_message(wsi, size, QUESTION) && hear(w, c, in, size) ? 0 : -1;
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return send_next(w, c);
    default:
        return 0;
    }
}

/* Long messages come in pieces. False: it is longer than any may be. */
static bool gather(struct lws *wsi, client *c, const void *piece, size_t size)
{
    if (lws_is_first_fragment(wsi))
        c->nquestion = 0;
    if (!c->question || c->nquestion + size > SUBSCRIBE)
        return false;
    memcpy(c->question + c->nquestion, piece, size);
    c->nquestion += size;
    return true;
}

static int on_foxglove(struct lws *wsi, enum lws_callback_reasons reason, void *session, void *in, size_t size)
{
    hb_view_web *w = lws_context_user(lws_get_context(wsi));
    client *c = session;

    switch (reason) {
    case LWS_CALLBACK_ESTABLISHED:
        join(w, c, wsi);
        c->foxglove = true;
        c->subscription = calloc(SUBSCRIPTIONS, sizeof *c->subscription);
        c->question = malloc(SUBSCRIBE);
        if (!c->subscription || !c->question)
            return -1;
        greet_foxglove(w, c);
        return 0;
    case LWS_CALLBACK_RECEIVE:
        if (lws_frame_is_binary(wsi))
            return 0; /* messages that a client publishes: nobody listens */
        return gather(wsi, c, in, size) && (!lws_is_final_fragment(wsi) || hear_foxglove(w, c)) ? 0 : -1;
    default:
        return on_page(wsi, reason, session, in, size);
    }
}

/* ---- files ---- */

static int refuse(struct lws *wsi, unsigned status)
{
    lws_return_http_status(wsi, status, NULL);
    return -1;
}

/* Begins an answer; data stay the caller's unless `own` has them. */
static int begin_download(struct lws *wsi, download *d, const char *type, const void *data, void *own, size_t size)
{
    uint8_t buffer[LWS_PRE + 2048], *start = buffer + LWS_PRE, *p = start, *end = buffer + sizeof buffer - 1;
    static const struct {
        const char *name, *value;
    } headers[] = {
        {"cache-control:", "no-cache"},
        {"x-content-type-options:", "nosniff"},
        {"referrer-policy:", "no-referrer"},
        {"x-frame-options:", "DENY"},
        {"content-security-policy:",
         "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
         "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    };

    free(d->own);
    *d = (download){.data = data, .own = own, .size = size};
    bool failed = lws_add_http_common_headers(wsi, HTTP_STATUS_OK, type, size, &p, end);
    for (size_t i = 0; i < sizeof headers / sizeof *headers && !failed; i++)
        failed = lws_add_http_header_by_name(wsi, (const unsigned char *)headers[i].name,
                                             (const unsigned char *)headers[i].value, (int)strlen(headers[i].value), &p,
                                             end);
    if (failed || lws_finalize_write_http_header(wsi, start, &p, end))
        return -1;
    lws_callback_on_writable(wsi);
    return 0;
}

static int go_on(struct lws *wsi, download *d)
{
    uint8_t buffer[LWS_PRE + PIECE];
    size_t n = d->size - d->sent < PIECE ? d->size - d->sent : PIECE;
    bool last = d->sent + n == d->size;

    memcpy(buffer + LWS_PRE, d->data + d->sent, n);
    if (lws_write(wsi, buffer + LWS_PRE, n, last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) < (int)n)
        return -1;
    d->sent += n;
    if (!last)
        lws_callback_on_writable(wsi);
    else if (lws_http_transaction_completed(wsi))
        return -1;
    return 0;
}

static int serve_metrics(const hb_view_web *w, struct lws *wsi, download *d)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    if (!out)
        return refuse(wsi, HTTP_STATUS_INTERNAL_SERVER_ERROR);
    hb_view_fleet_metrics(w->fleet, now_seconds(), (uint64_t)w->nclients, w->dropped, out);
    if (fclose(out)) {
        free(text);
        return refuse(wsi, HTTP_STATUS_INTERNAL_SERVER_ERROR);
    }
    return begin_download(wsi, d, "text/plain; version=0.0.4; charset=utf-8", text, text, n);
}

static int serve(const hb_view_web *w, struct lws *wsi, download *d, const char *path)
{
    int i, end = 0;

    if (!may_ask(w, wsi))
        return refuse(wsi, HTTP_STATUS_FORBIDDEN);
    if (!lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI))
        return refuse(wsi, HTTP_STATUS_METHOD_NOT_ALLOWED);
    if (strcmp(path, "/metrics") == 0)
        return serve_metrics(w, wsi, d);
    if (sscanf(path, "/flight/%2d.json%n", &i, &end) == 1 && end && !path[end] && i >= 0 && i < w->nrecordings)
        return begin_download(wsi, d, "application/json", w->recording[i].json, NULL, w->recording[i].size);
    for (const hb_view_file *f = hb_view_files; f->path; f++)
        if (strcmp(path, f->path) == 0)
            return begin_download(wsi, d, f->type, f->data, NULL, *f->size);
    return refuse(wsi, HTTP_STATUS_NOT_FOUND);
}

static int on_http(struct lws *wsi, enum lws_callback_reasons reason, void *session, void *in, size_t size)
{
    const hb_view_web *w = lws_context_user(lws_get_context(wsi));
    download *d = session;

    switch (reason) {
    case LWS_CALLBACK_HTTP:
        return serve(w, wsi, d, in);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return d && d->data ? go_on(wsi, d) : 0;
    case LWS_CALLBACK_HTTP_BODY:
        return -1;
    case LWS_CALLBACK_CLOSED_HTTP:
    case LWS_CALLBACK_HTTP_DROP_PROTOCOL:
        if (d) {
            free(d->own);
            *d = (download){0};
        }
        return lws_callback_http_dummy(wsi, reason, session, in, size);
    default:
        return lws_callback_http_dummy(wsi, reason, session, in, size);
    }
}

/* ---- the server ---- */

static const struct lws_protocols protocols[] = {
    {.name = "http", .callback = on_http, .per_session_data_size = sizeof(download)},
    {.name = "hilbert.view.v1",
     .callback = on_page,
     .per_session_data_size = sizeof(client),
     .rx_buffer_size = QUESTION},
    /* the client's choice; they differ in nothing that is used here */
    {.name = "foxglove.sdk.v1",
     .callback = on_foxglove,
     .per_session_data_size = sizeof(client),
     .rx_buffer_size = QUESTION},
    {.name = "foxglove.websocket.v1",
     .callback = on_foxglove,
     .per_session_data_size = sizeof(client),
     .rx_buffer_size = QUESTION},
    {0}};

static void print_trouble(int level, const char *line)
{
    (void)level;
    fprintf(stderr, "hilbert-view: %s", line);
}

hb_view_web *hb_view_web_new(const hb_view_settings *s, hb_view_fleet *fleet, const hb_view_recording *recording,
                             int nrecordings)
{
    hb_view_web *w = calloc(1, sizeof *w);
    struct lws_context_creation_info info = {
        .port = s->port,
        .iface = s->address,
        .protocols = protocols,
        .options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS | LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND |
                   LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS | (s->certificate ? LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT : 0),
        .ssl_cert_filepath = s->certificate,
        .ssl_private_key_filepath = s->certificate_key,
        .gid = -1,
        .uid = -1,
        .user = w,
    };

    if (!w) {
        fprintf(stderr, "hilbert-view: out of memory\n");
        return NULL;
    }
    lws_set_log_level(LLL_ERR, print_trouble);
    *w = (hb_view_web){.settings = s, .fleet = fleet, .recording = recording, .nrecordings = nrecordings};
    w->context = lws_create_context(&info);
    w->host = w->context ? lws_create_vhost(w->context, &info) : NULL;
    if (!w->host || hb_view_web_port(w) <= 0) {
        fprintf(stderr,
                "hilbert-view: cannot listen on %s, port %d: is it in use, or no address of this machine? "
                "(--address, --port)\n",
                s->address, s->port);
        hb_view_web_free(w);
        return NULL;
    }
    lws_sul_schedule(w->context, 0, &w->timer, tick, TICK_US);
    return w;
}

void hb_view_web_free(hb_view_web *w)
{
    if (!w)
        return;
    if (w->context)
        lws_context_destroy(w->context);
    free(w);
}

int hb_view_web_port(const hb_view_web *w)
{
    return lws_get_vhost_listen_port(w->host);
}

void hb_view_web_turn(hb_view_web *w)
{
    lws_service(w->context, 0);
}
