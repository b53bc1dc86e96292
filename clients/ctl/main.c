/* hilbertctl: look at models and at a running daemon. This file finds the command; see commands.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ctl/commands.h"

static const ctl_command *const commands[] = {
#ifdef HB_WITH_DAEMON
    &ctl_command_list,         &ctl_command_set,     &ctl_command_get,     &ctl_command_diff,    &ctl_command_save,
    &ctl_command_status,       &ctl_command_top,     &ctl_command_watch,   &ctl_command_metrics, &ctl_command_reset,
    &ctl_command_target,       &ctl_command_reload,  &ctl_command_request, &ctl_command_predict, &ctl_command_keygen,
    &ctl_command_coefficients, &ctl_command_promote, &ctl_command_record,  &ctl_command_info,    &ctl_command_export,
    &ctl_command_recover,
#endif
    &ctl_command_model,
};

enum { NCOMMANDS = sizeof commands / sizeof *commands };

static int overview(void)
{
    printf("usage: hilbertctl [OPTIONS] COMMAND [OPTIONS]\n"
           "\n"
           "Looks at basis files, at recordings, and at a running hilbertd.\n"
           "\n"
           "commands\n");
    for (int i = 0; i < NCOMMANDS; i++)
        printf("  %-13s %s\n", commands[i]->name, commands[i]->summary);
    printf("\n"
           "  -h, --help     this text; hilbertctl COMMAND --help: that command's\n"
           "  -V, --version  the version\n"
           "\n"
           "exit status: 0 success, 1 failure, 2 wrong usage\n");
    return CTL_OK;
}

void ctl_help(const ctl_command *self)
{
    printf("usage: hilbertctl %s %s\n\n%s\nexit status: 0 success, 1 failure, 2 wrong usage\n", self->name,
           self->arguments, self->help);
}

int ctl_usage_error(const ctl_command *self, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "hilbertctl %s: ", self->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " (try hilbertctl %s --help)\n", self->name);
    return CTL_USAGE;
}

int ctl_failure(const ctl_command *self, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "hilbertctl %s: ", self->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return CTL_FAILURE;
}

/* Options of every command that asks a daemon may come before it: hilbertctl -n left status. Then the command is put
 * first. */
static void put_command_first(int argc, char **argv)
{
    static const char *const with_value[] = {"-n",        "--name", "-s",           "--socket", "-t",
                                             "--timeout", "-K",     "--server-key", "-k",       "--client-key"};
    int at = 1;

    while (at < argc && argv[at][0] == '-' && argv[at][1]) {
        int step = 1;
        for (size_t i = 0; i < sizeof with_value / sizeof *with_value; i++)
            if (!strcmp(argv[at], with_value[i]))
                step = 2;
        at += step;
    }
    if (at >= argc)
        return;
    char *command = argv[at];
    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof *argv);
    argv[1] = command;
}

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    if (!strcmp(name, "-h") || !strcmp(name, "--help"))
        return overview();
    if (!strcmp(name, "-V") || !strcmp(name, "--version")) {
        printf("hilbertctl %s\n", HB_VERSION);
        return CTL_OK;
    }
    put_command_first(argc, argv);
    name = argc > 1 ? argv[1] : "";
    for (int i = 0; i < NCOMMANDS; i++)
        if (!strcmp(name, commands[i]->name))
            return commands[i]->run(commands[i], argc - 1, argv + 1);
    if (*name)
        fprintf(stderr, "hilbertctl: there is no command '%s' (try hilbertctl --help)\n", name);
    else
        fprintf(stderr, "hilbertctl: no command given (try hilbertctl --help)\n");
    return CTL_USAGE;
}

int main(int argc, char **argv)
{
    int status = run(argc, argv);

    if (status == CTL_HELP)
        status = CTL_OK;
    /* a full disk or a closed pipe is a failure, too */
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CTL_OK) {
        perror("hilbertctl: cannot write to standard output");
        return CTL_FAILURE;
    }
    return status;
}
