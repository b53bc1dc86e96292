/* Physics from a YAML file: what hilbert-train --average FILE.yaml reads.
 *
 *     states:      {x: m, y: m, heading: rad, v: m/s}       names and units; or a list of names; may be left out
 *     controls:    {throttle: , steering: rad}
 *     parameters:  {mass: 1.5 kg, drive: 6 N, drag: 0.4}    values, with units or without
 *     expressions:                                          by states: their rates; other names: quantities to use
 *       force: drive * throttle - drag * v
 *       v: force / mass
 *       x: v * cos(heading)
 *
 * States and controls must be those of the data, in any order, and units the same where both name them. Every rate must
 * be finite, with its derivatives, at every sample of the data. Mistakes are told as file:line:column. */
#ifndef HB_PHYSICS_FILE_H
#define HB_PHYSICS_FILE_H

#include "data/dataset.h"
#include "model/physics.h"

/* `parameters`, unless NULL, is name=value,... in the place of the file's. */
int hb_physics_file_read(hb_physics **ret, const char *path, const char *parameters, const hb_dataset *d,
                         hb_error *err);

#endif
