#include "data/log_frames.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/blocks.h"

enum {
    AXES = 3,
    SIDES = 2 * AXES,
    READINGS = 48,
    FEWEST = 10 * HB_BLOCKS,
    QUATERNIONS = 4,
    TURNS = 3,
    UNITS = 3,
    DELAYS = 4
};

static const double apart = 0.04;       /* seconds between rows that are compared: beyond sensors' noise */
static const double farthest = 1;       /* radians between them that are still taken for a turn, not for a glitch */
static const double as_good = 3;        /* deviations within which the simpler reading is taken */
static const double at_most_left = 0.5; /* of what is to be explained */
static const double gravity = 9.81;
static const double rate_units[UNITS] = {1, 180 / M_PI, M_PI / 180}, velocity_units[UNITS] = {1, 1e-3, 1e3};
static const hb_axes as_given = {{0, 1, 2}, {1, 1, 1}};

/* Sums over a block of the products of [what is to be explained, by what]. */
typedef struct sums {
    double s[SIDES][SIDES];
} sums;

typedef struct tally {
    sums block[HB_BLOCKS];
} tally;

typedef struct columns {
    int p[AXES], v[AXES], q[4], w[AXES]; /* -1: it has none */
    bool attitude, motion, push;         /* what can be tested */
} columns;

/* One reading of one relation: which tally, which axes, which unit. */
typedef struct reading {
    int tally, axes, unit;
} reading;

/* --- axes --- */

/* All 48 ways to exchange and reverse axes; the first is as given. */
static hb_axes axes_at(int index)
{
    static const int order[6][AXES] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    hb_axes a;

    for (int i = 0; i < AXES; i++) {
        a.axis[i] = order[index / 8][i];
        a.sign[i] = index >> i & 1 ? -1 : 1;
    }
    return a;
}

/* First b, then a. */
static hb_axes after(hb_axes a, hb_axes b)
{
    hb_axes c;

    for (int i = 0; i < AXES; i++) {
        c.axis[i] = b.axis[a.axis[i]];
        c.sign[i] = a.sign[i] * b.sign[a.axis[i]];
    }
    return c;
}

static hb_axes inverse_of(hb_axes a)
{
    hb_axes b;

    for (int i = 0; i < AXES; i++) {
        b.axis[a.axis[i]] = i;
        b.sign[a.axis[i]] = a.sign[i];
    }
    return b;
}

static bool is_as_given(hb_axes a)
{
    return memcmp(&a, &as_given, sizeof a) == 0;
}

/* --- rows --- */

/* The quaternion of a row, x y z w, in one of four readings: bit 0 its real part is first, bit 1 it is the inverse. */
static void quaternion(const double *x, const int *at, int as, double *q)
{
    for (int i = 0; i < 4; i++)
        q[i] = x[at[as & 1 ? (i + 1) % 4 : i]];
    for (int i = 0; i < AXES && as & 2; i++)
        q[i] = -q[i];
}

/* v turned by q, or back */
static void turn(const double *q, bool back, const double *v, double *ret)
{
    double s = back ? -q[3] : q[3], t[AXES];

    for (int i = 0; i < AXES; i++) {
        int a = (i + 1) % AXES, b = (i + 2) % AXES;
        t[i] = 2 * (q[a] * v[b] - q[b] * v[a]);
    }
    for (int i = 0; i < AXES; i++) {
        int a = (i + 1) % AXES, b = (i + 2) % AXES;
        ret[i] = v[i] + s * t[i] + q[a] * t[b] - q[b] * t[a];
    }
}

/* The rate in the body with which q becomes `next`; false: too far. */
static bool turned(const double *q, const double *next, double seconds, double *ret)
{
    double r[4]; /* q* next */

    for (int i = 0; i < AXES; i++) {
        int a = (i + 1) % AXES, b = (i + 2) % AXES;
        r[i] = q[3] * next[i] - next[3] * q[i] - (q[a] * next[b] - q[b] * next[a]);
    }
    r[3] = q[3] * next[3] + q[0] * next[0] + q[1] * next[1] + q[2] * next[2];
    double length = sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2]), angle = 2 * atan2(length, fabs(r[3]));
    for (int i = 0; i < AXES; i++)
        ret[i] = length > 0 ? copysign(1, r[3]) * r[i] / length * angle / seconds : 0;
    return angle < farthest;
}

