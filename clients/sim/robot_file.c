/* Reads a robot's YAML file against its model. Errors are FILE:LINE:COLUMN: key: what was found, what is expected. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/yaml_file.h"

#include "sim/robot_parts.h"

typedef struct reader {
    robot *r;
    const mjModel *model;
    const char *path;
    yaml_document_t document;
    int keyframe;
    hb_error *err;
} reader;

typedef const yaml_node_t node;

static int complain(const reader *r, node *at, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int complain(const reader *r, node *at, const char *key, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!at)
        return hb_fail(r->err, EINVAL, "%s: %s", r->path, text);
    return hb_fail(r->err, EINVAL, "%s:%zu:%zu: %s%s%s", r->path, at->start_mark.line + 1, at->start_mark.column + 1,
                   key ? key : "", key ? ": " : "", text);
}

/* ---- nodes ---- */

static node *node_at(reader *r, int index)
{
    return yaml_document_get_node(&r->document, index);
}

/* NULL: it is no text */
static const char *text_of(node *n)
{
    return n && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : NULL;
}

static bool is_number(node *n, double *ret)
{
    const char *text = text_of(n);
    char *end;

    if (!text || !*text || strpbrk(text, "xX"))
        return false;
    *ret = strtod(text, &end);
    return !*end && isfinite(*ret);
}

static int read_number(const reader *r, node *n, const char *key, double low, double high, double *ret)
{
    double value;

    if (!is_number(n, &value) || value < low || value > high)
        return complain(r, n, key, "'%.60s' is not a number from %g to %g", text_of(n) ? text_of(n) : "a list", low,
                        high);
    *ret = value;
    return 0;
}

/* [low, high] */
static int read_range(reader *r, node *n, const char *key, double *low, double *high)
{
    double a, b;

    if (n->type != YAML_SEQUENCE_NODE || n->data.sequence.items.top - n->data.sequence.items.start != 2 ||
        !is_number(node_at(r, n->data.sequence.items.start[0]), &a) ||
        !is_number(node_at(r, n->data.sequence.items.start[1]), &b) || a > b)
        return complain(r, n, key, "expected [low, high]: two numbers, the lower one first");
    *low = a;
    *high = b;
    return 0;
}

/* A key of a mapping that says what it knows. */
typedef struct entry {
    const char *key;
    node *value;
} entry;

/* The values of a mapping's keys, of which only these may be there. */
static int read_entries(reader *r, node *n, const char *name, entry *entries, int count)
{
    if (n->type != YAML_MAPPING_NODE)
        return complain(r, n, name, "expected {key: value, ...}");
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        node *key = node_at(r, p->key);
        const char *text = text_of(key);
        char known[200] = "";
        int i = 0;
        while (i < count && !(text && strcmp(entries[i].key, text) == 0))
            i++;
        for (int k = 0; k < count; k++)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", k ? ", " : "", entries[k].key);
        if (i == count)
            return complain(r, key, name, "'%.40s' is none of %s", text ? text : "a list", known);
        if (entries[i].value)
            return complain(r, key, name, "'%s' is given twice", text);
        entries[i].value = node_at(r, p->value);
    }
    return 0;
}

