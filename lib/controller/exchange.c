#include "controller/exchange.h"

#include <limits.h>
#include <string.h>

enum { FRESH = 4 }; /* beside the index of the middle buffer: not read yet */

void hb_exchange_lay_out(hb_exchange *e, const hb_model *m, hb_arena *arena)
{
    for (int i = 0; i < 3; i++) {
        e->buffer[i].coefficient = hb_arena_take(arena, (size_t)hb_model_ncoefficients(m), sizeof(hb_real));
        e->buffer[i].report = hb_arena_take(arena, (size_t)m->nu, sizeof(double));
    }
}

void hb_exchange_init(hb_exchange *e)
{
    e->writing = 0;
    e->reading = 1;
    atomic_init(&e->middle, 2);
    e->hear_until = UINT_MAX;
}

/* ---- snapshots ---- */

hb_snapshot *hb_exchange_fill(hb_exchange *e)
{
    hb_snapshot *s = &e->buffer[e->writing];

    s->number = ++e->snapshots;
    return s;
}

void hb_exchange_publish(hb_exchange *e)
{
    e->writing = atomic_exchange_explicit(&e->middle, e->writing | FRESH, memory_order_acq_rel) & ~FRESH;
}

const hb_snapshot *hb_exchange_newest(hb_exchange *e)
{
    if (atomic_load_explicit(&e->middle, memory_order_relaxed) & FRESH)
        e->reading = atomic_exchange_explicit(&e->middle, e->reading, memory_order_acq_rel) & ~FRESH;
    return &e->buffer[e->reading];
}

/* ---- answers ---- */

const hb_answered *hb_exchange_first_answer(const hb_exchange *e)
{
    unsigned in = atomic_load_explicit(&e->answers_in, memory_order_acquire),
             out = atomic_load_explicit(&e->answers_out, memory_order_relaxed);

    return out != in && out < e->hear_until ? &e->answer[out % HB_ANSWERS] : NULL;
}

void hb_exchange_answer_heard(hb_exchange *e)
{
    unsigned out = atomic_load_explicit(&e->answers_out, memory_order_relaxed);

    atomic_store_explicit(&e->answers_out, out + 1, memory_order_release);
}

void hb_exchange_answer(hb_exchange *e, int64_t from_us, const double *u, int nu)
{
    unsigned in = atomic_load_explicit(&e->answers_in, memory_order_relaxed),
             out = atomic_load_explicit(&e->answers_out, memory_order_acquire);
    hb_answered *a = &e->answer[in % HB_ANSWERS];

    if (in - out == HB_ANSWERS)
        return;
    a->from_us = from_us;
    memcpy(a->u, u, (size_t)nu * sizeof *u);
    atomic_store_explicit(&e->answers_in, in + 1, memory_order_release);
}

/* ---- counters ---- */

void hb_exchange_count(hb_exchange *e, size_t index, uint64_t amount)
{
    atomic_fetch_add_explicit(&e->counter[index], amount, memory_order_relaxed);
}

void hb_exchange_counters(const hb_exchange *e, hb_counters *ret)
{
    uint64_t value[sizeof(hb_counters) / sizeof(uint64_t)];

    for (size_t i = 0; i < sizeof value / sizeof *value; i++)
        value[i] = atomic_load_explicit(&e->counter[i], memory_order_relaxed);
    memcpy(ret, value, sizeof value);
}

void hb_exchange_swap_counters(hb_exchange *a, hb_exchange *b)
{
    for (size_t i = 0; i < sizeof a->counter / sizeof *a->counter; i++) {
        uint64_t mine = atomic_load_explicit(&a->counter[i], memory_order_relaxed);
        atomic_store_explicit(&a->counter[i], atomic_exchange_explicit(&b->counter[i], mine, memory_order_relaxed),
                              memory_order_relaxed);
    }
}
