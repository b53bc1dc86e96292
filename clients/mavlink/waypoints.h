/* A file of waypoints, flown one after the other: lines of
 *
 *     x y z [heading-in-degrees [seconds-to-stay]]         north, west, up, metres, from the autopilot's local origin
 *
 * and comments from # on. The target moves along the straight line between them at a constant speed, so that it is
 * never far ahead; it waits at a waypoint until the vehicle is near or has passed it, and then for its time. What plans
 * see of the way beyond a waypoint pulls the vehicle round the corner: past it, or inside of it. So passed is what lies
 * on the next leg's side of the plane that halves the corner, and while the target waits, plans see nothing beyond. */
#ifndef HB_MAVLINK_WAYPOINTS_H
#define HB_MAVLINK_WAYPOINTS_H

#include "base/base.h"
#include "mavlink/convert.h"

enum { HB_MAX_WAYPOINTS = 1000, HB_WAYPOINT_ROWS = 12 /* 0.1 s apart */ };

typedef struct hb_waypoint {
    double position[3];
    double heading; /* rad */
    double stay;    /* seconds */
} hb_waypoint;

/* The target on its way. */
typedef struct hb_waypoint_target {
    int next;       /* waypoint that is flown to; n: all are done */
    double from[3]; /* where the way to it began */
    double position[3], velocity[3];
    double time, arrived; /* seconds; arrived < 0: not yet */
} hb_waypoint_target;

typedef struct hb_waypoints {
    int n;
    hb_waypoint at[HB_MAX_WAYPOINTS];
    double speed;  /* m/s */
    double radius; /* m: near enough */

    bool started;
    hb_waypoint_target target;
} hb_waypoints;

/* Errors begin with path:line. */
int hb_waypoints_read(hb_waypoints *w, const char *path, hb_error *err);
/* For a vehicle at x, the target at time `now` and at the moments after it that a plan looks at: states, and seconds
 * from now. Begins at the vehicle's place. */
void hb_waypoints_reference(hb_waypoints *w, double now, const double x[HB_NSTATE],
                            double row[HB_WAYPOINT_ROWS][HB_NSTATE], double time[HB_WAYPOINT_ROWS]);
/* The tilt, in radians, that the tightest turn of the way needs at its speed: that of the circle through three
 * waypoints in a row, in still air and without drag. ret_at: the waypoint in its middle, counted from 0. */
double hb_waypoints_tilt(const hb_waypoints *w, int *ret_at);
/* Begins anew at the first waypoint. */
void hb_waypoints_restart(hb_waypoints *w);

#endif
