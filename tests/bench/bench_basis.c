/* Steps of models and their adjoints, and the increments of one transition. */
#include <stdlib.h>

#include "dynamics/basis.h"
#include "bench.h"
#include "bench_models.h"
#include "base/pool.h"
#include "dynamics/predictor.h"
#include "../unit/quadrotor_expressions.h"

enum { SAMPLES = 100, MOST_THREADS = 2 };

typedef struct setup {
    hb_model *m;
    hb_predictor *p;
    hb_pool *pool;
    hb_workspace *w[MOST_THREADS];
    char *tape[MOST_THREADS];
    int from[MOST_THREADS + 1]; /* lanes of each range */
    hb_real *z, *u, *dt, *next, *dnext, *dz, *du, *g;
} setup;

static void *or_fail(void *x)
{
    if (!x)
        bench_fail("out of memory");
    return x;
}

static setup new_setup(hb_model *m, int nthreads)
{
    hb_error err = {0};
    setup s = {.m = m};

    if (hb_predictor_new(&s.p, m, &err) || hb_pool_new(&s.pool, nthreads, NULL, NULL, &err))
        bench_fail("%s", err.text);
    for (int t = 0; t < nthreads; t++) {
        if (hb_workspace_new(&s.w[t], m, false, &err))
            bench_fail("%s", err.text);
        s.tape[t] = or_fail(aligned_alloc(HB_ALIGNMENT, hb_predictor_tape_size(m)));
    }
    /* whole groups of lanes a thread */
    for (int t = 0; t <= nthreads; t++)
        s.from[t] = t == nthreads ? SAMPLES : hb_padded(SAMPLES * t / nthreads);
    s.z = bench_rows(m->nx, 1);
    s.u = bench_rows(m->nu, 2);
    s.dt = bench_constant_row(m->dt);
    s.next = bench_rows(m->nx, 3);
    s.dnext = bench_rows(m->nx, 4);
    s.dz = bench_rows(m->nx, 5);
    s.du = bench_rows(m->nu, 6);
    s.g = bench_rows((m->nb + 1) * m->nx, 7);
    hb_real *c = bench_rows(m->nb * m->nx / HB_STRIDE + 1, 8);
    hb_predictor_set(s.p, c);
    free(c);
    return s;
}

static void free_setup(setup *s)
{
    for (int t = 0; t < MOST_THREADS; t++) {
        hb_workspace_free(s->w[t]);
        free(s->tape[t]);
    }
    hb_real *const rows[] = {s->z, s->u, s->dt, s->next, s->dnext, s->dz, s->du, s->g};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        free(rows[i]);
    hb_pool_free(s->pool);
    hb_predictor_free(s->p);
    hb_model_free(s->m);
}

static hb_batch range(const setup *s, int part)
{
    const int from = s->from[part];
    return (hb_batch){.n = s->from[part + 1] - from, .z = s->z + from, .u = s->u + from, .dt = s->dt + from};
}

static void forward_part(void *context, int part, int thread)
{
    const setup *s = context;
    const hb_batch in = range(s, part);
    hb_predictor_step(s->p, s->w[thread], &in, s->next + s->from[part], s->tape[part]);
}

static void backward_part(void *context, int part, int thread)
{
    const setup *s = context;
    const hb_batch in = range(s, part);
    hb_predictor_adjoint(s->p, s->w[thread], &in, s->tape[part], s->dnext + s->from[part], s->dz + s->from[part],
                         s->du + s->from[part]);
}

static void forward(void *context)
{
    const setup *s = context;
    hb_pool_run(s->pool, hb_pool_nthreads(s->pool), forward_part, context);
}

static void backward(void *context)
{
    const setup *s = context;
    hb_pool_run(s->pool, hb_pool_nthreads(s->pool), backward_part, context);
}

static void single(void *context)
{
    const setup *s = context;
    const hb_batch in = {.n = 1, .z = s->z, .u = s->u, .dt = s->dt};
    hb_basis_increments(s->m, s->w[0], &in, NULL, s->g);
}

static void run_steps(bench *b, void (*work)(void *context))
{
    for (int nthreads = 1; nthreads <= MOST_THREADS; nthreads++)
        for (int i = 0; bench_model(i); i++) {
            setup s = new_setup(bench_model(i), nthreads);
            bench_describe(b, s.m);
            bench_set_int(b, "ns", SAMPLES);
            forward(&s);
            bench_time(b, work, &s, nthreads, SAMPLES * bench_step_flops(s.m));
            bench_emit(b);
            free_setup(&s);
        }
}

static void run_forward(bench *b)
{
    run_steps(b, forward);
}

static void run_backward(bench *b)
{
    run_steps(b, backward);
}

static void run_single(bench *b)
{
    for (int i = 0; bench_model(i); i++) {
        setup s = new_setup(bench_model(i), 1);
        bench_describe(b, s.m);
        bench_time(b, single, &s, 1, 0);
        bench_emit(b);
        free_setup(&s);
    }
}

/* One evaluation of a nominal model. */
typedef struct physics_setup {
    const hb_nominal *nominal;
    int n;
    hb_real *x, *u, *d, *xdot, *dx, *du, *scratch;
} physics_setup;

static void physics_field(void *context)
{
    const physics_setup *s = context;
    s->nominal->field(s->nominal, s->nominal->parameter_default, s->n, s->x, s->u, s->xdot, s->scratch);
}

static void physics_adjoint(void *context)
{
    const physics_setup *s = context;
    s->nominal->adjoint(s->nominal, s->nominal->parameter_default, s->n, s->x, s->u, s->d, s->dx, s->du, s->scratch);
}

static void run_physics(bench *b)
{
    const hb_physics_source source = quadrotor_expressions();
    hb_physics *expressions = NULL;
    hb_error err = {0};

    if (hb_physics_new(&expressions, &source, NULL, &err))
        bench_fail("%s", err.text);
    const hb_nominal *each[] = {hb_nominal_find("quadrotor"), hb_physics_nominal(expressions)};
    void (*const work[])(void *) = {physics_field, physics_adjoint};
    for (int samples = 16; samples <= SAMPLES; samples += SAMPLES - 16)
        for (int w = 0; w < 2; w++) {
            double seconds[2];
            for (int k = 0; k < 2; k++) {
                physics_setup s = {.nominal = each[k],
                                   .n = samples,
                                   .x = bench_rows(13, 1),
                                   .u = bench_rows(4, 2),
                                   .d = bench_rows(13, 3),
                                   .xdot = bench_rows(13, 4),
                                   .dx = bench_rows(13, 5),
                                   .du = bench_rows(4, 6),
                                   .scratch = bench_rows(each[k]->rows + 1, 7)};
                bench_set_text(b, "physics", k ? "expressions" : "built-in");
                bench_set_text(b, "of", w ? "derivatives" : "rates");
                bench_set_int(b, "samples", samples);
                seconds[k] = bench_time(b, work[w], &s, 1, 0);
                if (k)
                    bench_set_number(b, "times_built_in", seconds[1] / seconds[0]);
                bench_emit(b);
                hb_real *const rows[] = {s.x, s.u, s.d, s.xdot, s.dx, s.du, s.scratch};
                for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                    free(rows[i]);
            }
        }
    hb_physics_free(expressions);
}

const bench_case bench_basis_cases[] = {
    {"basis_forward", "one step of 100 samples: the paper's model, and collapsed shared ones", run_forward},
    {"basis_backward", "the adjoint of that step, states and controls", run_backward},
    {"basis_single", "increments of all basis functions for one transition", run_single},
    {"physics", "the quadrotor's rates and their derivatives: built in, and as expressions", run_physics},
    {0},
};
