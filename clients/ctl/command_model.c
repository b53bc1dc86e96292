/* hilbertctl model FILE: what a basis file holds. */
#include <inttypes.h>
#include <limits.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "ctl/options.h"
#include "model/words.h"
#include "model/physics.h"

/* --- for people --- */

static void print_widths(const hb_mlp *mlp)
{
    for (int i = 0; i <= mlp->nlayers; i++)
        printf("%s%d", i ? "-" : "", mlp->width[i]);
}

static void print_networks(const hb_model *m)
{
    printf("  %-14s %s", "architecture", hb_architecture_name[m->architecture]);
    if (m->basis.nlayers) {
        printf(m->architecture == HB_SHARED ? ": one network " : ": each function ");
        print_widths(&m->basis);
        printf(", %s", hb_activation_name[m->activation]);
    }
    printf("\n  %-14s %d function%s\n", "basis", m->nb, m->nb == 1 ? "" : "s");
    printf("  %-14s %s", "average", hb_average_name[m->average]);
    if (m->average == HB_AVERAGE_NETWORK) {
        printf(" ");
        print_widths(&m->average_network);
        printf(", %s", hb_activation_name[m->activation]);
    }
    if (m->nominal) {
        printf(": %s", m->nominal->name);
        for (int i = 0; i < m->nominal->nparameters; i++)
            printf(", %s %g", m->nominal->parameter_name[i], m->nominal_parameter[i]);
        /* a line each, below the other lines' values */
        for (const char *line = m->nominal->physics ? hb_physics_text(m->nominal->physics) : "", *end; *line;
             line = end + (*end != 0)) {
            end = line + strcspn(line, "\n");
            printf("\n  %-14s %.*s", "", (int)(end - line), line);
        }
    }
    printf("\n  %-14s %zu\n", "parameters", m->nparameters);
}

static void print_use(const hb_model *m)
{
    printf("  %-14s ", "coefficients");
    if (m->shape == HB_PER_STATE)
        printf("%d x %d, one per function and state", m->nb, m->nx);
    else
        printf("%d, one per function", m->nb);
    if (m->method == HB_LEAST_SQUARES)
        printf("; trained with least_squares, ridge %g\n", m->ridge);
    else
        printf("; trained with inner_product, volume %g\n", m->volume);

    printf("  %-14s %s", "integration", hb_integration_name[m->integration]);
    if (m->integration != HB_DIRECT)
        printf(", %d RK4 step%s", m->substeps, m->substeps == 1 ? "" : "s");
    printf("%s period of %g s\n", m->integration == HB_DIRECT ? ", one" : " per", m->dt);
}

static bool is_input(const hb_model *m, int state)
{
    for (int i = 0; i < m->ninputs; i++)
        if (m->input[i] == state)
            return true;
    return false;
}

