#include "view/fleet.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "json.h"
#include "metrics.h"
#include "view/flight_json.h"

static const double search_every = 1; /* seconds */

int hb_view_fleet_add(hb_view_fleet *f, const char *place, char *why, size_t size)
{
    if (f->n == HB_VIEW_VEHICLES) {
        snprintf(why, size, "more than %d vehicles", HB_VIEW_VEHICLES);
        return -1;
    }
    hb_view_vehicle *v = hb_view_vehicle_new(f->context, f->n, place, &f->keys, why, size);
    if (!v)
        return -1;
    f->vehicle[f->n++] = v;
    return 0;
}

static bool known(const hb_view_fleet *f, const char *place)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->vehicle[i]->where, place) == 0)
            return true;
    return false;
}

static void look_at(hb_view_fleet *f, const char *place)
{
    char socket[512], why[256];

    snprintf(socket, sizeof socket, "%s/status", place);
    if (strlen(place) < 200 && access(socket, F_OK) == 0 && !known(f, place))
        hb_view_fleet_add(f, place, why, sizeof why); /* a full table keeps what it has */
}

void hb_view_fleet_search(hb_view_fleet *f, double now)
{
    DIR *folder;
    const struct dirent *entry;
    char place[512];

    if (!f->folder || (f->searched > 0 && now - f->searched < search_every))
        return;
    f->searched = now;
    look_at(f, f->folder);
    if (!(folder = opendir(f->folder)))
        return;
    while ((entry = readdir(folder)))
        if (*entry->d_name != '.') {
            snprintf(place, sizeof place, "%s/%s", f->folder, entry->d_name);
            look_at(f, place);
        }
    closedir(folder);
}

void hb_view_fleet_end(hb_view_fleet *f)
{
    for (int i = 0; i < f->n; i++)
        hb_view_vehicle_free(f->vehicle[i]);
    f->n = 0;
}

/* ---- JSON ---- */

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *word(const ProtobufCEnumDescriptor *type, int value)
{
    char text[32];

    return json_string(value ? hb_json_word(type, value, text, sizeof text) : "");
}

