/* The whole loop of controller/controller.h on the quadrotor of plant_quadrotor.h, whose mass nobody tells: telemetry
 * and a request every 40 ms, 20 masses and 5 starts each up to 1 m from the paper's hover point, and steps of mass in
 * flight. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/check.h"
#include "base/statistics.h"
#include "controller/controller.h"
#include "base/numeric.h"
#include "plant_quadrotor.h"
#include "quadrotor_model.h"

enum { MASSES = 20, STARTS = 5, STEPS = 125 };
static const double period = 0.04;

/* Time as the flight makes it: it stands still while a plan is made. */
static double read_clock(void *context)
{
    return *(double *)context;
}

typedef struct loop {
    hb_model *m;
    hb_pool *pool;
    hb_controller_settings s;
    hb_controller *c;
    double now;
    hb_clock clock;
} loop;

static void start(loop *l)
{
    hb_error err;

    hb_controller_free(l->c);
    l->c = NULL;
    if (hb_controller_new(&l->c, l->m, &l->s, l->pool, NULL, NULL, &err))
        fail_msg("%s", err.text);
}

static int set_up(void **state)
{
    loop *l = calloc(1, sizeof *l);
    hb_error err;

    if (!(l->m = quadrotor_model(QUADROTOR_MODEL_WIDTH, &err)) || hb_pool_new(&l->pool, 2, NULL, NULL, &err))
        fail_msg("%s", err.text);
    l->s = hb_controller_defaults();
    l->s.cost = quadrotor_hover_cost;
    l->s.ntarget = QUADROTOR_NX;
    memcpy(l->s.target, quadrotor_hover_target, sizeof quadrotor_hover_target);
    l->s.planner.samples = 16;
    /* the paper's three degrees of freedom: all rotors, and opposite ones against each other */
    static const double direction[3 * 4] = {1, 1, 1, 1, 1, 0, -1, 0, 0, 1, 0, -1};
    l->s.planner.ndirections = 3;
    memcpy(l->s.planner.direction, direction, sizeof direction);
    l->clock = (hb_clock){.now = read_clock, .context = &l->now};
    *state = l;
    return 0;
}

static int tear_down(void **state)
{
    loop *l = *state;

    hb_controller_free(l->c);
    hb_pool_free(l->pool);
    hb_model_free(l->m);
    free(l);
    return 0;
}

/* Flies `steps` periods from x; from step change_at on the mass is another one. Without telemetry, requests carry the
 * control that was applied. `late` periods pass until an action is applied. */
static quadrotor_flight fly(loop *l, double mass, double *x, int steps, int change_at, double new_mass, bool telemetry,
                            int late)
{
    quadrotor_flight f = {0};
    plant_quadrotor plant = plant_quadrotor_crazyflie;
    double queue[8][QUADROTOR_NU], applied[QUADROTOR_NU];

    plant.mass = mass;
    start(l);
    for (int i = 0; i < 8; i++)
        memcpy(queue[i], l->m->control_trim, sizeof queue[i]);
    memcpy(applied, l->m->control_trim, sizeof applied);
    for (int step = 0; step < steps && !f.crashed; step++, l->now += period) {
        int64_t time_us = 1000000 + 40000 * (int64_t)step;
        if (step == change_at)
            plant.mass = new_mass;
        hb_request r = {.time_us = time_us,
                        .x = x,
                        .nx = QUADROTOR_NX,
                        .applied = telemetry ? NULL : applied,
                        .napplied = QUADROTOR_NU,
                        .received = l->now,
                        .tick = (uint64_t)step};
        if (!telemetry)
            hb_controller_observe_request(l->c, &r, l->now);
        const hb_command *reply = hb_controller_command(l->c, &r, &l->clock);
        assert_true(reply->status < HB_STATUS_FALLBACK);
        memcpy(queue[(step + late) % 8], reply->action, sizeof queue[0]);
        memcpy(applied, queue[step % 8], sizeof applied);
        if (telemetry)
            hb_controller_observe(
                l->c,
                &(hb_observation){.time_us = time_us, .x = x, .nx = QUADROTOR_NX, .u = applied, .nu = QUADROTOR_NU},
                l->now);
        plant_quadrotor_step(&plant, x, applied, period);
        quadrotor_flight_add(&f, x, step, steps, change_at, period);
    }
    f.changes = hb_controller_health(l->c)->changes;
    return f;
}

