/* hilbert-train prior: the prior of a model's coefficients, from the functions that it was trained on. */
#include "train/train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/prior.h"
#include "train/reference.h"
#include "train/run.h"

static void print_help(void)
{
    printf(
        "usage: hilbert-train prior MODEL --data FILE --output FILE [options]\n\n"
        "Fits the coefficients of every function in the data, and writes the model with their mean, their\n"
        "covariance, the noise that the fitted basis leaves of a step, and what is left in the long run of functions\n"
        "that training holds back. Fits to few transitions are then pulled towards what is usual. Training does this\n"
        "by itself; this command does it for a model without a prior, or with other data: those that it was trained\n"
        "on, or vehicles as they will be in service.\n\n"
        "  --data FILE      data set\n"
        "  --map TEXT       how to read a foreign one (hilbert-train data --help)\n"
        "  --output FILE    the basis file to write; may be MODEL itself\n"
        "  --reference      keep the model's prior, and add what is left in the long run alone: the reference of\n"
        "                   out-of-span, for a model of before there was one\n"
        "  --examples N     transitions of each function that coefficients come from [%d]\n"
        "  --seed N         of the draws [0]\n"
        "  --threads N      0: as many as there are processors [0]\n"
        "  --force          replace an output that exists and is not MODEL\n",
        HB_PRIOR_EXAMPLES);
}

/* reference_alone: the prior stays as it is */
static int add_prior(const hb_train_input *i, bool reference_alone, hb_error *err)
{
    hb_model *with = NULL;

    if (!hb_prior_applies(i->model))
        return hb_fail(err, EINVAL, "%s: a prior goes with basis functions whose coefficients are least squares",
                       i->model_path);
    if (reference_alone && !i->model->has_prior)
        return hb_fail(err, EINVAL, "%s: has no prior: add one, without --reference", i->model_path);
    char *notes = hb_train_input_notes(i, reference_alone ? "prior --reference" : "prior");
    int status = notes ? hb_model_copy(&with, i->model, true, notes, err) : hb_fail(err, ENOMEM, "out of memory");
    free(notes);
    hb_progress progress;
    hb_progress_start(&progress, "prior");
    if (!status && !reference_alone)
        status = hb_prior_estimate(with, i->data, NULL, 0, i->examples, i->seed, i->pool,
                                   &(hb_watch){.progress = &progress}, err);
    hb_progress_end(&progress);
    if (!status && !(status = hb_reference_measure(with, i->data, i->seed, i->pool, err)))
        hb_model_seal(with);
    if (!status)
        status = hb_model_save(with, i->output, err);
    hb_model_free(with);
    return status;
}

int hb_train_prior(int argc, char **argv)
{
    hb_train_input i = {.examples = HB_PRIOR_EXAMPLES};
    hb_error err = {0};
    bool reference_alone = false;
    const hb_option more[] = {{"reference", HB_OPTION_FLAG, &reference_alone, 0, 0, 0}};
    int code = hb_train_input_read(&i, "prior", more, 1, argc, argv, print_help);

    if (code >= 0)
        return code;
    bool failed = hb_train_input_open(&i, &err) || add_prior(&i, reference_alone, &err);
    hb_train_input_close(&i);
    return failed ? hb_train_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}
