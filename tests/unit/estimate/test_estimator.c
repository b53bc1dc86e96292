/* The estimator without its posterior: the window alone, against brute force. */
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "models.h"
#include "vehicle.h"

/* The brute force: all transitions of the past with their rows, summed up from nothing. */
typedef struct past {
    const hb_model *m;
    int capacity, count;
    double *row;   /* capacity x nx x (nb + 1): G, then r */
    double *state; /* capacity x (nx + nu + nx + 1): z, u, dz, dt as the estimator sees them */
} past;

static double *past_row(const past *p, int number)
{
    return p->row + (size_t)(number % p->capacity) * (size_t)(p->m->nx * (p->m->nb + 1));
}

static double *past_state(const past *p, int number)
{
    return p->state + (size_t)(number % p->capacity) * (size_t)(2 * p->m->nx + p->m->nu + 1);
}

static void past_start(past *p, const hb_model *m, int capacity)
{
    *p = (past){.m = m, .capacity = capacity};
    p->row = calloc((size_t)(capacity * m->nx * (m->nb + 1)), sizeof(double));
    p->state = calloc((size_t)(capacity * (2 * m->nx + m->nu + 1)), sizeof(double));
}

static void past_end(past *p)
{
    free(p->row);
    free(p->state);
}

/* evaluates an entry's rows with stage points along `along` */
static void past_evaluate(past *p, int number, vehicle *v, const hb_real *along)
{
    const hb_model *m = p->m;
    const double *s = past_state(p, number), *dz = s + m->nx + m->nu;
    const hb_real *g = vehicle_increments(v, s, s + m->nx, dz[m->nx], along);
    double *row = past_row(p, number);

    for (int d = 0; d < m->nx; d++) {
        for (int i = 0; i < m->nb; i++)
            row[d * (m->nb + 1) + i] = g[(i * m->nx + d) * HB_STRIDE];
        row[d * (m->nb + 1) + m->nb] = dz[d] - g[(m->nb * m->nx + d) * HB_STRIDE];
    }
}

static void past_push(past *p, const hb_transition *t, vehicle *v, const hb_real *along)
{
    const hb_model *m = p->m;
    double *s = past_state(p, p->count);

    for (int i = 0; i < m->nx; i++) {
        s[i] = (t->x[i] - m->state_mean[i]) / m->state_std[i];
        s[m->nx + m->nu + i] = (t->x_next[i] - t->x[i]) / m->state_std[i];
    }
    for (int i = 0; i < m->nu; i++)
        s[m->nx + i] = (t->u[i] - m->control_mean[i]) / m->control_std[i];
    s[2 * m->nx + m->nu] = t->dt;
    past_evaluate(p, p->count++, v, along);
}

/* coefficients by elimination, over the newest `window` entries */
static void past_solve(const past *p, int window, double forgetting, hb_method method, double *c)
{
    const hb_model *m = p->m;
    int nb = m->nb, n = nb + 1, nproblems = m->shape == HB_PER_STATE ? m->nx : 1;
    double *a = malloc((size_t)(nb * n + 1) * sizeof *a);

    for (int problem = 0; problem < nproblems; problem++) {
        double weights = 0;
        memset(a, 0, (size_t)(nb * n) * sizeof *a);
        for (int age = 0; age < window && age < p->count; age++) {
            double w = pow(forgetting, age);
            weights += w;
            for (int d = 0; d < m->nx; d++) {
                const double *x = past_row(p, p->count - 1 - age) + d * n;
                for (int i = 0; i < nb && (nproblems == 1 || d == problem); i++)
                    for (int j = 0; j < n; j++)
                        a[i * n + j] += w * x[i] * x[j];
            }
        }
        for (int i = 0; i < nb; i++)
            for (int j = 0; j < n; j++)
                a[i * n + j] /= weights;
        if (method == HB_LEAST_SQUARES) {
            for (int i = 0; i < nb; i++)
                a[i * n + i] += m->ridge;
            eliminate(nb, n, a);
        }
        for (int i = 0; i < nb; i++)
            c[nproblems == 1 ? i : i * m->nx + problem] = a[i * n + nb] * (method == HB_INNER_PRODUCT ? m->volume : 1);
    }
    free(a);
}

/* single precision of the coefficients that are handed out */
static double handed_out(void)
{
    return sizeof(hb_real) == sizeof(float) ? 1e-7 : 1e-9;
}

