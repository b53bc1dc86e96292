/* The kernels, written once in GCC vector extensions; included by one file for each instruction set, which defines
 *
 *     HB_KERNELS_SYMBOL  the constant to define, and HB_KERNELS_NAME, its name
 *     VECTOR_BYTES       width of a register
 *     VECTOR_REGISTERS   how many there are
 *
 * y = A x: a tile of `height` rows of A times `width` vectors of x is held in registers. Each step over nin loads
 * `width` vectors and broadcasts `height` numbers for width * height multiply-adds:
 *
 *                     x: width vectors            32 registers: 6 x 4, 8 x 3, 8 x 2, 8 x 1
 *     A: height       +-----------------+         16 registers: 6 x 2, 8 x 1
 *     broadcasts      | sums, registers |
 *
 * All rows of some vectors come before the next vectors, so that x and y of these stay in the first-level cache. */
#include "dynamics/kernels_smooth.h"
#include "dynamics/kernels_vector.h"

/* --- ReLU: its slope is one bit per lane --- */

ALWAYS_INLINE vector positive_part(vector x)
{
    return at_least(splat(0), x);
}

/* rows of bits; vectors of less than a byte of them leave slopes to a pass of its own */
enum { BITS_STRIDE = HB_STRIDE / 8, WHOLE_BYTES = WIDTH % 8 == 0 };

ALWAYS_INLINE unsigned load_bits(const char *from)
{
    uint16_t bits = 0;
    memcpy(&bits, from, WIDTH / 8);
    return bits;
}

ALWAYS_INLINE void store_bits(char *to, unsigned bits)
{
    memcpy(to, &(uint16_t){(uint16_t)bits}, WIDTH / 8);
}

/* --- products --- */

/* what happens to a product on its way to memory */
typedef enum { PLAIN, RELU, RELU_KEEPING_BITS, TIMES_BITS, TIMES_ROWS } ending;

/* where the slope of a row and a lane lies: bits, or numbers */
ALWAYS_INLINE char *slope_at(ending end, char *slope, int row, int lane)
{
    if (!slope)
        return NULL;
    return slope + (end == TIMES_ROWS ? (row * HB_STRIDE + lane) * (int)sizeof(hb_real) : row * BITS_STRIDE + lane / 8);
}

ALWAYS_INLINE vector ended(ending end, vector value, char *slope)
{
    if (end == RELU_KEEPING_BITS)
        store_bits(slope, positive_bits(value));
    if (end == RELU || end == RELU_KEEPING_BITS)
        return positive_part(value);
    if (end == TIMES_BITS)
        return where(load_bits(slope), value);
    if (end == TIMES_ROWS)
        return value * load((const hb_real *)slope);
    return value;
}

ALWAYS_INLINE void put(const ending end, const int height, const int width, vector sum[8][4], hb_real *y,
                       ptrdiff_t y_stride, char *slope)
{
    UNROLL
    for (int r = 0; r < height; r++)
        UNROLL
    for (int v = 0; v < width; v++)
        store(y + r * y_stride + v * WIDTH, ended(end, sum[r][v], slope_at(end, slope, r, v * WIDTH)));
}

ALWAYS_INLINE void tile(const int height, const int width, int nin, const hb_real *a, ptrdiff_t row, ptrdiff_t column,
                        const hb_real *bias, const hb_real *x, ptrdiff_t x_stride, hb_real *y, ptrdiff_t y_stride,
                        ending end, char *slope, hb_ahead *ahead)
{
    vector sum[8][4];

    hb_ahead_fetch(ahead);
    UNROLL
    for (int r = 0; r < height; r++)
        UNROLL
    for (int v = 0; v < width; v++)
        sum[r][v] = splat(bias ? bias[r] : 0);

#pragma GCC unroll 2
    for (int k = 0; k < nin; k++) {
        vector in[4];
        UNROLL
        for (int v = 0; v < width; v++)
            in[v] = load(x + k * x_stride + v * WIDTH);
        UNROLL
        for (int r = 0; r < height; r++) {
            const vector weight = splat(a[r * row + k * column]);
            UNROLL
            for (int v = 0; v < width; v++)
                sum[r][v] += weight * in[v];
        }
    }

    switch (end) {
    case RELU:
        put(RELU, height, width, sum, y, y_stride, slope);
        break;
    case RELU_KEEPING_BITS:
        put(RELU_KEEPING_BITS, height, width, sum, y, y_stride, slope);
        break;
    case TIMES_BITS:
        put(TIMES_BITS, height, width, sum, y, y_stride, slope);
        break;
    case TIMES_ROWS:
        put(TIMES_ROWS, height, width, sum, y, y_stride, slope);
        break;
    default:
        put(PLAIN, height, width, sum, y, y_stride, slope);
    }
}

