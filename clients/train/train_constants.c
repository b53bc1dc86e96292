/* hilbert-train constants: a model whose basis functions are constants, one for each of some states' derivatives.
 *
 *     z' = f_avg(z, u) + sum_i c_i e_i        e_i: 1 in the derivative of one state, 0 elsewhere
 *
 * With accelerations as these states, estimating c is what offset-free predictive control does: a constant
 * disturbance is found and cancelled, and nothing that depends on state or control is. */
#include "train/train.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/progress.h"
#include "train/prior.h"
#include "train/reference.h"

enum { MOST = 64 };

static void print_help(void)
{
    printf("usage: hilbert-train constants MODEL --states NAME,... --data FILE --output FILE [options]\n\n"
           "Writes a model with the average, units, bounds and actuators of MODEL and, as its basis functions, a "
           "constant\n"
           "in the derivative of each state named: vx,vy,vz,wx,wy,wz of a vehicle make it offset-free predictive\n"
           "control, the plainest thing that adapts. Its prior comes from the data, as of hilbert-train prior.\n"
           "MODEL's average must be a nominal one.\n\n"
           "  --states LIST    states whose derivatives get a constant\n"
           "  --data FILE      data set that the prior comes from\n"
           "  --map TEXT       how to read a foreign one (hilbert-train data --help)\n"
           "  --output FILE    the basis file to write\n"
           "  --examples N     transitions of each function that coefficients come from [%d]\n"
           "  --seed N         of the draws [0]\n"
           "  --threads N      0: as many as there are processors [0]\n"
           "  --force          replace an output that exists\n",
           HB_PRIOR_EXAMPLES);
}

typedef struct constants {
    hb_train_input input;
    const char *states;
    uint64_t seed;
    int n, state[MOST];
} constants;

static int parse(int argc, char **argv, constants *c)
{
    hb_train_input *i = &c->input;
    const hb_option known[] = {
        HB_TRAIN_INPUT_OPTIONS(i),
        {"states", HB_OPTION_TEXT, &c->states, 0, 0, 0},
        {"seed", HB_OPTION_COUNT, &c->seed, 0, INT64_MAX, 0},
        {"threads", HB_OPTION_WHOLE, &i->threads, 0, 1024, 0},
    };
    int code = hb_options_command("hilbert-train", known, sizeof known / sizeof *known, argc, argv, print_help);

    if (code >= 0)
        return code;
    if (optind + 1 != argc || !i->data_path || !i->output || !c->states) {
        fprintf(stderr, "hilbert-train: constants wants one model, --states, --data and --output (try --help)\n");
        return HB_EXIT_USAGE;
    }
    i->model_path = argv[optind];
    return hb_train_keep_existing(i->output, i->force);
}

static int find_states(constants *c, hb_error *err)
{
    const hb_model *m = c->input.model;

    for (const char *at = c->states; *at;) {
        size_t length = strcspn(at, ",");
        int found = 0;
        while (found < m->nx &&
               (strlen(m->state_name[found]) != length || strncmp(m->state_name[found], at, length) != 0))
            found++;
        if (found == m->nx)
            return hb_fail(err, EINVAL, "--states: %s has no state '%.*s'", c->input.model_path, (int)length, at);
        for (int i = 0; i < c->n; i++)
            if (c->state[i] == found)
                return hb_fail(err, EINVAL, "--states: '%.*s' is named twice", (int)length, at);
        if (c->n == MOST)
            return hb_fail(err, EINVAL, "--states: more than %d", MOST);
        c->state[c->n++] = found;
        at += length;
        at += *at == ',';
    }
    return c->n > 0 ? 0 : hb_fail(err, EINVAL, "--states names none");
}

