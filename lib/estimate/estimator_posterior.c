/* Coefficients as a belief: every transition is judged before it is believed.
 *
 *     nu = r - G c        S = G L^-1 G^T + R + tolerance        d^2 = nu^T S^-1 nu, about nx for what was expected
 *
 * The tolerance is for the model, which is not exact: fractions of the motion, now and of late. A large d^2 is set
 * aside, one in between counts in part. What is usual is seen from the median of late: when more than half of what
 * comes in does not fit, it is not a matter of single samples, and is believed as far as its size allows; the noise
 * then grows by itself.
 *
 * Several in a row that agree with each other better than with c are a change (change.h): window and memory are cut.
 *
 * Out of span is what neither noise nor coefficients explain. Noise of sensors adds up to nothing over consecutive
 * transitions, since each end is the next one's start; foreign dynamics add up. So innovations are summed in blocks of
 * four, and their energy over half a second is compared with what the noise of one transition and the doubt about the
 * coefficients allow. Coefficients far outside the trained population, and more than half of late set aside, are out of
 * span as well; so are a few in a row that nothing explains (estimator_foreign.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/statistics.h"
#include "estimate/estimator_internal.h"

/* d^2 beyond its mean nx, in standard deviations sqrt(2 nx): from where on it counts in part, and not at all */
static const double doubtful = 3, impossible = 8;
/* error that is excused as inexactness of the model: fractions of the present and the recent motion, and rounding */
static const double inexact_now = 0.05, inexact_lately = 0.1, rounding = 1e-5;
/* noise of a transition to start with where nothing is known, normalised: that of ordinary sensors */
static const double usual_noise = 0.03;
/* what the coefficients of new dynamics must leave, at most, of the squared errors that indicate a change */
static const double explained_by_change = 0.25;
/* by how much more the oldest transition after a change must leave than another would by chance, in standard deviations
 * sqrt(2 nx), to be called a mixture of before and after: to lose one costs little */
static const double mixed = 2;
/* squared distance from the trained population, per coefficient, beyond which coefficients are not taken as they are */
static const double farthest = 100;
/* variances of the prior against those of the population: vehicles may differ more than those trained on */
static const double spread = 2;
/* how many times as much as the prior coefficients from a file count */
static const double seed_strength = 10;
/* innovations that add up in a block: how many times the energy of noise is no noise; what noise adds up to there, in
 * that of one transition; and what is excused, as a fraction of the path and on its own (normalised) */
static const double systematic = 4, noise_of_block = 1.4, span_path = 0.1, span_rest = 2e-4;
/* standard deviations of the trained population by which coefficients may wander within moments, as they do in gusts:
 * dynamics that move so little are none that no trained vehicle has */
static const double wanders = 0.2;
/* what is left of an out-of-span fraction after a transition that shows none; and after one that comes after half a
 * second in which nothing added up beyond noise: then a second is enough to forget it */
static const double span_memory = 0.99, quiet_memory = 0.9;
/* standard deviations of the trained population by which coefficients must move for old entries to be seen anew along
 * them: what a transition shows depends on the path within it, and that hardly on the coefficients */
static const double moves = 0.1;
/* r that is so many times the median of the window is a lie, before anything else is known of it */
static const double wild = 30;

enum { REFINEMENTS = 3, EXAMINE_EVERY = 8, JUDGED_FEWEST = 5, BLOCK = 4, REPEAT = 100, UNSETTLED = 25 };
enum { FEWEST_AFTER_CHANGE = 2 }; /* transitions that stay */

double hb_bayes_spread(void)
{
    return spread;
}

static size_t slot(const hb_estimator *e, uint64_t sequence)
{
    return (size_t)(sequence % (uint64_t)e->nw);
}

static double square(double x)
{
    return x * x;
}

/* ---- judging ---- */

static double median(double *x, int n)
{
    hb_sort(x, n);
    return x[n / 2];
}

/* The recent median of d^2 over nx, at least 1. */
static double usual_distance(const hb_estimator *e)
{
    double distance[HB_JUDGED];
    int n = e->judged < HB_JUDGED ? (int)e->judged : HB_JUDGED;

    for (int i = 0; i < n; i++)
        distance[i] = e->verdict[i].distance;
    return n >= JUDGED_FEWEST ? fmax(1, median(distance, n)) : 1;
}

