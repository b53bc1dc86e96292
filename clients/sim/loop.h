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
    int horizon; /* steps of a plan, where a reference may be asked for; 0: it takes single targets only */
    double step; /* seconds each */
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
} hb_loop_endpoints;

/* Through libhilbert-client, as a third party's bridge does. */
int hb_loop_over_sockets(hb_loop **ret, const hb_plant_type *plant, const hb_loop_endpoints *endpoints, hb_error *err);

/* lib's controller, with a configuration of the daemon's (NULL: the one for that plant) and a model (NULL: the
 * configuration's). */
typedef struct hb_loop_controller {
    const char *config, *model;
    bool adapt; /* false: the average model throughout */
    int threads;
    bool virtual_time; /* the vehicle's clock is the only one: plans end by their iterations, whatever the machine does
                        */
    double delay;      /* seconds, instead of the configured latency.delay; negative: that */
    double lag;        /* the same for actuators.lag */
} hb_loop_controller;

int hb_loop_in_process(hb_loop **ret, const hb_plant_type *plant, const hb_loop_controller *c, hb_error *err);

/* A cascade of PID controllers for the quadrotor; gains in units of 1/s and 1/s^2 (integrals). */
typedef struct hb_pid_gains {
    double position, velocity, velocity_integral, attitude, yaw, rates, rates_integral;
} hb_pid_gains;

extern const hb_pid_gains hb_pid_default;
/* requests a second that it is made for */
#define HB_PID_RATE 250.0

/* gains NULL: the default ones. */
int hb_loop_pid(hb_loop **ret, const hb_plant_type *plant, const hb_pid_gains *gains, hb_error *err);

#endif
