#include "train/run.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "train/append_constants.h"
#include "train/recentre.h"
#include "train/reference.h"
#include "train/untrained_model.h"
#include "train/prediction_errors.h"
#include "data/sampler.h"
#include "train/function_fit.h"
#include "train/prior.h"
#include "train/prune.h"
#include "train/words.h"
#include "common/plot.h"
#include "common/progress.h"

/* an improvement by less is none; the end of a run that is compared with what was before */
#define WORTH_WAITING 0.01
#define LAST_PART     0.1

enum { JOINT_EXAMPLES = 1000 }; /* of a function: enough for its coefficients to be known by themselves */
enum { VALIDATION_STEPS = 10, VALIDATION_ROLLOUTS = 100, FEW_FUNCTIONS = 20 };

/* random numbers that no gradient step has */
static const uint64_t validation_stream = UINT64_MAX - 2, weight_stream = UINT64_MAX - 3;

typedef struct run {
    const hb_settings *settings;
    const hb_run_options *options;
    hb_dataset *data, *validation; /* validation: NULL when functions of the data are held out */
    int *function;                 /* of the data: nlearned to train on, then nheld held out */
    int nlearned, nheld;
    uint64_t hash;
    hb_model *initial; /* the model to continue from; NULL: none */
    hb_model *model;
    bool average_is_given; /* it came from a file and is not trained */
    bool prior_is_known;   /* of the model that is trained, where fits are held by it */
    double *weight;        /* nx */
    hb_pool *pool;
    hb_trainer *trainer;
    hb_prediction_errors *errors; /* NULL: there is nothing to validate on */
    int validation_steps, nvalidated;
    double *error; /* nvalidated x validation_steps */
    char checkpoint_path[HB_PATH_SIZE], log_path[HB_PATH_SIZE];
    char *settings_text;
    double finish, finish_cpu; /* when the steps were done: wall clock and processor time */
    FILE *log;
} run;

void hb_run_checkpoint_path(const hb_settings *s, char path[HB_PATH_SIZE])
{
    snprintf(path, HB_PATH_SIZE, "%.1000s%s", *s->checkpoint ? s->checkpoint : s->output,
             *s->checkpoint ? "" : ".checkpoint");
}

void hb_run_log_path(const hb_settings *s, char path[HB_PATH_SIZE])
{
    snprintf(path, HB_PATH_SIZE, "%.1000s%s", *s->log ? s->log : s->output, *s->log ? "" : ".jsonl");
}

int hb_run_mapping(const char *text, hb_dataset_mapping *ret, hb_error *err)
{
    char copy[HB_PATH_SIZE], *save;

    snprintf(copy, sizeof copy, "%s", text);
    for (char *item = strtok_r(copy, ";", &save); item; item = strtok_r(NULL, ";", &save)) {
        int status = hb_dataset_map(ret, item, err);
        if (status)
            return status;
    }
    return 0;
}

/* --- data --- */

/* what acts, in the place of what was commanded */
static int actuate(run *r, hb_error *err)
{
    hb_actuators a;
    int status = hb_untrained_model_actuators(r->settings, r->data->header.nu, r->initial, &a, err);

    if (status || r->settings->controls == HB_CONTROLS_ACTING)
        return status;
    if (!(status = hb_dataset_actuate(r->data, &a, err)) && r->validation)
        status = hb_dataset_actuate(r->validation, &a, err);
    return status;
}

static int read_data(run *r, hb_error *err)
{
    const hb_settings *s = r->settings;
    hb_dataset_mapping mapping = {0};
    int status;

    if (!*s->data)
        return hb_fail(err, EINVAL, "data: name a data set to train on (--data FILE)");
    mapping.stream = s->stream;
    if ((status = hb_run_mapping(s->map, &mapping, err)) ||
        (status = hb_dataset_read_many(&r->data, s->data, &mapping, err)))
        return status;
    r->hash = r->data->hash;
    r->data->any_heading = s->headings == HB_HEADINGS_ANY;
    if (*s->validation) {
        if ((status = hb_dataset_read_many(&r->validation, s->validation, &mapping, err)))
            return status;
        r->hash = hb_hash(r->hash, &r->validation->hash, sizeof r->validation->hash);
    }
    if (*s->initial && (status = hb_model_load(&r->initial, s->initial, err)))
        return status;
    return actuate(r, err);
}

