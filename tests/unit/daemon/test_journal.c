/* daemon/process/journal: what is put is in the files, in order; gaps, rotation, quota, full disks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "mcap/mcap_reader.h"
#include "process/journal.h"
#include "process/realtime.h"

enum { LARGEST = 70000 };
static const uint64_t day = UINT64_C(1700000000000000000);

typedef struct bench {
    char folder[64];
    hb_config *config;
    hb_log log;
} bench;

static void start(bench *b)
{
    *b = (bench){.folder = "/tmp/test_journal.XXXXXX"};
    assert_non_null(mkdtemp(b->folder));
    b->config = calloc(1, sizeof *b->config);
    hb_config_default(b->config);
    b->config->recorder.enabled = true;
    snprintf(b->config->recorder.directory, sizeof b->config->recorder.directory, "%s", b->folder);
    hb_log_start(&b->log, HB_LOG_ERROR);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The files of the folder, sorted; their number. */
static int list(const bench *b, char *name[64])
{
    DIR *d = opendir(b->folder);
    struct dirent *e;
    int n = 0;

    while (d && (e = readdir(d)))
        if (*e->d_name != '.' && n < 64)
            assert_true(asprintf(&name[n++], "%s/%s", b->folder, e->d_name) > 0);
    if (d)
        closedir(d);
    qsort(name, (size_t)n, sizeof *name, by_name);
    return n;
}

static void finish(bench *b)
{
    char *name[64];
    int n = list(b, name);

    for (int i = 0; i < n; i++) {
        unlink(name[i]);
        free(name[i]);
    }
    rmdir(b->folder);
    free(b->config);
}

/* Chunks are written each second and disks tried again after five: neither needs to be waited for. */
static double hurried(void *context)
{
    return 20 * hb_clock_monotonic(context);
}

static hb_journal *begin(bench *b)
{
    hb_journal *j = NULL;
    hb_error err;

    assert_int_equal(
        hb_journal_new(
            &j,
            &(hb_journal_settings){.config = b->config, .largest = LARGEST, .log = &b->log, .clock = {.now = hurried}},
            &err),
        0);
    assert_int_equal(hb_journal_head(j, "head", 4, "first", 5, &err), 0);
    return j;
}

/* Message i: its number, and as many bytes as it takes. */
static void put(hb_journal *j, int i, size_t size)
{
    static uint8_t data[LARGEST];

    for (size_t k = 0; k < size; k++)
        data[k] = (uint8_t)((unsigned)i * 31 + k * k);
    hb_journal_put(j, HB_TOPIC_TELEMETRY, day + (uint64_t)i, day, &i, sizeof i, data, size);
}

/* The messages of a file: each as it was put, and ascending from `next` on but for gaps. Returns the next. */
static int check_file(const char *path, int next, int *ret_lost)
{
    hb_mcap_reader *r;
    hb_mcap_message m;
    hb_error err;
    int got, n = 0;

    assert_int_equal(hb_mcap_reader_open(&r, path, &err), 0);
    while ((got = hb_mcap_reader_next(r, &m, &err)) > 0) {
        int i;
        if (n++ == 0) {
            assert_string_equal(m.channel->topic, "recording");
            assert_memory_equal(m.data, "head", 4);
            continue;
        }
        if (strcmp(m.channel->topic, "gaps") == 0) {
            /* a number as protobuf writes it */
            int lost = 0;
            for (size_t k = 1; k < m.size; k++)
                lost |= (m.data[k] & 127) << (7 * (k - 1));
            *ret_lost += lost;
            next += lost;
            continue;
        }
        memcpy(&i, m.data, sizeof i);
        assert_int_equal(i, next);
        assert_true(m.log_time == day + (uint64_t)i);
        for (size_t k = 0; k < m.size - sizeof i; k++)
            assert_int_equal(m.data[sizeof i + k], (uint8_t)((unsigned)i * 31 + k * k));
        next++;
    }
    assert_int_equal(got, 0);
    hb_mcap_reader_free(r);
    return next;
}

