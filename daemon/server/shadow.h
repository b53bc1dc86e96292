/* The shadow: a second model that estimates and predicts from the same telemetry as the one in use, and never acts.
 *
 *     server's thread                                     shadow's thread
 *     samples, requests, answers  --> ring -->            taken in by a controller of its own, one at a time
 *     look, claim, exchange       <-- controller -->      between two of them
 *
 * Neither thread waits for the other: what the ring has no room for is counted as lost, and the server tries again
 * later while the thread is at work. Fixed memory. Functions of the server's thread take NULL for "there is none". */
#ifndef HB_SHADOW_H
#define HB_SHADOW_H

#include "controller/controller.h"

typedef struct hb_shadow hb_shadow;

typedef struct hb_shadow_settings {
    const hb_model *model;
    hb_controller *controller;      /* of that model; borrowed */
    int most_coefficients;          /* of any model that it may ever have */
    bool stepped;                   /* no thread: events are taken in at once */
    void (*started)(void *context); /* on the new thread, for its name and priority; may be NULL */
    void *context;
} hb_shadow_settings;

/* What is known of it: as of the last look. */
typedef struct hb_shadow_view {
    hb_health health;
    const hb_real *coefficient; /* hb_model_ncoefficients of its model */
    const double *variance;
    double error;  /* hb_controller_error, in the units asked for */
    uint64_t lost; /* samples, requests and answers that it could not keep up with */
} hb_shadow_view;

/* -EINVAL, with what differs, unless both are models of one vehicle: the same states and controls in the same order and
 * units, and the same period, so that plans can be handed over and errors compared. */
int hb_shadow_fits(const hb_model *in_use, const hb_model *shadow, hb_error *err);

int hb_shadow_new(hb_shadow **ret, const hb_shadow_settings *s, hb_error *err);
void hb_shadow_free(hb_shadow *s);

/* The same events as those of the controller in use, at the same time. */
void hb_shadow_observe(hb_shadow *s, const hb_observation *o, double now);
void hb_shadow_observe_request(hb_shadow *s, const hb_request *r, double now);
void hb_shadow_hear(hb_shadow *s, int64_t from_us, const double *action); /* see hb_controller_hear */
void hb_shadow_forget(hb_shadow *s);

/* The newest view that the thread has finished; errors in units of std (nx). */
const hb_shadow_view *hb_shadow_look(hb_shadow *s, const double *std);

/* Takes the controller from the thread until released. False while the thread is at work: it then pauses after the
 * event in hand, so ask again until it is true. */
bool hb_shadow_claim(hb_shadow *s);
/* The same, but only when nothing waits to be taken in; without a pause if not. */
bool hb_shadow_claim_idle(hb_shadow *s);
void hb_shadow_release(hb_shadow *s);
/* While claimed: its controller, and another in its place. */
hb_controller *hb_shadow_controller(hb_shadow *s);
void hb_shadow_set(hb_shadow *s, const hb_model *m, hb_controller *c);

#endif
