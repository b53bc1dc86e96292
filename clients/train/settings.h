/* What hilbert-train can be told, by options or by a YAML file: one table, from which everything is parsed, checked,
 * printed and documented. */
#ifndef HB_SETTINGS_H
#define HB_SETTINGS_H

#include <stdio.h>

#include <stdbool.h>

#include "train/fit.h"
#include "model/model.h"

enum { HB_PATH_SIZE = 1024, HB_MAX_HIDDEN = HB_MAX_LAYERS - 1, HB_MOST_SETTINGS = 80 };

/* The rows of the paper's tables, and ours. */
#define HB_KINDS(X)                                                                                                    \
    X(SHARED, "shared", "one trunk and a linear head for all basis functions and the average")                         \
    X(FE_NODE, "fe-node", "the paper's FE + NODE: a network for each basis function")                                  \
    X(FE_NODE_RES, "fe-node-res", "the paper's FE + NODE + Res: the same, and a network for the average")              \
    X(FE_RES, "fe-res", "the paper's FE + Res: networks give increments directly; no ODE, no average")                 \
    X(NODE, "node", "the paper's NODE: one network, no coefficients")                                                  \
    X(ORACLE, "oracle", "the paper's Oracle: a NODE that is told the hidden parameters")

typedef enum {
#define X(id, name, help) HB_KIND_##id,
    HB_KINDS(X)
#undef X
        HB_NKINDS
} hb_kind;

extern const char *const hb_kind_name[], *const hb_kind_help[];

typedef enum { HB_DECAY_NONE, HB_DECAY_COSINE } hb_decay;
typedef enum { HB_ADAM, HB_MUON } hb_optimiser;
typedef enum { HB_CONTROLS_COMMANDED, HB_CONTROLS_ACTING } hb_controls;
typedef enum { HB_HEADINGS_LOGGED, HB_HEADINGS_ANY } hb_which_headings;
typedef enum { HB_FIT_BY_RIDGE, HB_FIT_BY_PRIOR } hb_fit_by;
typedef enum { HB_WEIGHT_ALIKE, HB_WEIGHT_EACH, HB_WEIGHT_CHANGE } hb_weighting;

/* A list of layer widths; n = 0: the kind's own. */
typedef struct hb_widths {
    int n;
    int width[HB_MAX_HIDDEN];
} hb_widths;

typedef struct hb_settings {
    /* files */
    char data[HB_PATH_SIZE], validation[HB_PATH_SIZE], output[HB_PATH_SIZE];
    char log[HB_PATH_SIZE], checkpoint[HB_PATH_SIZE], plot[HB_PATH_SIZE];
    char map[HB_PATH_SIZE];
    char initial[HB_PATH_SIZE];
    int hold_out; /* functions; -1: a tenth */
    int headings; /* hb_which_headings; -1: logged, unless a recipe says otherwise */
    /* model */
    int kind; /* hb_kind */
    int nb;   /* -1: the kind's own */
    hb_widths hidden, average_hidden;
    int activation;  /* hb_activation; -1: the kind's own */
    int integration; /* hb_integration; -1: the kind's own */
    char average[HB_PATH_SIZE];
    char inputs[HB_PATH_SIZE], outputs[HB_PATH_SIZE], angles[HB_PATH_SIZE];
    int method, shape; /* hb_method, hb_shape */
    double ridge, volume;
    int join; /* basis functions; 0: no */
    int constants;
    int substeps;
    char delay[HB_PATH_SIZE], lag[HB_PATH_SIZE];
    int controls; /* hb_controls */
    int identify; /* -1: where the data are logs */
    /* loss */
    int functions, examples, queries, rollout;
    double rollout_growth; /* part of the steps */
    int refinements;
    double regulariser, matryoshka;
    int weighting; /* hb_weighting */
    int fit;       /* hb_fit_by */
    uint64_t prior_every;
    /* optimiser */
    uint64_t steps, seed;
    double learning_rate, clip;
    int decay;        /* hb_decay */
    int optimiser;    /* hb_optimiser; -1: by the model */
    double averaging; /* part of the steps */
    /* the run itself: none of these changes the result, except patience, which ends it early */
    int threads, patience, stream;
    uint64_t validate_every;
    double checkpoint_every, log_every;
    bool given[HB_MOST_SETTINGS]; /* which were set by text: a recipe (recipe.h) leaves them alone. The last field */
} hb_settings;

void hb_settings_default(hb_settings *s);
/* Those that a model was made with, by its notes; false: they do not say. */
bool hb_settings_of_notes(hb_settings *ret, const char *notes);

/* Sets one value from text. -EINVAL names the setting, what was found and what is expected. */
int hb_settings_set(hb_settings *s, const char *name, const char *text, hb_error *err);
/* Was it set by text? */
bool hb_settings_given(const hb_settings *s, const char *name);
/* Sets values from a YAML mapping; a list stands for its items separated by commas. Errors begin with path:line. */
int hb_settings_parse(hb_settings *s, const char *yaml, const char *path, hb_error *err);
/* Sets values from --name value or --name=value, and stops at the first argument that is neither: *ret_next.
 * --config FILE is read where it stands. */
int hb_settings_arguments(hb_settings *s, int argc, char **argv, int *ret_next, hb_error *err);

/* All values, as YAML: what hb_settings_parse reads back. Free the text. only_result: without those that do not change
 * the result. NULL when out of memory. */
char *hb_settings_text(const hb_settings *s, bool only_result);
/* The command that does the same again: options that change the result and are not at their defaults. Free the text. */
char *hb_settings_command(const hb_settings *s);
/* The name of a setting of the model that is not at its default, and that a model which is given settles: NULL when
 * there is none. */
const char *hb_settings_settled_by_model(const hb_settings *s);
/* -EINVAL, with the name of the setting, when two runs cannot give the same result. More or fewer steps are no
 * difference where the learning rate does not depend on them. */
int hb_settings_same_result(const hb_settings *a, const hb_settings *b, hb_error *err);
void hb_settings_help(FILE *out);

#endif
