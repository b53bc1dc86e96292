/* The commands of hilbert-train. */
#ifndef HB_TRAIN_H
#define HB_TRAIN_H

#include <stdbool.h>

#include "base/pool.h"
#include "common/options.h"
#include "data/dataset.h"

enum { HB_EXIT_OK = 0, HB_EXIT_FAILURE = 1, HB_EXIT_USAGE = 2 };

/* argv[0] is the command's name; each returns an exit code. */
int hb_train_import(int argc, char **argv);
int hb_train_describe(int argc, char **argv);
int hb_train_import_csv(int argc, char **argv);
int hb_train_constants(int argc, char **argv);
int hb_train_prune(int argc, char **argv);
int hb_train_prior(int argc, char **argv);
int hb_train_words(int argc, char **argv);
int hb_train_identify(int argc, char **argv);
int hb_train_vehicle(int argc, char **argv);

/* Writes "hilbert-train: TEXT" to standard error and returns the exit code. */
int hb_train_complain(int exit_code, const hb_error *err);

/* What the commands that make a model of another one begin with. */
typedef struct hb_train_input {
    const char *model_path, *data_path, *output; /* output: NULL unless given */
    hb_dataset_mapping mapping;
    int examples; /* transitions of each function that coefficients come from */
    int threads;  /* 0: as many as there are processors */
    uint64_t seed;
    bool force;
    hb_model *model;
    hb_dataset *data;
    hb_pool *pool;
} hb_train_input;

/* Their options, as rows of a table. */
#define HB_TRAIN_INPUT_OPTIONS(o)                                                                                      \
    {"data", HB_OPTION_TEXT, &(o)->data_path, 0, 0, 0},                                                                \
        {"map", HB_OPTION_CALL, &(hb_option_call){hb_train_read_map, &(o)->mapping}, 0, 0, 0},                         \
        {"output", HB_OPTION_TEXT, &(o)->output, 0, 0, 'o'},                                                           \
        {"examples", HB_OPTION_WHOLE, &(o)->examples, 1, 1000000, 0},                                                  \
    {                                                                                                                  \
        "force", HB_OPTION_FLAG, &(o)->force, 0, 0, 0                                                                  \
    }

/* Reads the options of a command that adds something to a model, of which all are required: rows of a table, after
 * those that all such commands have. Returns an exit code, or -1 to continue. */
int hb_train_input_read(hb_train_input *i, const char *command, const hb_option *more, int nmore, int argc, char **argv,
                        void (*print_help)(void));
/* The model's notes and a line on what was added from which data; allocated, NULL without memory. */
char *hb_train_input_notes(const hb_train_input *i, const char *what);
/* Loads the model and the data, and makes the pool. Close it in any case. */
int hb_train_input_open(hb_train_input *i, hb_error *err);
void hb_train_input_close(hb_train_input *i);

/* Refuses an output file that exists, unless `force`: prints why and returns an exit code, or returns -1 to continue.
 */
int hb_train_keep_existing(const char *output, bool force);

/* Reads --map into a hb_dataset_mapping: the function of an option (common/options.h). */
int hb_train_read_map(void *mapping, const char *text, hb_error *err);

#endif
