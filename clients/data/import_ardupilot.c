/* ArduPilot's .bin: messages of `A3 95 id`, described by FMT messages (id 128) with a letter and a label for each
 * field. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/flight_log.h"

enum { FMT = 128, FMT_LENGTH = 89, HEADER = 3, MAX_COLUMNS = 12, LANDED_EVENT = 18, NOT_LANDED_EVENT = 28 };

typedef struct kind {
    bool known;
    size_t length; /* with its three bytes */
    char name[5];
    char letters[17], labels[65];
} kind;

static size_t letter_size(char c)
{
    switch (c) {
    case 'b':
    case 'B':
    case 'M':
        return 1;
    case 'h':
    case 'H':
    case 'c':
    case 'C':
    case 'g':
        return 2;
    case 'i':
    case 'I':
    case 'f':
    case 'n':
    case 'e':
    case 'E':
    case 'L':
        return 4;
    case 'd':
    case 'q':
    case 'Q':
        return 8;
    case 'N':
        return 16;
    case 'Z':
    case 'a':
        return 64;
    default:
        return 0;
    }
}

static double read_number(const uint8_t *at, char letter)
{
    uint64_t v = hb_log_unsigned(at, letter_size(letter) <= 8 ? letter_size(letter) : 0);
    uint32_t bits = (uint32_t)v;
    float f;
    double d;

    switch (letter) {
    case 'b':
        return (int8_t)v;
    case 'h':
        return (int16_t)v;
    case 'c':
        return 0.01 * (int16_t)v;
    case 'C':
    case 'E':
        return 0.01 * (double)v;
    case 'i':
        return (int32_t)v;
    case 'L':
        return 1e-7 * (int32_t)v;
    case 'e':
        return 0.01 * (int32_t)v;
    case 'q':
        return (double)(int64_t)v;
    case 'f':
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    case 'd':
        memcpy(&d, &v, sizeof d);
        return d;
    default:
        return (double)v;
    }
}

/* Finds a field by its label: its place and letter. */
static const uint8_t *find(const kind *k, const uint8_t *message, const char *label, char *letter)
{
    const char *at = k->labels;
    size_t offset = HEADER, length = strlen(label);

    for (int i = 0; k->letters[i]; i++) {
        size_t n = strcspn(at, ",");
        if (n == length && memcmp(at, label, n) == 0) {
            *letter = k->letters[i];
            return message + offset;
        }
        offset += letter_size(k->letters[i]);
        at += n + (at[n] == ',');
    }
    return NULL;
}

/* Numbers by their labels, separated by spaces: false when one is missing. */
static bool read_all(const kind *k, const uint8_t *message, const char *labels, double *ret)
{
    char label[17];
    int used;

    for (; sscanf(labels, "%16s%n", label, &used) == 1; labels += used) {
        char letter;
        const uint8_t *at = find(k, message, label, &letter);
        if (!at)
            return false;
        *ret++ = read_number(at, letter);
    }
    return true;
}

static int take_format(kind *table, const char *path, const uint8_t *m, size_t offset, hb_error *err)
{
    kind *k = &table[m[3]];
    size_t sum = HEADER;

    *k = (kind){.known = true, .length = m[4]};
    memcpy(k->name, m + 5, 4);
    memcpy(k->letters, m + 9, 16);
    memcpy(k->labels, m + 25, 64);
    for (int i = 0; k->letters[i]; i++) {
        size_t size = letter_size(k->letters[i]);
        if (size == 0)
            return hb_fail(err, EINVAL, "%s: offset %zu: format of message %d has a field of unknown type %#x", path,
                           offset, m[3], (unsigned char)k->letters[i]);
        sum += size;
    }
    if (sum != k->length)
        return hb_fail(err, EINVAL, "%s: offset %zu: format of message %d: fields of %zu bytes in a message of %zu",
                       path, offset, m[3], sum, k->length);
    return 0;
}

static int add(hb_flight_log *log, hb_series_id series, double time, const double *v, hb_error *err)
{
    log->now = fmax(log->now, time * 1e-6);
    return hb_series_add(&log->series[series], hb_series_columns[series], time * 1e-6, v, err);
}

static int take(hb_flight_log *log, const kind *k, const uint8_t *m, hb_error *err)
{
    const double degree = M_PI / 180;
    double v[MAX_COLUMNS] = {0}, core = 0;

    if (strcmp(k->name, "PARM") == 0) {
        char letter;
        const uint8_t *name = find(k, m, "Name", &letter);
        if (name && letter == 'N' && read_all(k, m, "Value", v))
            return hb_flight_log_set(log, (const char *)name, strnlen((const char *)name, 16), v[0], err);
        return 0;
    }
    if (strcmp(k->name, "XKF1") == 0 || strcmp(k->name, "XKQ") == 0) {
        /* the first core of the estimator */
        if (read_all(k, m, "C", &core) && core != 0)
            return 0;
    }
    if (strcmp(k->name, "XKF1") == 0 && read_all(k, m, "TimeUS PN PE PD VN VE VD", v)) {
        v[7] = 0;
        return add(log, HB_SERIES_POSITION, v[0], v + 1, err);
    }
    if (strcmp(k->name, "XKQ") == 0 && read_all(k, m, "TimeUS Q1 Q2 Q3 Q4", v)) {
        v[5] = 0;
        return add(log, HB_SERIES_ATTITUDE, v[0], v + 1, err);
    }
    if (strcmp(k->name, "RATE") == 0 && read_all(k, m, "TimeUS AOut RDes PDes YDes R P Y", v)) {
        for (int i = 2; i < 8; i++)
            v[i] *= degree;
        int status = add(log, HB_SERIES_SETPOINT, v[0], v + 1, err);
        return status ? status : add(log, HB_SERIES_RATES, v[0], v + 5, err);
    }
    if (strcmp(k->name, "EV") == 0 && read_all(k, m, "TimeUS Id", v) &&
        (v[1] == LANDED_EVENT || v[1] == NOT_LANDED_EVENT)) {
        v[1] = v[1] == LANDED_EVENT;
        return add(log, HB_SERIES_LANDED, v[0], v + 1, err);
    }
    return 0;
}

int hb_ardupilot_read(hb_flight_log *log, const char *path, const uint8_t *data, size_t n, hb_error *err)
{
    kind *table = calloc(256, sizeof *table);
    size_t at = 0;
    int status = 0;

    *log = (hb_flight_log){.ardupilot = true};
    if (!table)
        return hb_fail(err, ENOMEM, "out of memory");
    table[FMT] = (kind){.known = true, .length = FMT_LENGTH, .name = "FMT"};
    while (!status && at < n) {
        const uint8_t *m = data + at;
        if (n - at < HEADER) {
            log->cut_off = at;
            break;
        }
        if (m[0] != 0xA3 || m[1] != 0x95) {
            status = hb_fail(err, EINVAL,
                             "%s: offset %zu: expected a message (A3 95), found %02X %02X: the log is damaged here",
                             path, at, m[0], m[1]);
        } else if (!table[m[2]].known) {
            status = hb_fail(err, EINVAL, "%s: offset %zu: message %d has no format", path, at, m[2]);
        } else if (table[m[2]].length > n - at) {
            log->cut_off = at;
            break;
        } else {
            size_t length = table[m[2]].length;
            if (m[2] != FMT)
                status = take(log, &table[m[2]], m, err);
            else if (m[3] != FMT)
                status = take_format(table, path, m, at, err);
            at += length;
        }
    }
    free(table);
    return status;
}
