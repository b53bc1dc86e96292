/* The flight recorder: what the daemon takes in and decides goes to MCAP files, and flying never waits for it.
 *
 *     server's thread                                     recorder's thread, of low priority
 *     hb_journal_put --> ring of bytes, fixed -->         chunks, compressed --> DIRECTORY/NAME-TIME-NNN.mcap
 *          |                                                 |
 *          no room: counted, and marked as a gap             disk full: counted, tried again later
 *
 * One thread puts; it takes no lock, allocates nothing, and makes no system call. A file ends at a size or an age; the
 * oldest files of the same name are removed to keep to the quota. Each second what there is becomes a chunk: that much
 * is lost when the power fails. */
#ifndef HB_JOURNAL_H
#define HB_JOURNAL_H

#include <stdbool.h>

#include "base/base.h"
#include "config/config.h"
#include "process/log.h"
#include "recording.h"

typedef struct hb_journal hb_journal;

typedef struct hb_journal_settings {
    const hb_config *config; /* recorder and name; read during hb_journal_new only */
    size_t largest;          /* bytes of the largest message */
    hb_log *log;
    hb_clock clock;
    bool stepped; /* no thread: its owner calls hb_journal_step in its place */
} hb_journal_settings;

/* Starts the thread. Nothing is written before hb_journal_head. */
int hb_journal_new(hb_journal **ret, const hb_journal_settings *s, hb_error *err);
/* Writes what there is, and ends the file. */
void hb_journal_free(hb_journal *j);

/* The message that each file begins with (hilbert.v1.Recording, without file and whole); `first` is added to it in the
 * first one. Both are copied. To be called once; allocates. */
int hb_journal_head(hb_journal *j, const void *head, size_t size, const void *first, size_t nfirst, hb_error *err);

/* Another topic beside those of hilbert.proto, HB_TOPIC_NAMED: its name, its schema, and what is said of it. All stay the
 * caller's. To be called before hb_journal_head. */
typedef struct hb_journal_named {
    const char *topic, *schema_name;
    const void *schema;
    size_t size;
    const char *metadata; /* nmetadata texts of `stride` bytes: name and value in turn */
    int nmetadata;
    size_t stride;
} hb_journal_named;
enum { HB_TOPIC_NAMED = HB_NTOPICS };
void hb_journal_name(hb_journal *j, const hb_journal_named *named);

/* ---- for the one thread that puts ---- */

bool hb_journal_on(const hb_journal *j);
void hb_journal_switch(hb_journal *j, bool on);
/* A message in two parts, one after the other. log_time: time of day, publish_time: when it was made, nanoseconds. */
void hb_journal_put(hb_journal *j, hb_topic topic, uint64_t log_time, uint64_t publish_time, const void *a, size_t na,
                    const void *b, size_t nb);

/* What the thread does each time that it wakes: writes what there is. */
void hb_journal_step(hb_journal *j);

/* ---- for any thread ---- */

typedef struct hb_journal_report {
    bool on;
    char file[HB_CONFIG_PATH_SIZE]; /* empty: none is open */
    char error[256];
    uint64_t bytes, messages, lost, files, pruned, errors;
} hb_journal_report;

/* Does not wait; what is being changed at the moment may be the old or the new. */
void hb_journal_read(const hb_journal *j, hb_journal_report *ret);

/* Whether recordings can be written to the directory: 0, or -errno with "recorder.directory: why". */
int hb_journal_check(const hb_config *c, hb_error *err);

#endif
