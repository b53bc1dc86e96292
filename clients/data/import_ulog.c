/* PX4's ULog. A header of 16 bytes, then messages of `u16 size, u8 type, size bytes`:
 *
 *     B flags   F format "name:type field;type[n] field;..."   P parameter   A subscribe   D data   O dropout   others
 *
 * A format may name other formats as types, and padding at its end may be missing in data. The file may end anywhere.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/flight_log.h"

enum { HEADER = 16, MAX_FORMATS = 512, MAX_SUBSCRIPTIONS = 1024, MAX_DEPTH = 8, MAX_FIELDS = 16 };

typedef struct format {
    const char *text; /* after "name:" */
    size_t length;
    const char *name;
    size_t name_length;
} format;

/* Where a field lies in a message. */
typedef struct place {
    size_t offset;
    char type; /* of scalars: the letters of `scalars` */
} place;

typedef struct subscription {
    bool used, resolved;
    int series; /* -1: of no interest */
    const format *format;
    size_t time;              /* offset of the time */
    place column[MAX_FIELDS]; /* by the order of `fields` */
} subscription;

typedef struct reader {
    const char *path;
    hb_flight_log *log;
    int nformats;
    format format[MAX_FORMATS];
    subscription by_id[MAX_SUBSCRIPTIONS];
} reader;

static const struct {
    const char *name;
    size_t size;
    char type;
} scalars[] = {{"int8_t", 1, 'b'},  {"uint8_t", 1, 'B'},  {"int16_t", 2, 'h'}, {"uint16_t", 2, 'H'},
               {"int32_t", 4, 'i'}, {"uint32_t", 4, 'I'}, {"int64_t", 8, 'q'}, {"uint64_t", 8, 'Q'},
               {"float", 4, 'f'},   {"double", 8, 'd'},   {"bool", 1, 'B'},    {"char", 1, 'c'}};

/* Fields that are read of each topic, in this order; a '?' may be missing (then it is 0). */
static const char *const fields[HB_NSERIES][MAX_FIELDS] = {
    [HB_SERIES_POSITION] = {"x", "y", "z", "vx", "vy", "vz", "?xy_reset_counter", "?z_reset_counter",
                            "?vxy_reset_counter", "?vz_reset_counter"},
    [HB_SERIES_ATTITUDE] = {"q[0]", "q[1]", "q[2]", "q[3]", "?quat_reset_counter"},
    [HB_SERIES_RATES] = {"xyz[0]", "xyz[1]", "xyz[2]"},
    [HB_SERIES_SETPOINT] = {"thrust_body[2]", "roll", "pitch", "yaw"},
    [HB_SERIES_LANDED] = {"landed"},
};

static double read_scalar(const uint8_t *at, char type)
{
    uint64_t v;
    uint32_t bits;
    float f;
    double d;

    switch (type) {
    case 'b':
        return (int8_t)at[0];
    case 'h':
        return (int16_t)hb_log_unsigned(at, 2);
    case 'H':
        return (double)hb_log_unsigned(at, 2);
    case 'i':
        return (int32_t)hb_log_unsigned(at, 4);
    case 'I':
        return (double)hb_log_unsigned(at, 4);
    case 'q':
        return (double)(int64_t)hb_log_unsigned(at, 8);
    case 'Q':
        return (double)hb_log_unsigned(at, 8);
    case 'f':
        bits = (uint32_t)hb_log_unsigned(at, 4);
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    case 'd':
        v = hb_log_unsigned(at, 8);
        memcpy(&d, &v, sizeof d);
        return d;
    default:
        return at[0];
    }
}

static int fail_at(const reader *r, size_t offset, hb_error *err, const char *what)
{
    return hb_fail(err, EINVAL, "%s: offset %zu: %s", r->path, offset, what);
}

static const format *find_format(const reader *r, const char *name, size_t length)
{
    for (int i = 0; i < r->nformats; i++)
        if (r->format[i].name_length == length && memcmp(r->format[i].name, name, length) == 0)
            return &r->format[i];
    return NULL;
}

/* --- formats --- */

