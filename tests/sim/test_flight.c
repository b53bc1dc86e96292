/* Flights, their summaries and reports, with a loop written here: a PD that knows the plant. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit/check.h"
#include "sim/flight.h"
#include "sim/flight_report.h"

enum { X, VX, Y, VY, Z, VZ, QX, QY, QZ, QW, WX, WY, WZ, NX };

/* What the loop was asked and told, and how it shall misbehave. */
typedef struct pd_loop {
    hb_loop loop;
    double mass;
    double x[NX], target[NX];
    bool had_target;
    double told_x[NX], told_u[4];
    int64_t asked_us, told_us;
    int asked, told;
    int64_t told_at[4000]; /* microseconds */
    double told_vz[4000], told_u0[4000];
    int silent_from, silent_to; /* questions that get no answer */
    int broken_at;              /* the question that fails, or -1 */
} pd_loop;

static int publish(hb_loop *l, int64_t time_us, const double *x, const double *u, uint32_t reset_counter, hb_error *err)
{
    pd_loop *s = (pd_loop *)l;
    (void)reset_counter;
    (void)err;

    memcpy(s->told_x, x, sizeof s->told_x);
    memcpy(s->told_u, u, sizeof s->told_u);
    s->told_us = time_us;
    s->told_at[s->told] = time_us;
    s->told_vz[s->told] = x[VZ];
    s->told_u0[s->told] = u[0];
    s->told++;
    return 0;
}

static int ask(hb_loop *l, const hb_loop_question *q, hb_error *err)
{
    pd_loop *s = (pd_loop *)l;

    memcpy(s->x, q->x, sizeof s->x);
    s->had_target = q->target != NULL;
    memset(s->target, 0, sizeof s->target);
    s->target[Z] = 1;
    if (q->target)
        memcpy(s->target, q->target, sizeof s->target);
    s->asked_us = q->time_us;
    return s->asked++ == s->broken_at ? hb_fail(err, EIO, "broken") : 0;
}

static int answer(hb_loop *l, double timeout, hb_loop_answer *ret, hb_error *err)
{
    pd_loop *s = (pd_loop *)l;
    const double *x = s->x;
    double lever = 0.0397 / sqrt(2);
    (void)err;

    if (s->asked > s->silent_from && s->asked <= s->silent_to) {
        usleep((useconds_t)(1e6 * fmin(timeout, 0.01)));
        return 1;
    }
    /* small angles: acceleration wanted -> tilt -> torque */
    double want[2];
    for (int i = 0; i < 2; i++)
        want[i] = (2 * (s->target[2 * i] - x[2 * i]) - 2.2 * x[2 * i + 1]) / 9.81;
    double roll = 60 * (-want[1] - 2 * x[QX]) - 11 * x[WX], pitch = 60 * (want[0] - 2 * x[QY]) - 11 * x[WY];
    double thrust = s->mass * (9.81 + 6 * (s->target[Z] - x[Z]) - 4.5 * x[VZ]);
    double tx = 1.4e-5 * roll / (4 * lever), ty = 1.4e-5 * pitch / (4 * lever);
    *ret = (hb_loop_answer){.has_action = true, .status = HB_STATUS_CONVERGED, .cost = s->asked, .planning = 0.001};
    const double u[4] = {thrust / 4 + tx - ty, thrust / 4 + tx + ty, thrust / 4 - tx + ty, thrust / 4 - tx - ty};
    for (int i = 0; i < 4; i++)
        ret->action[i] = fmin(fmax(u[i], 0.03), 0.15);
    return 0;
}

static pd_loop make_loop(void)
{
    return (pd_loop){
        .loop = {.nx = NX, .nu = 4, .publish = publish, .ask = ask, .answer = answer},
        .mass = 0.027,
        .broken_at = -1,
    };
}

static hb_flight_settings settings(void)
{
    hb_flight_settings s = {.seconds = 6, .dt = 0.04, .epoch_us = 5000000};
    s.start[X] = 0.4;
    s.start[Y] = -0.3;
    s.start[Z] = 0.7;
    s.start[QW] = 1;
    return s;
}

static hb_plant *quadrotor(void)
{
    hb_plant *p = NULL;

    assert_int_equal(hb_plant_new(&p, &hb_plant_quadrotor, NULL), 0);
    return p;
}

