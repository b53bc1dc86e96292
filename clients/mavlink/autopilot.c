#include "mavlink/autopilot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "base/statistics.h"

enum {
    TYPE_ONBOARD_CONTROLLER = 18,
    AUTOPILOT_ARDUPILOT = 3,
    AUTOPILOT_PX4 = 12,
    BASE_MODE_ARMED = 128,
    FRAME_LOCAL_NED = 1,
    COMPONENT_AUTOPILOT = 1,
    COMMAND_SET_MODE = 176,
    PX4_OFFBOARD = 6,
    PX4_AUTO = 4,
    PX4_AUTO_LOITER = 3,
    COPTER_GUIDED = 4,
    COPTER_GUIDED_NOGPS = 20,
    COPTER_BRAKE = 17,
    SEVERITY_WARNING = 4,
    PARAMETER_INT32 = 6,
};

static const uint64_t longest_time_us = UINT64_C(1) << 53; /* 285 years: beyond it is no time */
static const int64_t longest_own_us = 60000; /* from one ATTITUDE_TARGET to the next: PX4 has 50 a second or more */

/* PX4 that loses the stream holds the last setpoint until the time-out: these are the values that were measured to lose
 * 0.2 m of height and 8 degrees of tilt; its defaults lose a second */
static const hb_parameter px4_parameters[] = {
    {"COM_OF_LOSS_T", "0.2", "seconds until a lost stream of setpoints counts", false, 0.05, 0.2001, 0, 0, 0, 0},
    {"COM_OBL_RC_ACT", "5", "what then happens: Hold", true, 5, 5, 0, 0, 0, 0},
    {"COM_FAIL_ACT_T", "0", "seconds of waiting before it happens", false, 0, 0, 0, 0, 0, 0},
};

/* ArduCopter levels after GUID_TIMEOUT; without the option thrust would mean climb rate */
static const hb_parameter ardupilot_parameters[] = {
    {"GUID_TIMEOUT", "0.3", "seconds until a lost stream of setpoints counts", false, 0.05, 0.5, 0, 0, 0, 0},
    {"GUID_OPTIONS", "8", "thrust of a setpoint is thrust, not climb rate", true, 0, 1e9, 8, 0, 0, 0},
};

void hb_autopilot_start(hb_autopilot *a, int wanted_system)
{
    *a = (hb_autopilot){.wanted_system = wanted_system,
                        .heartbeat = -1e9,
                        .mode_heard = -1e9,
                        .current_mode_heard = -1e9,
                        .battery = -1,
                        .result = -1};
}

static void take_kind(hb_autopilot *a, hb_autopilot_kind kind)
{
    const hb_parameter *list = kind == HB_AUTOPILOT_PX4 ? px4_parameters : ardupilot_parameters;

    a->kind = kind;
    a->nparameters = (int)(kind == HB_AUTOPILOT_PX4 ? sizeof px4_parameters / sizeof *px4_parameters
                                                    : sizeof ardupilot_parameters / sizeof *ardupilot_parameters);
    memcpy(a->parameter, list, (size_t)a->nparameters * sizeof *list);
}

static void take_heartbeat(hb_autopilot *a, const hb_mav_heartbeat *h, hb_mav_address from, double now)
{
    hb_autopilot_kind kind = h->autopilot == AUTOPILOT_PX4         ? HB_AUTOPILOT_PX4
                             : h->autopilot == AUTOPILOT_ARDUPILOT ? HB_AUTOPILOT_ARDUPILOT
                                                                   : HB_AUTOPILOT_UNKNOWN;

    /* other components, ground stations and autopilots that we do not know speak here too */
    if (kind == HB_AUTOPILOT_UNKNOWN || from.component != COMPONENT_AUTOPILOT || h->type == TYPE_ONBOARD_CONTROLLER)
        return;
    if (a->kind == HB_AUTOPILOT_UNKNOWN && (a->wanted_system == 0 || a->wanted_system == from.system)) {
        take_kind(a, kind);
        a->address = from;
    }
    if (from.system != a->address.system)
        return;
    a->heartbeat = now;
    a->armed = h->base_mode & BASE_MODE_ARMED;
    /* CURRENT_MODE comes more often, where it comes */
    if (now - a->current_mode_heard > 0.5) {
        a->mode = h->custom_mode;
        a->mode_heard = now;
    }
}

