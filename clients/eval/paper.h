/* The paper's comparison as data: plants, scales, rows, and the settings that each row is trained with. */
#ifndef HB_PAPER_H
#define HB_PAPER_H

#include "train/settings.h"

enum {
    HB_PAPER_MAX_ROWS = 10,
    HB_PAPER_MAX_BASES = 8,
    HB_PAPER_MAX_SEEDS = 9,
    HB_PAPER_LATE = 10,
    HB_PAPER_FOLDER = 600
};

typedef struct hb_paper_plant {
    const char *name;
    const char *inputs;  /* what feeds our models: all but the position */
    const char *average; /* the physics that one of our rows knows; NULL: there is no such row */
    const char *across;  /* hidden parameter that errors are shown against; NULL: none */
    hb_shape shape;      /* of the coefficients, for all rows */
    int nb;              /* of our rows, as in the shipped models */
    hb_widths hidden;    /* their hidden layers */
    int integration;     /* hb_integration of our rows; -1: as usual */
    int fit;             /* hb_fit_by of our rows' trainings */
    int rollout;   /* transitions that a query point of our rows is rolled out for: there are as many fewer points */
    double growth; /* part of the steps over which rollouts grow to that */
    int join;      /* basis functions that our rows' coefficients become after training; 0: they stay */
    int examples;  /* that models are fitted to, as in the paper */
    bool flies;    /* the planner is compared too */
    int episode_steps; /* as in the paper */
} hb_paper_plant;

typedef struct hb_paper_scale {
    const char *name, *help;
    int train_functions, test_functions;
    int transitions;               /* of each function */
    int episode_steps;             /* of them in an episode; 0: as many as the plant's have */
    int nb;                        /* of the paper's rows */
    hb_widths fe, node;            /* their hidden layers */
    int our_nb;                    /* of our rows; 0: the plant's */
    hb_widths ours;                /* their hidden layers; none: the plant's */
    uint64_t steps;                /* gradient steps, the same for all rows */
    int functions;                 /* a gradient step */
    int examples, queries;         /* points per function */
    int rollouts, rollout_steps;   /* of the tables */
    int bases[HB_PAPER_MAX_BASES]; /* numbers of basis functions to compare; 0 ends them */
    uint64_t bases_steps;          /* gradient steps of that comparison */
    double cpu_seconds_each;       /* of training for each row; 0: as many as the steps take */
    uint64_t least_steps;          /* before there are fewer the batch shrinks, and never the model */
    bool bases_of_paper;           /* compare those of FE + NODE + Res too, not ours alone */
    /* the planner's comparison: flight_examples are shown to the estimator before each flight */
    int masses, starts, flight_steps, flight_examples, iterations;
    int our_iterations; /* of our rows' plans; 0: as many */
} hb_paper_scale;

typedef struct hb_paper_row {
    const char *name, *file, *colour;
    hb_kind kind;
    bool ours, physics; /* physics: knows the plant's nominal model */
    bool inner_product; /* coefficients as in the authors' code: inner products, one for each state */
    bool flown;         /* in the planner's comparison */
} hb_paper_row;

/* One comparison: what, how large, and where it is kept. */
typedef struct hb_paper {
    const hb_paper_plant *plant;
    const hb_paper_scale *scale;
    int nrows;
    const hb_paper_row *row[HB_PAPER_MAX_ROWS];
    char folder[HB_PAPER_FOLDER];                 /* of this plant and scale */
    char sim[HB_PATH_SIZE];                       /* hilbert-sim */
    char train[HB_PATH_SIZE], test[HB_PATH_SIZE]; /* data sets: the folder's own, or such as are there already */
    uint64_t seed;
    int seeds;                  /* trainings of each row */
    bool no_bases;              /* numbers of basis functions are not compared */
    int rollouts;               /* per test function: the scale's, or as told */
    int flight_seconds;         /* of processor time for each row's flights; -1: as many as all take, 0: none */
    int threads;                /* 0: as many as there are processors */
    double cpu_seconds_each;    /* the scale's, or as told */
    char command[HB_PATH_SIZE]; /* that makes it again */
} hb_paper;

/* By name; NULL when there is none. */
const hb_paper_plant *hb_paper_plant_find(const char *name);
const hb_paper_scale *hb_paper_scale_find(const char *name);
void hb_paper_help(FILE *out);
/* Text in lines of at most so many characters; all but the first are indented. */
void hb_paper_wrap(FILE *out, const char *text, int indent, int width);

/* Fills in the rows of the plant: all, or those whose files' names are in a list with commas. -EINVAL: there is no such
 * row. */
int hb_paper_choose_rows(hb_paper *p, const char *list, hb_error *err);
/* FE + NODE + Res, and the best of ours that learns from data alone: those whose number of basis functions varies. */
const hb_paper_row *hb_paper_row_of_paper(void), *hb_paper_row_of_ours(void);

/* A file of the folder. */
void hb_paper_path(const hb_paper *p, const char *name, const char *suffix, char path[HB_PATH_SIZE]);
/* nb: 0, or another number of basis functions than the scale's, for the comparison of those. again: 0, or the number of
 * a further training with a seed of its own. */
void hb_paper_settings(const hb_paper *p, const hb_paper_row *row, int nb, int again, hb_settings *ret);
/* Sets batch and steps so that a training takes so many seconds, where a step with so many functions takes
 * `step_seconds`: the batch shrinks until there are least_steps, down to a smallest one. */
void hb_paper_fit_into(hb_settings *s, double seconds, double step_seconds, uint64_t least_steps);
/* Multiplications that the training takes, roughly: to tell how much time is left. */
double hb_paper_work(const hb_settings *s, int nx, int nu);

#endif
