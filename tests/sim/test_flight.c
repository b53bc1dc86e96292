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

/* What every test here flies: a plant, the loop around it, and what came of the flight. */
typedef struct flight_case {
    hb_plant *p;
    pd_loop l;
    hb_flight_settings s;
    hb_flight_record r;
    hb_flight_summary sum;
    hb_error err;
} flight_case;

static int set_up(void **state)
{
    flight_case *f = calloc(1, sizeof *f);

    assert_non_null(f);
    *f = (flight_case){.p = quadrotor(), .l = make_loop(), .s = settings()};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    flight_case *f = *state;

    hb_flight_record_free(&f->r);
    hb_plant_free(f->p);
    free(f);
    return 0;
}

static void fly(flight_case *f)
{
    if (hb_flight_run(f->p, &f->l.loop, &f->s, &f->r, &f->err))
        fail_msg("%s", f->err.text);
    if (hb_flight_summarise(f->p->type, &f->s, &f->r, &f->sum, &f->err))
        fail_msg("%s", f->err.text);
}

static void a_good_loop_settles(void **state)
{
    flight_case *f = *state;

    fly(f);
    assert_int_equal(f->r.nsteps, 150);
    assert_int_equal(f->l.asked, 150);
    assert_int_equal(f->l.told, 150);
    assert_false(f->l.had_target);
    /* the last sample told: the state asked about, the action answered, at that state's time */
    assert_true(f->l.told_us == 5000000 + 149 * 40000 && f->l.asked_us == f->l.told_us);
    assert_memory_equal(f->l.told_x, f->l.x, sizeof f->l.x);
    assert_memory_equal(f->l.told_u, f->r.step[149].answer.action, sizeof f->l.told_u);
    assert_memory_equal(f->l.told_x, f->r.x + 149 * NX, sizeof f->l.told_x);

    assert_false(f->sum.crashed);
    assert_true(f->sum.settled_m < 0.02);

    /* the same figures, worked out again */
    double distance = 0, slew = 0;
    int from = 0;
    for (int k = 0; k <= 150; k++) {
        const double *x = f->r.x + k * NX;
        double d = sqrt(x[X] * x[X] + x[Y] * x[Y] + (x[Z] - 1) * (x[Z] - 1));
        distance += k > 125 ? d / 25 : 0;
        from = d > 0.1 ? k + 1 : from;
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 149; k++)
            slew += pow(f->r.step[k + 1].answer.action[i] - f->r.step[k].answer.action[i], 2) / 149;
    assert_near(f->sum.settled_m, distance, 1e-12);
    assert_near(f->sum.settled_after_s, 0.04 * from, 1e-12);
    assert_near(f->sum.slew, slew, 1e-15);
    assert_near(f->sum.cost, 151 / 2.0, 1e-9);
    assert_int_equal(f->sum.status[HB_STATUS_CONVERGED], 150);
    assert_int_equal(f->sum.late, 0);
    assert_near(f->sum.planning[0], 0.001, 0);
}

static void targets_and_changes_reach_the_loop_and_the_plant(void **state)
{
    flight_case *f = *state;
    int mass = hb_plant_parameter_find(f->p->type, "mass", &f->err);

    f->s.seconds = 12;
    f->s.has_target = true;
    f->s.target[X] = 0.5;
    f->s.target[Z] = 1.2;
    f->s.target[QW] = 1;
    f->s.event[0] = (hb_flight_event){.time = 4, .parameter = mass, .value = 0.031};
    f->s.event[1] = (hb_flight_event){.time = 8, .parameter = mass, .value = 0.027};
    f->s.nevents = 2;
    fly(f);
    assert_true(f->l.had_target);
    assert_near(f->l.target[X], 0.5, 0);
    assert_true(f->sum.settled_m < 0.02);
    assert_int_equal(f->sum.nresponses, 2);
    /* a PD that does not know the new weight sags: m a = m' (6 dz + g) - (m' + d) g, so 6 dz = d g / m' */
    double sag = 0.004 * 9.81 / (6 * 0.027);
    assert_near(f->r.x[199 * NX + Z], 1.2 - sag, 0.02);
    assert_true(f->sum.response[0].height_loss > sag - 0.03);
    assert_true(isinf(f->sum.response[0].settled));
    assert_true(isfinite(f->sum.response[1].settled));
}

static void a_crash_ends_the_flight(void **state)
{
    flight_case *f = *state;

    f->l.mass = 0.01; /* far too little thrust */
    fly(f);
    assert_string_equal(f->r.failure, "hit the ground");
    assert_true(f->r.nsteps < 100);
    assert_true(f->r.x[f->r.nsteps * NX + Z] < 0);
    assert_true(f->sum.crashed);
    assert_true(isinf(f->sum.settled_after_s));
}

static void a_broken_loop_is_an_error(void **state)
{
    flight_case *f = *state;

    f->l.broken_at = 20;
    assert_int_equal(hb_flight_run(f->p, &f->l.loop, &f->s, &f->r, &f->err), -EIO);
    assert_string_equal(f->err.text, "broken");
    assert_null(f->r.x);
}

