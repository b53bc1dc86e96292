/* Replies as a flight stack sees them: a quadrotor is flown over the daemon's sockets, and each reply timed.
 *
 * The analytic quadrotor (tests/sim) lives in the client, in real time: a thread moves it on by a millisecond every
 * millisecond and publishes its state; another asks for an action every ten, and what is answered is in force from the
 * next millisecond on. When it was held up, it asks at the next ten, as control loops do, and not for all that it
 * missed. The vehicle's mass is not the nominal one, the daemon adapts to it, and the target moves now and then.
 *
 * Beside every reply stands its floor, met by the same machine: after each reply a message of the same size goes to a
 * bare ROUTER that echoes; and another half a period later, when all threads have slept, as they have before a request
 * (rested_floor). A reply is late when it took longer than the budget and what 999 of 1000 echoes took. After
 * the flight, on the same schedule and with the priority of the planner, a thread does nothing but spin for the budget:
 * how often that ends late says what the machine itself takes (spin_late).
 *
 * All of it on a machine that has nothing else to do, and once more beside a busy process per processor.
 *
 * cost_ratio is the flight's cost to that of the same flight with unlimited planning by lib, whose every answer comes
 * at once. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <zmq.h>

#include "base/statistics.h"
#include "bench.h"
#include "controller/controller.h"
#include "daemon_process.h"
#include "hilbert_client.h"
#include "plant_quadrotor.h"
#include "quadrotor_model.h"

enum { NX = QUADROTOR_NX, NU = QUADROTOR_NU, REQUEST_SIZE = 270, REPLY_SIZE = 230, PLANNER_PRIORITY = 30 };

static const double budget = 0.005, period = 0.01;
static const double mass = 0.030;

static void sleep_until(double when)
{
    struct timespec t = {.tv_sec = (time_t)when, .tv_nsec = (long)(1e9 * (when - floor(when)))};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

/* ---- the floors ---- */

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
    double start = hb_now();

    zmq_send(e->socket, frame, REQUEST_SIZE, 0);
    zmq_recv(e->socket, frame, sizeof frame, 0);
    return hb_now() - start;
}

static void stop_echo(echo *e)
{
    kill(e->pid, SIGKILL);
    waitpid(e->pid, NULL, 0);
    zmq_close(e->socket);
    zmq_ctx_term(e->context);
}

typedef struct spin {
    int n;
    double late_after; /* seconds */
    int late;
    double longest; /* seconds past the budget */
} spin;

static void *run_spin(void *context)
{
    spin *s = context;
    const struct sched_param p = {.sched_priority = PLANNER_PRIORITY};

    /* where it is not permitted, it was not permitted to the daemon either */
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &p);
    double start = hb_now() + period;
    for (int k = 0; k < s->n; k++) {
        sleep_until(start + period * k);
        const double begun = hb_now();
        double now = begun;
        while (now < begun + budget)
            now = hb_now();
        s->late += now - begun > s->late_after;
        s->longest = fmax(s->longest, now - begun - budget);
    }
    return NULL;
}

static void spin_floor(spin *s)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run_spin, s))
        bench_fail("cannot start a thread");
    pthread_join(thread, NULL);
}

/* ---- other work beside it ---- */

typedef struct beside {
    int n;
    pid_t *pid;
} beside;

