/* Data sets: trajectories of many dynamics ("functions"), in memory and as HDF5 files in Minari's layout.
 *
 *     /                      attributes: state_names, state_units, control_names, control_units, dt, plant, seed,
 *                            control_min, control_max, control_trim, control_delay, control_lag, parameters_known (1: a
 * vehicle's parameters are known before it flies), total_episodes, total_steps /episode_N             attributes: id,
 * total_steps, function (id of the dynamics), hidden_NAME (its parameters) observations         (T + 1) x nx, physical
 * units actions              T x nu, action k is held from observation k to observation k + 1 times                T +
 * 1 seconds, only where steps are irregular
 *
 * Files without our attributes (Minari's own) are taken with a hb_dataset_mapping. */
#ifndef HB_DATASET_H
#define HB_DATASET_H

#include <stdbool.h>
#include <stdio.h>

#include "base/base.h"
#include "dynamics/actuators.h"
#include "estimate/estimator.h"
#include "model/model.h"
#include "data/stream.h"

typedef struct hb_episode {
    int id;             /* N of episode_N */
    int function;       /* index into hb_dataset.function */
    int nsteps;         /* T >= 1 */
    const double *x;    /* (T + 1) x nx, rows are successive in memory */
    const double *u;    /* T x nu; NULL when nu = 0 */
    const double *time; /* T + 1, seconds, strictly increasing; NULL: steps of hb_dataset.dt */
    size_t first;       /* transitions of the same function in the episodes before this one */
    hb_stream *stream;  /* the file that x and u lie in: to be touched after reading; NULL: they are in memory */
} hb_episode;

/* One dynamics: its episodes are successive in hb_dataset.episode. */
typedef struct hb_function {
    int id;               /* as in the file */
    int episode;          /* index of its first episode */
    int nepisodes;        /* >= 1 */
    size_t ntransitions;  /* over its episodes, >= 1 */
    const double *hidden; /* nhidden; NaN where the file does not say */
} hb_function;

/* What a file says about all of its episodes. */
typedef struct hb_dataset_header {
    int nx, nu;
    double dt; /* nominal control period, seconds */
    uint64_t seed;
    char plant[HB_NAME_SIZE];                                          /* "" when unknown */
    char (*state_name)[HB_NAME_SIZE], (*state_unit)[HB_NAME_SIZE];     /* nx; units "" when unknown */
    char (*control_name)[HB_NAME_SIZE], (*control_unit)[HB_NAME_SIZE]; /* nu */
    double *control_min, *control_max, *control_trim;                  /* nu: as in the file, else the data's
                                                                          minimum, maximum and mean */
    int nhidden;
    char (*hidden_name)[HB_NAME_SIZE]; /* nhidden, without "hidden_"; ordered by name */
    bool parameters_known; /* they are known of a vehicle before it flies, as those of a log's description are */
    double *control_delay, *control_lag; /* nu, seconds, as identified; NaN: not; a writer takes none */
} hb_dataset_header;

typedef struct hb_dataset {
    hb_dataset_header header;
    int nfunctions;
    hb_function *function; /* ordered by id */
    int nepisodes;
    hb_episode *episode; /* ordered by function, then id */
    size_t ntransitions;
    uint64_t hash; /* of all numbers and names, not of the file's bytes */
    hb_stream *stream;
    int nparts; /* of several files: the data sets that this one is made of, which it owns */
    struct hb_dataset **part;
    bool any_heading; /* its flights stand for such at all headings: examples are drawn turned (headings.h) */
    double *turned;   /* of a set with turned states (hb_headings_turned): those */
} hb_dataset;

/* How a foreign file is to be read. Zero means: as our own files are. Fields are set by hb_dataset_map. */
enum { HB_MAPPING_TEXT = 1024 };

typedef enum {
    HB_FUNCTIONS_ATTRIBUTE, /* an attribute of the episode (default), named `function_attribute` */
    HB_FUNCTIONS_ONE,       /* the whole file is one function */
    HB_FUNCTIONS_EPISODE,   /* every episode is one of its own */
} hb_functions;

typedef struct hb_dataset_mapping {
    double dt; /* seconds; 0: the file's */
    hb_functions functions;
    char function_attribute[HB_NAME_SIZE]; /* "": function */
    char observations[HB_MAPPING_TEXT];    /* path in the episode's group; "": observations */
    char actions[HB_MAPPING_TEXT];         /* the same; "": actions; "none": nu = 0 */
    char states[HB_MAPPING_TEXT];          /* names of the columns, comma-separated, "-" drops one; "": the file's */
    char controls[HB_MAPPING_TEXT];
    bool stream; /* states and controls stay in the file, which must hold them as hilbert-sim writes them */
} hb_dataset_mapping;

/* Sets one field from "key=value": dt, functions (one, episode, or attribute:NAME), observations, actions, states,
 * controls. */
int hb_dataset_map(hb_dataset_mapping *m, const char *assignment, hb_error *err);
/* The text that describes the keys, for --help. */
extern const char hb_dataset_map_help[];

