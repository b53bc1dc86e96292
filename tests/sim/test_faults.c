/* What is wrong with telemetry is said, by the reply and by the health, while it lasts; and a second after it ended all
 * is well again. A pilot of its own flies the quadrotor, so that nothing here depends on what is answered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/check.h"
#include "base/numeric.h"
#include "controller/controller.h"
#include "pilot_quadrotor.h"
#include "plant_quadrotor.h"
#include "quadrotor_model.h"

enum { NX = QUADROTOR_NX, NU = QUADROTOR_NU, LATE = 8 /* periods */ };

static const double period = 0.04;

typedef struct sample {
    int64_t time_us;
    double x[NX], u[NU];
} sample;

typedef struct flight {
    plant_quadrotor plant;
    pilot_quadrotor pilot;
    hb_model *m;
    hb_pool *pool;
    hb_controller *c;
    double x[NX], u[NU], now;
    uint64_t k;
    sample past[LATE], hung;
    bool silent; /* nobody asks */
    const hb_command *reply;
} flight;

/* Bends the sample of this period; `asked` is what the request will say. */
typedef void fault(flight *f, sample *s, sample *asked);

static double look(void *context)
{
    return ((flight *)context)->now;
}

/* shipped: with the model of config/models, which has a prior and with it the noise of each channel */
static void take_off(flight *f, bool shipped)
{
    hb_controller_settings s = hb_controller_defaults();
    hb_error err = {0};

    *f = (flight){.plant = plant_quadrotor_crazyflie, .pilot = {.seed = 3, .reach = 0.8, .tremble = 1e-3}};
    if (!shipped)
        f->m = quadrotor_model(QUADROTOR_MODEL_WIDTH, &err);
    else if (hb_model_load(&f->m, HB_SHIPPED_QUADROTOR, &err))
        fail_msg("%s", err.text);
    s.planner.samples = 4;
    s.planner.horizon = 5;
    s.planner.iterations = 3;
    s.planner.prepare = false;
    s.budget = 1;
    s.cost = quadrotor_hover_cost;
    s.ntarget = NX;
    memcpy(s.target, quadrotor_hover_target, sizeof quadrotor_hover_target);
    if (!f->m || hb_pool_new(&f->pool, 1, NULL, NULL, &err) ||
        hb_controller_new(&f->c, f->m, &s, f->pool, NULL, NULL, &err))
        fail_msg("%s", err.text);
    f->plant.mass = 0.03;
    f->x[4] = f->x[9] = 1;
    for (int i = 0; i < NU; i++)
        f->u[i] = plant_quadrotor_hover_thrust(&f->plant);
}

static void land(flight *f)
{
    hb_controller_free(f->c);
    hb_pool_free(f->pool);
    hb_model_free(f->m);
}

/* One period: a request, a sample of the same moment, and 40 ms of flight. */
static void fly(flight *f, fault *bend)
{
    const hb_clock clock = {.now = look, .context = f};
    sample seen = {.time_us = 1000000 + 40000 * (int64_t)f->k}, asked;

    for (int i = 0; i < NX; i++)
        seen.x[i] = f->x[i] + 1e-4 * hb_random_normal((hb_random_key){9, 9}, f->k * NX + (uint64_t)i);
    pilot_quadrotor_fly(&f->pilot, &f->plant, f->x, f->u);
    memcpy(seen.u, f->u, sizeof seen.u);
    asked = f->past[f->k % LATE] = seen;
    if (bend)
        bend(f, &seen, &asked);
    else
        f->hung = seen;

    hb_request r = {.time_us = asked.time_us, .x = asked.x, .nx = NX, .received = f->now, .tick = f->k};
    if (!f->silent) {
        hb_controller_observe_request(f->c, &r, f->now);
        f->reply = hb_controller_command(f->c, &r, &clock);
    }
    hb_controller_observe(
        f->c, &(hb_observation){.time_us = seen.time_us, .x = seen.x, .nx = NX, .u = seen.u, .nu = NU}, f->now);
    plant_quadrotor_step(&f->plant, f->x, f->u, period);
    f->now += period;
    f->k++;
}