/* a batch goes another way through the networks than one sample alone, with other rounding */
static double of_a_batch(void)
{
    return sizeof(hb_real) == sizeof(float) ? 1e-6 : 1e-9;
}

/* the window alone: two thousand transitions, and twenty-five to warm up */
static hb_estimator_settings plain(const hb_model *m)
{
    hb_estimator_settings s = hb_estimator_defaults;

    s.posterior = false;
    s.window = 2000 * m->dt;
    s.warmup = 25 * m->dt;
    return s;
}

/* ---- tests ---- */

static void test_golden_coefficients(void **state)
{
    (void)state;
    for (int file = 0; golden_names[file]; file++) {
        golden *g = golden_open(golden_names[file]);
        const hb_model *m = g->model;
        int p = golden_size(g, "in.z", 0);
        const double *z = golden_get(g, "in.z"), *z_next = golden_get(g, "in.z_next");
        const double *u = m->nu ? golden_get(g, "in.u") : NULL;
        hb_estimator_settings s = plain(m);
        const int warmup = p;
        s.warmup = warmup * m->dt;
        s.method = m->method;
        hb_estimator *e = new_estimator(m, &s);

        for (int j = 0; j < p; j++) {
            transition t;
            assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_WARMING_UP);
            hb_estimator_push(
                e, from_normalised(&t, m, z + j * m->nx, u ? u + j * m->nu : NULL, z_next + j * m->nx, m->dt));
        }
        assert_int_not_equal(hb_estimator_health(e)->status, HB_ESTIMATE_WARMING_UP);
        assert_coefficients(e, m, golden_get(g, "out.coefficients"), 1e-5, g->name);
        hb_estimator_free(e);
        golden_close(g);
    }
}

/* Every kind of model, both methods, with and without forgetting, one by one and several together, over several
 * revolutions. Each entry is evaluated along the coefficients that were in use when it came. */
static void test_window_is_that_of_brute_force(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++)
        for (int option = 0; option < 4; option++) {
            int together = option == 3 ? 5 : 1;
            hb_model *m = variant_model(v);
            hb_estimator_settings s = plain(m);
            hb_real *truth = new_coefficients(m, 5);
            double *c = calloc((size_t)hb_model_ncoefficients(m) + 1, sizeof *c);
            vehicle craft;
            past all;

            if (option == 2) {
                m->method = HB_INNER_PRODUCT;
                m->volume = 1.7;
                hb_model_seal(m);
            }
            const int window = 31;
            s.window = window * m->dt;
            const int warmup = 10;
            s.warmup = warmup * m->dt;
            s.method = m->method;
            s.forgetting = option == 1 ? 0.95 : 1;
            s.detect_changes = false;
            hb_estimator *e = new_estimator(m, &s);
            vehicle_start(&craft, m, truth, 0.01, 1);
            past_start(&all, m, window);
            for (int k = 0; k < 200; k++) {
                const hb_transition *t = vehicle_step(&craft);
                past_push(&all, t, &craft, hb_estimator_coefficients(e));
                assert_true(hb_estimator_stage(e, t));
                if (k % together < together - 1)
                    continue;
                hb_estimator_settle(e);
                if (k < warmup - 1) {
                    assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_WARMING_UP);
                    assert_coefficients(e, m, c, 0, "warming up");
                } else if (k % 7 == 0 || k == warmup - 1) {
                    past_solve(&all, window, s.forgetting, s.method, c);
                    assert_coefficients(e, m, c, together > 1 ? of_a_batch() : handed_out(), variant_name(v));
                    memset(c, 0, (size_t)hb_model_ncoefficients(m) * sizeof *c);
                }
                assert_int_equal(hb_estimator_health(e)->samples, k + 1 < window ? k + 1 : window);
            }
            vehicle_end(&craft);
            past_end(&all);
            hb_estimator_free(e);
            hb_model_free(m);
            free(truth);
            free(c);
        }
}