/* --- samples --- */

/* Whether the vehicle cannot have come from one state to the next by itself within dt seconds: an estimator that was
 * corrected, or that has lost its way, whatever its reset counter says. Kinematics are exact, so that little is
 * allowed: what errors of the stamps (10 ms) and an acceleration of 40 m/s2 or 100 rad/s2 explain, and 0.1 m, 1 m/s and
 * 0.15 rad for corrections that are no reset. */
static bool jumped(const double from[HB_NSTATE], const double to[HB_NSTATE], double dt)
{
    double moved = 0, faster = 0, speed = 0, along = 0, rate = 0;

    for (int i = 0; i < 3; i++) {
        const double *a = from + HB_X + 2 * i, *b = to + HB_X + 2 * i;
        double off = b[0] - a[0] - dt * (a[1] + b[1]) / 2;
        moved += off * off;
        faster += (b[1] - a[1]) * (b[1] - a[1]);
        speed += fmax(a[1] * a[1], b[1] * b[1]);
        rate += fmax(from[HB_WX + i] * from[HB_WX + i], to[HB_WX + i] * to[HB_WX + i]);
    }
    for (int i = HB_QX; i <= HB_QW; i++)
        along += from[i] * to[i];
    double turned = 2 * acos(fmin(1, fabs(along)));
    return sqrt(moved) > 0.1 + 0.01 * sqrt(speed) + 5 * dt * dt || sqrt(faster) > 1 + 40 * dt ||
           turned > 0.15 + (dt + 0.01) * sqrt(rate) + 50 * dt * dt;
}

static bool take_sample(hb_autopilot *a, int64_t time_us, double x[HB_NSTATE], bool reset, double now, int64_t now_ns)
{
    if (a->sampled && time_us <= a->time_us) {
        /* back by more than a second: the autopilot was restarted */
        if (time_us > a->time_us - 1000000) {
            a->repeated++;
            return false;
        }
        reset = true;
    }
    if (a->sampled && !reset)
        reset = jumped(a->x, x, (double)(time_us - a->time_us) * 1e-6);
    if (hb_quaternion_follow(x, a->sampled && !reset ? a->x : NULL) || reset)
        a->resets++;
    a->estimator_resets += reset;
    memcpy(a->x, x, sizeof a->x);
    a->time_us = time_us;
    a->arrived = now;
    a->sampled = true;
    a->age[a->samples % HB_AGES] = hb_autopilot_sample_age(a, now_ns);
    a->samples++;
    return true;
}

double hb_autopilot_sample_age(const hb_autopilot *a, int64_t now_ns)
{
    if (!a->sampled || !hb_timesync_known(&a->sync))
        return NAN;
    return (double)(hb_timesync_theirs_us(&a->sync, now_ns) - a->time_us) * 1e-6;
}

static bool take_odometry(hb_autopilot *a, const hb_mav_odometry *o, double now, int64_t now_ns)
{
    const float position[3] = {o->x, o->y, o->z}, rates[3] = {o->rollspeed, o->pitchspeed, o->yawspeed};
    const float velocity[3] = {o->vx, o->vy, o->vz};
    double x[HB_NSTATE];

    if (o->frame_id != FRAME_LOCAL_NED || o->time_usec > longest_time_us)
        return false;
    hb_state_from_ned(position, velocity, o->q, rates, x);
    if (o->child_frame_id != FRAME_LOCAL_NED) {
        /* velocity in the body's frame: turned into the world's */
        double v[3];
        hb_to_world(x, (double[]){x[HB_VX], x[HB_VY], x[HB_VZ]}, v);
        x[HB_VX] = v[0], x[HB_VY] = v[1], x[HB_VZ] = v[2];
    }
    if (!hb_all_finite(x, HB_NSTATE))
        return false;
    bool reset = a->have_reset && o->reset_counter != a->reset_counter;
    a->have_reset = true;
    a->reset_counter = o->reset_counter;
    return take_sample(a, (int64_t)o->time_usec, x, reset, now, now_ns);
}

