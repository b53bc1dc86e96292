/* Options of a command as a table: each is read, checked and put where it belongs. */
#ifndef HB_OPTIONS_H
#define HB_OPTIONS_H

#include <getopt.h> /* optind */
#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

typedef enum {
    HB_OPTION_FLAG,   /* bool: becomes true */
    HB_OPTION_CLEAR,  /* bool: becomes false */
    HB_OPTION_TEXT,   /* const char * */
    HB_OPTION_WHOLE,  /* int, min..max */
    HB_OPTION_COUNT,  /* uint64_t, min..max */
    HB_OPTION_NUMBER, /* hb_option_number */
    HB_OPTION_CALL,   /* hb_option_call */
} hb_option_type;

/* A number that need not be whole: {"dt", HB_OPTION_NUMBER, &(hb_option_number){&dt, 1e-4, 1e3}, 0, 0, 0} */
typedef struct hb_option_number {
    double *to;
    double min, max;
} hb_option_number;

/* A value with a form of its own: `read` is called each time the option is given. It returns 0 or -errno. */
typedef struct hb_option_call {
    int (*read)(void *context, const char *text, hb_error *err);
    void *context;
} hb_option_call;

typedef struct hb_option {
    const char *name; /* without the dashes */
    hb_option_type type;
    void *to; /* untouched unless the option is given */
    long long min, max;
    char letter; /* of the short form; 0: there is none */
} hb_option;

typedef enum { HB_OPTIONS_READ, HB_OPTIONS_HELP, HB_OPTIONS_WRONG } hb_options_result;

/* Reads argv[1] onwards. Afterwards optind is the first argument that is not an option. HELP: --help or -h was given.
 * WRONG: `why` (of `size` bytes) says what is wrong. */
hb_options_result hb_options_read(const hb_option *table, int n, int argc, char **argv, char *why, size_t size);

/* The same for a whole command. Returns -1 to continue, or the exit code: 0 when `help` was called, 2 when the reason
 * went to standard error as "program: ...". */
int hb_options_command(const char *program, const hb_option *table, int n, int argc, char **argv, void (*help)(void));

/* Whether the whole text is one finite number from min to max, which then goes to n->to. */
bool hb_option_read_number(const hb_option_number *n, const char *text);

#endif
