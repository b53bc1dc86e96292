/* hilbert-train: from trajectories to a basis file. */
#include "train/train.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/options.h"
#include "data/dataset.h"
#include "base/numeric.h"
#include "train/ranks_mpi.h"
#include "train/recipe.h"
#include "train/run.h"
#include "train/step_seconds.h"
#include "train/untrained_model.h"

static volatile sig_atomic_t stop; /* set by signals, read between gradient steps */

static void ask_to_stop(int signal_number)
{
    (void)signal_number;
    stop = 1;
}

int hb_train_complain(int exit_code, const hb_error *err)
{
    fprintf(stderr, "hilbert-train: %s\n", err->text);
    return exit_code;
}

int hb_train_keep_existing(const char *output, bool force)
{
    if (force || access(output, F_OK) != 0)
        return -1;
    fprintf(stderr, "hilbert-train: %s exists: name another --output, or add --force to replace it\n", output);
    return HB_EXIT_FAILURE;
}

int hb_train_input_read(hb_train_input *i, const char *command, const hb_option *more, int nmore, int argc, char **argv,
                        void (*print_help)(void))
{
    hb_option known[16] = {
        HB_TRAIN_INPUT_OPTIONS(i),
        {"seed", HB_OPTION_COUNT, &i->seed, 0, INT64_MAX, 0},
        {"threads", HB_OPTION_WHOLE, &i->threads, 0, 1024, 0},
    };
    int n = 0;

    while (known[n].name)
        n++;
    for (int k = 0; k < nmore; k++)
        known[n++] = more[k];
    int code = hb_options_command("hilbert-train", known, n, argc, argv, print_help);
    if (code >= 0)
        return code;
    if (optind + 1 != argc || !i->data_path || !i->output) {
        fprintf(stderr, "hilbert-train: %s wants one model, --data and --output (try --help)\n", command);
        return HB_EXIT_USAGE;
    }
    i->model_path = argv[optind];
    return hb_train_keep_existing(i->output, i->force || strcmp(i->output, i->model_path) == 0);
}

/* the notes stay what they were, settings in YAML, to which this is a comment */
char *hb_train_input_notes(const hb_train_input *i, const char *what)
{
    const char *before = i->model->notes;
    char *notes = NULL;
    size_t length = strlen(before);
    const char *newline = length && before[length - 1] != '\n' ? "\n" : "";

    if (asprintf(&notes, "%s%s# %s: %s, %d functions, hash %016" PRIx64 ", %d examples each, seed %" PRIu64 "\n",
                 before, newline, what, i->data_path, i->data->nfunctions, i->data->hash, i->examples, i->seed) < 0)
        return NULL;
    return notes;
}

int hb_train_input_open(hb_train_input *i, hb_error *err)
{
    int status = hb_model_load(&i->model, i->model_path, err);
    hb_settings made;

    if (!status)
        status = hb_dataset_read_many(&i->data, i->data_path, &i->mapping, err);
    /* a model for any heading is fitted at any */
    if (!status)
        i->data->any_heading = hb_settings_of_notes(&made, i->model->notes) && made.headings == HB_HEADINGS_ANY;
    if (!status)
        status = hb_pool_new(&i->pool, i->threads ? i->threads : (int)sysconf(_SC_NPROCESSORS_ONLN), NULL, NULL, err);
    return status;
}

void hb_train_input_close(hb_train_input *i)
{
    hb_pool_free(i->pool);
    hb_dataset_free(i->data);
    hb_model_free(i->model);
}

int hb_train_read_map(void *mapping, const char *text, hb_error *err)
{
    return hb_run_mapping(text, mapping, err);
}

