/* Writes an animation as GIF, in a palette of 252 colours. */
#ifndef HB_GIF_H
#define HB_GIF_H

#include "base/base.h"

typedef struct hb_gif hb_gif;

/* delay: seconds per frame, rounded to hundredths. The animation repeats for ever. */
int hb_gif_new(hb_gif **ret, const char *path, int width, int height, double delay, hb_error *err);
/* rgb: height rows of width pixels, 3 bytes each, from the top. */
void hb_gif_frame(hb_gif *g, const unsigned char *rgb);
/* Completes the file and frees, also on failure. NULL-safe. */
int hb_gif_close(hb_gif *g, hb_error *err);

#endif
