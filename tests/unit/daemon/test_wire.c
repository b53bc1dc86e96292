/* The wire against messages packed by protobuf-c itself, and against bytes that are none. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "hilbert.pb-c.h"
#include "json.h"
#include "server/wire.h"

enum { NX = 3, NU = 2, NH = 4, NC = 5 };

static hb_wire *new_wire(int max_message)
{
    hb_wire *w = NULL;

    assert_int_equal(
        hb_wire_new(&w,
                    &(hb_wire_sizes){
                        .nx = NX, .nu = NU, .horizon = NH, .ncoefficients = NC, .nb = NC, .max_message = max_message},
                    NULL),
        0);
    return w;
}

/* ---- reading ---- */

typedef struct request_fields {
    int nx, nu, ntarget, ntimes, napplied;
    double x0, target0, applied0;
    int64_t time;
} request_fields;

static size_t pack_request(const request_fields *f, uint8_t *frame)
{
    static double x[100], target[2000], target_time[300], applied[100];
    Hilbert__V1__ActionRequest m = HILBERT__V1__ACTION_REQUEST__INIT;

    x[0] = f->x0;
    target[0] = f->target0;
    applied[0] = f->applied0;
    m.id = 42;
    m.time_us = f->time;
    m.n_state = (size_t)f->nx;
    m.state = x;
    m.n_target = (size_t)f->ntarget;
    m.target = target;
    m.n_target_time = (size_t)f->ntimes;
    m.target_time = target_time;
    m.n_applied = (size_t)f->napplied;
    m.applied = applied;
    m.budget_us = 2500;
    return hilbert__v1__action_request__pack(&m, frame);
}

static void test_requests_are_checked(void **state)
{
    (void)state;
    const struct {
        request_fields f;
        hb_reason why;
    } table[] = {
        {{.nx = NX}, HB_REASON_NONE},
        {{.nx = NX, .ntarget = NX, .napplied = NU}, HB_REASON_NONE},
        {{.nx = NX, .ntarget = (NH + 1) * NX}, HB_REASON_NONE},
        {{.nx = NX, .ntarget = 2 * NX, .ntimes = 2}, HB_REASON_NONE},
        {{.nx = NX, .ntarget = 2 * NX, .ntimes = 3}, HB_REASON_DIMENSION},
        {{.nx = NX, .ntimes = 1}, HB_REASON_DIMENSION},
        {{.nx = NX, .ntarget = 257 * NX, .ntimes = 257}, HB_REASON_HORIZON},
        {{.nx = 0}, HB_REASON_DIMENSION},
        {{.nx = NX - 1}, HB_REASON_DIMENSION},
        {{.nx = NX + 1}, HB_REASON_DIMENSION},
        {{.nx = NX, .napplied = NU + 1}, HB_REASON_DIMENSION},
        {{.nx = NX, .ntarget = NX + 1}, HB_REASON_DIMENSION},
        {{.nx = NX, .ntarget = 2 * NX}, HB_REASON_HORIZON},
        {{.nx = NX, .ntarget = (NH + 2) * NX}, HB_REASON_HORIZON},
        {{.nx = NX, .x0 = NAN}, HB_REASON_NOT_FINITE},
        {{.nx = NX, .x0 = -INFINITY}, HB_REASON_NOT_FINITE},
        {{.nx = NX, .ntarget = NX, .target0 = NAN}, HB_REASON_NOT_FINITE},
        {{.nx = NX, .napplied = NU, .applied0 = INFINITY}, HB_REASON_NOT_FINITE},
        {{.nx = NX, .time = -1}, HB_REASON_BAD_TIME},
        {{.nx = NX, .time = INT64_MAX}, HB_REASON_BAD_TIME},
        {{.nx = NX, .time = INT64_MIN}, HB_REASON_BAD_TIME},
    };
    hb_wire *w = new_wire(65536);
    uint8_t frame[16384];

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        hb_action_request r;
        size_t n = pack_request(&table[i].f, frame);
        assert_int_equal(hb_wire_read_request(w, frame, n, &r), table[i].why);
        assert_int_equal(r.id, 42);
        if (table[i].why == HB_REASON_NONE) {
            assert_int_equal(r.request.nx, NX);
            assert_int_equal(r.request.ntargets, table[i].f.ntarget / NX);
            assert_int_equal(r.request.target != NULL, table[i].f.ntarget > 0);
            assert_int_equal(r.request.target_time != NULL, table[i].f.ntimes > 0);
            assert_int_equal(r.request.applied != NULL, table[i].f.napplied > 0);
            assert_true(fabs(r.budget - 0.0025) < 1e-12);
        }
    }
    hb_wire_free(w);
}

