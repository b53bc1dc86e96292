#include "process/kept_target.h"

#include <stdatomic.h>
#include <string.h>

#include "base/numeric.h"

enum { SLOTS = 2 };

typedef struct slot {
    uint64_t number; /* the larger is the newer */
    uint64_t vehicle;
    hb_kept_target kept;
    uint64_t check; /* of all before it */
} slot;

size_t hb_kept_target_size(void)
{
    return SLOTS * sizeof(slot);
}

/* Identified by the names of its states, so that another model of the same vehicle keeps the target. */
static uint64_t vehicle_of(const hb_model *m)
{
    uint64_t hash = 1;

    for (int i = 0; i < m->nx; i++)
        hash = hb_hash(hash, m->state_name[i], strlen(m->state_name[i]) + 1);
    return hash;
}

static uint64_t check_of(const slot *s)
{
    return hb_hash(2, s, offsetof(slot, check));
}

/* The slot that counts, or NULL. */
static const slot *newest(const slot *s)
{
    const slot *found = NULL;

    for (int i = 0; i < SLOTS; i++)
        if (s[i].number && s[i].check == check_of(&s[i]) && (!found || s[i].number > found->number))
            found = &s[i];
    return found;
}

bool hb_kept_target_load(const void *memory, const hb_model *m, hb_kept_target *ret)
{
    const slot *s = newest(memory);

    if (!s || s->vehicle != vehicle_of(m) || s->kept.n != m->nx || s->kept.nfile < 0 || s->kept.nfile > m->nx ||
        !hb_all_finite(s->kept.target, m->nx) || !memchr(s->kept.by, 0, sizeof s->kept.by))
        return false;
    *ret = s->kept;
    return true;
}

void hb_kept_target_save(void *memory, const hb_model *m, const hb_kept_target *t)
{
    const slot *last = newest(memory);
    slot *to = (slot *)memory + (last == memory), fresh;

    memset(&fresh, 0, sizeof fresh); /* the checksum includes padding */
    fresh.number = last ? last->number + 1 : 1;
    fresh.vehicle = vehicle_of(m);
    fresh.kept.n = t->n;
    memcpy(fresh.kept.target, t->target, sizeof t->target);
    fresh.kept.nfile = t->nfile;
    memcpy(fresh.kept.file, t->file, sizeof t->file);
    fresh.kept.since = t->since;
    memcpy(fresh.kept.by, t->by, sizeof t->by);
    to->check = 0;
    atomic_signal_fence(memory_order_seq_cst);
    memcpy(to, &fresh, offsetof(slot, check));
    atomic_signal_fence(memory_order_seq_cst);
    to->check = check_of(&fresh);
}
