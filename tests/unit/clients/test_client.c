/* libhilbert-client against a ROUTER and a SUB socket that stand in for the daemon. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

#include "hilbert.pb-c.h"
#include "hilbert_client.h"
#include "keys.h"

typedef struct fixture {
    char folder[64], telemetry[128], actions[128], control[128], status[128];
    void *context, *sub, *router, *controller, *publisher;
    hilbert_client *h;
} fixture;

static void *bind_socket(void *context, int type, const char *endpoint)
{
    int zero = 0, wait = 5000;
    void *s = zmq_socket(context, type);

    zmq_setsockopt(s, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(s, ZMQ_RCVTIMEO, &wait, sizeof wait);
    if (type == ZMQ_SUB)
        zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0);
    assert_int_equal(zmq_bind(s, endpoint), 0);
    return s;
}

static int set_up(void **state)
{
    fixture *f = *state = calloc(1, sizeof *f);

    strcpy(f->folder, "/tmp/hilbert-client-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->telemetry, sizeof f->telemetry, "ipc://%s/telemetry", f->folder);
    snprintf(f->actions, sizeof f->actions, "ipc://%s/actions", f->folder);
    snprintf(f->control, sizeof f->control, "ipc://%s/control", f->folder);
    snprintf(f->status, sizeof f->status, "ipc://%s/status", f->folder);
    f->context = zmq_ctx_new();
    f->sub = bind_socket(f->context, ZMQ_SUB, f->telemetry);
    f->router = bind_socket(f->context, ZMQ_ROUTER, f->actions);
    f->controller = bind_socket(f->context, ZMQ_ROUTER, f->control);
    hilbert_options options = {
        .telemetry = f->telemetry, .actions = f->actions, .control = f->control, .status = f->status};
    assert_int_equal(hilbert_connect(&f->h, &options, NULL, 0), 0);
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    char path[256];

    hilbert_close(f->h);
    zmq_close(f->sub);
    zmq_close(f->controller);
    if (f->router)
        zmq_close(f->router);
    if (f->publisher)
        zmq_close(f->publisher);
    zmq_ctx_term(f->context);
    const char *const left[] = {"telemetry", "actions", "control", "status", "open.key", "secret.key", "public.pub"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        snprintf(path, sizeof path, "%s/%s", f->folder, left[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(f->folder), 0);
    free(f);
    return 0;
}

/* Receives a request; the sender's routing id goes to `who` (at least 5 bytes), its length is returned. */
static int receive_request(void *router, uint8_t *who, Hilbert__V1__ActionRequest **ret)
{
    uint8_t frame[4096];
    int nwho = zmq_recv(router, who, 32, 0);

    assert_true(nwho > 0);
    int n = zmq_recv(router, frame, sizeof frame, 0);
    assert_true(n > 0);
    *ret = hilbert__v1__action_request__unpack(NULL, (size_t)n, frame);
    assert_non_null(*ret);
    return nwho;
}

static void send_reply(void *router, const uint8_t *who, int nwho, uint64_t id, double action)
{
    Hilbert__V1__ActionReply m = HILBERT__V1__ACTION_REPLY__INIT;
    Hilbert__V1__Health health = HILBERT__V1__HEALTH__INIT;
    uint8_t frame[4096];

    m.id = id;
    m.status = HILBERT__V1__ACTION_STATUS__ACTION_STATUS_FALLBACK;
    m.reason = HILBERT__V1__REASON__REASON_NOT_FINITE;
    m.n_action = 1;
    m.action = &action;
    m.total_us = 1500;
    m.coefficient_age = INFINITY;
    m.health = &health;
    health.status = HILBERT__V1__ESTIMATE_STATUS__ESTIMATE_STATUS_WARMING_UP;
    size_t n = hilbert__v1__action_reply__pack(&m, frame);
    zmq_send(router, who, (size_t)nwho, ZMQ_SNDMORE);
    zmq_send(router, frame, n, 0);
}

static const double state4[] = {1, -2, 3e-300, 4e300};

