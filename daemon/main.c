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
#include "common/options.h"
#include "config/config.h"
#include "config/config_edit.h"
#include "process/journal.h"
#include "process/log.h"
#include "process/machine.h"
#include "process/notify.h"
#include "process/process_limits.h"
#include "base/numeric.h"
#include "process/realtime.h"
#include "process/selftest.h"
#include "server/replay.h"
#include "server/server.h"
#include "server/shadow.h"
#include "server/signals.h"
#include "server/sockets.h"
#include "server/wire.h"
#include "process/state.h"

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
    hb_config *config, *next, *spare; /* in force; as read on reload; and what both make together */
    hb_config *first;                 /* as it was at the start, for threads: a reload may come before they began */
    hb_order *order;
    hb_config_errors *errors;
    hb_inherited inherited;
    hb_model *model;        /* in use */
    hb_model *shadow_model; /* NULL: there is none */
    hb_controller_settings *shadow_settings;
    int signals; /* signalfd */
    hb_pool *pool;
    hb_pool *shadow_pool; /* the shadow's own, so that it can be tested while the other plans */
    hb_state state;
    bool resumed;
    void *window; /* what was kept by the state, as it was found: for the recording */
    hb_controller *controller, *shadow_controller;
    hb_journal *journal;
    hb_signals named; /* their names in recordings */
    hb_sockets sockets;
    hb_changed_key *changed; /* keys that clients changed, HB_CHANGED_KEYS */
    int nchanged;
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

/* What the configuration means for the shadow's model; its errors go to *errors, with the place of shadow.model. */
static int understand_shadow(const hb_config *c, const hb_model *model, const hb_model *shadow,
                             hb_controller_settings *ret, hb_config_errors *errors)
{
    hb_config *own = malloc(sizeof *own);
    hb_config_errors *wrong = malloc(sizeof *wrong);
    hb_error err = {0};
    const char *why = "out of memory";

    if (own && wrong) {
        *own = *c;
        why = hb_shadow_fits(model, shadow, &err)          ? err.text
              : hb_config_resolve(own, shadow, wrong) != 0 ? wrong->text[0]
                                                           : NULL;
    }
    if (why)
        hb_config_error(errors, c, c->mark[hb_config_find("shadow.model")], "shadow.model", "%s", why);
    else
        *ret = own->controller;
    free(wrong);
    free(own);
    return errors->n;
}

/* Loads it too, where the configuration names one. */
static int load_shadow(const hb_config *c, const hb_model *model, hb_model **shadow, hb_controller_settings *ret,
                       hb_config_errors *errors)
{
    hb_error err;

    if (!*c->shadow.model)
        return 0;
    if (!*shadow && hb_model_load(shadow, c->shadow.model, &err))
        hb_config_error(errors, c, c->mark[hb_config_find("shadow.model")], "shadow.model", "%s", err.text);
    else
        understand_shadow(c, model, *shadow, ret, errors);
    return errors->n;
}

/* The model that gives a configuration's names a meaning, and all that can be said of both on this machine. Returns the
 * number of errors. */
static int understand(hb_config *c, hb_model **model, const hb_inherited *inherited, hb_config_errors *errors)
{
    hb_error err;

    *errors = (hb_config_errors){0};
    if (!*model && hb_model_load(model, c->model, &err))
        hb_config_error(errors, c, c->mark[hb_config_find("model")], "model", "%s", err.text);
    else if (!hb_config_resolve(c, *model, errors))
        hb_machine_check(c, *model, inherited, errors);
    return errors->n;
}

