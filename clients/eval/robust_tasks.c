/* Tasks beyond hovering in good order, for both levels of control. Numbers suit both vehicles: speeds and sizes of
 * paths are such that the tilt stays below 40 degrees and the rates below 1.5 rad/s. */
#include <math.h>

#include "eval/robust.h"
#include "sim/airframe.h"

/* Adds p, v to the target, and leans it as a vehicle does that accelerates by a. */
static void follow(double *target, const double *p, const double *v, const double *a)
{
    double force[3];

    for (int i = 0; i < 3; i++) {
        target[HB_X + 2 * i] += p[i];
        target[HB_VX + 2 * i] += v[i];
        force[i] = a[i] + (i == 2 ? hb_airframe_gravity : 0);
    }
    hb_airframe_attitude(force, 0, target + HB_QX);
}

/* A figure of eight, `size` metres to each side, crossed at `speed`. */
static void eight(double time, double size, double speed, double *target)
{
    double w = speed / (M_SQRT2 * size), s = sin(w * time), c = cos(w * time);
    double s2 = sin(2 * w * time), c2 = cos(2 * w * time);
    const double p[3] = {size * s, size / 2 * s2, 0}, v[3] = {size * w * c, size * w * c2, 0};
    const double a[3] = {-size * w * w * s, -2 * size * w * w * s2, 0};

    follow(target, p, v, a);
}

static void eight1(double time, double *target)
{
    eight(time, 1, 1, target);
}

static void eight2(double time, double *target)
{
    eight(time, 1.25, 2, target);
}

static void eight4(double time, double *target)
{
    eight(time, 2.5, 4, target);
}

/* the one that Neural-Fly was shown with: 2.5 m wide, 1.5 m high */
static void neural_fly(double time, double *target)
{
    const double p[3] = {1.25 * sin(time), 0, 0.75 * sin(2 * time)};
    const double v[3] = {1.25 * cos(time), 0, 1.5 * cos(2 * time)};
    const double a[3] = {-1.25 * sin(time), 0, -3 * sin(2 * time)};

    follow(target, p, v, a);
}

/* 1.5 m at 3 m/s: 6 m/s^2 to the middle */
static void fast_circle(double time, double *target)
{
    const double r = 1.5, w = 2, s = sin(w * time), c = cos(w * time);

    follow(target, (double[]){r * c, r * s, 0}, (double[]){-r * w * s, r * w * c, 0},
           (double[]){-r * w * w * c, -r * w * w * s, 0});
}

static void step1(double time, double *target)
{
    target[HB_X] += time >= 1 ? 1 : 0;
}

static void step2(double time, double *target)
{
    target[HB_X] += time >= 1 ? 2 : 0;
}

static void step5(double time, double *target)
{
    target[HB_X] += time >= 1 ? 5 : 0;
}

/* down from the second second on, to a twelfth of the height: where a rotor of each vehicle feels the ground */
static void land(double time, double *target)
{
    double high = target[HB_Z], low = high / 12, sink = 0.4 * high;

    if (time > 1) {
        target[HB_Z] = fmax(high - sink * (time - 1), low);
        target[HB_VZ] = target[HB_Z] > low ? -sink : 0;
    }
}

/* sensors as they are, and rotors that lag; the multirotor's lag by themselves */
#define Q "noise=0.3,lag=0.02"
#define M "noise=0.2"
/* drag where there is wind: a wind of 10 m/s leans both by about 20 degrees */
#define QAIR Q ",drag=0.01,"
#define MAIR M ",drag=0.35,"

#define TASK(NAME, HELP, ROTORS, RATES, ...)                                                                           \
    {.name = (NAME), .help = (HELP), .plant = &hb_plant_quadrotor, .weather = ROTORS, .told_lag = true, __VA_ARGS__},  \
    {                                                                                                                  \
        .name = (NAME), .help = (HELP), .plant = &hb_plant_multirotor, .weather = RATES, __VA_ARGS__                   \
    }

enum { ANY = HB_ROBUST_TASK, FEW = HB_ROBUST_TASK | HB_ROBUST_QUICK };