void hb_bayes_tolerate(hb_estimator *e, const double *row, const double *unsure)
{
    const hb_posterior *p = &e->posterior;
    int dz = e->m->nb + 1;

    for (int d = 0; d < e->m->nx; d++) {
        double motion = row[d * p->ld + dz], lately = square(motion);
        if (p->weight >= 1)
            lately = hb_posterior_motion(p, d) / p->weight;
        e->tolerance[d] = square(inexact_now * motion) + square(inexact_lately) * lately + square(rounding) +
                          (unsure ? unsure[d] : 0);
    }
}

/* d^2 of the innovation e->error of the transition in `row`, of which actuators leave `unsure` open (nx, NULL:
 * nothing); e->expected becomes the variance of each state's. */
static double distance_of(hb_estimator *e, const double *row, const double *unsure)
{
    hb_bayes_tolerate(e, row, unsure);
    return hb_posterior_distance(&e->posterior, row, e->error, e->tolerance, e->expected);
}

/* The weight that a transition of this distance deserves, 0..1. */
static double weight_of(const hb_estimator *e, double distance)
{
    double nx = e->m->nx, deviation = sqrt(2 * nx);

    if (!(distance <= nx + impossible * deviation))
        return 0;
    return fmin(1, (nx + doubtful * deviation) / distance);
}

/* Coefficients that are hardly known yet may explain a transition that they do not predict, along the motion that they
 * make themselves: a vehicle that is pushed aside also turns and drifts within the step. d^2 of the transition `lane`,
 * whose rows along these coefficients are left in rows.row. */
static double distance_along(hb_estimator *e, int lane, const double *dz)
{
    const hb_posterior *p = &e->posterior;
    double distance = INFINITY;

    for (int again = 0; again < REFINEMENTS; again++) {
        hb_posterior_try_add(&e->posterior, e->rows.row, e->tolerance, e->trial_solution);
        for (int k = 0; k < p->nproblems; k++)
            for (int i = 0; i < p->nb; i++)
                e->trial[hb_estimator_index(e, k, i)] = (hb_real)e->trial_solution[k * p->nb + i];
        hb_estimator_load(e, lane, e->window.next);
        hb_rows_evaluate(&e->rows, e->workspace, lane + 1, e->trial);
        if (!hb_rows_of_lane(&e->rows, lane, dz))
            return INFINITY;
        distance = hb_posterior_distance_along(p, e->rows.row, e->tolerance, e->trial_solution);
    }
    return distance;
}

/* What is left of a weight where the control that acted is known badly. */
static double known_share(const hb_estimator *e, const double *unsure)
{
    double most = 0;

    for (int d = 0; d < e->m->nx; d++)
        most = fmax(most, unsure[d] / e->posterior.noise[d]);
    return 1 / (1 + most);
}

static bool believed_enough(const hb_estimator *e)
{
    for (int k = 0; k < e->posterior.nproblems; k++)
        if (!e->posterior.solved[k])
            return false;
    return true;
}

/* Judges the transition in rows.row, whose prediction error is in e->error: its weight. */
static double judge(hb_estimator *e, const hb_window_entry *entry, bool usable, bool lie)
{
    bool refinable =
        e->nstaged == 1 && e->posterior.count < HB_EARLY && e->m->has_prior && e->m->integration == HB_COMBINED;

    int nx = e->m->nx, ld = e->posterior.ld, nb = e->m->nb;
    size_t at = e->judged % HB_JUDGED;
    hb_verdict *v = &e->verdict[at];
    double weight = usable ? 1 : 0;

    if (!believed_enough(e) || (!usable && !lie)) /* there is nothing to judge by, or nothing to judge */
        return weight;
    *v = (hb_verdict){.distance = 1, .continues = entry->continues, .set_aside = !usable};
    for (int d = 0; d < nx; d++) {
        e->expected[d] = 1;
        e->doubt[at * (size_t)nx + (size_t)d] = 0;
    }
    if (usable) {
        double distance = distance_of(e, e->rows.row, e->unsure_now);
        v->distance = distance / nx;
        e->judged++; /* its own distance counts among the recent ones */
        double usual = usual_distance(e);
        e->judged--;
        weight = weight_of(e, distance / usual);
        if (weight == 0 && refinable) {
            memcpy(e->first_row, e->rows.row, (size_t)(nx * ld) * sizeof *e->rows.row);
            weight = weight_of(e, distance_along(e, 0, entry->dz) / usual);
            if (weight == 0)
                memcpy(e->rows.row, e->first_row, (size_t)(nx * ld) * sizeof *e->rows.row);
            e->refined = true;
        }
        v->set_aside = weight == 0;
        hb_posterior_spread(&e->posterior, e->rows.row, e->spread);
        for (int d = 0; d < nx; d++) {
            e->doubt[at * (size_t)nx + (size_t)d] = sqrt(
                fmax(0, e->expected[d] - e->posterior.noise[d] - e->tolerance[d]) + square(wanders) * e->spread[d]);
            e->expected[d] *= usual;
        }
    }
    for (int d = 0; d < nx; d++) {
        size_t k = at * (size_t)nx + (size_t)d;
        e->innovation[k] = weight > 0 ? e->error[d] : 0;
        e->residual[k] = weight > 0 ? e->rows.row[d * ld + nb] : 0;
        e->motion[k] = entry->dz[d];
    }
    e->judged++;
    return weight;
}

