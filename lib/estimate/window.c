/* A ring of transitions in memory that outlives the process; layout and guarantees: window.h. */
#include "estimate/window.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/numeric.h"

enum { WINDOW_FORMAT = 7 };
enum { DT, CONTINUES, TIMES }; /* the first numbers of an entry */

static const char window_magic[8] = "hbwindow";

typedef struct header {
    char magic[8]; /* written last */
    uint32_t format;
    int32_t nx, nu, nw, ncoefficients, nbelief;
    uint32_t zero;
    uint64_t model;
    uint64_t checksum;      /* of the fields above but the magic */
    _Atomic uint64_t first; /* of the window */
} header;

/* An entry or a slot of coefficients: numbers, the word that orders them, and the proof that both are whole. */
typedef struct record {
    uint64_t order; /* sequence of an entry, version of coefficients; 0: never written */
    uint64_t checksum;
    double value[];
} record;

static size_t round_up(size_t n)
{
    return (n + HB_ALIGNMENT - 1) / HB_ALIGNMENT * HB_ALIGNMENT;
}

/* numbers in a record */
static int entry_values(const hb_window *w)
{
    return TIMES + w->nx + w->nu + w->nx;
}

static int slot_values(const hb_window *w)
{
    return 1 + w->ncoefficients;
}

static size_t record_size(int nvalues)
{
    return round_up(sizeof(record) + (size_t)nvalues * sizeof(double));
}

static header *header_of(const hb_window *w)
{
    return (header *)w->block;
}

static record *slot_of(const hb_window *w, uint64_t version)
{
    return (record *)(w->block + round_up(sizeof(header)) + (version % 2) * record_size(slot_values(w)));
}

/* bytes of what the estimator keeps, none if there is nothing */
static size_t extra_size(int nvalues)
{
    return nvalues > 0 ? record_size(nvalues) : 0;
}

static record *belief_of(const hb_window *w, uint64_t count)
{
    return (record *)(w->block + round_up(sizeof(header)) + 2 * record_size(slot_values(w)) +
                      (count % 2) * extra_size(w->nbelief));
}

static record *entry_of(const hb_window *w, uint64_t sequence)
{
    return (record *)((char *)belief_of(w, 0) + 2 * extra_size(w->nbelief) +
                      (sequence % (uint64_t)w->nw) * record_size(entry_values(w)));
}

static hb_window shape_of(const hb_model *m, int nw, int nbelief)
{
    return (hb_window){.nx = m->nx,
                       .nu = m->nu,
                       .nw = nw,
                       .ncoefficients = hb_model_ncoefficients(m),
                       .nbelief = nbelief,
                       .model = m->hash};
}

size_t hb_window_size(const hb_model *m, int nw, int nbelief)
{
    hb_window w = shape_of(m, nw, nbelief);

    return round_up(sizeof(header)) + 2 * record_size(slot_values(&w)) + 2 * extra_size(w.nbelief) +
           (size_t)nw * record_size(entry_values(&w));
}

/* Sums, and sums of them, in strands that do not wait for one another: there are many numbers for each transition. */
static uint64_t record_checksum(const hb_window *w, const record *r, int nvalues)
{
    enum { STRANDS = 8 };
    uint64_t sum[STRANDS] = {0}, mixed[STRANDS] = {0}, word[STRANDS];
    uint64_t hash = hb_hash(HB_HASH_START, &w->model, sizeof w->model);
    int i = 0;

    hash = hb_hash(hash, &r->order, sizeof r->order);
    for (; i + STRANDS <= nvalues; i += STRANDS) {
        memcpy(word, &r->value[i], sizeof word);
        for (int s = 0; s < STRANDS; s++) {
            sum[s] += word[s];
            mixed[s] = (mixed[s] ^ mixed[s] >> 29) + sum[s];
        }
    }
    hash = hb_hash(hash, &r->value[i], (size_t)(nvalues - i) * sizeof *r->value);
    hash = hb_hash(hash, sum, sizeof sum);
    return hb_hash(hash, mixed, sizeof mixed);
}

static bool record_whole(const hb_window *w, const record *r, int nvalues)
{
    if (r->order == 0 || r->checksum != record_checksum(w, r, nvalues))
        return false;
    return hb_all_finite(r->value, nvalues);
}

