/* The configuration: one table of keys feeds the YAML reader, --check, --print-config, config/hilbertd.yaml, the man
 * page and what a reload may change.
 *
 *     hb_config_load       file -> hb_config            every error as file:line:column: key: what is wrong
 *     hb_config_resolve    names of states and controls -> indices, by the model; then all that lib checks
 *     hb_config_merge      what a reload takes over, and what needs a restart
 *     hb_config_print      hb_config -> YAML that reads back as the same
 *
 * How to add a key. Bounds, default and help stand in one place, and nothing else checks a number.
 *
 * - A key of lib: a member of the module's settings and a row in its <module>_settings.c (base/setting_rows.h). A new
 *   key of estimator, actuators, planner, limits, latency or telemetry is then read, checked, printed and documented.
 * - A key of the daemon: a member of hb_config, a row in config_table.c, and its default in hb_config_default. If a
 *   reload may change it (HB_LIVE), hb_order in server/server.h carries it to the server.
 * - A new section of lib: the module exports hb_<module>_rows. Its rows become a group in hb_config_row
 *   (config_table.c), with the place of its struct in hb_config (mostly in hb_controller_settings, so that the
 *   controller sees it), and hb_controller_check asks its hb_<module>_check.
 * - A new type, for a value that is not a number, a choice or text: an HB_TYPE_ here, a case in read_value (config.c)
 *   and one in print_value (config_print.c).
 *
 * Then: sh packaging/refresh.sh BUILD_FOLDER writes config/hilbertd.yaml and the manual. What a key means together
 * with others or with the model is checked where _new asks too (hb_controller_check), with a text that begins with the
 * key: hb_config_resolve puts the place in the file before it. What depends on the machine (endpoints, folders, key
 * files, memory) is in process/machine.c.
 */
#ifndef HB_CONFIG_H
#define HB_CONFIG_H

#include <stdio.h>

#include "controller/controller.h"

enum {
    HB_MAX_ENDPOINTS = 8,
    HB_MAX_KEYS = 64, /* of clients */
    HB_MAX_CPUS = 16,
    HB_CONFIG_PATH_SIZE = 512,
    HB_ENDPOINT_SIZE = 160,
    HB_CONFIG_ERRORS = 20,
    HB_CONFIG_ROWS = 160, /* room for the table */
};

/* Where a value stands in the file; line 0: it is the default. */
typedef struct hb_mark {
    int line, column;
} hb_mark;

typedef struct hb_endpoints {
    int n;
    char at[HB_MAX_ENDPOINTS][HB_ENDPOINT_SIZE];
} hb_endpoints;

typedef struct hb_paths {
    int n;
    char at[HB_MAX_KEYS][HB_CONFIG_PATH_SIZE];
} hb_paths;

typedef struct hb_cpus {
    int n;
    int at[HB_MAX_CPUS];
} hb_cpus;

/* A vector of states or controls, given in full ([0, 0, 1]) or by names ({z: 1}). */
typedef struct hb_values {
    int n;
    double value[HB_MAX_VEHICLE_STATES];
    char name[HB_MAX_VEHICLE_STATES][HB_NAME_SIZE]; /* empty: given by position */
} hb_values;

typedef struct hb_config_term {
    hb_cost_term cost;                        /* indices are filled in by hb_config_resolve */
    int n;                                    /* of names */
    char name[HB_COST_INDICES][HB_NAME_SIZE]; /* of states or controls, or their numbers from 0 */
    hb_mark mark;
} hb_config_term;

typedef struct hb_config_terms {
    int n;
    hb_config_term at[HB_COST_TERMS];
} hb_config_terms;

typedef struct hb_config_limit {
    hb_limit limit;                            /* indices are filled in by hb_config_resolve */
    int n;                                     /* of names */
    char name[HB_LIMIT_INDICES][HB_NAME_SIZE]; /* of states or controls, or their numbers from 0 */
    int nlow, nhigh, nvector;                  /* numbers given as min, max, and normal or centre */
    hb_mark mark;
} hb_config_limit;

typedef struct hb_config_limits {
    int n;
    hb_config_limit at[HB_LIMITS];
} hb_config_limits;

/* What is allowed and probably not meant. */
typedef struct hb_config_warnings {
    int n;
    char text[8][512]; /* file:line:column: key: ... */
} hb_config_warnings;

typedef enum { HB_SCHEDULING_OTHER, HB_SCHEDULING_FIFO } hb_scheduling;
/* By which clock ages, budgets and the end of a plan go. */
typedef enum { HB_FLIGHT_BY_MACHINE, HB_FLIGHT_BY_VEHICLE } hb_flight_clock;

