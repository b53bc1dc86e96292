#include "process/journal.h"

#include <dirent.h>
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
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mcap/mcap_writer.h"

enum {
    RING = 1 << 22,             /* bytes, a power of two: minutes of an ordinary flight */
    CHUNK = 1 << 18,            /* bytes of a chunk that is written before its time */
    CHUNKS = 16384,             /* of a file */
    LEVEL = 6,                  /* of compression */
    WAKE_MS = 50,               /* between two looks at the ring */
    CHUNK_MS = 1000,            /* after which a chunk is written */
    AGAIN_MS = 5000,            /* until the disk is tried again */
    HEAD_ROOM = 64,             /* bytes that are added to the first message of a file */
    ENTRIES = 32768,            /* bytes of a directory read at a time */
    NOTE = HB_CONFIG_PATH_SIZE, /* bytes of a note */
};

/* A message in the ring, followed by its bytes, padded to 8. */
typedef struct put_record {
    uint32_t size;
    uint32_t topic;
    uint64_t log_time, publish_time;
} put_record;

/* A text that one thread writes now and then, and others read: the newer of two. */
typedef struct note {
    _Atomic int newest;
    char text[2][NOTE];
} note;

struct hb_journal {
    char directory[HB_CONFIG_PATH_SIZE], name[HB_NAME_SIZE];
    double file_size, file_age, quota; /* bytes, seconds, bytes */
    size_t largest;
    hb_log *log;
    hb_clock clock;

    /* the ring: bytes put in and taken out, ever */
    uint8_t *ring;
    _Atomic uint64_t in, out;
    uint64_t missed; /* messages since the last that fitted; the putting thread's */

    uint8_t *head, *first; /* of each file, with room for what is added to it, and of the first */
    size_t nhead, nfirst;
    _Atomic bool ready; /* they are there */

    _Atomic bool on, stop;
    int wake;
    pthread_t thread;
    bool stepped, running;

    /* the recorder's thread */
    hb_mcap_writer *writer;
    uint8_t *message; /* taken out of the ring */
    uint8_t *entries;
    int folder, fd;
    bool whole;  /* nothing is missing so far */
    bool was_on; /* when it last looked */
    uint32_t number;
    uint64_t opened, flushed, failed; /* ms */
    uint64_t overhead;                /* bytes of the file when it was begun */
    uint64_t skipped;                 /* messages that could not be written since the last that was */
    uint32_t sequence[HB_NTOPICS + 1];
    hb_journal_named named;

    note file, error;
    _Atomic uint64_t bytes, messages, lost, files, pruned, errors;
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

/* ---- the ring ---- */

static void copy_in(hb_journal *j, uint64_t at, const void *data, size_t size)
{
    size_t from = at % RING, part = size < RING - from ? size : RING - from;

    if (part)
        memcpy(j->ring + from, data, part);
    if (size > part)
        memcpy(j->ring, (const uint8_t *)data + part, size - part);
}

static void copy_out(const hb_journal *j, uint64_t at, void *to, size_t size)
{
    size_t from = at % RING, part = size < RING - from ? size : RING - from;

    memcpy(to, j->ring + from, part);
    if (size > part)
        memcpy((uint8_t *)to + part, j->ring, size - part);
}

static uint64_t padded(uint64_t size)
{
    return (size + 7) & ~UINT64_C(7);
}

static bool put(hb_journal *j, const put_record *r, const void *a, size_t na, const void *b, size_t nb)
{
    uint64_t in = atomic_load_explicit(&j->in, memory_order_relaxed),
             out = atomic_load_explicit(&j->out, memory_order_acquire), needed = sizeof *r + padded(na + nb);

    if (na + nb > j->largest || needed > RING - (in - out))
        return false;
    copy_in(j, in, r, sizeof *r);
    copy_in(j, in + sizeof *r, a, na);
    copy_in(j, in + sizeof *r + na, b, nb);
    atomic_store_explicit(&j->in, in + needed, memory_order_release);
    return true;
}

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
    put_record r = {.size = (uint32_t)(na + nb), .topic = topic, .log_time = log_time, .publish_time = publish_time};

