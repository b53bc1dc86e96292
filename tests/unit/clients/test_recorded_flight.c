/* Recordings as another program would write them, message by message: what is read of them, and what becomes a data
 * set. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "data/recorded_flight.h"
#include "data/recording_import.h"
#include "hilbert.pb-c.h"
#include "mcap/mcap_writer.h"
#include "recording.h"

static char folder[] = "/tmp/hilbert-recorded-XXXXXX", path[64], other[64], set[64];

typedef struct tape {
    hb_mcap_writer *w;
    int fd;
    uint16_t channel[HB_NTOPICS];
    uint64_t log_time;
} tape;

static void begin_tape(tape *t, const char *file)
{
    const hb_mcap_writer_settings s = {.chunk_size = 1 << 14, .message = 1 << 16, .chunks = 1000, .level = 1};

    *t = (tape){.fd = open(file, O_CREAT | O_TRUNC | O_WRONLY, 0600), .log_time = 1700000000000000000};
    assert_true(t->fd >= 0);
    assert_int_equal(hb_mcap_writer_new(&t->w, &s, NULL), 0);
    assert_int_equal(hb_mcap_writer_begin(t->w, t->fd, HB_RECORDING_PROFILE, "test", NULL), 0);
    for (int i = 0; i < HB_NTOPICS; i++) {
        uint16_t schema = hb_mcap_writer_schema(t->w, hb_topic_descriptor[i]->name, "protobuf", hb_descriptor_set,
                                                hb_descriptor_set_size);
        t->channel[i] = hb_mcap_writer_channel(t->w, schema, hb_topic_name[i], "protobuf");
    }
}

static void write_message(tape *t, hb_topic topic, const ProtobufCMessage *m)
{
    uint8_t data[8192];
    size_t n = protobuf_c_message_get_packed_size(m);

    assert_true(n <= sizeof data);
    protobuf_c_message_pack(m, data);
    t->log_time += 1000;
    assert_int_equal(hb_mcap_writer_message(t->w, t->channel[topic], 0, t->log_time, t->log_time, data, n, NULL), 0);
}

static void end_tape(tape *t)
{
    assert_int_equal(hb_mcap_writer_end(t->w, NULL), 0);
    hb_mcap_writer_free(t->w);
    close(t->fd);
}

static void write_recording(tape *t, uint64_t run)
{
    Hilbert__V1__Recording m = HILBERT__V1__RECORDING__INIT;
    Hilbert__V1__Channel channel[3] = {HILBERT__V1__CHANNEL__INIT, HILBERT__V1__CHANNEL__INIT,
                                       HILBERT__V1__CHANNEL__INIT},
                         *list[] = {&channel[0], &channel[1], &channel[2]};
    char *const name[] = {(char *)"position", (char *)"velocity", (char *)"force"}, *const unit[] = {(char *)"m",
                                                                                                     (char *)"m/s",
                                                                                                     (char *)"N"};

    for (int i = 0; i < 3; i++) {
        channel[i].name = name[i];
        channel[i].unit = unit[i];
    }
    channel[2].min = -2;
    channel[2].max = 2;
    channel[2].trim = 0.25;
    m.name = (char *)"cart-7";
    m.version = (char *)"1.2";
    m.model = (char *)"/models/cart.safetensors";
    m.model_hash = 0xabc;
    m.run = run;
    m.dt = 0.04;
    m.state = list;
    m.n_state = 2;
    m.control = list + 2;
    m.n_control = 1;
    write_message(t, HB_TOPIC_RECORDING, &m.base);
}

/* State and control of sample k: the position is the number of the sample. */
static void write_sample(tape *t, int64_t time_us, double k, uint32_t reset)
{
    Hilbert__V1__RecordedSample m = HILBERT__V1__RECORDED_SAMPLE__INIT;
    Hilbert__V1__Telemetry y = HILBERT__V1__TELEMETRY__INIT;
    double x[] = {k, -k}, u[] = {0.01 * k};

    y.time_us = time_us;
    y.state = x;
    y.n_state = 2;
    y.control = u;
    y.n_control = 1;
    y.reset_counter = reset;
    m.telemetry = &y;
    write_message(t, HB_TOPIC_TELEMETRY, &m.base);
}

static void write_exchange(tape *t, uint64_t id, int64_t time_us, double *applied, uint64_t changes)
{
    Hilbert__V1__RecordedRequest q = HILBERT__V1__RECORDED_REQUEST__INIT;
    Hilbert__V1__ActionRequest request = HILBERT__V1__ACTION_REQUEST__INIT;
    Hilbert__V1__RecordedReply y = HILBERT__V1__RECORDED_REPLY__INIT;
    Hilbert__V1__ActionReply reply = HILBERT__V1__ACTION_REPLY__INIT;
    Hilbert__V1__Health health = HILBERT__V1__HEALTH__INIT;
    double x[] = {(double)id, 0}, target[] = {3, 4}, action[] = {0.5};

    request.id = reply.id = id;
    request.time_us = time_us;
    request.state = x;
    request.n_state = 2;
    if (id % 2) {
        request.target = target;
        request.n_target = 2;
    }
    request.applied = applied;
    request.n_applied = applied ? 1 : 0;
    q.request = &request;
    q.received = y.received = 100 + (double)id;
    write_message(t, HB_TOPIC_REQUESTS, &q.base);
    reply.status = HILBERT__V1__ACTION_STATUS__ACTION_STATUS_LIMITED;
    reply.reason = HILBERT__V1__REASON__REASON_NONE;
    reply.total_us = 1500;
    reply.action = action;
    reply.n_action = 1;
    health.changes = changes;
    health.one_step_error = 0.125;
    reply.health = &health;
    y.reply = &reply;
    write_message(t, HB_TOPIC_REPLIES, &y.base);
}

