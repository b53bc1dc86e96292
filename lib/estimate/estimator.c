/* The interface, and the walk of a transition: normalise, find the controls that acted, evaluate the basis, learn. */
#include "estimate/estimator.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/numeric.h"
#include "estimate/estimator_internal.h"

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
    return 2 * (size_t)m->nx + (size_t)m->nu;
}

static hb_belief_settings belief_settings(const hb_model *m, const hb_estimator_settings *s)
{
    double ridge = s->ridge < 0 ? m->ridge : s->ridge;

    /* a ridge is relative to the mean over transitions, so much as that of one */
    return (hb_belief_settings){.window = s->window,
                                .change_interval = s->detect_changes ? s->change_interval : 0,
                                .outlier_share = s->outlier_share,
                                .ridge = ridge};
}

static hb_estimator *lay_out(const hb_model *m, const hb_estimator_settings *s, void **memory, hb_arena *arena)
{
    size_t nx = (size_t)m->nx, nc = (size_t)hb_model_ncoefficients(m);
    bool per_state = m->shape == HB_PER_STATE, bayesian = s->posterior && s->method == HB_LEAST_SQUARES;
    int nproblems = hb_model_nproblems(m), nw = transitions(m, s->window);
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
        .sensitivity = {.m = m},
        .belief = {.m = m, .s = belief_settings(m, s)},
    };

    e.warmup = e.warmup < nw ? e.warmup : nw;
    e.nunknown = hb_estimator_unknown_actuators(m, s, e.unknown);
    e.rows = (hb_rows){.m = m, .nw = nw, .ld = hb_estimator_row_length(m, e.nunknown), .nfixed = e.nunknown};
    if (bayesian) {
        e.belief.ld = e.rows.ld;
        e.belief.nfixed = e.nunknown;
        hb_estimator_bound_actuators(e.unknown, e.nunknown, e.belief.least, e.belief.most);
        hb_belief_lay_out(&e.belief, arena);
        e.usable = hb_arena_take(arena, (size_t)nw, sizeof *e.usable);
    } else {
        hb_regression_lay_out(&e.regression, arena);
    }
    hb_rows_lay_out(&e.rows, arena);
    if (bayesian)
        hb_sensitivity_lay_out(&e.sensitivity, arena);
    e.coefficient = hb_arena_take(arena, nc, sizeof *e.coefficient);
    e.along = bayesian ? hb_arena_take(arena, nc, sizeof *e.along) : e.coefficient;
    e.variance = hb_arena_take(arena, nc, sizeof *e.variance);
    e.rest_control = hb_arena_take(arena, (size_t)m->nu, sizeof *e.rest_control);
    e.problem = hb_arena_take(arena, (size_t)nproblems, sizeof *e.problem);
    e.error = hb_arena_take(arena, nx, sizeof *e.error);
    e.mean_square = hb_arena_take(arena, nx, sizeof *e.mean_square);
    e.control = hb_arena_take(arena, (size_t)m->nu, sizeof *e.control);
    e.staged_value = hb_arena_take(arena, HB_ESTIMATOR_TOGETHER * staged_size(m), sizeof *e.staged_value);
    if (!*memory)
        *memory = hb_arena_take(arena, 1, hb_window_size(m, nw, 0)); /* which ends with the process */
    if (taken)
        *taken = e;
    return taken;
}

