/* Key files: what is taken for a key is one line of 40 characters that stand for 32 bytes. */
#include "fuzz.h"
#include "keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char key[HB_KEY_SIZE], text[32];
    fuzz_file file = fuzz_file_of(data, size);

    for (int secret = 0; secret < 2; secret++)
        if (hb_key_read(file.path, secret, key, text, sizeof text) == 0)
            FUZZ_EXPECT(strlen(key) == HB_KEY_SIZE - 1 && size >= HB_KEY_SIZE - 1 &&
                        memcmp(key, data, HB_KEY_SIZE - 1) == 0);
    close(file.fd);
    return 0;
}