/* Headings that wrap look like jumps of a turn, which nothing can predict. Where a data set is large the first steps of
 * each episode are looked at: what is streamed stays on the disk. */
enum { LOOKED_AT = 1000 };

static void warn_of_wrapped(const hb_dataset *d, const hb_settings *s)
{
    const int nx = d->header.nx;

    for (int i = 0; i < nx; i++) {
        const char *name = d->header.state_name[i], *found = strstr(s->angles, name);
        const size_t n = strlen(name);
        size_t jumps = 0, others = 0;

        if (*d->header.state_unit[i] && strcmp(d->header.state_unit[i], "rad") != 0)
            continue;
        if (found && (found == s->angles || found[-1] == ',' || found[-1] == ' ') && strchr(", ", found[n]))
            continue;
        for (int e = 0; e < d->nepisodes; e++)
            for (int k = 0; k < d->episode[e].nsteps && k < LOOKED_AT; k++) {
                const double *x = d->episode[e].x + (size_t)k * (size_t)nx + i, leap = fabs(x[nx] - x[0]);
                /* within a tenth of a turn, between two values that both are angles */
                jumps += fabs(leap - 2 * M_PI) < 0.6 && fabs(x[0]) < 6.3 && fabs(x[nx]) < 6.3;
                others += fabs(leap - 2 * M_PI) >= 0.6 && leap > M_PI / 2;
            }
        /* what leaps by other amounts as well is no angle, but quick */
        if (jumps > others)
            fprintf(stderr,
                    "warning: state '%s' jumps by 2 pi, %zu times: if it is an angle in radians, say so: --angles %s\n",
                    name, jumps, name);
    }
}

/* shuffles the functions; the last ones are held out for validation */
static int split_functions(run *r, hb_error *err)
{
    const hb_settings *s = r->settings;
    int n = r->data->nfunctions;

    r->function = calloc((size_t)n, sizeof *r->function);
    if (!r->function)
        return hb_fail(err, ENOMEM, "out of memory");
    hb_held_back_order(n, s->seed, r->function);
    r->nheld = r->validation ? 0 : s->hold_out >= 0 ? s->hold_out : hb_held_back_count(n);
    r->nlearned = n - r->nheld;
    if (r->nlearned < 1)
        return hb_fail(err, EINVAL, "hold-out: %d of %d functions leaves none to train on", r->nheld, n);
    if (!r->options->quiet)
        warn_of_wrapped(r->data, s);
    if (r->nlearned == 1 && !r->options->quiet)
        fprintf(stderr, "warning: there is one function to train on: the model learns this vehicle alone, and nothing "
                        "that it could adapt by. Vary what will vary in service, with 100 functions or more.\n");
    else if (r->nlearned < FEW_FUNCTIONS && !r->initial && !r->options->quiet)
        fprintf(stderr,
                "warning: %d functions to train on are few: a vehicle unlike all of them will be predicted badly, and "
                "the prior of the coefficients is a guess. Use 100 or more.\n",
                r->nlearned);
    return 0;
}

/* mean squared error of the untrained average after one step, for each state: what there is to learn */
static int measure_residuals(const run *r, double *square, hb_error *err)
{
    const hb_model *m = r->model;
    hb_random_key key = {.seed = r->settings->seed, .stream = weight_stream};
    hb_function_fit *fitter = NULL;
    int status = hb_function_fit_new(&fitter, m, r->data, HB_STRIDE, 0, err);

    for (int k = 0; !status && k < r->nlearned; k++) {
        const hb_fit *f = hb_function_fit_run(fitter, r->function[k], key, (uint64_t)k << 32);
        for (int i = 0; f && i < m->nx * HB_STRIDE; i++)
            square[i / HB_STRIDE] +=
                (double)f->first->r[i] * (double)f->first->r[i] / ((double)HB_STRIDE * r->nlearned);
    }
    hb_function_fit_free(fitter);
    return status;
}

