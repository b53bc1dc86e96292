#include "train/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/sampler.h"

enum {
    CHUNK = 4096,               /* parameters that are summed and updated together */
    MAX_SKIPPED = 20,           /* in succession */
    GRADIENT_BYTES = 128 << 20, /* for the gradients of all parts, unless fewer than MIN_PARTS fit */
    MIN_PARTS = 8,
};

static const double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

/* one thread's */
typedef struct seat {
    hb_loss *loss;
    hb_points example, query;
} seat;

struct hb_trainer {
    hb_model *model;
    hb_trainer_settings settings;
    hb_pool *pool;
    int *function; /* nfunctions, indices of the data set */
    int nfunctions;
    int *drawn; /* settings.functions: those of this step */
    int *deck;  /* nfunctions */
    hb_sampler *examples, *queries;
    seat *seat;
    int nparts;
    hb_real *gradient;    /* nparts x nparameters; the sum ends up in the first */
    hb_loss_terms *terms; /* settings.functions */
    bool *failed;         /* settings.functions */
    double *norm;         /* squared, of each chunk */
    double clipped;       /* factor that clipping asks for */
    double rate, correct_mean, correct_square;
    hb_trainer_state state;
    int skipped; /* in succession */
    void *memory;
};

/* random numbers of a step: functions from index 0 on, then each function's points and prefix */
static uint64_t index_of(int slot, int what)
{
    return ((uint64_t)slot + 1) << 34 | (uint64_t)what << 32;
}

static int count_parts(const hb_model *m, int functions)
{
    size_t fit = GRADIENT_BYTES / (m->nparameters * sizeof(hb_real) + 1);
    int nparts = fit < MIN_PARTS ? MIN_PARTS : fit > 1024 ? 1024 : (int)fit;
    return nparts < functions ? nparts : functions;
}

static size_t count_chunks(const hb_model *m)
{
    return (m->nparameters + CHUNK - 1) / CHUNK;
}

static hb_trainer *lay_out(hb_trainer *t, int nthreads, hb_arena *arena)
{
    hb_trainer *place = hb_arena_take(arena, 1, sizeof *t);
    const hb_trainer_settings *s = &t->settings;
    const hb_model *m = t->model;
    size_t functions = (size_t)s->functions, np = m->nparameters;

    t->function = hb_arena_take(arena, (size_t)t->nfunctions, sizeof *t->function);
    t->deck = hb_arena_take(arena, (size_t)t->nfunctions, sizeof *t->deck);
    t->drawn = hb_arena_take(arena, functions, sizeof *t->drawn);
    t->seat = hb_arena_take(arena, (size_t)nthreads, sizeof *t->seat);
    t->nparts = count_parts(m, s->functions);
    t->gradient = hb_arena_take(arena, (size_t)t->nparts * np, sizeof *t->gradient);
    t->terms = hb_arena_take(arena, functions, sizeof *t->terms);
    t->failed = hb_arena_take(arena, functions, sizeof *t->failed);
    t->norm = hb_arena_take(arena, count_chunks(m), sizeof *t->norm);
    t->state.nparameters = np;
    t->state.mean = hb_arena_take(arena, np, sizeof *t->state.mean);
    t->state.square = hb_arena_take(arena, np, sizeof *t->state.square);
    for (int k = 0; k < nthreads; k++) {
        seat unused, *at = t->seat ? &t->seat[k] : &unused;
        hb_points_lay_out(&at->example, m->nx, m->nu, s->examples, 1, arena);
        hb_points_lay_out(&at->query, m->nx, m->nu, s->queries, s->query_steps, arena);
    }
    t->memory = arena->base;
    return place;
}

