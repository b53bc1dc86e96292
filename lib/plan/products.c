#include "plan/products.h"

#include <string.h>

#include "dynamics/kernels.h"

extern const hb_products hb_products_generic;
#ifdef __x86_64__
extern const hb_products hb_products_avx2, hb_products_avx512;
#endif

const hb_products *hb_products_find(const char *kernels)
{
#ifdef __x86_64__
    if (strcmp(kernels, hb_products_avx512.name) == 0)
        return &hb_products_avx512;
    if (strcmp(kernels, hb_products_avx2.name) == 0)
        return &hb_products_avx2;
#endif
    (void)kernels;
    return &hb_products_generic;
}

const hb_products *hb_products_default(void)
{
    return hb_products_find(hb_kernels_default()->name);
}
