/* hilbert-sim fly: options around flight.c and flight_report.c. */
#include "sim/commands.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/statistics.h"
#include "sim/collect.h"
#include "sim/model_plant.h"
#include "sim/robot.h"
#include "common/progress.h"
#include "sim/render.h"
#include "sim/flight_report.h"
#include "sim/gains.h"

static const char help[] =
    "usage: hilbert-sim fly PLANT [OPTIONS]\n"
    "       hilbert-sim fly ROBOT.xml --in-process --config F [OPTIONS]\n"
    "       hilbert-sim fly MODEL.safetensors --config F [OPTIONS]\n"
    "\n"
    "Closes the loop around a plant: over hilbertd's sockets, as any simulator bridge would, or, with --in-process,\n"
    "with the same controller in this process. Ends with a summary.\n"
    "\n"
    "A robot of one's own starts and goes where ROBOT.yaml says (hilbert-sim describe), unless --start or --target "
    "do.\n"
    "\n"
    "A basis file in the place of a plant is a rehearsal: the model itself is flown, in process, with vehicles of its\n"
    "population. Its parameters are vehicle (0: the mean; another number: another vehicle), spread, noise, delay, "
    "lag.\n"
    "\n"
    "the loop\n"
    "      --endpoint BASE       the daemon's sockets BASE/telemetry and BASE/actions (default ipc:///run/hilbertd)\n"
    "      --telemetry E, --actions E   the same separately, e.g. tcp://host:5555\n"
    "      --server-key F, --client-key F   key files, where the daemon asks for them\n"
    "      --lockstep            in the vehicle's time, with a daemon whose latency.clock is vehicle: the same flight\n"
    "                            gives the same bytes, whatever this machine and its load\n"
    "      --in-process          no daemon; in the vehicle's time, unless --realtime is given\n"
    "      --config F            in process: configuration (default: the plant's)\n"
    "      --model F             in process: basis file instead of the configured one\n"
    "      --controller NAME     pid: a cascade of PID controllers at 250 Hz, in this process, to compare with\n"
    "      --no-adapt            in process: the average model throughout\n"
    "      --examples N          in process: the controller sees N transitions of the same vehicle under its "
    "collection\n"
    "                            policy before each flight (default 0)\n"
    "      --budget SECONDS      for an answer (default: the configured one); none ends a plan in the vehicle's time\n"
    "      --realtime            the simulation runs in real time, also while an answer is awaited\n"
    "\n"
    "the plant\n"
    "      --weather W,...       conditions: mild, real or another name of hilbert-sim list, P=VALUE of a\n"
    "                            hidden parameter or of the link (rates, jitter, loss); later ones win\n"
    "      --mass KG, --set P=VALUE   a hidden parameter (see hilbert-sim list); may be given many times\n"
    "      --at T:P=VALUE        change a parameter at T seconds, e.g. 5s:mass=0.022; may be given many times\n"
    "      --start S=VALUE,...   states to start from; the rest as at the target (default: a draw, see --radius)\n"
    "      --radius METRES       start at rest at a random place within this distance of the target (default 1)\n"
    "      --target S=VALUE,...  where to fly to (default: the configured target)\n"
    "      --seconds T           how long (default 20)\n"
    "      --dt SECONDS          control period (default: the plant's)\n"
    "      --seed S              of starts, parameters, gusts and noise (default 0)\n"
    "\n"
    "many flights\n"
    "      --functions N         versions of the plant, their parameters drawn (default 1: as set)\n"
    "      --episodes N          flights of each, from different starts (default 1)\n"
    "      --range P=LOW:HIGH    what to draw parameter P from (default: the plant's range)\n"
    "  -j, --threads N           flights at a time, in process (default 1)\n"
    "\n"
    "output\n"
    "      --live                a line every half second of flight, to standard error\n"
    "      --json                one JSON object per flight; after several, a last line summarises them\n"
    "      --csv F               every period of the (first) flight\n"
    "      --plot F              the same drawn by gnuplot: F.svg and F.png\n"
    "      --render DIR          the same as PNG frames, and animated as DIR/flight.gif\n"
    "  -h, --help                this text\n"
    "\n"
    "exit status: 0 no crash, 1 a crash or a failure, 2 wrong usage\n";

