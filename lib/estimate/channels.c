/* Odds of a channel's being wrong; the hypotheses: channels.h. */
#include "estimate/channels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/batch.h"
#include "estimate/constants.h"

static const double pi = 3.14159265358979323846;

enum {
    PROBES = 3,  /* states at which kinematics are read off the nominal physics */
    STATES = 64, /* of a model with nominal physics, at most */
};

void hb_channels_lay_out(hb_channels *c, const hb_model *m, hb_arena *arena)
{
    size_t nx = (size_t)m->nx;

    c->nx = m->nx;
    c->noise = hb_arena_take(arena, nx, sizeof *c->noise);
    c->spread = hb_arena_take(arena, nx, sizeof *c->spread);
    c->value = hb_arena_take(arena, nx, sizeof *c->value);
    c->rate = hb_arena_take(arena, nx, sizeof *c->rate);
    c->pair = hb_arena_take(arena, nx, sizeof *c->pair);
    c->asked = hb_arena_take(arena, nx, sizeof *c->asked);
    c->x = hb_arena_take(arena, nx, sizeof *c->x);
    c->start = hb_arena_take(arena, nx, sizeof *c->start);
    c->integral = hb_arena_take(arena, nx, sizeof *c->integral);
    c->uncertain = hb_arena_take(arena, nx, sizeof *c->uncertain);
    c->rate_noise = hb_arena_take(arena, nx, sizeof *c->rate_noise);
    c->change = hb_arena_take(arena, nx, sizeof *c->change);
    c->moved_us = hb_arena_take(arena, nx, sizeof *c->moved_us);
    c->asked_x = hb_arena_take(arena, nx, sizeof *c->asked_x);
    c->wrong = hb_arena_take(arena, nx, sizeof *c->wrong);
}

/* ---- kinematics of the nominal physics ---- */

/* The field at a state that is different for each probe; the quaternion, if any, is `level`. */
static void probe(const hb_model *m, int q, bool level, int number, double *x, double *xdot)
{
    _Alignas(HB_ALIGNMENT) hb_real batch[STATES * HB_STRIDE] = {0}, out[STATES * HB_STRIDE],
                                                  u[HB_MAX_CONTROLS * HB_STRIDE] = {0};

    for (int i = 0; i < m->nx; i++)
        x[i] = m->state_mean[i] + m->state_std[i] * sin(1.7 * i + 2.3 * number + 0.4);
    for (int i = 0; q >= 0 && i < 4; i++)
        x[q + i] = level ? i == 3 : 0.5 * (i == number ? -1 : 1);
    for (int s = 0; s < HB_LANES; s++) {
        for (int i = 0; i < m->nx; i++)
            batch[i * HB_STRIDE + s] = (hb_real)x[i];
        for (int i = 0; i < m->nu; i++)
            u[i * HB_STRIDE + s] = (hb_real)m->control_trim[i];
    }
    /* set-up: what expressions work in may be allocated; without it nothing is found */
    hb_real *scratch = aligned_alloc(HB_ALIGNMENT, (size_t)(m->nominal->rows + 1) * HB_STRIDE * sizeof *scratch);
    if (scratch)
        m->nominal->field(m->nominal, m->nominal_parameter, 1, batch, u, out, scratch);
    for (int i = 0; i < m->nx; i++)
        xdot[i] = scratch ? (double)out[i * HB_STRIDE] : NAN;
    free(scratch);
}

static bool same(double a, double b)
{
    return fabs(a - b) <= 1e-4 * (fabs(a) + fabs(b)) + 1e-6;
}

/* The state that is the rate of change of state i, times `factor`, at all probes; -1: there is none. */
static int rate_of(const hb_model *m, int q, bool level, int i, double factor)
{
    double x[STATES], xdot[STATES];
    bool candidate[STATES];

    for (int j = 0; j < m->nx; j++)
        candidate[j] = j != i;
    for (int number = 0; number < PROBES; number++) {
        probe(m, q, level, number, x, xdot);
        for (int j = 0; j < m->nx; j++)
            candidate[j] = candidate[j] && same(xdot[i], factor * x[j]);
    }
    for (int j = 0; j < m->nx; j++)
        if (candidate[j])
            return j;
    return -1;
}

/* The body rates behind a quaternion: at q = (0, 0, 0, 1) its rate of change is (w, 0) / 2, and q (0, w) / 2 anywhere.
 */
