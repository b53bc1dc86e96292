/* Messages <-> plain structs. Generated types never leave wire.c.
 *
 * Reading unpacks into one fixed block and checks lengths, finiteness and time; what it returns points into that block
 * and is valid until the next read. Writing packs into one fixed buffer, valid until the next write. Nothing is
 * allocated after hb_wire_new. Use one per thread. */
#ifndef HB_WIRE_H
#define HB_WIRE_H

#include "config/config_edit.h"
#include "server/report.h"

typedef struct hb_wire hb_wire;

typedef struct hb_wire_sizes {
    int nx, nu, horizon, ncoefficients;
    int nb;                 /* basis functions: ncoefficients, or ncoefficients / nx */
    int nshadow, shadow_nb; /* the same of the shadow; 0: there is none */
    int max_message;        /* bytes */
} hb_wire_sizes;

int hb_wire_new(hb_wire **ret, const hb_wire_sizes *s, hb_error *err);
void hb_wire_free(hb_wire *w);
/* The model in use and its shadow have changed places, and so have the numbers of their coefficients. */
void hb_wire_exchange(hb_wire *w);

/* ---- telemetry ---- */

/* HB_REASON_NONE, or why the sample cannot be used (MALFORMED, DIMENSION, NOT_FINITE, BAD_TIME). */
hb_reason hb_wire_read_telemetry(hb_wire *w, const void *data, size_t size, hb_observation *ret,
                                 uint64_t *ret_sequence);

/* ---- actions ---- */

typedef struct hb_action_request {
    uint64_t id;
    bool want_plan;
    double budget;      /* seconds from receipt to reply that the client allows; 0: the configured budget */
    hb_request request; /* received, deadline and tick are the server's to fill in */
    bool lockstep;      /* the vehicle waits for the reply, and the request carries its telemetry: */
    int nsamples;       /* see hb_wire_request_sample */
    char detail[160];   /* why it is refused, in more detail than the reason; or "" */
} hb_action_request;

/* As above, or HORIZON. The id is filled in whenever it could be read, else 0. */
hb_reason hb_wire_read_request(hb_wire *w, const void *data, size_t size, hb_action_request *ret);
/* Of the request read last, sample i, as hb_wire_read_telemetry gives one. It makes sense but may not be finite. */
hb_reason hb_wire_request_sample(hb_wire *w, int i, hb_observation *ret, uint64_t *ret_sequence);

typedef struct hb_action_reply {
    uint64_t id;
    hb_status status;
    hb_reason reason;
    const double *action;      /* nu, or NULL */
    const hb_command *command; /* NULL when the controller was not asked */
    bool want_plan;
    double queue, planning, preparing, total; /* seconds */
    const char *detail;                       /* of a refusal; NULL: the usual text of its reason */
} hb_action_reply;

size_t hb_wire_write_reply(hb_wire *w, const hb_action_reply *r, const void **ret);

/* ---- control ---- */

typedef enum {
    HB_CONTROL_NONE,
    HB_CONTROL_GET_STATUS,
    HB_CONTROL_GET_MODEL,
    HB_CONTROL_RESET_WINDOW,
    HB_CONTROL_SET_TARGET,
    HB_CONTROL_RELOAD,
    HB_CONTROL_GET_COEFFICIENTS,
    HB_CONTROL_SET_COEFFICIENTS,
    HB_CONTROL_PREDICT,
    HB_CONTROL_PROMOTE,
    HB_CONTROL_RECORD,
    HB_CONTROL_SET,
    HB_CONTROL_GET_SETTINGS,
} hb_control_kind;

typedef struct hb_predict {
    int count, steps;
    double dt;             /* 0: the model's */
    const double *state;   /* count x nx */
    const double *control; /* count x steps x nu */
} hb_predict;

typedef struct hb_control_request {
    uint64_t id;
    hb_control_kind kind;
    const double *target;       /* nx */
    const hb_real *coefficient; /* ncoefficients */
    uint64_t model_hash;        /* that the coefficients belong to */
    hb_predict predict;
    bool on;                 /* to record */
    const char *key, *value; /* of a setting */
    double seconds;          /* that it holds; 0: no end */
} hb_control_request;

/* A key that a client changed. */
typedef struct hb_changed_key {
    char key[HB_EDIT_KEY], value[HB_EDIT_VALUE], file_value[HB_EDIT_VALUE];
    double until; /* monotonic seconds; 0: no end */
    char by[HB_NAME_SIZE];
} hb_changed_key;

