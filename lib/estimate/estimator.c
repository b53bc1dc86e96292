/* The interface, and the walk of a transition: normalise, find the controls that acted, evaluate the basis, learn. */
#include "estimate/estimator.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "estimate/estimator_internal.h"

enum {
    CATCH_UP = 48,  /* entries evaluated again at once, when actuators have changed */
    BEGINNING = 50, /* transitions from where a flight began that its first command may matter to */
};

/* a command that is farther outside the bounds than they are apart is a lie */
static const double believable_range = 1;
/* so is a motion of so many standard deviations of the trained states within one period */
static const double believable_motion = 25;

const char *const hb_estimate_status_name[] = {
#define X(id, name, help) name,
    HB_ESTIMATE_STATUSES(X)
#undef X
};

/* ---- memory ---- */

/* seconds as transitions of one period */
static int transitions(const hb_model *m, double seconds)
{
    double count = round(seconds / m->dt);

    return count < 1 ? 1 : count > HB_ESTIMATOR_LARGEST ? HB_ESTIMATOR_LARGEST : (int)count;
}

static size_t staged_size(const hb_model *m)
{
    return 2 * (size_t)m->nx + HB_TRANSITION_PARTS * (size_t)m->nu;
}

static hb_estimator *lay_out(const hb_model *m, const hb_estimator_settings *s, void **memory, hb_arena *arena)
{
    size_t nx = (size_t)m->nx, nc = (size_t)hb_model_ncoefficients(m), nb = (size_t)m->nb;
    bool per_state = m->shape == HB_PER_STATE, bayesian = s->posterior && s->method == HB_LEAST_SQUARES;
    int nproblems = per_state ? m->nx : 1, nw = transitions(m, s->window);
    double ridge = s->ridge < 0 ? m->ridge : s->ridge, warmup = s->warmup < 0 ? (m->has_prior ? 0 : 1) : s->warmup;
    hb_estimator *taken = hb_arena_take(arena, 1, sizeof *taken);
    hb_estimator e = {
        .m = m,
        .s = *s,
        .nw = nw,
        .warmup = transitions(m, warmup),
        .bayesian = bayesian,
        .regression = {.nb = m->nb,
                       .nproblems = nproblems,
                       .nrows = per_state ? 1 : m->nx,
                       .method = s->method,
                       .ridge = ridge,
                       .volume = m->volume,
                       .forgetting = s->forgetting},
        .posterior = {.m = m, .nw = nw, .ridge = ridge, .fade = s->fade, .spread = hb_bayes_spread()},
        .change = {.nx = m->nx, .threshold = s->change_threshold},
    };

    e.warmup = e.warmup < nw ? e.warmup : nw;
    if (bayesian) {
        hb_posterior_lay_out(&e.posterior, arena);
        e.weight = hb_arena_take(arena, (size_t)nw, sizeof *e.weight);
        e.belief = hb_arena_take(arena, (size_t)nw, sizeof *e.belief);
        e.unsure = hb_arena_take(arena, (size_t)nw * (size_t)m->nx, sizeof *e.unsure);
        e.unsure_now = hb_arena_take(arena, (size_t)m->nx, sizeof *e.unsure_now);
        e.usable = hb_arena_take(arena, (size_t)nw, sizeof *e.usable);
        e.sorted = hb_arena_take(arena, (size_t)nw, sizeof *e.sorted);
        e.distance = hb_arena_take(arena, (size_t)nw, sizeof *e.distance);
        e.joined_control = hb_arena_take(arena, HB_TRANSITION_PARTS * (size_t)m->nu, sizeof *e.joined_control);
        e.joined_motion = hb_arena_take(arena, nx, sizeof *e.joined_motion);
        e.innovation = hb_arena_take(arena, HB_JUDGED * nx, sizeof *e.innovation);
        e.residual = hb_arena_take(arena, HB_JUDGED * nx, sizeof *e.residual);
        e.motion = hb_arena_take(arena, HB_JUDGED * nx, sizeof *e.motion);
        e.doubt = hb_arena_take(arena, HB_JUDGED * nx, sizeof *e.doubt);
        e.solved_noise = hb_arena_take(arena, nx, sizeof *e.solved_noise);
        e.expected = hb_arena_take(arena, nx, sizeof *e.expected);
        e.tolerance = hb_arena_take(arena, nx, sizeof *e.tolerance);
        e.spread = hb_arena_take(arena, nx, sizeof *e.spread);
        e.trial_solution = hb_arena_take(arena, nc, sizeof *e.trial_solution);
        e.scratch = hb_arena_take(arena, 4 * nb, sizeof *e.scratch);
        e.iscratch = hb_arena_take(arena, nb, sizeof *e.iscratch);
        /* a network of whole periods knows nothing of what happens within, and a large basis takes too long */
        e.identifying = s->actuators.identify && m->nu > 0 && m->integration == HB_COMBINED && m->nb <= 32;
    }
    if (e.identifying) {
        e.identification = (hb_identification){.m = m, .ld = e.posterior.ld};
        hb_identification_lay_out(&e.identification, arena);
        e.candidates = (hb_candidate_rows){.nu = m->nu, .size = m->nx * e.posterior.ld};
        hb_candidate_rows_lay_out(&e.candidates, arena);
        e.grid_control = hb_arena_take(arena, HB_GRID * HB_TRANSITION_PARTS * (size_t)m->nu, sizeof *e.grid_control);
        e.bank_prior = hb_arena_take(arena, (size_t)nproblems * nb * nb, sizeof *e.bank_prior);
        e.bank_vector = hb_arena_take(arena, (size_t)nproblems * nb, sizeof *e.bank_vector);
    }
    if (!bayesian) {
        hb_regression_lay_out(&e.regression, arena);
    }
    e.rows = (hb_rows){.m = m, .nw = nw, .ld = bayesian ? e.posterior.ld : e.regression.ld};
    hb_rows_lay_out(&e.rows, arena);
    e.coefficient = hb_arena_take(arena, nc, sizeof *e.coefficient);
    e.trial = hb_arena_take(arena, nc, sizeof *e.trial);
    e.along = hb_arena_take(arena, nc, sizeof *e.along);
    e.variance = hb_arena_take(arena, nc, sizeof *e.variance);
    e.rest_control = hb_arena_take(arena, (size_t)m->nu, sizeof *e.rest_control);
    e.first_row = hb_arena_take(arena, (size_t)(m->nx * e.rows.ld), sizeof *e.first_row);
    e.problem = hb_arena_take(arena, (size_t)nproblems, sizeof *e.problem);
    hb_change_lay_out(&e.change, arena);
    e.error = hb_arena_take(arena, nx, sizeof *e.error);
    e.mean_square = hb_arena_take(arena, nx, sizeof *e.mean_square);
    e.control = hb_arena_take(arena, HB_TRANSITION_PARTS * (size_t)m->nu, sizeof *e.control);
    e.staged_value = hb_arena_take(arena, HB_ESTIMATOR_TOGETHER * staged_size(m), sizeof *e.staged_value);
    if (!*memory)
        *memory = hb_arena_take(arena, 1, hb_window_size(m, nw, NULL)); /* which ends with the process */
    if (taken)
        *taken = e;
    return taken;
}

