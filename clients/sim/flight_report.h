/* Reports of flights as text, JSON, CSV and plots. */
#ifndef HB_FLIGHT_REPORT_H
#define HB_FLIGHT_REPORT_H

#include <stdio.h>

#include "sim/flight.h"

/* One flight of a batch, with the parameters and the start that distinguish it. */
typedef struct hb_flight_entry {
    double parameter[HB_PLANT_PARAMETERS];
    double start[HB_PLANT_STATES];
    double end[HB_PLANT_STATES]; /* the last true state */
    hb_flight_summary summary;
} hb_flight_entry;

void hb_flight_report_text(const hb_flight_summary *s, FILE *out);
/* One line. */
void hb_flight_report_json(const hb_plant_type *plant, const hb_flight_entry *e, FILE *out);

/* Many flights: how many crashed, medians and worst cases. */
void hb_flight_report_batch_text(const hb_flight_entry *e, int n, FILE *out);
void hb_flight_report_batch_json(const hb_flight_entry *e, int n, FILE *out);

int hb_flight_report_csv(const char *path, const hb_plant_type *plant, const hb_flight_record *r, hb_error *err);
/* Draws the flight with gnuplot: PATH.svg and PATH.png (an ending .svg or .png of path is dropped). */
int hb_flight_report_plot(const char *path, const hb_plant_type *plant, const hb_flight_settings *s,
                          const hb_flight_record *r, hb_error *err);

#endif
