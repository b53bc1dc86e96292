/* libFuzzer target: any bytes as a basis file. What loads must also save, and load again as the same model. */
#include "fuzz.h"
#include "model/model.h"

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
    fuzz_file file = fuzz_file_of(data, size);

    load_and_save(file.path);
    close(file.fd);
    return 0;
}
