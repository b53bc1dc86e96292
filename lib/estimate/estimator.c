/* The walk of a transition: normalise, evaluate the basis, predict, look for a change, slide the window, solve. */
#include "estimate/estimator.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimate/change.h"
#include "estimate/regression.h"
#include "estimate/rows.h"

/* unexplained motion, as a fraction of all motion and on its own (RMS, normalised), below which a vehicle is never
 * called out of span: at rest there is nothing to explain but rounding */
static const double span_motion = 0.1, span_rest = 1e-4;
/* what the coefficients of new dynamics must leave, at most, of the squared errors that speak for a change */
static const double explained_by_change = 0.25;

enum {
    RECENT = 10,       /* prediction errors behind one_step_error */
    EXPECT = 100,      /* fitted transitions that say what errors to expect */
    EXAMINE_EVERY = 8, /* solves */
};

const char *const hb_estimate_status_name[] = {
#define X(id, name, help) name,
    HB_ESTIMATE_STATUSES(X)
#undef X
};

/* What is remembered of a problem's last solve. */
typedef struct problem {
    hb_regression_result result;
    double condition; /* when it was examined last */
    bool singular;
} problem;

struct hb_estimator {
    const hb_model *m;
    hb_estimator_settings s;
    hb_workspace *workspace;
    hb_window window;
    hb_rows rows; /* the window, evaluated */
    hb_regression regression;
    hb_change change;
    hb_health health;

    hb_real *coefficient;
    double *variance;
    bool warm; /* coefficients were estimated since the last reset */
    problem *problem;
    int credit;         /* problems due, times solve_every */
    int turn, examined; /* the problems whose turn it is to be solved, and to be examined */
    int rest;           /* solves until one is examined again */

    uint64_t relinearised; /* sequence of the entry that was re-evaluated last */
    double recent[RECENT]; /* squared errors of predictions, in turn */
    uint64_t predictions;

    /* scratch */
    hb_real *trial; /* coefficients */
    double *error;  /* nx */

    /* transitions that wait to be used, in lanes 0 and on */
    double *staged; /* HB_ESTIMATOR_TOGETHER x (dt, z, u, dz) */
    int nstaged;
};

/* ---- memory ---- */

static hb_estimator *lay_out(const hb_model *m, const hb_estimator_settings *s, void **memory, hb_arena *arena)
{
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu;
    bool per_state = m->shape == HB_PER_STATE;
    hb_estimator *taken = hb_arena_take(arena, 1, sizeof *taken);
    hb_estimator e = {
        .m = m,
        .s = *s,
        .regression = {.nb = m->nb,
                       .nproblems = per_state ? m->nx : 1,
                       .nrows = per_state ? 1 : m->nx,
                       .method = s->method,
                       .ridge = s->ridge < 0 ? m->ridge : s->ridge,
                       .volume = m->volume,
                       .forgetting = s->forgetting},
        .change = {.nx = m->nx, .threshold = s->change_threshold},
    };

    hb_regression_lay_out(&e.regression, arena);
    e.rows = (hb_rows){.m = m, .nw = s->window, .ld = e.regression.ld};
    hb_rows_lay_out(&e.rows, arena);
    e.coefficient = hb_arena_take(arena, (size_t)hb_model_ncoefficients(m), sizeof *e.coefficient);
    e.trial = hb_arena_take(arena, (size_t)hb_model_ncoefficients(m), sizeof *e.trial);
    e.variance = hb_arena_take(arena, (size_t)hb_model_ncoefficients(m), sizeof *e.variance);
    e.problem = hb_arena_take(arena, (size_t)e.regression.nproblems, sizeof *e.problem);
    hb_change_lay_out(&e.change, arena);
    e.error = hb_arena_take(arena, nx, sizeof *e.error);
    e.staged = hb_arena_take(arena, HB_ESTIMATOR_TOGETHER * (1 + 2 * nx + nu), sizeof *e.staged);
    if (!*memory)
        *memory = hb_arena_take(arena, 1, hb_window_size(m, s->window));
    if (taken)
        *taken = e;
    return taken;
}

