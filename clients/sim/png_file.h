/* Writes an image as PNG. */
#ifndef HB_PNG_FILE_H
#define HB_PNG_FILE_H

#include "base/base.h"

/* rgb: height rows of width pixels, 3 bytes each, from the top. */
int hb_png_write(const char *path, int width, int height, const unsigned char *rgb, hb_error *err);

#endif
