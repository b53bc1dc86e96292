#include "process/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int journal_level[] = {
#define X(id, name, journal) journal,
    HB_LOG_LEVELS(X)
#undef X
};

void hb_log_start(hb_log *log, hb_log_level level)
{
    atomic_init(&log->level, (int)level);
    atomic_init(&log->dropped, 0);
    log->journal = getenv("JOURNAL_STREAM") != NULL;
}

/* A pipe or socket that polls writable takes PIPE_BUF bytes without blocking, and no line is longer. */
static bool write_line(const char *line, size_t size)
{
    struct pollfd err = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&err, 1, 0) == 1 && (err.revents & POLLOUT) && write(STDERR_FILENO, line, size) == (ssize_t)size;
}

void hb_log_line(hb_log *log, hb_log_level level, const char *format, ...)
{
    char line[1024];
    va_list args;

    if ((int)level > atomic_load_explicit(&log->level, memory_order_relaxed))
        return;
    unsigned dropped = atomic_exchange(&log->dropped, 0);
    int n = log->journal ? snprintf(line, sizeof line, "<%d>", journal_level[level])
                         : snprintf(line, sizeof line, "hilbertd: %s: ", hb_log_level_name[level]);
    if (dropped)
        n += snprintf(line + n, sizeof line - (size_t)n, "(%u lines lost) ", dropped);
    va_start(args, format);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    size_t length = (size_t)n + (size_t)(m > 0 ? m : 0);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    if (!write_line(line, length))
        atomic_fetch_add(&log->dropped, dropped + 1);
}

bool hb_log_due(hb_log_limit *l, double now, unsigned *ret_held)
{
    if (l->started && now - l->last < l->period) {
        l->held++;
        return false;
    }
    *ret_held = l->held;
    *l = (hb_log_limit){.period = l->period, .last = now, .started = true};
    return true;
}
