/* Log lines to standard error, as the journal wants them: one line each, with a level. Writing never blocks: a line
 * for which there is no room is dropped and counted, and the next one that fits says so. */
#ifndef HB_LOG_H
#define HB_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "config/log_level.h"

typedef struct hb_log {
    _Atomic int level;        /* less important lines are left out */
    bool journal;             /* levels as <N>, for a reader that is the journal; else as words */
    _Atomic unsigned dropped; /* lines for which there was no room */
} hb_log;

/* Finds out who reads standard error. */
void hb_log_start(hb_log *log, hb_log_level level);

void hb_log_line(hb_log *log, hb_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Lets a line through once in `period` seconds; counts those it holds back. */
typedef struct hb_log_limit {
    double period, last;
    bool started;
    unsigned held;
} hb_log_limit;

/* True when the line may be written now; *ret_held says how many were held back since the last one. */
bool hb_log_due(hb_log_limit *l, double now, unsigned *ret_held);

#endif
