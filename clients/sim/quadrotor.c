/* Crazyflie 2.x in MuJoCo. models/quadrotor.xml has the geometry; this file turns controls, wind and payload into
 * forces, 1000 times a second.
 *
 *     command --delay--> in force --lag--> made --rotor efficiency, sag, ground effect--> thrust f
 *
 *     made' = (in force - made) / lag
 *     m v' = R e_z sum f + m g - drag (v - air) + push         g = 9.81 m/s^2; air, push: gusts and surroundings.h
 *     I w' = sum (r_i - com) x f_i + drag torques + torque - w x I w
 *
 * Position and velocity are those of the centre of mass. Inertia does not follow mass: a battery or a payload sits near
 * the centre. The `inertia` parameter scales it. */
#include "sim/plant.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "models.h"
#include "sim/airframe.h"
#include "sim/flying_body.h"
#include "sim/mujoco.h"
#include "sim/surroundings.h"

enum { NU = 4, BODY = 1 };

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
    LAG,
    COM_X,
    COM_Y,
    COM_Z,
    SAG,
    SAG_TIME,
    GROUND,
    NOISE_POSITION,
    NOISE_VELOCITY,
    NOISE_ATTITUDE,
    NOISE_RATES,
    BIAS_POSITION,
    BIAS_VELOCITY,
    BIAS_ATTITUDE,
    BIAS_RATES,
    PAYLOAD_X,
    PAYLOAD_Y,
    TORQUE_X,
    TORQUE_Y,
    TORQUE_Z,
    SURROUNDINGS,
    NPARAMETERS = SURROUNDINGS + HB_NSURROUNDINGS
};