static void a_good_loop_settles(void **state)
{
    hb_plant *p = quadrotor();
    pd_loop l = make_loop();
    hb_flight_settings s = settings();
    hb_flight_record r;
    hb_flight_summary sum;
    hb_error err = {0};
    (void)state;

    assert_int_equal(hb_flight_run(p, &l.loop, &s, &r, &err), 0);
    assert_int_equal(r.nsteps, 150);
    assert_int_equal(l.asked, 150);
    assert_int_equal(l.told, 150);
    assert_false(l.had_target);
    /* the last sample told: the state asked about, the action answered, at that state's time */
    assert_true(l.told_us == 5000000 + 149 * 40000 && l.asked_us == l.told_us);
    assert_memory_equal(l.told_x, l.x, sizeof l.x);
    assert_memory_equal(l.told_u, r.step[149].answer.action, sizeof l.told_u);
    assert_memory_equal(l.told_x, r.x + 149 * NX, sizeof l.told_x);

    assert_int_equal(hb_flight_summarise(p->type, &s, &r, &sum, &err), 0);
    assert_false(sum.crashed);
    assert_true(sum.settled_m < 0.02);

    /* the same figures, worked out again */
    double distance = 0, slew = 0;
    int from = 0;
    for (int k = 0; k <= 150; k++) {
        const double *x = r.x + k * NX;
        double d = sqrt(x[X] * x[X] + x[Y] * x[Y] + (x[Z] - 1) * (x[Z] - 1));
        distance += k > 125 ? d / 25 : 0;
        from = d > 0.1 ? k + 1 : from;
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 149; k++)
            slew += pow(r.step[k + 1].answer.action[i] - r.step[k].answer.action[i], 2) / 149;
    assert_near(sum.settled_m, distance, 1e-12);
    assert_near(sum.settled_after_s, 0.04 * from, 1e-12);
    assert_near(sum.slew, slew, 1e-15);
    assert_near(sum.cost, 151 / 2.0, 1e-9);
    assert_int_equal(sum.status[HB_STATUS_CONVERGED], 150);
    assert_int_equal(sum.late, 0);
    assert_near(sum.planning[0], 0.001, 0);
    hb_flight_record_free(&r);
    hb_plant_free(p);
}

static void targets_and_changes_reach_the_loop_and_the_plant(void **state)
{
    hb_plant *p = quadrotor();
    pd_loop l = make_loop();
    hb_flight_settings s = settings();
    hb_flight_record r;
    hb_flight_summary sum;
    hb_error err = {0};
    int mass = hb_plant_parameter_find(p->type, "mass", &err);
    (void)state;

    s.seconds = 12;
    s.has_target = true;
    s.target[X] = 0.5;
    s.target[Z] = 1.2;
    s.target[QW] = 1;
    s.event[0] = (hb_flight_event){.time = 4, .parameter = mass, .value = 0.031};
    s.event[1] = (hb_flight_event){.time = 8, .parameter = mass, .value = 0.027};
    s.nevents = 2;
    assert_int_equal(hb_flight_run(p, &l.loop, &s, &r, &err), 0);
    assert_true(l.had_target);
    assert_near(l.target[X], 0.5, 0);
    assert_int_equal(hb_flight_summarise(p->type, &s, &r, &sum, &err), 0);
    assert_true(sum.settled_m < 0.02);
    assert_int_equal(sum.nresponses, 2);
    /* a PD that does not know the new weight sags: m a = m' (6 dz + g) - (m' + d) g, so 6 dz = d g / m' */
    double sag = 0.004 * 9.81 / (6 * 0.027);
    assert_near(r.x[199 * NX + Z], 1.2 - sag, 0.02);
    assert_true(sum.response[0].height_loss > sag - 0.03);
    assert_true(isinf(sum.response[0].settled));
    assert_true(isfinite(sum.response[1].settled));
    hb_flight_record_free(&r);
    hb_plant_free(p);
}

static void a_crash_ends_the_flight(void **state)
{
    hb_plant *p = quadrotor();
    pd_loop l = make_loop();
    hb_flight_settings s = settings();
    hb_flight_record r;
    hb_flight_summary sum;
    hb_error err = {0};
    (void)state;

    l.mass = 0.01; /* far too little thrust */
    assert_int_equal(hb_flight_run(p, &l.loop, &s, &r, &err), 0);
    assert_string_equal(r.failure, "hit the ground");
    assert_true(r.nsteps < 100);
    assert_true(r.x[r.nsteps * NX + Z] < 0);
    assert_int_equal(hb_flight_summarise(p->type, &s, &r, &sum, &err), 0);
    assert_true(sum.crashed);
    assert_true(isinf(sum.settled_after_s));
    hb_flight_record_free(&r);
    hb_plant_free(p);
}

static void a_broken_loop_is_an_error(void **state)
{
    hb_plant *p = quadrotor();
    pd_loop l = make_loop();
    hb_flight_settings s = settings();
    hb_flight_record r = {0};
    hb_error err = {0};
    (void)state;

    l.broken_at = 20;
    assert_int_equal(hb_flight_run(p, &l.loop, &s, &r, &err), -EIO);
    assert_string_equal(err.text, "broken");
    assert_null(r.x);
    hb_plant_free(p);
}

