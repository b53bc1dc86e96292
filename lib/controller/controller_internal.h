/* What the files of the controller share: controller.c (set-up, counters, change of settings), controller_telemetry.c
 * and controller_planning.c (a thread each). */
#ifndef HB_CONTROLLER_INTERNAL_H
#define HB_CONTROLLER_INTERNAL_H

#include <stdatomic.h>
#include <stddef.h>

#include "controller/controller.h"
#include "dynamics/stepper.h"
#include "estimate/channels.h"
#include "estimate/command_history.h"
#include "plan/trim.h"

enum {
    HB_ARREST = 3,         /* steps of the start that brings rates to rest */
    HB_RECENT_ERRORS = 10, /* errors of the average model behind one_step_error */
    HB_FORMER = 4,         /* publishers told apart */
    HB_FRESH = 4,          /* flag beside the index of the middle buffer: not read yet */
    HB_ANSWERS = 64,       /* on their way to the thread of telemetry */
    HB_SENT = 4,           /* answers that others gave, on their way to the thread of planning */
    HB_LITTLE_KNOWN = 32,  /* transitions, up to which the newest is worth keeping a request waiting for */
    HB_UNKNOWN = 12,       /* transitions, up to which a plan may be one for quite another vehicle */
};

/* An answer on its way to the other thread. */
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

struct hb_controller {
    const hb_model *m;
    int nx, nu;
    /* A guest's requests are planned by a second controller, `guest`, of which only the planning half is used. Its
     * `owner` has the rest. */
    hb_controller *guest; /* NULL in `guest` itself */
    hb_controller *owner; /* NULL unless this is a `guest` */

    /* thread of telemetry */
    hb_estimator *estimator;
    hb_transitions telemetry, requests;
    hb_command_history told; /* what the vehicle was told, as transitions see it */
    bool observed;
    double observed_at;
    int64_t observed_us;
    struct {
        uint32_t counter; /* reset_counter of samples before the newest, */
        double left;      /* and when another one followed on it; caller's clock */
    } former[HB_FORMER];
    int nformer;          /* in turn */
    bool published;       /* a sample came, with */
    uint32_t publisher;   /* this reset_counter */
    int returns;          /* to a former one, of late, */
    double returned;      /* and the last of them */
    double *standing;     /* nx: the state of the newest sample of telemetry, */
    int64_t standing_us;  /* and since when it is the same */
    bool reported;        /* see hb_snapshot */
    hb_channels channels; /* each against the others, */
    hb_reason doubt;      /* and what is wrong with the newest sample by them */
    hb_reason fault;      /* what was wrong with samples of late, */
    double fault_at;      /* and when the last one was; caller's clock */
    bool one_clock;       /* samples and requests were seen to have the same clock, */
    bool behind;          /* by which the samples are too old now */
    int64_t reported_us;
    double *report; /* nu */
    uint64_t nsent; /* see hb_snapshot */
    hb_answered sent[HB_SENT];
    double *sample; /* nx: the current sample, its quaternion of length one */
    bool asked;     /* a request came in: */
    int64_t asked_us;
    uint32_t asked_counter; /* its reset_counter */
    double *asked_state;    /* nx */
    bool echoed;            /* the newest sample repeated the newest request's time and state */
    bool used;              /* a request's state was taken in as the sample of that time, */
    int64_t used_us;
    hb_reason used_as; /* with this result */
    hb_health health;
    hb_stepper *average;             /* for its errors while nothing is adapted */
    double recent[HB_RECENT_ERRORS]; /* their squares, in turn */
    int nrecent;
    int writing;         /* the buffer to be filled next */
    uint64_t snapshots;  /* handed over so far */
    unsigned hear_until; /* replay: answers beyond this count are not heard */