/* ---- sliding ---- */

/* Takes the transition, whose rows are evaluated, into window and sums, and the oldest out of them. */
static void slide(hb_estimator *e, const hb_window_entry *entry, double weight, bool usable)
{
    hb_window *w = &e->window;

    if (hb_window_count(w) == w->nw) {
        double dt = hb_window_at(w, w->first).dt;
        hb_posterior_depart(&e->posterior, hb_estimator_recall(e, w->first), e->weight[slot(e, w->first)], dt);
        e->health.span_seconds -= dt;
    }
    double share = known_share(e, e->unsure_now);
    hb_posterior_add(&e->posterior, e->rows.row, weight * share);
    e->weight[slot(e, w->next)] = weight * share;
    e->belief[slot(e, w->next)] = weight;
    for (int d = 0; d < e->m->nx; d++)
        e->unsure[slot(e, w->next) * (size_t)e->m->nx + (size_t)d] =
            e->actuator_variance > 0 ? e->unsure_now[d] / e->actuator_variance : 0;
    e->usable[slot(e, w->next)] = usable;
    hb_rows_keep(&e->rows, w->next);
    hb_window_append(w, entry);
    e->health.span_seconds += entry->dt;
    hb_kept_save_entry(e, w->next - 1);
}

/* The weight of an entry that is evaluated again, in rows.row: what was not believed with other actuators may be now.
 */
static double weight_again(hb_estimator *e, uint64_t sequence)
{
    size_t at = slot(e, sequence);
    int nx = e->m->nx;

    if (!e->usable[at] || !believed_enough(e) || (e->catching_up == 0 && e->posterior.count >= HB_EARLY))
        return e->weight[at];
    for (int d = 0; d < nx; d++) {
        e->error[d] = hb_estimator_error(e, e->rows.row, e->coefficient, d);
        e->unsure_now[d] = e->actuator_variance * e->unsure[at * (size_t)nx + (size_t)d];
    }
    if (e->belief[at] == 0 && e->catching_up > 0)
        e->belief[at] = weight_of(e, distance_of(e, e->rows.row, e->unsure_now) / usual_distance(e));
    return e->belief[at] * known_share(e, e->unsure_now);
}

void hb_bayes_replace(hb_estimator *e, const uint64_t *sequence, int count, int lane)
{
    for (int i = 0; i < count; i++) {
        if (sequence[i] < e->window.first || /* it has left the window since */
            !hb_rows_of_lane(&e->rows, lane + i, hb_window_at(&e->window, sequence[i]).dz))
            continue;
        double before = e->weight[slot(e, sequence[i])], weight = weight_again(e, sequence[i]);
        hb_posterior_replace(&e->posterior, (int)(e->window.next - 1 - sequence[i]),
                             hb_estimator_recall(e, sequence[i]), before, e->rows.row, weight);
        e->weight[slot(e, sequence[i])] = weight;
        hb_rows_keep(&e->rows, sequence[i]);
        hb_kept_save_entry(e, sequence[i]);
    }
}

