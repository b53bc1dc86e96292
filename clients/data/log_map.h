/* The description of a log, kept beside it as YAML: what its columns mean, and what its vehicles are like.
 *
 *     plant: quadrotor
 *     time: t                                    seconds; an expression of columns (log_expression.h), like all below
 *     dt: 0.04                                   period to resample to; left out: the log's own
 *     gap: 0.1                                   seconds without a row that cut an episode
 *     where: pz > 0.25                           rows to take: in the air
 *     functions: file                            file, folder or one: which files are one vehicle in one condition
 *     rates: world                               wx wy wz are given in the world's frame: they are turned into the
 * body's states: {"x[m]": px, "vx[m/s]": vx, ...}    in the data set's order; derivative(NAME) of a state above
 *     controls: {"f0[N]": k * m4^2, ...}
 *     constants: {k: 1.2e-10}
 *     limits: {wx: [-40, 40]}                    beyond them a row is not believed
 *     bounds: {f0: [0, 0.15]}, trim: {f0: 0.08}  of controls
 *     vehicles: {cf50: {mass: 0.034}}            parameters of the files whose path has this text in it; "": of all
 */
#ifndef HB_LOG_MAP_H
#define HB_LOG_MAP_H

#include <stdbool.h>

#include "base/base.h"
#include "model/model.h"

enum { HB_LOG_TEXT = 256, HB_LOG_SIGNALS = 64, HB_LOG_PARAMETERS = 16, HB_LOG_VEHICLES = 64 };

typedef struct hb_log_signal {
    char name[HB_NAME_SIZE], unit[HB_NAME_SIZE], text[HB_LOG_TEXT];
    double low, high;      /* a row beyond is not believed; infinite: any */
    double min, max, trim; /* of a control; NaN: not given */
    int line;              /* of the description */
} hb_log_signal;

typedef struct hb_log_value {
    char name[HB_NAME_SIZE];
    double value;
} hb_log_value;

typedef struct hb_log_vehicle {
    char text[HB_LOG_TEXT]; /* in the path of its files */
    int n;
    hb_log_value parameter[HB_LOG_PARAMETERS];
} hb_log_vehicle;

typedef enum { HB_LOG_FILE, HB_LOG_FOLDER, HB_LOG_ONE } hb_log_functions;

typedef struct hb_log_map {
    char path[HB_LOG_TEXT];
    char plant[HB_NAME_SIZE], time[HB_LOG_TEXT], where[HB_LOG_TEXT];
    int time_line, where_line;
    double dt, gap, min_length; /* seconds; 0: by the log */
    hb_log_functions functions;
    bool world_rates, causal;
    int nstates, ncontrols; /* signals: states, then controls */
    hb_log_signal signal[HB_LOG_SIGNALS];
    int nconstants;
    hb_log_value constant[HB_LOG_PARAMETERS];
    int nvehicles;
    hb_log_vehicle vehicle[HB_LOG_VEHICLES];
} hb_log_map;

/* Errors name the file and the line. */
int hb_log_map_read(hb_log_map *ret, const char *path, hb_error *err);

#endif
