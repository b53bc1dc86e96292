/* What is known of this vehicle before it moves: its model, and what is configured for it. Both threads read it; it
 * changes only while neither is in a call. */
#ifndef HB_VEHICLE_H
#define HB_VEHICLE_H

#include "controller/controller.h"
#include "estimate/command_history.h"

typedef struct hb_vehicle {
    const hb_model *m;
    int nx, nu;
    hb_rotations rotations;
    hb_controller_settings s;
    double *safe;                  /* nu: the configured safe action, or the model's trim within bounds */
    double close[HB_MAX_CONTROLS]; /* controls this near are the same: what a vehicle may round off */
} hb_vehicle;

/* Takes the arrays from the arena. */
void hb_vehicle_lay_out(hb_vehicle *v, const hb_model *m, hb_arena *arena);
void hb_vehicle_init(hb_vehicle *v, const hb_model *m, const hb_controller_settings *s);
/* New settings for the same model. */
void hb_vehicle_configure(hb_vehicle *v, const hb_controller_settings *s);

/* An empty history of commands to this vehicle: its array is still to be laid out. */
hb_command_history hb_vehicle_history(const hb_vehicle *v, const hb_model *m);
/* `to`, of the same sizes, has been told what `from` was. */
void hb_vehicle_copy_history(hb_command_history *to, const hb_command_history *from);
/* Copies a state and brings its quaternion to length one; false: that is no attitude. */
bool hb_vehicle_take_state(const hb_vehicle *v, const double *x, double *ret);
/* Whether a reported control (nu) is one that the vehicle can have, give or take a calibration. */
bool hb_vehicle_within_bounds(const hb_vehicle *v, const double *u);
/* When an answer to a state of this time comes into force. */
int64_t hb_vehicle_applies_us(const hb_vehicle *v, int64_t time_us);

#endif
