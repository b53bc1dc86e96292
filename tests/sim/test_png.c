/* What is written as PNG comes back pixel by pixel, rows from the top. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <png.h>

#include "sim/png_file.h"

static void test_pixels_come_back(void **state)
{
    enum { WIDTH = 37, HEIGHT = 11 };
    unsigned char rgb[HEIGHT][WIDTH][3], back[HEIGHT][WIDTH][3];
    char path[] = "/tmp/hilbert-png-XXXXXX";
    png_image image = {.version = PNG_IMAGE_VERSION};
    hb_error err = {0};
    (void)state;

    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int c = 0; c < 3; c++)
                rgb[y][x][c] = (unsigned char)(20 * y + 3 * x + 85 * c);
    close(mkstemp(path));
    assert_int_equal(hb_png_write(path, WIDTH, HEIGHT, &rgb[0][0][0], &err), 0);
    assert_true(png_image_begin_read_from_file(&image, path));
    assert_int_equal(image.width, WIDTH);
    assert_int_equal(image.height, HEIGHT);
    image.format = PNG_FORMAT_RGB;
    assert_true(png_image_finish_read(&image, NULL, back, 0, NULL));
    assert_memory_equal(back, rgb, sizeof rgb);
    unlink(path);
}

static void test_failures(void **state)
{
    unsigned char rgb[3] = {0};
    hb_error err = {0};
    (void)state;

    assert_true(hb_png_write("/nowhere/x.png", 1, 1, rgb, &err) < 0);
    assert_non_null(strstr(err.text, "/nowhere/x.png"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pixels_come_back),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
