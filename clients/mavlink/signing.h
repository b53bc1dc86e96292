/* MAVLink 2 signing: SHA-256 of a shared key and the frame, and a time that may only grow.
 *
 *     link 1 | time 6, units of 10 us since 2015-01-01 | first 6 bytes of SHA-256(key | frame with crc | link | time)
 *
 * A stream is a (system, component, link). A frame of a known stream must be newer than the one before it; the first of
 * an unknown stream may be at most a minute older than our own time. Our own time is never behind what was accepted. */
#ifndef HB_MAVLINK_SIGNING_H
#define HB_MAVLINK_SIGNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HB_MAV_SIGNATURE = 13, HB_MAV_KEY = 32, HB_MAV_STREAMS = 16 };

typedef struct hb_mav_stream {
    uint8_t system, component, link;
    uint64_t time;
} hb_mav_stream;

typedef struct hb_mav_signing {
    uint8_t key[HB_MAV_KEY];
    uint8_t link;  /* ours */
    uint64_t time; /* units of 10 us since 2015: of the last frame signed or accepted */
    int nstreams;
    hb_mav_stream stream[HB_MAV_STREAMS];
} hb_mav_signing;

typedef enum { HB_MAV_ACCEPTED, HB_MAV_BAD_SIGNATURE, HB_MAV_REPLAYED } hb_mav_verdict;

void hb_sha256(const void *data, size_t n, uint8_t digest[32]);

/* Moves our time up to the wall clock's, microseconds since 1970. */
void hb_mav_signing_clock(hb_mav_signing *s, uint64_t unix_us);
/* The last 13 bytes of a frame, whose n bytes end with its CRC. */
void hb_mav_sign(hb_mav_signing *s, const uint8_t *frame, size_t n, uint8_t signature[HB_MAV_SIGNATURE]);
/* Judges a frame of n bytes, CRC included, from system and component. */
hb_mav_verdict hb_mav_verify(hb_mav_signing *s, const uint8_t *frame, size_t n, uint8_t system, uint8_t component,
                             const uint8_t signature[HB_MAV_SIGNATURE]);

#endif