bool hb_bayes_moved(hb_estimator *e)
{
    const hb_posterior *p = &e->posterior;
    int nb = p->nb;
    double sum = 0;

    if (!e->m->has_prior)
        return true;
    for (int k = 0; k < p->nproblems; k++) {
        const double *prior = p->prior + (size_t)k * (size_t)(nb * nb);
        for (int i = 0; i < nb; i++) {
            int at = hb_estimator_index(e, k, i);
            e->trial_solution[i] = (double)e->coefficient[at] - (double)e->along[at];
        }
        sum += p->arithmetic->quadratic(nb, nb, prior, e->trial_solution);
    }
    return p->spread * sum > square(moves) * nb * p->nproblems;
}

/* ---- solving ---- */

/* The coefficients to use: those of the posterior, unless they are farther from the population than can be. */
static void take_coefficients(hb_estimator *e)
{
    const hb_posterior *p = &e->posterior;
    double far = hb_posterior_plausibility(p, p->coefficient), shrink = far > farthest ? sqrt(farthest / far) : 1;

    e->health.plausibility = far;
    for (int k = 0; k < p->nproblems; k++)
        for (int i = 0; i < p->nb; i++) {
            double c0 = p->c0[k * p->nb + i];
            e->coefficient[hb_estimator_index(e, k, i)] = (hb_real)(c0 + shrink * (p->coefficient[k * p->nb + i] - c0));
            e->variance[hb_estimator_index(e, k, i)] =
                p->solved[k] ? p->covariance[(size_t)(k * p->nb + i) * (size_t)p->nb + (size_t)i] : 0;
        }
}

/* Solves the next `count` problems. */
static void solve(hb_estimator *e, int count)
{
    hb_posterior *p = &e->posterior;
    bool changed = false;

    memcpy(e->solved_noise, p->noise, (size_t)p->nx * sizeof *p->noise);
    for (int i = 0; i < count; i++, e->turn = (e->turn + 1) % p->nproblems) {
        bool solved = hb_posterior_solve(p, e->turn);
        changed |= solved;
        e->problem[e->turn].singular = !solved;
        /* the condition changes slowly, and costs more than the solve */
        if (solved && (e->rest-- <= 0 || !(e->problem[e->turn].condition > 0))) {
            e->problem[e->turn].condition = hb_posterior_condition(p, e->turn, e->scratch, e->iscratch);
            e->rest = EXAMINE_EVERY;
        }
    }
    if (changed) {
        take_coefficients(e);
        e->health.version++;
        hb_window_save_coefficients(&e->window, e->health.version, e->warm, e->coefficient);
    }
}

/* ---- health ---- */

/* Where in the ring of verdicts the transition of this age is. */
static size_t judged_at(const hb_estimator *e, int age)
{
    return (size_t)((e->judged - 1 - (uint64_t)age) % HB_JUDGED);
}

/* Whether the BLOCK transitions from this age on follow on one another, and were all believed. */
static bool is_block(const hb_estimator *e, int age)
{
    for (int i = 0; i < BLOCK; i++) {
        const hb_verdict *v = &e->verdict[judged_at(e, age + i)];
        if (v->set_aside || (i < BLOCK - 1 && !v->continues))
            return false;
    }
    return true;
}

/* The energy of what adds up in blocks of late and is neither noise nor doubt, over that of what the average leaves
 * there. *ret_quiet: it is not even as much as noise may add up to. */
static double unexplained_of_late(const hb_estimator *e, bool *ret_quiet)
{
    int nx = e->m->nx, n = e->judged < HB_JUDGED ? (int)e->judged : HB_JUDGED, blocks = 0;
    double unexplained = 0, residual = 0, rows = e->posterior.nproblems > 1 ? 1 : nx;

    *ret_quiet = false;
    /* predictions of coefficients that hardly anything was known of say nothing */
    if (!e->m->has_prior && (e->posterior.weight - HB_JUDGED) * rows < 4 * e->m->nb)
        return 0;
    for (int age = 0; age + BLOCK <= n; age++)
        blocks += is_block(e, age);
    if (blocks < BLOCK)
        return 0;
    *ret_quiet = n == HB_JUDGED;
    for (int d = 0; d < nx; d++) {
        double energy = 0, of_average = 0, allowed = 0;
        for (int age = 0; age + BLOCK <= n; age++) {
            double sum = 0, average = 0, path = 0, doubt = 0;
            if (!is_block(e, age))
                continue;
            for (int i = 0; i < BLOCK; i++) {
                size_t k = judged_at(e, age + i) * (size_t)nx + (size_t)d;
                sum += e->innovation[k];
                average += e->residual[k];
                path += fabs(e->motion[k]);
                doubt += e->doubt[k];
            }
            energy += square(sum) / blocks;
            of_average += square(average) / blocks;
            allowed += (e->posterior.noise[d] * noise_of_block + square(doubt) + square(span_path * path) +
                        square(span_rest)) /
                       blocks;
        }
        unexplained += energy > systematic * allowed ? energy : 0;
        *ret_quiet &= energy <= allowed;
        residual += of_average;
    }
    return unexplained > 0 ? fmin(1, unexplained / residual) : 0;
}

