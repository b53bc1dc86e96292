/* What a vehicle meets: named mixes of hidden parameters of the plant and of what stands between it and a controller.
 *
 * The plant's table (plant.h) has what acts on the vehicle and its sensors; the table here has the link: when samples
 * and requests are sent, and which of them arrive. Everything is drawn by key: the same seed is the same weather. */
#ifndef HB_WEATHER_H
#define HB_WEATHER_H

#include "sim/plant.h"

typedef struct hb_link {
    double request_rate;   /* Hz; 0: one for each control period */
    double telemetry_rate; /* Hz; 0: a sample with each request */
    double jitter;         /* seconds that a sample or a request is early or late, at most */
    double loss;           /* share of samples that do not arrive */
    double request_loss;   /* share of requests that stay without an answer: half of them, or their answers, are lost */
    double report;         /* hb_plant_report of telemetry */
    double outlier_time;   /* seconds: one sample at this time, or the next, is a lie */
    double outlier;        /* added to one of its states */
    double outlier_state;  /* index of that state */
    double outlier_control; /* all its controls are this instead; 0: they are right */
} hb_link;

typedef struct hb_link_setting {
    const char *name, *unit, *help;
    double min, max;
    size_t offset; /* in hb_link */
} hb_link_setting;

/* index from 0, NULL at the end. Defaults are 0. */
const hb_link_setting *hb_link_setting_at(int index);

typedef struct hb_weather {
    const char *name, *help;
    const char *settings; /* NAME=VALUE,... of plant and link */
} hb_weather;

const hb_weather *hb_weather_at(int index);

/* Takes over TEXT: names of mixes, NAME=VALUE of a plant's parameter or of the link, NAME=LOW:HIGH of a parameter,
 * separated by commas; later ones win. Parameters go to low and high (both of the plant's number), and the link to
 * *link. */
int hb_weather_read(const hb_plant_type *plant, const char *text, double *low, double *high, hb_link *link,
                    hb_error *err);

/* Number k of requests or samples (their period in seconds) of a flight: when it is sent, and what happens to it. On a
 * grid of milliseconds, the plant's physics steps, wherever the link is irregular. */
typedef enum { HB_LINK_REQUEST, HB_LINK_TELEMETRY } hb_link_kind;
typedef enum { HB_LINK_ARRIVES, HB_LINK_LOST, HB_LINK_ANSWER_LOST } hb_link_fate;

double hb_link_time(const hb_link *l, hb_random_key key, hb_link_kind kind, int k, double period);
hb_link_fate hb_link_fate_of(const hb_link *l, hb_random_key key, hb_link_kind kind, int k);

#endif
