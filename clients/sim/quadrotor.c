/* Crazyflie 2.x in MuJoCo. models/quadrotor.xml has the geometry; this file turns controls, wind and payload into
 * forces, 1000 times a second.
 *
 *     m v' = R e_z sum f + m g - drag (v - wind - gust)        g = 9.81 m/s^2
 *     I w' = torque(f) - w x I w
 *
 * Inertia does not follow mass: a battery or a payload sits near the centre. The `inertia` parameter scales it. */
#include "sim/plant.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "models.h"
#include "sim/mujoco.h"

enum { NX = 13, NU = 4, BODY = 1 };
enum { X, VX, Y, VY, Z, VZ, QX, QY, QZ, QW, WX, WY, WZ };

#define PHYSICS_STEP 0.001

enum {
    MASS,
    INERTIA,
    ROTOR0,
    ROTOR1,
    ROTOR2,
    ROTOR3,
    DRAG,
    WIND_X,
    WIND_Y,
    WIND_Z,
    GUST,
    GUST_TIME,
    PAYLOAD,
    NOISE,
    DELAY,
    NPARAMETERS
};

static const hb_plant_parameter parameters[NPARAMETERS] = {
    [MASS] = {"mass", "kg", "mass of the body", 0.027, 0.020, 0.032, 0.005, 0.1, true},
    [INERTIA] = {"inertia", "1", "scale of the inertia, which does not follow mass by itself", 1, 1, 1, 0.2, 5, true},
    [ROTOR0] = {"rotor0", "1", "efficiency of rotor 0: thrust made of thrust asked for", 1, 1, 1, 0, 1.5, true},
    [ROTOR1] = {"rotor1", "1", "efficiency of rotor 1", 1, 1, 1, 0, 1.5, true},
    [ROTOR2] = {"rotor2", "1", "efficiency of rotor 2", 1, 1, 1, 0, 1.5, true},
    [ROTOR3] = {"rotor3", "1", "efficiency of rotor 3", 1, 1, 1, 0, 1.5, true},
    [DRAG] = {"drag", "N s/m", "linear drag against the air", 0, 0, 0, 0, 0.2, true},
    [WIND_X] = {"wind_x", "m/s", "constant wind, acting through drag", 0, 0, 0, -20, 20, true},
    [WIND_Y] = {"wind_y", "m/s", "constant wind, acting through drag", 0, 0, 0, -20, 20, true},
    [WIND_Z] = {"wind_z", "m/s", "constant wind, acting through drag", 0, 0, 0, -20, 20, true},
    [GUST] = {"gust", "m/s", "standard deviation of gusts on each axis, acting through drag", 0, 0, 0, 0, 10, true},
    [GUST_TIME] = {"gust_time", "s", "how long a gust lasts (correlation time)", 0.5, 0.5, 0.5, 0.01, 100, true},
    [PAYLOAD] = {"payload", "kg", "carried at the centre of mass, picked up or dropped in flight", 0, 0, 0, 0, 0.1,
                 true},
    [NOISE] = {"noise", "1", "sensor noise; 1 is 2 mm, 2 cm/s, 0.3 degrees and 0.03 rad/s (standard deviations)", 0, 0,
               0, 0, 100, true},
    [DELAY] = {"delay", "s", "from command to thrust", 0, 0, 0, 0, 0.2, true},
};

static const char *const state_name[NX] = {"x", "vx", "y", "vy", "z", "vz", "qx", "qy", "qz", "qw", "wx", "wy", "wz"};
static const char *const state_unit[NX] = {"m", "m/s", "m", "m/s",   "m",     "m/s",  "1",
                                           "1", "1",   "1", "rad/s", "rad/s", "rad/s"};
static const char *const control_name[NU] = {"f0", "f1", "f2", "f3"};
static const char *const control_unit[NU] = {"N", "N", "N", "N"};
static const double control_min[NU] = {0.03, 0.03, 0.03, 0.03};
static const double control_max[NU] = {0.15, 0.15, 0.15, 0.15};
static const double control_trim[NU] = {0.0662175, 0.0662175, 0.0662175, 0.0662175}; /* 0.027 * 9.81 / 4 */
static const double target[NX] = {[Z] = 1, [QW] = 1};

