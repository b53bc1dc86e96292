/* Words against another computation: with a covariance A A^T of the coefficients the variance of a word is |A^T
 * slope|^2 plus the map's own error; and texts against what a person would write. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "base/numeric.h"
#include "model/words.h"

enum { NX = 2, NB = 3, WORDS = 2, LINEAR = 0, RECIPROCAL = 1 };

typedef struct fixture {
    hb_model *m;
    int nc, blocks;
    hb_real c[NX * NB];
    double root[NX][NB][NB];         /* A, of each block */
    double covariance[NX * NB * NB]; /* as the estimator has it: the lower triangle alone */
    double variance[NX * NB];
} fixture;

static double draw(uint64_t i)
{
    return hb_random_normal((hb_random_key){3, 1}, i);
}

static fixture new_fixture(hb_shape shape)
{
    const hb_model of = {.nx = NX,
                         .nu = 1,
                         .nb = NB,
                         .architecture = HB_SHARED,
                         .average = HB_AVERAGE_HEAD,
                         .integration = HB_COMBINED,
                         .substeps = 1,
                         .shape = shape,
                         .volume = 1,
                         .dt = 0.1,
                         .basis = {.nlayers = 1}};
    fixture f = {.blocks = shape == HB_PER_STATE ? NX : 1};
    hb_model *plain;

    assert_int_equal(hb_model_new(&plain, &of, NULL, NULL), 0);
    assert_int_equal(hb_model_copy_with_words(&f.m, plain, WORDS, NULL, NULL), 0);
    hb_model_free(plain);
    f.nc = hb_model_ncoefficients(f.m);
    f.m->word_form[LINEAR] = HB_WORD_LINEAR;
    f.m->word_form[RECIPROCAL] = HB_WORD_RECIPROCAL;
    for (int w = 0; w < WORDS; w++) {
        f.m->word_offset[w] = 20 + w;
        f.m->word_error[w] = 0.1 * (w + 1);
        for (int i = 0; i < f.nc; i++)
            f.m->word_slope[w * f.nc + i] = draw((uint64_t)(100 + w * f.nc + i));
    }
    for (int i = 0; i < f.nc; i++)
        f.c[i] = (hb_real)draw((uint64_t)i);
    for (int b = 0; b < f.blocks; b++)
        for (int i = 0; i < NB; i++)
            for (int j = 0; j < NB; j++)
                f.root[b][i][j] = 0.1 * draw((uint64_t)(200 + (b * NB + i) * NB + j));
    for (int b = 0; b < f.blocks; b++)
        for (int i = 0; i < NB; i++)
            for (int j = 0; j < NB; j++) {
                double sum = 0;
                for (int k = 0; k < NB; k++)
                    sum += f.root[b][i][k] * f.root[b][j][k];
                f.covariance[(b * NB + i) * NB + j] = j <= i ? sum : NAN; /* what is above is not to be read */
                if (i == j)
                    f.variance[i * f.blocks + b] = sum;
            }
    return f;
}

/* y, and the variance of it */
static void by_hand(const fixture *f, int w, bool correlated, double *y, double *variance)
{
    *y = f->m->word_offset[w];
    *variance = f->m->word_error[w] * f->m->word_error[w];
    for (int i = 0; i < f->nc; i++) {
        const double slope = f->m->word_slope[w * f->nc + i];
        *y += slope * (double)f->c[i];
        *variance += correlated ? 0 : slope * slope * f->variance[i];
    }
    for (int b = 0; correlated && b < f->blocks; b++)
        for (int k = 0; k < NB; k++) {
            double along = 0;
            for (int i = 0; i < NB; i++)
                along += f->root[b][i][k] * f->m->word_slope[w * f->nc + i * f->blocks + b];
            *variance += along * along;
        }
}

static void test_values_and_deviations(void **state)
{
    (void)state;
    for (int shape = HB_VECTOR; shape <= HB_PER_STATE; shape++)
        for (int correlated = 0; correlated < 2; correlated++) {
            fixture f = new_fixture((hb_shape)shape);
            hb_word word[WORDS];
            double y, variance;

            hb_words_read(f.m, f.c, correlated ? f.covariance : NULL, correlated ? NULL : f.variance, word);
            by_hand(&f, LINEAR, correlated, &y, &variance);
            assert_near(word[LINEAR].value, y, 1e-12);
            assert_near(word[LINEAR].deviation, sqrt(variance), 1e-12);

            /* a small deviation of y is one of 1 / y times its slope there */
            by_hand(&f, RECIPROCAL, correlated, &y, &variance);
            const double step = 1e-4, slope = (1 / (y + step) - 1 / (y - step)) / (2 * step);
            assert_near(word[RECIPROCAL].value, 1 / y, 1e-12);
            assert_near(word[RECIPROCAL].deviation, fabs(slope) * sqrt(variance), 1e-9);
            hb_model_free(f.m);
        }
}

static void test_a_reciprocal_near_zero_has_no_value(void **state)
{
    (void)state;
    fixture f = new_fixture(HB_VECTOR);
    hb_word word[WORDS];
    double y, variance;

    by_hand(&f, RECIPROCAL, true, &y, &variance);
    for (int sure = 0; sure < 2; sure++) {
        const double wanted = (sure ? 3.1 : 2.9) * sqrt(variance);
        f.m->word_offset[RECIPROCAL] += wanted - y;
        y = wanted;
        hb_words_read(f.m, f.c, f.covariance, NULL, word);
        assert_int_equal(isfinite(word[RECIPROCAL].value), sure);
        assert_int_equal(isfinite(word[RECIPROCAL].deviation), sure);
    }
    hb_model_free(f.m);
}

static void test_texts(void **state)
{
    (void)state;
    const struct {
        hb_word word;
        const char *text;
    } expected[] = {
        {{0.02213, 0.00031}, "0.0221 +- 0.0003"},
        {{0.02213, 0.00014}, "0.02213 +- 0.00014"},
        {{-3.14159, 0.5}, "-3.1 +- 0.5"},
        {{1234.5, 60}, "1234 +- 60"},
        {{-0.0004, 0.2}, "0.0 +- 0.2"},
        {{NAN, 1}, "unknown"},
        {{1, INFINITY}, "unknown"},
    };
    char text[HB_WORD_TEXT];

    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_string_equal(hb_word_text(expected[i].word, text), expected[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_and_deviations),
        cmocka_unit_test(test_a_reciprocal_near_zero_has_no_value),
        cmocka_unit_test(test_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