/* A name that model files and command lines take. */
static int check_name(const reader *r, node *n, const char *name)
{
    if (!name || !*name || strlen(name) >= HB_NAME_SIZE ||
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                     "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(name))
        return complain(r, n, NULL, "'%.60s' is not a name of at most %d letters, digits, '_' and '-'",
                        name ? name : "a list", HB_NAME_SIZE - 1);
    return 0;
}

static int find_object(const reader *r, node *n, const char *key, int object, const char *what, int *ret)
{
    const char *name = text_of(n);
    char all[260] = "", one[80];
    const int id = name ? robot_object_find(r->model, object, name) : -1, count = robot_object_count(r->model, object);

    for (int i = 0; i < count && strlen(all) < 200; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "",
                 robot_object_name(r->model, object, i, one, sizeof one));
    if (id < 0)
        return complain(r, n, key, "the model has no %s '%.60s'; it has: %s%s", what, name ? name : "(a list)",
                        count ? all : "none", strlen(all) >= 200 ? ", ..." : "");
    *ret = id;
    return 0;
}

/* ---- states ---- */

/* index: of the object's first number; part: by name or number */
static int find_part(const reader *r, node *at, node *part, const char *key, int count,
                     const char *(*name)(const reader *, int, int), int object, int *ret)
{
    const char *text = part ? text_of(part) : NULL;
    char all[120] = "";

    if (count == 1 && !part) {
        *ret = 0;
        return 0;
    }
    for (int i = 0; i < count; i++) {
        if (text && strcmp(name(r, object, i), text) == 0) {
            *ret = i;
            return 0;
        }
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", name(r, object, i));
    }
    if (count == 1)
        return complain(r, part, key, "part: it is a single number: leave part out");
    return complain(r, part ? part : at, key, "part: expected one of %s", all);
}

static const char *position_part(const reader *r, int joint, int i)
{
    return robot_joint_part(r->model, joint, false, i);
}
static const char *velocity_part(const reader *r, int joint, int i)
{
    return robot_joint_part(r->model, joint, true, i);
}
static const char *axis_part(const reader *r, int object, int i)
{
    static const char *const axis[] = {"x", "y", "z"};

    (void)r;
    (void)object;
    return axis[i];
}
static const char *number_part(const reader *r, int object, int i)
{
    static const char *const number[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

    (void)r;
    (void)object;
    return i < 10 ? number[i] : "-";
}

static int read_state(reader *r, node *n, robot_state *s)
{
    static const struct {
        int object;
        const char *what;
    } kind[] = {[ROBOT_POSITION] = {mjOBJ_JOINT, "joint"},
                [ROBOT_VELOCITY] = {mjOBJ_JOINT, "joint"},
                [ROBOT_ACTIVATION] = {mjOBJ_ACTUATOR, "actuator"},
                [ROBOT_BODY] = {mjOBJ_BODY, "body"},
                [ROBOT_SITE] = {mjOBJ_SITE, "site"},
                [ROBOT_SENSOR] = {mjOBJ_SENSOR, "sensor"}};
    enum { SOURCES = 6, PART = 6, UNIT = 7 };
    entry e[] = {{"position", NULL}, {"velocity", NULL}, {"activation", NULL}, {"body", NULL},
                 {"site", NULL},     {"sensor", NULL},   {"part", NULL},       {"unit", NULL}};
    const mjModel *m = r->model;
    int status = read_entries(r, n, s->name, e, sizeof e / sizeof *e), id = 0, part = 0, given = 0;

    if (status)
        return status;
    for (int i = 0; i < SOURCES; i++)
        if (e[i].value) {
            s->source = (robot_source)i;
            given++;
        }
    if (given != 1)
        return complain(r, n, s->name, "expected one of position, velocity, activation, body, site and sensor");
    node *part_node = e[PART].value, *source = e[s->source].value;
    if ((status = find_object(r, source, s->name, kind[s->source].object, kind[s->source].what, &id)))
        return status;
    switch (s->source) {
    case ROBOT_POSITION:
        status = find_part(r, n, part_node, s->name, robot_joint_nparts(m, id, false), position_part, id, &part);
        s->index = m->jnt_qposadr[id] + part;
        snprintf(s->unit, sizeof s->unit, "%s", status ? "" : robot_joint_unit(m, id, false, part));
        break;
    case ROBOT_VELOCITY:
        status = find_part(r, n, part_node, s->name, robot_joint_nparts(m, id, true), velocity_part, id, &part);
        s->index = m->jnt_dofadr[id] + part;
        snprintf(s->unit, sizeof s->unit, "%s", status ? "" : robot_joint_unit(m, id, true, part));
        break;
    case ROBOT_ACTIVATION:
        s->index = id - (m->nu - m->na); /* actuators with activations come last */
        if (m->actuator_dyntype[id] == mjDYN_NONE || s->index < 0)
            return complain(r, source, s->name, "this actuator has no activation");
        snprintf(s->unit, sizeof s->unit, "1");
        break;
    case ROBOT_BODY:
    case ROBOT_SITE:
        status = find_part(r, n, part_node, s->name, 3, axis_part, id, &part);
        s->index = 3 * id + part;
        snprintf(s->unit, sizeof s->unit, "m");
        break;
    case ROBOT_SENSOR:
        status = find_part(r, n, part_node, s->name, m->sensor_dim[id], number_part, id, &part);
        s->index = m->sensor_adr[id] + part;
        snprintf(s->unit, sizeof s->unit, "1");
        break;
    }
    if (!status && e[UNIT].value) {
        if (!text_of(e[UNIT].value) || strlen(text_of(e[UNIT].value)) >= sizeof s->unit)
            return complain(r, e[UNIT].value, s->name, "unit: expected a short text");
        snprintf(s->unit, sizeof s->unit, "%s", text_of(e[UNIT].value));
    }
    return status;
}

static int read_states(reader *r, node *n)
{
    robot *to = r->r;

    if (n->type != YAML_MAPPING_NODE)
        return complain(r, n, "states", "expected {name: {position: joint}, ...}");
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        node *key = node_at(r, p->key);
        int status = check_name(r, key, text_of(key));
        if (status)
            return status;
        if (to->type.nx == HB_PLANT_STATES)
            return complain(r, key, "states", "at most %d fit", HB_PLANT_STATES);
        robot_state *s = &to->state[to->type.nx];
        snprintf(s->name, sizeof s->name, "%s", text_of(key));
        for (int i = 0; i < to->type.nx; i++)
            if (strcmp(to->state[i].name, s->name) == 0)
                return complain(r, key, "states", "'%s' is given twice", s->name);
        if ((status = read_state(r, node_at(r, p->value), s)))
            return status;
        to->type.nx++;
    }
    return to->type.nx ? 0 : complain(r, n, "states", "there are none");
}

/* The state that a key of another section names. */
static int find_state(const reader *r, node *key, const char *section, int *ret)
{
    const char *name = text_of(key);

    for (int i = 0; name && i < r->r->type.nx; i++)
        if (strcmp(r->r->state[i].name, name) == 0) {
            *ret = i;
            return 0;
        }
    return complain(r, key, section, "there is no state '%.60s' under states", name ? name : "(a list)");
}

/* ---- controls ---- */

static int read_controls(reader *r, node *n)
{
    robot *to = r->r;
    double low[HB_PLANT_CONTROLS + 1], high[HB_PLANT_CONTROLS + 1];
    bool has_trim[HB_PLANT_CONTROLS] = {false};

    if (n->type != YAML_MAPPING_NODE)
        return complain(r, n, "controls", "expected {name: {actuator: name}, ...}");
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        entry e[] = {{"actuator", NULL}, {"range", NULL}, {"trim", NULL}, {"unit", NULL}};
        node *key = node_at(r, p->key);
        const int i = to->type.nu;
        int status = check_name(r, key, text_of(key));
        if (status)
            return status;
        if (i == HB_PLANT_CONTROLS)
            return complain(r, key, "controls", "at most %d fit", HB_PLANT_CONTROLS);
        robot_control *c = &to->control[i];
        snprintf(c->name, sizeof c->name, "%s", text_of(key));
        snprintf(c->unit, sizeof c->unit, "1");
        if ((status = read_entries(r, node_at(r, p->value), c->name, e, 4)))
            return status;
        if (!e[0].value)
            return complain(r, key, c->name, "expected {actuator: name}");
        if ((status = find_object(r, e[0].value, c->name, mjOBJ_ACTUATOR, "actuator", &c->actuator)))
            return status;
        for (int k = 0; k < i; k++)
            if (to->control[k].actuator == c->actuator || strcmp(to->control[k].name, c->name) == 0)
                return complain(r, key, "controls", "'%s' is given twice, by its name or by its actuator", c->name);
        for (int k = 0; k < to->type.nx; k++)
            if (strcmp(to->state[k].name, c->name) == 0)
                return complain(r, key, "controls", "'%s' is a state, too: expected a name of its own", c->name);
        const bool limited = robot_control_range(r->model, c->actuator, &low[i], &high[i]);
        const double least = low[i], most = high[i];
        if (e[1].value && (status = read_range(r, e[1].value, c->name, &low[i], &high[i])))
            return status;
        if (!e[1].value && !limited)
            return complain(r, key, c->name, "the model does not limit this actuator: give range: [low, high]");
        if (low[i] >= high[i] || (limited && (low[i] < least || high[i] > most)))
            return complain(r, e[1].value, c->name, "range: expected one within the model's %g to %g", least, most);
        if (e[2].value && (status = read_number(r, e[2].value, c->name, low[i], high[i], &to->control_trim[i])))
            return status;
        has_trim[i] = e[2].value != NULL;
        if (e[3].value && text_of(e[3].value))
            snprintf(c->unit, sizeof c->unit, "%.*s", HB_NAME_SIZE - 1, text_of(e[3].value));
        to->control_min[i] = low[i];
        to->control_max[i] = high[i];
        to->type.nu++;
    }
    if (to->type.nu == 0)
        return complain(r, n, "controls", "there are none");

    /* actuators that are no controls stay at their trim, too */
    double *all = calloc(3 * (size_t)r->model->nu, sizeof *all);
    if (!all)
        return hb_fail(r->err, ENOMEM, "out of memory");
    double *from = all + r->model->nu, *until = from + r->model->nu;
    for (int i = 0; i < r->model->nu; i++)
        robot_control_range(r->model, i, &from[i], &until[i]);
    robot_trim(r->model, to->nominal.data, r->keyframe, from, until, all);
    for (int i = 0; i < to->type.nu; i++) {
        double *trim = &to->control_trim[i];
        if (!has_trim[i])
            *trim = fmin(fmax(all[to->control[i].actuator], low[i]), high[i]);
        all[to->control[i].actuator] = *trim;
    }
    memcpy(to->nominal.data->ctrl, all, (size_t)r->model->nu * sizeof *all);
    free(all);
    return 0;
}

