/* Functions are independent and every draw is keyed by (seed, function, episode, attempt): threads take functions in
 * turn, the caller writes them in order.
 *
 *     worker   next function -> plant with its parameters -> episodes in memory -> slot
 *     caller   slot 0, 1, 2, ... in order -> file; a slot that was written may be filled again */
#include "sim/collect.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"

enum { SLOTS_A_THREAD = 4, ATTEMPTS = 50, DRAWS = 10 };

typedef struct slot {
    int function; /* -1: free */
    bool done;
    hb_collected_episode *episode; /* episodes */
    double parameter[HB_PLANT_PARAMETERS];
    long refused, redrawn;
    int status;
    hb_error err;
} slot;

typedef struct crew {
    const hb_collect *c;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int next; /* function to be taken */
    bool stop;
    int nslots;
    slot *slot; /* function f uses slot f % nslots */
} crew;

/* What a stream of random numbers is for; part of its key. */
enum { FOR_PARAMETERS, FOR_START, FOR_POLICY, FOR_PLANT, FOR_TIME };

static hb_random_key key(const hb_collect *c, int purpose, int function, int episode_number, int attempt)
{
    uint64_t stream =
        ((uint64_t)function << 32) | ((uint64_t)episode_number << 12) | ((uint64_t)attempt << 4) | (uint64_t)purpose;
    return (hb_random_key){.seed = c->seed, .stream = stream};
}

/* One episode from a random start, up to where it fails. */
static int run_episode(const hb_collect *c, hb_plant *p, int function, int number, int attempt, hb_collected_episode *e,
                       hb_error *err)
{
    const hb_plant_type *type = c->plant;
    size_t nx = (size_t)type->nx, nu = (size_t)type->nu;
    hb_draws from = {.key = key(c, FOR_START, function, number, attempt)};
    hb_draws steps = {.key = key(c, FOR_TIME, function, number, attempt)};
    hb_policy_memory memory = {.draws.key = key(c, FOR_POLICY, function, number, attempt), .dt = c->dt};

    int status = type->start(p, &from, e->x, err);
    if (!status)
        status = hb_plant_reset(p, e->x, key(c, FOR_PLANT, function, number, attempt), err);
    if (status)
        return status;
    c->policy->start(&memory, p);
    hb_plant_observe(p, e->x);
    e->time[0] = 0;
    e->nsteps = 0;
    e->cut = false;
    for (int k = 0; k < c->steps; k++) {
        double *x = e->x + (size_t)k * nx, *u = e->u + (size_t)k * nu;
        double dt = c->irregular ? c->dt * hb_draw_uniform(&steps, 0.5, 1.5) : c->dt;
        c->policy->act(&memory, p, x, u);
        hb_plant_step(p, u, dt);
        hb_plant_observe(p, x + nx);
        e->time[k + 1] = e->time[k] + dt;
        /* the step that led into the failure is not kept */
        if (hb_plant_failure(p) || (c->policy->keep && !c->policy->keep(p, x + nx))) {
            e->cut = true;
            break;
        }
        e->nsteps = k + 1;
    }
    return 0;
}

int hb_collect_episode(const hb_collect *c, hb_plant *p, int function, int number, hb_collected_episode *e,
                       int *ret_refused, hb_error *err)
{
    int shortest = (int)fmax(1, c->steps / 5.0), attempt = 0, status;

    do {
        status = run_episode(c, p, function, number, attempt, e, err);
    } while (!status && e->nsteps < shortest && ++attempt < ATTEMPTS);
    if (!status && attempt == ATTEMPTS)
        status =
            hb_fail(err, EINVAL, "function %d: %d starts in a row failed within %d steps: are the ranges sensible?",
                    function, ATTEMPTS, shortest);
    if (ret_refused)
        *ret_refused = attempt;
    return status;
}

