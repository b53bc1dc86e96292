/* The Foxglove WebSocket protocol's view of the vehicles: what is advertised, and what is in each message.
 *
 * Each vehicle has these channels once its model is known: /NAME/status (protobuf, hilbert.v1.Status), /NAME/state,
 * /NAME/target, /NAME/action and /NAME/coefficients (JSON: signals by their names); where it has a position, also
 * /NAME/pose, /NAME/target_pose, /NAME/plan and /NAME/tf in Foxglove's own schemas, in the frame "world". */
#ifndef HB_VIEW_FOXGLOVE_H
#define HB_VIEW_FOXGLOVE_H

#include <stdio.h>

#include "view/vehicle.h"

enum { HB_FOXGLOVE_CHANNELS = 16 }; /* room for each vehicle's: vehicle v has v * 16 + 1 and on */

void hb_foxglove_write_info(FILE *out, const char *version);
/* {"op":"advertise", ...} of a vehicle whose model is known, and its opposite. */
void hb_foxglove_advertise(const hb_view_vehicle *v, FILE *out);
void hb_foxglove_unadvertise(const hb_view_vehicle *v, FILE *out);
/* The content of a message of a channel, made of the newest status. False: there is none just now. */
bool hb_foxglove_write(const hb_view_vehicle *v, int channel, FILE *out);

#endif