/* Everything the options say. */
typedef struct fly {
    const hb_plant_type *plant;
    bool in_process, pid, json, robot;
    hb_loop_endpoints endpoints;
    char base_telemetry[256], base_actions[256];
    hb_loop_controller controller;
    hb_flight_settings flight; /* of all flights; start and key differ */
    bool has_start;
    double radius;
    double low[HB_PLANT_PARAMETERS], high[HB_PLANT_PARAMETERS];
    uint64_t seed;
    int functions, episodes, threads;
    int examples; /* transitions that the controller sees before each flight */
    const char *csv, *plot, *render;
} fly;

/* What a person wants to see of a flight as it goes on. */
static void print_live(void *context, const hb_flight_step *step, const double *x)
{
    const fly *f = context;
    const long long every = (long long)fmax(1, round(0.5 / f->flight.dt));

    if (llround(step->time / f->flight.dt) % every != 0)
        return;
    fprintf(stderr, "%5.1f s  off target %6.1f cm  error %8.2g  answer in %6.2f ms  %s\n", step->time,
            100 * hb_flight_distance(f->plant, x, f->flight.target), step->answer.one_step_error, 1e3 * step->latency,
            isnan(step->latency) ? "late" : hb_status_name[step->answer.status]);
}

/* ---- options ---- */

/* "name=value,name=value" into a state vector. */
static int parse_states(const hb_plant_type *plant, const char *text, double *x, hb_error *err)
{
    for (const char *item = text; item;) {
        size_t length = strcspn(item, ","), name_length = strcspn(item, "=,");
        char name[64], value[64];
        double number;
        if (name_length >= length || name_length >= sizeof name || length - name_length >= sizeof value)
            return hb_fail(err, EINVAL, "'%s': expected STATE=VALUE,...", text);
        snprintf(name, sizeof name, "%.*s", (int)name_length, item);
        snprintf(value, sizeof value, "%.*s", (int)(length - name_length - 1), item + name_length + 1);
        int i = hb_plant_state_find(plant, name);
        if (i < 0)
            return hb_fail(err, EINVAL, "'%s': plant %s has no state '%s'", text, plant->name, name);
        if (!hb_option_read_number(&(hb_option_number){&number, -1e6, 1e6}, value))
            return hb_fail(err, EINVAL, "'%s': '%s' is not a number", text, value);
        x[i] = number;
        item = item[length] ? item + length + 1 : NULL;
    }
    return 0;
}

/* "5s:mass=0.022" */
static int parse_event(const hb_plant_type *plant, const char *text, hb_flight_settings *s, hb_error *err)
{
    char *end;
    double time = strtod(text, &end), low, high;
    int parameter;

    end += *end == 's';
    if (end == text || *end != ':' || !(time >= 0 && time < 1e6))
        return hb_fail(err, EINVAL, "'%s': expected SECONDS:NAME=VALUE", text);
    int status = hb_parse_range(plant, end + 1, &parameter, &low, &high, err);
    if (status)
        return status;
    if (low != high || !plant->parameter[parameter].live)
        return hb_fail(err, EINVAL, "'%s': expected one value of a parameter that may change in flight", text);
    if (s->nevents == HB_FLIGHT_EVENTS)
        return hb_fail(err, EINVAL, "at most %d changes a flight", HB_FLIGHT_EVENTS);
    /* kept in the order of time */
    int i = s->nevents++;
    for (; i > 0 && s->event[i - 1].time > time; i--)
        s->event[i] = s->event[i - 1];
    s->event[i] = (hb_flight_event){.time = time, .parameter = parameter, .value = low};
    return 0;
}

