#include "train/online.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "common/json.h"
#include "data/vehicles.h"
#include "dynamics/predictor.h"

const char *const hb_online_row[HB_ONLINE_ROWS] = {"c = 0", "prior mean", "after 1 s", "after 5 s", "online"};
const int hb_online_steps[HB_ONLINE_STEPS] = {1, 10, 30, 50};

const hb_actuator_settings hb_online_acting = {.delay = 0, .lag = 0, .identify = false};

enum { ZERO, PRIOR, ONE_SECOND, FIVE_SECONDS, NOW };
enum { LONGEST = 50, BANDED = 10, DRAWS = 24 };

static const double away = 100; /* deviations */
static const double first_start = 5;
static const double lasting_time = 0.4; /* seconds over which errors add up: what a model does not know lasts */

/* Sums over one function's starts. */
typedef struct tally {
    int starts;
    double error[HB_ONLINE_ROWS][HB_ONLINE_STEPS][HB_ONLINE_QUANTITIES];
    int count[HB_ONLINE_ROWS][HB_ONLINE_STEPS], ran_away[HB_ONLINE_ROWS];
    double inside[HB_ONLINE_STEPS], banded[HB_ONLINE_STEPS];
    double seconds, judged, out_of_span, transitions, implausible, changes;
    double *lasting, *long_run, lasted; /* nx, nx: of one-step errors; transitions in the second */
    bool failed;
    hb_error err;
} tally;

typedef struct measuring {
    const hb_model *m;
    const hb_dataset *d;
    const hb_online_settings *s;
    hb_online *to;
    tally *tally; /* nfunctions */
} measuring;

/* One function on its way. */
typedef struct walk {
    const measuring *all;
    const hb_model *m;
    hb_model *own; /* the model of this vehicle, where the data know it; else NULL */
    hb_estimator *e;
    hb_predictor *predictor;
    hb_workspace *workspace;
    tally *t;
    uint64_t stream;
    hb_real *c[HB_ONLINE_ROWS];
    bool known[HB_ONLINE_ROWS];
    hb_real *z, *u, *dt;   /* a batch of one */
    hb_real *drawn;        /* coefficients */
    double *factor;        /* of the covariance, nproblems x nb x nb; lower */
    double *acting;        /* of the episode: what its actuators made of its commands */
    hb_actuators behind;   /* those that it was made with */
    const hb_episode *of;  /* NULL: none yet */
    double *path;          /* LONGEST x nx, of a rollout; normalised */
    double *mean, *square; /* BANDED x nx, of rollouts with drawn coefficients */
} walk;

/* Rows of the data in a transition of about the model's period, as the daemon gathers them. */
static int rows_together(const measuring *all)
{
    int n = (int)lround(all->m->dt / all->d->header.dt);
    return n < 1 ? 1 : n;
}

/* --- quantities --- */

static int state_of(const hb_model *m, const char *name)
{
    for (int i = 0; i < m->nx; i++)
        if (strcmp(m->state_name[i], name) == 0)
            return i;
    return -1;
}

static bool add_group(const hb_model *m, hb_online *o, bool *taken, const char *name, const char *unit, int n,
                      const char *const *state)
{
    hb_online_quantity q = {.n = n};

    for (int i = 0; i < n; i++)
        if ((q.state[i] = state_of(m, state[i])) < 0)
            return false;
    for (int i = 0; i < n; i++)
        taken[q.state[i]] = true;
    snprintf(q.name, sizeof q.name, "%s", name);
    snprintf(q.unit, sizeof q.unit, "%s", unit);
    o->quantity[o->nquantities++] = q;
    return true;
}

