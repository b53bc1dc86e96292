#include "ctl/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32 };

static const ctl_option *find(const ctl_option *options, int letter)
{
    for (; options->letter; options++)
        if (options->letter == letter)
            return options;
    return NULL;
}

/* The table as getopt wants it. */
static void translate(const ctl_option *options, struct option *ret, char *letters)
{
    *letters++ = ':'; /* a missing value is told apart from an unknown option */
    for (; options->letter; options++) {
        int argument = options->kind == CTL_FLAG ? no_argument : required_argument;
        *ret++ = (struct option){options->name, argument, NULL, options->letter};
        *letters++ = options->letter;
        if (argument == required_argument)
            *letters++ = ':';
    }
    *ret++ = (struct option){"help", no_argument, NULL, 'h'};
    *ret = (struct option){0};
    strcpy(letters, "h");
}

static int take(const ctl_command *self, const ctl_option *option)
{
    switch (option->kind) {
    case CTL_FLAG:
        *(bool *)option->value = true;
        return CTL_OK;
    case CTL_TEXT:
        *(const char **)option->value = optarg;
        return CTL_OK;
    case CTL_NUMBER:
        return ctl_read_number(self, optarg, option->min, option->max, option->value);
    }
    return CTL_OK;
}

int ctl_read_options(const ctl_command *self, int argc, char **argv, const ctl_option *options, int operands)
{
    struct option known[MOST];
    char letters[2 * MOST];
    int result = CTL_OK;

    translate(options, known, letters);
    opterr = 0;
    for (int letter; !result && (letter = getopt_long(argc, argv, letters, known, NULL)) != -1;) {
        const ctl_option *option = find(options, letter);
        if (letter == 'h') {
            ctl_help(self);
            return CTL_HELP;
        }
        if (option)
            result = take(self, option);
        else
            result = ctl_usage_error(self, letter == ':' ? "option '%s' needs a value" : "unknown option '%s'",
                                     argv[optind - 1]);
    }
    if (!result && argc - optind > operands)
        return ctl_usage_error(self, "'%s' is not expected", argv[optind + operands]);
    return result;
}

int ctl_read_number(const ctl_command *self, const char *text, double min, double max, double *ret)
{
    char *end;
    double v = strtod(text, &end);

    if (!*text || *end || !isfinite(v) || v < min || v > max)
        return ctl_usage_error(self, "'%s' is not a number from %g to %g", text, min, max);
    *ret = v;
    return CTL_OK;
}
