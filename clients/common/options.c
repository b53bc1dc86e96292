#include "common/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_OPTIONS = 30, FIRST = 256 };

static bool takes_value(const hb_option *o)
{
    return o->type != HB_OPTION_FLAG && o->type != HB_OPTION_CLEAR;
}

static bool set(const char *program, const hb_option *o, const char *text)
{
    char *end;

    switch (o->type) {
    case HB_OPTION_FLAG:
    case HB_OPTION_CLEAR:
        *(bool *)o->to = o->type == HB_OPTION_FLAG;
        return true;
    case HB_OPTION_TEXT:
        *(const char **)o->to = text;
        return true;
    case HB_OPTION_WHOLE:
    case HB_OPTION_COUNT:
        break;
    }
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < o->min || value > o->max) {
        fprintf(stderr, "%s: --%s: '%s' is not a whole number in %lld..%lld\n", program, o->name, text, o->min, o->max);
        return false;
    }
    if (o->type == HB_OPTION_WHOLE)
        *(int *)o->to = (int)value;
    else
        *(uint64_t *)o->to = (uint64_t)value;
    return true;
}

hb_options_result hb_options_parse(const char *program, const hb_option *table, int n, int argc, char **argv)
{
    struct option known[MAX_OPTIONS + 2] = {{"help", no_argument, NULL, 'h'}};
    char letters[2 * MAX_OPTIONS + 2] = "h", *letter = letters + 1;

    for (int i = 0; i < n && i < MAX_OPTIONS; i++) {
        bool value = takes_value(&table[i]);
        known[i + 1] = (struct option){table[i].name, value ? required_argument : no_argument, NULL, FIRST + i};
        if (table[i].letter) {
            *letter++ = table[i].letter;
            if (value)
                *letter++ = ':';
        }
    }
    for (int c; (c = getopt_long(argc, argv, letters, known, NULL)) != -1;) {
        int found = c - FIRST;
        if (c == 'h')
            return HB_OPTIONS_HELP;
        for (int i = 0; i < n && found < 0; i++)
            found = table[i].letter && table[i].letter == c ? i : found;
        if (found < 0 || !set(program, &table[found], optarg))
            return HB_OPTIONS_WRONG;
    }
    return HB_OPTIONS_READ;
}
