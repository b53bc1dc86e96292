/* The settings of a controller, looked over. Only controller.c and its settings include this. */
#ifndef HB_CONTROLLER_SETTINGS_H
#define HB_CONTROLLER_SETTINGS_H

#include "controller/controller.h"

/* Whether all is the same that only a restart changes: the window and how it is solved. */
bool hb_controller_same_estimation(const hb_controller_settings *a, const hb_controller_settings *b);

#endif
