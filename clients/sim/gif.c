/* GIF89a: a header with the palette, the extension that repeats the animation, then for each frame a delay and an
 * image. An image is one LZW stream (codes of 9 to 12 bits, lowest bit first) in blocks of up to 255 bytes:
 *
 *     the longest known string of pixels -> its code;  that string and the next pixel -> a new code
 *
 * A full dictionary is cleared. */
#include "sim/gif.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REDS = 6,
    GREENS = 7,
    BLUES = 6,
    PALETTE = 256,
    CLEAR = 256, /* codes after the pixels' own */
    END = 257,
    FIRST = 258,
    CODES = 4096,
    BLOCK = 255,
};

struct hb_gif {
    FILE *out;
    char *path;
    int width, height, delay;      /* delay in 1/100 s */
    uint16_t next[CODES][PALETTE]; /* code of a string and one more pixel; 0: unknown */
    uint32_t bits;                 /* waiting to be written */
    int nbits, nbytes;             /* of them, and of the block */
    unsigned char block[BLOCK];
};

static void put_short(FILE *out, int value)
{
    fputc(value & 255, out);
    fputc(value >> 8 & 255, out);
}

/* a level of a colour as a byte */
static int shade(int level, int levels)
{
    return (255 * level + (levels - 1) / 2) / (levels - 1);
}

static void put_palette(FILE *out)
{
    for (int i = 0; i < PALETTE; i++) {
        int colour = i < REDS * GREENS * BLUES ? i : 0;
        fputc(shade(colour / (GREENS * BLUES), REDS), out);
        fputc(shade(colour / BLUES % GREENS, GREENS), out);
        fputc(shade(colour % BLUES, BLUES), out);
    }
}

/* the nearest colour */
static int pixel(const unsigned char *rgb)
{
    int red = (rgb[0] * (REDS - 1) + 127) / 255, green = (rgb[1] * (GREENS - 1) + 127) / 255;
    int blue = (rgb[2] * (BLUES - 1) + 127) / 255;

    return (red * GREENS + green) * BLUES + blue;
}

static void put_block(hb_gif *g)
{
    if (g->nbytes) {
        fputc(g->nbytes, g->out);
        fwrite(g->block, 1, (size_t)g->nbytes, g->out);
    }
    g->nbytes = 0;
}

static void put_code(hb_gif *g, int code, int size)
{
    g->bits |= (uint32_t)code << g->nbits;
    for (g->nbits += size; g->nbits >= 8; g->nbits -= 8) {
        g->block[g->nbytes++] = (unsigned char)(g->bits & 255);
        g->bits >>= 8;
        if (g->nbytes == BLOCK)
            put_block(g);
    }
}

static void compress(hb_gif *g, const unsigned char *rgb)
{
    size_t n = (size_t)g->width * (size_t)g->height;
    int size = 9, used = FIRST, string = pixel(rgb);

    memset(g->next, 0, sizeof g->next);
    put_code(g, CLEAR, size);
    for (size_t i = 1; i < n; i++) {
        int colour = pixel(rgb + 3 * i);
        uint16_t *longer = &g->next[string][colour];
        if (*longer) {
            string = *longer;
            continue;
        }
        put_code(g, string, size);
        string = colour;
        if (used == CODES) {
            put_code(g, CLEAR, size);
            memset(g->next, 0, sizeof g->next);
            size = 9;
            used = FIRST;
            continue;
        }
        /* the reader makes this code one step later: so the size grows when the code itself needs it */
        size += used == 1 << size;
        *longer = (uint16_t)used++;
    }
    put_code(g, string, size);
    /* the reader has made one more code by now */
    size += used == 1 << size && size < 12;
    put_code(g, END, size);
    if (g->nbits)
        put_code(g, 0, 8 - g->nbits);
    put_block(g);
    g->bits = 0;
    g->nbits = 0;
}

int hb_gif_new(hb_gif **ret, const char *path, int width, int height, double delay, hb_error *err)
{
    hb_gif *g = calloc(1, sizeof *g);

    if (!g || !(g->path = strdup(path))) {
        free(g);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    g->width = width;
    g->height = height;
    g->delay = (int)lround(100 * delay);
    g->out = fopen(path, "wbe");
    if (!g->out) {
        int status = hb_fail(err, errno, "%s: %s", path, strerror(errno));
        free(g->path);
        free(g);
        return status;
    }
    fwrite("GIF89a", 1, 6, g->out);
    put_short(g->out, width);
    put_short(g->out, height);
    fputc(0xf7, g->out); /* a palette of 256 colours, 8 bits */
    put_short(g->out, 0);
    put_palette(g->out);
    fwrite("\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00", 1, 19, g->out);
    *ret = g;
    return 0;
}

void hb_gif_frame(hb_gif *g, const unsigned char *rgb)
{
    fwrite("\x21\xf9\x04\x00", 1, 4, g->out);
    put_short(g->out, g->delay);
    put_short(g->out, 0);
    fputc(0x2c, g->out);
    put_short(g->out, 0);
    put_short(g->out, 0);
    put_short(g->out, g->width);
    put_short(g->out, g->height);
    fputc(0, g->out);
    fputc(8, g->out); /* bits of a pixel */
    compress(g, rgb);
    fputc(0, g->out);
}

int hb_gif_close(hb_gif *g, hb_error *err)
{
    int status = 0;

    if (!g)
        return 0;
    fputc(0x3b, g->out);
    int bad = ferror(g->out);
    if (fclose(g->out) || bad)
        status = hb_fail(err, EIO, "%s: cannot be written: is the disk full?", g->path);
    free(g->path);
    free(g);
    return status;
}
