/* What the end of a training says, for each case that it tells apart. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/verdict.h"

enum { ZERO, PRIOR, ONE_SECOND, FIVE_SECONDS, NOW, TEN = 1 };

/* Two quantities of a vehicle, of which adapting takes the first from 1 to `now`, and leaves the second as it was. */
static hb_verdict made(double now)
{
    hb_verdict v = {.known = true, .online = {.nquantities = 2, .starts = 100, .seconds = 60}};

    strcpy(v.online.quantity[0].name, "velocity");
    strcpy(v.online.quantity[0].unit, "m/s");
    strcpy(v.online.quantity[1].name, "rates");
    strcpy(v.online.quantity[1].unit, "rad/s");
    for (int row = 0; row < HB_ONLINE_ROWS; row++)
        for (int s = 0; s < HB_ONLINE_STEPS; s++) {
            v.online.error[row][s][0] = row == ZERO ? 2 : row == PRIOR ? 1 : row == NOW ? now : (1 + now) / 2;
            v.online.error[row][s][1] = 1;
        }
    return v;
}

static char *said(const hb_verdict *v)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    hb_verdict_print(v, out);
    fclose(out);
    return text;
}

static void expect(const hb_verdict *v, const char *sentence, bool there)
{
    char *text = said(v);

    if (!strstr(text, sentence) == there)
        fail_msg("'%s' %s in:\n%s", sentence, there ? "is not" : "is", text);
    free(text);
}

static const char without_data[] = "a new vehicle is better predicted without its data";
static const char as_well[] = "a model without adaptation does as well";

static void test_nothing_to_try_it_on(void **state)
{
    (void)state;
    hb_verdict v = {0};
    char *text = said(&v);

    assert_string_equal(text, "");
    free(text);
}

/* against the better of c = 0 and the prior's mean: a tenth is worth it, and a tenth is harm */
static void test_what_adapting_brings(void **state)
{
    (void)state;
    static const struct {
        double now;
        const char *word;
        bool harms, useless;
    } cases[] = {
        {0.5, "velocity: adapting pays: after 10 steps 0.5 m/s, 1 without; 1 s of data gives 0.75", false, false},
        {0.95, "velocity: adapting brings little", false, true},
        {1.05, "velocity: adapting brings little", false, true},
        {1.3, "velocity: adapting HURTS: after 10 steps 1.3 m/s, 1 without", true, false}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hb_verdict v = made(cases[i].now);
        expect(&v, cases[i].word, true);
        expect(&v, "rates: adapting brings little", true);
        expect(&v, without_data, cases[i].harms);
        expect(&v, as_well, cases[i].useless);
    }
    /* a prior mean that is worse than nothing is no measure */
    hb_verdict v = made(1.5);
    v.online.error[PRIOR][TEN][0] = 3;
    expect(&v, "velocity: adapting pays: after 10 steps 1.5 m/s, 2 without", true);
    /* and what ran away in all flights says nothing */
    v.online.error[NOW][TEN][0] = NAN;
    expect(&v, "velocity: adapting", false);
}

static void test_noise_of_the_data(void **state)
{
    (void)state;
    hb_verdict v = made(0.5);

    v.noise[0] = 0.25;
    expect(&v, "one step is off by 2.0 times the data's noise", true);
    /* motion that is fast for the period: what third differences show is not noise */
    v.noise[0] = 1;
    expect(&v, "times the data's noise", false);
}

static void test_warnings(void **state)
{
    (void)state;
    hb_verdict v = made(0.5);

    expect(&v, "warning", false);
    v.online.ran_away[NOW] = 3;
    expect(&v, "warning: 3 of 100 predictions of 50 steps ran away", true);
    v = made(0.5);
    v.online.ran_away[ZERO] = 3; /* which nobody flies with */
    expect(&v, "warning", false);
    v.online.out_of_span = 0.019;
    expect(&v, "warning", false);
    v.online.out_of_span = 0.031;
    expect(&v, "out-of-span 3.1 % of the time", true);
    expect(&v, "warning: such vehicles would be out-of-span 3.1 %", true);
}

static void test_other_headings(void **state)
{
    (void)state;
    hb_verdict v = made(0.5);

    expect(&v, "turned", false);
    v.can_turn = true;
    v.turned = v.online;
    expect(&v, "turned a quarter, after 10 steps: velocity 0.5 m/s instead of 0.5, rates 1 rad/s instead of 1", true);
    expect(&v, "--headings any", false);
    v.turned.error[NOW][TEN][0] = 0.6;
    expect(&v, "velocity 0.6 m/s instead of 0.5", true);
    expect(&v, "--headings any", true);
    /* as where all of it ran away */
    v.turned.error[NOW][TEN][0] = NAN;
    expect(&v, "--headings any", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_to_try_it_on), cmocka_unit_test(test_what_adapting_brings),
        cmocka_unit_test(test_noise_of_the_data),    cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_other_headings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
