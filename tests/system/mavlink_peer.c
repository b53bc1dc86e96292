/* A vehicle with an autopilot that speaks MAVLink as PX4 v1.17 does in its simulation: our plant behind
 * our codec, with PX4's rules of modes, time-outs and streams as they were measured on it. After a failsafe it returns
 * to offboard by itself as soon as setpoints come.
 *
 * usage: mavlink_peer LINK [NAME=VALUE...]       LINK as hilbert-mavlink's (udpout:127.0.0.1:PORT)
 *
 * In real time; with bridge=FILE, settings of hilbert-mavlink, the bridge is part of this process, and time is virtual:
 * it passes by the command "pass SECONDS" alone, which is answered by the line "passed", and not while hilbertd plans
 * (latency.clock: vehicle).
 *
 * Commands are lines on standard input: NAME=VALUE of the table below, "mode offboard|hold|position|land", "jump
 * METRES" (the estimator resets itself), "engage" and "release" (the operator's word to the bridge in here), "quit".
 * Every 20 ms a line on standard output tells the truth:
 *
 *     seconds x y z vx vy vz tilt mode setpoint age      mode and setpoint as words; age of the last setpoint, seconds
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "base/numeric.h"
#include "mavlink/bridge.h"
#include "mavlink/codec.h"
#include "mavlink/convert.h"
#include "mavlink/link.h"
#include "sim/multirotor_body.h"

enum {
    OFFBOARD = 6 << 16,
    POSITION = 3 << 16,
    HOLD = 4 << 16 | 3 << 24,
    RETURN = 4 << 16 | 5 << 24,
    LAND = 4 << 16 | 6 << 24
};
enum { ACCEPTED = 0, TEMPORARILY_REJECTED = 1, DENIED = 2 };
enum { QUEUED = 512, NSTREAMS = 6 };

typedef enum { NO_SETPOINT, RATES_SETPOINT, POSITION_SETPOINT } setpoint_kind;

/* an ODOMETRY on its way */
typedef struct late {
    double due;
    hb_mav_odometry body;
} late;

typedef struct peer {
    /* what can be set */
    double load, drag, wind_x, wind_y, noise, loss, battery, landed, armed, odometry, age, own_targets, yaw, seed;
    double off_x;     /* metres by which every other sample is off, unsaid */
    double frozen;    /* samples repeat a state of the past, with new times */
    double mode_rate; /* CURRENT_MODE so many times a second, whatever is asked for; 0: as asked for */
    double rate;      /* of its clock against ours */
    double delay;     /* from setpoint to motors, seconds; below 0: as measured, 4 ms mostly and 8 to 20 at times */
    double COM_OF_LOSS_T, COM_OBL_RC_ACT, COM_FAIL_ACT_T;

    hb_multirotor body;
    hb_estimator_errors errors;
    hb_link link;
    hb_mav_parser parser;
    hb_mav_signing signing;
    bool sign;
    hb_random_key key;
    uint64_t draws;
    uint8_t sequence;
    uint64_t steps; /* of 1 ms */
    uint32_t mode, next_mode;
    uint32_t intended; /* the mode that somebody asked for last */
    double mode_due;   /* when next_mode is in force; negative: none */
    double seen[HB_NSTATE];

    setpoint_kind setpoint;
    double setpoint_time;
    double u[HB_MULTIROTOR_NU];   /* commanded rates and thrust */
    double point[3], heading;     /* commanded position */
    double hold[3], hold_heading; /* of Hold mode */
    double drawn_delay;           /* of the setpoint in force */
    double own[HB_MULTIROTOR_NU]; /* what its position controller commands, */
    bool by_itself;               /* and whether that is in force */
    double offset[3];             /* by which the estimator is off after jumps */
    uint8_t resets;
    double sign_of_q;

    hb_bridge *bridge; /* NULL: a process of its own */
    double interval[NSTREAMS], sent[NSTREAMS];
    late queue[QUEUED];
    int nqueue;
} peer;

static const uint32_t stream_id[NSTREAMS] = {HB_MAV_ID_HEARTBEAT,    HB_MAV_ID_ODOMETRY,
                                             HB_MAV_ID_CURRENT_MODE, HB_MAV_ID_EXTENDED_SYS_STATE,
                                             HB_MAV_ID_SYS_STATUS,   HB_MAV_ID_ATTITUDE_TARGET};

