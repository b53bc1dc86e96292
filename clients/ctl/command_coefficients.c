/* hilbertctl coefficients: save the coefficients of a daemon, or load them into another one. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "ctl/connection.h"

static int save(ctl_connection *c, const ctl_command *self, const char *path)
{
    Hilbert__V1__ControlRequest request = HILBERT__V1__CONTROL_REQUEST__INIT;
    Hilbert__V1__Nothing nothing = HILBERT__V1__NOTHING__INIT;
    char hash[17];
    int result = CTL_FAILURE;

    request.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_COEFFICIENTS;
    request.get_coefficients = &nothing;
    Hilbert__V1__ControlReply *reply = ctl_ask(c, self, &request);
    if (reply && reply->result_case == HILBERT__V1__CONTROL_REPLY__RESULT_COEFFICIENTS) {
        const Hilbert__V1__Coefficients *m = reply->coefficients;
        json_t *value = json_array();
        for (size_t i = 0; i < m->n_value; i++)
            json_array_append_new(value, json_real(m->value[i]));
        snprintf(hash, sizeof hash, "%016" PRIx64, m->model_hash);
        json_t *all =
            json_pack("{s:s, s:I, s:o}", "model_hash", hash, "version", (json_int_t)m->version, "value", value);
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
    ctl_connection c;
    int result = ctl_connection_options(&c, self, argc, argv, NULL, 2);

    if (result)
        return result;
    const char *verb = argc - optind == 2 ? argv[optind] : "";
    if (strcmp(verb, "save") && strcmp(verb, "load"))
        return ctl_usage_error(self, "save FILE or load FILE is expected");
    result = *verb == 's' ? save(&c, self, argv[optind + 1]) : load(&c, self, argv[optind + 1]);
    ctl_connection_end(&c);
    return result;
}

const ctl_command ctl_command_coefficients = {
    .name = "coefficients",
    .arguments = "[OPTIONS] save FILE | load FILE",
    .summary = "save or load the coefficients",
    .help = "save writes the coefficients with the hash of their model as JSON; load has a daemon with the same model\n"
            "use them until its own window is warm.\n"
            "\n" CTL_CONNECTION_HELP,
    .run = run,
};
