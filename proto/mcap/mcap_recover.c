/* A file whose end is missing, or that is damaged, once more with all that can be read of it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcap/mcap_reader.h"
#include "mcap/mcap_writer.h"

enum { CHUNK = 1 << 20, LEVEL = 3 };

/* The channels of a file have ids of their own in the other one. */
typedef struct channels {
    uint16_t id[1 << 16];     /* there; 0: not seen yet */
    uint16_t schema[1 << 16]; /* likewise, of schemas */
} channels;

/* Goes through all that can be read. */
static int each(hb_mcap_reader *r, hb_mcap_recovered *ret, hb_error *err,
                int (*use)(void *context, const hb_mcap_message *m, hb_error *err), void *context)
{
    hb_mcap_message m;
    int got;

    for (;;) {
        while ((got = hb_mcap_reader_next(r, &m, err)) > 0)
            if ((got = use(context, &m, err)))
                return got;
        if (got == 0)
            return 0;
        if (got != -EBADMSG)
            return got;
        ret->damaged++;
        if (!hb_mcap_reader_skip(r))
            return 0;
    }
}

typedef struct survey {
    size_t largest;
    uint64_t messages, bytes;
} survey;

static int look(void *context, const hb_mcap_message *m, hb_error *err)
{
    survey *s = context;

    (void)err;
    s->largest = m->size > s->largest ? m->size : s->largest;
    s->messages++;
    s->bytes += m->size + 64;
    return 0;
}

typedef struct copying {
    hb_mcap_writer *writer;
    channels *known;
    uint64_t messages;
} copying;

static int copy(void *context, const hb_mcap_message *m, hb_error *err)
{
    copying *c = context;

    c->messages++;
    return hb_mcap_writer_message(c->writer, c->known->id[m->channel->id], m->sequence, m->log_time, m->publish_time,
                                  m->data, m->size, err);
}

static int describe(hb_mcap_reader *r, hb_mcap_writer *w, channels *known, hb_error *err)
{
    const hb_mcap_channel *c;

    for (int i = 0; (c = hb_mcap_reader_channel(r, i)); i++) {
        const hb_mcap_schema *s = c->schema;
        if (s && !known->schema[s->id] &&
            !(known->schema[s->id] = hb_mcap_writer_schema(w, s->name, s->encoding, s->data, s->size)))
            return hb_fail(err, ENOTSUP, "more than %d schemas, or one that is too large", (int)HB_MCAP_CHANNELS);
        known->id[c->id] = hb_mcap_writer_channel(w, s ? known->schema[s->id] : 0, c->topic, c->encoding);
        if (!known->id[c->id])
            return hb_fail(err, ENOTSUP, "more than %d channels, or one that is too large", (int)HB_MCAP_CHANNELS);
    }
    return 0;
}

static int write_all(hb_mcap_reader *r, int fd, hb_mcap_recovered *ret, hb_error *err)
{
    hb_mcap_writer *w = NULL;
    copying c = {.known = calloc(1, sizeof *c.known)};
    survey s = {0};
    int failed = c.known ? 0 : hb_fail(err, ENOMEM, "out of memory");

    /* first pass: which channels there are, and how much */
    if (!failed)
        failed = each(r, ret, err, look, &s);
    ret->cut = hb_mcap_reader_cut(r, &ret->cut_at);
    if (!failed)
        failed = hb_mcap_writer_new(
            &w,
            &(hb_mcap_writer_settings){
                .chunk_size = CHUNK, .message = s.largest, .chunks = (int)(s.bytes / CHUNK) + 2, .level = LEVEL},
            err);
    if (!failed)
        failed = hb_mcap_writer_begin(w, fd, hb_mcap_reader_profile(r), "hilbertctl recover", err);
    if (!failed)
        failed = describe(r, w, c.known, err);
    c.writer = w;
    hb_mcap_reader_rewind(r);
    if (!failed)
        failed = each(r, &(hb_mcap_recovered){0}, err, copy, &c);
    if (!failed)
        failed = hb_mcap_writer_end(w, err);
    ret->messages = c.messages;
    hb_mcap_writer_free(w);
    free(c.known);
    return failed;
}

int hb_mcap_recover(const char *from, const char *to, hb_mcap_recovered *ret, hb_error *err)
{
    hb_mcap_reader *r = NULL;

    *ret = (hb_mcap_recovered){0};
    int failed = hb_mcap_reader_open_damaged(&r, from, err);
    if (failed)
        return failed;
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        failed = hb_fail(err, errno, "%s: %s", to, strerror(errno));
        hb_mcap_reader_free(r);
        return failed;
    }
    failed = write_all(r, fd, ret, err);
    if (close(fd) && !failed)
        failed = hb_fail(err, errno, "%s: %s", to, strerror(errno));
    if (failed)
        unlink(to);
    hb_mcap_reader_free(r);
    return failed;
}
