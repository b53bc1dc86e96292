/* Reads MCAP files, whole ones and such as were cut off: messages in the order of the file, up to the last whole record
 * of the last whole chunk.
 *
 *     hb_mcap_reader *r;
 *     hb_mcap_message m;
 *     int got = hb_mcap_reader_open(&r, path, &err);
 *     while (!got && (got = hb_mcap_reader_next(r, &m, &err)) > 0)
 *         use(m.channel->topic, m.log_time, m.data, m.size);     valid until the next call
 *     if (got < 0) ... err.text: "FILE: offset 1234: what is wrong"
 *     hb_mcap_reader_free(r);
 *
 * A checksum that is wrong, or a record that makes no sense, is an error with its offset. Chunks are stored as they are
 * or with zstd. */
#ifndef HB_MCAP_READER_H
#define HB_MCAP_READER_H

#include <stdbool.h>

#include "base/base.h"

typedef struct hb_mcap_schema {
    uint16_t id;
    char *name, *encoding;
    uint8_t *data;
    size_t size;
} hb_mcap_schema;

typedef struct hb_mcap_channel {
    uint16_t id, schema_id;
    char *topic, *encoding;
    const hb_mcap_schema *schema; /* NULL: it has none */
} hb_mcap_channel;

typedef struct hb_mcap_message {
    const hb_mcap_channel *channel;
    uint32_t sequence;
    uint64_t log_time, publish_time; /* nanoseconds */
    const uint8_t *data;
    size_t size;
} hb_mcap_message;

/* What the end of a file says of it. */
typedef struct hb_mcap_summary {
    uint64_t messages;
    uint32_t chunks, channels, schemas;
    uint64_t start, end; /* of log_time */
} hb_mcap_summary;

typedef struct hb_mcap_reader hb_mcap_reader;

/* The file is mapped. -errno, also for a file that does not begin as MCAP, or whose index is damaged. */
int hb_mcap_reader_open(hb_mcap_reader **ret, const char *path, hb_error *err);
/* Without looking at the index, which may be damaged. */
int hb_mcap_reader_open_damaged(hb_mcap_reader **ret, const char *path, hb_error *err);
/* The same of bytes in memory, which must stay; the name is for errors. */
int hb_mcap_reader_of(hb_mcap_reader **ret, const char *name, const void *data, size_t size, hb_error *err);
void hb_mcap_reader_free(hb_mcap_reader *r);

/* 1 and the next message, 0 at the end, -errno when the file is damaged there. */
int hb_mcap_reader_next(hb_mcap_reader *r, hb_mcap_message *ret, hb_error *err);
/* From the beginning once more. */
void hb_mcap_reader_rewind(hb_mcap_reader *r);
/* After an error in a chunk: goes on behind it. False when there is nothing behind it. */
bool hb_mcap_reader_skip(hb_mcap_reader *r);

/* NULL: the file has no index. */
const hb_mcap_summary *hb_mcap_reader_summary(const hb_mcap_reader *r);
/* Once the end was reached: whether the file was cut off, and where. A whole file ends with DataEnd. */
bool hb_mcap_reader_cut(const hb_mcap_reader *r, uint64_t *ret_offset);
const char *hb_mcap_reader_profile(const hb_mcap_reader *r);
/* Of those seen so far, or named by the index: the i-th, NULL behind the last. */
const hb_mcap_channel *hb_mcap_reader_channel(const hb_mcap_reader *r, int i);

/* Writes what can be read of a file to another one, with an index. Returns 0 or -errno. */
typedef struct hb_mcap_recovered {
    uint64_t messages;
    uint64_t damaged; /* chunks that were left out */
    bool cut;
    uint64_t cut_at;
} hb_mcap_recovered;

int hb_mcap_recover(const char *from, const char *to, hb_mcap_recovered *ret, hb_error *err);

#endif