int hb_trainer_new(hb_trainer **ret, hb_model *m, const hb_dataset *d, const int *function, int nfunctions,
                   const hb_trainer_settings *s, hb_pool *pool, hb_error *err)
{
    int nthreads = hb_pool_nthreads(pool), status;
    hb_trainer laid = {.model = m, .settings = *s, .pool = pool, .nfunctions = nfunctions};
    hb_arena arena = {0};

    if (nfunctions < 1)
        return hb_fail(err, EINVAL, "there is no function to train on");
    lay_out(&laid, nthreads, &arena);
    if ((status = hb_arena_allocate(&arena, err)))
        return status;
    hb_trainer *t = lay_out(&laid, nthreads, &arena);
    *t = laid;
    memcpy(t->function, function, (size_t)nfunctions * sizeof *function);

    if ((status = hb_sampler_new(&t->examples, d, m, 1, err)) ||
        (status = hb_sampler_new(&t->queries, d, m, s->query_steps, err)))
        goto fail;
    for (int k = 0; k < nthreads; k++)
        if ((status = hb_loss_new(&t->seat[k].loss, m, &s->loss, s->examples, s->query_steps, err)))
            goto fail;
    *ret = t;
    return 0;
fail:
    hb_trainer_free(t);
    return status;
}

void hb_trainer_free(hb_trainer *t)
{
    if (!t)
        return;
    for (int k = 0; k < hb_pool_nthreads(t->pool); k++)
        hb_loss_free(t->seat[k].loss);
    hb_sampler_free(t->examples);
    hb_sampler_free(t->queries);
    free(t->memory);
}

hb_trainer_state *hb_trainer_access(hb_trainer *t)
{
    return &t->state;
}

static hb_random_key key_of(const hb_trainer *t)
{
    return (hb_random_key){.seed = t->settings.seed, .stream = t->state.step};
}

/* draws functions without replacement, and over again when there are fewer than a step wants */
static void draw_functions(hb_trainer *t)
{
    hb_random_key key = key_of(t);
    int n = t->nfunctions;

    memcpy(t->deck, t->function, (size_t)n * sizeof *t->deck);
    for (int slot = 0; slot < t->settings.functions; slot++) {
        int at = slot % n, pick = at + (int)(hb_random_bits(key, (uint64_t)slot) % (uint64_t)(n - at));
        int chosen = t->deck[pick];
        t->deck[pick] = t->deck[at];
        t->deck[at] = chosen;
        t->drawn[slot] = chosen;
    }
}

/* loss and gradient of one part's functions */
static void run_part(void *context, int part, int thread)
{
    hb_trainer *t = context;
    const hb_trainer_settings *s = &t->settings;
    seat *at = &t->seat[thread];
    hb_random_key key = key_of(t);
    size_t np = t->model->nparameters;
    hb_real *gradient = t->gradient + (size_t)part * np;
    int first = (int)((int64_t)s->functions * part / t->nparts);
    int end = (int)((int64_t)s->functions * (part + 1) / t->nparts), nb = t->model->nb;

    memset(gradient, 0, np * sizeof *gradient);
    for (int slot = first; slot < end; slot++) {
        int f = t->drawn[slot], prefix = 0;
        hb_sampler_draw(t->examples, f, 0, hb_sampler_count(t->examples, f), key, index_of(slot, 0), &at->example);
        hb_sampler_draw(t->queries, f, 0, hb_sampler_count(t->queries, f), key, index_of(slot, 1), &at->query);
        if (s->matryoshka && nb > 1)
            prefix = 1 + (int)(hb_random_bits(key, index_of(slot, 2)) % (uint64_t)(nb - 1));
        t->failed[slot] = hb_loss_evaluate(at->loss, &at->example, &at->query, prefix, 1.0 / s->functions, gradient,
                                           &t->terms[slot]) != 0;
    }
}

static size_t chunk_size(const hb_trainer *t, int chunk)
{
    size_t left = t->model->nparameters - (size_t)chunk * CHUNK;
    return left < CHUNK ? left : CHUNK;
}

static void sum_chunk(void *context, int chunk, int thread)
{
    hb_trainer *t = context;
    size_t np = t->model->nparameters, n = chunk_size(t, chunk);
    hb_real *sum = t->gradient + (size_t)chunk * CHUNK;
    double norm = 0;

    (void)thread;
    for (int part = 1; part < t->nparts; part++) {
        const hb_real *add = sum + (size_t)part * np;
        for (size_t i = 0; i < n; i++)
            sum[i] += add[i];
    }
    for (size_t i = 0; i < n; i++)
        norm += (double)sum[i] * (double)sum[i];
    t->norm[chunk] = norm;
}

