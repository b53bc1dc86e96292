#include "plan/population.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/numbers.h"

static int blocks(int ns)
{
    return (ns + HB_STRIDE - 1) / HB_STRIDE;
}

void hb_population_lay_out(hb_population *p, hb_arena *arena, const hb_control_map *map, int max_directions, int max_ns,
                           int max_nh, bool gradients)
{
    const size_t nblocks = (size_t)blocks(max_ns), w = (size_t)max_nh * (size_t)max_directions * HB_STRIDE;
    const size_t u = (size_t)max_nh * (size_t)map->nu * HB_STRIDE;

    *p = (hb_population){.map = map, .ns = max_ns, .nh = max_nh, .w_block = (ptrdiff_t)w, .u_block = (ptrdiff_t)u};
    p->w = hb_arena_take(arena, nblocks * w, sizeof(hb_real));
    p->u = hb_arena_take(arena, nblocks * u, sizeof(hb_real));
    p->cost = hb_arena_take(arena, nblocks * HB_STRIDE, sizeof(hb_real));
    if (gradients) {
        p->du = hb_arena_take(arena, nblocks * u, sizeof(hb_real));
        p->moment[0] = hb_arena_take(arena, nblocks * w, sizeof(hb_real));
        p->moment[1] = hb_arena_take(arena, nblocks * w, sizeof(hb_real));
    }
}

void hb_control_map_hold(const hb_control_map *map, int nh, const double *u, hb_real *w)
{
    for (int i = 0; i < nh * map->nv; i++) {
        int v = i % map->nv;
        w[i] = map->diagonal ? (hb_real)((u[v] - map->trim[v]) / map->direction[v * map->nv + v]) : 0;
    }
}

bool hb_control_map_follow(const hb_control_map *map, int nh, const double *u, hb_real *w)
{
    for (int k = 0; map->diagonal && k < nh; k++)
        hb_control_map_hold(map, 1, u + k * map->nu, w + k * map->nv);
    return map->diagonal;
}

void hb_control_map_apply(const hb_control_map *map, int nh, const hb_real *w, double *u)
{
    for (int k = 0; k < nh; k++)
        for (int i = 0; i < map->nu; i++) {
            double sum = map->trim[i];
            for (int v = 0; v < map->nv; v++)
                sum += map->direction[i * map->nv + v] * w[k * map->nv + v];
            u[k * map->nu + i] = fmin(fmax(sum, map->low[i]), map->high[i]);
        }
}

static hb_lanes lane_of(int sample)
{
    return (hb_lanes){.block = sample / HB_STRIDE, .first = sample % HB_STRIDE, .n = 1};
}

void hb_population_get(const hb_population *p, int sample, hb_real *w)
{
    const hb_real *from = hb_population_w(p, lane_of(sample));

    for (int i = 0; i < p->nh * p->map->nv; i++)
        w[i] = from[(ptrdiff_t)i * HB_STRIDE];
}

void hb_population_put(hb_population *p, int sample, const hb_real *w)
{
    hb_real *to = hb_population_w(p, lane_of(sample));

    for (int i = 0; i < p->nh * p->map->nv; i++)
        to[(ptrdiff_t)i * HB_STRIDE] = w[i];
}

/* a number of mean 0 and variance 1, nearly normal: the sum of four uniform ones, one from each 16 bits */
static hb_real noise(hb_random_key key, uint64_t index)
{
    uint64_t bits = hb_random_bits(key, index);
    int64_t sum = (int64_t)(bits & 0xffff) + (int64_t)(bits >> 16 & 0xffff) + (int64_t)(bits >> 32 & 0xffff) +
                  (int64_t)(bits >> 48);

    /* four uniform numbers of width 1 have variance 1/3 */
    return (hb_real)((double)(sum - 2 * 0xffff) * (1.7320508075688772 / 0x10000));
}

