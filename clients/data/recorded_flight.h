/* What a recording of hilbertd (MCAP) tells of a flight, in plain arrays: for reports and for data sets.
 *
 * Several files are read as one, in their order. Times are seconds of the vehicle's clock since the first of them;
 * where that clock was set back, or nothing happened for a while, the next segment starts right behind the last. */
#ifndef HB_RECORDED_FLIGHT_H
#define HB_RECORDED_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

typedef struct hb_recorded_channel {
    char name[HB_NAME_SIZE], unit[HB_NAME_SIZE];
    double min, max, trim; /* of controls */
} hb_recorded_channel;

/* A state, and the control in force from then on. Vectors are rows of hb_recorded_flight.x and .u. */
typedef struct hb_recorded_sample {
    double time;
    int segment;      /* see above */
    uint32_t reset;   /* reset_counter */
    uint64_t changes; /* of dynamics, detected by then */
    bool after_gap;   /* messages were lost in the recording before it */
    bool of_request;  /* there was no telemetry: from a request, and what was applied after it */
} hb_recorded_sample;

typedef struct hb_recorded_reply {
    double time;
    int status, reason;                       /* numbers of the contract */
    double total, planning, queue, preparing; /* seconds */
    double cost;
    double one_step_error, expected_error, out_of_span; /* of health; NaN without */
    double lag, delay;                                  /* of the actuators, as believed then; NaN without */
    bool guest;
} hb_recorded_reply;

typedef struct hb_recorded_estimate {
    double time;
    int status; /* number of the contract */
    double one_step_error;
} hb_recorded_estimate;

enum { HB_RECORDED_TERMS = 33 }; /* of a cost, limits included */

/* Once a second. */
typedef struct hb_recorded_status {
    double time;
    double budget;                            /* seconds */
    double shadow_error, shadow_error_in_use; /* NaN: there was no shadow */
    uint64_t model_hash;
    /* in the order of hb_recorded_flight.word and .term; NaN: not told */
    double word[HB_MAX_WORDS], word_deviation[HB_MAX_WORDS];
    double term[HB_RECORDED_TERMS]; /* of the cost of the newest plan */
} hb_recorded_status;

/* Something that happened. */
typedef struct hb_recorded_event {
    double time;
    char text[120];
} hb_recorded_event;

typedef struct hb_recorded_flight {
    char version[HB_NAME_SIZE], name[HB_NAME_SIZE];
    char *model;         /* path of the model at the start */
    char *configuration; /* YAML, in full, at the start */
    uint64_t model_hash;
    uint64_t run;                         /* tells the daemon's lives apart */
    uint64_t start, end;                  /* time of day, nanoseconds */
    int nx, nu, nc;                       /* nc: coefficients of that model; 0: none were recorded */
    double dt;                            /* its period, seconds */
    hb_recorded_channel *state, *control; /* nx, nu */
    double seconds;                       /* the time of the last sample or reply */

    size_t nsamples;
    hb_recorded_sample *sample;
    double *x, *u; /* nsamples x nx, nsamples x nu */

    size_t nreplies;
    hb_recorded_reply *reply;
    double *target, *action; /* nreplies x nx, nreplies x nu; NaN where there is none */

    size_t nestimates;
    hb_recorded_estimate *estimate;
    float *coefficient, *deviation; /* nestimates x nc */

    size_t nstatuses;
    hb_recorded_status *status;
    int nwords, nterms; /* what statuses tell of: what was learned, and what a plan costs */
    hb_recorded_channel word[HB_MAX_WORDS], term[HB_RECORDED_TERMS]; /* names and units */
    size_t nevents;
    hb_recorded_event *event;

    uint64_t lost;    /* messages that could not be recorded */
    bool cut;         /* a file was cut off */
    uint64_t foreign; /* estimates of another model than the first, left out */
} hb_recorded_flight;

/* Whether a file begins as a recording does. */
bool hb_recorded_flight_is(const char *path);
/* -EINVAL for a recording of another program, or files of different vehicles. */
int hb_recorded_flight_read(hb_recorded_flight **ret, const char *const *path, int n, hb_error *err);
void hb_recorded_flight_free(hb_recorded_flight *f);

/* The words of the contract: "converged", "stale", ... */
const char *hb_recorded_status_word(int status, char word[HB_NAME_SIZE]);

#endif