/* what the options with a form of their own are read by: the context is a fly */

static int read_endpoint(void *context, const char *text, hb_error *err)
{
    fly *f = context;

    if (snprintf(f->base_telemetry, sizeof f->base_telemetry, "%s/telemetry", text) >= (int)sizeof f->base_telemetry ||
        snprintf(f->base_actions, sizeof f->base_actions, "%s/actions", text) >= (int)sizeof f->base_actions)
        return hb_fail(err, ENAMETOOLONG, "'%s' is too long", text);
    f->endpoints.telemetry = f->base_telemetry;
    f->endpoints.actions = f->base_actions;
    return 0;
}

static int read_controller(void *context, const char *text, hb_error *err)
{
    fly *f = context;

    f->pid = strcmp(text, "pid") == 0;
    return f->pid || strcmp(text, "hilbert") == 0 ? 0 : hb_fail(err, EINVAL, "'%s' is not one of hilbert, pid", text);
}

static int read_weather(void *context, const char *text, hb_error *err)
{
    fly *f = context;

    return hb_weather_read(f->plant, text, f->low, f->high, &f->flight.link, err);
}

static int read_range(void *context, const char *text, hb_error *err)
{
    fly *f = context;
    double low, high;
    int parameter, status = hb_parse_range(f->plant, text, &parameter, &low, &high, err);

    if (status)
        return status;
    f->low[parameter] = low;
    f->high[parameter] = high;
    return 0;
}

static int read_parameter(void *context, const char *text, hb_error *err)
{
    return strchr(text, ':') ? hb_fail(err, EINVAL, "'%s': expected NAME=VALUE", text) : read_range(context, text, err);
}

static int read_mass(void *context, const char *text, hb_error *err)
{
    char setting[128];

    snprintf(setting, sizeof setting, "mass=%s", text);
    return read_parameter(context, setting, err);
}

static int read_event(void *context, const char *text, hb_error *err)
{
    fly *f = context;

    return parse_event(f->plant, text, &f->flight, err);
}

static int read_target(void *context, const char *text, hb_error *err)
{
    fly *f = context;

    f->flight.has_target = true;
    return parse_states(f->plant, text, f->flight.target, err);
}

