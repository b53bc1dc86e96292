#include "server/queue.h"

#include <stdlib.h>
#include <string.h>

struct hb_queue {
    int nx, nu, ntarget;
    uint64_t turns;
    hb_waiting in_hand;
    hb_client client[HB_QUEUE_CLIENTS];
};

static void lay_out_place(hb_waiting *w, const hb_queue *sizes, hb_arena *arena)
{
    double *x = hb_arena_take(arena, (size_t)sizes->nx, sizeof *x);
    double *target = hb_arena_take(arena, (size_t)sizes->ntarget, sizeof *target);
    double *target_time = hb_arena_take(arena, HB_REFERENCE_ROWS, sizeof *target_time);
    double *applied = hb_arena_take(arena, (size_t)sizes->nu, sizeof *applied);

    if (w) {
        w->x = x;
        w->target = target;
        w->target_time = target_time;
        w->applied = applied;
    }
}

static hb_queue *lay_out(const hb_queue *sizes, hb_arena *arena)
{
    hb_queue *q = hb_arena_take(arena, 1, sizeof *q);

    if (q) {
        q->nx = sizes->nx;
        q->nu = sizes->nu;
        q->ntarget = sizes->ntarget;
    }
    lay_out_place(q ? &q->in_hand : NULL, sizes, arena);
    for (int i = 0; i < HB_QUEUE_CLIENTS; i++)
        lay_out_place(q ? &q->client[i].waiting : NULL, sizes, arena);
    return q;
}

int hb_queue_new(hb_queue **ret, int nx, int nu, int ntarget, hb_error *err)
{
    const hb_queue sizes = {.nx = nx, .nu = nu, .ntarget = ntarget};
    hb_arena arena = {0};

    lay_out(&sizes, &arena);
    int r = hb_arena_allocate(&arena, err);
    if (r)
        return r;
    *ret = lay_out(&sizes, &arena);
    return 0;
}

void hb_queue_free(hb_queue *q)
{
    free(q);
}

hb_waiting *hb_queue_in_hand(hb_queue *q)
{
    return &q->in_hand;
}

/* Whether an envelope bears the routing id of a client. */
static bool is_from(const hb_client *c, const hb_envelope *e)
{
    return c->known && c->waiting.envelope.size[0] == e->size[0] &&
           memcmp(c->waiting.envelope.data, e->data, e->size[0]) == 0;
}

hb_client *hb_queue_client(hb_queue *q, const hb_envelope *e, double now)
{
    hb_client *room = NULL;

    for (int i = 0; i < HB_QUEUE_CLIENTS; i++) {
        hb_client *c = &q->client[i];
        if (is_from(c, e)) {
            c->seen = now;
            return c;
        }
        if (!c->waits && (!room || (room->known && (!c->known || c->seen < room->seen))))
            room = c;
    }
    if (room) {
        room->known = true;
        room->seen = now;
        room->served = q->turns; /* a newcomer waits for its turn like everyone else */
        room->waiting.envelope = *e;
    }
    return room;
}

void hb_queue_copy(const hb_queue *q, hb_waiting *to, const hb_envelope *e, const hb_action_request *r, double budget)
{
    size_t ntarget = (size_t)r->request.ntargets * (size_t)q->nx;

    to->envelope = *e;
    to->id = r->id;
    to->want_plan = r->want_plan;
    to->budget = budget;
    to->request = r->request;
    to->request.x = memcpy(to->x, r->request.x, (size_t)q->nx * sizeof *to->x);
    if (r->request.target)
        to->request.target = memcpy(to->target, r->request.target, ntarget * sizeof *to->target);
    if (r->request.target_time)
        to->request.target_time =
            memcpy(to->target_time, r->request.target_time, (size_t)r->request.ntargets * sizeof *to->target_time);
    if (r->request.applied)
        to->request.applied = memcpy(to->applied, r->request.applied, (size_t)q->nu * sizeof *to->applied);
}

hb_client *hb_queue_next(hb_queue *q)
{
    hb_client *next = NULL;

    for (int i = 0; i < HB_QUEUE_CLIENTS; i++) {
        hb_client *c = &q->client[i];
        if (c->waits && (!next || c->served < next->served ||
                         (c->served == next->served && c->waiting.request.received < next->waiting.request.received)))
            next = c;
    }
    return next;
}

void hb_queue_take(hb_queue *q, hb_client *c)
{
    const hb_action_request r = {.id = c->waiting.id, .want_plan = c->waiting.want_plan, .request = c->waiting.request};

    hb_queue_copy(q, &q->in_hand, &c->waiting.envelope, &r, c->waiting.budget);
    c->served = ++q->turns;
    c->waits = false;
}

void hb_queue_drop(hb_client *c)
{
    c->waits = false;
}

hb_client *hb_queue_at(hb_queue *q, int i)
{
    return i < HB_QUEUE_CLIENTS ? &q->client[i] : NULL;
}

int hb_queue_active(const hb_queue *q, double now, double seconds)
{
    int n = 0;

    for (int i = 0; i < HB_QUEUE_CLIENTS; i++)
        n += q->client[i].known && now - q->client[i].seen <= seconds;
    return n;
}
