#include "view/vehicle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "json.h"
#include "keys.h"

static const char topic[] = "hilbert.v1.Status";
static const double shortest_silence = 1.2; /* seconds without a status before a daemon counts as gone */
static const double past_apart = 0.2;       /* seconds between statuses that are kept */
static const double ask_again = 1;          /* seconds */
static const double settings_hold = 10;     /* seconds before settings are asked for again, whatever others do */
static const double patience = 5;           /* seconds, for the answer to a page's question */

/* ---- connecting ---- */

static void *open_socket(void *context, int type, const char *endpoint, const hb_view_keys *keys, char *why,
                         size_t size)
{
    void *socket = zmq_socket(context, type);
    int zero = 0, few = 64;

    if (!socket) {
        snprintf(why, size, "ZeroMQ: %s", zmq_strerror(zmq_errno()));
        return NULL;
    }
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &few, sizeof few);
    zmq_setsockopt(socket, ZMQ_SNDHWM, &few, sizeof few);
    if (type == ZMQ_SUB)
        zmq_setsockopt(socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
    if (keys->server && hb_keys_use(socket, keys->server, keys->client, why, size)) {
        zmq_close(socket);
        return NULL;
    }
    if (zmq_connect(socket, endpoint)) {
        snprintf(why, size, "%s: %s", endpoint, zmq_strerror(zmq_errno()));
        zmq_close(socket);
        return NULL;
    }
    return socket;
}

/* Endpoints of a place; false when it is none. */
static bool place_vehicle(hb_view_vehicle *v, const char *place)
{
    const char *comma = strchr(place, ',');

    snprintf(v->where, sizeof v->where, "%s", place);
    if (strncmp(place, "tcp://", 6) == 0) {
        if (!comma || strncmp(comma + 1, "tcp://", 6))
            return false;
        snprintf(v->control, sizeof v->control, "%.*s", (int)(comma - place), place);
        snprintf(v->status, sizeof v->status, "%s", comma + 1);
        snprintf(v->name, sizeof v->name, "%.60s", v->control + 6);
        return true;
    }
    const char *folder = strncmp(place, "ipc://", 6) == 0 ? place + 6 : place, *last = strrchr(folder, '/');
    if (strlen(folder) > 200)
        return false;
    snprintf(v->control, sizeof v->control, "ipc://%s/control", folder);
    snprintf(v->status, sizeof v->status, "ipc://%s/status", folder);
    snprintf(v->name, sizeof v->name, "%.60s", last && last[1] ? last + 1 : folder);
    return true;
}

hb_view_vehicle *hb_view_vehicle_new(void *context, int id, const char *place, const hb_view_keys *keys, char *why,
                                     size_t size)
{
    const hb_view_keys none = {0};
    hb_view_vehicle *v = calloc(1, sizeof *v);

    if (!v) {
        snprintf(why, size, "out of memory");
        return NULL;
    }
    v->id = id;
    if (!place_vehicle(v, place)) {
        snprintf(why, size,
                 "'%.200s': expected a folder, or tcp://HOST:PORT of the control socket, a comma, and that "
                 "of the status socket",
                 place);
        free(v);
        return NULL;
    }
    const hb_view_keys *own = strncmp(place, "tcp://", 6) == 0 ? keys : &none;
    v->keyed = own->client != NULL;
    v->publisher = open_socket(context, ZMQ_SUB, v->status, own, why, size);
    v->asker = v->publisher ? open_socket(context, ZMQ_DEALER, v->control, own, why, size) : NULL;
    if (!v->asker) {
        hb_view_vehicle_free(v);
        return NULL;
    }
    return v;
}

void hb_view_vehicle_free(hb_view_vehicle *v)
{
    if (!v)
        return;
    if (v->publisher)
        zmq_close(v->publisher);
    if (v->asker)
        zmq_close(v->asker);
    hilbert__v1__status__free_unpacked(v->newest, NULL);
    hilbert__v1__model_info__free_unpacked(v->model, NULL);
    free(v->settings);
    for (int i = 0; i < HB_VIEW_PAST; i++)
        free(v->past[i].data);
    free(v);
}

/* ---- what comes in ---- */

static void keep(hb_view_vehicle *v, const void *data, size_t size)
{
    const hb_view_moment *last = &v->past[(v->first + v->npast - 1 + HB_VIEW_PAST) % HB_VIEW_PAST];
    uint8_t *copy;

    if (v->npast && v->time > last->time && v->time - last->time < past_apart)
        return;
    if (!(copy = malloc(size ? size : 1)))
        return;
    memcpy(copy, data, size);
    if (v->npast == HB_VIEW_PAST) {
        free(v->past[v->first].data);
        v->first = (v->first + 1) % HB_VIEW_PAST;
        v->npast--;
    }
    v->past[(v->first + v->npast++) % HB_VIEW_PAST] = (hb_view_moment){v->time, copy, size};
}