typedef struct field {
    const char *type, *name;
    size_t type_length, name_length;
    size_t count; /* elements; 1 unless it is an array */
    bool array;
} field;

/* The next "type name;" or "type[n] name;" of a format: 1, 0 at its end, -1 when it is malformed. */
static int next_field(const char **at, const char *end, field *f)
{
    while (*at < end && (**at == ';' || **at == ' '))
        (*at)++;
    if (*at == end)
        return 0;
    const char *stop = memchr(*at, ';', (size_t)(end - *at));
    if (!stop)
        stop = end;
    const char *space = memchr(*at, ' ', (size_t)(stop - *at));
    if (!space || space == *at || space + 1 == stop)
        return -1;
    const char *bracket = memchr(*at, '[', (size_t)(space - *at));
    *f = (field){.type = *at,
                 .type_length = (size_t)((bracket ? bracket : space) - *at),
                 .name = space + 1,
                 .name_length = (size_t)(stop - space - 1),
                 .count = 1,
                 .array = bracket != NULL};
    if (bracket) {
        f->count = 0;
        const char *digit = bracket + 1;
        for (; digit < space && *digit >= '0' && *digit <= '9' && f->count < 100000; digit++)
            f->count = 10 * f->count + (size_t)(*digit - '0');
        if (digit >= space || *digit != ']' || f->count == 0 || f->count > 65535)
            return -1;
    }
    *at = stop;
    return 1;
}

/* Bytes of a format, or 0 when it cannot be told: malformed, unknown, or going round in circles. */
static size_t format_size(const reader *r, const format *f, int depth)
{
    const char *at = f->text, *end = f->text + f->length;
    size_t size = 0;
    field each;
    int more;

    if (depth > MAX_DEPTH)
        return 0;
    while ((more = next_field(&at, end, &each)) > 0) {
        size_t one = 0;
        for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
            if (strlen(scalars[i].name) == each.type_length &&
                memcmp(scalars[i].name, each.type, each.type_length) == 0)
                one = scalars[i].size;
        if (one == 0) {
            const format *inner = find_format(r, each.type, each.type_length);
            one = inner ? format_size(r, inner, depth + 1) : 0;
        }
        if (one == 0 || (size += one * each.count) > 1000000)
            return 0;
    }
    return more < 0 ? 0 : size;
}

/* Looks for a scalar field by its name, "a", "a[2]" or "inner.a". 1: found; 0: there is none; -1: malformed. */
static int find_field(const reader *r, const format *f, const char *wanted, size_t base, int depth, place *ret)
{
    const char *at = f->text, *end = f->text + f->length;
    size_t offset = base, wanted_length = strcspn(wanted, "[.");
    field each;
    int more;

    if (depth > MAX_DEPTH)
        return -1;
    while ((more = next_field(&at, end, &each)) > 0) {
        bool match = each.name_length == wanted_length && memcmp(each.name, wanted, wanted_length) == 0;
        const char *rest = wanted + wanted_length;
        size_t index = 0, one = 0;
        char type = 0;

        for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
            if (strlen(scalars[i].name) == each.type_length &&
                memcmp(scalars[i].name, each.type, each.type_length) == 0) {
                one = scalars[i].size;
                type = scalars[i].type;
            }
        const format *inner = one ? NULL : find_format(r, each.type, each.type_length);
        if (inner)
            one = format_size(r, inner, depth + 1);
        if (one == 0)
            return -1;
        if (match && *rest == '[') {
            index = (size_t)(rest[1] - '0');
            rest += 3;
        }
        if (match && index < each.count) {
            offset += index * one;
            if (inner)
                return *rest == '.' ? find_field(r, inner, rest + 1, offset, depth + 1, ret) : 0;
            *ret = (place){offset, type};
            return 1;
        }
        offset += one * each.count;
    }
    return more < 0 ? -1 : 0;
}

