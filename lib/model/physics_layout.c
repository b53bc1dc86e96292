/* Graph -> tape: the order of operations and the rows of scratch that they work in. */
#include <errno.h>
#include <stdlib.h>

#include "model/physics_graph.h"

/* a tape under construction */
typedef struct layout {
    const hb_graph *graph;
    int *uses;   /* of each node by what is still to be laid out */
    hb_row *row; /* where a node's value is, once it is there */
    bool *done;
    int *free_row; /* rows of scratch that are free */
    int nfree;
    int *stack; /* nodes that wait for others */
    hb_tape tape;
    int most; /* operations that there is room for */
    bool full;
} layout;

static bool is_constant(const layout *l, int node)
{
    return hb_graph_is_constant(l->graph, node);
}

/* The operand of a sum or difference that is a product which nothing else needs: both are made in one operation. -1:
 * there is none. */
static int fused_product(const layout *l, const hb_node *n)
{
    const int operand[] = {n->b, n->a};

    if ((n->op != HB_OP_ADD && n->op != HB_OP_SUBTRACT) || is_constant(l, n->a) || is_constant(l, n->b))
        return -1;
    for (int i = 0; i < 2; i++) {
        const hb_node *p = &l->graph->node[operand[i]];
        if (p->op == HB_OP_MULTIPLY && l->uses[operand[i]] == 1 && !l->done[operand[i]])
            /* k a - b is rare enough to be two operations */
            return i == 1 && n->op == HB_OP_SUBTRACT && is_constant(l, p->a) ? -1 : operand[i];
    }
    return -1;
}

static int new_row(layout *l)
{
    return l->nfree ? l->free_row[--l->nfree] : l->tape.rows++;
}

/* One use less; the last one gives the row back. */
static void release(layout *l, int node)
{
    if (--l->uses[node] == 0 && l->done[node] && l->row[node].space == HB_ROWS_SCRATCH)
        l->free_row[l->nfree++] = l->row[node].index;
}

static void emit(layout *l, hb_operation o)
{
    if (l->tape.n == l->most)
        l->full = true;
    else
        l->tape.operation[l->tape.n++] = o;
}

/* A row with the value of an operand; constants are written down the first time. */
static hb_row row_of(layout *l, int node)
{
    const hb_node *n = &l->graph->node[node];

    if (n->op == HB_OP_INPUT)
        return n->input;
    if (!l->done[node] && n->op == HB_OP_CONSTANT) {
        l->row[node] = (hb_row){HB_ROWS_SCRATCH, (uint16_t)new_row(l)};
        l->done[node] = true;
        emit(l, (hb_operation){.code = HB_OP_FILL, .out = l->row[node], .k = (hb_real)n->k});
    }
    return l->row[node];
}

/* What a node asks for before it can be laid out, up to three nodes, and by which operation. Constants that are part of
 * the operation are not among them. */
static hb_operation operation_of(const layout *l, int node, int want[3])
{
    const hb_node *n = &l->graph->node[node];
    const int a = n->a, b = n->b, product = fused_product(l, n);
    const double ka = is_constant(l, a) ? l->graph->node[a].k : 0;
    hb_operation o = {.code = n->op};

    want[0] = a;
    want[1] = b;
    want[2] = -1;
    if (product >= 0) {
        const hb_node *p = &l->graph->node[product];
        const int other = product == b ? a : b;
        const double k = l->graph->node[p->a].k;

        want[0] = p->b;
        want[1] = is_constant(l, p->a) ? other : p->a;
        want[2] = is_constant(l, p->a) ? -1 : other;
        o.code = is_constant(l, p->a) ? HB_OP_MULTIPLY_K_ADD
                 : n->op == HB_OP_ADD ? HB_OP_MULTIPLY_ADD
                 : product == b       ? HB_OP_SUBTRACT_PRODUCT
                                      : HB_OP_MULTIPLY_SUBTRACT;
        o.k = (hb_real)(n->op == HB_OP_SUBTRACT ? -k : k);
    } else if (n->op == HB_OP_SUBTRACT && is_constant(l, b)) {
        o.code = HB_OP_ADD_K;
        o.k = (hb_real)-l->graph->node[b].k;
        want[1] = -1;
    } else if (is_constant(l, a) &&
               (n->op == HB_OP_ADD || n->op == HB_OP_SUBTRACT || n->op == HB_OP_MULTIPLY || n->op == HB_OP_DIVIDE)) {
        o.code = n->op == HB_OP_ADD        ? HB_OP_ADD_K
                 : n->op == HB_OP_SUBTRACT ? HB_OP_K_SUBTRACT
                 : n->op == HB_OP_MULTIPLY ? HB_OP_MULTIPLY_K
                                           : HB_OP_K_DIVIDE;
        o.k = (hb_real)ka;
        want[0] = b;
        want[1] = -1;
    }
    return o;
}

