#include "eval/tune.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "common/progress.h"

static const double crash = 10;                 /* metres that a crashed flight counts as */
static const double least_heading = 0.01;       /* degrees: less is none */
static const double wide = 3, narrow = 1.5;     /* factors at most, in turns: of something else, and nearby */
static const double level = 0.05;               /* of the sign test by which a trial is behind */
static const uint64_t elsewhere = 0x74756e65;   /* seed of the flights by which the best is judged */
enum { PATH = 1024, LINE = 20000, DIGITS = 3 }; /* digits of a number that is written */

/* One point's flights. */
typedef struct trial {
    hb_tune_point point;
    hb_robust_flight *flight; /* nrows x flights */
    hb_tune_cell *cell;       /* nrows */
} trial;

typedef struct search {
    const hb_tune_settings *s;
    hb_pool *pool;
    hb_plant **plant; /* one per thread */
    /* of the row that is flown now */
    hb_robust_settings robust;
    const hb_robust_row *row;
    hb_robust_flight *to;
    hb_robust_log *log;
    pthread_mutex_t lock;
    int status;
    hb_error err;
} search;

/* --- flights --- */

static double log_error(const hb_robust_flight *f)
{
    return 0.5 * (log(fmin(f->value[HB_MEASURE_FIRST], crash)) + log(fmin(f->value[HB_MEASURE_LATER], crash)));
}

static void fly(void *context, int index, int thread)
{
    search *w = context;
    hb_robust_flight *f = &w->to[index];
    hb_error err = {0};
    int status = 0;

    if (hb_robust_log_find(w->log, w->row, w->s->controller, index, f))
        return;
    if (!w->plant[thread])
        status = hb_plant_new(&w->plant[thread], w->row->plant, &err);
    if (!status)
        status = hb_robust_fly(&w->robust, w->row, w->s->controller, index, w->plant[thread], f, &err);
    pthread_mutex_lock(&w->lock);
    if (!status)
        status = hb_robust_log_add(w->log, w->row, w->s->controller, index, f, &err);
    if (status && !w->status) {
        w->status = status;
        w->err = err;
    }
    pthread_mutex_unlock(&w->lock);
}

static hb_tune_cell sum_up(const hb_robust_flight *f, int n)
{
    hb_tune_cell c = {0};
    double error = 0, heading = 0, effort = 0;

    for (int i = 0; i < n; i++) {
        error += log_error(&f[i]) / n;
        /* after a crash there is no heading: as if it had turned away */
        heading += log(fmin(fmax(f[i].value[HB_MEASURE_LATER_HEADING], least_heading), 180)) / n;
        effort += log(fmax(f[i].value[HB_MEASURE_EFFORT], 1e-6)) / n;
        c.crashed += f[i].crashed;
    }
    c.error = exp(error);
    c.heading = exp(heading);
    c.effort = exp(effort);
    return c;
}

static int open_log(search *w, const char *name, const hb_tune_point *p, hb_error *err)
{
    char path[PATH], line[LINE];

    snprintf(path, sizeof path, "%s/%s.jsonl", w->s->folder, name);
    snprintf(line, sizeof line, "# %s, seed %llu, horizon %d, factors", w->s->settings,
             (unsigned long long)w->robust.seed, p->horizon);
    for (int i = 0; i < w->s->nfactors; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), " %.9g", p->factor[i]);
    return hb_robust_log_open(&w->log, path, line, err);
}

static double mean_log(const hb_tune_cell *c, int n, double (*of)(const hb_tune_cell *))
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += log(of(&c[i])) / n;
    return sum;
}

static double error_of(const hb_tune_cell *c)
{
    return c->error;
}

static double heading_of(const hb_tune_cell *c)
{
    return c->heading;
}

static double effort_of(const hb_tune_cell *c)
{
    return c->effort;
}

static bool loses(const hb_tune_cell *c, const hb_tune_cell *before)
{
    return c->crashed > before->crashed || c->error > HB_TUNE_LOSS * before->error;
}

