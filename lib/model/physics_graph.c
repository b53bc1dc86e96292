#include "model/physics_graph.h"

#include <math.h>
#include <string.h>

#include "base/numeric.h"

static uint64_t hash_node(const hb_node *n)
{
    uint64_t bits;

    memcpy(&bits, &n->k, sizeof bits);
    const uint64_t parts[] = {n->op, n->input.space, n->input.index, (uint64_t)(n->a + 1), (uint64_t)(n->b + 1), bits};
    return hb_hash(HB_HASH_START, parts, sizeof parts);
}

static bool same_node(const hb_node *n, const hb_node *m)
{
    return n->op == m->op && n->input.space == m->input.space && n->input.index == m->input.index && n->a == m->a &&
           n->b == m->b && memcmp(&n->k, &m->k, sizeof n->k) == 0;
}

static int find_or_add(hb_graph *g, hb_node node)
{
    const size_t nslots = sizeof g->slot / sizeof *g->slot;
    size_t at = (size_t)(hash_node(&node) % nslots);

    for (; g->slot[at]; at = (at + 1) % nslots)
        if (same_node(&g->node[g->slot[at] - 1], &node))
            return g->slot[at] - 1;
    if (g->n == HB_GRAPH_NODES) {
        g->full = true;
        return 0;
    }
    g->node[g->n] = node;
    g->slot[at] = ++g->n;
    return g->n - 1;
}

void hb_graph_start(hb_graph *g)
{
    memset(g, 0, sizeof *g);
    hb_graph_constant(g, 0);
}

int hb_graph_constant(hb_graph *g, double k)
{
    /* 0 and -0 are one node */
    return find_or_add(g, (hb_node){.op = HB_OP_CONSTANT, .a = -1, .b = -1, .k = k == 0 ? 0 : k});
}

int hb_graph_input(hb_graph *g, hb_row_space space, int index)
{
    return find_or_add(g, (hb_node){.op = HB_OP_INPUT, .input = {(uint16_t)space, (uint16_t)index}, .a = -1, .b = -1});
}

static double fold(hb_op op, double a, double b)
{
    switch (op) {
    case HB_OP_NEGATE:
        return -a;
    case HB_OP_ADD:
        return a + b;
    case HB_OP_SUBTRACT:
        return a - b;
    case HB_OP_MULTIPLY:
        return a * b;
    case HB_OP_DIVIDE:
        return a / b;
    case HB_OP_POWER:
        return pow(a, b);
    case HB_OP_SIN:
        return sin(a);
    case HB_OP_COS:
        return cos(a);
    case HB_OP_TAN:
        return tan(a);
    case HB_OP_ASIN:
        return asin(a);
    case HB_OP_ACOS:
        return acos(a);
    case HB_OP_ATAN:
        return atan(a);
    case HB_OP_ATAN2:
        return atan2(a, b);
    case HB_OP_TANH:
        return tanh(a);
    case HB_OP_EXP:
        return exp(a);
    case HB_OP_LOG:
        return log(a);
    case HB_OP_SQRT:
        return sqrt(a);
    case HB_OP_ABS:
        return fabs(a);
    case HB_OP_SIGN:
        return (a > 0) - (a < 0);
    case HB_OP_MIN:
        return fmin(a, b);
    case HB_OP_MAX:
        return fmax(a, b);
    default:
        return a < b;
    }
}

/* a^k for a small whole number k, by squaring */
static int whole_power(hb_graph *g, int a, int k)
{
    int result = -1;

    for (; k; k /= 2) {
        if (k % 2)
            result = result < 0 ? a : hb_graph_apply(g, HB_OP_MULTIPLY, result, a);
        if (k > 1)
            a = hb_graph_apply(g, HB_OP_MULTIPLY, a, a);
    }
    return result;
}

static int power(hb_graph *g, int a, double k)
{
    enum { LARGEST = 16 };

    if (k == 0)
        return hb_graph_constant(g, 1);
    if (k == 0.5)
        return hb_graph_apply(g, HB_OP_SQRT, a, -1);
    if (k != floor(k) || fabs(k) > LARGEST)
        return -1;
    int positive = whole_power(g, a, (int)fabs(k));
    return k > 0 ? positive : hb_graph_apply(g, HB_OP_DIVIDE, hb_graph_constant(g, 1), positive);
}