static void print_help(void)
{
    printf(
        "usage: hilbert-train --data FILE [--config FILE.yaml] [options]   train a basis file\n"
        "       hilbert-train --resume CHECKPOINT [run options]            continue a run that was interrupted\n"
        "       hilbert-train data FILE [--map key=value]                  describe a data set\n"
        "       hilbert-train import --output FILE FLIGHT.ulg...           make one from PX4's and ArduPilot's logs\n"
        "       hilbert-train describe [--mass X] LOG.csv...               guess what CSV logs hold, as a "
        "description\n"
        "       hilbert-train import --map LOG.yaml --output FILE LOG.csv.gz... make a data set by that description\n"
        "       hilbert-train import-csv --output FILE ... LOG.csv...      make one from CSV logs\n"
        "       hilbert-train constants MODEL --states LIST --data FILE    a model whose basis functions are "
        "constants\n"
        "       hilbert-train prior MODEL --data FILE --output FILE        add the prior of its coefficients\n"
        "       hilbert-train words MODEL --data FILE --output FILE        add words for what its coefficients mean\n"
        "       hilbert-train prune MODEL --data FILE --nb N               cut a basis to its principal part\n"
        "       hilbert-train identify DATA --average PHYSICS              parameters, delay and lag of its vehicles\n"
        "       hilbert-train vehicle MODEL mass=VALUE --output FILE       the model of another vehicle\n"
        "       hilbert-train COMMAND --help, --help, --version\n"
        "\n"
        "Options may also stand in a YAML file, as 'name: value'. Later ones win.\n");
    hb_settings_help(stdout);
    printf(
        "\n  --force                     replace the basis file that --output names, and what an interrupted run "
        "left;\n"
        "                              else they are left alone\n"
        "  --cpu-seconds N             instead of --steps: as many as take so much processor time on this machine\n");
    printf("\n%s", hb_recipe_help);
    printf("\nExit codes: 0 done, 1 failure or interrupted, 2 usage.\n");
}

/* --- train --- */

static void print_summary(const hb_settings *s, const hb_run_result *r)
{
    fprintf(stderr, "%s: %" PRIu64 " steps in %.1f s (%.3g steps/s), peak memory %.0f MB\n", s->output, r->steps,
            r->seconds, r->steps_per_second, (double)r->peak_memory / 1e6);
    if (isfinite(r->validation.one_step))
        fprintf(stderr, "validation, median over functions: 1-step error %.3e, %d-step %.3e; with c = 0: %.3e, %.3e\n",
                r->validation.one_step, r->validation.steps, r->validation.ten_step, r->without.one_step,
                r->without.ten_step);
    if (r->flat)
        fprintf(stderr, "ended early: %d validations in a row were not better\n", s->patience);
    else if (r->validation.ten_step < 0.97 * r->recent)
        fprintf(
            stderr,
            "warning: validation was still getting better (%.3e a tenth of the run before the end): more steps will "
            "help\n",
            r->recent);
    if (isfinite(r->with_prior.one_step))
        fprintf(stderr, "with the prior, as it is in the file: 1-step error %.3e, %d-step %.3e\n",
                r->with_prior.one_step, r->with_prior.steps, r->with_prior.ten_step);
    hb_verdict_print(&r->verdict, stderr);
}

static int run_with(const hb_settings *s, const hb_checkpoint *resume, bool force, const hb_ranks *ranks)
{
    hb_run_options options = {.resume = resume,
                              .force = force && hb_ranks_first(ranks),
                              .verdict = true,
                              .stop = &stop,
                              .ranks = ranks,
                              .quiet = !hb_ranks_first(ranks)};
    hb_run_result result;
    hb_error err = {0};
    char path[HB_PATH_SIZE];

    if (hb_run(s, &options, &result, &err))
        return hb_train_complain(HB_EXIT_FAILURE, &err);
    if (result.died)
        hb_train_complain(HB_EXIT_FAILURE, &result.why);
    else if (!hb_ranks_first(ranks))
        return HB_EXIT_OK;
    if (result.died || result.stopped) {
        hb_run_checkpoint_path(s, path);
        fprintf(stderr, "hilbert-train: stopped after step %" PRIu64 "; continue with: hilbert-train --resume '%s'\n",
                result.steps, path);
        /* those that were asked to stop end together */
        return result.died || !ranks ? HB_EXIT_FAILURE : HB_EXIT_OK;
    }
    print_summary(s, &result);
    if (ranks)
        fprintf(stderr, "%d ranks, %.3g MB per step to and from the first\n", ranks->size,
                1e-6 * hb_ranks_mpi_bytes(ranks) / (double)(result.steps ? result.steps : 1));
    return HB_EXIT_OK;
}

