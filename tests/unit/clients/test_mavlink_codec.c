/* The codec against frames of an independent implementation (tests/data/mavlink/golden.js), against CRC_EXTRA computed
 * from the table, and against noise. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mavlink/codec.h"

/* bytes of every message's structure, and to spare */
typedef union body {
    uint64_t align;
    uint8_t byte[512];
} body;

/* MAVLink's rule: the CRC of "NAME type field type field[n] ..." without extensions */
static void crc_extra_follows_from_the_fields(void **state)
{
    (void)state;
    for (int i = 0; hb_mav_at(i); i++) {
        const hb_mav_message *m = hb_mav_at(i);
        uint16_t crc = hb_mav_crc(0xFFFF, m->name, strlen(m->name));
        crc = hb_mav_crc(crc, " ", 1);
        int before = 8;
        for (int f = 0; f < m->nfields && !m->field[f].extension; f++) {
            const hb_mav_field *field = &m->field[f];
            assert_true(field->size <= before); /* sorted by size */
            before = field->size;
            crc = hb_mav_crc(crc, field->type, strlen(field->type));
            crc = hb_mav_crc(crc, " ", 1);
            crc = hb_mav_crc(crc, field->name, strlen(field->name));
            crc = hb_mav_crc(crc, " ", 1);
            if (field->array)
                crc = hb_mav_crc(crc, &field->count, 1);
        }
        if (m->crc_extra != ((crc & 0xFF) ^ (crc >> 8)))
            fail_msg("%s: CRC_EXTRA %d, its fields give %d", m->name, m->crc_extra, (crc & 0xFF) ^ (crc >> 8));
        assert_true(m->size <= sizeof(body));
        assert_true(hb_mav_length(m, true) <= HB_MAV_PAYLOAD);
    }
}

static int from_hex(const char *text, uint8_t *to)
{
    int n = 0;
    for (unsigned byte; sscanf(text + 2 * n, "%2x", &byte) == 1; n++)
        to[n] = (uint8_t)byte;
    return n;
}

static bool parse_one(hb_mav_parser *p, const uint8_t *frame, int n, hb_mav_signing *signing, hb_mav_received *ret)
{
    size_t left = (size_t)n;
    return hb_mav_parse(p, &frame, &left, signing, ret);
}

/* One element of a structure as a number; integers of 64 bits as text would lose digits as a double. */
static bool element_is(const hb_mav_field *f, const uint8_t *at, const char *text)
{
    if (strcmp(f->type, "float") == 0) {
        float v;
        memcpy(&v, at, 4);
        return v == strtof(text, NULL);
    }
    uint64_t expected = *text == '-' ? (uint64_t)strtoll(text, NULL, 10) : strtoull(text, NULL, 10), found = 0;
    memcpy(&found, at, f->size);
    return found == (f->size == 8 ? expected : expected & (((uint64_t)1 << 8 * f->size) - 1));
}

/* Holds the structure against "name=value,value name=value ..." */
static void compare_fields(const hb_mav_message *m, const uint8_t *structure, char *words)
{
    size_t at = 0;
    int f = 0;

    for (char *word = strtok(words, " \n"); word; word = strtok(NULL, " \n"), f++) {
        char *values = strchr(word, '=');
        const hb_mav_field *field = &m->field[f];
        assert_non_null(values);
        *values++ = 0;
        assert_string_equal(word, field->name);
        at = (at + field->size - 1) / field->size * field->size;
        if (strcmp(field->type, "char") == 0) {
            assert_int_equal(strlen(values), strnlen((const char *)structure + at, field->count));
            assert_memory_equal(values, structure + at, strlen(values));
            at += field->count;
            continue;
        }
        for (int k = 0; k < field->count; k++, at += field->size) {
            if (!element_is(field, structure + at, values))
                fail_msg("%s.%s[%d]: not %s", m->name, field->name, k, values);
            values += strcspn(values, ",");
            values += *values == ',';
        }
    }
    assert_int_equal(f, m->nfields);
}

