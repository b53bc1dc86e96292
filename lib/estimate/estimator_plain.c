/* Coefficients of the window alone: the inner product, and least squares as in the paper. */
#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/estimator_internal.h"

/* New coefficients of one problem; the old ones stay when the window does not determine them. */
static bool solve_problem(hb_estimator *e, int p, bool examine)
{
    hb_plain_problem *q = &e->problem[p];
    double check = 0;

    q->singular = !hb_regression_solve(&e->regression, p, examine, &q->result);
    for (int i = 0; i < e->m->nb && !q->singular; i++)
        check += hb_zero_if_finite_real(q->result.coefficient[i]);
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
        const hb_plain_problem *q = &e->problem[p];
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
             unexplained > HB_SPAN_MOTION * HB_SPAN_MOTION * motion + e->m->nx * HB_LEAST_NOISE * HB_LEAST_NOISE)
        h->status = HB_ESTIMATE_OUT_OF_SPAN;
    else
        h->status = HB_ESTIMATE_OK;
}

/* Solves the next `count` problems and reports. Problems are examined in turn, one every few solves; all at once only
 * when nothing is known yet. */
static void solve(hb_estimator *e, int count, bool examine_all)
{
    int nproblems = e->regression.nproblems, due = e->rest == 0 ? e->examined : -1;
    bool changed = false;

    e->rest -= e->rest > 0;
    for (int i = 0; i < count; i++, e->turn = (e->turn + 1) % nproblems) {
        changed |= solve_problem(e, e->turn, examine_all || e->turn == due);
        if (e->turn == due) {
            e->examined = (due + 1) % nproblems;
            e->rest = HB_EXAMINE_EVERY - 1;
        }
    }
    if (changed) {
        e->health.version++;
        hb_window_save_coefficients(&e->window, e->health.version, e->warm, e->coefficient);
    }
    hb_plain_report(e);
}

/* How many problems to solve now that `used` transitions have come in: they take turns, so that no transition pays for
 * all when they are solved less often than transitions come. */
static int problems_due(hb_estimator *e, int used)
{
    int nproblems = e->regression.nproblems;

    e->credit += used * nproblems;
    int due = e->credit / e->s.solve_every < nproblems ? e->credit / e->s.solve_every : nproblems;
    e->credit %= e->s.solve_every;
    return due;
}

int hb_plain_learn(hb_estimator *e)
{
    hb_window *w = &e->window;
    int used = 0;

    for (int lane = 0; lane < e->nstaged; lane++) {
        hb_window_entry entry;
        if (!hb_estimator_take_staged(e, lane, &entry))
            continue;
        used++;
        hb_estimator_predict(e);
        if (hb_window_count(w) < w->nw)
            hb_regression_add(&e->regression, e->rows.row);
        else
            hb_regression_slide(&e->regression, hb_estimator_recall(e, w->first), e->rows.row);
        hb_estimator_slide(e, &entry);
    }
    if (used == 0)
        return 0;
    if (!e->warm && hb_window_count(w) >= e->warmup) {
        e->warm = true;
        e->credit = 0;
        solve(e, e->regression.nproblems, true);
    } else if (e->warm) {
        solve(e, problems_due(e, used), false);
    } else {
        hb_plain_report(e);
    }
    return used;
}

void hb_plain_reset(hb_estimator *e)
{
    hb_regression_clear(&e->regression);
    memset(e->coefficient, 0, (size_t)hb_model_ncoefficients(e->m) * sizeof *e->coefficient);
    memset(e->problem, 0, (size_t)e->regression.nproblems * sizeof *e->problem);
    e->examined = e->rest = e->credit = e->turn = 0;
}

void hb_plain_resume(hb_estimator *e)
{
    hb_window *w = &e->window;

    for (uint64_t sequence = w->first; sequence < w->next; sequence++)
        hb_regression_add(&e->regression, hb_estimator_recall(e, sequence));
    e->warm |= hb_window_count(w) >= e->warmup;
    if (e->warm && hb_window_count(w) > 0)
        solve(e, e->regression.nproblems, true);
    else
        hb_plain_report(e);
}
