/* Messages come out as they went in, in turn, wherever in the ring they lie; what has no room is refused whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/numeric.h"
#include "process/message_ring.h"

enum { LARGEST = 200000 };

/* What the bytes of a message are, and how many, by its number. */
static uint8_t byte_of(uint64_t number, size_t i)
{
    return (uint8_t)(number * 31 + i * 7 + i / 251);
}

static uint32_t size_of(uint64_t number)
{
    const hb_random_key key = {.seed = 1};

    /* one in eight is empty */
    return hb_random_bits(key, 2 * number) % 8 ? (uint32_t)(hb_random_bits(key, 2 * number + 1) % (LARGEST + 1)) : 0;
}

static bool put(hb_message_ring *r, uint64_t number)
{
    static uint8_t data[LARGEST];
    const hb_ring_message m = {
        .size = size_of(number), .topic = (uint32_t)(number % 5), .log_time = number, .publish_time = ~number};
    const size_t na = m.size / 3;

    for (size_t i = 0; i < m.size; i++)
        data[i] = byte_of(number, i);
    return hb_message_ring_put(r, &m, data, na, data + na);
}

static bool take(hb_message_ring *r, uint64_t expected)
{
    static uint8_t data[LARGEST];
    hb_ring_message m;

    if (!hb_message_ring_take(r, &m, data))
        return false;
    assert_int_equal(m.log_time, expected);
    assert_int_equal(m.publish_time, ~expected);
    assert_int_equal(m.topic, expected % 5);
    assert_int_equal(m.size, size_of(expected));
    for (size_t i = 0; i < m.size; i++)
        if (data[i] != byte_of(expected, i))
            fail_msg("byte %zu of message %u", i, (unsigned)expected);
    return true;
}

static void test_messages_come_out_in_turn_and_whole(void **state)
{
    (void)state;
    const hb_random_key key = {.seed = 2};
    uint64_t in = 0, out = 0, refused = 0;
    hb_message_ring r;

    assert_int_equal(hb_message_ring_new(&r, LARGEST), 0);
    /* a dozen times round the ring, now nearly full and now empty */
    for (uint64_t step = 0; in < 500; step++) {
        const bool fills = step / 64 % 2 == 0;
        if (hb_random_uniform(key, step) < (fills ? 0.9 : 0.1)) {
            if (put(&r, in))
                in++;
            else
                refused++;
        } else if (take(&r, out)) {
            out++;
        }
    }
    while (take(&r, out))
        out++;
    assert_int_equal(out, in);
    assert_true(refused > 0);
    hb_message_ring_free(&r);
}

static void test_it_is_full_to_the_byte(void **state)
{
    (void)state;
    enum { SIZE = 992 };
    const hb_ring_message m = {.size = SIZE}, last = {.size = HB_MESSAGE_RING % (SIZE + 24) - 24};
    static uint8_t data[HB_MESSAGE_RING];
    hb_ring_message got;
    hb_message_ring r;

    assert_int_equal(hb_message_ring_new(&r, sizeof data), 0);
    for (int i = 0; i < HB_MESSAGE_RING / (SIZE + 24); i++)
        assert_true(hb_message_ring_put(&r, &m, data, SIZE, NULL));
    assert_false(hb_message_ring_put(&r, &m, data, SIZE, NULL));
    assert_true(hb_message_ring_put(&r, &last, data, last.size, NULL));
    assert_false(hb_message_ring_put(&r, &(hb_ring_message){0}, NULL, 0, NULL));
    assert_true(hb_message_ring_take(&r, &got, data));
    assert_true(hb_message_ring_put(&r, &m, data, SIZE, NULL));
    hb_message_ring_free(&r);
}

static void test_what_is_larger_than_the_largest_is_refused(void **state)
{
    (void)state;
    const hb_ring_message most = {.size = 8}, more = {.size = 9};
    uint8_t data[9] = {0};
    hb_message_ring r;

    assert_int_equal(hb_message_ring_new(&r, 8), 0);
    assert_false(hb_message_ring_put(&r, &more, data, 9, NULL));
    assert_true(hb_message_ring_put(&r, &most, data, 8, NULL));
    hb_message_ring_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_come_out_in_turn_and_whole),
        cmocka_unit_test(test_it_is_full_to_the_byte),
        cmocka_unit_test(test_what_is_larger_than_the_largest_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
