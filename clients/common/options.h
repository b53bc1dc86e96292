/* Options of a command as a table: each is read, checked and put where it belongs. */
#ifndef HB_OPTIONS_H
#define HB_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    HB_OPTION_FLAG,   /* bool: becomes true */
    HB_OPTION_CLEAR,  /* bool: becomes false */
    HB_OPTION_TEXT,   /* const char * */
    HB_OPTION_WHOLE,  /* int, min..max */
    HB_OPTION_COUNT,  /* uint64_t, min..max */
    HB_OPTION_NUMBER, /* hb_option_number */
} hb_option_type;

/* A number that need not be whole: {"dt", HB_OPTION_NUMBER, &(hb_option_number){&dt, 1e-4, 1e3}, 0, 0, 0} */
typedef struct hb_option_number {
    double *to;
    double min, max;
} hb_option_number;

typedef struct hb_option {
    const char *name; /* without the dashes */
    hb_option_type type;
    void *to; /* untouched unless the option is given */
    long long min, max;
    char letter; /* of the short form; 0: there is none */
} hb_option;

typedef enum { HB_OPTIONS_READ, HB_OPTIONS_HELP, HB_OPTIONS_WRONG } hb_options_result;

/* Afterwards optind is the first argument that is no option. HELP: --help or -h was given. WRONG: `why` (of `size`
 * bytes) says what is wrong. */
hb_options_result hb_options_read(const hb_option *table, int n, int argc, char **argv, char *why, size_t size);
/* The same, with the reason on standard error as "program: ...". */
hb_options_result hb_options_parse(const char *program, const hb_option *table, int n, int argc, char **argv);

/* The options of a command with a help text. Returns -1 to go on, or the exit code: 0 after help, 2 after a complaint.
 */
int hb_options_command(const char *program, const hb_option *table, int n, int argc, char **argv, void (*help)(void));

/* Whether the whole text is one finite number from min to max, which then goes to n->to. */
bool hb_option_read_number(const hb_option_number *n, const char *text);

#endif