void hb_population_draw(hb_population *p, hb_lanes l, int from, const hb_real *mean, const hb_real *deviation,
                        double correlation, hb_random_key key, uint64_t round)
{
    const int nv = p->map->nv, base = l.block * HB_STRIDE + l.first;
    hb_real *w = hb_population_w(p, l);
    hb_real keep = (hb_real)correlation, fresh = (hb_real)sqrt(1 - correlation * correlation);

    for (int s = from > base ? from - base : 0; s < l.n; s++) {
        uint64_t index = (round * (uint64_t)p->ns + (uint64_t)(base + s)) * (uint64_t)(p->nh * nv);
        for (int v = 0; v < nv; v++) {
            hb_real e = 0;
            for (int k = 0; k < p->nh; k++) {
                int i = k * nv + v;
                hb_real draw = noise(key, index + (uint64_t)i);
                e = k == 0 ? draw : keep * e + fresh * draw;
                w[(ptrdiff_t)i * HB_STRIDE + s] = mean[i] + deviation[i] * e;
            }
        }
    }
}

/* diagonal M: clamp w itself */
static void bound_diagonal(const hb_control_map *map, int nh, int n, hb_real *restrict w, hb_real *restrict u)
{
    for (int i = 0; i < nh * map->nu; i++) {
        int c = i % map->nu;
        hb_real scale = (hb_real)map->direction[c * map->nv + c], trim = (hb_real)map->trim[c];
        hb_real low = (hb_real)((map->low[c] - map->trim[c]) / map->direction[c * map->nv + c]);
        hb_real high = (hb_real)((map->high[c] - map->trim[c]) / map->direction[c * map->nv + c]);
        for (int s = 0; s < n; s++) {
            hb_real x = w[(ptrdiff_t)i * HB_STRIDE + s];
            x = x < low ? low : x;
            x = x > high ? high : x;
            w[(ptrdiff_t)i * HB_STRIDE + s] = x;
            u[(ptrdiff_t)i * HB_STRIDE + s] = trim + scale * x;
        }
    }
}

/* any other: draw each step back towards trim until all its controls are within bounds */
static void bound_general(const hb_control_map *map, int nh, int n, hb_real *restrict w, hb_real *restrict u)
{
    _Alignas(HB_ALIGNMENT) hb_real share[HB_STRIDE];
    const int nu = map->nu, nv = map->nv;

    for (int k = 0; k < nh; k++, w += nv * HB_STRIDE, u += nu * HB_STRIDE) {
        for (int s = 0; s < n; s++)
            share[s] = 1;
        for (int i = 0; i < nu; i++) {
            hb_real *row = u + i * HB_STRIDE;
            hb_real below = (hb_real)(map->low[i] - map->trim[i]), above = (hb_real)(map->high[i] - map->trim[i]);
            for (int s = 0; s < n; s++)
                row[s] = 0;
            for (int v = 0; v < nv; v++) {
                hb_real factor = (hb_real)map->direction[i * nv + v];
                for (int s = 0; s < n; s++)
                    row[s] += factor * w[v * HB_STRIDE + s];
            }
            for (int s = 0; s < n; s++) {
                hb_real x = row[s], limit = x > above ? above : x < below ? below : x, part = limit / x;
                share[s] = limit == x || part >= share[s] ? share[s] : part;
            }
        }
        for (int v = 0; v < nv; v++)
            for (int s = 0; s < n; s++)
                w[v * HB_STRIDE + s] *= share[s];
        for (int i = 0; i < nu; i++) {
            hb_real trim = (hb_real)map->trim[i];
            for (int s = 0; s < n; s++)
                u[i * HB_STRIDE + s] = trim + share[s] * u[i * HB_STRIDE + s];
        }
    }
}

void hb_population_bound(hb_population *p, hb_lanes l)
{
    if (p->map->diagonal)
        bound_diagonal(p->map, p->nh, hb_padded(l.n), hb_population_w(p, l), hb_population_u(p, l));
    else
        bound_general(p->map, p->nh, hb_padded(l.n), hb_population_w(p, l), hb_population_u(p, l));
}

