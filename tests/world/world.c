#include "world.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/numeric.h"
#include "hilbert.pb-c.h"
#include "plant_quadrotor.h"
#include "quadrotor_model.h"
#include "server/server.h"
#include "world_recorder.h"

enum {
    NX = QUADROTOR_NX,
    NU = QUADROTOR_NU,
    PILOT = 0,          /* the vehicle's client; guests follow */
    LARGEST = 40,       /* guests */
    SAMPLE_MS = 10,     /* between samples of telemetry, */
    PERIOD_MS = 40,     /* and between requests */
    MAX_MESSAGE = 4096, /* bytes */
};
static const double budget = 0.01; /* seconds, as configured */
static const double stale_after = 0.1, fallback_after = 0.2;
/* Of coefficients of about 1, and relative of their variance: rounding. */
static const double same_coefficient = 1e-5, same_variance = 1e-4;
static const double epsilon = 2e-6; /* seconds: what a reply's microseconds round off */

const char *const weather_name[] = {"calm", "rough", "wild"};
const char *const promise_name[] = {
#define X(id, name, meaning) name,
    PROMISES(X)
#undef X
};
const char *const promise_meaning[] = {
#define X(id, name, meaning) meaning,
    PROMISES(X)
#undef X
};

/* How bad things are. Probabilities are for each message, rates for each second. */
typedef struct faults {
    double loss, duplicate, slow, slowest;                     /* of messages; slowest: seconds */
    double worker_stall, server_stall, longest_stall;          /* rates; seconds */
    int guests;                                                /* at most */
    double guest_rate, nonsense;                               /* requests of each; part of them that make no sense */
    double reset, clock_step, kill, stop, operator, disk_full; /* rates */
} faults;

/* What "calm" is: below this level a vehicle of the trained kind must not crash. */
static const faults faults_of[NWEATHERS] = {{
    .loss = 0.005,
    .duplicate = 0.005,
    .slow = 0.02,
    .slowest = 0.005,
    .worker_stall = 0.2,
    .server_stall = 0.2,
    .longest_stall = 0.01,
    .guests = 2,
    .guest_rate = 5,
    .nonsense = 0.2,
    .operator= 1 },
    {.loss = 0.05,
     .duplicate = 0.03,
     .slow = 0.1,
     .slowest = 0.05,
     .worker_stall = 0.5,
     .server_stall = 0.5,
     .longest_stall = 0.1,
     .guests = 6,
     .guest_rate = 10,
     .nonsense = 0.3,
     .reset = 0.1,
     .clock_step = 0.06,
     .kill = 0.06,
     .stop = 0.06,
     .operator= 3,
     .disk_full = 0.1},
    {.loss = 0.2,
     .duplicate = 0.1,
     .slow = 0.2,
     .slowest = 0.5,
     .worker_stall = 2,
     .server_stall = 1,
     .longest_stall = 1,
     .guests = LARGEST,
     .guest_rate = 10,
     .nonsense = 0.5,
     .reset = 0.6,
     .clock_step = 0.4,
     .kill = 0.3,
     .stop = 0.2,
     .operator= 10,
     .disk_full = 0.3},
};

/* ---- messages and events ---- */

typedef struct message {
    int client;
    uint64_t id;
    double budget; /* of a request for an action; 0: the configured one */
    bool readable; /* it is well formed, so that its id can be read */
    bool sample;   /* telemetry of the vehicle */
    hb_channel channel;
    size_t size;
    uint8_t data[]; /* packed */
} message;

typedef enum {
    VEHICLE,      /* samples, and asks now and then */
    ARRIVES,      /* a message at the daemon */
    REPLIED,      /* a message at a client */
    GUEST,        /* asks */
    OPERATOR,     /* asks */
    WORKER_RUNS,  /* takes the job that is posted */
    WORKER_DONE,  /* hands it back */
    SERVER_TURN,  /* it wanted one at this time, or goes on after a stall */
    SERVER_STALL, /* stands still for a while */
    RELOAD,       /* the main thread has read the configuration again */
    KILL,
    STOP,
    START,
    RESET_VEHICLE,
    STEP_CLOCK,
    RECORDER,  /* writes */
    DISK_FULL, /* for a while */
} event_kind;

static const char *const event_name[] = {"vehicle",     "arrives", "replied",    "guest",    "operator", "worker-runs",
                                         "worker-done", "turn",    "stall",      "reload",   "kill",     "stop",
                                         "start",       "reset",   "step-clock", "recorder", "disk-full"};

typedef struct event {
    double time;
    uint64_t order; /* of those at the same time */
    event_kind kind;
    int who;
    int life; /* that it belongs to; 0: any */
    message *message;
} event;

/* A request that the daemon has received and not answered. */
typedef struct open_request {
    int client;
    uint64_t id;
    double received, budget;
} open_request;

enum { OPEN = 4096 };

typedef struct world {
    uint64_t seed, draws, order;
    double now, end;
    faults f;
    world_result result;
    FILE *trace;

    event *heap;
    int nevents, room;

    /* the daemon */
    hb_model *model;
    hb_pool *pool;
    hb_config *config;
    hb_order *posted;
    bool ordered; /* it is posted */
    hb_log log;
    void *memory, *copy;
    size_t memory_size;
    hb_controller *controller;
    hb_server *server; /* NULL: not running */
    int life;
    world_recorder recorder;
    bool records;      /* there is a recorder */
    double full_until; /* of its disk */
    long full_at;      /* bytes of a file */
    bool stopping;
    double stop_by, blocked_until, next_turn;
    bool worker_busy, in_worker;
    double piece;                    /* seconds that a look at the clock costs the worker: how slow the machine is */
    double worker_now, worker_until; /* until: while preparing */
    double worker_free;              /* when it was done with its last job */
    int stall_in;                    /* looks at the clock until the worker stalls; 0: it does not */
    double stall_for;

    /* its messages, first come first served */
    message **inbox[HB_NCHANNELS];
    int first[HB_NCHANNELS], count[HB_NCHANNELS], places[HB_NCHANNELS];
    message *read; /* the newest that it has received */

    /* what this life has received and sent */
    open_request open[OPEN], asked[OPEN]; /* actions, control */
    int nopen, nasked;
    uint64_t requests, replies, late, perhaps_late, samples, control, guest_requests;
    double last_sample; /* of the vehicle, when received; negative: none */

    /* the window at the end of the life before */
    bool kept;
    int kept_samples, kept_status;
    hb_real *kept_coefficient;
    double *kept_variance;

    /* the vehicle */
    plant_quadrotor plant;
    double x[NX], u[NU];
    int64_t plant_ms;
    int64_t clock_us;      /* what its clock shows beyond plant_ms */
    bool by_name, applies; /* the pilot is configured; it sends no telemetry, but what it applied */
    uint32_t resets;
    uint64_t sequence, next_id;
    double heard;                  /* when the newest action came that was applied */
    double upset;                  /* when it was reset or its clock was set last */
    double asked_at, asking_since; /* receipt of the pilot's newest request; and of the first after a pause */
    int nguests;
    int64_t guest_time;
    uint64_t newest_reply;
} world;

