/* Expressions: values against C, derivatives against finite differences (double build) and the built-in quadrotor,
 * mistakes with their places. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "models.h"
#include "quadrotor_expressions.h"
#include "base/numeric.h"

#define AT(rows, i, s) ((double)(rows)[(i)*HB_STRIDE + (s)])

static char states[][HB_NAME_SIZE] = {"x", "v", "heading"}, controls[][HB_NAME_SIZE] = {"throttle", "steer"};
static char parameters[][HB_NAME_SIZE] = {"mass", "drag"};
static const double values[] = {2, 0.5};

static hb_physics_source car(const char *text)
{
    return (hb_physics_source){.nx = 3,
                               .nu = 2,
                               .state = states,
                               .control = controls,
                               .nparameters = 2,
                               .parameter = parameters,
                               .value = values,
                               .text = text};
}

static hb_physics *compile(const hb_physics_source *source)
{
    hb_physics *p = NULL;
    hb_physics_place place;
    hb_error err = {0};

    if (hb_physics_new(&p, source, &place, &err))
        fail_msg("%s: column %d: %s", place.name, place.column, err.text);
    return p;
}

/* The rate of v, `text`, at random states and controls. */
static void evaluate(const char *text, int n, const hb_real *x, const hb_real *u, hb_real *xdot)
{
    char all[2000];
    snprintf(all, sizeof all, "x' = v\nv' = %s\nheading' = steer\n", text);
    const hb_physics_source source = car(all);
    hb_physics *p = compile(&source);
    const hb_nominal *m = hb_physics_nominal(p);
    hb_real *scratch = new_rows(m->rows + 1);

    m->field(m, m->parameter_default, n, x, u, xdot, scratch);
    free(scratch);
    hb_physics_free(p);
}

#define OF(name, text, value)                                                                                          \
    static double name(double x, double v, double heading, double throttle, double steer)                              \
    {                                                                                                                  \
        const double mass = values[0], drag = values[1];                                                               \
        (void)x, (void)v, (void)heading, (void)throttle, (void)steer, (void)mass, (void)drag;                          \
        return value;                                                                                                  \
    }                                                                                                                  \
    static const char name##_text[] = text;

OF(plain, "(throttle - drag * v) / mass", (throttle - drag * v) / mass)
OF(order, "1 - 2 - x / 2 / v * 3", 1 - 2 - x / 2 / v * 3)
OF(signs, "-x^2 - -v + +steer", -(x *x) + v + steer)
OF(tower, "2^x^2 + (1 + v^2)**-1.5", pow(2, x *x) + pow(1 + v * v, -1.5))
OF(whole, "x^3 - v^-2 + steer^0 + (v^2)^0.5", x *x *x - 1 / (v * v) + 1 + fabs(v))
OF(circle, "sin(heading) * cos(x) + tan(steer / 4)", sin(heading) * cos(x) + tan(steer / 4))
OF(arcs, "asin(x / 8) + acos(v / 8) - atan(steer) + atan2(x, v)", asin(x / 8) + acos(v / 8) - atan(steer) + atan2(x, v))
OF(smooth, "tanh(x) + exp(v / 3) * log(3 + steer^2) - sqrt(1 + x^2)",
   tanh(x) + exp(v / 3) * log(3 + steer * steer) - sqrt(1 + x * x))
OF(kinks, "abs(x) * v + sign(steer) + min(x, v) - max(throttle, 2 * x)",
   fabs(x) * v + (steer > 0) - (steer < 0) + fmin(x, v) - fmax(throttle, 2 * x))
OF(constants, "2 * pi * 1.5e-1 + 3 * (2 * x) - 4 - (5 - v)", 2 * M_PI * 0.15 + 6 * x - 4 - (5 - v))
OF(products, "x * v + v * steer - x * steer - (x * v - 2 * x) + (4 * v - x) - 3 * v * x",
   x *v + v * steer - x * steer - (x * v - 2 * x) + (4 * v - x) - 3 * v * x)
OF(general, "(2 + x / 4)^(v / 4)", pow(2 + x / 4, v / 4))