static json_t *count(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *row(const hb_view_vehicle *v, double now)
{
    const Hilbert__V1__Status *s = v->newest;
    json_t *r = json_pack("{s:i, s:s%, s:s%, s:b, s:b}", "id", v->id, "name", v->name, strlen(v->name), "where",
                          v->where, strlen(v->where), "heard", s != NULL, "gone", hb_view_vehicle_gone(v, now));

    if (!r || !s)
        return r;
    json_object_set_new(r, "keyed", json_boolean(v->keyed));
    json_object_set_new(r, "age", real(now - v->heard));
    json_object_set_new(r, "uptime", real(s->uptime));
    json_object_set_new(r, "status", word(&hilbert__v1__action_status__descriptor, (int)s->last_status));
    json_object_set_new(r, "estimate", word(&hilbert__v1__estimate_status__descriptor, (int)s->health->status));
    json_object_set_new(r, "fault",
                        word(&hilbert__v1__reason__descriptor,
                             s->health->fault > HILBERT__V1__REASON__REASON_NONE ? (int)s->health->fault : 0));
    json_object_set_new(r, "telemetry_rate", real(s->telemetry_rate));
    json_object_set_new(r, "telemetry_age", real(s->telemetry_age));
    json_object_set_new(r, "request_rate", real(s->request_rate));
    json_object_set_new(r, "error", real(s->health->one_step_error));
    json_object_set_new(r, "expected", real(s->health->expected_error));
    json_object_set_new(r, "span", real(s->health->out_of_span));
    json_object_set_new(r, "p99_us", count(s->total->p99_us));
    json_object_set_new(r, "budget_us", count(s->budget_us));
    json_object_set_new(r, "late", count(s->counters->replies_late));
    json_object_set_new(r, "requests", count(s->counters->requests));
    json_object_set_new(r, "samples", count(s->health->samples));
    json_object_set_new(r, "window", real(s->health->span_seconds));
    json_object_set_new(r, "changes", count(s->health->changes));
    json_object_set_new(r, "plausibility", real(s->health->plausibility));
    json_object_set_new(r, "adapting", json_boolean(s->adapting));
    /* the one that changed, or the first */
    const Hilbert__V1__Word *told = s->n_word ? s->word[0] : NULL;
    for (size_t i = s->n_word; i > 0; i--)
        if (s->word[i - 1]->changed)
            told = s->word[i - 1];
    if (told)
        json_object_set_new(r, "word",
                            json_pack("{s:s%, s:s%, s:f, s:f}", "name", told->name, strlen(told->name), "unit",
                                      told->unit, strlen(told->unit), "value", told->value, "deviation",
                                      told->deviation));
    if (v->changed > 0) {
        json_object_set_new(r, "change", json_string(v->change));
        json_object_set_new(r, "changed", real(now - v->changed));
    }
    return r;
}

void hb_view_fleet_write(const hb_view_fleet *f, double now, FILE *out)
{
    json_t *rows = json_array();

    for (int i = 0; i < f->n; i++)
        json_array_append_new(rows, row(f->vehicle[i], now));
    fputs("{\"fleet\":", out);
    json_dumpf(rows, out, JSON_COMPACT | JSON_REAL_PRECISION(6));
    fputc('}', out);
    json_decref(rows);
}

static void write_message(const ProtobufCMessage *m, FILE *out)
{
    size_t n = hb_json_write(m, NULL, 0);
    char *text = malloc(n + 1);

    if (text) {
        hb_json_write(m, text, n + 1);
        fwrite(text, 1, n, out);
    } else
        fputs("null", out);
    free(text);
}

void hb_view_write_model(const hb_view_vehicle *v, FILE *out)
{
    fprintf(out, "{\"id\":%d,\"model\":", v->id);
    write_message(&v->model->base, out);
    fputc('}', out);
}

void hb_view_write_settings(const hb_view_vehicle *v, FILE *out)
{
    fprintf(out, "{\"id\":%d,\"limits\":", v->id);
    hb_view_write_limits(v->settings, out);
    fputc('}', out);
}

void hb_view_write_status(const hb_view_vehicle *v, FILE *out)
{
    fprintf(out, "{\"id\":%d,\"time\":%.6f,\"status\":", v->id, v->time);
    write_message(&v->newest->base, out);
    fputc('}', out);
}

void hb_view_write_past(const hb_view_vehicle *v, FILE *out)
{
    const char *comma = "";

    fprintf(out, "{\"id\":%d,\"past\":[", v->id);
    for (int i = 0; i < v->npast; i++) {
        const hb_view_moment *m = &v->past[(v->first + i) % HB_VIEW_PAST];
        Hilbert__V1__Status *s = hilbert__v1__status__unpack(NULL, m->size, m->data);
        if (!s)
            continue;
        fprintf(out, "%s{\"time\":%.6f,\"status\":", comma, m->time);
        write_message(&s->base, out);
        fputc('}', out);
        hilbert__v1__status__free_unpacked(s, NULL);
        comma = ",";
    }
    fputs("]}", out);
}

/* ---- metrics ---- */

/* Two daemons of one name are told apart by where they are. */
static const char *label(const hb_view_fleet *f, int i)
{
    for (int k = 0; k < f->n; k++)
        if (k != i && strcmp(f->vehicle[k]->name, f->vehicle[i]->name) == 0)
            return f->vehicle[i]->where;
    return f->vehicle[i]->name;
}

void hb_view_fleet_metrics(const hb_view_fleet *f, double now, uint64_t pages, uint64_t dropped, FILE *out)
{
    hb_metrics *m = hb_metrics_new();

    if (!m)
        return;
    for (int i = 0; i < f->n; i++) {
        bool gone = hb_view_vehicle_gone(f->vehicle[i], now);
        hb_metrics_gauge(m, label(f, i), "up", "1: the daemon publishes its status; 0: it is gone.", !gone);
        /* the last numbers of one that is gone would look as if it flew on */
        if (!gone)
            hb_metrics_add(m, label(f, i), f->vehicle[i]->newest);
    }
    hb_metrics_gauge(m, NULL, "view_clients", "Pages and programs that are connected to hilbert-view.", (double)pages);
    hb_metrics_counter(m, "view_dropped_total", "Clients of hilbert-view that were dropped because they were too slow.",
                       (double)dropped);
    hb_metrics_end(m, out);
}
