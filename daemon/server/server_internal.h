/* Shared by the files of the server, and private to them. */
#ifndef HB_SERVER_INTERNAL_H
#define HB_SERVER_INTERNAL_H

#include <stdatomic.h>

#include "process/kept_target.h"
#include "server/histogram.h"
#include "server/queue.h"
#include "server/server.h"
#include "server/worker.h"
#include "model/words.h"

enum {
    HB_RING = 1024,          /* samples that may wait to be learned from */
    HB_REQUESTS_A_TURN = 64, /* messages read from a socket before others have their turn */
    HB_HANDSHAKES_A_TURN = 4,
};

typedef struct hb_sample {
    hb_observation observation; /* vectors lie in the two below */
    double arrived;
    uint64_t sequence;
    double *x, *u;
} hb_sample;

/* A plan whose first action was sent. */
typedef struct hb_flown_plan {
    int steps; /* 0: there is none */
    int64_t time_us;
    uint32_t reset_counter;
    double dt;      /* seconds of a step */
    double *action; /* steps x nu */
} hb_flown_plan;

/* A client of the control socket whose answer takes a while. */
typedef struct hb_caller {
    bool waits;
    uint64_t id;
    hb_envelope envelope;
} hb_caller;

enum { HB_WORD_LOOKS = 5 }; /* over about a second */

/* What the coefficients mean: see server_words.c. */
typedef struct hb_server_words_seen {
    hb_word now[HB_MAX_WORDS];
    hb_word look[HB_WORD_LOOKS][HB_MAX_WORDS]; /* of the last second, oldest first */
    int nlooks;
    double next;               /* when to look again */
    uint64_t changes;          /* of the dynamics, as of the newest look */
    hb_word was[HB_MAX_WORDS]; /* before the newest change */
    bool compared;             /* there was one */
    bool awaited;              /* a line about it is to be logged, */
    double due;                /* at this time */
} hb_server_words_seen;

enum { HB_ORDER_NONE, HB_ORDER_POSTED, HB_ORDER_DONE };

/* The socket of telemetry: samples that wait, and the newest that was learned from. */
typedef struct hb_server_telemetry {
    hb_sample ring[HB_RING];
    int first, count;
    bool work_left;    /* learning left work for turns without a sample */
    uint64_t sequence; /* of the newest sample; 0: not counted */
    int ascending;     /* samples since the numbers last went back */
    double arrived;    /* when the newest sample did */
    bool sampled;      /* there was one */
    double *state, *control;
} hb_server_telemetry;

/* The socket of actions: requests that wait, and the one in hand, from post to collect. */
typedef struct hb_server_actions {
    hb_queue *queue;
    hb_worker *worker;
    bool in_hand, answered;
    uint64_t ticks; /* requests handed to the planner */
    double begun;   /* in lock-step: start of the plan in hand by the machine's clock */
    double reserve; /* seconds: the largest recent overrun, see server_actions.c */
    double safe[HB_MAX_CONTROLS], stalled[HB_MAX_CONTROLS];
    /* answers of the controller that were not sent, because the server had answered already */
    uint64_t unsent_status[HB_NSTATUSES], unsent_refused[HB_NREASONS];
    hb_flown_plan flown; /* the pilot's newest, for when the planner does not come back */
} hb_server_actions;

/* The socket of control: clients whose answer takes a while, and what they wait for. */
typedef struct hb_server_control {
    hb_caller reloader, predictor, targeter, promoter, setter;
    hb_setting_wish wish; /* the setter's */
    hb_prediction prediction;
} hb_server_control;

/* Where the vehicle is to go: the target of the file, or one that a client set. */
typedef struct hb_server_target {
    bool waits; /* one is to be set, the next member */
    hb_kept_target wanted;
    hb_kept_target set; /* by a client, and in force; n = 0: the file's is */
    int nfile;          /* the file's own */
    double file[HB_MAX_VEHICLE_STATES];
    void *kept; /* where it is kept, or NULL */
} hb_server_target;

/* A second model: see server_shadow.c. */
typedef struct hb_server_shadow {
    hb_shadow *thread; /* NULL: there is none */
    const hb_model *model;
    hb_controller_settings settings, retuned; /* in force; scratch of a change */
    char path[HB_CONFIG_PATH_SIZE];
    hb_controller *kept; /* the controller whose window outlives the process */
    double *trial;       /* nx: the state that it is tested from */
    bool tried;          /* there is one */
    double promote_by;   /* when a promotion that cannot be made is given up; 0: none is under way */
} hb_server_shadow;

