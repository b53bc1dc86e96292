#define ZSTD_STATIC_LINKING_ONLY /* for a context in memory of our own: nothing is allocated while writing */
#include "mcap/mcap_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

#include "mcap/mcap.h"

enum { DESCRIPTION = 1 << 18 }; /* bytes of a schema, or of anything else outside chunks, at most */

typedef struct schema {
    const char *name, *encoding;
    const void *data;
    size_t size;
} schema;

typedef struct channel {
    uint16_t schema;
    const char *topic, *encoding;
    const char *metadata; /* nmetadata texts of `stride` bytes each: name, value, name, value ... */
    int nmetadata;
    size_t stride;
    uint64_t messages;
    uint32_t in_chunk; /* messages of the current chunk */
} channel;

typedef struct entry {
    uint64_t time, offset; /* of a message in the chunk */
    uint16_t channel;
} entry;

typedef struct chunk {
    uint64_t start, end; /* times of its messages */
    uint64_t offset, length;
    uint64_t index_length;
    uint64_t compressed, size;
    uint32_t index[HB_MCAP_CHANNELS]; /* bytes from the end of the chunk to a channel's index, and 1; 0: none */
} chunk;

struct hb_mcap_writer {
    hb_mcap_writer_settings s;
    size_t records_size, out_size, max_entries;
    uint8_t *records; /* of the current chunk */
    uint8_t *out;     /* what is written next */
    void *memory;     /* of the compressor */
    size_t memory_size;
    ZSTD_CCtx *compressor;
    entry *entry; /* messages of the current chunk */
    chunk *chunk; /* written */

    /* of the current file */
    int fd;
    uint64_t position;
    uint32_t crc; /* of all that was written to it */
    size_t used, filled;
    size_t nentries;
    uint64_t start, end; /* times of the current chunk */
    int nchunks, nschemas, nchannels;
    schema schema[HB_MCAP_CHANNELS];
    channel channel[HB_MCAP_CHANNELS];
    bool described; /* schemas and channels are in the file */
    uint64_t messages, first, last;
};

/* ---- bytes ---- */

/* Room is reckoned beforehand: out_size holds the largest of what is put together there. */
static void put(hb_mcap_writer *w, const void *data, size_t size)
{
    if (size)
        memcpy(w->out + w->filled, data, size);
    w->filled += size;
}

static void put_number(hb_mcap_writer *w, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        w->out[w->filled++] = (uint8_t)(value >> (8 * i));
}

static void put_text(hb_mcap_writer *w, const char *text)
{
    put_number(w, strlen(text), 4);
    put(w, text, strlen(text));
}

/* Begins a record; returns where, for end_record. */
static size_t begin_record(hb_mcap_writer *w, hb_mcap_kind kind)
{
    put_number(w, kind, 1);
    put_number(w, 0, 8);
    return w->filled;
}

static void end_record(hb_mcap_writer *w, size_t from)
{
    uint64_t length = w->filled - from;

    for (int i = 0; i < 8; i++)
        w->out[from - 8 + (size_t)i] = (uint8_t)(length >> (8 * i));
}

/* Writes `out`, or nothing. */
static int send_out(hb_mcap_writer *w, hb_error *err)
{
    size_t done = 0;

    while (done < w->filled) {
        ssize_t n = write(w->fd, w->out + done, w->filled - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int why = n < 0 ? errno : EIO;
            w->filled = 0;
            if (ftruncate(w->fd, (off_t)w->position) == 0)
                lseek(w->fd, (off_t)w->position, SEEK_SET);
            return hb_fail(err, why, "%s", strerror(why));
        }
        done += (size_t)n;
    }
    w->crc = hb_mcap_crc(w->crc, w->out, w->filled);
    w->position += w->filled;
    w->filled = 0;
    return 0;
}

/* ---- life ---- */