/* mean square of what each state changes by over a rollout, whatever the average makes of it */
static int measure_changes(const run *r, double *square, hb_error *err)
{
    const hb_model *m = r->model;
    hb_random_key key = {.seed = r->settings->seed, .stream = weight_stream};
    hb_sampler *sampler = NULL;
    hb_points points;
    hb_arena arena = {0};
    int steps = r->settings->rollout;

    hb_points_lay_out(&points, m->nx, m->nu, HB_STRIDE, steps, &arena);
    int status = hb_arena_allocate(&arena, err);
    if (!status)
        status = hb_sampler_new(&sampler, r->data, m, steps, err);
    if (!status)
        hb_points_lay_out(&points, m->nx, m->nu, HB_STRIDE, steps, &arena);
    for (int k = 0; !status && k < r->nlearned; k++) {
        int f = r->function[k];
        hb_sampler_draw(sampler, f, 0, hb_sampler_count(sampler, f), key, (uint64_t)k << 32, &points);
        for (int step = 1; step <= steps; step++)
            for (int i = 0; i < m->nx * HB_STRIDE; i++) {
                double change =
                    (double)hb_points_states(&points, 0, step)[i] - (double)hb_points_states(&points, 0, 0)[i];
                square[i / HB_STRIDE] += change * change / ((double)HB_STRIDE * steps * r->nlearned);
            }
    }
    hb_sampler_free(sampler);
    free(arena.base);
    return status;
}

/* Weights of squared errors, so that the loss is 1 where nothing was learned yet: all states alike, or each by
 * itself. With that scale the regulariser, the limit of the gradient and Adam's epsilon mean the same for all data. */
static int weigh_states(run *r, hb_error *err)
{
    int nx = r->model->nx, status;
    double mean = 0;

    r->weight = calloc((size_t)nx, sizeof *r->weight);
    if (!r->weight)
        return hb_fail(err, ENOMEM, "out of memory");
    bool changes = r->settings->weighting == HB_WEIGHT_CHANGE;
    if ((status = changes ? measure_changes(r, r->weight, err) : measure_residuals(r, r->weight, err)))
        return status;
    for (int i = 0; i < nx; i++)
        mean += r->weight[i] / nx;
    if (!(mean > 0) || !isfinite(mean))
        return hb_fail(err, EINVAL, "the average explains the data to the last bit: there is nothing to learn");
    for (int i = 0; i < nx; i++)
        r->weight[i] = 1 / (r->settings->weighting == HB_WEIGHT_ALIKE ? mean : fmax(r->weight[i], 1e-3 * mean));
    return 0;
}

/* --- set-up --- */

static char *make_notes(const run *r)
{
    const hb_settings *s = r->settings;
    char *command = hb_settings_command(s), *settings = hb_settings_text(s, true), *notes = NULL;

    if (!command || !settings ||
        asprintf(&notes, "command: %s\ndata: %s, %d functions, %zu transitions, hash %016" PRIx64 "\n%s", command,
                 s->data, r->data->nfunctions, r->data->ntransitions, r->hash, settings) < 0)
        notes = NULL;
    free(command);
    free(settings);
    return notes;
}

/* the model that is trained gets a prior, which is filled in on the way */
static int make_room_for_prior(run *r, hb_error *err)
{
    hb_model *with = NULL;
    int status;

    if (!hb_prior_applies(r->model))
        return hb_fail(err, EINVAL, "fit: a prior goes with basis functions and least squares");
    if (r->nlearned < HB_PRIOR_FUNCTIONS)
        return hb_fail(err, EINVAL, "fit: a prior needs %d functions to train on", HB_PRIOR_FUNCTIONS);
    if ((status = hb_model_copy(&with, r->model, true, NULL, err)))
        return status;
    hb_model_free(r->model);
    r->model = with;
    return 0;
}

static int check_join(const run *r, hb_error *err)
{
    const hb_model *m = r->model;
    int n = r->settings->join;

    if (n && (m->architecture != HB_SHARED || m->shape != HB_PER_STATE || m->method != HB_LEAST_SQUARES))
        return hb_fail(err, EINVAL, "join: goes with a shared model, least squares and --coefficients per_state");
    if (n && r->initial)
        return hb_fail(err, EINVAL, "join: is for a training from the start: leave it out");
    if (n > hb_model_ncoefficients(m))
        return hb_fail(err, EINVAL, "join: %d is more than the coefficients of all states, %d", n,
                       hb_model_ncoefficients(m));
    return 0;
}