/* no prefix and no flipped bit of a message may crash or read beyond it (the sanitizers watch) */
static void test_damaged_requests_do_no_harm(void **state)
{
    (void)state;
    hb_wire *w = new_wire(4096);
    uint8_t frame[1024];
    size_t n = pack_request(&(request_fields){.nx = NX, .ntarget = NX, .napplied = NU, .time = 5}, frame);
    hb_action_request r;

    for (size_t i = 0; i < n; i++) {
        uint8_t *copy = malloc(i + 1);
        memcpy(copy, frame, i);
        hb_wire_read_request(w, copy, i, &r);
        free(copy);
    }
    for (size_t bit = 0; bit < 8 * n; bit++) {
        uint8_t *copy = malloc(n);
        memcpy(copy, frame, n);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        hb_wire_read_request(w, copy, n, &r);
        hb_observation o;
        uint64_t sequence;
        hb_wire_read_telemetry(w, copy, n, &o, &sequence);
        hb_control_request c;
        hb_wire_read_control(w, copy, n, &c, NULL);
        free(copy);
    }
    assert_int_equal(hb_wire_read_request(w, frame, n, &r), HB_REASON_NONE);
    assert_int_equal(hb_wire_read_request(w, "", 0, &r), HB_REASON_DIMENSION);
    assert_int_equal(hb_wire_read_request(w, "\xff", 1, &r), HB_REASON_MALFORMED);
    hb_wire_free(w);
}

/* many small fields unpack to far more memory than they have bytes: that must end in a refusal */
static void test_a_message_that_unpacks_too_large_is_refused(void **state)
{
    (void)state;
    hb_wire *w = new_wire(1024);
    static uint8_t bomb[65536];
    hb_action_request r;
    hb_control_request c;
    hb_error err;

    for (size_t i = 0; i + 1 < sizeof bomb; i += 2) {
        bomb[i] = 0xfa; /* field 15, length-delimited, unknown */
        bomb[i + 1] = 0;
    }
    hb_wire_read_request(w, bomb, sizeof bomb, &r);
    for (size_t i = 0; i + 1 < sizeof bomb; i += 2) {
        bomb[i] = 0x2a; /* set_target, again and again */
        bomb[i + 1] = 0;
    }
    assert_true(hb_wire_read_control(w, bomb, sizeof bomb, &c, &err) < 0);
    hb_wire_free(w);
}

static void test_telemetry_is_checked(void **state)
{
    (void)state;
    hb_wire *w = new_wire(4096);
    double x[NX + 1] = {1, 2, 3}, u[NU] = {4, 5};
    Hilbert__V1__Telemetry m = HILBERT__V1__TELEMETRY__INIT;
    uint8_t frame[1024];
    hb_observation o;
    uint64_t sequence = 0;

    m.time_us = 123;
    m.state = x;
    m.n_state = NX;
    m.control = u;
    m.n_control = NU;
    m.sequence = 9;
    m.reset_counter = 6;
    size_t n = hilbert__v1__telemetry__pack(&m, frame);
    assert_int_equal(hb_wire_read_telemetry(w, frame, n, &o, &sequence), HB_REASON_NONE);
    assert_int_equal(o.time_us, 123);
    assert_int_equal(sequence, 9);
    assert_int_equal(o.reset_counter, 6);
    assert_memory_equal(o.x, x, NX * sizeof *x);
    assert_memory_equal(o.u, u, sizeof u);
    assert_null(o.u_before);

    u[1] = NAN;
    n = hilbert__v1__telemetry__pack(&m, frame);
    assert_int_equal(hb_wire_read_telemetry(w, frame, n, &o, &sequence), HB_REASON_NOT_FINITE);
    m.n_control = 1;
    n = hilbert__v1__telemetry__pack(&m, frame);
    assert_int_equal(hb_wire_read_telemetry(w, frame, n, &o, &sequence), HB_REASON_DIMENSION);
    m.n_control = NU;
    u[1] = 0;
    m.time_us = -5;
    n = hilbert__v1__telemetry__pack(&m, frame);
    assert_int_equal(hb_wire_read_telemetry(w, frame, n, &o, &sequence), HB_REASON_BAD_TIME);
    assert_int_equal(hb_wire_read_telemetry(w, "\x12\x07", 2, &o, &sequence), HB_REASON_MALFORMED);
    hb_wire_free(w);
}

