#include "ctl/options.h"

enum { MOST = 30 };

int ctl_read_options(const ctl_command *self, int argc, char **argv, const ctl_option *options, int operands)
{
    static const hb_option_type type[] = {
        [CTL_FLAG] = HB_OPTION_FLAG, [CTL_TEXT] = HB_OPTION_TEXT, [CTL_NUMBER] = HB_OPTION_NUMBER};
    hb_option_number number[MOST];
    hb_option table[MOST];
    char why[600];
    int n = 0;

    for (; options->letter && n < MOST; options++, n++) {
        number[n] = (hb_option_number){options->value, options->min, options->max};
        table[n] = (hb_option){.name = options->name,
                               .type = type[options->kind],
                               .to = options->kind == CTL_NUMBER ? &number[n] : options->value,
                               .letter = options->letter};
    }
    switch (hb_options_read(table, n, argc, argv, why, sizeof why)) {
    case HB_OPTIONS_HELP:
        ctl_help(self);
        return CTL_HELP;
    case HB_OPTIONS_WRONG:
        return ctl_usage_error(self, "%s", why);
    case HB_OPTIONS_READ:
        break;
    }
    if (argc - optind > operands)
        return ctl_usage_error(self, "'%s' is not expected", argv[optind + operands]);
    return CTL_OK;
}

int ctl_read_number(const ctl_command *self, const char *text, double min, double max, double *ret)
{
    if (!hb_option_read_number(&(hb_option_number){ret, min, max}, text))
        return ctl_usage_error(self, "'%s' is not a number from %g to %g", text, min, max);
    return CTL_OK;
}