static const hb_plant_parameter parameters[NPARAMETERS] = {
    [MASS] = {"mass", "kg", "mass of the body", 0.027, 0.020, 0.032, 0.005, 0.1, true},
    [INERTIA] = {"inertia", "1", "scale of the inertia, which does not follow mass by itself", 1, 1, 1, 0.2, 5, true},
    [ROTOR0] = {"rotor0", "1", "efficiency of rotor 0: thrust made of thrust asked for", 1, 1, 1, -1, 1.5, true},
    [ROTOR1] = {"rotor1", "1", "efficiency of rotor 1", 1, 1, 1, -1, 1.5, true},
    [ROTOR2] = {"rotor2", "1", "efficiency of rotor 2", 1, 1, 1, -1, 1.5, true},
    [ROTOR3] = {"rotor3", "1", "efficiency of rotor 3", 1, 1, 1, -1, 1.5, true},
    [DRAG] = {"drag", "N s/m", "linear drag against the air", 0, 0, 0, 0, 0.2, true},
    [WIND_X] = {"wind_x", "m/s", "constant wind, acting through drag", 0, 0, 0, -20, 20, true},
    [WIND_Y] = {"wind_y", "m/s", "constant wind, acting through drag", 0, 0, 0, -20, 20, true},
    [WIND_Z] = {"wind_z", "m/s", "constant wind, acting through drag", 0, 0, 0, -20, 20, true},
    [GUST] = {"gust", "m/s", "standard deviation of gusts on each axis, acting through drag", 0, 0, 0, 0, 10, true},
    [GUST_TIME] = {"gust_time", "s", "how long a gust lasts (correlation time)", 0.5, 0.5, 0.5, 0.01, 100, true},
    [PAYLOAD] = {"payload", "kg", "carried at payload_x, payload_y, picked up or dropped in flight", 0, 0, 0, 0, 0.1,
                 true},
    [NOISE] = {"noise", "1", "sensor noise; 1 is 2 mm, 2 cm/s, 0.3 degrees and 0.03 rad/s (standard deviations)", 0, 0,
               0, 0, 100, true},
    [DELAY] = {"delay", "s", "from command to where it begins to act", 0, 0, 0, 0, 0.2, true},
    [LAG] = {"lag", "s", "time constant of the rotors: thrust follows what is in force as a first-order lag", 0, 0, 0,
             0, 1, true},
    [COM_X] = {"com_x", "mm", "centre of mass ahead of the middle of the rotors", 0, 0, 0, -20, 20, true},
    [COM_Y] = {"com_y", "mm", "centre of mass to the left of it", 0, 0, 0, -20, 20, true},
    [COM_Z] = {"com_z", "mm", "centre of mass above it", 0, 0, 0, -20, 20, true},
    [SAG] = {"sag", "1", "share of the thrust that the battery has lost after sag_time", 0, 0, 0, 0, 0.5, true},
    [SAG_TIME] = {"sag_time", "s", "in which the battery sags, evenly", 10, 10, 10, 0.1, 1e6, true},
    [GROUND] = {"ground", "1", "ground effect: 1 is Cheeseman and Bennett's for a rotor of 23 mm", 0, 0, 0, 0, 3, true},
    [NOISE_POSITION] = {"noise_position", "m", "sensor noise (standard deviation), besides `noise`", 0, 0, 0, 0, 1,
                        true},
    [NOISE_VELOCITY] = {"noise_velocity", "m/s", "the same of velocities", 0, 0, 0, 0, 10, true},
    [NOISE_ATTITUDE] = {"noise_attitude", "degree", "the same of each axis of the attitude", 0, 0, 0, 0, 45, true},
    [NOISE_RATES] = {"noise_rates", "rad/s", "the same of body rates", 0, 0, 0, 0, 10, true},
    [BIAS_POSITION] = {"bias_position", "m", "constant error of sensors, drawn for each flight (standard deviation)", 0,
                       0, 0, 0, 1, true},
    [BIAS_VELOCITY] = {"bias_velocity", "m/s", "the same of velocities", 0, 0, 0, 0, 10, true},
    [BIAS_ATTITUDE] = {"bias_attitude", "degree", "the same of each axis of the attitude", 0, 0, 0, 0, 45, true},
    [BIAS_RATES] = {"bias_rates", "rad/s", "the same of body rates", 0, 0, 0, 0, 10, true},
    [PAYLOAD_X] = {"payload_x", "mm", "where the payload hangs, ahead of the middle of the rotors", 0, 0, 0, -40, 40,
                   true},
    [PAYLOAD_Y] = {"payload_y", "mm", "the same to the left of it", 0, 0, 0, -40, 40, true},
    [TORQUE_X] = {"torque_x", "mN m", "constant torque about the body's axis", 0, 0, 0, -5, 5, true},
    [TORQUE_Y] = {"torque_y", "mN m", "the same", 0, 0, 0, -5, 5, true},
    [TORQUE_Z] = {"torque_z", "mN m", "the same", 0, 0, 0, -5, 5, true},
    HB_SURROUNDINGS_AT(SURROUNDINGS),
};

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
    double nominal_site[3 * NU]; /* where the rotors are when the centre of mass is in their middle */
    double gust[3];
    hb_surroundings around;
    double queue[QUEUE][NU]; /* what was commanded in the last QUEUE physics steps */
    unsigned newest;         /* index into queue */
    double made[NU];         /* what the lag has made of what the delay let through */
    double bias[4][3];       /* of sensors, in standard deviations: position, velocity, attitude, rates */
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
    memcpy(q->nominal_site, q->sim.model->site_pos, sizeof q->nominal_site);
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
    for (int k = 0; k < 3; k++) {
        /* what hangs off the middle takes the centre of mass with it */
        double hung = k < 2 ? p->parameter[PAYLOAD] / m->body_mass[BODY] * p->parameter[PAYLOAD_X + k] : 0;
        for (int i = 0; i < NU; i++)
            m->site_pos[3 * i + k] = q->nominal_site[3 * i + k] - 1e-3 * (p->parameter[COM_X + k] + hung);
    }
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

    gust_start(q->gust, p->parameter[GUST], &p->draws);
    hb_surroundings_start(&q->around, p->parameter + SURROUNDINGS, pose, motion, &p->draws);
    /* sensors differ from vehicle to vehicle */
    for (int i = 0; i < 12; i++)
        q->bias[i / 3][i % 3] = hb_draw_normal(&p->sensor_draws);
    /* it flew before, with its rotors at trim */
    for (int i = 0; i < QUEUE; i++)
        memcpy(q->queue[i], control_trim, sizeof q->queue[i]);
    memcpy(q->made, control_trim, sizeof q->made);
    return 0;
}

/* One physics step of h seconds from commands to thrusts. */
static void turn_rotors(const hb_plant *p, const double *u, double h)
{
    quadrotor *q = p->own;
    const double *a = p->parameter;
    unsigned delay = (unsigned)fmin(round(a[DELAY] / h), QUEUE - 1);
    double follow = a[LAG] > 0 ? -expm1(-h / a[LAG]) : 1;
    double charge = 1 - a[SAG] * fmin(p->time / a[SAG_TIME], 1);
    /* the lift of a rotor above the ground, which grows without bound only below where it can be */
    double height = fmax(q->sim.data->qpos[2], 0.023 / 2), ratio = 0.023 / (4 * height);
    double lift = 1 + a[GROUND] * (1 / (1 - ratio * ratio) - 1);

    q->newest = (q->newest + 1) % QUEUE;
    memcpy(q->queue[q->newest], u, sizeof q->queue[0]);
    const double *in_force = q->queue[(q->newest + QUEUE - delay) % QUEUE];
    for (int i = 0; i < NU; i++) {
        q->made[i] += follow * (in_force[i] - q->made[i]);
        q->sim.data->ctrl[i] = a[ROTOR0 + i] * charge * lift * q->made[i];
    }
}