/* By flights of the rows so far, in pairs: is it behind the best? */
static bool is_behind(const search *w, const trial *t, const trial *best, int nrows)
{
    int better = 0, worse = 0;

    for (int i = 0; i < nrows * w->s->flights; i++) {
        double difference = log_error(&t->flight[i]) - log_error(&best->flight[i]);
        better += difference < 0;
        worse += difference > 0;
    }
    return worse > better && hb_sign_test(better, worse) < level;
}

/* Flies all rows, or until it is worth no more: *ret_done. before and best: NULL: in any case. */
static int fly_all(search *w, const char *name, uint64_t seed, trial *t, const trial *before, const trial *best,
                   hb_progress *progress, double from, double to, bool *ret_done, hb_error *err)
{
    const hb_tune_settings *s = w->s;
    bool done = true;

    w->robust = s->robust;
    w->robust.seed = seed;
    w->robust.factor = t->point.factor;
    w->robust.horizon = t->point.horizon;
    int status = open_log(w, name, &t->point, err);
    for (int r = 0; r < s->nrows && !status && done; r++) {
        w->row = s->row[r];
        w->to = t->flight + r * s->flights;
        hb_pool_run(w->pool, s->flights, fly, w);
        status = w->status;
        if (status) {
            *err = w->err;
            break;
        }
        t->cell[r] = sum_up(w->to, s->flights);
        done = !before || (!loses(&t->cell[r], &before->cell[r]) && !is_behind(w, t, best, r + 1));
        hb_progress_update(progress, from + (to - from) * (r + 1) / s->nrows, name);
    }
    hb_robust_log_free(w->log);
    w->log = NULL;
    *ret_done = done;
    return status;
}

/* --- points --- */

/* A factor whose product with its base has few digits: what is written is what was flown. */
static double rounded(double factor, double base)
{
    char text[40];

    if (!(base > 0))
        return 1;
    snprintf(text, sizeof text, "%.*g", DIGITS, factor * base);
    return strtod(text, NULL) / base;
}

static double draw_factor(hb_random_key key, uint64_t index, double most)
{
    return exp(log(most) * (2 * hb_random_uniform(key, index) - 1));
}

/* Half of the factors, and the horizon in a third of the trials, others than the best has. */
static hb_tune_point draw(const hb_tune_settings *s, int k, const hb_tune_point *best)
{
    hb_random_key key = {.seed = s->robust.seed, .stream = (uint64_t)k};
    double most = k % 2 ? wide : narrow;
    hb_tune_point p = *best;

    for (int i = 0; i < s->nfactors; i++)
        if (hb_random_uniform(key, 3 * (uint64_t)i) < 0.5)
            p.factor[i] = rounded(p.factor[i] * draw_factor(key, 3 * (uint64_t)i + 1, most), s->base[i]);
    if (s->horizon > 0 && hb_random_uniform(key, 1000) < 1.0 / 3) {
        double steps = round(p.horizon * draw_factor(key, 1001, narrow));
        p.horizon = (int)fmax(fmax(2, s->horizon / 2), fmin(steps, 2 * s->horizon));
    }
    return p;
}

/* --- the search --- */

static int make(const search *w, trial *t, hb_error *err)
{
    t->flight = calloc((size_t)w->s->nrows * (size_t)w->s->flights, sizeof *t->flight);
    t->cell = calloc((size_t)w->s->nrows, sizeof *t->cell);
    return t->flight && t->cell ? 0 : hb_fail(err, ENOMEM, "out of memory");
}

static void swap(trial *a, trial *b)
{
    trial t = *a;
    *a = *b;
    *b = t;
}

static bool is_better(const hb_tune_settings *s, const trial *t, const trial *before, const trial *best)
{
    double loss = log(HB_TUNE_LOSS);
    int n = s->nrows;

    return mean_log(t->cell, n, error_of) < mean_log(best->cell, n, error_of) &&
           mean_log(t->cell, n, heading_of) <= mean_log(before->cell, n, heading_of) + loss &&
           mean_log(t->cell, n, effort_of) <= mean_log(before->cell, n, effort_of) + loss;
}

