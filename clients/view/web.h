/* The web server of hilbert-view: the page's files, /metrics, recordings, and WebSockets.
 *
 * It never sends more to a client than the client takes: one whose queue is full is dropped and counted. */
#ifndef HB_VIEW_WEB_H
#define HB_VIEW_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/fleet.h"

enum { HB_VIEW_RECORDINGS = 16, HB_VIEW_ORIGINS = 8 };

typedef struct hb_view_settings {
    const char *address;                       /* to listen on */
    int port;                                  /* 0: any that is free */
    const char *certificate, *certificate_key; /* files, for TLS; or NULL */
    const char *origin[HB_VIEW_ORIGINS];       /* of pages of others that may connect: "https://app.foxglove.dev" */
    int norigins;
    bool control; /* pages may change something, of daemons that know us by a key */
} hb_view_settings;

/* A recorded flight as the page reads it. */
typedef struct hb_view_recording {
    const char *name;
    char *json;
    size_t size;
} hb_view_recording;

typedef struct hb_view_web hb_view_web;

/* NULL after a message on standard error. What it is given must stay. */
hb_view_web *hb_view_web_new(const hb_view_settings *s, hb_view_fleet *fleet, const hb_view_recording *recording,
                             int nrecordings);
void hb_view_web_free(hb_view_web *w);
int hb_view_web_port(const hb_view_web *w);
/* Serves until something happened, a fiftieth of a second at the most; then the caller looks after its vehicles. */
void hb_view_web_turn(hb_view_web *w);

#endif