/* ---- hidden ---- */

/* The objects that a node names: one, a list, or "*" for all that have the attribute. */
static int read_objects(reader *r, node *n, robot_hidden *h, const char *what)
{
    const robot_attribute *a = h->attribute;
    const int count = robot_object_count(r->model, a->object);
    const bool list = n->type == YAML_SEQUENCE_NODE;
    const int given = list ? (int)(n->data.sequence.items.top - n->data.sequence.items.start) : 1;
    int status = 0;

    h->id = calloc((size_t)(count > given ? count : given) + 1, sizeof *h->id);
    if (!h->id)
        return hb_fail(r->err, ENOMEM, "out of memory");
    if (text_of(n) && strcmp(text_of(n), "*") == 0) {
        for (int i = 0; i < count; i++)
            if (a->get(r->model, i) != 0)
                h->id[h->n++] = i;
        return h->n ? 0 : complain(r, n, h->name, "no %s has any %s", what, a->name);
    }
    for (int i = 0; i < given && !status; i++)
        status = find_object(r, list ? node_at(r, n->data.sequence.items.start[i]) : n, h->name, a->object, what,
                             &h->id[h->n++]);
    return status;
}

static int read_hidden_one(reader *r, node *key, node *n, robot_hidden *h, hb_plant_parameter *to)
{
    static const struct {
        const char *name;
        int object;
    } kind[] = {{"body", mjOBJ_BODY},         {"geom", mjOBJ_GEOM},     {"joint", mjOBJ_JOINT},
                {"actuator", mjOBJ_ACTUATOR}, {"tendon", mjOBJ_TENDON}, {"option", mjOBJ_UNKNOWN}};
    enum { KINDS = 6, ATTRIBUTE = 6, RANGE, SCALE, POSSIBLE, HELP };
    entry e[] = {{"body", NULL},   {"geom", NULL},     {"joint", NULL},     {"actuator", NULL},
                 {"tendon", NULL}, {"option", NULL},   {"attribute", NULL}, {"range", NULL},
                 {"scale", NULL},  {"possible", NULL}, {"help", NULL}};
    int status = read_entries(r, n, h->name, e, sizeof e / sizeof *e), which = -1, given = 0;
    char known[200] = "";

    if (status)
        return status;
    for (int i = 0; i < KINDS; i++)
        if (e[i].value) {
            which = i;
            given++;
        }
    if (given != 1)
        return complain(r, key, h->name, "expected one of body, geom, joint, actuator, tendon and option");
    node *attribute = kind[which].object == mjOBJ_UNKNOWN ? e[which].value : e[ATTRIBUTE].value;
    h->attribute =
        attribute && text_of(attribute) ? robot_attribute_find(kind[which].object, text_of(attribute)) : NULL;
    for (int i = 0; robot_attribute_at(i); i++)
        if (robot_attribute_at(i)->object == kind[which].object)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", *known ? ", " : "",
                     robot_attribute_at(i)->name);
    if (!h->attribute)
        return complain(r, attribute ? attribute : key, h->name, "attribute: expected one of %s", known);
    if (!e[RANGE].value == !e[SCALE].value)
        return complain(r, key, h->name, "expected range: [low, high] of values, or scale: [low, high] of the model's");
    h->scale = e[SCALE].value != NULL;
    if (h->attribute->scaled && !h->scale)
        return complain(r, e[RANGE].value, h->name, "%s is several numbers: give scale: [low, high]",
                        h->attribute->name);
    if (kind[which].object == mjOBJ_UNKNOWN) {
        h->id = calloc(1, sizeof *h->id);
        h->n = h->id != NULL;
    } else if ((status = read_objects(r, e[which].value, h, kind[which].name))) {
        return status;
    }
    node *range = h->scale ? e[SCALE].value : e[RANGE].value;
    if ((status = read_range(r, range, h->name, &to->low, &to->high)))
        return status;
    to->name = h->name;
    to->unit = h->scale ? "1" : h->attribute->unit;
    to->help = h->attribute->help;
    to->nominal = h->scale || h->n == 0 ? 1 : h->attribute->get(r->model, h->id[0]);
    to->live = true;
    /* possible: ten times as much, or told */
    to->min = h->scale ? 0 : fmin(fmin(to->low, to->nominal), 0) * 10;
    to->max = h->scale ? fmax(10, to->high) : fmax(fmax(to->high, to->nominal), 0) * 10;
    if (e[POSSIBLE].value && (status = read_range(r, e[POSSIBLE].value, h->name, &to->min, &to->max)))
        return status;
    if (to->low < to->min || to->high > to->max)
        return complain(r, range, h->name, "%g to %g is not within what is possible, %g to %g", to->low, to->high,
                        to->min, to->max);
    if (h->attribute->structural && strcmp(h->attribute->name, "mass") == 0 && to->low <= 0)
        return complain(r, range, h->name, "a mass is more than 0");
    return 0;
}

