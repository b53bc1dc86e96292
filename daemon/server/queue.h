/* Requests for actions that wait: at most one for each client.
 *
 *     client 0  [ waiting ]  pilot
 *     client 1  [         ]
 *     client 2  [ waiting ]
 *     ...
 *
 * A client is identified by its routing id and its key. A new request replaces the one that the same client has
 * waiting and keeps that one's deadline, so that a client that floods the daemon delays only itself. The earliest
 * deadline is served first.
 *
 * One client is the pilot. A configured pilot always goes first. Without one, the first client that asks is the pilot,
 * and takes turns with the others. It stops being the pilot after five of its usual periods without a request (at most
 * a second), or, after a reset of the window, as soon as a new client connects: a simulator may open one for every
 * flight. A pilot that returns is the pilot again. All others are guests, and new guests share a part of the places. In
 * lock-step silence means nothing, since simulators may be slow: the newest client is the pilot.
 *
 * Memory is fixed. A new client replaces one that has nothing waiting, the longest silent first; never the pilot, nor a
 * pilot that may still return. */
#ifndef HB_QUEUE_H
#define HB_QUEUE_H

#include "server/transport.h"
#include "server/wire.h"

enum {
    HB_QUEUE_CLIENTS = 64,
    HB_QUEUE_NEWCOMERS = 16, /* places for requests of guests that came within the last HB_NEWCOMER seconds */
};
#define HB_PILOT_PERIODS 5.0 /* without a request, after which a client is no longer the pilot, */
#define HB_PILOT_SOONEST 0.02
#define HB_PILOT_LATEST  1.0  /* seconds */
#define HB_PILOT_RETURNS 10.0 /* seconds within which it is again, if it asks */
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
    char name[HB_NAME_SIZE]; /* routing id; empty: any */
    int key;                 /* hb_envelope.key; 0: any */
    bool lockstep;           /* neither is configured: the newest client, however long it is silent */
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
/* Whether a client is the pilot; and whether an envelope is from the pilot, or there is none. */
bool hb_queue_flies(const hb_queue *q, const hb_client *c);
bool hb_queue_is_pilots(const hb_queue *q, const hb_envelope *e, double now);
/* Another flight begins: the next new client is the pilot, unless the present one asks first. */
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
