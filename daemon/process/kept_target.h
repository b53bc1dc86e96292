/* The target that a client has set, beside the window in memory that outlives the process: after a restart the vehicle
 * goes on to where it was sent, and not to where the file would have it start.
 *
 * Two slots are written by turns, each with a checksum: a process may be killed between any two instructions. */
#ifndef HB_KEPT_TARGET_H
#define HB_KEPT_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/controller.h"

enum { HB_SETTER_SIZE = 64 };

typedef struct hb_kept_target {
    int n; /* states; 0: none was set, the file's holds */
    double target[HB_MAX_VEHICLE_STATES];
    int nfile; /* the file's target at that time: another one in it holds instead */
    double file[HB_MAX_VEHICLE_STATES];
    double since;            /* time of day, seconds */
    char by[HB_SETTER_SIZE]; /* name of who set it, by its key */
} hb_kept_target;

/* Bytes, a multiple of what every type is aligned to. */
size_t hb_kept_target_size(void);
/* `memory` may hold anything; false: no target of a vehicle with this model's states. */
bool hb_kept_target_load(const void *memory, const hb_model *m, hb_kept_target *ret);
void hb_kept_target_save(void *memory, const hb_model *m, const hb_kept_target *t);

#endif