static int load(hb_daemon *d, const options *o)
{
    int wrong = hb_config_load(d->config, o->file, d->errors);

    if (!wrong) {
        hb_notify("EXTEND_TIMEOUT_USEC=30000000\nSTATUS=loading %s", d->config->model);
        wrong = understand(d->config, &d->model, &d->inherited, d->errors);
    }
    if (!wrong)
        wrong = load_shadow(d->config, d->model, &d->shadow_model, d->shadow_settings, d->errors);
    if (!wrong && o->check)
        hb_config_check_horizon(d->config, d->model);
    for (int i = 0; i < d->config->warnings.n; i++)
        fprintf(stderr, "%s\n", d->config->warnings.text[i]);
    print_errors(d->errors);
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

    if (!d->shadow_model)
        return 0;
    int r = hb_pool_new(&d->shadow_pool, d->config->threads, started, d, &why);
    if (!r)
        r = hb_selftest(d->shadow_model, d->shadow_settings, d->shadow_pool, &seconds, &why);
    if (!r)
        r = hb_controller_new(&d->shadow_controller, d->shadow_model, d->shadow_settings, d->shadow_pool, NULL, NULL,
                              &why);
    return r ? hb_fail(err, -r, "shadow.model: %s", why.text) : 0;
}

static int test_planning(hb_daemon *d, hb_error *err)
{
    double seconds = 0;
    int r = hb_selftest(d->model, &d->config->controller, d->pool, &seconds, err);

    if (!r)
        hb_log_line(&d->log, HB_LOG_INFO, "self-test passed in %.2f ms", 1e3 * seconds);
    return r;
}

/* Memory that outlives the process, and a copy of what it held: the recording begins with that. */
static int open_state(hb_daemon *d, hb_error *err)
{
    const size_t size = hb_estimator_memory_size(d->model, &d->config->controller.estimator);
    hb_error note;
    int r = hb_state_open(&d->state, size, &d->inherited, d->config->state_file, &note, err);

    if (r)
        return r;
    if (note.code)
        hb_log_line(&d->log, HB_LOG_WARNING, "%s", note.text);
    if (!d->state.kept)
        return 0;
    if (!(d->window = malloc(size)))
        return hb_fail(err, ENOMEM, "out of memory");
    memcpy(d->window, d->state.memory, size);
    return 0;
}

static int make_controller(hb_daemon *d, hb_error *err)
{
    hb_error resumed = {0};
    int r =
        hb_controller_new(&d->controller, d->model, &d->config->controller, d->pool, d->state.memory, &resumed, err);

    if (r)
        return r;
    d->resumed = d->state.kept && resumed.code == 0;
    if (d->resumed)
        hb_log_line(&d->log, HB_LOG_NOTICE, "window taken over from %s: %s", d->state.where, resumed.text);
    else if (d->state.kept)
        hb_log_line(&d->log, HB_LOG_WARNING, "window kept by %s not taken over: %s", d->state.where, resumed.text);
    return 0;
}

/* The configuration as text, for the recording. NULL without memory. */
static char *config_text(const hb_config *c)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    hb_config_print(c, false, out);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}