static void test_predictions_are_bounded(void **state)
{
    (void)state;
    hb_wire *w = new_wire(4096);
    double numbers[200] = {0};
    Hilbert__V1__Predict p = HILBERT__V1__PREDICT__INIT;
    Hilbert__V1__ControlRequest m = HILBERT__V1__CONTROL_REQUEST__INIT;
    uint8_t frame[4096];
    hb_control_request r;
    hb_error err;

    m.id = 5;
    m.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_PREDICT;
    m.predict = &p;
    p.state = p.control = numbers;
    const struct {
        uint32_t count, steps;
        size_t nstate, ncontrol;
        double dt;
        int result;
    } table[] = {
        {2, 3, 2 * NX, 2 * 3 * NU, 0, 0},
        {2, 3, 2 * NX, 2 * 3 * NU, -1, -EINVAL},
        {2, 3, 2 * NX, 2 * 3 * NU, NAN, -EINVAL},
        {0, 3, 0, 0, 0, -EINVAL},
        {1, 0, NX, 0, 0, -EINVAL},
        {2, 3, NX, 2 * 3 * NU, 0, -EINVAL},
        {2, 3, 2 * NX, 3 * NU, 0, -EINVAL},
        {UINT32_MAX, UINT32_MAX, 0, 0, 0, -EMSGSIZE},
        {UINT32_MAX, 1, 0, 0, 0, -EMSGSIZE},
        {1, 200, NX, 100, 0, -EMSGSIZE},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        p.count = table[i].count;
        p.steps = table[i].steps;
        p.n_state = table[i].nstate;
        p.n_control = table[i].ncontrol;
        p.dt = table[i].dt;
        size_t n = hilbert__v1__control_request__pack(&m, frame);
        assert_int_equal(hb_wire_read_control(w, frame, n, &r, &err), table[i].result);
        assert_int_equal(r.id, 5);
    }
    hb_wire_free(w);
}

/* ---- writing ---- */