size_t hb_estimator_memory_size(const hb_model *m, const hb_estimator_settings *s)
{
    return hb_window_size(m, s->window);
}

void hb_estimator_free(hb_estimator *e)
{
    if (e)
        hb_workspace_free(e->workspace);
    free(e);
}

/* ---- rows ---- */

static const double *recall(hb_estimator *e, uint64_t sequence)
{
    return hb_rows_recall(&e->rows, sequence, hb_window_at(&e->window, sequence).dz);
}

/* of the newest: 0 */
static const double *recall_by_age(void *context, int age)
{
    hb_estimator *e = context;

    return recall(e, e->window.next - 1 - (uint64_t)age);
}

/* ---- sliding ---- */

/* Chooses old entries to be evaluated again along with new ones, in turn, and loads them into the lanes after. */
static int choose_entries(hb_estimator *e, uint64_t *ret_sequence)
{
    int count = hb_window_count(&e->window), chosen = e->s.relinearise < count ? e->s.relinearise : count;

    if (e->m->integration != HB_COMBINED || !e->warm)
        return 0;
    for (int i = 0; i < chosen; i++) {
        uint64_t next = e->relinearised + 1;
        e->relinearised = next >= e->window.first && next < e->window.next ? next : e->window.first;
        hb_window_entry entry = hb_window_at(&e->window, e->relinearised);
        hb_rows_load(&e->rows, e->nstaged + i, &entry);
        ret_sequence[i] = e->relinearised;
    }
    return chosen;
}

/* Puts the entries that were evaluated again in the place of what they were. */
static void replace_entries(hb_estimator *e, const uint64_t *sequence, int count)
{
    for (int i = 0; i < count; i++) {
        if (sequence[i] < e->window.first || /* it has left the window since */
            !hb_rows_of_lane(&e->rows, e->nstaged + i, hb_window_at(&e->window, sequence[i]).dz))
            continue;
        hb_regression_replace(&e->regression, (int)(e->window.next - 1 - sequence[i]), recall(e, sequence[i]),
                              e->rows.row);
        hb_rows_keep(&e->rows, sequence[i]);
    }
}

/* Takes the transition `entry`, whose rows are at hand, into window and sums, and the oldest out of them. */
static void slide(hb_estimator *e, const hb_window_entry *entry)
{
    hb_window *w = &e->window;

    if (hb_window_count(w) < w->nw)
        hb_regression_add(&e->regression, e->rows.row);
    else {
        hb_regression_slide(&e->regression, recall(e, w->first), e->rows.row);
        e->health.span_seconds -= hb_window_at(w, w->first).dt;
    }
    hb_rows_keep(&e->rows, w->next);
    hb_window_append(w, entry);
    e->health.span_seconds += entry->dt;
}

/* ---- solving ---- */

/* index of coefficient i of a problem */
static int coefficient_index(const hb_estimator *e, int p, int i)
{
    return e->m->shape == HB_PER_STATE ? i * e->m->nx + p : i;
}

/* New coefficients of one problem; the old ones stay when the window does not determine them. */
static bool solve_problem(hb_estimator *e, int p, bool examine)
{
    problem *q = &e->problem[p];
    double check = 0;

    q->singular = !hb_regression_solve(&e->regression, p, examine, &q->result);
    for (int i = 0; i < e->m->nb && !q->singular; i++)
        check += 0 * (double)(hb_real)q->result.coefficient[i];
    q->singular |= check != 0; /* a number too large for single precision is no answer */
    if (q->singular) {
        q->condition = INFINITY;
        return false;
    }
    for (int i = 0; i < e->m->nb; i++) {
        e->coefficient[coefficient_index(e, p, i)] = (hb_real)q->result.coefficient[i];
        if (examine)
            e->variance[coefficient_index(e, p, i)] = q->result.variance[i];
    }
    if (examine)
        q->condition = q->result.condition;
    return true;
}