size_t hb_estimator_memory_size(const hb_model *m, const hb_estimator_settings *s)
{
    const hb_window_extras extras = hb_kept_extras(m);

    return hb_window_size(m, transitions(m, s->window), &extras);
}

void hb_estimator_free(hb_estimator *e)
{
    if (e)
        hb_workspace_free(e->workspace);
    free(e);
}

/* ---- rows ---- */

const double *hb_estimator_recall(hb_estimator *e, uint64_t sequence)
{
    return hb_rows_recall(&e->rows, sequence, hb_window_at(&e->window, sequence).dz);
}

const double *hb_estimator_recall_by_age(void *context, int age)
{
    hb_estimator *e = context;
    uint64_t sequence = e->window.next - 1 - (uint64_t)age;
    const double *row = hb_estimator_recall(e, sequence);

    /* what cannot be used says nothing */
    if (e->bayesian && !e->usable[sequence % (uint64_t)e->nw])
        memset(e->rows.recalled, 0, (size_t)(e->m->nx * e->rows.ld) * sizeof *row);
    return row;
}

double hb_estimator_error(const hb_estimator *e, const double *row, const hb_real *coefficient, int state)
{
    const double *g = row + state * e->rows.ld;
    double error = g[e->m->nb];

    for (int i = 0; i < e->m->nb; i++)
        error -= (double)coefficient[hb_estimator_index(e, state, i)] * g[i];
    return error;
}

