/* Gradient steps of training: loss, gradient, clipping and Adam, as hilbert-train makes them.
 *
 * Operations are counted as the method needs them: for each point one forward pass, and twice as much for the gradient
 * of its inputs and weights. A shared head is linear, and needed once for all stages of an example; an average in it
 * has a loss of its own, of which a gradient runs back through three stages. What is computed a second time to save
 * memory does not count. */
#include <stdlib.h>

#include "bench.h"
#include "bench_models.h"
#include "base/numeric.h"
#include "train/trainer.h"

enum { THREADS = 2, EPISODE = 200 };

typedef struct size {
    int functions, examples, queries;
} size;

/* one episode of random walk for each function */
static hb_dataset make_data(const hb_model *m, int functions)
{
    const size_t nx = (size_t)m->nx, nu = (size_t)m->nu, n = (size_t)functions;
    hb_dataset d = {.header = {.nx = m->nx, .nu = m->nu, .dt = m->dt}, .nfunctions = functions, .nepisodes = functions};
    const hb_random_key key = {.seed = 4};

    d.header.state_name = m->state_name;
    d.header.control_name = m->control_name;
    d.function = calloc(n, sizeof *d.function);
    d.episode = calloc(n, sizeof *d.episode);
    double *x = calloc(n * (EPISODE + 1) * nx, sizeof *x), *u = calloc(n * EPISODE * nu, sizeof *u);
    if (!d.function || !d.episode || !x || !u)
        bench_fail("out of memory");
    for (size_t i = 0; i < n * (EPISODE + 1) * nx; i++)
        x[i] = i < nx ? 0 : 0.99 * x[i - nx] + 0.1 * hb_random_normal(key, i);
    for (size_t i = 0; i < n * EPISODE * nu; i++)
        u[i] = hb_random_normal(key, i + (1u << 30));
    for (int f = 0; f < functions; f++) {
        d.function[f] = (hb_function){.id = f, .episode = f, .nepisodes = 1, .ntransitions = EPISODE};
        d.episode[f] = (hb_episode){.id = f,
                                    .function = f,
                                    .nsteps = EPISODE,
                                    .x = x + (size_t)f * (EPISODE + 1) * nx,
                                    .u = u + (size_t)f * EPISODE * nu};
    }
    return d;
}

static void free_data(hb_dataset *d)
{
    free((double *)d->episode[0].x);
    free((double *)d->episode[0].u);
    free(d->function);
    free(d->episode);
}

static void step(void *context)
{
    hb_trainer_report report;
    hb_error err = {0};
    if (hb_trainer_step(context, &report, &err))
        bench_fail("%s", err.text);
}

static double step_flops(const hb_model *m, const size *s)
{
    const double step = 3 * bench_step_flops(m);
    const hb_head h = hb_mlp_head(&m->basis);
    double example = step;

    if (m->architecture == HB_SHARED)
        example += 3 * 2.0 * (double)(h.rows * h.width) + (m->average == HB_AVERAGE_HEAD ? step / 4 : 0);
    return s->functions * (s->examples * example + s->queries * step);
}

static void measure(bench *b, hb_model *m, const size *s)
{
    const hb_trainer_settings settings = {.functions = s->functions,
                                          .examples = s->examples,
                                          .queries = s->queries,
                                          .query_steps = 1,
                                          .learning_rate = 1e-6,
                                          .clip = 1,
                                          .loss = {.regulariser = 0.1}};
    hb_dataset d = make_data(m, s->functions);
    int *function = calloc((size_t)s->functions, sizeof *function);
    hb_trainer *t = NULL;
    hb_pool *pool = NULL;
    hb_error err = {0};

    if (!function)
        bench_fail("out of memory");
    for (int f = 0; f < s->functions; f++)
        function[f] = f;
    if (hb_pool_new(&pool, THREADS, NULL, NULL, &err) ||
        hb_trainer_new(&t, m, &d, function, s->functions, &settings, pool, &err))
        bench_fail("%s", err.text);
    bench_describe(b, m);
    bench_set_int(b, "functions", s->functions);
    bench_set_int(b, "points", s->examples + s->queries);
    const double seconds = bench_time(b, step, t, THREADS, step_flops(m, s));
    bench_set_number(b, "steps_per_second", 1 / seconds);
    bench_emit(b);
    hb_trainer_free(t);
    hb_pool_free(pool);
    free(function);
    free_data(&d);
    hb_model_free(m);
}

static void run(bench *b)
{
    /* a whole step of the paper's takes many seconds: all of its 50 functions only for who asks by name */
    const size paper = {bench_asked_for(b, "train_step") ? 50 : 5, 200, 800}, shared = {10, 200, 400};

    measure(b, bench_shared_model(8, 64, HB_SILU, HB_VECTOR), &shared);
    measure(b, bench_paper_model(), &paper);
}

const bench_case bench_train_cases[] = {
    {"train_step", "a gradient step of training: shared, 10 functions x 600 points; the paper's, 50 x 1000", run},
    {0},
};
