#include "common/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 30 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void hb_progress_start(hb_progress *p, const char *what)
{
    *p = (hb_progress){.what = what, .started = now(), .terminal = isatty(STDERR_FILENO)};
    p->shown = p->started;
}

double hb_progress_elapsed(const hb_progress *p)
{
    return now() - p->started;
}

static void print_duration(double seconds)
{
    long s = (long)(seconds + 0.5);

    if (s >= 3600)
        fprintf(stderr, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        fprintf(stderr, "%ld:%02ld", s / 60, s % 60);
}

void hb_progress_update(hb_progress *p, double fraction, const char *note)
{
    double time = now(), elapsed = time - p->started;

    if (fraction <= 0 || elapsed < 2 || time - p->shown < (p->terminal ? 0.1 : 60))
        return;
    p->shown = time;
    if (p->terminal) {
        int full = (int)(fraction * WIDTH);
        fprintf(stderr, "\r%s [", p->what);
        for (int i = 0; i < WIDTH; i++)
            fputc(i < full ? '#' : ' ', stderr);
        fprintf(stderr, "] ");
    } else {
        fprintf(stderr, "%s ", p->what);
    }
    fprintf(stderr, "%3.0f %%, ", 100 * fraction);
    print_duration(elapsed / fraction - elapsed);
    fprintf(stderr, " left%s%s%s", note ? ", " : "", note ? note : "", p->terminal ? "\033[K" : "\n");
    fflush(stderr);
    p->drawn = true;
}

void hb_progress_end(hb_progress *p)
{
    if (p->drawn && p->terminal)
        fprintf(stderr, "\r\033[K");
}
