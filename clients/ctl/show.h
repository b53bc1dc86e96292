/* Numbers as people read them. */
#ifndef HB_CTL_SHOW_H
#define HB_CTL_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hilbert.pb-c.h"

/* A short text by value, so that several fit into one printf. */
typedef struct show_word {
    char text[48];
} show_word;

show_word show_us(uint64_t us, int width); /* "3.91 ms", right-aligned in width */
show_word show_span(double seconds);       /* "3 min 12 s" */
show_word show_ago(double seconds);        /* "12 ms ago" */

typedef struct show_line {
    char text[240];
} show_line;

/* "effective_mass 0.0221 +- 0.0003 kg (was 0.0340)" */
show_line show_learned(const Hilbert__V1__Word *w);
/* "distance x y z 71 %, slew f0 f1 f2 f3 20 %": the largest terms of the newest plan's cost, at most so many; empty:
 * nothing was planned. */
show_line show_terms(const Hilbert__V1__Status *s, int most);

/* The newest `width` of n values as a line of bars between 0 (or the smallest, when negative) and the largest. */
void show_spark(const double *value, int n, int width, char *text, size_t size);

/* A message as one line of JSON on standard output; false when memory is short. */
bool show_json(const ProtobufCMessage *m);

#endif
