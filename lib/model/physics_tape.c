/* Running a tape: each operation on all lanes, whole vectors of them. */
#include <math.h>

#include "model/physics_graph.h"

#ifdef HB_DOUBLE
#define REAL(function) function
#else
#define REAL(function) function##f
#endif

/* out[s] = expression of a[s], b[s], c[s] and k; rows do not overlap */
#define LANES(expression)                                                                                              \
    for (int first = 0; first < lanes; first += HB_LANES)                                                              \
        for (int s = first; s < first + HB_LANES; s++)                                                                 \
            out[s] = (expression);                                                                                     \
    break

static inline __attribute__((always_inline)) void run_one(uint16_t code, hb_real *restrict out, const hb_real *a,
                                                          const hb_real *b, const hb_real *c, hb_real k, int lanes)
{
    switch ((hb_op)code) {
    case HB_OP_CONSTANT:
    case HB_OP_INPUT:
        break; /* never on a tape */
    case HB_OP_FILL:
        LANES(k);
    case HB_OP_COPY:
        LANES(a[s]);
    case HB_OP_NEGATE:
        LANES(-a[s]);
    case HB_OP_ADD:
        LANES(a[s] + b[s]);
    case HB_OP_SUBTRACT:
        LANES(a[s] - b[s]);
    case HB_OP_MULTIPLY:
        LANES(a[s] * b[s]);
    case HB_OP_DIVIDE:
        LANES(a[s] / b[s]);
    case HB_OP_ADD_K:
        LANES(a[s] + k);
    case HB_OP_K_SUBTRACT:
        LANES(k - a[s]);
    case HB_OP_MULTIPLY_K:
        LANES(a[s] * k);
    case HB_OP_K_DIVIDE:
        LANES(k / a[s]);
    case HB_OP_MULTIPLY_ADD:
        LANES(a[s] * b[s] + c[s]);
    case HB_OP_MULTIPLY_SUBTRACT:
        LANES(a[s] * b[s] - c[s]);
    case HB_OP_SUBTRACT_PRODUCT:
        LANES(c[s] - a[s] * b[s]);
    case HB_OP_MULTIPLY_K_ADD:
        LANES(a[s] * k + b[s]);
    case HB_OP_POWER:
        LANES(REAL(pow)(a[s], b[s]));
    case HB_OP_SIN:
        LANES(REAL(sin)(a[s]));
    case HB_OP_COS:
        LANES(REAL(cos)(a[s]));
    case HB_OP_TAN:
        LANES(REAL(tan)(a[s]));
    case HB_OP_ASIN:
        LANES(REAL(asin)(a[s]));
    case HB_OP_ACOS:
        LANES(REAL(acos)(a[s]));
    case HB_OP_ATAN:
        LANES(REAL(atan)(a[s]));
    case HB_OP_ATAN2:
        LANES(REAL(atan2)(a[s], b[s]));
    case HB_OP_TANH:
        LANES(REAL(tanh)(a[s]));
    case HB_OP_EXP:
        LANES(REAL(exp)(a[s]));
    case HB_OP_LOG:
        LANES(REAL(log)(a[s]));
    case HB_OP_SQRT:
        LANES(REAL(sqrt)(a[s]));
    case HB_OP_ABS:
        LANES(REAL(fabs)(a[s]));
    case HB_OP_SIGN:
        LANES((hb_real)((a[s] > 0) - (a[s] < 0)));
    case HB_OP_MIN:
        LANES(b[s] < a[s] ? b[s] : a[s]);
    case HB_OP_MAX:
        LANES(a[s] < b[s] ? b[s] : a[s]);
    case HB_OP_LESS:
        LANES(a[s] < b[s] ? 1 : 0);
    }
}

static inline __attribute__((always_inline)) void run_all(const hb_operation *tape, int n,
                                                          hb_real *const space[HB_ROWS_SPACES], int lanes)
{
    for (const hb_operation *o = tape; o < tape + n; o++)
        run_one(o->code, space[o->out.space] + (size_t)o->out.index * HB_STRIDE,
                space[o->a.space] + (size_t)o->a.index * HB_STRIDE, space[o->b.space] + (size_t)o->b.index * HB_STRIDE,
                space[o->c.space] + (size_t)o->c.index * HB_STRIDE, o->k, lanes);
}

void hb_physics_run(const hb_operation *tape, int n, hb_real *const space[HB_ROWS_SPACES], int lanes)
{
    /* few samples are often asked for one step; loops of a known length take less time then */
    if (lanes == HB_LANES)
        run_all(tape, n, space, HB_LANES);
    else
        run_all(tape, n, space, lanes);
}