static int make_model(run *r, hb_error *err)
{
    char *notes = make_notes(r);
    int status =
        notes ? hb_untrained_model_new(&r->model, &r->average_is_given, r->settings, r->data, r->initial, notes, err)
              : hb_fail(err, ENOMEM, "out of memory");
    free(notes);
    if (!status)
        status = check_join(r, err);
    if (!status && r->settings->constants && r->model->shape != HB_VECTOR && !r->settings->join)
        status = hb_fail(err, EINVAL, "constants: go with one coefficient for all states (--coefficients vector)");
    if (!status && r->settings->fit == HB_FIT_BY_PRIOR)
        status = make_room_for_prior(r, err);
    return status;
}

static hb_optimiser choose_optimiser(const run *r)
{
    const hb_model *m = r->model;

    if (r->settings->optimiser >= 0)
        return (hb_optimiser)r->settings->optimiser;
    return m->architecture == HB_SHARED && m->nb > 0 && m->nx > HB_SMALL_STATE ? HB_MUON : HB_ADAM;
}

static int make_trainer(run *r, hb_error *err)
{
    const hb_settings *s = r->settings;
    hb_trainer_settings t = {.functions = s->functions,
                             .examples = s->examples,
                             .queries = s->queries,
                             .query_steps = s->rollout,
                             .growth_steps = (uint64_t)(s->rollout_growth * (double)s->steps),
                             .learning_rate = s->learning_rate,
                             .clip = s->clip,
                             .optimiser = choose_optimiser(r),
                             .average_steps = (uint64_t)round(s->averaging * (double)s->steps),
                             .last_step = s->steps,
                             .decay_steps = s->decay == HB_DECAY_COSINE ? s->steps : 0,
                             .matryoshka = s->matryoshka > 0,
                             .seed = s->seed,
                             .ranks = r->options->ranks,
                             .loss = {.refinements = s->refinements,
                                      .regulariser = s->regulariser,
                                      .matryoshka = s->matryoshka,
                                      .freeze_average = r->average_is_given,
                                      .weight = r->weight}};
    return hb_trainer_new(&r->trainer, r->model, r->data, r->function, r->nlearned, &t, r->pool, err);
}

/* what a model is validated by; a model with a prior is fitted with it */
static int new_prediction_errors(const run *r, const hb_model *m, hb_prediction_errors **ret, hb_error *err)
{
    const hb_settings *s = r->settings;
    hb_prediction_settings e = {.examples = s->examples,
                                .rollouts = VALIDATION_ROLLOUTS,
                                .steps = r->validation_steps,
                                .seed = hb_random_bits((hb_random_key){s->seed, validation_stream}, 0),
                                .prior = m->has_prior && (m != r->model || r->prior_is_known)};

    return hb_prediction_errors_new(ret, m, r->validation ? r->validation : r->data,
                                    r->validation ? NULL : r->function + r->nlearned, r->nvalidated, &e, r->pool, err);
}

static int make_prediction_errors(run *r, hb_error *err)
{
    const hb_dataset *d = r->validation ? r->validation : r->data;

    r->nvalidated = r->validation ? d->nfunctions : r->nheld;
    if (r->nvalidated == 0 || !hb_ranks_first(r->options->ranks))
        return 0;
    r->validation_steps = hb_prediction_errors_longest(d, VALIDATION_STEPS);
    r->error = calloc((size_t)r->nvalidated * (size_t)r->validation_steps, sizeof *r->error);
    if (!r->error)
        return hb_fail(err, ENOMEM, "out of memory");
    return new_prediction_errors(r, r->model, &r->errors, err);
}

/* from now on fits are held by the model's prior: those of the steps, and of validation */
static int use_prior(run *r, hb_error *err)
{
    int status = hb_trainer_use_prior(r->trainer, err);

    r->prior_is_known = true;
    if (status || !r->errors)
        return status;
    hb_prediction_errors_free(r->errors);
    r->errors = NULL;
    return new_prediction_errors(r, r->model, &r->errors, err);
}