static hb_recorded_flight *read_flight(const char *file)
{
    hb_recorded_flight *f = NULL;
    hb_error err = {0};

    if (hb_recorded_flight_read(&f, &file, 1, &err))
        fail_msg("%s", err.text);
    return f;
}

static void test_what_is_read(void **state)
{
    Hilbert__V1__RecordedCoefficients c = HILBERT__V1__RECORDED_COEFFICIENTS__INIT;
    Hilbert__V1__Status status = HILBERT__V1__STATUS__INIT;
    Hilbert__V1__RecordingGap gap = HILBERT__V1__RECORDING_GAP__INIT;
    float value[] = {1, 2, 3}, deviation[] = {0.1f, 0.2f, 0.3f};
    double configured[] = {9, 8};
    char word[HB_NAME_SIZE];
    tape t;

    (void)state;
    begin_tape(&t, path);
    write_recording(&t, 1);
    status.model_hash = 0xabc;
    status.budget_us = 4000;
    status.target = configured;
    status.n_target = 2;
    write_message(&t, HB_TOPIC_STATUS, &status.base);
    write_sample(&t, 5000000, 0, 0);
    write_exchange(&t, 1, 5010000, NULL, 2);
    write_exchange(&t, 2, 5020000, NULL, 3);
    c.version = 1;
    c.time_us = 5000000;
    c.value = value;
    c.n_value = 3;
    c.deviation = deviation;
    c.n_deviation = 3;
    c.status = HILBERT__V1__ESTIMATE_STATUS__ESTIMATE_STATUS_OK;
    write_message(&t, HB_TOPIC_COEFFICIENTS, &c.base);
    gap.lost = 17;
    write_message(&t, HB_TOPIC_GAPS, &gap.base);
    write_sample(&t, 5040000, 1, 0);
    /* a new flight: its clock starts anew */
    write_sample(&t, 0, 2, 1);
    status.model_hash = 0xdef;
    write_message(&t, HB_TOPIC_STATUS, &status.base);
    end_tape(&t);

    assert_true(hb_recorded_flight_is(path));
    hb_recorded_flight *f = read_flight(path);
    assert_string_equal(f->name, "cart-7");
    assert_string_equal(f->model, "/models/cart.safetensors");
    assert_int_equal(f->model_hash, 0xabc);
    assert_int_equal(f->nx, 2);
    assert_int_equal(f->nu, 1);
    assert_string_equal(f->control[0].unit, "N");
    assert_true(f->control[0].max == 2 && f->control[0].trim == 0.25);
    assert_int_equal(f->nsamples, 3);
    assert_true(f->x[0] == 0 && f->x[2] == 1 && f->x[5] == -2 && f->u[2] == 0.02);
    assert_true(f->sample[0].time == 0 && fabs(f->sample[1].time - 0.04) < 1e-9);
    assert_true(f->sample[1].after_gap && !f->sample[0].after_gap && !f->sample[2].after_gap);
    assert_true(f->sample[2].segment == 1 && fabs(f->sample[2].time - 0.14) < 1e-9);
    /* 2 changes were there before the recording began, the third came in it */
    assert_true(f->sample[0].changes == 2 && f->sample[1].changes == 3);
    assert_int_equal(f->nreplies, 2);
    assert_true(f->target[0] == 3 && f->target[1] == 4 && f->target[2] == 9 && f->target[3] == 8);
    assert_true(f->reply[1].total == 1500e-6 && f->reply[1].one_step_error == 0.125 && f->action[1] == 0.5);
    assert_string_equal(hb_recorded_status_word(f->reply[0].status, word), "limited");
    assert_int_equal(f->nestimates, 1);
    assert_true(f->nc == 3 && f->coefficient[2] == 3 && f->deviation[0] == 0.1f && f->estimate[0].time == 0);
    assert_int_equal(f->estimate[0].status, HILBERT__V1__ESTIMATE_STATUS__ESTIMATE_STATUS_OK);
    assert_int_equal(f->lost, 17);
    assert_int_equal(f->nevents, 3);
    assert_string_equal(f->event[0].text, "a change of dynamics was detected");
    assert_string_equal(f->event[1].text, "17 messages are missing in the recording");
    assert_string_equal(f->event[2].text, "another model was promoted: 0000000000000def");
    assert_true(f->status[0].budget == 0.004 && isnan(f->status[0].shadow_error));
    hb_recorded_flight_free(f);
}

