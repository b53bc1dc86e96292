#include "mavlink/bridge.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    OUR_COMPONENT = 191, /* an onboard computer */
    TYPE_ONBOARD_CONTROLLER = 18,
    AUTOPILOT_INVALID = 8,
    STATE_ACTIVE = 4,
    COMMAND_SET_MESSAGE_INTERVAL = 511,
    MASK_RATES = 128,       /* of SET_ATTITUDE_TARGET: attitude is ignored, rates and thrust are not */
    MASK_POSITION = 0x09F8, /* of SET_POSITION_TARGET_LOCAL_NED: position and yaw alone */
    FRAME_LOCAL_NED = 1,
};

static const double tick = 0.02;          /* seconds between cycles while no samples come */
static const double longest_poll = 0.005; /* seconds */
static const double aim_timeout = 0.05;   /* seconds: less than the autopilot waits for a setpoint */
static const double long_patience = 60;   /* seconds for a reply while the clock stands still */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t now_ns(const hb_bridge *b)
{
    return b->clock.now_ns ? b->clock.now_ns(b->clock.context) : clock_ns(CLOCK_MONOTONIC);
}

static double seconds(const hb_bridge *b)
{
    return (double)now_ns(b) * 1e-9;
}

/* --- set-up --- */

static int read_key(const char *path, uint8_t key[HB_MAV_KEY], hb_error *err)
{
    /* without waiting for a fifo's other end */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), status = 0;
    char digits[2 * HB_MAV_KEY + 2] = "";
    struct stat info;

    if (fd < 0)
        return hb_fail(err, errno, "signing_key: %s: %s", path, strerror(errno));
    ssize_t n = 0;
    if (fstat(fd, &info) || !S_ISREG(info.st_mode))
        status = hb_fail(err, EINVAL, "signing_key: %s: not a regular file", path);
    else if (info.st_mode & 027)
        status = hb_fail(err, EPERM, "signing_key: %s: others may %s (mode %04o): chmod 600 %s", path,
                         info.st_mode & 022 ? "write to it" : "read it", (unsigned)info.st_mode & 07777, path);
    else if ((n = read(fd, digits, sizeof digits - 1)) < 0)
        status = hb_fail(err, errno, "signing_key: %s: %s", path, strerror(errno));
    close(fd);
    if (status)
        return status;
    if (strspn(digits, "0123456789abcdefABCDEF") != 2 * HB_MAV_KEY || (n > 2 * HB_MAV_KEY && digits[n - 1] != '\n'))
        return hb_fail(err, EINVAL, "signing_key: %s: expected %d hex digits (openssl rand -hex %d)", path,
                       2 * HB_MAV_KEY, HB_MAV_KEY);
    for (int i = 0; i < HB_MAV_KEY; i++) {
        char byte[3] = {digits[2 * i], digits[2 * i + 1], 0};
        key[i] = (uint8_t)strtoul(byte, NULL, 16);
    }
    return 0;
}

int hb_bridge_new(hb_bridge **ret, const hb_mav_settings *s, const hb_bridge_clock *clock, hb_error *err)
{
    hb_bridge *b = calloc(1, sizeof *b);
    char text[256] = "";
    int status;

    if (!b)
        return hb_fail(err, ENOMEM, "out of memory");
    b->s = *s;
    if (clock)
        b->clock = *clock;
    b->out = stderr;
    b->link.fd = -1;
    b->ladder = (hb_ladder){.hold_for = s->hold_for,
                            .uneasy_for = s->uneasy_for,
                            .good_cycles = s->good_cycles,
                            .pilot_engages = strcmp(s->engage, "pilot") == 0};
    b->cost_before = INFINITY;
    b->reached = -1e9;
    b->cycled = b->beat = b->synced = b->asked_streams = b->asked_parameters = -1e9;
    b->reported = seconds(b);
    hb_autopilot_start(&b->pilot, s->system);
    status = hb_link_parse(&b->link, s->connect, err);
    if (!status && s->signing_key[0]) {
        b->sign = true;
        status = read_key(s->signing_key, b->signing.key, err);
    }
    if (!status && s->waypoints[0]) {
        status = hb_waypoints_read(&b->waypoints, s->waypoints, err);
        b->waypoints.speed = s->waypoint_speed;
        b->waypoints.radius = s->waypoint_radius;
        for (int i = 0; !status && i < b->waypoints.n; i++)
            for (int k = 0; !status && k < 3; k++)
                if (b->waypoints.at[i].position[k] < s->limits.box_min[k] ||
                    b->waypoints.at[i].position[k] > s->limits.box_max[k])
                    status = hb_fail(err, EINVAL, "%s: waypoint %d lies outside the box (box_min, box_max)",
                                     s->waypoints, i + 1);
    }
    if (!status) {
        char telemetry[2 * HB_SETTING_TEXT], actions[2 * HB_SETTING_TEXT], control[2 * HB_SETTING_TEXT];
        hb_mav_settings_socket(s, s->telemetry, "telemetry", telemetry);
        hb_mav_settings_socket(s, s->actions, "actions", actions);
        hb_mav_settings_socket(s, s->control, "control", control);
        hilbert_options o = {.telemetry = telemetry,
                             .actions = actions,
                             .control = control,
                             .connect_timeout = -1,
                             .name = "hilbert-mavlink",
                             .lockstep = clock != NULL};
        o.server_key = s->server_key[0] ? s->server_key : NULL;
        o.client_key = s->client_key[0] ? s->client_key : NULL;
        int r = hilbert_connect(&b->client, &o, text, sizeof text);
        if (r)
            status = hb_fail(err, -r, "hilbertd: %s", text);
    }
    if (status) {
        hb_bridge_free(b);
        return status;
    }
    *ret = b;
    return 0;
}

