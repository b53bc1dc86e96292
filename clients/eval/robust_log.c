#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "eval/robust.h"

typedef struct entry {
    char *row, *plant, *controller;
    int index;
    hb_robust_flight flight;
} entry;

struct hb_robust_log {
    char *path;
    FILE *file;
    entry *entry;
    int n;
};

void hb_robust_log_free(hb_robust_log *l)
{
    if (!l)
        return;
    for (int i = 0; i < l->n; i++) {
        free(l->entry[i].row);
        free(l->entry[i].plant);
        free(l->entry[i].controller);
    }
    free(l->entry);
    free(l->path);
    if (l->file)
        fclose(l->file);
    free(l);
}

static json_t *object_of(const hb_robust_row *row, hb_robust_controller c, int index, const hb_robust_flight *f)
{
    json_t *o = json_object(), *status = json_object();

    json_object_set_new(o, "plant", json_string(row->plant->name));
    json_object_set_new(o, "condition", json_string(row->name));
    json_object_set_new(o, "controller", json_string(hb_robust_controller_name[c]));
    json_object_set_new(o, "flight", json_integer(index));
    json_object_set_new(o, "crashed", json_boolean(f->crashed));
    /* JSON has neither infinity nor NaN: a text for one, and nothing for the other */
    for (int m = 0; m < HB_NMEASURES; m++)
        if (!isnan(f->value[m]))
            json_object_set_new(o, hb_robust_measure_name[m],
                                isinf(f->value[m]) ? json_string("infinite") : json_real(f->value[m]));
    for (int i = 0; i < HB_NSTATUSES; i++)
        if (f->status[i] > 0)
            json_object_set_new(status, hb_status_name[i], json_integer(f->status[i]));
    json_object_set_new(o, "status", status);
    return o;
}

static bool read_entry(const char *line, entry *e)
{
    json_t *o = json_loads(line, 0, NULL);
    const char *row = json_string_value(json_object_get(o, "condition"));
    const char *plant = json_string_value(json_object_get(o, "plant"));
    const char *controller = json_string_value(json_object_get(o, "controller"));
    json_t *index = json_object_get(o, "flight"), *status = json_object_get(o, "status");
    bool good = row && plant && controller && json_is_integer(index);

    if (good) {
        *e = (entry){.row = strdup(row),
                     .plant = strdup(plant),
                     .controller = strdup(controller),
                     .index = (int)json_integer_value(index),
                     .flight = {.flown = true, .crashed = json_is_true(json_object_get(o, "crashed"))}};
        for (int m = 0; m < HB_NMEASURES; m++) {
            json_t *v = json_object_get(o, hb_robust_measure_name[m]);
            e->flight.value[m] = !v ? NAN : json_is_string(v) ? INFINITY : json_number_value(v);
        }
        for (int i = 0; i < HB_NSTATUSES; i++)
            e->flight.status[i] = (int)json_integer_value(json_object_get(status, hb_status_name[i]));
        good = e->row && e->plant && e->controller;
    }
    json_decref(o);
    return good;
}

/* The settings, then the flights; a last line that was cut off is dropped. Returns where the next one goes. */
static int read_all(hb_robust_log *l, const char *settings, long *end, hb_error *err)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    int status = 0, number = 0, room = 0;

    *end = 0;
    while (!status && (length = getline(&line, &size, l->file)) > 0 && line[length - 1] == '\n') {
        line[length - 1] = '\0';
        if (number++ == 0) {
            if (strcmp(line, settings) != 0)
                status = hb_fail(err, EEXIST,
                                 "%s has flights of other settings (%s, not %s): name another folder, or remove it",
                                 l->path, line, settings);
        } else {
            if (l->n == room) {
                room = 2 * room + 256;
                entry *more = realloc(l->entry, (size_t)room * sizeof *more);
                if (!more) {
                    status = hb_fail(err, ENOMEM, "out of memory");
                    break;
                }
                l->entry = more;
            }
            if (read_entry(line, &l->entry[l->n]))
                l->n++;
            else
                status =
                    hb_fail(err, EINVAL, "%s:%d: no flight: remove the line, it will be flown again", l->path, number);
        }
        *end += length;
    }
    free(line);
    return status;
}

int hb_robust_log_open(hb_robust_log **ret, const char *path, const char *settings, hb_error *err)
{
    hb_robust_log *l = calloc(1, sizeof *l);
    long end = 0;
    int status = 0;

    if (!l || !(l->path = strdup(path))) {
        free(l);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    l->file = fopen(path, "a+e");
    if (!l->file)
        status = hb_fail(err, errno, "%s: %s", path, strerror(errno));
    if (!status)
        rewind(l->file);
    if (!status)
        status = read_all(l, settings, &end, err);
    if (!status && (fseek(l->file, 0, SEEK_END) || ftruncate(fileno(l->file), end) ||
                    (end == 0 && (fprintf(l->file, "%s\n", settings) < 0 || fflush(l->file)))))
        status = hb_fail(err, errno, "%s: %s", path, strerror(errno));
    if (status) {
        hb_robust_log_free(l);
        return status;
    }
    *ret = l;
    return 0;
}

bool hb_robust_log_find(const hb_robust_log *l, const hb_robust_row *row, hb_robust_controller c, int index,
                        hb_robust_flight *ret)
{
    for (int i = 0; i < l->n; i++) {
        const entry *e = &l->entry[i];
        if (e->index == index && strcmp(e->row, row->name) == 0 && strcmp(e->plant, row->plant->name) == 0 &&
            strcmp(e->controller, hb_robust_controller_name[c]) == 0) {
            *ret = e->flight;
            return true;
        }
    }
    return false;
}

int hb_robust_log_add(hb_robust_log *l, const hb_robust_row *row, hb_robust_controller c, int index,
                      const hb_robust_flight *f, hb_error *err)
{
    json_t *o = object_of(row, c, index, f);
    bool bad = json_dumpf(o, l->file, JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0;

    bad = fputc('\n', l->file) == EOF || fflush(l->file) != 0 || bad;
    json_decref(o);
    return bad ? hb_fail(err, EIO, "%s: cannot be written: is the disk full?", l->path) : 0;
}

int hb_robust_log_count(const hb_robust_log *l)
{
    return l->n;
}