static void find_quantities(const hb_model *m, hb_online *o)
{
    bool *taken = calloc((size_t)m->nx, sizeof *taken);

    if (!taken)
        return;
    add_group(m, o, taken, "position", "m", 3, (const char *const[]){"x", "y", "z"});
    add_group(m, o, taken, "velocity", "m/s", 3, (const char *const[]){"vx", "vy", "vz"});
    add_group(m, o, taken, "attitude", "rad", 4, (const char *const[]){"qx", "qy", "qz", "qw"});
    add_group(m, o, taken, "rates", "rad/s", 3, (const char *const[]){"wx", "wy", "wz"});
    for (int i = 0; i < m->nx && o->nquantities < HB_ONLINE_QUANTITIES; i++)
        if (!taken[i]) {
            hb_online_quantity *q = &o->quantity[o->nquantities++];
            *q = (hb_online_quantity){.n = 1, .state = {i}};
            snprintf(q->name, sizeof q->name, "%s", m->state_name[i]);
            snprintf(q->unit, sizeof q->unit, "%s", m->state_unit[i]);
        }
    free(taken);
}

/* Physical difference of one quantity; z is normalised, x physical. */
static double difference(const hb_model *m, const hb_online_quantity *q, const double *z, const double *x)
{
    double square = 0, along = 0, length = 0, other = 0;

    for (int i = 0; i < q->n; i++) {
        double a = hb_physical_state(m, q->state[i], z[q->state[i]]), b = x[q->state[i]];
        b += m->angle[q->state[i]] ? 2 * M_PI * rint((a - b) / (2 * M_PI)) : 0; /* the shorter way round */
        square += (a - b) * (a - b);
        along += a * b;
        length += a * a;
        other += b * b;
    }
    if (q->n < 4)
        return sqrt(square);
    return 2 * acos(fmin(1, fabs(along) / sqrt(length * other)));
}

/* --- rollouts --- */

static void normalise(const walk *w, const double *x)
{
    for (int i = 0; i < w->m->nx; i++)
        w->z[(size_t)i * HB_STRIDE] = (hb_real)hb_normalised_state(w->m, i, x[i]);
}

/* One step of the model from w->z with the control of a step of the episode. */
static void advance(walk *w, const hb_episode *e, int step)
{
    const hb_model *m = w->m;
    size_t nu = (size_t)m->nu;

    for (int i = 0; i < m->nu; i++)
        w->u[(size_t)i * HB_STRIDE] = (hb_real)hb_normalised_control(m, i, w->acting[(size_t)step * nu + (size_t)i]);
    for (int i = 0; i < HB_LANES; i++)
        w->dt[i] = (hb_real)hb_episode_dt(w->all->d, e, step);
    hb_batch in = {.n = 1, .z = w->z, .u = m->nu ? w->u : NULL, .dt = w->dt};
    hb_predictor_step(w->predictor, w->workspace, &in, w->z, NULL);
}

static void roll_out(walk *w, const hb_episode *e, int start, int steps, const hb_real *c)
{
    size_t nx = (size_t)w->m->nx;

    hb_predictor_set(w->predictor, c);
    normalise(w, e->x + (size_t)start * nx);
    for (int k = 0; k < steps; k++) {
        advance(w, e, start + k);
        for (size_t i = 0; i < nx; i++)
            w->path[(size_t)k * nx + i] = (double)w->z[i * HB_STRIDE];
    }
}

static void add_errors(walk *w, int row, const hb_episode *e, int start, int steps)
{
    const hb_online *o = w->all->to;
    size_t nx = (size_t)w->m->nx;
    int good = 0; /* steps before it runs away */

    for (bool far = false; good < steps; good++) {
        for (size_t i = 0; i < nx && !far; i++)
            far = !(fabs(w->path[(size_t)good * nx + i]) < away);
        if (far)
            break;
    }
    w->t->ran_away[row] += good < steps;
    for (int s = 0; s < HB_ONLINE_STEPS; s++) {
        int k = hb_online_steps[s];
        if (k > good)
            continue;
        for (int q = 0; q < o->nquantities; q++)
            w->t->error[row][s][q] +=
                difference(w->m, &o->quantity[q], w->path + (size_t)(k - 1) * nx, e->x + (size_t)(start + k) * nx);
        w->t->count[row][s]++;
    }
}

/* --- bands --- */

