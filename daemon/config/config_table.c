/* The table of keys. A new key is a member of hb_config, a row here, and its default below. */
#include "config/config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/log.h"

static const char *const scheduling_name[] = {"other", "fifo"};
/* after the first, in the order of hb_method */
static const char *const method_name[] = {"model", "least_squares", "inner_product"};

#define FIELD(member) offsetof(hb_config, member), sizeof(((hb_config *)0)->member)
#define LIVE          true  /* a reload changes it */
#define FIXED         false /* a restart is needed */
#define COUNT(list)   (int)(sizeof(list) / sizeof *(list))

#define TEXT(key, member, live, help)                                                                                  \
    {                                                                                                                  \
        key, HB_TYPE_TEXT, FIELD(member), 0, 0, NULL, 0, live, help                                                    \
    }
#define PATH(key, member, help)                                                                                        \
    {                                                                                                                  \
        key, HB_TYPE_PATH, FIELD(member), 0, 0, NULL, 0, FIXED, help                                                   \
    }
#define INT(key, member, min, max, live, help)                                                                         \
    {                                                                                                                  \
        key, HB_TYPE_INT, FIELD(member), min, max, NULL, 0, live, help                                                 \
    }
#define REAL(key, member, min, max, live, help)                                                                        \
    {                                                                                                                  \
        key, HB_TYPE_REAL, FIELD(member), min, max, NULL, 0, live, help                                                \
    }
#define BOOL(key, member, live, help)                                                                                  \
    {                                                                                                                  \
        key, HB_TYPE_BOOL, FIELD(member), 0, 0, NULL, 0, live, help                                                    \
    }
#define CHOICE(key, member, names, n, live, help)                                                                      \
    {                                                                                                                  \
        key, HB_TYPE_CHOICE, FIELD(member), 0, 0, names, n, live, help                                                 \
    }
#define OTHER(key, type, member, min, max, live, help)                                                                 \
    {                                                                                                                  \
        key, type, FIELD(member), min, max, NULL, 0, live, help                                                        \
    }
#define ENDPOINTS(key, member, min, help)                                                                              \
    {                                                                                                                  \
        key, HB_TYPE_ENDPOINTS, FIELD(member), min, HB_MAX_ENDPOINTS, NULL, 0, FIXED, help                             \
    }

#define ESTIMATOR controller.estimator
#define PLANNER   controller.planner

