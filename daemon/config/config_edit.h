/* A configuration as text: the value of one key looked up, or another put in its place, with all else and every comment
 * left as it is. What `hilbertctl set` puts in force and `hilbertctl save` writes is the same text.
 *
 *     section.key              planner.iterations, adapt
 *     cost.distance.weight     an entry of a list by its kind or its name, where that is the only one,
 *     cost.2.weight            or by its number from 0 */
#ifndef HB_CONFIG_EDIT_H
#define HB_CONFIG_EDIT_H

#include "base/base.h"

enum { HB_EDIT_KEY = 128, HB_EDIT_VALUE = 1024 };

/* The text of a key's value, allocated; *ret NULL: the text does not say. -EINVAL: no YAML, or no such path. */
int hb_config_lookup(const char *text, const char *key, char **ret, hb_error *err);

/* The text with that value, allocated. -EINVAL for a value that is not one scalar, or one list or mapping in brackets.
 * A list that the text does not have (cost) is taken from `defaults` first. */
int hb_config_edit(const char *text, const char *key, const char *value, const char *defaults, char **ret,
                   hb_error *err);

#endif
