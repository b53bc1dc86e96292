/* What the server needs of its sockets: ZeroMQ's in the daemon (sockets.c), messages in memory under a simulated clock
 * (tests/world). */
#ifndef HB_TRANSPORT_H
#define HB_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    HB_CHANNEL_TELEMETRY,
    HB_CHANNEL_ACTIONS,
    HB_CHANNEL_CONTROL,
    HB_CHANNEL_STATUS,
    HB_NCHANNELS
} hb_channel;

enum { HB_ENVELOPE_FRAMES = 4, HB_ENVELOPE_SIZE = 512 };

/* The frames before the message, to be sent before its reply: routing id, and what REQ sockets add. */
typedef struct hb_envelope {
    int key;       /* that the client proved to have: 1 + its number among the keys admitted; 0: none */
    bool observer; /* it may ask, and change nothing */
    int nframes;
    size_t size[HB_ENVELOPE_FRAMES];
    uint8_t data[HB_ENVELOPE_SIZE]; /* one after the other */
} hb_envelope;

typedef struct hb_frame {
    const void *data;
    size_t size;
} hb_frame;

/* What receive returns in place of a size: there is no message; its envelope is too large for it to be answered; the
 * message is too large, and its envelope alone is of use. */
enum { HB_NOTHING = -1, HB_UNANSWERABLE = -2, HB_OVERSIZED = -3 };

enum { HB_VERDICT_SIZE = 320 };
/* What judge returns. */
enum { HB_NOBODY, HB_ADMITTED, HB_STRANGER, HB_WITHOUT_RIGHT };
/* What tend returns. */
enum { HB_MISLED = 1, HB_CROWDED = 2, HB_FLOODED = 4 };

typedef struct hb_transport {
    void *context;
    /* A message: the envelope, then its last frame, which stays where it is until the next call. Returns its size, or
     * one of the above; no frame is taken that has more than `most` bytes. Never waits. */
    int (*receive)(void *context, hb_channel from, hb_envelope *e, int most, const uint8_t **ret_frame);
    /* A message of n frames; false when it cannot be delivered. Never waits. */
    bool (*send)(void *context, hb_channel to, const hb_frame *frame, int n);
    /* The name that a key is known by. NULL: keys have none. */
    const char *(*name_of)(void *context, int key);
    /* Whether a name (routing id) stays with the connection that has it, also when another comes with the same: else
     * the newer one takes it. NULL: names do not change hands. */
    void (*keep_names)(void *context, bool on);
    /* Sleeps until a message comes in, a descriptor becomes readable, or so many seconds have passed. */
    void (*wait)(void *context, const int *fd, int nfds, double seconds);
    /* Judges one client that wants to be let in: it is admitted, not known, or known without the right to this socket
     * (`why` says so in words, with its name), or nobody wants to. NULL: everyone is. */
    int (*judge)(void *context, char why[HB_VERDICT_SIZE]);
    /* Looks after connections: HB_MISLED when a handshake failed before there was anyone to judge, HB_CROWDED when
     * one was turned away because there are too many, HB_FLOODED when they came too fast. NULL: there are none. */
    int (*tend)(void *context);
} hb_transport;

#endif