static void all_that_is_put_is_written(void **state)
{
    bench b;
    char *name[64];
    int lost = 0;

    (void)state;
    start(&b);
    hb_journal *j = begin(&b);
    for (int i = 0; i < 3000; i++)
        put(j, i, (size_t)(i % 700));
    hb_journal_free(j);
    assert_int_equal(list(&b, name), 1);
    assert_int_equal(check_file(name[0], 0, &lost), 3000);
    assert_int_equal(lost, 0);
    free(name[0]);
    finish(&b);
}

/* Until n messages are written or lost: on a busy machine the recorder's thread takes its time. */
static void await_written(hb_journal *j, int n)
{
    hb_journal_report report;

    for (int i = 0; i < 3000; i++) {
        hb_journal_read(j, &report);
        if (report.messages + report.lost >= (uint64_t)n)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("%d messages were not written in 30 s", n);
}

/* More than the ring holds at once: what is lost is counted, and stands in the file as a gap at its place. */
static void what_does_not_fit_is_a_gap(void **state)
{
    bench b;
    char *name[64];
    hb_journal_report report;
    int lost = 0, next = 0, n = 0;

    (void)state;
    start(&b);
    hb_journal *j = begin(&b);
    for (int burst = 0; burst < 2; burst++) {
        for (int i = 0; i < 200; i++)
            put(j, n++, 60000);
        await_written(j, n);
    }
    put(j, n++, 1);
    hb_journal_read(j, &report);
    hb_journal_free(j);
    assert_true(report.lost > 0);
    int files = list(&b, name);
    for (int i = 0; i < files; i++) {
        next = check_file(name[i], next, &lost);
        free(name[i]);
    }
    assert_int_equal(lost, report.lost);
    assert_int_equal(next, n);
    finish(&b);
}

/* n messages that do not compress, a second apart */
static void put_noise(hb_journal *j, int n)
{
    static uint8_t noise[60000];
    uint32_t seed = 1;

    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof noise; k++)
            noise[k] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
        hb_journal_put(j, HB_TOPIC_TELEMETRY, day + (uint64_t)i * 1000000000, day, noise, sizeof noise, NULL, 0);
        if (i % 10 == 9)
            await_written(j, i + 1);
    }
}

/* Files of a megabyte: another one follows, and the oldest go when there are too many. */
static void rotation_and_quota(void **state)
{
    bench b;
    char *name[64];
    hb_journal_report report;
    struct stat st;
    double sum = 0;

    (void)state;
    start(&b);
    b.config->recorder.file_size = 1;
    b.config->recorder.quota = 4;
    hb_journal *j = begin(&b);
    put_noise(j, 200);
    hb_journal_read(j, &report);
    hb_journal_free(j);
    assert_true(report.files >= 8);
    assert_true(report.pruned >= 4);
    int n = list(&b, name);
    assert_in_range(n, 2, 6);
    for (int i = 0; i < n; i++) {
        assert_int_equal(stat(name[i], &st), 0);
        sum += (double)st.st_size;
        free(name[i]);
    }
    assert_true(sum < 5.5e6);
    finish(&b);
}

/* What is removed for the quota are files of this daemon alone: not those of an instance whose name begins as ours, nor
 * one that somebody has put aside. And two files of one megabyte fit into two. */
