#include "world_recorder.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mcap/mcap_reader.h"

static void stop_at(const char *what)
{
    fprintf(stderr, "hilbert-world: recorder: %s\n", what);
    exit(1);
}

static uint64_t hash_of(const uint8_t *data, size_t size)
{
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * 1099511628211u;
    return hash;
}

void world_recorder_start(world_recorder *r, const hb_config *config, const hb_model *model, hb_clock clock,
                          hb_log *log)
{
    const hb_recorder_settings settings = {
        .config = config, .model = model, .configuration = "", .log = log, .clock = clock, .stepped = true};
    hb_error err;

    r->nsent = 0;
    if (hb_recorder_open(&r->opened, &settings, &err))
        stop_at(err.text);
}

void world_recorder_sent(world_recorder *r, const void *data, size_t size)
{
    if (!r->opened.journal)
        return;
    if (r->nsent == r->room) {
        r->sent = realloc(r->sent, (size_t)(r->room = 2 * r->room + 256) * sizeof *r->sent);
        if (!r->sent)
            stop_at("out of memory");
    }
    r->sent[r->nsent].hash = hash_of(data, size);
    r->sent[r->nsent++].on = hb_journal_on(r->opened.journal);
}

void world_recorder_step(world_recorder *r, long most)
{
    struct rlimit limit, none;

    if (!r->opened.journal)
        return;
    getrlimit(RLIMIT_FSIZE, &none);
    limit = none;
    if (most >= 0)
        limit.rlim_cur = (rlim_t)most;
    setrlimit(RLIMIT_FSIZE, &limit);
    hb_journal_step(r->opened.journal);
    setrlimit(RLIMIT_FSIZE, &none);
}

/* ---- reading back ---- */

static int is_recording(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

typedef struct comparison {
    int next;      /* of those sent */
    bool gap;      /* a gap was told since the last reply */
    uint64_t read; /* messages, without the head of each file */
} comparison;

static bool sent_again(const world_recorder *r, int from, uint64_t hash)
{
    while (from < r->nsent && r->sent[from].hash != hash)
        from++;
    return from < r->nsent;
}

static bool compare(world_recorder *r, comparison *c, const hb_mcap_message *m, char *text, size_t size)
{
    hb_topic topic = hb_topic_find(m->channel->topic);

    c->read += topic != HB_TOPIC_RECORDING;
    c->gap |= topic == HB_TOPIC_GAPS;
    if (topic != HB_TOPIC_REPLIES)
        return true;
    Hilbert__V1__RecordedReply *recorded = hilbert__v1__recorded_reply__unpack(NULL, m->size, m->data);
    if (!recorded || !recorded->reply) {
        snprintf(text, size, "a recorded reply cannot be read");
        return false;
    }
    bool unsent = recorded->unsent, known = true;
    uint8_t *packed = malloc(hilbert__v1__action_reply__get_packed_size(recorded->reply) + 1);
    uint64_t hash = hash_of(packed, hilbert__v1__action_reply__pack(recorded->reply, packed)), id = recorded->reply->id;
    free(packed);
    hilbert__v1__recorded_reply__free_unpacked(recorded, NULL);
    if (unsent)
        return true;
    for (; c->next < r->nsent && !(r->sent[c->next].hash == hash && r->sent[c->next].on); c->next++)
        known &= !r->sent[c->next].on || c->gap;
    if (c->next == r->nsent || !known) {
        snprintf(text, size, "reply to %" PRIu64 ": %s", id,
                 known ? "recorded, and never sent, or in another order" : "those before it are missing without a gap");
        return false;
    }
    c->next++;
    /* a request that came twice has the same reply twice: after a gap it may be the one sent later */
    c->gap = c->gap && sent_again(r, c->next, hash);
    return true;
}

static bool compare_file(world_recorder *r, comparison *c, const char *path, char *text, size_t size)
{
    hb_mcap_reader *reader = NULL;
    hb_mcap_message m;
    hb_error err;
    struct stat st;
    bool same = true;
    int got = hb_mcap_reader_open(&reader, path, &err);

    /* one that was cut off within its first bytes is no recording */
    if (got && stat(path, &st) == 0 && st.st_size < 64)
        return true;
    while (!got && same && (got = hb_mcap_reader_next(reader, &m, &err)) > 0) {
        same = compare(r, c, &m, text, size);
        got = 0;
    }
    hb_mcap_reader_free(reader);
    if (got < 0)
        snprintf(text, size, "%.200s", err.text);
    return got >= 0 && same;
}

bool world_recorder_end(world_recorder *r, bool killed, double part, char *text, size_t size)
{
    hb_journal_report before, after;
    struct stat st = {0};
    struct dirent **entry;
    comparison c = {0};
    char directory[] = "recordings", path[512];
    off_t from = 0, to = 0;
    bool same = true;

    if (!r->opened.journal)
        return true;
    hb_journal_read(r->opened.journal, &before);
    if (*before.file && stat(before.file, &st) == 0)
        from = st.st_size;
    /* what the process wrote after it was killed it did not write: of a file the end, and files that it began */
    int n = killed ? scandir(directory, &entry, is_recording, alphasort) : 0;
    if (!killed)
        hb_journal_switch(r->opened.journal, false);
    hb_journal_step(r->opened.journal);
    hb_journal_read(r->opened.journal, &after);
    if (*before.file && stat(before.file, &st) == 0)
        to = st.st_size;
    if (!killed)
        n = scandir(directory, &entry, is_recording, alphasort);
    hb_recorder_close(&r->opened);
    if (killed && *before.file && truncate(before.file, from + (off_t)(part * (double)(to - from))))
        stop_at(before.file);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, entry[i]->d_name);
        same = same && compare_file(r, &c, path, text, size);
        unlink(path);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    /* those that were begun while it was being ended */
    n = scandir(directory, &entry, is_recording, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, entry[i]->d_name);
        unlink(path);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    if (!same)
        return false;
    for (; !killed && !after.lost && c.next < r->nsent; c.next++)
        if (r->sent[c.next].on) {
            snprintf(text, size, "%d replies were sent, %d are recorded, and none is counted as lost", r->nsent,
                     c.next);
            return false;
        }
    if (!killed && c.read != after.messages) {
        snprintf(text, size, "%" PRIu64 " messages are counted, %" PRIu64 " can be read", after.messages, c.read);
        return false;
    }
    return true;
}
