/* How many connections may come over the network in a short time: each costs a handshake, whoever it is.
 *
 * A leaking bucket for each address (a network of 64 bits with IPv6), found by a hash, and one for all of them. A
 * client takes four connections at most and stays; one that keeps coming is turned away by the rate at which its bucket
 * leaks, and those at other addresses do not notice. */
#ifndef HB_THROTTLE_H
#define HB_THROTTLE_H

#include <stdbool.h>

#include <sys/socket.h>

enum { HB_THROTTLE_ADDRESSES = 256 };
#define HB_THROTTLE_BURST     32.0  /* connections at once from one address, */
#define HB_THROTTLE_RATE      10.0  /* and then so many in a second */
#define HB_THROTTLE_ALL_BURST 128.0 /* the same from all of them together */
#define HB_THROTTLE_ALL_RATE  50.0

typedef struct hb_bucket {
    double level; /* connections, at this time: */
    double since;
} hb_bucket;

typedef struct hb_throttle {
    hb_bucket all, address[HB_THROTTLE_ADDRESSES];
} hb_throttle;

/* Whether a connection from this address may come in, at a time in seconds; then it counts. Those that do not come over
 * the network always may. */
bool hb_throttle_admit(hb_throttle *t, const struct sockaddr *from, double now);

#endif
