#include "server/queue.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct hb_queue {
    int nx, nu, ntarget;
    hb_pilot configured;
    hb_client *pilot;          /* NULL: nobody flies */
    hb_client *before;         /* the pilot that was silent for too long; NULL: none */
    double lost_at;            /* and when */
    double vacated;            /* clients that came since may be the pilot; infinite: none may */
    hb_client *current_client; /* NULL: there is none */
    bool pilot_had_last;       /* the last turn was the pilot's */
    uint64_t turns;
    hb_waiting in_hand;
    hb_client client[HB_QUEUE_CLIENTS];
};

static void lay_out_place(hb_waiting *w, const hb_queue *sizes, hb_arena *arena)
{
    w->x = hb_arena_take(arena, (size_t)sizes->nx, sizeof *w->x);
    w->target = hb_arena_take(arena, (size_t)sizes->ntarget, sizeof *w->target);
    w->target_time = hb_arena_take(arena, HB_REFERENCE_ROWS, sizeof *w->target_time);
    w->applied = hb_arena_take(arena, (size_t)sizes->nu, sizeof *w->applied);
}

static hb_queue *lay_out(const hb_queue *sizes, hb_arena *arena)
{
    hb_queue none = {0}, *q = hb_arena_object(arena, &none, sizeof none);

    q->nx = sizes->nx;
    q->nu = sizes->nu;
    q->ntarget = sizes->ntarget;
    q->configured = sizes->configured;
    q->vacated = INFINITY;
    lay_out_place(&q->in_hand, sizes, arena);
    for (int i = 0; i < HB_QUEUE_CLIENTS; i++)
        lay_out_place(&q->client[i].waiting, sizes, arena);
    return hb_arena_first(arena);
}