static const struct {
    const char *text;
    double (*value)(double, double, double, double, double);
} expressions[] = {{plain_text, plain},         {order_text, order},       {signs_text, signs},
                   {tower_text, tower},         {whole_text, whole},       {circle_text, circle},
                   {arcs_text, arcs},           {smooth_text, smooth},     {kinks_text, kinks},
                   {constants_text, constants}, {products_text, products}, {general_text, general}};

enum { NEXPRESSIONS = sizeof expressions / sizeof *expressions, SAMPLES = 37 };

static const double tolerance = sizeof(hb_real) == 8 ? 1e-12 : 2e-6;

static void test_values_are_those_of_c(void **state)
{
    (void)state;
    hb_real *x = random_rows(3, 1), *u = random_rows(2, 2), *xdot = new_rows(3);

    for (int e = 0; e < NEXPRESSIONS; e++) {
        evaluate(expressions[e].text, SAMPLES, x, u, xdot);
        for (int s = 0; s < SAMPLES; s++) {
            const double expected =
                expressions[e].value(AT(x, 0, s), AT(x, 1, s), AT(x, 2, s), AT(u, 0, s), AT(u, 1, s));
            /* -x/2/v has poles */
            check_close(AT(xdot, 1, s), expected, fmax(10, fabs(expected)), tolerance, "%s, sample %d",
                        expressions[e].text, s);
            assert_true(AT(xdot, 0, s) == AT(x, 1, s));
            assert_true(AT(xdot, 2, s) == AT(u, 1, s));
        }
    }
    free(x);
    free(u);
    free(xdot);
}

#ifdef HB_DOUBLE
static void test_derivatives_equal_finite_differences(void **state)
{
    (void)state;
    hb_real *x = random_rows(3, 3), *u = random_rows(2, 4), *d = random_rows(3, 5);
    hb_real *dx = new_rows(3), *du = new_rows(2);
    const double step = 1e-6;

    for (int e = 0; e < NEXPRESSIONS; e++) {
        char all[2000];
        snprintf(all, sizeof all, "x' = v\nv' = %s\nheading' = steer\n", expressions[e].text);
        const hb_physics_source source = car(all);
        hb_physics *p = compile(&source);
        const hb_nominal *m = hb_physics_nominal(p);
        hb_real *scratch = new_rows(m->rows + 1);
        m->adjoint(m, m->parameter_default, SAMPLES, x, u, d, dx, du, scratch);
        for (int s = 0; s < SAMPLES; s++)
            for (int i = 0; i < 5; i++) {
                double side[2];
                for (int k = 0; k < 2; k++) {
                    double at[] = {AT(x, 0, s), AT(x, 1, s), AT(x, 2, s), AT(u, 0, s), AT(u, 1, s)};
                    at[i] += k ? step : -step;
                    side[k] = AT(d, 0, s) * at[1] + AT(d, 2, s) * at[4] +
                              AT(d, 1, s) * expressions[e].value(at[0], at[1], at[2], at[3], at[4]);
                }
                const double expected = (side[1] - side[0]) / (2 * step);
                check_close(i < 3 ? AT(dx, i, s) : AT(du, i - 3, s), expected, fmax(1, fabs(expected)), 1e-6,
                            "%s: derivative %d of sample %d", expressions[e].text, i, s);
            }
        free(scratch);
        hb_physics_free(p);
    }
    free(x);
    free(u);
    free(d);
    free(dx);
    free(du);
}
#endif

