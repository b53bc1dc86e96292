#include "plan/candidate_evaluation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/numbers.h"

/* lanes that one thread works on, and what came of them */
typedef struct part {
    hb_lanes lanes;
    bool evaluated;    /* all costs are known */
    bool complete;     /* and all gradients */
    int dropped;       /* lanes that were not finite */
    hb_candidate best; /* of them */
} part;

struct hb_candidate_evaluation {
    int nx, nu, nthreads;
    double lane_work; /* operations of one step of one sample */
    hb_pool *pool;
    hb_rollout **rollout; /* one per thread */
    hb_time_budget *time; /* one per thread */
    part *part;
    int nparts;
    atomic_bool stop;
    uint64_t dropped;
    hb_plan_problem problem;
    hb_decisions *decisions; /* NULL: the clock's answers are not noted */

    /* what the threads work on */
    const hb_candidate_job *job;
    const hb_candidate *at;
    const double *u;
    double *a, *b;
    bool no_gradient; /* replay: there was no time for it */
};

void hb_candidate_lay_out(hb_candidate *c, hb_arena *arena, int nx, int nv, int nh)
{
    c->cost = INFINITY;
    c->w = hb_arena_take(arena, (size_t)nh * (size_t)nv, sizeof(hb_real));
    c->states = hb_arena_take(arena, (size_t)(nh + 1) * (size_t)nx, sizeof(double));
}

void hb_candidate_copy(hb_candidate *to, const hb_candidate *from, int nx, int nv, int nh)
{
    to->cost = from->cost;
    to->impossible = from->impossible;
    memcpy(to->w, from->w, (size_t)nh * (size_t)nv * sizeof *to->w);
    memcpy(to->states, from->states, (size_t)(nh + 1) * (size_t)nx * sizeof *to->states);
}

static hb_candidate_evaluation *lay_out(hb_arena *arena, const hb_model *m, int nthreads, int max_parts,
                                        int max_horizon)
{
    hb_candidate_evaluation *e = hb_arena_take(arena, 1, sizeof *e), measured = {0};
    hb_candidate_evaluation *to = e ? e : &measured;

    to->rollout = hb_arena_take(arena, (size_t)nthreads, sizeof *to->rollout);
    to->time = hb_arena_take(arena, (size_t)nthreads, sizeof *to->time);
    to->part = hb_arena_take(arena, (size_t)max_parts, sizeof *to->part);
    for (int i = 0; i < max_parts; i++) {
        hb_candidate best;
        hb_candidate_lay_out(&best, arena, m->nx, m->nu, max_horizon);
        if (e)
            e->part[i].best = best;
    }
    return e;
}

/* multiplications and additions of the networks of one step */
static double lane_work(const hb_model *m)
{
    const double stages = m->integration == HB_DIRECT ? 1 : 4 * m->substeps;
    const double numbers =
        m->architecture == HB_SHARED
            ? (double)m->basis.nparameters - (double)m->nb * m->nx * (double)hb_mlp_head(&m->basis).width
            : (double)m->nparameters;
    return 2 * stages * numbers;
}

int hb_candidate_evaluation_new(hb_candidate_evaluation **ret, const hb_model *m, hb_pool *pool, int max_samples,
                                int max_horizon, hb_error *err)
{
    const int nthreads = hb_pool_nthreads(pool), groups = hb_padded(max_samples) / HB_LANES;
    const int max_parts = groups > nthreads ? groups : nthreads;
    hb_arena arena = {0};

    lay_out(&arena, m, nthreads, max_parts, max_horizon);
    int failed = hb_arena_allocate(&arena, err);
    if (failed)
        return failed;
    hb_candidate_evaluation *e = lay_out(&arena, m, nthreads, max_parts, max_horizon);
    e->nx = m->nx;
    e->nu = m->nu;
    e->lane_work = lane_work(m);
    e->pool = pool;
    e->nthreads = nthreads;
    for (int i = 0; !failed && i < nthreads; i++)
        failed = hb_rollout_new(&e->rollout[i], m, max_horizon, err);
    if (failed) {
        hb_candidate_evaluation_free(e);
        return failed;
    }
    *ret = e;
    return 0;
}

void hb_candidate_evaluation_free(hb_candidate_evaluation *e)
{
    if (!e)
        return;
    for (int i = 0; i < e->nthreads; i++)
        hb_rollout_free(e->rollout[i]);
    free(e);
}

void hb_candidate_evaluation_follow(hb_candidate_evaluation *e, hb_decisions *decisions)
{
    e->decisions = decisions;
}

/* The clock's answers come from a recording. */
static bool scripted(const hb_candidate_evaluation *e)
{
    return e->decisions && e->decisions->scripted;
}