static int read_hidden(reader *r, node *n)
{
    robot *to = r->r;

    if (n->type != YAML_MAPPING_NODE)
        return text_of(n) && !*text_of(n)
                   ? 0
                   : complain(r, n, "hidden",
                              "expected {name: {body: name, attribute: mass, range: [low, high]}, ...}");
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        node *key = node_at(r, p->key);
        int status = check_name(r, key, text_of(key));
        if (status)
            return status;
        if (to->nhidden == HB_PLANT_PARAMETERS - 3)
            return complain(r, key, "hidden", "at most %d fit", HB_PLANT_PARAMETERS - 3);
        robot_hidden *h = &to->hidden[to->nhidden];
        snprintf(h->name, sizeof h->name, "%s", text_of(key));
        for (int i = 0; i < to->nhidden; i++)
            if (strcmp(to->hidden[i].name, h->name) == 0)
                return complain(r, key, "hidden", "'%s' is given twice", h->name);
        if (strcmp(h->name, "noise") == 0 || strcmp(h->name, "delay") == 0 || strcmp(h->name, "lag") == 0)
            return complain(r, key, "hidden", "'%s' is a parameter of every robot: take another name", h->name);
        to->nhidden++; /* so that its ids are freed, whatever comes */
        if ((status = read_hidden_one(r, key, node_at(r, p->value), h, &to->parameter[to->nhidden - 1])))
            return status;
    }
    return 0;
}