/* Fraction of the recent transitions that were set aside. */
static double set_aside_of_late(const hb_estimator *e)
{
    int n = e->judged < HB_JUDGED ? (int)e->judged : HB_JUDGED, count = 0;

    for (int i = 0; i < n; i++)
        count += e->verdict[i].set_aside;
    return n >= JUDGED_FEWEST ? (double)count / n : 0;
}

static hb_estimate_status status_of(const hb_estimator *e, double set_aside)
{
    const hb_health *h = &e->health;

    for (int k = 0; k < e->posterior.nproblems; k++)
        if (e->problem[k].singular)
            return HB_ESTIMATE_SINGULAR;
    if (h->out_of_span > e->s.span_threshold || set_aside > 0.5 || h->plausibility > e->s.plausible)
        return HB_ESTIMATE_OUT_OF_SPAN;
    if (e->judged > 0 && (e->verdict[(e->judged - 1) % HB_JUDGED].set_aside || set_aside > 0.25))
        return HB_ESTIMATE_IMPLAUSIBLE;
    return HB_ESTIMATE_OK;
}

void hb_bayes_report(hb_estimator *e)
{
    const hb_posterior *p = &e->posterior;
    hb_health *h = &e->health;
    double energy = 0, least = INFINITY, most = 0;

    h->samples = hb_window_count(&e->window);
    if (!e->warm) {
        h->status = HB_ESTIMATE_WARMING_UP;
        return;
    }
    h->condition = 0;
    for (int k = 0; k < p->nproblems; k++)
        h->condition = fmax(h->condition, e->problem[k].singular ? INFINITY : e->problem[k].condition);
    for (int d = 0; d < p->nx; d++)
        energy += hb_posterior_energy(p, d).unexplained;
    for (int i = 0; i < p->nb; i++) {
        double diagonal = 0;
        for (int d = 0; d < p->nx; d++)
            diagonal += p->sum[(size_t)d * (size_t)(p->n * p->ld) + (size_t)(i * p->ld + i)];
        least = fmin(least, diagonal);
        most = fmax(most, diagonal);
    }
    h->expected_error = p->weight > 0 ? sqrt(energy / p->weight / p->nx) : 0;
    h->excitation = most > 0 ? fmax(0, least / most) : 0;

    h->status = status_of(e, set_aside_of_late(e));
}

/* ---- changes of dynamics ---- */

bool hb_bayes_try_cut(hb_estimator *e, int count, double worth)
{
    hb_posterior *p = &e->posterior;

    for (int k = 0; k < p->nproblems; k++) {
        const double *c = hb_posterior_try_cut(p, k, count, worth, hb_estimator_recall_by_age, e);
        if (!c)
            return false;
        memcpy(e->trial_solution + k * p->nb, c, (size_t)p->nb * sizeof *c);
        for (int i = 0; i < p->nb; i++)
            e->trial[hb_estimator_index(e, k, i)] = (hb_real)c[i];
    }
    return hb_posterior_plausibility(p, e->trial_solution) < farthest;
}

/* Squared errors of the rows relative to the noise, beyond those that noise itself makes. */
static double excess(const hb_estimator *e, const double *row, const hb_real *coefficient)
{
    double sum = 0;

    for (int d = 0; d < e->m->nx; d++)
        sum += square(hb_estimator_error(e, row, coefficient, d)) / e->posterior.noise[d] - 1;
    return sum;
}

/* What the newest `count` transitions leave unexplained of themselves by the coefficients that they would have on their
 * own, which go to e->trial; their rows along these, to lanes by age. Coefficients that need a strange vehicle count
 * against it. Infinite: there are none. */
