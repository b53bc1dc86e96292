/* hilbert-train prune: the error with fewer and fewer basis functions, and a model with as many as are wanted. */
#include "train/train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/prediction_errors.h"
#include "train/prune.h"
#include "train/run.h"

enum { STEPS = 10, ROLLOUTS = 100 };

/* What was asked for. */
typedef struct options {
    hb_train_input in;
    int nb; /* 0: only print the errors */
    bool keep_order, joint;
} options;

static void print_help(void)
{
    printf("usage: hilbert-train prune MODEL --data FILE [--nb N --output FILE] [options]\n\n"
           "Rotates the basis of a shared model to the principal components of the coefficients that the data's\n"
           "functions have, and prints the error with the first 1, 2, ... of them.\n\n"
           "  --data FILE      data set\n"
           "  --map TEXT       how to read a foreign one (hilbert-train data --help)\n"
           "  --nb N           basis functions to keep in the output\n"
           "  --output FILE    the basis file to write\n"
           "  --examples N     transitions of each function that coefficients come from [200]\n"
           "  --joint          of a model with a coefficient for each state: components of all states together, with\n"
           "                   one coefficient each for all of them; prints 1, 2, 4, ..., or N alone\n"
           "  --keep-order     keep the first ones as they are: for a basis that was trained with --matryoshka, and\n"
           "                   for networks of their own, which cannot be rotated\n"
           "  --force          replace an output that exists\n\n"
           "share: part of what the basis adds to the average that the first ones hold. Errors are medians over\n"
           "functions of the mean squared error of normalised states after 1 and %d steps.\n",
           STEPS);
}

static int parse(int argc, char **argv, options *o)
{
    const hb_option known[] = {
        HB_TRAIN_INPUT_OPTIONS(&o->in),
        {"nb", HB_OPTION_WHOLE, &o->nb, 1, 1000000, 0},
        {"joint", HB_OPTION_FLAG, &o->joint, 0, 0, 0},
        {"keep-order", HB_OPTION_FLAG, &o->keep_order, 0, 0, 0},
    };
    int code = hb_options_command("hilbert-train", known, sizeof known / sizeof *known, argc, argv, print_help);

    if (code >= 0)
        return code;
    if (optind + 1 != argc || !o->in.data_path || !o->in.output != !o->nb || (o->joint && o->keep_order)) {
        fprintf(stderr, "hilbert-train: prune wants one model, --data, --nb together with --output, and one of --joint "
                        "and --keep-order at most (try --help)\n");
        return HB_EXIT_USAGE;
    }
    o->in.model_path = argv[optind];
    return o->in.output ? hb_train_keep_existing(o->in.output, o->in.force) : -1;
}

static int measure_errors(const hb_model *m, const hb_train_input *i, double *ret_one, double *ret_last, hb_error *err)
{
    const hb_dataset *d = i->data;
    hb_prediction_settings s = {
        .examples = i->examples, .rollouts = ROLLOUTS, .steps = hb_prediction_errors_longest(d, STEPS)};
    hb_prediction_errors *e = NULL;
    double *error = calloc((size_t)d->nfunctions * STEPS, sizeof *error);
    int status =
        error ? hb_prediction_errors_new(&e, m, d, NULL, 0, &s, i->pool, err) : hb_fail(err, ENOMEM, "out of memory");

    if (!status) {
        hb_prediction_errors_run(e, true, error, NULL);
        *ret_one = hb_prediction_errors_quantile(e, error, 1, 0.5);
        *ret_last = hb_prediction_errors_quantile(e, error, s.steps, 0.5);
    }
    hb_prediction_errors_free(e);
    free(error);
    return status;
}

static int prune(const options *o, hb_rotation **rotation, hb_error *err)
{
    const hb_model *m = o->in.model;
    const hb_dataset *d = o->in.data;
    int status;

    if (!o->keep_order && (status = hb_rotation_new(rotation, m, d, NULL, 0, o->in.examples, o->joint, 0, NULL, err)))
        return status;
    int most = *rotation ? hb_rotation_size(*rotation) : m->nb;
    printf("  nb     share      1 step   %2d steps\n", hb_prediction_errors_longest(d, STEPS));
    for (int n = 1; n <= most; n++) {
        hb_model *cut = NULL;
        double one = 0, last = 0;
        /* joint ones are many: the powers of two, or the one that is wanted alone */
        if (o->joint && (o->nb ? n != o->nb : (n & (n - 1)) != 0))
            continue;
        if ((status = hb_prune(&cut, m, *rotation, n, err)))
            return status;
        status = measure_errors(cut, &o->in, &one, &last, err);
        if (!status && n == o->nb)
            status = hb_model_save(cut, o->in.output, err);
        hb_model_free(cut);
        if (status)
            return status;
        if (*rotation)
            printf("%4d  %.6f  %10.3e  %10.3e\n", n, hb_rotation_share(*rotation, n), one, last);
        else
            printf("%4d         -  %10.3e  %10.3e\n", n, one, last);
    }
    return o->nb > most ? hb_fail(err, EINVAL, "--nb: %s has %d basis functions", o->in.model_path, most) : 0;
}

int hb_train_prune(int argc, char **argv)
{
    options o = {.in = {.examples = 200}};
    hb_rotation *rotation = NULL;
    hb_error err = {0};
    int code = parse(argc, argv, &o);

    if (code >= 0)
        return code;
    bool failed = hb_train_input_open(&o.in, &err) || prune(&o, &rotation, &err);
    hb_rotation_free(rotation);
    hb_train_input_close(&o.in);
    return failed ? hb_train_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}
