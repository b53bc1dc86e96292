/* Any bytes as a checkpoint of a training run. What is taken up is finite. */
#include <math.h>

#include "fuzz.h"
#include "test_models.h"
#include "train/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static hb_model *model;
    static hb_real *mean, *square;
    fuzz_file file = fuzz_file_of(data, size);
    hb_checkpoint *c = NULL;
    hb_error err = {0};

    if (!model) {
        FUZZ_EXPECT(hb_test_cart(&model, NULL) == 0);
        mean = calloc(model->nparameters, sizeof *mean);
        square = calloc(model->nparameters, sizeof *square);
        FUZZ_EXPECT(mean && square);
    }
    hb_trainer_state state = {.nparameters = model->nparameters, .mean = mean, .square = square};
    if (hb_checkpoint_load(&c, file.path, &err)) {
        FUZZ_EXPECT(*err.text);
    } else {
        FUZZ_EXPECT(hb_checkpoint_settings(c));
        if (hb_checkpoint_restore(c, model, &state, 1, &err))
            FUZZ_EXPECT(*err.text);
        else
            for (size_t i = 0; i < model->nparameters; i++)
                FUZZ_EXPECT(isfinite((double)model->parameter[i]) && isfinite((double)mean[i]) &&
                            isfinite((double)square[i]));
    }
    hb_checkpoint_free(c);
    close(file.fd);
    return 0;
}
