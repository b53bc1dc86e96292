/* What only this machine can say about a configuration: endpoints, folders, files and memory. `hilbertd --check`, start
 * and reload ask this one function, after hb_config_load and hb_config_resolve. It opens, makes and changes nothing
 * that stays, and leaves alone what a running daemon holds: an endpoint that is in use passes. */
#ifndef HB_MACHINE_H
#define HB_MACHINE_H

#include "config/config.h"
#include "process/notify.h"

/* Adds to `errors`, which it does not clear. Returns their number. */
int hb_machine_check(const hb_config *c, const hb_model *m, const hb_inherited *inherited, hb_config_errors *errors);

#endif