static bool note(const hb_candidate_evaluation *e, bool yes)
{
    return e->decisions ? hb_decisions_note(e->decisions, yes) : yes;
}

void hb_candidate_evaluation_begin(hb_candidate_evaluation *e, const hb_plan_problem *problem, const hb_clock *clock,
                                   double deadline)
{
    if (scripted(e))
        clock = NULL;
    e->problem = *problem;
    e->dropped = 0;
    atomic_store(&e->stop, false);
    for (int i = 0; i < e->nthreads; i++)
        hb_time_budget_begin(&e->time[i], clock, deadline, &e->stop);
}

void hb_candidate_evaluation_heed(hb_candidate_evaluation *e, const atomic_bool *interrupt)
{
    for (int i = 0; i < e->nthreads; i++)
        e->time[i].interrupt = interrupt;
}

bool hb_candidate_evaluation_ask(hb_candidate_evaluation *e, hb_piece kind)
{
    if (scripted(e))
        return hb_decisions_recall(e->decisions);
    e->time[0].kind = kind;
    return note(e, hb_time_budget_ask(&e->time[0]));
}

void hb_candidate_evaluation_rest(hb_candidate_evaluation *e)
{
    hb_time_budget_rest(&e->time[0]);
}

bool hb_candidate_evaluation_fits(const hb_candidate_evaluation *e, hb_piece kind, int count)
{
    if (scripted(e))
        return hb_decisions_recall(e->decisions);
    return note(e, hb_time_budget_fits(&e->time[0], kind, count));
}

uint64_t hb_candidate_evaluation_pieces(const hb_candidate_evaluation *e)
{
    uint64_t sum = 0;

    for (int i = 0; i < e->nthreads; i++)
        sum += e->time[i].pieces;
    return sum;
}

uint64_t hb_candidate_evaluation_dropped(const hb_candidate_evaluation *e)
{
    return e->dropped;
}

/* cuts ns samples into ranges of lanes, one or more a thread */
static void cut(hb_candidate_evaluation *e, int ns)
{
    int nblocks = (ns + HB_STRIDE - 1) / HB_STRIDE, a_block = (e->nthreads + nblocks - 1) / nblocks;

    e->nparts = 0;
    for (int block = 0; block < nblocks; block++) {
        int lanes = ns - block * HB_STRIDE < HB_STRIDE ? ns - block * HB_STRIDE : HB_STRIDE;
        int groups = hb_padded(lanes) / HB_LANES;
        for (int i = 0; i < a_block; i++) {
            int first = i * groups / a_block * HB_LANES, end = (i + 1) * groups / a_block * HB_LANES;
            if (end > first)
                e->part[e->nparts++].lanes =
                    (hb_lanes){.block = block, .first = first, .n = (end < lanes ? end : lanes) - first};
        }
    }
}

/* notes the best of a range of lanes that was just evaluated, before anything changes it */
static void note_best(part *it, const hb_population *pop, int nstates, const hb_rollout *rollout)
{
    const hb_real *cost = hb_population_cost(pop, it->lanes), *states = hb_rollout_states(rollout);
    int best = -1;

    it->dropped = 0;
    for (int s = 0; s < it->lanes.n; s++) {
        if (!isfinite(cost[s]))
            it->dropped++;
        else if (best < 0 || cost[s] < cost[best])
            best = s;
    }
    it->best.cost = INFINITY;
    if (best < 0)
        return;
    it->best.cost = cost[best];
    it->best.impossible = hb_rollout_impossible(rollout)[best];
    hb_population_get(pop, it->lanes.block * HB_STRIDE + it->lanes.first + best, it->best.w);
    for (int i = 0; i < nstates; i++)
        it->best.states[i] = states[(ptrdiff_t)i * HB_STRIDE + best];
}

static void run_part(void *context, int number, int thread)
{
    hb_candidate_evaluation *e = context;
    const hb_candidate_job *j = e->job;
    const hb_plan_problem *of = &e->problem;
    hb_population *pop = j->population;
    part *it = &e->part[number];
    hb_rollout *rollout = e->rollout[thread];
    hb_time_budget *time = &e->time[thread];
    const hb_proceed proceed = {.ask = hb_time_budget_ask, .context = time};
    const hb_real *u = hb_population_u(pop, it->lanes);
    hb_real *cost = hb_population_cost(pop, it->lanes);
    /* one sample alone is computed faster, but rounded otherwise: that must not depend on where the cuts are */
    const int n = it->lanes.n == 1 && j->ns > 1 ? 2 : it->lanes.n;

    hb_population_draw(pop, it->lanes, j->draw_from, j->mean, j->deviation, j->correlation, j->key, j->round);
    hb_population_bound(pop, it->lanes);
    time->kind = j->kind;
    it->complete = false;
    it->evaluated = hb_rollout_cost(rollout, of, n, u, j->adam > 0, cost, &proceed);
    if (it->evaluated) {
        note_best(it, pop, (of->nh + 1) * e->nx, rollout);
        it->complete = j->adam == 0;
    }
    if (it->evaluated && j->adam > 0 && !e->no_gradient) {
        time->kind = HB_PIECE_BACKWARD;
        it->complete = hb_rollout_gradient(rollout, of, u, hb_population_du(pop, it->lanes), &proceed);
    }
    hb_time_budget_rest(time);
}