static void test_a_reply_arrives_whole(void **state)
{
    (void)state;
    hb_wire *w = new_wire(4096);
    const double action[NU] = {0.5, -0.5}, plan[NH * NU] = {1, 2, 3, 4, 5, 6, 7, 8}, states[(NH + 1) * NX] = {9};
    const hb_command command = {.action = action,
                                .cost = 12.5,
                                .iterations = 7,
                                .version = 3,
                                .age = INFINITY,
                                .health = {.status = HB_ESTIMATE_OK, .one_step_error = 0.25, .samples = 100},
                                .plan = plan,
                                .states = states,
                                .horizon = NH};
    hb_action_reply r = {.id = 77,
                         .status = HB_STATUS_STALE,
                         .reason = HB_REASON_NONE,
                         .action = action,
                         .command = &command,
                         .want_plan = true,
                         .queue = 1e-6,
                         .planning = 2e-3,
                         .total = 5000};
    const void *data;

    size_t n = hb_wire_write_reply(w, &r, &data);
    Hilbert__V1__ActionReply *m = hilbert__v1__action_reply__unpack(NULL, n, data);
    assert_non_null(m);
    assert_int_equal(m->id, 77);
    assert_int_equal(m->status, HILBERT__V1__ACTION_STATUS__ACTION_STATUS_STALE);
    assert_int_equal(m->reason, HILBERT__V1__REASON__REASON_NONE);
    assert_int_equal(m->n_action, NU);
    assert_memory_equal(m->action, action, sizeof action);
    assert_true(m->cost == 12.5 && m->iterations == 7 && m->coefficient_version == 3 && isinf(m->coefficient_age));
    assert_int_equal(m->queue_us, 1);
    assert_int_equal(m->planning_us, 2000);
    assert_int_equal(m->total_us, UINT32_MAX);
    assert_int_equal(m->health->status, HILBERT__V1__ESTIMATE_STATUS__ESTIMATE_STATUS_OK);
    assert_int_equal(m->n_plan, NH * NU);
    assert_memory_equal(m->plan, plan, sizeof plan);
    assert_int_equal(m->n_predicted, (NH + 1) * NX);
    hilbert__v1__action_reply__free_unpacked(m, NULL);

    r.want_plan = false;
    n = hb_wire_write_reply(w, &r, &data);
    m = hilbert__v1__action_reply__unpack(NULL, n, data);
    assert_int_equal(m->n_plan + m->n_predicted, 0);
    hilbert__v1__action_reply__free_unpacked(m, NULL);

    n = hb_wire_write_reply(w, &(hb_action_reply){.status = HB_STATUS_REFUSED, .reason = HB_REASON_MALFORMED}, &data);
    m = hilbert__v1__action_reply__unpack(NULL, n, data);
    assert_int_equal(m->reason, HILBERT__V1__REASON__REASON_MALFORMED);
    assert_int_equal(m->n_action, 0);
    assert_string_equal(m->detail, hb_reason_help[HB_REASON_MALFORMED]);
    hilbert__v1__action_reply__free_unpacked(m, NULL);
    hb_wire_free(w);
}

/* every status and reason of lib has its word on the wire and its counter, under lib's own name */
static void test_words_and_counters_are_libs(void **state)
{
    (void)state;
    hb_wire *w = new_wire(4096);
    hb_report report = {.version = "1", .name = "n"};
    const void *data;
    char word[64];
    const int on_the_wire[] = {
#define X(id, name, help) HILBERT__V1__ACTION_STATUS__ACTION_STATUS_##id,
        HB_STATUSES(X)
#undef X
    };

    for (int i = 0; i < HB_NSTATUSES; i++)
        report.controller.status[i] = 100 + (uint64_t)i;
    for (int i = 0; i < HB_NREASONS; i++) {
        report.controller.refused[i] = 200 + (uint64_t)i;
        report.server.refused[i] = 1000;
        report.server.set_aside[i] = 300 + (uint64_t)i;
    }
    size_t n = hb_wire_write_status(w, &report, &data);
    Hilbert__V1__Status *m = hilbert__v1__status__unpack(NULL, n, data);
    assert_non_null(m);
    for (int i = 0; i < HB_NSTATUSES; i++) {
        uint64_t *count = hb_json_field(&m->replies->base, hb_status_name[i]);
        assert_non_null(count);
        assert_int_equal(*count, 100 + i);
        hb_json_word(&hilbert__v1__action_status__descriptor, on_the_wire[i], word, sizeof word);
        assert_string_equal(word, hb_status_name[i]);
    }
    for (int i = 0; i < HB_NREASONS; i++) {
        uint64_t *refused = hb_json_field(&m->refused->base, hb_reason_name[i]);
        uint64_t *aside = hb_json_field(&m->set_aside->base, hb_reason_name[i]);
        assert_non_null(refused);
        assert_int_equal(*refused, 1200 + i);
        assert_int_equal(*aside, 300 + i);
        hb_json_word(&hilbert__v1__reason__descriptor, i + 1, word, sizeof word);
        assert_string_equal(word, hb_reason_name[i]);
    }
    hilbert__v1__status__free_unpacked(m, NULL);
    hb_wire_free(w);
}