/* anywhere in a ball of 1 m around the target, at rest */
static void draw_start(uint64_t stream, double *x)
{
    double direction[3], norm = 0, radius = cbrt(hb_random_uniform((hb_random_key){42, stream}, 0));

    memset(x, 0, QUADROTOR_NX * sizeof *x);
    for (int i = 0; i < 3; i++) {
        direction[i] = hb_random_normal((hb_random_key){41, stream}, (uint64_t)i);
        norm += direction[i] * direction[i];
    }
    for (int i = 0; i < 3; i++)
        x[2 * i] = quadrotor_hover_target[2 * i] + radius * direction[i] / sqrt(norm);
    x[9] = 1;
}

static void test_hovers_from_everywhere_at_every_unknown_mass(void **state)
{
    loop *l = *state;
    double settled[MASSES * STARTS], farthest[MASSES * STARTS];
    int n = 0, crashes = 0;
    uint64_t changes = 0;

    for (int i = 0; i < MASSES; i++)
        for (int j = 0; j < STARTS; j++) {
            double x[QUADROTOR_NX];
            draw_start((uint64_t)(1000 + i * STARTS + j), x);
            quadrotor_flight f = fly(l, 0.020 + 0.012 * i / (MASSES - 1), x, STEPS, STEPS, 0, true, 0);
            crashes += f.crashed;
            changes += f.changes;
            settled[n] = f.settled;
            farthest[n++] = f.farthest;
        }
    hb_sort(settled, n);
    hb_sort(farthest, n);
    printf(
        "%d flights, %d crashes, %llu false alarms; within 5 cm after: median %.2f s, 90 %% %.2f s, all %.2f s; in the "
        "last second: median %.4f m, worst %.4f m\n",
        n, crashes, (unsigned long long)changes, settled[n / 2], settled[n * 9 / 10], settled[n - 1], farthest[n / 2],
        farthest[n - 1]);
    assert_int_equal(crashes, 0);
    assert_true(settled[n - 1] < 4);
}

/* Without adaptation the same vehicles hang away from the target: what the test above shows is adaptation. */
static void test_adaptation_is_what_brings_it_there(void **state)
{
    loop *l = *state;
    static const double mass[2] = {0.020, 0.032};

    for (int i = 0; i < 2; i++) {
        double farthest[2];
        for (int adapt = 0; adapt < 2; adapt++) {
            double x[QUADROTOR_NX] = {[4] = 1, [9] = 1};
            l->s.adapt = adapt;
            farthest[adapt] = fly(l, mass[i], x, STEPS, STEPS, 0, true, 0).farthest;
        }
        printf("mass %.3f kg, last second: %.5f m away without adaptation, %.5f m with it\n", mass[i], farthest[0],
               farthest[1]);
        assert_true(farthest[0] > 0.005);
        assert_true(farthest[1] < 0.1 * farthest[0]);
    }
}

/* 40 % more, and 40 % less, in mid-flight, which nobody tells either. */
static void test_absorbs_a_step_of_mass(void **state)
{
    loop *l = *state;
    static const double mass[][2] = {{0.022, 0.022 * 1.4}, {0.033, 0.033 * 0.6}};

    for (int i = 0; i < 2; i++) {
        double x[QUADROTOR_NX] = {[4] = 1, [9] = 1};
        quadrotor_flight f = fly(l, mass[i][0], x, 400, 250, mass[i][1], true, 0);
        printf("mass %.4f to %.4f kg: strays by %.4f m, %.4f m in the last second; %llu change seen\n", mass[i][0],
               mass[i][1], f.strayed, f.farthest, (unsigned long long)f.changes);
        assert_false(f.crashed);
        assert_int_equal(f.changes, 1);
        assert_true(f.strayed < 0.05);
        assert_true(f.farthest < 0.005);
    }
}

/* The same where actions take two periods to arrive and only requests are sent. */
static void test_flies_with_delay_and_by_requests_alone(void **state)
{
    loop *l = *state;

    l->s.delay = 2 * period;
    for (int i = 0; i < 4; i++) {
        double x[QUADROTOR_NX];
        draw_start((uint64_t)(7 + i), x);
        quadrotor_flight f = fly(l, 0.022 + 0.003 * i, x, STEPS, STEPS, 0, false, 2);
        printf("mass %.3f kg, two periods of delay, requests alone: within 5 cm after %.2f s\n", 0.022 + 0.003 * i,
               f.settled);
        assert_false(f.crashed);
        assert_true(f.settled < 4);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_hovers_from_everywhere_at_every_unknown_mass),
        TEST(test_adaptation_is_what_brings_it_there),
        TEST(test_absorbs_a_step_of_mass),
        TEST(test_flies_with_delay_and_by_requests_alone),
    };
    hb_numeric_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
