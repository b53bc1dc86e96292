/* hilbert-sim's multirotor: multirotor_body.h as a plant, from 0.3 to 3 kg. Thrust and drag are sized for `mass`;
 * `load` is what it weighs of that, so that a payload is a load above 1. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "sim/airframe.h"
#include "sim/flying_body.h"
#include "sim/multirotor_body.h"
#include "sim/surroundings.h"

enum { NU = HB_MULTIROTOR_NU };
_Static_assert((int)NX == (int)HB_MULTIROTOR_NX, "the same state");

enum {
    MASS,
    LOAD,
    DRAG,
    WIND_X,
    WIND_Y,
    WIND_Z,
    GUST,
    GUST_TIME,
    THRUST_LAG,
    FREQUENCY,
    DAMPING,
    BANDWIDTH,
    YAW_BANDWIDTH,
    DELAY,
    SAG,
    SAG_TIME,
    NOISE,
    OFFSET_ROLL,
    OFFSET_PITCH,
    OFFSET_YAW,
    GROUND,
    SURROUNDINGS,
    NPARAMETERS = SURROUNDINGS + HB_NSURROUNDINGS
};

static const hb_plant_parameter parameters[NPARAMETERS] = {
    [MASS] = {"mass", "kg", "mass that rotors and frame are made for", 1, 0.3, 3, 0.3, 3, false},
    [LOAD] = {"load", "1", "what it weighs, relative to `mass`", 1, 0.55, 1.55, 0.3, 1.9, true},
    [DRAG] = {"drag", "N s/m", "linear drag of a vehicle of 1 kg; others by their surface", 1, 0.3, 1.3, 0, 5, true},
    [WIND_X] = {"wind_x", "m/s", "constant wind, acting through drag", 0, -3, 3, -20, 20, true},
    [WIND_Y] = {"wind_y", "m/s", "constant wind, acting through drag", 0, -3, 3, -20, 20, true},
    [WIND_Z] = {"wind_z", "m/s", "constant wind, acting through drag", 0, -0.5, 0.5, -20, 20, true},
    [GUST] = {"gust", "m/s", "standard deviation of gusts on each axis", 0, 0, 0, 0, 10, true},
    [GUST_TIME] = {"gust_time", "s", "how long a gust lasts (correlation time)", 0.5, 0.5, 0.5, 0.01, 100, true},
    [THRUST_LAG] = {"thrust_lag", "s", "time constant of the rotors", 0.05, 0.03, 0.07, 0.001, 1, true},
    [FREQUENCY] = {"frequency", "rad/s", "natural frequency of the roll and pitch loops", 18, 15, 24, 2, 200, true},
    [DAMPING] = {"damping", "1", "of the same", 0.7, 0.6, 1, 0.1, 5, true},
    [BANDWIDTH] = {"bandwidth", "rad/s", "above 0: roll and pitch are of first order instead, to train on what acts", 0,
                   0, 0, 0, 200, true},
    [YAW_BANDWIDTH] = {"yaw_bandwidth", "rad/s", "of the yaw loop", 6, 4, 9, 0.5, 100, true},
    [DELAY] = {"delay", "s", "from command to where it begins to act", 0.006, 0.006, 0.006, 0, 0.2, true},
    [SAG] = {"sag", "1", "share of the thrust that the battery has lost after sag_time", 0, 0, 0, 0, 0.5, true},
    [SAG_TIME] = {"sag_time", "s", "in which the battery sags, evenly", 60, 60, 60, 0.1, 1e6, true},
    [NOISE] = {"noise", "1", "errors of the estimate; 1 is what PX4's showed", 0, 0, 0, 0, 100, true},
    [OFFSET_ROLL] = {"offset_roll", "rad/s", "what the rate loop leaves of a torque", 0, 0, 0, -2, 2, true},
    [OFFSET_PITCH] = {"offset_pitch", "rad/s", "the same", 0, 0, 0, -2, 2, true},
    [OFFSET_YAW] = {"offset_yaw", "rad/s", "the same", 0, 0, 0, -2, 2, true},
    [GROUND] = {"ground", "1", "ground effect: 1 is Cheeseman and Bennett's for a rotor of 120 mm", 0, 0, 0, 0, 3,
                true},
    HB_SURROUNDINGS_AT(SURROUNDINGS),
};

static const char *const control_name[NU] = {"thrust", "roll_rate", "pitch_rate", "yaw_rate"};
static const char *const control_unit[NU] = {"1", "rad/s", "rad/s", "rad/s"};
static const double control_min[NU] = {0.1, -2, -2, -1};
static const double control_max[NU] = {1, 2, 2, 1};
static const double control_trim[NU] = {0.493, 0, 0, 0}; /* 9.81 / 19.9 */
static const double target[NX] = {[Z] = 2, [QW] = 1};

typedef struct multirotor {
    hb_multirotor body;
    hb_estimator_errors errors;
    double gust[3];
    hb_surroundings around;
    double looked; /* when errors were added last */
} multirotor;

static double normal(void *draws)
{
    return hb_draw_normal(draws);
}

static int create(hb_plant *p, hb_error *err)
{
    p->own = calloc(1, sizeof(multirotor));
    return p->own ? 0 : hb_fail(err, ENOMEM, "out of memory");
}

static void destroy(hb_plant *p)
{
    free(p->own);
}

