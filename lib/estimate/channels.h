/* Each measured channel against the kinematics of the others.
 *
 *     position against velocity     p(t) - p(0) = integral of v
 *     attitude against rates        q(t) = q(0) turned by the integral of w
 *     samples against requests      both tell of the same vehicle
 *
 * Kinematics are exact, whatever the vehicle weighs: they are read off the model's nominal physics (which state's rate
 * of change is another state), and a model without any has none. What is left of them over a few periods is judged by
 * two hypotheses, of which the odds are carried from block to block:
 *
 *     right   r ~ t(0, k S + U)         S: noise from the model file, else guessed; U: what may happen between samples;
 *                                       k: how much more this vehicle has, learned while all is right
 *     wrong   r ~ N(0, k S + U + 2 W)      W: what the channel does in the trained population: the two are unrelated */
#ifndef HB_CHANNELS_H
#define HB_CHANNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

/* What is known of one way to compare: odds that it is wrong, and how much more noise there is than in the file. */
typedef struct hb_channel_odds {
    double log_odds; /* after the last whole block */
    double now;      /* with what the block under way adds */
    double squares;  /* sum of what was noise, over S, of blocks that were right, */
    double blocks;   /* so many */
} hb_channel_odds;

typedef struct hb_channels {
    int nx, npairs, quaternion; /* quaternion: -1: none whose rates are known */
    double block;               /* seconds */
    bool told;                  /* the model file says how much noise there is; else it is learned from a guess */
    double *noise, *spread;     /* nx: of a step, and in the trained population; physical */
    int *value, *rate;          /* pairs: x[value]' = x[rate], or a rotation's axis and its body rate */
    hb_channel_odds *pair;      /* npairs */
    hb_channel_odds *asked;     /* nx: samples against requests */

    bool begun;         /* there is a sample, */
    int64_t time_us;    /* of this time, */
    double *x;          /* nx */
    bool whole;         /* the last block is: the next begins with another sample, so that none counts twice */
    int64_t start_us;   /* start of the block, */
    double *start;      /* nx */
    double *integral;   /* npairs: of the rates since then, */
    double *rate_noise; /* npairs: its variance by the file's noise, */
    double *uncertain;  /* npairs: and since between samples a rate may do anything */
    double *change;     /* npairs: of the rate between the last two samples */
    double turned[4];   /* the attitude that the rates lead to */
    int64_t *moved_us;  /* nx: since when a channel has the same value */

    bool pending; /* a request waits for the sample after it: */
    int64_t asked_us;
    double *asked_x; /* nx */

    double *wrong; /* nx: probability */
} hb_channels;

/* Takes the arrays from the arena; then, with memory, finds the kinematics of the model. */
void hb_channels_lay_out(hb_channels *c, const hb_model *m, hb_arena *arena);
void hb_channels_find(hb_channels *c, const hb_model *m);

/* Forgets what came before: a reset, or another vehicle. */
void hb_channels_reset(hb_channels *c);
/* A sample (nx, finite, its quaternion of length one). `joined`: it continues the one before it. */
void hb_channels_sample(hb_channels *c, int64_t time_us, const double *x, bool joined);
/* The state that a request tells, by the same clock. */
void hb_channels_request(hb_channels *c, int64_t time_us, const double *x);

/* The channel that is the most likely wrong, and how likely that is. -1: none is compared. */
int hb_channels_worst(const hb_channels *c, double *ret_probability);
/* Seconds for which a channel has had the very same value. */
double hb_channels_stands(const hb_channels *c, int channel);

#endif