/* Returns -1 to continue, or the exit code. */
static int read_options(fly *f, int argc, char **argv)
{
    const char *start = NULL;
    bool live = false;
    const hb_option options[] = {
        {"endpoint", HB_OPTION_CALL, &(hb_option_call){read_endpoint, f}, 0, 0, 0},
        {"telemetry", HB_OPTION_TEXT, &f->endpoints.telemetry, 0, 0, 0},
        {"actions", HB_OPTION_TEXT, &f->endpoints.actions, 0, 0, 0},
        {"server-key", HB_OPTION_TEXT, &f->endpoints.server_key, 0, 0, 0},
        {"client-key", HB_OPTION_TEXT, &f->endpoints.client_key, 0, 0, 0},
        {"lockstep", HB_OPTION_FLAG, &f->endpoints.lockstep, 0, 0, 0},
        {"in-process", HB_OPTION_FLAG, &f->in_process, 0, 0, 0},
        {"controller", HB_OPTION_CALL, &(hb_option_call){read_controller, f}, 0, 0, 0},
        {"config", HB_OPTION_TEXT, &f->controller.config, 0, 0, 0},
        {"model", HB_OPTION_TEXT, &f->controller.model, 0, 0, 0},
        {"no-adapt", HB_OPTION_CLEAR, &f->controller.adapt, 0, 0, 0},
        {"examples", HB_OPTION_WHOLE, &f->examples, 0, 1000000, 0},
        {"budget", HB_OPTION_NUMBER, &(hb_option_number){&f->flight.budget, 1e-4, 100}, 0, 0, 0},
        {"realtime", HB_OPTION_FLAG, &f->flight.realtime, 0, 0, 0},
        {"weather", HB_OPTION_CALL, &(hb_option_call){read_weather, f}, 0, 0, 0},
        {"mass", HB_OPTION_CALL, &(hb_option_call){read_mass, f}, 0, 0, 0},
        {"set", HB_OPTION_CALL, &(hb_option_call){read_parameter, f}, 0, 0, 0},
        {"at", HB_OPTION_CALL, &(hb_option_call){read_event, f}, 0, 0, 0},
        {"start", HB_OPTION_TEXT, &start, 0, 0, 0},
        {"radius", HB_OPTION_NUMBER, &(hb_option_number){&f->radius, 0, 100}, 0, 0, 0},
        {"target", HB_OPTION_CALL, &(hb_option_call){read_target, f}, 0, 0, 0},
        {"seconds", HB_OPTION_NUMBER, &(hb_option_number){&f->flight.seconds, 0.01, 1e6}, 0, 0, 0},
        {"dt", HB_OPTION_NUMBER, &(hb_option_number){&f->flight.dt, 1e-3, 10}, 0, 0, 0},
        {"seed", HB_OPTION_COUNT, &f->seed, 0, INT64_MAX, 0},
        {"functions", HB_OPTION_WHOLE, &f->functions, 1, 100000, 0},
        {"episodes", HB_OPTION_WHOLE, &f->episodes, 1, 100000, 0},
        {"range", HB_OPTION_CALL, &(hb_option_call){read_range, f}, 0, 0, 0},
        {"threads", HB_OPTION_WHOLE, &f->threads, 1, 256, 'j'},
        {"live", HB_OPTION_FLAG, &live, 0, 0, 0},
        {"json", HB_OPTION_FLAG, &f->json, 0, 0, 0},
        {"csv", HB_OPTION_TEXT, &f->csv, 0, 0, 0},
        {"plot", HB_OPTION_TEXT, &f->plot, 0, 0, 0},
        {"render", HB_OPTION_TEXT, &f->render, 0, 0, 0},
    };
    hb_error err = {0};
    int code = hb_plant_options("fly", help, options, sizeof options / sizeof *options, argc, argv);

    if (code >= 0)
        return code;
    if (live) {
        f->flight.watch = print_live;
        f->flight.watch_context = f;
    }
    if (start) {
        memcpy(f->flight.start, f->flight.target, sizeof f->flight.start);
        f->has_start = true;
        if (parse_states(f->plant, start, f->flight.start, &err))
            return hb_usage_error("fly", "--start: %s", err.text);
    }
    if (hb_model_plant_named(f->plant->name) && !f->endpoints.actions)
        f->in_process = true;
    if (f->pid && f->in_process)
        return hb_usage_error("fly", "--controller pid and --in-process are two controllers");
    if (!f->in_process && !f->pid &&
        (f->controller.config || f->controller.model || !f->controller.adapt || f->threads > 1 || f->examples > 0))
        return hb_usage_error("fly", "--config, --model, --no-adapt, --examples and --threads go with --in-process");
    if (f->endpoints.lockstep && (f->in_process || f->pid || f->flight.realtime))
        return hb_usage_error("fly", "--lockstep goes with a daemon, and without --realtime");
    f->controller.realtime = f->flight.realtime;
    if (f->flight.realtime && memcmp(&f->flight.link, &(hb_link){0}, sizeof f->flight.link) != 0)
        return hb_usage_error("fly", "--realtime has a link of its own: leave rates, jitter, loss and outliers out");
    /* a PID controller has a rate of its own, unless one was asked for */
    if (f->flight.link.request_rate > 0)
        f->flight.dt = 1 / f->flight.link.request_rate;
    else if (f->pid && f->flight.dt == f->plant->dt)
        f->flight.dt = 1 / HB_PID_RATE;
    return -1;
}

/* ---- flights ---- */