size_t hb_estimator_memory_size(const hb_model *m, const hb_estimator_settings *s)
{
    return hb_window_size(m, transitions(m, s->window), hb_belief_kept(m, s));
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

double hb_estimator_error(const hb_estimator *e, const double *row, const hb_real *coefficient, int state)
{
    const double *g = row + state * e->rows.ld;
    double error = g[e->m->nb + e->nunknown];

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

    if (past->sequence < e->origin || past->sequence - e->origin >= HB_LOOKED_BACK)
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

double hb_estimator_load(hb_estimator *e, int lane, uint64_t sequence)
{
    hb_window_entry entry;
    double known = hb_estimator_controls(e, &e->actuators, sequence, &entry);

    hb_rows_load(&e->rows, lane, &entry, e->control);
    return known;
}

/* ---- the walk ---- */

bool hb_estimator_row(hb_estimator *e, int lane, int variants, const double *dz)
{
    if (!hb_rows_of_lane(&e->rows, lane, dz))
        return false;
    hb_estimator_take_slopes(e, lane, variants);
    hb_sensitivity_complete(&e->sensitivity, &e->rows, e->along);
    return hb_all_finite(e->rows.row, e->m->nx * e->rows.ld);
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
    if (!hb_estimator_row(e, lane, e->nstaged + lane * e->nunknown, ret->dz)) {
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

void hb_estimator_slide(hb_estimator *e, const hb_window_entry *entry)
{
    hb_window *w = &e->window;

    if (hb_window_count(w) == w->nw)
        e->health.span_seconds -= hb_window_at(w, w->first).dt;
    hb_rows_keep(&e->rows, w->next);
    hb_window_append(w, entry);
    e->health.span_seconds += entry->dt;
    e->seconds += entry->dt;
}

/* The command that was in force before the one that is staged now, NULL if none is known. */
static const double *command_before(const hb_estimator *e)
{
    if (e->nstaged > 0)
        return e->staged[e->nstaged - 1].u;
    if (hb_window_count(&e->window) == 0)
        return NULL;
    return hb_window_at(&e->window, e->window.next - 1).u;
}

/* Normalised, to the staged entry; false when a number is not finite in single precision. */
static bool normalise(hb_estimator *e, const hb_transition *t)
{
    const hb_model *m = e->m;
    int nu = m->nu;
    double *z = e->staged_value + (size_t)e->nstaged * staged_size(m), *u = z + m->nx;
    double *dz = u + nu, check = hb_zero_if_finite_real(t->dt);
    const double *before = command_before(e);

    e->impossible[e->nstaged] = false;
    for (int i = 0; i < m->nx; i++) {
        z[i] = hb_normalised_state(m, i, t->x[i]);
        dz[i] = (t->x_next[i] - t->x[i]) / m->state_std[i];
        check += hb_zero_if_finite((double)((hb_real)z[i] + (hb_real)dz[i]));
    }
    for (int i = 0; i < nu; i++) {
        /* a command that is farther outside the bounds than they are apart was never given */
        double range = m->control_max[i] - m->control_min[i];
        check += hb_zero_if_finite_real(hb_normalised_control(m, i, t->u[i]));
        u[i] = hb_normalised_control(m, i, t->u[i]);
        if (!e->bayesian || (t->u[i] >= m->control_min[i] - range && t->u[i] <= m->control_max[i] + range))
            continue;
        /* no such command was given: the one before it went on */
        e->impossible[e->nstaged] = true;
        u[i] = before ? before[i] : hb_normalised_control(m, i, m->control_trim[i]);
    }
    for (int i = 0; i < nu && e->window.next + (uint64_t)e->nstaged == e->origin; i++) {
        double rest = t->before ? t->before[i] : m->control_trim[i];
        check += hb_zero_if_finite_real(rest);
        e->rest_control[i] = hb_normalised_control(m, i, fmin(fmax(rest, m->control_min[i]), m->control_max[i]));
    }
    e->staged[e->nstaged] =
        (hb_window_entry){.dt = t->dt, .continues = t->continues && !e->broken, .z = z, .u = u, .dz = dz};
    return check == 0 && t->dt > 0;
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

bool hb_estimator_work(hb_estimator *e)
{
    switch (e->work) {
    case HB_WORK_NONE:
        return false;
    case HB_WORK_RELEARN:
        hb_belief_relearn(e, HB_LOOKED_BACK);
        e->work = HB_WORK_KEEP;
        break;
    case HB_WORK_KEEP:
        hb_belief_keep(e);
        e->work = HB_WORK_NONE;
        break;
    }
    return true;
}

static void work_off(hb_estimator *e)
{
    while (hb_estimator_work(e))
        ;
}

static void leave_work(hb_estimator *e)
{
    e->work = hb_belief_is_outdated(e) ? HB_WORK_RELEARN : HB_WORK_KEEP;
    if (e->seconds >= HB_CONFIRM_TIME + HB_SOON)
        return;
    work_off(e);
    hb_belief_show(e);
}

void hb_estimator_settle(hb_estimator *e)
{
    if (e->nstaged == 0)
        return;
    work_off(e);
    for (int lane = 0; lane < e->nstaged; lane++)
        e->known[lane] = hb_estimator_load(e, lane, e->window.next + (uint64_t)lane);
    hb_estimator_choose_variants(e);
    for (int lane = 0; lane < e->nstaged; lane++)
        hb_estimator_load_variants(e, e->window.next + (uint64_t)lane, e->nstaged + lane * e->nunknown);
    /* what is staged together is of the same moment, about: one Phi serves all */
    int first = e->nstaged * (1 + e->nunknown);
    hb_sensitivity_load(&e->sensitivity, &e->rows, 0, first);
    hb_rows_evaluate(&e->rows, e->workspace, first + e->sensitivity.lanes, e->along);
    hb_sensitivity_find(&e->sensitivity, &e->rows, 0, first);
    int used = e->bayesian ? hb_belief_learn_staged(e) : hb_plain_learn(e);
    e->health.rejected += (uint64_t)(e->nstaged - used);
    e->nstaged = 0;
    if (e->bayesian && used > 0)
        leave_work(e);
}

void hb_estimator_push(hb_estimator *e, const hb_transition *t)
{
    if (hb_estimator_stage(e, t))
        hb_estimator_settle(e);
}

static void report(hb_estimator *e)
{
    if (e->bayesian)
        hb_belief_report(e);
    else
        hb_plain_report(e);
}

/* ---- the interface ---- */

/* Nothing is known but the prior. */
static void start(hb_estimator *e)
{
    memset(e->variance, 0, (size_t)hb_model_ncoefficients(e->m) * sizeof *e->variance);
    e->work = HB_WORK_NONE;
    e->warm = false;
    hb_estimator_start_actuators(e);
    if (e->bayesian)
        hb_belief_forget(e);
    else
        hb_plain_reset(e);
    hb_estimator_take_actuators(e);
    e->nstaged = 0;
    e->broken = true;
    e->predictions = 0;
    e->seconds = 0;
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
        hb_belief_keep(e);
}

int hb_estimator_retune(hb_estimator *e, const hb_estimator_settings *s, hb_error *err)
{
    int r = hb_setting_rows_check(hb_estimator_rows(), s, err);

    if (r)
        return r;
    work_off(e);
    e->s.detect_changes = s->detect_changes;
    e->s.change_interval = s->change_interval;
    e->s.outlier_share = s->outlier_share;
    e->belief.s = belief_settings(e->m, &e->s);
    e->s.span_threshold = s->span_threshold;
    e->s.plausible = s->plausible;
    report(e);
    return 0;
}

void hb_estimator_evaluate(hb_estimator *e, uint64_t from, void (*use)(hb_estimator *e, uint64_t sequence, bool finite))
{
    hb_window *w = &e->window;
    hb_sensitivity *s = &e->sensitivity;
    hb_estimator_choose_variants(e);
    int others = e->nunknown + s->lanes; /* lanes of a transition beside its own */
    uint64_t together = (uint64_t)(HB_STRIDE / (1 + others));

    for (uint64_t at = from; at < w->next; at += together) {
        int lanes = w->next - at < together ? (int)(w->next - at) : (int)together;
        for (int lane = 0; lane < lanes; lane++) {
            e->known[0] = hb_estimator_load(e, lane, at + (uint64_t)lane);
            if (e->bayesian)
                e->usable[hb_estimator_slot(e, at + (uint64_t)lane)] &= e->known[0] >= hb_estimator_past(e) - 1e-9;
            hb_estimator_load_variants(e, at + (uint64_t)lane, lanes + lane * others);
            hb_sensitivity_load(s, &e->rows, lane, lanes + lane * others + e->nunknown);
        }
        hb_rows_evaluate(&e->rows, e->workspace, lanes * (1 + others), e->along);
        for (int lane = 0; lane < lanes; lane++) {
            int first = lanes + lane * others;
            hb_sensitivity_find(s, &e->rows, lane, first + e->nunknown);
            use(e, at + (uint64_t)lane, hb_estimator_row(e, lane, first, hb_window_at(w, at + (uint64_t)lane).dz));
        }
    }
}

static void keep_row(hb_estimator *e, uint64_t sequence, bool finite)
{
    if (!finite)
        memset(e->rows.row, 0, (size_t)(e->m->nx * e->rows.ld) * sizeof *e->rows.row);
    hb_rows_keep(&e->rows, sequence);
}

/* Evaluates a window that was taken up from memory. */
static void evaluate_window(hb_estimator *e)
{
    if (e->bayesian)
        memset(e->usable, true, (size_t)e->nw * sizeof *e->usable);
    hb_estimator_evaluate(e, e->window.first, keep_row);
    hb_estimator_count_span(e);
}

/* Takes a window up from memory: with all that was believed, if it was kept and can be; else it is learned from
 * again. */
static void resume(hb_estimator *e, hb_error *resumed)
{
    hb_error why = {0};
    int count = hb_window_count(&e->window);

    hb_window_load_coefficients(&e->window, &e->health.version, &e->warm, e->coefficient);
    if (e->bayesian)
        memcpy(e->along, e->coefficient, (size_t)hb_model_ncoefficients(e->m) * sizeof *e->along);
    if (!e->bayesian) {
        evaluate_window(e);
        hb_plain_resume(e);
        return;
    }
    int r = hb_belief_take_up(e, &why);
    evaluate_window(e);
    if (!r)
        r = hb_belief_examine(e, &why);
    if (!r) {
        if (resumed)
            hb_fail(resumed, 0, "%d transitions taken up again, with what was known before them", count);
        return;
    }
    if (resumed)
        hb_fail(resumed, 0, "%d transitions taken up again, without what was known before them: %s", count, why.text);
    uint64_t version = e->health.version;
    start(e);
    e->origin = UINT64_MAX;
    e->warm = count >= e->warmup;
    /* twice: at first along the population's coefficients, which may be far off */
    for (int pass = 0; pass < 2; pass++) {
        hb_belief_relearn(e, count);
        hb_belief_show(e);
    }
    e->health.version = version + 1;
    hb_belief_show(e);
    hb_belief_keep(e);
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
    r = hb_workspace_new(&e->workspace, m, false, err);
    if (r) {
        hb_estimator_free(e);
        return r;
    }
    if (e->bayesian)
        hb_belief_start(&e->belief);
    start(e);
    /* the mean of the prior is worth using, and that takes a version */
    e->health.version = e->bayesian && m->has_prior;

    bool taken_up = hb_window_open(&e->window, m, e->nw, memory ? hb_belief_kept(m, s) : 0, block, resumed);
    e->origin = taken_up ? UINT64_MAX : e->window.next;
    if (taken_up)
        resume(e, resumed);
    else
        report(e);
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
    return e->bayesian ? e->belief.covariance : NULL;
}

const double *hb_estimator_noise(const hb_estimator *e)
{
    return e->bayesian ? e->belief.noise : NULL;
}

const hb_actuators *hb_estimator_actuators(const hb_estimator *e)
{
    return &e->actuators;
}

hb_actuator_belief hb_estimator_actuator_belief(const hb_estimator *e)
{
    return e->actuator_belief;
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
        hb_belief_take_seed(e);
    e->health.version++;
    hb_window_save_coefficients(&e->window, e->health.version, false, e->coefficient);
    if (e->bayesian)
        hb_belief_keep(e);
}
