#include "handshake.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <zmq.h>

enum {
    EVENTS = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
             ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_ACCEPT_FAILED,
};

void *hb_handshake_watch(void *context, void *socket)
{
    char endpoint[64];
    int zero = 0;

    snprintf(endpoint, sizeof endpoint, "inproc://handshakes-%p", socket);
    void *watch = zmq_socket(context, ZMQ_PAIR);
    if (!watch)
        return NULL;
    zmq_setsockopt(watch, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(watch, ZMQ_RCVHWM, &zero, sizeof zero); /* libzmq must never wait for us */
    if (zmq_socket_monitor(socket, endpoint, EVENTS) || zmq_connect(watch, endpoint)) {
        zmq_close(watch);
        return NULL;
    }
    return watch;
}

bool hb_handshake_read(void *watch, hb_handshakes *h)
{
    uint8_t frame[256];
    bool any = false;

    /* an event is a frame with its number, and one with the address */
    while (watch && zmq_recv(watch, frame, sizeof frame, ZMQ_DONTWAIT) >= (int)sizeof(uint16_t)) {
        uint16_t event;
        memcpy(&event, frame, sizeof event);
        zmq_recv(watch, frame, sizeof frame, ZMQ_DONTWAIT);
        h->connected |= event == ZMQ_EVENT_CONNECTED;
        h->succeeded |= event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
        h->refused |= event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
        h->failed |= event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL || event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
        h->turned_away |= event == ZMQ_EVENT_ACCEPT_FAILED;
        any = true;
    }
    return any;
}

const char *hb_handshake_advice(const hb_handshakes *h, bool keys)
{
    if (h->succeeded)
        return "it is connected: is the daemon busy?";
    if (h->refused)
        return "the daemon refuses our key: is our public key among its security.client_keys, or in its "
               "security.authorized_keys with the right to this socket?";
    if ((h->failed || h->connected) && keys)
        return "somebody listens there, but not with this server key: is it the daemon's public key?";
    if (h->failed || h->connected)
        return "somebody listens there, but wants keys: give the daemon's public and our secret key";
    return "is hilbertd running?";
}
