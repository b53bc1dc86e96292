/* Windows that outlive the process: taken up again, refused, and left by a process that was killed. */
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "estimate/estimator_internal.h"
#include "models.h"
#include "vehicle.h"

static void *new_block(size_t size)
{
    void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(block != MAP_FAILED);
    return block;
}

/* single transitions that nothing came before say nothing about actuators */
static hb_estimator_settings told(void)
{
    hb_estimator_settings s = hb_estimator_defaults;

    s.actuators.identify = false;
    return s;
}

static void test_window_is_taken_up_again(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++) {
        hb_model *m = variant_model(v);
        hb_real *truth = new_coefficients(m, 5);
        hb_estimator_settings s = told();
        size_t count = (size_t)hb_model_ncoefficients(m);
        hb_error resumed = {0}, err;
        hb_estimator *e, *again;
        vehicle craft;

        s.window = 150 * m->dt; /* more than one batch */
        s.ridge = 0;
        size_t size = hb_estimator_memory_size(m, &s);
        void *block = new_block(size);
        hb_estimator *reference = new_estimator(m, &s);
        assert_int_equal(hb_estimator_new(&e, m, &s, block, &resumed, &err), 0);
        assert_int_equal(resumed.code, ENODATA);
        vehicle_start(&craft, m, truth, 1e-3, 1);
        for (int k = 0; k < 200; k++) {
            const hb_transition *t = vehicle_step(&craft);
            hb_estimator_push(e, t);
            hb_estimator_push(reference, t);
        }

        /* as after a kill: nothing is written at the end */
        assert_int_equal(hb_estimator_new(&again, m, &s, block, &resumed, &err), 0);
        assert_int_equal(resumed.code, 0);
        assert_non_null(strstr(resumed.text, "150"));
        const hb_health *a = hb_estimator_health(reference), *b = hb_estimator_health(again);
        assert_int_equal(a->samples, b->samples);
        assert_int_equal(a->status, b->status);
        assert_near(a->span_seconds, b->span_seconds, 1e-9);
        assert_true(b->version > a->version);

        /* it goes on like one that was never interrupted, but for the moments at which old entries are evaluated */
        for (int k = 0; k < 100; k++) {
            double *c = calloc(count + 1, sizeof *c);
            for (size_t i = 0; i < count; i++)
                c[i] = hb_estimator_coefficients(reference)[i];
            assert_coefficients(again, m, c, 1e-3, variant_name(v));
            free(c);
            const hb_transition *t = vehicle_step(&craft);
            hb_estimator_push(again, t);
            hb_estimator_push(reference, t);
        }
        vehicle_end(&craft);
        hb_estimator_free(e);
        hb_estimator_free(again);
        hb_estimator_free(reference);
        munmap(block, size);
        hb_model_free(m);
        free(truth);
    }
}

/* Most of what is known comes from before the window, and none of it is lost: coefficients, covariance, noise and
 * actuators are the same, and stay the same. */
static void test_all_that_was_believed_is_kept(void **state)
{
    (void)state;
    for (int v = 0; v < nvariants; v++)
        for (int identify = 0; identify < 2; identify++) {
            hb_model *m = variant_model(v);
            hb_real *truth = new_coefficients(m, 5);
            hb_estimator_settings s = told();
            int nc = hb_model_ncoefficients(m), per_state = m->shape == HB_PER_STATE;
            hb_error resumed = {0}, err;
            hb_estimator *e, *again;
            vehicle craft;

            s.window = 8 * m->dt; /* too short to find the coefficients in */
            s.actuators.identify = identify;
            size_t size = hb_estimator_memory_size(m, &s);
            void *block = new_block(size), *copy = new_block(size);
            assert_int_equal(hb_estimator_new(&e, m, &s, block, NULL, &err), 0);
            vehicle_start(&craft, m, truth, 1e-3, 1);
            for (int k = 0; k < 203; k++)
                hb_estimator_push(e, vehicle_step(&craft));
            while (hb_estimator_work(e))
                ;
            memcpy(copy, block, size); /* as after a kill */
            assert_int_equal(hb_estimator_new(&again, m, &s, copy, &resumed, &err), 0);
            assert_int_equal(resumed.code, 0);
            if (!strstr(resumed.text, "8 transitions taken up again, with what was known before them"))
                fail_msg("%s: %s", variant_name(v), resumed.text);
            for (int more = 0; more < 40; more++) {
                /* later, the moments at which old entries are evaluated differ */
                double within = more == 0 ? 1e-6 : 1e-3;
                for (int i = 0; i < nc; i++)
                    assert_near(hb_estimator_coefficients(again)[i], hb_estimator_coefficients(e)[i],
                                within * (1 + fabs((double)hb_estimator_coefficients(e)[i])));
                for (int i = 0; i < m->nb * m->nb * (per_state ? m->nx : 1); i++)
                    assert_near(hb_estimator_covariance(again)[i], hb_estimator_covariance(e)[i],
                                (more == 0 ? 1e-6 : 0.05) *
                                        (fabs(hb_estimator_covariance(e)[i]) + hb_estimator_covariance(e)[0]) +
                                    1e-9);
                for (int d = 0; d < m->nx; d++)
                    assert_near(hb_estimator_noise(again)[d], hb_estimator_noise(e)[d],
                                (more == 0 ? 1e-9 : 0.05) * hb_estimator_noise(e)[d]);
                for (int i = 0; i < m->nu; i++)
                    assert_near(hb_estimator_actuators(again)->lag[i], hb_estimator_actuators(e)->lag[i],
                                more == 0 ? 0 : 2e-3);
                const hb_transition *t = vehicle_step(&craft);
                hb_estimator_push(again, t);
                hb_estimator_push(e, t);
            }
            hb_estimator_free(again);
            hb_estimator_free(e);
            vehicle_end(&craft);
            munmap(block, size);
            munmap(copy, size);
            hb_model_free(m);
            free(truth);
        }
}

