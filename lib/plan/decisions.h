/* Which questions about time were answered with no while a plan was made: all that a plan takes from the clock.
 *
 * A planner asks again and again "is there time for this?" and "was it done before the deadline?". Mostly the answer is
 * yes. With the numbers of the questions that were answered with no, a plan can be repeated without a clock, to the
 * same bytes. */
#ifndef HB_DECISIONS_H
#define HB_DECISIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { HB_REFUSALS = 64 };

typedef struct hb_decisions {
    bool scripted;                 /* answers come from `refused`, not from the clock */
    bool lost;                     /* there were more refusals than there is room for */
    uint32_t asked;                /* questions so far */
    int nrefused;                  /* of them, answered with no: */
    uint32_t refused[HB_REFUSALS]; /* their numbers, ascending */
} hb_decisions;

static inline void hb_decisions_start(hb_decisions *d)
{
    d->asked = 0;
    if (!d->scripted) {
        d->nrefused = 0;
        d->lost = false;
    }
}

/* The answer that was given before. */
static inline bool hb_decisions_recall(hb_decisions *d)
{
    uint32_t number = d->asked++;

    for (int i = 0; i < d->nrefused; i++)
        if (d->refused[i] == number)
            return false;
    return true;
}

/* Notes an answer, and returns it. */
static inline bool hb_decisions_note(hb_decisions *d, bool yes)
{
    uint32_t number = d->asked++;

    if (!yes && d->nrefused < HB_REFUSALS)
        d->refused[d->nrefused++] = number;
    else if (!yes)
        d->lost = true;
    return yes;
}

/* From here on the answers are those of `script`. */
static inline void hb_decisions_script(hb_decisions *d, const hb_decisions *script)
{
    d->scripted = true;
    d->lost = script->lost;
    d->nrefused = script->nrefused;
    memcpy(d->refused, script->refused, sizeof d->refused);
}

#endif