/* 25 frames a second of a recorded flight: drawing takes longer than flying. */
static int draw_frames(const fly *f, hb_plant *p, const hb_flight_settings *s, const hb_flight_record *r, hb_error *err)
{
    int stride = (int)fmax(1, round(0.04 / s->dt));
    hb_render *render = NULL;
    int status = hb_render_new(&render, p, f->render, stride * s->dt, err);

    for (int k = 0; !status && k <= r->nsteps; k += stride) {
        status = hb_plant_reset(p, r->x + (size_t)k * (size_t)f->plant->nx, s->key, err);
        if (!status)
            status = hb_render_frame(render, p, err);
    }
    if (!status)
        status = hb_render_finish(render, err);
    hb_render_free(render);
    return status;
}

/* The loop sees transitions of the collection policy before the flight, as if the vehicle had flown before; *epoch_us
 * goes on to where they end. */
static int show_examples(const fly *f, int index, hb_plant *p, hb_loop *l, int64_t *epoch_us, hb_error *err)
{
    hb_collect c = {.plant = f->plant, .steps = 125, .seed = f->seed, .dt = f->flight.dt};
    size_t nx = (size_t)f->plant->nx, nu = (size_t)f->plant->nu;
    hb_collected_episode e;
    int shown = 0, status;

    if (!(c.policy = hb_policy_find(NULL, f->plant, err)))
        return -EINVAL;
    status = hb_collected_episode_new(&c, &e, err);
    for (int number = 0; !status && shown < f->examples; number++) {
        status = hb_collect_episode(&c, p, index, number, &e, NULL, err);
        int n = e.nsteps < f->examples - shown ? e.nsteps : f->examples - shown;
        /* an episode has a counter of its own, so that none is joined to the next */
        uint32_t counter = 0x80000000u + (uint32_t)number;
        for (int k = 0; !status && k <= n; k++)
            status = l->publish(l, *epoch_us + llround(1e6 * e.time[k]), e.x + (size_t)k * nx,
                                e.u + (size_t)(k < n ? k : n - 1) * nu, counter, err);
        shown += n;
        *epoch_us += llround(1e6 * (e.time[n] + f->flight.dt));
    }
    hb_collected_episode_free(&e);
    return status;
}

static int one_flight(const fly *f, int index, hb_plant *p, hb_loop *l, hb_flight_entry *e, hb_error *err)
{
    int function = index / f->episodes, episode = index % f->episodes, status = 0;
    hb_flight_settings s = f->flight;
    hb_flight_record record = {0};

    hb_draws parameters = hb_flight_draws(f->seed, HB_FLIGHT_PARAMETERS, function, 0);
    hb_draws start = hb_flight_draws(f->seed, HB_FLIGHT_START, function, episode);
    for (int i = 0; !status && i < f->plant->nparameters; i++) {
        e->parameter[i] = hb_draw_uniform(&parameters, f->low[i], f->high[i]);
        status = hb_plant_set(p, i, e->parameter[i], err);
    }
    /* robots say themselves where they start */
    const bool near_target = !f->robot && (f->plant->target || s.has_target);
    if (!status && !f->has_start)
        status = hb_flight_draw_start(p, near_target ? s.target : NULL, f->radius, &start, s.start, err);
    memcpy(e->start, s.start, sizeof e->start);
    s.key = hb_flight_draws(f->seed, HB_FLIGHT_WEATHER, function, episode).key;
    s.reset_counter = (uint32_t)index + 1;
    s.epoch_us += (int64_t)(index * (1e6 * s.seconds + 1e6));
    if (!status && f->examples > 0)
        status = show_examples(f, index, p, l, &s.epoch_us, err);
    if (!status)
        status = hb_flight_run(p, l, &s, &record, err);
    if (!status)
        memcpy(e->end, record.x + (size_t)record.nsteps * (size_t)f->plant->nx, (size_t)f->plant->nx * sizeof *e->end);
    if (!status)
        status = hb_flight_summarise(f->plant, &s, &record, &e->summary, err);
    if (!status && index == 0 && f->csv)
        status = hb_flight_report_csv(f->csv, f->plant, &record, err);
    if (!status && index == 0 && f->plot)
        status = hb_flight_report_plot(f->plot, f->plant, &s, &record, err);
    if (!status && index == 0 && f->render)
        status = draw_frames(f, p, &s, &record, err);
    hb_flight_record_free(&record);
    return status;
}

