/* The service manager: readiness, watchdog, status, and what it keeps for us over a restart. The only file that sees
 * systemd; without it everything here does nothing. */
#ifndef HB_NOTIFY_H
#define HB_NOTIFY_H

#include <stdbool.h>

enum { HB_MAX_INHERITED = 16, HB_INHERITED_NAME = 32 };

/* Whether there is a service manager that listens. */
bool hb_notify_present(void);
/* Sends lines like "READY=1\nSTATUS=..."; false when there is nobody who takes them within a few seconds. */
bool hb_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same without ever waiting, for the threads that serve: false also when the manager does not keep up. */
bool hb_notify_at_once(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Seconds within which a WATCHDOG=1 is expected; 0: none is. */
double hb_notify_watchdog(void);

/* Has the service manager keep a file descriptor under a name, or give it up. */
bool hb_notify_keep(const char *name, int fd);
bool hb_notify_drop(const char *name);

/* File descriptors that we were started with: listening sockets, and what the service manager kept. */
typedef struct hb_inherited {
    int n;
    struct {
        int fd;
        char name[HB_INHERITED_NAME];
    } at[HB_MAX_INHERITED];
} hb_inherited;

void hb_notify_inherited(hb_inherited *ret);
/* The descriptor of that name, or -1. */
int hb_inherited_find(const hb_inherited *i, const char *name);

#endif
