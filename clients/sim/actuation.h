/* Commands on their way to what acts: each waits `delay` seconds, and the actuators follow it with the time constant
 * `lag`. */
#ifndef HB_ACTUATION_H
#define HB_ACTUATION_H

#include "sim/plant.h"

enum { HB_ACTUATION_COMMANDS = 512 }; /* that are on their way at most */

typedef struct hb_actuation {
    int nu;
    double trim[HB_PLANT_CONTROLS], acting[HB_PLANT_CONTROLS];
    int ncommands; /* since the reset; the last HB_ACTUATION_COMMANDS of them are kept */
    double told_at[HB_ACTUATION_COMMANDS], told[HB_ACTUATION_COMMANDS][HB_PLANT_CONTROLS];
} hb_actuation;

/* The trim was commanded since ever. */
void hb_actuation_reset(hb_actuation *a, int nu, const double *trim);
void hb_actuation_tell(hb_actuation *a, double time, const double *u);
/* What was told last at a time. */
const double *hb_actuation_told(const hb_actuation *a, double time);
/* From `time` on for h seconds, in which one command acts: its mean over them; `acting` becomes what is there at their
 * end. */
void hb_actuation_advance(hb_actuation *a, double time, double h, double delay, double lag, double *mean);

#endif