/* ArduPilot's position, joined with the attitude before it, which is turned on by its rates to the same time. */
static bool take_position(hb_autopilot *a, const hb_mav_local_position_ned *p, double now, int64_t now_ns)
{
    const hb_mav_attitude_quaternion *t = &a->attitude;
    int64_t apart = (int64_t)p->time_boot_ms - (int64_t)t->time_boot_ms;

    if (a->kind != HB_AUTOPILOT_ARDUPILOT || !a->have_attitude || llabs(apart) > 20)
        return false;
    const float position[3] = {p->x, p->y, p->z}, velocity[3] = {p->vx, p->vy, p->vz};
    const float rates[3] = {t->rollspeed, t->pitchspeed, t->yawspeed};
    float q[4];
    double x[HB_NSTATE];

    hb_attitude_turned((float[4]){t->q1, t->q2, t->q3, t->q4}, rates, (float)apart * 0.001f, q);
    hb_state_from_ned(position, velocity, q, rates, x);
    if (!hb_all_finite(x, HB_NSTATE))
        return false;
    return take_sample(a, (int64_t)p->time_boot_ms * 1000, x, false, now, now_ns);
}

/* --- what it commands by itself --- */

static void take_attitude_target(hb_autopilot *a, const hb_mav_attitude_target *t)
{
    int64_t time_us = (int64_t)t->time_boot_ms * 1000;
    const float rates[3] = {t->body_roll_rate, t->body_pitch_rate, t->body_yaw_rate};
    double u[HB_NCONTROL];

    hb_control_from_frd(t->thrust, rates, u);
    if (!hb_all_finite(u, HB_NCONTROL))
        return;
    hb_own_control *own = &a->own[a->nown++ % HB_OWN_CONTROLS];
    own->time_us = time_us;
    memcpy(own->u, u, sizeof u);
}

const double *hb_autopilot_own_control(const hb_autopilot *a, int64_t time_us)
{
    uint64_t oldest = a->nown > HB_OWN_CONTROLS ? a->nown - HB_OWN_CONTROLS : 0;

    if (!a->armed || a->landed != HB_LANDED_IN_AIR)
        return NULL;
    for (uint64_t i = a->nown; i > oldest; i--) {
        const hb_own_control *own = &a->own[(i - 1) % HB_OWN_CONTROLS];
        if (own->time_us <= time_us)
            return time_us - own->time_us <= longest_own_us ? own->u : NULL;
    }
    return NULL;
}

/* --- parameters --- */

static void take_parameter(hb_autopilot *a, const hb_mav_param_value *v)
{
    for (int i = 0; i < a->nparameters; i++) {
        hb_parameter *p = &a->parameter[i];
        if (strncmp(v->param_id, p->name, sizeof v->param_id) != 0)
            continue;
        p->known = true;
        p->value = (double)v->param_value;
        if (a->kind == HB_AUTOPILOT_PX4 && v->param_type == PARAMETER_INT32) {
            int32_t whole;
            memcpy(&whole, &v->param_value, sizeof whole);
            p->value = whole;
        }
    }
}

hb_parameter *hb_autopilot_next_parameter(hb_autopilot *a)
{
    hb_parameter *next = NULL;

    for (int i = 0; i < a->nparameters; i++)
        if (!a->parameter[i].known && (!next || a->parameter[i].asked < next->asked))
            next = &a->parameter[i];
    return next;
}

bool hb_parameter_good(const hb_parameter *p)
{
    if (!p->known)
        return false;
    return p->bit ? p->value >= 0 && ((long)p->value & p->bit) : p->value >= p->min && p->value <= p->max;
}

