/* The commands of hilbert-sim, and what they share. Each returns the exit code: 0, 1 (failure) or 2 (usage). */
#ifndef HB_COMMANDS_H
#define HB_COMMANDS_H

#include "common/options.h"
#include "sim/plant.h"

int hb_command_list(int argc, char **argv);
int hb_command_collect(int argc, char **argv);
int hb_command_fly(int argc, char **argv);
int hb_command_describe(int argc, char **argv);

/* The plant that an argument names: one of the table, or a robot's MJCF file, whose warnings are printed. Returns 0, or
 * the exit code. hb_plant_done frees it. */
int hb_plant_named(const char *command, const char *name, const hb_plant_type **ret);
void hb_plant_done(const hb_plant_type *type);

/* Prints "hilbert-sim COMMAND: ..." and returns 2. */
int hb_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints "hilbert-sim COMMAND: error text" and returns 1. */
int hb_failure(const char *command, const hb_error *err);

/* The options after `hilbert-sim COMMAND PLANT`, with no operands behind them. Returns -1 to continue, or the exit
 * code: 0 after help, 2 after a usage error. */
int hb_plant_options(const char *command, const char *help, const hb_option *table, int n, int argc, char **argv);
/* "name=value" or "name=low:high". */
int hb_parse_range(const hb_plant_type *type, const char *text, int *parameter, double *low, double *high,
                   hb_error *err);

#endif