static hb_mcap_writer *lay_out(const hb_mcap_writer *sizes, hb_arena *arena)
{
    hb_mcap_writer *w = hb_arena_take(arena, 1, sizeof *w);
    uint8_t *records = hb_arena_take(arena, sizes->records_size, 1);
    uint8_t *out = hb_arena_take(arena, sizes->out_size, 1);
    void *memory = hb_arena_take(arena, sizes->memory_size, 1);
    entry *entries = hb_arena_take(arena, sizes->max_entries, sizeof *entries);
    chunk *chunks = hb_arena_take(arena, (size_t)sizes->s.chunks, sizeof *chunks);

    if (w) {
        *w = *sizes;
        w->records = records;
        w->out = out;
        w->memory = memory;
        w->entry = entries;
        w->chunk = chunks;
    }
    return w;
}

int hb_mcap_writer_new(hb_mcap_writer **ret, const hb_mcap_writer_settings *s, hb_error *err)
{
    hb_mcap_writer sizes = {.s = *s, .fd = -1};
    hb_arena arena = {0};

    if (s->chunk_size < 1024 || s->chunk_size > (1u << 28) || s->message > (1u << 28) || s->chunks < 1 || s->level < 0)
        return hb_fail(err, EINVAL, "mcap: chunks of %zu bytes, expected 1024 to 2^28", s->chunk_size);
    sizes.records_size = s->chunk_size + s->message + HB_MCAP_RECORD_SIZE + HB_MCAP_MESSAGE_SIZE;
    sizes.max_entries = s->chunk_size / (HB_MCAP_RECORD_SIZE + HB_MCAP_MESSAGE_SIZE) + 2;
    sizes.out_size = ZSTD_compressBound(sizes.records_size) + sizes.max_entries * HB_MCAP_INDEX_ENTRY +
                     HB_MCAP_CHANNELS * (HB_MCAP_RECORD_SIZE + 6) + DESCRIPTION;
    sizes.memory_size = s->level ? ZSTD_estimateCCtxSize(s->level) : 0;
    lay_out(&sizes, &arena);
    int r = hb_arena_allocate(&arena, err);
    if (r)
        return r;
    hb_mcap_writer *w = lay_out(&sizes, &arena);
    w->compressor = s->level ? ZSTD_initStaticCCtx(w->memory, w->memory_size) : NULL;
    if (s->level && !w->compressor) {
        hb_mcap_writer_free(w);
        return hb_fail(err, EINVAL, "mcap: no compressor of level %d", s->level);
    }
    *ret = w;
    return 0;
}

void hb_mcap_writer_free(hb_mcap_writer *w)
{
    free(w);
}

int hb_mcap_writer_begin(hb_mcap_writer *w, int fd, const char *profile, const char *library, hb_error *err)
{
    w->fd = fd;
    w->position = w->crc = 0;
    w->used = w->filled = w->nentries = 0;
    w->nchunks = w->nschemas = w->nchannels = 0;
    w->described = false;
    w->messages = w->first = w->last = 0;
    put(w, hb_mcap_magic, sizeof hb_mcap_magic);
    size_t at = begin_record(w, HB_MCAP_HEADER);
    put_text(w, profile);
    put_text(w, library);
    end_record(w, at);
    return send_out(w, err);
}

uint16_t hb_mcap_writer_schema(hb_mcap_writer *w, const char *name, const char *encoding, const void *data, size_t n)
{
    if (w->nschemas == HB_MCAP_CHANNELS || n + strlen(name) + strlen(encoding) + 64 > DESCRIPTION)
        return 0;
    w->schema[w->nschemas] = (schema){.name = name, .encoding = encoding, .data = data, .size = n};
    return (uint16_t)++w->nschemas;
}

uint16_t hb_mcap_writer_channel(hb_mcap_writer *w, uint16_t of, const char *topic, const char *encoding)
{
    if (w->nchannels == HB_MCAP_CHANNELS || strlen(topic) + strlen(encoding) + 64 > DESCRIPTION)
        return 0;
    w->channel[w->nchannels] = (channel){.schema = of, .topic = topic, .encoding = encoding};
    return (uint16_t)++w->nchannels;
}