/* Coefficients drawn from the belief: c + L n, L the factor of its covariance. */
static bool factorise(walk *w)
{
    const hb_model *m = w->m;
    const double *covariance = hb_estimator_covariance(w->e);
    size_t nb = (size_t)m->nb, nproblems = (size_t)hb_model_nproblems(m);

    if (!covariance || nb == 0)
        return false;
    memcpy(w->factor, covariance, nproblems * nb * nb * sizeof *w->factor);
    for (size_t p = 0; p < nproblems; p++) {
        double *f = w->factor + p * nb * nb, largest = 0;
        for (size_t i = 0; i < nb; i++)
            largest = fmax(largest, f[i * (nb + 1)]);
        for (size_t i = 0; i < nb; i++)
            f[i * (nb + 1)] += 1e-9 * largest + 1e-30;
        if (hb_cholesky(m->nb, f))
            return false;
    }
    return true;
}

static void draw_coefficients(walk *w, hb_random_key key, uint64_t index)
{
    size_t nb = (size_t)w->m->nb, nproblems = (size_t)hb_model_nproblems(w->m);
    const hb_real *c = hb_estimator_coefficients(w->e);

    for (size_t p = 0; p < nproblems; p++)
        for (size_t i = 0; i < nb; i++) {
            double sum = (double)c[i * nproblems + p];
            for (size_t k = 0; k <= i; k++)
                sum += w->factor[(p * nb + i) * nb + k] * hb_random_normal(key, index + p * nb + k);
            w->drawn[i * nproblems + p] = (hb_real)sum;
        }
}

static void measure_bands(walk *w, const hb_episode *e, int start, int steps)
{
    const hb_model *m = w->m;
    const double *noise = hb_estimator_noise(w->e);
    hb_random_key key = {.seed = w->all->s->seed, .stream = w->stream};
    size_t nx = (size_t)m->nx, size = BANDED * nx;
    static const double wide = 1.645; /* of a normal distribution's 90 % */
    uint64_t index = (uint64_t)w->t->starts << 32;

    /* noise is that of a period of the model */
    if (steps < BANDED || rows_together(w->all) > 1 || !noise || !factorise(w))
        return;
    memset(w->mean, 0, size * sizeof *w->mean);
    memset(w->square, 0, size * sizeof *w->square);
    for (int r = 0; r < DRAWS; r++) {
        draw_coefficients(w, key, index);
        index += (uint64_t)hb_model_ncoefficients(m);
        hb_predictor_set(w->predictor, w->drawn);
        normalise(w, e->x + (size_t)start * nx);
        for (int k = 0; k < BANDED; k++) {
            advance(w, e, start + k);
            for (size_t i = 0; i < nx; i++) {
                hb_real *z = &w->z[i * HB_STRIDE];
                *z += (hb_real)(sqrt(noise[i]) * hb_random_normal(key, index++));
                w->mean[(size_t)k * nx + i] += (double)*z / DRAWS;
                w->square[(size_t)k * nx + i] += (double)*z * (double)*z / DRAWS;
            }
        }
    }
    for (int s = 0; s < HB_ONLINE_STEPS; s++) {
        size_t k = (size_t)hb_online_steps[s];
        for (size_t i = 0; i < nx && k <= BANDED; i++) {
            double mean = w->mean[(k - 1) * nx + i], variance = w->square[(k - 1) * nx + i] - mean * mean;
            double seen = e->x[((size_t)start + k) * nx + i], expected = hb_physical_state(m, (int)i, mean);
            seen += m->angle[i] ? 2 * M_PI * rint((expected - seen) / (2 * M_PI)) : 0;
            double truth = hb_normalised_state(m, (int)i, seen);
            /* a variance of so many draws is too small by one of them */
            double band = wide * sqrt(fmax(0, variance) * DRAWS / (DRAWS - 1));
            w->t->inside[s] += fabs(truth - mean) <= band;
            w->t->banded[s]++;
        }
    }
}

/* --- walking --- */

/* Controls that act in this episode behind the estimator's actuators of now. */
static int act(walk *w, const hb_episode *e)
{
    const hb_actuators *a = hb_estimator_actuators(w->e);
    size_t nu = (size_t)w->m->nu;

    if (nu == 0 || (w->of == e && memcmp(a, &w->behind, sizeof *a) == 0))
        return 0;
    w->of = e;
    w->behind = *a;
    memcpy(w->acting, e->u, (size_t)e->nsteps * nu * sizeof *w->acting);
    hb_episode_actuate(w->all->d, e, a, w->acting);
    return 0;
}

