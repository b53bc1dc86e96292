/* Shared by the files of the wire, and private to them. */
#ifndef HB_WIRE_INTERNAL_H
#define HB_WIRE_INTERNAL_H

#include "bump.h"
#include "hilbert.pb-c.h"
#include "server/wire.h"

struct hb_wire {
    hb_wire_sizes sizes;
    hb_bump in;                                /* what was read */
    const Hilbert__V1__ActionRequest *request; /* in it, the newest that was a request */
    hb_bump out;                               /* scratch of what is written */
    uint8_t *frame;
    size_t nframe;
};

/* Packs a message into the frame; 0 bytes when it does not fit, which sizes rule out. */
size_t hb_wire_pack(hb_wire *w, const ProtobufCMessage *m, const void **ret);
/* Numbers of the covariance's lower triangles. */
size_t hb_wire_packed_covariance(const hb_wire_sizes *s);

#endif
