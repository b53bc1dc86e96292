#include "train/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/sampler.h"
#include "train/muon.h"

enum {
    CHUNK = 4096,               /* parameters that are summed and updated together */
    MAX_SKIPPED = 20,           /* in succession */
    GRADIENT_BYTES = 128 << 20, /* for the gradients of all parts, unless fewer than MIN_PARTS fit */
    MIN_PARTS = 8,
    SMALLEST_SHARE = 8, /* functions that a slot has to itself, if it has any */
    TERMS = 5,          /* of a function: four of the loss, and whether it failed */
};

static const double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

/* one thread's */
typedef struct seat {
    hb_loss *loss;
    hb_points example, query;
} seat;

/* parameters that Adam updates together */
typedef struct range {
    size_t at, n;
} range;

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
    double *shared;       /* settings.functions x TERMS: terms and failures on their way between ranks */
    int first, end;       /* this rank's parts, */
    int *order;           /* and in which order they are run */
    int stride;           /* of the level of the tree that is added up */
    double *norm;         /* squared, of each chunk */
    double clipped;       /* factor that clipping asks for */
    double rate, correct_mean, correct_square;
    hb_muon *muon; /* NULL: Adam alone */
    range *range;  /* nranges: all that is not Muon's */
    int nranges;
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
    t->order = hb_arena_take(arena, (size_t)t->nparts, sizeof *t->order);
    t->gradient = hb_arena_take(arena, (size_t)t->nparts * np, sizeof *t->gradient);
    t->terms = hb_arena_take(arena, functions, sizeof *t->terms);
    t->failed = hb_arena_take(arena, functions, sizeof *t->failed);
    t->shared = hb_arena_take(arena, functions * TERMS, sizeof *t->shared);
    t->norm = hb_arena_take(arena, count_chunks(m), sizeof *t->norm);
    t->state.nparameters = np;
    t->state.mean = hb_arena_take(arena, np, sizeof *t->state.mean);
    t->state.square = hb_arena_take(arena, np, sizeof *t->state.square);
    t->state.averaged = s->average_steps ? hb_arena_take(arena, np, sizeof *t->state.averaged) : NULL;
    for (int k = 0; k < nthreads; k++) {
        seat unused, *at = t->seat ? &t->seat[k] : &unused;
        hb_points_lay_out(&at->example, m->nx, m->nu, s->examples, 1, arena);
        hb_points_lay_out(&at->query, m->nx, m->nu, s->queries, s->query_steps, arena);
    }
    t->memory = arena->base;
    return place;
}

/* the functions of a part: from this slot to the first of the next part */
static int first_slot(const hb_trainer *t, int part)
{
    return (int)((int64_t)t->settings.functions * part / t->nparts);
}

/* the rank that computes a part */
static int owner(const hb_trainer *t, int part)
{
    return (int)((int64_t)part * hb_ranks_size(t->settings.ranks) / t->nparts);
}

/* Finds this rank's parts. Those of one function more than others come first, so that threads end together. */
static void take_parts(hb_trainer *t)
{
    int rank = t->settings.ranks ? t->settings.ranks->rank : 0, most = t->settings.functions / t->nparts + 1, n = 0;

    while (t->first < t->nparts && owner(t, t->first) < rank)
        t->first++;
    t->end = t->first;
    while (t->end < t->nparts && owner(t, t->end) == rank)
        t->end++;
    for (int size = most; size >= most - 1; size--)
        for (int part = t->first; part < t->end; part++)
            if (first_slot(t, part + 1) - first_slot(t, part) == size)
                t->order[n++] = part;
}

/* cuts what lies between Muon's matrices into ranges; to: NULL counts only */
static int cut_ranges(const hb_trainer *t, range *to)
{
    int n = 0, nmatrices = t->muon ? t->muon->nmatrices : 0;
    size_t at = 0;

    for (int i = 0; i <= nmatrices; i++) {
        const hb_muon_matrix *next = i < nmatrices ? &t->muon->matrix[i] : NULL;
        size_t end = next ? next->at : t->model->nparameters;
        for (; at < end; at += CHUNK, n++)
            if (to)
                to[n] = (range){at, end - at < CHUNK ? end - at : CHUNK};
        if (next)
            at = next->at + (size_t)next->rows * (size_t)next->columns;
    }
    return n;
}

