/* The products, written once; included by one file per instruction set, which defines
 *
 *     HB_PRODUCTS_SYMBOL   the constant to define, and HB_PRODUCTS_NAME, its name
 *     VECTOR_BYTES         width of a register
 *
 * A tile of up to four rows of out and one or two vectors of each stays in registers while it is summed up. */
#include "base/unroll.h"
#include "plan/products.h"

typedef double vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(double))));

enum { WIDTH = VECTOR_BYTES / 8, ROWS = 4 };

typedef struct operands {
    int inner;
    const double *x;
    ptrdiff_t row, column;
    const double *z;
    ptrdiff_t z_stride;
    double *out;
    ptrdiff_t out_stride;
} operands;

INLINE void tile(const int rows, const int vectors, const operands *o, int first, int at)
{
    const double *x = o->x + first * o->row, *z = o->z + at;
    double *out = o->out + first * o->out_stride + at;
    vector sum[ROWS][2];

    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
    for (int v = 0; v < vectors; v++)
        sum[r][v] = *(const vector *)(out + r * o->out_stride + v * WIDTH);
    for (int k = 0; k < o->inner; k++, x += o->column, z += o->z_stride) {
        double factor[ROWS];
        int any = 0;
        UNROLL
        for (int r = 0; r < rows; r++) {
            factor[r] = x[r * o->row];
            any |= factor[r] != 0;
        }
        if (!any)
            continue;
        UNROLL
        for (int v = 0; v < vectors; v++) {
            const vector in = *(const vector *)(z + v * WIDTH);
            UNROLL
            for (int r = 0; r < rows; r++)
                sum[r][v] += factor[r] * in;
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++)
        UNROLL
    for (int v = 0; v < vectors; v++)
        *(vector *)(out + r * o->out_stride + v * WIDTH) = sum[r][v];
}

/* columns from `at` on that do not fill a vector */
INLINE void rest(const int rows, const operands *o, int first, int at, int width)
{
    for (; at < width; at++) {
        const double *x = o->x + first * o->row, *z = o->z + at;
        double *out = o->out + first * o->out_stride + at, sum[ROWS];
        UNROLL
        for (int r = 0; r < rows; r++)
            sum[r] = out[r * o->out_stride];
        for (int k = 0; k < o->inner; k++, x += o->column, z += o->z_stride)
            UNROLL
        for (int r = 0; r < rows; r++)
            sum[r] += x[r * o->row] * *z;
        UNROLL
        for (int r = 0; r < rows; r++)
            out[r * o->out_stride] = sum[r];
    }
}

INLINE void add_rows(const int rows, const operands *o, int first, int width)
{
    int at = 0;

    for (; at + 2 * WIDTH <= width; at += 2 * WIDTH)
        tile(rows, 2, o, first, at);
    for (; at + WIDTH <= width; at += WIDTH)
        tile(rows, 1, o, first, at);
    rest(rows, o, first, at, width);
}

static void add(int rows, int inner, int width, const double *x, ptrdiff_t row, ptrdiff_t column, const double *z,
                ptrdiff_t z_stride, double *out, ptrdiff_t out_stride)
{
    const operands o = {inner, x, row, column, z, z_stride, out, out_stride};
    int first = 0;

    for (; first + ROWS <= rows; first += ROWS)
        add_rows(ROWS, &o, first, width);
    for (; first < rows; first++)
        add_rows(1, &o, first, width);
}

static void add_lower(int rows, int inner, const double *x, ptrdiff_t row, ptrdiff_t column, const double *z,
                      ptrdiff_t z_stride, double *out, ptrdiff_t out_stride)
{
    const operands o = {inner, x, row, column, z, z_stride, out, out_stride};
    int first = 0;

    for (; first + ROWS <= rows; first += ROWS)
        add_rows(ROWS, &o, first, first + ROWS);
    for (; first < rows; first++)
        add_rows(1, &o, first, first + 1);
}

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

extern const hb_products HB_PRODUCTS_SYMBOL;
const hb_products HB_PRODUCTS_SYMBOL = {.name = TEXT(HB_PRODUCTS_NAME), .add = add, .add_lower = add_lower};
