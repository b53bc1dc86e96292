/* hilbert-train import-csv: logs to a data set. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "train/run.h"
#include "train/train.h"

static void print_help(void)
{
    printf(
        "usage: hilbert-train import-csv --output FILE --states LIST [options] LOG.csv...\n\n"
        "Makes a data set from CSV logs: the first line names the columns, one file is one episode, and a gap in\n"
        "time cuts it in two. A row's controls are those in force from its time on.\n\n"
        "  --output FILE        the data set to write\n"
        "  --states LIST        columns of the states, comma-separated: name, name=column, name[unit]\n"
        "                       or name[unit]=column, as in 'x[m],v[m/s]=speed'\n"
        "  --controls LIST      columns of the controls, in the same form\n"
        "  --bounds LIST        what the actuators can do: MIN..MAX for all controls, or\n"
        "                       control=MIN..MAX,... [the logged range, with a warning]\n"
        "  --trim LIST          controls at rest, the daemon's safe action: NUMBER or control=NUMBER,...\n"
        "                       [the mean of the log, with a warning]\n"
        "  --time COLUMN        column of time; without it rows are --dt apart\n"
        "  --time-scale X       seconds per unit of that column, 1e-6 for microseconds [1]\n"
        "  --dt X               nominal period in seconds [median step of the first file]\n"
        "  --gap N              a step of more than N periods cuts an episode [3]\n"
        "  --functions WHICH    which files are of the same vehicle in the same condition, one function:\n"
        "                       file (each is a function of its own), folder (all in a folder are), one (all) [file]\n"
        "  --one-function       the same as --functions one\n"
        "  --plant NAME         what was logged\n"
        "  --force              replace a file that exists\n");
}

static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

/* Which function each file belongs to: the number of the first file that shares its vehicle, counted without holes. */
static int *number_functions(const char *which, int n, const char *const *file)
{
    int *function = calloc((size_t)n, sizeof *function), count = 0;

    for (int i = 0; function && i < n; i++) {
        int same = -1;
        for (int j = 0; j < i && same < 0; j++)
            if (strcmp(which, "one") == 0 ||
                (strcmp(which, "folder") == 0 && folder_length(file[i]) == folder_length(file[j]) &&
                 strncmp(file[i], file[j], folder_length(file[i])) == 0))
                same = function[j];
        function[i] = same >= 0 ? same : count++;
    }
    return function;
}

/* What is in the file now, and what was assumed. */
static int summarise(const hb_csv_import *import, const char *output, hb_error *err)
{
    hb_dataset *d = NULL;
    int status = hb_dataset_read(&d, output, NULL, err);

    if (status)
        return status;
    printf("%s: %d episodes of %d functions from %d files\n\n", output, d->nepisodes, d->nfunctions, import->nfiles);
    hb_dataset_describe(d, stdout);
    fflush(stdout);
    const hb_dataset_header *h = &d->header;
    for (int i = 0; i < h->nu; i++) {
        if (!import->bounds)
            fprintf(stderr,
                    "warning: no --bounds: what was logged of %s, %.4g..%.4g, becomes its hard limits, which no plan "
                    "will leave\n",
                    h->control_name[i], h->control_min[i], h->control_max[i]);
        if (!import->trim)
            fprintf(stderr, "warning: no --trim: the mean of %s, %.4g, becomes its safe action\n", h->control_name[i],
                    h->control_trim[i]);
    }
    hb_dataset_free(d);
    return 0;
}

static int import_files(hb_csv_import *import, const char *which, const char *output)
{
    hb_error err = {0};
    int *function = number_functions(which, import->nfiles, import->file);
    int status = 0;

    import->function = function;
    if (!function)
        status = hb_fail(&err, ENOMEM, "out of memory");
    if (!status)
        status = hb_dataset_import_csv(import, output, &err);
    if (!status)
        status = summarise(import, output, &err);
    free(function);
    return status ? hb_train_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}

int hb_train_import_csv(int argc, char **argv)
{
    hb_csv_import import = {0};
    const char *output = NULL, *which = "file";
    bool one = false, force = false;
    const hb_option options[] = {
        {"output", HB_OPTION_TEXT, &output, 0, 0, 'o'},
        {"states", HB_OPTION_TEXT, &import.states, 0, 0, 0},
        {"controls", HB_OPTION_TEXT, &import.controls, 0, 0, 0},
        {"bounds", HB_OPTION_TEXT, &import.bounds, 0, 0, 0},
        {"trim", HB_OPTION_TEXT, &import.trim, 0, 0, 0},
        {"time", HB_OPTION_TEXT, &import.time, 0, 0, 0},
        {"time-scale", HB_OPTION_NUMBER, &(hb_option_number){&import.time_scale, 1e-12, 1e9}, 0, 0, 0},
        {"dt", HB_OPTION_NUMBER, &(hb_option_number){&import.dt, 1e-9, 1e9}, 0, 0, 0},
        {"gap", HB_OPTION_NUMBER, &(hb_option_number){&import.gap, 1e-9, 1e9}, 0, 0, 0},
        {"functions", HB_OPTION_TEXT, &which, 0, 0, 0},
        {"one-function", HB_OPTION_FLAG, &one, 0, 0, 0},
        {"plant", HB_OPTION_TEXT, &import.plant, 0, 0, 0},
        {"force", HB_OPTION_FLAG, &force, 0, 0, 0},
    };

    int code = hb_options_command("hilbert-train", options, sizeof options / sizeof *options, argc, argv, print_help);
    if (code >= 0)
        return code;
    which = one ? "one" : which;
    if (strcmp(which, "file") != 0 && strcmp(which, "folder") != 0 && strcmp(which, "one") != 0) {
        fprintf(stderr, "hilbert-train: --functions: '%s' is not one of file, folder, one\n", which);
        return HB_EXIT_USAGE;
    }
    if (!output || !import.states || optind == argc) {
        fprintf(stderr, "hilbert-train: import-csv wants --output, --states and CSV files (try --help)\n");
        return HB_EXIT_USAGE;
    }
    if ((code = hb_train_keep_existing(output, force)) >= 0)
        return code;
    import.nfiles = argc - optind;
    import.file = (const char *const *)argv + optind;
    return import_files(&import, which, output);
}
