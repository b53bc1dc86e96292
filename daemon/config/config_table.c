/* The table of keys: the rows of lib, and the daemon's own. config.h says how to add one. */
#include "config/config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/log_level.h"

const char *const hb_log_level_name[] = {
#define X(id, name, journal) name,
    HB_LOG_LEVELS(X)
#undef X
};
static const char *const scheduling_name[] = {"other", "fifo"};
static const char *const clock_name[] = {"machine", "vehicle"};
/* after the first, in the order of hb_method */
static const char *const method_name[] = {"model", "least_squares", "inner_product"};

#define COUNT(list) (int)(sizeof(list) / sizeof *(list))
/* a row of the daemon's own; what it does not give is zero */
#define ROW(key_, type_, member, live_, help_, ...)                                                                    \
    {                                                                                                                  \
        .key = key_, .type = type_, .offset = offsetof(hb_config, member), .size = sizeof(((hb_config *)0)->member),   \
        .live = live_, .help = help_, __VA_ARGS__                                                                      \
    }
#define BETWEEN(least, most) .min = least, .max = most
#define ONE_OF(names, n)     .choices = names, .nchoices = n
#define ENDPOINTS(least)     .min = least, .max = HB_MAX_ENDPOINTS

static const hb_setting general[] = {
    ROW("name", HB_TYPE_TEXT, name, HB_FIXED, "Name of this instance, in its status and its logs.",
        .max = HB_NAME_SIZE),
    ROW("model", HB_TYPE_PATH, model, HB_FIXED,
        "Basis file (safetensors): in this file's folder, its folder models, or among the installed models.", .max = 0),
    ROW("log_level", HB_SETTING_CHOICE, log_level, HB_LIVE, "Least important level that is logged.",
        ONE_OF(hb_log_level_name, HB_LOG_NLEVELS)),

    ROW("sockets.telemetry", HB_TYPE_ENDPOINTS, sockets.telemetry, HB_FIXED, "Endpoints to bind for telemetry (SUB).",
        ENDPOINTS(0)),
    ROW("sockets.telemetry_connect", HB_TYPE_ENDPOINTS, sockets.telemetry_connect, HB_FIXED,
        "Endpoints of publishers to connect to for telemetry.", ENDPOINTS(0)),
    ROW("sockets.actions", HB_TYPE_ENDPOINTS, sockets.actions, HB_FIXED,
        "Endpoints to bind for action requests (ROUTER).", ENDPOINTS(1)),
    ROW("sockets.control", HB_TYPE_ENDPOINTS, sockets.control, HB_FIXED, "Endpoints to bind for hilbertctl (ROUTER).",
        ENDPOINTS(0)),
    ROW("sockets.status", HB_TYPE_ENDPOINTS, sockets.status, HB_FIXED,
        "Endpoints to bind for the published status (PUB).", ENDPOINTS(0)),
    ROW("sockets.max_message", HB_SETTING_INT, sockets.max_message, HB_FIXED,
        "Largest message, in bytes. A larger one is refused; one of more than four times this size closes the sender's "
        "connection.",
        BETWEEN(1024, 1 << 24)),
    ROW("sockets.mode", HB_TYPE_OCTAL, sockets.mode, HB_FIXED, "Permissions of ipc sockets, octal.", BETWEEN(0, 0777)),

    ROW("status.period", HB_SETTING_REAL, status_period, HB_LIVE,
        "Seconds between published status messages; 0: none are published.", BETWEEN(0, 3600)),
};

static const hb_setting estimator[] = {
    ROW("estimator.method", HB_SETTING_CHOICE, method, HB_FIXED,
        "How coefficients follow from the window: as the model was trained, or another way that it allows.",
        ONE_OF(method_name, COUNT(method_name))),
};