void hb_bridge_free(hb_bridge *b)
{
    if (!b)
        return;
    hb_link_close(&b->link);
    hilbert_close(b->client);
    free(b);
}

/* --- sending --- */

static void send_message(hb_bridge *b, uint32_t id, const void *body)
{
    uint8_t frame[HB_MAV_FRAME];
    hb_mav_address us = {b->pilot.address.system ? b->pilot.address.system : 1, OUR_COMPONENT};

    if (b->sign)
        hb_mav_signing_clock(&b->signing, (uint64_t)clock_ns(CLOCK_REALTIME) / 1000);
    int n = hb_mav_encode(frame, id, body, us, b->sequence++, b->sign ? &b->signing : NULL);
    hb_link_write(&b->link, frame, (size_t)n);
}

static int64_t their_time_us(void *bridge)
{
    hb_bridge *b = bridge;
    return hb_timesync_theirs_us(&b->pilot.sync, now_ns(b));
}

static void remember(hb_bridge *b, bool rates)
{
    hb_sent *s = &b->sent[b->nsent++ % HB_BRIDGE_SENT];
    *s = (hb_sent){.time_us = their_time_us(b), .rates = rates};
    memcpy(s->u, b->action, sizeof s->u);
}

static void send_rates(hb_bridge *b)
{
    float thrust, rates[3];

    hb_control_to_frd(b->action, &thrust, rates);
    hb_mav_set_attitude_target t = {
        .time_boot_ms = (uint32_t)(their_time_us(b) / 1000),
        .q = {1, 0, 0, 0},
        .body_roll_rate = rates[0],
        .body_pitch_rate = rates[1],
        .body_yaw_rate = rates[2],
        .thrust = thrust,
        .type_mask = MASK_RATES,
        .target_system = b->pilot.address.system,
        .target_component = b->pilot.address.component,
    };
    send_message(b, HB_MAV_ID_SET_ATTITUDE_TARGET, &t);
    remember(b, true);
}

static void send_hold(hb_bridge *b)
{
    float point[3];

    hb_point_to_ned(b->hold, point);
    hb_mav_set_position_target_local_ned t = {
        .time_boot_ms = (uint32_t)(their_time_us(b) / 1000),
        .x = point[0],
        .y = point[1],
        .z = point[2],
        .yaw = (float)hb_heading_to_ned(b->hold_heading),
        .type_mask = MASK_POSITION,
        .coordinate_frame = FRAME_LOCAL_NED,
        .target_system = b->pilot.address.system,
        .target_component = b->pilot.address.component,
    };
    send_message(b, HB_MAV_ID_SET_POSITION_TARGET_LOCAL_NED, &t);
    remember(b, false);
}

/* Asks for a stream, again and again while it comes fewer than `least` times a second: a question may be lost, and the
 * autopilot streams some of them slowly anyway. */
