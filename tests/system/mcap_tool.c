/* Our writer and reader for test_mcap.sh.
 *
 * usage: mcap_tool write FILE    a file of messages that peer.js knows
 *        mcap_tool read FILE     its messages, one per line
 *        mcap_tool bend FILE OUT TOPIC N   a copy, with the lowest bit flipped of a state or an action: of the N-th
 *                                message of telemetry or of replies */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcap/mcap_reader.h"
#include "mcap/mcap_writer.h"

static int complain(const hb_error *err)
{
    fprintf(stderr, "mcap_tool: %s\n", err->text);
    return 1;
}

static int write_file(const char *path)
{
    static const hb_mcap_writer_settings settings = {.chunk_size = 4096, .message = 300, .chunks = 100, .level = 3};
    hb_mcap_writer *w = NULL;
    hb_error err;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int r = fd < 0 ? hb_fail(&err, 5, "%s: cannot be written", path) : hb_mcap_writer_new(&w, &settings, &err);

    if (!r)
        r = hb_mcap_writer_begin(w, fd, "x-test", "mcap_tool", &err);
    for (int i = 0; i < 2 && !r; i++) {
        uint16_t schema = hb_mcap_writer_schema(w, i ? "b" : "a", "jsonschema", "{}", 2);
        hb_mcap_writer_channel(w, schema, i ? "/b" : "/a", "json");
    }
    for (int i = 0; i < 500 && !r; i++) {
        char text[64];
        int n = snprintf(text, sizeof text, "{\"i\":%d}", i);
        uint64_t time = 1000000000 + (uint64_t)i * 10000000;
        r = hb_mcap_writer_message(w, (uint16_t)(1 + i % 2), (uint32_t)i, time, time + 1, text, (size_t)n, &err);
    }
    if (!r)
        r = hb_mcap_writer_end(w, &err);
    hb_mcap_writer_free(w);
    if (fd >= 0)
        close(fd);
    return r ? complain(&err) : 0;
}

static int read_file(const char *path)
{
    hb_mcap_reader *r;
    hb_mcap_message m;
    hb_error err;
    int got = hb_mcap_reader_open(&r, path, &err);

    if (got)
        return complain(&err);
    while ((got = hb_mcap_reader_next(r, &m, &err)) > 0)
        printf("%s %s %u %" PRIu64 " %" PRIu64 " %.*s\n", m.channel->topic,
               m.channel->schema ? m.channel->schema->name : "-", m.sequence, m.log_time, m.publish_time, (int)m.size,
               (const char *)m.data);
    if (hb_mcap_reader_summary(r))
        printf("indexed %" PRIu64 "\n", hb_mcap_reader_summary(r)->messages);
    hb_mcap_reader_free(r);
    return got ? complain(&err) : 0;
}

/* Where to flip: within the doubles of a sample's state, or of a reply's action. */
static size_t place(const hb_mcap_message *m)
{
    /* telemetry: field 1 of the sample begins the message, its state follows the time; doubles of 8 bytes */
    if (strcmp(m->channel->topic, "telemetry") == 0)
        for (size_t i = 2; i + 18 < m->size; i++)
            if (m->data[i] == 0x12 && m->data[i + 1] == 16)
                return i + 2;
    /* replies: the action is field 4 of the reply, here of one number */
    for (size_t i = 0; i + 10 < m->size; i++)
        if (m->data[i] == 0x22 && m->data[i + 1] == 8)
            return i + 2;
    return 0;
}

static int bend_file(const char *from, const char *to, const char *topic, int number)
{
    hb_mcap_writer *w = NULL;
    hb_mcap_reader *r = NULL;
    const hb_mcap_channel *c;
    hb_mcap_message m;
    hb_error err;
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644), got = hb_mcap_reader_open(&r, from, &err), seen = 0;

    if (!got)
        got = hb_mcap_writer_new(
            &w, &(hb_mcap_writer_settings){.chunk_size = 1 << 18, .message = 1 << 20, .chunks = 1000, .level = 3},
            &err);
    if (!got)
        got = hb_mcap_writer_begin(w, fd, hb_mcap_reader_profile(r), "mcap_tool", &err);
    for (int i = 0; !got && (c = hb_mcap_reader_channel(r, i)); i++) {
        uint16_t schema =
            hb_mcap_writer_schema(w, c->schema->name, c->schema->encoding, c->schema->data, c->schema->size);
        if (hb_mcap_writer_channel(w, schema, c->topic, c->encoding) != c->id)
            got = hb_fail(&err, 22, "channels are not in order");
    }
    while (!got && (got = hb_mcap_reader_next(r, &m, &err)) > 0) {
        static uint8_t data[1 << 20];
        memcpy(data, m.data, m.size);
        if (strcmp(m.channel->topic, topic) == 0 && seen++ == number)
            data[place(&m)] ^= 1;
        got = hb_mcap_writer_message(w, m.channel->id, m.sequence, m.log_time, m.publish_time, data, m.size, &err);
    }
    if (!got)
        got = hb_mcap_writer_end(w, &err);
    hb_mcap_writer_free(w);
    hb_mcap_reader_free(r);
    close(fd);
    return got ? complain(&err) : 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "write") == 0)
        return write_file(argv[2]);
    if (argc == 3 && strcmp(argv[1], "read") == 0)
        return read_file(argv[2]);
    if (argc == 6 && strcmp(argv[1], "bend") == 0)
        return bend_file(argv[2], argv[3], argv[4], atoi(argv[5]));
    fprintf(stderr, "usage: mcap_tool write|read FILE, mcap_tool bend FILE OUT TOPIC N\n");
    return 2;
}
