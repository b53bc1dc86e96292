/* Frames of a flight as PNG files and as an animated GIF, drawn off-screen by MuJoCo where the machine has EGL with
 * OpenGL (Mesa's software renderer will do). */
#ifndef HB_RENDER_H
#define HB_RENDER_H

#include "sim/plant.h"

typedef struct hb_render hb_render;

/* Creates `folder` if need be; frames are folder/0000.png and so on, `period` seconds apart, and folder/flight.gif has
 * every other one at half the size. The plant must have been created. Says what is missing where it cannot be done. */
int hb_render_new(hb_render **ret, const hb_plant *p, const char *folder, double period, hb_error *err);
int hb_render_frame(hb_render *r, const hb_plant *p, hb_error *err);
/* Completes the animation. */
int hb_render_finish(hb_render *r, hb_error *err);
void hb_render_free(hb_render *r);

#endif
