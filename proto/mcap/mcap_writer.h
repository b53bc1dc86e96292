/* Writes MCAP files: chunks compressed with zstd, with message index, chunk index, statistics and checksums.
 *
 * Everything is allocated by hb_mcap_writer_new; the same writer then writes one file after the other. What is written
 * reaches the file a chunk at a time: a file that is cut off later can be read up to its last whole chunk. A write that
 * fails (disk full) is taken back, so that the file ends with a whole record; the chunk is lost. */
#ifndef HB_MCAP_WRITER_H
#define HB_MCAP_WRITER_H

#include <stdbool.h>

#include "base/base.h"

enum { HB_MCAP_CHANNELS = 32 }; /* of one file that we write, and as many schemas */

typedef struct hb_mcap_writer hb_mcap_writer;

typedef struct hb_mcap_writer_settings {
    size_t chunk_size; /* bytes of messages, uncompressed, from which on a chunk is written */
    size_t message;    /* the largest message, bytes */
    int chunks;        /* of one file, at most */
    int level;         /* of compression; 0: none */
} hb_mcap_writer_settings;

int hb_mcap_writer_new(hb_mcap_writer **ret, const hb_mcap_writer_settings *s, hb_error *err);
void hb_mcap_writer_free(hb_mcap_writer *w); /* closes no file */

/* Begins a file; the descriptor stays the caller's. The profile and the texts below must stay valid until the end. */
int hb_mcap_writer_begin(hb_mcap_writer *w, int fd, const char *profile, const char *library, hb_error *err);
/* Ids are 1, 2, ... in order; 0: too many, or too large. To be called before the first message. */
uint16_t hb_mcap_writer_schema(hb_mcap_writer *w, const char *name, const char *encoding, const void *data, size_t n);
uint16_t hb_mcap_writer_channel(hb_mcap_writer *w, uint16_t schema, const char *topic, const char *encoding);
/* What is said of a channel: n texts of `stride` bytes each, a name and its value in turn, which stay the caller's.
 * Also before the first message. false: there is no such channel, or it is too much. */
bool hb_mcap_writer_metadata(hb_mcap_writer *w, uint16_t channel, const char *texts, int n, size_t stride);
/* Times are nanoseconds. Writes a chunk when it is full. -EMSGSIZE: larger than any message may be. */
int hb_mcap_writer_message(hb_mcap_writer *w, uint16_t channel, uint32_t sequence, uint64_t log_time,
                           uint64_t publish_time, const void *data, size_t size, hb_error *err);
/* Writes what there is as a chunk. */
int hb_mcap_writer_flush(hb_mcap_writer *w, hb_error *err);
/* Writes the last chunk, the index and the footer. */
int hb_mcap_writer_end(hb_mcap_writer *w, hb_error *err);

uint64_t hb_mcap_writer_size(const hb_mcap_writer *w);    /* bytes of the file by now */
uint64_t hb_mcap_writer_waiting(const hb_mcap_writer *w); /* messages in the chunk that is not written yet */
bool hb_mcap_writer_full(const hb_mcap_writer *w);        /* no more chunks fit into the index: begin another file */

#endif
