/* Writes small basis files of every kind to a folder: the seeds of fuzz_model.
 *
 * usage: fuzz_seeds FOLDER */
#include <stdio.h>

#include "model/model.h"

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

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
        return 2;
    }
    for (int average = HB_AVERAGE_NONE; average <= HB_AVERAGE_NOMINAL; average++)
        if (write_seed(argv[1], HB_SHARED, (hb_average)average) ||
            (average != HB_AVERAGE_HEAD && write_seed(argv[1], HB_INDEPENDENT, (hb_average)average)))
            return 1;
    return 0;
}
