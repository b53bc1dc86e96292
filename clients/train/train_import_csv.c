/* hilbert-train import-csv: logs to a data set. */
#include <errno.h>
#include <getopt.h>
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
        "  --controls LIST      columns of the controls, likewise\n"
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
        "  --plant NAME         what was logged\n");
}

static int read_double(const char *name, const char *text, double *ret)
{
    char *end;
    *ret = strtod(text, &end);
    if (end != text && !*end && isfinite(*ret) && *ret > 0)
        return 0;
    fprintf(stderr, "hilbert-train: --%s: '%s' is not a number above 0\n", name, text);
    return -1;
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

/* What is in the file now, and what nobody said. */
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
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"states", required_argument, NULL, 's'},
                                            {"controls", required_argument, NULL, 'c'},
                                            {"bounds", required_argument, NULL, 'b'},
                                            {"trim", required_argument, NULL, 'r'},
                                            {"time", required_argument, NULL, 't'},
                                            {"time-scale", required_argument, NULL, 'T'},
                                            {"dt", required_argument, NULL, 'd'},
                                            {"gap", required_argument, NULL, 'g'},
                                            {"functions", required_argument, NULL, 'f'},
                                            {"one-function", no_argument, NULL, '1'},
                                            {"plant", required_argument, NULL, 'p'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    hb_csv_import import = {0};
    const char *output = NULL, *which = "file";
    int bad = 0;

    for (int c; (c = getopt_long(argc, argv, "ho:", options, NULL)) != -1;)
        switch (c) {
        case 'o':
            output = optarg;
            break;
        case 's':
            import.states = optarg;
            break;
        case 'c':
            import.controls = optarg;
            break;
        case 'b':
            import.bounds = optarg;
            break;
        case 'r':
            import.trim = optarg;
            break;
        case 't':
            import.time = optarg;
            break;
        case 'T':
            bad |= read_double("time-scale", optarg, &import.time_scale);
            break;
        case 'd':
            bad |= read_double("dt", optarg, &import.dt);
            break;
        case 'g':
            bad |= read_double("gap", optarg, &import.gap);
            break;
        case 'f':
            which = optarg;
            break;
        case '1':
            which = "one";
            break;
        case 'p':
            import.plant = optarg;
            break;
        case 'h':
            print_help();
            return HB_EXIT_OK;
        default:
            return HB_EXIT_USAGE;
        }
    if (strcmp(which, "file") != 0 && strcmp(which, "folder") != 0 && strcmp(which, "one") != 0) {
        fprintf(stderr, "hilbert-train: --functions: '%s' is not one of file, folder, one\n", which);
        return HB_EXIT_USAGE;
    }
    if (bad)
        return HB_EXIT_USAGE;
    if (!output || !import.states || optind == argc) {
        fprintf(stderr, "hilbert-train: import-csv wants --output, --states and CSV files (try --help)\n");
        return HB_EXIT_USAGE;
    }
    import.nfiles = argc - optind;
    import.file = (const char *const *)argv + optind;
    return import_files(&import, which, output);
}
