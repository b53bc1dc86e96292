/* What a restart must not lose, beside the transitions themselves: for each of them its rows and how far it was
 * believed, and once what all that came before them has left: memory, noise, actuators.
 *
 *     about a transition   weight, belief, usable, what actuators leave open (nx), increments (nx x nb), residuals (nx)
 *     belief               the numbers of `knowledge`, vectors, scores of the actuators' candidates, sums of the memory
 *
 * With these, coefficients and covariance are the same after a restart as before it, except for rounding. What a bank
 * of candidates knows of its coefficients is learned again from the window.
 *
 * Nothing of it is taken on trust: numbers must be possible, the actuators those that are configured now, and the
 * coefficients that follow must be those of a vehicle and explain the window. Else the window alone is taken up. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/estimator_internal.h"

/* times the noise, squared and in the mean, that coefficients may leave of a window from which it was learned */
static const double worst_fit = 25;
/* of coefficients, where the model has no prior to say what can be */
static const double largest_coefficient = 100;
/* by which a product of sums may exceed what it can be, for rounding */
static const double slack = 1e-6;
enum { FEWEST = 5 }; /* transitions that coefficients are held against */

enum { WEIGHT, BELIEF, USABLE, ABOUT }; /* the first numbers about a transition */

/* The single numbers of a belief; all are double, so that they can be kept as numbers. */
typedef struct knowledge {
    double first, next; /* of the window when it was kept: what is older than `first` is in the memory */
    double origin;      /* negative: it is not known */
    double memory_weight, departed, fading, yielding;
    double seed_strength, guess_scale, guessed;
    double unsettled, out_of_span, catching_up, hesitating, knows_actuators, seen;
} knowledge;

enum { SINGLE = sizeof(knowledge) / sizeof(double) };

/* Where the parts of a belief begin, in numbers. */
typedef struct parts {
    size_t noise, solved_noise, guess; /* nx each */
    size_t variance;                   /* nx, of the bank */
    size_t rest, lag, delay;           /* nu each */
    size_t seed;                       /* nproblems x nb */
    size_t score, earlier;             /* HB_GRID, and so many times that */
    size_t memory;                     /* nx triangles */
    size_t size;
} parts;

static size_t triangle(const hb_model *m)
{
    size_t n = (size_t)m->nb + 2;

    return n * (n + 1) / 2;
}

static parts parts_of(const hb_model *m)
{
    size_t nx = (size_t)m->nx, nu = (size_t)m->nu, nb = (size_t)m->nb, at = SINGLE;
    parts p;

    p.noise = at;
    p.solved_noise = at += nx;
    p.guess = at += nx;
    p.variance = at += nx;
    p.rest = at += nx;
    p.lag = at += nu;
    p.delay = at += nu;
    p.seed = at += nu;
    p.score = at += nb * (m->shape == HB_PER_STATE ? nx : 1);
    p.earlier = at += HB_GRID;
    p.memory = at += HB_IDENTIFICATION_EARLIER * HB_GRID;
    p.size = at + nx * triangle(m);
    return p;
}

hb_window_extras hb_kept_extras(const hb_model *m)
{
    return (hb_window_extras){.about = ABOUT + m->nx * (m->nb + 2), .belief = (int)parts_of(m).size};
}

/* ---- transitions ---- */

void hb_kept_save_entry(hb_estimator *e, uint64_t sequence)
{
    double *at = hb_window_begin_about(&e->window, sequence);
    size_t nx = (size_t)e->m->nx, nb = (size_t)e->m->nb, slot = (size_t)(sequence % (uint64_t)e->nw);

    if (!at)
        return;
    at[WEIGHT] = e->weight[slot];
    at[BELIEF] = e->belief[slot];
    at[USABLE] = e->usable[slot];
    memcpy(at + ABOUT, e->unsure + slot * nx, nx * sizeof *at);
    memcpy(at + ABOUT + nx, e->rows.residual + slot * nx, nx * sizeof *at);
    for (size_t i = 0; i < nx * nb; i++)
        at[ABOUT + 2 * nx + i] = e->rows.increment[slot * nx * nb + i];
    hb_window_end_about(&e->window, sequence);
}