/* The newest reply, for the status. */
typedef struct hb_server_last {
    bool replied;
    hb_status status;
    hb_reason reason;
    double *action;
    double *target; /* of the newest request that was planned for, where it named one */
    bool targeted;
    double *states; /* (horizon + 1) x nx, along the newest plan */
    int horizon;    /* its steps; 0: there is none */
    double cost;
    int iterations;
    int nterms; /* of the cost, limits included; 0: there is none */
    double term[HB_COST_TERMS + 1];
    char term_name[HB_COST_TERMS + 1][64];
} hb_server_last;

/* The socket of status: what is counted and published. */
typedef struct hb_server_status {
    double started, period, next, next_second;
    hb_server_counters counters;
    hb_histogram queued, planned, prepared, total;
    hb_estimate_status estimate; /* as it was logged last */
    uint64_t changes;
    double rate_since, telemetry_rate, request_rate;
    uint64_t rate_telemetry, rate_requests;
    bool resumed;
} hb_server_status;

/* How often each kind of line may be logged. */
typedef struct hb_server_log_limits {
    hb_log_limit status, estimate, refusal, handshake, misled, crowd, right, flood, clock, reset, target, guest;
} hb_server_log_limits;

/* What is recorded. */
typedef struct hb_server_record {
    hb_journal *journal; /* NULL: nothing */
    uint64_t day_offset; /* from the monotonic clock to the time of day, nanoseconds */
    uint64_t version;    /* of the coefficients that were recorded last */
    double next_deviation, next_covariance;
    uint8_t *signals; /* a sample under its names */
    hb_journal_report report;
    const hb_prepared *prepared_before; /* the last change of settings */
} hb_server_record;

/* The vehicle's clock, by which the flight goes in lock-step. */
typedef struct hb_server_vehicle {
    bool lockstep;
    bool known;  /* a request has told its time */
    int64_t us;  /* its time in the pilot's newest request */
    double time; /* the flight's clock at that request, seconds */
} hb_server_vehicle;

/* Proof of work for the watchdog. */
typedef struct hb_server_life {
    bool running; /* it has had its first turn */
    double fed;   /* when the watchdog was fed last */
    double watchdog;
    unsigned long beats;
} hb_server_life;

/* From and to the main thread. */
typedef struct hb_server_orders {
    _Atomic bool stop;
    bool stopping;
    double stop_by;
    _Atomic int state;
    const hb_order *order;
    hb_error error;
    int wake_fd, done_fd, reload_fd, promote_fd, setting_fd; /* eventfds: to the server, back, and clients' wishes */
} hb_server_orders;

struct hb_server {
    /* borrowed */
    const hb_model *model;
    hb_controller *controller;
    hb_transport transport;
    const uint8_t *frame; /* the newest message received; the transport's */
    hb_clock clock, wall;
    hb_clock flight; /* of ages, budgets and the end of plans: the machine's, or in lock-step the vehicle's */
    hb_log *log;

    /* owned */
    hb_wire *wire;
    hb_config *config;               /* as it was at the start: for the threads' places */
    hb_controller_settings settings; /* in force */
    hb_controller_settings retuned;  /* scratch of a change */
    hb_model_card card;
    char name[HB_NAME_SIZE], model_path[HB_CONFIG_PATH_SIZE];
    int max_message;

    hb_server_telemetry telemetry;
    hb_server_actions actions;
    hb_server_control control;
    hb_server_status status;
    hb_server_target target;
    hb_server_shadow shadow;
    hb_server_vehicle vehicle;
    hb_server_last last;
    hb_server_words_seen words;
    hb_server_record record;
    hb_server_log_limits limit;
    hb_server_life life;
    hb_server_orders orders;
};

static inline double hb_server_now(const hb_server *s)
{
    return s->clock.now(s->clock.context);
}
static inline double hb_server_flight_now(const hb_server *s)
{
    return s->flight.now(s->flight.context);
}
/* Receives a message: the envelope, then the last frame at s->frame. Returns its size, or see hb_transport. */
int hb_server_receive(hb_server *s, hb_channel from, hb_envelope *e);
/* Sends a reply; one that cannot be delivered is counted. */
void hb_server_send(hb_server *s, hb_channel to, const hb_envelope *e, const void *data, size_t size);