/* In real time a missing answer costs a period, and the last action stays. */
static void late_answers_keep_the_last_action(void **state)
{
    flight_case *f = *state;

    f->s.seconds = 0.4;
    f->s.realtime = true;
    f->l.silent_from = 4;
    f->l.silent_to = 6;
    fly(f);
    assert_int_equal(f->r.nsteps, 10);
    assert_true(isnan(f->r.step[4].latency) && isnan(f->r.step[5].latency));
    assert_memory_equal(f->r.step[4].answer.action, f->r.step[3].answer.action, sizeof(double[4]));
    assert_memory_equal(f->r.step[5].answer.action, f->r.step[3].answer.action, sizeof(double[4]));
    assert_true(f->sum.late >= 2); /* on a busy machine others may be late as well */
    assert_true(f->l.told >= 10);
}

static void reports_say_the_same(void **state)
{
    flight_case *f = *state;
    hb_flight_entry e[2] = {0};
    char csv[] = "/tmp/test_flight.XXXXXX", line[2000], *text = NULL;
    size_t size = 0;

    fly(f);
    e[0].summary = f->sum;
    e[0].parameter[0] = 0.025;
    e[1].summary.crashed = true;
    e[1].summary.failure = "hit the ground";
    e[1].summary.settled_m = NAN;

    FILE *out = open_memstream(&text, &size);
    hb_flight_report_json(f->p->type, &e[0], out);
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
    assert_int_equal(hb_flight_report_csv(csv, f->p->type, &f->r, &f->err), 0);
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
    assert_near(x, f->r.x[9 * NX], 1e-8);
}

static void fly_in(flight_case *f, const char *weather)
{
    const hb_plant_type *type = f->p->type;
    double low[HB_PLANT_PARAMETERS], high[HB_PLANT_PARAMETERS];

    for (int i = 0; i < type->nparameters; i++)
        low[i] = type->parameter[i].nominal;
    assert_int_equal(hb_weather_read(type, weather, low, high, &f->s.link, &f->err), 0);
    for (int i = 0; i < type->nparameters; i++)
        assert_int_equal(hb_plant_set(f->p, i, low[i], &f->err), 0);
    if (f->s.link.request_rate > 0)
        f->s.dt = 1 / f->s.link.request_rate;
    fly(f);
}

/* telemetry at a rate of its own, with jitter: times are truthful, increasing, and as far off as they may be */
static void telemetry_keeps_its_own_time(void **state)
{
    flight_case *f = *state;
    fly_in(f, "telemetry_rate=100,request_rate=50,jitter=0.003");
    int moved = 0;

    assert_int_equal(f->r.nsteps, 300);
    assert_true(f->l.told >= 599 && f->l.told <= 601);
    for (int k = 1; k < f->l.told; k++) {
        int64_t off = f->l.told_at[k] - 5000000 - k * 10000;
        assert_true(off >= -3000 && off <= 3000 && off % 1000 == 0 && f->l.told_at[k] > f->l.told_at[k - 1]);
        moved += off != 0;
    }
    assert_true(moved > f->l.told / 2);
}

static void what_is_lost_is_not_told(void **state)
{
    flight_case *f = *state;
    f->s.seconds = 40;
    fly_in(f, "loss=0.2,request_loss=0.1");
    int late = 0;

    for (int k = 0; k < f->r.nsteps; k++)
        late += isnan(f->r.step[k].latency);
    /* of 1000: four standard deviations of a binomial are 51 and 38; half of the lost requests were asked */
    assert_int_equal(f->r.nsteps, 1000);
    assert_in_range(f->l.told, 750, 850);
    assert_in_range(late, 62, 138);
    assert_in_range(f->l.asked, 922, 978);
}

/* in frozen time a question, or its answer, is lost on the way: it is asked again, and the flight is the same */
static void what_is_lost_is_asked_again(void **state)
{
    flight_case *f = *state;
    pd_loop good = f->l;
    double end[NX];

    fly(f);
    memcpy(end, f->r.x + (f->r.nsteps - 1) * NX, sizeof end);
    hb_flight_record_free(&f->r);
    f->r = (hb_flight_record){0};
    f->l = good;
    f->l.silent_from = 20;
    f->l.silent_to = 22;
    fly(f);
    assert_int_equal(f->r.nsteps, 150);
    assert_int_equal(f->l.asked, 152);
    assert_memory_equal(end, f->r.x + 149 * NX, sizeof end);
}

static void one_sample_lies(void **state)
{
    flight_case *f = *state;
    fly_in(f, "outlier=50,outlier_time=2,outlier_state=5,outlier_control=1");
    int lies = 0;

    for (int k = 0; k < f->l.told; k++)
        if (fabs(f->l.told_vz[k] - f->r.x[k * NX + VZ]) > 1) {
            lies++;
            assert_int_equal(k, 50);
            assert_near(f->l.told_vz[k] - f->r.x[k * NX + VZ], 50, 1e-9);
            assert_near(f->l.told_u0[k], 1, 0);
        }
    assert_int_equal(lies, 1);
}

static void telemetry_reports_what_is_in_force(void **state)
{
    flight_case *f = *state;
    fly_in(f, "delay=0.04,report=1");

    for (int k = 1; k < f->l.told; k++)
        assert_near(f->l.told_u0[k], f->r.step[k - 1].answer.action[0], 0);
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
        cmocka_unit_test_setup_teardown(a_good_loop_settles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(targets_and_changes_reach_the_loop_and_the_plant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_crash_ends_the_flight, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_broken_loop_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(late_answers_keep_the_last_action, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reports_say_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(telemetry_keeps_its_own_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_lost_is_not_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_lost_is_asked_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_sample_lies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(telemetry_reports_what_is_in_force, set_up, tear_down),
        cmocka_unit_test(weather_is_read_and_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
