#include "mavlink/codec.h"

#include <string.h>

/* --- the table --- */

#define F(type, name)    {#name, #type, sizeof(type), 1, false, false},
#define A(type, name, n) {#name, #type, sizeof(type), n, true, false},
#define X(type, name)    {#name, #type, sizeof(type), 1, false, true},
#define Y(type, name, n) {#name, #type, sizeof(type), n, true, true},
#define M(message, structure, number, extra)                                                                           \
    static const hb_mav_field structure##_field[] = {HB_MAV_##message(F, A, X, Y)};
HB_MAV_MESSAGES(M)
#undef M
#undef F
#undef A
#undef X
#undef Y

static const hb_mav_message table[] = {
#define M(message, structure, number, extra)                                                                           \
    {#message,                                                                                                         \
     number,                                                                                                           \
     extra,                                                                                                            \
     structure##_field,                                                                                                \
     sizeof structure##_field / sizeof *structure##_field,                                                             \
     sizeof(hb_mav_##structure)},
    HB_MAV_MESSAGES(M)
#undef M
};

enum { NMESSAGES = sizeof table / sizeof *table };

const hb_mav_message *hb_mav_at(int index)
{
    return index >= 0 && index < NMESSAGES ? &table[index] : NULL;
}

const hb_mav_message *hb_mav_find(uint32_t id)
{
    for (int i = 0; i < NMESSAGES; i++)
        if (table[i].id == id)
            return &table[i];
    return NULL;
}

int hb_mav_length(const hb_mav_message *m, bool extensions)
{
    int length = 0;

    for (int i = 0; i < m->nfields; i++)
        if (extensions || !m->field[i].extension)
            length += m->field[i].size * m->field[i].count;
    return length;
}

/* --- payloads --- */

/* Copies an element of 1, 2, 4 or 8 bytes between the machine's order and little-endian. */
static void copy_element(uint8_t *to, const uint8_t *from, int size)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int i = 0; i < size; i++)
        to[i] = from[size - 1 - i];
#else
    memcpy(to, from, (size_t)size);
#endif
}

/* Where the field after `offset` bytes of the structure lies. */
static size_t aligned(size_t offset, int size)
{
    return (offset + (size_t)size - 1) / (size_t)size * (size_t)size;
}

int hb_mav_pack(const hb_mav_message *m, const void *structure, uint8_t *payload)
{
    size_t from = 0;
    int length = 0;

    for (int i = 0; i < m->nfields; i++) {
        int size = m->field[i].size;
        from = aligned(from, size);
        for (int k = 0; k < m->field[i].count; k++, from += (size_t)size, length += size)
            copy_element(payload + length, (const uint8_t *)structure + from, size);
    }
    while (length > 1 && payload[length - 1] == 0)
        length--;
    return length;
}

void hb_mav_unpack(const hb_mav_message *m, const uint8_t *payload, int length, void *structure)
{
    uint8_t whole[HB_MAV_PAYLOAD] = {0};
    size_t to = 0;
    int at = 0;

    memcpy(whole, payload, (size_t)length);
    memset(structure, 0, m->size);
    for (int i = 0; i < m->nfields; i++) {
        int size = m->field[i].size;
        to = aligned(to, size);
        for (int k = 0; k < m->field[i].count; k++, to += (size_t)size, at += size)
            copy_element((uint8_t *)structure + to, whole + at, size);
    }
}

uint16_t hb_mav_crc(uint16_t crc, const void *data, size_t n)
{
    const uint8_t *at = data;

    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 1 ? crc >> 1 ^ 0x8408 : crc >> 1);
    }
    return crc;
}

/* --- frames --- */

/* Of a whole frame, from FD on, with a payload of `length`. */
static uint16_t frame_crc(const hb_mav_message *m, const uint8_t *frame, int length)
{
    return hb_mav_crc(hb_mav_crc(0xFFFF, frame + 1, (size_t)(HB_MAV_HEADER - 1 + length)), &m->crc_extra, 1);
}

