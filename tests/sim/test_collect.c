/* Collected data: the same bytes for any number of threads, and transitions that the plant repeats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit/check.h"
#include "sim/collect.h"
#include "data/dataset.h"

static char folder[] = "/tmp/test_collect.XXXXXX";

static hb_collect collection(const hb_plant_type *plant)
{
    hb_error err = {0};
    hb_collect c = {
        .plant = plant,
        .policy = hb_policy_find(NULL, plant, &err),
        .functions = 7,
        .episodes = 3,
        .steps = 40,
        .threads = 1,
        .seed = 11,
        .dt = plant->dt,
        .irregular = plant->irregular,
    };
    for (int i = 0; i < plant->nparameters; i++) {
        const hb_plant_parameter *p = &plant->parameter[i];
        c.low[i] = p->low != p->high ? p->low : p->nominal;
        c.high[i] = p->low != p->high ? p->high : p->nominal;
    }
    return c;
}

static char *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *bytes = malloc(1 << 24);

    assert_non_null(f);
    *size = fread(bytes, 1, 1 << 24, f);
    fclose(f);
    return bytes;
}

static void threads_do_not_matter(void **state)
{
    static const hb_plant_type *const plants[] = {&hb_plant_quadrotor, &hb_plant_vanderpol, &hb_plant_half_cheetah};
    (void)state;

    for (int k = 0; k < 3; k++) {
        char *first = NULL;
        size_t nfirst = 0;
        for (int threads = 1; threads <= 5; threads += 2) {
            char path[64];
            hb_collect c = collection(plants[k]);
            hb_collected got;
            hb_error err = {0};
            snprintf(path, sizeof path, "%s/%d.h5", folder, threads);
            c.path = path;
            c.threads = threads;
            if (hb_collect_run(&c, &got, &err))
                fail_msg("%s", err.text);
            size_t n;
            char *bytes = slurp(path, &n);
            if (!first) {
                first = bytes;
                nfirst = n;
                continue;
            }
            assert_int_equal(n, nfirst);
            assert_memory_equal(bytes, first, n);
            free(bytes);
        }
        free(first);
    }
}

static void another_seed_is_another_set(void **state)
{
    char path[64];
    hb_collect c = collection(&hb_plant_vanderpol);
    hb_collected got;
    hb_dataset *a, *b;
    (void)state;

    snprintf(path, sizeof path, "%s/seed.h5", folder);
    c.path = path;
    assert_int_equal(hb_collect_run(&c, &got, NULL), 0);
    assert_int_equal(hb_dataset_read(&a, path, NULL, NULL), 0);
    c.seed++;
    assert_int_equal(hb_collect_run(&c, &got, NULL), 0);
    assert_int_equal(hb_dataset_read(&b, path, NULL, NULL), 0);
    assert_true(a->hash != b->hash);
    assert_true(a->function[3].hidden[0] != b->function[3].hidden[0]);
    hb_dataset_free(a);
    hb_dataset_free(b);
}

/* Every stored transition, flown again from its first state with the function's parameters, ends in its last. */
static void stored_transitions_repeat(void **state)
{
    static const hb_plant_type *const plants[] = {&hb_plant_quadrotor, &hb_plant_vanderpol};
    (void)state;

    for (int k = 0; k < 2; k++) {
        char path[64];
        hb_collect c = collection(plants[k]);
        hb_collected got;
        hb_error err = {0};
        hb_dataset *d;
        hb_plant *p;
        snprintf(path, sizeof path, "%s/repeat.h5", folder);
        c.path = path;
        if (plants[k] == &hb_plant_quadrotor) {
            int drag = hb_plant_parameter_find(c.plant, "drag", &err);
            c.high[drag] = 0.02;
        }
        assert_int_equal(hb_collect_run(&c, &got, &err), 0);
        assert_int_equal(hb_dataset_read(&d, path, NULL, &err), 0);
        assert_int_equal(d->nfunctions, 7);
        assert_int_equal(d->nepisodes, 21);
        assert_int_equal(d->ntransitions, got.transitions);
        assert_string_equal(d->header.plant, c.plant->name);
        assert_int_equal(d->header.nhidden, plants[k] == &hb_plant_quadrotor ? 2 : 1);
        assert_int_equal(hb_plant_new(&p, c.plant, &err), 0);
        for (int f = 0; f < d->nfunctions; f++) {
            for (int i = 0; i < d->header.nhidden; i++) {
                int parameter = hb_plant_parameter_find(c.plant, d->header.hidden_name[i], &err);
                double value = d->function[f].hidden[i];
                assert_true(value >= c.low[parameter] && value <= c.high[parameter]);
                assert_int_equal(hb_plant_set(p, parameter, value, &err), 0);
            }
            for (size_t i = 0; i < d->function[f].ntransitions; i++) {
                hb_transition t;
                double x[HB_PLANT_STATES];
                hb_dataset_transition(d, f, i, &t, NULL);
                assert_int_equal(hb_plant_reset(p, t.x, (hb_random_key){0}, &err), 0);
                hb_plant_step(p, t.u, t.dt);
                hb_plant_state(p, x);
                for (int j = 0; j < d->header.nx; j++)
                    assert_near(x[j], t.x_next[j], 1e-9 * (1 + fabs(x[j])));
            }
        }
        hb_plant_free(p);
        hb_dataset_free(d);
    }
}

/* a range of masses of which most cannot fly */
static void vehicles_that_cannot_fly_are_drawn_again(void **state)
{
    char path[64];
    hb_collect c = collection(&hb_plant_quadrotor);
    hb_collected got[2];
    hb_dataset *d[2] = {NULL};
    (void)state;

    c.low[0] = 0.03;
    c.high[0] = 0.1;
    c.functions = 3;
    c.episodes = 1;
    c.steps = 400;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/heavy%d.h5", folder, i);
        c.path = path;
        c.threads = 1 + 2 * i;
        assert_int_equal(hb_collect_run(&c, &got[i], NULL), 0);
        assert_int_equal(hb_dataset_read(&d[i], path, NULL, NULL), 0);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(d[i]->nfunctions, 3);
    }
    assert_true(got[0].redrawn > 0);
    assert_int_equal(got[0].redrawn, got[1].redrawn);
    assert_int_equal(d[0]->hash, d[1]->hash);
    for (int f = 0; f < 3; f++)
        assert_true(d[0]->function[f].hidden[0] < 0.07); /* four rotors make 0.6 N at most */
    hb_dataset_free(d[0]);
    hb_dataset_free(d[1]);
}

static void hopeless_ranges_are_an_error(void **state)
{
    char path[64];
    hb_collect c = collection(&hb_plant_quadrotor);
    hb_collected got;
    hb_error err = {0};
    (void)state;

    snprintf(path, sizeof path, "%s/hopeless.h5", folder);
    c.path = path;
    c.threads = 3;
    c.functions = 1; /* 500 crashes are enough */
    c.low[0] = c.high[0] = 0.1; /* four times as heavy as the rotors can carry */
    c.steps = 400;
    assert_true(hb_collect_run(&c, &got, &err) < 0);
    assert_non_null(strstr(err.text, "starts in a row failed"));
    assert_int_not_equal(access(path, F_OK), 0);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[80];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_matter),        cmocka_unit_test(another_seed_is_another_set),
        cmocka_unit_test(stored_transitions_repeat),    cmocka_unit_test(vehicles_that_cannot_fly_are_drawn_again),
        cmocka_unit_test(hopeless_ranges_are_an_error),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
