/* Data collection: functions (draws of the hidden parameters) x episodes x steps into one data set. */
#ifndef HB_COLLECT_H
#define HB_COLLECT_H

#include "sim/plant.h"
#include "sim/policy.h"

typedef struct hb_collect {
    const hb_plant_type *plant;
    const hb_policy *policy;
    const char *path;
    int functions, episodes, steps, threads;
    int first; /* number of the first function: a part of a larger data set */
    uint64_t seed;
    double dt;
    bool irregular;
    double low[HB_PLANT_PARAMETERS], high[HB_PLANT_PARAMETERS]; /* a parameter is hidden where they differ */
    /* called after every function; may be NULL */
    void (*progress)(void *context, int done, int of);
    void *context;
} hb_collect;

typedef struct hb_collected {
    long transitions;
    long cut;     /* episodes that ended early */
    long refused; /* starts whose episodes failed at once and were drawn again */
    long redrawn; /* functions all of whose starts failed, drawn again: vehicles that cannot fly */
} hb_collected;

typedef struct hb_collected_episode {
    double *x, *u, *time; /* (steps + 1) x nx, steps x nu, steps + 1 */
    int nsteps;           /* up to where it failed; the step that led into the failure is not kept */
    bool cut;             /* it did */
} hb_collected_episode;

/* One episode of the plant with its parameters as they stand. An episode that fails in its first fifth is drawn again,
 * *ret_refused (may be NULL) times; -EINVAL when that happens over and over. */
int hb_collect_episode(const hb_collect *c, hb_plant *p, int function, int number, hb_collected_episode *e,
                       int *ret_refused, hb_error *err);
int hb_collected_episode_new(const hb_collect *c, hb_collected_episode *e, hb_error *err);
void hb_collected_episode_free(hb_collected_episode *e);

/* The same seed gives the same bytes for any number of threads. */
int hb_collect_run(const hb_collect *c, hb_collected *ret, hb_error *err);

#endif