/* ---- chance ---- */

static double uniform(world *w)
{
    return hb_random_uniform((hb_random_key){w->seed, 77}, w->draws++);
}

static bool chance(world *w, double probability)
{
    return uniform(w) < probability;
}

static double between(world *w, double low, double high)
{
    return low + (high - low) * uniform(w);
}

static int below(world *w, int n)
{
    return (int)(uniform(w) * n);
}

/* Seconds until the next of events that come at this rate. */
static double wait_for(world *w, double rate)
{
    return rate > 0 ? -log(1 - uniform(w)) / rate : INFINITY;
}

/* ---- what is noted ---- */

static void note(world *w, const void *data, size_t size)
{
    const uint8_t *byte = data;

    for (size_t i = 0; i < size; i++)
        w->result.hash = (w->result.hash ^ byte[i]) * 1099511628211u;
}

static void tell(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(world *w, const char *format, ...)
{
    va_list list;

    if (!w->trace)
        return;
    fprintf(w->trace, "%.6f ", w->now);
    va_start(list, format);
    vfprintf(w->trace, format, list);
    va_end(list);
    fputc('\n', w->trace);
}

static void breaks(world *w, promise p, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void breaks(world *w, promise p, const char *format, ...)
{
    char text[160];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    tell(w, "BROKEN %s: %s", promise_name[p], text);
    w->result.broken[p] = true;
    if (!*w->result.first)
        snprintf(w->result.first, sizeof w->result.first, "%s at %.6f s: %s", promise_name[p], w->now, text);
}

static void *must(void *memory)
{
    if (!memory) {
        fputs("hilbert-world: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

/* ---- events in order of time ---- */

static bool is_before(const event *a, const event *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static void schedule(world *w, double time, event_kind kind, int who, int life, message *m)
{
    event e = {time, w->order++, kind, who, life, m};
    int i = w->nevents++;

    if (!isfinite(time) || time > w->end + 5) {
        w->nevents--;
        free(m);
        return;
    }
    if (i == w->room)
        w->heap = must(realloc(w->heap, (size_t)(w->room = 2 * w->room + 64) * sizeof *w->heap));
    for (; i > 0 && is_before(&e, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = e;
}

static event next_event(world *w)
{
    event first = w->heap[0], last = w->heap[--w->nevents];
    int i = 0;

    for (;;) {
        int child = 2 * i + 1;
        if (child >= w->nevents)
            break;
        if (child + 1 < w->nevents && is_before(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (!is_before(&w->heap[child], &last))
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return first;
}

/* ---- the network ---- */

static double delay(world *w)
{
    return chance(w, w->f.slow) ? between(w, 0, w->f.slowest) : between(w, 0.0001, 0.0005);
}

/* Sends a message on its way, or several of it, or none. */
static void transmit(world *w, const message *m, event_kind arrival)
{
    int copies = chance(w, w->f.loss) ? 0 : chance(w, w->f.duplicate) ? 2 : 1;

    for (int i = 0; i < copies; i++) {
        message *copy = must(malloc(sizeof *m + m->size));
        memcpy(copy, m, sizeof *m + m->size);
        schedule(w, w->now + delay(w), arrival, m->client, 0, copy);
    }
}

static message *new_message(int client, hb_channel channel, size_t size)
{
    message *m = must(calloc(1, sizeof *m + size));

    m->client = client;
    m->channel = channel;
    m->size = size;
    return m;
}

/* Packs, and now and then breaks what it packed. */
static void send_packed(world *w, int client, hb_channel channel, const ProtobufCMessage *packed, uint64_t id,
                        double within, bool nonsense)
{
    message *m = new_message(client, channel, protobuf_c_message_get_packed_size(packed));

    protobuf_c_message_pack(packed, m->data);
    m->id = id;
    m->budget = within;
    m->readable = true;
    m->sample = client == PILOT && channel == HB_CHANNEL_TELEMETRY;
    if (nonsense && m->size > 0) {
        int changes = 1 + below(w, 8);
        m->readable = m->sample = false;
        for (int i = 0; i < changes; i++)
            m->data[below(w, (int)m->size)] = (uint8_t)below(w, 256);
    }
    transmit(w, m, ARRIVES);
    free(m);
}

/* ---- clients ---- */

static int64_t vehicle_time(const world *w)
{
    return w->plant_ms * 1000 + w->clock_us;
}

/* Moves the vehicle on to a time of the world. */
static void integrate(world *w, double time)
{
    int64_t ms = (int64_t)floor(time * 1e3 + 1e-6);

    if (ms > w->plant_ms)
        plant_quadrotor_step(&w->plant, w->x, w->u, 1e-3 * (double)(ms - w->plant_ms));
    w->plant_ms = ms > w->plant_ms ? ms : w->plant_ms;
}

/* The flight stack's own controller: holds the attitude when there is no action to trust. */
static void take_over(world *w)
{
    const double *x = w->x;
    double lift = 9.81 * 0.027 * (1 + 0.5 * (1 - x[4]) - 0.4 * x[5]);
    double roll = -0.0006 * (2 * x[6] + 0.1 * x[3]) - 0.00008 * x[10];
    double pitch = -0.0006 * (2 * x[7] - 0.1 * x[1]) - 0.00008 * x[11];
    const double arm = 0.0397 / sqrt(2);
    const double a[NU] = {1, 1, -1, -1}, b[NU] = {-1, 1, 1, -1};

    for (int i = 0; i < NU; i++)
        w->u[i] = fmin(fmax(lift / 4 + (a[i] * roll + b[i] * pitch) / (4 * arm), w->model->control_min[i]),
                       w->model->control_max[i]);
}

static bool has_crashed(const world *w)
{
    const double *x = w->x, far = sqrt(x[0] * x[0] + x[2] * x[2] + (x[4] - 1) * (x[4] - 1));

    return !(x[4] > 0 && far < 5);
}

static void put_back(world *w)
{
    memset(w->x, 0, sizeof w->x);
    w->x[0] = between(w, -0.5, 0.5);
    w->x[2] = between(w, -0.5, 0.5);
    w->x[4] = between(w, 0.7, 1.5);
    w->x[9] = 1;
    memcpy(w->u, w->model->control_trim, sizeof w->u);
    w->resets++;
    w->upset = w->now;
    tell(w, "the vehicle is put back");
}

static void sample(world *w)
{
    Hilbert__V1__Telemetry t = HILBERT__V1__TELEMETRY__INIT;

    t.time_us = vehicle_time(w);
    t.n_state = NX;
    t.state = w->x;
    t.n_control = NU;
    t.control = w->u;
    t.sequence = ++w->sequence;
    t.reset_counter = w->resets;
    send_packed(w, PILOT, HB_CHANNEL_TELEMETRY, &t.base, 0, 0, false);
}

static void ask(world *w)
{
    Hilbert__V1__ActionRequest r = HILBERT__V1__ACTION_REQUEST__INIT;

    r.id = ++w->next_id;
    r.time_us = vehicle_time(w);
    r.n_state = NX;
    r.state = w->x;
    r.reset_counter = w->resets;
    if (w->applies) {
        r.n_applied = NU;
        r.applied = w->u;
    }
    send_packed(w, PILOT, HB_CHANNEL_ACTIONS, &r.base, r.id, 0, false);
}

static void live_as_vehicle(world *w)
{
    integrate(w, w->now);
    if (has_crashed(w)) {
        w->result.crashes++;
        if (w->result.weather == CALM)
            breaks(w, PROMISE_CALM_FLIES, "crashed at x %.2f y %.2f z %.2f, %.3f kg", w->x[0], w->x[2], w->x[4],
                   w->plant.mass);
        put_back(w);
    }
    if (w->now - w->heard > 2.5e-3 * PERIOD_MS)
        take_over(w);
    if (!w->applies)
        sample(w);
    if (w->plant_ms % PERIOD_MS == 0)
        ask(w);
    schedule(w, 1e-3 * (double)(w->plant_ms + SAMPLE_MS), VEHICLE, PILOT, 0, NULL);
}

/* An action for the vehicle. */
static void take_reply(world *w, const message *m)
{
    Hilbert__V1__ActionReply *r = hilbert__v1__action_reply__unpack(NULL, m->size, m->data);

    if (m->client == PILOT && m->channel == HB_CHANNEL_ACTIONS && r && r->id > w->newest_reply) {
        w->newest_reply = r->id;
        bool planned = r->n_action == NU && r->status != HILBERT__V1__ACTION_STATUS__ACTION_STATUS_FALLBACK &&
                       r->status != HILBERT__V1__ACTION_STATUS__ACTION_STATUS_REFUSED;
        integrate(w, w->now);
        if (planned && r->id + 2 > w->next_id) {
            memcpy(w->u, r->action, sizeof w->u);
            w->heard = w->now;
        }
    }
    if (r)
        hilbert__v1__action_reply__free_unpacked(r, NULL);
}

static void live_as_guest(world *w, int who)
{
    Hilbert__V1__ActionRequest r = HILBERT__V1__ACTION_REQUEST__INIT;
    double state[NX], elsewhere[NX], applied[NU];
    bool nonsense = chance(w, w->f.nonsense);

    for (int i = 0; i < NX; i++)
        state[i] = chance(w, 0.5) ? w->x[i] : between(w, -3, 3);
    memcpy(elsewhere, quadrotor_hover_target, sizeof elsewhere);
    elsewhere[0] = between(w, -1, 1);
    for (int i = 0; i < NU; i++)
        applied[i] = between(w, 0.03, 0.15);
    if (nonsense && chance(w, 0.3))
        state[below(w, NX)] = chance(w, 0.5) ? NAN : 1e300;
    r.id = ++w->next_id;
    const int64_t times[] = {0, (int64_t)1 << 60, vehicle_time(w), w->guest_time += 10000, -5};
    r.time_us = times[below(w, nonsense ? 5 : 4)];
    r.n_state = nonsense && chance(w, 0.3) ? (size_t)below(w, NX) : NX;
    r.state = state;
    r.reset_counter = (uint32_t)below(w, 3);
    r.want_plan = chance(w, 0.2);
    if (chance(w, 0.5)) {
        r.n_target = NX;
        r.target = elsewhere;
    }
    if (chance(w, 0.5)) {
        r.n_applied = NU;
        r.applied = applied;
    }
    if (chance(w, 0.3))
        r.budget_us = (uint32_t)below(w, 20000);
    send_packed(w, who, HB_CHANNEL_ACTIONS, &r.base, r.id, 1e-6 * r.budget_us, nonsense && chance(w, 0.5));
    double gap = wait_for(w, w->f.guest_rate);
    schedule(w, w->now + (chance(w, 0.1) ? 1e-4 : gap), GUEST, who, 0, NULL);
}

static void live_as_operator(world *w)
{
    Hilbert__V1__ControlRequest r = HILBERT__V1__CONTROL_REQUEST__INIT;
    Hilbert__V1__Nothing nothing = HILBERT__V1__NOTHING__INIT;
    Hilbert__V1__Target target = HILBERT__V1__TARGET__INIT;
    Hilbert__V1__Predict predict = HILBERT__V1__PREDICT__INIT;
    Hilbert__V1__Coefficients coefficients = HILBERT__V1__COEFFICIENTS__INIT;
    double state[NX], controls[20 * NU], value = between(w, -2, 2);
    bool calm = w->result.weather == CALM;
    static const int wishes[] = {0, 0, 0, 1, 2, 5, 6, 3, 4, 7, 8};
    Hilbert__V1__Record record = HILBERT__V1__RECORD__INIT;

    r.id = ++w->next_id;
    memcpy(state, quadrotor_hover_target, sizeof state);
    switch (wishes[below(w, calm ? 7 : 11)]) {
    case 0:
        r.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_STATUS;
        r.get_status = &nothing;
        break;
    case 1:
        r.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_MODEL;
        r.get_model = &nothing;
        break;
    case 2:
        r.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_GET_COEFFICIENTS;
        r.get_coefficients = &nothing;
        break;
    case 3:
        r.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_RESET_WINDOW;
        r.reset_window = &nothing;
        break;
    case 4:
        r.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_SET_COEFFICIENTS;
        r.set_coefficients = &coefficients;
        coefficients.model_hash = w->model->hash;
        coefficients.n_value = 1;
        coefficients.value = &value;
        break;
    case 5:
        r.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_PREDICT;
        r.predict = &predict;
        predict.count = 1;
        predict.steps = (uint32_t)below(w, 20);
        predict.n_state = NX;
        predict.state = state;
        predict.n_control = predict.steps * NU;
        predict.control = controls;
        for (size_t i = 0; i < predict.n_control; i++)
            controls[i] = between(w, 0.03, 0.15);
        break;
    case 6:
        r.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_RELOAD;
        r.reload = &nothing;
        break;
    case 8:
        r.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_RECORD;
        r.record = &record;
        record.on = chance(w, 0.7);
        break;
    default:
        r.command_case = HILBERT__V1__CONTROL_REQUEST__COMMAND_SET_TARGET;
        r.set_target = &target;
        state[0] = between(w, -0.5, 0.5);
        target.n_state = NX;
        target.state = state;
        break;
    }
    send_packed(w, LARGEST + 1, HB_CHANNEL_CONTROL, &r.base, r.id, 0, chance(w, 0.5 * w->f.nonsense));
    schedule(w, w->now + wait_for(w, w->f.operator), OPERATOR, 0, 0, NULL);
}

/* ---- the daemon's clocks and sockets ---- */

static double read_clock(void *context)
{
    world *w = context;

    if (!w->in_worker)
        return w->now;
    w->worker_now += w->piece;
    if (w->stall_in > 0 && --w->stall_in == 0)
        w->worker_now += w->stall_for;
    if (w->worker_now >= w->worker_until)
        hb_worker_interrupt(hb_server_worker(w->server));
    return w->worker_now;
}

static double read_wall(void *context)
{
    return 1e9 + ((world *)context)->now;
}

static void fill_envelope(const world *w, const message *m, hb_envelope *e)
{
    char name[16];
    int n = m->client == PILOT && w->by_name ? snprintf(name, sizeof name, "pilot")
                                             : snprintf(name, sizeof name, "c%03d", m->client);

    *e = (hb_envelope){.nframes = m->channel == HB_CHANNEL_TELEMETRY ? 0 : 1, .size = {(size_t)n}};
    memcpy(e->data, name, (size_t)n);
}

static int client_of(const hb_frame *name)
{
    char text[16] = "";

    memcpy(text, name->data, name->size < 15 ? name->size : 15);
    return strcmp(text, "pilot") == 0 ? PILOT : atoi(text + 1);
}

static void open_up(open_request *list, int *n, const message *m, double now)
{
    if (*n < OPEN)
        list[(*n)++] = (open_request){m->client, m->readable ? m->id : 0, now,
                                      m->readable && m->budget > 0 ? fmin(m->budget, budget) : budget};
}

static int receive(void *context, hb_channel from, hb_envelope *e, int most, const uint8_t **ret_frame)
{
    world *w = context;

    if (!w->count[from])
        return HB_NOTHING;
    message *m = w->inbox[from][w->first[from]];
    w->first[from] = (w->first[from] + 1) % w->places[from];
    w->count[from]--;
    fill_envelope(w, m, e);
    int n = m->size > (size_t)most ? HB_OVERSIZED : (int)m->size;
    if (from == HB_CHANNEL_ACTIONS) {
        open_up(w->open, &w->nopen, m, w->now);
        w->requests++;
        w->result.requests++;
        if (m->client == PILOT) {
            w->asking_since = w->now - w->asked_at > 0.5 ? w->now : w->asking_since;
            w->asked_at = w->now;
        } else if (!w->by_name) {
            w->last_sample = w->now; /* it may fly by having been the first, and be learned from */
        }
    } else if (from == HB_CHANNEL_CONTROL) {
        open_up(w->asked, &w->nasked, m, w->now);
        w->control++;
    } else {
        w->samples++;
        if (m->sample)
            w->last_sample = w->now;
    }
    free(w->read);
    w->read = m;
    *ret_frame = m->data;
    return n;
}

/* Whether a reply that tells an age (NAN: it does not) answers a rather than b: by the age, and then by the id. A
 * message that was broken on its way may bear any id, that of another request too. */
static bool fits_better(const world *w, const open_request *a, const open_request *b, uint64_t id, double total)
{
    double off_a = fabs(w->now - a->received - total), off_b = fabs(w->now - b->received - total);

    if ((a->id == id) != (b->id == id) && !(fabs(off_a - off_b) > epsilon))
        return a->id == id;
    return off_a < off_b;
}

/* Takes the request that a reply answers off the list; false: there is none. */
static bool close_request(world *w, open_request *list, int *n, int client, uint64_t id, double total,
                          open_request *ret)
{
    int best = -1;

    for (int i = 0; i < *n; i++) {
        if (list[i].client != client || (list[i].id != id && list[i].id != 0))
            continue;
        if (best < 0 || fits_better(w, &list[i], &list[best], id, total))
            best = i;
    }
    if (best < 0)
        return false;
    *ret = list[best];
    memmove(list + best, list + best + 1, (size_t)(--*n - best) * sizeof *list);
    return true;
}

static int rank(Hilbert__V1__ActionStatus s)
{
    static const int of[] = {9, 0, 1, 3, 4, 5, 6, 7, 2};

    return s >= 0 && (size_t)s < sizeof of / sizeof *of ? of[s] : 9;
}

enum { RANK_WARMING_UP = 3, RANK_STALE = 5, RANK_FALLBACK = 6 };

static void check_status(world *w, const Hilbert__V1__ActionReply *r, const open_request *o)
{
    double age = w->last_sample < 0 ? INFINITY : o->received - w->last_sample;
    bool settled = o->received - w->upset > 2 && o->received - w->asking_since > 2;

    if (r->health && r->health->status == HILBERT__V1__ESTIMATE_STATUS__ESTIMATE_STATUS_WARMING_UP &&
        rank(r->status) < RANK_WARMING_UP)
        breaks(w, PROMISE_STATUS_IS_TRUE, "warming up, and says %d", (int)r->status);
    if (w->applies || !r->health)
        return;
    if (age > stale_after && r->health->samples > 0 && rank(r->status) < RANK_STALE)
        breaks(w, PROMISE_STATUS_IS_TRUE, "request %" PRIu64 ": telemetry is %.3f s old, and it says %d", r->id, age,
               (int)r->status);
    if (isfinite(age) && age > fallback_after && settled && rank(r->status) < RANK_FALLBACK)
        breaks(w, PROMISE_STATUS_IS_TRUE, "request %" PRIu64 ": telemetry is %.3f s old, and it plans (%d)", r->id, age,
               (int)r->status);
}

static void check_action(world *w, const Hilbert__V1__ActionReply *r)
{
    if (r->n_action != 0 && r->n_action != NU)
        breaks(w, PROMISE_ACTION_IN_BOUNDS, "%zu controls", r->n_action);
    if (r->n_action == 0 && rank(r->status) <= RANK_FALLBACK)
        breaks(w, PROMISE_ACTION_IN_BOUNDS, "status %d without an action", (int)r->status);
    for (size_t i = 0; i < r->n_action && i < NU; i++)
        if (!(r->action[i] >= w->model->control_min[i] && r->action[i] <= w->model->control_max[i]))
            breaks(w, PROMISE_ACTION_IN_BOUNDS, "control %zu is %g", i, r->action[i]);
}

static void sent_action(world *w, int client, const hb_frame *body)
{
    Hilbert__V1__ActionReply *r = hilbert__v1__action_reply__unpack(NULL, body->size, body->data);
    open_request o;

    w->replies++;
    w->result.replies++;
    if (!r || !close_request(w, w->open, &w->nopen, client, r->id, 1e-6 * r->total_us, &o)) {
        breaks(w, PROMISE_ANSWERED_ONCE, "client %d gets a reply to %" PRIu64 ", which it did not ask, or was answered",
               client, r ? r->id : 0);
    } else {
        double total = w->now - o.received;
        tell(w, "reply to %d: %" PRIu64 " status %d reason %d after %.6f", client, r->id, (int)r->status,
             (int)r->reason, total);
        w->late += r->n_action > 0 && total > o.budget;
        w->perhaps_late += r->n_action > 0 && !o.id; /* its budget, broken on its way, is not known */
        if (fabs(1e-6 * r->total_us - total) > epsilon)
            breaks(w, PROMISE_LATE_IS_TOLD, "request %" PRIu64 " took %.6f s, and the reply says %u us", r->id, total,
                   r->total_us);
        check_action(w, r);
        if (client == PILOT)
            check_status(w, r, &o);
        if (w->by_name && r->health && r->guest != (client != PILOT))
            breaks(w, PROMISE_GUESTS_ARE_TOLD, "client %d is told %s", client, r->guest ? "guest" : "pilot");
    }
    if (r)
        hilbert__v1__action_reply__free_unpacked(r, NULL);
}

static uint64_t sum_of(const ProtobufCMessage *counts)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < counts->descriptor->n_fields; i++)
        sum += *(const uint64_t *)(const void *)((const char *)counts + counts->descriptor->fields[i].offset);
    return sum;
}

/* What the daemon says of itself, against what went in and out. */
static void check_counters(world *w, const Hilbert__V1__Status *s)
{
    uint64_t replies = sum_of(&s->replies->base), aside = sum_of(&s->set_aside->base),
             taken = s->counters->transitions + aside + s->counters->telemetry_overrun;

    if (s->counters->requests != w->requests)
        breaks(w, PROMISE_COUNTERS_ADD_UP, "%" PRIu64 " requests counted, %" PRIu64 " received", s->counters->requests,
               w->requests);
    /* one that the planner has made, and the server has not sent yet, is counted */
    if (replies < w->replies || replies > w->replies + 1)
        breaks(w, PROMISE_COUNTERS_ADD_UP, "%" PRIu64 " replies counted, %" PRIu64 " sent", replies, w->replies);
    if (s->counters->telemetry != w->samples)
        breaks(w, PROMISE_COUNTERS_ADD_UP, "%" PRIu64 " samples counted, %" PRIu64 " received", s->counters->telemetry,
               w->samples);
    /* who flies by being the first may also be learned from by its requests */
    if (w->by_name && !w->applies && (taken > w->samples || taken + 1024 < w->samples))
        breaks(w, PROMISE_COUNTERS_ADD_UP, "%" PRIu64 " samples of %" PRIu64 " accounted for", taken, w->samples);
    if (s->counters->replies_late < w->late || s->counters->replies_late > w->late + w->perhaps_late)
        breaks(w, PROMISE_LATE_IS_TOLD, "%" PRIu64 " late replies counted, %" PRIu64 " sent", s->counters->replies_late,
               w->late);
    if (s->counters->control_requests != w->control)
        breaks(w, PROMISE_COUNTERS_ADD_UP, "%" PRIu64 " control requests counted, %" PRIu64 " received",
               s->counters->control_requests, w->control);
}

static void sent_control(world *w, int client, const hb_frame *body)
{
    Hilbert__V1__ControlReply *r = hilbert__v1__control_reply__unpack(NULL, body->size, body->data);
    open_request o;

    if (!r || !close_request(w, w->asked, &w->nasked, client, r->id, NAN, &o))
        breaks(w, PROMISE_CONTROL_ANSWERED, "a reply to %" PRIu64 ", which was not asked, or was answered",
               r ? r->id : 0);
    if (r && r->result_case == HILBERT__V1__CONTROL_REPLY__RESULT_STATUS)
        check_counters(w, r->status);
    if (r)
        hilbert__v1__control_reply__free_unpacked(r, NULL);
}

static bool send_frames(void *context, hb_channel to, const hb_frame *frame, int n)
{
    world *w = context;
    const hb_frame *body = &frame[n - 1];

    note(w, &w->now, sizeof w->now);
    for (int i = 0; i < n; i++)
        note(w, frame[i].data, frame[i].size);
    if (to == HB_CHANNEL_STATUS)
        return true;
    int client = client_of(&frame[0]);
    if (to == HB_CHANNEL_ACTIONS) {
        world_recorder_sent(&w->recorder, body->data, body->size);
        sent_action(w, client, body);
    } else
        sent_control(w, client, body);
    message *m = new_message(client, to, body->size);
    memcpy(m->data, body->data, body->size);
    transmit(w, m, REPLIED);
    free(m);
    return true;
}

/* ---- the daemon's life ---- */

static void turn(world *w);

static void empty_inboxes(world *w)
{
    for (int c = 0; c < HB_NCHANNELS; c++)
        while (w->count[c] > 0) {
            free(w->inbox[c][w->first[c]]);
            w->first[c] = (w->first[c] + 1) % w->places[c];
            w->count[c]--;
        }
}

static void start(world *w)
{
    hb_error err = {0}, resumed = {0};

    if (w->server)
        return;
    w->life++;
    w->result.lives++;
    if (w->records)
        world_recorder_start(&w->recorder, w->config, w->model, (hb_clock){.now = read_clock, .context = w}, &w->log);
    if (hb_controller_new(&w->controller, w->model, &w->config->controller, w->pool, w->memory, &resumed, &err) ||
        hb_server_new(&w->server,
                      &(hb_server_settings){
                          .config = w->config,
                          .model = w->model,
                          .controller = w->controller,
                          .transport = {.context = w, .receive = receive, .send = send_frames},
                          .clock = {.now = read_clock, .context = w},
                          .wall = {.now = read_wall, .context = w},
                          .processor = {.now = read_clock, .context = w},
                          .log = &w->log,
                          .journal = w->recorder.opened.journal,
                          .stepped = true,
                      },
                      &err)) {
        fprintf(stderr, "hilbert-world: %s\n", err.text);
        exit(1);
    }
    w->stopping = w->worker_busy = w->ordered = false;
    w->blocked_until = 0;
    w->worker_free = w->now;
    w->nopen = w->nasked = 0;
    w->requests = w->replies = w->late = w->perhaps_late = w->samples = w->control = 0;
    w->last_sample = -1;
    w->asked_at = w->asking_since = w->now;
    if (w->kept) {
        const double *variance;
        const hb_real *c = hb_controller_coefficients(w->controller, &variance);
        if (hb_controller_health(w->controller)->samples != w->kept_samples)
            breaks(w, PROMISE_WINDOW_KEPT, "%d transitions before, %d after (%s)", w->kept_samples,
                   hb_controller_health(w->controller)->samples, resumed.text);
        for (int i = 0; i < hb_model_ncoefficients(w->model); i++) {
            if (!(fabs((double)(c[i] - w->kept_coefficient[i])) <= same_coefficient))
                breaks(w, PROMISE_WINDOW_KEPT,
                       "coefficient %d was %g, is %g, %d transitions, status %d then and %d now (%s)", i,
                       (double)w->kept_coefficient[i], (double)c[i], w->kept_samples, w->kept_status,
                       (int)hb_controller_health(w->controller)->status, resumed.text);
            if (!(fabs(variance[i] - w->kept_variance[i]) <= same_variance * w->kept_variance[i]))
                breaks(w, PROMISE_WINDOW_KEPT, "variance of coefficient %d was %g, is %g (%s)", i, w->kept_variance[i],
                       variance[i], resumed.text);
        }
    }
    if (w->records) {
        schedule(w, w->now + 0.05, RECORDER, 0, w->life, NULL);
        schedule(w, w->now + wait_for(w, w->f.disk_full), DISK_FULL, 0, w->life, NULL);
    }
    schedule(w, w->now + wait_for(w, w->f.kill), KILL, 0, w->life, NULL);
    schedule(w, w->now + wait_for(w, w->f.stop), STOP, 0, w->life, NULL);
    schedule(w, w->now + wait_for(w, w->f.server_stall), SERVER_STALL, 0, w->life, NULL);
    turn(w);
}

/* The process is gone; the window's memory is as it was at that moment. */
static void end_life(world *w, bool killed)
{
    char wrong[128];

    w->kept = true;
    w->kept_samples = hb_controller_health(w->controller)->samples;
    w->kept_status = (int)hb_controller_health(w->controller)->status;
    const double *variance;
    memcpy(w->kept_coefficient, hb_controller_coefficients(w->controller, &variance),
           (size_t)hb_model_ncoefficients(w->model) * sizeof(hb_real));
    memcpy(w->kept_variance, variance, (size_t)hb_model_ncoefficients(w->model) * sizeof *variance);
    memcpy(w->copy, w->memory, w->memory_size);
    hb_server_free(w->server);
    if (!world_recorder_end(&w->recorder, killed, uniform(w), wrong, sizeof wrong))
        breaks(w, PROMISE_RECORDED, "%s", wrong);
    hb_controller_free(w->controller);
    memcpy(w->memory, w->copy, w->memory_size);
    w->server = NULL;
    w->controller = NULL;
    empty_inboxes(w);
    schedule(w, w->now + between(w, 0.02, 0.5), START, 0, 0, NULL);
}

/* The worker prepares in the background: up to now. */
static void prepare(world *w)
{
    if (w->worker_busy)
        return;
    w->in_worker = true;
    w->worker_now = w->worker_free;
    w->worker_until = w->now;
    if (w->worker_free < w->now)
        hb_worker_prepare(hb_server_worker(w->server));
    w->in_worker = false;
    w->worker_until = INFINITY;
    w->worker_free = fmax(w->now, w->worker_free);
    hb_worker_release(hb_server_worker(w->server));
}

/* What the main thread does of itself. */
static void play_main(world *w)
{
    hb_error err;
    uint64_t count;

    if (w->ordered && hb_server_order_taken(w->server, &err) <= 0)
        w->ordered = false;
    if (read(hb_server_reload_fd(w->server), &count, sizeof count) == sizeof count)
        schedule(w, w->now + between(w, 0.001, 0.02), RELOAD, 0, w->life, NULL);
}

static void reload(world *w)
{
    if (w->ordered) {
        schedule(w, w->now + 0.01, RELOAD, 0, w->life, NULL);
        return;
    }
    *w->posted = (hb_order){.settings = w->config->controller, .status_period = chance(w, 0.5) ? 0.1 : 0};
    w->posted->settings.cost.term[0].weight = between(w, 2, 4);
    w->posted->settings.planner.samples = w->config->controller.planner.samples;
    if (chance(w, 0.3))
        w->posted->error = "config.yaml:1:1: nothing good";
    w->ordered = true;
    hb_server_order_post(w->server, w->posted);
}

static void check_waiting(world *w)
{
    for (int i = 0; i < w->nopen; i++)
        if (w->now > w->open[i].received + 2 * w->open[i].budget + epsilon)
            breaks(w, PROMISE_ANSWERED_IN_TIME, "request %" PRIu64 " of client %d has waited for %.4f s", w->open[i].id,
                   w->open[i].client, w->now - w->open[i].received);
}

/* The server has the processor, as often as it wants. */
static void turn(world *w)
{
    if (!w->server || w->now < w->blocked_until)
        return;
    prepare(w);
    for (;;) {
        if (!hb_server_turn(w->server)) {
            if (w->nopen > 0)
                breaks(w, PROMISE_STOPS, "it ended with %d requests unanswered, the first %" PRIu64, w->nopen,
                       w->open[0].id);
            if (w->nasked > 0)
                breaks(w, PROMISE_CONTROL_ANSWERED, "it ended with %d control requests unanswered, the first %" PRIu64,
                       w->nasked, w->asked[0].id);
            tell(w, "stopped");
            end_life(w, false);
            return;
        }
        bool more = false;
        for (int c = 0; c < HB_NCHANNELS; c++)
            more |= w->count[c] > 0;
        if (!more && hb_server_due(w->server) > w->now)
            break;
    }
    play_main(w);
    check_waiting(w);
    if (w->stopping && w->now > w->stop_by)
        breaks(w, PROMISE_STOPS, "it has not ended after %.3f s", w->now - w->stop_by + 1);
    hb_worker *worker = hb_server_worker(w->server);
    if (!w->worker_busy && !hb_worker_idle(worker)) {
        w->worker_busy = true;
        schedule(w, w->now + between(w, 20e-6, 100e-6), WORKER_RUNS, 0, w->life, NULL);
    }
    double due = fmin(hb_server_due(w->server), w->now + 0.05);
    if (!(w->next_turn > w->now && w->next_turn <= due)) {
        w->next_turn = fmax(due, w->now + 1e-6);
        schedule(w, w->next_turn, SERVER_TURN, 0, w->life, NULL);
    }
}

static void arrive(world *w, message *m)
{
    hb_channel c = m->channel;

    if (!w->server) {
        free(m);
        return;
    }
    if (w->count[c] == w->places[c]) {
        int n = 2 * w->places[c] + 64;
        message **bigger = must(malloc((size_t)n * sizeof(message *)));
        for (int i = 0; i < w->count[c]; i++)
            bigger[i] = w->inbox[c][(w->first[c] + i) % w->places[c]];
        free(w->inbox[c]);
        w->inbox[c] = bigger;
        w->first[c] = 0;
        w->places[c] = n;
    }
    w->inbox[c][(w->first[c] + w->count[c]++) % w->places[c]] = m;
    turn(w);
}

static void run_worker(world *w)
{
    w->stall_in = chance(w, w->f.worker_stall / 25) ? 1 + below(w, 30) : 0;
    w->stall_for = between(w, 0, w->f.longest_stall);
    w->in_worker = true;
    w->worker_now = w->now;
    hb_worker_run(hb_server_worker(w->server));
    w->in_worker = false;
    schedule(w, w->worker_now, WORKER_DONE, 0, w->life, NULL);
}

static void happen(world *w, const event *e)
{
    if (e->life && (e->life != w->life || !w->server)) {
        free(e->message);
        return;
    }
    switch (e->kind) {
    case VEHICLE:
        live_as_vehicle(w);
        break;
    case ARRIVES:
        arrive(w, e->message);
        return;
    case REPLIED:
        take_reply(w, e->message);
        break;
    case GUEST:
        live_as_guest(w, e->who);
        break;
    case OPERATOR:
        live_as_operator(w);
        break;
    case WORKER_RUNS:
        run_worker(w);
        break;
    case WORKER_DONE:
        w->worker_busy = false;
        w->worker_free = w->now;
        hb_worker_deliver(hb_server_worker(w->server));
        turn(w);
        break;
    case SERVER_TURN:
        turn(w);
        break;
    case SERVER_STALL:
        w->blocked_until = w->now + between(w, 0, w->f.longest_stall);
        schedule(w, w->blocked_until, SERVER_TURN, 0, w->life, NULL);
        schedule(w, w->blocked_until + wait_for(w, w->f.server_stall), SERVER_STALL, 0, w->life, NULL);
        break;
    case RELOAD:
        reload(w);
        turn(w);
        break;
    case KILL:
        end_life(w, true);
        break;
    case STOP:
        hb_server_stop(w->server);
        w->stopping = true;
        w->stop_by = fmax(w->now, w->blocked_until) + 1.1;
        turn(w);
        break;
    case START:
        start(w);
        break;
    case RESET_VEHICLE:
        put_back(w);
        schedule(w, w->now + wait_for(w, w->f.reset), RESET_VEHICLE, 0, 0, NULL);
        break;
    case STEP_CLOCK:
        w->clock_us += (int64_t)between(w, -5e6, 5e6);
        w->clock_us = w->clock_us < 0 ? 0 : w->clock_us;
        w->upset = w->now;
        schedule(w, w->now + wait_for(w, w->f.clock_step), STEP_CLOCK, 0, 0, NULL);
        break;
    case RECORDER:
        world_recorder_step(&w->recorder, w->now < w->full_until ? w->full_at : -1);
        schedule(w, w->now + 0.05 + (chance(w, 0.1) ? between(w, 0, w->f.longest_stall) : 0), RECORDER, 0, w->life,
                 NULL);
        break;
    case DISK_FULL:
        w->full_until = w->now + between(w, 0, 3);
        w->full_at = (long)between(w, 0, chance(w, 0.5) ? 4000 : 100000);
        schedule(w, w->full_until + wait_for(w, w->f.disk_full), DISK_FULL, 0, w->life, NULL);
        break;
    }
    free(e->message);
}

/* ---- a world ---- */

static void configure(world *w)
{
    static const double direction[3 * NU] = {1, 1, 1, 1, 1, 0, -1, 0, 0, 1, 0, -1};
    hb_controller_settings *s = &w->config->controller;

    hb_config_default(w->config);
    snprintf(w->config->name, sizeof w->config->name, "world");
    if (w->by_name)
        snprintf(w->config->security.pilot, sizeof w->config->security.pilot, "pilot");
    w->config->threads = 1;
    w->config->sockets.max_message = MAX_MESSAGE;
    w->config->status_period = 0.1;
    w->records = chance(w, 0.25);
    w->config->recorder.enabled = chance(w, 0.8);
    w->config->recorder.file_age = 3;
    snprintf(w->config->recorder.directory, sizeof w->config->recorder.directory, "recordings");
    *s = hb_controller_defaults();
    s->cost = quadrotor_hover_cost;
    s->cost.limits = hb_controller_defaults().cost.limits;
    s->ntarget = NX;
    memcpy(s->target, quadrotor_hover_target, sizeof quadrotor_hover_target);
    s->planner.samples = 8;
    s->planner.horizon = chance(w, 0.5) ? 6 : 10;
    s->planner.prepare = chance(w, 0.5) || w->result.weather == CALM;
    s->planner.ndirections = 3;
    memcpy(s->planner.direction, direction, sizeof direction);
    s->budget = budget;
    s->stale_after = stale_after;
    s->fallback_after = fallback_after;
    s->delay = 0.004;
    s->estimator.window = 4;
    s->estimator.actuators.identify = false;
}

static void set_up(world *w)
{
    hb_error err;

    w->config = must(calloc(1, sizeof *w->config));
    w->posted = must(calloc(1, sizeof *w->posted));
    w->log.level = -1; /* nothing is logged */
    w->model = quadrotor_model(QUADROTOR_MODEL_WIDTH, &err);
    if (!w->model || hb_pool_new(&w->pool, 1, NULL, NULL, &err)) {
        fprintf(stderr, "hilbert-world: %s\n", err.text);
        exit(1);
    }
    /* A plan takes some 30 looks at the clock. A machine on which that does not fit the budget flies nothing: there the
     * other promises hold, and calm weather has a fast one. */
    static const double pieces[] = {0.00025, 0.0005, 0.0005, 0.001, 0.001, 0.001, 0.001, 0.001};
    w->piece = pieces[w->result.weather == CALM ? 0 : below(w, sizeof pieces / sizeof *pieces)];
    configure(w);
    w->memory_size = hb_estimator_memory_size(w->model, &w->config->controller.estimator);
    size_t pages = (w->memory_size + 4095) / 4096 * 4096;
    w->memory = must(aligned_alloc(4096, pages));
    memset(w->memory, 0, pages);
    w->copy = must(malloc(w->memory_size));
    w->kept_coefficient = must(calloc((size_t)hb_model_ncoefficients(w->model), sizeof(hb_real)));
    w->kept_variance = must(calloc((size_t)hb_model_ncoefficients(w->model), sizeof(double)));
    w->plant = plant_quadrotor_crazyflie;
    w->plant.mass = between(w, 0.020, 0.032);
    w->clock_us = (int64_t)between(w, 0, 1e9);
    w->worker_until = INFINITY;
    w->upset = w->heard = 0;
    put_back(w);
}

static void tear_down(world *w)
{
    char wrong[128];

    hb_server_free(w->server);
    if (!world_recorder_end(&w->recorder, false, 0, wrong, sizeof wrong))
        breaks(w, PROMISE_RECORDED, "%s", wrong);
    free(w->recorder.sent);
    hb_controller_free(w->controller);
    empty_inboxes(w);
    for (int c = 0; c < HB_NCHANNELS; c++)
        free(w->inbox[c]);
    while (w->nevents > 0)
        free(next_event(w).message);
    free(w->read);
    free(w->heap);
    free(w->kept_coefficient);
    free(w->kept_variance);
    free(w->copy);
    free(w->memory);
    hb_pool_free(w->pool);
    hb_model_free(w->model);
    free(w->posted);
    free(w->config);
}

world_result world_run(uint64_t seed, double seconds, FILE *trace)
{
    world *w = must(calloc(1, sizeof *w));

    w->seed = seed;
    w->end = seconds;
    w->trace = trace;
    w->result.hash = 14695981039346656037u;
    w->result.weather = chance(w, 0.2) ? CALM : chance(w, 0.5) ? ROUGH : WILD; /* flying well takes the most planning */
    w->f = faults_of[w->result.weather];
    w->by_name = chance(w, 0.5);
    w->applies = w->result.weather != CALM && chance(w, 0.2);
    w->nguests = below(w, w->f.guests + 1);
    set_up(w);
    schedule(w, 0, START, 0, 0, NULL);
    schedule(w, 0.01, VEHICLE, PILOT, 0, NULL);
    for (int i = 1; i <= w->nguests; i++)
        schedule(w, between(w, 0.1, 5), GUEST, i, 0, NULL);
    schedule(w, wait_for(w, w->f.operator), OPERATOR, 0, 0, NULL);
    schedule(w, wait_for(w, w->f.reset), RESET_VEHICLE, 0, 0, NULL);
    schedule(w, wait_for(w, w->f.clock_step), STEP_CLOCK, 0, 0, NULL);
    while (w->nevents > 0 && w->heap[0].time <= w->end) {
        event e = next_event(w);
        w->now = e.time;
        w->result.events++;
        if (e.kind != SERVER_TURN && e.kind != VEHICLE)
            tell(w, "%s %d", event_name[e.kind], e.who);
        happen(w, &e);
    }
    tear_down(w);
    world_result result = w->result;
    free(w);
    return result;
}
