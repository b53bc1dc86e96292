/* The flight recorder with what each of its files begins with: the message that says whose flight it is and what
 * decides in it, and in the first file the window that was taken over, so that a replay starts where the flight did. */
#ifndef HB_RECORDER_H
#define HB_RECORDER_H

#include "process/journal.h"
#include "server/signals.h"

typedef struct hb_recorder_settings {
    const hb_config *config; /* read during hb_recorder_open only, as is all else here but the log */
    const hb_model *model;
    const char *configuration; /* its text: what a replay reads */
    const void *window;        /* nwindow bytes, taken over from before a restart */
    size_t nwindow;            /* 0: none was */
    uint64_t run;              /* time of day of the start, nanoseconds: all files of a run have it */
    hb_log *log;
    hb_clock clock;
    bool stepped; /* no thread: its owner calls hb_journal_step in its place */
} hb_recorder_settings;

typedef struct hb_recorder {
    hb_journal *journal;
    hb_signals named; /* samples under the model's names */
} hb_recorder;

/* *ret is zero before it, and stays so on failure. */
int hb_recorder_open(hb_recorder *ret, const hb_recorder_settings *s, hb_error *err);
void hb_recorder_close(hb_recorder *r);

#endif
