/* Who is waiting for an action: at most one request for each client.
 *
 *     client 0  [ waiting ]  pilot
 *     client 1  [         ]
 *     client 2  [ waiting ]
 *     ...
 *
 * A client is told by its routing id and its key. A new request of a client takes the place of the one it has waiting,
 * and inherits its deadline, so that one that floods the daemon only crowds out itself. The earliest deadline goes
 * first.
 *
 * One client is the pilot: who is configured so, and always goes first; or, when nobody is, the first one to ask, and
 * it takes turns with the others. Its seat falls free when it has been silent for five of its usual periods (at most a
 * second), and after a reset of the window at once for a client that comes anew: a simulator may open a client for
 * every flight. If the pilot comes back, it has the seat again, however many have had it since. The others are guests:
 * new ones among them may take a part of the places only. In lock-step silence means nothing, since simulators may take
 * their time: there the client that came last flies.
 *
 * Fixed memory; clients that have nothing waiting make room for new ones, the longest silent first; never the pilot,
 * nor the one that the seat is kept for. */
#ifndef HB_QUEUE_H
#define HB_QUEUE_H

#include "server/transport.h"
#include "server/wire.h"

enum {
    HB_QUEUE_CLIENTS = 64,
    HB_QUEUE_NEWCOMERS = 16, /* places for requests of guests that came within the last HB_NEWCOMER seconds */
};
#define HB_PILOT_PERIODS 5.0 /* of silence free the pilot's seat, */
#define HB_PILOT_SOONEST 0.02
#define HB_PILOT_LATEST  1.0  /* seconds */
#define HB_PILOT_RETURNS 10.0 /* seconds for which the seat is kept for who lost it so */
#define HB_NEWCOMER      1.0

/* A request with memory of its own for what it points to. */
typedef struct hb_waiting {
    hb_envelope envelope; /* without frames: its client is gone */
    uint64_t id;
    bool want_plan;
    double budget;      /* seconds from receipt to reply */
    hb_request request; /* vectors lie in the three below */
    double *x, *target, *target_time, *applied;
} hb_waiting;

typedef struct hb_client {
    bool known, waits;
    bool fresh;      /* it has become the pilot, and had no turn since */
    double since;    /* when it came */
    double asked;    /* when its newest request came in, */
    double period;   /* and how long after the one before, about; infinite before the second */
    double seen;     /* when its newest request came in, or was answered */
    double due;      /* deadline of the first of the requests that one turn will answer */
    uint64_t served; /* number of its last turn */
    hb_waiting waiting;
} hb_client;

typedef struct hb_queue hb_queue;

/* Who flies. */
typedef struct hb_pilot {
    char name[HB_NAME_SIZE]; /* routing id; empty: not told by it */
    int key;                 /* hb_envelope.key; 0: not told by it */
    bool lockstep;           /* not told by either: who came last, whatever it is silent for */
} hb_pilot;

/* Room for targets of ntarget numbers. */
int hb_queue_new(hb_queue **ret, int nx, int nu, int ntarget, const hb_pilot *pilot, hb_error *err);
void hb_queue_free(hb_queue *q);

/* A place of one's own for a request, outside the queue: for the current one. */
hb_waiting *hb_queue_in_hand(hb_queue *q);

/* The client that an envelope belongs to, admitted if it is new; NULL when there is no place for it. */
hb_client *hb_queue_client(hb_queue *q, const hb_envelope *e, double now);
/* Whether somebody flies. */
bool hb_queue_flown(const hb_queue *q, double now);
/* Whether it flies; and whether an envelope is of someone who does, or nobody does. */
bool hb_queue_flies(const hb_queue *q, const hb_client *c);
bool hb_queue_is_pilots(const hb_queue *q, const hb_envelope *e, double now);
/* Another flight begins: unless the pilot asks first, the seat is for the next client that was not there before. */
void hb_queue_vacate(hb_queue *q, double now);
/* Puts a request into its client's place. */
void hb_queue_put(hb_queue *q, hb_client *c, const hb_envelope *e, const hb_action_request *r, double budget);
/* The client whose turn it is, or NULL. */
hb_client *hb_queue_next(hb_queue *q);
/* Moves its request to the current one: the client waits no longer and has had its turn. */
void hb_queue_take(hb_queue *q, hb_client *c);
/* The current one was answered. */
void hb_queue_done(hb_queue *q, double now);
/* As take without a turn: the request was answered otherwise. */
void hb_queue_drop(hb_client *c);
/* i counts from 0; NULL past the last. */
hb_client *hb_queue_at(hb_queue *q, int i);
/* Clients that asked within the last `seconds`. */
int hb_queue_active(const hb_queue *q, double now, double seconds);
/* Of these, those that are guests. */
int hb_queue_guests(const hb_queue *q, double now, double seconds);
/* Budget of the pilot's newest request; infinite when nobody flies. */
double hb_queue_pilot_budget(const hb_queue *q, double now);

#endif