static void test_a_request_arrives_whole_and_its_reply_comes_back(void **state)
{
    fixture *f = *state;
    const double target[] = {5, 6}, applied[] = {7};
    hilbert_action_request r = {.time_us = 123456789012345,
                                .state = state4,
                                .nstate = 4,
                                .target = target,
                                .ntarget = 2,
                                .applied = applied,
                                .napplied = 1,
                                .budget = 0.005,
                                .want_plan = true,
                                .reset_counter = 3};
    Hilbert__V1__ActionRequest *m;
    hilbert_action_reply reply;
    uint8_t who[32];

    assert_int_equal(hilbert_ask(f->h, &r, 5), 0);
    int nwho = receive_request(f->router, who, &m);
    assert_int_equal(m->time_us, 123456789012345);
    assert_int_equal(m->n_state, 4);
    assert_memory_equal(m->state, state4, sizeof state4);
    assert_int_equal(m->n_target, 2);
    assert_memory_equal(m->target, target, sizeof target);
    assert_int_equal(m->n_applied, 1);
    assert_memory_equal(m->applied, applied, sizeof applied);
    assert_int_equal(m->budget_us, 5000);
    assert_true(m->want_plan);
    assert_int_equal(m->reset_counter, 3);
    send_reply(f->router, who, nwho, m->id, 0.25);
    hilbert__v1__action_request__free_unpacked(m, NULL);

    assert_int_equal(hilbert_answer(f->h, 5, &reply), 0);
    assert_int_equal(reply.status, HILBERT_FALLBACK);
    assert_string_equal(hilbert_status_name(reply.status), "fallback");
    assert_string_equal(reply.reason, "not-finite");
    assert_string_equal(reply.estimate, "warming-up");
    assert_int_equal(reply.naction, 1);
    assert_true(reply.action[0] == 0.25);
    assert_true(fabs(reply.total - 0.0015) < 1e-12);
    assert_true(isinf(reply.coefficient_age));
}

static void test_an_old_answer_is_not_taken_for_a_new_one(void **state)
{
    fixture *f = *state;
    hilbert_action_request r = {.state = state4, .nstate = 4};
    Hilbert__V1__ActionRequest *first, *second;
    hilbert_action_reply reply;
    uint8_t who[32];

    assert_int_equal(hilbert_ask(f->h, &r, 5), 0);
    assert_int_equal(hilbert_answer(f->h, 0.02, &reply), -ETIMEDOUT);
    assert_non_null(strstr(hilbert_error(f->h), "no answer"));
    assert_int_equal(hilbert_ask(f->h, &r, 5), 0);
    int nwho = receive_request(f->router, who, &first);
    receive_request(f->router, who, &second);
    send_reply(f->router, who, nwho, first->id, 1);
    send_reply(f->router, who, nwho, second->id, 2);
    assert_int_equal(hilbert_answer(f->h, 5, &reply), 0);
    assert_true(reply.action[0] == 2);
    hilbert__v1__action_request__free_unpacked(first, NULL);
    hilbert__v1__action_request__free_unpacked(second, NULL);
}

static void test_without_a_daemon_it_says_so_and_comes_back_with_it(void **state)
{
    fixture *f = *state;
    hilbert_action_request r = {.state = state4, .nstate = 4};
    Hilbert__V1__ActionRequest *m;
    hilbert_action_reply reply;
    uint8_t who[32];

    zmq_close(f->router);
    f->router = NULL;
    /* the disconnection is noticed in the background */
    int result = 0;
    for (int i = 0; i < 200 && result != -ENOTCONN; i++)
        result = hilbert_request(f->h, &r, 0.01, &reply);
    assert_int_equal(result, -ENOTCONN);
    f->router = bind_socket(f->context, ZMQ_ROUTER, f->actions);
    assert_int_equal(hilbert_ask(f->h, &r, 5), 0);
    int nwho = receive_request(f->router, who, &m);
    send_reply(f->router, who, nwho, m->id, 3);
    assert_int_equal(hilbert_answer(f->h, 5, &reply), 0);
    assert_true(reply.action[0] == 3);
    hilbert__v1__action_request__free_unpacked(m, NULL);
}

