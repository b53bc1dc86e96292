/* The configuration: what is read, what is refused and where, and what is printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config.h"
#include "test_models.h"

static hb_config *config;
static hb_config_errors errors;
static char folder[] = "/tmp/hilbert-config-XXXXXX", model_path[64];

static int set_up(void **state)
{
    (void)state;
    hb_model *m = NULL;

    config = calloc(1, sizeof *config);
    assert_non_null(mkdtemp(folder));
    snprintf(model_path, sizeof model_path, "%s/cart.safetensors", folder);
    assert_int_equal(hb_test_cart(&m, NULL), 0);
    assert_int_equal(hb_model_save(m, model_path, NULL), 0);
    hb_model_free(m);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(model_path);
    rmdir(folder);
    free(config);
    return 0;
}

/* Reads text as the file c.yaml in the folder of the model, after a line that names the model. */
static int parse(const char *text)
{
    char all[4096], name[64];

    snprintf(name, sizeof name, "%s/c.yaml", folder);
    snprintf(all, sizeof all, "model: cart.safetensors\n%s", text);
    return hb_config_parse(config, name, all, strlen(all), &errors);
}

static void test_values_arrive(void **state)
{
    (void)state;
    assert_int_equal(
        parse("name: carts\n"
              "log_level: debug\n"
              "adapt: false\n"
              "sockets:\n"
              "  actions: [ipc:///tmp/a, 'ipc:///tmp/b']\n"
              "  control: ipc:///tmp/c\n"
              "  status: []\n"
              "  mode: 0600\n"
              "planner: {horizon: 7, seed: 18446744073709551615, method: mppi, noise: 1e-2, prepare: false,\n"
              "          directions: [[1], [-0.5]]}\n"
              "estimator:\n"
              "  forgetting: 0.99\n"
              "realtime: {server_cpus: [0, 1]}\n"
              "target: {velocity: -1}\n"
              "safe_action: [0.5]\n"
              "cost:\n"
              "- {kind: distance, states: [position, 1], weight: 3, terminal: 10}\n"
              "- {kind: bound, states: velocity, weight: 1, min: -2, max: 2}\n"
              "- {kind: huber, states: position, weight: 2, radius: 0.5}\n"),
        0);
    assert_string_equal(config->model, model_path);
    assert_string_equal(config->name, "carts");
    assert_int_equal(config->log_level, 4);
    assert_false(config->controller.adapt);
    assert_int_equal(config->sockets.actions.n, 2);
    assert_string_equal(config->sockets.actions.at[1], "ipc:///tmp/b");
    assert_int_equal(config->sockets.control.n, 1);
    assert_int_equal(config->sockets.status.n, 0);
    assert_int_equal(config->sockets.telemetry.n, 1); /* the default */
    assert_int_equal(config->sockets.mode, 0600);
    assert_int_equal(config->controller.planner.horizon, 7);
    assert_true(config->controller.planner.seed == UINT64_MAX);
    assert_int_equal(config->controller.planner.method, HB_PLANNER_MPPI);
    assert_true(config->controller.planner.noise == 0.01);
    assert_int_equal(config->controller.planner.ndirections, 2);
    assert_true(config->controller.planner.direction[1] == -0.5);
    assert_true(config->controller.estimator.forgetting == 0.99);
    assert_int_equal(config->realtime.server_cpus.n, 2);
    assert_int_equal(config->terms.n, 3);
    assert_true(config->terms.at[0].cost.terminal == 10 && config->terms.at[1].cost.max == 2);
    assert_true(config->terms.at[2].cost.radius == 0.5);
}