/* In real time a missing answer costs a period, and the last action stays. */
static void late_answers_keep_the_last_action(void **state)
{
    hb_plant *p = quadrotor();
    pd_loop l = make_loop();
    hb_flight_settings s = settings();
    hb_flight_record r;
    hb_flight_summary sum;
    hb_error err = {0};
    (void)state;

    s.seconds = 0.4;
    s.realtime = true;
    l.silent_from = 4;
    l.silent_to = 6;
    assert_int_equal(hb_flight_run(p, &l.loop, &s, &r, &err), 0);
    assert_int_equal(r.nsteps, 10);
    assert_true(isnan(r.step[4].latency) && isnan(r.step[5].latency));
    assert_memory_equal(r.step[4].answer.action, r.step[3].answer.action, sizeof(double[4]));
    assert_memory_equal(r.step[5].answer.action, r.step[3].answer.action, sizeof(double[4]));
    assert_int_equal(hb_flight_summarise(p->type, &s, &r, &sum, &err), 0);
    assert_true(sum.late >= 2); /* on a busy machine others may be late as well */
    assert_true(l.told >= 10);
    hb_flight_record_free(&r);
    hb_plant_free(p);
}

static void reports_say_the_same(void **state)
{
    hb_plant *p = quadrotor();
    pd_loop l = make_loop();
    hb_flight_settings s = settings();
    hb_flight_record r;
    hb_flight_entry e[2] = {0};
    hb_error err = {0};
    char csv[] = "/tmp/test_flight.XXXXXX", line[2000], *text = NULL;
    size_t size = 0;
    (void)state;

    assert_int_equal(hb_flight_run(p, &l.loop, &s, &r, &err), 0);
    assert_int_equal(hb_flight_summarise(p->type, &s, &r, &e[0].summary, &err), 0);
    e[0].parameter[0] = 0.025;
    e[1].summary.crashed = true;
    e[1].summary.failure = "hit the ground";
    e[1].summary.settled_m = NAN;

    FILE *out = open_memstream(&text, &size);
    hb_flight_report_json(p->type, &e[0], out);
    fclose(out);
    assert_ptr_equal(strchr(text, '\n'), text + size - 1);
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    assert_near(json_number_value(json_object_get(o, "settled_m")), e[0].summary.settled_m, 1e-8);
    assert_near(json_number_value(json_object_get(o, "slew")), e[0].summary.slew, 1e-12);
    assert_true(json_is_false(json_object_get(o, "crashed")));
    assert_near(json_number_value(json_object_get(json_object_get(o, "parameters"), "mass")), 0.025, 1e-12);
    json_decref(o);
    free(text);

    out = open_memstream(&text, &size);
    hb_flight_report_batch_json(e, 2, out);
    fclose(out);
    o = json_loads(text, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(o, "flights")), 2);
    assert_int_equal(json_integer_value(json_object_get(o, "crashes")), 1);
    assert_int_equal(json_integer_value(json_object_get(o, "settled")), 1);
    assert_near(json_number_value(json_object_get(json_object_get(o, "settled_m"), "median")), e[0].summary.settled_m,
                1e-8);
    json_decref(o);
    free(text);

    close(mkstemp(csv));
    assert_int_equal(hb_flight_report_csv(csv, p->type, &r, &err), 0);
    FILE *in = fopen(csv, "r");
    int lines = 0;
    double time = -1, x = -1;
    while (fgets(line, sizeof line, in))
        if (lines++ == 10)
            assert_int_equal(sscanf(line, "%lf,%lf", &time, &x), 2);
    fclose(in);
    unlink(csv);
    assert_int_equal(lines, 151);
    assert_near(time, 9 * 0.04, 1e-9);
    assert_near(x, r.x[9 * NX], 1e-8);
    hb_flight_record_free(&r);
    hb_plant_free(p);
}

static hb_flight_record fly_in(const char *weather, hb_plant *p, pd_loop *l, hb_flight_settings *s)
{
    double low[HB_PLANT_PARAMETERS], high[HB_PLANT_PARAMETERS];
    hb_flight_record r = {0};
    hb_error err = {0};

    for (int i = 0; i < p->type->nparameters; i++)
        low[i] = p->type->parameter[i].nominal;
    assert_int_equal(hb_weather_read(p->type, weather, low, high, &s->link, &err), 0);
    for (int i = 0; i < p->type->nparameters; i++)
        assert_int_equal(hb_plant_set(p, i, low[i], &err), 0);
    if (s->link.request_rate > 0)
        s->dt = 1 / s->link.request_rate;
    assert_int_equal(hb_flight_run(p, &l->loop, s, &r, &err), 0);
    return r;
}