static const hb_robust_row tasks[] = {
    TASK("eight1", "a figure of eight at 1 m/s", Q, M, .path = eight1, .groups = ANY),
    TASK("eight2", "at 2 m/s", Q, M, .path = eight2, .groups = FEW),
    TASK("eight4", "at 4 m/s", Q, M, .path = eight4, .groups = ANY),
    TASK("fast_circle", "a circle of 1.5 m at 3 m/s", Q, M, .path = fast_circle, .groups = ANY),
    TASK("step1", "a step of 1 m that nobody told of", Q, M, .path = step1, .surprise = true, .change = 1, .seconds = 6,
         .groups = ANY),
    TASK("step2", "of 2 m", Q, M, .path = step2, .surprise = true, .change = 1, .seconds = 6, .groups = ANY),
    TASK("step5", "of 5 m", Q, M, .path = step5, .surprise = true, .change = 1, .seconds = 7, .groups = ANY),
    TASK("light", "the eight at 1 m/s with 60 % of the mass", Q ",mass=0.0162", M ",load=0.6", .path = eight1,
         .groups = ANY),
    TASK("heavy", "with 140 %", Q ",mass=0.0378", M ",load=1.4", .path = eight1, .groups = FEW),
    TASK("payload", "a payload of up to half the mass, off the middle, taken and dropped one to four times in 5 s",
         Q ",payload_x=0:8", M, .path = eight1, .toggles = true, .groups = FEW),
    TASK("parameters", "everything 10 % off",
         Q ",mass=0.0243:0.0297,inertia=0.9:1.1,rotor0=0.9:1.1,rotor1=0.9:1.1,"
           "rotor2=0.9:1.1,rotor3=0.9:1.1,com_x=0:1,lag=0.018:0.022",
         M ",load=0.9:1.1,thrust_lag=0.045:0.055,frequency=16.2:19.8,damping=0.63:0.77,yaw_bandwidth=5.4:6.6",
         .path = eight1, .groups = ANY),
    TASK("rotors", "each rotor's thrust up to 30 % off",
         Q ",rotor0=0.7:1.3,rotor1=0.7:1.3,rotor2=0.7:1.3,rotor3=0.7:1.3",
         M ",load=0.77:1.43,offset_roll=0:0.2,offset_yaw=-0.1:0.1", .path = eight1, .groups = ANY),
    TASK("force", "a constant force of 20 % of the weight", Q ",force_x=0.2,force_z=-0.1:0.1",
         M ",force_x=0.2,force_z=-0.1:0.1", .path = eight1, .groups = ANY),
    TASK("torque", "a constant torque", Q ",torque_x=0.4,torque_z=-0.1:0.1", M ",offset_roll=0.2,offset_yaw=-0.1:0.1",
         .path = eight1, .groups = FEW),
    TASK("wind6", "wind of 6 m/s", QAIR "wind_x=6", MAIR "wind_x=6", .path = eight1, .groups = ANY),
    TASK("wind10", "of 10 m/s", QAIR "wind_x=10", MAIR "wind_x=10", .path = eight1, .groups = ANY),
    TASK("dryden", "wind of 5 m/s with turbulence", QAIR "wind_x=5,dryden=10", MAIR "wind_x=5,dryden=10",
         .path = eight1, .groups = FEW),
    TASK("pulse", "a gust of 6 m/s within a second", QAIR "pulse_x=6", MAIR "pulse_x=6", .path = eight1, .change = 3,
         .groups = ANY),
    TASK("battery", "a battery that loses a quarter of the thrust in 8 s", Q ",sag=0.25,sag_time=8",
         M ",sag=0.25,sag_time=8", .path = eight1, .groups = ANY),
    TASK("swing", "a load of 15 % of the mass that swings on 0.4 m of string", Q ",swing=0.15,swing_length=0.4",
         M ",swing=0.15,swing_length=0.4", .path = eight1, .groups = ANY),
    TASK("land", "down into the ground effect", Q ",ground=1", M ",ground=1", .path = land, .groups = ANY),
    TASK("neural_fly", "Neural-Fly's figure of eight without wind", QAIR, MAIR "mass=2.6", .path = neural_fly,
         .seconds = 12.6, .groups = ANY),
    TASK("neural_fly4", "in 4.2 m/s", QAIR "wind_x=4.2", MAIR "mass=2.6,wind_x=4.2", .path = neural_fly,
         .seconds = 12.6, .groups = ANY),
    TASK("neural_fly8", "in 8.5 m/s", QAIR "wind_x=8.5", MAIR "mass=2.6,wind_x=8.5", .path = neural_fly,
         .seconds = 12.6, .groups = ANY),
    TASK("neural_fly12", "in 12.1 m/s", QAIR "wind_x=12.1", MAIR "mass=2.6,wind_x=12.1", .path = neural_fly,
         .seconds = 12.6, .groups = ANY),
    TASK("neural_fly_sine", "in 8.5 + 2.4 sin t m/s", QAIR "wind_x=8.5,swell=0.282",
         MAIR "mass=2.6,wind_x=8.5,swell=0.282", .path = neural_fly, .seconds = 12.6, .groups = ANY),
    TASK("far_payload", "hovering, the payload grows until it is lost: share of the mass", Q, M,
         .ramp = HB_RAMP_PAYLOAD, .seconds = 16, .groups = ANY),
    TASK("far_wind", "the wind grows: m/s", QAIR, MAIR, .ramp = HB_RAMP_WIND, .seconds = 16, .groups = ANY),
    TASK("far_force", "a force grows: share of the weight", Q, M, .ramp = HB_RAMP_FORCE, .seconds = 16, .groups = ANY),
    TASK("far_delay", "a delay grows that nobody told of: seconds", Q, M, .ramp = HB_RAMP_DELAY, .seconds = 16,
         .groups = ANY),
};

enum { NTASKS = sizeof tasks / sizeof *tasks };

/* those of one plant, then those of the other */
const hb_robust_row *hb_robust_task_at(int index)
{
    const int half = NTASKS / 2;

    if (index >= NTASKS)
        return NULL;
    return index < half ? &tasks[2 * index] : &tasks[2 * (index - half) + 1];
}
