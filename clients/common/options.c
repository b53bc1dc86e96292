#include "common/options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_OPTIONS = 40, FIRST = 256 };

static bool takes_value(const hb_option *o)
{
    return o->type != HB_OPTION_FLAG && o->type != HB_OPTION_CLEAR;
}

bool hb_option_read_number(const hb_option_number *n, const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !isfinite(value) || value < n->min || value > n->max)
        return false;
    *n->to = value;
    return true;
}

static bool set_whole(const hb_option *o, const char *text)
{
    char *end;

    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < o->min || value > o->max)
        return false;
    if (o->type == HB_OPTION_WHOLE)
        *(int *)o->to = (int)value;
    else
        *(uint64_t *)o->to = (uint64_t)value;
    return true;
}

static bool set(const hb_option *o, const char *text, char *why, size_t size)
{
    const hb_option_number *number;
    const hb_option_call *call;
    hb_error err = {0};

    switch (o->type) {
    case HB_OPTION_FLAG:
    case HB_OPTION_CLEAR:
        *(bool *)o->to = o->type == HB_OPTION_FLAG;
        return true;
    case HB_OPTION_TEXT:
        *(const char **)o->to = text;
        return true;
    case HB_OPTION_NUMBER:
        number = o->to;
        if (hb_option_read_number(number, text))
            return true;
        snprintf(why, size, "--%s: '%s' is not a number from %g to %g", o->name, text, number->min, number->max);
        return false;
    case HB_OPTION_CALL:
        call = o->to;
        if (!call->read(call->context, text, &err))
            return true;
        snprintf(why, size, "--%s: %s", o->name, err.text);
        return false;
    case HB_OPTION_WHOLE:
    case HB_OPTION_COUNT:
        break;
    }
    if (set_whole(o, text))
        return true;
    snprintf(why, size, "--%s: '%s' is not a whole number in %lld..%lld", o->name, text, o->min, o->max);
    return false;
}

hb_options_result hb_options_read(const hb_option *table, int n, int argc, char **argv, char *why, size_t size)
{
    struct option known[MAX_OPTIONS + 2] = {{"help", no_argument, NULL, 'h'}};
    /* the colon makes getopt tell a missing value apart from an unknown option */
    char letters[2 * MAX_OPTIONS + 3] = ":h", *letter = letters + 2;

    assert(n <= MAX_OPTIONS);
    for (int i = 0; i < n; i++) {
        bool value = takes_value(&table[i]);
        known[i + 1] = (struct option){table[i].name, value ? required_argument : no_argument, NULL, FIRST + i};
        if (table[i].letter) {
            *letter++ = table[i].letter;
            if (value)
                *letter++ = ':';
        }
    }
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, letters, known, NULL)) != -1;) {
        int found = c - FIRST;
        if (c == 'h')
            return HB_OPTIONS_HELP;
        for (int i = 0; i < n && found < 0; i++)
            found = table[i].letter && table[i].letter == c ? i : found;
        if (found < 0) {
            snprintf(why, size, c == ':' ? "option '%s' needs a value" : "unknown option '%s'", argv[optind - 1]);
            return HB_OPTIONS_WRONG;
        }
        if (!set(&table[found], optarg, why, size))
            return HB_OPTIONS_WRONG;
    }
    return HB_OPTIONS_READ;
}

int hb_options_command(const char *program, const hb_option *table, int n, int argc, char **argv, void (*help)(void))
{
    char why[600];

    switch (hb_options_read(table, n, argc, argv, why, sizeof why)) {
    case HB_OPTIONS_HELP:
        help();
        return 0;
    case HB_OPTIONS_WRONG:
        fprintf(stderr, "%s: %s (try --help)\n", program, why);
        return 2;
    case HB_OPTIONS_READ:
        break;
    }
    return -1;
}
