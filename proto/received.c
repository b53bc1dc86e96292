#include "received.h"

#include <stdlib.h>
#include <string.h>

void hb_text_clean(char *text, size_t size)
{
    unsigned char *c = (unsigned char *)text;

    for (size_t i = 0; i < size; i++) {
        if ((c[i] < 0x20 && c[i] != '\t') || c[i] == 0x7f)
            c[i] = '?';
        else if (c[i] == 0xc2 && i + 1 < size && c[i + 1] >= 0x80 && c[i + 1] <= 0x9f)
            c[i] = c[i + 1] = '?';
    }
}

static void clean_field(const ProtobufCFieldDescriptor *f, void *value)
{
    char *text;

    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        ProtobufCMessage *m = *(ProtobufCMessage **)value;
        if (m)
            hb_message_clean(m);
    } else if (f->type == PROTOBUF_C_TYPE_STRING) {
        /* what was not sent is a constant */
        text = *(char **)value;
        if (text && text != (const char *)f->default_value && *text)
            hb_text_clean(text, strlen(text));
    }
}

void hb_message_clean(ProtobufCMessage *m)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        char *at = (char *)m + f->offset;
        if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
            *(const unsigned *)(const void *)((const char *)m + f->quantifier_offset) != f->id)
            continue;
        if (f->label != PROTOBUF_C_LABEL_REPEATED) {
            clean_field(f, at);
        } else if (f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING) {
            size_t n = *(const size_t *)(const void *)((const char *)m + f->quantifier_offset);
            void **value = *(void ***)(void *)at;
            for (size_t k = 0; k < n; k++)
                clean_field(f, &value[k]);
        }
    }
}

bool hb_status_complete(Hilbert__V1__Status *s)
{
    for (unsigned i = 0; i < s->base.descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &s->base.descriptor->fields[i];
        void **at = (void **)(void *)((char *)s + f->offset);
        if (f->type != PROTOBUF_C_TYPE_MESSAGE || f->label == PROTOBUF_C_LABEL_REPEATED || *at ||
            f->descriptor == &hilbert__v1__shadow__descriptor || f->descriptor == &hilbert__v1__recorder__descriptor)
            continue;
        const ProtobufCMessageDescriptor *d = f->descriptor;
        if (!(*at = calloc(1, d->sizeof_message)))
            return false;
        protobuf_c_message_init(d, *at);
    }
    if (s->shadow && !s->shadow->health) {
        if (!(s->shadow->health = calloc(1, sizeof *s->shadow->health)))
            return false;
        hilbert__v1__health__init(s->shadow->health);
    }
    return true;
}