/* ---- start, end, target, noise ---- */

static int need_root(const reader *r, node *key, const char *section)
{
    return r->r->root >= 0 ? 0 : complain(r, key, section, "the robot has no free joint that could turn");
}

static int read_start(reader *r, node *key, node *value)
{
    const char *name = text_of(key);
    int status, i = 0;

    if (name && (strcmp(name, "tilt") == 0 || strcmp(name, "yaw") == 0)) {
        status = need_root(r, key, "start");
        return status ? status
                      : read_number(r, value, name, 0, M_PI, *name == 't' ? &r->r->start_tilt : &r->r->start_yaw);
    }
    if ((status = find_state(r, key, "start", &i)))
        return status;
    robot_state *s = &r->r->state[i];
    if (s->source >= ROBOT_BODY)
        return complain(r, key, "start", "'%s' follows from other states and cannot be set", s->name);
    s->has_start = true;
    if (is_number(value, &s->low)) {
        s->high = s->low;
        return 0;
    }
    return read_range(r, value, s->name, &s->low, &s->high);
}

static int read_end(reader *r, node *key, node *value)
{
    int status, i = 0;

    if (text_of(key) && strcmp(text_of(key), "tilt") == 0) {
        status = need_root(r, key, "end");
        return status ? status : read_number(r, value, "tilt", 0, M_PI, &r->r->end_tilt);
    }
    if ((status = find_state(r, key, "end", &i)))
        return status;
    robot_state *s = &r->r->state[i];
    if ((status = read_range(r, value, s->name, &s->end_low, &s->end_high)))
        return status;
    if (s->has_start && (s->low < s->end_low || s->high > s->end_high))
        return complain(r, value, s->name,
                        "end: a start at %g is over at once; expected a range around start's %g to %g",
                        s->low < s->end_low ? s->low : s->high, s->low, s->high);
    s->has_end = true;
    char over[sizeof s->over];
    snprintf(over, sizeof over, "left its range: %s is not within %g to %g %s", s->name, s->end_low, s->end_high,
             s->unit);
    memcpy(s->over, over, sizeof over);
    return 0;
}