/* The node that a simpler one replaces, or -1. */
static int simpler(hb_graph *g, hb_op op, int a, int b)
{
    const hb_node *left = &g->node[a], *right = b >= 0 ? &g->node[b] : NULL;
    const bool left_k = left->op == HB_OP_CONSTANT, right_k = right && right->op == HB_OP_CONSTANT;
    const double l = left->k, r = right ? right->k : 0;

    if (left_k && (!right || right_k))
        return hb_graph_constant(g, fold(op, l, r));
    switch (op) {
    case HB_OP_NEGATE:
        return left->op == HB_OP_NEGATE ? left->a : -1;
    case HB_OP_ADD:
        if (left_k && l == 0)
            return b;
        if (right_k && r == 0)
            return a;
        if (right->op == HB_OP_NEGATE)
            return hb_graph_apply(g, HB_OP_SUBTRACT, a, right->a);
        return left->op == HB_OP_NEGATE ? hb_graph_apply(g, HB_OP_SUBTRACT, b, left->a) : -1;
    case HB_OP_SUBTRACT:
        if (left_k && l == 0)
            return hb_graph_apply(g, HB_OP_NEGATE, b, -1);
        if (right_k && r == 0)
            return a;
        return right->op == HB_OP_NEGATE ? hb_graph_apply(g, HB_OP_ADD, a, right->a) : -1;
    case HB_OP_MULTIPLY:
        if (left_k)
            return l == 0    ? a
                   : l == 1  ? b
                   : l == -1 ? hb_graph_apply(g, HB_OP_NEGATE, b, -1)
                   /* k (k' x) is (k k') x */
                   : right->op == HB_OP_MULTIPLY && g->node[right->a].op == HB_OP_CONSTANT
                       ? hb_graph_apply(g, HB_OP_MULTIPLY, hb_graph_constant(g, l * g->node[right->a].k), right->b)
                       : -1;
        return -1;
    case HB_OP_DIVIDE:
        /* a division takes several times as long as a product */
        if (right_k && isfinite(1 / r))
            return hb_graph_apply(g, HB_OP_MULTIPLY, hb_graph_constant(g, 1 / r), a);
        return left_k && l == 0 ? a : -1;
    case HB_OP_POWER:
        return right_k ? power(g, a, r) : -1;
    default:
        return -1;
    }
}

int hb_graph_apply(hb_graph *g, hb_op op, int a, int b)
{
    if (g->full)
        return 0;
    /* what commutes has one order: the constant first, then the older node */
    if ((op == HB_OP_ADD || op == HB_OP_MULTIPLY) && !hb_graph_is_constant(g, a) &&
        (hb_graph_is_constant(g, b) || b < a)) {
        int swap = a;
        a = b;
        b = swap;
    }
    int found = simpler(g, op, a, b);
    return found >= 0 ? found : find_or_add(g, (hb_node){.op = (uint16_t)op, .a = a, .b = b});
}

/* --- derivatives --- */

static void add_to(hb_graph *g, int *sum, int term)
{
    *sum = *sum < 0 ? term : hb_graph_apply(g, HB_OP_ADD, *sum, term);
}

static int times(hb_graph *g, int a, int b)
{
    return hb_graph_apply(g, HB_OP_MULTIPLY, a, b);
}

static int over(hb_graph *g, int a, int b)
{
    return hb_graph_apply(g, HB_OP_DIVIDE, a, b);
}

static int minus(hb_graph *g, int a, int b)
{
    return hb_graph_apply(g, HB_OP_SUBTRACT, a, b);
}