static void test_an_answer_that_is_none_is_an_error(void **state)
{
    fixture *f = *state;
    hilbert_action_request r = {.state = state4, .nstate = 4};
    Hilbert__V1__ActionRequest *m;
    hilbert_action_reply reply;
    uint8_t who[32];

    assert_int_equal(hilbert_ask(f->h, &r, 5), 0);
    int nwho = receive_request(f->router, who, &m);
    hilbert__v1__action_request__free_unpacked(m, NULL);
    zmq_send(f->router, who, (size_t)nwho, ZMQ_SNDMORE);
    zmq_send(f->router, "\xff\xff\xff", 3, 0);
    assert_int_equal(hilbert_answer(f->h, 5, &reply), -EPROTO);
}

static void test_telemetry_arrives_counted(void **state)
{
    fixture *f = *state;
    const double control[] = {9};
    hilbert_telemetry t = {
        .time_us = 77, .state = state4, .nstate = 4, .control = control, .ncontrol = 1, .reset_counter = 2};
    uint8_t frame[4096];
    int n = -1, few = 20;

    /* samples are lost until the subscription has come through */
    zmq_setsockopt(f->sub, ZMQ_RCVTIMEO, &few, sizeof few);
    for (int i = 0; i < 250 && n < 0; i++) {
        assert_int_equal(hilbert_publish(f->h, &t), 0);
        n = zmq_recv(f->sub, frame, sizeof frame, 0);
    }
    assert_true(n > 0);
    Hilbert__V1__Telemetry *m = hilbert__v1__telemetry__unpack(NULL, (size_t)n, frame);
    assert_non_null(m);
    assert_int_equal(m->time_us, 77);
    assert_int_equal(m->n_state, 4);
    assert_memory_equal(m->state, state4, sizeof state4);
    assert_int_equal(m->n_control, 1);
    assert_true(m->control[0] == 9);
    assert_int_equal(m->reset_counter, 2);
    assert_true(m->sequence > 0);
    hilbert__v1__telemetry__free_unpacked(m, NULL);
}

static void test_what_is_too_large_is_not_sent(void **state)
{
    fixture *f = *state;
    static const double much[40000];
    hilbert_telemetry t = {.state = much, .nstate = 40000};

    assert_int_equal(hilbert_publish(f->h, &t), -EMSGSIZE);
    assert_non_null(strstr(hilbert_error(f->h), "262144"));
}

/* The daemon's part of a control exchange, in a thread of its own: answers one question as it is told. */
typedef struct answerer {
    void *router;
    Hilbert__V1__ControlRequest__CommandCase asked;
    double target[4];
    size_t ntarget;
    Hilbert__V1__ControlReply *reply;
} answerer;

static void *answer_once(void *argument)
{
    answerer *a = argument;
    uint8_t who[32], frame[4096];
    int nwho = zmq_recv(a->router, who, sizeof who, 0), n = zmq_recv(a->router, frame, sizeof frame, 0);
    Hilbert__V1__ControlRequest *m = hilbert__v1__control_request__unpack(NULL, (size_t)n, frame);

    a->asked = m->command_case;
    if (m->command_case == HILBERT__V1__CONTROL_REQUEST__COMMAND_SET_TARGET) {
        a->ntarget = m->set_target->n_state;
        memcpy(a->target, m->set_target->state, a->ntarget * sizeof(double));
    }
    a->reply->id = m->id;
    hilbert__v1__control_request__free_unpacked(m, NULL);
    /* an answer to an earlier question comes first, and is not taken */
    for (int late = 1; late >= 0; late--) {
        a->reply->id -= (uint64_t)late;
        size_t size = hilbert__v1__control_reply__pack(a->reply, frame);
        zmq_send(a->router, who, (size_t)nwho, ZMQ_SNDMORE);
        zmq_send(a->router, frame, size, 0);
        a->reply->id += (uint64_t)late;
    }
    return NULL;
}

