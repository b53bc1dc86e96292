/* libFuzzer target: any bytes as a MAVLink stream, in pieces, with and without a key. What is received must encode to a
 * frame that is received as the same message. */
#include "fuzz.h"
#include "mavlink/codec.h"

static void encode_again(const hb_mav_received *r)
{
    union {
        uint64_t align;
        uint8_t byte[512];
    } body, back;
    uint8_t frame[HB_MAV_FRAME];
    hb_mav_parser p = {0};
    hb_mav_received again;
    const uint8_t *at = frame;

    hb_mav_unpack(r->message, r->payload, r->length, &body);
    size_t n = (size_t)hb_mav_encode(frame, r->message->id, &body, r->from, r->sequence, NULL);
    if (!hb_mav_parse(&p, &at, &n, NULL, &again) || again.message != r->message || again.sequence != r->sequence)
        abort();
    hb_mav_unpack(again.message, again.payload, again.length, &back);
    if (memcmp(&body, &back, r->message->size) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hb_mav_signing signing = {.key = {1}};
    hb_mav_parser plain = {0}, judged = {0};
    hb_mav_received r;

    /* the first byte says how long the pieces are */
    size_t piece = size ? (size_t)data[0] + 1 : 1;
    for (size_t at = 1; at < size; at += piece) {
        size_t n = size - at < piece ? size - at : piece, left = n;
        const uint8_t *next = data + at;
        while (hb_mav_parse(&plain, &next, &left, NULL, &r))
            encode_again(&r);
        for (next = data + at, left = n; hb_mav_parse(&judged, &next, &left, &signing, &r);)
            ;
    }
    return 0;
}