/* All episodes of a function with the parameters of this draw; *ret_fails: none of its starts leads anywhere. */
static int run_draw(const hb_collect *c, hb_plant *p, slot *s, int drawn, bool *ret_fails)
{
    int refused = 0, status = 0;

    *ret_fails = false;
    for (int i = 0; !status && i < c->plant->nparameters; i++) {
        double draw = hb_random_uniform(key(c, FOR_PARAMETERS, s->function, 0, drawn), (uint64_t)i);
        s->parameter[i] = c->low[i] + (c->high[i] - c->low[i]) * draw;
        status = hb_plant_set(p, i, s->parameter[i], &s->err);
    }
    s->refused = 0;
    for (int number = 0; !status && number < c->episodes; number++) {
        status = hb_collect_episode(c, p, s->function, number, &s->episode[number], &refused, &s->err);
        *ret_fails = status && refused == ATTEMPTS;
        s->refused += refused;
    }
    return status;
}

/* Extremes of several ranges together can make a vehicle that nobody can fly, such as one too heavy for its rotors. */
static int run_function(const hb_collect *c, hb_plant *p, slot *s)
{
    bool fails = true;
    int status = 0;

    for (s->redrawn = -1; fails && s->redrawn + 1 < DRAWS; s->redrawn++)
        status = run_draw(c, p, s, (int)s->redrawn + 1, &fails);
    return status;
}