static void test_the_model_gives_names_a_meaning(void **state)
{
    (void)state;
    hb_model *m;

    assert_int_equal(hb_model_load(&m, model_path, NULL), 0);
    assert_int_equal(parse("target: {velocity: -1}\n"
                           "actuators: {lags: {force: 0.03}, delays: [0.01]}\n"
                           "cost:\n"
                           "- {kind: distance, states: [velocity, 0], weight: 3}\n"
                           "- {kind: effort, controls: [force], weight: 1}\n"),
                     0);
    assert_int_equal(hb_config_resolve(config, m, &errors), 0);
    const hb_controller_settings *s = &config->controller;
    assert_int_equal(s->ntarget, 2);
    assert_true(s->target[0] == 0 && s->target[1] == -1);
    assert_int_equal(s->nsafe_action, 0);
    assert_int_equal(s->estimator.actuators.nlags, 1);
    assert_int_equal(s->estimator.actuators.ndelays, 1);
    assert_true(s->estimator.actuators.lags[0] == 0.03 && s->estimator.actuators.delays[0] == 0.01);
    assert_int_equal(s->cost.nterms, 2);
    assert_int_equal(s->cost.term[0].nindices, 2);
    assert_int_equal(s->cost.term[0].index[0], 1);
    assert_int_equal(s->cost.term[0].index[1], 0);
    assert_int_equal(s->cost.term[1].index[0], 0);
    assert_int_equal(s->estimator.method, HB_LEAST_SQUARES);

    /* a rate is a limit of plans, after those of limits.rules; 0 lifts the model's own */
    assert_int_equal(parse("actuators: {rates: {force: 2.5}}\n"
                           "limits: {rules: [{kind: speed, states: [velocity], max: 3}]}\n"
                           "cost: [{kind: squared, states: 0, weight: 1}]\n"),
                     0);
    assert_int_equal(hb_config_resolve(config, m, &errors), 0);
    assert_int_equal(s->cost.limits.n, 2);
    const hb_limit *rate = &s->cost.limits.limit[1];
    assert_true(rate->kind == HB_LIMIT_CONTROL_RATES && rate->max == 2.5 && rate->nindices == 1 && rate->index[0] == 0);
    assert_string_equal(hb_limits_name(&s->cost.limits, 1), "actuators.rates");
    m->actuator_rate[0] = 4;
    assert_int_equal(parse("cost: [{kind: squared, states: 0, weight: 1}]\n"), 0);
    assert_int_equal(hb_config_resolve(config, m, &errors), 0);
    assert_int_equal(s->cost.limits.n, 1);
    assert_true(s->cost.limits.limit[0].max == 4);
    assert_int_equal(parse("actuators: {rates: [0]}\ncost: [{kind: squared, states: 0, weight: 1}]\n"), 0);
    assert_int_equal(hb_config_resolve(config, m, &errors), 0);
    assert_int_equal(s->cost.limits.n, 0);
    m->actuator_rate[0] = 0;

    /* disagreements, each at its place */
    const struct {
        const char *text, *expected;
    } table[] = {
        {"target: [1, 2, 3]\n", "c.yaml:2:9: target: 3 numbers where the model has 2 states"},
        {"target: {altitude: 3}\n", "c.yaml:2:9: target: the model has no state 'altitude'"},
        {"target: {positon: 3}\n", "did you mean position?"},
        {"safe_action: {force: 3}\n", "c.yaml:2:14: safe_action: force = 3 is outside -2..2"},
        {"actuators: {lags: {force: 2}}\n", "actuators.lags: force = 2 is outside 0..1, and not -1"},
        {"actuators: {delays: [0.1, 0.2]}\n", "2 numbers where the model has 1 controls"},
        {"actuators: {lags: {torque: 0.1}}\n", "the model has no control 'torque'"},
        {"actuators: {rates: {force: -1}}\n", "actuators.rates: force = -1 is outside 0..1e+12"},
        {"actuators: {rates: [1, 2]}\n", "2 numbers where the model has 1 controls"},
        {"safe_action: [0, 0]\n", "2 numbers where the model has 1 controls"},
        {"cost:\n - {kind: squared, states: [2], weight: 1}\n",
         "c.yaml:3:4: cost: there is no state 2: the model has 2"},
        {"cost:\n - {kind: tilt, states: [0, 1], weight: 1}\n", "c.yaml:3:2: cost: "},
        {"target: []\n", NULL},
        {"cost: [{kind: squared, states: 0, weight: 1}]\nplanner: {directions: [[1, 2]]}\n",
         "planner.directions: rows of 2 numbers where the model has 1 controls"},
        {"cost: [{kind: squared, states: 0, weight: 1}]\nestimator: {method: inner_product}\n",
         "c.yaml:3:21: estimator.method: "},
        {"latency: {stale_after: 1, fallback_after: 0.5}\n",
         "c.yaml:2:43: latency.fallback_after: 0.5 is below latency.stale_after (1)"},
        {"latency: {delay: 9}\n", "c.yaml:2:18: latency.delay: 9 is more than 100 of the model's periods"},
        {"estimator: {window: 10, warmup: 20}\n",
         "c.yaml:2:33: estimator.warmup: 20 s is above estimator.window (10 s)"},
        {"planner: {horizon: 1000, directions: [[0]]}\n", "planner.directions: direction 0 has no finite element"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s%s", table[i].text,
                 strstr(table[i].text, "cost:") ? "" : "cost: [{kind: squared, states: [position], weight: 1}]\n",
                 strstr(table[i].text, "target:") ? "" : "target: []\n");
        assert_int_equal(parse(text), 0);
        int n = hb_config_resolve(config, m, &errors);
        if (!table[i].expected) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_true(n > 0);
        if (!strstr(errors.text[0], table[i].expected))
            fail_msg("'%s' gives '%s', expected '%s'", table[i].text, errors.text[0], table[i].expected);
    }
    /* the default is the quadrotor's */
    assert_int_equal(parse(""), 0);
    assert_true(hb_config_resolve(config, m, &errors) > 0);
    assert_non_null(strstr(errors.text[0], "c.yaml: cost: none is given, and the default is a quadrotor's"));
    assert_non_null(strstr(errors.text[0], "cost: [{kind: squared, states: [position], weight: 1}]"));
    assert_int_equal(parse("cost: [{kind: squared, states: position, weight: 1}]\n"), 0);
    assert_int_equal(hb_config_resolve(config, m, &errors), 0);
    assert_int_equal(config->controller.ntarget, 0);
    assert_int_equal(config->warnings.n, 1);
    assert_non_null(strstr(config->warnings.text[0], "c.yaml: target: none is given"));
    assert_int_equal(hb_config_resolve(config, m, &errors), 0);
    assert_int_equal(config->warnings.n, 1); /* said once */
    assert_int_equal(parse("cost: [{kind: squared, states: position, weight: 1}]\ntarget: []\n"), 0);
    assert_int_equal(hb_config_resolve(config, m, &errors), 0);
    assert_int_equal(config->warnings.n, 0);
    /* a cost that knows no target needs none */
    assert_int_equal(parse("cost: [{kind: effort, controls: force, weight: 1}]\n"), 0);
    assert_int_equal(hb_config_resolve(config, m, &errors), 0);
    assert_int_equal(config->warnings.n, 0);
    hb_model_free(m);
}