static void test_model_status_and_target(void **state)
{
    fixture *f = *state;
    Hilbert__V1__ControlReply reply = HILBERT__V1__CONTROL_REPLY__INIT;
    Hilbert__V1__ModelInfo model = HILBERT__V1__MODEL_INFO__INIT;
    Hilbert__V1__Channel position = HILBERT__V1__CHANNEL__INIT, force = HILBERT__V1__CHANNEL__INIT;
    Hilbert__V1__Channel *states[] = {&position}, *controls[] = {&force};
    Hilbert__V1__Status status = HILBERT__V1__STATUS__INIT;
    Hilbert__V1__Health health = HILBERT__V1__HEALTH__INIT;
    answerer a = {.router = f->controller, .reply = &reply};
    hilbert_model_info info;
    hilbert_daemon_status daemon;
    double target[] = {1, 2};
    pthread_t thread;

    position.name = (char *)"position", position.unit = (char *)"m";
    force.name = (char *)"force", force.unit = (char *)"N", force.min = -2, force.max = 3, force.trim = 0.5;
    model.path = (char *)"cart.safetensors", model.dt = 0.02, model.horizon = 10, model.basis_functions = 4;
    model.n_state = model.n_control = 1, model.state = states, model.control = controls;
    reply.ok = true;
    reply.result_case = HILBERT__V1__CONTROL_REPLY__RESULT_MODEL;
    reply.model = &model;
    pthread_create(&thread, NULL, answer_once, &a);
    assert_int_equal(hilbert_get_model(f->h, 5, &info), 0);
    pthread_join(thread, NULL);
    assert_int_equal(a.asked, HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_MODEL);
    assert_int_equal(info.nstates, 1);
    assert_string_equal(info.state[0].name, "position");
    assert_string_equal(info.state[0].unit, "m");
    assert_int_equal(info.ncontrols, 1);
    assert_true(info.control[0].min == -2 && info.control[0].max == 3 && info.control[0].trim == 0.5);
    assert_true(info.dt == 0.02 && info.horizon == 10 && info.basis_functions == 4);

    status.name = (char *)"cart", status.telemetry_rate = 50, status.n_target = 2, status.target = target;
    status.health = &health, health.status = HILBERT__V1__ESTIMATE_STATUS__ESTIMATE_STATUS_OK;
    health.one_step_error = 0.125;
    reply.result_case = HILBERT__V1__CONTROL_REPLY__RESULT_STATUS;
    reply.status = &status;
    pthread_create(&thread, NULL, answer_once, &a);
    assert_int_equal(hilbert_get_status(f->h, 5, &daemon), 0);
    pthread_join(thread, NULL);
    assert_string_equal(daemon.name, "cart");
    assert_string_equal(daemon.estimate, "ok");
    assert_true(daemon.telemetry_rate == 50 && daemon.one_step_error == 0.125);
    assert_true(daemon.ntarget == 2 && daemon.target[1] == 2);

    Hilbert__V1__Coefficients coefficients = HILBERT__V1__COEFFICIENTS__INIT;
    hilbert_coefficients believed;
    coefficients.n_value = coefficients.n_variance = 2, coefficients.n_covariance = 3;
    coefficients.value = (double[]){1, 2}, coefficients.variance = (double[]){3, 4};
    coefficients.covariance = (double[]){3, 0.5, 4};
    reply.result_case = HILBERT__V1__CONTROL_REPLY__RESULT_COEFFICIENTS;
    reply.coefficients = &coefficients;
    pthread_create(&thread, NULL, answer_once, &a);
    assert_int_equal(hilbert_get_coefficients(f->h, 5, &believed), 0);
    pthread_join(thread, NULL);
    assert_int_equal(a.asked, HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_COEFFICIENTS);
    assert_true(believed.n == 2 && believed.value[1] == 2 && believed.variance[0] == 3);
    assert_true(believed.ncovariance == 3 && believed.covariance[1] == 0.5);

    reply.result_case = HILBERT__V1__CONTROL_REPLY__RESULT__NOT_SET;
    pthread_create(&thread, NULL, answer_once, &a);
    assert_int_equal(hilbert_set_target(f->h, (double[]){3, 4}, 2, 5), 0);
    pthread_join(thread, NULL);
    assert_int_equal(a.asked, HILBERT__V1__CONTROL_REQUEST__COMMAND_SET_TARGET);
    assert_true(a.ntarget == 2 && a.target[0] == 3 && a.target[1] == 4);

    reply.ok = false;
    reply.error = (char *)"2 states expected, 1 given";
    pthread_create(&thread, NULL, answer_once, &a);
    assert_int_equal(hilbert_set_target(f->h, (double[]){3}, 1, 5), -EINVAL);
    pthread_join(thread, NULL);
    assert_string_equal(hilbert_error(f->h), "2 states expected, 1 given");
    /* a call that succeeds has nothing to complain of */
    reply.ok = true;
    pthread_create(&thread, NULL, answer_once, &a);
    assert_int_equal(hilbert_reset_window(f->h, 5), 0);
    pthread_join(thread, NULL);
    assert_int_equal(a.asked, HILBERT__V1__CONTROL_REQUEST__COMMAND_RESET_WINDOW);
    assert_string_equal(hilbert_error(f->h), "");
    assert_int_equal(hilbert_get_model(f->h, 0.02, &info), -ETIMEDOUT);
}