/* Three seconds of good flight, one with the fault, and one of good flight again. `latest`: seconds after which the
 * fault must be said, until its end; `worst`: a status that replies have reached by then. */
static void check_fault(fault *bend, hb_reason expected, double latest, hb_status worst)
{
    flight f;

    take_off(&f, false);
    for (int k = 0; k < 75; k++) {
        fly(&f, NULL);
        assert_int_equal(hb_controller_health(f.c)->fault, HB_REASON_NONE);
    }
    assert_int_equal(hb_controller_health(f.c)->status, HB_ESTIMATE_OK);
    assert_true(f.reply->status < HB_STATUS_WARMING_UP);
    hb_status reached = HB_STATUS_CONVERGED;
    for (int k = 0; k < 25; k++) {
        fly(&f, bend);
        reached = f.reply->status > reached ? f.reply->status : reached;
        if ((k + 1) * period < latest)
            continue;
        /* what cannot be believed for long is a vehicle that nobody knows */
        if (expected != HB_REASON_IMPLAUSIBLE || hb_controller_health(f.c)->status != HB_ESTIMATE_OUT_OF_SPAN)
            assert_string_equal(hb_reason_name[hb_controller_health(f.c)->fault], hb_reason_name[expected]);
        assert_true(expected == HB_REASON_BEHIND || hb_controller_health(f.c)->status != HB_ESTIMATE_OK);
    }
    if (expected != HB_REASON_IMPLAUSIBLE && !f.silent)
        assert_string_equal(hb_reason_name[f.reply->health.fault], hb_reason_name[expected]);
    printf("%s: replies reach %s\n", hb_reason_name[expected], hb_status_name[reached]);
    assert_true(reached >= worst);
    f.silent = false;
    for (int k = 0; k < 25; k++)
        fly(&f, NULL);
    assert_string_equal(hb_reason_name[hb_controller_health(f.c)->fault], "none");
    assert_string_equal(hb_estimate_status_name[hb_controller_health(f.c)->status], "ok");
    assert_true(f.reply->status < HB_STATUS_WARMING_UP);
    double truth = quadrotor_model_coefficient(0.03);
    assert_near(hb_controller_coefficients(f.c, NULL)[0], truth, 0.05);
    land(&f);
}

/* sensors hang: the time advances, the state does not */
static void freeze(flight *f, sample *s, sample *asked)
{
    memcpy(s->x, f->hung.x, sizeof s->x);
    memcpy(asked->x, f->hung.x, sizeof s->x);
}

static void test_frozen_sensors(void **state)
{
    (void)state;
    check_fault(freeze, HB_REASON_FROZEN, 0.16, HB_STATUS_STALE);
}

/* Single sensors hang, while the requests tell the truth. */
static void hang_vz(flight *f, sample *s, sample *asked)
{
    (void)asked;
    s->x[5] = f->hung.x[5];
}

static void hang_velocities(flight *f, sample *s, sample *asked)
{
    (void)asked;
    for (int i = 1; i <= 5; i += 2)
        s->x[i] = f->hung.x[i];
}

static void hang_rates(flight *f, sample *s, sample *asked)
{
    (void)asked;
    for (int i = 10; i <= 12; i++)
        s->x[i] = f->hung.x[i];
}