static const hb_setting actuators[] = {
    ROW("actuators.lags", HB_TYPE_CONTROLS, lags, HB_FIXED,
        "Time constants of single actuators, in seconds: by names ({f0: 0.03}; others as actuators.lag says) or in "
        "full. "
        "Then no lag is looked for in flight.",
        BETWEEN(0, HB_MAX_CONTROLS)),
    ROW("actuators.delays", HB_TYPE_CONTROLS, delays, HB_FIXED, "Delays of single actuators, likewise.",
        BETWEEN(0, HB_MAX_CONTROLS)),
    ROW("actuators.rates", HB_TYPE_CONTROLS, rates, HB_LIVE,
        "How fast single actuators may change, in their units per second: by names ({f0: 2}; others as the model says) "
        "or "
        "in full; 0: no limit. Plans keep to them as to limits.rules.",
        BETWEEN(0, HB_MAX_CONTROLS)),
};

static const hb_setting planner[] = {
    ROW("planner.directions", HB_TYPE_MATRIX, controller.planner.direction, HB_FIXED,
        "Plan in these directions from trim, each a list with a number for every control; empty: every control by "
        "itself.",
        BETWEEN(0, HB_MAX_CONTROLS)),
    ROW("planner.threads", HB_SETTING_INT, threads, HB_FIXED,
        "Number of threads that plan; the result is the same for any number.", BETWEEN(1, 64)),
};

static const hb_setting task[] = {
    ROW("cost", HB_TYPE_TERMS, terms, HB_LIVE,
        "What a plan costs: a list of terms, each {kind, weight, states or controls, terminal}. States and controls "
        "are named as in the model, or numbered from 0; terminal weighs the last state relative to the others. "
        "bound has min and max as well, huber a radius.",
        BETWEEN(0, HB_COST_TERMS)),
    ROW("target", HB_TYPE_STATES, target, HB_LIVE,
        "State to bring the vehicle to when a request names none: by names ({z: 1}; others are 0) or in full.",
        BETWEEN(0, HB_MAX_VEHICLE_STATES)),
    ROW("safe_action", HB_TYPE_CONTROLS, safe_action, HB_LIVE,
        "Control when nothing better is known: by names (others at trim) or in full; empty: the model's trim.",
        BETWEEN(0, HB_MAX_CONTROLS)),
};

static const hb_setting limits[] = {
    ROW("limits.rules", HB_TYPE_LIMITS, limits, HB_LIVE,
        "Limits that plans keep; the reply names one that cannot be kept. A list of {kind, states or controls, and, as "
        "the kind requires, min, max, normal, centre, radius; name, for replies}.",
        BETWEEN(0, HB_LIMITS)),
};

static const hb_setting latency[] = {
    ROW("latency.clock", HB_SETTING_CHOICE, clock, HB_FIXED,
        "vehicle: for simulators in lock-step. Time is that of the requests and stands still while one is answered: "
        "plans end by planner.iterations, never by the budget, nothing grows old while the simulator waits or "
        "computes, "
        "and the same flight gives the same bytes on any machine. Never for a vehicle that moves by itself.",
        ONE_OF(clock_name, COUNT(clock_name))),
};

static const hb_setting shadow[] = {
    ROW("shadow.model", HB_TYPE_PATH, shadow.model, HB_FIXED,
        "A second basis file, found like model, of the same states, controls and period: it estimates and predicts "
        "beside the one in use and never acts; hilbertctl promote exchanges the two in flight. Empty: none.",
        .max = 0),
};

static const hb_setting recorder[] = {
    ROW("recorder.enabled", HB_SETTING_BOOL, recorder.enabled, HB_FIXED,
        "Record all inputs and decisions from the start (hilbertctl record on begins later).", BETWEEN(0, 1)),
    ROW("recorder.directory", HB_TYPE_PATH, recorder.directory, HB_FIXED,
        "Folder for recordings: MCAP files, named after this instance and the time.", .max = 0),
    ROW("recorder.file_size", HB_SETTING_REAL, recorder.file_size, HB_FIXED,
        "Start another file after so many megabytes.", BETWEEN(1, 100000)),
    ROW("recorder.file_age", HB_SETTING_REAL, recorder.file_age, HB_FIXED, "Start another file after so many seconds.",
        BETWEEN(1, 1e7)),
    ROW("recorder.quota", HB_SETTING_REAL, recorder.quota, HB_FIXED,
        "Largest size of all recordings of this instance, in megabytes; the oldest ones are removed to make room.",
        BETWEEN(1, 1e8)),
};