/* server_telemetry.c */
void hb_server_receive_telemetry(hb_server *s);
void hb_server_learn(hb_server *s);
/* In lock-step: learns from the samples that the request read last carries. */
void hb_server_learn_carried(hb_server *s, int nsamples);

/* server_orders.c */
int hb_server_orders_open(hb_server_orders *o, hb_error *err);
void hb_server_orders_close(const hb_server_orders *o); /* also where opening failed */
void hb_server_take_order(hb_server *s);                /* if there is one, and the worker is idle */

/* server_control.c: the target that a client has set stays in force, after a restart and a reload too, until the file
 * has another one than before. */
void hb_server_resume_target(hb_server *s);
void hb_server_keep_target(hb_server *s);
/* Before a reload is applied: puts it in the place of the file's; whether it did. */
bool hb_server_reload_target(hb_server *s, hb_controller_settings *next, hb_controller_settings *shadow_next);
/* After it. */
void hb_server_reloaded_target(hb_server *s, const hb_controller_settings *file);

/* server_actions.c */
void hb_server_receive_requests(hb_server *s);
void hb_server_collect(hb_server *s);
void hb_server_serve(hb_server *s);
void hb_server_guard(hb_server *s);
double hb_server_guard_time(const hb_server *s); /* when the guard next has something to do; infinite: never */
void hb_server_refuse_all(hb_server *s, hb_reason why);

/* server_control.c */
void hb_server_receive_control(hb_server *s);
void hb_server_refuse_callers(hb_server *s); /* at the end: those whose answer would have taken a while */
void hb_server_set_target(hb_server *s);     /* when one waits and the worker is idle */
void hb_server_predicted(hb_server *s);      /* a slice of a prediction came back */
void hb_server_reloaded(hb_server *s, const hb_order *order, const char *error);
/* Applies settings while the worker is idle and the shadow, if there is one, is claimed: that is then released. */
int hb_server_retune(hb_server *s, const hb_controller_settings *next, const hb_controller_settings *shadow_next,
                     hb_error *err);
void hb_server_take_settings(hb_server *s); /* what the server keeps of s->settings for itself */

/* Notes a client whose answer takes a while; -EBUSY while another one waits. */
int hb_server_call(hb_caller *caller, const hb_envelope *e, uint64_t id, const char *what, hb_error *err);
/* Answers it, if there is one. */
void hb_server_answer(hb_server *s, hb_caller *caller, hb_control_reply *r);

/* server_shadow.c */
int hb_server_start_promotion(hb_server *s, const hb_envelope *e, uint64_t id, hb_error *err);
/* While the worker is idle: 0, the models have changed places; -EAGAIN, not yet; or why they have not. */
int hb_server_promote(hb_server *s, hb_error *err);
void hb_server_promoted(hb_server *s, const char *error);
void hb_server_report_shadow(hb_server *s, hb_shadow_report *ret);

/* server_record.c */
/* Deadlines lie a whole number of such steps after the receipt of their request. A recording keeps the number, which
 * takes little room and is exact. */
#define HB_DEADLINE_STEP 0x1p-20 /* seconds: about a microsecond */
void hb_server_record_start(hb_server *s);
void hb_server_record_sample(hb_server *s, const hb_sample *sample, bool more); /* after it was learned from */
void hb_server_record_request(hb_server *s, const hb_request *r, bool guest,
                              size_t size); /* likewise; it is at s->frame */
/* The message that was sent; c NULL: the controller was not asked. */
void hb_server_record_reply(hb_server *s, const hb_request *r, const hb_command *c, bool unsent, const void *reply,
                            size_t size);
void hb_server_record_control(hb_server *s, double received, const char *error, size_t size);
void hb_server_record_change(hb_server *s, const hb_recorded_change *c, const char *configuration);
void hb_server_record_status(hb_server *s);

/* server_words.c */
const hb_word *hb_server_words(hb_server *s);           /* as of now: model->nwords */
bool hb_server_word_changed(const hb_server *s, int i); /* with the newest change of the dynamics */
void hb_server_note_words(hb_server *s);                /* each turn */
void hb_server_forget_words(hb_server *s);              /* after a change of vehicle or model */

/* server_status.c */
void hb_server_report(hb_server *s, hb_report *ret);
void hb_server_publish(hb_server *s, double now);
void hb_server_each_second(hb_server *s, double now);
void hb_server_note_reply(hb_server *s, const hb_request *to, const hb_action_reply *r);

#endif