/* telemetry at a rate of its own, with jitter: times are truthful, increasing, and as far off as they may be */
static void telemetry_keeps_its_own_time(void **state)
{
    hb_plant *p = quadrotor();
    pd_loop l = make_loop();
    hb_flight_settings s = settings();
    hb_flight_record r = fly_in("telemetry_rate=100,request_rate=50,jitter=0.003", p, &l, &s);
    int moved = 0;
    (void)state;

    assert_int_equal(r.nsteps, 300);
    assert_true(l.told >= 599 && l.told <= 601);
    for (int k = 1; k < l.told; k++) {
        int64_t off = l.told_at[k] - 5000000 - k * 10000;
        assert_true(off >= -3000 && off <= 3000 && off % 1000 == 0 && l.told_at[k] > l.told_at[k - 1]);
        moved += off != 0;
    }
    assert_true(moved > l.told / 2);
    hb_flight_record_free(&r);
    hb_plant_free(p);
}

static void what_is_lost_is_not_told(void **state)
{
    hb_plant *p = quadrotor();
    pd_loop l = make_loop();
    hb_flight_settings s = settings();
    s.seconds = 40;
    hb_flight_record r = fly_in("loss=0.2,request_loss=0.1", p, &l, &s);
    int late = 0;
    (void)state;

    for (int k = 0; k < r.nsteps; k++)
        late += isnan(r.step[k].latency);
    /* of 1000: four standard deviations of a binomial are 51 and 38; half of the lost requests were asked */
    assert_int_equal(r.nsteps, 1000);
    assert_in_range(l.told, 750, 850);
    assert_in_range(late, 62, 138);
    assert_in_range(l.asked, 922, 978);
    hb_flight_record_free(&r);
    hb_plant_free(p);
}

static void one_sample_lies(void **state)
{
    hb_plant *p = quadrotor();
    pd_loop l = make_loop();
    hb_flight_settings s = settings();
    hb_flight_record r = fly_in("outlier=50,outlier_time=2,outlier_state=5,outlier_control=1", p, &l, &s);
    int lies = 0;
    (void)state;

    for (int k = 0; k < l.told; k++)
        if (fabs(l.told_vz[k] - r.x[k * NX + VZ]) > 1) {
            lies++;
            assert_int_equal(k, 50);
            assert_near(l.told_vz[k] - r.x[k * NX + VZ], 50, 1e-9);
            assert_near(l.told_u0[k], 1, 0);
        }
    assert_int_equal(lies, 1);
    hb_flight_record_free(&r);
    hb_plant_free(p);
}

static void telemetry_reports_what_is_in_force(void **state)
{
    hb_plant *p = quadrotor();
    pd_loop l = make_loop();
    hb_flight_settings s = settings();
    hb_flight_record r = fly_in("delay=0.04,report=1", p, &l, &s);
    (void)state;

    for (int k = 1; k < l.told; k++)
        assert_near(l.told_u0[k], r.step[k - 1].answer.action[0], 0);
    hb_flight_record_free(&r);
    hb_plant_free(p);
}

static void weather_is_read_and_checked(void **state)
{
    const hb_plant_type *t = &hb_plant_quadrotor;
    double low[HB_PLANT_PARAMETERS] = {0}, high[HB_PLANT_PARAMETERS] = {0};
    int lag = hb_plant_parameter_find(t, "lag", NULL);
    hb_link link = {0};
    hb_error err = {0};
    (void)state;

    assert_int_equal(hb_weather_read(t, "real,lag=0.06,loss=0", low, high, &link, &err), 0);
    assert_true(low[lag] == 0.06 && high[lag] == 0.06 && link.loss == 0 && link.jitter > 0);
    assert_int_equal(hb_weather_read(t, "hurricane", low, high, &link, &err), -EINVAL);
    assert_non_null(strstr(err.text, "hurricane"));
    assert_int_equal(hb_weather_read(t, "lag=-1", low, high, &link, &err), -EINVAL);
    assert_int_equal(hb_weather_read(t, "loss=2", low, high, &link, &err), -EINVAL);
    assert_int_equal(hb_weather_read(t, "lug=1", low, high, &link, &err), -EINVAL);
    for (int i = 0; hb_weather_at(i); i++)
        assert_int_equal(hb_weather_read(t, hb_weather_at(i)->name, low, high, &link, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_loop_settles),
        cmocka_unit_test(targets_and_changes_reach_the_loop_and_the_plant),
        cmocka_unit_test(a_crash_ends_the_flight),
        cmocka_unit_test(a_broken_loop_is_an_error),
        cmocka_unit_test(late_answers_keep_the_last_action),
        cmocka_unit_test(reports_say_the_same),
        cmocka_unit_test(telemetry_keeps_its_own_time),
        cmocka_unit_test(what_is_lost_is_not_told),
        cmocka_unit_test(one_sample_lies),
        cmocka_unit_test(telemetry_reports_what_is_in_force),
        cmocka_unit_test(weather_is_read_and_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
