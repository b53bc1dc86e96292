/* Writes small basis files of every kind to a folder, and a checkpoint: seeds of fuzz_model and fuzz_checkpoint.
 *
 * usage: fuzz_seeds FOLDER CHECKPOINT */
#include <stdio.h>
#include <stdlib.h>

#include "model/model.h"
#include "test_models.h"
#include "train/checkpoint.h"

static int write_seed(const char *folder, hb_architecture architecture, hb_average average)
{
    hb_model shape = {.nx = 2,
                      .nu = 1,
                      .nb = 2,
                      .has_prior = average == HB_AVERAGE_HEAD,
                      .architecture = architecture,
                      .average = average,
                      .integration = HB_COMBINED,
                      .substeps = 1,
                      .volume = 1,
                      .dt = 0.05,
                      .basis = {.nlayers = 2, .width = {[1] = 2}},
                      .average_network = {.nlayers = 1}};
    hb_model *m = NULL;
    hb_error err;
    char path[4096];

    if (average == HB_AVERAGE_NOMINAL) {
        shape.nominal = hb_nominal_at(0);
        shape.nx = shape.nominal->nx;
        shape.nu = shape.nominal->nu;
        for (int i = 0; i < shape.nominal->nparameters; i++)
            shape.nominal_parameter[i] = shape.nominal->parameter_default[i];
    }
    snprintf(path, sizeof path, "%s/%s-%s.safetensors", folder, hb_architecture_name[architecture],
             hb_average_name[average]);
    int r = hb_model_new(&m, &shape, "a seed", &err);
    if (r == 0)
        r = hb_model_save(m, path, &err);
    if (r)
        fprintf(stderr, "fuzz_seeds: %s\n", err.text);
    hb_model_free(m);
    return r;
}

/* Of the model and the data hash that fuzz_checkpoint takes. */
static int write_checkpoint(const char *path)
{
    hb_model *m = NULL;
    hb_error err;

    int r = hb_test_cart(&m, &err);
    if (r == 0) {
        hb_real *zero = calloc(m->nparameters, sizeof *zero);
        hb_trainer_state state = {.step = 5, .nparameters = m->nparameters, .mean = zero, .square = zero};
        r = zero ? hb_checkpoint_save(path, m, &state, "steps: 10\n", 1, &err) : 1;
        free(zero);
    }
    hb_model_free(m);
    return r;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: fuzz_seeds FOLDER CHECKPOINT\n");
        return 2;
    }
    for (int average = HB_AVERAGE_NONE; average <= HB_AVERAGE_NOMINAL; average++)
        if (write_seed(argv[1], HB_SHARED, (hb_average)average) ||
            (average != HB_AVERAGE_HEAD && write_seed(argv[1], HB_INDEPENDENT, (hb_average)average)))
            return 1;
    return write_checkpoint(argv[2]) ? 1 : 0;
}