static void ask_for_stream(hb_bridge *b, uint32_t id, double interval, double least)
{
    const hb_stream_count *s = &b->pilot.stream[hb_mav_find(id) - hb_mav_at(0)];
    hb_mav_command_long c = {.command = COMMAND_SET_MESSAGE_INTERVAL,
                             .param1 = (float)id,
                             .param2 = (float)(interval * 1e6),
                             .target_system = b->pilot.address.system,
                             .target_component = b->pilot.address.component};
    if (hb_autopilot_rate(&b->pilot, id) < least || b->now - s->last >= 1)
        send_message(b, HB_MAV_ID_COMMAND_LONG, &c);
}

/* --- what is due by the clock --- */

static void keep_in_touch(hb_bridge *b)
{
    double now = b->now;

    if (now - b->beat >= 1) {
        hb_mav_heartbeat h = {.type = TYPE_ONBOARD_CONTROLLER,
                              .autopilot = AUTOPILOT_INVALID,
                              .system_status = STATE_ACTIVE,
                              .mavlink_version = 3};
        send_message(b, HB_MAV_ID_HEARTBEAT, &h);
        b->beat = now;
    }
    if (!hb_autopilot_heard(&b->pilot, now))
        return;
    if (now - b->synced >= (hb_timesync_settled(&b->pilot.sync) ? 0.5 : 0.05)) {
        hb_mav_timesync t = {.ts1 = now_ns(b)};
        send_message(b, HB_MAV_ID_TIMESYNC, &t);
        b->synced = now;
    }
    if (now - b->asked_streams >= 1) {
        /* asked for faster than it can: then PX4 sends every sample, at even distances */
        if (b->pilot.kind == HB_AUTOPILOT_PX4) {
            ask_for_stream(b, HB_MAV_ID_ODOMETRY, 0.001, 50);
            /* what it commands itself; it falls silent while rates come from us */
            if (b->ladder.rung != HB_RUNG_FLYING)
                ask_for_stream(b, HB_MAV_ID_ATTITUDE_TARGET, 0.008, 20);
        } else {
            ask_for_stream(b, HB_MAV_ID_ATTITUDE_QUATERNION, 0.01, 40);
            ask_for_stream(b, HB_MAV_ID_LOCAL_POSITION_NED, 0.01, 40);
        }
        ask_for_stream(b, HB_MAV_ID_CURRENT_MODE, 0.02, 20);
        ask_for_stream(b, HB_MAV_ID_EXTENDED_SYS_STATE, 0.1, 2);
        ask_for_stream(b, HB_MAV_ID_SYS_STATUS, 0.5, 0.2);
        b->asked_streams = now;
    }
    if (now - b->asked_parameters >= 0.2) {
        hb_parameter *p = hb_autopilot_next_parameter(&b->pilot);
        if (p) {
            hb_mav_param_request_read r = {.param_index = -1,
                                           .target_system = b->pilot.address.system,
                                           .target_component = b->pilot.address.component};
            memcpy(r.param_id, p->name, strnlen(p->name, sizeof r.param_id));
            send_message(b, HB_MAV_ID_PARAM_REQUEST_READ, &r);
            p->asked++;
        }
        b->asked_parameters = now;
    }
}

/* --- samples and cycles --- */

const char *hb_bridge_obstacle(hb_bridge *b)
{
    const hb_autopilot *a = &b->pilot;
    const hb_parameter *p = NULL;

    if (!hb_autopilot_heard(a, b->now))
        return "no heartbeat of an autopilot";
    if (!hb_autopilot_parameters_good(a, &p)) {
        if (p->known)
            snprintf(b->obstacle, sizeof b->obstacle, "%s is %g: set it with 'param set %s %s' (%s)", p->name, p->value,
                     p->name, p->advice, p->why);
        else
            snprintf(b->obstacle, sizeof b->obstacle, "%s is not known yet", p->name);
        return b->obstacle;
    }
    if (!hb_timesync_known(&a->sync))
        return "the autopilot's clock is not known yet (TIMESYNC)";
    if (!a->sampled || b->now - a->arrived > 1)
        return "no position of the autopilot";
    if (b->s.battery_min > 0 && a->battery >= 0 && a->battery < b->s.battery_min)
        return "the battery is low";
    if (!a->armed)
        return "disarmed";
    if (a->landed != HB_LANDED_IN_AIR)
        return "not in the air";
    return NULL;
}