static const hb_row table[] = {
    TEXT("name", name, FIXED, "Name of this instance, in its status and its logs."),
    PATH("model", model,
         "Basis file (safetensors): in this file's folder, its folder models, or among the installed models."),
    CHOICE("log_level", log_level, hb_log_level_name, HB_LOG_NLEVELS, LIVE, "Least important level that is logged."),
    BOOL("adapt", controller.adapt, LIVE,
         "Estimate coefficients from telemetry. false: the average model for ever, for comparison."),

    ENDPOINTS("sockets.telemetry", sockets.telemetry, 0, "Endpoints to bind for telemetry (SUB)."),
    ENDPOINTS("sockets.telemetry_connect", sockets.telemetry_connect, 0,
              "Endpoints of publishers to connect to for telemetry."),
    ENDPOINTS("sockets.actions", sockets.actions, 1, "Endpoints to bind for action requests (ROUTER)."),
    ENDPOINTS("sockets.control", sockets.control, 0, "Endpoints to bind for hilbertctl (ROUTER)."),
    ENDPOINTS("sockets.status", sockets.status, 0, "Endpoints to bind for the published status (PUB)."),
    INT("sockets.max_message", sockets.max_message, 1024, 1 << 24, FIXED,
        "Bytes of the largest message; a larger one is refused, and one of more than four times that ends its sender's "
        "connection."),
    OTHER("sockets.mode", HB_TYPE_OCTAL, sockets.mode, 0, 0777, FIXED, "Permissions of ipc sockets, octal."),

    REAL("status.period", status_period, 0, 3600, LIVE, "Seconds between published states; 0: none are."),

    INT("estimator.window", ESTIMATOR.window, 1, 100000, FIXED, "Transitions that are kept to estimate from."),
    INT("estimator.warmup", ESTIMATOR.warmup, 1, 100000, FIXED, "Transitions before the coefficients are used."),
    INT("estimator.solve_every", ESTIMATOR.solve_every, 1, 100000, FIXED,
        "Samples in which all coefficients are solved for once; those of different states take turns."),
    CHOICE("estimator.method", method, method_name, COUNT(method_name), FIXED,
           "How coefficients follow from the window: as the model was trained, or another way that it allows."),
    REAL("estimator.ridge", ESTIMATOR.ridge, -1, 1e6, FIXED, "Ridge of the least squares; -1: the model's."),
    REAL("estimator.forgetting", ESTIMATOR.forgetting, 0.01, 1, FIXED,
         "Weight of a sample relative to the next newer one; 1: none is forgotten within the window."),
    INT("estimator.relinearise", ESTIMATOR.relinearise, 0, 103, FIXED,
        "Window entries re-evaluated along the present model with each sample (shared models)."),
    BOOL("estimator.detect_changes", ESTIMATOR.detect_changes, LIVE,
         "Shorten the window when the one-step error jumps: a payload was picked up or dropped."),
    REAL("estimator.change_threshold", ESTIMATOR.change_threshold, 0, 1e6, LIVE,
         "Of the change statistic; higher: fewer alarms."),
    REAL("estimator.span_threshold", ESTIMATOR.span_threshold, 0, 1, LIVE,
         "Unexplained fraction of the residual from which the status is out-of-span."),

    CHOICE("planner.method", PLANNER.method, hb_planner_method_name, HB_PLANNER_NMETHODS, FIXED,
           "How plans are found."),
    INT("planner.samples", PLANNER.samples, 1, 100000, FIXED, "Action sequences that are tried in parallel."),
    INT("planner.horizon", PLANNER.horizon, 1, 1000, FIXED, "Steps of a plan."),
    INT("planner.iterations", PLANNER.iterations, 1, 1000000, LIVE, "Iterations of a plan, at most."),
    REAL("planner.dt", PLANNER.dt, 0, 10, FIXED, "Seconds a step of a plan; 0: the model's."),
    REAL("planner.learning_rate", PLANNER.learning_rate, 0, 1, LIVE, "Of Adam, in units of each control's range."),
    REAL("planner.clip", PLANNER.clip, 0, 1e9, LIVE, "Norm of the gradient of one step's controls, at most."),
    REAL("planner.noise", PLANNER.noise, 0, 10, LIVE,
         "Standard deviation of samples, in units of each control's range."),
    REAL("planner.noise_correlation", PLANNER.noise_correlation, 0, 1, LIVE, "Of samples from step to step."),
    REAL("planner.elites", PLANNER.elites, 0, 1, LIVE, "Fraction of samples that cem refits to."),
    REAL("planner.temperature", PLANNER.temperature, 0, 1e6, LIVE, "Of mppi, relative to the spread of costs."),
    BOOL("planner.polish", PLANNER.polish, LIVE, "End with second-order steps on the best candidate."),
    OTHER("planner.seed", HB_TYPE_SEED, PLANNER.seed, 0, 0, FIXED, "Same seed, same plans."),
    OTHER("planner.directions", HB_TYPE_MATRIX, PLANNER.direction, 0, HB_MAX_CONTROLS, FIXED,
          "Plan in these directions from trim, one list of all controls each; empty: every control by itself."),
    INT("planner.threads", threads, 1, 64, FIXED, "Threads that plan; the result is the same for any number."),

    OTHER("cost", HB_TYPE_TERMS, terms, 0, HB_COST_TERMS, LIVE,
          "What a plan costs: a list of terms, each {kind, weight, states or controls, terminal}. States and controls "
          "are named as in the model, or numbered from 0; terminal weighs the last state relative to the others."),
    OTHER("target", HB_TYPE_STATES, target, 0, HB_MAX_TARGET, LIVE,
          "State to bring the vehicle to when a request names none: by names ({z: 1}; others are 0) or in full."),
    OTHER("safe_action", HB_TYPE_CONTROLS, safe_action, 0, HB_MAX_CONTROLS, LIVE,
          "Control when nothing better is known: by names (others at trim) or in full; empty: the model's trim."),

    REAL("latency.budget", controller.budget, 1e-5, 60, LIVE,
         "Seconds from receipt of a request to its reply, at most."),
    REAL("latency.delay", controller.delay, 0, 10, LIVE,
         "Seconds from the state of a request to the moment at which its action applies."),
    REAL("latency.stale_after", controller.stale_after, 1e-6, 3600, LIVE,
         "Seconds without telemetry after which replies say stale."),
    REAL("latency.fallback_after", controller.fallback_after, 1e-6, 3600, LIVE,
         "Seconds without telemetry after which replies fall back to the last plan."),
    REAL("latency.safe_after", controller.safe_after, 0, 3600, LIVE,
         "Seconds that the last plan is flown before the safe action."),
    REAL("telemetry.min_period", controller.min_period, 1e-6, 1, FIXED,
         "Shortest time between two samples that make a transition, in units of the model's period."),
    REAL("telemetry.max_period", controller.max_period, 1, 1000, FIXED, "Longest, likewise."),

    CHOICE("realtime.scheduling", realtime.scheduling, scheduling_name, COUNT(scheduling_name), FIXED,
           "fifo: real-time scheduling (needs CAP_SYS_NICE or LimitRTPRIO)."),
    INT("realtime.server_priority", realtime.server_priority, 1, 99, FIXED, "Of the server thread, with fifo."),
    INT("realtime.planner_priority", realtime.planner_priority, 1, 99, FIXED, "Of the planner's threads, with fifo."),
    OTHER("realtime.server_cpus", HB_TYPE_CPUS, realtime.server_cpus, 0, 1023, FIXED,
          "Processors of the server thread; empty: any."),
    OTHER("realtime.planner_cpus", HB_TYPE_CPUS, realtime.planner_cpus, 0, 1023, FIXED,
          "Processors of the planner's threads; empty: any."),
    BOOL("realtime.lock_memory", realtime.lock_memory, FIXED,
         "Keep all memory from being swapped out (needs CAP_IPC_LOCK or LimitMEMLOCK)."),
    BOOL("realtime.required", realtime.required, FIXED,
         "Fail at start when any of this is not permitted. false: warn and go on."),

    PATH("security.server_key", security.server_key,
         "File with the daemon's secret CURVE key (hilbertctl keygen); empty: no encryption."),
    OTHER("security.client_keys", HB_TYPE_PATHS, security.client_keys, 0, HB_MAX_KEYS, FIXED,
          "Files with the public keys of the clients that may connect."),
    BOOL("security.insecure", security.insecure, FIXED,
         "Allow tcp without keys: anyone who reaches the port can fly this vehicle."),

    PATH("state_file", state_file,
         "File that keeps the window over a restart where systemd does not (best on a tmpfs); empty: none."),
};

_Static_assert(COUNT(table) <= HB_CONFIG_ROWS, "make HB_CONFIG_ROWS larger");

const hb_row *hb_config_row(int i)
{
    return i >= 0 && i < COUNT(table) ? &table[i] : NULL;
}

int hb_config_find(const char *key)
{
    for (int i = 0; i < COUNT(table); i++)
        if (strcmp(table[i].key, key) == 0)
            return i;
    return -1;
}

/* A term over numbered states or controls. */
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

/* Flies the paper's quadrotor (states x vx y vy z vz, quaternion xyzw, body rates; four rotors) to 1 m. */
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
                  {TERM(DISTANCE, 3, 10, 3, "0", "2", "4"), TERM(TILT, 5, 10, 4, "6", "7", "8", "9"),
                   TERM(VELOCITY, 1, 10, 3, "1", "3", "5"), TERM(VELOCITY, 0.02, 10, 3, "10", "11", "12"),
                   TERM(SLEW, 200, 1, 4, "0", "1", "2", "3")}},
        .target = {1, {1}, {"4"}},
        .realtime = {.server_priority = 40, .planner_priority = 30},
        .controller = hb_controller_defaults(),
    };
}
