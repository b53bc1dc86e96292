/* Plants: what data are collected from and what controllers fly.
 *
 * A plant type is a table of constants and five functions; an hb_plant is one instance of it with its own state and
 * parameters. States and controls are in physical units, in the order of the type's names. */
#ifndef HB_PLANT_H
#define HB_PLANT_H

#include <stdbool.h>

#include "base/base.h"
#include "base/numeric.h"

enum { HB_PLANT_STATES = 128, HB_PLANT_CONTROLS = 32, HB_PLANT_PARAMETERS = 48, HB_PLANT_EPISODE = 125 };

/* What is hidden from a controller. */
typedef struct hb_plant_parameter {
    const char *name, *unit, *help;
    double nominal;
    double low, high; /* the range of collected functions unless told otherwise; equal: the nominal value alone */
    double min, max;  /* what is possible */
    bool live;        /* may change in flight; else from the next reset on */
} hb_plant_parameter;

/* Draws in sequence from one stream. */
typedef struct hb_draws {
    hb_random_key key;
    uint64_t index;
} hb_draws;

double hb_draw_uniform(hb_draws *d, double low, double high);
double hb_draw_normal(hb_draws *d);

typedef struct hb_plant hb_plant;
struct hb_mujoco;
struct hb_policy;

/* A control on its way from the command to what the actuators do. */
typedef enum { HB_REPORT_COMMAND, HB_REPORT_IN_FORCE, HB_REPORT_MADE } hb_plant_report;

typedef struct hb_plant_type {
    const char *name, *help;
    int nx, nu, nparameters;
    const char *const *state_name, *const *state_unit;      /* nx */
    const char *const *control_name, *const *control_unit;  /* nu */
    const double *control_min, *control_max, *control_trim; /* nu */
    const double *target;                /* nx, where to fly unless told otherwise; NULL: there is no such place */
    const hb_plant_parameter *parameter; /* nparameters */
    double dt;                           /* default control period, seconds */
    int episode_steps;                   /* of collected episodes unless told otherwise; 0: HB_PLANT_EPISODE */
    bool irregular;                      /* collected with steps that vary, 0.5 .. 1.5 of the period */
    const struct hb_policy *policy;      /* of its own, which moves it unless told otherwise; NULL: see policy.c */

    int (*create)(hb_plant *p, hb_error *err);
    void (*destroy)(hb_plant *p);                                     /* safe when create failed half-way */
    int (*reset)(hb_plant *p, const double *x, hb_error *err);        /* takes parameters, sets the state */
    int (*start)(hb_plant *p, hb_draws *d, double *x, hb_error *err); /* a random state to collect from */
    void (*step)(hb_plant *p, const double *u, double dt);
    void (*state)(const hb_plant *p, double *x);
    void (*apply)(hb_plant *p, int parameter);                  /* of live ones; NULL: there are none */
    void (*disturb)(const hb_plant *p, hb_draws *d, double *x); /* sensor noise; NULL: there is none */
    /* hb_plant_control; NULL: all are the command */
    void (*control)(const hb_plant *p, hb_plant_report what, const double *command, double *u);
    /* of the centre of mass, in the world, as an accelerometer tells it; NULL: it has none */
    void (*acceleration)(const hb_plant *p, hb_draws *d, double *a);
    const char *(*failure)(const hb_plant *p);            /* why the flight is over, or NULL */
    const struct hb_mujoco *(*mujoco)(const hb_plant *p); /* to draw; NULL: there is none */
} hb_plant_type;

/* Fields of a plant with controls whose tables have their plain names in its file: state_name, control_min, ... */
#define HB_PLANT_TABLES HB_PLANT_TABLES_WITH(parameters)
#define HB_PLANT_TABLES_WITH(hidden)                                                                                   \
    .nx = sizeof state_name / sizeof *state_name, .nu = sizeof control_name / sizeof *control_name,                    \
    .nparameters = sizeof hidden / sizeof *hidden, .state_name = state_name, .state_unit = state_unit,                 \
    .control_name = control_name, .control_unit = control_unit, .control_min = control_min,                            \
    .control_max = control_max, .control_trim = control_trim, .parameter = hidden

/* The same for functions that have their plain names. */
#define HB_PLANT_FUNCTIONS                                                                                             \
    .create = create, .destroy = destroy, .reset = reset, .start = start, .step = step, .state = state,                \
    .failure = failure

struct hb_plant {
    const hb_plant_type *type;
    double parameter[HB_PLANT_PARAMETERS];
    hb_draws draws;        /* of gusts */
    hb_draws sensor_draws; /* apart, so that the weather does not depend on how often it is looked at */
    double time;           /* seconds since the reset */
    void *own;             /* the type's */
};

/* index from 0, NULL at the end. */
const hb_plant_type *hb_plant_type_at(int index);
const hb_plant_type *hb_plant_type_find(const char *name, hb_error *err);

/* With nominal parameters. hb_plant_reset must come before the first step. */
int hb_plant_new(hb_plant **ret, const hb_plant_type *type, hb_error *err);
void hb_plant_free(hb_plant *p);

/* Index of a parameter by name, or -EINVAL. */
int hb_plant_parameter_find(const hb_plant_type *type, const char *name, hb_error *err);
int hb_plant_set(hb_plant *p, int parameter, double value, hb_error *err);

/* Starts over at state x with the parameters as they stand. key is of what happens by chance. */
int hb_plant_reset(hb_plant *p, const double *x, hb_random_key key, hb_error *err);
/* Holds u (clamped to the bounds) for dt seconds. */
void hb_plant_step(hb_plant *p, const double *u, double dt);
void hb_plant_state(const hb_plant *p, double *x);
/* The state as sensors see it. */
void hb_plant_observe(hb_plant *p, double *x);
/* The control as a vehicle that is commanded `command` from now on may report it: the command, what is in force after
 * the delay, or what the actuators have made of it by now. */
void hb_plant_control(const hb_plant *p, hb_plant_report what, const double *command, double *u);
/* Why the flight is over (crashed, left the arena, the simulation broke down), or NULL. */
const char *hb_plant_failure(const hb_plant *p);

extern const hb_plant_type hb_plant_quadrotor, hb_plant_multirotor, hb_plant_vanderpol, hb_plant_half_cheetah,
    hb_plant_half_cheetah_standing, hb_plant_ant, hb_plant_ant_standing;

#endif