/* ---- controls ---- */

/* Transitions of the window, and those staged after them. */
static bool entry_before(const hb_past *past, int back, hb_window_entry *ret)
{
    const hb_estimator *e = past->context;
    uint64_t sequence = past->sequence - (uint64_t)back;

    if (past->sequence < (uint64_t)back || sequence < e->window.first)
        return false;
    *ret = sequence < e->window.next ? hb_window_at(&e->window, sequence) : e->staged[sequence - e->window.next];
    return true;
}

/* Does all that is known before a transition go back to where the flight began? */
static bool since_the_beginning(const hb_past *past)
{
    const hb_estimator *e = past->context;
    hb_window_entry entry;

    if (past->sequence < e->origin || past->sequence - e->origin >= BEGINNING)
        return false;
    for (uint64_t back = 0; back < past->sequence - e->origin; back++)
        if (!entry_before(past, (int)back, &entry) || !entry.continues)
            return false;
    return true;
}

static hb_past past_of(const hb_estimator *e, uint64_t sequence)
{
    hb_past past = {.context = e, .sequence = sequence, .at = entry_before};

    past.rest = since_the_beginning(&past) ? e->rest_control : NULL;
    return past;
}

double hb_estimator_controls(hb_estimator *e, const hb_actuators *a, uint64_t sequence, hb_window_entry *ret_entry)
{
    hb_past past = past_of(e, sequence);
    double known = hb_effective_controls(&past, a, e->control);
    entry_before(&past, 0, ret_entry);
    return past.rest ? INFINITY : known;
}

double hb_estimator_controls_of_grid(hb_estimator *e, uint64_t sequence)
{
    const hb_identification *f = &e->identification;
    hb_past past = past_of(e, sequence);
    const hb_actuator_grid grid = {.nlags = f->nlags, .ndelays = f->ndelays, .lag = f->lag, .delay = f->delay};
    double known = hb_effective_controls_of_grid(&past, e->m->nu, &grid, e->grid_control);

    return past.rest ? INFINITY : known;
}

double hb_estimator_load(hb_estimator *e, int lane, uint64_t sequence)
{
    hb_window_entry entry;
    double known = hb_estimator_controls(e, &e->actuators, sequence, &entry);

    hb_rows_load(&e->rows, lane, &entry, e->control);
    return known;
}

/* ---- the walk ---- */

/* In the beginning a flight is learned from as fast as can be. */
static bool is_early(const hb_estimator *e)
{
    return e->bayesian && e->posterior.count < HB_EARLY;
}

/* Chooses at most so many old entries to be evaluated again, in turn, and loads them into lanes from `lane` on. The
 * oldest are left as they are: the commands before them are forgotten. */
static int choose_entries(hb_estimator *e, int lane, int most, uint64_t *ret_sequence)
{
    uint64_t margin = (uint64_t)ceil(hb_effective_reach(&e->actuators) / e->m->dt);
    uint64_t first = e->window.first + (e->window.first == e->origin ? 0 : margin);
    int count = first < e->window.next ? (int)(e->window.next - first) : 0;
    int chosen = most < count ? most : count;

    if (e->m->integration != HB_COMBINED || !e->warm)
        return 0;
    for (int i = 0; i < chosen; i++) {
        uint64_t next = e->relinearised + 1;
        e->relinearised = next >= first && next < e->window.next ? next : first;
        hb_estimator_load(e, lane + i, e->relinearised);
        ret_sequence[i] = e->relinearised;
    }
    e->catching_up = e->catching_up > chosen ? e->catching_up - chosen : 0;
    e->behind = e->behind > chosen ? e->behind - chosen : 0;
    return chosen;
}

/* How many old entries are to be seen anew with a transition: all, while the belief still moves much or actuators are
 * others; else a few, as long as they lag behind the coefficients. */
static int entries_due(hb_estimator *e)
{
    if (is_early(e))
        return CATCH_UP;
    if (e->catching_up > 0)
        return e->catching_up < CATCH_UP ? e->catching_up : CATCH_UP;
    if (e->bayesian && e->m->has_prior)
        return e->behind < e->s.relinearise ? e->behind : e->s.relinearise;
    return e->s.relinearise;
}

