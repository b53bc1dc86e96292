#include "mavlink/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static const double reopen_after = 1, peer_silent_after = 3; /* seconds */
static const int most_strangers = 64;                        /* datagrams that are thrown away in a row */

static const struct {
    int baud;
    speed_t code;
} speeds[] = {
    {9600, B9600},       {19200, B19200},     {38400, B38400},     {57600, B57600},     {115200, B115200},
    {230400, B230400},   {460800, B460800},   {500000, B500000},   {576000, B576000},   {921600, B921600},
    {1000000, B1000000}, {1500000, B1500000}, {2000000, B2000000}, {2500000, B2500000}, {3000000, B3000000},
};

static const speed_t *find_speed(int baud)
{
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
        if (speeds[i].baud == baud)
            return &speeds[i].code;
    return NULL;
}

/* --- addresses --- */

static bool is_number(const char *text, long min, long max)
{
    char *end;
    long value = strtol(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && value >= min && value <= max;
}

static int parse_serial(hb_link *l, const char *address, const char *rest, hb_error *err)
{
    const char *colon = strrchr(rest, ':');

    l->baud = 921600;
    snprintf(l->host, sizeof l->host, "%s", rest);
    if (colon) {
        l->host[colon - rest] = 0;
        if (!is_number(colon + 1, 1, 3000000) || !find_speed(l->baud = atoi(colon + 1)))
            return hb_fail(err, EINVAL, "%s: %s is no speed of a serial line; 57600, 115200, 921600, ... 3000000",
                           address, colon + 1);
    }
    if (l->host[0] != '/')
        return hb_fail(err, EINVAL, "%s: the device is given as serial:/dev/NAME:BAUD", address);
    return 0;
}

int hb_link_parse(hb_link *l, const char *address, hb_error *err)
{
    static const struct {
        const char *scheme;
        hb_link_kind kind;
    } schemes[] = {{"udp:", HB_LINK_UDP_SERVER},
                   {"udpin:", HB_LINK_UDP_SERVER},
                   {"udpout:", HB_LINK_UDP_CLIENT},
                   {"serial:", HB_LINK_SERIAL},
                   {"tcp:", HB_LINK_TCP}};
    const char *rest = NULL;

    *l = (hb_link){.fd = -1, .tried = -reopen_after, .heard = -peer_silent_after};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes && !rest; i++)
        if (strncmp(address, schemes[i].scheme, strlen(schemes[i].scheme)) == 0) {
            l->kind = schemes[i].kind;
            rest = address + strlen(schemes[i].scheme);
        }
    if (!rest || strlen(rest) >= sizeof l->host)
        return hb_fail(
            err, EINVAL,
            "%s: no link; expected udp:[ADDRESS:]PORT, udpout:HOST:PORT, serial:DEVICE[:BAUD] or tcp:HOST:PORT",
            address);
    if (l->kind == HB_LINK_SERIAL)
        return parse_serial(l, address, rest, err);
    const char *colon = strrchr(rest, ':'), *port = colon ? colon + 1 : rest;
    if (!is_number(port, 1, 65535))
        return hb_fail(err, EINVAL, "%s: '%s' is no port; expected 1..65535", address, port);
    if (!colon && l->kind != HB_LINK_UDP_SERVER)
        return hb_fail(err, EINVAL, "%s: names no host", address);
    snprintf(l->host, sizeof l->host, "%.*s", (int)(colon ? colon - rest : 9), colon ? rest : "127.0.0.1");
    snprintf(l->port, sizeof l->port, "%s", port);
    return 0;
}

/* --- opening --- */