static double left_after_cut(hb_estimator *e, int count)
{
    double left = 0;

    if (count >= hb_window_count(&e->window) || count > HB_STRIDE || !hb_bayes_try_cut(e, count, hb_posterior_worth))
        return INFINITY;
    for (int age = 0; age < count; age++)
        hb_estimator_load(e, age, e->window.next - 1 - (uint64_t)age);
    hb_rows_evaluate(&e->rows, e->workspace, count, e->trial);
    for (int age = 0; age < count; age++) {
        uint64_t sequence = e->window.next - 1 - (uint64_t)age;
        if (!e->usable[slot(e, sequence)])
            continue;
        if (!hb_rows_of_lane(&e->rows, age, hb_window_at(&e->window, sequence).dz))
            return INFINITY;
        left += excess(e, e->rows.row, e->trial);
    }
    return left + hb_posterior_plausibility(&e->posterior, e->trial_solution);
}

/* Whether they explain what they show, where the present coefficients do not: a gust or a run of lies would not be
 * explained. */
static bool worth_cutting(hb_estimator *e, int count, double *ret_left)
{
    double before = 0;

    *ret_left = left_after_cut(e, count);
    for (int age = 0; age < count && *ret_left < INFINITY; age++) {
        uint64_t sequence = e->window.next - 1 - (uint64_t)age;
        if (e->usable[slot(e, sequence)])
            before += excess(e, hb_estimator_recall(e, sequence), e->coefficient);
    }
    return before > 0 && *ret_left < explained_by_change * before;
}

/* The oldest of them may have begun before the change. It is neither old nor new, and would spoil the coefficients for
 * as long as it is in the window: it is left out where the others are explained much better without it. Returns how
 * many stay, whose rows are in lanes. */
static int leave_out_mixed(hb_estimator *e, int count, double left)
{
    double by_chance = mixed * sqrt(2.0 * e->m->nx);
    int stay = count;

    while (stay > FEWEST_AFTER_CHANGE) {
        double without = left_after_cut(e, stay - 1);
        if (!(left - without > by_chance))
            break;
        left = without;
        stay--;
    }
    left_after_cut(e, stay);
    return stay;
}

/* Cuts the window to its newest `count` transitions, which are believed, as they are along the new coefficients. */
static void shorten(hb_estimator *e, int count)
{
    hb_window *w = &e->window;

    for (int age = 0; age < count; age++) {
        uint64_t sequence = w->next - 1 - (uint64_t)age;
        if (hb_rows_of_lane(&e->rows, age, hb_window_at(w, sequence).dz))
            hb_rows_keep(&e->rows, sequence);
    }
    hb_posterior_cut(&e->posterior, count, hb_estimator_recall_by_age, e);
    hb_window_drop_before(w, w->next - (uint64_t)count);
    for (uint64_t sequence = w->first; sequence < w->next; sequence++) {
        e->weight[slot(e, sequence)] = e->belief[slot(e, sequence)] = e->usable[slot(e, sequence)] ? 1 : 0;
        hb_kept_save_entry(e, sequence);
    }
    hb_estimator_count_span(e);
    e->health.changes++;
    e->judged = 0; /* by other coefficients */
}

/* Looks into an alarm. Chance may have added one too many to the transitions that it speaks of: then fewer are tried.
 */
static bool adopt_change(hb_estimator *e, int count)
{
    double left;

    for (int fewer = 0; fewer < 3 && count - fewer >= HB_CHANGE_FEWEST; fewer++)
        if (worth_cutting(e, count - fewer, &left)) {
            shorten(e, leave_out_mixed(e, count - fewer, left));
            hb_change_settle(&e->change);
            return true;
        }
    return false;
}

/* ---- the walk ---- */

/* The first guess of the noise: what the model leaves of a step, and ordinary sensors. */
static void guess_noise(hb_estimator *e, int averaged)
{
    for (int d = 0; d < e->m->nx; d++)
        e->expected[d] = fmax(square(usual_noise) / averaged, e->m->has_prior ? square(e->m->noise[d]) : 0);
    hb_posterior_guess(&e->posterior, e->expected);
    e->guessed = true;
}

/* Seconds of commands that must be known before a transition, so that the control in it is. */
static double needed_past(const hb_actuators *a)
{
    double needed = 0;

    for (int i = 0; i < a->nu; i++)
        needed = fmax(needed, a->delay[i] + a->lag[i]);
    return needed;
}

