#include "mavlink/settings.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/yaml_file.h"

typedef enum { TEXT, WHOLE, NUMBER, POINT } type;

typedef struct setting {
    const char *key;
    type type;
    size_t offset;
    double min, max;
    const char *initial;
    const char *help;
} setting;

#define AT(field) offsetof(hb_mav_settings, field)

static const setting table[] = {
    {"connect", TEXT, AT(connect), 0, 0, "udp:14540",
     "The autopilot: udp:[ADDRESS:]PORT, udpout:HOST:PORT, serial:DEVICE[:BAUD] or tcp:HOST:PORT."},
    {"system", WHOLE, AT(system), 0, 255, "0", "MAVLink system of the autopilot; 0: the first that is heard."},
    {"signing_key", TEXT, AT(signing_key), 0, 0, "",
     "File with 64 hex digits: all frames are signed with it, and others are not listened to. Empty: no signing."},
    {"name", TEXT, AT(name), 0, 0, "",
     "hilbertd's name where there are several: px4 is hilbertd@px4, with sockets under /run/hilbertd/px4. Empty: those "
     "under /run/hilbertd."},
    {"telemetry", TEXT, AT(telemetry), 0, 0, "",
     "Its sockets, where they are others: ipc:///FOLDER/telemetry, tcp://..."},
    {"actions", TEXT, AT(actions), 0, 0, "", ""},
    {"control", TEXT, AT(control), 0, 0, "", ""},
    {"server_key", TEXT, AT(server_key), 0, 0, "", "CURVE keys, for tcp: hilbertctl keygen makes them."},
    {"client_key", TEXT, AT(client_key), 0, 0, "", ""},

    {"telemetry_every", WHOLE, AT(telemetry_every), 1, 100, "1",
     "Of the autopilot's samples (PX4: every 8 ms), each n-th goes to hilbertd as telemetry,"},
    {"request_every", WHOLE, AT(request_every), 1, 100, "2", "and each n-th asks it for an action."},
    {"reply_timeout", NUMBER, AT(reply_timeout), 0.001, 0.1, "0.014",
     "Seconds until a reply counts as missed: position is held from that cycle on."},
    {"stale_after", NUMBER, AT(stale_after), 0.02, 0.15, "0.1",
     "Seconds without a sample until position is held; less than the autopilot's own time-out for setpoints."},
    {"max_age", NUMBER, AT(max_age), 0.005, 1, "0.05",
     "Seconds that a sample may be old when it is planned from, by the autopilot's own clock; beyond it position is "
     "held."},

    {"engage", TEXT, AT(engage), 0, 0, "pilot",
     "Who lets the bridge fly: pilot (offboard, or GUIDED, on the remote control; also SIGUSR1) or operator (SIGUSR1, "
     "or --engage)."},
    {"hold_for", NUMBER, AT(hold_for), 0, 10, "1",
     "Seconds of holding position until the autopilot's Hold is commanded."},
    {"uneasy_for", NUMBER, AT(uneasy_for), 0, 60, "2",
     "Seconds until position is held while plans break a limit of hilbertd's configuration and lead nowhere, or it "
     "finds slight fault with telemetry."},
    {"good_cycles", WHOLE, AT(good_cycles), 1, 1000, "5", "Good replies in a row until a plan is flown again."},
    {"settle", NUMBER, AT(settle), 0, 10, "0.3",
     "Seconds of holding after the autopilot's estimator has reset itself; below hold_for."},
    {"battery_min", WHOLE, AT(battery_min), 0, 100, "20", "Percent; below it the bridge hands over. 0: not looked at."},

    {"max_rate", NUMBER, AT(limits.rate), 0.01, 20, "3", "rad/s of roll and pitch that may be commanded,"},
    {"max_yaw_rate", NUMBER, AT(limits.yaw_rate), 0.01, 20, "1", "and of yaw."},
    {"min_thrust", NUMBER, AT(limits.thrust_min), 0, 1, "0.05", "Thrust that may be commanded, 0..1."},
    {"max_thrust", NUMBER, AT(limits.thrust_max), 0, 1, "1", ""},
    {"max_tilt", NUMBER, AT(limits.tilt), 0.05, 3.15, "0.7",
     "rad from upright, and m/s: beyond these, and outside the box, position is held."},
    {"max_speed", NUMBER, AT(limits.speed), 0.1, 100, "5", ""},
    {"box_min", POINT, AT(limits.box_min), -1e6, 1e6, "-20, -20, 0.5",
     "Metres north, west and up from the autopilot's local origin."},
    {"box_max", POINT, AT(limits.box_max), -1e6, 1e6, "20, 20, 20", ""},

    {"waypoints", TEXT, AT(waypoints), 0, 0, "",
     "File of waypoints: lines of x y z [heading [stay]]. Empty: the place where it is engaged is held, until "
     "hilbertctl target names another."},
    {"waypoint_speed", NUMBER, AT(waypoint_speed), 0.01, 100, "1", "m/s from one to the next,"},
    {"waypoint_radius", NUMBER, AT(waypoint_radius), 0.01, 100, "0.5", "and metres that are near enough."},
    {"status_every", NUMBER, AT(status_every), 0.1, 3600, "5", "Seconds between status lines."},
};

