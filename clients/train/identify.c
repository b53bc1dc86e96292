#include "train/identify.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "data/vehicles.h"

enum { STRETCHES = 2240, POINTS = 5, CHUNKS = 40, UNKNOWNS = HB_NOMINAL_PARAMETERS + 2 * HB_MAX_CONTROLS };
enum { COLUMNS = 4 }; /* of what no control did: a constant, and the velocity in the body */
enum { ROUNDS = 20, FIRST_ROUNDS = 5, OWN_ROUNDS = 3 };

static const double span = 0.2; /* seconds of a stretch */
/* seconds; a longer lag than of any rotor smooths controls that are noisy in the log, which looks better than none */
static const double longest_delay = 0.15, longest_lag = 0.1;
static const double robust = 3;
/* Times the inertia at the start: with all of its mass at the rotors a vehicle has 1.5 times the nominal one, and with
 * arms that are longer than the nominal ones by 1.4 twice that. And times the rotors' torque per thrust: propellers
 * have 0.003 to 0.1 m. */
static const double heaviest = 3, lightest = 1.0 / 3, weakest = 0.1, strongest = 5;
static const double differs = 4, differs_by = 0.005; /* deviations and seconds, of one control from all */
/* beliefs before the data: factors of parameters, seconds */
static const double parameter_spread = 1.5, delay_spread = 0.03, lag_spread = 0.06, own_spread = 0.01;
static const char *const never_told[] = {"gravity", "arm"};

typedef struct stretch {
    int function, episode, row;
} stretch;

/* What is looked for: factors of parameters (their logarithm where they are positive), delays and lags. */
typedef struct unknown {
    enum { PARAMETER, DELAY, LAG } what;
    int index; /* parameter, or control; -1: of all controls */
    double value, prior, spread, step;
} unknown;

typedef struct search {
    const hb_dataset *d;
    const hb_identify_settings *s;
    const hb_nominal *n;
    int nstretches, horizon, every, npoints; /* points: each `every` steps until the horizon */
    stretch *stretch;
    int nstates, state[HB_NOMINAL_PARAMETERS * 4]; /* that errors are measured of */
    bool turns[HB_NOMINAL_PARAMETERS * 4];         /* inertia acts on it */
    bool push;                                     /* the states have a velocity and an attitude */
    double *column; /* nstretches x npoints x COLUMNS: what errors are taken apart into */
    size_t nerrors;
    double *scale;  /* nstates */
    double *behind; /* nstates x HB_STRIDE: errors of the steps so far, of states that go on from what was measured */
    double *acting; /* what acts, of all episodes */
    size_t *first;  /* nepisodes: where in it */
    hb_real *x, *u, *k, *sum, *at, *scratch;
    int nunknowns;
    unknown unknown[UNKNOWNS];
    hb_actuators actuators; /* where no unknown says otherwise */
} search;

/* --- stretches --- */

static int nfunctions(const search *q)
{
    return q->s->function ? q->s->nfunctions : q->d->nfunctions;
}

static int function_at(const search *q, int i)
{
    return q->s->function ? q->s->function[i] : i;
}

/* Side by side over all flights, the same number from each second; what comes first in an episode is left out, since it
 * is not known what was commanded before. */
static void find_stretches(search *q, int apart)
{
    const hb_dataset *d = q->d;
    int skip = (int)ceil(longest_delay / d->header.dt);

    q->nstretches = 0;
    for (int i = 0; i < nfunctions(q); i++) {
        const hb_function *f = &d->function[function_at(q, i)];
        for (int e = f->episode; e < f->episode + f->nepisodes; e++)
            for (int row = skip; row + q->horizon <= d->episode[e].nsteps; row += apart) {
                if (q->stretch)
                    q->stretch[q->nstretches] = (stretch){function_at(q, i), e, row};
                q->nstretches++;
            }
    }
}

static int choose_stretches(search *q, hb_error *err)
{
    const hb_dataset_header *h = &q->d->header;
    int apart;

    q->horizon = (int)fmax(1, fmin(20, round(span / h->dt)));
    q->every = (q->horizon + POINTS - 1) / POINTS;
    q->npoints = q->horizon / q->every;
    apart = q->horizon;
    find_stretches(q, apart);
    if (q->nstretches > STRETCHES) {
        apart = (int)((double)apart * q->nstretches / STRETCHES) + 1;
        find_stretches(q, apart);
    }
    if (q->nstretches < CHUNKS)
        return hb_fail(err, EINVAL, "there are %d stretches of %g s: too few to identify anything", q->nstretches,
                       q->horizon * h->dt);
    q->stretch = calloc((size_t)q->nstretches, sizeof *q->stretch);
    if (!q->stretch)
        return hb_fail(err, ENOMEM, "out of memory");
    find_stretches(q, apart);
    return 0;
}

/* --- errors --- */

/* Inertias have one factor together: flights near hover tell its size at best, and hardly its shape. */
static bool with_inertia(const search *q, int parameter)
{
    return parameter > 0 && q->n->with_mass[0] && q->n->with_mass[parameter] && !q->s->given[parameter];
}

