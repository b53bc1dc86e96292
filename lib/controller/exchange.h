/* What passes between the thread of telemetry and the thread of planning, without a lock.
 *
 *     learner                                                    commander
 *        fills a buffer -> [ middle ] -> the newest snapshot
 *        takes answers out <- [ ring of answers ] <- puts its answers in
 *
 * The learner fills a buffer that nobody else holds and swaps it with the one in the middle; the commander swaps its
 * own with the middle when that is fresh. Neither ever waits. */
#ifndef HB_EXCHANGE_H
#define HB_EXCHANGE_H

#include <stdatomic.h>
#include <stddef.h>

#include "controller/controller.h"

enum {
    HB_ANSWERS = 64, /* on their way to the thread of telemetry */
    HB_SENT = 4,     /* answers that others gave, on their way to the thread of planning */
};

/* An answer, and from when on it is in force. */
typedef struct hb_answered {
    int64_t from_us;
    double u[HB_MAX_CONTROLS];
} hb_answered;

/* What the thread of planning needs of the other one. */
typedef struct hb_snapshot {
    uint64_t number; /* they are counted from 1 */
    hb_health health;
    bool observed;          /* a sample has come in */
    double observed_at;     /* caller's clock */
    int64_t observed_us;    /* vehicle's clock */
    bool doubted;           /* the state, or a channel of it, stands still, or contradicts the others */
    hb_real *coefficient;   /* hb_model_ncoefficients */
    hb_actuators actuators; /* of this vehicle, as far as is known */
    bool reported;          /* the vehicle said what its control is: */
    int64_t reported_us;
    double *report;            /* nu */
    uint64_t nsent;            /* answers that others gave in place of the thread of planning, */
    hb_answered sent[HB_SENT]; /* the last ones, in turn */
} hb_snapshot;

typedef struct hb_exchange {
    hb_snapshot buffer[3];
    _Atomic int middle; /* index of a buffer, and whether it is fresh: not read yet */
    int writing;        /* learner: the buffer to be filled next, */
    uint64_t snapshots; /* and those handed over so far */
    int reading;        /* commander: the buffer last taken */
    hb_answered answer[HB_ANSWERS];
    _Atomic unsigned answers_in, answers_out; /* counts of answers put in, and taken out */
    unsigned hear_until;                      /* replay: answers beyond this count are not heard */
    _Atomic uint64_t counter[sizeof(hb_counters) / sizeof(uint64_t)]; /* of both; in the order of hb_counters */
} hb_exchange;

/* Takes the arrays from the arena. */
void hb_exchange_lay_out(hb_exchange *e, const hb_model *m, hb_arena *arena);
void hb_exchange_init(hb_exchange *e);

/* Learner: the snapshot to be filled, numbered; and hands it over. */
hb_snapshot *hb_exchange_fill(hb_exchange *e);
void hb_exchange_publish(hb_exchange *e);
/* Learner: the first answer that it has not heard, NULL if there is none; and is done with it. */
const hb_answered *hb_exchange_first_answer(const hb_exchange *e);
void hb_exchange_answer_heard(hb_exchange *e);

/* Commander: the newest snapshot, its own until it takes the next. */
const hb_snapshot *hb_exchange_newest(hb_exchange *e);
/* Commander: tells an answer (nu). With so many on their way, telemetry has had no sample for as many requests: then it
 * is dropped. */
void hb_exchange_answer(hb_exchange *e, int64_t from_us, const double *u, int nu);

/* Adds to a counter: HB_COUNTER(field of hb_counters). */
#define HB_COUNTER(field) (offsetof(hb_counters, field) / sizeof(uint64_t))
void hb_exchange_count(hb_exchange *e, size_t index, uint64_t amount);
void hb_exchange_counters(const hb_exchange *e, hb_counters *ret);
/* Two controllers of a vehicle exchange their counters. */
void hb_exchange_swap_counters(hb_exchange *a, hb_exchange *b);

#endif
