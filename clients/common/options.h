/* Options of a command as a table: each is read, checked and put where it belongs. */
#ifndef HB_OPTIONS_H
#define HB_OPTIONS_H

typedef enum {
    HB_OPTION_FLAG,  /* bool: becomes true */
    HB_OPTION_CLEAR, /* bool: becomes false */
    HB_OPTION_TEXT,  /* const char * */
    HB_OPTION_WHOLE, /* int, min..max */
    HB_OPTION_COUNT, /* uint64_t, min..max */
} hb_option_type;

typedef struct hb_option {
    const char *name; /* without the dashes */
    hb_option_type type;
    void *to;
    long long min, max;
    char letter; /* of the short form; 0: there is none */
} hb_option;

typedef enum { HB_OPTIONS_READ, HB_OPTIONS_HELP, HB_OPTIONS_WRONG } hb_options_result;

/* Afterwards optind is the first argument that is no option. HELP: --help or -h was given. WRONG: standard error says
 * why, as "program: ...". */
hb_options_result hb_options_parse(const char *program, const hb_option *table, int n, int argc, char **argv);

#endif