/* The recorder, with what each of its files begins with. */
static int make_journal(hb_daemon *d, hb_error *err)
{
    const hb_config *c = d->config;
    struct timespec t;
    size_t nhead = 0, nfirst = d->resumed ? hb_estimator_memory_size(d->model, &c->controller.estimator) : 0;
    uint8_t *head = NULL, *first = malloc(nfirst + 16);
    char *text = config_text(c);
    int r = text && first ? 0 : hb_fail(err, ENOMEM, "out of memory");

    clock_gettime(CLOCK_REALTIME, &t);
    if (!r)
        r = hb_wire_recording(&(hb_recording){.name = c->name,
                                              .model_path = c->model,
                                              .configuration = text,
                                              .model = d->model,
                                              .run = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec},
                              &head, &nhead, err);
    if (!r && nfirst) {
        size_t n = hb_wire_field(first, HB_RECORDING_WINDOW, nfirst);
        memcpy(first + n, d->window, nfirst);
        nfirst += n;
    }
    if (!r)
        r = hb_journal_new(&d->journal,
                           &(hb_journal_settings){.config = c,
                                                  .largest = hb_server_largest_record(c, d->model),
                                                  .log = &d->log,
                                                  .clock = {.now = hb_clock_monotonic}},
                           err);
    if (!r && !(r = hb_signals_new(&d->named, d->model, err)))
        hb_journal_name(d->journal, &(hb_journal_named){.topic = HB_SIGNALS_TOPIC,
                                                        .schema_name = HB_SIGNALS_SCHEMA,
                                                        .schema = d->named.schema,
                                                        .size = d->named.size,
                                                        .metadata = d->named.unit[0][0],
                                                        .nmetadata = 2 * d->named.nunits,
                                                        .stride = sizeof d->named.unit[0][0]});
    if (!r)
        r = hb_journal_head(d->journal, head, nhead, first, nfirst, err);
    free(head);
    free(first);
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

    *d->first = *d->config;
    if (!r)
        r = hb_limits_raise(d->config->threads, err);
    if (!r)
        r = hb_realtime_start(d->config, &d->log, err);
    if (!r)
        r = hb_pool_new(&d->pool, d->config->threads, pool_started, d, err);
    if (!r)
        r = test_planning(d, err);
    if (!r)
        r = open_state(d, err);
    if (!r)
        r = make_controller(d, err);
    if (!r)
        r = make_shadow(d, pool_started, err);
    if (!r)
        r = make_journal(d, err);
    if (!r)
        r = hb_sockets_open(&d->sockets, d->config, &d->inherited, &d->log, err);
    if (!r)
        r = hb_server_new(&d->server,
                          &(hb_server_settings){
                              .config = d->config,
                              .model = d->model,
                              .controller = d->controller,
                              .shadow = d->shadow_model,
                              .shadow_controller = d->shadow_controller,
                              .shadow_settings = d->shadow_settings,
                              .transport = hb_sockets_transport(&d->sockets),
                              .pilot_key = hb_sockets_pilot_key(&d->sockets),
                              .clock = {.now = hb_clock_monotonic},
                              .wall = {.now = hb_clock_wall},
                              /* the calling thread's does not tell what the pool's had */
                              .processor = {.now = d->config->threads > 1 ? hb_clock_monotonic : hb_clock_processor},
                              .log = &d->log,
                              .journal = d->journal,
                              .resumed = d->resumed,
                              .kept_target = d->state.target},
                          err);
    if (!r && (errno = pthread_create(&d->thread, NULL, serve, d)))
        r = hb_fail(err, errno, "cannot start the server's thread: %s", strerror(errno));
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
    hb_journal_free(d->journal);
    hb_signals_free(&d->named);
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
    if (d->config->realtime.required)
        r = hb_realtime_start(d->config, &d->log, &err);
    if (!r)
        r = hb_pool_new(&d->pool, d->config->threads, NULL, NULL, &err);
    if (!r)
        r = hb_selftest(d->model, &d->config->controller, d->pool, &seconds, &err);
    if (!r)
        r = hb_controller_new(&d->controller, d->model, &d->config->controller, d->pool, NULL, NULL, &err);
    if (!r)
        r = make_shadow(d, NULL, &err);
    if (r) {
        *d->errors = (hb_config_errors){0};
        hb_config_error_of(d->errors, d->config, &err);
        print_errors(d->errors);
    }
    tear_down(d);
    return r ? 1 : 0;
}

/* ---- running ---- */

/* Says whether a restart with what was read for a reload would fail: its other keys hold only then. */
static void foresee_restart(hb_daemon *d)
{
    hb_model *other = NULL, *shadow = NULL;
    bool same = strcmp(d->next->model, d->config->model) == 0;
    hb_model **model = same ? &d->model : &other;

    *d->spare = *d->next;
    if (understand(d->spare, model, &d->inherited, d->errors) ||
        load_shadow(d->spare, *model, &shadow, &d->order->shadow_settings, d->errors)) {
        hb_log_line(&d->log, HB_LOG_ERROR, "reload: a restart would fail: %s", d->errors->text[0]);
        snprintf(d->order->restart_error, sizeof d->order->restart_error, "%s", d->errors->text[0]);
    }
    hb_model_free(shadow);
    hb_model_free(other);
}