enum { HB_CHANGED_KEYS = 32 };

/* What get_settings answers. */
typedef struct hb_settings_told {
    const char *file;
    char **line; /* of the configuration in force */
    int nlines;
    const hb_changed_key *changed;
    int nchanged;
    double now;
} hb_settings_told;

/* 0 or -errno with the reason; the id is filled in whenever it could be read. */
int hb_wire_read_control(hb_wire *w, const void *data, size_t size, hb_control_request *ret, hb_error *err);

/* What get_model answers. */
typedef struct hb_model_card {
    const hb_model *model;
    const char *path;
    int horizon;
    double plan_dt;
} hb_model_card;

/* At most one of report, card, coefficient, predicted and settings is set. */
typedef struct hb_control_reply {
    uint64_t id;
    const char *error; /* NULL: ok */
    const hb_report *report;
    const hb_model_card *card;
    const hb_real *coefficient;
    const double *variance;
    const double *covariance; /* hb_estimator_covariance's; NULL: none */
    uint64_t model_hash, version;
    const double *predicted; /* count x (steps + 1) x nx */
    int count, steps;
    const hb_settings_told *settings;
    const char *const *needs_restart;
    int nneeds_restart;
    const char *restart_error; /* NULL or empty: none */
} hb_control_reply;

size_t hb_wire_write_control(hb_wire *w, const hb_control_reply *r, const void **ret);

/* ---- recordings ---- */

enum { HB_RECORD_HEAD = 2048, HB_RECORDING_WINDOW = 9 /* number of the field */ };

/* What each recording begins with; *ret is allocated. */
typedef struct hb_recording {
    const char *name, *model_path, *configuration;
    const hb_model *model;
    uint64_t run; /* time of day, nanoseconds */
} hb_recording;

int hb_wire_recording(const hb_recording *r, uint8_t **ret, size_t *ret_size, hb_error *err);
/* Bytes before a field of n bytes (text, bytes or a message) of a message; returns how many. */
size_t hb_wire_field(uint8_t to[16], int field, size_t n);

size_t hb_wire_record_sample(hb_wire *w, const hb_observation *o, uint64_t sequence, double arrived, uint64_t heard,
                             bool more, const void **ret);

/* How a command came about. */
typedef struct hb_decision {
    uint64_t tick, snapshot;
    double begun;
    double budget; /* seconds from receipt to the deadline of the command */
    bool fallback, fresh, guest;
    const hb_prepared *prepared;
    const hb_decisions *decisions;
} hb_decision;

/* These end with the beginning of a message of n bytes, which is to follow. */
size_t hb_wire_record_request(hb_wire *w, const hb_request *r, uint64_t heard, bool guest, size_t n,
                              uint8_t to[HB_RECORD_HEAD]);
size_t hb_wire_record_reply(hb_wire *w, double received, const hb_decision *d, bool unsent, size_t n,
                            uint8_t to[HB_RECORD_HEAD]);
size_t hb_wire_record_control(hb_wire *w, double received, const char *error, size_t n, uint8_t to[HB_RECORD_HEAD]);

typedef struct hb_recorded_change {
    const double *target; /* nx, or NULL */
    const double *stays;  /* nx: with a configuration, the target that stays in force; NULL: the configuration's */
    bool prediction, promotion;
    uint64_t snapshot;
    const hb_prepared *prepared;
} hb_recorded_change;

/* A change of configuration is one without target or prediction: its text, field HB_CHANGE_CONFIGURATION, follows. */
enum { HB_CHANGE_CONFIGURATION = 2 };
size_t hb_wire_record_change(hb_wire *w, const hb_recorded_change *c, const void **ret);

typedef struct hb_recorded_coefficients {
    const hb_health *health;
    int64_t time_us;
    const hb_real *value;
    const double *variance, *covariance; /* NULL: not this time */
} hb_recorded_coefficients;

size_t hb_wire_record_coefficients(hb_wire *w, const hb_recorded_coefficients *c, const void **ret);

/* ---- status ---- */

size_t hb_wire_write_status(hb_wire *w, const hb_report *r, const void **ret);
size_t hb_wire_write_status_json(hb_wire *w, const hb_report *r, const void **ret);

#endif