    /* between the two */
    hb_snapshot buffer[3];
    _Atomic int middle; /* index of a buffer, and HB_FRESH */
    hb_answered answer[HB_ANSWERS];
    _Atomic unsigned answers_in, answers_out;                         /* counts of answers put in, and taken out */
    double close[HB_MAX_CONTROLS];                                    /* controls this near are the same */
    _Atomic uint64_t counter[sizeof(hb_counters) / sizeof(uint64_t)]; /* in the order of hb_counters */

    /* thread of planning */
    hb_controller_settings s;
    int reading;          /* the buffer last taken */
    uint64_t set_version; /* of the coefficients in the predictor; 0: the average */
    hb_stepper *stepper;
    hb_planner *planner; /* NULL: the model has no controls */
    hb_command command;
    hb_prepared prepared;  /* before it: a copy, since the next preparation may be under way */
    double *action, *safe; /* nu */
    bool running;          /* there was a request before */
    double heard;          /* when the newest request came in, caller's clock */
    double awake_at;       /* likewise the first one of an episode, or after a pause */
    int64_t time_us;       /* of the newest request: the current plan starts there */
    int64_t before_us;     /* of the one before it */
    uint32_t reset_counter;
    bool planned;
    int64_t planned_us; /* request time of the last plan that was made */
    bool followed;      /* the last request was answered with the current plan, which the planner moved on to it */
    double preparing;   /* seconds of hb_controller_prepare since the last command */
    double rested;      /* seconds, whose share preparing has not used yet */
    bool dry_run;       /* the answer will not be sent: telemetry is not told */
    hb_command_history history;
    int64_t reported_us_seen; /* of the newest report taken into the history, */
    uint64_t sent_seen;       /* and of others' answers */
    double most_step;         /* seconds: the longest step that one integration step of the model follows */
    int64_t average_until_us; /* until then plans are made with the average model, because rollouts with the learned one
                                 diverged */
    bool distrusted;          /* that is the case for this request */
    double usual_period;      /* seconds between requests; 0: not known */
    bool limited;             /* the last plan breaks a limit */
    uint64_t changes_seen;    /* of dynamics, when it was made, */
    uint64_t planned_version; /* and the coefficients that it was made with */
    bool clocks_agree;        /* times of telemetry and of requests were seen close together */
    double *x0, *last_control, *effective; /* nx, nu, nu: start of the plan */
    double *request_state;                 /* nx: of the last request that was planned for, its angles without jumps */
    bool rewound;                          /* this request's angles are whole turns away from those of the one before */
    double *actuator_state;                /* nu, at the start of the plan */
    hb_trim *trimming;                     /* NULL: the model has no controls */
    hb_real *cost_rows;                    /* (nx + 2 nu) x HB_STRIDE, scratch */
    double cost_terms[HB_COST_TERMS + 1];  /* of the newest plan */
    double *arrest;                        /* HB_ARREST x nu: commands that stop what the controls move directly */
    double *trim, *trim_for;               /* nu, nx: control that holds the target state trim_for, */
    bool trimmed;                          /* under the coefficients in the predictor */
    double *target;                        /* (horizon + 1) x nx: where the plan is to go */
    int ntargets;                          /* 1, or horizon + 1 */
};

/* Adds to a counter: HB_COUNTER(field of hb_counters). */
#define HB_COUNTER(field) (offsetof(hb_counters, field) / sizeof(uint64_t))
void hb_controller_count(hb_controller *c, size_t index, uint64_t amount);

/* Hands the estimate to the thread of planning. */
void hb_controller_publish(hb_controller *c);
/* Takes in what was answered since the last sample. */
void hb_controller_hear_answers(hb_controller *c);
/* Copies a state and brings its quaternion to length one; false: that is no attitude. */
bool hb_controller_take_state(const hb_controller *c, const double *x, double *ret);
/* Whether a reported control (nu) is one that the vehicle can have, give or take a calibration. */
bool hb_controller_within_bounds(const hb_controller *c, const double *u);
/* Whether a sample that was set aside for this reason says that something is wrong with telemetry. */
bool hb_controller_is_fault(hb_reason reason);

#endif