/* ---- records ---- */

static void put_schema(hb_mcap_writer *w, int i)
{
    const schema *s = &w->schema[i];
    size_t at = begin_record(w, HB_MCAP_SCHEMA);

    put_number(w, (uint64_t)i + 1, 2);
    put_text(w, s->name);
    put_text(w, s->encoding);
    put_number(w, s->size, 4);
    put(w, s->data, s->size);
    end_record(w, at);
}

static size_t metadata_size(const channel *c)
{
    size_t n = 0;

    for (int k = 0; k < c->nmetadata; k++)
        n += 4 + strlen(c->metadata + (size_t)k * c->stride);
    return n;
}

bool hb_mcap_writer_metadata(hb_mcap_writer *w, uint16_t id, const char *texts, int n, size_t stride)
{
    channel *c = id && id <= w->nchannels ? &w->channel[id - 1] : NULL;

    if (!c)
        return false;
    c->metadata = texts;
    c->nmetadata = n;
    c->stride = stride;
    if (metadata_size(c) + strlen(c->topic) + strlen(c->encoding) + 64 <= DESCRIPTION)
        return true;
    c->nmetadata = 0;
    return false;
}

static void put_channel(hb_mcap_writer *w, int i)
{
    const channel *c = &w->channel[i];
    size_t at = begin_record(w, HB_MCAP_CHANNEL);

    put_number(w, (uint64_t)i + 1, 2);
    put_number(w, c->schema, 2);
    put_text(w, c->topic);
    put_text(w, c->encoding);
    put_number(w, metadata_size(c), 4);
    for (int k = 0; k < c->nmetadata; k++)
        put_text(w, c->metadata + (size_t)k * c->stride);
    end_record(w, at);
}

/* Schemas go one by one, since each carries a description of all messages; channels stand before the first chunk. */
static int describe(hb_mcap_writer *w, hb_error *err)
{
    int r = 0;

    for (int i = 0; i < w->nschemas && !r; i++) {
        put_schema(w, i);
        r = send_out(w, err);
    }
    for (int i = 0; i < w->nchannels && !r; i++) {
        put_channel(w, i);
        r = send_out(w, err);
    }
    return r;
}

/* The messages of each channel, after the chunk that they are in. */
static void put_message_indices(hb_mcap_writer *w, chunk *c)
{
    size_t from = w->filled;

    for (int i = 0; i < w->nchannels; i++) {
        c->index[i] = 0;
        if (!w->channel[i].in_chunk)
            continue;
        c->index[i] = (uint32_t)(w->filled - from) + 1;
        size_t at = begin_record(w, HB_MCAP_MESSAGE_INDEX);
        put_number(w, (uint64_t)i + 1, 2);
        put_number(w, (uint64_t)w->channel[i].in_chunk * HB_MCAP_INDEX_ENTRY, 4);
        for (size_t k = 0; k < w->nentries; k++)
            if (w->entry[k].channel == i + 1) {
                put_number(w, w->entry[k].time, 8);
                put_number(w, w->entry[k].offset, 8);
            }
        end_record(w, at);
    }
    c->index_length = w->filled - from;
}

static int put_chunk(hb_mcap_writer *w, chunk *c, hb_error *err)
{
    size_t at = begin_record(w, HB_MCAP_CHUNK);

    *c = (chunk){.start = w->start, .end = w->end, .offset = w->position, .size = w->used};
    put_number(w, c->start, 8);
    put_number(w, c->end, 8);
    put_number(w, w->used, 8);
    put_number(w, hb_mcap_crc(0, w->records, w->used), 4);
    put_text(w, w->compressor ? "zstd" : "");
    size_t length = w->filled;
    put_number(w, 0, 8);
    if (w->compressor) {
        c->compressed = ZSTD_compressCCtx(w->compressor, w->out + w->filled, w->out_size - w->filled, w->records,
                                          w->used, w->s.level);
        if (ZSTD_isError(c->compressed)) {
            w->filled = 0;
            return hb_fail(err, EIO, "zstd: %s", ZSTD_getErrorName(c->compressed));
        }
        w->filled += c->compressed;
    } else {
        c->compressed = w->used;
        put(w, w->records, w->used);
    }
    for (int i = 0; i < 8; i++)
        w->out[length + (size_t)i] = (uint8_t)(c->compressed >> (8 * i));
    end_record(w, at);
    c->length = w->filled;
    put_message_indices(w, c);
    return send_out(w, err);
}