/* Parameters and actuators that the unknowns say. */
static void take(const search *q, const unknown *list, int n, double *parameter, hb_actuators *a)
{
    memcpy(parameter, q->s->start, (size_t)q->n->nparameters * sizeof *parameter);
    *a = q->actuators;
    for (int i = 0; i < n; i++) {
        const unknown *v = &list[i];
        for (int k = 0; k < q->n->nparameters && v->what == PARAMETER; k++)
            if (k == v->index || (with_inertia(q, v->index) && with_inertia(q, k)))
                parameter[k] *= q->n->either_sign[k] ? 1 + v->value : exp(v->value);
        if (v->what != PARAMETER)
            for (int c = 0; c < a->nu; c++)
                if (v->index < 0 || v->index == c)
                    *(v->what == DELAY ? &a->delay[c] : &a->lag[c]) = fmax(0, v->value);
    }
}

static void act(search *q, const hb_actuators *a)
{
    const hb_dataset *d = q->d;
    size_t nu = (size_t)d->header.nu;

    for (int e = 0; e < d->nepisodes; e++) {
        memcpy(q->acting + q->first[e], d->episode[e].u, (size_t)d->episode[e].nsteps * nu * sizeof *q->acting);
        hb_episode_actuate(d, &d->episode[e], a, q->acting + q->first[e]);
    }
}

static void load(const search *q, const stretch *first, int n, int step, const hb_vehicles *v)
{
    const hb_dataset *d = q->d;
    size_t nx = (size_t)d->header.nx, nu = (size_t)d->header.nu;

    for (size_t s = 0; s < (size_t)n; s++) {
        const hb_episode *e = &d->episode[first[s].episode];
        size_t row = (size_t)(first[s].row + step);
        /* kinematics are exact, and rates are added up from what was measured: errors of a state stay its own, and
         * turning too far is not paid for in velocities, which are known far better */
        for (size_t k = 0; k < (size_t)q->nstates; k++) {
            size_t i = (size_t)q->state[k], at = i * HB_STRIDE + s;
            double *behind = &q->behind[k * HB_STRIDE + s];
            *behind = step > 0 && q->turns[k] ? *behind + (double)q->x[at] - e->x[row * nx + i] : 0;
            if (q->turns[k])
                q->x[at] = (hb_real)e->x[row * nx + i];
        }
        for (size_t i = 0; i < nx; i++)
            if (step == 0 || (q->n->kinematic && q->n->kinematic[i]))
                q->x[i * HB_STRIDE + s] = (hb_real)e->x[row * nx + i];
        for (size_t i = 0; i < nu; i++)
            q->u[i * HB_STRIDE + s] =
                (hb_real)(q->acting[q->first[first[s].episode] + row * nu + i] / v->scale[first[s].function]);
    }
}

/* One step of RK4 of the physics, in place. */
static void advance(search *q, const double *parameter, int n, double dt)
{
    size_t size = (size_t)q->d->header.nx * HB_STRIDE;
    static const double to[] = {0.5, 0.5, 1}, share[] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};

    memcpy(q->at, q->x, size * sizeof *q->at);
    memset(q->sum, 0, size * sizeof *q->sum);
    for (int stage = 0; stage < 4; stage++) {
        q->n->field(q->n, parameter, n, q->at, q->u, q->k, q->scratch);
        for (size_t i = 0; i < size; i++) {
            q->sum[i] += (hb_real)(share[stage] * dt) * q->k[i];
            if (stage < 3)
                q->at[i] = q->x[i] + (hb_real)(to[stage] * dt) * q->k[i];
        }
    }
    for (size_t i = 0; i < size; i++)
        q->x[i] += q->sum[i];
}

/* What errors of one state are taken apart into: a constant acceleration (column 0) and ones that are as the velocity
 * in the body, each summed up over time, least squares with Huber's weights. */
static void remove_explained(const search *q, int from, int to, size_t k, double *error)
{
    size_t np = (size_t)q->npoints, ns = (size_t)q->nstates;
    double a[COLUMNS * COLUMNS] = {0}, b[COLUMNS] = {0}, limit = robust * q->scale[k];
    const int first = q->turns[k] && np > 2 ? 1 : 0, n = q->turns[k] && q->push ? COLUMNS - first : 1;

    for (size_t i = (size_t)from * np; i < (size_t)to * np; i++) {
        double e = error[i * ns + k], w = limit > 0 && fabs(e) > limit ? limit / fabs(e) : 1;
        const double *x = q->column + i * COLUMNS + first;
        for (int r = 0; r < n; r++) {
            b[r] += w * x[r] * e;
            for (int c = 0; c <= r; c++)
                a[r * n + c] += w * x[r] * x[c];
        }
    }
    for (int r = 0; r < n; r++)
        a[r * (n + 1)] += 1e-9 * a[r * (n + 1)] + 1e-30;
    if (hb_cholesky(n, a))
        return;
    hb_cholesky_solve(n, a, 1, b);
    for (size_t i = (size_t)from * np; i < (size_t)to * np; i++)
        for (int r = 0; r < n; r++)
            error[i * ns + k] -= b[r] * q->column[i * COLUMNS + (size_t)(first + r)];
}

