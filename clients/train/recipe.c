#include "train/recipe.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/progress.h"
#include "data/headings.h"
#include "data/log_check.h"
#include "model/physics.h"
#include "train/identify.h"
#include "train/prior.h"
#include "train/run.h"
#include "train/untrained_model.h"

const char hb_recipe_help[] =
    "What is not given is chosen by looking at the data, and said with its reason:\n"
    "  physics as the average     networks see no state that the physics does not depend on (positions); a small "
    "ridge\n"
    "    of logs                  parameters, delay and lag identified; a third as many basis functions as functions, "
    "4 to\n"
    "                             12; rollouts of 0.3 s, which noise does not fool as single steps; 8 functions a "
    "step;\n"
    "                             2,000 steps. With nominal physics 8 to 12 basis functions, whose fits the prior "
    "holds,\n"
    "                             rollouts of 0.5 s, each state weighs by how much it changes in that time; 1,000 "
    "steps;\n"
    "                             where the nose points mostly one way, examples turned to all headings\n"
    "    of a simulator           single steps are exact: 16 functions of 100 points, learning rate 0.015, 6,000 "
    "steps\n"
    "  a learned average          networks see no horizontal position; errors weigh each state by what is left of it, "
    "and\n"
    "                             fits are refined once along the model, as in flight; rollouts with logs\n"
    "  more than 14 states        rollouts that grow to 5 periods, 8 functions a step; where states change as much in "
    "a\n"
    "                             period as they vary at all (joints that settle within it) increments are learned\n"
    "                             instead of rates; up to 20 states a coefficient for each of them, joined to 64 in "
    "the\n"
    "                             end, else fits held by the prior\n"
    "  delay and lag in the data  taken, unless --delay or --lag say otherwise\n";

typedef struct choosing {
    hb_settings *s;
    const hb_dataset *d;
    const hb_nominal *physics; /* NULL: the average is learned */
    bool logs;                 /* nothing is hidden on purpose */
    FILE *out;
} choosing;

/* Sets what was not given, and says why. */
__attribute__((format(printf, 4, 5))) static void choose(choosing *c, const char *name, const char *why,
                                                         const char *format, ...)
{
    char text[HB_PATH_SIZE];
    va_list arguments;
    hb_error err = {0};

    if (hb_settings_given(c->s, name))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (hb_settings_set(c->s, name, text, &err))
        fprintf(stderr, "warning: --%s %s: %s\n", name, text, err.text); /* a rule of ours is wrong: tests see it */
    else if (c->out && why)
        fprintf(c->out, "chosen: --%s %s (%s)\n", name, *text ? text : "''", why);
}

/* --- inputs --- */

/* Does any rate depend on this state? By its adjoint at a few samples, which differ in all states. */
static bool matters(const choosing *c, const double *parameter, int state)
{
    const hb_dataset *d = c->d;
    const hb_nominal *n = c->physics;
    size_t nx = (size_t)n->nx, nu = (size_t)n->nu, rows = 4 * nx + 2 * nu + (size_t)n->rows + 1;
    hb_real *x = calloc(rows * HB_STRIDE, sizeof *x);
    bool does = true;

    if (!x)
        return true;
    hb_real *u = x + nx * HB_STRIDE, *rate = u + (nu + 1) * HB_STRIDE, *dx = rate + nx * HB_STRIDE,
            *du = dx + nx * HB_STRIDE, *scratch = du + nu * HB_STRIDE;
    int lanes = d->nepisodes < HB_LANES ? d->nepisodes : HB_LANES;
    for (size_t s = 0; s < HB_LANES; s++) {
        const hb_episode *e = &d->episode[s % (size_t)lanes];
        size_t row = (size_t)e->nsteps / 2;
        for (size_t i = 0; i < nx; i++)
            x[i * HB_STRIDE + s] = (hb_real)e->x[row * nx + i];
        for (size_t i = 0; i < nu; i++)
            u[i * HB_STRIDE + s] = (hb_real)e->u[row * nu + i];
    }
    does = false;
    for (size_t k = 0; k < nx && !does; k++) {
        memset(rate, 0, nx * HB_STRIDE * sizeof *rate);
        for (size_t s = 0; s < HB_LANES; s++)
            rate[k * HB_STRIDE + s] = 1;
        n->adjoint(n, parameter, HB_LANES, x, u, rate, dx, du, scratch);
        for (size_t s = 0; s < HB_LANES; s++)
            does = does || dx[(size_t)state * HB_STRIDE + s] != 0;
    }
    free(x);
    return does;
}

