/* Any text as a log, behind any text as its description, with a zero between them. What is imported can be read and
 * checked; of the log alone a description is guessed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/import_log.h"
#include "data/log_check.h"
#include "fuzz.h"

static void import(const hb_log_map *map, const char *name, const char *path, FILE *out)
{
    hb_log_result result = {0};
    hb_dataset *d = NULL;
    hb_error err = {0};

    if (hb_log_import(map, 1, &name, path, &result, &err)) {
        FUZZ_EXPECT(*err.text);
        return;
    }
    if (hb_dataset_read(&d, path, NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    hb_log_check(d, map, 0.006, out);
    hb_dataset_free(d);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hb_error err = {0};
    char path[64];
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    hb_log_map *map = zero ? calloc(1, sizeof *map) : NULL;
    FILE *out = map ? fopen("/dev/null", "w") : NULL;

    if (out) {
        fuzz_file description = fuzz_file_of(data, (size_t)(zero - data)),
                  log = fuzz_file_of(zero + 1, size - (size_t)(zero - data) - 1);
        const char *name = log.path;
        snprintf(path, sizeof path, "/dev/shm/fuzz_log-%ld.h5", (long)getpid());
        if (hb_log_map_read(map, description.path, &err))
            FUZZ_EXPECT(*err.text);
        else
            import(map, name, path, out);
        if (hb_log_describe(1, &name, 0.03, out, &err))
            FUZZ_EXPECT(*err.text);
        close(description.fd);
        close(log.fd);
        fclose(out);
    }
    free(map);
    return 0;
}
