/* One flight: a plant in a loop, recorded. */
#ifndef HB_FLIGHT_H
#define HB_FLIGHT_H

#include "sim/loop.h"
#include "sim/weather.h"

enum { HB_FLIGHT_EVENTS = 16 };

/* A parameter that changes in flight. */
typedef struct hb_flight_event {
    double time; /* seconds */
    int parameter;
    double value;
} hb_flight_event;

struct hb_flight_step;

typedef struct hb_flight_settings {
    double seconds, dt; /* dt: from request to request */
    hb_link link;       /* not with realtime */
    double start[HB_PLANT_STATES];
    bool has_target; /* else the daemon's configured one is flown to, and the plant's own is what distances refer to */
    double target[HB_PLANT_STATES];
    void (*path)(double time, double *target); /* where the target is; NULL: it stays. With has_target */
    bool surprise;                             /* only where it is now is told, not where it will be */
    double budget;                             /* seconds for an answer; 0: the configured one */
    bool realtime;                             /* runs in real time, also while an answer is awaited */
    int nevents;
    hb_flight_event event[HB_FLIGHT_EVENTS]; /* by time */
    hb_random_key key;                       /* of gusts and sensor noise */
    uint32_t reset_counter;
    int64_t epoch_us; /* the vehicle's clock at the start */
    /* called after every control period with the state that it began with; may be NULL */
    void (*watch)(void *context, const struct hb_flight_step *step, const double *x);
    void *watch_context;
} hb_flight_settings;

/* One control period. */
typedef struct hb_flight_step {
    double time;           /* seconds */
    double latency;        /* seconds from question to answer; NaN when none came in time */
    hb_loop_answer answer; /* action is what was applied, also when it is an old one */
} hb_flight_step;

typedef struct hb_flight_record {
    int nsteps;
    double *x;            /* (nsteps + 1) x nx, the plant's true states */
    hb_flight_step *step; /* nsteps */
    const char *failure;  /* why it ended early, or NULL */
} hb_flight_record;

/* Draws of one flight among many: of its hidden parameters, its start, its weather (settings.key). */
typedef enum { HB_FLIGHT_PARAMETERS, HB_FLIGHT_START, HB_FLIGHT_WEATHER } hb_flight_purpose;
hb_draws hb_flight_draws(uint64_t seed, hb_flight_purpose purpose, int function, int episode);
/* At rest within `radius` metres of a target and not below the ground; for plants without one (NULL), a start as for
 * collection. */
int hb_flight_draw_start(hb_plant *p, const double *target, double radius, hb_draws *d, double *x, hb_error *err);

/* The plant's parameters are set; it is reset to the start here. -errno when the loop broke. */
int hb_flight_run(hb_plant *p, hb_loop *l, const hb_flight_settings *s, hb_flight_record *ret, hb_error *err);
void hb_flight_record_free(hb_flight_record *r);

/* Where the flight should be `time` seconds after its start; false: nowhere in particular. */
bool hb_flight_target(const hb_plant_type *plant, const hb_flight_settings *s, double time, double *target);
/* The states that are places in space: x, y and z; of a plant that has none of these, those in metres. Returns how many.
 */
int hb_flight_places(const hb_plant_type *plant, int *place);
/* Distance in space of a state to the target. */
double hb_flight_distance(const hb_plant_type *plant, const double *x, const double *target);
/* Index of a state by name, or -1. */
int hb_plant_state_find(const hb_plant_type *plant, const char *name);

typedef struct hb_flight_response {
    double time;        /* of the event */
    double height_loss; /* metres, at most, below the height at the event */
    double settled;     /* seconds after it from which on it stays within 10 cm; infinite when it does not */
    double said;        /* seconds after it until a reply said out-of-span; infinite when none did */
} hb_flight_response;

typedef struct hb_flight_summary {
    double seconds;
    double settled_m;       /* mean distance over the last second */
    double rms_m;           /* root mean square of the distance over the second half of the flight */
    double settled_after_s; /* from when on it stays within 10 cm; infinite when it does not */
    bool crashed;
    const char *failure;
    double slew; /* sum over controls of the mean squared change from period to period */
    double cost; /* mean of the plans' */
    int late;    /* periods without an answer in time */
    int status[HB_NSTATUSES];
    double latency[4];     /* seconds: median, 90 %, 99 %, largest */
    double planning[4];    /* the same, as the controller says */
    double one_step_error; /* mean over the last second */
    int nresponses;
    hb_flight_response response[HB_FLIGHT_EVENTS];
} hb_flight_summary;

int hb_flight_summarise(const hb_plant_type *plant, const hb_flight_settings *s, const hb_flight_record *r,
                        hb_flight_summary *ret, hb_error *err);

#endif
