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
    for (int i = 0; hb_kernels_at(i); i++)
        if (strcmp(hb_kernels_at(i)->name, name) == 0)
            return hb_kernels_at(i);
    return NULL;
}

const hb_kernels *hb_kernels_default(void)
{
    const char *wanted = getenv("HILBERT_KERNEL");
    const hb_kernels *found = wanted ? hb_kernels_find(wanted) : NULL;
    return found ? found : hb_kernels_at(0);
}