/* Takes a constant acceleration out of one stretch of numbers that are `every` apart. */
static void remove_mean_rate(const search *q, double *at, size_t every)
{
    double up = 0, down = 0;

    for (int i = 0; i < q->npoints; i++) {
        up += (i + 1) * at[(size_t)i * every];
        down += (i + 1) * (i + 1);
    }
    for (int i = 0; i < q->npoints; i++)
        at[(size_t)i * every] -= up / down * (i + 1);
}

/* Takes out of the errors what no control did. Rotors that differ and a centre of mass beside them push a vehicle all
 * the time, and would pass for a small effect of the controls: each flight has an acceleration of its own. What turns a
 * vehicle is air above all, as it moves, and its controller cancels that: torques and disturbances go together, and
 * torques seem to do next to nothing (on nanobench 1/50 of what they do). So its rates have one in each stretch, and in
 * each flight ones that are as its velocity in the body; torques are told by what is left, and changes faster. */
static void remove_offsets(search *q, double *error)
{
    size_t np = (size_t)q->npoints, ns = (size_t)q->nstates;

    for (int from = 0, to; from < q->nstretches; from = to) {
        for (to = from + 1; to < q->nstretches && q->stretch[to].function == q->stretch[from].function; to++)
            ;
        for (size_t k = 0; k < ns; k++) {
            for (int at = from; at < to && q->turns[k] && np > 2; at++)
                remove_mean_rate(q, error + (size_t)at * np * ns + k, ns);
            if (!q->turns[k] || np <= 2 || q->push)
                remove_explained(q, from, to, k, error);
        }
    }
}

/* A component of the velocity as the body has it; the quaternion has its real part last. */
static double in_body(const double *x, const int *velocity, const int *attitude, int component)
{
    double q[4], v[3], t[3];

    for (int i = 0; i < 4; i++)
        q[i] = (i < 3 ? -1 : 1) * x[attitude[i]];
    for (int i = 0; i < 3; i++)
        v[i] = x[velocity[i]];
    for (int i = 0; i < 3; i++)
        t[i] = 2 * (q[(i + 1) % 3] * v[(i + 2) % 3] - q[(i + 2) % 3] * v[(i + 1) % 3]);
    int a = (component + 1) % 3, b = (component + 2) % 3;
    return v[component] + q[3] * t[component] + q[a] * t[b] - q[b] * t[a];
}

/* The columns of what is taken out, from the log: time, and the velocity in the body summed up, without the mean of
 * each stretch. */
static void find_columns(search *q)
{
    static const char *const name[] = {"vx", "vy", "vz", "qx", "qy", "qz", "qw"};
    const hb_dataset *d = q->d;
    size_t nx = (size_t)d->header.nx, np = (size_t)q->npoints;
    int at[7], found = 0;

    for (int i = 0; i < 7; i++)
        for (int k = 0; k < d->header.nx; k++)
            if (strcmp(d->header.state_name[k], name[i]) == 0) {
                at[i] = k;
                found++;
            }
    q->push = found == 7;

    for (int s = 0; s < q->nstretches; s++) {
        const hb_episode *e = &d->episode[q->stretch[s].episode];
        double *to = q->column + (size_t)s * np * COLUMNS, way[3] = {0};
        for (int step = 0; step < q->every * q->npoints; step++) {
            const double *x = e->x + (size_t)(q->stretch[s].row + step) * nx;
            for (int i = 0; i < 3 && q->push; i++)
                way[i] += in_body(x, at, at + 3, i) / q->every;
            if ((step + 1) % q->every == 0) {
                size_t point = (size_t)((step + 1) / q->every - 1);
                to[point * COLUMNS] = (double)point + 1;
                memcpy(to + point * COLUMNS + 1, way, sizeof way);
            }
        }
        for (int i = 1; i < COLUMNS && np > 2; i++)
            remove_mean_rate(q, to + i, COLUMNS);
    }
}

/* Errors of all stretches: nstretches x npoints x nstates, physical. A vehicle at a time, since each has its own
 * parameters. */