/* Everything of `from` but its basis; parameters are 0. */
static int make_model(const constants *c, hb_model **ret, hb_error *err)
{
    const hb_model *from = c->input.model;
    hb_model shape = {
        .nx = from->nx,
        .nu = from->nu,
        .nb = c->n,
        .architecture = HB_SHARED,
        .activation = from->activation,
        .average = HB_AVERAGE_NOMINAL,
        .integration = HB_COMBINED,
        .substeps = from->substeps,
        .method = HB_LEAST_SQUARES,
        .shape = HB_VECTOR,
        .ridge = from->ridge,
        .volume = from->volume,
        .dt = from->dt,
        .ninputs = from->ninputs,
        .input = from->input,
        .basis = {.nlayers = 1},
        .has_prior = true,
        .nominal = from->nominal,
    };
    char *notes = NULL;

    if (from->average != HB_AVERAGE_NOMINAL)
        return hb_fail(err, EINVAL, "%s: its average is %s: constants go with a nominal one", c->input.model_path,
                       hb_average_name[from->average]);
    memcpy(shape.nominal_parameter, from->nominal_parameter, sizeof shape.nominal_parameter);
    if (asprintf(&notes,
                 "# constants in the derivatives of %s; all else of %s\n"
                 "# prior: %s, %d functions, hash %016" PRIx64 ", %d examples each, seed %" PRIu64 "\n",
                 c->states, c->input.model_path, c->input.data_path, c->input.data->nfunctions, c->input.data->hash,
                 c->input.examples, c->seed) < 0)
        return hb_fail(err, ENOMEM, "out of memory");
    int status = hb_model_new(ret, &shape, notes, err);
    free(notes);
    if (status)
        return status;
    hb_model *m = *ret;
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu;
    const struct {
        double *to;
        const double *value;
        size_t n;
    } vector[] = {{m->state_mean, from->state_mean, nx},     {m->state_std, from->state_std, nx},
                  {m->control_mean, from->control_mean, nu}, {m->control_std, from->control_std, nu},
                  {m->control_min, from->control_min, nu},   {m->control_max, from->control_max, nu},
                  {m->control_trim, from->control_trim, nu}, {m->actuator_delay, from->actuator_delay, nu},
                  {m->actuator_lag, from->actuator_lag, nu}, {m->actuator_rate, from->actuator_rate, nu}};
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++)
        memcpy(vector[i].to, vector[i].value, vector[i].n * sizeof *vector[i].to);
    memcpy(m->state_name, from->state_name, nx * sizeof *m->state_name);
    memcpy(m->state_unit, from->state_unit, nx * sizeof *m->state_unit);
    memcpy(m->control_name, from->control_name, nu * sizeof *m->control_name);
    memcpy(m->control_unit, from->control_unit, nu * sizeof *m->control_unit);
    hb_head head = hb_mlp_head(&m->basis);
    for (int i = 0; i < c->n; i++)
        m->parameter[head.bias + (size_t)i * nx + (size_t)c->state[i]] = 1;
    hb_model_seal(m);
    return 0;
}

static int write_model(constants *c, hb_error *err)
{
    const hb_train_input *i = &c->input;
    hb_model *m = NULL;
    hb_progress progress;
    int status = find_states(c, err);

    if (!status)
        status = make_model(c, &m, err);
    hb_progress_start(&progress, "prior");
    if (!status)
        status = hb_prior_estimate(m, i->data, NULL, 0, i->examples, c->seed, i->pool,
                                   &(hb_watch){.progress = &progress}, err);
    hb_progress_end(&progress);
    if (!status && !(status = hb_reference_measure(m, i->data, c->seed, i->pool, err)))
        hb_model_seal(m);
    if (!status)
        status = hb_model_save(m, i->output, err);
    hb_model_free(m);
    return status;
}

int hb_train_constants(int argc, char **argv)
{
    constants c = {.input = {.examples = HB_PRIOR_EXAMPLES}};
    hb_error err = {0};
    int code = parse(argc, argv, &c);

    if (code >= 0)
        return code;
    bool failed = hb_train_input_open(&c.input, &err) || write_model(&c, &err);
    hb_train_input_close(&c.input);
    return failed ? hb_train_complain(HB_EXIT_FAILURE, &err) : HB_EXIT_OK;
}