/* Reads and checks a whole file; mapping may be NULL. Errors name the file, the group and the row. */
int hb_dataset_read(hb_dataset **ret, const char *path, const hb_dataset_mapping *mapping, hb_error *err);
/* The same of several files, whose functions become those of one set: names and patterns (*, ?, {a,b}), joined by
 * commas. Where two files use the same ids, the functions of the later one get new ids. */
int hb_dataset_read_many(hb_dataset **ret, const char *list, const hb_dataset_mapping *mapping, hb_error *err);
uint64_t hb_dataset_hash(const hb_dataset *d);
/* Does a text hold what a terminal would obey: escapes, ends of lines? */
bool hb_dataset_control_character(const char *text);
void hb_dataset_free(hb_dataset *d);
/* Index of a state by its name, or -1. */
int hb_dataset_state(const hb_dataset *d, const char *name);
/* Of n states; false: it does not have all of them. */
bool hb_dataset_states(const hb_dataset *d, const char *const *name, int n, int *ret);

/* Transition `index` (0 .. ntransitions - 1) of a function. Its x and u are rows of an episode, so the steps that
 * follow it are behind them in memory; `remaining`, unless NULL, says how many there are in the episode from this one
 * on (>= 1). */
void hb_dataset_transition(const hb_dataset *d, int function, size_t index, hb_transition *ret, int *remaining);
/* Seconds from observation `step` of an episode to the next. */
static inline double hb_episode_dt(const hb_dataset *d, const hb_episode *e, int step)
{
    return e->time ? e->time[step + 1] - e->time[step] : d->header.dt;
}

/* Of vehicles that flew, with the noise of their sensors: nothing is hidden on purpose, as a simulator does. */
static inline bool hb_dataset_is_logs(const hb_dataset *d)
{
    return d->header.parameters_known || d->header.nhidden == 0;
}

/* Mean and standard deviation of states and controls over all transitions (nx, nx, nu, nu; each may be NULL). A
 * deviation that is zero is given as 1. scale: what each function's controls are divided by; NULL: 1. */
void hb_dataset_moments(const hb_dataset *d, double *state_mean, double *state_std, double *control_mean,
                        double *control_std, const double *scale);

/* Of one episode: acting (nsteps x nu) holds its commands, and then what acts. */
void hb_episode_actuate(const hb_dataset *d, const hb_episode *e, const hb_actuators *a, double *acting);
/* Takes the controls of the set for commands and puts in their place what acts on the vehicle: the mean, over each
 * transition, of the commands behind delay and lag (a->nu of the set's controls). -EINVAL when they are in a file. */
int hb_dataset_actuate(hb_dataset *d, const hb_actuators *a, hb_error *err);

/* Writes what is in the set: functions, episodes, ranges, histogram lines. */
void hb_dataset_describe(const hb_dataset *d, FILE *out);

/* Writing, an episode at a time: to a temporary file beside `path` that hb_dataset_writer_close puts in its place.
 * The same calls give the same bytes. */
typedef struct hb_dataset_writer hb_dataset_writer;

/* header is copied; bounds and trim may be NULL. */
int hb_dataset_writer_new(hb_dataset_writer **ret, const char *path, const hb_dataset_header *header, hb_error *err);
/* Appends an episode of function `function` (an id). x: (nsteps + 1) x nx; u: nsteps x nu; time: nsteps + 1 or NULL;
 * hidden: nhidden. Refuses what the reader would refuse. */
int hb_dataset_writer_append(hb_dataset_writer *w, int function, int nsteps, const double *x, const double *u,
                             const double *time, const double *hidden, hb_error *err);
/* Puts delay and lag of the controls (nu) into a file that is there, in the place of those that it has. */
int hb_dataset_put_actuators(const char *path, int nu, const double *delay, const double *lag, hb_error *err);
/* Completes the file and frees the writer, also on failure. */
int hb_dataset_writer_close(hb_dataset_writer *w, hb_error *err);
/* Removes the temporary file and frees the writer. */
void hb_dataset_writer_free(hb_dataset_writer *w);

/* CSV logs into a data set: a header line names the columns; one file is one episode, cut in two where time jumps.
 * A row's controls are those in force from its time on. */
typedef struct hb_csv_import {
    int nfiles;
    const char *const *file;
    const char *time;     /* column of seconds (or of `time_scale` seconds); NULL: rows are `dt` apart */
    double time_scale;    /* seconds per unit of the time column: 0 or 1 for seconds, 1e-6 for microseconds */
    const char *states;   /* "name", "name[unit]", "name=column" or "name[unit]=column", comma-separated; the order is
                             that of the data set */
    const char *controls; /* the same; NULL or "": none */
    double dt;            /* nominal period; 0: the median step of the first file */
    double gap;           /* a step longer than this many periods cuts the episode; 0: 3 */
    const int *function;  /* nfiles: to which function (id) a file belongs; NULL: each is one of its own */
    const char *bounds;   /* of controls: "min..max" for all, or "control=min..max,..."; NULL: not in the file, so that
                             a reader takes the logged range */
    const char *trim;     /* "number" or "control=number,..."; NULL: not in the file, so that a reader takes the mean */
    const char *plant;    /* NULL: "" */
} hb_csv_import;

int hb_dataset_import_csv(const hb_csv_import *import, const char *path, hb_error *err);

#endif
