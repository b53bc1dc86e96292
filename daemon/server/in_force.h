/* The configuration in force, with the models that give its names a meaning: as it was read at the start, and how it
 * changes while the daemon flies: by a reload of the file, by keys that clients set for a while, and when the shadow's
 * model is promoted. All of it is the main thread's; the server is given what came of it as an order, between two
 * requests, and when it refuses that, nothing has changed here either. */
#ifndef HB_IN_FORCE_H
#define HB_IN_FORCE_H

#include "config/config.h"
#include "process/log.h"
#include "process/notify.h"
#include "server/server.h"

typedef struct hb_in_force {
    hb_log *log;
    hb_server *server; /* NULL: nobody flies yet */
    hb_inherited inherited;
    hb_config *config;
    hb_config *next, *spare;                 /* as read on reload; and the two merged */
    hb_model *model;                         /* in use */
    hb_model *shadow_model;                  /* NULL: there is none */
    hb_controller_settings *shadow_settings; /* what the configuration means for it */
    hb_config_errors *errors;                /* of what was read last */
    hb_order *order;                         /* to the server */
    hb_changed_key *changed;                 /* keys that clients changed, HB_CHANGED_KEYS */
    int nchanged;
} hb_in_force;

/* 0, or -ENOMEM: to be freed in the same way. */
int hb_in_force_new(hb_in_force *f, hb_log *log);
void hb_in_force_free(hb_in_force *f);

/* Reads a file and loads its models. Returns the number of errors. */
int hb_in_force_load(hb_in_force *f, const char *file);
/* A configuration as text, for a recording; allocated. NULL without memory. */
char *hb_in_force_text(const hb_config *c);

/* Reads the configuration again and has the server apply what can change now; a bad one changes nothing. */
void hb_in_force_reload(hb_in_force *f);
/* What a client wants of one key: set, or back to the file's (an empty value). */
void hb_in_force_set(hb_in_force *f, const hb_setting_wish *wish);
/* Answers a client that wants to know what was changed. */
void hb_in_force_tell(hb_in_force *f);
/* Keys whose time is over are the file's again. Returns seconds to the next of them; below 0: there is none. */
double hb_in_force_expire(hb_in_force *f);
/* After a promotion: exchanges the models here too, and what was configured for them. */
void hb_in_force_exchange(hb_in_force *f);

#endif
