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

#define ROW .plant = &hb_plant_quadrotor, .groups = HB_ROBUST_CONDITION

static const hb_robust_row rows[] = {
    {ROW, .name = "ideal", .help = "nothing but an unknown mass", .weather = ""},
    {ROW, .name = "lag20", .help = "motors that lag by 20 ms", .weather = "lag=0.02"},
    {ROW, .name = "lag40", .help = "40 ms", .weather = "lag=0.04"},
    {ROW, .name = "lag60", .help = "60 ms", .weather = "lag=0.06"},
    {ROW, .name = "lag40_told", .help = "40 ms, actuators.lag set", .weather = "lag=0.04", .told_lag = true},
    {ROW, .name = "delay20", .help = "actions delayed by 20 ms, latency.delay set", .weather = "delay=0.02",
     .told = true},
    {ROW, .name = "delay40", .help = "40 ms, set", .weather = "delay=0.04", .told = true},
    {ROW, .name = "delay10_in_force", .help = "10 ms, set; telemetry reports the control in force",
     .weather = "delay=0.01,report=1", .told = true},
    {ROW, .name = "delay20_untold", .help = "20 ms that nobody told the controller of", .weather = "delay=0.02"},
    {ROW, .name = "noise", .help = "sensor noise of 5 mm, 3 cm/s, 0.5 degrees, 0.05 rad/s", .weather = "noise"},
    {ROW, .name = "noise50hz", .help = "the same with telemetry at 50 Hz", .weather = NOISE "telemetry_rate=50"},
    {ROW, .name = "noise100hz", .help = "at 100 Hz", .weather = NOISE "telemetry_rate=100"},
    {ROW, .name = "noise500hz", .help = "at 500 Hz", .weather = NOISE "telemetry_rate=500"},
    {ROW, .name = "bias", .help = "constant errors of sensors: 3 cm/s, 0.5 degrees, 0.03 rad/s",
     .weather = "bias_velocity=0.03,bias_attitude=0.5,bias_rates=0.03"},
    {ROW, .name = "com10", .help = "centre of mass 10 mm off", .weather = "com_x=10"},
    {ROW, .name = "ask10", .help = "requests at 10 Hz", .weather = "request_rate=10", .slow = true},
    {ROW, .name = "ask50", .help = "requests at 50 Hz", .weather = "request_rate=50", .slow = true},
    {ROW, .name = "circle", .help = "a circle of 0.5 m in 5 s, as a reference", .weather = "", .seconds = 10,
     .path = circle},
    {ROW, .name = "mild", .help = "a vehicle in good order (hilbert-sim --weather mild)", .weather = "mild",
     .told = true},
    {ROW, .name = "real", .help = "a realistic vehicle (hilbert-sim --weather real)", .weather = "real", .told = true},
    {ROW, .name = "real_told", .help = "the same with the lag told as well", .weather = "real", .told = true,
     .told_lag = true},
    {ROW, .name = "real_circle", .help = "the circle in it", .weather = "real", .told = true, .seconds = 10,
     .path = circle},
    {ROW, .name = "outlier", .help = "one sample of telemetry with vz + 50", .weather = VZ "outlier=50"},
    {ROW, .name = "outlier1000", .help = "with vz + 1000", .weather = VZ "outlier=1000"},
    {ROW, .name = "control_outlier", .help = "one sample that reports controls of 1 N",
     .weather = "outlier_time=3,outlier_control=1"},
    {ROW, .name = "calm", .help = "16 s of hover, then a metre aside", .weather = "", .seconds = 20, .path = calm},
    {ROW, .name = "mass_step", .help = "the mass changes after 4 s", .weather = "", .mass_step = 4},
    {ROW, .name = "gust", .help = "gusts of 1 m/s", .weather = "drag=0.01,gust=1"},
    {ROW, .name = "sag", .help = "a battery that loses 20 % of thrust in 6 s", .weather = "sag=0.2,sag_time=6"},
    {ROW, .name = "drag", .help = "drag of 0.02 N s/m", .weather = "drag=0.02"},
    {ROW, .name = "wind", .help = "wind of 3 m/s", .weather = "drag=0.01,wind_x=3"},
    {ROW, .name = "rotor", .help = "a rotor at 85 %", .weather = "rotor0=0.85"},
    {ROW, .name = "broken_rotor", .help = "after 3 s a rotor has 30 % of its thrust: out-of-span is to say so",
     .weather = "", .rotor_step = 3, .rotor = 0.3},
    {ROW, .name = "sign_flip", .help = "after 3 s a rotor turns the wrong way: likewise", .weather = "",
     .rotor_step = 3, .rotor = -1},
    {ROW, .name = "inertia", .help = "inertia of 140 %", .weather = "inertia=1.4"},
    {ROW, .name = "loss", .help = "20 % of samples and 10 % of requests lost", .weather = "loss=0.2,request_loss=0.1"},
    {ROW, .name = "jitter", .help = "8 ms of jitter", .weather = "jitter=0.008"},
    {ROW, .name = "random", .help = "every flight another mix of it all", .weather = "", .told = true, .mixed = true},
};

enum { NROWS = sizeof rows / sizeof *rows };

