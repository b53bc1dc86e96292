/* Recordings of hilbertd into a data set: what a vehicle did in flight becomes what the next basis is trained on.
 *
 * Rows are samples about a period apart, at their own times; a row's control is the mean of those in force until the
 * next. An episode ends at a gap, a reset, a detected change of dynamics, or where messages are missing. A function is
 * one vehicle in one condition: another one begins with every reset, detected change, pause or restart of the daemon.
 */
#ifndef HB_RECORDING_IMPORT_H
#define HB_RECORDING_IMPORT_H

#include <stdbool.h>

#include "base/base.h"

typedef struct hb_recording_import {
    int nfiles;
    const char *const *file; /* files of one flight in their order */
    double dt;               /* seconds; 0: the period of the model that was recorded with */
    double gap;              /* seconds without a sample that cut an episode; 0: three periods */
    double min_length;       /* seconds of the shortest episode that is kept; 0: 1 */
    double settle;           /* seconds before a detected change that are left out: it was there before; < 0: 1 */
    bool one_function;       /* all files are of the same vehicle in the same condition */
} hb_recording_import;

typedef struct hb_recording_result {
    int episodes, functions; /* functions: that begin in this file */
    double seconds;          /* written */
    int gaps, resets, changes;
    uint64_t lost; /* messages that the recording lacks */
    bool cut;      /* it was cut off */
} hb_recording_result;

/* `result` has room for nfiles. */
int hb_recording_import_files(const hb_recording_import *import, const char *output, hb_recording_result *result,
                              hb_error *err);

#endif
