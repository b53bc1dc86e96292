/* Our writer and reader for test_mcap.sh.
 *
 * usage: mcap_tool write FILE    a file of messages that peer.js knows
 *        mcap_tool read FILE     its messages, one per line */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
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

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "write") == 0)
        return write_file(argv[2]);
    if (argc == 3 && strcmp(argv[1], "read") == 0)
        return read_file(argv[2]);
    fprintf(stderr, "usage: mcap_tool write|read FILE\n");
    return 2;
}
