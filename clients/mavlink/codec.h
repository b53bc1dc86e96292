/* MAVLink 2 on the wire: frames out of a stream of bytes, messages out of frames, and back. Nothing is allocated.
 *
 *     FD  length  incompat  compat  sequence  system  component  id[3]  payload  crc[2]  [link  time[6]  signature[6]]
 *
 * Little-endian. The CRC covers everything after FD and the message's CRC_EXTRA. Zero bytes at the payload's end are
 * cut off by the sender (the first byte stays) and filled in again here; surplus bytes of newer definitions are
 * ignored. Frames with incompat bits that we do not know are dropped, as are messages that are not in the table. */
#ifndef HB_MAVLINK_CODEC_H
#define HB_MAVLINK_CODEC_H

#include <stdbool.h>
#include <stddef.h>

#include "mavlink/messages.h"
#include "mavlink/signing.h"

enum {
    HB_MAV_MARK = 0xFD,
    HB_MAV_HEADER = 10,
    HB_MAV_PAYLOAD = 255,
    HB_MAV_FRAME = HB_MAV_HEADER + HB_MAV_PAYLOAD + 2 + HB_MAV_SIGNATURE, /* longest */
    HB_MAV_SIGNED = 1,                                                    /* of the incompat bits */
};

typedef struct hb_mav_field {
    const char *name, *type; /* as MAVLink spells them */
    uint8_t size;            /* bytes of an element */
    uint8_t count;           /* elements */
    bool array, extension;
} hb_mav_field;

typedef struct hb_mav_message {
    const char *name;
    uint32_t id;
    uint8_t crc_extra;
    const hb_mav_field *field; /* in the order of the wire */
    int nfields;
    size_t size; /* of the structure */
} hb_mav_message;

/* NULL: not in the table. */
const hb_mav_message *hb_mav_find(uint32_t id);
const hb_mav_message *hb_mav_at(int index);
/* Bytes of a payload, with and without extensions. */
int hb_mav_length(const hb_mav_message *m, bool extensions);

/* A structure as payload (at least HB_MAV_PAYLOAD bytes): returns its length, cut after the last byte that is not
 * zero. */
int hb_mav_pack(const hb_mav_message *m, const void *structure, uint8_t *payload);
/* And back; what is missing becomes zero. */
void hb_mav_unpack(const hb_mav_message *m, const uint8_t *payload, int length, void *structure);

/* CRC-16/MCRF4XX, which MAVLink calls X.25: begin with 0xFFFF. */
uint16_t hb_mav_crc(uint16_t crc, const void *data, size_t n);

typedef struct hb_mav_address {
    uint8_t system, component;
} hb_mav_address;

/* One frame, complete, into `frame` (HB_MAV_FRAME bytes): returns its length. signing may be NULL: not signed. */
int hb_mav_encode(uint8_t *frame, uint32_t id, const void *structure, hb_mav_address from, uint8_t sequence,
                  hb_mav_signing *signing);

/* A frame that was received and is in order. */
typedef struct hb_mav_received {
    const hb_mav_message *message;
    hb_mav_address from;
    uint8_t sequence;
    int length;
    const uint8_t *payload; /* valid until the next call */
} hb_mav_received;

/* Why bytes and frames were not used. */
typedef struct hb_mav_counters {
    uint64_t frames;  /* in order, known to us */
    uint64_t unknown; /* messages that are not in the table (or noise that looks like one) */
    uint64_t bad_crc;
    uint64_t incompatible; /* unknown incompat bits */
    uint64_t unsigned_;    /* without a signature where one is asked for */
    uint64_t bad_signature;
    uint64_t replayed; /* signed, but not newer than what came before */
    uint64_t skipped;  /* bytes outside of frames */
} hb_mav_counters;

typedef struct hb_mav_parser {
    uint8_t buffer[2 * HB_MAV_FRAME];
    int first, end; /* bytes first..end-1 wait */
    hb_mav_counters counters;
} hb_mav_parser;

/* Takes bytes from *data, *n (which are moved on) until a frame is complete; false: all are used up, and more are
 * needed. With `signing`, only frames that it accepts are handed out. */
bool hb_mav_parse(hb_mav_parser *p, const uint8_t **data, size_t *n, hb_mav_signing *signing, hb_mav_received *ret);

#endif