static void start_here(walk *w, const hb_episode *e, int start)
{
    size_t size = (size_t)hb_model_ncoefficients(w->m) * sizeof(hb_real);
    int steps = e->nsteps - start < LONGEST ? e->nsteps - start : LONGEST;

    memcpy(w->c[NOW], hb_estimator_coefficients(w->e), size);
    w->known[NOW] = true;
    act(w, e);
    for (int row = 0; row < HB_ONLINE_ROWS; row++)
        if (w->known[row]) {
            roll_out(w, e, start, steps, w->c[row]);
            add_errors(w, row, e, start, steps);
        }
    measure_bands(w, e, start, steps);
    w->t->starts++;
}

/* What the coefficients of now make of the next transition, and how errors add up over time. */
static void follow_errors(walk *w, const hb_episode *e, int step, int n, bool believed)
{
    const hb_model *m = w->m;
    tally *t = w->t;
    double dt = 0;

    for (int k = 0; k < n; k++)
        dt += hb_episode_dt(w->all->d, e, step + k);
    double keep = fmax(0, 1 - dt / lasting_time);
    for (int i = 0; i < m->nx; i++) {
        double error = hb_normalised_state(m, i, e->x[(size_t)(step + n) * (size_t)m->nx + (size_t)i]) -
                       (double)w->z[(size_t)i * HB_STRIDE];
        t->lasting[i] = step == 0 ? 0 : t->lasting[i];
        if (believed && isfinite(error))
            t->lasting[i] = keep * t->lasting[i] + error;
        if (t->seconds > 1)
            t->long_run[i] += (1 - keep * keep) * t->lasting[i] * t->lasting[i];
    }
    t->lasted += t->seconds > 1;
}

/* A transition over n steps, with the mean of their commands. */
static void push(walk *w, const hb_episode *e, int step, int n)
{
    const hb_dataset *d = w->all->d;
    const hb_model *m = w->m;
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu, size = (size_t)hb_model_ncoefficients(m) * sizeof(hb_real);
    const hb_health *h = hb_estimator_health(w->e);
    uint64_t changes = h->changes, implausible = h->implausible;
    tally *t = w->t;
    double told[HB_MAX_CONTROLS] = {0}, dt = 0;

    for (int k = 0; k < n; k++) {
        dt += hb_episode_dt(d, e, step + k);
        for (size_t i = 0; i < nu; i++)
            told[i] += e->u[(size_t)(step + k) * nu + i] / n;
    }
    hb_transition given = {.x = e->x + (size_t)step * nx,
                           .u = nu ? told : NULL,
                           .x_next = e->x + (size_t)(step + n) * nx,
                           .dt = dt,
                           .continues = step > 0,
                           .before = step > 0 && nu ? e->u + (size_t)(step - 1) * nu : NULL};

    if (t->long_run) {
        act(w, e);
        hb_predictor_set(w->predictor, hb_estimator_coefficients(w->e));
        normalise(w, given.x);
        for (int k = 0; k < n; k++)
            advance(w, e, step + k);
    }
    hb_estimator_push(w->e, &given);
    while (hb_estimator_work(w->e)) {
    }
    t->seconds += given.dt;
    t->transitions++;
    h = hb_estimator_health(w->e);
    t->changes += (double)(h->changes - changes);
    t->implausible += h->implausible > implausible;
    if (t->long_run)
        follow_errors(w, e, step, n, h->implausible == implausible);
    if (t->seconds > 1) {
        t->judged++;
        t->out_of_span += h->status == HB_ESTIMATE_OUT_OF_SPAN;
    }
    for (int row = ONE_SECOND; row <= FIVE_SECONDS; row++)
        if (!w->known[row] && t->seconds >= (row == ONE_SECOND ? 1 : 5) - 1e-9) {
            memcpy(w->c[row], hb_estimator_coefficients(w->e), size);
            w->known[row] = true;
        }
}