/* the same for rows that lie in memory already: the few that fill no tile. A version of each height of tile for each
 * ending would be a lot of code. */
static void end_rows(ending end, int rows, int width, hb_real *y, ptrdiff_t y_stride, char *slope)
{
    for (int r = 0; end != PLAIN && r < rows; r++)
        for (int v = 0; v < width; v++) {
            hb_real *at = y + r * y_stride + v * WIDTH;
            store(at, ended(end, load(at), slope_at(end, slope, r, v * WIDTH)));
        }
}

/* all rows of `width` vectors: tiles of full height, then one of what is left */
#define DEFINE_PANEL(width, height)                                                                                    \
    static void panel_##width(int nout, int nin, const hb_real *a, ptrdiff_t row, ptrdiff_t column,                    \
                              const hb_real *bias, const hb_real *x, ptrdiff_t x_stride, hb_real *y,                   \
                              ptrdiff_t y_stride, ending end, char *slope, hb_ahead *ahead)                            \
    {                                                                                                                  \
        int r = 0;                                                                                                     \
        for (; r + height <= nout; r += height)                                                                        \
            tile(height, width, nin, a + r * row, row, column, bias ? bias + r : NULL, x, x_stride, y + r * y_stride,  \
                 y_stride, end, slope_at(end, slope, r, 0), ahead);                                                    \
        a += r * row;                                                                                                  \
        bias = bias ? bias + r : NULL;                                                                                 \
        y += r * y_stride;                                                                                             \
        switch (nout - r) {                                                                                            \
            REST(7, width, height)                                                                                     \
            REST(6, width, height)                                                                                     \
            REST(5, width, height)                                                                                     \
            REST(4, width, height)                                                                                     \
            REST(3, width, height)                                                                                     \
            REST(2, width, height)                                                                                     \
            REST(1, width, height)                                                                                     \
        }                                                                                                              \
        end_rows(end, nout - r, width, y, y_stride, slope_at(end, slope, r, 0));                                       \
    }
#define REST(rest, width, height)                                                                                      \
    case rest:                                                                                                         \
        if (rest < height)                                                                                             \
            tile(rest < height ? rest : 1, width, nin, a, row, column, bias, x, x_stride, y, y_stride, PLAIN, NULL,    \
                 ahead);                                                                                               \
        break;

#if VECTOR_REGISTERS >= 32
DEFINE_PANEL(4, 6)
DEFINE_PANEL(3, 8)
DEFINE_PANEL(2, 8)
DEFINE_PANEL(1, 8)
#else
DEFINE_PANEL(2, 6)
DEFINE_PANEL(1, 8)
#endif

static void product(int nout, int nin, const hb_real *a, ptrdiff_t row, ptrdiff_t column, const hb_real *bias,
                    const hb_real *x, ptrdiff_t x_stride, hb_real *y, ptrdiff_t y_stride, int n, ending end,
                    char *slope, hb_ahead *ahead)
{
    int left = n / WIDTH;

#define PANEL(width)                                                                                                   \
    {                                                                                                                  \
        panel_##width(nout, nin, a, row, column, bias, x, x_stride, y, y_stride, end, slope, ahead);                   \
        x += width * WIDTH;                                                                                            \
        y += width * WIDTH;                                                                                            \
        slope = slope_at(end, slope, 0, width * WIDTH);                                                                \
        left -= width;                                                                                                 \
    }

#if VECTOR_REGISTERS >= 32
    while (left > 0) {
        if (left == 4 || left > 6)
            PANEL(4)
        else if (left == 3 || left > 4)
            PANEL(3)
        else if (left == 2)
            PANEL(2)
        else
            PANEL(1)
    }
#else
    while (left > 0) {
        if (left >= 2)
            PANEL(2)
        else
            PANEL(1)
    }
#endif
#undef PANEL
}

