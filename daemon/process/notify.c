#include "process/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

static const double patience_seconds = 3; /* for a manager that does not read */

bool hb_notify_present(void)
{
    return getenv("NOTIFY_SOCKET") != NULL;
}

/* sd_notify waits for ever while the manager's queue is full, so this speaks its protocol, one datagram, by itself. */
static bool send_lines(const char *text, double patience)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval wait = {.tv_sec = (time_t)patience, .tv_usec = 0};
    const char *path = getenv("NOTIFY_SOCKET");

    if (!path || strlen(path) < 2 || strlen(path) >= sizeof address.sun_path)
        return false;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    memcpy(address.sun_path, path, strlen(path));
    if (address.sun_path[0] == '@')
        address.sun_path[0] = 0; /* an abstract one */
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    int flags = MSG_NOSIGNAL | (patience > 0 ? 0 : MSG_DONTWAIT);
    bool sent = sendto(fd, text, strlen(text), flags, (struct sockaddr *)&address, size) >= 0;
    close(fd);
    return sent;
}

static bool send_text(double patience, const char *format, va_list args)
{
    char text[512];

    vsnprintf(text, sizeof text, format, args);
    return send_lines(text, patience);
}

bool hb_notify(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    bool sent = send_text(patience_seconds, format, args);
    va_end(args);
    return sent;
}

bool hb_notify_at_once(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    bool sent = send_text(0, format, args);
    va_end(args);
    return sent;
}

double hb_notify_watchdog(void)
{
    uint64_t us = 0;

    return sd_watchdog_enabled(0, &us) > 0 ? 1e-6 * (double)us : 0;
}

bool hb_notify_keep(const char *name, int fd)
{
    char text[96];

    snprintf(text, sizeof text, "FDSTORE=1\nFDNAME=%s", name);
    return sd_pid_notify_with_fds(0, 0, text, &fd, 1) > 0;
}

bool hb_notify_drop(const char *name)
{
    return hb_notify("FDSTOREREMOVE=1\nFDNAME=%s", name);
}

void hb_notify_inherited(hb_inherited *ret)
{
    char **names = NULL;
    int n = sd_listen_fds_with_names(1, &names);

    *ret = (hb_inherited){0};
    for (int i = 0; i < n; i++) {
        int fd = SD_LISTEN_FDS_START + i;
        if (ret->n < HB_MAX_INHERITED) {
            ret->at[ret->n].fd = fd;
            snprintf(ret->at[ret->n].name, HB_INHERITED_NAME, "%s", names[i]);
            ret->n++;
        } else {
            close(fd);
        }
        free(names[i]);
    }
    free(names);
}

int hb_inherited_find(const hb_inherited *i, const char *name)
{
    for (int k = 0; k < i->n; k++)
        if (strcmp(i->at[k].name, name) == 0)
            return i->at[k].fd;
    return -1;
}
