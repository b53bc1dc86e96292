/* A recorded flight as the page reads it: JSON for hilbert-view, and one self-contained page of a flight. */
#ifndef HB_VIEW_FLIGHT_JSON_H
#define HB_VIEW_FLIGHT_JSON_H

#include <stdio.h>

#include "data/recorded_flight.h"

/* What else a report has. */
typedef struct hb_view_report {
    const char *(*row)[2]; /* nrows pairs: what, and its value */
    int nrows;
    /* predictions against what came; none without points */
    size_t npoints;
    const double *time, *predicted; /* npoints, npoints x nx */
    const char *text;               /* tables and notes, as text; or NULL */
} hb_view_report;

/* At most 20,000 rows of samples and of replies, 5,000 of estimates: of a longer flight every k-th state, and the
 * largest latency and error of each k. report may be NULL. */
void hb_view_write_flight(const hb_recorded_flight *f, const hb_view_report *report, FILE *out);
/* Limits of places (limits.rules) in a configuration as hilbertd prints it, a JSON list of its entries as they stand.
 */
void hb_view_write_limits(const char *configuration, FILE *out);
/* The page with its styles and scripts and a flight inside. */
void hb_view_write_page(const hb_recorded_flight *f, const hb_view_report *report, FILE *out);

#endif
