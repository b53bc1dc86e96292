#include "plan/time_budget.h"

#include "plan/numbers.h"

void hb_time_budget_begin(hb_time_budget *p, const hb_clock *clock, double deadline, atomic_bool *stop)
{
    p->clock = clock;
    p->deadline = deadline;
    p->stop = stop;
    p->interrupt = NULL;
    p->pieces = 0;
    p->running = false;
}

static void end_piece(hb_time_budget *p, double now)
{
    if (!p->running)
        return;
    p->running = false;

    hb_piece_times *t = &p->past[p->running_as];
    double took = now - p->since;
    if (t->count > 0 && took > HB_SLOW_PIECE * t->mean)
        took = HB_SLOW_PIECE * t->mean;
    t->count++;
    t->measured = true;
    t->last = took;
    t->mean += (took - t->mean) / (double)(t->count < HB_PIECES ? t->count : HB_PIECES);
    t->max += (t->mean - t->max) / HB_PIECES;
    t->max = took > t->max ? took : t->max;
}

/* between the mean and the longest of the recent ones. A kind that was never seen is tried. */
static double expected(const hb_piece_times *t)
{
    return t->mean + (t->max - t->mean) / HB_SLOW_PIECE;
}

/* Every plan may end with a refusal. One that begins with a refusal has measured nothing, so it expects half as much.
 */
static void refuse(hb_piece_times *t)
{
    if (!t->measured) {
        t->mean /= 2;
        t->max /= 2;
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
