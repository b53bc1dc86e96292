/* The daemon's sockets: opened from the configuration or taken over from the service manager, and guarded.
 *
 * ipc endpoints are guarded by file permissions (sockets.mode). tcp endpoints are guarded by CURVE: the daemon is the
 * CURVE server on every one of them, whoever connects, and admits the client keys of the configuration through ZAP,
 * each to the sockets that it has a right to. */
#ifndef HB_SOCKETS_H
#define HB_SOCKETS_H

#include "config/config.h"
#include "process/access.h"
#include "process/log.h"
#include "process/notify.h"
#include "server/transport.h"

enum { HB_TOKEN_DIGITS = 32 };

typedef struct hb_sockets {
    void *context;
    void *channel[HB_NCHANNELS]; /* SUB, ROUTER, ROUTER, PUB */
    void *message;               /* zmq_msg_t: the newest that was received */
    void *zap;                   /* REP, or NULL without CURVE */
    void *watch[HB_NCHANNELS];   /* of their connections and handshakes */
    int npaths;
    char path[4 * HB_MAX_ENDPOINTS][HB_ENDPOINT_SIZE]; /* of ipc sockets that we made: to be removed at the end */
    hb_access *access;                                 /* who is admitted where; NULL without CURVE */
    char token[HB_TOKEN_DIGITS + 1];                   /* marks the user ids that are ours; hex */
    bool keep_names;                                   /* see hb_transport, */
    bool names_kept[HB_NCHANNELS];                     /* and what libzmq was told */
    double called;                                     /* when libzmq was last called, hb_now; */
    double returning_until;                            /* after a pause, until when clients may come back */
} hb_sockets;

/* With an inherited listening socket of a socket's name ("telemetry", "actions", "control", "status"), that one takes
 * the place of the configured endpoints. */
int hb_sockets_open(hb_sockets *ret, const hb_config *c, const hb_inherited *inherited, hb_log *log, hb_error *err);
/* Sends out what is still to be sent, for half a second at most. */
void hb_sockets_close(hb_sockets *s);

/* hb_envelope.key of the client that flies; 0: any. */
int hb_sockets_pilot_key(const hb_sockets *s);

/* These sockets for the server; they must stay where they are. */
hb_transport hb_sockets_transport(hb_sockets *s);

#endif