static int evaluate(search *q, const unknown *list, int nlist, double *error, hb_error *err)
{
    const hb_dataset *d = q->d;
    double parameter[HB_NOMINAL_PARAMETERS];
    hb_actuators a;
    hb_vehicles *v = NULL;
    size_t nx = (size_t)d->header.nx, np = (size_t)q->n->nparameters;

    take(q, list, nlist, parameter, &a);
    int status = hb_vehicles_new(&v, d, q->n, parameter, err);
    if (status)
        return status;
    act(q, &a);
    for (int at = 0, n = 0; at < q->nstretches; at += n) {
        const stretch *first = &q->stretch[at];
        for (n = 1; n < HB_STRIDE && at + n < q->nstretches && first[n].function == first[0].function; n++)
            ;
        memset(q->x, 0, nx * HB_STRIDE * sizeof *q->x);
        for (int step = 0; step < q->horizon; step++) {
            load(q, first, n, step, v);
            advance(q, v->parameter + (size_t)first[0].function * np, n, d->header.dt);
            if ((step + 1) % q->every || (step + 1) / q->every > q->npoints)
                continue;
            size_t point = (size_t)((step + 1) / q->every - 1);
            for (size_t s = 0; s < (size_t)n; s++)
                for (size_t k = 0; k < (size_t)q->nstates; k++) {
                    const hb_episode *e = &d->episode[first[s].episode];
                    size_t i = (size_t)q->state[k], row = (size_t)(first[s].row + step + 1);
                    double off = (double)q->x[i * HB_STRIDE + s] - e->x[row * nx + i] + q->behind[k * HB_STRIDE + s];
                    error[(((size_t)at + s) * (size_t)q->npoints + point) * (size_t)q->nstates + k] =
                        isfinite(off) ? off : 1e6;
                }
        }
    }
    hb_vehicles_free(v);
    remove_offsets(q, error);
    return 0;
}

/* --- the search --- */

/* What a state leaves, by the median of absolute errors, so that outliers and stretches that fail do not count. */
static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure_scale(search *q, const double *error, double *sorted)
{
    size_t ns = (size_t)q->nstates, n = q->nerrors / ns;

    for (size_t k = 0; k < ns; k++) {
        for (size_t i = 0; i < n; i++)
            sorted[i] = fabs(error[i * ns + k]);
        qsort(sorted, n, sizeof *sorted, compare);
        q->scale[k] = fmax(1.4826 * sorted[n / 2], 1e-12);
    }
}

/* Huber's loss, and the share with which an error counts. */
static double weight(const search *q, size_t i, const double *error, double *ret_loss)
{
    double e = fabs(error[i]) / q->scale[i % (size_t)q->nstates];

    *ret_loss = e <= robust ? e * e : robust * (2 * e - robust);
    return e <= robust ? 1 : robust / e;
}

static double cost(const search *q, const unknown *list, int n, const double *error)
{
    double sum = 0, loss;

    for (size_t i = 0; i < q->nerrors; i++) {
        weight(q, i, error, &loss);
        sum += loss;
    }
    for (int i = 0; i < n; i++)
        sum += pow((list[i].value - list[i].prior) / list[i].spread, 2);
    return sum;
}

typedef struct memory {
    double *error, *other, *slope; /* nerrors; nerrors; UNKNOWNS used x nerrors */
} memory;

/* Slopes of the errors, normal equations A and g = J^T W e. */
static int linearise(search *q, memory *m, double *a, double *g, hb_error *err)
{
    const int n = q->nunknowns;
    double loss;

    for (int k = 0; k < n; k++) {
        unknown moved[UNKNOWNS];
        memcpy(moved, q->unknown, sizeof moved);
        moved[k].value += moved[k].step;
        int status = evaluate(q, moved, n, m->other, err);
        if (status)
            return status;
        for (size_t i = 0; i < q->nerrors; i++)
            m->slope[(size_t)k * q->nerrors + i] = (m->other[i] - m->error[i]) / moved[k].step;
    }
    memset(a, 0, (size_t)n * (size_t)n * sizeof *a);
    memset(g, 0, (size_t)n * sizeof *g);
    for (size_t i = 0; i < q->nerrors; i++) {
        double s = q->scale[i % (size_t)q->nstates], w = weight(q, i, m->error, &loss) / (s * s);
        for (int r = 0; r < n; r++) {
            double jr = m->slope[(size_t)r * q->nerrors + i];
            g[r] += w * jr * m->error[i];
            for (int c = 0; c <= r; c++)
                a[r * n + c] += w * jr * m->slope[(size_t)c * q->nerrors + i];
        }
    }
    for (int r = 0; r < n; r++) {
        double p = 1 / (q->unknown[r].spread * q->unknown[r].spread);
        a[r * n + r] += p;
        g[r] += p * (q->unknown[r].value - q->unknown[r].prior);
    }
    return 0;
}

static void clamp(const search *q, unknown *u)
{
    if (u->what == DELAY)
        u->value = fmin(fmax(u->value, 0), longest_delay);
    else if (u->what == LAG)
        u->value = fmin(fmax(u->value, 0), longest_lag);
    else if (q->n->either_sign[u->index])
        u->value = copysign(fmin(fmax(fabs(1 + u->value), weakest), strongest), 1 + u->value) - 1;
    else if (with_inertia(q, u->index))
        u->value = fmin(fmax(u->value, log(lightest)), log(heaviest));
}