static void add_input(char *list, const char *name)
{
    size_t used = strlen(list);
    snprintf(list + used, HB_PATH_SIZE - used, "%s-%s", used ? "," : "", name);
}

static void choose_inputs(choosing *c, const double *parameter)
{
    const hb_dataset_header *h = &c->d->header;
    char list[HB_PATH_SIZE] = "";

    if (c->physics)
        for (int i = 0; i < h->nx; i++)
            if (!matters(c, parameter, i))
                add_input(list, h->state_name[i]);
    /* a learned average: what moves along the ground does so alike everywhere */
    if (!c->physics)
        for (const char *const *name = (const char *const[]){"x", "y", NULL}; *name; name++) {
            char velocity[HB_NAME_SIZE];
            snprintf(velocity, sizeof velocity, "v%s", *name);
            int at = hb_dataset_state(c->d, *name);
            if (at >= 0 && hb_dataset_state(c->d, velocity) >= 0 && strcmp(h->state_unit[at], "m") == 0)
                add_input(list, *name);
        }
    if (*list)
        choose(c, "inputs", c->physics ? "the physics does not depend on them" : "motion is alike everywhere", "%s",
               list);
}

/* --- how data move --- */

/* Of the states: the median of how much they change in a period, relative to how much they vary. */
static double change_in_a_period(const hb_dataset *d)
{
    size_t nx = (size_t)d->header.nx;
    double *std = calloc(2 * nx, sizeof *std), *share = std ? std + nx : NULL, median = 0;

    if (!std)
        return 0;
    hb_dataset_moments(d, NULL, std, NULL, NULL, NULL);
    for (size_t i = 0; i < nx; i++) {
        double sum = 0, count = 0;
        for (int e = 0; e < d->nepisodes && e < 200; e++)
            for (size_t k = 0; k < (size_t)d->episode[e].nsteps && k < 200; k++) {
                const double *x = d->episode[e].x + k * nx + i;
                sum += (x[nx] - x[0]) * (x[nx] - x[0]);
                count++;
            }
        share[i] = sqrt(sum / fmax(count, 1)) / std[i];
    }
    for (size_t i = 1; i < nx; i++)
        for (size_t k = i; k > 0 && share[k] < share[k - 1]; k--) {
            double swap = share[k];
            share[k] = share[k - 1];
            share[k - 1] = swap;
        }
    median = share[nx / 2];
    free(std);
    return median;
}

/* --- rules --- */

/* Logs that lie mostly within 45 degrees of one heading do not tell that physics is alike at all of them; others do,
 * and what the world did (wind) stays in them. */
static void choose_headings(choosing *c)
{
    const hb_dataset_header *h = &c->d->header;
    hb_headings headings;

    if (!hb_headings_of(&headings, h->nx, h->state_name, NULL) && hb_headings_alike(&headings, c->d) > M_SQRT1_2)
        choose(c, "headings", "the nose points one way in these flights, and physics is alike at all headings", "any");
}

static void choose_for_logs(choosing *c)
{
    const bool built_in = !c->physics->physics;
    const double seconds = built_in ? 0.48 : 0.32, functions = c->d->nfunctions;
    int rollout = (int)fmax(4, fmin(built_in ? 12 : 10, round(seconds / c->d->header.dt)));
    bool prior = built_in && functions >= HB_PRIOR_FUNCTIONS + 2;

    if (built_in)
        choose_headings(c);
    choose(c, "functions", NULL, "8");
    if (prior)
        choose(c, "examples", "10 s of flight, as an estimator remembers", "%d",
               (int)fmax(100, fmin(250, round(10 / c->d->header.dt))));
    choose(c, "queries", NULL, "32");
    choose(c, "rollout", "logs are noisy: what adds up over steps is not noise", "%d", rollout);
    choose(c, "rollout-growth", NULL, "0.5");
    choose(c, "steps", "logs are few: more steps fit their noise", built_in ? "1000" : "2000");
    /* coefficients that nothing holds are told by noise where functions are few; the prior holds them as it does in
     * flight */
    choose(c, "nb",
           prior ? "of logs: a third of their functions, 8 to 12" : "of logs: a third of their functions, 4 to 12",
           "%d", (int)fmax(prior ? 8 : 4, fmin(12, floor(functions / 3))));
    if (prior) {
        choose(c, "fit", "coefficients are held by what is usual, as in flight", "prior");
        if (c->s->fit == HB_FIT_BY_PRIOR)
            choose(c, "prior-every", NULL, "%d", (int)fmax(1, fmin(250, (double)c->s->steps / 4)));
    }
    /* functions of a file of physics act on all states, also on those of which noise alone is left */
    if (built_in)
        choose(c, "weighting", "each state by how much it changes: noisy rates would drown velocities", "change");
}