static void test_commands_and_predictions(void **state)
{
    fixture *f = *state;
    Hilbert__V1__ControlReply reply = HILBERT__V1__CONTROL_REPLY__INIT;
    Hilbert__V1__Prediction prediction = HILBERT__V1__PREDICTION__INIT;
    char *keys[] = {(char *)"model", (char *)"planner.samples"};
    answerer a = {.router = f->controller, .reply = &reply};
    const char *const *needs_restart;
    pthread_t thread;

    reply.ok = true;
    reply.needs_restart = keys;
    reply.n_needs_restart = 2;
    pthread_create(&thread, NULL, answer_once, &a);
    assert_int_equal(hilbert_reload(f->h, 5, &needs_restart), 0);
    pthread_join(thread, NULL);
    assert_int_equal(a.asked, HILBERT__V1__CONTROL_REQUEST__COMMAND_RELOAD);
    assert_string_equal(needs_restart[0], "model");
    assert_string_equal(needs_restart[1], "planner.samples");
    assert_null(needs_restart[2]);

    reply.n_needs_restart = 0;
    pthread_create(&thread, NULL, answer_once, &a);
    assert_int_equal(hilbert_promote(f->h, 5), 0);
    pthread_join(thread, NULL);
    assert_int_equal(a.asked, HILBERT__V1__CONTROL_REQUEST__COMMAND_PROMOTE);

    const hilbert_prediction_request ask = {
        .count = 1, .steps = 2, .state = (double[]){1, 2}, .nstate = 2, .control = (double[]){3, 4}, .ncontrol = 2};
    hilbert_prediction got;
    prediction.count = 1, prediction.steps = 2, prediction.coefficient_version = 9;
    prediction.n_state = 6, prediction.state = (double[]){1, 2, 3, 4, 5, 6};
    reply.result_case = HILBERT__V1__CONTROL_REPLY__RESULT_PREDICTION;
    reply.prediction = &prediction;
    pthread_create(&thread, NULL, answer_once, &a);
    assert_int_equal(hilbert_predict(f->h, &ask, 5, &got), 0);
    pthread_join(thread, NULL);
    assert_int_equal(a.asked, HILBERT__V1__CONTROL_REQUEST__COMMAND_PREDICT);
    assert_true(got.count == 1 && got.steps == 2 && got.nstate == 6 && got.state[5] == 6 &&
                got.coefficient_version == 9);
    assert_int_equal(hilbert_predict(f->h, &(hilbert_prediction_request){.count = -1}, 5, &got), -EINVAL);
}