/* chooses the steps, for one process: ranks would not agree on them */
static int fit_into(hb_settings *s, double cpu_seconds, const hb_ranks *ranks)
{
    hb_error err = {0};

    if (ranks) {
        hb_fail(&err, EINVAL, "--cpu-seconds: for one process: tell several ranks --steps");
        return hb_train_complain(HB_EXIT_USAGE, &err);
    }
    if (hb_step_seconds_fit(s, cpu_seconds, &stop, &err))
        return hb_train_complain(HB_EXIT_FAILURE, &err);
    fprintf(stderr, "%g s of processor time: --steps %" PRIu64 "\n", cpu_seconds, s->steps);
    return HB_EXIT_OK;
}

/* cpu_seconds: 0, or what the steps are to take */
static int run(hb_settings *s, const hb_checkpoint *resume, bool force, double cpu_seconds)
{
    struct sigaction action = {.sa_handler = ask_to_stop};
    hb_ranks *ranks = NULL;
    hb_error err = {0};

    if (hb_ranks_mpi_start(&ranks, &stop, &err))
        return hb_train_complain(HB_EXIT_FAILURE, &err);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int code = resume || !hb_recipe_apply(s, hb_ranks_first(ranks) ? stderr : NULL, &stop, &err)
                   ? HB_EXIT_OK
                   : hb_train_complain(HB_EXIT_FAILURE, &err);
    if (code == HB_EXIT_OK && cpu_seconds > 0)
        code = fit_into(s, cpu_seconds, ranks);
    if (code == HB_EXIT_OK)
        code = run_with(s, resume, force, ranks);
    hb_ranks_mpi_end(ranks, code);
    return code;
}

/* the options after --resume may change how the run is made, not its result */
static int resume(const char *path, int argc, char **argv)
{
    hb_checkpoint *c = NULL;
    hb_settings before, after;
    hb_error err = {0};
    int next = 0, code;

    if (hb_checkpoint_load(&c, path, &err))
        return hb_train_complain(HB_EXIT_FAILURE, &err);
    hb_settings_default(&before);
    if (hb_settings_parse(&before, hb_checkpoint_settings(c), path, &err)) {
        code = hb_train_complain(HB_EXIT_FAILURE, &err);
    } else {
        after = before;
        if (hb_settings_arguments(&after, argc, argv, &next, &err) ||
            (next < argc && hb_fail(&err, EINVAL, "'%s' is not an option (try --help)", argv[next])) ||
            hb_settings_same_result(&before, &after, &err))
            code = hb_train_complain(HB_EXIT_USAGE, &err);
        else
            code = run(&after, c, false, 0);
    }
    hb_checkpoint_free(c);
    return code;
}

/* nominal:NAME:help, or nominal:help for all: what the parameters are. Returns whether that was asked for. */
static bool explain_nominal(const char *average)
{
    static const char prefix[] = "nominal:", suffix[] = "help";
    size_t length = strlen(average), skip = sizeof prefix - 1, end = sizeof suffix - 1;
    char name[HB_NAME_SIZE] = "";
    bool any = false;

    if (strncmp(average, prefix, skip) || length < skip + end || strcmp(average + length - end, suffix))
        return false;
    if (length > skip + end)
        snprintf(name, sizeof name, "%.*s", (int)(length - skip - end - 1), average + skip);
    for (int k = 0; hb_nominal_at(k); k++) {
        const hb_nominal *n = hb_nominal_at(k);
        if (*name && strcmp(name, n->name) != 0)
            continue;
        any = true;
        printf("nominal:%s, %d states, %d controls; parameters and their defaults:\n", n->name, n->nx, n->nu);
        for (int i = 0; i < n->nparameters; i++)
            printf("  %-14s %-10.4g %s\n", n->parameter_name[i], n->parameter_default[i], n->parameter_help[i]);
    }
    if (any)
        printf(
            "\nWhat a data set knows of its vehicles (vehicles: of a log's description) holds for their flights; the "
            "model's own\nvehicle is the median of them, unless parameters are given here.\n");
    return any;
}