/* The control in force at the autopilot's time, ours or its own; NULL when it is not known. */
static const double *control_at(const hb_bridge *b, int64_t time_us)
{
    if (b->ladder.rung != HB_RUNG_FLYING)
        return hb_autopilot_own_control(&b->pilot, time_us);
    uint64_t oldest = b->nsent > HB_BRIDGE_SENT ? b->nsent - HB_BRIDGE_SENT : 0;

    for (uint64_t i = b->nsent; i > oldest; i--) {
        const hb_sent *s = &b->sent[(i - 1) % HB_BRIDGE_SENT];
        if (s->time_us <= time_us)
            return s->rates ? s->u : hb_autopilot_own_control(&b->pilot, time_us);
    }
    return NULL;
}

static void publish(hb_bridge *b)
{
    const double *u = control_at(b, b->pilot.time_us);

    /* the step that begins at a sample without a known control makes no transition */
    b->unknown_controls += !b->control_known;
    b->control_known = u != NULL;
    hilbert_telemetry t = {.time_us = b->pilot.time_us,
                           .state = b->pilot.x,
                           .nstate = HB_NSTATE,
                           .control = u ? u : b->action,
                           .ncontrol = HB_NCONTROL,
                           .reset_counter = b->pilot.resets + b->unknown_controls};
    hilbert_publish(b->client, &t);
    b->published = b->pilot.samples;
}

/* Whether plans lead somewhere: the vehicle is near the way that it is to fly along, or comes on from waypoint to
 * waypoint, or the cost of plans is less than it was a second ago. At a limit that is all one can ask for: a long way
 * is flown at the speed that is allowed, while in a wind that needs more tilt than is allowed neither is true. */
static bool succeeds(hb_bridge *b, double cost)
{
    const double lag = 1, less = 0.95, near = 1; /* seconds, part of the cost, metres */
    double share = exp((b->costed - b->now) / lag), before = b->cost_before, off = 0;

    b->cost_before = isfinite(before) ? share * before + (1 - share) * cost : cost;
    b->costed = b->now;
    for (int i = HB_X; i <= HB_Z; i += 2)
        off += (b->pilot.x[i] - b->target[0][i]) * (b->pilot.x[i] - b->target[0][i]);
    if (b->waypoints.target.next != b->waypoint) {
        b->waypoint = b->waypoints.target.next;
        b->reached = b->now;
    }
    return cost < less * before || (b->has_target && (off < near * near || b->now - b->reached < lag));
}

/* Why a reply is not to be flown, or NULL: then it is b->action, though not for long where *ret_unease says why. */
static const char *judge(hb_bridge *b, const hilbert_action_reply *r, const char **ret_unease)
{
    /* single samples that it does not believe and controls out of bounds are no reason for hilbertd not to plan, nor
     * for us to fly no more; states that are none, hang or wait on their way are */
    bool fault = strcmp(r->fault, "none") != 0;
    bool slight = strcmp(r->fault, "implausible") == 0 || strcmp(r->fault, "bad-control") == 0;
    double u[HB_NCONTROL];

    if (r->guest)
        return "hilbertd flies for another client: end that one, or name hilbert-mavlink in security.pilot";
    if (r->status == HILBERT_REFUSED) {
        snprintf(b->mistrust, sizeof b->mistrust, "hilbertd refused the request: %.100s",
                 r->detail[0] ? r->detail : r->reason);
        return b->mistrust;
    }
    if (fault) {
        snprintf(b->unease, sizeof b->unease, "hilbertd finds fault with telemetry (%.40s)", r->fault);
        *ret_unease = b->unease;
    }
    if (fault && !slight)
        return b->unease;
    if (r->status == HILBERT_STALE)
        return "hilbertd says that telemetry is stale";
    if (!hilbert_is_planned(r->status)) {
        snprintf(b->mistrust, sizeof b->mistrust, "hilbertd has no plan (fallback: %.40s)", r->reason);
        return b->mistrust;
    }
    if (r->naction != HB_NCONTROL)
        return "hilbertd's model has other controls than thrust and three rates";
    memcpy(u, r->action, sizeof u);
    if (!hb_limits_clamp(&b->s.limits, u))
        return "the action is not finite";
    memcpy(b->action, u, sizeof u);
    if (!succeeds(b, r->cost) && r->status == HILBERT_LIMITED && !fault) {
        snprintf(b->unease, sizeof b->unease, "plans break a limit of hilbertd's (%.40s)", r->limit);
        *ret_unease = b->unease;
    }
    if (r->status == HILBERT_LIMITED)
        snprintf(b->limited_by, sizeof b->limited_by, "%.40s", r->limit);
    return NULL;
}

