/* What flights say against their description, as warnings with a remedy, before anything is learned from them. */
#ifndef HB_LOG_CHECK_H
#define HB_LOG_CHECK_H

#include "data/dataset.h"
#include "data/log_frames.h"
#include "data/log_map.h"
#include "data/rotor_order.h"

/* map: where the data come from, so that the remedy can be written in its words; NULL: not known. torque_ratio: that of
 * the physics they are for, NaN: not given. Returns the number of warnings. */
int hb_log_check(const hb_dataset *d, const hb_log_map *map, double torque_ratio, FILE *out);

/* The remedies, carried out in a description. A text that grows too long stays as it is. */
void hb_log_put_frames_right(hb_log_map *m, const hb_frames *f);
void hb_log_put_rotors_right(hb_log_map *m, const hb_rotor_order *o);

#endif