static void walk_function(walk *w, int function)
{
    const hb_dataset *d = w->all->d;
    const hb_function *f = &d->function[function];
    int every = (int)(f->ntransitions / (size_t)w->all->s->starts) + 1, since = every, n = rows_together(w->all);

    for (int k = 0; k < f->nepisodes; k++) {
        const hb_episode *e = &d->episode[f->episode + k];
        for (int step = 0; step + n <= e->nsteps; step += n, since += n) {
            if (since >= every && w->t->seconds >= first_start && e->nsteps - step >= hb_online_steps[1]) {
                start_here(w, e, step);
                since = 0;
            }
            push(w, e, step, n);
        }
    }
}

/* As a daemon is given the model of the vehicle that it flies. */
static int take_vehicle(walk *w, int function, hb_error *err)
{
    double known[HB_NOMINAL_PARAMETERS];
    int status;

    if (!hb_vehicles_known(w->all->d, w->m->nominal))
        return 0;
    hb_vehicles_of(w->all->d, w->m->nominal, function, known);
    if ((status = hb_model_copy(&w->own, w->m, w->m->has_prior, NULL, err)) ||
        (status = hb_model_set_vehicle(w->own, known, err)))
        return status;
    w->m = w->own;
    return 0;
}

static int set_up(walk *w, int function, hb_error *err)
{
    const hb_dataset *d = w->all->d;
    int wrong = take_vehicle(w, function, err);
    if (wrong)
        return wrong;
    const hb_model *m = w->m;
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu, nc = (size_t)hb_model_ncoefficients(m) + 1, longest = 0;
    int status;

    for (int k = 0; k < d->function[function].nepisodes; k++) {
        size_t n = (size_t)d->episode[d->function[function].episode + k].nsteps;
        longest = n > longest ? n : longest;
    }
    if ((status = hb_estimator_new(&w->e, m, &w->all->s->estimator, NULL, NULL, err)) ||
        (status = hb_predictor_new(&w->predictor, m, err)) || (status = hb_workspace_new(&w->workspace, m, false, err)))
        return status;
    bool good = true;
    for (int row = 0; row < HB_ONLINE_ROWS; row++)
        good = (w->c[row] = calloc(nc, sizeof(hb_real))) && good;
    hb_arena arena = {0};
    for (int pass = 0; pass < 2 && good; pass++) {
        w->z = hb_arena_take(&arena, nx * HB_STRIDE, sizeof *w->z);
        w->u = hb_arena_take(&arena, (nu + 1) * HB_STRIDE, sizeof *w->u);
        w->dt = hb_arena_take(&arena, HB_STRIDE, sizeof *w->dt);
        w->drawn = hb_arena_take(&arena, nc, sizeof *w->drawn);
        w->factor =
            hb_arena_take(&arena, (size_t)hb_model_nproblems(m) * (size_t)m->nb * (size_t)m->nb + 1, sizeof *w->factor);
        w->acting = hb_arena_take(&arena, longest * nu + 1, sizeof *w->acting);
        w->path = hb_arena_take(&arena, LONGEST * nx, sizeof *w->path);
        w->mean = hb_arena_take(&arena, BANDED * nx, sizeof *w->mean);
        w->square = hb_arena_take(&arena, BANDED * nx, sizeof *w->square);
        if (pass == 0 && hb_arena_allocate(&arena, err))
            good = false;
    }
    if (!good)
        return hb_fail(err, ENOMEM, "out of memory");
    for (int i = 0; i < hb_model_ncoefficients(m) && m->has_prior; i++)
        w->c[PRIOR][i] = (hb_real)m->prior_mean[i];
    w->known[ZERO] = true;
    w->known[PRIOR] = m->has_prior;
    return 0;
}

static void tear_down(walk *w)
{
    hb_estimator_free(w->e);
    hb_predictor_free(w->predictor);
    hb_workspace_free(w->workspace);
    for (int row = 0; row < HB_ONLINE_ROWS; row++)
        free(w->c[row]);
    free(w->z);
    hb_model_free(w->own);
}

static int function_at(const measuring *all, int index)
{
    return all->s->function ? all->s->function[index] : index;
}

static int nfunctions(const measuring *all)
{
    return all->s->function ? all->s->nfunctions : all->d->nfunctions;
}

