#include "model/physics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/physics_graph.h"

struct hb_physics {
    hb_nominal nominal;
    size_t size; /* of the whole block */
    hb_tape field, adjoint;
    bool kinematic[HB_PHYSICS_VARIABLES];
    char (*parameter_name)[HB_NAME_SIZE];
    char *text;
};

static void field(const hb_nominal *self, const double *parameter, int n, const hb_real *x, const hb_real *u,
                  hb_real *xdot, hb_real *scratch)
{
    const hb_physics *p = self->physics;
    hb_real *space[HB_ROWS_SPACES] = {scratch, (hb_real *)(uintptr_t)x, (hb_real *)(uintptr_t)u, NULL, xdot, NULL};

    (void)parameter; /* they are numbers of the tape */
    hb_physics_run(p->field.operation, p->field.n, space, hb_padded(n));
}

static void adjoint(const hb_nominal *self, const double *parameter, int n, const hb_real *x, const hb_real *u,
                    const hb_real *dxdot, hb_real *dx, hb_real *du, hb_real *scratch)
{
    const hb_physics *p = self->physics;
    hb_real *space[HB_ROWS_SPACES] = {
        scratch, (hb_real *)(uintptr_t)x, (hb_real *)(uintptr_t)u, (hb_real *)(uintptr_t)dxdot, dx, du};

    (void)parameter;
    hb_physics_run(p->adjoint.operation, p->adjoint.n, space, hb_padded(n));
}

/* --- life --- */

/* The parts behind the struct, in one block. */
static void place_parts(hb_physics *p, size_t text_size, hb_arena *arena)
{
    hb_arena_take(arena, 1, sizeof *p);
    p->field.operation = hb_arena_take(arena, (size_t)p->field.n, sizeof *p->field.operation);
    p->adjoint.operation = hb_arena_take(arena, (size_t)p->adjoint.n, sizeof *p->adjoint.operation);
    p->parameter_name = hb_arena_take(arena, (size_t)p->nominal.nparameters, sizeof *p->parameter_name);
    p->text = hb_arena_take(arena, text_size, 1);
}