/* Damped Gauss-Newton steps; m->error is that of the unknowns as they are, before and after. */
static int descend(search *q, memory *m, int rounds, const hb_watch *watch, double from, double to, hb_error *err)
{
    const int n = q->nunknowns;
    double *a = calloc((size_t)n * (size_t)n + 1, sizeof *a), *factor = calloc((size_t)n * (size_t)n + 1, sizeof *a);
    double g[UNKNOWNS], step[UNKNOWNS], damping = 1e-3;
    int status = a && factor ? 0 : hb_fail(err, ENOMEM, "out of memory");

    for (int round = 0; round < rounds && !status && n > 0; round++) {
        measure_scale(q, m->error, m->other);
        double before = cost(q, q->unknown, n, m->error), after = before;
        if ((status = linearise(q, m, a, g, err)))
            break;
        for (int trial = 0; trial < 6 && !(after < before); trial++) {
            unknown moved[UNKNOWNS];
            memcpy(factor, a, (size_t)n * (size_t)n * sizeof *a);
            for (int i = 0; i < n; i++)
                factor[i * n + i] *= 1 + damping;
            memcpy(step, g, (size_t)n * sizeof *g);
            if (hb_cholesky(n, factor))
                break;
            hb_cholesky_solve(n, factor, 1, step);
            memcpy(moved, q->unknown, sizeof moved);
            for (int i = 0; i < n; i++) {
                /* a parameter changes by an e-fold at most at a time */
                moved[i].value -= moved[i].what == PARAMETER ? fmax(-1, fmin(1, step[i])) : step[i];
                clamp(q, &moved[i]);
            }
            if ((status = evaluate(q, moved, n, m->other, err)))
                break;
            after = cost(q, moved, n, m->other);
            damping *= after < before ? 0.2 : 10;
            if (after < before) {
                memcpy(q->unknown, moved, sizeof moved);
                memcpy(m->error, m->other, q->nerrors * sizeof *m->error);
            }
        }
        if (!status)
            status = hb_watch_at(watch, from + (to - from) * (round + 1) / rounds, err);
        if (!(after < before * (1 - 1e-5)))
            break;
    }
    free(a);
    free(factor);
    return status;
}

/* Deviations of the unknowns: A^-1 (sum over chunks of g g^T) A^-1. */
static int certainty(search *q, memory *m, double *deviation, hb_error *err)
{
    const int n = q->nunknowns;
    double *a = calloc(2 * (size_t)n * (size_t)n + 1, sizeof *a), *meat = a + n * n, g[UNKNOWNS], loss;
    int status = a ? linearise(q, m, a, g, err) : hb_fail(err, ENOMEM, "out of memory");

    if (!status && hb_cholesky(n, a))
        status = hb_fail(err, EINVAL, "the flights do not tell the physics' parameters");
    size_t each = ((size_t)q->nstretches + CHUNKS - 1) / CHUNKS * (size_t)q->npoints * (size_t)q->nstates;
    for (size_t from = 0; from < q->nerrors && !status; from += each) {
        memset(g, 0, sizeof g);
        for (size_t i = from; i < from + each && i < q->nerrors; i++) {
            double s = q->scale[i % (size_t)q->nstates], w = weight(q, i, m->error, &loss) / (s * s);
            for (int r = 0; r < n; r++)
                g[r] += w * m->slope[(size_t)r * q->nerrors + i] * m->error[i];
        }
        hb_cholesky_solve(n, a, 1, g);
        for (int r = 0; r < n; r++)
            meat[r] += g[r] * g[r];
    }
    for (int r = 0; r < n && !status; r++)
        deviation[r] = sqrt(meat[r] * CHUNKS / (CHUNKS - 1));
    free(a);
    return status;
}

/* --- what is found --- */

static void add_parameters(search *q)
{
    for (int i = 0; i < q->n->nparameters; i++) {
        bool skip = q->s->given[i] || q->s->start[i] == 0;
        for (int k = 0; k < i; k++)
            skip = skip || (with_inertia(q, i) && with_inertia(q, k));
        for (size_t k = 0; k < sizeof never_told / sizeof *never_told; k++)
            skip = skip || strcmp(q->n->parameter_name[i], never_told[k]) == 0;
        if (!skip)
            q->unknown[q->nunknowns++] =
                (unknown){.what = PARAMETER, .index = i, .spread = parameter_spread, .step = 0.01};
    }
}

static void add_actuators(search *q, int control, double delay, double lag, double spread)
{
    q->unknown[q->nunknowns++] = (unknown){.what = DELAY,
                                           .index = control,
                                           .value = delay,
                                           .prior = spread > 0 ? delay : 0,
                                           .spread = spread > 0 ? spread : delay_spread,
                                           .step = 0.002};
    q->unknown[q->nunknowns++] = (unknown){.what = LAG,
                                           .index = control,
                                           .value = lag,
                                           .prior = spread > 0 ? lag : 0,
                                           .spread = spread > 0 ? spread : lag_spread,
                                           .step = 0.002};
}

static double value_of(const search *q, const double *of, int what, int index)
{
    for (int i = 0; i < q->nunknowns; i++)
        if ((int)q->unknown[i].what == what && q->unknown[i].index == index)
            return of ? of[i] : q->unknown[i].value;
    return 0;
}