static void affine(int nout, int nin, const hb_real *a, ptrdiff_t row, ptrdiff_t column, const hb_real *bias,
                   const hb_real *x, ptrdiff_t x_stride, hb_real *y, ptrdiff_t y_stride, int n, hb_ahead *ahead)
{
    product(nout, nin, a, row, column, bias, x, x_stride, y, y_stride, n, PLAIN, NULL, ahead);
}

/* --- affine_single: the lanes lie along the rows of A --- */

/* y = bias + A x for `rows` <= WIDTH rows. last: what of x fills no vector, at the end of one that is 0 otherwise; its
 * weights are loaded together with some before them, so that nothing beyond a row is touched. */
ALWAYS_INLINE void dot_products(int rows, int nin, const hb_real *a, const hb_real *bias, const hb_real *x, vector last,
                                hb_real *y)
{
    vector sum[WIDTH] = {0};
    hb_real result[WIDTH];

    for (int k = 0; k + WIDTH <= nin; k += WIDTH) {
        const vector in = load_anywhere(x + k);
        UNROLL
        for (int r = 0; r < WIDTH; r++)
            sum[r] += load_anywhere(a + (r < rows ? r : rows - 1) * nin + k) * in;
    }
    if (nin % WIDTH) {
        UNROLL
        for (int r = 0; r < WIDTH; r++)
            sum[r] += load_anywhere(a + (r < rows ? r + 1 : rows) * nin - WIDTH) * last;
    }

    /* half as many vectors each time, until the sum of row r is lane r of the one that is left */
    UNROLL
    for (int n = WIDTH / 2; n; n /= 2) {
        UNROLL
        for (int r = 0; r < n; r++)
            sum[r] = sum_pairs(sum[2 * r], sum[2 * r + 1]);
    }

    if (rows == WIDTH) {
        store_anywhere(y, load_anywhere(bias) + sum[0]);
        return;
    }
    store_anywhere(result, sum[0]);
    for (int r = 0; r < rows; r++)
        y[r] = bias[r] + result[r];
}

static void affine_single(int nout, int nin, const hb_real *a, const hb_real *bias, const hb_real *x, hb_real *y)
{
    const int whole = nin / WIDTH * WIDTH;
    hb_real last[WIDTH] = {0};
    int r = 0;

    if (nin < WIDTH) {
        for (; r < nout; r++) {
            y[r] = bias[r];
            for (int k = 0; k < nin; k++)
                y[r] += a[r * nin + k] * x[k];
        }
        return;
    }
    memcpy(last + WIDTH - (nin - whole), x + whole, (size_t)(nin - whole) * sizeof *x);
    for (; r + WIDTH <= nout; r += WIDTH)
        dot_products(WIDTH, nin, a + r * nin, bias + r, x, load_anywhere(last), y + r);
    if (r < nout)
        dot_products(nout - r, nin, a + r * nin, bias + r, x, load_anywhere(last), y + r);
}

/* --- few: the lanes lie along the columns of A --- */

/* `width` vectors of outputs of `samples` samples */
ALWAYS_INLINE void few_tile(const int samples, const int width, int nin, const hb_real *columns, ptrdiff_t column,
                            const hb_real *x, ptrdiff_t x_stride, hb_real *y, ptrdiff_t y_stride)
{
    vector sum[4][8];

    UNROLL
    for (int s = 0; s < samples; s++)
        UNROLL
    for (int v = 0; v < width; v++)
        sum[s][v] = load(columns + nin * column + v * WIDTH);

#pragma GCC unroll 2
    for (int k = 0; k < nin; k++) {
        vector weight[8];
        UNROLL
        for (int v = 0; v < width; v++)
            weight[v] = load(columns + k * column + v * WIDTH);
        UNROLL
        for (int s = 0; s < samples; s++) {
            const vector in = splat(x[s * x_stride + k]);
            UNROLL
            for (int v = 0; v < width; v++)
                sum[s][v] += weight[v] * in;
        }
    }
    UNROLL
    for (int s = 0; s < samples; s++)
        UNROLL
    for (int v = 0; v < width; v++)
        store(y + s * y_stride + v * WIDTH, sum[s][v]);
}

