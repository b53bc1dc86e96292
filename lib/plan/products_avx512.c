/* Matrices are too small for the widest registers: half of one serves better. */
#define HB_PRODUCTS_SYMBOL hb_products_avx512
#define HB_PRODUCTS_NAME   avx512
#define VECTOR_BYTES       32
#include "plan/products_body.h"
