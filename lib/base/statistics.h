/* Order statistics of a list of numbers. */
#ifndef HB_STATISTICS_H
#define HB_STATISTICS_H

/* Sorts n numbers, smallest first. */
void hb_sort(double *value, int n);
/* The quantile q of n numbers, 0 <= q <= 1, interpolated between neighbours; NaN when n is 0. Sorts them. */
double hb_quantile(double *value, int n, double q);

#endif