/* all outputs: tiles as wide as registers allow, then narrower ones */
#define DEFINE_FEW(samples, width)                                                                                     \
    static void few_##samples(int nout, int nin, const hb_real *columns, const hb_real *x, ptrdiff_t x_stride,         \
                              hb_real *y, ptrdiff_t y_stride)                                                          \
    {                                                                                                                  \
        const int lanes = hb_padded(nout);                                                                             \
        int v = 0;                                                                                                     \
        for (; v + width * WIDTH <= lanes; v += width * WIDTH)                                                         \
            few_tile(samples, width, nin, columns + v, lanes, x, x_stride, y + v, y_stride);                           \
        for (; v < lanes; v += WIDTH)                                                                                  \
            few_tile(samples, 1, nin, columns + v, lanes, x, x_stride, y + v, y_stride);                               \
    }
DEFINE_FEW(1, 8)
DEFINE_FEW(2, 4)
DEFINE_FEW(3, 2)
DEFINE_FEW(4, 2)

static void few(bool activated, hb_activation activation, int nout, int nin, const hb_real *columns, int n,
                const hb_real *x, ptrdiff_t x_stride, hb_real *y, ptrdiff_t y_stride)
{
    static void (*const product_of[HB_FEW])(int nout, int nin, const hb_real *columns, const hb_real *x,
                                            ptrdiff_t x_stride, hb_real *y,
                                            ptrdiff_t y_stride) = {few_1, few_2, few_3, few_4};

    product_of[n - 1](nout, nin, columns, x, x_stride, y, y_stride);
    for (int s = 0; activated && s < n; s++) {
        if (activation != HB_RELU) {
            smooth_span(activation, y + s * y_stride, hb_padded(nout));
            continue;
        }
        for (int v = 0; v < hb_padded(nout); v += WIDTH)
            store(y + s * y_stride + v, positive_part(load(y + s * y_stride + v)));
    }
}

/* --- layers --- */

/* One row of ReLU, or d *= slope of one row, where a product cannot do it in passing. Bits: one word for each group of
 * lanes, or NULL. */
ALWAYS_INLINE void relu(hb_real *y, uint16_t *bits, int n)
{
    for (int g = 0; g < n; g += HB_LANES) {
        unsigned positive = 0;
        UNROLL
        for (int i = 0; i < PER_GROUP; i++) {
            hb_real *at = y + g + i * WIDTH;
            const vector x = load(at);
            if (bits)
                positive |= positive_bits(x) << (i * WIDTH);
            store(at, positive_part(x));
        }
        if (bits)
            bits[g / HB_LANES] = (uint16_t)positive;
    }
}

ALWAYS_INLINE void relu_back(hb_real *d, const uint16_t *bits, int n)
{
    for (int s = 0; s < n; s += WIDTH)
        store(d + s, where((unsigned)bits[s / HB_LANES] >> s % HB_LANES, load(d + s)));
}

static void activate(hb_activation activation, int rows, hb_real *y, void *slope, int n)
{
    if (activation != HB_RELU)
        smooth(activation, rows, y, slope, n);
    for (int r = 0; activation == HB_RELU && r < rows; r++)
        relu(y + r * HB_STRIDE, slope ? (uint16_t *)slope + r * (HB_STRIDE / HB_LANES) : NULL, n);
}

static void times_slope(hb_activation activation, int rows, hb_real *d, const void *slope, int n)
{
    for (int r = 0; r < rows; r++, d += HB_STRIDE) {
        if (activation == HB_RELU)
            relu_back(d, (const uint16_t *)slope + r * (HB_STRIDE / HB_LANES), n);
        for (int s = 0; activation != HB_RELU && s < n; s += WIDTH)
            store(d + s, load(d + s) * load((const hb_real *)slope + r * HB_STRIDE + s));
    }
}

static void layer(hb_activation activation, int nout, int nin, const hb_real *a, const hb_real *bias, const hb_real *x,
                  hb_real *y, void *slope, int n, hb_ahead *ahead)
{
    const bool in_passing = activation == HB_RELU && (WHOLE_BYTES || !slope);
    const ending end = !in_passing ? PLAIN : slope ? RELU_KEEPING_BITS : RELU;

    product(nout, nin, a, nin, 1, bias, x, HB_STRIDE, y, HB_STRIDE, n, end, slope, ahead);
    if (!in_passing)
        activate(activation, nout, y, slope, n);
}