/* Judges what is staged and evaluated, and slides the window by it. Returns the number of newest transitions that
 * indicate a change; 0: none. */
static int use_staged(hb_estimator *e, int *ret_used)
{
    int fresh = 0, where = 0;

    *ret_used = 0;
    e->refined = false;
    for (int lane = 0; lane < e->nstaged; lane++) {
        hb_window_entry entry;
        if (!hb_estimator_take_staged(e, lane, &entry))
            continue;
        ++*ret_used;
        if (!e->guessed)
            guess_noise(e, entry.averaged);
        /* where nothing ever follows on anything, the command is taken to have been held */
        bool settled = e->known[lane] >= needed_past(&e->actuators) - 1e-9;
        e->unsettled = settled ? 0 : e->unsettled + 1;
        bool usable = !e->lie[lane] && (settled || e->unsettled > UNSETTLED);
        hb_estimator_predict(e);
        double weight = judge(e, &entry, usable, e->lie[lane]);
        e->health.implausible += e->lie[lane] || (usable && weight == 0);
        if (fresh > 0)
            fresh++;
        else if (e->s.detect_changes && e->warm && usable && believed_enough(e))
            fresh = hb_change_watch(&e->change, e->error, e->expected, &where);
        slide(e, &entry, weight, usable);
    }
    return fresh;
}

int hb_bayes_learn(hb_estimator *e, const uint64_t *old, int nold)
{
    hb_posterior *p = &e->posterior;
    int used, fresh = use_staged(e, &used);

    if (used == 0)
        return 0;
    if (!e->refined) /* else their lanes were used otherwise */
        hb_bayes_replace(e, old, nold, e->nstaged);
    bool foreign = hb_bayes_foreign(e), changed = fresh > 0 && adopt_change(e, fresh);
    if (changed)
        hb_estimator_actuators_changed(e);
    bool first = !e->warm && hb_window_count(&e->window) >= e->warmup;
    if (changed || first || p->count < HB_EARLY) {
        /* noise and coefficients need each other: once more while both move */
        e->warm |= changed || first;
        e->credit = 0;
        for (int again = 0; again < 2 && e->warm; again++) {
            solve(e, p->nproblems);
            hb_posterior_learn_noise(p);
        }
    } else {
        solve(e, hb_estimator_due(e, used, p->nproblems));
        hb_posterior_learn_noise(p);
    }
    /* foreign dynamics do not show in every moment */
    bool quiet;
    double late = unexplained_of_late(e, &quiet), keep = pow(quiet ? quiet_memory : span_memory, used);
    e->health.out_of_span = foreign ? 1 : fmax(late, keep * e->health.out_of_span);
    hb_bayes_report(e);
    hb_kept_save(e);
    return used;
}

void hb_bayes_reset(hb_estimator *e)
{
    hb_posterior_clear(&e->posterior);
    memset(e->problem, 0, (size_t)e->posterior.nproblems * sizeof *e->problem);
    e->guessed = false;
    e->judged = 0;
    e->unsettled = 0;
    e->rest = 0;
    memcpy(e->solved_noise, e->posterior.noise, (size_t)e->m->nx * sizeof *e->solved_noise);
    take_coefficients(e);
    e->health.plausibility = 0;
}

void hb_bayes_seed(hb_estimator *e)
{
    hb_posterior *p = &e->posterior;
    int nb = p->nb;

    for (int k = 0; k < p->nproblems; k++)
        for (int i = 0; i < nb; i++)
            p->seed[k * nb + i] = (double)e->coefficient[hb_estimator_index(e, k, i)];
    p->seed_strength = seed_strength;
}

/* ---- taking a window up again ---- */

/* Nothing of what was believed before is taken for granted: first, what is far from all else is left out. */
static void leave_out_wild_entries(hb_estimator *e)
{
    hb_window *w = &e->window;
    int count = hb_window_count(w), nb = e->m->nb;

    for (int d = 0; d < e->m->nx; d++) {
        for (int age = 0; age < count; age++)
            e->sorted[age] = fabs(hb_estimator_recall_by_age(e, age)[d * e->posterior.ld + nb]);
        double most = wild * median(e->sorted, count) + usual_noise;
        for (uint64_t sequence = w->first; sequence < w->next; sequence++)
            if (fabs(hb_estimator_recall(e, sequence)[d * e->posterior.ld + nb]) > most)
                e->weight[slot(e, sequence)] = e->belief[slot(e, sequence)] = 0;
    }
}

