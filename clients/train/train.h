/* The commands of hilbert-train. */
#ifndef HB_TRAIN_H
#define HB_TRAIN_H

#include <stdbool.h>

#include "base/base.h"

enum { HB_EXIT_OK = 0, HB_EXIT_FAILURE = 1, HB_EXIT_USAGE = 2 };

/* argv[0] is the command's name; each returns an exit code. */
int hb_train_import(int argc, char **argv);
int hb_train_import_csv(int argc, char **argv);
int hb_train_prune(int argc, char **argv);
int hb_train_prior(int argc, char **argv);

/* Writes "hilbert-train: TEXT" to standard error and returns the exit code. */
int hb_train_complain(int exit_code, const hb_error *err);

/* Refuses an output file that exists, unless `force`: prints why and returns an exit code, or returns -1 to continue.
 */
int hb_train_keep_existing(const char *output, bool force);

/* Reads --map into a hb_dataset_mapping: the function of an option (common/options.h). */
int hb_train_read_map(void *mapping, const char *text, hb_error *err);

#endif
