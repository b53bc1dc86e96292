#include "estimate/arithmetic.h"

#include <stddef.h>
#include <string.h>

extern const hb_arithmetic hb_arithmetic_generic, hb_arithmetic_avx2, hb_arithmetic_avx512;

const hb_arithmetic *hb_arithmetic_find(const char *kernels)
{
#ifdef __x86_64__
    if (strcmp(kernels, hb_arithmetic_avx512.name) == 0)
        return &hb_arithmetic_avx512;
    if (strcmp(kernels, hb_arithmetic_avx2.name) == 0)
        return &hb_arithmetic_avx2;
#endif
    (void)kernels;
    return &hb_arithmetic_generic;
}