static bool find_rates(const hb_model *m, int q, int w[3])
{
    double x[STATES], xdot[STATES];

    for (int a = 0; a < 3; a++)
        if ((w[a] = rate_of(m, q, true, q + a, 0.5)) < 0)
            return false;
    for (int number = 0; number < PROBES; number++) {
        probe(m, q, false, number, x, xdot);
        const double *at = x + q, wx = x[w[0]], wy = x[w[1]], wz = x[w[2]];
        if (!same(2 * xdot[q], at[3] * wx + at[1] * wz - at[2] * wy) ||
            !same(2 * xdot[q + 1], at[3] * wy + at[2] * wx - at[0] * wz) ||
            !same(2 * xdot[q + 2], at[3] * wz + at[0] * wy - at[1] * wx))
            return false;
    }
    return true;
}

/* Noise of a state, in deviations of the trained ones. Where physics is exact, training leaves nothing, which tells
 * nothing about sensors: they are taken to be like the others. */
static double noise_of(const hb_model *m, int state)
{
    double sum = 0;
    int count = 0;

    if (!m->has_prior)
        return HB_CHANNEL_NOISE;
    if (m->output[state])
        return m->noise[state];
    for (int i = 0; i < m->nx; i++)
        if (m->output[i]) {
            sum += m->noise[i];
            count++;
        }
    return sum / count;
}

void hb_channels_find(hb_channels *c, const hb_model *m)
{
    const int q = hb_model_quaternion(m);
    const bool nominal = m->average == HB_AVERAGE_NOMINAL && m->nx <= STATES && m->nu <= HB_MAX_CONTROLS;
    int w[3];

    c->block = HB_CHANNEL_PERIODS * m->dt;
    c->told = m->has_prior;
    c->quaternion = -1;
    c->npairs = 0;
    for (int i = 0; i < m->nx; i++) {
        c->spread[i] = m->state_std[i];
        c->noise[i] = noise_of(m, i) * m->state_std[i];
    }
    for (int i = 0; nominal && i < m->nx; i++) {
        /* an angle may leap by a turn */
        int j = m->angle[i] || (q >= 0 && i >= q && i < q + 4) ? -1 : rate_of(m, q, false, i, 1);
        if (j < 0)
            continue;
        c->value[c->npairs] = i;
        c->rate[c->npairs++] = j;
    }
    if (nominal && q >= 0 && c->npairs + 3 <= m->nx && find_rates(m, q, w)) {
        /* an axis of the body is any of the quaternion's elements, as the vehicle turns */
        double most = fmax(fmax(c->noise[q], c->noise[q + 1]), fmax(c->noise[q + 2], c->noise[q + 3]));
        c->quaternion = q;
        for (int i = 0; i < 4; i++)
            c->noise[q + i] = most;
        for (int a = 0; a < 3; a++) {
            c->value[c->npairs] = q + a;
            c->rate[c->npairs++] = w[a];
        }
    }
    hb_channels_reset(c);
}

/* ---- odds ---- */

static const hb_channel_odds unsuspected = {.log_odds = HB_NONE, .now = HB_NONE};

void hb_channels_reset(hb_channels *c)
{
    c->begun = c->pending = false;
    for (int i = 0; i < c->nx; i++) {
        c->pair[i] = c->asked[i] = unsuspected;
        c->wrong[i] = 0;
    }
}

/* Blocks that noise counts for beforehand; a guess counts for one. */
static double known_blocks(const hb_channels *c)
{
    return c->told ? HB_FILE_BLOCKS : 1;
}

/* Of this vehicle, relative to the file's, or to what was guessed. */
static double more_noise(const hb_channels *c, const hb_channel_odds *o)
{
    const double more = (known_blocks(c) + o->squares) / (known_blocks(c) + o->blocks);

    return c->told ? fmax(1, more) : more; /* a guess may be too much */
}

/* log of Gamma(x + 1/2) / Gamma(x), x >= 1/2, to 2e-5: Stirling's series at x + 2, and from there down. */
static double log_gamma_step(double x)
{
    const double y = x + 2, down = x * (x + 1) / ((x + 0.5) * (x + 1.5));

    return log(down * down * y) / 2 - 1 / (8 * y) + 1 / (192 * y * y * y);
}

/* How much more likely r is if the channel is wrong than if it is right, as a logarithm. */
static double evidence(const hb_channels *c, const hb_channel_odds *o, double r, double noise, double motion,
                       double unrelated)
{
    const double freedom = known_blocks(c) + o->blocks, s = more_noise(c, o) * noise + motion;
    const double right =
        log_gamma_step(freedom / 2) - log(freedom * pi * s) / 2 - (freedom + 1) / 2 * log1p(r * r / (freedom * s));
    const double wide = s + 2 * unrelated, wrong = -log(2 * pi * wide) / 2 - r * r / (2 * wide);

    return wrong - right;
}

