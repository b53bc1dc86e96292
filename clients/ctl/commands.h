/* The commands of hilbertctl. Each is a file of its own, command_<name>.c, and a row of the table in main.c. */
#ifndef HB_CTL_COMMANDS_H
#define HB_CTL_COMMANDS_H

/* What a program's exit status says; of CTL_HELP, that help was asked for and given, it is 0. */
enum { CTL_HELP = -1, CTL_OK = 0, CTL_FAILURE = 1, CTL_USAGE = 2 };

typedef struct ctl_command {
    const char *name;
    const char *arguments; /* as in "usage: hilbertctl NAME ARGUMENTS" */
    const char *summary;   /* one line */
    const char *help;      /* the rest of NAME --help: what it does, its options */
    int (*run)(const struct ctl_command *self, int argc, char **argv); /* argv[0] is the name */
} ctl_command;

extern const ctl_command ctl_command_model;

/* these talk to a daemon: only in a build that has one (HB_WITH_DAEMON) */
extern const ctl_command ctl_command_status, ctl_command_top, ctl_command_watch, ctl_command_metrics, ctl_command_reset,
    ctl_command_target, ctl_command_reload, ctl_command_promote, ctl_command_request, ctl_command_predict,
    ctl_command_coefficients, ctl_command_keygen, ctl_command_record, ctl_command_info, ctl_command_export,
    ctl_command_recover, ctl_command_set, ctl_command_get, ctl_command_diff, ctl_command_save, ctl_command_list;

/* Prints usage and help to stdout. */
void ctl_help(const ctl_command *self);
/* Prints "hilbertctl NAME: text" and where to find help to stderr; returns CTL_USAGE. */
int ctl_usage_error(const ctl_command *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints "hilbertctl NAME: text" to stderr; returns CTL_FAILURE. */
int ctl_failure(const ctl_command *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