/* Coefficients that have moved leave the entries behind. */
static void follow(hb_estimator *e)
{
    if (!hb_bayes_moved(e))
        return;
    memcpy(e->along, e->coefficient, (size_t)hb_model_ncoefficients(e->m) * sizeof *e->along);
    e->behind = hb_window_count(&e->window);
}

void hb_estimator_count_span(hb_estimator *e)
{
    e->health.span_seconds = 0;
    for (uint64_t sequence = e->window.first; sequence < e->window.next; sequence++)
        e->health.span_seconds += hb_window_at(&e->window, sequence).dt;
}

bool hb_estimator_take_staged(hb_estimator *e, int lane, hb_window_entry *ret)
{
    *ret = e->staged[lane];
    if (!hb_rows_of_lane(&e->rows, lane, ret->dz)) {
        e->broken = true;
        return false;
    }
    ret->continues &= !e->broken;
    e->broken = false;
    return true;
}

void hb_estimator_predict(hb_estimator *e)
{
    int nx = e->m->nx;
    double squared = 0;

    /* the mean of the first ones, until there are enough to let them fade */
    double fresh = 1 / fmin((double)e->predictions + 1, HB_ESTIMATOR_ERRORS);
    for (int d = 0; d < nx; d++) {
        double square;
        e->error[d] = hb_estimator_error(e, e->rows.row, e->coefficient, d);
        squared += square = e->error[d] * e->error[d];
        e->mean_square[d] += fresh * (square - e->mean_square[d]);
    }
    e->recent[e->predictions++ % HB_RECENT] = squared / nx;

    int count = e->predictions < HB_RECENT ? (int)e->predictions : HB_RECENT;
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += e->recent[i];
    e->health.one_step_error = sqrt(sum / count);
}

int hb_estimator_due(hb_estimator *e, int used, int nproblems)
{
    /* problems take turns, so that no transition pays for all when they are solved less often than transitions come */
    e->credit += used * nproblems;
    int due = e->credit / e->s.solve_every < nproblems ? e->credit / e->s.solve_every : nproblems;
    e->credit %= e->s.solve_every;
    return due;
}

/* The command that was in force before the one that is staged now, NULL if none is known. */
static const double *command_before(const hb_estimator *e)
{
    if (e->nstaged > 0) {
        const hb_window_entry *last = &e->staged[e->nstaged - 1];
        return last->u + (last->parts - 1) * e->m->nu;
    }
    if (hb_window_count(&e->window) == 0)
        return NULL;
    hb_window_entry last = hb_window_at(&e->window, e->window.next - 1);
    return last.u + (last.parts - 1) * e->m->nu;
}

/* Normalised, to the staged entry; false when a number is not finite in single precision. */
static bool normalise(hb_estimator *e, const hb_transition *t)
{
    const hb_model *m = e->m;
    int parts = t->parts > 0 ? t->parts : 1, nu = m->nu;
    double *z = e->staged_value + (size_t)e->nstaged * staged_size(m), *u = z + m->nx;
    double *dz = u + HB_TRANSITION_PARTS * nu, check = 0 * (double)(hb_real)t->dt;
    const double *before = command_before(e);

    e->lie[e->nstaged] = false;
    for (int i = 0; i < m->nx; i++) {
        z[i] = hb_normalised_state(m, i, t->x[i]);
        dz[i] = (t->x_next[i] - t->x[i]) / m->state_std[i];
        check += 0 * (double)((hb_real)z[i] + (hb_real)dz[i]);
        e->lie[e->nstaged] |= e->bayesian && fabs(dz[i]) > believable_motion * fmax(1, t->dt / m->dt);
    }
    for (int k = 0; k < parts * nu; k++) {
        int i = k % nu;
        double range = believable_range * (m->control_max[i] - m->control_min[i]);
        check += 0 * (double)(hb_real)hb_normalised_control(m, i, t->u[k]);
        u[k] = hb_normalised_control(m, i, t->u[k]);
        if (!e->bayesian || (t->u[k] >= m->control_min[i] - range && t->u[k] <= m->control_max[i] + range))
            continue;
        /* no such command was given: the one before it went on */
        e->lie[e->nstaged] = true;
        u[k] = k >= nu ? u[k - nu] : before ? before[i] : hb_normalised_control(m, i, m->control_trim[i]);
    }
    for (int i = 0; i < nu && e->window.next + (uint64_t)e->nstaged == e->origin; i++) {
        double rest = t->before ? t->before[i] : m->control_trim[i];
        check += 0 * (double)(hb_real)rest;
        e->rest_control[i] = hb_normalised_control(m, i, fmin(fmax(rest, m->control_min[i]), m->control_max[i]));
    }
    e->staged[e->nstaged] = (hb_window_entry){.dt = t->dt,
                                              .parts = parts,
                                              .continues = t->continues && !e->broken,
                                              .averaged = t->averaged > 0 ? t->averaged : 1,
                                              .z = z,
                                              .u = u,
                                              .dz = dz};
    return check == 0 && t->dt > 0 && parts <= HB_TRANSITION_PARTS;
}