bool hb_candidate_evaluation_run(hb_candidate_evaluation *e, const hb_candidate_job *job, hb_candidate *best)
{
    bool evaluated = true, complete = true;

    cut(e, job->ns);
    e->job = job;
    if (scripted(e)) {
        atomic_store(&e->stop, !hb_decisions_recall(e->decisions));
        e->no_gradient = job->adam > 0 && !atomic_load(&e->stop) && !hb_decisions_recall(e->decisions);
    }
    hb_pool_run(e->pool, e->nparts, run_part, e);
    for (int i = 0; i < e->nparts; i++) {
        evaluated = evaluated && e->part[i].evaluated;
        complete = complete && e->part[i].complete;
    }
    if (scripted(e))
        atomic_store(&e->stop, false);
    else if (note(e, evaluated) && job->adam > 0)
        note(e, complete);
    for (int i = 0; evaluated && i < e->nparts; i++) {
        e->dropped += (uint64_t)e->part[i].dropped;
        if (e->part[i].best.cost < best->cost)
            hb_candidate_copy(best, &e->part[i].best, e->nx, job->population->map->nv, e->problem.nh);
    }
    /* all samples take the step, or none */
    for (int i = 0; complete && job->adam > 0 && i < e->nparts; i++) {
        hb_population_adam(job->population, e->part[i].lanes, job->adam, job->rate, job->clip, job->fallback);
        hb_population_bound(job->population, e->part[i].lanes);
    }
    return complete;
}

/* how many threads compute the Jacobians: those of a small model are faster on one */
static int jacobian_threads(const hb_candidate_evaluation *e)
{
    const double worth = (double)e->problem.nh * e->nx * e->lane_work / HB_THREAD_WORK;
    const int most = e->nthreads < e->problem.nh ? e->nthreads : e->problem.nh;

    return worth < 2 ? 1 : worth < most ? (int)worth : most;
}

static void jacobians_part(void *context, int number, int thread)
{
    hb_candidate_evaluation *e = context;
    const int nx = e->nx, nu = e->nu, nh = e->problem.nh;
    const int first = number * nh / e->nparts, end = (number + 1) * nh / e->nparts;
    hb_time_budget *time = &e->time[thread];
    const hb_proceed proceed = {.ask = hb_time_budget_ask, .context = time};

    time->kind = HB_PIECE_JACOBIANS;
    e->part[number].complete = hb_rollout_jacobians(
        e->rollout[thread], e->problem.model, e->problem.dt, end - first, e->at->states + first * nx, e->u + first * nu,
        e->a + (ptrdiff_t)first * nx * nx, e->b + (ptrdiff_t)first * nx * nu, &proceed);
    hb_time_budget_rest(time);
}

bool hb_candidate_evaluation_jacobians(hb_candidate_evaluation *e, const hb_candidate *at, const double *u, double *a,
                                       double *b)
{
    bool complete = true;

    if (scripted(e) && !hb_decisions_recall(e->decisions))
        return false;
    e->nparts = jacobian_threads(e);
    e->at = at;
    e->u = u;
    e->a = a;
    e->b = b;
    hb_pool_run(e->pool, e->nparts, jacobians_part, e);
    for (int i = 0; i < e->nparts; i++)
        complete = complete && e->part[i].complete;
    return scripted(e) ? complete : note(e, complete);
}

bool hb_candidate_evaluation_steps(hb_candidate_evaluation *e, const double *states, const double *u, double *next)
{
    const hb_plan_problem *of = &e->problem;

    for (int first = 0; first < of->nh; first += HB_STRIDE) {
        const int n = of->nh - first < HB_STRIDE ? of->nh - first : HB_STRIDE;
        if (!hb_candidate_evaluation_ask(e, HB_PIECE_DEFECTS))
            return false;
        const bool possible = hb_rollout_steps(e->rollout[0], of->model, of->dt, of->cost->limits.trained_range, n,
                                               states + (ptrdiff_t)first * e->nx, u + (ptrdiff_t)first * e->nu,
                                               next + (ptrdiff_t)first * e->nx);
        hb_candidate_evaluation_rest(e);
        if (!possible)
            return false;
    }
    return true;
}