/* The gradient of all functions: sums the parts, in order, into the first; returns its norm. Everything that would
 * join processes on several machines belongs here. */
static double reduce_gradient(hb_trainer *t)
{
    size_t nchunks = count_chunks(t->model);
    double norm = 0;

    hb_pool_run(t->pool, (int)nchunks, sum_chunk, t);
    for (size_t i = 0; i < nchunks; i++)
        norm += t->norm[i];
    return sqrt(norm);
}

static void update_chunk(void *context, int chunk, int thread)
{
    hb_trainer *t = context;
    size_t at = (size_t)chunk * CHUNK, n = chunk_size(t, chunk);
    const hb_real *g = t->gradient + at;
    hb_real *mean = t->state.mean + at, *square = t->state.square + at, *p = t->model->parameter + at;
    const hb_real clipped = (hb_real)t->clipped, b1 = (hb_real)beta1, b2 = (hb_real)beta2;
    const hb_real c1 = (hb_real)(1 - beta1), c2 = (hb_real)(1 - beta2), e = (hb_real)epsilon;
    const hb_real rate = (hb_real)(t->rate * t->correct_mean), correct = (hb_real)t->correct_square;

    (void)thread;
    for (size_t i = 0; i < n; i++) {
        hb_real gi = clipped * g[i];
        mean[i] = b1 * mean[i] + c1 * gi;
        square[i] = b2 * square[i] + c2 * gi * gi;
        p[i] -= rate * mean[i] / ((hb_real)sqrt((double)(square[i] * correct)) + e);
    }
}

static double learning_rate(const hb_trainer *t)
{
    const hb_trainer_settings *s = &t->settings;
    if (!s->decay_steps)
        return s->learning_rate;
    double done = fmin(1, (double)t->state.step / (double)s->decay_steps);
    return s->learning_rate * 0.5 * (1 + cos(M_PI * done));
}

/* mean over functions; false when one of them was not finite */
static bool mean_terms(const hb_trainer *t, hb_loss_terms *ret)
{
    int n = t->settings.functions;
    hb_loss_terms sum = {0};

    for (int slot = 0; slot < n; slot++) {
        const hb_loss_terms *of = &t->terms[slot];
        if (t->failed[slot])
            return false;
        sum.query += of->query / n;
        sum.matryoshka += of->matryoshka / n;
        sum.regulariser += of->regulariser / n;
        sum.average += of->average / n;
    }
    *ret = sum;
    return true;
}

int hb_trainer_step(hb_trainer *t, hb_trainer_report *ret, hb_error *err)
{
    hb_trainer_report report = {.step = t->state.step, .learning_rate = learning_rate(t)};

    draw_functions(t);
    hb_pool_run(t->pool, t->nparts, run_part, t);
    report.gradient_norm = reduce_gradient(t);
    report.skipped = !mean_terms(t, &report.terms) || !isfinite(report.gradient_norm);
    t->state.step++;

    t->skipped = report.skipped ? t->skipped + 1 : 0;
    if (t->skipped > MAX_SKIPPED)
        return hb_fail(err, ERANGE,
                       "step %" PRIu64 ": the loss was not finite for %d steps in succession: lower the learning rate, "
                       "or the steps of a query point",
                       report.step, t->skipped);
    if (!report.skipped) {
        double k = (double)t->state.step;
        t->clipped = t->settings.clip > 0 && report.gradient_norm > t->settings.clip
                         ? t->settings.clip / report.gradient_norm
                         : 1;
        t->rate = report.learning_rate;
        t->correct_mean = 1 / (1 - pow(beta1, k));
        t->correct_square = 1 / (1 - pow(beta2, k));
        hb_pool_run(t->pool, (int)count_chunks(t->model), update_chunk, t);
    }
    *ret = report;
    return 0;
}