bool hb_kept_take_entry(hb_estimator *e, uint64_t sequence)
{
    const double *at = hb_window_about(&e->window, sequence);
    size_t nx = (size_t)e->m->nx, nb = (size_t)e->m->nb, slot = (size_t)(sequence % (uint64_t)e->nw);

    if (!at || !(at[WEIGHT] >= 0 && at[WEIGHT] <= 1 && at[BELIEF] >= 0 && at[BELIEF] <= 1))
        return false;
    for (size_t d = 0; d < nx; d++)
        if (!(at[ABOUT + d] >= 0))
            return false;
    e->weight[slot] = at[WEIGHT];
    e->belief[slot] = at[BELIEF];
    e->usable[slot] = at[USABLE] > 0;
    memcpy(e->unsure + slot * nx, at + ABOUT, nx * sizeof *at);
    memcpy(e->rows.residual + slot * nx, at + ABOUT + nx, nx * sizeof *at);
    for (size_t i = 0; i < nx * nb; i++)
        e->rows.increment[slot * nx * nb + i] = (hb_real)at[ABOUT + 2 * nx + i];
    return true;
}

/* ---- the belief ---- */

static void put(double *to, const double *from, int n)
{
    if (n > 0)
        memcpy(to, from, (size_t)n * sizeof *to);
}

void hb_kept_save(hb_estimator *e)
{
    const hb_posterior *p = &e->posterior;
    const hb_identification *f = &e->identification;
    double *at = hb_window_begin_belief(&e->window);
    const parts where = parts_of(e->m);
    int nx = p->nx, nu = e->m->nu;

    if (!at)
        return;
    const knowledge k = {.first = (double)e->window.first,
                         .next = (double)e->window.next,
                         .origin = e->origin == UINT64_MAX ? -1 : (double)e->origin,
                         .memory_weight = p->memory_weight,
                         .departed = p->departed,
                         .fading = p->fading,
                         .yielding = p->yielding,
                         .seed_strength = p->seed_strength,
                         .guess_scale = p->guess_scale,
                         .guessed = e->guessed,
                         .unsettled = e->unsettled,
                         .out_of_span = e->health.out_of_span,
                         .catching_up = e->catching_up,
                         .hesitating = e->hesitating,
                         .knows_actuators = e->knows_actuators,
                         .seen = e->identifying ? f->seen : 0};

    memcpy(at, &k, sizeof k);
    put(at + where.noise, p->noise, nx);
    put(at + where.solved_noise, e->solved_noise, nx);
    put(at + where.guess, p->guess, nx);
    put(at + where.rest, e->rest_control, nu);
    put(at + where.lag, e->actuators.lag, nu);
    put(at + where.delay, e->actuators.delay, nu);
    put(at + where.seed, p->seed, p->nproblems * p->nb);
    if (k.seen > 0) {
        put(at + where.variance, f->variance, nx);
        put(at + where.score, f->score, HB_GRID);
        put(at + where.earlier, f->earlier[0], HB_IDENTIFICATION_EARLIER * HB_GRID);
    }
    double *to = at + where.memory;
    for (int row = 0; row < nx * p->n; row++, to += (row - 1) % p->n + 1)
        put(to, p->memory + (size_t)row * (size_t)p->ld, row % p->n + 1);
    hb_window_end_belief(&e->window);
}

static bool all_above(const double *x, int n, double least)
{
    for (int i = 0; i < n; i++)
        if (!(x[i] > least))
            return false;
    return true;
}

/* What is given must be what was given then, what is found in flight must be possible. */
static bool same_actuators(const double *then, const double *now, int nu, bool found, double most)
{
    for (int i = 0; i < nu; i++)
        if (found ? !(then[i] >= 0 && then[i] <= most + 1e-9) : fabs(then[i] - now[i]) > 1e-9)
            return false;
    return true;
}

/* Sums of squares and products: lower triangles, nx of them. */
static bool possible_sums(const hb_model *m, const double *sums)
{
    for (int d = 0; d < m->nx; d++, sums += triangle(m))
        for (int i = 0; i < m->nb; i++) {
            const double *row = sums + i * (i + 1) / 2;
            if (!(row[i] >= 0))
                return false;
            for (int j = 0; j < i; j++)
                if (row[j] * row[j] > (1 + slack) * row[i] * sums[j * (j + 1) / 2 + j] + slack)
                    return false;
        }
    return true;
}