/* Threads take flights in turn; each has a plant of its own, and every flight in process a controller of its own. */
typedef struct batch {
    const fly *f;
    pthread_mutex_t lock;
    int next, done, n, status;
    hb_error err;
    hb_flight_entry *entry;
    hb_progress progress;
} batch;

static int make_loop(const fly *f, hb_loop **ret, hb_error *err)
{
    if (f->pid)
        return hb_loop_pid(ret, f->plant, hb_gains_pid_hover, NULL, err);
    return f->in_process ? hb_loop_in_process(ret, f->plant, &f->controller, err)
                         : hb_loop_over_sockets(ret, f->plant, &f->endpoints, err);
}

static void *pilot(void *context)
{
    batch *b = context;
    hb_plant *p = NULL;
    hb_loop *l = NULL;
    hb_error err = {0};
    int status = hb_plant_new(&p, b->f->plant, &err);

    pthread_mutex_lock(&b->lock);
    while (!status && !b->status && b->next < b->n) {
        int index = b->next++;
        pthread_mutex_unlock(&b->lock);
        if (!l)
            status = make_loop(b->f, &l, &err);
        if (!status)
            status = one_flight(b->f, index, p, l, &b->entry[index], &err);
        if ((b->f->in_process || b->f->pid) && l) {
            l->free(l);
            l = NULL;
        }
        pthread_mutex_lock(&b->lock);
        hb_progress_update(&b->progress, (double)++b->done / b->n, NULL);
    }
    if (status && !b->status) {
        b->status = status;
        b->err = err;
    }
    pthread_mutex_unlock(&b->lock);
    if (l)
        l->free(l);
    hb_plant_free(p);
    return NULL;
}

static int run_batch(batch *b)
{
    pthread_t thread[256];
    int started = 0, threads = b->f->threads < b->n ? b->f->threads : b->n;

    pthread_mutex_init(&b->lock, NULL);
    hb_progress_start(&b->progress, "flights");
    while (started < threads - 1 && pthread_create(&thread[started], NULL, pilot, b) == 0)
        started++;
    pilot(b);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    hb_progress_end(&b->progress);
    pthread_mutex_destroy(&b->lock);
    return b->status;
}

static void report(const fly *f, const batch *b)
{
    if (f->json)
        for (int i = 0; i < b->n; i++)
            hb_flight_report_json(f->plant, &b->entry[i], stdout);
    if (b->n == 1 && !f->json)
        hb_flight_report_text(&b->entry[0].summary, stdout);
    else if (b->n > 1 && f->json)
        hb_flight_report_batch_json(b->entry, b->n, stdout);
    else if (b->n > 1)
        hb_flight_report_batch_text(b->entry, b->n, stdout);
}

/* How far from the target each state ended: what a plant without places in space has instead of a distance. */
static void print_ends(const fly *f, const batch *b)
{
    const double *target = f->flight.has_target || f->plant->target ? f->flight.target : NULL;
    double *off = calloc((size_t)b->n, sizeof *off);

    for (int i = 0; target && off && i < f->plant->nx; i++) {
        for (int k = 0; k < b->n; k++)
            off[k] = fabs(b->entry[k].end[i] - target[i]);
        hb_sort(off, b->n);
        if (i == 0)
            printf("\n%-16s %12s %22s %12s  unit\n", "at the end", "target", "off by, median", "most");
        printf("%-16s %12.5g %22.4g %12.4g  %s\n", f->plant->state_name[i], target[i], off[b->n / 2], off[b->n - 1],
               f->plant->state_unit[i]);
    }
    free(off);
}