static void test_the_published_json_is_json(void **state)
{
    (void)state;
    hb_wire *w = new_wire(1024);
    const hb_real coefficient[NC] = {1, 2, 3, 4, (hb_real)0.1};
    const double variance[NC] = {NAN}, x[NX] = {-1e300, 1e-300, 0};
    hb_report report = {.version = "1.\"2\\",
                        .name = "line\nbreak",
                        .model_hash = 0xfeed,
                        .answered = true,
                        .last_status = HB_STATUS_OUT_OF_SPAN,
                        .telemetry_age = INFINITY,
                        .coefficient = coefficient,
                        .variance = variance,
                        .state = x,
                        .health = {.status = HB_ESTIMATE_SINGULAR}};
    const void *data;
    json_error_t err;

    size_t n = hb_wire_write_status_json(w, &report, &data);
    assert_true(n > 0);
    json_t *root = json_loadb(data, n, 0, &err);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "version")), "1.\"2\\");
    assert_string_equal(json_string_value(json_object_get(root, "name")), "line\nbreak");
    assert_string_equal(json_string_value(json_object_get(root, "model_hash")), "000000000000feed");
    assert_string_equal(json_string_value(json_object_get(root, "last_status")), "out-of-span");
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "health"), "status")), "singular");
    assert_true(json_is_null(json_object_get(root, "telemetry_age")));
    assert_int_equal(json_array_size(json_object_get(root, "coefficient")), NC);
    assert_true(json_is_null(json_array_get(json_object_get(root, "variance"), 0)));
    assert_true(json_number_value(json_array_get(json_object_get(root, "state"), 0)) == -1e300);
    json_decref(root);
    hb_wire_free(w);
}

/* Lower triangles row by row: of one matrix, and of one for each state; none where a message has no room for them. */
static void test_the_covariance_arrives_packed(void **state)
{
    (void)state;
    const hb_real coefficient[2 * NX] = {1, 2, 3, 4, 5, 6};
    double covariance[NX * 4] = {0}, variance[2 * NX] = {0};
    const void *data;

    for (int i = 0; i < NX * 4; i++)
        covariance[i] = 1 + i;
    for (int per_state = 0; per_state < 2; per_state++) {
        hb_wire *w;
        const int nc = per_state ? 2 * NX : 2;
        assert_int_equal(
            hb_wire_new(
                &w,
                &(hb_wire_sizes){.nx = NX, .nu = NU, .horizon = NH, .ncoefficients = nc, .nb = 2, .max_message = 8192},
                NULL),
            0);
        const hb_control_reply reply = {
            .id = 3, .coefficient = coefficient, .variance = variance, .covariance = covariance};
        size_t n = hb_wire_write_control(w, &reply, &data);
        Hilbert__V1__ControlReply *m = hilbert__v1__control_reply__unpack(NULL, n, data);
        assert_non_null(m);
        assert_int_equal(m->result_case, HILBERT__V1__CONTROL_REPLY__RESULT_COEFFICIENTS);
        assert_int_equal(m->coefficients->n_value, nc);
        assert_int_equal(m->coefficients->n_covariance, per_state ? 3 * NX : 3);
        for (int p = 0; p < (per_state ? NX : 1); p++) {
            const double *triangle = m->coefficients->covariance + 3 * p;
            assert_true(triangle[0] == 1 + 4 * p && triangle[1] == 3 + 4 * p && triangle[2] == 4 + 4 * p);
        }
        hilbert__v1__control_reply__free_unpacked(m, NULL);
        hb_wire_free(w);
    }
    hb_wire *w = new_wire(1024);
    size_t n = hb_wire_write_control(
        w, &(hb_control_reply){.coefficient = coefficient, .variance = variance, .covariance = covariance}, &data);
    Hilbert__V1__ControlReply *m = hilbert__v1__control_reply__unpack(NULL, n, data);
    assert_non_null(m);
    assert_true(m->ok);
    assert_int_equal(m->coefficients->n_covariance, 0);
    hilbert__v1__control_reply__free_unpacked(m, NULL);
    hb_wire_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_are_checked),
        cmocka_unit_test(test_damaged_requests_do_no_harm),
        cmocka_unit_test(test_a_message_that_unpacks_too_large_is_refused),
        cmocka_unit_test(test_telemetry_is_checked),
        cmocka_unit_test(test_predictions_are_bounded),
        cmocka_unit_test(test_a_reply_arrives_whole),
        cmocka_unit_test(test_words_and_counters_are_libs),
        cmocka_unit_test(test_the_published_json_is_json),
        cmocka_unit_test(test_the_covariance_arrives_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
