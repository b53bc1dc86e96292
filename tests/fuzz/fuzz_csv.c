/* Any text as a CSV log. The first byte says how it is to be read. What is taken becomes a data set that can be read.
 */
#include <math.h>

#include "data/dataset.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hb_error err = {0};
    hb_dataset *d = NULL;
    char path[64];

    if (size < 1)
        return 0;
    fuzz_file file = fuzz_file_of(data + 1, size - 1);
    const char *name = file.path;
    snprintf(path, sizeof path, "/dev/shm/fuzz_csv-%ld.h5", (long)getpid());
    hb_csv_import import = {.nfiles = 1,
                            .file = &name,
                            .states = data[0] & 1 ? "x" : "x[m]=a,v",
                            .controls = data[0] & 2 ? "u" : NULL,
                            .time = data[0] & 4 ? NULL : "t",
                            .time_scale = data[0] & 8 ? 1e-6 : 0,
                            .dt = data[0] & 4 ? 0.1 : 0,
                            .bounds = data[0] & 16 ? "-1..1" : NULL};
    if (hb_dataset_import_csv(&import, path, &err)) {
        FUZZ_EXPECT(*err.text);
    } else {
        if (hb_dataset_read(&d, path, NULL, &err)) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
        hb_dataset_free(d);
        unlink(path);
    }
    close(file.fd);
    return 0;
}