/* Somebody's lies were believed, a file was tampered with: what cannot be is left out, and the window alone is taken
 * up. */
static void test_poison_does_not_come_back(void **state)
{
    (void)state;
    static const char *const says[] = {"explain the newest", "cannot be",    "cannot be",
                                       "others now",         "another time", "not kept"};

    for (int kind = 0; kind < 6; kind++) {
        hb_model *m = variant_model(0);
        hb_real *truth = new_coefficients(m, 5);
        hb_estimator_settings s = told();
        hb_error resumed = {0}, err;
        hb_estimator *e;
        vehicle craft;

        s.window = 60 * m->dt;
        s.ridge = 0;
        size_t size = hb_estimator_memory_size(m, &s);
        void *block = new_block(size);
        assert_int_equal(hb_estimator_new(&e, m, &s, block, NULL, &err), 0);
        vehicle_start(&craft, m, truth, 1e-3, 1);
        for (int k = 0; k < 150; k++)
            hb_estimator_push(e, vehicle_step(&craft));
        hb_belief *p = &e->belief;
        hb_run *run = &p->run[(int)*p->main_run];
        if (kind == 0) /* it is sure of other coefficients */
            for (int d = 0; d < p->nx; d++)
                for (int i = 0; i < p->nb; i++) {
                    double *sum = run->sum + (size_t)d * (size_t)((p->nb + 1) * (p->nb + 2) / 2);
                    sum[i * (i + 3) / 2] += 1e6;
                    sum[p->nb * (p->nb + 1) / 2 + i] += 2e7;
                }
        if (kind == 1)
            run->noise[0] = -1;
        if (kind == 2)
            run->sum[0] = -1e12;
        if (kind == 3)
            e->actuators.lag[0] = 0.05;
        if (kind == 4)
            e->window.next += 20;
        hb_belief_keep(e);
        if (kind == 5) /* a slot that was being written, and one that is damaged */
            for (int slot = 0; slot < 2; slot++)
                hb_window_begin_belief(&e->window)[0]++, e->window.beliefs++;
        hb_estimator_free(e);

        assert_int_equal(hb_estimator_new(&e, m, &s, block, &resumed, &err), 0);
        assert_int_equal(resumed.code, 0);
        assert_non_null(strstr(resumed.text, "60 transitions taken up again, without"));
        if (!strstr(resumed.text, says[kind]))
            fail_msg("kind %d: %s", kind, resumed.text);
        assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_OK);
        for (int i = 0; i < hb_model_ncoefficients(m); i++)
            assert_near(hb_estimator_coefficients(e)[i], truth[i], 0.1);
        /* and the next restart has a belief again */
        hb_estimator_free(e);
        assert_int_equal(hb_estimator_new(&e, m, &s, block, &resumed, &err), 0);
        assert_non_null(strstr(resumed.text, ", with what was known"));
        hb_estimator_free(e);
        vehicle_end(&craft);
        munmap(block, size);
        hb_model_free(m);
        free(truth);
    }
}

/* A window of an earlier version is not taken up, and the reason names both. */
static void test_windows_of_other_versions(void **state)
{
    (void)state;
    hb_model *m = variant_model(0);
    hb_estimator_settings s = told();
    hb_error resumed = {0}, err;
    hb_estimator *e;
    size_t size = hb_estimator_memory_size(m, &s);
    void *block = new_block(size);

    assert_int_equal(hb_estimator_new(&e, m, &s, block, NULL, &err), 0);
    hb_estimator_free(e);
    ((uint32_t *)block)[2] = 2;
    assert_true(hb_window_is_foreign(block, size, &err));
    assert_int_equal(hb_estimator_new(&e, m, &s, block, &resumed, &err), 0);
    assert_int_equal(resumed.code, EINVAL);
    assert_non_null(strstr(resumed.text, "another version of hilbertd (format 2, this one has 7)"));
    assert_false(hb_window_is_foreign(block, size, &err));
    hb_estimator_free(e);
    munmap(block, size);
    hb_model_free(m);
}

