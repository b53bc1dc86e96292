/* Why a client and the daemon do not connect. libzmq keeps trying and reports nothing, but a monitor of the socket sees
 * how each attempt ends. */
#ifndef HILBERT_HANDSHAKE_H
#define HILBERT_HANDSHAKE_H

#include <stdbool.h>

/* What was seen so far. */
typedef struct hb_handshakes {
    bool connected;   /* somebody listens there */
    bool succeeded;   /* and is satisfied with our keys */
    bool refused;     /* the daemon does not know the client's key */
    bool failed;      /* the handshake ended otherwise: another server key, or keys on one side only */
    bool turned_away; /* of a socket that is bound: a connection came, and could not be let in */
} hb_handshakes;

/* Call it before the socket is bound or connected. Returns a socket for hb_handshake_read, which must be closed before
 * the context ends; NULL when it cannot be made. */
void *hb_handshake_watch(void *context, void *socket);
/* Adds what has happened since. False when nothing has. watch may be NULL. */
bool hb_handshake_read(void *watch, hb_handshakes *h);
/* What a client tells its user, who gave keys or gave none. */
const char *hb_handshake_advice(const hb_handshakes *h, bool keys);

#endif
