/* What people look at after a flight: numbers and one page, made of a recording. */
#ifndef HB_EVAL_FLIGHT_H
#define HB_EVAL_FLIGHT_H

#include <stdio.h>

#include "data/recorded_flight.h"
#include "model/model.h"

enum { HB_FLIGHT_AHEAD = 3, HB_FLIGHT_NSTATUSES = 9 }; /* numbers of steps ahead; statuses of the contract, from 1 */

/* Predictions of the model with the coefficients of their time and the controls that followed, against what came. */
typedef struct hb_flight_prediction {
    int ahead[HB_FLIGHT_AHEAD]; /* steps of the model's period: 1, 5, 10 */
    size_t n;                   /* predictions that were made */
    double *error;              /* HB_FLIGHT_AHEAD x nx: median of their absolute errors, physical */
    double *still;              /* nx: the same of the last, if nothing had moved; 0: nothing had */
    size_t npoints;
    double *time;      /* npoints: when the last of them were to be true, */
    double *predicted; /* npoints x nx: what was predicted for it, */
    int *segment;      /* npoints */
} hb_flight_prediction;

/* -EINVAL when the model is not the recording's. Nothing is predicted without telemetry: then n is 0. */
int hb_flight_predict(hb_flight_prediction *ret, const hb_recorded_flight *f, const hb_model *m, hb_error *err);
void hb_flight_prediction_free(hb_flight_prediction *p);

typedef struct hb_flight_summary {
    double seconds, sample_rate, reply_rate;
    size_t count[HB_FLIGHT_NSTATUSES]; /* of replies, by status */
    size_t late, guests;
    double budget;                  /* seconds; 0: not known */
    double p50, p99, longest;       /* of totals, seconds */
    double error_median, error_p95; /* one-step */
    double span;                    /* part of the estimates that were out of span */
    double off_target; /* RMS distance of what has a length (units m) from the target over the second half; NaN */
    double saturated;  /* part of the actions with a control at a bound */
} hb_flight_summary;

void hb_recorded_flight_summarise(hb_flight_summary *ret, const hb_recorded_flight *f);

/* The order in which statuses get worse. */
extern const int hb_flight_ladder[HB_FLIGHT_NSTATUSES - 1];

/* One page that stands for itself; p may have no predictions. why: a sentence on why nothing is predicted, or NULL. */
int hb_flight_write_page(const hb_recorded_flight *f, const hb_flight_summary *s, const hb_flight_prediction *p,
                         const char *why, const char *path, hb_error *err);
/* The table on top of the page, as text. */
void hb_flight_print(const hb_recorded_flight *f, const hb_flight_summary *s, const hb_flight_prediction *p, FILE *out);

#endif