/* Without telemetry the states of requests are samples, and their controls what was applied after them. */
static void test_requests_alone(void **state)
{
    double applied[] = {0.75};
    tape t;

    (void)state;
    begin_tape(&t, path);
    write_recording(&t, 1);
    write_exchange(&t, 1, 40000, NULL, 0);
    write_exchange(&t, 2, 80000, applied, 0);
    write_exchange(&t, 3, 120000, NULL, 0);
    end_tape(&t);
    hb_recorded_flight *f = read_flight(path);
    assert_int_equal(f->nsamples, 3);
    assert_true(f->sample[0].of_request && f->x[2] == 2);
    assert_true(f->u[0] == 0.75); /* as the second request says */
    assert_true(f->u[1] == 0.5);  /* as was answered */
    hb_recorded_flight_free(f);
}

static void test_what_is_refused(void **state)
{
    hb_recorded_flight *f = NULL;
    const char *file = path;
    hb_error err = {0};
    tape t;

    (void)state;
    begin_tape(&t, path);
    write_sample(&t, 0, 0, 0);
    end_tape(&t);
    assert_int_equal(hb_recorded_flight_read(&f, &file, 1, &err), -EINVAL);
    assert_non_null(strstr(err.text, "no message 'recording' comes before the others"));
    FILE *text = fopen(other, "w");
    fputs("time,x\n", text);
    fclose(text);
    file = other;
    assert_false(hb_recorded_flight_is(other));
    assert_true(hb_recorded_flight_read(&f, &file, 1, &err) < 0);
    assert_null(f);
}

/* 100 Hz of telemetry, a period of 0.04 s: rows of every fourth sample; a change at 3 s, a reset at 5 s. */
static void write_flight(void)
{
    tape t;

    begin_tape(&t, path);
    write_recording(&t, 1);
    write_exchange(&t, 1, 0, NULL, 0);
    for (int k = 0; k <= 800; k++) {
        write_sample(&t, 10000 * k, k, k > 500);
        if (k == 300)
            write_exchange(&t, 2, 10000 * k, NULL, 1);
    }
    end_tape(&t);
    /* the next file of the same run goes on with the same vehicle; one of another run is another */
    for (int run = 1; run <= 2; run++) {
        begin_tape(&t, run == 1 ? other : set);
        write_recording(&t, (uint64_t)run);
        write_exchange(&t, 3, 8010000, NULL, 1);
        for (int k = 0; k <= 200; k++)
            write_sample(&t, 8010000 + 10000 * k, k, 1);
        end_tape(&t);
    }
}

static void test_functions_and_episodes(void **state)
{
    char output[64];
    const char *const file[] = {path, other, set};
    hb_recording_import import = {.nfiles = 3, .file = file, .settle = -1};
    hb_recording_result result[3];
    hb_dataset *d = NULL;
    hb_error err = {0};

    (void)state;
    snprintf(output, sizeof output, "%s/set.h5", folder);
    write_flight();
    if (hb_recording_import_files(&import, output, result, &err) || hb_dataset_read(&d, output, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(result[0].functions, 3);
    assert_int_equal(result[1].functions, 0);
    assert_int_equal(result[2].functions, 1);
    assert_true(result[0].resets == 1 && result[0].changes == 1 && result[0].gaps == 0);
    assert_int_equal(d->nfunctions, 4);
    assert_int_equal(d->nepisodes, 5);
    /* up to a second before the change was noticed: samples 0..200 */
    assert_int_equal(d->episode[0].nsteps, 50);
    assert_null(d->episode[0].time);
    assert_true(d->episode[0].x[2] == 4 && d->episode[0].x[3] == -4);
    /* the mean of what was in force: samples 0, 1, 2, 3 */
    assert_true(fabs(d->episode[0].u[0] - 0.015) < 1e-12);
    assert_true(d->episode[1].x[0] == 301 && d->episode[1].function == 1);
    assert_true(d->episode[2].x[0] == 501 && d->episode[2].function == 2 && d->episode[3].function == 2);
    assert_string_equal(d->header.plant, "cart-7");
    assert_true(d->header.dt == 0.04 && d->header.control_min[0] == -2);
    hb_dataset_free(d);

    /* all of one vehicle */
    import.one_function = true;
    import.settle = 0;
    if (hb_recording_import_files(&import, output, result, &err) || hb_dataset_read(&d, output, NULL, &err))
        fail_msg("%s", err.text);
    assert_int_equal(d->nfunctions, 1);
    assert_int_equal(d->episode[0].nsteps, 75);
    hb_dataset_free(d);

    import.min_length = 100;
    assert_int_equal(hb_recording_import_files(&import, output, result, &err), -EINVAL);
    assert_non_null(strstr(err.text, "no flight of 100 s without a gap"));
    unlink(output);
}

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.mcap", folder);
    snprintf(other, sizeof other, "%s/b.mcap", folder);
    snprintf(set, sizeof set, "%s/c.mcap", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    unlink(other);
    unlink(set);
    rmdir(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_read),
        cmocka_unit_test(test_requests_alone),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_functions_and_episodes),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
