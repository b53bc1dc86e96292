#include "mavlink/waypoints.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/yaml_file.h"

static int read_line(const char *path, int number, char *line, hb_waypoints *w, hb_error *err)
{
    double v[5] = {0};
    char rest[2];

    line[strcspn(line, "#\n\r")] = 0;
    int n = sscanf(line, "%lf %lf %lf %lf %lf %1s", &v[0], &v[1], &v[2], &v[3], &v[4], rest);
    if (n <= 0 && strspn(line, " \t") == strlen(line))
        return 0;
    if (n < 3 || n > 5)
        return hb_fail(err, EINVAL, "%s:%d: expected x y z [heading-in-degrees [seconds-to-stay]]", path, number);
    for (int i = 0; i < n; i++)
        if (!isfinite(v[i]) || fabs(v[i]) > 1e6)
            return hb_fail(err, EINVAL, "%s:%d: %g is no number of metres, degrees or seconds", path, number, v[i]);
    if (v[4] < 0)
        return hb_fail(err, EINVAL, "%s:%d: a stay of %g s is below 0", path, number, v[4]);
    if (w->n == HB_MAX_WAYPOINTS)
        return hb_fail(err, EINVAL, "%s:%d: more than %d waypoints", path, number, HB_MAX_WAYPOINTS);
    w->at[w->n++] = (hb_waypoint){{v[0], v[1], v[2]}, v[3] * M_PI / 180, v[4]};
    return 0;
}

int hb_waypoints_read(hb_waypoints *w, const char *path, hb_error *err)
{
    FILE *file;
    char line[256];
    int status = hb_open_regular(&file, path, err);

    if (status)
        return status;
    w->n = 0;
    for (int number = 1; !status && fgets(line, sizeof line, file); number++)
        /* the rest of a longer one would be taken for a line of its own */
        status = strlen(line) == sizeof line - 1 && line[sizeof line - 2] != '\n'
                     ? hb_fail(err, EINVAL, "%s:%d: longer than %zu characters", path, number, sizeof line - 2)
                     : read_line(path, number, line, w, err);
    if (!status && ferror(file))
        status = hb_fail(err, EIO, "%s: cannot be read", path);
    if (!status && w->n == 0)
        status = hb_fail(err, EINVAL, "%s: has no waypoint", path);
    fclose(file);
    hb_waypoints_restart(w);
    return status;
}

void hb_waypoints_restart(hb_waypoints *w)
{
    w->started = false;
}

static double distance(const double a[3], const double b[3])
{
    return sqrt((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) + (a[2] - b[2]) * (a[2] - b[2]));
}

/* b - a, of length one; zero when they are the same. */
static void direction(const double a[3], const double b[3], double ret[3])
{
    double length = distance(a, b);
    for (int i = 0; i < 3; i++)
        ret[i] = length > 0 ? (b[i] - a[i]) / length : 0;
}

double hb_waypoints_tilt(const hb_waypoints *w, int *ret_at)
{
    const double gravity = 9.81;
    double most = 0; /* 1 / m, of curvature */

    *ret_at = 0;
    for (int i = 1; i + 1 < w->n; i++) {
        const double *a = w->at[i - 1].position, *b = w->at[i].position, *c = w->at[i + 1].position;
        double ab = hypot(b[0] - a[0], b[1] - a[1]), bc = hypot(c[0] - b[0], c[1] - b[1]),
               ca = hypot(a[0] - c[0], a[1] - c[1]);
        double twice = fabs((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])); /* the triangle's area */
        double curvature = ab * bc * ca > 0 ? 2 * twice / (ab * bc * ca) : 0;
        /* where it stays there is no turn */
        if (w->at[i].stay == 0 && curvature > most) {
            most = curvature;
            *ret_at = i;
        }
    }
    return atan(w->speed * w->speed * most / gravity);
}

/* Whether a vehicle there is near enough to the waypoint that it flies to, or has passed it. */
static bool reached(const hb_waypoints *w, const double here[3])
{
    const hb_waypoint_target *t = &w->target;
    double in[3], out[3] = {0}, beyond = 0;

    if (t->next == w->n)
        return false;
    const double *at = w->at[t->next].position;
    if (distance(at, here) <= w->radius)
        return true;
    direction(t->from, at, in);
    if (t->next + 1 < w->n)
        direction(at, w->at[t->next + 1].position, out);
    /* straight back: there is no corner to halve */
    bool back = in[0] * out[0] + in[1] * out[1] + in[2] * out[2] < -0.99;
    for (int i = 0; i < 3; i++)
        beyond += (here[i] - at[i]) * (in[i] + (back ? 0 : out[i]));
    return beyond > 0;
}

/* The target moves on by dt seconds. arrives: whether the vehicle is near enough to the waypoint that it flies to. */
static void move(const hb_waypoints *w, hb_waypoint_target *t, double dt, bool arrives)
{
    double step = w->speed * dt;

    t->time += dt;
    memset(t->velocity, 0, sizeof t->velocity);
    if (t->next == w->n)
        return;
    const hb_waypoint *to = &w->at[t->next];
    double left = distance(to->position, t->position);
    for (int i = 0; i < 3; i++) {
        t->velocity[i] = left <= step ? 0 : w->speed * (to->position[i] - t->position[i]) / left;
        t->position[i] = left <= step ? to->position[i] : t->position[i] + dt * t->velocity[i];
    }
    if (t->arrived < 0 && left <= step && arrives)
        t->arrived = t->time;
    if (t->arrived >= 0 && t->time - t->arrived >= to->stay) {
        memcpy(t->from, to->position, sizeof t->from);
        t->next++;
        t->arrived = -1;
    }
}

static void tell(const hb_waypoints *w, const hb_waypoint_target *t, double row[HB_NSTATE])
{
    double heading = w->at[t->next < w->n ? t->next : w->n - 1].heading;

    memset(row, 0, HB_NSTATE * sizeof *row);
    for (int i = 0; i < 3; i++) {
        row[HB_X + 2 * i] = t->position[i];
        row[HB_VX + 2 * i] = t->velocity[i];
    }
    row[HB_QZ] = sin(heading / 2);
    row[HB_QW] = cos(heading / 2);
}

void hb_waypoints_reference(hb_waypoints *w, double now, const double x[HB_NSTATE],
                            double row[HB_WAYPOINT_ROWS][HB_NSTATE], double time[HB_WAYPOINT_ROWS])
{
    const double here[3] = {x[HB_X], x[HB_Y], x[HB_Z]}, part = 0.01;

    if (!w->started) {
        w->target = (hb_waypoint_target){.arrived = -1, .time = now};
        memcpy(w->target.position, here, sizeof here);
        memcpy(w->target.from, here, sizeof here);
        w->started = true;
    }
    hb_waypoint_target *t = &w->target;
    move(w, t, now - t->time, reached(w, here));

    /* where it will be if the vehicle keeps up; it did not where the target waits for it */
    hb_waypoint_target ahead = *t;
    bool waits = t->next < w->n && t->arrived < 0 && distance(w->at[t->next].position, t->position) == 0;
    for (int i = 0; i < HB_WAYPOINT_ROWS; i++) {
        time[i] = 0.1 * i;
        for (; ahead.time < t->time + time[i] - part / 2;)
            move(w, &ahead, part, !waits);
        tell(w, &ahead, row[i]);
    }
}