/* The best of a few delays and lags to begin with, parameters fitted to each for a few rounds. */
static int begin(search *q, memory *m, const hb_watch *watch, hb_error *err)
{
    static const double try[][2] = {{0, 0}, {0.02, 0}, {0, 0.03}, {0.02, 0.03}, {0.04, 0}, {0, 0.08}};
    enum { TRIES = sizeof try / sizeof *try };
    unknown best[UNKNOWNS], first[UNKNOWNS];
    int n = q->nunknowns, chosen = 0, status = 0;
    double least = INFINITY;

    memcpy(first, q->unknown, sizeof first);
    /* what all are compared by */
    if ((status = evaluate(q, q->unknown, n, m->error, err)))
        return status;
    measure_scale(q, m->error, m->other);
    double *scale = calloc((size_t)q->nstates, sizeof *scale);
    if (!scale)
        return hb_fail(err, ENOMEM, "out of memory");
    for (int t = 0; t < TRIES && !status; t++) {
        memcpy(q->unknown, first, sizeof first);
        for (int c = 0; c < q->actuators.nu; c++) {
            q->actuators.delay[c] = try[t][0];
            q->actuators.lag[c] = try[t][1];
        }
        if ((status = evaluate(q, q->unknown, n, m->error, err)) ||
            (status = descend(q, m, FIRST_ROUNDS, watch, 0.4 * t / TRIES, 0.4 * (t + 1) / TRIES, err)))
            break;
        if (t == 0)
            measure_scale(q, m->error, m->other), memcpy(scale, q->scale, (size_t)q->nstates * sizeof *scale);
        memcpy(q->scale, scale, (size_t)q->nstates * sizeof *scale);
        double now = cost(q, q->unknown, n, m->error);
        if (now < least) {
            least = now;
            chosen = t;
            memcpy(best, q->unknown, sizeof best);
        }
    }
    free(scale);
    memcpy(q->unknown, best, sizeof best);
    add_actuators(q, -1, try[chosen][0], try[chosen][1], 0);
    return status ? status : evaluate(q, q->unknown, q->nunknowns, m->error, err);
}

static void remove_unknown(search *q, int what, int index)
{
    int n = 0;

    for (int i = 0; i < q->nunknowns; i++)
        if (!((int)q->unknown[i].what == what && q->unknown[i].index == index))
            q->unknown[n++] = q->unknown[i];
    q->nunknowns = n;
}

static void keep(search *q, int what, double value)
{
    for (int c = 0; c < q->actuators.nu; c++)
        *(what == DELAY ? &q->actuators.delay[c] : &q->actuators.lag[c]) = value;
}

/* deviations that a delay or a lag of all controls is from none; infinite where there is none to be dropped */
static double told(const search *q, const double *deviation, int what)
{
    double value = value_of(q, NULL, what, -1), sure = value_of(q, deviation, what, -1);

    if (sure <= 0)
        return INFINITY;
    return value > 0.002 ? value / sure : 0;
}

/* A delay or a lag that is not told from none is none, and the rest is fitted without it. One can stand for the other:
 * the less certain of the two goes first, and the other one may be certain then. */
static int drop_uncertain(search *q, memory *m, double *deviation, hb_error *err)
{
    int status = 0;

    for (int round = 0; round < 2 && !status; round++) {
        int what = told(q, deviation, DELAY) < told(q, deviation, LAG) ? DELAY : LAG;
        if (!(told(q, deviation, what) < 2))
            break;
        remove_unknown(q, what, -1);
        keep(q, what, 0);
        if (!(status = evaluate(q, q->unknown, q->nunknowns, m->error, err)) &&
            !(status = descend(q, m, OWN_ROUNDS, NULL, 0, 0, err)))
            status = certainty(q, m, deviation, err);
    }
    return status;
}

/* Controls by themselves, beginning at what all have. */
static int tell_apart(search *q, memory *m, hb_identified *ret, const hb_watch *watch, hb_error *err)
{
    double deviation[UNKNOWNS] = {0}, delay = ret->actuators.delay[0], lag = ret->actuators.lag[0];
    int status, nu = q->d->header.nu;

    remove_unknown(q, DELAY, -1);
    remove_unknown(q, LAG, -1);
    keep(q, DELAY, delay);
    keep(q, LAG, lag);
    for (int c = 0; c < nu; c++)
        add_actuators(q, c, delay, lag, own_spread);
    if ((status = evaluate(q, q->unknown, q->nunknowns, m->error, err)) ||
        (status = descend(q, m, OWN_ROUNDS, watch, 0.8, 1, err)) || (status = certainty(q, m, deviation, err)))
        return status;
    for (int k = 0; k < 2; k++) {
        double *found = k == 0 ? ret->delay_found : ret->lag_found,
               *to = k == 0 ? ret->actuators.delay : ret->actuators.lag;
        double *sure = k == 0 ? ret->delay_deviation : ret->lag_deviation, up = 0, down = 0;
        for (int c = 0; c < nu; c++) {
            found[c] = value_of(q, NULL, k == 0 ? DELAY : LAG, c);
            sure[c] = fmax(value_of(q, deviation, k == 0 ? DELAY : LAG, c), 1e-4);
            up += found[c] / (sure[c] * sure[c]);
            down += 1 / (sure[c] * sure[c]);
        }
        for (int c = 0; c < nu; c++) {
            double apart = fabs(found[c] - up / down);
            if (apart < differs * sure[c] || apart < differs_by)
                continue;
            to[c] = found[c];
            ret->own[c] = true;
        }
    }
    return 0;
}