static void choose_for_physics(choosing *c)
{
    choose(c, "ridge", NULL, "1e-05");
    if (c->logs) {
        choose_for_logs(c);
    } else {
        choose(c, "learning-rate", "a simulator's single steps are exact", "0.015");
        choose(c, "steps", NULL, "6000");
    }
}

static void choose_for_few_states(choosing *c)
{
    choose(c, "ridge", NULL, "1e-05");
    choose(c, "weighting", "an average is learned: each state by what is left of it", "each");
    if (c->s->integration != HB_DIRECT)
        choose(c, "refinements", "fits along the model, as in flight", "1");
    if (c->logs) {
        choose(c, "queries", NULL, "32");
        choose(c, "rollout", "logs are noisy: what adds up over steps is not noise", "8");
        choose(c, "rollout-growth", NULL, "0.5");
    } else {
        choose(c, "queries", NULL, "300");
    }
    choose(c, "learning-rate", NULL, "0.008");
}

static void choose_for_many_states(choosing *c)
{
    enum { EACH = 20 }; /* states up to which each has coefficients of its own */
    /* a simulated ant has 0.42 and a half-cheetah 1.09: of the ant, with the same 45 s of training, rates of an ODE
     * leave 1.4 times the error of increments after a step, and 1.3 times after ten */
    static const double settled = 0.3;
    bool each = c->d->header.nx <= EACH, prior = !each && c->d->nfunctions >= HB_PRIOR_FUNCTIONS + 2;
    double change = change_in_a_period(c->d);
    char why[100];

    snprintf(why, sizeof why, "states change by %.2f of their deviation in a period: they settle within it", change);
    if (change > settled)
        choose(c, "integration", why, "direct");
    choose(c, "functions", NULL, "8");
    choose(c, "examples", NULL, "112");
    choose(c, "queries", NULL, "32");
    choose(c, "rollout", "many states", "%d", each ? 5 : 4);
    choose(c, "rollout-growth", NULL, "0.9");
    choose(c, "learning-rate", NULL, "0.007");
    if (each) {
        /* whoever gives a number of functions means it: none are joined in the end */
        bool given = hb_settings_given(c->s, "nb");
        choose(c, "nb", "a coefficient for each state, joined in the end", "24");
        choose(c, "hidden", NULL, "160,160,160,160");
        if (!given)
            choose(c, "coefficients", NULL, "per_state");
        if (!given && c->s->shape == HB_PER_STATE)
            choose(c, "join", NULL, "64");
    } else {
        choose(c, "nb", "many states", "16");
        if (prior) {
            choose(c, "fit", "many states: fits held by what is usual", "prior");
            choose(c, "prior-every", NULL, "250");
        }
    }
}

/* --- identification --- */

static void put_seconds(choosing *c, const char *name, const char *why, const double *value)
{
    char text[HB_PATH_SIZE] = "";
    bool any = false;

    for (int i = 0; i < c->d->header.nu; i++) {
        any = any || value[i] > 0;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.5g", i ? "," : "", value[i]);
    }
    if (any)
        choose(c, name, why, "%s", text);
}

