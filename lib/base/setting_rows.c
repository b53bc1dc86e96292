#include "base/setting_rows.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool hb_setting_within(const hb_setting *row, double value, char problem[64])
{
    bool above = row->ends == HB_ABOVE || row->ends == HB_OPEN_ENDS; /* the minimum itself is excluded */
    bool below = row->ends == HB_BELOW || row->ends == HB_OPEN_ENDS;

    *problem = 0;
    if (!isfinite(value))
        snprintf(problem, 64, "not finite");
    else if (value < row->min || (above && value == row->min))
        snprintf(problem, 64, above ? "not above %.10g" : "below %.10g", row->min);
    else if (value > row->max || (below && value == row->max))
        snprintf(problem, 64, below ? "not below %.10g" : "above %.10g", row->max);
    return !*problem;
}

static int check_row(const hb_setting *row, const void *at, hb_error *err)
{
    char problem[64] = "";
    double value;
    int chosen;

    switch (row->type) {
    case HB_SETTING_INT:
    case HB_SETTING_REAL:
        value = row->type == HB_SETTING_INT ? *(const int *)at : *(const double *)at;
        if (!hb_setting_within(row, value, problem))
            return hb_fail(err, EINVAL, "%s: %.10g is %s", row->key, value, problem);
        return 0;
    case HB_SETTING_CHOICE:
        memcpy(&chosen, at, sizeof chosen);
        if (chosen < 0 || chosen >= row->nchoices)
            return hb_fail(err, EINVAL, "%s: %d is none of the %d known", row->key, chosen, row->nchoices);
        return 0;
    default:
        return 0;
    }
}

int hb_setting_rows_check(hb_setting_rows rows, const void *settings, hb_error *err)
{
    int r = 0;

    for (int i = 0; i < rows.n && !r; i++)
        r = check_row(&rows.row[i], (const char *)settings + rows.row[i].offset, err);
    return r;
}

bool hb_setting_rows_same_fixed(hb_setting_rows rows, const void *a, const void *b)
{
    for (int i = 0; i < rows.n; i++) {
        const hb_setting *row = &rows.row[i];
        if (!row->live && memcmp((const char *)a + row->offset, (const char *)b + row->offset, row->size))
            return false;
    }
    return true;
}