/* Asks hilbertd, and judges its reply. */
static const char *ask(hb_bridge *b, const char **ret_unease)
{
    hilbert_action_request r = {.time_us = b->pilot.time_us,
                                .state = b->pilot.x,
                                .nstate = HB_NSTATE,
                                .budget = b->s.reply_timeout,
                                .reset_counter = b->pilot.resets};
    hilbert_action_reply reply;
    double asked = seconds(b);

    if (b->has_target) {
        int rows = b->waypoints.n > 0 ? HB_WAYPOINT_ROWS : 1;
        r.target = b->target[0];
        r.ntarget = rows * HB_NSTATE;
        r.target_time = b->target_time;
        r.ntarget_time = rows;
    }
    b->counters.requests++;
    int status = hilbert_request(b->client, &r, b->clock.now_ns ? long_patience : b->s.reply_timeout, &reply);
    b->now = seconds(b);
    b->counters.slowest = fmax(b->counters.slowest, b->now - asked);
    if (status) {
        b->counters.missed++;
        return "hilbertd did not answer in time";
    }
    if ((unsigned)reply.status < HB_BRIDGE_STATUSES)
        b->counters.status[reply.status]++;
    const char *why = judge(b, &reply, ret_unease);
    b->counters.untrusted += why != NULL;
    b->counters.uneasy += !why && *ret_unease;
    return why;
}

/* Why the newest sample is too old, or too new, to plan from; NULL: it is neither. */
static const char *too_old(hb_bridge *b)
{
    double age = hb_autopilot_sample_age(&b->pilot, now_ns(b));

    if (age > b->s.max_age) {
        snprintf(b->old, sizeof b->old, "the autopilot's samples are old when they come (more than %g ms)",
                 1000 * b->s.max_age);
        return b->old;
    }
    if (age < -b->s.max_age)
        return "the autopilot's samples are ahead of its clock (TIMESYNC)";
    return NULL;
}

static void hold_here(hb_bridge *b)
{
    b->hold[0] = b->pilot.x[HB_X];
    b->hold[1] = b->pilot.x[HB_Y];
    b->hold[2] = b->pilot.x[HB_Z];
    hb_limits_nearest(&b->s.limits, b->hold);
    b->hold_heading = hb_heading(b->pilot.x);
}

/* What requests ask for: the way along the waypoints, or to stay here until somebody flies by us. Then hilbertd's
 * target is where the vehicle was engaged, whatever it was before, and the operator's to change (hilbertctl target).
 * Returns why that is not so yet, or NULL. */
static const char *aim(hb_bridge *b)
{
    bool moving = b->ladder.rung == HB_RUNG_FLYING || b->ladder.rung == HB_RUNG_HOLDING;

    b->has_target = true;
    if (b->waypoints.n > 0) {
        if (!moving)
            hb_waypoints_restart(&b->waypoints);
        hb_waypoints_reference(&b->waypoints, b->now, b->pilot.x, b->target, b->target_time);
        return NULL;
    }
    if (!moving)
        b->aimed = false;
    b->has_target = !b->aimed;
    if (b->aimed)
        return NULL;
    const double *x = b->pilot.x, here[3] = {x[HB_X], x[HB_Y], x[HB_Z]};
    double heading = moving ? b->hold_heading : hb_heading(x);
    b->target_time[0] = 0;
    memset(b->target[0], 0, sizeof b->target[0]);
    for (int i = 0; i < 3; i++)
        b->target[0][HB_X + 2 * i] = moving ? b->hold[i] : here[i];
    b->target[0][HB_QZ] = sin(heading / 2);
    b->target[0][HB_QW] = cos(heading / 2);
    /* not before hilbertd has answered as one that flies for us: a guest does not move another's vehicle */
    if (!moving || b->dry_run || b->doubt)
        return NULL;
    double timeout = b->clock.now_ns ? long_patience : aim_timeout;
    if (hilbert_set_target(b->client, b->target[0], HB_NSTATE, timeout)) {
        snprintf(b->unaimed, sizeof b->unaimed, "hilbertd does not take this place for its target: %.100s",
                 hilbert_error(b->client));
        return b->unaimed;
    }
    b->aimed = true;
    b->has_target = false;
    return NULL;
}

