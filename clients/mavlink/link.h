/* The way to the autopilot: UDP, a serial line or TCP, never blocking, reopened by itself.
 *
 *     udp:PORT, udp:ADDRESS:PORT     wait there for the autopilot (without an address: this machine only) and answer
 *                                    whoever was found to be it; another takes its place after 3 s of silence
 *     udpout:HOST:PORT               speak first
 *     serial:DEVICE[:BAUD]           921600 unless given, to 3000000
 *     tcp:HOST:PORT                  simulators */
#ifndef HB_MAVLINK_LINK_H
#define HB_MAVLINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/base.h"

typedef enum { HB_LINK_UDP_SERVER, HB_LINK_UDP_CLIENT, HB_LINK_SERIAL, HB_LINK_TCP } hb_link_kind;

enum { HB_LINK_PENDING = 4096 };

typedef struct hb_link {
    hb_link_kind kind;
    char host[256], port[16]; /* the device is the host */
    int baud;
    int fd; /* -1: closed */
    bool connecting;
    double tried;                       /* when it was opened last, caller's clock */
    struct sockaddr_storage peer, from; /* UDP: who is answered, and who sent what was read last */
    socklen_t npeer, nfrom;             /* 0: nobody yet */
    double heard;                       /* from the peer */
    uint8_t pending[HB_LINK_PENDING];   /* bytes of frames that a serial line or TCP has not taken yet */
    size_t npending;
    uint64_t sent, dropped, strangers; /* frames out, frames for which there was no room, datagrams of others */
} hb_link;

/* Understands an address; opens nothing yet. */
int hb_link_parse(hb_link *l, const char *address, hb_error *err);
/* Opens what is closed, not more often than once a second; `now` in seconds. 0, or what is wrong at present. */
int hb_link_open(hb_link *l, double now, hb_error *err);
void hb_link_close(hb_link *l);

/* Bytes there are at present, at most n: 0 for none, -errno when the link broke and was closed. *ret_other (may be
 * NULL): they come from somebody else than those before, and do not continue them. */
ssize_t hb_link_read(hb_link *l, uint8_t *data, size_t n, double now, bool *ret_other);
/* What was read last was the autopilot's, beyond doubt: its sender is answered, and others are not listened to while it
 * speaks. Bytes alone make nobody a peer: a stranger with a byte of junk a second would block the link. */
void hb_link_confirm(hb_link *l, double now);
/* One whole frame. False: it was dropped. */
bool hb_link_write(hb_link *l, const uint8_t *frame, size_t n);
/* What poll is to wait for on l->fd; call hb_link_flush when it can be written to. */
short hb_link_events(const hb_link *l);
void hb_link_flush(hb_link *l);

#endif
