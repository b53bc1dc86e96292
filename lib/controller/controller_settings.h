/* Checks and comparisons of a controller's settings. Private to controller.c and controller_settings.c. */
#ifndef HB_CONTROLLER_SETTINGS_H
#define HB_CONTROLLER_SETTINGS_H

#include "controller/controller.h"

/* Whether all is the same that only a restart changes: the window and how it is solved. */
bool hb_controller_same_estimation(const hb_controller_settings *a, const hb_controller_settings *b);

#endif