static double root_mean_square(const search *q, const double *error)
{
    double sum = 0, loss;

    for (size_t i = 0; i < q->nerrors; i++) {
        weight(q, i, error, &loss);
        sum += loss;
    }
    return sqrt(sum / (double)q->nerrors);
}

static void settle_parameters(const search *q, const double *parameter, const double *deviation, hb_identified *ret)
{
    memcpy(ret->parameter, parameter, (size_t)q->n->nparameters * sizeof *parameter);
    for (int i = 0; i < q->nunknowns; i++)
        for (int k = 0; k < q->n->nparameters && q->unknown[i].what == PARAMETER; k++) {
            if (k != q->unknown[i].index && !(with_inertia(q, k) && with_inertia(q, q->unknown[i].index)))
                continue;
            ret->factor[k] = parameter[k] / q->s->start[k];
            ret->factor_deviation[k] = deviation[i] * (q->n->either_sign[k] ? 1 : ret->factor[k]);
        }
}

static int identify(search *q, memory *m, hb_identified *ret, const hb_watch *watch, hb_error *err)
{
    double deviation[UNKNOWNS] = {0}, parameter[HB_NOMINAL_PARAMETERS];
    bool moves = !q->s->actuators_given && q->d->header.nu > 0;
    unknown parameters[UNKNOWNS];
    int status;

    q->actuators = q->s->actuators;
    add_parameters(q);
    if ((status = evaluate(q, q->unknown, q->nunknowns, m->error, err)))
        return status;
    if (moves && (status = begin(q, m, watch, err)))
        return status;
    if ((status = descend(q, m, ROUNDS, watch, 0.4, 0.8, err)) || (status = certainty(q, m, deviation, err)) ||
        (moves && (status = drop_uncertain(q, m, deviation, err))))
        return status;
    *ret = (hb_identified){.nominal = q->n, .stretches = q->nstretches};
    take(q, q->unknown, q->nunknowns, parameter, &ret->actuators);
    settle_parameters(q, parameter, deviation, ret);
    measure_scale(q, m->error, m->other);
    ret->after = root_mean_square(q, m->error);
    memcpy(parameters, q->unknown, sizeof parameters);
    int n = q->nunknowns;
    if (moves && (status = tell_apart(q, m, ret, watch, err)))
        return status;
    q->nunknowns = 0;
    q->actuators = q->s->actuators;
    if (!(status = evaluate(q, parameters, 0, m->error, err)))
        ret->before = root_mean_square(q, m->error);
    (void)n;
    return status;
}

/* Which states inertia acts on: those whose rates change with it, at the first stretch. */
static void find_turning(search *q)
{
    const hb_nominal *n = q->n;
    double heavy[HB_NOMINAL_PARAMETERS];
    const stretch *at = &q->stretch[0];
    size_t nx = (size_t)q->d->header.nx, nu = (size_t)q->d->header.nu;

    memcpy(heavy, q->s->start, (size_t)n->nparameters * sizeof *heavy);
    for (int i = 1; i < n->nparameters; i++)
        heavy[i] *= n->with_mass[0] && n->with_mass[i] ? 2 : 1;
    memset(q->x, 0, nx * HB_STRIDE * sizeof *q->x);
    for (size_t i = 0; i < nx; i++)
        q->x[i * HB_STRIDE] = (hb_real)q->d->episode[at->episode].x[(size_t)at->row * nx + i];
    for (size_t i = 0; i < nu; i++)
        q->u[i * HB_STRIDE] = (hb_real)q->d->episode[at->episode].u[(size_t)at->row * nu + i];
    n->field(n, q->s->start, 1, q->x, q->u, q->k, q->scratch);
    n->field(n, heavy, 1, q->x, q->u, q->sum, q->scratch);
    for (int k = 0; k < q->nstates; k++) {
        size_t i = (size_t)q->state[k] * HB_STRIDE;
        q->turns[k] = q->k[i] < q->sum[i] || q->k[i] > q->sum[i];
    }
}