static void measure_function(void *context, int index, int thread)
{
    measuring *all = context;
    int function = function_at(all, index);
    walk w = {.all = all, .m = all->m, .t = &all->tally[index], .stream = (uint64_t)function};
    (void)thread;

    if (all->s->long_run) {
        w.t->lasting = calloc(2 * (size_t)all->m->nx, sizeof *w.t->lasting);
        w.t->long_run = w.t->lasting ? w.t->lasting + all->m->nx : NULL;
    }
    w.t->failed = set_up(&w, function, &w.t->err) != 0;
    if (!w.t->failed)
        walk_function(&w, function);
    tear_down(&w);
}

/* --- together --- */

static int check_names(const char *what, int n, char (*name)[HB_NAME_SIZE], int ndata, char (*data)[HB_NAME_SIZE],
                       hb_error *err)
{
    if (n != ndata)
        return hb_fail(err, EINVAL, "the model has %d %ss, the data have %d", n, what, ndata);
    for (int i = 0; i < n; i++)
        if (strcmp(name[i], data[i]) != 0)
            return hb_fail(err, EINVAL, "%s %d is '%s' in the model and '%s' in the data", what, i, name[i], data[i]);
    return 0;
}

static void add_up(measuring *all)
{
    hb_online *o = all->to;
    double count[HB_ONLINE_ROWS][HB_ONLINE_STEPS] = {0}, inside[HB_ONLINE_STEPS] = {0}, banded[HB_ONLINE_STEPS] = {0};
    double judged = 0, transitions = 0, changes = 0;

    for (int f = 0; f < nfunctions(all); f++) {
        const tally *t = &all->tally[f];
        o->starts += t->starts;
        o->seconds += t->seconds;
        judged += t->judged;
        transitions += t->transitions;
        changes += t->changes;
        o->out_of_span += t->out_of_span;
        o->implausible += t->implausible;
        for (int s = 0; s < HB_ONLINE_STEPS; s++) {
            inside[s] += t->inside[s];
            banded[s] += t->banded[s];
        }
        for (int row = 0; row < HB_ONLINE_ROWS; row++) {
            o->ran_away[row] += t->ran_away[row];
            for (int s = 0; s < HB_ONLINE_STEPS; s++) {
                count[row][s] += t->count[row][s];
                for (int q = 0; q < o->nquantities; q++)
                    o->error[row][s][q] += t->error[row][s][q];
            }
        }
    }
    for (int s = 0; s < HB_ONLINE_STEPS; s++)
        o->coverage[s] = banded[s] > 0 ? inside[s] / banded[s] : NAN;
    for (int row = 0; row < HB_ONLINE_ROWS; row++)
        for (int s = 0; s < HB_ONLINE_STEPS; s++)
            for (int q = 0; q < o->nquantities; q++)
                o->error[row][s][q] = count[row][s] > 0 ? o->error[row][s][q] / count[row][s] : NAN;
    o->out_of_span /= fmax(1, judged);
    o->implausible /= fmax(1, transitions);
    o->changes = changes / fmax(1e-9, o->seconds / 60);
}

int hb_online_measure(hb_online *ret, const hb_model *m, const hb_dataset *d, const hb_online_settings *s,
                      hb_pool *pool, hb_error *err)
{
    hb_online result = {0};
    measuring all = {.m = m, .d = d, .s = s, .to = &result};
    const hb_dataset_header *h = &d->header;
    int status;

    if (m->nu > HB_MAX_CONTROLS)
        return hb_fail(err, EINVAL, "for %d controls at most", HB_MAX_CONTROLS);
    if (m->nb == 0)
        return hb_fail(err, EINVAL, "a model without basis functions has nothing to adapt by");
    if ((status = check_names("state", m->nx, m->state_name, h->nx, h->state_name, err)) ||
        (status = check_names("control", m->nu, m->control_name, h->nu, h->control_name, err)))
        return status;
    find_quantities(m, &result);
    all.tally = calloc((size_t)nfunctions(&all) + 1, sizeof *all.tally);
    if (!all.tally)
        return hb_fail(err, ENOMEM, "out of memory");
    hb_pool_run(pool, nfunctions(&all), measure_function, &all);
    for (int f = 0; f < nfunctions(&all) && !status; f++)
        if (all.tally[f].failed)
            status = hb_fail(err, EINVAL, "function %d: %.300s", d->function[function_at(&all, f)].id,
                             all.tally[f].err.text);
    if (!status) {
        add_up(&all);
        *ret = result;
    }
    for (int i = 0; i < m->nx && s->long_run && !status; i++) {
        double sum = 0, n = 0;
        for (int f = 0; f < nfunctions(&all); f++)
            if (all.tally[f].long_run) {
                sum += all.tally[f].long_run[i];
                n += all.tally[f].lasted;
            }
        s->long_run[i] = n > 0 && isfinite(sum) ? sqrt(sum / n) : 0;
    }
    for (int f = 0; f < nfunctions(&all); f++)
        free(all.tally[f].lasting);
    free(all.tally);
    return status;
}