static void add(sums *to, const double *explain, const double *by)
{
    double row[SIDES];

    memcpy(row, explain, AXES * sizeof *row);
    memcpy(row + AXES, by, AXES * sizeof *row);
    for (int i = 0; i < SIDES; i++)
        for (int j = 0; j < SIDES; j++)
            to->s[i][j] += row[i] * row[j];
}

/* Two rows of an episode, `seconds` from each other, in a block. */
typedef struct pair {
    const double *x, *next, *u; /* u: in force from the first row on */
    size_t row, stride;         /* of the first in its episode; to the other */
    double seconds;
    int block;
} pair;

/* Calls `each` with all pairs of rows that are `apart`. Returns how many. */
static size_t for_pairs(const hb_dataset *d, void *context, void (*each)(void *context, const pair *p))
{
    size_t nx = (size_t)d->header.nx, nu = (size_t)d->header.nu, n = 0, at = 0;
    size_t stride = (size_t)fmax(1, round(apart / d->header.dt));

    for (int e = 0; e < d->nepisodes; at += (size_t)d->episode[e++].nsteps)
        for (size_t k = 0; k + stride <= (size_t)d->episode[e].nsteps; k++) {
            const hb_episode *of = &d->episode[e];
            pair p = {.x = of->x + k * nx,
                      .next = of->x + (k + stride) * nx,
                      .u = of->u ? of->u + k * nu : NULL,
                      .row = k,
                      .stride = stride};
            for (size_t i = 0; i < stride; i++)
                p.seconds += hb_episode_dt(d, of, (int)(k + i));
            p.block = (int)((at + k) * HB_BLOCKS / d->ntransitions);
            each(context, &p);
            n++;
        }
    return n;
}

/* --- attitude and rates --- */

typedef struct attitude {
    const columns *c;
    tally t[QUATERNIONS][TURNS]; /* rates as the body's, the world's, the body's turned once too often */
} attitude;

static void add_attitude(void *context, const pair *p)
{
    attitude *a = context;
    double rate[AXES];

    for (int i = 0; i < AXES; i++)
        rate[i] = (p->x[a->c->w[i]] + p->next[a->c->w[i]]) / 2;
    for (int k = 0; k < QUATERNIONS; k++) {
        double q[4], next[4], body[AXES], other[AXES];
        quaternion(p->x, a->c->q, k, q);
        quaternion(p->next, a->c->q, k, next);
        if (!turned(q, next, p->seconds, body))
            continue;
        add(&a->t[k][0].block[p->block], rate, body);
        turn(next, false, body, other);
        add(&a->t[k][1].block[p->block], rate, other);
        turn(next, true, body, other);
        add(&a->t[k][2].block[p->block], rate, other);
    }
}

/* --- which reading is best --- */

/* What a reading leaves of a block, as a share: sum of |explain - by|^2 over that of |explain|^2 + |by|^2, so that
 * noise of either, or a block with a crash, counts no more than another one. */
static double left(const sums *s, hb_axes a, double unit)
{
    double both = 0, all = 0;

    for (int i = 0; i < AXES; i++) {
        int j = AXES + a.axis[i];
        both += unit * a.sign[i] * s->s[i][j];
        all += s->s[i][i] + unit * unit * s->s[j][j];
    }
    return all > 0 ? 1 - 2 * both / all : 1;
}

static void left_of_all(const tally *t, const reading *r, const double *unit, double *ret)
{
    for (int b = 0; b < HB_BLOCKS; b++)
        ret[b] = left(&t[r->tally].block[b], axes_at(r->axes), unit[r->unit]);
}

static double sum_of(const double *value)
{
    double sum = 0;

    for (int b = 0; b < HB_BLOCKS; b++)
        sum += value[b];
    return sum;
}

static int changes(const reading *r)
{
    hb_axes a = axes_at(r->axes);
    int n = (r->tally / TURNS & 1) + (r->tally / TURNS >> 1) + (r->tally % TURNS != 0) + (r->unit != 0);

    for (int i = 0; i < AXES; i++)
        n += a.axis[i] != i || a.sign[i] < 0;
    return n;
}

/* How many deviations `a` leaves less than b. */
static double better(const tally *t, const double *unit, const reading *a, const reading *b)
{
    double one[HB_BLOCKS], other[HB_BLOCKS];

    left_of_all(t, a, unit, one);
    left_of_all(t, b, unit, other);
    for (int k = 0; k < HB_BLOCKS; k++)
        other[k] -= one[k];
    return hb_blocks_deviations(other);
}

