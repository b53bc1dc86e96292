/* Any text as settings of a program: the first byte says whether those of training, of the MAVLink bridge, or the
 * bridge's waypoints. What is taken prints as a text that is read as the same. */
#include "fuzz.h"
#include "mavlink/settings.h"
#include "mavlink/waypoints.h"
#include "train/settings.h"

static void training(const uint8_t *data, size_t size)
{
    static hb_settings s, again;
    char *text = malloc(size + 1);
    hb_error err = {0};

    FUZZ_EXPECT(text);
    memcpy(text, data, size);
    text[size] = 0;
    hb_settings_default(&s);
    int bad = hb_settings_parse(&s, text, "settings", &err);
    free(text);
    if (bad) {
        FUZZ_EXPECT(*err.text);
        return;
    }
    char *printed = hb_settings_text(&s, false);
    hb_settings_default(&again);
    if (hb_settings_parse(&again, printed, "printed", &err)) {
        fprintf(stderr, "%s\nof\n%s\n", err.text, printed);
        abort();
    }
    char *back = hb_settings_text(&again, false), *command = hb_settings_command(&s);
    FUZZ_EXPECT(back && command && strcmp(printed, back) == 0);
    free(printed);
    free(back);
    free(command);
}

static char *print(const hb_mav_settings *s)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    FUZZ_EXPECT(out);
    hb_mav_settings_print(s, out);
    FUZZ_EXPECT(fclose(out) == 0);
    return text;
}

static void bridge(const uint8_t *data, size_t size)
{
    static hb_mav_settings s, again;
    fuzz_file file = fuzz_file_of(data, size);
    hb_error err = {0};

    hb_mav_settings_default(&s);
    if (hb_mav_settings_read(&s, file.path, &err)) {
        FUZZ_EXPECT(*err.text);
    } else {
        char *text = print(&s);
        fuzz_file printed = fuzz_file_of((const uint8_t *)text, strlen(text));
        hb_mav_settings_default(&again);
        if (hb_mav_settings_read(&again, printed.path, &err)) {
            fprintf(stderr, "%s\nof\n%s\n", err.text, text);
            abort();
        }
        char *back = print(&again);
        FUZZ_EXPECT(strcmp(text, back) == 0);
        free(text);
        free(back);
        close(printed.fd);
        hb_mav_settings_check(&s, &err);
    }
    close(file.fd);
}

static void waypoints(const uint8_t *data, size_t size)
{
    static hb_waypoints w;
    fuzz_file file = fuzz_file_of(data, size);
    hb_error err = {0};

    w = (hb_waypoints){.speed = 1, .radius = 0.5};
    if (hb_waypoints_read(&w, file.path, &err))
        FUZZ_EXPECT(*err.text);
    else
        FUZZ_EXPECT(w.n > 0 && w.n <= HB_MAX_WAYPOINTS);
    close(file.fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const reader[])(const uint8_t *, size_t) = {training, bridge, waypoints};

    if (size > 0)
        reader[data[0] % 3](data + 1, size - 1);
    return 0;
}
