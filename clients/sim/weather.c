#include "sim/weather.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(hb_link, field)

static const hb_link_setting settings[] = {
    {"request_rate", "Hz", "requests; 0: one for each control period", 0, 1000, AT(request_rate)},
    {"telemetry_rate", "Hz", "samples of telemetry, whatever the requests do; 0: one with each request", 0, 1000,
     AT(telemetry_rate)},
    {"jitter", "s", "that a sample or a request is early or late, at most; its time says so", 0, 1, AT(jitter)},
    {"loss", "1", "share of samples that do not arrive", 0, 1, AT(loss)},
    {"request_loss", "1", "share of requests without an answer: the request is lost, or the answer", 0, 1,
     AT(request_loss)},
    {"report", "-",
     "the control that telemetry reports: 0 the command, 1 the one in force after the delay, 2 the thrust "
     "made",
     0, 2, AT(report)},
    {"outlier_time", "s", "the sample of telemetry at this time, or the next, is a lie", 0, 1e6, AT(outlier_time)},
    {"outlier", "-", "added to one state of that sample", -1e9, 1e9, AT(outlier)},
    {"outlier_state", "-", "number of that state from 0; a quadrotor's vz is 5", 0, HB_PLANT_STATES - 1,
     AT(outlier_state)},
    {"outlier_control", "-", "all controls of that sample are this; 0: they are right", -1e9, 1e9, AT(outlier_control)},
};

enum { NSETTINGS = sizeof settings / sizeof *settings };

#define NOISE "noise_position=0.005,noise_velocity=0.03,noise_attitude=0.5,noise_rates=0.05"

static const hb_weather mixes[] = {
    {"ideal", "none of these", ""},
    {"noise", "sensor noise of 5 mm, 3 cm/s, 0.5 degrees and 0.05 rad/s", NOISE},
    {"breeze", "drag, wind and gusts", "drag=0.01,wind_x=1.5,wind_y=-1,gust=0.7"},
    {"mild", "a vehicle in good order: some lag, delay, noise, wind, a weak rotor, an offset centre of mass, loss",
     "lag=0.03,delay=0.01,noise=1,drag=0.005,wind_x=1,wind_y=-0.5,rotor1=0.95,com_x=1.6,com_y=-1.2,inertia=1.1,"
     "loss=0.02,request_loss=0.02"},
    {"real", "a realistic vehicle: more of the same, with a sagging battery and jitter",
     "lag=0.04,delay=0.02," NOISE ",rotor1=0.9,com_x=3.2,com_y=-2.4,inertia=1.2,sag=0.1,loss=0.05,request_loss=0.05,"
     "jitter=0.005"},
};

enum { NMIXES = sizeof mixes / sizeof *mixes };

const hb_link_setting *hb_link_setting_at(int index)
{
    return index < NSETTINGS ? &settings[index] : NULL;
}

const hb_weather *hb_weather_at(int index)
{
    return index < NMIXES ? &mixes[index] : NULL;
}

/* NAME=VALUE, or NAME=LOW:HIGH */
static int read_setting(const hb_plant_type *plant, const char *name, const char *value, double *low, double *high,
                        hb_link *link, hb_error *err)
{
    char *end;
    double number = strtod(value, &end);

    for (int i = 0; i < NSETTINGS; i++)
        if (strcmp(settings[i].name, name) == 0) {
            if (end == value || *end || !(number >= settings[i].min && number <= settings[i].max))
                return hb_fail(err, EINVAL, "%s=%s: expected a number from %g to %g", name, value, settings[i].min,
                               settings[i].max);
            memcpy((char *)link + settings[i].offset, &number, sizeof number);
            return 0;
        }
    int p = hb_plant_parameter_find(plant, name, NULL);
    if (p < 0)
        return hb_fail(err, EINVAL, "'%s' is neither a parameter of plant %s nor of the link: see hilbert-sim list",
                       name, plant->name);
    const hb_plant_parameter *about = &plant->parameter[p];
    /* LOW:HIGH */
    bool range = end != value && *end == ':';
    const char *second = range ? end + 1 : value;
    double upper = strtod(second, &end);
    if (end == second || *end || !(number >= about->min && upper >= number && upper <= about->max))
        return hb_fail(err, EINVAL, "%s=%s: expected a number from %g to %g, or two of them, LOW:HIGH", name, value,
                       about->min, about->max);
    low[p] = number;
    high[p] = upper;
    return 0;
}

int hb_weather_read(const hb_plant_type *plant, const char *text, double *low, double *high, hb_link *link,
                    hb_error *err)
{
    char item[64];

    for (const char *at = text; *at;) {
        size_t n = strcspn(at, ",");
        if (n == 0 || n >= sizeof item)
            return hb_fail(err, EINVAL, "'%s': expected a name or NAME=VALUE, separated by commas", text);
        snprintf(item, sizeof item, "%.*s", (int)n, at);
        char *value = strchr(item, '=');
        int status = 0;
        if (value) {
            *value++ = '\0';
            status = read_setting(plant, item, value, low, high, link, err);
        } else {
            int i = 0;
            while (i < NMIXES && strcmp(mixes[i].name, item) != 0)
                i++;
            status = i < NMIXES ? hb_weather_read(plant, mixes[i].settings, low, high, link, err)
                                : hb_fail(err, EINVAL, "there is no weather '%s': see hilbert-sim list", item);
        }
        if (status)
            return status;
        at += n;
        at += *at == ',';
    }
    return 0;
}

/* draws of a link: what for, and of which kind of message */
static double draw(hb_random_key key, int purpose, hb_link_kind kind, int k)
{
    uint64_t index = ((uint64_t)k << 8) | ((uint64_t)purpose << 4) | (uint64_t)kind;

    /* a stream beside those of gusts and sensors */
    key.seed ^= 0x6c696e6b00000000u;
    return hb_random_uniform(key, index);
}

double hb_link_time(const hb_link *l, hb_random_key key, hb_link_kind kind, int k, double period)
{
    bool irregular = l->jitter > 0 || l->telemetry_rate > 0;
    double shift = k > 0 ? fmin(l->jitter, 0.45 * period) * (2 * draw(key, 0, kind, k) - 1) : 0;
    double time = k * period + shift;

    return irregular ? 1e-3 * round(1e3 * time) : time;
}

hb_link_fate hb_link_fate_of(const hb_link *l, hb_random_key key, hb_link_kind kind, int k)
{
    double luck = draw(key, 1, kind, k);

    if (kind == HB_LINK_TELEMETRY)
        return luck < l->loss ? HB_LINK_LOST : HB_LINK_ARRIVES;
    return luck < 0.5 * l->request_loss ? HB_LINK_LOST : luck < l->request_loss ? HB_LINK_ANSWER_LOST : HB_LINK_ARRIVES;
}