static void test_what_is_published_is_taken(void **state)
{
    fixture *f = *state;
    void *publisher = f->publisher = bind_socket(f->context, ZMQ_XPUB, f->status);
    Hilbert__V1__Status m = HILBERT__V1__STATUS__INIT;
    uint8_t frame[4096], subscription[64];
    hilbert_daemon_status status;
    int fd = hilbert_status_descriptor(f->h);

    assert_true(fd >= 0);
    assert_true(zmq_recv(publisher, subscription, sizeof subscription, 0) > 0);
    assert_int_equal(hilbert_next_status(f->h, 0, &status), -ETIMEDOUT);
    for (int i = 0; i < 2; i++) {
        m.name = (char *)"cart";
        m.uptime = 3 + i;
        size_t size = hilbert__v1__status__pack(&m, frame);
        zmq_send(publisher, "hilbert.v1.Status", 17, ZMQ_SNDMORE);
        zmq_send(publisher, frame, size, ZMQ_SNDMORE);
        zmq_send(publisher, "1.5", 3, 0);
    }
    struct pollfd item = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&item, 1, 5000), 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hilbert_next_status(f->h, 5, &status), 0);
        assert_string_equal(status.name, "cart");
        assert_true(status.uptime == 3 + i);
    }
    /* a frame alone is no state */
    zmq_send(publisher, "hilbert.v1.Status", 17, 0);
    assert_int_equal(hilbert_next_status(f->h, 5, &status), -EPROTO);
    assert_non_null(strstr(hilbert_error(f->h), "is it hilbertd's status socket?"));
}

/* As an event loop does it: ask, look, wait for the descriptor, look again. */
static void test_a_descriptor_tells_of_answers(void **state)
{
    fixture *f = *state;
    const double x[1] = {1};
    const hilbert_action_request request = {.state = x, .nstate = 1};
    struct pollfd item = {.fd = hilbert_descriptor(f->h), .events = POLLIN};
    hilbert_action_reply reply;

    assert_true(item.fd >= 0);
    for (int k = 0; k < 20; k++) {
        Hilbert__V1__ActionRequest *m;
        uint8_t who[32];
        assert_int_equal(hilbert_ask(f->h, &request, 5), 0);
        assert_int_equal(hilbert_answer(f->h, 0, &reply), -ETIMEDOUT);
        int nwho = receive_request(f->router, who, &m);
        send_reply(f->router, who, nwho, m->id, k);
        hilbert__v1__action_request__free_unpacked(m, NULL);
        int r;
        while ((r = hilbert_answer(f->h, 0, &reply)) == -ETIMEDOUT)
            assert_int_equal(poll(&item, 1, 5000), 1);
        assert_int_equal(r, 0);
        assert_true(reply.action[0] == k);
        assert_string_equal(hilbert_error(f->h), "");
    }
}

/* The first question finds a daemon that starts while the client connects. */
static void *bind_late(void *argument)
{
    fixture *f = argument;

    usleep(100000);
    f->router = bind_socket(f->context, ZMQ_ROUTER, f->actions);
    return NULL;
}

/* Nanoseconds of a thread's turn on a processor; 0: the kernel does not tell. */
static long turn_of(const char *thread)
{
    char path[300], line[256];
    long ns = 0;

    snprintf(path, sizeof path, "/proc/self/task/%s/sched", thread);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "se.slice : %ld", &ns);
    if (file)
        fclose(file);
    return ns;
}

/* Threads of ZeroMQ that carry messages with turns of so many nanoseconds. */
static int carriers_with(long ns)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;

    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = *task->d_name == '.' ? NULL : fopen(path, "r");
        if (file) {
            n += fgets(name, sizeof name, file) && strncmp(name, "ZMQbg/IO", 8) == 0 && turn_of(task->d_name) == ns;
            fclose(file);
        }
    }
    closedir(tasks);
    return n;
}

static void test_its_thread_has_short_turns_and_the_caller_keeps_its_own(void **state)
{
    fixture *f = *state;
    char self[16];

    snprintf(self, sizeof self, "%d", (int)gettid());
    const long own = turn_of(self);
    if (!own) {
        print_message("this kernel does not tell how long turns are (/proc/self/sched: se.slice)\n");
        skip();
    }
    assert_int_equal(carriers_with(100000), 1); /* the client's; that of the sockets that stand in is as the caller */
    assert_int_equal(carriers_with(own), 1);
    hilbert_close(f->h);
    hilbert_options options = {.telemetry = f->telemetry, .actions = f->actions};
    assert_int_equal(hilbert_connect(&f->h, &options, NULL, 0), 0);
    assert_int_equal(turn_of(self), own);
    assert_int_equal(carriers_with(100000), 1);
}