/* What was written is whole, and has this place in the order. */
static void finish(const hb_window *w, record *r, uint64_t order, int nvalues)
{
    r->order = order;
    r->checksum = record_checksum(w, r, nvalues);
}

/* Of two slots that are written by turns, the newest that is whole; NULL: none is. */
static const record *newest_of(const hb_window *w, const record *even, const record *odd, int nvalues)
{
    const bool first = even->order % 2 == 0 && record_whole(w, even, nvalues);
    const bool second = odd->order % 2 == 1 && record_whole(w, odd, nvalues);

    if (first && second)
        return even->order > odd->order ? even : odd;
    return first ? even : second ? odd : NULL;
}

static uint64_t header_checksum(const header *h)
{
    return hb_hash(HB_HASH_START, &h->format, offsetof(header, checksum) - offsetof(header, format));
}

/* An empty window in a block of unknown content. */
static void format(hb_window *w, const hb_model *m)
{
    header *h = header_of(w);

    /* as long as the magic is missing there is no window, whatever else the block holds */
    memset(h->magic, 0, sizeof h->magic);
    atomic_signal_fence(memory_order_seq_cst);
    memset(w->block + sizeof h->magic, 0, hb_window_size(m, w->nw, w->nbelief) - sizeof h->magic);
    h->format = WINDOW_FORMAT;
    h->nx = w->nx;
    h->nu = w->nu;
    h->nw = w->nw;
    h->ncoefficients = w->ncoefficients;
    h->nbelief = w->nbelief;
    h->model = w->model;
    h->checksum = header_checksum(h);
    atomic_store_explicit(&h->first, 1, memory_order_relaxed);
    w->first = w->next = 1;
    atomic_signal_fence(memory_order_seq_cst);
    memcpy(h->magic, window_magic, sizeof h->magic);
}

bool hb_window_is(const void *block, size_t size)
{
    return size >= sizeof window_magic && memcmp(block, window_magic, sizeof window_magic) == 0;
}

bool hb_window_is_foreign(const void *block, size_t size, hb_error *which)
{
    uint32_t format;

    if (!hb_window_is(block, size) || size < offsetof(header, format) + sizeof format)
        return false;
    memcpy(&format, (const char *)block + offsetof(header, format), sizeof format);
    if (format == WINDOW_FORMAT)
        return false;
    hb_fail(which, EINVAL, "the window was kept by another version of hilbertd (format %u, this one has %d)", format,
            (int)WINDOW_FORMAT);
    return true;
}

/* Whether the block holds a window of this model and size; if not, says why. */
static bool fits(const hb_window *w, hb_error *why)
{
    const header *h = header_of(w);

    if (memcmp(h->magic, window_magic, sizeof h->magic) != 0) {
        hb_fail(why, ENODATA, "the block holds no window yet");
        return false;
    }
    /* the header of another version may be checked in another way */
    if (hb_window_is_foreign(w->block, sizeof *h, why))
        return false;
    if (h->checksum != header_checksum(h)) {
        hb_fail(why, EBADMSG, "the window's header is damaged (checksum)");
        return false;
    }
    if (h->model != w->model) {
        hb_fail(why, EINVAL, "the window belongs to model %016llx, this one is %016llx", (unsigned long long)h->model,
                (unsigned long long)w->model);
        return false;
    }
    if (h->nx != w->nx || h->nu != w->nu || h->ncoefficients != w->ncoefficients || h->nw != w->nw) {
        hb_fail(
            why, EINVAL,
            "the window has %d transitions of %d states, %d controls and %d coefficients, expected %d, %d, %d and %d",
            h->nw, h->nx, h->nu, h->ncoefficients, w->nw, w->nx, w->nu, w->ncoefficients);
        return false;
    }
    if (h->nbelief != w->nbelief) {
        hb_fail(why, EINVAL, "the window keeps %d numbers of what is believed, expected %d", h->nbelief, w->nbelief);
        return false;
    }
    return true;
}