static void log_cycle(const hb_bridge *b)
{
    if (!b->log)
        return;
    fprintf(b->log, "%.6f", (double)b->pilot.time_us * 1e-6);
    for (int i = 0; i < HB_NSTATE; i++)
        fprintf(b->log, ",%.6g", b->pilot.x[i]);
    for (int i = 0; i < HB_NCONTROL; i++)
        fprintf(b->log, ",%.6g", b->action[i]);
    fprintf(b->log, ",%s,%s\n", hb_rung_name[b->ladder.rung], b->doubt ? b->doubt : "");
}

/* One turn of the ladder. fresh: there is a new sample, and hilbertd is asked. */
static void cycle(hb_bridge *b, bool fresh)
{
    const char *doubt = NULL, *limit = NULL, *unease = NULL, *old = fresh ? too_old(b) : NULL, *unaimed = NULL;

    if (b->pilot.sampled && b->pilot.estimator_resets != b->resets_seen) {
        b->resets_seen = b->pilot.estimator_resets;
        b->settled = b->now + b->s.settle;
        hold_here(b); /* what was the hold point is another place now */
    }
    if (fresh) {
        unaimed = aim(b);
        limit = hb_limits_exceeded(&b->s.limits, b->pilot.x);
        doubt = ask(b, &unease); /* also beyond a limit: hilbertd continues with what it knows */
    }
    if (!fresh || b->now - b->pilot.arrived > b->s.stale_after)
        doubt = "the autopilot's samples are stale";
    else if (old)
        doubt = old;
    else if (limit)
        doubt = limit;
    else if (b->now < b->settled)
        doubt = "the autopilot's estimator was reset";
    else if (unaimed)
        doubt = unaimed;
    b->doubt = doubt;

    hb_ladder_input in = {.now = b->now,
                          .offboard = hb_autopilot_offboard(&b->pilot),
                          .mode = b->pilot.mode,
                          .mode_heard = b->pilot.mode_heard,
                          .obstacle = hb_bridge_obstacle(b),
                          .intent = hb_autopilot_intent(&b->pilot, b->now),
                          .intent_heard = hb_autopilot_intent_heard(&b->pilot),
                          .lost_after = hb_autopilot_patience(&b->pilot),
                          .doubt = doubt,
                          .unease = unease,
                          .engage = b->engage,
                          .release = b->release};
    hb_rung before = b->ladder.rung;
    hb_ladder_output out = hb_ladder_step(&b->ladder, &in);
    b->engage = b->release = false;
    b->counters.cycles[b->ladder.rung]++;

    if (b->pilot.sampled && (b->ladder.rung == HB_RUNG_STANDBY || b->ladder.rung == HB_RUNG_ENGAGING ||
                             (out.changed && before == HB_RUNG_FLYING)))
        hold_here(b);
    if (out.changed)
        fprintf(b->out, "%s: %s\n", hb_rung_name[b->ladder.rung], b->ladder.reason);
    if (!b->dry_run && b->pilot.sampled) {
        if (out.setpoint == HB_SEND_RATES)
            send_rates(b);
        else if (out.setpoint == HB_SEND_HOLD)
            send_hold(b);
        if (out.command != HB_COMMAND_NONE) {
            hb_mav_command_long c = hb_autopilot_command_mode(&b->pilot, out.command == HB_COMMAND_OFFBOARD);
            send_message(b, HB_MAV_ID_COMMAND_LONG, &c);
        }
    }
    if (fresh)
        log_cycle(b);
    b->cycled = b->now;
}

static void answer_timesync(hb_bridge *b, const hb_mav_received *r)
{
    hb_mav_timesync t;

    hb_mav_unpack(r->message, r->payload, r->length, &t);
    if (t.tc1 == 0) {
        t.tc1 = now_ns(b);
        send_message(b, HB_MAV_ID_TIMESYNC, &t);
    }
}

/* Takes in all that has arrived. */
static void receive(hb_bridge *b)
{
    uint8_t bytes[4096];
    bool other;
    ssize_t n;

    while ((n = hb_link_read(&b->link, bytes, sizeof bytes, b->now, &other)) > 0) {
        const uint8_t *at = bytes;
        size_t left = (size_t)n;
        hb_mav_received r;
        if (other)
            b->parser.first = b->parser.end = 0; /* the beginning of a frame is not another's */
        if (b->sign)
            hb_mav_signing_clock(&b->signing, (uint64_t)clock_ns(CLOCK_REALTIME) / 1000);
        while (hb_mav_parse(&b->parser, &at, &left, b->sign ? &b->signing : NULL, &r)) {
            if (r.message->id == HB_MAV_ID_TIMESYNC)
                answer_timesync(b, &r);
            if (hb_autopilot_receive(&b->pilot, &r, b->now, now_ns(b)) &&
                b->pilot.samples - b->published >= (uint64_t)b->s.telemetry_every)
                publish(b);
            if (hb_autopilot_is(&b->pilot, r.from))
                hb_link_confirm(&b->link, b->now);
        }
    }
    if (n < 0)
        fprintf(b->out, "the link to the autopilot broke: %s\n", strerror((int)-n));
    if (b->pilot.text[0]) {
        fprintf(b->out, "autopilot: %s\n", b->pilot.text);
        b->pilot.text[0] = 0;
    }
}