/* The reading to take; true: it is another one than what is given, beyond doubt. */
static bool choose(const tally *t, int ntallies, const double *unit, reading *ret)
{
    const reading given = {0, 0, 0};
    reading best = given;
    double least = INFINITY, value[HB_BLOCKS];

    *ret = given;
    for (reading r = given; r.tally < ntallies; r.tally++)
        for (r.axes = 0; r.axes < READINGS; r.axes++)
            for (r.unit = 0; r.unit < UNITS; r.unit++) {
                left_of_all(t, &r, unit, value);
                if (sum_of(value) < least) {
                    least = sum_of(value);
                    best = r;
                }
            }
    if (!(least < at_most_left * HB_BLOCKS) || !(better(t, unit, &best, &given) > hb_beyond_doubt))
        return false;
    int fewest = changes(&best);
    *ret = best;
    for (reading r = given; r.tally < ntallies; r.tally++)
        for (r.axes = 0; r.axes < READINGS; r.axes++)
            for (r.unit = 0; r.unit < UNITS; r.unit++) {
                left_of_all(t, &r, unit, value);
                if (changes(&r) < fewest && sum_of(value) < 2 * least && better(t, unit, &best, &r) < as_good) {
                    fewest = changes(&r);
                    *ret = r;
                }
            }
    return true;
}

/* --- positions and velocities --- */

typedef struct motion {
    const columns *c;
    int quaternion;
    tally t[2]; /* velocities as the world's, as the body's */
} motion;

static void add_motion(void *context, const pair *p)
{
    motion *m = context;
    double slope[AXES], v[AXES], q[4], world[AXES];

    for (int i = 0; i < AXES; i++) {
        slope[i] = (p->next[m->c->p[i]] - p->x[m->c->p[i]]) / p->seconds;
        v[i] = (p->x[m->c->v[i]] + p->next[m->c->v[i]]) / 2;
    }
    add(&m->t[0].block[p->block], slope, v);
    if (!m->c->attitude)
        return;
    quaternion(p->x, m->c->q, m->quaternion, q);
    turn(q, false, v, world);
    add(&m->t[1].block[p->block], slope, world);
}

/* --- accelerations and tilt --- */

/* Sums over a block: what pushes along the body's z, the thrust, their squares and product. */
typedef struct lift {
    double n, along, force, along2, force2, both;
} lift;

typedef struct push {
    const columns *c;
    int quaternion;
    bool body_velocity, thrust; /* the controls are forces of rotors */
    hb_axes velocity;           /* what the slope of the position is of the log's velocity */
    double unit;
    size_t nu;
    tally t;              /* horizontal acceleration, by gravity times tilt */
    double height, above; /* sums: position's z, the body's z along the world's */
    hb_axes horizontal;   /* what the tilt pushes along */
    lift lift[2][DELAYS]
             [HB_BLOCKS]; /* with up along the position's z, or against it; thrusts by so many pairs earlier */
} push;

static void slope_of(const push *m, const double *x, const double *q, double *ret)
{
    double given[AXES], turned[AXES];

    for (int i = 0; i < AXES; i++)
        given[i] = x[m->c->v[i]];
    turn(q, false, given, turned);
    for (int i = 0; i < AXES; i++)
        ret[i] = m->unit * m->velocity.sign[i] * (m->body_velocity ? turned : given)[m->velocity.axis[i]];
}

/* The acceleration between two rows, and the body's z along the position's axes, if they are the attitude's. */
static void acceleration(const push *m, const pair *p, double *ret, double *tilt)
{
    const double z[AXES] = {0, 0, 1};
    double q[4], next[4], v[AXES], v_next[AXES], tilt_next[AXES];

    quaternion(p->x, m->c->q, m->quaternion, q);
    quaternion(p->next, m->c->q, m->quaternion, next);
    slope_of(m, p->x, q, v);
    slope_of(m, p->next, next, v_next);
    turn(q, false, z, tilt);
    turn(next, false, z, tilt_next);
    for (int i = 0; i < AXES; i++) {
        ret[i] = (v_next[i] - v[i]) / p->seconds;
        tilt[i] = (tilt[i] + tilt_next[i]) / 2;
    }
}

