/* Flights of the quadrotor as vehicles are: conditions, controllers, and results.
 *
 * A flight is drawn by (seed, number): mass, start, directions of what has one, gusts and noise are the same for all
 * controllers. Everything runs in virtual time, so that neither the machine nor its load matters. */
#ifndef HB_ROBUST_H
#define HB_ROBUST_H

#include <stdio.h>

#include "sim/flight.h"

typedef struct hb_robust_row {
    const char *name, *help;
    const char *weather;                       /* as of hilbert-sim --weather; directions are turned for each flight */
    bool told;                                 /* the controller is told the delay (latency.delay) */
    bool told_lag;                             /* and the lag of the motors (actuators.lag) */
    double seconds;                            /* 0: 8 */
    void (*path)(double time, double *target); /* NULL: it hovers at the configured target */
    double mass_step;                          /* seconds after which the mass changes; 0: never */
    double rotor_step, rotor;                  /* seconds after which a rotor has another efficiency; 0: never */
    bool mixed;                                /* every flight is another draw of everything, beside the weather */
    bool slow;                                 /* about how often a planner is asked: nothing to fly a PID with */
} hb_robust_row;

/* index from 0, NULL at the end. */
const hb_robust_row *hb_robust_row_at(int index);

#define HB_ROBUST_CONTROLLERS(X)                                                                                       \
    X(ADAPTING, "adapting")                                                                                            \
    X(OFF, "off")                                                                                                      \
    X(PID, "pid")

typedef enum {
#define X(id, name) HB_ROBUST_##id,
    HB_ROBUST_CONTROLLERS(X)
#undef X
        HB_ROBUST_NCONTROLLERS
} hb_robust_controller;

extern const char *const hb_robust_controller_name[];

typedef struct hb_robust_settings {
    const char *config, *model; /* NULL: the plant's, and the configuration's */
    uint64_t seed;
    int seconds;       /* of each flight; 0: the row's */
    const char *trace; /* folder for a CSV file of every flight; NULL: none */
} hb_robust_settings;

/* Flight number `index` of a row. */
int hb_robust_fly(const hb_robust_settings *s, const hb_robust_row *row, hb_robust_controller controller, int index,
                  hb_plant *p, hb_flight_summary *ret, hb_error *err);

/* Draws what differs from flight to flight: parameters (of the plant's number) and the link. */
int hb_robust_draw(const hb_robust_row *row, uint64_t seed, int index, double *parameter, hb_link *link, hb_error *err);

/* A row's flights with one controller in a few numbers; medians over those that did not crash, NaN when all did. */
typedef struct hb_robust_result {
    const hb_robust_row *row;
    hb_robust_controller controller;
    int flights, crashed;
    double settled_m, worst_m, rms_m;
    double out_of_span; /* share of replies; NaN: it makes none */
    /* where a rotor changes: seconds until a reply said out-of-span, the longest, NaN if none did; and flights in which
     * none did, -1 where nothing changes */
    double said_after_s;
    int unsaid;
} hb_robust_result;

hb_robust_result hb_robust_sum_up(const hb_robust_row *row, hb_robust_controller controller,
                                  const hb_flight_summary *flight, int n);

void hb_robust_print_head(FILE *out);
/* One line: a row's results, by controller; those with no flights are left out. */
void hb_robust_print(const hb_robust_result *of_row, FILE *out);
/* One object, one line. */
void hb_robust_print_json(const hb_robust_result *r, FILE *out);
/* FILE.svg and FILE.png of nrows x HB_ROBUST_NCONTROLLERS results. */
int hb_robust_draw_picture(const hb_robust_result *r, int nrows, const char *file, hb_error *err);

#endif