static const hb_setting process[] = {
    ROW("realtime.scheduling", HB_SETTING_CHOICE, realtime.scheduling, HB_FIXED,
        "fifo: real-time scheduling (needs CAP_SYS_NICE or LimitRTPRIO).",
        ONE_OF(scheduling_name, COUNT(scheduling_name))),
    ROW("realtime.server_priority", HB_SETTING_INT, realtime.server_priority, HB_FIXED,
        "Priority of the server thread, with fifo.", BETWEEN(1, 99)),
    ROW("realtime.planner_priority", HB_SETTING_INT, realtime.planner_priority, HB_FIXED,
        "Priority of the planner's threads, with fifo, while somebody waits for them.", BETWEEN(1, 99)),
    ROW("realtime.server_cpus", HB_TYPE_CPUS, realtime.server_cpus, HB_FIXED,
        "Processors of the server thread; empty: any.", BETWEEN(0, 1023)),
    ROW("realtime.planner_cpus", HB_TYPE_CPUS, realtime.planner_cpus, HB_FIXED,
        "Processors of the planner's threads; empty: any.", BETWEEN(0, 1023)),
    ROW("realtime.lock_memory", HB_SETTING_BOOL, realtime.lock_memory, HB_FIXED,
        "Keep all memory from being swapped out (needs CAP_IPC_LOCK or LimitMEMLOCK).", BETWEEN(0, 1)),
    ROW("realtime.keep_awake", HB_SETTING_BOOL, realtime.keep_awake, HB_FIXED,
        "Keep idle processors from sleeping, so that no reply waits until one has woken; takes power "
        "(needs write access to /dev/cpu_dma_latency).",
        BETWEEN(0, 1)),
    ROW("realtime.required", HB_SETTING_BOOL, realtime.required, HB_FIXED,
        "Fail at start when any of these is not permitted. false: warn and continue.", BETWEEN(0, 1)),

    ROW("security.server_key", HB_TYPE_PATH, security.server_key, HB_FIXED,
        "File with the daemon's secret CURVE key (hilbertctl keygen); empty: no encryption.", .max = 0),
    ROW("security.client_keys", HB_TYPE_PATHS, security.client_keys, HB_FIXED,
        "Files with the public keys of clients that may connect and do everything.", BETWEEN(0, HB_MAX_KEYS)),
    ROW("security.authorized_keys", HB_TYPE_PATH, security.authorized_keys, HB_FIXED,
        "File with further clients, one in each line: name, public key, and rights of telemetry, act, observe, operate "
        "(with commas).",
        .max = 0),
    ROW("security.insecure", HB_SETTING_BOOL, security.insecure, HB_FIXED,
        "Allow tcp without keys: anyone who reaches the port can fly this vehicle.", BETWEEN(0, 1)),
    ROW("security.pilot", HB_TYPE_TEXT, security.pilot, HB_FIXED,
        "Name (routing id) of the client that flies. It is served first, and only its requests move the plan and the "
        "window; all others are guests. Empty: the client that asks first, until it is silent for five of its periods, "
        "or another one comes after a reset of the window.",
        .max = HB_NAME_SIZE),
    ROW("security.pilot_key", HB_TYPE_PATH, security.pilot_key, HB_FIXED,
        "File with the public key of the client that flies, instead of a name; nobody else can then claim to be it.",
        .max = 0),

    ROW("state_file", HB_TYPE_PATH, state_file, HB_FIXED,
        "File that keeps the window over a restart where systemd does not (best on a tmpfs); empty: none.", .max = 0),
};

