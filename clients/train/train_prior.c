/* hilbert-train prior: the prior of a model's coefficients, from the functions that it was trained on. */
#include "train/train.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/options.h"
#include "train/prior.h"
#include "train/run.h"

typedef struct options {
    const char *model, *data, *output;
    hb_dataset_mapping mapping;
    int examples, threads;
    uint64_t seed;
    bool force;
} options;

static void print_help(void)
{
    printf("usage: hilbert-train prior MODEL --data FILE --output FILE [options]\n\n"
           "Fits the coefficients of every function in the data, and writes the model with their mean, their\n"
           "covariance, and the noise that the fitted basis leaves of a step. Fits to few transitions are then held\n"
           "to what is usual. Training does this by itself; here it is done for a model that has none, or over other\n"
           "data: those that it was trained on, or vehicles as they will be met.\n\n"
           "  --data FILE      data set\n"
           "  --map TEXT       how to read a foreign one (hilbert-train data --help)\n"
           "  --output FILE    the basis file to write; may be MODEL itself\n"
           "  --examples N     transitions of each function that coefficients come from [%d]\n"
           "  --seed N         of the draws [0]\n"
           "  --threads N      0: as many as there are processors [0]\n"
           "  --force          replace an output that exists and is not MODEL\n",
           HB_PRIOR_EXAMPLES);
}

static int parse(int argc, char **argv, options *o)
{
    const hb_option known[] = {
        {"data", HB_OPTION_TEXT, &o->data, 0, 0, 0},
        {"map", HB_OPTION_CALL, &(hb_option_call){hb_train_read_map, &o->mapping}, 0, 0, 0},
        {"output", HB_OPTION_TEXT, &o->output, 0, 0, 'o'},
        {"examples", HB_OPTION_WHOLE, &o->examples, 1, 1000000, 0},
        {"seed", HB_OPTION_COUNT, &o->seed, 0, INT64_MAX, 0},
        {"threads", HB_OPTION_WHOLE, &o->threads, 0, 1024, 0},
        {"force", HB_OPTION_FLAG, &o->force, 0, 0, 0},
    };
    hb_error err = {0};

    *o = (options){.examples = HB_PRIOR_EXAMPLES};
    int code = hb_options_command("hilbert-train", known, sizeof known / sizeof *known, argc, argv, print_help);
    if (code >= 0)
        return code;
    if (optind + 1 != argc || !o->data || !o->output) {
        hb_fail(&err, EINVAL, "prior wants one model, --data and --output (try --help)");
        return hb_train_complain(HB_EXIT_USAGE, &err);
    }
    o->model = argv[optind];
    return hb_train_keep_existing(o->output, o->force || strcmp(o->output, o->model) == 0);
}

/* the notes stay what they were, settings in YAML, to which this is a comment */
static char *make_notes(const options *o, const hb_model *m, const hb_dataset *d)
{
    char *notes = NULL;
    size_t length = strlen(m->notes);
    const char *newline = length && m->notes[length - 1] != '\n' ? "\n" : "";

    if (asprintf(&notes, "%s%s# prior: %s, %d functions, hash %016" PRIx64 ", %d examples each, seed %" PRIu64 "\n",
                 m->notes, newline, o->data, d->nfunctions, d->hash, o->examples, o->seed) < 0)
        return NULL;
    return notes;
}

static int add_prior(const options *o, const hb_model *m, const hb_dataset *d, hb_pool *pool, hb_error *err)
{
    hb_model *with = NULL;

    if (!hb_prior_applies(m))
        return hb_fail(err, EINVAL, "%s: a prior goes with basis functions whose coefficients are least squares",
                       o->model);
    char *notes = make_notes(o, m, d);
    int status = notes ? hb_model_copy(&with, m, true, notes, err) : hb_fail(err, ENOMEM, "out of memory");
    free(notes);
    if (!status && !(status = hb_prior_estimate(with, d, NULL, 0, o->examples, o->seed, pool, err)))
        status = hb_model_save(with, o->output, err);
    hb_model_free(with);
    return status;
}

int hb_train_prior(int argc, char **argv)
{
    options o;
    hb_model *m = NULL;
    hb_dataset *d = NULL;
    hb_pool *pool = NULL;
    hb_error err = {0};
    int code = parse(argc, argv, &o);

    if (code >= 0)
        return code;
    code = HB_EXIT_OK;
    if (hb_model_load(&m, o.model, &err) || hb_dataset_read_many(&d, o.data, &o.mapping, &err) ||
        hb_pool_new(&pool, o.threads ? o.threads : (int)sysconf(_SC_NPROCESSORS_ONLN), NULL, NULL, &err) ||
        add_prior(&o, m, d, pool, &err))
        code = hb_train_complain(HB_EXIT_FAILURE, &err);
    hb_pool_free(pool);
    hb_dataset_free(d);
    hb_model_free(m);
    return code;
}
