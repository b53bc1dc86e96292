#include "process/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mcap/mcap_writer.h"
#include "process/journal_folder.h"
#include "process/message_ring.h"

enum {
    CHUNK = 1 << 18,            /* bytes of a chunk that is written before its time */
    CHUNKS = 16384,             /* of a file */
    LEVEL = 6,                  /* of compression */
    WAKE_MS = 50,               /* between two looks at the ring */
    CHUNK_MS = 1000,            /* after which a chunk is written */
    AGAIN_MS = 5000,            /* until the disk is tried again */
    HEAD_ROOM = 64,             /* bytes that are added to the first message of a file */
    NOTE = HB_CONFIG_PATH_SIZE, /* bytes of a note */
};

/* A text that one thread writes now and then, and others read: the newer of two. */
typedef struct note {
    _Atomic int newest;
    char text[2][NOTE];
} note;

/* What each file begins with, with room for what is added to it, and what the first one does besides. */
typedef struct file_head {
    uint8_t *each, *first;
    size_t neach, nfirst;
} file_head;

/* The file that is being written. */
typedef struct recorded_file {
    int fd;                   /* -1: there is none */
    uint32_t number;          /* of the next */
    double largest;           /* bytes; */
    double oldest;            /* seconds until it ends */
    double quota;             /* bytes of all files of this name */
    bool whole;               /* nothing is missing since the daemon began */
    uint64_t opened, flushed; /* ms */
    uint64_t overhead;        /* bytes when it was begun */
    uint32_t sequence[HB_NTOPICS + 1];
} recorded_file;

/* What other threads may read. */
typedef struct report_parts {
    note file, error;
    _Atomic uint64_t bytes, messages, lost, files, pruned, errors;
} report_parts;

struct hb_journal {
    hb_log *log;
    hb_clock clock;
    hb_message_ring ring;
    uint64_t missed; /* messages since the last that fitted; the putting thread's */
    report_parts told;

    _Atomic bool on, stop;
    _Atomic bool ready; /* the head is there */
    int wake;
    pthread_t thread;
    bool stepped, running;

    /* the recorder's thread */
    file_head head;
    hb_journal_named named;
    hb_mcap_writer *writer;
    uint8_t *message; /* taken out of the ring */
    hb_journal_folder folder;
    recorded_file file;
    bool was_on;      /* when it last looked */
    uint64_t failed;  /* ms; 0: the disk takes what is written */
    uint64_t skipped; /* messages that could not be written since the last that was */
};

static uint64_t milliseconds(const hb_journal *j)
{
    return (uint64_t)(1e3 * j->clock.now(j->clock.context));
}

static void write_note(note *n, const char *text)
{
    int other = !atomic_load_explicit(&n->newest, memory_order_relaxed);

    snprintf(n->text[other], NOTE, "%s", text);
    atomic_store_explicit(&n->newest, other, memory_order_release);
}

static void read_note(const note *n, char *to, size_t size)
{
    const char *from = n->text[atomic_load_explicit(&n->newest, memory_order_acquire)];

    memcpy(to, from, size < NOTE ? size : NOTE);
    to[size - 1] = '\0';
}

static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- putting ---- */

/* A field of one of our messages: its number and a value. */
static size_t put_field(uint8_t *to, int field, uint64_t value)
{
    size_t n = 0;

    to[n++] = (uint8_t)(field << 3);
    for (; value > 127; value >>= 7)
        to[n++] = (uint8_t)(value | 128);
    to[n++] = (uint8_t)value;
    return n;
}

enum { GAP_LOST = 1, RECORDING_FILE = 7, RECORDING_WHOLE = 8 }; /* numbers of fields */