/* What in d->next can change now, as an order; *text is its recording's. */
static void order_next(hb_daemon *d, char **text)
{
    hb_order *order = d->order;

    *d->spare = *d->config;
    order->nrestart = hb_config_merge(d->spare, d->next, order->restart);
    hb_config_resolve(d->spare, d->model, d->errors);
    order->settings = d->spare->controller;
    if (d->shadow_model && understand_shadow(d->spare, d->model, d->shadow_model, &order->shadow_settings, d->errors))
        order->error = d->errors->text[0];
    order->status_period = d->spare->status_period;
    order->configuration = *text = config_text(d->spare);
}

/* Reads the configuration again and has the server apply what can change now; a bad one changes nothing. */
static void reload(hb_daemon *d)
{
    hb_order *order = d->order;
    char *text = NULL;
    hb_error err;

    hb_notify("RELOADING=1\nMONOTONIC_USEC=%.0f\nSTATUS=reloading", 1e6 * hb_now());
    *order = (hb_order){0};
    if (hb_config_load(d->next, d->config->file, d->errors) || hb_config_resolve(d->next, d->model, d->errors)) {
        for (int i = 0; i < d->errors->n && i < HB_CONFIG_ERRORS; i++)
            hb_log_line(&d->log, HB_LOG_ERROR, "reload: %s", d->errors->text[i]);
        order->error = d->errors->text[0];
    } else {
        for (int i = 0; i < d->next->warnings.n; i++)
            hb_log_line(&d->log, HB_LOG_WARNING, "reload: %s", d->next->warnings.text[i]);
        foresee_restart(d);
        order_next(d, &text);
    }
    if (hb_server_order(d->server, order, &err)) {
        hb_log_line(&d->log, HB_LOG_ERROR, "reload: nothing was changed%s: %s",
                    order->error ? ", and a restart would fail" : "", err.text);
    } else {
        *d->config = *d->spare;
        *d->shadow_settings = order->shadow_settings;
        atomic_store(&d->log.level, d->config->log_level);
        hb_log_line(&d->log, HB_LOG_NOTICE, "reload: done%s",
                    d->nchanged ? "; keys that were set on request are the file's again" : "");
        d->nchanged = 0;
        for (int i = 0; i < order->nrestart; i++)
            hb_log_line(&d->log, HB_LOG_WARNING, "reload: %s changed, which holds only after a restart",
                        order->restart[i]);
    }
    free(text);
    hb_notify("READY=1\nSTATUS=reloaded");
}

/* ---- keys that clients change ---- */

/* The file's text with `n` keys changed; allocated, NULL with the reason. File values of the keys are filled in. */
static char *changed_text(hb_daemon *d, hb_changed_key *changed, int n, hb_error *err)
{
    char *text = hb_config_read_text(d->config->file, err), *defaults = NULL;

    if (text && n) {
        hb_config_default(d->spare);
        defaults = config_text(d->spare);
    }
    for (int i = 0; i < n && text; i++) {
        char *next = NULL, *before = NULL;
        if (hb_config_lookup(text, changed[i].key, &before, NULL) == 0)
            snprintf(changed[i].file_value, sizeof changed[i].file_value, "%s", before ? before : "");
        if (hb_config_edit(text, changed[i].key, changed[i].value, defaults, &next, err)) {
            char why[sizeof err->text];
            snprintf(why, sizeof why, "%s", err->text);
            hb_fail(err, EINVAL, "%s: %.400s", changed[i].key, why);
        }
        free(before);
        free(text);
        text = next;
    }
    free(defaults);
    return text;
}

/* The row of the table that a key is of, or is in: cost of cost.distance.weight; -1: none. */
static int row_of(const char *key)
{
    char name[HB_EDIT_KEY];

    snprintf(name, sizeof name, "%s", key);
    while (hb_config_find(name) < 0) {
        char *dot = strrchr(name, '.');
        if (!dot)
            return -1;
        *dot = 0;
    }
    return hb_config_find(name);
}

