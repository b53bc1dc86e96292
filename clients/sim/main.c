/* hilbert-sim: MuJoCo plants for data and for closed-loop flight. This file finds the command. */
#include "sim/commands.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/policy.h"
#include "sim/robot.h"
#include "sim/weather.h"

static void print_help(void)
{
    printf("usage: hilbert-sim COMMAND [OPTIONS]\n\nPlants (");
    for (int i = 0; hb_plant_type_at(i); i++)
        printf("%s%s", i ? ", " : "", hb_plant_type_at(i)->name);
    printf(") as a source of data\n"
           "and as something to fly. A PLANT may also be a robot of one's own: robot.xml (MJCF) with robot.yaml beside "
           "it.\n"
           "\n"
           "commands\n"
           "  list [PLANT]     plants, their states, controls and hidden parameters, policies and weather\n"
           "  collect PLANT    simulate many versions of a plant and write a data set\n"
           "  fly PLANT        close the loop around a plant with hilbertd or in this process\n"
           "  describe F.xml   write a first F.yaml for a robot of one's own\n"
           "\n"
           "  -h, --help       this text; hilbert-sim COMMAND --help: that command's\n"
           "  -V, --version    the version\n"
           "\n"
           "exit status: 0 success, 1 failure, 2 wrong usage\n");
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"list", hb_command_list},
    {"collect", hb_command_collect},
    {"fly", hb_command_fly},
    {"describe", hb_command_describe},
};

int hb_usage_error(const char *command, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "hilbert-sim%s%s: ", command[0] ? " " : "", command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " (try hilbert-sim %s%s--help)\n", command, command[0] ? " " : "");
    return 2;
}

int hb_failure(const char *command, const hb_error *err)
{
    fprintf(stderr, "hilbert-sim %s: %s\n", command, err->text);
    return 1;
}

int hb_plant_options(const char *command, const char *help, const hb_option *table, int n, int argc, char **argv)
{
    char why[600];

    /* the plant stands where a program's name would */
    switch (hb_options_read(table, n, argc - 1, argv + 1, why, sizeof why)) {
    case HB_OPTIONS_HELP:
        fputs(help, stdout);
        return 0;
    case HB_OPTIONS_WRONG:
        return hb_usage_error(command, "%s", why);
    case HB_OPTIONS_READ:
        break;
    }
    if (optind < argc - 1)
        return hb_usage_error(command, "'%s' is one argument too many", argv[1 + optind]);
    return -1;
}

int hb_parse_range(const hb_plant_type *type, const char *text, int *parameter, double *low, double *high,
                   hb_error *err)
{
    const char *equals = strchr(text, '='), *colon = equals ? strchr(equals, ':') : NULL;
    char name[64], first[64];

    if (!equals || equals == text || equals - text >= (long)sizeof name ||
        (colon && colon - equals >= (long)sizeof first))
        return hb_fail(err, EINVAL, "'%s': expected NAME=VALUE or NAME=LOW:HIGH", text);
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    int index = hb_plant_parameter_find(type, name, err);
    if (index < 0)
        return index;
    const hb_plant_parameter *about = &type->parameter[index];
    double from, to;
    snprintf(first, sizeof first, "%.*s", colon ? (int)(colon - equals - 1) : (int)sizeof first - 1, equals + 1);
    if (!hb_option_read_number(&(hb_option_number){&from, about->min, about->max}, first) ||
        !hb_option_read_number(&(hb_option_number){&to, about->min, about->max}, colon ? colon + 1 : first) ||
        from > to)
        return hb_fail(err, EINVAL, "'%s': expected numbers from %g to %g, the lower one first", text, about->min,
                       about->max);
    *parameter = index;
    *low = from;
    *high = to;
    return 0;
}

