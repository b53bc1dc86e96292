/* The bridge: samples of an autopilot to hilbertd, its actions back as setpoints, and the failsafe ladder in between.
 *
 *     autopilot --ODOMETRY--> telemetry to hilbertd (each n-th)
 *                        \--> request --> reply, limits --> ladder --> SET_ATTITUDE_TARGET (rates and thrust),
 *                                                                      SET_POSITION_TARGET_LOCAL_NED (hold), or nothing
 *
 * The control that telemetry reports is the one in force at the sample's time: the last setpoint that had left before
 * it, on the autopilot's clock; while the autopilot flies by itself or to a position, what it says that it commands
 * (PX4's ATTITUDE_TARGET), so that the vehicle is known before it is engaged. Where it is not known, the sample's reset
 * counter changes, so that nothing is learned from it. */
#ifndef HB_MAVLINK_BRIDGE_H
#define HB_MAVLINK_BRIDGE_H

#include <signal.h>
#include <stdio.h>

#include "hilbert_client.h"
#include "mavlink/autopilot.h"
#include "mavlink/ladder.h"
#include "mavlink/link.h"
#include "mavlink/settings.h"
#include "mavlink/waypoints.h"

enum { HB_BRIDGE_SENT = 32, HB_BRIDGE_STATUSES = HILBERT_LIMITED + 1 };

/* A setpoint that was sent. */
typedef struct hb_sent {
    int64_t time_us; /* autopilot's clock */
    bool rates;      /* else the autopilot decided over rates and thrust */
    double u[HB_NCONTROL];
} hb_sent;

typedef struct hb_bridge_counters {
    uint64_t requests, missed, untrusted, uneasy;
    uint64_t status[HB_BRIDGE_STATUSES]; /* of replies */
    uint64_t cycles[HB_NRUNGS];
    double slowest; /* seconds from request to reply */
} hb_bridge_counters;

/* The clock of a simulation that the bridge is part of. It stands still until hilbertd, whose latency.clock is vehicle,
 * has answered: neither the machine nor its load decide over a flight. */
typedef struct hb_bridge_clock {
    int64_t (*now_ns)(void *context); /* NULL: the machine's clock */
    void *context;
} hb_bridge_clock;

typedef struct hb_bridge {
    hb_mav_settings s;
    hb_bridge_clock clock;
    bool dry_run; /* neither setpoints nor modes are sent */
    FILE *log;    /* CSV, one line per cycle; may be NULL */
    FILE *out;    /* lines for people */

    hb_link link;
    hb_mav_parser parser;
    hb_mav_signing signing;
    bool sign;
    uint8_t sequence;
    hb_autopilot pilot;
    hb_ladder ladder;
    hb_waypoints waypoints;
    hilbert_client *client;
    hb_bridge_counters counters;

    bool engage, release; /* the operator's word, until the next cycle */
    double now;
    double cycled, beat, synced, asked_streams, asked_parameters, reported; /* when each was done last */
    uint64_t published, requested;                                          /* samples at that time */
    uint32_t resets_seen;
    double settled; /* until then position is held after an estimator reset */

    hb_sent sent[HB_BRIDGE_SENT];
    uint64_t nsent;
    double action[HB_NCONTROL]; /* what the last good reply said, within limits */
    bool control_known;         /* of the sample published last */
    uint32_t unknown_controls;  /* added to the reset counter */

    double hold[3], hold_heading; /* model's frame */
    double target[HB_WAYPOINT_ROWS][HB_NSTATE], target_time[HB_WAYPOINT_ROWS];
    bool has_target;            /* requests carry it; else hilbertd's own counts, */
    bool aimed;                 /* which is where the vehicle was engaged, or what the operator made of it since */
    int waypoint;               /* that was flown to last, */
    double reached;             /* and since when */
    double cost_before, costed; /* cost of plans, a second behind; and when it was brought up to date */
    char obstacle[160], mistrust[160], unease[160], old[160], unaimed[160], link_trouble[512];
    char limited_by[64]; /* name of the limit that the last plan at one broke */
    const char *doubt;   /* of the last cycle */
} hb_bridge;

/* Reads keys and waypoints and connects to hilbertd; the autopilot is looked for by hb_bridge_step. clock may be NULL.
 */
int hb_bridge_new(hb_bridge **ret, const hb_mav_settings *s, const hb_bridge_clock *clock, hb_error *err);
void hb_bridge_free(hb_bridge *b);

/* Waits a moment for the autopilot, unless the clock is a simulation's, and does what is due. Call it for ever. */
void hb_bridge_step(hb_bridge *b);
/* Why flying is not allowed, or NULL. */
const char *hb_bridge_obstacle(hb_bridge *b);
/* Whether setpoints of ours are in force, or may be: not the time to end. */
bool hb_bridge_responsible(const hb_bridge *b);
/* One line on how it is going. */
void hb_bridge_report(const hb_bridge *b);
/* What the waypoints ask of the vehicle, and of limits. */
void hb_bridge_describe_way(const hb_bridge *b, size_t size, char *ret);
/* What --check says. Returns whether flying would be allowed if it were in the air. */
bool hb_bridge_check_report(hb_bridge *b);

#endif