/* Without noise or ridge, the coefficients that made the data come out: the fixed point of re-evaluation. */
static void test_coefficients_of_the_vehicle_are_found(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++) {
        hb_model *m = variant_model(v);
        hb_estimator_settings s = plain(m);
        hb_real *truth = new_coefficients(m, 5);
        double *c = calloc((size_t)hb_model_ncoefficients(m) + 1, sizeof *c);
        vehicle craft;

        const int window = 100;
        s.window = window * m->dt;
        s.ridge = 0;
        hb_estimator *e = new_estimator(m, &s);
        vehicle_start(&craft, m, truth, 0, 1);
        vehicle_fly(&craft, e, 800);
        for (int i = 0; i < hb_model_ncoefficients(m); i++)
            c[i] = truth[i];
        assert_coefficients(e, m, c, sizeof(hb_real) == sizeof(float) ? 2e-4 : 1e-9, variant_name(v));
        assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_OK);
        assert_int_equal(hb_estimator_health(e)->changes, 0);
        vehicle_end(&craft);
        hb_estimator_free(e);
        hb_model_free(m);
        free(truth);
        free(c);
    }
}

static void test_problems_solved_in_turn_are_all_solved(void **state)
{
    (void)state;
    for (int every = 1; every < 9; every++)
        for (int v = 8; v < 10; v++) {
            hb_model *m = variant_model(v);
            hb_estimator_settings s = plain(m);
            vehicle a;
            double *c = calloc((size_t)hb_model_ncoefficients(m) + 1, sizeof *c);
            past all;

            const int window = 50;
            s.window = window * m->dt;
            s.detect_changes = false;
            s.solve_every = every;
            hb_estimator *e = new_estimator(m, &s);
            vehicle_start(&a, m, NULL, 0.1, 3);
            past_start(&all, m, window);
            for (int k = 0; k < 70; k++) {
                const hb_transition *t = vehicle_step(&a);
                past_push(&all, t, &a, hb_estimator_coefficients(e));
                hb_estimator_push(e, t);
            }
            /* the same transition over and over: after enough of them every problem has seen the same window */
            const hb_transition *t = vehicle_step(&a);
            for (int k = 0; k < 50 + 2 * every; k++) {
                past_push(&all, t, &a, hb_estimator_coefficients(e));
                hb_estimator_push(e, t);
            }
            past_solve(&all, window, 1, s.method, c);
            assert_coefficients(e, m, c, handed_out(), variant_name(v));
            vehicle_end(&a);
            past_end(&all);
            hb_estimator_free(e);
            hb_model_free(m);
            free(c);
        }
}

static void test_nonsense_is_rejected_and_changes_nothing(void **state)
{
    (void)state;
    hb_model *m = variant_model(0);
    hb_estimator_settings s = plain(m);
    hb_real kept[64];
    vehicle v;

    const int window = 40;
    s.window = window * m->dt;
    hb_estimator *e = new_estimator(m, &s);
    vehicle_start(&v, m, NULL, 0.1, 1);
    vehicle_fly(&v, e, 60);
    memcpy(kept, hb_estimator_coefficients(e), (size_t)hb_model_ncoefficients(m) * sizeof *kept);
    hb_health before = *hb_estimator_health(e);

    const double bad[] = {NAN, INFINITY, -INFINITY, 1e300};
    uint64_t rejected = 0;
    for (int b = 0; b < 4; b++)
        for (int place = 0; place < 2 * m->nx + m->nu + 1; place++) {
            transition t = v.t;
            t.t = (hb_transition){.x = t.x, .u = t.u, .x_next = t.x_next, .dt = v.t.t.dt};
            if (place < m->nx)
                t.x[place] = bad[b];
            else if (place < 2 * m->nx)
                t.x_next[place - m->nx] = bad[b];
            else if (place < 2 * m->nx + m->nu)
                t.u[place - 2 * m->nx] = bad[b];
            else
                t.t.dt = bad[b];
            if (sizeof(hb_real) == sizeof(double) && b == 3)
                continue; /* large, but a number there */
            hb_estimator_push(e, &t.t);
            assert_int_equal(hb_estimator_health(e)->rejected, ++rejected);
        }
    transition t = v.t;
    t.t = (hb_transition){.x = t.x, .u = t.u, .x_next = t.x_next};
    hb_estimator_push(e, &t.t);
    t.t.dt = -0.1;
    hb_estimator_push(e, &t.t);
    assert_int_equal(hb_estimator_health(e)->rejected, rejected + 2);

    before.rejected = rejected + 2;
    assert_memory_equal(&before, hb_estimator_health(e), sizeof before);
    assert_memory_equal(kept, hb_estimator_coefficients(e), (size_t)hb_model_ncoefficients(m) * sizeof *kept);
    vehicle_end(&v);
    hb_estimator_free(e);
    hb_model_free(m);
}

