#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "process/throttle.h"

static bool four(hb_throttle *t, const char *text, double now)
{
    struct sockaddr_in a = {.sin_family = AF_INET};

    assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
    return hb_throttle_admit(t, (const struct sockaddr *)&a, now);
}

static bool six(hb_throttle *t, const char *text, double now)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6};

    assert_int_equal(inet_pton(AF_INET6, text, &a.sin6_addr), 1);
    return hb_throttle_admit(t, (const struct sockaddr *)&a, now);
}

static void test_a_burst_and_then_a_rate(void **state)
{
    hb_throttle t = {0};
    int admitted = 0;

    (void)state;
    /* 1,000 in a second, ten seconds long */
    for (int i = 0; i < 10000; i++)
        admitted += four(&t, "192.0.2.1", 5 + 1e-3 * i);
    assert_in_range(admitted, 32 + 98, 32 + 100);
    /* after a pause it may come as before */
    admitted = 0;
    for (int i = 0; i < 100; i++)
        admitted += four(&t, "192.0.2.1", 100);
    assert_int_equal(admitted, 32);
}

static void test_others_do_not_notice(void **state)
{
    hb_throttle t = {0};

    (void)state;
    for (int i = 0; i < 10000; i++) {
        four(&t, "192.0.2.1", 1e-3 * i);
        if (i % 1000 == 0)
            for (int k = 0; k < 4; k++)
                assert_true(four(&t, "192.0.2.2", 1e-3 * i));
    }
}

static void test_all_together_have_a_limit(void **state)
{
    hb_throttle t = {0};
    int admitted = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        char text[32];
        snprintf(text, sizeof text, "10.%d.%d.1", i / 200 % 200, i % 200);
        admitted += four(&t, text, 1e-3 * (i / 10)); /* 10,000 in a second, two seconds long */
    }
    assert_in_range(admitted, 128 + 99, 128 + 101);
}

static void test_addresses(void **state)
{
    hb_throttle t = {0};
    struct sockaddr_un local = {.sun_family = AF_UNIX};

    (void)state;
    /* one network of 64 bits is one client, and a mapped address is the one it stands for */
    for (int i = 0; i < 16; i++) {
        assert_true(six(&t, "2001:db8:1:2::1", 0));
        assert_true(six(&t, "2001:db8:1:2:ffff::9", 0));
        assert_true(six(&t, "::ffff:192.0.2.7", 0));
        assert_true(four(&t, "192.0.2.7", 0));
    }
    assert_false(six(&t, "2001:db8:1:2::7", 0));
    assert_true(six(&t, "2001:db8:1:3::1", 0));
    assert_false(four(&t, "192.0.2.7", 0));
    for (int i = 0; i < 1000; i++)
        assert_true(hb_throttle_admit(&t, (const struct sockaddr *)&local, 0));
    /* a clock that goes back gives nothing away, and takes nothing */
    assert_false(four(&t, "192.0.2.7", -100));
    assert_true(four(&t, "192.0.2.7", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_burst_and_then_a_rate),
        cmocka_unit_test(test_others_do_not_notice),
        cmocka_unit_test(test_all_together_have_a_limit),
        cmocka_unit_test(test_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