static int identify(choosing *c, double *parameter, bool *given, const volatile sig_atomic_t *stop, hb_error *err)
{
    hb_settings *s = c->s;
    const hb_nominal *n = c->physics;
    hb_identify_settings how = {.nominal = n, .start = parameter, .given = given};
    hb_progress progress;
    hb_identified found;
    char text[HB_PATH_SIZE];
    bool unknown = false;

    for (int i = 0; i < n->nparameters; i++)
        unknown = unknown || !given[i];
    /* given delays and lags are those that the search goes by; one of two that is missing is none */
    how.actuators_given = s->controls == HB_CONTROLS_ACTING || *s->delay || *s->lag;
    if (!unknown && how.actuators_given)
        return 0;
    how.actuators.nu = c->d->header.nu;
    int status = hb_untrained_model_actuators(s, c->d->header.nu, NULL, &how.actuators, err);
    if (status)
        return status;
    if (s->controls == HB_CONTROLS_ACTING)
        how.actuators = (hb_actuators){.nu = c->d->header.nu};
    hb_progress_start(&progress, "identify");
    status = hb_identify(&found, c->d, &how, &(hb_watch){.stop = stop, .progress = c->out ? &progress : NULL}, err);
    hb_progress_end(&progress);
    if (status)
        return status;
    if (c->out)
        hb_identified_print(&found, c->d, c->out);
    snprintf(text, sizeof text, "%s", s->average);
    for (int i = 0; i < n->nparameters; i++)
        if (!given[i] && found.parameter[i] != parameter[i]) {
            size_t used = strlen(text);
            /* the first parameter of a name comes behind its second colon, of a file behind the only one */
            bool first = !strchr(text, '=');
            snprintf(text + used, sizeof text - used, "%c%s=%.6g", first ? ':' : ',', n->parameter_name[i],
                     found.parameter[i]);
        }
    if (strlen(text) + 1 >= sizeof text)
        return hb_fail(err, EINVAL, "average: too many parameters for one option: give --identify no");
    snprintf(s->average, sizeof s->average, "%s", text);
    if (!how.actuators_given) {
        put_seconds(c, "delay", "identified", found.actuators.delay);
        put_seconds(c, "lag", "identified", found.actuators.lag);
    }
    return 0;
}

int hb_recipe_choose(hb_settings *s, const hb_dataset *d, FILE *out, const volatile sig_atomic_t *stop, hb_error *err)
{
    choosing c = {.s = s, .d = d, .out = out, .logs = hb_dataset_is_logs(d)};
    double parameter[HB_NOMINAL_PARAMETERS];
    bool given[HB_NOMINAL_PARAMETERS] = {0};
    hb_physics *own = NULL;
    int status = 0;

    if (s->kind != HB_KIND_SHARED || *s->initial)
        return 0;
    if (s->controls == HB_CONTROLS_COMMANDED && d->header.nu > 0 && !isnan(d->header.control_delay[0]) &&
        !hb_settings_given(s, "delay") && !hb_settings_given(s, "lag")) {
        put_seconds(&c, "delay", "the data say so", d->header.control_delay);
        put_seconds(&c, "lag", "the data say so", d->header.control_lag);
    }
    if ((status = hb_untrained_model_physics(s->average, d, &c.physics, &own, parameter, given, err)))
        return status;
    /* what somebody wrote into a file of physics is meant, unless it is asked for; nominal defaults are anybody's */
    for (int i = 0; c.physics && c.physics->physics && s->identify < 0 && i < c.physics->nparameters; i++)
        given[i] = true;
    if (c.physics && c.physics == hb_nominal_find("quadrotor") && c.logs && out) {
        int ratio = hb_nominal_parameter(c.physics, "torque_ratio");
        hb_log_check(d, NULL, given[ratio] ? parameter[ratio] : NAN, stderr);
    }
    if (c.physics && (s->identify == 1 || (s->identify < 0 && c.logs && !s->stream)))
        status = identify(&c, parameter, given, stop, err);
    if (!status) {
        choose_inputs(&c, parameter);
        if (c.physics)
            choose_for_physics(&c);
        else if (d->header.nx > HB_SMALL_STATE)
            choose_for_many_states(&c);
        else
            choose_for_few_states(&c);
    }
    hb_physics_free(own);
    return status;
}

int hb_recipe_apply(hb_settings *s, FILE *out, const volatile sig_atomic_t *stop, hb_error *err)
{
    hb_dataset_mapping mapping = {.stream = s->stream};
    hb_dataset *d = NULL;
    int status;

    /* the run itself says what is missing */
    if (!*s->data || s->kind != HB_KIND_SHARED || *s->initial)
        return 0;
    if (!(status = hb_run_mapping(s->map, &mapping, err)) &&
        !(status = hb_dataset_read_many(&d, s->data, &mapping, err)))
        status = hb_recipe_choose(s, d, out, stop, err);
    hb_dataset_free(d);
    return status;
}