/* A vehicle that stands still says nothing about most coefficients: those of before are kept. */
static void test_singular_windows_keep_the_last_good_coefficients(void **state)
{
    (void)state;
    for (int v = 8; v < 10; v++) {
        hb_model *m = variant_model_sized(v, 5, 5); /* more functions than a transition has states */
        hb_estimator_settings s = plain(m);
        hb_real *truth = new_coefficients(m, 5), kept[64];
        vehicle craft;
        uint64_t version = 0;
        int singular = 0;

        const int window = 40;
        s.window = window * m->dt;
        s.ridge = 0;
        s.detect_changes = false;
        hb_estimator *e = new_estimator(m, &s);
        vehicle_start(&craft, m, truth, 0, 1);
        vehicle_fly(&craft, e, 60);
        assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_OK);
        const hb_transition *t = vehicle_step(&craft);
        for (int k = 0; k < 100; k++) {
            hb_estimator_push(e, t);
            if (hb_estimator_health(e)->status != HB_ESTIMATE_SINGULAR)
                continue;
            if (singular++ == 0) {
                memcpy(kept, hb_estimator_coefficients(e), (size_t)hb_model_ncoefficients(m) * sizeof *kept);
                version = hb_estimator_health(e)->version;
            }
            assert_true(isinf(hb_estimator_health(e)->condition));
        }
        /* from the moment on at which the window holds nothing but that transition */
        assert_true(singular > 50);
        assert_int_equal(hb_estimator_health(e)->version, version);
        assert_memory_equal(kept, hb_estimator_coefficients(e), (size_t)hb_model_ncoefficients(m) * sizeof *kept);

        /* and it recovers */
        vehicle_fly(&craft, e, 60);
        assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_OK);
        assert_true(hb_estimator_health(e)->version > version);
        vehicle_end(&craft);
        hb_estimator_free(e);
        hb_model_free(m);
        free(truth);
    }
}

/* One basis function that is hardly excited: what would explain the residual is no number any more, unless numbers are
 * doubles. */
static void test_coefficients_stay_numbers(void **state)
{
    (void)state;
    hb_model *m = variant_model_sized(8, 1, 5);
    hb_estimator_settings s = plain(m);
    vehicle v;

    /* weights and biases of its last layer */
    size_t last = (size_t)(m->nx * (m->basis.width[m->basis.nlayers - 1] + 1));
    for (size_t i = 0; i < last; i++)
        m->parameter[m->basis.nparameters - last + i] *= (hb_real)1e-37;
    hb_model_seal(m);
    s.ridge = 0;
    hb_estimator *e = new_estimator(m, &s);
    vehicle_start(&v, m, NULL, 50, 1);
    for (int k = 0; k < 60; k++) {
        hb_estimator_push(e, vehicle_step(&v));
        assert_true(isfinite(hb_estimator_coefficients(e)[0]));
    }
    assert_int_equal(hb_estimator_health(e)->status == HB_ESTIMATE_SINGULAR, sizeof(hb_real) == sizeof(float));
    vehicle_end(&v);
    hb_estimator_free(e);
    hb_model_free(m);
}

