#include "plan/time_budget.h"

void hb_time_budget_begin(hb_time_budget *p, const hb_clock *clock, double deadline, atomic_bool *stop)
{
    p->clock = clock;
    p->deadline = deadline;
    p->stop = stop;
    p->interrupt = NULL;
    p->pieces = 0;
    p->running = false;
}

/* a piece this many times longer than the mean was interrupted: it says nothing about the next */
static const double interrupted = 8;
/* the largest time fades with every piece, and the expected time with every refusal in a row: otherwise one slow piece
 * would keep all later ones from being tried */
static const double fading = 0.02, doubt = 0.3;

static void end_piece(hb_time_budget *p, double now)
{
    if (!p->running)
        return;
    p->running = false;

    hb_piece_times *t = &p->past[p->running_as];
    double took = now - p->since;
    if (t->count > 0 && took > interrupted * t->mean)
        took = interrupted * t->mean;
    t->count++;
    t->measured = true;
    t->last = took;
    t->mean += (took - t->mean) / (double)(t->count < 100 ? t->count : 100);
    t->max += fading * (t->mean - t->max);
    t->max = took > t->max ? took : t->max;
}

/* between the mean and the longest of the recent ones: a rare long piece may overshoot by its own length, but counting
 * on it every time would leave the end of every budget unused. A kind that was never seen is tried. */
static double expected(const hb_piece_times *t)
{
    return t->mean + (t->max - t->mean) / 4;
}

/* Every plan may end with a refusal. One that begins with a refusal has measured nothing, so it expects less. */
static void refuse(hb_piece_times *t)
{
    if (!t->measured) {
        t->mean *= 1 - doubt;
        t->max *= 1 - doubt;
    }
    t->measured = false;
}

bool hb_time_budget_fits(const hb_time_budget *p, hb_piece kind, int count)
{
    return !p->clock || p->clock->now(p->clock->context) + count * expected(&p->past[kind]) <= p->deadline;
}

void hb_time_budget_rest(hb_time_budget *p)
{
    if (p->clock && p->running)
        end_piece(p, p->clock->now(p->clock->context));
}

bool hb_time_budget_ask(void *context)
{
    hb_time_budget *p = context;

    if (p->clock) {
        double now = p->clock->now(p->clock->context);
        end_piece(p, now);
        if (now >= p->deadline) {
            atomic_store_explicit(p->stop, true, memory_order_relaxed);
        } else if (now + expected(&p->past[p->kind]) > p->deadline) {
            atomic_store_explicit(p->stop, true, memory_order_relaxed);
            refuse(&p->past[p->kind]);
        }
        p->since = now;
        p->running_as = p->kind;
    }
    if (p->interrupt && atomic_load_explicit(p->interrupt, memory_order_relaxed))
        atomic_store_explicit(p->stop, true, memory_order_relaxed);
    if (atomic_load_explicit(p->stop, memory_order_relaxed))
        return false;
    p->running = true;
    p->pieces++;
    if (p->clock && p->clock->begins)
        p->clock->begins(p->clock->context, p->kind);
    return true;
}
