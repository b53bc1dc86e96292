/* A bump allocator for protobuf-c: unpacked messages live in one fixed block and are forgotten all at once.
 *
 * Unpacking takes a few times the size of the message; what does not fit makes protobuf-c's unpack return NULL, which
 * is an error like any other. */
#ifndef HILBERT_BUMP_H
#define HILBERT_BUMP_H

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

typedef struct hb_bump {
    char *base;
    size_t size, used;
    ProtobufCAllocator allocator; /* pass it to ..._unpack */
} hb_bump;

/* The block is the caller's; it must be aligned for any type. */
void hb_bump_start(hb_bump *b, void *block, size_t size);
/* Forgets everything that was unpacked. */
void hb_bump_clear(hb_bump *b);
/* n zeroed bytes from the same block; NULL when it is full. */
void *hb_bump_take(hb_bump *b, size_t n);

#endif
