/* Links: frames through sockets on this machine and through a pseudo-terminal, byte for byte. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "mavlink/link.h"

static uint8_t every_byte[256];

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < 256; i++)
        every_byte[i] = (uint8_t)i;
    return 0;
}

/* Waits for n bytes, for as long as the test may run. */
static void receive(hb_link *l, uint8_t *to, size_t n)
{
    for (size_t have = 0; have < n;) {
        struct pollfd p = {.fd = l->fd, .events = hb_link_events(l)};
        poll(&p, 1, 1000);
        ssize_t r = hb_link_read(l, to + have, n - have, 0, NULL);
        assert_true(r >= 0);
        have += (size_t)r;
    }
}

static void open_link(hb_link *l, const char *address)
{
    hb_error err = {0};
    if (hb_link_parse(l, address, &err) || hb_link_open(l, 0, &err))
        fail_msg("%s", err.text);
}

static void addresses_are_understood(void **state)
{
    (void)state;
    hb_link l;
    hb_error err;

    assert_int_equal(hb_link_parse(&l, "udp:14540", &err), 0);
    assert_int_equal(l.kind, HB_LINK_UDP_SERVER);
    assert_string_equal(l.host, "127.0.0.1");
    assert_string_equal(l.port, "14540");
    assert_int_equal(hb_link_parse(&l, "udpin:0.0.0.0:14540", &err), 0);
    assert_string_equal(l.host, "0.0.0.0");
    assert_int_equal(hb_link_parse(&l, "serial:/dev/ttyACM0", &err), 0);
    assert_int_equal(l.baud, 921600);
    assert_int_equal(hb_link_parse(&l, "serial:/dev/ttyACM0:3000000", &err), 0);
    assert_int_equal(l.baud, 3000000);
    assert_string_equal(l.host, "/dev/ttyACM0");
    static const char *const wrong[] = {"",        "udp",          "udp:",      "udp:0",
                                        "udp:1e4", "udp:1.2.3.4:", "udp:70000", "udpout:14540",
                                        "tcp:80",  "serial:tty",   "http://x",  "serial:/dev/ttyS0:12345"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (hb_link_parse(&l, wrong[i], &err) != -EINVAL)
            fail_msg("'%s' was taken", wrong[i]);
}

/* the kernel's choice of a free port */
static int free_port(int type, int *fd)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    *fd = socket(AF_INET, type, 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&a, &n), 0);
    return ntohs(a.sin_port);
}

static void a_server_answers_who_was_found_to_be_the_autopilot(void **state)
{
    (void)state;
    hb_link server, first, second;
    char address[64];
    uint8_t got[256];
    int fd, port = free_port(SOCK_DGRAM, &fd);

    close(fd);
    snprintf(address, sizeof address, "udp:%d", port);
    open_link(&server, address);
    snprintf(address, sizeof address, "udpout:127.0.0.1:%d", port);
    open_link(&first, address);
    open_link(&second, address);

    assert_false(hb_link_write(&server, every_byte, 256)); /* to nobody */
    /* junk of a stranger makes it no peer, and the autopilot's bytes are told from it */
    bool other = false;
    struct pollfd p = {.fd = server.fd, .events = POLLIN};
    assert_true(hb_link_write(&second, every_byte, 1));
    receive(&server, got, 1);
    assert_false(hb_link_write(&server, every_byte, 256));
    assert_true(hb_link_write(&first, every_byte, 256));
    poll(&p, 1, -1);
    assert_int_equal(hb_link_read(&server, got, 256, 0, &other), 256);
    assert_true(other);
    assert_memory_equal(got, every_byte, 256);
    assert_false(hb_link_write(&server, every_byte, 256)); /* not before it is known to be the autopilot */
    hb_link_confirm(&server, 0);
    assert_true(hb_link_write(&server, every_byte, 256));
    receive(&first, got, 256);
    assert_memory_equal(got, every_byte, 256);

    /* a second one is not listened to, until the first has been silent for a while */
    assert_true(hb_link_write(&second, every_byte, 100));
    poll(&p, 1, -1);
    assert_int_equal(hb_link_read(&server, got, 256, 2.9, &other), 0);
    assert_int_equal(server.strangers, 1);
    assert_true(hb_link_write(&second, every_byte, 100));
    poll(&p, 1, -1);
    assert_int_equal(hb_link_read(&server, got, 256, 3.1, &other), 100);
    assert_true(hb_link_write(&server, every_byte, 10));
    receive(&first, got, 10); /* still */
    hb_link_confirm(&server, 3.1);
    assert_true(hb_link_write(&server, every_byte, 10));
    receive(&second, got, 10);
    hb_link_close(&server);
    hb_link_close(&first);
    hb_link_close(&second);
}