    if (!hb_journal_on(j))
        return;
    if (j->missed) {
        size_t n = put_field(gap, GAP_LOST, j->missed);
        if (put(j,
                &(put_record){
                    .size = (uint32_t)n, .topic = HB_TOPIC_GAPS, .log_time = log_time, .publish_time = log_time},
                gap, n, NULL, 0))
            j->missed = 0;
    }
    if (j->missed || !put(j, &r, a, na, b, nb)) {
        j->missed++;
        add(&j->lost, 1);
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
        .bytes = atomic_load_explicit(&j->bytes, memory_order_relaxed),
        .messages = atomic_load_explicit(&j->messages, memory_order_relaxed),
        .lost = atomic_load_explicit(&j->lost, memory_order_relaxed),
        .files = atomic_load_explicit(&j->files, memory_order_relaxed),
        .pruned = atomic_load_explicit(&j->pruned, memory_order_relaxed),
        .errors = atomic_load_explicit(&j->errors, memory_order_relaxed),
    };
    read_note(&j->file, ret->file, sizeof ret->file);
    read_note(&j->error, ret->error, sizeof ret->error);
}

/* ---- files ---- */

/* A directory entry as getdents64 returns it. */
typedef struct entry {
    uint64_t inode, offset;
    uint16_t size;
    uint8_t type;
    char name[];
} entry;

/* Whether begin_file would give such a name: NAME-20261118T091500.000Z-000.mcap. Files of an instance whose name begins
 * as ours does, and those that somebody has put aside under another one, are not. */
static bool ours(const hb_journal *j, const char *name)
{
    static const char pattern[] = "-ddddddddTdddddd.dddZ-ddd";
    size_t n = strlen(j->name);

    if (strncmp(name, j->name, n))
        return false;
    name += n;
    for (const char *p = pattern; *p; p++, name++)
        if (*p == 'd' ? *name < '0' || *name > '9' : *name != *p)
            return false;
    while (*name >= '0' && *name <= '9') /* three digits, more from the thousandth file on */
        name++;
    return strcmp(name, ".mcap") == 0;
}