/* ---- what others call ---- */

static void put_in_chunk(hb_mcap_writer *w, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        w->records[w->used++] = (uint8_t)(value >> (8 * i));
}

int hb_mcap_writer_message(hb_mcap_writer *w, uint16_t of, uint32_t sequence, uint64_t log_time, uint64_t publish_time,
                           const void *data, size_t size, hb_error *err)
{
    if (size > w->s.message)
        return hb_fail(err, EMSGSIZE, "a message of %zu bytes, at most %zu fit", size, w->s.message);
    if (of < 1 || of > w->nchannels)
        return hb_fail(err, EINVAL, "there is no channel %d", of);
    if (w->nentries == 0)
        w->start = w->end = log_time;
    w->start = log_time < w->start ? log_time : w->start;
    w->end = log_time > w->end ? log_time : w->end;
    w->entry[w->nentries++] = (entry){.time = log_time, .offset = w->used, .channel = of};
    w->channel[of - 1].in_chunk++;
    put_in_chunk(w, HB_MCAP_MESSAGE, 1);
    put_in_chunk(w, HB_MCAP_MESSAGE_SIZE + size, 8);
    put_in_chunk(w, of, 2);
    put_in_chunk(w, sequence, 4);
    put_in_chunk(w, log_time, 8);
    put_in_chunk(w, publish_time, 8);
    if (size)
        memcpy(w->records + w->used, data, size);
    w->used += size;
    return w->used >= w->s.chunk_size ? hb_mcap_writer_flush(w, err) : 0;
}

int hb_mcap_writer_flush(hb_mcap_writer *w, hb_error *err)
{
    int r = 0;

    if (w->nentries > 0 && w->nchunks == w->s.chunks)
        r = hb_fail(err, ENOSPC, "the index of the file is full");
    if (!r && !w->described) {
        r = describe(w, err);
        w->described = !r;
    }
    if (!r && w->nentries > 0)
        r = put_chunk(w, &w->chunk[w->nchunks], err);
    if (!r && w->nentries > 0) {
        w->first = w->messages == 0 || w->start < w->first ? w->start : w->first;
        w->last = w->messages == 0 || w->end > w->last ? w->end : w->last;
        w->messages += w->nentries;
        w->nchunks++;
    }
    for (int i = 0; i < w->nchannels; i++) {
        w->channel[i].messages += r ? 0 : w->channel[i].in_chunk;
        w->channel[i].in_chunk = 0;
    }
    w->used = w->nentries = 0;
    return r;
}

static void put_statistics(hb_mcap_writer *w)
{
    size_t at = begin_record(w, HB_MCAP_STATISTICS);
    int counted = 0;

    for (int i = 0; i < w->nchannels; i++)
        counted += w->channel[i].messages > 0;
    put_number(w, w->messages, 8);
    put_number(w, (uint64_t)w->nschemas, 2);
    put_number(w, (uint64_t)w->nchannels, 4);
    put_number(w, 0, 4); /* attachments */
    put_number(w, 0, 4); /* metadata */
    put_number(w, (uint64_t)w->nchunks, 4);
    put_number(w, w->first, 8);
    put_number(w, w->last, 8);
    put_number(w, (uint64_t)counted * 10, 4);
    for (int i = 0; i < w->nchannels; i++)
        if (w->channel[i].messages) {
            put_number(w, (uint64_t)i + 1, 2);
            put_number(w, w->channel[i].messages, 8);
        }
    end_record(w, at);
}

