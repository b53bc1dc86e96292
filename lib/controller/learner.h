/* The thread of telemetry: samples and requests' states become transitions, the estimator learns from them, and what it
 * believes goes to the thread of planning. What each function does stands at the one of controller.h with its name. */
#ifndef HB_LEARNER_H
#define HB_LEARNER_H

#include "controller/exchange.h"
#include "controller/publishers.h"
#include "controller/vehicle.h"
#include "dynamics/stepper.h"
#include "estimate/channels.h"
#include "estimate/command_history.h"

enum { HB_RECENT_ERRORS = 10 }; /* errors of the average model behind one_step_error */

typedef struct hb_learner {
    const hb_vehicle *vehicle;
    hb_exchange *exchange;
    hb_estimator *estimator;
    hb_transitions telemetry, requests;
    hb_command_history told; /* what the vehicle was told, as transitions see it */
    double *sample;          /* nx: the current sample, its quaternion of length one */
    hb_health health;

    bool observed; /* a sample has come in; the newest that continued one before it: */
    double observed_at;
    int64_t observed_us;
    double *standing;    /* nx: the state of the newest sample of telemetry, */
    int64_t standing_us; /* and since when it is the same */

    hb_publishers publishers;
    hb_channels channels; /* each against the others, */
    hb_reason doubt;      /* and what is wrong with the newest sample by them */
    hb_reason fault;      /* what was wrong with samples of late, */
    double fault_at;      /* and when the last one was; caller's clock */
    bool one_clock;       /* samples and requests were seen to have the same clock, */
    bool behind;          /* by which the samples are too old now */

    bool reported; /* see hb_snapshot */
    int64_t reported_us;
    double *report; /* nu */
    uint64_t nsent; /* see hb_snapshot */
    hb_answered sent[HB_SENT];

    bool asked; /* a request came in: */
    int64_t asked_us;
    uint32_t asked_counter; /* its reset_counter */
    double *asked_state;    /* nx */
    bool echoed;            /* the newest sample repeated the newest request's time and state */
    bool used;              /* a request's state was taken in as the sample of that time, */
    int64_t used_us;
    hb_reason used_as; /* with this result */

    hb_stepper *average;             /* for its errors while nothing is adapted */
    double recent[HB_RECENT_ERRORS]; /* their squares, in turn */
    int nrecent;
} hb_learner;

/* Takes the arrays from the arena. */
void hb_learner_lay_out(hb_learner *l, const hb_vehicle *v, const hb_model *m, const hb_controller_settings *s,
                        hb_arena *arena);
int hb_learner_init(hb_learner *l, const hb_vehicle *v, hb_exchange *e, void *memory, hb_error *resumed, hb_error *err);
void hb_learner_free(hb_learner *l); /* what it has made; not the arena */

hb_reason hb_learner_observe(hb_learner *l, const hb_observation *o, double now, bool more);
hb_reason hb_learner_observe_request(hb_learner *l, const hb_request *r, double now);
void hb_learner_hear(hb_learner *l, int64_t from_us, const double *action);
void hb_learner_answered(hb_learner *l, const hb_request *r, const double *action);
/* Takes in what was answered since the last sample. */
void hb_learner_hear_answers(hb_learner *l);
void hb_learner_forget(hb_learner *l);
int hb_learner_seed(hb_learner *l, const hb_real *coefficient, hb_error *err);
double hb_learner_error(const hb_learner *l, const double *std);
/* Hands the estimate to the thread of planning. */
void hb_learner_publish(hb_learner *l);

#endif
