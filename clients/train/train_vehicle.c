/* hilbert-train vehicle: the model of another vehicle, whose mass or other nominal parameters are known. */
#include "train/train.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_help(void)
{
    printf(
        "usage: hilbert-train vehicle MODEL PARAMETER=VALUE... --output FILE [--force]\n\n"
        "Writes the model with other parameters of its nominal average: those of the vehicle that it is to fly. What\n"
        "it learned stays. With another mass, parameters that grow with it (inertia) do so unless they are given,\n"
        "and controls that are forces have their bounds, trim and normalisation in proportion.\n"
        "'hilbertctl model MODEL' lists the parameters, --average nominal:NAME:help says what they mean.\n");
}

/* NAME=VALUE */
static int read_parameter(const hb_model *m, const char *text, double *known, hb_error *err)
{
    char name[HB_NAME_SIZE], list[HB_NOMINAL_PARAMETERS * HB_NAME_SIZE] = "", *end;
    size_t length = strcspn(text, "=");

    for (int i = 0; i < m->nominal->nparameters; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", m->nominal->parameter_name[i]);
    snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : 0, text);
    int found = hb_nominal_parameter(m->nominal, name);
    if (found < 0)
        return hb_fail(err, EINVAL, "'%s': the model's physics has no parameter '%.*s', only: %s", text, (int)length,
                       text, list);
    double value = text[length] ? strtod(text + length + 1, &end) : NAN;
    if (!text[length] || end == text + length + 1 || *end || !isfinite(value))
        return hb_fail(err, EINVAL, "'%s' is not %s=NUMBER", text, name);
    known[found] = value;
    return 0;
}

static int write_vehicle(const char *path, int n, char **parameter, const char *output, hb_error *err)
{
    double known[HB_NOMINAL_PARAMETERS];
    char list[500] = "", *notes = NULL;
    hb_model *from = NULL, *m = NULL;
    int status = hb_model_load(&from, path, err);

    for (int i = 0; i < HB_NOMINAL_PARAMETERS; i++)
        known[i] = NAN;
    if (!status && from->average != HB_AVERAGE_NOMINAL)
        status = hb_fail(err, EINVAL, "%s: its average is %s: a vehicle's parameters go with a nominal one", path,
                         hb_average_name[from->average]);
    for (int i = 0; i < n && !status; i++) {
        status = read_parameter(from, parameter[i], known, err);
        snprintf(list + strlen(list), sizeof list - strlen(list), " %s", parameter[i]);
    }
    if (!status && asprintf(&notes, "%s# vehicle:%s\n", from->notes, list) < 0) {
        notes = NULL;
        status = hb_fail(err, ENOMEM, "out of memory");
    }
    if (!status && !(status = hb_model_copy(&m, from, from->has_prior, notes, err)) &&
        !(status = hb_model_set_vehicle(m, known, err)))
        status = hb_model_save(m, output, err);
    free(notes);
    hb_model_free(m);
    hb_model_free(from);
    return status;
}

int hb_train_vehicle(int argc, char **argv)
{
    const char *output = NULL;
    bool force = false;
    const hb_option options[] = {{"output", HB_OPTION_TEXT, &output, 0, 0, 'o'},
                                 {"force", HB_OPTION_FLAG, &force, 0, 0, 0}};
    hb_error err = {0};
    int code = hb_options_command("hilbert-train", options, sizeof options / sizeof *options, argc, argv, print_help);

    if (code >= 0)
        return code;
    if (argc - optind < 2 || !output) {
        fprintf(stderr, "hilbert-train: vehicle wants a model, parameters and --output (try --help)\n");
        return HB_EXIT_USAGE;
    }
    if ((code = hb_train_keep_existing(output, force)) >= 0)
        return code;
    return write_vehicle(argv[optind], argc - optind - 1, argv + optind + 1, output, &err)
               ? hb_train_complain(HB_EXIT_FAILURE, &err)
               : HB_EXIT_OK;
}