/* An error of the file with a key changed, as of that key: its place would be one in a text that nobody wrote. */
static int as_of_key(const hb_daemon *d, const char *key, hb_error *err)
{
    const char *text = d->errors->text[0], *file = d->config->file;
    const size_t n = strlen(file);

    if (strncmp(text, file, n) == 0 && text[n] == ':')
        text += n + strspn(text + n, ":0123456789 ");
    return strncmp(text, key, strlen(key)) ? hb_fail(err, EINVAL, "%s: %s", key, text)
                                           : hb_fail(err, EINVAL, "%s", text);
}

/* Puts the file with these keys changed in force, because a client asked for one of them, or (NULL) its time is over.
 */
static int put_in_force(hb_daemon *d, hb_changed_key *changed, int n, const char *asked, hb_error *err)
{
    char *text = changed_text(d, changed, n, err), *recorded = NULL;
    int r = text ? 0 : -EINVAL;

    *d->order = (hb_order){.setting = asked, .unasked = !asked};
    if (!r && (hb_config_parse(d->next, d->config->file, text, strlen(text), d->errors) ||
               hb_config_resolve(d->next, d->model, d->errors)))
        r = asked ? as_of_key(d, asked, err) : hb_fail(err, EINVAL, "%s", d->errors->text[0]);
    if (!r)
        order_next(d, &recorded);
    if (r)
        d->order->error = err->text;
    hb_error why;
    if (hb_server_order(d->server, d->order, &why)) {
        *err = why;
        r = -EINVAL;
    } else if (!r) {
        *d->config = *d->spare;
        *d->shadow_settings = d->order->shadow_settings;
        atomic_store(&d->log.level, d->config->log_level);
        memmove(d->changed, changed, (size_t)n * sizeof *changed);
        d->nchanged = n;
    }
    free(recorded);
    free(text);
    return r;
}

/* What a client wants of one key: set, or back to the file's (an empty value). */
static void set_key(hb_daemon *d, const hb_setting_wish *wish)
{
    hb_changed_key *next = calloc(HB_CHANGED_KEYS + 1, sizeof *next);
    const int row = row_of(wish->key);
    hb_error err = {0};
    int n = 0, r = 0;

    for (int i = 0; next && i < d->nchanged; i++)
        if (strcmp(d->changed[i].key, wish->key))
            next[n++] = d->changed[i];
    if (!next)
        r = hb_fail(&err, ENOMEM, "out of memory");
    else if (row < 0)
        r = hb_fail(&err, EINVAL, "%s: there is no such key", wish->key);
    else if (!hb_config_row(row).live)
        r = hb_fail(&err, EINVAL, "%s: holds only after a restart: change it in %s", wish->key, d->config->file);
    else if (!*wish->value && n == d->nchanged)
        r = hb_fail(&err, EINVAL, "%s: was not set: it is the file's", wish->key);
    else if (*wish->value && n == HB_CHANGED_KEYS)
        r = hb_fail(&err, EINVAL, "%d keys are set by now: save them first", n);
    if (!r && *wish->value) {
        hb_changed_key *new = &next[n++];
        memcpy(new->key, wish->key, sizeof new->key);
        memcpy(new->value, wish->value, sizeof new->value);
        memcpy(new->by, wish->by, sizeof new->by);
        new->until = wish->seconds > 0 ? hb_now() + wish->seconds : 0;
    }
    if (r) {
        *d->order = (hb_order){.setting = true, .error = err.text};
        hb_error told;
        hb_server_order(d->server, d->order, &told);
    } else
        r = put_in_force(d, next, n, wish->key, &err);
    if (r)
        hb_log_line(&d->log, HB_LOG_WARNING, "set: nothing was changed for %s: %s", wish->by, err.text);
    else if (!*wish->value)
        hb_log_line(&d->log, HB_LOG_NOTICE, "set by %s: %s is the file's again", wish->by, wish->key);
    else if (wish->seconds > 0)
        hb_log_line(&d->log, HB_LOG_NOTICE, "set by %s: %s is %s for %g s", wish->by, wish->key, wish->value,
                    wish->seconds);
    else
        hb_log_line(&d->log, HB_LOG_NOTICE, "set by %s: %s is %s until a reload or a restart", wish->by, wish->key,
                    wish->value);
    free(next);
}