static int train(int argc, char **argv)
{
    hb_settings s;
    hb_error err = {0};
    bool force = false;
    double cpu_seconds = 0;
    int next = 0, n = 0;

    /* these two are no settings of a run: no basis file and no checkpoint need to know them */
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--force") == 0) {
            force = true;
        } else if (strcmp(argv[i], "--cpu-seconds") == 0) {
            const char *text = i + 1 < argc ? argv[++i] : "";
            if (!hb_option_read_number(&(hb_option_number){&cpu_seconds, 1, 1e9}, text)) {
                hb_fail(&err, EINVAL, "cpu-seconds: '%s' is not a number of seconds from 1 on", text);
                return hb_train_complain(HB_EXIT_USAGE, &err);
            }
        } else {
            argv[n++] = argv[i];
        }
    argc = n;
    hb_settings_default(&s);
    if (hb_settings_arguments(&s, argc, argv, &next, &err))
        return hb_train_complain(HB_EXIT_USAGE, &err);
    if (next < argc) {
        hb_fail(&err, EINVAL, "'%s' is neither an option nor a command (try --help)", argv[next]);
        return hb_train_complain(HB_EXIT_USAGE, &err);
    }
    if (explain_nominal(s.average))
        return HB_EXIT_OK;
    int code = hb_train_keep_existing(s.output, force);
    return code >= 0 ? code : run(&s, NULL, force, cpu_seconds);
}

/* --- data --- */

static void suggest(const hb_dataset *d, FILE *out)
{
    hb_model_sizes sizes = hb_model_sizes_suggested(d);
    size_t each = d->ntransitions / (size_t)d->nfunctions;

    fprintf(out, "\nsizes of a shared model, unless told otherwise: --nb %d --hidden ", sizes.nb);
    for (int i = 0; i < sizes.hidden.n; i++)
        fprintf(out, "%s%d", i ? "," : "", sizes.hidden.width[i]);
    fprintf(out, "\n");
    if (d->nfunctions < 100)
        fprintf(out, "functions are %s (%d): 100 or more let a model adapt to those that it has not seen\n",
                d->nfunctions < 20 ? "few" : "rather few", d->nfunctions);
    if (each < 200)
        fprintf(out, "transitions of a function are few (%zu on average): 1,000 or more tell more about each\n", each);
}

static void print_data_help(void)
{
    printf("usage: hilbert-train data FILE [--map key=value;key=value]\n\n"
           "Describes a data set. --map tells how to read a file of another origin:\n%s",
           hb_dataset_map_help);
}

static int describe_data(int argc, char **argv)
{
    hb_dataset_mapping mapping = {0};
    const hb_option options[] = {{"map", HB_OPTION_CALL, &(hb_option_call){hb_train_read_map, &mapping}, 0, 0, 0}};
    hb_dataset *d = NULL;
    hb_error err = {0};
    int code = hb_options_command("hilbert-train", options, 1, argc, argv, print_data_help);

    if (code >= 0)
        return code;
    if (optind + 1 != argc) {
        fprintf(stderr, "hilbert-train: data wants one file (try --help)\n");
        return HB_EXIT_USAGE;
    }
    if (hb_dataset_read_many(&d, argv[optind], &mapping, &err))
        return hb_train_complain(HB_EXIT_FAILURE, &err);
    hb_dataset_describe(d, stdout);
    suggest(d, stdout);
    hb_dataset_free(d);
    return HB_EXIT_OK;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"data", describe_data},         {"constants", hb_train_constants},
                    {"import", hb_train_import},     {"import-csv", hb_train_import_csv},
                    {"describe", hb_train_describe}, {"prior", hb_train_prior},
                    {"words", hb_train_words},       {"prune", hb_train_prune},
                    {"vehicle", hb_train_vehicle},   {"identify", hb_train_identify}};

    hb_numeric_single_thread();
    if (argc < 2) {
        fprintf(stderr, "hilbert-train: say what to train on: --data FILE (try --help)\n");
        return HB_EXIT_USAGE;
    }
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--version") == 0 || (strcmp(argv[i], "--help") == 0 && argv[1][0] == '-')) {
            if (strcmp(argv[i], "--help") == 0)
                print_help();
            else
                printf("hilbert-train %s\n", HB_VERSION);
            return HB_EXIT_OK;
        }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (strcmp(argv[1], "--resume") == 0 && argc > 2)
        return resume(argv[2], argc - 3, argv + 3);
    return train(argc - 1, argv + 1);
}