/* What the coefficients leave unexplained of a transition in one state. */
static double error_of(const hb_estimator *e, const double *row, const hb_real *coefficient, int state)
{
    const double *g = row + state * e->regression.ld;
    double error = g[e->m->nb];

    for (int i = 0; i < e->m->nb; i++)
        error -= (double)coefficient[coefficient_index(e, state, i)] * g[i];
    return error;
}

/* ---- changes of dynamics ---- */

/* The coefficients that the newest `count` transitions would give on their own, to e->trial; false: none. */
static bool try_cut(hb_estimator *e, int count)
{
    for (int p = 0; p < e->regression.nproblems; p++) {
        const double *c = hb_regression_try_cut(&e->regression, p, count, recall_by_age, e);
        for (int i = 0; c && i < e->m->nb; i++)
            e->trial[coefficient_index(e, p, i)] = (hb_real)c[i];
        if (!c)
            return false;
    }
    return true;
}

/* An alarm may be raised by what no coefficients explain, a gust for one: then the window is worth keeping. So the
 * newest `count` transitions on their own must explain what they themselves show in the state that raised it. */
static bool worth_cutting(hb_estimator *e, int count, int state)
{
    double before = 0, after = 0;

    if (count >= hb_window_count(&e->window) || count > HB_STRIDE || !try_cut(e, count))
        return false;
    for (int age = 0; age < count; age++) {
        hb_window_entry entry = hb_window_at(&e->window, e->window.next - 1 - (uint64_t)age);
        hb_rows_load(&e->rows, age, &entry);
    }
    hb_rows_evaluate(&e->rows, e->workspace, count, e->trial);
    for (int age = 0; age < count; age++) {
        before += pow(error_of(e, recall_by_age(e, age), e->coefficient, state), 2);
        hb_rows_of_lane(&e->rows, age, hb_window_at(&e->window, e->window.next - 1 - (uint64_t)age).dz);
        after += pow(error_of(e, e->rows.row, e->trial, state), 2);
    }
    return after < explained_by_change * before;
}

/* Cuts the window to its newest `count` transitions. */
static void shorten(hb_estimator *e, int count)
{
    hb_window *w = &e->window;

    hb_regression_cut(&e->regression, count, recall_by_age, e);
    hb_window_drop_before(w, w->next - (uint64_t)count);
    e->health.span_seconds = 0;
    for (uint64_t sequence = w->first; sequence < w->next; sequence++)
        e->health.span_seconds += hb_window_at(w, sequence).dt;
    e->health.changes++;
}

/* Looks into an alarm, and cuts the window if the newest transitions are of other dynamics. Chance may have added one
 * too many to them, which spoils the fit: then fewer are tried. */
static bool adopt_change(hb_estimator *e, int count, int state)
{
    for (int fewer = 0; fewer < 3 && count - fewer >= HB_CHANGE_FEWEST; fewer++)
        if (worth_cutting(e, count - fewer, state)) {
            shorten(e, count - fewer);
            hb_change_settle(&e->change);
            return true;
        }
    return false;
}

/* What the first coefficients leave of the window they came from is what to expect of predictions, so that a change
 * soon after is seen. A fit looks better than it predicts, the more coefficients it has to the rows they came from. */
static void expect_errors_of_fit(hb_estimator *e)
{
    int count = hb_window_count(&e->window), rows = count * e->regression.nrows;
    double optimism = rows > e->m->nb ? sqrt((double)rows / (rows - e->m->nb)) : 0;

    if (optimism == 0 || !e->s.detect_changes)
        return;
    for (int age = (count < EXPECT ? count : EXPECT) - 1; age >= 0; age--) {
        const double *row = recall_by_age(e, age);
        for (int d = 0; d < e->m->nx; d++)
            e->error[d] = optimism * error_of(e, row, e->coefficient, d);
        hb_change_learn(&e->change, e->error, hb_window_at(&e->window, e->window.next - 1 - (uint64_t)age).dz);
    }
}