/* every so many steps the prior is made anew: a function of the parameters alone, so all ranks make the same */
static int renew_prior(run *r, uint64_t step, hb_error *err)
{
    const hb_settings *s = r->settings;

    if (s->fit != HB_FIT_BY_PRIOR || step % s->prior_every || step == s->steps)
        return 0;
    int status = hb_prior_estimate_quickly(r->model, r->data, r->function, r->nlearned, s->seed, r->pool, err);
    return status ? status : use_prior(r, err);
}

static int set_up(run *r, hb_error *err)
{
    const hb_settings *s = r->settings;
    int nthreads = s->threads ? s->threads : (int)sysconf(_SC_NPROCESSORS_ONLN), status;
    uint64_t done = 0;

    hb_run_checkpoint_path(s, r->checkpoint_path);
    hb_run_log_path(s, r->log_path);
    r->settings_text = hb_settings_text(s, false);
    if (!r->settings_text)
        return hb_fail(err, ENOMEM, "out of memory");
    if (*s->plot && (status = hb_plot_available(err)))
        return status;
    if (!r->options->resume && r->options->force)
        unlink(r->checkpoint_path);
    if (!r->options->resume && access(r->checkpoint_path, F_OK) == 0)
        return hb_fail(err, EEXIST,
                       "%s: a run was interrupted here: continue with 'hilbert-train --resume %s', or start over with "
                       "--force",
                       r->checkpoint_path, r->checkpoint_path);

    if ((status = read_data(r, err)) || (status = split_functions(r, err)) || (status = make_model(r, err)) ||
        (status = weigh_states(r, err)) || (status = hb_pool_new(&r->pool, nthreads, NULL, NULL, err)) ||
        (status = make_trainer(r, err)) || (status = make_prediction_errors(r, err)))
        return status;
    if (r->options->resume) {
        hb_trainer_state *state = hb_trainer_access(r->trainer);
        if ((status = hb_checkpoint_restore(r->options->resume, r->model, state, r->hash, err)))
            return status;
        done = state->step;
        if (s->fit == HB_FIT_BY_PRIOR && done >= s->prior_every && (status = use_prior(r, err)))
            return status;
    }
    return hb_ranks_first(r->options->ranks) ? hb_training_log_open(&r->log, r->log_path, done, err) : 0;
}

static void tear_down(run *r)
{
    if (r->log)
        fclose(r->log);
    hb_prediction_errors_free(r->errors);
    hb_trainer_free(r->trainer);
    hb_pool_free(r->pool);
    hb_model_free(r->model);
    hb_model_free(r->initial);
    hb_dataset_free(r->validation);
    hb_dataset_free(r->data);
    free(r->settings_text);
    free(r->function);
    free(r->weight);
    free(r->error);
}

/* --- the run --- */

static hb_validation validate_by(run *r, hb_prediction_errors *e, bool adapt)
{
    hb_validation v = {.one_step = NAN, .ten_step = NAN, .steps = r->validation_steps};

    if (e) {
        hb_prediction_errors_run(e, adapt, r->error, NULL);
        v.one_step = hb_prediction_errors_quantile(e, r->error, 1, 0.5);
        v.ten_step = hb_prediction_errors_quantile(e, r->error, r->validation_steps, 0.5);
    }
    return v;
}

static hb_validation validate(run *r, bool adapt)
{
    return validate_by(r, r->errors, adapt);
}

static int save_checkpoint(run *r, hb_error *err)
{
    return hb_checkpoint_save(r->checkpoint_path, r->model, hb_trainer_access(r->trainer), r->settings_text, r->hash,
                              err);
}

/* v: NULL where nothing is validated on the way */
static const char *describe(const hb_trainer_report *r, const hb_validation *v, double seconds_per_step, char text[200])
{
    char errors[80] = ""; /* where nothing is held out there are none */

    if (v && !isnan(v->one_step))
        snprintf(errors, sizeof errors, "1-step %.1e, %d-step %.1e, ", v->one_step, v->steps, v->ten_step);
    snprintf(text, 200, "loss %.2e, %s%.3g/s", hb_trainer_loss(r), errors, 1 / seconds_per_step);
    return text;
}

