/* The thread of planning: a request becomes an action and a status that is true, from the newest snapshot of what
 * telemetry taught. Requests of guests are planned by a second commander on the same exchange. What each function does
 * stands at the one of controller.h with its name. */
#ifndef HB_COMMANDER_H
#define HB_COMMANDER_H

#include "controller/exchange.h"
#include "controller/vehicle.h"
#include "dynamics/stepper.h"
#include "estimate/command_history.h"
#include "plan/numbers.h"
#include "plan/trim.h"

/* What is known of the requests so far: another model's commander goes on from it. */
typedef struct hb_episode {
    bool running;      /* there was a request before */
    double heard;      /* when the newest request came in, caller's clock */
    double awake_at;   /* likewise the first one of an episode, or after a pause */
    int64_t time_us;   /* of the newest request: the current plan starts there */
    int64_t before_us; /* of the one before it */
    uint32_t reset_counter;
    double usual_period; /* seconds between requests; 0: not known */
    bool clocks_agree;   /* times of telemetry and of requests were seen close together */
    bool planned;
    int64_t planned_us; /* request time of the last plan that was made */
    bool followed;      /* the last request was answered with the current plan, which the planner moved on to it */
    double preparing;   /* seconds of preparing since the last command */
    double rested;      /* seconds, whose share preparing has not used yet */
    int64_t reported_us_seen; /* of the newest report taken into the history */
} hb_episode;

typedef struct hb_commander {
    const hb_vehicle *vehicle;
    hb_exchange *exchange;
    bool guest; /* of someone who does not fly: nobody is told of its answers */
    hb_stepper *stepper;
    hb_planner *planner; /* NULL: the model has no controls */
    double most_step;    /* seconds: the longest step that one integration step of the model follows */

    hb_episode episode;
    hb_command_history history;
    uint64_t sent_seen; /* others' answers taken into the history */
    bool dry_run;       /* the answer will not be sent: telemetry is not told */

    hb_command command;
    hb_prepared prepared;                 /* before it: a copy, since the next preparation may be under way */
    double *action;                       /* nu */
    double cost_terms[HB_COST_TERMS + 1]; /* of the newest plan */
    hb_real *cost_rows;                   /* (nx + 2 nu) x HB_STRIDE, scratch */

    uint64_t set_version;     /* of the coefficients in the predictor; 0: the average */
    int64_t average_until_us; /* until then plans are made with the average model, because rollouts with the learned one
                                 diverged */
    bool distrusted;          /* that is the case for this request */
    bool limited;             /* the last plan breaks a limit */
    uint64_t changes_seen;    /* of dynamics, when it was made, */
    uint64_t planned_version; /* and the coefficients that it was made with */

    double *x0, *last_control, *effective; /* nx, nu, nu: start of the plan */
    double *request_state;                 /* nx: of the last request that was planned for, its angles without jumps */
    bool rewound;                          /* this request's angles are whole turns away from those of the one before */
    double *actuator_state;                /* nu, at the start of the plan */
    hb_trim *trimming;                     /* NULL: the model has no controls */
    double *arrest;                        /* HB_ARREST x nu: commands that stop what the controls move directly */
    double *trim, *trim_for;               /* nu, nx: control that holds the target state trim_for, */
    char lacks[HB_LIMIT_NAME];             /* what bounds keep it from, as replies name it; empty: nothing */
    bool trimmed;                          /* under the coefficients in the predictor */
    double *target;                        /* (horizon + 1) x nx: where the plan is to go */
    int ntargets;                          /* 1, or horizon + 1 */
} hb_commander;

/* Takes the arrays from the arena. */
void hb_commander_lay_out(hb_commander *c, const hb_vehicle *v, const hb_model *m, const hb_controller_settings *s,
                          hb_arena *arena);
int hb_commander_init(hb_commander *c, const hb_vehicle *v, hb_exchange *e, hb_pool *pool, hb_error *err);
void hb_commander_free(hb_commander *c); /* what it has made; not the arena */

const hb_command *hb_commander_command(hb_commander *c, const hb_request *r, const hb_clock *clock);
bool hb_commander_prepare(hb_commander *c, const hb_clock *clock, const atomic_bool *interrupt, uint64_t most);
bool hb_commander_will_correct(hb_commander *c);
const hb_command *hb_commander_fallback(hb_commander *c, const hb_request *r, hb_reason why, double now);
const hb_command *hb_commander_dry_run(hb_commander *c, const double *x, double budget, const hb_clock *clock);
int hb_commander_predict(hb_commander *c, const double *x, const double *controls, int steps, double dt, double *states,
                         hb_error *err);
const hb_prepared *hb_commander_prepared(hb_commander *c);
/* The next request is one of nobody who asked before: nothing is known of it, nor of how its clock and telemetry's
 * compare. */
void hb_commander_meet(hb_commander *c);
void hb_commander_take_over(hb_commander *to, hb_commander *from);

#endif
