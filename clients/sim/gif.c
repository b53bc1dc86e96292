/* GIF89a by giflib: one palette for all frames, the extension that repeats the animation, then for each frame its delay
 * and its pixels. */
#include "sim/gif.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gif_lib.h>

enum { REDS = 6, GREENS = 7, BLUES = 6, PALETTE = 256 };

struct hb_gif {
    GifFileType *file;
    char *path;
    int width, height, delay; /* delay in 1/100 s */
    GifPixelType *row;        /* width */
    int code;                 /* of the first failure; 0: none */
};

/* a level of a colour as a byte */
static GifByteType shade(int level, int levels)
{
    return (GifByteType)((255 * level + (levels - 1) / 2) / (levels - 1));
}

/* the nearest colour */
static GifPixelType pixel(const unsigned char *rgb)
{
    int red = (rgb[0] * (REDS - 1) + 127) / 255, green = (rgb[1] * (GREENS - 1) + 127) / 255;
    int blue = (rgb[2] * (BLUES - 1) + 127) / 255;

    return (GifPixelType)((red * GREENS + green) * BLUES + blue);
}

/* Remembers the first failure; what follows it is of no use. */
static void note(hb_gif *g, int result)
{
    if (result == GIF_ERROR && !g->code)
        g->code = g->file->Error ? g->file->Error : E_GIF_ERR_WRITE_FAILED;
}

static void put_head(hb_gif *g)
{
    GifColorType colour[PALETTE] = {{0}};

    for (int i = 0; i < REDS * GREENS * BLUES; i++)
        colour[i] = (GifColorType){shade(i / (GREENS * BLUES), REDS), shade(i / BLUES % GREENS, GREENS),
                                   shade(i % BLUES, BLUES)};
    ColorMapObject *palette = GifMakeMapObject(PALETTE, colour);
    EGifSetGifVersion(g->file, true);
    note(g, palette ? EGifPutScreenDesc(g->file, g->width, g->height, 8, 0, palette) : GIF_ERROR);
    GifFreeMapObject(palette);
    /* repeat for ever */
    note(g, EGifPutExtensionLeader(g->file, APPLICATION_EXT_FUNC_CODE));
    note(g, EGifPutExtensionBlock(g->file, 11, "NETSCAPE2.0"));
    note(g, EGifPutExtensionBlock(g->file, 3, "\x01\x00\x00"));
    note(g, EGifPutExtensionTrailer(g->file));
}

int hb_gif_new(hb_gif **ret, const char *path, int width, int height, double delay, hb_error *err)
{
    hb_gif *g = calloc(1, sizeof *g);
    int code = 0;

    if (!g || !(g->path = strdup(path)) || !(g->row = malloc((size_t)width * sizeof *g->row))) {
        hb_gif_close(g, NULL);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    g->width = width;
    g->height = height;
    g->delay = (int)lround(100 * delay);
    g->file = EGifOpenFileName(path, false, &code);
    if (!g->file) {
        int status = hb_fail(err, errno ? errno : EIO, "%s: %s", path, errno ? strerror(errno) : GifErrorString(code));
        hb_gif_close(g, NULL);
        return status;
    }
    put_head(g);
    *ret = g;
    return 0;
}

void hb_gif_frame(hb_gif *g, const unsigned char *rgb)
{
    GraphicsControlBlock control = {.DelayTime = g->delay, .TransparentColor = NO_TRANSPARENT_COLOR};
    GifByteType extension[4];

    if (g->code)
        return;
    EGifGCBToExtension(&control, extension);
    note(g, EGifPutExtension(g->file, GRAPHICS_EXT_FUNC_CODE, sizeof extension, extension));
    note(g, EGifPutImageDesc(g->file, 0, 0, g->width, g->height, false, NULL));
    for (int y = 0; y < g->height && !g->code; y++) {
        for (int x = 0; x < g->width; x++, rgb += 3)
            g->row[x] = pixel(rgb);
        note(g, EGifPutLine(g->file, g->row, g->width));
    }
}

int hb_gif_close(hb_gif *g, hb_error *err)
{
    int code = 0;

    if (!g)
        return 0;
    if (g->file && EGifCloseFile(g->file, &code) == GIF_ERROR && !g->code)
        g->code = code ? code : E_GIF_ERR_CLOSE_FAILED;
    int status = g->code ? hb_fail(err, EIO, "%s: cannot be written: %s", g->path, GifErrorString(g->code)) : 0;
    free(g->row);
    free(g->path);
    free(g);
    return status;
}