/* --- patience --- */

/* The validations of a run so far. */
typedef struct history {
    double best, recent; /* ten-step errors: the best, and that of a tenth of the run before the end */
    int waited;          /* validations since the best */
} history;

static void remember(history *h, const hb_validation *v, uint64_t step, uint64_t steps)
{
    if (v->ten_step < h->best * (1 - WORTH_WAITING)) {
        h->best = v->ten_step;
        h->waited = 0;
    } else {
        h->waited++;
    }
    if ((double)step <= (1 - LAST_PART) * (double)steps)
        h->recent = v->ten_step;
}

/* --- the end of a run --- */

/* Whether to stop before the end: the same for all ranks, one of which may have been asked to; *ret_flat: because
 * validation does not get better, which the first rank alone knows. */
static int asked_to_stop(const hb_run_options *o, bool flat, bool *ret_stop, bool *ret_flat, hb_error *err)
{
    enum { FLAT = 1 << 20 }; /* more than there are ranks */
    double asked = (o->stop && *o->stop ? 1 : 0) + (flat ? FLAT : 0);
    int status = o->ranks ? o->ranks->add(o->ranks->context, &asked, 1, err) : 0;

    *ret_flat = asked >= FLAT;
    *ret_stop = asked > 0;
    return status;
}

static int step_on(run *r, hb_run_result *ret, hb_error *err)
{
    const hb_settings *s = r->settings;
    const hb_run_options *o = r->options;
    hb_trainer_state *state = hb_trainer_access(r->trainer);
    hb_progress progress;
    hb_trainer_report report = {0};
    hb_validation v = validate(r, true);
    double saved = 0, cpu = hb_clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t first = state->step, log_every = (uint64_t)fmax(1, s->log_every);
    char text[200];
    bool stop = false, flat = false, first_rank = hb_ranks_first(o->ranks);
    history past = {.best = INFINITY, .recent = NAN};
    int status = 0;

    hb_progress_start(&progress, o->label ? o->label : "train");
    while (state->step < s->steps &&
           !(status = asked_to_stop(o, s->patience > 0 && past.waited >= s->patience, &stop, &flat, err)) && !stop) {
        if ((status = hb_trainer_step(r->trainer, &report, err)) || (status = renew_prior(r, state->step, err)))
            break;
        if (!first_rank)
            continue;
        bool validated = state->step % s->validate_every == 0 || state->step == s->steps;
        if (validated) {
            v = validate(r, true);
            remember(&past, &v, state->step, s->steps);
        }
        if (validated || report.step % log_every == 0)
            hb_training_log_write(r->log, &report, hb_progress_elapsed(&progress),
                                  hb_clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, validated ? &v : NULL);
        if (!o->quiet)
            hb_progress_update(&progress, (double)(state->step - first) / (double)(s->steps - first),
                               describe(&report, s->validate_every < s->steps ? &v : NULL,
                                        hb_progress_elapsed(&progress) / (double)(state->step - first), text));
        if (hb_progress_elapsed(&progress) - saved >= s->checkpoint_every) {
            if ((status = save_checkpoint(r, err)))
                break;
            saved = hb_progress_elapsed(&progress);
        }
    }
    hb_progress_end(&progress);
    double seconds = hb_progress_elapsed(&progress);
    *ret = (hb_run_result){.steps = state->step,
                           .stopped = state->step < s->steps && !flat,
                           .flat = flat,
                           .recent = past.recent,
                           .last = report,
                           .validation = v,
                           .seconds = seconds,
                           .cpu_seconds = hb_clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu,
                           .steps_per_second = (double)(state->step - first) / seconds};
    if (status == -EPIPE && o->ranks) {
        /* the step that a dead rank broke off changed nothing; every rank that is left keeps what all of them had */
        ret->died = true;
        ret->why = *err;
        return 0;
    }
    return status;
}

static size_t peak_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss * 1024;
}

/* a model that continues from another with data of a few vehicles keeps what is known of all of them */
static bool keeps_prior(const run *r)
{
    return r->initial && r->initial->has_prior && r->nlearned < FEW_FUNCTIONS;
}

