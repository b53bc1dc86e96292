#include "data/headings.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int find(int nx, char (*state_name)[HB_NAME_SIZE], const char *wanted)
{
    for (int i = 0; i < nx; i++)
        if (strcmp(state_name[i], wanted) == 0)
            return i;
    return -1;
}

int hb_headings_of(hb_headings *ret, int nx, char (*state_name)[HB_NAME_SIZE], hb_error *err)
{
    static const char *const pair[2][2] = {{"x", "y"}, {"vx", "vy"}}, *const quaternion[4] = {"qx", "qy", "qz", "qw"};
    hb_headings h;

    if (nx > HB_HEADINGS_STATES)
        return hb_fail(err, EINVAL, "headings: for %d states at most, not %d", HB_HEADINGS_STATES, nx);
    for (int i = 0; i < 4; i++)
        if ((h.quaternion[i] = find(nx, state_name, quaternion[i])) < 0)
            return hb_fail(err, EINVAL,
                           "headings: there is no state '%s': an attitude qx, qy, qz, qw is turned, and "
                           "vx, vy and x, y with it",
                           quaternion[i]);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2; k++)
            h.pair[i][k] = find(nx, state_name, pair[i][k]);
        if ((h.pair[i][0] < 0) != (h.pair[i][1] < 0) || (i == 1 && h.pair[i][0] < 0))
            return hb_fail(err, EINVAL, "headings: there is no state '%s' to be turned with the attitude",
                           pair[i][h.pair[i][0] < 0 ? 0 : 1]);
    }
    *ret = h;
    return 0;
}

/* (x, y) turned about z */
static void turn_pair(double c, double s, double *x, double *y)
{
    const double a = c * *x - s * *y, b = s * *x + c * *y;
    *x = a;
    *y = b;
}

void hb_headings_turn(const hb_headings *h, double angle, double *x)
{
    const int *q = h->quaternion;

    for (int i = 0; i < 2; i++)
        if (h->pair[i][0] >= 0)
            turn_pair(cos(angle), sin(angle), &x[h->pair[i][0]], &x[h->pair[i][1]]);
    /* (0, 0, sin, cos) of half the angle, times q */
    turn_pair(cos(angle / 2), sin(angle / 2), &x[q[0]], &x[q[1]]);
    turn_pair(cos(angle / 2), sin(angle / 2), &x[q[3]], &x[q[2]]);
}

void hb_headings_take_sign(const hb_headings *h, const double *last, double *x)
{
    double along = last ? 0 : x[h->quaternion[3]];

    for (int i = 0; i < 4 && last; i++)
        along += last[h->quaternion[i]] * x[h->quaternion[i]];
    for (int i = 0; i < 4 && along < 0; i++)
        x[h->quaternion[i]] *= -1;
}

int hb_headings_turned(hb_dataset *ret, const hb_dataset *d, const int *function, int nfunctions, double angle,
                       hb_error *err)
{
    hb_headings h;
    size_t nx = (size_t)d->header.nx, rows = 0;
    int status = hb_headings_of(&h, d->header.nx, d->header.state_name, err), n = function ? nfunctions : d->nfunctions;

    if (status)
        return status;
    for (int k = 0; k < n; k++) {
        const hb_function *f = &d->function[function ? function[k] : k];
        for (int e = 0; e < f->nepisodes; e++)
            rows += (size_t)d->episode[f->episode + e].nsteps + 1;
    }
    /* the first episode that is turned has the start of the memory, behind the episodes themselves */
    hb_episode *episode = calloc((size_t)d->nepisodes, sizeof *episode);
    double *x = calloc(rows * nx + 1, sizeof *x);
    if (!episode || !x) {
        free(episode);
        free(x);
        return hb_fail(err, ENOMEM, "out of memory");
    }
    memcpy(episode, d->episode, (size_t)d->nepisodes * sizeof *episode);
    *ret = *d;
    ret->episode = episode;
    ret->turned = x;
    for (int k = 0; k < n; k++) {
        const hb_function *f = &d->function[function ? function[k] : k];
        for (int e = 0; e < f->nepisodes; e++) {
            hb_episode *of = &episode[f->episode + e];
            memcpy(x, of->x, ((size_t)of->nsteps + 1) * nx * sizeof *x);
            of->x = x;
            of->stream = NULL;
            for (int row = 0; row <= of->nsteps; row++, x += nx) {
                hb_headings_turn(&h, angle, x);
                hb_headings_take_sign(&h, NULL, x);
            }
        }
    }
    return 0;
}

void hb_headings_free_turned(hb_dataset *d)
{
    free(d->episode);
    free(d->turned);
}

static double second_moment(const double *mean, const double *std, int i, int k)
{
    return mean[i] * mean[i] + std[i] * std[i] + mean[k] * mean[k] + std[k] * std[k];
}

/* a vector that points anywhere has half its square along each axis */
static void spread_pair(int i, int k, double *mean, double *std)
{
    const double half = sqrt(second_moment(mean, std, i, k) / 2);

    mean[i] = mean[k] = 0;
    std[i] = std[k] = half;
}

void hb_headings_spread(const hb_headings *h, double *mean, double *std)
{
    const int *q = h->quaternion;

    for (int i = 0; i < 2; i++)
        if (h->pair[i][0] >= 0)
            spread_pair(h->pair[i][0], h->pair[i][1], mean, std);
    spread_pair(q[0], q[1], mean, std);
    spread_pair(q[2], q[3], mean, std);
    /* the mean of a cosine between -pi/2 and pi/2 is 2 / pi, of its square 1/2 */
    mean[q[3]] = M_SQRT2 * std[q[3]] * 2 / M_PI;
    std[q[3]] = sqrt(std[q[3]] * std[q[3]] - mean[q[3]] * mean[q[3]]);
}

double hb_headings_alike(const hb_headings *h, const hb_dataset *d)
{
    const int *q = h->quaternion;
    double along = 0, across = 0, count = 0;

    for (int k = 0; k < d->nepisodes; k++)
        for (int row = 0; row <= d->episode[k].nsteps; row++, count++) {
            const double *x = d->episode[k].x + (size_t)row * (size_t)d->header.nx;
            double forward = 1 - 2 * (x[q[1]] * x[q[1]] + x[q[2]] * x[q[2]]);
            double left = 2 * (x[q[0]] * x[q[1]] + x[q[3]] * x[q[2]]), length = hypot(forward, left);
            along += length > 0 ? forward / length : 0;
            across += length > 0 ? left / length : 0;
        }
    return hypot(along, across) / fmax(count, 1);
}