static void tell_settings(hb_daemon *d)
{
    enum { MOST_LINES = 2 * HB_CONFIG_ROWS };
    char *text = config_text(d->config), *line[MOST_LINES], *save = NULL;
    int n = 0;

    for (char *at = strtok_r(text ? text : (char[]){""}, "\n", &save); at && n < MOST_LINES;
         at = strtok_r(NULL, "\n", &save))
        line[n++] = at;
    const hb_settings_told told = {.file = d->config->file,
                                   .line = line,
                                   .nlines = n,
                                   .changed = d->changed,
                                   .nchanged = d->nchanged,
                                   .now = hb_now()};
    hb_error err;

    *d->order = (hb_order){.setting = true, .told = &told};
    hb_server_order(d->server, d->order, &err);
    free(text);
}

/* Keys whose time is over are the file's again. Returns seconds to the next of them; below 0: there is none. */
static double expire_keys(hb_daemon *d)
{
    double now = hb_now(), next = -1;
    hb_changed_key *left = NULL;
    int n = 0;

    for (int i = 0; i < d->nchanged; i++) {
        const hb_changed_key *c = &d->changed[i];
        if (c->until > 0 && c->until <= now && !left && !(left = calloc(HB_CHANGED_KEYS, sizeof *left)))
            return 1; /* again in a second */
        if (c->until > 0 && c->until > now && (next < 0 || c->until - now < next))
            next = c->until - now;
    }
    for (int i = 0; left && i < d->nchanged; i++) {
        if (d->changed[i].until > 0 && d->changed[i].until <= now)
            hb_log_line(&d->log, HB_LOG_NOTICE, "%s is the file's again", d->changed[i].key);
        else
            left[n++] = d->changed[i];
    }
    hb_error err = {0};
    if (left && put_in_force(d, left, n, NULL, &err)) {
        hb_log_line(&d->log, HB_LOG_ERROR, "the file's values could not be put in force: %s", err.text);
        next = 1;
    }
    free(left);
    return next;
}

/* The models change places, and all that goes with them. */
static void exchange(hb_daemon *d)
{
    hb_model *model = d->model;
    hb_controller *controller = d->controller;
    hb_pool *pool = d->pool;

    d->model = d->shadow_model;
    d->shadow_model = model;
    d->controller = d->shadow_controller;
    d->shadow_controller = controller;
    d->pool = d->shadow_pool;
    d->shadow_pool = pool;
    *d->spare = *d->config;
    d->config->controller = *d->shadow_settings;
    *d->shadow_settings = d->spare->controller;
    memcpy(d->config->model, d->spare->shadow.model, sizeof d->config->model);
    memcpy(d->config->shadow.model, d->spare->model, sizeof d->config->shadow.model);
}

/* A client wants the shadow's model to fly: it plans once from where the vehicle is, with what it knows, and then
 * does. The planning side of its controller is ours until the order. */
static void promote(hb_daemon *d)
{
    hb_error err = {0}, why;
    double seconds = 0;

    *d->order = (hb_order){.promote = true};
    if (hb_selftest_of(d->shadow_controller, d->shadow_model, hb_server_trial(d->server), &seconds, &why)) {
        hb_fail(&err, EINVAL, "the shadow failed its self-test: %s", why.text);
        d->order->error = err.text;
    }
    if (hb_server_order(d->server, d->order, &why)) {
        hb_log_line(&d->log, HB_LOG_ERROR, "promote: nothing was changed: %s", why.text);
        return;
    }
    exchange(d);
    hb_log_line(&d->log, HB_LOG_NOTICE,
                "promoted: %s is in use, %s is its shadow, until the next restart (self-test %.2f ms); to keep it so, "
                "exchange model and shadow.model in %s",
                d->config->model, d->config->shadow.model, 1e3 * seconds, d->config->file);
}