/* Values and derivatives, for any number of samples. */
static void test_quadrotor_is_the_built_in_one(void **state)
{
    (void)state;
    const hb_nominal *q = hb_nominal_find("quadrotor");
    const hb_physics_source source = quadrotor_expressions();
    hb_physics *p = compile(&source);
    const hb_nominal *m = hb_physics_nominal(p);
    /* relative to each rate: angular accelerations are 1e5 times as large as the others */
    const double near = sizeof(hb_real) == 8 ? 1e-12 : 1e-6;
    const int counts[] = {1, 16, 17, 100, 112};

    for (int c = 0; c < 5; c++) {
        const int n = counts[c];
        hb_real *x = random_rows(13, 7), *u = random_rows(4, 8), *d = random_rows(13, 9),
                *scratch = new_rows(m->rows + 1);
        hb_real *xdot[] = {new_rows(13), new_rows(13)}, *dx[] = {new_rows(13), new_rows(13)};
        hb_real *du[] = {new_rows(4), new_rows(4)};

        m->field(m, m->parameter_default, n, x, u, xdot[0], scratch);
        q->field(q, q->parameter_default, n, x, u, xdot[1], NULL);
        m->adjoint(m, m->parameter_default, n, x, u, d, dx[0], du[0], scratch);
        q->adjoint(q, q->parameter_default, n, x, u, d, dx[1], du[1], NULL);
        for (int i = 0; i < 13 + 13 + 4; i++) {
            hb_real **pair = i < 13 ? xdot : i < 26 ? dx : du;
            const int row = i < 13 ? i : i < 26 ? i - 13 : i - 26;
            /* gradients by the thrusts are sums of one large term per axis, which cancel in some rows */
            double scale = 1;
            for (int k = i < 13 ? row : 0; k <= (i < 13 ? row : i < 26 ? 12 : 3); k++)
                for (int s = 0; s < n; s++)
                    scale = fmax(scale, fabs(AT(pair[1], k, s)));
            for (int s = 0; s < n; s++)
                check_close(AT(pair[0], row, s), AT(pair[1], row, s), scale, near, "row %d of sample %d", i, s);
        }
        for (int k = 0; k < 2; k++) {
            free(xdot[k]);
            free(dx[k]);
            free(du[k]);
        }
        free(x);
        free(u);
        free(d);
        free(scratch);
    }
    hb_physics_free(p);
}

/* At rest a speed has no slope: none is taken, rather than 0 / 0. */
static void test_standstill_has_finite_derivatives(void **state)
{
    (void)state;
    const hb_physics_source source = car("x' = v\nv' = -drag * v * sqrt(v^2 + x^2) + atan2(x, v)\nheading' = steer");
    hb_physics *p = compile(&source);
    const hb_nominal *m = hb_physics_nominal(p);
    hb_real *x = new_rows(3), *u = new_rows(2), *d = random_rows(3, 1), *dx = new_rows(3), *du = new_rows(2);
    hb_real *scratch = new_rows(m->rows + 1);

    m->adjoint(m, m->parameter_default, 1, x, u, d, dx, du, scratch);
    for (int i = 0; i < 3; i++)
        assert_true(isfinite(AT(dx, i, 0)));
    free(x);
    free(u);
    free(d);
    free(dx);
    free(du);
    free(scratch);
    hb_physics_free(p);
}

static void test_order_of_lines_is_free(void **state)
{
    (void)state;
    const hb_physics_source a = car("v' = force / mass\nforce = throttle - friction\nx' = v\nheading' = steer\n"
                                    "friction = drag * v"),
                            b = car("friction = drag * v\nforce = throttle - friction\n\nx'=v\n  v' = force/mass  \n"
                                    "heading' = steer\n");
    hb_physics *p[] = {compile(&a), compile(&b)};
    hb_real *x = random_rows(3, 1), *u = random_rows(2, 2), *xdot[] = {new_rows(3), new_rows(3)};

    for (int k = 0; k < 2; k++) {
        const hb_nominal *m = hb_physics_nominal(p[k]);
        hb_real *scratch = new_rows(m->rows + 1);
        m->field(m, m->parameter_default, 16, x, u, xdot[k], scratch);
        free(scratch);
        hb_physics_free(p[k]);
    }
    for (int i = 0; i < 3; i++)
        assert_memory_equal(xdot[0] + i * HB_STRIDE, xdot[1] + i * HB_STRIDE, 16 * sizeof(hb_real));
    free(x);
    free(u);
    free(xdot[0]);
    free(xdot[1]);
}

