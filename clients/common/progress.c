#include "common/progress.h"

#include <math.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/monotonic.h"

enum { BAR = 10 };

void hb_progress_start(hb_progress *p, const char *what)
{
    *p = (hb_progress){.what = what, .started = hb_now(), .terminal = isatty(STDERR_FILENO)};
    p->shown = p->started;
}

double hb_progress_elapsed(const hb_progress *p)
{
    return hb_now() - p->started;
}

static int terminal_columns(void)
{
    struct winsize w;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

int hb_progress_line(char *text, size_t size, const char *what, double fraction, double elapsed, const char *note,
                     int columns)
{
    char bar[BAR + 8] = "";
    double left = elapsed / fraction - elapsed;
    long s = (long)(left + 0.5);
    char duration[32];

    if (columns > 0)
        snprintf(bar, sizeof bar, "[%-*.*s]", BAR, (int)(fraction * BAR), "##########");
    if (s >= 3600)
        snprintf(duration, sizeof duration, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(duration, sizeof duration, "%ld:%02ld", s / 60, s % 60);
    int n = snprintf(text, size, "%s %s%s%.0f %%, %s left%s%s", what, bar, *bar ? " " : "", 100 * fraction, duration,
                     note ? ", " : "", note ? note : "");
    /* the last column stays empty: some terminals go to the next line when it is written */
    if (columns > 0 && n >= columns && (size_t)columns <= size)
        text[columns - 1] = 0;
    return n;
}

void hb_progress_update(hb_progress *p, double fraction, const char *note)
{
    double time = hb_now(), elapsed = time - p->started;
    double pause = p->terminal ? 0.1 : p->drawn ? fmin(fmax(elapsed / 5, 5), 60) : 0;
    char text[256];

    if (fraction <= 0 || elapsed < 2 || time - p->shown < pause || (fraction >= 1 && !p->terminal))
        return;
    p->shown = time;
    hb_progress_line(text, sizeof text, p->what, fraction, elapsed, note, p->terminal ? terminal_columns() : 0);
    fprintf(stderr, p->terminal ? "\r%s\033[K" : "%s\n", text);
    fflush(stderr);
    p->drawn = true;
}

void hb_progress_end(hb_progress *p)
{
    if (p->drawn && p->terminal)
        fprintf(stderr, "\r\033[K");
}