static void layer_back(hb_activation activation, int nout, int nin, const hb_real *a, const hb_real *d, hb_real *below,
                       const void *slope, int n, hb_ahead *ahead)
{
    const bool in_passing = activation != HB_RELU || WHOLE_BYTES;
    const ending end = !in_passing ? PLAIN : activation == HB_RELU ? TIMES_BITS : TIMES_ROWS;

    product(nin, nout, a, 1, nin, NULL, d, HB_STRIDE, below, HB_STRIDE, n, end, (void *)slope, ahead);
    if (!in_passing)
        times_slope(activation, nin, below, slope, n);
}

/* --- gradients of weights: sums over lanes ---
 *
 * Columns that fill vectors are a product like any other, with x transposed; the rest, and gradients of few rows, for
 * which transposing does not pay, are sums of products along the lanes. */

/* A tile of rows of d times four rows of x, each product a vector of sums over every WIDTH-th lane. */
#if VECTOR_REGISTERS >= 32
enum { DOT_ROWS = 6 };
#else
enum { DOT_ROWS = 3 };
#endif

ALWAYS_INLINE void outer_tile(const hb_real *d, const hb_real *x, hb_real *weight, int nin, int n)
{
    vector sum[DOT_ROWS][4];

    UNROLL
    for (int r = 0; r < DOT_ROWS; r++)
        UNROLL
    for (int c = 0; c < 4; c++)
        sum[r][c] = splat(0);
    for (int s = 0; s < n; s += WIDTH) {
        vector left[DOT_ROWS];
        UNROLL
        for (int r = 0; r < DOT_ROWS; r++)
            left[r] = load(d + r * HB_STRIDE + s);
        UNROLL
        for (int c = 0; c < 4; c++) {
            const vector right = load(x + c * HB_STRIDE + s);
            UNROLL
            for (int r = 0; r < DOT_ROWS; r++)
                sum[r][c] += left[r] * right;
        }
    }
    UNROLL
    for (int r = 0; r < DOT_ROWS; r++)
        add_sums_of_four(sum[r][0], sum[r][1], sum[r][2], sum[r][3], weight + r * nin);
}

/* adds a_i . b, over n lanes, to to[i * stride] for each row of a; b NULL: ones. Four rows at a time, so that their
 * sums need not wait for one another; beyond the last row it is used over again. */
ALWAYS_INLINE void add_dots(int rows, const hb_real *a, const hb_real *b, hb_real *to, int stride, int n)
{
    for (int r = 0; r < rows; r += 4) {
        const int count = rows - r < 4 ? rows - r : 4;
        vector sum[4] = {0};
        hb_real total[4] = {0};
        const hb_real *row[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            row[i] = a + (r + (i < count ? i : count - 1)) * HB_STRIDE;
        for (int s = 0; s < n; s += WIDTH) {
            const vector right = b ? load(b + s) : splat(1);
            UNROLL
            for (int i = 0; i < 4; i++)
                sum[i] += load(row[i] + s) * right;
        }
        add_sums_of_four(sum[0], sum[1], sum[2], sum[3], total);
        for (int i = 0; i < count; i++)
            to[(r + i) * stride] += total[i];
    }
}

/* columns first .. nin - 1, so many at a time as stay in the first-level cache while all rows of d go by; what of rows
 * and columns fills no tile is left for the end */
static void outer_along_lanes(int nout, int nin, int first, const hb_real *d, const hb_real *x, hb_real *weight, int n)
{
    enum { AT_A_TIME = 32 };
    const int rows = nout / DOT_ROWS * DOT_ROWS, end = nin - (nin - first) % 4;

    for (int from = first; from < end; from += AT_A_TIME)
        for (int r = 0; r < rows; r += DOT_ROWS)
            for (int c = from; c < from + AT_A_TIME && c < end; c += 4)
                outer_tile(d + r * HB_STRIDE, x + c * HB_STRIDE, weight + r * nin + c, nin, n);
    for (int c = end; c < nin; c++)
        add_dots(rows, d, x + c * HB_STRIDE, weight + c, nin, n);
    for (int r = rows; r < nout; r++)
        add_dots(nin - first, x + first * HB_STRIDE, d + r * HB_STRIDE, weight + r * nin + first, 1, n);
}

/* columns of a product that are worked out together: a panel; and rows, a multiple of the heights of its tiles */
#if VECTOR_REGISTERS >= 32
enum { OUTER_COLUMNS = 3 * WIDTH, OUTER_ROWS = 48 };
#else
enum { OUTER_COLUMNS = 2 * WIDTH, OUTER_ROWS = 48 };
#endif

/* xt (n x OUTER_COLUMNS) = x^T for x (rows x HB_STRIDE), in squares of four */
ALWAYS_INLINE void transpose(int rows, int n, const hb_real *x, hb_real *xt)
{
    typedef hb_real four __attribute__((vector_size(4 * sizeof(hb_real))));
    int r = 0;

    for (; r + 4 <= rows; r += 4)
        for (int s = 0; s < n; s += 4) {
            const hb_real *at = x + r * HB_STRIDE + s;
            const four a = *(const four *)at, b = *(const four *)(at + HB_STRIDE),
                       c = *(const four *)(at + 2 * HB_STRIDE), d = *(const four *)(at + 3 * HB_STRIDE);
            const four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                       ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7),
                       cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                       cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
            hb_real *to = xt + s * OUTER_COLUMNS + r;
            *(four *)to = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
            *(four *)(to + OUTER_COLUMNS) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
            *(four *)(to + 2 * OUTER_COLUMNS) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
            *(four *)(to + 3 * OUTER_COLUMNS) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
        }
    for (; r < rows; r++)
        for (int s = 0; s < n; s++)
            xt[s * OUTER_COLUMNS + r] = x[r * HB_STRIDE + s];
}

