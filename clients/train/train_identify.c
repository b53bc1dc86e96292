/* hilbert-train identify: parameters of a vehicle's physics, delay and lag of its controls, from a data set. */
#include "train/train.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/physics.h"
#include "train/identify.h"
#include "train/untrained_model.h"

static void print_help(void)
{
    printf(
        "usage: hilbert-train identify DATA.h5 --average PHYSICS [--dry-run]\n\n"
        "Finds the parameters of a vehicle's physics that nobody gave, and delay and lag of each control, by rolling\n"
        "the physics out over stretches of 0.2 s of all flights. Prints them with their standard deviations, and\n"
        "keeps delay and lag in the data set, where training takes them from. Training on logs does the same by "
        "itself.\n\n"
        "  --average PHYSICS  nominal:NAME[:parameter=value,...] or FILE.yaml[:parameter=value,...]; what is given,\n"
        "                     and what the data know of their vehicles, is not identified\n"
        "  --map TEXT         how to read a foreign data set (hilbert-train data --help)\n"
        "  --dry-run          prints, and leaves the data set as it is\n");
}

static int identify(const hb_dataset *d, const char *average, hb_identified *found, hb_error *err)
{
    double parameter[HB_NOMINAL_PARAMETERS];
    bool given[HB_NOMINAL_PARAMETERS] = {0};
    const hb_nominal *n = NULL;
    hb_physics *own = NULL;
    hb_progress progress;
    int status = hb_untrained_model_physics(average, d, &n, &own, parameter, given, err);

    if (!status && !n)
        status = hb_fail(err, EINVAL, "--average: '%s' is no physics: expected nominal:NAME or FILE.yaml", average);
    if (!status && d->header.nu > HB_MAX_CONTROLS)
        status = hb_fail(err, EINVAL, "%d controls: %d at most", d->header.nu, HB_MAX_CONTROLS);
    if (!status) {
        hb_progress_start(&progress, "identify");
        status = hb_identify(found, d,
                             &(hb_identify_settings){
                                 .nominal = n, .start = parameter, .given = given, .actuators = {.nu = d->header.nu}},
                             &(hb_watch){.progress = &progress}, err);
        hb_progress_end(&progress);
    }
    if (!status)
        hb_identified_print(found, d, stdout);
    hb_physics_free(own);
    return status;
}

int hb_train_identify(int argc, char **argv)
{
    hb_dataset_mapping mapping = {0};
    const char *average = NULL;
    bool dry = false;
    const hb_option options[] = {
        {"average", HB_OPTION_TEXT, &average, 0, 0, 0},
        {"map", HB_OPTION_CALL, &(hb_option_call){hb_train_read_map, &mapping}, 0, 0, 0},
        {"dry-run", HB_OPTION_FLAG, &dry, 0, 0, 0},
    };
    hb_dataset *d = NULL;
    hb_identified found;
    hb_error err = {0};
    int code = hb_options_command("hilbert-train", options, sizeof options / sizeof *options, argc, argv, print_help);

    if (code >= 0)
        return code;
    if (optind + 1 != argc || !average) {
        fprintf(stderr, "hilbert-train: identify wants one data set and --average (try --help)\n");
        return HB_EXIT_USAGE;
    }
    int status = hb_dataset_read(&d, argv[optind], &mapping, &err);
    int nu = status ? 0 : d->header.nu;
    if (!status)
        status = identify(d, average, &found, &err);
    hb_dataset_free(d);
    if (!status && !dry && nu > 0 &&
        !(status = hb_dataset_put_actuators(argv[optind], nu, found.actuators.delay, found.actuators.lag, &err)))
        printf("%s: delay and lag are kept in it\n", argv[optind]);
    return status ? hb_train_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}