enum { NSETTINGS = sizeof table / sizeof *table };

static void *at(hb_mav_settings *s, const setting *t)
{
    return (char *)s + t->offset;
}

static bool read_number(const char *text, const char **end, double *ret)
{
    char *stop;
    *ret = strtod(text, &stop);
    *end = stop;
    return stop != text && isfinite(*ret);
}

static int set(hb_mav_settings *s, const setting *t, const char *text, hb_error *err)
{
    double v[3] = {0};
    const char *end = text;
    int n = t->type == POINT ? 3 : 1;

    if (t->type == TEXT) {
        if (strlen(text) >= HB_SETTING_TEXT)
            return hb_fail(err, EINVAL, "%s: longer than %d characters", t->key, HB_SETTING_TEXT - 1);
        for (const char *c = text; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f)
                return hb_fail(err, EINVAL, "%s: contains a control character", t->key);
        strcpy(at(s, t), text);
        return 0;
    }
    for (int i = 0; i < n; i++) {
        if (!read_number(end, &end, &v[i]) || (t->type == WHOLE && v[i] != floor(v[i])))
            return hb_fail(err, EINVAL, "%s: '%s' is not %s", t->key, text,
                           t->type == POINT   ? "three numbers"
                           : t->type == WHOLE ? "a whole number"
                                              : "a number");
        if (v[i] < t->min || v[i] > t->max)
            return hb_fail(err, EINVAL, "%s: %g is outside %g..%g", t->key, v[i], t->min, t->max);
        end += strspn(end, i < n - 1 ? " ,\t" : " \t");
    }
    if (*end)
        return hb_fail(err, EINVAL, "%s: '%s' goes on after its end", t->key, text);
    if (t->type == WHOLE)
        *(int *)at(s, t) = (int)v[0];
    else
        memcpy(at(s, t), v, (size_t)n * sizeof *v);
    return 0;
}

int hb_mav_settings_set(hb_mav_settings *s, const char *key, const char *text, hb_error *err)
{
    for (int i = 0; i < NSETTINGS; i++)
        if (strcmp(table[i].key, key) == 0)
            return set(s, &table[i], text, err);
    return hb_fail(err, EINVAL, "there is no key '%.60s' (hilbert-mavlink --print-config shows all)", key);
}

void hb_mav_settings_default(hb_mav_settings *s)
{
    memset(s, 0, sizeof *s);
    for (int i = 0; i < NSETTINGS; i++)
        set(s, &table[i], table[i].initial, NULL);
}

/* A scalar, or a list of scalars joined by commas. */
static int node_text(yaml_document_t *d, yaml_node_t *node, char *text, size_t size)
{
    size_t used = 0;

    if (node->type == YAML_SCALAR_NODE)
        return snprintf(text, size, "%s", node->data.scalar.value) < (int)size ? 0 : -1;
    if (node->type != YAML_SEQUENCE_NODE)
        return -1;
    text[0] = 0;
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
        yaml_node_t *item = yaml_document_get_node(d, *i);
        if (item->type != YAML_SCALAR_NODE)
            return -1;
        int n = snprintf(text + used, size - used, "%s%s", used ? "," : "", item->data.scalar.value);
        if (n < 0 || (size_t)n >= size - used)
            return -1;
        used += (size_t)n;
    }
    return 0;
}

