/* The GIF writer against a decoder that knows the format alone: every pixel of every frame comes back as the nearest
 * colour, with dictionaries that fill up and without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/gif.h"

enum { MAX_PIXELS = 200 * 150, FRAMES = 3 };

typedef struct reader {
    const unsigned char *at;
    int left; /* of the block */
    int bit;
} reader;

static int next_bit(reader *r)
{
    if (r->bit == 0) {
        if (r->left == 0)
            r->left = *r->at++;
        assert_true(r->left > 0);
    }
    int bit = *r->at >> r->bit & 1;
    if (++r->bit == 8) {
        r->bit = 0;
        r->at++;
        r->left--;
    }
    return bit;
}

static int next_code(reader *r, int size)
{
    int code = 0;
    for (int i = 0; i < size; i++)
        code |= next_bit(r) << i;
    return code;
}

/* strings are kept as their last pixel and the code of what is before it */
static size_t decode(const unsigned char **at, unsigned char *pixels, size_t capacity)
{
    static int before[4096], last[4096];
    reader r = {.at = *at};
    int size = 9, used = 258, previous = -1;
    size_t n = 0;

    for (;;) {
        int code = next_code(&r, size), stack[4096], depth = 0;
        if (code == 257)
            break;
        if (code == 256) {
            size = 9;
            used = 258;
            previous = -1;
            continue;
        }
        assert_true(code < 256 || (code >= 258 && code <= used && previous >= 0));
        int first = code == used ? previous : code;
        for (int c = first; c >= 258; c = before[c])
            stack[depth++] = last[c];
        int root = first;
        while (root >= 258)
            root = before[root];
        stack[depth++] = root;
        while (depth > 0) {
            assert_true(n < capacity);
            pixels[n++] = (unsigned char)stack[--depth];
        }
        if (code == used) {
            assert_true(n < capacity);
            pixels[n++] = (unsigned char)root;
        }
        if (previous >= 0 && used < 4096) {
            before[used] = previous;
            last[used++] = root;
            if (used == 1 << size && size < 12)
                size++;
        }
        previous = code;
    }
    /* the rest of the last block, and the end of blocks */
    r.at += r.left;
    assert_int_equal(*r.at, 0);
    *at = r.at + 1;
    return n;
}

/* noise fills dictionaries, stripes do not */
static void paint(unsigned char *rgb, int n, int frame)
{
    uint32_t draw = 1;
    for (int i = 0; i < 3 * n; i++) {
        draw = 1664525 * draw + 1013904223;
        rgb[i] = (unsigned char)(frame == 0 ? draw >> 24 : frame == 1 ? 200u : (unsigned)i / 300 * 16);
    }
}

static int read_short(const unsigned char *at)
{
    return at[0] | at[1] << 8;
}

static void check(int width, int height)
{
    char path[] = "/tmp/hilbert-gif-XXXXXX";
    int file = mkstemp(path), n = width * height;
    unsigned char *rgb = malloc(3 * (size_t)n), *pixels = malloc((size_t)n), *bytes = malloc(1 << 20);
    hb_error err = {0};
    hb_gif *g = NULL;

    assert_true(file >= 0 && rgb && pixels && bytes);
    assert_int_equal(hb_gif_new(&g, path, width, height, 0.08, &err), 0);
    for (int frame = 0; frame < FRAMES; frame++) {
        paint(rgb, n, frame);
        hb_gif_frame(g, rgb);
    }
    assert_int_equal(hb_gif_close(g, &err), 0);
    ssize_t size = read(file, bytes, 1 << 20);
    close(file);
    unlink(path);

    assert_memory_equal(bytes, "GIF89a", 6);
    assert_int_equal(read_short(bytes + 6), width);
    assert_int_equal(read_short(bytes + 8), height);
    const unsigned char *palette = bytes + 13, *at = palette + 768 + 19;
    for (int frame = 0; frame < FRAMES; frame++) {
        paint(rgb, n, frame);
        assert_int_equal(read_short(at + 4), 8); /* hundredths of a second */
        assert_int_equal(at[8], 0x2c);
        at += 8 + 10;
        assert_int_equal(*at++, 8);
        assert_int_equal(decode(&at, pixels, (size_t)n), n);
        for (int i = 0; i < 3 * n; i++) {
            int off = palette[3 * pixels[i / 3] + i % 3] - rgb[i];
            assert_in_range(off + 100, 100 - 26, 100 + 26); /* half a step of six levels */
        }
    }
    assert_int_equal(*at++, 0x3b);
    assert_int_equal(at - bytes, size);
    free(rgb);
    free(pixels);
    free(bytes);
}

static void test_frames_come_back(void **state)
{
    (void)state;
    check(200, 150);
    /* sizes at which streams end at every place within a dictionary's growth */
    for (int width = 1; width < 40; width++)
        check(width, 17);
}

static void test_failures(void **state)
{
    hb_error err = {0};
    hb_gif *g = NULL;

    (void)state;
    assert_true(hb_gif_new(&g, "/nowhere/x.gif", 2, 2, 0.1, &err) < 0);
    assert_non_null(strstr(err.text, "/nowhere/x.gif"));
    assert_int_equal(hb_gif_close(NULL, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_come_back),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
