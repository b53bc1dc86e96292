#include "mcap/mcap_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

#include "mcap/mcap.h"

enum { MOST = 1 << 28 }; /* bytes of a chunk, uncompressed */

/* Bytes that are read one after the other; reading beyond them gives zeros and is remembered. */
typedef struct cursor {
    const uint8_t *p, *end;
    bool beyond;
} cursor;

typedef struct record {
    uint8_t kind;
    const uint8_t *data;
    uint64_t size;
} record;

struct hb_mcap_reader {
    char *name;
    const uint8_t *data;
    size_t size;
    void *mapped; /* NULL: the bytes are the caller's */

    char *profile;
    uint64_t data_start;
    hb_mcap_schema **schema; /* in the order in which they came */
    int nschemas;
    hb_mcap_channel **channel;
    int nchannels;
    bool indexed, distrusted; /* there is an index; it is not looked at */
    hb_mcap_summary summary;

    uint64_t at;      /* offset of the next record */
    uint8_t *records; /* of the current chunk, when it was compressed */
    size_t capacity;
    cursor chunk;      /* what is left of the current chunk */
    uint64_t chunk_at; /* its offset */
    bool ended, cut;
    uint64_t cut_at;
};

/* ---- bytes ---- */

static const uint8_t *take(cursor *c, uint64_t n)
{
    const uint8_t *p = c->p;

    if (n > (uint64_t)(c->end - c->p)) {
        c->beyond = true;
        c->p = c->end;
        return NULL;
    }
    c->p += n;
    return p;
}

