/* The server: owns the sockets and the telemetry side of the controller, on one thread.
 *
 *     telemetry --> ring --> observe                 one sample per turn, so that no request waits for more than one
 *     actions   --> queue --> worker --> reply       the planner's thread plans; what it prepared is corrected here
 *     control   --> answered at once, or handed on: predictions to the worker, reloads to the main thread
 *     status    <-- a few times a second
 *
 * In lock-step (latency.clock: vehicle) the vehicle's clock stands still while it waits, so there is nothing to be done
 * meanwhile: a request brings its telemetry, and is learned from, answered and prepared for on this one thread, in this
 * order. What comes of it depends on the messages alone.
 *
 * The main thread does what may take long: it reads configurations, and hands the result over as an order. */
#ifndef HB_SERVER_H
#define HB_SERVER_H

#include "config/config.h"
#include "process/journal.h"
#include "process/log.h"
#include "server/transport.h"
#include "server/wire.h"
#include "server/worker.h"

typedef struct hb_server hb_server;

typedef struct hb_server_settings {
    const hb_config *config; /* read during hb_server_new only */
    const hb_model *model;
    hb_controller *controller;
    const hb_model *shadow; /* NULL: there is none */
    hb_controller *shadow_controller;
    const hb_controller_settings *shadow_settings; /* read during hb_server_new only */
    hb_transport transport;
    int pilot_key;      /* hb_envelope.key of the client that flies; 0: any */
    hb_clock clock;     /* monotonic: all that is measured */
    hb_clock wall;      /* time of day: what is published */
    hb_clock processor; /* time that the calling thread has had a processor */
    hb_log *log;
    hb_journal *journal; /* NULL: nothing is recorded */
    bool resumed;        /* the window came from before a restart */
    void *kept_target;   /* where the target that a client sets is kept, see process/kept_target.h; NULL: nowhere */
    bool stepped;        /* without threads: see hb_server_turn */
} hb_server_settings;

/* Bytes of the largest message that it records. */
size_t hb_server_largest_record(const hb_config *c, const hb_model *m);

int hb_server_new(hb_server **ret, const hb_server_settings *s, hb_error *err);
void hb_server_free(hb_server *s);

/* Serves until hb_server_stop, then answers the current request and returns. On the server's thread. */
void hb_server_run(hb_server *s);

/* What hb_server_run does, piece by piece, for programs that simulate time. One turn of its loop, without sleeping;
 * false when it has stopped. */
bool hb_server_turn(hb_server *s);
/* When it needs its next turn even if nothing wakes it: now, when there is work left. */
double hb_server_due(const hb_server *s);
/* Its worker, which has no thread when the server is stepped: see hb_worker_run. */
hb_worker *hb_server_worker(hb_server *s);

/* The rest is for the main thread. */

void hb_server_stop(hb_server *s);
/* Readable when a client asks for a reload. */
int hb_server_reload_fd(const hb_server *s);

/* Readable when a client asks for a promotion of the shadow: until an order for it, the planning side of its controller
 * is the main thread's, to be tested from this state (nx; NULL: none is known). */
int hb_server_promote_fd(const hb_server *s);
const double *hb_server_trial(const hb_server *s);

/* Readable when a client wants to change a key, or to know what was changed; what it wants stays until an order that
 * says `setting`. */
int hb_server_setting_fd(const hb_server *s);
typedef struct hb_setting_wish {
    bool tell; /* the settings in force; else: */
    char key[HB_EDIT_KEY], value[HB_EDIT_VALUE];
    double seconds;
    char by[HB_NAME_SIZE];
} hb_setting_wish;
const hb_setting_wish *hb_server_setting_wish(const hb_server *s);

/* What came of reading the configuration again, or of testing the shadow. */
typedef struct hb_order {
    bool setting; /* it answers a wish; with `told` that is all */
    bool unasked; /* by no client: the time of a key that one had set is over */
    const hb_settings_told *told;
    bool promote;      /* the shadow and the model in use are to change places; the rest but error is not looked at */
    const char *error; /* NULL: the rest is to be applied */
    hb_controller_settings settings, shadow_settings;
    double status_period;
    const char *configuration;           /* the text that a recording keeps, or NULL */
    const char *restart[HB_CONFIG_ROWS]; /* keys that hold only after a restart */
    int nrestart;
    char restart_error[512]; /* why a restart with this configuration would fail; empty: it would not */
} hb_order;

/* Has the server apply an order between two requests, tell a client that asked for it, and count it. Waits for that.
 * 0, or -errno with the reason for which nothing was changed. */
int hb_server_order(hb_server *s, const hb_order *order, hb_error *err);
/* The two halves of it: the order must stay until it was taken; 1: not yet. */
void hb_server_order_post(hb_server *s, const hb_order *order);
int hb_server_order_taken(hb_server *s, hb_error *err);

#endif
