#include "view/foxglove.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "recording.h"

typedef enum { STATUS, STATE, TARGET, ACTION, COEFFICIENTS, POSE, TARGET_POSE, PLAN, TRANSFORM, NKINDS } kind;

static const char *const topic[NKINDS] = {"status", "state",       "target", "action", "coefficients",
                                          "pose",   "target_pose", "plan",   "tf"};

void hb_foxglove_write_info(FILE *out, const char *version)
{
    fprintf(out, "{\"op\":\"serverInfo\",\"name\":\"hilbert-view %s\",\"capabilities\":[],\"metadata\":{}}", version);
}

/* ---- schemas ---- */

#define NUMBER "{\"type\":\"number\"}"
#define TIME                                                                                                           \
    "{\"type\":\"object\",\"title\":\"time\",\"properties\":{\"sec\":{\"type\":\"integer\"},\"nsec\":{\"type\":"       \
    "\"integer\"}}}"
#define VECTOR "{\"type\":\"object\",\"properties\":{\"x\":" NUMBER ",\"y\":" NUMBER ",\"z\":" NUMBER "}}"
#define QUATERNION                                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"x\":" NUMBER ",\"y\":" NUMBER ",\"z\":" NUMBER ",\"w\":" NUMBER "}}"
#define POSE_SCHEMA "{\"type\":\"object\",\"properties\":{\"position\":" VECTOR ",\"orientation\":" QUATERNION "}}"

static const char pose_schema[] =
    "{\"title\":\"foxglove.PoseInFrame\",\"type\":\"object\",\"properties\":{"
    "\"timestamp\":" TIME ",\"frame_id\":{\"type\":\"string\"},\"pose\":" POSE_SCHEMA "}}";
static const char poses_schema[] = "{\"title\":\"foxglove.PosesInFrame\",\"type\":\"object\",\"properties\":{"
                                   "\"timestamp\":" TIME ",\"frame_id\":{\"type\":\"string\"},\"poses\":{\"type\":"
                                   "\"array\",\"items\":" POSE_SCHEMA "}}}";
static const char transform_schema[] =
    "{\"title\":\"foxglove.FrameTransform\",\"type\":\"object\",\"properties\":{\"timestamp\":" TIME
    ",\"parent_frame_id\":{\"type\":\"string\"},\"child_frame_id\":{\"type\":\"string\"},\"translation\":" VECTOR
    ",\"rotation\":" QUATERNION "}}";

/* Of signals by their names; units are their descriptions. */
static json_t *signals_schema(Hilbert__V1__Channel *const *channel, size_t n, size_t ncoefficients)
{
    json_t *properties = json_object();
    char name[32];

    for (size_t i = 0; i < n; i++)
        json_object_set_new(properties, channel[i]->name,
                            json_pack("{s:s, s:s}", "type", "number", "description", channel[i]->unit));
    for (size_t i = 0; i < ncoefficients; i++) {
        snprintf(name, sizeof name, "c%zu", i);
        json_object_set_new(properties, name, json_pack("{s:s}", "type", "number"));
    }
    return json_pack("{s:s, s:o}", "type", "object", "properties", properties);
}

static char *base64(const uint8_t *data, size_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc(4 * ((n + 2) / 3) + 1), *to = text;

    for (size_t i = 0; text && i < n; i += 3) {
        uint32_t bits = (uint32_t)data[i] << 16 | (i + 1 < n ? (uint32_t)data[i + 1] << 8 : 0) |
                        (i + 2 < n ? (uint32_t)data[i + 2] : 0);
        *to++ = digit[bits >> 18];
        *to++ = digit[bits >> 12 & 63];
        *to++ = i + 1 < n ? digit[bits >> 6 & 63] : '=';
        *to++ = i + 2 < n ? digit[bits & 63] : '=';
    }
    if (text)
        *to = 0;
    return text;
}

/* ---- channels ---- */

/* The state of that name; -1: there is none. */
static int find(const hb_view_vehicle *v, const char *name)
{
    for (size_t i = 0; i < v->model->n_state; i++)
        if (strcmp(v->model->state[i]->name, name) == 0)
            return (int)i;
    return -1;
}