/* One process per processor that never rests, of ordinary priority. */
static void start_beside(beside *w, bool busy)
{
    w->n = busy ? (int)sysconf(_SC_NPROCESSORS_ONLN) : 0;
    w->pid = calloc((size_t)w->n + 1, sizeof *w->pid);
    for (int i = 0; i < w->n; i++) {
        w->pid[i] = fork();
        if (w->pid[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (volatile unsigned turns = 0;; turns++) {
            }
        }
    }
}

static void stop_beside(beside *w)
{
    for (int i = 0; i < w->n; i++) {
        kill(w->pid[i], SIGKILL);
        waitpid(w->pid[i], NULL, 0);
    }
    free(w->pid);
}

static const char *beside_name(bool busy)
{
    return busy ? "a busy process per processor" : "nothing";
}

/* ---- the vehicle ---- */

typedef struct vehicle {
    plant_quadrotor plant;
    double x[NX], u[NU];
    int64_t time_us;
    double cost;         /* sum over the milliseconds that were counted, */
    int counted, counts; /* from the flight's beginning, at most so many */
} vehicle;

/* where it is to be: now and then half a metre to the side */
static void target_at(int64_t time_us, double *target)
{
    memcpy(target, quadrotor_hover_target, NX * sizeof *target);
    target[0] = time_us / 4000000 % 2 ? 0.5 : 0;
}

/* the cost of one moment, that of config/quadrotor.yaml but for the changes of thrust */
static double stage_cost(const double *x, const double *target)
{
    double pitch = asin(fmin(fmax(2 * (x[9] * x[7] - x[6] * x[8]), -1), 1));
    double roll = atan2(2 * (x[9] * x[6] + x[7] * x[8]), 1 - 2 * (x[6] * x[6] + x[7] * x[7]));
    double distance = 0, speed = 0, rates = 0;

    for (int i = 0; i < 3; i++) {
        distance += pow(x[2 * i] - target[2 * i], 2);
        speed += pow(x[2 * i + 1], 2);
        rates += pow(x[10 + i], 2);
    }
    return 3 * sqrt(distance) + 5 * (roll * roll + pitch * pitch) + speed + 0.02 * rates;
}

/* One that flies for as long as so many requests take: what comes after that counts in no flight, also where requests
 * were left out and others came instead. */
static void reset_vehicle(vehicle *v, int requests)
{
    *v = (vehicle){.plant = plant_quadrotor_crazyflie, .counts = (int)lround(1e3 * period * requests)};
    v->plant.mass = mass;
    memcpy(v->x, quadrotor_hover_target, sizeof v->x);
    for (int i = 0; i < NU; i++)
        v->u[i] = plant_quadrotor_hover_thrust(&v->plant);
}

static void move_on(vehicle *v)
{
    double target[NX];

    plant_quadrotor_step(&v->plant, v->x, v->u, 1e-3);
    v->time_us += 1000;
    if (v->counted == v->counts)
        return;
    target_at(v->time_us, target);
    v->cost += stage_cost(v->x, target);
    v->counted++;
}

/* ---- flown over the daemon's sockets ---- */

typedef struct flight {
    const daemon_process *d;
    vehicle v;
    pthread_mutex_t lock; /* of the vehicle */
    _Atomic bool begun, stop;
    pthread_t thread;

    double published[NX]; /* newest sample of telemetry, */
    int64_t published_us; /* and its time */
    double period;        /* of requests */
    int every;            /* milliseconds from one sample of telemetry to the next */
    int n;
    double *action, *floor, *planning, *preparing; /* seconds, n each */
    double *rested;                                /* likewise: floor, half a period later */
    double *queue, *total;                         /* likewise: in the daemon, as its replies tell */
    int status[HILBERT_REFUSED + 1], failed, corrected;
} flight;

/* a millisecond of the vehicle every millisecond, made up for when the machine was elsewhere */
static void *live(void *context)
{
    flight *f = context;
    hilbert_client *h;
    double start;

    if (hilbert_connect(&h, &(hilbert_options){.telemetry = f->d->telemetry, .actions = f->d->telemetry}, NULL, 0))
        bench_fail("%s: cannot connect", f->d->telemetry);
    sleep_until(hb_now() + 0.2); /* until the subscription has come through */
    start = hb_now();
    f->begun = true;
    for (int64_t done = 0; !f->stop;) {
        for (int64_t due = (int64_t)(1e3 * (hb_now() - start)); done < due; done++) {
            double x[NX], u[NU];
            pthread_mutex_lock(&f->lock);
            move_on(&f->v);
            memcpy(x, f->v.x, sizeof x);
            memcpy(u, f->v.u, sizeof u);
            const int64_t time_us = f->v.time_us;
            if (done % f->every == 0) {
                memcpy(f->published, x, sizeof x);
                f->published_us = time_us;
            }
            pthread_mutex_unlock(&f->lock);
            if (done % f->every == 0)
                hilbert_publish(h, &(hilbert_telemetry){
                                       .time_us = time_us, .state = x, .nstate = NX, .control = u, .ncontrol = NU});
        }
        sleep_until(start + 1e-3 * (double)(done + 1));
    }
    hilbert_close(h);
    return NULL;
}

/* requests in their period, each followed by an echo */
static void fly(flight *f, echo *e)
{
    hilbert_client *h;

    if (hilbert_connect(&h, &(hilbert_options){.telemetry = "", .actions = f->d->actions}, NULL, 0))
        bench_fail("%s: cannot connect", f->d->actions);
    if (pthread_create(&f->thread, NULL, live, f))
        bench_fail("cannot start a thread");
    while (!f->begun)
        sleep_until(hb_now() + 1e-4);
    double due = hb_now() + 2e-3;
    for (int k = 0; k < f->n; k++) {
        double x[NX], target[NX];
        hilbert_action_reply reply;
        sleep_until(due);
        pthread_mutex_lock(&f->lock);
        const bool sampled = f->every > 1 && f->published_us > 0; /* asks with the newest sample, as flight stacks do */
        memcpy(x, sampled ? f->published : f->v.x, sizeof x);
        const int64_t time_us = sampled ? f->published_us : f->v.time_us;
        pthread_mutex_unlock(&f->lock);
        target_at(time_us, target);
        const hilbert_action_request ask = {
            .time_us = time_us, .state = x, .nstate = NX, .target = target, .ntarget = NX};
        const double sent = hb_now();
        if (hilbert_request(h, &ask, 1, &reply)) {
            f->failed++;
            f->action[k] = hb_now() - sent;
        } else {
            f->action[k] = hb_now() - sent;
            f->status[reply.status]++;
            f->planning[k] = reply.planning;
            f->preparing[k] = reply.preparing;
            f->queue[k] = reply.queue;
            f->total[k] = reply.total;
            f->corrected += reply.corrected;
            if (reply.naction == NU) {
                pthread_mutex_lock(&f->lock);
                memcpy(f->v.u, reply.action, sizeof f->v.u);
                pthread_mutex_unlock(&f->lock);
            }
        }
        f->floor[k] = echo_once(e);
        sleep_until(due + f->period / 2);
        f->rested[k] = echo_once(e);
        due += f->period * fmax(ceil((hb_now() - due) / f->period), 1);
    }
    hilbert_close(h);
}

/* ---- flown by lib, without a deadline ---- */

/* that of config/quadrotor.yaml, as the daemon is told below */
static const hb_cost shipped_cost = {
    .nterms = 5,
    .term = {{.kind = HB_COST_DISTANCE, .weight = 3, .terminal = 10, .nindices = 3, .index = {0, 2, 4}},
             {.kind = HB_COST_TILT, .weight = 5, .terminal = 10, .nindices = 4, .index = {6, 7, 8, 9}},
             {.kind = HB_COST_SQUARED, .weight = 1, .terminal = 10, .nindices = 3, .index = {1, 3, 5}},
             {.kind = HB_COST_VELOCITY, .weight = 0.02, .terminal = 10, .nindices = 3, .index = {10, 11, 12}},
             {.kind = HB_COST_SLEW, .weight = 200, .terminal = 1, .nindices = 4, .index = {0, 1, 2, 3}}},
};

static double standing_still(void *context)
{
    return *(double *)context;
}

static hb_controller_settings settings_of(const hb_planner_settings *planner)
{
    hb_controller_settings s = hb_controller_defaults();

    s.planner = *planner;
    s.planner.prepare = false;
    s.cost = shipped_cost;
    s.ntarget = NX;
    memcpy(s.target, quadrotor_hover_target, NX * sizeof *s.target);
    s.budget = 1;
    s.estimator.window = 250;
    return s;
}

/* of each request answered without sockets: processor time, and whether it was a correction */
typedef struct answered {
    double *seconds; /* NULL: nobody wants to know */
    int corrected, iterations;
    hb_counters counters; /* at the end */
} answered;

static double fly_without_deadline(const hb_model *m, const hb_planner_settings *planner, int requests, bool prepare,
                                   answered *a)
{
    hb_controller_settings s = settings_of(planner);
    hb_controller *c = NULL;
    hb_pool *pool = NULL;
    hb_error err;
    vehicle v;
    double now = 1;
    const hb_clock clock = {.now = standing_still, .context = &now};

    s.planner.prepare = prepare;
    if (hb_pool_new(&pool, 1, NULL, NULL, &err) || hb_controller_new(&c, m, &s, pool, NULL, NULL, &err))
        bench_fail("%s", err.text);
    reset_vehicle(&v, requests);
    for (int ms = 0; ms < 10 * requests; ms++, now += 1e-3) {
        move_on(&v);
        hb_controller_observe(c, &(hb_observation){.time_us = v.time_us, .x = v.x, .nx = NX, .u = v.u, .nu = NU}, now);
        if (ms % 10)
            continue;
        double target[NX];
        target_at(v.time_us, target);
        const hb_request r = {.time_us = v.time_us,
                              .x = v.x,
                              .nx = NX,
                              .target = target,
                              .ntargets = 1,
                              .received = now,
                              .tick = (uint64_t)(ms / 10)};
        const double begun = bench_cpu();
        const hb_command *command = hb_controller_command(c, &r, &clock);
        if (a) {
            a->seconds[ms / 10] = bench_cpu() - begun;
            a->corrected += command->corrected;
            a->iterations += command->iterations;
        }
        memcpy(v.u, command->action, sizeof v.u);
        hb_controller_prepare(c, &clock, NULL, UINT64_MAX);
    }
    if (a)
        hb_controller_counters(c, &a->counters);
    hb_controller_free(c);
    hb_pool_free(pool);
    return v.cost / v.counted;
}

/* ---- the case ---- */

static void set_quantiles(bench *b, double *seconds, int n)
{
    bench_set_number(b, "p50_ms", 1e3 * hb_quantile(seconds, n, 0.5));
    bench_set_number(b, "p99_ms", 1e3 * hb_quantile(seconds, n, 0.99));
    bench_set_number(b, "p999_ms", 1e3 * hb_quantile(seconds, n, 0.999));
    bench_set_number(b, "max_ms", 1e3 * hb_quantile(seconds, n, 1));
}

static void new_flight(flight *f, const daemon_process *d, int n)
{
    *f = (flight){.d = d, .n = n, .period = period, .every = 1};
    pthread_mutex_init(&f->lock, NULL);
    reset_vehicle(&f->v, n);
    f->action = calloc((size_t)n, sizeof *f->action);
    f->floor = calloc((size_t)n, sizeof *f->floor);
    f->rested = calloc((size_t)n, sizeof *f->rested);
    f->planning = calloc((size_t)n, sizeof *f->planning);
    f->preparing = calloc((size_t)n, sizeof *f->preparing);
    f->queue = calloc((size_t)n, sizeof *f->queue);
    f->total = calloc((size_t)n, sizeof *f->total);
}

static void free_flight(flight *f)
{
    pthread_mutex_destroy(&f->lock);
    free(f->action);
    free(f->floor);
    free(f->rested);
    free(f->planning);
    free(f->preparing);
    free(f->queue);
    free(f->total);
}

/* Where the time of slow replies went. */
enum { ON_THE_WAY, IN_QUEUE, IN_PLAN, ON_THE_WAY_BACK, NPLACES };
static const char *const place_name[NPLACES] = {
    "transport",        /* from the client to the server's thread, and from its sending to the client */
    "queue",            /* from there until the planner's thread began */
    "plan", "handover", /* from the planner's thread through the server's until it was sent */
};

/* How long replies were in each place. Must come before the quantiles of the places themselves, which sort. */
static void set_place_times(bench *b, const flight *f)
{
    double *in[NPLACES], *all = calloc(NPLACES * (size_t)f->n, sizeof *all);
    char key[64];

    for (int j = 0; j < NPLACES; j++)
        in[j] = all + (ptrdiff_t)j * f->n;
    for (int i = 0; i < f->n; i++) {
        in[ON_THE_WAY][i] = f->action[i] - f->total[i];
        in[IN_QUEUE][i] = f->queue[i];
        in[IN_PLAN][i] = f->planning[i];
        in[ON_THE_WAY_BACK][i] = f->total[i] - f->queue[i] - f->planning[i];
    }
    for (int j = 0; j < NPLACES; j++) {
        snprintf(key, sizeof key, "%s_p50_ms", place_name[j]);
        bench_set_number(b, key, 1e3 * hb_quantile(in[j], f->n, 0.5));
        snprintf(key, sizeof key, "%s_p90_ms", place_name[j]);
        bench_set_number(b, key, 1e3 * hb_quantile(in[j], f->n, 0.9));
        snprintf(key, sizeof key, "%s_p99_ms", place_name[j]);
        bench_set_number(b, key, 1e3 * hb_quantile(in[j], f->n, 0.99));
    }
    free(all);
}

/* Of replies that took longer than `after`: how many, and in which place most of the time went. Must come before the
 * quantiles, which sort. */
static void set_places(bench *b, const char *word, const flight *f, double after)
{
    int slow = 0, most_in[NPLACES] = {0};
    double longest[NPLACES] = {0};
    char key[64];

    for (int i = 0; i < f->n; i++) {
        const double in[NPLACES] = {f->action[i] - f->total[i], f->queue[i], f->planning[i],
                                    f->total[i] - f->queue[i] - f->planning[i]};
        int most = 0;
        if (f->action[i] <= after)
            continue;
        for (int j = 0; j < NPLACES; j++) {
            most = in[j] > in[most] ? j : most;
            longest[j] = fmax(longest[j], in[j]);
        }
        slow++;
        most_in[most]++;
    }
    snprintf(key, sizeof key, "%s", word);
    bench_set_int(b, key, slow);
    for (int j = 0; j < NPLACES; j++) {
        snprintf(key, sizeof key, "%s_%s", word, place_name[j]);
        bench_set_int(b, key, most_in[j]);
        snprintf(key, sizeof key, "%s_%s_max_ms", word, place_name[j]);
        bench_set_number(b, key, 1e3 * longest[j]);
    }
}

static const char cost[] = "cost:\n"
                           "  - {kind: distance, states: [0, 2, 4], weight: 3, terminal: 10}\n"
                           "  - {kind: tilt, states: [6, 7, 8, 9], weight: 5, terminal: 10}\n"
                           "  - {kind: squared, states: [1, 3, 5], weight: 1, terminal: 10}\n"
                           "  - {kind: velocity, states: [10, 11, 12], weight: 0.02, terminal: 10}\n"
                           "  - {kind: slew, controls: [0, 1, 2, 3], weight: 200}\n";

static void measure_latency(bench *b, const char *planner, const char *keys, const hb_planner_settings *settings,
                            bool busy, int seconds)
{
    daemon_process d;
    hb_model *m = daemon_process_quadrotor(b);
    beside others;
    echo e;
    flight f;
    char config[2048];

    snprintf(config, sizeof config,
             "realtime: {scheduling: fifo, keep_awake: true}\nlatency: {budget: %g}\n"
             "estimator: {window: 250}\nplanner: {%s}\n"
             "target: {z: 1, qw: 1}\n%s",
             budget, keys, cost);
    daemon_process_prepare(&d, m, config);
    daemon_process_start(&d);
    start_echo(&e, &d);
    start_beside(&others, busy);
    new_flight(&f, &d, (int)(seconds / period));
    fly(&f, &e);
    f.stop = true;
    pthread_join(f.thread, NULL);
    Hilbert__V1__ControlReply *status = daemon_process_status(&d);
    const char *scheduling = daemon_process_scheduling(&d);
    const bool awake = daemon_process_keeps_awake(&d);
    daemon_process_stop(&d, SIGTERM);
    stop_echo(&e);

    /* in the order of the replies: before anything is sorted */
    set_place_times(b, &f);
    set_places(b, "over_1ms", &f, 1e-3);
    set_places(b, "over_budget", &f, budget);
    const double floor_p999 = hb_quantile(f.floor, f.n, 0.999);
    int late = 0;
    for (int i = 0; i < f.n; i++)
        late += f.action[i] > budget + floor_p999;
    spin idle = {.n = f.n, .late_after = budget + floor_p999};
    spin_floor(&idle);
    stop_beside(&others);
    const double flown = f.v.cost / f.v.counted,
                 unlimited = settings ? fly_without_deadline(m, settings, f.n, false, NULL) : 0;

    bench_set_text(b, "planner", planner);
    bench_set_text(b, "beside", beside_name(busy));
    bench_set_text(b, "scheduling", scheduling);
    bench_set_int(b, "keep_awake", awake);
    bench_set_number(b, "budget_ms", 1e3 * budget);
    bench_set_int(b, "requests", f.n);
    set_quantiles(b, f.action, f.n);
    bench_set_number(b, "floor_p50_ms", 1e3 * hb_quantile(f.floor, f.n, 0.5));
    bench_set_number(b, "floor_p99_ms", 1e3 * hb_quantile(f.floor, f.n, 0.99));
    bench_set_number(b, "floor_p999_ms", 1e3 * floor_p999);
    bench_set_number(b, "rested_floor_p50_ms", 1e3 * hb_quantile(f.rested, f.n, 0.5));
    bench_set_number(b, "rested_floor_p99_ms", 1e3 * hb_quantile(f.rested, f.n, 0.99));
    bench_set_number(b, "planning_p50_ms", 1e3 * hb_quantile(f.planning, f.n, 0.5));
    bench_set_number(b, "planning_p99_ms", 1e3 * hb_quantile(f.planning, f.n, 0.99));
    bench_set_number(b, "preparing_p50_ms", 1e3 * hb_quantile(f.preparing, f.n, 0.5));
    bench_set_number(b, "preparing_max_ms", 1e3 * hb_quantile(f.preparing, f.n, 1));
    bench_set_int(b, "late", late);
    bench_set_int(b, "spin_late", idle.late);
    bench_set_number(b, "spin_longest_ms", 1e3 * idle.longest);
    bench_set_int(b, "failed", f.failed);
    bench_set_number(b, "corrected", (double)f.corrected / f.n);
    for (int i = HILBERT_CONVERGED; i <= HILBERT_REFUSED; i++)
        bench_set_number(b, hilbert_status_name((hilbert_status)i), (double)f.status[i] / f.n);
    bench_set_number(b, "cost", flown);
    if (settings) {
        bench_set_number(b, "cost_ratio", flown / unlimited);
        bench_set_number(b, "unlimited_cost", unlimited);
    }
    bench_set_int(b, "daemon_late", (int64_t)status->status->counters->replies_late);
    bench_set_int(b, "transitions", (int64_t)status->status->counters->transitions);
    bench_set_int(b, "telemetry_overrun", (int64_t)status->status->counters->telemetry_overrun);
    bench_emit(b);
    hilbert__v1__control_reply__free_unpacked(status, NULL);
    daemon_process_clean(&d);
    free_flight(&f);
    hb_model_free(m);
}

static void run_action_latency(bench *b)
{
    const char *given = getenv("HILBERT_BENCH_SECONDS");
    int seconds = given ? atoi(given) : 60;

    measure_latency(b, "default", "horizon: 10", &hb_planner_defaults, false, seconds);
    measure_latency(b, "default", "horizon: 10", &hb_planner_defaults, true, seconds);
    /* one that never has enough: every reply takes the whole budget */
    measure_latency(b, "gradient, endless", "method: gradient, horizon: 10, iterations: 1000000", NULL, false, seconds);
}

/* The same flight with everything prepared: what an answer costs, all that the controller does included. */
static void run_command(bench *b)
{
    enum { N = 1000 };
    hb_model *m = daemon_process_quadrotor(b);
    answered a = {.seconds = calloc(N, sizeof *a.seconds)};
    const double cost_of_flight = fly_without_deadline(m, &hb_planner_defaults, N, true, &a);

    bench_set_int(b, "requests", N);
    bench_set_number(b, "cpu_p50_ms", 1e3 * hb_quantile(a.seconds, N, 0.5));
    bench_set_number(b, "cpu_p90_ms", 1e3 * hb_quantile(a.seconds, N, 0.9));
    bench_set_number(b, "cpu_p99_ms", 1e3 * hb_quantile(a.seconds, N, 0.99));
    bench_set_number(b, "corrected", (double)a.corrected / N);
    bench_set_number(b, "predicted", (double)a.counters.predicted / N);
    bench_set_number(b, "disagreed", (double)a.counters.disagreed / N);
    bench_set_number(b, "iterations", (double)a.iterations / N);
    bench_set_number(b, "cost", cost_of_flight);
    bench_emit(b);
    free(a.seconds);
    hb_model_free(m);
}

/* ---- the recorder ---- */

/* What flights with and without it come to, one after the other so that both meet the same machine. */
typedef struct recorded {
    double *action, *floor; /* seconds, of all flights */
    int n;
    double bytes, seconds; /* that were recorded, and in which */
    uint64_t lost;
    double replayed, flown; /* seconds of processor time that a replay took, and of the flights in it */
    int replies, identical;
} recorded;

static void replay(const daemon_process *d, recorded *r)
{
    char command[512], line[512];
    struct rusage before, after;

    getrusage(RUSAGE_CHILDREN, &before);
    snprintf(command, sizeof command, "%s/daemon/hilbertd --replay %s/*.mcap", HB_BUILD_ROOT, d->folder);
    FILE *out = popen(command, "r");
    if (!out)
        bench_fail("cannot start a replay");
    while (fgets(line, sizeof line, out)) {
        int replies, identical;
        if (sscanf(line, "%d replies, %d identical", &replies, &identical) == 2) {
            r->replies += replies;
            r->identical += identical;
        }
    }
    if (pclose(out) < 0)
        bench_fail("a replay did not end");
    getrusage(RUSAGE_CHILDREN, &after);
    r->replayed += (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
                   1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec);
}

static void fly_recorded(const hb_model *m, bool on, int n, recorded *r)
{
    daemon_process d;
    Hilbert__V1__ControlReply *status;
    char config[2048];
    double before = 0;
    echo e;
    flight f;

    snprintf(config, sizeof config,
             "realtime: {scheduling: fifo, keep_awake: true}\nlatency: {budget: %g}\ntarget: {z: 1, qw: 1}\n"
             "recorder: {enabled: %s, directory: .}\n%s",
             budget, on ? "true" : "false", cost);
    daemon_process_prepare(&d, m, config);
    daemon_process_start(&d);
    /* what a file begins with is not counted */
    for (int i = 0; on && before == 0 && i < 100; i++) {
        sleep_until(hb_now() + 0.1);
        status = daemon_process_status(&d);
        before = status->status->recorder ? (double)status->status->recorder->bytes : 0;
        hilbert__v1__control_reply__free_unpacked(status, NULL);
    }
    start_echo(&e, &d);
    new_flight(&f, &d, n);
    f.period = 0.02;
    f.every = 10;
    fly(&f, &e);
    f.stop = true;
    pthread_join(f.thread, NULL);
    stop_echo(&e);
    if (on) {
        sleep_until(hb_now() + 1.2);
        status = daemon_process_status(&d);
        r->bytes += (double)status->status->recorder->bytes - before;
        r->seconds += n * f.period;
        r->lost += status->status->recorder->lost;
        r->flown += n * f.period;
        hilbert__v1__control_reply__free_unpacked(status, NULL);
    }
    daemon_process_stop(&d, SIGTERM);
    if (on)
        replay(&d, r);
    memcpy(r->action + r->n, f.action, (size_t)n * sizeof *f.action);
    memcpy(r->floor + r->n, f.floor, (size_t)n * sizeof *f.floor);
    r->n += n;
    daemon_process_clean(&d);
    free_flight(&f);
}

static int count_late(recorded *r)
{
    const double after = budget + hb_quantile(r->floor, r->n, 0.999);
    int late = 0;

    for (int i = 0; i < r->n; i++)
        late += r->action[i] > after;
    return late;
}

static void run_recorder(bench *b)
{
    const char *given = getenv("HILBERT_BENCH_SECONDS");
    enum { FLIGHTS = 4 };
    const int n = (given ? atoi(given) : 120) * 50 / FLIGHTS;
    hb_model *m = daemon_process_quadrotor(b);
    recorded with = {0}, without = {0};

    for (recorded *r = &with; r; r = r == &with ? &without : NULL) {
        r->action = calloc((size_t)(n * FLIGHTS), sizeof *r->action);
        r->floor = calloc((size_t)(n * FLIGHTS), sizeof *r->floor);
    }
    for (int i = 0; i < FLIGHTS; i++) {
        fly_recorded(m, false, n, &without);
        fly_recorded(m, true, n, &with);
    }
    const double p99 = hb_quantile(with.action, with.n, 0.99),
                 p99_without = hb_quantile(without.action, without.n, 0.99);
    bench_set_int(b, "requests", with.n);
    bench_set_number(b, "p50_ms", 1e3 * hb_quantile(with.action, with.n, 0.5));
    bench_set_number(b, "p50_without_ms", 1e3 * hb_quantile(without.action, without.n, 0.5));
    bench_set_number(b, "p99_ms", 1e3 * p99);
    bench_set_number(b, "p99_without_ms", 1e3 * p99_without);
    bench_set_number(b, "p99_ratio", p99 / p99_without);
    bench_set_int(b, "late", count_late(&with));
    bench_set_int(b, "late_without", count_late(&without));
    bench_set_number(b, "mb_per_hour", 1e-6 * with.bytes / with.seconds * 3600);
    bench_set_int(b, "lost", (int64_t)with.lost);
    bench_set_int(b, "replayed", with.replies);
    bench_set_int(b, "identical", with.identical);
    bench_set_number(b, "replay_speed", with.flown / with.replayed);
    bench_emit(b);
    free(with.action);
    free(with.floor);
    free(without.action);
    free(without.floor);
    hb_model_free(m);
}

static void run_echo_floor(bench *b)
{
    daemon_process place = {.folder = "/tmp/hilbert-bench-XXXXXX", .notify = -1};
    enum { N = 6000 };
    double *seconds = calloc(N, sizeof *seconds), start = hb_now() + 0.2;
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

static void run_spin_floor(bench *b)
{
    spin s = {.n = 6000, .late_after = budget + 1e-3};

    spin_floor(&s);
    bench_set_int(b, "periods", s.n);
    bench_set_number(b, "spin_ms", 1e3 * budget);
    bench_set_int(b, "spin_late", s.late);
    bench_set_number(b, "spin_longest_ms", 1e3 * s.longest);
    bench_emit(b);
}

const bench_case bench_latency_cases[] = {
    {"echo_floor", "round trip to a bare ROUTER, with the sizes of a request and its reply", run_echo_floor},
    {"spin_floor", "how often a thread that spins for 5 ms of 10 ends more than 1 ms late, 60 s", run_spin_floor},
    {"action_latency", "a flight over the sockets: 100 requests a second, 1 kHz telemetry, a budget of 5 ms, 60 s",
     run_action_latency},
    {"command", "an answer by the controller from what was prepared, adapting, in processor time: the same flight",
     run_command},
    {"recorder",
     "replies with and without the recorder, 50 requests and 100 samples a second, 120 s of each; its size; replay",
     run_recorder},
    {0},
};