static void lay_out_node(layout *l, int node, hb_operation o, const int want[3], const hb_row *result)
{
    if (want[0] >= 0)
        o.a = row_of(l, want[0]);
    if (want[1] >= 0)
        o.b = row_of(l, want[1]);
    if (want[2] >= 0)
        o.c = row_of(l, want[2]);
    /* the result's row is taken before those of the operands are given back: it is none of them */
    o.out = result ? *result : (hb_row){HB_ROWS_SCRATCH, (uint16_t)new_row(l)};
    emit(l, o);
    l->row[node] = o.out;
    l->done[node] = true;
    for (int i = 0; i < 3; i++)
        if (want[i] >= 0)
            release(l, want[i]);
}

/* Everything that `node` needs, then the node itself. */
static void lay_out_tree(layout *l, int node, hb_row result)
{
    int depth = 0;

    l->stack[depth++] = node;
    while (depth && !l->full) {
        const int top = l->stack[depth - 1];
        int want[3], waits = -1;
        const hb_operation o = operation_of(l, top, want);

        for (int i = 2; i >= 0; i--)
            if (want[i] >= 0 && !l->done[want[i]] && l->graph->node[want[i]].a >= 0)
                waits = want[i];
        if (waits >= 0) {
            l->stack[depth++] = waits;
        } else {
            lay_out_node(l, top, o, want, top == node ? &result : NULL);
            depth--;
        }
    }
}

static void lay_out_result(layout *l, const hb_output *out)
{
    const hb_node *n = out->node >= 0 ? &l->graph->node[out->node] : NULL;

    if (!n || n->op == HB_OP_CONSTANT)
        emit(l, (hb_operation){.code = HB_OP_FILL, .out = out->row, .k = n ? (hb_real)n->k : 0});
    else if (n->op == HB_OP_INPUT || l->done[out->node])
        emit(l, (hb_operation){.code = HB_OP_COPY, .out = out->row, .a = row_of(l, out->node)});
    else
        lay_out_tree(l, out->node, out->row);
    if (n)
        release(l, out->node);
}

static void count_uses(layout *l, int noutputs, const hb_output *out)
{
    int depth = 0;

    for (int i = 0; i < noutputs; i++)
        if (out[i].node >= 0 && l->uses[out[i].node]++ == 0)
            l->stack[depth++] = out[i].node;
    while (depth) {
        const hb_node *n = &l->graph->node[l->stack[--depth]];
        if (n->a >= 0 && l->uses[n->a]++ == 0)
            l->stack[depth++] = n->a;
        if (n->b >= 0 && l->uses[n->b]++ == 0)
            l->stack[depth++] = n->b;
    }
}

int hb_tape_lay_out(hb_tape *ret, const hb_graph *g, int noutputs, const hb_output *out, hb_error *err)
{
    const size_t n = (size_t)g->n;
    layout l = {.graph = g, .most = HB_PHYSICS_OPERATIONS};
    int r = 0;

    l.uses = calloc(n, sizeof *l.uses);
    l.row = calloc(n, sizeof *l.row);
    l.done = calloc(n, sizeof *l.done);
    l.free_row = calloc(n, sizeof *l.free_row);
    l.stack = calloc(n, sizeof *l.stack);
    l.tape.operation = calloc((size_t)l.most, sizeof *l.tape.operation);
    if (!l.uses || !l.row || !l.done || !l.free_row || !l.stack || !l.tape.operation)
        r = hb_fail(err, ENOMEM, "out of memory");
    if (r == 0) {
        count_uses(&l, noutputs, out);
        for (int i = 0; i < noutputs && !l.full; i++)
            lay_out_result(&l, &out[i]);
        if (l.full)
            r = hb_fail(err, EINVAL, "the expressions are too large: more than %d operations", HB_PHYSICS_OPERATIONS);
    }
    free(l.uses);
    free(l.row);
    free(l.done);
    free(l.free_row);
    free(l.stack);
    if (r)
        free(l.tape.operation);
    else
        *ret = l.tape;
    return r;
}