static int read_target(reader *r, node *key, node *value)
{
    int i = 0, status = find_state(r, key, "target", &i);

    return status ? status : read_number(r, value, r->r->state[i].name, -1e6, 1e6, &r->r->target[i]);
}

static int read_noise(reader *r, node *key, node *value)
{
    int i = 0, status = find_state(r, key, "noise", &i);

    return status ? status : read_number(r, value, r->r->state[i].name, 0, 1e6, &r->r->state[i].noise);
}

static int read_pairs(reader *r, node *n, const char *name, int (*read)(reader *, node *, node *))
{
    if (n->type != YAML_MAPPING_NODE)
        return complain(r, n, name, "expected {state: value, ...}");
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        int status = read(r, node_at(r, p->key), node_at(r, p->value));
        if (status)
            return status;
    }
    return 0;
}

/* ---- excitation ---- */

/* {control: {state: gain, ...}, ...} */
static int read_gains(reader *r, node *n)
{
    robot *to = r->r;
    const size_t nx = (size_t)to->type.nx;

    to->excitation.gain = calloc(nx * (size_t)to->type.nu + 1, sizeof *to->excitation.gain);
    if (!to->excitation.gain)
        return hb_fail(r->err, ENOMEM, "out of memory");
    if (n->type != YAML_MAPPING_NODE)
        return complain(r, n, "gains", "expected {control: {state: gain, ...}, ...}");
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        node *key = node_at(r, p->key), *row = node_at(r, p->value);
        int i = 0;
        while (i < to->type.nu && !(text_of(key) && strcmp(to->control[i].name, text_of(key)) == 0))
            i++;
        if (i == to->type.nu)
            return complain(r, key, "gains", "there is no control '%.60s' under controls",
                            text_of(key) ? text_of(key) : "(a list)");
        if (row->type != YAML_MAPPING_NODE)
            return complain(r, row, "gains", "expected {state: gain, ...}");
        for (const yaml_node_pair_t *q = row->data.mapping.pairs.start; q < row->data.mapping.pairs.top; q++) {
            int k = 0, status = find_state(r, node_at(r, q->key), "gains", &k);
            if (!status)
                status = read_number(r, node_at(r, q->value), to->state[k].name, -1e9, 1e9,
                                     &to->excitation.gain[(size_t)i * nx + (size_t)k]);
            if (status)
                return status;
        }
    }
    return 0;
}