static void add_push(void *context, const pair *p)
{
    push *m = context;
    double a[AXES], tilt[AXES];

    acceleration(m, p, a, tilt);
    m->height += m->c->p[2] >= 0 ? p->x[m->c->p[2]] : 0;
    m->above += tilt[2];
    for (int i = 0; i < AXES; i++)
        tilt[i] *= gravity;
    a[2] = tilt[2] = 0;
    add(&m->t.block[p->block], a, tilt);
}

/* Thrust, and what pushes along the body's z when up is one way or the other. */
static void add_lift(void *context, const pair *p)
{
    push *m = context;
    double a[AXES], tilt[AXES], sideways = 0;

    acceleration(m, p, a, tilt);
    for (int i = 0; i < 2; i++)
        sideways += a[i] * m->horizontal.sign[i] * tilt[m->horizontal.axis[i]];
    for (int down = 0; down < 2; down++)
        for (size_t k = 0; k < DELAYS && k * p->stride <= p->row; k++) {
            double force = 0, along = sideways + ((down ? -a[2] : a[2]) + gravity) * fabs(tilt[2]);
            for (size_t i = 0; i < m->nu; i++)
                force += (p->u - k * p->stride * m->nu)[i];
            lift *l = &m->lift[down][k][p->block];
            l->n++;
            l->along += along;
            l->force += force;
            l->along2 += along * along;
            l->force2 += force * force;
            l->both += along * force;
        }
}

static double correlation(const lift *l)
{
    double both = l->n * l->both - l->along * l->force, along = l->n * l->along2 - l->along * l->along,
           force = l->n * l->force2 - l->force * l->force;
    return along > 0 && force > 0 ? both / sqrt(along * force) : 0;
}

/* Which way is up along the position's z: 1, or -1; 0: the thrust does not tell. By the delay that tells most. */
static int told_by_thrust(const push *m)
{
    double most = 0;

    for (int k = 0; k < DELAYS; k++) {
        double value[HB_BLOCKS];
        for (int b = 0; b < HB_BLOCKS; b++)
            value[b] = correlation(&m->lift[0][k][b]) - correlation(&m->lift[1][k][b]);
        double sure = hb_blocks_deviations(value);
        most = fabs(sure) > fabs(most) ? sure : most;
    }
    return fabs(most) < hb_beyond_doubt ? 0 : most > 0 ? 1 : -1;
}

static bool is_thrust(const hb_dataset_header *h)
{
    for (int i = 1; i < h->nu; i++)
        if (strcmp(h->control_unit[i], h->control_unit[0]) != 0)
            return false;
    return h->nu > 0;
}

/* --- all together --- */

static const hb_axes down = {{0, 1, 2}, {1, -1, -1}};

/* The log's attitude, position and body in terms of each other, from how the tilt acts: `horizontal` times gravity
 * times the body's z, with `up` along the position's z, is the acceleration. Frames are right-handed. */
static void solve(hb_frames *f, hb_axes horizontal, int up, bool above, hb_axes velocity, hb_axes rates)
{
    int det = (horizontal.axis[0] == 0 ? 1 : -1) * horizontal.sign[0] * horizontal.sign[1];
    int along = up * (above ? 1 : -1) * det; /* of the thrust, along the body's z */
    hb_axes from_attitude = {{horizontal.axis[0], horizontal.axis[1], 2},
                             {along * horizontal.sign[0], along * horizontal.sign[1], det}};

    f->body_down = along < 0;
    f->world_down = up * det < 0;
    if (is_as_given(horizontal) && above && up < 0) { /* z alone is reversed */
        f->body_down = f->world_down = false;
        from_attitude = (hb_axes){{0, 1, 2}, {1, 1, -1}};
    }
    f->position = inverse_of(from_attitude);
    if (f->world_down)
        f->position = after(down, f->position);
    f->velocity = after(f->position, velocity);
    f->rates = inverse_of(rates);
    if (f->world_rates ? f->world_down : f->body_down)
        f->rates = after(down, f->rates);
}

