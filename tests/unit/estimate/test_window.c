#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/window.h"

enum { NX = 3, NU = 2, NW = 8, NB = 4 };

typedef struct fixture {
    hb_model *m;
    char *block;
    size_t size;
} fixture;

static hb_model *new_model(double dt)
{
    hb_model shape = {.nx = NX,
                      .nu = NU,
                      .nb = NB,
                      .architecture = HB_SHARED,
                      .integration = HB_COMBINED,
                      .substeps = 1,
                      .volume = 1,
                      .dt = dt,
                      .basis = {.nlayers = 2, .width = {[1] = 4}}};
    hb_model *m = NULL;
    hb_error err = {0};

    if (hb_model_new(&m, &shape, NULL, &err))
        fail_msg("%s", err.text);
    hb_model_seal(m);
    return m;
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    f->m = new_model(0.1);
    f->size = hb_window_size(f->m, NW, 0);
    f->block = aligned_alloc(HB_ALIGNMENT, f->size);
    memset(f->block, 0, f->size);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    hb_model_free(f->m);
    free(f->block);
    free(f);
    return 0;
}

/* transition number k: every number in it tells where it belongs */
static void append(hb_window *w, int k)
{
    double z[NX], u[NU], dz[NX];

    for (int i = 0; i < NX; i++) {
        z[i] = k + 0.1 * i;
        dz[i] = -k - 0.1 * i;
    }
    for (int i = 0; i < NU; i++)
        u[i] = 1000 + k + 0.1 * i;
    hb_window_append(w, &(hb_window_entry){.dt = k + 1, .z = z, .u = u, .dz = dz});
}

/* the window holds transitions first..last, whole and in order */
static void assert_holds(const hb_window *w, int first, int last)
{
    assert_int_equal(hb_window_count(w), last - first + 1);
    for (int k = first; k <= last; k++) {
        hb_window_entry e = hb_window_at(w, w->first + (uint64_t)(k - first));
        assert_near(e.dt, k + 1, 0);
        for (int i = 0; i < NX; i++) {
            assert_near(e.z[i], k + 0.1 * i, 0);
            assert_near(e.dz[i], -k - 0.1 * i, 0);
        }
        for (int i = 0; i < NU; i++)
            assert_near(e.u[i], 1000 + k + 0.1 * i, 0);
    }
}

static void test_window_slides_and_survives(void **state)
{
    fixture *f = *state;
    hb_error why = {0};

    for (int n = 0; n <= 3 * NW; n++) {
        hb_window w, again;
        memset(f->block, 0, f->size);
        assert_false(hb_window_open(&w, f->m, NW, 0, f->block, &why));
        assert_non_null(strstr(why.text, "no window yet"));
        for (int k = 0; k < n; k++)
            append(&w, k);
        assert_holds(&w, n > NW ? n - NW : 0, n - 1);
        assert_true(hb_window_open(&again, f->m, NW, 0, f->block, &why));
        assert_int_equal(why.code, 0);
        assert_holds(&again, n > NW ? n - NW : 0, n - 1);
        append(&again, n);
        assert_holds(&again, n + 1 > NW ? n + 1 - NW : 0, n);
    }
}

static void test_what_was_dropped_stays_dropped(void **state)
{
    fixture *f = *state;
    hb_window w;

    hb_window_open(&w, f->m, NW, 0, f->block, NULL);
    for (int k = 0; k < 20; k++)
        append(&w, k);
    hb_window_drop_before(&w, w.next - 3);
    assert_true(hb_window_open(&w, f->m, NW, 0, f->block, NULL));
    assert_holds(&w, 17, 19);
    hb_window_drop_before(&w, w.next);
    assert_true(hb_window_open(&w, f->m, NW, 0, f->block, NULL));
    assert_int_equal(hb_window_count(&w), 0);
    append(&w, 5);
    assert_true(hb_window_open(&w, f->m, NW, 0, f->block, NULL));
    assert_holds(&w, 5, 5);
}

static void test_coefficients_survive(void **state)
{
    fixture *f = *state;
    hb_real c[NB] = {0}, got[NB] = {0};
    uint64_t version = 0;
    bool estimated = false;
    hb_window w;

    hb_window_open(&w, f->m, NW, 0, f->block, NULL);
    assert_false(hb_window_load_coefficients(&w, &version, &estimated, got));
    for (uint64_t v = 1; v < 6; v++) {
        for (int i = 0; i < NB; i++)
            c[i] = (hb_real)((double)v * 0.1 + i);
        hb_window_save_coefficients(&w, v, v % 3 == 0, c);
        hb_window_open(&w, f->m, NW, 0, f->block, NULL);
        assert_true(hb_window_load_coefficients(&w, &version, &estimated, got));
        assert_int_equal(version, v);
        assert_int_equal(estimated, v % 3 == 0);
        assert_memory_equal(got, c, sizeof c);
    }
}

/* A kill leaves some of the stores of an operation done and others not. Every mixture of the bytes before and after
 * must read as one or the other; of an append to a full window also as the old one without its oldest entry, which
 * was being overwritten. */