static int resolve(const reader *r, subscription *s, size_t offset, hb_error *err)
{
    place time;
    /* of a state, the time of the sample; of a setpoint, when it was given */
    int found = s->series == HB_SERIES_SETPOINT || s->series == HB_SERIES_LANDED
                    ? 0
                    : find_field(r, s->format, "timestamp_sample", 0, 0, &time);
    char text[160];

    if (found == 0)
        found = find_field(r, s->format, "timestamp", 0, 0, &time);
    if (found <= 0 || time.type != 'Q') {
        snprintf(text, sizeof text, "format of %s: no field 'uint64_t timestamp', or it cannot be understood",
                 hb_series_topic[s->series]);
        return fail_at(r, offset, err, text);
    }
    s->time = time.offset;
    for (int i = 0; i < MAX_FIELDS && fields[s->series][i]; i++) {
        const char *name = fields[s->series][i];
        bool optional = *name == '?';
        found = find_field(r, s->format, name + optional, 0, 0, &s->column[i]);
        if (found < 0 || (found == 0 && !optional)) {
            snprintf(text, sizeof text, "format of %s: no field '%s'", hb_series_topic[s->series], name + optional);
            return fail_at(r, offset, err, text);
        }
        if (found == 0)
            s->column[i].type = 0;
    }
    s->resolved = true;
    return 0;
}

/* --- messages --- */

static int take_format(reader *r, const uint8_t *data, size_t n, size_t offset, hb_error *err)
{
    const char *text = (const char *)data, *colon = memchr(text, ':', n);

    if (!colon || colon == text)
        return fail_at(r, offset, err, "a format without a name");
    if (r->nformats == MAX_FORMATS)
        return fail_at(r, offset, err, "more formats than any PX4 has");
    r->format[r->nformats++] = (format){colon + 1, n - (size_t)(colon + 1 - text), text, (size_t)(colon - text)};
    return 0;
}

/* u8 length of the key, "type NAME", value */
static int take_parameter(reader *r, const uint8_t *data, size_t n, size_t offset, hb_error *err)
{
    size_t key = n ? data[0] : 0;
    const char *text = (const char *)data + 1, *space = n > key ? memchr(text, ' ', key) : NULL;

    if (!space || n < 1 + key + 4)
        return fail_at(r, offset, err, "a parameter that is cut short");
    size_t type = (size_t)(space - text);
    bool whole = type == 7 && memcmp(text, "int32_t", 7) == 0;
    return hb_flight_log_set(r->log, space + 1, key - type - 1, read_scalar(data + 1 + key, whole ? 'i' : 'f'), err);
}

static int take_subscription(reader *r, const uint8_t *data, size_t n, size_t offset, hb_error *err)
{
    if (n < 4)
        return fail_at(r, offset, err, "a subscription that is cut short");
    size_t id = hb_log_unsigned(data + 1, 2), length = n - 3;
    const char *name = (const char *)data + 3;

    if (id >= MAX_SUBSCRIPTIONS)
        return fail_at(r, offset, err, "a subscription with an impossible number");
    subscription *s = &r->by_id[id];
    *s = (subscription){.used = true, .series = -1};
    /* instances beyond the first are other sensors' */
    for (int i = 0; i < HB_NSERIES && data[0] == 0; i++)
        if (strlen(hb_series_topic[i]) == length && memcmp(hb_series_topic[i], name, length) == 0)
            s->series = i;
    if (s->series < 0)
        return 0;
    s->format = find_format(r, name, length);
    return s->format ? 0 : fail_at(r, offset, err, "a subscription to a topic without a format");
}

