/* Whether one explanation of flights is better than another, beyond doubt: it is in most blocks of time, each of which
 * counts as one observation, since what follows within a block is dependent. */
#ifndef HB_BLOCKS_H
#define HB_BLOCKS_H

#include <math.h>

enum { HB_BLOCKS = 40 };

/* Standard deviations of a mean of HB_BLOCKS: one in three million by chance, and some hundred explanations are tried.
 */
static const double hb_beyond_doubt = 5;

/* The mean of what the blocks say, in standard deviations of that mean. */
static inline double hb_blocks_deviations(const double *value)
{
    double sum = 0, squares = 0;

    for (int b = 0; b < HB_BLOCKS; b++)
        sum += value[b];
    for (int b = 0; b < HB_BLOCKS; b++)
        squares += (value[b] - sum / HB_BLOCKS) * (value[b] - sum / HB_BLOCKS);
    return squares > 0 ? sum / sqrt(squares * HB_BLOCKS / (HB_BLOCKS - 1)) : 0;
}

#endif
