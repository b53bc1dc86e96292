/* Commands under way: which control is in force at a time, as far as the vehicle does what it was told. */
#ifndef HB_UNDERWAY_H
#define HB_UNDERWAY_H

#include "base.h"

enum { HB_UNDERWAY = 256 }; /* commands that are remembered */

typedef struct hb_underway {
    int nu;
    uint64_t count;            /* of commands since the last reset */
    int64_t from[HB_UNDERWAY]; /* time from which each is in force, in order */
    double *u;                 /* HB_UNDERWAY x nu */
} hb_underway;

/* Takes the array from the arena; nu is given. */
void hb_underway_lay_out(hb_underway *w, hb_arena *arena);
void hb_underway_reset(hb_underway *w);

/* u (nu) will be in force from a time on that is not before the last one's. */
void hb_underway_add(hb_underway *w, int64_t from_us, const double *u);
/* The command in force at a time, NULL if none is known, and when the next one takes over. */
const double *hb_underway_at(const hb_underway *w, int64_t time_us, int64_t *ret_until);

#endif