int hb_kept_take(hb_estimator *e, hb_error *why)
{
    hb_posterior *p = &e->posterior;
    hb_window *w = &e->window;
    const double *at = hb_window_belief(w);
    const parts where = parts_of(e->m);
    const hb_actuator_settings *s = &e->s.actuators;
    bool finds_lag = e->identifying && e->identification.nlags > 1;
    bool finds_delay = e->identifying && e->identification.ndelays > 1;
    int nx = p->nx, nu = e->m->nu;
    knowledge k;

    if (!at)
        return hb_fail(why, ENODATA, "it was not kept");
    memcpy(&k, at, sizeof k);
    if (!(k.next <= (double)w->next && k.next + HB_ESTIMATOR_TOGETHER >= (double)w->next && k.first <= k.next))
        return hb_fail(why, ESTALE, "it is of another time");
    if (!same_actuators(at + where.lag, e->actuators.lag, nu, finds_lag, s->max_lag) ||
        !same_actuators(at + where.delay, e->actuators.delay, nu, finds_delay, s->max_delay))
        return hb_fail(why, EINVAL, "the actuators are others now");
    if (!all_above(at + where.noise, nx, 0) || !all_above(at + where.solved_noise, nx, 0) ||
        !all_above(at + where.guess, nx, 0) || !(k.guess_scale > 0 && k.memory_weight >= -slack && k.fading > 0) ||
        !possible_sums(e->m, at + where.memory))
        return hb_fail(why, EINVAL, "its numbers cannot be");

    /* what is in the memory is not in the window as well */
    if ((uint64_t)k.first > w->first)
        hb_window_drop_before(w, (uint64_t)k.first);
    e->origin = k.origin < 0 ? UINT64_MAX : (uint64_t)k.origin;
    p->memory_weight = fmax(0, k.memory_weight);
    p->departed = (int)k.departed;
    p->fading = k.fading;
    p->seed_strength = k.seed_strength;
    p->guess_scale = k.guess_scale;
    e->guessed = k.guessed > 0;
    e->unsettled = (int)k.unsettled;
    e->catching_up = (int)fmin(fmax(0, k.catching_up), hb_window_count(w));
    put(p->noise, at + where.noise, nx);
    put(e->solved_noise, at + where.solved_noise, nx);
    put(p->guess, at + where.guess, nx);
    put(e->rest_control, at + where.rest, nu);
    put(e->actuators.lag, at + where.lag, nu);
    put(e->actuators.delay, at + where.delay, nu);
    put(p->seed, at + where.seed, p->nproblems * p->nb);
    const double *from = at + where.memory;
    for (int row = 0; row < nx * p->n; row++, from += (row - 1) % p->n + 1)
        put(p->memory + (size_t)row * (size_t)p->ld, from, row % p->n + 1);
    return 0;
}

void hb_kept_take_rest(hb_estimator *e)
{
    hb_identification *f = &e->identification;
    const double *at = hb_window_belief(&e->window);
    const parts where = parts_of(e->m);
    knowledge k;

    memcpy(&k, at, sizeof k);
    e->posterior.yielding = (int)fmin(fmax(0, k.yielding), INT32_MAX);
    e->health.out_of_span = fmin(fmax(0, k.out_of_span), 1);
    e->hesitating = (int)k.hesitating;
    e->knows_actuators = k.knows_actuators > 0;
    if (!e->identifying || f->seen == 0 || !(k.seen > 0) || !all_above(at + where.variance, f->nx, 0))
        return;
    f->seen = (int)fmin(k.seen, INT32_MAX / 2);
    put(f->variance, at + where.variance, f->nx);
    put(f->score, at + where.score, HB_GRID);
    put(f->earlier[0], at + where.earlier, HB_IDENTIFICATION_EARLIER * HB_GRID);
}

/* ---- whether to believe it ---- */

int hb_kept_doubt(const hb_estimator *e, double farthest, hb_error *why)
{
    const hb_posterior *p = &e->posterior;
    double misfit = 0, largest = 0;

    for (int k = 0; k < p->nproblems; k++)
        if (!p->solved[k])
            return hb_fail(why, EINVAL, "it determines no coefficients");
    for (int i = 0; i < p->nproblems * p->nb; i++)
        largest = fmax(largest, fabs(p->coefficient[i]));
    double far = hb_posterior_plausibility(p, p->coefficient);
    if (e->m->has_prior ? !(far <= farthest) : !(largest <= largest_coefficient))
        return hb_fail(why, EINVAL, "no vehicle has such coefficients");
    for (int d = 0; d < p->nx; d++)
        misfit += hb_posterior_energy(p, d).unexplained / e->solved_noise[d];
    if (p->weight >= FEWEST && !(misfit <= worst_fit * p->weight * p->nx))
        return hb_fail(why, EINVAL, "it does not explain the newest transitions");
    return 0;
}