static void test_foreign_windows_are_not_taken_up(void **state)
{
    (void)state;
    hb_model *m = variant_model(0), *other = variant_model(0);
    hb_estimator_settings s = told();
    hb_error resumed, err;
    hb_estimator *e;
    vehicle v;

    other->parameter[0] += 1;
    hb_model_seal(other);
    s.window = 60 * m->dt;
    size_t size = hb_estimator_memory_size(m, &s);
    void *block = new_block(size);
    assert_int_equal(hb_estimator_new(&e, m, &s, block, NULL, &err), 0);
    vehicle_start(&v, m, NULL, 0.01, 1);
    vehicle_fly(&v, e, 50);
    hb_estimator_free(e);

    assert_int_equal(hb_estimator_new(&e, other, &s, block, &resumed, &err), 0);
    assert_int_equal(resumed.code, EINVAL);
    assert_non_null(strstr(resumed.text, "belongs to model"));
    assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_WARMING_UP);
    assert_int_equal(hb_estimator_health(e)->samples, 0);
    hb_estimator_free(e);

    assert_int_equal(hb_estimator_new(&e, m, &s, (char *)block + 8, &resumed, &err), -EINVAL);
    assert_non_null(strstr(err.text, "aligned"));
    munmap(block, size);
    vehicle_end(&v);
    hb_model_free(m);
    hb_model_free(other);
}

/* Coefficients that were estimated survive a window that has become too short to find them again. */
static void test_coefficients_survive_a_short_window(void **state)
{
    (void)state;
    hb_model *m = variant_model_sized(8, 5, 5);
    hb_real *truth = new_coefficients(m, 5), kept[64];
    hb_estimator_settings s = told();
    hb_error resumed, err;
    hb_estimator *e;
    vehicle v;
    size_t count = (size_t)hb_model_ncoefficients(m);

    s.window = 50 * m->dt;
    s.posterior = false; /* whose memory would know better */
    s.ridge = 0;
    s.detect_changes = false;
    size_t size = hb_estimator_memory_size(m, &s);
    void *block = new_block(size);
    assert_int_equal(hb_estimator_new(&e, m, &s, block, NULL, &err), 0);
    vehicle_start(&v, m, truth, 0.01, 1);
    vehicle_fly(&v, e, 50);
    const hb_transition *t = vehicle_step(&v);
    for (int k = 0; k < 60; k++)
        hb_estimator_push(e, t);
    assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_SINGULAR);
    memcpy(kept, hb_estimator_coefficients(e), count * sizeof *kept);
    hb_estimator_free(e);

    assert_int_equal(hb_estimator_new(&e, m, &s, block, &resumed, &err), 0);
    assert_int_equal(resumed.code, 0);
    assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_SINGULAR);
    assert_memory_equal(kept, hb_estimator_coefficients(e), count * sizeof *kept);
    hb_estimator_free(e);
    munmap(block, size);
    vehicle_end(&v);
    hb_model_free(m);
    free(truth);
}

/* A process that pushes without end is killed, again and again, and the next one goes on with its window. */
static void test_kills_at_random_moments(void **state)
{
    (void)state;
    hb_model *m = variant_model(0);
    hb_real *truth = new_coefficients(m, 5);
    hb_estimator_settings s = told();
    hb_error resumed = {0}, err;
    hb_estimator *e;
    int taken_up = 0;

    s.window = 30 * m->dt;
    s.ridge = 0;
    size_t size = hb_estimator_memory_size(m, &s);
    void *block = new_block(size);
    for (int round = 0; round < 40; round++) {
        int ready[2];
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            vehicle v;
            vehicle_start(&v, m, truth, 0.01, (uint64_t)round);
            if (hb_estimator_new(&e, m, &s, block, NULL, &err))
                _exit(1);
            for (int k = 0;; k++) {
                hb_estimator_push(e, vehicle_step(&v));
                if (k == 50 && write(ready[1], "", 1) != 1)
                    _exit(1);
            }
        }
        close(ready[1]);
        char byte;
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        usleep((useconds_t)(hb_random_bits((hb_random_key){8, 0}, (uint64_t)round) % 3000));
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));

        assert_int_equal(hb_estimator_new(&e, m, &s, block, &resumed, &err), 0);
        assert_int_equal(resumed.code, 0);
        assert_true(hb_estimator_health(e)->samples >= 30 - 1);
        assert_int_equal(hb_estimator_health(e)->status, HB_ESTIMATE_OK);
        for (int i = 0; i < hb_model_ncoefficients(m); i++)
            assert_near(hb_estimator_coefficients(e)[i], truth[i], 0.5);
        taken_up++;
        hb_estimator_free(e);
    }
    assert_int_equal(taken_up, 40);
    munmap(block, size);
    hb_model_free(m);
    free(truth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window_is_taken_up_again),
        cmocka_unit_test(test_all_that_was_believed_is_kept),
        cmocka_unit_test(test_poison_does_not_come_back),
        cmocka_unit_test(test_windows_of_other_versions),
        cmocka_unit_test(test_foreign_windows_are_not_taken_up),
        cmocka_unit_test(test_coefficients_survive_a_short_window),
        cmocka_unit_test(test_kills_at_random_moments),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