bool hb_estimator_stage(hb_estimator *e, const hb_transition *t)
{
    if (e->nstaged == HB_ESTIMATOR_TOGETHER)
        hb_estimator_settle(e);
    if (!normalise(e, t)) {
        e->health.rejected++;
        e->broken = true;
        return false;
    }
    e->broken = false;
    e->nstaged++;
    return true;
}

/* ---- what is left for later ---- */

static void see_anew(hb_estimator *e)
{
    uint64_t old[HB_STRIDE];
    int count = choose_entries(e, 0, e->again < HB_LANES ? e->again : HB_LANES, old);

    if (count > 0) {
        hb_rows_evaluate(&e->rows, e->workspace, count, e->coefficient);
        hb_bayes_replace(e, old, count, 0);
    }
    e->again = count > 0 ? e->again - count : 0;
}

/* The next transition that candidates are to hear of; what follows if there is none. */
static hb_work next_to_identify(hb_estimator *e)
{
    while (e->to_identify < e->window.next) {
        if (hb_estimator_asks_bank(e, e->to_identify))
            return HB_WORK_EXPLAIN;
        e->to_identify++;
    }
    e->again = is_early(e) ? 0 : entries_due(e); /* else they are seen anew with the next transition */
    return e->again > 0 ? HB_WORK_AGAIN : e->kept ? HB_WORK_NONE : HB_WORK_KEEP;
}

bool hb_estimator_work(hb_estimator *e)
{
    switch (e->work) {
    case HB_WORK_NONE:
        return false;
    case HB_WORK_EXPLAIN:
        hb_estimator_explain(e, e->to_identify);
        e->work = HB_WORK_IDENTIFY;
        break;
    case HB_WORK_IDENTIFY:
        hb_estimator_identify(e, e->to_identify++);
        e->kept = false;
        e->work = next_to_identify(e);
        break;
    case HB_WORK_AGAIN:
        see_anew(e);
        e->kept = false;
        e->work = e->again > 0 ? HB_WORK_AGAIN : HB_WORK_KEEP;
        break;
    case HB_WORK_KEEP:
        hb_kept_save(e);
        e->work = HB_WORK_NONE;
        break;
    }
    return true;
}

static void work_off(hb_estimator *e)
{
    while (hb_estimator_work(e))
        ;
    hb_estimator_show_actuators(e);
}

/* After `used` transitions. */
static void leave_work(hb_estimator *e, int used)
{
    uint64_t first = e->window.next - (uint64_t)used;

    follow(e);
    e->to_identify = first > e->window.first ? first : e->window.first;
    e->kept = true; /* by learning */
    e->work = next_to_identify(e);
    if (is_early(e))
        work_off(e);
}

void hb_estimator_settle(hb_estimator *e)
{
    uint64_t old[HB_STRIDE];

    if (e->nstaged == 0)
        return;
    work_off(e);
    for (int lane = 0; lane < e->nstaged; lane++)
        e->known[lane] = hb_estimator_load(e, lane, e->window.next + (uint64_t)lane);
    /* what the answer is to be made of is seen anew before it */
    int nold = e->bayesian && !is_early(e) ? 0 : choose_entries(e, e->nstaged, entries_due(e), old);
    int lane = e->nstaged + nold, nvariants = e->bayesian ? hb_estimator_load_variants(e, lane) : 0;
    hb_rows_evaluate(&e->rows, e->workspace, lane + nvariants, e->coefficient);
    if (e->bayesian)
        hb_estimator_compare_variants(e, lane, nvariants);
    int used = e->bayesian ? hb_bayes_learn(e, old, nold) : hb_plain_learn(e, old, nold);
    e->health.rejected += (uint64_t)(e->nstaged - used);
    e->nstaged = 0;
    if (e->bayesian && used > 0)
        leave_work(e, used);
}