static void test_mistakes_have_a_place(void **state)
{
    (void)state;
    static const struct {
        const char *rate; /* of v */
        int column;       /* -1: not in an expression */
        const char *text; /* part of what is said */
    } mistake[] = {
        {"throttle - drga * v", 11, "'drga' is neither a state nor a control"},
        {"sine(heading)", 0, "there is no function 'sine', only: sin cos"},
        {"sin heading", 0, "'sin' is a function: parentheses are expected"},
        {"atan2(x)", 7, "atan2 has 2 arguments: ',' is expected"},
        {"sin(x, v)", 5, "sin has 1 argument: ')' is expected"},
        {"(x + v", 6, "')' is expected"},
        {"x + v)", 5, "')' closes nothing"},
        {"x + ", 3, "the expression ends"},
        {"", 0, "the expression ends"},
        {"2 x", 2, "an operator is expected"},
        {"2x", 1, "between a number and a name"},
        {"1.2.3", 0, "'1.2.3' is not a number"},
        {"1e999", 0, "'1e999' is not a number"},
        {"x $ v", 2, "an operator is expected, not '$'"},
        {"1 / 0", 0, "'v' is inf whatever the state is"},
        {"again", 0, "'again' is defined by itself"},
        {"a_name_that_is_far_too_long_to_be_one", 0, "a name of 37 characters"},
    };

    for (size_t i = 0; i < sizeof mistake / sizeof *mistake; i++) {
        char all[2000];
        snprintf(all, sizeof all, "x' = v\nv' = %s\nheading' = steer\nagain = 1 + again", mistake[i].rate);
        if (!strstr(mistake[i].rate, "again"))
            *strstr(all, "\nagain") = 0;
        const hb_physics_source source = car(all);
        hb_physics_place place;
        hb_physics *p = NULL;
        hb_error err = {0};
        assert_int_equal(hb_physics_new(&p, &source, &place, &err), -EINVAL);
        if (!strstr(err.text, mistake[i].text))
            fail_msg("'%s': '%s', expected '%s'", mistake[i].rate, err.text, mistake[i].text);
        if (strcmp(mistake[i].rate, "again") != 0) {
            assert_int_equal(place.line, 1);
            assert_string_equal(place.name, "v");
            assert_true(place.is_rate);
            assert_int_equal(place.column, mistake[i].column);
        }
        assert_null(p);
    }
}

static void test_whole_texts_are_checked(void **state)
{
    (void)state;
    static const char *const mistake[][2] = {
        {"x' = v\nv' = x", "the rate of state 'heading' is missing"},
        {"x' = v\nx' = v", "'x' is given twice"},
        {"mass' = 1", "'mass' has a rate but is not a state"},
        {"mass = 1", "'mass' is a parameter already"},
        {"sin = 1", "'sin' is a function already"},
        {"x v", "'=' is expected"},
        {"= 3", "a name of at most 31 letters"},
    };
    hb_physics *p = NULL;
    hb_error err = {0};

    for (size_t i = 0; i < sizeof mistake / sizeof *mistake; i++) {
        const hb_physics_source source = car(mistake[i][0]);
        assert_int_equal(hb_physics_new(&p, &source, NULL, &err), -EINVAL);
        if (!strstr(err.text, mistake[i][1]))
            fail_msg("'%s': '%s'", mistake[i][0], err.text);
    }
    char same[][HB_NAME_SIZE] = {"x", "v", "mass"};
    hb_physics_source source = car("x' = v\nv' = x\nmass' = 1");
    source.state = same;
    assert_int_equal(hb_physics_new(&p, &source, NULL, &err), -EINVAL);
    assert_string_equal(err.text, "'mass' is both a state and a parameter");
}

static void test_sizes_are_bounded(void **state)
{
    (void)state;
    char *text = calloc(1, 4 * HB_PHYSICS_TEXT);
    hb_physics *p = NULL;
    hb_error err = {0};

    /* parentheses */
    strcpy(text, "x' = v\nheading' = v\nv' = ");
    for (int i = 0; i < 2000; i++)
        strcat(text, "(");
    hb_physics_source source = car(text);
    assert_int_equal(hb_physics_new(&p, &source, NULL, &err), -EINVAL);
    assert_non_null(strstr(err.text, "within each other"));

    /* bytes */
    memset(text, ' ', 2 * HB_PHYSICS_TEXT);
    text[2 * HB_PHYSICS_TEXT] = 0;
    assert_int_equal(hb_physics_new(&p, &source, NULL, &err), -EINVAL);
    assert_non_null(strstr(err.text, "bytes: at most"));

    /* a few lines that would take more operations than there are atoms: each doubles the one before */
    strcpy(text, "x' = v\nheading' = v\nv' = q0\nq59 = x");
    for (int i = 58; i >= 0; i--)
        sprintf(text + strlen(text), "\nq%d = q%d * q%d + sin(q%d)", i, i + 1, i + 1, i + 1);
    source = car(text);
    p = compile(&source);
    assert_in_range(hb_physics_nominal(p)->rows, 1, 200);
    hb_physics_free(p);
    free(text);
}

