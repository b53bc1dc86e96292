/* The vehicles that hilbert-view watches: those it was told, or all that have sockets below a folder, and what the page
 * is told about them, as JSON. */
#ifndef HB_VIEW_FLEET_H
#define HB_VIEW_FLEET_H

#include <stdio.h>

#include "view/vehicle.h"

enum { HB_VIEW_VEHICLES = 256 };

typedef struct hb_view_fleet {
    void *context; /* ZeroMQ's */
    hb_view_keys keys;
    const char *folder; /* where daemons are looked for; NULL: only those that were added */
    hb_view_vehicle *vehicle[HB_VIEW_VEHICLES];
    int n;
    double searched; /* monotonic seconds */
} hb_view_fleet;

/* 0, or -1 with the reason in `why`. */
int hb_view_fleet_add(hb_view_fleet *f, const char *place, char *why, size_t size);
/* Looks for daemons that came, now and then. */
void hb_view_fleet_search(hb_view_fleet *f, double now);
void hb_view_fleet_end(hb_view_fleet *f);

/* {"fleet":[{...}, ...]}: a row for each vehicle. */
void hb_view_fleet_write(const hb_view_fleet *f, double now, FILE *out);
/* {"id":..., "model":ModelInfo}, {"id":..., "time":..., "status":Status}, and {"id":..., "past":[{"time":...,
 * "status":...}, ...]}, in the words of proto/json.h. */
void hb_view_write_model(const hb_view_vehicle *v, FILE *out);
void hb_view_write_status(const hb_view_vehicle *v, FILE *out);
void hb_view_write_settings(const hb_view_vehicle *v, FILE *out);
void hb_view_write_past(const hb_view_vehicle *v, FILE *out);
/* Prometheus' text of all that were heard, and which are gone. */
void hb_view_fleet_metrics(const hb_view_fleet *f, double now, uint64_t pages, uint64_t dropped, FILE *out);

#endif
