/* A file of waypoints, flown one after the other: lines of
 *
 *     x y z [heading-in-degrees [seconds-to-stay]]         north, west, up, metres, from the autopilot's local origin
 *
 * and comments from # on. The target moves along the straight line between them at a constant speed, so that it is
 * never far ahead; it waits at a waypoint until the vehicle is near, and then for its time. */
#ifndef HB_MAVLINK_WAYPOINTS_H
#define HB_MAVLINK_WAYPOINTS_H

#include "base/base.h"
#include "mavlink/convert.h"

enum { HB_MAX_WAYPOINTS = 1000 };

typedef struct hb_waypoint {
    double position[3];
    double heading; /* rad */
    double stay;    /* seconds */
} hb_waypoint;

typedef struct hb_waypoints {
    int n;
    hb_waypoint at[HB_MAX_WAYPOINTS];
    double speed;  /* m/s */
    double radius; /* m: near enough */

    bool started;
    int next;             /* the one that is flown to; n: all are done */
    double target[3];     /* where the target is now */
    double arrived, last; /* seconds; arrived < 0: not yet */
} hb_waypoints;

/* Errors begin with path:line. */
int hb_waypoints_read(hb_waypoints *w, const char *path, hb_error *err);
/* The target at time `now` for a vehicle at x, as a state at rest. Begins at the vehicle's place. */
void hb_waypoints_target(hb_waypoints *w, double now, const double x[HB_NSTATE], double target[HB_NSTATE]);
/* Begins anew at the first waypoint. */
void hb_waypoints_restart(hb_waypoints *w);

#endif