static int copy_prior(hb_model *m, const hb_model *from)
{
    size_t nb = (size_t)m->nb, nsystems = (size_t)hb_model_nproblems(m);

    memcpy(m->prior_mean, from->prior_mean, nb * nsystems * sizeof *m->prior_mean);
    memcpy(m->prior_covariance, from->prior_covariance, nb * nb * nsystems * sizeof *m->prior_covariance);
    memcpy(m->noise, from->noise, (size_t)m->nx * sizeof *m->noise);
    memcpy(m->reference_noise, from->reference_noise, (size_t)m->nx * sizeof *m->reference_noise);
    hb_model_seal(m);
    return 0;
}

/* the trainer and the first prediction errors refer to the old model */
static void replace_model(run *r, hb_model *m)
{
    hb_prediction_errors_free(r->errors);
    hb_trainer_free(r->trainer);
    hb_model_free(r->model);
    r->errors = NULL;
    r->trainer = NULL;
    r->model = m;
}

/* another model of the same functions: its prior is to be found again */
static int go_on_with(run *r, hb_model *m, hb_error *err)
{
    bool validates = r->errors;

    replace_model(r, m);
    r->prior_is_known = false;
    return validates ? new_prediction_errors(r, m, &r->errors, err) : 0;
}

/* replaces the trained model by one with a coefficient for all states together */
static int join_coefficients(run *r, const hb_watch *watch, hb_error *err)
{
    hb_rotation *rotation = NULL;
    hb_model *joint = NULL, *m = NULL;
    int status = hb_rotation_new(&rotation, r->model, r->data, r->function, r->nlearned, JOINT_EXAMPLES, true,
                                 r->settings->seed, watch, err);

    /* the notes say so already */
    if (!status && !(status = hb_prune(&joint, r->model, rotation, r->settings->join, err)))
        status = hb_model_copy(&m, joint, false, r->model->notes, err);
    hb_rotation_free(rotation);
    hb_model_free(joint);
    return status ? status : go_on_with(r, m, err);
}

/* replaces the trained model by one with constants beside its basis functions */
static int append_constants(run *r, hb_error *err)
{
    hb_model *m = NULL;
    int status = hb_append_constants(&m, r->model, err);

    return status ? status : go_on_with(r, m, err);
}

/* replaces the trained model by one with a prior, if the data suffice to fit one */
static int add_prior(run *r, hb_run_result *ret, const hb_watch *watch, hb_error *err)
{
    hb_model *m = NULL;
    hb_prediction_errors *e = NULL;
    int status;

    ret->with_prior = (hb_validation){.one_step = NAN, .ten_step = NAN, .steps = r->validation_steps};
    bool keep = keeps_prior(r);
    if (r->options->no_prior || !hb_prior_applies(r->model) || (r->nlearned < HB_PRIOR_FUNCTIONS && !keep))
        return 0;
    if ((status = hb_model_copy(&m, r->model, true, NULL, err)))
        return status;
    status = keep ? copy_prior(m, r->initial)
                  : hb_prior_estimate(m, r->data, r->function, r->nlearned, HB_PRIOR_EXAMPLES, r->settings->seed,
                                      r->pool, watch, err);
    if (!status && r->log)
        hb_training_log_write_prior(r->log, ret->steps, ret->seconds + hb_now() - r->finish,
                                    ret->cpu_seconds + hb_clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - r->finish_cpu);
    if (!status && r->errors && !(status = new_prediction_errors(r, m, &e, err)))
        ret->with_prior = validate_by(r, e, true);
    hb_prediction_errors_free(e);
    if (status) {
        hb_model_free(m);
        return status;
    }
    replace_model(r, m);
    return 0;
}

/* words for its coefficients, where the data name what is hidden */
static int add_words(run *r, const hb_watch *watch, hb_error *err)
{
    hb_word_wishes wishes;
    hb_model *m = NULL;

    if (r->options->no_prior || r->nlearned < HB_WORD_FUNCTIONS || !hb_words_apply(r->model, r->data))
        return 0;
    hb_words_wish_all(&wishes, r->data);
    if (wishes.n == 0)
        return 0;
    const hb_word_source from = {.model = r->model,
                                 .data = r->data,
                                 .function = r->function,
                                 .nfunctions = r->nlearned,
                                 .examples = HB_PRIOR_EXAMPLES,
                                 .seed = r->settings->seed};
    int status = hb_words_fit(&m, &from, &wishes, r->pool, watch, NULL, err);
    if (!status)
        replace_model(r, m);
    return status;
}