/* a command waits here for `delay` */
enum { QUEUE = 256 };

typedef struct quadrotor {
    hb_mujoco sim;
    mjData *scratch; /* where constants that follow from mass and inertia are worked out */
    double nominal_inertia[3];
    double gust[3];
    double queue[QUEUE][NU]; /* what was commanded in the last QUEUE physics steps */
    unsigned newest;         /* index into queue */
    bool queued;             /* queue holds something */
} quadrotor;

static int create(hb_plant *p, hb_error *err)
{
    quadrotor *q = p->own = calloc(1, sizeof *q);
    if (!q)
        return hb_fail(err, ENOMEM, "out of memory");
    int status = hb_mujoco_load(&q->sim, "quadrotor", hb_model_xml_quadrotor, err);
    if (status)
        return status;
    q->scratch = mj_makeData(q->sim.model);
    memcpy(q->nominal_inertia, q->sim.model->body_inertia + 3 * BODY, sizeof q->nominal_inertia);
    return 0;
}

static void destroy(hb_plant *p)
{
    quadrotor *q = p->own;

    if (q && q->scratch)
        mj_deleteData(q->scratch);
    if (q)
        hb_mujoco_free(&q->sim);
    free(q);
}

static void take_parameters(hb_plant *p)
{
    quadrotor *q = p->own;
    mjModel *m = q->sim.model;

    m->body_mass[BODY] = p->parameter[MASS] + p->parameter[PAYLOAD];
    for (int i = 0; i < 3; i++)
        m->body_inertia[3 * BODY + i] = p->parameter[INERTIA] * q->nominal_inertia[i];
    for (int i = 0; i < NU; i++)
        m->actuator_gainprm[mjNGAIN * i] = p->parameter[ROTOR0 + i];
    /* the engine takes a single body's inertia matrix from constants of the model; not worked out on `data`, whose
     * state that would overwrite */
    mj_setConst(m, q->scratch);
}

static void apply(hb_plant *p, int parameter)
{
    (void)parameter;
    take_parameters(p);
}

static int reset(hb_plant *p, const double *x, hb_error *err)
{
    quadrotor *q = p->own;
    double norm = sqrt(x[QX] * x[QX] + x[QY] * x[QY] + x[QZ] * x[QZ] + x[QW] * x[QW]);
    (void)err;

    take_parameters(p);
    mj_resetData(q->sim.model, q->sim.data);
    mjtNum *position = q->sim.data->qpos, *velocity = q->sim.data->qvel;
    const double pose[7] = {x[X], x[Y], x[Z], x[QW] / norm, x[QX] / norm, x[QY] / norm, x[QZ] / norm};
    const double motion[6] = {x[VX], x[VY], x[VZ], x[WX], x[WY], x[WZ]};
    memcpy(position, pose, sizeof pose);
    memcpy(velocity, motion, sizeof motion);

    /* gusts start in their long-term distribution */
    for (int i = 0; i < 3; i++)
        q->gust[i] = p->parameter[GUST] * hb_draw_normal(&p->draws);
    q->queued = false;
    return 0;
}

static const double *delayed(quadrotor *q, const double *u, int delay)
{
    /* before the first command there is nothing older than it */
    if (!q->queued)
        for (int i = 0; i < QUEUE; i++)
            memcpy(q->queue[i], u, sizeof q->queue[i]);
    q->queued = true;
    q->newest = (q->newest + 1) % QUEUE;
    memcpy(q->queue[q->newest], u, sizeof q->queue[0]);
    return q->queue[(q->newest + QUEUE - (unsigned)delay) % QUEUE];
}

static void step(hb_plant *p, const double *u, double dt)
{
    quadrotor *q = p->own;
    mjModel *m = q->sim.model;
    mjData *d = q->sim.data;
    int n = hb_mujoco_steps(&q->sim, dt, PHYSICS_STEP);
    double h = m->opt.timestep, keep = exp(-h / p->parameter[GUST_TIME]);
    int delay = (int)fmin(round(p->parameter[DELAY] / h), QUEUE - 1);
    double *force = d->xfrc_applied + 6 * BODY;

    for (int k = 0; k < n; k++) {
        memcpy(d->ctrl, delayed(q, u, delay), NU * sizeof *u);
        for (int i = 0; i < 3; i++) {
            if (p->parameter[GUST] > 0)
                q->gust[i] = keep * q->gust[i] + p->parameter[GUST] * sqrt(1 - keep * keep) * hb_draw_normal(&p->draws);
            force[i] = -p->parameter[DRAG] * (d->qvel[i] - p->parameter[WIND_X + i] - q->gust[i]);
        }
        mj_step(m, d);
    }
}