int hb_mav_encode(uint8_t *frame, uint32_t id, const void *structure, hb_mav_address from, uint8_t sequence,
                  hb_mav_signing *signing)
{
    const hb_mav_message *m = hb_mav_find(id);
    int length = hb_mav_pack(m, structure, frame + HB_MAV_HEADER), end = HB_MAV_HEADER + length;
    const uint8_t header[HB_MAV_HEADER] = {
        HB_MAV_MARK, (uint8_t)length,    signing ? HB_MAV_SIGNED : 0, 0, sequence, from.system, from.component,
        (uint8_t)id, (uint8_t)(id >> 8), (uint8_t)(id >> 16)};

    memcpy(frame, header, sizeof header);
    uint16_t crc = frame_crc(m, frame, length);
    frame[end++] = (uint8_t)crc;
    frame[end++] = (uint8_t)(crc >> 8);
    if (signing) {
        hb_mav_sign(signing, frame, (size_t)end, frame + end);
        end += HB_MAV_SIGNATURE;
    }
    return end;
}

typedef enum { NEED_MORE, NO_FRAME, REFUSED_FRAME, FRAME } finding;

/* Looks at the bytes from a mark on. *size: of the frame, where there is one. */
static finding look(hb_mav_parser *p, const uint8_t *at, int n, hb_mav_signing *signing, hb_mav_received *ret,
                    int *size)
{
    if (n < HB_MAV_HEADER)
        return NEED_MORE;
    uint32_t id = (uint32_t)at[7] | (uint32_t)at[8] << 8 | (uint32_t)at[9] << 16;
    const hb_mav_message *m = hb_mav_find(id);
    int length = at[1], end = HB_MAV_HEADER + length + 2;
    bool is_signed = at[2] & HB_MAV_SIGNED;

    /* before the payload is waited for: most noise ends here */
    if (at[2] & ~HB_MAV_SIGNED) {
        p->counters.incompatible++;
        return NO_FRAME;
    }
    if (!m) {
        p->counters.unknown++;
        return NO_FRAME;
    }
    *size = end + (is_signed ? HB_MAV_SIGNATURE : 0);
    if (n < *size)
        return NEED_MORE;
    uint16_t crc = frame_crc(m, at, length);
    if (at[end - 2] != (uint8_t)crc || at[end - 1] != (uint8_t)(crc >> 8)) {
        p->counters.bad_crc++;
        return NO_FRAME;
    }
    if (signing && !is_signed) {
        p->counters.unsigned_++;
        return REFUSED_FRAME;
    }
    if (signing) {
        hb_mav_verdict verdict = hb_mav_verify(signing, at, (size_t)end, at[5], at[6], at + end);
        p->counters.bad_signature += verdict == HB_MAV_BAD_SIGNATURE;
        p->counters.replayed += verdict == HB_MAV_REPLAYED;
        if (verdict != HB_MAV_ACCEPTED)
            return REFUSED_FRAME;
    }
    p->counters.frames++;
    *ret = (hb_mav_received){m, {at[5], at[6]}, at[4], length, at + HB_MAV_HEADER};
    return FRAME;
}

bool hb_mav_parse(hb_mav_parser *p, const uint8_t **data, size_t *n, hb_mav_signing *signing, hb_mav_received *ret)
{
    for (;;) {
        /* to the next mark */
        while (p->first < p->end && p->buffer[p->first] != HB_MAV_MARK) {
            p->first++;
            p->counters.skipped++;
        }
        int size = 0;
        switch (p->first < p->end ? look(p, p->buffer + p->first, p->end - p->first, signing, ret, &size) : NEED_MORE) {
        case FRAME:
            p->first += size;
            return true;
        case REFUSED_FRAME:
            p->first += size;
            continue;
        case NO_FRAME: /* a frame may begin within what looked like one */
            p->first++;
            p->counters.skipped++;
            continue;
        case NEED_MORE:
            break;
        }
        if (*n == 0)
            return false;
        /* a frame that is not complete always fits behind the move */
        if (p->end == (int)sizeof p->buffer) {
            memmove(p->buffer, p->buffer + p->first, (size_t)(p->end - p->first));
            p->end -= p->first;
            p->first = 0;
        }
        size_t room = sizeof p->buffer - (size_t)p->end, take = *n < room ? *n : room;
        memcpy(p->buffer + p->end, *data, take);
        p->end += (int)take;
        *data += take;
        *n -= take;
    }
}