/* The first of our files by name, which begins with the time, and the size of them all; "": there is none. */
static double survey(hb_journal *j, char oldest[256])
{
    double sum = 0;
    long n;

    *oldest = '\0';
    lseek(j->folder, 0, SEEK_SET);
    while ((n = syscall(SYS_getdents64, j->folder, j->entries, ENTRIES)) > 0)
        for (long at = 0; at < n;) {
            const entry *e = (const void *)(j->entries + at);
            struct stat st;
            at += e->size;
            if (!ours(j, e->name) || fstatat(j->folder, e->name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
                continue;
            sum += (double)st.st_size;
            if (!*oldest || strcmp(e->name, oldest) < 0)
                snprintf(oldest, 256, "%s", e->name);
        }
    return sum;
}

/* Makes room for one more file. */
static void prune(hb_journal *j)
{
    char oldest[256];

    while (survey(j, oldest) + j->file_size > j->quota && *oldest) {
        if (unlinkat(j->folder, oldest, 0))
            return;
        add(&j->pruned, 1);
        hb_log_line(j->log, HB_LOG_NOTICE, "recorder: %s was removed, to keep to recorder.quota (%g MB)", oldest,
                    1e-6 * j->quota);
    }
}

static void fail(hb_journal *j, const char *what, const char *why)
{
    char text[256];

    snprintf(text, sizeof text, "%s: %s", what, why);
    write_note(&j->error, text);
    add(&j->errors, 1);
    if (!j->failed)
        hb_log_line(j->log, HB_LOG_ERROR, "recorder: %s; flying goes on", text);
    j->failed = milliseconds(j);
}

/* Lets go of the file; with the index, if the disk takes it. */
static void end_file(hb_journal *j, bool whole)
{
    hb_error err;

    if (j->fd < 0)
        return;
    if (whole && hb_mcap_writer_end(j->writer, &err))
        fail(j, j->directory, err.text);
    fsync(j->fd);
    close(j->fd);
    j->fd = -1;
    write_note(&j->file, "");
    atomic_store_explicit(&j->bytes, 0, memory_order_relaxed);
}

static int write_message(hb_journal *j, hb_topic topic, uint64_t log_time, uint64_t publish_time, const void *data,
                         size_t size, hb_error *err)
{
    return hb_mcap_writer_message(j->writer, (uint16_t)(topic + 1), j->sequence[topic]++, log_time, publish_time, data,
                                  size, err);
}

/* The first message: which daemon, model and configuration. */
static int write_head(hb_journal *j, uint64_t time, hb_error *err)
{
    size_t n = j->nhead;

    n += put_field(j->head + n, RECORDING_FILE, j->number);
    n += put_field(j->head + n, RECORDING_WHOLE, j->whole);
    if (j->number == 0 && j->nfirst) {
        memcpy(j->head + n, j->first, j->nfirst);
        n += j->nfirst;
    }
    return write_message(j, HB_TOPIC_RECORDING, time, time, j->head, n, err);
}

/* Opens the folder again when its path now names another one. */
static bool is_replaced(hb_journal *j)
{
    struct stat opened, there;

    if (j->folder < 0 || (fstat(j->folder, &opened) == 0 && stat(j->directory, &there) == 0 &&
                          there.st_ino == opened.st_ino && there.st_dev == opened.st_dev))
        return false;
    close(j->folder);
    j->folder = -1;
    return true;
}

static void begin_file(hb_journal *j, uint64_t time)
{
    char name[256], path[NOTE];
    time_t seconds = (time_t)(time / 1000000000);
    struct tm t;
    hb_error err;

    gmtime_r(&seconds, &t);
    snprintf(name, sizeof name, "%s-%04d%02d%02dT%02d%02d%02d.%03uZ-%03u.mcap", j->name, t.tm_year + 1900, t.tm_mon + 1,
             t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, (unsigned)(time / 1000000 % 1000), j->number);
    is_replaced(j);
    if (j->folder < 0)
        j->folder = open(j->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (j->folder < 0) {
        fail(j, j->directory, strerror(errno));
        return;
    }
    prune(j);
    j->fd = openat(j->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (j->fd < 0) {
        fail(j, name, strerror(errno));
        return;
    }
    memset(j->sequence, 0, sizeof j->sequence);
    int r = hb_mcap_writer_begin(j->writer, j->fd, HB_RECORDING_PROFILE, "hilbertd " HB_VERSION, &err);
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
        unlinkat(j->folder, name, 0);
        return;
    }
    snprintf(path, sizeof path, "%.200s/%s", j->directory, name);
    write_note(&j->file, path);
    write_note(&j->error, "");
    if (j->failed)
        hb_log_line(j->log, HB_LOG_NOTICE, "recorder: goes on in %s", path);
    j->failed = 0;
    j->number++;
    j->opened = j->flushed = milliseconds(j);
    j->overhead = hb_mcap_writer_size(j->writer);
    add(&j->files, 1);
}

/* A chunk of n messages was written, or not: then the file ends here. */
static void after_writing(hb_journal *j, int r, uint64_t n, const hb_error *err)
{
    j->flushed = milliseconds(j);
    if (!r) {
        add(&j->messages, n);
        fdatasync(j->fd);
        atomic_store_explicit(&j->bytes, hb_mcap_writer_size(j->writer), memory_order_relaxed);
        return;
    }
    fail(j, j->directory, err->text);
    j->whole = false;
    j->skipped += n;
    add(&j->lost, n);
    end_file(j, false);
}

static void flush(hb_journal *j)
{
    hb_error err;
    uint64_t waiting = j->fd >= 0 ? hb_mcap_writer_waiting(j->writer) : 0;

    if (!waiting)
        return;
    int r = hb_mcap_writer_flush(j->writer, &err);
    after_writing(j, r, waiting, &err);
}

/* Ends the file if it, or its folder, was removed: writing would go on to nowhere without an error. */
static void notice_removal(hb_journal *j)
{
    struct stat file;

    if (j->fd < 0 || fstat(j->fd, &file))
        return;
    bool moved = is_replaced(j);
    if (!moved && file.st_nlink > 0)
        return;
    fail(j, j->directory,
         moved ? "the folder was removed or replaced, and the recording in it is lost"
               : "the recording was removed while it was written, and is lost");
    j->whole = false;
    end_file(j, false);
}

/* Begins a file where there is none, or the current one is full or old enough. */
static bool have_file(hb_journal *j, uint64_t time)
{
    uint64_t now = milliseconds(j);

    /* the chunk that is gathered and the index, about as long as the head, still belong to it */
    double end = (double)(hb_mcap_writer_size(j->writer) + CHUNK + j->overhead);
    if (j->fd >= 0 &&
        (end >= j->file_size || (double)(now - j->opened) >= 1e3 * j->file_age || hb_mcap_writer_full(j->writer))) {
        flush(j);
        end_file(j, true);
    }
    if (j->fd < 0 && (!j->failed || now - j->failed >= AGAIN_MS))
        begin_file(j, time);
    return j->fd >= 0;
}

static void write_record(hb_journal *j, const put_record *r)
{
    uint64_t waiting, size;
    hb_error err;

    if (r->topic == HB_TOPIC_GAPS)
        j->whole = false;
    if (!have_file(j, r->log_time)) {
        j->whole = false;
        j->skipped++;
        add(&j->lost, 1);
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
    uint64_t out = atomic_load_explicit(&j->out, memory_order_relaxed);

    while (out != atomic_load_explicit(&j->in, memory_order_acquire)) {
        put_record r;
        copy_out(j, out, &r, sizeof r);
        copy_out(j, out + sizeof r, j->message, r.size);
        out += sizeof r + padded(r.size);
        atomic_store_explicit(&j->out, out, memory_order_release);
        write_record(j, &r);
    }
}

void hb_journal_step(hb_journal *j)
{
    drain(j);
    if (milliseconds(j) - j->flushed >= CHUNK_MS) {
        flush(j);
        notice_removal(j);
    }
    bool on = atomic_load_explicit(&j->on, memory_order_acquire);
    /* it may also have been switched on and off again since it last looked */
    if (!on && (j->was_on || j->fd >= 0)) {
        drain(j);
        flush(j);
        end_file(j, true);
        j->whole = false; /* what comes next does not follow on it */
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
        if (poll(&wait, 1, on || j->fd >= 0 ? WAKE_MS : -1) > 0) {
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
    snprintf(j->directory, sizeof j->directory, "%s", c->recorder.directory);
    snprintf(j->name, sizeof j->name, "%s", c->name);
    for (char *p = j->name; *p; p++)
        if (*p == '/')
            *p = '_';
    j->file_size = 1e6 * c->recorder.file_size;
    j->file_age = c->recorder.file_age;
    j->quota = 1e6 * c->recorder.quota;
    j->largest = s->largest;
    j->log = s->log;
    j->clock = s->clock;
    j->stepped = s->stepped;
    j->folder = j->fd = -1;
    j->whole = true;
    atomic_init(&j->on, c->recorder.enabled);
    j->ring = calloc(1, RING);
    j->entries = aligned_alloc(64, ENTRIES);
    j->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = !j->ring || !j->entries || j->wake < 0 ? hb_fail(err, ENOMEM, "recorder: out of memory") : 0;
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
    const size_t message = (size + HEAD_ROOM + nfirst > j->largest ? size + HEAD_ROOM + nfirst : j->largest);
    const hb_mcap_writer_settings settings = {
        .chunk_size = CHUNK, .message = message, .chunks = CHUNKS, .level = LEVEL};
    int r = hb_mcap_writer_new(&j->writer, &settings, err);

    if (r)
        return r;
    j->head = malloc(size + HEAD_ROOM + nfirst);
    j->first = malloc(nfirst + 1);
    j->message = malloc(message + 8);
    if (!j->head || !j->first || !j->message)
        return hb_fail(err, ENOMEM, "recorder: out of memory");
    memcpy(j->head, head, size);
    if (nfirst)
        memcpy(j->first, first, nfirst);
    j->nhead = size;
    j->nfirst = nfirst;
    j->folder = open(j->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (j->folder < 0 && hb_journal_on(j))
        return hb_fail(err, errno, "recorder.directory: %s: %s", j->directory, strerror(errno));
    atomic_store_explicit(&j->ready, true, memory_order_release);
    int why = j->stepped ? 0 : pthread_create(&j->thread, NULL, record, j);
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
    if (j->folder >= 0)
        close(j->folder);
    hb_mcap_writer_free(j->writer);
    free(j->message);
    free(j->first);
    free(j->head);
    free(j->entries);
    free(j->ring);
    free(j);
}
