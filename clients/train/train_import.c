/* hilbert-train import: flights of PX4 and ArduPilot to a data set. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/options.h"
#include "data/dataset.h"
#include "data/flight_log.h"
#include "train/train.h"

static void print_help(void)
{
    printf(
        "usage: hilbert-train import --output FILE [options] FLIGHT.ulg... FLIGHT.bin...\n\n"
        "Makes a data set from flight logs of PX4 (ULog) and ArduPilot (.bin), for models of thrust and body rates: "
        "the\n"
        "states and controls of config/px4.yaml, world NWU, body FLU. Gaps, resets of the estimator and landed phases\n"
        "cut a flight into episodes. Logs at PX4's default rates (position at 10 Hz) are refused with the cure.\n\n"
        "  -o, --output FILE      the data set to write\n"
        "      --dt X             period of the grid in seconds [0.04]\n"
        "      --gap X            seconds without a sample that cut an episode [0.25]\n"
        "      --min-rate X       Hz at which everything must have been logged; 0: any [20]\n"
        "      --min-length X     seconds of the shortest episode that is kept [1]\n"
        "      --one-function     all logs are of one vehicle in one condition; else each is a function of its own\n"
        "      --parameters LIST  parameters kept with each flight, comma-separated [those that matter to dynamics]\n"
        "      --force            write over a file that is there\n"
        "  -h, --help             this text\n");
}

static int import_files(const hb_flight_import *import, const char *output)
{
    hb_flight_result *result = calloc((size_t)import->nfiles, sizeof *result);
    hb_dataset *d = NULL;
    hb_error err = {0};
    int status = result ? hb_flight_import_files(import, output, result, &err) : hb_fail(&err, ENOMEM, "out of memory");

    for (int i = 0; !status && i < import->nfiles; i++)
        printf("%s: %d episodes, %.1f s of flight; %.1f s on the ground left out; cut by %d gaps and %d resets\n",
               import->file[i], result[i].episodes, result[i].seconds, result[i].landed, result[i].gaps,
               result[i].resets);
    for (int i = 0; !status && i < import->nfiles; i++) {
        if (result[i].dropped > 0)
            fprintf(stderr, "warning: %s: its logger says that it lost %.2f s\n", import->file[i], result[i].dropped);
        if (result[i].cut_off)
            fprintf(stderr, "warning: %s: ends within a message, at offset %zu\n", import->file[i], result[i].cut_off);
    }
    if (!status)
        status = hb_dataset_read(&d, output, NULL, &err);
    if (!status) {
        printf("\n");
        hb_dataset_describe(d, stdout);
        hb_dataset_free(d);
    }
    free(result);
    return status ? hb_train_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}

int hb_train_import(int argc, char **argv)
{
    hb_flight_import import = {0};
    const char *output = NULL;
    double min_rate = NAN;
    bool force = false;
    struct stat there;
    const hb_option options[] = {
        {"output", HB_OPTION_TEXT, &output, 0, 0, 'o'},
        {"dt", HB_OPTION_NUMBER, &(hb_option_number){&import.dt, 1e-4, 1e3}, 0, 0, 0},
        {"gap", HB_OPTION_NUMBER, &(hb_option_number){&import.gap, 1e-3, 1e6}, 0, 0, 0},
        {"min-rate", HB_OPTION_NUMBER, &(hb_option_number){&min_rate, 0, 1e6}, 0, 0, 0},
        {"min-length", HB_OPTION_NUMBER, &(hb_option_number){&import.min_length, 1e-3, 1e6}, 0, 0, 0},
        {"one-function", HB_OPTION_FLAG, &import.one_function, 0, 0, 0},
        {"parameters", HB_OPTION_TEXT, &import.attribute, 0, 0, 0},
        {"force", HB_OPTION_FLAG, &force, 0, 0, 0},
    };

    int code = hb_options_command("hilbert-train", options, sizeof options / sizeof *options, argc, argv, print_help);
    if (code >= 0)
        return code;
    if (!isnan(min_rate))
        import.min_rate = min_rate > 0 ? min_rate : -1;
    if (!output || optind == argc) {
        fprintf(stderr, "hilbert-train: import wants --output and logs (try --help)\n");
        return HB_EXIT_USAGE;
    }
    if (!force && stat(output, &there) == 0) {
        fprintf(stderr, "hilbert-train: %s is there already (--force writes over it)\n", output);
        return HB_EXIT_FAILURE;
    }
    import.nfiles = argc - optind;
    import.file = (const char *const *)argv + optind;
    return import_files(&import, output);
}