static void step(hb_plant *p, const double *u, double dt)
{
    quadrotor *q = p->own;
    mjModel *m = q->sim.model;
    mjData *d = q->sim.data;
    int n = hb_mujoco_steps(&q->sim, dt, PHYSICS_STEP);
    double h = m->opt.timestep;
    double *force = d->xfrc_applied + 6 * BODY;

    for (int k = 0; k < n; k++) {
        turn_rotors(p, u, h);
        gust_step(q->gust, p->parameter[GUST], p->parameter[GUST_TIME], h, &p->draws);
        double air[3], push[3], torque[3];
        memcpy(air, p->parameter + WIND_X, sizeof air);
        hb_surroundings_step(&q->around, p->parameter + SURROUNDINGS, p->time + k * h, h, d->qpos, d->qvel, &p->draws,
                             air, push);
        for (int i = 0; i < 3; i++) {
            force[i] = parameters[MASS].nominal * push[i] - p->parameter[DRAG] * (d->qvel[i] - air[i] - q->gust[i]);
            torque[i] = 1e-3 * p->parameter[TORQUE_X + i];
        }
        mju_rotVecQuat(force + 3, torque, d->qpos + 3);
        mj_step(m, d);
    }
}

static void acceleration(const hb_plant *p, hb_draws *d, double *a)
{
    static const double unit = 0.3; /* m/s^2, of `noise` */
    const quadrotor *q = p->own;
    double sigma = hypot(unit * p->parameter[NOISE], 10 * p->parameter[NOISE_VELOCITY]);

    for (int i = 0; i < 3; i++)
        a[i] = q->sim.data->qacc[i] + (sigma > 0 ? sigma * hb_draw_normal(d) : 0);
}

/* In force is what the next physics step will let through. */
static void control(const hb_plant *p, hb_plant_report what, const double *command, double *u)
{
    const quadrotor *q = p->own;
    unsigned delay = (unsigned)fmin(round(p->parameter[DELAY] / PHYSICS_STEP), QUEUE - 1);
    const double *in_force = delay > 0 ? q->queue[(q->newest + 1 + QUEUE - delay) % QUEUE] : command;

    memcpy(u, what == HB_REPORT_MADE ? q->made : in_force, NU * sizeof *u);
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

/* Sensors: noise and constant errors. The attitude is turned by small angles, so that it stays a rotation. */
static void disturb(const hb_plant *p, hb_draws *d, double *x)
{
    static const double unit[4] = {0.002, 0.02, 0.3, 0.03}; /* of `noise` */
    const quadrotor *own = p->own;
    const double *a = p->parameter;
    double error[4][3], sum = 0;

    for (int kind = 0; kind < 4; kind++) {
        double sigma = hypot(a[NOISE] * unit[kind], a[NOISE_POSITION + kind]);
        for (int i = 0; i < 3; i++) {
            double draw = sigma > 0 ? hb_draw_normal(d) : 0;
            error[kind][i] = sigma * draw + a[BIAS_POSITION + kind] * own->bias[kind][i];
            sum += fabs(error[kind][i]);
        }
    }
    if (sum == 0)
        return;
    for (int i = 0; i < 3; i++) {
        x[X + 2 * i] += error[0][i];
        x[VX + 2 * i] += error[1][i];
        error[2][i] *= M_PI / 180;
        x[WX + i] += error[3][i];
    }
    double q[4] = {x[QW], x[QX], x[QY], x[QZ]}, turn[4], result[4];
    double angle = mju_normalize3(error[2]);
    mju_axisAngle2Quat(turn, error[2], angle);
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
    return hb_airframe_failure(position[0], position[1], position[2], attitude[1], attitude[2], 10);
}

const hb_plant_type hb_plant_quadrotor = {
    .name = "quadrotor",
    .help = "Crazyflie 2.x in MuJoCo, four rotor thrusts; 1 kHz physics, 25 Hz control",
    HB_PLANT_TABLES,
    .target = target,
    .dt = 0.04,
    .apply = apply,
    .disturb = disturb,
    .control = control,
    .acceleration = acceleration,
    HB_PLANT_FUNCTIONS,
    .mujoco = engine,
};
