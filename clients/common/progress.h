/* A progress bar with the time left, on standard error: redrawn in place on a terminal and cut to its width; elsewhere
 * plain lines, the first after two seconds, then every 5 to 60 seconds. Work that is over within two seconds shows
 * nothing. */
#ifndef HB_PROGRESS_H
#define HB_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hb_progress {
    const char *what;
    double started, shown; /* seconds */
    bool terminal, drawn;
} hb_progress;

void hb_progress_start(hb_progress *p, const char *what);
/* fraction of the work done, 0..1; note (may be NULL) is added to the line. */
void hb_progress_update(hb_progress *p, double fraction, const char *note);
/* Clears the bar. */
void hb_progress_end(hb_progress *p);
/* The line itself: columns 0 gives it plain and whole, else with a bar and shorter than so many columns. Returns the
 * length that it has uncut. */
int hb_progress_line(char *text, size_t size, const char *what, double fraction, double elapsed, const char *note,
                     int columns);
/* Seconds since the start. */
double hb_progress_elapsed(const hb_progress *p);

#endif
