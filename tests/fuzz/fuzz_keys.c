/* Key files: what is taken for a key is one line of 40 characters that stand for 32 bytes. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], key[HB_KEY_SIZE], text[32];
    int fd = memfd_create("key", MFD_CLOEXEC);

    if (fd < 0 || fchmod(fd, 0600) || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int secret = 0; secret < 2; secret++)
        if (hb_key_read(path, secret, key, text, sizeof text) == 0 &&
            (strlen(key) != HB_KEY_SIZE - 1 || size < HB_KEY_SIZE - 1 || memcmp(key, data, HB_KEY_SIZE - 1) != 0))
            abort();
    close(fd);
    return 0;
}