static void state(const hb_plant *p, double *x)
{
    const quadrotor *q = p->own;
    const mjtNum *position = q->sim.data->qpos, *velocity = q->sim.data->qvel;

    for (int i = 0; i < 3; i++) {
        x[X + 2 * i] = position[i];
        x[VX + 2 * i] = velocity[i];
        x[QX + i] = position[4 + i];
        x[WX + i] = velocity[3 + i];
    }
    x[QW] = position[3];
}

/* Sensor noise: a small random rotation on the attitude, so that it stays a rotation. */
static void disturb(const hb_plant *p, hb_draws *d, double *x)
{
    double noise = p->parameter[NOISE], rotation[3], q[4] = {x[QW], x[QX], x[QY], x[QZ]}, turn[4], result[4];

    if (noise == 0)
        return;
    for (int i = 0; i < 3; i++) {
        x[X + 2 * i] += noise * 0.002 * hb_draw_normal(d);
        x[VX + 2 * i] += noise * 0.02 * hb_draw_normal(d);
        rotation[i] = noise * 0.3 * M_PI / 180 * hb_draw_normal(d);
        x[WX + i] += noise * 0.03 * hb_draw_normal(d);
    }
    double angle = mju_normalize3(rotation);
    mju_axisAngle2Quat(turn, rotation, angle);
    mju_mulQuat(result, q, turn);
    x[QW] = result[0];
    memcpy(x + QX, result + 1, 3 * sizeof *x);
}

/* Near the target, with some of every motion. The quaternion's sign is the one with qw > 0. */
static int start(hb_plant *p, hb_draws *d, double *x, hb_error *err)
{
    double tilt = hb_draw_uniform(d, 0, 30) * M_PI / 180, heading = hb_draw_uniform(d, -M_PI, M_PI);
    double yaw = hb_draw_uniform(d, -60, 60) * M_PI / 180;
    double axis[3] = {cos(heading), sin(heading), 0}, up[3] = {0, 0, 1}, lean[4], turn[4], q[4];
    (void)p;
    (void)err;

    mju_axisAngle2Quat(lean, axis, tilt);
    mju_axisAngle2Quat(turn, up, yaw);
    mju_mulQuat(q, turn, lean);
    for (int i = 0; i < 3; i++) {
        x[X + 2 * i] = target[X + 2 * i] + hb_draw_uniform(d, -0.5, 0.5);
        x[VX + 2 * i] = hb_draw_uniform(d, -1, 1);
        x[QX + i] = q[1 + i];
        x[WX + i] = hb_draw_uniform(d, -3, 3);
    }
    x[QW] = q[0];
    return 0;
}

static const hb_mujoco *engine(const hb_plant *p)
{
    return &((const quadrotor *)p->own)->sim;
}

static const char *failure(const hb_plant *p)
{
    const quadrotor *q = p->own;
    const mjtNum *position = q->sim.data->qpos, *attitude = position + 3;

    if (hb_mujoco_failure(&q->sim))
        return hb_mujoco_failure(&q->sim);
    if (position[2] < 0)
        return "hit the ground";
    /* the body's z axis points downward */
    if (1 - 2 * (attitude[1] * attitude[1] + attitude[2] * attitude[2]) < 0)
        return "turned over";
    if (hypot(position[0], position[1]) > 10 || position[2] > 10)
        return "flew away";
    return NULL;
}

const hb_plant_type hb_plant_quadrotor = {
    .name = "quadrotor",
    .help = "Crazyflie 2.x in MuJoCo, four rotor thrusts; 1 kHz physics, 25 Hz control",
    HB_PLANT_TABLES,
    .target = target,
    .dt = 0.04,
    .apply = apply,
    .disturb = disturb,
    HB_PLANT_FUNCTIONS,
    .mujoco = engine,
};