void hb_bridge_step(hb_bridge *b)
{
    struct pollfd p = {.fd = b->link.fd, .events = hb_link_events(&b->link)};
    hb_error err = {0};

    b->now = seconds(b);
    int r = hb_link_open(&b->link, b->now, &err);
    if (r && r != -EAGAIN && strcmp(err.text, b->link_trouble) != 0) {
        snprintf(b->link_trouble, sizeof b->link_trouble, "%s", err.text);
        fprintf(b->out, "%s; tried again every second\n", err.text);
    }
    p.fd = b->link.fd;
    poll(&p, p.fd >= 0, b->clock.now_ns ? 0 : (int)(longest_poll * 1000));
    b->now = seconds(b);
    receive(b);
    keep_in_touch(b);
    if (b->pilot.samples - b->requested >= (uint64_t)b->s.request_every) {
        b->requested = b->pilot.samples;
        cycle(b, true);
    } else if (b->now - b->cycled >= tick && b->now - b->pilot.arrived > b->s.stale_after) {
        cycle(b, false);
    }
    if (b->now - b->reported >= b->s.status_every) {
        b->reported = b->now;
        hb_bridge_report(b);
    }
}

bool hb_bridge_responsible(const hb_bridge *b)
{
    return b->ladder.rung != HB_RUNG_STANDBY && b->ladder.rung != HB_RUNG_YIELDED;
}

/* --- reports --- */

void hb_bridge_report(const hb_bridge *b)
{
    const hb_autopilot *a = &b->pilot;
    char mode[32];

    if (!hb_autopilot_heard(a, b->now)) {
        fprintf(b->out, "no autopilot on %s (%" PRIu64 " frames, %" PRIu64 " with a bad CRC, %" PRIu64 " refused)\n",
                b->s.connect, b->parser.counters.frames, b->parser.counters.bad_crc,
                b->parser.counters.unsigned_ + b->parser.counters.bad_signature + b->parser.counters.replayed);
        return;
    }
    hb_autopilot_mode_name(a, mode);
    fprintf(b->out,
            "%s (%s): %s %s, %s; at %.2f %.2f %.2f m; %.0f samples/s, age %.1f ms; %" PRIu64 " requests, %" PRIu64
            " missed, %" PRIu64 " untrusted, %" PRIu64 " uneasy, %" PRIu64 " at a limit%s%s, slowest %.1f ms\n",
            hb_rung_name[b->ladder.rung], b->ladder.reason, hb_autopilot_kind_name(a), mode,
            a->armed ? "armed" : "disarmed", a->x[HB_X], a->x[HB_Y], a->x[HB_Z],
            hb_autopilot_rate(a, a->kind == HB_AUTOPILOT_PX4 ? HB_MAV_ID_ODOMETRY : HB_MAV_ID_LOCAL_POSITION_NED),
            1000 * hb_autopilot_age(a, 0.5), b->counters.requests, b->counters.missed, b->counters.untrusted,
            b->counters.uneasy, b->counters.status[HILBERT_LIMITED], b->limited_by[0] ? " of hilbertd's, last " : "",
            b->limited_by, 1000 * b->counters.slowest);
}

void hb_bridge_describe_way(const hb_bridge *b, size_t size, char *ret)
{
    int at;
    const double tilt = hb_waypoints_tilt(&b->waypoints, &at), speed = b->waypoints.speed;
    int n = snprintf(ret, size,
                     "%d waypoints at %g m/s; turns need up to %.2f rad of tilt (waypoint %d), and rules of "
                     "hilbertd's that allow less make them wider",
                     b->waypoints.n, speed, tilt, at + 1);

    if (speed > b->s.limits.speed)
        snprintf(ret + n, size - (size_t)n, "; max_speed is %g m/s: position will be held", b->s.limits.speed);
    else if (tilt > b->s.limits.tilt)
        snprintf(ret + n, size - (size_t)n, "; max_tilt is %g rad: position will be held", b->s.limits.tilt);
}

