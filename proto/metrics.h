/* Status messages of one or many daemons in Prometheus' text format: each family once, with a series for every daemon.
 */
#ifndef HILBERT_METRICS_H
#define HILBERT_METRICS_H

#include <stdbool.h>
#include <stdio.h>

#include "hilbert.pb-c.h"

typedef struct hb_metrics hb_metrics;

hb_metrics *hb_metrics_new(void); /* NULL: out of memory */
/* The series of one daemon, under the label name="NAME". All parts of the status must be there. */
void hb_metrics_add(hb_metrics *m, const char *name, const Hilbert__V1__Status *s);
/* One gauge of a program that watches daemons: hilbert_METRIC{name="NAME"}, without the label where name is NULL. */
void hb_metrics_gauge(hb_metrics *m, const char *name, const char *metric, const char *help, double value);
void hb_metrics_counter(hb_metrics *m, const char *metric, const char *help, double value);
/* Writes all families in the order in which they first came, and frees. False when memory was short. */
bool hb_metrics_end(hb_metrics *m, FILE *out);

#endif