static int read_excitation(reader *r, node *n)
{
    static const char *const hold[] = {"none", "pd", "lqr"};
    enum { NOISE, TIME, WANDER, HOLD, KP, KD, GAINS, COUNT };
    entry e[COUNT] = {{"noise", NULL}, {"time", NULL}, {"wander", NULL}, {"hold", NULL},
                      {"kp", NULL},    {"kd", NULL},   {"gains", NULL}};
    robot_excitation *to = &r->r->excitation;
    int status = read_entries(r, n, "excitation", e, COUNT);

    if (!status && e[NOISE].value)
        status = read_number(r, e[NOISE].value, "noise", 0, 10, &to->noise);
    if (!status && e[TIME].value)
        status = read_number(r, e[TIME].value, "time", 0, 1e3, &to->time);
    if (!status && e[WANDER].value)
        status = read_number(r, e[WANDER].value, "wander", 0, 1e3, &to->wander);
    if (!status && e[KP].value)
        status = read_number(r, e[KP].value, "kp", 0, 1e6, &to->kp);
    if (!status && e[KD].value)
        status = read_number(r, e[KD].value, "kd", 0, 1e6, &to->kd);
    if (!status && e[HOLD].value) {
        int i = 0;
        while (i < 3 && !(text_of(e[HOLD].value) && strcmp(hold[i], text_of(e[HOLD].value)) == 0))
            i++;
        if (i == 3)
            return complain(r, e[HOLD].value, "hold", "expected none, pd or lqr");
        to->hold = (robot_hold)i;
    }
    if (!status && e[GAINS].value) {
        if (e[HOLD].value)
            return complain(r, e[GAINS].value, "gains", "expected either gains or hold");
        to->hold = ROBOT_HOLD_GAINS;
        status = read_gains(r, e[GAINS].value);
    }
    if (!status && to->hold == ROBOT_HOLD_PD && to->kp <= 0)
        return complain(r, n, "excitation", "hold: pd wants kp and kd: torque for each radian and radian per second");
    return status;
}

/* ---- the file ---- */

static void find_root(robot *r)
{
    static const char *const name[] = {"qx", "qy", "qz", "qw"};
    const mjModel *m = r->nominal.model;

    r->root = r->quaternion = -1;
    for (int i = m->njnt - 1; i >= 0; i--)
        if (m->jnt_type[i] == mjJNT_FREE)
            r->root = i;
    for (int i = 0; i + 3 < r->type.nx && r->quaternion < 0; i++) {
        bool all = true;
        for (int k = 0; k < 4; k++)
            all = all && strcmp(r->state[i + k].name, name[k]) == 0;
        r->quaternion = all ? i : -1;
    }
}