static void a_serial_line_takes_every_byte(void **state)
{
    (void)state;
    hb_link l;
    char address[300];
    uint8_t got[256];
    struct termios t;
    int master = posix_openpt(O_RDWR | O_NOCTTY);

    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    snprintf(address, sizeof address, "serial:%s:3000000", ptsname(master));
    open_link(&l, address);
    assert_int_equal(tcgetattr(l.fd, &t), 0);
    assert_int_equal(cfgetospeed(&t), B3000000);
    /* neither echo nor translation, in either direction */
    assert_true(hb_link_write(&l, every_byte, 256));
    for (ssize_t have = 0; have < 256;)
        have += read(master, got + have, (size_t)(256 - have));
    assert_memory_equal(got, every_byte, 256);
    assert_int_equal(write(master, every_byte, 256), 256);
    receive(&l, got, 256);
    assert_memory_equal(got, every_byte, 256);

    /* a line that does not take any more: frames are dropped whole */
    uint64_t frames = 0;
    while (l.dropped == 0)
        frames += hb_link_write(&l, every_byte, 256);
    fcntl(master, F_SETFL, O_NONBLOCK);
    uint64_t bytes = 0;
    for (int quiet = 0; quiet < 3; quiet++)
        for (ssize_t r; hb_link_flush(&l), (r = read(master, got, 256)) > 0;) {
            for (ssize_t i = 0; i < r; i++)
                assert_int_equal(got[i], (uint8_t)(bytes + (uint64_t)i));
            bytes += (uint64_t)r;
            quiet = 0;
        }
    assert_int_equal(bytes, 256 * frames);

    /* unplugged */
    close(master);
    assert_true(hb_link_read(&l, got, 256, 0, NULL) < 0 || l.fd < 0);
    assert_int_equal(l.fd, -1);
}

static void tcp_comes_back(void **state)
{
    (void)state;
    hb_link l;
    hb_error err;
    char address[64];
    uint8_t got[256];
    int listener, port = free_port(SOCK_STREAM, &listener);

    snprintf(address, sizeof address, "tcp:127.0.0.1:%d", port);
    assert_int_equal(listen(listener, 1), 0);
    open_link(&l, address);
    for (int round = 0; round < 2; round++) {
        int peer = accept(listener, NULL, NULL);
        assert_true(hb_link_write(&l, every_byte, 256));
        for (ssize_t have = 0; have < 256;)
            have += read(peer, got + have, (size_t)(256 - have));
        assert_memory_equal(got, every_byte, 256);
        assert_int_equal(write(peer, every_byte, 256), 256);
        receive(&l, got, 256);
        close(peer);
        struct pollfd p = {.fd = l.fd, .events = POLLIN};
        poll(&p, 1, 1000);
        assert_true(hb_link_read(&l, got, 256, 0, NULL) < 0);
        assert_int_equal(l.fd, -1);
        /* not at once: a second later */
        assert_int_equal(hb_link_open(&l, round + 0.5, &err), -EAGAIN);
        assert_int_equal(hb_link_open(&l, round + 1, &err), 0);
    }
    hb_link_close(&l);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_understood),
        cmocka_unit_test(a_server_answers_who_was_found_to_be_the_autopilot),
        cmocka_unit_test(a_serial_line_takes_every_byte),
        cmocka_unit_test(tcp_comes_back),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
