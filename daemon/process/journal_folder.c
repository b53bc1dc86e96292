#include "process/journal_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ENTRIES = 32768 }; /* bytes of a directory read at a time */

/* A directory entry as getdents64 returns it. */
typedef struct entry {
    uint64_t inode, offset;
    uint16_t size;
    uint8_t type;
    char name[];
} entry;

int hb_journal_folder_new(hb_journal_folder *f, const char *path, const char *name)
{
    *f = (hb_journal_folder){.fd = -1, .entries = aligned_alloc(64, ENTRIES)};
    snprintf(f->path, sizeof f->path, "%s", path);
    snprintf(f->name, sizeof f->name, "%s", name);
    for (char *p = f->name; *p; p++)
        if (*p == '/')
            *p = '_';
    return f->entries ? 0 : -ENOMEM;
}

void hb_journal_folder_free(hb_journal_folder *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->entries);
}

int hb_journal_folder_open(hb_journal_folder *f)
{
    if (f->fd < 0)
        f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return f->fd < 0 ? -errno : 0;
}

bool hb_journal_folder_replaced(hb_journal_folder *f)
{
    struct stat opened, there;

    if (f->fd < 0 || (fstat(f->fd, &opened) == 0 && stat(f->path, &there) == 0 && there.st_ino == opened.st_ino &&
                      there.st_dev == opened.st_dev))
        return false;
    close(f->fd);
    f->fd = -1;
    return true;
}

void hb_journal_folder_file_name(const hb_journal_folder *f, uint64_t time, uint32_t number,
                                 char ret[HB_JOURNAL_FILE_NAME])
{
    time_t seconds = (time_t)(time / 1000000000);
    struct tm t;

    gmtime_r(&seconds, &t);
    snprintf(ret, HB_JOURNAL_FILE_NAME, "%s-%04d%02d%02dT%02d%02d%02d.%03uZ-%03u.mcap", f->name, t.tm_year + 1900,
             t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, (unsigned)(time / 1000000 % 1000), number);
}

/* Whether we would give such a name. Files of an instance whose name begins as ours does, and those that somebody has
 * put aside under another one, are not. */
static bool ours(const hb_journal_folder *f, const char *name)
{
    static const char pattern[] = "-ddddddddTdddddd.dddZ-ddd";
    size_t n = strlen(f->name);

    if (strncmp(name, f->name, n))
        return false;
    name += n;
    for (const char *p = pattern; *p; p++, name++)
        if (*p == 'd' ? *name < '0' || *name > '9' : *name != *p)
            return false;
    while (*name >= '0' && *name <= '9') /* three digits, more from the thousandth file on */
        name++;
    return strcmp(name, ".mcap") == 0;
}

double hb_journal_folder_survey(hb_journal_folder *f, char oldest[HB_JOURNAL_FILE_NAME])
{
    double sum = 0;
    long n;

    *oldest = '\0';
    lseek(f->fd, 0, SEEK_SET);
    while ((n = syscall(SYS_getdents64, f->fd, f->entries, ENTRIES)) > 0)
        for (long at = 0; at < n;) {
            const entry *e = (const void *)(f->entries + at);
            struct stat st;
            at += e->size;
            if (!ours(f, e->name) || fstatat(f->fd, e->name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
                continue;
            sum += (double)st.st_size;
            if (!*oldest || strcmp(e->name, oldest) < 0)
                snprintf(oldest, HB_JOURNAL_FILE_NAME, "%s", e->name);
        }
    return sum;
}