/* Status and health from the results of all problems. */
static void report(hb_estimator *e)
{
    hb_health *h = &e->health;
    double unexplained = 0, residual = 0, motion = 0, least = INFINITY, most = 0;
    bool singular = false;

    h->samples = hb_window_count(&e->window);
    if (!e->warm) {
        h->status = HB_ESTIMATE_WARMING_UP;
        return;
    }
    h->condition = 0;
    for (int p = 0; p < e->regression.nproblems; p++) {
        const problem *q = &e->problem[p];
        unexplained += q->result.unexplained;
        residual += q->result.residual;
        motion += q->result.motion;
        least = fmin(least, q->result.least);
        most = fmax(most, q->result.most);
        singular |= q->singular;
        h->condition = fmax(h->condition, q->condition);
    }
    h->expected_error = sqrt(unexplained / e->m->nx);
    h->out_of_span = residual > 0 ? fmin(1, unexplained / residual) : 0;
    h->excitation = most > 0 ? least / most : 0;
    if (singular)
        h->status = HB_ESTIMATE_SINGULAR;
    else if (h->out_of_span > e->s.span_threshold &&
             unexplained > span_motion * span_motion * motion + e->m->nx * span_rest * span_rest)
        h->status = HB_ESTIMATE_OUT_OF_SPAN;
    else
        h->status = HB_ESTIMATE_OK;
}

/* Solves the next `count` problems and reports. Examining a problem costs more than solving it, and its condition
 * changes slowly: problems are examined in turn, one every few solves; all at once only when nothing is known yet. */
static void solve(hb_estimator *e, int count, bool examine_all)
{
    int nproblems = e->regression.nproblems, due = e->rest == 0 ? e->examined : -1;
    bool changed = false;

    e->rest -= e->rest > 0;
    for (int i = 0; i < count; i++, e->turn = (e->turn + 1) % nproblems) {
        changed |= solve_problem(e, e->turn, examine_all || e->turn == due);
        if (e->turn == due) {
            e->examined = (due + 1) % nproblems;
            e->rest = EXAMINE_EVERY - 1;
        }
    }
    if (changed) {
        e->health.version++;
        hb_window_save_coefficients(&e->window, e->health.version, e->warm, e->coefficient);
    }
    report(e);
}

/* ---- the interface ---- */

/* What the present coefficients make of the new transition, before it is used. */
static void predict(hb_estimator *e)
{
    int nx = e->m->nx;
    double squared = 0;

    for (int d = 0; d < nx; d++) {
        e->error[d] = error_of(e, e->rows.row, e->coefficient, d);
        squared += e->error[d] * e->error[d];
    }
    e->recent[e->predictions++ % RECENT] = squared / nx;

    int count = e->predictions < RECENT ? (int)e->predictions : RECENT;
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += e->recent[i];
    e->health.one_step_error = sqrt(sum / count);
}

/* Transition i of those that wait. */
static hb_window_entry staged(const hb_estimator *e, int i)
{
    int nx = e->m->nx, nu = e->m->nu;
    const double *at = e->staged + i * (1 + 2 * nx + nu);

    return (hb_window_entry){at[0], at + 1, at + 1 + nx, at + 1 + nx + nu};
}

/* Normalised, to e->staged; false when a number is not finite in single precision. */
static bool normalise(hb_estimator *e, const hb_transition *t)
{
    const hb_model *m = e->m;
    double *dt = e->staged + e->nstaged * (1 + 2 * m->nx + m->nu), *z = dt + 1, *u = z + m->nx, *dz = u + m->nu;
    double check = 0 * (double)(hb_real)t->dt;

    *dt = t->dt;
    for (int i = 0; i < m->nx; i++) {
        z[i] = (t->x[i] - m->state_mean[i]) / m->state_std[i];
        dz[i] = (t->x_next[i] - t->x[i]) / m->state_std[i];
        check += 0 * (double)((hb_real)z[i] + (hb_real)dz[i]);
    }
    for (int i = 0; i < m->nu; i++) {
        u[i] = (t->u[i] - m->control_mean[i]) / m->control_std[i];
        check += 0 * (double)(hb_real)u[i];
    }
    return check == 0 && t->dt > 0;
}

