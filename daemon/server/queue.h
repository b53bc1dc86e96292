/* Who is waiting for an action: at most one request a client, served in turn.
 *
 *     client 0  [ waiting ]     A client is told by its routing id. A new request of a client takes the place of the
 *     client 1  [         ]     one it has waiting. Next is the client whose last turn is longest ago, so that one that
 *     client 2  [ waiting ]     floods the daemon only crowds out itself.
 *     ...
 *
 * Fixed memory; clients that have nothing waiting make room for new ones, the longest silent first. */
#ifndef HB_QUEUE_H
#define HB_QUEUE_H

#include "server/transport.h"
#include "server/wire.h"

enum { HB_QUEUE_CLIENTS = 64 };

/* A request with memory of its own for what it points to. */
typedef struct hb_waiting {
    hb_envelope envelope;
    uint64_t id;
    bool want_plan;
    double budget;      /* seconds from receipt to reply */
    hb_request request; /* vectors lie in the three below */
    double *x, *target, *target_time, *applied;
} hb_waiting;

typedef struct hb_client {
    bool known, waits;
    double seen;     /* when its newest request came in */
    uint64_t served; /* number of its last turn */
    hb_waiting waiting;
} hb_client;

typedef struct hb_queue hb_queue;

/* Room for targets of ntarget numbers. */
int hb_queue_new(hb_queue **ret, int nx, int nu, int ntarget, hb_error *err);
void hb_queue_free(hb_queue *q);

/* A place of one's own for a request, outside the queue: for the one in hand. */
hb_waiting *hb_queue_in_hand(hb_queue *q);

/* The client that an envelope belongs to, admitted if it is new; NULL when everyone known is waiting. */
hb_client *hb_queue_client(hb_queue *q, const hb_envelope *e, double now);
/* Copies a request into a place. */
void hb_queue_copy(const hb_queue *q, hb_waiting *to, const hb_envelope *e, const hb_action_request *r, double budget);
/* The client whose turn it is, or NULL. */
hb_client *hb_queue_next(hb_queue *q);
/* Moves its request to the one in hand: the client waits no longer and has had its turn. */
void hb_queue_take(hb_queue *q, hb_client *c);
/* The same without a turn: the request was answered otherwise. */
void hb_queue_drop(hb_client *c);
/* i counts from 0; NULL past the last. */
hb_client *hb_queue_at(hb_queue *q, int i);
/* Clients that asked within the last `seconds`. */
int hb_queue_active(const hb_queue *q, double now, double seconds);

#endif
