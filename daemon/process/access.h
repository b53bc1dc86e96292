/* Which clients may connect over tcp, and what each may do there.
 *
 * A key of security.client_keys has every right. security.authorized_keys is a file with a client in each line:
 *
 *     # name      public key                                 rights
 *     autopilot   $wJ^3Xv6keLYvM<d[v1rQznNk9h$$Ugg00qrllBE   telemetry,act,observe
 *     ground      p<qnpNC2KRlix8GC@{0}H8DJDZEnZYm7w2JP2>RK   operate
 */
#ifndef HB_ACCESS_H
#define HB_ACCESS_H

#include <stdint.h>

#include "config/config.h"

enum {
    HB_RIGHT_TELEMETRY = 1, /* publish telemetry */
    HB_RIGHT_ACT = 2,       /* ask for actions */
    HB_RIGHT_OBSERVE = 4,   /* read the status, and ask at the control socket what changes nothing */
    HB_RIGHT_OPERATE = 8,   /* all of the control socket; whoever has it also observes */
    HB_ALL_RIGHTS = 15,
};

enum { HB_MAX_CLIENTS = 256, HB_KEY_BYTES = 32 };

typedef struct hb_known_client {
    char name[HB_NAME_SIZE]; /* of the line, or of the file without folder and .pub */
    uint8_t key[HB_KEY_BYTES];
    unsigned rights;
} hb_known_client;

typedef struct hb_access {
    int n;
    int pilot; /* 1 + the number of the one that flies; 0: none is named by its key */
    hb_known_client client[HB_MAX_CLIENTS];
} hb_access;

/* Reads all public keys that a configuration names. The error begins with the key of the configuration. */
int hb_access_read(hb_access *ret, const hb_config *c, hb_error *err);
/* Adds the clients of an authorized_keys file's text; `name` is for the errors. */
int hb_access_parse(hb_access *a, const char *name, const char *text, size_t size, hb_error *err);
/* The number of the client with this key, or -1. */
int hb_access_find(const hb_access *a, const uint8_t key[HB_KEY_BYTES]);
/* Rights in words, separated by commas. */
enum { HB_RIGHTS_SIZE = 48 };
void hb_access_print(unsigned rights, char text[HB_RIGHTS_SIZE]);

#endif
