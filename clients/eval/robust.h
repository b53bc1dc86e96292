/* Does adapting pay? Flights of vehicles as they are, with controllers that one might use instead.
 *
 * A row is one cell of the table: a plant, what it meets, and what it is to fly. A flight is drawn by (seed, number):
 * vehicle, start, directions of what has one, gusts and noise are the same for all controllers, so that flights can be
 * compared in pairs. Everything runs in virtual time, and plans end by their iterations: neither the machine nor its
 * load matters.
 *
 *     conditions  the rotors' level hovering, or on a slow circle, in one trouble after the other, at 25 Hz
 *     tasks       both levels, mostly along references, as each controller would sit on a vehicle:
 *
 *         adapting, off, constants   requests at 50 Hz over a link with the delay that the configuration names
 *         indi, l1, pid              on board, at their own rates, without a link; indi has an accelerometer, and the
 *                                    rotors' speeds where it commands rotors */
#ifndef HB_ROBUST_H
#define HB_ROBUST_H

#include <stdio.h>

#include "sim/flight.h"

/* groups of rows, as names for --only */
enum { HB_ROBUST_CONDITION = 1, HB_ROBUST_TASK = 2, HB_ROBUST_QUICK = 4 };

/* What grows second by second until the vehicle is lost. */
typedef enum { HB_RAMP_NONE, HB_RAMP_PAYLOAD, HB_RAMP_WIND, HB_RAMP_FORCE, HB_RAMP_DELAY } hb_robust_ramp;

typedef struct hb_robust_row {
    const char *name, *help;
    const hb_plant_type *plant;
    unsigned groups;
    const char *weather; /* as of hilbert-sim --weather, ranges are drawn from; directions are turned for each flight */
    bool told;           /* the controller is told the delay (latency.delay); of tasks it always is */
    bool told_lag;       /* and the lag of the motors (actuators.lag) */
    double seconds;      /* 0: 8 */
    void (*path)(double time, double *target); /* NULL: it hovers at the configured target */
    bool surprise;                             /* what comes of the path is not told in advance */
    double change;                             /* seconds after which something changes by itself; 0: never */
    double mass_step;                          /* seconds after which the mass changes; 0: never */
    double rotor_step, rotor;                  /* seconds after which a rotor has another efficiency; 0: never */
    bool toggles;                              /* a payload is taken up and dropped, one to four times in 5 s */
    hb_robust_ramp ramp;
    bool mixed; /* every flight is another draw of everything, beside the weather */
    bool slow;  /* about how often a planner is asked: nothing to fly what sits on board with */
} hb_robust_row;

/* index from 0, NULL at the end: conditions, then tasks by plant. */
const hb_robust_row *hb_robust_row_at(int index);
/* robust_tasks.c has the tasks, in the same way. */
const hb_robust_row *hb_robust_task_at(int index);

/* Conditions of one's own: hovering in a weather of one's own, of a vehicle as it says. */
enum { HB_ROBUST_OWN = 32, HB_ROBUST_ROWS = 256 };

typedef struct hb_robust_own {
    int n;
    char name[HB_ROBUST_OWN][64], weather[HB_ROBUST_OWN][512];
    hb_robust_row row[HB_ROBUST_OWN]; /* filled in by hb_robust_own_settle */
} hb_robust_own;

/* Adds "NAME:WEATHER", or the lines of a file: the function of an option (common/options.h). */
int hb_robust_own_read(void *own, const char *text, hb_error *err);
/* Checks them for a plant and makes rows of them. */
int hb_robust_own_settle(hb_robust_own *own, const hb_plant_type *plant, hb_error *err);

/* Rows (HB_ROBUST_ROWS at most) by names, joined by commas: of rows, of one's own (may be NULL), and of groups:
 * conditions, tasks, quick, and robust, what a configuration can do something about. plant: NULL for both. -EINVAL:
 * `unknown` is not one of them. */
int hb_robust_select(const char *list, const hb_plant_type *plant, const hb_robust_own *own, const hb_robust_row **row,
                     int *ret_n, char *unknown, size_t size);

#define HB_ROBUST_CONTROLLERS(X)                                                                                       \
    X(ADAPTING, "adapting", "hilbertd's controller")                                                                   \
    X(OFF, "off", "the same without adaptation")                                                                       \
    X(CONSTANTS, "constants", "the same with constant accelerations as its basis: offset-free predictive control")     \
    X(INDI, "indi", "adaptive incremental inversion on board, at 500 Hz, with accelerometer and rotor speeds")         \
    X(L1, "l1", "a geometric controller with L1 adaptation on board, at 500 Hz")                                       \
    X(PID, "pid", "a cascade of PID controllers on board, at 250 Hz")

typedef enum {
#define X(id, name, help) HB_ROBUST_##id,
    HB_ROBUST_CONTROLLERS(X)
#undef X
        HB_ROBUST_NCONTROLLERS
} hb_robust_controller;

extern const char *const hb_robust_controller_name[], *const hb_robust_controller_help[];

/* of those that sit on board there is no status, no link and no configuration */
static inline bool hb_robust_on_board(hb_robust_controller c)
{
    return c > HB_ROBUST_CONSTANTS;
}

/* Numbers of a flight. Distances and headings are root mean squares; `first` is the first second after the start and
 * after each change, `later` is all else. A flight that crashed has an infinite `later`, and `first` if it was then. */