json_t *hb_online_json(const hb_online *o)
{
    json_t *rows = json_object(), *all;

    for (int row = 0; row < HB_ONLINE_ROWS; row++) {
        json_t *quantities = json_object();
        for (int q = 0; q < o->nquantities; q++) {
            json_t *steps = json_array();
            for (int s = 0; s < HB_ONLINE_STEPS; s++)
                json_array_append_new(steps, hb_json_number(o->error[row][s][q]));
            json_object_set_new(quantities, o->quantity[q].name, steps);
        }
        json_object_set_new(quantities, "ran_away", json_integer(o->ran_away[row]));
        json_object_set_new(rows, hb_online_row[row], quantities);
    }
    all = json_pack("{s:o, s:i, s:[i, i, i, i]}", "error", rows, "starts", o->starts, "steps", hb_online_steps[0],
                    hb_online_steps[1], hb_online_steps[2], hb_online_steps[3]);
    json_object_set_new(all, "coverage",
                        json_pack("[o, o]", hb_json_number(o->coverage[0]), hb_json_number(o->coverage[1])));
    json_object_set_new(all, "seconds", hb_json_number(o->seconds));
    json_object_set_new(all, "out_of_span", hb_json_number(o->out_of_span));
    json_object_set_new(all, "implausible", hb_json_number(o->implausible));
    json_object_set_new(all, "changes_per_minute", hb_json_number(o->changes));
    return all;
}

void hb_online_print(const hb_online *o, const char *title, FILE *out)
{
    fprintf(out, "%s: %.0f s, %d starts from %.0f s on; mean errors after steps\n", title, o->seconds, o->starts,
            first_start);
    for (int first = 0; first < o->nquantities; first += 4) {
        int last = first + 4 < o->nquantities ? first + 4 : o->nquantities;
        fprintf(out, "  %-11s", "");
        for (int q = first; q < last; q++) {
            char name[64];
            snprintf(name, sizeof name, "%.20s%s%.20s", o->quantity[q].name, o->quantity[q].unit[0] ? ", " : "",
                     o->quantity[q].unit);
            fprintf(out, " | %-31s", name);
        }
        fprintf(out, "\n  %-11s", "steps");
        for (int q = first; q < last; q++) {
            fprintf(out, " |");
            for (int s = 0; s < HB_ONLINE_STEPS; s++)
                fprintf(out, " %7d", hb_online_steps[s]);
        }
        fprintf(out, "\n");
        for (int row = 0; row < HB_ONLINE_ROWS; row++) {
            fprintf(out, "  %-11s", hb_online_row[row]);
            for (int q = first; q < last; q++) {
                fprintf(out, " |");
                for (int s = 0; s < HB_ONLINE_STEPS; s++)
                    fprintf(out, " %7.3g", o->error[row][s][q]);
            }
            if (o->ran_away[row])
                fprintf(out, " | %d ran away", o->ran_away[row]);
            fprintf(out, "\n");
        }
    }
    if (!isnan(o->coverage[0]))
        fprintf(out, "  90 %% bands hold %.1f %% after 1 step, %.1f %% after 10\n", 100 * o->coverage[0],
                100 * o->coverage[1]);
    fprintf(out,
            "  out-of-span %.1f %% of the time, %.1f %% of "
            "transitions implausible, %.2f changes a minute\n\n",
            100 * o->out_of_span, 100 * o->implausible, o->changes);
}
