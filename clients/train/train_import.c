/* hilbert-train import: flights of hilbertd, PX4 and ArduPilot to a data set. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "data/flight_log.h"
#include "data/import_log.h"
#include "data/log_check.h"
#include "data/recorded_flight.h"
#include "data/recording_import.h"
#include "train/train.h"

static void print_help(void)
{
    printf(
        "usage: hilbert-train import --output FILE [options] FLIGHT.mcap... | FLIGHT.ulg... FLIGHT.bin... | "
        "LOG.csv[.gz]...\n\n"
        "Makes a data set from recordings of hilbertd (.mcap), with the states and controls of the model that flew. "
        "Gaps\n"
        "cut a flight into episodes; each detected change, reset or restart begins another function.\n\n"
        "Or from flight logs of PX4 (ULog) and ArduPilot (.bin), for models of thrust and body rates: "
        "the\n"
        "states and controls of config/px4.yaml, world NWU, body FLU. Gaps, resets of the estimator and landed phases\n"
        "cut a flight into episodes; a parameter that changes in flight begins another function. Logs at PX4's "
        "default\n"
        "rates (position at 10 Hz) are refused with the cure.\n\n"
        "Or from CSV logs of any origin, gzip or not, by a description of their columns that 'hilbert-train describe' "
        "begins:\n"
        "empty cells, glitches and stretches that stand still are cut out, quaternions get one sign, everything is\n"
        "resampled to one period, and what is odd is said.\n\n"
        "  -o, --output FILE      the data set to write\n"
        "      --map LOG.yaml     description of CSV logs\n"
        "      --dt X             period in seconds [the recorded model's; of logs 0.04]\n"
        "      --gap X            seconds without a sample that cut an episode [three periods; of logs 0.25]\n"
        "      --min-rate X       logs: Hz at which everything must have been logged; 0: any [20]\n"
        "      --min-length X     seconds of the shortest episode that is kept [1]\n"
        "      --one-function     all files are of one vehicle in one condition; else each log is a function of its "
        "own\n"
        "      --settle X         recordings: seconds before a detected change that are left out [1]\n"
        "      --parameters LIST  logs: parameters kept with each flight, comma-separated [those that matter to "
        "dynamics]\n"
        "      --force            replace a file that exists\n"
        "  -h, --help             this text\n");
}

/* map: of logs; NULL: not by a description */
static int describe(const char *output, const hb_log_map *map)
{
    hb_dataset *d = NULL;
    hb_error err = {0};
    int status = hb_dataset_read(&d, output, NULL, &err);

    if (status)
        return hb_train_complain(HB_EXIT_FAILURE, &err);
    printf("\n");
    hb_dataset_describe(d, stdout);
    fflush(stdout);
    hb_log_check(d, map, NAN, stderr);
    hb_dataset_free(d);
    return HB_EXIT_OK;
}

#ifdef HB_RECORDINGS
static int import_recordings(const hb_recording_import *import, const char *output)
{
    hb_recording_result *result = calloc((size_t)import->nfiles, sizeof *result);
    hb_error err = {0};
    int status =
        result ? hb_recording_import_files(import, output, result, &err) : hb_fail(&err, ENOMEM, "out of memory");

    for (int i = 0; !status && i < import->nfiles; i++) {
        const hb_recording_result *r = &result[i];
        printf("%s: %d episodes of %d functions, %.1f s; cut by %d gaps, %d resets and %d changes of dynamics\n",
               import->file[i], r->episodes, r->functions, r->seconds, r->gaps, r->resets, r->changes);
        if (r->lost)
            fprintf(stderr, "warning: %s: %" PRIu64 " messages are missing in it\n", import->file[i], r->lost);
        if (r->cut)
            fprintf(stderr, "warning: %s: was cut off; it was read up to there\n", import->file[i]);
    }
    free(result);
    return status ? hb_train_complain(HB_EXIT_FAILURE, &err) : describe(output, NULL);
}
#endif

/* How many of the files are recordings. */
static int count_recordings(int n, const char *const *file)
{
    int count = 0;

#ifdef HB_RECORDINGS
    for (int i = 0; i < n; i++)
        count += hb_recorded_flight_is(file[i]);
#else
    (void)n, (void)file;
#endif
    return count;
}

static int import_files(const hb_flight_import *import, const char *output)
{
    hb_flight_result *result = calloc((size_t)import->nfiles, sizeof *result);
    hb_error err = {0};
    int status = result ? hb_flight_import_files(import, output, result, &err) : hb_fail(&err, ENOMEM, "out of memory");

    for (int i = 0; !status && i < import->nfiles; i++)
        printf("%s: %d episodes, %.1f s of flight; %.1f s on the ground left out; cut by %d gaps, %d resets and %d "
               "changes of parameters\n",
               import->file[i], result[i].episodes, result[i].seconds, result[i].landed, result[i].gaps,
               result[i].resets, result[i].changes);
    for (int i = 0; !status && i < import->nfiles; i++) {
        if (result[i].dropped > 0)
            fprintf(stderr, "warning: %s: its logger says that it lost %.2f s\n", import->file[i], result[i].dropped);
        if (result[i].cut_off)
            fprintf(stderr, "warning: %s: ends within a message, at offset %zu\n", import->file[i], result[i].cut_off);
    }
    free(result);
    return status ? hb_train_complain(HB_EXIT_FAILURE, &err) : describe(output, NULL);
}

