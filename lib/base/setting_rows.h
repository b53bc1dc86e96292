/* Settings as rows: name, type, bounds, default, whether a reload may change it, and help stand once, beside the thing
 * that is set. From a module's one list come its defaults, the check that its `_new` and `_retune` make, and (in the
 * daemon) the keys of the configuration with their comments and their manual:
 *
 *     #define ROWS(X)                                                                      in planner_settings.c
 *         X(INT, "planner.horizon", horizon, 10, 1, 1000, HB_CLOSED, HB_FIXED, "Steps of a plan.")
 *         X(REAL, "planner.clip", clip, 1, 0, 1e9, HB_ABOVE, HB_LIVE, "Norm of the gradient ..., at most.")
 *
 * A new setting is a member of the struct of settings and one such row: type, key, member, default, least, most, which
 * of the ends are allowed, whether a reload changes it, help. */
#ifndef HB_SETTING_ROWS_H
#define HB_SETTING_ROWS_H

#include <stdbool.h>

#include "base/base.h"

typedef enum {
    HB_SETTING_INT,    /* int */
    HB_SETTING_REAL,   /* double */
    HB_SETTING_BOOL,   /* bool */
    HB_SETTING_SEED,   /* uint64_t */
    HB_SETTING_CHOICE, /* int-sized enum, one of `choices` */
    HB_SETTING_OTHER,  /* from here on: types that the module which reads them defines and checks */
} hb_setting_type;

/* Which ends of a range belong to it. */
typedef enum {
    HB_CLOSED,    /* [min, max] */
    HB_ABOVE,     /* (min, max] */
    HB_BELOW,     /* [min, max) */
    HB_OPEN_ENDS, /* (min, max) */
} hb_ends;

enum { HB_FIXED = false, HB_LIVE = true };

typedef struct hb_setting {
    const char *key;     /* in the configuration: section.name, or name */
    int type;            /* hb_setting_type */
    size_t offset, size; /* in the struct of settings */
    double min, max;
    hb_ends ends;
    const char *const *choices; /* HB_SETTING_CHOICE */
    int nchoices;
    bool live;               /* a reload changes it */
    const char *help;
} hb_setting;

/* A module's rows, all in one struct. */
typedef struct hb_setting_rows {
    const hb_setting *row;
    int n;
} hb_setting_rows;

/* For lists X(TYPE, key, member, default, min, max, ends, live, help): a designated initialiser of the defaults, and a
 * row; STRUCT is to be defined as the type of the settings while rows are made. */
#define HB_SETTING_DEFAULT(type_, key_, member, default_, min_, max_, ends_, live_, help_) .member = default_,
#define HB_SETTING_ROW(type_, key_, member, default_, min_, max_, ends_, live_, help_)                                 \
    {.key = key_,                                                                                                      \
     .type = HB_SETTING_##type_,                                                                                       \
     .offset = offsetof(STRUCT, member),                                                                               \
     .size = sizeof(((STRUCT *)0)->member),                                                                            \
     .min = min_,                                                                                                      \
     .max = max_,                                                                                                      \
     .ends = ends_,                                                                                                    \
     .live = live_,                                                                                                    \
     .help = help_},

/* Whether a number is within a row's bounds; if not, `problem` says why not: "below 1". */
bool hb_setting_within(const hb_setting *row, double value, char problem[64]);
/* Checks every number and choice of `settings` against its row: 0, or -EINVAL with "key: what is wrong". */
int hb_setting_rows_check(hb_setting_rows rows, const void *settings, hb_error *err);
/* Whether two structs agree in all rows that are not live. */
bool hb_setting_rows_same_fixed(hb_setting_rows rows, const void *a, const void *b);

#endif
