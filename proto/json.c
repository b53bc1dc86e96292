#include "json.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Text that goes on counting its length when there is no more room. */
typedef struct writer {
    char *text;
    size_t size, length;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(writer *w, const char *format, ...)
{
    size_t room = w->length < w->size ? w->size - w->length : 0;
    va_list args;

    va_start(args, format);
    int n = vsnprintf(room ? w->text + w->length : NULL, room, format, args);
    va_end(args);
    w->length += n > 0 ? (size_t)n : 0;
}

/* Bytes of the UTF-8 character at s; 0: there is none. protobuf-c does not look. */
static int utf8(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    int n = s[0] < 0x80                   ? 1
            : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
            : (s[0] & 0xf0) == 0xe0       ? 3
            : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                          : 0;

    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    /* longer than need be, a half of a UTF-16 pair, or beyond the last one */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

static void put_string(writer *w, const char *s)
{
    put(w, "\"");
    while (s && *s) {
        unsigned char c = (unsigned char)*s;
        int n = utf8(s);
        if (n == 0)
            put(w, "\\ufffd"); /* the character for what is none */
        else if (c == '"' || c == '\\')
            put(w, "\\%c", c);
        else if (c < 0x20)
            put(w, "\\u%04x", c);
        else
            put(w, "%.*s", n, s);
        s += n ? n : 1;
    }
    put(w, "\"");
}

static void put_double(writer *w, double v)
{
    if (isfinite(v))
        put(w, "%.9g", v);
    else
        put(w, "null");
}

/* Length of the prefix that all enumerators share with the zero value "PREFIX_UNSPECIFIED". */
static size_t enum_prefix(const ProtobufCEnumDescriptor *type)
{
    const char *zero = type->values[0].name;
    const char *tail = strstr(zero, "UNSPECIFIED");

    return tail ? (size_t)(tail - zero) : 0;
}

const char *hb_json_word(const ProtobufCEnumDescriptor *type, int value, char *word, size_t size)
{
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);
    size_t n = 0;

    if (!found) {
        snprintf(word, size, "%d", value);
        return word;
    }
    for (const char *s = found->name + enum_prefix(type); *s && n + 1 < size; s++)
        word[n++] = *s == '_' ? '-' : (char)tolower((unsigned char)*s);
    if (size)
        word[n] = 0;
    return word;
}

static void put_message(writer *w, const ProtobufCMessage *message);

/* One value of a field, at p. */
static void put_value(writer *w, const ProtobufCFieldDescriptor *f, const void *p)
{
    char word[64];

    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        put(w, "%" PRId32, *(const int32_t *)p);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        put(w, "%" PRId64, *(const int64_t *)p);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        put(w, "%" PRIu32, *(const uint32_t *)p);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        put(w, "%" PRIu64, *(const uint64_t *)p);
        break;
    case PROTOBUF_C_TYPE_FIXED64:
        put(w, "\"%016" PRIx64 "\"", *(const uint64_t *)p);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        put_double(w, (double)*(const float *)p);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        put_double(w, *(const double *)p);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        put(w, *(const protobuf_c_boolean *)p ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        put_string(w, hb_json_word(f->descriptor, *(const int *)p, word, sizeof word));
        break;
    case PROTOBUF_C_TYPE_STRING:
        put_string(w, *(char *const *)p);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        put(w, "null"); /* the contract has none */
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        put_message(w, *(ProtobufCMessage *const *)p);
        break;
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

/* Whether a field is to be written at all. */
static bool present(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *f)
{
    const char *base = (const char *)message;

    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(const void *)(base + f->quantifier_offset) == f->id;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE && f->label != PROTOBUF_C_LABEL_REPEATED)
        return *(ProtobufCMessage *const *)(const void *)(base + f->offset) != NULL;
    return true;
}

static void put_message(writer *w, const ProtobufCMessage *message)
{
    const char *base = (const char *)message, *separator = "";

    put(w, "{");
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &message->descriptor->fields[i];
        const char *p = base + f->offset;

        if (!present(message, f))
            continue;
        put(w, "%s\"%s\":", separator, f->name);
        separator = ",";
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = *(const size_t *)(const void *)(base + f->quantifier_offset);
            const char *element = *(const char *const *)(const void *)p;
            put(w, "[");
            for (size_t j = 0; j < n; j++) {
                put(w, j ? "," : "");
                put_value(w, f, element + j * size_of(f));
            }
            put(w, "]");
        } else {
            put_value(w, f, p);
        }
    }
    put(w, "}");
}

size_t hb_json_write(const ProtobufCMessage *message, char *text, size_t size)
{
    writer w = {.text = text, .size = size};

    put_message(&w, message);
    return w.length;
}

void *hb_json_field(const ProtobufCMessage *message, const char *name)
{
    char plain[64];
    size_t n = 0;

    for (; name[n] && n + 1 < sizeof plain; n++)
        plain[n] = name[n] == '-' ? '_' : name[n];
    plain[n] = 0;
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, plain);
    return f ? (char *)(uintptr_t)message + f->offset : NULL;
}