#define HB_ROBUST_MEASURES(X)                                                                                          \
    X(FIRST, "first_m")                                                                                                \
    X(LATER, "later_m")                                                                                                \
    X(FIRST_HEADING, "first_heading_deg")                                                                              \
    X(LATER_HEADING, "later_heading_deg")                                                                              \
    X(FURTHEST, "furthest_m")      /* largest distance */                                                              \
    X(EFFORT, "effort")            /* travel of all controls in a second, in ranges */                                 \
    X(SATURATED, "saturated")      /* share of periods with a control at a bound */                                    \
    X(FAILED_AT, "failed_at")      /* of what grows: where it was off by a metre; NaN: nothing grows */                \
    X(SETTLED, "settled_m")        /* mean distance over the last second; NaN after a crash */                         \
    X(RMS, "rms_m")                /* distance over the second half; NaN after a crash */                              \
    X(OUT_OF_SPAN, "out_of_span")  /* share of replies; NaN: it makes none */                                          \
    X(SAID, "out_of_span_after_s") /* a rotor changed: until a reply said so; infinite: none did; NaN: none changed */

typedef enum {
#define X(id, name) HB_MEASURE_##id,
    HB_ROBUST_MEASURES(X)
#undef X
        HB_NMEASURES
} hb_robust_measure;

extern const char *const hb_robust_measure_name[];

typedef struct hb_robust_flight {
    bool flown, crashed;
    double value[HB_NMEASURES];
    int status[HB_NSTATUSES]; /* replies */
} hb_robust_flight;

enum { HB_NFACTORS = 32 }; /* as many as a cost may have terms, and more than there are gains */

typedef struct hb_robust_settings {
    const char *config, *model; /* NULL: the row's, and the configuration's; constants have a model of their own */
    uint64_t seed;
    int seconds;          /* of each flight; 0: the row's */
    int horizon;          /* of plans; 0: the configuration's */
    const double *factor; /* HB_NFACTORS, of gains or of weights of the cost; NULL: 1 */
    const char *trace;    /* folder for a CSV file of every flight; NULL: none */
} hb_robust_settings;

/* Flight number `index` of a row; p is of the row's plant. */
int hb_robust_fly(const hb_robust_settings *s, const hb_robust_row *row, hb_robust_controller controller, int index,
                  hb_plant *p, hb_robust_flight *ret, hb_error *err);

/* Draws what differs from flight to flight: parameters (of the plant's number), the link, and events. */
int hb_robust_draw(const hb_robust_row *row, uint64_t seed, int index, double *parameter, hb_link *link,
                   hb_flight_event *event, int *nevents, hb_error *err);

/* The numbers of a recorded flight (robust_measures.c). */
void hb_robust_measure_flight(const hb_robust_row *row, const hb_flight_settings *f, const hb_flight_record *r,
                              const hb_flight_summary *sum, bool on_board, hb_robust_flight *ret);

/* Pairs of flights with the same number: how often the first was better and worse; equal ones count for neither. */
typedef struct hb_pairs {
    int better, worse;
    double p; /* two-sided sign test */
} hb_pairs;

/* Twice the smaller tail of the binomial distribution of so many fair coins. */
double hb_sign_test(int better, int worse);

/* A row's flights with one controller in a few numbers. */
typedef struct hb_robust_result {
    const hb_robust_row *row;
    hb_robust_controller controller;
    int flights, crashed;
    double quartile[HB_NMEASURES][3]; /* of the flights in which the number is one; infinite ones count */
    double worst[HB_NMEASURES];
    int unsaid; /* flights in which a changed rotor was not told of, -1 where nothing changes */
    int status[HB_NSTATUSES];
    hb_pairs adapting[HB_NMEASURES]; /* adapting against this controller; 0:0 where there are no pairs */
} hb_robust_result;

/* adapting: the flights of adapting with the same numbers; NULL: there are none. */
hb_robust_result hb_robust_sum_up(const hb_robust_row *row, hb_robust_controller controller,
                                  const hb_robust_flight *flight, const hb_robust_flight *adapting, int n);

void hb_robust_print_head(FILE *out);
/* A row's results, by controller; those with no flights are left out. */
void hb_robust_print(const hb_robust_result *of_row, FILE *out);
/* After all: in which cells adapting was better and worse than each of the others. */
void hb_robust_print_verdict(const hb_robust_result *r, int nrows, FILE *out);
/* One object, one line. */
void hb_robust_print_json(const hb_robust_result *r, FILE *out);
/* FILE.svg and FILE.png of nrows x HB_ROBUST_NCONTROLLERS results. */
int hb_robust_draw_picture(const hb_robust_result *r, int nrows, const char *file, hb_error *err);

/* A file of all flights, one line each, so that what was flown need not be flown again (robust_log.c). */
typedef struct hb_robust_log hb_robust_log;
/* Opens or makes it. `settings` is one line of text that says what the flights depend on; a file with another one is
 * refused. */
int hb_robust_log_open(hb_robust_log **ret, const char *path, const char *settings, hb_error *err);
/* Whether a flight is in it. */
bool hb_robust_log_find(const hb_robust_log *l, const hb_robust_row *row, hb_robust_controller c, int index,
                        hb_robust_flight *ret);
int hb_robust_log_add(hb_robust_log *l, const hb_robust_row *row, hb_robust_controller c, int index,
                      const hb_robust_flight *f, hb_error *err);
/* How many it had when it was opened. */
int hb_robust_log_count(const hb_robust_log *l);
void hb_robust_log_free(hb_robust_log *l);

#endif