static void put_chunk_index(hb_mcap_writer *w, const chunk *c)
{
    size_t at = begin_record(w, HB_MCAP_CHUNK_INDEX);
    int indexed = 0;

    for (int i = 0; i < w->nchannels; i++)
        indexed += c->index[i] > 0;
    put_number(w, c->start, 8);
    put_number(w, c->end, 8);
    put_number(w, c->offset, 8);
    put_number(w, c->length, 8);
    put_number(w, (uint64_t)indexed * 10, 4);
    for (int i = 0; i < w->nchannels; i++)
        if (c->index[i]) {
            put_number(w, (uint64_t)i + 1, 2);
            put_number(w, c->offset + c->length + c->index[i] - 1, 8);
        }
    put_number(w, c->index_length, 8);
    put_text(w, w->compressor ? "zstd" : "");
    put_number(w, c->compressed, 8);
    put_number(w, c->size, 8);
    end_record(w, at);
}

/* Groups of the summary: one kind of records each. */
typedef struct group {
    hb_mcap_kind kind;
    uint64_t start, length;
} group;

static int put_group(hb_mcap_writer *w, group *g, hb_error *err)
{
    int n = g->kind == HB_MCAP_SCHEMA        ? w->nschemas
            : g->kind == HB_MCAP_CHANNEL     ? w->nchannels
            : g->kind == HB_MCAP_CHUNK_INDEX ? w->nchunks
                                             : 1;
    int r = 0;

    g->start = w->position;
    for (int i = 0; i < n && !r; i++) {
        if (g->kind == HB_MCAP_SCHEMA)
            put_schema(w, i);
        else if (g->kind == HB_MCAP_CHANNEL)
            put_channel(w, i);
        else if (g->kind == HB_MCAP_CHUNK_INDEX)
            put_chunk_index(w, &w->chunk[i]);
        else
            put_statistics(w);
        r = send_out(w, err);
    }
    g->length = w->position - g->start;
    return r;
}

int hb_mcap_writer_end(hb_mcap_writer *w, hb_error *err)
{
    group groups[] = {{.kind = HB_MCAP_SCHEMA},
                      {.kind = HB_MCAP_CHANNEL},
                      {.kind = HB_MCAP_STATISTICS},
                      {.kind = HB_MCAP_CHUNK_INDEX}};
    const int ngroups = sizeof groups / sizeof *groups;
    int r = hb_mcap_writer_flush(w, err);

    if (r)
        return r;
    size_t at = begin_record(w, HB_MCAP_DATA_END);
    put_number(w, w->crc, 4);
    end_record(w, at);
    r = send_out(w, err);

    w->crc = 0; /* from here on: of the summary */
    uint64_t summary = w->position;
    for (int i = 0; i < ngroups && !r; i++)
        r = put_group(w, &groups[i], err);
    if (r)
        return r;

    uint64_t offsets = w->position;
    for (int i = 0; i < ngroups; i++) {
        if (!groups[i].length)
            continue;
        at = begin_record(w, HB_MCAP_SUMMARY_OFFSET);
        put_number(w, groups[i].kind, 1);
        put_number(w, groups[i].start, 8);
        put_number(w, groups[i].length, 8);
        end_record(w, at);
    }
    put_number(w, HB_MCAP_FOOTER, 1);
    put_number(w, HB_MCAP_FOOTER_SIZE, 8);
    put_number(w, summary, 8);
    put_number(w, offsets, 8);
    put_number(w, hb_mcap_crc(w->crc, w->out, w->filled), 4);
    put(w, hb_mcap_magic, sizeof hb_mcap_magic);
    return send_out(w, err);
}

uint64_t hb_mcap_writer_size(const hb_mcap_writer *w)
{
    return w->position;
}

uint64_t hb_mcap_writer_waiting(const hb_mcap_writer *w)
{
    return w->nentries;
}

bool hb_mcap_writer_full(const hb_mcap_writer *w)
{
    return w->nchunks >= w->s.chunks;
}