static bool is_an_answer(uint32_t id)
{
    return id == HB_MAV_ID_COMMAND_ACK || id == HB_MAV_ID_PARAM_VALUE || id == HB_MAV_ID_TIMESYNC;
}

bool hb_bridge_check_report(hb_bridge *b)
{
    const hb_autopilot *a = &b->pilot;
    const hb_parameter *problem = NULL;
    bool good = true;
    char mode[32];

    if (!hb_autopilot_heard(a, b->now)) {
        printf("no autopilot was heard on %s: %" PRIu64 " frames, %" PRIu64 " with a bad CRC, %" PRIu64
               " unknown, %" PRIu64 " unsigned, %" PRIu64 " badly signed, %" PRIu64 " replayed, %" PRIu64
               " bytes of noise\n",
               b->s.connect, b->parser.counters.frames, b->parser.counters.bad_crc, b->parser.counters.unknown,
               b->parser.counters.unsigned_, b->parser.counters.bad_signature, b->parser.counters.replayed,
               b->parser.counters.skipped);
        return false;
    }
    hb_autopilot_mode_name(a, mode);
    printf("autopilot   %s, system %d, %s, %s\n", hb_autopilot_kind_name(a), a->address.system, mode,
           a->armed ? "armed" : "disarmed");
    if (a->battery >= 0)
        printf("battery     %d %%\n", a->battery);
    for (int i = 0; hb_mav_at(i); i++)
        if (a->stream[i].rate > 0 && !is_an_answer(hb_mav_at(i)->id))
            printf("stream      %-28s %7.1f Hz\n", hb_mav_at(i)->name, hb_autopilot_rate(a, hb_mav_at(i)->id));
    if (hb_timesync_known(&a->sync))
        printf("clock       round trip %.3f ms\n", (double)hb_timesync_trip_us(&a->sync) * 1e-3);
    else
        printf("clock       no answer to TIMESYNC\n");
    if (a->samples > 1)
        printf("samples     %" PRIu64 ", age median %.1f ms, 99 %% within %.1f ms, %u estimator resets\n", a->samples,
               1000 * hb_autopilot_age(a, 0.5), 1000 * hb_autopilot_age(a, 0.99), a->estimator_resets);
    else
        printf("samples     none: the autopilot has no local position, or does not stream it\n");
    good = a->samples > 1 && hb_timesync_known(&a->sync);
    for (int i = 0; i < a->nparameters; i++) {
        const hb_parameter *p = &a->parameter[i];
        if (p->known)
            printf("parameter   %-16s %g%s\n", p->name, p->value, hb_parameter_good(p) ? "" : "   <- not tight");
        else
            printf("parameter   %-16s no answer\n", p->name);
    }
    if (!hb_autopilot_parameters_good(a, &problem)) {
        good = false;
        printf("set these, so that the vehicle is safe when the bridge dies:\n");
        for (int i = 0; i < a->nparameters; i++)
            if (!hb_parameter_good(&a->parameter[i]))
                printf("    param set %s %s\n", a->parameter[i].name, a->parameter[i].advice);
    }
    printf("hilbertd    %" PRIu64 " requests, %" PRIu64 " missed, %" PRIu64 " untrusted, slowest %.1f ms\n",
           b->counters.requests, b->counters.missed, b->counters.untrusted, 1000 * b->counters.slowest);
    for (int i = HILBERT_CONVERGED; i < HB_BRIDGE_STATUSES; i++)
        if (b->counters.status[i])
            printf("            %-12s %" PRIu64 "\n", hilbert_status_name((hilbert_status)i), b->counters.status[i]);
    if (b->counters.requests == 0 || 2 * (b->counters.missed + b->counters.untrusted) > b->counters.requests) {
        good = false;
        printf("            most requests were not answered with a plan: %s\n", b->doubt ? b->doubt : "none was made");
    }
    const char *obstacle = hb_bridge_obstacle(b);
    if (b->waypoints.n > 0) {
        char way[320];
        hb_bridge_describe_way(b, sizeof way, way);
        printf("way         %s\n", way);
    }
    printf("flying      %s\n", obstacle ? obstacle : good ? "would be allowed now" : "would be held back");
    return good;
}