bool hb_estimator_stage(hb_estimator *e, const hb_transition *t)
{
    if (e->nstaged == HB_ESTIMATOR_TOGETHER)
        hb_estimator_settle(e);
    if (!normalise(e, t)) {
        e->health.rejected++;
        return false;
    }
    e->nstaged++;
    return true;
}

/* Slides the window by what is staged and evaluated, `ret_used` of it: what the model has finite increments for.
 * Returns the number of newest transitions that speak for a change, *ret_state of them all; 0: none. Predictions are
 * those of the coefficients from before. */
static int use_staged(hb_estimator *e, int *ret_used, int *ret_state)
{
    int fresh = 0;

    *ret_used = 0;
    for (int lane = 0; lane < e->nstaged; lane++) {
        hb_window_entry entry = staged(e, lane);
        if (!hb_rows_of_lane(&e->rows, lane, entry.dz))
            continue;
        ++*ret_used;
        predict(e);
        if (fresh > 0)
            fresh++;
        else if (e->s.detect_changes && e->warm)
            fresh = hb_change_push(&e->change, e->error, entry.dz, ret_state);
        slide(e, &entry);
    }
    return fresh;
}

void hb_estimator_settle(hb_estimator *e)
{
    uint64_t old[HB_STRIDE];
    int where = 0;

    for (int lane = 0; lane < e->nstaged; lane++) {
        hb_window_entry entry = staged(e, lane);
        hb_rows_load(&e->rows, lane, &entry);
    }
    if (e->nstaged == 0)
        return;
    int nold = choose_entries(e, old);
    hb_rows_evaluate(&e->rows, e->workspace, e->nstaged + nold, e->coefficient);
    int used, fresh = use_staged(e, &used, &where);
    e->health.rejected += (uint64_t)(e->nstaged - used);
    if (used == 0) {
        e->nstaged = 0;
        return;
    }
    replace_entries(e, old, nold);
    e->nstaged = 0;
    bool changed = fresh > 0 && adopt_change(e, fresh, where);

    /* problems take turns, so that no sample pays for all when they are solved less often than samples come */
    bool first = !e->warm && hb_window_count(&e->window) >= e->s.warmup;
    if (changed || first) {
        e->warm = true;
        e->credit = 0;
        solve(e, e->regression.nproblems, true);
        if (first)
            expect_errors_of_fit(e);
    } else if (e->warm) {
        int nproblems = e->regression.nproblems;
        e->credit += used * nproblems;
        solve(e, e->credit / e->s.solve_every < nproblems ? e->credit / e->s.solve_every : nproblems, false);
        e->credit %= e->s.solve_every;
    } else {
        report(e);
    }
}

void hb_estimator_push(hb_estimator *e, const hb_transition *t)
{
    if (hb_estimator_stage(e, t))
        hb_estimator_settle(e);
}

void hb_estimator_reset(hb_estimator *e)
{
    uint64_t rejected = e->health.rejected, changes = e->health.changes, version = e->health.version + 1;
    size_t ncoefficients = (size_t)hb_model_ncoefficients(e->m);

    hb_window_drop_before(&e->window, e->window.next);
    hb_regression_clear(&e->regression);
    memset(e->coefficient, 0, ncoefficients * sizeof *e->coefficient);
    memset(e->variance, 0, ncoefficients * sizeof *e->variance);
    memset(e->problem, 0, (size_t)e->regression.nproblems * sizeof *e->problem);
    hb_change_reset(&e->change);
    e->nstaged = 0;
    e->warm = false;
    e->credit = 0;
    e->turn = 0;
    e->examined = 0;
    e->rest = 0;
    e->predictions = 0;
    e->health = (hb_health){.rejected = rejected, .changes = changes, .version = version};
    hb_window_save_coefficients(&e->window, version, false, e->coefficient);
}