static double bounded(double log_odds)
{
    return fmin(fmax(log_odds, log(HB_CHANNEL_FAILS)), -log(HB_CHANNEL_FAILS));
}

/* A whole block: its evidence stays, and while the channel is right its residual tells of the vehicle's noise: what of
 * its square is expected to be noise, and not motion between samples. */
static void keep(const hb_channels *c, hb_channel_odds *o, double r, double noise, double motion, bool hangs)
{
    const double own = more_noise(c, o) * noise, share = own / (own + motion);

    o->log_odds = o->now;
    /* a guess would be learned away by what hangs from the beginning */
    if (o->now > 0 || (hangs && !c->told))
        return;
    o->squares += (share * share * r * r + share * motion) / noise;
    o->blocks += 1;
    const double most = HB_SLOW_MEMORY / c->block;
    if (o->blocks > most) {
        o->squares *= most / o->blocks;
        o->blocks = most;
    }
}

static double probability(double log_odds)
{
    return 1 / (1 + exp(-log_odds));
}

/* ---- samples ---- */

/* p = p turned by the rotation vector v (body axes) */
static void turn(double p[4], const double v[3])
{
    const double angle = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    const double s = angle > 1e-9 ? sin(angle / 2) / angle : 0.5, w = cos(angle / 2);
    const double x = s * v[0], y = s * v[1], z = s * v[2];
    const double r[4] = {p[3] * x + p[0] * w + p[1] * z - p[2] * y, p[3] * y + p[1] * w + p[2] * x - p[0] * z,
                         p[3] * z + p[2] * w + p[0] * y - p[1] * x, p[3] * w - p[0] * x - p[1] * y - p[2] * z};

    memcpy(p, r, sizeof r);
}

/* The rotation from attitude p to attitude q, as twice the vector part: body axes. */
static void between(const double p[4], const double *q, double ret[3])
{
    const double w = p[3] * q[3] + p[0] * q[0] + p[1] * q[1] + p[2] * q[2], sign = w < 0 ? -2 : 2;

    ret[0] = sign * (p[3] * q[0] - p[0] * q[3] - p[1] * q[2] + p[2] * q[1]);
    ret[1] = sign * (p[3] * q[1] - p[1] * q[3] - p[2] * q[0] + p[0] * q[2]);
    ret[2] = sign * (p[3] * q[2] - p[2] * q[3] - p[0] * q[1] + p[1] * q[0]);
}

static bool of_rotation(const hb_channels *c, int pair)
{
    return c->quaternion >= 0 && c->value[pair] >= c->quaternion && c->value[pair] < c->quaternion + 3;
}

static void start_block(hb_channels *c)
{
    c->whole = false;
    c->start_us = c->time_us;
    memcpy(c->start, c->x, (size_t)c->nx * sizeof *c->start);
    for (int i = 0; i < c->npairs; i++)
        c->integral[i] = c->uncertain[i] = c->rate_noise[i] = 0;
    if (c->quaternion >= 0)
        memcpy(c->turned, c->x + c->quaternion, sizeof c->turned);
}

/* The rates between the last sample and x: their mean, give or take the moment at which they changed. */
static void integrate(hb_channels *c, const double *x, double dt)
{
    double by[3];

    for (int i = 0; i < c->npairs; i++) {
        const double before = c->x[c->rate[i]], after = x[c->rate[i]];
        /* at a turn it hardly changes from one sample to the next, and did before */
        const double most = fmax(fabs(after - before), fabs(c->change[i])) * dt;
        const double mean = (before + after) / 2 * dt;
        c->integral[i] += mean;
        c->change[i] = after - before;
        c->uncertain[i] += most * most / 12;
        c->rate_noise[i] += c->noise[c->rate[i]] * c->noise[c->rate[i]] * dt * dt;
        if (of_rotation(c, i))
            by[c->value[i] - c->quaternion] = mean;
    }
    if (c->quaternion >= 0)
        turn(c->turned, by);
}

/* Every pair, over the block so far. */
static void judge(hb_channels *c, const double *x, double seconds, bool whole)
{
    double rotation[3] = {0};

    if (c->quaternion >= 0)
        between(c->turned, x + c->quaternion, rotation);
    for (int i = 0; i < c->npairs; i++) {
        const int p = c->value[i], v = c->rate[i];
        const bool turns = of_rotation(c, i);
        const double r = turns ? rotation[p - c->quaternion] : x[p] - c->start[p] - c->integral[i];
        /* both ends have noise; half a rotation's angle is in its quaternion */
        const double deviation = (turns ? 2 : 1) * c->noise[p];
        const double noise = 2 * deviation * deviation + c->rate_noise[i];
        const double unrelated = c->spread[v] * c->spread[v] * seconds * seconds;
        /* a channel that stands still is no estimator's that is a little off */
        const bool hangs = hb_channels_stands(c, p) >= c->block / 2 || hb_channels_stands(c, v) >= c->block / 2;
        const double motion = c->uncertain[i] + (hangs ? 0 : HB_RATE_BIAS * HB_RATE_BIAS * unrelated);
        hb_channel_odds *o = &c->pair[i];

        o->now = bounded(bounded(o->log_odds) + evidence(c, o, r, noise, motion, unrelated));
        if (whole)
            keep(c, o, r, noise, c->uncertain[i], hangs);
    }
}