/* What d, the gradient of node `self`, adds to that of its first and second operand. */
static void pull_back(hb_graph *g, int self, int d, int *to_a, int *to_b)
{
    const hb_node n = g->node[self];
    const int a = n.a, b = n.b, one = hb_graph_constant(g, 1);
    /* a speed sqrt(vx^2 + vy^2) has no slope at rest; with this in the place of 0 it is 0 there, not 0 / 0 */
    const int least = hb_graph_constant(g, 1e-12);
    int da = -1, db = -1;

    switch ((hb_op)n.op) {
    case HB_OP_NEGATE:
        da = hb_graph_apply(g, HB_OP_NEGATE, d, -1);
        break;
    case HB_OP_ADD:
        da = db = d;
        break;
    case HB_OP_SUBTRACT:
        da = d;
        db = hb_graph_apply(g, HB_OP_NEGATE, d, -1);
        break;
    case HB_OP_MULTIPLY:
        da = times(g, b, d);
        db = times(g, a, d);
        break;
    case HB_OP_DIVIDE:
        da = over(g, d, b);
        db = hb_graph_apply(g, HB_OP_NEGATE, times(g, self, da), -1);
        break;
    case HB_OP_POWER:
        /* b a^(b - 1), and log(a) a^b */
        da = times(g, d, times(g, b, hb_graph_apply(g, HB_OP_POWER, a, minus(g, b, one))));
        if (!hb_graph_is_constant(g, b))
            db = times(g, d, times(g, self, hb_graph_apply(g, HB_OP_LOG, a, -1)));
        break;
    case HB_OP_SIN:
        da = times(g, d, hb_graph_apply(g, HB_OP_COS, a, -1));
        break;
    case HB_OP_COS:
        da = hb_graph_apply(g, HB_OP_NEGATE, times(g, d, hb_graph_apply(g, HB_OP_SIN, a, -1)), -1);
        break;
    case HB_OP_TAN:
        da = times(g, d, hb_graph_apply(g, HB_OP_ADD, one, times(g, self, self)));
        break;
    case HB_OP_ASIN:
    case HB_OP_ACOS:
        da = over(g, d, hb_graph_apply(g, HB_OP_SQRT, minus(g, one, times(g, a, a)), -1));
        if (n.op == HB_OP_ACOS)
            da = hb_graph_apply(g, HB_OP_NEGATE, da, -1);
        break;
    case HB_OP_ATAN:
        da = over(g, d, hb_graph_apply(g, HB_OP_ADD, one, times(g, a, a)));
        break;
    case HB_OP_ATAN2: {
        int square = hb_graph_apply(g, HB_OP_ADD, times(g, a, a), times(g, b, b));
        int r = over(g, d, hb_graph_apply(g, HB_OP_MAX, square, times(g, least, least)));
        da = times(g, b, r);
        db = hb_graph_apply(g, HB_OP_NEGATE, times(g, a, r), -1);
        break;
    }
    case HB_OP_TANH:
        da = times(g, d, minus(g, one, times(g, self, self)));
        break;
    case HB_OP_EXP:
        da = times(g, d, self);
        break;
    case HB_OP_LOG:
        da = over(g, d, a);
        break;
    case HB_OP_SQRT:
        da = over(g, times(g, hb_graph_constant(g, 0.5), d), hb_graph_apply(g, HB_OP_MAX, self, least));
        break;
    case HB_OP_ABS:
        da = times(g, d, hb_graph_apply(g, HB_OP_SIGN, a, -1));
        break;
    case HB_OP_MIN:
    case HB_OP_MAX: {
        /* the one that is taken; the first where both are the same */
        int second = n.op == HB_OP_MIN ? hb_graph_apply(g, HB_OP_LESS, b, a) : hb_graph_apply(g, HB_OP_LESS, a, b);
        db = times(g, d, second);
        da = minus(g, d, db);
        break;
    }
    default: /* constants and inputs have no operands; sign and less are flat */
        break;
    }
    if (da >= 0 && !hb_graph_is_constant(g, a))
        add_to(g, to_a, da);
    if (db >= 0 && !hb_graph_is_constant(g, b))
        add_to(g, to_b, db);
}

void hb_graph_adjoint(hb_graph *g, int noutputs, const int *output, int *gradient)
{
    const int n = g->n;

    for (int i = 0; i < n; i++)
        gradient[i] = -1;
    for (int k = 0; k < noutputs; k++)
        add_to(g, &gradient[output[k]], hb_graph_input(g, HB_ROWS_GIVEN, k));
    for (int i = n - 1; i >= 0; i--)
        if (gradient[i] >= 0 && g->node[i].a >= 0) {
            int none = -1;
            pull_back(g, i, gradient[i], &gradient[g->node[i].a], g->node[i].b >= 0 ? &gradient[g->node[i].b] : &none);
        }
}
