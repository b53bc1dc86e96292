/* Words for coefficients: read against a plain computation, kept in a file, and fitted to a fleet whose coefficients,
 * and so the hidden parameters that are made of them, are known. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/numeric.h"
#include "fleet.h"
#include "model/words.h"
#include "train/words.h"

enum { NB = FLEET_NB, NX = FLEET_NX, FUNCTIONS = FLEET_FUNCTIONS, TWICE = 2 * FUNCTIONS };

static double draw(int stream, int index)
{
    return hb_random_normal((hb_random_key){3, (uint64_t)stream}, (uint64_t)index);
}

/* With two words, one of them a reciprocal. */
static hb_model *worded_model(hb_shape shape)
{
    hb_model *m = fleet_model(HB_SHARED, HB_COMBINED, HB_AVERAGE_NETWORK, shape, 0.1), *to = NULL;

    assert_int_equal(hb_model_copy_with_words(&to, m, 2, NULL, NULL), 0);
    strcpy(to->word_name[0], "drag");
    strcpy(to->word_unit[0], "N s/m");
    strcpy(to->word_name[1], "mass");
    to->word_form[1] = HB_WORD_RECIPROCAL;
    for (int w = 0; w < 2; w++) {
        to->word_offset[w] = w ? 40 : 0.5;
        to->word_error[w] = 0.1 * (w + 1);
        for (int i = 0; i < hb_model_ncoefficients(to); i++)
            to->word_slope[w * hb_model_ncoefficients(to) + i] = draw(w, i);
    }
    hb_model_free(m);
    return to;
}

/* The variance of slope c, from draws of c = mean + A n with cov(c) = A A^T: an independent way to slope cov slope^T.
 */
static void check_reading(hb_shape shape)
{
    hb_model *m = worded_model(shape);
    int nc = hb_model_ncoefficients(m), blocks = hb_model_nproblems(m);
    double root[NX][NB][NB], covariance[NX * NB * NB] = {0}, sum[2] = {0, 0};
    hb_real c[NX * NB];
    hb_word word[2];

    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < NB; i++)
            for (int j = 0; j < NB; j++)
                root[b][i][j] = 0.1 * draw(10 + b, i * NB + j);
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < NB; i++)
            for (int j = 0; j <= i; j++) /* the lower triangle is read */
                for (int k = 0; k < NB; k++)
                    covariance[(b * NB + i) * NB + j] += root[b][i][k] * root[b][j][k];
    for (int i = 0; i < nc; i++)
        c[i] = (hb_real)draw(5, i);
    /* each column of the root moves c by itself: squares of what that makes of y add up */
    for (int w = 0; w < 2; w++)
        for (int b = 0; b < blocks; b++)
            for (int k = 0; k < NB; k++) {
                double move = 0;
                for (int i = 0; i < NB; i++)
                    move += m->word_slope[w * nc + i * blocks + b] * root[b][i][k];
                sum[w] += move * move;
            }
    hb_words_read(m, c, covariance, NULL, word);
    for (int w = 0; w < 2; w++) {
        double y = m->word_offset[w], deviation = sqrt(sum[w] + m->word_error[w] * m->word_error[w]);
        for (int i = 0; i < nc; i++)
            y += m->word_slope[w * nc + i] * (double)c[i];
        double value = w ? 1 / y : y, spread = w ? deviation / (y * y) : deviation;
        assert_true(fabs(word[w].value - value) < 1e-9 * fabs(value));
        assert_true(fabs(word[w].deviation - spread) < 1e-9 * spread);
    }
    /* a reciprocal that may be of either sign is none */
    m->word_offset[1] -= 1 / word[1].value;
    hb_words_read(m, c, covariance, NULL, word);
    assert_true(isnan(word[1].value));
    hb_model_free(m);
}

static void test_words_are_what_the_coefficients_say(void **state)
{
    (void)state;
    check_reading(HB_VECTOR);
    check_reading(HB_PER_STATE);
}