static int channel_id(const hb_view_vehicle *v, kind k)
{
    return v->id * HB_FOXGLOVE_CHANNELS + (int)k + 1;
}

/* /NAME/TOPIC; what is not common in topics becomes '_', and the vehicle's number follows where it did. */
static void write_topic(const hb_view_vehicle *v, kind k, char *text, size_t size)
{
    char name[64];
    bool changed = !*v->name;

    snprintf(name, sizeof name, "%s", v->name);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.", *c)) {
            *c = '_';
            changed = true;
        }
    if (changed)
        snprintf(text, size, "/%s_%d/%s", name, v->id, topic[k]);
    else
        snprintf(text, size, "/%s/%s", name, topic[k]);
}

static json_t *channel(const hb_view_vehicle *v, kind k)
{
    const Hilbert__V1__ModelInfo *m = v->model;
    const char *fixed = k == PLAN ? poses_schema : k == TRANSFORM ? transform_schema : pose_schema;
    const char *fixed_name = k == PLAN        ? "foxglove.PosesInFrame"
                             : k == TRANSFORM ? "foxglove.FrameTransform"
                                              : "foxglove.PoseInFrame";
    char path[128], name[128];

    write_topic(v, k, path, sizeof path);
    if (k == STATUS) {
        char *schema = base64(hb_descriptor_set, hb_descriptor_set_size);
        json_t *c = schema ? json_pack("{s:i, s:s, s:s, s:s, s:s, s:s}", "id", channel_id(v, k), "topic", path,
                                       "encoding", "protobuf", "schemaName", "hilbert.v1.Status", "schema", schema,
                                       "schemaEncoding", "protobuf")
                           : NULL;
        free(schema);
        return c;
    }
    if (k >= POSE)
        return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s}", "id", channel_id(v, k), "topic", path, "encoding", "json",
                         "schemaName", fixed_name, "schema", fixed, "schemaEncoding", "jsonschema");
    json_t *signals = k == ACTION         ? signals_schema(m->control, m->n_control, 0)
                      : k == COEFFICIENTS ? signals_schema(NULL, 0, m->coefficients)
                                          : signals_schema(m->state, m->n_state, 0);
    char *schema = json_dumps(signals, JSON_COMPACT);
    snprintf(name, sizeof name, "hilbert.%s", topic[k]);
    json_t *c = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s}", "id", channel_id(v, k), "topic", path, "encoding", "json",
                          "schemaName", name, "schema", schema ? schema : "", "schemaEncoding", "jsonschema");
    free(schema);
    json_decref(signals);
    return c;
}

static int nkinds(const hb_view_vehicle *v)
{
    return find(v, "x") >= 0 && find(v, "y") >= 0 ? NKINDS : POSE;
}

void hb_foxglove_advertise(const hb_view_vehicle *v, FILE *out)
{
    json_t *list = json_array(), *all;

    for (int k = 0; k < nkinds(v); k++)
        json_array_append_new(list, channel(v, (kind)k));
    all = json_pack("{s:s, s:o}", "op", "advertise", "channels", list);
    json_dumpf(all, out, JSON_COMPACT);
    json_decref(all);
}

void hb_foxglove_unadvertise(const hb_view_vehicle *v, FILE *out)
{
    fputs("{\"op\":\"unadvertise\",\"channelIds\":[", out);
    for (int k = 0; k < NKINDS; k++)
        fprintf(out, "%s%d", k ? "," : "", channel_id(v, (kind)k));
    fputs("]}", out);
}

/* ---- messages ---- */

static void dump(json_t *message, FILE *out)
{
    json_dumpf(message, out, JSON_COMPACT);
    json_decref(message);
}

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static bool write_signals(Hilbert__V1__Channel *const *channels, const double *value, size_t n, FILE *out)
{
    json_t *m = json_object();
    char name[32];

    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "c%zu", i);
        json_object_set_new(m, channels ? channels[i]->name : name, real(value[i]));
    }
    dump(m, out);
    return n > 0;
}