/* Health against its definitions, computed from the transitions. */
static void test_health_says_what_it_should(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++) {
        hb_model *m = variant_model(v);
        if (m->nb == 0) {
            hb_model_free(m);
            continue;
        }
        int nb = m->nb, n = nb + 1;
        hb_estimator_settings s = plain(m);
        hb_real *truth = new_coefficients(m, 5);
        double *c = calloc((size_t)hb_model_ncoefficients(m), sizeof *c), recent[10] = {0}, seconds = 0;
        vehicle craft;
        past all;

        const int window = 50;
        s.window = window * m->dt;
        const int warmup = 20;
        s.warmup = warmup * m->dt;
        s.detect_changes = false;
        hb_estimator *e = new_estimator(m, &s);
        vehicle_start(&craft, m, truth, 0.05, 1);
        past_start(&all, m, window);
        for (int k = 0; k < 90; k++) {
            const hb_transition *t = vehicle_step(&craft);
            const hb_real *before = hb_estimator_coefficients(e);
            past_push(&all, t, &craft, before);
            const double *row = past_row(&all, all.count - 1);
            recent[k % 10] = 0;
            for (int d = 0; d < m->nx; d++) {
                double error = row[d * n + nb];
                for (int i = 0; i < nb; i++)
                    error -= row[d * n + i] * coefficient_at(m, before, i, d);
                recent[k % 10] += error * error / m->nx;
            }
            hb_estimator_push(e, t);
        }
        const hb_health *h = hb_estimator_health(e);
        double sum = 0;
        for (int i = 0; i < 10; i++)
            sum += recent[i] / 10;
        assert_near(h->one_step_error / sqrt(sum), 1, 1e-6);

        /* over the window, with coefficients of double precision */
        double unexplained = 0, residual = 0, least = INFINITY, most = 0;
        past_solve(&all, window, 1, s.method, c);
        for (int k = 0; k < window; k++) {
            const double *row = past_row(&all, k);
            seconds += past_state(&all, k)[2 * m->nx + m->nu];
            for (int d = 0; d < m->nx; d++) {
                double error = row[d * n + nb];
                residual += error * error;
                for (int i = 0; i < nb; i++)
                    error -= row[d * n + i] * c[m->shape == HB_PER_STATE ? i * m->nx + d : i];
                unexplained += error * error;
            }
        }
        for (int i = 0; i < nb; i++)
            for (int d = 0; d < (m->shape == HB_PER_STATE ? m->nx : 1); d++) {
                double energy = 0;
                for (int k = 0; k < window; k++)
                    for (int dd = 0; dd < m->nx; dd++)
                        if (m->shape != HB_PER_STATE || dd == d)
                            energy += pow(past_row(&all, k)[dd * n + i], 2) / window;
                least = fmin(least, energy);
                most = fmax(most, energy);
            }
        assert_near(h->expected_error / sqrt(unexplained / window / m->nx), 1, 1e-6);
        assert_near(h->out_of_span / (unexplained / residual), 1, 1e-6);
        assert_near(h->excitation / (least / most), 1, 1e-6);
        assert_near(h->span_seconds, seconds, 1e-9);
        assert_true(h->condition >= 1 && isfinite(h->condition));
        assert_int_equal(h->samples, window);
        assert_int_equal(h->version, 90 - warmup + 1);
        vehicle_end(&craft);
        past_end(&all);
        hb_estimator_free(e);
        hb_model_free(m);
        free(truth);
        free(c);
    }
}

static void test_foreign_vehicle_is_out_of_span_and_a_familiar_one_is_not(void **state)
{
    (void)state;
    hb_model *m = variant_model(0), *other = variant_model_sized(0, 3, 9);
    hb_real *truth = new_coefficients(m, 5);
    hb_estimator_settings s = plain(m);
    vehicle v;

    const int window = 100;
    s.window = window * m->dt;
    s.detect_changes = false;
    hb_estimator *e = new_estimator(m, &s);
    vehicle_start(&v, m, truth, 1e-3, 1);
    vehicle_fly(&v, e, 120);
    assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_OK);
    vehicle_end(&v);

    /* the average vehicle: what is left is noise, which no coefficients explain, but the model predicts well */
    hb_estimator_reset(e);
    vehicle_start(&v, m, NULL, 1e-3, 2);
    vehicle_fly(&v, e, 120);
    assert_true(hb_estimator_health(e)->out_of_span > s.span_threshold);
    assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_OK);
    vehicle_end(&v);

    /* a vehicle at rest, since no time passes: what is left is rounding, and there is no motion to compare it with */
    hb_estimator_reset(e);
    vehicle_start(&v, m, NULL, 0, 2);
    for (int k = 0; k < 120; k++) {
        transition p;
        vehicle_step(&v);
        for (int i = 0; i < m->nx; i++)
            v.next[i] = v.state[i] + 2e-5 * vehicle_draw(&v);
        hb_estimator_push(e, from_normalised(&p, m, v.state, v.control, v.next, 1e-7));
    }
    assert_true(hb_estimator_health(e)->out_of_span > s.span_threshold);
    assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_OK);
    vehicle_end(&v);

    /* another family of dynamics */
    hb_estimator_reset(e);
    vehicle_start(&v, other, truth, 1e-3, 3);
    vehicle_fly(&v, e, 120);
    assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_OUT_OF_SPAN);
    vehicle_end(&v);
    hb_estimator_free(e);
    hb_model_free(m);
    hb_model_free(other);
    free(truth);
}

