/* proto/mcap: what is written is read again; cut and damaged files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "mcap/mcap.h"
#include "mcap/mcap_reader.h"
#include "mcap/mcap_writer.h"
#include "trap.h"

enum { MESSAGES = 90, TOPICS = 3 };
static const char *const topic[TOPICS] = {"telemetry", "requests", "replies"};

typedef struct file {
    uint8_t *data;
    size_t size;
} file;

/* the i-th message: its text depends on i alone */
static size_t message(int i, char to[64])
{
    return (size_t)snprintf(to, 64, "message %d %.*s", i, i % 20, "abcdefghijklmnopqrstuvwxyz");
}

static uint64_t time_of(int i)
{
    return UINT64_C(1700000000000000000) + (uint64_t)i * 1000000 - (i % 7 == 3 ? 5000000 : 0);
}

static int temporary(void)
{
    char path[] = "/tmp/test_mcap.XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

static file contents(int fd)
{
    file f = {.size = (size_t)lseek(fd, 0, SEEK_END)};

    f.data = malloc(f.size);
    assert_int_equal(pread(fd, f.data, f.size, 0), (ssize_t)f.size);
    return f;
}

static hb_mcap_writer *writer(int level, int chunks)
{
    hb_mcap_writer *w = NULL;
    hb_error err;
    hb_mcap_writer_settings s = {.chunk_size = 1024, .message = 200, .chunks = chunks, .level = level};

    assert_int_equal(hb_mcap_writer_new(&w, &s, &err), 0);
    return w;
}

static void describe(hb_mcap_writer *w)
{
    for (int i = 0; i < TOPICS; i++)
        assert_int_equal(
            hb_mcap_writer_channel(w, hb_mcap_writer_schema(w, topic[i], "text", "any text", 8), topic[i], "text"),
            i + 1);
}

/* A file with all messages, whose last chunk is not full. */
static file written(int level, bool ended)
{
    hb_mcap_writer *w = writer(level, 100);
    hb_error err;
    int fd = temporary();
    char text[64];

    assert_int_equal(hb_mcap_writer_begin(w, fd, "x-test", "test", &err), 0);
    describe(w);
    long before = trap_allocations();
    for (int i = 0; i < MESSAGES; i++) {
        size_t n = message(i, text);
        assert_int_equal(hb_mcap_writer_message(w, (uint16_t)(1 + i % TOPICS), (uint32_t)i, time_of(i), time_of(i) - 7,
                                                text, n, &err),
                         0);
    }
    assert_int_equal(ended ? hb_mcap_writer_end(w, &err) : hb_mcap_writer_flush(w, &err), 0);
    assert_int_equal(trap_allocations(), before);
    file f = contents(fd);
    assert_int_equal(f.size, hb_mcap_writer_size(w));
    hb_mcap_writer_free(w);
    close(fd);
    return f;
}

/* Reads all messages, each of which must be the one that was written; returns how many, or what went wrong. */
static int read_all(const uint8_t *data, size_t size, bool *ret_cut, hb_error *err)
{
    hb_mcap_reader *r;
    hb_mcap_message m;
    int n = 0, got = hb_mcap_reader_of(&r, "FILE", data, size, err);
    char text[64];

    if (got)
        return got;
    while ((got = hb_mcap_reader_next(r, &m, err)) > 0) {
        size_t length = message(n, text);
        if (m.size != length || memcmp(m.data, text, length) != 0 || m.sequence != (uint32_t)n ||
            m.log_time != time_of(n) || m.publish_time != time_of(n) - 7 ||
            strcmp(m.channel->topic, topic[n % TOPICS]) != 0 ||
            strcmp(m.channel->schema->name, topic[n % TOPICS]) != 0) {
            hb_mcap_reader_free(r);
            fail_msg("message %d is another one", n);
        }
        n++;
    }
    *ret_cut = hb_mcap_reader_cut(r, NULL);
    hb_mcap_reader_free(r);
    return got < 0 ? got : n;
}

/* the check value of CRC-32 */
static void crc_is_the_standard_one(void **state)
{
    (void)state;
    assert_int_equal(hb_mcap_crc(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(hb_mcap_crc(hb_mcap_crc(0, "1234", 4), "56789", 5), 0xcbf43926);
    /* bit by bit, of any length and from any address */
    uint8_t bytes[67];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i * 37 + 11 * i + 5);
    for (size_t from = 0; from < 5; from++)
        for (size_t n = 0; from + n <= sizeof bytes; n++) {
            uint32_t expected = 0xffffffff;
            for (size_t i = 0; i < 8 * n; i++) {
                uint32_t bit = (expected ^ (uint32_t)(bytes[from + i / 8] >> (i % 8))) & 1;
                expected = expected >> 1 ^ (bit ? 0xedb88320 : 0);
            }
            assert_int_equal(hb_mcap_crc(0, bytes + from, n), ~expected);
        }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (int level = 0; level < 4; level += 3) {
        hb_mcap_reader *r;
        hb_error err;
        bool cut;
        file f = written(level, true);
        assert_int_equal(read_all(f.data, f.size, &cut, &err), MESSAGES);
        assert_false(cut);
        assert_int_equal(hb_mcap_reader_of(&r, "FILE", f.data, f.size, &err), 0);
        const hb_mcap_summary *s = hb_mcap_reader_summary(r);
        assert_non_null(s);
        assert_int_equal(s->messages, MESSAGES);
        assert_int_equal(s->channels, TOPICS);
        assert_int_equal(s->schemas, TOPICS);
        assert_true(s->chunks > 3);
        assert_true(s->start == time_of(3)); /* the earliest, which is not the first */
        assert_true(s->end == time_of(MESSAGES - 1));
        assert_string_equal(hb_mcap_reader_profile(r), "x-test");
        hb_mcap_reader_free(r);
        free(f.data);
    }
}

/* Wherever a file is cut, what comes before the cut is read, and nobody crashes. */
static void cut_anywhere(void **state)
{
    (void)state;
    for (int level = 0; level < 4; level += 3)
        for (int ended = 0; ended < 2; ended++) {
            file f = written(level, ended);
            int last = 0;
            for (size_t size = 0; size < f.size; size++) {
                uint8_t *part = malloc(size + 1); /* so that a sanitizer sees the end */
                hb_error err;
                bool cut = false;
                memcpy(part, f.data, size);
                int n = read_all(part, size, &cut, &err);
                if (n < 0)
                    assert_non_null(strstr(err.text, "offset"));
                else
                    assert_true(n >= last);
                assert_true(n >= 0 || last == 0); /* only a file without a header cannot be opened */
                last = n > last ? n : last;
                free(part);
            }
            assert_int_equal(last, MESSAGES);
            free(f.data);
        }
}

/* A flipped bit gives an error that says where, or fewer messages, or none that matters: never another message. */
static void flipped_anywhere(void **state)
{
    (void)state;
    for (int level = 0; level < 4; level += 3) {
        file f = written(level, true);
        int seen = 0;
        for (size_t at = 0; at < f.size; at++) {
            hb_error err = {0};
            bool cut = false;
            f.data[at] ^= (uint8_t)(1 << (at % 8));
            /* names of schemas and topics are guarded by the checksum at the end alone: messages come first */
            hb_mcap_reader *r;
            hb_mcap_message m;
            int n = 0, got = hb_mcap_reader_of(&r, "FILE", f.data, f.size, &err);
            if (!got) {
                while ((got = hb_mcap_reader_next(r, &m, &err)) > 0)
                    n++;
                cut = hb_mcap_reader_cut(r, NULL);
                hb_mcap_reader_free(r);
            }
            if (got < 0) {
                seen++;
                assert_true(err.code == EBADMSG || err.code == ENOTSUP);
                assert_non_null(strstr(err.text, "FILE: offset "));
            } else if (!cut) {
                assert_int_equal(n, MESSAGES);
            }
            f.data[at] ^= (uint8_t)(1 << (at % 8));
        }
        assert_true(seen > (int)f.size / 2);
        free(f.data);
    }
}

/* A byte of the second chunk's compressed messages. */
static uint8_t *second_chunk(const file *f)
{
    uint8_t *at = memmem(f->data, f->size, "zstd", 4);

    at = memmem(at + 1, f->size - (size_t)(at + 1 - f->data), "zstd", 4);
    return at + 40;
}

/* To a path of its own, in a folder that is removed again. */
static void recovering(void **state)
{
    char folder[] = "/tmp/test_mcap.XXXXXX", from[64], to[64];
    hb_mcap_recovered found;
    hb_error err;
    file f = written(3, true);

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(from, sizeof from, "%s/from", folder);
    snprintf(to, sizeof to, "%s/to", folder);
    const size_t sizes[] = {f.size, f.size * 2 / 3, f.size / 2};
    for (int i = 0; i < 4; i++) {
        /* the fourth: whole, with a damaged chunk */
        size_t size = i < 3 ? sizes[i] : f.size;
        bool cut = false;
        int n = read_all(f.data, i < 3 ? size : f.size, &cut, &err);
        if (i == 3) /* within the second chunk */
            *second_chunk(&f) ^= 1;
        int fd = open(from, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, f.data, size), (ssize_t)size);
        close(fd);
        assert_int_equal(hb_mcap_recover(from, to, &found, &err), 0);
        assert_int_equal(found.cut, i == 1 || i == 2);
        assert_int_equal(found.damaged > 0, i == 3);
        if (i < 3)
            assert_int_equal(found.messages, n);
        else
            assert_true(found.messages < MESSAGES && found.messages > MESSAGES / 2);

        hb_mcap_reader *r;
        hb_mcap_message m;
        int got, count = 0;
        assert_int_equal(hb_mcap_reader_open(&r, to, &err), 0);
        assert_non_null(hb_mcap_reader_summary(r));
        assert_int_equal(hb_mcap_reader_summary(r)->messages, found.messages);
        while ((got = hb_mcap_reader_next(r, &m, &err)) > 0)
            count++;
        assert_int_equal(got, 0);
        assert_int_equal(count, found.messages);
        hb_mcap_reader_free(r);
        /* an existing file is left alone */
        assert_int_equal(hb_mcap_recover(from, to, &found, &err), -EEXIST);
        unlink(to);
    }
    unlink(from);
    rmdir(folder);
    free(f.data);
}

/* /dev/full takes nothing: the failure is told, and the next file is as good as any. */
static void full_disk(void **state)
{
    hb_mcap_writer *w = writer(3, 100);
    hb_error err;
    int full = open("/dev/full", O_WRONLY);

    (void)state;
    assert_true(full >= 0);
    assert_int_equal(hb_mcap_writer_begin(w, full, "", "", &err), -ENOSPC);
    describe(w);
    assert_int_equal(hb_mcap_writer_message(w, 1, 0, 1, 1, "x", 1, &err), 0);
    assert_int_equal(hb_mcap_writer_flush(w, &err), -ENOSPC);
    close(full);

    int fd = temporary();
    assert_int_equal(hb_mcap_writer_begin(w, fd, "", "", &err), 0);
    describe(w);
    assert_int_equal(hb_mcap_writer_message(w, 1, 0, 1, 1, "x", 1, &err), 0);
    assert_int_equal(hb_mcap_writer_end(w, &err), 0);
    file f = contents(fd);
    hb_mcap_reader *r;
    hb_mcap_message m;
    assert_int_equal(hb_mcap_reader_of(&r, "FILE", f.data, f.size, &err), 0);
    assert_int_equal(hb_mcap_reader_next(r, &m, &err), 1);
    assert_int_equal(hb_mcap_reader_next(r, &m, &err), 0);
    hb_mcap_reader_free(r);
    free(f.data);
    close(fd);
    hb_mcap_writer_free(w);
}

static void bounds(void **state)
{
    hb_mcap_writer *w = writer(3, 2);
    hb_error err;
    char large[201] = {0};
    int fd = temporary();

    (void)state;
    assert_int_equal(hb_mcap_writer_begin(w, fd, "", "", &err), 0);
    describe(w);
    assert_int_equal(hb_mcap_writer_message(w, 1, 0, 1, 1, large, sizeof large, &err), -EMSGSIZE);
    assert_int_equal(hb_mcap_writer_message(w, 4, 0, 1, 1, large, 1, &err), -EINVAL);
    for (int i = 0; i < 2; i++) {
        assert_false(hb_mcap_writer_full(w));
        assert_int_equal(hb_mcap_writer_message(w, 1, 0, 1, 1, large, 1, &err), 0);
        assert_int_equal(hb_mcap_writer_flush(w, &err), 0);
    }
    assert_true(hb_mcap_writer_full(w));
    assert_int_equal(hb_mcap_writer_end(w, &err), 0);
    hb_mcap_writer_free(w);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_is_the_standard_one),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(flipped_anywhere),
        cmocka_unit_test(recovering),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