#define SETTABLE(X)                                                                                                    \
    X(load)                                                                                                            \
    X(drag)                                                                                                            \
    X(wind_x)                                                                                                          \
    X(wind_y)                                                                                                          \
    X(noise)                                                                                                           \
    X(loss)                                                                                                            \
    X(delay)                                                                                                           \
    X(off_x)                                                                                                           \
    X(frozen)                                                                                                          \
    X(mode_rate)                                                                                                       \
    X(rate)                                                                                                            \
    X(own_targets)                                                                                                     \
    X(yaw) X(battery) X(landed) X(armed) X(odometry) X(age) X(seed) X(COM_OF_LOSS_T) X(COM_OBL_RC_ACT) X(COM_FAIL_ACT_T)

static bool set(peer *p, const char *name, double value)
{
#define X(field)                                                                                                       \
    if (strcmp(name, #field) == 0) {                                                                                   \
        p->field = value;                                                                                              \
        return true;                                                                                                   \
    }
    SETTABLE(X)
#undef X
    return false;
}

static double uniform(peer *p)
{
    return hb_random_uniform(p->key, p->draws++);
}

static double normal(void *peer_)
{
    peer *p = peer_;
    return hb_random_normal(p->key, p->draws++);
}

static double now(const peer *p)
{
    return (double)p->steps * HB_MULTIROTOR_STEP;
}

static void send_message(peer *p, uint32_t id, const void *body)
{
    uint8_t frame[HB_MAV_FRAME];
    int n = hb_mav_encode(frame, id, body, (hb_mav_address){1, 1}, p->sequence++, p->sign ? &p->signing : NULL);

    if (uniform(p) >= p->loss)
        hb_link_write(&p->link, frame, (size_t)n);
}

/* --- flying --- */

static void take_parameters(peer *p)
{
    p->body.full_thrust = 19.9 / p->load;
    p->body.drag = p->drag / p->load;
    p->body.wind[0] = p->wind_x;
    p->body.wind[1] = p->wind_y;
    p->body.thrust_lag = 0.05;
    p->body.frequency = 18;
    p->body.damping = 0.7;
    p->body.yaw_bandwidth = 6;
    p->body.delay = p->delay < 0 ? p->drawn_delay : p->delay;
}

/* The autopilot's own position controller: thrust and rates towards a point. */
static void fly_to(const peer *p, const double *point, double heading, double *u)
{
    const double *x = p->body.x, *q = x + HB_QX;
    double force[3], along, error = heading - hb_heading(x);

    for (int i = 0; i < 3; i++) {
        double v = fmax(-2, fmin(2, 0.95 * (point[i] - x[2 * i])));
        force[i] = fmax(-5, fmin(5, 2.2 * (v - x[2 * i + 1]))) + p->body.drag * x[2 * i + 1];
    }
    force[2] += 9.81;
    /* into the body's frame */
    double t[3] = {2 * (q[1] * force[2] - q[2] * force[1]), 2 * (q[2] * force[0] - q[0] * force[2]),
                   2 * (q[0] * force[1] - q[1] * force[0])};
    double b[3] = {force[0] - q[3] * t[0] + q[1] * t[2] - q[2] * t[1],
                   force[1] - q[3] * t[1] + q[2] * t[0] - q[0] * t[2],
                   force[2] - q[3] * t[2] + q[0] * t[1] - q[1] * t[0]};
    along = sqrt(b[0] * b[0] + b[1] * b[1] + b[2] * b[2]);
    u[0] = fmax(0.1, fmin(1, b[2] / p->body.full_thrust));
    u[1] = fmax(-3, fmin(3, -6 * b[1] / along));
    u[2] = fmax(-3, fmin(3, 6 * b[0] / along));
    u[3] = fmax(-1, fmin(1, 2 * remainder(error, 2 * M_PI)));
}

static void go_to_mode(peer *p, uint32_t mode)
{
    if (mode != p->mode && mode != OFFBOARD) {
        for (int i = 0; i < 3; i++)
            p->hold[i] = p->body.x[2 * i];
        p->hold_heading = hb_heading(p->body.x);
    }
    p->mode = mode;
    p->mode_due = -1;
}

/* PX4's offboard-loss rule: the last setpoint is held until the time-out, then the mode changes. What was asked for
 * does not: it goes back there by itself as soon as setpoints come. */
static void watch_the_stream(peer *p)
{
    bool streamed = now(p) - p->setpoint_time <= p->COM_OF_LOSS_T + p->COM_FAIL_ACT_T;

    if (p->mode == OFFBOARD && !streamed)
        go_to_mode(p, p->COM_OBL_RC_ACT == 5 ? HOLD : p->COM_OBL_RC_ACT == 4 ? LAND : RETURN);
    else if (p->mode != OFFBOARD && p->intended == OFFBOARD && p->mode_due < 0 && streamed)
        go_to_mode(p, OFFBOARD);
}

static void physics_step(peer *p)
{
    double u[HB_MULTIROTOR_NU];

    if (p->mode_due >= 0 && now(p) >= p->mode_due)
        go_to_mode(p, p->next_mode);
    watch_the_stream(p);
    p->by_itself = p->mode != OFFBOARD || p->setpoint != RATES_SETPOINT;
    if (!p->by_itself)
        memcpy(u, p->u, sizeof u);
    else if (p->mode == OFFBOARD && p->setpoint == POSITION_SETPOINT)
        fly_to(p, p->point, p->heading, u);
    else
        fly_to(p, p->hold, p->hold_heading, u);
    memcpy(p->own, u, sizeof u);
    take_parameters(p);
    hb_multirotor_step(&p->body, u);
    p->steps++;
}

/* --- streams --- */

static void queue_odometry(peer *p)
{
    double x[HB_NSTATE];

    memcpy(x, p->body.x, sizeof x);
    hb_estimator_errors_add(&p->errors, 0.008, x, normal, p);
    for (int i = 0; i < 3; i++)
        x[2 * i] += p->offset[i];
    x[HB_X] += p->steps % 16 ? p->off_x : 0;
    if (p->frozen > 0)
        memcpy(x, p->seen, sizeof x);
    memcpy(p->seen, x, sizeof x);
    /* PX4's sign may change for good */
    if (uniform(p) < 0.0005)
        p->sign_of_q = -p->sign_of_q;
    /* age: 8.7 ms mostly, with a tail to 26 ms; samples stay in order */
    double due = now(p) + p->age * (0.7 + 0.5 * uniform(p) + (uniform(p) < 0.03 ? 3 * uniform(p) : 0));
    if (p->nqueue && due < p->queue[p->nqueue - 1].due)
        due = p->queue[p->nqueue - 1].due;
    if (p->nqueue == QUEUED)
        return;
    double s = p->sign_of_q;
    p->queue[p->nqueue++] =
        (late){due,
               {.time_usec = p->steps * 1000,
                .x = (float)x[HB_X],
                .y = (float)-x[HB_Y],
                .z = (float)-x[HB_Z],
                .q = {(float)(s * x[HB_QW]), (float)(s * x[HB_QX]), (float)(-s * x[HB_QY]), (float)(-s * x[HB_QZ])},
                .vx = (float)x[HB_VX],
                .vy = (float)-x[HB_VY],
                .vz = (float)-x[HB_VZ],
                .rollspeed = (float)x[HB_WX],
                .pitchspeed = (float)-x[HB_WY],
                .yawspeed = (float)-x[HB_WZ],
                .frame_id = 1,
                .child_frame_id = 1,
                .reset_counter = p->resets}};
}

static void stream(peer *p)
{
    if (p->mode_rate > 0)
        p->interval[2] = 1 / p->mode_rate;
    for (int i = 0; i < NSTREAMS; i++) {
        bool native = stream_id[i] != HB_MAV_ID_ODOMETRY || p->steps % 8 == 0;
        if (p->interval[i] <= 0 || !native || now(p) - p->sent[i] < p->interval[i] - 1e-9)
            continue;
        p->sent[i] = now(p);
        if (stream_id[i] == HB_MAV_ID_ODOMETRY && p->odometry > 0)
            queue_odometry(p);
        if (stream_id[i] == HB_MAV_ID_HEARTBEAT)
            send_message(p, stream_id[i],
                         &(hb_mav_heartbeat){.type = 2,
                                             .autopilot = 12,
                                             .base_mode = (uint8_t)(p->armed > 0 ? 128 + 1 : 1),
                                             .custom_mode = p->mode,
                                             .system_status = 4,
                                             .mavlink_version = 3});
        if (stream_id[i] == HB_MAV_ID_CURRENT_MODE)
            send_message(p, stream_id[i],
                         &(hb_mav_current_mode){.custom_mode = p->mode, .intended_custom_mode = p->intended});
        if (stream_id[i] == HB_MAV_ID_EXTENDED_SYS_STATE)
            send_message(p, stream_id[i],
                         &(hb_mav_extended_sys_state){.landed_state = (uint8_t)(p->landed > 0 ? 1 : 2)});
        if (stream_id[i] == HB_MAV_ID_SYS_STATUS)
            send_message(p, stream_id[i], &(hb_mav_sys_status){.battery_remaining = (int8_t)p->battery});
        /* stale while rates come from outside: not sent */
        if (stream_id[i] == HB_MAV_ID_ATTITUDE_TARGET && p->by_itself && p->own_targets > 0)
            send_message(p, stream_id[i],
                         &(hb_mav_attitude_target){.time_boot_ms = (uint32_t)p->steps,
                                                   .q = {1, 0, 0, 0},
                                                   .body_roll_rate = (float)p->own[1],
                                                   .body_pitch_rate = (float)-p->own[2],
                                                   .body_yaw_rate = (float)-p->own[3],
                                                   .thrust = (float)p->own[0]});
    }
    while (p->nqueue && p->queue[0].due <= now(p)) {
        send_message(p, HB_MAV_ID_ODOMETRY, &p->queue[0].body);
        memmove(p->queue, p->queue + 1, (size_t)--p->nqueue * sizeof *p->queue);
    }
}

/* --- messages in --- */

static int set_mode(peer *p, const hb_mav_command_long *c)
{
    uint32_t mode = (uint32_t)c->param2 << 16 | (uint32_t)c->param3 << 24;

    if (c->param1 != 1)
        return DENIED;
    if (mode == OFFBOARD && p->armed > 0 && now(p) - p->setpoint_time > p->COM_OF_LOSS_T)
        return TEMPORARILY_REJECTED;
    p->next_mode = p->intended = mode;
    p->mode_due = now(p) + 0.028;
    return ACCEPTED;
}

static void take_command(peer *p, const hb_mav_command_long *c)
{
    int result = DENIED;

    if (c->target_system != 1)
        return;
    if (c->command == 176)
        result = set_mode(p, c);
    for (int i = 0; c->command == 511 && i < NSTREAMS; i++)
        if ((float)stream_id[i] == c->param1) {
            p->interval[i] = (double)c->param2 * 1e-6;
            result = ACCEPTED;
        }
    send_message(p, HB_MAV_ID_COMMAND_ACK, &(hb_mav_command_ack){.command = c->command, .result = (uint8_t)result});
}

/* PX4's way: int32 as the bytes of the float. */
static void tell_parameter(peer *p, const char *name)
{
    static const char *const known[] = {"COM_OF_LOSS_T", "COM_OBL_RC_ACT", "COM_FAIL_ACT_T"};
    const double value[] = {p->COM_OF_LOSS_T, p->COM_OBL_RC_ACT, p->COM_FAIL_ACT_T};

    for (int i = 0; i < 3; i++)
        if (strncmp(name, known[i], 16) == 0) {
            hb_mav_param_value v = {.param_value = (float)value[i],
                                    .param_count = 3,
                                    .param_index = (uint16_t)i,
                                    .param_type = i == 1 ? 6 : 9};
            int32_t whole = (int32_t)value[i];
            if (i == 1)
                memcpy(&v.param_value, &whole, sizeof whole);
            memcpy(v.param_id, known[i], strlen(known[i]));
            send_message(p, HB_MAV_ID_PARAM_VALUE, &v);
        }
}

static void take(peer *p, const hb_mav_received *r)
{
    union {
        hb_mav_command_long command;
        hb_mav_timesync sync;
        hb_mav_param_request_read read;
        hb_mav_set_attitude_target rates;
        hb_mav_set_position_target_local_ned point;
        uint8_t any[512];
    } b;

    hb_mav_unpack(r->message, r->payload, r->length, &b);
    switch (r->message->id) {
    case HB_MAV_ID_COMMAND_LONG:
        take_command(p, &b.command);
        break;
    case HB_MAV_ID_TIMESYNC:
        if (b.sync.tc1 == 0) {
            b.sync.tc1 = (int64_t)p->steps * 1000000;
            send_message(p, HB_MAV_ID_TIMESYNC, &b.sync);
        }
        break;
    case HB_MAV_ID_PARAM_REQUEST_READ:
        tell_parameter(p, b.read.param_id);
        break;
    case HB_MAV_ID_SET_ATTITUDE_TARGET:
        if (b.rates.type_mask != 128)
            break;
        p->setpoint = RATES_SETPOINT;
        p->setpoint_time = now(p);
        p->drawn_delay = uniform(p) < 0.15 ? 0.008 + 0.012 * uniform(p) : 0.004;
        p->u[0] = fmax(0, fmin(1, (double)b.rates.thrust));
        p->u[1] = (double)b.rates.body_roll_rate;
        p->u[2] = -(double)b.rates.body_pitch_rate;
        p->u[3] = -(double)b.rates.body_yaw_rate;
        break;
    case HB_MAV_ID_SET_POSITION_TARGET_LOCAL_NED:
        p->setpoint = POSITION_SETPOINT;
        p->setpoint_time = now(p);
        p->point[0] = (double)b.point.x - p->offset[0];
        p->point[1] = -(double)b.point.y - p->offset[1];
        p->point[2] = -(double)b.point.z - p->offset[2];
        p->heading = -(double)b.point.yaw;
        break;
    default:
        break;
    }
}

static void receive(peer *p)
{
    uint8_t bytes[4096];
    ssize_t n;

    while ((n = hb_link_read(&p->link, bytes, sizeof bytes, now(p), NULL)) > 0) {
        const uint8_t *at = bytes;
        size_t left = (size_t)n;
        hb_mav_received r;
        while (hb_mav_parse(&p->parser, &at, &left, p->sign ? &p->signing : NULL, &r))
            if (uniform(p) >= p->loss)
                take(p, &r);
    }
}

/* --- time --- */

static void tell_the_truth(const peer *p)
{
    const double *x = p->body.x;
    const char *mode = p->mode == OFFBOARD   ? "offboard"
                       : p->mode == HOLD     ? "hold"
                       : p->mode == POSITION ? "position"
                       : p->mode == LAND     ? "land"
                                             : "return";
    static const char *const word[] = {"none", "rates", "position"};

    printf("%.3f %.4f %.4f %.4f %.4f %.4f %.4f %.4f %s %s %.3f\n", now(p), x[HB_X], x[HB_Y], x[HB_Z], x[HB_VX],
           x[HB_VY], x[HB_VZ], hb_tilt(x), mode, word[p->setpoint], now(p) - p->setpoint_time);
}

static void pass_a_millisecond(peer *p)
{
    receive(p);
    physics_step(p);
    stream(p);
    if (p->steps % 20 == 0)
        tell_the_truth(p);
    if (p->bridge)
        hb_bridge_step(p->bridge);
}

/* The bridge's clock where time is virtual; it begins elsewhere than the autopilot's. */
static int64_t virtual_ns(void *peer_)
{
    const peer *p = peer_;
    return 1000000000000 + (int64_t)((double)p->steps * 1e6 / p->rate);
}

/* --- the test's wishes --- */

static bool obey(peer *p, char *line)
{
    char word[32], *equals = strchr(line, '=');
    double value;

    line[strcspn(line, "\n")] = 0;
    if (equals) {
        *equals = 0;
        if (!set(p, line, atof(equals + 1)))
            fprintf(stderr, "mavlink_peer: there is no '%s'\n", line);
    } else if (sscanf(line, "mode %31s", word) == 1) {
        hb_mav_command_long c = {.param1 = 1, .param2 = 6};
        if (strcmp(word, "offboard") == 0)
            return set_mode(p, &c) == ACCEPTED || fprintf(stderr, "mavlink_peer: offboard is refused\n") > 0;
        p->intended = strcmp(word, "position") == 0 ? POSITION : strcmp(word, "land") == 0 ? LAND : HOLD;
        go_to_mode(p, p->intended);
    } else if (sscanf(line, "jump %lf", &value) == 1) {
        p->offset[0] += value;
        p->resets++;
    } else if (sscanf(line, "pass %lf", &value) == 1 && p->bridge) {
        for (uint64_t end = p->steps + (uint64_t)(value * 1000 + 0.5); p->steps < end;)
            pass_a_millisecond(p);
        printf("passed\n");
    } else if (p->bridge && (strcmp(line, "engage") == 0 || strcmp(line, "release") == 0)) {
        *(line[0] == 'e' ? &p->bridge->engage : &p->bridge->release) = true;
    } else if (strcmp(line, "quit") == 0) {
        return false;
    } else {
        fprintf(stderr, "mavlink_peer: '%s' is not understood\n", line);
    }
    fflush(stdout);
    return true;
}

static bool listen_to_the_test(peer *p)
{
    static char text[1024];
    static size_t have;
    ssize_t n = read(STDIN_FILENO, text + have, sizeof text - 1 - have);

    if (n == 0)
        return false;
    have += n > 0 ? (size_t)n : 0;
    text[have] = 0;
    for (char *end; (end = strchr(text, '\n'));) {
        char line[1024];
        size_t length = (size_t)(end + 1 - text);
        memcpy(line, text, length);
        line[length] = 0;
        memmove(text, end + 1, have - length + 1);
        have -= length;
        if (!obey(p, line))
            return false;
    }
    return true;
}

static int start_bridge(peer *p, const char *path, hb_error *err)
{
    const hb_bridge_clock clock = {virtual_ns, p};
    hb_mav_settings s;

    hb_mav_settings_default(&s);
    int status = hb_mav_settings_read(&s, path, err);
    return status ? status : hb_bridge_new(&p->bridge, &s, &clock, err);
}

int main(int argc, char **argv)
{
    static peer p = {.load = 1,
                     .drag = 1,
                     .noise = 1,
                     .delay = -1,
                     .drawn_delay = 0.004,
                     .own_targets = 1,
                     .battery = 80,
                     .armed = 1,
                     .odometry = 1,
                     .age = 0.0087,
                     .COM_OF_LOSS_T = 0.2,
                     .COM_OBL_RC_ACT = 5,
                     .rate = 1,
                     .mode = HOLD,
                     .intended = HOLD,
                     .mode_due = -1,
                     .setpoint_time = -1e9,
                     .sign_of_q = 1,
                     .interval = {1, 0.03, 0.5, 0, 1, 0}};
    hb_error err = {0};

    if (argc < 2 || hb_link_parse(&p.link, argv[1], &err) || hb_link_open(&p.link, 0, &err)) {
        fprintf(stderr, "usage: mavlink_peer LINK [NAME=VALUE...] %s\n", err.text);
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (strncmp(argv[i], "key=", 4) == 0) {
            p.sign = true;
            for (int k = 0; k < HB_MAV_KEY; k++)
                sscanf(argv[i] + 4 + 2 * k, "%2hhx", &p.signing.key[k]);
            hb_mav_signing_clock(&p.signing, (uint64_t)time(NULL) * 1000000);
            continue;
        }
        if (strncmp(argv[i], "bridge=", 7) == 0) {
            if (start_bridge(&p, argv[i] + 7, &err)) {
                fprintf(stderr, "mavlink_peer: %s\n", err.text);
                return 2;
            }
            continue;
        }
        if (value)
            *value++ = 0;
        if (!value || !set(&p, argv[i], atof(value))) {
            fprintf(stderr, "mavlink_peer: there is no '%s'\n", argv[i]);
            return 2;
        }
    }
    p.key = (hb_random_key){.seed = (uint64_t)p.seed};
    take_parameters(&p);
    hb_multirotor_reset(&p.body, (double[HB_NSTATE]){[HB_Z] = 2, [HB_QZ] = sin(p.yaw / 2), [HB_QW] = cos(p.yaw / 2)});
    p.hold_heading = p.yaw;
    hb_estimator_errors_start(&p.errors, p.noise, normal, &p);
    memcpy(p.hold, (double[]){0, 0, 2}, sizeof p.hold);
    bool going = true;
    while (going && p.bridge)
        going = listen_to_the_test(&p);
    hb_bridge_free(p.bridge);

    /* in real time; what was missed while the machine was busy is caught up with */
    double began = hb_now();
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    while (going) {
        struct pollfd wait[2] = {{.fd = p.link.fd, .events = hb_link_events(&p.link)},
                                 {.fd = STDIN_FILENO, .events = POLLIN}};
        poll(wait, 2, 1);
        if (wait[1].revents)
            going = listen_to_the_test(&p);
        while (now(&p) < p.rate * (hb_now() - began))
            pass_a_millisecond(&p);
        fflush(stdout);
        receive(&p);
    }
    return 0;
}
