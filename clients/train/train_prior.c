/* hilbert-train prior: the prior of a model's coefficients, from the functions that it was trained on. */
#include "train/train.h"

#include <errno.h>
#include <inttypes.h>
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
        "  --examples N     transitions of each function that coefficients come from [%d]\n"
        "  --seed N         of the draws [0]\n"
        "  --threads N      0: as many as there are processors [0]\n"
        "  --force          replace an output that exists and is not MODEL\n",
        HB_PRIOR_EXAMPLES);
}

static int parse(int argc, char **argv, hb_train_input *i, uint64_t *seed)
{
    const hb_option known[] = {
        HB_TRAIN_INPUT_OPTIONS(i),
        {"seed", HB_OPTION_COUNT, seed, 0, INT64_MAX, 0},
        {"threads", HB_OPTION_WHOLE, &i->threads, 0, 1024, 0},
    };
    int code = hb_options_command("hilbert-train", known, sizeof known / sizeof *known, argc, argv, print_help);

    if (code >= 0)
        return code;
    if (optind + 1 != argc || !i->data_path || !i->output) {
        fprintf(stderr, "hilbert-train: prior wants one model, --data and --output (try --help)\n");
        return HB_EXIT_USAGE;
    }
    i->model_path = argv[optind];
    return hb_train_keep_existing(i->output, i->force || strcmp(i->output, i->model_path) == 0);
}

/* the notes stay what they were, settings in YAML, to which this is a comment */
static char *make_notes(const hb_train_input *i, uint64_t seed)
{
    const hb_model *m = i->model;
    char *notes = NULL;
    size_t length = strlen(m->notes);
    const char *newline = length && m->notes[length - 1] != '\n' ? "\n" : "";

    if (asprintf(&notes, "%s%s# prior: %s, %d functions, hash %016" PRIx64 ", %d examples each, seed %" PRIu64 "\n",
                 m->notes, newline, i->data_path, i->data->nfunctions, i->data->hash, i->examples, seed) < 0)
        return NULL;
    return notes;
}

static int add_prior(const hb_train_input *i, uint64_t seed, hb_error *err)
{
    hb_model *with = NULL;

    if (!hb_prior_applies(i->model))
        return hb_fail(err, EINVAL, "%s: a prior goes with basis functions whose coefficients are least squares",
                       i->model_path);
    char *notes = make_notes(i, seed);
    int status = notes ? hb_model_copy(&with, i->model, true, notes, err) : hb_fail(err, ENOMEM, "out of memory");
    free(notes);
    hb_progress progress;
    hb_progress_start(&progress, "prior");
    if (!status)
        status = hb_prior_estimate(with, i->data, NULL, 0, i->examples, seed, i->pool,
                                   &(hb_watch){.progress = &progress}, err);
    hb_progress_end(&progress);
    if (!status && !(status = hb_reference_measure(with, i->data, seed, i->pool, err)))
        hb_model_seal(with);
    if (!status)
        status = hb_model_save(with, i->output, err);
    hb_model_free(with);
    return status;
}

int hb_train_prior(int argc, char **argv)
{
    hb_train_input i = {.examples = HB_PRIOR_EXAMPLES};
    uint64_t seed = 0;
    hb_error err = {0};
    int code = parse(argc, argv, &i, &seed);

    if (code >= 0)
        return code;
    bool failed = hb_train_input_open(&i, &err) || add_prior(&i, seed, &err);
    hb_train_input_close(&i);
    return failed ? hb_train_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}
