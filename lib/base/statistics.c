#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void hb_sort(double *value, int n)
{
    qsort(value, (size_t)n, sizeof *value, compare);
}

double hb_quantile(double *value, int n, double q)
{
    if (n == 0)
        return NAN;
    hb_sort(value, n);
    double at = q * (n - 1);
    int low = (int)at, high = low + 1 < n ? low + 1 : low;
    double fraction = at - low;
    return fraction == 0 ? value[low] : value[low] * (1 - fraction) + value[high] * fraction;
}
