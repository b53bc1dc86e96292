/* Any protobuf-c message as JSON, by its descriptor: a field is written once, in hilbert.proto.
 *
 * Names are those of the .proto; enumerators are written as lower-case words without their prefix
 * (ACTION_STATUS_WARMING_UP is "warming-up"); fixed64 (hashes) is a string of 16 hexadecimal digits; numbers that are
 * not finite are null; oneof members are written when they are set, sub-messages when they are present. */
#ifndef HILBERT_JSON_H
#define HILBERT_JSON_H

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

/* Writes at most size bytes, always terminated when size > 0. Returns the length that the whole has (as snprintf). */
size_t hb_json_write(const ProtobufCMessage *message, char *text, size_t size);

/* The word of an enumerator, as above, into `word`; the number when it is unknown. Returns word. */
const char *hb_json_word(const ProtobufCEnumDescriptor *type, int value, char *word, size_t size);

/* Where field `name` of a message lies, NULL when it has none: for filling counters by their names ('-' in a name
 * stands for '_'). */
void *hb_json_field(const ProtobufCMessage *message, const char *name);

#endif