static void test_single_sensors_that_hang(void **state)
{
    static const struct {
        fault *bend;
        const char *name;
    } sensor[] = {{hang_vz, "vz"}, {hang_velocities, "velocities"}, {hang_rates, "rates"}};

    (void)state;
    for (size_t i = 0; i < sizeof sensor / sizeof *sensor; i++) {
        flight f;
        int good = 0, late = 0;

        take_off(&f, true);
        for (int k = 0; k < 75; k++)
            fly(&f, NULL);
        assert_true(f.reply->status < HB_STATUS_WARMING_UP);
        for (int k = 0; k < 50; k++) {
            fly(&f, sensor[i].bend);
            bool better = f.reply->status < HB_STATUS_WARMING_UP && f.reply->health.fault == HB_REASON_NONE;
            good += better;
            late += better && k * period > 0.5;
        }
        printf("%s hang for 2 s: %d of 50 replies as if nothing were wrong, %d of them after 0.5 s\n", sensor[i].name,
               good, late);
        assert_int_equal(late, 0);
        for (int k = 0; k < 50; k++)
            fly(&f, NULL);
        assert_string_equal(hb_reason_name[hb_controller_health(f.c)->fault], "none");
        assert_true(f.reply->status < HB_STATUS_WARMING_UP);
        land(&f);
    }
}

/* samples wait in a queue somewhere and come in time, but are 280 ms old; requests are fresh */
static void queue_up(flight *f, sample *s, sample *asked)
{
    (void)asked;
    *s = f->past[(f->k + 1) % LATE];
}

static void test_telemetry_behind_the_requests(void **state)
{
    (void)state;
    check_fault(queue_up, HB_REASON_BEHIND, 0.12, HB_STATUS_STALE);
}

/* the same by the clock alone, so far that no reply falls back: they say stale */
static void lag_by_seconds(flight *f, sample *s, sample *asked)
{
    (void)f;
    (void)s;
    asked->time_us += 2000000;
}

static void test_requests_far_ahead(void **state)
{
    (void)state;
    check_fault(lag_by_seconds, HB_REASON_BEHIND, 0.12, HB_STATUS_STALE);
}

static void poison(flight *f, sample *s, sample *asked)
{
    (void)asked;
    s->x[f->k % NX] = NAN;
}

static void test_bursts_of_nan(void **state)
{
    (void)state;
    check_fault(poison, HB_REASON_NOT_FINITE, 0.04, HB_STATUS_FALLBACK);
}

/* every other sample is one: enough good ones come in to fly with, and it is said all the same */
static void poison_half(flight *f, sample *s, sample *asked)
{
    f->silent = true; /* what was answered was not done, and the samples that would say so are the bad ones */
    if (f->k % 2 == 0)
        poison(f, s, asked);
}

static void test_scattered_nan(void **state)
{
    (void)state;
    check_fault(poison_half, HB_REASON_NOT_FINITE, 0.08, HB_STATUS_CONVERGED);
}

static void flip_velocity(flight *f, sample *s, sample *asked)
{
    (void)f;
    s->x[1] = asked->x[1] = -s->x[1];
}

static void flip_rate(flight *f, sample *s, sample *asked)
{
    (void)f;
    s->x[10] = asked->x[10] = -s->x[10];
}

static void test_sign_of_a_channel(void **state)
{
    (void)state;
    check_fault(flip_velocity, HB_REASON_IMPLAUSIBLE, 0.5, HB_STATUS_OUT_OF_SPAN);
    check_fault(flip_rate, HB_REASON_IMPLAUSIBLE, 0.5, HB_STATUS_OUT_OF_SPAN);
}

/* newtons taken for something else */
static void scale_control(flight *f, sample *s, sample *asked)
{
    (void)f;
    (void)asked;
    for (int i = 0; i < NU; i++)
        s->u[i] *= 10;
}

static void test_controls_out_of_bounds(void **state)
{
    (void)state;
    check_fault(scale_control, HB_REASON_BAD_CONTROL, 0.04, HB_STATUS_FALLBACK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frozen_sensors),
        cmocka_unit_test(test_single_sensors_that_hang),
        cmocka_unit_test(test_telemetry_behind_the_requests),
        cmocka_unit_test(test_requests_far_ahead),
        cmocka_unit_test(test_bursts_of_nan),
        cmocka_unit_test(test_scattered_nan),
        cmocka_unit_test(test_sign_of_a_channel),
        cmocka_unit_test(test_controls_out_of_bounds),
    };

    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
