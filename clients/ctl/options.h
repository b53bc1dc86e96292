/* The options of a command: a table, read in one place. */
#ifndef HB_CTL_OPTIONS_H
#define HB_CTL_OPTIONS_H

#include <stdbool.h>

#include "common/options.h"
#include "ctl/commands.h"

typedef enum { CTL_FLAG, CTL_TEXT, CTL_NUMBER } ctl_option_kind;

typedef struct ctl_option {
    char letter;
    const char *name;
    ctl_option_kind kind;
    void *value;     /* bool, const char * or double: untouched unless the option is given */
    double min, max; /* of a number */
} ctl_option;

/* Reads options up to the row with letter 0, and --help; operands follow from argv[optind] on, at most so many. CTL_OK;
 * CTL_HELP, having printed it; or CTL_USAGE, having said why. */
int ctl_read_options(const ctl_command *self, int argc, char **argv, const ctl_option *options, int operands);

int ctl_read_number(const ctl_command *self, const char *text, double min, double max, double *ret);

#endif