static int read_file(reader *r)
{
    enum {
        NAME,
        HELP,
        DT,
        STEP,
        EPISODE,
        POSE,
        STATES,
        CONTROLS,
        HIDDEN,
        START,
        END,
        TARGET,
        NOISE,
        DELAY,
        LAG,
        EXCITATION,
        COUNT
    };
    entry e[COUNT] = {{"name", NULL},    {"help", NULL},  {"dt", NULL},     {"step", NULL},
                      {"episode", NULL}, {"pose", NULL},  {"states", NULL}, {"controls", NULL},
                      {"hidden", NULL},  {"start", NULL}, {"end", NULL},    {"target", NULL},
                      {"noise", NULL},   {"delay", NULL}, {"lag", NULL},    {"excitation", NULL}};
    robot *to = r->r;
    node *root = yaml_document_get_root_node(&r->document);
    double episode = 0;
    int status;

    if (!root)
        return hb_fail(r->err, EINVAL, "%s: the file is empty", r->path);
    if ((status = read_entries(r, root, NULL, e, COUNT)))
        return status;
    if (!e[DT].value || !e[STATES].value || !e[CONTROLS].value)
        return complain(r, root, NULL, "'%s' is missing",
                        !e[DT].value       ? "dt"
                        : !e[STATES].value ? "states"
                                           : "controls");
    if (e[NAME].value) {
        if ((status = check_name(r, e[NAME].value, text_of(e[NAME].value))))
            return status;
        snprintf(to->name, sizeof to->name, "%s", text_of(e[NAME].value));
    }
    if (e[HELP].value && text_of(e[HELP].value))
        snprintf(to->help, sizeof to->help, "%s", text_of(e[HELP].value));
    to->step = r->model->opt.timestep;
    if ((status = read_number(r, e[DT].value, "dt", 1e-4, 10, &to->type.dt)) ||
        (e[STEP].value && (status = read_number(r, e[STEP].value, "step", 1e-5, to->type.dt, &to->step))) ||
        (e[EPISODE].value && (status = read_number(r, e[EPISODE].value, "episode", 2, 1e6, &episode))) ||
        (e[DELAY].value && (status = read_number(r, e[DELAY].value, "delay", 0, 1, &to->delay))) ||
        (e[LAG].value && (status = read_number(r, e[LAG].value, "lag", 0, 10, &to->lag))))
        return status;
    to->type.episode_steps = (int)episode;
    if (e[POSE].value) {
        r->keyframe = text_of(e[POSE].value) ? robot_keyframe_find(r->model, text_of(e[POSE].value)) : -1;
        if (r->keyframe < 0)
            return find_object(r, e[POSE].value, "pose", mjOBJ_KEY, "keyframe", &r->keyframe);
    }
    robot_pose(r->model, to->nominal.data, r->keyframe);
    if ((status = read_states(r, e[STATES].value)))
        return status;
    find_root(to);
    robot_get(to, to->nominal.data, to->rest);
    memcpy(to->target, to->rest, sizeof to->target);
    if ((status = read_controls(r, e[CONTROLS].value)) ||
        (e[HIDDEN].value && (status = read_hidden(r, e[HIDDEN].value))) ||
        (e[START].value && (status = read_pairs(r, e[START].value, "start", read_start))) ||
        (e[END].value && (status = read_pairs(r, e[END].value, "end", read_end))) ||
        (e[TARGET].value && (status = read_pairs(r, e[TARGET].value, "target", read_target))) ||
        (e[NOISE].value && (status = read_pairs(r, e[NOISE].value, "noise", read_noise))))
        return status;
    /* noise within the range, with a memory of a few periods */
    to->excitation = (robot_excitation){.noise = 0.5, .time = 5 * to->type.dt};
    if (e[EXCITATION].value && (status = read_excitation(r, e[EXCITATION].value)))
        return status;
    to->type.target = e[TARGET].value ? to->target : NULL;
    return 0;
}

int robot_read(robot *to, const char *yaml, hb_error *err)
{
    reader r = {.r = to, .model = to->nominal.model, .path = yaml, .keyframe = -1, .err = err};
    int status = hb_yaml_file_load(&r.document, yaml, err);

    if (status == -ENOENT)
        return hb_fail(err, ENOENT, "%s: %s: hilbert-sim describe FILE.xml writes a first one", yaml, strerror(ENOENT));
    if (status)
        return status;
    status = read_file(&r);
    yaml_document_delete(&r.document);
    return status;
}