void hb_estimator_push(hb_estimator *e, const hb_transition *t)
{
    if (hb_estimator_stage(e, t))
        hb_estimator_settle(e);
}

static void report(hb_estimator *e)
{
    if (e->bayesian)
        hb_bayes_report(e);
    else
        hb_plain_report(e);
}

/* ---- the interface ---- */

/* Nothing is known but the prior. */
static void start(hb_estimator *e)
{
    memset(e->variance, 0, (size_t)hb_model_ncoefficients(e->m) * sizeof *e->variance);
    e->work = HB_WORK_NONE;
    e->behind = 0;
    hb_estimator_start_actuators(e);
    hb_estimator_show_actuators(e);
    if (e->bayesian)
        hb_bayes_reset(e);
    else
        hb_plain_reset(e);
    hb_change_reset(&e->change);
    e->nstaged = 0;
    e->broken = true;
    e->warm = false;
    e->credit = 0;
    e->turn = 0;
    e->predictions = 0;
}

void hb_estimator_reset(hb_estimator *e)
{
    hb_health kept = {.rejected = e->health.rejected,
                      .implausible = e->health.implausible,
                      .changes = e->health.changes,
                      .version = e->health.version + 1};

    hb_window_drop_before(&e->window, e->window.next);
    e->origin = e->window.next;
    start(e);
    e->health = kept;
    hb_window_save_coefficients(&e->window, kept.version, false, e->coefficient);
    report(e);
    if (e->bayesian)
        hb_kept_save(e);
}

int hb_estimator_retune(hb_estimator *e, const hb_estimator_settings *s, hb_error *err)
{
    int r = hb_setting_rows_check(hb_estimator_rows(), s, err);

    if (r)
        return r;
    work_off(e);
    /* what was summed up of errors while nobody looked says nothing about now */
    if (s->detect_changes && !e->s.detect_changes)
        hb_change_reset(&e->change);
    e->s.detect_changes = s->detect_changes;
    e->s.change_threshold = e->change.threshold = s->change_threshold;
    e->s.span_threshold = s->span_threshold;
    e->s.plausible = s->plausible;
    report(e);
    return 0;
}

/* Evaluates a window that was taken up from memory; `kept`: what was kept about its entries holds. */
static void evaluate_window(hb_estimator *e, bool kept)
{
    hb_window *w = &e->window;
    double needed = hb_effective_reach(&e->actuators);

    for (uint64_t start_at = w->first; start_at < w->next; start_at += HB_STRIDE) {
        int lanes = w->next - start_at < HB_STRIDE ? (int)(w->next - start_at) : HB_STRIDE;
        for (int lane = 0; lane < lanes; lane++) {
            uint64_t sequence = start_at + (uint64_t)lane;
            double known = hb_estimator_load(e, lane, sequence);
            if (!e->bayesian)
                continue;
            e->usable[sequence % (uint64_t)e->nw] = known >= needed - 1e-9 || needed == 0;
            e->weight[sequence % (uint64_t)e->nw] = e->belief[sequence % (uint64_t)e->nw] = 1;
            memset(e->unsure + sequence % (uint64_t)e->nw * (uint64_t)e->m->nx, 0,
                   (size_t)e->m->nx * sizeof *e->unsure);
        }
        hb_rows_evaluate(&e->rows, e->workspace, lanes, e->coefficient);
        for (int lane = 0; lane < lanes; lane++) {
            uint64_t sequence = start_at + (uint64_t)lane;
            if (kept && hb_kept_take_entry(e, sequence))
                continue;
            if (!hb_rows_of_lane(&e->rows, lane, hb_window_at(w, sequence).dz))
                memset(e->rows.row, 0, (size_t)(e->m->nx * e->rows.ld) * sizeof *e->rows.row);
            hb_rows_keep(&e->rows, sequence);
        }
    }
    hb_estimator_count_span(e);
}

