/* The folder that recordings go to, and which of its files are an instance's: they are named by the time of their
 * beginning, and the oldest make room for new ones. */
#ifndef HB_JOURNAL_FOLDER_H
#define HB_JOURNAL_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

enum { HB_JOURNAL_FILE_NAME = 256 };

typedef struct hb_journal_folder {
    char path[HB_CONFIG_PATH_SIZE], name[HB_NAME_SIZE]; /* of the folder, and of the instance */
    int fd;                                             /* -1: it is not open */
    uint8_t *entries;                                   /* of it, as they are read */
} hb_journal_folder;

/* Not open yet. 0, or -ENOMEM. */
int hb_journal_folder_new(hb_journal_folder *f, const char *path, const char *name);
void hb_journal_folder_free(hb_journal_folder *f);

/* Opens it if it is not. 0, or -errno. */
int hb_journal_folder_open(hb_journal_folder *f);
/* Whether the path now names another folder, or none: then this one is closed. */
bool hb_journal_folder_replaced(hb_journal_folder *f);
/* NAME-20261118T091500.000Z-000.mcap: the number-th file of a run, begun at a time of day in nanoseconds. */
void hb_journal_folder_file_name(const hb_journal_folder *f, uint64_t time, uint32_t number,
                                 char ret[HB_JOURNAL_FILE_NAME]);
/* Bytes of all our files, and the oldest of them by name, "" if there is none. */
double hb_journal_folder_survey(hb_journal_folder *f, char oldest[HB_JOURNAL_FILE_NAME]);

#endif