typedef struct hb_config {
    char file[HB_CONFIG_PATH_SIZE];
    hb_mark mark[HB_CONFIG_ROWS]; /* of each row of the table */
    hb_config_warnings warnings;

    char name[HB_NAME_SIZE];
    char model[HB_CONFIG_PATH_SIZE];
    int log_level;
    struct {
        hb_endpoints telemetry, telemetry_connect, actions, control, status;
        int max_message;
        int mode; /* permissions of ipc sockets */
    } sockets;
    double status_period;
    int method;  /* of the estimator: 0 the model's, else hb_method + 1 */
    int threads; /* of the planner */
    hb_flight_clock clock;
    hb_config_terms terms;
    hb_config_limits limits;
    hb_values target, safe_action;
    hb_values lags, delays, rates; /* of single actuators */
    struct {
        char server_key[HB_CONFIG_PATH_SIZE];
        hb_paths client_keys;
        char authorized_keys[HB_CONFIG_PATH_SIZE];
        bool insecure;
        char pilot[HB_NAME_SIZE];
        char pilot_key[HB_CONFIG_PATH_SIZE];
    } security;
    struct {
        hb_scheduling scheduling;
        int server_priority, planner_priority;
        hb_cpus server_cpus, planner_cpus;
        bool lock_memory, keep_awake, required;
    } realtime;
    char state_file[HB_CONFIG_PATH_SIZE];
    struct {
        char model[HB_CONFIG_PATH_SIZE];
    } shadow;
    struct {
        bool enabled;
        char directory[HB_CONFIG_PATH_SIZE];
        double file_size, file_age, quota; /* MB, seconds, MB */
    } recorder;
    int direction_width;               /* controls in a row of planner.directions */
    hb_controller_settings controller; /* complete after hb_config_resolve */
} hb_config;

typedef struct hb_config_errors {
    int n; /* may exceed HB_CONFIG_ERRORS: then the rest was left out */
    char text[HB_CONFIG_ERRORS][512];
} hb_config_errors;

/* ---- the table ---- */

/* The types beyond those of lib (base/setting_rows.h). */
typedef enum {
    HB_TYPE_TEXT = HB_SETTING_OTHER, /* char[HB_NAME_SIZE] */
    HB_TYPE_PATH,                    /* char[HB_CONFIG_PATH_SIZE], relative to the file's folder */
    HB_TYPE_OCTAL,                   /* int */
    HB_TYPE_ENDPOINTS,               /* hb_endpoints */
    HB_TYPE_PATHS,                   /* hb_paths */
    HB_TYPE_CPUS,                    /* hb_cpus */
    HB_TYPE_STATES,                  /* hb_values */
    HB_TYPE_CONTROLS,                /* hb_values */
    HB_TYPE_TERMS,                   /* hb_config_terms */
    HB_TYPE_LIMITS,                  /* hb_config_limits */
    HB_TYPE_MATRIX,                  /* planner.directions */
} hb_type;

/* Row i, with the offset of its value in hb_config; past the last one its key is NULL. */
hb_setting hb_config_row(int i);
int hb_config_find(const char *key); /* index of a row, or -1 */

void hb_config_default(hb_config *ret);
/* Whether the default cost and target were made for such a vehicle, by the names of its states and controls. */
bool hb_config_default_fits(const hb_model *m);

/* ---- the life of a configuration ---- */

/* Returns 0 or the number of errors; *ret is untouched then. */
int hb_config_load(hb_config *ret, const char *path, hb_config_errors *errors);
/* The text of a file, allocated; NULL with the reason. */
char *hb_config_read_text(const char *path, hb_error *err);
/* From text, as if it stood in a file called `name`. */
int hb_config_parse(hb_config *ret, const char *name, const char *text, size_t size, hb_config_errors *errors);
/* Fills in what names and numbers of states and controls mean for this model. Returns the number of errors. */
int hb_config_resolve(hb_config *c, const hb_model *m, hb_config_errors *errors);
/* Warns where the horizon is too short for what the cost aims at. After hb_config_resolve. */
void hb_config_check_horizon(hb_config *c, const hb_model *m);
/* Takes the live keys of `next` over into `now` (both resolved); `restart`, room for HB_CONFIG_ROWS, receives the keys
 * that differ but hold only after a restart. Returns their number. */
int hb_config_merge(hb_config *now, const hb_config *next, const char **restart);

void hb_config_print(const hb_config *c, bool comments, FILE *out);
void hb_config_print_manual(FILE *out); /* the key section of hilbertd.yaml(5), scdoc */

/* Adds `file:line:column: key: ...` to the list. */
void hb_config_error(hb_config_errors *errors, const hb_config *c, hb_mark mark, const char *key, const char *format,
                     ...) __attribute__((format(printf, 5, 6)));
/* The same for the configuration's warnings; one that exists is not added again. */
void hb_config_warn(hb_config *c, hb_mark mark, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds a failure of lib whose text begins with a key, with the place of that key. */
void hb_config_error_of(hb_config_errors *errors, const hb_config *c, const hb_error *err);
/* How many bytes a control character at the start of a text takes; 0: there is none. Those of ASCII, and U+0080 to
 * U+009F, which terminals obey as well. */
int hb_config_control_character(const char *text);
/* Of `names` the one that a person who wrote `wrong` may have meant, or NULL. */
const char *hb_config_near(const char *wrong, const char *const *names, int n);

#endif
