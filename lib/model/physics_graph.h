/* The graph of expressions while it is compiled: nodes in the order of their making, so that operands come first. Equal
 * nodes are one, constants are folded. Private to physics*.c. */
#ifndef HB_PHYSICS_GRAPH_H
#define HB_PHYSICS_GRAPH_H

#include "model/physics.h"

/* The rows that an operation may name: their space, and their number in it. */
typedef enum {
    HB_ROWS_SCRATCH,
    HB_ROWS_STATE,
    HB_ROWS_CONTROL,
    HB_ROWS_GIVEN,  /* the adjoint's: gradient of the rates */
    HB_ROWS_FIRST,  /* results: rates, or the gradient of the states */
    HB_ROWS_SECOND, /* the gradient of the controls */
    HB_ROWS_SPACES,
} hb_row_space;

typedef struct hb_row {
    uint16_t space, index;
} hb_row;

/* out = code(a, b, c, k) on all lanes; out is none of a, b and c. */
typedef struct hb_operation {
    uint16_t code; /* hb_op */
    hb_row out, a, b, c;
    hb_real k;
} hb_operation;

/* Runs a tape on `lanes` lanes, a multiple of HB_LANES. */
void hb_physics_run(const hb_operation *tape, int n, hb_real *const space[HB_ROWS_SPACES], int lanes);

/* name, operands. Those from HB_OP_FILL on are made when a tape is laid out. */
#define HB_OPERATIONS(X)                                                                                               \
    X(CONSTANT, 0)                                                                                                     \
    X(INPUT, 0)                                                                                                        \
    X(NEGATE, 1)                                                                                                       \
    X(ADD, 2)                                                                                                          \
    X(SUBTRACT, 2)                                                                                                     \
    X(MULTIPLY, 2)                                                                                                     \
    X(DIVIDE, 2)                                                                                                       \
    X(POWER, 2)                                                                                                        \
    X(SIN, 1)                                                                                                          \
    X(COS, 1)                                                                                                          \
    X(TAN, 1)                                                                                                          \
    X(ASIN, 1)                                                                                                         \
    X(ACOS, 1)                                                                                                         \
    X(ATAN, 1)                                                                                                         \
    X(ATAN2, 2)                                                                                                        \
    X(TANH, 1)                                                                                                         \
    X(EXP, 1)                                                                                                          \
    X(LOG, 1)                                                                                                          \
    X(SQRT, 1)                                                                                                         \
    X(ABS, 1)                                                                                                          \
    X(SIGN, 1)                                                                                                         \
    X(MIN, 2)                                                                                                          \
    X(MAX, 2)                                                                                                          \
    X(LESS, 2)              /* 1 where a < b, else 0: the derivative of min and max */                                 \
    X(FILL, 0)              /* k */                                                                                    \
    X(COPY, 1)              /* a */                                                                                    \
    X(ADD_K, 1)             /* a + k */                                                                                \
    X(K_SUBTRACT, 1)        /* k - a */                                                                                \
    X(MULTIPLY_K, 1)        /* a k */                                                                                  \
    X(K_DIVIDE, 1)          /* k / a */                                                                                \
    X(MULTIPLY_ADD, 3)      /* a b + c */                                                                              \
    X(MULTIPLY_SUBTRACT, 3) /* a b - c */                                                                              \
    X(SUBTRACT_PRODUCT, 3)  /* c - a b */                                                                              \
    X(MULTIPLY_K_ADD, 2)    /* a k + b */

typedef enum {
#define X(name, operands) HB_OP_##name,
    HB_OPERATIONS(X)
#undef X
} hb_op;

typedef struct hb_node {
    uint16_t op;
    hb_row input; /* HB_OP_INPUT */
    int a, b;     /* operands: nodes before this one; -1: none */
    double k;     /* HB_OP_CONSTANT */
} hb_node;

enum { HB_GRAPH_NODES = 4 * HB_PHYSICS_OPERATIONS };

typedef struct hb_graph {
    int n;
    bool full; /* a node found no room: what was made since then is of no use */
    hb_node node[HB_GRAPH_NODES];
    int slot[2 * HB_GRAPH_NODES]; /* hash table of nodes, plus 1; 0: free */
} hb_graph;

static inline bool hb_graph_is_constant(const hb_graph *g, int node)
{
    return g->node[node].op == HB_OP_CONSTANT;
}

/* The node that says this, new or old. A full graph gives node 0 (and there is one always). */
void hb_graph_start(hb_graph *g);
int hb_graph_constant(hb_graph *g, double k);
int hb_graph_input(hb_graph *g, hb_row_space space, int index);
int hb_graph_apply(hb_graph *g, hb_op op, int a, int b);

/* Given the nodes of n outputs: gradient[i], for each node there was before, is the node of
 * sum over outputs k of given_k * d output_k / d node_i, or -1 where that is 0. given_k is input k of HB_ROWS_GIVEN. */
void hb_graph_adjoint(hb_graph *g, int noutputs, const int *output, int *gradient);

/* rate[i] becomes the node of the rate of state i. */
int hb_physics_read(const hb_physics_source *source, hb_graph *graph, int *rate, hb_physics_place *place,
                    hb_error *err);

typedef struct hb_tape {
    int n, rows; /* operations, rows of scratch */
    hb_operation *operation;
} hb_tape;

typedef struct hb_output {
    int node; /* -1: 0 */
    hb_row row;
} hb_output;

/* The tape that writes the outputs; its operations are allocated. */
int hb_tape_lay_out(hb_tape *ret, const hb_graph *g, int noutputs, const hb_output *out, hb_error *err);

#endif
