/* Flights as autopilots log them: what a model of thrust and body rates needs of a PX4 ULog or an ArduPilot .bin file,
 * and data sets made of it.
 *
 *     what          ULog topic                  .bin message       columns
 *     position      vehicle_local_position      XKF1               x y z vx vy vz (NED), resets
 *     attitude      vehicle_attitude            XKQ                w x y z (FRD to NED), resets
 *     rates         vehicle_angular_velocity    RATE               roll, pitch, yaw (FRD, rad/s)
 *     setpoint      vehicle_rates_setpoint      RATE               thrust 0..1, roll, pitch, yaw (FRD, rad/s)
 *     landed        vehicle_land_detected       EV                 1 or 0 */
#ifndef HB_FLIGHT_LOG_H
#define HB_FLIGHT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

#define HB_SERIES(X)                                                                                                   \
    X(POSITION, "position", "vehicle_local_position", "XKF1", 7)                                                       \
    X(ATTITUDE, "attitude", "vehicle_attitude", "XKQ", 5)                                                              \
    X(RATES, "rates", "vehicle_angular_velocity", "RATE", 3)                                                           \
    X(SETPOINT, "setpoint", "vehicle_rates_setpoint", "RATE", 4)                                                       \
    X(LANDED, "landed", "vehicle_land_detected", "EV", 1)

typedef enum {
#define X(id, name, topic, message, columns) HB_SERIES_##id,
    HB_SERIES(X)
#undef X
        HB_NSERIES
} hb_series_id;

extern const char *const hb_series_name[], *const hb_series_topic[], *const hb_series_message[];
extern const int hb_series_columns[];

/* Samples in order of time. */
typedef struct hb_series {
    size_t n, room;
    double *time;  /* n, seconds */
    double *value; /* n x columns */
} hb_series;

enum { HB_LOG_NAME = 20 };

typedef struct hb_log_parameter {
    char name[HB_LOG_NAME];
    double value;
} hb_log_parameter;

/* A parameter that got another value while the log was written. */
typedef struct hb_log_change {
    char name[HB_LOG_NAME];
    double time, before; /* seconds: that of the newest sample then */
} hb_log_change;

typedef struct hb_flight_log {
    bool ardupilot;
    hb_series series[HB_NSERIES];
    size_t nparameters, parameter_room;
    hb_log_parameter *parameter; /* the last value of each counts */
    size_t nchanges, change_room;
    hb_log_change *change; /* in order of time */
    double now;            /* time of the newest sample, while it is read; 0: none yet */
    double dropped;        /* seconds that the logger says it lost */
    size_t cut_off;        /* offset at which the file ends within a message; 0: it does not */
} hb_flight_log;

/* Reads n bytes of a file; errors begin with "path: offset N: ". The log is to be freed also after a failure. */
int hb_ulog_read(hb_flight_log *log, const char *path, const uint8_t *data, size_t n, hb_error *err);
int hb_ardupilot_read(hb_flight_log *log, const char *path, const uint8_t *data, size_t n, hb_error *err);
/* Either, by what the file begins with. */
int hb_flight_log_read(hb_flight_log *log, const char *path, hb_error *err);
void hb_flight_log_free(hb_flight_log *log);

/* For the readers. An unsigned number of `size` bytes (at most 8), the lowest first. */
uint64_t hb_log_unsigned(const uint8_t *at, size_t size);
/* A sample that is not later than the one before it, or holds what is no number, is left out. */
int hb_series_add(hb_series *s, int columns, double time, const double *value, hb_error *err);
int hb_flight_log_set(hb_flight_log *log, const char *name, size_t length, double value, hb_error *err);
const double *hb_flight_log_parameter(const hb_flight_log *log, const char *name);
/* What it was at a time; NaN: the log has no such parameter. */
double hb_flight_log_parameter_at(const hb_flight_log *log, const char *name, double time);
/* Samples per second: one by the median step. 0: fewer than two. */
double hb_series_rate(const hb_series *s);

/* Logs into a data set: states and controls of clients/mavlink (world NWU, body FLU), on a grid of `dt`. */
typedef struct hb_flight_import {
    int nfiles;
    const char *const *file;
    double dt;             /* seconds; 0: 0.04 */
    double gap;            /* seconds without a sample of some series that cut an episode; 0: 0.25 */
    double min_rate;       /* Hz of every series but landed, below which a log is refused; 0: 20; below 0: none is */
    double min_length;     /* seconds of the shortest episode that is kept; 0: 1 */
    bool one_function;     /* all logs are of the same vehicle in the same condition */
    const char *attribute; /* parameters kept with each flight, comma-separated; NULL: those that matter to dynamics */
} hb_flight_import;

typedef struct hb_flight_result {
    int episodes;
    double seconds, landed; /* written, and left out since the vehicle stood */
    int gaps, resets;       /* that cut episodes */
    int changes;            /* of parameters kept with the flight: each begins another function */
    double dropped;         /* seconds that the logger says it lost */
    size_t cut_off;         /* as in hb_flight_log */
} hb_flight_result;

/* `result` has room for nfiles. */
int hb_flight_import_files(const hb_flight_import *import, const char *output, hb_flight_result *result, hb_error *err);

#endif