/* The value of --config among the arguments: a rehearsal's target is there. */
static const char *config_among(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            return argv[i + 1];
        if (strncmp(argv[i], "--config=", 9) == 0)
            return argv[i] + 9;
    }
    return NULL;
}

/* The plant that the first argument names; 0 or the exit code. */
static int find_plant(fly *f, int argc, char **argv)
{
    hb_error err = {0};

    f->robot = hb_robot_named(argv[1]);
    if (!hb_model_plant_named(argv[1]))
        return hb_plant_named("fly", argv[1], &f->plant);
    const char *config = config_among(argc, argv);
    if (!config)
        return hb_usage_error("fly", "a rehearsal wants the vehicle's configuration: --config F");
    if (hb_model_plant_new(&f->plant, argv[1], config, &err))
        return hb_failure("fly", &err);
    f->controller.model = argv[1];
    return 0;
}

/* With the plant in f. */
static int fly_all(fly *f, int argc, char **argv)
{
    struct timespec t;

    f->controller.adapt = true;
    f->controller.delay = f->controller.lag = -1;
    f->controller.threads = 1;
    f->flight.seconds = 20;
    f->flight.dt = f->plant->dt;
    if (f->plant->target)
        memcpy(f->flight.target, f->plant->target, (size_t)f->plant->nx * sizeof(double));
    f->flight.has_target = f->robot && f->plant->target; /* the robot's file says where to go */
    for (int i = 0; i < f->plant->nparameters; i++)
        f->low[i] = f->high[i] = NAN;
    int code = read_options(f, argc, argv);
    if (code >= 0)
        return code;
    /* what was not set is drawn when there are several versions, and nominal when there is one */
    for (int i = 0; i < f->plant->nparameters; i++) {
        const hb_plant_parameter *p = &f->plant->parameter[i];
        bool draw = f->functions > 1 && p->low != p->high;
        if (isnan(f->low[i])) {
            f->low[i] = draw ? p->low : p->nominal;
            f->high[i] = draw ? p->high : p->nominal;
        }
    }
    clock_gettime(CLOCK_REALTIME, &t);
    f->flight.epoch_us = (int64_t)t.tv_sec * 1000000;

    batch b = {.f = f, .n = f->functions * f->episodes};
    b.entry = calloc((size_t)b.n, sizeof *b.entry);
    if (!b.entry)
        b.status = hb_fail(&b.err, ENOMEM, "out of memory");
    int crashes = 0;
    if (!b.status && !run_batch(&b)) {
        const bool ends = f->robot || hb_model_plant_named(f->plant->name);
        int place[HB_PLANT_STATES];
        /* where nothing is a place, a distance would be nothing too */
        if (!ends || f->json || hb_flight_places(f->plant, place) > 0)
            report(f, &b);
        if (ends && !f->json)
            print_ends(f, &b);
        for (int i = 0; i < b.n; i++)
            crashes += b.entry[i].summary.crashed;
    }
    free(b.entry);
    if (b.status)
        return hb_failure("fly", &b.err);
    return crashes > 0;
}

int hb_command_fly(int argc, char **argv)
{
    fly f = {.radius = 1, .functions = 1, .episodes = 1, .threads = 1};

    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        fputs(help, stdout);
        return 0;
    }
    if (argc < 2 || argv[1][0] == '-')
        return hb_usage_error("fly", "the plant is missing: it comes first");
    int code = find_plant(&f, argc, argv);
    if (code)
        return code;
    if (hb_model_plant_named(argv[1]))
        fprintf(stderr,
                "rehearsal: the model is the plant. What it does not know does not happen here: the real vehicle "
                "is less kind.\n");
    code = fly_all(&f, argc, argv);
    hb_model_plant_free(f.plant);
    if (f.robot)
        hb_plant_done(f.plant);
    return code;
}