static void test_text_has_the_digits_that_mean_something(void **state)
{
    (void)state;
    static const struct {
        hb_word word;
        const char *text;
    } row[] = {{{0.022134, 0.00031}, "0.0221 +- 0.0003"},
               {{0.022134, 0.00014}, "0.02213 +- 0.00014"},
               {{123.4, 25}, "123 +- 25"},
               {{-1.25, 0.5}, "-1.2 +- 0.5"},
               {{-0.02, 1.3}, "0.0 +- 1.3"}, /* and no sign of nothing */
               {{NAN, 1}, "unknown"},
               {{1, 0}, "1.00000 +- 0.00000"}};
    char text[HB_WORD_TEXT];

    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_string_equal(hb_word_text(row[i].word, text), row[i].text);
}

static void test_a_file_keeps_them_and_its_hash(void **state)
{
    (void)state;
    hb_model *m = worded_model(HB_VECTOR), *back = NULL, *without = NULL;
    char path[] = "/tmp/test_words.XXXXXX";
    hb_error err = {0};

    close(mkstemp(path));
    assert_int_equal(hb_model_save(m, path, NULL), 0);
    if (hb_model_load(&back, path, &err))
        fail_msg("%s", err.text);
    assert_int_equal(back->nwords, 2);
    assert_string_equal(back->word_name[1], "mass");
    assert_string_equal(back->word_unit[0], "N s/m");
    assert_string_equal(back->word_unit[1], "");
    assert_int_equal(back->word_form[1], HB_WORD_RECIPROCAL);
    assert_memory_equal(back->word_slope, m->word_slope, 2 * NB * sizeof(double));
    assert_memory_equal(back->word_error, m->word_error, 2 * sizeof(double));
    assert_int_equal(hb_model_copy(&without, back, false, NULL, NULL), 0);
    assert_int_equal(without->nwords, 0);
    assert_true(without->hash == back->hash);

    m->word_error[1] = -1;
    assert_int_equal(hb_model_save(m, path, &err), -EINVAL);
    assert_non_null(strstr(err.text, "mass"));
    m->word_error[1] = 1;
    strcpy(m->word_name[1], "drag");
    assert_int_equal(hb_model_save(m, path, &err), -EINVAL);
    unlink(path);
    hb_model_free(without);
    hb_model_free(back);
    hb_model_free(m);
}

/* ---- fits ---- */

/* Hidden parameters of the fleet: one linear in its coefficients, one whose reciprocal is, one that is noise, one that
 * never changes. */
static char hidden_name[][HB_NAME_SIZE] = {"constant", "linear", "noise", "reciprocal"};
enum { NHIDDEN = sizeof hidden_name / sizeof *hidden_name };

static void hide(const hb_model *m, hb_dataset *d, double (*hidden)[NHIDDEN])
{
    d->header.nhidden = NHIDDEN;
    d->header.hidden_name = hidden_name;
    for (int f = 0; f < FUNCTIONS; f++) {
        hb_real c[NB * NX];
        double a = 0, b = 0;
        fleet_coefficients(m, f, c);
        for (int i = 0; i < hb_model_ncoefficients(m); i++) {
            a += draw(20, i) * (double)c[i];
            b += 0.2 * draw(21, i) * (double)c[i];
        }
        hidden[f][0] = 7;
        hidden[f][1] = 3 + a;
        hidden[f][2] = draw(22, f);
        hidden[f][3] = 1 / (5 + b);
        d->function[f].hidden = hidden[f];
    }
}