bool hb_window_open(hb_window *ret, const hb_model *m, int nw, int nbelief, void *memory, hb_error *why)
{
    hb_window w = shape_of(m, nw, nbelief);
    hb_error ignored;

    w.block = memory;
    if (!fits(&w, why ? why : &ignored)) {
        format(&w, m);
        *ret = w;
        return false;
    }

    /* the newest whole entry, then back from it without a break */
    uint64_t start = atomic_load_explicit(&header_of(&w)->first, memory_order_relaxed), newest = 0;
    for (int i = 0; i < nw; i++) {
        const record *r = entry_of(&w, (uint64_t)i);
        if (r->order > newest && r->order % (uint64_t)nw == (uint64_t)i && record_whole(&w, r, entry_values(&w)))
            newest = r->order;
    }
    w.first = w.next = newest + 1 > start ? newest + 1 : start;
    while (w.first > start && w.next - w.first < (uint64_t)nw) {
        const record *r = entry_of(&w, w.first - 1);
        if (r->order != w.first - 1 || !record_whole(&w, r, entry_values(&w)))
            break;
        w.first--;
    }
    for (uint64_t i = 0; i < 2 && w.nbelief > 0; i++) /* never to write over the newest, whole or not */
        w.beliefs = belief_of(&w, i)->order > w.beliefs ? belief_of(&w, i)->order : w.beliefs;
    if (why)
        hb_fail(why, 0, "%d transitions taken up again", hb_window_count(&w));
    *ret = w;
    return true;
}

hb_window_entry hb_window_at(const hb_window *w, uint64_t sequence)
{
    const double *value = entry_of(w, sequence)->value, *z = value + TIMES, *u = z + w->nx;

    return (hb_window_entry){.dt = value[DT], .continues = value[CONTINUES] > 0, .z = z, .u = u, .dz = u + w->nu};
}

void hb_window_append(hb_window *w, const hb_window_entry *e)
{
    record *r = entry_of(w, w->next);
    double *z = r->value + TIMES, *u = z + w->nx, *dz = u + w->nu;

    r->value[DT] = e->dt;
    r->value[CONTINUES] = e->continues;
    memcpy(z, e->z, (size_t)w->nx * sizeof *z);
    if (w->nu > 0)
        memcpy(u, e->u, (size_t)w->nu * sizeof *u);
    memcpy(dz, e->dz, (size_t)w->nx * sizeof *dz);
    finish(w, r, w->next, entry_values(w));
    w->next++;
    if (w->next - w->first > (uint64_t)w->nw)
        hb_window_drop_before(w, w->next - (uint64_t)w->nw);
}

void hb_window_drop_before(hb_window *w, uint64_t sequence)
{
    w->first = sequence;
    atomic_store_explicit(&header_of(w)->first, sequence, memory_order_relaxed);
}

void hb_window_save_coefficients(hb_window *w, uint64_t version, bool estimated, const hb_real *coefficient)
{
    record *r = slot_of(w, version);

    r->value[0] = estimated;
    for (int i = 0; i < w->ncoefficients; i++)
        r->value[1 + i] = coefficient[i];
    finish(w, r, version, slot_values(w));
}

bool hb_window_load_coefficients(const hb_window *w, uint64_t *ret_version, bool *ret_estimated, hb_real *ret)
{
    const record *best = newest_of(w, slot_of(w, 0), slot_of(w, 1), slot_values(w));

    if (!best)
        return false;
    *ret_version = best->order;
    *ret_estimated = best->value[0] > 0;
    for (int i = 0; i < w->ncoefficients; i++)
        ret[i] = (hb_real)best->value[1 + i];
    return true;
}

/* ---- what the estimator keeps ---- */

double *hb_window_begin_belief(hb_window *w)
{
    if (w->nbelief == 0)
        return NULL;
    belief_of(w, w->beliefs + 1)->order = 0;
    return belief_of(w, w->beliefs + 1)->value;
}

void hb_window_end_belief(hb_window *w)
{
    w->beliefs++;
    finish(w, belief_of(w, w->beliefs), w->beliefs, w->nbelief);
}

const double *hb_window_belief(const hb_window *w)
{
    const record *best = w->nbelief > 0 ? newest_of(w, belief_of(w, 0), belief_of(w, 1), w->nbelief) : NULL;

    return best ? best->value : NULL;
}