/* A model with expressions is one block: copies and files have their own, and the same hash. */
static void test_models_carry_them(void **state)
{
    (void)state;
    const hb_physics_source source = quadrotor_expressions();
    hb_physics *p = compile(&source);
    hb_model shape = {.nx = 13,
                      .nu = 4,
                      .architecture = HB_SHARED,
                      .average = HB_AVERAGE_NOMINAL,
                      .integration = HB_COMBINED,
                      .substeps = 1,
                      .dt = 0.01,
                      .volume = 1,
                      .nominal = hb_physics_nominal(p)};
    hb_model *m = NULL, *copy = NULL, *loaded = NULL;
    char path[] = "/tmp/test_physics-XXXXXX";
    hb_error err = {0};

    memcpy(shape.nominal_parameter, shape.nominal->parameter_default, sizeof shape.nominal_parameter);
    assert_int_equal(hb_model_new(&m, &shape, NULL, &err), 0);
    hb_physics_free(p);
    memcpy(m->state_name, quadrotor_state, sizeof quadrotor_state);
    memcpy(m->control_name, quadrotor_control, sizeof quadrotor_control);
    hb_model_seal(m);
    assert_int_equal(hb_model_copy(&copy, m, false, NULL, &err), 0);
    close(mkstemp(path));
    if (hb_model_save(m, path, &err) || hb_model_load(&loaded, path, &err))
        fail_msg("%s", err.text);
    unlink(path);
    assert_true(copy->hash == m->hash && loaded->hash == m->hash);

    const hb_nominal *built_in = hb_nominal_find("quadrotor");
    const hb_model *each[] = {m, copy, loaded};
    hb_real *x = random_rows(13, 1), *u = random_rows(4, 2), *xdot = new_rows(13), *expected = new_rows(13);
    built_in->field(built_in, built_in->parameter_default, 16, x, u, expected, NULL);
    for (int k = 0; k < 3; k++) {
        hb_real *scratch = new_rows(each[k]->nominal->rows + 1);
        assert_string_equal(each[k]->nominal->parameter_name[6], "gravity");
        each[k]->nominal->field(each[k]->nominal, each[k]->nominal_parameter, 16, x, u, xdot, scratch);
        for (int i = 0; i < 13; i++)
            check_close(AT(xdot, i, 0), AT(expected, i, 0), fmax(1, fabs(AT(expected, i, 0))), 1e-6, "rate %d", i);
        free(scratch);
    }
    /* the hash tells other physics */
    hb_physics_source other = source;
    char text[sizeof quadrotor_text];
    strcpy(text, quadrotor_text);
    *strstr(text, "- gravity") = '+';
    other.text = text;
    shape.nominal = hb_physics_nominal(p = compile(&other));
    hb_model *changed = NULL;
    assert_int_equal(hb_model_new(&changed, &shape, NULL, &err), 0);
    memcpy(changed->state_name, quadrotor_state, sizeof quadrotor_state);
    memcpy(changed->control_name, quadrotor_control, sizeof quadrotor_control);
    hb_model_seal(changed);
    assert_true(changed->hash != m->hash);
    hb_physics_free(p);
    hb_model_free(changed);
    hb_model_free(m);
    hb_model_free(copy);
    hb_model_free(loaded);
    free(x);
    free(u);
    free(xdot);
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_those_of_c),
#ifdef HB_DOUBLE
        cmocka_unit_test(test_derivatives_equal_finite_differences),
#endif
        cmocka_unit_test(test_quadrotor_is_the_built_in_one),
        cmocka_unit_test(test_standstill_has_finite_derivatives),
        cmocka_unit_test(test_order_of_lines_is_free),
        cmocka_unit_test(test_mistakes_have_a_place),
        cmocka_unit_test(test_whole_texts_are_checked),
        cmocka_unit_test(test_sizes_are_bounded),
        cmocka_unit_test(test_models_carry_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
