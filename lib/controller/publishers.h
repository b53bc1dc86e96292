/* Whether two vehicles publish: their reset counters come in turns, where one vehicle's goes on. Which of them is ours
 * nobody can tell, so that nothing is learned from either. */
#ifndef HB_PUBLISHERS_H
#define HB_PUBLISHERS_H

#include <stdbool.h>
#include <stdint.h>

enum { HB_FORMER = 4 }; /* publishers told apart */

typedef struct hb_publishers {
    struct {
        uint32_t counter; /* reset_counter of samples before the newest, */
        double left;      /* and when another one followed on it; caller's clock */
    } former[HB_FORMER];
    int nformer;      /* in turn */
    bool published;   /* a sample came, with */
    uint32_t current; /* this reset_counter */
    int returns;      /* to a former one, of late, */
    double returned;  /* and the last of them */
} hb_publishers;

/* Takes in the reset_counter of a sample, and tells whether publishers are mixed. */
bool hb_publishers_mixed(hb_publishers *p, uint32_t counter, double now);

#endif