/* Fills `block`, which has p->size bytes, with p, whose parts may be anywhere. */
static hb_physics *write_block(const hb_physics *p, void *block)
{
    hb_physics copy = *p;
    hb_arena arena = {.base = block, .size = p->size};

    place_parts(&copy, strlen(p->text) + 1, &arena);
    memcpy(copy.field.operation, p->field.operation, (size_t)p->field.n * sizeof *p->field.operation);
    memcpy(copy.adjoint.operation, p->adjoint.operation, (size_t)p->adjoint.n * sizeof *p->adjoint.operation);
    if (p->nominal.nparameters)
        memcpy(copy.parameter_name, p->parameter_name, (size_t)p->nominal.nparameters * sizeof *p->parameter_name);
    strcpy(copy.text, p->text);
    for (int i = 0; i < p->nominal.nparameters; i++)
        copy.nominal.parameter_name[i] = copy.parameter_name[i];
    copy.nominal.physics = block;
    copy.nominal.kinematic = ((hb_physics *)block)->kinematic;
    return memcpy(block, &copy, sizeof copy);
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* What turns velocities into the rates of a position: states times sines and cosines of states, and sums of those,
 * without any number. Their degree is that in the states outside of sines and cosines; -1: it is something else. */
typedef struct turned {
    signed char degree;
    bool turns; /* every term of it has a sine or a cosine */
} turned;

static turned turned_of(const hb_node *n, const turned *before)
{
    const turned neither = {.degree = -1}, a = n->a >= 0 ? before[n->a] : neither,
                 b = n->b >= 0 ? before[n->b] : neither;

    switch (n->op) {
    case HB_OP_INPUT:
        return n->input.space == HB_ROWS_STATE ? (turned){1, false} : neither;
    case HB_OP_NEGATE:
        return a;
    case HB_OP_ADD:
    case HB_OP_SUBTRACT:
        return a.degree == b.degree ? (turned){a.degree, a.turns && b.turns} : neither;
    case HB_OP_MULTIPLY:
        return a.degree >= 0 && b.degree >= 0 && a.degree + b.degree <= 1
                   ? (turned){(signed char)(a.degree + b.degree), a.turns || b.turns}
                   : neither;
    case HB_OP_SIN:
    case HB_OP_COS:
        return a.degree == 1 ? (turned){0, true} : neither;
    default:
        return neither;
    }
}

/* Which rates hold for every vehicle: those that are another state, as a position's is its velocity, or velocities
 * turned. Asked with parameters that are no special numbers: a factor that happens to be 1 would be folded
 * away and not be seen. */
static int find_kinematic(const hb_physics_source *source, bool *ret, hb_error *err)
{
    double value[HB_NOMINAL_PARAMETERS];
    int rate[HB_PHYSICS_VARIABLES];
    hb_physics_source other = *source;
    hb_physics_place nowhere;
    hb_graph *g = malloc(sizeof *g);
    turned *all = calloc(HB_GRAPH_NODES, sizeof *all);
    int status = g && all ? 0 : hb_fail(err, ENOMEM, "out of memory");

    for (int i = 0; i < source->nparameters; i++)
        value[i] = 1.372 + 0.0917 * i;
    other.value = value;
    if (status == 0)
        hb_graph_start(g);
    /* with numbers of which one cannot be, nothing is known */
    hb_error ignored;
    if (status == 0 && hb_physics_read(&other, g, rate, &nowhere, &ignored) == 0) {
        for (int i = 0; i < g->n; i++)
            all[i] = turned_of(&g->node[i], all);
        for (int i = 0; i < source->nx; i++) {
            const turned t = all[rate[i]];
            ret[i] = t.degree == 1 && (t.turns || g->node[rate[i]].op == HB_OP_INPUT);
        }
    }
    free(g);
    free(all);
    return status;
}

/* p's tapes from the rates; `output` has room for nx + nu. */
static int make_tapes(hb_physics *p, hb_graph *g, const int *rate, hb_output *out, hb_error *err)
{
    const int nx = p->nominal.nx, nu = p->nominal.nu;
    int *gradient = calloc(HB_GRAPH_NODES, sizeof *gradient);

    if (!gradient)
        return hb_fail(err, ENOMEM, "out of memory");
    for (int i = 0; i < nx; i++)
        out[i] = (hb_output){rate[i], {HB_ROWS_FIRST, (uint16_t)i}};
    int r = hb_tape_lay_out(&p->field, g, nx, out, err);

    /* inputs that no expression names are made now, so that the gradient has a place for them */
    for (int i = 0; i < nx + nu; i++)
        hb_graph_input(g, i < nx ? HB_ROWS_STATE : HB_ROWS_CONTROL, i < nx ? i : i - nx);
    hb_graph_adjoint(g, nx, rate, gradient);
    for (int i = 0; i < nx + nu; i++) {
        const bool first = i < nx;
        const int index = first ? i : i - nx, input = hb_graph_input(g, first ? HB_ROWS_STATE : HB_ROWS_CONTROL, index);
        out[i] = (hb_output){gradient[input], {first ? HB_ROWS_FIRST : HB_ROWS_SECOND, (uint16_t)index}};
    }
    if (r == 0 && g->full)
        r = hb_fail(err, EINVAL, "the expressions are too large: their derivatives have more than %d operations",
                    HB_PHYSICS_OPERATIONS);
    if (r == 0)
        r = hb_tape_lay_out(&p->adjoint, g, nx + nu, out, err);
    free(gradient);
    p->nominal.rows = larger(p->field.rows, p->adjoint.rows);
    return r;
}

int hb_physics_new(hb_physics **ret, const hb_physics_source *s, hb_physics_place *place, hb_error *err)
{
    hb_physics_place nowhere;
    hb_physics p = {.nominal = {.name = HB_NOMINAL_EXPRESSIONS,
                                .nx = s->nx,
                                .nu = s->nu,
                                .nparameters = s->nparameters,
                                .field = field,
                                .adjoint = adjoint},
                    .parameter_name = s->parameter,
                    .text = (char *)(uintptr_t)s->text};
    int rate[HB_PHYSICS_VARIABLES];
    hb_output out[2 * HB_PHYSICS_VARIABLES] = {0};
    hb_arena arena = {0};

    place = place ? place : &nowhere;
    *place = (hb_physics_place){.line = -1};
    hb_graph *graph = malloc(sizeof *graph);
    if (!graph)
        return hb_fail(err, ENOMEM, "out of memory");
    hb_graph_start(graph);
    int status = hb_physics_read(s, graph, rate, place, err);
    if (status == 0)
        memcpy(p.nominal.parameter_default, s->value, (size_t)s->nparameters * sizeof *s->value);
    if (status == 0)
        status = find_kinematic(s, p.kinematic, err);
    if (status == 0)
        status = make_tapes(&p, graph, rate, out, err);
    if (status == 0) {
        hb_physics measured = p;
        place_parts(&measured, strlen(s->text) + 1, &arena);
        status = hb_arena_allocate(&arena, err);
    }
    if (status == 0) {
        p.size = arena.size;
        *ret = write_block(&p, arena.base);
    }
    free(p.field.operation);
    free(p.adjoint.operation);
    free(graph);
    return status;
}

void hb_physics_free(hb_physics *p)
{
    free(p);
}

const hb_nominal *hb_physics_nominal(const hb_physics *p)
{
    return &p->nominal;
}

const char *hb_physics_text(const hb_physics *p)
{
    return p->text;
}

size_t hb_physics_size(const hb_physics *p)
{
    return p->size;
}

const hb_physics *hb_physics_copy(const hb_physics *p, void *to)
{
    return write_block(p, to);
}