int hb_plant_named(const char *command, const char *name, const hb_plant_type **ret)
{
    hb_error err = {0};
    char warning[700];

    if (!hb_robot_named(name)) {
        *ret = hb_plant_type_find(name, &err);
        return *ret ? 0 : hb_usage_error(command, "%s", err.text);
    }
    if (hb_robot_new(ret, name, warning, sizeof warning, &err))
        return hb_failure(command, &err);
    if (*warning)
        fprintf(stderr, "hilbert-sim %s: warning: %s\n", command, warning);
    return 0;
}

void hb_plant_done(const hb_plant_type *type)
{
    hb_robot_free(type);
}

static void list_plant(const hb_plant_type *t)
{
    printf("%s: %s\n", t->name, t->help);
    printf("  states   ");
    for (int i = 0; i < t->nx; i++)
        printf(" %s [%s]%s", t->state_name[i], t->state_unit[i], i % 8 == 7 && i + 1 < t->nx ? "\n           " : "");
    printf("\n  controls ");
    for (int i = 0; i < t->nu; i++)
        printf(" %s [%s] %g..%g, trim %g%s", t->control_name[i], t->control_unit[i], t->control_min[i],
               t->control_max[i], t->control_trim[i], i + 1 < t->nu ? "\n           " : "");
    printf("%s\n  period    %g s%s\n", t->nu ? "" : " none", t->dt, t->irregular ? ", irregular" : "");
    printf("  parameter        nominal  collected            possible             unit\n");
    for (int i = 0; i < t->nparameters; i++) {
        const hb_plant_parameter *p = &t->parameter[i];
        char range[40] = "nominal", possible[40];
        if (p->low != p->high)
            snprintf(range, sizeof range, "%g:%g", p->low, p->high);
        snprintf(possible, sizeof possible, "%g:%g", p->min, p->max);
        printf("  %-14s %9g  %-20s %-20s %-6s %s%s\n", p->name, p->nominal, range, possible, p->unit, p->help,
               p->live ? "" : " (not in flight)");
    }
    printf("  policies ");
    if (t->policy)
        printf(" %s: %s\n           ", t->policy->name, t->policy->help);
    for (int i = 0; hb_policy_at(i); i++)
        if (!hb_policy_at(i)->plant || hb_policy_at(i)->plant == t)
            printf(" %s: %s%s", hb_policy_at(i)->name, hb_policy_at(i)->help,
                   hb_policy_at(i + 1) ? "\n           " : "");
    printf("\n");
}

static void list_weather(void)
{
    printf("link: between any plant and a controller, for --weather\n");
    for (int i = 0; hb_link_setting_at(i); i++) {
        const hb_link_setting *s = hb_link_setting_at(i);
        char possible[40];
        snprintf(possible, sizeof possible, "%g:%g", s->min, s->max);
        printf("  %-15s %-20s %-3s %s\n", s->name, possible, s->unit, s->help);
    }
    printf("weather: names for --weather\n");
    for (int i = 0; hb_weather_at(i); i++)
        printf("  %-8s %s\n%s%s%s", hb_weather_at(i)->name, hb_weather_at(i)->help,
               hb_weather_at(i)->settings[0] ? "           " : "", hb_weather_at(i)->settings,
               hb_weather_at(i)->settings[0] ? "\n" : "");
}

int hb_command_list(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("usage: hilbert-sim list [PLANT | ROBOT.xml]\n\nWithout PLANT, all of them.\n");
        return 0;
    }
    if (argc > 2 || (argc > 1 && argv[1][0] == '-'))
        return hb_usage_error("list", "expected at most the name of a plant");
    const hb_plant_type *only = NULL;
    int code = argc > 1 ? hb_plant_named("list", argv[1], &only) : 0;
    if (code)
        return code;
    if (only)
        list_plant(only);
    for (int i = 0; !only && hb_plant_type_at(i); i++)
        list_plant(hb_plant_type_at(i));
    hb_plant_done(only);
    list_weather();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return hb_usage_error("", "a command is missing");
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
        print_help();
        return 0;
    }
    if (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0) {
        printf("hilbert-sim %s\n", HB_VERSION);
        return 0;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return hb_usage_error("", "unknown command '%s'", argv[1]);
}