static void frames_are_those_of_another_implementation(void **state)
{
    (void)state;
    char path[1024], line[16384], name[64], hex[1200];
    snprintf(path, sizeof path, "%s/mavlink/golden.txt", getenv("HILBERT_TEST_DATA"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    int compared = 0, compared_signed = 0, empty = 0;
    body b = {0};
    hb_mav_address from = {0};
    uint8_t sequence = 0;
    uint32_t id = 0;

    while (fgets(line, sizeof line, file)) {
        uint8_t golden[HB_MAV_FRAME], ours[HB_MAV_FRAME];
        hb_mav_parser p = {0};
        hb_mav_received r;
        int words, seq, system, component, link;
        unsigned long long time;

        if (sscanf(line, "signed %64s %d %llu %1199s", path, &link, &time, hex) == 4) {
            hb_mav_signing signing = {.link = (uint8_t)link, .time = time - 1}, judge = {0};
            int n = from_hex(hex, golden);
            assert_int_equal(from_hex(path, signing.key), HB_MAV_KEY);
            memcpy(judge.key, signing.key, HB_MAV_KEY);
            assert_true(parse_one(&p, golden, n, &judge, &r));
            if (golden[1] == 0) /* see below */
                continue;
            assert_int_equal(hb_mav_encode(ours, id, &b, from, sequence, &signing), n);
            assert_memory_equal(ours, golden, (size_t)n);
            compared_signed++;
            continue;
        }
        assert_int_equal(sscanf(line, "%63s %d %d %d %1199s %n", name, &seq, &system, &component, hex, &words), 5);
        int n = from_hex(hex, golden);
        if (!parse_one(&p, golden, n, NULL, &r))
            fail_msg("%s: not understood: %s", name, hex);
        assert_string_equal(r.message->name, name);
        assert_int_equal(r.sequence, seq);
        assert_int_equal(r.from.system, system);
        assert_int_equal(r.from.component, component);
        hb_mav_unpack(r.message, r.payload, r.length, &b);
        compare_fields(r.message, b.byte, line + words);

        id = r.message->id;
        from = r.from;
        sequence = r.sequence;
        /* of a payload of zeros MAVLink keeps the first byte; node-mavlink cuts that, too */
        if (golden[1] == 0) {
            uint8_t payload[HB_MAV_PAYLOAD];
            assert_int_equal(hb_mav_pack(r.message, &b, payload), 1);
            empty++;
            continue;
        }
        assert_int_equal(hb_mav_encode(ours, id, &b, from, sequence, NULL), n);
        assert_memory_equal(ours, golden, (size_t)n);
        compared++;
    }
    fclose(file);
    assert_int_equal(compared, 66);
    assert_int_equal(compared_signed, 66);
    assert_int_equal(empty, 22);
}

static int encode_heartbeat(uint8_t *frame, uint8_t sequence, hb_mav_signing *signing)
{
    hb_mav_heartbeat h = {.custom_mode = 0x060000FD, .type = 2, .autopilot = 12, .mavlink_version = 3};
    return hb_mav_encode(frame, HB_MAV_ID_HEARTBEAT, &h, (hb_mav_address){1, 1}, sequence, signing);
}

/* frames in noise that is full of marks, in pieces of any size: none is lost */
static void frames_are_found_in_noise(void **state)
{
    (void)state;
    static uint8_t stream[200000];
    size_t n = 0;
    unsigned draw = 1;
    int sent = 0, found = 0;

    while (n + 2 * HB_MAV_FRAME < sizeof stream) {
        draw = draw * 1664525u + 1013904223u;
        for (unsigned i = draw >> 26; i > 0; i--) {
            draw = draw * 1664525u + 1013904223u;
            stream[n++] = draw >> 30 ? (uint8_t)(draw >> 20) : HB_MAV_MARK;
        }
        n += (size_t)encode_heartbeat(stream + n, (uint8_t)sent++, NULL);
    }
    /* a mark in the last noise may begin what looks like a frame that is not over yet */
    memset(stream + n, 0, HB_MAV_FRAME);
    n += HB_MAV_FRAME;
    for (size_t piece = 1; piece < 3000; piece = piece * 3 + 1) {
        hb_mav_parser p = {0};
        hb_mav_received r;
        found = 0;
        for (size_t at = 0; at < n; at += piece) {
            const uint8_t *data = stream + at;
            size_t left = n - at < piece ? n - at : piece;
            while (hb_mav_parse(&p, &data, &left, NULL, &r)) {
                assert_int_equal(r.sequence, (uint8_t)found);
                found++;
            }
        }
        assert_int_equal(found, sent);
        assert_int_equal(p.counters.frames, sent);
    }
}

/* any single byte that is changed makes a frame that is dropped, or another message */
static void damaged_frames_are_dropped(void **state)
{
    (void)state;
    uint8_t frame[HB_MAV_FRAME + 300] = {0};
    int n = encode_heartbeat(frame, 7, NULL);

    for (int i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            hb_mav_parser p = {0};
            hb_mav_received r;
            frame[i] ^= (uint8_t)(1 << bit);
            assert_false(parse_one(&p, frame, (int)sizeof frame, NULL, &r));
            frame[i] ^= (uint8_t)(1 << bit);
        }
}

static void unknown_incompat_bits_are_dropped(void **state)
{
    (void)state;
    uint8_t frame[HB_MAV_FRAME];
    int n = encode_heartbeat(frame, 7, NULL);
    hb_mav_parser p = {0};
    hb_mav_received r;

    /* with a CRC that is right, so that nothing but the bit stands against it */
    frame[2] = 2;
    uint8_t extra = 50;
    uint16_t crc = hb_mav_crc(hb_mav_crc(0xFFFF, frame + 1, (size_t)n - 3), &extra, 1);
    frame[n - 2] = (uint8_t)crc;
    frame[n - 1] = (uint8_t)(crc >> 8);
    assert_false(parse_one(&p, frame, n, NULL, &r));
    assert_int_equal(p.counters.incompatible, 1);
}

static void payloads_are_cut_and_filled_in(void **state)
{
    (void)state;
    const hb_mav_message *m = hb_mav_find(HB_MAV_ID_ODOMETRY);
    hb_mav_odometry o = {.time_usec = 0x0102030405060708, .x = 1.5f, .reset_counter = 9}, back;
    uint8_t payload[HB_MAV_PAYLOAD];

    assert_int_equal(hb_mav_length(m, false), 230);
    assert_int_equal(hb_mav_length(m, true), 233);
    assert_int_equal(hb_mav_pack(m, &o, payload), 231);
    assert_int_equal(payload[0], 8);
    assert_int_equal(payload[230], 9);
    o.reset_counter = 0;
    assert_int_equal(hb_mav_pack(m, &o, payload), 12);
    memset(&back, 0xFF, sizeof back);
    hb_mav_unpack(m, payload, 12, &back);
    assert_memory_equal(&back, &o, sizeof o);
    /* of a definition newer than ours the surplus is ignored */
    memset(payload, 0xAA, sizeof payload);
    hb_mav_unpack(m, payload, 255, &back);
    assert_int_equal(back.reset_counter, 0xAA);
}

static void sha256_gives_the_standard_s_digests(void **state)
{
    (void)state;
    static const struct {
        const char *text, *digest;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint8_t digest[32], expected[32];
        hb_sha256(known[i].text, strlen(known[i].text), digest);
        assert_int_equal(from_hex(known[i].digest, expected), 32);
        assert_memory_equal(digest, expected, 32);
    }
}

static void signatures_are_asked_for_and_count_once(void **state)
{
    (void)state;
    hb_mav_signing sender = {.key = {1, 2, 3}, .link = 4}, judge = {.key = {1, 2, 3}}, stranger = {.key = {1, 2, 4}};
    uint8_t frame[HB_MAV_FRAME], second[HB_MAV_FRAME];
    hb_mav_parser p = {0};
    hb_mav_received r;

    hb_mav_signing_clock(&sender, 1750000000000000);
    hb_mav_signing_clock(&judge, 1750000030000000);
    hb_mav_signing_clock(&stranger, 1750000030000000);
    int n = encode_heartbeat(frame, 0, &sender), n2 = encode_heartbeat(second, 1, &sender);

    assert_false(parse_one(&p, frame, n, &stranger, &r));
    assert_int_equal(p.counters.bad_signature, 1);
    /* half a minute behind, but within the minute of a stream that is new */
    assert_true(parse_one(&p, second, n2, &judge, &r));
    assert_false(parse_one(&p, second, n2, &judge, &r));
    assert_false(parse_one(&p, frame, n, &judge, &r));
    assert_int_equal(p.counters.replayed, 2);
    /* a link that was never heard of must not bring up what is old */
    sender.link = 5;
    sender.time -= 4000000;
    n = encode_heartbeat(frame, 0, &sender);
    assert_false(parse_one(&p, frame, n, &judge, &r));
    assert_int_equal(p.counters.replayed, 3);
    /* unsigned, where a key is set, is no message; where none is, a signature is no hindrance */
    n = encode_heartbeat(frame, 0, NULL);
    assert_false(parse_one(&p, frame, n, &judge, &r));
    assert_int_equal(p.counters.unsigned_, 1);
    assert_true(parse_one(&p, second, n2, NULL, &r));
    /* our own time goes on from what was accepted */
    uint64_t before = judge.time;
    encode_heartbeat(frame, 0, &judge);
    assert_true(judge.time > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_extra_follows_from_the_fields),
        cmocka_unit_test(frames_are_those_of_another_implementation),
        cmocka_unit_test(frames_are_found_in_noise),
        cmocka_unit_test(damaged_frames_are_dropped),
        cmocka_unit_test(unknown_incompat_bits_are_dropped),
        cmocka_unit_test(payloads_are_cut_and_filled_in),
        cmocka_unit_test(sha256_gives_the_standard_s_digests),
        cmocka_unit_test(signatures_are_asked_for_and_count_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