static void take_parameters(hb_plant *p)
{
    multirotor *m = p->own;
    const double *a = p->parameter;

    m->body.full_thrust = 19.9 / a[LOAD] * (1 - a[SAG] * fmin(p->time / a[SAG_TIME], 1));
    m->body.drag = a[DRAG] * pow(a[MASS], 2.0 / 3) / (a[MASS] * a[LOAD]);
    m->body.thrust_lag = a[THRUST_LAG];
    m->body.frequency = a[FREQUENCY];
    m->body.damping = a[DAMPING];
    m->body.bandwidth = a[BANDWIDTH];
    m->body.yaw_bandwidth = a[YAW_BANDWIDTH];
    m->body.delay = a[DELAY];
    m->body.ground = a[GROUND];
    memcpy(m->body.offset, a + OFFSET_ROLL, sizeof m->body.offset);
}

static void apply(hb_plant *p, int parameter)
{
    (void)parameter;
    take_parameters(p);
}

static int reset(hb_plant *p, const double *x, hb_error *err)
{
    multirotor *m = p->own;
    (void)err;

    gust_start(m->gust, p->parameter[GUST], &p->draws);
    take_parameters(p);
    hb_multirotor_reset(&m->body, x);
    hb_surroundings_start(&m->around, p->parameter + SURROUNDINGS, (double[]){x[X], x[Y], x[Z]},
                          (double[]){x[VX], x[VY], x[VZ]}, &p->draws);
    hb_estimator_errors_start(&m->errors, p->parameter[NOISE], normal, &p->sensor_draws);
    m->looked = 0;
    return 0;
}

/* Air and forces of one physics step. */
static void surround(hb_plant *p, double time)
{
    multirotor *m = p->own;
    const double *x = m->body.x, position[3] = {x[X], x[Y], x[Z]}, velocity[3] = {x[VX], x[VY], x[VZ]};
    double air[3], push[3];

    memcpy(air, p->parameter + WIND_X, sizeof air);
    hb_surroundings_step(&m->around, p->parameter + SURROUNDINGS, time, HB_MULTIROTOR_STEP, position, velocity,
                         &p->draws, air, push);
    for (int i = 0; i < 3; i++) {
        m->body.wind[i] = air[i] + m->gust[i];
        m->body.push[i] = push[i] / p->parameter[LOAD];
    }
}

static void step(hb_plant *p, const double *u, double dt)
{
    multirotor *m = p->own;
    int n = (int)fmax(round(dt / HB_MULTIROTOR_STEP), 1);

    for (int k = 0; k < n; k++) {
        gust_step(m->gust, p->parameter[GUST], p->parameter[GUST_TIME], HB_MULTIROTOR_STEP, &p->draws);
        if (p->parameter[SAG] > 0)
            take_parameters(p);
        surround(p, p->time + k * HB_MULTIROTOR_STEP);
        hb_multirotor_step(&m->body, u);
    }
}

static void state(const hb_plant *p, double *x)
{
    const multirotor *m = p->own;
    memcpy(x, m->body.x, sizeof m->body.x);
}

static void disturb(const hb_plant *p, hb_draws *d, double *x)
{
    multirotor *m = p->own;

    if (p->parameter[NOISE] > 0)
        hb_estimator_errors_add(&m->errors, p->time - m->looked, x, normal, d);
    m->looked = p->time;
}

static void control(const hb_plant *p, hb_plant_report what, const double *command, double *u)
{
    const multirotor *m = p->own;

    memcpy(u, p->parameter[DELAY] > 0 ? hb_multirotor_in_force(&m->body) : command, NU * sizeof *u);
    if (what == HB_REPORT_MADE)
        u[0] = m->body.thrust / m->body.full_thrust;
}

static void acceleration(const hb_plant *p, hb_draws *d, double *a)
{
    static const double unit = 0.3; /* m/s^2, of `noise` */

    for (int i = 0; i < 3; i++)
        a[i] = ((const multirotor *)p->own)->body.v_dot[i] +
               (p->parameter[NOISE] > 0 ? unit * p->parameter[NOISE] * hb_draw_normal(d) : 0);
}

/* Some way above the ground, with some of every motion. */
static int start(hb_plant *p, hb_draws *d, double *x, hb_error *err)
{
    double tilt = hb_draw_uniform(d, 0, 25) * M_PI / 180, lean = hb_draw_uniform(d, -M_PI, M_PI);
    double yaw = hb_draw_uniform(d, -1, 1) * M_PI;
    double a = sin(tilt / 2) * cos(lean), b = sin(tilt / 2) * sin(lean), c = cos(tilt / 2);
    (void)p;
    (void)err;

    for (int i = 0; i < 3; i++) {
        x[X + 2 * i] = hb_draw_uniform(d, -2, 2) + (i == 2 ? 6 : 0);
        x[VX + 2 * i] = hb_draw_uniform(d, -1.5, 1.5);
        x[WX + i] = hb_draw_uniform(d, -0.7, 0.7);
    }
    /* heading after lean */
    x[QX] = cos(yaw / 2) * a - sin(yaw / 2) * b;
    x[QY] = cos(yaw / 2) * b + sin(yaw / 2) * a;
    x[QZ] = sin(yaw / 2) * c;
    x[QW] = cos(yaw / 2) * c;
    return 0;
}

static const char *failure(const hb_plant *p)
{
    const double *x = ((const multirotor *)p->own)->body.x;

    if (!hb_all_finite(x, NX))
        return "the simulation broke down";
    return hb_airframe_failure(x[X], x[Y], x[Z], x[QX], x[QY], 60);
}

const hb_plant_type hb_plant_multirotor = {
    .name = "multirotor",
    .help = "a multirotor of 0.3 to 3 kg whose autopilot takes thrust and body rates, as PX4's was measured; 25 Hz",
    HB_PLANT_TABLES,
    .target = target,
    .dt = 0.04,
    .apply = apply,
    .disturb = disturb,
    .control = control,
    .acceleration = acceleration,
    HB_PLANT_FUNCTIONS,
};
