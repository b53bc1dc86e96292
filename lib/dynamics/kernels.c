#include "dynamics/kernels.h"

#include <stdlib.h>
#include <string.h>

extern const hb_kernels hb_kernels_generic;
#ifdef __x86_64__
extern const hb_kernels hb_kernels_avx512, hb_kernels_avx2;
#endif

size_t hb_kernels_slope_size(hb_activation activation, int rows)
{
    const size_t row = activation == HB_RELU ? HB_STRIDE / HB_LANES * sizeof(uint16_t) : HB_STRIDE * sizeof(hb_real);
    return ((size_t)rows * row + HB_ALIGNMENT - 1) / HB_ALIGNMENT * HB_ALIGNMENT;
}

/* The lanes that copy one source form a run. Each run is written in whole groups of lanes, and the next run overwrites
 * what is too much, so that every store is a whole vector. */
void hb_kernels_spread(int rows, const hb_real *from, int first, int repeat, int n, hb_real *to)
{
    const int last = (first + n - 1) / repeat, lanes = hb_padded(n);

    for (int r = 0; r < rows; r++, from += HB_STRIDE, to += HB_STRIDE)
        for (int source = first / repeat; source <= last; source++) {
            const hb_real value = from[source];
            const int begin = source * repeat > first ? source * repeat - first : 0;
            const int end = source < last ? (source + 1) * repeat - first : lanes;
            int s = begin;
            for (; s < end && s + HB_LANES <= HB_STRIDE; s += HB_LANES)
                for (int i = 0; i < HB_LANES; i++)
                    to[s + i] = value;
            for (; s < end; s++)
                to[s] = value;
        }
}

/* the same for rows of bits, one word for each group of lanes */
static void spread_bits(int rows, const uint16_t *from, int first, int repeat, int n, uint16_t *to)
{
    enum { WORDS = HB_STRIDE / HB_LANES };
    const int last = (first + n - 1) / repeat, lanes = hb_padded(n);

    for (int g = 0; g < lanes / HB_LANES; g++) {
        const int low = g * HB_LANES;
        const int from_source = (first + low) / repeat < last ? (first + low) / repeat : last;
        const int to_source =
            (first + low + HB_LANES - 1) / repeat < last ? (first + low + HB_LANES - 1) / repeat : last;
        for (int r = 0; r < rows; r++)
            to[r * WORDS + g] = 0;
        for (int source = from_source; source <= to_source; source++) {
            const int begin = source * repeat - first > low ? source * repeat - first - low : 0;
            const int end = source < last && (source + 1) * repeat - first < low + HB_LANES
                                ? (source + 1) * repeat - first - low
                                : HB_LANES;
            const unsigned mask = (1u << end) - (1u << begin);
            for (int r = 0; r < rows; r++) {
                const unsigned bit = from[r * WORDS + source / HB_LANES] >> source % HB_LANES & 1;
                to[r * WORDS + g] = (uint16_t)(to[r * WORDS + g] | (mask & (0u - bit)));
            }
        }
    }
}

void hb_kernels_spread_slopes(hb_activation activation, int rows, const void *from, int first, int repeat, int n,
                              void *to)
{
    if (activation == HB_RELU)
        spread_bits(rows, from, first, repeat, n, to);
    else
        hb_kernels_spread(rows, from, first, repeat, n, to);
}

const hb_kernels *hb_kernels_at(int index)
{
    const hb_kernels *here[4] = {0};
    int n = 0;

#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        here[n++] = &hb_kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        here[n++] = &hb_kernels_avx2;
#endif
    here[n++] = &hb_kernels_generic;
    return index >= 0 && index < n ? here[index] : NULL;
}

const hb_kernels *hb_kernels_find(const char *name)
{
    const hb_kernels *k;

    for (int i = 0; (k = hb_kernels_at(i)); i++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

const hb_kernels *hb_kernels_default(void)
{
    const char *wanted = getenv("HILBERT_KERNEL");
    const hb_kernels *found = wanted ? hb_kernels_find(wanted) : NULL;
    return found ? found : hb_kernels_at(0);
}
