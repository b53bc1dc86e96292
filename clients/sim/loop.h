/* What closes the loop around a plant: hilbertd over its sockets, or lib's controller in this process. */
#ifndef HB_LOOP_H
#define HB_LOOP_H

#include <stdbool.h>

#include "sim/plant.h"
#include "base/status.h"

typedef struct hb_loop_question {
    int64_t time_us;        /* of the plant's clock */
    const double *x;        /* nx, as sensors see it */
    const double *target;   /* ntargets x nx; NULL: the configured one */
    int ntargets;           /* 1, or a reference: one for each step of the loop's horizon and the end */
    double budget;          /* seconds; 0: the configured one */
    uint32_t reset_counter; /* changes from flight to flight */
    /* for loops that sense these, else NULL: the accelerometer's (3, world), and what the actuators make (nu) */
    const double *acceleration, *made;
} hb_loop_question;

typedef struct hb_loop_answer {
    double action[HB_PLANT_CONTROLS];
    bool has_action;
    hb_status status;
    char reason[24];
    double cost;
    double planning; /* seconds */
    int iterations;
    double one_step_error, out_of_span;
} hb_loop_answer;

typedef struct hb_loop hb_loop;

struct hb_loop {
    int nx, nu;
    int horizon;       /* steps of a plan, where a reference may be asked for; 0: it takes single targets only */
    double step;       /* seconds each */
    bool virtual_time; /* the vehicle's clock is the only one, and stands still until an answer is there */
    double delay;      /* seconds from state to action that it reckons with, beside what its model knows of */
    double rate;       /* requests a second that it is made for; 0: any */
    bool senses;       /* wants what a question has for loops that sense */
    /* Before the first period of a flight, whose question is given: waits until the loop is closed. May be NULL. */
    int (*prepare)(hb_loop *l, const hb_loop_question *q, const double *u, hb_error *err);
    /* The control `u` is in force from the state `x` on. */
    int (*publish)(hb_loop *l, int64_t time_us, const double *x, const double *u, uint32_t reset_counter,
                   hb_error *err);
    /* Asks; the answer may take a while. */
    int (*ask)(hb_loop *l, const hb_loop_question *q, hb_error *err);
    /* 0: *ret is the answer; 1: none came within `timeout` seconds; negative: failure. */
    int (*answer)(hb_loop *l, double timeout, hb_loop_answer *ret, hb_error *err);
    void (*free)(hb_loop *l);
};

typedef struct hb_loop_endpoints {
    const char *telemetry, *actions;     /* NULL: the daemon's defaults */
    const char *server_key, *client_key; /* NULL: no encryption */
    bool lockstep;                       /* the daemon goes by the vehicle's clock (latency.clock) */
} hb_loop_endpoints;

/* Through libhilbert-client, as a third party's bridge does. */
int hb_loop_over_sockets(hb_loop **ret, const hb_plant_type *plant, const hb_loop_endpoints *endpoints, hb_error *err);

/* lib's controller, with a configuration of the daemon's (NULL: the one for that plant; without a slash and an ending:
 * a shipped one of that name) and a model (NULL: the configuration's; without a slash: a shipped one). */
typedef struct hb_loop_controller {
    const char *config, *model;
    bool adapt; /* false: the average model throughout */
    int threads;
    bool realtime;        /* by this machine's clock, so that the budget means what it means in the daemon; else by the
                             vehicle's: plans end by their iterations, whatever the machine does */
    double delay;         /* seconds, instead of the configured latency.delay; negative: that */
    double lag;           /* the same for actuators.lag */
    const double *factor; /* of the weights of the cost's terms, in their order; NULL: 1 */
    int horizon;          /* instead of the configured planner.horizon; 0: that */
} hb_loop_controller;

int hb_loop_in_process(hb_loop **ret, const hb_plant_type *plant, const hb_loop_controller *c, hb_error *err);

/* Controllers on board, of the quadrotor's rotors or of the multirotor's thrust and rates: a cascade of PID
 * controllers, incremental inversion with adaptation (INDI), and a geometric controller with L1 adaptation. factor: of
 * their gains (gains.h); NULL: 1. */
#define HB_PID_RATE 250.0 /* requests a second that it is made for */
struct hb_gains;
int hb_loop_pid(hb_loop **ret, const hb_plant_type *plant, const struct hb_gains *table, const double *factor,
                hb_error *err);
int hb_loop_indi(hb_loop **ret, const hb_plant_type *plant, const double *factor, hb_error *err);
int hb_loop_l1(hb_loop **ret, const hb_plant_type *plant, const double *factor, hb_error *err);

#endif