static void test_kill_at_any_moment(void **state)
{
    fixture *f = *state;
    char *before = malloc(f->size), *after = malloc(f->size);
    uint64_t draw = 0;
    int full_loss = 0;

    for (int round = 0; round < 4000; round++) {
        int n = round % (2 * NW + 1);
        hb_window w;
        memset(f->block, 0, f->size);
        hb_window_open(&w, f->m, NW, 0, f->block, NULL);
        for (int k = 0; k < n; k++)
            append(&w, k);
        memcpy(before, f->block, f->size);
        append(&w, n);
        memcpy(after, f->block, f->size);

        /* words that differ, each in the old or the new state; every third time torn by bytes */
        size_t grain = round % 3 ? 8 : 1;
        double share = hb_random_uniform((hb_random_key){1, 0}, draw++);
        for (size_t i = 0; i < f->size; i += grain) {
            bool done = hb_random_uniform((hb_random_key){2, 0}, draw++) < share;
            memcpy(f->block + i, (done ? after : before) + i, grain);
        }
        assert_true(hb_window_open(&w, f->m, NW, 0, f->block, NULL));
        int first = n > NW ? n - NW : 0, count = hb_window_count(&w);
        int newest = count ? (int)hb_window_at(&w, w.next - 1).dt - 1 : -1;
        if (newest == n) {
            assert_holds(&w, n + 1 > NW ? n + 1 - NW : 0, n);
        } else if (n >= NW && count < NW) {
            assert_holds(&w, first + 1, n - 1);
            full_loss++;
        } else {
            assert_holds(&w, first, n - 1);
        }
        append(&w, newest + 1);
        assert_int_equal((int)hb_window_at(&w, w.next - 1).dt - 1, newest + 1);
    }
    /* the case that the checksums are there for did occur */
    assert_true(full_loss > 100);
    free(before);
    free(after);
}

static void test_torn_coefficients_are_those_of_before(void **state)
{
    fixture *f = *state;
    char *before = malloc(f->size), *after = malloc(f->size);
    hb_window w;
    uint64_t draw = 0;

    for (int round = 0; round < 500; round++) {
        hb_real old[NB] = {1, 2, 3, 4}, new[NB] = {5, 6, 7, 8}, got[NB];
        uint64_t version = 0;
        bool estimated = false;
        memset(f->block, 0, f->size);
        hb_window_open(&w, f->m, NW, 0, f->block, NULL);
        hb_window_save_coefficients(&w, 6, true, new);
        hb_window_save_coefficients(&w, 7, true, old);
        memcpy(before, f->block, f->size);
        hb_window_save_coefficients(&w, 8, true, new);
        memcpy(after, f->block, f->size);
        for (size_t i = 0; i < f->size; i += 8)
            memcpy(f->block + i, (hb_random_uniform((hb_random_key){3, 0}, draw++) < 0.8 ? after : before) + i, 8);
        assert_true(hb_window_load_coefficients(&w, &version, &estimated, got));
        assert_true(version == 7 || version == 8);
        assert_memory_equal(got, version == 7 ? old : new, sizeof got);
    }
    free(before);
    free(after);
}

static void test_blocks_of_others_are_refused_with_a_reason(void **state)
{
    fixture *f = *state;
    hb_model *other = new_model(0.2);
    hb_error why = {0};
    hb_window w;

    hb_window_open(&w, f->m, NW, 0, f->block, NULL);
    for (int k = 0; k < NW; k++)
        append(&w, k);
    assert_false(hb_window_open(&w, f->m, NW - 1, 0, f->block, &why));
    assert_non_null(strstr(why.text, "8 transitions"));
    assert_int_equal(hb_window_count(&w), 0);

    /* it was started anew, and the entries of before are gone */
    assert_true(hb_window_open(&w, f->m, NW - 1, 0, f->block, &why));
    assert_int_equal(hb_window_count(&w), 0);
    append(&w, 1);

    assert_false(hb_window_open(&w, other, NW - 1, 0, f->block, &why));
    assert_non_null(strstr(why.text, "belongs to model"));

    f->block[12] ^= 1;
    assert_false(hb_window_open(&w, other, NW - 1, 0, f->block, &why));
    assert_non_null(strstr(why.text, "damaged"));
    hb_model_free(other);
}

/* Damage anywhere in the entries costs those entries and older ones, never shows. */
static void test_flipped_bits_are_noticed(void **state)
{
    fixture *f = *state;
    hb_window w;

    for (int round = 0; round < 500; round++) {
        memset(f->block, 0, f->size);
        hb_window_open(&w, f->m, NW, 0, f->block, NULL);
        for (int k = 0; k < 11; k++)
            append(&w, k);
        size_t bit = hb_random_bits((hb_random_key){4, 0}, (uint64_t)round) % (f->size * 8);
        f->block[bit / 8] = (char)(f->block[bit / 8] ^ (1 << bit % 8));
        if (!hb_window_open(&w, f->m, NW, 0, f->block, NULL))
            continue;
        int count = hb_window_count(&w);
        int newest = count ? (int)hb_window_at(&w, w.next - 1).dt - 1 : -1;
        assert_holds(&w, newest - count + 1, newest);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_window_slides_and_survives),
        TEST(test_what_was_dropped_stays_dropped),
        TEST(test_coefficients_survive),
        TEST(test_kill_at_any_moment),
        TEST(test_torn_coefficients_are_those_of_before),
        TEST(test_blocks_of_others_are_refused_with_a_reason),
        TEST(test_flipped_bits_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
