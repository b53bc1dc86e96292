/* The noise of a transition: how it is correlated, how large it is, and how long errors last; belief.h. */
#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/belief_internal.h"

/* theta from the lag-1 correlation of errors. */
static void find_theta(hb_belief *b)
{
    for (int d = 0; d < b->nx; d++) {
        /* a moving average of two has at least -1/2; above zero the errors are the model's, see `slow` */
        double rho = fmin(fmax(b->variance1[d] / b->variance0[d], -0.499), 0);
        b->theta[d] = rho < 0 ? fmin(HB_MOST_THETA, (1 - sqrt(1 - 4 * rho * rho)) / (-2 * rho)) : 0;
    }
}

void hb_noise_whiten(hb_belief *b, const hb_evidence *e)
{
    int n = b->n;
    bool fresh = *b->fresh_start > 0 || !e->continues;

    for (int d = 0; d < b->nx; d++) {
        double theta = fresh ? 0 : b->theta[d];
        double *row = b->raw + (ptrdiff_t)d * b->ld;
        memcpy(row, e->row + (ptrdiff_t)d * b->ld, (size_t)b->ld * sizeof *row);
        row[n] += e->at ? hb_dot(row + b->nb, e->at, b->nfixed) : 0;
        for (int i = 0; i <= n; i++)
            b->row[d * b->ld + i] = row[i] + theta * b->before[d * b->ld + i];
    }
    memcpy(b->before, b->row, (size_t)(b->nx * b->ld) * sizeof *b->row);
}

/* V of all transitions of a run. */
static void variance_of(const hb_belief *b, const hb_run *run, double *ret)
{
    for (int d = 0; d < b->nx; d++)
        ret[d] = fmax(fmax(run->noise[d] / (1 + hb_square(b->theta[d])), run->slow[d]), b->file_variance[d]);
}

void hb_noise_conclude(hb_belief *b)
{
    find_theta(b);
    variance_of(b, &b->run[(int)*b->main_run], b->noise);
}

void hb_noise_expect(const hb_belief *b, const hb_run *run, const hb_evidence *e, hb_prediction *p)
{
    bool fresh = *b->fresh_start > 0 || !e->continues;

    variance_of(b, run, p->past);
    for (int d = 0; d < b->nx; d++)
        p->variance[d] = (fresh ? fmax(run->noise[d], p->past[d]) : p->past[d]) + b->doubt[d];
}

/* How much a transition says about noise: an outlier nothing, nor the first ones after a change, which a newborn run
 * explains; what goes on and nothing explains does. */
static double tells_noise(const hb_belief *b)
{
    return fmin(1, fmax(1 - *b->outlier, *b->foreign * b->unexplained));
}

void hb_noise_learn(hb_belief *b, hb_run *run, const hb_prediction *p, const hb_evidence *e)
{
    double believed = tells_noise(b), fresh = believed * e->dt / *run->noise_seconds;
    double keep = hb_belief_keeps(e->dt);
    double slow_fresh = believed * e->dt / fmin(fmax(*run->age, HB_LASTING_TIME) + e->dt, HB_SLOW_MEMORY);

    for (int d = 0; d < b->nx; d++) {
        double left = hb_belief_left(b, b->raw, run->unknown, d), white = hb_belief_left(b, b->row, run->unknown, d);
        /* how uncertain the coefficients are after the transition */
        double open = p->uncertainty[d] * p->variance[d] / (p->uncertainty[d] + p->variance[d]);
        run->noise[d] +=
            fmin(1, fresh) * (fmin(hb_square(left) + open, hb_square(HB_CLIP) * run->noise[d]) - run->noise[d]);
        run->lasting[d] = keep * run->lasting[d] + white;
        double slow = (1 - keep * keep) * hb_square(run->lasting[d]);
        run->slow[d] += fmin(1, slow_fresh) * (fmin(slow, hb_square(HB_CLIP) * run->slow[d]) - run->slow[d]);
        /* neither falls below what the file says, from where it would take long to rise */
        run->noise[d] = fmax(run->noise[d], b->file_variance[d]);
        run->slow[d] = fmax(run->slow[d], b->file_variance[d] / hb_square(HB_CLIP));
    }
    *run->noise_seconds = fmin(HB_NOISE_MEMORY, *run->noise_seconds + e->dt);
}

void hb_noise_follow_correlation(hb_belief *b, const hb_evidence *e, bool fresh_start)
{
    double fresh = fmin(1, tells_noise(b) * e->dt / *b->run[(int)*b->main_run].noise_seconds);

    for (int d = 0; d < b->nx; d++) {
        double error = b->left[d], most = HB_CLIP * sqrt(b->variance0[d]);
        error = fmin(fmax(error, -most), most);
        b->variance0[d] += fresh * (hb_square(error) - b->variance0[d]);
        b->variance0[d] = fmax(b->variance0[d], b->file_variance[d] / hb_square(HB_CLIP));
        b->variance1[d] += fresh * ((fresh_start ? 0 : error * b->last_error[d]) - b->variance1[d]);
        b->last_error[d] = error;
        if (*b->outlier < 0.5) /* else it moved as no vehicle does */
            b->motion[d] += (b->motion[d] > 0 ? fresh : 1) * (hb_square(hb_belief_moved(b, d)) - b->motion[d]);
    }
}