static json_t *timestamp(const hb_view_vehicle *v)
{
    double seconds = floor(v->time);

    return json_pack("{s:I, s:I}", "sec", (json_int_t)seconds, "nsec", (json_int_t)(1e9 * (v->time - seconds)));
}

static double state_of(const hb_view_vehicle *v, const double *x, const char *name, double otherwise)
{
    int i = find(v, name);

    return i < 0 || !isfinite(x[i]) ? otherwise : x[i];
}

static json_t *position(const hb_view_vehicle *v, const double *x)
{
    return json_pack("{s:f, s:f, s:f}", "x", state_of(v, x, "x", 0), "y", state_of(v, x, "y", 0), "z",
                     state_of(v, x, "z", 0));
}

static json_t *attitude(const hb_view_vehicle *v, const double *x)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "x", state_of(v, x, "qx", 0), "y", state_of(v, x, "qy", 0), "z",
                     state_of(v, x, "qz", 0), "w", state_of(v, x, "qw", 1));
}

static json_t *pose(const hb_view_vehicle *v, const double *x)
{
    return json_pack("{s:o, s:o}", "position", position(v, x), "orientation", attitude(v, x));
}

static bool write_pose(const hb_view_vehicle *v, const double *x, FILE *out)
{
    dump(json_pack("{s:o, s:s, s:o}", "timestamp", timestamp(v), "frame_id", "world", "pose", pose(v, x)), out);
    return true;
}

static bool write_plan(const hb_view_vehicle *v, FILE *out)
{
    const Hilbert__V1__Status *s = v->newest;
    size_t nx = v->model->n_state;
    json_t *poses = json_array();

    for (size_t i = 0; nx && i + nx <= s->n_predicted; i += nx)
        json_array_append_new(poses, pose(v, s->predicted + i));
    dump(json_pack("{s:o, s:s, s:o}", "timestamp", timestamp(v), "frame_id", "world", "poses", poses), out);
    return true;
}

static bool write_transform(const hb_view_vehicle *v, const double *x, FILE *out)
{
    dump(json_pack("{s:o, s:s, s:s, s:o, s:o}", "timestamp", timestamp(v), "parent_frame_id", "world", "child_frame_id",
                   v->name, "translation", position(v, x), "rotation", attitude(v, x)),
         out);
    return true;
}

static bool write_packed(const Hilbert__V1__Status *s, FILE *out)
{
    size_t n = hilbert__v1__status__get_packed_size(s);
    uint8_t *data = malloc(n ? n : 1);

    if (!data)
        return false;
    hilbert__v1__status__pack(s, data);
    fwrite(data, 1, n, out);
    free(data);
    return true;
}

bool hb_foxglove_write(const hb_view_vehicle *v, int channel_number, FILE *out)
{
    const Hilbert__V1__Status *s = v->newest;
    const Hilbert__V1__ModelInfo *m = v->model;
    int k = channel_number - 1 - v->id * HB_FOXGLOVE_CHANNELS;

    if (!s || !m || k < 0 || k >= nkinds(v))
        return false;
    bool state = s->n_state == m->n_state && m->n_state, target = s->n_target == m->n_state && m->n_state;
    switch ((kind)k) {
    case STATUS:
        return write_packed(s, out);
    case STATE:
        return state && write_signals(m->state, s->state, s->n_state, out);
    case TARGET:
        return target && write_signals(m->state, s->target, s->n_target, out);
    case ACTION:
        return s->n_action == m->n_control && write_signals(m->control, s->action, s->n_action, out);
    case COEFFICIENTS:
        return write_signals(NULL, s->coefficient, s->n_coefficient, out);
    case POSE:
        return state && write_pose(v, s->state, out);
    case TARGET_POSE:
        return target && write_pose(v, s->target, out);
    case PLAN:
        return write_plan(v, out);
    case TRANSFORM:
        return state && write_transform(v, s->state, out);
    default:
        return false;
    }
}