/* gradient with respect to one step's w: M^T du */
static void pull_back(const hb_control_map *map, int n, const hb_real *du, hb_real *restrict dw)
{
    for (int v = 0; v < map->nv; v++) {
        hb_real *row = dw + v * HB_STRIDE;
        for (int s = 0; s < n; s++)
            row[s] = 0;
        for (int i = 0; i < map->nu; i++) {
            hb_real factor = (hb_real)map->direction[i * map->nv + v];
            for (int s = 0; factor != 0 && s < n; s++)
                row[s] += factor * du[i * HB_STRIDE + s];
        }
    }
}

void hb_population_adam(hb_population *p, hb_lanes l, int iteration, double rate, double clip, const hb_real *fallback)
{
    static const double decay[2] = {0.9, 0.999};
    const int nv = p->map->nv, n = hb_padded(l.n);
    const hb_real fresh0 = (hb_real)(1 - decay[0]), fresh1 = (hb_real)(1 - decay[1]);
    /* the first step knows no past */
    const hb_real keep0 = iteration > 1 ? (hb_real)decay[0] : 0, keep1 = iteration > 1 ? (hb_real)decay[1] : 0;
    /* bias corrections: step = rate / (1 - b0^i) / sqrt(1 - b1^i) */
    const hb_real grown = (hb_real)(1 / sqrt(1 - pow(decay[1], iteration)));
    const hb_real step = (hb_real)(rate / (1 - pow(decay[0], iteration)));
    _Alignas(HB_ALIGNMENT) hb_real dw[HB_STRIDE * HB_MAX_CONTROLS], norm2[HB_STRIDE], scale[HB_STRIDE];
    hb_real *w = hb_population_w(p, l), *m0 = p->moment[0] + (w - p->w), *m1 = p->moment[1] + (w - p->w);
    const hb_real *du = hb_population_du(p, l);

    for (int k = 0; k < p->nh; k++) {
        pull_back(p->map, n, du + (ptrdiff_t)k * p->map->nu * HB_STRIDE, dw);
        for (int s = 0; s < n; s++)
            norm2[s] = 0;
        for (int v = 0; v < nv; v++)
            for (int s = 0; s < n; s++)
                norm2[s] += dw[v * HB_STRIDE + s] * dw[v * HB_STRIDE + s];
        for (int s = 0; s < n; s++) {
            hb_real limit = (hb_real)clip, norm = (hb_real)sqrt(norm2[s]);
            scale[s] = norm > limit ? limit / norm : 1;
        }
        for (int v = 0; v < nv; v++) {
            ptrdiff_t row = (ptrdiff_t)(k * nv + v) * HB_STRIDE;
            hb_real *restrict w_row = w + row, *restrict m0_row = m0 + row, *restrict m1_row = m1 + row;
            hb_real anew = fallback[k * nv + v];
            for (int s = 0; s < n; s++) {
                bool sound = norm2[s] < (hb_real)1e30;
                hb_real g = dw[v * HB_STRIDE + s] * scale[s];
                hb_real a = keep0 * m0_row[s] + fresh0 * g, b = keep1 * m1_row[s] + fresh1 * g * g;
                hb_real to = w_row[s] - step * a / ((hb_real)sqrt(b) * grown + (hb_real)1e-8);
                m0_row[s] = sound ? a : 0;
                m1_row[s] = sound ? b : 0;
                w_row[s] = sound ? to : anew;
            }
        }
    }
}

static int within(int k, int nh)
{
    return k < 0 ? 0 : k < nh ? k : nh - 1;
}