static void the_quota_is_ours_alone(void **state)
{
    static const char *const others[] = {"quad-1-20000101T000000.000Z-000.mcap", "quad-important.mcap",
                                         "quad-20000101T000000.000Z-000.mcap.bak", "quad-2000-old.mcap",
                                         "quad2-20000101T000000.000Z-000.mcap"};
    enum { OTHERS = sizeof others / sizeof *others };
    bench b;
    char *name[64], path[400];
    double sum = 0;
    int kept = 0, own = 0;
    struct stat st;

    (void)state;
    start(&b);
    snprintf(b.config->name, sizeof b.config->name, "quad");
    b.config->recorder.file_size = 1;
    b.config->recorder.quota = 2;
    for (int i = 0; i < OTHERS; i++) {
        snprintf(path, sizeof path, "%s/%s", b.folder, others[i]);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(ftruncate(fileno(f), 3000000), 0);
        fclose(f);
    }
    hb_journal *j = begin(&b);
    put_noise(j, 100);
    hb_journal_free(j);
    int n = list(&b, name);
    for (int i = 0; i < n; i++) {
        bool other = false;
        for (int k = 0; k < OTHERS; k++)
            other |= strcmp(strrchr(name[i], '/') + 1, others[k]) == 0;
        kept += other;
        if (!other) {
            assert_int_equal(stat(name[i], &st), 0);
            sum += (double)st.st_size;
            own++;
        }
        free(name[i]);
    }
    assert_int_equal(kept, OTHERS);
    assert_true(own >= 2);
    assert_true(sum <= 2e6);
    finish(&b);
}

/* A folder that is removed with the file in it, and made again: the loss is told, and the recording goes on there. */
static void a_folder_that_is_made_again(void **state)
{
    bench b;
    char *name[64], away[80];
    hb_journal_report report = {0};

    (void)state;
    start(&b);
    hb_journal *j = begin(&b);
    put(j, 0, 10);
    await_written(j, 1);
    hb_journal_read(j, &report);
    assert_true(*report.file && report.errors == 0);
    int n = list(&b, name);
    assert_int_equal(n, 1);
    unlink(name[0]);
    free(name[0]);
    snprintf(away, sizeof away, "%s.away", b.folder);
    assert_int_equal(rename(b.folder, away), 0); /* so that the new one is another */
    assert_int_equal(mkdir(b.folder, 0755), 0);
    rmdir(away);
    n = 0;
    for (int i = 0; i < 6000 && (n = list(&b, name)) == 0; i++) {
        put(j, i + 1, 10);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    for (int i = 0; i < n; i++)
        free(name[i]);
    hb_journal_read(j, &report);
    hb_journal_free(j);
    assert_true(report.errors > 0);
    n = list(&b, name);
    assert_int_equal(n, 1);
    free(name[0]);
    finish(&b);
}

/* A folder that cannot be written to is an error that is counted and told; nothing waits for it. */
static void a_disk_that_fails(void **state)
{
    bench b;
    hb_journal_report report = {0};

    (void)state;
    start(&b);
    hb_journal *j = begin(&b);
    rmdir(b.folder);
    for (int i = 0; i < 1000 && !report.lost; i++) {
        put(j, i, 10);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        hb_journal_read(j, &report);
    }
    assert_true(report.errors > 0);
    assert_true(report.lost > 0);
    assert_true(*report.error);
    assert_string_equal(report.file, "");
    hb_journal_free(j);
    finish(&b);
}

static void switching(void **state)
{
    bench b;
    char *name[64];
    hb_journal_report report = {0};

    (void)state;
    start(&b);
    hb_journal *j = begin(&b);
    for (int round = 0; round < 3; round++) {
        bool on = round != 1;
        hb_journal_switch(j, on);
        assert_int_equal(hb_journal_on(j), on);
        for (int i = 0; i < 500 && (i == 0 || (*report.file != 0) != on); i++) {
            hb_journal_put(j, HB_TOPIC_TELEMETRY, day + (uint64_t)round * 2000000000, day, "x", 1, NULL, 0);
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
            hb_journal_read(j, &report);
        }
        assert_int_equal(*report.file != 0, on);
    }
    hb_journal_free(j);
    int n = list(&b, name);
    assert_int_equal(n, 2);
    for (int i = 0; i < n; i++)
        free(name[i]);
    finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_is_put_is_written),
        cmocka_unit_test(what_does_not_fit_is_a_gap),
        cmocka_unit_test(rotation_and_quota),
        cmocka_unit_test(the_quota_is_ours_alone),
        cmocka_unit_test(a_folder_that_is_made_again),
        cmocka_unit_test(a_disk_that_fails),
        cmocka_unit_test(switching),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
