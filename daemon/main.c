/* hilbertd: its main is its architecture. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "base/numeric.h"
#include "common/options.h"
#include "config/config.h"
#include "process/log.h"
#include "process/notify.h"
#include "process/process_limits.h"
#include "process/realtime.h"
#include "process/selftest.h"
#include "process/state.h"
#include "server/in_force.h"
#include "server/recorder.h"
#include "server/replay.h"
#include "server/server.h"
#include "server/sockets.h"

static const char usage[] =
    "usage: hilbertd [OPTION] FILE\n"
    "Estimates the dynamics of a vehicle from its telemetry and plans its actions; FILE is the configuration.\n"
    "\n"
    "  --replay FILE...  decide on a recorded flight once more and compare each reply to the byte, and exit; FILEs "
    "are\n"
    "                    recordings of one run. With --config OTHER.yaml or --model OTHER: what that would have "
    "decided\n"
    "  --check           say whether the daemon would start with FILE here, and exit\n"
    "  --print-config    print the configuration in force, or the commented defaults without FILE, and exit\n"
    "  --print-keys      print the keys as the manual has them (scdoc), and exit\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 stopped as asked, 1 failure, 2 wrong usage. See hilbertd(8) and hilbertd.yaml(5).\n";

typedef struct options {
    bool check, print, replay;
    const char *file;
    hb_replay_settings replayed;
} options;

/* All that a running daemon consists of, in the order in which it is made. */
typedef struct hb_daemon {
    hb_log log;
    hb_in_force in_force; /* configuration and models */
    hb_config *first;     /* as it was at the start, for threads: a reload may come before they began */
    int signals;          /* signalfd */
    hb_pool *pool;
    hb_pool *shadow_pool; /* the shadow's own, so that it can be tested while the other plans */
    hb_state state;
    bool resumed;
    void *window; /* what was kept by the state, as it was found: for the recorder */
    size_t nwindow;
    hb_controller *controller, *shadow_controller;
    hb_recorder recorder;
    hb_sockets sockets;
    hb_server *server;
    pthread_t thread;
    bool running;
} hb_daemon;

/* ---- arguments and configuration ---- */

static void print_usage(void)
{
    fputs(usage, stdout);
}

/* Fills in *ret and returns -1, or returns the exit status of a program that is done. */
static int read_arguments(int argc, char **argv, options *ret)
{
    options o = {0};
    bool keys = false, version = false;
    const hb_option table[] = {
        {"check", HB_OPTION_FLAG, &o.check, 0, 0, 0},
        {"print-config", HB_OPTION_FLAG, &o.print, 0, 0, 0},
        {"print-keys", HB_OPTION_FLAG, &keys, 0, 0, 0},
        {"replay", HB_OPTION_FLAG, &o.replay, 0, 0, 0},
        {"config", HB_OPTION_TEXT, &o.replayed.config, 0, 0, 0},
        {"model", HB_OPTION_TEXT, &o.replayed.model, 0, 0, 0},
        {"version", HB_OPTION_FLAG, &version, 0, 0, 0},
    };
    const char *wrong = NULL;
    int code = hb_options_command("hilbertd", table, sizeof table / sizeof *table, argc, argv, print_usage);

    if (code >= 0)
        return code;
    if (version || keys) {
        if (version) {
            puts("hilbertd " HB_VERSION);
        } else {
            /* the manual is of no instance: its defaults are those without a service manager */
            unsetenv("RUNTIME_DIRECTORY");
            unsetenv("LOGS_DIRECTORY");
            hb_config_print_manual(stdout);
        }
        return 0;
    }
    o.replayed.file = (const char *const *)argv + optind;
    o.replayed.nfiles = argc - optind;
    o.file = argv[optind];
    if (!o.replay && (o.replayed.config || o.replayed.model))
        wrong = "--config and --model go with --replay alone";
    else if (!o.file && (o.replay || !o.print))
        wrong = o.replay ? "no recording given" : "no configuration given";
    else if (!o.replay && o.replayed.nfiles > 1)
        wrong = "one configuration at a time";
    if (wrong) {
        fprintf(stderr, "hilbertd: %s (try --help)\n", wrong);
        return 2;
    }
    *ret = o;
    return -1;
}