/* every way in which a file can be wrong, where it says so, and in which words */
static void test_what_is_wrong_is_refused_at_its_place(void **state)
{
    (void)state;
    const struct {
        const char *text, *expected;
    } table[] = {
        /* syntax */
        {"a: [1, 2\n", "c.yaml:3:1: not YAML: "},
        {"\ta: 1\n", "c.yaml:2:1: a tab: YAML is indented by spaces"},
        {"planner:\n\thorizon: 1\n", "c.yaml:3:1: a tab: YAML is indented by spaces"},
        {"planner: {horizon: 1}\n---\nname: b\n", "c.yaml:4:1: a second document begins here"},
        {"---\nname: b\n", "c.yaml:3:1: a second document begins here"},
        {"...\nname: [\n", "not YAML"},
        {"<<: {name: b}\n", "c.yaml:2:1: merge keys (<<) are not taken: write the keys out"},
        {"planner:\n  <<: {horizon: 1}\n", "c.yaml:3:3: planner: merge keys (<<) are not taken"},
        {"name: \"open\n", "not YAML"},
        /* keys */
        {"nme: a\n", "c.yaml:2:1: nme: there is no such key: did you mean name?"},
        {"planner: {horizn: 3}\n", "c.yaml:2:11: planner.horizn: there is no such key: did you mean planner.horizon?"},
        {"planner: {hroizon: 3}\n", "did you mean planner.horizon?"},
        {"window: 10\n", "window: there is no such key: did you mean estimator.window?"},
        {"zzzzzz: 3\n", "c.yaml:2:1: zzzzzz: there is no such key"},
        {"name: a\nname: b\n", "c.yaml:3:1: name: is given twice, first in line 2"},
        {"planner: {horizon: 1}\nplanner: {samples: 2}\n",
         "c.yaml:3:1: planner: this section is given twice, first in line 2"},
        {"planner:\nplanner: {samples: 2}\n", "c.yaml:3:1: planner: this section is given twice, first in line 2"},
        {"planner: {horizon: 1, horizon: 2}\n", "c.yaml:2:23: planner.horizon: is given twice, first in line 2"},
        {"plnner: {horizon: 1}\n", "c.yaml:2:1: plnner: there is no such section: did you mean planner?"},
        {"zzzzzz: {horizon: 1}\n", "c.yaml:2:1: zzzzzz: there is no such section"},
        {"planner: 3\n", "c.yaml:2:10: planner: one value where a mapping of keys is expected"},
        {"planner: [3]\n", "planner: a list where a mapping of keys is expected"},
        {"[1]: 2\n", "a list where a key is expected"},
        /* types */
        {"planner: {horizon: ten}\n", "c.yaml:2:20: planner.horizon: 'ten' is not a whole number"},
        {"planner: {horizon: 1.5}\n", "'1.5' is not a whole number"},
        {"planner: {horizon: '10'}\n", "'10' is not a whole number"},
        {"planner: {horizon: }\n", "'' is not a whole number"},
        {"planner: {horizon: [10]}\n", "a list where a whole number is expected"},
        {"planner: {horizon: 0x10}\n", "'0x10' is not a whole number"},
        {"planner: {noise: nan}\n", "'nan' is not a number"},
        {"planner: {noise: .inf}\n", "'.inf' is not a number"},
        {"planner: {noise: 1e999}\n", "'1e999' is not a number"},
        {"planner: {noise: 3 m}\n", "'3 m' is not a number"},
        {"planner: {prepare: yes}\n", "'yes' is neither true nor false"},
        {"planner: {method: gradent}\n", "did you mean gradient?"},
        {"planner: {method: zzz}\n", "'zzz' is none of gradient, mppi"},
        {"planner: {seed: -1}\n", "'-1' is not a whole number from 0"},
        {"planner: {seed: 18446744073709551616}\n", "is not a whole number from 0"},
        {"planner: {directions: [[1], [1, 2]]}\n", "a direction of 2 controls after one of 1"},
        {"sockets: {mode: 999}\n", "'999' is not octal permissions"},
        {"sockets: {actions: [a, b]}\n", "'a' is not an endpoint"},
        {"sockets: {actions: {a: b}}\n", "a mapping where a list is expected"},
        {"sockets: {actions: []}\n", "at least one endpoint is needed"},
        {"sockets: {actions: [1, 2, 3, 4, 5, 6, 7, 8, 9]}\n", "a list of 9 where at most 8 are possible"},
        {"sockets: {actions: "
         "\"ipc:///tmp/0123456789012345678901234567890123456789012345678901234567890123456789012345678"
         "9012345678901234567890123456789\"}\n",
         "a socket's path has at most 107 characters"},
        {"name: a23456789012345678901234567890123\n", "33 characters where at most 31 fit"},
        {"name: [a]\n", "a list where text is expected"},
        {"name: \"a\\eb\"\n", "c.yaml:2:7: name: contains a control character"},
        {"name: \"a\\nb\"\n", "c.yaml:2:7: name: contains a control character"},
        {"name: \"a\\x7fb\"\n", "name: contains a control character"},
        {"name: \"a\\x9bb\"\n", "name: contains a control character"},
        {"state_file: \"a\\nb\"\n", "state_file: contains a control character"},
        {"sockets: {control: 'ipc://@quad'}\n", "sockets.control: 'ipc://@quad' is an abstract socket"},
        {"sockets: {telemetry_connect: ['ipc://@quad']}\n", "'ipc://@quad' is an abstract socket"},
        {"sockets: {actions: \"ipc:///tmp/a\\eb\"}\n", "sockets.actions: contains a control character"},
        {"planner: {method: \"\\e[2J\\x9b\"}\n", "planner.method: '?[2J?\?' is none of"},
        {"\"\\e[2J\": 1\n", "?[2J: there is no such key"},
        /* bounds */
        {"planner: {horizon: 0}\n", "c.yaml:2:20: planner.horizon: 0 is below 1"},
        {"planner:\n  horizon: 100000\n", "c.yaml:3:12: planner.horizon: 100000 is above 1000"},
        {"latency: {budget: -1}\n", "latency.budget: -1 is below 1e-05"},
        {"planner: {clip: 0}\n", "c.yaml:2:17: planner.clip: 0 is not above 0"},
        {"estimator: {change_interval: 0}\n", "estimator.change_interval: 0 is not above 0"},
        {"estimator: {span_threshold: 0}\n", "estimator.span_threshold: 0 is not above 0"},
        {"estimator: {forgetting: 1.5}\n", "estimator.forgetting: 1.5 is above 1"},
        {"realtime: {server_cpus: [-1]}\n", "realtime.server_cpus: -1 is below 0"},
        /* vectors and terms */
        {"target: [1, a]\n", "'a' is not a number"},
        {"target: {a: 1, a: 2}\n", "'a' is given twice"},
        {"cost: []\n", "no terms"},
        {"cost: 3\n", "one value where a term like"},
        {"cost: [{weight: 1, states: [0]}]\n", "the term has no kind"},
        {"cost: [{kind: squared, states: [0]}]\n", "the term has no weight"},
        {"cost: [{kind: squared, weight: 1}]\n", "a term of kind squared needs states"},
        {"cost: [{kind: squared, weight: 1, controls: [0]}]\n", "needs states, not controls"},
        {"cost: [{kind: effort, weight: 1, states: [0]}]\n", "needs controls, not states"},
        {"cost: [{kind: squred, weight: 1, states: [0]}]\n", "did you mean squared?"},
        {"cost: [{kind: squared, weigth: 1, states: [0]}]\n", "a term has no 'weigth': did you mean weight?"},
        {"cost: [{kind: squared, weight: 1, weight: 2, states: [0]}]\n", "'weight' is given twice"},
        {"cost: [{kind: squared, weight: -1, states: [0]}]\n", "-1 is below 0"},
        {"cost: [{kind: squared, weight: 1, states: [0], min: 3}]\n", "min and max belong to terms of kind bound"},
        {"cost: [{kind: bound, weight: 1, states: [0]}]\n", "min and max belong to terms of kind bound"},
        {"cost: [{kind: bound, weight: 1, states: [0], min: 3, max: 2}]\n", "min is above max"},
        {"cost: [{kind: squared, weight: 1, states: [0], radius: 3}]\n", "radius belongs to terms of kind huber"},
        {"cost: [{kind: huber, weight: 1, states: [0]}]\n", "radius belongs to terms of kind huber"},
        {"cost: [{kind: huber, weight: 1, states: [0], radius: 0}]\n", "above 0"},
        /* files, and what does not go together */
        {"sockets: {actions: tcp://127.0.0.1:7000}\n", "is open to the network"},
        {"sockets: {telemetry_connect: tcp://127.0.0.1:7000}\n",
         "sockets.telemetry_connect: tcp://127.0.0.1:7000 is open"},
        {"security: {server_key: cart.safetensors}\n", "no client could connect"},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (parse(table[i].text) == 0)
            fail_msg("'%s' was accepted", table[i].text);
        if (!strstr(errors.text[0], table[i].expected))
            fail_msg("'%s' gives '%s', expected '%s'", table[i].text, errors.text[0], table[i].expected);
        if (strncmp(errors.text[0], folder, strlen(folder)))
            fail_msg("'%s' does not begin with the file", errors.text[0]);
    }
    const char missing[] = "model: nothere.safetensors\n";
    assert_int_equal(hb_config_parse(config, "/tmp/x.yaml", missing, strlen(missing), &errors), 1);
    assert_non_null(strstr(errors.text[0], "/tmp/x.yaml:1:8: model: "));
    assert_non_null(strstr(errors.text[0], "No such file"));
    assert_int_equal(hb_config_load(config, "/nonexistent/file.yaml", &errors), 1);
    assert_non_null(strstr(errors.text[0], "/nonexistent/file.yaml: No such file"));
}