/* What the newest status has that the one before had not. */
static void note_change(hb_view_vehicle *v, const Hilbert__V1__Status *s, double now)
{
    const Hilbert__V1__Status *before = v->newest;
    char word[32];

    if (!before)
        return;
    if (s->uptime < before->uptime)
        snprintf(v->change, sizeof v->change, "started again");
    else if (s->health->changes > before->health->changes)
        snprintf(v->change, sizeof v->change, "the dynamics changed");
    else if (s->health->fault != before->health->fault)
        snprintf(v->change, sizeof v->change, "telemetry: %s",
                 hb_json_word(&hilbert__v1__reason__descriptor, (int)s->health->fault, word, sizeof word));
    else if (s->health->status != before->health->status)
        snprintf(v->change, sizeof v->change, "estimate: %s",
                 hb_json_word(&hilbert__v1__estimate_status__descriptor, (int)s->health->status, word, sizeof word));
    else if (s->last_status != before->last_status)
        snprintf(v->change, sizeof v->change, "actions: %s",
                 hb_json_word(&hilbert__v1__action_status__descriptor, (int)s->last_status, word, sizeof word));
    else
        return;
    v->changed = now;
}

/* Parts without which nothing can be shown: a daemon of another version may not send them. */
static bool whole(const Hilbert__V1__Status *s)
{
    return s->health && s->total && s->queue && s->planning && s->replies && s->refused && s->set_aside && s->counters;
}

static hb_view_news take_status(hb_view_vehicle *v, const void *data, size_t size, const char *seconds, double now)
{
    Hilbert__V1__Status *s = hilbert__v1__status__unpack(NULL, size, data);

    if (!s || !whole(s)) {
        hilbert__v1__status__free_unpacked(s, NULL);
        return HB_VIEW_NOTHING;
    }
    note_change(v, s, now);
    /* whoever asked it for something since may have changed a setting */
    if (!v->controls || s->counters->control_requests < v->controls)
        v->controls = s->counters->control_requests;
    bool others = s->counters->control_requests > v->controls && now - v->asked > settings_hold;
    if (others || (v->newest && (s->uptime < v->newest->uptime || s->counters->reloads > v->newest->counters->reloads)))
        v->settings_known = false;
    hilbert__v1__status__free_unpacked(v->newest, NULL);
    v->newest = s;
    if (v->heard > 0 && now - v->heard < 60)
        v->period = v->period > 0 ? 0.9 * v->period + 0.1 * (now - v->heard) : now - v->heard;
    v->heard = now;
    v->time = strtod(seconds, NULL);
    snprintf(v->name, sizeof v->name, "%.60s", s->name);
    keep(v, data, size);
    return HB_VIEW_STATUS;
}

/* Topic / Status / seconds. */
static hb_view_news receive_status(hb_view_vehicle *v, double now)
{
    zmq_msg_t frame[3];
    char seconds[40] = "";
    int n = 0, more = 1;
    size_t size = sizeof more;
    hb_view_news news = HB_VIEW_NOTHING;

    while (more && n < 3) {
        zmq_msg_init(&frame[n++]);
        if (zmq_msg_recv(&frame[n - 1], v->publisher, ZMQ_DONTWAIT) < 0)
            break;
        if (zmq_getsockopt(v->publisher, ZMQ_RCVMORE, &more, &size))
            more = 0;
    }
    if (n == 3 && zmq_msg_size(&frame[2]) < sizeof seconds) {
        memcpy(seconds, zmq_msg_data(&frame[2]), zmq_msg_size(&frame[2]));
        news = take_status(v, zmq_msg_data(&frame[1]), zmq_msg_size(&frame[1]), seconds, now);
    }
    for (int i = 0; i < n; i++)
        zmq_msg_close(&frame[i]);
    return news;
}

/* For its model, or its settings. */
static void ask_about(hb_view_vehicle *v, bool model, double now)
{
    Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
    Hilbert__V1__Nothing nothing = HILBERT__V1__NOTHING__INIT;
    uint8_t frame[64];

    v->asked = now;
    request.id = ++v->id_asked;
    if (!model)
        v->id_settings = request.id;
    request.command_case =
        model ? HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_MODEL : HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_SETTINGS;
    request.get_model = &nothing; /* get_settings has the same place */
    if (hilbert__v1__control_request__get_packed_size(&request) <= sizeof frame)
        zmq_send(v->asker, frame, hilbert__v1__control_request__pack(&request, frame), ZMQ_DONTWAIT);
}

