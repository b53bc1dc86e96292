/* Numbers as people read them. */
#ifndef HB_CTL_SHOW_H
#define HB_CTL_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

/* A short text by value, so that several fit into one printf. */
typedef struct show_word {
    char text[48];
} show_word;

show_word show_us(uint64_t us, int width); /* "3.91 ms", right-aligned in width */
show_word show_span(double seconds);       /* "3 min 12 s" */
show_word show_ago(double seconds);        /* "12 ms ago" */

/* The newest `width` of n values as a line of bars between 0 (or the smallest, when negative) and the largest. */
void show_spark(const double *value, int n, int width, char *text, size_t size);

/* A message as one line of JSON on standard output; false when memory is short. */
bool show_json(const ProtobufCMessage *m);

#endif