/* Then, what the coefficients of the others find impossible. */
static void judge_again(hb_estimator *e)
{
    hb_window *w = &e->window;
    int count = hb_window_count(w);

    if (!believed_enough(e))
        return;
    for (int age = 0; age < count; age++) {
        const double *row = hb_estimator_recall_by_age(e, age);
        for (int d = 0; d < e->m->nx; d++)
            e->error[d] = hb_estimator_error(e, row, e->coefficient, d);
        e->distance[age] = distance_of(e, row, NULL);
        e->sorted[age] = e->distance[age] / e->m->nx;
    }
    double usual = fmax(1, median(e->sorted, count));
    for (int age = 0; age < count; age++) {
        size_t at = slot(e, w->next - 1 - (uint64_t)age);
        const double *row = hb_estimator_recall_by_age(e, age);
        double weight = e->usable[at] ? weight_of(e, e->distance[age] / usual) : 0;
        hb_posterior_replace(&e->posterior, age, row, e->weight[at], row, weight);
        e->weight[at] = e->belief[at] = weight;
    }
}

void hb_bayes_resume(hb_estimator *e)
{
    hb_window *w = &e->window;

    if (hb_window_count(w) == 0) {
        hb_bayes_report(e);
        return;
    }
    guess_noise(e, hb_window_at(w, w->first).averaged);
    leave_out_wild_entries(e);
    for (uint64_t sequence = w->first; sequence < w->next; sequence++) {
        size_t at = slot(e, sequence);
        e->weight[at] = e->belief[at] = e->usable[at] ? e->weight[at] : 0;
        hb_posterior_add(&e->posterior, hb_estimator_recall(e, sequence), e->weight[at]);
    }
    e->warm |= hb_window_count(w) >= e->warmup;
    for (int again = 0; again < 3 && e->warm; again++) {
        if (again > 0)
            judge_again(e);
        for (int twice = 0; twice < 2; twice++) {
            solve(e, e->posterior.nproblems);
            hb_posterior_learn_noise(&e->posterior);
        }
    }
    for (uint64_t i = w->next - w->first < REPEAT ? w->next - w->first : REPEAT; i > 0 && e->identifying; i--)
        hb_estimator_identify(e, w->next - i);
    for (uint64_t sequence = w->first; sequence < w->next; sequence++)
        hb_kept_save_entry(e, sequence);
    hb_bayes_report(e);
    hb_kept_save(e);
}

int hb_bayes_resume_belief(hb_estimator *e, hb_error *why)
{
    hb_posterior *p = &e->posterior;
    hb_window *w = &e->window;
    int count = hb_window_count(w);

    p->yielding = 0;
    for (uint64_t sequence = w->first; sequence < w->next; sequence++)
        hb_posterior_add(p, hb_estimator_recall(e, sequence), e->weight[slot(e, sequence)]);
    /* coefficients are those of the noise before, which was learned once more after them */
    memcpy(e->expected, p->noise, (size_t)p->nx * sizeof *p->noise);
    memcpy(p->noise, e->solved_noise, (size_t)p->nx * sizeof *p->noise);
    bool solves = e->warm && (count > 0 || p->memory_weight > 0);
    for (int k = 0; k < p->nproblems && solves; k++)
        hb_posterior_solve(p, k);
    int doubted = solves ? hb_kept_doubt(e, farthest, why) : 0;
    if (doubted)
        return doubted;
    size_t size = (size_t)hb_model_ncoefficients(e->m) * sizeof *e->coefficient;
    memcpy(e->trial, e->coefficient, size);
    if (solves)
        solve(e, p->nproblems);
    memcpy(e->coefficient, e->trial, size);
    hb_window_save_coefficients(w, e->health.version, e->warm, e->coefficient);
    memcpy(p->noise, e->expected, (size_t)p->nx * sizeof *p->noise);
    for (uint64_t i = count < REPEAT ? (uint64_t)count : REPEAT; i > 0 && e->identifying; i--)
        hb_estimator_teach_bank(e, w->next - i);
    hb_kept_take_rest(e);
    hb_bayes_report(e);
    return 0;
}