/* Until a signal says stop. */
static void run(hb_daemon *d)
{
    struct pollfd wait[] = {{.fd = d->signals, .events = POLLIN},
                            {.fd = hb_server_reload_fd(d->server), .events = POLLIN},
                            {.fd = hb_server_promote_fd(d->server), .events = POLLIN},
                            {.fd = hb_server_setting_fd(d->server), .events = POLLIN}};

    for (;;) {
        struct signalfd_siginfo info = {0};
        eventfd_t count;
        double seconds = expire_keys(d);
        if (poll(wait, 4, seconds < 0 ? -1 : (int)fmin(1e3 * seconds + 1, 1e9)) < 0)
            continue;
        bool wanted = wait[1].revents && eventfd_read(wait[1].fd, &count) == 0;
        if (wait[0].revents && read(d->signals, &info, sizeof info) == sizeof info && info.ssi_signo != SIGHUP) {
            hb_log_line(&d->log, HB_LOG_NOTICE, "stopping (%s)", strsignal((int)info.ssi_signo));
            return;
        }
        if (wanted || info.ssi_signo == SIGHUP)
            reload(d);
        if (wait[2].revents && eventfd_read(wait[2].fd, &count) == 0)
            promote(d);
        if (wait[3].revents && eventfd_read(wait[3].fd, &count) == 0) {
            const hb_setting_wish *wish = hb_server_setting_wish(d->server);
            if (wish->tell)
                tell_settings(d);
            else
                set_key(d, wish);
        }
    }
}

static int serve_vehicle(hb_daemon *d)
{
    hb_error err;

    hb_log_start(&d->log, (hb_log_level)d->config->log_level);
    int r = set_up(d, &err);
    if (r) {
        hb_log_line(&d->log, HB_LOG_ERROR, "%s", err.text);
        hb_notify("STATUS=%s\nERRNO=%d", err.text, -r);
    } else {
        hb_log_line(&d->log, HB_LOG_NOTICE, "ready: %s, model %016lx, %d states, %d controls, %d basis functions",
                    d->config->name, (unsigned long)d->model->hash, d->model->nx, d->model->nu, d->model->nb);
        if (d->config->clock == HB_FLIGHT_BY_VEHICLE)
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
        hb_config_default(d->config);
    } else if (hb_config_load(d->config, o->file, d->errors)) {
        print_errors(d->errors);
        return 1;
    }
    hb_config_print(d->config, !o->file, stdout);
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
    hb_notify_inherited(&d.inherited);
    d.config = calloc(1, sizeof *d.config);
    d.first = calloc(1, sizeof *d.first);
    d.next = calloc(1, sizeof *d.next);
    d.spare = calloc(1, sizeof *d.spare);
    d.order = calloc(1, sizeof *d.order);
    d.errors = calloc(1, sizeof *d.errors);
    d.shadow_settings = calloc(1, sizeof *d.shadow_settings);
    d.changed = calloc(HB_CHANGED_KEYS, sizeof *d.changed);
    if (!d.changed || !d.config || !d.first || !d.next || !d.spare || !d.order || !d.errors || !d.shadow_settings)
        fputs("hilbertd: out of memory\n", stderr);
    else if (o.print)
        status = print_config(&d, &o);
    else if (load(&d, &o))
        status = 1;
    else if (o.check)
        status = dry_run(&d) || printf("%s: ok\n", o.file) < 0;
    else
        status = serve_vehicle(&d);
    hb_model_free(d.shadow_model);
    hb_model_free(d.model);
    free(d.changed);
    free(d.shadow_settings);
    free(d.errors);
    free(d.order);
    free(d.spare);
    free(d.next);
    free(d.first);
    free(d.config);
    return status;
}