/* A request's state against the samples before and after it: in between, anything from one to the other is likely. */
static void judge_request(hb_channels *c, int64_t time_us, const double *x)
{
    const double share = (double)(c->asked_us - c->time_us) / (double)(time_us - c->time_us);
    double sign = 1, along = 0;

    for (int i = 0; c->quaternion >= 0 && i < 4; i++)
        along += c->asked_x[c->quaternion + i] * x[c->quaternion + i];
    for (int i = 0; i < c->nx; i++) {
        const double change = x[i] - c->x[i], noise = 2 * c->noise[i] * c->noise[i];
        sign = c->quaternion >= 0 && i >= c->quaternion && i < c->quaternion + 4 && along < 0 ? -1 : 1;
        const double r = sign * c->asked_x[i] - (c->x[i] + share * change);
        const double motion = change * change / 12;
        hb_channel_odds *o = &c->asked[i];

        o->now = bounded(bounded(o->log_odds) + evidence(c, o, r, noise, motion, c->spread[i] * c->spread[i]));
        keep(c, o, r, noise, motion, false);
    }
}

/* Of a pair in contradiction, the one that stands still is wrong; where both move, it may be either. */
static void conclude(hb_channels *c)
{
    memset(c->wrong, 0, (size_t)c->nx * sizeof *c->wrong);
    for (int i = 0; i < c->npairs; i++) {
        const int p = c->value[i], v = c->rate[i];
        const double odds = probability(c->pair[i].now);
        const bool p_stands = hb_channels_stands(c, p) >= c->block, v_stands = hb_channels_stands(c, v) >= c->block;

        if (!v_stands || p_stands)
            c->wrong[p] = fmax(c->wrong[p], odds);
        if (!p_stands || v_stands)
            c->wrong[v] = fmax(c->wrong[v], odds);
    }
    for (int i = 0; i < c->nx; i++)
        c->wrong[i] = fmax(c->wrong[i], probability(c->asked[i].now));
}

void hb_channels_sample(hb_channels *c, int64_t time_us, const double *x, bool joined)
{
    const bool goes_on = c->begun && joined && time_us > c->time_us;

    if (c->begun && time_us == c->time_us)
        return;
    for (int i = 0; i < c->nx; i++)
        if (!c->begun || x[i] != c->x[i] || time_us < c->moved_us[i])
            c->moved_us[i] = time_us;
    if (goes_on) {
        if (c->pending && c->asked_us >= c->time_us && c->asked_us <= time_us) {
            judge_request(c, time_us, x);
            c->pending = false;
        }
        integrate(c, x, (double)(time_us - c->time_us) * 1e-6);
    }
    const double seconds = (double)(time_us - c->start_us) * 1e-6;
    const bool starts = !goes_on || c->whole;
    /* what is learned of noise over whole blocks says little of much shorter ones */
    if (!starts && seconds >= c->block / 2)
        judge(c, x, seconds, c->whole = seconds >= c->block);
    c->begun = true;
    c->time_us = time_us;
    memcpy(c->x, x, (size_t)c->nx * sizeof *c->x);
    if (starts)
        start_block(c);
    conclude(c);
}

void hb_channels_request(hb_channels *c, int64_t time_us, const double *x)
{
    if (c->npairs == 0 || (c->pending && c->asked_us >= c->time_us && time_us > c->asked_us))
        return; /* the one before waits for its sample still */
    c->pending = true;
    c->asked_us = time_us;
    memcpy(c->asked_x, x, (size_t)c->nx * sizeof *x);
}

int hb_channels_worst(const hb_channels *c, double *ret_probability)
{
    int worst = c->npairs > 0 ? 0 : -1;

    for (int i = 1; worst >= 0 && i < c->nx; i++)
        if (c->wrong[i] > c->wrong[worst])
            worst = i;
    *ret_probability = worst < 0 ? 0 : c->wrong[worst];
    return worst;
}

double hb_channels_stands(const hb_channels *c, int channel)
{
    return (double)(c->time_us - c->moved_us[channel]) * 1e-6;
}