enum { JUDGED = 20 }; /* functions that a verdict is made of, at most */

/* As a daemon would use it, on functions that it was not trained on. Where there are none its reference is what it
 * leaves of those that it was trained on: too little, but of the right kind. */
static void judge(run *r, hb_run_result *ret)
{
    const hb_dataset *d = r->validation ? r->validation : r->data;
    int all[JUDGED], n = r->nvalidated < JUDGED ? r->nvalidated : JUDGED;
    hb_error why = {0};

    if (!r->options->verdict || r->model->nb == 0 || !r->model->has_prior)
        return;
    for (int i = 0; i < n; i++)
        all[i] = r->validation ? i : r->function[r->nlearned + i];
    if (n == 0 ? hb_reference_measure(r->model, r->data, r->settings->seed, r->pool, &why)
               : hb_verdict_measure(&ret->verdict, r->model, d, all, n, r->pool, &why))
        fprintf(stderr, "no verdict: %s\n", why.text);
    hb_model_seal(r->model);
}

/* From the trained parameters to the model that is written: averaged, centred, joined, with a prior. */
static int complete(run *r, hb_run_result *ret, const hb_watch *watch, hb_error *err)
{
    const hb_settings *s = r->settings;
    int status;

    hb_trainer_average(r->trainer);
    /* a prior that is kept is one of coefficients about the average as it was */
    if (!keeps_prior(r) &&
        (status = hb_recentre(r->model, r->data, r->function, r->nlearned, s->examples, s->seed, watch, err)))
        return status;
    if (s->join && (status = join_coefficients(r, watch, err)))
        return status;
    if (s->constants && (status = append_constants(r, err)))
        return status;
    /* the prior that fits were held by is one about the average before it was centred */
    if (r->prior_is_known &&
        ((status = hb_prior_estimate_quickly(r->model, r->data, r->function, r->nlearned, s->seed, r->pool, err)) ||
         (status = use_prior(r, err))))
        return status;
    ret->validation = validate(r, true);
    ret->without = validate(r, false);
    hb_model_seal(r->model);
    if ((status = add_prior(r, ret, watch, err)) || (status = add_words(r, watch, err)) ||
        (status = hb_model_check(r->model, err)))
        return status;
    judge(r, ret);
    return hb_watch_at(watch, 1, err);
}

static int finish(run *r, hb_run_result *ret, hb_error *err)
{
    const hb_run_options *o = r->options;
    hb_progress progress;
    hb_watch watch = {.stop = o->stop, .progress = o->quiet ? NULL : &progress};
    int status;

    if (!ret->died && !hb_ranks_first(o->ranks))
        return 0;
    /* what follows changes the parameters: whoever interrupts it goes on from here */
    if ((status = save_checkpoint(r, err)) || ret->died || ret->stopped)
        return status;
    r->finish = hb_now();
    r->finish_cpu = hb_clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    hb_progress_start(&progress, "prior");
    status = complete(r, ret, &watch, err);
    hb_progress_end(&progress);
    if (status == -EINTR) {
        ret->stopped = true;
        return 0;
    }
    if (status || (status = hb_model_save(r->model, r->settings->output, err)))
        return status;
    unlink(r->checkpoint_path);
    return *r->settings->plot ? hb_training_log_plot(r->log_path, r->settings->plot, err) : 0;
}

int hb_run(const hb_settings *s, const hb_run_options *o, hb_run_result *ret, hb_error *err)
{
    run r = {.settings = s, .options = o};
    hb_run_result result = {0};

    int status = set_up(&r, err);
    if (!status && !(status = step_on(&r, &result, err)))
        status = finish(&r, &result, err);
    result.peak_memory = peak_memory();
    tear_down(&r);
    if (!status)
        *ret = result;
    return status;
}