static void print_errors(const hb_config_errors *errors)
{
    for (int i = 0; i < errors->n && i < HB_CONFIG_ERRORS; i++)
        fprintf(stderr, "%s\n", errors->text[i]);
    if (errors->n > HB_CONFIG_ERRORS)
        fprintf(stderr, "and %d more\n", errors->n - HB_CONFIG_ERRORS);
}

static int load(hb_daemon *d, const options *o)
{
    const hb_in_force *f = &d->in_force;
    int wrong = hb_in_force_load(&d->in_force, o->file);

    if (!wrong && o->check)
        hb_config_check_horizon(f->config, f->model);
    for (int i = 0; i < f->config->warnings.n; i++)
        fprintf(stderr, "%s\n", f->config->warnings.text[i]);
    print_errors(f->errors);
    return wrong ? -EINVAL : 0;
}

/* ---- setting up ---- */

/* On a thread that does not block signals: to the main thread, whose id is the process's. */
static void pass_on(int number)
{
    int saved = errno;

    syscall(SYS_tgkill, getpid(), getpid(), number);
    errno = saved;
}

/* Signals are read from a descriptor by the main thread. Our threads block them; those that BLAS started before main
 * do not, and pass them on. */
static int take_signals(hb_daemon *d, hb_error *err)
{
    static const int ours[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    sigset_t set;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is a full disk to the recorder, and not the end */
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        sigaddset(&set, ours[i]);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        sigaction(ours[i], &action, NULL);
    d->signals = signalfd(-1, &set, SFD_CLOEXEC);
    return d->signals < 0 ? hb_fail(err, errno, "signalfd: %s", strerror(errno)) : 0;
}

/* On each thread of the pool. */
static void pool_started(void *context, int index)
{
    hb_daemon *d = context;
    char name[16];

    snprintf(name, sizeof name, "planner-%d", index);
    hb_realtime_thread(d->first, HB_ROLE_PLANNER, name);
}

/* The shadow's estimator has its window in plain memory; its planner waits until it is promoted. */
static int make_shadow(hb_daemon *d, void (*started)(void *context, int index), hb_error *err)
{
    double seconds = 0;
    hb_error why;

    if (!d->in_force.shadow_model)
        return 0;
    int r = hb_pool_new(&d->shadow_pool, d->in_force.config->threads, started, d, &why);
    if (!r)
        r = hb_selftest(d->in_force.shadow_model, d->in_force.shadow_settings, d->shadow_pool, &seconds, &why);
    if (!r)
        r = hb_controller_new(&d->shadow_controller, d->in_force.shadow_model, d->in_force.shadow_settings,
                              d->shadow_pool, NULL, NULL, &why);
    return r ? hb_fail(err, -r, "shadow.model: %s", why.text) : 0;
}

static int test_planning(hb_daemon *d, hb_error *err)
{
    double seconds = 0;
    int r = hb_selftest(d->in_force.model, &d->in_force.config->controller, d->pool, &seconds, err);

    if (!r)
        hb_log_line(&d->log, HB_LOG_INFO, "self-test passed in %.2f ms", 1e3 * seconds);
    return r;
}

/* Memory that outlives the process, and a copy of what it held: the recording begins with that. */
static int open_state(hb_daemon *d, hb_error *err)
{
    const size_t size = hb_estimator_memory_size(d->in_force.model, &d->in_force.config->controller.estimator);
    hb_error note;
    int r = hb_state_open(&d->state, size, &d->in_force.inherited, d->in_force.config->state_file, &note, err);

    if (r)
        return r;
    if (note.code)
        hb_log_line(&d->log, HB_LOG_WARNING, "%s", note.text);
    if (!d->state.kept)
        return 0;
    if (!(d->window = malloc(size)))
        return hb_fail(err, ENOMEM, "out of memory");
    memcpy(d->window, d->state.memory, d->nwindow = size);
    return 0;
}

static int make_controller(hb_daemon *d, hb_error *err)
{
    hb_error resumed = {0};
    int r = hb_controller_new(&d->controller, d->in_force.model, &d->in_force.config->controller, d->pool,
                              d->state.memory, &resumed, err);

    if (r)
        return r;
    d->resumed = d->state.kept && resumed.code == 0;
    if (d->resumed)
        hb_log_line(&d->log, HB_LOG_NOTICE, "window taken over from %s: %s", d->state.where, resumed.text);
    else if (d->state.kept)
        hb_log_line(&d->log, HB_LOG_WARNING, "window kept by %s not taken over: %s", d->state.where, resumed.text);
    return 0;
}

static int open_recorder(hb_daemon *d, hb_error *err)
{
    const hb_config *c = d->in_force.config;
    char *text = hb_in_force_text(c);
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    int r = text
                ? hb_recorder_open(&d->recorder,
                                   &(hb_recorder_settings){.config = c,
                                                           .model = d->in_force.model,
                                                           .configuration = text,
                                                           .window = d->window,
                                                           .nwindow = d->resumed ? d->nwindow : 0,
                                                           .run = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec,
                                                           .log = &d->log,
                                                           .clock = {.now = hb_clock_monotonic}},
                                   err)
                : hb_fail(err, ENOMEM, "out of memory");
    free(text);
    free(d->window);
    d->window = NULL;
    return r;
}

static void *serve(void *context)
{
    hb_daemon *d = context;

    hb_realtime_thread(d->first, HB_ROLE_SERVER, "server");
    hb_server_run(d->server);
    return NULL;
}

static int set_up(hb_daemon *d, hb_error *err)
{
    int r = take_signals(d, err);

    *d->first = *d->in_force.config;
    if (!r)
        r = hb_limits_raise(d->in_force.config->threads, err);
    if (!r)
        r = hb_realtime_start(d->in_force.config, &d->log, err);
    if (!r)
        r = hb_pool_new(&d->pool, d->in_force.config->threads, pool_started, d, err);
    if (!r)
        r = test_planning(d, err);
    if (!r)
        r = open_state(d, err);
    if (!r)
        r = make_controller(d, err);
    if (!r)
        r = make_shadow(d, pool_started, err);
    if (!r)
        r = open_recorder(d, err);
    if (!r)
        r = hb_sockets_open(&d->sockets, d->in_force.config, &d->in_force.inherited, &d->log, err);
    if (!r)
        r = hb_server_new(
            &d->server,
            &(hb_server_settings){
                .config = d->in_force.config,
                .model = d->in_force.model,
                .controller = d->controller,
                .shadow = d->in_force.shadow_model,
                .shadow_controller = d->shadow_controller,
                .shadow_settings = d->in_force.shadow_settings,
                .transport = hb_sockets_transport(&d->sockets),
                .pilot_key = hb_sockets_pilot_key(&d->sockets),
                .clock = {.now = hb_clock_monotonic},
                .wall = {.now = hb_clock_wall},
                /* a thread's own clock does not count what the pool's threads use */
                .processor = {.now = d->in_force.config->threads > 1 ? hb_clock_monotonic : hb_clock_processor},
                .log = &d->log,
                .journal = d->recorder.journal,
                .resumed = d->resumed,
                .kept_target = d->state.target},
            err);
    if (!r && (errno = pthread_create(&d->thread, NULL, serve, d)))
        r = hb_fail(err, errno, "cannot start the server's thread: %s", strerror(errno));
    d->in_force.server = d->server;
    d->running = !r;
    return r;
}

static void tear_down(hb_daemon *d)
{
    if (d->running) {
        hb_server_stop(d->server);
        pthread_join(d->thread, NULL);
        const hb_health *h = hb_controller_health(d->controller);
        hb_log_line(&d->log, HB_LOG_NOTICE, "stopped with a window of %d samples, %" PRIu64 " changes of dynamics",
                    h->samples, h->changes);
    }
    hb_server_free(d->server);
    hb_recorder_close(&d->recorder);
    hb_sockets_close(&d->sockets);
    hb_controller_free(d->shadow_controller);
    hb_pool_free(d->shadow_pool);
    hb_controller_free(d->controller);
    free(d->window);
    hb_state_close(&d->state);
    hb_pool_free(d->pool);
    if (d->signals >= 0)
        close(d->signals);
}

/* A dry run of a start, without the sockets and the state file, which a running daemon may hold, and without real-time
 * scheduling, which could take the processor from a daemon that is flying a vehicle. */
static int dry_run(hb_daemon *d)
{
    hb_error err = {0};
    double seconds;
    int r = 0;

    hb_log_start(&d->log, HB_LOG_WARNING);
    if (d->in_force.config->realtime.required)
        r = hb_realtime_start(d->in_force.config, &d->log, &err);
    if (!r)
        r = hb_pool_new(&d->pool, d->in_force.config->threads, NULL, NULL, &err);
    if (!r)
        r = hb_selftest(d->in_force.model, &d->in_force.config->controller, d->pool, &seconds, &err);
    if (!r)
        r = hb_controller_new(&d->controller, d->in_force.model, &d->in_force.config->controller, d->pool, NULL, NULL,
                              &err);
    if (!r)
        r = make_shadow(d, NULL, &err);
    if (r) {
        *d->in_force.errors = (hb_config_errors){0};
        hb_config_error_of(d->in_force.errors, d->in_force.config, &err);
        print_errors(d->in_force.errors);
    }
    tear_down(d);
    return r ? 1 : 0;
}

/* ---- running ---- */

/* The models change places, and all that goes with them. */
static void exchange(hb_daemon *d)
{
    hb_controller *controller = d->controller;
    hb_pool *pool = d->pool;

    d->controller = d->shadow_controller;
    d->shadow_controller = controller;
    d->pool = d->shadow_pool;
    d->shadow_pool = pool;
    hb_in_force_exchange(&d->in_force);
}

/* A client wants the shadow's model to fly: it plans once from where the vehicle is, with what it knows, and then
 * does. The planning side of its controller is ours until the order. */
static void promote(hb_daemon *d)
{
    hb_error err = {0}, why;
    double seconds = 0;

    *d->in_force.order = (hb_order){.promote = true};
    if (hb_selftest_of(d->shadow_controller, d->in_force.shadow_model, hb_server_trial(d->server), &seconds, &why)) {
        hb_fail(&err, EINVAL, "the shadow failed its self-test: %s", why.text);
        d->in_force.order->error = err.text;
    }
    if (hb_server_order(d->server, d->in_force.order, &why)) {
        hb_log_line(&d->log, HB_LOG_ERROR, "promote: nothing was changed: %s", why.text);
        return;
    }
    exchange(d);
    hb_log_line(&d->log, HB_LOG_NOTICE,
                "promoted: %s is in use, %s is its shadow, until the next restart (self-test %.2f ms); to keep it so, "
                "exchange model and shadow.model in %s",
                d->in_force.config->model, d->in_force.config->shadow.model, 1e3 * seconds, d->in_force.config->file);
}

/* Until a signal asks it to stop. */
static void run(hb_daemon *d)
{
    struct pollfd wait[] = {{.fd = d->signals, .events = POLLIN},
                            {.fd = hb_server_reload_fd(d->server), .events = POLLIN},
                            {.fd = hb_server_promote_fd(d->server), .events = POLLIN},
                            {.fd = hb_server_setting_fd(d->server), .events = POLLIN}};

    for (;;) {
        struct signalfd_siginfo info = {0};
        eventfd_t count;
        double seconds = hb_in_force_expire(&d->in_force);
        if (poll(wait, 4, seconds < 0 ? -1 : (int)fmin(1e3 * seconds + 1, 1e9)) < 0)
            continue;
        bool wanted = wait[1].revents && eventfd_read(wait[1].fd, &count) == 0;
        if (wait[0].revents && read(d->signals, &info, sizeof info) == sizeof info && info.ssi_signo != SIGHUP) {
            hb_log_line(&d->log, HB_LOG_NOTICE, "stopping (%s)", strsignal((int)info.ssi_signo));
            return;
        }
        if (wanted || info.ssi_signo == SIGHUP)
            hb_in_force_reload(&d->in_force);
        if (wait[2].revents && eventfd_read(wait[2].fd, &count) == 0)
            promote(d);
        if (wait[3].revents && eventfd_read(wait[3].fd, &count) == 0) {
            const hb_setting_wish *wish = hb_server_setting_wish(d->server);
            if (wish->tell)
                hb_in_force_tell(&d->in_force);
            else
                hb_in_force_set(&d->in_force, wish);
        }
    }
}

static int serve_vehicle(hb_daemon *d)
{
    hb_error err;

    hb_log_start(&d->log, (hb_log_level)d->in_force.config->log_level);
    int r = set_up(d, &err);
    if (r) {
        hb_log_line(&d->log, HB_LOG_ERROR, "%s", err.text);
        hb_notify("STATUS=%s\nERRNO=%d", err.text, -r);
    } else {
        hb_log_line(&d->log, HB_LOG_NOTICE, "ready: %s, model %016lx, %d states, %d controls, %d basis functions",
                    d->in_force.config->name, (unsigned long)d->in_force.model->hash, d->in_force.model->nx,
                    d->in_force.model->nu, d->in_force.model->nb);
        if (d->in_force.config->clock == HB_FLIGHT_BY_VEHICLE)
            hb_log_line(
                &d->log, HB_LOG_NOTICE,
                "latency.clock: vehicle: for simulators in lock-step; no deadline of this machine's time holds");
        hb_notify("READY=1\nSTATUS=ready");
        run(d);
        hb_notify("STOPPING=1\nSTATUS=stopping");
    }
    tear_down(d);
    return r ? 1 : 0;
}

static int print_config(hb_daemon *d, const options *o)
{
    if (!o->file) {
        hb_config_default(d->in_force.config);
    } else if (hb_config_load(d->in_force.config, o->file, d->in_force.errors)) {
        print_errors(d->in_force.errors);
        return 1;
    }
    hb_config_print(d->in_force.config, !o->file, stdout);
    return fflush(stdout) ? 1 : 0;
}

int main(int argc, char **argv)
{
    hb_daemon d = {.signals = -1, .state = {.fd = -1}};
    options o;
    int status = read_arguments(argc, argv, &o);

    if (status >= 0)
        return status;
    status = 1;
    /* large messages go back to the system when they are done with; left alone, malloc learns to keep them */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    mallopt(M_TRIM_THRESHOLD, 256 << 10);
    hb_numeric_single_thread();
    if (o.replay)
        return hb_replay(&o.replayed);
    d.first = calloc(1, sizeof *d.first);
    if (hb_in_force_new(&d.in_force, &d.log) || !d.first)
        fputs("hilbertd: out of memory\n", stderr);
    else if (o.print)
        status = print_config(&d, &o);
    else if (load(&d, &o))
        status = 1;
    else if (o.check)
        status = dry_run(&d) || printf("%s: ok\n", o.file) < 0;
    else
        status = serve_vehicle(&d);
    hb_in_force_free(&d.in_force);
    free(d.first);
    return status;
}