static uint64_t number(cursor *c, int bytes)
{
    const uint8_t *p = take(c, (uint64_t)bytes);
    uint64_t value = 0;

    for (int i = 0; p && i < bytes; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

/* A copy of a string; NULL beyond the end or without memory. */
static char *text(cursor *c)
{
    uint64_t n = number(c, 4);
    const uint8_t *p = take(c, n);

    return p ? strndup((const char *)p, n) : NULL;
}

/* False: not whole. */
static bool next_record(cursor *c, record *ret)
{
    cursor ahead = *c;

    ret->kind = (uint8_t)number(&ahead, 1);
    ret->size = number(&ahead, 8);
    ret->data = take(&ahead, ret->size);
    if (ahead.beyond)
        return false;
    *c = ahead;
    return true;
}

static int damaged(const hb_mcap_reader *r, uint64_t offset, const char *what, hb_error *err)
{
    return hb_fail(err, EBADMSG, "%s: offset %" PRIu64 ": %s", r->name, offset, what);
}

static cursor content(const record *r)
{
    return (cursor){.p = r->data, .end = r->data + r->size};
}

/* ---- schemas and channels ---- */

static hb_mcap_schema *find_schema(const hb_mcap_reader *r, uint16_t id)
{
    for (int i = 0; i < r->nschemas; i++)
        if (r->schema[i]->id == id)
            return r->schema[i];
    return NULL;
}

static const hb_mcap_channel *find_channel(const hb_mcap_reader *r, uint16_t id)
{
    for (int i = 0; i < r->nchannels; i++)
        if (r->channel[i]->id == id)
            return r->channel[i];
    return NULL;
}

static void free_schema(hb_mcap_schema *s)
{
    free(s->name);
    free(s->encoding);
    free(s->data);
    free(s);
}

static void free_channel(hb_mcap_channel *c)
{
    free(c->topic);
    free(c->encoding);
    free(c);
}

/* One that is known already is the same once more. */
static int take_schema(hb_mcap_reader *r, const record *of, uint64_t offset, hb_error *err)
{
    cursor c = content(of);
    uint16_t id = (uint16_t)number(&c, 2);

    if (id == 0)
        return damaged(r, offset, "a schema with the id 0", err);
    if (find_schema(r, id))
        return 0;
    hb_mcap_schema *s = calloc(1, sizeof *s);
    hb_mcap_schema **all = realloc(r->schema, (size_t)(r->nschemas + 1) * sizeof *all);
    r->schema = all ? all : r->schema;
    if (!s || !all) {
        free(s);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    s->id = id;
    s->name = text(&c);
    s->encoding = text(&c);
    uint64_t n = number(&c, 4);
    const uint8_t *data = take(&c, n);
    s->size = data ? n : 0;
    s->data = malloc(s->size + 1);
    if (c.beyond || !s->name || !s->encoding || !s->data) {
        free_schema(s);
        return c.beyond ? damaged(r, offset, "a schema that ends too soon", err)
                        : hb_fail(err, ENOMEM, "out of memory");
    }
    if (s->size)
        memcpy(s->data, data, s->size);
    r->schema[r->nschemas++] = s;
    return 0;
}

static int take_channel(hb_mcap_reader *r, const record *of, uint64_t offset, hb_error *err)
{
    cursor c = content(of);
    uint16_t id = (uint16_t)number(&c, 2), schema = (uint16_t)number(&c, 2);

    if (!c.beyond && find_channel(r, id))
        return 0;
    hb_mcap_channel *it = calloc(1, sizeof *it);
    hb_mcap_channel **all = realloc(r->channel, (size_t)(r->nchannels + 1) * sizeof *all);
    r->channel = all ? all : r->channel;
    if (!it || !all) {
        free(it);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    it->id = id;
    it->schema_id = schema;
    it->topic = text(&c);
    it->encoding = text(&c);
    it->schema = find_schema(r, schema);
    if (c.beyond || !it->topic || !it->encoding) {
        free_channel(it);
        return c.beyond ? damaged(r, offset, "a channel that ends too soon", err)
                        : hb_fail(err, ENOMEM, "out of memory");
    }
    if (schema != 0 && !it->schema) {
        free_channel(it);
        return damaged(r, offset, "a channel whose schema is not in the file", err);
    }
    r->channel[r->nchannels++] = it;
    return 0;
}

/* ---- the index ---- */

static int take_statistics(hb_mcap_reader *r, const record *of, uint64_t offset, hb_error *err)
{
    cursor c = content(of);
    hb_mcap_summary *s = &r->summary;

    s->messages = number(&c, 8);
    s->schemas = (uint32_t)number(&c, 2);
    s->channels = (uint32_t)number(&c, 4);
    number(&c, 8);
    s->chunks = (uint32_t)number(&c, 4);
    s->start = number(&c, 8);
    s->end = number(&c, 8);
    r->indexed = !c.beyond;
    return c.beyond ? damaged(r, offset, "statistics that end too soon", err) : 0;
}

static int take_summary(hb_mcap_reader *r, uint64_t from, uint64_t end, hb_error *err)
{
    cursor c = {.p = r->data + from, .end = r->data + end};
    record it;
    int failed = 0;

    while (c.p < c.end && !failed) {
        uint64_t offset = (uint64_t)(c.p - r->data);
        if (!next_record(&c, &it))
            return damaged(r, offset, "a record of the index ends too soon", err);
        if (it.kind == HB_MCAP_SCHEMA)
            failed = take_schema(r, &it, offset, err);
        else if (it.kind == HB_MCAP_CHANNEL)
            failed = take_channel(r, &it, offset, err);
        else if (it.kind == HB_MCAP_STATISTICS)
            failed = take_statistics(r, &it, offset, err);
    }
    return failed;
}

/* A file without the closing magic was cut off: it has no index, and is read from the beginning. */
static int read_index(hb_mcap_reader *r, hb_error *err)
{
    const size_t tail = HB_MCAP_RECORD_SIZE + HB_MCAP_FOOTER_SIZE + HB_MCAP_MAGIC_SIZE;

    if (r->distrusted || r->size < r->data_start + tail ||
        memcmp(r->data + r->size - HB_MCAP_MAGIC_SIZE, hb_mcap_magic, HB_MCAP_MAGIC_SIZE) != 0)
        return 0;
    const uint64_t footer = r->size - tail;
    cursor c = {.p = r->data + footer, .end = r->data + r->size - HB_MCAP_MAGIC_SIZE};
    record it;
    if (!next_record(&c, &it) || it.kind != HB_MCAP_FOOTER || c.p != c.end)
        return damaged(r, footer, "no footer before the closing magic", err);
    c = content(&it);
    uint64_t start = number(&c, 8), offsets = number(&c, 8);
    uint32_t crc = (uint32_t)number(&c, 4);
    if (start == 0)
        return 0;
    if (start < r->data_start || start > footer || (offsets != 0 && (offsets < start || offsets > footer)))
        return damaged(r, footer, "the footer points outside the file", err);
    if (crc && crc != hb_mcap_crc(0, r->data + start, (size_t)(footer - start) + HB_MCAP_RECORD_SIZE + 16))
        return damaged(r, start, "the checksum of the index is wrong", err);
    return take_summary(r, start, offsets ? offsets : footer, err);
}

/* ---- life ---- */

static int read_header(hb_mcap_reader *r, hb_error *err)
{
    cursor c = {.p = r->data, .end = r->data + r->size};
    const uint8_t *magic = take(&c, HB_MCAP_MAGIC_SIZE);
    record it;

    if (!magic || memcmp(magic, hb_mcap_magic, HB_MCAP_MAGIC_SIZE) != 0)
        return damaged(r, 0, "this is no MCAP file", err);
    if (!next_record(&c, &it) || it.kind != HB_MCAP_HEADER)
        return damaged(r, HB_MCAP_MAGIC_SIZE, "no header", err);
    cursor inside = content(&it);
    r->profile = text(&inside);
    if (!r->profile)
        return damaged(r, HB_MCAP_MAGIC_SIZE, "a header that ends too soon", err);
    r->data_start = (uint64_t)(c.p - r->data);
    return read_index(r, err);
}

static int read_bytes(hb_mcap_reader **ret, const char *name, const void *data, size_t size, bool distrusted,
                      hb_error *err)
{
    hb_mcap_reader *r = calloc(1, sizeof *r);

    if (!r || !(r->name = strdup(name))) {
        free(r);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    r->data = data;
    r->size = size;
    r->distrusted = distrusted;
    int failed = read_header(r, err);
    if (failed) {
        hb_mcap_reader_free(r);
        return failed;
    }
    hb_mcap_reader_rewind(r);
    *ret = r;
    return 0;
}

int hb_mcap_reader_of(hb_mcap_reader **ret, const char *name, const void *data, size_t size, hb_error *err)
{
    return read_bytes(ret, name, data, size, false, err);
}

static int read_file(hb_mcap_reader **ret, const char *path, bool distrusted, hb_error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < HB_MCAP_MAGIC_SIZE) {
        close(fd);
        return hb_fail(err, EBADMSG, "%s: offset 0: this is no MCAP file", path);
    }
    void *mapped = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int why = errno;
    close(fd);
    if (mapped == MAP_FAILED)
        return hb_fail(err, why, "%s: %s", path, strerror(why));
    int r = read_bytes(ret, path, mapped, (size_t)st.st_size, distrusted, err);
    if (r)
        munmap(mapped, (size_t)st.st_size);
    else
        (*ret)->mapped = mapped;
    return r;
}

int hb_mcap_reader_open(hb_mcap_reader **ret, const char *path, hb_error *err)
{
    return read_file(ret, path, false, err);
}

int hb_mcap_reader_open_damaged(hb_mcap_reader **ret, const char *path, hb_error *err)
{
    return read_file(ret, path, true, err);
}

void hb_mcap_reader_free(hb_mcap_reader *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->nschemas; i++)
        free_schema(r->schema[i]);
    for (int i = 0; i < r->nchannels; i++)
        free_channel(r->channel[i]);
    if (r->mapped)
        munmap(r->mapped, r->size);
    free(r->schema);
    free(r->channel);
    free(r->records);
    free(r->profile);
    free(r->name);
    free(r);
}

/* ---- messages ---- */

void hb_mcap_reader_rewind(hb_mcap_reader *r)
{
    r->at = r->data_start;
    r->chunk = (cursor){0};
    r->ended = r->cut = false;
}

static int take_message(hb_mcap_reader *r, const record *of, uint64_t offset, hb_mcap_message *ret, hb_error *err)
{
    cursor c = content(of);
    uint16_t id = (uint16_t)number(&c, 2);

    *ret = (hb_mcap_message){.channel = find_channel(r, id)};
    ret->sequence = (uint32_t)number(&c, 4);
    ret->log_time = number(&c, 8);
    ret->publish_time = number(&c, 8);
    ret->data = c.p;
    ret->size = (size_t)(c.end - c.p);
    if (c.beyond)
        return damaged(r, offset, "a message that ends too soon", err);
    if (!ret->channel)
        return damaged(r, offset, "a message of a channel that is not in the file", err);
    return 1;
}

static int expand(hb_mcap_reader *r, const uint8_t *data, uint64_t compressed, uint64_t size, hb_error *err)
{
    if (size > r->capacity) {
        uint8_t *larger = realloc(r->records, (size_t)size);
        if (!larger)
            return hb_fail(err, ENOMEM, "out of memory");
        r->records = larger;
        r->capacity = (size_t)size;
    }
    size_t n = ZSTD_decompress(r->records, (size_t)size, data, (size_t)compressed);
    if (ZSTD_isError(n) || n != size)
        return damaged(r, r->chunk_at, "a chunk that cannot be decompressed", err);
    return 0;
}

static int enter_chunk(hb_mcap_reader *r, const record *of, hb_error *err)
{
    cursor c = content(of);

    take(&c, 16); /* times of the first and last message */
    uint64_t size = number(&c, 8);
    uint32_t crc = (uint32_t)number(&c, 4);
    uint64_t n = number(&c, 4);
    const uint8_t *compression = take(&c, n);
    uint64_t compressed = number(&c, 8);
    const uint8_t *data = take(&c, compressed);
    if (c.beyond)
        return damaged(r, r->chunk_at, "a chunk whose parts do not fit into it", err);
    if (size > MOST)
        return damaged(r, r->chunk_at, "a chunk of more than 256 MB", err);
    if (n == 0 && compressed != size)
        return damaged(r, r->chunk_at, "a chunk of two sizes", err);
    if (n != 0 && (n != 4 || memcmp(compression, "zstd", 4) != 0))
        return hb_fail(err, ENOTSUP,
                       "%s: offset %" PRIu64 ": chunks compressed with '%.*s' cannot be read, only zstd "
                       "(mcap compress --compression zstd converts)",
                       r->name, r->chunk_at, n < 16 ? (int)n : 16, (const char *)compression);
    if (n != 0) {
        int failed = expand(r, data, compressed, size, err);
        if (failed)
            return failed;
        data = r->records;
    }
    if (crc && crc != hb_mcap_crc(0, data, (size_t)size))
        return damaged(r, r->chunk_at, "the checksum of a chunk is wrong", err);
    r->chunk = (cursor){.p = data, .end = data ? data + size : NULL};
    return 0;
}

/* The end of the messages; with a checksum of all that came before it. */
static int finish(hb_mcap_reader *r, const record *end, hb_error *err)
{
    cursor c = content(end);
    uint32_t crc = end->kind == HB_MCAP_DATA_END ? (uint32_t)number(&c, 4) : 0;

    r->ended = true;
    if (end->kind == HB_MCAP_FOOTER)
        return damaged(r, r->at, "a footer without the end of the data before it", err);
    if (crc && crc != hb_mcap_crc(0, r->data, (size_t)r->at))
        return damaged(r, r->at, "the checksum of all that is before is wrong", err);
    return 0;
}

/* The next record of the file, outside chunks; 0 at the end. */
static int next_outside(hb_mcap_reader *r, record *ret, hb_error *err)
{
    cursor c = {.p = r->data + r->at, .end = r->data + r->size};

    if (r->ended)
        return 0;
    if (!next_record(&c, ret)) {
        r->ended = r->cut = true;
        r->cut_at = r->at;
        return 0;
    }
    if (ret->kind == HB_MCAP_DATA_END || ret->kind == HB_MCAP_FOOTER)
        return finish(r, ret, err);
    r->chunk_at = r->at;
    r->at = (uint64_t)(c.p - r->data);
    return 1;
}

int hb_mcap_reader_next(hb_mcap_reader *r, hb_mcap_message *ret, hb_error *err)
{
    record it;

    for (;;) {
        int failed = 0;
        bool inside = r->chunk.p < r->chunk.end;
        if (inside && !next_record(&r->chunk, &it)) {
            r->chunk = (cursor){0};
            return damaged(r, r->chunk_at, "a record of a chunk ends too soon", err);
        }
        int more = inside ? 1 : next_outside(r, &it, err);
        if (more <= 0)
            return more;
        switch (it.kind) {
        case HB_MCAP_MESSAGE:
            return take_message(r, &it, r->chunk_at, ret, err);
        case HB_MCAP_SCHEMA:
            failed = take_schema(r, &it, r->chunk_at, err);
            break;
        case HB_MCAP_CHANNEL:
            failed = take_channel(r, &it, r->chunk_at, err);
            break;
        case HB_MCAP_CHUNK:
            failed = inside ? damaged(r, r->chunk_at, "a chunk within a chunk", err) : enter_chunk(r, &it, err);
            break;
        case 0:
            failed = damaged(r, r->chunk_at, "a record of kind 0", err);
            break;
        default:
            break; /* what is not for us */
        }
        if (failed)
            return failed;
    }
}

bool hb_mcap_reader_skip(hb_mcap_reader *r)
{
    r->chunk = (cursor){0};
    return !r->ended && r->at < r->size;
}

const hb_mcap_summary *hb_mcap_reader_summary(const hb_mcap_reader *r)
{
    return r->indexed ? &r->summary : NULL;
}

bool hb_mcap_reader_cut(const hb_mcap_reader *r, uint64_t *ret_offset)
{
    if (ret_offset)
        *ret_offset = r->cut_at;
    return r->cut;
}

const char *hb_mcap_reader_profile(const hb_mcap_reader *r)
{
    return r->profile;
}

const hb_mcap_channel *hb_mcap_reader_channel(const hb_mcap_reader *r, int i)
{
    return i < r->nchannels ? r->channel[i] : NULL;
}