void hb_journal_put(hb_journal *j, hb_topic topic, uint64_t log_time, uint64_t publish_time, const void *a, size_t na,
                    const void *b, size_t nb)
{
    uint8_t gap[16];
    const hb_ring_message r = {
        .size = (uint32_t)(na + nb), .topic = topic, .log_time = log_time, .publish_time = publish_time};

    if (!hb_journal_on(j))
        return;
    if (j->missed) {
        size_t n = put_field(gap, GAP_LOST, j->missed);
        const hb_ring_message lost = {
            .size = (uint32_t)n, .topic = HB_TOPIC_GAPS, .log_time = log_time, .publish_time = log_time};
        if (hb_message_ring_put(&j->ring, &lost, gap, n, NULL))
            j->missed = 0;
    }
    if (j->missed || !hb_message_ring_put(&j->ring, &r, a, na, b)) {
        j->missed++;
        add(&j->told.lost, 1);
    }
}

bool hb_journal_on(const hb_journal *j)
{
    return j && atomic_load_explicit(&j->on, memory_order_relaxed);
}

void hb_journal_switch(hb_journal *j, bool on)
{
    ssize_t n;

    atomic_store_explicit(&j->on, on, memory_order_release);
    n = write(j->wake, &(uint64_t){1}, sizeof(uint64_t));
    (void)n;
}

void hb_journal_read(const hb_journal *j, hb_journal_report *ret)
{
    *ret = (hb_journal_report){
        .on = hb_journal_on(j),
        .bytes = atomic_load_explicit(&j->told.bytes, memory_order_relaxed),
        .messages = atomic_load_explicit(&j->told.messages, memory_order_relaxed),
        .lost = atomic_load_explicit(&j->told.lost, memory_order_relaxed),
        .files = atomic_load_explicit(&j->told.files, memory_order_relaxed),
        .pruned = atomic_load_explicit(&j->told.pruned, memory_order_relaxed),
        .errors = atomic_load_explicit(&j->told.errors, memory_order_relaxed),
    };
    read_note(&j->told.file, ret->file, sizeof ret->file);
    read_note(&j->told.error, ret->error, sizeof ret->error);
}

/* ---- files ---- */

/* Makes room for one more file. */
static void prune(hb_journal *j)
{
    char oldest[HB_JOURNAL_FILE_NAME];

    while (hb_journal_folder_survey(&j->folder, oldest) + j->file.largest > j->file.quota && *oldest) {
        if (unlinkat(j->folder.fd, oldest, 0))
            return;
        add(&j->told.pruned, 1);
        hb_log_line(j->log, HB_LOG_NOTICE, "recorder: %s was removed, to keep to recorder.quota (%g MB)", oldest,
                    1e-6 * j->file.quota);
    }
}

static void fail(hb_journal *j, const char *what, const char *why)
{
    char text[256];

    snprintf(text, sizeof text, "%s: %s", what, why);
    write_note(&j->told.error, text);
    add(&j->told.errors, 1);
    if (!j->failed)
        hb_log_line(j->log, HB_LOG_ERROR, "recorder: %s; flying goes on", text);
    j->failed = milliseconds(j);
}

/* Closes the file, with its index if the disk takes that. */
static void end_file(hb_journal *j, bool whole)
{
    hb_error err;

    if (j->file.fd < 0)
        return;
    if (whole && hb_mcap_writer_end(j->writer, &err))
        fail(j, j->folder.path, err.text);
    fsync(j->file.fd);
    close(j->file.fd);
    j->file.fd = -1;
    write_note(&j->told.file, "");
    atomic_store_explicit(&j->told.bytes, 0, memory_order_relaxed);
}

static int write_message(hb_journal *j, hb_topic topic, uint64_t log_time, uint64_t publish_time, const void *data,
                         size_t size, hb_error *err)
{
    return hb_mcap_writer_message(j->writer, (uint16_t)(topic + 1), j->file.sequence[topic]++, log_time, publish_time,
                                  data, size, err);
}

/* The first message: which daemon, model and configuration. */
static int write_head(hb_journal *j, uint64_t time, hb_error *err)
{
    size_t n = j->head.neach;

    n += put_field(j->head.each + n, RECORDING_FILE, j->file.number);
    n += put_field(j->head.each + n, RECORDING_WHOLE, j->file.whole);
    if (j->file.number == 0 && j->head.nfirst) {
        memcpy(j->head.each + n, j->head.first, j->head.nfirst);
        n += j->head.nfirst;
    }
    return write_message(j, HB_TOPIC_RECORDING, time, time, j->head.each, n, err);
}