const hb_robust_row *hb_robust_row_at(int index)
{
    return index < NROWS ? &rows[index] : hb_robust_task_at(index - NROWS);
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

static double *find(const hb_plant_type *type, double *parameter, const char *name)
{
    int i = hb_plant_parameter_find(type, name, NULL);

    return i < 0 ? NULL : &parameter[i];
}

/* What has a direction is turned about the vertical, and the rotors change places. */
static void turn(const hb_plant_type *type, hb_draws *d, double *parameter)
{
    static const char *const pair[][2] = {{"com_x", "com_y"},        {"wind_x", "wind_y"},
                                          {"pulse_x", "pulse_y"},    {"force_x", "force_y"},
                                          {"torque_x", "torque_y"},  {"offset_roll", "offset_pitch"},
                                          {"payload_x", "payload_y"}};
    double *rotor = find(type, parameter, "rotor0"), old[4];

    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        double *x = find(type, parameter, pair[i][0]), *y = find(type, parameter, pair[i][1]);
        if (x) {
            double angle = hb_draw_uniform(d, -M_PI, M_PI), length = hypot(*x, *y);
            *x = length * cos(angle);
            *y = length * sin(angle);
        }
        if (i == 1 && rotor) {
            int by = (int)hb_draw_uniform(d, 0, 4);
            memcpy(old, rotor, sizeof old);
            for (int k = 0; k < 4; k++)
                rotor[k] = old[(k + by) % 4];
        }
    }
}

/* --- what changes in flight --- */

/* a payload, as plants name it: from nothing to half the nominal mass */
static double *payload(const hb_plant_type *type, double *parameter, double *half)
{
    double *p = find(type, parameter, "payload");

    *half = p ? 0.5 * type->parameter[hb_plant_parameter_find(type, "mass", NULL)].nominal : 0.5;
    return p ? p : find(type, parameter, "load");
}

static void toggle(const hb_robust_row *row, hb_draws *d, double *parameter, hb_flight_event *event, int *n)
{
    double half, *p = payload(row->plant, parameter, &half), amount = half * hb_draw_uniform(d, 0, 1), time[4];
    int times = 1 + (int)hb_draw_uniform(d, 0, 4);

    for (int i = 0; i < times; i++) {
        time[i] = hb_draw_uniform(d, 1, 6);
        for (int k = i; k > 0 && time[k] < time[k - 1]; k--) {
            double later = time[k - 1];
            time[k - 1] = time[k];
            time[k] = later;
        }
    }
    for (int i = 0; i < times; i++)
        event[(*n)++] = (hb_flight_event){
            .time = time[i], .parameter = (int)(p - parameter), .value = *p + (i % 2 == 0 ? amount : 0)};
}

/* A step every second, up to what the plant can be given. */
static void grow(const hb_robust_row *row, double *parameter, hb_flight_event *event, int *n)
{
    const hb_plant_type *type = row->plant;
    double half, *p = NULL, by = 0;

    switch (row->ramp) {
    case HB_RAMP_NONE:
        return;
    case HB_RAMP_PAYLOAD:
        p = payload(type, parameter, &half);
        by = 0.12 * half;
        break;
    case HB_RAMP_WIND:
        p = find(type, parameter, "wind_x");
        by = 1.3;
        break;
    case HB_RAMP_FORCE:
        p = find(type, parameter, "force_x");
        by = 0.065;
        break;
    case HB_RAMP_DELAY:
        p = find(type, parameter, "delay");
        by = 0.01;
        break;
    }
    for (int i = 1; i <= 15; i++)
        event[(*n)++] = (hb_flight_event){.time = i, .parameter = (int)(p - parameter), .value = *p + i * by};
}

static void changes(const hb_robust_row *row, int index, hb_draws *d, double *parameter, hb_flight_event *event, int *n)
{
    const hb_plant_type *type = row->plant;
    int mass = hb_plant_parameter_find(type, "mass", NULL);

    *n = 0;
    if (row->mass_step > 0)
        /* as far on the other side of the middle */
        event[(*n)++] = (hb_flight_event){
            .time = row->mass_step,
            .parameter = mass,
            .value = type->parameter[mass].low + type->parameter[mass].high - parameter[mass],
        };
    if (row->rotor_step > 0)
        event[(*n)++] = (hb_flight_event){
            .time = row->rotor_step,
            .parameter = hb_plant_parameter_find(type, "rotor0", NULL) + index % 4,
            .value = row->rotor,
        };
    if (row->toggles)
        toggle(row, d, parameter, event, n);
    grow(row, parameter, event, n);
}

int hb_robust_draw(const hb_robust_row *row, uint64_t seed, int index, double *parameter, hb_link *link,
                   hb_flight_event *event, int *nevents, hb_error *err)
{
    const hb_plant_type *type = row->plant;
    hb_draws vehicle = hb_flight_draws(seed, HB_FLIGHT_PARAMETERS, index, 0);
    hb_draws weather = hb_flight_draws(seed, HB_FLIGHT_WEATHER, index, 1);
    double low[HB_PLANT_PARAMETERS], high[HB_PLANT_PARAMETERS];

    for (int i = 0; i < type->nparameters; i++)
        low[i] = high[i] = parameter[i] = type->parameter[i].nominal;
    *link = (hb_link){0};
    if (row->mixed)
        draw_mix(&weather, parameter, link);
    memcpy(low, parameter, sizeof low);
    memcpy(high, parameter, sizeof high);
    int status = hb_weather_read(type, row->weather, low, high, link, err);
    if (status)
        return status;
    for (int i = 0; i < type->nparameters; i++)
        parameter[i] = low[i] < high[i] ? hb_draw_uniform(&weather, low[i], high[i]) : low[i];
    turn(type, &weather, parameter);
    if (row->groups & HB_ROBUST_CONDITION) {
        /* of an unknown mass */
        int mass = hb_plant_parameter_find(type, "mass", NULL);
        parameter[mass] = hb_draw_uniform(&vehicle, type->parameter[mass].low, type->parameter[mass].high);
    }
    changes(row, index, &vehicle, parameter, event, nevents);
    return 0;
}