/* Columns that UTF-8 text takes in a terminal: bytes but those that continue a character. */
static int columns(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

static void print_padded(const char *text, int width)
{
    printf("  %s%*s", text, width - columns(text), "");
}

/* Name and unit of number i, or their headings (i < 0), in columns wide enough for all. */
static void print_name(char (*name)[HB_NAME_SIZE], char (*unit)[HB_NAME_SIZE], int n, int i)
{
    int name_width = 4, unit_width = 4;

    for (int k = 0; k < n; k++) {
        name_width = columns(name[k]) > name_width ? columns(name[k]) : name_width;
        unit_width = columns(unit[k]) > unit_width ? columns(unit[k]) : unit_width;
    }
    printf("  ");
    print_padded(i < 0 ? "name" : name[i], name_width);
    print_padded(i < 0 ? "unit" : unit[i], unit_width);
}

static void print_states(const hb_model *m)
{
    printf("  states (%d)\n", m->nx);
    for (int i = -1; i < m->nx; i++) {
        print_name(m->state_name, m->state_unit, m->nx, i);
        if (i < 0)
            printf("  %12s %12s  %-18s  %s\n", "mean", "std", "feeds the networks", "basis acts on it");
        else
            printf("  %12.6g %12.6g  %-18s  %s%s\n", m->state_mean[i], m->state_std[i], is_input(m, i) ? "yes" : "no",
                   m->nb > 0 && m->output[i] ? "yes" : "no", m->angle[i] ? "  angle" : "");
    }
}

static void print_controls(const hb_model *m)
{
    printf("  controls (%d)\n", m->nu);
    for (int i = -1; i < m->nu && m->nu; i++) {
        print_name(m->control_name, m->control_unit, m->nu, i);
        if (i < 0)
            printf("  %12s %12s %12s %12s %12s\n", "mean", "std", "min", "trim", "max");
        else
            printf("  %12.6g %12.6g %12.6g %12.6g %12.6g\n", m->control_mean[i], m->control_std[i], m->control_min[i],
                   m->control_trim[i], m->control_max[i]);
    }
}

static bool has_actuators(const hb_model *m)
{
    for (int i = 0; i < m->nu; i++)
        if (m->actuator_delay[i] != 0 || m->actuator_lag[i] != 0 || m->actuator_rate[i] != 0)
            return true;
    return false;
}

static void print_actuators(const hb_model *m)
{
    if (!has_actuators(m)) {
        printf("  %-14s %s\n", "actuators", "ideal: a command acts at once");
        return;
    }
    printf("  actuators\n");
    for (int i = -1; i < m->nu; i++) {
        print_name(m->control_name, m->control_unit, m->nu, i);
        if (i < 0)
            printf("  %12s %12s %12s\n", "delay [s]", "lag [s]", "rate [1/s]");
        else
            printf("  %12.6g %12.6g %12.6g\n", m->actuator_delay[i], m->actuator_lag[i], m->actuator_rate[i]);
    }
}

/* Place of the variance of coefficient i of problem p (0, or a state) in the prior's covariance. */
static double prior_std(const hb_model *m, int p, int i)
{
    size_t nb = (size_t)m->nb, at = ((size_t)p * nb + (size_t)i) * nb + (size_t)i;

    return sqrt(fmax(m->prior_covariance[at], 0));
}

static void print_prior(const hb_model *m)
{
    if (!m->has_prior) {
        printf("  %-14s none: coefficients are fitted with the ridge alone\n", "prior");
        return;
    }
    printf("  prior\n");
    for (int i = 0; i < m->nb && m->shape == HB_VECTOR; i++)
        printf("    %-12d %12.6g +- %.6g\n", i, m->prior_mean[i], prior_std(m, 0, i));
    for (int p = 0; p < m->nx && m->shape == HB_PER_STATE; p++) {
        double variance = 0, square = 0;
        for (int i = 0; i < m->nb; i++) {
            square += m->prior_mean[i * m->nx + p] * m->prior_mean[i * m->nx + p] / m->nb;
            variance += prior_std(m, p, i) * prior_std(m, p, i) / m->nb;
        }
        printf("    %-12s %d coefficients, mean of size %.6g, standard deviation %.6g\n", m->state_name[p], m->nb,
               sqrt(square), sqrt(variance));
    }
    printf("  noise of a step, normalised\n");
    for (int i = 0; i < m->nx; i++)
        printf("    %-12s %12.6g\n", m->state_name[i], m->noise[i]);
}

/* What the mean vehicle of the population is like, in words, and how well coefficients tell it. */
static void print_words(const hb_model *m)
{
    hb_real *mean = calloc((size_t)hb_model_ncoefficients(m) + 1, sizeof *mean);
    hb_word usual[HB_MAX_WORDS], known[HB_MAX_WORDS];
    char text[HB_WORD_TEXT];

    if (!m->nwords || !mean) {
        free(mean);
        return;
    }
    for (int i = 0; m->has_prior && i < hb_model_ncoefficients(m); i++)
        mean[i] = (hb_real)m->prior_mean[i];
    hb_words_read(m, mean, m->prior_covariance, NULL, usual);
    hb_words_read(m, mean, NULL, NULL, known);
    printf("  words (%d)\n", m->nwords);
    for (int i = 0; i < m->nwords; i++)
        printf("    %-16s population %s %s; coefficients tell it to +- %.2g\n", m->word_name[i],
               hb_word_text(usual[i], text), m->word_unit[i], known[i].deviation);
    free(mean);
}

static json_t *words(const hb_model *m)
{
    json_t *list = json_array();

    for (int i = 0; i < m->nwords; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:f}", "name", m->word_name[i], "unit", m->word_unit[i],
                                              "form", hb_word_form_name[m->word_form[i]], "error", m->word_error[i]));
    return list;
}

static void print_notes(const char *notes)
{
    if (!*notes)
        return;
    printf("  notes\n");
    for (const char *line = notes; *line;) {
        int length = (int)strcspn(line, "\n");
        printf("    %.*s\n", length, line);
        line += length + (line[length] == '\n');
    }
}

static void print_text(const hb_model *m, const char *path)
{
    printf("%s\n  %-14s %016" PRIx64 "\n", path, "hash", m->hash);
    print_networks(m);
    print_use(m);
    print_states(m);
    print_controls(m);
    print_actuators(m);
    print_prior(m);
    print_words(m);
    print_notes(m->notes);
}

/* --- for programs --- */

