/* PNG (ISO 15948): signature, then chunks of length, type, data and CRC; pixels are one zlib stream of filtered rows.
 */
#include "sim/png.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void big_endian(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (24 - 8 * i));
}

static void chunk(FILE *out, const char *type, const unsigned char *data, size_t size)
{
    unsigned char number[4];

    big_endian(number, (uint32_t)size);
    fwrite(number, 1, 4, out);
    fwrite(type, 1, 4, out);
    fwrite(data, 1, size, out);
    uLong check = crc32(crc32(0, (const Bytef *)type, 4), data, (uInt)size);
    big_endian(number, (uint32_t)check);
    fwrite(number, 1, 4, out);
}

/* Every row behind its filter byte: 1, differences to the pixel on the left, which compress well. */
static void filter(int width, int height, const unsigned char *rgb, unsigned char *to)
{
    size_t row = 3 * (size_t)width;

    for (int y = 0; y < height; y++, rgb += row) {
        *to++ = 1;
        for (size_t i = 0; i < row; i++)
            *to++ = (unsigned char)(rgb[i] - (i < 3 ? 0 : rgb[i - 3]));
    }
}

int hb_png_write(const char *path, int width, int height, const unsigned char *rgb, hb_error *err)
{
    size_t raw = (size_t)height * (3 * (size_t)width + 1);
    uLongf size = compressBound(raw);
    unsigned char *rows = malloc(raw), *packed = malloc(size), header[13] = {[8] = 8, [9] = 2}; /* 8 bits, RGB */
    FILE *out = NULL;
    int status = 0;

    if (!rows || !packed)
        status = hb_fail(err, ENOMEM, "out of memory");
    if (!status && !(out = fopen(path, "wbe")))
        status = hb_fail(err, errno, "%s: %s", path, strerror(errno));
    if (!status) {
        filter(width, height, rgb, rows);
        compress2(packed, &size, rows, raw, 6);
        big_endian(header, (uint32_t)width);
        big_endian(header + 4, (uint32_t)height);
        fwrite("\x89PNG\r\n\x1a\n", 1, 8, out);
        chunk(out, "IHDR", header, sizeof header);
        chunk(out, "IDAT", packed, size);
        chunk(out, "IEND", header, 0);
        int bad = ferror(out);
        if (fclose(out) || bad)
            status = hb_fail(err, EIO, "%s: cannot be written: is the disk full?", path);
    }
    free(rows);
    free(packed);
    return status;
}