int hb_estimator_retune(hb_estimator *e, const hb_estimator_settings *s, hb_error *err)
{
    int r = hb_setting_rows_check(hb_estimator_rows(), s, err);

    if (r)
        return r;
    /* what was summed up of errors while nobody looked says nothing about now */
    if (s->detect_changes && !e->s.detect_changes)
        hb_change_reset(&e->change);
    e->s.detect_changes = s->detect_changes;
    e->s.change_threshold = e->change.threshold = s->change_threshold;
    e->s.span_threshold = s->span_threshold;
    report(e);
    return 0;
}

/* Evaluates and sums up a window that was taken up from memory. */
static void resume(hb_estimator *e)
{
    hb_window *w = &e->window;

    hb_window_load_coefficients(w, &e->health.version, &e->warm, e->coefficient);
    for (uint64_t start = w->first; start < w->next; start += HB_STRIDE) {
        int lanes = w->next - start < HB_STRIDE ? (int)(w->next - start) : HB_STRIDE;
        for (int lane = 0; lane < lanes; lane++) {
            hb_window_entry entry = hb_window_at(w, start + (uint64_t)lane);
            hb_rows_load(&e->rows, lane, &entry);
        }
        hb_rows_evaluate(&e->rows, e->workspace, lanes, e->coefficient);
        for (int lane = 0; lane < lanes; lane++) {
            uint64_t sequence = start + (uint64_t)lane;
            hb_window_entry entry = hb_window_at(w, sequence);
            if (!hb_rows_of_lane(&e->rows, lane, entry.dz))
                memset(e->rows.row, 0, (size_t)(e->m->nx * e->regression.ld) * sizeof *e->rows.row);
            hb_rows_keep(&e->rows, sequence);
            hb_regression_add(&e->regression, e->rows.row);
            e->health.span_seconds += entry.dt;
        }
    }
    if (hb_window_count(w) >= e->s.warmup)
        e->warm = true;
    if (e->warm && hb_window_count(w) > 0) {
        solve(e, e->regression.nproblems, true);
        expect_errors_of_fit(e);
    } else
        report(e);
}

int hb_estimator_new(hb_estimator **ret, const hb_model *m, const hb_estimator_settings *s, void *memory,
                     hb_error *resumed, hb_error *err)
{
    int r = hb_estimator_check(m, s, err);
    hb_arena arena = {0};

    if (r)
        return r;
    if ((uintptr_t)memory % HB_ALIGNMENT)
        return hb_fail(err, EINVAL, "the window's memory is not aligned to %d bytes", (int)HB_ALIGNMENT);
    void *block = memory;
    lay_out(m, s, &block, &arena);
    if ((r = hb_arena_allocate(&arena, err)))
        return r;
    block = memory;
    hb_estimator *e = lay_out(m, s, &block, &arena);
    if ((r = hb_workspace_new(&e->workspace, m, false, err))) {
        hb_estimator_free(e);
        return r;
    }

    if (hb_window_open(&e->window, m, s->window, block, resumed))
        resume(e);
    else
        report(e);
    *ret = e;
    return 0;
}

const hb_real *hb_estimator_coefficients(const hb_estimator *e)
{
    return e->coefficient;
}

const double *hb_estimator_variance(const hb_estimator *e)
{
    return e->variance;
}

const hb_health *hb_estimator_health(const hb_estimator *e)
{
    return &e->health;
}

void hb_estimator_seed(hb_estimator *e, const hb_real *coefficient)
{
    if (e->warm)
        return;
    memcpy(e->coefficient, coefficient, (size_t)hb_model_ncoefficients(e->m) * sizeof *coefficient);
    e->health.version++;
    hb_window_save_coefficients(&e->window, e->health.version, false, e->coefficient);
}