/* With all that was believed, if it was kept and can be; else *why says why not. */
static bool resume_belief(hb_estimator *e, hb_error *why)
{
    hb_window_load_coefficients(&e->window, &e->health.version, &e->warm, e->coefficient);
    if (hb_kept_take(e, why))
        return false;
    evaluate_window(e, true);
    return hb_bayes_resume_belief(e, why) == 0;
}

/* Takes a window up from memory, and learns from it. */
static void resume(hb_estimator *e, hb_error *resumed)
{
    hb_error why = {0};
    int count = hb_window_count(&e->window);

    if (e->bayesian && resume_belief(e, &why)) {
        if (resumed)
            hb_fail(resumed, 0, "%d transitions taken up again, with what was known before them", count);
        return;
    }
    if (e->bayesian && resumed)
        hb_fail(resumed, 0, "%d transitions taken up again, without what was known before them: %s", count, why.text);
    start(e);
    e->origin = UINT64_MAX;
    hb_window_load_coefficients(&e->window, &e->health.version, &e->warm, e->coefficient);
    evaluate_window(e, false);
    if (e->bayesian)
        hb_bayes_resume(e);
    else
        hb_plain_resume(e);
}

int hb_estimator_new(hb_estimator **ret, const hb_model *m, const hb_estimator_settings *s, void *memory,
                     hb_error *resumed, hb_error *err)
{
    int r = hb_estimator_check(m, s, err);
    hb_arena arena = {0};

    if (r)
        return r;
    if ((uintptr_t)memory % HB_ALIGNMENT)
        return hb_fail(err, EINVAL, "the window's memory is not aligned to %d bytes", (int)HB_ALIGNMENT);
    void *block = memory;
    lay_out(m, s, &block, &arena);
    if ((r = hb_arena_allocate(&arena, err)))
        return r;
    block = memory;
    hb_estimator *e = lay_out(m, s, &block, &arena);
    if ((r = hb_workspace_new(&e->workspace, m, false, err))) {
        hb_estimator_free(e);
        return r;
    }
    if (e->bayesian)
        hb_posterior_start(&e->posterior);
    start(e);
    /* the mean of the prior is worth using, and that takes a version */
    e->health.version = e->bayesian && m->has_prior;

    const hb_window_extras extras = hb_kept_extras(m);
    bool taken_up = hb_window_open(&e->window, m, e->nw, memory ? &extras : NULL, block, resumed);
    e->origin = taken_up ? UINT64_MAX : e->window.next;
    if (taken_up)
        resume(e, resumed);
    else
        report(e);
    memcpy(e->along, e->coefficient, (size_t)hb_model_ncoefficients(m) * sizeof *e->along);
    e->behind = hb_window_count(&e->window);
    hb_estimator_show_actuators(e);
    *ret = e;
    return 0;
}

const hb_real *hb_estimator_coefficients(const hb_estimator *e)
{
    return e->coefficient;
}

const double *hb_estimator_mean_square(const hb_estimator *e)
{
    return e->mean_square;
}

const double *hb_estimator_variance(const hb_estimator *e)
{
    return e->variance;
}

const double *hb_estimator_covariance(const hb_estimator *e)
{
    return e->bayesian ? e->posterior.covariance : NULL;
}

const double *hb_estimator_noise(const hb_estimator *e)
{
    return e->bayesian ? e->posterior.noise : NULL;
}

const hb_actuators *hb_estimator_actuators(const hb_estimator *e)
{
    return &e->shown;
}

hb_actuator_belief hb_estimator_actuator_belief(const hb_estimator *e)
{
    return e->shown_belief;
}

const hb_health *hb_estimator_health(const hb_estimator *e)
{
    return &e->health;
}

void hb_estimator_seed(hb_estimator *e, const hb_real *coefficient)
{
    if (e->warm)
        return;
    work_off(e);
    memcpy(e->coefficient, coefficient, (size_t)hb_model_ncoefficients(e->m) * sizeof *coefficient);
    if (e->bayesian)
        hb_bayes_seed(e);
    e->health.version++;
    hb_window_save_coefficients(&e->window, e->health.version, false, e->coefficient);
    if (e->bayesian)
        hb_kept_save(e);
}