static json_t *widths(const hb_mlp *mlp)
{
    json_t *list = json_array();

    for (int i = 0; mlp->nlayers && i <= mlp->nlayers; i++)
        json_array_append_new(list, json_integer(mlp->width[i]));
    return list;
}

static json_t *states(const hb_model *m)
{
    json_t *list = json_array();

    for (int i = 0; i < m->nx; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:b, s:b}", "name", m->state_name[i], "unit",
                                              m->state_unit[i], "mean", m->state_mean[i], "std", m->state_std[i],
                                              "input", is_input(m, i), "angle", m->angle[i]));
    return list;
}

static json_t *controls(const hb_model *m)
{
    json_t *list = json_array();

    for (int i = 0; i < m->nu; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "name", m->control_name[i], "unit",
                            m->control_unit[i], "mean", m->control_mean[i], "std", m->control_std[i], "min",
                            m->control_min[i], "max", m->control_max[i], "trim", m->control_trim[i], "delay",
                            m->actuator_delay[i], "lag", m->actuator_lag[i], "rate", m->actuator_rate[i]));
    return list;
}

static json_t *nominal(const hb_model *m)
{
    if (!m->nominal)
        return json_null();
    json_t *parameters = json_object();
    for (int i = 0; i < m->nominal->nparameters; i++)
        json_object_set_new(parameters, m->nominal->parameter_name[i], json_real(m->nominal_parameter[i]));
    json_t *object = json_pack("{s:s, s:o}", "name", m->nominal->name, "parameters", parameters);
    if (m->nominal->physics)
        json_object_set_new(object, "expressions", json_string(hb_physics_text(m->nominal->physics)));
    return object;
}

static json_t *prior(const hb_model *m)
{
    size_t nb = (size_t)m->nb;

    if (!m->has_prior)
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "mean", hb_json_numbers(m->prior_mean, (size_t)hb_model_ncoefficients(m)),
                     "covariance", hb_json_numbers(m->prior_covariance, (size_t)hb_model_nproblems(m) * nb * nb),
                     "noise", hb_json_numbers(m->noise, (size_t)m->nx));
}

static bool print_json(const hb_model *m, const char *path)
{
    char hash[17];

    snprintf(hash, sizeof hash, "%016" PRIx64, m->hash);
    json_t *all =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:f, s:f, s:f, s:I, s:o, s:o, s:o, "
                  "s:o, s:o, s:o, s:o, s:s}",
                  "file", path, "hash", hash, "nx", m->nx, "nu", m->nu, "nb", m->nb, "architecture",
                  hb_architecture_name[m->architecture], "activation", hb_activation_name[m->activation], "average",
                  hb_average_name[m->average], "integration", hb_integration_name[m->integration], "substeps",
                  m->substeps, "method", hb_method_name[m->method], "shape", hb_shape_name[m->shape], "ridge", m->ridge,
                  "volume", m->volume, "dt", m->dt, "parameters", (json_int_t)m->nparameters, "basis_widths",
                  widths(&m->basis), "average_widths", widths(&m->average_network), "nominal", nominal(m), "states",
                  states(m), "controls", controls(m), "prior", prior(m), "words", words(m), "notes", m->notes);
    bool good = all && json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(16)) == 0;

    printf("\n");
    json_decref(all);
    return good;
}

static int run(const ctl_command *self, int argc, char **argv)
{
    bool json = false;
    const ctl_option options[] = {{'j', "json", CTL_FLAG, &json, 0, 0}, {0}};
    hb_model *m = NULL;
    hb_error err;
    int status = ctl_read_options(self, argc, argv, options, INT_MAX);

    if (status)
        return status;
    if (argc - optind != 1)
        return ctl_usage_error(self, "%d files given, expected one", argc - optind);

    const char *path = argv[optind];
    if (hb_model_load(&m, path, &err))
        return ctl_failure(self, "%s", err.text);
    if (!json)
        print_text(m, path);
    else if (!print_json(m, path))
        status = ctl_failure(self, "%s: cannot be shown as JSON: is the path UTF-8?", path);
    hb_model_free(m);
    return status;
}

const ctl_command ctl_command_model = {
    .name = "model",
    .arguments = "[--json] FILE",
    .summary = "what a basis file holds",
    .help =
        "Checks a basis file (.safetensors) as hilbertd does when it loads it, and prints its sizes, architecture,\n"
        "states and controls with units and normalisation, control bounds, actuators,\n"
        "the prior of the coefficients, words for what they mean, and notes.\n"
        "\n"
        "  -j, --json  print one JSON object\n"
        "  -h, --help  this text\n",
    .run = run,
};