bool hb_autopilot_parameters_good(const hb_autopilot *a, const hb_parameter **ret_problem)
{
    for (int i = 0; i < a->nparameters; i++)
        if (!hb_parameter_good(&a->parameter[i])) {
            *ret_problem = &a->parameter[i];
            return false;
        }
    return a->nparameters > 0;
}

/* --- all of it --- */

static void count(hb_autopilot *a, const hb_mav_message *m, double now)
{
    hb_stream_count *s = &a->stream[m - hb_mav_at(0)];

    s->last = now;
    if (s->count++ == 0) {
        s->since = now;
    } else if (s->within++, now - s->since >= 1) {
        s->rate = s->within / (now - s->since);
        s->since = now;
        s->within = 0;
    }
}

bool hb_autopilot_is(const hb_autopilot *a, hb_mav_address from)
{
    return a->kind != HB_AUTOPILOT_UNKNOWN && from.system == a->address.system &&
           from.component == a->address.component;
}

bool hb_autopilot_receive(hb_autopilot *a, const hb_mav_received *r, double now, int64_t now_ns)
{
    union {
        hb_mav_heartbeat heartbeat;
        hb_mav_sys_status status;
        hb_mav_param_value parameter;
        hb_mav_attitude_quaternion attitude;
        hb_mav_local_position_ned position;
        hb_mav_attitude_target target;
        hb_mav_command_ack ack;
        hb_mav_timesync sync;
        hb_mav_extended_sys_state extended;
        hb_mav_statustext text;
        hb_mav_odometry odometry;
        hb_mav_current_mode mode;
        uint8_t any[512];
    } body;

    hb_mav_unpack(r->message, r->payload, r->length, &body);
    if (r->message->id == HB_MAV_ID_HEARTBEAT)
        take_heartbeat(a, &body.heartbeat, r->from, now);
    if (!hb_autopilot_is(a, r->from))
        return false;
    count(a, r->message, now);
    switch (r->message->id) {
    case HB_MAV_ID_ODOMETRY:
        return take_odometry(a, &body.odometry, now, now_ns);
    case HB_MAV_ID_ATTITUDE_QUATERNION:
        a->attitude = body.attitude;
        a->have_attitude = true;
        return false;
    case HB_MAV_ID_LOCAL_POSITION_NED:
        return take_position(a, &body.position, now, now_ns);
    case HB_MAV_ID_ATTITUDE_TARGET:
        take_attitude_target(a, &body.target);
        return false;
    case HB_MAV_ID_CURRENT_MODE:
        a->mode = body.mode.custom_mode;
        a->intended_mode = body.mode.intended_custom_mode ? body.mode.intended_custom_mode : body.mode.custom_mode;
        a->mode_heard = a->current_mode_heard = now;
        return false;
    case HB_MAV_ID_SYS_STATUS:
        a->battery = body.status.battery_remaining;
        return false;
    case HB_MAV_ID_EXTENDED_SYS_STATE:
        a->landed = body.extended.landed_state;
        return false;
    case HB_MAV_ID_TIMESYNC:
        if (body.sync.tc1 > 0)
            hb_timesync_answer(&a->sync, body.sync.ts1, body.sync.tc1, now_ns);
        return false;
    case HB_MAV_ID_PARAM_VALUE:
        take_parameter(a, &body.parameter);
        return false;
    case HB_MAV_ID_COMMAND_ACK:
        a->acknowledged = body.ack.command;
        a->result = body.ack.result;
        return false;
    case HB_MAV_ID_STATUSTEXT:
        if (body.text.severity <= SEVERITY_WARNING) {
            snprintf(a->text, sizeof a->text, "%.50s", body.text.text);
            for (char *c = a->text; *c; c++)
                *c = *c >= ' ' && *c <= '~' ? *c : '?';
        }
        return false;
    default:
        return false;
    }
}

bool hb_autopilot_heard(const hb_autopilot *a, double now)
{
    return a->kind != HB_AUTOPILOT_UNKNOWN && now - a->heartbeat < 3;
}