/* Where the parts of the right quaternion are in the log's. */
static void solve_quaternion(hb_frames *f)
{
    for (int i = 0; i < 4; i++) {
        f->quaternion[i] = f->real_first ? (i + 1) % 4 : i;
        f->quaternion_sign[i] = f->inverse && i < AXES ? -1 : 1;
    }
    /* times half a turn about x: of the world before it, of the body behind it */
    for (int side = 0; side < 2; side++) {
        static const int part[4] = {3, 2, 1, 0}, sign[2][4] = {{1, -1, 1, -1}, {1, 1, -1, -1}};
        int axis[4], before[4];
        if (!(side ? f->body_down : f->world_down))
            continue;
        memcpy(axis, f->quaternion, sizeof axis);
        memcpy(before, f->quaternion_sign, sizeof before);
        for (int i = 0; i < 4; i++) {
            f->quaternion[i] = axis[part[i]];
            f->quaternion_sign[i] = sign[side][i] * before[part[i]];
        }
    }
    bool negative = f->quaternion_sign[3] < 0; /* q and -q are the same */
    for (int i = 0; i < 4 && negative; i++)
        f->quaternion_sign[i] *= -1;
}

static int look(hb_frames *f, const hb_dataset *d, const columns *c, attitude *a, motion *m, push *p)
{
    reading rates = {0, 0, 0}, velocity = {0, 0, 0}, tilt = {0, 0, 0};
    static const double one[UNITS] = {1, 1, 1};
    size_t n = 0;
    int up = 1;
    bool above = true;

    a->c = m->c = p->c = c;
    if (c->attitude) {
        n = for_pairs(d, a, add_attitude);
        f->attitude_wrong = choose(a->t[0], QUATERNIONS * TURNS, rate_units, &rates);
    }
    p->quaternion = m->quaternion = rates.tally / TURNS;
    if (c->motion) {
        n = for_pairs(d, m, add_motion);
        f->motion_wrong = choose(m->t, c->attitude ? 2 : 1, velocity_units, &velocity);
    }
    f->real_first = m->quaternion & 1;
    f->inverse = m->quaternion & 2;
    f->world_rates = rates.tally % TURNS == 1;
    f->turned_rates = rates.tally % TURNS == 2;
    f->body_velocity = velocity.tally == 1;
    f->rate_unit = rate_units[rates.unit];
    f->velocity_unit = 1 / velocity_units[velocity.unit];
    if (c->push) {
        p->body_velocity = f->body_velocity;
        p->velocity = axes_at(velocity.axes);
        p->unit = velocity_units[velocity.unit];
        p->nu = (size_t)d->header.nu;
        p->thrust = is_thrust(&d->header);
        n = for_pairs(d, p, add_push);
        f->push_wrong = choose(&p->t, 1, one, &tilt);
        above = p->above > -0.5 * (double)n;
        p->horizontal = axes_at(tilt.axes);
        if (p->thrust)
            for_pairs(d, p, add_lift);
        up = told_by_thrust(p);
        f->push_wrong = f->push_wrong || up < 0 || !above;
        if (up == 0)
            up = f->push_wrong && p->height < 0 ? -1 : 1;
    }
    solve(f, axes_at(tilt.axes), up, above, axes_at(velocity.axes), axes_at(rates.axes));
    solve_quaternion(f);
    return n < FEWEST ? -ENODATA : 0;
}

int hb_frames_find(hb_frames *ret, const hb_dataset *d, hb_error *err)
{
    columns c;
    hb_frames found = {0};
    attitude *a = calloc(1, sizeof *a);
    motion *m = calloc(1, sizeof *m);
    push *p = calloc(1, sizeof *p);
    bool at_place = hb_dataset_states(d, (const char *const[]){"x", "y", "z"}, AXES, c.p);
    bool moves = hb_dataset_states(d, (const char *const[]){"vx", "vy", "vz"}, AXES, c.v);
    bool held = hb_dataset_states(d, (const char *const[]){"qx", "qy", "qz", "qw"}, 4, c.q);
    bool turns = hb_dataset_states(d, (const char *const[]){"wx", "wy", "wz"}, AXES, c.w);
    int status = -ENODATA;

    c.attitude = held && turns;
    c.motion = at_place && moves;
    c.push = c.attitude && moves;
    if (!a || !m || !p)
        status = -ENOMEM;
    else if ((c.attitude || c.motion) && !d->stream)
        status = look(&found, d, &c, a, m, p);
    if (!status)
        *ret = found;
    free(a);
    free(m);
    free(p);
    return status ? hb_fail(err, -status, "%s", status == -ENODATA ? "nothing to compare" : "out of memory") : 0;
}