const char *hb_view_vehicle_ask(hb_view_vehicle *v, Hilbert__V1__ControlRequest *request, uint64_t who, double now)
{
    hb_view_question *q = v->question;
    uint8_t frame[4096];

    while (q < v->question + HB_VIEW_QUESTIONS && q->id)
        q++;
    if (!v->keyed)
        return "hilbert-view has no key for this daemon";
    if (q == v->question + HB_VIEW_QUESTIONS)
        return "too many questions are under way";
    request->id = ++v->id_asked;
    size_t n = hilbert__v1__control_request__get_packed_size(request);
    if (n > sizeof frame)
        return "the request is too large";
    hilbert__v1__control_request__pack(request, frame);
    if (zmq_send(v->asker, frame, n, ZMQ_DONTWAIT) < 0)
        return "the daemon does not take questions just now";
    *q = (hb_view_question){.id = request->id, .who = who, .asked = now};
    return NULL;
}

/* Whether a reply is one to a page's question: then that is answered. */
static bool answers(hb_view_vehicle *v, const Hilbert__V1__ControlReply *reply)
{
    for (int i = 0; i < HB_VIEW_QUESTIONS; i++)
        if (v->question[i].id && v->question[i].id == reply->id) {
            v->answer = (hb_view_answer){.who = v->question[i].who, .ok = reply->ok};
            snprintf(v->answer.error, sizeof v->answer.error, "%s", reply->error);
            v->question[i].id = 0;
            return true;
        }
    return false;
}

/* A question that stays unanswered is answered by us. */
static bool gave_up(hb_view_vehicle *v, double now)
{
    for (int i = 0; i < HB_VIEW_QUESTIONS; i++)
        if (v->question[i].id && now - v->question[i].asked > patience) {
            v->answer = (hb_view_answer){.who = v->question[i].who, .error = "the daemon did not answer"};
            v->question[i].id = 0;
            return true;
        }
    return false;
}

/* The lines as one text. */
static void keep_settings(hb_view_vehicle *v, const Hilbert__V1__Settings *s)
{
    size_t n = 1;
    char *text, *to;

    for (size_t i = 0; i < s->n_line; i++)
        n += strlen(s->line[i]) + 1;
    if (!(text = to = malloc(n)))
        return;
    for (size_t i = 0; i < s->n_line; i++)
        to += sprintf(to, "%s\n", s->line[i]);
    *to = 0;
    free(v->settings);
    v->settings = text;
}

static hb_view_news receive_reply(hb_view_vehicle *v)
{
    hb_view_news news = HB_VIEW_NOTHING;
    zmq_msg_t message;

    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, v->asker, ZMQ_DONTWAIT) >= 0) {
        Hilbert__V1__ControlReply *reply =
            hilbert__v1__control_reply__unpack(NULL, zmq_msg_size(&message), zmq_msg_data(&message));
        if (reply && reply->result_case == HILBERT__V1__CONTROL_REPLY__RESULT_MODEL && reply->model) {
            hilbert__v1__model_info__free_unpacked(v->model, NULL);
            v->model = reply->model;
            reply->model = NULL;
            reply->result_case = HILBERT__V1__CONTROL_REPLY__RESULT__NOT_SET;
            news = HB_VIEW_MODEL;
        } else if (reply && reply->result_case == HILBERT__V1__CONTROL_REPLY__RESULT_SETTINGS && reply->settings) {
            keep_settings(v, reply->settings);
            v->settings_known = true;
            v->controls = 0;
            news = HB_VIEW_SETTINGS;
        } else if (reply && !reply->ok && reply->id == v->id_settings)
            v->settings_known = true; /* it does not tell them: then there are none to show */
        else if (reply && answers(v, reply))
            news = HB_VIEW_ANSWER;
        hilbert__v1__control_reply__free_unpacked(reply, NULL);
    }
    zmq_msg_close(&message);
    return news;
}

hb_view_news hb_view_vehicle_poll(hb_view_vehicle *v, double now)
{
    hb_view_news news = receive_status(v, now);

    if (news != HB_VIEW_NOTHING)
        return news;
    bool known = v->model && v->newest && v->model->hash == v->newest->model_hash;
    if (v->newest && !known && !hb_view_vehicle_gone(v, now) && now - v->asked > ask_again)
        ask_about(v, true, now);
    else if (known && !v->settings_known && !hb_view_vehicle_gone(v, now) && now - v->asked > ask_again)
        ask_about(v, false, now);
    news = receive_reply(v);
    return news == HB_VIEW_NOTHING && gave_up(v, now) ? HB_VIEW_ANSWER : news;
}

bool hb_view_vehicle_gone(const hb_view_vehicle *v, double now)
{
    return !v->newest || now - v->heard > fmax(shortest_silence, 2.5 * v->period);
}