static int open_serial(hb_link *l, hb_error *err)
{
    struct termios t;
    int fd = open(l->host, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return hb_fail(err, errno, "%s: %s", l->host, strerror(errno));
    if (tcgetattr(fd, &t)) {
        int code = errno;
        close(fd);
        return hb_fail(err, code, "%s: is no serial line: %s", l->host, strerror(code));
    }
    cfmakeraw(&t);
    t.c_cflag |= CLOCAL | CREAD;
    t.c_cflag &= ~(tcflag_t)(CRTSCTS | CSTOPB);
    t.c_cc[VMIN] = 1; /* so that nothing to read is EAGAIN, and 0 the end of the line */
    t.c_cc[VTIME] = 0;
    const speed_t *speed = find_speed(l->baud);
    if (!speed || cfsetspeed(&t, *speed) || tcsetattr(fd, TCSANOW, &t)) {
        int code = errno;
        close(fd);
        return hb_fail(err, code, "%s: cannot be set to %d baud: %s", l->host, l->baud, strerror(code));
    }
    tcflush(fd, TCIOFLUSH);
    l->fd = fd;
    return 0;
}

static int open_socket(hb_link *l, hb_error *err)
{
    struct addrinfo hints = {.ai_socktype = l->kind == HB_LINK_TCP ? SOCK_STREAM : SOCK_DGRAM,
                             .ai_flags = AI_ADDRCONFIG | (l->kind == HB_LINK_UDP_SERVER ? AI_PASSIVE : 0)},
                    *found = NULL;
    int r = getaddrinfo(l->host, l->port, &hints, &found);

    if (r)
        return hb_fail(err, EHOSTUNREACH, "%s:%s: %s", l->host, l->port, gai_strerror(r));
    int fd = socket(found->ai_family, found->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), code = 0;
    if (fd < 0)
        code = errno;
    else if (l->kind == HB_LINK_UDP_SERVER)
        code = bind(fd, found->ai_addr, found->ai_addrlen) ? errno : 0;
    else
        code = connect(fd, found->ai_addr, found->ai_addrlen) && errno != EINPROGRESS ? errno : 0;
    freeaddrinfo(found);
    if (code) {
        if (fd >= 0)
            close(fd);
        return hb_fail(err, code, "%s:%s: %s", l->host, l->port, strerror(code));
    }
    if (l->kind == HB_LINK_TCP)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    l->connecting = l->kind == HB_LINK_TCP;
    l->fd = fd;
    return 0;
}

int hb_link_open(hb_link *l, double now, hb_error *err)
{
    if (l->fd >= 0)
        return 0;
    if (now - l->tried < reopen_after)
        return hb_fail(err, EAGAIN, "%s: closed; tried again every second", l->host);
    l->tried = now;
    l->npending = 0;
    return l->kind == HB_LINK_SERIAL ? open_serial(l, err) : open_socket(l, err);
}

void hb_link_close(hb_link *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    l->connecting = false;
    l->npending = 0;
}

/* --- reading and writing --- */

static bool same_address(const struct sockaddr_storage *a, socklen_t na, const struct sockaddr_storage *b, socklen_t nb)
{
    return na == nb && memcmp(a, b, na) == 0;
}

static ssize_t read_datagram(hb_link *l, uint8_t *data, size_t n, double now, bool *ret_other)
{
    /* a flood of strangers does not keep us here */
    for (int i = 0; i < most_strangers; i++) {
        struct sockaddr_storage from = {0};
        socklen_t nfrom = sizeof from;
        ssize_t r = recvfrom(l->fd, data, n, 0, (struct sockaddr *)&from, &nfrom);
        if (r < 0)
            return r;
        if (now - l->heard < peer_silent_after && !same_address(&from, nfrom, &l->peer, l->npeer)) {
            l->strangers++;
            continue;
        }
        *ret_other = !same_address(&from, nfrom, &l->from, l->nfrom);
        l->from = from;
        l->nfrom = nfrom;
        if (r > 0)
            return r;
    }
    errno = EAGAIN;
    return -1;
}

void hb_link_confirm(hb_link *l, double now)
{
    l->peer = l->from;
    l->npeer = l->nfrom;
    l->heard = now;
}

ssize_t hb_link_read(hb_link *l, uint8_t *data, size_t n, double now, bool *ret_other)
{
    bool other = false;
    ssize_t r;

    if (l->fd < 0)
        return 0;
    hb_link_flush(l);
    if (l->fd < 0)
        return -EPIPE;
    do
        r = l->kind == HB_LINK_UDP_SERVER ? read_datagram(l, data, n, now, &other) : read(l->fd, data, n);
    while (r < 0 && errno == EINTR);
    if (ret_other)
        *ret_other = other;
    if (r > 0)
        return r;
    /* nobody there yet is no failure of a datagram socket; the end of a stream is */
    bool datagrams = l->kind == HB_LINK_UDP_SERVER || l->kind == HB_LINK_UDP_CLIENT;
    if (r < 0 && (errno == EAGAIN || (datagrams && errno == ECONNREFUSED)))
        return 0;
    if (r == 0 && datagrams)
        return 0;
    int code = r < 0 ? errno : EPIPE;
    if (r < 0 && l->connecting && code == ENOTCONN)
        return 0;
    hb_link_close(l);
    return -code;
}

void hb_link_flush(hb_link *l)
{
    if (l->fd < 0 || l->npending == 0)
        return;
    ssize_t r = l->kind == HB_LINK_TCP ? send(l->fd, l->pending, l->npending, MSG_NOSIGNAL)
                                       : write(l->fd, l->pending, l->npending);
    if (r > 0) {
        l->connecting = false;
        l->npending -= (size_t)r;
        memmove(l->pending, l->pending + r, l->npending);
    } else if (r < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN) {
        hb_link_close(l);
    }
}

bool hb_link_write(hb_link *l, const uint8_t *frame, size_t n)
{
    bool done = false;

    if (l->fd >= 0 && l->kind == HB_LINK_UDP_SERVER)
        done = l->npeer && sendto(l->fd, frame, n, 0, (struct sockaddr *)&l->peer, l->npeer) == (ssize_t)n;
    else if (l->fd >= 0 && l->kind == HB_LINK_UDP_CLIENT)
        done = send(l->fd, frame, n, 0) == (ssize_t)n;
    else if (l->fd >= 0 && l->npending + n <= sizeof l->pending) {
        /* a frame goes out whole or not at all */
        memcpy(l->pending + l->npending, frame, n);
        l->npending += n;
        hb_link_flush(l);
        done = l->fd >= 0;
    }
    *(done ? &l->sent : &l->dropped) += 1;
    return done;
}

short hb_link_events(const hb_link *l)
{
    return (short)(POLLIN | (l->npending ? POLLOUT : 0));
}