static int set_up(search *q, memory *m, hb_error *err)
{
    const hb_dataset *d = q->d;
    size_t nx = (size_t)d->header.nx, nu = (size_t)d->header.nu, steps = 0;
    int status = choose_stretches(q, err);

    if (status)
        return status;
    for (int i = 0; i < d->header.nx && q->nstates < (int)(sizeof q->state / sizeof *q->state); i++)
        if (!q->n->kinematic || !q->n->kinematic[i])
            q->state[q->nstates++] = i;
    q->nerrors = (size_t)q->nstretches * (size_t)q->npoints * (size_t)q->nstates;
    size_t most = (size_t)q->n->nparameters + 2 * nu + 2;
    q->first = calloc((size_t)d->nepisodes, sizeof *q->first);
    for (int e = 0; e < d->nepisodes && q->first; e++) {
        q->first[e] = steps * nu;
        steps += (size_t)d->episode[e].nsteps;
    }
    q->acting = calloc(steps * nu + 1, sizeof *q->acting);
    q->column = calloc((size_t)q->nstretches * (size_t)q->npoints * COLUMNS, sizeof *q->column);
    q->scale = calloc((size_t)q->nstates * (1 + HB_STRIDE) + 1, sizeof *q->scale);
    m->error = calloc(q->nerrors * (most + 2), sizeof *m->error);
    hb_arena arena = {0};
    for (int pass = 0; pass < 2; pass++) {
        q->x = hb_arena_take(&arena, nx * HB_STRIDE, sizeof *q->x);
        q->k = hb_arena_take(&arena, nx * HB_STRIDE, sizeof *q->k);
        q->sum = hb_arena_take(&arena, nx * HB_STRIDE, sizeof *q->sum);
        q->at = hb_arena_take(&arena, nx * HB_STRIDE, sizeof *q->at);
        q->u = hb_arena_take(&arena, (nu + 1) * HB_STRIDE, sizeof *q->u);
        q->scratch = hb_arena_take(&arena, ((size_t)q->n->rows + 1) * HB_STRIDE, sizeof *q->scratch);
        if (pass == 0 && (status = hb_arena_allocate(&arena, err)))
            return status;
    }
    if (!q->first || !q->acting || !q->column || !q->scale || !m->error)
        return hb_fail(err, ENOMEM, "out of memory");
    q->behind = q->scale + q->nstates;
    m->other = m->error + q->nerrors;
    m->slope = m->other + q->nerrors;
    find_turning(q);
    find_columns(q);
    return 0;
}

int hb_identify(hb_identified *ret, const hb_dataset *d, const hb_identify_settings *s, const hb_watch *watch,
                hb_error *err)
{
    search *q = calloc(1, sizeof *q);
    memory m = {0};
    int status = q ? 0 : hb_fail(err, ENOMEM, "out of memory");

    if (!status && (d->header.nx != s->nominal->nx || d->header.nu != s->nominal->nu))
        status = hb_fail(err, EINVAL, "the data have %d states and %d controls, the nominal model '%s' %d and %d",
                         d->header.nx, d->header.nu, s->nominal->name, s->nominal->nx, s->nominal->nu);
    if (!status && d->stream)
        status = hb_fail(err, EINVAL, "flights that stay on the disk are not identified from: give --delay and --lag");
    if (!status) {
        q->d = d;
        q->s = s;
        q->n = s->nominal;
        if (!(status = set_up(q, &m, err)))
            status = identify(q, &m, ret, watch, err);
    }
    if (q) {
        free(q->stretch);
        free(q->first);
        free(q->acting);
        free(q->column);
        free(q->scale);
        free(q->x);
    }
    free(m.error);
    free(q);
    return status;
}

/* At the limit of what a vehicle can be. */
static bool is_bound(const hb_nominal *n, int parameter, double factor)
{
    static const double close = 1e-3;

    if (n->either_sign[parameter])
        return fabs(factor) < weakest * (1 + close) || fabs(factor) > strongest * (1 - close);
    return n->with_mass[0] && n->with_mass[parameter] && parameter > 0 &&
           (factor > heaviest * (1 - close) || factor < lightest * (1 + close));
}

void hb_identified_print(const hb_identified *i, const hb_dataset *d, FILE *out)
{
    const hb_nominal *n = i->nominal;

    fprintf(out, "identified from %d stretches of flight; errors of the physics alone are %.2f of what they were\n",
            i->stretches, i->after / i->before);
    bool bounded = false;
    for (int k = 0; k < n->nparameters; k++) {
        double f = i->factor[k], sure = i->factor_deviation[k];
        if (sure == 0)
            continue;
        bool bound = is_bound(n, k, f);
        bounded = bounded || bound;
        fprintf(out, "  %-14s %.4g +- %.2g%s%s%s\n", n->parameter_name[k], i->parameter[k],
                fabs(i->parameter[k]) * sure / fabs(f), sure > 0.5 * fabs(f) ? ": the flights hardly tell" : "",
                n->either_sign[k] && f < 0 ? "; the other way round" : "", bound ? "; as far as a vehicle can be" : "");
    }
    if (bounded)
        fprintf(out,
                "  warning: the flights would have it even further from the start: controls in the log are not what "
                "acted (noise,\n  aliasing, another order of the rotors), or a controller cancels what nobody "
                "measured. If you know the true\n  value, give it (--average ...:name=value)\n");
    for (int c = 0; c < d->header.nu; c++)
        if (i->delay_deviation[c] > 0 || i->lag_deviation[c] > 0)
            fprintf(out, "  %-14s delay %.1f +- %.1f ms, lag %.1f +- %.1f ms; taken: %.1f and %.1f ms%s\n",
                    d->header.control_name[c], 1e3 * i->delay_found[c], 1e3 * i->delay_deviation[c],
                    1e3 * i->lag_found[c], 1e3 * i->lag_deviation[c], 1e3 * i->actuators.delay[c],
                    1e3 * i->actuators.lag[c], i->own[c] ? ", its own" : "");
}
