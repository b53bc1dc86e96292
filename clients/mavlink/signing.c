#include "mavlink/signing.h"

#include <string.h>

/* --- SHA-256 (FIPS 180-4) --- */

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void compress(uint32_t h[8], const uint8_t block[64])
{
    uint32_t w[64], s[8];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t b = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        uint32_t t1 = s[7] + b + ((s[4] & s[5]) ^ (~s[4] & s[6])) + round_constant[i] + w[i];
        uint32_t a = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        uint32_t t2 = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        h[i] += s[i];
}

void hb_sha256(const void *data, size_t n, uint8_t digest[32])
{
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *at = data;
    uint8_t last[128] = {0};
    size_t left = n;

    for (; left >= 64; left -= 64, at += 64)
        compress(h, at);
    /* what is left, a one, zeros, and the length in bits */
    if (left)
        memcpy(last, at, left);
    last[left] = 0x80;
    size_t size = left < 56 ? 64 : 128;
    for (size_t i = 0; i < 8; i++)
        last[size - 1 - i] = (uint8_t)((uint64_t)n * 8 >> 8 * i);
    for (size_t i = 0; i < size; i += 64)
        compress(h, last + i);
    for (int i = 0; i < 32; i++)
        digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

/* --- signatures --- */

enum { LONGEST_FRAME = 280, TIME_BYTES = 6, HASH_BYTES = 6 };

static const uint64_t epoch_2015_us = 1420070400000000, a_minute = 6000000;

static void compute(const hb_mav_signing *s, const uint8_t *frame, size_t n, const uint8_t *link_and_time,
                    uint8_t hash[HASH_BYTES])
{
    uint8_t text[HB_MAV_KEY + LONGEST_FRAME + 1 + TIME_BYTES], digest[32];

    memcpy(text, s->key, HB_MAV_KEY);
    memcpy(text + HB_MAV_KEY, frame, n);
    memcpy(text + HB_MAV_KEY + n, link_and_time, 1 + TIME_BYTES);
    hb_sha256(text, HB_MAV_KEY + n + 1 + TIME_BYTES, digest);
    memcpy(hash, digest, HASH_BYTES);
}

void hb_mav_signing_clock(hb_mav_signing *s, uint64_t unix_us)
{
    uint64_t time = unix_us > epoch_2015_us ? (unix_us - epoch_2015_us) / 10 : 0;
    if (time > s->time)
        s->time = time;
}

void hb_mav_sign(hb_mav_signing *s, const uint8_t *frame, size_t n, uint8_t signature[HB_MAV_SIGNATURE])
{
    s->time++; /* no two frames have the same time */
    signature[0] = s->link;
    for (int i = 0; i < TIME_BYTES; i++)
        signature[1 + i] = (uint8_t)(s->time >> 8 * i);
    compute(s, frame, n, signature, signature + 1 + TIME_BYTES);
}

hb_mav_verdict hb_mav_verify(hb_mav_signing *s, const uint8_t *frame, size_t n, uint8_t system, uint8_t component,
                             const uint8_t signature[HB_MAV_SIGNATURE])
{
    uint8_t hash[HASH_BYTES], link = signature[0], differs = 0;
    uint64_t time = 0;
    hb_mav_stream *stream = NULL;

    compute(s, frame, n, signature, hash);
    for (int i = 0; i < HASH_BYTES; i++)
        differs |= (uint8_t)(hash[i] ^ signature[1 + TIME_BYTES + i]);
    if (differs)
        return HB_MAV_BAD_SIGNATURE;
    for (int i = 0; i < TIME_BYTES; i++)
        time |= (uint64_t)signature[1 + i] << 8 * i;
    for (int i = 0; i < s->nstreams; i++)
        if (s->stream[i].system == system && s->stream[i].component == component && s->stream[i].link == link)
            stream = &s->stream[i];
    if (stream ? time <= stream->time : time + a_minute < s->time || s->nstreams == HB_MAV_STREAMS)
        return HB_MAV_REPLAYED;
    if (!stream) {
        stream = &s->stream[s->nstreams++];
        *stream = (hb_mav_stream){system, component, link, 0};
    }
    stream->time = time;
    if (time > s->time)
        s->time = time;
    return HB_MAV_ACCEPTED;
}