static void test_what_is_gone_is_refused(void **state)
{
    (void)state;
    assert_int_equal(parse("planner: {method: ilqr}\n"), 1);
    assert_int_equal(parse("planner: {method: cem}\n"), 1);
    assert_int_equal(parse("planner: {polish: true}\n"), 1);
    assert_int_equal(parse("planner: {method: gauss_newton}\n"), 0);
    assert_int_equal(config->warnings.n, 0);
}

static void test_one_run_tells_all_errors(void **state)
{
    (void)state;
    char text[2048] = "";

    assert_int_equal(parse("nme: a\nplanner: {horizon: 0, samples: x}\n"), 3);
    for (int i = 0; i < 40; i++)
        strcat(text, "nosuchkey: 1\n");
    assert_int_equal(parse(text), 40); /* more than are kept */
}

static void test_a_failure_leaves_the_configuration_alone(void **state)
{
    (void)state;
    assert_int_equal(parse("name: before\n"), 0);
    assert_int_equal(parse("name: after\nplanner: {horizon: 0}\n"), 1);
    assert_string_equal(config->name, "before");
}

static char *print(const hb_config *c, bool comments)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    hb_config_print(c, comments, out);
    fclose(out);
    return text;
}

static void test_what_is_printed_reads_back_as_the_same(void **state)
{
    (void)state;
    assert_int_equal(parse("planner: {noise: 0.1, learning_rate: 0.0012345678901234, directions: [[1], [0.25]]}\n"
                           "target: {velocity: -1.25}\n"
                           "safe_action: [0.1]\n"
                           "realtime: {planner_cpus: [1]}\n"
                           "state_file: 'a \"quoted\" \\name'\n"
                           "cost:\n"
                           "- {kind: bound, states: [position], weight: 1e-7, min: -1, max: 1}\n"
                           "- {kind: slew, controls: [force], weight: 12345.678}\n"),
                     0);
    for (int comments = 0; comments <= 1; comments++) {
        char *first = print(config, comments);
        assert_int_equal(hb_config_parse(config, "/tmp/again.yaml", first, strlen(first), &errors), 0);
        char *second = print(config, comments);
        assert_string_equal(first, second);
        free(first);
        free(second);
    }
}

