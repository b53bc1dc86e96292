/* What names of states and controls mean for a model, and whether model and configuration agree. */
#include "config/config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_terms.h"
#include "plan/trim.h"

typedef struct channels {
    const char *what; /* "state" or "control" */
    int n;
    char (*name)[HB_NAME_SIZE];
} channels;

static hb_mark mark_at(const hb_config *c, const char *key)
{
    return c->mark[hb_config_find(key)];
}

/* The number of a name (or of a number), or -1 with a complaint. */
static int find(const hb_config *c, hb_config_errors *errors, hb_mark mark, const char *key, const channels *of,
                const char *name)
{
    const char *names[HB_MAX_VEHICLE_STATES];
    char *end;

    for (int i = 0; i < of->n; i++)
        if (strcmp(of->name[i], name) == 0)
            return i;
    long number = strtol(name, &end, 10);
    if (isdigit((unsigned char)*name) && !*end) {
        if (number < of->n)
            return (int)number;
        hb_config_error(errors, c, mark, key, "there is no %s %ld: the model has %d, from 0", of->what, number, of->n);
        return -1;
    }
    for (int i = 0; i < of->n && i < HB_MAX_VEHICLE_STATES; i++)
        names[i] = of->name[i];
    const char *near = hb_config_near(name, names, of->n < HB_MAX_VEHICLE_STATES ? of->n : HB_MAX_VEHICLE_STATES);
    char all[200] = "";
    for (int i = 0; i < of->n && strlen(all) < sizeof all - HB_NAME_SIZE - 4; i++) {
        strcat(all, i ? ", " : "");
        strcat(all, of->name[i]);
    }
    hb_config_error(errors, c, mark, key, "the model has no %s '%s'%s%s%s (it has %s)", of->what, name,
                    near ? ": did you mean " : "", near ? near : "", near ? "?" : "", all);
    return -1;
}

/* Fills `to` (of->n numbers, holding the values of what is not named). */
static int fill(const hb_config *c, hb_config_errors *errors, const char *key, const hb_values *v, const channels *of,
                double *to)
{
    hb_mark mark = mark_at(c, key);

    if (v->n && *v->name[0]) {
        for (int i = 0; i < v->n; i++) {
            int k = find(c, errors, mark, key, of, v->name[i]);
            if (k >= 0)
                to[k] = v->value[i];
        }
        return of->n;
    }
    if (v->n && v->n != of->n)
        hb_config_error(errors, c, mark, key, "%d numbers where the model has %d %ss", v->n, of->n, of->what);
    else
        memcpy(to, v->value, (size_t)v->n * sizeof *to);
    return v->n;
}

static bool needs_target(const hb_config_terms *terms)
{
    for (int i = 0; i < terms->n; i++)
        if (hb_cost_kind_table[terms->at[i].cost.kind].needs_target)
            return true;
    return false;
}

static void resolve_cost(hb_config *c, hb_config_errors *errors, const channels *states, const channels *controls)
{
    hb_cost *cost = &c->controller.cost;

    cost->nterms = c->terms.n;
    for (int i = 0; i < c->terms.n; i++) {
        const hb_config_term *t = &c->terms.at[i];
        const channels *of = hb_term_over(t->cost.kind) == HB_TERM_STATES ? states : controls;
        hb_mark mark = t->mark.line ? t->mark : mark_at(c, "cost");
        cost->term[i] = t->cost;
        cost->term[i].nindices = t->n;
        for (int j = 0; j < t->n; j++)
            cost->term[i].index[j] = find(c, errors, mark, "cost", of, t->name[j]);
    }
}

static void resolve_limits(hb_config *c, hb_config_errors *errors, const channels *states, const channels *controls)
{
    hb_limits *limits = &c->controller.cost.limits;

    limits->n = c->limits.n;
    for (int i = 0; i < c->limits.n; i++) {
        const hb_config_limit *l = &c->limits.at[i];
        const channels *of = hb_rule_over(l->limit.kind) == HB_RULE_STATES ? states : controls;
        limits->limit[i] = l->limit;
        limits->limit[i].nindices = l->n;
        for (int j = 0; j < l->n; j++)
            limits->limit[i].index[j] = find(c, errors, l->mark, "limits.rules", of, l->name[j]);
    }
}

/* What actuators cannot do faster is a limit of plans: one for all that are as fast. */
static void resolve_rates(hb_config *c, const hb_model *m, hb_config_errors *errors, const channels *controls)
{
    hb_limits *limits = &c->controller.cost.limits;
    const hb_mark mark = mark_at(c, "actuators.rates");
    double rate[HB_MAX_CONTROLS];

    memcpy(rate, m->actuator_rate, (size_t)m->nu * sizeof *rate);
    fill(c, errors, "actuators.rates", &c->rates, controls, rate);
    for (int i = 0; i < m->nu; i++) {
        if (!(rate[i] >= 0 && rate[i] <= 1e12))
            hb_config_error(errors, c, mark, "actuators.rates", "%s = %g is outside 0..1e+12", m->control_name[i],
                            rate[i]);
        if (!(rate[i] > 0))
            continue;
        hb_limit limit = {.kind = HB_LIMIT_CONTROL_RATES, .name = "actuators.rates", .max = rate[i]};
        for (int j = i; j < m->nu && limit.nindices < HB_LIMIT_INDICES; j++)
            if (rate[j] == limit.max) {
                limit.index[limit.nindices++] = j;
                rate[j] = 0;
            }
        if (limits->n < HB_LIMITS)
            limits->limit[limits->n++] = limit;
        else
            hb_config_error(errors, c, mark, "actuators.rates", "with limits.rules there are more than %d limits",
                            (int)HB_LIMITS);
    }
}