static void test_connecting_waits_for_the_daemon(void **state)
{
    fixture *f = *state;
    hilbert_action_request r = {.state = state4, .nstate = 4};
    hilbert_options options = {.telemetry = f->telemetry, .actions = f->actions, .connect_timeout = 20};
    pthread_t thread;

    hilbert_close(f->h);
    zmq_close(f->router);
    pthread_create(&thread, NULL, bind_late, f);
    assert_int_equal(hilbert_connect(&f->h, &options, NULL, 0), 0);
    assert_int_equal(hilbert_ask(f->h, &r, 0), 0);
    pthread_join(thread, NULL);

    /* and goes on without one */
    hilbert_close(f->h);
    f->h = NULL;
    options.actions = "ipc:///tmp/hilbert-nobody-is-here";
    options.connect_timeout = 0.01;
    assert_int_equal(hilbert_connect(&f->h, &options, NULL, 0), 0);
    assert_int_equal(hilbert_ask(f->h, &r, 0), -ENOTCONN);
}

static void test_what_is_planned(void **state)
{
    (void)state;
    for (int s = 0; s < 12; s++) {
        bool planned = s >= 1 && s <= 8 && s != HILBERT_FALLBACK && s != HILBERT_REFUSED;
        assert_int_equal(hilbert_is_planned((hilbert_status)s), planned);
    }
}

static void test_options_that_cannot_work_are_refused_in_words(void **state)
{
    fixture *f = *state;
    hilbert_client *h = NULL;
    char why[256] = "", key[HB_KEY_SIZE], secret[HB_KEY_SIZE], path[128], public_path[128];

    assert_int_equal(hilbert_connect(&h, &(hilbert_options){.actions = "nonsense"}, why, sizeof why), -EINVAL);
    assert_non_null(strstr(why, "nonsense"));
    assert_int_equal(hilbert_connect(&h, &(hilbert_options){.server_key = "a"}, why, sizeof why), -EINVAL);
    assert_non_null(strstr(why, "both"));

    /* a secret key that others can read */
    assert_int_equal(zmq_curve_keypair(key, secret), 0);
    snprintf(path, sizeof path, "%s/open.key", f->folder);
    snprintf(public_path, sizeof public_path, "%s/public.pub", f->folder);
    assert_int_equal(hb_key_write(path, true, secret, why, sizeof why), 0);
    assert_int_equal(hb_key_write(public_path, false, key, why, sizeof why), 0);
    assert_int_equal(hb_key_write(path, true, secret, why, sizeof why), -EEXIST);
    hilbert_options o = {
        .actions = f->actions, .telemetry = f->telemetry, .server_key = public_path, .client_key = path};
    assert_int_equal(hilbert_connect(&h, &o, why, sizeof why), 0);
    hilbert_close(h);
    chmod(path, 0640);
    assert_int_equal(hilbert_connect(&h, &o, why, sizeof why), -EPERM);
    assert_non_null(strstr(why, "chmod 600"));
    /* a file that is no key */
    chmod(path, 0600);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(hilbert_connect(&h, &o, why, sizeof why), -EINVAL);
    assert_non_null(strstr(why, "keygen"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_request_arrives_whole_and_its_reply_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_old_answer_is_not_taken_for_a_new_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_daemon_it_says_so_and_comes_back_with_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_answer_that_is_none_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_telemetry_arrives_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_too_large_is_not_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_model_status_and_target, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_commands_and_predictions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_published_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_descriptor_tells_of_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_its_thread_has_short_turns_and_the_caller_keeps_its_own, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_connecting_waits_for_the_daemon, set_up, tear_down),
        cmocka_unit_test(test_what_is_planned),
        cmocka_unit_test_setup_teardown(test_options_that_cannot_work_are_refused_in_words, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
