#include "model/words.h"

#include <math.h>
#include <stdio.h>

/* a reciprocal this many deviations away from zero has a sign, and so a value */
static const double sure_of_sign = 3;

/* slope cov(c) slope^T of one word */
static double spread(const hb_model *m, const double *slope, const double *covariance, const double *variance)
{
    const int nb = m->nb, blocks = hb_model_nproblems(m);
    double sum = 0;

    for (int i = 0; !covariance && variance && i < hb_model_ncoefficients(m); i++)
        sum += slope[i] * slope[i] * variance[i];
    for (int block = 0; covariance && block < blocks; block++)
        for (int i = 0; i < nb; i++)
            for (int j = 0; j < nb; j++)
                sum += slope[i * blocks + block] * slope[j * blocks + block] *
                       covariance[((size_t)block * (size_t)nb + (size_t)(i > j ? i : j)) * (size_t)nb +
                                  (size_t)(i > j ? j : i)];
    return fmax(sum, 0);
}

void hb_words_read(const hb_model *m, const hb_real *c, const double *covariance, const double *variance, hb_word *ret)
{
    const int nc = hb_model_ncoefficients(m);

    for (int w = 0; w < m->nwords; w++) {
        const double *slope = m->word_slope + (size_t)w * (size_t)nc;
        double y = m->word_offset[w];

        for (int i = 0; i < nc; i++)
            y += slope[i] * (double)c[i];
        double deviation = sqrt(spread(m, slope, covariance, variance) + m->word_error[w] * m->word_error[w]);
        if (m->word_form[w] == HB_WORD_LINEAR)
            ret[w] = (hb_word){y, deviation};
        else if (fabs(y) > sure_of_sign * deviation)
            ret[w] = (hb_word){1 / y, deviation / (y * y)};
        else
            ret[w] = (hb_word){NAN, NAN};
    }
}

const char *hb_word_text(hb_word w, char text[HB_WORD_TEXT])
{
    if (!isfinite(w.value) || !isfinite(w.deviation)) {
        snprintf(text, HB_WORD_TEXT, "unknown");
        return text;
    }
    /* decimal places that the deviation leaves meaningful */
    double size = w.deviation > 0 ? floor(log10(w.deviation)) : floor(log10(fabs(w.value) + 1e-300)) - 4;
    double first = w.deviation / pow(10, size);
    int places = (int)fmin(fmax((first < 1.95 ? 1 : 0) - size, 0), 12);

    double least = 0.5 * pow(10, -places);

    snprintf(text, HB_WORD_TEXT, "%.*f +- %.*f", places, fabs(w.value) <= least ? 0 : w.value, places, w.deviation);
    return text;
}