static void check_fit(hb_shape shape)
{
    hb_model *m = fleet_model(HB_SHARED, HB_COMBINED, HB_AVERAGE_NETWORK, shape, 0.1), *with = NULL;
    hb_dataset d = fleet_data(m);
    double hidden[FUNCTIONS][NHIDDEN];
    int function[TWICE];
    hb_word_wishes wishes;
    hb_word_result result[HB_MAX_WORDS];
    hb_pool *pool = NULL;
    hb_error err = {0};

    hide(m, &d, hidden);
    for (int f = 0; f < TWICE; f++)
        function[f] = f % FUNCTIONS;
    hb_words_wish_all(&wishes, &d);
    assert_int_equal(wishes.n, 3); /* but the constant */
    assert_int_equal(hb_words_wish(&wishes, "sum[kg]=linear+0.1*reciprocal", &err), 0);
    assert_int_equal(hb_pool_new(&pool, 2, NULL, NULL, NULL), 0);
    const hb_word_source from = {
        .model = m, .data = &d, .function = function, .nfunctions = TWICE, .examples = 300, .seed = 1};
    if (hb_words_fit(&with, &from, &wishes, pool, NULL, result, &err))
        fail_msg("%s", err.text);
    assert_true(result[0].kept && !result[1].kept && result[2].kept && result[3].kept);
    assert_int_equal(result[0].form, HB_WORD_LINEAR);
    assert_int_equal(result[2].form, HB_WORD_RECIPROCAL);
    assert_int_equal(with->nwords, 3);
    assert_string_equal(with->word_name[2], "sum");
    assert_string_equal(with->word_unit[2], "kg");
    assert_int_equal(hb_model_check(with, NULL), 0);
    assert_true(with->hash == m->hash);
    for (int f = 0; f < FUNCTIONS; f++) {
        hb_real c[NB * NX];
        hb_word word[3];
        fleet_coefficients(m, f, c);
        hb_words_read(with, c, NULL, NULL, word);
        double expected[] = {hidden[f][1], hidden[f][3], hidden[f][1] + 0.1 * hidden[f][3]};
        for (int w = 0; w < 3; w++)
            if (!(fabs(word[w].value - expected[w]) < 0.03 * fabs(expected[w]) + 0.01))
                fail_msg("function %d: %s is %g, expected %g", f, with->word_name[w], word[w].value, expected[w]);
    }
    hb_pool_free(pool);
    hb_model_free(with);
    fleet_data_free(&d);
    hb_model_free(m);
}

static void test_maps_are_found_where_there_are_some(void **state)
{
    (void)state;
    check_fit(HB_VECTOR);
    check_fit(HB_PER_STATE);
}

static void test_wishes_that_make_no_sense(void **state)
{
    (void)state;
    hb_model *m = fleet_model(HB_SHARED, HB_COMBINED, HB_AVERAGE_NETWORK, HB_VECTOR, 0.1), *with = NULL;
    hb_dataset d = fleet_data(m);
    double hidden[FUNCTIONS][NHIDDEN];
    int function[TWICE] = {0};
    hb_word_wishes wishes = {0};
    hb_pool *pool = NULL;
    hb_error err = {0};

    hide(m, &d, hidden);
    assert_int_equal(hb_words_wish(&wishes, "", &err), -EINVAL);
    assert_int_equal(hb_words_wish(&wishes, "a[kg", &err), -EINVAL);
    assert_int_equal(hb_words_wish(&wishes, "a[kg]x", &err), -EINVAL);
    assert_int_equal(hb_words_wish(&wishes, "mass[kg]", &err), 0);
    assert_int_equal(hb_words_wish(&wishes, "mass=linear", &err), -EINVAL);
    assert_int_equal(hb_pool_new(&pool, 1, NULL, NULL, NULL), 0);
    hb_word_source from = {.model = m, .data = &d, .examples = 50, .seed = 1};
    assert_int_equal(hb_words_fit(&with, &from, &wishes, pool, NULL, NULL, &err), -EINVAL);
    assert_non_null(strstr(err.text, "20 functions"));
    from.function = function;
    from.nfunctions = TWICE;
    assert_int_equal(hb_words_fit(&with, &from, &wishes, pool, NULL, NULL, &err), -EINVAL);
    assert_non_null(strstr(err.text, "linear, noise"));
    hb_pool_free(pool);
    fleet_data_free(&d);
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_are_what_the_coefficients_say),
        cmocka_unit_test(test_text_has_the_digits_that_mean_something),
        cmocka_unit_test(test_a_file_keeps_them_and_its_hash),
        cmocka_unit_test(test_maps_are_found_where_there_are_some),
        cmocka_unit_test(test_wishes_that_make_no_sense),
    };

    return cmocka_run_group_tests_name("words", tests, NULL, NULL);
}
