/* Numbers as JSON. */
#ifndef HB_COMMON_JSON_H
#define HB_COMMON_JSON_H

#include <jansson.h>
#include <math.h>

/* JSON has no infinity and no NaN: null stands for both. */
static inline json_t *hb_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static inline json_t *hb_json_numbers(const double *value, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, hb_json_number(value[i]));
    return list;
}

#endif