/* row k becomes the interpolation of rows k + steps and the one after; `width` numbers a row */
static void shift_rows(int nh, ptrdiff_t width, double steps, hb_real *w)
{
    const double by = fmin(fmax(steps, -nh), nh), whole = floor(by);
    const hb_real part = (hb_real)(by - whole);

    /* rows are read before they are written over */
    for (int i = 0; i < nh; i++) {
        const int k = steps < 0 ? nh - 1 - i : i, a = within(k + (int)whole, nh), b = within(k + (int)whole + 1, nh);
        for (ptrdiff_t j = 0; j < width; j++)
            w[k * width + j] = (1 - part) * w[a * width + j] + part * w[b * width + j];
    }
}

void hb_sequence_shift(int nh, int nv, double steps, hb_real *w)
{
    shift_rows(nh, nv, steps, w);
}

void hb_population_shift(hb_population *p, double steps)
{
    for (int block = 0; block < blocks(p->ns); block++)
        shift_rows(p->nh, (ptrdiff_t)p->map->nv * HB_STRIDE, steps, hb_population_w(p, (hb_lanes){.block = block}));
}

/* by cost, then by number; anything that is not a number is worse than all */
static bool better(const hb_real *cost, int a, int b)
{
    bool finite_a = isfinite(cost[a]), finite_b = isfinite(cost[b]);

    if (finite_a != finite_b)
        return finite_a;
    if (!finite_a || cost[a] == cost[b])
        return a < b;
    return cost[a] < cost[b];
}

/* moves order[at] down a heap whose root is the worst */
static void sift(const hb_real *cost, int *order, int count, int at)
{
    for (;;) {
        int worst = 2 * at + 1;
        if (worst >= count)
            return;
        if (worst + 1 < count && better(cost, order[worst], order[worst + 1]))
            worst++;
        if (!better(cost, order[at], order[worst]))
            return;
        int swap = order[at];
        order[at] = order[worst];
        order[worst] = swap;
        at = worst;
    }
}

void hb_sequence_stretch(int nh, int nv, double ratio, hb_real *w)
{
    /* in the order in which nothing is overwritten that is still needed */
    for (int i = 0; i < nh; i++) {
        int k = ratio < 1 ? nh - 1 - i : i;
        double from = (k + 0.5) * ratio;
        memmove(w + k * nv, w + (from < nh ? (int)from : nh - 1) * nv, (size_t)nv * sizeof *w);
    }
}

int hb_population_rank(const hb_population *p, int n, int *order)
{
    int finite = 0;

    for (int i = 0; i < n; i++) {
        order[i] = i;
        finite += isfinite(p->cost[i]) != 0;
    }
    for (int i = n / 2 - 1; i >= 0; i--)
        sift(p->cost, order, n, i);
    for (int end = n - 1; end > 0; end--) {
        int swap = order[0];
        order[0] = order[end];
        order[end] = swap;
        sift(p->cost, order, end, 0);
    }
    return finite;
}

void hb_population_average(const hb_population *p, const int *order, int finite, double temperature, hb_real *mean)
{
    int half = (finite + 1) / 2, size = p->nh * p->map->nv;
    double best = p->cost[order[0]], average = 0, spread = 0, total = 0;

    for (int j = 0; j < half; j++)
        average += p->cost[order[j]] / (double)half;
    for (int j = 0; j < half; j++)
        spread += (p->cost[order[j]] - average) * (p->cost[order[j]] - average) / (double)half;
    double scale = fmax(temperature * sqrt(spread), (double)HB_TINY * (1 + fabs(best)));

    for (int j = 0; j < finite; j++) {
        double weight = exp(-(p->cost[order[j]] - best) / scale);
        if (weight < HB_ROUNDING)
            break;
        total += weight;
        const hb_real *w = hb_population_w(p, lane_of(order[j]));
        /* a running mean needs no second array */
        for (int i = 0; i < size; i++)
            mean[i] += (hb_real)(weight / total) * (w[(ptrdiff_t)i * HB_STRIDE] - mean[i]);
    }
}