static void print_log(const char *path, const hb_log_result *r)
{
    const struct {
        size_t n;
        const char *what;
    } cut[] = {{r->not_numbers, "not all numbers"},
               {r->left_out, "left out by where"},
               {r->beyond, "beyond limits"},
               {r->glitches, "in glitches"},
               {r->far, "far out"},
               {r->repeated, "in which nothing moves"},
               {r->back, "out of time"}};

    printf("%s: function %d, %d episodes, %.1f s; of %zu rows", path, r->function, r->episodes, r->seconds, r->rows);
    bool any = false;
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        if (cut[i].n) {
            printf("%s %zu %s", any ? "," : "", cut[i].n, cut[i].what);
            any = true;
        }
    printf("%s; cut by %d gaps and %d jumps", any ? "" : " all are good", r->gaps, r->jumps);
    if (r->flips)
        printf("; the quaternion's sign was changed %zu times", r->flips);
    printf("\n");
}

/* What is odd, once for all files that it is odd in. */
static void print_findings(int n, const char *const *file, const hb_log_result *result)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < result[i].nfindings; k++) {
            const char *text = result[i].finding[k];
            size_t about = strcspn(text, "0123456789"); /* figures differ from file to file */
            int others = 0, before = 0;
            for (int j = 0; j < n; j++)
                for (int l = 0; l < result[j].nfindings; l++)
                    if (strncmp(result[j].finding[l], text, about) == 0 && (j != i || l != k)) {
                        others++;
                        before += j < i || (j == i && l < k);
                    }
            if (before)
                continue;
            fprintf(stderr, "warning: %s: %s", file[i], text);
            fprintf(stderr, others ? " (and so in %d more places)\n" : "\n", others);
        }
}

static int import_logs(const char *map_path, int n, const char *const *file, double dt, const char *output)
{
    hb_log_map *map = calloc(1, sizeof *map);
    hb_log_result *result = calloc((size_t)n, sizeof *result);
    hb_error err = {0};
    int status = map && result ? hb_log_map_read(map, map_path, &err) : hb_fail(&err, ENOMEM, "out of memory");

    if (!status && dt > 0)
        map->dt = dt;
    if (!status)
        status = hb_log_import(map, n, file, output, result, &err);
    for (int i = 0; i < n && !status; i++)
        print_log(file[i], &result[i]);
    fflush(stdout);
    if (!status)
        print_findings(n, file, result);
    int code = status ? hb_train_complain(HB_EXIT_FAILURE, &err) : describe(output, map);
    free(map);
    free(result);
    return code;
}

static void print_describe_help(void)
{
    printf("usage: hilbert-train describe [--mass X] LOG.csv[.gz]... > log.yaml\n\n"
           "Looks at logs of one kind of vehicle and writes a description of their columns, with what was guessed and "
           "why.\n"
           "The guess is tried: frames, the motors' law and the order of the rotors are put right by what the flights "
           "say.\nOf a quadrotor its mass alone is to be given, here or in the text. Read it over, then\n"
           "hilbert-train import --map log.yaml --output FILE LOG.csv...\n\n"
           "      --mass X           kilograms of the vehicle, weighed\n"
           "  -h, --help             this text\n");
}

int hb_train_describe(int argc, char **argv)
{
    double mass = NAN;
    const hb_option options[] = {{"mass", HB_OPTION_NUMBER, &(hb_option_number){&mass, 1e-4, 1e6}, 0, 0, 0}};
    hb_error err = {0};
    int code =
        hb_options_command("hilbert-train", options, sizeof options / sizeof *options, argc, argv, print_describe_help);

    if (code >= 0)
        return code;
    if (optind == argc) {
        fprintf(stderr, "hilbert-train: describe wants logs (try --help)\n");
        return HB_EXIT_USAGE;
    }
    return hb_log_describe(argc - optind, (const char *const *)argv + optind, mass, stdout, &err)
               ? hb_train_complain(HB_EXIT_FAILURE, &err)
               : HB_EXIT_OK;
}

int hb_train_import(int argc, char **argv)
{
    hb_flight_import import = {0};
    double settle = -1;
    const char *output = NULL, *map = NULL;
    double min_rate = NAN;
    bool force = false;
    const hb_option options[] = {
        {"output", HB_OPTION_TEXT, &output, 0, 0, 'o'},
        {"map", HB_OPTION_TEXT, &map, 0, 0, 0},
        {"dt", HB_OPTION_NUMBER, &(hb_option_number){&import.dt, 1e-4, 1e3}, 0, 0, 0},
        {"gap", HB_OPTION_NUMBER, &(hb_option_number){&import.gap, 1e-3, 1e6}, 0, 0, 0},
        {"min-rate", HB_OPTION_NUMBER, &(hb_option_number){&min_rate, 0, 1e6}, 0, 0, 0},
        {"min-length", HB_OPTION_NUMBER, &(hb_option_number){&import.min_length, 1e-3, 1e6}, 0, 0, 0},
        {"one-function", HB_OPTION_FLAG, &import.one_function, 0, 0, 0},
        {"settle", HB_OPTION_NUMBER, &(hb_option_number){&settle, 0, 1e6}, 0, 0, 0},
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
    if ((code = hb_train_keep_existing(output, force)) >= 0)
        return code;
    import.nfiles = argc - optind;
    import.file = (const char *const *)argv + optind;
    if (map)
        return import_logs(map, import.nfiles, import.file, import.dt, output);
    int recordings = count_recordings(import.nfiles, import.file);
    if (recordings && recordings < import.nfiles) {
        fprintf(stderr, "hilbert-train: recordings and flight logs do not go into one data set: their states differ\n");
        return HB_EXIT_USAGE;
    }
#ifdef HB_RECORDINGS
    if (recordings)
        return import_recordings(&(hb_recording_import){.nfiles = import.nfiles,
                                                        .file = import.file,
                                                        .dt = import.dt,
                                                        .gap = import.gap,
                                                        .min_length = import.min_length,
                                                        .settle = settle,
                                                        .one_function = import.one_function},
                                 output);
#endif
    return import_files(&import, output);
}
