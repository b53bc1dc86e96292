/* One daemon as hilbert-view sees it: its published status, its model, and a minute of its past. */
#ifndef HB_VIEW_VEHICLE_H
#define HB_VIEW_VEHICLE_H

#include <stdbool.h>

#include "hilbert.pb-c.h"

enum { HB_VIEW_PAST = 300 }; /* statuses that are kept, a fifth of a second or more apart */

typedef struct hb_view_moment {
    double time;   /* of day, as the daemon published it */
    uint8_t *data; /* Status, packed */
    size_t size;
} hb_view_moment;

enum { HB_VIEW_QUESTIONS = 8 }; /* that may be under way */

/* Something that a page asked for, until it is answered. */
typedef struct hb_view_question {
    uint64_t id;  /* of the request; 0: none */
    uint64_t who; /* asked */
    double asked; /* monotonic seconds */
} hb_view_question;

typedef struct hb_view_answer {
    uint64_t who;
    bool ok;
    char error[512];
} hb_view_answer;

typedef struct hb_view_vehicle {
    int id;
    char name[64];                  /* of the instance; of its place until it was heard */
    char where[256];                /* for people: the folder, or the endpoint */
    char control[256], status[256]; /* endpoints */
    void *publisher, *asker;        /* sockets */
    Hilbert__V1__Status *newest;    /* NULL: never heard */
    double time;                    /* of day, of the newest, as published */
    double heard;                   /* when it came, monotonic seconds */
    double period;                  /* between two of them, as they come */
    Hilbert__V1__ModelInfo *model;  /* NULL: not known yet */
    char *settings;                 /* the configuration in force, YAML; NULL: not known yet */
    bool settings_known;            /* and nobody may have changed it since */
    uint64_t controls;              /* requests to its control socket when it was; 0: the next status says it */
    double asked;                   /* for the model or the settings, monotonic seconds */
    uint64_t id_asked, id_settings; /* the newest question's, and that for the settings */
    uint64_t changes;               /* of the dynamics, as of the newest status */
    double changed;                 /* when that last changed, or the action's status did; 0: not since we look */
    char change[96];                /* and what it was, in words */
    bool keyed;                     /* it knows us by a key: it may be asked to change something */
    hb_view_question question[HB_VIEW_QUESTIONS];
    hb_view_answer answer;             /* the newest: see HB_VIEW_ANSWER */
    hb_view_moment past[HB_VIEW_PAST]; /* a ring, oldest at `first` */
    int first, npast;
} hb_view_vehicle;

/* Keys for tcp; both NULL without. */
typedef struct hb_view_keys {
    const char *server, *client;
} hb_view_keys;

/* place: a folder of ipc sockets, or "tcp://HOST:CONTROL,tcp://HOST:STATUS". NULL with the reason in `why`. */
hb_view_vehicle *hb_view_vehicle_new(void *context, int id, const char *place, const hb_view_keys *keys, char *why,
                                     size_t size);
void hb_view_vehicle_free(hb_view_vehicle *v);

/* Asks it to do something, for `who`; NULL, or why not. The answer is news. */
const char *hb_view_vehicle_ask(hb_view_vehicle *v, Hilbert__V1__ControlRequest *request, uint64_t who, double now);

typedef enum { HB_VIEW_NOTHING, HB_VIEW_STATUS, HB_VIEW_MODEL, HB_VIEW_SETTINGS, HB_VIEW_ANSWER } hb_view_news;

/* Takes one message in, without waiting. STATUS: newest is another; MODEL: model is; SETTINGS: settings are; ANSWER:
 * answer is. */
hb_view_news hb_view_vehicle_poll(hb_view_vehicle *v, double now);
/* Nothing was heard for longer than statuses are apart: the daemon is gone, or was never there. */
bool hb_view_vehicle_gone(const hb_view_vehicle *v, double now);

#endif