hb_setting hb_config_row(int i)
{
    /* in the order in which they are printed; rows of lib with the place of their struct */
    const struct {
        hb_setting_rows rows;
        size_t base;
    } group[] = {
        {{general, COUNT(general)}, 0},
        {hb_estimator_rows(), offsetof(hb_config, controller.estimator)},
        {{estimator, COUNT(estimator)}, 0},
        {hb_actuator_rows(), offsetof(hb_config, controller.estimator.actuators)},
        {{actuators, COUNT(actuators)}, 0},
        {hb_planner_rows(), offsetof(hb_config, controller.planner)},
        {{planner, COUNT(planner)}, 0},
        {{task, COUNT(task)}, 0},
        {hb_limits_rows(), offsetof(hb_config, controller.cost.limits)},
        {{limits, COUNT(limits)}, 0},
        {{latency, COUNT(latency)}, 0},
        {hb_controller_rows(), offsetof(hb_config, controller)},
        {{shadow, COUNT(shadow)}, 0},
        {{recorder, COUNT(recorder)}, 0},
        {{process, COUNT(process)}, 0},
    };

    for (int g = 0; g < COUNT(group); i -= group[g++].rows.n)
        if (i < group[g].rows.n) {
            hb_setting row = group[g].rows.row[i];
            row.offset += group[g].base;
            return row;
        }
    return (hb_setting){0};
}

int hb_config_find(const char *key)
{
    hb_setting row;

    for (int i = 0; (row = hb_config_row(i)).key; i++)
        if (strcmp(row.key, key) == 0)
            return i;
    return -1;
}

static bool has(int n, char (*name)[HB_NAME_SIZE], const char *const *wanted)
{
    for (; *wanted; wanted++) {
        int i = 0;
        while (i < n && strcmp(name[i], *wanted))
            i++;
        if (i == n)
            return false;
    }
    return true;
}

bool hb_config_default_fits(const hb_model *m)
{
    static const char *const state[] = {"x",  "vx", "y",  "vy", "z",  "vz", "qx",
                                        "qy", "qz", "qw", "wx", "wy", "wz", NULL};
    static const char *const control[] = {"f0", "f1", "f2", "f3", NULL};

    return has(m->nx, m->state_name, state) && has(m->nu, m->control_name, control);
}

/* A term over named states or controls. */
#define TERM(what, w, end, count, ...)                                                                                 \
    {                                                                                                                  \
        .cost = {.kind = HB_COST_##what, .weight = w, .terminal = end}, .n = count, .name = { __VA_ARGS__ }            \
    }

/* In the folder that the service manager made for this instance. */
static hb_endpoints endpoint(const char *name)
{
    const char *folder = getenv("RUNTIME_DIRECTORY");
    hb_endpoints e = {.n = 1};

    snprintf(e.at[0], sizeof e.at[0], "ipc://%s/%s", folder && *folder ? folder : "/run/hilbertd", name);
    return e;
}

static void put_recordings(char to[HB_CONFIG_PATH_SIZE])
{
    const char *folder = getenv("LOGS_DIRECTORY");

    snprintf(to, HB_CONFIG_PATH_SIZE, "%s", folder && *folder ? folder : "/var/log/hilbertd");
}

/* Flies the paper's quadrotor (the names of hb_config_default_fits) to 1 m. */
void hb_config_default(hb_config *ret)
{
    *ret = (hb_config){
        .name = "hilbertd",
        .model = "quadrotor.safetensors",
        .log_level = HB_LOG_INFO,
        .sockets = {.telemetry = endpoint("telemetry"),
                    .actions = endpoint("actions"),
                    .control = endpoint("control"),
                    .status = endpoint("status"),
                    .max_message = 262144,
                    .mode = 0660},
        .status_period = 0.1,
        .threads = 1,
        .terms = {5,
                  {TERM(DISTANCE, 3, 10, 3, "x", "y", "z"), TERM(TILT, 5, 10, 4, "qx", "qy", "qz", "qw"),
                   TERM(SQUARED, 1, 10, 3, "vx", "vy", "vz"), TERM(VELOCITY, 0.05, 10, 3, "wx", "wy", "wz"),
                   TERM(SLEW, 200, 1, 4, "f0", "f1", "f2", "f3")}},
        .target = {1, {1}, {"z"}},
        .recorder = {.file_size = 256, .file_age = 3600, .quota = 4096},
        .realtime = {.server_priority = 40, .planner_priority = 30},
        .controller = hb_controller_defaults(),
    };
    put_recordings(ret->recorder.directory);
    ret->controller.estimator.window = 2;
}