static void judge(const hb_tune_settings *s, hb_tune_result *r)
{
    r->verdict = HB_TUNE_NOTHING;
    if (r->taken == 0)
        return;
    for (int k = 0; k < 2; k++)
        r->ratio[k] =
            exp(mean_log(r->cell[2 * k + 1], s->nrows, error_of) - mean_log(r->cell[2 * k], s->nrows, error_of));
    r->verdict = r->ratio[1] < 1 ? HB_TUNE_BETTER : HB_TUNE_NOT_ELSEWHERE;
    for (int i = 0; i < s->nrows && r->verdict == HB_TUNE_BETTER; i++)
        if (loses(&r->cell[3][i], &r->cell[2][i]))
            r->verdict = HB_TUNE_NOT_ELSEWHERE;
}

static int run(search *w, trial *t, hb_tune_result *r, hb_error *err)
{
    const hb_tune_settings *s = w->s;
    trial *before = &t[0], *best = &t[1], *now = &t[2], *fresh = &t[3];
    uint64_t seed = s->robust.seed, other = seed ^ elsewhere;
    double parts = s->trials + 3;
    hb_progress progress;
    char name[32];
    bool done;

    for (int i = 0; i < HB_NFACTORS; i++)
        before->point.factor[i] = 1;
    before->point.horizon = s->horizon;
    hb_progress_start(&progress, "tune");
    int status = fly_all(w, "before", seed, before, NULL, NULL, &progress, 0, 1 / parts, &done, err);
    best->point = before->point;
    memcpy(best->cell, before->cell, (size_t)s->nrows * sizeof *best->cell);
    memcpy(best->flight, before->flight, (size_t)s->nrows * (size_t)s->flights * sizeof *best->flight);
    for (int k = 1; k <= s->trials && !status; k++) {
        now->point = draw(s, k, &best->point);
        snprintf(name, sizeof name, "trial-%d", k);
        status = fly_all(w, name, seed, now, before, best, &progress, k / parts, (k + 1) / parts, &done, err);
        if (!status && done && is_better(s, now, before, best)) {
            swap(now, best);
            r->taken++;
        }
    }
    for (int after = 0; after < 2 && !status && r->taken > 0; after++) {
        memcpy(r->cell[after], after ? best->cell : before->cell, (size_t)s->nrows * sizeof **r->cell);
        fresh->point = after ? best->point : before->point;
        snprintf(name, sizeof name, "others-%s", after ? "after" : "before");
        status = fly_all(w, name, other, fresh, NULL, NULL, &progress, (s->trials + 1 + after) / parts,
                         (s->trials + 2 + after) / parts, &done, err);
        memcpy(r->cell[2 + after], fresh->cell, (size_t)s->nrows * sizeof **r->cell);
    }
    hb_progress_end(&progress);
    r->best = best->point;
    if (!status)
        judge(s, r);
    return status;
}

int hb_tune(const hb_tune_settings *s, hb_tune_result *ret, hb_error *err)
{
    search w = {.s = s};
    trial t[4] = {0};
    hb_tune_result r = {0};
    int status = hb_pool_new(&w.pool, s->threads, NULL, NULL, err);

    pthread_mutex_init(&w.lock, NULL);
    if (!status && !(w.plant = calloc((size_t)s->threads, sizeof(hb_plant *))))
        status = hb_fail(err, ENOMEM, "out of memory");
    for (int i = 0; i < 4 && !status; i++) {
        status = make(&w, &t[i], err);
        if (!status && !(r.cell[i] = calloc((size_t)s->nrows, sizeof *r.cell[i])))
            status = hb_fail(err, ENOMEM, "out of memory");
    }
    if (!status)
        status = run(&w, t, &r, err);
    for (int i = 0; i < 4; i++) {
        free(t[i].flight);
        free(t[i].cell);
    }
    for (int i = 0; w.plant && i < s->threads; i++)
        hb_plant_free(w.plant[i]);
    free(w.plant);
    hb_pool_free(w.pool);
    pthread_mutex_destroy(&w.lock);
    if (status)
        hb_tune_free(&r);
    else
        *ret = r;
    return status;
}

void hb_tune_free(hb_tune_result *r)
{
    for (int i = 0; i < 4; i++)
        free(r->cell[i]);
    memset(r->cell, 0, sizeof r->cell);
}
