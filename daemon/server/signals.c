#include "server/signals.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* numbers of descriptor.proto, which describes messages */
enum {
    SET_FILE = 1,
    FILE_NAME = 1,
    FILE_PACKAGE = 2,
    FILE_MESSAGE = 4,
    FILE_SYNTAX = 12,
    MESSAGE_NAME = 1,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    FIELD_NAME = 1,
    FIELD_NUMBER = 3,
    FIELD_LABEL = 4,
    FIELD_TYPE = 5,
    FIELD_TYPE_NAME = 6,
    OPTIONAL = 1,
    TYPE_DOUBLE = 1,
    TYPE_MESSAGE = 11,
    VARINT = 0,
    FIXED64 = 1,
    LENGTH = 2,
};

static size_t put_varint(uint8_t *to, uint64_t v)
{
    size_t n = 0;

    for (; v > 127; v >>= 7)
        to[n++] = (uint8_t)(v | 128);
    to[n++] = (uint8_t)v;
    return n;
}

/* ---- the schema ---- */

/* A message under construction: bytes that grow. */
typedef struct bytes {
    uint8_t *at;
    size_t n, room;
    bool failed;
} bytes;

static void add(bytes *b, const void *data, size_t n)
{
    if (b->n + n > b->room) {
        size_t room = 2 * (b->n + n);
        uint8_t *more = realloc(b->at, room);
        if (!more) {
            b->failed = true;
            return;
        }
        b->at = more;
        b->room = room;
    }
    if (n)
        memcpy(b->at + b->n, data, n);
    b->n += n;
}

static void add_number(bytes *b, int field, uint64_t v)
{
    uint8_t text[24];
    size_t n = put_varint(text, (uint64_t)(field << 3 | VARINT));

    add(b, text, n + put_varint(text + n, v));
}

static void add_bytes(bytes *b, int field, const void *data, size_t size)
{
    uint8_t text[24];
    size_t n = put_varint(text, (uint64_t)(field << 3 | LENGTH));

    add(b, text, n + put_varint(text + n, size));
    add(b, data, size);
}

static void add_text(bytes *b, int field, const char *text)
{
    add_bytes(b, field, text, strlen(text));
}

/* Puts a finished message into another one. */
static void add_message(bytes *b, int field, bytes *inner)
{
    add_bytes(b, field, inner->at, inner->n);
    b->failed |= inner->failed;
    free(inner->at);
}

/* Names of states may have any characters; those of fields are letters, digits and _, and none twice. */
static void field_name(char (*name)[HB_NAME_SIZE], int i, char to[HB_NAME_SIZE + 8])
{
    int before = 0;

    snprintf(to, HB_NAME_SIZE + 8, "%s%s", isdigit((unsigned char)*name[i]) ? "_" : "", name[i]);
    for (char *c = to; *c; c++)
        if (!isalnum((unsigned char)*c) || (unsigned char)*c > 127)
            *c = '_';
    for (int k = 0; k < i; k++) {
        char other[HB_NAME_SIZE + 8];
        field_name(name, k, other);
        before += strncmp(other, to, strlen(to)) == 0;
    }
    if (before)
        snprintf(to + strlen(to), 6, "_%d", before % 1000);
}

static void add_field(bytes *to, const char *name, int number, const char *type_name)
{
    bytes field = {0};

    add_text(&field, FIELD_NAME, name);
    add_number(&field, FIELD_NUMBER, (uint64_t)number);
    add_number(&field, FIELD_LABEL, OPTIONAL);
    add_number(&field, FIELD_TYPE, type_name ? TYPE_MESSAGE : TYPE_DOUBLE);
    if (type_name)
        add_text(&field, FIELD_TYPE_NAME, type_name);
    add_message(to, MESSAGE_FIELD, &field);
}

static void add_vector(bytes *to, const char *name, int n, char (*names)[HB_NAME_SIZE])
{
    bytes message = {0};
    char field[HB_NAME_SIZE + 8];

    add_text(&message, MESSAGE_NAME, name);
    for (int i = 0; i < n; i++) {
        field_name(names, i, field);
        add_field(&message, field, i + 1, NULL);
    }
    add_message(to, MESSAGE_NESTED, &message);
}

static void name_units(hb_signals *s, const char *prefix, int n, char (*names)[HB_NAME_SIZE],
                       char (*units)[HB_NAME_SIZE])
{
    char field[HB_NAME_SIZE + 8];

    for (int i = 0; i < n; i++) {
        field_name(names, i, field);
        snprintf(s->unit[s->nunits][0], sizeof s->unit[0][0], "%s.%.*s", prefix, HB_NAME_SIZE, field);
        snprintf(s->unit[s->nunits][1], sizeof s->unit[0][1], "%s", units[i]);
        s->nunits += *units[i] != 0;
    }
}

int hb_signals_new(hb_signals *ret, const hb_model *m, hb_error *err)
{
    bytes message = {0}, file = {0}, set = {0};
    hb_signals s = {.unit = calloc((size_t)(m->nx + m->nu) + 1, sizeof *s.unit)};

    add_text(&message, MESSAGE_NAME, "Signals");
    add_field(&message, "state", 1, ".hilbert.Signals.State");
    add_field(&message, "control", 2, ".hilbert.Signals.Control");
    add_vector(&message, "State", m->nx, m->state_name);
    add_vector(&message, "Control", m->nu, m->control_name);
    add_text(&file, FILE_NAME, "signals.proto");
    add_text(&file, FILE_PACKAGE, "hilbert");
    add_message(&file, FILE_MESSAGE, &message);
    add_text(&file, FILE_SYNTAX, "proto3");
    add_message(&set, SET_FILE, &file);
    s.schema = set.at;
    s.size = set.n;
    if (set.failed || !s.unit) {
        hb_signals_free(&s);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    name_units(&s, "state", m->nx, m->state_name, m->state_unit);
    name_units(&s, "control", m->nu, m->control_name, m->control_unit);
    *ret = s;
    return 0;
}

void hb_signals_free(hb_signals *s)
{
    free(s->schema);
    free(s->unit);
    *s = (hb_signals){0};
}

/* ---- messages ---- */

enum { NUMBER = 11 }; /* bytes of a field at most: its number, and a double */

size_t hb_signals_size(int nx, int nu)
{
    return (size_t)(nx + nu) * NUMBER + 2 * 8;
}

static size_t put_vector(uint8_t *to, int field, int n, const double *v)
{
    size_t size = 0, at;
    uint8_t tag[8];

    for (int i = 0; i < n; i++)
        size += put_varint(tag, (uint64_t)((i + 1) << 3)) + sizeof *v;
    at = put_varint(to, (uint64_t)(field << 3 | LENGTH));
    at += put_varint(to + at, size);
    for (int i = 0; i < n; i++) {
        at += put_varint(to + at, (uint64_t)((i + 1) << 3 | FIXED64));
        memcpy(to + at, &v[i], sizeof *v); /* this machine's order is protobuf's: little-endian */
        at += sizeof *v;
    }
    return at;
}

size_t hb_signals_write(int nx, const double *x, int nu, const double *u, uint8_t *to)
{
    size_t n = put_vector(to, 1, nx, x);

    return n + (u ? put_vector(to + n, 2, nu, u) : 0);
}
