/* Coefficients of the window alone: the inner product, and least squares as in the paper. */
#include <math.h>
#include <string.h>

#include "estimate/estimator_internal.h"

/* unexplained motion, as a fraction of all motion and on its own (RMS, normalised), below which a vehicle is never
 * called out of span: at rest there is nothing to explain but rounding */
static const double span_motion = 0.1, span_rest = 1e-4;
/* what the coefficients of new dynamics must leave, at most, of the squared errors that indicate a change */
static const double explained_by_change = 0.25;

enum {
    EXPECT = 100,      /* fitted transitions that say what errors to expect */
    EXAMINE_EVERY = 8, /* solves */
};

/* ---- sliding ---- */

/* Puts the entries that were evaluated again in the place of what they were. */
static void replace_entries(hb_estimator *e, const uint64_t *sequence, int count)
{
    for (int i = 0; i < count; i++) {
        if (sequence[i] < e->window.first || /* it has left the window since */
            !hb_rows_of_lane(&e->rows, e->nstaged + i, hb_window_at(&e->window, sequence[i]).dz))
            continue;
        hb_regression_replace(&e->regression, (int)(e->window.next - 1 - sequence[i]),
                              hb_estimator_recall(e, sequence[i]), e->rows.row);
        hb_rows_keep(&e->rows, sequence[i]);
    }
}

/* Takes the transition `entry`, whose rows are evaluated, into window and sums, and the oldest out of them. */
static void slide(hb_estimator *e, const hb_window_entry *entry)
{
    hb_window *w = &e->window;

    if (hb_window_count(w) < w->nw)
        hb_regression_add(&e->regression, e->rows.row);
    else {
        hb_regression_slide(&e->regression, hb_estimator_recall(e, w->first), e->rows.row);
        e->health.span_seconds -= hb_window_at(w, w->first).dt;
    }
    hb_rows_keep(&e->rows, w->next);
    hb_window_append(w, entry);
    e->health.span_seconds += entry->dt;
}

/* ---- solving ---- */

/* New coefficients of one problem; the old ones stay when the window does not determine them. */
static bool solve_problem(hb_estimator *e, int p, bool examine)
{
    hb_problem *q = &e->problem[p];
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
        e->coefficient[hb_estimator_index(e, p, i)] = (hb_real)q->result.coefficient[i];
        if (examine)
            e->variance[hb_estimator_index(e, p, i)] = q->result.variance[i];
    }
    if (examine)
        q->condition = q->result.condition;
    return true;
}

/* Status and health from the results of all problems. */
void hb_plain_report(hb_estimator *e)
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
        const hb_problem *q = &e->problem[p];
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
    hb_plain_report(e);
}

/* ---- changes of dynamics ---- */

/* The coefficients that the newest `count` transitions would give on their own, to e->trial; false: none. */
static bool try_cut(hb_estimator *e, int count)
{
    for (int p = 0; p < e->regression.nproblems; p++) {
        const double *c = hb_regression_try_cut(&e->regression, p, count, hb_estimator_recall_by_age, e);
        for (int i = 0; c && i < e->m->nb; i++)
            e->trial[hb_estimator_index(e, p, i)] = (hb_real)c[i];
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
    for (int age = 0; age < count; age++)
        hb_estimator_load(e, age, e->window.next - 1 - (uint64_t)age);
    hb_rows_evaluate(&e->rows, e->workspace, count, e->trial);
    for (int age = 0; age < count; age++) {
        before += pow(hb_estimator_error(e, hb_estimator_recall_by_age(e, age), e->coefficient, state), 2);
        hb_rows_of_lane(&e->rows, age, hb_window_at(&e->window, e->window.next - 1 - (uint64_t)age).dz);
        after += pow(hb_estimator_error(e, e->rows.row, e->trial, state), 2);
    }
    return after < explained_by_change * before;
}

/* Cuts the window to its newest `count` transitions. */
static void shorten(hb_estimator *e, int count)
{
    hb_window *w = &e->window;

    hb_regression_cut(&e->regression, count, hb_estimator_recall_by_age, e);
    hb_window_drop_before(w, w->next - (uint64_t)count);
    hb_estimator_count_span(e);
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
        const double *row = hb_estimator_recall_by_age(e, age);
        for (int d = 0; d < e->m->nx; d++)
            e->error[d] = optimism * hb_estimator_error(e, row, e->coefficient, d);
        hb_change_learn(&e->change, e->error, hb_window_at(&e->window, e->window.next - 1 - (uint64_t)age).dz);
    }
}

/* ---- the walk ---- */

/* Slides the window by what is staged and evaluated, `ret_used` of it: what the model has finite increments for.
 * Returns the number of newest transitions that indicate a change, *ret_state of them all; 0: none. Predictions are
 * those of the coefficients from before. */
static int use_staged(hb_estimator *e, int *ret_used, int *ret_state)
{
    int fresh = 0;

    *ret_used = 0;
    for (int lane = 0; lane < e->nstaged; lane++) {
        hb_window_entry entry;
        if (!hb_estimator_take_staged(e, lane, &entry))
            continue;
        ++*ret_used;
        hb_estimator_predict(e);
        if (fresh > 0)
            fresh++;
        else if (e->s.detect_changes && e->warm)
            fresh = hb_change_push(&e->change, e->error, entry.dz, ret_state);
        slide(e, &entry);
    }
    return fresh;
}

int hb_plain_learn(hb_estimator *e, const uint64_t *old, int nold)
{
    int where = 0, used, fresh = use_staged(e, &used, &where);

    if (used == 0)
        return 0;
    replace_entries(e, old, nold);
    bool changed = fresh > 0 && adopt_change(e, fresh, where);
    bool first = !e->warm && hb_window_count(&e->window) >= e->warmup;
    if (changed || first) {
        e->warm = true;
        e->credit = 0;
        solve(e, e->regression.nproblems, true);
        if (first)
            expect_errors_of_fit(e);
    } else if (e->warm) {
        solve(e, hb_estimator_due(e, used, e->regression.nproblems), false);
    } else {
        hb_plain_report(e);
    }
    return used;
}

void hb_plain_reset(hb_estimator *e)
{
    size_t ncoefficients = (size_t)hb_model_ncoefficients(e->m);

    hb_regression_clear(&e->regression);
    memset(e->coefficient, 0, ncoefficients * sizeof *e->coefficient);
    memset(e->problem, 0, (size_t)e->regression.nproblems * sizeof *e->problem);
    e->examined = 0;
    e->rest = 0;
}

void hb_plain_resume(hb_estimator *e)
{
    hb_window *w = &e->window;

    for (uint64_t sequence = w->first; sequence < w->next; sequence++)
        hb_regression_add(&e->regression, hb_estimator_recall(e, sequence));
    if (hb_window_count(w) >= e->warmup)
        e->warm = true;
    if (e->warm && hb_window_count(w) > 0) {
        solve(e, e->regression.nproblems, true);
        expect_errors_of_fit(e);
    } else
        hb_plain_report(e);
}