int hb_queue_new(hb_queue **ret, int nx, int nu, int ntarget, const hb_pilot *pilot, hb_error *err)
{
    const hb_queue sizes = {.nx = nx, .nu = nu, .ntarget = ntarget, .configured = *pilot};
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

/* Whether an envelope has the routing id of a client, whatever key it came with. */
static bool is_named_as(const hb_client *c, const hb_envelope *e)
{
    return c->known && c->waiting.envelope.size[0] == e->size[0] &&
           memcmp(c->waiting.envelope.data, e->data, e->size[0]) == 0;
}

static bool is_from(const hb_client *c, const hb_envelope *e)
{
    return is_named_as(c, e) && c->waiting.envelope.key == e->key;
}

/* ---- who flies ---- */

static bool pilot_is_configured(const hb_queue *q)
{
    return *q->configured.name || q->configured.key;
}

/* Whether an envelope is from the configured pilot. */
static bool is_configured(const hb_queue *q, const hb_envelope *e)
{
    const char *name = q->configured.name;

    return (!*name || (e->nframes > 0 && e->size[0] == strlen(name) && memcmp(e->data, name, strlen(name)) == 0)) &&
           (!q->configured.key || e->key == q->configured.key);
}

/* Whether there is a pilot that has asked lately. */
static bool is_flown(const hb_queue *q, double now)
{
    const hb_client *p = q->pilot;

    if (!p || p->waits || q->current_client == p || q->configured.lockstep)
        return p;
    return now - p->seen <= fmin(fmax(HB_PILOT_PERIODS * p->period, HB_PILOT_SOONEST), HB_PILOT_LATEST);
}

static bool returns(const hb_queue *q, const hb_client *c, double now)
{
    return c && c == q->before && now - q->lost_at <= HB_PILOT_RETURNS;
}

bool hb_queue_flown(const hb_queue *q, double now)
{
    return is_flown(q, now);
}

static bool may_fly(const hb_queue *q, const hb_client *c, double now)
{
    if (pilot_is_configured(q))
        return is_configured(q, &c->waiting.envelope);
    if (q->configured.lockstep)
        return !q->pilot || c->since > q->pilot->since;
    return !is_flown(q, now) || returns(q, c, now) || c->since >= q->vacated;
}

/* A client has asked: it becomes the pilot if it may. */
static void seat_pilot(hb_queue *q, hb_client *c, double now)
{
    bool flies_on = c == q->pilot;

    if (!flies_on && !may_fly(q, c, now))
        return;
    q->vacated = INFINITY;
    if (flies_on)
        return;
    /* the first pilot may return, however many others were it meanwhile */
    if (c == q->before) {
        q->before = NULL;
    } else if (!returns(q, q->before, now)) {
        q->before = q->pilot;
        q->lost_at = now;
    }
    q->pilot = c;
    q->pilot_had_last = false;
    c->fresh = true;
}

void hb_queue_vacate(hb_queue *q, double now)
{
    if (q->pilot && !q->pilot->waits && q->current_client != q->pilot)
        q->vacated = now;
}

bool hb_queue_flies(const hb_queue *q, const hb_client *c)
{
    return c == q->pilot;
}

bool hb_queue_is_pilots(const hb_queue *q, const hb_envelope *e, double now)
{
    return !is_flown(q, now) || is_from(q->pilot, e);
}

double hb_queue_pilot_budget(const hb_queue *q, double now)
{
    return is_flown(q, now) ? q->pilot->waiting.budget : INFINITY;
}

/* ---- places ---- */

static bool is_newcomer(const hb_queue *q, const hb_client *c, double now)
{
    return c != q->pilot && now - c->since <= HB_NEWCOMER;
}

/* Others with this client's routing id: their connection is gone, and a reply to them would reach this one. */
static void forget_namesakes(hb_queue *q, const hb_envelope *e)
{
    for (int i = 0; i < HB_QUEUE_CLIENTS; i++) {
        hb_client *c = &q->client[i];
        if (!is_named_as(c, e) || is_from(c, e))
            continue;
        if (c == q->current_client)
            q->in_hand.envelope.nframes = 0;
        c->waits = c->known = false;
        q->pilot = c != q->pilot ? q->pilot : NULL;
        q->before = c != q->before ? q->before : NULL;
    }
}

hb_client *hb_queue_client(hb_queue *q, const hb_envelope *e, double now)
{
    hb_client *room = NULL;
    int newcomers = 0, places = 0;

    forget_namesakes(q, e);

    for (int i = 0; i < HB_QUEUE_CLIENTS; i++) {
        hb_client *c = &q->client[i];
        if (is_from(c, e)) {
            seat_pilot(q, c, now);
            c->period = fmax(now - c->asked, isfinite(c->period) ? 0.5 * c->period : 0);
            c->asked = c->seen = now;
            return c;
        }
        newcomers += c->waits && is_newcomer(q, c, now);
        places += c != q->pilot && !returns(q, c, now) && !c->waits;
        if (c != q->pilot && !returns(q, c, now) && !c->waits &&
            (!room || (room->known && (!c->known || c->seen < room->seen))))
            room = c;
    }
    /* one place is the pilot's, also before it comes */
    bool flies =
        pilot_is_configured(q) ? is_configured(q, e) : q->configured.lockstep || !is_flown(q, now) || now >= q->vacated;
    if (flies && !room && q->pilot && !q->pilot->waits && q->current_client != q->pilot)
        room = q->pilot;
    if (!room || (!flies && (newcomers >= HB_QUEUE_NEWCOMERS || places <= !q->pilot)))
        return NULL;
    room->known = true;
    room->fresh = false;
    room->since = room->asked = room->seen = now;
    room->period = INFINITY;
    room->served = q->turns; /* a newcomer waits for its turn as all do */
    room->waiting.envelope = *e;
    if (q->pilot == room)
        q->pilot = NULL;
    if (q->before == room)
        q->before = NULL;
    seat_pilot(q, room, now);
    return room;
}

void hb_queue_put(hb_queue *q, hb_client *c, const hb_envelope *e, const hb_action_request *r, double budget)
{
    const hb_request *from = &r->request;
    double due = from->received + budget;
    hb_waiting *to = &c->waiting;

    c->due = c->waits ? fmin(c->due, due) : due;
    c->waits = true;
    to->envelope = *e;
    to->id = r->id;
    to->want_plan = r->want_plan;
    to->budget = budget;
    to->request = *from;
    to->request.x = memcpy(to->x, from->x, (size_t)q->nx * sizeof *to->x);
    if (from->target)
        to->request.target =
            memcpy(to->target, from->target, (size_t)from->ntargets * (size_t)q->nx * sizeof *to->target);
    if (from->target_time)
        to->request.target_time =
            memcpy(to->target_time, from->target_time, (size_t)from->ntargets * sizeof *to->target_time);
    if (from->applied)
        to->request.applied = memcpy(to->applied, from->applied, (size_t)q->nu * sizeof *to->applied);
}

/* ---- turns ---- */

static bool goes_before(const hb_client *a, const hb_client *b)
{
    return a->due < b->due || (a->due == b->due && a->served < b->served);
}

hb_client *hb_queue_next(hb_queue *q)
{
    hb_client *next = NULL;

    for (int i = 0; i < HB_QUEUE_CLIENTS; i++) {
        hb_client *c = &q->client[i];
        if (c != q->pilot && c->waits && (!next || goes_before(c, next)))
            next = c;
    }
    bool pilots = q->pilot && q->pilot->waits && (!next || !q->pilot_had_last || pilot_is_configured(q));
    return pilots ? q->pilot : next;
}

void hb_queue_take(hb_queue *q, hb_client *c)
{
    const hb_waiting spare = q->in_hand;

    /* the two places change their memory, so that nothing is copied */
    q->in_hand = c->waiting;
    c->waiting.x = spare.x;
    c->waiting.target = spare.target;
    c->waiting.target_time = spare.target_time;
    c->waiting.applied = spare.applied;
    q->in_hand.request.fresh = c->fresh;
    q->in_hand.request.guest = c != q->pilot;
    q->current_client = c;
    q->pilot_had_last = c == q->pilot;
    c->fresh = false;
    c->served = ++q->turns;
    c->waits = false;
}

void hb_queue_done(hb_queue *q, double now)
{
    if (q->current_client)
        q->current_client->seen = now;
    q->current_client = NULL;
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

int hb_queue_guests(const hb_queue *q, double now, double seconds)
{
    return hb_queue_active(q, now, seconds) - (q->pilot && q->pilot->known && now - q->pilot->seen <= seconds);
}