/* config/hilbertd.yaml is what --print-config prints */
static void test_the_shipped_file_is_the_table(void **state)
{
    (void)state;
    hb_config_default(config);
    char *expected = print(config, true), *shipped = calloc(1, 1 << 20);
    FILE *file = fopen(getenv("HILBERT_CONFIG"), "r");

    assert_non_null(file);
    assert_true(fread(shipped, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    if (strcmp(expected, shipped))
        fail_msg("config/hilbertd.yaml is not what the table says: sh packaging/refresh.sh BUILD_FOLDER");
    free(expected);
    free(shipped);
}

static void test_a_reload_takes_live_keys_and_names_the_others(void **state)
{
    (void)state;
    hb_config *now = calloc(1, sizeof *now);
    const char *restart[HB_CONFIG_ROWS];

    assert_int_equal(parse("latency: {budget: 0.01}\nplanner: {horizon: 5}\ntarget: {position: 1}\n"), 0);
    *now = *config;
    assert_int_equal(parse("latency: {budget: 0.02}\nplanner: {horizon: 6, iterations: 9}\ntarget: {position: 2}\n"
                           "name: other\n"),
                     0);
    assert_int_equal(hb_config_merge(now, config, restart), 2);
    assert_string_equal(restart[0], "name");
    assert_string_equal(restart[1], "planner.horizon");
    assert_true(now->controller.budget == 0.02);
    assert_int_equal(now->controller.planner.horizon, 5);
    assert_int_equal(now->controller.planner.iterations, 9);
    assert_true(now->target.value[0] == 2);
    free(now);
}

static void test_sockets_are_in_the_folder_of_the_instance(void **state)
{
    (void)state;
    setenv("RUNTIME_DIRECTORY", "/run/hilbertd/left", 1);
    hb_config_default(config);
    assert_string_equal(config->sockets.telemetry.at[0], "ipc:///run/hilbertd/left/telemetry");
    assert_string_equal(config->sockets.status.at[0], "ipc:///run/hilbertd/left/status");
    unsetenv("RUNTIME_DIRECTORY");
    hb_config_default(config);
    assert_string_equal(config->sockets.actions.at[0], "ipc:///run/hilbertd/actions");
    assert_string_equal(config->sockets.control.at[0], "ipc:///run/hilbertd/control");
}

static const char *const fences =
    "cost: [{kind: squared, states: [position], weight: 1}]\n"
    "target: {position: 0.5}\n"
    "limits:\n"
    "  targets: clip\n"
    "  weight: 500\n"
    "  rules:\n"
    "  - {kind: box, name: 'left fence', states: [position, velocity], min: [-1, -2], max: [1, 2]}\n"
    "  - {kind: half_space, states: [velocity, position], normal: [1, 0.5], max: 3}\n"
    "  - {kind: keep_out_cylinder, states: [0, 1], centre: [4, 5], radius: 0.5}\n"
    "  - {kind: speed, states: velocity, max: 1.5}\n"
    "  - {kind: control_rates, controls: [force], max: 20}\n";

static void test_limits_arrive_and_are_printed(void **state)
{
    (void)state;
    hb_model *m;
    char *text = NULL;
    size_t size;

    assert_int_equal(hb_model_load(&m, model_path, NULL), 0);
    assert_int_equal(parse(fences), 0);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(hb_config_resolve(config, m, &errors), 0);
        const hb_limits *l = &config->controller.cost.limits;
        assert_int_equal(l->n, 5);
        assert_int_equal(l->targets, HB_TARGETS_CLIP);
        assert_true(l->weight == 500);
        assert_string_equal(l->limit[0].name, "left fence");
        assert_true(l->limit[0].low[1] == -2 && l->limit[0].high[1] == 2);
        assert_true(l->limit[1].vector[1] == 0.5 && l->limit[1].max == 3);
        assert_int_equal(l->limit[1].index[0], 1);
        assert_true(l->limit[2].vector[1] == 5 && l->limit[2].radius == 0.5);
        assert_int_equal(l->limit[3].kind, HB_LIMIT_SPEED);
        assert_true(l->limit[4].max == 20 && l->limit[4].nindices == 1);

        FILE *out = open_memstream(&text, &size);
        hb_config_print(config, again, out);
        fclose(out);
        assert_int_equal(hb_config_parse(config, "printed", text, size, &errors), 0);
        free(text);
    }
    hb_model_free(m);
}

static void test_limits_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *expected;
    } table[] = {
        {"{states: [0], max: 1}", "the limit has no kind"},
        {"{kind: sped, states: [0], max: 1}", "did you mean speed?"},
        {"{kind: speed, states: [0], mux: 1}", "a limit has no 'mux': did you mean max?"},
        {"{kind: speed, states: [0]}", "a limit of kind speed on 1 states needs 1 number for max, not 0"},
        {"{kind: box, states: [0, 1], min: 1, max: [1, 2]}", "needs 2 numbers for min, not 1"},
        {"{kind: speed, states: [0], max: 1, radius: 2}", "a limit of kind speed has no radius"},
        {"{kind: control_rates, states: [0], max: 1}", "needs controls, and only these"},
        {"{kind: speed, states: [altitude], max: 1}", "c.yaml:4:18: limits.rules: the model has no state 'altitude'"},
        {"{kind: box, states: [0], min: 2, max: 1}", "limits.rules: box: min 2 and max 1, expected min < max"},
        {"speed", "one value where a limit like"},
    };
    hb_model *m;

    assert_int_equal(hb_model_load(&m, model_path, NULL), 0);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "cost: [{kind: squared, states: [0], weight: 1}]\ntarget: []\nlimits: {rules: [%s]}\n", table[i].rule);
        if (parse(text) == 0)
            assert_true(hb_config_resolve(config, m, &errors) > 0);
        bool found = false;
        for (int j = 0; j < errors.n; j++)
            found = found || strstr(errors.text[j], table[i].expected);
        if (!found)
            fail_msg("'%s' gives '%s', expected '%s'", table[i].rule, errors.text[0], table[i].expected);
    }
    hb_model_free(m);
}

