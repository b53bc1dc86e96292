/* hilbert-train import: flights of PX4 and ArduPilot to a data set. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

static int read_double(const char *name, const char *text, double least, double *ret)
{
    char *end;
    *ret = strtod(text, &end);
    if (end != text && !*end && isfinite(*ret) && *ret >= least)
        return 0;
    fprintf(stderr, "hilbert-train: --%s: '%s' is not a number from %g on\n", name, text, least);
    return -1;
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
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"dt", required_argument, NULL, 'd'},
                                            {"gap", required_argument, NULL, 'g'},
                                            {"min-rate", required_argument, NULL, 'r'},
                                            {"min-length", required_argument, NULL, 'l'},
                                            {"one-function", no_argument, NULL, '1'},
                                            {"parameters", required_argument, NULL, 'p'},
                                            {"force", no_argument, NULL, 'f'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    hb_flight_import import = {0};
    const char *output = NULL;
    struct stat there;
    bool force = false;
    int bad = 0;

    for (int c; (c = getopt_long(argc, argv, "ho:", options, NULL)) != -1;)
        switch (c) {
        case 'o':
            output = optarg;
            break;
        case 'd':
            bad |= read_double("dt", optarg, 1e-4, &import.dt);
            break;
        case 'g':
            bad |= read_double("gap", optarg, 1e-3, &import.gap);
            break;
        case 'r':
            bad |= read_double("min-rate", optarg, 0, &import.min_rate);
            import.min_rate = import.min_rate > 0 ? import.min_rate : -1;
            break;
        case 'l':
            bad |= read_double("min-length", optarg, 1e-3, &import.min_length);
            break;
        case '1':
            import.one_function = true;
            break;
        case 'p':
            import.attribute = optarg;
            break;
        case 'f':
            force = true;
            break;
        case 'h':
            print_help();
            return HB_EXIT_OK;
        default:
            return HB_EXIT_USAGE;
        }
    if (bad)
        return HB_EXIT_USAGE;
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