static int choose_optimiser(hb_trainer *t, hb_error *err)
{
    int status = t->settings.optimiser == HB_MUON ? hb_muon_new(&t->muon, t->model, err) : 0;

    if (status)
        return status;
    t->nranges = cut_ranges(t, NULL);
    t->range = calloc((size_t)t->nranges + 1, sizeof *t->range);
    if (!t->range)
        return hb_fail(err, ENOMEM, "out of memory");
    cut_ranges(t, t->range);
    return 0;
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
    take_parts(t);

    if ((status = choose_optimiser(t, err)) || (status = hb_sampler_new(&t->examples, d, m, 1, err)) ||
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

int hb_trainer_use_prior(hb_trainer *t, hb_error *err)
{
    int status = 0;

    for (int k = 0; k < hb_pool_nthreads(t->pool) && !status; k++)
        status = hb_loss_use_prior(t->seat[k].loss, err);
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
    hb_muon_free(t->muon);
    free(t->range);
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

/* without replacement, and over again when there are fewer than a step wants */
static void draw_from_all(hb_trainer *t, hb_random_key key)
{
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

/* Each slot has a share of the functions, so that a rank, whose slots are the same in every step, needs no others. With
 * few functions shares would differ too much in size for all functions to count alike. */
static void draw_functions(hb_trainer *t)
{
    hb_random_key key = key_of(t);
    int n = t->nfunctions, nslots = t->settings.functions;

    if (n / nslots < SMALLEST_SHARE) {
        draw_from_all(t, key);
        return;
    }
    for (int slot = 0; slot < nslots; slot++) {
        int first = (int)((int64_t)n * slot / nslots), end = (int)((int64_t)n * (slot + 1) / nslots);
        t->drawn[slot] = t->function[first + (int)(hb_random_bits(key, (uint64_t)slot) % (uint64_t)(end - first))];
    }
}

/* transitions that query points are rolled out for in this step */
static int rollout_length(const hb_trainer *t)
{
    const hb_trainer_settings *s = &t->settings;

    if (t->state.step >= s->growth_steps)
        return s->query_steps;
    return 1 + (int)((double)t->state.step / (double)s->growth_steps * s->query_steps);
}

/* loss and gradient of one of this rank's parts */
static void run_part(void *context, int index, int thread)
{
    hb_trainer *t = context;
    int part = t->order[index];
    const hb_trainer_settings *s = &t->settings;
    seat *at = &t->seat[thread];
    hb_random_key key = key_of(t);
    size_t np = t->model->nparameters;
    hb_real *gradient = t->gradient + (size_t)part * np;
    int nb = t->model->nb;

    at->query.nsteps = rollout_length(t);
    memset(gradient, 0, np * sizeof *gradient);
    for (int slot = first_slot(t, part); slot < first_slot(t, part + 1); slot++) {
        int f = t->drawn[slot], prefix = 0;
        hb_sampler_draw(t->examples, f, 0, hb_sampler_count(t->examples, f), key, index_of(slot, 0), &at->example);
        hb_sampler_draw(t->queries, f, 0, hb_sampler_count(t->queries, f), key, index_of(slot, 1), &at->query);
        if (s->matryoshka && nb > 1)
            prefix = 1 + (int)(hb_random_bits(key, index_of(slot, 2)) % (uint64_t)(nb - 1));
        t->failed[slot] = hb_loss_evaluate(at->loss, &at->example, &at->query, prefix, 1.0 / s->functions, gradient,
                                           &t->terms[slot]) != 0;
    }
    hb_model_mask(t->model, gradient);
}

static size_t chunk_size(const hb_trainer *t, int chunk)
{
    size_t left = t->model->nparameters - (size_t)chunk * CHUNK;
    return left < CHUNK ? left : CHUNK;
}

/* one level of the tree, for the sums that live here */
static void sum_chunk(void *context, int chunk, int thread)
{
    hb_trainer *t = context;
    size_t np = t->model->nparameters, n = chunk_size(t, chunk);
    hb_real *gradient = t->gradient + (size_t)chunk * CHUNK;

    (void)thread;
    for (int part = 0; part + t->stride < t->nparts; part += 2 * t->stride) {
        hb_real *restrict sum = gradient + (size_t)part * np;
        const hb_real *restrict add = gradient + (size_t)(part + t->stride) * np;
        if (part < t->first || part >= t->end)
            continue;
        for (size_t i = 0; i < n; i++)
            sum[i] += add[i];
    }
}

static void norm_chunk(void *context, int chunk, int thread)
{
    hb_trainer *t = context;
    const hb_real *sum = t->gradient + (size_t)chunk * CHUNK;
    double norm = 0;

    (void)thread;
    for (size_t i = 0; i < chunk_size(t, chunk); i++)
        norm += (double)sum[i] * (double)sum[i];
    t->norm[chunk] = norm;
}

/* Brings together what a level of the tree adds up. Parts lie with ranks in order, so that all of it goes to lower
 * ranks, and no rank sends after it has begun to receive: nobody waits in a circle. */
static int exchange(hb_trainer *t, hb_error *err)
{
    const hb_ranks *r = t->settings.ranks;
    size_t np = t->model->nparameters;
    int status = 0;

    for (int part = 0; part + t->stride < t->nparts && !status; part += 2 * t->stride) {
        int left = owner(t, part), right = owner(t, part + t->stride);
        hb_real *add = t->gradient + (size_t)(part + t->stride) * np;
        if (left == right)
            continue;
        if (r->rank == right)
            status = r->send(r->context, left, add, np * sizeof *add, err);
        else if (r->rank == left)
            status = r->receive(r->context, right, add, np * sizeof *add, err);
    }
    return status;
}

/* The gradient of all functions, with every rank: the sum over parts ends up in the first; its norm. */
static int reduce_gradient(hb_trainer *t, double *ret_norm, hb_error *err)
{
    const hb_ranks *r = t->settings.ranks;
    int nchunks = (int)count_chunks(t->model), status;
    double norm = 0;

    for (t->stride = 1; t->stride < t->nparts; t->stride *= 2) {
        if (r && (status = exchange(t, err)))
            return status;
        hb_pool_run(t->pool, nchunks, sum_chunk, t);
    }
    if (r && (status = r->broadcast(r->context, t->gradient, t->model->nparameters * sizeof *t->gradient, err)))
        return status;
    hb_pool_run(t->pool, nchunks, norm_chunk, t);
    for (int i = 0; i < nchunks; i++)
        norm += t->norm[i];
    *ret_norm = sqrt(norm);
    return 0;
}

/* lets every rank know the losses of all functions */
static int share_terms(hb_trainer *t, hb_error *err)
{
    const hb_ranks *r = t->settings.ranks;
    int functions = t->settings.functions, status;

    if (!r)
        return 0;
    memset(t->shared, 0, (size_t)functions * TERMS * sizeof *t->shared);
    for (int part = t->first; part < t->end; part++)
        for (int slot = first_slot(t, part); slot < first_slot(t, part + 1); slot++) {
            const hb_loss_terms *of = &t->terms[slot];
            double *to = t->shared + slot * TERMS;
            if (t->failed[slot])
                to[TERMS - 1] = 1;
            else
                memcpy(to, (double[]){of->query, of->matryoshka, of->regulariser, of->average}, 4 * sizeof *to);
        }
    if ((status = r->add(r->context, t->shared, functions * TERMS, err)))
        return status;
    for (int slot = 0; slot < functions; slot++) {
        const double *from = t->shared + slot * TERMS;
        t->failed[slot] = from[TERMS - 1] != 0;
        t->terms[slot] = (hb_loss_terms){from[0], from[1], from[2], from[3]};
    }
    return 0;
}

static void update_range(void *context, int index, int thread)
{
    hb_trainer *t = context;
    size_t at = t->range[index].at, n = t->range[index].n;
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
        p[i] -= rate * mean[i] / (sqrtf(square[i] * correct) + e);
    }
}

static void update_matrix(void *context, int index, int thread)
{
    hb_trainer *t = context;

    (void)thread;
    hb_muon_step(t->muon, index, t->gradient, (hb_real)t->clipped, t->rate, t->state.mean, t->model->parameter);
}

/* steps so far whose parameters are averaged, this one included */
static uint64_t count_averaged(const hb_trainer *t)
{
    const hb_trainer_settings *s = &t->settings;
    uint64_t before = s->last_step > s->average_steps ? s->last_step - s->average_steps : 0;

    return s->average_steps && t->state.step > before ? t->state.step - before : 0;
}

static void average_chunk(void *context, int chunk, int thread)
{
    hb_trainer *t = context;
    size_t at = (size_t)chunk * CHUNK, n = chunk_size(t, chunk);
    const hb_real *p = t->model->parameter + at, share = (hb_real)(1 / (double)count_averaged(t));
    hb_real *averaged = t->state.averaged + at;

    (void)thread;
    for (size_t i = 0; i < n; i++)
        averaged[i] += share * (p[i] - averaged[i]);
}

void hb_trainer_average(hb_trainer *t)
{
    if (count_averaged(t))
        memcpy(t->model->parameter, t->state.averaged, t->model->nparameters * sizeof *t->state.averaged);
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
    hb_pool_run(t->pool, t->end - t->first, run_part, t);
    int status = share_terms(t, err);
    if (status || (status = reduce_gradient(t, &report.gradient_norm, err)))
        return status;
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
        hb_pool_run(t->pool, t->nranges, update_range, t);
        if (t->muon)
            hb_pool_run(t->pool, t->muon->nmatrices, update_matrix, t);
    }
    if (count_averaged(t))
        hb_pool_run(t->pool, (int)count_chunks(t->model), average_chunk, t);
    *ret = report;
    return 0;
}
