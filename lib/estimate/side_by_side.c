#include "estimate/side_by_side.h"

#include <math.h>
#include <string.h>

#define SIDES for (int s = 0; s < HB_SIDES; s++)

bool hb_sides_cholesky(int n, const hb_sides *a, hb_sides *l)
{
    bool good = true;

    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            const hb_sides *left = l + i * n, *right = l + j * n;
            hb_sides sum;
            SIDES sum[s] = a[i * n + j][s];
            for (int k = 0; k < j; k++)
                SIDES sum[s] -= left[k][s] * right[k][s];
            if (j < i) {
                SIDES l[i * n + j][s] = sum[s] * right[j][s];
                continue;
            }
            SIDES good &= sum[s] > 0 && sum[s] < INFINITY;
            SIDES l[i * n + i][s] = 1 / sqrt(sum[s]);
        }
        if (!good)
            return false;
    }
    return true;
}

void hb_sides_forward(int n, const hb_sides *l, hb_sides *b)
{
    for (int i = 0; i < n; i++) {
        hb_sides sum;
        SIDES sum[s] = b[i][s];
        for (int k = 0; k < i; k++)
            SIDES sum[s] -= l[i * n + k][s] * b[k][s];
        SIDES b[i][s] = sum[s] * l[i * n + i][s];
    }
}

void hb_sides_backward(int n, const hb_sides *l, hb_sides *b)
{
    for (int i = n - 1; i >= 0; i--) {
        hb_sides x;
        SIDES x[s] = b[i][s] *= l[i * n + i][s];
        for (int k = 0; k < i; k++)
            SIDES b[k][s] -= l[i * n + k][s] * x[s];
    }
}

void hb_sides_add(int n, const double *w, const hb_sides *g, const double *y, hb_sides *a, hb_sides *v)
{
    for (int i = 0; i < n; i++) {
        hb_sides scale;
        SIDES scale[s] = w[s] * g[i][s];
        SIDES v[i][s] += scale[s] * y[s];
        for (int j = 0; j <= i; j++)
            SIDES a[i * n + j][s] += scale[s] * g[j][s];
    }
}
