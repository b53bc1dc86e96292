/* PNG by libpng's simplified interface. */
#include "sim/png_file.h"

#include <errno.h>
#include <png.h>

int hb_png_write(const char *path, int width, int height, const unsigned char *rgb, hb_error *err)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = PNG_FORMAT_RGB};
    int done = png_image_write_to_file(&image, path, 0, rgb, 0, NULL);
    int status = done ? 0 : hb_fail(err, EIO, "%s: cannot be written: %s", path, image.message);

    png_image_free(&image);
    return status;
}