/* libyaml's time goes with the square of the depth: 200 kB would take half a minute. */
static void test_depth_is_bounded(void **state)
{
    static char text[200000];
    const char *const start[] = {"", "name: ", "cost:\n  - "};
    hb_config *c = calloc(1, sizeof *c);

    (void)state;
    for (size_t i = 0; i < sizeof start / sizeof *start; i++)
        for (int kind = 0; kind < 3; kind++) {
            for (size_t k = 0; k < sizeof text; k++)
                text[k] = kind == 0 ? '[' : kind == 1 ? '{' : "- "[k % 2];
            memcpy(text, start[i], strlen(start[i]));
            assert_true(hb_config_parse(c, "deep.yaml", text, sizeof text, &errors) > 0);
            if (kind < 2)
                assert_non_null(strstr(errors.text[0], "levels deep"));
        }
    free(c);
}

static void test_a_fifo_is_no_configuration(void **state)
{
    char path[] = "/tmp/test_config.XXXXXX", fifo[64];
    hb_config *c = calloc(1, sizeof *c);

    (void)state;
    assert_non_null(mkdtemp(path));
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(hb_config_load(c, fifo, &errors), 1);
    assert_non_null(strstr(errors.text[0], "not a regular file"));
    unlink(fifo);
    rmdir(path);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_arrive),
        cmocka_unit_test(test_the_model_gives_names_a_meaning),
        cmocka_unit_test(test_what_is_wrong_is_refused_at_its_place),
        cmocka_unit_test(test_what_is_gone_is_refused),
        cmocka_unit_test(test_one_run_tells_all_errors),
        cmocka_unit_test(test_a_failure_leaves_the_configuration_alone),
        cmocka_unit_test(test_what_is_printed_reads_back_as_the_same),
        cmocka_unit_test(test_the_shipped_file_is_the_table),
        cmocka_unit_test(test_a_reload_takes_live_keys_and_names_the_others),
        cmocka_unit_test(test_limits_arrive_and_are_printed),
        cmocka_unit_test(test_limits_that_make_no_sense_are_refused),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_a_fifo_is_no_configuration),
        cmocka_unit_test(test_sockets_are_in_the_folder_of_the_instance),
    };
    /* those of a service that this may run in */
    unsetenv("RUNTIME_DIRECTORY");
    unsetenv("LOGS_DIRECTORY");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
