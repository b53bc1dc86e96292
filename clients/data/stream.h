/* A file whose numbers stay on disk: they are read where they lie, and pages that were looked at are given back before
 * they are many. So a data set may be larger than memory.
 *
 *     hb_stream_at -> rows in the file, as in memory        hb_stream_touch -> after reading them
 *
 * The kernel may map up to 64 KB about a number that is read; that is what a touch counts. */
#ifndef HB_STREAM_H
#define HB_STREAM_H

#include <stddef.h>

#include "base/base.h"

enum { HB_STREAM_MEMORY = 64 << 20 }; /* bytes of a data set in memory at a time, about */

typedef struct hb_stream hb_stream;

int hb_stream_open(hb_stream **ret, const char *path, hb_error *err);
void hb_stream_free(hb_stream *s);

/* count doubles at an offset of the file; NULL: they do not lie wholly in it, or not on a multiple of 8 bytes. */
const double *hb_stream_at(const hb_stream *s, size_t offset, size_t count);

/* So many bytes in a row were read. Threads may call it at a time; nobody's pointers become invalid. s may be NULL. */
void hb_stream_touch(hb_stream *s, size_t bytes);
/* Bytes that this file may have in memory at a time; HB_STREAM_MEMORY at first. */
void hb_stream_limit(hb_stream *s, size_t bytes);
/* Leaves nothing of it in memory until it is read again. */
void hb_stream_give_back(hb_stream *s);

#endif
