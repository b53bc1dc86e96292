/* What a transition can be: in the model, a glitch, the way back from one, foreign dynamics; and whether errors last
 * for longer than those of training, which is out of span; belief.h. */
#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/belief_internal.h"

/* Variance of an outlier: broad, the same for all runs. The newest run knows least: its uncertainty is nearest to the
 * prior's. */
static double outlier_variance(const hb_belief *b, int d)
{
    double open = 0;

    for (int k = 0; k < b->nruns; k++)
        if (*b->run[k].age >= 0)
            open = fmax(open, b->prediction[k].uncertainty[d]);
    return hb_square(HB_FAR) * (open + b->prediction[HB_MEAN].variance[d]);
}

/* log of a normal density, but for what all have in common. */
static double log_normal(double left, double variance)
{
    return -(hb_square(left) / variance + log(variance)) / 2;
}

/* The same of a Student-t density: what is far out has no usual size. */
static double log_heavy(double left, double variance)
{
    return -((HB_TAIL_FREEDOM + 1) * log1p(hb_square(left) / (HB_TAIL_FREEDOM * variance)) + log(variance)) / 2;
}

/* log of the density of an outlier, around what the prior says. */
static double outlier_density(const hb_belief *b)
{
    double log_density = 0;

    for (int d = 0; d < b->nx; d++)
        log_density += log_heavy(b->prediction[HB_MEAN].innovation[d], outlier_variance(b, d));
    return log_density;
}

/* 1 / (1 + exp(x)) */
static double one_against(double x)
{
    return 1 / (1 + exp(fmin(fmax(x, -700), 700)));
}

/* log of the density of the second half of a glitch: a wrong sample ends one transition and begins the next, so that
 * what was left of the first comes back, carried through the next; not to the letter, since that is only its first
 * order. Or, where the sample was so far out that this says nothing, the vehicle is about where it was before: as near
 * as two transitions leave it. */
static double return_density(const hb_belief *b, const hb_evidence *e)
{
    const double *variance = b->prediction[(int)*b->main_run].variance;
    double log_density[2] = {0, 0};

    for (int d = 0; d < b->nx; d++) {
        double sum = b->left[d], size = 0;
        for (int j = 0; j < b->nx; j++) {
            /* Phi, from (I + Phi) / 2 */
            double carried = (e->carry ? 2 * e->carry[d * b->nx + j] - (d == j) : d == j) * b->left_before[j];
            sum += carried;
            size += fabs(carried);
        }
        log_density[0] += log_normal(sum, variance[d] + hb_square(HB_FIRST_ORDER * size));
        log_density[1] +=
            log_normal(b->moved_before[d] + hb_belief_moved(b, d), variance[d] + hb_square(2) * b->motion[d]);
    }
    return hb_log_sum(log_density, 2) - log(2);
}

/* How much better foreign dynamics explain what is left in the rows of the kinematics than a glitch does, as a
 * logarithm. An unknown acceleration moves position and attitude as it moves velocity and rates; a sensor that is wrong
 * does not, and spares a channel or not. */
static double kinematic_evidence(const hb_belief *b, const hb_evidence *e)
{
    const double *variance = b->prediction[(int)*b->main_run].variance;
    double sum = 0;

    for (int d = 0; d < b->nx && e->carry; d++) {
        if (b->m->output[d])
            continue;
        double left = b->left[d], carried = 0, size = 0;
        for (int j = 0; j < b->nx; j++) {
            double moved = b->m->output[j] ? e->carry[d * b->nx + j] * b->left[j] : 0;
            carried += moved;
            size += fabs(moved);
        }
        double glitch[] = {log_normal(left, variance[d]), log_normal(left, outlier_variance(b, d))};
        sum +=
            log_normal(left - carried, variance[d] + hb_square(HB_FIRST_ORDER * size)) - hb_log_sum(glitch, 2) + log(2);
    }
    return sum;
}

void hb_classes_judge(hb_belief *b, const hb_evidence *e)
{
    for (int d = 0; d < b->nx; d++)
        b->left[d] = hb_belief_left(b, b->raw, b->mean, d);

    double in = 1 - *b->outlier, glitch = *b->glitch, back = fmax(0, *b->outlier - *b->glitch - *b->foreign);
    double stays = exp(-e->dt / HB_CONFIRM_TIME), changes = b->s.change_interval > 0 ? e->dt / b->s.change_interval : 0;
    double calm = in + back + *b->foreign * (1 - stays), share = b->s.outlier_share;
    double foreign = *b->foreign * stays + calm * changes + glitch * share;
    double returns = glitch * (1 - share) * HB_GLITCH_RETURNS;
    double outlier = calm * share;
    double broad = outlier_density(b);
    double terms[] = {log(outlier) + broad, log(foreign) + broad + kinematic_evidence(b, e),
                      returns > 0 ? log(returns) + return_density(b, e) : HB_NONE};
    double odd = hb_log_sum(terms, 3), usual = log(1 - foreign - returns - outlier);

    b->expected_outlier = (outlier + returns) / (1 - foreign);
    b->unexplained = 1;
    *b->outlier = 0;
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        hb_prediction *p = &b->prediction[k];
        if (!hb_runs_lives(b, k))
            continue;
        p->believed = one_against(odd - usual + (p->distance + p->log_determinant) / 2);
        *b->outlier += hb_runs_weight(b, k) * (1 - p->believed);
        b->unexplained = fmin(b->unexplained, 1 - p->believed);
    }
    *b->outlier = fmin(1, *b->outlier);
    *b->glitch = *b->outlier * exp(terms[0] - odd);
    *b->foreign = *b->outlier * exp(terms[1] - odd);
    for (int d = 0; d < b->nx; d++) {
        b->left_before[d] = b->left[d];
        b->moved_before[d] = hb_belief_moved(b, d);
    }
}

void hb_classes_follow_span(hb_belief *b, const hb_evidence *e)
{
    const hb_prediction *p = &b->prediction[(int)*b->main_run];
    double keep = hb_belief_keeps(e->dt), fresh = fmin(1, e->dt / HB_SOON), sum = 0;

    for (int d = 0; d < b->nx; d++) {
        /* w_t - w_t-1 of a sensor, summed up in the same way */
        double sensor = fmax(0, -b->variance1[d]) * ((1 - keep * keep) + hb_square(1 - keep));
        if (*b->outlier - *b->foreign < 0.5) { /* no glitch, nor the way back from one */
            b->span_sum[d] = keep * b->span_sum[d] + b->left[d];
            /* without a population nothing says how far off they may be */
            double trained = b->m->has_prior ? fmin(1, b->reference[d] / p->variance[d]) : 0;
            b->span_open[d] = keep * b->span_open[d] + sqrt(trained * p->uncertainty[d] + b->doubt[d]);
            double ratio = (1 - keep * keep) * hb_square(b->span_sum[d]) /
                           (b->reference[d] + sensor + (1 - keep * keep) * hb_square(b->span_open[d]));
            b->span_mean[d] += fresh * (fmin(hb_square(HB_FAR), ratio) - b->span_mean[d]);
        }
        sum += b->span_mean[d];
    }
    b->span = sum / b->nx;
}
