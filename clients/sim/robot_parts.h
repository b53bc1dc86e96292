/* What robot*.c share: a robot as its files say, and one instance of it. */
#ifndef HB_ROBOT_PARTS_H
#define HB_ROBOT_PARTS_H

#include "model/model.h"
#include "sim/actuation.h"
#include "sim/mujoco.h"
#include "sim/robot.h"

/* Where a state comes from. */
typedef enum {
    ROBOT_POSITION,
    ROBOT_VELOCITY,
    ROBOT_ACTIVATION,
    ROBOT_BODY,
    ROBOT_SITE,
    ROBOT_SENSOR, /* from ROBOT_BODY on they are read, never set */
} robot_source;

typedef struct robot_state {
    char name[HB_NAME_SIZE], unit[HB_NAME_SIZE];
    robot_source source;
    int index;                /* in qpos, qvel, act, xpos, site_xpos or sensordata */
    bool has_start, has_end;  /* else the pose's value, and none */
    double low, high;         /* of the start */
    double end_low, end_high; /* beyond, it is over */
    double noise;             /* standard deviation */
    char over[128];           /* what is said then */
} robot_state;

typedef struct robot_control {
    char name[HB_NAME_SIZE], unit[HB_NAME_SIZE];
    int actuator;
} robot_control;

/* A kind of attribute of a kind of object. */
typedef struct robot_attribute {
    const char *name, *unit, *help;
    int object;      /* mjtObj; mjOBJ_UNKNOWN: options of the physics */
    bool structural; /* constants of the model follow from it */
    bool scaled;     /* several numbers together: has a scale and no value */
    double (*get)(const mjModel *m, int id);
    void (*set)(mjModel *m, int id, double value, double scale); /* scale not negative: instead of the value */
} robot_attribute;

/* Several objects may share a hidden parameter. */
typedef struct robot_hidden {
    char name[HB_NAME_SIZE];
    const robot_attribute *attribute;
    bool scale; /* relative to the model's values */
    int n, *id;
} robot_hidden;

typedef enum { ROBOT_HOLD_NONE, ROBOT_HOLD_PD, ROBOT_HOLD_LQR, ROBOT_HOLD_GAINS } robot_hold;

typedef struct robot_excitation {
    double noise;  /* standard deviation, of half the range of each control */
    double time;   /* over which it is correlated, seconds; 0: drawn anew in each period */
    double wander; /* seconds between new references; 0: it stays */
    robot_hold hold;
    double kp, kd;
    double *gain; /* nu x nx, of states from their reference, or nu x (2 nv + na) of the linear-quadratic regulator */
} robot_excitation;

typedef struct robot {
    hb_plant_type type; /* the first: types are told by it */
    char name[HB_NAME_SIZE], help[200];
    hb_mujoco nominal;       /* its data are in the pose */
    double step, delay, lag; /* seconds: of the physics, of the actuators */
    int quaternion;          /* first of qx qy qz qw among the states, or -1 */
    int root;                /* the free joint of the robot, or -1 */
    double start_tilt, start_yaw, end_tilt;
    bool derived; /* some states are read from what follows from the position */
    robot_state state[HB_PLANT_STATES];
    robot_control control[HB_PLANT_CONTROLS];
    robot_hidden hidden[HB_PLANT_PARAMETERS];
    int nhidden; /* then come noise, delay, lag */
    robot_excitation excitation;
    /* what the type points to */
    const char *state_name[HB_PLANT_STATES], *state_unit[HB_PLANT_STATES];
    const char *control_name[HB_PLANT_CONTROLS], *control_unit[HB_PLANT_CONTROLS];
    double control_min[HB_PLANT_CONTROLS], control_max[HB_PLANT_CONTROLS], control_trim[HB_PLANT_CONTROLS];
    double target[HB_PLANT_STATES], rest[HB_PLANT_STATES]; /* rest: the pose */
    hb_plant_parameter parameter[HB_PLANT_PARAMETERS];
} robot;

/* One of them. */
typedef struct robot_body {
    hb_mujoco sim;
    mjData *scratch; /* where constants are computed */
    double built_for[HB_PLANT_PARAMETERS];
    bool built;
    hb_actuation actuation;
    mjtNum *reference; /* nq: of the excitation */
} robot_body;

static inline const robot *robot_of(const hb_plant_type *t)
{
    return (const robot *)(const void *)t;
}

/* robot_file.c: takes a robot from its two files. */
int robot_read(robot *r, const char *yaml, hb_error *err);
/* robot.c: states of a simulation, and a simulation at given states. */
void robot_get(const robot *r, const mjData *d, double *x);
void robot_put(const robot *r, const double *x, mjData *d);
/* A start as the file says. */
void robot_draw(const robot *r, hb_draws *d, double *x);

/* robot_attributes.c */
const robot_attribute *robot_attribute_at(int index);
const robot_attribute *robot_attribute_find(int object, const char *name);

/* robot_model.c: what there is in a model. An object by its name, or "#number"; -1: there is none. */
int robot_object_find(const mjModel *m, int object, const char *name);
int robot_object_count(const mjModel *m, int object);
/* Its name, or "#number". */
const char *robot_object_name(const mjModel *m, int object, int id, char *text, size_t size);
/* Parts of a joint's position or velocity in MuJoCo's order: how many, and name and unit of each; the name of a single
 * one is empty. */
int robot_joint_nparts(const mjModel *m, int joint, bool velocity);
const char *robot_joint_part(const mjModel *m, int joint, bool velocity, int part);
const char *robot_joint_unit(const mjModel *m, int joint, bool velocity, int part);
int robot_keyframe_find(const mjModel *m, const char *name);
/* Puts data into a keyframe (-1: the model's own pose). */
void robot_pose(const mjModel *m, mjData *d, int keyframe);
/* Controls that hold the pose: by the keyframe, by what position actuators are there for, or by the forces that act;
 * zero where nothing does. low and high (nu each) are the ranges. */
void robot_trim(const mjModel *m, mjData *d, int keyframe, const double *low, const double *high, double *trim);
/* The range of an actuator's control; false: the model does not limit it, and it is a guess. */
bool robot_control_range(const mjModel *m, int actuator, double *low, double *high);

/* robot_excite.c */
struct hb_policy;
extern const struct hb_policy hb_policy_excite;
/* Gains of the linear-quadratic regulator around the pose. */
int robot_lqr(robot *r, hb_error *err);

#endif
