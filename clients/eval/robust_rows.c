#include <math.h>
#include <string.h>

#include "eval/robust.h"

/* half a metre around the target, five seconds per turn */
static void circle(double time, double *target)
{
    const double radius = 0.5, speed = 2 * M_PI / 5;

    target[0] += radius * cos(speed * time);
    target[1] += -radius * speed * sin(speed * time);
    target[2] += radius * sin(speed * time);
    target[3] += radius * speed * cos(speed * time);
}

/* a long hover, then elsewhere */
static void calm(double time, double *target)
{
    if (time >= 16) {
        target[0] += 0.8;
        target[2] -= 0.6;
    }
}

#define NOISE "noise,"
#define VZ    "outlier_time=3,outlier_state=5,"

static const hb_robust_row rows[] = {
    {.name = "ideal", .help = "nothing but an unknown mass", .weather = ""},
    {.name = "lag20", .help = "motors that lag by 20 ms", .weather = "lag=0.02"},
    {.name = "lag40", .help = "40 ms", .weather = "lag=0.04"},
    {.name = "lag60", .help = "60 ms", .weather = "lag=0.06"},
    {.name = "lag40_told", .help = "40 ms, actuators.lag set", .weather = "lag=0.04", .told_lag = true},
    {.name = "delay20", .help = "actions delayed by 20 ms, latency.delay set", .weather = "delay=0.02", .told = true},
    {.name = "delay40", .help = "40 ms, set", .weather = "delay=0.04", .told = true},
    {.name = "delay10_in_force",
     .help = "10 ms, set; telemetry reports the control in force",
     .weather = "delay=0.01,report=1",
     .told = true},
    {.name = "delay20_untold", .help = "20 ms that nobody told the controller of", .weather = "delay=0.02"},
    {.name = "noise", .help = "sensor noise of 5 mm, 3 cm/s, 0.5 degrees, 0.05 rad/s", .weather = "noise"},
    {.name = "noise50hz", .help = "the same with telemetry at 50 Hz", .weather = NOISE "telemetry_rate=50"},
    {.name = "noise100hz", .help = "at 100 Hz", .weather = NOISE "telemetry_rate=100"},
    {.name = "noise500hz", .help = "at 500 Hz", .weather = NOISE "telemetry_rate=500"},
    {.name = "bias",
     .help = "constant errors of sensors: 3 cm/s, 0.5 degrees, 0.03 rad/s",
     .weather = "bias_velocity=0.03,bias_attitude=0.5,bias_rates=0.03"},
    {.name = "com10", .help = "centre of mass 10 mm off", .weather = "com_x=10"},
    {.name = "ask10", .help = "requests at 10 Hz", .weather = "request_rate=10", .slow = true},
    {.name = "ask50", .help = "requests at 50 Hz", .weather = "request_rate=50", .slow = true},
    {.name = "circle",
     .help = "a circle of 0.5 m in 5 s, as a reference",
     .weather = "",
     .seconds = 10,
     .path = circle},
    {.name = "mild", .help = "a vehicle in good order (hilbert-sim --weather mild)", .weather = "mild", .told = true},
    {.name = "real", .help = "a realistic vehicle (hilbert-sim --weather real)", .weather = "real", .told = true},
    {.name = "real_told",
     .help = "the same with the lag told as well",
     .weather = "real",
     .told = true,
     .told_lag = true},
    {.name = "real_circle", .help = "the circle in it", .weather = "real", .told = true, .seconds = 10, .path = circle},
    {.name = "outlier", .help = "one sample of telemetry with vz + 50", .weather = VZ "outlier=50"},
    {.name = "outlier1000", .help = "with vz + 1000", .weather = VZ "outlier=1000"},
    {.name = "control_outlier",
     .help = "one sample that reports controls of 1 N",
     .weather = "outlier_time=3,outlier_control=1"},
    {.name = "calm", .help = "16 s of hover, then a metre aside", .weather = "", .seconds = 20, .path = calm},
    {.name = "mass_step", .help = "the mass changes after 4 s", .weather = "", .mass_step = 4},
    {.name = "gust", .help = "gusts of 1 m/s", .weather = "drag=0.01,gust=1"},
    {.name = "sag", .help = "a battery that loses 20 % of thrust in 6 s", .weather = "sag=0.2,sag_time=6"},
    {.name = "drag", .help = "drag of 0.02 N s/m", .weather = "drag=0.02"},
    {.name = "wind", .help = "wind of 3 m/s", .weather = "drag=0.01,wind_x=3"},
    {.name = "rotor", .help = "a rotor at 85 %", .weather = "rotor0=0.85"},
    {.name = "broken_rotor",
     .help = "after 3 s a rotor has 30 % of its thrust: out-of-span is to say so",
     .weather = "",
     .rotor_step = 3,
     .rotor = 0.3},
    {.name = "sign_flip",
     .help = "after 3 s a rotor turns the wrong way: likewise",
     .weather = "",
     .rotor_step = 3,
     .rotor = -1},
    {.name = "inertia", .help = "inertia of 140 %", .weather = "inertia=1.4"},
    {.name = "loss", .help = "20 % of samples and 10 % of requests lost", .weather = "loss=0.2,request_loss=0.1"},
    {.name = "jitter", .help = "8 ms of jitter", .weather = "jitter=0.008"},
    {.name = "random", .help = "every flight another mix of it all", .weather = "", .told = true, .mixed = true},
};

