/* Unknowns that stay, f: what is known of them whatever the coefficients may be, M, does not fade; belief.h. */
#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/belief_internal.h"

void hb_fixed_know(hb_belief *b, hb_run *run, const hb_run *as)
{
    int nb = b->nb, n = b->n, nfixed = b->nfixed;

    for (int k = 0; k < b->nproblems; k++)
        for (int i = 0; i < nfixed; i++) {
            run->unknown[k * n + nb + i] = as ? as->unknown[k * n + nb + i] : 0;
            for (int j = 0; j < nfixed; j++)
                hb_fixed_of(b, run->fixed, k)[i * nfixed + j] =
                    as ? hb_fixed_of(b, as->fixed, k)[i * nfixed + j] : (double)(i == j);
        }
}

void hb_fixed_wear(const hb_belief *b, hb_run *run, double dt)
{
    double share = b->s.change_interval > 0 ? fmin(1, dt / b->s.change_interval) : 0;

    for (int k = 0; k < b->nproblems; k++)
        for (int i = 0; i < b->nfixed; i++)
            for (int j = 0; j < b->nfixed; j++) {
                double *known = hb_fixed_of(b, run->fixed, k) + i * b->nfixed + j;
                *known += share * ((i == j) - *known);
            }
}

bool hb_fixed_factor(int n, const double *a, double *l)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double sum = a[i * n + j] - hb_dot(l + i * n, l + j * n, j);
            if (i == j && !(sum > 0 && isfinite(sum)))
                return false;
            l[i * n + j] = i == j ? sqrt(sum) : sum / l[j * n + j];
        }
    return true;
}

/* The first part of L^-1 of the vector: y of the coefficients. */
static void solve_forward(hb_belief *b, int problem)
{
    for (int i = 0; i < b->nb; i++)
        for (int k = 0; k < HB_SIDES; k++) {
            double sum = b->vector[i][k] + b->prior_vector[problem * b->n + i];
            for (int j = 0; j < i; j++)
                sum -= b->sides_factor[i * b->n + j][k] * b->sides_c[j][k];
            b->sides_c[i][k] = sum * b->sides_factor[i * b->n + i][k];
        }
}

bool hb_fixed_load(hb_belief *b, int problem)
{
    int nb = b->nb, n = b->n, nfixed = b->nfixed;
    double l[HB_MOST_FIXED * HB_MOST_FIXED] = {0};

    if (nfixed == 0)
        return true;
    solve_forward(b, problem);
    for (int k = 0; k < HB_HYPOTHESES; k++) {
        if (!hb_runs_predicts(b, k))
            continue;
        const double *known = hb_fixed_of(b, b->run[k].fixed, problem), *f = b->run[k].unknown + problem * n + nb;
        if (!hb_fixed_factor(nfixed, known, l))
            return false;
        for (int i = 0; i < nfixed; i++) {
            const hb_sides *row = b->sides_factor + (ptrdiff_t)(nb + i) * n;
            double vector = hb_dot(known + i * nfixed, f, nfixed);
            for (int j = 0; j < nb; j++)
                vector += row[j][k] * b->sides_c[j][k];
            b->vector[nb + i][k] = vector - b->prior_vector[problem * n + nb + i];
            for (int h = 0; h <= i; h++) {
                const hb_sides *other = b->sides_factor + (ptrdiff_t)(nb + h) * n;
                double sum = known[i * nfixed + h] - hb_prior_of(b, problem)[(nb + i) * n + nb + h];
                for (int j = 0; j < nb; j++)
                    sum += row[j][k] * other[j][k];
                b->information[(nb + i) * n + nb + h][k] = sum;
            }
        }
        for (int i = 0; i < nfixed; i++)
            for (int h = 0; h <= i; h++)
                b->sides_factor[(nb + i) * n + nb + h][k] = i == h ? 1 / l[i * nfixed + i] : l[i * nfixed + h];
    }
    return true;
}

void hb_fixed_take(const hb_belief *b, int k, double *ret)
{
    int nb = b->nb, n = b->n;

    for (int i = 0; i < b->nfixed; i++)
        for (int h = 0; h <= i; h++) {
            double sum = 0;
            for (int j = 0; j <= h; j++) {
                double left = b->sides_factor[(nb + i) * n + nb + j][k],
                       right = b->sides_factor[(nb + h) * n + nb + j][k];
                sum += (j == i ? 1 / left : left) * (j == h ? 1 / right : right);
            }
            ret[i * b->nfixed + h] = ret[h * b->nfixed + i] = sum;
        }
}

void hb_fixed_bound(const hb_belief *b, double *f, const double *known)
{
    double mean[HB_MOST_FIXED], moved;

    memcpy(mean, f, (size_t)b->nfixed * sizeof *f);
    do {
        moved = 0;
        for (int i = 0; i < b->nfixed; i++) {
            double at = mean[i], was = f[i];
            for (int j = 0; j < b->nfixed; j++)
                at -= j == i ? 0 : known[i * b->nfixed + j] / known[i * b->nfixed + i] * (f[j] - mean[j]);
            f[i] = fmin(fmax(at, b->least[i]), b->most[i]);
            moved = fmax(moved, fabs(f[i] - was));
        }
    } while (moved > HB_NOTHING);
}

