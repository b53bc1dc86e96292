#include "mavlink/waypoints.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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
    FILE *file = fopen(path, "re");
    char line[256];
    int status = 0;

    if (!file)
        return hb_fail(err, errno, "%s: %s", path, strerror(errno));
    w->n = 0;
    for (int number = 1; !status && fgets(line, sizeof line, file); number++)
        status = read_line(path, number, line, w, err);
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

void hb_waypoints_target(hb_waypoints *w, double now, const double x[HB_NSTATE], double target[HB_NSTATE])
{
    const double here[3] = {x[HB_X], x[HB_Y], x[HB_Z]};

    if (!w->started) {
        memcpy(w->target, here, sizeof here);
        w->next = 0;
        w->arrived = -1;
        w->last = now;
        w->started = true;
    }
    double step = w->speed * (now - w->last);
    w->last = now;
    if (w->next < w->n) {
        const hb_waypoint *to = &w->at[w->next];
        double left = distance(to->position, w->target);
        for (int i = 0; i < 3; i++)
            w->target[i] =
                left <= step ? to->position[i] : w->target[i] + step * (to->position[i] - w->target[i]) / left;
        if (w->arrived < 0 && left <= step && distance(to->position, here) <= w->radius)
            w->arrived = now;
        if (w->arrived >= 0 && now - w->arrived >= to->stay) {
            w->next++;
            w->arrived = -1;
        }
    }
    double heading = w->at[w->next < w->n ? w->next : w->n - 1].heading;
    memset(target, 0, HB_NSTATE * sizeof *target);
    target[HB_X] = w->target[0];
    target[HB_Y] = w->target[1];
    target[HB_Z] = w->target[2];
    target[HB_QZ] = sin(heading / 2);
    target[HB_QW] = cos(heading / 2);
}