/* Cost and target that were not given are a quadrotor's: another vehicle has none of them. */
static void leave_defaults_out(hb_config *c, const hb_model *m, hb_config_errors *errors)
{
    if (!mark_at(c, "cost").line) {
        c->terms.n = 0;
        if (m->nu > 0)
            hb_config_error(errors, c, (hb_mark){0}, NULL,
                            "cost: none is given, and the default is a quadrotor's: say what a plan is for, such as "
                            "cost: [{kind: squared, states: [%s], weight: 1}]",
                            m->state_name[0]);
    }
    if (!mark_at(c, "target").line) {
        c->target.n = 0;
        if (m->nu > 0 && needs_target(&c->terms))
            hb_config_warn(c, (hb_mark){0}, NULL,
                           "target: none is given, and the default is a quadrotor's: requests without a target of "
                           "their own will be refused; set target: {%s: 0}, or target: [] if that is meant",
                           m->state_name[0]);
    }
}

/* The whole range of the controls moves a state by less of its standard deviation in training than this within a
 * horizon: plans then see little of what they could do about it, and find that waiting costs no more. A quarter to
 * either side; the shipped configurations have 0.97 to 12, a tutorial's car that waits beside its target 0.12. */
static const double hardly_moved = 0.5;

static bool aims_at(const hb_cost_term *t)
{
    return t->kind == HB_COST_DISTANCE || t->kind == HB_COST_SQUARED || t->kind == HB_COST_HUBER;
}

void hb_config_check_horizon(hb_config *c, const hb_model *m)
{
    const hb_controller_settings *s = &c->controller;
    const double dt = s->planner.dt > 0 ? s->planner.dt : m->dt;
    double reach[HB_MAX_VEHICLE_STATES];
    bool wanted[HB_MAX_VEHICLE_STATES] = {0};
    hb_predictor *average = NULL;
    hb_trim *trim = NULL;
    int least = -1;

    for (int i = 0; i < s->cost.nterms; i++)
        for (int j = 0; aims_at(&s->cost.term[i]) && s->cost.term[i].weight > 0 && j < s->cost.term[i].nindices; j++)
            wanted[s->cost.term[i].index[j]] = true;
    /* without memory for it nothing is said here: the start fails and says so */
    if (m->nu > 0 && !hb_predictor_new(&average, m, NULL) && !hb_trim_new(&trim, m, NULL)) {
        hb_predictor_set(average, NULL);
        hb_trim_reach(trim, average, dt, s->planner.horizon, wanted, reach);
        for (int i = 0; i < m->nx; i++)
            if (wanted[i] && reach[i] < hardly_moved && (least < 0 || reach[i] < reach[least]))
                least = i;
    }
    /* a state that no control moves needs no longer horizon */
    if (least >= 0 && reach[least] > 0)
        hb_config_warn(
            c, mark_at(c, "planner.horizon"), "planner.horizon",
            "in %d steps of %g s the controls move %s by %.2g of what it varies by in training at most: plans "
            "may see no use in moving at all; give them more steps",
            s->planner.horizon, dt, m->state_name[least], reach[least]);
    hb_trim_free(trim);
    hb_predictor_free(average);
}

int hb_config_resolve(hb_config *c, const hb_model *m, hb_config_errors *errors)
{
    const channels states = {"state", m->nx, m->state_name}, controls = {"control", m->nu, m->control_name};
    hb_controller_settings *s = &c->controller;
    hb_error err;

    *errors = (hb_config_errors){0};
    if (m->nx > HB_MAX_VEHICLE_STATES || m->nu > HB_MAX_CONTROLS) {
        hb_config_error(errors, c, mark_at(c, "model"), "model",
                        "%d states and %d controls where at most %d and %d are possible", m->nx, m->nu,
                        HB_MAX_VEHICLE_STATES, HB_MAX_CONTROLS);
        return errors->n;
    }
    if (!hb_config_default_fits(m))
        leave_defaults_out(c, m, errors);
    resolve_cost(c, errors, &states, &controls);
    resolve_limits(c, errors, &states, &controls);
    resolve_rates(c, m, errors, &controls);

    memset(s->target, 0, sizeof s->target);
    s->ntarget = fill(c, errors, "target", &c->target, &states, s->target);
    memcpy(s->safe_action, m->control_trim, (size_t)m->nu * sizeof *s->safe_action);
    s->nsafe_action = fill(c, errors, "safe_action", &c->safe_action, &controls, s->safe_action);
    hb_actuator_settings *a = &s->estimator.actuators;
    for (int i = 0; i < HB_MAX_CONTROLS; i++)
        a->lags[i] = a->delays[i] = -1; /* as of all */
    a->nlags = fill(c, errors, "actuators.lags", &c->lags, &controls, a->lags);
    a->ndelays = fill(c, errors, "actuators.delays", &c->delays, &controls, a->delays);
    if (s->planner.ndirections && c->direction_width != m->nu)
        hb_config_error(errors, c, mark_at(c, "planner.directions"), "planner.directions",
                        "rows of %d numbers where the model has %d controls", c->direction_width, m->nu);
    s->estimator.method = c->method ? (hb_method)(c->method - 1) : m->method;
    if (errors->n == 0 && hb_controller_check(m, s, &err))
        hb_config_error_of(errors, c, &err);
    return errors->n;
}