/* The inverse of a small matrix that has a factor. */
static void invert(int n, const double *a, double *ret)
{
    double l[HB_MOST_FIXED * HB_MOST_FIXED] = {0};

    hb_fixed_factor(n, a, l);
    for (int c = 0; c < n; c++) {
        double x[HB_MOST_FIXED];
        for (int i = 0; i < n; i++)
            x[i] = ((i == c) - hb_dot(l + i * n, x, i)) / l[i * n + i];
        for (int i = n - 1; i >= 0; i--) {
            for (int j = i + 1; j < n; j++)
                x[i] -= l[j * n + i] * x[j];
            x[i] /= l[i * n + i];
            ret[i * n + c] = x[i];
        }
    }
}

/* M and M f of a hypothesis over all problems, where the prior counts once. */
static void gather(const hb_belief *b, const hb_run *run, double *information, double *vector)
{
    int nfixed = b->nfixed;

    for (int i = 0; i < nfixed; i++) {
        vector[i] = 0;
        for (int j = 0; j < nfixed; j++)
            information[i * nfixed + j] = (i == j) * (1 - b->nproblems);
    }
    for (int k = 0; k < b->nproblems; k++) {
        const double *known = hb_fixed_of(b, run->fixed, k);
        for (int i = 0; i < nfixed; i++) {
            vector[i] += hb_dot(known + i * nfixed, run->unknown + k * b->n + b->nb, nfixed);
            for (int j = 0; j < nfixed; j++)
                information[i * nfixed + j] += known[i * nfixed + j];
        }
    }
}

void hb_belief_fixed(const hb_belief *b, double *mean, double *covariance)
{
    int nfixed = b->nfixed;
    double own[HB_HYPOTHESES][HB_MOST_FIXED], information[HB_MOST_FIXED * HB_MOST_FIXED], vector[HB_MOST_FIXED];
    double inverse[HB_MOST_FIXED * HB_MOST_FIXED];

    memset(mean, 0, (size_t)nfixed * sizeof *mean);
    memset(covariance, 0, (size_t)(nfixed * nfixed) * sizeof *covariance);
    for (int k = 0; k < HB_HYPOTHESES && nfixed > 0; k++) {
        if (!hb_runs_lives(b, k))
            continue;
        gather(b, &b->run[k], information, vector);
        invert(nfixed, information, inverse);
        for (int i = 0; i < nfixed; i++) {
            own[k][i] = hb_dot(inverse + i * nfixed, vector, nfixed);
            mean[i] += hb_runs_weight(b, k) * own[k][i];
        }
        for (int i = 0; i < nfixed * nfixed; i++)
            covariance[i] += hb_runs_weight(b, k) * inverse[i];
    }
    for (int k = 0; k < HB_HYPOTHESES; k++)
        for (int i = 0; i < nfixed && hb_runs_lives(b, k); i++)
            for (int j = 0; j < nfixed; j++)
                covariance[i * nfixed + j] += hb_runs_weight(b, k) * (own[k][i] - mean[i]) * (own[k][j] - mean[j]);
}

void hb_fixed_doubt(hb_belief *b)
{
    double mean[HB_MOST_FIXED], covariance[HB_MOST_FIXED * HB_MOST_FIXED];

    hb_belief_fixed(b, mean, covariance);
    for (int d = 0; d < b->nx; d++) {
        const double *slope = b->row + (ptrdiff_t)d * b->ld + b->nb;
        b->doubt[d] = 0;
        for (int i = 0; i < b->nfixed; i++)
            b->doubt[d] += hb_square(HB_FIRST_ORDER) * slope[i] * hb_dot(covariance + i * b->nfixed, slope, b->nfixed);
    }
}

void hb_fixed_widen(hb_belief *b, const hb_run *run, int problem, double *covariance)
{
    int nb = b->nb, nfixed = b->nfixed;
    double inverse[HB_MOST_FIXED * HB_MOST_FIXED], *moved = b->condition_scratch; /* nfixed x nb: B^T */

    if (nfixed == 0)
        return;
    invert(nfixed, hb_fixed_of(b, run->fixed, problem), inverse);
    for (int i = 0; i < nfixed; i++)
        for (int j = 0; j < nb; j++) {
            moved[i * nb + j] = 0;
            for (int h = 0; h < nb; h++)
                moved[i * nb + j] += covariance[h > j ? h * nb + j : j * nb + h] * b->cross[i * nb + h];
        }
    for (int i = 0; i < nb; i++)
        for (int j = 0; j <= i; j++)
            for (int h = 0; h < nfixed; h++)
                for (int g = 0; g < nfixed; g++)
                    covariance[i * nb + j] += moved[h * nb + i] * inverse[h * nfixed + g] * moved[g * nb + j];
}