static int read_document(hb_mav_settings *s, const char *path, yaml_document_t *d, hb_error *err)
{
    yaml_node_t *root = yaml_document_get_root_node(d);
    char text[1024];
    bool seen[NSETTINGS] = {false};

    if (!root)
        return 0;
    if (root->type != YAML_MAPPING_NODE)
        return hb_fail(err, EINVAL, "%s:%zu: expected lines of 'key: value'", path, root->start_mark.line + 1);
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++) {
        yaml_node_t *key = yaml_document_get_node(d, p->key), *value = yaml_document_get_node(d, p->value);
        size_t line = key->start_mark.line + 1;
        hb_error inner = {0};
        if (key->type != YAML_SCALAR_NODE)
            return hb_fail(err, EINVAL, "%s:%zu: a key must be a word", path, line);
        const char *name = (const char *)key->data.scalar.value;
        if (node_text(d, value, text, sizeof text))
            return hb_fail(err, EINVAL, "%s:%zu: %s: expected a value or a list of numbers", path, line, name);
        if (hb_mav_settings_set(s, name, text, &inner))
            return hb_fail(err, inner.code, "%s:%zu: %s", path, line, inner.text);
        for (int i = 0; i < NSETTINGS; i++)
            if (strcmp(table[i].key, name) == 0) {
                if (seen[i])
                    return hb_fail(err, EINVAL, "%s:%zu: %s: given twice", path, line, name);
                seen[i] = true;
            }
    }
    return 0;
}

int hb_mav_settings_read(hb_mav_settings *s, const char *path, hb_error *err)
{
    hb_mav_settings fresh = *s;
    yaml_document_t document;
    int status = hb_yaml_file_load(&document, path, err);

    if (!status) {
        status = read_document(&fresh, path, &document, err);
        yaml_document_delete(&document);
    }
    if (!status && !(status = hb_fail_in(err, path, hb_mav_settings_check(&fresh, err))))
        *s = fresh;
    return status;
}

int hb_mav_settings_check(const hb_mav_settings *s, hb_error *err)
{
    for (int i = 0; i < 3; i++)
        if (!(s->limits.box_min[i] < s->limits.box_max[i]))
            return hb_fail(err, EINVAL, "box_min: %g is not below box_max %g", s->limits.box_min[i],
                           s->limits.box_max[i]);
    if (!(s->limits.thrust_min < s->limits.thrust_max))
        return hb_fail(err, EINVAL, "min_thrust: %g is not below max_thrust %g", s->limits.thrust_min,
                       s->limits.thrust_max);
    if (strcmp(s->engage, "pilot") != 0 && strcmp(s->engage, "operator") != 0)
        return hb_fail(err, EINVAL, "engage: '%s' is neither pilot nor operator", s->engage);
    if (!(s->settle < s->hold_for))
        return hb_fail(err, EINVAL, "settle: %g s is not below hold_for %g s", s->settle, s->hold_for);
    if (strchr(s->name, '/'))
        return hb_fail(err, EINVAL, "name: '%s' is a path: a name is expected", s->name);
    if (!s->server_key[0] != !s->client_key[0])
        return hb_fail(err, EINVAL, "server_key and client_key: one without the other");
    return 0;
}

void hb_mav_settings_socket(const hb_mav_settings *s, const char *given, const char *socket,
                            char endpoint[2 * HB_SETTING_TEXT])
{
    if (given[0])
        snprintf(endpoint, 2 * HB_SETTING_TEXT, "%s", given);
    else
        snprintf(endpoint, 2 * HB_SETTING_TEXT, "ipc:///run/hilbertd/%s%s%s", s->name, s->name[0] ? "/" : "", socket);
}

/* With no more digits than are needed to read the same number. */
static void print_number(FILE *out, const char *before, double v)
{
    char text[32];

    snprintf(text, sizeof text, "%g", v);
    if (strtod(text, NULL) != v)
        snprintf(text, sizeof text, "%.17g", v);
    fprintf(out, "%s%s", before, text);
}

void hb_mav_settings_print(const hb_mav_settings *s, FILE *out)
{
    for (int i = 0; i < NSETTINGS; i++) {
        const setting *t = &table[i];
        const void *value = (const char *)s + t->offset;
        const double *v = value;
        /* help, in lines of at most 100 characters */
        for (const char *text = t->help; *text;) {
            int n = (int)strlen(text);
            if (n > 100)
                for (n = 100; n > 0 && text[n] != ' '; n--)
                    ;
            fprintf(out, "# %.*s\n", n, text);
            text += n + (text[n] == ' ');
        }
        fprintf(out, "%s: ", t->key);
        if (t->type == TEXT) {
            fputc('\'', out);
            for (const char *c = value; *c; c++)
                fprintf(out, *c == '\'' ? "''" : "%c", *c);
            fputc('\'', out);
        } else if (t->type == WHOLE) {
            fprintf(out, "%d", *(const int *)value);
        } else {
            for (int k = 0; k < (t->type == POINT ? 3 : 1); k++)
                print_number(out, t->type != POINT ? "" : k ? ", " : "[", v[k]);
            fputs(t->type == POINT ? "]" : "", out);
        }
        fputc('\n', out);
    }
}
