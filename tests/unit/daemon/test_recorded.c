/* What a replay says of replies that differ from the recorded ones, and of messages that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hilbert.pb-c.h"
#include "server/recorded.h"
#include "test_models.h"

enum { NH = 2 };

typedef struct fixture {
    hb_model *m;
    hb_wire *w;
    double action[1], plan[NH], states[(NH + 1) * 2];
    hb_command command;
    hb_recorded recorded; /* its reply */
    char what[256];
} fixture;

/* The command's reply as a recording has it. */
static void record(fixture *f)
{
    Hilbert__V1__RecordedReply m = HILBERT__V1__RECORDED_REPLY__INIT;
    Hilbert__V1__Decision decision = HILBERT__V1__DECISION__INIT;
    const hb_command *c = &f->command;
    const hb_action_reply reply = {
        .id = 7, .status = c->status, .reason = c->reason, .action = c->action, .command = c, .want_plan = true};
    const void *data;
    uint8_t bytes[4096];
    hb_error err = {0};

    size_t n = hb_wire_write_reply(f->w, &reply, &data);
    m.reply = hilbert__v1__action_reply__unpack(NULL, n, data);
    assert_non_null(m.reply);
    m.decision = &decision;
    assert_true(hilbert__v1__recorded_reply__get_packed_size(&m) <= sizeof bytes);
    n = hilbert__v1__recorded_reply__pack(&m, bytes);
    hilbert__v1__action_reply__free_unpacked(m.reply, NULL);
    if (hb_recorded_read(&f->recorded, HB_TOPIC_REPLIES, bytes, n, f->m, &err))
        fail_msg("%s", err.text);
    assert_int_equal(f->recorded.kind, HB_RECORDED_COMMAND);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    assert_int_equal(hb_test_cart(&f->m, NULL), 0);
    const hb_wire_sizes sizes = {.nx = f->m->nx,
                                 .nu = f->m->nu,
                                 .horizon = NH,
                                 .ncoefficients = hb_model_ncoefficients(f->m),
                                 .nb = f->m->nb,
                                 .max_message = 4096};
    assert_int_equal(hb_wire_new(&f->w, &sizes, NULL), 0);
    f->action[0] = 0.5;
    f->command = (hb_command){.action = f->action,
                              .status = HB_STATUS_CONVERGED,
                              .cost = 2,
                              .iterations = 3,
                              .version = 4,
                              .health = {.samples = 5, .one_step_error = 0.1},
                              .plan = f->plan,
                              .states = f->states,
                              .horizon = NH};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    hb_recorded_free(&f->recorded);
    hb_wire_free(f->w);
    hb_model_free(f->m);
    free(f);
    return 0;
}

static void test_the_same(void **state)
{
    fixture *f = *state;

    record(f);
    assert_true(hb_recorded_same(&f->recorded, f->w, &f->command, true, f->what));
    f->command.planning = 5; /* times are no part of it */
    assert_true(hb_recorded_same(&f->recorded, f->w, &f->command, true, f->what));
}

/* The command as it is now differs from the recorded one, and the reason is told. */
static void expect(fixture *f, bool want_plan, const char *expected)
{
    assert_false(hb_recorded_same(&f->recorded, f->w, &f->command, want_plan, f->what));
    assert_string_equal(f->what, expected);
}

static void test_the_first_field_that_differs(void **state)
{
    fixture *f = *state;
    const hb_command before = f->command;

    record(f);
    f->action[0] = 0.75;
    expect(f, true, "action[0] is 0.75, recorded 0.5");
    f->action[0] = 0.5;

    f->command.cost = 2.5;
    expect(f, true, "cost is 2.5, recorded 2");
    f->command = before;

    f->command.iterations = 8;
    expect(f, true, "iterations is 8, recorded 3");
    f->command = before;

    f->command.version = 9;
    expect(f, true, "coefficient_version is 9, recorded 4");
    f->command = before;

    f->command.corrected = true;
    expect(f, true, "corrected differs");
    f->command = before;

    f->command.limit = "fence";
    expect(f, true, "limit is 'fence', recorded ''");
    f->command = before;

    /* in a message within the message */
    f->command.health.one_step_error = 0.25;
    expect(f, true, "health.one_step_error is 0.25, recorded 0.10000000000000001");
    f->command = before;

    f->states[3] = 1;
    expect(f, true, "predicted[3] is 1, recorded 0");
    f->states[3] = 0;

    expect(f, false, "plan: 0 numbers, recorded 2");

    f->command.status = HB_STATUS_TRUNCATED;
    assert_false(hb_recorded_same(&f->recorded, f->w, &f->command, true, f->what));
    assert_non_null(strstr(f->what, "status is "));
    assert_non_null(strstr(f->what, "truncated"));
    assert_non_null(strstr(f->what, "converged"));
}

/* The request is the client's message as it came, wherever the recorder's own fields stand. */
static void test_a_request(void **state)
{
    fixture *f = *state;
    double x[] = {1, 2};
    Hilbert__V1__ActionRequest asked = HILBERT__V1__ACTION_REQUEST__INIT;
    uint8_t message[256], bytes[512];
    hb_action_request request;
    hb_error err = {0};

    asked.id = 77;
    asked.time_us = 5000;
    asked.state = x;
    asked.n_state = 2;
    const size_t n = hilbert__v1__action_request__pack(&asked, message);
    for (int first = 0; first < 2; first++) {
        size_t at = 0;
        for (int part = 0; part < 2; part++)
            if (part == first) {
                at += hb_wire_field(bytes + at, 1, n);
                memcpy(bytes + at, message, n);
                at += n;
            } else {
                Hilbert__V1__RecordedRequest around = HILBERT__V1__RECORDED_REQUEST__INIT;
                around.received = 2.5;
                around.heard = 300;
                around.fresh = true;
                at += hilbert__v1__recorded_request__pack(&around, bytes + at);
            }
        hb_recorded_free(&f->recorded);
        assert_int_equal(hb_recorded_read(&f->recorded, HB_TOPIC_REQUESTS, bytes, at, f->m, &err), 0);
        assert_int_equal(f->recorded.nsent, n);
        assert_memory_equal(f->recorded.sent, message, n);
        assert_int_equal(hb_recorded_request(&f->recorded, f->w, &request), HB_REASON_NONE);
        assert_int_equal(request.id, 77);
        assert_true(request.request.x[1] == 2 && request.request.received == 2.5 && request.request.fresh);
    }
}

static void test_messages_that_are_none(void **state)
{
    fixture *f = *state;
    hb_recorded r;
    hb_recorded_head h;
    hb_error err = {0};
    const uint8_t none[] = {0xff, 0xff, 0xff};

    assert_int_equal(hb_recorded_read(&r, HB_TOPIC_REPLIES, none, sizeof none, f->m, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "cannot be understood"));
    /* a request that holds none */
    assert_int_equal(hb_recorded_read(&r, HB_TOPIC_REQUESTS, none, 0, f->m, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "not of a vehicle with 2 states and 1 controls"));
    assert_int_equal(hb_recorded_head_read(&h, none, sizeof none, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "cannot be understood"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_first_field_that_differs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_messages_that_are_none, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