/* `columns` that fill vectors, from `first` on */
static void outer_transposed(int nout, int nin, int first, int columns, const hb_real *d, const hb_real *x,
                             hb_real *weight, int n)
{
    hb_real xt[HB_STRIDE * OUTER_COLUMNS] __attribute__((aligned(HB_ALIGNMENT)));
    hb_real sums[OUTER_ROWS * OUTER_COLUMNS] __attribute__((aligned(HB_ALIGNMENT)));

    transpose(columns, n, x + first * HB_STRIDE, xt);
    for (int r = 0; r < nout; r += OUTER_ROWS) {
        const int rows = nout - r < OUTER_ROWS ? nout - r : OUTER_ROWS;

        product(rows, n, d + r * HB_STRIDE, HB_STRIDE, 1, NULL, xt, OUTER_COLUMNS, sums, OUTER_COLUMNS, columns, PLAIN,
                NULL, NULL);
        for (int i = 0; i < rows; i++)
            for (int c = 0; c < columns; c += WIDTH) {
                hb_real *to = weight + (r + i) * nin + first + c;
                store_anywhere(to, load_anywhere(to) + load(sums + i * OUTER_COLUMNS + c));
            }
    }
}

static void outer(int nout, int nin, const hb_real *d, const hb_real *x, hb_real *weight, hb_real *bias, int n)
{
    enum { MANY_ROWS = 32 };
    int first = 0;

    while (nout >= MANY_ROWS && nin - first >= WIDTH) {
        const int whole = (nin - first) / WIDTH * WIDTH, columns = whole < OUTER_COLUMNS ? whole : OUTER_COLUMNS;
        outer_transposed(nout, nin, first, columns, d, x, weight, n);
        first += columns;
    }
    outer_along_lanes(nout, nin, first, d, x, weight, n);
    add_dots(nout, d, NULL, bias, 1, n);
}

/* --- rows --- */

static void combine(int rows, int n, const hb_real *base, hb_real factor, const hb_real *of_row, const hb_real *of_lane,
                    const hb_real *x, hb_real *y)
{
    for (int r = 0; r < rows; r++) {
        const hb_real mine = of_row ? factor * of_row[r] : factor;
        for (int s = 0; s < n; s += WIDTH) {
            const int at = r * HB_STRIDE + s;
            const vector weight = of_lane ? mine * load_anywhere(of_lane + s) : splat(mine);
            store_anywhere(y + at, (base ? load_anywhere(base + at) : splat(0)) + weight * load_anywhere(x + at));
        }
    }
}

#define STRING_OF(x) #x
#define NAME_OF(x)   STRING_OF(x)
extern const hb_kernels HB_KERNELS_SYMBOL;
const hb_kernels HB_KERNELS_SYMBOL = {
    .name = NAME_OF(HB_KERNELS_NAME),
    .affine = affine,
    .affine_single = affine_single,
    .few = few,
    .activate = activate,
    .layer = layer,
    .layer_back = layer_back,
    .times_slope = times_slope,
    .outer = outer,
    .combine = combine,
};