enum { NROWS = sizeof rows / sizeof *rows };

const hb_robust_row *hb_robust_row_at(int index)
{
    return index < NROWS ? &rows[index] : NULL;
}

/* What a mix is drawn from, uniformly. */
static const struct {
    const char *name;
    double low, high;
} mix[] = {
    {"lag", 0, 0.06},
    {"delay", 0, 0.03},
    {"noise_position", 0, 0.006},
    {"noise_velocity", 0, 0.04},
    {"noise_attitude", 0, 0.6},
    {"noise_rates", 0, 0.06},
    {"drag", 0, 0.015},
    {"wind_x", 0, 2.5},
    {"gust", 0, 0.6},
    {"rotor0", 0.88, 1},
    {"rotor1", 0.94, 1},
    {"com_x", 0, 5},
    {"com_z", -3, 3},
    {"inertia", 0.85, 1.25},
    {"sag", 0, 0.12},
    {"bias_attitude", 0, 0.2},
};

static void draw_mix(hb_draws *d, double *parameter, hb_link *link)
{
    static const double rates[] = {0, 50, 100, 200, 250};

    for (size_t i = 0; i < sizeof mix / sizeof *mix; i++)
        parameter[hb_plant_parameter_find(&hb_plant_quadrotor, mix[i].name, NULL)] =
            hb_draw_uniform(d, mix[i].low, mix[i].high);
    link->loss = hb_draw_uniform(d, 0, 0.06);
    link->request_loss = hb_draw_uniform(d, 0, 0.06);
    link->jitter = hb_draw_uniform(d, 0, 0.006);
    link->telemetry_rate = rates[(int)hb_draw_uniform(d, 0, 5)];
}

/* What has a direction is turned about the vertical, and the rotors change places. */
static void turn(hb_draws *d, double *parameter)
{
    static const char *const pair[][2] = {{"com_x", "com_y"}, {"wind_x", "wind_y"}};
    const hb_plant_type *type = &hb_plant_quadrotor;

    for (int i = 0; i < 2; i++) {
        double *x = &parameter[hb_plant_parameter_find(type, pair[i][0], NULL)];
        double *y = &parameter[hb_plant_parameter_find(type, pair[i][1], NULL)];
        double angle = hb_draw_uniform(d, -M_PI, M_PI), length = hypot(*x, *y);
        *x = length * cos(angle);
        *y = length * sin(angle);
    }
    double *rotor = &parameter[hb_plant_parameter_find(type, "rotor0", NULL)], old[4];
    int by = (int)hb_draw_uniform(d, 0, 4);
    memcpy(old, rotor, sizeof old);
    for (int i = 0; i < 4; i++)
        rotor[i] = old[(i + by) % 4];
}

int hb_robust_draw(const hb_robust_row *row, uint64_t seed, int index, double *parameter, hb_link *link, hb_error *err)
{
    const hb_plant_type *type = &hb_plant_quadrotor;
    hb_draws vehicle = hb_flight_draws(seed, HB_FLIGHT_PARAMETERS, index, 0);
    hb_draws weather = hb_flight_draws(seed, HB_FLIGHT_WEATHER, index, 1);
    double high[HB_PLANT_PARAMETERS];

    for (int i = 0; i < type->nparameters; i++)
        parameter[i] = type->parameter[i].nominal;
    *link = (hb_link){0};
    if (row->mixed)
        draw_mix(&weather, parameter, link);
    int status = hb_weather_read(type, row->weather, parameter, high, link, err);
    if (status)
        return status;
    turn(&weather, parameter);
    int mass = hb_plant_parameter_find(type, "mass", NULL);
    parameter[mass] = hb_draw_uniform(&vehicle, type->parameter[mass].low, type->parameter[mass].high);
    return 0;
}
