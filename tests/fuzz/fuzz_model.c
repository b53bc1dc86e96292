/* libFuzzer target: any bytes as a basis file. What loads must also save, and load again as the same model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load_and_save(const char *path)
{
    hb_model *m = NULL, *again = NULL;
    char copy[64];
    hb_error err;

    if (hb_model_load(&m, path, &err))
        return;
    snprintf(copy, sizeof copy, "/dev/shm/fuzz_model-%ld", (long)getpid());
    if (hb_model_save(m, copy, &err) || hb_model_load(&again, copy, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    if (m->hash != again->hash || strcmp(m->notes, again->notes) != 0)
        abort();
    unlink(copy);
    hb_model_free(m);
    hb_model_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("basis", MFD_CLOEXEC);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    load_and_save(path);
    close(fd);
    return 0;
}
