/* A vehicle's own equations as expressions: compiled once, then evaluated on batches with exact derivatives.
 *
 * The text has a line per expression, in any order. A name with ' is the rate of a state; one without is a quantity
 * that other lines may use:
 *
 *     force = drive * throttle - drag * v
 *     v' = force / mass
 *     x' = v * cos(heading)
 *
 *     expression   + - * / ^ (or **), parentheses, numbers, pi, names of states, controls, parameters and quantities
 *     functions    sin cos tan asin acos atan tanh exp log sqrt abs sign; atan2 min max of two arguments
 *
 * Reading makes a graph in which equal nodes are one and parameters are numbers. The adjoint (df/d(x, u))^T d is a
 * graph too, made from the first by going backwards through it once; so evaluation knows plain operations alone. Both
 * are laid out as tapes of operations on rows of lanes (batch.h): straight lines without jumps, calls or addresses,
 * which is all that a model file can ask for. Sizes are bounded, and known before anything runs. */
#ifndef HB_PHYSICS_H
#define HB_PHYSICS_H

#include <stdbool.h>

#include "model/nominal.h"

enum {
    HB_PHYSICS_TEXT = 16384,      /* bytes of all lines */
    HB_PHYSICS_LINES = 512,       /* rates and quantities */
    HB_PHYSICS_VARIABLES = 256,   /* states, and as many controls */
    HB_PHYSICS_OPERATIONS = 8192, /* of a tape */
    HB_PHYSICS_DEPTH = 64,        /* parentheses and quantities within each other */
};

typedef struct hb_physics_source {
    int nx, nu;
    char (*state)[HB_NAME_SIZE], (*control)[HB_NAME_SIZE];
    int nparameters; /* at most HB_NOMINAL_PARAMETERS */
    char (*parameter)[HB_NAME_SIZE];
    const double *value; /* of the parameters */
    const char *text;
} hb_physics_source;

/* Where in the text something is wrong, counted from 0; line -1: nowhere in it. */
typedef struct hb_physics_place {
    int line;
    int column; /* bytes from the first of the expression, after = and spaces */
    char name[HB_NAME_SIZE];
    bool is_rate;
} hb_physics_place;

typedef struct hb_physics hb_physics;

/* Compiles, or says what is wrong and, unless place is NULL, where. */
int hb_physics_new(hb_physics **ret, const hb_physics_source *source, hb_physics_place *place, hb_error *err);
void hb_physics_free(hb_physics *p);

/* To be used as any other nominal model; it lives as long as p. */
const hb_nominal *hb_physics_nominal(const hb_physics *p);
const char *hb_physics_text(const hb_physics *p);

/* For models, which are one block of memory: how many bytes a copy takes, and the copy, at an aligned place. */
size_t hb_physics_size(const hb_physics *p);
const hb_physics *hb_physics_copy(const hb_physics *p, void *to);

#endif