static void *worker(void *context)
{
    crew *w = context;
    hb_plant *p = NULL;
    hb_error err = {0};
    int failed = hb_plant_new(&p, w->c->plant, &err);

    pthread_mutex_lock(&w->lock);
    while (!w->stop && w->next < w->c->first + w->c->functions) {
        slot *s = &w->slot[w->next % w->nslots];
        if (s->function >= 0) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        s->function = w->next++;
        s->done = false;
        pthread_mutex_unlock(&w->lock);
        if (failed)
            s->err = err;
        s->status = failed ? failed : run_function(w->c, p, s);
        pthread_mutex_lock(&w->lock);
        s->done = true;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    hb_plant_free(p);
    return NULL;
}

static int write_function(const hb_collect *c, hb_dataset_writer *writer, const slot *s, hb_collected *total,
                          hb_error *err)
{
    double hidden[HB_PLANT_PARAMETERS];
    int nhidden = 0, status = s->status;

    if (status) {
        *err = s->err;
        return status;
    }
    for (int i = 0; i < c->plant->nparameters; i++)
        if (c->low[i] != c->high[i])
            hidden[nhidden++] = s->parameter[i];
    for (int k = 0; !status && k < c->episodes; k++) {
        const hb_collected_episode *e = &s->episode[k];
        status = hb_dataset_writer_append(writer, s->function, e->nsteps, e->x, e->u, c->irregular ? e->time : NULL,
                                          hidden, err);
        total->transitions += e->nsteps;
        total->cut += e->cut;
    }
    total->refused += s->refused;
    total->redrawn += s->redrawn;
    return status;
}

static int write_all(crew *w, hb_dataset_writer *writer, hb_collected *total, hb_error *err)
{
    int status = 0;

    for (int f = w->c->first; !status && f < w->c->first + w->c->functions; f++) {
        slot *s = &w->slot[f % w->nslots];
        pthread_mutex_lock(&w->lock);
        while (s->function != f || !s->done)
            pthread_cond_wait(&w->changed, &w->lock);
        pthread_mutex_unlock(&w->lock);
        status = write_function(w->c, writer, s, total, err);
        pthread_mutex_lock(&w->lock);
        s->function = -1;
        w->stop = status != 0;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
        if (!status && w->c->progress)
            w->c->progress(w->c->context, f + 1 - w->c->first, w->c->functions);
    }
    return status;
}

static void copy_names(int n, const char *const *from, char (*to)[HB_NAME_SIZE])
{
    for (int i = 0; i < n; i++)
        snprintf(to[i], HB_NAME_SIZE, "%s", from[i]);
}

static int open_writer(const hb_collect *c, hb_dataset_writer **ret, hb_error *err)
{
    const hb_plant_type *t = c->plant;
    char state[HB_PLANT_STATES][HB_NAME_SIZE] = {""}, state_unit[HB_PLANT_STATES][HB_NAME_SIZE] = {""};
    char control[HB_PLANT_CONTROLS][HB_NAME_SIZE] = {""}, control_unit[HB_PLANT_CONTROLS][HB_NAME_SIZE] = {""};
    char hidden[HB_PLANT_PARAMETERS][HB_NAME_SIZE] = {""};
    double low[HB_PLANT_CONTROLS], high[HB_PLANT_CONTROLS], trim[HB_PLANT_CONTROLS];
    hb_dataset_header h = {.nx = t->nx, .nu = t->nu, .dt = c->dt, .seed = c->seed};

    snprintf(h.plant, sizeof h.plant, "%s", t->name);
    copy_names(t->nx, t->state_name, state);
    copy_names(t->nx, t->state_unit, state_unit);
    copy_names(t->nu, t->control_name, control);
    copy_names(t->nu, t->control_unit, control_unit);
    for (int i = 0; i < t->nu; i++) {
        low[i] = t->control_min[i];
        high[i] = t->control_max[i];
        trim[i] = t->control_trim[i];
    }
    for (int i = 0; i < t->nparameters; i++)
        if (c->low[i] != c->high[i])
            snprintf(hidden[h.nhidden++], HB_NAME_SIZE, "%s", t->parameter[i].name);
    h.state_name = state;
    h.state_unit = state_unit;
    h.control_name = control;
    h.control_unit = control_unit;
    h.control_min = low;
    h.control_max = high;
    h.control_trim = trim;
    h.hidden_name = hidden;
    return hb_dataset_writer_new(ret, c->path, &h, err);
}

int hb_collected_episode_new(const hb_collect *c, hb_collected_episode *e, hb_error *err)
{
    size_t rows = (size_t)c->steps + 1;

    *e = (hb_collected_episode){
        .x = calloc(rows * (size_t)c->plant->nx, sizeof *e->x),
        .u = calloc(rows * (size_t)c->plant->nu + 1, sizeof *e->u),
        .time = calloc(rows, sizeof *e->time),
    };
    if (e->x && e->u && e->time)
        return 0;
    return hb_fail(err, ENOMEM, "out of memory: fewer threads, episodes or steps need less");
}

void hb_collected_episode_free(hb_collected_episode *e)
{
    free(e->x);
    free(e->u);
    free(e->time);
}

static void free_slots(const hb_collect *c, crew *w)
{
    for (int i = 0; w->slot && i < w->nslots; i++) {
        for (int k = 0; w->slot[i].episode && k < c->episodes; k++)
            hb_collected_episode_free(&w->slot[i].episode[k]);
        free(w->slot[i].episode);
    }
    free(w->slot);
}

static int make_slots(const hb_collect *c, crew *w, hb_error *err)
{
    int status = 0;

    w->slot = calloc((size_t)w->nslots, sizeof *w->slot);
    for (int i = 0; w->slot && i < w->nslots; i++) {
        slot *s = &w->slot[i];
        s->function = -1;
        s->episode = calloc((size_t)c->episodes, sizeof *s->episode);
        if (!s->episode)
            return hb_fail(err, ENOMEM, "out of memory");
        for (int k = 0; !status && k < c->episodes; k++)
            status = hb_collected_episode_new(c, &s->episode[k], err);
    }
    return w->slot ? status : hb_fail(err, ENOMEM, "out of memory");
}

int hb_collect_run(const hb_collect *c, hb_collected *ret, hb_error *err)
{
    crew w = {.c = c, .nslots = c->threads * SLOTS_A_THREAD, .next = c->first};
    pthread_t thread[256];
    hb_dataset_writer *writer = NULL;
    hb_collected total = {0};
    int nthreads = c->threads < 256 ? c->threads : 256, started = 0, status;

    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.changed, NULL);
    if (!(status = make_slots(c, &w, err)) && !(status = open_writer(c, &writer, err))) {
        while (started < nthreads && pthread_create(&thread[started], NULL, worker, &w) == 0)
            started++;
        status = started > 0 ? write_all(&w, writer, &total, err) : hb_fail(err, EAGAIN, "no thread can be started");
        for (int i = 0; i < started; i++)
            pthread_join(thread[i], NULL);
    }
    if (!status) {
        status = hb_dataset_writer_close(writer, err);
        writer = NULL;
    }
    hb_dataset_writer_free(writer);
    free_slots(c, &w);
    pthread_cond_destroy(&w.changed);
    pthread_mutex_destroy(&w.lock);
    if (!status)
        *ret = total;
    return status;
}