static int take_data(reader *r, const uint8_t *data, size_t n, size_t offset, hb_error *err)
{
    static const size_t size_of[128] = {['b'] = 1, ['B'] = 1, ['c'] = 1, ['h'] = 2, ['H'] = 2, ['i'] = 4,
                                        ['I'] = 4, ['f'] = 4, ['q'] = 8, ['Q'] = 8, ['d'] = 8};
    size_t id = n >= 2 ? hb_log_unsigned(data, 2) : MAX_SUBSCRIPTIONS;
    double v[MAX_FIELDS] = {0};

    if (id >= MAX_SUBSCRIPTIONS || !r->by_id[id].used)
        return fail_at(r, offset, err, "data that nobody subscribed to");
    subscription *s = &r->by_id[id];
    if (s->series < 0)
        return 0;
    int status = s->resolved ? 0 : resolve(r, s, offset, err);
    if (status)
        return status;
    data += 2;
    n -= 2;
    if (s->time + 8 > n)
        return fail_at(r, offset, err, "data that are shorter than their format");
    for (int i = 0; i < MAX_FIELDS && fields[s->series][i]; i++) {
        if (!s->column[i].type)
            continue;
        if (s->column[i].offset + size_of[(int)s->column[i].type] > n)
            return fail_at(r, offset, err, "data that are shorter than their format");
        v[i] = read_scalar(data + s->column[i].offset, s->column[i].type);
    }
    if (s->series == HB_SERIES_POSITION)
        v[6] = v[6] + 1000 * v[7] + 1e6 * v[8] + 1e9 * v[9]; /* any of them that changes changes this */
    if (s->series == HB_SERIES_SETPOINT)
        v[0] = -v[0]; /* thrust is along minus z of FRD */
    double time = (double)hb_log_unsigned(data + s->time, 8) * 1e-6;
    r->log->now = fmax(r->log->now, time);
    return hb_series_add(&r->log->series[s->series], hb_series_columns[s->series], time, v, err);
}

/* u8 compat[8], incompat[8], u64 appended[3]. Bit 0 of the incompat bits: data were appended, at those offsets. */
static int take_flags(const reader *r, const uint8_t *data, size_t n, size_t offset, size_t *appended, hb_error *err)
{
    if (n < 40)
        return fail_at(r, offset, err, "flags that are cut short");
    for (int i = 0; i < 8; i++)
        if (data[8 + i] & (i == 0 ? 0xFE : 0xFF))
            return fail_at(r, offset, err, "incompatible flags: this log needs a newer reader");
    if (data[8] & 1)
        *appended = hb_log_unsigned(data + 16, 8);
    return 0;
}

static int take(reader *r, uint8_t type, const uint8_t *data, size_t n, size_t offset, size_t *appended, hb_error *err)
{
    switch (type) {
    case 'B':
        return take_flags(r, data, n, offset, appended, err);
    case 'F':
        return take_format(r, data, n, offset, err);
    case 'P':
        return take_parameter(r, data, n, offset, err);
    case 'A':
        return take_subscription(r, data, n, offset, err);
    case 'D':
        return take_data(r, data, n, offset, err);
    case 'O':
        if (n >= 2)
            r->log->dropped += 1e-3 * (double)hb_log_unsigned(data, 2);
        return 0;
    case 'I':
    case 'M':
    case 'L':
    case 'C':
    case 'S':
    case 'R':
    case 'Q':
        return 0;
    default:
        return fail_at(r, offset, err, "a message of a type that ULog does not have: the log is damaged here");
    }
}

int hb_ulog_read(hb_flight_log *log, const char *path, const uint8_t *data, size_t n, hb_error *err)
{
    static const uint8_t magic[7] = {'U', 'L', 'o', 'g', 0x01, 0x12, 0x35};
    size_t at = HEADER, appended = 0;
    reader *r = NULL;
    int status = 0;

    *log = (hb_flight_log){0};
    if (n < HEADER || memcmp(data, magic, sizeof magic) != 0)
        return hb_fail(err, EINVAL, "%s: offset 0: not the header of a ULog", path);
    if (data[7] > 1)
        return hb_fail(err, EINVAL, "%s: offset 7: version %d of ULog, expected 0 or 1", path, data[7]);
    r = calloc(1, sizeof *r);
    if (!r)
        return hb_fail(err, ENOMEM, "out of memory");
    r->path = path;
    r->log = log;
    while (!status && at < n) {
        size_t size = n - at >= 3 ? hb_log_unsigned(data + at, 2) : 0;
        /* what was appended begins where the first part may have been cut off */
        if (appended > at && appended < n && (n - at < 3 || at + 3 + size > appended)) {
            at = appended;
            continue;
        }
        if (n - at < 3 || size > n - at - 3) {
            log->cut_off = at;
            break;
        }
        status = take(r, data[at + 2], data + at + 3, size, at, &appended, err);
        at += 3 + size;
    }
    free(r);
    return status;
}
