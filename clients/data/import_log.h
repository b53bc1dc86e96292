/* Logs of any origin (CSV, gzip or not) into a data set, by a description of their columns (log_map.h).
 *
 *     rows -> time, states, controls, or not believed -> quaternions of one sign, rates of the body
 *          -> pieces without gaps -> resampled to dt -> episodes
 *
 * A state at t is the mean of the rows within dt / 8 of it (causal: within dt / 4 before it), as the daemon takes it; a
 * control is the mean of what was in force until t + dt. */
#ifndef HB_IMPORT_LOG_H
#define HB_IMPORT_LOG_H

#include "data/dataset.h"
#include "data/log_map.h"

enum { HB_LOG_FINDINGS = 8, HB_LOG_FINDING = 200 };

/* What came of a file, and what is odd about it. */
typedef struct hb_log_result {
    int function, episodes;
    size_t rows, taken;   /* in the file, in episodes */
    size_t not_numbers;   /* rows with an empty cell or one that is no number */
    size_t left_out;      /* rows that `where` leaves out */
    size_t beyond;        /* rows beyond limits */
    size_t glitches, far; /* rows of glitches, rows far out (log_glitches.h) */
    int jumps;            /* of states, which end episodes */
    size_t repeated;      /* rows in which nothing moved for long: a link or a logger that hung */
    size_t back;          /* rows whose time does not come after that before */
    size_t flips;         /* changes of a quaternion's sign that were undone */
    int gaps;
    double seconds, period; /* in episodes; of the log's rows */
    int nfindings;
    char finding[HB_LOG_FINDINGS][HB_LOG_FINDING];
} hb_log_result;

/* result: one for each file. A file without an episode is an error only when no file has one. */
int hb_log_import(const hb_log_map *map, int nfiles, const char *const *file, const char *output, hb_log_result *result,
                  hb_error *err);

/* Looks at logs of one kind and writes a description of them, with what was guessed and why as comments; what
 * contradicts the flights is put right first. mass: kilograms, NaN: it is to be filled in. */
int hb_log_describe(int nfiles, const char *const *file, double mass, FILE *out, hb_error *err);

#endif
