/* hilbertctl coefficients: show the coefficients of a daemon, save them, or load them into another one. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/json.h"
#include "ctl/connection.h"

/* The daemon's coefficients, to be freed as a reply; NULL after a message. */
static Hilbert__V1__ControlReply *ask(ctl_connection *c, const ctl_command *self)
{
    return ctl_ask_for(c, self, HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_COEFFICIENTS,
                       HILBERT__V1__CONTROL_REPLY__RESULT_COEFFICIENTS);
}

static json_t *to_json(const Hilbert__V1__Coefficients *m)
{
    char hash[17];

    snprintf(hash, sizeof hash, "%016" PRIx64, m->model_hash);
    return json_pack("{s:s, s:I, s:o, s:o, s:o}", "model_hash", hash, "version", (json_int_t)m->version, "value",
                     hb_json_numbers(m->value, m->n_value), "variance", hb_json_numbers(m->variance, m->n_variance),
                     "covariance", hb_json_numbers(m->covariance, m->n_covariance));
}

/* A line for each: its mean, and its standard deviation where there is one. */
static void print_text(const Hilbert__V1__Coefficients *m)
{
    for (size_t i = 0; i < m->n_value; i++) {
        printf("c%-4zu %12.6g", i, m->value[i]);
        if (i < m->n_variance)
            printf(" +- %.3g", sqrt(m->variance[i]));
        putchar('\n');
    }
}

static int show(ctl_connection *c, const ctl_command *self, bool json)
{
    Hilbert__V1__ControlReply *reply = ask(c, self);

    if (!reply)
        return CTL_FAILURE;
    if (json) {
        json_t *all = to_json(reply->coefficients);
        json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
        putchar('\n');
        json_decref(all);
    } else {
        print_text(reply->coefficients);
    }
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    return CTL_OK;
}

static int save(ctl_connection *c, const ctl_command *self, const char *path)
{
    int result = CTL_FAILURE;
    Hilbert__V1__ControlReply *reply = ask(c, self);

    if (reply) {
        const Hilbert__V1__Coefficients *m = reply->coefficients;
        json_t *all = to_json(m);
        if (all && json_dump_file(all, path, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) == 0)
            result = printf("%s: %zu coefficients\n", path, m->n_value) < 0 ? CTL_FAILURE : CTL_OK;
        else
            ctl_failure(self, "%s: cannot be written: %s", path, strerror(errno));
        json_decref(all);
    }
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    return result;
}

static int load(ctl_connection *c, const ctl_command *self, const char *path)
{
    Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
    Hilbert__V1__Coefficients m = HILBERT__V1__COEFFICIENTS__INIT;
    Hilbert__V1__ControlReply *reply = NULL;
    json_error_t err;
    json_t *all = json_load_file(path, 0, &err), *value = NULL;
    const char *hash = NULL;

    if (!all)
        return ctl_failure(self, "%s:%d:%d: %s", path, err.line, err.column, err.text);
    if (json_unpack_ex(all, &err, 0, "{s:s, s:o}", "model_hash", &hash, "value", &value) || !json_is_array(value)) {
        ctl_failure(self, "%s: not coefficients as hilbertctl coefficients save writes them", path);
    } else {
        m.model_hash = strtoull(hash, NULL, 16);
        m.n_value = json_array_size(value);
        m.value = calloc(m.n_value + 1, sizeof *m.value);
        for (size_t i = 0; m.value && i < m.n_value; i++)
            m.value[i] = json_number_value(json_array_get(value, i));
        request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_SET_COEFFICIENTS;
        request.set_coefficients = &m;
        reply = m.value ? ctl_ask(c, self, &request) : NULL;
        if (reply)
            printf("%s: %zu coefficients are in use until the window is warm\n", path, m.n_value);
        free(m.value);
    }
    json_decref(all);
    int result = reply ? CTL_OK : CTL_FAILURE;
    hilbert__v1__control_reply__free_unpacked(reply, NULL);
    return result;
}

static int run(const ctl_command *self, int argc, char **argv)
{
    bool json = false;
    const ctl_option own[] = {{'j', "json", CTL_FLAG, &json, 0, 0}, {0}};
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, own, 2);

    if (result)
        return result;
    const char *verb = argc > optind ? argv[optind] : "";
    if (!strcmp(verb, "show") && argc - optind == 1)
        result = show(&c, self, json);
    else if (!strcmp(verb, "save") && argc - optind == 2)
        result = save(&c, self, argv[optind + 1]);
    else if (!strcmp(verb, "load") && argc - optind == 2)
        result = load(&c, self, argv[optind + 1]);
    else
        return ctl_usage_error(self, "show, save FILE or load FILE is expected");
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_coefficients = {
    .name = "coefficients",
    .arguments = "[OPTIONS] show | save FILE | load FILE",
    .summary = "show, save or load the coefficients",
    .help =
        "show prints the mean of each coefficient and its standard deviation; save writes them with their covariance\n"
        "and the hash of their model as JSON; load has a daemon with the same model use them until its own window\n"
        "is warm.\n"
        "\n"
        "  -j, --json             show: as save writes it, for programs\n" CTL_CONNECTION_HELP,
    .run = run,
};
