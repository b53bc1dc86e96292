/* The daemon as a client sees it: latency, intake, start and memory.
 *
 * Latency is measured beside its floor: in every period a request goes to the daemon and, when it was answered, a
 * message of the same size to a bare ROUTER that echoes, so that both have met the same machine. A reply is late when
 * it took longer than the budget and what 999 of 1000 echoes took. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <zmq.h>

#include "bench.h"
#include "daemon_process.h"
#include "hilbert_client.h"
#include "test_models.h"

enum { NX = 13, NU = 4, REQUEST_SIZE = 130, REPLY_SIZE = 230 };

/* Every sample of 1 kHz telemetry makes a transition, of a model for 25 Hz. */
#define EVERY_SAMPLE "telemetry: {min_period: 0.001, max_period: 10}\n"

static void sleep_until(double when)
{
    struct timespec t = {.tv_sec = (time_t)when, .tv_nsec = (long)(1e9 * (when - floor(when)))};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

/* A made-up flight about hover. */
static void state_at(double t, double *x, double *u)
{
    for (int i = 0; i < NX; i++)
        x[i] = i % 2 ? 0.1 * sin(2 * t + i) : 0.02 * cos(t + i);
    x[4] += 1;
    x[6] = x[7] = x[8] = 0;
    x[9] = 1;
    for (int i = 0; i < NU; i++)
        u[i] = 0.0662 * (1 + 0.05 * sin(3 * t + i));
}

/* ---- telemetry ---- */

typedef struct publisher {
    const char *endpoint;
    double rate; /* Hz */
    _Atomic bool stop;
    uint64_t sent;
    pthread_t thread;
} publisher;

static void *publish(void *context)
{
    publisher *p = context;
    hilbert_client *h;
    double x[NX], u[NU], start = bench_now();

    if (hilbert_connect(&h, &(hilbert_options){.telemetry = p->endpoint, .actions = p->endpoint}, NULL, 0))
        bench_fail("%s: cannot connect", p->endpoint);
    sleep_until(start += 0.2); /* until the subscription has come through */
    while (!p->stop) {
        /* as many as are due, at most a thousand times a second */
        uint64_t due = (uint64_t)((bench_now() - start) * p->rate);
        for (; p->sent < due; p->sent++) {
            state_at((double)p->sent / p->rate, x, u);
            hilbert_publish(h, &(hilbert_telemetry){.time_us = (int64_t)(1e6 * (double)p->sent / p->rate) + 1,
                                                    .state = x, .nstate = NX, .control = u, .ncontrol = NU});
        }
        sleep_until(bench_now() + (p->rate > 1000 ? 1e-3 : 1 / p->rate));
    }
    hilbert_close(h);
    return NULL;
}

static void start_publishing(publisher *p, const daemon_process *d, double rate)
{
    *p = (publisher){.endpoint = d->telemetry, .rate = rate};
    if (pthread_create(&p->thread, NULL, publish, p))
        bench_fail("cannot start a thread");
}

static void stop_publishing(publisher *p)
{
    p->stop = true;
    pthread_join(p->thread, NULL);
}

/* ---- the floor ---- */

typedef struct echo {
    pid_t pid;
    char endpoint[128];
    void *context, *socket;
} echo;

static void run_echo(const char *endpoint)
{
    uint8_t who[64], frame[1024] = {0};
    void *router = zmq_socket(zmq_ctx_new(), ZMQ_ROUTER);

    if (zmq_bind(router, endpoint))
        _exit(1);
    for (;;) {
        int n = zmq_recv(router, who, sizeof who, 0);
        if (n < 0 || zmq_recv(router, frame, sizeof frame, 0) < 0)
            continue;
        zmq_send(router, who, (size_t)n, ZMQ_SNDMORE);
        zmq_send(router, frame, REPLY_SIZE, 0);
    }
}

static void start_echo(echo *e, const daemon_process *d)
{
    snprintf(e->endpoint, sizeof e->endpoint, "ipc://%s/echo", d->folder);
    e->pid = fork();
    if (e->pid == 0)
        run_echo(e->endpoint);
    e->context = zmq_ctx_new();
    e->socket = zmq_socket(e->context, ZMQ_DEALER);
    zmq_connect(e->socket, e->endpoint);
}

static double echo_once(echo *e)
{
    uint8_t frame[1024] = {0};
    double start = bench_now();

    zmq_send(e->socket, frame, REQUEST_SIZE, 0);
    zmq_recv(e->socket, frame, sizeof frame, 0);
    return bench_now() - start;
}

static void stop_echo(echo *e)
{
    kill(e->pid, SIGKILL);
    waitpid(e->pid, NULL, 0);
    zmq_close(e->socket);
    zmq_ctx_term(e->context);
}

/* ---- latency ---- */

static const double budget = 0.005;

static void set_quantiles(bench *b, double *seconds, int n)
{
    bench_set_number(b, "p50_ms", 1e3 * bench_quantile(seconds, n, 0.5));
    bench_set_number(b, "p99_ms", 1e3 * bench_quantile(seconds, n, 0.99));
    bench_set_number(b, "p999_ms", 1e3 * bench_quantile(seconds, n, 0.999));
    bench_set_number(b, "max_ms", 1e3 * bench_quantile(seconds, n, 1));
}

typedef struct flight {
    int n;
    double *action, *floor;        /* seconds, n each */
    int status[HILBERT_REFUSED + 1], failed;
} flight;

/* 100 requests a second, each followed by an echo. */
static void request_actions(const daemon_process *d, echo *e, flight *f)
{
    hilbert_client *h;
    double start = bench_now() + 0.5;

    if (hilbert_connect(&h, &(hilbert_options){.telemetry = "", .actions = d->actions}, NULL, 0))
        bench_fail("%s: cannot connect", d->actions);
    for (int k = 0; k < f->n; k++) {
        double x[NX], u[NU];
        hilbert_action_reply reply;
        sleep_until(start + 0.01 * k);
        state_at(0.01 * k, x, u);
        double sent = bench_now();
        if (hilbert_request(h, &(hilbert_action_request){.time_us = 10000 * k, .state = x, .nstate = NX}, 1, &reply))
            f->failed++;
        else
            f->status[reply.status]++;
        f->action[k] = bench_now() - sent;
        f->floor[k] = echo_once(e);
    }
    hilbert_close(h);
}

static void measure_latency(bench *b, const hb_model *m, const char *planner, const char *settings, int seconds)
{
    daemon_process d;
    publisher p;
    echo e;
    flight f = {.n = 100 * seconds};
    char config[1024];

    f.action = calloc((size_t)f.n, sizeof *f.action);
    f.floor = calloc((size_t)f.n, sizeof *f.floor);
    snprintf(config, sizeof config,
             EVERY_SAMPLE "realtime: {scheduling: fifo}\nlatency: {budget: %g}\nplanner: {%s}\ntarget: {z: 1}\n", budget,
             settings);
    daemon_process_prepare(&d, m, config);
    daemon_process_start(&d);
    start_echo(&e, &d);
    start_publishing(&p, &d, 1000);
    request_actions(&d, &e, &f);
    stop_publishing(&p);
    Hilbert__V1__ControlReply *status = daemon_process_status(&d);
    const char *scheduling = daemon_process_scheduling(&d);
    daemon_process_stop(&d, SIGTERM);
    stop_echo(&e);

    double floor_p999 = bench_quantile(f.floor, f.n, 0.999);
    int late = 0;
    for (int i = 0; i < f.n; i++)
        late += f.action[i] > budget + floor_p999;
    bench_set_text(b, "planner", planner);
    bench_set_text(b, "scheduling", scheduling);
    bench_set_number(b, "budget_ms", 1e3 * budget);
    bench_set_int(b, "requests", f.n);
    set_quantiles(b, f.action, f.n);
    bench_set_number(b, "floor_p50_ms", 1e3 * bench_quantile(f.floor, f.n, 0.5));
    bench_set_number(b, "floor_p999_ms", 1e3 * floor_p999);
    bench_set_int(b, "late", late);
    bench_set_int(b, "failed", f.failed);
    bench_set_int(b, "converged", f.status[HILBERT_CONVERGED]);
    bench_set_int(b, "truncated", f.status[HILBERT_TRUNCATED]);
    bench_set_int(b, "out_of_span", f.status[HILBERT_OUT_OF_SPAN]);
    bench_set_int(b, "fallback", f.status[HILBERT_FALLBACK]);
    bench_set_int(b, "daemon_late", (int64_t)status->status->counters->replies_late);
    bench_set_int(b, "transitions", (int64_t)status->status->counters->transitions);
    bench_set_int(b, "telemetry_overrun", (int64_t)status->status->counters->telemetry_overrun);
    bench_emit(b);
    hilbert__v1__control_reply__free_unpacked(status, NULL);
    daemon_process_clean(&d);
    free(f.floor);
    free(f.action);
}

/* The model that is shipped, where it is there; else one of its size with random weights. */
static hb_model *quadrotor(bench *b)
{
    hb_model *m = NULL;
    hb_error err;

    if (hb_model_load(&m, HB_SOURCE_MODELS "/quadrotor.safetensors", NULL) == 0) {
        bench_set_text(b, "model", "shipped");
    } else {
        if (hb_test_quadrotor(&m, 8, 64, &err))
            bench_fail("%s", err.text);
        bench_set_text(b, "model", "random");
    }
    return m;
}

static void run_action_latency(bench *b)
{
    const char *given = getenv("HILBERT_BENCH_SECONDS");
    int seconds = given ? atoi(given) : 60;

    hb_model *m = quadrotor(b);
    measure_latency(b, m, "default", "horizon: 10", seconds);
    hb_model_free(m);
    /* one that never has enough: every reply takes the whole budget */
    m = quadrotor(b);
    measure_latency(b, m, "gradient, endless", "method: gradient, horizon: 10, iterations: 1000000", seconds);
    hb_model_free(m);
}

static void run_echo_floor(bench *b)
{
    daemon_process place = {.folder = "/tmp/hilbert-bench-XXXXXX", .notify = -1};
    enum { N = 6000 };
    double *seconds = calloc(N, sizeof *seconds), start = bench_now() + 0.2;
    echo e;

    if (!mkdtemp(place.folder))
        bench_fail("%s: %s", place.folder, strerror(errno));
    start_echo(&e, &place);
    for (int k = 0; k < N; k++) {
        sleep_until(start + 0.002 * k);
        seconds[k] = echo_once(&e);
    }
    stop_echo(&e);
    daemon_process_clean(&place);
    bench_set_int(b, "requests", N);
    set_quantiles(b, seconds, N);
    bench_emit(b);
    free(seconds);
}

/* ---- intake ---- */

/* Publishes at a rate for some seconds; returns transitions a second, or 0 when samples were dropped or lost. */
static double intake(const hb_model *m, double rate, double seconds)
{
    daemon_process d;
    publisher p;

    daemon_process_prepare(&d, m, EVERY_SAMPLE "target: {z: 1}\nestimator: {window: 10}\n");
    daemon_process_start(&d);
    start_publishing(&p, &d, rate);
    sleep_until(bench_now() + 0.2 + seconds);
    Hilbert__V1__ControlReply *first = daemon_process_status(&d);
    double begun = bench_now();
    sleep_until(begun + seconds);
    Hilbert__V1__ControlReply *last = daemon_process_status(&d);
    double took = bench_now() - begun;
    stop_publishing(&p);
    const Hilbert__V1__Counters *a = first->status->counters, *z = last->status->counters;
    double got = (double)(z->transitions - a->transitions) / took;
    bool clean = z->telemetry_overrun == a->telemetry_overrun && z->telemetry_lost == a->telemetry_lost;
    hilbert__v1__control_reply__free_unpacked(first, NULL);
    hilbert__v1__control_reply__free_unpacked(last, NULL);
    daemon_process_stop(&d, SIGTERM);
    daemon_process_clean(&d);
    return clean && got > 0.98 * rate ? got : 0;
}

/* The largest rate of a geometric ladder at which nothing is dropped. */
static void measure_intake(bench *b, const hb_model *m, const char *name, double first)
{
    double best = 0;

    for (double rate = first; rate < 1e6; rate *= 1.25) {
        double got = intake(m, rate, 2);
        if (got == 0)
            got = intake(m, rate, 2); /* a second chance: the machine is shared */
        if (got == 0)
            break;
        best = got;
    }
    bench_set_text(b, "architecture", name);
    bench_set_int(b, "nb", m->nb);
    bench_set_number(b, "rate_hz", best);
    bench_emit(b);
}

static void run_ingest(bench *b)
{
    hb_model *m;
    hb_error err;

    if (hb_test_quadrotor(&m, 8, 64, &err))
        bench_fail("%s", err.text);
    measure_intake(b, m, "shared", 2000);
    hb_model_free(m);
    if (hb_test_paper(&m, 100, &err))
        bench_fail("%s", err.text);
    measure_intake(b, m, "independent", 100);
    hb_model_free(m);
}

/* ---- start and memory ---- */

/* Seconds from the start of the process to its first action that is one. */
static double first_action(const daemon_process *d)
{
    double x[NX], u[NU], end = d->started + 20;
    hilbert_client *h;
    hilbert_action_reply reply;

    state_at(0, x, u);
    if (hilbert_connect(&h, &(hilbert_options){.telemetry = "", .actions = d->actions}, NULL, 0))
        bench_fail("%s: cannot connect", d->actions);
    while (bench_now() < end)
        if (!hilbert_request(h, &(hilbert_action_request){.state = x, .nstate = NX}, 0.5, &reply) && reply.naction)
            break;
    hilbert_close(h);
    return bench_now() - d->started;
}

static void run_startup(bench *b)
{
    enum { N = 11 };
    double ready[N], action[N];
    hb_model *m = quadrotor(b);
    daemon_process d;

    daemon_process_prepare(&d, m, EVERY_SAMPLE "target: {z: 1}\nstate_file: window\n");
    for (int i = 0; i < N; i++) {
        daemon_process_start(&d);
        ready[i] = d.ready - d.started;
        action[i] = first_action(&d);
        daemon_process_stop(&d, SIGKILL);
    }
    bench_set_int(b, "restarts_after_sigkill", N - 1);
    bench_set_number(b, "ready_ms", 1e3 * bench_quantile(ready, N, 0.5));
    bench_set_number(b, "ready_max_ms", 1e3 * bench_quantile(ready, N, 1));
    bench_set_number(b, "first_action_ms", 1e3 * bench_quantile(action, N, 0.5));
    bench_set_number(b, "first_action_max_ms", 1e3 * bench_quantile(action, N, 1));
    bench_emit(b);
    daemon_process_clean(&d);
    hb_model_free(m);
}

static void run_memory(bench *b)
{
    daemon_process d;
    publisher p;

    for (int paper = 0; paper <= 1; paper++) {
        hb_model *m = NULL;
        hb_error err;
        if (paper && hb_test_paper(&m, 100, &err))
            bench_fail("%s", err.text);
        if (!paper)
            m = quadrotor(b);
        daemon_process_prepare(&d, m, EVERY_SAMPLE "target: {z: 1}\nlatency: {budget: 0.05}\n");
        daemon_process_start(&d);
        start_publishing(&p, &d, 200);
        for (int k = 0; k < 20; k++)
            first_action(&d);
        sleep_until(bench_now() + 2);
        bench_set_text(b, "architecture", paper ? "independent" : "shared");
        bench_set_int(b, "nb", m->nb);
        bench_set_number(b, "rss_mb", daemon_process_rss_mb(&d));
        bench_emit(b);
        stop_publishing(&p);
        daemon_process_stop(&d, SIGTERM);
        daemon_process_clean(&d);
        hb_model_free(m);
    }
}

const bench_case bench_daemon_cases[] = {
    {"echo_floor", "round trip to a bare ROUTER, with the sizes of a request and its reply", run_echo_floor},
    {"action_latency", "100 requests a second, 1 kHz telemetry, a budget of 5 ms, 60 s", run_action_latency},
    {"ingest", "largest rate of telemetry at which no sample is dropped", run_ingest},
    {"startup", "from start to READY, and to the first action after a SIGKILL", run_startup},
    {"memory", "resident memory in flight", run_memory},
    {0},
};