static void test_reset_and_seed(void **state)
{
    (void)state;
    hb_model *m = variant_model(0);
    hb_real *truth = new_coefficients(m, 5);
    hb_estimator_settings s = plain(m);
    size_t size = (size_t)hb_model_ncoefficients(m) * sizeof *truth;
    hb_real zero[64] = {0}, first[64];
    vehicle v;

    const int window = 40;
    s.window = window * m->dt;
    hb_estimator *e = new_estimator(m, &s);
    for (int round = 0; round < 2; round++) {
        vehicle_start(&v, m, truth, 0.01, 1);
        vehicle_fly(&v, e, 60);
        if (round == 0)
            memcpy(first, hb_estimator_coefficients(e), size);
        else
            assert_memory_equal(first, hb_estimator_coefficients(e), size);
        uint64_t version = hb_estimator_health(e)->version;
        hb_estimator_reset(e);
        assert_memory_equal(zero, hb_estimator_coefficients(e), size);
        assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_WARMING_UP);
        assert_int_equal(hb_estimator_health(e)->samples, 0);
        assert_true(hb_estimator_health(e)->version > version);
        vehicle_end(&v);
    }

    /* seeded coefficients last until the window is warm */
    hb_estimator_seed(e, truth);
    vehicle_start(&v, m, NULL, 0.01, 1);
    for (int k = 0; k < 25; k++) {
        assert_memory_equal(truth, hb_estimator_coefficients(e), size);
        assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_WARMING_UP);
        hb_estimator_push(e, vehicle_step(&v));
    }
    assert_memory_not_equal(truth, hb_estimator_coefficients(e), size);
    memcpy(first, hb_estimator_coefficients(e), size);
    hb_estimator_seed(e, truth);
    assert_memory_equal(first, hb_estimator_coefficients(e), size);
    vehicle_end(&v);
    hb_estimator_free(e);
    hb_model_free(m);
    free(truth);
}

static void test_settings_are_checked(void **state)
{
    (void)state;
    hb_model *m = variant_model(0);
    hb_error err;
    hb_estimator *e = NULL;

#define assert_refused(field, value, word)                                                                             \
    do {                                                                                                               \
        hb_estimator_settings s = plain(m);                                                                            \
        s.field = value;                                                                                               \
        assert_int_equal(hb_estimator_new(&e, m, &s, NULL, NULL, &err), -EINVAL);                                      \
        assert_non_null(strstr(err.text, word));                                                                       \
        assert_null(e);                                                                                                \
    } while (0)
    assert_refused(window, 0, "window: 0");
    assert_refused(window, 1001, "window: 1001");
    assert_refused(warmup, -2, "warmup: -2");
    assert_refused(warmup, 999, "warmup: 999");
    assert_refused(plausible, 0, "plausible: 0");
    assert_refused(actuators.lag, 2, "actuators.lag: 2");
    assert_refused(actuators.delay, NAN, "actuators.delay");
    assert_refused(actuators.max_lag, -1, "actuators.max_lag: -1");
    assert_refused(solve_every, 0, "solve_every: 0");
    assert_refused(forgetting, 0, "forgetting: 0");
    assert_refused(forgetting, 1.5, "forgetting: 1.5");
    assert_refused(ridge, NAN, "ridge");
    assert_refused(change_interval, 0, "change_interval");
    assert_refused(outlier_share, 0.6, "outlier_share: 0.6");
    assert_refused(span_threshold, NAN, "span_threshold");
    assert_refused(method, HB_INNER_PRODUCT, "inner_product");
    hb_estimator_free(NULL);
    hb_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_coefficients),
        cmocka_unit_test(test_window_is_that_of_brute_force),
        cmocka_unit_test(test_coefficients_of_the_vehicle_are_found),
        cmocka_unit_test(test_problems_solved_in_turn_are_all_solved),
        cmocka_unit_test(test_nonsense_is_rejected_and_changes_nothing),
        cmocka_unit_test(test_singular_windows_keep_the_last_good_coefficients),
        cmocka_unit_test(test_coefficients_stay_numbers),
        cmocka_unit_test(test_health_says_what_it_should),
        cmocka_unit_test(test_foreign_vehicle_is_out_of_span_and_a_familiar_one_is_not),
        cmocka_unit_test(test_reset_and_seed),
        cmocka_unit_test(test_settings_are_checked),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
