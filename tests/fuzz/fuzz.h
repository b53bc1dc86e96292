/* What the fuzz targets share. A target reads any bytes; what it takes for good must be good, or it aborts. */
#ifndef HB_FUZZ_H
#define HB_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_EXPECT(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A file in memory for readers that take a path; close the descriptor to remove it. */
typedef struct fuzz_file {
    int fd;
    char path[64];
} fuzz_file;

static inline fuzz_file fuzz_file_of(const uint8_t *data, size_t size)
{
    fuzz_file f = {.fd = memfd_create("input", MFD_CLOEXEC)};

    FUZZ_EXPECT(f.fd >= 0 && fchmod(f.fd, 0600) == 0 && write(f.fd, data, size) == (ssize_t)size);
    snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
    return f;
}

#endif
