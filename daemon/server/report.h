/* Status of the daemon in plain types: filled by the server, written by the wire. */
#ifndef HB_REPORT_H
#define HB_REPORT_H

#include "controller/controller.h"
#include "model/words.h"
#include "process/journal.h"
#include "server/histogram.h"
#include "server/shadow.h"

/* What the server counts beside the controller's own counters (hb_counters). */
typedef struct hb_server_counters {
    uint64_t telemetry, telemetry_lost, telemetry_overrun;
    uint64_t requests, guest_requests, replies_late, replies_undelivered;
    uint64_t control_requests, control_errors;
    uint64_t reloads, reload_errors;
    uint64_t promotions;
    uint64_t handshakes_refused;
    uint64_t status[HB_NSTATUSES];   /* of replies that the controller did not make */
    uint64_t refused[HB_NREASONS];   /* the same, by reason */
    uint64_t set_aside[HB_NREASONS]; /* samples that did not reach the controller, by reason */
} hb_server_counters;

/* Of the shadow, the second model. */
typedef struct hb_shadow_report {
    const char *path;
    uint64_t model_hash;
    const hb_shadow_view *view;
    int ncoefficients;
    double error_in_use;
} hb_shadow_report;

typedef struct hb_report {
    const char *version, *name;
    uint64_t model_hash;
    double uptime, telemetry_rate, request_rate;
    bool answered; /* there was a reply, which last_* and action are of */
    hb_status last_status;
    hb_reason last_reason;
    double telemetry_age;
    hb_health health;
    int nx, nu, ncoefficients;
    const hb_real *coefficient; /* ncoefficients */
    const double *variance;     /* ncoefficients */
    const double *state;        /* nx, NULL before the first sample */
    const double *control;      /* nu, NULL before the first sample */
    const double *target;       /* nx, or NULL */
    bool target_of_request;     /* it is a request's */
    double target_since;        /* time of day; 0: no client has set it */
    const char *target_by;      /* who did */
    const double *action;       /* nu, or NULL */
    const double *predicted;    /* npredicted x nx: states along the newest plan */
    int npredicted;
    double cost;
    int nterms;                /* of the cost, limits the last; 0: nothing was planned */
    const double *term;        /* nterms */
    char (*term_name)[64];     /* nterms */
    const hb_cost_term *terms; /* nterms - 1: as configured */
    double limits_weight;
    const hb_model *model;
    const hb_word *word, *was; /* of model->nwords: as of now, and before the newest change of the dynamics */
    bool word_changed[HB_MAX_WORDS];
    int iterations;
    hb_latency queue, planning, preparing, total;
    double budget;
    int clients;
    hb_counters controller;
    hb_server_counters server;
    bool resumed, adapting;
    hb_shadow_report shadow;           /* without a view: there is none */
    const hb_journal_report *recorder; /* NULL: there is none */
} hb_report;

#endif