static bool is_offboard(const hb_autopilot *a, uint32_t mode)
{
    if (a->kind == HB_AUTOPILOT_PX4)
        return (mode >> 16 & 0xFF) == PX4_OFFBOARD;
    return a->kind == HB_AUTOPILOT_ARDUPILOT && (mode == COPTER_GUIDED || mode == COPTER_GUIDED_NOGPS);
}

bool hb_autopilot_offboard(const hb_autopilot *a)
{
    return is_offboard(a, a->mode);
}

/* ArduCopter leaves a mode for good; PX4 does not, and tells by CURRENT_MODE alone. */
double hb_autopilot_intent_heard(const hb_autopilot *a)
{
    return a->kind == HB_AUTOPILOT_ARDUPILOT ? a->mode_heard : a->current_mode_heard;
}

hb_intent hb_autopilot_intent(const hb_autopilot *a, double now)
{
    const bool copter = a->kind == HB_AUTOPILOT_ARDUPILOT;

    if (a->kind == HB_AUTOPILOT_UNKNOWN || (!copter && now - hb_autopilot_intent_heard(a) > 1.5))
        return HB_INTENT_UNKNOWN;
    return is_offboard(a, copter ? a->mode : a->intended_mode) ? HB_INTENT_OFFBOARD : HB_INTENT_OTHER;
}

double hb_autopilot_patience(const hb_autopilot *a)
{
    /* the first of either list */
    return a->nparameters > 0 && hb_parameter_good(&a->parameter[0]) ? a->parameter[0].value : 0;
}

void hb_autopilot_mode_name(const hb_autopilot *a, char text[32])
{
    static const char *const px4[] = {"-",        "manual",     "altitude",  "position", "auto",       "acro",
                                      "offboard", "stabilized", "rattitude", "simple",   "termination"};
    static const char *const px4_auto[] = {"auto", "ready", "take-off", "hold", "mission", "return", "land"};
    unsigned main_mode = a->mode >> 16 & 0xFF, sub = a->mode >> 24;

    if (a->kind == HB_AUTOPILOT_PX4 && main_mode == PX4_AUTO && sub < sizeof px4_auto / sizeof *px4_auto)
        snprintf(text, 32, "%s", px4_auto[sub]);
    else if (a->kind == HB_AUTOPILOT_PX4 && main_mode < sizeof px4 / sizeof *px4)
        snprintf(text, 32, "%s", px4[main_mode]);
    else if (a->kind == HB_AUTOPILOT_ARDUPILOT && hb_autopilot_offboard(a))
        snprintf(text, 32, "guided");
    else
        snprintf(text, 32, "mode %u", a->mode);
}

const char *hb_autopilot_kind_name(const hb_autopilot *a)
{
    return a->kind == HB_AUTOPILOT_PX4 ? "PX4" : a->kind == HB_AUTOPILOT_ARDUPILOT ? "ArduPilot" : "no autopilot";
}

hb_mav_command_long hb_autopilot_command_mode(const hb_autopilot *a, bool offboard)
{
    bool px4 = a->kind == HB_AUTOPILOT_PX4;
    return (hb_mav_command_long){
        .command = COMMAND_SET_MODE,
        .param1 = 1,
        .param2 = px4 ? (offboard ? PX4_OFFBOARD : PX4_AUTO) : (offboard ? COPTER_GUIDED : COPTER_BRAKE),
        .param3 = px4 && !offboard ? PX4_AUTO_LOITER : 0,
        .target_system = a->address.system,
        .target_component = a->address.component,
    };
}

double hb_autopilot_age(const hb_autopilot *a, double quantile)
{
    double sorted[HB_AGES];
    int n = 0;

    for (size_t i = 0; i < HB_AGES && i < a->samples; i++)
        if (isfinite(a->age[i]))
            sorted[n++] = a->age[i];
    return hb_quantile(sorted, n, quantile);
}

double hb_autopilot_rate(const hb_autopilot *a, uint32_t id)
{
    return a->stream[hb_mav_find(id) - hb_mav_at(0)].rate;
}