static void begin_file(hb_journal *j, uint64_t time)
{
    char name[HB_JOURNAL_FILE_NAME], path[NOTE];
    hb_error err;

    hb_journal_folder_file_name(&j->folder, time, j->file.number, name);
    hb_journal_folder_replaced(&j->folder);
    int opened = hb_journal_folder_open(&j->folder);
    if (opened) {
        fail(j, j->folder.path, strerror(-opened));
        return;
    }
    prune(j);
    j->file.fd = openat(j->folder.fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (j->file.fd < 0) {
        fail(j, name, strerror(errno));
        return;
    }
    memset(j->file.sequence, 0, sizeof j->file.sequence);
    int r = hb_mcap_writer_begin(j->writer, j->file.fd, HB_RECORDING_PROFILE, "hilbertd " HB_VERSION, &err);
    for (int i = 0; i < HB_NTOPICS && !r; i++) {
        uint16_t schema = hb_mcap_writer_schema(j->writer, hb_topic_descriptor[i]->name, "protobuf", hb_descriptor_set,
                                                hb_descriptor_set_size);
        hb_mcap_writer_channel(j->writer, schema, hb_topic_name[i], "protobuf");
    }
    if (!r && j->named.topic) {
        const hb_journal_named *named = &j->named;
        uint16_t schema = hb_mcap_writer_schema(j->writer, named->schema_name, "protobuf", named->schema, named->size);
        uint16_t channel = hb_mcap_writer_channel(j->writer, schema, named->topic, "protobuf");
        hb_mcap_writer_metadata(j->writer, channel, named->metadata, named->nmetadata, named->stride);
    }
    if (!r)
        r = write_head(j, time, &err);
    if (!r)
        r = hb_mcap_writer_flush(j->writer, &err);
    if (r) {
        fail(j, name, err.text);
        end_file(j, false);
        unlinkat(j->folder.fd, name, 0);
        return;
    }
    snprintf(path, sizeof path, "%.200s/%s", j->folder.path, name);
    write_note(&j->told.file, path);
    write_note(&j->told.error, "");
    if (j->failed)
        hb_log_line(j->log, HB_LOG_NOTICE, "recorder: goes on in %s", path);
    j->failed = 0;
    j->file.number++;
    j->file.opened = j->file.flushed = milliseconds(j);
    j->file.overhead = hb_mcap_writer_size(j->writer);
    add(&j->told.files, 1);
}

/* After a chunk of n messages: if it could not be written, the file ends here. */
static void after_writing(hb_journal *j, int r, uint64_t n, const hb_error *err)
{
    j->file.flushed = milliseconds(j);
    if (!r) {
        add(&j->told.messages, n);
        fdatasync(j->file.fd);
        atomic_store_explicit(&j->told.bytes, hb_mcap_writer_size(j->writer), memory_order_relaxed);
        return;
    }
    fail(j, j->folder.path, err->text);
    j->file.whole = false;
    j->skipped += n;
    add(&j->told.lost, n);
    end_file(j, false);
}

static void flush(hb_journal *j)
{
    hb_error err;
    uint64_t waiting = j->file.fd >= 0 ? hb_mcap_writer_waiting(j->writer) : 0;

    if (!waiting)
        return;
    int r = hb_mcap_writer_flush(j->writer, &err);
    after_writing(j, r, waiting, &err);
}

/* Ends the file if it, or its folder, was removed: writing would go on to nowhere without an error. */
static void notice_removal(hb_journal *j)
{
    struct stat file;

    if (j->file.fd < 0 || fstat(j->file.fd, &file))
        return;
    bool moved = hb_journal_folder_replaced(&j->folder);
    if (!moved && file.st_nlink > 0)
        return;
    fail(j, j->folder.path,
         moved ? "the folder was removed or replaced, and the recording in it is lost"
               : "the recording was removed while it was written, and is lost");
    j->file.whole = false;
    end_file(j, false);
}

/* Begins a file where there is none, or the current one is full or old enough. */
static bool have_file(hb_journal *j, uint64_t time)
{
    uint64_t now = milliseconds(j);

    /* the chunk in memory and the index, which is about as long as the head, will be written to it too */
    double end = (double)(hb_mcap_writer_size(j->writer) + CHUNK + j->file.overhead);
    if (j->file.fd >= 0 && (end >= j->file.largest || (double)(now - j->file.opened) >= 1e3 * j->file.oldest ||
                            hb_mcap_writer_full(j->writer))) {
        flush(j);
        end_file(j, true);
    }
    if (j->file.fd < 0 && (!j->failed || now - j->failed >= AGAIN_MS))
        begin_file(j, time);
    return j->file.fd >= 0;
}

static void write_record(hb_journal *j, const hb_ring_message *r)
{
    uint64_t waiting, size;
    hb_error err;

    if (r->topic == HB_TOPIC_GAPS)
        j->file.whole = false;
    if (!have_file(j, r->log_time)) {
        j->file.whole = false;
        j->skipped++;
        add(&j->told.lost, 1);
        return;
    }
    if (j->skipped) {
        uint8_t gap[16];
        size_t n = put_field(gap, GAP_LOST, j->skipped);
        if (write_message(j, HB_TOPIC_GAPS, r->log_time, r->log_time, gap, n, &err) == 0)
            j->skipped = 0;
    }
    waiting = hb_mcap_writer_waiting(j->writer);
    size = hb_mcap_writer_size(j->writer);
    int failed = write_message(j, (hb_topic)r->topic, r->log_time, r->publish_time, j->message, r->size, &err);
    if (failed || hb_mcap_writer_size(j->writer) != size)
        after_writing(j, failed, waiting + 1, &err);
}

/* All that is in the ring. */
static void drain(hb_journal *j)
{
    hb_ring_message m;

    while (hb_message_ring_take(&j->ring, &m, j->message))
        write_record(j, &m);
}

void hb_journal_step(hb_journal *j)
{
    drain(j);
    if (milliseconds(j) - j->file.flushed >= CHUNK_MS) {
        flush(j);
        notice_removal(j);
    }
    bool on = atomic_load_explicit(&j->on, memory_order_acquire);
    /* it may also have been switched on and off again since it last looked */
    if (!on && (j->was_on || j->file.fd >= 0)) {
        drain(j);
        flush(j);
        end_file(j, true);
        j->file.whole = false; /* what comes next does not follow on it */
    }
    j->was_on = on;
}

static void finish(hb_journal *j)
{
    drain(j);
    flush(j);
    end_file(j, true);
}

static void *record(void *context)
{
    hb_journal *j = context;

    pthread_setname_np(pthread_self(), "recorder");
    setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
    while (!atomic_load_explicit(&j->stop, memory_order_acquire)) {
        bool on = atomic_load_explicit(&j->on, memory_order_acquire);
        struct pollfd wait = {.fd = j->wake, .events = POLLIN};
        if (poll(&wait, 1, on || j->file.fd >= 0 ? WAKE_MS : -1) > 0) {
            uint64_t count;
            ssize_t n = read(j->wake, &count, sizeof count);
            (void)n;
        }
        if (atomic_load_explicit(&j->ready, memory_order_acquire))
            hb_journal_step(j);
    }
    finish(j);
    return NULL;
}

/* ---- life ---- */

int hb_journal_check(const hb_config *c, hb_error *err)
{
    struct stat st;

    if (!c->recorder.enabled)
        return 0;
    if (stat(c->recorder.directory, &st))
        return hb_fail(err, errno, "recorder.directory: %s: %s", c->recorder.directory, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return hb_fail(err, ENOTDIR, "recorder.directory: %s is not a folder", c->recorder.directory);
    if (access(c->recorder.directory, W_OK | X_OK | R_OK))
        return hb_fail(err, errno, "recorder.directory: %s: not to be written to: %s", c->recorder.directory,
                       strerror(errno));
    if (c->recorder.quota < c->recorder.file_size)
        return hb_fail(err, EINVAL, "recorder.quota: %g MB are less than recorder.file_size, %g MB", c->recorder.quota,
                       c->recorder.file_size);
    return 0;
}

int hb_journal_new(hb_journal **ret, const hb_journal_settings *s, hb_error *err)
{
    const hb_config *c = s->config;
    hb_journal *j = calloc(1, sizeof *j);

    if (!j)
        return hb_fail(err, ENOMEM, "out of memory");
    j->file.largest = 1e6 * c->recorder.file_size;
    j->file.oldest = c->recorder.file_age;
    j->file.quota = 1e6 * c->recorder.quota;
    j->log = s->log;
    j->clock = s->clock;
    j->stepped = s->stepped;
    j->file.fd = -1;
    j->file.whole = true;
    atomic_init(&j->on, c->recorder.enabled);
    j->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool made = hb_message_ring_new(&j->ring, s->largest) == 0;
    made = hb_journal_folder_new(&j->folder, c->recorder.directory, c->name) == 0 && made && j->wake >= 0;
    int r = made ? 0 : hb_fail(err, ENOMEM, "recorder: out of memory");
    if (!r)
        r = hb_journal_check(c, err);
    if (r) {
        hb_journal_free(j);
        return r;
    }
    *ret = j;
    return 0;
}

void hb_journal_name(hb_journal *j, const hb_journal_named *named)
{
    j->named = *named;
}

int hb_journal_head(hb_journal *j, const void *head, size_t size, const void *first, size_t nfirst, hb_error *err)
{
    const size_t message = (size + HEAD_ROOM + nfirst > j->ring.largest ? size + HEAD_ROOM + nfirst : j->ring.largest);
    const hb_mcap_writer_settings settings = {
        .chunk_size = CHUNK, .message = message, .chunks = CHUNKS, .level = LEVEL};
    int r = hb_mcap_writer_new(&j->writer, &settings, err);

    if (r)
        return r;
    j->head.each = malloc(size + HEAD_ROOM + nfirst);
    j->head.first = malloc(nfirst + 1);
    j->message = malloc(message + 8);
    if (!j->head.each || !j->head.first || !j->message)
        return hb_fail(err, ENOMEM, "recorder: out of memory");
    memcpy(j->head.each, head, size);
    if (nfirst)
        memcpy(j->head.first, first, nfirst);
    j->head.neach = size;
    j->head.nfirst = nfirst;
    int why = hb_journal_folder_open(&j->folder);
    if (why && hb_journal_on(j))
        return hb_fail(err, -why, "recorder.directory: %s: %s", j->folder.path, strerror(-why));
    atomic_store_explicit(&j->ready, true, memory_order_release);
    why = j->stepped ? 0 : pthread_create(&j->thread, NULL, record, j);
    if (why)
        return hb_fail(err, why, "cannot start the recorder's thread: %s", strerror(why));
    j->running = !j->stepped;
    return 0;
}

void hb_journal_free(hb_journal *j)
{
    if (!j)
        return;
    if (j->running) {
        ssize_t n;
        atomic_store_explicit(&j->stop, true, memory_order_release);
        n = write(j->wake, &(uint64_t){1}, sizeof(uint64_t));
        (void)n;
        pthread_join(j->thread, NULL);
    } else if (j->stepped && atomic_load_explicit(&j->ready, memory_order_acquire)) {
        finish(j);
    }
    if (j->wake >= 0)
        close(j->wake);
    hb_journal_folder_free(&j->folder);
    hb_mcap_writer_free(j->writer);
    free(j->message);
    free(j->head.first);
    free(j->head.each);
    hb_message_ring_free(&j->ring);
    free(j);
}
